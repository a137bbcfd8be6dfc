"""The same row from every library gives the same vector, and samples of tables give a map."""

from __future__ import annotations

import json
import math
from datetime import datetime
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolin.errors import InputError, ParameterError
from rolin.features import (
    Boolean,
    Category,
    FeatureMap,
    HashedFeatures,
    Ignored,
    Number,
    Tags,
    from_json,
)
from rolin.features.tables import MAX_DEPTH
from support.feature_maps import ROWS, SITUATION_ROWS, oracle, tables

# -- the same row from every library ---------------------------------------------------------------


@pytest.mark.parametrize("library", tables(ROWS))
def test_the_same_row_gives_the_same_vector(library: str, features: FeatureMap) -> None:
    """Dicts, JSON, pandas, polars and Arrow: equal to the bit, row by row and as a whole table."""
    expected = np.array([
        oracle(features, row, situation)
        for row, situation in zip(ROWS, SITUATION_ROWS, strict=True)
    ])  # fmt: skip
    arms, situations = tables(ROWS)[library], tables(SITUATION_ROWS)[library]
    assert (features.transform(arms, situations) == expected).all()
    sparse = features.transform(arms, situations, sparse=True)
    assert (sparse.toarray() == expected).all()
    assert sparse.nnz == np.count_nonzero(expected)
    for i in range(4):
        one = situations[i : i + 1] if hasattr(situations, "columns") else situations[i]
        x = features.contexts(arms, one)
        assert (x[i] == expected[i]).all()
        assert (features.sparse_contexts(arms, one).toarray() == x).all()


def test_the_index_of_a_frame_names_its_arms(features: FeatureMap) -> None:
    """Unless the index only numbers the rows."""
    names = FeatureMap(arm={"_arm": Category(["red", "blue"])}, intercept=False)
    frame = pd.DataFrame({"price": [1.0, 2.0]}, index=["red", "blue"])
    assert names.contexts(frame).tolist() == [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    assert names.contexts(frame.reset_index(drop=True))[:, 2].tolist() == [1.0, 1.0]


def test_a_map_as_text(features: FeatureMap) -> None:
    """The kind of each field, its number of features and its options."""
    text = str(features)
    assert (
        "situation  device                   category         4  phone, desktop, missing has a feature"
        in text
    )
    assert "arm        price                    number           1  center 3, scale 0.7" in text
    assert "arm        brand                    category         5  hashed" in text
    assert "arm        note                     ignored          0" in text
    assert f"{features.n_features} features; crossed pairs of fields: 30" in text


def test_rows_of_each_library(features: FeatureMap) -> None:
    """A single row of pandas or Arrow is accepted like a dict."""
    expected = features.contexts([ROWS[2]], SITUATION_ROWS[0])
    frame, arrow = pd.DataFrame(ROWS), pa.array(ROWS)
    assert (features.contexts([frame.iloc[2]], SITUATION_ROWS[0]) == expected).all()
    assert (features.contexts({"x": arrow[2]}, SITUATION_ROWS[0]) == expected).all()
    assert (features.contexts([pl.DataFrame(ROWS).row(2, named=True)], SITUATION_ROWS[0]) == expected).all()  # fmt: skip
    as_text = json.dumps({"x": ROWS[2]})
    assert (features.contexts(as_text, json.dumps(SITUATION_ROWS[0])) == expected).all()


@given(st.data())
def test_columns_of_numbers_are_read_as_single_numbers(data: st.DataObject) -> None:
    """A column of any numeric type gives the same numbers as its single values."""
    kind = data.draw(st.sampled_from(["int8", "int64", "uint64", "float32", "float64", "bool"]))
    dtype = np.dtype(kind)
    element = st.booleans() if kind == "bool" else (
        st.integers(np.iinfo(dtype).min, np.iinfo(dtype).max) if dtype.kind in "iu"
        else st.floats(-(2.0**60), 2.0**60, width=dtype.itemsize * 8)
    )  # fmt: skip
    values = np.array(data.draw(st.lists(element, min_size=1, max_size=8)), dtype=dtype)
    features = FeatureMap(arm={"n": Number(center=0.3, scale=7.0)}, intercept=False)
    expected = [[(float(v) - 0.3) / 7.0] for v in values.tolist()]
    for table in (
        pd.DataFrame({"n": values}),
        pl.DataFrame({"n": values}),
        pa.table({"n": values}),
        [{"n": v} for v in values],
        [{"n": v} for v in values.tolist()],
    ):
        assert features.transform(table).tolist() == expected
    assert features.contexts([{"n": v} for v in values]).tolist() == expected
    assert features.contexts([{"n": v} for v in values.tolist()]).tolist() == expected


def test_numbers_that_are_categories() -> None:
    """18, 18.0 and "18" are one category; True is not 1."""
    features = FeatureMap(arm={"c": Category([18, 2.5, True])}, intercept=False)
    assert features.names == ["c=18", "c=2.5", "c=true", "c is unseen"]
    values = [18, 18.0, "18", np.int8(18), np.float32(18), Decimal(18), 2.5, "2.5", True, 1, "1"]
    found = features.contexts([{"c": value} for value in values]).argmax(axis=1).tolist()
    assert found == [0, 0, 0, 0, 0, 0, 1, 1, 2, 3, 3]
    mixed = pd.DataFrame({"c": pd.Series(values, dtype=object)})
    assert features.transform(mixed).argmax(axis=1).tolist() == found
    with_gaps = pd.DataFrame({"c": [18, None, 2.5]})  # a column of floats
    assert features.transform(with_gaps).argmax(axis=1).tolist() == [0, 3, 1]


class Device(str, Enum):  # noqa: UP042 # whose str() is another text
    """An Enum whose members are texts."""

    PHONE = "phone"


def test_texts_of_other_kinds(features: FeatureMap) -> None:
    """A member of a text Enum counts as its text: alone, beside a missing value, in a table, and hashed."""
    hashed = FeatureMap(arm={"c": Category(size=50)})
    for rows in ([{"device": Device.PHONE}], [{"device": Device.PHONE}, {"device": None}]):
        plain = [{"device": "phone"}, {"device": None}][: len(rows)]
        x, y = (features.transform([{}] * len(rows), given) for given in (rows, plain))
        assert (x == y).all()
        assert (x[0] == features.contexts([{}], rows[0])[0]).all()
    alone, beside = (
        hashed.contexts([{"c": c} for c in values])[0]
        for values in ([Device.PHONE], [Device.PHONE, 3])
    )
    assert (alone == hashed.contexts([{"c": "phone"}])[0]).all()
    assert (alone == beside).all()
    token = HashedFeatures(64)
    assert (token.contexts([{"c": Device.PHONE}]) == token.contexts([{"c": "phone"}])).all()


@pytest.mark.parametrize("value", [Decimal(1), Fraction(1), 1 + 0j, "true", 2])
def test_what_is_no_boolean_is_none_anywhere(value: Any, features: FeatureMap) -> None:
    """A value that is no boolean is rejected: alone, beside others, and in a table."""
    for rows in (
        [{"live": value}],
        [{"live": value}, {"live": None}],
        [{"live": True}, {"live": value}],
    ):
        with pytest.raises(
            InputError, match=r"field 'live' of arm . is .*, expected true or false"
        ):
            features.contexts(rows)
        with pytest.raises(
            InputError, match=r"field 'live' of row . is .*, expected true or false"
        ):
            features.transform(rows, [{}] * len(rows))


def test_objects_and_names_with_dots() -> None:
    """In rows and tables: an object instead of a value, names with dots, and a field given in both ways."""
    features = FeatureMap(arm={"a.b.c": Number(), "u": Category(["x"])})
    for row, expected in (
        ({"a.b": {"c": 2.0}}, 2.0), ({"a": {"b.c": 2.0}}, 2.0), ({"a": {"b": {"c": 2.0}}}, 2.0),
        ({"a.b.c": 2.0}, 2.0), ({"a": {"b": None}}, 0.0), ({"a": 3}, 0.0),
    ):  # fmt: skip
        for rows in ([row], pa.Table.from_pylist([row]), pl.DataFrame([row]), pd.DataFrame([row])):
            assert features.transform(rows)[0, 1] == expected
            assert features.contexts(rows)[0, 1] == expected
    twice = {"a.b.c": 1.0, "a": {"b": {"c": 2.0}}}
    for rows in (
        [twice],
        pa.Table.from_pylist([twice]),
        pl.DataFrame([twice]),
        pd.DataFrame([twice]),
    ):
        for read in (features.transform, features.contexts):
            with pytest.raises(InputError, match=r"field 'a.b.c' is given twice"):
                read(rows)
    odd = {"u": {"x": 1}}
    for rows in ([odd], pa.Table.from_pylist([odd]), pl.DataFrame([odd]), pd.DataFrame([odd])):
        for read in (features.transform, features.contexts):
            with pytest.raises(InputError, match=r"field 'u' of .* is {'x': 1}, expected a text"):
                read(rows)


def test_columns_that_nobody_uses(features: FeatureMap) -> None:
    """Unused columns may have any type; two columns of the same name are rejected."""
    wide = pl.DataFrame({"price": [1.0], "big": pl.Series([2**100], dtype=pl.Int128)})
    assert features.transform(wide, [{}]).shape == (1, features.n_features)
    used = pl.DataFrame({"price": pl.Series([2**60], dtype=pl.Int128)})
    assert features.transform(used, [{}]).max() > 1e17
    for table in (
        pd.DataFrame([[1.0, 2.0]], columns=["price", "price"]),
        pa.Table.from_arrays([pa.array([1.0]), pa.array([2.0])], names=["price", "price"]),
    ):
        for read in (features.contexts, lambda t: features.transform(t, [{}])):
            with pytest.raises(InputError, match="two columns of the table have the same name"):
                read(table)
    gaps = pd.DataFrame({"price": pd.Series([math.nan, 1.0], dtype=pd.ArrowDtype(pa.float64()))})
    rows = [{"price": None}, {"price": 1.0}]
    assert (features.transform(gaps, [{}] * 2) == features.transform(rows, [{}] * 2)).all()


# -- from a sample ------------------------------------------------------------------------------------


@pytest.mark.parametrize("library", ["dicts", "polars", "Arrow", "pandas objects within"])
def test_a_map_from_a_sample(library: str) -> None:
    """Kinds are inferred, numbers standardized, values listed; identifiers are ignored."""
    rows = [
        {
            "id": f"item-{i}", "price": float(i), "kind": "ab"[i % 2], "on": i % 3 == 0,
            "tags": ["x"] if i % 2 else ["x", "y"], "by": {"name": "z" if i % 4 else None},
            "never": None,
        }
        for i in range(40)
    ]  # fmt: skip
    made = tables(rows)[library]
    features = FeatureMap.infer(made, [{"hour": 3}, {"hour": 5}])
    assert features.situation == {"hour": Number(standardize=True, center=4.0, scale=1.0)}
    prices = np.arange(40.0)
    expected = {
        "id": Ignored(),
        "price": Number(standardize=True, center=prices.mean(), scale=prices.std()),
        "kind": Category(["a", "b"]),
        "on": Boolean(),
        "tags": Tags(["x", "y"]),
        "by.name": Category(["z"], missing=True),
        "never": Ignored(),
    }
    assert features.arm == expected
    x = features.transform(made, [{"hour": 4}] * 40)
    prices = x[:, features.names.index("price")]
    assert prices.mean() == pytest.approx(0.0, abs=1e-12)
    assert prices.std() == pytest.approx(1.0)


def test_odd_columns_of_a_sample() -> None:
    """Objects that are sometimes missing are used; dates, bytes and empty lists are ignored."""
    rows = [
        {
            "user": {"age": float(i)} if i % 2 else None, "when": datetime(2026, 1, 1 + i), "raw": b"x",
            "none": [], "lists": [[1]], "objects": [{"a": 1}], "tags": frozenset({"x"}), "#n": i,
            "tiny": i * 1e-160,
        }
        for i in range(10)
    ]  # fmt: skip
    features = FeatureMap.infer(rows)
    kinds = {name: field.kind for name, field in features.arm.items()}
    assert kinds == {
        "user.age": "number", "when": "ignored", "raw": "ignored", "none": "ignored", "lists": "ignored",
        "objects": "ignored", "tags": "tags", "#n": "number", "tiny": "number",
    }  # fmt: skip
    assert features.arm["user.age"].missing
    with pytest.raises(InputError, match="field 'n' of the arm has numbers too large"):
        FeatureMap.infer([{"n": 1e300}, {"n": -1e300}])
    sized = Category(size=np.int64(5), missing=np.bool_(True))  # type: ignore[arg-type]
    made = FeatureMap(arm={"c": sized})
    assert from_json(made.to_json()) == made
    far = FeatureMap(arm={"ts": Number(center=1.7e18, scale=1e-9)})
    assert far.contexts([{"ts": None}]).tolist() == [[1.0, 0.0]]


def test_declared_fields_of_a_sample() -> None:
    """Declared fields stay; their open options are learned, and other fields may be left out."""
    rows = [{"age": 18 + i % 2, "price": float(i), "x": 1.0} for i in range(10)]
    features = FeatureMap.infer(
        rows, arm={"age": Category(), "price": Number(standardize=True, missing=True)}, others=False
    )
    assert features.arm["age"] == Category([18, 19])
    assert features.arm["price"].missing
    assert list(features.arm) == ["age", "price"]
    most = FeatureMap.infer([{"c": c} for c in "aaabbcde"], max_values=2)
    assert most.arm["c"] == Category(["a", "b"])
    constant = FeatureMap.infer([{"n": 0.1}] * 3)
    assert constant.contexts([{"n": 0.1}, {"n": 1.1}])[:, 1] == pytest.approx([0.0, 1.0])


def test_samples_that_tell_nothing() -> None:
    """An empty sample, one with too many features, and one with an invalid value are rejected."""
    with pytest.raises(InputError, match="the sample of the arm is empty"):
        FeatureMap.infer([])
    with pytest.raises(InputError, match="'c' of the arm has no values in the sample"):
        FeatureMap.infer([{}], arm={"c": Category()})
    with pytest.raises(InputError, match="row 1 of the sample, is nan, expected a finite number"):
        FeatureMap.infer([{"n": 1.0}, {"n": math.nan}])
    wide = [{f"c{j}": "abcdefgh"[i % 8] for j in range(5)} for i in range(40)]
    with pytest.raises(ParameterError, match="would have 2116 features, from 45 of the situation"):
        FeatureMap.infer(wide, wide)
    deep: Any = 1
    for _ in range(MAX_DEPTH + 1):
        deep = {"d": deep}
    with pytest.raises(InputError, match="row 0 of the sample is nested deeper than 8 levels"):
        FeatureMap.infer([deep])


# -- hashed ---------------------------------------------------------------------------------------------


def test_hashed_rows_of_each_library() -> None:
    """A row of any library gives the same hashed vector; unused types change nothing."""
    features = HashedFeatures(64)
    expected = features.transform(ROWS, SITUATION_ROWS)
    for library, rows in tables(ROWS).items():
        x = features.transform(rows, tables(SITUATION_ROWS)[library])
        assert (x == expected).all(), library
    with pytest.raises(InputError, match="field 'x' of arm 'red' is nan, expected a finite number"):
        features.contexts({"red": {"x": math.nan}})
    with pytest.raises(InputError, match=r"field 'x' of the situation is 1e.40, expected a number"):
        features.contexts({"red": {}}, {"x": 1e40})
    odd = {"d": datetime(2026, 1, 1), "o": object(), "b": b"x", "l": [[1], {"a": 1}]}
    plain = features.contexts({"red": {"x": 1.0}}, {"y": "z"})
    assert (features.contexts({"red": {"x": 1.0} | odd}, {"y": "z"} | odd) == plain).all()
    named = HashedFeatures(8, arm_names=True)
    with pytest.raises(InputError, match=r"the name of arm \(1, 2\) cannot be a feature"):
        named.contexts({(1, 2): {}})
    deep: Any = 1
    for _ in range(MAX_DEPTH + 1):
        deep = {"d": deep}
    with pytest.raises(InputError, match="of arm 'red' is nested deeper than 8 levels"):
        features.contexts({"red": deep})
