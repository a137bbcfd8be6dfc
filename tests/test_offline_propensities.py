"""Overlap, calibration of propensities, and the lift over a control group."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import rolin
from rolin import Bandit, offline
from rolin.errors import DataError, OverlapWarning, RolinError
from rolin.logs.record import PastDecision
from rolin.offline import DecisionLog
from support.offline_logs import Floats, K, simulated, target
from support.policies import fixed


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
        OverlapWarning, match="50 % of the policy's choices have propensity 0 in the log"
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
    assert str(report).endswith("No verdict, because of the warnings marked with !.")


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
        fixed(rolin.RoLinTS, n_features=2, noise_std=0.5, seed=seed), floor=0.02, control_share=0.1
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


def test_no_journal_holds_a_chosen_propensity_of_zero(tmp_path: Path) -> None:
    """A log in which the arm that was chosen could not have been chosen is refused, and nothing is imported."""
    with Bandit(rolin.RoLinTS(n_features=2, seed=1)) as made:
        decision = made.decide(np.eye(2), ["a", "b"], id="one")
        made.export_log(tmp_path / "log.csv")
        table = made.to_frame()
    zero = np.array([0.0, 1.0]) if decision.arm == "a" else np.array([1.0, 0.0])
    table["propensities"] = [zero.tolist()]
    past = PastDecision(decision._replace(propensities=zero), {})
    for source in (table, [past]):
        with Bandit(rolin.RoLinTS(n_features=2, seed=1)) as other:
            with pytest.raises(RolinError, match="which was chosen, is 0, expected above 0"):
                other.import_log(source)
            assert other.journal.decision("one") is None
    for wrong in (np.ones(3) / 3, np.array([np.nan, 1.0]), np.array([2.0, -1.0])):
        past = PastDecision(decision._replace(propensities=wrong), {})
        other = Bandit(rolin.RoLinTS(n_features=2, seed=1))
        with pytest.raises(RolinError, match=r"propensities is .* expected 2 numbers"):
            other.import_log([past])
