"""A service in a process of its own, and connections to it, for attacks."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self

from support.service import KEY

V1 = "/v1/bandits/default"
STARTS = 120.0  # seconds: the machine may be busy, and kernels may have to be compiled
ANSWERS = 60.0  # the same for an answer

PROGRAM = """
import itertools, os, resource, signal, sys
from rolin import bandit, journal
from rolin.cli import main

step, times, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
left = itertools.count(times, -1)

def reached(name):
    if name == step and next(left) == 0:
        os.kill(os.getpid(), signal.SIGKILL)

for module in (journal.base, bandit.writer, bandit.upkeep, journal.sqlite, journal.postgres):
    module.reached = reached
journal.OutOfDate.__init__ = lambda self: print("a plan was thrown away", file=sys.stderr, flush=True)
if size:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
sys.argv[1:4] = []
main()
"""


class Answer(NamedTuple):
    """What a server answered."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        """Return the decoded body."""
        return json.loads(self.body)


class Server:
    """A running `rolin serve`.

    Parameters
    ----------
    process
        Its process.
    port
        Where it listens.
    log
        The file that it logs to.
    """

    def __init__(self, process: subprocess.Popen[str], port: int, log: Path) -> None:
        self.process, self.port, self._log = process, port, log

    def log(self) -> str:
        """Return what it has logged so far."""
        return self._log.read_text()

    def kill(self) -> None:
        """Kill it at once."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> tuple[int, str]:
        """Ask it to stop; return its exit code and what it logged."""
        self.process.send_signal(signal.SIGTERM)
        return self.ended()

    def ended(self) -> tuple[int, str]:
        """Wait for its end; return its exit code and what it logged."""
        return self.process.wait(STARTS), self.log()


@contextmanager
def served(
    data: Path, *options: str, step: str = "never", times: int = 0, max_file: int = 0
) -> Iterator[Server]:
    """Start a service on a free port, which is killed at the end, if not before.

    It kills itself when it reaches a step of writing for the time after `times`. No file that it writes can have more
    than `max_file` bytes, as if the disk was full.
    """
    command = [sys.executable, "-c", PROGRAM, step, str(times), str(max_file)]
    command += ["serve", "--port", "0", "--data", str(data), *options]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "ROLIN_API_KEY": KEY}
    with (
        tempfile.NamedTemporaryFile("w") as log,  # a pipe would be full some day
        subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=log, text=True
        ) as process,
    ):
        try:
            assert process.stdout is not None
            first = process.stdout.readline()
            assert first.startswith("Listening on "), Path(log.name).read_text()
            yield Server(process, int(first.rpartition(":")[2]), Path(log.name))
        finally:
            process.kill()


class Connection:
    """One connection, which sends one request after the other."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def open(cls, port: int) -> Self:
        """Connect."""
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def call(self, method: str, path: str, body: Any = None) -> Answer:
        """Send a request, and wait for its answer; raise `OSError` or `EOFError` if the connection ends before."""
        content = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\nContent-Length: {len(content)}"
        self.writer.write(head.encode() + b"\r\n\r\n" + content)
        return await self.answer()

    async def answer(self) -> Answer:
        """Wait for the next answer; its length must be known."""
        async with asyncio.timeout(ANSWERS):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = {
                name.lower(): value.strip()
                for name, _, value in (line.partition(":") for line in head[1:-2])
            }
            body = await self.reader.readexactly(int(headers.get("content-length", 0)))
        return Answer(int(head[0].split()[1]), headers, body)

    def close(self) -> None:
        """Close it."""
        self.writer.close()


@asynccontextmanager
async def connected(port: int) -> AsyncIterator[Connection]:
    """Give a connection."""
    connection = await Connection.open(port)
    try:
        yield connection
    finally:
        connection.close()


def question(id: str, **more: Any) -> dict[str, Any]:
    """A request for a decision, whose features follow from its id."""
    n = len(id) + sum(map(ord, id))
    arms = [{"id": f"arm-{k}", "features": {"price": (n * k) % 7, "kind": k}} for k in range(4)]
    return {"id": id, "situation": {"hour": n % 24}, "arms": arms, **more}


def value_of(id: str) -> float:
    """The reward of a decision."""
    return sum(map(ord, id)) % 10 / 10
