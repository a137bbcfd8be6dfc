"""Thompson sampling without arm effects: LinTS."""

from __future__ import annotations

from typing import Unpack

from rolin.model.draws import Sampling
from rolin.policies.exploration import Exploration
from rolin.policies.options import LinOptions, with_shared_options
from rolin.policies.rolin_ts import RoLinTS

__all__ = ["LinTS"]


@with_shared_options
class LinTS(RoLinTS):
    """Linear Thompson sampling: `RoLinTS` with `arm_std = 0`.

    Its regret is linear if the arms differ by something that the features miss.

    Parameters
    ----------
    **options
        The options of [`RoLinTS`][rolin.RoLinTS], without `arm_std`.

    References
    ----------
    Agrawal & Goyal, *Thompson Sampling for Contextual Bandits with Linear Payoffs*, ICML 2013
    (with joint sampling; the paper compares with marginal sampling).
    """

    def __init__(
        self,
        *,
        n_features: int,
        sampling: Sampling = "marginal",
        exploration: Exploration = "auto",
        **options: Unpack[LinOptions],
    ) -> None:
        super().__init__(
            n_features=n_features,
            sampling=sampling,
            exploration=exploration,
            arm_std=0.0,
            **options,
        )
