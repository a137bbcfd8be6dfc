"""A disk that does not answer: requests are refused at once, or answered by the fallback, until it does."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

import httpx
import pytest

from rolin.bandit.state import BanditState
from rolin.journal.sqlite import SQLiteJournal
from support.server import V1
from support.service import client

ARMS = {"arms": ["a", "b"]}
TIMEOUT = 0.6  # of a request; a write may take half of it


@contextmanager
def slow_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Let every write of a journal wait until the event is set."""
    answers, append = threading.Event(), SQLiteJournal.append

    def waits(self: SQLiteJournal, *args: Any, **options: Any) -> int:
        answers.wait()
        return append(self, *args, **options)

    with monkeypatch.context() as changed:
        changed.setattr(SQLiteJournal, "append", waits)
        try:
            yield answers
        finally:
            answers.set()


async def decide(http: httpx.AsyncClient, id: str) -> httpx.Response:
    """Ask for a decision."""
    return await http.post(f"{V1}/decisions", json={"id": id, **ARMS})


async def until_ready(http: httpx.AsyncClient) -> None:
    """Wait until the write has ended."""
    async with asyncio.timeout(5.0):
        while (await http.get("/readyz")).json() != {"status": "ok"}:
            await asyncio.sleep(0.01)


def test_a_slow_disk_is_named_and_forgiven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first request times out, the next ones fail at once, and all of them say why; nothing of them is written later.

    When the disk answers again, the service does so, too.
    """

    async def visit() -> None:
        async with client(tmp_path, request_timeout=TIMEOUT) as http:
            assert (await decide(http, "before")).status_code == 201
            assert (await http.get("/readyz")).json() == {"status": "ok"}
            with slow_disk(monkeypatch) as answers:
                first = await decide(http, "first")
                start = perf_counter()
                next_one = await decide(http, "next")
                reward = await http.post(f"{V1}/decisions/before/reward", json={"value": 1})
                assert perf_counter() - start < TIMEOUT / 2
                for found in (first, next_one, reward):
                    assert found.status_code == 503
                    assert "a write has not ended after" in found.json()["error"]["message"]
                    assert found.headers["Retry-After"] == "1"
                ready = await http.get("/readyz")
                assert ready.status_code == 503
                assert "the disk or the database does not answer" in ready.text
                metrics = (await http.get("/metrics")).text
                assert 'rolin_bandit_ready{bandit="default"} 0' in metrics
                assert 'rolin_write_errors_total{bandit="default"} 2' in metrics
                answers.set()
            await until_ready(http)
            for id in ("first", "again"):
                assert (await decide(http, id)).status_code == 201
            assert (await http.get("/readyz")).json() == {"status": "ok"}
            # The first request may have been written; the others were not.
            assert (await http.get(f"{V1}/decisions/next")).status_code == 404
            # The feature map and three decisions.
            assert (await http.get(V1)).json()["version"] == 4

    asyncio.run(visit())


def test_the_fallback_of_a_slow_disk_is_never_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """During a write that does not end, the baseline is shown, and the decision does not appear in the journal later."""

    async def visit() -> None:
        async with client(tmp_path, request_timeout=TIMEOUT, fallback="baseline") as http:
            with slow_disk(monkeypatch) as answers:
                assert (await decide(http, "first")).status_code == 503
                shown = await asyncio.gather(*(decide(http, f"shown-{i}") for i in range(20)))
                assert {each.status_code for each in shown} == {201}
                assert {each.json()["arm"] for each in shown} == {"a"}
                assert not any(each.json()["recorded"] for each in shown)
                ready = await http.get("/readyz")
                assert (ready.status_code, ready.json()["status"]) == (200, "degraded")
                answers.set()
            await until_ready(http)
            assert (await decide(http, "after")).json().get("recorded", True)
            for i in range(20):
                assert (await http.get(f"{V1}/decisions/shown-{i}")).status_code == 404

    asyncio.run(visit())


def test_the_fallback_is_not_for_decisions_that_may_be_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An id that is being written may be recorded with another arm: a repeat gets 503 until this is known."""

    async def visit() -> None:
        async with client(tmp_path, request_timeout=TIMEOUT, fallback="baseline") as http:
            with slow_disk(monkeypatch) as answers:
                both = asyncio.create_task(decide(http, "both"))
                await asyncio.sleep(0.7 * TIMEOUT)
                for id, status in (("both", 503), ("other", 201)):
                    assert (await decide(http, id)).status_code == status
                assert (await both).status_code == 503
                assert (await decide(http, "both")).status_code == 503
                answers.set()
            await until_ready(http)
            made = await decide(http, "both")
            stored = await http.get(f"{V1}/decisions/both")
            assert (made.status_code, stored.status_code) == (201, 200)
            assert made.json() == stored.json()

    asyncio.run(visit())


def test_the_fallback_is_not_for_interrupted_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error after the commit leaves it open what was recorded."""

    async def visit() -> None:
        async with client(tmp_path, fallback="baseline") as http:
            with monkeypatch.context() as changed:

                def fails(*_: Any) -> None:
                    raise MemoryError

                changed.setattr(BanditState, "fold", fails)
                assert (await decide(http, "visit")).status_code == 503
            made = await decide(http, "visit")
            assert (made.status_code, made.json()["recorded"]) == (201, True)

    asyncio.run(visit())


def test_a_slow_change_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a change of the settings or an erasure keeps waiting gets the fallback, too."""

    async def visit() -> None:
        async with client(tmp_path, request_timeout=TIMEOUT, fallback="baseline") as http:
            with slow_disk(monkeypatch) as answers:
                change = http.patch(V1, json={"settings": {"floor": 0.01}})
                changed = asyncio.create_task(change)
                await asyncio.sleep(0.7 * TIMEOUT)
                shown = await decide(http, "shown")
                assert (shown.status_code, shown.json()["recorded"]) == (201, False)
                assert (await http.get("/readyz")).json()["status"] == "degraded"
                answers.set()
                await changed
            await until_ready(http)

    asyncio.run(visit())


def test_registered_arms_are_replaced_while_a_decision_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the arm that the decision was about, not one of the new arms."""
    features = {"kind": "map", "arm": {"price": {"kind": "number"}}}
    arms: list[Any] = [{"id": str(i), "features": {"price": i}} for i in range(6)]
    arms.append({"id": "bad", "features": {"price": "x"}})
    url = "/v1/bandits/shop"

    async def visit() -> None:
        async with client(tmp_path, request_timeout=30.0) as http:
            body = {"name": "shop", "features": features}
            assert (await http.post("/v1/bandits", json=body)).status_code == 201
            assert (await http.put(f"{url}/arms", json={"arms": arms})).status_code == 204
            with slow_disk(monkeypatch) as answers:
                one = asyncio.create_task(http.post(f"{url}/decisions", json=ARMS))
                await asyncio.sleep(0.2)
                two = asyncio.create_task(http.post(f"{url}/decisions", json={}))
                await asyncio.sleep(0.2)
                assert (await http.put(f"{url}/arms", json=ARMS)).status_code == 204
                answers.set()
                await one
                error = (await two).json()["error"]
            assert error["field"] == "arms[6].features.price", error

    asyncio.run(visit())
