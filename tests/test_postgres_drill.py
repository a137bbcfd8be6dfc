"""Three services under load on one database: one is killed, the database restarts, and nothing that was acknowledged is lost.

`pytest -m service tests/test_postgres_drill.py -rP` prints the numbers.
"""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from rolin.journal import PostgresJournal, check_journal, load_policy
from rolin.journal.events import LoggedDecision, Outcome
from rolin.journal.folding import state_bytes
from support.postgres import IS_AVAILABLE, PostgresServer, postgres_server
from support.server import V1, Connection, Server, connected, question, served, value_of

pytestmark = [
    pytest.mark.compiled,  # the processes use compiled kernels, whose results differ in the last bit
    pytest.mark.service,
    pytest.mark.skipif(not IS_AVAILABLE, reason="needs a server with sockets"),
]
CALLERS = 4  # connections to each process
LOST = (OSError, EOFError)


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    """A server that may be stopped."""
    with postgres_server() as server:
        yield server


class Load:
    """Visitors who repeat a request until a service acknowledges it, and what was acknowledged."""

    def __init__(self, ports: list[int]) -> None:
        self.ports = ports
        self.decisions: dict[str, dict[str, Any]] = {}
        self.rewards: set[str] = set()
        self.numbers: Counter[str] = Counter()
        self.is_over = False

    async def call(self, first: int, path: str, body: Any) -> Any:
        """Send a request to one service after the other, until one acknowledges it."""
        k = first
        while True:
            try:
                async with connected(self.ports[k % len(self.ports)]) as connection:
                    answer = await connection.call("POST", path, body)
                if answer.status in (201, 204):
                    return answer
                assert answer.status == 503, answer
                self.numbers["refused"] += 1
                await asyncio.sleep(0.05)
            except LOST:
                self.numbers["connections lost"] += 1
            k += 1

    async def visit(self, k: int) -> None:
        """Ask one service, and report to another."""
        i = 0
        while not self.is_over:
            # Some ids are asked of all services at the same time.
            id = f"shared-{k // len(self.ports)}-{i}" if i % 4 == 0 else f"{k}-{i}"
            made = await self.call(k, f"{V1}/decisions", question(id))
            assert self.decisions.setdefault(id, made.json()) == made.json()
            if i % 3:
                await self.call(k + 1, f"{V1}/decisions/{id}/reward", {"value": value_of(id)})
                self.rewards.add(id)
            i += 1

    async def until(self, more: int) -> None:
        """Wait until so many decisions more are acknowledged."""
        known = len(self.decisions)
        async with asyncio.timeout(90):
            while len(self.decisions) < known + more:
                await asyncio.sleep(0.01)


async def ready(server: Server) -> None:
    """Wait until a service is ready."""
    async with connected(server.port) as connection:
        assert (await connection.call("GET", "/readyz")).status == 200


async def drill(load: Load, servers: list[Server], database: PostgresServer, mode: str) -> None:
    """Kill a service and restart the database while visitors come."""
    for server in servers:
        await ready(server)
    visits = [asyncio.create_task(load.visit(k)) for k in range(CALLERS * len(servers))]
    await load.until(100)
    servers[0].kill()
    await load.until(100)
    await asyncio.to_thread(database.stop, mode)
    await asyncio.sleep(0.5)
    await asyncio.to_thread(database.start)
    await load.until(100)
    load.is_over = True
    await asyncio.gather(*visits)


async def answers(servers: list[Server], load: Load) -> None:
    """See that every service knows all that was acknowledged."""
    for server in servers:
        connection = await Connection.open(server.port)
        for id, answer in load.decisions.items():
            found = await connection.call("GET", f"{V1}/decisions/{id}")
            assert (found.status, found.json()) == (200, answer)
        for id in load.rewards:
            told = await connection.call(
                "POST", f"{V1}/decisions/{id}/reward", {"value": value_of(id)}
            )
            assert told.status == 204
        connection.close()


async def states(servers: list[Server], journal: PostgresJournal) -> set[bytes]:
    """Return the states of the services, as the snapshots that they store."""
    await asyncio.sleep(2.0)  # scales that are being estimated are written
    found = set()
    for server in servers:
        async with connected(server.port) as connection:
            # Repeated, so that the service has read what others have written.
            told = await connection.call("POST", f"{V1}/decisions", question("0-1"))
            assert told.status == 201
            stored = await connection.call("POST", f"{V1}/snapshots")
        snapshot = journal.latest_snapshot()
        header = journal.header()
        assert snapshot is not None
        assert header is not None
        assert snapshot.version == stored.json()["version"] == header.last
        found.add(snapshot.state)
    return found


@pytest.mark.parametrize("mode", ["fast", pytest.param("immediate", marks=pytest.mark.slow)])
def test_killed_and_restarted(tmp_path: Path, own_server: PostgresServer, mode: str) -> None:
    """0 acknowledged events are lost, the survivors and a new process have the same bits, and no plan was in vain."""
    dsn = own_server.new_database()
    with ExitStack() as running:
        start = lambda k: running.enter_context(  # noqa: E731
            served(tmp_path / f"{k}", "--database", dsn)
        )
        servers = [start(k) for k in range(3)]
        load = Load([server.port for server in servers])
        asyncio.run(drill(load, servers, own_server, mode))
        assert servers[0].process.returncode == -signal.SIGKILL
        servers[0] = start(3)
        asyncio.run(ready(servers[0]))
        asyncio.run(answers(servers, load))
        with PostgresJournal(dsn) as journal:
            (state,) = asyncio.run(states(servers, journal))
            policy, version = load_policy(journal, from_start=True)
            assert state_bytes(policy) == state
            events = [event for _, event in journal.read()]
            assert check_journal(journal).problems == ()
        logs = [server.stop() for server in servers]
    assert [code for code, _ in logs] == [0, 0, 0]
    assert not [log for _, log in logs if "a plan was thrown away" in log]
    made = Counter(event.id for event in events if isinstance(event, LoggedDecision))
    rewards = Counter(event.id for event in events if isinstance(event, Outcome))
    assert set(made.values()) | set(rewards.values()) == {1}
    assert len(events) == version
    lost = len(load.decisions.keys() - made.keys()) + len(load.rewards - rewards.keys())
    acknowledged = len(load.decisions) + len(load.rewards)
    print({"acknowledged": acknowledged, "lost": lost, "events": version, **load.numbers})
    assert lost == 0
    assert load.numbers["connections lost"] > 0
