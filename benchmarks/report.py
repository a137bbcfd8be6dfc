"""Tables and targets as Markdown, for the terminal and for a file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Target:
    """A bound for a measured number."""

    what: str
    hold: float
    measured: float
    at_least: bool
    """Whether more is better."""
    unit: str = "×"

    @property
    def met(self) -> bool:
        """Whether the measured number is within the bound; NaN is not."""
        if self.at_least:
            return self.measured >= self.hold
        return self.measured <= self.hold

    def row(self) -> list[str]:
        """Return the cells of the table of targets."""
        bound = "at least" if self.at_least else "at most"
        return [
            self.what,
            f"{bound} {number(self.hold)} {self.unit}",
            f"{number(self.measured)} {self.unit}",
            "yes" if self.met else "NO",
        ]


@dataclass
class Section:
    """One part of the report."""

    title: str
    notes: list[str] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)
    raw: dict[str, object] = field(default_factory=dict)
    """All measurements, for the JSON file."""

    def text(self) -> str:
        """Return the section as Markdown."""
        parts = [f"## {self.title}", *self.notes, *self.tables]
        if self.targets:
            parts.append(targets_table(self.targets))
        return "\n\n".join(parts)


def targets_table(targets: Iterable[Target]) -> str:
    """Return a table of targets: bound, measured number, and whether the target is met."""
    return table(["what", "target", "measured", "met?"], [t.row() for t in targets])


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return an aligned Markdown table; columns of numbers are right-aligned."""
    rows = [list(row) for row in rows]
    widths = [
        max(len(header[i]), 3, *(len(row[i]) for row in rows)) if rows else max(len(header[i]), 3)
        for i in range(len(header))
    ]
    right = [bool(rows) and all(_numeric(row[i]) for row in rows) for i in range(len(header))]

    def line(cells: Sequence[str]) -> str:
        padded = (
            c.rjust(w) if r else c.ljust(w) for c, w, r in zip(cells, widths, right, strict=True)
        )
        return "| " + " | ".join(padded) + " |"

    rule = "|".join("-" * (w + 1) + (":" if r else "-") for w, r in zip(widths, right, strict=True))
    return "\n".join([line(header), f"|{rule}|", *(line(row) for row in rows)])


def _numeric(cell: str) -> bool:
    return cell[:1] in "0123456789-–±" or cell in {"", "nan"}


def number(value: float) -> str:
    """Return a number with about three significant digits and with thousands separators."""
    if not np.isfinite(value):
        return "nan"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) < 10 else f"{value:.1f}"
