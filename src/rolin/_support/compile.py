"""How kernels are compiled, and the constants and array types that they share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
from numpy.typing import NDArray

__all__ = ["NOT_FINITE", "TIE", "TIED", "Floats", "Rows", "compiled"]

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

# What a kernel returns in place of the index of the best arm.
TIED, NOT_FINITE = -1, -2
# Scores this close, relative to the highest, count as equal: about 1000 roundings, far above
# what a sum over d features loses, far below any difference that matters.
TIE = 1e-13

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
