"""Columns and entries of the packed arrays that the posterior's kernels work on.

Numba only detects changes of the file that a kernel is in. After changing a number here, run `make clean`.
"""

from __future__ import annotations

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
    "QUADRATIC",
    "REWARD",
    "SUM_LOG_WEIGHT",
    "WEIGHT",
    "Tails",
]

Tails = NDArray[np.float32]

# Columns of `arms`; `tails` has the columns of `arms` without the weight.
WEIGHT, REWARD, CONTEXT = 0, 1, 2
# Entries of `numbers`.
NOISE_VARIANCE, ARM_VARIANCE, COUNT, SUM_LOG_WEIGHT, LOG_DETERMINANTS, LATEST, QUADRATIC = range(7)
# Arms per block of the fused prediction loop: the residuals of a block fit into the first-level cache.
BLOCK = 64
