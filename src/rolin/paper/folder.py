"""The folder of an experiment: what was asked, what was found, and how to go on."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rolin._support.files import replace_file
from rolin.errors import DataError, ParameterError, StateFileError
from rolin.simulation.run_file import difference

__all__ = ["Folder"]

SETTINGS = "settings.json"


class Folder:
    """A place to write to, which holds one experiment and nothing else of the same names.

    Parameters
    ----------
    path
        The folder; made if it is not there.
    settings
        What is asked for. A folder with other settings, or with such files but no settings, is
        refused and not touched.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any]) -> None:
        self.path, self._asked = path, dict(settings)
        self._versions: list[dict[str, str]] = []
        there = path / SETTINGS
        try:
            is_there = there.exists()
        except OSError as error:
            raise ParameterError(f"{path} cannot be written to: {error.strerror}") from error
        if is_there:
            try:
                record = json.loads(there.read_text(encoding="utf-8"))
                text = difference(record["asked"], self._asked)
                self._versions = list(record["versions"])
            except (
                OSError,
                ValueError,
                KeyError,
                TypeError,
                AttributeError,
                RecursionError,
            ) as error:
                raise DataError(f"{there} does not say what {path} holds: {error}") from error
            if text:
                raise ParameterError(
                    f"{path} holds results of other settings: {text}. Nothing was changed; take the "
                    "old settings, or another folder with --out"
                )
        else:
            self._make()
        if _versions() not in self._versions:
            self._versions.append(_versions())
        if not is_there:
            self.write_settings()

    def _make(self) -> None:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if not os.access(self.path, os.W_OK | os.X_OK):
                raise PermissionError(0, "no permission to write")
            for pattern in (
                "claims.md",
                "figure.*",
                "regret.csv",
                "runs-*.jsonl",
                "runtime.csv",
                "summary.json",
            ):
                for foreign in self.path.glob(pattern):
                    raise ParameterError(
                        f"{foreign} is there, but no {SETTINGS} that says what it is of. Nothing was "
                        "changed; take another folder with --out"
                    )
        except OSError as error:
            raise ParameterError(
                f"{self.path} cannot be written to: {error.strerror or error}"
            ) from error

    def write(self, name: str, content: object) -> None:
        """Write a text, or anything else as JSON."""
        text = (
            content
            if isinstance(content, str)
            else json.dumps(content, indent=1, ensure_ascii=False) + "\n"
        )
        with self.file(name) as path:
            path.write_text(text, encoding="utf-8")

    def write_settings(self, **more: object) -> None:
        """Write what was asked, the versions of all sessions that worked on it, and more."""
        self.write(SETTINGS, {"asked": self._asked, **more, "versions": self._versions})

    @contextmanager
    def file(self, name: str) -> Iterator[Path]:
        """Give a place to write a file to, which takes its name when it is whole."""
        try:
            with replace_file(self.path / name) as temporary:
                yield temporary
        except (OSError, StateFileError) as error:
            why = getattr(error, "strerror", None) or error
            raise ParameterError(f"{self.path / name} cannot be written: {why}") from error


def _versions() -> dict[str, str]:
    """Return the versions that results may depend on."""
    packages = ("rolin", "numpy", "scipy", "numba", "joblib", "pandas", "matplotlib")
    return {
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        **{name: importlib.metadata.version(name) for name in packages},
    }
