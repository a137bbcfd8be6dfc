"""A damaged cache of compiled kernels does not stop the import, nor the first call."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

CODE = """
import numpy as np
from rolin._support.compile import compiled
import kernels
print(kernels.doubled(21.0))
"""
KERNELS = """
from rolin._support.compile import compiled

@compiled(reorder=False)
def twice(x):
    return 2.0 * x

@compiled(reorder=False)
def doubled(x):
    return twice(x)
"""


def run(folder: Path) -> str:
    """Call a kernel in a new process whose cache is in a folder."""
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        env={
            **os.environ,
            "NUMBA_CACHE_DIR": str(folder / "cache"),
            "PYTHONPATH": os.pathsep.join([str(folder), *filter(None, sys.path)]),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def files(folder: Path, ending: str) -> Iterator[Path]:
    """Return the files of the cache."""
    return (path for path in (folder / "cache").rglob(f"*.{ending}") if "kernels" in path.name)


@pytest.mark.slow
@pytest.mark.skipif(
    os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"), reason="nothing is compiled"
)
def test_damaged_files_are_written_again(tmp_path: Path) -> None:
    """Half, empty and foreign files of both kinds are replaced, and then used."""
    (tmp_path / "kernels.py").write_text(KERNELS)
    assert run(tmp_path) == "42.0"
    whole = {
        path: path.read_bytes() for ending in ("nbi", "nbc") for path in files(tmp_path, ending)
    }
    assert len(whole) == 4
    for damage in (
        lambda data: data[: len(data) // 2],
        lambda _: b"",
        lambda data: b"\xff" * len(data),
    ):
        for ending in ("nbi", "nbc"):
            for path in files(tmp_path, ending):
                path.write_bytes(damage(path.read_bytes()))
            assert run(tmp_path) == "42.0"
            assert all(path.stat().st_size >= len(whole[path]) // 2 + 1 for path in whole)
