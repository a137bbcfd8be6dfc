"""Means and standard deviations of a catalogue's arms, kept up to date with a posterior.

An arm's features do not change, so q = x'M⁻¹x follows every change of M⁻¹: the difference to the M⁻¹ that
q belongs to is taken apart into a few steps ee', as many as there were rewards since, and all of them are
applied in one pass over the features. O(K d) for each reward, whatever the rule.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rolin._support.arms import Name
from rolin.catalogue import kernels as passes
from rolin.catalogue.storage import BLOCK, Shelf
from rolin.errors import NotFiniteError
from rolin.model import kernels
from rolin.model.posterior import Posterior

__all__ = ["Following", "refuse_overflow", "threads"]

Floats = NDArray[np.float64]
Places = NDArray[np.int64]
_EPS = float(np.finfo(float).eps)
# What is smaller than this, relative to M⁻¹, is its rounding.
_ROUNDING = 32 * _EPS
# How much rounding may gather in q, relative to q, before it is computed anew.
_WEAR = 1e-10


@cache
def threads() -> ThreadPoolExecutor:
    """Return the threads that passes are made with, one per core."""
    cores = (
        os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    )
    return ThreadPoolExecutor(len(cores), thread_name_prefix="rolin-catalogue")


if hasattr(os, "register_at_fork"):  # a child has the pool, but none of its threads
    os.register_at_fork(after_in_child=threads.cache_clear)


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
    own
        Whether what is on the shelf are the arms' contexts, rather than what contexts are made of.
    """

    def __init__(self, posterior: Posterior, shelf: Shelf, *, means: bool, own: bool) -> None:
        self._posterior, self._shelf, self._means, self._own = posterior, shelf, means, own
        self.rows = np.zeros(shelf.capacity, dtype=np.int32)
        """(capacity,): the posterior's row of each arm, 0 of one that was never seen."""
        kept = shelf.capacity if means else 0
        self._q = np.zeros(kept)
        self.mean, self.std = np.empty(kept), np.empty(kept)
        self._apart = np.zeros(shelf.capacity, dtype=np.bool_)
        self._of: Any = None  # the index of names that rows belong to,
        self._changes = -1  # as it was then
        self._renewals = -1  # of the posterior, when weights were last looked at
        self._weights = np.zeros(0)  # of the posterior's rows, by then
        self._places = np.zeros(
            0, dtype=np.int64
        )  # of the posterior's rows, -1 if not on the shelf
        self._synced: Floats | None = None  # the M⁻¹ that q belongs to,
        self._first = np.zeros((0, 0))  # and the one that it was computed from
        self._steps_taken, self._look_at = 0, 1
        self._last: Any = None  # what mean and std belong to

    # -- which arms have been seen -------------------------------------------------------------

    def find_rows(self) -> None:
        """Find the rows of arms that have been seen since."""
        index, shelf = self._posterior._index, self._shelf
        if shelf.capacity > len(self.rows):
            self._grow()
        known = len(self._places)
        if self._of is not index or self._changes != index.changes or known > len(index):
            self.rows[:] = 0
            self._apart[:] = False
            self._of, self._changes, known = index, index.changes, 0
            self._weights, self._places = np.zeros(0), np.zeros(0, dtype=np.int64)
            self._last = None
        new = index.names[known:]
        if new:
            places = shelf.find(new)
            here = places >= 0
            self.rows[places[here]] = 1 + known + np.flatnonzero(here)
            self._places = np.concatenate([self._places, places])
            self._weights = np.concatenate([self._weights, np.full(len(new), -1.0)])
        if self._own:
            self._find_apart()

    def _grow(self) -> None:
        more = self._shelf.capacity - len(self.rows)
        self.rows = np.concatenate([self.rows, np.zeros(more, dtype=np.int32)])
        self._apart = np.concatenate([self._apart, np.zeros(more, dtype=np.bool_)])
        if self._means:
            self._q, self.mean, self.std = (
                np.concatenate([old, np.zeros(more)]) for old in (self._q, self.mean, self.std)
            )

    @property
    def apart(self) -> Places:
        """Places of arms that were seen in other contexts than theirs, where x̄ is not x."""
        n = self._shelf.n
        return np.flatnonzero(self._apart[:n] & self._shelf.offered[:n])

    def _find_apart(self) -> None:
        """Find arms whose mean context is not what is on the shelf, in the precision that it has there."""
        arms = self._posterior._arms[1 : 1 + len(self._places)]
        weights = arms[:, kernels.WEIGHT]
        if self._renewals != self._posterior.renewals:  # weights may be what they were
            self._weights[:] = -1.0
            self._renewals = self._posterior.renewals
        changed = np.flatnonzero((weights != self._weights) & (self._places >= 0))
        self._weights[changed] = weights[changed]
        for start in range(0, len(changed), BLOCK):
            some = changed[start : start + BLOCK]
            places = self._places[some]
            seen = arms[some, kernels.CONTEXT :]
            if self._shelf.dtype == np.float32:
                with np.errstate(over="ignore"):
                    seen = seen.astype(np.float32)
            self._apart[places] = (seen != self._shelf.features(places)).any(axis=1)

    def arms_added(self, names: Sequence[Name], places: Places) -> None:
        """Arms have come to the shelf; some of them may have been seen before."""
        self._last = None
        if self._shelf.capacity > len(self.rows):
            self._grow()
        self._apart[places] = False
        self.rows[places] = 0
        row_of = self._posterior._index.row_of
        for name, place in zip(names, places.tolist(), strict=True):
            row = row_of.get(name, 0)
            if 0 < row <= len(self._places):  # those after that are looked for later
                self.rows[place] = row
                self._places[row - 1], self._weights[row - 1] = place, -1.0
        if self._synced is not None:
            x = self._shelf.features(places)
            if len(self._synced) > x.shape[1]:
                x = np.column_stack([x, np.ones(len(x))])
            self._q[places] = np.einsum("ij,ij->i", x @ self._synced, x)

    def arms_removed(self, places: Places) -> None:
        """Arms have left the shelf."""
        self._last = None
        rows = self.rows[places]
        self._places[rows[rows > 0] - 1] = -1
        self.rows[places] = 0

    # -- means and standard deviations ---------------------------------------------------------

    def update(self, meanwhile: Callable[[], object]) -> None:
        """Bring means and standard deviations up to date.

        Parameters
        ----------
        meanwhile
            Called once, just before the pass over the features: other work for the threads.
        """
        self.find_rows()
        posterior = self._posterior
        # between two renewals, every reward adds to the count
        now = (posterior.renewals, float(posterior._numbers[kernels.COUNT]))
        if self._last == now:
            meanwhile()
            return
        vectors, sign = self._steps(posterior._coef, posterior._factor)
        meanwhile()
        try:
            self._last = None
            self._renew(vectors, sign)
            self._look_apart()
        except BaseException:
            self._synced = None  # some blocks have been renewed, others perhaps not
            raise
        self._last = now

    def _steps(self, coef: Floats, factor: Floats) -> tuple[Floats, float]:
        """Return what to multiply features with, θ̂ and the steps of M⁻¹, and whether these go down or up."""
        size, synced = len(coef), self._synced
        found, steps, sign = -1, np.empty((size // 2, size)), -1.0
        now = np.empty((size, size))
        passes.covariance(factor, now)
        if synced is not None and synced.shape == now.shape:
            found = passes.steps_down(synced, now, _ROUNDING, steps)
            self._steps_taken += max(found, 0)
        if found < 0 or self._is_worn(now):
            # From nothing, all of it: at first, when scales change, and when much rounding has gathered.
            found, steps, sign = size, factor, 1.0
            self._q[:] = 0.0
            self._synced, self._first = now, now.copy()
            self._steps_taken, self._look_at = 0, 1
        vectors = np.empty((1 + found, 1 + self._shelf.width))
        for own, vector in zip(vectors, (coef, *steps[:found]), strict=True):
            own[1:] = vector[: self._shelf.width]
            own[0] = vector[self._shelf.width :].sum()  # the intercept
        return vectors, sign

    def _is_worn(self, now: Floats) -> bool:
        """Whether rounding has gathered in q: as many as there were steps, of the size that q was at first.

        How much smaller q may be by now is the smallest eigenvalue of M⁻¹ relative to what it was. It is
        looked at when the steps have doubled.
        """
        if self._steps_taken < self._look_at:
            return False
        self._look_at = 2 * self._steps_taken
        try:
            root = np.linalg.inv(np.linalg.cholesky(self._first))
            least = float(np.linalg.eigvalsh(root @ now @ root.T)[0])
        except np.linalg.LinAlgError:
            return True
        return not self._steps_taken * _EPS < _WEAR * least

    def _renew(self, vectors: Floats, sign: float) -> None:
        posterior, shelf = self._posterior, self._shelf

        def renew(block: tuple[int, int, Any]) -> int:
            start, stop, x = block
            part = slice(start, stop)
            wrong = passes.renew(
                x, self.rows[part], shelf.offered[part], posterior._arms, posterior._numbers,
                vectors, sign, self._q[part], self.mean[part], self.std[part],
            )  # fmt: skip
            return start + wrong if wrong >= 0 else -1

        refuse_overflow(shelf, threads().map(renew, shelf.blocks()))

    def _look_apart(self) -> None:
        """Look at arms by themselves that were seen in other contexts than theirs."""
        places = self.apart
        for start in range(0, len(places), BLOCK):
            some = places[start : start + BLOCK]
            rows = self.rows[some].astype(np.int64)
            _, table = self._posterior.score(self._shelf.features(some), rows, np.zeros(len(some)))
            self.mean[some], self.std[some] = table[0], table[1]

    @property
    def nbytes(self) -> int:
        """Bytes that it takes."""
        arrays = (self.rows, self._q, self.mean, self.std, self._apart, self._weights, self._places)
        return sum(array.nbytes for array in arrays)


def refuse_overflow(shelf: Shelf, wrong: Any) -> None:
    """Wait for all blocks, and name the first arm whose numbers are not finite."""
    places = [place for place in wrong if place >= 0]
    if places:
        raise NotFiniteError(
            f"arm {shelf.name(min(places))!r}: its features, or what was learned, are too large to compute with"
        )
