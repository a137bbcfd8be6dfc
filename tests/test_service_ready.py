"""When the service is ready: one bandit that fails does not take the others away, and says what is wrong with it."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

import rolin
from rolin.service import schema
from support.service import client

DECISION = {"arms": ["a", "b"]}


def full(*_: Any, **__: Any) -> int:
    """Fail as a full disk does."""
    raise rolin.errors.JournalError("the disk is full")


def broken(http: Any, name: str, patched: pytest.MonkeyPatch) -> None:
    """Let a bandit fail to write."""
    (engine,) = [each for each in http.service.bandits.opened() if each.name == name]
    patched.setattr(engine.bandit.bandit.journal, "append", full)


def test_one_failing_bandit_of_two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ready as long as one works; the metrics and, with a key, the body name the other; ready again when it is."""

    async def fail() -> None:
        async with client(tmp_path) as http:
            decider, _ = http.service.keys.create("shop", ["decide"])  # type: ignore[attr-defined]
            await http.post("/v1/bandits", json={"name": "shop"})
            assert (await http.get("/readyz")).json() == {"status": "ok"}
            with monkeypatch.context() as patched:
                broken(http, "shop", patched)
                path = "/v1/bandits/shop/decisions"
                assert (await http.post(path, json=DECISION)).status_code == 503
                found = await http.get("/readyz")
                assert found.status_code == 200
                assert found.json() == {
                    "status": "degraded",
                    "failing": 1,
                    "bandits": {"shop": "the disk is full"},
                }
                for key in ("", "Bearer nobody", f"Bearer {decider}"):
                    found = await http.get("/readyz", headers={"Authorization": key})
                    assert found.json() == {"status": "degraded", "failing": 1}
                text = (await http.get("/metrics")).text
                assert 'rolin_bandit_ready{bandit="shop"} 0\n' in text
                assert 'rolin_bandit_ready{bandit="default"} 1\n' in text
                assert 'rolin_write_errors_total{bandit="shop"} 1\n' in text
                assert "rolin_ready 1\n" in text
                broken(http, "default", patched)
                await http.post("/v1/bandits/default/decisions", json=DECISION)
                both = await http.get("/readyz")
                assert both.status_code == 503
                assert both.headers["Retry-After"] == "1"
                assert both.json()["error"]["message"] == (
                    "not ready: bandit default: the disk is full; bandit shop: the disk is full"
                )
                both = await http.get("/readyz", headers={"Authorization": f"Bearer {decider}"})
                assert (both.status_code, both.headers["Retry-After"]) == (503, "1")
                assert both.json()["error"]["message"] == (
                    "not ready: 2 bandits fail; with a key, the answer says why"
                )
                assert "rolin_ready 0\n" in (await http.get("/metrics")).text
                assert (await http.get("/healthz")).status_code == 200
            for engine in http.service.bandits.opened():  # type: ignore[attr-defined]
                await http.service.maintain(engine)  # type: ignore[attr-defined]
            assert (await http.get("/readyz")).json() == {"status": "ok"}

    asyncio.run(fail())


def test_with_a_fallback_it_is_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Decisions are answered, so it stays in use; the body says what is wrong, and the metrics count what is shown."""

    async def fail() -> None:
        async with client(tmp_path, fallback="baseline") as http:
            with monkeypatch.context() as patched:
                broken(http, "default", patched)
                made = await http.post("/v1/bandits/default/decisions", json=DECISION)
                assert made.json()["recorded"] is False
                assert (await http.get("/readyz")).json()["status"] == "degraded"
                text = (await http.get("/metrics")).text
                assert 'rolin_decisions_total{bandit="default",arm="a",by="fallback"} 1\n' in text

    asyncio.run(fail())


def test_a_bandit_that_cannot_be_opened(tmp_path: Path) -> None:
    """The others work; without its journal the only one makes the service unready, until it is restored."""

    async def start() -> None:
        async with client(tmp_path) as http:
            await http.post("/v1/bandits", json={"name": "shop"})

    async def degraded() -> None:
        async with client(tmp_path) as http:
            found = await http.get("/readyz")
            assert (found.status_code, found.json()["status"]) == (200, "degraded")
            assert "there is no journal.db" in found.json()["bandits"]["shop"]
            assert str(tmp_path) not in found.text
            assert 'rolin_bandit_ready{bandit="shop"} 0\n' in (await http.get("/metrics")).text
            assert (await http.delete("/v1/bandits/default")).status_code == 204
            assert (await http.get("/readyz")).status_code == 503
            shutil.copy(tmp_path / "copy.db", tmp_path / "bandits/shop/journal.db")
            await http.service.bandits.open_broken()  # type: ignore[attr-defined]
            assert (await http.get("/readyz")).json() == {"status": "ok"}
            made = await http.post("/v1/bandits/shop/decisions", json=DECISION)
            assert made.status_code == 201

    asyncio.run(start())
    shutil.move(tmp_path / "bandits/shop/journal.db", tmp_path / "copy.db")
    asyncio.run(degraded())


def test_a_broken_bandit_that_is_opened_or_removed_is_broken_no_more(tmp_path: Path) -> None:
    """Whoever opens it, and also if somebody has removed its folder."""

    async def start() -> None:
        async with client(tmp_path) as http:
            await http.post("/v1/bandits", json={"name": "shop"})

    async def mend() -> None:
        async with client(tmp_path) as http:
            bandits = http.service.bandits  # type: ignore[attr-defined]
            assert sorted(bandits.broken) == ["default", "shop"]
            with pytest.raises(rolin.errors.RolinError, match="there is no journal"):
                await bandits.get_or_create(schema.NewBandit(name="default"))
            shutil.copy(tmp_path / "default.db", tmp_path / "bandits/default/journal.db")
            await bandits.get_or_create(schema.NewBandit(name="default"))
            assert list(bandits.broken) == ["shop"]
            assert (await http.get("/metrics")).text.count('ready{bandit="default"}') == 1
            shutil.rmtree(tmp_path / "bandits/shop")
            await bandits.open_broken()
            assert (await http.get("/readyz")).json() == {"status": "ok"}

    asyncio.run(start())
    for name in ("default", "shop"):
        shutil.move(tmp_path / f"bandits/{name}/journal.db", tmp_path / f"{name}.db")
    asyncio.run(mend())


def test_a_removed_bandit_is_created_again(tmp_path: Path) -> None:
    """It works, so it is no longer reported."""

    async def mend() -> None:
        async with client(tmp_path) as http:
            bandits = http.service.bandits  # type: ignore[attr-defined]
            assert list(bandits.broken) == ["shop"]
            shutil.rmtree(tmp_path / "bandits/shop")
            made = await http.post("/v1/bandits", json={"name": "shop"})
            assert made.status_code == 201
            assert (await http.get("/readyz")).json() == {"status": "ok"}

    (tmp_path / "bandits/shop").mkdir(parents=True)
    asyncio.run(mend())
