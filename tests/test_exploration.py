"""How arms are drawn: draws, probabilities, files and journals know the option `exploration`."""

from __future__ import annotations

import functools
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import rolin
from rolin import Bandit
from rolin.errors import ParameterError, RolinError, Unsupported
from rolin.journal import load_policy
from rolin.journal.folding import state_bytes
from rolin.policies.exploration import DrawRule, best_of

K, D = 5, 3
FIXED: dict[str, Any] = {"coef_std": 1.0, "noise_std": 1.0, "intercept_std": None}
POLICIES: dict[str, Any] = {
    "RoLinTS": functools.partial(rolin.RoLinTS, arm_std=0.5, **FIXED),
    "RoLinTS, joint": functools.partial(rolin.RoLinTS, sampling="joint", arm_std=0.5, **FIXED),
    "RoLinTS, defaults": rolin.RoLinTS,
    "LinTS": functools.partial(rolin.LinTS, **FIXED),
    "LinTS, joint": functools.partial(rolin.LinTS, sampling="joint", **FIXED),
    "NaiveRoLinTS": rolin.NaiveRoLinTS,
    "BayesRoLinTS": rolin.BayesRoLinTS,
    "LogisticRoLinTS": rolin.LogisticRoLinTS,
}

AUTOMATIC = [name for name in POLICIES if name != "NaiveRoLinTS"]


def trained(name: str, exploration: Any, seed: int) -> Any:
    """A policy that has learned from thirty rewards."""
    policy = POLICIES[name](n_features=D, exploration=exploration, seed=seed)
    rng = np.random.default_rng(seed)
    rewards = rng.integers(0, 2, 30).astype(float)
    policy.update_many(rng.integers(0, K, 30).tolist(), rng.normal(size=(30, D)), rewards)
    return policy


@pytest.mark.parametrize(
    ("name", "exploration"),
    [*itertools.product(POLICIES, [0.2, 1.0, 2.5]), *((name, "auto") for name in AUTOMATIC)],
)
def test_probabilities_are_those_of_the_draws(name: str, exploration: Any, seed: int) -> None:
    """Of 2000 decisions, every arm is chosen as often as stated, within 5 standard errors."""
    policy = trained(name, exploration, seed)
    x = np.random.default_rng(seed + 1).normal(size=(K, D))
    p, error = policy.probabilities_with_error(x)
    n = 2000
    chosen = np.bincount([policy.decide(x, key=i).arm for i in range(n)], minlength=K) / n
    limit = 5 * np.sqrt(p * (1 - p) / n + error**2) + 1e-3
    assert (np.abs(chosen - p) <= limit).all()


@pytest.mark.parametrize("name", POLICIES)
def test_a_factor_of_one_changes_no_bit(name: str, seed: int) -> None:
    """It is Thompson sampling: the draws are the standard normal ones, not multiplied by anything."""
    policy = trained(name, 1.0, seed)
    x = np.random.default_rng(seed).normal(size=(K, D))
    candidates, model = policy.candidates(x, None), policy._model
    rows = candidates.rows
    for key in range(20):
        if name == "BayesRoLinTS":  # it also draws scales; 1 is its default
            without = POLICIES[name](n_features=D, seed=seed)
            with_factor = POLICIES[name](n_features=D, exploration=1.0, seed=seed)
            assert without.decide(x, key=key).arm == with_factor.decide(x, key=key).arm
            continue
        if "joint" in name:
            expected = model.score_joint(x, rows, policy.normals(key, model.size + K))
        else:
            expected = model.score(x, rows, policy.normals(key, K))
        np.testing.assert_array_equal(policy.score(candidates, key).table, expected.table)
    assert "exploration" not in repr(policy)
    assert "exploration=0.5" in repr(trained(name, 0.5, seed))


@pytest.mark.parametrize("name", [name for name in POLICIES if name != "BayesRoLinTS"])
def test_a_factor_of_zero_chooses_the_highest_mean(name: str, seed: int) -> None:
    """With probability 1."""
    policy = trained(name, 0.0, seed)
    x = np.random.default_rng(seed).normal(size=(K, D))
    best = int(np.argmax(policy.predict(x).mean))
    assert {policy.decide(x, key=key).arm for key in range(20)} == {best}
    assert policy.probabilities(x)[best] == pytest.approx(1.0)


@pytest.mark.parametrize("name", AUTOMATIC)
def test_automatic_draws_add_standard_deviations_to_the_means(name: str, seed: int) -> None:
    """The scores are mean + std * (optimism + exploration * z); in joint draws, given the coefficients."""
    policy = trained(name, "auto", seed)
    exploration, optimism = policy.draw_rule()
    assert 0.1 < exploration < 1.0
    assert 0.0 < optimism < 0.5
    x = np.random.default_rng(seed).normal(size=(K, D))
    if name == "BayesRoLinTS":  # the decisions follow the probabilities, as another test shows
        plain = trained(name, exploration, seed)
        assert np.abs(policy.probabilities(x) - plain.probabilities(x)).max() > 1e-3
        return
    candidates, model = policy.candidates(x, None), policy._model
    n_coef = model.size if "joint" in name else 0
    score = model.score_joint if "joint" in name else model.score
    for key in range(20):
        draws = exploration * policy.normals(key, n_coef + K)
        draws[n_coef:] += optimism
        expected = score(x, candidates.rows, draws)
        # A product and a sum are rounded once.
        np.testing.assert_allclose(
            policy.score(candidates, key).table, expected.table, rtol=1e-12, atol=1e-14
        )
    if "joint" not in name:
        two = policy.candidates(x[:2], None)
        mean, std, _ = model.score(two.contexts, two.rows, np.zeros(2)).table
        apart = mean[0] - mean[1] + optimism * (std[0] - std[1])
        exact = stats.norm.cdf(apart / (exploration * np.hypot(*std)))
        assert policy.probabilities(x[:2])[0] == pytest.approx(exact, abs=1e-9)


@pytest.mark.parametrize("n", [1, 2, 3, 10, 100, 10_000, 1_000_000])
def test_the_best_of_several_normal_numbers(n: int) -> None:
    """∫ u n φ(u) Φ(u)^(n-1) du: 5 % too large for two, 3 % for three, and less for more."""
    u = np.linspace(-9.0, 9.0, 100_001)
    density = n * stats.norm.pdf(u) * np.exp((n - 1) * stats.norm.logcdf(u))
    exact = np.trapezoid(u * density, u)
    allowed = {2: 0.05, 3: 0.03}.get(n, 0.015)
    assert best_of(n) == pytest.approx(exact, rel=allowed, abs=1e-12)


@pytest.mark.parametrize("sampling", ["marginal", "joint"])
def test_a_class_with_draws_of_its_own_gets_them(sampling: Any, seed: int) -> None:
    """One number per arm, all with the same optimism, also if the class was made for joint sampling."""

    class Own(rolin.RoLinTS):
        def draws(self, n_arms: int, key: Any) -> Any:
            return super().draws(n_arms, key)

    policy = Own(n_features=D, sampling=sampling, arm_std=0.5, seed=seed, **FIXED)
    rng = np.random.default_rng(seed)
    policy.update_many(rng.integers(0, K, 30).tolist(), rng.normal(size=(30, D)), rng.normal(size=30))  # fmt: skip
    exploration, optimism = policy.draw_rule()
    mean, std, scores = policy.score(policy.candidates(rng.normal(size=(K, D))), 3).table
    expected = optimism + exploration * policy.normals(3, K)
    np.testing.assert_allclose((scores - mean) / std, expected, rtol=1e-9)


def test_a_catalogue_knows_the_draws_of_other_policies(seed: int) -> None:
    """A policy of one's own states the distribution of its draws by `draw_rule`, or only by `exploration`."""

    class Less(rolin.LinearPolicy):
        rule = "marginal"
        exploration = 0.3

        def draws(self, n_arms: int, key: Any) -> Any:
            return 0.3 * self.normals(key, n_arms)

    class Higher(Less):
        rule = "marginal"

        def draws(self, n_arms: int, key: Any) -> Any:
            return super().draws(n_arms, key) + 0.5

        def draw_rule(self, candidates: Any = None) -> DrawRule:
            return DrawRule(0.3, 0.5)

    rng, n = np.random.default_rng(seed), 2000
    x = rng.normal(size=(K, D))
    for kind in (Less, Higher):
        policy = kind(n_features=D, arm_std=0.5, seed=seed, **FIXED)
        policy.update_many(list(range(K)), x, rng.normal(size=K))
        catalogue = rolin.Catalogue(policy, x, arms=list(range(K)))
        p, error = catalogue.probabilities_with_error(draws=400)
        chosen = np.bincount([catalogue.decide(key=i).arm for i in range(n)], minlength=K) / n
        assert (np.abs(chosen - p) <= 5 * np.sqrt(p * (1 - p) / n + error**2) + 1e-3).all()


def test_the_naive_policy_has_no_automatic_exploration() -> None:
    """Its joint draws do not belong to arms, so a number of standard deviations cannot be added to each."""
    with pytest.raises(ParameterError, match="NaiveRoLinTS has no exploration='auto'"):
        rolin.NaiveRoLinTS(n_features=1, exploration="auto")  # type: ignore[arg-type]
    policy = rolin.NaiveRoLinTS(n_features=1)
    with pytest.raises(ParameterError, match="expected a number"):
        policy.exploration = "auto"  # type: ignore[assignment]
    policy.exploration = 0.5
    assert policy.exploration == 0.5


@pytest.mark.parametrize("exploration", [0.3, "auto"])
@pytest.mark.parametrize("name", ["RoLinTS", "RoLinTS, joint"])
def test_a_catalogue_draws_with_the_factor(name: str, exploration: Any, seed: int) -> None:
    """Its decisions are those of the policy, and its probabilities follow the factor."""
    policy = trained(name, exploration, seed)
    x = np.random.default_rng(seed).normal(size=(K, D))
    catalogue = rolin.Catalogue(policy, x, arms=list(range(K)))
    for key in range(20):
        assert catalogue.decide(key=key).arm == policy.decide(x, key=key).arm
    p, error = catalogue.probabilities_with_error(draws=400)
    exact, own = policy.probabilities_with_error(x)
    assert (np.abs(p - exact) <= 5 * np.hypot(error, own)).all()


@pytest.mark.parametrize("name", POLICIES)
def test_state_files_hold_the_factor(name: str, tmp_path: Path, seed: int) -> None:
    """Also one that was changed later."""
    policy = trained(name, 0.5, seed)
    policy.exploration = 0.25
    policy.save(tmp_path / "state")
    assert rolin.load(tmp_path / "state").settings["exploration"] == 0.25


def test_a_bandit_changes_it_while_running(tmp_path: Path) -> None:
    """As an event: replay, restart and explanation know when it was changed."""
    path = tmp_path / "j.db"
    rng = np.random.default_rng(0)
    x = rng.normal(size=(K, D))
    with Bandit(rolin.RoLinTS(n_features=D, seed=1, arm_std=0.5, **FIXED), journal=path) as bandit:
        first = bandit.decide(x, id="first")
        bandit.reward("first", 1.0)
        bandit.change_settings(exploration=0.1, floor=0.02)
        assert bandit.policy.exploration == 0.1
        second = bandit.decide(x, id="second")
        assert first.propensities is not None
        assert second.propensities is not None
        assert second.propensities.max() > first.propensities.max()
        assert second.propensities.min() >= 0.02
        assert bandit.explain("first").score is not None
        bandit.snapshot()
        bandit.change_settings(exploration=0.3)
        state = state_bytes(bandit.policy)
    for from_start in (True, False):
        policy = load_policy(path, from_start=from_start).policy
        assert state_bytes(policy) == state
    policy = rolin.RoLinTS(n_features=D, seed=1, arm_std=0.5, **FIXED)
    with Bandit(policy, journal=path) as again:
        assert again.policy.exploration == 0.3
        assert again._state.settings.floor == 0.02


def test_bad_factors_are_refused() -> None:
    """Numbers below 0, and policies that have no factor."""
    for bad in (-0.1, float("nan"), float("inf"), "much", None):
        with pytest.raises(ParameterError, match="exploration"):
            rolin.RoLinTS(n_features=1, exploration=bad)
    policy = rolin.RoLinTS(n_features=1, exploration=0.5)
    with pytest.raises(ParameterError, match="exploration=-1"):
        policy.exploration = -1
    assert policy.exploration == 0.5
    for kind in (rolin.RoLinUCB, rolin.LinUCB, rolin.LogisticRoLinUCB, rolin.Greedy):
        with pytest.raises((RolinError, TypeError), match="exploration"):
            kind(n_features=1, exploration=0.5)  # type: ignore[call-arg]
    with pytest.raises(Unsupported, match="RoLinUCB has no option `exploration`"):
        Bandit(rolin.RoLinUCB(n_features=1)).change_settings(exploration=0.5)


def test_a_bandit_can_choose_it_automatically(tmp_path: Path) -> None:
    """The setting is an event; the factor follows the rewards, also after a restart and in a replay."""
    path, x = tmp_path / "j.db", np.eye(3)
    policy = rolin.RoLinTS(n_features=3, seed=1, exploration=0.5)
    with Bandit(policy, journal=path) as bandit:
        bandit.reward(bandit.decide(x).id, 1.0)
        assert bandit.policy.exploration == 0.5
        bandit.change_settings(exploration="auto")
        for i in range(30):
            bandit.reward(bandit.decide(x).id, float(i % 3))
        weights = bandit.policy.moments.weight
        factor = 0.1 + 0.9 * np.sum(weights**2) / weights.sum() ** 2
        assert bandit.policy.exploration == pytest.approx(factor, rel=1e-12)
        state = state_bytes(bandit.policy)
    replayed = load_policy(path, from_start=True).policy
    assert state_bytes(replayed) == state
    with Bandit(journal=path) as again:
        assert again.policy.exploration == pytest.approx(factor, rel=1e-12)  # type: ignore[attr-defined]
        assert again.policy.settings["exploration"] == "auto"
    with pytest.raises(ParameterError, match="expected a number of at least 0 or 'auto'"):
        Bandit(policy).change_settings(exploration="most")  # type: ignore[arg-type]
