"""The OpenAPI document is true: whatever is sent, the answer is one that it describes, and never a failure."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import Case

from rolin.service.openapi import document
from support.attacks import TIMES
from support.service import HEADERS, client

V1 = "/v1/bandits"
IDS = ("seen", "waiting", "rewarded")
SCHEMA = schemathesis.openapi.from_dict(document())
CHECKS = schemathesis.checks.CHECKS.get_by_names(
    [
        "status_code_conformance",
        "content_type_conformance",
        "response_headers_conformance",
        "response_schema_conformance",
        "unsupported_method",
        "negative_data_rejection",
    ]
)


pytestmark = pytest.mark.service  # many requests


class Served:
    """A service on an event loop in a thread, for tests that are not coroutines."""

    def __init__(self, loop: asyncio.AbstractEventLoop, http: httpx.AsyncClient) -> None:
        self._loop, self._http = loop, http

    def send(self, method: str, url: str, **more: Any) -> httpx.Response:
        """Return the answer to a request."""
        sent = self._http.request(method, url, **{"headers": HEADERS, **more})
        return asyncio.run_coroutine_threadsafe(sent, self._loop).result(60)


@contextmanager
def running(folder: Path) -> Iterator[Served]:
    """Run a service in a thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    service = client(folder, headers={})

    def wait(coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result(60)

    try:
        http = wait(service.__aenter__())
        yield Served(loop, http)
        wait(service.__aexit__(None, None, None))
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service with a bandit of fields, one of vectors, and some decisions."""
    with running(tmp_path_factory.mktemp("service")) as service:
        vectors = {"name": "vectors", "features": {"kind": "vectors", "n_features": 2}}
        assert service.send("POST", V1, json=vectors).status_code == 201
        for id in IDS:
            body = {"id": id, "arms": ["red", "blue"], "person": "p", "active": id != "waiting"}
            service.send("POST", f"{V1}/default/decisions", json=body)
        service.send("POST", f"{V1}/default/decisions/rewarded/reward", json={"value": 1})
        yield service


def check(case: Case, service: Served) -> None:
    """Send a request, mostly to a bandit and a decision that exist, and compare the answer with the document."""
    parameters = case.path_parameters or {}
    n = len(str(case.body)) + len(str(parameters))
    if "name" in parameters and n % 5:
        parameters["name"] = "vectors" if n % 5 == 1 else "default"
    if "id" in parameters and n % 5:
        parameters["id"] = IDS[n % 3]
    if case.method == "DELETE":
        parameters["name"] = "short-lived"
        service.send("POST", V1, json={"name": "short-lived"})
    given = case.as_transport_kwargs(base_url="http://service")
    given.pop("cookies", None)
    sent = requests.Request(
        **{name: given.get(name) for name in ("method", "url", "headers", "params", "data", "json")}
    ).prepare()
    headers = {name.lower(): value for name, value in sent.headers.items()}
    if "authorization" in headers:  # sometimes it is left out
        headers["authorization"] = HEADERS["Authorization"]
    answer = service.send(
        str(sent.method), str(sent.url), content=sent.body or b"", headers=headers
    )
    assert answer.status_code < 500, answer.text
    # An id may contain slashes, so that `GET …/decisions/x/reward` asks for the decision `x/reward`.
    left_out = {"unsupported_method"} if "id" in parameters else set()
    if case.path.endswith(("/decisions/batch", "/rewards")):
        left_out.add("negative_data_rejection")  # a wrong item fails on its own
    checks = [each for each in CHECKS if each.__name__ not in left_out]
    case.validate_response(answer, checks=checks)


@SCHEMA.parametrize()
@settings(max_examples=10, derandomize=True, suppress_health_check=list(HealthCheck))
def test_answers_are_as_documented(case: Case, served: Served) -> None:
    """Whatever is sent."""
    check(case, served)


@pytest.mark.slow
@SCHEMA.parametrize()
@settings(max_examples=200 * TIMES, derandomize=True, suppress_health_check=list(HealthCheck))
def test_many_answers_are_as_documented(case: Case, served: Served) -> None:
    """The same for more requests."""
    check(case, served)
