"""The example of three processes behind nginx, as `deploy/compose.yaml` describes it, without containers.

`pytest -m service tests/test_service_compose.py -rP` prints the numbers.
"""

from __future__ import annotations

import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
import yaml
from psycopg.conninfo import conninfo_to_dict

from rolin.journal import PostgresJournal, check_journal
from rolin.journal.events import LoggedDecision, Outcome
from rolin.service.settings import SETTINGS, read_settings
from support import nginx, postgres
from support.nginx import DEPLOY, STRANGE, proxied, quoted
from support.server import STARTS, V1, Server, question, served, value_of
from support.service import HEADERS, KEY

VALUES = {"POSTGRES_PASSWORD": "5e1f0c", "ROLIN_API_KEY": KEY}
TLS = ("/run/secrets/tls_certificate", "/run/secrets/tls_key")
NAMES = ["rolin-1", "rolin-2", "rolin-3"]
needs_programs = pytest.mark.skipif(
    not (nginx.IS_AVAILABLE and postgres.IS_AVAILABLE), reason="needs nginx, openssl and PostgreSQL"
)


def compose() -> dict[str, Any]:
    """Return the file, with the variables replaced as `docker compose` does."""
    text = (DEPLOY / "compose.yaml").read_text()
    found: dict[str, Any] = yaml.safe_load(
        re.sub(r"\$\{(\w+):\?[^}]*\}", lambda match: VALUES[match[1]], text)
    )
    return found


def test_what_the_file_says() -> None:
    """Processes have the same valid settings and probe, secrets come from outside, and all containers restart."""
    file = compose()
    services = file["services"]
    assert sorted(services) == ["nginx", "postgres", *NAMES]
    assert {each["restart"] for each in services.values()} == {"unless-stopped"}
    assert all("healthcheck" in each for each in services.values())
    database = services["postgres"]["environment"]
    addresses = {}
    for name in NAMES:
        service = services[name]
        assert set(service["environment"]) <= {setting.variable for setting in SETTINGS}
        settings = read_settings({}, service["environment"])
        address = conninfo_to_dict(settings.database or "")
        assert (address["host"], address["port"]) == ("postgres", "5432")
        assert address["user"] == database["POSTGRES_USER"]
        assert address["password"] == database["POSTGRES_PASSWORD"] == VALUES["POSTGRES_PASSWORD"]
        assert address["dbname"] == database["POSTGRES_DB"]
        assert f":{settings.port}/readyz" in service["healthcheck"]["test"][-1]
        assert float(service["stop_grace_period"].rstrip("s")) > settings.drain_timeout
        addresses[name] = service["networks"]["inside"]["ipv4_address"]
    assert services["nginx"]["extra_hosts"] == [f"{k}:{v}" for k, v in addresses.items()]
    text = (DEPLOY / "compose.yaml").read_text()
    example = (DEPLOY / "compose.env.example").read_text()
    asked = set(re.findall(r"\$\{(\w+)", text))
    assert asked == set(re.findall(r"^(\w+)=$", example, re.MULTILINE)) == set(VALUES)
    mounts = [volume.split(":")[0] for volume in services["nginx"]["volumes"]]
    assert [(DEPLOY / mount).is_file() for mount in mounts] == [True]
    assert set(services["nginx"]["secrets"]) == set(file["secrets"])


@dataclass
class Load:
    """Visitors who repeat a request until it is acknowledged, and what was acknowledged."""

    http: httpx.Client
    decisions: dict[str, Any] = field(default_factory=dict)
    rewards: set[str] = field(default_factory=set)
    numbers: Counter[str] = field(default_factory=Counter)
    is_over: threading.Event = field(default_factory=threading.Event)

    def call(self, path: str, body: Any) -> httpx.Response:
        """Send a request until it is acknowledged; the proxy may say that a process is gone."""
        while True:
            answer = self.http.post(path, json=body)
            if answer.status_code in (201, 204):
                return answer
            assert answer.status_code in (502, 503, 504), answer.text
            self.numbers[f"repeated after {answer.status_code}"] += 1

    def visit(self, k: int) -> None:
        """Ask and report until it is over."""
        i = 0
        while not self.is_over.is_set():
            id = f"{STRANGE[i % len(STRANGE)]}-{k}-{i}"
            self.decisions[id] = self.call(f"{V1}/decisions", question(id)).json()
            self.call(f"{V1}/decisions/{quoted(id)}/reward", {"value": value_of(id)})
            self.rewards.add(id)
            i += 1

    def until(self, more: int) -> None:
        """Wait until so many rewards more are acknowledged."""
        wanted = len(self.rewards) + more
        for _ in range(9000):
            if len(self.rewards) >= wanted:
                return
            self.is_over.wait(0.01)
        raise AssertionError(f"{len(self.rewards)} rewards, expected {wanted}")


@pytest.fixture
def database() -> Iterator[str]:
    """The address in the file, on a server of our own: with its user, password and database."""
    with postgres.postgres_server() as server:
        host = conninfo_to_dict(server.dsn)["host"]
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute(f"CREATE USER rolin PASSWORD '{VALUES['POSTGRES_PASSWORD']}'")
            connection.execute("CREATE DATABASE rolin OWNER rolin ENCODING 'UTF8'")
        address = compose()["services"]["rolin-1"]["environment"]["ROLIN_DATABASE"]
        assert "@postgres:5432/rolin" in address
        yield address.replace("@postgres:5432/rolin", f"@/rolin?host={host}")


def asked(folder: Path) -> list[list[str]]:
    """Return the processes that the proxy asked, for each request."""
    lines = (folder / "access.log").read_text().splitlines()
    tried = [line.split("|")[1].split(", ") for line in lines]
    return [each for each in tried if each != ["-"]]  # the proxy answered itself


def passed_on(folder: Path) -> list[list[str]]:
    """Return the processes that the proxy asked, for each request that the first of them could not take."""
    return [tried for tried in asked(folder) if len(tried) > 1]


@contextmanager
def stand_in(status: int | None) -> Iterator[tuple[int, list[str]]]:
    """Give the port of a server that answers every POST with a status, or not at all, and the paths that it gets."""
    paths: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            paths.append(self.path)
            self.rfile.read(int(self.headers["Content-Length"]))
            if status is not None:
                self.send_response(status)
                self.end_headers()

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port, paths
        server.shutdown()


@needs_programs
@pytest.mark.service
@pytest.mark.parametrize(("failure", "told"), [(None, 502), (503, 503)])
def test_repeats_of_the_proxy(tmp_path: Path, failure: int | None, told: int) -> None:
    """A decision that was sent is not sent again; rewards and activations go to another process, as they came."""
    safe = ["decisions/a%2Fb/reward", "decisions/50%25/activate", "rewards", "activations"]
    with stand_in(failure) as bad, stand_in(failure) as worse, stand_in(204) as good:
        changes = [
            (f"{name}:8000 max_fails=3", f"127.0.0.1:{port} max_fails=0")
            for name, (port, _) in zip(NAMES, (bad, worse, good), strict=True)
        ]
        with proxied(tmp_path / "nginx", "nginx-three.conf", changes, *TLS) as http:
            statuses = Counter(
                http.post(f"{V1}/decisions", json={"arms": ["x", "y"]}).status_code
                for _ in range(6)
            )
            assert statuses == {told: 4, 204: 2}
            assert [len(paths) for _, paths in (bad, worse, good)] == [2, 2, 2]
            for path in safe * 3:
                assert http.post(f"{V1}/{path}", json={}).status_code == 204
    sent = [path for path in good[1] if path != f"{V1}/decisions"]
    assert sent == [f"{V1}/{path}" for path in safe * 3]
    assert len(bad[1]) + len(worse[1]) > 4


@needs_programs
@pytest.mark.service
@pytest.mark.parametrize(
    ("failure", "path", "asked_of_bad"),
    [(None, "decisions", 3), (None, "rewards", 3), (503, "rewards", 3), (503, "decisions", 10)],
)
def test_failing_process_is_left_out(
    tmp_path: Path, failure: int | None, path: str, asked_of_bad: int
) -> None:
    """A process is left out after three failures; status 503 of a decision is none to nginx."""
    with stand_in(failure) as bad, stand_in(204) as good, stand_in(204) as better:
        changes = [
            (f"{name}:8000", f"127.0.0.1:{port}")
            for name, (port, _) in zip(NAMES, (bad, good, better), strict=True)
        ]
        with proxied(tmp_path / "nginx", "nginx-three.conf", changes, *TLS) as http:
            for _ in range(30):
                http.post(f"{V1}/{path}", json={})
    assert len(bad[1]) == asked_of_bad


@needs_programs
@pytest.mark.service
def test_kill_one_of_three(tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All three answer through the proxy; one is killed under load, and no acknowledged event is lost."""
    services = compose()["services"]
    folder = tmp_path / "nginx"
    with ExitStack() as running:

        def start(name: str) -> Server:
            for variable, value in services[name]["environment"].items():
                monkeypatch.setenv(variable, value)
            monkeypatch.setenv("ROLIN_DATABASE", database)
            return running.enter_context(served(tmp_path / name))

        servers = {name: start(name) for name in NAMES}
        ports = {name: f"127.0.0.1:{server.port}" for name, server in servers.items()}
        for port in ports.values():
            assert httpx.get(f"http://{port}/readyz", timeout=STARTS).status_code == 200
        changes = [(f"{name}:8000", port) for name, port in ports.items()]
        http = running.enter_context(proxied(folder, "nginx-three.conf", changes, *TLS))
        assert http.get("/readyz").status_code == 200
        assert http.get("/metrics").status_code == 404
        load = Load(http)
        visitors = [threading.Thread(target=load.visit, args=(k,)) for k in range(8)]
        for visitor in visitors:
            visitor.start()
        try:
            load.until(100)
            before = Counter(address for tried in asked(folder) for address in tried)
            servers["rolin-2"].kill()
            load.until(200)
            # If three decisions were lost with the process, nginx asks it again only after 5 s.
            give_up = time.monotonic() + 60.0
            while not passed_on(folder) and time.monotonic() < give_up:
                load.until(10)
        finally:
            load.is_over.set()
            for visitor in visitors:
                visitor.join()
        assert set(before) == set(ports.values())
        moved = passed_on(folder)
        assert moved
        assert {tried[0] for tried in moved} == {ports["rolin-2"]}
        servers["rolin-2"] = start("rolin-2")
        for server in servers.values():
            url = f"http://127.0.0.1:{server.port}{V1}"
            with httpx.Client(headers=HEADERS, timeout=60) as direct:
                for id, answer in load.decisions.items():
                    assert direct.get(f"{url}/decisions/{quoted(id)}").json() == answer
        with PostgresJournal(database) as journal:
            events = [event for _, event in journal.read()]
            assert check_journal(journal).problems == ()
        codes = [server.stop()[0] for server in servers.values()]
    assert codes == [0, 0, 0]
    made = Counter(event.id for event in events if isinstance(event, LoggedDecision))
    rewarded = Counter(event.id for event in events if isinstance(event, Outcome))
    print({"decisions": len(load.decisions), "rewards": len(load.rewards), **load.numbers})
    print({"before": dict(before), "passed on to another process": len(moved)})
    assert set(made.values()) | set(rewarded.values()) == {1}
    assert load.decisions.keys() - made.keys() == set()
    assert load.rewards - rewarded.keys() == set()
