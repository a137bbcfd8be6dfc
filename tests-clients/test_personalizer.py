"""Azure Personalizer's own clients, unmodified, against a real service over plain HTTP."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from azure.ai.personalizer import PersonalizerClient as PreviewClient
from azure.cognitiveservices.personalizer import PersonalizerClient
from azure.cognitiveservices.personalizer.models import (
    ErrorResponseException,
    RankableAction,
    RankRequest,
)
from azure.core.credentials import AzureKeyCredential
from msrest.authentication import CognitiveServicesCredentials
from msrest.exceptions import ClientException, HttpOperationError

from rolin.journal import SQLiteJournal
from support.server import Server, served
from support.service import KEY

HERE = Path(__file__).parent
WANTED = {"morning": "juice", "noon": "salad", "evening": "pasta"}
ACTIONS = [
    RankableAction(id="pasta", features=[{"taste": "salty"}, {"nutrition": {"calories": 5}}]),
    RankableAction(id="juice", features=[{"taste": "sweet"}, {"nutrition": {"calories": 1}}]),
    RankableAction(id="salad", features=[{"taste": "salty"}, {"nutrition": {"calories": 2}}]),
]
ROUNDS = 400


def endpoint(server: Server) -> str:
    """The address that clients get."""
    return f"http://127.0.0.1:{server.port}"


def python_client(address: str, key: str = KEY) -> PersonalizerClient:
    """Azure's client for Python."""
    return PersonalizerClient(address, CognitiveServicesCredentials(key))


def check_learned(good: list[bool]) -> None:
    """It begins with a third, and soon serves what is wanted but for what it explores."""
    assert sum(good[-150:]) / 150 >= 0.95, (sum(good[:100]), sum(good[-150:]))


def check_kept(data: Path, acknowledged: set[str]) -> None:
    """All that was acknowledged is in the journal, once."""
    with SQLiteJournal(data / "bandits" / "default" / "journal.db") as journal:
        found = journal.find(acknowledged)
    assert set(found) == acknowledged
    assert all(each.decision is not None and len(each.following) == 1 for each in found.values())


@contextmanager
def killed_once(
    data: Path, is_time: Callable[[], bool]
) -> Iterator[tuple[str, Callable[[], None]]]:
    """Give the address of a service, and a function that kills and restarts it once, when it is time."""
    servers: list[Any] = [served(data)]
    current = servers[0].__enter__()
    address = endpoint(current)

    def check() -> None:
        nonlocal current
        if len(servers) == 1 and is_time():
            current.kill()
            servers.append(served(data, "--port", str(current.port)))
            current = servers[1].__enter__()

    try:
        yield address, check
    finally:
        for each in servers:
            each.__exit__(None, None, None)
    assert len(servers) == 2


def test_python_learns_through_a_kill(tmp_path: Path) -> None:
    """Azure's client for Python learns a preference from nothing; the service is killed in the middle."""
    good: list[bool] = []
    acknowledged: set[str] = set()
    with killed_once(tmp_path, lambda: len(good) == ROUNDS // 2) as (address, check):
        client = python_client(address)
        for i in range(ROUNDS):
            check()
            hour = list(WANTED)[(i * 7 + (i >> 3)) % 3]
            request = RankRequest(
                actions=ACTIONS, context_features=[{"time": hour}], event_id=f"ev/{i} ü"
            )
            answer = repeated(lambda request=request: client.rank(request))
            assert sum(each.probability for each in answer.ranking) == pytest.approx(1.0)
            assert min(each.probability for each in answer.ranking) >= 0.002
            good.append(answer.reward_action_id == WANTED[hour])
            repeated(lambda id=answer.event_id: client.events.reward(id, float(good[-1])))
            acknowledged.add(answer.event_id)
    check_learned(good)
    check_kept(tmp_path, acknowledged)


def repeated(call: Callable[[], Any]) -> Any:
    """Call again if the connection was lost, as applications do: the event id is the same."""
    for _ in range(100):
        try:
            return call()
        except ClientException as error:
            if isinstance(error, HttpOperationError):
                raise
            time.sleep(0.1)
    raise AssertionError("the service does not come back")


def test_the_code_of_the_guide_works(tmp_path: Path) -> None:
    """The guide for users of Personalizer shows a program, which runs."""
    page = (HERE.parent / "docs" / "how-to" / "personalizer.md").read_text()
    (code,) = re.findall(r"^```text\n(from azure.*?)^```", page, re.MULTILINE | re.DOTALL)
    with served(tmp_path) as server:
        names: dict[str, Any] = {"ENDPOINT": endpoint(server), "KEY": KEY}
        exec(code, names)
    assert names["answer"].reward_action_id in {"pasta", "juice"}
    check_kept(tmp_path, {"visit-1"})


def test_python_sees_errors(tmp_path: Path) -> None:
    """The client turns every error into its own exceptions, with the code."""
    with served(tmp_path) as server:
        client = python_client(endpoint(server))
        excluded = RankRequest(actions=ACTIONS, excluded_actions=["pasta"], event_id="e")
        answer = client.rank(excluded)
        assert answer.ranking[0].id == "pasta"
        assert answer.ranking[0].probability == 0.0
        assert answer.ranking[1].id == answer.reward_action_id
        deferred = client.rank(RankRequest(actions=ACTIONS, defer_activation=True))
        client.events.activate(deferred.event_id)
        nan = RankRequest(actions=ACTIONS, context_features=[{"x": float("nan")}])
        for request in (nan, RankRequest(actions=[])):
            with pytest.raises(ErrorResponseException) as caught:
                client.rank(request)
            assert caught.value.error.error.code == "BadRequest"
        with pytest.raises(ErrorResponseException) as caught:
            client.rank(RankRequest(actions=ACTIONS, event_id="e"))
        assert caught.value.error.error.code == "InvalidRankRequest"
        with pytest.raises(HttpOperationError) as unknown:
            client.events.activate("unknown")
        assert unknown.value.response.status_code == 404
        with pytest.raises(ErrorResponseException) as caught:
            python_client(endpoint(server), "wrong").rank(excluded)
        assert caught.value.error.error.code == "401"


def test_python_reaches_a_bandit_by_its_name(tmp_path: Path) -> None:
    """The address of a bandit stands in for that of a resource."""
    (tmp_path / "bandits.toml").write_text("[menu]\n")
    with served(tmp_path) as server:
        client = python_client(f"{endpoint(server)}/b/menu")
        answer = client.rank(RankRequest(actions=ACTIONS))
        client.events.reward(answer.event_id, 1.0)
    assert (tmp_path / "bandits" / "menu" / "journal.db").exists()
    assert not (tmp_path / "bandits" / "default").exists()


def test_the_preview_for_python(tmp_path: Path) -> None:
    """The later client for Python, which names no version in the path."""
    actions = [{"id": id, "features": [{"name": id}]} for id in ("a", "b", "c")]
    slots = [{"id": "top", "baselineAction": "a"}, {"id": "side", "baselineAction": "b"}]
    with served(tmp_path) as server:
        client = PreviewClient(endpoint(server), AzureKeyCredential(KEY))
        answer = client.rank({"actions": actions, "eventId": "q/1", "deferActivation": True})
        assert answer["eventId"] == "q/1"
        client.activate("q/1")
        client.reward("q/1", {"value": 1.0})
        many = client.rank_multi_slot({"actions": actions, "slots": slots, "eventId": "m"})
        shown = [each["rewardActionId"] for each in many["slots"]]
        assert len(set(shown)) == 2
        client.activate_multi_slot("m")
        client.reward_multi_slot("m", {"reward": [{"slotId": "top", "value": 1.0}]})


def test_node_learns_through_a_kill(tmp_path: Path) -> None:
    """Azure's client for Node.js repeats on its own what failed when the service was killed: nothing counts twice."""
    lines: list[dict[str, Any]] = []
    with killed_once(tmp_path, lambda: len(lines) == ROUNDS // 2) as (address, check):
        command = ["node", "learn.mjs", address, KEY, str(ROUNDS)]
        with subprocess.Popen(command, cwd=HERE, stdout=subprocess.PIPE, text=True) as node:
            assert node.stdout is not None
            for line in node.stdout:
                lines.append(json.loads(line))
                check()
        assert node.returncode == 0
    assert len(lines) == ROUNDS
    check_learned([line["good"] for line in lines])
    check_kept(tmp_path, {line["id"] for line in lines})


def test_the_preview_for_node(tmp_path: Path) -> None:
    """The later client for Node.js: slots and settings, too."""
    with served(tmp_path) as server:
        command = ["node", "preview.mjs", endpoint(server), KEY]
        done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    statuses = [line["status"] for line in lines]
    assert " ".join(statuses) == "201 204 204 201 204 204 200 200 200 200 400"
    rank, _, _, many, _, _, configuration, changed, policy, model, failed = (
        line.get("body") for line in lines
    )
    assert rank["eventId"] == "p/1"
    assert len({each["rewardActionId"] for each in many["slots"]}) == 2
    assert changed == {**configuration, "rewardWaitTime": "PT20M"}
    assert policy["name"] == "RoLinTS"
    assert set(model) == {"creationTime", "lastModifiedTime"}
    assert failed["error"]["code"] == "BadRequest"
