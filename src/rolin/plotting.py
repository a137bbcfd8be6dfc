"""Figures that can be printed, and read by the colour-blind."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from rolin.diagnose import Diagnosis, Effect
    from rolin.offline import Calibration, Evaluation
    from rolin.result import Result

__all__ = [
    "STYLE",
    "draw_calibration",
    "draw_effects",
    "draw_estimates",
    "draw_regret",
    "look_of",
]

STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "rolin",  # the same figure is the same file
}
# Colours of Okabe & Ito, which most colour-blind people tell apart, each with dashes of its own,
# which everybody does in print.
_LOOKS = [
    ("#0072B2", "-"),
    ("#D55E00", "--"),
    ("#009E73", "-."),
    ("#CC79A7", ":"),
    ("#E69F00", (0, (5, 1, 1, 1, 1, 1))),
    ("#56B4E9", (0, (3, 1))),
    ("#000000", (0, (1, 1))),
]


def look_of(place: int) -> dict[str, Any]:
    """Return colour and dashes of the line in this place."""
    colour, dashes = _LOOKS[place % len(_LOOKS)]
    return {"color": colour, "linestyle": dashes}


def draw_regret(result: Result, ax: Axes | None, *, scale: str, bound: bool, band: float) -> Axes:
    """Draw mean regrets with bands; see `Result.plot`."""
    if ax is None:
        with plt.rc_context(STYLE):
            _, ax = plt.subplots(figsize=(4.8, 3.4), layout="constrained")
    rounds = result.checkpoints
    top = 0.0
    for place, (name, regret) in enumerate(result.regret.items()):
        mean = regret.mean(axis=0)
        look = look_of(place)
        ax.plot(rounds, mean, label=name, **look)
        spread = np.zeros_like(mean)
        if len(regret) > 1:
            spread = band * regret.std(axis=0, ddof=1) / np.sqrt(len(regret))
            ax.fill_between(
                rounds, mean - spread, mean + spread, color=look["color"], alpha=0.2, linewidth=0
            )
        top = max(top, float((mean + spread).max()))
    ax.set(xlabel="round", ylabel="regret")
    if scale == "log":
        ax.set(xscale="log", yscale="log")
    else:
        ax.set(xlim=(0, result.rounds), ylim=(0, 1.05 * top or 1.0))
    if bound and result.bound is not None:
        if scale == "log" or result.bound[-1] <= 1.05 * top:
            ax.plot(rounds, result.bound, color="0.5", linewidth=0.8, label="Theorem 1")
        else:
            ax.plot([], [], " ", label=f"Theorem 1: {result.bound[-1]:,.0f}".replace(",", " "))
    ax.legend(frameon=False, fontsize=8)
    return ax


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


def draw_estimates(*evaluations: Evaluation) -> Figure:
    """Draw what policies are worth by every estimator; see `Evaluation.plot`."""
    n = len(evaluations)
    with plt.rc_context(STYLE):
        figure, panels = plt.subplots(
            1, n, figsize=(0.8 + 4.0 * n, 2.9), layout="constrained", sharex=True, sharey=True,
            squeeze=False,
        )  # fmt: skip
        for ax, evaluation in zip(panels[0], evaluations, strict=True):
            rows = [evaluation.logged, *evaluation.estimates]
            for place, row in enumerate(rows):
                colour = _LOOKS[6 if place == 0 else 0][0]
                ax.plot([row.low, row.high], [place, place], color=colour, linewidth=1.5)
                marker = "s" if place == 0 else "o"
                ax.plot(row.value, place, marker=marker, color=colour, markersize=5)
            logged = evaluation.logged.value
            ax.axvline(logged, color="0.6", linewidth=0.8, linestyle=(0, (4, 3)), zorder=0)
            ax.set_xlabel(f"reward per decision, {100 * evaluation.level:g} % intervals")
            warned = ", cannot tell" if evaluation.notes else ""
            ax.set_title(
                f"{evaluation.policy}\nn = {evaluation.n}, effective {evaluation.effective_n:.0f}{warned}"
            )
        panels[0][0].set_yticks(range(len(rows)), [row.method for row in rows])
        panels[0][0].invert_yaxis()
    return figure


def draw_calibration(calibration: Calibration) -> Figure:
    """Draw how often arms were chosen over how often they should have been; see `Calibration.plot`."""
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
            color=_LOOKS[0][0],
            markersize=4,
            elinewidth=1.0,
        )
        ax.set_xlabel("should have been chosen (share of offers)")
        ax.set_ylabel("was chosen, ± 2 standard deviations")
    return figure
