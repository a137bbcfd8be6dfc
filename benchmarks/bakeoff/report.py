"""The report of the bake-off as Markdown: rewards, ranks, times, and where rolin is behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from report import number, table

from bakeoff.contenders import Contender
from bakeoff.play import HORIZONS, Outcome
from bakeoff.results import Results
from bakeoff.worlds.questions import Floats

__all__ = ["report"]

_BEHIND = 0.03  # more than this share of the best mean reward is reported


class Cell(NamedTuple):
    """One contender in one world at one horizon."""

    means: Floats
    """(runs,): the mean reward per round of each run."""


Stored = Mapping[tuple[str, str], list[Outcome]]
Cells = dict[tuple[str, str], Cell]


def report(
    results: Results, worlds: Sequence[str], kinds: Mapping[str, type[Contender]], runs: int
) -> str:
    """Return the report of all stored results.

    Parameters
    ----------
    results
        The stored outcomes.
    worlds
        Names of the worlds.
    kinds
        The contenders by name, in the order of the report.
    runs
        Number of runs; only contenders with all of them are compared.
    """
    stored: dict[tuple[str, str], list[Outcome]] = {}
    for name in worlds:
        for kind in kinds:
            found = [results.read(name, kind, run) for run in range(runs)]
            complete = [outcome for outcome in found if outcome is not None]
            if complete and len(complete) == runs:
                stored[name, kind] = complete
    shown = [kind for kind in kinds if any((name, kind) in stored for name in worlds)]
    horizons = [h for h in HORIZONS if h <= results.rounds] or [results.rounds]
    parts = [
        f"# Bake-off\n\n{runs} paired runs of {results.rounds} rounds per world. A cell is the mean "
        "reward per round ± the standard error of its paired difference to the best of the column, "
        "which is bold. The last column is the mean rank over the worlds of the row. – means that "
        "the library cannot play the world, has not been run, or was too slow for this horizon."
    ]
    for horizon in horizons:
        cells = _cells(stored, horizon)
        parts.append(f"## After {horizon:,} rounds\n\n" + _rewards(cells, worlds, shown))
        parts.append(
            f"### Where rolin is behind after {horizon:,} rounds\n\n"
            + _behind(cells, worlds, kinds)
        )
    parts.append(
        "## Time\n\nMedian CPU time of decide and update, in microseconds.\n\n"
        + _times(stored, worlds, shown)
    )
    parts.append(
        "## Calibration\n\nShare of mean rewards that are inside the 90 % intervals after the last round, in percent. "
        "In worlds from data, the mean reward is that of an arm over all users or rows.\n\n"
        + _coverage(stored, worlds, shown)
    )
    return "\n\n".join(parts)


def _cells(stored: Stored, horizon: int) -> Cells:
    """Return what reached the horizon in every run."""
    return {
        key: Cell(np.array([outcome.means[horizon] for outcome in outcomes]))
        for key, outcomes in stored.items()
        if all(horizon in outcome.means for outcome in outcomes)
    }


def _best(cells: Cells, world: str) -> tuple[str, Cell] | None:
    here = [(kind, cell) for (name, kind), cell in cells.items() if name == world]
    return max(here, key=lambda pair: pair[1].means.mean()) if here else None


def _difference(cell: Cell, best: Cell) -> tuple[float, float]:
    """Return how far a contender is behind the best, and the standard error over paired runs."""
    behind = best.means - cell.means
    error = behind.std(ddof=1) / len(behind) ** 0.5 if len(behind) > 1 else float("nan")
    return float(behind.mean()), float(error)


def _rewards(cells: Cells, worlds: Sequence[str], kinds: Sequence[str]) -> str:
    ranks = _ranks(cells, worlds, kinds)
    rows = []
    for kind in kinds:
        row = [kind]
        for world in worlds:
            best, cell = _best(cells, world), cells.get((world, kind))
            if cell is None or best is None:
                row.append("–")
            elif best[0] == kind:
                row.append(f"**{cell.means.mean():.4f}**")
            else:
                row.append(f"{cell.means.mean():.4f} ± {_difference(cell, best[1])[1]:.4f}")
        mean = [ranks[world, kind] for world in worlds if (world, kind) in ranks]
        rows.append([*row, f"{np.mean(mean):.1f} ({len(mean)})" if mean else "–"])
    return table(["contender", *worlds, "rank (worlds)"], rows)


def _ranks(
    cells: Cells, worlds: Sequence[str], kinds: Sequence[str]
) -> dict[tuple[str, str], float]:
    """Return the rank of every contender in every world, 1 for the best; equal means share a rank."""
    ranks = {}
    for world in worlds:
        means = {kind: cells[world, kind].means.mean() for kind in kinds if (world, kind) in cells}
        for kind, mean in means.items():
            above = sum(other > mean for other in means.values())
            equal = sum(other == mean for other in means.values())
            ranks[world, kind] = 1 + above + (equal - 1) / 2
    return ranks


def _behind(cells: Cells, worlds: Sequence[str], kinds: Mapping[str, type[Contender]]) -> str:
    """Return where rolin with nothing tuned is more than 3 % behind the best contender."""
    rows = []
    for kind in (name for name, contender in kinds.items() if contender.group == "rolin"):
        for world in worlds:
            best, cell = _best(cells, world), cells.get((world, kind))
            if cell is None or best is None:
                continue
            behind, error = _difference(cell, best[1])
            share = behind / abs(best[1].means.mean())
            if share > _BEHIND:
                rows.append([world, best[0], f"{100 * share:.1f} %", f"{behind:.4f} ± {error:.4f}"])
    if not rows:
        return f"Nowhere by more than {100 * _BEHIND:g} % of the best mean reward."
    return table(["world", "best", "behind", "difference"], rows)


def _times(stored: Stored, worlds: Sequence[str], kinds: Sequence[str]) -> str:
    def cell(world: str, kind: str) -> str:
        outcomes = stored.get((world, kind))
        return number(float(np.median([o.microseconds for o in outcomes]))) if outcomes else "–"

    return table(
        ["contender", *worlds], [[kind, *(cell(world, kind) for world in worlds)] for kind in kinds]
    )


def _coverage(stored: Stored, worlds: Sequence[str], kinds: Sequence[str]) -> str:
    rows = []
    for kind in kinds:
        row = []
        for world in worlds:
            found = [o.coverage for o in stored.get((world, kind), []) if o.coverage is not None]
            row.append(f"{100 * np.mean(found):.0f}" if found else "–")
        if any(cell != "–" for cell in row):
            rows.append([kind, *row])
    return table(["contender", *worlds], rows)
