"""From scores to a ranking: the kinds of sampling, and how ties are broken."""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from rolin._support.compile import TIE
from rolin.errors import ParameterError

__all__ = ["Sampling", "Scores", "best_of", "check_sampling", "ranking", "tied_for_best"]

Floats = NDArray[np.float64]
Sampling = Literal["marginal", "joint"]
"""How arms are drawn: independently, as in the paper, or with their true correlation."""


class Scores(NamedTuple):
    """The scores of K arms; the highest is chosen."""

    best: int
    """Index of the highest score; negative if several are tied."""
    table: Floats
    """(R, K): its last row holds the scores."""

    @property
    def values(self) -> Floats:
        """(K,): the scores."""
        return self.table[-1]  # type: ignore[no-any-return]  # a row is an array


def best_of(scores: Floats) -> Scores:
    """Return scores with the index of the highest, or with a negative one if it is tied."""
    tied = np.count_nonzero(tied_for_best(scores)) > 1
    return Scores(-1 if tied else int(scores.argmax()), scores[None])


def tied_for_best(scores: Floats) -> NDArray[np.bool_]:
    """Return which scores equal the highest, up to rounding."""
    top = scores.max()
    as_good: NDArray[np.bool_] = scores >= top - TIE * abs(top)
    return as_good


def ranking(scores: Floats, top_k: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Return the indices of the `top_k` highest, highest first, ties in random order."""
    n = min(top_k + 1, len(scores))  # one more, to see whether the last rank is tied
    near = np.argpartition(scores, -n)[-n:]
    near = near[np.argsort(-scores[near])]
    if not _tied(scores[near]).any():
        return near[:top_k]
    lowest = scores[near[top_k - 1]]
    near = np.flatnonzero(scores >= lowest - TIE * abs(lowest))
    near = near[np.argsort(-scores[near], kind="stable")]
    level = np.concatenate([[0], np.cumsum(~_tied(scores[near]))])  # equal for tied arms
    # By level and then by index: each arm gets the same random number for any top_k, and however its score was rounded.
    # A catalogue rounds otherwise than a policy.
    near = near[np.lexsort((near, level))]
    return near[np.lexsort((generator.random(len(near)), level))][:top_k]


def _tied(ordered: Floats) -> NDArray[np.bool_]:
    """Return whether each score equals the one before it, up to rounding."""
    return ordered[:-1] - ordered[1:] <= TIE * np.abs(ordered[:-1])


def check_sampling(sampling: object) -> None:
    """Reject unknown kinds of sampling."""
    if not isinstance(sampling, str) or sampling not in get_args(Sampling):
        raise ParameterError(f"sampling={sampling!r}, expected one of {get_args(Sampling)}")
