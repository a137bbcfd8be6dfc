"""The interface of contenders of the bake-off."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Literal

import numpy as np
from peers.base import Player

from bakeoff.worlds.questions import Floats, Ints, Probe, Question, Shape

__all__ = ["Contender", "Group", "PerArm", "Scored"]

Group = Literal["rolin", "study", "reference", "peer"]


class Contender(Player):
    """A player that knows the shape of its world. Its questions are `Question`s.

    Parameters
    ----------
    shape
        What is known of the world before the first round.
    rng
        Source of the seed, and of random numbers that a library leaves to its caller.
    """

    group: ClassVar[Group] = "peer"
    """"rolin" is as a user gets it; "study" are its other settings; "reference" are plain formulas."""

    def __init__(self, shape: Shape, rng: np.random.Generator) -> None:
        self.shape, self.rng = shape, rng
        self.build(int(rng.integers(2**31)))

    @classmethod
    def refuses(cls, shape: Shape) -> str | None:
        """Return why the library cannot play this world, or `None` if it can."""
        return None

    @abstractmethod
    def build(self, seed: int) -> None:
        """Make the policy."""

    def probabilities(self, question: Question) -> Floats | None:
        """Return the probability with which each candidate is chosen; `None` if the library cannot."""
        return None

    def observe(self, question: Question, index: int, reward: float, propensity: float) -> None:
        """Learn the outcome of a decision that another policy has made."""
        raise NotImplementedError

    def coverage(self, probes: list[Probe]) -> float | None:
        """Return the share of 90 % intervals that contain the mean reward; `None` without intervals."""
        return None


class Scored(Contender):
    """A contender that scores all arms of the page; the highest score is chosen, ties at random."""

    @abstractmethod
    def scores(self, prepared: Any) -> Floats:
        """Return the K scores; timed."""

    def decide(self, prepared: Any) -> int:
        """Choose the highest score."""
        found = self.scores(prepared)
        best = np.flatnonzero(found == found.max())
        return int(best[0] if len(best) == 1 else self.rng.choice(best))

    def index(self, prepared: Any, answer: int) -> int:
        """Return the answer, which is the index."""
        return answer


class PerArm(Scored):
    """A library with one model per arm and one context for all arms.

    The context is the situation and a constant. Where candidates share no situation, the library scores all
    contexts of the page with all arms, and the scores of each arm at its own context count.
    """

    models = "per arm"
    constant = True
    """Whether the library needs a constant among the features."""

    @abstractmethod
    def score_rows(self, rows: Floats) -> Floats:
        """Return the (n, n_arms) scores of all arms at n contexts; timed."""

    @abstractmethod
    def learn(self, arm: int, row: Floats, reward: float) -> None:
        """Learn the reward of an arm at a context of shape (1, s); timed."""

    def prepare(self, question: Question) -> tuple[Ints, Floats]:
        """Return the arms and their contexts: one row for all, or one each."""
        x = question.contexts if question.situation is None else question.situation[None]
        if self.constant:
            x = np.hstack([np.ones((len(x), 1)), x])
        return np.array(question.arms), np.ascontiguousarray(x)

    def scores(self, prepared: tuple[Ints, Floats]) -> Floats:
        """Return the scores of the arms of the page."""
        arms, rows = prepared
        found = self.score_rows(rows)
        return found[0, arms] if len(rows) == 1 else found[np.arange(len(rows)), arms]

    def update(self, prepared: tuple[Ints, Floats], answer: int, reward: float) -> None:
        """Learn from the chosen arm."""
        arms, rows = prepared
        row = rows if len(rows) == 1 else rows[answer : answer + 1]
        self.learn(int(arms[answer]), row, reward)
