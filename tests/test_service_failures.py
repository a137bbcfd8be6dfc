"""The service degrades and does not die: a full disk, a locked or deleted journal, a clock that jumps, SIGTERM under load."""

from __future__ import annotations

import asyncio
import resource
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rolin.bandit import Bandit
from rolin.journal import check_journal
from support.server import KEY, V1, Answer, Server, connected, question, served, value_of
from support.service import client

pytestmark = pytest.mark.service  # a real process serves

DEFAULT = Path("bandits") / "default" / "journal.db"


def asked(server: Server, method: str, path: str, body: Any = None) -> Answer:
    """Return the answer to one request on a connection of its own."""

    async def ask() -> Answer:
        async with connected(server.port) as connection:
            return await connection.call(method, path, body)

    return asyncio.run(ask())


def decided(server: Server, id: str) -> Answer:
    """Return the answer to a question."""
    return asked(server, "POST", f"{V1}/decisions", question(id))


def until(condition: Callable[[], bool]) -> None:
    """Wait for something that the service does by itself within some seconds."""
    give_up = time.monotonic() + 60.0
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.1)


@pytest.mark.compiled
def test_a_full_disk(tmp_path: Path) -> None:
    """503 with the reason, reading goes on; with room again, it goes on, and all that was acknowledged is there."""
    known: dict[str, Any] = {}
    with served(tmp_path) as server:
        assert decided(server, "first").status == 201
        server.kill()
    with served(tmp_path, max_file=3 << 20) as server:
        for i in range(2000):
            made = decided(server, f"v{i}")
            if made.status != 201:
                break
            known[f"v{i}"] = made.json()
        assert made.status == 503, made
        assert "full" in made.json()["error"]["message"]
        assert made.headers["retry-after"] == "1"
        told = asked(server, "POST", f"{V1}/decisions/v0/reward", {"value": 1})
        assert told.status == 503
        unready = asked(server, "GET", "/readyz")
        assert unready.status == 503
        why = unready.json()["error"]["message"]
        assert why.startswith("not ready: bandit default: journal journal.db: ")
        assert "full" in why
        assert asked(server, "GET", "/healthz").status == 200
        assert asked(server, "GET", f"{V1}/decisions/v0").json() == known["v0"]
        arms = asked(
            server, "PUT", f"{V1}/arms", {"arms": ["x" * 500 + str(i) for i in range(9000)]}
        )
        assert (arms.status, arms.json()["error"]["code"]) == (503, "unavailable"), arms
        erased = asked(server, "POST", f"{V1}/erasures", {"ids": ["v0"]})
        assert erased.status == 503
        assert "full" in erased.json()["error"]["message"]
        # The log has a line for what is not in a journal, and no traceback.
        assert (
            "ERROR: rolin.service: PUT /v1/bandits/{name}/arms failed: [Errno 27]" in server.log()
        )
        assert "Traceback" not in server.log()
        unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, unlimited)  # somebody made room
        until(lambda: asked(server, "GET", "/readyz").status == 200)
        assert asked(server, "POST", f"{V1}/decisions/v0/reward", {"value": 1}).status == 204
        server.kill()
    with served(tmp_path) as server:
        assert asked(server, "GET", "/readyz").status == 200
        for id, answer in known.items():
            assert asked(server, "GET", f"{V1}/decisions/{id}").json() == answer
        assert decided(server, "later").status == 201
        assert server.stop()[0] == 0
    assert check_journal(tmp_path / DEFAULT).problems == ()


@pytest.mark.compiled
@pytest.mark.parametrize("fallback", ["error", "baseline"])
def test_a_locked_journal(tmp_path: Path, fallback: str) -> None:
    """503 or the baseline, in time; when the lock is gone, it is ready again by itself."""
    with served(tmp_path, "--fallback", fallback, "--request-timeout", "4") as server:
        assert decided(server, "before").status == 201
        other = sqlite3.connect(tmp_path / DEFAULT, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        start = time.monotonic()

        async def ask(k: int) -> Answer:
            await asyncio.sleep(0.1 * k)  # some come while others wait for the lock
            async with connected(server.port) as connection:
                return await connection.call("POST", f"{V1}/decisions", question(f"locked-{k}"))

        async def crowd() -> list[Answer]:
            return await asyncio.gather(*(ask(k) for k in range(8)))

        answers = asyncio.run(crowd())
        assert time.monotonic() - start < 4
        ready = asked(server, "GET", "/readyz")
        if fallback == "error":
            assert {answer.status for answer in answers} == {503}
            assert all("locked" in answer.json()["error"]["message"] for answer in answers)
            assert ready.status == 503
        else:
            assert {answer.status for answer in answers} == {201}
            assert all(not answer.json()["recorded"] for answer in answers)
            assert {answer.json()["arm"] for answer in answers} == {"arm-0"}
            assert ready.status == 200
        assert "locked" in ready.body.decode()
        assert asked(server, "GET", f"{V1}/decisions/before").status == 200
        assert asked(server, "GET", f"{V1}/decisions/locked-0").status == 404
        other.execute("ROLLBACK")
        other.close()
        until(lambda: asked(server, "GET", "/readyz").body == b'{"status":"ok"}')
        made = decided(server, "locked-0")
        assert (made.status, made.json()["recorded"]) == (201, True)


@pytest.mark.compiled
@pytest.mark.parametrize("suffix", ["", "-wal"])
def test_a_deleted_journal(tmp_path: Path, suffix: str) -> None:
    """Nothing is acknowledged that is not in the file; the service says so, and does not begin an empty journal."""
    path = tmp_path / DEFAULT
    with served(tmp_path) as server:
        assert decided(server, "before").status == 201
        copy = {file.name: file.read_bytes() for file in path.parent.glob("journal.db*")}
        Path(f"{path}{suffix}").unlink()
        for i in range(3):
            made = decided(server, f"after-{i}")
            assert made.status == 503
            assert "deleted or replaced" in made.json()["error"]["message"]
        assert "deleted or replaced" in asked(server, "GET", "/readyz").json()["error"]["message"]
        code, _ = server.stop()
        assert code == 0
    path.unlink(missing_ok=True)
    with served(tmp_path) as server:
        gone = decided(server, "later")
        assert (gone.status, gone.json()["error"]["code"]) == (503, "unavailable")
        assert "there is no journal.db" in gone.json()["error"]["message"]
        assert not path.exists()
        for name, content in copy.items():  # a backup
            if not name.endswith("-shm"):
                (path.parent / name).write_bytes(content)
        until(lambda: decided(server, "later").status == 201)
        assert asked(server, "GET", f"{V1}/decisions/before").status == 200


def test_a_clock_that_jumps(tmp_path: Path) -> None:
    """Back and forth by years: decisions and rewards are answered, and nothing acknowledged is lost."""
    jumps = [0.0, -3e8, 3e8, -1e9, 60.0, -60.0, 1e9]

    async def jump() -> None:
        async with client(tmp_path) as http:
            await http.patch(V1, json={"rewards": {"window": 10.0, "default": 0.0}})
            (engine,) = http.service.bandits.opened()  # type: ignore[attr-defined]
            bandit: Bandit[Any] = engine.bandit.bandit
            start, shift, made = time.time(), 0.0, {}
            bandit._clock = lambda: start + shift
            for n, shift in enumerate(jumps):  # noqa: B007  # the clock sees it
                for id in (f"{n}-a", f"{n}-b"):
                    found = await http.post(f"{V1}/decisions", json=question(id))
                    assert found.status_code == 201, found.text
                    made[id] = found.json()
                told = await http.post(
                    f"{V1}/decisions/{n}-a/reward", json={"value": value_of(f"{n}-a")}
                )
                assert told.status_code == 204, told.text
                await http.service.maintain(engine)  # type: ignore[attr-defined]
            shift = 2e9  # all windows have ended
            assert await engine.expire() >= 1
            assert await engine.expire() == 0
            for id, answer in made.items():
                assert (await http.get(f"{V1}/decisions/{id}")).json() == answer
                outcome = bandit.journal.outcomes(id)[0]
                assert outcome.value == (value_of(id) if id.endswith("a") else 0.0)
            assert bandit.policy.posterior.count == 2 * len(jumps)

    asyncio.run(jump())
    assert check_journal(tmp_path / DEFAULT).problems == ()


@pytest.mark.compiled
def test_sigterm_under_load(tmp_path: Path) -> None:
    """Every request that was accepted is answered, the journal holds all of them, and the exit code is 0."""
    statuses: Counter[int] = Counter()
    known: list[str] = []
    unanswered: list[str] = []

    async def visit(port: int, k: int) -> None:
        async with connected(port) as connection:
            for i in range(10**6):
                id = f"{k}-{i}"
                try:
                    made = await connection.call("POST", f"{V1}/decisions", question(id))
                except (OSError, EOFError):
                    unanswered.append(id)
                    return
                statuses[made.status] += 1
                if made.status == 201:
                    known.append(id)
                if made.headers.get("connection") == "close":
                    return

    async def stop(server: Server) -> None:
        async with connected(server.port) as connection:
            assert (await connection.call("GET", "/readyz")).status == 200
        visits = [asyncio.create_task(visit(server.port, k)) for k in range(16)]
        while len(known) < 100:
            await asyncio.sleep(0.01)
        server.process.send_signal(signal.SIGTERM)
        await asyncio.gather(*visits)

    with served(tmp_path) as server:
        asyncio.run(stop(server))
        code, log = server.ended()
        assert code == 0, log
        assert "Traceback" not in log
    print(dict(statuses), unanswered)
    assert set(statuses) == {201}
    with served(tmp_path) as server:
        for id in known:
            assert asked(server, "GET", f"{V1}/decisions/{id}").status == 200
        # A request that reached the socket after it was closed was not accepted, so it has no effect.
        assert all(asked(server, "GET", f"{V1}/decisions/{id}").status == 404 for id in unanswered)


def test_what_does_not_end_in_time_to_drain_is_told_so(tmp_path: Path) -> None:
    """A request whose body never arrives gets status 503 when the service stops, and no traceback is logged."""

    async def stop(server: Server) -> bytes:
        async with connected(server.port) as connection:
            assert (await connection.call("GET", "/readyz")).status == 200
            head = f"POST {V1}/decisions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\n"
            connection.writer.write(f"{head}Content-Length: 100\r\n\r\n{{".encode())
            await asyncio.sleep(0.3)
            server.process.send_signal(signal.SIGTERM)
            return await connection.reader.read()

    with served(tmp_path, "--drain-timeout", "1") as server:
        answer = asyncio.run(stop(server))
        code, log = server.ended()
    assert answer.startswith(b"HTTP/1.1 503"), answer
    assert b"the service stops; repeat the request with the same id" in answer
    assert code == 0, log
    assert "Traceback" not in log
