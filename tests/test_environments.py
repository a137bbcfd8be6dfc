"""Environments keep their contract and have the scales that were asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rolin import testing
from rolin.environments import Clicks, Drifting, Slopes, Synthetic
from rolin.errors import ParameterError


@pytest.mark.parametrize("contexts", ["fresh", "fixed"])
def test_synthetic_environments_keep_the_contract(contexts: str) -> None:
    """The laws of environments hold for both kinds of contexts."""
    testing.check_environment(Synthetic(n_arms=3, n_features=2, contexts=contexts))


@pytest.mark.parametrize(
    "world",
    [Clicks(n_arms=3, n_features=2), Clicks(click_rate=0.9, n_arms=1, n_features=0),
     Drifting(n_arms=3, n_features=2), Drifting(half_life=1.0, n_arms=2, n_features=0),
     Slopes(n_arms=3, n_features=2), Slopes(slope_std=0.0, shared=1.0, n_arms=1, n_features=0)],
)  # fmt: skip
def test_other_environments_keep_the_contract(world: Any) -> None:
    """The laws of environments hold for binary rewards, worlds that change, and slopes per arm."""
    testing.check_environment(world)


def test_clicks_come_at_the_rate_of_their_means(seed: int) -> None:
    """Rewards are 1 with the probability of their mean, ± 5 s.e.; without effects it is the click rate."""
    world = Clicks(click_rate=0.1, n_arms=2, n_features=3, arm_std=0.0, coef_std=1e-9)
    blocks = list(world.play(20_000, np.random.default_rng(seed)))
    clicks = np.concatenate([block.rewards[:, 0] for block in blocks])
    assert set(clicks.tolist()) == {0.0, 1.0}
    assert clicks.mean() == pytest.approx(0.1, abs=5 * (0.09 / 20_000) ** 0.5)
    assert blocks[0].means[0, 0] == pytest.approx(0.1, rel=1e-6)


def test_drift_halves_the_correlation_in_a_half_life(seed: int) -> None:
    """Over 2000 problems an arm's effect keeps its variance; after 128 rounds its correlation is ½."""
    world = Drifting(half_life=128.0, n_arms=1, n_features=0, arm_std=0.7)
    paths = []
    for run in range(2000):
        means = [b.means[:, 0] for b in world.play(129, np.random.default_rng([seed, run]))]
        paths.append(np.concatenate(means)[[0, 128]])
    first, last = np.array(paths).T
    assert first.std() == pytest.approx(0.7, rel=5 / (2 * 2000) ** 0.5)
    assert last.std() == pytest.approx(0.7, rel=5 / (2 * 2000) ** 0.5)
    assert np.corrcoef(first, last)[0, 1] == pytest.approx(0.5, abs=5 * 0.75 / 2000**0.5)


def test_slopes_differ_between_arms_by_the_requested_scale(seed: int) -> None:
    """Over 400 problems, the coefficients of an arm have variance coef_std² + slope_std², ± 5 s.e.; two arms share coef_std².

    Without noise, a regression finds the coefficients of every arm exactly.
    """
    world = Slopes(slope_std=0.6, n_arms=2, n_features=2, coef_std=0.8, noise_std=1e-9)
    found = []
    for run in range(400):
        block = next(world.play(32, np.random.default_rng([seed, run])))
        for j in range(2):
            rows = np.column_stack([block.contexts[:, j], np.ones(32)])
            found.append(np.linalg.lstsq(rows, block.rewards[:, j], rcond=None)[0][:2])
    # (problems, arms, features)
    first, second = np.swapaxes(np.array(found).reshape(400, 2, 2), 0, 1)
    assert first.var() == pytest.approx(1.0, rel=5 * (2 / 800) ** 0.5)
    # The difference of two arms has twice the variance of a slope.
    assert (first - second).var() == pytest.approx(2 * 0.36, rel=5 * (2 / 800) ** 0.5)


@pytest.mark.parametrize("shared", [0.0, 0.25, 1.0])
def test_the_requested_share_of_rounds_has_one_context(shared: float, seed: int) -> None:
    """All arms have the same context in this share of 4096 rounds, ± 5 s.e., and else all differ."""
    world = Slopes(shared=shared, n_arms=3, n_features=1)
    blocks = [block.contexts for block in world.play(4096, np.random.default_rng(seed))]
    x = np.concatenate(blocks)[:, :, 0]
    same = (x == x[:, :1]).all(axis=1)
    assert same.mean() == pytest.approx(shared, abs=5 * (shared * (1 - shared) / 4096) ** 0.5)
    assert (np.diff(np.sort(x[~same], axis=1), axis=1) > 0.0).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Clicks(click_rate=1.0), "click_rate=1.0, expected a number between 0 and 1"),
        (lambda: Clicks(n_arms=0), "n_arms=0"),
        (lambda: Drifting(half_life=0.0), "half_life=0.0, expected a positive number"),
        (lambda: Drifting(noise_std=-1.0), "noise_std=-1.0"),
        (lambda: Slopes(slope_std=-1.0), "slope_std=-1.0"),
        (lambda: Slopes(shared=1.5), "shared=1.5, expected a number from 0 to 1"),
    ],
)
def test_impossible_worlds_are_rejected(make: Any, message: str) -> None:
    """The error names what was given and what was expected."""
    with pytest.raises(ParameterError, match=message):
        make()


def test_synthetic_problems_have_the_requested_scales(seed: int) -> None:
    """Over 4000 problems, the spreads of coefficients, effects and noise are as requested, ± 5 s.e.

    With K = 1 and d = 1, two contexts determine θ, and the rest of the mean is the effect.
    """
    world = Synthetic(n_arms=1, n_features=1, arm_std=0.7, coef_std=2.0, noise_std=0.3)
    found = []
    for run in range(4000):
        block = next(world.play(2, np.random.default_rng([seed, run])))
        x, mean = block.contexts[:, 0, 0], block.means[:, 0]
        theta = (mean[1] - mean[0]) / (x[1] - x[0])
        found.append([theta, mean[0] - theta * x[0], block.rewards[0, 0] - mean[0]])
        assert (np.abs(block.contexts) <= 1).all()
    for values, std in zip(np.transpose(found), (2.0, 0.7, 0.3), strict=True):
        assert abs(np.std(values) - std) < 5 * std / np.sqrt(2 * 4000)
        assert abs(np.mean(values)) < 5 * std / np.sqrt(4000)


@pytest.mark.parametrize(
    "options",
    [{"n_arms": 0}, {"n_features": -1}, {"arm_std": -0.1}, {"noise_std": 0}, {"contexts": "stale"}],
)
def test_synthetic_rejects_bad_options(options: dict[str, Any]) -> None:
    """Bad options are rejected when the environment is made."""
    with pytest.raises(ParameterError, match=next(iter(options))):
        Synthetic(**options)
