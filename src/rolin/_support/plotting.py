"""The style of all figures: they can be printed, and read by the color-blind."""

from __future__ import annotations

from typing import Any

__all__ = ["LOOKS", "STYLE", "look_of"]

STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "rolin",  # the same figure is the same file
}
# Colours of Okabe & Ito, which most colour-blind people tell apart, each with dashes of its own,
# which everybody does in print.
LOOKS = [
    ("#0072B2", "-"),
    ("#D55E00", "--"),
    ("#009E73", "-."),
    ("#CC79A7", ":"),
    ("#E69F00", (0, (5, 1, 1, 1, 1, 1))),
    ("#56B4E9", (0, (3, 1))),
    ("#000000", (0, (1, 1))),
]


def look_of(place: int) -> dict[str, Any]:
    """Return colour and dashes of the line in this place."""
    colour, dashes = LOOKS[place % len(LOOKS)]
    return {"color": colour, "linestyle": dashes}
