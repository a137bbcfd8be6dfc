"""Compare a million updates with exact sums of the raw data, for up to 1000 features.

The test suite runs the same comparison on many kinds of features with d = 10, and with fewer updates on
more features. The large cases take too long for it: about 15 minutes for d = 1000.

    python benchmarks/accuracy.py [--features 1 10 100 1000] [--updates 1000000]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import rolin

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from support.oracles import Exact, History

N_ARMS = 20
CHUNK = 20_000
SCALES = rolin.Scales(arm_std=0.75, noise_std=1.25, coef_std=1.5, coef_mean=0.25)


def history(updates: int, d: int) -> Iterator[History]:
    """Yield dyadic features with an offset, in parts that are made again each time they are needed."""
    theta = np.round(np.random.default_rng(0).normal(size=d) * 64) / 2.0**18
    for start in range(0, updates, CHUNK):
        n = min(CHUNK, updates - start)
        rng = np.random.default_rng([1, start])
        arms = (np.arange(n) + start) % N_ARMS
        x = 2048.0 + rng.integers(-64, 65, (n, d)) / 64.0
        signal = x @ theta + arms / N_ARMS + rng.normal(size=n)
        yield History(arms, x, np.round(signal * 256) / 256, rng.integers(1, 5, n) / 2.0)


def main() -> None:
    """Print the largest relative error of the updated and of the rebuilt posterior."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0] if __doc__ else None)
    parser.add_argument("--features", type=int, nargs="+", default=[1, 10, 100, 1000])
    parser.add_argument("--updates", type=int, default=1_000_000)
    options = parser.parse_args()
    for d in options.features:
        posterior = rolin.Posterior(SCALES, d)
        started, done = time.perf_counter(), 0
        for part in history(options.updates, d):
            posterior.observe_many(part.arms.tolist(), part.x, part.r, part.h)
            done += len(part.r)
            took = time.perf_counter() - started
            left = took / done * (options.updates - done)
            print(f"\rd = {d}: {done} updates, {left:.0f} s left    ", end="", file=sys.stderr)
        print(file=sys.stderr)
        exact = Exact(SCALES, history(options.updates, d), N_ARMS)
        contexts = next(history(CHUNK, d)).x[:100]
        rebuilt = rolin.Posterior.of(SCALES, posterior.moments)
        print(
            f"d = {d:4d}, {options.updates} updates at {1e6 * took / done:.1f} µs: relative error "
            f"updated {exact.error_of(posterior, contexts):.1e}, "
            f"rebuilt {exact.error_of(rebuilt, contexts):.1e}",
            flush=True,
        )


if __name__ == "__main__":
    main()
