"""Upper confidence bounds without arm effects: LinUCB."""

from __future__ import annotations

from rolin.model import Numbers
from rolin.policies.rolin_ucb import RoLinUCB

__all__ = ["LinUCB"]


class LinUCB(RoLinUCB):
    """Bayesian LinUCB: `RoLinUCB` with `arm_std = 0`.

    Its options are those of [`RoLinUCB`][rolin.RoLinUCB], without `arm_std`.

    References
    ----------
    Abbasi-Yadkori, Pál & Szepesvári, *Improved Algorithms for Linear Stochastic Bandits*,
    NeurIPS 2011; the width is that of the paper's Bayesian analysis.
    """

    def __init__(
        self,
        *,
        n_features: int,
        coef_std: Numbers = 1.0,
        coef_mean: Numbers = 0.0,
        intercept_std: float | None = None,
        intercept_mean: float = 0.0,
        noise_std: float = 1.0,
        horizon: int | None = None,
        width: float | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__(
            n_features=n_features,
            coef_std=coef_std,
            coef_mean=coef_mean,
            intercept_std=intercept_std,
            intercept_mean=intercept_mean,
            arm_std=0.0,
            noise_std=noise_std,
            horizon=horizon,
            width=width,
            seed=seed,
        )
