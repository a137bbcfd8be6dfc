"""The figures of the experiments: one panel per environment."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from rolin._support.plotting import STYLE
from rolin.paper.experiment import Experiment
from rolin.simulation.figures import draw_regret
from rolin.simulation.result import Result

__all__ = ["draw", "save"]

# A policy with more than this many times the median regret is cut off at the top of its panel.
_FAR_ABOVE = 5.0
# Number of panels in a row.
_COLUMNS = 3


def draw(experiment: Experiment, results: Mapping[str, Result]) -> Figure:
    """Draw the regrets of an experiment, with bands of two standard errors."""
    with matplotlib.rc_context(STYLE):
        rows = -(-len(results) // _COLUMNS)
        columns = min(len(results), _COLUMNS)
        figure = Figure(figsize=(3.1 * columns, 0.9 + 2.4 * rows), layout="constrained")
        panels = figure.subplots(rows, columns, squeeze=False).ravel()
        for ax in panels[len(results) :]:
            ax.set_axis_off()
        for ax, (title, result) in zip(panels, results.items(), strict=False):
            regrets = {n: r for n, r in result.regret.items() if n not in experiment.not_drawn}
            if title in experiment.known:
                regrets = {"known scales": result.regret[experiment.known[title]], **regrets}
            finals = {name: float(regret[:, -1].mean()) for name, regret in regrets.items()}
            limit = _FAR_ABOVE * float(np.median(list(finals.values())))
            top = 1.2 * max(f for f in finals.values() if f <= limit)
            drawn = Result(result.settings, result.runs, regrets)
            draw_regret(drawn, ax, scale="linear", bound=False, band=2.0)
            ax.set(ylim=(0, top), title=title)
            ax.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
            above = [f"{name}: {final:.0f} ↑" for name, final in finals.items() if final > limit]
            ax.text(
                0.98, 0.985, "\n".join(above), transform=ax.transAxes, ha="right",
                va="top", fontsize=7.5,
            )  # fmt: skip
            ax.get_legend().remove()
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
        figure.suptitle(f"{experiment.title} ({_caption(results)})", fontsize=10)
    return figure


def _caption(results: Mapping[str, Result]) -> str:
    runs = {len(result.runs) for result in results.values()}
    return f"{max(runs)} runs, bands of 2 s.e."


def save(figure: Figure, path: Path) -> None:
    """Write a figure to a file. The same figure always gives the same bytes."""
    with matplotlib.rc_context(STYLE):
        figure.savefig(path, dpi=200, metadata={"Date": None} if path.suffix == ".svg" else None)
