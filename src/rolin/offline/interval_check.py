"""The result of checking intervals: the verdict, the factor, and the mean reward of each arm."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from rolin._support.arms import Name
from rolin._support.html import html_table
from rolin._support.optional import needs
from rolin._support.plain import plain
from rolin.model.answers import format_p_value
from rolin.model.estimation import Interval
from rolin.model.held_out import WidthEstimate

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["REACH", "ArmAverage", "IntervalCheck", "OneStep", "Verdict"]

Verdict = Literal["hold", "too narrow", "too wide", "cannot tell"]
REACH = NormalDist().inv_cdf(0.95)
"""Half-width of a 90 % interval, in standard deviations."""
_SIGNIFICANT = 0.05
# Intervals hold if the factor is known to be within these limits. With factors of 0.5 and 1.5, 90 % intervals hold 99.9 %
# and 73 %. Intervals that are too wide do less harm.
_CLOSE = 0.5, 1.5
_MAX_SHOWN = 5


class OneStep(NamedTuple):
    """Single rewards, each predicted from those before it."""

    rewards: int
    """Number of rewards."""
    spread: float
    """Root mean square of the residuals, in predicted standard deviations; 1 is right."""
    spread_error: float
    """Its standard error."""
    coverage: float
    """Share of the rewards in their 90 % intervals; NaN for binary rewards."""
    coverage_error: float
    """Its standard error."""


class ArmAverage(NamedTuple):
    """The mean reward of an arm in the last two thirds of the log, and its prediction from the first third."""

    name: Name
    weight: float
    """Sum of the weights of the rewards, their number if all weigh 1."""
    observed: float
    """Mean reward."""
    predicted: float
    """Predicted mean reward in the same contexts."""
    std: float
    """Standard deviation of the difference: that of the posterior, and of the noise."""

    @property
    def z(self) -> float:
        """Difference of observed and predicted, in standard deviations."""
        return (self.observed - self.predicted) / self.std


@dataclass(frozen=True, repr=False)
class IntervalCheck:
    """Whether the intervals of a policy held in a log.

    `print` shows the result as text, a notebook shows it as tables.
    """

    policy: str
    """Class of the policy."""
    width: WidthEstimate
    """By which factor the standard deviations of arms' mean rewards are off."""
    one_step: OneStep
    """Single rewards, one step ahead."""
    arms: tuple[ArmAverage, ...]
    """Every arm in the last two thirds of the log, the largest difference in standard deviations first."""

    @property
    def factor(self) -> Interval:
        """Multiply standard deviations by this number; 1 is right. With a 95 % interval."""
        return self.width.factor

    @property
    def p_value(self) -> float:
        """Probability of a factor at least as far from 1 if the intervals are right."""
        return self.width.p_value

    @property
    def coverage(self) -> Interval:
        """The share of arms' mean rewards that 90 % intervals hold, with a 95 % interval."""
        value, low, high = map(_coverage_of, self.factor)
        return Interval(value, high, low)

    @property
    def verdict(self) -> Verdict:
        """Whether the intervals hold.

        They are too narrow or too wide if a factor of 1 is rejected at 5 %, or if the noise is more than 1.5 times or less
        than half of what is assumed. Otherwise they hold if the factor is certainly between 0.5 and 1.5, and else
        the log cannot tell.
        """
        value, low, high = self.factor
        if self.p_value < _SIGNIFICANT:
            return "too narrow" if value > 1.0 else "too wide"
        if not _CLOSE[0] <= self.width.noise_factor <= _CLOSE[1]:
            return "too narrow" if self.width.noise_factor > 1.0 else "too wide"
        return "hold" if _CLOSE[0] <= low and high <= _CLOSE[1] else "cannot tell"

    @property
    def because(self) -> str:
        """The reason for the verdict."""
        value, low, high = (_number(end) for end in self.factor)
        shares = [_percent(end) for end in self.coverage]
        held = f"90 % intervals hold about {shares[0]} ({shares[1]} to {shares[2]})"
        if self.verdict == "cannot tell":
            return (
                f"The factor on standard deviations could be anything from {low} to {high}. "
                "More rewards are needed."
            )
        if self.verdict == "hold":
            return (
                f"The best factor on standard deviations is {value} ({low} to {high}), and 1 is not rejected "
                f"({format_p_value(self.p_value)}): {held}."
            )
        noise = self.width.noise_factor
        text = (
            f"Intervals are {self.verdict}: multiply standard deviations by {value} ({low} to {high}, "
            f"{format_p_value(self.p_value)}). Now {held}."
        )
        if _CLOSE[0] <= noise <= _CLOSE[1]:
            return text
        text += f" The noise is {noise:.2f} times as large as assumed"
        binary = math.isnan(self.one_step.coverage)
        return f"{text}." if binary else f"{text}: correct noise_std, or let the policy learn it."

    def __repr__(self) -> str:
        """Return the verdict and the factor in one line."""
        value, low, high = (_number(end) for end in self.factor)
        return (
            f"<IntervalCheck: {self.verdict}, factor {value} ({low} to {high}), "
            f"{self.one_step.rewards} rewards of {self.policy}>"
        )

    def __str__(self) -> str:
        """Return the verdict, the numbers, and the arms that differ most."""
        lines = [self._title, self.because, *self._facts]
        shown = self.arms[:_MAX_SHOWN]
        lines += [
            f"  arm {arm.name!r}: mean {arm.observed:.3g}, predicted {arm.predicted:.3g} ± {arm.std:.2g}"
            for arm in shown
            if abs(arm.z) > REACH
        ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Return the verdict and the arms that differ most as an HTML table, for notebooks."""
        shown = self.arms[: 4 * _MAX_SHOWN]
        hidden = len(self.arms) - len(shown)
        return html_table(
            self._title,
            ["arm", "weight", "observed", "predicted", "std", "z"],
            [
                [str(a.name), f"{a.weight:g}", f"{a.observed:.3g}", f"{a.predicted:.3g}", f"{a.std:.2g}", f"{a.z:.2f}"]
                for a in shown
            ],
            [self.because, *self._facts, *([f"{hidden} closer arms are not shown"] if hidden else [])],
        )  # fmt: skip

    @property
    def _title(self) -> str:
        answer = {
            "hold": "YES",
            "too narrow": "NO, they are too narrow",
            "too wide": "NO, they are too wide",
            "cannot tell": "CANNOT TELL",
        }
        return f"Do the intervals of arms' mean rewards hold? {answer[self.verdict]}."

    @property
    def _facts(self) -> list[str]:
        n, spread, error, held, held_error = self.one_step
        single = f"single rewards, one step ahead: residuals are {spread:.3f} ± {error:.3f} times as large as predicted"
        if not math.isnan(held):
            single += f"; 90 % intervals hold {100 * held:.1f} ± {100 * held_error:.1f} %"
        outside = sum(abs(arm.z) > REACH for arm in self.arms)
        return [
            single,
            f"tested: {n} rewards, predicted by {self.policy}; arms outside of their 90 % intervals in the last two "
            f"thirds: {outside} of {len(self.arms)}",
        ]

    def to_frame(self) -> pd.DataFrame:
        """Return the arms as a data frame, one row each. Needs pandas (`rolin[sim]`)."""
        with needs("sim"):
            import pandas as pd
        frame = pd.DataFrame(self.arms, columns=ArmAverage._fields)
        return frame.assign(z=[arm.z for arm in self.arms])

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain numbers, texts and lists; unknown and infinite numbers are `None`."""
        report: dict[str, Any] = plain(
            {
                "verdict": self.verdict,
                "because": self.because,
                "policy": self.policy,
                "factor": self.factor,
                "p_value": self.p_value,
                "coverage_of_90": self.coverage,
                "noise_factor": self.width.noise_factor,
                "one_step": self.one_step,
                "arms": [{**arm._asdict(), "z": arm.z} for arm in self.arms],
            }
        )
        return report

    def to_json(self) -> str:
        """Return the result as JSON; unknown and infinite numbers are `null`."""
        return json.dumps(
            self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False, default=str
        )

    def plot(self) -> Figure:
        """Draw observed over predicted mean rewards, with 90 % intervals. Needs matplotlib (`rolin[sim]`)."""
        with needs("sim"):
            from rolin.offline.figures import draw_averages
        return draw_averages(self)


def _coverage_of(factor: float) -> float:
    """Return the share that 90 % intervals hold if standard deviations are too small by a factor."""
    if factor == 0.0:
        return 1.0
    return math.erf(REACH / (factor * math.sqrt(2.0)))  # P(|N(0, factor²)| < reach)


def _percent(share: float) -> str:
    return f"{100.0 * share:.0f} %"


def _number(value: float) -> str:
    return "infinity" if value == math.inf else f"{value:.2f}"
