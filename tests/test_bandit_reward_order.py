"""Whatever the order of decisions, rewards and expiry: what `record_reward` learns is what `reward` accepts."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rolin import Bandit
from rolin.errors import ArmError, DecisionConflict, RewardConflict, UnknownDecision
from rolin.journal import MemoryJournal, SQLiteJournal, check_journal, load_policy
from rolin.journal.events import EarlyReward, HeldReward, IgnoredReward, LoggedDecision, Outcome
from rolin.journal.folding import state_bytes
from support.bandits import QUESTION, Clock, known_scales


class Sent(NamedTuple):
    """A reward as a caller sends it."""

    id: str
    value: float
    arm: Any
    reward_id: str | None


class StrictBandit:
    """The rules again, by other means: only `reward`, and a list of rewards that wait for their decision."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.bandit = Bandit(known_scales(), clock=clock)
        self.early: list[tuple[float, Sent]] = []
        self.seen: set[Sent] = set()  # early ones, whether they still wait or not
        self.ignored: set[Sent] = set()
        self.closed: set[tuple[str, int]] = set()  # arms that expiry has ended

    def decide(self, id: str) -> LoggedDecision:
        """Decide, and send the rewards that waited for it."""
        known = self.bandit.journal.decision(id)
        made = self.bandit.decide(QUESTION, id=id, top_k=2, active=id != "in advance")
        if known is None:
            waited = [sent for _, sent in self.early if sent.id == id]
            self.early = [(time, sent) for time, sent in self.early if sent.id != id]
            for sent in waited:
                if self._send(sent) == "error":
                    self.ignored.add(sent)
        return made

    def activate(self, id: str) -> bool:
        """Activate, and return whether it was possible."""
        try:
            self.bandit.activate(id)
        except (UnknownDecision, DecisionConflict):
            return False
        return True

    def reward(self, sent: Sent) -> str:
        """Return what becomes of a reward."""
        if self.bandit.journal.decision(sent.id) is None:
            if sent in self.seen:
                return "repeated"
            self.early.append((self.clock.now, sent))
            self.seen.add(sent)
            return "early"
        if self._with_arm(sent) in self.ignored:
            return "repeated"
        return self._send(sent)

    def _with_arm(self, sent: Sent) -> Sent:
        made = self.bandit.journal.decision(sent.id)
        assert made is not None
        return sent._replace(arm=made.arm if sent.arm is None else sent.arm)

    def _send(self, sent: Sent) -> str:
        before, journal = self.bandit.version, self.bandit.journal
        try:
            self.bandit.reward(sent.id, sent.value, arm=sent.arm, reward_id=sent.reward_id)
        except ArmError:
            return "error"
        except RewardConflict:
            self.ignored.add(self._with_arm(sent))
            made = journal.decision(sent.id)
            assert made is not None
            rank = 0 if sent.arm is None else made.ranking.index(sent.arm)
            changed = sent.reward_id is not None and any(
                part.rank == rank and part.reward_id == sent.reward_id
                for part in journal.following(sent.id)
                if isinstance(part, HeldReward)
            )
            return "late" if (sent.id, rank) in self.closed and not changed else "conflicting"
        if self.bandit.version == before:
            return "repeated"
        return "learned" if isinstance(journal.following(sent.id)[-1], Outcome) else "recorded"

    def expire(self, age: float) -> int:
        """Close arms and drop early rewards of this age."""
        self.early = [(time, sent) for time, sent in self.early if time > self.clock.now - age]
        before = {arm[1:] for arm in self.bandit.journal.waiting(9e9, 99)}
        closed = self.bandit.expire(age, default_reward=0.5)
        self.closed |= before - {arm[1:] for arm in self.bandit.journal.waiting(9e9, 99)}
        return closed


IDS = st.sampled_from(["visit", "in advance"])
REWARD = st.builds(
    Sent,
    IDS,
    st.sampled_from([1.0, 2.0]),
    st.sampled_from([None, "red", "blue"]),
    st.sampled_from([None, None, "x", "y"]),
)
STEPS = st.lists(
    st.one_of(
        REWARD,
        REWARD,
        st.tuples(st.just("decide"), IDS),
        st.tuples(st.just("activate"), IDS),
        st.tuples(st.just("expire"), st.sampled_from([0.0, 5.0])),
        st.tuples(st.just("wait"), st.just(3.0)),
        st.tuples(st.just("restart"), st.none()),
    ),
    max_size=30,
)


def outcomes(bandit: Bandit) -> list[Any]:
    """Return what counts, in order, without the times."""
    return [
        (event.id, event.rank, event.arm, event.value, event.expired)
        for _, event in bandit.journal.read()
        if isinstance(event, Outcome)
    ]


def check_same(steps: list[Any], path: Path | None) -> None:
    """Take the same steps by the lenient and by the strict rules, and compare all that they say and learn."""
    clock = Clock()
    strict = StrictBandit(clock)
    journal = MemoryJournal() if path is None else SQLiteJournal(path)
    bandit = Bandit(known_scales(), journal=journal, clock=clock)
    for step in steps:
        if isinstance(step, Sent):
            id, value, arm, reward_id = step
            try:
                status: str = bandit.record_reward(id, value, arm=arm, reward_id=reward_id)
            except ArmError:
                status = "error"
            assert status == strict.reward(step)
        elif step[0] == "decide":
            assert (
                bandit.decide(QUESTION, id=step[1], top_k=2, active=step[1] != "in advance").ranking
                == strict.decide(step[1]).ranking
            )
        elif step[0] == "activate":
            if strict.activate(step[1]):
                bandit.activate(step[1])
            else:
                with pytest.raises((UnknownDecision, DecisionConflict)):
                    bandit.activate(step[1])
        elif step[0] == "expire":
            assert bandit.expire(step[1], default_reward=0.5) == strict.expire(step[1])
        elif step[0] == "wait":
            clock.now += step[1]
        else:
            bandit = Bandit(journal=journal, clock=clock)
        assert outcomes(bandit) == outcomes(strict.bandit)
    assert state_bytes(bandit.policy) == state_bytes(strict.bandit.policy)
    assert state_bytes(load_policy(journal, from_start=True)[0]) == state_bytes(bandit.policy)
    events = [event for _, event in journal.read()]
    assert sum(isinstance(event, EarlyReward) for event in events) == len(strict.seen)
    contents = [
        Sent(e.id, e.value, e.arm, e.reward_id)
        for e in events
        if isinstance(e, IgnoredReward) and e.reason != "unknown"
    ]
    assert len(contents) == len(set(contents))
    assert set(contents) == strict.ignored
    waiting = sum(arm.rank < 0 for arm in journal.waiting(9e9, 99))
    assert waiting == len(strict.early)
    journal.close()
    if path is not None:
        assert check_journal(path).problems == ()


@given(STEPS)
@settings(max_examples=300)
def test_any_order_in_memory(steps: list[Any]) -> None:
    """In memory."""
    check_same(steps, None)


@given(STEPS)
@settings(max_examples=40)
def test_any_order_in_a_file(steps: list[Any]) -> None:
    """In a file."""
    with TemporaryDirectory() as folder:
        check_same(steps, Path(folder) / "j.db")
