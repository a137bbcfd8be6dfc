"""One context for all arms: a vector with the names of the arms, or a situation without features of the arms."""

from __future__ import annotations

import functools
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import rolin
from rolin import Bandit, FeatureMap, testing
from rolin.errors import (
    InputError,
    NotFiniteError,
    OverlapWarning,
    ParameterError,
    ShapeError,
    SharedContextWarning,
)
from rolin.features import Category, HashedFeatures, Number
from rolin.testing import deciding
from support.policies import fixed

pytestmark = pytest.mark.filterwarnings("ignore::rolin.errors.SharedContextWarning")

ARMS = ["red", "blue", "green", "gray"]
SLOPES = functools.partial(fixed, rolin.RoLinTS, slope_std=0.7)
WITH_SLOPES: dict[str, testing.MakePolicy] = {
    "all": SLOPES,
    "some": functools.partial(SLOPES, slopes=[2], intercept_std=1.0),
    "joint": functools.partial(SLOPES, sampling="joint"),
    "bound": functools.partial(fixed, rolin.RoLinUCB, slope_std=0.7),
    "mean": functools.partial(fixed, rolin.Greedy, slope_std=0.7),
    "learned": functools.partial(rolin.RoLinTS, slope_std="learn"),
}


def trained(make: testing.MakePolicy = SLOPES, n_features: int = 3, rounds: int = 40) -> Any:
    """Return a policy that has learned from one context for all arms."""
    policy, rng = make(n_features=n_features, seed=3), np.random.default_rng(5)
    for _ in range(rounds):
        decision = policy.decide(rng.normal(size=n_features), ARMS)
        policy.update(decision.arm, decision.context, float(rng.normal()))
    return policy


@pytest.mark.parametrize("make", WITH_SLOPES.values(), ids=WITH_SLOPES.keys())
@pytest.mark.parametrize(
    "check",
    [
        deciding.one_context_for_all_arms_is_that_context_repeated,
        deciding.many_decisions_are_single_ones,
        deciding.bad_questions_change_nothing,
    ],
)
def test_policies_with_slopes_keep_the_contract(
    make: testing.MakePolicy, check: testing.Check
) -> None:
    """Policies with slopes compute with one context for all arms, and decide as with that context repeated."""
    check(make)


@given(
    data=st.data(),
    d=st.integers(0, 4),
    n_arms=st.integers(1, 6),
    intercept_std=st.sampled_from([None, 2.0]),
)
def test_one_context_predicts_as_a_matrix(
    data: st.DataObject, d: int, n_arms: int, intercept_std: float | None
) -> None:
    """For any features with slopes, any arms and any past, a vector predicts as the matrix that repeats it."""
    slopes = data.draw(st.none() | st.sets(st.integers(0, d - 1)) if d else st.none())
    chosen = None if slopes is None else sorted(slopes)
    policy = SLOPES(n_features=d, slopes=chosen, intercept_std=intercept_std, seed=1)
    numbers = st.floats(-3.0, 3.0)
    vector = st.lists(numbers, min_size=d, max_size=d)
    for arm, x, reward in data.draw(
        st.lists(st.tuples(st.integers(0, 3), vector, numbers), max_size=8)
    ):
        policy.update(arm, x, reward)
    x, names = np.array(data.draw(vector)), list(range(n_arms))
    found, expected = policy.predict(x, names), policy.predict(np.tile(x, (n_arms, 1)), names)
    assert_allclose(found.mean, expected.mean, rtol=1e-12, atol=1e-12)
    assert_allclose(found.std, expected.std, rtol=1e-12)
    excluded = names[:-1][::2]
    options: dict[str, Any] = {"exclude": excluded, "top_k": n_arms - len(excluded), "key": 3}
    ranking = policy.decide(x, names, **options).ranking
    assert ranking == policy.decide(np.tile(x, (n_arms, 1)), names, **options).ranking


def test_probabilities_of_one_context() -> None:
    """Probabilities of a vector are those of the same context repeated, also with standard errors."""
    x = np.array([0.3, -1.0, 0.5])
    rows = np.tile(x, (4, 1))
    marginal = trained()
    assert_allclose(marginal.probabilities(x, ARMS), marginal.probabilities(rows, ARMS), atol=1e-9)
    joint = trained(WITH_SLOPES["joint"])
    found, expected = (joint.probabilities_with_error(c, ARMS) for c in (x, rows))
    assert_allclose(found.values, expected.values, atol=1e-9)
    assert_allclose(found.std_error, expected.std_error, atol=1e-9)


@pytest.mark.parametrize("kind", ["slopes", "paper"])
def test_candidates_hold_one_row(kind: str) -> None:
    """With slopes, candidates hold the context once, also without excluded arms and from a broadcast array."""
    options = {"slope_std": 0.7} if kind == "slopes" else {}
    policy = fixed(rolin.RoLinTS, n_features=3, seed=1, **options)
    x = np.array([1.0, 2.0, 3.0])
    for contexts in (x, np.broadcast_to(x, (4, 3))):
        for excluded in ((), ["blue"]):
            found = policy.candidates(contexts, ARMS, excluded)
            assert (found.contexts == np.tile(x, (len(found.names), 1))).all()
            assert (found.contexts.strides[0] == 0) == (kind == "slopes")
            # A read-only array is another type to the kernels.
            assert found.contexts.flags.writeable


def test_kernels_are_not_compiled_again() -> None:
    """One context for all arms has the types for which the kernels are compiled anyway."""
    from rolin.model.kernels import slope_predict

    policy = trained()
    policy.decide(np.ones((4, 3)), ARMS)
    kernel: Any = slope_predict.entries_of_arms
    before = len(getattr(kernel, "signatures", ()))
    policy.decide(np.ones(3), ARMS, exclude=["red"], top_k=2)
    policy.decide(np.broadcast_to(np.ones(3), (4, 3)), ARMS)
    policy.predict(np.ones(3), ARMS)
    policy.decide_many([np.ones(3), np.zeros(3)], ARMS)
    assert len(getattr(kernel, "signatures", ())) == before


def test_other_forms_of_a_vector() -> None:
    """A list, a tuple, a pandas Series and integers are vectors, too."""
    policy = trained()
    expected = policy.decide(np.array([1.0, 2.0, 3.0]), ARMS, key=1).arm
    for vector in ([1, 2, 3], (1.0, 2.0, 3.0), pd.Series([1.0, 2.0, 3.0], index=list("xyz"))):
        decision = policy.decide(vector, ARMS, key=1)
        assert decision.arm == expected
        assert decision.context.tolist() == [1.0, 2.0, 3.0]


def test_the_vector_is_not_changed_or_shared() -> None:
    """A decision has its own copy of the vector, and later changes of the vector do not reach a journal."""
    policy, x = trained(), np.array([1.0, 2.0, 3.0])
    decision = policy.decide(x, ARMS)
    decision.context[:] = 7.0
    assert x.tolist() == [1.0, 2.0, 3.0]
    bandit = Bandit(trained())
    logged = bandit.decide(x, ARMS)
    x[:] = 9.0
    assert logged.context.tolist() == [1.0, 2.0, 3.0]
    with pytest.raises(ValueError, match="read-only"):
        logged.offered_contexts[0] = 5.0


@pytest.mark.parametrize(
    ("contexts", "arms", "message"),
    [
        (
            [1.0, 2.0, 3.0],
            None,
            r"shape \(3,\), expected \(K, 3\).*pass their names: arms=\[…\]",
        ),
        ([1.0, 2.0], ARMS, r"shape \(2,\), expected \(K, 3\).*or \(3,\) with arms=…: one context"),
        (
            pd.DataFrame([[1.0, 2.0, 3.0]]),
            ARMS,
            "4 names, expected 1, one per context; pass a vector",
        ),
        (np.ones((2, 3)), ARMS, "4 names, expected 2, one per context$"),
    ],
)
def test_errors(contexts: Any, arms: Any, message: str) -> None:
    """A vector needs the names of the arms, and one number per feature."""
    policy = trained()
    bandit = Bandit(trained())
    for call in (policy.decide, policy.predict, policy.probabilities, bandit.decide):
        with pytest.raises(ShapeError, match=message):
            call(contexts, arms)
    with pytest.raises(NotFiniteError, match=r"contexts\[0, 1\] is nan"):
        policy.decide([1.0, np.nan, 0.0], ARMS)
    with pytest.raises(ShapeError, match="pass a list of vectors and arms="):
        policy.decide_many(np.ones((4, 3)), ARMS)
    with pytest.raises(ShapeError, match="pass a list of vectors and arms="):
        bandit.decide_many(np.ones((4, 3)), ARMS)


# -- bandits ---------------------------------------------------------------------------------


@pytest.mark.parametrize("durable", [False, True], ids=["memory", "SQLite"])
@pytest.mark.parametrize("kind", ["slopes", "paper"])
def test_a_bandit_records_one_context(kind: str, durable: bool, tmp_path: Path) -> None:
    """A bandit records a vector for all arms, and the same question as a matrix is the same question."""
    options = {"slope_std": 0.7} if kind == "slopes" else {}
    policy = fixed(rolin.RoLinTS, n_features=3, seed=1, **options)
    journal = tmp_path / "j.db" if durable else None
    x = np.array([1.0, -0.0, 3.0])
    with Bandit(policy, journal=journal, floor=0.1, control_share=0.2) as bandit:
        first = bandit.decide(x, ARMS, id="a", top_k=2, exclude=["gray"])
        assert first.offered == ("red", "blue", "green")
        assert first.offered_contexts.tolist() == [[1.0, 0.0, 3.0]] * 3
        rows = np.tile(x, (4, 1))
        again = bandit.decide(rows, ARMS, id="a", top_k=2, exclude=["gray"])
        assert again.ranking == first.ranking
        assert (again.propensities == first.propensities).all()
        many = bandit.decide_many([x, 2.0 * x], ARMS, ids=["b", "c"])
        assert many[1].context.tolist() == (2.0 * x).tolist()
        for id in ("a", "b", "c"):
            bandit.reward(id, 1.0)
        expected = bandit.predict(x, ARMS)
        assert_allclose(expected.mean, bandit.predict(rows, ARMS).mean, rtol=1e-12)
        stored = bandit.journal.decision("a")
        assert stored is not None
        assert (stored.offered_contexts.strides[0] == 0) == (kind == "slopes" and not durable)
        assert stored.offered_contexts.tolist() == first.offered_contexts.tolist()
        frame = bandit.to_frame()
    if durable:
        with Bandit(journal=journal) as opened:
            assert (opened.predict(x, ARMS).mean == expected.mean).all()
            assert opened.to_frame().equals(frame)


def people(**options: Any) -> FeatureMap:
    """Return a map of people, with fields of the arms or without."""
    fields = {"age": Number(scale=10.0), "gender": Category(["f", "m"])}
    return FeatureMap(fields, **options)


@pytest.mark.parametrize(
    "feature_map",
    [
        people(),
        people(strict=True),
        people(arm={"price": Number(scale=2.0)}),
        HashedFeatures(32, arm_names=False),
    ],
    ids=["no arm", "strict", "missing price", "hashed"],
)
def test_a_situation_is_encoded_once(feature_map: Any) -> None:
    """Arms without fields share one context, which is what each of them would have alone."""
    situation = {"age": 25.0, "gender": "m"}
    one = feature_map.contexts(None, situation, names=["red"])
    many = feature_map.contexts(None, situation, names=ARMS)
    assert many.shape == (4, feature_map.n_features)
    assert many.strides[0] == 0
    assert (many == one).all()
    assert (feature_map.contexts({arm: {} for arm in ARMS}, situation) == many).all()
    with pytest.raises(ValueError, match="read-only"):
        many[0, 0] = 5.0


def test_names_as_a_field_are_encoded_for_each_arm() -> None:
    """With the field `_arm`, arms without other fields still have contexts of their own."""
    feature_map = people(arm={"_arm": Category(ARMS)})
    many = feature_map.contexts(None, {"age": 25.0, "gender": "m"}, names=ARMS)
    assert len({row.tobytes() for row in many}) == 4


@pytest.mark.parametrize("slope_std", [0.0, 0.7])
def test_situations_of_a_bandit(slope_std: float, tmp_path: Path) -> None:
    """A bandit chooses among arms without features, and a reopened one has the same state and contexts."""
    feature_map = people()
    policy = fixed(
        rolin.RoLinTS, n_features=feature_map.n_features, slope_std=slope_std, seed=2
    )  # fmt: skip
    situation = {"age": 25.0, "gender": "m"}
    with Bandit(policy, feature_map=feature_map, journal=tmp_path / "j.db") as bandit:
        for i in range(30):
            decision = bandit.decide(arms=ARMS, situation={"age": float(i), "gender": "f"})
            bandit.reward(decision.id, float(i % 3))
        many = bandit.decide_many(arms=ARMS, situations=[situation, {}], ids=["a", "b"])
        assert many[0].offered == tuple(ARMS)
        assert many[0].raw is not None
        assert many[0].raw.rows == [{}] * 4
        assert (many[0].context == feature_map.contexts({"x": {}}, situation)[0]).all()
        same = bandit.decide({arm: {} for arm in ARMS}, situation=situation, id="a")
        assert same.arm == many[0].arm
        prediction = bandit.predict(arms=ARMS, situation=situation)
        bare = bandit.policy.predict(feature_map.contexts(None, situation, names=ARMS), ARMS)
        assert_allclose(prediction.mean, bare.mean, rtol=1e-12)
    with Bandit(journal=tmp_path / "j.db") as opened:
        assert (opened.predict(arms=ARMS, situation=situation).mean == prediction.mean).all()
        stored = opened.journal.decision("a")
        assert stored is not None
        assert (stored.offered_contexts == many[0].offered_contexts).all()


def test_a_bandit_warns_once_of_situations_without_slopes(tmp_path: Path) -> None:
    """It warns in the first decision, at the line of the caller. Reopening, importing and replaying do not warn."""
    feature_map = people()
    d = feature_map.n_features
    situation = {"age": 25.0, "gender": "m"}
    with Bandit(
        rolin.RoLinTS(n_features=d, seed=1), feature_map=feature_map, journal=tmp_path / "j.db"
    ) as bandit:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            bandit.decide(arms=ARMS[:1], situation=situation)
            assert not caught  # there was nothing to choose
            for i in range(60):
                decision = bandit.decide(arms=ARMS, situation=situation)
                bandit.reward(decision.id, float(i % 3))
        assert [(w.category, w.filename) for w in caught] == [(SharedContextWarning, __file__)]
    with warnings.catch_warnings():
        warnings.simplefilter("error", SharedContextWarning)
        warnings.simplefilter("ignore", OverlapWarning)
        with Bandit(journal=tmp_path / "j.db") as opened:
            assert opened.policy.posterior.count == 60
            log = rolin.offline.read(opened, missing="drop")
        rolin.offline.replay(log, rolin.RoLinTS(n_features=d, seed=2), min_propensity=1.0)


def test_a_bandit_does_not_warn_where_arms_differ() -> None:
    """Slopes, fields of arms, and policies with a model per arm use the situation."""
    situation = {"age": 25.0, "gender": "m"}
    kinds: list[tuple[Any, FeatureMap]] = [
        (SLOPES, people()),
        (rolin.DisjointLinUCB, people()),
        (rolin.RoLinTS, people(arm={"price": Number()})),
        (rolin.RoLinTS, people(arm={"_arm": Category(ARMS)})),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error", SharedContextWarning)
        for kind, feature_map in kinds:
            bandit = Bandit(kind(n_features=feature_map.n_features), feature_map=feature_map)
            bandit.decide(arms=ARMS, situation=situation)


def test_without_slopes_a_situation_cannot_change_the_order() -> None:
    """If all arms share a context, only their levels differ without slopes; with slopes the order can change."""
    rng = np.random.default_rng(4)
    paper = fixed(rolin.RoLinTS, n_features=2, seed=1)
    slopes = fixed(rolin.RoLinTS, n_features=2, slope_std=1.0, seed=1)
    for _ in range(200):
        x = rng.normal(size=2)
        for arm, sign in (("red", 1.0), ("blue", -1.0)):
            reward = sign * x[0] + 0.1 * float(rng.normal())
            paper.update(arm, x, reward)
            slopes.update(arm, x, reward)
    here, there = np.array([1.0, 0.0]), np.array([-1.0, 0.0])

    def gap(policy: Any, x: Any) -> float:
        mean = policy.predict(x, ["red", "blue"]).mean
        return float(mean[0] - mean[1])

    assert gap(paper, here) == pytest.approx(gap(paper, there), abs=1e-9)
    assert gap(slopes, here) > 1.5
    assert gap(slopes, there) < -1.5


def test_errors_of_situations() -> None:
    """A bandit says what is missing: names of arms, contexts, or a feature map."""
    feature_map = people()
    with_map = Bandit(
        fixed(rolin.RoLinTS, n_features=feature_map.n_features, slope_std=0.5), feature_map=feature_map
    )  # fmt: skip
    with pytest.raises(
        InputError, match=r"arms=None, expected the names of the arms, such as arms="
    ):
        with_map.decide(situation={"age": 1.0})
    with pytest.raises(InputError, match="pass contexts=None and arms="):
        with_map.decide(ARMS, situation={"age": 1.0})
    with pytest.raises(ShapeError, match="contexts=None, expected a list"):
        with_map.decide_many(arms=ARMS)
    without = Bandit(fixed(rolin.RoLinTS, n_features=2, slope_std=0.5))
    with pytest.raises(ParameterError, match="contexts is missing, expected vectors"):
        without.decide(arms=ARMS)
    with pytest.raises(ParameterError, match="no feature map"):
        without.decide(arms=ARMS, situation={"age": 1.0})


# -- indices of fields -----------------------------------------------------------------------


def test_indices_of_fields() -> None:
    """The indices of a field are those of the features with its name, in order and without duplicates."""
    feature_map = people(arm={"price": Number(), "tag": Category(["x"])}, cross=[("age", "price")])
    names = feature_map.names
    assert [names[i] for i in feature_map.indices(["age"])] == ["age"]
    assert [names[i] for i in feature_map.indices(["tag", "gender"])] == [
        "gender=f", "gender=m", "gender is unseen", "tag=x", "tag is unseen",
    ]  # fmt: skip
    pair = feature_map.indices([("age", "price"), "price", "price"])
    assert [names[i] for i in pair] == ["price", "age × price"]
    assert feature_map.indices([]) == []
    everything = [*feature_map.situation, *feature_map.arm, ("age", "price")]
    assert feature_map.indices(everything) == list(range(1, feature_map.n_features))
    rolin.RoLinTS(
        n_features=feature_map.n_features, slope_std="learn", slopes=feature_map.indices(["age"])
    )


def test_indices_of_a_name_on_both_sides() -> None:
    """A name that both sides have needs the side before it."""
    feature_map = FeatureMap({"age": Number()}, {"age": Number()})
    names = feature_map.names
    assert [names[i] for i in feature_map.indices(["situation.age"])] == ["situation.age"]
    assert [names[i] for i in feature_map.indices(["arm.age"])] == ["arm.age"]
    with pytest.raises(
        ParameterError, match=r"both have a field 'age': write 'situation.age' or 'arm"
    ):
        feature_map.indices(["age"])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ("age", r"'age' is one text, expected a list: \['age'\]"),
        (["height"], r"fields holds 'height', expected a field of the situation \(age, gender\)"),
        ([("age", "height")], r"fields holds \('age', 'height'\), expected"),
        ([("gender", "price")], "does not cross these fields: add the pair to cross"),
        ([3], "fields holds 3, expected a field"),
        ([([], {})], "expected a field"),
    ],
)
def test_errors_of_indices(fields: Any, message: str) -> None:
    """Fields that the map does not have, or does not cross, are named in the error."""
    feature_map = people(arm={"price": Number()}, cross=[("age", "price")])
    with pytest.raises(ParameterError, match=message):
        feature_map.indices(fields)


@pytest.mark.parametrize("slopes", [None, ["age"]], ids=["all", "age"])
def test_new_fields_have_slopes_if_all_features_have(
    slopes: list[str] | None, tmp_path: Path
) -> None:
    """When a map grows, new features get slopes only if `slopes` is None; what was learned stays."""
    feature_map = people()
    chosen = None if slopes is None else feature_map.indices(slopes)
    policy = fixed(
        rolin.RoLinTS, n_features=feature_map.n_features, slope_std=0.7, slopes=chosen, seed=1
    )  # fmt: skip
    journal = tmp_path / "j.db"
    with Bandit(policy, feature_map=feature_map, journal=journal) as bandit:
        for i in range(20):
            decision = bandit.decide(arms=ARMS, situation={"age": float(i), "gender": "f"})
            bandit.reward(decision.id, float(i % 3))
        situation = {"age": 4.0, "gender": "f"}
        before = bandit.predict(arms=ARMS, situation=situation)
        bandit.change_feature_map(feature_map.with_fields({"hour": Number(scale=24.0)}))
        after = bandit.predict(arms=ARMS, situation=situation)
        assert_allclose(after.mean, before.mean, rtol=1e-9)
        assert_allclose(after.std, before.std, rtol=1e-9)
        new = feature_map.n_features
        expected = tuple(range(new + 1)) if chosen is None else tuple(chosen)
        posterior: Any = bandit.policy.posterior
        assert posterior.slope_indices == expected
        decision = bandit.decide(arms=ARMS, situation={**situation, "hour": 12.0})
        bandit.reward(decision.id, 2.0)
        last = bandit.predict(arms=ARMS, situation={**situation, "hour": 12.0})
    with Bandit(journal=journal) as opened:
        again = opened.predict(arms=ARMS, situation={**situation, "hour": 12.0})
        assert (again.mean == last.mean).all()
        assert (again.std == last.std).all()
