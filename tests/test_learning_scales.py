"""Policies that learn their scales: the values, when they come, and what they are good for."""

from __future__ import annotations

import copy
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rolin
from rolin.errors import NotFiniteError, ParameterError, ScaleWarning
from rolin.model.adaptive import Adaptive
from rolin.model.estimation import estimate_scales
from rolin.model.logistic import AdaptiveLogistic
from rolin.model.scales import Scales
from rolin.model.slopes import AdaptiveSlopes

# Thompson sampling with numbers as scales, and with scales learned from guesses.
KNOWN: dict[str, Any] = {
    "arm_std": 0.5, "noise_std": 1.0, "coef_std": 1.0, "intercept_std": None, "exploration": 1.0,
}  # fmt: skip
LEARN: dict[str, Any] = {
    **KNOWN, "arm_std": ("learn", 0.75), "noise_std": ("learn", 3.0), "coef_std": ("learn", 3.0),
}  # fmt: skip
LEVEL: dict[str, Any] = {**LEARN, "intercept_std": 1.0}


def played(policy: Any, rounds: int, rng: np.random.Generator, n_arms: int = 8) -> Any:
    """A policy that has played a robust linear bandit, and its history."""
    theta, effects = rng.normal(size=policy.n_features), 0.5 * rng.normal(size=n_arms)
    for _ in range(rounds):
        decision = policy.decide(rng.uniform(-1, 1, (n_arms, policy.n_features)))
        mean = decision.context @ theta + effects[decision.arm]
        policy.update(decision.arm, decision.context, float(mean + rng.normal()))
    return policy


@pytest.mark.parametrize("method", ["map", "ml", "reml", "moments"])
def test_what_is_learned_is_the_estimate(method: Any, rng: np.random.Generator) -> None:
    """When scales are due, they become what `estimate` finds, and the posterior that of those."""
    policy = rolin.RoLinTS(n_features=3, learn_by=method, seed=1, **LEARN)
    played(policy, 45, rng)
    event = policy.scale_history[-1]
    assert event.seen == 45
    guess = rolin.Scales(noise_std=3.0, arm_std=0.75, coef_std=3.0)
    found = estimate_scales(policy.moments, method=method, prior=guess).scales
    for name in ("noise_std", "arm_std", "coef_std"):
        assert getattr(policy.scales, name) == pytest.approx(getattr(found, name), rel=1e-6)
    expected = rolin.Posterior.of(policy.scales, policy.moments)
    x = rng.normal(size=(8, 3))
    for a, b in zip(policy.posterior.predict(x), expected.predict(x), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)
    assert policy.posterior.log_evidence == pytest.approx(expected.log_evidence, rel=1e-9)


def test_the_schedule_is_geometric(rng: np.random.Generator) -> None:
    """Estimates come after 10 rewards and then after half as much more: few, however many rewards."""
    policy = played(
        rolin.RoLinTS(n_features=2, seed=0, **{**KNOWN, "arm_std": ("learn", 0.5)}), 350, rng
    )
    assert [event.seen for event in policy.scale_history] == [
        10, 20, 30, 45, 67, 100, 150, 225, 337,
    ]  # fmt: skip
    assert all(event.scales.noise_std == 1.0 for event in policy.scale_history)
    assert len({event.scales.arm_std for event in policy.scale_history}) > 5


def test_a_batch_learns_scales_where_single_updates_do(rng: np.random.Generator) -> None:
    """One batch of 200 rewards leaves the state that 200 updates leave, history included."""
    one, many = (rolin.RoLinTS(n_features=3, seed=0, **LEARN) for _ in range(2))
    arms, x, r = rng.integers(6, size=200), rng.normal(size=(200, 3)), rng.normal(size=200)
    for i in range(200):
        one.update(int(arms[i]), x[i], float(r[i]))
    many.update_many(arms.tolist(), x, r)
    for name, array in one.posterior.arrays().items():
        np.testing.assert_array_equal(array, many.posterior.arrays()[name], err_msg=name)
    assert one.scale_history == many.scale_history


def test_scales_can_be_waited_for(rng: np.random.Generator) -> None:
    """`wait_for_scales` keeps the scales until `settle`; `learn_scales_when_due` ends it."""
    posterior = Adaptive(Scales(), 1, learn={"noise_std"})
    posterior.wait_for_scales()
    x, r = rng.normal(size=(30, 1)), rng.normal(size=30)
    posterior.observe_many([0] * 20, x[:20], r[:20])
    assert posterior.is_due
    assert posterior.scales == Scales()
    posterior.settle(Scales(noise_std=3.0))
    assert not posterior.is_due
    assert posterior.scales.noise_std == 3.0
    posterior.learn_scales_when_due()
    posterior.observe_many([0] * 10, x[20:], r[20:])
    assert posterior.scales.noise_std != 3.0


@pytest.mark.parametrize("kind", [Adaptive, AdaptiveSlopes, AdaptiveLogistic])
def test_scales_can_be_estimated_while_the_model_learns(
    kind: type[Adaptive], rng: np.random.Generator
) -> None:
    """A task holds copies: it finds the same scales to the bit, in another thread and after further rewards."""
    learn = {"arm_std", "coef_std"} if kind is AdaptiveLogistic else {"noise_std", "arm_std"}
    slopes = {"slope_std": 0.5} if kind is AdaptiveSlopes else {}
    posterior = kind(Scales(**slopes), 2, learn=learn)
    posterior.wait_for_scales()
    arms, x = rng.integers(5, size=200).tolist(), rng.normal(size=(200, 2))
    r = (rng.random(200) < 0.3).astype(float)
    posterior.observe_many(arms[:100], x[:100], r[:100])
    expected = copy.deepcopy(posterior)
    expected.learn_scales(roughly=True)
    same = copy.deepcopy(posterior)
    task = posterior.estimation_task(roughly=True)
    posterior.observe_many(arms[100:], x[100:], r[100:])
    with ThreadPoolExecutor(1) as thread:
        found = thread.submit(task.run).result()
    assert found is not None
    assert found != posterior.scales
    same.settle(found)
    for name, array in expected.arrays().items():
        np.testing.assert_array_equal(array, same.arrays()[name], err_msg=name)
    posterior.settle(found)
    assert not posterior.is_due
    assert posterior.scales == expected.scales


def test_a_batch_that_fails_late_leaves_no_trace(rng: np.random.Generator) -> None:
    """Also when scales were learned half-way through it."""
    policy = played(rolin.RoLinTS(n_features=2, seed=0, **LEARN), 15, rng)
    before = {name: array.copy() for name, array in policy.posterior.arrays().items()}
    history = policy.scale_history
    x = rng.normal(size=(40, 2))
    x[39] = 1e200
    with pytest.raises(rolin.RolinError):
        policy.update_many(["new"] * 40, x, rng.normal(size=40))
    assert policy.scale_history == history
    for name, array in policy.posterior.arrays().items():
        np.testing.assert_array_equal(array, before[name], err_msg=name)


def test_settings_and_files_keep_what_is_learned(rng: np.random.Generator, tmp_path: Path) -> None:
    """Settings are plain JSON and make the same policy; a file keeps values and history, to the bit."""
    policy = rolin.RoLinTS(
        n_features=3, arm_std="learn", noise_std=("learn", 2.0), coef_std=("learn", [0.5, 1, 2]),
        half_life=40.0, seed=3,
    )  # fmt: skip
    again = rolin.RoLinTS(**json.loads(json.dumps(policy.settings)))
    assert again.settings == policy.settings
    assert eval(repr(policy), {"RoLinTS": rolin.RoLinTS}).settings == policy.settings
    played(policy, 77, rng)
    policy.save(tmp_path / "state")
    loaded = rolin.load(tmp_path / "state", rolin.RoLinTS)
    assert loaded.scale_history == policy.scale_history
    assert loaded.scales == policy.scales
    assert loaded.settings == policy.settings
    seeds = np.random.default_rng(5), np.random.default_rng(5)
    for one, generator in zip((policy, loaded), seeds, strict=True):
        played(one, 60, generator)
    assert loaded.scale_history == policy.scale_history
    np.testing.assert_array_equal(loaded.posterior._factor, policy.posterior._factor)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"arm_std": "lern"}, "arm_std='lern', expected a number or 'learn'"),
        ({"arm_std": ("learn",)}, "expected .'learn', number"),
        ({"noise_std": ("learn", -1.0)}, "noise_std=-1.0"),
        ({"coef_std": ("learn", [1.0, 0.0])}, r"coef_std\[1\]=0.0"),
        ({"learn_by": "best"}, "learn_by='best', expected one of"),
        ({"learn_by": "reml"}, "learn_by='reml', but no scale is given as 'learn'"),
        ({"half_life": 0.0}, "half_life=0.0, expected a number of at least 0.01"),
        ({"half_life": 1e-6}, "half_life=1e-06, expected a number of at least"),
        ({"arm_std": ("learn", 0.0)}, "expected a positive number to start with"),
        ({"half_life": "day"}, "half_life='day', expected a number"),
    ],
)
def test_bad_options_are_refused(options: Any, message: str) -> None:
    """What cannot be learned or forgotten by is named."""
    with pytest.raises(rolin.RolinError, match=message):
        rolin.RoLinTS(n_features=2, **{**KNOWN, **options})


def test_what_cannot_learn_says_so() -> None:
    """Learning now, of a policy that has only numbers, and learning of the naive one."""
    with pytest.raises(ParameterError, match="all scales were given as numbers"):
        rolin.RoLinTS(n_features=1, **KNOWN).learn_scales()
    with pytest.raises(ParameterError, match="NaiveRoLinTS neither learns"):
        rolin.NaiveRoLinTS(n_features=1, arm_std="learn")


# -- what it is good for ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arm_std", "limits"), [(0.0, (1.25, 1.35)), (0.25, (1.15, 1.15)), (0.5, (1.15, 1.15))]
)
@pytest.mark.parametrize("runs", [8, pytest.param(20, marks=pytest.mark.slow)])
def test_regret_is_near_that_of_knowing(
    arm_std: float, limits: tuple[float, float], runs: int, seed: int
) -> None:
    """8 or 20 paired runs of the synthetic problem, from guesses three times too large.

    Regret over that of the policy that knows the scales is within the limits (for "map", and for the
    Bayesian one), give or take 3 standard errors of the paired difference. 100 runs are in the
    documentation.
    """
    world = rolin.environments.Synthetic(arm_std=arm_std)
    result = rolin.simulate(
        {
            "knowing": lambda seed: rolin.RoLinTS(
                n_features=10, seed=seed, **{**KNOWN, "arm_std": arm_std}
            ),
            "map": lambda seed: rolin.RoLinTS(n_features=10, seed=seed, **LEARN),
            "Bayesian": lambda seed: rolin.BayesRoLinTS(
                n_features=10, arm_std=0.75, noise_std=3.0, coef_std=3.0, seed=seed
            ),
        },
        world, rounds=3000, runs=runs, seed=seed, progress=False,
    )  # fmt: skip
    knowing = result.regret["knowing"][:, -1]
    for name, limit in zip(("map", "Bayesian"), limits, strict=True):
        apart = result.regret[name][:, -1] - limit * knowing
        assert apart.mean() < 3 * apart.std(ddof=1) / runs**0.5, name


@pytest.mark.parametrize("arm_std", [0.25, 0.5])
@pytest.mark.parametrize("runs", [12, pytest.param(40, marks=pytest.mark.slow)])
def test_intervals_cover_after_learning(arm_std: float, runs: int, seed: int) -> None:
    """Of 12 or 40 runs × 50 arms, 90 % intervals hold the mean reward in 90 % ± 2 points and 3 s.e. of runs."""
    shares: dict[str, list[float]] = {"map": [], "Bayesian": []}
    for run in range(runs):
        rng = np.random.default_rng([seed, run])
        theta, effects = rng.normal(size=10), arm_std * rng.normal(size=50)
        x, noise = rng.uniform(-1, 1, (1500, 50, 10)), rng.normal(size=1500)
        policies: dict[str, Any] = {
            "map": rolin.RoLinTS(n_features=10, seed=run, **LEARN),
            "Bayesian": rolin.BayesRoLinTS(
                n_features=10, arm_std=0.75, noise_std=3.0, coef_std=3.0, seed=run
            ),
        }
        for name, policy in policies.items():
            for t in range(1500):
                decision = policy.decide(x[t])
                mean = decision.context @ theta + effects[decision.arm]
                policy.update(decision.arm, decision.context, float(mean + noise[t]))
            low, high = policy.predict(x[0]).interval(0.9)
            truth = x[0] @ theta + effects
            shares[name].append(float(((low <= truth) & (truth <= high)).mean()))
    for name, covered in shares.items():
        error = np.std(covered, ddof=1) / runs**0.5
        assert abs(np.mean(covered) - 0.9) < 0.02 + 3 * error, (name, np.mean(covered))


# -- attempts to freeze it --------------------------------------------------------------------


def test_arm_std_is_never_zero(seed: int) -> None:
    """However clearly the data say that arms do not differ, the learned arm_std stays positive."""
    for i in range(20):
        rng = np.random.default_rng([seed, i])
        policy = rolin.RoLinTS(n_features=2, seed=i, **LEARN)
        x = rng.normal(size=(300, 2))
        policy.update_many(rng.integers(5, size=300).tolist(), x, x @ [1.0, 1.0])
        assert all(event.scales.arm_std > 0.0 for event in policy.scale_history)
        assert all(event.scales.noise_std > 0.0 for event in policy.scale_history)


@pytest.mark.parametrize("still", [10, 50])
def test_a_quiet_start_does_not_freeze_it(still: int) -> None:
    """The first rewards are all zero, as if there were no noise and arms were alike; then they differ.

    Those zeros mislead any policy. In 20 runs of 1000 rounds, the best of five arms is found more
    often than by a policy that is told the true noise from the start.
    """
    found = {"learned": 0, "told": 0}
    for run in range(20):
        policies = {
            "learned": rolin.RoLinTS(n_features=0, seed=run, **LEVEL),
            "told": rolin.RoLinTS(
                n_features=0, seed=run, **{**KNOWN, "intercept_std": 1.0, "arm_std": 0.75}
            ),
        }
        for name, policy in policies.items():
            rng = np.random.default_rng(run)
            for t in range(1000):
                decision = policy.decide(np.empty((5, 0)))
                reward = 0.0 if t < still else decision.arm + rng.normal()
                policy.update(decision.arm, decision.context, reward)
            found[name] += policy.decide(np.empty((5, 0))).arm == 4
    assert found["learned"] >= 14
    assert found["learned"] > found["told"]


def test_one_arm_without_noise_does_not_silence_the_others() -> None:
    """An arm that always pays 0.5 hides how noisy the better one is; that one is still found."""
    found = 0
    for run in range(20):
        rng = np.random.default_rng(run)
        policy = rolin.RoLinTS(n_features=0, seed=run, **LEVEL)
        for _ in range(3000):
            decision = policy.decide(np.empty((2, 0)), ["sure", "noisy"])
            reward = 0.5 if decision.arm == "sure" else 1.0 + rng.normal()
            policy.update(decision.arm, decision.context, reward)
        mean, _ = policy.predict({"sure": [], "noisy": []})
        found += mean[1] > mean[0]
    assert found >= 18


def test_learning_is_no_worse_than_its_guess_where_arms_differ_most(seed: int) -> None:
    """Ten arms whose features never change and whose effects are four times the guess, 40 paired runs.

    A mode at zero would make this a plain linear bandit, whose regret is linear. Regret is at most
    that of the guess itself, give or take 3 standard errors, and less than half of the linear one's.
    """
    world = rolin.environments.Synthetic(n_arms=10, n_features=2, arm_std=2.0, contexts="fixed")
    result = rolin.simulate(
        {
            "guess": lambda seed: rolin.RoLinTS(n_features=2, seed=seed, **KNOWN),
            "learned": lambda seed: rolin.RoLinTS(
                n_features=2, seed=seed,
                **{**KNOWN, **{name: ("learn", KNOWN[name]) for name in ("arm_std", "noise_std", "coef_std")}},
            ),
            "linear": lambda seed: rolin.LinTS(
                n_features=2, coef_std=1.0, noise_std=1.0, intercept_std=None, exploration=1.0, seed=seed
            ),
        },
        world, rounds=1000, runs=40, seed=seed, progress=False,
    )  # fmt: skip
    learned = result.regret["learned"][:, -1]
    apart = learned - result.regret["guess"][:, -1]
    assert apart.mean() < 3 * apart.std(ddof=1) / 40**0.5
    assert learned.mean() < 0.5 * result.regret["linear"][:, -1].mean()


def test_scales_that_cannot_be_computed_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """If an estimate fails, the reward is learned all the same and the scales stay as they were."""
    policy = rolin.RoLinTS(n_features=1, seed=0, **LEARN)

    def fails(*_: object, **__: object) -> rolin.Scales:
        raise NotFiniteError("no")

    monkeypatch.setattr("rolin.model.estimation_task.mode", fails)
    before = policy.scales
    for i in range(9):
        policy.update(i % 3, [1.0 * i], 1.0)
    with pytest.warns(ScaleWarning, match="earlier scales are still in use"):
        policy.update(0, [9.0], 1.0)
    for i in range(20):  # warnings are errors here, which fails no update
        policy.update(i % 3, [1.0 * i], 1.0)
    assert policy.posterior.count == 30
    assert policy.scales == before
    assert policy.scale_history == []


@pytest.mark.parametrize("method", ["map", "ml", "reml", "moments"])
def test_rewards_that_are_all_zero_teach_no_scales(method: Any) -> None:
    """As of a shop that has not sold anything yet; what comes then is learned."""
    policy = rolin.RoLinTS(n_features=1, seed=0, learn_by=method, **LEARN)
    for i in range(12):
        policy.update(i % 3, [np.sin(i)], 0.0)
    assert policy.scales.noise_std > 0.1
    for i in range(40):
        policy.update(i % 3, [np.sin(i)], float(i % 2))
    assert 0.1 < policy.scales.noise_std < 3.0


@pytest.mark.parametrize("unit", [1e-4, 1.0, 1e4])
@pytest.mark.parametrize(
    "learn",
    [
        ("noise_std",),
        ("noise_std", "arm_std"),
        ("noise_std", "coef_std"),
        ("noise_std", "arm_std", "coef_std"),
    ],
)
@pytest.mark.parametrize("d", [0, 2])
def test_scales_far_from_the_guess_are_found(
    unit: float, learn: Any, d: int, rng: np.random.Generator
) -> None:
    """Noise of any size is learned, whatever else is: within a third, where it is all there is."""
    guesses = {name: ("learn", KNOWN[name]) for name in learn}
    policy = rolin.RoLinTS(n_features=d, seed=0, **{**KNOWN, **guesses})
    x = rng.normal(size=(2000, d))
    r = unit * rng.normal(size=2000)
    policy.update_many(rng.integers(10, size=2000).tolist(), x, r)
    assert policy.scales.noise_std == pytest.approx(unit, rel=0.34)


def test_events_are_kept_up_to_a_limit(rng: np.random.Generator) -> None:
    """A policy that forgets fast learns its scales all the time; its file does not grow for ever."""
    policy = rolin.RoLinTS(n_features=1, seed=0, half_life=5.0, **LEARN)
    played(policy, 3000, rng)
    assert len(policy.scale_history) == 256
    assert policy.scale_history[-1].seen > 2900
