"""What a simulation found: the regret of every policy in every run."""

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
from rolin._support.optional import needs
from rolin.errors import InputError, ParameterError, StateFileError
from rolin.simulation.comparison import Comparison, Estimate, compare, mean_of, ratio_of
from rolin.simulation.run_file import RunFile, read_runs

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["Result"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Result:
    """Regrets of paired runs: in one run, all policies met the same problem and the same noise."""

    settings: dict[str, Any]
    """What was played: policies, environment, rounds, seed, checkpoints, and the bound if known."""
    runs: tuple[int, ...]
    """Numbers of the runs, in order."""
    regret: Mapping[str, Floats]
    """(R, C) for every policy: regret of every run up to every recorded round."""

    @classmethod
    def of(cls, settings: dict[str, Any], runs: Mapping[int, Mapping[str, Floats]]) -> Result:
        """Put runs together, in the order of their numbers."""
        order = sorted(runs)
        names = list(settings["policies"])
        size = len(settings["checkpoints"])
        regret = {
            name: np.array([runs[run][name] for run in order]).reshape(-1, size) for name in names
        }
        return cls(settings, tuple(order), regret)

    @property
    def policies(self) -> list[str]:
        """Names of the policies."""
        return list(self.regret)

    @property
    def recorded_rounds(self) -> NDArray[np.int64]:
        """(C,) rounds after which the regret was noted."""
        return np.array(self.settings["checkpoints"], dtype=np.int64)

    @property
    def rounds(self) -> int:
        """Number of rounds of a run."""
        return int(self.settings["rounds"])

    @property
    def bound(self) -> Floats | None:
        """(C,) Theorem 1's bound at the recorded rounds, where the environment knows one."""
        bound = self.settings.get("bound")
        return None if bound is None else np.array(bound)

    def final(self, policy: str, *, level: float = 0.95) -> Estimate:
        """Return the mean regret of all rounds."""
        return mean_of(self._of(policy)[:, -1], level)

    def compare(self, first: str, second: str, *, level: float = 0.95) -> Comparison:
        """Compare the regrets of two policies, run by run.

        Parameters
        ----------
        first
            Name of a policy.
        second
            Name of another.
        level
            Probability with which the intervals hold the truth.
        """
        return compare(self._of(first)[:, -1], self._of(second)[:, -1], level)

    def growth(self, policy: str, *, level: float = 0.95) -> Estimate:
        """Return the mean regret of the last quarter of the rounds over that of the third.

        1 for regret that grows linearly, 0.84 for the square root of the rounds, 0.71 for their
        logarithm; NaN with fewer than four rounds.
        """
        regret, at = self._of(policy), self.recorded_rounds.tolist()
        ends = [self.rounds // 2, 3 * self.rounds // 4, self.rounds]
        if not set(ends) <= set(at) or not 0 < ends[0] < ends[1]:
            return Estimate(math.nan, math.nan, math.nan, math.nan)
        half, most, whole = (regret[:, at.index(end)] for end in ends)
        # per round: the quarters differ in length where four does not divide the rounds
        return ratio_of(
            (whole - most) / (ends[2] - ends[1]), (most - half) / (ends[1] - ends[0]), level
        )

    def _of(self, policy: str) -> Floats:
        if policy not in self.regret:
            raise ParameterError(f"policy {policy!r} was not played, only {self.policies}")
        return self.regret[policy]

    def summary(self) -> pd.DataFrame:
        """Return one row per policy: mean, standard error and median of the regret, and its growth."""
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
        """Draw the mean regret of every policy against the rounds.

        Parameters
        ----------
        ax
            Where to draw; by default a new figure.
        scale
            Of both axes.
        bound
            Draw Theorem 1's bound, if the environment knows it. It is loose: where it lies above
            the figure, its value is written instead.
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
            raise InputError("there are no runs to draw")
        return draw_regret(self, ax, scale=scale, bound=bound, band=band)

    def save(self, path: str | PathLike[str]) -> None:
        """Write everything to one file of JSON lines."""
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
        """Read what `save` wrote, or what `simulate` kept, finished or not."""
        return cls.of(*read_runs(path))
