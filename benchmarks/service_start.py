"""Time from the start of the service to its first decision, after it was killed with a long journal.

The journal is written by the library, as the service does it: with snapshots, and hashed features. Then the service is
started on it and killed with SIGKILL, some times. The goal is five seconds at a million events.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np

import rolin

KEY = "benchmark-key-of-the-service"
_BATCH = 1000


def call(port: int, path: str, body: Any = None) -> None:
    """Send a request, and read its answer."""
    content = None if body is None else json.dumps(body).encode()
    url = f"http://127.0.0.1:{port}{path}"
    request = urllib.request.Request(url, content, {"Authorization": f"Bearer {KEY}"})
    urllib.request.urlopen(request, timeout=120).close()


def question(rng: np.random.Generator) -> dict[str, Any]:
    """Return fields of a situation and of four arms."""
    return {
        "situation": {"hour": int(rng.integers(24)), "device": f"d{rng.integers(4)}"},
        "arms": [{"id": f"arm-{k}", "features": {"price": int(rng.integers(9))}} for k in range(4)],
    }


class Started:
    """The service in a process, and how long it took to start."""

    def __init__(self, data: Path) -> None:
        begin = time.perf_counter()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "rolin", "serve", "--port", "0", "--data", str(data)],
            env={**os.environ, "ROLIN_API_KEY": KEY, "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline().rpartition(":")[2])
        call(self.port, "/readyz")
        self.ready = time.perf_counter() - begin
        call(self.port, "/v1/bandits/default/decisions", question(np.random.default_rng()))
        self.decided = time.perf_counter() - begin

    def kill(self) -> None:
        """Kill it at once."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def write(path: Path, events: int, rng: np.random.Generator) -> None:
    """Append decisions, each with its reward, to the journal of a bandit."""
    with rolin.Bandit(journal=path, background=True) as bandit:
        while bandit.version < events:
            asked = [question(rng) for _ in range(min(_BATCH, 1 + (events - bandit.version) // 2))]
            made = bandit.decide_many(
                [{arm["id"]: arm["features"] for arm in each["arms"]} for each in asked],
                situations=[each["situation"] for each in asked],
            )
            bandit.reward_many({each.id: float(rng.random() < 0.3) for each in made})


def measure(events: int, starts: int) -> dict[str, float]:
    """Return the shortest times of some starts, in seconds, and the size of the journal in MB."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder)
        first = Started(data)
        first.kill()
        path = data / "bandits" / "default" / "journal.db"
        write(path, events, np.random.default_rng(0))
        times = []
        for _ in range(starts):
            started = Started(data)
            started.kill()
            times.append((started.decided, started.ready))
        decided, ready = min(times)
        size = path.stat().st_size / 1e6
        return {"events": events, "MB": size, "ready": ready, "first decision": decided}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, nargs="+", default=[1000, 100_000, 1_009_999])
    parser.add_argument("--starts", type=int, default=3)
    given = parser.parse_args()
    print("| events | journal, MB | ready, s | first decision, s |\n|---|---|---|---|", flush=True)
    for events in given.events:
        found = measure(events, given.starts)
        print(
            f"| {events} | {found['MB']:.0f} | {found['ready']:.1f} | {found['first decision']:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
