"""How much a service needs: CPU and bytes per decision, memory per bandit, and the time to start.

Run it with `python benchmarks/sizing.py [decisions|memory|start]`.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from service import feature_map, question

import rolin
from rolin import Bandit
from rolin.journal import SQLiteJournal, load_policy
from rolin.journal.folding import state_bytes
from rolin.service.building import feature_map_of

D, ROUNDS, BATCH = 231, 96, 32


def decisions() -> None:
    """Questions of 50 arms with 7 fields, 32 per commit, and a reward each, with the journal compressed or not."""
    rng = np.random.default_rng(0)
    asked = [json.loads(question(rng, str(i), D)) for i in range(ROUNDS * BATCH // 8)]
    texts = [msgspec.json.encode([q.get("situation"), q["arms"]]) for q in asked]
    print(f"a question has {np.mean([len(text) for text in texts]):.0f} bytes")
    for compress in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "j.db"
            _decisions(path, asked, compress)


def _decisions(path: Path, asked: list[Any], compress: bool) -> None:
    features = feature_map_of(feature_map(D))
    assert features is not None
    with SQLiteJournal(path, compress=compress) as journal:
        policy = rolin.RoLinTS(n_features=features.n_features, seed=1)
        bandit = Bandit(policy, feature_map=features, journal=journal, snapshot_every=None)
        rows = [{arm["id"]: arm["features"] for arm in q["arms"]} for q in asked]
        bandit.decide_many(rows[:1], situations=[asked[0].get("situation")])  # compiles
        ids: list[str] = []
        sizes, times = [_size(journal)], [time.process_time()]
        for i in range(ROUNDS):
            few = [(i * BATCH + k) % len(asked) for k in range(BATCH)]
            situations = [asked[k].get("situation") for k in few]
            made = bandit.decide_many([rows[k] for k in few], situations=situations)
            ids += [decision.id for decision in made]
        times.append(time.process_time())
        sizes.append(_size(journal))
        for i in range(0, len(ids), BATCH):
            bandit.reward_many(dict.fromkeys(ids[i : i + BATCH], 1.0))
        times.append(time.process_time())
        sizes.append(_size(journal))
        load_policy(journal, from_start=True)
        replayed = (time.process_time() - times[-1]) / (2 * len(ids))
    print(f"compress={compress}: replay {replayed * 1e6:.0f} us per event")
    for what, k in (("decision", 1), ("reward", 2)):
        spent, grown = times[k] - times[k - 1], sizes[k] - sizes[k - 1]
        print(
            f"compress={compress}: {what} {spent / len(ids) * 1e6:.0f} us, {grown / len(ids):.0f} bytes"
        )


def _size(journal: SQLiteJournal) -> int:
    journal.wipe_log()
    return journal.path.stat().st_size


def memory() -> None:
    """Print what a bandit adds to a process, by features and arms with rewards."""
    for d, arms in ((10, 100), (10, 10_000), (110, 100), (231, 100), (231, 10_000), (1000, 100)):
        subprocess.run([sys.executable, __file__, "one", str(d), str(arms)], check=True)


def one(d: int, arms: int) -> None:
    """Print the memory of one bandit, in a process of its own."""
    rng = np.random.default_rng(0)
    _learned(4, 30, rng)
    gc.collect()
    before = _resident()
    policies = [_learned(d, arms, rng) for _ in range(3)]
    gc.collect()
    each, state = (_resident() - before) / len(policies), len(state_bytes(policies[0]))
    print(f"d={d}, arms={arms}: {each / 1e6:.1f} MB, state {state / 1e6:.2f} MB")


def _learned(d: int, arms: int, rng: np.random.Generator) -> rolin.RoLinTS:
    policy = rolin.RoLinTS(n_features=d, seed=1)
    for k in range(arms):
        policy.update(f"arm-{k}", rng.normal(size=d), 1.0)
    policy.decide(rng.normal(size=(3, d)))
    return policy


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def start() -> None:
    """Print the seconds until a service with a journal of many events is ready, three times each."""
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as name:
        data = Path(name)
        (data / "bandits.toml").write_text(
            '[shop]\nfeatures = {kind = "vectors", n_features = 10}\n'
        )
        print("0 events:", _ready(data), _ready(data), _ready(data), flush=True)
        path = data / "bandits" / "shop" / "journal.db"
        for target in (100_000, 1_000_000):
            with Bandit(journal=path, background=True) as bandit:
                while bandit.version < target:
                    x = rng.normal(size=(500, 5, 10))
                    ids = [
                        each.id for each in bandit.decide_many(x, arms=["a", "b", "c", "d", "e"])
                    ]
                    bandit.reward_many(dict(zip(ids, rng.normal(size=500), strict=True)))
            size = f"{path.stat().st_size / 1e6:.0f} MB"
            print(f"{target} events, {size}:", _ready(data), _ready(data), _ready(data), flush=True)


def _ready(data: Path) -> str:
    begin = time.perf_counter()
    command = [sys.executable, "-m", "rolin", "serve", "--port", "8713", "--data", str(data)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while True:
            try:
                urllib.request.urlopen("http://127.0.0.1:8713/readyz")
                break
            except OSError:
                time.sleep(0.02)
        spent = time.perf_counter() - begin
        user, system = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")")[1].split()[11:13]
        cpu = (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
        process.terminate()
    return f"{spent:.1f} s ({cpu:.1f} s CPU)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["decisions", "memory", "start", "one"])
    parser.add_argument("numbers", nargs="*", type=int)
    given = parser.parse_args()
    {"decisions": decisions, "memory": memory, "start": start, "one": one}[given.what](
        *given.numbers
    )


if __name__ == "__main__":
    main()
