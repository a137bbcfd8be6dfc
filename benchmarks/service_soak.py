"""32 connections for some minutes: memory, latency and the write-ahead log must not grow.

Every connection decides and rewards as fast as it is answered. Slopes are those of a straight line through all windows
but the first third, in which caches fill, with twice their standard error. On a machine that others use, trust the CPU
time per request rather than the latency.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np

KEY = "benchmark-key-of-the-service"
V1 = "/v1/bandits/default"


def memory_of(pid: int) -> float:
    """Return the memory of a process in MB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    raise SystemExit("the service has ended")


def wait_for(port: int) -> None:
    """Wait until the service is ready: on a new machine it compiles for a minute."""
    for _ in range(600):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz").close()
            return
        except OSError:  # also 503
            time.sleep(0.2)
    raise SystemExit("the service did not become ready")


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def visit(port: int, k: int, latencies: list[float], end: float) -> None:
    """Decide and reward over one connection until the end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)

    async def post(path: str, body: Any, expected: int) -> None:
        content = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\nContent-Length: {len(content)}\r\n\r\n"
        start = time.perf_counter()
        writer.write(head.encode() + content)
        answer = await reader.readuntil(b"\r\n\r\n")
        if int(answer[9:12]) != expected:
            raise SystemExit(f"unexpected answer: {answer.decode()}{await reader.read(500)!r}")
        found = answer.lower().partition(b"content-length: ")[2]
        if found:
            await reader.readexactly(int(found.partition(b"\r")[0]))
        latencies.append(time.perf_counter() - start)

    rng = np.random.default_rng(k)
    i = 0
    while time.monotonic() < end:
        i += 1
        arms = [
            {"id": f"arm-{a}", "features": {"price": int(rng.integers(9)), "new": bool(a % 2)}}
            for a in range(10)
        ]
        situation = {"hour": int(rng.integers(24)), "device": f"d{rng.integers(5)}"}
        body = {"id": f"{k}-{i}", "arms": arms, "situation": situation, "person": f"p{i % 100}"}
        await post(f"{V1}/decisions", body, 201)
        if i > 5 and i % 4:
            value = float(rng.random() < 0.2)
            await post(f"{V1}/decisions/{k}-{i - 5}/reward", {"value": value}, 204)
    writer.close()


async def soak(
    port: int, pid: int, data: Path, minutes: float, connections: int
) -> list[list[float]]:
    """Return a row per window: minutes, then what `main` names."""
    latencies: list[float] = []
    rows: list[list[float]] = []
    start = time.monotonic()
    end = start + 60 * minutes
    visits = [asyncio.create_task(visit(port, k, latencies, end)) for k in range(connections)]
    journal = data / "bandits" / "default" / "journal.db"
    window = max(3.0, minutes)  # seconds: sixty windows
    while time.monotonic() + window < end:
        latencies.clear()
        spent = cpu_seconds(pid)
        await asyncio.sleep(window)
        for done in (task for task in visits if task.done()):
            await done  # which raises its error
        p50, p99 = 1e3 * np.quantile(latencies, [0.5, 0.99])
        log = Path(f"{journal}-wal").stat().st_size / 1e6
        rows.append(
            [
                (time.monotonic() - start) / 60,
                len(latencies) / window,
                1e6 * (cpu_seconds(pid) - spent) / len(latencies),
                memory_of(pid),
                float(p50),
                float(p99),
                log,
                journal.stat().st_size / 1e6,
            ]
        )
    await asyncio.gather(*visits)
    return rows


def slope(x: Any, y: Any) -> tuple[float, float]:
    """Return the slope of a straight line, and twice its standard error."""
    x = x - x.mean()
    found = float(x @ y / (x @ x))
    left = y - y.mean() - found * x
    return found, 2 * float(np.sqrt(left @ left / (len(x) - 2) / (x @ x)))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--connections", type=int, default=32)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        server = subprocess.Popen(
            [sys.executable, "-m", "rolin", "serve", "--port", "0", "--data", folder],
            env={**os.environ, "ROLIN_API_KEY": KEY, "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        try:
            assert server.stdout is not None
            port = int(server.stdout.readline().rpartition(":")[2])
            wait_for(port)
            rows = np.array(
                asyncio.run(soak(port, server.pid, Path(folder), given.minutes, given.connections))
            )
        finally:
            server.terminate()
            server.wait()
    names = [
        "requests per s",
        "CPU per request, µs",
        "memory, MB",
        "p50, ms",
        "p99, ms",
        "log, MB",
        "journal, MB",
    ]
    later = rows[len(rows) // 3 :]
    print("| | first | last | most | slope per minute | ± |\n|---|---|---|---|---|---|")
    for j, name in enumerate(names, start=1):
        found, error = slope(later[:, 0], later[:, j])
        print(
            f"| {name} | {rows[0, j]:.1f} | {rows[-1, j]:.1f} | {rows[:, j].max():.1f} | {found:+.3f} | {error:.3f} |"
        )
    print(f"exit code {server.returncode}")


if __name__ == "__main__":
    main()
