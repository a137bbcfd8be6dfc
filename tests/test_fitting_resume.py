"""Interrupted fits resume, and count nothing twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rolin
from rolin.errors import DataError, ParameterError, StateFileError
from rolin.fitting import partitions
from rolin.logs import batches
from rolin.model.moments import Moments
from support.fitting_logs import FEATURES, folder_of, log, oracle, same


def test_a_fold_that_was_stopped_goes_on(
    rng: np.random.Generator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was folded is not read again, and nothing counts twice."""
    monkeypatch.setattr(batches, "_BYTES", 1)
    columns = log(rng)
    path = folder_of(columns, tmp_path / "log", files=2, group=100)
    bad = path / "part-1.parquet"
    table = pq.read_table(bad)
    spoilt = table.set_column(1, "reward", pa.array([*table["reward"].to_pylist()[:-1], None]))
    pq.write_table(spoilt, bad, row_group_size=100)
    stored = tmp_path / "stored"
    with pytest.raises(DataError, match=r"part-1.parquet, row group 4, row 99: column 'reward'"):
        rolin.fit(path, features=FEATURES, checkpoint=stored, n_jobs=1, progress=False)
    assert stored.exists()
    for options, what in (({"features": ["x0"]}, "columns"), ({"missing": "drop"}, "missing")):
        with pytest.raises(ParameterError, match=f"is the checkpoint of a fit with other {what}"):
            rolin.fit(
                path, **{"features": FEATURES, "checkpoint": stored, "progress": False, **options}
            )
    before = bad.stat()
    # Another file, as far as one can know.
    os.utime(bad, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    with pytest.raises(ParameterError, match=r"with other files \(or they have changed\)"):
        rolin.fit(path, features=FEATURES, checkpoint=stored, progress=False)
    os.utime(bad, ns=(before.st_atime_ns, before.st_mtime_ns))
    read: list[Any] = []
    fold_partition = partitions.fold_partition

    def noted(partition: Any, **options: Any) -> Any:
        read.append(partition)
        return fold_partition(partition, **options)

    monkeypatch.setattr("rolin.fitting.log_fit.fold_partition", noted)
    with pytest.raises(DataError):
        rolin.fit(path, features=FEATURES, checkpoint=stored, n_jobs=1, progress=False)
    assert [(p.path, p.first) for p in read] == [(str(bad), 4)]
    state = rolin.model.state_file.read(stored)
    assert state.settings["folded"] == 9
    with pytest.raises(StateFileError):
        rolin.load(stored)  # half a log is not a state
    with pytest.raises(StateFileError, match="holds only a part of the log"):
        rolin.RoLinTS.from_fit(stored)


_KILLED = """
import sys, time, rolin
from rolin.fitting import checkpoint, partitions
from rolin.logs import batches
batches._BYTES, checkpoint._EVERY, checkpoint._TIMES = 1, 0.0, 0.0
folded = partitions._folded
def slow(*arguments):
    time.sleep(0.05)
    return folded(*arguments)
partitions._folded = slow
found = rolin.fit(sys.argv[1], features=["x0", "x1", "x2", "x3"], n_jobs=1, checkpoint=sys.argv[2], progress=False)
found.save(sys.argv[3])
"""


@pytest.mark.parametrize("kills", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_a_fold_that_was_killed_goes_on(
    rng: np.random.Generator, tmp_path: Path, kills: int
) -> None:
    """Killed in the middle: the same call ends with the evidence of all rows, each once."""
    columns = log(rng, 2000)
    path = folder_of(columns, tmp_path / "log", files=2, group=50)
    stored, out = tmp_path / "stored", tmp_path / "state"
    arguments = [sys.executable, "-c", _KILLED, str(path), str(stored), str(out)]
    killed = 0
    for _ in range(kills):
        process = subprocess.Popen(arguments)
        began = time.monotonic()
        while process.poll() is None and time.monotonic() - began < 60:
            if (
                stored.exists()
                and rolin.model.state_file.read(stored).settings["folded"] > killed * 5
            ):
                break
            time.sleep(0.01)
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            killed += 1
        process.wait()
        assert not out.exists()
        assert rolin.model.state_file.read(stored).settings["folded"] > 0
    assert killed == kills
    subprocess.run(arguments, check=True)
    same(rolin.RoLinTS.from_fit(out).moments, oracle(columns, weighted=False))
    assert not stored.exists()


def test_an_interrupt_counts_nothing_twice(
    rng: np.random.Generator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever Ctrl-C strikes between two partitions, the fold goes on to the same evidence."""
    monkeypatch.setattr(batches, "_BYTES", 1)
    columns = log(rng, 500)
    path, stored = folder_of(columns, tmp_path / "log", files=1, group=50), tmp_path / "stored"

    class Interrupted:
        """A total, or a bar, that is interrupted now and then: before, within and after adding."""

        left: ClassVar[list[int]] = [3, 2, 1, 4, 2, 5, 3]

        @classmethod
        def strikes(cls) -> None:
            cls.left[0] -= 1
            if cls.left[0] == 0:
                cls.left.pop(0)
                raise KeyboardInterrupt

    add = rolin.model.moments.Total.add

    def struck(self: Any, part: Moments) -> None:
        if Interrupted.left:
            Interrupted.strikes()
        add(self, part)
        if Interrupted.left:
            Interrupted.strikes()

    monkeypatch.setattr(rolin.model.moments.Total, "add", struck)
    found = None
    for _ in range(40):
        try:
            found = rolin.fit(path, features=FEATURES, checkpoint=stored, n_jobs=1, progress=False)
            break
        except KeyboardInterrupt:
            continue
    assert not Interrupted.left or found is not None
    assert found is not None
    monkeypatch.undo()
    same(found.moments, oracle(columns, weighted=False))
    assert stored.exists()  # until what was found is saved
    found.save(tmp_path / "state")
    assert not stored.exists()
