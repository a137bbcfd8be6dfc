"""The explanation of an arm's score: a linear model is a sum of terms, and each term has a name.

    mean = Σ_j x_j θ̂_j + v̂_i + Σ_j x_j b̂_ij

The last sum is that of arms with slopes of their own.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rolin._support.arms import Name
from rolin._support.html import html_table
from rolin._support.optional import needs

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Contribution", "Explanation", "SlopeContribution"]

_SHOWN = 15  # contributions in a text


@dataclass(frozen=True)
class Contribution:
    """The contribution of one feature to an arm's mean."""

    name: str
    """The feature."""
    value: float
    """Its value in the vector. With `HashedFeatures`, the sign of half of all fields is turned, in the value as in the
    coefficient."""
    coefficient: float
    """Posterior mean of its coefficient, which all arms share."""
    contribution: float
    """Value times coefficient; for arms with slopes, plus what the arm's own slope adds."""
    std: float
    """Standard deviation of the contribution; 0 as long as features are not used, because no scale is known."""

    def _cells(self) -> list[str]:
        """Return the numbers as a table shows them."""
        return [
            f"{self.value:.3g}", f"{self.coefficient:.3g}", f"{self.contribution:.4g}", f"{self.std:.2g}"
        ]  # fmt: skip


@dataclass(frozen=True)
class SlopeContribution(Contribution):
    """The contribution of one feature to the mean of an arm with slopes of its own.

    For a difference between two arms, `value` is the difference of their values. So `value` and `shared` are 0 for a
    feature that has the same value for both, but `own` is not.
    """

    shared: float
    """What the shared coefficient adds: value times coefficient."""
    own: float
    """What the arm's own slope adds; 0 for a feature that has no slopes."""
    own_std: float
    """Standard deviation of what the arm's own slope adds."""

    def _cells(self) -> list[str]:
        """Return the numbers as a table shows them."""
        value, coefficient, contribution, std = super()._cells()
        own = [f"{self.own:.4g}", f"{self.own_std:.2g}"]
        return [value, coefficient, f"{self.shared:.4g}", *own, contribution, std]


@dataclass(frozen=True, repr=False)
class Explanation:
    """The terms of an arm's mean by name, or of the difference between two arms."""

    arm: Name
    against: Name | None
    """The arm that it is compared with; all numbers are then differences."""
    scale: str
    """Unit of the numbers: `"reward"`, or `"logit"` for binary rewards."""
    contributions: tuple[Contribution, ...]
    """Contributions of the features, the largest first. For arms with slopes, they are `SlopeContribution`s."""
    effect: float
    """The arm effect: what the features miss."""
    effect_std: float
    """Standard deviation of the arm effect."""
    mean: float
    """The sum of all contributions and the arm effect."""
    std: float
    """Standard deviation of the mean, given the scales. Intervals of `predict` include the uncertainty of a learned
    `arm_std`, too."""
    chosen: bool
    """Whether the decision chose the arm."""
    propensity: float | None
    """Probability of the arm to be chosen; `None` for differences and for explanations as of now."""
    score: float | None
    """What the arm was ranked by: the mean plus a draw or bound for its uncertainty. `None` in a control
    group, for joint draws, for differences, and before the first estimate of the scales."""
    explored: bool | None
    """Whether the arm was drawn uniformly, by the floor or in a control group, instead of having the highest
    score. `None` for arms that were not chosen, if it is unknown, and before the first estimate of the scales."""
    version: int
    """Number of the last event that the model knew."""

    def __repr__(self) -> str:
        """Return one line."""
        arms = repr(self.arm) if self.against is None else f"{self.arm!r} against {self.against!r}"
        return (
            f"<Explanation of {arms}: mean {self.mean:.4g} ± {self.std:.2g}, "
            f"{len(self.contributions)} contributions>"
        )

    def _repr_html_(self) -> str:
        """Return the largest contributions as an HTML table, for notebooks."""
        header = ("feature", *(name for name, _ in self._columns("std")))
        return html_table(self._title(), header, self._rows(), self._notes())

    def __str__(self) -> str:
        """Return the largest contributions as a text table."""
        columns = self._columns("±")
        rows = [("", *(name for name, _ in columns)), *self._rows()]
        lines = [
            f"  {_short(name):<40} "
            + " ".join(f"{cell:>{width}}" for cell, (_, width) in zip(cells, columns, strict=True))
            for name, *cells in rows
        ]
        return "\n".join([self._title(), *map(str.rstrip, lines), *self._notes()])

    @property
    def _has_slopes(self) -> bool:
        return any(isinstance(c, SlopeContribution) for c in self.contributions)

    def _columns(self, std: str) -> list[tuple[str, int]]:
        """Return the titles of the columns and their widths in a text."""
        own = [("shared", 10), ("own", 10), (std, 9)] if self._has_slopes else []
        return [("value", 9), ("coefficient", 12), *own, ("contribution", 13), (std, 9)]

    def _rows(self) -> list[tuple[str, ...]]:
        """Return the rows of a table: the largest contributions, the sum of the others, and the arm effect."""
        blank = [""] * (len(self._columns("")) - 2)  # all but the last two columns
        rows = [(c.name, *c._cells()) for c in self.contributions[:_SHOWN]]
        if rest := self.contributions[_SHOWN:]:
            total = math.fsum(c.contribution for c in rest)
            rows.append((f"… {len(rest)} more", *blank, f"{total:.4g}", ""))
        return [*rows, ("arm effect", *blank, f"{self.effect:.4g}", f"{self.effect_std:.2g}")]

    def _title(self) -> str:
        """Return the arm, or the two arms, with the mean."""
        arms = f"arm {self.arm!r}"
        if self.against is not None:
            arms += f" against {self.against!r}"
        return f"{arms}: mean {self.mean:.4g} ± {self.std:.2g} ({self.scale}), the sum of"

    def _notes(self) -> list[str]:
        """Return the lines below the contributions."""
        notes = []
        if self.score is not None:
            notes.append(
                f"ranked by {self.score:.4g}: the mean and {self.score - self.mean:+.3g} for its uncertainty"
            )
        if self.propensity is not None:
            what = "chosen with" if self.chosen else "not chosen; it had"
            notes.append(f"{what} probability {self.propensity:.3g}")
        if self.explored:
            notes.append("drawn uniformly to explore, not chosen by its score")
        return notes

    def to_frame(self) -> pd.DataFrame:
        """Return the contributions and the arm effect as a data frame, one row each."""
        with needs("sim"):
            import pandas as pd
        effect = ("arm effect", math.nan, math.nan, self.effect, self.effect_std)
        row = Contribution(*effect)
        if self._has_slopes:
            row = SlopeContribution(*effect, shared=0.0, own=self.effect, own_std=self.effect_std)
        return pd.DataFrame([asdict(c) for c in (*self.contributions, row)])

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation as plain numbers, strings and lists."""
        return {**asdict(self), "contributions": [asdict(c) for c in self.contributions]}


def _short(name: str) -> str:
    return name if len(name) <= 40 else f"{name[:39]}…"
