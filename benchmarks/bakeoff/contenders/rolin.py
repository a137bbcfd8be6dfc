"""`rolin` with nothing tuned, and for the study with other settings."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

import rolin
from bakeoff.contenders.base import Contender, Group
from bakeoff.worlds.questions import Floats, Probe, Question, Shape

__all__ = ["CONTENDERS", "Policy"]


class Policy(Contender):
    """Every option at its default, and slope_std="learn" where all arms share one context."""

    name = "rolin"
    models = "shared linear + arm effects; slopes per arm where arms share the context"
    group: ClassVar[Group] = "rolin"
    policy: type[rolin.LinearPolicy] = rolin.RoLinTS
    options: ClassVar[dict[str, Any]] = {}
    blocks: ClassVar[bool] = False
    """Whether one context for all arms is given as a block of columns per arm, instead of with slopes."""

    def build(self, seed: int) -> None:
        """Make the policy."""
        self._one_context = self.shape.shared and not self.blocks
        n_features, options = self.shape.n_features, self.options
        if self._one_context:
            n_features, options = self.shape.n_situation, {"slope_std": "learn", **options}
        self._policy = self.policy(n_features=n_features, seed=seed, **options)

    def _contexts(self, question: Question) -> Floats:
        """Return one context for all arms, or one per arm."""
        if self._one_context:
            assert question.situation is not None
            return question.situation
        return question.contexts

    def decide(self, prepared: Question) -> rolin.Decision:
        """Decide."""
        return self._policy.decide(self._contexts(prepared), prepared.arms)

    def index(self, prepared: Question, answer: rolin.Decision) -> int:
        """Return the index of the arm on the page."""
        return prepared.arms.index(answer.arm)

    def update(self, prepared: Question, answer: rolin.Decision, reward: float) -> None:
        """Learn from the decision."""
        self._policy.update(answer.arm, answer.context, reward)

    def probabilities(self, question: Question) -> Floats | None:
        """Return the exact probabilities."""
        return self._policy.probabilities(self._contexts(question), question.arms)

    def observe(self, question: Question, index: int, reward: float, propensity: float) -> None:
        """Learn from a logged decision."""
        contexts = self._contexts(question)
        self._policy.update(
            question.arms[index], contexts if self._one_context else contexts[index], reward
        )

    def coverage(self, probes: list[Probe]) -> float | None:
        """Return the share of 90 % intervals that contain the mean reward."""
        inside = []
        for probe in probes:
            x = probe.situations if self._one_context else probe.contexts
            assert x is not None
            low, high = self._policy.predict(x, probe.arms).interval(0.9)
            inside.append((low <= probe.means) & (probe.means <= high))
        return float(np.mean(np.concatenate(inside)))


# All scales and an intercept, whatever the defaults are.
_LEARNED = dict.fromkeys(("coef_std", "arm_std", "noise_std", "intercept_std"), "learn")


def _study(label: str, kind: type[rolin.LinearPolicy], **options: Any) -> type[Policy]:
    """Return a contender of the study, with all scales learned."""
    chosen = "".join(f", {option} = {value:g}" for option, value in options.items())
    attributes = {
        "name": f"rolin {label}",
        "group": "study",
        "policy": kind,
        "options": {**_LEARNED, **options},
        "__doc__": f"{kind.__name__} with an intercept and all scales learned{chosen}.",
    }
    return type(label, (Policy,), attributes)


class Slopes(Policy):
    """RoLinTS with slope_std="learn" in all worlds, every other option at its default."""

    name = "rolin slopes"
    models = "shared linear + arm effects + slopes per arm"
    group = "study"
    options: ClassVar[dict[str, Any]] = {"slope_std": "learn"}


class InBlocks(Policy):
    """RoLinTS with every option at its default; one context for all arms is given in a block of columns per arm."""

    name = "rolin blocks"
    models = "shared linear + arm effects"
    group = "study"
    blocks = True


class SlopesUCB(Slopes):
    """RoLinUCB with slope_std="learn", every other option at its default."""

    name = "rolin slopes UCB"
    policy = rolin.RoLinUCB


class LearnedLinTS(Policy):
    """Thompson sampling without arm effects, the other scales learned."""

    name = "rolin LinTS"
    models = "shared linear"
    group = "study"
    policy = rolin.LinTS
    options: ClassVar[dict[str, Any]] = {k: v for k, v in _LEARNED.items() if k != "arm_std"}
    blocks = True


class Logistic(Policy):
    """LogisticRoLinTS with every option at its default, for binary rewards."""

    name = "rolin LogisticRoLinTS"
    models = "shared linear + arm effects, logistic"
    group = "study"
    policy = rolin.LogisticRoLinTS
    blocks = True

    @classmethod
    def refuses(cls, shape: Shape) -> str | None:
        """Reject rewards that are not binary."""
        return None if shape.binary else "rewards must be 0 or 1"

    def coverage(self, probes: list[Probe]) -> float | None:
        """Return the coverage in simulated worlds only: a logit at a mean context is not that of a mean."""
        return None if self.shape.n_situation else super().coverage(probes)


CONTENDERS = [
    Policy,
    Slopes,
    InBlocks,
    SlopesUCB,
    *(_study(f"RoLinTS {e:g}", rolin.RoLinTS, exploration=e) for e in (1.0, 0.5, 0.25, 0.1)),
    _study("RoLinUCB", rolin.RoLinUCB),
    _study("Greedy", rolin.Greedy),
    LearnedLinTS,
    Logistic,
]
