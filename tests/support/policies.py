"""Policies with known scales, for tests of what follows from them."""

from __future__ import annotations

import inspect
from typing import Any

FIXED: dict[str, Any] = {
    "coef_std": 1.0,
    "arm_std": 0.5,
    "noise_std": 1.0,
    "intercept_std": None,
    "exploration": 1.0,
}


def fixed(kind: Any, **options: Any) -> Any:
    """Return a policy with the scales and the exploration of `FIXED`, where it would learn or choose its own."""
    parameters = inspect.signature(kind).parameters
    known = {
        name: value
        for name, value in FIXED.items()
        if name in parameters and parameters[name].default in ("learn", "auto")
    }
    return kind(**known | options)
