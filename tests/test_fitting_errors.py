"""Bad logs and options: errors name the file, the row and the column."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rolin
from rolin.errors import DataError, MissingExtra, ParameterError
from rolin.features import Number
from rolin.logs.rules import BadCell
from support.fitting_logs import FEATURES, Command, arrow_file, exported, folder_of, log


def spoil(columns: dict[str, Any], path: Path, change: Callable[[pa.Table], pa.Table]) -> Path:
    """Write a log whose second file is another."""
    folder = folder_of(columns, path / "log", files=2, group=100)
    second = folder / "part-1.parquet"
    pq.write_table(change(pq.read_table(second)), second, row_group_size=100)
    return folder


def with_column(name: str, values: Callable[[list[Any]], Any]) -> Callable[[pa.Table], pa.Table]:
    """Return what gives a table another column."""

    def change(table: pa.Table) -> pa.Table:
        index = table.schema.get_field_index(name)
        return table.set_column(index, name, pa.array(values(table[name].to_pylist())))

    return change


def at(row: int, value: Any) -> Callable[[list[Any]], list[Any]]:
    """Return what puts a value into a list."""
    return lambda values: [*values[:row], value, *values[row + 1 :]]


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
        b"": "part-1.parquet is empty, expected a Parquet or Arrow file",
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
    chunk = pq.ParquetFile(path).metadata.row_group(2).column(3)
    content = bytearray(path.read_bytes())
    start = chunk.data_page_offset + chunk.total_compressed_size // 2
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


def test_errors_carry_the_cell() -> None:
    """Column, row and text, also after they were sent to another process."""
    table = pa.table({"arm": ["a", None], "reward": [1.0, 2.0]})
    with pytest.raises(BadCell) as caught:
        rolin.fitting.Fold.of(table)(table)
    for error in (caught.value, pickle.loads(pickle.dumps(caught.value))):
        assert (error.column, error.row) == ("arm", 1)
        assert str(error) == f"row 1: column 'arm' {error.text}"


EXPORTED: dict[str, tuple[dict[str, Any], str]] = {
    "JSON": ({"offered": ['["a", 1]'] * 2}, "column 'offered' is of type string, expected lists: arms of two"),
    "flat": ({"contexts": [[1.0], [2.0]]}, "column 'contexts' holds lists of type double"),
    "share": ({"chosen": [[0.7], [0.0]]}, "column 'chosen' holds lists of type double"),
    "texts": ({"rewards": [["1"], ["2"]]}, "column 'rewards' holds lists of type string"),
    "weight": ({"weights": [[0.0], [1.0]]}, "row 0: column 'weights' is 0.0, expected above 0"),
    "index": ({"chosen": [[1], [2]]}, "row 1: column 'chosen' is 2, expected an index into offered"),
    "length": ({"rewards": [[0.5, 1.0], [None]]}, "row 0: column 'rewards' has 2 items, expected 1"),
    "nan": ({"contexts": [[[1.0], [float("nan")]], [[3.0], [4.0]]]}, "row 0: column 'contexts' is nan"),
}  # fmt: skip


@pytest.mark.parametrize("case", EXPORTED)
def test_bad_tables_of_decisions_are_named(case: str) -> None:
    """Columns of other types, numbers that cannot be."""
    changes, message = EXPORTED[case]
    with pytest.raises(DataError, match=message):
        rolin.fit(exported(**changes), progress=False)


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


def test_a_csv_file_is_named_as_such(tmp_path: Path) -> None:
    """Before anything is imported, so that nobody installs a package for it."""
    path = tmp_path / "log.csv"
    path.write_text("arm,x,reward\na,1.0,0.5\n")
    with pytest.raises(
        DataError, match="is a CSV file, expected Parquet or Arrow: convert it first"
    ):
        rolin.fit(path)
