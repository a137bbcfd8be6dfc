"""The drill: a busy service is backed up and killed, its folder is deleted, and the backup takes over."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rolin.journal import SQLiteJournal, check_journal, load_policy
from rolin.journal.events import LoggedDecision, Outcome
from rolin.journal.folding import state_bytes
from support.server import STARTS, V1, connected, question, served, value_of

# The process uses compiled kernels, whose results differ in the last bit.
pytestmark = [pytest.mark.compiled, pytest.mark.service]

ROLIN = [sys.executable, "-c", "from rolin.cli import main; main()"]
CONNECTIONS = 4
BEFORE, AFTER = 150, 100  # decisions before and after the backup


class Visitors:
    """Visitors of a service, and what they were told is done."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.decisions: dict[str, dict[str, Any]] = {}
        self.rewards: set[str] = set()

    async def visit(self, name: str) -> None:
        """Ask and report until the connection is lost."""
        try:
            async with connected(self.port) as connection:
                for i in range(10**6):
                    id = f"{name}-{i}"
                    made = await connection.call("POST", f"{V1}/decisions", question(id))
                    assert made.status == 201, made
                    self.decisions[id] = made.json()
                    if i % 3:
                        reward = {"value": value_of(id)}
                        path = f"{V1}/decisions/{id}/reward"
                        assert (await connection.call("POST", path, reward)).status == 204
                        self.rewards.add(id)
        except (OSError, EOFError):
            pass

    async def until(self, n: int) -> None:
        """Wait until n decisions were answered."""
        async with asyncio.timeout(STARTS):
            while len(self.decisions) < n:
                await asyncio.sleep(0.01)


async def rolin(*arguments: object) -> str:
    """Run the command line in a process of its own, and return what it printed."""
    command = [*ROLIN, *map(str, arguments)]
    done = await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, env=os.environ, timeout=STARTS
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_drill(tmp_path: Path) -> None:
    """What was acknowledged before the backup began is there, and the state is the one that the journal leads to."""
    data, kept = tmp_path / "data", tmp_path / "kept"

    async def until_the_fire() -> tuple[dict[str, Any], set[str]]:
        with served(data) as server:
            visitors = Visitors(server.port)
            async with asyncio.TaskGroup() as group:
                for k in range(CONNECTIONS):
                    group.create_task(visitors.visit(f"visit-{k}"))
                await visitors.until(BEFORE)
                known = dict(visitors.decisions), set(visitors.rewards)
                printed = await rolin("backup", kept, "--data", data)
                assert "default  " in printed
                await visitors.until(len(visitors.decisions) + AFTER)
                server.kill()
            assert len(visitors.decisions) > len(known[0]) + AFTER
        shutil.rmtree(data)
        return known

    decisions, rewards = asyncio.run(until_the_fire())
    n = json.loads((kept / "manifest.json").read_text())["bandits"]["default"]["events"]
    assert n >= len(decisions) + len(rewards)

    async def afterwards() -> None:
        await rolin("restore", kept, "--data", data)
        with SQLiteJournal(data / "bandits/default/journal.db", readonly=True) as journal:
            events = [event for _, event in journal.read()]
        assert len(events) == n
        assert decisions.keys() <= {e.id for e in events if isinstance(e, LoggedDecision)}
        assert rewards <= {e.id for e in events if isinstance(e, Outcome)}
        with served(data) as server:
            async with connected(server.port) as connection:
                for id, answer in decisions.items():
                    found = await connection.call("GET", f"{V1}/decisions/{id}")
                    assert (found.status, found.json()) == (200, answer)
                    again = await connection.call("POST", f"{V1}/decisions", question(id))
                    assert (again.status, again.json()) == (201, answer)
                made = await connection.call("POST", f"{V1}/decisions", question("after"))
                assert made.status == 201
                stored = await connection.call("POST", f"{V1}/snapshots")
            assert server.stop()[0] == 0
        with SQLiteJournal(data / "bandits/default/journal.db", readonly=True) as journal:
            version = stored.json()["version"]
            snapshot = journal.latest_snapshot(upto=version)
            assert snapshot is not None
            assert snapshot.version == version
            policy, _ = load_policy(journal, from_start=True, upto=version)
            assert state_bytes(policy) == snapshot.state
        assert check_journal(data / "bandits/default/journal.db").is_whole

    asyncio.run(afterwards())
