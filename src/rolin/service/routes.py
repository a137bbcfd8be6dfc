"""What can be asked over HTTP: one endpoint per row of `ENDPOINTS`, from which routes and their description are made."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from rolin.service import analysis, schema
from rolin.service.endpoint import BANDIT as _BANDIT
from rolin.service.endpoint import Call, Endpoint, Reply
from rolin.service.errors import Refusal
from rolin.service.keys import bearer_key
from rolin.service.statistics.routes import STATISTICS_ENDPOINTS

__all__ = ["ENDPOINTS", "Call", "Endpoint", "Reply"]

# -- decisions ---------------------------------------------------------------------------------


async def _decide(call: Call) -> Reply:
    return Reply(201, await (await call.engine()).decide(call.body))


async def _decide_batch(call: Call) -> Reply:
    return Reply(200, await (await call.engine()).decide_batch(call.body))


async def _decision(call: Call) -> Reply:
    return Reply(200, await (await call.engine()).decision(call.path["id"]))


async def _activate(call: Call) -> Reply:
    await (await call.engine()).activate(call.path["id"])
    return Reply(204)


async def _activate_batch(call: Call) -> Reply:
    return Reply(200, await (await call.engine()).activate_batch(call.body))


async def _explain(call: Call) -> Reply:
    engine = await call.engine()
    arm, against = call.query.get("arm"), call.query.get("against")
    as_of = call.query.get("as_of", "decision")
    return Reply(
        200, await analysis.explain(engine.bandit.bandit, call.path["id"], arm, against, as_of)
    )


# -- rewards -----------------------------------------------------------------------------------


async def _reward(call: Call) -> Reply:
    status = await (await call.engine()).reward(call.path["id"], call.body)
    return Reply(202 if status == "early" else 204)


async def _reward_batch(call: Call) -> Reply:
    return Reply(200, await (await call.engine()).reward_batch(call.body))


# -- bandits -----------------------------------------------------------------------------------


async def _list(call: Call) -> Reply:
    return Reply(200, schema.BanditList(call.service.bandits.names()))


async def _create(call: Call) -> Reply:
    engine = await call.service.bandits.create(call.body)
    return Reply(201, await asyncio.to_thread(engine.info))


async def _read(call: Call) -> Reply:
    return Reply(200, await asyncio.to_thread((await call.engine()).info))


async def _change(call: Call) -> Reply:
    engine = await call.engine()
    await engine.change(call.body)
    return Reply(200, await asyncio.to_thread(engine.info))


async def _delete(call: Call) -> Reply:
    await call.service.bandits.delete(call.path["name"])
    return Reply(204)


async def _register(call: Call) -> Reply:
    await (await call.engine()).register(call.body)
    return Reply(204)


async def _remove_arm(call: Call) -> Reply:
    await (await call.engine()).remove_arm(call.path["arm"])
    return Reply(204)


async def _restore_arm(call: Call) -> Reply:
    await (await call.engine()).restore_arm(call.path["arm"])
    return Reply(204)


async def _start_shadow(call: Call) -> Reply:
    await (await call.engine()).start_shadow(call.body)
    return Reply(204)


async def _stop_shadow(call: Call) -> Reply:
    await (await call.engine()).stop_shadow()
    return Reply(204)


async def _registered(call: Call) -> Reply:
    return Reply(200, schema.ArmList((await call.engine()).arms or []))


async def _store_catalogue(call: Call) -> Reply:
    return Reply(200, await (await call.engine()).store_catalogue(call.body))


async def _catalogue(call: Call) -> Reply:
    return Reply(200, (await call.engine()).catalogue.info())


async def _delete_catalogue(call: Call) -> Reply:
    await (await call.engine()).catalogue.delete()
    return Reply(204)


async def _diagnose(call: Call) -> Reply:
    return Reply(200, await analysis.diagnose((await call.engine()).bandit.bandit))


async def _evaluate(call: Call) -> Reply:
    engine, choice = await call.engine(), call.body
    policy = engine.new_policy(choice)
    return Reply(200, await analysis.evaluate(engine.bandit.bandit, policy, choice.policy))


async def _export(call: Call) -> Reply:
    engine = await call.engine()
    kind = call.query.get("format", "csv")
    if kind not in _MEDIA:
        raise Refusal(400, f"format={kind!r}, expected csv or parquet", field="format")
    return Reply(200, await analysis.export(engine.bandit.bandit, kind), _MEDIA[kind])


_MEDIA = {"csv": "text/csv", "parquet": "application/vnd.apache.parquet"}
_LOGS = {**_MEDIA, "dsjson": "application/x-ndjson"}
_COLUMNS = {
    "arm": "column of the arm that was chosen, by default arm; for dsjson, the feature that names it, such as i.id",
    "reward": "column of its reward; by default reward",
    "propensity": "column of the probability with which it was chosen; by default propensity, which may be missing",
    "features": "columns of its features, separated by commas, in the order of a vector; not for exported logs",
    "situation": "columns of the features of the situation, separated by commas",
    "id": "column of the id of the decision; by default id, which may be missing",
    "time": "column of the time; by default time, which may be missing",
    "person": "column of the person; by default person, which may be missing",
    "weight": "column of the weight of the reward; by default weight, which may be missing",
}


async def _import(call: Call) -> Reply:
    engine = await call.engine()
    kind = call.query.get("format", "csv")
    if kind not in _LOGS:
        raise Refusal(400, f"format={kind!r}, expected csv, parquet or dsjson", field="format")
    columns = {name: text for name, text in call.query.items() if name in _COLUMNS}
    n = await analysis.import_log(engine.bandit.bandit, call.body, kind, columns)
    return Reply(200, {"decisions": n})


async def _erase(call: Call) -> Reply:
    return Reply(200, await (await call.engine()).eraser.erase(call.body))


async def _snapshot(call: Call) -> Reply:
    return Reply(200, schema.SnapshotAnswer(await (await call.engine()).snapshot()))


# -- the service -------------------------------------------------------------------------------


async def _live(call: Call) -> Reply:
    return Reply(200, {"status": "ok"})


async def _ready(call: Call) -> Reply:
    why, problems = call.service.unready, call.service.problems
    if why is None and not problems:
        return Reply(200, {"status": "ok"})
    # Anybody may ask, but names of bandits and errors of journals are for those who may read them.
    text = bearer_key(call.headers)
    key = None if text is None else call.service.keys.find(text)
    may_read = key is not None and key.allows("read")
    n = len(problems)
    if why is not None:
        if problems and not may_read:
            why = f"{n} bandit{'s fail' if n > 1 else ' fails'}; with a key, the answer says why"
        raise Refusal(503, f"not ready: {why}", retry_after=1)
    details = {"bandits": problems} if may_read else {}
    return Reply(200, {"status": "degraded", "failing": n, **details})


async def _metrics(call: Call) -> Reply:
    text = await asyncio.to_thread(call.service.metrics_text)
    return Reply(200, text.encode(errors="replace"), "text/plain; version=0.0.4")


_ONE = _BANDIT + "/decisions/{id:id}"
ENDPOINTS = [
    Endpoint(
        "POST", f"{_BANDIT}/decisions/batch", "decide", _decide_batch, "Make several decisions",
        schema.DecisionBatch, schema.BatchAnswer, decoded_as=schema.RawDecisions, unrecorded=True,
    ),
    Endpoint(
        "POST", f"{_BANDIT}/decisions", "decide", _decide, "Choose an arm",
        schema.DecisionRequest, schema.DecisionAnswer, 201, unrecorded=True,
    ),
    Endpoint(
        "POST", f"{_BANDIT}/rewards", "reward", _reward_batch, "Report several rewards",
        schema.RewardBatch, schema.BatchAnswer, decoded_as=schema.RawRewards,
    ),
    Endpoint(
        "POST", f"{_BANDIT}/activations", "decide", _activate_batch, "Activate several decisions",
        schema.ActivationBatch, schema.BatchAnswer,
    ),
    Endpoint(
        "POST", f"{_ONE}/reward", "reward", _reward, "Report the reward of a decision",
        schema.RewardRequest, None, 204,
    ),
    Endpoint("POST", f"{_ONE}/activate", "decide", _activate, "Activate a decision", None, None, 204),
    Endpoint(
        "GET", f"{_ONE}/explanation", "read", _explain, "Explain the score of an arm", None, dict[str, Any], 200,
        {"arm": "the arm to explain; by default the chosen one", "against": "another arm to compare it with",
         "as_of": "decision (the default): what the model knew when it decided; now: what it knows now"},
        slow=True,
    ),
    Endpoint("GET", _ONE, "read", _decision, "Read a decision", None, schema.DecisionAnswer),
    Endpoint("GET", "/v1/bandits", "read", _list, "List all bandits", None, schema.BanditList),
    Endpoint(
        "POST", "/v1/bandits", "admin", _create, "Create a bandit", schema.NewBandit, schema.BanditInfo, 201,
        slow=True,
    ),
    Endpoint("GET", _BANDIT, "read", _read, "Read a bandit", None, schema.BanditInfo),
    Endpoint(
        "PATCH", _BANDIT, "admin", _change, "Change settings", schema.BanditChange, schema.BanditInfo
    ),
    Endpoint("DELETE", _BANDIT, "admin", _delete, "Delete a bandit and its journal", None, None, 204, slow=True),
    Endpoint("GET", f"{_BANDIT}/arms", "read", _registered, "Read the registered arms", None, schema.ArmList),
    Endpoint("PUT", f"{_BANDIT}/arms", "admin", _register, "Register arms", schema.ArmList, None, 204),
    Endpoint(
        "PUT", f"{_BANDIT}/catalogue", "admin", _store_catalogue,
        "Store a catalogue: one arm per line, as JSON with id and features", bytes, schema.CatalogueInfo,
        decoded_as=AsyncIterator, slow=True,
    ),
    Endpoint(
        "GET", f"{_BANDIT}/catalogue", "read", _catalogue, "Describe the catalogue", None, schema.CatalogueInfo
    ),
    Endpoint("DELETE", f"{_BANDIT}/catalogue", "admin", _delete_catalogue, "Delete the catalogue", None, None, 204),
    Endpoint(
        "PUT", f"{_BANDIT}/removed-arms/{{arm:id}}", "admin", _remove_arm,
        "Remove an arm: until it is restored, requests that offer it are refused", None, None, 204,
    ),
    Endpoint(
        "DELETE", f"{_BANDIT}/removed-arms/{{arm:id}}", "admin", _restore_arm,
        "Let a removed arm be offered again, with what was learned about it", None, None, 204,
    ),
    Endpoint(
        "PUT", f"{_BANDIT}/shadow", "admin", _start_shadow, "Let a second policy learn from the same rewards",
        schema.PolicyChoice, None, 204, slow=True,
    ),
    Endpoint("DELETE", f"{_BANDIT}/shadow", "admin", _stop_shadow, "End the shadow", None, None, 204),
    Endpoint(
        "GET", f"{_BANDIT}/diagnosis", "read", _diagnose, "Test whether the features miss something", None,
        dict[str, Any], slow=True,
    ),
    Endpoint(
        "POST", f"{_BANDIT}/evaluations", "read", _evaluate, "Estimate what another policy would have earned",
        schema.PolicyChoice, dict[str, Any], slow=True,
    ),
    Endpoint(
        "GET", f"{_BANDIT}/log", "read", _export, "Export all decisions with their rewards", None, bytes, 200,
        {"format": "csv or parquet"}, _MEDIA.values(), slow=True,
    ),
    Endpoint(
        "POST", f"{_BANDIT}/log", "admin", _import, "Learn from a log of past decisions", bytes, dict[str, Any], 200,
        {"format": "csv, parquet or dsjson", **_COLUMNS}, slow=True,
    ),
    Endpoint(
        "POST", f"{_BANDIT}/erasures", "admin", _erase, "Erase decisions", schema.Erasure, schema.ErasureAnswer,
        slow=True,
    ),
    Endpoint("POST", f"{_BANDIT}/snapshots", "admin", _snapshot, "Store a snapshot", None, schema.SnapshotAnswer),
    Endpoint("GET", "/healthz", None, _live, "Whether the process runs", None, dict[str, str]),
    Endpoint("GET", "/readyz", None, _ready, "Whether it can answer requests", None, dict[str, Any]),
    Endpoint("GET", "/metrics", "read", _metrics, "Counters for Prometheus", None, str),
    *STATISTICS_ENDPOINTS,
]  # fmt: skip
"""All endpoints; of those that fit a path, the first one answers."""
