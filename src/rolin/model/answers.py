"""The answers of a diagnosis, and p-values as text."""

from __future__ import annotations

from typing import Literal

__all__ = ["Answer", "format_p_value"]

Answer = Literal["yes", "no", "cannot tell"]


def format_p_value(p_value: float) -> str:
    """Return a p-value as text; one too small for a float is not shown as zero."""
    return f"p = {p_value:.2g}" if p_value > 0.0 else "p < 1e-300"
