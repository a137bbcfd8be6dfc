"""When a client repeats a request, when it waits, and when it gives up. No service, and no waiting."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Callable
from time import monotonic
from typing import Any

import httpx
import pytest

from rolin.client import AsyncClient, Client, Question, Reward
from rolin.client.requests import Answer, Request
from rolin.client.retrying import Limits, Send, Wait, ask
from rolin.errors import (
    AccessDenied,
    Conflict,
    NotFound,
    ParameterError,
    RolinError,
    ServiceError,
    ServiceUnavailable,
)

LIMITS = Limits(timeout=60.0, slow_timeout=300.0, attempt_timeout=None, retries=2)
READ = Request("GET", "/v1/bandits")
CREATE = Request("POST", "/v1/bandits", b"{}", repeatable=False)
OK = Answer(200, {}, b"{}")


def refused(status: int, **headers: str) -> Answer:
    """Return the answer to a request that failed."""
    body = {"error": {"code": "some_code", "message": "why", "field": "arms[1]"}}
    return Answer(status, headers, json.dumps(body).encode())


def play(request: Request, found: list[Answer | Exception], limits: Limits = LIMITS) -> list[Any]:
    """Take the steps of a request, with these answers and errors; return the waits, and how it ended."""
    flow, waits, events = ask(request, limits), [], iter(found)
    step = next(flow)
    try:
        while True:
            if isinstance(step, Wait):
                waits.append(step.seconds)
                step = flow.send(None)
                continue
            assert isinstance(step, Send)
            event = next(events)
            step = flow.throw(event) if isinstance(event, Exception) else flow.send(event)
    except StopIteration as end:
        return [*waits, end.value]
    except RolinError as error:
        return [*waits, error]


LOST = httpx.ReadError("lost")
TIMEOUT = httpx.ReadTimeout("too slow")
NOT_CONNECTED = httpx.ConnectError("refused")


@pytest.mark.parametrize("failure", [LOST, TIMEOUT, NOT_CONNECTED, refused(429), refused(503), refused(502), refused(504)])  # fmt: skip
def test_what_may_pass_is_repeated(failure: Answer | Exception) -> None:
    """A repeatable request is sent again, after waits that may double."""
    first, second, answer = play(READ, [failure, failure, OK])
    assert answer == OK
    assert 0.0 <= first <= 0.05
    assert 0.0 <= second <= 0.1
    *waits, error = play(READ, [failure] * 3)
    assert len(waits) == LIMITS.retries
    assert isinstance(error, ServiceUnavailable)


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, ServiceError), (401, AccessDenied), (403, AccessDenied), (404, NotFound), (409, Conflict), (413, ServiceError), (500, ServiceUnavailable)],
)  # fmt: skip
def test_what_will_not_pass_is_not_repeated(status: int, kind: type[ServiceError]) -> None:
    """The error says what was asked, and has all that the service said."""
    (error,) = play(READ, [refused(status)])
    assert type(error) is kind
    assert (error.status, error.code, error.field) == (status, "some_code", "arms[1]")
    assert error.message == f"GET /v1/bandits: why (status {status}, some_code, field arms[1])"


def test_what_may_have_been_done_is_not_repeated() -> None:
    """A request that must not be done twice is sent again only if the first one was not looked at."""
    for failure in (LOST, TIMEOUT, refused(503)):
        assert isinstance(play(CREATE, [failure])[-1], ServiceUnavailable)
    for failure in (NOT_CONNECTED, httpx.ConnectTimeout("x"), refused(429)):
        assert play(CREATE, [failure, OK])[-1] == OK


def test_the_service_says_how_long_to_wait() -> None:
    """`Retry-After` is honored, and if there is no time for it, the client gives up at once."""
    wait, answer = play(READ, [refused(503, **{"retry-after": "7"}), OK])
    assert answer == OK
    assert 7.0 <= wait <= 7.05
    (error,) = play(READ, [refused(503, **{"retry-after": "70"})])
    assert isinstance(error, ServiceUnavailable)
    wait, answer = play(READ, [refused(503, **{"retry-after": "Fri, 31 Dec 1999 23:59:59 GMT"}), OK])  # fmt: skip
    assert wait < 1.0


def test_attempts_share_the_time() -> None:
    """No attempt gets more than is left, nor more than `attempt_timeout`."""
    begin = monotonic()
    step = next(ask(READ, LIMITS))
    assert isinstance(step, Send)
    assert 59.0 < step.until - begin < 61.0
    step = next(ask(READ, LIMITS._replace(attempt_timeout=1.0)))
    assert isinstance(step, Send)
    assert 0.5 < step.until - begin < 2.0
    (error,) = play(READ, [LOST], LIMITS._replace(timeout=1e-9))
    assert "no answer after" in str(error)


def client(answer: Callable[[httpx.Request], httpx.Response], **options: Any) -> Client:
    """Return a client whose requests are answered by a function."""
    http = httpx.Client(transport=httpx.MockTransport(answer))
    return Client("http://service/behind/proxy/", key="secret", http=http, **options)


def made(request: httpx.Request, **more: Any) -> httpx.Response:
    """Return the decision for the first arm."""
    asked = json.loads(request.content)
    arm = asked["arms"][0]
    return httpx.Response(201, json={"id": asked["id"], "arm": arm, "ranking": [arm], **more})


def test_a_repeated_decision_has_the_same_id_and_question() -> None:
    """The service answers the second one as the first; a new decision has another id."""
    bodies = []

    def answer(request: httpx.Request) -> httpx.Response:
        bodies.append(request.content)
        if len(bodies) % 2:
            raise httpx.ReadError("lost")
        return made(request)

    bandit = client(answer).bandit("offers")
    first, second = bandit.decide(["a", "b"]), bandit.decide(["a", "b"])
    assert bodies[0] == bodies[1]
    assert bodies[2] == bodies[3] != bodies[0]
    assert len({first.id, second.id}) == 2


def test_paths_and_headers() -> None:
    """The path of a proxy comes first, and ids are encoded."""
    seen = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.url.raw_path.decode())
        assert request.headers["authorization"] == "Bearer secret"
        return httpx.Response(204)

    bandit = client(answer).bandit("offers")
    for id in ("visit 1/ü", "..", "a%2Fb?#", "."):
        assert bandit.reward(id, 1.0) == "recorded"
    start = "/behind/proxy/v1/bandits/offers/decisions"
    ids = ["visit%201%2F%C3%BC", "%2E%2E", "a%252Fb%3F%23", "%2E"]
    assert seen == [f"{start}/{id}/reward" for id in ids]
    with pytest.raises(ParameterError, match="'' is not a name or an id"):
        bandit.reward("", 1.0)


def test_a_fallback_is_confirmed_in_two_steps() -> None:
    """The decision is asked for as inactive, and activated when its answer has come."""
    seen: list[tuple[str, Any]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append((request.url.path.rpartition("/")[2], json.loads(request.content or "{}")))
        return made(request) if request.content else httpx.Response(204)

    bandit = client(answer).bandit("offers")
    decision = bandit.decide(["a", "b"], id="1", fallback="b")
    assert (decision.arm, decision.recorded) == ("a", True)
    assert seen == [("decisions", {"id": "1", "arms": ["a", "b"], "active": False}), ("activate", {})]  # fmt: skip
    seen.clear()
    bandit.decide(["a", "b"], id="2", active=False, fallback="b")  # who says so activates it
    assert [path for path, _ in seen] == ["decisions"]


def test_a_fallback_is_shown_if_there_is_no_answer(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is sent for its reward or its activation, and a warning is logged."""
    sent = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request.url.path)
        raise httpx.ReadTimeout("too slow")

    bandit = client(answer, retries=0).bandit("offers")
    with caplog.at_level(logging.WARNING, "rolin.client"):
        decision = bandit.decide(["a", "b", "c"], id="1", fallback=["b", "c"], top_k=2)
    assert (decision.arm, decision.ranking, decision.recorded) == ("b", ("b", "c"), False)
    assert "decision 1 falls back to 'b': POST /v1/bandits/offers/decisions: no answer" in caplog.text  # fmt: skip
    assert bandit.reward(decision, 1.0) == bandit.reward(decision.id, 1.0) == "unrecorded"
    assert bandit.activate(decision) is False
    assert bandit.reward_batch([Reward(decision, 1.0)]) == ["unrecorded"]
    assert bandit.activate_batch([decision]) == [False]
    assert len(sent) == 1
    with pytest.raises(ServiceUnavailable):
        bandit.decide(["a", "b"])


def test_a_decision_that_is_not_activated_is_shown(caplog: pytest.LogCaptureFixture) -> None:
    """What the service has chosen is shown although the activation was lost, and a warning says so."""

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("activate"):
            raise httpx.ReadError("lost")
        return made(request)

    decision = client(answer, retries=0).bandit("offers").decide(["a", "b"], id="1", fallback="b")
    assert (decision.arm, decision.recorded) == ("a", True)
    assert "decision 1 could not be activated" in caplog.text


def test_a_fallback_of_the_service_is_not_recorded_either() -> None:
    """With `--fallback baseline`, the service may answer with an arm that it could not record."""
    bandit = client(lambda request: made(request, recorded=False)).bandit("offers")
    decision = bandit.decide(["a", "b"], id="1", fallback="b")
    assert (decision.id, decision.arm) == ("unrecorded-1", "a")
    assert bandit.reward(decision.id, 1.0) == "unrecorded"


def test_errors_of_the_caller_have_no_fallback() -> None:
    """A wrong key or a wrong question is an error, not a reason to fall back for ever."""

    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(401, json={"error": {"code": "unauthorized", "message": "no key"}})

    with pytest.raises(AccessDenied, match="no key"):
        client(answer).bandit("offers").decide(["a", "b"], fallback="b")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"arms": "ab"}, "one text, expected a list"),
        ({"arms": ["a"], "exclude": "a"}, "one text, expected a list"),
        ({"arms": ["a"], "fallback": "b"}, "fallback='b' is none of the arms"),
        ({"arms": {"a": None, "b": None}, "exclude": ["b"], "fallback": "b"}, "is excluded"),
        ({"arms": ["a"], "fallback": []}, "fallback is empty"),
        ({"arms": ["a"], "id": "unrecorded-1"}, "these ids are for fallbacks"),
        ({"arms": ["a"], "situation": {"x": float("nan")}}, "expected finite numbers"),
        ({"arms": ["a"], "situation": {"x": object()}}, "expected something that JSON can hold"),
    ],
)
def test_bad_questions_are_rejected_before_they_are_sent(options: Any, message: str) -> None:
    """Also a fallback that could not be shown, long before it is needed."""
    with pytest.raises(ParameterError, match=message):
        client(lambda _: httpx.Response(500)).bandit("offers").decide(**options)


def test_batches_fail_item_by_item() -> None:
    """An item that is refused is an error at its place; one that could not be recorded gets its fallback."""
    seen = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked = json.loads(request.content)["decisions"]
        seen.append(asked)
        if request.url.path.endswith("/activations"):
            return httpx.Response(200, json={"results": [{"status": 204} for _ in asked]})
        errors = {"2": (400, "bad"), "3": (503, "full")}
        results = [
            {"status": errors[each["id"]][0], "error": {"code": "c", "message": errors[each["id"]][1]}}
            if each["id"] in errors
            else {"status": 201, "id": each["id"], "arm": "a", "ranking": ["a"]}
            for each in asked
        ]  # fmt: skip
        return httpx.Response(200, json={"results": results})

    bandit = client(answer).bandit("offers")
    questions = [Question(["a", "b"], id=str(k), fallback="b" if k > 2 else None) for k in range(1, 5)]  # fmt: skip
    first, second, third, fourth = bandit.decide_batch(questions)
    assert isinstance(second, ServiceError)
    assert second.status == 400
    assert "item 1: bad" in str(second)
    found = [(d.arm, d.recorded) for d in (first, third, fourth) if not isinstance(d, ServiceError)]
    assert found == [("a", True), ("b", False), ("a", True)]
    assert [("active" in each) for each in seen[0]] == [False, False, True, True]
    assert seen[1:] == [["4"]]


def test_a_batch_without_an_answer() -> None:
    """Questions get their fallback; if no question has one, the error is raised."""

    def answer(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    bandit = client(answer, retries=0).bandit("offers")
    first, second = bandit.decide_batch([Question(["a"]), Question(["a"], fallback="a")])
    assert isinstance(first, ServiceUnavailable)
    assert not isinstance(second, ServiceError)
    assert second.arm == "a"
    with pytest.raises(ServiceUnavailable, match="refused"):
        bandit.decide_batch([Question(["a"])])


def test_an_answer_that_is_not_from_the_service() -> None:
    """A page of another server is named as such."""
    page = client(lambda _: httpx.Response(200, text="<html>hello"))
    with pytest.raises(
        ServiceError, match="the answer is not JSON: '<html>hello'; is this the address"
    ):
        page.bandits()  # fmt: skip
    moved = client(lambda _: httpx.Response(302, text="elsewhere"))
    with pytest.raises(ServiceError, match=r"'elsewhere' \(status 302, unexpected_answer"):
        moved.bandits()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"url": "localhost:8000"}, "expected an address such as http://127.0.0.1:8000"),
        ({"url": "ftp://x"}, "expected an address"),
        ({"timeout": 0.0}, "timeout=0.0, expected a number of seconds above 0"),
        ({"attempt_timeout": float("inf")}, "attempt_timeout=inf"),
        ({"retries": -1}, "retries=-1, expected a whole number"),
        ({"key": "two words"}, r"key=\*\*\*, expected printable"),
    ],
)
def test_bad_options_are_rejected(options: dict[str, Any], message: str) -> None:
    """Both clients say what was given and what was expected, but not the key."""
    for kind in (Client, AsyncClient):
        with pytest.raises(ParameterError, match=message):
            kind(**options)


def test_the_environment_names_service_and_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless they are given; the key is never shown."""
    monkeypatch.setenv("ROLIN_URL", "https://bandits.example/api")
    monkeypatch.setenv("ROLIN_API_KEY", "key-of-the-environment")
    keys = []

    def answer(request: httpx.Request) -> httpx.Response:
        keys.append(request.headers["authorization"])
        return httpx.Response(200, json={"bandits": [str(request.url)]})

    http = httpx.Client(transport=httpx.MockTransport(answer))
    found = Client(http=http)
    assert repr(found) == "Client('https://bandits.example/api')"
    assert found.bandits() == ["https://bandits.example/api/v1/bandits"]
    Client(key="other", http=http).bandits()
    assert keys == ["Bearer key-of-the-environment", "Bearer other"]


def test_threads_share_a_client() -> None:
    """Each gets the answer to its own question."""
    shared = client(made).bandit("offers")
    wrong: list[str] = []

    def work(k: int) -> None:
        names = [f"{k}-{i}" for i in range(20)]
        wrong.extend(name for name in names if shared.decide([name]).arm != name)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_the_asynchronous_client_repeats_too() -> None:
    """By the same rules: they are the same code."""
    attempts = []

    def answer(request: httpx.Request) -> httpx.Response:
        attempts.append(request.content)
        if len(attempts) < 3:
            raise httpx.ReadError("lost")
        return made(request)

    async def decide() -> str:
        http = httpx.AsyncClient(transport=httpx.MockTransport(answer))
        async with AsyncClient("http://service", http=http) as found:
            return (await found.bandit("offers").decide(["a"])).arm

    assert asyncio.run(decide()) == "a"
    assert len(set(attempts)) == 1
    assert len(attempts) == 3
