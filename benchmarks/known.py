"""Policies with known scales and without an intercept, as in the paper: nothing is estimated while the clock runs."""

from __future__ import annotations

from typing import Any

__all__ = ["BOUNDS", "LINEAR_SAMPLING", "SAMPLING"]

_LINEAR: dict[str, Any] = {"coef_std": 1.0, "noise_std": 1.0, "intercept_std": None}
BOUNDS: dict[str, Any] = {**_LINEAR, "arm_std": 0.5}
"""Options of `RoLinUCB`."""
SAMPLING: dict[str, Any] = {**BOUNDS, "exploration": 1.0}
"""Options of `RoLinTS`."""
LINEAR_SAMPLING: dict[str, Any] = {**_LINEAR, "exploration": 1.0}
"""Options of `LinTS`."""
