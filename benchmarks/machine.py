"""What the numbers were measured on: versions and processor."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_PACKAGES = (
    *("rolin", "numpy", "scipy", "numba", "vowpalwabbit", "mabwiser"),
    *("bayesianbandits", "river", "contextualbandits"),
)


def versions() -> list[list[str]]:
    """Return the rows of a table: Python, the machine, and the packages that are compared."""
    rows = [["Python", platform.python_version()], ["machine", _processor()]]
    for package in _PACKAGES:
        try:
            rows.append([package, version(package)])
        except PackageNotFoundError:
            rows.append([package, "from source" if package == "rolin" else "not installed"])
    return rows


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return f"{line.split(':')[1].strip()}, {os.cpu_count()} processors"
    return platform.machine()
