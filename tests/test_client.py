"""The clients and the service understand each other: every call, against a service in this process."""

from __future__ import annotations

import asyncio
import inspect
import pickle
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from rolin import RoLinTS
from rolin.client import (
    AsyncClient,
    AsyncRemoteBandit,
    Client,
    Decision,
    Erased,
    Question,
    RemoteBandit,
    Reward,
)
from rolin.errors import AccessDenied, Conflict, DataError, MissingExtra, NotFound, ServiceError
from rolin.journal import SQLiteJournal
from rolin.logs import to_frame
from support.service import KEY
from support.service import client as served

PEOPLE = ("=ann", "bob")
ARMS = {"cheap": {"price": 3.0}, "dear": {"price": 9.0}}


def use(folder: Path, work: Callable[[AsyncClient], Awaitable[None]], **options: Any) -> None:
    """Run some work with a client of a new service."""

    async def run() -> None:
        async with served(folder) as http:
            await work(AsyncClient("http://service", **{"key": KEY, "http": http, **options}))

    asyncio.run(run())


def test_decide_and_reward(tmp_path: Path) -> None:
    """One by one, under ids that need encoding."""

    async def work(client: AsyncClient) -> None:
        bandit = client.bandit("default")
        made = await bandit.decide(ARMS, situation={"hour": 9}, person="ann", id="visit 1/ü?#%")
        assert made.id == "visit 1/ü?#%"
        assert made.arm in ARMS
        assert made.probabilities == {"cheap": 0.5, "dear": 0.5}
        assert made.recorded
        assert await bandit.decide(ARMS, situation={"hour": 9}, person="ann", id=made.id) == made
        assert await bandit.decision(made.id) == made
        assert await bandit.reward(made, 1.0) == "recorded"
        assert await bandit.reward(made.id, 1.0) == "recorded"
        assert await bandit.reward("..", 1.0) == "early"
        ranked = await bandit.decide(
            [*"abcd"], top_k=3, exclude={"a"}, baseline="b", situation={"x": np.float64(1.0)}
        )
        assert len(ranked.ranking) == 3
        assert "a" not in ranked.ranking
        assert await bandit.reward(ranked, 0.5, arm=ranked.ranking[2], weight=2.0) == "recorded"
        info = await bandit.info()
        assert info["n_arms"] == 2

    use(tmp_path, work)


def test_decisions_that_count_later(tmp_path: Path) -> None:
    """An inactive decision counts when it is activated; one with a fallback is activated by the client."""

    async def work(client: AsyncClient) -> None:
        bandit = client.bandit("default")
        later = await bandit.decide(ARMS, active=False)
        assert await bandit.reward(later, 1.0) == "recorded"
        confirmed = await bandit.decide(ARMS, fallback="cheap")
        assert await bandit.reward(confirmed, 1.0) == "recorded"
        assert list((await bandit.to_frame())["id"]) == [confirmed.id]
        assert await bandit.activate(later) is True
        assert await bandit.activate(later.id) is True
        frame = await bandit.to_frame()
        assert list(frame["reward"]) == [1.0, 1.0]

    use(tmp_path, work)


def test_batches(tmp_path: Path) -> None:
    """Each item succeeds or fails on its own."""

    async def work(client: AsyncClient) -> None:
        bandit = client.bandit("default")
        wrong = Question(["a", "a"])
        one, two, three = await bandit.decide_batch(
            [Question(ARMS), wrong, Question(["a", "b"], fallback="b")]
        )
        assert isinstance(one, Decision)
        assert isinstance(two, ServiceError)
        assert isinstance(three, Decision)
        later = await bandit.decide(ARMS, active=False)
        assert await bandit.activate_batch([one, later.id]) == [True, True]
        (unknown,) = await bandit.activate_batch(["unknown"])
        assert isinstance(unknown, NotFound)
        told = await bandit.reward_batch(
            [Reward(one, 1.0), Reward(three.id, 0.5), Reward("new", 1.0), Reward(one, 1.0, arm="x")]
        )
        assert told[:3] == ["recorded", "recorded", "early"]
        assert isinstance(told[3], ServiceError)

    use(tmp_path, work)


def test_manage_bandits(tmp_path: Path) -> None:
    """Create, read, change and delete."""

    async def work(client: AsyncClient) -> None:
        assert await client.ready()
        state = tmp_path / "state.rolin"
        RoLinTS(n_features=2, seed=1).save(state)
        info = await client.create_bandit(
            "shop",
            features={"kind": "vectors", "n_features": 2},
            rewards={"window": 60.0, "rule": "sum"},
            retention=3600.0,
            settings={"floor": 0.01},
            state=state.read_bytes(),
        )
        assert info["settings"]["floor"] == 0.01
        assert await client.bandits() == ["default", "shop"]
        bandit = client.bandit("shop")
        with pytest.raises(Conflict, match="shop"):
            await client.create_bandit("shop")
        changed = await bandit.change({"mode": "stopped"}, {"default": 0.0})
        assert changed["settings"]["mode"] == "stopped"
        assert changed["config"]["rewards"] == {"rule": "sum", "window": 60.0, "default": 0.0}
        assert changed["config"]["retention"] == 3600.0
        assert "retention" not in (await bandit.change(retention=None))["config"]
        await bandit.register_arms({"a": np.array([1.0, 2.0]), "b": [3, 4]})
        assert await bandit.arms() == [
            {"id": "a", "features": [1.0, 2.0]},
            {"id": "b", "features": [3.0, 4.0]},
        ]
        made = await bandit.decide()
        assert made.arm == "a"
        assert await bandit.reward(made, 1.0, id="click-1") == "recorded"
        await bandit.start_shadow("LinTS", {"seed": 3})
        assert (await bandit.info())["shadow"] == "LinTS"
        await bandit.stop_shadow()
        await client.delete_bandit("shop")
        with pytest.raises(NotFound, match="GET /v1/bandits/shop: there is no bandit 'shop'"):
            await bandit.info()

    use(tmp_path, work)


@pytest.mark.filterwarnings("ignore::rolin.errors.OverlapWarning")  # 6 decisions are few
def test_read_and_maintain(tmp_path: Path) -> None:
    """Explanations, reports, snapshots, exports, imports and erasure."""

    async def work(client: AsyncClient) -> None:
        bandit = client.bandit("default")
        made = [
            await bandit.decide(ARMS, person=PEOPLE[k % 2], situation={"n": k}) for k in range(8)
        ]
        for k, decision in enumerate(made[:6]):
            await bandit.reward(decision, k / 4)
        assert (await bandit.explain(made[0], "cheap", against="dear"))["against"] == "dear"
        assert "features miss" in (await bandit.diagnose())["text"]
        assert (await bandit.evaluate("Uniform"))["n"] == 6
        assert await bandit.snapshot() > 0
        for name in ("log.csv", "log.parquet"):
            await bandit.export(tmp_path / name)
        await client.create_bandit("copy")
        assert await client.bandit("copy").import_log(tmp_path / "log.csv") == 8
        assert await client.bandit("copy").import_log(tmp_path / "log.parquet") == 0
        (tmp_path / "plain.csv").write_text("shown,reward,x,n\na,1,0.5,3\n")
        columns: Any = {"arm": "shown", "features": ["x"], "situation": ["n"]}
        assert await client.bandit("copy").import_log(tmp_path / "plain.csv", **columns) == 1
        with pytest.raises(DataError, match=r"no known ending, expected one of \.csv"):
            await bandit.export(tmp_path / "log.xlsx")
        with pytest.raises(DataError, match="cannot be read"):
            await bandit.import_log(tmp_path / "none.csv")

        frame = await bandit.to_frame()
        with SQLiteJournal(tmp_path / "bandits/default/journal.db", readonly=True) as journal:
            expected = to_frame(journal)
        frame["offered"] = frame["offered"].map(tuple)
        expected["offered"] = expected["offered"].map(tuple)
        pd.testing.assert_frame_equal(frame, expected)
        assert list(frame["person"]) == [*PEOPLE] * 4

        assert await bandit.erase(person="=ann") == Erased(decisions=4, log_wiped=True)
        assert set((await bandit.to_frame())["person"]) == {"bob"}

    use(tmp_path, work)


def test_a_wrong_key(tmp_path: Path) -> None:
    """It is refused, and not repeated."""

    async def work(client: AsyncClient) -> None:
        with pytest.raises(AccessDenied) as caught:
            await client.bandits()
        assert (caught.value.status, caught.value.code) == (401, "unauthorized")
        copy = pickle.loads(pickle.dumps(caught.value))
        assert (copy.status, str(copy)) == (401, str(caught.value))

    use(tmp_path, work, key="wrong-key")


def test_to_frame_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pandas is needed there and nowhere else."""
    monkeypatch.setitem(sys.modules, "pandas", None)

    async def work(client: AsyncClient) -> None:
        with pytest.raises(MissingExtra, match="sim"):
            await client.bandit("default").to_frame()

    use(tmp_path, work)


def test_both_clients_have_the_same_calls() -> None:
    """The same signatures; one returns results and the other something to await."""
    for one, other in ((Client, AsyncClient), (RemoteBandit, AsyncRemoteBandit)):
        calls = [name for name in dir(one) if not name.startswith("_")]
        assert calls == [name for name in dir(other) if not name.startswith("_")]
        for name in {*calls} - {"bandit", "close"}:
            assert inspect.signature(getattr(one, name)) == inspect.signature(getattr(other, name))


def test_displays() -> None:
    """In a notebook, a decision is a table; texts of others are escaped."""
    decision = Decision("1", "<b>", ("<b>", "c"), {"<b>": 0.25, "c": 0.75})
    shown = decision._repr_html_()
    assert "<td>&lt;b&gt;</td>" in shown
    assert "<th>P(c)</th><td>0.75</td>" in shown
    with Client("http://x", key="secret") as client:
        assert repr(client.bandit("offers")) == "RemoteBandit('offers' at 'http://x')"
        assert "secret" not in repr(client)
