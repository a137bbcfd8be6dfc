"""Upper confidence bounds without arm effects: LinUCB."""

from __future__ import annotations

from typing import Unpack

from rolin.policies.options import LinOptions, with_shared_options
from rolin.policies.rolin_ucb import RoLinUCB

__all__ = ["LinUCB"]


@with_shared_options
class LinUCB(RoLinUCB):
    """Bayesian LinUCB: `RoLinUCB` with `arm_std = 0`.

    Parameters
    ----------
    **options
        The options of [`RoLinUCB`][rolin.RoLinUCB], without `arm_std`.

    References
    ----------
    Abbasi-Yadkori, Pál & Szepesvári, *Improved Algorithms for Linear Stochastic Bandits*,
    NeurIPS 2011; the width is that of the paper's Bayesian analysis.
    """

    def __init__(
        self,
        *,
        n_features: int,
        horizon: int | None = None,
        width: float | None = None,
        **options: Unpack[LinOptions],
    ) -> None:
        super().__init__(
            n_features=n_features, horizon=horizon, width=width, arm_std=0.0, **options
        )
