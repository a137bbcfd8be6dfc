"""Where things stand in the packed arrays, and how kernels are compiled.

Numba watches only the file that a kernel is in: after changing a number here, `make clean`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
from numpy.typing import NDArray

__all__ = [
    "ARM_VARIANCE",
    "BLOCK",
    "CONTEXT",
    "COUNT",
    "LATEST",
    "LOG_DETERMINANTS",
    "NOISE_VARIANCE",
    "NOT_FINITE",
    "QUADRATIC",
    "REWARD",
    "SUM_LOG_WEIGHT",
    "TIE",
    "TIED",
    "WEIGHT",
    "Floats",
    "Rows",
    "Tails",
    "compiled",
]

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
Tails = NDArray[np.float32]

# Columns of `arms`; `tails` has the columns of `arms` without the weight.
WEIGHT, REWARD, CONTEXT = 0, 1, 2
# Entries of `numbers`.
NOISE_VARIANCE, ARM_VARIANCE, COUNT, SUM_LOG_WEIGHT, LOG_DETERMINANTS, LATEST, QUADRATIC = range(7)

# What a kernel returns in place of the index of the best arm.
TIED, NOT_FINITE = -1, -2
# Scores this close, relative to the highest, count as equal: about 1000 roundings, far above
# what a sum over d features loses, far below any difference that matters.
TIE = 1e-13
# Arms predicted at a time by the fused loop: a block's residuals fit the first-level cache.
BLOCK = 64

# `contract` allows fused multiply-add; the others let sums run in vector registers, in another
# order. Neither `nnan` nor `ninf`, ever: with those the compiler may delete the very tests that
# reject NaN and infinity.
_CONTRACT = {"contract"}
_REORDER = {"contract", "reassoc", "nsz", "arcp"}

_F = TypeVar("_F", bound=Callable[..., Any])


def _can_cache() -> bool:
    """Whether there is a place to keep compiled code: beside this file, or the user's cache."""
    try:
        numba.njit(cache=True)(_can_cache)
    except RuntimeError:
        return False
    return True


_CAN_CACHE = _can_cache()


def compiled(*, reorder: bool, inline: bool = False) -> Callable[[_F], _F]:
    """Compile on first use, and keep the result on disk where there is a place to write.

    Without `reorder`, sums are added up in the order in which they are written. A function
    called by a compiled one inherits its options unless it states its own, so all state theirs. A
    part of a hot loop that has a name of its own is set `inline`: a call with ten arrays takes longer
    than the part itself.
    """
    decorate: Any = numba.njit(
        cache=_CAN_CACHE,
        fastmath=_REORDER if reorder else _CONTRACT,
        nogil=True,
        error_model="numpy",
        inline="always" if inline else "never",
    )
    return decorate  # type: ignore[no-any-return]  # it keeps the signature
