"""Rewards that come too early, too late or twice are recorded, and what counts is learned once."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rolin
from rolin import AsyncBandit, Bandit
from rolin.errors import ArmError, InputError, RewardConflict, UnknownDecision
from rolin.journal import Journal, SQLiteJournal, check_journal, load_policy
from rolin.journal.events import (
    Activated,
    EarlyReward,
    Event,
    HeldReward,
    IgnoredReward,
    LoggedDecision,
    Outcome,
)
from rolin.journal.folding import state_bytes
from support.bandits import QUESTION, Clock, known_scales


@pytest.fixture
def bandit(journal: Journal) -> Bandit:
    """A bandit with scales that are known, and a clock that stands still."""
    return Bandit(known_scales(), journal=journal, clock=Clock())


def learned(*rewards: tuple[LoggedDecision, int, float]) -> bytes:
    """Return the state of a policy that was updated with these rewards of arms, by their ranks."""
    policy = known_scales()
    for decision, rank, value in rewards:
        policy.update(decision.ranking[rank], decision.contexts[rank].copy(), value)
    return state_bytes(policy)


def kinds(bandit: Bandit) -> list[type[Event]]:
    """Return the kinds of all events, in order."""
    return [type(event) for _, event in bandit.journal.read()]


def ignored(bandit: Bandit, id: str) -> list[tuple[Any, ...]]:
    """Return value and reason of the ignored rewards of a decision."""
    events = (event for _, event in bandit.journal.read() if isinstance(event, IgnoredReward))
    return [(event.value, event.reason) for event in events if event.id == id]


def check_whole(bandit: Bandit) -> None:
    """See that a journal leads to the state of its bandit, and that a file is whole."""
    state = state_bytes(bandit.policy)
    assert state_bytes(load_policy(bandit.journal, from_start=True)[0]) == state
    if isinstance(bandit.journal, SQLiteJournal):
        assert check_journal(bandit.journal.path).problems == ()


def test_what_counts_is_learned(bandit: Bandit) -> None:
    """As by `reward`; the same again has no effect."""
    made = bandit.decide(QUESTION, id="visit")
    assert bandit.record_reward("visit", 2.0) == "learned"
    assert bandit.record_reward("visit", 2.0) == "repeated"
    bandit.reward("visit", 2.0)
    assert kinds(bandit) == [LoggedDecision, Outcome]
    assert state_bytes(bandit.policy) == learned((made, 0, 2.0))


def test_what_counts_later_is_recorded(bandit: Bandit) -> None:
    """Parts of a sum, rewards before the activation, and rewards of a bandit that is stopped."""
    bandit.decide_many([QUESTION] * 2, ids=["sum", "advance"], active=False)
    bandit.activate("sum")
    assert bandit.record_reward("sum", 1.0, reward_id="x") == "recorded"
    assert bandit.record_reward("sum", 1.0, reward_id="x") == "repeated"
    assert bandit.record_reward("advance", 1.0) == "recorded"
    assert bandit.record_reward("advance", 1.0) == "repeated"
    bandit.change_settings(mode="stopped")
    bandit.decide(QUESTION, id="stopped")
    assert bandit.record_reward("stopped", 1.0) == "recorded"
    assert state_bytes(bandit.policy) == learned()


def test_an_early_reward_is_learned_with_its_decision(bandit: Bandit) -> None:
    """Once, however often it came, and not before."""
    assert bandit.record_reward("visit", 2.0, weight=3.0) == "early"
    assert bandit.record_reward("visit", 2.0, weight=3.0) == "repeated"
    assert bandit.waiting() == []
    with pytest.raises(UnknownDecision):
        bandit.reward("visit", 2.0)
    made = bandit.decide(QUESTION, id="visit")
    assert kinds(bandit) == [EarlyReward, LoggedDecision, Outcome]
    assert bandit.record_reward("visit", 2.0, weight=3.0) == "repeated"
    assert bandit.decide(QUESTION, id="visit").arm == made.arm
    assert bandit.waiting() == []
    assert bandit.expire(0.0, default_reward=9.0) == 0
    assert kinds(bandit) == [EarlyReward, LoggedDecision, Outcome]
    policy = known_scales()
    policy.update(made.arm, made.context.copy(), 2.0, 3.0)
    assert state_bytes(bandit.policy) == state_bytes(policy)
    assert bandit.to_frame()[["reward", "weight"]].to_numpy().tolist() == [[2.0, 3.0]]
    check_whole(bandit)


def test_early_rewards_of_a_ranking(bandit: Bandit) -> None:
    """By arm; one of an arm that was not chosen is recorded as ignored, and so is a different second one."""
    for arm in (*QUESTION, "green"):
        assert bandit.record_reward("list", 1.0, arm=arm) == "early"
    assert bandit.record_reward("list", 2.0) == "early"  # of whatever is chosen first
    made = bandit.decide(QUESTION, id="list", top_k=2)
    (missing,) = set(QUESTION) - set(made.ranking)
    ranks = [made.ranking.index(arm) for arm in QUESTION if arm != missing]
    assert state_bytes(bandit.policy) == learned(*((made, rank, 1.0) for rank in ranks))
    found = [event for event in bandit.journal.following("list") if isinstance(event, IgnoredReward)]  # fmt: skip
    assert {(event.arm, event.value, event.reason) for event in found} == {
        (missing, 1.0, "invalid"),
        ("green", 1.0, "invalid"),
        (made.arm, 2.0, "conflicting"),
    }
    before = bandit.version
    assert bandit.record_reward("list", 1.0, arm=missing) == "repeated"
    assert bandit.record_reward("list", 2.0) == "repeated"
    assert bandit.record_reward("list", 2.0, arm=made.arm) == "repeated"
    with pytest.raises(ArmError, match="did not choose arm"):
        bandit.record_reward("list", 5.0, arm=missing)
    assert bandit.version == before
    check_whole(bandit)


def test_early_parts_add_up(bandit: Bandit) -> None:
    """Those before the decision and those after it; the first value of each id counts."""
    assert bandit.record_reward("visit", 0.1, reward_id="x") == "early"
    assert bandit.record_reward("visit", 0.5, reward_id="x") == "early"
    made = bandit.decide(QUESTION, id="visit")
    assert kinds(bandit)[-3:] == [LoggedDecision, HeldReward, IgnoredReward]
    assert bandit.record_reward("visit", 0.2, reward_id="y") == "recorded"
    assert bandit.record_reward("visit", 0.3, reward_id="y") == "conflicting"
    assert bandit.record_reward("visit", 0.3) == "conflicting"
    assert bandit.expire(0.0) == 1
    assert bandit.record_reward("visit", 0.2, reward_id="y") == "repeated"
    assert bandit.record_reward("visit", 0.2, reward_id="z") == "late"
    assert bandit.record_reward("visit", 0.4) == "late"
    assert state_bytes(bandit.policy) == learned((made, 0, 0.1 + 0.2))
    assert ignored(bandit, "visit") == [
        (0.5, "conflicting"), (0.3, "conflicting"), (0.3, "conflicting"), (0.2, "late"), (0.4, "late"),
    ]  # fmt: skip
    check_whole(bandit)


def test_an_early_sum_that_is_too_large(journal: Journal) -> None:
    """The decision is made all the same, and the part that would be too much is ignored."""
    bandit = Bandit(rolin.LogisticRoLinTS(n_features=2, seed=7), journal=journal)
    for reward_id in ("x", "y"):
        assert bandit.record_reward("visit", 1.0, reward_id=reward_id) == "early"
    bandit.decide(QUESTION, id="visit")
    bandit.expire(0.0)
    assert bandit.journal.outcomes("visit")[0].value == 1.0
    assert ignored(bandit, "visit") == [(1.0, "invalid")]
    bandit.decide(QUESTION, id="other")
    bandit.record_reward("other", 1.0, reward_id="x")
    with pytest.raises(InputError, match="the sum of the rewards"):
        bandit.record_reward("other", 1.0, reward_id="y")


def test_an_early_reward_of_a_decision_in_advance(bandit: Bandit) -> None:
    """It is held until the decision is activated."""
    bandit.record_reward("visit", 1.0)
    made = bandit.decide(QUESTION, id="visit", active=False)
    assert state_bytes(bandit.policy) == learned()
    bandit.activate("visit")
    assert kinds(bandit) == [EarlyReward, LoggedDecision, HeldReward, Activated, Outcome]
    assert state_bytes(bandit.policy) == learned((made, 0, 1.0))
    check_whole(bandit)


def test_an_early_reward_of_an_imported_decision(bandit: Bandit, tmp_path: Path) -> None:
    """It counts if the log has none."""
    other = Bandit(known_scales(), clock=Clock())
    made = other.decide_many([QUESTION] * 2, ids=["open", "known"])
    other.reward("known", 1.0)
    other.export_log(tmp_path / "log.csv")
    for id in ("open", "known"):
        assert bandit.record_reward(id, 2.0) == "early"
    assert bandit.import_log(tmp_path / "log.csv") == 2
    assert state_bytes(bandit.policy) == learned((made[0], 0, 2.0), (made[1], 0, 1.0))
    assert ignored(bandit, "known") == [(2.0, "conflicting")]
    check_whole(bandit)


def test_an_early_reward_without_a_decision_expires(bandit: Bandit) -> None:
    """It is closed when it is old, and a decision that is made after that does not learn it."""
    clock: Any = bandit._clock
    bandit.record_reward("never", 1.0)
    clock.now += 10.0
    bandit.record_reward("never", 2.0)
    assert bandit.expire(5.0) == 0
    assert ignored(bandit, "never") == [(1.0, "unknown")]
    before = bandit.version
    assert bandit.expire(5.0) == 0
    assert bandit.record_reward("never", 1.0) == "repeated"
    assert bandit.version == before
    made = bandit.decide(QUESTION, id="never")
    assert state_bytes(bandit.policy) == learned((made, 0, 2.0))
    assert bandit.record_reward("never", 1.0) == "conflicting"
    check_whole(bandit)


def test_a_closed_reward_counts_if_it_comes_again_after_the_decision(bandit: Bandit) -> None:
    """It had no effect before."""
    bandit.record_reward("visit", 1.0)
    bandit.expire(0.0)
    made = bandit.decide(QUESTION, id="visit")
    assert state_bytes(bandit.policy) == learned()
    assert bandit.record_reward("visit", 1.0) == "learned"
    assert bandit.record_reward("visit", 7.0) == "conflicting"
    assert state_bytes(bandit.policy) == learned((made, 0, 1.0))
    check_whole(bandit)


def test_a_late_reward(bandit: Bandit) -> None:
    """It is recorded once, and nothing is learned."""
    made = bandit.decide(QUESTION, id="visit")
    bandit.expire(0.0, default_reward=0.0)
    for value in (0.0, 1.0):
        assert bandit.record_reward("visit", value) == "late"
        assert bandit.record_reward("visit", value) == "repeated"
        with pytest.raises(RewardConflict, match="has expired"):
            bandit.reward("visit", value)
    assert ignored(bandit, "visit") == [(0.0, "late"), (1.0, "late")]
    assert state_bytes(bandit.policy) == learned((made, 0, 0.0))
    assert bandit.to_frame()["outcome"].tolist() == ["expired"]
    check_whole(bandit)


def test_a_conflicting_reward(bandit: Bandit) -> None:
    """The first counts; another value, or another weight, is recorded once."""
    made = bandit.decide(QUESTION, id="visit")
    bandit.reward("visit", 1.0)
    assert bandit.record_reward("visit", 2.0) == "conflicting"
    assert bandit.record_reward("visit", 1.0, weight=2.0) == "conflicting"
    assert bandit.record_reward("visit", 1.0, reward_id="x") == "conflicting"
    before = bandit.version
    assert bandit.record_reward("visit", 2.0) == "repeated"
    assert bandit.record_reward("visit", 1.0) == "repeated"
    assert bandit.version == before
    assert state_bytes(bandit.policy) == learned((made, 0, 1.0))
    check_whole(bandit)


def test_invalid_rewards_are_rejected(bandit: Bandit) -> None:
    """Those that no decision could take are an error, whenever they come."""
    before = bandit.version
    for call in (
        lambda: bandit.record_reward("visit", float("nan")),
        lambda: bandit.record_reward("", 1.0),
        lambda: bandit.record_reward("visit", 1.0, weight=0.0),
        lambda: bandit.record_reward("visit", 1.0, arm=("a", "b")),
        lambda: bandit.record_reward("visit", 1.0, arm=2**64),
        lambda: bandit.record_reward("visit", 1.0, arm=[]),  # type: ignore[arg-type]
        lambda: bandit.record_reward("visit", 1.0, weight=2.0, reward_id="x"),
    ):
        with pytest.raises(InputError):
            call()
    assert bandit.version == before


def test_a_generated_id_skips_early_rewards() -> None:
    """In memory the ids of decisions can be guessed: one that has a reward is in use."""
    bandit = Bandit(known_scales())
    assert bandit.record_reward("7-1", 1.0) == "early"
    assert bandit.decide(QUESTION).id == "7-2"


@pytest.mark.parametrize("how", ["ids", "person", "older_than"])
def test_erasure(how: str, journal: Journal) -> None:
    """Early and ignored rewards are erased with their decision, and those without one by their id or age."""
    clock = Clock()
    bandit = Bandit(known_scales(), journal=journal, clock=clock)
    for id in ("secret", "other", "never"):
        bandit.record_reward(id, 1.0)
    bandit.decide(QUESTION, id="secret", person="ann")
    bandit.record_reward("secret", 2.0)
    clock.now += 100.0
    bandit.decide(QUESTION, id="other", person="bob")  # its early reward stays with it
    bandit.record_reward("never", 3.0)
    state = state_bytes(bandit.policy)
    options: dict[str, Any] = {
        "ids": {"ids": ["secret", "never", "unknown"]},
        "person": {"person": "ann"},
        "older_than": {"older_than": timedelta(seconds=50)},
    }
    assert bandit.erase(**options[how]) == 1
    events = [event for _, event in journal.read()]
    never = {"ids": [], "person": [1.0, 3.0], "older_than": [3.0]}[how]
    assert {event.id for event in events if isinstance(event, LoggedDecision)} == {"other"}
    early = [(event.id, event.value) for event in events if isinstance(event, EarlyReward)]
    assert sorted(early) == [*(("never", value) for value in never), ("other", 1.0)]
    assert not any(isinstance(event, IgnoredReward) for event in events)
    assert [arm.id for arm in journal.waiting(9e9, 99)] == ["never"] * len(never)
    assert state_bytes(bandit.policy) == state
    assert bandit.erase(**options[how]) == 0
    bandit.record_reward("never", 4.0)
    bandit.decide(QUESTION, id="never")
    assert journal.outcomes("never")[0].value == [*never, 4.0][0]
    if isinstance(journal, SQLiteJournal):
        assert check_journal(journal.path).problems == ()


def test_several_processes_and_a_restart(tmp_path: Path) -> None:
    """What one process has recorded, another joins to its decision; a repeat from anywhere has no effect."""
    path = tmp_path / "j.db"
    with Bandit(known_scales(), journal=path) as one, Bandit(journal=path) as two:
        assert one.record_reward("a", 1.0) == "early"
        assert two.record_reward("a", 1.0) == "repeated"
        assert two.record_reward("b", 3.0) == "early"
        first = two.decide(QUESTION, id="a")
        assert one.record_reward("a", 1.0) == "repeated"
        assert one.record_reward("a", 2.0) == "conflicting"
        assert two.record_reward("a", 2.0) == "repeated"
        assert two.record_reward("a", 4.0) == "conflicting"
    with Bandit(journal=path) as again:
        assert again.record_reward("b", 3.0) == "repeated"
        second = again.decide(QUESTION, id="b")
        assert again.record_reward("a", 4.0) == "repeated"
        assert state_bytes(again.policy) == learned((first, 0, 1.0), (second, 0, 3.0))
        check_whole(again)


def test_early_rewards_and_decisions_of_one_batch(tmp_path: Path) -> None:
    """Requests that are written together follow each other as if each was written alone."""

    async def play(bandit: AsyncBandit[Any]) -> list[Any]:
        calls: list[Any] = []
        for i in range(100):
            id = f"visit-{i}"
            calls += [
                bandit.record_reward(id, float(i)),
                bandit.record_reward(id, float(i)),
                bandit.decide(QUESTION, id=id),
                bandit.record_reward(id, float(i)),
                bandit.record_reward(id, -1.0),
                bandit.record_reward(id, -1.0),
            ]
        return await asyncio.gather(*calls)

    with Bandit(known_scales(), journal=tmp_path / "j.db") as bandit:
        answers = asyncio.run(play(AsyncBandit(bandit)))
        expected = ("early", "repeated", "repeated", "conflicting", "repeated")
        for i, name in zip((0, 1, 3, 4, 5), expected, strict=True):
            assert set(answers[i::6]) == {name}
        values = [bandit.journal.outcomes(made.id)[0].value for made in answers[2::6]]
        assert values == [float(i) for i in range(100)]
        assert list(bandit.journal.waiting(9e9, 999)) == []
        check_whole(bandit)


def test_an_early_reward_that_the_policy_rejects(journal: Journal) -> None:
    """The decision is made all the same, and the journal says what was rejected."""

    class Strict(rolin.Greedy):
        """A policy that rejects some rewards."""

        def update(self, arm: Any, context: Any, reward: Any, weight: Any = 1.0) -> None:
            """Reject rewards above 5."""
            if reward > 5:
                raise InputError("too much")
            super().update(arm, context, reward, weight)

    bandit = Bandit(Strict(n_features=2, seed=1), journal=journal)
    bandit.record_reward("visit", 6.0)
    assert bandit.decide(QUESTION, id="visit").id == "visit"
    assert bandit.policy.arms == []
    assert [type(event).__name__ for _, event in journal.read()][-1] == "Rejected"


def test_damaged_rewards_are_noticed(tmp_path: Path) -> None:
    """Rewards without what they refer to, and early rewards after their decision."""
    path = tmp_path / "j.db"
    with Bandit(known_scales(), journal=path) as bandit:
        made = bandit.decide(QUESTION, id="made")
        journal = bandit.journal
        journal.append(
            [
                EarlyReward("made", 1.0, 0, None, 1.0),
                IgnoredReward("never", 1.0, 0, None, 1.0, 1.0, None, "late"),
                IgnoredReward("never", 1.0, 0, None, 1.0, 1.0, None, "unknown"),
            ],
            after=bandit.version,
        )
    assert made.id == "made"
    problems = check_journal(path).problems
    assert problems[:3] == (
        "event 2: decision 'made' was made before",
        "event 3: decision 'never' was never made",
        "event 4: no early reward of 'never' waited",
    )


def test_the_journals_find_early_rewards(journal: Journal) -> None:
    """Without a decision as long as there is none, and not among what followed it."""
    journal.begin(b"origin", "digest")
    early = EarlyReward("a", 1.0, 0, "red", 1 / 3, 2.0, "click")
    journal.append([early], after=0)
    assert journal.find(["a", "b"]) == {"a": (None, [early])}
    assert journal.following("a") == [early]
    assert [tuple(one) for one in journal.waiting(2.0, 9)] == [(1.0, "a", -1)]
    decision = LoggedDecision("a", 2.0, ("red",), np.ones((1, 1)), (0,), np.ones(1), 1)
    journal.append([decision], after=1)
    found = journal.find(["a"])["a"]
    assert found.decision is not None
    assert found.following == journal.following("a") == []
    assert [tuple(one) for one in journal.waiting(9.0, 9)] == [(2.0, "a", 0)]


def test_rewards_after_the_window_are_late(bandit: Bandit) -> None:
    """Also if nobody has called `expire`: the arm is closed first, with its sum or the default reward."""
    clock = bandit._clock
    first = bandit.decide(QUESTION, id="first")
    bandit.decide(QUESTION, id="parts")
    bandit.record_reward("parts", 2.0, reward_id="one", window=10.0)
    clock.now += 10.0  # type: ignore[attr-defined]
    options: dict[str, Any] = {"window": timedelta(seconds=10.0), "default_reward": 0.5}
    assert bandit.record_reward("first", 1.0, **options) == "late"
    assert bandit.record_reward("first", 1.0, **options) == "repeated"
    assert bandit.record_reward("parts", 1.0, reward_id="two", **options) == "late"
    assert bandit.record_reward("parts", 2.0, reward_id="one", **options) == "repeated"
    parts = bandit.journal.decision("parts")
    assert parts is not None
    assert state_bytes(bandit.policy) == learned((first, 0, 0.5), (parts, 0, 2.0))
    in_time = bandit.decide(QUESTION, id="in time")
    clock.now += 9.9  # type: ignore[attr-defined]
    assert bandit.record_reward(in_time.id, 1.0, **options) == "learned"
    with pytest.raises(InputError, match="window=-1"):
        bandit.record_reward(in_time.id, 1.0, window=-1.0)


def test_rewards_that_do_not_count_are_recorded_a_hundred_times(bandit: Bandit) -> None:
    """Then they are answered in the same way, and the journal does not grow."""
    bandit.decide(QUESTION, id="visit")
    bandit.record_reward("visit", 0.0)
    for i in range(1, 110):
        assert bandit.record_reward("visit", float(i)) == "conflicting"
    assert len(ignored(bandit, "visit")) == 100
