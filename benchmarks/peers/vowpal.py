"""Vowpal Wabbit's engine: contextual bandit with action features, SquareCB exploration.

Inside the clock are two calls, `Workspace.predict(examples)` and `Workspace.learn(examples)`, on
K example objects that were parsed before. Outside it are what a user also has to do in every
round: writing the features into examples, sampling the action from the returned probabilities,
writing the label, and giving the examples back. `rolin`'s clock has all of its round in it.

The learner is stochastic gradient descent on point estimates, with no posterior: O(K d).
"""

from __future__ import annotations

import numpy as np
from vowpalwabbit import Example, Workspace

from peers.base import Contender, Floats


class VowpalWabbit(Contender):
    """The same d features and nothing else: no constant, no arm."""

    name = "Vowpal Wabbit engine, squarecb"
    models = "shared linear, no arm effect; SGD"
    peer = "engine"
    arms_too = False

    def build(self, n_features: int, seed: int) -> None:
        """Start the engine; without a constant, since the other contenders have none."""
        self._vw = Workspace(
            f"--cb_explore_adf --squarecb --noconstant --quiet --random_seed {seed}"
        )
        self._lines: dict[int, list[str]] = {}

    def warm(self, contexts: Floats, rewards: Floats) -> None:
        """See every arm once."""
        for line, reward in zip(self._text(contexts), rewards, strict=True):
            question = self._vw.parse([f"0:{-reward}:1 {line}"])
            self._vw.learn(question)
            self.finish(question)

    def prepare(self, contexts: Floats) -> list[Example]:
        """Parse the K actions."""
        key = id(contexts)  # the few questions of a run live as long as the run
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

    def decide(self, question: list[Example]) -> list[float]:
        """Return the probability of each action."""
        return self._vw.predict(question)  # type: ignore[no-any-return]  # untyped

    def index(self, question: list[Example], answer: list[float]) -> int:
        """Sample the action."""
        self._cumulated = np.cumsum(answer)
        at = self.rng.random() * self._cumulated[-1]
        return min(int(np.searchsorted(self._cumulated, at, side="right")), len(answer) - 1)

    def label(self, question: list[Example], index: int, reward: float) -> None:
        """Write action:cost:probability on the chosen example."""
        probability = self._cumulated[index] - (self._cumulated[index - 1] if index else 0.0)
        question[index].set_label_string(f"0:{-reward}:{max(probability, 1e-6)}")

    def update(self, question: list[Example], answer: list[float], reward: float) -> None:
        """Learn from the labelled example."""
        self._vw.learn(question)

    def finish(self, question: list[Example]) -> None:
        """Give the examples back: a label cannot be taken off again."""
        self._vw.finish_example(question)


class VowpalWabbitArms(VowpalWabbit):
    """One more feature, the arm's name: a weight for each arm, as `rolin` has an effect."""

    name = "Vowpal Wabbit engine, squarecb, arm names"
    models = "shared linear + arm weights; SGD"
    arms_too = True


CONTENDERS = [VowpalWabbit, VowpalWabbitArms]
