"""Compare the time of `Bandit.decide` with that of an earlier commit, and check that the decisions are the same.

    python benchmarks/hot_path.py [--base COMMIT] [--turns 5] [--only NAME …]

The sources of the earlier commit are written to a temporary folder. Both versions run in processes of their own, in
turn. They use the same questions and the same learned rewards. Times are those of the thread, not of the clock.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from io import BytesIO
from itertools import cycle
from pathlib import Path
from time import thread_time
from typing import Any

import numpy as np

BASE = "62213fe4a7169b010a1ed578b039b9d87a3a047e"
"""The last commit before decisions had digests of their questions."""
ROOT = Path(__file__).resolve().parent.parent
CASES = (
    "declared, d = 110",
    "declared, d = 231",
    "hashed, d = 256",
    "vectors, d = 10",
    "policy, d = 10",
)
REWARDS = (0, 300, 3000)
K, QUESTIONS, BLOCKS, BLOCK = 50, 20, 20, 40
NUMBERS = [f"n{i}" for i in range(5)]
CHECKED = 200
"""Number of decisions that are compared."""


# -- one version, in a process of its own ------------------------------------------------------


def measure(cases: list[str]) -> dict[str, Any]:
    """Return the times, the arms and the probabilities of every case."""
    return {f"{case}, {n} rewards": run(case, n) for case in cases for n in REWARDS}


def run(case: str, n_rewards: int) -> dict[str, Any]:
    """Return µs per decision of every block, and what was decided under given ids."""
    from known import SAMPLING

    import rolin

    rng = np.random.default_rng(n_rewards)
    feature_map = map_of(case)
    d = feature_map.n_features if feature_map is not None else 10
    policy = rolin.RoLinTS(n_features=d, seed=0, **SAMPLING)
    questions = [question(rng, feature_map, d) for _ in range(QUESTIONS)]
    vectors = [
        feature_map.contexts(q["contexts"], q["situation"]) if feature_map else q["contexts"]
        for q in questions
    ]
    names = [f"arm {k}" for k in range(K)]
    theta = rng.normal(size=d)
    chosen = rng.integers(0, K, n_rewards)
    x = np.array([vectors[i % QUESTIONS][k] for i, k in enumerate(chosen)]).reshape(n_rewards, d)
    policy.update_many([names[k] for k in chosen], x, x @ theta + rng.normal(size=n_rewards))
    bandit = rolin.Bandit(policy, feature_map=feature_map, snapshot_every=None)
    turns = cycle(questions)
    if case.startswith("policy"):
        call: Callable[[], object] = lambda: policy.decide(next(turns)["contexts"], names)  # noqa: E731
    else:
        call = lambda: bandit.decide(**next(turns))  # noqa: E731
    decided = [bandit.decide(**next(turns), id=f"visit {i}") for i in range(CHECKED)]
    return {
        "micro": [block(call) for _ in range(BLOCKS)],
        "arms": [decision.arm for decision in decided],
        "probabilities": [decision.propensities.tolist() for decision in decided],
    }


def block(call: Callable[[], object]) -> float:
    """Return µs per call."""
    gc.collect(0)
    gc.disable()
    start = thread_time()
    for _ in range(BLOCK):
        call()
    spent = thread_time() - start
    gc.enable()
    return 1e6 * spent / BLOCK


def map_of(case: str) -> Any:
    """Return the feature map of a case; `None` for vectors."""
    from rolin.features import Boolean, Category, FeatureMap, HashedFeatures, Number

    if case.startswith("hashed"):
        return HashedFeatures(256)
    if not case.startswith("declared"):
        return None
    genres, brands = (1, 1) if case.endswith("110") else (7, 6)
    return FeatureMap(
        {
            "device": Category(["phone", "desktop"]),
            "hour": Number(center=12.0, scale=6.0),
            "country": Category(["de", "us", "fr"]),
            "new": Boolean(),
            "age": Number(scale=40.0),
        },
        {
            **{name: Number(center=0.5, scale=0.3) for name in NUMBERS},
            "genre": Category([f"g{i}" for i in range(genres)]),
            "brand": Category([f"b{i}" for i in range(brands)]),
        },
    )


def question(rng: np.random.Generator, feature_map: Any, d: int) -> dict[str, Any]:
    """Return a question, as a service would parse it."""
    if feature_map is None:
        return {
            "contexts": rng.uniform(-1.0, 1.0, (K, d)),
            "arms": [f"arm {k}" for k in range(K)],
        }
    situation = {
        "device": str(rng.choice(["phone", "desktop"])),
        "hour": int(rng.integers(24)),
        "country": str(rng.choice(["de", "us", "fr"])),
        "new": bool(rng.integers(2)),
        "age": int(rng.integers(18, 80)),
    }
    arms = {
        f"arm {k}": {
            **{name: float(rng.random()) for name in NUMBERS},
            "genre": f"g{k % 7}",
            "brand": f"b{k % 5}",
        }
        for k in range(K)
    }
    parsed: dict[str, Any] = json.loads(json.dumps({"contexts": arms, "situation": situation}))
    return parsed


# -- both versions, in turn --------------------------------------------------------------------


def main() -> None:
    """Print a table of both versions."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0] if __doc__ else None)
    parser.add_argument("--base", default=BASE, help="the earlier commit")
    parser.add_argument("--turns", type=int, default=5, help="how often each version runs")
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES), help="cases")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(
            ["git", "archive", options.base, "src"], cwd=ROOT, check=True, capture_output=True
        ).stdout
        with tarfile.open(fileobj=BytesIO(archive)) as tar:
            tar.extractall(folder, filter="data")
        sources = [Path(folder) / "src", ROOT / "src"]
        found: list[list[dict[str, Any]]] = [[], []]
        for _ in range(options.turns):
            for source, results in zip(sources, found, strict=True):
                results.append(in_process(source, options.only))
    print(report(*found))


def in_process(source: Path, cases: list[str]) -> dict[str, Any]:
    """Measure the version of `rolin` in a folder."""
    one = {f"{name}_NUM_THREADS": "1" for name in ("OPENBLAS", "OMP", "MKL", "NUMBA")}
    done = subprocess.run(
        [sys.executable, __file__, "--measure", *cases],
        env={**os.environ, **one, "PYTHONPATH": str(source)},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def report(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> str:
    """Return the times of both versions, and whether their decisions agree."""
    from report import number, table

    rows = []
    for case in old[0]:
        times = [np.array([turn[case]["micro"] for turn in turns]) for turns in (old, new)]
        least, middle = ([f(t) for t in times] for f in (np.min, np.median))
        first, last = old[0][case], new[-1][case]
        error = np.abs(np.subtract(first["probabilities"], last["probabilities"])).max()
        rows.append(
            [
                case,
                *(f"{number(a)} / {number(b)}" for a, b in zip(least, middle, strict=True)),
                f"{least[0] / least[1]:.2f} / {middle[0] / middle[1]:.2f}",
                "yes" if first["arms"] == last["arms"] else "NO",
                f"{error:.0e}",
            ]
        )
    header = [
        "µs per decision, min / median",
        "earlier",
        "now",
        "ratio",
        "same arms",
        "probabilities differ by",
    ]
    return table(header, rows)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        print(json.dumps(measure(sys.argv[2:])))
    else:
        main()
