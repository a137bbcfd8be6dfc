"""The style of all figures. Lines can be told apart in print and by color-blind readers."""

from __future__ import annotations

from typing import Any

__all__ = ["LOOKS", "STYLE", "look_of"]

STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "svg.fonttype": "none",  # write text as text, not as outlines
    "svg.hashsalt": "rolin",  # write the same file for the same figure
}
# The colors of Okabe & Ito, which most color-blind people can tell apart. Each has its own dashes for print.
LOOKS = [
    ("#0072B2", "-"),
    ("#D55E00", "--"),
    ("#009E73", "-."),
    ("#CC79A7", ":"),
    ("#E69F00", (0, (5, 1, 1, 1, 1, 1))),
    ("#56B4E9", (0, (3, 1))),
    ("#000000", (0, (1, 1))),
]


def look_of(index: int) -> dict[str, Any]:
    """Return color and dashes of the line with this index."""
    color, dashes = LOOKS[index % len(LOOKS)]
    return {"color": color, "linestyle": dashes}
