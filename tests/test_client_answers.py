"""A client uses only answers to its own questions, within its time, and connections of its own process and event loop."""

from __future__ import annotations

import asyncio
import gzip
import json
import multiprocessing
import os
import pickle
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic, sleep
from typing import Any

import httpx
import pytest

from rolin.client import AsyncClient, Client, Decision, Question, Reward
from rolin.errors import ParameterError, ServiceError, ServiceUnavailable, UnexpectedAnswer

OWN = {"id": "1", "arm": "a", "ranking": ["a"]}


def client(answer: Callable[[httpx.Request], httpx.Response], **options: Any) -> Client:
    """Return a client whose requests are answered by a function."""
    return Client(
        "http://service", http=httpx.Client(transport=httpx.MockTransport(answer)), **options
    )


@contextmanager
def listening(serve: Callable[[socket.socket], None]) -> Iterator[str]:
    """Let a function serve every connection in a thread of its own; give the address."""
    server = socket.create_server(("127.0.0.1", 0))

    def handle(connection: socket.socket) -> None:
        try:
            with connection:
                serve(connection)
        except OSError:  # the client has closed it
            pass

    def accept() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=handle, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()


def read_request(connection: socket.socket) -> dict[str, Any]:
    """Return the body of the next request."""
    with connection.makefile("rb") as file:
        length = 0
        for line in iter(file.readline, b"\r\n"):
            if not line:
                raise ConnectionResetError
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        return json.loads(file.read(length) or b"{}")  # type: ignore[no-any-return]  # a JSON object


def reply(connection: socket.socket, body: Any) -> None:
    """Send an answer."""
    content = json.dumps(body).encode()
    connection.sendall(b"HTTP/1.1 201 Created\r\nContent-Length: %d\r\n\r\n%s" % (len(content), content))  # fmt: skip


# -- answers to something else -----------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        [],
        {},
        "x",
        None,
        3,
        {"id": "1"},
        {**OWN, "id": "2"},
        {**OWN, "id": 1},
        {**OWN, "arm": "c"},
        {**OWN, "arm": "x", "ranking": ["x"]},
        {**OWN, "ranking": ["a", "c"]},
        {**OWN, "ranking": None},
        {**OWN, "ranking": [["a"]]},
        {**OWN, "recorded": "yes"},
        {**OWN, "probabilities": []},
        {**OWN, "version": True},
        {**OWN, "id": "unrecorded-1"},
        {**OWN, "id": "2", "recorded": False},
    ],
)
def test_what_was_not_asked_for_is_not_used(answer: Any) -> None:
    """It is an error, or leads to the fallback; nothing is activated."""
    sent = []

    def serve(request: httpx.Request) -> httpx.Response:
        sent.append(request.url.path)
        batch = {"results": [{"status": 201, **answer} if isinstance(answer, dict) else answer]}
        told = batch if request.url.path.endswith("batch") else answer
        return httpx.Response(200, content=json.dumps(told))

    bandit = client(serve).bandit("offers")
    arms = ["a", "b", "x"]
    with pytest.raises(UnexpectedAnswer, match="unexpected answer: ") as caught:
        bandit.decide(arms, id="1", exclude=["x"])
    assert caught.value.code == "unexpected_answer"
    (error,) = bandit.decide_batch([Question(arms, id="1", exclude=["x"])])
    assert isinstance(error, UnexpectedAnswer)
    fallen = bandit.decide(arms, id="1", exclude=["x"], fallback="b")
    assert (fallen.arm, fallen.recorded, fallen.active) == ("b", False, False)
    (item,) = bandit.decide_batch([Question(arms, id="1", exclude=["x"], fallback="b")])
    assert item == fallen
    assert not any("activat" in path for path in sent)


def test_the_fallback_of_the_service_has_an_id_of_its_own() -> None:
    """It begins with `unrecorded-`, with or without the id that was given."""
    for id in ("1", "unrecorded-1", "unrecorded-ab12"):
        body = {**OWN, "id": id, "recorded": False}
        made = client(lambda _, body=body: httpx.Response(201, json=body)).bandit("b")
        found = made.decide(["a"], id="1")
        assert found.id == (id if id.startswith("unrecorded-") else "unrecorded-1")
        assert not found.active


DEEP = b"[" * 200_000


@pytest.mark.parametrize(
    "response",
    [
        {"json": []},
        {"json": {}},
        {"json": {"results": []}},
        {"json": {"results": None}},
        {"json": {"results": [None]}},
        {"json": {"results": [{"error": 3}]}},
        {"content": DEEP},
        {"content": b'{"results":' + DEEP},
        {"content": b"no gzip", "headers": {"content-encoding": "gzip"}},
        {"content": b"{}", "headers": {"content-encoding": "gzip, gzip"}},
    ],
)
def test_no_answer_makes_a_call_fail_otherwise(response: dict[str, Any]) -> None:
    """Whatever comes, it is an error of the service, in every call."""
    found = client(lambda _: _response(response))
    bandit = found.bandit("offers")
    single: list[Callable[[], Any]] = [
        found.bandits,
        lambda: found.delete_bandit("b"),
        bandit.arms,
        bandit.snapshot,
        bandit.stop_shadow,
        lambda: bandit.decision("1"),
        lambda: bandit.activate("1"),
        lambda: bandit.reward("1", 1.0),
        lambda: bandit.erase(person="ann"),
    ]
    for call in single:
        with pytest.raises(UnexpectedAnswer):
            call()
    batches: list[Callable[[], Any]] = [
        lambda: bandit.decide_batch([Question(["a"])]),
        lambda: bandit.activate_batch(["1"]),
        lambda: bandit.reward_batch([Reward("1", 1.0)]),
    ]
    for call in batches:
        try:
            (item,) = call()
        except ServiceError as error:
            item = error
        assert isinstance(item, ServiceError)
    assert bandit.decide(["a", "b"], fallback="b").arm == "b"


def _response(given: dict[str, Any]) -> httpx.Response:
    """Return an answer whose body is decoded when it is read, as that of a real one."""
    content = given.get("content", json.dumps(given.get("json")).encode())
    return httpx.Response(200, stream=httpx.ByteStream(content), headers=given.get("headers"))


def test_a_small_answer_cannot_become_too_large() -> None:
    """It is given up when 64 MiB are read."""
    bomb = {
        "content": gzip.compress(bytes(80_000_000), 1),
        "headers": {"content-encoding": "gzip"},
    }
    with pytest.raises(UnexpectedAnswer, match="more than 67108864 bytes"):
        client(lambda _: _response(bomb)).bandits()


def test_messages() -> None:
    """They name what is wrong."""
    moved = client(lambda _: httpx.Response(308, headers={"location": "https://service/"}))
    with pytest.raises(ServiceError, match="redirected to 'https://service/', expected the address of the service"):  # fmt: skip
        moved.bandits()
    for options in ({"id": "x\ud800"}, {"situation": {"a": "\ud800"}}):
        with pytest.raises(ParameterError, match=r"'\\ud800', half of a surrogate pair; expected valid Unicode"):  # fmt: skip
            moved.bandit("b").decide(["a"], **options)  # type: ignore[arg-type]  # of several types
    with pytest.raises(ParameterError, match="surrogate"):
        moved.bandit("b").reward("\ud800", 1.0)
    with pytest.raises(TypeError, match="a client cannot be pickled"):
        pickle.dumps(Client("http://service"))
    with pytest.raises(TypeError, match="a client cannot be pickled"):
        pickle.dumps(moved.bandit("b"))


def test_a_closed_client_says_so() -> None:
    """Also with a fallback: it is an error of the caller."""
    with Client("http://127.0.0.1:9") as closed:
        pass
    with pytest.raises(ServiceError, match="the client is closed"):
        closed.bandit("b").decide(["a"], fallback="a")

    async def use() -> None:
        async with AsyncClient("http://127.0.0.1:9") as closed:
            pass
        with pytest.raises(ServiceError, match="the client is closed"):
            await closed.bandits()

    asyncio.run(use())


# -- lost activations --------------------------------------------------------------------------


def test_a_lost_activation_is_made_good_by_the_reward() -> None:
    """The decision says that it does not count yet; its reward activates it first."""
    sent: list[str] = []
    lost = True

    def serve(request: httpx.Request) -> httpx.Response:
        path = request.url.path.rpartition("/")[2]
        sent.append(path)
        if path in ("activate", "activations") and lost:
            return httpx.Response(503)
        if path == "decisions":
            return httpx.Response(201, json=OWN)
        if path == "batch":
            return httpx.Response(200, json={"results": [{"status": 201, **OWN}]})
        if path in ("activations", "rewards"):
            return httpx.Response(200, json={"results": [{"status": 204}]})
        return httpx.Response(204)

    bandit = client(serve, retries=0).bandit("offers")
    one = bandit.decide(["a"], id="1", fallback="a")
    (other,) = bandit.decide_batch([Question(["a"], id="1", fallback="a")])
    assert one == other
    assert isinstance(other, Decision)
    assert (one.recorded, one.active, one.activation_lost) == (True, False, True)
    with pytest.raises(ServiceUnavailable, match="activate"):
        bandit.reward(one, 1.0)
    (item,) = bandit.reward_batch([Reward(one, 1.0)])
    assert isinstance(item, ServiceUnavailable)
    lost = False
    sent.clear()
    assert bandit.reward(one, 1.0) == "recorded"
    assert bandit.reward_batch([Reward(one, 1.0)]) == ["recorded"]
    assert sent == ["activate", "reward", "activations", "rewards"]
    sent.clear()
    later = bandit.decide(["a"], id="1", active=False)
    assert (later.active, later.activation_lost) == (False, False)
    assert bandit.reward(later, 1.0) == "recorded"  # who asked for it activates it
    assert bandit.decide(["a"], id="1", fallback="a").active
    assert sent == ["decisions", "reward", "decisions", "activate"]


# -- the time of a call ------------------------------------------------------------------------


def trickle_headers(connection: socket.socket) -> None:
    """Send a header every 20 ms."""
    read_request(connection)
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    while True:
        connection.sendall(b"X-More: 1\r\n")
        sleep(0.02)


def trickle_body(connection: socket.socket) -> None:
    """Send a byte every 20 ms."""
    read_request(connection)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    while True:
        connection.sendall(b" ")
        sleep(0.02)


@pytest.mark.parametrize("serve", [trickle_headers, trickle_body])
def test_the_time_of_a_call_holds(serve: Callable[[socket.socket], None]) -> None:
    """Also if a byte comes now and then, on both kinds of clients."""

    async def decide(url: str) -> Decision:
        async with AsyncClient(url, timeout=0.3) as found:
            return await found.bandit("b").decide(["a"], fallback="a")

    with listening(serve) as url:
        begin = monotonic()
        with Client(url, timeout=0.3) as found:
            assert not found.bandit("b").decide(["a"], fallback="a").recorded
        between = monotonic()
        assert not asyncio.run(decide(url)).recorded
        # The server never ends its answer, so any time shows that there is a limit.
        assert between - begin < 5.0
        assert monotonic() - between < 5.0
        with Client(url, timeout=0.2) as found, pytest.raises(ServiceUnavailable):
            found.bandits()


# -- processes and event loops -----------------------------------------------------------------


def echo(connection: socket.socket) -> None:
    """Answer every decision with its first arm."""
    while True:
        asked = read_request(connection)
        sleep(0.002)  # so that requests of several processes overlap
        arm = asked["arms"][0]
        reply(connection, {"id": asked["id"], "arm": arm, "ranking": [arm]})


def _decide(found: Client, name: str, errors: Any) -> None:
    bandit = found.bandit("b")
    for k in range(20):
        try:
            assert bandit.decide([f"{name}-{k}"]).arm == f"{name}-{k}"
        except Exception as error:
            errors.put(repr(error))
            return
    errors.put("")


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_forked_processes_do_not_share_connections() -> None:
    """Each gets the answers to its own questions."""
    context = multiprocessing.get_context("fork")
    with listening(echo) as url, Client(url, timeout=5.0, retries=0) as found:
        assert found.bandit("b").decide(["first"]).arm == "first"  # the connection is open now
        errors = context.Queue()
        children = [context.Process(target=_decide, args=(found, str(k), errors)) for k in range(2)]
        for child in children:
            child.start()
        told = [errors.get(timeout=20) for _ in children]
        for child in children:
            child.join()
        assert told == ["", ""]
        assert found.bandit("b").decide(["last"]).arm == "last"


def test_connections_that_were_given_are_not_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what to do."""
    found = client(lambda _: httpx.Response(200, json={"bandits": []}))
    assert found.bandits() == []
    process = os.getpid()
    monkeypatch.setattr("os.getpid", lambda: process + 1)
    with pytest.raises(ServiceError, match="in another process"):
        found.bandits()


def test_event_loops_do_not_share_connections() -> None:
    """One client works with one loop after the other."""

    async def decide(found: AsyncClient, arm: str) -> str:
        return (await found.bandit("b").decide([arm])).arm

    with listening(echo) as url:
        found = AsyncClient(url, timeout=5.0, retries=0)
        assert [asyncio.run(decide(found, arm)) for arm in ("a", "b", "c")] == ["a", "b", "c"]
        asyncio.run(found.close())
        given = AsyncClient(url, http=httpx.AsyncClient())
        assert asyncio.run(decide(given, "a")) == "a"
        with pytest.raises(ServiceError, match="in another event loop"):
            asyncio.run(decide(given, "b"))
