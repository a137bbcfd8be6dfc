"""Azure Personalizer's API: its shapes, codes and rules. Its own clients are run by `make test-clients`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolin.errors import DataError
from rolin.journal.events import HeldReward
from rolin.logs.dsjson import plain_features
from rolin.service.errors import Refusal
from rolin.service.personalizer.configuration import duration_of, duration_text
from rolin.service.personalizer.ranking import check_slots, rank_response, slot_request
from rolin.service.personalizer.schema import (
    MultiSlotRankRequest,
    RankableAction,
    RankRequest,
    SlotRequest,
)
from rolin.service.schema import DecisionAnswer
from support.service import HEADERS, KEY, client

V1 = "/personalizer/v1.0"
KEY_HEADER = {"Ocp-Apim-Subscription-Key": KEY}
Visit = Callable[[httpx.AsyncClient], Awaitable[None]]


def served(folder: Path, visit: Visit, headers: dict[str, str] = KEY_HEADER) -> None:
    """Let a client visit a service."""

    async def work() -> None:
        async with client(folder, headers=headers) as http:
            await visit(http)

    asyncio.run(work())


def question(id: str | None = None, **more: Any) -> dict[str, Any]:
    """A rank request with four actions."""
    actions = [{"id": f"a{k}", "features": [{"kind": k}, {"price": {"net": k}}]} for k in range(4)]
    return {"actions": actions, "contextFeatures": [{"hour": 3}], "eventId": id, **more}


def slots(id: str | None = None, **more: Any) -> dict[str, Any]:
    """A multi-slot rank request with two slots."""
    chosen = [
        {"id": "top", "baselineAction": "a0", "features": [{"size": "large"}]},
        {"id": "side", "baselineAction": "a1", "excludedActions": ["a3"]},
    ]
    return {**question(id), "slots": chosen, **more}


def test_a_rank_has_the_shape_that_the_clients_read(tmp_path: Path) -> None:
    """The statuses are exact, the probabilities sum to 1, and a repeated event gets the same answer."""

    async def visit(http: httpx.AsyncClient) -> None:
        made = await http.post(f"{V1}/rank", json=question("e/1 ü"))
        assert made.status_code == 201
        answer = made.json()
        assert set(answer) == {"ranking", "eventId", "rewardActionId"}
        assert answer["eventId"] == "e/1 ü"
        assert answer["ranking"][0]["id"] == answer["rewardActionId"]
        assert {each["id"] for each in answer["ranking"]} == {"a0", "a1", "a2", "a3"}
        assert sum(each["probability"] for each in answer["ranking"]) == pytest.approx(1.0)
        again = await http.post(f"{V1}/rank", json=question("e/1 ü"))
        assert (again.status_code, again.json()) == (201, answer)
        for call, body in (("activate", None), ("reward", {"value": 1.0})):
            told = await http.post(f"{V1}/events/e%2F1%20%C3%BC/{call}", json=body)
            assert (told.status_code, told.content) == (204, b"")
        log = (await http.get("/v1/bandits/default/decisions/e/1 ü", headers=HEADERS)).json()
        assert log["arm"] == answer["rewardActionId"]
        assert (await http.post(f"{V1}/rank", json=question())).json()["eventId"]

    served(tmp_path, visit)


@given(
    st.lists(st.booleans(), min_size=1, max_size=8).filter(lambda excluded: not all(excluded)),
    st.randoms(use_true_random=False),
)
def test_excluded_actions_keep_their_place(excluded: list[bool], random: Any) -> None:
    """They have probability 0; the chosen action takes the first free place, and the rest follows by probability."""
    ids = [f"a{k}" for k in range(len(excluded))]
    free = [id for id, out in zip(ids, excluded, strict=True) if not out]
    out = [id for id, out in zip(ids, excluded, strict=True) if out]
    weights = [random.randint(1, 9) for _ in free]
    p = {id: w / sum(weights) for id, w in zip(free, weights, strict=True)}
    chosen = random.choice(free)
    rank = RankRequest([RankableAction(id) for id in ids], excluded_actions=out)
    answer = DecisionAnswer("e", chosen, [chosen], p, 1, "online", False)
    found = rank_response(rank, answer)
    assert found.reward_action_id == chosen
    for id, each in zip(ids, found.ranking, strict=True):
        if id in out:
            assert (each.id, each.probability) == (id, 0.0)
    order = [each for each in found.ranking if each.id not in out]
    assert order[0].id == chosen
    assert [each.probability for each in order] == [p[each.id] for each in order]
    rest = [each.probability for each in order[1:]]
    assert rest == sorted(rest, reverse=True)


def test_a_new_service_has_the_defaults_of_personalizer(tmp_path: Path) -> None:
    """Ten minutes, then 0; the earliest reward counts; and no probability is 0, or the log would be worth nothing."""

    async def visit(http: httpx.AsyncClient) -> None:
        path = f"{V1}/configurations/service"
        for call in (path, f"{V1}/status"):  # reading changes nothing
            assert (await http.get(call)).status_code == 200
        assert (await http.get(path)).json()["rewardWaitTime"] == "P1D"
        found = (await http.put(path, json={})).json()
        assert found == {
            "rewardWaitTime": "PT10M",
            "defaultReward": 0.0,
            "rewardAggregation": "earliest",
            "explorationPercentage": 0.1,
            "modelExportFrequency": "PT0S",
            "logRetentionDays": -1,
            "learningMode": "Online",
            "logMirrorEnabled": False,
            "isAutoOptimizationEnabled": False,
        }
        for i in range(60):
            made = (await http.post(f"{V1}/rank", json=question(f"e{i}"))).json()
            value = float(made["rewardActionId"] == "a2")
            await http.post(f"{V1}/events/e{i}/reward", json={"value": value})
            assert min(each["probability"] for each in made["ranking"]) >= 0.002
        assert made["rewardActionId"] == "a2"
        native = (await http.get("/v1/bandits/default", headers=HEADERS)).json()
        assert native["config"]["rewards"] == {"rule": "first", "window": 600.0, "default": 0.0}

    served(tmp_path, visit)


def test_a_default_bandit_in_use_keeps_its_settings(tmp_path: Path) -> None:
    """Personalizer's settings are for a bandit that nobody has used or changed."""

    async def visit(http: httpx.AsyncClient) -> None:
        await http.post("/v1/bandits/default/decisions", json={"arms": ["a", "b"]}, headers=HEADERS)
        assert (await http.post(f"{V1}/rank", json=question())).status_code == 201
        native = (await http.get("/v1/bandits/default", headers=HEADERS)).json()
        assert (native["config"]["rewards"]["window"], native["settings"]["floor"]) == (
            86400.0,
            0.0,
        )

    served(tmp_path, visit)


def test_the_default_bandit_is_created_when_it_is_first_used(tmp_path: Path) -> None:
    """A service with bandits of its own has no `default`; an address can name any other bandit."""
    (tmp_path / "bandits.toml").write_text("[shop]\n")

    async def visit(http: httpx.AsyncClient) -> None:
        names = "/v1/bandits"
        assert (await http.post(f"/b/shop{V1}/rank", json=question("e"))).status_code == 201
        assert (
            await http.post(f"/b/shop{V1}/events/e/reward", json={"value": 1})
        ).status_code == 204
        missing = await http.post(f"/b/other{V1}/rank", json=question("e"))
        assert missing.status_code == 404
        assert missing.json()["error"]["code"] == "ResourceNotFound"
        assert (await http.get(names, headers=HEADERS)).json() == {"bandits": ["shop"]}
        ranks = [http.post(f"{V1}/rank", json=question(f"e{i}")) for i in range(4)]
        assert [made.status_code for made in await asyncio.gather(*ranks)] == [201] * 4
        assert (await http.get(names, headers=HEADERS)).json() == {"bandits": ["default", "shop"]}
        info = (await http.get("/v1/bandits/default", headers=HEADERS)).json()
        assert info["settings"]["floor"] == 0.002

    served(tmp_path, visit)


def test_errors_have_their_codes(tmp_path: Path) -> None:
    """Every error has a code and a message, and changes nothing."""

    async def visit(http: httpx.AsyncClient) -> None:
        await http.post(f"{V1}/rank", json=question("used"))
        events = (await http.get("/v1/bandits/default", headers=HEADERS)).json()["version"]
        long = "e" * 257
        for path, body, status, code in (
            ("/rank", b"{", 400, "BadRequest"),
            ("/rank", b"NaN", 400, "BadRequest"),
            ("/rank", question(contextFeatures=[{"x": 1}, 3]), 400, "BadRequest"),
            ("/rank", {"actions": []}, 400, "BadRequest"),
            ("/rank", {"actions": [{"id": "a"}, {"id": "a"}]}, 400, "BadRequest"),
            ("/rank", question(excludedActions=["a0", "a1", "a2", "a3"]), 400, "BadRequest"),
            ("/rank", question(long), 400, "BadRequest"),
            ("/rank", question("used", contextFeatures=[]), 409, "InvalidRankRequest"),
            ("/rank", {"actions": [{"id": f"a{k}"} for k in range(10_001)]}, 413, "PayloadSizeExceeded"),
            ("/events/used/reward", {"value": "x"}, 400, "BadRequest"),
            ("/events/used/reward", b'{"value": NaN}', 400, "BadRequest"),
            ("/events/none/activate", None, 404, "ResourceNotFound"),
            ("/multislot/rank", slots(slots=[]), 400, "BadRequest"),
            ("/multislot/rank", slots(slots=[*slots()["slots"], slots()["slots"][0]]), 400, "BadRequest"),
            ("/multislot/rank", slots(actions=question()["actions"][:1]), 400, "BadRequest"),
            ("/multislot/rank", slots(slots=[{"id": "s", "baselineAction": "a0", "excludedActions": ["a0"]}]), 400, "BadRequest"),
            ("/multislot/rank", slots(slots=[{"id": "s", "baselineAction": "x"}]), 400, "BadRequest"),
            ("/multislot/events/none/reward", {"reward": [{"slotId": "s", "value": 1}]}, 404, "ResourceNotFound"),
            ("/multislot/events/none/activate", None, 404, "ResourceNotFound"),
        ):  # fmt: skip
            sent = {"content": body} if isinstance(body, bytes) else {"json": body}
            failed = await http.post(V1 + path, **sent)
            error = failed.json()["error"]
            assert (failed.status_code, error["code"]) == (status, code), (path, body, error)
            assert error["message"]
        for change, target in (
            ({"actions": [{"id": "a", "features": [{"x": 1e30}]}]}, "actions[0].features"),
            ({"actions": [{"id": "a"}, {"id": "a"}]}, "actions[1]"),
            ({"contextFeatures": [{"x": 1e30}]}, "contextFeatures"),
            ({"excludedActions": ["a0", "a1", "a2", "a3"]}, "excludedActions"),
            ({"eventId": "\0"}, "eventId"),
        ):
            failed = await http.post(f"{V1}/rank", json={**question(), **change})
            assert failed.json()["error"]["target"] == target, failed.text
        unknown = await http.get(f"{V1}/evaluations")
        assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "ResourceNotFound")
        for headers in ({"Ocp-Apim-Subscription-Key": "wrong"}, HEADERS):
            http.headers.pop("Ocp-Apim-Subscription-Key", None)
            failed = await http.post(f"{V1}/rank", json=question(), headers=headers)
            assert failed.status_code == 401
            assert failed.json()["error"]["code"] == "401"
            assert "Ocp-Apim-Subscription-Key" in failed.json()["error"]["message"]
        now = (await http.get("/v1/bandits/default", headers=HEADERS)).json()["version"]
        assert now == events

    served(tmp_path, visit)


def test_rewards_are_never_refused_for_their_time(tmp_path: Path) -> None:
    """The earliest counts, and one that is early, late or repeated is no error. Sums count a repeated request once."""

    async def visit(http: httpx.AsyncClient) -> None:
        reward = f"{V1}/events/e/reward"
        for value in (1.0, 1.0, 0.5):  # early, again, and a conflict
            assert (await http.post(reward, json={"value": value})).status_code == 204
        assert (await http.post(f"{V1}/rank", json=question("e"))).status_code == 201
        assert (await http.post(reward, json={"value": 0.25})).status_code == 204
        config = {"rewardAggregation": "sum"}
        assert (await http.put(f"{V1}/configurations/service", json=config)).status_code == 200
        await http.post(f"{V1}/rank", json=question("s"))
        for request in ("1", "1", "2"):
            headers = {"x-ms-client-request-id": request}
            told = await http.post(f"{V1}/events/s/reward", json={"value": 0.5}, headers=headers)
            assert told.status_code == 204
        engine = await http.service.bandits.get("default")  # type: ignore[attr-defined]
        journal = engine.bandit.bandit.journal
        parts = [event for event in journal.following("s") if isinstance(event, HeldReward)]
        assert [event.value for event in parts] == [0.5, 0.5]
        assert [outcome.value for outcome in journal.outcomes("e").values()] == [1.0]

    served(tmp_path, visit)


def test_settings_can_be_changed(tmp_path: Path) -> None:
    """A caller sends back what it read, with a change; the answer says what is true now."""

    async def visit(http: httpx.AsyncClient) -> None:
        path = f"{V1}/configurations/service"
        now = (await http.get(path)).json()
        new = {
            **now,
            "rewardWaitTime": "P1DT2H",
            "defaultReward": -1.0,
            "explorationPercentage": 0.5,
            "learningMode": "Apprentice",
            "logRetentionDays": 90,
            "modelExportFrequency": "PT5M",
        }
        told = await http.put(path, json=new)
        assert (told.status_code, told.json()) == (200, {**new, "modelExportFrequency": "PT0S"})
        made = (await http.post(f"{V1}/rank", json=question(excludedActions=["a0"]))).json()
        # The first action that is not excluded is the baseline.
        assert made["rewardActionId"] == "a1"
        assert made["ranking"][:2] == [
            {"id": "a0", "probability": 0.0},
            {"id": "a1", "probability": 1.0},
        ]
        for change, message in (
            ({"rewardWaitTime": "10 minutes"}, "PT10M"),
            ({"rewardAggregation": "max"}, "earliest or sum"),
            ({"explorationPercentage": 2}, "at most 1"),
            ({"learningMode": "x"}, "'x', expected one of Apprentice, "),
            ({"logMirrorEnabled": True}, "no such feature"),
            ({"logRetentionDays": 0}, "-1 to keep everything"),
            ({"logRetentionDays": 10**310}, "-1 to keep everything"),
            ({"logRetentionDays": 1}, "retention"),  # the window is longer
        ):
            failed = await http.put(path, json=change)
            assert failed.status_code == 400
            assert message in failed.json()["error"]["message"]
        assert (await http.get(path)).json() == told.json()
        policy = f"{V1}/configurations/policy"
        assert (await http.get(policy)).json() == {
            "name": "RoLinTS",
            "arguments": '{"exploration": "auto"}',
        }
        new = {"name": "RoLinTS", "arguments": '{"exploration": 0.5}'}
        assert (await http.put(policy, json=new)).json() == new
        wrong = {"name": "app", "arguments": "--cb_explore_adf"}
        assert (await http.put(policy, json=wrong)).status_code == 400
        assert (await http.get(policy)).json() == new
        assert (await http.delete(policy)).json()["arguments"] == '{"exploration": "auto"}'
        times = (await http.get(f"{V1}/model/properties")).json()
        assert times["creationTime"] <= times["lastModifiedTime"]
        assert (await http.get(f"{V1}/status")).json()["apiStatus"] == "Valid"

    served(tmp_path, visit)


@pytest.mark.parametrize("prefix", ["/personalizer/v1.1-preview.3", "/personalizer"])
def test_slots_show_different_actions(tmp_path: Path, prefix: str) -> None:
    """Each slot is a decision with exact probabilities, given the slots before it; the event is repeated as a whole."""

    async def visit(http: httpx.AsyncClient) -> None:
        for i in range(8):
            event = f"m/{i}"
            made = await http.post(f"{prefix}/multislot/rank", json=slots(event))
            assert made.status_code == 201
            assert made.json()["eventId"] == event
            top, side = (each["rewardActionId"] for each in made.json()["slots"])
            assert [each["id"] for each in made.json()["slots"]] == ["top", "side"]
            assert top != side
            assert side != "a3"
            again = await http.post(f"{prefix}/multislot/rank", json=slots(event))
            assert again.json() == made.json()
            body = {"reward": [{"slotId": "side", "value": 1}, {"slotId": "top", "value": 0}]}
            told = await http.post(f"{prefix}/multislot/events/m%2F{i}/reward", json=body)
            assert told.status_code == 204
            wrong = {"reward": [{"slotId": "none", "value": 1}]}
            told = await http.post(f"{prefix}/multislot/events/m%2F{i}/reward", json=wrong)
            assert told.status_code == 404
        engine = await http.service.bandits.get("default")  # type: ignore[attr-defined]
        journal = engine.bandit.bandit.journal
        second = journal.decision("m/7/slot/1")
        assert set(second.offered) == {"a0", "a1", "a2"} - {top}
        assert second.propensities.sum() == pytest.approx(1.0)
        assert journal.outcomes("m/7/slot/1")[0].value == 1.0
        assert journal.outcomes("m/7/slot/0")[0].value == 0.0

    served(tmp_path, visit)


@given(st.data())
def test_slots_never_run_out_of_actions(data: Any) -> None:
    """Whatever is chosen in a slot, those after it can be filled."""
    ids = [f"a{k}" for k in range(data.draw(st.integers(1, 6)))]
    baselines = data.draw(st.permutations(ids))[: data.draw(st.integers(1, len(ids)))]
    asked = [
        SlotRequest(
            f"s{i}",
            baseline,
            excluded_actions=data.draw(st.lists(st.sampled_from(ids))),
        )
        for i, baseline in enumerate(baselines)
    ]
    for slot in asked:
        slot.excluded_actions = [
            id for id in slot.excluded_actions or () if id != slot.baseline_action
        ]
    rank = MultiSlotRankRequest([RankableAction(id) for id in ids], asked)
    check_slots(rank)
    shown: list[str] = []
    for number, slot in enumerate(asked):
        request = slot_request(rank, number, "e", shown)
        left = [id for id in ids if id not in request.exclude]
        assert left
        assert not set(left) & {*shown, *(slot.excluded_actions or ())}
        assert request.baseline is None or request.baseline in left
        shown.append(data.draw(st.sampled_from(left)))


def test_slots_of_another_kind_of_event(tmp_path: Path) -> None:
    """An id that looks like that of a slot is no slot, and a slot that cannot be decided leaves nothing behind."""

    async def visit(http: httpx.AsyncClient) -> None:
        assert (await http.post(f"{V1}/rank", json=question("x/slot/0"))).status_code == 201
        reward = {"reward": [{"slotId": "top", "value": 1}]}
        told = await http.post(f"{V1}/multislot/events/x/reward", json=reward)
        assert told.status_code == 404
        wrong = slots("w", slots=[slots()["slots"][0], {"id": "s", "baselineAction": "none"}])
        assert (await http.post(f"{V1}/multislot/rank", json=wrong)).status_code == 400
        engine = await http.service.bandits.get("default")  # type: ignore[attr-defined]
        assert await engine.find(["w/slot/0", "w/slot/1"]) == {}

    served(tmp_path, visit)


def test_probabilities_are_never_made_up(tmp_path: Path) -> None:
    """A bandit that does not record them cannot answer a rank call."""

    async def visit(http: httpx.AsyncClient) -> None:
        change = {"settings": {"propensities": False}}
        assert (
            await http.patch("/v1/bandits/default", json=change, headers=HEADERS)
        ).status_code == 200
        failed = await http.post(f"{V1}/rank", json=question("e"))
        assert failed.status_code == 422
        assert "does not record probabilities" in failed.json()["error"]["message"]

    served(tmp_path, visit)


def test_a_default_reward_of_zero_is_set(tmp_path: Path) -> None:
    """Also where the bandit had none, which is shown as 0."""

    async def visit(http: httpx.AsyncClient) -> None:
        await http.post("/v1/bandits", json={"name": "shop"}, headers=HEADERS)
        path = f"/b/shop{V1}/configurations/service"
        told = await http.put(path, json={"defaultReward": 0})
        assert told.json()["defaultReward"] == 0.0
        native = (await http.get("/v1/bandits/shop", headers=HEADERS)).json()
        assert native["config"]["rewards"]["default"] == 0.0

    served(tmp_path, visit)


def test_slots_are_activated_together(tmp_path: Path) -> None:
    """No reward of a deferred event is learned before; its baseline actions are shown in apprentice mode."""

    async def visit(http: httpx.AsyncClient) -> None:
        path = f"{V1}/multislot"
        change = {"settings": {"mode": "apprentice"}}
        await http.patch("/v1/bandits/default", json=change, headers=HEADERS)
        made = (await http.post(f"{path}/rank", json=slots("m", deferActivation=True))).json()
        assert [each["rewardActionId"] for each in made["slots"]] == ["a0", "a1"]
        reward = {"reward": [{"slotId": "top", "value": 1}]}
        assert (await http.post(f"{path}/events/m/reward", json=reward)).status_code == 204
        engine = await http.service.bandits.get("default")  # type: ignore[attr-defined]
        journal = engine.bandit.bandit.journal
        assert journal.outcomes("m/slot/0") == {}
        body = {"reward": [{"slotId": "side", "value": 1}, {"slotId": "top", "value": 1e60}]}
        failed = await http.post(f"{path}/events/m/reward", json=body)
        assert failed.status_code == 400
        assert journal.following("m/slot/1") == []  # nothing was recorded
        assert (await http.post(f"{path}/events/m/activate")).status_code == 204
        assert journal.outcomes("m/slot/0")[0].value == 1.0

    served(tmp_path, visit)


def test_features_are_joined() -> None:
    """Lists of objects become one; objects of the same name are joined, and names with an underscore are left out."""
    plain = {"a": 1, "b": "x", "c": True}
    assert plain_features([plain]) is plain
    assert plain_features(None) == plain_features([]) == {}
    given = [{"u": {"a": 1}, "_x": 2, "l": ["p", "q"]}, {"u": {"b": 2, "_y": 1}}, {"l": [{"z": 1}]}]
    assert plain_features(given) == {"u": {"a": 1, "b": 2}, "l": {"z": 1}}
    assert plain_features([{"l": [1, 2]}]) == {"l": [1, 2]}
    with pytest.raises(DataError, match="expected objects"):
        plain_features([3])
    # In linear time, or this test would take hours.
    many = [{"u": {f"x{i}": i}} for i in range(100_000)]
    assert len(plain_features(many)["u"]) == 100_000


def test_a_log_has_the_features_of_live_requests(tmp_path: Path) -> None:
    """What Personalizer logged of a question is recorded as the same question asked now, so that both teach the same."""
    line = {
        "_label_cost": -1.0, "_label_probability": 0.8, "_label_Action": 2, "_labelIndex": 1,
        "Timestamp": "2026-01-02T03:04:05.6789000Z", "Version": "1", "EventId": "old", "a": [2, 1], "p": [0.8, 0.2],
        "c": {
            "FromUrl": [{"time": "noon", "user": {"age": 3}}, {"user": {"city": "x"}}],
            "_multi": [
                {"_tag": "tea", "i": {"constant": 1, "id": "tea"}, "j": [{"hot": True}, {"price": 2}]},
                {"_tag": "cola", "i": {"constant": 1, "id": "cola"}, "j": [{"hot": False}]},
            ],
        },
        "VWState": {"m": "N/A"},
    }  # fmt: skip

    async def visit(http: httpx.AsyncClient) -> None:
        log = "/v1/bandits/default/log?format=dsjson"
        told = await http.post(log, content=json.dumps(line), headers=HEADERS)
        assert told.json() == {"decisions": 1}
        context = line["c"]
        assert isinstance(context, dict)
        actions = [{"id": each["_tag"], "features": each["j"]} for each in context["_multi"]]
        rank = {"actions": actions, "contextFeatures": context["FromUrl"], "eventId": "new"}
        assert (await http.post(f"{V1}/rank", json=rank)).status_code == 201
        engine = await http.service.bandits.get("default")  # type: ignore[attr-defined]
        found = await engine.find(["old", "new"])
        assert found["old"].offered == found["new"].offered == ("tea", "cola")
        assert found["old"].raw == found["new"].raw
        assert (found["old"].offered_contexts == found["new"].offered_contexts).all()
        assert engine.bandit.bandit.journal.outcomes("old")[0].value == 1.0

    served(tmp_path, visit)


@given(st.integers(1, 10**9).map(lambda n: n / 1000))
def test_durations_are_read_as_they_are_written(seconds: float) -> None:
    """An ISO duration of any number of milliseconds."""
    assert duration_of("x", duration_text(seconds)) == pytest.approx(seconds, abs=1e-6)


@pytest.mark.parametrize(
    "text", ["", "P", "PT", "P1", "PT٣S", "10", "PT1.S", "P1Y", "-PT1S", "PT0S", "P1DT", "PT9e9S"]
)
def test_other_durations_are_rejected(text: str) -> None:
    """A duration has days, hours, minutes or seconds."""
    with pytest.raises(Refusal, match="expected a duration such as PT10M"):
        duration_of("rewardWaitTime", text)
