"""Offline evaluation: independent formulas, and coverage on simulated logs."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rolin
from rolin import offline
from rolin.errors import (
    DataError,
    InputError,
    OverlapWarning,
    ParameterError,
    RolinError,
    ShapeError,
)
from rolin.logs import RewardLog
from rolin.offline import DecisionLog
from rolin.offline.estimators import groups_of, standard_error
from rolin.offline.reward_model import default_model, fitted, mean_rewards, value_variance
from support.offline_logs import EFFECT, THETA, D, K, simulated, target, truth


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


# -- verdicts and results --------------------------------------------------------------------


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
    with pytest.warns(OverlapWarning, match=r"as few as 0 rewards other than 0\.3"):
        assert "No verdict" in offline.evaluate(same, best).verdict


def test_few_clicks_are_said_to_be_few() -> None:
    """Intervals of rare rewards are too narrow, and what tells is how many there are, by their weights.

    Without weights this is their number. Rewards of many values are not rare ones.
    """
    log = simulated(np.random.default_rng(3), 300, clicks=True, rarer=4.0)
    with pytest.warns(
        OverlapWarning, match="rewards other than 0 .*: the intervals are too narrow"
    ):
        report = offline.evaluate(log, target(np.array(log.contexts)))
    assert report.rare_rewards is not None
    assert report.rare_rewards.n == log.rewards.sum()
    w = np.array([p[k] for p, k in zip(target(np.array(log.contexts)), log.chosen, strict=True)])
    w = w / log.propensity * log.rewards
    assert report.rare_rewards.effective_n == pytest.approx(w.sum() ** 2 / (w**2).sum())
    assert report.verdict.startswith("No verdict")
    assert (
        f"Effective number of rewards other than 0: {report.rare_rewards.effective_n:.0f} of"
        in str(report)
    )
    with pytest.warns(OverlapWarning, match="too narrow"):
        own = offline.evaluate(log, log.propensities or [])
    assert own.rare_rewards is not None
    assert own.rare_rewards.effective_n == pytest.approx(log.rewards.sum())
    numbers = simulated(np.random.default_rng(3), 300)
    assert offline.evaluate(numbers, log.propensities or []).rare_rewards is None


@pytest.mark.slow
def test_intervals_of_rare_clicks_hold_where_nothing_is_warned_of() -> None:
    """400 logs each. With enough clicks, 95 % intervals of IPS and DR hold in at least 91.7 % of them.

    These are 3 standard errors of 1.1 %. With about 4 effective clicks they hold in fewer, and every report warns.
    """
    for n, rarer, enough in ((300, 4.0, False), (1500, 2.0, True)):
        value, held, warned = truth(clicks=True, rarer=rarer), [], 0
        for i in range(400):
            log = simulated(np.random.default_rng([5, i]), n, clicks=True, rarer=rarer)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", OverlapWarning)
                report = offline.evaluate(log, target(np.array(log.contexts)))
            warned += bool(report.notes)
            held.append([report[m].low <= value <= report[m].high for m in ("IPS", "DR")])
        assert warned == (0 if enough else 400)
        assert (
            (np.mean(held, axis=0) >= 0.917).all()
            if enough
            else (np.mean(held, axis=0) < 0.917).all()
        )


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


# -- bad input -------------------------------------------------------------------------------


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
    rewards = RewardLog(["a"] * 50, np.zeros((50, D)), log.rewards, np.ones(50), ["x"] * D)
    for other, hint in ((rewards, "has them, read it with rolin.offline.read"), ([1] * 999, "")):
        for call in (
            lambda log: offline.evaluate(log, "uniform"),
            lambda log: offline.replay(log, rolin.Uniform(n_features=D)),
            offline.check_propensities,
            offline.lift,
        ):
            kind = type(other).__name__
            message = f"log is of type {kind}, expected a DecisionLog.*{hint}"
            with pytest.raises(ParameterError, match=message) as raised:
                call(other)
            assert len(str(raised.value)) < 200
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
