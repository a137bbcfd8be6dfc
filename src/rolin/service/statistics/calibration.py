"""Whether arms are chosen as often as the recorded probabilities say, counted while decisions come in."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rolin._support.distributions import normal_tail
from rolin.service.statistics.arms import ArmCounts
from rolin.service.statistics.schema import Calibration, CalibrationBin, State

__all__ = ["FEW", "RunningCalibration"]

_EDGES = (0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)
FEW = 20.0
"""Least variance of a count that is taken as normal, as in `rolin.offline.check_propensities`."""
# The counts are looked at again and again, so that a level of 0.1 % alone would be exceeded by chance some day.
_WATCH, _WRONG = 1e-3, 1e-6


class RunningCalibration:
    """Offers, expected and observed choices, by groups of similar probability."""

    def __init__(self) -> None:
        n = len(_EDGES) + 1
        self._edges = np.array(_EDGES)
        self._offers, self._expected = np.zeros(n), np.zeros(n)
        self._observed, self._variance = np.zeros(n), np.zeros(n)
        self._decisions = 0

    def add(self, p: NDArray[np.float64], chosen: int) -> None:
        """Count a decision."""
        group = self._edges.searchsorted(p, side="right")
        n = len(self._expected)
        share = np.bincount(group, weights=p, minlength=n)
        self._offers += np.bincount(group, minlength=n)
        self._expected += share
        # The choice falls into a group with the sum of its probabilities.
        self._variance += share * (1.0 - share)
        self._observed[group[chosen]] += 1.0
        self._decisions += 1

    def dump(self) -> list[Any]:
        """Return the counts as plain values."""
        arrays = (self._offers, self._expected, self._observed, self._variance)
        return [self._decisions, *(array.tolist() for array in arrays)]

    def load(self, values: list[Any]) -> None:
        """Replace all counts with those that `dump` returned."""
        self._decisions, *arrays = values
        self._offers, self._expected, self._observed, self._variance = (
            np.array(array, dtype=float) for array in arrays
        )

    def report(self, arms: ArmCounts) -> Calibration:
        """Return the result of the test."""
        used = self._offers > 0.0
        z = np.zeros(len(self._offers))
        enough = self._variance >= FEW
        apart = self._observed - self._expected
        z[enough] = apart[enough] / np.sqrt(self._variance[enough])
        each = np.concatenate([z[enough], arms.deviations(FEW)])
        largest = float(each[np.abs(each).argmax()]) if len(each) else None
        p_value = 1.0
        if largest is not None:  # Bonferroni's correction
            p_value = min(1.0, len(each) * 2.0 * normal_tail(abs(largest)))
        ends = (0.0, *_EDGES, 1.0)
        bins = [
            CalibrationBin(
                ends[b],
                ends[b + 1],
                int(self._offers[b]),
                float(self._expected[b]),
                int(self._observed[b]),
                float(z[b]) if enough[b] else None,
            )
            for b in np.flatnonzero(used).tolist()
        ]
        state: State = "unknown" if largest is None else "ok"
        if p_value < _WATCH:
            state = "broken" if p_value < _WRONG else "watch"
        return Calibration(state, self._decisions, largest, p_value, len(each), bins)
