"""Arm effects and coefficients with their intervals."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rolin._support.plotting import STYLE, look_of

if TYPE_CHECKING:
    from rolin.model.diagnosis import Diagnosis, Effect

__all__ = ["draw_effects"]

# Arms drawn in one figure; of more, the highest and the lowest.
_LEVELS = ("intercept", "level")
_DRAWN = 40  # arms, half from each end, and coefficients


def draw_effects(report: Diagnosis) -> Figure:
    """Draw arm effects and coefficients with their intervals; see `Diagnosis.plot`."""
    arms = list(report.arms)
    left_out = len(arms) - _DRAWN
    if left_out > 0:
        arms = [*arms[: _DRAWN // 2], *arms[-(_DRAWN // 2) :]]
    # without the level, beside which the others might not be seen
    slopes = [c for c in report.largest_coefficients(_DRAWN + 2) if c.name not in _LEVELS][:_DRAWN]
    rows = max(len(arms), len(slopes))
    with plt.rc_context(STYLE):
        figure = Figure(figsize=(7.2, min(1.6 + 0.16 * rows, 11.0)), layout="constrained")
        left, right = figure.subplots(1, 2)
        _draw_intervals(left, arms, 0)
        _draw_intervals(right, slopes, 1)
        left.set(title="arm effects", xlabel="effect on the reward, 95 %")
        few = len(slopes) < sum(c.name not in _LEVELS for c in report.coefficients)
        title = f"{len(slopes)} largest coefficients" if few else "coefficients"
        right.set(title=title, xlabel="coefficient, 95 %")
        if left_out > 0:
            left.axhline(_DRAWN // 2 - 0.5, color="0.7", linestyle=":", linewidth=0.8)
            left.text(
                0.02, _DRAWN // 2 - 0.5, f"{left_out} more", transform=left.get_yaxis_transform(),
                ha="left", va="center", fontsize=7, backgroundcolor="white",
            )  # fmt: skip
        value, low, high = report.arm_std
        p_value = "" if math.isnan(report.p_value) else f", {report.p_told}"
        figure.suptitle(
            f"Do the features miss something? {report.answer.capitalize()}: "
            f"arm_std = {value:.3g} ({low:.3g} to {high:.3g}){p_value}",
            fontsize=10,
        )
    return figure


def _draw_intervals(ax: Axes, effects: list[Effect], place: int) -> None:
    colour = look_of(place)["color"]
    at = np.arange(len(effects))
    values = [effect.value for effect in effects]
    ends = [[e.value - e.low for e in effects], [e.high - e.value for e in effects]]
    ax.axvline(0.0, color="0.7", linewidth=0.8)
    ax.errorbar(values, at, xerr=ends, fmt="o", color=colour, markersize=3, linewidth=1)
    ax.set_yticks(at, [_short(str(effect.name)) for effect in effects], fontsize=7)
    ax.set_ylim(len(effects) - 0.5, -0.5)


def _short(name: str) -> str:
    return name if len(name) <= 34 else f"{name[:33]}…"
