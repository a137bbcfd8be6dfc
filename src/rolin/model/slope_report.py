"""What the data say about slopes of arms: the second part of the misspecification report."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from rolin._support.optional import needs
from rolin.model.answers import Answer, format_p_value
from rolin.model.estimation import Interval

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["HOW_TO_ASK", "FeatureSlopes", "SlopeDiagnosis"]

HOW_TO_ASK = 'Do arms differ in slopes? Not asked. Set slope_std to "learn", or name slopes when you fit a log.'
"""What the report says if the evidence has no slopes."""


@dataclass(frozen=True)
class FeatureSlopes:
    """Whether arms differ in their slopes for one feature, if they may differ for no other feature."""

    name: str | int
    slope_std: float
    """Standard deviation of these slopes."""
    statistic: float
    """Twice the increase of the log restricted likelihood from slope_std = 0 to its maximum."""
    p_value: float
    """Probability of at least this increase without such slopes."""
    adjusted: float
    """The p-value, corrected for the number of features (Holm 1979)."""


@dataclass(frozen=True, repr=False)
class SlopeDiagnosis:
    """What the data say about slopes: whether arms react differently to the same features."""

    answer: Answer
    """Whether arms differ in slopes."""
    because: str
    """The reason for the answer."""
    slope_std: Interval
    """Standard deviation of the slopes; their geometric mean, if the prior has one number per feature."""
    statistic: float
    """Twice the increase of the log restricted likelihood from slope_std = 0 to its maximum; NaN if unknown."""
    p_value: float
    """Probability of at least this increase if arms differ in their level alone; NaN if unknown."""
    features: tuple[FeatureSlopes, ...]
    """Each feature with slopes, tested alone; the smallest p-value first."""

    def __repr__(self) -> str:
        """Return the answer in one line."""
        value, low, high = self.slope_std
        return f"<SlopeDiagnosis: {self.answer}, slope_std={value:.3g} ({low:.3g} to {high:.3g})>"

    def __str__(self) -> str:
        """Return the answer, the test, and the features as text."""
        lines = [self.title, self.because, *self.facts]
        return "\n".join([*lines, "", *self.table()] if self.features else lines)

    @property
    def title(self) -> str:
        """The question and its answer."""
        return f"Do arms differ in slopes? {self.answer.upper()}."

    @property
    def facts(self) -> list[str]:
        """The test of slope_std = 0, if there is one."""
        if math.isnan(self.p_value):
            return []
        test = f"statistic {self.statistic:.2f}, {format_p_value(self.p_value)}"
        return [f"test of slope_std = 0: {test}"]

    def rows(self, most: int) -> list[list[str]]:
        """Return name, slope_std, statistic and corrected p-value of at most so many features."""
        return [
            [str(f.name), f"{f.slope_std:.3g}", f"{f.statistic:.2f}", f"{f.adjusted:.2g}"]
            for f in self.features[:most]
        ]

    def table(self, most: int = 20) -> list[str]:
        """Return the features as lines of text."""
        rows = self.rows(most)
        width = max([12, *(len(row[0]) for row in rows)])
        lines = [f"{'slopes for':<{width + 2}} {'std':>8}  statistic  p, corrected"]
        lines += [f"  {row[0]:<{width}} {row[1]:>8} {row[2]:>10}  {row[3]:>12}" for row in rows]
        if len(rows) < len(self.features):
            lines.append(f"  … {len(self.features) - len(rows)} more")
        return lines

    def to_frame(self) -> pd.DataFrame:
        """Return the features as a data frame, one row each. Needs pandas (`rolin[sim]`)."""
        with needs("sim"):
            import pandas as pd
        rows: Sequence[dict[str, object]] = [asdict(feature) for feature in self.features]
        columns = ["name", "slope_std", "statistic", "p_value", "adjusted"]
        return pd.DataFrame(rows, columns=columns)
