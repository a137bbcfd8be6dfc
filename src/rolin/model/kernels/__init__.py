"""Compiled inner loops of the model, above all for the two hot paths: decide and update.

Only the modules of `rolin.model`, and kernels of policies and catalogues, import this package. The kernels of the
posterior work on the packed arrays described here: every array argument adds about 0.1 µs to a compiled call.

======== ==================== ================================================================
array    shape                content
======== ==================== ================================================================
arms     (rows, 2 + d)        one row per arm: weight H, mean reward r̄, mean context x̄;
                              row 0 is the prior row (all zero), shared by every unseen arm
tails    (rows, 1 + d)        rounding errors of r̄ and x̄, in single precision
coef     (D,)                 coefficients θ̂
factor   (D, D)               lower-triangular T with T'T = M⁻¹; zero above the diagonal
scatter  (3, 1 + d, 1 + d)    within-arm scatter of (r, x), lower triangle: q, g and C in one;
                              a sum, its rounding error, and the sum of the latest terms
numbers  (10,)                σ², s₀², N, Σ log h; Σ log variance of all one-step predictions;
                              number of latest terms; Σ squared error/variance of these predictions;
                              number of rewards; growth of their weight, and the weight of the latest
======== ==================== ================================================================

Models of binary rewards have three more:

========= ============== =====================================================================
outcomes  (rows, 5)      one row per arm: weight of its clicks and of its views without a click;
                         SHIFT and CURVE: how the contexts of the arm change its rate and the slope
                         of its rate; SPREAD: sum of squares of the contexts around their mean
schedule  (5,)           number of clicks and of views without a click, the numbers at which sites
                         are computed next, and the weight of all outcomes
reference (2, d)         mean and variance of the coefficients at the times of the outcomes
========= ============== =====================================================================

D is d, or d + 1 with an intercept; its column of ones is not stored.

Means and scatter are stored in more than double precision. With plain sums, 10⁶ observations of collinear features led
to an error of 1.6e-9 in a posterior rebuilt from the moments, and features offset by 10⁶ to an error of 3.3e-9 in
the running posterior. The compensation costs O(d) per observation: terms of the scatter are added plainly for a
while, and their sum is then carried over with compensation.

Symbols are those of the paper and of `docs/explanation/maths.md`.
"""

from rolin.model.kernels.layout import (
    AGEING,
    ARM_VARIANCE,
    CONTEXT,
    COUNT,
    LATEST,
    LOG_DETERMINANTS,
    N_NUMBERS,
    N_STORED,
    NOISE_VARIANCE,
    QUADRATIC,
    REWARD,
    SEEN,
    SQUARED_WEIGHTS,
    SUM_LOG_WEIGHT,
    TOTAL_WEIGHT,
    WEIGHT,
    WEIGHT_OF_NEW,
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
from rolin.model.kernels.solve import solve_coefficients

__all__ = [
    "AGEING",
    "ARM_VARIANCE",
    "CONTEXT",
    "COUNT",
    "LATEST",
    "LOG_DETERMINANTS",
    "NOISE_VARIANCE",
    "N_NUMBERS",
    "N_STORED",
    "QUADRATIC",
    "REWARD",
    "SEEN",
    "SQUARED_WEIGHTS",
    "SUM_LOG_WEIGHT",
    "TOTAL_WEIGHT",
    "WEIGHT",
    "WEIGHT_OF_NEW",
    "best_of",
    "best_of_each",
    "observe",
    "observe_many",
    "observe_mixture",
    "predict_fused",
    "residuals",
    "score_joint",
    "score_joint_sparse",
    "solve_coefficients",
    "spread",
]
