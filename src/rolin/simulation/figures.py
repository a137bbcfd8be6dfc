"""Plots of regret against rounds, and of reward against exploration."""

from __future__ import annotations

from typing import TYPE_CHECKING

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from rolin._support.plotting import STYLE, look_of
from rolin.policies.exploration import shown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from rolin.simulation.planning import ExplorationPlan
    from rolin.simulation.result import Result

__all__ = ["draw_plan", "draw_regret"]


def draw_regret(result: Result, ax: Axes | None, *, scale: str, bound: bool, band: float) -> Axes:
    """Draw mean regrets with bands; see `Result.plot`."""
    if ax is None:
        with plt.rc_context(STYLE):
            _, ax = plt.subplots(figsize=(4.8, 3.4), layout="constrained")
    rounds = result.recorded_rounds
    top = 0.0
    for i, (name, regret) in enumerate(result.regret.items()):
        mean = regret.mean(axis=0)
        look = look_of(i)
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


def draw_plan(plan: ExplorationPlan) -> Figure:
    """Draw expected rewards against the factor of exploration; see `ExplorationPlan.plot`."""
    with plt.rc_context(STYLE):
        figure, ax = plt.subplots(figsize=(4.8, 3.4), layout="constrained")
        errors = 2.0 * plan.std_error
        rows = list(zip(plan.factors, plan.mean, errors, strict=True))
        numbers = [row for row in rows if not isinstance(row[0], str)]
        if numbers:
            factors, means, lengths = zip(*numbers, strict=True)
            ax.errorbar(factors, means, yerr=lengths, marker="o", capsize=3, label="fixed factor")
        for name, mean, error in rows:
            if isinstance(name, str):
                ax.axhline(mean, color="#d55e00", label=name)
                ax.axhspan(mean - error, mean + error, color="#d55e00", alpha=0.15, linewidth=0)
        if not isinstance(plan.best, str):
            ax.axvline(plan.best, color="0.6", linestyle=":")
        ax.set(xlabel="exploration", ylabel=f"reward per round, next {plan.rounds} rounds")
        ax.set_title(f"best: {shown(plan.best)}")
        ax.legend(frameon=False, fontsize=8)
    return figure
