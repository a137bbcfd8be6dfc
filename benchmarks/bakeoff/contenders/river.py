"""river: a Bayesian linear regression per arm, all given one shared context."""

from __future__ import annotations

from river.bandit import LinUCBDisjoint

from bakeoff.contenders.base import Contender
from bakeoff.worlds.questions import Question, Shape

__all__ = ["CONTENDERS"]

Prepared = tuple[list[int], dict[int, float]]


class River(Contender):
    """Upper confidence bounds, with its defaults."""

    name = "river LinUCBDisjoint"
    models = "per arm"

    @classmethod
    def refuses(cls, shape: Shape) -> str | None:
        """Reject worlds in which every arm has a context of its own."""
        return None if shape.n_situation else "all arms must share one context"

    def build(self, seed: int) -> None:
        """Make the policy."""
        self._policy = LinUCBDisjoint(seed=seed)

    def prepare(self, question: Question) -> Prepared:
        """Return the arms, and the situation with a constant as a dictionary."""
        assert question.situation is not None
        return question.arms, dict(enumerate([1.0, *question.situation.tolist()]))

    def decide(self, prepared: Prepared) -> int:
        """Pull."""
        return int(self._policy.pull(*prepared))

    def index(self, prepared: Prepared, answer: int) -> int:
        """Return the index of the arm on the page."""
        return prepared[0].index(answer)

    def update(self, prepared: Prepared, answer: int, reward: float) -> None:
        """Learn from one reward."""
        self._policy.update(answer, prepared[1], reward)


CONTENDERS = [River]
