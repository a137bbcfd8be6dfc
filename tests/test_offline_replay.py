"""Replay: the play of the policy itself, its intervals, and what it cannot do."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import rolin
from rolin import Bandit, offline, policies
from rolin.errors import DataError, OverlapWarning, ParameterError
from rolin.model.draws import Scores
from rolin.offline import DecisionLog
from support.offline_logs import EFFECT, THETA, D, K, logging_policy, simulated
from support.policies import fixed


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
        policy = fixed(rolin.RoLinTS, n_features=D, noise_std=0.1, seed=i)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OverlapWarning)
            result = offline.replay(log, policy, seed=i)
        assert policy.arms == []
        got.append(result.rewards[:20].mean())
        kept.append(len(result.rows) / n)
        alone = fixed(rolin.RoLinTS, n_features=D, noise_std=0.1, seed=1000 + i)
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
        offline.replay(log, rolin.Uniform(n_features=0, seed=1), min_propensity=0.5)
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
