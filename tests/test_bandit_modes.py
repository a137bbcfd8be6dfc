"""Modes: the policy decides, looks on as an apprentice, or is stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rolin
from rolin import Bandit, offline
from rolin.errors import InputError, JournalError, ParameterError
from rolin.journal import Journal, SQLiteJournal, check_journal, load_policy
from rolin.journal.events import Outcome, ScalesLearned, SettingsChanged
from rolin.journal.folding import state_bytes
from support.bandits import QUESTION, Clock, known_scales
from support.journals import forged


@pytest.fixture
def bandit(journal: Journal) -> Bandit:
    """A bandit with scales that are known, and a clock that stands still."""
    return Bandit(known_scales(), journal=journal, clock=Clock())


def mode(bandit: Bandit) -> str:
    """Return the mode of a bandit, as its last decision has it."""
    return bandit.decide(QUESTION).mode


@pytest.mark.parametrize("floor", [0.0, 0.1])
def test_an_apprentice_shows_the_baseline(bandit: Bandit, floor: float) -> None:
    """With propensity 1; beside it is what the policy would have done, by the same draws."""
    online = Bandit(known_scales(), floor=floor)
    bandit.change_settings(mode="apprentice", floor=floor, control_share=1.0)
    rng = np.random.default_rng(1)
    arms: list[Any] = ["first", "second", 3]
    for i in range(30):
        x = rng.normal(size=(3, 2))
        exclude = ["first"] if i % 3 == 0 else []
        top_k = 2 if i % 2 else None
        options: dict[str, Any] = {"id": f"visit-{i}", "exclude": exclude, "top_k": top_k}
        made = bandit.decide(x, arms, **options)
        own = online.decide(x, arms, **options)
        offered = [arm for arm in arms if arm not in exclude]
        assert list(made.ranking) == offered[: top_k or 1]
        assert made.mode == "apprentice"
        assert not made.control
        assert made.propensity == 1.0
        assert made.propensities is not None
        assert made.propensities.tolist() == [1.0] + [0.0] * (len(offered) - 1)
        assert made.proposal is not None
        assert made.proposal.chosen == own.chosen
        assert made.proposal.propensities is not None
        assert own.propensities is not None
        assert made.proposal.propensities.tolist() == own.propensities.tolist()
        assert not made.proposal.propensities.flags.writeable
        # Both learn the same, so that the next proposal is the same.
        bandit.reward(f"visit-{i}", float(i % 3))
        baseline = made.context.copy()
        online.import_log([_past(f"learned-{i}", made.arm, baseline, float(i % 3))])
        stored = bandit.journal.decision(f"visit-{i}")
        assert stored is not None
        assert stored.proposal is not None
        assert stored.proposal.chosen == own.chosen
        assert stored.proposal.propensities is not None
        assert stored.proposal.propensities.tobytes() == own.propensities.tobytes()
    assert state_bytes(bandit.policy) == state_bytes(online.policy)


def _past(id: str, arm: Any, context: Any, value: float) -> Any:
    decision = rolin.LoggedDecision(id, 1.0, (arm,), context[None], (0,), None, None)
    return rolin.logs.PastDecision(decision, {0: Outcome(id, 1.0, 0, arm, context, value)})


def test_without_propensities(journal: Journal) -> None:
    """Nothing is computed, but the ranking of the policy is recorded."""
    bandit = Bandit(known_scales(), journal=journal, mode="apprentice", propensities=False)
    made = bandit.decide(QUESTION, id="visit")
    assert made.propensities is None
    assert made.proposal is not None
    assert made.proposal.propensities is None
    stored = journal.decision("visit")
    assert stored is not None
    assert stored.proposal == made.proposal


def test_a_stopped_bandit_learns_nothing(bandit: Bandit) -> None:
    """Rewards, sums, activations and expiry are recorded, but the state stays."""
    bandit.decide_many([QUESTION] * 2, ids=["before", "sum"])
    bandit.decide(QUESTION, id="early", active=False)
    bandit.reward("early", 1.0)
    bandit.decide(QUESTION, id="taught")
    bandit.reward("taught", 1.0)
    bandit.change_settings(mode="stopped")
    state = state_bytes(bandit.policy)
    made = bandit.decide(QUESTION, id="stopped", top_k=2)
    assert made.ranking == ("red", "blue")
    assert (made.mode, made.propensity, made.proposal) == ("stopped", 1.0, None)
    bandit.reward("before", 1.0)
    bandit.reward("before", 1.0)
    bandit.reward("stopped", 2.0)
    bandit.reward("sum", 2.0, reward_id="x")
    bandit.activate("early")
    assert bandit.expire(0.0, default_reward=3.0) == 2
    assert state_bytes(bandit.policy) == state
    outcomes = {(e.id, e.rank): (e.value, e.learned) for _, e in bandit.journal.read() if isinstance(e, Outcome)}  # fmt: skip
    assert outcomes == {
        ("taught", 0): (1.0, True),
        ("before", 0): (1.0, False),
        ("stopped", 0): (2.0, False),
        ("stopped", 1): (3.0, False),
        ("sum", 0): (2.0, False),
        ("early", 0): (1.0, False),
    }
    assert state_bytes(load_policy(bandit.journal, from_start=True)[0]) == state
    later = bandit.decide(QUESTION, id="later")
    bandit.change_settings(mode="online")
    assert state_bytes(bandit.policy) == state  # what was recorded meanwhile stays unlearned
    bandit.reward("before", 1.0)  # a repeat
    assert state_bytes(bandit.policy) == state
    bandit.reward("later", 1.0)  # it counts when it is recorded
    own = load_policy(bandit.journal, upto=bandit.version - 1)[0]
    own.update(later.arm, later.context.copy(), 1.0)
    assert state_bytes(bandit.policy) == state_bytes(own)
    assert mode(bandit) == "online"


def test_a_stopped_bandit_does_not_ask_the_policy(
    bandit: Bandit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a policy that fails can be stopped; questions are still checked."""

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError

    bandit.change_settings(mode="stopped", floor=0.5)  # more than three arms can have
    for name in ("score", "rank", "first_probabilities"):
        monkeypatch.setattr(rolin.RoLinTS, name, fail)
    assert bandit.decide(QUESTION, exclude=["red"]).arm == "blue"
    with pytest.raises(InputError):
        bandit.decide({"red": [1.0, np.nan]})
    with pytest.raises(InputError):
        bandit.decide(QUESTION, top_k=4)


def test_calls_that_learn_are_rejected_while_stopped(journal: Journal) -> None:
    """They say what to do; other changes of the model stay possible."""
    bandit = Bandit(known_scales(noise_std="learn"), journal=journal, mode="stopped")
    source = Bandit(known_scales(noise_std="learn"))
    source.reward(source.decide(QUESTION).id, 1.0)
    before = bandit.version
    with pytest.raises(InputError, match="import_log would change the policy, but the bandit is"):
        bandit.import_log(source.journal)
    with pytest.raises(InputError, match="learn_scales would change the policy"):
        bandit.learn_scales()
    assert bandit.version == before
    bandit.decay(0.5)
    bandit.change_settings(mode="apprentice")
    assert bandit.import_log(source.journal) == 1
    bandit.learn_scales()


def test_no_scales_are_learned_while_stopped(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even if they are due; they are learned when the bandit goes on."""
    bandit = Bandit(known_scales(noise_std="learn"), journal=journal, mode="stopped")
    monkeypatch.setattr(type(bandit.policy.posterior), "is_due", True)
    for expected, mode in ((0, "stopped"), (1, "online")):
        bandit.change_settings(mode=mode)  # type: ignore[arg-type]
        assert len([e for _, e in journal.read() if isinstance(e, ScalesLearned)]) == expected


def test_wrong_modes_change_nothing(bandit: Bandit, journal: Journal) -> None:
    """The error lists the right ones."""
    before = bandit.version
    for wrong in ("Online", "", "shadow", 1, True, ["online"]):
        with pytest.raises(
            ParameterError, match="expected one of 'online', 'apprentice', 'stopped'"
        ):
            bandit.change_settings(mode=wrong)  # type: ignore[arg-type]
        with pytest.raises(ParameterError, match="mode="):
            Bandit(journal=journal, mode=wrong)  # type: ignore[call-overload]
    assert bandit.version == before
    assert mode(bandit) == "online"


def test_a_restart_keeps_the_mode(tmp_path: Path) -> None:
    """Others follow when they write or refresh, and a mode that is given is recorded once."""
    path = tmp_path / "j.db"
    with Bandit(known_scales(), journal=path, mode="apprentice") as one:
        assert mode(one) == "apprentice"
        with Bandit(journal=path) as two:
            assert mode(two) == "apprentice"
            two.change_settings(mode="stopped")
            one.refresh()
            assert mode(one) == "stopped"
            made = one.decide(QUESTION, id="visit")
            two.change_settings(mode="online")
            one.reward("visit", 1.0)  # it has not read yet that the other goes on
            two.refresh()
            assert state_bytes(one.policy) == state_bytes(two.policy)
            assert one.policy.arms == [made.arm]
            two.change_settings(mode="stopped")
    with Bandit(journal=path, mode="stopped") as again:
        assert mode(again) == "stopped"
        assert "mode='stopped'" in repr(again)
        events = [e.mode for _, e in again.journal.permanent_events() if isinstance(e, SettingsChanged)]  # fmt: skip
        assert events == ["apprentice", "stopped", "online", "stopped"]
        again.erase(older_than=0.0)  # settings stay
    with Bandit(journal=path) as again:
        assert mode(again) == "stopped"
    assert check_journal(path).is_whole


def test_a_log_of_the_baseline_can_be_read(bandit: Bandit) -> None:
    """Its propensities are those of the baseline, not those of the policy."""
    bandit.change_settings(mode="apprentice")
    for _ in range(5):
        bandit.reward(bandit.decide(QUESTION).id, 1.0)
    log = offline.read(bandit)
    assert [p.tolist() for p in log.propensities] == [[1.0, 0.0, 0.0]] * 5


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"mode":"stopped"', '"mode":"later"'),
        ('"mode":"apprentice"', '"mode":"later"'),
        ('"proposal":{"chosen":[', '"proposal":{"chosen":[9,'),
        ('"proposal":{"chosen":[', '"proposal":{"chosen":[],"other":['),
        (']}}', ',2.0]}}'),
        ('"proposal":{', '"proposal":{"propensities":[],"other":{'),
    ],
)  # fmt: skip
def test_what_is_not_known_is_not_read(old: str, new: str, tmp_path: Path) -> None:
    """A mode of a later version must not be taken for another one."""
    path = tmp_path / "j.db"
    with Bandit(known_scales(), journal=path, mode="apprentice") as bandit:
        bandit.decide(QUESTION)
        bandit.change_settings(mode="stopped")
    forged(path, f"UPDATE events SET body = replace(body, '{old}', '{new}')")
    with SQLiteJournal(path, readonly=True) as journal, pytest.raises(JournalError):
        list(journal.read())
