"""A feature map with every kind of field, rows for it, and its vectors by definition."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
from hypothesis import strategies as st

from rolin.features import Boolean, Category, FeatureMap, Ignored, Number, Tags

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
                    columns[f"{name}#{field.feature_index(text)}"] = 1.0
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
