"""Worlds from the classification sets of scikit-learn: an arm per class, reward 1 if it is the right one."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from bakeoff.worlds.questions import Blocks, Floats, Ints, Probe, Questions, Shape, World

__all__ = ["Classification"]


class Classification(World):
    """Rows of a data set arrive at random; the candidates are all its classes.

    Parameters
    ----------
    name
        Name of the world.
    load
        Function of scikit-learn that returns the data set.
    components
        Number of principal components to keep; `None` for all features as they are. Both are
        standardized, without the classes.
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
        return (x - x.mean(axis=0)) / x.std(axis=0), found.target.astype(np.int64)

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
                )
            ],
        )
