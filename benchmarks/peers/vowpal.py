"""Vowpal Wabbit's engine: contextual bandit with action features, SquareCB exploration.

Two calls are timed, `Workspace.predict(examples)` and `Workspace.learn(examples)`, on K examples that
were parsed before. The other work of a round is not timed: writing the features into examples, sampling
the action from the returned probabilities, writing the label, and releasing the examples. For `rolin`,
the whole round is timed.

The learner is stochastic gradient descent on point estimates, with no posterior: O(K d).
"""

from __future__ import annotations

import numpy as np
from vowpalwabbit import Example, Workspace

from peers.base import Contender, Floats, Player


class Engine(Player):
    """The calls of the engine on examples that were parsed before."""

    rng: np.random.Generator
    first_action = 0
    """Index of the example of the first action: 1 if an example that all actions share is before it."""
    _vw: Workspace

    def decide(self, prepared: list[Example]) -> list[float]:
        """Return the probability of each action."""
        return self._vw.predict(prepared)  # type: ignore[no-any-return]  # untyped

    def index(self, prepared: list[Example], answer: list[float]) -> int:
        """Sample the action."""
        # With --elim, the engine sometimes returns a small negative number.
        self._cumulated = np.cumsum(np.maximum(answer, 0.0))
        at = self.rng.random() * self._cumulated[-1]
        return min(int(np.searchsorted(self._cumulated, at, side="right")), len(answer) - 1)

    def label(self, prepared: list[Example], index: int, reward: float) -> None:
        """Write the label of the sampled action."""
        before = self._cumulated[index - 1] if index else 0.0
        self.write_label(prepared, index, reward, self._cumulated[index] - before)

    def write_label(
        self, prepared: list[Example], index: int, reward: float, probability: float
    ) -> None:
        """Write action:cost:probability on the chosen example."""
        chosen = prepared[self.first_action + index]
        chosen.set_label_string(f"0:{-reward}:{max(probability, 1e-6)}")

    def update(self, prepared: list[Example], answer: list[float] | None, reward: float) -> None:
        """Learn from the labeled example."""
        self._vw.learn(prepared)

    def finish(self, prepared: list[Example]) -> None:
        """Release the examples: a label cannot be removed again."""
        self._vw.finish_example(prepared)


class VowpalWabbit(Engine, Contender):
    """The same d features, without a constant and without arm names."""

    name = "Vowpal Wabbit engine, squarecb"
    models = "shared linear, no arm effect; SGD"
    peer = "engine"
    arms_too = False

    def build(self, n_features: int, seed: int) -> None:
        """Start the engine without a constant, because the other contenders have none."""
        self._vw = Workspace(
            f"--cb_explore_adf --squarecb --noconstant --quiet --random_seed {seed}"
        )
        self._lines: dict[int, list[str]] = {}

    def warm(self, contexts: Floats, rewards: Floats) -> None:
        """Update every arm once."""
        for line, reward in zip(self._text(contexts), rewards, strict=True):
            prepared = self._vw.parse([f"0:{-reward}:1 {line}"])
            self._vw.learn(prepared)
            self.finish(prepared)

    def prepare(self, contexts: Floats) -> list[Example]:
        """Parse the K actions."""
        key = id(contexts)  # the arrays of a run live as long as the run
        if key not in self._lines:
            self._lines[key] = self._text(contexts)
        examples: list[Example] = self._vw.parse(self._lines[key])
        return examples

    def _text(self, contexts: Floats) -> list[str]:
        return [
            "|f "
            + " ".join(f"{j}:{value:.9g}" for j, value in enumerate(row))
            + (f" |a {name}" if self.arms_too else "")
            for name, row in zip(self.names, contexts.tolist(), strict=True)
        ]


class VowpalWabbitArms(VowpalWabbit):
    """With the name of the arm as one more feature: each arm has a weight, as it has an effect in `rolin`."""

    name = "Vowpal Wabbit engine, squarecb, arm names"
    models = "shared linear + arm weights; SGD"
    arms_too = True


CONTENDERS = [VowpalWabbit, VowpalWabbitArms]
