"""Columns and entries of the packed arrays that the posterior's kernels work on.

Numba only detects changes of the file that a kernel is in. After changing a number here, run `make clean`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "AGEING",
    "ARM_VARIANCE",
    "BLOCK",
    "CONTEXT",
    "COUNT",
    "CURVE",
    "DUE_NO",
    "DUE_YES",
    "LATEST",
    "LOG_DETERMINANTS",
    "NO",
    "NOISE_VARIANCE",
    "N_NUMBERS",
    "N_OUTCOME",
    "N_SCHEDULE",
    "N_STORED",
    "QUADRATIC",
    "REWARD",
    "SEEN",
    "SEEN_NO",
    "SEEN_YES",
    "SHIFT",
    "SPREAD",
    "SQUARED_WEIGHTS",
    "SUM_LOG_WEIGHT",
    "TOTAL",
    "TOTAL_WEIGHT",
    "WEIGHT",
    "WEIGHT_OF_NEW",
    "YES",
    "Tails",
]

Tails = NDArray[np.float32]

# Columns of `arms`; `tails` has the columns of `arms` without the weight.
WEIGHT, REWARD, CONTEXT = 0, 1, 2
# Entries of `numbers`.
NOISE_VARIANCE, ARM_VARIANCE, COUNT, SUM_LOG_WEIGHT, LOG_DETERMINANTS, LATEST, QUADRATIC = range(7)
# The kernels count the rewards too (SEEN, never decayed), and let evidence age: every new reward weighs AGEING times
# as much as the one before it. So an update is one call of a kernel, which a signal cannot interrupt.
SEEN, AGEING, WEIGHT_OF_NEW = 7, 8, 9
# The sums of the arms' weights and of their squares; they follow from `arms`.
TOTAL_WEIGHT, SQUARED_WEIGHTS = 10, 11
N_STORED, N_NUMBERS = 7, 12  # how many entries are in state files, and in all
# Columns of `outcomes` of binary rewards, and entries of `schedule`.
YES, NO, SHIFT, CURVE, SPREAD, N_OUTCOME = range(6)
SEEN_YES, SEEN_NO, DUE_YES, DUE_NO, TOTAL, N_SCHEDULE = range(6)
# Arms per block of the fused prediction loop: the residuals of a block fit into the first-level cache.
BLOCK = 64
