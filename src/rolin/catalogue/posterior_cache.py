"""Means and standard deviations of a catalogue's arms, kept up to date with a posterior.

The features of an arm do not change, so q = x'M⁻¹x can follow every change of M⁻¹. The difference between the current
M⁻¹ and the one that q belongs to is decomposed into a few rank-one steps ee', about as many as there were rewards
since. All steps are applied in one pass over the features: O(K d) per reward, for every rule.

If arms have slopes of their own, the variance of an arm without rewards is s₀² + x'(M⁻¹ + S)x, with the prior variances
S of the slopes. So q = x'(M⁻¹ + S)x is followed instead. What the pass writes for arms with rewards is then replaced:
they are predicted one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from rolin._support.arms import ArmIndex, Name
from rolin.catalogue import kernels
from rolin.catalogue.storage import BLOCK, ArmStore, Block, Slots
from rolin.catalogue.workers import each_block
from rolin.errors import NotFiniteError
from rolin.model.posterior import Posterior
from rolin.model.view import PosteriorView

__all__ = ["PosteriorCache", "reject_overflow"]

Floats = NDArray[np.float64]
_EPS = float(np.finfo(float).eps)
# Differences below this, relative to M⁻¹, are rounding errors of M⁻¹.
_ROUNDING = 32 * _EPS
# The rounding error that q may accumulate, relative to q, before it is recomputed.
_MAX_ERROR = 1e-10


class PosteriorCache:
    """What a posterior says about the arms of a store, updated when it is asked for.

    Parameters
    ----------
    posterior
        The posterior to follow.
    store
        The arms.
    with_predictions
        Whether to store means and standard deviations. Joint sampling only needs the rows.
    has_contexts
        Whether the stored features are the contexts themselves. If not, contexts are made from them and a situation.
    """

    def __init__(
        self, posterior: Posterior, store: ArmStore, *, with_predictions: bool, has_contexts: bool
    ) -> None:
        self._posterior, self._store = posterior, store
        self._with_predictions, self._has_contexts = with_predictions, has_contexts
        self.has_slopes = posterior.view().has_slopes
        """Whether the arms have slopes of their own."""
        self._forget()

    def _forget(self) -> None:
        """Begin again, with nothing known about the arms."""
        store = self._store
        self.rows = np.zeros(store.capacity, dtype=np.int32)
        """(capacity,): the posterior's row of each slot, 0 for an arm that was never seen."""
        size = store.capacity if self._with_predictions else 0
        self.mean, self.std = np.empty(size), np.empty(size)
        """(capacity,): predictions of each slot."""
        self._q = np.zeros(size)
        # Slots of arms that were seen in other contexts than the stored one.
        self._moved = np.zeros(store.capacity, dtype=np.bool_)
        # The names that `rows` belongs to: an index, and the number of its changes.
        self._index: ArmIndex | None = None
        self._index_changes = -1
        # For each row of the posterior: its slot (-1 if not in the store), and its weight when `_moved` was set.
        self._slots = np.zeros(0, dtype=np.int64)
        self._weights = np.zeros(0)
        self._renewals = -1  # of the posterior, when `_weights` was set
        # The M⁻¹ that q belongs to, and the one from which q was last computed without steps.
        self._synced: Floats | None = None
        self._recomputed_at = np.zeros((0, 0))
        # Steps since then, and at how many to check the error.
        self._n_steps, self._next_check = 0, 1
        # Renewals and count of the posterior that `mean` and `std` belong to.
        self._predicted_at: tuple[int, float] | None = None
        self._is_complete = True

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Change the cache, or the arms of its store. After a change that was interrupted, the cache begins again."""
        if not self._is_complete:
            self._forget()
        self._is_complete = False
        yield
        self._is_complete = True

    # -- which arms have been seen -------------------------------------------------------------

    def find_rows(self) -> PosteriorView:
        """Update the rows of the arms, and return the view of the posterior that they belong to."""
        with self.changing():
            return self._find_rows()

    def _find_rows(self) -> PosteriorView:
        view, store = self._posterior.view(), self._store
        index = view.arm_index
        if store.capacity > len(self.rows):
            self._grow()
        known = len(self._slots)
        if self._index is not index or self._index_changes != index.changes or known > len(index):
            self.rows[:] = 0
            self._moved[:] = False
            self._index, self._index_changes, known = index, index.changes, 0
            self._weights, self._slots = np.zeros(0), np.zeros(0, dtype=np.int64)
            self._predicted_at = None
        new = index.names[known:]
        if new:
            slots = store.find(new)
            stored = slots >= 0
            self.rows[slots[stored]] = 1 + known + np.flatnonzero(stored)
            self._slots = np.concatenate([self._slots, slots])
            self._weights = np.concatenate([self._weights, np.full(len(new), -1.0)])
        if self._has_contexts and not self.has_slopes:
            self._find_moved(view)
        return view

    def _grow(self) -> None:
        more = self._store.capacity - len(self.rows)
        self.rows = np.concatenate([self.rows, np.zeros(more, dtype=np.int32)])
        self._moved = np.concatenate([self._moved, np.zeros(more, dtype=np.bool_)])
        if self._with_predictions:
            self._q, self.mean, self.std = (
                np.concatenate([old, np.zeros(more)]) for old in (self._q, self.mean, self.std)
            )

    @property
    def one_by_one(self) -> Slots:
        """Slots of offered arms that a pass over the features cannot predict.

        Without slopes, they were seen in other contexts than the stored one: x̄ is not x. With slopes, they are all arms
        that were seen.
        """
        if self.has_slopes:
            return self._slots[self._slots >= 0]
        moved = np.flatnonzero(self._moved[: self._store.n])
        return moved[self._store.offered[moved]]

    def _find_moved(self, view: PosteriorView) -> None:
        """Compare mean contexts with stored features, in the precision of the store.

        Only arms whose weight has changed since the last comparison are looked at.
        """
        n = len(self._slots)
        weights, contexts = view.weights(n), view.mean_contexts(n)
        if self._renewals != view.renewals:  # the same weights may belong to other contexts
            self._weights[:] = -1.0
            self._renewals = view.renewals
        for start, features in self._store.arrays:
            kernels.compare_contexts(
                features, start, self._slots, weights, contexts, self._weights, self._moved
            )

    def arms_added(self, names: Sequence[Name], slots: Slots) -> None:
        """Account for arms that were added to the store, within `changing`; some may have been seen before."""
        self._predicted_at = None
        if self._store.capacity > len(self.rows):
            self._grow()
        self._moved[slots] = False
        rows = self._posterior.rows_of(names)
        rows[rows > len(self._slots)] = 0  # `find_rows` finds these later
        self.rows[slots] = rows
        seen = rows > 0
        self._slots[rows[seen] - 1], self._weights[rows[seen] - 1] = slots[seen], -1.0
        if self._synced is not None:
            x = self._store.features(slots)
            if len(self._synced) > x.shape[1]:
                x = np.column_stack([x, np.ones(len(x))])
            self._q[slots] = np.einsum("ij,ij->i", x @ self._synced, x)

    def arms_removed(self, slots: Slots) -> None:
        """Account for arms that were removed from the store, within `changing`."""
        self._predicted_at = None
        rows = self.rows[slots]
        self._slots[rows[rows > 0] - 1] = -1
        self.rows[slots] = 0

    # -- means and standard deviations ---------------------------------------------------------

    def update(self, meanwhile: Callable[[], object]) -> None:
        """Bring means and standard deviations up to date with the posterior.

        Parameters
        ----------
        meanwhile
            Called once, just before the pass over the features. It may start other work in the threads.
        """
        with self.changing():
            self._update(meanwhile)

    def _update(self, meanwhile: Callable[[], object]) -> None:
        view = self._find_rows()
        # Between two renewals, every reward adds to the count.
        now = (view.renewals, view.n_rewards)
        if self._predicted_at == now:
            meanwhile()
            return
        vectors, sign = self._steps(view)
        meanwhile()
        self._apply(view, vectors, sign)
        self._predict_one_by_one()
        self._predicted_at = now

    def _steps(self, view: PosteriorView) -> tuple[Floats, float]:
        """Return the vectors to multiply the features with, θ̂ and the steps of M⁻¹, and the sign of the steps."""
        size, synced = view.size, self._synced
        found, steps, sign = -1, np.empty((size // 2, size)), -1.0
        now = np.empty((size, size))
        kernels.covariance(view.factor, now)
        if view.slope_variance is not None:
            now[np.diag_indices(size)] += view.slope_variance
        if synced is not None and synced.shape == now.shape:
            found = kernels.decompose_difference(synced, now, _ROUNDING, steps)
            self._n_steps += max(found, 0)
        if found < 0 or self._is_inaccurate(now):
            # Recompute q from zero: the first time, after a change of scales, and against rounding errors.
            steps, sign = view.factor, 1.0
            if view.slope_variance is not None:
                steps = np.concatenate([steps, np.diag(np.sqrt(view.slope_variance))])
            found = len(steps)
            self._q[:] = 0.0
            self._synced, self._recomputed_at = now, now.copy()
            self._n_steps, self._next_check = 0, 1
        width = self._store.width
        vectors = np.zeros((1 + found, 1 + width))
        vectors[0, 1:], vectors[1:, 1:] = view.coef[:width], steps[:found, :width]
        if size > width:  # the intercept
            vectors[0, 0], vectors[1:, 0] = view.coef[width], steps[:found, width]
        return vectors, sign

    def _is_inaccurate(self, now: Floats) -> bool:
        """Return whether q may have accumulated too much rounding error.

        Every step adds an error relative to q as it was when it was last recomputed. The smallest eigenvalue of M⁻¹
        relative to the M⁻¹ of that time bounds how much smaller q is now. It is computed when the number of
        steps has doubled.
        """
        if self._n_steps < self._next_check:
            return False
        self._next_check = 2 * self._n_steps
        try:
            root = np.linalg.inv(np.linalg.cholesky(self._recomputed_at))
            least = float(np.linalg.eigvalsh(root @ now @ root.T)[0])
        except np.linalg.LinAlgError:
            return True
        return not self._n_steps * _EPS < _MAX_ERROR * least

    def _apply(self, view: PosteriorView, vectors: Floats, sign: float) -> None:
        """Apply the steps to q, and compute means and standard deviations, block by block."""
        # The arrays as they are now: a pass that was given up must not write into later ones.
        store, rows, q, mean, std = self._store, self.rows, self._q, self.mean, self.std

        def apply(block: Block) -> int:
            slots = block.slots
            wrong = kernels.update_predictions(
                block.features, rows[slots], store.offered[slots], view.arms, view.numbers,
                vectors, sign, q[slots], mean[slots], std[slots],
            )  # fmt: skip
            return block.start + wrong if wrong >= 0 else -1

        reject_overflow(store, each_block(store, apply))

    def _predict_one_by_one(self) -> None:
        """Predict the arms that the pass over the features cannot predict."""
        found = self.one_by_one
        for start in range(0, len(found), BLOCK):
            slots = found[start : start + BLOCK]
            rows = self.rows[slots].astype(np.int64)
            _, table = self._posterior.score(
                self._store.features(slots), rows, np.zeros(len(slots))
            )
            self.mean[slots], self.std[slots] = table[0], table[1]

    @property
    def nbytes(self) -> int:
        """Memory in bytes."""
        arrays = (self.rows, self._q, self.mean, self.std, self._moved, self._weights, self._slots)
        return sum(array.nbytes for array in arrays)


def reject_overflow(store: ArmStore, wrong: Iterable[int]) -> None:
    """Wait for all blocks; raise `NotFiniteError` if one returned a slot (rather than -1)."""
    slots = [slot for slot in wrong if slot >= 0]
    if slots:
        raise NotFiniteError(
            f"arm {store.name(min(slots))!r} cannot be scored: its features or the learned coefficients are too "
            "large"
        )
