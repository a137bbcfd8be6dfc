"""The text format of Prometheus: declared metrics, histograms, and how values become lines."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Literal, NamedTuple

__all__ = ["Histogram", "Metric", "Sample", "text_of"]


class Metric(NamedTuple):
    """What is known of one metric."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...]
    meaning: str
    """One sentence or two; the help text, and a row of the documentation."""


class Histogram:
    """Counts of values up to each of some bounds, and their sum.

    Parameters
    ----------
    bounds
        Upper bounds, in order; larger values are counted as well.
    """

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        """Values above the bound before and up to this one; the last are above all bounds."""
        self.total = 0.0
        """The sum of the values."""

    def add(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def copy(self) -> Histogram:
        """Return one that others do not change."""
        own = Histogram(self.bounds)
        own.counts, own.total = self.counts.copy(), self.total
        return own


class Sample(NamedTuple):
    """The value of a metric for some values of its labels."""

    metric: Metric
    labels: tuple[str, ...]
    value: float | Histogram


def text_of(metrics: Iterable[Metric], samples: Iterable[Sample]) -> str:
    """Return all samples, grouped by metric, below the help text of each.

    Parameters
    ----------
    metrics
        All metrics, in order; those without a sample are left out.
    samples
        The samples, in any order.
    """
    lines: dict[Metric, list[str]] = {metric: [] for metric in metrics}
    for metric, labels, value in samples:
        pairs = [f'{n}="{_escaped(v)}"' for n, v in zip(metric.labels, labels, strict=True)]
        if isinstance(value, Histogram):
            lines[metric] += _histogram(metric.name, pairs, value)
        else:
            lines[metric].append(_line(metric.name, pairs, value))
    return "".join(
        f"# HELP {metric.name} {_one_line(metric.meaning)}\n# TYPE {metric.name} {metric.kind}\n{''.join(own)}"
        for metric, own in lines.items()
        if own
    )


def _histogram(name: str, pairs: list[str], found: Histogram) -> Iterator[str]:
    totals = list(accumulate(found.counts))
    for bound, total in zip((*found.bounds, math.inf), totals, strict=True):
        yield _line(f"{name}_bucket", [*pairs, f'le="{_number(bound)}"'], total)
    yield _line(f"{name}_sum", pairs, found.total)
    yield _line(f"{name}_count", pairs, totals[-1])


def _line(name: str, pairs: list[str], value: float) -> str:
    labels = f"{{{','.join(pairs)}}}" if pairs else ""
    return f"{name}{labels} {_number(value)}\n"


def _number(value: float) -> str:
    if value == math.inf:
        return "+Inf"
    return str(value) if isinstance(value, int) else repr(float(value))


def _escaped(label: str) -> str:
    return _one_line(label).replace('"', '\\"')


def _one_line(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")
