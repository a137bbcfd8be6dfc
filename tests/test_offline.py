"""Offline evaluation: independent formulas, coverage on simulated logs, and what it refuses."""

from __future__ import annotations

import json
import subprocess
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

import rolin
from rolin import Bandit, offline, policies
from rolin.errors import (
    DataError,
    InputError,
    OverlapWarning,
    ParameterError,
    RolinError,
    ShapeError,
)
from rolin.logs.export import export, to_frame
from rolin.model.draws import Scores
from rolin.offline import DecisionLog
from rolin.offline.estimators import groups_of, standard_error
from rolin.offline.reward_model import default_model, fitted, mean_rewards, value_variance
from support.bandits import Clock, play
from support.files import open_bandit_files

Floats = NDArray[np.float64]
K, D = 5, 3
THETA = np.array([0.5, -0.3, 0.2])
EFFECT = np.array([0.3, -0.2, 0.0, 0.1, -0.4])


def softmax(scores: Floats) -> Floats:
    """Return probabilities."""
    e = np.exp(scores)
    return e / e.sum(axis=-1, keepdims=True)


def logging_policy(x: Floats) -> Floats:
    """Prefers some arms and some contexts, with a floor."""
    return 0.75 * softmax(x[..., 0] + np.array([0, 0.5, -0.5, 0.3, 0])) + 0.05


def target(x: Floats, arms: Any = None) -> Floats:
    """Another one."""
    return softmax(2 * x @ np.array([1.0, 0.0, 0.5]) + np.array([0, 0.2, 0.4, 0, 0]))


def simulated(
    rng: np.random.Generator, n: int = 300, *, clicks: bool = False, per_person: int = 1,
    whole: bool = True,
) -> DecisionLog:  # fmt: skip
    """Return a log; with people, all decisions for one share a mood."""
    x = rng.uniform(-1, 1, (n, K, D))
    p = logging_policy(x)
    chosen = (rng.random((n, 1)) < p.cumsum(axis=1)).argmax(axis=1)
    person = np.arange(n) // per_person
    mood = 0.4 * rng.normal(size=n)[person] if per_person > 1 else np.zeros(n)
    mean = (x @ THETA + EFFECT)[np.arange(n), chosen]
    if clicks:
        reward = (rng.random(n) < 1 / (1 + np.exp(-mean))).astype(float)
    else:
        reward = mean + mood + 0.5 * rng.normal(size=n)
    return DecisionLog(
        list(range(K)), x, chosen, reward, p if whole else p[np.arange(n), chosen],
        people=[f"p{i}" for i in person] if per_person > 1 else None,
    )  # fmt: skip


def truth(*, clicks: bool = False) -> float:
    """Return what the target is worth, by 4 million arms: to about 3e-4."""
    x = np.random.default_rng(12345).uniform(-1, 1, (800_000, K, D))
    mean = x @ THETA + EFFECT
    if clicks:
        mean = 1 / (1 + np.exp(-mean))
    return float((target(x) * mean).sum(axis=1).mean())


@pytest.mark.parametrize("kind", ["numbers", "clicks", "people"])
@pytest.mark.parametrize("n", [100, pytest.param(1000, marks=pytest.mark.slow)])
def test_estimates_are_unbiased_and_intervals_hold(kind: str, n: int) -> None:
    """1000 logs: bias within 4 standard errors, 95 % intervals hold the truth in 93 to 97 % of them.

    These are 2.9 standard errors of 0.69 %. Of 100 logs, the standard error is 2.2 % and as many of them 6.3 %.
    All estimators, with a model that is right for numbers, and linear for clicks, where DM has no right
    to be unbiased (its model is wrong) but DR has. Fixed seeds.
    """
    clicks = kind == "clicks"
    value, found = truth(clicks=clicks), dict[str, list[tuple[float, bool]]]()
    for i in range(n):
        log = simulated(
            np.random.default_rng([77, i]),
            240,
            clicks=clicks,
            per_person=4 if kind == "people" else 1,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OverlapWarning)
            report = offline.evaluate(log, target(np.array(log.contexts)))
        for e in report.estimates:
            found.setdefault(e.method, []).append((e.value - value, e.low <= value <= e.high))
    for method, results in found.items():
        errors, held = np.array(results).T
        if method == "DM" and clicks:
            continue
        assert abs(errors.mean()) < 4 * errors.std() / n**0.5, method
        assert abs(held.mean() - 0.95) <= 0.02 * (1000 / n) ** 0.5, (method, held.mean())


def test_estimates_are_the_textbooks_formulas(rng: np.random.Generator) -> None:
    """Written out with loops, weights included; DR with the same folds."""
    log = simulated(rng, 200)
    log = DecisionLog(log.arms, log.contexts, log.chosen, log.rewards, log.propensities or [], weights=rng.uniform(0.5, 2, 200))  # fmt: skip
    pi = target(np.array(log.contexts))
    report = offline.evaluate(log, pi, clip=1.5)
    h = log.weights / log.weights.sum()
    ips = snips_below = clipped = logged = 0.0
    w = []
    for i in range(200):
        weight = pi[i, log.chosen[i]] / log.propensity[i]
        w.append(weight)
        ips += h[i] * weight * log.rewards[i]
        snips_below += h[i] * weight
        clipped += h[i] * min(weight, 1.5) * log.rewards[i]
        logged += h[i] * log.rewards[i]
    assert report["logged"].value == pytest.approx(logged, rel=1e-12)
    assert report["IPS"].value == pytest.approx(ips, rel=1e-12)
    assert report["SNIPS"].value == pytest.approx(ips / snips_below, rel=1e-12)
    assert report["clipped"].value == pytest.approx(clipped, rel=1e-12)
    model = default_model(log)
    whole = fitted(model, log, np.ones(200, dtype=bool))
    direct = [whole.predict(log.contexts[i], log.arms[i]).mean @ pi[i] for i in range(200)]
    assert report["DM"].value == pytest.approx(h @ direct, rel=1e-10)
    fold = np.random.default_rng(0).permutation(200) % 5
    doubly = 0.0
    for i in range(200):
        q = fitted(model, log, fold != fold[i]).predict(log.contexts[i], log.arms[i]).mean if i % 40 == 0 else None  # fmt: skip
        if q is not None:
            parts = mean_rewards(fitted(model, log, fold != fold[i]), log, [i])[0]
            np.testing.assert_allclose(parts, q, rtol=1e-12)
    for part in range(5):
        other = fitted(model, log, fold != part)
        for i in np.flatnonzero(fold == part).tolist():
            q = other.predict(log.contexts[i], log.arms[i]).mean
            doubly += h[i] * (pi[i] @ q + w[i] * (log.rewards[i] - q[log.chosen[i]]))
    assert report["DR"].value == pytest.approx(doubly, rel=1e-10)
    weights = 200 * h * np.array(w)
    assert report.effective_n == pytest.approx(weights.sum() ** 2 / (weights**2).sum())
    # the variance of a weighted mean, written out
    each = 200 * h * (np.array(w) * log.rewards - report["IPS"].value)
    error = np.sqrt((each**2).sum() / 199 / 200)
    assert report["IPS"].std_error == pytest.approx(error, rel=1e-12)


def test_the_logging_policy_itself_gains_nothing(rng: np.random.Generator) -> None:
    """All weights are 1: IPS is the mean reward, and its paired gain exactly 0."""
    log = simulated(rng)
    report = offline.evaluate(log, log.propensities or [])
    for method in ("IPS", "SNIPS", "clipped"):
        assert report[method].value == pytest.approx(log.rewards.mean(), abs=1e-12)
        assert (report[method].gain_low, report[method].gain_high) == pytest.approx(
            (0, 0), abs=1e-12
        )
    assert report.effective_n == pytest.approx(300)
    assert report.notes == ()


@pytest.mark.parametrize("kind", ["numbers", "clicks", "no features"])
def test_the_models_variance_is_that_of_joint_draws(kind: str, rng: np.random.Generator) -> None:
    """Of the value by the model: 20 000 draws of all coefficients and effects, within 5 %."""
    log = simulated(rng, 60, clicks=kind == "clicks")
    if kind == "no features":
        log = DecisionLog(
            log.arms, np.zeros((60, K, 0)), log.chosen, log.rewards, log.propensities or []
        )
    pi = target(rng.uniform(-1, 1, (60, K, D)))
    pi[:, 4] = 0.3  # arm 4 is asked for often
    pi /= pi.sum(axis=1, keepdims=True)
    model: Any = default_model(log)
    if kind == "clicks":
        model = rolin.LogisticRoLinTS(n_features=D, seed=0)
    seen = fitted(model, log, log.chosen != 4)  # and was never seen
    variance = value_variance(seen, log, list(pi), np.arange(60))
    posterior = seen.posterior
    effects = posterior.arm_effects(range(K))
    chol = np.linalg.cholesky(posterior.coefficients.covariance)
    names = {name: i for i, name in enumerate(posterior.moments.arms)}
    w = posterior.shrinkage(range(K))
    n, x = 20_000, np.array(log.contexts)
    theta = posterior.coefficients.mean + rng.normal(size=(n, len(chol))) @ chol.T
    v = effects.own_variance**0.5 * rng.normal(size=(n, K))
    for name, k in names.items():
        bar = np.append(posterior.moments.mean_context[k], 1.0)
        v[:, name] += w[name] * (posterior.moments.mean_reward[k] - theta @ bar)
    values = np.zeros(n)
    for i in range(60):
        logit = theta[:, :-1] @ x[i].T + theta[:, -1:] + v
        values += (1 / (1 + np.exp(-logit)) if kind == "clicks" else logit) @ pi[i] / 60
    # of yes/no rewards the value is not linear in the draws, hence the wider margin
    assert variance == pytest.approx(np.var(values), rel=0.12 if kind == "clicks" else 0.05)


def test_people_are_not_independent(rng: np.random.Generator) -> None:
    """The error of a mean over people is that of the means of people; folds do not part them."""
    log = simulated(rng, 400, per_person=4)
    groups = groups_of(log.people, 400)
    sums = log.rewards.reshape(100, 4).mean(axis=1)
    error, k = standard_error(log.rewards - log.rewards.mean(), groups)
    assert k == 100
    assert error == pytest.approx(sums.std(ddof=1) / 10, rel=1e-12)
    assert error > 1.1 * log.rewards.std() / 20
    assert groups_of(["a", None, "a", None], 4).tolist() == [0, 1, 0, 2]
    report = offline.evaluate(log, target)
    assert report["logged"].std_error == pytest.approx(error)


# -- replay ----------------------------------------------------------------------------------


@pytest.mark.parametrize("uniform", [True, False])
@pytest.mark.parametrize("runs", [60, pytest.param(200, marks=pytest.mark.slow)])
def test_replay_is_the_policys_own_play(uniform: bool, runs: int) -> None:
    """What a learning policy gets by replay is what it gets in the world: 60 or 200 runs, 4 s.e. of each.

    It keeps about the least propensity's share of the log, and from a log that is not uniform it is no
    less right.
    """
    rng = np.random.default_rng(5)
    got, live, kept = [], [], []
    for i in range(runs):
        n = 400
        x = rng.uniform(-1, 1, (n, K, D))
        p = np.full((n, K), 1 / K) if uniform else np.clip(logging_policy(x), 0.1, None)
        p /= p.sum(axis=1, keepdims=True)
        chosen = (rng.random((n, 1)) < p.cumsum(axis=1)).argmax(axis=1)
        mean = x @ THETA + EFFECT
        log = DecisionLog(
            list(range(K)), x, chosen, mean[np.arange(n), chosen] + 0.1 * rng.normal(size=n), p
        )
        policy = rolin.RoLinTS(n_features=D, noise_std=0.1, seed=i)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OverlapWarning)
            result = offline.replay(log, policy, seed=i)
        assert policy.arms == []
        got.append(result.rewards[:20].mean())
        kept.append(len(result.rows) / n)
        alone = rolin.RoLinTS(n_features=D, noise_std=0.1, seed=1000 + i)
        rewards = []
        for _ in range(20):
            x = rng.uniform(-1, 1, (K, D))
            d = alone.decide(x)
            rewards.append(d.context @ THETA + EFFECT[d.arm] + 0.1 * rng.normal())
            alone.update(d.arm, d.context, rewards[-1])
        live.append(np.mean(rewards))
    error = np.hypot(np.std(got), np.std(live)) / runs**0.5
    assert abs(np.mean(got) - np.mean(live)) < 4 * error
    assert np.mean(kept) > 0.07


@pytest.mark.parametrize("n", [200, pytest.param(1000, marks=pytest.mark.slow)])
def test_replay_intervals(n: int) -> None:
    """A fixed policy's value is in 93 to 97 % of 1000 intervals; none of n clicks is not certainty.

    These are 2.9 standard errors of 0.69 %. Of 200 intervals, the standard error is 1.54 %.
    """
    rng = np.random.default_rng(1)
    held = 0
    value = 0.25
    for i in range(n):
        chosen = rng.integers(0, 2, 200)
        rewards = (rng.random(200) < np.where(chosen == 0, value, 0.7)).astype(float)
        log = DecisionLog(
            ["a", "b"], np.zeros((200, 2, 0)), chosen, rewards, np.full((200, 2), 0.5)
        )
        result = offline.replay(log, Always(n_features=0, seed=i), learn=False, seed=i)
        held += result.low <= value <= result.high
    assert abs(held / n - 0.95) <= 0.02 * (1000 / n) ** 0.5
    log = DecisionLog(
        ["a", "b"], np.zeros((200, 2, 0)), chosen, np.zeros(200), np.full((200, 2), 0.5)
    )
    result = offline.replay(log, Always(n_features=0), learn=False)
    assert result.value == result.low == pytest.approx(0.0, abs=1e-12)
    assert 0.01 < result.high < 0.1
    assert "replay used" in str(result)
    assert "logged: 0" in str(result)


class Always(rolin.Greedy):
    """Chooses the first arm."""

    def score(self, candidates: Any, key: Any) -> Any:
        """Prefer arms by their order."""
        return Scores(0, -np.arange(len(candidates.names), dtype=float)[None])


@pytest.mark.parametrize("kind", ["Uniform", "SafeFALCON"])
def test_what_is_kept_does_not_know_what_was_drawn(kind: str) -> None:
    """With the same seed everywhere, the value is still right: within 4 s.e."""
    rng = np.random.default_rng(3)
    n, p = 20_000, np.array([0.5, 0.3, 0.2])
    chosen = rng.choice(3, size=n, p=p)
    log = DecisionLog([0, 1, 2], np.zeros((n, 3, 0)), chosen, np.array([1.0, 2.0, 3.0])[chosen] + rng.normal(size=n), np.tile(p, (n, 1)))  # fmt: skip
    result = offline.replay(log, policies.find()[kind](n_features=0, seed=0), learn=False, seed=0)  # type: ignore[call-arg]
    assert abs(result.value - 2.0) < 4 * result.std_error


def test_replay_knows_people(rng: np.random.Generator) -> None:
    """Of 40 people with 10 decisions each, the interval is that of 40 means."""
    mood = np.repeat(rng.normal(size=40), 10)
    log = DecisionLog(["a", "b"], np.zeros((400, 2, 0)), np.zeros(400, dtype=int), mood, np.full(400, 0.5), people=[f"p{i // 10}" for i in range(400)])  # fmt: skip
    result = offline.replay(log, Always(n_features=0), learn=False)
    assert result.std_error == pytest.approx(mood[::10].std(ddof=1) / 40**0.5, rel=1e-9)


def test_replay_refuses_what_it_cannot_do(rng: np.random.Generator) -> None:
    """Arms that could not be chosen, no agreement, things that are not policies; and warns of few."""
    chosen = np.zeros(40, dtype=int)
    certain = np.tile([1.0, 0.0], (40, 1))
    log = DecisionLog(["a", "b"], np.zeros((40, 2, 0)), chosen, np.ones(40), certain)
    with pytest.raises(DataError, match="least propensity is 0"):
        offline.replay(log, rolin.Uniform(n_features=0))
    with pytest.warns(OverlapWarning, match="used only"):
        offline.replay(log, rolin.Uniform(n_features=0, seed=1), least_propensity=0.5)
    other = DecisionLog(["b", "a"], np.zeros((40, 2, 0)), chosen + 1, np.ones(40), np.full(40, 0.5))
    with pytest.raises(DataError, match="used 0 decisions"):
        offline.replay(other, Always(n_features=0))
    with pytest.raises(ParameterError, match="expected a policy"):
        offline.replay(log, "uniform")  # type: ignore[arg-type]


def test_a_replayed_copy_learns_its_scales() -> None:
    """Also one that was taken from a bandit, where scales come from the journal."""
    bandit = Bandit(rolin.RoLinTS(n_features=D, noise_std="learn", seed=1))
    log = simulated(np.random.default_rng(3), 600)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OverlapWarning)
        result = offline.replay(log, bandit.policy)
    assert isinstance(result.policy, rolin.RoLinTS)
    assert len(result.policy.scale_history) >= 1
    assert bandit.policy.scale_history == []  # type: ignore[attr-defined]


# -- overlap, calibration, lift --------------------------------------------------------------


def test_too_little_overlap_is_said(rng: np.random.Generator) -> None:
    """Few effective decisions, one that has all the weight, choices that were never possible."""
    n = 200
    p = np.tile([0.98, 0.02], (n, 1))
    chosen = np.zeros(n, dtype=int)
    chosen[:1] = 1
    log = DecisionLog(["a", "b"], np.zeros((n, 2, 0)), chosen, rng.normal(size=n), p)
    with pytest.warns(OverlapWarning) as said:
        report = offline.evaluate(log, np.tile([0.0, 1.0], (n, 1)))
    text = " ".join(str(warning.message) for warning in said)
    assert "too few for a conclusion" in text
    assert "one decision has 100 % of all weight" in text
    assert report.effective_n == pytest.approx(1.0)
    log = DecisionLog(
        ["a", "b"], np.zeros((n, 2, 0)), chosen * 0, rng.normal(size=n), np.tile([1.0, 0.0], (n, 1))
    )
    with pytest.warns(
        OverlapWarning, match="50 % of the policy's choices could not have been logged"
    ):
        report = offline.evaluate(log, "uniform")
    assert report.unsupported == pytest.approx(0.5)
    with pytest.warns(OverlapWarning):
        nothing = offline.evaluate(log, np.tile([0.0, 1.0], (n, 1)))
    assert nothing["IPS"].value == 0.0
    assert np.isnan(nothing["SNIPS"].value)
    assert json.loads(nothing.to_json())["estimates"][2]["value"] is None


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("n", [100, pytest.param(400, marks=pytest.mark.slow)])
def test_true_propensities_are_believed(whole: bool, n: int) -> None:
    """At 5 %, the test errs in at most 8 % of 400 logs (it is conservative), hardly ever at 0.1 %.

    8 % are 2.8 standard errors of 1.1 % above. Of 100 logs, the standard error is 2.2 %.
    """
    p_values = np.array(
        [
            offline.check_propensities(
                simulated(np.random.default_rng([9, i]), 500, whole=whole)
            ).p_value
            for i in range(n)
        ]
    )
    assert (p_values < 0.05).mean() < 0.05 + 0.03 * (400 / n) ** 0.5
    assert (p_values < 0.001).sum() <= (3 if n == 400 else 1)


WRONG: dict[str, Callable[[Floats, NDArray[np.int64]], Floats]] = {
    "uniform": lambda p, a: np.full_like(p, 1 / K),
    "of another arm": lambda p, a: np.roll(p, 1, axis=1),
    "too sure": lambda p, a: p**1.6 / (p**1.6).sum(axis=1, keepdims=True),
    "too unsure": lambda p, a: p**0.5 / (p**0.5).sum(axis=1, keepdims=True),
    "of the chosen arm, after the fact": lambda p, a: 0.5 * p + 0.5 * np.eye(K)[a],
}


@pytest.mark.parametrize("kind", WRONG)
def test_wrong_propensities_are_found(kind: str, rng: np.random.Generator) -> None:
    """Of 4000 decisions, at 0.1 %."""
    log = simulated(rng, 4000)
    wrong = WRONG[kind](np.array(log.propensities), log.chosen)
    bad = DecisionLog(log.arms, log.contexts, log.chosen, log.rewards, wrong)
    calibration = offline.check_propensities(bad)
    assert not calibration.ok
    assert str(calibration).startswith("the propensities are wrong (p = ")
    assert offline.check_propensities(log).ok
    with pytest.warns(OverlapWarning, match="propensities are wrong"):
        report = offline.evaluate(bad, target)
    assert str(report).endswith("The log is inconclusive.")


def test_wrong_propensities_of_chosen_arms_are_found(rng: np.random.Generator) -> None:
    """Where only those are known: a log that says uniform, and was not; half of the truth."""
    honest = simulated(rng, 4000, whole=False)
    lie = DecisionLog(
        honest.arms, honest.contexts, honest.chosen, honest.rewards, 0.5 * honest.propensity
    )
    assert not offline.check_propensities(lie).ok
    log = simulated(rng, 4000)
    bad = DecisionLog(log.arms, log.contexts, log.chosen, log.rewards, np.full(4000, 1 / K))
    assert not offline.check_propensities(bad).ok
    assert "each counted 1/p" in str(offline.check_propensities(bad))


def test_a_bandits_own_propensities_are_true(seed: int) -> None:
    """Of 1500 decisions while it learns, with a floor and a control group."""
    bandit = Bandit(
        rolin.RoLinTS(n_features=2, noise_std=0.5, seed=seed), floor=0.02, control_share=0.1
    )
    rng = np.random.default_rng(seed)
    for i in range(1500):
        decision = bandit.decide(rng.uniform(-1, 1, (4, 2)), person=f"person-{i % 300}")
        bandit.reward(decision.id, float(decision.context[0] + 0.5 * rng.normal()))
    log = offline.read(bandit)
    assert offline.check_propensities(log).p_value > 1e-4
    assert len(offline.check_propensities(log).by_propensity) > 5
    gained = offline.lift(log)
    assert gained.low > 0.1
    assert gained.n_policy + gained.n_control == 1500
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OverlapWarning)  # of some seeds, one decision weighs much
        report = offline.evaluate(log, "uniform")
    control = log.rewards[log.control].mean()
    assert report["DR"].low - 0.2 < control < report["DR"].high + 0.2
    assert "gain" in str(gained)
    with pytest.raises(DataError, match="0 decisions of the control group"):
        offline.lift(log.take(~log.control))


@pytest.mark.parametrize("n", [400, pytest.param(2000, marks=pytest.mark.slow)])
def test_lift_of_a_small_control_group(n: int) -> None:
    """500 decisions against 5: 93 to 97 % of 2000 intervals hold the truth.

    These are 4.1 standard errors of 0.49 %. Of 400 intervals, the standard error is 1.09 %.
    """
    rng = np.random.default_rng(2)
    held = 0
    control = np.arange(505) >= 500
    for _ in range(n):
        rewards = rng.normal(size=505) * np.where(control, 2.0, 1.0) - control
        log = DecisionLog(
            ["a"],
            np.zeros((505, 1, 0)),
            np.zeros(505, dtype=int),
            rewards,
            np.ones(505),
            control=control,
        )
        gained = offline.lift(log)
        held += gained.low <= 1.0 <= gained.high
    assert abs(held / n - 0.95) <= 0.02 * (2000 / n) ** 0.5


def test_propensities_of_a_log_that_learned_are_believed() -> None:
    """Where only those of chosen arms are known, and some arms are hardly ever chosen: 200 logs, none wrong."""
    wrong = 0
    for run in range(200):
        rng = np.random.default_rng([4, run])
        late = np.arange(300) >= 100
        rare = np.where(late, 10.0 ** rng.uniform(-5, -2), 0.5)
        p = np.stack([1.0 - rare, rare], axis=1)
        chosen = (rng.random(300) < rare).astype(int)
        log = DecisionLog(
            ["a", "b"], np.zeros((300, 2, 0)), chosen, np.zeros(300), p[np.arange(300), chosen]
        )
        wrong += not offline.check_propensities(log).ok
    assert wrong == 0


@pytest.mark.parametrize(("floor", "n"), [(0.0005, 50), (0.0005, 200), (0.002, 1000), (0.02, 1000)])
@pytest.mark.parametrize("logs", [60, pytest.param(300, marks=pytest.mark.slow)])
def test_nearly_certain_propensities_are_believed(floor: float, n: int, logs: int) -> None:
    """A greedy policy with a floor: in at most 2 of 300 logs they are called wrong, at 0.1 %.

    More are 3.1 standard errors above the 0.3 that are expected. Of 60 logs 0.06 are expected, and more
    than 1 are 7.7 standard errors above.
    """
    rng = np.random.default_rng(8)
    p = np.tile([1.0 - 2 * floor, floor, floor], (n, 1))
    wrong = 0
    for _ in range(logs):
        chosen = (rng.random((n, 1)) < p.cumsum(axis=1)).argmax(axis=1)
        log = DecisionLog([0, 1, 2], np.zeros((n, 3, 0)), chosen, np.zeros(n), p)
        wrong += not offline.check_propensities(log).ok
    assert wrong <= (2 if logs == 300 else 1)


# -- reading ---------------------------------------------------------------------------------


@pytest.fixture
def bandit(tmp_path: Path) -> Bandit:
    """A bandit that has decided and been rewarded."""
    bandit = Bandit(rolin.RoLinTS(n_features=2, seed=7), journal=tmp_path / "j.db", clock=Clock())
    rng = np.random.default_rng(1)
    for i in range(60):
        decision = bandit.decide(rng.normal(size=(3, 2)), ["a", "b", "c"], person=f"p{i % 7}")
        bandit.reward(decision.id, float(rng.normal()))
    return bandit


def test_all_sources_are_one_log(bandit: Bandit, tmp_path: Path) -> None:
    """A bandit, its journal, its file, and every table give the same numbers."""
    export(bandit.journal, tmp_path / "log.csv")
    export(bandit.journal, tmp_path / "log.parquet")
    sources: list[Any] = [
        bandit, bandit.journal, tmp_path / "j.db", str(tmp_path / "log.csv"), tmp_path / "log.parquet",
        to_frame(bandit.journal),
    ]  # fmt: skip
    policy = bandit.policy
    policy.save(tmp_path / "state")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OverlapWarning)
        log = offline.read(bandit)
        same = {
            str(offline.evaluate(log, t, label="it")) for t in (policy, bandit, tmp_path / "state")
        }
        assert len(same) == 1
        reports = {str(offline.evaluate(offline.read(source), "uniform")) for source in sources}
        direct = offline.evaluate(offline.read(bandit), bandit.policy)
    assert len(reports) == 1
    assert direct.policy == "RoLinTS"
    assert direct.to_frame().shape == (6, 8)
    assert direct.to_frame().loc["DR", "value"] == direct["DR"].value
    assert np.isfinite(direct.to_frame()["low"]).all()
    with pytest.raises(KeyError, match="no method 'magic'"):
        direct["magic"]
    figures = [direct.plot(), direct.calibration.plot()]
    for i, figure in enumerate(figures):
        figure.savefig(tmp_path / f"{i}.png")
        plt.close(figure)


def test_a_policy_that_has_learned_from_the_log_is_flattered(bandit: Bandit) -> None:
    """That is said; of the same policy on other decisions it is not."""
    log = offline.read(bandit)
    with pytest.warns(OverlapWarning) as said:
        report = offline.evaluate(log, bandit)
    assert any("has learned from these decisions" in str(w.message) for w in said)
    assert report.notes
    assert report.verdict == "The log is inconclusive."
    other = rolin.RoLinTS(n_features=2, seed=1)
    for i in range(30):  # alike, but not the same
        other.update(log.arms[i][log.chosen[i]], log.contexts[i][log.chosen[i]], log.rewards[i])
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        offline.evaluate(log, other)
    assert not any("has learned" in str(w.message) for w in said)


def test_the_verdict() -> None:
    """Better, worse, or that it cannot be told."""
    log = simulated(np.random.default_rng(1), 2000)
    best = np.eye(K)[(np.array(log.contexts) @ THETA + EFFECT).argmax(axis=1)]
    worst = np.eye(K)[(np.array(log.contexts) @ THETA + EFFECT).argmin(axis=1)]
    assert "it is better than the log by 0." in offline.evaluate(log, best).verdict
    assert "it is worse than the log by 0." in offline.evaluate(log, worst).verdict
    assert (
        "no difference to the log is detected"
        in offline.evaluate(log, log.propensities or []).verdict
    )
    same = DecisionLog(
        log.arms, log.contexts, log.chosen, np.full(2000, 0.3), log.propensities or []
    )
    assert "no difference to the log is detected" in offline.evaluate(same, best).verdict


def test_a_changing_control_group_is_noticed(rng: np.random.Generator) -> None:
    """Its decisions would be of another time than the policy's."""
    control = np.arange(400) < 100
    log = DecisionLog(
        ["a"],
        np.zeros((400, 1, 0)),
        np.zeros(400, dtype=int),
        rng.normal(size=400),
        np.ones(400),
        control=control,
    )
    with pytest.warns(OverlapWarning, match="50 % of the first half and 0 % of the second"):
        offline.lift(log)


def test_results_are_tables_and_short_texts(rng: np.random.Generator) -> None:
    """A line for the interpreter, an escaped table for notebooks, a frame for pandas."""
    log = simulated(rng, 300)
    hostile = "<script>alert('x')</script> & \"co\""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OverlapWarning)
        report = offline.evaluate(log, "uniform", label=hostile)
        result = offline.replay(log, rolin.RoLinTS(n_features=D, seed=0))
    html = report._repr_html_()
    assert "<script" not in html
    assert "&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt; &amp; &quot;co&quot;" in html
    assert html.count("<tr>") == 7  # the header, what was logged, and five estimators
    assert report.verdict in html
    assert "\n" not in repr(report)
    assert f"DR {report['DR'].value:.4g}" in repr(report)
    assert str(report).count("\n") > 6
    frame = result.to_frame()
    assert frame["row"].tolist() == result.rows.tolist()
    assert frame["mean_reward"].iloc[-1] == pytest.approx(result.rewards.mean())
    assert repr(result) == f"<Replay: {result}>"
    calibration = offline.check_propensities(log)
    groups = calibration.to_frame()
    assert groups["by"].tolist().count("arm") == len(calibration.by_arm)
    assert list(groups.columns) == ["by", "name", "offered", "expected", "observed", "std", "z"]
    assert "\n" not in repr(calibration)
    control = DecisionLog(
        log.arms, log.contexts, log.chosen, log.rewards, log.propensities or [],
        control=np.arange(300) % 3 == 0,
    )  # fmt: skip
    lift = offline.lift(control)
    assert lift.to_frame().iloc[0].to_dict() == lift._asdict()


def test_progress_is_reported(rng: np.random.Generator) -> None:
    """One step per decision, to a function; anything but a bool or a function is rejected."""
    log = simulated(rng, 100)
    steps: list[int] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OverlapWarning)  # 100 decisions are few
        offline.replay(log, rolin.Uniform(n_features=D, seed=0), progress=steps.append)
        assert sum(steps) == 100
        offline.evaluate(log, "uniform", progress=steps.append)
    assert sum(steps) == 200
    for wrong in ("evaluating", 1, None):
        with pytest.raises(
            ParameterError, match=r"progress=.*, expected True, False or a function"
        ):
            offline.evaluate(log, "uniform", progress=wrong)  # type: ignore[arg-type]


def test_a_table_without_all_rewards_follows_the_same_rule() -> None:
    """Refused, dropped or filled, as in a fit; NaN and null are both missing."""
    table = pd.DataFrame({
        "arm": ["a", "b", "a", "b"], "reward": [1.0, None, 0.0, 1.0], "propensity": 0.5, "x": 1.0,
    })  # fmt: skip
    with pytest.raises(DataError, match=r"row 2: column 'reward' is missing.*missing='drop'"):
        offline.read(table, features=["x"])
    assert offline.read(table, features=["x"], missing="drop").rewards.tolist() == [1.0, 0.0, 1.0]
    filled = offline.read(table, features=["x"], missing=-1.0)
    assert filled.rewards.tolist() == [1.0, -1.0, 0.0, 1.0]


def test_rankings_and_missing_rewards_are_refused() -> None:
    """Unless one says what they mean."""
    bandit = Bandit(rolin.RoLinTS(n_features=2, seed=7))
    play(bandit, 20)
    with pytest.raises(
        DataError, match="is a ranking of 2 arms, and whole rankings cannot be evaluated"
    ):
        offline.read(bandit, missing=0.0)
    with pytest.raises(
        DataError, match=r"of 20 decisions have no reward, such as 'visit-.*missing=0\.0"
    ):
        offline.read(bandit, first_rank=True)
    dropped = offline.read(bandit, first_rank=True, missing="drop")
    filled = offline.read(bandit, first_rank=True, missing=-1.0)
    assert len(dropped) < len(filled) == 20
    assert (filled.rewards == -1.0).sum() == 20 - len(dropped)
    for wrong in ("ignore", float("nan"), True):
        with pytest.raises(InputError, match="missing"):
            offline.read(bandit, first_rank=True, missing=wrong)
    silent = Bandit(rolin.RoLinTS(n_features=2, seed=7), propensities=False)
    silent.reward(silent.decide(np.eye(2)).id, 1.0)
    with pytest.raises(DataError, match="has no propensity, without which"):
        offline.read(silent)
    with pytest.raises(DataError, match="no decisions to evaluate"):
        offline.read(Bandit(rolin.RoLinTS(n_features=2)))


def test_plain_tables_offer_all_arms(rng: np.random.Generator) -> None:
    """Arm, reward, propensity and the situation's features; arms may have features of their own."""
    frame = pd.DataFrame(
        {"arm": rng.integers(0, 3, 300), "reward": rng.normal(size=300), "propensity": 1 / 3,
         "hour": rng.uniform(0, 1, 300)}
    )  # fmt: skip
    log = offline.read(frame, features=["hour"])
    assert log.arms[0] == [0, 1, 2]
    assert log.n_features == 1
    assert offline.check_propensities(log).ok
    report = offline.evaluate(log, "uniform")
    assert report["IPS"].value == pytest.approx(frame["reward"].mean())
    own: Any = {k: [float(k), 1.0] for k in range(4)}
    table = offline.read(frame, features=["hour"], arm_features=pd.DataFrame(own).T)
    assert table.contexts[5][2].tolist() == [2.0, 1.0, frame["hour"][5]]
    log = offline.read(frame, features=["hour"], arm_features=own)
    assert log.arms[0] == [0, 1, 2, 3]
    assert log.contexts[5][2].tolist() == [2.0, 1.0, frame["hour"][5]]
    with pytest.raises(DataError, match="arm 2 of the log is not among arm_features"):
        offline.read(frame, features=["hour"], arm_features={0: [1.0], 1: [1.0]})
    with pytest.raises(DataError, match="not vectors of one length"):
        offline.read(frame, features=["hour"], arm_features={0: [1.0], 1: [1.0, 2.0], 2: [1.0]})


def test_open_bandit_logs_are_read(rng: np.random.Generator, tmp_path: Path) -> None:
    """Items, affinities, positions, clicks and propensities; errors name the file."""
    folder = open_bandit_files(tmp_path / "random" / "all", rng)
    log = offline.read(folder)
    rows = pd.read_csv(folder / "all.csv")
    assert len(log) == 400
    assert log.arms[0] == list(range(6))
    i, k = 7, 3
    items = pd.read_csv(folder / "item_context.csv")
    assert log.contexts[i][k].tolist() == [
        items["item_feature_0"][k], rows[f"user-item_affinity_{k}"][i],
        float(rows["position"][i] == 2), float(rows["position"][i] == 3),
    ]  # fmt: skip
    assert log.rewards.tolist() == rows["click"].tolist()
    assert offline.evaluate(log, "uniform")["IPS"].value == pytest.approx(rows["click"].mean())
    rows.assign(click=["yes"] * 400).to_csv(folder / "all.csv")
    with pytest.raises(
        DataError, match=r"all\.csv, row 1: column 'click' is 'yes', expected a finite number"
    ):
        offline.read(folder)
    rows.drop(columns="click").to_csv(folder / "all.csv")
    with pytest.raises(DataError, match=r"all\.csv: there is no column 'click'"):
        offline.read(folder)
    with pytest.raises(DataError, match="not a campaign of the Open Bandit Dataset"):
        offline.read(tmp_path)


# -- bad input -------------------------------------------------------------------------------


def test_bad_logs_are_refused() -> None:
    """With the decision and what is wrong with it."""
    x = np.zeros((2, 2, 1))
    good: dict[str, Any] = {
        "arms": ["a", "b"], "contexts": x, "chosen": [0, 1], "rewards": [1.0, 2.0],
        "propensities": [[0.5, 0.5]] * 2,
    }  # fmt: skip
    assert len(DecisionLog(**good)) == 2
    cases: list[tuple[dict[str, Any], str]] = [
        ({"chosen": [0, 2]}, "decision 2: chosen is 2, expected an index of 2 arms"),
        ({"chosen": [0, -1]}, "decision 2: chosen is -1"),
        ({"chosen": [0.0, 1.0]}, "whole numbers"),
        ({"chosen": [0]}, "chosen has shape"),
        ({"rewards": [1.0, np.nan]}, "decision 2: rewards is nan, expected a finite number"),
        ({"propensities": [0.5, 0.0]}, "decision 2: its propensity is 0.0, expected above 0"),
        ({"propensities": [0.5, 1.5]}, "decision 2: its propensity is 1.5"),
        ({"propensities": [0.5]}, "propensities has shape"),
        ({"propensities": [[0.5, 0.6], [0.5, 0.5]]}, "decision 1: propensities are not 2 numbers"),
        ({"propensities": [[0.5, 0.5], [1.0]]}, "decision 2: propensities"),
        ({"propensities": [[0.5, 0.5], [1.0, 0.0]]}, "decision 2: its propensity is 0.0"),
        ({"propensities": [[0.5, 0.5]]}, "propensities has 1 rows, expected 2"),
        ({"contexts": x[:1]}, "contexts has 1 items"),
        ({"contexts": [x[0], x[0, :1]]}, "decision 2: contexts has shape"),
        ({"contexts": [x[0], np.zeros((2, 3))]}, r"decision 2: .*expected \(2, 1\)"),
        ({"contexts": [x[0], x[0] * np.nan]}, "decision 2: its contexts are not finite"),
        ({"contexts": [x[0], [["far"], ["off"]]]}, "decision 2: contexts is not an array"),
        ({"arms": [["a", "b"], ["a", "a"]]}, "decision 2: arms are"),
        ({"arms": [["a", "b"]]}, "arms has 1 lists of names, expected 2"),
        ({"weights": [1.0, 0.0]}, "decision 2: its weight is 0.0"),
        ({"people": ["ann"]}, "people has 1 items"),
        ({"arms": ["a", "a"]}, "arms are"),
        ({"arms": None}, "do not make a log"),
        ({"control": [True]}, "control has 1 items"),
        ({"control": ["no", "no"]}, "control is of type"),
        ({"rewards": 1.0}, "do not make a log"),
        ({"rewards": [1e200, 1.0]}, "too large"),
        ({"contexts": x + 1e200}, "too large"),
        ({"propensities": [1e-300, 0.5]}, "its propensity is 1e-300"),
        ({"ids": ["x", "y"], "rewards": [np.inf, 1.0]}, "decision x: rewards is inf"),
    ]
    for changes, message in cases:
        with pytest.raises(RolinError, match=message):
            DecisionLog(**(good | changes))


def test_bad_targets_and_options_are_refused(rng: np.random.Generator) -> None:
    """Probabilities that are none, policies of other features, levels and models that cannot be."""
    log = simulated(rng, 50)
    cases: list[tuple[Any, dict[str, Any], type[Exception], str]] = [
        ("best", {}, InputError, "expected 'uniform'"),
        (np.full((50, K), 0.3), {}, InputError, "decision 1: the policy's probabilities"),
        (np.full((49, K), 0.2), {}, ShapeError, "of 49 decisions, expected 50"),
        (np.full((50, 3), 1 / 3), {}, ShapeError, "decision 1"),
        (lambda x, arms: [1.0], {}, ShapeError, "decision 1"),
        (rolin.RoLinTS(n_features=7), {}, ShapeError, "decision 1: contexts has shape"),
        ("uniform", {"level": 1.0}, ParameterError, "level"),
        ("uniform", {"level": "high"}, ParameterError, "level"),
        ("uniform", {"clip": 0.0}, ParameterError, "clip"),
        ("uniform", {"folds": 1}, ParameterError, "folds"),
        ("uniform", {"reward_model": rolin.HLinUCB(n_features=D)}, ParameterError, "reward_model"),
        ("uniform", {"reward_model": rolin.RoLinTS(n_features=1)}, ParameterError, "1 features"),
    ]
    for policy, options, kind, message in cases:
        with pytest.raises(kind, match=message):
            offline.evaluate(log, policy, **options)
    one = DecisionLog(
        log.arms, log.contexts, log.chosen, log.rewards, log.propensities or [], people=["p"] * 50
    )
    with pytest.raises(DataError, match="for one person"):
        offline.evaluate(one, "uniform")
    for level in (0.0, 1.0, 95, np.nan):
        for call in (
            offline.lift,
            lambda log, **o: offline.replay(log, rolin.Uniform(n_features=D), **o),
        ):
            with pytest.raises(ParameterError, match="level"):
                call(log, level=level)
    raw: list[Callable[[], object]] = [
        lambda: offline.evaluate(log, None),  # type: ignore[arg-type]
        lambda: offline.evaluate(log, rolin.RoLinTS),
        lambda: offline.evaluate(log, lambda x, arms: "all"),
        lambda: offline.evaluate(log, [["a"] * K] * 50),
        lambda: offline.evaluate(log, "uniform", seed=-1),
        lambda: offline.evaluate([1, 2], "uniform"),  # type: ignore[arg-type]
        lambda: offline.check_propensities(log, bins=0),
        lambda: log.take(np.array([99])),
        lambda: offline.read(5),  # type: ignore[arg-type]
        lambda: offline.read(None),  # type: ignore[arg-type]
        lambda: offline.read([], missing=None),  # type: ignore[arg-type]
    ]
    for wrong in raw:
        with pytest.raises(RolinError):
            wrong()
    with pytest.raises(DataError, match="1 decisions, expected at least 2"):
        offline.evaluate(log.take(np.array([0])), "uniform")


def test_arms_that_a_policy_has_removed(rng: np.random.Generator) -> None:
    """It would not have been asked about them: they have probability 0, and are never agreed on."""
    log = simulated(rng, 200)
    policy = rolin.RoLinTS(n_features=D, seed=1)
    policy.update(0, [0.0] * D, 1.0)
    policy.remove_arm(0)
    report = offline.evaluate(log, policy)
    assert report["DR"].std_error > 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OverlapWarning)
        result = offline.replay(log, policy)
    assert (log.chosen[result.rows] != 0).all()


def test_a_logistic_reward_model(rng: np.random.Generator) -> None:
    """Clicks may be modelled as such; then DM predicts probabilities."""
    log = simulated(rng, 400, clicks=True)
    report = offline.evaluate(log, target, reward_model=rolin.LogisticRoLinTS(n_features=D, seed=0))
    assert 0.0 < report["DM"].low < report["DM"].value < report["DM"].high < 1.0
    assert abs(report["DM"].value - truth(clicks=True)) < 4 * report["DM"].std_error


# -- the command line ------------------------------------------------------------------------


def test_the_command_line_evaluates(
    bandit: Bandit, tmp_path: Path, run_rolin: Any, rolin_command: Any
) -> None:
    """States, uniform and learning policies, in one call; errors are one line."""
    bandit.policy.save(tmp_path / "state.safetensors")
    bandit.close()

    def cli(*arguments: object) -> subprocess.CompletedProcess[str]:
        with warnings.catch_warnings():
            warnings.simplefilter("default")  # as in a terminal; in tests they are errors
            ended: subprocess.CompletedProcess[str] = run_rolin("evaluate", *arguments)
        return ended

    run = cli(
        tmp_path / "j.db", "--policy", tmp_path / "state.safetensors", "--policy", "uniform",
        "--json", tmp_path / "report.json", "--figure", tmp_path / "report.png",
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    for method in ("logged", "IPS", "SNIPS", "clipped", "DM", "DR"):
        assert f"\n{method}" in run.stdout
    reports = json.loads((tmp_path / "report.json").read_text())
    assert [report["policy"] for report in reports][1] == "uniform"
    assert (tmp_path / "report.png").stat().st_size > 1000
    pd.DataFrame(
        {"item": ["a", "b"] * 60, "spend": [1.0, 2.0] * 60, "prob": 0.5, "hour": 0.1}
    ).to_csv(tmp_path / "plain.csv")
    pd.DataFrame({"item": ["a", "b"], "f": [1.0, 0.0]}).to_csv(tmp_path / "arms.csv", index=False)
    run = cli(
        tmp_path / "plain.csv", "--policy", "uniform", "--policy", "LinUCB", "--policy", "HLinUCB", "--arm",
        "item", "--reward", "spend", "--propensity", "prob", "--features", "hour", "--arm-features",
        tmp_path / "arms.csv", "--last", "0.99",
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert "uniform, by 119 logged decisions" in run.stdout
    assert "LinUCB, learning from the log: replay used" in run.stdout
    with Bandit(rolin.Greedy(n_features=1, seed=1), journal=tmp_path / "greedy.db") as greedy:
        for _ in range(60):
            greedy.reward(greedy.decide([[0.0], [1.0]]).id, 1.0)
    run = cli(
        tmp_path / "greedy.db", "--policy", "uniform", "--policy", "LinUCB", "--figure",
        tmp_path / "two.png",
    )  # fmt: skip
    assert run.returncode == 2  # the second cannot be replayed, but the first is there
    assert "uniform, by 60 logged decisions" in run.stdout
    assert "rolin: LinUCB: the least propensity is 0" in run.stderr
    assert (tmp_path / "two.png").exists()
    obd = open_bandit_files(tmp_path / "obd", np.random.default_rng(1))
    run = cli(obd, "--policy", "LogisticRoLinTS")
    assert "LogisticRoLinTS, learning from the log: replay used" in run.stdout, run.stderr
    for wrong in (
        [tmp_path / "j.db", "--policy", "Magic"],
        [tmp_path / "j.db", "--policy", ""],
        [tmp_path / "j.db", "--policy", "RoLinTS", "--level", "5"],
        [tmp_path / "j.db", "--policy", "RoLinTS", "--figure", tmp_path / "f.png"],
        [tmp_path / "j.db", "--policy", "uniform", "--reward", "spend"],
        [obd, "--policy", "uniform", "--reward", "spend"],
        [tmp_path / "none.db", "--policy", "uniform"],
        [tmp_path / "j.db", "--policy", "uniform", "--missing", "maybe"],
        [tmp_path / "j.db", "--policy", "uniform", "--json", tmp_path],
    ):
        code, said = rolin_command("evaluate", *wrong)
        assert code == 2
        assert said.splitlines()[-1].startswith("rolin: ")
