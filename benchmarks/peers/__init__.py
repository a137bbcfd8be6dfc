"""The contenders, one file per library. A new library is a new file with a list CONTENDERS."""

from __future__ import annotations

import importlib
import pkgutil

from peers.base import Contender

__all__ = ["Contender", "available"]

# `rolin` first, then its references, then the peers.
_ORDER = {"rolin": 0, "reference": 1, "engine": 2, "Python": 3}


def available() -> tuple[list[type[Contender]], dict[str, str]]:
    """Return the contenders that can be imported, and the error of each one that cannot."""
    found: list[type[Contender]] = []
    missing: dict[str, str] = {}
    for module in pkgutil.iter_modules(__path__):
        if module.name == "base":
            continue
        try:
            found += importlib.import_module(f"peers.{module.name}").CONTENDERS
        except ImportError as error:
            missing[module.name] = str(error)
    return sorted(found, key=lambda c: _ORDER[c.peer]), missing
