"""Feature maps: vectors are what their names say, in files, hashed, from scikit-learn and from a record."""

from __future__ import annotations

import math
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.compose import make_column_transformer
from sklearn.feature_extraction import DictVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from rolin.errors import InputError, ParameterError, ShapeError, StateFileError
from rolin.features import (
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
from support.feature_maps import ARM, ARMS, ROWS, SITUATION, SITUATION_ROWS, SITUATIONS, oracle

# -- vectors ---------------------------------------------------------------------------------


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
    assert Category(size=1000).feature_index("drama") == 365


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
