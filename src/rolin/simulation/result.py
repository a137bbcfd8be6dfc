"""The result of a simulation: the regret of every policy in every run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from rolin._support.checks import number_of
from rolin._support.files import replace_file
from rolin._support.html import html_table
from rolin._support.optional import needs
from rolin.errors import InputError, ParameterError, StateFileError
from rolin.simulation.comparison import (
    Comparison,
    RunEstimate,
    compare,
    format_number,
    mean_over_runs,
    ratio_over_runs,
)
from rolin.simulation.run_file import RunFile, read_runs

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["Result"]

Floats = NDArray[np.float64]
# Policies that `repr` names; a result with more of them says how many there are.
_NAMED = 4


@dataclass(frozen=True, repr=False)
class Result:
    """Regrets of paired runs: in each run, all policies faced the same problem and the same noise."""

    settings: dict[str, Any]
    """What was simulated: policies, environment, rounds, seed, recorded rounds, and the bound if known."""
    runs: tuple[int, ...]
    """Numbers of the runs, in ascending order."""
    regret: Mapping[str, Floats]
    """(R, C) for every policy: cumulative regret of each run at each recorded round."""

    @classmethod
    def of(cls, settings: dict[str, Any], runs: Mapping[int, Mapping[str, Floats]]) -> Result:
        """Combine single runs, in the order of their numbers.

        Parameters
        ----------
        settings
            What was simulated.
        runs
            By the number of the run and the name of the policy: (C,) regret at the recorded rounds.
        """
        order = sorted(runs)
        names = list(settings["policies"])
        size = len(settings["checkpoints"])
        regret = {
            name: np.array([runs[run][name] for run in order]).reshape(-1, size) for name in names
        }
        return cls(settings, tuple(order), regret)

    def __repr__(self) -> str:
        """Return the policies and the size of the simulation, on one line."""
        names = self.policies
        policies = f"{names}" if len(names) <= _NAMED else f"<{len(names)} policies>"
        return f"Result(policies={policies}, runs={len(self.runs)}, rounds={self.rounds})"

    def _repr_html_(self) -> str:
        """Return the summary as an HTML table, for notebooks."""
        rows = []
        for name in self.policies if self.runs else ():
            median = format_number(float(np.median(self.regret[name][:, -1])))
            rows.append((name, str(self.final(name)), median, str(self.growth(name))))
        header = ("policy", "mean regret", "median", "growth")
        return html_table(f"{len(self.runs)} runs of {self.rounds} rounds", header, rows)

    @property
    def policies(self) -> list[str]:
        """Names of the policies."""
        return list(self.regret)

    @property
    def recorded_rounds(self) -> NDArray[np.int64]:
        """(C,) rounds after which the regret was recorded."""
        return np.array(self.settings["checkpoints"], dtype=np.int64)

    @property
    def rounds(self) -> int:
        """Number of rounds in a run."""
        return int(self.settings["rounds"])

    @property
    def bound(self) -> Floats | None:
        """(C,) bound of Theorem 1 at the recorded rounds; `None` if the environment has none."""
        bound = self.settings.get("bound")
        return None if bound is None else np.array(bound)

    def final(self, policy: str, *, level: float = 0.95) -> RunEstimate:
        """Return the mean regret of a policy after all rounds.

        Parameters
        ----------
        policy
            Name of the policy.
        level
            Confidence level of the interval.
        """
        return mean_over_runs(self._regret_of(policy)[:, -1], level)

    def compare(self, first: str, second: str, *, level: float = 0.95) -> Comparison:
        """Compare the final regrets of two policies, run by run.

        Parameters
        ----------
        first
            Name of one policy.
        second
            Name of the other policy.
        level
            Confidence level of the intervals.
        """
        return compare(self._regret_of(first)[:, -1], self._regret_of(second)[:, -1], level)

    def growth(self, policy: str, *, level: float = 0.95) -> RunEstimate:
        """Return the mean regret of the last quarter of the rounds divided by that of the third quarter.

        It is 1 if regret grows linearly, 0.84 if it grows like the square root of the rounds, and 0.71
        if it grows like their logarithm. It is NaN with fewer than four rounds.

        Parameters
        ----------
        policy
            Name of the policy.
        level
            Confidence level of the interval.
        """
        regret, recorded = self._regret_of(policy), self.recorded_rounds.tolist()
        half, three_quarters, end = self.rounds // 2, 3 * self.rounds // 4, self.rounds
        if not {half, three_quarters, end} <= set(recorded) or not 0 < half < three_quarters:
            return RunEstimate(math.nan, math.nan, math.nan, math.nan)
        at_half, at_three_quarters, at_end = (
            regret[:, recorded.index(t)] for t in (half, three_quarters, end)
        )
        # Per round: the quarters differ in length if the number of rounds is not a multiple of four.
        return ratio_over_runs(
            (at_end - at_three_quarters) / (end - three_quarters),
            (at_three_quarters - at_half) / (three_quarters - half),
            level,
        )

    def _regret_of(self, policy: str) -> Floats:
        if policy not in self.regret:
            raise ParameterError(f"policy={policy!r}, expected one of {self.policies}")
        return self.regret[policy]

    def summary(self) -> pd.DataFrame:
        """Return one row per policy: mean, standard error and median of the final regret, and its growth."""
        with needs("sim"):
            import pandas as pd
        rows = []
        for name in self.policies:
            final, growth = self.final(name), self.growth(name)
            rows.append(
                {
                    "policy": name,
                    "mean": final.value,
                    "std_error": final.std_error,
                    "median": float(np.median(self.regret[name][:, -1])),
                    "growth": growth.value,
                    "growth_std_error": growth.std_error,
                    "runs": len(self.runs),
                    "rounds": self.rounds,
                }
            )
        return pd.DataFrame(rows)

    def to_frame(self) -> pd.DataFrame:
        """Return one row per policy, run and recorded round: policy, run, round, regret."""
        with needs("sim"):
            import pandas as pd
        n, c = len(self.runs), len(self.recorded_rounds)
        return pd.DataFrame(
            {
                "policy": np.repeat(self.policies, n * c),
                "run": np.tile(np.repeat(self.runs, c), len(self.policies)),
                "round": np.tile(self.recorded_rounds, n * len(self.policies)),
                "regret": np.concatenate([self.regret[name].ravel() for name in self.policies]),
            }
        )

    def plot(
        self,
        ax: Axes | None = None,
        *,
        scale: Literal["linear", "log"] = "linear",
        bound: bool = True,
        band: float = 2.0,
    ) -> Axes:
        """Plot the mean regret of every policy against the rounds.

        Parameters
        ----------
        ax
            Axes to draw on; by default those of a new figure.
        scale
            Scale of both axes.
        bound
            Draw the bound of Theorem 1 if the environment has one. The bound is loose: if it lies above
            the figure, the legend gives its value instead.
        band
            Half-width of the bands around the means, in standard errors.
        """
        with needs("sim"):
            from rolin.simulation.figures import draw_regret
        if scale not in ("linear", "log"):
            raise ParameterError(f"scale={scale!r}, expected 'linear' or 'log'")
        band = number_of("band", band, ParameterError)
        if not 0.0 <= band < math.inf:
            raise ParameterError(f"band={band!r}, expected a number of at least 0")
        if not self.runs:
            raise InputError("the result has no runs to plot, expected at least one")
        return draw_regret(self, ax, scale=scale, bound=bound, band=band)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the result to a file of JSON lines, replacing the file if it exists.

        Parameters
        ----------
        path
            The file.
        """
        if Path(path).is_dir():
            raise ParameterError(f"{path} is a folder, expected the name of a file")
        try:
            with replace_file(path) as temporary:
                file = RunFile(temporary, self.settings)
                for i, run in enumerate(self.runs):
                    file.add(run, {name: regret[i] for name, regret in self.regret.items()})
                file.close()
        except (FileNotFoundError, StateFileError) as error:
            raise ParameterError(str(error)) from error

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Result:
        """Read a file that `save` wrote, or the checkpoint of a `simulate`, completed or not.

        Parameters
        ----------
        path
            The file.
        """
        return cls.of(*read_runs(path))
