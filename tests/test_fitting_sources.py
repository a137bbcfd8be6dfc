"""Logs of every kind are the same evidence: files, object stores, tables, lists, maps."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rolin
from rolin.errors import DataError
from rolin.features import Category, Number
from rolin.logs.export import export
from rolin.model.moments import Moments
from support.fitting_logs import FEATURES, arrow_file, exported, folder_of, log, oracle, same


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


# -- missing rewards, arms and files ---------------------------------------------------------


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


def test_decisions_that_wait_for_a_reward() -> None:
    """They are no evidence, unless it is said what they count as."""
    assert rolin.fit(exported(), progress=False).moments.count == 1
    found = rolin.fit(exported(), missing=0.0, progress=False).moments
    assert (found.count, dict(zip(found.arms, found.mean_reward, strict=True))) == (
        2,
        {"a": 0.0, "b": 0.5},
    )
