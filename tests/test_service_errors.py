"""What the service says of bad input: one shape of errors, the part of the request that is meant, and nothing recorded."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

import httpx
import pytest

import rolin
from support.server import V1
from support.service import client


def run(coroutine: Any) -> Any:
    """Run a test on an event loop of its own."""
    return asyncio.run(coroutine)


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({"arms": "red"}, 400, "arms"),
        ({"arms": [{"id": 5}]}, 400, "arms[0].id"),
        ({"arms": [{"id": "a", "prise": 1}]}, 400, "arms[0].prise"),
        ({"arms": [{"id": "a", "features": [1.0]}]}, 400, "arms[0].features"),
        ({"arms": ["a"], "situation": [1.0]}, 400, "situation"),
        ({"arms": []}, 400, "arms"),
        ({"arms": ["a", "a"]}, 400, "arms[1]"),
        ({"arms": ["x", "x", "a", "a"], "exclude": ["x"]}, 400, "arms[3]"),
        ({"arms": ["a"], "top_k": 0}, 400, "top_k"),
        ({"arms": ["a"], "top_k": 2}, 400, "top_k"),
        ({"arms": ["a"], "id": ""}, 400, "id"),
        ({}, 400, "arms"),
        ({"arms": ["a"] * 20}, 413, "arms"),
    ],
)
def test_bad_questions_get_clear_errors(
    body: dict[str, Any], status: int, field: str | None, tmp_path: Path
) -> None:
    """One shape, the field named, nothing recorded."""

    async def ask() -> None:
        async with client(tmp_path, max_arms=10) as http:
            found = await http.post(f"{V1}/decisions", json=body)
            error = found.json()["error"]
            assert (found.status_code, error.get("field")) == (status, field), error
            assert error["message"]
            assert (await http.get(V1)).json()["version"] == 1  # the feature map

    run(ask())


_FIELDS = {
    "kind": "map",
    "strict": True,
    "situation": {"hour": {"kind": "number"}},
    "arm": {"price": {"kind": "number"}},
}
_A, _B = {"id": "a", "features": {"price": 1}}, {"id": "b", "features": {"price": 2}}


@pytest.mark.parametrize(
    ("bandit", "body", "status", "field"),
    [
        ("default", {"arms": ["a", "b"], "exclude": ["b", "a"]}, 400, "exclude"),
        ("default", {"arms": ["a", "b"], "top_k": 2, "exclude": ["a"]}, 400, "top_k"),
        ("default", {"arms": ["a"], "top_k": 10**19}, 400, "top_k"),
        ("default", {"arms": ["a", "b"], "baseline": "c"}, 400, "baseline"),
        ("default", {"arms": ["a"], "foo": 1}, 400, "foo"),
        ("default", {"arms": ["a"], "id": "x\0"}, 400, "id"),
        ("default", {"arms": ["a"], "id": "x" * 505}, 400, "id"),
        ("default", {"arms": ["a"], "person": "x\0"}, 400, "person"),
        ("default", {"arms": ["a"], "id": "known"}, 409, "id"),
        ("default", {"arms": ["removed", "a"]}, 400, "arms"),
        ("default", {"arms": ["a"], "situation": {"x": {"y": 1e30}}}, 400, "situation.x.y"),
        ("default", {"arms": ["a", {**_B, "features": {"x": 1e30}}]}, 400, "arms[1].features.x"),
        ("map", {"arms": [_A, _B, _A]}, 400, "arms[2]"),
        ("map", {"arms": [_A, _B], "exclude": ["a", "b"]}, 400, "exclude"),
        (
            "map",
            {"arms": [_A, {**_B, "features": {"price": "low"}}]},
            400,
            "arms[1].features.price",
        ),
        (
            "map",
            {"arms": [_A, {**_B, "features": {"price": "low"}}], "exclude": ["a"]},
            400,
            "arms[1].features.price",
        ),
        ("map", {"arms": [_A, {**_B, "features": {"prize": 1}}]}, 400, "arms[1].features.prize"),
        ("map", {"arms": [_A], "situation": {"hour": "9h"}}, 400, "situation.hour"),
        ("map", {"arms": [_A], "situation": {"day": 1}}, 400, "situation.day"),
        ("vectors", {"arms": [{"id": "a", "features": [1, 1e80]}]}, 400, "arms[0].features[1]"),
        ("vectors", {"arms": ["a"], "situation": [1e80, 1]}, 400, "situation[0]"),
        ("vectors", {"arms": ["a"], "situation": [1]}, 400, "situation"),
    ],
)
@pytest.mark.filterwarnings("ignore::rolin.errors.SharedContextWarning")
def test_what_the_library_rejects_is_named(
    bandit: str, body: dict[str, Any], status: int, field: str, tmp_path: Path
) -> None:
    """The member, the arm and its field, although it is the library that rejects the question."""

    async def ask() -> None:
        async with client(tmp_path) as http:
            vectors = {"kind": "vectors", "n_features": 2}
            for name, features in (("map", _FIELDS), ("vectors", vectors)):
                await http.post("/v1/bandits", json={"name": name, "features": features})
            made = await http.post(f"{V1}/decisions", json={"id": "known", "arms": ["removed"]})
            assert made.status_code == 201
            await http.post(f"{V1}/decisions/known/reward", json={"value": 1})
            assert (await http.put(f"{V1}/removed-arms/removed")).status_code == 204
            found = await http.post(f"/v1/bandits/{bandit}/decisions", json=body)
            error = found.json()["error"]
            assert (found.status_code, error.get("field")) == (status, field), error
            # In a batch too.
            items = {"decisions": [body]}
            batch = await http.post(f"/v1/bandits/{bandit}/decisions/batch", json=items)
            assert batch.json()["results"] == [{"status": status, "error": error}]

    run(ask())


def _state(n_features: int, folder: Path) -> str:
    rolin.RoLinTS(n_features=n_features, seed=1).save(folder / "state")
    return base64.b64encode((folder / "state").read_bytes()).decode()


def test_other_errors_name_the_part_of_the_request(tmp_path: Path) -> None:
    """Rewards, settings, states, erasures and parameters behind the path."""

    async def send() -> None:
        async with client(tmp_path) as http:
            made = await http.post(f"{V1}/decisions", json={"id": "q", "arms": ["a", "b"]})
            other = {"a": "b", "b": "a"}[made.json()["arm"]]
            reward, rewards = f"{V1}/decisions/q/reward", f"{V1}/rewards"
            settings = {"exploration": -1}
            mapped = {"kind": "map", "arm": {"y": {"kind": "number"}}}
            for method, path, body, status, field in [
                ("POST", reward, {"value": 1, "arm": other}, 400, "arm"),
                ("POST", reward, {"value": 1e60}, 400, "value"),
                ("POST", reward, {"value": 1, "weight": 1e60}, 400, "weight"),
                ("POST", reward, {}, 400, "value"),
                ("PATCH", V1, {"settings": settings}, 400, "settings.exploration"),
                ("PATCH", V1, {"settings": {"x": 1}}, 400, "settings.x"),
                ("PATCH", V1, {"settings": {"floor": 0.1, "propensities": False}}, 400, "settings.floor"),
                ("PATCH", V1, {"rewards": {"default": 1e60}}, 400, "rewards.default"),
                ("POST", "/v1/bandits", {"name": "n", "settings": settings}, 400, "settings.exploration"),
                ("POST", "/v1/bandits", {"name": "n", "policy": "Uniform", "settings": {"exploration": 1}}, 422, "settings.exploration"),
                ("POST", "/v1/bandits", {"name": "n", "state": _state(3, tmp_path)}, 400, "state"),
                ("POST", "/v1/bandits", {"name": "n", "features": {"kind": "vectors", "n_features": 2}, "state": _state(3, tmp_path)}, 400, "state"),
                ("POST", "/v1/bandits", {"name": "n", "features": mapped, "state": _mapped_state(tmp_path)}, 400, "state"),
                ("POST", "/v1/bandits", {"name": "n", "features": {"kind": "hashed", "size": -1}}, 400, "features"),
                ("PUT", f"{V1}/shadow", {"policy": "LogisticRoLinTS"}, 400, "policy"),
                ("POST", f"{V1}/erasures", {"ids": ["q", "x\0"]}, 400, "ids"),
                ("GET", f"{V1}/decisions/q/explanation?arm=x", None, 400, "arm"),
                ("GET", f"{V1}/decisions/q/explanation?against=x", None, 400, "against"),
                ("GET", f"{V1}/decisions/q/explanation?as_of=x", None, 400, "as_of"),
            ]:  # fmt: skip
                found = await http.request(str(method), str(path), json=body)
                error = found.json()["error"]
                assert (found.status_code, error.get("field")) == (status, field), error
            items: list[Any] = [
                {"decision": "q", "value": 1, "arm": other},
                {"decision": "\0", "value": 1},
            ]
            batch = (await http.post(rewards, json={"rewards": items})).json()["results"]
            assert [item["error"]["field"] for item in batch] == ["arm", "decision"]
            assert (await http.get("/v1/bandits")).json() == {"bandits": ["default"]}

    run(send())


def _mapped_state(folder: Path) -> str:
    """The state of a bandit with the field x."""
    features = rolin.FeatureMap({}, {"x": rolin.features.Number()})
    policy = rolin.RoLinTS(n_features=features.n_features, seed=1)
    with rolin.Bandit(policy, feature_map=features) as bandit:
        bandit.policy.save(folder / "state")
    return base64.b64encode((folder / "state").read_bytes()).decode()


def test_hostile_bodies(tmp_path: Path) -> None:
    """Depth, size, NaN, wrong encodings, surrogates, a member given twice: 4xx, and nothing recorded."""

    async def send() -> None:
        async with client(tmp_path, max_body=4096) as http:
            for body, status in [
                (b"", 400),
                (b"null", 400),
                (b"[" * 3000, 400),
                (
                    b'{"arms":[{"id":"a","features":' + b'{"x":' * 600 + b"1" + b"}" * 600 + b"}]}",
                    400,
                ),
                (b'{"arms":["a"],"situation":{"x":NaN}}', 400),
                (b'{"arms":["a"],"situation":{"x":1e999}}', 400),
                (b'{"arms":["\xff"]}', 400),
                (b'{"arms":["\\ud800"]}', 400),
                (b'{"arms":["a"],"arms":["b"]}', 400),
                (b" " * 5000, 413),
            ]:
                found = await http.post(f"{V1}/decisions", content=body)
                assert found.status_code == status, (body[:60], found.text)
                assert set(found.json()) == {"error"}
            assert (await http.get(V1)).json()["version"] == 1

    run(send())


def test_slopes_by_the_names_of_fields(tmp_path: Path) -> None:
    """A bandit with a feature map takes the names of fields, because callers do not know the columns."""
    features = {
        "kind": "map",
        "situation": {"age": {"kind": "number"}, "hour": {"kind": "number"}},
        "arm": {"price": {"kind": "number"}},
    }

    async def create() -> None:
        async with client(tmp_path) as http:

            async def made(name: str, slopes: Any, given: Any = features) -> httpx.Response:
                options = {"slope_std": "learn", "slopes": slopes}
                body = {"name": name, "features": given, "options": options}
                return await http.post("/v1/bandits", json=body)

            for name, slopes, fields in [
                ("named", ["hour", ["age", "price"]], ["hour", ("age", "price")]),
                ("columns", [2], ["hour"]),
            ]:
                found = await made(name, slopes)
                assert found.status_code == 201, found.text
                engine = await http.service.bandits.get(name)  # type: ignore[attr-defined]
                policy = engine.bandit.bandit.policy
                expected = engine.bandit.bandit.feature_map.indices(fields)
                assert list(policy.posterior.slope_indices) == expected
            for slopes, given in [
                (["weight"], features),
                (["hour"], {"kind": "vectors", "n_features": 2}),
                (["hour"], {"kind": "hashed"}),
                ([["age"]], features),
            ]:
                found = await made("other", slopes, given)
                assert found.status_code == 400, found.text
                assert found.json()["error"]["field"] == "options.slopes"

    run(create())
