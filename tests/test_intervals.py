"""Whether intervals hold on a log: exact densities, error rates in simulated worlds, sources and displays."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rolin
from rolin import Bandit, Moments, Posterior, Scales
from rolin.errors import DataError, NotFiniteError, ParameterError, ShapeError
from rolin.logs import RewardLog
from rolin.model.held_out import HeldOut, estimate_width
from rolin.model.residuals import Residuals, residuals_of
from rolin.offline import DecisionLog, check_intervals

SCALES = {"noise_std": 1.0, "arm_std": 0.5, "coef_std": 1.0, "intercept_std": None}


def fixed(d: int, times: float = 1.0) -> rolin.RoLinTS:
    """A policy with given scales, or a multiple of them."""
    scales: dict[str, Any] = {
        name: value * times if value else value for name, value in SCALES.items()
    }
    return rolin.RoLinTS(n_features=d, seed=0, **scales)


def world(
    rng: np.random.Generator,
    *,
    n: int = 400,
    k: int = 20,
    d: int = 2,
    bandit: bool = True,
    interaction: float = 0.0,
    drift: float = 0.0,
) -> RewardLog:
    """The log of Thompson sampling, or of random choices; arms may have coefficients of their own, or drift."""
    theta, v = rng.normal(size=d), 0.5 * rng.normal(size=k)
    own = interaction * rng.normal(size=(k, d))
    usual = 0.5 * rng.normal(size=(k, d))
    policy = rolin.RoLinTS(n_features=d, seed=int(rng.integers(2**31)), **SCALES)  # type: ignore[arg-type]
    arms, x, r = np.empty(n, dtype=np.int64), np.empty((n, d)), np.empty(n)
    for t in range(n):
        contexts = usual + rng.normal(size=(k, d))
        arms[t] = a = policy.decide(contexts).arm if bandit else rng.integers(k)
        x[t] = contexts[a]
        r[t] = x[t] @ (theta + own[a]) + v[a] + rng.normal()
        policy.update(int(a), x[t], float(r[t]))
        v += drift * rng.normal(size=k)
    return RewardLog(arms.tolist(), x, r, np.ones(n), [f"x{j}" for j in range(d)])


def blocks_of(log: RewardLog, scales: Scales, *ends: int) -> list[HeldOut]:
    """Parts of a log as the posterior of all parts before them sees them."""
    blocks = []
    for start, end in pairwise(ends):
        past, part = slice(0, start), slice(start, end)
        moments = Moments.of(
            log.arms[past], log.contexts[past], log.rewards[past], log.weights[past]
        )
        found = residuals_of(
            Posterior.of(scales, moments), log.arms[part], log.contexts[part], log.rewards[part]
        )
        blocks.append(HeldOut(found, log.weights[part], scales.noise_std))
    return blocks


# -- the density ------------------------------------------------------------------------------


@pytest.mark.parametrize("ratio", [1e-3, 0.4, 1.0, 7.0])
def test_the_density_is_that_of_the_dense_model(ratio: float, rng: np.random.Generator) -> None:
    """Covariance of 30 later rewards of 4 arms, one of them new: from the dense posterior, times the ratio, plus noise."""
    k, d, n = 4, 2, 25
    arms, x = rng.integers(k - 1, size=n), rng.normal(size=(n, d))
    h, r = rng.uniform(0.5, 2.0, size=n), rng.normal(size=n)
    scales = Scales(noise_std=0.7, arm_std=0.6, coef_std=1.5, coef_mean=0.3, intercept_std=2.0)
    posterior = Posterior.of(scales, Moments.of(arms, x, r, h))
    z = np.column_stack([x, np.ones(n), np.eye(k)[arms]])
    prior = np.diag(1 / np.array([1.5, 1.5, 2.0, 0.6, 0.6, 0.6, 0.6]) ** 2)
    covariance = np.linalg.inv(prior + (z * h[:, None]).T @ z / 0.7**2)
    mean = covariance @ (prior @ [0.3, 0.3, 0, 0, 0, 0, 0] + z.T @ (h * r) / 0.7**2)
    arms, x = rng.integers(k, size=30), rng.normal(size=(30, d))
    h, r = rng.uniform(0.5, 2.0, size=30), rng.normal(size=30)
    z = np.column_stack([x, np.ones(30), np.eye(k)[arms]])
    found = residuals_of(posterior, arms.tolist(), x, r)
    np.testing.assert_allclose(found.values, r - z @ mean, rtol=1e-9)
    held_out = HeldOut(found, h, 0.7)
    total = ratio * z @ covariance @ z.T + np.diag(0.7**2 / h)
    determinants, quadratic = held_out.density(ratio)
    noise = np.log(0.7**2 / h).sum()
    assert determinants + noise == pytest.approx(np.linalg.slogdet(total)[1], rel=1e-9)
    assert quadratic == pytest.approx(
        (r - z @ mean) @ np.linalg.solve(total, r - z @ mean), rel=1e-9
    )
    average = np.array([(arms == a) * h / h[arms == a].sum() for a in held_out.arms])
    one = z @ covariance @ z.T + np.diag(0.7**2 / h)
    np.testing.assert_allclose(held_out.std, np.sqrt(np.diag(average @ one @ average.T)), rtol=1e-9)
    np.testing.assert_allclose(held_out.mean, average @ found.values, rtol=1e-9)


def test_the_quadratic_form_is_the_sum_of_squares_one_step_ahead(rng: np.random.Generator) -> None:
    """With f = g = 1, the density of a block is the product of one-step-ahead densities."""
    log, scales = world(rng, n=200), Scales(noise_std=1.0, arm_std=0.5)
    (block,) = blocks_of(log, scales, 80, 200)
    posterior = Posterior.of(scales, Moments.of(log.arms[:80], log.contexts[:80], log.rewards[:80]))
    squares = determinants = 0.0
    for arm, x, r in zip(log.arms[80:], log.contexts[80:], log.rewards[80:], strict=True):
        mean, std = posterior.predict(x[None], [arm])
        squares += float((r - mean[0]) ** 2 / (std[0] ** 2 + 1.0))
        determinants += math.log(std[0] ** 2 + 1.0)
        posterior.observe(arm, x, r)
    assert block.density(1.0) == pytest.approx((determinants, squares), rel=1e-9)


def test_the_estimate_maximizes_the_likelihood(rng: np.random.Generator) -> None:
    """No grid point of f and g is better, and the interval holds those that are not much worse."""
    log = world(rng, n=600)
    blocks = blocks_of(log, Scales(noise_std=1.0, arm_std=0.5), 60, 200, 600)
    found, n = estimate_width(blocks), sum(block.count for block in blocks)

    def deviance(f: float, g: float) -> float:
        parts = [block.density(f**2 / g**2) for block in blocks]
        quadratic = sum(p.quadratic for p in parts)
        return sum(p.log_determinants for p in parts) + n * math.log(g**2) + quadratic / g**2

    best = deviance(found.factor.value, found.noise_factor)
    noises = np.linspace(0.8, 1.2, 401).tolist()
    for f in (0.5, 0.8, 1.0, 1.3, 2.0):
        lowest = min(deviance(f, g) for g in noises)
        assert lowest >= best - 1e-6
        inside = found.factor.low <= f <= found.factor.high
        assert inside == (lowest - best < 3.8415) or abs(lowest - best - 3.8415) < 0.05
        if f == 1.0:
            assert found.statistic == pytest.approx(lowest - best, abs=0.02)


def test_rare_rewards_make_the_score_vary_more(rng: np.random.Generator) -> None:
    """Noise that is -0.05 or 0.95: the variance of Σ λ (z² - 1) over 4000 draws is as computed (± 5 s.e.).

    Without the kurtosis, a statistic is not divided; with it, the interval is wider and the estimate the same.
    """
    p, counts, own = 0.05, np.array([2, 4, 4, 9, 30]), 0.01
    noise = p * (1 - p)
    kurtosis = (1 - 6 * noise) / noise
    codes = np.repeat(np.arange(5), counts)
    residuals = Residuals(tuple(range(5)), codes, np.zeros((49, 1)), np.zeros(49), np.full(5, own))
    held_out = HeldOut(residuals, np.ones(49), noise**0.5)
    e = (rng.random((4000, 49)) < p) - p + (own**0.5 * rng.normal(size=(4000, 5)))[:, codes]
    means = np.add.reduceat(e, np.cumsum(counts) - counts, axis=1) / counts
    total = own + noise / counts
    scores = (own / total * (means**2 / total - 1)).sum(axis=1)
    squares = (scores - scores.mean()) ** 2
    true, normal = held_out.score_variance(1.0, kurtosis)
    assert abs(squares.mean() - true) < 5 * squares.std() / 4000**0.5
    assert true > 1.2 * normal
    assert held_out.score_variance(1.0, 0.0) == pytest.approx((normal, normal))
    block = HeldOut(residuals._replace(values=e[0]), np.ones(49), noise**0.5)
    one, other = estimate_width([block]), estimate_width([block], kurtosis=kurtosis)
    assert one.factor.value == other.factor.value
    assert other.statistic * other.inflation == pytest.approx(one.statistic)
    assert other.factor.low <= one.factor.low
    assert one.factor.high <= other.factor.high


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.01, 0.5, 3.0]))
def test_the_factor_follows_the_scales(random: int, times: float) -> None:
    """If all scales are multiplied by a number, predictions stay, and the factor is divided by the number."""
    log = world(np.random.default_rng(random), n=90, k=10, bandit=False)
    one, other = check_intervals(log, fixed(2)), check_intervals(log, fixed(2, times))
    if one.factor.value > 0.1:
        assert other.factor.value * times == pytest.approx(one.factor.value, rel=1e-3)
    assert other.factor.high * times == pytest.approx(one.factor.high, rel=1e-3)
    assert other.one_step.spread * times == pytest.approx(one.one_step.spread, rel=1e-6)
    assert other.width.noise_factor * times == pytest.approx(one.width.noise_factor, rel=1e-3)


# -- error rates ------------------------------------------------------------------------------


@pytest.mark.parametrize("worlds", [100, pytest.param(600, marks=pytest.mark.slow)])
@pytest.mark.parametrize("bandit", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_right_intervals_are_rejected_as_often_as_it_says(
    worlds: int, bandit: bool, seed: int
) -> None:
    """5 % of worlds whose model is right, also if a bandit chose (± 5 s.e.: 2.2 % of 100 worlds, 0.9 % of 600).

    The estimates are centered: half of them are above 1 (± 5 s.e.: 5 % of 100 worlds). Single rewards are in their
    90 % intervals (± 5 s.e. of 10 % of their number).
    """
    checks = [
        check_intervals(world(np.random.default_rng([seed, i]), bandit=bandit), fixed(2))
        for i in range(worlds)
    ]
    rejected = np.mean([check.p_value < 0.05 for check in checks])
    assert abs(rejected - 0.05) < 5 * (0.05 * 0.95 / worlds) ** 0.5
    held = np.array([check.one_step.coverage for check in checks])
    n = worlds * checks[0].one_step.rewards
    assert abs(held.mean() - 0.9) < 5 * (0.9 * 0.1 / n) ** 0.5
    assert (
        abs(np.mean([check.factor.value > 1.0 for check in checks]) - 0.5) < 5 * 0.5 / worlds**0.5
    )


@pytest.mark.slow
def test_learned_scales_do_not_raise_the_error_rate(seed: int) -> None:
    """They are learned from the same log, which makes the test cautious: at most 5 % of 300 worlds (+ 5 s.e. of 1.3 %)."""
    rejected = [
        check_intervals(world(np.random.default_rng([seed, i]), n=1000)).p_value < 0.05
        for i in range(300)
    ]
    assert np.mean(rejected) < 0.05 + 5 * 0.0126


def test_a_missing_interaction_makes_intervals_too_narrow(seed: int) -> None:
    """Arms with coefficients of their own, in the log of a bandit: found in 5 of 10 worlds or more."""
    verdicts = [
        check_intervals(world(np.random.default_rng([seed, i]), n=2000, interaction=1.5)).verdict
        for i in range(10)
    ]
    assert verdicts.count("too narrow") >= 5
    assert "too wide" not in verdicts


def test_drift_makes_intervals_too_narrow(seed: int) -> None:
    """Effects that wander by half their size in 100 rounds are found in all of 3 worlds."""
    for i in range(3):
        rng = np.random.default_rng([seed, i])
        assert check_intervals(world(rng, n=1500, drift=0.05), fixed(2)).verdict == "too narrow"


def click_log(rng: np.random.Generator, interaction: float = 0.0, n: int = 1500) -> RewardLog:
    """The log of a logistic bandit."""
    k, d = 20, 2
    theta, v, own = rng.normal(size=d), 0.5 * rng.normal(size=k), rng.normal(size=(k, d))
    policy = clicks()
    arms, x, y = [], np.empty((n, d)), np.empty(n)
    for t in range(n):
        contexts = rng.normal(size=(k, d))
        a = int(policy.decide(contexts).arm)
        logit = -1.0 + contexts[a] @ (theta + interaction * own[a]) + v[a]
        x[t], y[t] = contexts[a], float(rng.random() < 1 / (1 + math.exp(-logit)))
        policy.update(a, x[t], y[t])
        arms.append(a)
    return RewardLog(arms, x, y, np.ones(n), ["a", "b"])


def clicks() -> rolin.LogisticRoLinTS:
    """A logistic policy."""
    return rolin.LogisticRoLinTS(n_features=2, arm_std=0.5, coef_std=1.0, intercept_std=2.0, seed=0)


def test_clicks(seed: int) -> None:
    """Of 30 right worlds at most 7 are rejected (5 % + 5 s.e. of 4 %), of 6 with an interaction 3 or more."""
    right = [
        check_intervals(click_log(np.random.default_rng([seed, i]), n=700), clicks())
        for i in range(30)
    ]
    assert sum(check.p_value < 0.05 for check in right) <= 7
    assert math.isnan(right[0].one_step.coverage)
    assert "90 % intervals hold" not in str(right[0]).split("single rewards")[1].split("\n")[0]
    wrong = [
        check_intervals(click_log(np.random.default_rng([seed, i]), 2.0), clicks()).verdict
        for i in range(6)
    ]
    assert wrong.count("too narrow") >= 3


# -- sources and displays ---------------------------------------------------------------------


def test_all_sources_agree(rng: np.random.Generator, tmp_path: Path) -> None:
    """Rows, decisions, a bandit, and its journal; rewards in the order in which they came."""
    log = world(rng, n=150)
    policy, path = fixed(2), tmp_path / "journal.db"
    with Bandit(policy, journal=path) as bandit:
        for i, (arm, x, r) in enumerate(zip(log.arms, log.contexts, log.rewards, strict=True)):
            bandit.decide(x[None], [arm], id=f"d{i}")
            bandit.reward(f"d{i}", float(r))
        bandit.decide(log.contexts[:1], [log.arms[0]], id="open")
        found = [check_intervals(bandit), check_intervals(bandit.journal, policy)]
        assert bandit.policy.posterior.count == 150.0  # it has not learned from the check
    found += [check_intervals(path, policy), check_intervals(log, policy)]
    contexts = log.contexts[:, None, :]
    decisions = DecisionLog(
        [[arm] for arm in log.arms], contexts, [0] * 150, log.rewards, np.ones(150)
    )
    found.append(check_intervals(decisions, policy))
    for check in found[1:]:
        assert check.width == found[0].width
        assert check.one_step == found[0].one_step
        assert check.arms == found[0].arms


def test_weights_count(rng: np.random.Generator) -> None:
    """A reward of weight 4 has half the noise: residuals are as large as predicted."""
    arms, x, h = (
        rng.integers(10, size=3000),
        rng.normal(size=(3000, 2)),
        rng.choice([0.25, 1.0, 4.0], 3000),
    )
    r = x @ [1.0, -1.0] + 0.5 * rng.normal(size=10)[arms] + rng.normal(size=3000) / np.sqrt(h)
    found = check_intervals(RewardLog(arms.tolist(), x, r, h, ["a", "b"]), fixed(2))
    assert abs(found.one_step.spread - 1.0) < 5 * found.one_step.spread_error
    assert sum(arm.weight for arm in found.arms) == pytest.approx(h[1000:].sum())


def test_what_cannot_be_checked_is_rejected(rng: np.random.Generator) -> None:
    """Too few rewards, and policies without one Gaussian posterior."""
    with pytest.raises(DataError, match="80 rewards, expected at least 81"):
        check_intervals(world(rng, n=80))
    log = world(rng, n=90)
    for policy in (rolin.HLinUCB(n_features=2), rolin.BayesRoLinTS(n_features=2), "RoLinTS"):
        with pytest.raises(ParameterError, match="expected a policy with a Gaussian posterior"):
            check_intervals(log, policy)  # type: ignore[arg-type]
    with pytest.raises(NotFiniteError, match=r"rewards\[80\] is nan"):
        check_intervals(log._replace(rewards=np.append(log.rewards[:80], [np.nan] * 10)))
    with pytest.raises(ShapeError, match="context"):
        check_intervals(log, fixed(3))
    with pytest.raises(ParameterError, match="progress="):
        check_intervals(log, progress="yes")  # type: ignore[arg-type]


def test_the_same_reward_every_time() -> None:
    """With known scales nothing fails; without, there is nothing to learn them from."""
    log = RewardLog(["a", "b"] * 60, np.ones((120, 1)), np.zeros(120), np.ones(120), ["x"])
    assert check_intervals(log, fixed(1)).one_step.spread == 0.0
    for policy in (None, rolin.RoLinTS(n_features=1)):
        with pytest.raises(DataError, match="all rewards of the log are equal"):
            check_intervals(log, policy)


def test_the_result_as_text_frame_json_and_figure(rng: np.random.Generator, tmp_path: Path) -> None:
    """All hold the same numbers; one line for lists."""
    log = world(rng, n=900)
    done: list[int] = []
    found = check_intervals(log, fixed(2, 0.2), progress=done.append)
    assert sum(done) == found.one_step.rewards == 800
    assert found.verdict == "too narrow"
    assert (
        "times as large as assumed: correct noise_std, or let the policy learn it" in found.because
    )
    value, low, high = found.factor
    assert "\n" not in repr(found)
    assert f"too narrow, factor {value:.2f} ({low:.2f} to {high:.2f})" in repr(found)
    text = str(found)
    assert text.startswith("Do the intervals of arms' mean rewards hold? NO, they are too narrow.")
    assert f"multiply standard deviations by {value:.2f} ({low:.2f} to {high:.2f}" in text
    assert found.coverage.value == pytest.approx(math.erf(1.6448536 / value / 2**0.5), rel=1e-6)
    assert found.coverage.low <= found.coverage.value <= found.coverage.high
    plain = json.loads(found.to_json())
    assert plain["factor"]["value"] == value
    assert plain["verdict"] == "too narrow"
    assert len(plain["arms"]) == len(found.arms)
    frame = found.to_frame()
    assert list(frame.columns) == ["name", "weight", "observed", "predicted", "std", "z"]
    assert frame["z"].abs().is_monotonic_decreasing
    assert frame["weight"].sum() == 600
    html = found._repr_html_()
    assert html.count("<table>") == 1
    assert "too narrow" in html
    found.plot().savefig(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 5_000
    assert "cannot tell" in repr(check_intervals(world(rng, n=81, k=3), fixed(2)))


def test_names_are_escaped_in_a_notebook(rng: np.random.Generator) -> None:
    """Hostile names are text."""
    log = world(rng, n=90, k=2)
    log = log._replace(arms=[("<script>", "a&b")[arm] for arm in log.arms])
    html = check_intervals(log, fixed(2))._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
