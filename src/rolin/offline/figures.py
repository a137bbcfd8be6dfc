"""Figures of estimated values of policies, and of the calibration of propensities and intervals."""

from __future__ import annotations

from statistics import NormalDist
from typing import TYPE_CHECKING

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from rolin._support.plotting import LOOKS, STYLE

if TYPE_CHECKING:
    from rolin.offline.calibration import Calibration
    from rolin.offline.evaluation import Evaluation
    from rolin.offline.interval_check import IntervalCheck

__all__ = ["draw_averages", "draw_calibration", "draw_estimates"]


def draw_estimates(*evaluations: Evaluation) -> Figure:
    """Draw the estimates of one or more evaluations side by side; see `Evaluation.plot`."""
    n = len(evaluations)
    with plt.rc_context(STYLE):
        figure, panels = plt.subplots(
            1, n, figsize=(0.8 + 4.0 * n, 2.9), layout="constrained", sharex=True, sharey=True,
            squeeze=False,
        )  # fmt: skip
        for ax, evaluation in zip(panels[0], evaluations, strict=True):
            rows = [evaluation.logged, *evaluation.estimates]
            for y, row in enumerate(rows):
                color = LOOKS[6 if y == 0 else 0][0]
                ax.plot([row.low, row.high], [y, y], color=color, linewidth=1.5)
                marker = "s" if y == 0 else "o"
                ax.plot(row.value, y, marker=marker, color=color, markersize=5)
            logged = evaluation.logged.value
            ax.axvline(logged, color="0.6", linewidth=0.8, linestyle=(0, (4, 3)), zorder=0)
            ax.set_xlabel(f"reward per decision, {100 * evaluation.level:g} % intervals")
            warned = ", inconclusive" if evaluation.notes else ""
            ax.set_title(
                f"{evaluation.policy}\nn = {evaluation.n}, effective {evaluation.effective_n:.0f}{warned}"
            )
        panels[0][0].set_yticks(range(len(rows)), [row.method for row in rows])
        panels[0][0].invert_yaxis()
    return figure


def draw_calibration(calibration: Calibration) -> Figure:
    """Draw observed over expected shares of choices; see `Calibration.plot`."""
    groups = calibration.by_propensity or calibration.by_arm
    expected = np.array([group.expected / group.offered for group in groups])
    observed = np.array([group.observed / group.offered for group in groups])
    reach = np.array([2.0 * group.std / group.offered for group in groups])
    with plt.rc_context(STYLE):
        figure, ax = plt.subplots(figsize=(3.6, 3.4), layout="constrained")
        top = 1.05 * float(max(expected.max(), (observed + reach).max()))
        ax.plot([0, top], [0, top], color="0.6", linewidth=0.8, zorder=0)
        ax.errorbar(
            expected,
            observed,
            yerr=reach,
            fmt="o",
            color=LOOKS[0][0],
            markersize=4,
            elinewidth=1.0,
        )
        ax.set_xlabel("expected choices (share of offers)")
        ax.set_ylabel("observed choices, ± 2 standard deviations")
    return figure


def draw_averages(check: IntervalCheck) -> Figure:
    """Draw observed over predicted mean rewards of arms; see `IntervalCheck.plot`."""
    reach = NormalDist().inv_cdf(0.95)
    predicted, observed, std = (
        np.array([getattr(arm, name) for arm in check.arms])
        for name in ("predicted", "observed", "std")
    )
    outside = np.abs(observed - predicted) > reach * std
    with plt.rc_context(STYLE):
        figure, ax = plt.subplots(figsize=(3.6, 3.4), layout="constrained")
        ends = [float(predicted.min()), float(predicted.max())]
        ax.plot(ends, ends, color="0.6", linewidth=0.8, zorder=0)
        for rows, color in ((~outside, LOOKS[0][0]), (outside, LOOKS[1][0])):
            ax.errorbar(
                predicted[rows], observed[rows], yerr=reach * std[rows], fmt="o", color=color,
                markersize=3, elinewidth=0.8,
            )  # fmt: skip
        ax.set_xlabel("predicted mean reward of an arm")
        ax.set_ylabel("observed, with 90 % intervals")
        ax.set_title(f"{outside.sum()} of {len(outside)} arms outside")
    return figure
