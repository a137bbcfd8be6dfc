"""Catalogues of policies whose arms have slopes: the same decisions as over the plain arrays."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rolin
from rolin.errors import NotFiniteError, Unsupported
from support.catalogues import D, array, crossed_map, fields

KNOWN: dict[str, Any] = {"coef_std": 1.0, "arm_std": 0.5, "noise_std": 1.0}
ALL: dict[str, Any] = {"n_features": D, "slope_std": 0.7, "seed": 1, **KNOWN}
SOME: dict[str, Any] = {**ALL, "slopes": [3, 1], "slope_std": [0.4, 1.5]}
POLICIES: dict[str, Callable[[], Any]] = {
    "marginal": lambda: rolin.RoLinTS(intercept_std=None, **ALL),
    "marginal, intercept": lambda: rolin.RoLinTS(intercept_std=2.0, **SOME),
    "marginal, some slopes": lambda: rolin.RoLinTS(intercept_std=None, **SOME),
    "marginal, learned": lambda: rolin.RoLinTS(n_features=D, slope_std="learn", seed=1),
    "marginal, forgetting": lambda: rolin.RoLinTS(half_life=20.0, **ALL),
    "joint": lambda: rolin.RoLinTS(sampling="joint", intercept_std=None, **ALL),
    "joint, intercept": lambda: rolin.RoLinTS(sampling="joint", intercept_std=2.0, **ALL),
    "joint, some slopes": lambda: rolin.RoLinTS(sampling="joint", intercept_std=2.0, **SOME),
    "joint, learned": lambda: rolin.RoLinTS(
        n_features=D, sampling="joint", slope_std="learn", seed=1
    ),
    "joint, forgetting": lambda: rolin.RoLinTS(sampling="joint", half_life=20.0, **SOME),
    "no arm effects": lambda: rolin.RoLinTS(**ALL | {"arm_std": 0.0}),
    "bound": lambda: rolin.RoLinUCB(intercept_std=None, **ALL),
    "bound, some slopes": lambda: rolin.RoLinUCB(intercept_std=2.0, **SOME),
    "mean": lambda: rolin.Greedy(intercept_std=2.0, **ALL),
    "logistic": lambda: rolin.LogisticRoLinTS(n_features=D, slope_std="learn", seed=1),
    "logistic, bound": lambda: rolin.LogisticRoLinUCB(n_features=D, slope_std=0.5, seed=1),
}


def reward_of(policy: Any, mean: float, rng: np.random.Generator) -> float:
    """Return a reward with this mean, or its sign if the policy takes yes and no."""
    reward = mean + float(rng.normal())
    return float(reward > 0.0) if policy.binary else reward


def scores_of(catalogue: rolin.Catalogue, key: int, situation: Any = None) -> Any:
    """Return the scores of all slots, as a decision with this key has them."""
    scoring = catalogue._scoring.scores([situation], [key], catalogue._available([]))
    return next(iter(scoring))


# -- the same decisions ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_decisions_are_those_over_the_array(
    name: str, dtype: type, rng: np.random.Generator
) -> None:
    """Policy and catalogue side by side: learning, excluding, rewards in other contexts, of arms that are not stored."""
    ours, theirs = POLICIES[name](), POLICIES[name]()
    x = array(rng).astype(dtype)
    catalogue = rolin.Catalogue(ours, x)
    wide = x.astype(np.float64)
    truth = rng.normal(size=(300, D))
    for t in range(120):
        top_k = 1 + t % 4
        exclude = [t % 7] if t % 3 else []
        a = catalogue.decide(top_k=top_k, exclude=exclude)
        b = theirs.decide(wide, top_k=top_k, exclude=exclude)
        assert a.ranking == b.ranking
        np.testing.assert_array_equal(a.contexts, b.contexts)
        learned = [(a.arm, a.context), *((int(i), wide[i]) for i in rng.integers(300, size=t % 3))]
        if t % 5 == 0:
            learned += [(t % 6, rng.normal(size=D)), (f"not stored {t % 2}", rng.normal(size=D))]
        for arm, context in learned:
            slope = truth[arm] if isinstance(arm, int) else truth[0]
            reward = reward_of(ours, float(context @ slope), rng)
            for policy in (ours, theirs):
                policy.update(arm, context, reward)


@pytest.mark.parametrize("kind", [rolin.RoLinTS, rolin.RoLinUCB, rolin.Greedy])
def test_first_choices_are_those_over_the_array(kind: Any, rng: np.random.Generator) -> None:
    """As long as nothing is learned, arms have the same random order as over the array."""
    for seed in range(20):
        policy, x = kind(n_features=D, slope_std="learn", seed=seed), array(rng, 30)
        catalogue = rolin.Catalogue(policy, x)
        for t in range(10):
            arm = int(rng.integers(30))
            policy.update(arm, x[arm], 0.0)
            mine, theirs = (
                c.decide(*a, top_k=5, key=t) for c, a in ((catalogue, ()), (policy, (x,)))
            )
            assert mine.ranking == theirs.ranking
            assert catalogue.decide(key=t).arm == mine.arm  # for any number of ranks


@pytest.mark.parametrize("name", POLICIES)
def test_scores_are_those_over_the_array(name: str, rng: np.random.Generator) -> None:
    """Every arm's score, not only the highest, with the same key: to 1e-9 after 300 rewards."""
    policy, x = POLICIES[name](), array(rng, 100)
    catalogue = rolin.Catalogue(policy, x)
    for t in range(300):
        arm = int(rng.integers(60))  # 40 arms stay without rewards
        context = x[arm] if t % 4 else rng.normal(size=D)
        policy.update(arm, context, reward_of(policy, 0.0, rng))
        if t % 3 == 0:
            catalogue.decide()
    expected = policy.score(policy.candidates(x, range(100)), 5).values
    np.testing.assert_allclose(scores_of(catalogue, 5), expected, rtol=1e-9, atol=1e-11)


def gaussian_process(
    seen: list[tuple[Any, Any, float]], x: Any, arms: list[Any], intercept_std: float
) -> tuple[Any, Any]:
    """Return means and standard deviations by conditioning on all rewards at once (Rasmussen & Williams 2006, eq. 2.25).

    The covariance of two mean rewards is c² x'y + intercept_std², plus s₀² + Σ_j s_j² x_j y_j for the same arm.
    """
    slopes, stds = SOME["slopes"], np.array(SOME["slope_std"])

    def covariance(a: Any, names_a: list[Any], b: Any, names_b: list[Any]) -> Any:
        same = np.array([[i == j for j in names_b] for i in names_a])
        own = 0.5**2 + (a[:, slopes] * stds**2) @ b[:, slopes].T
        return a @ b.T + intercept_std**2 + same * own

    names, contexts = [arm for arm, _, _ in seen], np.array([context for _, context, _ in seen])
    rewards = np.array([reward for _, _, reward in seen])
    across = covariance(x, arms, contexts, names)
    solved = np.linalg.solve(
        covariance(contexts, names, contexts, names) + np.eye(len(seen)), across.T
    )
    variance = np.diag(covariance(x, arms, x, arms)) - (across * solved.T).sum(axis=1)
    return solved.T @ rewards, np.sqrt(variance)


def test_means_and_widths_are_those_of_the_dense_model(rng: np.random.Generator) -> None:
    """What the catalogue keeps of each arm, against a Gaussian process with all rewards, to 1e-10."""
    policy, x = rolin.RoLinUCB(intercept_std=2.0, **SOME), array(rng, 40)
    catalogue = rolin.Catalogue(policy, x)
    seen: list[tuple[Any, Any, float]] = []
    for t in range(150):
        arm = int(rng.integers(25))
        context = x[arm] if t % 2 else rng.normal(size=D)
        seen.append((arm, context, float(rng.normal())))
        policy.update(*seen[-1])
        if t % 7 == 0:
            catalogue.decide()
    catalogue.decide()
    mean, std = gaussian_process(seen, x, list(range(40)), intercept_std=2.0)
    np.testing.assert_allclose(catalogue._cache.mean, mean, rtol=1e-10, atol=1e-11)
    np.testing.assert_allclose(catalogue._cache.std, std, rtol=1e-10)


def test_rounding_does_not_gather(rng: np.random.Generator) -> None:
    """Ten thousand rewards that leave the slopes of other arms as the only uncertainty: widths are right to 1e-9."""
    policy = rolin.RoLinUCB(
        n_features=3, coef_std=10.0, arm_std=1e-3, noise_std=0.1, slope_std=1e-3, seed=0
    )
    x = rng.normal(size=(50, 3))
    catalogue = rolin.Catalogue(policy, x)
    for t in range(10_000):
        arm = int(rng.integers(30))
        policy.update(arm, x[arm], float(rng.normal()))
        if t % 5 == 0:
            catalogue.decide()
    catalogue.decide()
    expected = policy.predict(x).std
    assert expected.max() < 2e-2
    np.testing.assert_allclose(catalogue._cache.std, expected, rtol=1e-9)


@pytest.mark.parametrize("name", ["marginal, learned", "joint, learned"])
def test_new_scales_are_noticed_without_new_rewards(name: str, rng: np.random.Generator) -> None:
    """`learn_scales` and `decay` between two decisions change the prior of the arms that were never seen."""
    policy, x = POLICIES[name](), array(rng, 60)
    truth = rng.normal(size=(60, D))
    catalogue = rolin.Catalogue(policy, x)
    for t in range(200):
        arm, context = t % 30, rng.normal(size=D)
        policy.update(arm, context, float(context @ truth[arm] + 0.1 * rng.normal()))
    assert policy.scales.has_slopes
    for change in (policy.learn_scales, lambda: policy.decay(0.5), policy.learn_scales):
        catalogue.decide()
        before = policy.scales
        change()
        assert policy.scales != before or policy.posterior.count < 200
        expected = policy.score(policy.candidates(x, range(60)), 9).values
        np.testing.assert_allclose(scores_of(catalogue, 9), expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", POLICIES)
def test_a_batch_is_one_after_the_other(name: str, rng: np.random.Generator) -> None:
    """`decide_many` shares passes, and changes no decision; a list of candidates goes through the policy."""
    policy = POLICIES[name]()
    catalogue = rolin.Catalogue(policy, array(rng))
    for i in range(30):
        arm = i % 7
        policy.update(arm, catalogue.contexts([arm])[0], reward_of(policy, 0.0, rng))
    other = copy.deepcopy(policy)
    single = rolin.Catalogue(other, catalogue.contexts(range(300)))
    for decision in catalogue.decide_many(19, top_k=2, exclude=[7]):
        assert decision.ranking == single.decide(top_k=2, exclude=[7]).ranking
    assert policy.n_decisions == other.n_decisions == 19
    arms = [5, 200, 17, 3]
    decision = catalogue.decide(arms, top_k=2)
    assert decision.ranking == other.decide(catalogue.contexts(arms), arms, top_k=2).ranking


# -- arms that come and go -------------------------------------------------------------------------


@pytest.mark.parametrize("name", POLICIES)
def test_arms_come_and_go(name: str, rng: np.random.Generator) -> None:
    """Scores are those of the arms that are there now, in the order of their slots."""
    policy = POLICIES[name]()
    x = array(rng, 40)
    catalogue = rolin.Catalogue(policy, x, [f"a{i}" for i in range(40)])
    here = {f"a{i}": x[i] for i in range(40)}
    for t in range(60):
        if t % 4 == 0:
            new = rng.normal(size=(3, D))
            names = [f"{letter}{t}" for letter in "bcd"]
            catalogue.add(new, names)
            here |= dict(zip(names, new, strict=True))
        if t % 5 == 1:
            gone = list(here)[t % 7 :: 9]
            catalogue.remove(gone)
            for arm in gone:
                del here[arm]
        if t in (30, 45):  # an arm with rewards comes back with other features, and its past
            again = next(arm for arm in policy.arms if arm in here)
            catalogue.remove([again])
            here[again] = rng.normal(size=D)
            catalogue.add([here[again]], [again])
        if t == 50:  # an arm loses its past
            forgotten = next(arm for arm in policy.arms if arm in here)
            policy.remove_arm(forgotten)
            catalogue.decide()
            policy.restore_arm(forgotten, with_past=False)
        decision = catalogue.decide(top_k=2)
        assert set(decision.ranking) <= here.keys()
        policy.update(decision.arm, decision.context, reward_of(policy, 0.0, rng))
    assert len(catalogue) == len(here)
    arms = sorted(here, key=lambda arm: int(catalogue._store.find([arm])[0]))
    expected = policy.score(policy.candidates([here[arm] for arm in arms], arms), 5).values
    found = scores_of(catalogue, 5)[catalogue._store.slots_of(arms)]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11)
    predicted = policy.predict([here[arm] for arm in arms], arms)
    np.testing.assert_allclose(catalogue.predict(arms), predicted, rtol=1e-12)


# -- situations ------------------------------------------------------------------------------------


@pytest.mark.parametrize("intercept", [None, 2.0])
@pytest.mark.parametrize("rule", ["joint", "greedy"])
def test_situations_change_the_slopes_that_count(
    rule: str, intercept: float | None, rng: np.random.Generator
) -> None:
    """The decisions over whole contexts, with slopes for features of arm, situation, and both."""
    features = crossed_map()

    def make() -> Any:
        options = {
            **KNOWN, "n_features": features.n_features, "intercept_std": intercept, "seed": 5,
            "slope_std": 0.8, "slopes": list(range(0, features.n_features, 2)),
        }  # fmt: skip
        if rule == "greedy":
            policy: Any = rolin.Greedy(**options)
        else:
            policy = rolin.RoLinTS(sampling="joint", **options)
        policy.change_feature_map(features)
        return policy

    ours, theirs = make(), make()
    arms, rows = [f"a{i}" for i in range(60)], fields(rng, 60)
    everything = dict(zip(arms, rows, strict=True))
    catalogue = rolin.Catalogue(ours, rows, arms)
    for t in range(80):
        situation = {"device": ["phone", "desktop", "tv"][t % 3], "hour": float(rng.integers(24))}
        x = features.contexts(everything, situation)
        expected = theirs.score(theirs.candidates(x, arms), t).values
        np.testing.assert_allclose(scores_of(catalogue, t, situation), expected, atol=1e-9)
        a, b = catalogue.decide(situation=situation, top_k=3), theirs.decide(x, arms, top_k=3)
        assert a.ranking == b.ranking
        reward = float(rng.normal())
        for policy in (ours, theirs):
            policy.update(b.arm, b.context, reward)
    situations = [{"device": "phone", "hour": h} for h in range(11)]
    many = catalogue.decide_many(situations=situations)
    for situation, decision in zip(situations, many, strict=True):
        assert decision.arm == theirs.decide(features.contexts(everything, situation), arms).arm
    catalogue.add(fields(rng, 2), ["late", "later"])
    assert catalogue.decide(["late", "a1"], situation=situations[0]).arm in ("late", "a1")
    marginal = rolin.RoLinTS(n_features=features.n_features, slope_std=1.0, seed=0)
    with pytest.raises(Unsupported, match="sampling='joint'"):
        rolin.Catalogue(marginal, rows, arms, feature_map=features)


@given(seed=st.integers(0, 2**32 - 1))
def test_squares_of_both_sides_make_the_squares_of_the_context(seed: int) -> None:
    """`arm_variances` against whole contexts, which know nothing of the two sides."""
    rng = np.random.default_rng(seed)
    features, rows = crossed_map(), fields(rng, 4)
    situation = {"device": ["phone", "desktop", "tv"][seed % 3], "hour": 24.0 * rng.random()}
    names = ["a0", "a1", "a2", "a3"]
    x = features.contexts(dict(zip(names, rows, strict=True)), situation)
    apart = features.arm_vectors(rows, names=names)
    variances = rng.random(size=features.n_features)
    weights = features.arm_variances(variances, situation)
    assert weights.shape == (1 + apart.shape[1],)
    np.testing.assert_allclose(weights[0] + apart**2 @ weights[1:], x**2 @ variances, rtol=1e-12)


# -- probabilities, memory, errors -----------------------------------------------------------------


@pytest.mark.parametrize("name", ["marginal", "joint", "joint, some slopes"])
def test_probabilities_are_estimated_with_their_error(name: str, rng: np.random.Generator) -> None:
    """Against the policy's own probabilities, within 5 standard errors of both."""
    policy = POLICIES[name]()
    x = array(rng, 12)
    for _ in range(60):
        arm = int(rng.integers(9))  # three arms stay without rewards
        policy.update(arm, rng.normal(size=D), float(rng.normal()))
    catalogue = rolin.Catalogue(policy, x)
    catalogue.remove([3])
    p, error = catalogue.probabilities_with_error(draws=3000)
    left = [i for i in range(12) if i != 3]
    exact, exact_error = policy.probabilities_with_error(x[left], left)
    assert p.sum() == pytest.approx(1.0, abs=0.05)
    assert (np.abs(p - exact) < 5 * np.hypot(error, exact_error) + 1e-3).all()


@pytest.mark.parametrize("name", ["marginal", "joint"])
def test_memory_is_what_is_promised(name: str, rng: np.random.Generator) -> None:
    """At most 64 bytes an arm beside the features, as without slopes."""
    x = rng.normal(size=(20_000, D))
    catalogue = rolin.Catalogue(POLICIES[name](), x)
    catalogue.decide()
    assert x.nbytes < catalogue.nbytes <= x.nbytes + 64 * len(x)


@pytest.mark.parametrize("name", ["marginal", "joint"])
def test_features_that_are_too_large_are_named(name: str, rng: np.random.Generator) -> None:
    """The square of a feature overflows: an error, not a decision among the other arms."""
    x = array(rng, 10)
    x[4] = 1e200
    catalogue = rolin.Catalogue(POLICIES[name](), x)
    with pytest.raises(NotFiniteError, match="arm 4 cannot be scored"):
        catalogue.decide()
