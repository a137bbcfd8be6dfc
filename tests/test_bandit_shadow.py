"""A shadow: a second policy that learns from the same rewards and never decides."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rolin
from rolin import Bandit, offline
from rolin.errors import ParameterError, Unsupported
from rolin.journal import Journal, MemoryJournal, SQLiteJournal, check_journal
from rolin.journal.events import LoggedDecision, ScalesLearned
from rolin.journal.folding import fold_shadow, load_with_snapshot, state_bytes
from rolin.policies.base import Policy
from support.bandits import POLICIES, QUESTION, known_scales, play
from support.policies import fixed


def shadow_of(seed: int = 3, **options: Any) -> rolin.RoLinUCB:
    """A shadow with other settings than the policy."""
    policy: rolin.RoLinUCB = fixed(rolin.RoLinUCB, n_features=2, seed=seed, **options)
    return policy


def states(bandit: Bandit) -> tuple[bytes, bytes]:
    """Return the states of the policy and its shadow."""
    assert bandit.shadow is not None
    return state_bytes(bandit.policy), state_bytes(bandit.shadow)


def assert_replays(journal: Journal, expected: tuple[bytes, bytes]) -> None:
    """Assert that the journal leads to these states, from the start and from the latest snapshot."""
    for start in (0, None):
        found = load_with_snapshot(journal, start=start)
        assert found.shadow is not None
        assert (state_bytes(found.policy), state_bytes(found.shadow)) == expected


def decisions(journal: Journal) -> list[LoggedDecision]:
    """Return all decisions of a journal."""
    return [event for _, event in journal.read() if isinstance(event, LoggedDecision)]


@pytest.mark.parametrize("name", POLICIES)
def test_a_shadow_that_is_a_copy_stays_one(name: str, journal: Journal) -> None:
    """It knows and chooses what the policy does, to the bit; and the policy does as without a shadow."""
    bandit = Bandit(POLICIES[name](), journal=journal, snapshot_every=20)
    alone = Bandit(POLICIES[name](), floor=0.0)
    bandit.start_shadow(POLICIES[name]())
    play(bandit, 60)
    play(alone, 60)
    one, two = states(bandit)
    assert one == two == state_bytes(alone.policy)
    for made, other in zip(decisions(journal), decisions(alone.journal), strict=True):
        assert (made.chosen, made.digest) == (other.chosen, other.digest)
        assert other.shadow is None
        assert made.shadow is not None
        assert made.shadow.chosen == made.chosen
        p, q = made.propensities, made.shadow.propensities
        assert (None if p is None else p.tobytes()) == (None if q is None else q.tobytes())
    made = bandit.decide({"new": [1.0, 0.0]})
    assert made.shadow is not None
    assert made.shadow.propensities is None or not made.shadow.propensities.flags.writeable
    assert_replays(journal, (one, two))


def test_a_shadow_survives_restarts_and_erasure(tmp_path: Path) -> None:
    """It is part of snapshots, which are as before without one."""
    path = tmp_path / "j.db"
    with Bandit(known_scales(), journal=path, snapshot_every=7) as bandit:
        play(bandit, 10)
        assert bandit.shadow is None
        bandit.start_shadow(shadow_of())
        play(bandit, 30, 10)
        expected = states(bandit)
        assert_replays(bandit.journal, expected)
    assert check_journal(path).is_whole
    with Bandit(journal=path, snapshot_every=7) as bandit:
        assert states(bandit) == expected
        made = bandit.decide({"new": [1.0, 0.0]})
        assert made.shadow is not None
        bandit.erase(older_than=0.0)
        expected = states(bandit)
    with Bandit(journal=path) as bandit:
        assert states(bandit) == expected
        play(bandit, 5, 40)
        bandit.stop_shadow()
        assert bandit.shadow is None
        assert bandit.decide({"new": [1.0, 0.0]}).shadow is None
        bandit.snapshot()
        snapshot = bandit.journal.latest_snapshot()
        assert snapshot is not None
        assert snapshot.state == state_bytes(bandit.policy)
    with Bandit(journal=path) as bandit:
        assert bandit.shadow is None
    assert check_journal(path).is_whole


def test_a_snapshot_with_a_wrong_shadow_is_found(tmp_path: Path) -> None:
    """A shadow is checked as the policy is."""
    path = tmp_path / "j.db"
    with Bandit(known_scales(), journal=path) as bandit:
        bandit.start_shadow(shadow_of())
        bandit.reward(bandit.decide(QUESTION).id, 1.0)
        bandit.journal.save_snapshot(bandit.version, state_bytes(bandit.policy, shadow_of()))
    problems = check_journal(path).problems
    assert ["is not the state that the events before it lead to" in p for p in problems] == [True]


def test_other_processes_follow(tmp_path: Path) -> None:
    """They start and stop the shadow when they read the journal."""
    path = tmp_path / "j.db"
    with Bandit(known_scales(), journal=path) as one, Bandit(journal=path) as two:
        one.start_shadow(shadow_of())
        made = one.decide(QUESTION)
        two.reward(made.id, 1.0)
        one.refresh()
        assert states(one) == states(two)
        two.start_shadow(shadow_of(seed=4))
        one.refresh()
        assert states(one) == states(two)
        two.stop_shadow()
        one.refresh()
        assert one.shadow is None


@pytest.mark.parametrize("background", [False, True])
def test_a_shadow_learns_scales_of_its_own(background: bool, tmp_path: Path) -> None:
    """They are recorded, and those of the policy are not touched."""
    path = tmp_path / "j.db"
    with Bandit(known_scales(), journal=path, background=background) as bandit:
        bandit.start_shadow(POLICIES["learned scales"]())
        rng = np.random.default_rng(2)
        for i in range(60):
            made = bandit.decide(rng.normal(size=(3, 2)), id=f"visit-{i}")
            bandit.reward(made.id, float(rng.normal() + made.context[0]))
        bandit._writer.upkeep.wait()
        learned = [e for _, e in bandit.journal.read() if isinstance(e, ScalesLearned)]
        assert learned
        assert all(event.shadow for event in learned)
        assert_replays(bandit.journal, states(bandit))
    with SQLiteJournal(path, readonly=True) as journal:
        again = [e for _, e in journal.read() if isinstance(e, ScalesLearned)]
    assert again == learned


def test_both_learn_scales(journal: Journal) -> None:
    """Each its own: equal policies learn the same from the same rewards."""
    bandit = Bandit(POLICIES["learned scales"](), journal=journal)
    bandit.start_shadow(POLICIES["learned scales"]())
    rng = np.random.default_rng(2)
    for i in range(60):
        made = bandit.decide(rng.normal(size=(3, 2)), id=f"visit-{i}")
        bandit.reward(made.id, float(rng.normal() + made.context[0]))
    learned = [e.shadow for _, e in journal.read() if isinstance(e, ScalesLearned)]
    assert learned.count(True) == learned.count(False) > 0
    one, two = states(bandit)
    assert one == two


def test_more_features_for_both(journal: Journal) -> None:
    """A shadow that cannot have more prevents the change, and nothing is written."""
    features = rolin.FeatureMap(arm={"price": rolin.features.Number()})
    more = features.with_fields(arm={"size": rolin.features.Number()})
    n = features.n_features
    bandit = Bandit(known_scales(n), feature_map=features, journal=journal)
    bandit.start_shadow(fixed(rolin.RoLinUCB, n_features=n, seed=1))
    made = bandit.decide({"a": {"price": 1.0}, "b": {"price": 2.0}})
    bandit.change_feature_map(more)
    bandit.reward(made.id, 1.0)
    bandit.reward(bandit.decide({"a": {"price": 1.0, "size": 2.0}}).id, 2.0)
    assert bandit.shadow is not None
    assert bandit.shadow.n_features == more.n_features
    assert_replays(journal, states(bandit))
    bandit.start_shadow(rolin.HLinUCB(n_features=more.n_features, seed=1))
    before = bandit.version
    with pytest.raises(Unsupported, match="cannot add features"):
        bandit.change_feature_map(more.with_fields(arm={"color": rolin.features.Number()}))
    assert bandit.version == before


def test_a_shadow_does_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    """If it cannot choose or learn, decisions and rewards go on; a stopped bandit does not ask it."""
    bandit = Bandit(known_scales())
    bandit.start_shadow(shadow_of())

    def fail(*_: Any, **__: Any) -> Any:
        raise Unsupported("not today")

    with monkeypatch.context() as patched:
        patched.setattr(rolin.RoLinUCB, "score", fail)
        patched.setattr(rolin.RoLinUCB, "score_with_probabilities", fail)
        patched.setattr(rolin.RoLinUCB, "update", fail)
        made = bandit.decide(QUESTION)
        assert made.shadow is None
        bandit.reward(made.id, 1.0)
    assert bandit.shadow is not None
    assert bandit.shadow.arms == []
    assert bandit.policy.arms == [made.arm]
    bandit.change_settings(mode="stopped")
    stopped = bandit.decide(QUESTION)
    assert stopped.shadow is None
    bandit.reward(stopped.id, 1.0)
    assert bandit.shadow.arms == []


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_interruption_loses_nothing(
    when: str, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between learning of the policy and of its shadow: the state is loaded again, with both."""
    bandit = Bandit(known_scales(), journal=journal)
    bandit.start_shadow(shadow_of())
    made = bandit.decide(QUESTION)

    def interrupted(shadow: Any, event: Any) -> Any:
        if when == "after":
            fold_shadow(shadow, event)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("rolin.bandit.state.fold_shadow", interrupted)
        with pytest.raises(KeyboardInterrupt):
            bandit.reward(made.id, 1.0)
    one, two = states(bandit)
    assert_replays(journal, (one, two))
    expected = shadow_of()
    expected.update(made.arm, made.context.copy(), 1.0)
    assert two == state_bytes(expected)


def test_wrong_shadows_are_rejected(journal: Journal) -> None:
    """The error says what is expected, and nothing is written."""

    class Own(rolin.Uniform):
        """A policy that is not one of rolin, so that no other process could load it."""

    bandit = Bandit(known_scales(), journal=journal)
    for wrong, message in (
        ("RoLinTS", "expected a policy of rolin"),
        (Own(n_features=2, seed=1), "expected a policy of rolin"),
        (known_scales(3), "the shadow has n_features=3, expected 2"),
        (rolin.LogisticRoLinTS(n_features=2), "learns from binary rewards"),
    ):
        with pytest.raises(ParameterError, match=message):
            bandit.start_shadow(wrong)  # type: ignore[arg-type]
    assert bandit.version == 0


def test_a_shadow_is_independent_of_the_policy_that_was_given() -> None:
    """It is a copy."""
    given: Policy[Any] = shadow_of()
    bandit = Bandit(known_scales())
    bandit.start_shadow(given)
    bandit.reward(bandit.decide(QUESTION).id, 1.0)
    assert given.arms == []
    assert bandit.shadow is not None
    assert len(bandit.shadow.arms) == 1


def test_the_value_of_a_shadow_can_be_estimated() -> None:
    """Its recorded probabilities make the estimate unbiased while it learns: 40 logs, within 4 standard errors.

    Arm "b" earns 1, arm "a" earns 0, with noise. The shadow's true value is the mean of its probabilities of "b".
    """
    errors = []
    for run in range(40):
        bandit = Bandit(rolin.Uniform(n_features=1, seed=run), journal=MemoryJournal())
        bandit.start_shadow(fixed(rolin.RoLinTS, n_features=1, seed=run))
        rng = np.random.default_rng(run)
        for i in range(200):
            made = bandit.decide({"a": [0.0], "b": [0.0]}, id=f"visit-{i}")
            bandit.reward(made.id, float((made.arm == "b") + rng.normal()))
        shadow = {d.id: d.shadow.propensities for d in decisions(bandit.journal) if d.shadow}
        log = offline.read(bandit)
        p = np.array([shadow[id] for id in log.ids])
        report = offline.evaluate(log, p)
        errors.append(report["IPS"].value - p[:, 1].mean())
        assert p[-1, 1] > p[0, 1]
    assert abs(np.mean(errors)) < 4 * np.std(errors, ddof=1) / len(errors) ** 0.5
