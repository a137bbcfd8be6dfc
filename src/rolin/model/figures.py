"""The figure of the misspecification report: arm effects and coefficients with their intervals."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rolin._support.plotting import STYLE, look_of

if TYPE_CHECKING:
    from rolin.model.report import Diagnosis, Effect

__all__ = ["draw_effects"]

# Names of the intercept, which is not drawn: the other coefficients might be too small beside it.
_INTERCEPTS = ("intercept", "level")
# Arms in the figure, half of them the highest and half the lowest; also coefficients.
_MAX_DRAWN = 40


def draw_effects(report: Diagnosis) -> Figure:
    """Draw arm effects and coefficients with their intervals; see `Diagnosis.plot`."""
    arms = list(report.arms)
    n_hidden = len(arms) - _MAX_DRAWN
    if n_hidden > 0:
        arms = [*arms[: _MAX_DRAWN // 2], *arms[-(_MAX_DRAWN // 2) :]]
    slopes = [c for c in report.largest_coefficients(_MAX_DRAWN + 2) if c.name not in _INTERCEPTS][
        :_MAX_DRAWN
    ]
    rows = max(len(arms), len(slopes))
    with plt.rc_context(STYLE):
        figure = Figure(figsize=(7.2, min(1.6 + 0.16 * rows, 11.0)), layout="constrained")
        left, right = figure.subplots(1, 2)
        _draw_intervals(left, arms, look_of(0)["color"])
        _draw_intervals(right, slopes, look_of(1)["color"])
        left.set(title="arm effects", xlabel="effect on the reward, 95 %")
        few = len(slopes) < sum(c.name not in _INTERCEPTS for c in report.coefficients)
        title = f"{len(slopes)} largest coefficients" if few else "coefficients"
        right.set(title=title, xlabel="coefficient, 95 %")
        if n_hidden > 0:
            left.axhline(_MAX_DRAWN // 2 - 0.5, color="0.7", linestyle=":", linewidth=0.8)
            left.text(
                0.02, _MAX_DRAWN // 2 - 0.5, f"{n_hidden} more", transform=left.get_yaxis_transform(),
                ha="left", va="center", fontsize=7, backgroundcolor="white",
            )  # fmt: skip
        value, low, high = report.arm_std
        p_value = "" if math.isnan(report.p_value) else f", {report.p_text}"
        figure.suptitle(
            f"Do the features miss something? {report.answer.capitalize()}: "
            f"arm_std = {value:.3g} ({low:.3g} to {high:.3g}){p_value}",
            fontsize=10,
        )
    return figure


def _draw_intervals(ax: Axes, effects: list[Effect], color: str) -> None:
    rows = np.arange(len(effects))
    values = [effect.value for effect in effects]
    ends = [[e.value - e.low for e in effects], [e.high - e.value for e in effects]]
    ax.axvline(0.0, color="0.7", linewidth=0.8)
    ax.errorbar(values, rows, xerr=ends, fmt="o", color=color, markersize=3, linewidth=1)
    ax.set_yticks(rows, [_short(str(effect.name)) for effect in effects], fontsize=7)
    ax.set_ylim(len(effects) - 0.5, -0.5)


def _short(name: str) -> str:
    return name if len(name) <= 34 else f"{name[:33]}…"
