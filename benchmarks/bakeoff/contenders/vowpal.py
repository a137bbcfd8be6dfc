"""Vowpal Wabbit's contextual bandits with action features: one linear model, learned by gradient steps.

The features are those of `rolin`, given in parts: situation, arm, and the arm's name. The engine multiplies the
situation with both (`-q`), as its tutorials do. Costs are negative rewards. Time is that of `predict` and `learn`
on parsed examples.
"""

from __future__ import annotations

import numpy as np
from peers.vowpal import Engine
from vowpalwabbit import Example, Workspace

from bakeoff.contenders.base import Contender
from bakeoff.worlds.questions import Floats, Question

__all__ = ["CONTENDERS"]


class Vowpal(Engine, Contender):
    """SquareCB, with its defaults."""

    name = "Vowpal Wabbit squarecb"
    models = "shared linear + arm weights × situation; SGD"
    exploration = "--squarecb"
    bounded = False
    """Whether the exploration takes bounds of the costs."""
    situation_alone = True
    """Whether the situation has weights of its own, besides its products with the arm."""

    def build(self, seed: int) -> None:
        """Start the engine."""
        shape = self.shape
        crosses = ""
        if shape.n_situation:
            self.first_action = 1
            crosses = "-q sa" if shape.items is None else "-q sa -q si"
            if not self.situation_alone:
                crosses += " --ignore_linear s"
        bounds = f"--cb_min_cost {-shape.high} --cb_max_cost {-shape.low}" if self.bounded else ""
        self._vw = Workspace(
            f"--cb_explore_adf {self.exploration} {crosses} {bounds} --quiet --random_seed {seed}"
        )
        arms = range(shape.n_arms)
        items = [""] * shape.n_arms
        if shape.items is not None:
            items = [_namespace("i", row) for row in shape.items]
        self._actions = [f"|a {arm} {item}" for arm, item in zip(arms, items, strict=True)]

    def prepare(self, question: Question) -> list[Example]:
        """Parse the page."""
        lines = [self._actions[arm] for arm in question.arms]
        if question.situation is not None:
            lines.insert(0, "shared " + _namespace("s", question.situation))
        else:
            pairs = zip(lines, question.contexts, strict=True)
            lines = [f"{line} {_namespace('i', row)}" for line, row in pairs]
        examples: list[Example] = self._vw.parse(lines)
        return examples

    def probabilities(self, question: Question) -> Floats:
        """Return the probabilities that the engine predicts."""
        prepared = self.prepare(question)
        found: Floats = np.maximum(self.decide(prepared), 0.0)  # as in `index`
        self.finish(prepared)
        return found / found.sum()

    def observe(self, question: Question, index: int, reward: float, propensity: float) -> None:
        """Learn from a labeled example."""
        prepared = self.prepare(question)
        self.write_label(prepared, index, reward, propensity)
        self.update(prepared, None, reward)
        self.finish(prepared)


def _namespace(name: str, features: np.ndarray) -> str:
    """Return the features as text, without zeros."""
    present = np.flatnonzero(features)
    values = zip(present.tolist(), features[present].tolist(), strict=True)
    return f"|{name} " + " ".join(f"{j}:{value:.9g}" for j, value in values)


class Tuned(Vowpal):
    """SquareCB among the arms that may be the best, with the settings that were best on the development worlds.

    Of 29 settings, in two runs of 2000 rounds.
    """

    name = "Vowpal Wabbit squarecb, tuned"
    exploration = "--squarecb --elim --learning_rate 2"
    bounded = True
    situation_alone = False


class Epsilon(Vowpal):
    """The greedy arm, and a random one in 5 % of the rounds; 5 % is the engine's default."""

    name = "Vowpal Wabbit epsilon 0.05"
    exploration = "--epsilon 0.05"


# The engine's default for these bounds in SquareCB. With that of RegCB itself, 0.1, nearly all arms may be the best
# for thousands of rounds.
_MELLOWNESS = "--mellowness 0.001"


class RegCB(Vowpal):
    """A random arm among those that may be the best, by confidence bounds with a mellowness of 0.001."""

    name = "Vowpal Wabbit regcb"
    exploration = f"--regcb {_MELLOWNESS}"
    bounded = True


class RegCBOpt(Vowpal):
    """The arm with the highest upper confidence bound, with a mellowness of 0.001."""

    name = "Vowpal Wabbit regcbopt"
    exploration = f"--regcbopt {_MELLOWNESS}"
    bounded = True


CONTENDERS = [Vowpal, Tuned, Epsilon, RegCB, RegCBOpt]
