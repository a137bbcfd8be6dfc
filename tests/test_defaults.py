"""Policies with nothing configured: units do not matter, rewards that do not vary teach nothing, exploration adapts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rolin
from rolin.model.first_guess import guess_scales, placeholders, with_learned_intercept

KINDS = [rolin.RoLinTS, rolin.LinTS, rolin.RoLinUCB, rolin.LinUCB, rolin.Greedy]
UNITS: list[dict[str, Any]] = [
    {"factor": 1000.0},
    {"factor": 0.001},
    {"shift": 1000.0},
    {"features": 1000.0},
    {"features": 0.001},
]


def choices(
    kind: Any,
    fixed: bool,
    seed: int,
    *,
    factor: float = 1.0,
    shift: float = 0.0,
    features: Any = 1.0,
) -> list[Any]:
    """The arms that a policy with nothing configured chooses in 400 rounds, with rewards in other units."""
    rng = np.random.default_rng(seed)
    n_arms, d = 12, 4
    theta, effects = rng.normal(size=d), 0.5 * rng.normal(size=n_arms)
    policy, chosen = kind(n_features=d, seed=seed), []
    x = rng.uniform(-1, 1, (n_arms, d))
    for _ in range(400):
        if not fixed:
            x = rng.uniform(-1, 1, (n_arms, d))
        means, noise = x @ theta + effects, rng.normal(size=n_arms)
        decision = policy.decide(x * features)
        chosen.append(decision.arm)
        reward = factor * (means[decision.arm] + noise[decision.arm]) + shift
        policy.update(decision.arm, decision.context, float(reward))
    return chosen


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_units_do_not_matter(kind: Any, fixed: bool, seed: int) -> None:
    """Rewards or features in other units, or a constant added to all rewards, leave 99 % of the decisions as they were."""
    usual = np.array(choices(kind, fixed, seed))
    for units in UNITS:
        other = np.array(choices(kind, fixed, seed, **units))
        assert np.mean(other[50:] == usual[50:]) >= 0.99, units


def test_nothing_is_learned_before_there_is_a_scale(rng: np.random.Generator) -> None:
    """Before the first estimate all arms are alike, to the last bit, whatever the first rewards are."""
    for kind in KINDS:
        policy = kind(n_features=3, seed=1)
        for i in range(9):
            policy.update(i % 4, rng.normal(size=3), 1e6 * rng.normal())
        x = rng.normal(size=(6, 3))
        mean, std = policy.predict(x)
        assert len(set(mean.tolist())) == 1
        assert len(set(std.tolist())) == 1
        # Arms 0 to 3 have rewards, the others none: see test_first_choices.py.
        assert policy.probabilities(x) == pytest.approx(np.array([1, 1, 1, 1, 8, 8]) / 20)
        policy.update(0, rng.normal(size=3), 1.0)
        assert len(set(policy.predict(x).mean.tolist())) == 6


def test_equal_rewards_are_waited_out() -> None:
    """As long as all rewards are equal there is no scale; the next multiple of ten after the first other one has it."""
    policy = rolin.RoLinTS(n_features=1, seed=0)
    for i in range(57):
        policy.update(i % 3, [np.sin(i)], 0.1)
        assert policy.scale_history == []
    policy.update(0, [1.0], 0.7)
    for i in range(2):
        policy.update(i, [np.sin(i)], 0.1)
    assert [event.seen for event in policy.scale_history] == [60]
    assert 0.01 < policy.scales.noise_std < 1.0
    assert policy.scales.intercept_mean == pytest.approx((59 * 0.1 + 0.7) / 60)


@pytest.mark.parametrize("still", [10, 50])
def test_a_quiet_start_is_forgiven(still: int) -> None:
    """The first rewards are all 0, as if arms were alike; then they differ.

    In 40 runs of 1000 rounds, the best of five arms is found more often than by a policy that is told the scales.
    """
    told = {"noise_std": 1.0, "arm_std": 0.75, "coef_std": 1.0, "intercept_std": 1.0}
    found = []
    for options in ({}, told):
        found.append(0)
        for run in range(40):
            policy: Any = rolin.RoLinTS(n_features=0, seed=run, **options)  # type: ignore[arg-type]  # numbers
            rng = np.random.default_rng(run)
            for t in range(1000):
                arm = policy.decide(np.empty((5, 0))).arm
                policy.update(arm, [], 0.0 if t < still else arm + rng.normal())
            found[-1] += int(policy.predict(np.empty((5, 0))).mean.argmax() == 4)
    assert found[0] > found[1]


def test_guesses_by_hand() -> None:
    """Two arms, rewards 0, 2 and 4, 6: mean 3, variance 5; the feature has mean 1 and variance 1."""
    moments = rolin.Moments.of(
        ["a", "a", "b", "b"], [[0.0], [2.0], [0.0], [2.0]], [0.0, 2.0, 4.0, 6.0]
    )
    unknown = {"noise_std", "arm_std", "coef_std"}
    scales = rolin.Scales(intercept_std=1.0)
    found = guess_scales(moments, scales, unknown)
    assert found is not None
    assert found.noise_std == pytest.approx(5**0.5)
    assert found.arm_std == pytest.approx(0.5 * 5**0.5)
    assert found.coef_std == pytest.approx((5**0.5,))
    level = with_learned_intercept(moments, found)
    assert level.intercept_mean == pytest.approx(3.0)
    assert level.intercept_std == pytest.approx((5 + 5 * 1.0**2) ** 0.5)
    assert guess_scales(moments, scales, {"arm_std"}) == rolin.Scales(
        intercept_std=1.0, arm_std=0.5, noise_std=1.0
    )


MILLIONTHS = st.floats(-9, 9).map(lambda value: round(value, 6))


def test_features_in_other_units_have_other_guesses(rng: np.random.Generator) -> None:
    """Standard deviations of 1, 1, 2 and 1000: the first three are alike, the last one is brought to a factor of 4."""
    x = rng.normal(size=(4000, 4)) * [1.0, 1.0, 2.0, 1000.0]
    moments = rolin.Moments.of(rng.integers(5, size=4000).tolist(), x, rng.normal(size=4000))
    found = guess_scales(moments, rolin.Scales(intercept_std=1.0), {"coef_std"})
    assert found is not None
    first, second, third, last = found.coef_std  # type: ignore[misc]  # one per feature
    assert first == second == third
    usual = 1.5  # the median
    assert last / first == pytest.approx(4 * usual / 1000, rel=0.1)
    explained = np.sum((np.array(found.coef_std) * x.std(axis=0)) ** 2)
    assert explained == pytest.approx(found.noise_std**2, rel=1e-3)


@given(
    st.lists(st.tuples(st.integers(0, 3), MILLIONTHS, MILLIONTHS), min_size=3, max_size=20),
    st.floats(1e-3, 1e3),
    st.floats(1e-3, 1e3),
)
def test_guesses_have_units(rows: Any, reward_unit: float, feature_unit: float) -> None:
    """Noise and effects are in the unit of the rewards, coefficients in that of rewards over features."""
    arms, x, r = (np.array(column) for column in zip(*rows, strict=True))
    scales = rolin.Scales(intercept_std=1.0, **placeholders({"noise_std"}, has_intercept=True))
    unknown = {"noise_std", "arm_std", "coef_std"}
    one = guess_scales(rolin.Moments.of(arms.tolist(), x[:, None], r), scales, unknown)
    other = guess_scales(
        rolin.Moments.of(arms.tolist(), feature_unit * x[:, None], reward_unit * r), scales, unknown
    )
    assert (one is None) == (other is None)
    if one is not None and other is not None and np.ptp(r) > 1e-6 and np.ptp(x) > 1e-6:
        assert other.noise_std == pytest.approx(reward_unit * one.noise_std, rel=1e-6)
        assert other.arm_std == pytest.approx(reward_unit * one.arm_std, rel=1e-6)
        expected = np.array(one.coef_std) * reward_unit / feature_unit
        assert other.coef_std == pytest.approx(tuple(expected.tolist()), rel=1e-6)


def test_a_file_continues_as_the_policy(tmp_path: Path, rng: np.random.Generator) -> None:
    """Before and after the first estimate, and after features were appended, to the bit."""
    policy = rolin.RoLinTS(n_features=2, seed=4)
    assert rolin.RoLinTS(**json.loads(json.dumps(policy.settings))).settings == policy.settings
    for n in (5, 7, 30):
        for _ in range(n):
            x = rng.normal(size=policy.n_features)
            policy.update(int(rng.integers(4)), x, float(rng.normal() + 5))
        policy.save(tmp_path / "state")
        again = rolin.load(tmp_path / "state", rolin.RoLinTS)
        assert again.scales == policy.scales
        assert again.scale_history == policy.scale_history
        assert again.exploration == policy.exploration
        for name, array in policy.posterior.arrays().items():
            np.testing.assert_array_equal(again.posterior.arrays()[name], array, err_msg=name)
        policy = again
        if n == 7:
            policy.posterior.extend(3)
            policy.settings["n_features"] = 3
            assert isinstance(policy.scales.coef_std, tuple)
            first, second, new = policy.scales.coef_std
            assert new == pytest.approx((first * second) ** 0.5)


def test_automatic_exploration_by_hand() -> None:
    """0.1 + 0.9 c and ½ (1 - c): with three rewards of one arm and one of another, c = (¾)² + (¼)² = ⅝."""
    policy = rolin.RoLinTS(n_features=0, seed=0)
    assert policy.draw_rule() == (0.1, 0.5)
    for arm in ("a", "a", "a", "b"):
        policy.update(arm, [], 1.0)
    assert policy.exploration == pytest.approx(0.1 + 0.9 * 5 / 8)
    assert policy.optimism == pytest.approx(0.5 * 3 / 8)
    assert policy.settings["exploration"] == "auto"
    policy.exploration = 0.3
    assert policy.exploration == policy.settings["exploration"] == 0.3
    assert policy.optimism == 0.0
    policy.exploration = "auto"
    assert policy.exploration > 0.3


@pytest.mark.parametrize("kind", [rolin.RoLinTS, rolin.BayesRoLinTS])
def test_concentration_follows_every_change(kind: Any, rng: np.random.Generator) -> None:
    """Updates with weights, batches, decay and files: it is Σ H²/(Σ H)² of the moments."""
    policy = kind(n_features=1, seed=0, exploration="auto")

    def check() -> None:
        weights = policy.moments.weight
        concentration = np.sum(weights**2) / weights.sum() ** 2
        assert policy.exploration == pytest.approx(0.1 + 0.9 * concentration, rel=1e-12)
        assert policy.optimism == pytest.approx(0.5 * (1.0 - concentration), abs=1e-12)

    for i in range(25):
        policy.update(int(rng.integers(5)), [1.0 * i], 1.0 * (i % 2), weight=0.5 + rng.random())
        check()
    policy.update_many([1, 2, "new"], rng.normal(size=(3, 1)), [1.0, 0.0, 1.0])
    check()
    policy.decay(0.7)
    check()
    policy.update(1, [1.0], 1.0)
    check()
    again = kind.from_state(policy.state())
    assert again.exploration == policy.exploration  # to the bit
    policy.update(2, [1.0], 1.0, weight=1e160)  # its square overflows
    assert policy.draw_rule() == (1.0, 0.0)


def test_an_intercept_has_one_source() -> None:
    """A mean for a learned intercept is refused; `None` leaves it out."""
    with pytest.raises(rolin.errors.ParameterError, match=r"with intercept_std=.learn."):
        rolin.RoLinTS(n_features=1, intercept_mean=2.0)
    assert rolin.RoLinTS(n_features=1, intercept_std=None).posterior.size == 1
    assert rolin.RoLinTS(n_features=1).posterior.size == 2


def test_before_there_are_scales_nothing_is_made_up(rng: np.random.Generator) -> None:
    """A diagnosis cannot tell, a plan is refused, and equal rewards have no intervals to check."""
    policy = rolin.RoLinTS(n_features=2, seed=0)
    for i in range(5):
        policy.update(i % 3, rng.normal(size=2), float(rng.normal()))
    assert policy.diagnose().answer == "cannot tell"
    with pytest.raises(
        rolin.errors.Unsupported, match="5 rewards, expected at least 10 that are not all equal"
    ):
        rolin.plan_exploration(policy, 10, rng.normal(size=(3, 4, 2)))
    bandit = rolin.Bandit(rolin.RoLinTS(n_features=2, seed=0))
    for _ in range(90):
        bandit.reward(bandit.decide(rng.normal(size=(4, 2))).id, 0.7)
    with pytest.raises(rolin.errors.DataError, match="all rewards of the log are equal"):
        rolin.offline.check_intervals(bandit)


def test_intervals_of_a_policy_with_defaults_can_be_checked(rng: np.random.Generator) -> None:
    """All learned scales are kept, the intercept with its mean."""
    bandit = rolin.Bandit(rolin.RoLinTS(n_features=1, seed=0))
    for _ in range(120):
        decision = bandit.decide(rng.normal(size=(4, 1)))
        bandit.reward(decision.id, float(1000 + decision.context[0] + rng.normal()))
    check = rolin.offline.check_intervals(bandit, bandit.policy)
    assert 0.5 < check.width.noise_factor < 2.0


@pytest.mark.parametrize("kind", [rolin.RoLinUCB, rolin.LinUCB, rolin.LinTS, rolin.RoLinTS])
@pytest.mark.parametrize("sampling", [None, "joint"])
def test_without_an_intercept_all_arms_are_tried_too(kind: Any, sampling: Any) -> None:
    """An arm with a larger context that always pays 0 does not hide one that pays 1."""
    if sampling and kind not in (rolin.LinTS, rolin.RoLinTS):
        return
    options = {"sampling": sampling} if sampling else {}
    policy = kind(n_features=2, intercept_std=None, seed=0, **options)
    arms = {"large": [3.0, 0.0], "good": [0.0, 1.0]}
    if kind in (rolin.RoLinUCB, rolin.RoLinTS):  # the others start from guesses
        p, error = policy.probabilities_with_error(np.array(list(arms.values())))
        assert (np.abs(p - 0.5) <= 5 * error + 1e-9).all()
    with pytest.raises(rolin.errors.NotFiniteError, match="contexts"):
        policy.decide(np.array([[np.nan, 0.0], [0.0, 1.0]]))
    chosen = []
    for _ in range(200):
        decision = policy.decide(arms)
        chosen.append(decision.arm)
        policy.update(decision.arm, decision.context, float(decision.arm == "good"))
    assert chosen[-100:].count("good") > 90


@pytest.mark.parametrize("options", [{}, {"noise_std": ("learn", 1.0), "arm_std": ("learn", 0.5)}])
def test_a_long_time_without_clicks_does_not_end_learning(options: Any) -> None:
    """If everything that is remembered is equal, the scales stay; the noise does not shrink to nothing."""
    policy = rolin.RoLinTS(n_features=0, half_life=5.0, seed=0, **options)
    for i in range(100):
        policy.update(i % 3, [], float(i % 2))
    for i in range(6000):
        policy.update(i % 3, [], 0.0)
    assert policy.scales.noise_std > 1e-9
    for i in range(100):
        policy.update(i % 3, [], float(i % 2))
    assert 0.1 < policy.scales.noise_std < 1.0
