"""Decisions are erased after their retention, in small steps; what was learned from them stays."""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import rolin
from rolin import Bandit
from rolin.errors import ParameterError
from rolin.journal import (
    Journal,
    LoggedDecision,
    PostgresJournal,
    SQLiteJournal,
    check_journal,
    load_policy,
)
from rolin.journal.folding import state_bytes
from rolin.service import erasing
from rolin.service import service as service_module
from rolin.service.engine import Engine
from support.bandits import QUESTION, Clock
from support.server import V1, question
from support.service import client

DAY = 86400.0


def ids_in(journal: Journal) -> list[str]:
    """Return the ids of all decisions."""
    return [event.id for _, event in journal.read() if isinstance(event, LoggedDecision)]


def test_old_decisions_are_erased_in_steps(journal: Journal) -> None:
    """In the order of recording, with early rewards that no decision followed; the state stays."""
    clock = Clock()
    bandit = Bandit(rolin.RoLinTS(n_features=2, seed=7), journal=journal, clock=clock)
    for i in range(25):
        clock.now += 1.0
        bandit.decide(QUESTION, id=f"visit-{i}")
        bandit.reward(f"visit-{i}", float(i))
    bandit.record_reward("nobody", 1.0)
    clock.now += 100.0
    bandit.decide(QUESTION, id="new")
    bandit.record_reward("someone", 1.0)
    state = state_bytes(bandit.policy)
    assert [bandit.erase(older_than=50.0, limit=10) for _ in range(4)] == [10, 10, 5, 0]
    assert ids_in(journal) == ["new"]
    assert state_bytes(bandit.policy) == state
    assert journal.find(["nobody"]) == {}
    assert list(journal.find(["someone"])) == ["someone"]
    assert [arm.id for arm in journal.waiting(1e9, 10)] == ["new"] * 1 + ["someone"]
    # Only a server can wipe its own files.
    assert journal.wipe_log() == (not isinstance(journal, PostgresJournal))
    assert state_bytes(load_policy(journal).policy) == state
    with pytest.raises(ParameterError, match="limit needs older_than"):
        bandit.erase(ids=["new"], limit=1)
    with pytest.raises(ParameterError, match="limit=0"):
        bandit.erase(older_than=1.0, limit=0)


def test_decisions_out_of_order_do_not_stop_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clock that was wrong for a while leaves decisions of the future, and older ones behind them."""
    monkeypatch.setattr("rolin.journal.sqlite.LOOK_AHEAD", 5)
    clock = Clock()
    with Bandit(rolin.RoLinTS(n_features=2, seed=7), journal=tmp_path / "j.db", clock=clock) as bandit:  # fmt: skip
        for i in range(20):
            clock.now = 9e9 if i in (2, 3) else 1000.0 + i
            bandit.decide(QUESTION, id=f"visit-{i}")
        clock.now = 2000.0
        erased = [bandit.erase(older_than=500.0, limit=4) for _ in range(6)]
        assert erased == [4, 4, 4, 4, 2, 0]
        assert ids_in(bandit.journal) == ["visit-2", "visit-3"]
    assert check_journal(tmp_path / "j.db").is_whole


def test_retention_is_part_of_the_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It can be set by PATCH and in bandits.toml; sums whose window ends at the same time are learned first."""
    monkeypatch.setattr(erasing, "_AT_ONCE", 4)
    now = 2e9
    (tmp_path / "bandits.toml").write_text(
        f'[default]\nretention = {DAY}\n[default.rewards]\nrule = "sum"\nwindow = {DAY}\n'
    )

    async def play() -> None:
        nonlocal now
        async with client(tmp_path) as http:
            service: Any = http.service  # type: ignore[attr-defined]
            engine = await service.bandits.get("default")
            engine.bandit.bandit._clock = lambda: now
            for i in range(10):
                await http.post(f"{V1}/decisions", json=question(f"visit-{i}"))
                reward = {"value": 1.0, "id": "r"}
                await http.post(f"{V1}/decisions/visit-{i}/reward", json=reward)
            now += DAY / 2
            await http.post(f"{V1}/decisions", json=question("later"))
            now += DAY / 2 + 1.0
            with caplog.at_level(logging.INFO):
                await service.retain(engine)
            assert "bandit default: erased 10 decisions after their retention" in caplog.text
            assert ids_in(engine.bandit.bandit.journal) == ["later"]
            info = (await http.get(V1)).json()
            assert info["n_arms"] > 0  # the sums were learned
            assert info["config"]["retention"] == DAY
            assert (await http.get(f"{V1}/decisions/visit-1")).status_code == 404
            answer = await http.patch(V1, json={"retention": 60.0})
            assert answer.status_code == 400
            assert answer.json()["error"]["field"] == "retention"
            assert "expected a retention of at least the window" in answer.text
            answer = await http.patch(V1, json={"rewards": {"window": 2 * DAY}})
            assert answer.status_code == 400
            for given in (0, -1.0, "long"):
                assert (await http.patch(V1, json={"retention": given})).status_code == 400
            assert (await http.patch(V1, json={"retention": None})).status_code == 200
            now += 100 * DAY
            await service.retain(engine)
            assert ids_in(engine.bandit.bandit.journal) == ["later"]
            config = json.loads((tmp_path / "bandits/default/config.json").read_text())
            assert "retention" not in config
            other = {"name": "other", "retention": 10.0}  # the window is a day
            assert (await http.post("/v1/bandits", json=other)).status_code == 400
            for wrong, why in (
                ({"retention": DAY, "rewards": {"window": None}}, "are awaited for ever, expected"),
                ({"retention": 1e-320, "rewards": {"window": 1e-320}}, "expected at least 1 s"),
            ):
                answer = await http.patch(V1, json=wrong)
                assert (answer.status_code, answer.json()["error"]["field"]) == (400, "retention")
                assert why in answer.json()["error"]["message"]
        async with client(tmp_path) as http:  # the file sets it again
            assert (await http.get(V1)).json()["config"]["retention"] == DAY

    asyncio.run(play())


def test_windows_end_while_old_decisions_are_erased(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Erasing a backlog may take minutes; the default rewards of all bandits come in time."""
    monkeypatch.setattr(service_module, "_MAINTAIN_EVERY", 0.01)
    monkeypatch.setattr(service_module, "_RETAIN_EVERY", 0.01)

    async def play() -> None:
        erasing, let_go = asyncio.Event(), asyncio.Event()

        async def retain(_: Engine) -> int:
            erasing.set()
            await let_go.wait()
            return 0

        monkeypatch.setattr(Engine, "retain", retain)
        async with client(tmp_path) as http, asyncio.timeout(60.0):
            await erasing.wait()
            await http.patch(V1, json={"rewards": {"window": 0.01, "default": 0.5}})
            await http.post(f"{V1}/decisions", json=question("visit"))
            (engine,) = http.service.bandits.opened()  # type: ignore[attr-defined]
            while not (found := engine.bandit.bandit.journal.outcomes("visit")):
                await asyncio.sleep(0.01)
            assert found[0].value == 0.5
            let_go.set()

    asyncio.run(play())


def test_a_log_that_grows_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Another process that reads for long keeps the log from being written back; it shrinks when that ends."""
    monkeypatch.setattr(service_module, "_LARGE_LOG", 1 << 18)

    async def play() -> None:
        async with client(tmp_path) as http:
            service: Any = http.service  # type: ignore[attr-defined]
            engine = await service.bandits.get("default")
            path = tmp_path / "bandits/default/journal.db"
            with closing(sqlite3.connect(path, isolation_level=None)) as reader:
                reader.execute("BEGIN")
                reader.execute("SELECT count(*) FROM events").fetchone()
                n = 0
                while engine.bandit.bandit.journal.storage().log_bytes < 1 << 18:
                    await http.post(f"{V1}/decisions", json=question(f"visit-{n}"))
                    n += 1
                erasure = {"ids": ["visit-0", "visit-1"]}
                erased = await http.post(f"{V1}/erasures", json=erasure)
                assert erased.json() == {"decisions": 2, "log_wiped": False}
                assert (
                    engine.bandit.bandit.journal.storage().log_bytes
                    == path.with_name("journal.db-wal").stat().st_size
                )
                for _ in range(3):
                    await service.retain(engine)
                    await service.maintain(engine)
            assert caplog.text.count("bandit default: the write-ahead log has ") == 1
            await service.retain(engine)
            assert engine.bandit.bandit.journal.storage().log_bytes == 0
            erased = await http.post(f"{V1}/erasures", json={"ids": ["visit-2"]})
            assert erased.json() == {"decisions": 1, "log_wiped": True}

    asyncio.run(play())


def test_commits_go_on_while_old_decisions_are_erased(tmp_path: Path) -> None:
    """Between two steps, others write; the space of erased decisions is used again."""
    clock = Clock()
    path = tmp_path / "j.db"
    with Bandit(rolin.RoLinTS(n_features=2, seed=7), journal=path, clock=clock, background=True) as bandit:  # fmt: skip
        bandit.decide_many([QUESTION] * 2000)
        bandit.journal.wipe_log()
        size = path.stat().st_size
        clock.now += 100.0
        done = threading.Event()

        def erase() -> None:
            while bandit.erase(older_than=50.0, limit=100, wipe=False):
                time.sleep(0.005)
            done.set()

        thread = threading.Thread(target=erase)
        thread.start()
        n = 0
        while not done.is_set():
            bandit.decide(QUESTION, id=f"new-{n}")
            n += 1
        thread.join()
        assert n > 20
        bandit.decide_many([QUESTION] * max(0, 1500 - n))
        assert bandit.journal.wipe_log()
        assert path.stat().st_size <= size * 1.1
    with SQLiteJournal(path, readonly=True) as journal:
        assert len(ids_in(journal)) == max(1500, n)
