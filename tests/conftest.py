"""Shared fixtures, and how property tests are run."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from subprocess import CompletedProcess

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from rolin.cli import main

# Deadlines measure the machine, not the code; the first call of a kernel compiles it.
settings.register_profile(
    "rolin",
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=bool(os.environ.get("CI")),
)
settings.load_profile("rolin")


@pytest.fixture
def seed() -> int:
    """The seed of a test. Tests promise to pass for every seed from 0 to 99."""
    return int(os.environ.get("ROLIN_TEST_SEED", "42"))


@pytest.fixture
def rng(seed: int) -> np.random.Generator:
    """A generator for the data of a test."""
    return np.random.default_rng(seed)


@pytest.fixture
def run_rolin(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., CompletedProcess[str]]:
    """Runs the command line in this process; returns the exit code and what it printed."""

    def run(*arguments: object) -> CompletedProcess[str]:
        monkeypatch.setattr(sys, "argv", ["rolin", *map(str, arguments)])
        monkeypatch.setattr(signal, "signal", lambda *_: None)  # the tests' own handlers stay
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        return CompletedProcess(sys.argv, int(ended.value.code or 0), *capsys.readouterr())

    return run


@pytest.fixture
def rolin_command(
    run_rolin: Callable[..., CompletedProcess[str]],
) -> Callable[..., tuple[int, str]]:
    """Runs the command line in this process; returns the exit code and what went to the error stream."""

    def run(*arguments: object) -> tuple[int, str]:
        ended = run_rolin(*arguments)
        return ended.returncode, ended.stderr

    return run
