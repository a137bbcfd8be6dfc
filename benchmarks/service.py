"""CPU time of a decision over HTTP, beside an echo of the same body by the same server.

The client is slower than the server, so the time on the wall says little: the CPU time of the server process is measured,
per request, with both pinned to a core of their own. Run it with `make bench-service`.

There are two tables. In the first, echo and service run on uvicorn alone. In the second they also have httptools and
uvloop, which `rolin[service]` installs: they save both of them the same time per request, so the echo's share falls though
the service needs less.
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
HEAD = (
    "POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n"
    "Ocp-Apim-Subscription-Key: {key}\r\n"
    "Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
)
STACKS = {
    "uvicorn alone": "import sys; sys.modules.update(httptools=None, uvloop=None)\n",
    "with httptools and uvloop": "",
}
SERVICE = "from rolin.cli import main\nmain()"
ECHO = """
import uvicorn
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

async def echo(request):
    return Response(await request.body(), 201, media_type="application/json")

uvicorn.run(Starlette(routes=[Route("/{path:path}", echo, methods=["POST"])]), port={port}, log_level="error",
            access_log=False)
"""
_LAG = 201  # requests between a decision and its reward


def feature_map(d: int) -> dict[str, Any]:
    """Return a map with d features: 5 fields of the situation, 7 of an arm."""
    devices, topics = {110: (4, 3), 231: (5, 13)}[d]
    values = [f"v{i}" for i in range(topics)]
    return {
        "kind": "map",
        "situation": {
            "hour": {"kind": "number", "scale": 24.0},
            "device": {"kind": "category", "values": [f"v{i}" for i in range(devices)]},
            "weekend": {"kind": "boolean"},
            "age": {"kind": "number", "scale": 100.0},
            "visits": {"kind": "number", "scale": 10.0},
        },
        "arm": {
            "topic": {"kind": "category", "values": values},
            **{name: {"kind": "number"} for name in ("price", "length", "age", "rating", "width")},
            "new": {"kind": "boolean"},
        },
    }


def question(rng: np.random.Generator, id: str, d: int) -> bytes:
    """Return a body of about 5 KB: 50 arms with 7 fields, or plain vectors."""
    arms: list[dict[str, Any]] = []
    for k in range(50):
        if d == 10:
            features: Any = [round(float(x), 4) for x in rng.normal(size=10)]
        else:
            features = {
                "topic": f"v{rng.integers(3)}",
                **{
                    name: round(float(rng.normal()), 3)
                    for name in ("price", "length", "age", "rating", "width")
                },
                "new": bool(rng.random() < 0.5),
            }
        arms.append({"id": f"article-{k}", "features": features})
    body: dict[str, Any] = {"id": id, "arms": arms}
    if d != 10:
        body["situation"] = {
            "hour": int(rng.integers(24)), "device": "v1", "weekend": False, "age": 31, "visits": 4,
        }  # fmt: skip
    return json.dumps(body, separators=(",", ":")).encode()


def rank(rng: np.random.Generator, id: str) -> bytes:
    """Return the same question as Azure Personalizer's clients send it."""
    asked = json.loads(question(rng, id, 110))
    actions = [{"id": arm["id"], "features": [arm["features"]]} for arm in asked["arms"]]
    body = {"eventId": id, "actions": actions, "contextFeatures": [asked["situation"]]}
    return json.dumps(body, separators=(",", ":")).encode()


def cpu_seconds(pid: int) -> float:
    """CPU time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def load(port: int, requests: list[tuple[str, bytes]], connections: int) -> list[float]:
    """Send all requests over some connections; return the latency of each."""
    latencies: list[float] = []
    left = iter(requests)

    async def one() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for path, body in left:
            start = time.perf_counter()
            writer.write(HEAD.format(path=path, key=KEY, length=len(body)).encode() + body)
            head = await reader.readuntil(b"\r\n\r\n")
            if int(head[9:12]) not in (201, 204):
                raise SystemExit(f"unexpected answer: {head.decode()}{await reader.read(500)!r}")
            found = head.lower().partition(b"content-length: ")[2]
            if found:
                await reader.readexactly(int(found.partition(b"\r")[0]))
            latencies.append(time.perf_counter() - start)
        writer.close()

    await asyncio.gather(*(one() for _ in range(connections)))
    return latencies


def call(port: int, path: str, body: Any) -> None:
    """Send one JSON request."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}", json.dumps(body).encode(),
        {"Authorization": f"Bearer {KEY}"},
    )  # fmt: skip
    urllib.request.urlopen(request).close()


def wait_for(port: int) -> None:
    """Wait until a server answers."""
    for _ in range(300):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz").close()
            return
        except urllib.error.HTTPError:  # the echo has no such path
            return
        except OSError:
            time.sleep(0.1)
    raise SystemExit("the server did not start")


def start(arguments: list[str], folder: Path, core: int) -> subprocess.Popen[bytes]:
    """Start a server on one core."""
    environment = {**os.environ, "ROLIN_API_KEY": KEY, "OPENBLAS_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, *arguments], cwd=folder, env=environment, stdout=subprocess.DEVNULL
    )
    os.sched_setaffinity(process.pid, {core})
    return process


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=3000)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--turns", type=int, default=3)
    given = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[-1]})
    for stack, prepare in STACKS.items():
        print(f"\n{stack[0].upper()}{stack[1:]}:\n")
        with tempfile.TemporaryDirectory() as folder:
            base = Path(folder)
            options = ["serve", "--port", "8712", "--data", "data"]
            servers = [
                start(["-c", prepare + ECHO.replace("{port}", "8711")], base, cores[0]),
                start(["-c", prepare + SERVICE, *options], base, cores[0]),
            ]
            try:
                measure(servers, given.requests, given.connections, given.turns)
            finally:
                for server in servers:
                    server.terminate()
                    server.wait()


def measure(
    servers: list[subprocess.Popen[bytes]], n_requests: int, connections: int, turns: int
) -> None:
    """Send the same requests to both servers in turn, and print a table of the best turns."""
    rng, n = np.random.default_rng(0), 0
    for port in (8711, 8712):
        wait_for(port)
    for d in (10, 110, 231):
        features = feature_map(d) if d > 10 else {"kind": "vectors", "n_features": 10}
        call(8712, "/v1/bandits", {"name": f"d{d}", "features": features})
    print("| case | echo, µs CPU | rolin, µs CPU | share of the echo | p99 echo, ms | p99 rolin, ms |")  # fmt: skip
    print("|---|---|---|---|---|---|")
    # 0 is the default bandit, whose features are hashed, through Personalizer's API.
    for d, half_rewards in ((10, False), (110, False), (231, False), (231, True), (0, False)):
        best: dict[int, tuple[float, float]] = {}
        for _ in range(turns):
            requests = []
            for i in range(n_requests):
                n += 1
                path = f"/v1/bandits/d{d}/decisions"
                if d == 0:
                    requests.append(("/personalizer/v1.0/rank", rank(rng, str(n))))
                elif half_rewards and i % 2 and i > _LAG:
                    body = json.dumps({"value": float(rng.random())}).encode()
                    requests.append((f"{path}/{n - _LAG}/reward", body))
                else:
                    requests.append((path, question(rng, str(n), d)))
            for server, port in zip(servers, (8711, 8712), strict=True):
                before = cpu_seconds(server.pid)
                latencies = asyncio.run(load(port, requests, connections))
                spent = (cpu_seconds(server.pid) - before) / len(requests)
                p99 = float(np.quantile(latencies, 0.99))
                best[port] = min(best.get(port, (9.0, 9.0)), (spent, p99))
        (echo, echo_p99), (own, own_p99) = best[8711], best[8712]
        label = f"d = {d}" + (", half rewards" if half_rewards else "")
        label = label if d else "Personalizer, hashed to 256"
        print(
            f"| {label} | {1e6 * echo:.0f} | {1e6 * own:.0f} | {echo / own:.3f} | {1e3 * echo_p99:.1f} "
            f"| {1e3 * own_p99:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
