"""A service that is killed loses nothing that it has acknowledged, and counts nothing twice.

A real process answers several connections, and is killed with SIGKILL: at random instants, and at each named step of
writing. Then another process starts on the folder. `ROLIN_ATTACKS=4 pytest -m slow tests/test_service_crashes.py -rP`
makes four times as many kills, and prints their numbers.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rolin import Bandit
from rolin._support.blas import one_thread
from rolin.journal import SQLiteJournal, check_journal, load_policy
from rolin.journal.events import LoggedDecision, Outcome
from rolin.journal.folding import state_bytes
from support.attacks import TIMES
from support.server import V1, Connection, Server, connected, question, served, value_of

# The process uses compiled kernels, whose results differ in the last bit.
pytestmark = [pytest.mark.compiled, pytest.mark.service]  # it kills real processes

LOST = (OSError, EOFError)
"""What a client sees of a server that was killed."""


class Client:
    """Visitors of a service, and what they were told is done."""

    def __init__(self) -> None:
        self.decisions: dict[str, dict[str, Any]] = {}
        self.rewards: set[str] = set()
        self.numbers: Counter[str] = Counter()

    async def visit(self, port: int, name: str, most: int = 10**6) -> None:
        """Ask and report over one connection until it is lost."""
        try:
            async with connected(port) as connection:
                for i in range(most):
                    await self._once(connection, f"{name}-{i}", i)
        except LOST:
            self.numbers["connections lost"] += 1

    async def _once(self, connection: Connection, id: str, i: int) -> None:
        for _ in range(1 + (i % 5 == 0)):  # sometimes twice
            made = await connection.call("POST", f"{V1}/decisions", question(id))
            assert made.status == 201, made
            assert self.decisions.setdefault(id, made.json()) == made.json()
        if i % 3:
            for _ in range(1 + (i % 7 == 0)):
                told = await connection.call(
                    "POST", f"{V1}/decisions/{id}/reward", {"value": value_of(id)}
                )
                assert told.status == 204, told
                self.rewards.add(id)
        if i % 40 == 39:
            assert (await connection.call("POST", f"{V1}/snapshots")).status == 200

    async def visit_until_killed(
        self, server: Server, name: str, kill_after: float | None, connections: int = 6
    ) -> None:
        """Visit over several connections; kill the server some seconds after the first answer, or let it kill itself."""
        async with connected(server.port) as connection:
            assert (await connection.call("GET", "/readyz")).status == 200
        visits = [
            asyncio.create_task(self.visit(server.port, f"{name}-{k}")) for k in range(connections)
        ]
        if kill_after is not None:
            known = len(self.decisions)
            while len(self.decisions) == known:
                await asyncio.sleep(0.001)
            await asyncio.sleep(kill_after)
            server.kill()
        await asyncio.gather(*visits)

    async def check(self, server: Server, path: Path, since: str) -> None:
        """See that all of it is there, in the answers of the server and in its journal."""
        async with connected(server.port) as connection:
            for id, answer in self.decisions.items():
                if not id.startswith(since):  # looked at before
                    continue
                found = await connection.call("GET", f"{V1}/decisions/{id}")
                assert (found.status, found.json()) == (200, answer)
                again = await connection.call("POST", f"{V1}/decisions", question(id))
                assert (again.status, again.json()) == (201, answer)
                if id in self.rewards:
                    told = await connection.call(
                        "POST", f"{V1}/decisions/{id}/reward", {"value": value_of(id)}
                    )
                    assert told.status == 204
            stored = await connection.call("POST", f"{V1}/snapshots")
            assert stored.status == 200
        self.check_journal(path, stored.json()["version"])

    def check_journal(self, path: Path, version: int) -> None:
        """See that the state of the server is that of the journal from its start, and that nothing counts twice."""
        # Sums of BLAS depend on the number of its threads in the last bit; a service has one.
        with one_thread(), SQLiteJournal(path, readonly=True) as journal:
            snapshot = journal.latest_snapshot()
            assert snapshot is not None
            assert snapshot.version == version
            # Scales may be learned later, in the background.
            policy, _ = load_policy(journal, from_start=True, upto=version)
            assert state_bytes(policy) == snapshot.state
            events = [event for _, event in journal.read()]
        made = Counter(event.id for event in events if isinstance(event, LoggedDecision))
        rewards = Counter(event.id for event in events if isinstance(event, Outcome))
        assert set(made.values()) | set(rewards.values()) <= {1}
        assert self.decisions.keys() <= made.keys()
        assert self.rewards <= rewards.keys()
        assert all(
            event.value == value_of(event.id) for event in events if isinstance(event, Outcome)
        )
        assert policy.posterior.count == len(rewards)  # type: ignore[attr-defined]  # a RoLinTS
        self.numbers["decisions"], self.numbers["rewards"] = len(made), len(rewards)


@pytest.mark.parametrize("kills", [3, pytest.param(100 * TIMES, marks=pytest.mark.slow)])
def test_killed_under_load(tmp_path: Path, rng: np.random.Generator, kills: int) -> None:
    """At random instants, again and again on one folder."""
    path, client = tmp_path / "bandits" / "default" / "journal.db", Client()
    for k in range(kills):
        with served(tmp_path) as server:
            if k:
                asyncio.run(client.check(server, path, f"{k - 1}-"))
            asyncio.run(client.visit_until_killed(server, f"{k}", float(rng.uniform(0.0, 0.7))))
            assert server.process.returncode == -signal.SIGKILL
    with served(tmp_path) as server:
        asyncio.run(client.check(server, path, f"{kills - 1}-"))
        code, _ = server.stop()
        assert code == 0
    assert check_journal(path).problems == ()
    assert client.numbers["connections lost"] == 6 * kills
    print({"kills": kills, "acknowledged": len(client.decisions) + len(client.rewards)})
    print(dict(client.numbers))


@pytest.mark.parametrize(
    "step",
    [
        "inserted",
        *(
            pytest.param(step, marks=pytest.mark.slow)
            for step in ("planned", "committed", "folded", "scales due", "state inserted")
        ),
    ],
)
def test_killed_at_each_step(tmp_path: Path, step: str) -> None:
    """While several connections wait for one transaction."""
    path, client = tmp_path / "bandits" / "default" / "journal.db", Client()
    with served(tmp_path) as server:  # so that the first bandit exists
        asyncio.run(client.visit(server.port, "first", most=5))
        server.kill()
    # The warm-up makes 150 decisions and rewards and learns scales six times, in memory.
    times = {"state inserted": 0, "scales due": 9, "planned": 230, "folded": 230}.get(step, 80)
    with served(tmp_path, step=step, times=times) as server:
        asyncio.run(client.visit_until_killed(server, "second", None))
        code, log = server.ended()
        assert code == -signal.SIGKILL, log
    with served(tmp_path) as server:
        asyncio.run(client.check(server, path, ""))
    assert len(client.decisions) > 5


def test_the_same_request_over_many_connections(tmp_path: Path) -> None:
    """32 at once: one decision, one reward; another body under the same id is a conflict."""

    async def hammer(port: int) -> None:
        connections = [await Connection.open(port) for _ in range(32)]
        for id in ("once", "twice/ü", "thrice"):
            body = question(id)
            made = await asyncio.gather(
                *(each.call("POST", f"{V1}/decisions", body) for each in connections)
            )
            assert {answer.status for answer in made} == {201}
            assert len({answer.body for answer in made}) == 1
            where = f"{V1}/decisions/{id.replace('/', '%2F').replace('ü', '%C3%BC')}/reward"
            told = await asyncio.gather(
                *(each.call("POST", where, {"value": value_of(id)}) for each in connections)
            )
            assert {answer.status for answer in told} == {204}
            others = await asyncio.gather(
                *(
                    each.call("POST", f"{V1}/decisions", question(id, person=f"p{k}"))
                    for k, each in enumerate(connections)
                )
            )
            assert {answer.status for answer in others} == {409}
            client.decisions[id], _ = made[0].json(), client.rewards.add(id)
        for each in connections:
            each.close()

    client = Client()
    with served(tmp_path) as server:
        asyncio.run(hammer(server.port))
        path = tmp_path / "bandits" / "default" / "journal.db"
        stored = asyncio.run(_snapshot(server.port))
        client.check_journal(path, stored)
    assert client.numbers == {"decisions": 3, "rewards": 3}


async def _snapshot(port: int) -> int:
    async with connected(port) as connection:
        return int((await connection.call("POST", f"{V1}/snapshots")).json()["version"])


@pytest.mark.slow
def test_a_long_journal_starts_fast(tmp_path: Path, rng: np.random.Generator) -> None:
    """100 000 events, then SIGKILL: the first answer comes as soon as without them, give or take what is not in a snapshot.

    `benchmarks/service_start.py` measures a million.
    """
    path = tmp_path / "bandits" / "default" / "journal.db"
    empty = _seconds_to_decide(tmp_path, "first")
    _write(path, 109_999, rng)
    with SQLiteJournal(path, readonly=True) as journal:
        snapshot, header = journal.latest_snapshot(), journal.header()
        assert snapshot is not None
        assert header is not None
        assert header.last - snapshot.version < 20_000  # what has to be folded
    long = _seconds_to_decide(tmp_path, "second")
    print(
        f"first decision of an empty journal after {empty:.1f} s, of a long one after {long:.1f} s"
    )
    assert long < empty + 5.0


def _seconds_to_decide(data: Path, id: str) -> float:
    """Start a service, ask it, and kill it; return the time from the start to the answer."""

    async def ask(port: int) -> None:
        async with connected(port) as connection:
            made = await connection.call("POST", f"{V1}/decisions", question(id))
            assert made.status == 201, made

    begin = time.perf_counter()
    with served(data) as server:
        asyncio.run(ask(server.port))
        return time.perf_counter() - begin


def _write(path: Path, events: int, rng: np.random.Generator) -> None:
    """Append decisions and their rewards, many at a time."""
    with Bandit(journal=path, background=True) as bandit:
        while bandit.version < events:
            asked = [question(f"{bandit.version}-{i}") for i in range(500)]
            made = bandit.decide_many(
                [{arm["id"]: arm["features"] for arm in each["arms"]} for each in asked],
                situations=[each["situation"] for each in asked],
                ids=[each["id"] for each in asked],
            )
            bandit.reward_many({each.id: float(rng.random()) for each in made})
