"""Clients of a real service that is killed, restarted, paused, or not there."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from rolin.client import AsyncClient, Client, Decision, RemoteBandit
from rolin.errors import NotFound, ServiceUnavailable
from rolin.journal import SQLiteJournal, check_journal
from rolin.journal.events import LoggedDecision, Outcome
from support.server import Server, served
from support.service import KEY

pytestmark = [pytest.mark.compiled, pytest.mark.service]

ARMS = {"a": {"price": 1.0}, "b": {"price": 2.0}}
PATIENT = {"key": KEY, "timeout": 120.0, "retries": 1000}


def url(server: Server) -> str:
    """Return the address of a service."""
    return f"http://127.0.0.1:{server.port}"


class Visitors:
    """Threads that decide and reward over one client, until they are told to stop."""

    def __init__(self, client: Client, fallback: str | None) -> None:
        self.bandit, self.fallback = client.bandit("default"), fallback
        self.decisions: dict[str, Decision] = {}
        self.rewards: set[str] = set()
        self.errors: list[Exception] = []
        self.stopped = threading.Event()
        self.threads = [threading.Thread(target=self._visit, args=(k,)) for k in range(4)]

    def _visit(self, k: int) -> None:
        try:
            i = 0
            while not self.stopped.is_set():
                id, i = f"{k}-{i}", i + 1
                situation = {"hour": i % 24}
                made = self.bandit.decide(ARMS, situation=situation, id=id, fallback=self.fallback)
                self.decisions[id] = made
                if i % 3:
                    assert self.bandit.reward(made, i % 2) == "recorded"
                    self.rewards.add(id)
        except Exception as error:
            self.errors.append(error)


@pytest.mark.parametrize("fallback", [None, "a"])
def test_killed_and_restarted_while_clients_ask(tmp_path: Path, fallback: str | None) -> None:
    """Every call succeeds in the end. Nothing acknowledged is lost, and nothing is there twice."""
    with served(tmp_path) as server:
        client = Client(url(server), **PATIENT)  # type: ignore[arg-type]  # the values are of several types
        visitors = Visitors(client, fallback)
        for thread in visitors.threads:
            thread.start()
        _wait_for(lambda: len(visitors.rewards) > 10)
        server.kill()
    for _ in range(2):
        known = len(visitors.decisions)
        with served(tmp_path, "--port", str(server.port)) as server:
            _wait_for(lambda known=known: len(visitors.decisions) > known + 20)
            server.kill()
    with served(tmp_path, "--port", str(server.port)) as server:
        visitors.stopped.set()
        for thread in visitors.threads:
            thread.join()
        assert visitors.errors == []
        for id, made in visitors.decisions.items():
            assert client.bandit("default").decision(id) == made
        client.close()
        server.stop()
    path = tmp_path / "bandits" / "default" / "journal.db"
    assert check_journal(path).problems == ()
    with SQLiteJournal(path, readonly=True) as journal:
        events = [event for _, event in journal.read()]
    made_times = Counter(event.id for event in events if isinstance(event, LoggedDecision))
    rewarded = Counter(event.id for event in events if isinstance(event, Outcome))
    assert set(made_times.values()) == set(rewarded.values()) == {1}
    assert made_times.keys() == visitors.decisions.keys()
    assert rewarded.keys() == visitors.rewards
    print({"decisions": len(made_times), "rewards": len(rewarded)})


def _wait_for(condition: Any, seconds: float = 100.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def _paused_decision(server: Server, bandit: RemoteBandit, **options: Any) -> Any:
    """Ask a service that is paused, and let it go on; return the answer or the error, and the time that it took."""
    server.process.send_signal(signal.SIGSTOP)
    begin = time.monotonic()
    try:
        found: Any = bandit.decide(ARMS, **options)
    except ServiceUnavailable as error:
        found = error
    finally:
        seconds = time.monotonic() - begin
        server.process.send_signal(signal.SIGCONT)
    return found, seconds


def test_a_decision_that_came_too_late_is_never_learned(tmp_path: Path) -> None:
    """The service records it after the client has shown the fallback. It must not count, not even as a missing reward.

    Without a fallback, the client does not say that it gave up: then the missing reward is learned for the arm that
    nobody has seen. This shows that the service would learn.
    """
    with served(tmp_path) as server, Client(url(server), **PATIENT) as patient:  # type: ignore[arg-type]  # as above
        for name in ("with", "without"):
            rewards = {"window": 1.0, "default": 0.0}
            patient.create_bandit(name, rewards=rewards, options={"seed": 1})
        with Client(url(server), key=KEY, timeout=0.3) as hurried:
            found, seconds = _paused_decision(server, hurried.bandit("with"), id="1", fallback="b")
            assert (found.arm, found.recorded, found.id) == ("b", False, "unrecorded-1")
            assert 0.25 < seconds < 2.0
            error, seconds = _paused_decision(server, hurried.bandit("without"), id="1")
            assert isinstance(error, ServiceUnavailable)
            assert 0.25 < seconds < 2.0
        for name in ("with", "without"):
            bandit = patient.bandit(name)
            _wait_for(lambda bandit=bandit: _is_known(bandit, "1"))
            assert bandit.reward(found, 1.0) == "unrecorded"
        # Also if the caller reports the reward under the id of the question, nothing is learned.
        assert patient.bandit("with").reward("1", 1.0) == "recorded"
        _wait_for(lambda: patient.bandit("without").info()["n_arms"] == 1)
        _wait_for(lambda: _outcomes(tmp_path, "with") == 1)
        assert patient.bandit("with").info()["n_arms"] == 0
        assert patient.bandit("with").to_frame().empty
        assert list(patient.bandit("without").to_frame()["reward"]) == [0.0]


def _is_known(bandit: RemoteBandit, id: str) -> bool:
    try:
        return bandit.decision(id).recorded
    except NotFound:
        return False


def _outcomes(data: Path, name: str) -> int:
    with SQLiteJournal(data / "bandits" / name / "journal.db", readonly=True) as journal:
        return sum(isinstance(event, Outcome) for _, event in journal.read())


def test_a_paused_service_holds_no_call_longer_than_its_timeout(tmp_path: Path) -> None:
    """Also over connections that are open, with several attempts, and on an event loop."""

    async def asynchronous(server: Server) -> float:
        async with AsyncClient(url(server), key=KEY, timeout=0.5, attempt_timeout=0.1) as client:
            begin = time.monotonic()
            found = await asyncio.gather(
                *(client.bandit("default").decide(ARMS, fallback="a") for _ in range(8))
            )
            assert not any(decision.recorded for decision in found)
            return time.monotonic() - begin

    with served(tmp_path) as server:
        with Client(url(server), **PATIENT) as patient:  # type: ignore[arg-type]  # as above
            assert patient.bandit("default").decide(ARMS).recorded
        with Client(url(server), key=KEY, timeout=0.5, attempt_timeout=0.1) as client:
            bandit = client.bandit("default")
            assert client.ready()
            found, seconds = _paused_decision(server, bandit, fallback="a")
            assert not found.recorded
            assert 0.25 < seconds < 1.0  # three attempts of 0.1 s, and two waits
            error, seconds = _paused_decision(server, bandit)
            assert "3 attempts" in str(error)
            server.process.send_signal(signal.SIGSTOP)
            assert asyncio.run(asynchronous(server)) < 1.0
            server.process.send_signal(signal.SIGCONT)
            _wait_for(lambda: client.ready() and bandit.decide(ARMS, fallback="a").recorded)


def test_nobody_listens(tmp_path: Path) -> None:
    """The fallback comes at once, and the error says what was tried."""
    with served(tmp_path) as server:
        address = url(server)
    with Client(address, key=KEY) as client:
        begin = time.monotonic()
        assert client.bandit("default").decide(ARMS, fallback="a").arm == "a"
        assert time.monotonic() - begin < 1.0
        assert client.ready() is False
        with pytest.raises(ServiceUnavailable, match=r"after .* s and 3 attempts: .*refused"):
            client.bandits()
