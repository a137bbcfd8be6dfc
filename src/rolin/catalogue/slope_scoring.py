"""Joint draws of arms that have slopes of their own.

An arm without rewards has the own part z'u ~ N(0, z'D z), which depends on its features alone. One pass scores all arms
like this. The scores of the arms with rewards are then replaced by those of the posterior
(docs/explanation/maths.md, "Slopes per arm").
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rolin.catalogue import kernels
from rolin.catalogue.posterior_cache import reject_overflow
from rolin.catalogue.scoring import JointDraw, JointScoring
from rolin.catalogue.storage import BLOCK, Block, Slots
from rolin.catalogue.workers import each_block
from rolin.model.view import PosteriorView

__all__ = ["SlopeScoring"]

Floats = NDArray[np.float64]


class SlopeScoring(JointScoring):
    """Scores arms with slopes by one draw of the coefficients, plus a draw of each arm's own part given them."""

    # Standard deviations of arms without rewards, and what they belong to: additions to the store, and weights.
    _known: tuple[tuple[int, bytes], Floats] | None = None

    @property
    def nbytes(self) -> int:
        """Memory in bytes of what is kept between decisions."""
        return 0 if self._known is None else self._known[1].nbytes

    def _score(
        self, view: PosteriorView, drawn: JointDraw, level: Floats, draws: Floats, out: Floats
    ) -> None:
        """Write the scores given θ. `out` may be the array of the draws."""
        offered, stds = self._store.offered, self._unseen_std(view, drawn.situation)
        seen = self._cache.one_by_one
        seen_draws = draws[seen]

        def score(block: Block) -> int:
            slots = block.slots
            wrong = kernels.score_unseen(
                offered[slots], stds[slots], draws[slots], level[slots], out[slots]
            )
            return block.start + wrong if wrong >= 0 else -1

        reject_overflow(self._store, each_block(self._store, score))
        for start in range(0, len(seen), BLOCK):
            part = slice(start, start + BLOCK)
            slots, own = seen[part], seen_draws[part]
            found = self._policy.posterior.score_joint(
                self._contexts(slots, drawn.situation),
                self._rows(slots),
                np.concatenate([drawn.normals, own]),
            )
            out[slots] = found.values

    def _own_std(self, view: PosteriorView, situation: Any) -> Floats:
        """Return the standard deviation of each arm's own part, given the coefficients."""
        stds = self._unseen_std(view, situation).copy()
        seen = self._cache.one_by_one
        for start in range(0, len(seen), BLOCK):
            slots = seen[start : start + BLOCK]
            contexts = self._contexts(slots, situation)
            stds[slots] = self._policy.posterior.own_std(self._rows(slots), contexts)
        return stds

    def _rows(self, slots: Slots) -> NDArray[np.int64]:
        return self._cache.rows[slots].astype(np.int64)

    def _contexts(self, slots: Slots, situation: Any) -> Floats:
        x = self._store.features(slots)
        return x if self._feature_map is None else self._feature_map.contexts_of(x, situation)

    def _unseen_std(self, view: PosteriorView, situation: Any) -> Floats:
        """Return √(z'D z) of all arms. It is kept until weights or arms change."""
        d, store = self._policy.n_features, self._store
        assert view.slope_variance is not None  # otherwise this class is not used
        slope_variance = view.slope_variance[:d]
        weights = (
            np.concatenate([[0.0], slope_variance])
            if self._feature_map is None
            else self._feature_map.arm_variances(slope_variance, situation)
        )
        weights[0] += view.arm_variance
        key = (store.additions, weights.tobytes())
        if self._known is None or self._known[0] != key:
            stds = np.empty(store.n)

            def compute(block: Block) -> None:
                kernels.own_stds(block.features, weights, stds[block.slots])

            each_block(store, compute)
            self._known = (key, stds)
        return self._known[1]
