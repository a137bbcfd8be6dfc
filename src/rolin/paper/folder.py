"""The folder of an experiment: what was asked, what was found, and how to go on."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rolin.errors import DataError, ParameterError

__all__ = ["Folder", "versions"]

SETTINGS = "settings.json"


class Folder:
    """A place to write to; refuses one that holds another experiment.

    Parameters
    ----------
    path
        The folder; made if it is not there.
    settings
        What is asked for. A folder with other settings is not touched.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any]) -> None:
        self.path = path
        asked = json.loads(json.dumps(dict(settings)))
        there = path / SETTINGS
        if there.exists():
            try:
                found = json.loads(there.read_text())["asked"]
            except (OSError, ValueError, KeyError, TypeError) as error:
                raise DataError(f"{there} does not say what {path} holds: {error}") from error
            for name in {**found, **asked}:
                if found.get(name) != asked.get(name):
                    raise ParameterError(
                        f"{path} holds results of other settings: {name} was "
                        f"{found.get(name)!r} and is now {asked.get(name)!r}. Nothing was changed; "
                        "take the old settings, or another folder with --out"
                    )
        else:
            self._make()
            self.write(SETTINGS, {"asked": asked, "versions": versions()})

    def _make(self) -> None:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if not os.access(self.path, os.W_OK | os.X_OK):
                raise PermissionError(0, "no permission to write")
        except OSError as error:
            raise ParameterError(
                f"{self.path} cannot be written to: {error.strerror or error}"
            ) from error

    def write(self, name: str, content: object) -> None:
        """Write a text, or anything else as JSON."""
        text = content if isinstance(content, str) else json.dumps(content, indent=1) + "\n"
        try:
            (self.path / name).write_text(text)
        except OSError as error:
            raise ParameterError(
                f"{self.path / name} cannot be written: {error.strerror}"
            ) from error


def versions() -> dict[str, str]:
    """Return the versions that results may depend on."""
    packages = ("rolin", "numpy", "scipy", "numba", "joblib", "pandas", "matplotlib")
    return {
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        **{name: importlib.metadata.version(name) for name in packages},
    }
