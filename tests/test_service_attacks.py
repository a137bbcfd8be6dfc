"""What strangers send: broken HTTP, hostile bodies and paths, over real sockets to a real process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import pytest

from support.server import V1, Answer, Connection, Server, connected, question, served
from support.service import KEY

pytestmark = [pytest.mark.compiled, pytest.mark.service]  # it waits for a real process


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A service that waits half a second for a body."""
    data = tmp_path_factory.mktemp("data")
    with served(data, "--request-timeout", "0.5", "--max-body", "65536") as found:
        asyncio.run(_ready(found.port))
        yield found
        code, log = found.stop()
        assert code == 0
        assert "Traceback" not in log, log


async def _ready(port: int) -> None:
    async with connected(port) as connection:
        assert (await connection.call("GET", "/readyz")).status == 200
        for _ in range(100):  # the first answers may take longer than half a second
            made = await connection.call("POST", f"{V1}/decisions", question("known"))
            if made.status == 201:
                return
    raise AssertionError(made)


def head(method: str, path: str, *lines: str) -> bytes:
    """Return the head of a request, which ends with an empty line."""
    first = (f"{method} {path} HTTP/1.1", "Host: x", f"Authorization: Bearer {KEY}")
    return "\r\n".join((*first, *lines, "", "")).encode()


def sent(server: Server, *parts: bytes, pause: float = 0.0) -> Answer | None:
    """Send bytes, with pauses; return the answer, or nothing if the connection was closed without one."""

    async def send() -> Answer | None:
        async with connected(server.port) as connection:
            try:
                for part in parts:
                    connection.writer.write(part)
                    await connection.writer.drain()
                    await asyncio.sleep(pause)
                return await connection.answer()
            except (OSError, EOFError):
                return None

    return asyncio.run(send())


def body(content: bytes, *lines: str, path: str = f"{V1}/decisions") -> bytes:
    """Return a whole request with a body."""
    return head("POST", path, f"Content-Length: {len(content)}", *lines) + content


def works(server: Server) -> bool:
    """Whether the service answers as before, and has recorded nothing else."""

    async def ask() -> bool:
        async with connected(server.port) as connection:
            known = await connection.call("POST", f"{V1}/decisions", question("known"))
            info = await connection.call("GET", V1)
        return known.status == 201 and info.json()["version"] == 2

    return asyncio.run(ask())


DEEP = b'{"arms":["a"],"situation":' + b'{"x":' * 5000 + b"1" + b"}" * 5001


@pytest.mark.parametrize(
    "content",
    [
        b'{"arms":["a"],"situation":{"x":NaN}}',
        b'{"arms":["a"],"situation":{"x":-Infinity}}',
        b'{"arms":["a"],"situation":{"x":1e400}}',
        b'{"arms":["a"],"situation":{"x":1' + b"0" * 400 + b"}}",
        b'{"arms":["a"],"top_k":99999999999999999999}',
        b'{"arms":["a"],"arms":["b"]}',
        b'{"arms":["\\ud800"]}',
        b'{"arms":["a"],"id":"\\udfff"}',
        b'{"arms":["a"],"id":"\\u0000"}',
        b'{"arms":["\xff\xfe"]}',
        b"\xef\xbb\xbf{}",
        '{"arms":["a"]}'.encode("utf-16"),
        b'{"arms":["a"],"id":"' + b"x" * 513 + b'"}',
        b'{"arms":["a"]}{"arms":["a"]}',
        DEEP,
        b"[" * 60_000,
        b'"' * 60_001,
        b"\x00" * 1000,
    ],
    ids=lambda content: str(content[:40]),
)
def test_hostile_bodies(server: Server, content: bytes) -> None:
    """400 in the one shape of errors, and nothing is recorded."""
    answer = sent(server, body(content))
    assert answer is not None
    assert answer.status == 400, answer
    assert answer.json()["error"]["code"] == "invalid_request"
    assert works(server)


OK = json.dumps({"arms": ["a"]}).encode()


@pytest.mark.parametrize(
    ("parts", "statuses"),
    [
        ([head("POST", f"{V1}/decisions", f"X-Long: {'x' * 200_000}")], {400, 431, None}),
        ([head("POST", f"{V1}/decisions", *(f"X-{i}: x" for i in range(20_000)))], {400, 431, None}),
        ([head("GET", f"{V1}/{'x' * 200_000}")], {400, 414, None}),
        ([head("POST", f"{V1}/decisions", "Content-Length: -1") + OK], {400}),
        ([head("POST", f"{V1}/decisions", "Content-Length: 3", "Content-Length: 14") + OK], {400}),
        ([head("POST", f"{V1}/decisions", "Content-Length: 5") + OK], {400}),
        ([head("POST", f"{V1}/decisions", "Content-Length: 99999999999") + OK], {408}),
        ([head("POST", f"{V1}/decisions", "Content-Length: 1000") + OK], {408}),
        ([head("POST", f"{V1}/decisions", "Transfer-Encoding: chunked") + b"zz\r\n"], {400}),
        ([head("POST", f"{V1}/decisions", "Transfer-Encoding: gzip") + OK], {400, 501}),
        ([head("POST", f"{V1}/decisions", "Transfer-Encoding: chunked"), b"ffff\r\n" + b" " * 65535 + b"\r\n", b"ffff\r\n" + b" " * 65535 + b"\r\n"], {413}),
        ([body(b" " * 70_000)], {413}),
        ([b"GET / HTTP/9.9\r\n\r\n"], {307, 400, 404, 505}),
        ([b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"], {400, None}),
        ([b"\r\n" * 10_000], {400, None}),
    ],
    ids=range(15),
)  # fmt: skip
def test_broken_http(server: Server, parts: list[bytes], statuses: set[int | None]) -> None:
    """A clear refusal or a closed connection, and the service goes on."""
    parts = [*parts, b"\r\n\r\n"] if None in statuses else parts
    answer = sent(server, *parts, pause=0.01)
    assert (answer and answer.status) in statuses, answer
    assert works(server)


@pytest.mark.parametrize(
    "start",
    [
        head("GET", "/healthz", "X-Endless: ")[:-4],
        head("POST", f"{V1}/decisions", "Transfer-Encoding: chunked")
        + b"1\r\n{\r\n0\r\nX-Endless: ",
    ],
    ids=["head", "trailer"],
)
def test_an_endless_head_is_refused(server: Server, start: bytes) -> None:
    """It is not kept in memory until it ends, because anybody can send one, without a key."""
    answer = sent(server, start, *[b"x" * 33_000] * 2, pause=0.02)
    assert answer is not None
    assert answer.status == 400
    assert works(server)


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("chunked", [False, True])
def test_an_offer_to_upgrade_is_ignored(server: Server, split: bool, chunked: bool) -> None:
    """Java's client offers HTTP/2 with every request; the body counts, and so does the next request."""
    offer = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk")
    known = json.dumps(question("known")).encode()
    if chunked:
        first = head("POST", f"{V1}/decisions", *offer, "Transfer-Encoding: chunked")
        first += b"%x\r\n%b\r\n0\r\n\r\n" % (len(known), known)
    else:
        first = body(known, *offer)

    async def ask() -> None:
        async with connected(server.port) as connection:
            for part in (first[:-5], first[-5:] + body(known)) if split else (first + body(known),):
                connection.writer.write(part)
                await asyncio.sleep(0.05)
            assert [(await connection.answer()).status for _ in range(2)] == [201, 201]

    asyncio.run(ask())
    assert "upgrade" not in server.log()


def test_slow_and_broken_off_bodies(server: Server) -> None:
    """A body in many small parts is read; one that takes too long gets 408; one that ends early is forgotten."""
    chunks = [b"1\r\n%c\r\n" % byte for byte in OK.replace(b"arms", b"army")]
    chunked = head("POST", f"{V1}/decisions", "Transfer-Encoding: chunked")
    answer = sent(server, chunked, *chunks, b"0\r\n\r\n", pause=0.001)
    assert answer is not None
    assert (answer.status, answer.json()["error"]["message"][:15]) == (400, "there is no mem")
    slow = sent(server, chunked, *chunks, pause=0.2)
    assert slow is not None
    assert (slow.status, slow.json()["error"]["code"]) == (408, "request_timeout")

    async def leave() -> None:
        for _ in range(50):
            async with connected(server.port) as connection:
                connection.writer.write(head("POST", f"{V1}/decisions", "Content-Length: 99") + OK)
                await connection.writer.drain()

    asyncio.run(leave())
    assert works(server)


@pytest.mark.parametrize(
    "path",
    [
        "/v1/bandits/..%2f..%2fetc", "/v1/bandits/../../etc/passwd", "/v1/bandits/..", "/v1/bandits/.",
        "/v1/bandits/%2e%2e", "/v1/bandits/%2e%2e%2fdefault", "/v1/bandits/default%00", "/v1/bandits/default%0a",
        "/v1/bandits/.new-x", "/v1/bandits/", "/v1/bandits/default/", "//", "/v1/bandits/%ff%fe",
        f"{V1}/decisions/..%2f..%2fkeys.json", f"{V1}/decisions/%00", f"{V1}/decisions/%ff", f"{V1}/decisions/",
        f"{V1}/decisions/{'x' * 5000}", f"{V1}/decisions/known/../../..", f"{V1}/decisions/%c3%bc/explanation",
    ],
)  # fmt: skip
def test_paths_lead_nowhere(server: Server, path: str) -> None:
    """No name or id leads to another file."""
    for method in ("GET", "DELETE"):
        answer = sent(server, head(method, path))
        assert answer is not None
        assert answer.status in (400, 404, 405), answer
        assert answer.json()["error"]["message"]
    assert works(server)


def test_other_methods(server: Server) -> None:
    """405 names those that the path has; HEAD answers without a body."""
    for method in ("OPTIONS", "PUT", "TRACE"):
        answer = sent(server, head(method, V1, "Content-Length: 0"))
        assert answer is not None
        assert (answer.status, answer.headers["allow"]) == (405, "DELETE, GET, HEAD, PATCH")
    unknown = sent(server, head("BREW", V1, "Content-Length: 0"))
    assert unknown is not None
    assert unknown.status in (400, 405)  # which one depends on what parses HTTP

    async def look() -> None:
        async with connected(server.port) as connection:
            for path in (V1, "/healthz", f"{V1}/log"):
                connection.writer.write(head("HEAD", path))
                found = await connection.reader.readuntil(b"\r\n\r\n")
                assert found.startswith(b"HTTP/1.1 200")
            assert (await connection.call("GET", V1)).status == 200  # no body was in between

    asyncio.run(look())
    assert works(server)


def test_idle_connections_do_not_keep_others_out(server: Server) -> None:
    """Hundreds that send nothing, or half a head."""

    async def crowd() -> None:
        idle = [await Connection.open(server.port) for _ in range(300)]
        for connection in idle[::2]:
            connection.writer.write(b"POST /v1/bandits HTTP/1.1\r\nHost: x\r\nX-")
        async with connected(server.port) as other:
            assert (await other.call("GET", "/readyz")).status == 200
        for connection in idle:
            connection.close()

    asyncio.run(crowd())
    assert works(server)
