"""Arguments that no caller should pass, and the public calls to pass them to."""

from __future__ import annotations

import decimal
import enum
import fractions
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import rolin
from rolin import Bandit, Catalogue
from rolin.features import Boolean, Category, FeatureMap, Number, Tags


class Liar(str):
    """A text that lies about itself."""

    def __str__(self) -> str:
        return "x" * 10_000 + "\0"

    def __len__(self) -> int:
        return 3

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 1

    def __contains__(self, part: object) -> bool:
        return False

    def encode(self, *_: Any) -> bytes:
        """Return something else."""
        return b"fine"


class Color(enum.StrEnum):
    """A text with a label."""

    RED = "red"


def evil(error: type[Exception]) -> Any:
    """Return an object whose methods raise an error."""

    def fail(*_: object) -> Any:
        raise error("evil")

    names = ("eq", "hash", "float", "int", "index", "len", "iter", "bool", "array", "getitem")
    return type("Evil", (), {f"__{name}__": fail for name in names})()


class Number2(float):
    """A number whose value changes with every look."""

    def __float__(self) -> float:
        return math.nan


def cycle() -> list[Any]:
    """Return a list that holds itself."""
    found: list[Any] = []
    found.append(found)
    return found


HOSTILE: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "NaN": lambda: math.nan,
    "inf": lambda: -math.inf,
    "True": lambda: True,
    "-1": lambda: -1,
    "0": lambda: 0,
    "1.5": lambda: 1.5,
    "2**63": lambda: 2**63,
    "-2**63": lambda: -(2**63) - 1,
    "10**400": lambda: 10**400,
    "2**62": lambda: 2**62,
    "1e308": lambda: 1e308,
    "1e-320": lambda: 1e-320,
    "1j": lambda: 1j,
    "text": lambda: "text",
    "empty text": lambda: "",
    "NUL": lambda: "a\0b",
    "surrogate": lambda: "\ud800",
    "long text": lambda: "y" * 5000,
    "bytes": lambda: b"bytes",
    "bytearray": lambda: bytearray(b"xy"),
    "memoryview": lambda: memoryview(b"12345678"),
    "Liar": lambda: Liar("liar"),
    "Color": lambda: Color.RED,
    "Number2": lambda: Number2(1.0),
    "Decimal": lambda: decimal.Decimal("1.5"),
    "Decimal NaN": lambda: decimal.Decimal("sNaN"),
    "Fraction": lambda: fractions.Fraction(1, 3),
    "list": lambda: [],
    "tuple": lambda: (),
    "nested": lambda: [[[1.0]], [2.0, [3.0]]],
    "deep": lambda: [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1.0]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]],
    "cycle": cycle,
    "ragged": lambda: [[1.0, 2.0], [1.0]],
    "texts": lambda: ["a", "b"],
    "mixed": lambda: [1, "a", None],
    "doubles": lambda: ["a", "a"],
    "unhashable names": lambda: [[], {}],
    "bad texts": lambda: ["\ud800", "a\0b"],
    "liars": lambda: [Liar("a"), Liar("b")],
    "NaN names": lambda: [math.nan, math.nan],
    "set": lambda: {1.0, 2.0},
    "frozenset": lambda: frozenset({"a"}),
    "dict": lambda: {},
    "odd dict": lambda: {None: None, 1.5: [], "a": {}},
    "dict of lists": lambda: {"a": [1.0, math.nan], "b": [1.0]},
    "dict of texts": lambda: {"a": "x"},
    "range": lambda: range(2),
    "generator": lambda: (i for i in range(2)),
    "object": lambda: object(),
    "class": lambda: int,
    "function": lambda: len,
    "Ellipsis": lambda: ...,
    "slice": lambda: slice(None),
    "array of objects": lambda: np.array([object(), None], dtype=object),
    "array of lists": lambda: np.array([[1], [1, 2]], dtype=object),
    "array of texts": lambda: np.array(["a", "b"]),
    "array of bytes": lambda: np.array([b"a"]),
    "array of NaN": lambda: np.full((2, 2), math.nan),
    "array of inf": lambda: np.full(2, math.inf),
    "huge array": lambda: np.full((2, 2), 1e200),
    "0-d array": lambda: np.array(1.0),
    "0-d object": lambda: np.array(None),
    "empty array": lambda: np.empty((0, 2)),
    "3-d array": lambda: np.ones((2, 2, 2)),
    "5-d array": lambda: np.ones((1, 1, 1, 1, 2)),
    "wide array": lambda: np.ones((2, 3)),
    "complex array": lambda: np.ones((2, 2), dtype=complex),
    "bool array": lambda: np.ones((2, 2), dtype=bool),
    "int array": lambda: np.array([[2**62, 1], [1, 1]]),
    "uint array": lambda: np.array([2**63, 1], dtype=np.uint64),
    "float16 array": lambda: np.ones((2, 2), dtype=np.float16),
    "longdouble array": lambda: np.full((2, 2), np.finfo(np.longdouble).max),
    "datetime array": lambda: np.array(["2020-01-01", "NaT"], dtype="M8[s]"),
    "timedelta": lambda: np.timedelta64(5, "s"),
    "NaT": lambda: np.datetime64("NaT"),
    "structured": lambda: np.zeros(2, dtype=[("a", float), ("b", int)]),
    "record": lambda: np.zeros(1, dtype=[("a", float)])[0],
    "masked array": lambda: np.ma.array([[1.0, 2.0], [3.0, 4.0]], mask=[[0, 1], [0, 0]]),
    "read-only": lambda: np.broadcast_to(np.float64(1.0), (2, 2)),
    "negative strides": lambda: np.ones((4, 4))[::-2, ::-2],
    "big-endian": lambda: np.ones((2, 2), dtype=">f8"),
    "np.bool_": lambda: np.bool_(True),
    "np.str_": lambda: np.str_("name"),
    "np.void": lambda: np.void(b"abcd"),
    "frame": lambda: pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]}),
    "frame of texts": lambda: pd.DataFrame({"a": ["x", "y"]}, index=["q", "q"]),
    "series": lambda: pd.Series([1.0, None]),
    "pd.NA": lambda: pd.NA,
    "pd.NaT": lambda: pd.NaT,
    "evil ValueError": lambda: evil(ValueError),
    "evil TypeError": lambda: evil(TypeError),
    "evil RuntimeError": lambda: evil(RuntimeError),
    "list of evil": lambda: [evil(RuntimeError)] * 2,
    "dict of evil": lambda: {"a": evil(ValueError), "b": evil(RuntimeError)},
    "exception": lambda: ValueError("given"),
    "policy": lambda: rolin.RoLinTS(n_features=2, seed=0),
    "path": lambda: Path("/nowhere/at/all"),
}


EVIL = ("evil",)
"""The arguments of the errors that evil objects raise. These are the caller's own, so they may come out."""
X = np.array([[1.0, 0.2], [0.3, 0.9]])
CALLS: dict[str, dict[str, dict[str, Any]]] = {
    "policy": {
        "decide": {"contexts": X, "arms": ["a", "b"], "top_k": 1, "exclude": ["b"], "key": 3},
        "decide_many": {"contexts": X[None], "arms": ["a", "b"], "top_k": 1, "exclude": ()},
        "update": {"arm": "a", "context": X[0], "reward": 1.0, "weight": 1.0},
        "update_many": {"arms": ["a", "b"], "contexts": X, "rewards": [1.0, 0.0], "weights": [1.0, 1.0]},
        "predict": {"contexts": X, "arms": ["a", "b"]},
        "probabilities": {"contexts": X, "arms": ["a", "b"]},
        "remove_arm": {"arm": "c"},
        "restore_arm": {"arm": "d", "with_past": True},
        "decay": {"factor": 0.9},
        "change_feature_map": {"feature_map": None},
        "diagnose": {"feature_names": ["u", "v"], "contexts": [X, X], "arms": ["a", "b"]},
    },
    "bandit": {
        "decide": {"contexts": X, "arms": ["a", "b"], "situation": None, "id": "i", "person": "p", "top_k": 1, "exclude": ["b"], "active": True},
        "decide_many": {"contexts": [X, X], "arms": ["a", "b"], "situations": None, "ids": ["i", "j"], "people": ["p", None], "top_k": 1, "exclude": (), "active": False},
        "reward": {"id": "known", "value": 1.0, "arm": None, "weight": 1.0, "reward_id": "r"},
        "activate": {"id": "known"},
        "reward_many": {"rewards": {"known": 1.0}},
        "expire": {"after": 1e6, "default_reward": 1.0},
        "remove_arm": {"arm": "c"},
        "restore_arm": {"arm": "d", "with_past": True},
        "decay": {"factor": 0.9},
        "change_settings": {"floor": 0.0, "control_share": 0.0, "propensities": True, "exploration": 1.0, "mode": "online"},
        "change_feature_map": {"feature_map": None},
        "erase": {"ids": ["nobody"]},
        "waiting": {"limit": 10},
        "predict": {"contexts": X, "arms": ["a", "b"], "situation": None},
        "explain": {"decision": "known", "arm": None, "against": None, "as_of": "now"},
        "diagnose": {"feature_names": ["u", "v"], "contexts": [X, X], "arms": ["a", "b"]},
    },
    "catalogue": {
        "decide": {"arms": ["a", "b"], "situation": None, "top_k": 1, "exclude": ["b"], "key": 3},
        "decide_many": {"number": 2, "situations": None, "top_k": 1, "exclude": ()},
        "predict": {"arms": ["a", "b"], "situation": None},
        "probabilities": {"situation": None, "draws": 3},
        "contexts": {"arms": ["a"], "situation": None},
        "add": {"contexts": X[:1], "arms": ["z"]},
        "remove": {"arms": ["c"]},
    },
    "feature map": {
        "contexts": {"arms": {"a": {"price": 1.0}}, "situation": {"device": "phone"}},
        "transform": {"arms": [{"price": 1.0}], "situations": [{"device": "phone"}]},
        "named": {"context": np.ones(11)},
        "with_fields": {"situation": {"more": Number()}, "arm": None},
        "extends": {"other": None},
        "arm_vectors": {"arms": [{"price": 1.0}]},
    },
    "rolin": {
        "RoLinTS": {"n_features": 2, "noise_std": 1.0, "arm_std": 1.0, "coef_std": [1.0, 2.0], "coef_mean": 0.0, "intercept_std": 1.0, "intercept_mean": 0.0, "learn_by": "map", "half_life": 5.0, "sampling": "joint", "exploration": 1.0, "seed": 0},
        "RoLinUCB": {"n_features": 2, "width": 1.0, "seed": 0},
        "BayesRoLinTS": {"n_features": 2, "noise_std": 1.0, "arm_std": 1.0, "coef_std": 1.0, "seed": 0},
        "LogisticRoLinTS": {"n_features": 2, "arm_std": 1.0, "coef_std": 1.0, "seed": 0},
        "HLinUCB": {"n_features": 2, "seed": 0},
        "SafeFALCON": {"n_features": 2, "seed": 0},
        "Scales": {"noise_std": 1.0, "arm_std": 1.0, "coef_std": 1.0, "coef_mean": 0.0, "intercept_std": 1.0, "intercept_mean": 0.0},
        "Bandit": {"policy": rolin.RoLinTS(n_features=2, seed=0), "floor": 0.1, "control_share": 0.1, "propensities": True, "snapshot_every": 5},
        "Catalogue": {"policy": rolin.RoLinTS(n_features=2, seed=0), "contexts": X, "arms": ["a", "b"], "feature_map": None},
        "FeatureMap": {"situation": {"a": Number()}, "arm": {"b": Number()}, "cross": "all", "intercept": True, "strict": False},
    },
    "fields": {
        "Number": {"center": 0.0, "scale": 1.0, "missing": True, "standardize": False},
        "Category": {"values": ["a", "b"], "missing": True},
        "Tags": {"values": ["a", "b"], "missing": True},
        "Boolean": {"missing": True},
    },
    "map bandit": {
        "decide": {"contexts": {"a": {"price": 1.0}, "b": {"price": 2.0, "tags": ["x"]}}, "situation": {"device": "phone", "new": True}, "id": "i", "person": "p"},
        "predict": {"contexts": {"a": {"price": 1.0}}, "situation": {"device": "phone"}},
    },
}  # fmt: skip


def feature_map() -> FeatureMap:
    """Return a small map with every kind of field."""
    return FeatureMap(
        {"device": Category(["phone", "desktop"]), "new": Boolean()},
        {"price": Number(scale=10.0), "tags": Tags(size=2)},
        cross=[("device", "price")],
    )


def targets() -> dict[str, Any]:
    """Return what the calls are made on, each with arms a to d, of which d is removed."""
    made: dict[str, Any] = {}
    policy = made["policy"] = rolin.RoLinTS(n_features=2, seed=0)
    for arm in "abcd":
        policy.update(arm, X[0], 1.0)
    policy.remove_arm("d")
    bandit = made["bandit"] = Bandit(rolin.RoLinTS(n_features=2, seed=0), clock=lambda: 1e9)
    for arm in "abcd":
        bandit.reward(bandit.decide(X[:1], [arm], id=f"past {arm}").id, 1.0)
    bandit.remove_arm("d")
    bandit.decide(X, ["a", "b"], id="known")
    own = rolin.RoLinTS(n_features=2, seed=0)
    own.update("a", X[0], 1.0)
    made["catalogue"] = Catalogue(own, np.arange(8.0).reshape(4, 2), ["a", "b", "c", "e"])
    made["rolin"], made["fields"] = rolin, rolin.features
    features = made["feature map"] = feature_map()
    made["map bandit"] = Bandit(
        rolin.RoLinTS(n_features=features.n_features, seed=0),
        feature_map=features,
        clock=lambda: 1e9,
    )
    return made


def state_of(target: Any) -> Any:
    """Return all that a call could change, in a form that can be compared."""
    if isinstance(target, Bandit):
        policy, journal = target.policy, target.journal
        events = [repr(event) for event in journal.read()]
        return (
            state_of(policy),
            journal.header(),
            events,
            target.waiting(),
            target._decider._ids._next,
        )
    if isinstance(target, Catalogue):
        return state_of(target.policy), [name in target for name in "abcez"], len(target)
    if isinstance(target, rolin.Policy):
        state = target.state()
        arrays = {name: np.array(array).tobytes() for name, array in state.arrays.items()}
        return repr((state.names, state.removed, state.settings)), state.decisions, arrays
    return target.to_json() if isinstance(target, FeatureMap) else None
