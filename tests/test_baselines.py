"""hLinUCB and Safe-FALCON, by hand and against slow formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rolin
from rolin.errors import ParameterError
from rolin.policies.epoch_regression import inverse_gap_weights
from support.policies import fixed

# -- hLinUCB ---------------------------------------------------------------------------------


def test_two_rounds_of_hlinucb_by_hand() -> None:
    """One feature, one hidden feature that starts at 1, both ridges 1.

    Round 1, x = 1, r = 3, z = (1, 1):
        A = [[2, 1], [1, 2]],  b = (3, 3),  θ = (1, 1)
        C = 1 + 1 = 2,  e = 1 (3 - 1) = 2,  v = 1
    Round 2, the same arm, x = 2, r = 6, z = (2, 1):
        A = [[6, 3], [3, 3]],  b = (15, 9),  θ = (2, 1)
        C = 2 + 1 = 3,  e = 2 + 1 (6 - 4) = 4,  v = 4/3
    Then x = 0: z = (0, 4/3), z'θ = 4/3, z'A⁻¹z = (16/9) (6/9), θ_h'C⁻¹θ_h = 1/3.
    """
    policy = rolin.HLinUCB(
        n_features=1, n_hidden=1, initial="one-hot", width=0.5, hidden_width=0.25,
        ridge=1.0, hidden_ridge=1.0, seed=0,
    )  # fmt: skip
    model = policy._model
    policy.update("a", [1.0], 3.0)
    np.testing.assert_allclose(model._coef, [1.0, 1.0], rtol=1e-14)
    np.testing.assert_allclose(model._hidden[1], [1.0], rtol=1e-14)
    policy.update("a", [2.0], 6.0)
    np.testing.assert_allclose(model._coef, [2.0, 1.0], rtol=1e-14)
    np.testing.assert_allclose(model._hidden[1], [4 / 3], rtol=1e-14)
    mean, std, hidden_std = model.read(np.zeros((1, 1)), ["a"], np.array([1]))
    np.testing.assert_allclose(mean, [4 / 3], rtol=1e-14)
    np.testing.assert_allclose(std**2, [16 / 9 * 6 / 9], rtol=1e-14)
    np.testing.assert_allclose(hidden_std**2, [1 / 3], rtol=1e-14)
    _, scores = policy.score(policy.candidates(np.zeros((1, 1)), ["a"]), 0)
    expected = 4 / 3 + 0.5 * math.sqrt(16 / 9 * 6 / 9) + 0.25 * math.sqrt(1 / 3)
    np.testing.assert_allclose(scores, [[expected]], rtol=1e-14)


@pytest.mark.parametrize("n_hidden", [0, 3])
@pytest.mark.parametrize("ridge", [0.1, 2.0])
def test_hidden_features_that_start_at_zero_are_linucb(
    n_hidden: int, ridge: float, seed: int
) -> None:
    """Zero is a fixed point: the decisions are those of LinUCB, trace for trace."""
    hidden = rolin.HLinUCB(
        n_features=4, n_hidden=n_hidden, initial="zero", width=0.7, ridge=ridge, seed=seed
    )
    linear = fixed(rolin.LinUCB, n_features=4, width=0.7, coef_std=ridge**-0.5, seed=seed)
    rng = np.random.default_rng(seed)
    for _ in range(500):
        x = rng.uniform(-1, 1, (12, 4))
        decision = hidden.decide(x)
        assert decision.arm == linear.decide(x).arm
        reward = decision.context.sum() + rng.normal()
        for policy in (hidden, linear):
            policy.update(decision.arm, decision.context, reward)


@pytest.mark.parametrize("initial", ["uniform", "normal", "one-hot"])
def test_hlinucb_is_two_ridge_regressions(initial: str, rng: np.random.Generator) -> None:
    """After 200 rewards, scores equal those from stacked rows and plain inverses."""
    d, n_hidden, ridge, hidden_ridge = 3, 4, 0.3, 0.7
    policy = rolin.HLinUCB(
        n_features=d, n_hidden=n_hidden, initial=initial, ridge=ridge, hidden_ridge=hidden_ridge,
        width="adaptive", hidden_width="adaptive", seed=3,
    )  # fmt: skip
    model = policy._model
    gram, pulled = ridge * np.eye(d + n_hidden), np.zeros(d + n_hidden)
    hidden: dict[int, np.ndarray] = {}
    own_gram = {k: hidden_ridge * np.eye(n_hidden) for k in range(6)}
    own_pulled = {k: np.zeros(n_hidden) for k in range(6)}
    counts = np.zeros(6)
    for _ in range(200):
        k, x, r, h = int(rng.integers(5)), rng.normal(size=d), rng.normal(), rng.uniform(0.5, 2)
        z = np.concatenate([x, hidden.get(k, model._start(k))])
        policy.update(k, x, r, h)
        gram += h * np.outer(z, z)
        pulled += h * z * r
        theta = np.linalg.solve(gram, pulled)
        own_gram[k] += h * np.outer(theta[d:], theta[d:])
        own_pulled[k] += h * theta[d:] * (r - x @ theta[:d])
        hidden[k] = np.linalg.solve(own_gram[k], own_pulled[k])
        counts[k] += 1
    x = rng.normal(size=(6, d))  # the last arm was never seen
    z = np.column_stack([x, [hidden.get(k, model._start(k)) for k in range(6)]])
    expected = z @ theta
    t = counts.sum()
    expected += (0.1 * np.sqrt(np.log(t + 1)) + 0.1 * (1 - 0.8**t)) * np.sqrt(
        np.einsum("ki,ij,kj->k", z, np.linalg.inv(gram), z)
    )
    widths = 0.1 * np.sqrt(np.log(counts + 1)) + 0.1 * (1 - 0.8**counts)
    expected += widths * np.sqrt(
        [theta[d:] @ np.linalg.inv(own_gram[k]) @ theta[d:] for k in range(6)]
    )
    _, scores = policy.score(model.candidates(x, None), 0)
    np.testing.assert_allclose(scores[0], expected, rtol=1e-9)


def test_hidden_features_are_learned_by_default() -> None:
    """Two arms that features cannot tell apart get hidden features that do."""
    policy = rolin.HLinUCB(n_features=1, width=0.0, hidden_width=0.0, seed=1)
    for _ in range(50):
        policy.update("good", [1.0], 1.0)
        policy.update("bad", [1.0], -1.0)
    good, bad = policy.score(policy.candidates(np.ones((2, 1)), ["good", "bad"]), 0).values
    assert good > 0.8
    assert bad < -0.8


def test_hidden_features_of_new_arms_follow_seed_and_name() -> None:
    """Asked twice, a new arm looks the same; another seed or another name looks different."""
    starts = {
        (seed, arm): tuple(
            rolin.HLinUCB(n_features=1, initial="uniform", seed=seed)._model._start(arm)
        )
        for seed in (1, 2)
        for arm in ("a", "b", 1, "1")
    }
    assert len(set(starts.values())) == len(starts)
    again = rolin.HLinUCB(n_features=1, initial="uniform", seed=1)._model._start("a")
    assert tuple(again) == starts[1, "a"]


# -- Safe-FALCON -----------------------------------------------------------------------------


def test_inverse_gap_weights_by_hand() -> None:
    """K = 3, γ = 4, gaps 0, 1/4, 2: 1/(3 + 1) = 1/4, 1/(3 + 8) = 1/11, the best has the rest."""
    weights = inverse_gap_weights(np.array([1.75, 2.0, 0.0]), gamma=4.0)
    np.testing.assert_allclose(weights, [1 / 4, 1 - 1 / 4 - 1 / 11, 1 / 11], rtol=1e-15)


@given(
    st.lists(st.floats(-100, 100), min_size=1, max_size=30),
    st.floats(0, 1e6),
)
def test_inverse_gap_weights_are_probabilities(values: list[float], gamma: float) -> None:
    """They are positive, sum to one, fall with the gap, and the best has at least 1/K."""
    f = np.array(values)
    p = inverse_gap_weights(f, gamma)
    assert p.sum() == pytest.approx(1.0, abs=1e-12)
    assert (p > 0).all()
    order = np.argsort(f)
    assert (np.diff(p[order]) >= -1e-12).all()
    assert p[np.argmax(f)] >= 1 / len(f) - 1e-12


def test_two_epochs_of_falcon_by_hand() -> None:
    """One feature, τ₁ = 2, ridge 1, δ = 0.05.

    Epoch 1 sees x = 1, r = 2 and x = 2, r = 1: f = (2 + 2)/(1 + 1 + 4) = 2/3.
    In epoch 2, ξ = log(4 · 13/0.05)/2, and of two arms at x = 0 and 1 the gap is 2/3:
    p(0) = 1/(2 + √(2/8ξ) 2/3).
    Epoch 2 (rounds 3, 4) sees x = 1, r = -1 and x = 1, r = 0: f = -1/3; it lasts two rounds as the
    first did, so that ξ = log(9 · 13/0.05)/2 in epoch 3, which lasts four.
    """
    policy = rolin.SafeFALCON(n_features=1, seed=0)
    x = np.array([[0.0], [1.0]])
    np.testing.assert_allclose(policy.probabilities(x), [0.5, 0.5])
    policy.update("a", [1.0], 2.0)
    policy.update("b", [2.0], 1.0)
    assert policy.epoch == 2
    xi = math.log(4 * 13 / 0.05) / 2
    low = 1 / (2 + math.sqrt(2 / (8 * xi)) * 2 / 3)
    np.testing.assert_allclose(policy.probabilities(x), [low, 1 - low], rtol=1e-13)
    policy.update("a", [1.0], -1.0)
    policy.update("b", [1.0], 0.0)
    assert policy.epoch == 3
    xi = math.log(9 * 13 / 0.05) / 2
    low = 1 / (2 + math.sqrt(2 / (8 * xi)) / 3)
    np.testing.assert_allclose(policy.probabilities(x), [1 - low, low], rtol=1e-13)
    for _ in range(3):
        policy.update("a", [1.0], 0.0)
        assert policy.epoch == 3
    policy.update("a", [1.0], 0.0)
    assert policy.epoch == 4


def test_arms_are_chosen_as_often_as_falcon_says(seed: int) -> None:
    """Frequencies of 20 000 decisions are the probabilities, within 5 standard errors."""
    rng = np.random.default_rng(seed)
    policy = rolin.SafeFALCON(n_features=2, complexity=0.01, seed=seed)
    for _ in range(64):
        context = rng.uniform(-1, 1, 2)
        policy.update("a", context, context[0] - context[1])
    x = rng.uniform(-1, 1, (5, 2))
    p = policy.probabilities(x)
    n = 20_000
    chosen = np.bincount([policy.decide(x).arm for _ in range(n)], minlength=5)
    assert (np.abs(chosen - n * p) < 5 * np.sqrt(n * p * (1 - p)) + 1).all()


def played(policy: rolin.SafeFALCON, rounds: int) -> rolin.SafeFALCON:
    """A game whose rewards collapse: arms pay 1 for 64 rounds, and nothing thereafter."""
    for t in range(rounds):
        policy.update("good" if t % 2 else "bad", [1.0], 1.0 if t < 64 else 0.0)
    return policy


def test_the_safety_test_fires_when_rewards_fall_short() -> None:
    """With little room for error, collapsing rewards make the policy go back to its safest epoch.

    The best lower bound is that of the longest good epoch, m = 6 (rounds 33 to 64); by round
    4096 the bound on the sum of rewards, about 0.4 · 4096, is far above the 64 there were. Epoch 6
    plays with the fit of epoch 5, 16 rounds of x = r = 1: f = 16/17, and γ₆ = √(K/8ξ) with
    ξ = 1e-9 log(36 · 13/0.05)/16.
    """
    played_on = played(rolin.SafeFALCON(n_features=1, complexity=1e-9, seed=0), 4096)
    assert not played_on.is_safe
    assert played_on.epoch == 6
    after = played_on.probabilities([[0.0], [1.0], [-1.0]])
    gamma = math.sqrt(3 / (8 * 1e-9 * math.log(36 * 13 / 0.05) / 16))
    np.testing.assert_allclose(
        after[[0, 2]], [1 / (3 + gamma * 16 / 17), 1 / (3 + gamma * 32 / 17)], rtol=1e-9
    )
    # no more fitting, whatever comes
    played_on.update("good", [1.0], 1e6)
    np.testing.assert_array_equal(played_on.probabilities([[0.0], [1.0], [-1.0]]), after)
    assert played_on.epoch == 6


def test_the_safety_test_waits_for_its_bound() -> None:
    """It fires at the first checked round whose rewards fall short of L_t, and not before.

    L_t = t l - τ₁ - √(2 t log(⌈m + log₂ τ₁⌉³/δ')) - 20.3 √K Σ √ξ, from the formulas alone.
    """
    delta, complexity = 0.05 / 13, 1e-9

    def xi(m: int) -> float:
        return complexity * math.log(m**2 / delta) / max(2 ** (m - 2), 2)

    policy = rolin.SafeFALCON(n_features=1, complexity=complexity, n_arms=3, seed=0)
    total, slack, lower, fired = 0.0, 0.0, -math.inf, 0
    for t in range(1, 4097):
        m = max(1, math.ceil(math.log2(t)))  # τ_m = 2^m
        reward = 1.0 if t <= 64 else 0.0
        policy.update("a", [1.0], reward)
        total += reward
        slack += math.sqrt(xi(m)) if m > 1 else 0.0
        since = t - 2 ** (m - 1)
        if m > 1 and (since & (since - 1) == 0 or t == 2**m):
            log = math.log((m + 1) ** 3 / delta)
            least = t * lower - 2 - math.sqrt(2 * t * log) - 20.3 * math.sqrt(3) * slack
            if total < least:
                fired = t
                break
        if t == 2**m:
            length = 2 if m == 1 else 2 ** (m - 1)
            mean = np.mean([u <= 64 for u in range(t - length + 1, t + 1)])
            lower = max(lower, mean - math.sqrt(math.log(m**2 / delta) / (2 * length)))
        assert policy.is_safe
    assert fired
    assert not policy.is_safe


def test_falcon_plus_never_gives_up() -> None:
    """Without the test, epochs go on; with the paper's complexity the test cannot fire here."""
    assert played(rolin.SafeFALCON(n_features=1, complexity=1e-9, safety_test=False), 4096).is_safe
    assert played(rolin.SafeFALCON(n_features=1), 4096).is_safe


def test_a_reward_range_maps_rewards_to_the_unit_interval() -> None:
    """Rewards 2 … 6 in a range (2, 6) teach what 0 … 1 teach without one."""
    plain = rolin.SafeFALCON(n_features=1, seed=0)
    ranged = rolin.SafeFALCON(n_features=1, reward_range=(2.0, 6.0), seed=0)
    for t in range(40):
        plain.update(0, [t / 40], t / 40)
        ranged.update(0, [t / 40], 2.0 + 4.0 * t / 40)
    x = [[0.0], [1.0]]
    np.testing.assert_allclose(plain.probabilities(x), ranged.probabilities(x), rtol=1e-12)


def test_all_data_are_fitted_on_request() -> None:
    """Fitted to all rounds, f is the ridge regression on all of them."""
    policy = rolin.SafeFALCON(n_features=1, all_data=True, ridge=0.5, seed=0)
    x, r = np.arange(1.0, 9.0), np.array([1.0, 3, 2, 5, 4, 6, 7, 7])
    for a, b in zip(x, r, strict=True):
        policy.update(0, [a], b)
    np.testing.assert_allclose(policy._model._fit, [x @ r / (x @ x + 0.5)], rtol=1e-13)


def test_a_regression_that_cannot_be_computed_changes_nothing() -> None:
    """With hardly any ridge and contexts that repeat, the last update of an epoch is refused."""
    policy = rolin.SafeFALCON(n_features=2, ridge=1e-300, seed=0)
    policy.update("a", [1.0, 1.0], 1.0)
    before = {name: array.copy() for name, array in policy._model.arrays().items()}
    for _ in range(2):
        with pytest.raises(rolin.errors.NotFiniteError, match="too small"):
            policy.update("b", [1.0, 1.0], 1.0)
        for name, array in policy._model.arrays().items():
            np.testing.assert_array_equal(array, before[name])
    assert policy.arms == ["a"]
    policy.update("b", [1.0, -1.0], 1.0)  # an epoch that can be fitted goes on
    assert policy.epoch == 2


def test_open_details_of_the_safety_test_are_options() -> None:
    """The allowance may begin after the second epoch; the bound may have δ itself: both are higher."""
    usual = rolin.SafeFALCON(n_features=1, seed=0)
    late = rolin.SafeFALCON(n_features=1, slack_after=2, seed=0)
    bold = rolin.SafeFALCON(n_features=1, split_bound=False, seed=0)
    for policy in (usual, late, bold):
        for _ in range(16):
            policy.update("a", [1.0], 0.5)
    xi = math.log(4 * 13 / 0.05) / 2
    least = [policy._model.lowest_safe_reward(16) for policy in (usual, late, bold)]
    assert least[1] - least[0] == pytest.approx(20.3 * 2 * math.sqrt(xi))  # rounds 3 and 4, K = 1
    m = 4  # the best bound is that of the longest epoch
    difference = math.sqrt(math.log(m**2 * 13 / 0.05) / 16) - math.sqrt(math.log(m**2 / 0.05) / 16)
    assert least[2] - least[0] == pytest.approx(16 * difference)


@pytest.mark.parametrize(
    ("policy", "options", "message"),
    [
        (rolin.HLinUCB, {"n_hidden": -1}, "n_hidden=-1"),
        (rolin.HLinUCB, {"initial": "ones"}, "initial='ones', expected one of"),
        (rolin.HLinUCB, {"width": -0.1}, "width=-0.1, expected a number of at least 0"),
        (rolin.HLinUCB, {"hidden_width": "wide"}, "hidden_width='wide'"),
        (rolin.HLinUCB, {"ridge": 0}, "ridge=0.0, expected a positive number"),
        (rolin.HLinUCB, {"hidden_ridge": np.nan}, "hidden_ridge=nan"),
        (rolin.SafeFALCON, {"first_epoch": 0}, "first_epoch=0"),
        (
            rolin.SafeFALCON,
            {"failure_probability": 1.0},
            "failure_probability=1.0, expected a positive number below",
        ),
        (rolin.SafeFALCON, {"ridge": -1}, "ridge=-1, expected a positive number"),
        (rolin.SafeFALCON, {"complexity": 0}, "complexity=0"),
        (rolin.SafeFALCON, {"reward_range": (1, 1)}, r"reward_range=\(1, 1\), expected"),
        (rolin.SafeFALCON, {"reward_range": 3}, "reward_range=3, expected"),
        (rolin.SafeFALCON, {"n_arms": 0}, "n_arms=0"),
        (rolin.SafeFALCON, {"safety_test": "no"}, "safety_test='no', expected True or False"),
        (rolin.SafeFALCON, {"slack_after": 3}, "slack_after"),
    ],
)
def test_bad_options_are_refused(policy: type, options: dict[str, object], message: str) -> None:
    """An option that makes no sense is named, with what was given."""
    with pytest.raises(ParameterError, match=message):
        policy(n_features=2, **options)
