"""The TypeScript client: its types are those of the service, it compiles, and it works against a real service."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.server import served
from support.service import KEY

FOLDER = Path(__file__).parent.parent / "clients/typescript"


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    """Compile the client and its tests; `make test-clients` has installed the compiler."""
    run = subprocess.run(
        [FOLDER / "node_modules/.bin/tsc", "--project", FOLDER],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout


def node_test(name: str, **environment: str) -> None:
    """Run one file of tests with Node; show what it printed if it fails."""
    run = subprocess.run(
        ["node", "--test", FOLDER / "dist/test" / name],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stdout
    assert "# fail 0" in run.stdout


def test_types_are_those_of_the_service() -> None:
    """The committed file is what the current OpenAPI document gives."""
    run = subprocess.run(
        [sys.executable, FOLDER / "generate.py", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr


def test_retries_and_fallbacks() -> None:
    """Without a service."""
    node_test("retries.test.js")


def test_against_a_service(tmp_path: Path) -> None:
    """Which is paused in between."""
    with served(tmp_path) as server:
        address = f"http://127.0.0.1:{server.port}"
        node_test("service.test.js", ROLIN_URL=address, ROLIN_API_KEY=KEY, ROLIN_PID=str(server.process.pid))  # fmt: skip
