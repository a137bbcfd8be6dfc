"""Compiled inner loops of the posterior: the two hot paths, decide and update.

Only `posterior.py`, `sampling.py` and policies with kernels of their own import this package. The
posterior's kernels work on the packed arrays described here, because each further array argument costs a compiled call about 0.1 µs.

======== ==================== ================================================================
array    shape                content
======== ==================== ================================================================
arms     (rows, 2 + d)        one row per arm: weight H, mean reward r̄, mean context x̄;
                              row 0 is the prior row (all zero), shared by every unseen arm
tails    (rows, 1 + d)        what rounding dropped from r̄ and x̄, in single precision
coef     (D,)                 coefficients θ̂
factor   (D, D)               lower-triangular T with T'T = M⁻¹; zero above the diagonal
scatter  (3, 1 + d, 1 + d)    within-arm scatter of (r, x), lower triangle: q, g and C in one;
                              a sum, what rounding dropped from it, and the latest terms
numbers  (7,)                 σ², s₀², N, Σ log h; of all predictions the logarithms of their variances;
                              number of latest terms; squared errors over those variances
======== ==================== ================================================================

D is d, or d + 1 with an intercept: its column of ones is implied, never stored.

Means and scatter are kept in more than the working precision. With plain sums, 10⁶ observations
of collinear features left an error of 1.6e-9 in a posterior rebuilt from them, and of features
offset by 10⁶ an error of 3.3e-9 in the running one. It costs O(d) per observation: scatter is
added up plainly for a while and carried over with compensation then.

Symbols are those of the paper and of `docs/explanation/maths.md`.
"""

from rolin.model.kernels.layout import (
    ARM_VARIANCE,
    CONTEXT,
    COUNT,
    LATEST,
    LOG_DETERMINANTS,
    NOISE_VARIANCE,
    QUADRATIC,
    REWARD,
    SUM_LOG_WEIGHT,
    WEIGHT,
)
from rolin.model.kernels.observe import observe, observe_many, observe_mixture
from rolin.model.kernels.predict import (
    best_of,
    best_of_each,
    predict_fused,
    residuals,
    score_joint,
    score_joint_sparse,
    spread,
)
from rolin.model.kernels.solve import rebuild

__all__ = [
    "ARM_VARIANCE",
    "CONTEXT",
    "COUNT",
    "LATEST",
    "LOG_DETERMINANTS",
    "NOISE_VARIANCE",
    "QUADRATIC",
    "REWARD",
    "SUM_LOG_WEIGHT",
    "WEIGHT",
    "best_of",
    "best_of_each",
    "observe",
    "observe_many",
    "observe_mixture",
    "predict_fused",
    "rebuild",
    "residuals",
    "score_joint",
    "score_joint_sparse",
    "spread",
]
