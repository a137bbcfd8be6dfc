"""Personalizer's endpoints. Its clients differ in where they name the version, and an address may name a bandit."""

from __future__ import annotations

import asyncio
import hashlib
import re
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from starlette.convertors import StringConvertor, register_url_convertor

from rolin.service import schema as native
from rolin.service.endpoint import Call, Dialect, Endpoint, Reply
from rolin.service.engine import Engine
from rolin.service.errors import Failure, Refusal
from rolin.service.personalizer import schema
from rolin.service.personalizer.configuration import (
    FIRST_REWARDS,
    FIRST_SETTINGS,
    change_of,
    configuration_of,
    exploration_change,
    policy_contract,
)
from rolin.service.personalizer.ranking import (
    check_slots,
    decision_request,
    rank_response,
    slot_id,
    slot_request,
)
from rolin.service.service import DEFAULT

__all__ = ["PERSONALIZER"]

_MOST_SLOTS = 50
_KEY_HEADER = "Ocp-Apim-Subscription-Key"
_CODES = {
    400: "BadRequest", 401: "401", 403: "OperationNotAllowed", 404: "ResourceNotFound", 408: "BadRequest",
    409: "InvalidRankRequest", 413: "PayloadSizeExceeded", 422: "BadRequest", 429: "429",
}  # fmt: skip


def _error_of(failure: Failure) -> dict[str, object]:
    """Return the JSON of an error, with Personalizer's codes."""
    code = _CODES.get(failure.status, "InternalServerError")
    error: dict[str, object] = {"code": code, "message": failure.message}
    if failure.field is not None:
        error["target"] = _target_of(failure.field)
    return {"error": error}


def _target_of(field: str) -> str:
    """Return what Personalizer calls a part of a request."""
    for own, there in _PARTS:
        if found := own.match(field):
            return found.expand(there)
    return field


# Fields of an action are spread over a list of objects, so that the place of one of them is not known.
_PARTS = [
    (re.compile(r"arms(\[\d+\](\.features)?)?"), r"actions\1"),
    (re.compile(r"situation\b"), "contextFeatures"),
    (re.compile(r"exclude\Z"), "excludedActions"),
    (re.compile(r"id\Z"), "eventId"),
]


_DIALECT = Dialect(
    key_of=lambda headers: headers.get(_KEY_HEADER),
    expected_key=f"{_KEY_HEADER}: <key>",
    error_of=_error_of,
)


async def _engine(call: Call) -> Engine:
    """Return the bandit of the address; without a name it is `default`."""
    return await call.service.bandits.get(call.path.get("name", DEFAULT))


async def _used_engine(call: Call) -> Engine:
    """Return the bandit of the address, to be used: a new `default` gets Personalizer's settings."""
    if "name" in call.path:
        return await _engine(call)
    engine = await call.service.bandits.get_or_create(
        native.NewBandit(name=DEFAULT, rewards=FIRST_REWARDS, settings=FIRST_SETTINGS)
    )
    if engine.is_untouched:  # the service created it when it first started
        await engine.change(native.BanditChange(FIRST_SETTINGS, FIRST_REWARDS))
    return engine


# -- one slot ----------------------------------------------------------------------------------


async def _rank(call: Call) -> Reply:
    engine, rank = await _used_engine(call), call.body
    answer = await engine.decide(decision_request(rank))
    return Reply(201, rank_response(rank, answer))


async def _reward(call: Call) -> Reply:
    await _give_reward(call, await _engine(call), call.path["id"], call.body.value)
    return Reply(204)


async def _give_reward(call: Call, engine: Engine, id: str, value: float, place: int = 0) -> None:
    """Record a reward. One that is late, repeated or early is no error, as with Personalizer."""
    reward_id = None
    if engine.config.rewards.rule == "sum":
        # Clients repeat a request with the same header, so that it is not added twice. Old ones do not send it.
        request = call.headers.get("x-ms-client-request-id") or secrets.token_hex(16)
        reward_id = hashlib.sha256(f"{request}/{place}".encode()).hexdigest()
    await engine.reward(id, native.RewardRequest(value, id=reward_id))


async def _activate(call: Call) -> Reply:
    await (await _engine(call)).activate(call.path["id"])
    return Reply(204)


# -- several slots -----------------------------------------------------------------------------


async def _rank_slots(call: Call) -> Reply:
    """Decide one slot after the other. Each is a decision of its own, so a repeated request goes on where it ended.

    They are activated when all are decided: nothing is learned from slots that nobody saw, because a later one failed.
    """
    engine, rank = await _used_engine(call), call.body
    check_slots(rank)
    event_id = rank.event_id or secrets.token_hex(16)
    shown: list[str] = []
    for number in range(len(rank.slots)):
        answer = await engine.decide(slot_request(rank, number, event_id, shown))
        if not answer.recorded:  # then none of them is
            shown = [slot.baseline_action for slot in rank.slots]
            break
        shown.append(answer.arm)
    else:
        if not rank.defer_activation:
            ids = [slot_id(event_id, number) for number in range(len(shown))]
            await asyncio.gather(*map(engine.activate, ids))
    slots = [schema.SlotResponse(slot.id, arm) for slot, arm in zip(rank.slots, shown, strict=True)]
    return Reply(201, schema.MultiSlotRankResponse(slots, event_id))


async def _reward_slots(call: Call) -> Reply:
    engine = await _engine(call)
    numbers = await _slots_of(engine, call.path["id"])
    unknown = [each.slot_id for each in call.body.reward if each.slot_id not in numbers]
    if unknown:
        raise Refusal(404, f"event {call.path['id']!r} has no slot {unknown[0]!r}")
    for each in call.body.reward:  # before the first one is recorded
        engine.check_reward(each.value)
    for place, each in enumerate(call.body.reward):
        id = slot_id(call.path["id"], numbers[each.slot_id])
        await _give_reward(call, engine, id, each.value, place)
    return Reply(204)


async def _activate_slots(call: Call) -> Reply:
    engine = await _engine(call)
    for number in (await _slots_of(engine, call.path["id"])).values():
        await engine.activate(slot_id(call.path["id"], number))
    return Reply(204)


async def _slots_of(engine: Engine, event_id: str) -> Mapping[str, int]:
    """Return the number of every slot of an event, by its id."""
    ids = [slot_id(event_id, number) for number in range(_MOST_SLOTS)]
    found = await engine.find(ids)
    numbers: dict[str, int] = {}
    for number, id in enumerate(ids):
        raw = found[id].raw if id in found else None
        slot = None if raw is None else raw.situation.get("slot")
        if isinstance(slot, dict) and "id" in slot:  # the id could also be that of another decision
            numbers[slot["id"]] = number
    if not numbers:
        raise Refusal(404, f"there is no event {event_id!r} with slots")
    return numbers


# -- settings ----------------------------------------------------------------------------------


async def _configuration(call: Call) -> Reply:
    return Reply(200, configuration_of(await asyncio.to_thread((await _engine(call)).info)))


async def _change_configuration(call: Call) -> Reply:
    engine = await _used_engine(call)
    now = configuration_of(await asyncio.to_thread(engine.info))
    await engine.change(change_of(call.body, now))
    return Reply(200, configuration_of(await asyncio.to_thread(engine.info)))


async def _policy(call: Call) -> Reply:
    return Reply(200, policy_contract(await asyncio.to_thread((await _engine(call)).info)))


async def _change_policy(call: Call) -> Reply:
    engine = await _used_engine(call)
    change = exploration_change(call.body, await asyncio.to_thread(engine.info))
    await engine.change(change)
    return Reply(200, policy_contract(await asyncio.to_thread(engine.info)))


async def _reset_policy(call: Call) -> Reply:
    engine = await _used_engine(call)
    await engine.change(native.BanditChange(native.Settings(exploration="auto")))
    return Reply(200, policy_contract(await asyncio.to_thread(engine.info)))


async def _model_properties(call: Call) -> Reply:
    times = await (await _engine(call)).times()
    made, changed = (datetime.fromtimestamp(time, UTC).isoformat() for time in times)
    return Reply(200, schema.ModelProperties(made, changed))


async def _status(call: Call) -> Reply:
    await _engine(call)
    text = "Api Key is valid."
    return Reply(200, {"service": "personalizer", "apiStatus": "Valid", "apiStatusMessage": text})


class _Version(StringConvertor):
    """The version in a path, such as `v1.0` or `v1.1-preview.3`."""

    regex = r"v1\.\d(?:-preview(?:\.\d)?)?"


register_url_convertor("personalizer_version", _Version())

_EVENT = "/events/{id:id}"
_CALLS: list[tuple[str, str, Any, Any, str, Any, Any, int]] = [
    ("POST", "/rank", "decide", _rank, "Choose an action", schema.RankRequest, schema.RankResponse, 201),
    ("POST", f"{_EVENT}/reward", "reward", _reward, "Report a reward", schema.RewardRequest, None, 204),
    ("POST", f"{_EVENT}/activate", "decide", _activate, "Activate an event", None, None, 204),
    (
        "POST", "/multislot/rank", "decide", _rank_slots, "Choose an action for each slot",
        schema.MultiSlotRankRequest, schema.MultiSlotRankResponse, 201,
    ),
    (
        "POST", f"/multislot{_EVENT}/reward", "reward", _reward_slots, "Report the rewards of slots",
        schema.MultiSlotRewardRequest, None, 204,
    ),
    ("POST", f"/multislot{_EVENT}/activate", "decide", _activate_slots, "Activate all slots", None, None, 204),
    (
        "GET", "/configurations/service", "read", _configuration, "Read the settings",
        None, schema.ServiceConfiguration, 200,
    ),
    (
        "PUT", "/configurations/service", "admin", _change_configuration, "Change the settings",
        schema.ServiceConfigurationChange, schema.ServiceConfiguration, 200,
    ),
    ("GET", "/configurations/policy", "read", _policy, "Read the policy", None, schema.PolicyContract, 200),
    (
        "PUT", "/configurations/policy", "admin", _change_policy, "Change the exploration of the policy",
        schema.PolicyContract, schema.PolicyContract, 200,
    ),
    (
        "DELETE", "/configurations/policy", "admin", _reset_policy, "Reset the exploration of the policy",
        None, schema.PolicyContract, 200,
    ),
    (
        "GET", "/model/properties", "read", _model_properties, "Read when the model was changed",
        None, schema.ModelProperties, 200,
    ),
    ("GET", "/status", "read", _status, "Whether the key is valid", None, dict[str, str], 200),
]  # fmt: skip
# The newest client names the version behind the path, where it changes nothing.
_PREFIXES = ("/personalizer/{version:personalizer_version}", "/personalizer")
PERSONALIZER = [
    Endpoint(
        method, bandit + prefix + path, scope, handler, summary, body, answer, status,
        query={"api-version": "ignored"}, dialect=_DIALECT,
    )
    for bandit in ("", "/b/{name}")
    for prefix in _PREFIXES
    for method, path, scope, handler, summary, body, answer, status in _CALLS
]  # fmt: skip
"""All endpoints of Personalizer, for each kind of address."""
