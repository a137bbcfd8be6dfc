"""Upper confidence bounds without arm effects: LinUCB."""

from __future__ import annotations

from rolin.model.estimation import Method
from rolin.model.scales import CoefScale, Numbers, Scale
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
        coef_std: CoefScale = 1.0,
        coef_mean: Numbers = 0.0,
        intercept_std: float | None = None,
        intercept_mean: float = 0.0,
        noise_std: Scale = 1.0,
        learn_by: Method = "map",
        half_life: float | None = None,
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
            learn_by=learn_by,
            half_life=half_life,
            horizon=horizon,
            width=width,
            seed=seed,
        )
