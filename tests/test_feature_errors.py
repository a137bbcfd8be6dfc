"""Bad features and declarations: errors name field and arm, and hostile values do no harm."""

from __future__ import annotations

import math
import tracemalloc
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.feature_extraction import DictVectorizer

from rolin.errors import InputError, NotFiniteError, ParameterError, ShapeError
from rolin.features import Category, FeatureMap, Number, SklearnFeatureMap, Tags
from rolin.features.fields import MAX_NUMBER

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
        InputError, match=r"arm 0 is the text 'red', expected its fields.*pass contexts=None and"
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
