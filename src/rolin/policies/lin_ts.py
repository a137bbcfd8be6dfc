"""Thompson sampling without arm effects: LinTS."""

from __future__ import annotations

from rolin.model.draws import Sampling
from rolin.model.estimation import Method
from rolin.model.scales import CoefScale, Numbers, Scale
from rolin.policies.rolin_ts import RoLinTS

__all__ = ["LinTS"]


class LinTS(RoLinTS):
    """Linear Thompson sampling: `RoLinTS` with `arm_std = 0`.

    When the features miss something that differs between arms, its regret is linear.

    Its options are those of [`RoLinTS`][rolin.RoLinTS], without `arm_std`.

    References
    ----------
    Agrawal & Goyal, *Thompson Sampling for Contextual Bandits with Linear Payoffs*, ICML 2013
    (with joint sampling; marginal sampling is the comparison the paper makes).
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
        sampling: Sampling = "marginal",
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
            sampling=sampling,
            seed=seed,
        )
