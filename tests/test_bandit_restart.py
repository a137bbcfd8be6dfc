"""Bandits that are opened again: replay to the same state, settings of the journal, imports."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rolin
from rolin import Bandit
from rolin._support.arms import PastArm
from rolin.errors import JournalError, ParameterError, RewardConflict
from rolin.journal import Journal, MemoryJournal, load_policy
from rolin.journal.events import ScalesLearned
from rolin.journal.folding import adaptive_of, digest_of, state_bytes
from support.bandits import POLICIES, QUESTION, Clock, play


@pytest.mark.parametrize("name", POLICIES)
def test_replay_gives_the_same_state(name: str, journal: Journal) -> None:
    """From the start, and from every state that was kept: to the bit, for every policy."""
    bandit = Bandit(POLICIES[name](), journal=journal, snapshot_every=None)
    play(bandit, 40)
    kept = bandit.snapshot()
    play(bandit, 40, start=40)
    live = state_bytes(bandit.policy)
    for from_start in (False, True):
        policy, version = load_policy(journal, from_start=from_start)
        assert version == bandit.version > kept
        assert state_bytes(policy) == live
    again = Bandit(POLICIES[name](), journal=journal)
    assert state_bytes(again.policy) == live
    question = np.eye(2)
    for one in (bandit, again):
        decision = one.decide(question, id="after")  # the second is a stored one
        assert decision.arm == again.policy.decide(question, key="after").arm
    if bandit.policy.learns_scales and adaptive_of(bandit.policy):
        assert sum(isinstance(event, ScalesLearned) for _, event in journal.read()) >= 2


@pytest.mark.parametrize("name", ["learned scales", "learned logistic", "half-life", "SafeFALCON"])
def test_any_earlier_state_can_be_had(name: str) -> None:
    """The state after every event is what the bandit was then."""
    bandit = Bandit(POLICIES[name](), journal=MemoryJournal())
    states = {0: state_bytes(bandit.policy)}
    for t in range(25):
        play(bandit, 1, start=t)
        states[bandit.version] = state_bytes(bandit.policy)
    for version, state in states.items():
        assert state_bytes(load_policy(bandit.journal, upto=version)[0]) == state


def test_a_bandit_learns_as_its_policy_would() -> None:
    """Scales are learned at the same rewards, with the same values, as without a journal."""
    bandit, alone = (POLICIES["learned scales"]() for _ in range(2))
    live = Bandit(bandit)
    rng = np.random.default_rng(3)
    for _ in range(60):
        decision = live.decide(rng.normal(size=(4, 2)))
        reward = float(decision.context[0] + rng.normal())
        live.reward(decision.id, reward)
        alone.update(decision.arm, decision.context, reward)
    assert state_bytes(live.policy) == state_bytes(alone)


def test_scales_are_taken_from_the_journal() -> None:
    """Replay does not estimate them: values that nobody would estimate come back."""
    bandit = Bandit(POLICIES["learned scales"]())
    for i in range(10):
        bandit.reward(bandit.decide(QUESTION).id, float(i % 3))
    journal: Any = bandit.journal
    seq, event = next((s, e) for s, e in journal._events.items() if isinstance(e, ScalesLearned))
    journal._events[seq] = event._replace(scales=rolin.Scales(noise_std=0.123))
    policy, _ = load_policy(journal)
    assert isinstance(policy, rolin.RoLinTS)
    assert policy.scales.noise_std == 0.123
    bandit.learn_scales()
    assert load_policy(journal)[0].scales == bandit.policy.scales  # type: ignore[attr-defined]
    with pytest.raises(ParameterError, match="given as numbers"):
        Bandit(
            rolin.RoLinTS(
                n_features=2, coef_std=1.0, arm_std=0.5, noise_std=1.0, intercept_std=None
            )
        ).learn_scales()


# -- journals of others ----------------------------------------------------------------------


def test_a_journal_of_another_policy_is_refused(tmp_path: Path) -> None:
    """By kind, by setting, and by what was learned; nothing is changed."""
    path = tmp_path / "j.db"
    with Bandit(rolin.RoLinTS(n_features=2, arm_std=0.5, seed=1), journal=path) as bandit:
        play(bandit, 10)
        version, state = bandit.version, state_bytes(bandit.policy)
    wrong = {
        "belongs to a RoLinTS, but a RoLinUCB was given": rolin.RoLinUCB(n_features=2),
        r"arm_std=0.5, but one with arm_std=0.25 was given": rolin.RoLinTS(
            n_features=2, arm_std=0.25
        ),
        "n_features=2, but one with n_features=3 was given": rolin.RoLinTS(n_features=3),
    }
    learned = rolin.RoLinTS(n_features=2, arm_std=0.5, seed=1)
    learned.update("red", [0.0, 1.0], 1.0)
    wrong["has learned something that is not in the journal"] = learned
    for message, policy in wrong.items():
        with pytest.raises(JournalError, match=message):
            Bandit(policy, journal=path)
    with Bandit(rolin.RoLinTS(n_features=2, arm_std=0.5, seed=2), journal=path) as bandit:
        assert (bandit.version, state_bytes(bandit.policy)) == (version, state)
        assert bandit.policy.seed == 1
    with pytest.raises(JournalError, match=r"there is no journal .*new\.db"):
        Bandit(journal=tmp_path / "new.db")
    assert not (tmp_path / "new.db").exists()
    with pytest.raises(JournalError, match="expected a policy to begin it with"):
        Bandit(journal=MemoryJournal())
    with pytest.raises(ParameterError, match="expected a policy of rolin"):
        Bandit("RoLinTS")  # type: ignore[arg-type]


def test_settings_are_those_of_the_journal(tmp_path: Path) -> None:
    """A bandit that is opened again goes on with its floor and its control group, erased or not."""
    path = tmp_path / "j.db"
    with Bandit(
        rolin.Greedy(n_features=0, seed=1), journal=path, floor=0.1, control_share=0.3
    ) as bandit:
        assert "floor=0.1, control_share=0.3, propensities=True" in repr(bandit)
        for _ in range(5):
            bandit.decide({"a": [], "b": []})
    with Bandit(journal=path) as bandit:
        version = bandit.version
        decisions = bandit.decide_many([{"a": [], "b": []}] * 200)
        assert 30 < sum(d.control for d in decisions) < 95
        assert min(d.propensity or 0.0 for d in decisions) >= 0.1
        bandit.erase(older_than=0.0)
        # Another process, another floor: the last one counts.
        other = Bandit(journal=path, floor=0.25)
        assert other.version == version + 200 + 2
        assert "floor=0.25, control_share=0.3" in repr(other)
        bandit.refresh()
        assert bandit.decide({"a": [], "b": []}, person="not in control 3").propensities is not None
        assert "floor=0.25" in repr(bandit)
        other.close()
    assert Bandit(journal=path).version == version + 203


def test_a_policy_with_a_past_begins_a_journal(tmp_path: Path) -> None:
    """What it knew is part of the journal; the script that began it can run again."""
    warm = rolin.RoLinTS(n_features=2, seed=1)
    warm.update("red", [0.0, 1.0], 1.0)
    warm.remove_arm("red")
    for _ in range(2):
        with Bandit(copy.deepcopy(warm), journal=tmp_path / "j.db") as bandit:
            play(bandit, 5, start=10 * bandit.version)
            assert bandit.policy.removed_arms == ["red"]
            state = state_bytes(bandit.policy)
    with Bandit(journal=tmp_path / "j.db") as bandit:
        assert state_bytes(bandit.policy) == state
        bandit.erase(person="person-0")
    with Bandit(copy.deepcopy(warm), journal=tmp_path / "j.db") as bandit:
        assert state_bytes(bandit.policy) == state


def test_a_journal_with_past_lives_can_be_imported(tmp_path: Path) -> None:
    """There they are the arm itself, and the new journal can be opened again, whatever follows."""
    source = Bandit(rolin.RoLinTS(n_features=0, seed=1))
    source.decide({"a": []}, id="late")
    source.reward(source.decide({"a": []}).id, 1.0)
    source.remove_arm("a")
    source.restore_arm("a", with_past=False)
    source.reward("late", 2.0)
    bandit = Bandit(rolin.RoLinTS(n_features=0, seed=1), journal=tmp_path / "j.db")
    bandit.import_log(source.journal)  # type: ignore[arg-type]
    assert bandit.policy._model.names == ["a"]
    bandit.remove_arm("a")
    bandit.restore_arm("a", with_past=False)
    bandit.snapshot()
    bandit.close()
    assert Bandit(journal=tmp_path / "j.db").policy._model.names == [PastArm("a", 1)]


def test_a_process_that_often_starts_again_keeps_its_state(tmp_path: Path) -> None:
    """Also if it never writes many events in one life."""
    for i in range(12):
        with Bandit(
            rolin.RoLinTS(n_features=2, seed=1), journal=tmp_path / "j.db", snapshot_every=20
        ) as bandit:
            play(bandit, 5, start=5 * i)
            kept = bandit.journal.latest_snapshot()
            assert kept is not None
            assert bandit.version - kept[0] < 30


def test_imported_decisions_belong_to_a_life(journal: Journal) -> None:
    """An open decision that was imported before an arm came back anew is the old arm's."""
    bandit = Bandit(rolin.RoLinTS(n_features=0, seed=1), journal=journal)
    source = Bandit(rolin.RoLinTS(n_features=0, seed=1))
    source.decide({"a": []}, id="imported")
    bandit.import_log(source.journal)  # type: ignore[arg-type]
    bandit.reward(bandit.decide({"a": []}).id, 1.0)
    bandit.remove_arm("a")
    bandit.restore_arm("a", with_past=False)
    bandit.reward("imported", 1.0)
    assert bandit.journal.outcomes("imported")[0].arm == PastArm("a", 1)


def test_states_are_kept_by_themselves(tmp_path: Path) -> None:
    """So that starting again folds only what came after the last one."""
    with Bandit(
        rolin.RoLinTS(n_features=2, seed=1), journal=tmp_path / "j.db", snapshot_every=20
    ) as bandit:
        play(bandit, 60)
        kept = bandit.journal.latest_snapshot()
        assert kept is not None
        assert bandit.version - 25 < kept[0] <= bandit.version


# -- other orders, processes and machines ----------------------------------------------------


@given(st.lists(st.sampled_from(["decide", "reward", "repeat", "expire", "decay"]), max_size=30))
def test_any_order_of_calls_replays(steps: list[str]) -> None:
    """Whatever happens in whatever order, the journal gives the state."""
    clock = Clock()
    bandit = Bandit(POLICIES["half-life"](), clock=clock)
    ids: list[str] = []
    for i, step in enumerate(steps):
        clock.now += 1.0
        if step == "decide":
            ids.append(bandit.decide(QUESTION).id)
        elif step in ("reward", "repeat") and ids:
            try:
                bandit.reward(ids[0 if step == "repeat" else -1], 1.0)
            except RewardConflict:
                assert "expire" in steps[:i]
        elif step == "expire":
            bandit.expire(2.0, default_reward=0.0)
        elif step == "decay":
            bandit.decay(0.5)
    assert state_bytes(load_policy(bandit.journal)[0]) == state_bytes(bandit.policy)


@pytest.mark.compiled  # the other process uses compiled kernels, whose results differ in the last bit
def test_a_journal_read_by_another_process(tmp_path: Path) -> None:
    """A fresh process comes to the same state."""
    with Bandit(POLICIES["learned scales"](), journal=tmp_path / "j.db") as bandit:
        play(bandit, 30)
        code = (
            "import sys, rolin; from rolin.journal.folding import state_bytes, digest_of; "
            "print(digest_of(state_bytes(rolin.Bandit(journal=sys.argv[1]).policy)))"
        )
        run = subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / "j.db")],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert run.stdout.strip() == digest_of(state_bytes(bandit.policy))


@pytest.mark.parametrize(
    "name", ["learned scales", pytest.param("learned logistic", marks=pytest.mark.slow)]
)
def test_another_machine_comes_within_1e_9(name: str, tmp_path: Path) -> None:
    """Kernels compiled for another processor, and another BLAS, lead to the same state but for rounding."""
    code = (
        "import sys, numpy as np, rolin; "
        "policy = rolin.Bandit(journal=sys.argv[1]).policy; "
        "print(*np.concatenate(policy.predict(np.eye(2), ['red', 'blue'])).tolist())"
    )
    with Bandit(POLICIES[name](), journal=tmp_path / "j.db") as bandit:
        play(bandit, 60)
        if "red" in bandit.policy.removed_arms:
            bandit.restore_arm("red")
        here = np.concatenate(bandit.policy.predict(np.eye(2), ["red", "blue"]))  # type: ignore[attr-defined]
        run = subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / "j.db")],
            env={**os.environ, "NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "",
                 "NUMBA_CACHE_DIR": str(tmp_path / "cache"), "OPENBLAS_CORETYPE": "Prescott"},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
    np.testing.assert_allclose([float(x) for x in run.stdout.split()], here, rtol=1e-9)
