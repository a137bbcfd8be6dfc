"""The native API of the decision service: what it answers, and what it promises."""

from __future__ import annotations

import asyncio
import base64
import io
import re
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pandas as pd
import pytest

import rolin
from rolin.service.demo import visit_for_ever
from rolin.service.routes import ENDPOINTS
from support.service import client

V1 = "/v1/bandits/default"
ARMS = [{"id": "red", "features": {"price": 3}}, {"id": "blue", "features": {"price": 5}}, "green"]


def question(id: str | None = None, **more: Any) -> dict[str, Any]:
    """A request for a decision."""
    return {"id": id, "situation": {"hour": 9}, "arms": ARMS, **more}


def run(coroutine: Any) -> Any:
    """Run a test on an event loop of its own."""
    return asyncio.run(coroutine)


def test_a_decision_and_its_reward(tmp_path: Path) -> None:
    """From an empty folder: ask, report, read back, explain, restart."""

    async def first() -> dict[str, Any]:
        async with client(tmp_path) as http:
            made = await http.post(f"{V1}/decisions", json=question("visit-1"))
            assert made.status_code == 201
            answer: dict[str, Any] = made.json()
            assert answer["id"] == "visit-1"
            assert answer["ranking"] == [answer["arm"]]
            assert set(answer["probabilities"]) == {"red", "blue", "green"}
            assert sum(answer["probabilities"].values()) == pytest.approx(1.0)
            reward = await http.post(f"{V1}/decisions/visit-1/reward", json={"value": 1})
            assert (reward.status_code, reward.content) == (204, b"")
            explained = await http.get(f"{V1}/decisions/visit-1/explanation")
            assert explained.json()["arm"] == answer["arm"]
            return answer

    async def again(expected: dict[str, Any]) -> None:
        async with client(tmp_path) as http:
            assert (await http.get(f"{V1}/decisions/visit-1")).json() == expected
            repeated = await http.post(f"{V1}/decisions", json=question("visit-1"))
            assert (repeated.status_code, repeated.json()) == (201, expected)
            assert (await http.get(V1)).json()["n_arms"] == 1

    run(again(run(first())))


def test_a_repeat_has_no_second_effect(tmp_path: Path) -> None:
    """By 32 callers at once: one decision, one reward; another question under the same id is refused."""

    async def hammer() -> None:
        async with client(tmp_path) as http:
            made = await asyncio.gather(
                *(http.post(f"{V1}/decisions", json=question("once")) for _ in range(32))
            )
            assert {r.status_code for r in made} == {201}
            assert len({r.text for r in made}) == 1
            rewards = await asyncio.gather(
                *(http.post(f"{V1}/decisions/once/reward", json={"value": 1}) for _ in range(32))
            )
            assert {r.status_code for r in rewards} == {204}
            bandit = http.service.bandits.opened()[0].bandit.bandit  # type: ignore[attr-defined]
            assert bandit.policy.posterior.count == 1
            other = await http.post(f"{V1}/decisions", json=question("once", top_k=2))
            assert (other.status_code, other.json()["error"]["code"]) == (409, "conflict")

    run(hammer())


def test_what_is_the_same_question(tmp_path: Path) -> None:
    """Fields are compared as JSON, vectors as numbers; the order of the other members does not matter."""
    fields = b'{"id":"q","arms":[{"id":"a","features":{"x":1,"y":2}}],"situation":{"h":1}}'
    vectors = b'{"id":"q","arms":[{"id":"a","features":[1,2]}]}'
    plain = b'{"id":"p","arms":["a","b"]}'

    async def send() -> None:
        async with client(tmp_path) as http:
            kind = {"kind": "vectors", "n_features": 2}
            await http.post("/v1/bandits", json={"name": "v", "features": kind})
            for name, body, status in [
                ("default", fields, 201),
                ("default", fields, 201),
                ("default", b'{"situation":{"h":1},"arms":[{"features":{"x":1,"y":2},"id":"a"}],"id":"q"}', 201),
                ("default", fields.replace(b'"x":1,"y":2', b'"y":2,"x":1'), 409),
                ("default", fields.replace(b'"h":1', b'"h":1.0'), 409),
                ("v", vectors, 201),
                ("v", vectors.replace(b"[1,2]", b"[1.0, 2e0]"), 201),
                ("default", plain, 201),
                ("default", plain.replace(b"}", b',"situation":{}}'), 201),
                ("default", plain.replace(b'"a"', b'{"id":"a","features":{}}'), 201),
            ]:  # fmt: skip
                found = await http.post(f"/v1/bandits/{name}/decisions", content=body)
                assert found.status_code == status, (body, found.text)

    run(send())


def test_one_bad_request_does_not_fail_its_neighbours(tmp_path: Path) -> None:
    """Neither in a batch, nor when they are written together."""

    async def mixed() -> None:
        async with client(tmp_path) as http:
            bad = question("bad", exclude=["red", "blue", "green"])
            batch = await http.post(
                f"{V1}/decisions/batch",
                json={"decisions": [question("a"), bad, question("b"), question("a")]},
            )
            results = batch.json()["results"]
            misspelt = [question("c"), {"armz": []}, {"decision": 5}]
            found = await http.post(f"{V1}/decisions/batch", json={"decisions": misspelt})
            assert [r["status"] for r in found.json()["results"]] == [201, 400, 400]
            assert [r.get("id") for r in results] == ["a", None, "b", "a"]
            assert results[0] == results[3]
            assert results[1]["status"] == 400
            calls = [
                http.post(f"{V1}/decisions", json=bad if i % 3 else question()) for i in range(30)
            ]
            found = await asyncio.gather(*calls)
            assert [r.status_code for r in found] == [400 if i % 3 else 201 for i in range(30)]
            items = [{"decision": "a", "value": 1.0}, {"decision": "nobody", "value": 1.0}]
            rewards = await http.post(f"{V1}/rewards", json={"rewards": items})
            assert rewards.json()["results"] == [
                {"status": 204, "became": "learned"},
                {"status": 202, "became": "early"},
            ]

    run(mixed())


def test_nobody_gets_in_without_a_key(tmp_path: Path) -> None:
    """Every endpoint but the health checks; a key's scopes decide what it may do."""

    async def knock() -> None:
        async with client(tmp_path, headers={}) as http:
            for endpoint in ENDPOINTS:
                path = endpoint.path.replace("{name}", "default").replace("{id:id}", "x")
                found = await http.request(endpoint.method, path)
                assert (found.status_code == 401) == (endpoint.scope is not None), path
            text, _ = http.service.keys.create("shop", ["decide"])  # type: ignore[attr-defined]
            shop = {"Authorization": f"Bearer {text}"}
            made = await http.post(f"{V1}/decisions", json=question("a"), headers=shop)
            assert made.status_code == 201
            reward = await http.post(f"{V1}/decisions/a/reward", json={"value": 1}, headers=shop)
            assert (reward.status_code, reward.json()["error"]["code"]) == (403, "forbidden")

    run(knock())


def test_too_many_requests(tmp_path: Path) -> None:
    """429 with the time to wait."""

    async def rush() -> None:
        async with client(tmp_path, rate=0.5, burst=3) as http:
            found = [await http.get("/v1/bandits") for _ in range(5)]
            assert [r.status_code for r in found] == [200] * 3 + [429] * 2
            assert 1 <= int(found[-1].headers["Retry-After"]) <= 3

    run(rush())


def test_bandits_come_and_go(tmp_path: Path) -> None:
    """Create with each kind of features, change settings, delete; names are folders, so they are checked."""

    async def manage() -> None:
        async with client(tmp_path) as http:
            made = await http.post(
                "/v1/bandits",
                json={
                    "name": "shop",
                    "features": {
                        "kind": "map",
                        "arm": {"price": {"kind": "number", "scale": 10.0}},
                    },
                    "settings": {"floor": 0.1},
                    "rewards": {"rule": "sum", "window": 60},
                },
            )
            assert made.status_code == 201, made.text
            assert made.json()["settings"]["floor"] == 0.1
            assert (await http.post("/v1/bandits", json={"name": "shop"})).status_code == 409
            for name in ("../x", "", ".hidden", "a/b", "x" * 65, "a\n"):
                refused = await http.post("/v1/bandits", json={"name": name})
                assert (refused.status_code, refused.json()["error"]["field"]) == (400, "name")
            for wrong, field in [
                ({"policy": "Best"}, "policy"),
                ({"options": {"arm_sdt": 1}}, "options"),
                ({"options": {"arm_std": -1}}, "options"),
                ({"features": {"kind": "other"}}, "features.kind"),
                ({"features": {"kind": "vectors"}}, "features"),
                ({"features": {"kind": "map", "arm": {"x": {"kind": "?"}}}}, "features.arm.x"),
                ({"features": {"kind": "map", "arm": {"x": {"kind": []}}}}, "features.arm.x"),
                ({"features": {"kind": "map", "situation": "x"}}, "features.situation"),
                ({"features": {"kind": "vectors", "n_features": 5001}}, "features"),
                ({"features": {"kind": "hashed", "size": 100_000}}, "features"),
            ]:
                refused = await http.post("/v1/bandits", json={"name": "new", **wrong})
                assert (refused.status_code, refused.json()["error"].get("field")) == (400, field)
            assert (await http.get("/v1/bandits")).json() == {"bandits": ["default", "shop"]}
            changed = await http.patch(
                "/v1/bandits/shop", json={"settings": {"mode": "stopped"}, "rewards": {"window": 5}}
            )
            assert changed.json()["settings"]["mode"] == "stopped"
            assert changed.json()["config"]["rewards"]["window"] == 5
            shown = await http.post("/v1/bandits/shop/decisions", json={"arms": ["b", "a"]})
            assert (shown.json()["arm"], shown.json()["mode"]) == ("b", "stopped")
            assert (await http.delete("/v1/bandits/shop")).status_code == 204
            assert (await http.get("/v1/bandits/shop")).status_code == 404
            assert not (tmp_path / "bandits" / "shop").exists()

    run(manage())


def test_bandits_in_a_file(tmp_path: Path) -> None:
    """Created at the first start, changed at the next; mistakes are named, and nothing starts."""
    file = tmp_path / "bandits.toml"

    async def start() -> dict[str, Any]:
        async with client(tmp_path) as http:
            assert (await http.get("/v1/bandits")).json() == {"bandits": ["shop"]}
            found: dict[str, Any] = (await http.get("/v1/bandits/shop")).json()
            return found

    file.write_text(
        '[shop]\nfeatures = {kind = "hashed", size = 16}\n[shop.settings]\nfloor = 0.1\n'
    )
    first = run(start())
    assert (first["n_features"], first["settings"]["floor"]) == (16, 0.1)
    assert run(start())["version"] == first["version"]  # nothing has changed
    file.write_text("[shop]\n[shop.settings]\nfloor = 0.2\n[shop.rewards]\nwindow = 60.0\n")
    second = run(start())
    assert (second["settings"]["floor"], second["config"]["rewards"]["window"]) == (0.2, 60.0)
    for wrong in ("[shop", "shop = 1", '["a/b"]', "[shop]\nflor = 1\n"):
        file.write_text(wrong)
        with pytest.raises(rolin.errors.DataError, match=r"bandits\.toml"):
            run(start())


@pytest.mark.filterwarnings("ignore::rolin.errors.SharedContextWarning")
def test_vectors_and_registered_arms(tmp_path: Path) -> None:
    """Plain vectors, one vector for all arms, and arms that requests need not repeat."""

    async def ask() -> None:
        async with client(tmp_path) as http:
            features = {"kind": "vectors", "n_features": 2}
            await http.post("/v1/bandits", json={"name": "v", "features": features})
            arms = [{"id": "a", "features": [1, 2]}, {"id": "b", "features": [0.5, -1]}]
            one = await http.post("/v1/bandits/v/decisions", json={"arms": arms, "id": "1"})
            assert one.status_code == 201
            shared = {"arms": ["a", "b"], "situation": [1, 2]}
            assert (await http.post("/v1/bandits/v/decisions", json=shared)).status_code == 201
            wrong = await http.post(
                "/v1/bandits/v/decisions", json={"arms": [arms[0], {"id": "b", "features": [1]}]}
            )
            assert wrong.json()["error"]["field"] == "arms[1].features"
            assert (await http.put("/v1/bandits/v/arms", json={"arms": arms})).status_code == 204
            two = await http.post("/v1/bandits/v/decisions", json={"id": "2"})
            assert set(two.json()["probabilities"]) == {"a", "b"}
        async with client(tmp_path) as http:  # they are stored
            assert (await http.post("/v1/bandits/v/decisions", json={})).status_code == 201

    run(ask())


@pytest.mark.filterwarnings("ignore::rolin.errors.OverlapWarning")  # 40 decisions are few
def test_logs_states_erasure_and_reports(tmp_path: Path) -> None:
    """Export, import into a second bandit, start a third from a state file, evaluate, diagnose, erase."""
    fitted = rolin.RoLinTS(n_features=2, seed=1)
    fitted.update("a", [1.0, 0.0], 1.0)
    fitted.save(tmp_path / "state.rolin")
    state = base64.b64encode((tmp_path / "state.rolin").read_bytes()).decode()

    async def work() -> None:
        async with client(tmp_path / "data") as http:
            vectors = {"kind": "vectors", "n_features": 2}
            for name, more in (("one", {}), ("two", {}), ("three", {"state": state})):
                made = await http.post(
                    "/v1/bandits", json={"name": name, "features": vectors, **more}
                )
                assert made.status_code == 201, made.text
            assert made.json()["n_arms"] == 1
            rng = np.random.default_rng(1)
            for i in range(40):
                arms = [{"id": k, "features": rng.normal(size=2).tolist()} for k in "abc"]
                body = {"id": str(i), "arms": arms, "person": f"p{i % 4}"}
                await http.post("/v1/bandits/one/decisions", json=body)
                value = float(rng.normal())
                await http.post(f"/v1/bandits/one/decisions/{i}/reward", json={"value": value})
            log = await http.get("/v1/bandits/one/log")
            assert len(pd.read_csv(io.BytesIO(log.content))) == 40
            parquet = await http.get("/v1/bandits/one/log", params={"format": "parquet"})
            assert len(pd.read_parquet(io.BytesIO(parquet.content))) == 40
            imported = await http.post("/v1/bandits/two/log", content=log.content)
            assert imported.json() == {"decisions": 40}
            wrong = await http.post("/v1/bandits/two/log", content=b"no log")
            assert wrong.status_code == 400
            assert wrong.json()["error"]["message"].startswith("the log")  # and no path of a file
            value = await http.post("/v1/bandits/one/evaluations", json={"policy": "Uniform"})
            assert value.status_code == 200, value.text
            assert value.json()["n"] == 40
            for options in ({"n_features": 3}, {"x": 1}, {"arm_std": "x"}):
                wrong = await http.post("/v1/bandits/one/evaluations", json={"options": options})
                assert wrong.status_code == 400, wrong.text
            assert (await http.get("/v1/bandits/one/diagnosis")).json()["answer"]
            assert (await http.post("/v1/bandits/one/snapshots")).json()["version"] > 80
            gone = await http.post("/v1/bandits/one/erasures", json={"person": "p1"})
            assert gone.json() == {"decisions": 10, "log_wiped": True}
            assert (await http.get("/v1/bandits/one/decisions/1")).status_code == 404

    run(work())


_LOG = b"shown,gain,x,y,hour\na,1,0.5,0.2,9\nb,0,0.1,0.9,10\n"


@pytest.mark.parametrize(
    ("features", "params"),
    [
        ({"kind": "hashed"}, {"features": "x, y", "situation": "hour"}),
        ({"kind": "vectors", "n_features": 2}, {"features": "y,x"}),
        ({"kind": "vectors", "n_features": 0}, {"features": ""}),
        ({"kind": "map", "situation": {"hour": {"kind": "number"}}, "arm": {"x": {"kind": "number"}}}, {}),
    ],
)  # fmt: skip
def test_a_log_of_others(features: Any, params: dict[str, str], tmp_path: Path) -> None:
    """A plain table, whose columns the address names; without them, the answer says how."""
    columns = {"arm": "shown", "reward": "gain"}

    async def send() -> None:
        async with client(tmp_path) as http:
            await http.post("/v1/bandits", json={"name": "b", "features": features})
            log = "/v1/bandits/b/log"
            if params:
                failed = await http.post(log, content=_LOG, params=columns)
                error = failed.json()["error"]
                assert (failed.status_code, error["field"]) == (400, "features")
                assert "?features=a,b" in error["message"]
                assert "--features" not in error["message"]
                assert "=[" not in error["message"]
                assert "'x', 'y'" in error["message"]
            wrong = await http.post(log, content=_LOG, params={**columns, **params, "reward": "z"})
            assert wrong.status_code == 400
            assert wrong.json()["error"]["message"].startswith("the log: there is no column 'z'")
            wrong = await http.post(log, content=b"{}", params={"format": "dsjson", "reward": "z"})
            assert (wrong.status_code, wrong.json()["error"]["field"]) == (400, "reward")
            learned = await http.post(log, content=_LOG, params={**columns, **params})
            assert learned.json() == {"decisions": 2}, learned.text
            assert (await http.get("/v1/bandits/b")).json()["n_arms"] == 2
            bandit = (await http.service.bandits.get("b")).bandit.bandit  # type: ignore[attr-defined]
            if params.get("features") == "y,x":  # in this order
                assert bandit.policy.moments.mean_context.tolist() == [[0.2, 0.5], [0.9, 0.1]]

    run(send())


def test_rewards_that_do_not_fit(tmp_path: Path) -> None:
    """Early, repeated, different and late ones: answered, recorded, counted, and learned at most once."""

    async def send() -> None:
        async with client(tmp_path) as http:

            async def reward(id: str, value: float) -> int:
                found = await http.post(f"{V1}/decisions/{id}/reward", json={"value": value})
                return found.status_code

            assert [await reward("a", 1.0), await reward("a", 1.0)] == [202, 204]
            await http.post(f"{V1}/decisions", json=question("a"))
            (engine,) = http.service.bandits.opened()  # type: ignore[attr-defined]
            assert engine.bandit.bandit.policy.posterior.count == 1
            assert [await reward("a", 1.0), await reward("a", 2.0)] == [204, 204]
            await http.post(f"{V1}/decisions", json=question("b"))
            engine.bandit.bandit.expire(0.0)
            assert await reward("b", 1.0) == 204
            assert engine.bandit.bandit.policy.posterior.count == 1
            text = (await http.get("/metrics")).text
            for status, n in (("early", 1), ("repeated", 2), ("conflicting", 1), ("late", 1)):
                assert f'rolin_rewards_total{{bandit="default",status="{status}"}} {n}' in text

    run(send())


def test_rolling_out(tmp_path: Path) -> None:
    """The share, the baseline and a shadow; all of them survive a restart."""

    async def first() -> None:
        async with client(tmp_path) as http:
            assert (await http.put(f"{V1}/shadow", json={"policy": "Greedy"})).status_code == 204
            await http.patch(V1, json={"settings": {"share": 0.5}})
            made = [
                (
                    await http.post(
                        f"{V1}/decisions", json=question(person=f"p{i}", baseline="green")
                    )
                ).json()
                for i in range(60)
            ]
            outside = [answer for answer in made if answer["outside_share"]]
            assert 15 < len(outside) < 45  # 4 standard deviations
            assert {answer["arm"] for answer in outside} == {"green"}
            wrong = await http.post(f"{V1}/decisions", json=question(baseline="pink"))
            assert wrong.status_code == 400

    async def again() -> None:
        async with client(tmp_path) as http:
            info = (await http.get(V1)).json()
            assert (info["shadow"], info["settings"]["share"]) == ("Greedy", 0.5)
            assert (await http.delete(f"{V1}/shadow")).status_code == 204
            assert (await http.get(V1)).json()["shadow"] is None

    run(first())
    run(again())


def test_windows_end(tmp_path: Path) -> None:
    """A decision without a reward gets the default when its window ends."""

    async def wait() -> None:
        async with client(tmp_path) as http:
            rules = {"window": 0.01, "default": 0.0}
            await http.patch(V1, json={"rewards": rules})
            await http.post(f"{V1}/decisions", json=question("a"))
            await asyncio.sleep(0.05)
            (engine,) = http.service.bandits.opened()  # type: ignore[attr-defined]
            assert await engine.expire() == 1
            assert engine.bandit.bandit.policy.posterior.count == 1

    run(wait())


def test_when_the_journal_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """503, or the baseline if the service is told so; afterwards it goes on."""

    async def fail(fallback: str) -> httpx.Response:
        async with client(tmp_path / fallback, fallback=fallback) as http:
            await http.get(V1)
            (engine,) = http.service.bandits.opened()  # type: ignore[attr-defined]
            with monkeypatch.context() as patched:

                def full(*_: Any, **__: Any) -> int:
                    raise rolin.errors.JournalError("the disk is full")

                patched.setattr(engine.bandit.bandit.journal, "append", full)
                found = await http.post(f"{V1}/decisions", json=question("a"))
            after = await http.post(f"{V1}/decisions", json=question("a"))
            assert (after.status_code, after.json()["recorded"]) == (201, True)
            return found

    refused = run(fail("error"))
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "unavailable")
    assert "Retry-After" in refused.headers
    shown = run(fail("baseline"))
    assert (shown.status_code, shown.json()["arm"], shown.json()["recorded"]) == (201, "red", False)


def test_a_slow_start_of_a_bandit_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening goes on when the requests that wait for it give up; what a killed process left is removed."""
    run(_create(tmp_path))
    for left in (".new-x", ".deleted-x"):
        (tmp_path / "bandits" / left / "bandit").mkdir(parents=True)
    opened = []

    def slowly(*arguments: Any, **options: Any) -> rolin.Bandit[Any]:
        opened.append(time.sleep(0.5))
        return rolin.Bandit(*arguments, **options)

    async def ask() -> None:
        async with client(tmp_path, request_timeout=0.2) as http:
            assert (await http.get("/v1/bandits")).json() == {"bandits": ["default"]}
            assert {path.name for path in (tmp_path / "bandits").iterdir()} == {"default"}
            await http.service.bandits.close()  # type: ignore[attr-defined]
            monkeypatch.setattr("rolin.service.bandits.Bandit", slowly)
            calls = (http.post(f"{V1}/decisions", json=question("a")) for _ in range(3))
            assert {r.status_code for r in await asyncio.gather(*calls)} == {503}
            await asyncio.sleep(0.6)
            assert (await http.post(f"{V1}/decisions", json=question("a"))).status_code == 201
            assert len(opened) == 1

    run(ask())


async def _create(folder: Path) -> None:
    async with client(folder):
        pass


def test_odd_ids_in_paths(tmp_path: Path) -> None:
    """Slashes, spaces and other characters arrive percent-encoded."""

    async def ask() -> None:
        async with client(tmp_path) as http:
            for id in ("ev/1 ü", "a%2Fb", "reward", "x/reward", "?#"):
                made = await http.post(f"{V1}/decisions", json=question(id))
                assert made.json()["id"] == id
                path = httpx.URL("http://service").copy_with(
                    raw_path=f"{V1}/decisions/{_quoted(id)}/reward".encode()
                )
                assert (await http.post(path, json={"value": 1})).status_code == 204

    def _quoted(id: str) -> str:
        from urllib.parse import quote

        return quote(id, safe="")

    run(ask())


def test_the_demo_learns(tmp_path: Path) -> None:
    """Within 500 visitors, which take ten seconds, most of what can be gained over chance is gained."""

    async def visit() -> list[str]:
        async with client(tmp_path) as http:
            return await visit_for_ever(http.service.bandits, visitors=500)  # type: ignore[attr-defined]

    lines = run(visit())
    assert len(lines) == 5
    numbers = re.findall(r"(\d+)%", lines[-1])
    policy, chance, best = map(int, numbers)
    assert policy - chance > 0.5 * (best - chance)


def test_openapi_describes_what_answers(tmp_path: Path) -> None:
    """Every endpoint is there, and the page for people too."""

    async def read() -> None:
        async with client(tmp_path) as http:
            found = (await http.get("/openapi.json")).json()
            assert found["openapi"] == "3.1.0"
            n = sum(len(operations) for operations in found["paths"].values())
            assert n == len(ENDPOINTS)
            page = (await http.get("/docs")).text
            for endpoint in ENDPOINTS:
                assert endpoint.summary in page
            metrics = (await http.get("/metrics")).text
            assert 'rolin_requests_total{method="GET"' in metrics or "# TYPE" in metrics

    run(read())


def test_an_unknown_parameter_is_rejected(tmp_path: Path) -> None:
    """A misspelt one would otherwise be ignored without a word."""

    async def visit() -> None:
        async with client(tmp_path) as http:
            failed = await http.get(f"{V1}/log?fromat=parquet")
            assert failed.status_code == 400
            error = failed.json()["error"]
            assert error["message"] == "there is no parameter 'fromat', expected format"
            assert error["field"] == "fromat"
            failed = await http.get(f"{V1}?x=1")
            assert failed.json()["error"]["message"] == "there is no parameter 'x', expected none"

    asyncio.run(visit())


def test_an_id_may_have_line_breaks(tmp_path: Path) -> None:
    """What can be decided can be rewarded."""

    async def visit() -> None:
        async with client(tmp_path) as http:
            body = {"id": "a\nb/c", "arms": ["x", "y"]}
            assert (await http.post(f"{V1}/decisions", json=body)).status_code == 201
            path = f"{V1}/decisions/a%0Ab%2Fc"
            assert (await http.get(path)).json()["id"] == "a\nb/c"
            assert (await http.post(f"{path}/reward", json={"value": 1})).status_code == 204

    asyncio.run(visit())
