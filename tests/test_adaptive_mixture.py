"""BayesRoLinTS that learns coef_std: the estimate, the schedule, files, journals and regret."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rolin
from rolin import Bandit
from rolin.journal import MemoryJournal
from rolin.journal.folding import load_policy, state_bytes
from rolin.model.adaptive_mixture import AdaptiveMixture
from rolin.model.mixture import Mixture

GUESSES = (
    rolin.Scales(noise_std=2.0, arm_std=0.6, coef_std=0.3, intercept_std=1.5),
    rolin.Scales(noise_std=0.5, arm_std=0.6, coef_std=(1.0, 3.0), coef_mean=0.3),
)


def rewards(rng: np.random.Generator, n: int) -> tuple[Any, Any, Any]:
    """Arms, contexts and rewards, with coefficients of 8 and -4."""
    arms, x = rng.integers(9, size=n), rng.normal(size=(n, 2))
    return arms, x, x @ [8.0, -4.0] + rng.normal(size=9)[arms] + rng.normal(size=n)


@pytest.mark.parametrize("guess", GUESSES)
def test_what_is_learned_is_the_estimate(guess: rolin.Scales, rng: np.random.Generator) -> None:
    """coef_std/noise_std is that of `estimate_scales` from the same rewards, at every estimate."""
    arms, x, r = rewards(rng, 50)
    mixture = AdaptiveMixture(guess, 2)
    mixture.observe_many(arms, x, r)
    assert [event.seen for event in mixture.history] == [10, 20, 30, 45]
    for n, scales in mixture.history:
        found = rolin.model.estimate_scales(rolin.Moments.of(arms[:n], x[:n], r[:n]), prior=guess)
        expected = np.array(found.scales.coef_std) / found.scales.noise_std
        np.testing.assert_allclose(np.array(scales.coef_std) / guess.noise_std, expected, rtol=1e-5)
        assert replace(scales, coef_std=guess.coef_std) == guess


@pytest.mark.parametrize("guess", GUESSES)
def test_after_an_estimate_it_is_the_mixture_with_that_number(
    guess: rolin.Scales, rng: np.random.Generator
) -> None:
    """Weights, noise and predictions are those of a mixture that was given the number, to 1e-9."""
    arms, x, r = rewards(rng, 60)
    mixture = AdaptiveMixture(guess, 2)
    mixture.observe_many(arms, x, r)
    given = Mixture(mixture.scales, 2)
    assert mixture.scales != guess
    given.observe_many(arms, x, r)
    for a, b in zip(mixture.beliefs[1:], given.beliefs[1:], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-12)
    # One arm was never seen.
    for a, b in zip(mixture.predict(x[:10]), given.predict(x[:10]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)


def test_files_keep_what_is_learned(rng: np.random.Generator, tmp_path: Path) -> None:
    """A loaded policy has the same settings, history and schedule, and learns on to the same bits; decay included."""
    arms, x, r = rewards(rng, 120)
    for coef_std in ("learn", ("learn", [1.0, 3.0])):
        policy = rolin.BayesRoLinTS(n_features=2, coef_std=coef_std, seed=0)
        policy.update_many(arms[:40].tolist(), x[:40], r[:40])
        policy.decay(0.9)
        policy.remove_arm(int(arms[0]))
        policy.save(tmp_path / "state.rolin")
        again: Any = rolin.load(tmp_path / "state.rolin")
        assert again.settings == policy.settings
        assert again.scale_history == policy.scale_history
        for one in (policy, again):
            one.restore_arm(int(arms[0]))
            one.update_many(arms[40:].tolist(), x[40:], r[40:])
        assert len(policy.scale_history) > 5
        assert state_bytes(again) == state_bytes(policy)


def test_decay_does_not_delay_the_schedule(rng: np.random.Generator) -> None:
    """The number of rewards until the next estimate stays, and afterwards what is remembered counts."""
    arms, x, r = rewards(rng, 40)
    policy = rolin.BayesRoLinTS(n_features=2, seed=0)
    policy.update_many(arms[:15].tolist(), x[:15], r[:15])
    policy.decay(0.1)
    policy.update_many(arms[15:].tolist(), x[15:], r[15:])
    assert [event.seen for event in policy.scale_history] == [10, 20, 30, 40]


def test_a_number_is_kept(rng: np.random.Generator) -> None:
    """With a number nothing is estimated, and the history is empty."""
    arms, x, r = rewards(rng, 40)
    policy = rolin.BayesRoLinTS(n_features=2, coef_std=2.0, seed=0)
    policy.update_many(arms.tolist(), x, r)
    assert policy.scale_history == []
    assert policy.settings["coef_std"] == 2.0
    with pytest.raises(rolin.errors.ParameterError, match="expected a number or 'learn'"):
        rolin.BayesRoLinTS(n_features=2, coef_std="guess")  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [0.0, 5.0, 1e-150])
def test_rewards_that_are_all_equal_do_no_harm(value: float, rng: np.random.Generator) -> None:
    """Estimates are finite numbers, and other rewards can be learned afterwards."""
    policy = rolin.BayesRoLinTS(n_features=2, seed=0)
    arms, x, r = rewards(rng, 60)
    for i in range(60):
        policy.update(int(arms[i]), x[i], value if i < 40 else float(r[i]))
    assert np.isfinite(policy.predict(x[:9]).std).all()


def test_a_journal_replays_to_the_same_bits(rng: np.random.Generator) -> None:
    """Estimates are events of the journal: who reads it has the same state, with decay and arms removed."""
    journal = MemoryJournal()
    bandit = Bandit(rolin.BayesRoLinTS(n_features=2, seed=0), journal=journal)
    for i in range(70):
        arms = ["b", "c", "d"] if 30 <= i < 40 else ["a", "b", "c", "d"]
        decision = bandit.decide(rng.normal(size=(len(arms), 2)), arms=arms, id=str(i))
        bandit.reward(decision.id, float(decision.context @ [8.0, -4.0] + rng.normal()))
        if i == 29:
            bandit.decay(0.8)
            bandit.remove_arm("a")
        if i == 39:
            bandit.restore_arm("a")
        if i == 50:
            bandit.learn_scales()
    assert len(bandit.policy.scale_history) > 4  # type: ignore[attr-defined]  # of BayesRoLinTS
    again = load_policy(journal, from_start=True)[0]
    assert state_bytes(again) == state_bytes(bandit.policy)


def test_large_coefficients_are_found(seed: int) -> None:
    """Coefficients are ten times the guess: 20 runs have less regret than with the guess, by 3 standard errors."""
    world = rolin.environments.Synthetic(n_arms=20, n_features=5, coef_std=10.0)
    result = rolin.simulate(
        {
            "learned": lambda seed: rolin.BayesRoLinTS(n_features=5, seed=seed),
            "kept": lambda seed: rolin.BayesRoLinTS(n_features=5, coef_std=1.0, seed=seed),
        },
        world, rounds=400, runs=20, seed=seed,
    )  # fmt: skip
    less = result.regret["kept"][:, -1] - result.regret["learned"][:, -1]
    assert less.mean() > 3 * less.std(ddof=1) / np.sqrt(20)


@pytest.mark.parametrize("noise", [0.1, 10.0])
def test_without_features_nothing_is_learned_of_their_coefficients(
    noise: float, rng: np.random.Generator
) -> None:
    """The guess stays, relative to any noise."""
    policy = rolin.BayesRoLinTS(n_features=2, seed=0)
    for i in range(40):
        policy.update(i % 5, np.zeros(2), float(noise * rng.normal()))
    assert policy.mixture.scales.coef_std == 1.0
