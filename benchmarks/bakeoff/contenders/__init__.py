"""The contenders, one file per library. A new library is a new file with a list CONTENDERS."""

from __future__ import annotations

import importlib
import pkgutil

from bakeoff.contenders.base import Contender

__all__ = ["Contender", "available"]

_ORDER = {"rolin": 0, "study": 1, "peer": 2, "reference": 3}


def available() -> tuple[dict[str, type[Contender]], dict[str, str]]:
    """Return the contenders that can be imported, by name, and the error of each file that cannot."""
    found: list[type[Contender]] = []
    missing: dict[str, str] = {}
    for module in pkgutil.iter_modules(__path__):
        if module.name == "base":
            continue
        try:
            found += importlib.import_module(f"{__name__}.{module.name}").CONTENDERS
        except ImportError as error:
            missing[module.name] = str(error)
    found.sort(key=lambda contender: _ORDER[contender.group])
    return {contender.name: contender for contender in found}, missing
