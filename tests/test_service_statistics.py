"""What the service says about a bandit agrees with what the library computes from its journal."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from rolin import offline
from rolin.journal.events import LoggedDecision, Outcome, SettingsChanged
from rolin.service.statistics import watch
from rolin.service.statistics.arms import ArmCounts
from rolin.service.statistics.comparison import RunningMean
from rolin.service.statistics.fold import Statistics
from rolin.service.statistics.series import Series
from support.service import KEY, client

V1 = "/v1/bandits/shop"
ARMS = ["red", "green", "blue", "gray"]


def served(
    folder: Path, work: Callable[[httpx.AsyncClient], Awaitable[None]], **settings: Any
) -> None:
    """Run a test against a service with a bandit."""

    async def run() -> None:
        async with client(folder) as http:
            new = {"name": "shop", "settings": settings}
            assert (await http.post("/v1/bandits", json=new)).status_code == 201
            await work(http)

    asyncio.run(run())


async def visit(http: httpx.AsyncClient, n: int, *, start: int = 0, rewarded: float = 0.9) -> None:
    """Let people decide and report rewards; some never do."""
    rng = np.random.default_rng(start)
    for i in range(start, start + n, 50):
        ids = [f"d{k}" for k in range(i, min(i + 50, start + n))]
        asked = [{"id": id, "arms": ARMS, "person": f"p{rng.integers(40)}"} for id in ids]
        answer = await http.post(f"{V1}/decisions/batch", json={"decisions": asked})
        rewards = [
            {"decision": made["id"], "value": float(rng.random() < 0.2 + 0.15 * ARMS.index(made["arm"])), "weight": float(rng.integers(1, 3))}
            for made in answer.json()["results"]
            if rng.random() < rewarded
        ]  # fmt: skip
        await http.post(f"{V1}/rewards", json={"rewards": rewards})


async def read(http: httpx.AsyncClient, path: str) -> Any:
    """Return the JSON of an answer, after the whole journal has been read."""
    behind = True
    while behind:  # on a busy machine, an answer may come before
        reading = (await http.get(f"{V1}/summary")).json()["reading"]
        behind = reading["read"] < reading["last"]
    answer = await http.get(f"{V1}/{path}")
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_counts_agree_with_the_journal(tmp_path: Path) -> None:
    """Decisions and rewards by group, traffic over time, fates and waiting arms."""

    async def work(http: httpx.AsyncClient) -> None:
        await visit(http, 300)
        found = await read(http, "summary?range=1h")
        engine = await http.service.bandits.get("shop")  # type: ignore[attr-defined]
        events = [event for _, event in engine.bandit.bandit.journal.read()]
        made = [event for event in events if isinstance(event, LoggedDecision)]
        outcomes = [event for event in events if isinstance(event, Outcome)]
        control = sum(each.control for each in made)
        assert 0 < control < 300
        assert found["decisions"] == {"policy": 300 - control, "control": control, "baseline": 0}
        assert found["fates"] == {"learned": len(outcomes)}
        assert found["waiting"] == 300 - len(outcomes)
        over = found["over_time"]
        assert sum(map(sum, over["decisions"].values())) == 300
        assert sum(map(sum, over["rewards"].values())) == len(outcomes)
        traffic = {each["arm"]: sum(each["decisions"]) for each in over["traffic"]}
        assert traffic == {arm: sum(each.arm == arm for each in made) for arm in traffic}
        assert sum(traffic.values()) == 300
        assert found["reading"]["read"] == found["reading"]["last"] == engine.bandit.bandit.version
        ours = [each for each in made if not each.control]
        top = [float(each.propensities.max()) for each in ours if each.propensities is not None]
        assert math.isclose(found["exploration"]["top_probability"], np.mean(top))
        explored = [each.propensity < p for each, p in zip(ours, top, strict=True)]  # type: ignore[operator]
        assert math.isclose(found["exploration"]["explored"], np.mean(explored))
        states = {each["name"]: each["state"] for each in found["promises"]}
        # After 300 decisions of a policy that learns fast, there may be too few to tell.
        assert states.pop("Recorded probabilities are true") in ("ok", "unknown")
        assert states == {
            "Nothing acknowledged is lost": "ok",
            "Rewards count": "ok",
            "No backlog": "ok",
        }
        assert "synchronous=FULL" in found["promises"][0]["text"]
        # Windows end, and late rewards do not count.
        await http.patch(V1, json={"rewards": {"window": 0.001}})
        await engine.expire()
        late = next(each.id for each in made if each.id not in {event.id for event in outcomes})
        await http.post(f"{V1}/decisions/{late}/reward", json={"value": 1})
        found = await read(http, "summary")
        assert found["waiting"] == 0
        assert found["fates"] == {
            "learned": len(outcomes), "expired": 300 - len(outcomes), "late": 1
        }  # fmt: skip

    served(tmp_path, work, control_share=0.3)


@pytest.mark.parametrize("by", ["control", "share"])
def test_the_lift_is_that_of_the_library(tmp_path: Path, by: Any) -> None:
    """The running sums give the mean rewards and the interval that the whole log gives, people and weights included."""

    async def work(http: httpx.AsyncClient) -> None:
        found = await read(http, f"lift?by={by}")
        assert found["gain"] is None
        assert "expected at least 2" in found["reason"]
        await visit(http, 400)
        found = await read(http, f"lift?by={by}")
        engine = await http.service.bandits.get("shop")  # type: ignore[attr-defined]
        log = offline.read(engine.bandit.bandit, missing="drop")
        expected = offline.lift(log, by=by)
        for ours, theirs in (("policy", "policy"), ("other", "control"), ("gain", "gain"), ("low", "low"), ("high", "high")):  # fmt: skip
            assert math.isclose(found[ours], getattr(expected, theirs), rel_tol=1e-9), ours
        assert (found["n_policy"], found["n_other"]) == (expected.n_policy, expected.n_control)
        assert 0 < found["effective_n_policy"] <= 40  # people, not decisions
        # After a change of the shares, people are compared anew.
        change = {"settings": {"control_share": 0.5}}
        assert (await http.patch(V1, json=change)).status_code == 200
        found = await read(http, f"lift?by={by}")
        assert (found["n_policy"], found["gain"]) == (0, None)
        summary = await read(http, "summary")
        assert summary["changes"][-1]["text"] == "control_share: 0.3 → 0.5"

    served(tmp_path, work, control_share=0.3, share=0.5)


def test_estimates_are_those_of_the_policy(tmp_path: Path) -> None:
    """Mean, interval, own effect, shrinkage and pulls of each arm; sorted, searched and in pages."""

    async def work(http: httpx.AsyncClient) -> None:
        await visit(http, 200)
        engine = await http.service.bandits.get("shop")  # type: ignore[attr-defined]
        found = {"version": -1}
        while found["version"] != engine.bandit.bandit.version:  # scales are learned meanwhile
            engine.beliefs.renew()
            found = await read(http, "estimates?sort=arm")
            policy = engine.bandit.bandit.copy_policy()
        assert [each["arm"] for each in found["arms"]] == sorted(ARMS)
        moments = policy.moments
        x = moments.mean_context
        prediction = policy.predict(x, moments.arms)
        low, high = prediction.interval(0.95)
        effects = policy.posterior.arm_effects(moments.arms)
        for each in found["arms"]:
            i = moments.arms.index(each["arm"])
            assert each["pulls"] == moments.weight[i]
            for name, values in (
                ("mean", prediction.mean), ("low", low), ("high", high), ("effect", effects.mean),
                ("effect_std", effects.std), ("shrinkage", policy.posterior.shrinkage(moments.arms)),
                ("observed", None),
            ):  # fmt: skip
                if values is not None:
                    assert math.isclose(each[name], values[i], rel_tol=1e-9), name
        means = [each["mean"] for each in (await read(http, "estimates?sort=-mean"))["arms"]]
        assert means == sorted(means, reverse=True)
        page = await read(http, "estimates?sort=-mean&offset=1&limit=2")
        assert [each["mean"] for each in page["arms"]] == means[1:3]
        assert page["total"] == 4
        some = await read(http, "estimates?search=GR&sort=arm")
        assert [each["arm"] for each in some["arms"]] == ["gray", "green"]

    served(tmp_path, work)


def test_arms_are_removed_and_restored(tmp_path: Path) -> None:
    """A removed arm is marked, leaves the registered arms, and is refused until it is restored."""

    async def work(http: httpx.AsyncClient) -> None:
        assert (await http.put(f"{V1}/arms", json={"arms": ARMS})).status_code == 204
        await visit(http, 100)
        assert (await http.put(f"{V1}/removed-arms/red")).status_code == 204
        again = await http.put(f"{V1}/removed-arms/red")
        assert (again.status_code, again.json()["error"]["message"]) == (
            400, "arm 'red' was removed already"
        )  # fmt: skip
        assert (await read(http, "arms"))["arms"] == ARMS[1:]
        removed = {each["arm"]: each["removed"] for each in (await read(http, "estimates"))["arms"]}
        assert removed == {arm: arm == "red" for arm in ARMS}
        assert (await http.post(f"{V1}/decisions", json={})).json()["arm"] in ARMS[1:]
        offered = await http.post(f"{V1}/decisions", json={"arms": ARMS})
        assert (offered.status_code, "removed" in offered.text) == (400, True)
        assert (await http.delete(f"{V1}/removed-arms/red")).status_code == 204
        assert (await http.post(f"{V1}/decisions", json={"arms": ARMS})).status_code == 201

    served(tmp_path, work)


def test_recent_decisions_come_with_their_outcome(tmp_path: Path) -> None:
    """The newest first, and only those that were asked for."""

    async def work(http: httpx.AsyncClient) -> None:
        await visit(http, 60)
        found = (await read(http, "decisions?last=10"))["decisions"]
        assert [each["id"] for each in found] == [f"d{i}" for i in range(59, 49, -1)]
        rewarded = (await read(http, "decisions?last=5&outcome=reward"))["decisions"]
        assert [each["outcome"] for each in rewarded] == ["reward"] * 5
        assert all(each["delay"] >= 0 for each in rewarded)
        gone = {"ids": ["d59"]}
        assert (await http.post(f"{V1}/erasures", json=gone)).json()["decisions"] == 1
        found = (await read(http, "decisions?last=2"))["decisions"]
        assert [each["id"] for each in found] == ["d58", "d57"]
        assert sum((await read(http, "summary"))["decisions"].values()) == 59

    served(tmp_path, work)


def test_a_long_journal_is_read_in_slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer comes while there is more to read, and says so; nothing is read twice."""
    monkeypatch.setattr(watch, "_SLICE", 0.0)
    monkeypatch.setattr(watch, "_READ", 10)
    monkeypatch.setattr(watch, "_PATIENCE", 0.001)
    folded = []
    fold = Statistics.fold
    monkeypatch.setattr(
        Statistics, "fold", lambda self, event: (folded.append(event), fold(self, event))[1]
    )

    async def work(http: httpx.AsyncClient) -> None:
        await visit(http, 200)
        first = (await http.get(f"{V1}/summary")).json()["reading"]
        assert first["read"] < first["last"]
        found = (await read(http, "summary"))["reading"]
        assert found["last"] == len(folded)
        await read(http, "summary")
        assert found["last"] == len(folded)

    served(tmp_path, work)


def test_only_the_latest_events_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a very long journal; but the settings of before are known."""
    monkeypatch.setattr(watch, "_MOST", 100)

    async def work(http: httpx.AsyncClient) -> None:
        await visit(http, 200)
        engine = await http.service.bandits.get("shop")  # type: ignore[attr-defined]
        writer = engine.bandit.bandit._writer
        with writer._exclusively():
            pass  # callers get their answers a moment before the writer starts what is due
        writer.upkeep.wait()  # learned scales are an event
        found = await read(http, "summary")
        assert found["reading"]["last"] - found["reading"]["first"] == 100
        assert sum(found["decisions"].values()) < 100
        assert [each["text"] for each in found["changes"]] == ["share: 1 → 0.5"]

    served(tmp_path, work, share=0.5)


def test_other_policies_and_queries(tmp_path: Path) -> None:
    """A policy without a posterior has counts only, and bad parameters get a clear error."""

    async def work(http: httpx.AsyncClient) -> None:
        await http.post("/v1/bandits", json={"name": "other", "policy": "DisjointLinUCB"})
        made = (await http.post("/v1/bandits/other/decisions", json={"arms": ARMS})).json()
        (await http.post(f"/v1/bandits/other/decisions/{made['id']}/reward", json={"value": 1}))
        found = (await http.get("/v1/bandits/other/estimates?sort=-chosen")).json()["arms"]
        assert (found[0]["arm"], found[0]["chosen"], found[0]["observed"]) == (made["arm"], 1, 1.0)
        assert [each["pulls"] for each in found] == [1.0, 0.0, 0.0, 0.0]
        assert (found[0]["mean"], found[0]["effect"], len(found)) == (None, None, 4)
        assert (await http.get("/v1/bandits/other/summary")).status_code == 200
        for path, message in (
            ("summary?range=year", "range='year', expected one of 15m, 1h, 24h, 30d, all"),
            ("estimates?sort=color", "sort='color', expected one of"),
            ("estimates?limit=0", "limit=0, expected 1 to 500"),
            ("estimates?offset=-1", "offset='-1', expected a whole number"),
            ("decisions?last=²", "last='²', expected a whole number"),
            ("lift?by=luck", "by='luck', expected one of control, share"),
        ):
            answer = await http.get(f"{V1}/{path}")
            assert answer.status_code == 400
            assert message in answer.json()["error"]["message"]
        me = (await http.get("/v1/key")).json()
        assert me == {"name": "api_key", "scopes": ["admin"]}
        assert KEY not in str(me)

    served(tmp_path, work)


def test_wrong_probabilities_are_found() -> None:
    """If arms are chosen more often than recorded, the promise is broken; if not, it holds."""

    def state(p_true: float) -> str:
        statistics, rng = Statistics(), np.random.default_rng(4)
        p = np.array([0.3, 0.7])
        for i in range(2000):
            chosen = int(rng.random() < p_true)
            event = LoggedDecision(str(i), float(i), ("a", "b"), np.zeros((2, 0)), (chosen,), p, 0)
            statistics.fold(event)
        return statistics.calibration.report(statistics.arms).state

    assert (state(0.7), state(0.8)) == ("ok", "broken")


def test_running_means_have_the_errors_of_people() -> None:
    """Also if rewards are far from 0, where sums of squares would lose their digits."""
    rng = np.random.default_rng(1)
    mean = RunningMean()
    rewards, people = 1e8 + rng.normal(size=500), rng.integers(30, size=500)
    for reward, person in zip(rewards, people, strict=True):
        mean.add(str(person), float(reward), 1.0)
    found = mean.mean()
    sums = np.bincount(people, weights=rewards - rewards.mean())
    expected = math.sqrt((sums**2).sum() * 30 / 29) / 500
    assert math.isclose(found.std_error, expected, rel_tol=1e-6)
    assert (found.n, found.people) == (500, 30)


def test_series_forget_what_is_old() -> None:
    """Times before the range are dropped, and empty intervals are filled."""
    series = Series(10.0, 3)
    for time in (5.0, 25.0, 55.0, 1.0):
        bucket = series.at(time)
        if bucket is not None:
            bucket.drawn += 1
    assert [(start, bucket.drawn) for start, bucket in series.upto(59.0)] == [(50.0, 1)]
    assert series.at(45.0) is not None
    assert [start for start, _ in series.upto(69.0)] == [40.0, 50.0, 60.0]


def test_settings_before_the_first_decision_are_changes() -> None:
    """Each change is told in words, once."""
    statistics = Statistics()
    statistics.fold(SettingsChanged(1.0, mode="stopped", floor=0.05))
    statistics.fold(SettingsChanged(2.0, mode="stopped", floor=0.05))
    assert [change.text for change in statistics.changes] == [
        "mode: online → stopped, floor: 0 → 0.05"
    ]


def test_an_arm_that_is_new_when_it_is_chosen_first() -> None:
    """Its row may need a larger array, also at the powers of two at which the array is full."""
    counts = ArmCounts()
    arms = [f"arm-{i}" for i in range(100)]
    for arm in arms:
        counts.choose(arm)
    assert counts.chosen(arms).tolist() == [1.0] * 100
