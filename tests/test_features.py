"""Feature maps: every way to give raw features leads to the same vector, and errors name field and arm."""

from __future__ import annotations

import json
import math
import tracemalloc
from datetime import datetime
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.compose import make_column_transformer
from sklearn.feature_extraction import DictVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from rolin.errors import InputError, NotFiniteError, ParameterError, ShapeError, StateFileError
from rolin.features import (
    Boolean,
    Category,
    FeatureMap,
    HashedFeatures,
    Ignored,
    Number,
    RecordedFeatures,
    SklearnFeatureMap,
    Tags,
    from_json,
    load,
)
from rolin.features.fields import MAX_NUMBER
from rolin.features.tables import MAX_DEPTH

SITUATION = {
    "device": Category(["phone", "desktop"], missing=True),
    "hour": Number(center=12.0, scale=6.0),
    "user": {"age": Number(scale=40.0, missing=True), "new": Boolean()},
    "interests": Tags(["cars", "music"]),
}
ARM = {
    "price": Number(standardize=True, center=3.0, scale=0.7),
    "genre": Category(["drama", "comedy", 18], missing=False),
    "brand": Category(size=5),
    "tags": Tags(size=4, missing=True),
    "live": Boolean(missing=True),
    "note": Ignored(),
}


@pytest.fixture
def features() -> FeatureMap:
    """A map with every kind of field."""
    return FeatureMap(SITUATION, ARM)


# -- an oracle: the vector by its definition, one feature at a time --------------------------------


def side(fields: dict[str, Any], row: dict[str, Any]) -> dict[str, float]:
    """The value of each column, by name, computed without arrays."""
    found: dict[str, float] = {}
    for name, field in fields.items():
        value: Any = row
        for part in name.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        columns = dict.fromkeys(field.names(name), 0.0)
        if value is None:
            if field.missing:
                columns[f"{name} is missing"] = 1.0
            elif isinstance(field, Category) and field.size is None:
                columns[f"{name} is unseen"] = 1.0
        elif isinstance(field, Number):
            center, scale = field.center or 0.0, field.scale or 1.0
            columns[name] = (float(value) - center) / scale
        elif isinstance(field, Boolean):
            columns[name] = float(value)
        elif isinstance(field, (Category, Tags)):
            for item in [value] if isinstance(field, Category) else value:
                text = item if isinstance(item, str) else json.dumps(item).removesuffix(".0")
                if field.size is not None:
                    columns[f"{name}#{field.column(text)}"] = 1.0
                elif text in (field.values or ()):
                    columns[f"{name}={text}"] = 1.0
                else:
                    columns[f"{name} is unseen"] = 1.0
        found |= columns
    return found


def oracle(features: FeatureMap, row: dict[str, Any], situation: dict[str, Any]) -> list[float]:
    """The vector of an arm, with every field of the situation crossed with every field of the arm."""
    left, right = side(features.situation, situation), side(features.arm, row)
    named = {"intercept": 1.0} | left | right
    named |= {f"{s} × {a}": u * v for s, u in left.items() for a, v in right.items()}
    return [named[name] for name in features.names]


TEXTS = st.one_of(
    st.sampled_from(["phone", "desktop", "drama", "18", "cars", "true", "ö", ""]),
    st.text(max_size=3),
)
NUMBERS = st.one_of(
    st.floats(-1e6, 1e6), st.integers(-(10**6), 10**6), st.integers(2**53, 2**63 - 1)
)
SITUATIONS = st.fixed_dictionaries(
    {},
    optional={
        "device": st.none() | TEXTS | st.integers(0, 20) | st.booleans(),
        "hour": st.none() | NUMBERS,
        "user": st.fixed_dictionaries(
            {}, optional={"age": st.none() | NUMBERS, "new": st.none() | st.booleans()}
        ),
        "interests": st.none() | st.lists(TEXTS, max_size=4),
    },
)
ARMS = st.fixed_dictionaries(
    {},
    optional={
        "price": st.none() | NUMBERS,
        "genre": st.none() | TEXTS | st.integers(0, 20),
        "brand": st.none() | TEXTS,
        "tags": st.none() | st.lists(TEXTS, max_size=4),
        "live": st.none() | st.booleans(),
        "unknown": st.none() | TEXTS | st.lists(st.integers(), max_size=2),
    },
)


@given(situation=SITUATIONS, arms=st.lists(ARMS, min_size=1, max_size=6))
def test_vectors_are_what_their_names_say(
    situation: dict[str, Any], arms: list[dict[str, Any]]
) -> None:
    """With missing and unknown fields, in any order: the vector equals that of the oracle, to the bit."""
    features = FeatureMap(SITUATION, ARM)
    x = features.contexts(arms, situation)
    assert x.tolist() == [oracle(features, row, situation) for row in arms]
    assert (features.transform(arms, [situation] * len(arms)) == x).all()
    for row, vector in zip(arms, x, strict=True):
        assert (features.contexts([row], situation)[0] == vector).all()


def test_a_map_by_hand() -> None:
    """Two fields of two columns each: the constant, both sides, and the products, row by row."""
    features = FeatureMap({"a": Category(["x"])}, {"b": Category(["y"])})
    assert features.names == [
        "intercept", "a=x", "a is unseen", "b=y", "b is unseen",
        "a=x × b=y", "a=x × b is unseen", "a is unseen × b=y", "a is unseen × b is unseen",
    ]  # fmt: skip
    x = features.contexts({"one": {"b": "y"}, "two": {"b": "never"}}, {"a": "x"})
    assert x.tolist() == [[1, 1, 0, 1, 0, 1, 0, 0, 0], [1, 1, 0, 0, 1, 0, 1, 0, 0]]
    assert features.named(x[1]) == {
        "intercept": 1, "a=x": 1, "b is unseen": 1, "a=x × b is unseen": 1,
    }  # fmt: skip


def test_chosen_crossings() -> None:
    """Only the chosen pairs are multiplied, and the intercept is optional."""
    features = FeatureMap(
        {"s": Number(), "t": Number()}, {"a": Number(), "b": Number()},
        cross=[("s", "b")], intercept=False,
    )  # fmt: skip
    assert features.names == ["s", "t", "a", "b", "s × b"]
    x = features.contexts([{"a": 5.0, "b": 7.0}], {"s": 2.0, "t": 3.0})
    assert x.tolist() == [[2.0, 3.0, 5.0, 7.0, 14.0]]


def test_the_name_of_the_arm_is_a_field() -> None:
    """Arms without fields have coefficients of their own in every situation."""
    features = FeatureMap({"hour": Number()}, {"_arm": Category(["red", 7])})
    x = features.contexts(None, {"hour": 2.0}, names=["red", 7, "blue"])
    hour = features.names.index
    assert x[0, hour("hour × _arm=red")] == x[1, hour("hour × _arm=7")] == 2.0
    assert x[2, hour("hour × _arm is unseen")] == 2.0
    rows = features.transform([{}] * 3, [{"hour": 2.0}] * 3, names=["red", 7, "blue"])
    assert (rows == x).all()
    with pytest.raises(InputError, match="arm 'red' has a field '_arm', which is its name"):
        features.contexts({"red": {"_arm": "blue"}}, {})
    with pytest.raises(InputError, match="expected names"):
        features.transform([{}], [{}])
    with pytest.raises(ShapeError, match="2 names for 1 arms"):
        features.transform([{}], [{}], names=["a", "b"])


def test_one_name_on_both_sides() -> None:
    """A field of the same name in situation and arm gives two different features."""
    features = FeatureMap({"country": Category(["de"])}, {"country": Category(["de"])})
    assert len(set(features.names)) == features.n_features
    assert "situation.country=de × arm.country=de" in features.names
    assert features.contexts([{"country": "de"}], {"country": "de"}).sum() == 4.0
    with pytest.raises(InputError, match=r"both have a field 'country'.*: give two tables"):
        features.transform(pd.DataFrame({"country": ["de"]}))


# -- the same row from every library ---------------------------------------------------------------

ROWS = [
    {"price": 2.5, "genre": "drama", "brand": "a", "tags": ["x", "y"], "live": True},
    {"price": 7, "genre": "new", "brand": None, "tags": [], "live": False},
    {"price": None, "genre": None, "brand": "ü", "tags": ["y", "y", "z"], "live": None},
    {"price": -1e-300, "genre": "18", "brand": "", "tags": None, "live": True},
]
SITUATION_ROWS = [
    {"device": "phone", "hour": 3, "user": {"age": 31.5, "new": True}, "interests": ["cars"]},
    {"device": None, "hour": 2**53 + 1, "user": {"age": None, "new": False}, "interests": None},
    {"device": "tv", "hour": None, "user": {"age": 0.1, "new": None}, "interests": ["q", "p"]},
    {"device": "phone", "hour": -4, "user": {"age": 1e6, "new": True}, "interests": []},
]


def tables(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The same rows in every library, in each of its representations."""
    arrow = pa.Table.from_pylist(rows)
    dictionary = arrow
    for name in set(arrow.schema.names) & {"genre", "brand", "device"}:
        i = arrow.schema.get_field_index(name)
        dictionary = dictionary.set_column(i, name, arrow[name].dictionary_encode())
    flat = [
        {k: v for k, v in row.items() if k != "user"}
        | {f"user.{k}": v for k, v in row.get("user", {}).items()}
        for row in rows
    ]
    return {
        "dicts": rows,
        "flat dicts": flat,
        "JSON": [json.dumps(row) for row in rows],
        "Arrow": arrow,
        "Arrow in chunks": pa.concat_tables([arrow.slice(0, 1), arrow.slice(1)]),
        "Arrow dictionaries": dictionary,
        "polars": pl.from_arrow(arrow),
        "polars categories": pl.from_arrow(dictionary),
        "pandas": pd.DataFrame(flat),
        "pandas objects": pd.DataFrame(rows, dtype=object),
        "pandas objects within": pd.DataFrame(rows),
        "pandas of Arrow": arrow.to_pandas(types_mapper=pd.ArrowDtype),
        "pandas, nullable": pd.DataFrame(flat).convert_dtypes(),
        "pandas categories": pd.DataFrame(flat).astype(
            {name: "category" for name in ("genre", "brand", "device") if name in flat[0]}
        ),
    }


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
    """The kind of each field, its number of columns and its options."""
    text = str(features)
    assert (
        "situation  device                   category        4  phone, desktop, missing has a column"
        in text
    )
    assert "arm        price                    number          1  center 3, scale 0.7" in text
    assert "arm        brand                    category        5  hashed" in text
    assert "arm        note                     ignored         0" in text
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


# -- undeclared fields ---------------------------------------------------------------------------


def test_unknown_fields_and_categories_break_nothing(features: FeatureMap) -> None:
    """A new field or a new category changes neither the size of the vector nor its other features."""
    known = {"price": 1.0, "genre": "drama"}
    deep: dict[str, Any] = {}
    for _ in range(50):
        deep = {"deep": deep}
    odd = {"x": math.nan, "y": [[1]], "z": object(), "_id": 3, "w": deep, 7: "seven"}
    before = features.contexts([known], {"device": "phone"})
    assert (features.contexts([known | odd], {"device": "phone"} | odd) == before).all()
    unseen = features.contexts([known | {"genre": "never seen"}], {"device": "a new one"})
    assert unseen.shape == before.shape
    assert unseen[0, features.names.index("device is unseen × genre is unseen")] == 1.0


def test_strictness() -> None:
    """With strict=True, an undeclared field is an error that names it."""
    features = FeatureMap(
        {"user": {"age": Number()}}, {"price": Number(), "id": Ignored()}, strict=True
    )
    good = {"price": 1.0, "id": object()}
    features.contexts({"red": good}, {"user": {"age": 3}})
    with pytest.raises(InputError, match="arm 'red' has a field 'prize', expected only price, id"):
        features.contexts({"red": {"prize": 1.0}}, {})
    with pytest.raises(InputError, match=r"the situation has a field 'user.name', expected only"):
        features.contexts({"red": good}, {"user": {"age": 3, "name": "ann"}})
    for table in ([{"prize": 1.0}], pd.DataFrame({"prize": [1.0]}), pl.DataFrame({"prize": [1.0]})):
        with pytest.raises(InputError, match="a column 'prize' that the map does not know"):
            features.transform(table, [{}])
    with pytest.raises(InputError, match=r"a column 'user.name' that the map does not know"):
        features.transform([{}], [{"user": {"name": "ann"}}])
    features.contexts({"red": good}, {"user": None})  # a missing object has no undeclared fields
    both = pd.DataFrame({"price": [1.0], "user.age": [2.0], "id": [3]})
    assert features.transform(both).shape == (1, features.n_features)
    assert from_json(features.to_json()).strict  # type: ignore[attr-defined]  # a FeatureMap


# -- bad input --------------------------------------------------------------------------------------

BAD_ARMS = [
    ({"price": "3.5"}, "field 'price' of arm 'red' is '3.5', expected a number"),
    ({"price": math.nan}, "field 'price' of arm 'red' is nan, expected a finite number; give None"),
    ({"price": -math.inf}, "field 'price' of arm 'red' is -inf, expected a finite number"),
    ({"price": [1.0]}, r"field 'price' of arm 'red' is \[1.0\], expected a number"),
    ({"price": {"a": 1}}, "field 'price' of arm 'red' is {'a': 1}, expected a number"),
    ({"price": 1j}, "field 'price' of arm 'red' is 1j, expected a number"),
    ({"price": 1e60}, "field 'price' of arm 'red' is 1e[+]60, expected a number that is at most"),
    ({"price": 10**400}, "field 'price' of arm 'red' is 1000.*, expected a number"),
    ({"genre": ["drama"]}, r"field 'genre' of arm 'red' is \['drama'\], expected a text"),
    ({"genre": math.nan}, "field 'genre' of arm 'red' is nan, expected a finite number"),
    ({"genre": {"a": 1}}, "field 'genre' of arm 'red' is {'a': 1}, expected a text"),
    ({"genre": b"drama"}, "field 'genre' of arm 'red' is b'drama', expected a text"),
    ({"tags": "drama"}, "field 'tags' of arm 'red' is 'drama', expected a list of texts"),
    ({"tags": [["a"]]}, r"field 'tags' of arm 'red' is \[\['a'\]\], expected a list of texts"),
    ({"tags": 3}, "field 'tags' of arm 'red' is 3, expected a list of texts"),
    ({"live": "yes"}, "field 'live' of arm 'red' is 'yes', expected true or false"),
    ({"live": 2}, "field 'live' of arm 'red' is 2, expected true or false"),
    ("price", "arm 'red' is a text that is not JSON"),
    (3, "arm 'red' is 3, expected its fields: a mapping"),
]


@pytest.mark.parametrize(("row", "message"), BAD_ARMS, ids=[repr(row)[:40] for row, _ in BAD_ARMS])
def test_errors_name_the_field_and_the_arm(row: Any, message: str, features: FeatureMap) -> None:
    """An error names value, field and arm; in a table, the row."""
    good = {"price": 1.0, "genre": "drama", "tags": [], "live": True}
    with pytest.raises(InputError, match=message):
        features.contexts({"blue": good, "red": row})
    if isinstance(row, dict):
        with pytest.raises(InputError, match=message.replace("arm 'red'", "row 1")):
            features.transform([good, row], [{}, {}])


def test_errors_in_tables_name_the_row(features: FeatureMap) -> None:
    """For columns of every library, the error names the row."""
    texts = {"genre": ["drama"] * 3, "price": ["1", "2", "x"]}
    endless = {"price": [1.0, math.inf, 2.0]}
    lists = {"tags": [["a"], [["b"]], []]}
    for make in (pd.DataFrame, pl.DataFrame, pa.table):
        with pytest.raises(InputError, match="field 'price' of row 0 is '1', expected a number"):
            features.transform(make(texts), [{}] * 3)
        with pytest.raises(NotFiniteError, match="field 'price' of row 1 is inf"):
            features.transform(make(endless), [{}] * 3)
    for make in (pd.DataFrame, lambda x: pl.DataFrame(x, strict=False)):
        table = (
            make({"tags": [["a"], 3, []]}) if make is pd.DataFrame else make({"tags": [1, 2, 3]})
        )
        with pytest.raises(InputError, match=r"field 'tags' of row . is ., expected a list"):
            features.transform(table, [{}] * 3)
    with pytest.raises(InputError, match=r"field 'tags' of row 1 is .*, expected a list of texts"):
        features.transform(pd.DataFrame(lists), [{}] * 3)
    with pytest.raises(InputError, match="two columns of the table have the same name"):
        features.transform(pd.DataFrame([[1.0, 2.0]], columns=["price", "price"]), [{}])
    with pytest.raises(NotFiniteError, match="field 'price' of row 1 is nan"):  # not missing there
        features.transform(pl.DataFrame({"price": [1.0, math.nan]}), [{}] * 2)
    with pytest.raises(ShapeError, match="1 situations and 2 arms"):
        features.transform([{}, {}], [{}])


BAD_MAPS: list[tuple[dict[str, Any], str]] = [
    ({"arm": {"_tag": Number()}}, "'_tag' of the arm: names that begin with an underscore"),
    ({"situation": {"_arm": Category(["a"])}}, "'_arm' of the situation: names that begin"),
    ({"arm": {"a": {"_b": Number()}}}, "'a._b' of the arm: names that begin with an underscore"),
    ({"arm": {"a × b": Number()}}, "'a × b' of the arm: 'intercept' and '×' are reserved"),
    ({"arm": {"intercept": Number()}}, "'intercept' of the arm: 'intercept' and '×' are reserved"),
    ({"arm": {"a=b": Number(), "a": Category(["b"])}}, "two features of the arm would be called"),
    ({"arm": {"": Number()}}, "a field of the arm is named '', expected a text"),
    ({"arm": {3: Number()}}, "a field of the arm is named 3, expected a text"),
    ({"arm": {"a": "number"}}, "field 'a' of the arm is 'number', expected Number"),
    ({"arm": {"a": Category()}}, "must be learned from a sample: give its values"),
    ({"arm": {"a": Number(standardize=True)}}, "must be learned from a sample"),
    ({"arm": {"a": Number(), "a.b": Number()}}, "'a' is declared both as a value and as an object"),
    ({"arm": {".".join("abcdefghi"): Number()}}, "is nested deeper than 8 levels"),
    ({"arm": {"_arm": Number()}}, "'_arm' is the name of the arm, expected a Category"),
    ({"arm": [Number()]}, "expected a mapping from name to kind"),
    ({"arm": {"a": Number()}, "cross": "some"}, "cross='some', expected 'all' or a list of pairs"),
    ({"arm": {"a": Number()}, "cross": [("s", "a")]}, "expected a field of the situation"),
    (
        {"arm": {"a": Category(size=400)}, "situation": {"s": Category(size=400)}},
        "have 160801 features, from 400 of the situation and 400 of the arm",
    ),
    (
        {
            "arm": {"a": Category(size=49_999)},
            "situation": {"s": Category(size=49_999)},
            "cross": [],
        },
        "than a table of their products can hold",
    ),
]


@pytest.mark.parametrize(("options", "message"), BAD_MAPS)
def test_declarations_that_cannot_be(options: dict[str, Any], message: str) -> None:
    """Reserved names, values that are no fields, and fields that are not fitted are rejected."""
    with pytest.raises(ParameterError, match=message):
        FeatureMap(**options)


def test_fields_that_cannot_be() -> None:
    """The options of a field are checked when it is made."""
    for make in (
        lambda: Category("abc"), lambda: Category([1, "1"]), lambda: Category([None]),
        lambda: Category(["a"], size=3), lambda: Category(size=0), lambda: Tags(3),  # type: ignore[arg-type, list-item]
        lambda: Number(scale=0.0), lambda: Number(center="x"),  # type: ignore[arg-type]
    ):  # fmt: skip
        with pytest.raises(InputError):
            make()


def test_a_field_given_twice(features: FeatureMap) -> None:
    """A field given as a name with a dot and as a nested object is ambiguous, and rejected."""
    twice = {"user.age": 3.0, "user": {"age": 4.0}}
    with pytest.raises(InputError, match=r"the situation: field 'user.age' is given twice"):
        features.contexts([{}], twice)


# -- files ------------------------------------------------------------------------------------------


def test_round_trips_are_exact(features: FeatureMap, tmp_path: Path) -> None:
    """Through JSON and a file: the same version, the same names, the same vectors to the bit."""
    extended = features.with_fields(arm={"more": Number(center=0.1, scale=1 / 3)})
    for one in (features, extended, HashedFeatures(37, cross=False, arm_names=True)):
        one.save(tmp_path / "map.json")
        for again in (from_json(one.to_json()), load(tmp_path / "map.json")):
            assert again == one
            assert hash(again) == hash(one)
            assert (again.version, again.names) == (one.version, one.names)
            assert again.to_json() == one.to_json()
            x = one.contexts(ROWS, SITUATION_ROWS[0])
            assert (again.contexts(ROWS, SITUATION_ROWS[0]) == x).all()
    assert features != extended


def test_versions_and_hashes_are_for_ever() -> None:
    """Versions and hashes are pinned, so that files of earlier releases stay valid."""
    one = FeatureMap({"s": Category(["ü", "b"])}, {"a": Number(center=0.1), "b": Tags(size=3)})
    assert one.version == "1c790067002fc8ee"
    hashed = HashedFeatures(16)
    x = hashed.contexts([{"a": 2.0, "b": ["x", "y"]}], {"s": "ü"})[0]
    assert hashed.version == "374f86af3d35ef56"
    assert x.tolist() == [
        1.0,
        0.0,
        0.0,
        3.0,
        2.0,
        0.0,
        0.0,
        0.0,
        0.0,
        -1.0,
        0.0,
        -1.0,
        0.0,
        0.0,
        0.0,
        0.0,
    ]
    assert Category(size=1000).column("drama") == 365


def test_maps_of_another_version_are_refused(features: FeatureMap, tmp_path: Path) -> None:
    """A text that is no map, damaged, or of a later format is rejected with the reason."""
    text = features.to_json()
    newer = text.replace('"rolin-features": 1', '"rolin-features": 2')
    changed = text.replace('"center": 12.0', '"center": 13.0')
    other = text.replace('"kind": "map"', '"kind": "cube"')
    odd = text.replace('"kind": "number"', '"kind": "wumber"', 1)
    more = text.replace('"kind": "number"', '"kind": "number", "unit": 3', 1)
    for given_, message in (
        (newer, "another format, expected 1"),
        (changed, "is damaged: it says version"),
        (other, "unknown kind 'cube'"),
        (odd, "not a feature map of rolin, or is damaged"),
        (more, "has no option 'unit'"),
        (text[:-9], "not a feature map of rolin, or is damaged"),
        ("{}", "is not a feature map of rolin"),
        ("[1]", "is not a feature map of rolin"),
    ):
        path = tmp_path / "map.json"
        path.write_text(given_, encoding="utf-8")
        with pytest.raises(StateFileError, match=message):
            load(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(StateFileError, match="is not a feature map"):
        load(path)


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


# -- more fields later ----------------------------------------------------------------------------------


def test_more_fields_come_behind() -> None:
    """Every feature keeps its column; the new ones are appended and crossed as requested."""
    features = FeatureMap({"s": Number()}, {"a": Number()})
    more = features.with_fields({"t": Number()}, {"b": Category(["x"])})
    assert more.names[: features.n_features] == features.names
    assert more.names[features.n_features :] == [
        "t", "b=x", "b is unseen", "s × b=x", "s × b is unseen", "t × a", "t × b=x", "t × b is unseen",
    ]  # fmt: skip
    assert more.extends(features)
    assert more.extends(more)
    assert not features.extends(more)
    row, situation = {"a": 3.0, "b": "x"}, {"s": 2.0, "t": 5.0}
    before, after = (m.contexts([row], situation)[0] for m in (features, more))
    assert (after[: features.n_features] == before).all()
    assert more.named(after)["t × b=x"] == 5.0
    few = features.with_fields(arm={"b": Number()}, cross=[])
    assert few.names[features.n_features :] == ["b"]
    late = features.with_fields(cross=[])
    assert late == features
    other = FeatureMap({"s": Number()}, {"a": Number(scale=2.0)})
    assert not other.with_fields(arm={"b": Number()}).extends(features)
    with pytest.raises(ParameterError, match="'a' is declared both as a value and as an object"):
        features.with_fields(arm={"a.b": Number()})
    with pytest.raises(ParameterError, match="the arm already has a field 'a'"):
        features.with_fields(arm={"a": Number()})


# -- hashed ---------------------------------------------------------------------------------------------


@given(row=ARMS, situation=SITUATIONS)
def test_hashed_features_are_the_sum_of_their_parts(
    row: dict[str, Any], situation: dict[str, Any]
) -> None:
    """The named parts add up to the vector, for any order of the fields."""
    features = HashedFeatures(8)
    x = features.contexts({"red": row}, situation)[0]
    total, size = np.zeros(8), 1.0
    for _, column, value in features.parts(row, situation, "red", x):
        total[column] += value
        size = max(size, abs(value))
    assert total == pytest.approx(x, abs=1e-13 * size)
    turned = dict(reversed(row.items()))
    assert (features.contexts({"red": turned}, dict(reversed(situation.items())))[0] == x).all()
    assert x[0] == 1.0


def test_hashed_signs_cancel() -> None:
    """Tokens that share a column have both signs, so that they cancel on average."""
    features = HashedFeatures(2, intercept=False, cross=False)
    x = features.contexts([{"word": f"w{i}"} for i in range(4000)])
    assert (np.abs(x).sum(axis=1) == 1.0).all()
    for total in (x.sum(), np.abs(x[:, 0]).sum() - 2000.0):  # signs, and columns
        assert abs(total) < 5 * math.sqrt(4000.0)


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


# -- scikit-learn ---------------------------------------------------------------------------------------


def test_transformers_of_scikit_learn() -> None:
    """Transformers fitted on a frame get a frame, those fitted on dicts get dicts; sparse results are accepted."""
    frame = pd.DataFrame(
        {"hour": [1.0, 2.0, 3.0], "price": [3.0, 4.0, 8.0], "kind": ["a", "b", "a"]}
    )
    columns = make_column_transformer(
        (StandardScaler(), ["hour", "price"]), (OneHotEncoder(handle_unknown="ignore"), ["kind"])
    ).fit(frame)
    features = SklearnFeatureMap(columns)
    arms = {"x": {"price": 3.0, "kind": "a"}, "y": {"price": 9.0, "kind": "new"}}
    x = features.contexts(arms, {"hour": 2.0})
    expected = frame.iloc[[0, 0]].assign(hour=2.0, price=[3.0, 9.0], kind=["a", "new"])
    assert (x == columns.transform(expected)).all()
    assert features.names[-2:] == ["onehotencoder__kind_a", "onehotencoder__kind_b"]
    dicts = SklearnFeatureMap(DictVectorizer().fit(frame.to_dict("records")))
    assert dicts.contexts(arms, {"hour": 2.0})[0].tolist() == [2.0, 1.0, 0.0, 3.0]
    piped = make_pipeline(columns, FunctionTransformer(np.tanh)).fit(frame)
    with pytest.raises(ParameterError, match="does not tell its number of features"):
        SklearnFeatureMap(piped)
    sized = SklearnFeatureMap(piped, n_features=4)
    assert (sized.contexts(arms, {"hour": 2.0}) == np.tanh(x)).all()
    with pytest.raises(ShapeError, match=r"returned shape \(2, 4\), expected \(2, 5\)"):
        SklearnFeatureMap(piped, n_features=5).contexts(arms, {"hour": 2.0})
    with pytest.raises(InputError, match="both have a field 'price'"):
        features.contexts(arms, {"price": 2.0})
    with pytest.raises(InputError, match="the transformer rejects the fields: ValueError"):
        features.contexts({"x": {"price": "?", "kind": "a"}}, {"hour": 2.0})
    with pytest.raises(ParameterError, match="expected a map or a transformer"):
        SklearnFeatureMap(3)


# -- recorded features ----------------------------------------------------------------------------------


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of rows of every call of `FeatureMap.encode`."""
    calls: list[int] = []
    encode = FeatureMap.encode

    def counted(self: FeatureMap, rows: Any, *rest: Any) -> Any:
        calls.append(len(rows))
        return encode(self, rows, *rest)

    monkeypatch.setattr(FeatureMap, "encode", counted)
    return calls


def test_a_record_is_encoded_once(features: FeatureMap, encoded: list[int]) -> None:
    """A record holds its contexts until they are released; one that was read from JSON holds none."""
    record = RecordedFeatures.record(features, list("abcd"), ROWS, SITUATION_ROWS[0])
    x = record.contexts()
    assert (record.context(2) == x[2]).all()
    assert (record.contexts_of([3, 1]) == x[[3, 1]]).all()
    assert features.named(x[1]) == {part.name: part.value for part in record.parts(1)}
    assert record.stored_vectors is None
    assert encoded == [4]
    read = RecordedFeatures(features, list("abcd"), record.to_json())
    assert read == record
    assert (read.context(2) == x[2]).all()
    assert (read.contexts() == x).all()
    assert read.parts(2, x[2]) == record.parts(2)
    assert encoded == [4, 1, 4]
    record.release([2])
    assert (record.context(2) == x[2]).all()
    assert (record.contexts_of([2]) == x[[2]]).all()
    with pytest.raises(ValueError, match="read-only"):
        record.context(2)[0] = 7.0
    assert encoded == [4, 1, 4]
    assert (record.contexts_of([0, 2]) == x[[0, 2]]).all()
    assert encoded == [4, 1, 4, 4]


def test_numpy_values_are_encoded_once(features: FeatureMap, encoded: list[int]) -> None:
    """Values that JSON does not have need no second encoding if their record means the same."""
    row = {"price": np.float32(2.5), "genre": np.str_("drama"), "live": np.bool_(True), "tags": ("x", "y")}  # fmt: skip
    odd = {"when": datetime(2026, 1, 1), "note": object(), "brand": Decimal("1.5"), "unused": {1.5}}
    record = RecordedFeatures.record(features, ["a"], [row | odd], {"hour": np.int64(3)})
    assert encoded == [1]
    plain = {"price": 2.5, "genre": "drama", "live": True, "tags": ["x", "y"], "brand": 1.5}
    assert (record.contexts() == features.contexts([plain], {"hour": 3})).all()
    assert record.rows[0]["when"] == {"_text": "2026-01-01 00:00:00"}


ODD_VALUES: list[Any] = [
    pd.NA, math.nan, Decimal("NaN"), Decimal("0.1"), Fraction(1, 3), np.int64(3), np.float32(0.1), np.bool_(True),
    np.longdouble("0.1"), np.array(3.0), np.array("x"), np.array([1, 2]), np.array(["x", None], dtype=object),
    np.datetime64("2020", "ns"), np.timedelta64(1, "s"), datetime(2026, 1, 1), b"x", object(), 10**400, 10**5000,
    {"x", 1}, ("x", pd.NA), {1: 2, "b": 3}, {"b": np.array(2)}, [["x"]], 1j, range(3), math.inf,
]  # fmt: skip


@pytest.mark.parametrize("value", ODD_VALUES, ids=range(len(ODD_VALUES)))
def test_contexts_are_those_of_the_record(value: Any, features: FeatureMap) -> None:
    """Whatever a value is: it is rejected, or the record gives the same contexts again, to the bit."""
    nested = FeatureMap(arm={"tags.b": Number(), "7": Number(), "genre": Ignored()})
    for each in (features, nested, HashedFeatures(64)):
        for name in ("price", "genre", "brand", "tags", "live", "unused"):
            try:
                record = RecordedFeatures.record(each, ["a"], [{name: value}], {})
            except InputError:
                continue
            again = RecordedFeatures(each, ["a"], record.to_json())
            assert (record.contexts() == again.contexts()).all()


# -- hostile input -------------------------------------------------------------------------------


class Rude:
    """An object whose methods raise errors."""

    def __repr__(self) -> str:
        """Raise."""
        raise RuntimeError("no")

    def __float__(self) -> float:
        """Raise."""
        raise RuntimeError("no")


def test_values_that_do_not_let_themselves_be_looked_at(features: FeatureMap) -> None:
    """Values that raise errors give an InputError in a used field, and no error in an unused one."""
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    for odd in (Rude(), deep, 10**5000, np.timedelta64(1, "s"), np.datetime64("2020", "ns")):
        for name in ("price", "genre", "brand", "tags", "live"):
            with pytest.raises(InputError, match=f"field '{name}' of arm 'red' is"):
                features.contexts({"red": {name: odd}, "blue": {}})
        features.contexts({"red": {"nobody": odd}})
    for make in (
        lambda: Category([10**5000]),
        lambda: Category([Rude()]),
        lambda: Category({"a", "b"}),
    ):
        with pytest.raises(ParameterError):
            make()
    with pytest.raises(InputError, match="row 0 of the sample, is a int, expected"):
        FeatureMap.infer([{"n": 10**5000}, {"n": 1.0}])


def test_a_long_text_in_a_number_takes_no_memory() -> None:
    """The text is rejected by its type, before NumPy makes an array of texts of that length."""
    features = FeatureMap(arm={"p": Number()})
    rows: dict[Any, dict[str, Any]] = {k: {"p": 1.0} for k in range(4000)}
    tracemalloc.start()
    with pytest.raises(InputError, match="field 'p' of arm 'x' is 'xxx"):
        features.contexts({**rows, "x": {"p": "x" * 1_000_000}})
    assert tracemalloc.get_traced_memory()[1] < 50e6
    tracemalloc.stop()


def test_products_of_the_largest_numbers() -> None:
    """The product of the two largest numbers is small enough to learn from."""
    features = FeatureMap({"s": Number()}, {"a": Number()})
    x = features.contexts([{"a": MAX_NUMBER}], {"s": MAX_NUMBER})
    assert np.abs(x).max() < 1e50
    with pytest.raises(
        InputError, match=r"field 'a' of arm 0 is 1e.25, expected a number that is at"
    ):
        features.contexts([{"a": 1e25}], {"s": 1.0})


def test_columns_that_python_does_not_have(features: FeatureMap) -> None:
    """A date in the year 300000 is an error only in a field that is used."""
    far = pa.array([2**62], pa.timestamp("s"))
    table = pa.table({"price": [1.0], "when": far})
    expected = features.contexts([{"price": 1.0}])
    assert (features.contexts(table) == expected).all()
    assert (features.contexts(pl.from_arrow(table)) == expected).all()  # type: ignore[arg-type]
    used = pa.table({"price": far})
    with pytest.raises(InputError, match="field 'price' of arm 0 is a value that Python cannot"):
        features.contexts(used)


def test_calls_that_make_no_sense(features: FeatureMap) -> None:
    """Calls with wrong arguments raise an InputError, not a Python error."""
    for call in (
        lambda: FeatureMap.infer(5), lambda: features.transform(5), lambda: features.transform(None, []),
        lambda: features.named("x"), lambda: features.contexts(5),
        lambda: FeatureMap({"a": Number()}, {"b": Number()}, cross=[(["a"], "b")]),  # type: ignore[list-item]
        lambda: SklearnFeatureMap(DictVectorizer(), n_features=10**30),
        lambda: SklearnFeatureMap(DictVectorizer(), n_features=2.5),  # type: ignore[arg-type]
    ):  # fmt: skip
        with pytest.raises(InputError):
            call()
    with pytest.raises(
        InputError, match=r"arm 0 is the text 'red', expected its fields.*give None and"
    ):
        features.contexts(["red", "blue"], {"hour": 3})
    cyclic: dict[str, Any] = {}
    cyclic["a"] = cyclic
    with pytest.raises(ParameterError, match="is nested deeper than 8 levels"):
        FeatureMap(arm=cyclic)
    names = features.names
    names.append("more")
    assert len(features.names) == features.n_features


class Counted(str):
    """A name that counts how often names are compared."""

    comparisons = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Counted.comparisons += 1
        return str.__eq__(self, other)


def test_many_fields_take_a_time_linear_in_their_number() -> None:
    """Names are looked up: each is compared a few times, not with every other."""
    for n in (500, 2000):
        Counted.comparisons = 0
        features = FeatureMap(arm={Counted(f"f{i}"): Number() for i in range(n)})
        features.with_fields(arm={Counted("more"): Number()})
        assert 0 < Counted.comparisons < 20 * n
