"""Logs of any length: the fold against one `Moments.of` of all rows, and what is refused."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rolin
from rolin import fitting
from rolin._support.parallel import worker_count
from rolin.errors import DataError, MissingExtra, ParameterError, StateFileError, Unsupported
from rolin.features import Category, Number
from rolin.fitting import partitions
from rolin.logs import batches, files
from rolin.logs.export import export
from rolin.logs.rules import BadCell
from rolin.model.moments import Moments

Command = Callable[..., tuple[int, str]]
PARTS = ("count", "sum_log_weight", "scatter", "cross", "reward_scatter", "weight")


def same(a: Moments, b: Moments, tolerance: float = 1e-10) -> None:
    """Both are the evidence of the same observations, in whatever order their arms stand."""
    assert set(a.arms) == set(b.arms)
    order = [b.arms.index(arm) for arm in a.arms]
    for name in PARTS[:5]:
        np.testing.assert_allclose(
            getattr(a, name), getattr(b, name), rtol=tolerance, atol=tolerance
        )
    for name in ("weight", "mean_context", "mean_reward"):
        np.testing.assert_allclose(
            getattr(a, name), getattr(b, name)[order], rtol=tolerance, atol=tolerance
        )


def log(rng: np.random.Generator, n: int = 1000, d: int = 4, k: int = 7) -> dict[str, Any]:
    """Return columns of a log."""
    x = rng.normal(size=(n, d)) + 3.0
    arms = [f"item-{i}" for i in rng.integers(k, size=n)]
    return {
        "arm": arms,
        "reward": x @ np.arange(d) + rng.normal(size=n),
        "weight": rng.uniform(0.5, 2.0, size=n),
        **{f"x{j}": x[:, j] for j in range(d)},
    }


def oracle(columns: dict[str, Any], *, weighted: bool = True) -> Moments:
    """Return the moments of all rows at once."""
    names = [name for name in columns if name.startswith("x")]
    x = np.column_stack([columns[name] for name in names])
    weights = columns["weight"] if weighted else None
    return Moments.of(columns["arm"], x, columns["reward"], weights)


def folder_of(columns: dict[str, Any], path: Path, files: int = 3, group: int = 100) -> Path:
    """Write a log as several Parquet files, in row groups."""
    path.mkdir(exist_ok=True)
    table = pa.table(columns)
    size = -(-len(table) // files)
    for i in range(files):
        part = table.slice(i * size, size)
        pq.write_table(part, path / f"part-{i}.parquet", row_group_size=group)
    return path


FEATURES = ["x0", "x1", "x2", "x3"]


# -- the fold --------------------------------------------------------------------------------------


@given(data=st.data())
def test_batches_of_any_size_sum_to_all_rows(data: st.DataObject) -> None:
    """However a log is cut, its moments are those of all rows at once."""
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    n, k = data.draw(st.integers(1, 60)), data.draw(st.integers(1, 5))
    columns = log(rng, n, 4, k)
    table = pa.table(columns)
    cuts = sorted(data.draw(st.lists(st.integers(0, n), max_size=5)))
    bounds = [0, *cuts, n]
    fold = fitting.Fold.of(table, weight="weight", features=FEATURES)
    parts = [fold(table.slice(a, b - a)) for a, b in pairwise(bounds)]
    same(Moments.sum(parts), oracle(columns))
    same(Moments.sum(parts), sum(parts, Moments.zero(4)))


@given(
    offset=st.sampled_from([0.0, 1e3, 1e6]),
    fixed=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_a_batch_is_as_exact_as_longdouble(offset: float, fixed: bool, seed: int) -> None:
    """Around the first row of an arm, sums lose no more than their own rounding."""
    rng = np.random.default_rng(seed)
    n, k = 200, 4
    codes = rng.integers(k, size=n)
    x = rng.normal(size=(k, 3))[codes] if fixed else rng.normal(size=(n, 3))
    x = x + offset
    r, h = rng.normal(size=n) + offset, rng.uniform(0.1, 3.0, size=n)
    found = Moments.of(codes, x, r, h)
    wide = np.column_stack([r, x]).astype(np.longdouble)
    total = np.zeros((4, 4), dtype=np.longdouble)
    for arm in set(codes.tolist()):
        rows = codes == arm
        weight = h[rows].astype(np.longdouble)
        centred = wide[rows] - (weight[:, None] * wide[rows]).sum(0) / weight.sum()
        total += (weight[:, None] * centred).T @ centred
    # what the rounding of the numbers themselves allows, and no more
    scale = float(total[0, 0]) + n * (offset * 1e-15) ** 2
    np.testing.assert_allclose(found.reward_scatter, float(total[0, 0]), rtol=1e-9)
    np.testing.assert_allclose(found.scatter, total[1:, 1:].astype(float), atol=1e-9 * scale)
    if fixed:
        assert (found.scatter == 0.0).all()


def test_a_fold_can_be_sent_to_another_process(rng: np.random.Generator) -> None:
    """Pickled and back, it does the same."""
    table = pa.table(log(rng))
    fold = fitting.Fold.of(table, weight="weight", features=FEATURES)
    assert pickle.loads(pickle.dumps(fold)) == fold
    same(pickle.loads(pickle.dumps(fold))(table), fold(table), 0.0)


def test_the_sum_takes_parts_of_one_width_only() -> None:
    """Moments of other features are another model's."""
    with pytest.raises(rolin.errors.MergeError, match=r"2 features cannot be combined with .* 3"):
        Moments.sum([Moments.zero(2), Moments.zero(3)])
    with pytest.raises(ParameterError, match="no moments to add up"):
        Moments.sum([])


# -- sources ---------------------------------------------------------------------------------------


def arrow_file(columns: dict[str, Any], path: Path) -> Path:
    """Write an Arrow file of several batches."""
    table = pa.table(columns)
    target = path / "log.arrow"
    with pa.OSFile(str(target), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=150)
    return target


def arrow_stream(columns: dict[str, Any], path: Path) -> Path:
    """Write an Arrow stream."""
    table = pa.table(columns)
    target = path / "log.arrows"
    with pa.OSFile(str(target), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=150)
    return target


SOURCES: dict[str, Callable[[dict[str, Any], Path], Any]] = {
    "folder": lambda columns, path: folder_of(columns, path / "log"),
    "list": lambda columns, path: sorted(folder_of(columns, path / "log").iterdir()),
    "file": lambda columns, path: folder_of(columns, path / "log", files=1) / "part-0.parquet",
    "url": lambda columns, path: f"file://{folder_of(columns, path / 'log')}",
    "arrow": arrow_file,
    "stream": arrow_stream,
    "table": lambda columns, path: pa.table(columns),
    "reader": lambda columns, path: pa.table(columns).to_reader(max_chunksize=77),
    "pandas": lambda columns, path: pd.DataFrame(columns),
    "polars": lambda columns, path: pl.DataFrame(columns),
}


@pytest.mark.parametrize("source", SOURCES)
def test_sources_of_every_kind_say_the_same(
    source: str, rng: np.random.Generator, tmp_path: Path
) -> None:
    """Files, folders, URLs and tables: one log, one evidence."""
    columns = log(rng)
    given = SOURCES[source](columns, tmp_path)
    found = rolin.fit(given, weight="weight", features=FEATURES, progress=False)
    same(found.moments, oracle(columns))
    assert found.feature_names == FEATURES


def test_an_object_store_is_read_through_fsspec(rng: np.random.Generator, tmp_path: Path) -> None:
    """`memory://` is a store of fsspec's own; hidden files and _SUCCESS are no data."""
    import fsspec

    columns = log(rng)
    store = fsspec.filesystem("memory")
    for path in folder_of(columns, tmp_path / "log").iterdir():
        store.pipe(f"/bucket/log/{path.name}", path.read_bytes())
    store.pipe("/bucket/log/_SUCCESS", b"")
    store.pipe("/bucket/log/.part-9.parquet", b"half a file")
    try:
        found = rolin.fit("memory://bucket/log", weight="weight", progress=False)
        same(found.moments, oracle(columns))
    finally:
        store.rm("/bucket", recursive=True)


@pytest.mark.parametrize("n_jobs", [1, 2, 5])
def test_threads_do_not_change_a_bit(
    n_jobs: int, rng: np.random.Generator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pieces are added in their order, whoever is first."""
    monkeypatch.setattr(batches, "_BYTES", 1)  # every row group is a partition
    path = folder_of(log(rng), tmp_path / "log")
    one = rolin.fit(path, features=FEATURES, n_jobs=1, progress=False).moments
    many = rolin.fit(path, features=FEATURES, n_jobs=n_jobs, progress=False).moments
    for name in PARTS:
        assert np.array_equal(getattr(one, name), getattr(many, name))


@pytest.mark.parametrize("kind", [pa.float32(), pa.int16(), pa.bool_(), pa.decimal128(8, 3)])
def test_numbers_of_any_type_are_numbers(kind: pa.DataType, rng: np.random.Generator) -> None:
    """Floats, integers, decimals, yes and no."""
    import decimal

    whole = rng.integers(0, 2, size=50)
    values = [decimal.Decimal(int(v)) for v in whole] if pa.types.is_decimal(kind) else whole
    table = pa.table(
        {"arm": rng.integers(3, size=50), "reward": rng.normal(size=50),
         "x0": pa.array(values, type=pa.int64()).cast(kind) if kind == pa.bool_() else pa.array(values).cast(kind)}
    )  # fmt: skip
    found = rolin.fit(table, progress=False).moments
    x = whole[:, None].astype(float)
    same(found, Moments.of(table["arm"].to_pylist(), x, table["reward"].to_numpy()))


@pytest.mark.parametrize("fixed", [True, False])
def test_a_column_of_lists_is_many_features(fixed: bool, rng: np.random.Generator) -> None:
    """An embedding, beside a plain number."""
    n, d = 300, 6
    x, price = rng.normal(size=(n, d)).astype(np.float32), rng.normal(size=n)
    arms, r = rng.integers(5, size=n), rng.normal(size=n)
    flat = pa.array(x.ravel())
    lists = (
        pa.FixedSizeListArray.from_arrays(flat, d)
        if fixed
        else pa.ListArray.from_arrays(np.arange(0, n * d + 1, d), flat)
    )
    table = pa.table({"arm": arms, "reward": r, "embedding": lists, "price": price})
    alone = rolin.fit(table, features="embedding", progress=False)
    same(alone.moments, Moments.of(arms, x.astype(float), r))
    both = rolin.fit(table, features=["embedding", "price"], progress=False)
    same(both.moments, Moments.of(arms, np.column_stack([x, price]), r))
    assert both.feature_names[-2:] == ["embedding[5]", "price"]


def test_a_map_makes_vectors_on_the_way(rng: np.random.Generator, tmp_path: Path) -> None:
    """Raw features of situation and arm, the arm's own name among them."""
    n = 400
    table = pa.table(
        {
            "arm": [["red", "blue"][i] for i in rng.integers(2, size=n)],
            "reward": rng.normal(size=n),
            "device": [["phone", "desktop", None][i] for i in rng.integers(3, size=n)],
            "price": rng.normal(size=n),
            "note": ["not used"] * n,
        }
    )
    pq.write_table(table, tmp_path / "log.parquet", row_group_size=90)
    features = rolin.FeatureMap(
        situation={"device": Category(["phone", "desktop"])},
        arm={"price": Number(), "_arm": Category(["red", "blue"])},
    )
    found = rolin.fit(tmp_path / "log.parquet", feature_map=features, progress=False)
    names = table["arm"].to_pylist()
    x = features.transform(table, names=names)
    same(found.moments, Moments.of(names, x, table["reward"].to_numpy()))
    policy = found.policy(rolin.RoLinTS, seed=1)
    assert policy.feature_map == features
    assert found.feature_names == features.names


def test_a_table_of_decisions_is_a_log(tmp_path: Path, rng: np.random.Generator) -> None:
    """What `rolin journal export` wrote teaches what the bandit learned, rankings included."""
    policy = rolin.RoLinTS(n_features=2, seed=3)
    bandit = rolin.Bandit(policy)
    for i in range(60):
        decision = bandit.decide(
            {name: rng.normal(size=2) for name in ("red", "blue", "green")}, top_k=1 + i % 2
        )
        if i % 5:
            bandit.reward(decision.id, float(rng.normal()))
    export(bandit.journal, tmp_path / "decisions.parquet")
    found = rolin.fit(tmp_path / "decisions.parquet", progress=False)
    same(found.moments, bandit.policy.moments)


@pytest.mark.parametrize(
    ("missing", "rows"), [("drop", [0, 2]), (0.0, [0, 1, 2])], ids=["drop", "zero"]
)
def test_rows_without_a_reward(missing: Any, rows: list[int]) -> None:
    """They are refused, left out, or counted as a number."""
    table = pa.table({"arm": ["a", "b", "a"], "reward": [1.0, None, 3.0], "x": [1.0, 2.0, 3.0]})
    with pytest.raises(DataError, match="row 1: column 'reward' is missing"):
        rolin.fit(table, progress=False)
    rewards = np.array([1.0, 0.0, 3.0])[rows]
    arms = [["a", "b", "a"][i] for i in rows]
    x = np.array([[1.0], [2.0], [3.0]])[rows]
    found = rolin.fit(table, missing=missing, progress=False)
    same(found.moments, Moments.of(arms, x, rewards))


# -- what a fit is good for ------------------------------------------------------------------------


def test_any_policy_starts_from_one_state_file(rng: np.random.Generator, tmp_path: Path) -> None:
    """All policies with moments; those without are told apart."""
    columns = log(rng, 2000)
    found = rolin.fit(
        folder_of(columns, tmp_path / "log"), features=FEATURES, intercept_std=2.0, progress=False
    )
    found.save(tmp_path / "state")
    for name, kind in rolin.policies.find().items():
        if name in ("HLinUCB", "SafeFALCON", "LogisticRoLinTS", "LogisticRoLinUCB"):
            for start in (found, tmp_path / "state", found.moments):
                with pytest.raises(Unsupported, match=f"{name} cannot start from a fit: "):
                    kind.from_fit(start)
            with pytest.raises(Unsupported, match=f"{name} cannot start from a fit: "):
                found.policy(kind)
            continue
        with pytest.raises(StateFileError, match=rf"a fit, not a policy: {name}\.from_fit\("):
            rolin.load(tmp_path / "state", kind)
        policy: Any = kind.from_fit(tmp_path / "state", seed=7)
        assert type(policy) is kind
        assert policy.seed == 7
        same(policy.moments, found.moments, 1e-9)
        again = found.policy(kind, seed=7)
        x = rng.normal(size=(7, 4))
        arms = list(found.moments.arms)
        if hasattr(policy, "predict"):
            for a, b in zip(policy.predict(x, arms), again.predict(x, arms), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-12)
        assert policy.decide(x, arms).arm == again.decide(x, arms).arm
    joint = rolin.RoLinTS.from_fit(tmp_path / "state", sampling="joint", arm_std=0.3)
    assert (joint.sampling, joint.scales.arm_std) == ("joint", 0.3)
    with pytest.raises(StateFileError, match=r"holds a fit, not a policy: RoLinTS\.from_fit\("):
        rolin.load(tmp_path / "state")
    joint.save(tmp_path / "saved")
    with pytest.raises(StateFileError, match=r"holds a RoLinTS, not a fit: rolin\.load\("):
        rolin.RoLinTS.from_fit(tmp_path / "saved")
    with pytest.raises(rolin.errors.UnknownOption, match="n_features is 4"):
        found.policy(n_features=3)
    with pytest.raises(rolin.errors.ParameterError, match="expected a Fit, its file, or Moments"):
        rolin.RoLinTS.from_fit(3)  # type: ignore[arg-type]
    with pytest.raises(
        Unsupported, match=r"LinearPolicy cannot start from a fit: it is a base class"
    ):
        rolin.LinearPolicy.from_fit(found)


def test_the_scales_are_those_of_the_estimate(rng: np.random.Generator) -> None:
    """The posterior, the policy and `scales.estimate` agree, and the policy goes on learning them."""
    columns = log(rng, 3000)
    found = rolin.fit(pa.table(columns), features=FEATURES, progress=False)
    expected = rolin.model.estimate_scales(oracle(columns, weighted=False)).scales
    assert found.scales.arm_std == pytest.approx(expected.arm_std, rel=1e-6)
    policy = found.policy(rolin.RoLinUCB, horizon=100)
    assert policy.scales.noise_std == pytest.approx(expected.noise_std, rel=1e-6)
    assert policy.learns_scales
    fixed = found.policy(rolin.RoLinTS, noise_std=1.5, arm_std=0.1, coef_std=2.0)
    assert not fixed.learns_scales
    assert fixed.scales.noise_std == 1.5
    np.testing.assert_allclose(
        found.coefficients.mean, policy.posterior.coefficients.mean, rtol=1e-6
    )
    assert "3,000 rewards of 7 arms, 4 features" in str(found)


def test_a_linear_policy_learns_its_own_noise(rng: np.random.Generator) -> None:
    """Without arm effects, what they are is noise."""
    n = 4000
    arms = rng.integers(40, size=n)
    r = 2.0 * rng.normal(size=40)[arms] + rng.normal(size=n)
    found = rolin.fit(pa.table({"arm": arms, "reward": r, "x": rng.normal(size=n)}), progress=False)
    assert found.policy(rolin.RoLinTS).scales.noise_std < 1.1
    assert found.policy(rolin.LinTS).scales.noise_std > 1.6


# -- going on --------------------------------------------------------------------------------------


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
    os.utime(
        bad, ns=(before.st_atime_ns, before.st_mtime_ns + 1)
    )  # another file, as far as one can know
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


def test_memory_does_not_grow_with_the_rows(tmp_path: Path, rng: np.random.Generator) -> None:
    """Ten times as many rows take as much memory, to a few megabytes."""
    table = pa.table(log(rng, 100_000, d=16))
    peaks = []
    for times in (2, 20):
        path = tmp_path / f"{times}"
        path.mkdir()
        for i in range(times):
            pq.write_table(table, path / f"{i}.parquet", row_group_size=20_000)
        code = (
            f"import rolin, resource; rolin.fit({str(path)!r}, n_jobs=1, progress=False); "
            "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
        )
        out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
        peaks.append(int(out.stdout) / 1024)
    assert peaks[1] < peaks[0] + 40.0  # megabytes; the rows of the larger log are 240


def test_a_first_row_far_out_costs_no_precision(rng: np.random.Generator) -> None:
    """The same rows in any order, to 1e-12: an outlier that comes first is no centre."""
    n = 20_000
    x, r = rng.normal(size=(n, 2)), rng.normal(size=n)
    x[0] = 1e7
    arms = np.zeros(n, dtype=int)
    first, last = Moments.of(arms, x, r), Moments.of(arms, x[::-1], r[::-1])
    np.testing.assert_allclose(first.scatter, last.scatter, rtol=1e-12)
    np.testing.assert_allclose(first.cross, last.cross, rtol=1e-10)


def test_sums_that_overflow_are_refused() -> None:
    """Within a batch, and of two."""
    one, other = (Moments.of(["a"], [[v]], [0.0]) for v in (1e200, -1e200))
    with pytest.raises(rolin.errors.NotFiniteError, match="too large to add up"):
        one + other
    with pytest.raises(rolin.errors.MergeError, match="a part is 1, expected Moments"):
        Moments.sum([1])  # type: ignore[list-item]


# -- bad input -------------------------------------------------------------------------------------


def spoil(columns: dict[str, Any], path: Path, change: Callable[[pa.Table], pa.Table]) -> Path:
    """Write a log whose second file is another."""
    folder = folder_of(columns, path / "log", files=2, group=100)
    second = folder / "part-1.parquet"
    pq.write_table(change(pq.read_table(second)), second, row_group_size=100)
    return folder


def with_column(name: str, values: Callable[[list[Any]], Any]) -> Callable[[pa.Table], pa.Table]:
    """Return what gives a table another column."""

    def change(table: pa.Table) -> pa.Table:
        place = table.schema.get_field_index(name)
        return table.set_column(place, name, pa.array(values(table[name].to_pylist())))

    return change


def at(place: int, value: Any) -> Callable[[list[Any]], list[Any]]:
    """Return what puts a value into a list."""
    return lambda values: [*values[:place], value, *values[place + 1 :]]


BAD: dict[str, tuple[Callable[[pa.Table], pa.Table], str]] = {
    "no column": (
        lambda t: t.drop_columns(["x1"]),
        r"part-1.parquet: there is no column 'x1', only",
    ),
    "text": (
        with_column("x1", lambda v: [str(i) for i in v]),
        r"part-1.parquet: column 'x1' is of type .*string, but of type double in .*part-0.parquet",
    ),
    "arms": (
        with_column("arm", lambda v: list(range(len(v)))),
        r"part-1.parquet: column 'arm' holds integers, but strings in .*part-0.parquet",
    ),
    "reward": (
        with_column("reward", lambda v: [str(i) for i in v]),
        r"part-1.parquet: column 'reward' is of type .*string, expected numbers",
    ),
    "null": (
        with_column("x2", at(250, None)),
        r"part-1.parquet, row group 2, row 50: column 'x2' is null, expected a number",
    ),
    "no arm": (
        with_column("arm", at(250, None)),
        r"part-1.parquet, row group 2, row 50: column 'arm' is null",
    ),
    "empty arm": (
        with_column("arm", at(250, "")),
        r"part-1.parquet, row group 2, row 50: column 'arm' is empty",
    ),
    "nan": (
        with_column("x3", at(101, float("nan"))),
        r"part-1.parquet, row group 1, row 1: column 'x3' is nan, expected a finite number",
    ),
    "twice": (
        lambda t: t.append_column("x1", t["x0"]),
        r"part-1.parquet: there are 2 columns 'x1'",
    ),
    "infinite": (
        with_column("reward", at(0, float("inf"))),
        r"part-1.parquet, row group 0, row 0: column 'reward' is inf",
    ),
    "weight": (
        with_column("weight", at(7, 0.0)),
        r"part-1.parquet, row group 0, row 7: column 'weight' is 0.0, expected above 0",
    ),
    "huge": (
        with_column("x0", at(3, 1e200)),
        r"part-1.parquet, row group 0: contexts, rewards or weights are too large",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_data_is_named(case: str, rng: np.random.Generator, tmp_path: Path) -> None:
    """File, row group, row and column; and nothing is written."""
    change, message = BAD[case]
    path = spoil(log(rng), tmp_path, change)
    with pytest.raises(DataError, match=message):
        rolin.fit(path, weight="weight", features=FEATURES, progress=False)


def test_files_that_are_no_files(
    rng: np.random.Generator, tmp_path: Path, rolin_command: Command
) -> None:
    """Half-written, empty, of another kind, not there; of the command, one line and no state."""
    columns = log(rng)
    path = folder_of(columns, tmp_path / "log")
    second = path / "part-1.parquet"
    whole = second.read_bytes()
    out = tmp_path / "state"
    cases = {
        whole[: len(whole) // 2]: "part-1.parquet is damaged or incomplete",
        b"": "part-1.parquet is empty, expected a file that begins with PAR1 or ARROW1",
        b"arm,reward\na,1\n": "part-1.parquet is neither Parquet nor Arrow",
    }
    for content, message in cases.items():
        second.write_bytes(content)
        with pytest.raises(DataError, match=message):
            rolin.fit(path, features=FEATURES, progress=False)
        code, text = rolin_command("fit", path, "--out", out)
        assert (code, message in text, text.count("\n")) == (2, True, 1)
        assert not out.exists()
    (tmp_path / "empty").mkdir()
    for source, message in (
        (tmp_path / "empty", "is a folder without files that end in .parquet"),
        (tmp_path / "nowhere", "there is no file or folder"),
        ([], "expected at least one file"),
        (17, "expected a file, a folder or a URL"),
        ([path / "part-0.parquet"] * 2, "part-0.parquet is given twice"),
        ("nonsense://x/y", "cannot be opened"),
        (
            [path / "part-0.parquet", f"{path}/../log/part-0.parquet"],
            "part-0.parquet is given twice",
        ),
        (
            [path / "part-0.parquet", f"file://{path}/part-0.parquet"],
            "part-0.parquet is given twice",
        ),
    ):
        with pytest.raises((DataError, ParameterError), match=message):
            rolin.fit(source, progress=False)


def test_a_damaged_page_is_named(rng: np.random.Generator, tmp_path: Path) -> None:
    """Bytes that changed on the disk: the row group and the column."""
    columns = log(rng)
    table = pa.table({name: columns[name] for name in ("arm", "reward", *FEATURES)})
    path = tmp_path / "log.parquet"
    pq.write_table(
        table, path, row_group_size=250, write_page_checksum=True, use_dictionary=False,
        compression="zstd",
    )  # fmt: skip
    place = pq.ParquetFile(path).metadata.row_group(2).column(3)
    content = bytearray(path.read_bytes())
    start = place.data_page_offset + place.total_compressed_size // 2
    content[start : start + 64] = bytes(64)
    path.write_bytes(bytes(content))
    with pytest.raises(DataError, match=r"log.parquet, row group 2, column 'x1' cannot be read"):
        rolin.fit(path, progress=False)


LISTS: dict[str, tuple[list[Any], str]] = {
    "shorter": ([[1.0, 2.0], [1.0]], "row 1: column 'x' has 1 numbers, expected 2"),
    "null inside": ([[1.0, 2.0], [1.0, None]], "row 1: column 'x' holds a null, expected numbers"),
    "null": ([[1.0, 2.0], None], "row 1: column 'x' is null, expected a list of 2 numbers"),
    "texts": ([["a"], ["b"]], r"column 'x' is of type list<.*string>, expected numbers or lists"),
}


@pytest.mark.parametrize("case", LISTS)
def test_bad_lists_are_named(case: str) -> None:
    """Lists of one length, all of numbers."""
    values, message = LISTS[case]
    table = pa.table({"arm": ["a", "b"], "reward": [1.0, 2.0], "x": values})
    with pytest.raises(DataError, match=message):
        rolin.fit(table, features="x", progress=False)


def test_folders_are_read_whole_or_not_at_all(rng: np.random.Generator, tmp_path: Path) -> None:
    """Links and capital letters count; what is no file, or cannot be entered, is told."""
    columns = log(rng, 300)
    path = folder_of(columns, tmp_path / "log", files=3)
    (path / "part-1.parquet").rename(tmp_path / "elsewhere.parquet")
    (path / "part-1.PARQUET").symlink_to(tmp_path / "elsewhere.parquet")
    (tmp_path / "more").mkdir()
    (path / "part-2.parquet").rename(tmp_path / "more" / "part-2.parquet")
    (path / "linked").symlink_to(tmp_path / "more")
    (tmp_path / "more" / "back").symlink_to(path)
    found = rolin.fit(path, features=FEATURES, weight="weight", progress=False)
    same(found.moments, oracle(columns))
    os.mkfifo(path / "pipe.parquet")
    with pytest.raises(DataError, match=r"pipe.parquet is not a file"):
        rolin.fit(path, progress=False)


def test_rows_are_told_as_they_stand(rng: np.random.Generator, tmp_path: Path) -> None:
    """After rows without a reward, in later chunks, through a map: the row of the log."""
    columns = log(rng, 90)
    columns["reward"] = [None if i % 3 == 0 else float(i) for i in range(90)]
    columns["x2"] = [None if i == 71 else 1.0 for i in range(90)]
    table = pa.table(columns)
    pq.write_table(table, tmp_path / "log.parquet", row_group_size=40)
    options: dict[str, Any] = {"features": FEATURES, "missing": "drop", "progress": False}
    with pytest.raises(DataError, match=r"log.parquet, row group 1, row 31: column 'x2' is null"):
        rolin.fit(tmp_path / "log.parquet", **options)
    with pytest.raises(DataError, match=r"^row 71: column 'x2' is null"):
        rolin.fit(table.to_reader(max_chunksize=7), **options)
    features = rolin.FeatureMap(arm={"price": Number()})
    raw = pa.table(
        {"arm": ["a"] * 90, "reward": [1.0] * 90, "price": [1.0] * 71 + [float("inf")] * 19}
    )
    with pytest.raises(DataError, match=r"^row 71: field 'price' is inf"):
        rolin.fit(raw.to_reader(max_chunksize=7), feature_map=features, progress=False)
    with pytest.raises(DataError, match=r"there is no column 'price', a field of the map"):
        rolin.fit(raw.drop_columns(["price"]), feature_map=features, progress=False)


def test_nan_is_a_missing_reward_in_every_kind_of_table() -> None:
    """Arrow has null and NaN, pandas has NaN only: the same log, the same fit."""
    frame = pd.DataFrame({"arm": ["a", "b"], "reward": [1.0, np.nan], "x": [1.0, 2.0]})
    table = pa.table({"arm": ["a", "b"], "reward": [1.0, float("nan")], "x": [1.0, 2.0]})
    for source in (frame, table):
        with pytest.raises(DataError, match="row 1: column 'reward' is missing"):
            rolin.fit(source, progress=False)
        assert rolin.fit(source, missing="drop", progress=False).moments.arms == ("a",)
        assert rolin.fit(source, missing=0.5, progress=False).moments.count == 2


def test_an_empty_text_is_an_arm_where_arms_are_listed() -> None:
    """As in a journal; in a column of its own, an empty cell is no name."""
    found = rolin.fit(exported(offered=[["", "b"], ["", "b"]]), missing=0.0, progress=False)
    assert set(found.moments.arms) == {"", "b"}


def test_errors_carry_the_cell() -> None:
    """Column, row and text, also after they were sent to another process."""
    table = pa.table({"arm": ["a", None], "reward": [1.0, 2.0]})
    with pytest.raises(BadCell) as caught:
        rolin.fitting.Fold.of(table)(table)
    for error in (caught.value, pickle.loads(pickle.dumps(caught.value))):
        assert (error.column, error.row) == ("arm", 1)
        assert str(error) == f"row 1: column 'arm' {error.text}"


def test_a_fit_is_shown(rng: np.random.Generator) -> None:
    """One line for the interpreter, an escaped table for notebooks."""
    columns = log(rng, 300)
    columns["<b>&age"] = columns.pop("x0")
    found = rolin.fit(pa.table(columns), features=["<b>&age", "x1"], progress=False)
    assert repr(found) == "<Fit: 300 rewards of 7 arms, 2 features>"
    html = found._repr_html_()
    assert "<b>" not in html
    assert "&lt;b&gt;&amp;age, x1" in html
    assert [html.count(name) for name in ("noise_std", "arm_std", "coef_std")] == [1, 1, 1]
    empty = rolin.fit(pa.table(columns).slice(0, 0), features=["x1"], progress=False)
    assert "0 rewards of 0 arms" in empty._repr_html_()


def test_progress_of_a_fit(rng: np.random.Generator, tmp_path: Path) -> None:
    """A function is told all bytes; a label is no longer taken."""
    path = folder_of(log(rng), tmp_path / "log")
    steps: list[int] = []
    rolin.fit(path, features=FEATURES, progress=steps.append)
    assert min(steps) > 0
    assert len(steps) == len(batches.partitions_of(files.look(files.files_of(path, {}), {})))
    with pytest.raises(ParameterError, match="progress='folding', expected True, False or a func"):
        rolin.fit(path, features=FEATURES, progress="folding")  # type: ignore[arg-type]


def test_n_jobs_is_that_of_joblib() -> None:
    """None is one, -1 all cores, -2 all but one."""
    for n_jobs in (None, 1, 3, -1, -2, -1000):
        assert worker_count(n_jobs) == joblib.effective_n_jobs(n_jobs)


@pytest.mark.parametrize("kind", [pa.bool_(), pa.decimal128(5, 1), pa.int8(), pa.float32()])
def test_a_missing_reward_is_the_number_that_was_said(kind: pa.DataType) -> None:
    """Whatever the type of the rewards that are there."""
    rewards = pa.array([None, 0], type=pa.int8()).cast(kind)
    table = pa.table({"arm": ["a", "a"], "reward": rewards, "x": [1.0, 2.0]})
    found = rolin.fit(table, missing=0.55, progress=False).moments
    assert found.mean_reward[0] == pytest.approx(0.275, rel=1e-12)


def test_tables_of_pandas_have_no_index() -> None:
    """Rows that were chosen or sorted are the same log; categories of numbers are numbers."""
    frame = pd.DataFrame({"arm": list("abcdefgh"), "x": np.arange(8.0), "reward": np.arange(8.0)})
    assert rolin.fit(frame.iloc[[0, 1, 5, 7]], progress=False).feature_names == ["x"]
    frame["y"] = pd.Categorical([1, 2] * 4)
    assert rolin.fit(frame, progress=False).feature_names == ["x", "y"]
    with pytest.raises(DataError, match="cannot be read as Arrow data"):
        rolin.fit(pd.DataFrame({"arm": [1, "1"], "reward": [1.0, 2.0]}), progress=False)


def exported(**changes: Any) -> pa.Table:
    """Return two decisions as they are exported, with other columns."""
    columns: dict[str, Any] = {
        "offered": [["a", "b"], ["a", "b"]],
        "contexts": [[[1.0], [2.0]], [[3.0], [4.0]]],
        "chosen": [[1], [0]],
        "rewards": [[0.5], [None]],
        "weights": [[1.0], [None]],
    }
    return pa.table({**columns, **changes})


EXPORTED: dict[str, tuple[dict[str, Any], str]] = {
    "JSON": ({"offered": ['["a", 1]'] * 2}, "column 'offered' is of type string, expected lists: arms of two"),
    "flat": ({"contexts": [[1.0], [2.0]]}, "column 'contexts' holds lists of type double"),
    "share": ({"chosen": [[0.7], [0.0]]}, "column 'chosen' holds lists of type double"),
    "texts": ({"rewards": [["1"], ["2"]]}, "column 'rewards' holds lists of type string"),
    "weight": ({"weights": [[0.0], [1.0]]}, "row 0: column 'weights' is 0.0, expected above 0"),
    "place": ({"chosen": [[1], [2]]}, "row 1: column 'chosen' is 2, expected an index into offered"),
    "length": ({"rewards": [[0.5, 1.0], [None]]}, "row 0: column 'rewards' has 2 items, expected 1"),
    "nan": ({"contexts": [[[1.0], [float("nan")]], [[3.0], [4.0]]]}, "row 0: column 'contexts' is nan"),
}  # fmt: skip


@pytest.mark.parametrize("case", EXPORTED)
def test_bad_tables_of_decisions_are_named(case: str) -> None:
    """Columns of other types, numbers that cannot be."""
    changes, message = EXPORTED[case]
    with pytest.raises(DataError, match=message):
        rolin.fit(exported(**changes), progress=False)


def test_decisions_that_wait_for_a_reward() -> None:
    """They are no evidence, unless it is said what they count as."""
    assert rolin.fit(exported(), progress=False).moments.count == 1
    found = rolin.fit(exported(), missing=0.0, progress=False).moments
    assert (found.count, dict(zip(found.arms, found.mean_reward, strict=True))) == (
        2,
        {"a": 0.0, "b": 0.5},
    )


OPTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "missing": ({"missing": "ignore"}, "missing='ignore', expected 'refuse', 'drop' or a number"),
    "true": ({"missing": True}, "missing=True, expected"),
    "engine": ({"engine": "hadoop"}, "engine='hadoop', expected None or one of dask, ray, spark"),
    "address": ({"address": "tcp://x"}, "address='tcp://x', expected the address of a cluster"),
    "twice": ({"features": ["x0", "x0"]}, "a column of features is named twice"),
    "one column": (
        {"weight": "reward"},
        "reward='reward' and weight='reward', expected different columns",
    ),
    "number": ({"features": 5}, "features=5, expected names of columns"),
    "n_jobs": ({"n_jobs": 0}, "n_jobs=0, expected a number of workers"),
    "storage": ({"storage_options": 5}, "storage_options=5, expected a mapping"),
    "itself": ({"features": ["reward"]}, "column 'reward' cannot be a feature"),
    "map": ({"feature_map": {"a": 1}}, "expected a feature map"),
    "intercept": ({"intercept_std": -1.0}, "intercept_std=-1.0, expected a positive number"),
    "checkpoint": ({"checkpoint": "somewhere"}, "checkpoint=… is for files"),
    "engine of a table": ({"engine": "dask"}, "expected files to fold by dask"),
}


@pytest.mark.parametrize("case", OPTIONS)
def test_bad_options_are_told(case: str, rng: np.random.Generator) -> None:
    """What was given, and what was expected."""
    options, message = OPTIONS[case]
    with pytest.raises((DataError, ParameterError), match=message):
        rolin.fit(pa.table(log(rng, 20)), **{"progress": False, **options})


def test_an_engine_that_is_not_installed_is_named(
    rng: np.random.Generator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The extra that brings it."""
    path = folder_of(log(rng), tmp_path / "log")
    for engine, module in (("dask", "distributed"), ("ray", "ray"), ("spark", "pyspark")):
        for name in (module, "pyspark.sql"):
            monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(MissingExtra, match=rf"rolin\[{engine}\]"):
            rolin.fit(path, engine=engine, progress=False)  # type: ignore[arg-type]


# -- the command -----------------------------------------------------------------------------------


def test_the_command_writes_a_state(
    rng: np.random.Generator,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    rolin_command: Command,
) -> None:
    """`rolin fit LOG --out STATE`, as a user types it."""
    columns = log(rng, 2000)
    path, out = folder_of(columns, tmp_path / "log"), tmp_path / "state"
    command = [str(Path(sys.executable).with_name("rolin")), "fit", str(path), "--out", str(out)]
    done = subprocess.run(
        [*command, "--features", "x0,x1, x2,x3", "--weight", "weight", "--intercept-std", "1"],
        capture_output=True, text=True, check=True, env={**os.environ, "COLUMNS": "200"},
    )  # fmt: skip
    assert "2,000 rewards of 7 arms, 4 features" in done.stdout
    assert "noise_std = " in done.stdout
    assert "folding" in done.stderr
    policy = rolin.RoLinTS.from_fit(out)
    same(policy.moments, oracle(columns))
    assert policy.scales.has_intercept
    assert sorted(os.listdir(tmp_path)) == ["log", "state"]
    assert rolin_command("diagnose", out)[0] == 0
    for arguments, message in (
        (["--missing", "maybe"], "--missing maybe, expected refuse, drop or a number"),
        (["--storage", "anon"], "--storage anon, expected NAME=VALUE"),
        (["--feature-map", tmp_path / "no.json"], "there is no feature map"),
        (["--reward", "money"], "there is no column 'money'"),
        (["--out", path / "part-0.parquet"], "is, or would be, a part of the log"),
        (["--out", path / "state.parquet"], "is, or would be, a part of the log"),
        (["--out", tmp_path / "nowhere" / "state"], "there is no folder"),
    ):
        code, text = rolin_command("fit", path, "--out", out, *arguments)
        assert (code, message in text) == (2, True)
    assert rolin_command("fit", path, "--out", tmp_path)[0] == 2
    same(rolin.RoLinTS.from_fit(out).moments, oracle(columns))


def test_the_state_says_what_it_is(rng: np.random.Generator, tmp_path: Path) -> None:
    """A state of moments, damaged or of parts that do not fit, is refused."""
    found = rolin.fit(pa.table(log(rng, 50)), features=FEATURES, progress=False)
    found.save(tmp_path / "state")
    state = rolin.model.state_file.read(tmp_path / "state")
    assert json.loads(json.dumps(state.settings))["feature_names"] == FEATURES
    arrays = {**state.arrays, "weight": np.ones(3)}
    rolin.model.state_file.write(tmp_path / "other", state._replace(arrays=arrays))
    with pytest.raises(StateFileError, match="do not fit together: weight has shape"):
        rolin.RoLinTS.from_fit(tmp_path / "other")


def test_a_damaged_file_of_arrow_does_not_crash(rng: np.random.Generator, tmp_path: Path) -> None:
    """Offsets that point outside: an error, not a signal."""
    path = arrow_file(log(rng, 100), tmp_path)
    content = bytearray(path.read_bytes())
    offset = content.find(np.arange(0, 6 * 4, 6, dtype=np.int32).tobytes())
    assert offset > 0  # texts of 6 letters: item-0 and so on
    content[offset + 7] = 0x7F
    path.write_bytes(bytes(content))
    with pytest.raises(DataError, match=r"log.arrow, row group 0 cannot be read"):
        rolin.fit(path, features=FEATURES, progress=False)
