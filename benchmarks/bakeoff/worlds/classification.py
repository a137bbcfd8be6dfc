"""Worlds from classification sets, most of them of scikit-learn: an arm per class, reward 1 if it is the right one."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import numpy as np

from bakeoff.worlds.questions import Blocks, Floats, Ints, Probe, Questions, Shape, World

__all__ = ["Classification", "load_mixtures"]

# The made data set. Its size is that of the data set `letter` of the UCI repository. The spreads make it about as hard:
# one linear model per class finds about 60 % of the classes, the 7 nearest neighbors about 95 %.
_CLASSES, _FEATURES, _PARTS, _ROWS = 26, 16, 4, 20_000
_BETWEEN_CLASSES, _WITHIN_CLASS = 0.7, 1.2


class Classification(World):
    """Rows of a data set arrive at random; the candidates are all its classes.

    Parameters
    ----------
    name
        Name of the world.
    load
        Function that returns the data set, such as one of scikit-learn.
    components
        Number of principal components to keep; `None` for all features as they are. Both are
        standardized, without the classes; a feature that never varies is 0.
    """

    def __init__(self, name: str, load: Callable[[], Any], components: int | None = None) -> None:
        self.name = name
        self._load, self._components = load, components

    @cached_property
    def data(self) -> tuple[Floats, Ints]:
        """The features and the classes."""
        found = self._load()
        x = found.data.astype(np.float64)
        if self._components is not None:
            centered = x - x.mean(axis=0)
            _, _, directions = np.linalg.svd(centered, full_matrices=False)
            x = centered @ directions[: self._components].T
        spread = x.std(axis=0)
        spread[spread == 0.0] = 1.0
        return (x - x.mean(axis=0)) / spread, found.target.astype(np.int64)

    def draw(self, rounds: int, run: int) -> Questions:
        """Return rounds with rows that are drawn with replacement."""
        x, classes = self.data
        n_arms = int(classes.max()) + 1
        rows = self.generator(run).integers(len(x), size=rounds)
        arms = np.arange(n_arms)
        pages = np.broadcast_to(arms, (rounds, n_arms))
        blocks = Blocks(pages, x[rows], n_arms)
        # The mean reward of an arm over all rows is the share of its class.
        average = np.broadcast_to(x.mean(axis=0), (n_arms, x.shape[1]))
        return Questions(
            shape=Shape(n_arms, n_arms * x.shape[1], x.shape[1], None, True, True),
            arms=pages,
            contexts=blocks,
            rewards=(classes[rows][:, None] == arms).astype(np.float64),
            situations=x[rows],
            probes=[
                Probe(
                    arms.tolist(),
                    blocks.of(arms, average),
                    np.bincount(classes, minlength=n_arms) / len(classes),
                    average,
                )
            ],
        )


def load_mixtures() -> SimpleNamespace:
    """Return a made data set whose classes are mixtures of several Gaussians, so that no linear model is right."""
    rng = np.random.default_rng(26)
    centers = _BETWEEN_CLASSES * rng.standard_normal((_CLASSES, 1, _FEATURES))
    centers = centers + _WITHIN_CLASS * rng.standard_normal((_CLASSES, _PARTS, _FEATURES))
    classes, parts = rng.integers(_CLASSES, size=_ROWS), rng.integers(_PARTS, size=_ROWS)
    data = centers[classes, parts] + rng.standard_normal((_ROWS, _FEATURES))
    return SimpleNamespace(data=data, target=classes)
