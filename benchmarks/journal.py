"""Section k: time of decisions and rewards with a journal, compared with bare commits to the disk."""

from __future__ import annotations

import os
import sqlite3
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from known import SAMPLING
from report import Section, number, table
from timing import Plan, Task, interleave

import rolin
from rolin.journal import MemoryJournal, SQLiteJournal, load_policy

K, D, BEFORE = 50, 10, 1000
NAMES = [f"arm {k}" for k in range(K)]


def trained(journal: Any, **options: Any) -> tuple[rolin.Bandit, Callable[[], Any], Any]:
    """Return a trained bandit, a function that gives contexts, and one that gives rewards."""
    rng = np.random.default_rng(0)
    policy = rolin.RoLinTS(n_features=D, seed=0, **SAMPLING)
    theta, effects = rng.normal(size=D), dict(zip(NAMES, 0.5 * rng.normal(size=K), strict=True))
    for _ in range(BEFORE):
        decision = policy.decide(rng.uniform(-1.0, 1.0, (K, D)), NAMES)
        mean = decision.context @ theta + effects[decision.arm]
        policy.update(decision.arm, decision.context, float(mean + rng.normal()))
    arrays = [rng.uniform(-1.0, 1.0, (K, D)) for _ in range(50)]
    turn = iter(range(10**9))
    return (
        rolin.Bandit(policy, journal=journal, snapshot_every=None, **options),
        lambda: arrays[next(turn) % 50],
        lambda decision: float(decision.context @ theta + effects[decision.arm]),
    )


def alone(journal: Any, **options: Any) -> Task:
    """One caller: a decision, then its reward."""
    bandit, contexts, reward = trained(journal, **options)

    def run(times: int) -> tuple[float, float]:
        deciding = rewarding = 0.0
        for _ in range(times):
            start = perf_counter()
            decision = bandit.decide(contexts(), NAMES)
            middle = perf_counter()
            bandit.reward(decision.id, reward(decision))
            deciding += middle - start
            rewarding += perf_counter() - middle
        return deciding, rewarding

    return run


def together(journal: Any, threads: int) -> Task:
    """Several callers at once: the time until all of them have made their decisions and rewards."""
    bandit, contexts, reward = trained(journal)

    def run(times: int) -> tuple[float, float]:
        each = max(times // threads, 1)

        def decide_all(out: list[Any]) -> None:
            out += [bandit.decide(contexts(), NAMES) for _ in range(each)]

        def reward_all(decisions: list[Any]) -> None:
            for decision in decisions:
                bandit.reward(decision.id, reward(decision))

        made: list[list[Any]] = [[] for _ in range(threads)]
        spent = []
        for work in (decide_all, reward_all):
            workers = [threading.Thread(target=work, args=(own,)) for own in made]
            start = perf_counter()
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
            spent.append((perf_counter() - start) * times / (each * threads))
        return spent[0], spent[1]

    return run


def batches(journal: Any, size: int) -> Task:
    """One caller, with many decisions and rewards per call."""
    bandit, contexts, reward = trained(journal)

    def run(times: int) -> tuple[float, float]:
        deciding = rewarding = 0.0
        for _ in range(0, times, size):
            batch = [contexts() for _ in range(size)]
            start = perf_counter()
            decisions = bandit.decide_many(batch, NAMES)
            middle = perf_counter()
            bandit.reward_many({d.id: reward(d) for d in decisions})
            deciding += middle - start
            rewarding += perf_counter() - middle
        scale = times / (-(-times // size) * size)
        return deciding * scale, rewarding * scale

    return run


def floor(folder: Path) -> Task:
    """Only a commit of the same number of bytes, by the same database with the same settings."""
    db = sqlite3.connect(folder / "floor.db", isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute("CREATE TABLE t (x BLOB)")
    row = os.urandom(8 * K * (D + 1) + 12 * K)

    def run(times: int) -> tuple[float, float]:
        start = perf_counter()
        for _ in range(times):
            db.execute("INSERT INTO t VALUES (?)", (row,))
        middle = perf_counter()
        for _ in range(times):
            db.execute("INSERT INTO t VALUES (?)", (row[: 8 * D],))
        return middle - start, perf_counter() - middle

    return run


def starting(folder: Path) -> str:
    """Describe how long a start from a journal of 5000 rewards takes, without and with a snapshot."""
    with rolin.Bandit(
        rolin.RoLinTS(n_features=D, seed=0, **SAMPLING), journal=folder / "start.db"
    ) as bandit:
        rng = np.random.default_rng(0)
        for _ in range(50):
            decisions = bandit.decide_many(rng.uniform(-1.0, 1.0, (100, K, D)), NAMES)
            bandit.reward_many({d.id: float(rng.normal()) for d in decisions})
        start = perf_counter()
        load_policy(bandit.journal, from_start=True)
        whole = perf_counter() - start
        bandit.snapshot()
        start = perf_counter()
        load_policy(bandit.journal)
        return (
            f"Folding 5000 rewards from the journal takes {whole:.2f} s ({whole / 5000 * 1e6:.0f} µs each); a start "
            f"from a snapshot takes {(perf_counter() - start) * 1e3:.0f} ms."
        )


def journals(plan: Plan, step: Callable[[], None]) -> Section:
    """Time decisions and rewards through `Bandit`."""
    with tempfile.TemporaryDirectory(dir=".") as folder_name:
        folder = Path(folder_name)
        tasks = {
            "memory": alone(MemoryJournal()),
            "memory, without propensities": alone(MemoryJournal(), propensities=False),
            "SQLite, one caller": alone(SQLiteJournal(folder / "one.db")),
            "SQLite, 16 threads": together(SQLiteJournal(folder / "many.db"), 16),
            "SQLite, 100 at once": batches(SQLiteJournal(folder / "batch.db"), 100),
            "the same bytes, committed one by one": floor(folder),
        }
        longer = Plan(plan.blocks, 0.2, plan.budget, plan.least)
        found = interleave(tasks, longer, step)
        text = starting(folder)
    rows = [
        [name, number(t.part(0)), number(t.part(1)), number(2e6 / t.micro)]
        for name, t in found.items()
    ]
    return Section(
        f"k. Decisions with a journal, K = {K}, d = {D}",
        [
            f"`Bandit` after {BEFORE} rewards, with the probability of every arm: µs per decision and per reward, and "
            f"events per second. {text}"
        ],
        [table(["journal", "decide", "reward", "events per second"], rows)],
        [],
        {name: timing.parts.tolist() for name, timing in found.items()},
    )
