"""Bandits whose arms have slopes of their own: explanations, journals, logs, and commands."""

from __future__ import annotations

import functools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal
from typer.testing import CliRunner

import rolin
from rolin import Bandit, Scales, offline
from rolin.bandit import SlopeContribution
from rolin.cli.app import app
from rolin.errors import JournalError
from rolin.features import Category, FeatureMap, HashedFeatures, Number
from rolin.journal import Journal, LoggedDecision, load_policy
from rolin.journal.codec import event_of, row_of
from rolin.journal.events import ScalesLearned
from rolin.journal.folding import state_bytes
from rolin.logs.frames import RewardLog
from rolin.model.held_out import HeldOut
from rolin.model.residuals import residuals_of
from rolin.model.slopes import SlopePosterior
from rolin.offline.reward_model import fitted, value_variance
from support.bandits import play
from support.policies import fixed

ARMS = ["red", "blue", "green"]
PEOPLE = FeatureMap({"age": Number(center=40.0, scale=20.0), "gender": Category(["f", "m"])})
D = PEOPLE.n_features
SLOPES = PEOPLE.indices(["age"])


class DenseSlopes:
    """The posterior of γ = (θ, intercept?, u_1 … u_K) by conditioning one big Gaussian; u_i = (effect, slopes)."""

    def __init__(self, scales: Scales, arms: Any, x: Any, r: Any, h: Any, n_arms: int) -> None:
        d = x.shape[1]
        mean, std = scales.prior(d)
        own = scales.own_stds(d)
        self.size, self.q, self.n_arms = len(mean), len(own), n_arms
        self.slopes = scales.slope_indices(d)
        prior_mean = np.concatenate([mean, np.zeros(n_arms * self.q)])
        prior = np.diag(np.concatenate([std, np.tile(own, n_arms)]) ** 2)
        z = self.z(x, arms)
        covariance = z @ prior @ z.T + np.diag(scales.noise_std**2 / np.asarray(h))
        gain = np.linalg.solve(covariance, z @ prior).T
        self.mean = prior_mean + gain @ (r - z @ prior_mean)
        self.covariance = prior - gain @ z @ prior

    def z(self, x: Any, arms: Any) -> Any:
        """Return the rows that give the mean reward of these arms in these contexts."""
        ones = np.ones((len(x), self.size - x.shape[1]))
        rows = np.zeros((len(x), self.n_arms, self.q))
        rows[np.arange(len(x)), arms] = np.column_stack([np.ones(len(x)), x[:, self.slopes]])
        return np.column_stack([x, ones, rows.reshape(len(x), -1)])

    def own(self, arm: int, position: int) -> int:
        """Return the index of an own coefficient: 0 is the arm effect."""
        return self.size + arm * self.q + position


def visits(bandit: Bandit, n: int, seed: int = 1) -> list[LoggedDecision]:
    """Let a bandit choose for n people, whose age the arms react to differently."""
    rng = np.random.default_rng(seed)
    decisions = []
    for _ in range(n):
        situation = {"age": float(rng.integers(20, 70)), "gender": str(rng.choice(["f", "m"]))}
        decision = bandit.decide(arms=ARMS, situation=situation)
        react = {"red": 1.0, "blue": -1.0, "green": 0.0}[decision.arm]
        bandit.reward(decision.id, react * (situation["age"] - 40.0) / 20.0 + float(rng.normal()))
        decisions.append(decision)
    return decisions


# -- explanations ----------------------------------------------------------------------------


@pytest.mark.parametrize("slopes", [None, SLOPES], ids=["all", "age"])
def test_explanations_against_a_dense_oracle(slopes: list[int] | None) -> None:
    """What the shared coefficient and the arm's own slope add, for an arm and for a difference, with their std."""
    policy = fixed(
        rolin.RoLinTS, n_features=D, slope_std=0.8, slopes=slopes, intercept_std=1.3, seed=7
    )
    bandit = Bandit(policy, feature_map=PEOPLE)
    past = visits(bandit, 40)
    decision = bandit.decide(arms=ARMS, situation={"age": 65.0, "gender": "f"}, id="last")
    outcomes = [e for _, e in bandit.journal.read() if type(e).__name__ == "Outcome"]
    dense = DenseSlopes(
        policy.scales,
        np.array([ARMS.index(d.arm) for d in past]),
        np.array([d.context for d in past]),
        np.array([e.value for e in outcomes]),
        np.ones(40),
        3,
    )
    x, names = decision.offered_contexts, PEOPLE.names
    for red, sign in ((None, [1.0]), ("blue", [1.0, -1.0])):
        told = bandit.explain(decision, "red", against=red)
        arms = [0, 1][: len(sign)]
        row = np.array(sign) @ dense.z(x[arms], np.array(arms))
        assert told.mean == pytest.approx(row @ dense.mean, abs=1e-9)
        assert told.std == pytest.approx(math.sqrt(row @ dense.covariance @ row), abs=1e-9)
        total = math.fsum(c.contribution for c in told.contributions) + told.effect
        assert total == pytest.approx(told.mean, abs=1e-9)
        effect = np.zeros(len(row))
        effect[[dense.own(arm, 0) for arm in arms]] = sign
        assert told.effect == pytest.approx(effect @ dense.mean, abs=1e-9)
        assert told.effect_std == pytest.approx(math.sqrt(effect @ dense.covariance @ effect))
        for c in told.contributions:
            assert isinstance(c, SlopeContribution)
            j = names.index(c.name) if c.name in names else D
            own = np.zeros(len(row))
            where = np.flatnonzero(dense.slopes == j)
            if len(where):
                value = x[0, j]
                own[[dense.own(arm, 1 + where[0]) for arm in arms]] = value * np.array(sign)
            both = own.copy()
            both[j] = c.value
            assert c.own == pytest.approx(own @ dense.mean, abs=1e-9)
            assert c.own_std == pytest.approx(math.sqrt(own @ dense.covariance @ own), abs=1e-9)
            assert c.shared == pytest.approx(c.value * dense.mean[j], abs=1e-9)
            assert c.contribution == pytest.approx(c.shared + c.own, abs=1e-9)
            assert c.std == pytest.approx(math.sqrt(both @ dense.covariance @ both), abs=1e-9)
    told = bandit.explain(decision, "red", against="blue")
    with_slopes = {names[j] for j in dense.slopes} & {
        n for n, v in zip(names, x[0], strict=True) if v
    }
    assert {c.name for c in told.contributions} == with_slopes  # nothing else differs


def test_explanations_show_shared_and_own() -> None:
    """The text, the frame, the page and the dict have what the shared coefficient and the own slope add."""
    bandit = Bandit(fixed(rolin.RoLinTS, n_features=D, slope_std=0.8, seed=7), feature_map=PEOPLE)
    visits(bandit, 30)
    told = bandit.explain(bandit.decide(arms=ARMS, situation={"age": 65.0, "gender": "f"}))
    header = str(told).splitlines()[1].split()
    assert header == ["value", "coefficient", "shared", "own", "±", "contribution", "±"]
    widths = {len(line) for line in str(told).splitlines()[1:3]}
    assert len(widths) == 1
    frame = told.to_frame()
    assert_allclose(frame["shared"] + frame["own"], frame["contribution"], atol=1e-12)
    assert frame["contribution"].sum() == pytest.approx(told.mean)
    assert frame.iloc[-1]["own_std"] == told.effect_std
    assert ">own</th>" in told._repr_html_()
    first = told.to_dict()["contributions"][0]
    assert first["shared"] + first["own"] == pytest.approx(first["contribution"])


def test_hashed_features_share_slopes() -> None:
    """Fields that share a hashed feature share its slope; contributions still add up."""
    features = HashedFeatures(6, arm_names=False)
    bandit = Bandit(fixed(rolin.RoLinTS, n_features=6, slope_std=0.8, seed=7), feature_map=features)
    rng = np.random.default_rng(2)
    for i in range(30):
        situation = {name: float(rng.normal()) for name in "abcdefgh"}
        decision = bandit.decide(arms=ARMS, situation=situation)
        bandit.reward(decision.id, float(i % 4))
    told = bandit.explain(decision, as_of="now")
    assert len(told.contributions) == 9  # eight fields and the intercept, in six features
    total = math.fsum(c.contribution for c in told.contributions) + told.effect
    assert total == pytest.approx(told.mean, abs=1e-9)
    mean = bandit.predict(arms=[decision.arm], situation=situation).mean[0]
    assert told.mean == pytest.approx(mean, abs=1e-9)


# -- journals --------------------------------------------------------------------------------


def test_learned_scales_are_journalled(journal: Journal) -> None:
    """The events of learned scales hold those of the slopes, and the state is theirs after a restart."""
    bandit = Bandit(
        rolin.RoLinTS(n_features=2, slope_std="learn", slopes=[1], seed=3), journal=journal
    )
    play(bandit, 40)
    learned = [e for _, e in journal.read() if isinstance(e, ScalesLearned) and e.scales]
    assert len(learned) >= 2
    assert learned[-1].scales == bandit.policy.scales
    assert learned[-1].scales is not None
    assert learned[-1].scales.slopes == (1,)
    again = event_of(row_of(learned[-1]), {})
    assert again == learned[-1]
    without = ScalesLearned(1.0, Scales())
    assert "slope" not in row_of(without).body  # so an earlier version can read it
    assert event_of(row_of(without), {}) == without


@pytest.mark.parametrize("sampling", ["marginal", "joint"])
def test_a_restart_gives_the_same_state(sampling: Any, tmp_path: Path) -> None:
    """Snapshot and tail, or all events, lead to the running state: with a grown map, erasure and other settings."""
    path = tmp_path / "j.db"
    policy = rolin.RoLinTS(n_features=D, slope_std="learn", sampling=sampling, seed=3)
    more = PEOPLE.with_fields({"hour": Number(scale=24.0)})
    with Bandit(policy, feature_map=PEOPLE, journal=path, floor=0.05, control_share=0.1) as bandit:
        visits(bandit, 40)
        bandit.decay(0.9)
        bandit.snapshot()
        bandit.remove_arm("blue")
        bandit.restore_arm("blue", with_past=False)
        bandit.change_feature_map(more)
        bandit.change_settings(exploration=0.5)
        visits(bandit, 20, seed=2)
        bandit.learn_scales()
        live = state_bytes(bandit.policy)
        for from_start in (False, True):
            loaded, _ = load_policy(bandit.journal, from_start=from_start)
            assert state_bytes(loaded) == live
            mean = loaded.predict(np.ones((3, D + 1)), ARMS).mean  # type: ignore[attr-defined]
            assert_allclose(mean, bandit.policy.predict(np.ones(D + 1), ARMS).mean, rtol=1e-12)
        bandit.erase(older_than=0.0)
        assert state_bytes(bandit.policy) == live
    with Bandit(journal=path) as opened:
        assert state_bytes(opened.policy) == live
        assert opened.policy.exploration == 0.5


def test_a_journal_with_other_slopes_is_refused(tmp_path: Path) -> None:
    """A policy with slopes does not continue the journal of one without, and the other way round."""
    plain, slopes = tmp_path / "plain.db", tmp_path / "slopes.db"
    Bandit(rolin.RoLinTS(n_features=2), journal=plain).close()
    Bandit(rolin.RoLinTS(n_features=2, slope_std="learn"), journal=slopes).close()
    with pytest.raises(JournalError, match=r"slope_std=0\.0, but one with slope_std='learn' was"):
        Bandit(rolin.RoLinTS(n_features=2, slope_std="learn"), journal=plain)
    with pytest.raises(JournalError, match=r"slope_std='learn', but one with slope_std=0\.0 was"):
        Bandit(rolin.RoLinTS(n_features=2), journal=slopes)
    with pytest.raises(JournalError, match=r"slopes=None, but one with slopes=\(1,\) was given"):
        Bandit(rolin.RoLinTS(n_features=2, slope_std="learn", slopes=[1]), journal=slopes)
    Bandit(rolin.RoLinTS(n_features=2, slope_std="learn"), journal=slopes).close()


def test_floor_and_control_group() -> None:
    """Propensities are those of the policy, mixed with the floor; the control group is uniform."""
    bandit = Bandit(
        rolin.RoLinTS(n_features=D, slope_std="learn", seed=3),
        feature_map=PEOPLE,
        floor=0.1,
        control_share=0.3,
    )
    visits(bandit, 60)
    decisions = visits(bandit, 60, seed=2)
    assert {d.control for d in decisions} == {True, False}
    before = bandit.policy
    decision = bandit.decide(arms=ARMS, situation={"age": 60.0, "gender": "f"}, id="x")
    p = before.probabilities(decision.offered_contexts, ARMS)
    expected = np.full(3, 1 / 3) if decision.control else 0.7 * p + 0.1
    assert decision.propensities is not None
    assert_allclose(decision.propensities, expected, atol=1e-9)
    for d in decisions:
        assert d.propensities is not None
        assert d.propensities.sum() == pytest.approx(1.0)
        assert d.propensities.min() >= 0.1 - 1e-12


# -- offline ---------------------------------------------------------------------------------


def reacting_log(rng: np.random.Generator, n: int = 600) -> offline.DecisionLog:
    """A log of uniform choices among three arms with the same context, to which each reacts differently."""
    x = rng.normal(size=(n, 2))
    own = np.array([[1.5, 0.0], [-1.5, 0.0], [0.0, 1.5]])
    # Balanced, so that no seed contradicts the propensities.
    chosen = rng.permutation(np.arange(n) % 3)
    rewards = (x * own[chosen]).sum(axis=1) + 0.5 * rng.normal(size=n)
    contexts = np.repeat(x[:, None], 3, axis=1)
    people = [str(i % 50) for i in range(n)]
    return offline.DecisionLog(
        [ARMS] * n, contexts, chosen, rewards, np.full((n, 3), 1 / 3), people=people
    )


def test_evaluation_finds_what_slopes_are_worth(rng: np.random.Generator) -> None:
    """By DR and by replay, slopes earn more; a reward model with slopes agrees with the truth.

    The best of three arms earns E max(1.5 |x|, 1.5 y), by quadrature. After 600 rewards, a policy with slopes earns less
    than 0.05 less. Without slopes a policy chooses an arm that does not depend on the context, and earns 0.
    """
    log = reacting_log(rng)
    policies = {
        "slopes": fixed(rolin.RoLinTS, n_features=2, slope_std=1.5, exploration=0.0, seed=1),
        "paper": fixed(rolin.RoLinTS, n_features=2, exploration=0.0, seed=1),
    }
    past = reacting_log(rng)
    values = {}
    for name, policy in policies.items():
        policy.update_many(
            [ARMS[k] for k in past.chosen],
            np.array([past.contexts[i][k] for i, k in enumerate(past.chosen)]),
            past.rewards,
        )
        model = rolin.RoLinTS(n_features=2, slope_std="learn", seed=0)
        report = offline.evaluate(log, policy, reward_model=model)
        values[name] = report["DR"]
    grid = np.linspace(-8.0, 8.0, 4001)
    weights = np.exp(-(grid**2) / 2) / math.sqrt(2 * math.pi) * (grid[1] - grid[0])
    best = 1.5 * float(weights @ np.maximum(np.abs(grid)[:, None], grid[None, :]) @ weights)
    slopes, paper = values["slopes"], values["paper"]
    for found, truth, short in ((slopes, best, 0.05), (paper, 0.0, 0.2)):
        std_error = (found.high - found.low) / (2 * 1.96)
        assert abs(found.value - truth) < 5 * std_error + short
    new = rolin.RoLinTS(n_features=2, slope_std="learn", seed=1)
    replayed = offline.replay(log, new)
    assert replayed.low > 0.5
    assert new.posterior.count == 0.0  # a copy has learned


@pytest.mark.parametrize("intercept_std", [None, 2.0])
def test_variance_of_a_value_against_a_dense_oracle(
    intercept_std: float | None, rng: np.random.Generator
) -> None:
    """The posterior variance of a mean reward, and the influence of each reward on it, in groups."""
    n = 40
    contexts = rng.normal(size=(n, 3, 2))
    chosen, h = rng.integers(3, size=n), rng.uniform(0.5, 2.0, size=n)
    log = offline.DecisionLog(
        [ARMS] * n, contexts, chosen, rng.normal(size=n), np.full((n, 3), 1 / 3), weights=h
    )
    model = fixed(
        rolin.RoLinTS, n_features=2, slope_std=0.8, slopes=[1], intercept_std=intercept_std, seed=0
    )
    whole = fitted(model, log, np.ones(n, dtype=bool))
    x = contexts[np.arange(n), chosen]
    dense = DenseSlopes(model.scales, chosen, x, log.rewards, h, 3)
    targets = [rng.dirichlet(np.ones(3)) for _ in range(n)]
    f = sum(h[i] / h.sum() * targets[i] @ dense.z(contexts[i], np.arange(3)) for i in range(n))
    variance = f @ dense.covariance @ f
    alone = value_variance(whole, log, targets, np.arange(n))
    assert alone == pytest.approx(variance, rel=1e-9)
    groups = np.arange(n) % 7
    z = dense.z(x, chosen)
    influence = z @ dense.covariance @ f * h
    each = influence * (log.rewards - z @ dense.mean)
    sums = np.bincount(groups, weights=each)
    together = (sums**2).sum() * 7 / 6 - (influence**2 / h).sum()
    found = value_variance(whole, log, targets, groups)
    assert found == pytest.approx(variance + max(together, 0.0), rel=1e-9)


@pytest.mark.parametrize("ratio", [1e-3, 0.4, 1.0, 7.0])
def test_the_density_of_later_rewards(ratio: float, rng: np.random.Generator) -> None:
    """Of 30 later rewards of 4 arms, one of them new: from the dense posterior, times the ratio, plus noise."""
    k, n = 4, 25
    scales = Scales(
        noise_std=0.7, arm_std=0.6, coef_std=1.5, intercept_std=2.0, slope_std=(0.9, 0.5), slopes=(0, 2)
    )  # fmt: skip
    arms, x = rng.integers(k - 1, size=n), rng.normal(size=(n, 3))
    h, r = rng.uniform(0.5, 2.0, size=n), rng.normal(size=n)
    posterior = SlopePosterior(scales, 3)
    posterior.observe_many(arms, x, r, h)
    dense = DenseSlopes(scales, arms, x, r, h, k)
    arms, x = rng.integers(k, size=30), rng.normal(size=(30, 3))
    h, r = rng.uniform(0.5, 2.0, size=30), rng.normal(size=30)
    z = dense.z(x, arms)
    found = residuals_of(posterior, arms.tolist(), x, r)
    assert_allclose(found.values, r - z @ dense.mean, rtol=1e-9, atol=1e-12)
    known = z @ dense.covariance @ z.T
    assert_allclose(found.known_variance, np.diag(known), rtol=1e-9)
    held_out = HeldOut(found, h, 0.7)
    determinants, quadratic = held_out.density(ratio)
    total = ratio * known + np.diag(0.7**2 / h)
    expected = -2.0 * multivariate_normal(z @ dense.mean, total).logpdf(r) - 30 * math.log(
        2 * math.pi
    )
    assert determinants + np.log(0.7**2 / h).sum() + quadratic == pytest.approx(expected, rel=1e-9)
    assert quadratic == pytest.approx(found.values @ np.linalg.solve(total, found.values), rel=1e-9)
    average = np.array([(arms == a) * h / h[arms == a].sum() for a in held_out.arms])
    one = known + np.diag(0.7**2 / h)
    assert_allclose(held_out.std, np.sqrt(np.diag(average @ one @ average.T)), rtol=1e-9)


def test_intervals_hold_if_the_scales_of_slopes_are_right(rng: np.random.Generator) -> None:
    """With learned scales they hold (a test at a level of 0.01 %); with a third of the true ones they are too narrow.

    The factor has a standard error of about 0.08; the bounds are five of them away.
    """
    n, k = 3000, 30
    arms, x = rng.integers(k, size=n), rng.normal(size=(n, 2))
    own = rng.normal(size=(k, 2))
    rewards = (x * own[arms]).sum(axis=1) + 0.5 * rng.normal(size=k)[arms] + rng.normal(size=n)
    log = RewardLog(arms.tolist(), x, rewards, np.ones(n), ["a", "b"])
    learned = offline.check_intervals(log, rolin.RoLinTS(n_features=2, slope_std="learn"))
    assert learned.width.p_value > 1e-4
    assert 0.6 < learned.width.factor.value < 1.4
    small = fixed(rolin.RoLinTS, n_features=2, coef_std=0.3, arm_std=0.15, slope_std=0.3)
    found = offline.check_intervals(log, small)
    assert found.verdict == "too narrow"
    assert found.width.factor.value > 1.4


def test_export_and_import(tmp_path: Path) -> None:
    """Decisions of a situation alone are exported and imported, with the map or as vectors."""
    make = functools.partial(fixed, rolin.RoLinTS, n_features=D, slope_std=0.8, seed=3)
    bandit = Bandit(make(), feature_map=PEOPLE)
    visits(bandit, 30)
    for name in ("log.csv", "log.parquet"):
        bandit.export_log(tmp_path / name)
        other = Bandit(make(), feature_map=PEOPLE)
        assert other.import_log(tmp_path / name) == 30
        assert state_bytes(other.policy) == state_bytes(bandit.policy)
    plain = Bandit(make())
    assert plain.import_log(tmp_path / "log.csv") == 30
    x = PEOPLE.contexts(None, {"age": 30.0}, names=ARMS)
    assert_allclose(
        plain.predict(x, ARMS).mean, bandit.predict(arms=ARMS, situation={"age": 30.0}).mean
    )


# -- commands --------------------------------------------------------------------------------


def run(*arguments: str) -> str:
    """Run a command that succeeds, and return its text."""
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.filterwarnings("ignore::rolin.errors.SharedContextWarning")
def test_commands(tmp_path: Path) -> None:
    """Slopes can be given to `evaluate`, `journal import` and `simulate`, by numbers or by fields of a map."""
    bandit = Bandit(rolin.RoLinTS(n_features=D, seed=3), feature_map=PEOPLE, floor=0.3)
    visits(bandit, 90)
    log, journal = tmp_path / "log.csv", tmp_path / "j.db"
    bandit.export_log(log)
    PEOPLE.save(tmp_path / "map.json")
    mapped = ["--feature-map", str(tmp_path / "map.json")]
    run(
        "journal",
        "import",
        str(log),
        str(journal),
        "--slope-std",
        "learn",
        "--slopes",
        "age,gender",
        *mapped,
    )
    with Bandit(journal=journal) as opened:
        assert opened.policy.settings["slope_std"] == "learn"
        assert opened.policy.settings["slopes"] == tuple(PEOPLE.indices(["age", "gender"]))
        opened.policy.save(tmp_path / "state")
    report = tmp_path / "report.json"
    text = run(
        "evaluate", str(log), "--policy", "RoLinTS", "--policy", "LinTS", "--policy", str(tmp_path / "state"),
        "--slope-std", "0.5", "--slopes", "1", "--json", str(report), *mapped,
    )  # fmt: skip
    assert "RoLinTS, learning from the log" in text
    assert len(json.loads(report.read_text())) == 3
    run("simulate", "RoLinTS", "LinTS", "--slope-std", "learn", "--n-arms", "3", "--n-features", "2", "--rounds", "30", "--runs", "2", "--n-jobs", "1")  # fmt: skip


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--slopes", "1"], "--slopes 1 without --slope-std"),
        (["--slope-std", "much"], "--slope-std much, expected learn or a number"),
        (["--slope-std", "learn", "--slopes", "age"], "there is no map of fields"),
    ],
)
def test_errors_of_commands(options: list[str], message: str) -> None:
    """Options of slopes that mean nothing are rejected."""
    result = CliRunner().invoke(app, ["simulate", "RoLinTS", *options])
    assert result.exit_code != 0
    assert message in " ".join(f"{result.output} {result.exception}".split())
    result = CliRunner().invoke(app, ["simulate", "LinTS", "--slope-std", "learn"])
    assert "no policy with slopes is created" in f"{result.output} {result.exception}"
