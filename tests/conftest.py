"""Shared fixtures, and how property tests are run."""

from __future__ import annotations

import os
import signal
import sys
import uuid
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from subprocess import CompletedProcess
from types import FrameType

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

import rolin
from rolin import Bandit
from rolin.cli import main
from rolin.features import FeatureMap
from rolin.journal import Journal, MemoryJournal, PostgresJournal, SQLiteJournal

# Deadlines measure the machine, not the code; the first call of a kernel compiles it.
settings.register_profile(
    "rolin",
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=bool(os.environ.get("CI")),
)
settings.load_profile("rolin")

# Failed assertions of shared helpers show their values, as those of test modules do.
pytest.register_assert_rewrite("support")
# Imported here, because pytest does not rewrite what was imported before.
from support.bandits import Clock  # noqa: E402
from support.feature_maps import ARM, SITUATION  # noqa: E402
from support.postgres import IS_AVAILABLE, PostgresServer, postgres_server  # noqa: E402

# `make coverage` runs the kernels as Python, which is about a hundred times slower.
INTERPRETED = os.environ.get("NUMBA_DISABLE_JIT") == "1"
SECONDS = 2.0


class TooSlow(BaseException):  # so that no test catches it
    """A test takes too long with interpreted kernels."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tests that need compiled kernels if there are none."""
    if INTERPRETED:
        for item in items:
            if item.get_closest_marker("compiled"):
                item.add_marker(pytest.mark.skip("needs compiled kernels"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Skip what is left of a test that takes too long with interpreted kernels."""
    if not INTERPRETED or not item.config.getoption("cov_source", None):
        return (yield)

    def stop(_: int, frame: FrameType | None) -> None:
        # Only inside a kernel: elsewhere, locks of coverage or of a pool of threads would never be released.
        if frame is None or "kernels" not in frame.f_code.co_filename:
            signal.setitimer(signal.ITIMER_PROF, 0.01)
            return
        raise TooSlow

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)  # of processor time
    try:
        return (yield)
    except TooSlow:
        pytest.skip(f"takes more than {SECONDS:g} s with interpreted kernels")
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


@pytest.fixture(autouse=True, scope="session")
def _processes_are_compiled() -> None:
    """Processes that tests start are not measured, so they need not be slow."""
    os.environ.pop("NUMBA_DISABLE_JIT", None)


@pytest.fixture
def seed() -> int:
    """The seed of a test. Tests promise to pass for every seed from 0 to 99."""
    return int(os.environ.get("ROLIN_TEST_SEED", "42"))


@pytest.fixture
def rng(seed: int) -> np.random.Generator:
    """A generator for the data of a test."""
    return np.random.default_rng(seed)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server, which all tests of a process share."""
    if not IS_AVAILABLE:
        pytest.skip("needs a server with sockets")
    with postgres_server() as server:
        yield server


@pytest.fixture
def new_journal(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], Journal]:
    """Makes a new journal of a kind."""

    def make(kind: str) -> Journal:
        if kind == "memory":
            return MemoryJournal()
        if kind == "sqlite":
            return SQLiteJournal(tmp_path / "j.db")
        server: PostgresServer = request.getfixturevalue("postgres")
        return PostgresJournal(server.dsn, f"test-{uuid.uuid4().hex}")

    return make


@pytest.fixture(params=["memory", "sqlite", pytest.param("postgres", marks=pytest.mark.service)])
def journal(
    request: pytest.FixtureRequest, new_journal: Callable[[str], Journal]
) -> Iterator[Journal]:
    """A journal of every kind."""
    with new_journal(request.param) as made:
        yield made


@pytest.fixture
def bandit(journal: Journal) -> Bandit:
    """A new bandit with a clock that stands still."""
    return Bandit(rolin.RoLinTS(n_features=2, seed=7), journal=journal, clock=Clock())


@pytest.fixture
def features() -> FeatureMap:
    """A map with every kind of field."""
    return FeatureMap(SITUATION, ARM)


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
