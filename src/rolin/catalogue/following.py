"""Means and standard deviations of a catalogue's arms, kept up to date with a posterior.

An arm's features do not change, so q = x'M⁻¹x follows every change of M⁻¹: the difference to the M⁻¹ that
q belongs to is taken apart into a few steps ee', as many as there were rewards since, and all of them are
applied in one pass over the features. O(K d) for each reward, whatever the rule.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rolin import kernels
from rolin.catalogue.shelf import BLOCK, Shelf
from rolin.kernels import catalogue as passes
from rolin.posterior import Posterior

__all__ = ["Following", "threads"]

Floats = NDArray[np.float64]
_EPS = float(np.finfo(float).eps)
# What is smaller than this, relative to M⁻¹, is its rounding.
_ROUNDING = 32 * _EPS
# How much rounding, relative to the mean eigenvalue of M⁻¹, may gather in q before it is computed anew.
_WEAR = 1e-11


@cache
def threads() -> ThreadPoolExecutor:
    """Return the threads that passes are made with, one per core."""
    cores = (
        os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    )
    return ThreadPoolExecutor(len(cores), thread_name_prefix="rolin-catalogue")


class Following:
    """What a posterior says of the arms on a shelf, brought up to date when it is asked for.

    Parameters
    ----------
    posterior
        What is followed.
    shelf
        The arms.
    means
        Whether means and standard deviations are kept. Joint sampling needs none, only rows.
    """

    def __init__(self, posterior: Posterior, shelf: Shelf, *, means: bool) -> None:
        self._posterior, self._shelf, self._means = posterior, shelf, means
        self.rows = np.zeros(shelf.capacity, dtype=np.int32)
        """(capacity,): the posterior's row of each arm, 0 of one that was never seen."""
        kept = shelf.capacity if means else 0
        self._q = np.zeros(kept)
        self.mean, self.std = np.empty((2, kept))
        self._of: tuple[Any, int] = (None, -1)  # the index of names that rows belong to
        self._known = 0  # names of the index that have been looked up
        self._weights = np.zeros(0)  # of the posterior's rows, when they were last looked at
        self._places = np.zeros(
            0, dtype=np.int64
        )  # of the posterior's rows, -1 if not on the shelf
        self._apart: set[int] = set()  # places of arms that were seen in other contexts than theirs
        self._synced: Floats | None = None  # the M⁻¹ that q belongs to
        self._wear = 0.0
        self._last: tuple[Any, ...] = ()  # what mean and std belong to

    # -- which arms have been seen -------------------------------------------------------------

    def find_rows(self) -> None:
        """Find the rows of arms that have been seen since."""
        index = self._posterior._index
        shelf = self._shelf
        if shelf.capacity > len(self.rows):
            self.rows = np.concatenate(
                [self.rows, np.zeros(shelf.capacity - len(self.rows), dtype=np.int32)]
            )
        if self._of != (index, index.changes) or self._known > len(index):
            self.rows[:] = 0
            self._of, self._known = (index, index.changes), 0
            self._weights, self._places = np.zeros(0), np.zeros(0, dtype=np.int64)
            self._apart.clear()
            self._last = ()
        new = index.names[self._known :]
        if new:
            places = shelf.find(new)
            here = places >= 0
            self.rows[places[here]] = 1 + self._known + np.flatnonzero(here)
            self._places = np.concatenate([self._places, places])
            self._weights = np.concatenate([self._weights, np.full(len(new), -1.0)])
            self._known = len(index)
        self._find_apart()

    @property
    def apart(self) -> NDArray[np.int64]:
        """Places of arms that were seen in other contexts than theirs, where x̄ is not x."""
        places = np.fromiter(self._apart, np.int64, len(self._apart))
        return places[self._shelf.offered[places]]

    def _find_apart(self) -> None:
        """Find arms whose mean context is not what is on the shelf."""
        arms = self._posterior._arms[1 : 1 + self._known]
        weights = arms[:, kernels.WEIGHT]
        changed = np.flatnonzero((weights != self._weights) & (self._places >= 0))
        if not len(changed) or self._shelf.width != arms.shape[1] - kernels.CONTEXT:
            return
        self._weights[changed] = weights[changed]
        places = self._places[changed]
        for start in range(0, len(changed), BLOCK):
            part = slice(start, start + BLOCK)
            x = self._shelf.features(places[part])
            same = (arms[changed[part], kernels.CONTEXT :] == x).all(axis=1)
            self._apart.difference_update(places[part][same].tolist())
            self._apart.update(places[part][~same].tolist())

    def arms_added(self, names: list[Any]) -> None:
        """Arms have come to the shelf; some of them may have been seen before."""
        index = self._posterior._index
        self.find_rows()
        shelf, first = self._shelf, self._shelf.n - len(names)
        for i, name in enumerate(names):
            row = index.row_of.get(name, 0)
            self.rows[first + i] = row
            if row:
                self._places[row - 1], self._weights[row - 1] = first + i, -1.0
        if not self._means:
            return
        grown = shelf.capacity - len(self._q)
        if grown > 0:
            self._q = np.concatenate([self._q, np.zeros(grown)])
            self.mean, self.std = (
                np.concatenate([old, np.empty(grown)]) for old in (self.mean, self.std)
            )
        self._find_apart()
        if self._synced is not None:
            x = shelf.features(np.arange(first, shelf.n))
            if self._synced.shape[0] > x.shape[1]:
                x = np.column_stack([x, np.ones(len(x))])
            self._q[first : shelf.n] = np.einsum("ij,ij->i", x @ self._synced, x)
        self._last = ()

    def arms_removed(self, names: list[Any]) -> None:
        """Arms have left the shelf."""
        index = self._posterior._index
        for name in names:
            row = index.row_of.get(name, 0)
            if 0 < row <= self._known and self._places[row - 1] >= 0:
                self._apart.discard(int(self._places[row - 1]))
                self._places[row - 1] = -1
        self._last = ()

    # -- means and standard deviations ---------------------------------------------------------

    def update(self, meanwhile: Callable[[], object]) -> None:
        """Bring means and standard deviations up to date.

        Parameters
        ----------
        meanwhile
            Called once, just before the pass over the features: other work for the threads.
        """
        self.find_rows()
        posterior, shelf = self._posterior, self._shelf
        coef, factor = posterior._coef, posterior._factor
        weights = posterior._arms[1 : 1 + self._known, kernels.WEIGHT]
        now = (coef, factor, posterior._numbers[: kernels.COUNT + 1], weights)
        if len(self._last) != len(now) or not all(
            a.shape == b.shape and (a == b).all() for a, b in zip(self._last, now, strict=True)
        ):
            vectors, sign = self._steps(coef, factor)
            meanwhile()
            self._renew(vectors, sign)
            self._last = tuple(np.array(part) for part in now)
        else:
            meanwhile()
        if self._apart:
            places = self.apart
            rows = self.rows[places].astype(np.int64)
            _, table = posterior.score(shelf.features(places), rows, np.zeros(len(places)))
            self.mean[places], self.std[places] = table[0], table[1]

    def _steps(self, coef: Floats, factor: Floats) -> tuple[Floats, float]:
        """Return what to multiply features with, θ̂ and the steps of M⁻¹, and whether these go down or up."""
        size, synced = len(coef), self._synced
        found, steps, sign = -1, np.empty((size // 2, size)), -1.0
        now = np.empty((size, size))
        passes.covariance(factor, now)
        if synced is not None and synced.shape == now.shape:
            scale = float(np.diag(synced).max())
            found = passes.steps_down(synced, now, _ROUNDING * scale, steps)
            self._wear += max(found, 0) * _EPS * scale
        if found < 0 or self._wear * size > _WEAR * np.trace(now):
            # From nothing, all of it: at first, when scales change, and when much rounding has gathered.
            found, steps, sign = size, factor, 1.0
            self._q[:] = 0.0
            self._synced, self._wear = now, 0.0
        vectors = np.empty((1 + found, 1 + self._shelf.width))
        for own, vector in zip(vectors, (coef, *steps[:found]), strict=True):
            own[1:] = vector[: self._shelf.width]
            own[0] = vector[self._shelf.width :].sum()  # the intercept
        return vectors, sign

    def _renew(self, vectors: Floats, sign: float) -> None:
        posterior, shelf = self._posterior, self._shelf

        def renew(block: tuple[int, int, Any]) -> None:
            start, stop, x = block
            part = slice(start, stop)
            passes.renew(
                x, self.rows[part], shelf.offered[part], posterior._arms, posterior._numbers,
                vectors, sign, self._q[part], self.mean[part], self.std[part],
            )  # fmt: skip

        self._last = ()  # until all blocks are done
        try:
            list(threads().map(renew, shelf.blocks()))
        except BaseException:
            self._synced = None  # some blocks have been renewed, others not
            raise

    @property
    def nbytes(self) -> int:
        """Bytes that it takes."""
        arrays = (self.rows, self._q, self.mean, self.std, self._weights, self._places)
        return sum(array.nbytes for array in arrays)
