"""Catalogues of the decision service: stored once, and named by requests."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from functools import wraps
from pathlib import Path
from typing import Any

import httpx
import pytest

from rolin.service.backup import backup
from rolin.service.errors import Refusal
from rolin.service.restore import restore
from support.server import Server, connected, served
from support.service import HEADERS, KEY, client

V1 = "/v1/bandits/default"
VECTORS = "/v1/bandits/vectors"
N = 300


def in_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test in an event loop."""

    @wraps(test)
    def run(**fixtures: Any) -> None:
        asyncio.run(test(**fixtures))

    return run


def lines(n: int = N, **changed: Any) -> bytes:
    """A catalogue of n arms with fields; some arms have others."""
    rows = [{"id": f"arm-{i}", "features": changed.get(f"arm_{i}", {"price": i})} for i in range(n)]
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def vector(i: int) -> list[float]:
    """The features of an arm."""
    return [1.0, i / N, (i * i % 7) / 7]


async def with_vectors(http: httpx.AsyncClient) -> None:
    """Create a bandit that takes vectors, with a catalogue."""
    made = {
        "name": "vectors",
        # With numbers, the posterior finds the candidates from the beginning.
        "options": {"coef_std": 1.0, "arm_std": 0.5, "noise_std": 1.0, "seed": 1},
        "features": {"kind": "vectors", "n_features": 3},
    }
    assert (await http.post("/v1/bandits", json=made)).status_code == 201
    rows = [{"id": f"arm-{i}", "features": vector(i)} for i in range(N)]
    sent = "\n".join(map(json.dumps, rows))  # the last line need not end
    assert (await http.put(f"{VECTORS}/catalogue", content=sent)).status_code == 200


@in_loop
async def test_candidates_are_the_same_question_as_their_arms(tmp_path: Path) -> None:
    """A decision among names equals the one whose request repeats the features, also as the repeat of an id."""
    async with client(tmp_path) as http:
        await with_vectors(http)
        assert (await http.put(f"{V1}/catalogue", content=lines())).status_code == 200
        names = ["arm-7", "arm-0", f"arm-{N - 1}", "arm-250"]
        fields = [{"id": name, "features": {"price": int(name[4:])}} for name in names]
        vectors = [{"id": name, "features": vector(int(name[4:]))} for name in names]
        for path, arms, more in (
            (V1, fields, {"situation": {"hour": 9}, "top_k": 2}),
            (VECTORS, vectors, {"exclude": ["arm-0"]}),
        ):
            for i in range(5):
                asked = {"id": f"visit-{i}", **more}
                made = await http.post(f"{path}/decisions", json={**asked, "candidates": names})
                assert made.status_code == 201, made.text
                same = await http.post(f"{path}/decisions", json={**asked, "arms": arms})
                assert (same.status_code, same.json()) == (201, made.json())
                assert sum(made.json()["probabilities"].values()) == pytest.approx(1.0)
                other = {**asked, "candidates": names[:3]}
                assert (await http.post(f"{path}/decisions", json=other)).status_code == 409
                told = await http.post(f"{path}/decisions/visit-{i}/reward", json={"value": i})
                assert told.status_code == 204
        batch = {"decisions": [{"candidates": names}, {"candidates": ["nobody"]}]}
        results = (await http.post(f"{VECTORS}/decisions/batch", json=batch)).json()["results"]
        assert [each["status"] for each in results] == [201, 400]


@in_loop
async def test_it_survives_a_restart_and_a_backup(tmp_path: Path) -> None:
    """The catalogue is described, kept, replaced as a whole, copied, and deleted with its file."""
    data, file = tmp_path / "data", tmp_path / "data/bandits/default/catalogue.ndjson"
    asked = {"id": "a", "candidates": ["arm-3", "arm-4"]}
    async with client(data) as http:
        assert (await http.get(f"{V1}/catalogue")).status_code == 404
        assert (await http.delete(f"{V1}/catalogue")).status_code == 404
        await http.put(f"{V1}/catalogue", content=lines(10))
        stored = await http.put(f"{V1}/catalogue", content=lines())
        expected = {
            "n_arms": N,
            "size": len(lines()),
            "sha256": hashlib.sha256(lines()).hexdigest(),
        }
        assert (stored.status_code, stored.json()) == (200, expected)
        answer = (await http.post(f"{V1}/decisions", json=asked)).json()
    left = file.parent / ".catalogue-of-a-killed-process"
    left.mkdir()
    backup(data, tmp_path / "copy")
    restore(tmp_path / "copy", tmp_path / "restored")
    for folder in (data, tmp_path / "restored"):
        async with client(folder) as http:
            assert (await http.get(f"{V1}/catalogue")).json() == expected
            assert (await http.post(f"{V1}/decisions", json=asked)).json() == answer
            assert not left.exists()
            assert (await http.delete(f"{V1}/catalogue")).status_code == 204
            new = {"candidates": asked["candidates"]}
            assert (await http.post(f"{V1}/decisions", json=new)).status_code == 400
    assert not file.exists()
    assert not list(file.parent.glob(".*"))


@pytest.mark.parametrize(
    ("path", "content", "status", "message"),
    [
        (V1, b"", 400, "the catalogue is empty"),
        (V1, b'{"id": "a"}\n\n{"id": "b"}', 400, "line 2: the body is empty"),
        (V1, b'{"id": "a"}\n{"id": 7}', 400, "line 2: id: it is a whole number, expected a text"),
        (V1, b'{"id": "a", "price": 1}', 400, "line 1: price: there is no member 'price', expected id, features"),
        (V1, b'{"id": "a", "features": [1]}', 400, "line 1: features is a vector"),
        (V1, b'{"id": "a"}\n{"id": "a"}', 400, "arm 'a' is given twice"),
        (V1, b'{"id": "\xff"}', 400, "line 1: the body is not valid UTF-8"),
        (V1, b'{"id": "a", "features": {"x": ' + b"[" * 40 + b"]" * 40 + b"}}", 400, "deeper"),
        (V1, b'{"id": "' + b"a" * (1 << 20) + b'"}', 413, "line 1: it is longer than"),
        (V1, lines(3000), 413, "the body is larger than 50000 bytes"),
        (VECTORS, b'{"id": "a", "features": [1, 2]}', 400, "a list of 2 numbers, expected a list of 3"),
        (VECTORS, b'{"id": "a", "features": {"x": 1}}', 400, "not a list"),
        (VECTORS, b'{"id": "a"}', 400, "not a list"),
        (VECTORS, b'{"id": "a", "features": [1, 2, 1e300]}', 400, "line 1: features has a number"),
        (VECTORS, b'{"id": "a", "features": [1, 2, 1e999]}', 400, "line 1: "),
        (VECTORS, b'{"id": "a", "features": [1, 2, NaN]}', 400, "line 1: "),
        ("/v1/bandits/nobody", b'{"id": "a"}', 404, "there is no bandit"),
    ],
)  # fmt: skip
def test_a_bad_catalogue_changes_nothing(
    tmp_path: Path, path: str, content: bytes, status: int, message: str
) -> None:
    """The line is named, the present catalogue stays, and no file is left."""

    async def run() -> None:
        most = 2 << 20 if len(content) > 1 << 20 else 50_000
        async with client(tmp_path, max_catalogue=most) as http:
            await with_vectors(http)
            assert (await http.put(f"{V1}/catalogue", content=lines(3))).status_code == 200
            refused = await http.put(f"{path}/catalogue", content=content)
            assert refused.status_code == status, refused.text
            assert message in refused.json()["error"]["message"]
            assert (await http.get(f"{V1}/catalogue")).json()["n_arms"] == 3
            assert (await http.get(f"{VECTORS}/catalogue")).json()["n_arms"] == N
        assert not list(tmp_path.glob("bandits/*/.*"))

    asyncio.run(run())


@in_loop
async def test_bad_candidates_get_a_clear_error(tmp_path: Path) -> None:
    """Unknown names, too many, none, twice the same, arms beside them, and no catalogue."""
    async with client(tmp_path, max_arms=5) as http:

        async def refused(asked: dict[str, Any]) -> tuple[int, str | None, str]:
            answer = await http.post(f"{V1}/decisions", json=asked)
            error = answer.json()["error"]
            return answer.status_code, error.get("field"), error["message"]

        status, field, message = await refused({"candidates": ["arm-1"]})
        assert (status, field) == (400, "candidates")
        assert "PUT /v1/bandits/default/catalogue" in message
        await http.put(f"{V1}/catalogue", content=lines())
        assert await refused({"candidates": ["arm-1", "arm-x"]}) == (
            400, "candidates[1]", "arm 'arm-x' is not in the catalogue",
        )  # fmt: skip
        assert (await refused({"candidates": [f"arm-{i}" for i in range(6)]}))[0] == 413
        assert (await refused({"candidates": []}))[:2] == (400, "candidates")
        for given in (["arm-1"], 1):
            assert await refused({"candidates": given, "arms": ["a"]}) == (
                400, "candidates", "arms and candidates are given, expected one of them",
            )  # fmt: skip
        status, _, message = await refused({"candidates": ["arm-1", "arm-1"]})
        assert status == 400
        assert "arm-1" in message


@in_loop
async def test_a_slow_upload_blocks_nobody_and_ends(tmp_path: Path) -> None:
    """Decisions are made meanwhile; an upload that stops in the middle is refused."""
    async with client(tmp_path, request_timeout=0.5) as http:
        await http.put(f"{V1}/catalogue", content=lines())

        async def stopping() -> AsyncIterator[bytes]:
            yield lines(5)
            await asyncio.sleep(2.0)
            yield lines(5)

        upload = asyncio.create_task(http.put(f"{V1}/catalogue", content=stopping()))
        await asyncio.sleep(0.1)
        made = await http.post(f"{V1}/decisions", json={"candidates": ["arm-200", "arm-1"]})
        assert made.status_code == 201
        assert (await upload).status_code == 408
        assert (await http.get(f"{V1}/catalogue")).json()["n_arms"] == N


@in_loop
async def test_uploads_at_once_leave_each_other_alone(tmp_path: Path) -> None:
    """Reading the catalogue of a bandit does not take away one that is arriving, but deleting the bandit does."""
    async with client(tmp_path) as http:
        more = asyncio.Event()

        async def slow() -> AsyncIterator[bytes]:
            yield lines(5)
            await more.wait()

        upload = asyncio.create_task(http.put(f"{V1}/catalogue", content=slow()))
        await asyncio.sleep(0.1)
        served = http.service.bandits.opened()[0].catalogue  # type: ignore[attr-defined]
        # As of another upload, a moment before the service knows it.
        (tmp_path / "bandits/default/catalogue.ndjson").write_bytes(lines())
        made = await http.post(f"{V1}/decisions", json={"candidates": ["arm-200", "arm-1"]})
        assert made.status_code == 201
        more.set()
        answer = await upload
        assert (answer.status_code, answer.json()["n_arms"]) == (200, 5)
        more.clear()
        upload = asyncio.create_task(http.put(f"{V1}/catalogue", content=slow()))
        await asyncio.sleep(0.1)
        assert (await http.delete(V1)).status_code == 204
        with pytest.raises(Refusal, match="no catalogue"):
            served.info()  # so that its file takes no space
        more.set()
        answer = await upload
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")
        assert not list((tmp_path / "bandits").iterdir())


@in_loop
async def test_a_damaged_file_breaks_one_bandit_only(tmp_path: Path) -> None:
    """A bandit whose catalogue cannot be read is reported; the others work."""
    async with client(tmp_path) as http:
        await with_vectors(http)
        await http.put(f"{V1}/catalogue", content=lines())
    (tmp_path / "bandits/default/catalogue.ndjson").write_bytes(b'{"id": "a"}\n{"id"')
    async with client(tmp_path) as http:
        refused = await http.post(f"{V1}/decisions", json={"arms": ["a"]})
        assert refused.status_code == 503
        message = refused.json()["error"]["message"]
        assert message.startswith("bandit 'default' cannot be opened: catalogue.ndjson: line 2")
        made = await http.post(f"{VECTORS}/decisions", json={"candidates": ["arm-1"]})
        assert made.status_code == 201


@in_loop
async def test_candidates_are_found_among_all_arms(tmp_path: Path) -> None:
    """The service finds the best arms, learns, and gives a repeated id its answer although others are best by now."""
    async with client(tmp_path) as http:
        await with_vectors(http)

        async def ask(id: str, **more: Any) -> httpx.Response:
            asked = {"id": id, "candidates": 20, **more}
            return await http.post(f"{VECTORS}/decisions", json=asked)

        first = await ask("first", top_k=3)
        assert first.status_code == 201, first.text
        assert len(first.json()["probabilities"]) == 20
        assert sum(first.json()["probabilities"].values()) == pytest.approx(1.0)
        assert first.json()["arm"] in first.json()["probabilities"]
        rewards = []
        for i in range(200):
            made = (await ask(f"visit-{i}")).json()
            rewards.append(vector(int(made["arm"][4:]))[1])
            told = {"value": rewards[-1]}
            assert (await http.post(f"{VECTORS}/decisions/visit-{i}/reward", json=told)).is_success
        assert sum(rewards[-50:]) / 50 > 0.9 > sum(rewards[:10]) / 10  # the best arm has 1 - 1 / N
        again = await ask("first", top_k=3)
        assert (again.status_code, again.json()) == (201, first.json())
        assert set((await ask("new")).json()["probabilities"]) != set(first.json()["probabilities"])
        for other in ({"top_k": 2}, {"top_k": 3, "candidates": 19}):
            assert (await ask("first", **other)).status_code == 409
        best = (await ask("last")).json()["probabilities"]
        without = (await ask("without", exclude=list(best), baseline="arm-0")).json()
        assert not set(best) & set(without["probabilities"])
        assert "arm-0" in without["probabilities"]
        assert (await http.put(f"{VECTORS}/removed-arms/{made['arm']}")).status_code == 204
        every = (await ask("every", candidates=5000)).json()["probabilities"]
        assert len(every) == N - 1
        assert made["arm"] not in every
        unknown = [f"gone-{i}" for i in range(N)]  # such as those that a person has seen long ago
        known = (await ask("known", candidates=5000, exclude=[*unknown, "arm-7"])).json()
        assert known["probabilities"].keys() == every.keys() - {"arm-7"}
        refused = await ask("baseline", baseline="gone-1")
        assert (refused.status_code, refused.json()["error"]["field"]) == (400, "baseline")
        both = await asyncio.gather(*(ask("both") for _ in range(16)))
        assert {(each.status_code, each.text) for each in both} == {(201, both[0].text)}


def declared(**more: Any) -> dict[str, Any]:
    """Return a bandit whose fields are declared: people on phones like cheap arms, others expensive ones."""
    features = {
        "kind": "map",
        "situation": {"device": {"kind": "category", "values": ["phone", "desktop"]}},
        "arm": {"price": {"kind": "number", "scale": float(N)}},
    }
    return {"name": "shop", "options": {"seed": 1}, "features": features, **more}


@in_loop
async def test_candidates_are_found_by_the_situation(tmp_path: Path) -> None:
    """A request with only a situation learns which of all arms to show in it, also after the policy is loaded again."""
    shop = "/v1/bandits/shop"
    async with client(tmp_path) as http:
        assert (await http.post("/v1/bandits", json=declared())).status_code == 201
        missing = await http.post(f"{shop}/decisions", json={"situation": {"device": "phone"}})
        assert "none are registered, and there is no catalogue" in missing.text
        assert (await http.put(f"{shop}/catalogue", content=lines())).status_code == 200
        shown: dict[str, list[float]] = {"phone": [], "desktop": []}
        for i in range(300):
            device = ("phone", "desktop")[i % 2]
            asked = {"id": f"v-{i}", "situation": {"device": device}, "top_k": 2}
            made = (await http.post(f"{shop}/decisions", json=asked)).json()
            assert len(made["probabilities"]) == 100
            price = int(made["arm"][4:]) / N
            shown[device].append(price)
            reward = price if device == "desktop" else 1.0 - price
            await http.post(f"{shop}/decisions/v-{i}/reward", json={"value": reward})
            if i == 100:
                erased = await http.post(f"{shop}/erasures", json={"ids": ["v-7"]})
                assert erased.json()["decisions"] == 1
        assert sum(shown["phone"][-50:]) / 50 < 0.1
        assert sum(shown["desktop"][-50:]) / 50 > 0.9
        again = await http.post(f"{shop}/decisions", json=asked)
        assert (again.status_code, again.json()) == (201, made)
        few = {"situation": {"device": "phone"}, "candidates": 7, "exclude": ["arm-0"]}
        found = (await http.post(f"{shop}/decisions", json=few)).json()["probabilities"]
        assert len(found) == 7
        assert "arm-0" not in found
        unknown = await http.post(f"{shop}/decisions", json={"situation": {"device": "watch"}})
        assert unknown.status_code == 201
        batch = {"decisions": [{"situation": {"device": "phone"}}, few]}
        both = (await http.post(f"{shop}/decisions/batch", json=batch)).json()["results"]
        assert [len(each["probabilities"]) for each in both] == [100, 7]


@in_loop
async def test_who_cannot_find_candidates_says_so(tmp_path: Path) -> None:
    """Hashed fields, and bounds that depend on the situation; without a situation bounds are fine."""
    async with client(tmp_path) as http:
        await http.put(f"{V1}/catalogue", content=lines())
        for asked in ({"candidates": 5}, {"situation": {"hour": 3}}):
            refused = await http.post(f"{V1}/decisions", json=asked)
            assert (refused.status_code, refused.json()["error"]["field"]) == (422, "candidates")
            assert "only by bandits that take vectors or declare their fields" in refused.text
        assert (await http.post("/v1/bandits", json=declared(policy="RoLinUCB"))).is_success
        await http.put("/v1/bandits/shop/catalogue", content=lines())
        refused = await http.post("/v1/bandits/shop/decisions", json={"candidates": 5})
        assert refused.status_code == 422
        assert "depend on the situation, expected joint sampling" in refused.text
        assert "or name candidates in the request" in refused.text
        plain = declared(name="plain", policy="RoLinUCB")
        del plain["features"]["situation"]
        assert (await http.post("/v1/bandits", json=plain)).is_success
        await http.put("/v1/bandits/plain/catalogue", content=lines())
        made = await http.post("/v1/bandits/plain/decisions", json={"candidates": 5})
        assert (made.status_code, len(made.json()["probabilities"])) == (201, 5)


@in_loop
async def test_a_search_follows_the_catalogue_and_the_policy(tmp_path: Path) -> None:
    """It uses a new catalogue and a policy that was loaded again."""
    async with client(tmp_path) as http:
        await with_vectors(http)
        assert (await http.post(f"{VECTORS}/decisions", json={"candidates": 5})).status_code == 201
        new = b"".join(b'{"id": "new-%d", "features": [1, 2, 3]}\n' % i for i in range(7))
        assert (await http.put(f"{VECTORS}/catalogue", content=new)).status_code == 200
        made = await http.post(f"{VECTORS}/decisions", json={"id": "a", "candidates": 50})
        assert set(made.json()["probabilities"]) == {f"new-{i}" for i in range(7)}
        await http.post(f"{VECTORS}/decisions/a/reward", json={"value": 1})
        erased = await http.post(f"{VECTORS}/erasures", json={"ids": ["a"]})
        assert erased.json()["decisions"] == 1
        assert (await http.post(f"{VECTORS}/decisions", json={"candidates": 5})).status_code == 201
        for wrong in ({"candidates": 0}, {"candidates": 10_001}, {"candidates": 5, "arms": ["a"]}):
            answer = await http.post(f"{VECTORS}/decisions", json=wrong)
            assert (answer.status_code, answer.json()["error"]["field"]) == (400, "candidates")
        await http.delete(f"{VECTORS}/catalogue")
        assert (await http.post(f"{VECTORS}/decisions", json={"candidates": 5})).status_code == 400


@in_loop
async def test_a_repeat_gets_its_answer_whatever_the_catalogue_is_by_now(tmp_path: Path) -> None:
    """Its candidates have other features, are gone, or there is no catalogue; another question is still another one."""
    ask = {
        "id": "a",
        "candidates": ["arm-3", "arm-4", "arm-5"],
        "situation": {"ort": "Köln", "x": 0.1},
    }
    without = {
        "id": "b",
        "candidates": ["arm-3", "arm-4", "arm-5"],
        "exclude": ["arm-4"],
        "top_k": 2,
    }
    rows = {"arm_3": {"größe": 1.5, "tags": ["ü"]}, "arm_5": {"price": 1e-7}}
    vectors = {"id": "c", "candidates": ["arm-3", "arm-4"], "exclude": ["arm-4"]}
    async with client(tmp_path) as http:
        await with_vectors(http)
        await http.put(f"{V1}/catalogue", content=lines(**rows))
        asked = [
            (V1, ask),
            (V1, without),
            (VECTORS, vectors),
            (VECTORS, {"id": "d", "candidates": 9}),
        ]
        first = [await http.post(f"{path}/decisions", json=each) for path, each in asked]
        assert [each.status_code for each in first] == [201] * 4
        for content in (lines(arm_3={"price": -1}), lines(4), None):
            for path in (V1, VECTORS):
                if content is None:
                    assert (await http.delete(f"{path}/catalogue")).status_code == 204
                elif path == V1:
                    assert (await http.put(f"{path}/catalogue", content=content)).status_code == 200
            for (path, each), answer in zip(asked, first, strict=True):
                again = await http.post(f"{path}/decisions", json=each)
                assert (again.status_code, again.json()) == (201, answer.json()), each
                for change in (
                    {"top_k": 3},
                    {"candidates": ["arm-5", "arm-3"]},
                    {"person": "ann"},
                    {"arms": ["arm-3"]},
                ):
                    other = await http.post(f"{path}/decisions", json={**each, **change})
                    assert other.status_code in (400, 409), other.text


@pytest.mark.service
def test_a_killed_process_keeps_what_it_acknowledged(tmp_path: Path) -> None:
    """After `kill -9` there is the acknowledged catalogue, nothing of one that was arriving, and the same answer."""
    asked = {"id": "a", "candidates": ["arm-1", "arm-299"]}

    async def first(server: Server) -> Any:
        base = f"http://127.0.0.1:{server.port}"
        async with httpx.AsyncClient(base_url=base, headers=HEADERS, timeout=60.0) as http:
            assert (await http.put(f"{V1}/catalogue", content=lines())).status_code == 200
            made = await http.post(f"{V1}/decisions", json=asked)
        async with connected(server.port) as raw:
            head = f"PUT {V1}/catalogue HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\n"
            raw.writer.write(head.encode() + b"Content-Length: 1000000\r\n\r\n" + lines(20))
            await raw.writer.drain()
            for _ in range(600):
                if list(tmp_path.glob("bandits/default/.catalogue-*")):
                    break
                await asyncio.sleep(0.1)
            server.kill()
        return made.json()

    async def again(server: Server) -> Any:
        async with connected(server.port) as raw:
            assert (await raw.call("GET", f"{V1}/catalogue")).json()["n_arms"] == N
            return (await raw.call("POST", f"{V1}/decisions", asked)).json()

    with served(tmp_path) as server:
        expected = asyncio.run(first(server))
    assert list(tmp_path.glob("bandits/default/.catalogue-*"))
    with served(tmp_path) as server:
        assert asyncio.run(again(server)) == expected
        assert not list(tmp_path.glob("bandits/default/.catalogue-*"))
