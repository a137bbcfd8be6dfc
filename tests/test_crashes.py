"""A process that is killed loses nothing that it has acknowledged.

A real process plays with a journal in a file, and prints what it has been told is done. It is killed
with SIGKILL: at random instants, and at each named step of writing. Then another process starts on
the file. (What a killed process has written is with the operating system; that it is also on the
disk is SQLite's `synchronous=FULL`, which `test_journal` looks at.)
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rolin
from rolin import Bandit
from rolin.journal import load_policy
from rolin.journal.events import EarlyReward, HeldReward, IgnoredReward, LoggedDecision, Outcome
from rolin.journal.folding import state_bytes

PLAYER = """
import itertools, json, os, signal, sys
import numpy as np
import rolin
from rolin import bandit as bandit_package, journal

path, step, times = sys.argv[1], sys.argv[2], int(sys.argv[3])
left = itertools.count(times, -1)

def reached(name):
    if name == step and next(left) == 0:
        os.kill(os.getpid(), signal.SIGKILL)

for module in (journal.base, bandit_package.writer, bandit_package.upkeep, journal.sqlite):
    module.reached = reached

def say(*what):
    print(json.dumps(what), flush=True)

bandit = rolin.Bandit(
    rolin.RoLinTS(n_features=2, noise_std="learn", arm_std="learn", seed=3), journal=path, snapshot_every=25,
    background=sys.argv[4] == "True",
)
say("ready")
start = bandit.version
for t in range(start, start + 1000):
    rng = np.random.default_rng(t)
    active = t % 4 < 3
    contexts, value = rng.normal(size=(3, 2)), float(rng.normal())
    if t % 6 == 1:
        say("early", f"never-{t}", value, bandit.record_reward(f"never-{t}", value))
    if t % 2:
        say("early", f"visit-{t}", value, bandit.record_reward(f"visit-{t}", value))
    decision = bandit.decide(
        contexts, id=f"visit-{t}", person=f"p{t % 3}", top_k=2, active=active
    )
    say("decision", decision.id, decision.arm, decision.propensity)
    if t % 2:
        bandit.reward(decision.id, value)
        bandit.activate(decision.id)
        say("reward", decision.id, value)
        say("ignored", decision.id, value + 1.0, bandit.record_reward(decision.id, value + 1.0))
    elif t % 4:
        bandit.reward(decision.id, value, reward_id="part")
        say("part", decision.id, value)
    if t % 30 == 17:
        bandit.change_settings(mode=["apprentice", "stopped", "online"][t // 30 % 3])
    if t % 7 == 3:
        bandit.decay(0.9)
    if t % 20 == 19:
        bandit.expire(0.0, default_reward=0.0)
    if t % 50 == 49:
        say("erasing")
        bandit.erase(person="p1")
        say("erased")
"""


def run(
    path: Path,
    step: str,
    times: int,
    *,
    background: bool,
    lines: int | None = None,
    pause: float = 0.0,
) -> list[list[Any]]:
    """Let a player play until it is killed; return what it was told is done.

    It is killed at a step, or a pause (in seconds) after it has said a number of lines.
    """
    with subprocess.Popen(
        [sys.executable, "-c", PLAYER, str(path), step, str(times), str(background)],
        stdout=subprocess.PIPE,
        text=True,
    ) as player:
        assert player.stdout is not None
        said = [json.loads(player.stdout.readline())]
        if lines is not None:
            said += [json.loads(player.stdout.readline()) for _ in range(lines)]
            time.sleep(pause)
            player.send_signal(signal.SIGKILL)
        said += [json.loads(line) for line in player.stdout if line.endswith("\n")]
        player.wait()
    assert player.returncode == -signal.SIGKILL
    return said


def check(path: Path, said: list[list[Any]]) -> int:
    """See that all of it is there, and that the journal leads to one state; return its version."""
    erased = any(line[0] == "erasing" for line in said)
    with Bandit(journal=path) as bandit:
        journal = bandit.journal
        early = {event.id: event for _, event in journal.read() if isinstance(event, EarlyReward)}
        for kind, *what in said:
            if kind == "decision":
                id, arm, propensity = what
                stored = journal.decision(id)
                if stored is None:
                    assert erased
                    assert int(id.split("-")[1]) % 3 == 1
                    continue
                assert (stored.arm, stored.propensity) == (arm, propensity)
            elif kind == "reward" and (journal.decision(what[0]) or not erased):
                outcome = journal.outcomes(what[0])[0]
                assert not outcome.expired
                assert outcome.value == what[1]
            elif kind == "part" and (journal.decision(what[0]) or not erased):
                (part,) = (e for e in journal.following(what[0]) if isinstance(e, HeldReward))
                assert (part.value, part.reward_id) == (what[1], "part")
            elif kind == "early":
                id, value, status = what
                assert status == "early"
                if id in early:
                    assert early[id].value == value
                else:  # erased together with its decision
                    assert erased
                    assert journal.decision(id) is None
            elif kind == "ignored" and (journal.decision(what[0]) or not erased):
                (wrong,) = (e for e in journal.following(what[0]) if isinstance(e, IgnoredReward))
                assert (wrong.value, wrong.reason) == (what[1], what[2])
        header = journal.header()
        assert header is not None
        assert header.last == bandit.version
        if not header.first:
            assert state_bytes(load_policy(journal, from_start=True)[0]) == state_bytes(
                bandit.policy
            )
            numbers = [seq for seq, _ in journal.read()]
            assert numbers == list(range(1, header.last + 1))
        events = [event for _, event in journal.read()]
        decisions = {event.id: event for event in events if isinstance(event, LoggedDecision)}
        outcomes = [event for event in events if isinstance(event, Outcome)]
        assert {event.id for event in outcomes} <= set(decisions)
        assert len({(event.id, event.rank) for event in outcomes}) == len(outcomes)
        all_waiting = journal.waiting(4e9, 10**6)
        waiting = {(arm.id, arm.rank) for arm in all_waiting if arm.rank >= 0}
        chosen = {(id, i) for id, event in decisions.items() for i in range(len(event.chosen))}
        assert waiting == chosen - {(event.id, event.rank) for event in outcomes}
        closed = {e.id for e in events if isinstance(e, IgnoredReward) and e.reason == "unknown"}
        left = {id for id in early if id not in decisions and id not in closed}
        assert {arm.id for arm in all_waiting if arm.rank < 0} == left
        for id, event in early.items():  # learned with the decision, or not at all
            if id in decisions and decisions[id].active:
                assert journal.outcomes(id)[0].value == event.value
        again = bandit.decide(np.eye(2), id=f"after-{bandit.version}")  # it goes on
        bandit.reward(again.id, 1.0)
        return bandit.version


@pytest.mark.compiled  # other processes use compiled kernels, whose results differ in the last bit
@pytest.mark.parametrize(
    "step",
    ["inserted", "committed", "removed"]
    + [
        pytest.param(step, marks=pytest.mark.slow)
        for step in ("planned", "folded", "scales due", "state inserted")
    ],
)
def test_killed_at_each_step(step: str, tmp_path: Path) -> None:
    """Again and again on one journal: at the first and at a later time the step is reached."""
    path, versions = tmp_path / "j.db", [0]
    for times in (0, 3):
        said = run(path, step, times, background=times > 0)
        versions.append(check(path, said))
    assert versions == sorted(versions)
    assert any(line[0] == "decision" for line in said)
    integrity = rolin.journal.SQLiteJournal(path)
    assert integrity.integrity_problems() == []
    integrity.close()


@pytest.mark.parametrize("kills", [3, pytest.param(10, marks=pytest.mark.slow)])
def test_killed_at_random_instants(tmp_path: Path, rng: np.random.Generator, kills: int) -> None:
    """Kills within the first hundred calls and at any instant of one, all on one journal."""
    acknowledged: list[list[Any]] = []
    for _ in range(kills):
        lines, pause = int(rng.integers(0, 100)), float(rng.uniform(0.0, 0.01))
        acknowledged += run(
            tmp_path / "j.db", "never", 0, background=lines % 2 == 0, lines=lines, pause=pause
        )
        check(tmp_path / "j.db", acknowledged)
