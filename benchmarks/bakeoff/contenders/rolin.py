"""`rolin` with nothing tuned, and for the study with other settings."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

import rolin
from bakeoff.contenders.base import Contender, Group
from bakeoff.worlds.questions import Floats, Probe, Question, Shape

__all__ = ["CONTENDERS", "Policy"]


class Policy(Contender):
    """A policy of `rolin`, with every option at its default."""

    name = "rolin"
    models = "shared linear + arm effects"
    group: ClassVar[Group] = "rolin"
    policy: type[rolin.LinearPolicy] = rolin.RoLinTS
    options: ClassVar[dict[str, Any]] = {}

    def build(self, seed: int) -> None:
        """Make the policy."""
        self._policy = self.policy(n_features=self.shape.n_features, seed=seed, **self.options)

    def decide(self, prepared: Question) -> rolin.Decision:
        """Decide."""
        return self._policy.decide(prepared.contexts, prepared.arms)

    def index(self, prepared: Question, answer: rolin.Decision) -> int:
        """Return the index of the arm on the page."""
        return prepared.arms.index(answer.arm)

    def update(self, prepared: Question, answer: rolin.Decision, reward: float) -> None:
        """Learn from the decision."""
        self._policy.update(answer.arm, answer.context, reward)

    def probabilities(self, question: Question) -> Floats | None:
        """Return the exact probabilities."""
        return self._policy.probabilities(question.contexts, question.arms)

    def observe(self, question: Question, index: int, reward: float, propensity: float) -> None:
        """Learn from a logged decision."""
        self._policy.update(question.arms[index], question.contexts[index], reward)

    def coverage(self, probes: list[Probe]) -> float | None:
        """Return the share of 90 % intervals that contain the mean reward."""
        inside = []
        for probe in probes:
            low, high = self._policy.predict(probe.contexts, probe.arms).interval(0.9)
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


class LearnedLinTS(Policy):
    """Thompson sampling without arm effects, the other scales learned."""

    name = "rolin LinTS"
    models = "shared linear"
    group = "study"
    policy = rolin.LinTS
    options: ClassVar[dict[str, Any]] = {k: v for k, v in _LEARNED.items() if k != "arm_std"}


class Logistic(Policy):
    """LogisticRoLinTS with every option at its default, for binary rewards."""

    name = "rolin LogisticRoLinTS"
    models = "shared linear + arm effects, logistic"
    group = "study"
    policy = rolin.LogisticRoLinTS

    @classmethod
    def refuses(cls, shape: Shape) -> str | None:
        """Reject rewards that are not binary."""
        return None if shape.binary else "rewards must be 0 or 1"

    def coverage(self, probes: list[Probe]) -> float | None:
        """Return the coverage in simulated worlds only: a logit at a mean context is not that of a mean."""
        return None if self.shape.n_situation else super().coverage(probes)


CONTENDERS = [
    Policy,
    *(_study(f"RoLinTS {e:g}", rolin.RoLinTS, exploration=e) for e in (1.0, 0.5, 0.25, 0.1)),
    _study("RoLinUCB", rolin.RoLinUCB),
    _study("Greedy", rolin.Greedy),
    LearnedLinTS,
    Logistic,
]
