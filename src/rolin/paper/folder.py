"""The output folder of an experiment: its settings, its results, and the runs to resume from."""

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
# Files that an experiment writes besides its settings.
_RESULTS = ("claims.md", "figure.*", "regret.csv", "runs-*.jsonl", "runtime.csv", "summary.json")


class Folder:
    """The output folder of one experiment.

    Parameters
    ----------
    path
        The folder; created if it does not exist.
    settings
        The settings of the experiment. A folder with other settings, or with results but without
        settings, is rejected and left unchanged.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any]) -> None:
        self.path, self._settings = path, dict(settings)
        self._versions: list[dict[str, str]] = []
        file = path / SETTINGS
        try:
            exists = file.exists()
        except OSError as error:
            raise ParameterError(f"{path} cannot be written to: {error.strerror}") from error
        if exists:
            try:
                record = json.loads(file.read_text(encoding="utf-8"))
                text = difference(record["asked"], self._settings)
                self._versions = list(record["versions"])
            except (
                OSError,
                ValueError,
                KeyError,
                TypeError,
                AttributeError,
                RecursionError,
            ) as error:
                raise DataError(
                    f"{file} does not contain the settings of an experiment: {error}"
                ) from error
            if text:
                raise ParameterError(
                    f"{path} contains results of other settings: {text}. Nothing was changed; use the old "
                    "settings, or another folder with --out"
                )
        else:
            self._create()
        if _versions() not in self._versions:
            self._versions.append(_versions())
        if not exists:
            self.write_settings()

    def _create(self) -> None:
        """Create the folder; reject one that contains results of unknown settings."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if not os.access(self.path, os.W_OK | os.X_OK):
                raise PermissionError(0, "no permission to write")
            for pattern in _RESULTS:
                for foreign in self.path.glob(pattern):
                    raise ParameterError(
                        f"{foreign} exists, but there is no {SETTINGS} beside it with its settings. Nothing "
                        "was changed; use another folder with --out"
                    )
        except OSError as error:
            raise ParameterError(
                f"{self.path} cannot be written to: {error.strerror or error}"
            ) from error

    def write(self, name: str, content: object) -> None:
        """Write a file: a string as it is, anything else as JSON."""
        text = (
            content
            if isinstance(content, str)
            else json.dumps(content, indent=1, ensure_ascii=False) + "\n"
        )
        with self.file(name) as path:
            path.write_text(text, encoding="utf-8")

    def write_settings(self, **more: object) -> None:
        """Write the settings, more information, and the package versions of all runs."""
        self.write(SETTINGS, {"asked": self._settings, **more, "versions": self._versions})

    @contextmanager
    def file(self, name: str) -> Iterator[Path]:
        """Give a temporary path to write to, which is renamed to `name` when the block ends."""
        try:
            with replace_file(self.path / name) as temporary:
                yield temporary
        except (OSError, StateFileError) as error:
            why = getattr(error, "strerror", None) or error
            raise ParameterError(f"{self.path / name} cannot be written: {why}") from error


def _versions() -> dict[str, str]:
    """Return the versions of everything that the results may depend on."""
    packages = ("rolin", "numpy", "scipy", "numba", "joblib", "pandas", "matplotlib")
    return {
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        **{name: importlib.metadata.version(name) for name in packages},
    }
