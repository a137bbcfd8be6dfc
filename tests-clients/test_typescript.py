"""The TypeScript client: its types are those of the service, it compiles, and it works against a real service."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from rolin.client import Client
from support.server import served
from support.service import KEY

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "clients/typescript"
TSC = FOLDER / "node_modules/.bin/tsc"
PAGE = (ROOT / "docs/how-to/clients.md").read_text(encoding="utf-8")


def run(*command: str | Path, **environment: str) -> str:
    """Run a command; return what it printed, which is shown if it fails."""
    done = subprocess.run(
        command,
        cwd=FOLDER,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    """Compile the client and its tests; `make test-clients` has installed the compiler."""
    run(TSC, "--project", ".")


def test_types_are_those_of_the_service() -> None:
    """The committed file is what the current OpenAPI document gives."""
    run(sys.executable, "generate.py", "--check")


def test_retries_and_fallbacks() -> None:
    """Without a service."""
    assert "# fail 0" in run("node", "--test", "dist/test/retries.test.js")


def test_against_a_service(tmp_path: Path) -> None:
    """The tests of the client, which pause it in between, and the code of the page."""
    (code,) = re.findall(r"^```ts\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    page = FOLDER / "dist/page.ts"  # in the package, so that it can import it by name
    page.write_text(code)
    run(TSC, "--strict", "--module", "nodenext", "--target", "es2022", "--types", "node", page)
    with served(tmp_path) as server:
        address = f"http://127.0.0.1:{server.port}"
        environment = {"ROLIN_URL": address, "ROLIN_API_KEY": KEY}
        pid = str(server.process.pid)
        told = run("node", "--test", "dist/test/service.test.js", ROLIN_PID=pid, **environment)
        assert "# fail 0" in told
        with Client(address, key=KEY) as client:
            client.create_bandit("offers")
        assert run("node", "dist/page.js", **environment).split() == ["true", "400"]
