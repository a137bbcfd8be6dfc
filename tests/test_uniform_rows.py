"""Rows with the same fields are read column by column: the same JSON and the same vectors as row by row."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rolin import FeatureMap
from rolin.errors import InputError
from rolin.features import (
    BaseFeatureMap,
    Boolean,
    Category,
    HashedFeatures,
    Number,
    RecordedFeatures,
)
from rolin.features.uniform_rows import UniformRows
from support.feature_maps import TEXTS

MAP = FeatureMap(
    {"hour": Number(center=12.0, scale=6.0), "device": Category(["phone", "desktop"])},
    {
        "price": Number(center=0.5, scale=0.3),
        "genre": Category(["drama", "comedy", 18]),
        "live": Boolean(),
        "brand": Category(size=5),
        "user.age": Number(scale=40.0, missing=True),
        "_arm": Category(["arm 0", "arm 2"]),
    },
)
MAPS = [
    MAP,
    FeatureMap(arm={"price": Number(), "live": Boolean()}, intercept=False),
    HashedFeatures(32),
]

NUMBERS = st.floats(-1e6, 1e6) | st.integers(-(10**6), 10**6)
COLUMNS = {
    "price": [
        st.floats(-1e6, 1e6),
        st.integers(-5, 5),
        NUMBERS,
        st.none() | NUMBERS,
        st.booleans(),
    ],
    "genre": [TEXTS, TEXTS | st.integers(0, 20), st.none() | TEXTS, st.integers(17, 19)],
    "live": [st.booleans(), st.none() | st.booleans(), st.integers(0, 1)],
    "brand": [TEXTS, st.text(min_size=257, max_size=258), st.floats(-1e6, 1e6)],
    "user.age": [NUMBERS, st.none()],
    "_note": [TEXTS, st.just(math.nan), st.just(10**400)],
    "other": [NUMBERS, TEXTS, st.booleans(), st.none(), st.none() | TEXTS],
}


@st.composite
def uniform_rows(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Rows that have the same fields in the same order."""
    names = draw(st.lists(st.sampled_from(list(COLUMNS)), min_size=1, unique=True))
    values = st.tuples(*(draw(st.sampled_from(COLUMNS[name])) for name in names))
    each = draw(st.lists(values, min_size=1, max_size=6))
    return [dict(zip(names, row, strict=True)) for row in each]


def dumps(value: Any) -> str:
    """Return the JSON that a record has always had."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


# -- JSON ----------------------------------------------------------------------------------------------


def edges() -> list[float]:
    """Floats where the number of digits or the form of the text changes, and their neighbors."""
    found = [2.0**e for e in range(-1074, 1024)] + [float(f"1e{e}") for e in range(-323, 309)]
    found += [
        float(f"{m}e{e}") for m in (2.5, 5.0, 9.0, 9.999999999999999) for e in range(-323, 308)
    ]
    found += [0.0, 9007199254740993.0, 123456789012345680.0, 2.2250738585072014e-308, 5e-324]
    found += [n / 100 for n in range(-1000, 1000)] + [float(n) for n in range(-1000, 1000)]
    near = [np.nextafter(found, end) for end in (-math.inf, math.inf)]
    return [
        x for x in np.concatenate([found, np.negative(found), *near]).tolist() if math.isfinite(x)
    ]


@pytest.mark.parametrize(
    "kind", ["edges", "bits", "subnormal", "units", "wide", "whole", "decimals"]
)
def test_floats_are_written_as_python_writes_them(kind: str, seed: int) -> None:
    """The shortest decimal that is read back as the same float, in the form of `repr`."""
    rng = np.random.default_rng(seed)
    n = 20_000
    numbers = {
        "edges": edges,
        "bits": lambda: rng.integers(0, 2**64, n, dtype=np.uint64).view(np.float64),
        "subnormal": lambda: rng.integers(0, 2**52, n, dtype=np.uint64).view(np.float64),
        "units": lambda: rng.random(n),
        "wide": lambda: rng.normal(size=n) * 10.0 ** rng.integers(-30, 30, n),
        "whole": lambda: np.round(rng.normal(size=n) * 2.0 ** rng.integers(0, 80, n)),
        "decimals": lambda: (
            np.round(rng.normal(size=n) * 10.0 ** rng.integers(0, 18, n))
            / 10.0 ** rng.integers(1, 6, n)
        ),
    }[kind]()
    found = np.asarray(numbers, dtype=np.float64)
    rows = [{"x": x} for x in found[np.isfinite(found)].tolist()]
    uniform = UniformRows.of(rows)
    assert uniform is not None
    assert uniform.to_json() == dumps(rows)


@given(uniform_rows())
@example([{"a": "\n"}, {"a": "\\n"}])
@example([{"ä\n": "\ud800", "b": '"'}])
@example([{"a": -0.0, "b": 10**30}])
@example([{"a": 2**53 - 1, "b": "x"}, {"a": -(2**53) + 1, "b": "y"}])
@example([{"a": 2**53 + 1}])
@example([{"a": "x\ty"}])
@example([{"a": "x\x7fy", "b": True}, {"a": "", "b": False}])
def test_json_is_that_of_the_standard_library(rows: list[dict[str, Any]]) -> None:
    """Character by character, because journals hold digests of it; `None` where it is left to the standard library."""
    uniform = UniformRows.of(rows)
    assert uniform is not None
    assert len(uniform) == len(rows)
    assert repr(list(uniform)) == repr(rows)
    assert repr(uniform[-1:]) == repr(rows[-1:])
    if any(isinstance(x, float) and math.isnan(x) for row in rows for x in row.values()):
        assert uniform.to_json() is None
    else:
        assert uniform.to_json() in (dumps(rows), None)
        if uniform.to_json() is None:
            assert any(_is_odd(x) for row in rows for x in row.values())


def _is_odd(value: object) -> bool:
    """Return whether the compiled loop may leave rows with this value to the standard library."""
    if isinstance(value, str):
        return any(character < " " or character == "\x7f" for character in value)
    return isinstance(value, int) and abs(value) >= 2**53


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [{}],
        [{"a": 1, "b": 2}, {"b": 2, "a": 1}],
        [{"a": 1}, {"a": 1, "b": 2}],
        [{"a": 1, "b": 2}, {"a": 1}],
        [{"a": 1}, {}],
        [{1: 1}],
        [{"a": [1]}],
        [{"a": 1}, {"a": {"b": 1}}],
        [{"a": np.float64(1.0)}],
        [{"a": b"x"}],
    ],
)
def test_other_rows_are_read_one_by_one(rows: list[Any]) -> None:
    """Rows with other fields, another order, keys that are no texts, or values that JSON does not have."""
    assert UniformRows.of(rows) is None


# -- vectors -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("features", MAPS, ids=["all", "numbers", "hashed"])
@given(rows=uniform_rows())
def test_vectors_are_those_of_single_rows(
    features: BaseFeatureMap, rows: list[dict[str, Any]]
) -> None:
    """To the bit; and the same values are rejected."""
    names, situation = [f"arm {k}" for k in range(len(rows))], {"hour": 3, "device": "tv"}
    # An empty list adds nothing to a vector, but such rows are not uniform.
    single = [{**row, "unused": []} for row in rows]
    outcomes: list[Any] = []
    uniform = UniformRows.of(rows)
    assert uniform is not None
    for each in (single, rows, uniform):
        try:
            outcomes.append(features.encode(each, situation, names).tobytes())
        except InputError as error:
            outcomes.append(str(error))
    expected, *others = outcomes
    assert others == [expected] * 2
    found = expected
    if isinstance(found, str):
        return
    record = RecordedFeatures.record(features, names, rows, situation)
    assert record.contexts().tobytes() == expected
    again = RecordedFeatures(features, names, record.to_json())
    assert again.contexts().tobytes() == expected


def test_a_record_does_not_change_with_the_rows() -> None:
    """The values are read once."""
    rows, situation = [{"price": 1.0, "live": True}, {"price": 2.0, "live": False}], {"hour": 3}
    record = RecordedFeatures.record(MAP, ["a", "b"], rows, situation)
    text, x = record.to_json(), record.contexts().copy()
    rows[0]["price"], situation["hour"] = 7.0, 4
    assert record.to_json() == text == dumps({"situation": {"hour": 3}, "arms": [{"price": 1.0, "live": True}, {"price": 2.0, "live": False}]})  # fmt: skip
    assert (record.contexts() == x).all()
