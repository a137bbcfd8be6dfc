"""The misspecification report: its numbers, as text, HTML, JSON, data frame and figure."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rolin._support.arms import Name
from rolin._support.html import html_table
from rolin._support.optional import needs
from rolin._support.plain import plain
from rolin.model.answers import Answer, format_p_value
from rolin.model.estimation import Interval
from rolin.model.gain import Gain
from rolin.model.slope_report import HOW_TO_ASK, SlopeDiagnosis

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["Answer", "Diagnosis", "Effect", "format_p_value"]

# Coefficients and arms in a text or an HTML table, and characters of their names.
_MAX_SHOWN, _MAX_CHARACTERS = 20, 40


@dataclass(frozen=True)
class Effect:
    """The effect of an arm, or a coefficient, with a 95 % interval."""

    name: Name
    value: float
    low: float
    high: float
    weight: float = math.nan
    """For an arm: the sum of the weights of its rewards, their number if all weigh 1."""
    shrinkage: float = math.nan
    """For an arm: how much of its observed deviation counts as its effect, from 0 to 1."""


@dataclass(frozen=True, repr=False)
class Diagnosis:
    """What the data say about arm effects that the features miss.

    `print` shows the report as text, a notebook shows it as tables.
    """

    answer: Answer
    """Whether there are arm effects."""
    because: str
    """The reason for the answer."""
    rewards: float
    """Number of rewards, after decay."""
    noise_std: Interval
    arm_std: Interval
    statistic: float
    """Twice the increase of the log restricted likelihood from arm_std = 0 to its maximum; NaN if unknown."""
    p_value: float
    """Probability of at least this increase without arm effects; NaN if unknown."""
    shares: dict[str, float]
    """Shares of a reward's variance that features, arms and noise explain. Empty for yes/no rewards."""
    log_scores: dict[str, float]
    """Mean log density of a reward, predicted from the rewards before it, by three models. Empty for
    yes/no rewards."""
    arms: tuple[Effect, ...]
    """Effect of every arm, highest first."""
    coefficients: tuple[Effect, ...]
    gain: Gain | None
    """What the arm effects are worth, without slopes; `None` if there are too few rewards."""
    slopes: SlopeDiagnosis | None = None
    """Whether arms differ in slopes; `None` if the evidence has no slopes."""

    def __repr__(self) -> str:
        """Return the answer and the size of the data in one line."""
        _, low, high = self.arm_std
        return (
            f"<Diagnosis: {self.answer}, arm_std={self.arm_std.value:.3g} ({low:.3g} to {high:.3g}), "
            f"{self.rewards:g} rewards of {len(self.arms)} arms>"
        )

    def __str__(self) -> str:
        """Return the report as text, with at most ten arms from each end."""
        lines = [self._title, *self._reasons, *self._on_slopes, "", f"{self._size}"]
        lines += [
            f"{name:<10} {value:>10}   {interval}" for name, value, interval in self._scale_rows
        ]
        lines += self._facts
        if self.log_scores:
            lines += ["", f"{_LOG_SCORE} (higher is better)"]
            lines += [f"  {name:<24} {score:9.4f}" for name, score in self.log_scores.items()]
        shown = self.largest_coefficients(_MAX_SHOWN)
        width = _width(shown)
        lines += ["", f"{'coefficient':<{width + 2}} {'value':>8}  95 % interval"]
        lines += [
            f"  {_shortened(c.name, width):<{width}} {c.value:8.3g}  {c.low:.3g} to {c.high:.3g}"
            for c in shown
        ]
        if len(shown) < len(self.coefficients):
            lines.append(f"  … {len(self.coefficients) - len(shown)} smaller ones")
        if self.slopes is not None and self.slopes.features:
            lines += ["", *self.slopes.table(_MAX_SHOWN)]
        arms = self._shown_arms
        width = _width(arms)
        lines += [
            "",
            f"{'arm':<{width + 2}} {'effect':>8}  95 % interval          weight  shrinkage",
        ]
        rows = [_arm_line(arm, width) for arm in arms]
        if len(arms) < len(self.arms):
            rows.insert(_MAX_SHOWN // 2, f"  … {len(self.arms) - len(arms)} more")
        return "\n".join([*lines, *rows])

    def _repr_html_(self) -> str:
        """Return the report as HTML tables for notebooks, with at most ten arms from each end."""
        shown, arms = self.largest_coefficients(_MAX_SHOWN), self._shown_arms
        fewer = len(self.coefficients) - len(shown), len(self.arms) - len(arms)
        tables = [
            html_table(
                self._title,
                ["scale", "estimate", "95 % interval"],
                self._scale_rows,
                [*self._reasons, *self._on_slopes, self._size, *self._facts],
            ),
            html_table(
                "Coefficients",
                ["coefficient", "value", "95 % interval"],
                [[_shortened(c.name), f"{c.value:.3g}", _interval(c)] for c in shown],
                [f"{fewer[0]} smaller coefficients are not shown"] if fewer[0] else [],
            ),
            html_table(
                "Arm effects",
                ["arm", "effect", "95 % interval", "weight", "shrinkage"],
                [
                    [_shortened(a.name), f"{a.value:.3g}", _interval(a), f"{a.weight:g}", f"{a.shrinkage:.2f}"]
                    for a in arms
                ],
                [f"{fewer[1]} arms between the highest and the lowest are not shown"] if fewer[1] else [],
            ),
        ]  # fmt: skip
        if self.slopes is not None and self.slopes.features:
            more = len(self.slopes.features) - _MAX_SHOWN
            columns = ["feature", "slope_std", "statistic", "p, corrected"]
            notes = [f"{more} more features are not shown"] if more > 0 else []
            tables.append(html_table("Slopes", columns, self.slopes.rows(_MAX_SHOWN), notes))
        if self.log_scores:
            rows = [[name, f"{score:.4f}"] for name, score in self.log_scores.items()]
            tables.insert(1, html_table(_LOG_SCORE, ["model", "log score"], rows))
        return f"<div>{''.join(tables)}</div>"

    @property
    def _title(self) -> str:
        return f"Do the features miss something that differs between arms? {self.answer.upper()}."

    @property
    def _reasons(self) -> list[str]:
        """The reason for the answer, and what the arm effects are worth."""
        return [self.because, *([] if self.gain is None else [str(self.gain)])]

    @property
    def _on_slopes(self) -> list[str]:
        """The second question with its answer, or how to ask it."""
        if self.slopes is not None:
            return [self.slopes.title, self.slopes.because]
        return [HOW_TO_ASK] if len(self.coefficients) > 1 else []  # beside the intercept

    @property
    def _size(self) -> str:
        return f"rewards: {self.rewards:g}; arms: {len(self.arms)}"

    @property
    def _scale_rows(self) -> list[tuple[str, str, str]]:
        """Name, estimate and interval of noise_std, arm_std and slope_std."""
        rows = []
        scales = {"noise_std": self.noise_std, "arm_std": self.arm_std}
        if self.slopes is not None and not math.isnan(self.slopes.slope_std.value):
            scales["slope_std"] = self.slopes.slope_std
        for name, found in scales.items():
            interval = f"95 % interval {found.low:.3g} to {found.high:.3g}"
            if found.low == found.high:
                interval = "as given: too few data to estimate it" if self.shares else "as given"
            rows.append((name, f"{found.value:.4g}", interval))
        return rows

    @property
    def _facts(self) -> list[str]:
        """The test of arm_std = 0, and the shares of the variance, as far as they are known."""
        lines = []
        if not math.isnan(self.p_value):
            lines.append(f"test of arm_std = 0: statistic {self.statistic:.2f}, {self.p_text}")
        lines += [] if self.slopes is None else self.slopes.facts
        if self.shares:
            parts = ", ".join(f"{name} {share:.0%}" for name, share in self.shares.items())
            lines.append(f"variance of a reward: {parts}")
        return lines

    @property
    def _shown_arms(self) -> tuple[Effect, ...]:
        """All arms, or the highest and the lowest."""
        half = _MAX_SHOWN // 2
        if len(self.arms) <= _MAX_SHOWN:
            return self.arms
        return (*self.arms[:half], *self.arms[-half:])

    @property
    def p_text(self) -> str:
        """The p-value as text, such as `"p = 0.012"`."""
        return format_p_value(self.p_value)

    def largest_coefficients(self, n: int) -> list[Effect]:
        """Return the n coefficients with the largest absolute values, in their original order."""
        by_size = sorted(
            range(len(self.coefficients)), key=lambda j: -abs(self.coefficients[j].value)
        )
        return [self.coefficients[j] for j in sorted(by_size[:n])]

    def to_frame(self) -> pd.DataFrame:
        """Return arm effects and coefficients as a data frame, one row each.

        The column `kind` is `"arm"` or `"coefficient"`. Needs pandas (`rolin[sim]`).
        """
        with needs("sim"):
            import pandas as pd
        rows = [{"kind": "arm", **asdict(arm)} for arm in self.arms]
        rows += [{"kind": "coefficient", **asdict(c)} for c in self.coefficients]
        columns = ["kind", "name", "value", "low", "high", "weight", "shrinkage"]
        return pd.DataFrame(rows, columns=columns)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain numbers, texts and lists; unknown numbers are `None`."""
        report: dict[str, Any] = plain(asdict(self))
        return report

    def to_json(self) -> str:
        """Return the report as JSON; unknown numbers are `null`."""
        return json.dumps(
            self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False, default=str
        )

    def plot(self) -> Figure:
        """Draw the arm effects and the coefficients with their intervals. Needs matplotlib (`rolin[sim]`)."""
        with needs("sim"):
            from rolin.model.figures import draw_effects
        return draw_effects(self)


_LOG_SCORE = "log score per reward, one step ahead"


def _interval(effect: Effect) -> str:
    return f"{effect.low:.3g} to {effect.high:.3g}"


def _width(effects: Sequence[Effect]) -> int:
    """Return the width of a column of names."""
    return max([12, *(min(len(str(effect.name)), _MAX_CHARACTERS) for effect in effects)])


def _arm_line(arm: Effect, width: int) -> str:
    numbers = f"{arm.value:8.3g}  {_interval(arm):<18} {arm.weight:10g} {arm.shrinkage:10.2f}"
    return f"  {_shortened(arm.name, width):<{width}} {numbers}"


def _shortened(name: Name, width: int = _MAX_CHARACTERS) -> str:
    text = str(name)
    return text if len(text) <= width else f"{text[: width - 1]}…"
