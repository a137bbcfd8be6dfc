"""Catalogues whose features come from files or from feature maps with situations, and what is rejected."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rolin
from rolin.errors import (
    ArmError,
    DataError,
    InputError,
    NotFiniteError,
    ParameterError,
    ShapeError,
    Unsupported,
)
from rolin.features import Category, Number
from support.catalogues import SCALES, D, array, crossed_map, fields

# -- where features come from ----------------------------------------------------------------------


def test_a_file_on_the_disk_is_not_read_into_memory(
    rng: np.random.Generator, tmp_path: Path
) -> None:
    """A memory-mapped array stays one, and is not written to."""
    x = array(rng).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    policy, other = (rolin.RoLinUCB(n_features=D, seed=0, **SCALES) for _ in range(2))
    catalogue = rolin.Catalogue(policy, mapped)
    assert np.shares_memory(catalogue._store._first, mapped)
    assert catalogue.decide().arm == rolin.Catalogue(other, x).decide().arm
    catalogue.add(rng.normal(size=(2, D)), ["new", "newer"])
    catalogue.decide()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_catalogues_are_read_from_files(
    dtype: str, rng: np.random.Generator, tmp_path: Path
) -> None:
    """Parquet in several files, columns or lists; what is wrong is named."""
    x = array(rng)
    names = [f"item-{i}" for i in range(300)]
    flat = pa.FixedSizeListArray.from_arrays(pa.array(x.ravel()), D)
    columns = pa.table({"arm": names, **{f"x{j}": x[:, j] for j in range(D)}})
    lists = pa.table({"id": names, "embedding": flat, "price": x[:, 0]})
    for i in range(3):
        part = slice(100 * i, 100)
        for folder, table in (("a", columns), ("b", lists)):
            (tmp_path / folder).mkdir(exist_ok=True)
            pq.write_table(table.slice(part.start, 100), tmp_path / folder / f"{i}.parquet")
    policy = rolin.RoLinTS(n_features=D, seed=0)
    a = rolin.Catalogue.read(policy, tmp_path / "a", dtype=dtype)
    b = rolin.Catalogue.read(policy, tmp_path / "b", arm="id", features="embedding", dtype=dtype)
    for catalogue in (a, b):
        found = catalogue.contexts(names)
        np.testing.assert_array_equal(found, x.astype(dtype))
    with pytest.raises(DataError, match=r"0.parquet: there is no column 'name'"):
        rolin.Catalogue.read(policy, tmp_path / "a", arm="name")
    with pytest.raises(ShapeError, match=r"contexts has shape \(300, 4\), expected \(K, 5\)"):
        rolin.Catalogue.read(policy, tmp_path / "a", features=["x0", "x1", "x2", "x3"])
    with pytest.raises(ParameterError, match="dtype='int8'"):
        rolin.Catalogue.read(policy, tmp_path / "a", dtype="int8")
    spoilt = columns.slice(0, 3).set_column(2, "x1", pa.array([1.0, None, 2.0]))
    pq.write_table(spoilt, tmp_path / "a" / "3.parquet")
    with pytest.raises(DataError, match=r"3.parquet, row group 0, row 1: column 'x1' is null"):
        rolin.Catalogue.read(policy, tmp_path / "a")


# -- situations ------------------------------------------------------------------------------------


@pytest.mark.parametrize("intercept", [None, 2.0])
@pytest.mark.parametrize("rule", ["joint", "greedy"])
def test_situations_become_coefficients_of_arms(
    rule: str, intercept: float | None, rng: np.random.Generator
) -> None:
    """Coefficients times the situation, then one product: the decisions over whole contexts."""
    features = crossed_map()

    def make() -> Any:
        options = {"n_features": features.n_features, "intercept_std": intercept, "seed": 5}
        policy: Any = (
            rolin.RoLinTS(sampling="joint", **options)
            if rule == "joint"
            else rolin.Greedy(**options)
        )
        policy.change_feature_map(features)
        return policy

    ours, theirs = make(), make()
    arms = [f"a{i}" for i in range(60)]
    rows = fields(rng, 60)
    catalogue = rolin.Catalogue(ours, rows, arms)
    for t in range(80):
        situation = {"device": ["phone", "desktop", "tv"][t % 3], "hour": float(rng.integers(24))}
        x = features.contexts(dict(zip(arms, rows, strict=True)), situation)
        a, b = catalogue.decide(situation=situation, top_k=3), theirs.decide(x, arms, top_k=3)
        assert a.ranking == b.ranking
        np.testing.assert_allclose(a.contexts, b.contexts, rtol=1e-15)
        reward = float(rng.normal())
        for policy in (ours, theirs):
            policy.update(b.arm, b.context, reward)
    situations = [{"device": "phone", "hour": h} for h in range(11)]
    many = catalogue.decide_many(situations=situations)
    for situation, decision in zip(situations, many, strict=True):
        x = features.contexts(dict(zip(arms, rows, strict=True)), situation)
        assert decision.arm == theirs.decide(x, arms).arm
    catalogue.add(fields(rng, 2), ["late", "later"])
    catalogue.remove(["a0"])
    assert catalogue.decide(["late", "a1"], situation=situations[0]).arm in ("late", "a1")
    np.testing.assert_allclose(
        catalogue.predict(["a1"], situations[1]),
        ours.predict(features.contexts({"a1": rows[1]}, situations[1]), ["a1"]),
    )


def test_arms_that_are_encoded_already(rng: np.random.Generator) -> None:
    """Their vectors give the decisions that their fields give; in single precision nearly the same scores."""
    features = crossed_map()
    arms = [f"arm-{i}" for i in range(60)]
    rows = fields(rng, 60)
    vectors = features.arm_vectors(rows, names=arms)
    assert vectors.shape == (60, features.n_arm_features)
    policy = rolin.RoLinTS(n_features=features.n_features, sampling="joint", seed=3)
    options: dict[str, Any] = {"feature_map": features}
    one = rolin.Catalogue(policy, rows[:50], arms[:50], **options)
    two = rolin.Catalogue(policy, vectors[:50], arms[:50], arm_vectors=True, **options)
    small = rolin.Catalogue(policy, vectors.astype(np.float32), arms, arm_vectors=True, **options)
    one.add(rows[50:], arms[50:])
    two.add(vectors[50:], arms[50:])
    for t in range(30):
        situation = {"device": ["phone", "desktop"][t % 2], "hour": float(t % 24)}
        decision = one.decide(situation=situation, top_k=5, key=t)
        other = two.decide(situation=situation, top_k=5, key=t)
        assert (
            decision.ranking
            == other.ranking
            == small.decide(situation=situation, top_k=5, key=t).ranking
        )
        np.testing.assert_array_equal(decision.context, other.context)
        policy.update(decision.arm, decision.context, float(rng.normal()))
    with pytest.raises(ShapeError, match="expected \\(K, "):
        rolin.Catalogue(policy, vectors[:, 1:], arms, arm_vectors=True, **options)
    with pytest.raises(ParameterError, match="expected a FeatureMap with fields of the situation"):
        rolin.Catalogue(rolin.RoLinTS(n_features=2, seed=0), np.eye(2), arm_vectors=True)


def test_another_way_to_draw_from_the_same_posterior(rng: np.random.Generator) -> None:
    """Both policies learn from what one of them is told, and each draws in its own way."""
    policy = rolin.RoLinTS(n_features=2, seed=3)
    joint = policy.with_sampling("joint")
    assert (policy.sampling, joint.sampling, joint.rule) == ("marginal", "joint", "joint")
    fresh = rolin.RoLinTS(n_features=2, sampling="joint", seed=3)
    x = rng.normal(size=(4, 2))
    for i in range(40):
        for each in (policy, fresh):
            each.update(i % 4, x[i % 4], float(i % 3))
        assert joint.decide(x, key=i).arm == fresh.decide(x, key=i).arm
    assert joint.posterior is policy.posterior
    with pytest.raises(ParameterError, match="sampling='both'"):
        policy.with_sampling("both")  # type: ignore[arg-type]


@given(seed=st.integers(0, 2**32 - 1))
def test_both_sides_of_a_map_make_the_context(seed: int) -> None:
    """`arm_coefficients` and `context_of` against `contexts`, which knows nothing of them."""
    rng = np.random.default_rng(seed)
    features, rows = crossed_map(), fields(rng, 4)
    situation = {"device": "phone", "hour": float(rng.normal())}
    names = ["a0", "a1", "a2", "a3"]
    x = features.contexts(dict(zip(names, rows, strict=True)), situation)
    apart = features.arm_vectors(rows, names=names)
    coef = rng.normal(size=features.n_features)
    worth = features.arm_coefficients(coef, situation)
    np.testing.assert_allclose(worth[0] + apart @ worth[1:], x @ coef, atol=1e-12)
    np.testing.assert_array_equal(features.contexts_of(apart, situation), x)


def test_a_catalogue_does_not_outlive_the_features(rng: np.random.Generator) -> None:
    """When the policy has got more of them, it says so rather than decide with too few."""
    features = rolin.FeatureMap(arm={"price": Number()})
    for sampling in ("marginal", "joint"):
        policy = rolin.RoLinTS(n_features=2, sampling=sampling, seed=0, **SCALES)  # type: ignore[arg-type]
        catalogue = rolin.Catalogue(policy, [{"price": 1.0}, {"price": 2.0}], feature_map=features)
        policy.change_feature_map(features)
        catalogue.decide()
        policy.change_feature_map(features.with_fields(arm={"age": Number()}))
        for call in (
            catalogue.decide,
            lambda: catalogue.decide([0, 1]),  # noqa: B023
            lambda: catalogue.add([{"price": 3.0}], ["c"]),  # noqa: B023
            lambda: catalogue.probabilities(draws=10),  # noqa: B023
        ):
            with pytest.raises(
                ParameterError, match=r"has 3 now.* made for 2 .*Make a new catalogue"
            ):
                call()


def test_fields_are_read_from_files(rng: np.random.Generator, tmp_path: Path) -> None:
    """With the policy's map: columns by the names of its fields."""
    features = rolin.FeatureMap(
        situation={"hour": Number()}, arm={"price": Number(), "_arm": Category(["a", "b"])}
    )
    policy = rolin.RoLinTS(n_features=features.n_features, sampling="joint", seed=0)
    policy.change_feature_map(features)
    table = pa.table({"note": ["x", "y"], "price": [1.0, 2.0], "arm": ["a", "b"]})
    pq.write_table(table, tmp_path / "items.parquet")
    catalogue = rolin.Catalogue.read(policy, tmp_path / "items.parquet")
    expected = features.contexts({"a": {"price": 1.0}, "b": {"price": 2.0}}, {"hour": 3.0})
    np.testing.assert_array_equal(catalogue.contexts(["a", "b"], {"hour": 3.0}), expected)
    pq.write_table(table.drop_columns(["price"]), tmp_path / "items.parquet")
    with pytest.raises(
        DataError, match=r"items.parquet: there is no column 'price', which the feature map needs"
    ):
        rolin.Catalogue.read(policy, tmp_path / "items.parquet")


def test_maps_without_situations_are_plain_catalogues(rng: np.random.Generator) -> None:
    """From a table of fields, with any rule."""
    features = rolin.FeatureMap(arm={"price": Number(), "colour": Category(["red", "blue"])})
    policy = rolin.RoLinUCB(
        n_features=features.n_features,
        coef_std=1.0,
        arm_std=0.5,
        noise_std=1.0,
        intercept_std=None,
        seed=0,
    )
    rows = [{k: r[k] for k in ("price", "colour")} for r in fields(rng, 20)]
    catalogue = rolin.Catalogue(policy, pd.DataFrame(rows), feature_map=features)
    x = features.transform(rows)
    np.testing.assert_array_equal(catalogue.contexts(range(20)), x)
    assert catalogue.decide().arm == policy.decide(x).arm
    with pytest.raises(InputError, match="a situation was given"):
        catalogue.decide(situation={"hour": 1})


# -- bad input -------------------------------------------------------------------------------------


def test_what_does_not_fit_is_refused(rng: np.random.Generator) -> None:
    """Other dimensions, other maps, other policies: what was given, what was expected."""
    policy = rolin.RoLinTS(
        n_features=D, coef_std=1.0, arm_std=0.5, noise_std=1.0, intercept_std=None, seed=0
    )
    x = array(rng, 4)
    cases: list[tuple[Callable[[], object], type[Exception], str]] = [
        (lambda: rolin.Catalogue(policy, x[:, :3]), ShapeError, r"shape \(4, 3\), expected \(K, 5\)"),
        (lambda: rolin.Catalogue(policy, x, ["a"]), ShapeError, "arms has 1 names, expected 4"),
        (lambda: rolin.Catalogue(policy, x, ["a", "b", "a", "c"]), ArmError, "'a' is given twice"),
        (lambda: rolin.Catalogue(policy, x[:0]), ArmError, "no arms were given"),
        (lambda: rolin.Catalogue(policy, np.where(x > 1e9, 0, np.nan)), NotFiniteError, "arm 0: feature 0 is nan"),
        (lambda: rolin.Catalogue(rolin.SafeFALCON(n_features=D, n_arms=4), x), Unsupported, "SafeFALCON cannot choose"),
        (lambda: rolin.Catalogue(rolin.BayesRoLinTS(n_features=D), x), Unsupported, "BayesRoLinTS cannot choose"),
        (lambda: rolin.Catalogue(rolin.Uniform(n_features=D), x), Unsupported, "Uniform cannot choose"),
        (lambda: rolin.Catalogue(policy, np.ma.masked_array(x, x > 0)), InputError, "masked"),
        (lambda: rolin.Catalogue(policy, x, np.ones((2, 2), int)), ShapeError, r"arms has shape \(2, 2\)"),
        (lambda: copy.deepcopy(rolin.Catalogue(policy, x)), TypeError, "cannot be copied or pickled"),
        (lambda: rolin.Catalogue(policy, 1e200 * x).decide(), NotFiniteError, "arm . cannot be scored: its features or the learned"),
        (lambda: rolin.Catalogue(policy, [{"price": 1.0}]), InputError, "the policy has no feature map"),
        (lambda: rolin.Catalogue(policy, x, feature_map=crossed_map()), ParameterError, "feature_map has 55 features, expected 5"),
        (lambda: rolin.Catalogue(policy, x, feature_map="map"), ParameterError, "expected a feature map"),  # type: ignore[arg-type]
    ]  # fmt: skip
    features = crossed_map()
    mapped = rolin.RoLinTS(n_features=features.n_features, sampling="joint", seed=0)
    mapped.change_feature_map(features)
    other = rolin.FeatureMap(arm={"price": Number()})
    marginal = rolin.RoLinTS(n_features=features.n_features, seed=0)
    rows, names = fields(rng, 3), ["a0", "a1", "a2"]
    cases += [
        (lambda: rolin.Catalogue(mapped, rows, names, feature_map=other), ParameterError, "expected that of the policy"),
        (lambda: rolin.Catalogue(marginal, rows, names, feature_map=features), Unsupported, "sampling='joint'"),
        (lambda: rolin.Catalogue(mapped, rows), InputError, "expected names, those of the arms"),
    ]  # fmt: skip
    catalogue = rolin.Catalogue(policy, x)
    cases += [
        (lambda: catalogue.decide(top_k=5), ParameterError, "top_k=5, expected at most 4"),
        (lambda: catalogue.decide(top_k=4, exclude=[1]), ParameterError, "expected at most 3"),
        (lambda: catalogue.decide(exclude=range(4)), ArmError, "all arms are excluded"),
        (lambda: catalogue.decide(situation={"a": 1}), InputError, "a situation was given"),
        (lambda: catalogue.decide(key=-1), ParameterError, "key=-1"),
        (lambda: catalogue.decide_many(), ParameterError, "expected either number, the number of decisions"),
        (lambda: catalogue.decide_many(situations=5), ParameterError, "situations=5"),  # type: ignore[arg-type]
        (lambda: catalogue.probabilities(draws=1), ParameterError, "draws=1"),
    ]  # fmt: skip
    for call, error, message in cases:
        with pytest.raises(error, match=message):
            call()
    assert policy.n_decisions == 0
