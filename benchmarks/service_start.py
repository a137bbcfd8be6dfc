"""Time from the start of the service to its first decision, after it was killed with a long journal.

The journal is written by the library, as the service does it: with snapshots, and hashed features. The writer is killed
shortly before it would store a snapshot. Then the service is started, and killed, some times. The goal is five seconds at a million events.
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
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

import rolin

KEY = "benchmark-key-of-the-service"
_BATCH = 500  # decisions
_TAIL = 8000  # events: a snapshot is stored after 10 000


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


def write(path: Path, events: int) -> None:
    """Append decisions, each with its reward, to the journal of a bandit, and kill this process before a snapshot."""
    rng = np.random.default_rng(0)
    bandit: rolin.Bandit[Any] = rolin.Bandit(journal=path, background=True)
    journal = bandit.journal
    assert isinstance(journal, rolin.journal.SQLiteJournal)
    while bandit.version < events or bandit.version - journal.snapshot_versions()[-1] < _TAIL:
        asked = [question(rng) for _ in range(_BATCH)]
        made = bandit.decide_many(
            [{arm["id"]: arm["features"] for arm in each["arms"]} for each in asked],
            situations=[each["situation"] for each in asked],
        )
        bandit.reward_many({each.id: float(rng.random() < 0.3) for each in made})
    os.kill(os.getpid(), signal.SIGKILL)


def measure(events: int, starts: int) -> list[float]:
    """Return events, events after the last snapshot, MB of the journal, and the shortest seconds of some starts."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder)
        Started(data).kill()
        path = data / "bandits" / "default" / "journal.db"
        writer = get_context("spawn").Process(target=write, args=(path, events))
        writer.start()
        writer.join()
        with rolin.journal.SQLiteJournal(path, readonly=True) as journal:
            header, snapshots = journal.header(), journal.snapshot_versions()
        assert header is not None
        times = []
        for _ in range(starts):
            started = Started(data)
            started.kill()
            times.append((started.decided, started.ready))
        decided, ready = min(times)
        return [
            header.last,
            header.last - snapshots[-1],
            path.stat().st_size / 1e6,
            ready,
            decided,
        ]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, nargs="+", default=[1000, 100_000, 1_000_000])
    parser.add_argument("--starts", type=int, default=3)
    given = parser.parse_args()
    print("| events | after the snapshot | journal, MB | ready, s | first decision, s |")
    print("|---|---|---|---|---|", flush=True)
    for events in given.events:
        found = measure(events, given.starts)
        print("| {:.0f} | {:.0f} | {:.0f} | {:.1f} | {:.1f} |".format(*found), flush=True)


if __name__ == "__main__":
    main()
