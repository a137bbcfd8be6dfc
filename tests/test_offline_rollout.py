"""Logs in which the baseline was shown to some people, or for some time: lift, evaluation, export and import.

The world: two arms, the reward of arm k is means[k] + noise. A context x in {-1, 1} adds x to the mean of arm 1.
The policy chooses arm 1 with probability 0.8 if x = 1, and 0.3 otherwise. The baseline is arm 0.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import rolin
from rolin import Bandit, offline
from rolin.cli.app import app
from rolin.errors import DataError, OverlapWarning, ParameterError
from rolin.logs.record import read_journal
from rolin.offline import DecisionLog
from support.bandits import QUESTION, known_scales

MEANS = np.array([1.0, 1.5])
# The expected rewards over x: of the policy, of arm 0, and of choosing arm 1 if and only if x = 1.
POLICY = 0.5 * (0.2 * 1.0 + 0.8 * 2.5) + 0.5 * (0.7 * 1.0 + 0.3 * 0.5)
TARGET = 0.5 * 2.5 + 0.5 * 1.0
UNIFORM = 0.5 * 1.0 + 0.5 * 1.5


def simulated(
    rng: np.random.Generator, n: int, *, share: float, control: float = 0.0, apprentice: int = 0
) -> DecisionLog:
    """Return a log of n decisions for n / 4 people, each of whom has an effect on the rewards.

    For the first decisions the bandit was an apprentice, and rewards were higher by 3.
    """
    person = rng.integers(n // 4, size=n)
    groups, effects = rng.random((2, n // 4)), rng.normal(size=n // 4)
    is_control = groups[0, person] < control
    early = np.arange(n) < apprentice
    outside = (groups[1, person] >= share) & ~is_control & ~early
    is_control &= ~early
    x = rng.choice([-1.0, 1.0], n)
    p = np.where(x > 0, 0.8, 0.3)
    p[is_control] = 0.5
    p[outside | early] = 0.0
    chosen = (rng.random(n) < p).astype(int)
    contexts = np.zeros((n, 2, 1))
    contexts[:, 1, 0] = x
    rewards = MEANS[chosen] + np.where(chosen == 1, x, 0.0) + effects[person] + rng.normal(size=n)
    return DecisionLog(
        ["old", "new"], contexts, chosen, rewards + 3.0 * early, np.stack([1.0 - p, p], axis=1),
        people=[f"person-{i}" for i in person], control=is_control, baseline=outside | early,
        outside_share=outside,
    )  # fmt: skip


def unmarked(log: DecisionLog) -> DecisionLog:
    """Return a log that does not say where the baseline was shown."""
    return DecisionLog(
        log.arms, log.contexts, log.chosen, log.rewards, log.propensities or [],
        people=log.people, control=log.control,
    )  # fmt: skip


def target(contexts: Any, _arms: Any) -> list[float]:
    """Return the probabilities of the policy that is evaluated."""
    return [0.0, 1.0] if contexts[1, 0] > 0 else [1.0, 0.0]


@pytest.mark.parametrize("apprentice", [pytest.param(0, marks=pytest.mark.slow), 300])
def test_estimates_are_unbiased(apprentice: int) -> None:
    """Means of 40 logs are within 4 standard errors of the truth; counting the baseline, IPS is far off."""
    found: dict[str, list[float]] = {"IPS": [], "SNIPS": [], "DR": [], "logged": [], "counted": []}
    for run in range(40):
        rng = np.random.default_rng([run, apprentice])
        log = simulated(rng, 1200, share=0.4, control=0.1, apprentice=apprentice)
        report = offline.evaluate(log, target)
        assert report.n == (~log.baseline).sum()
        assert report.unsupported == 0.0
        assert not report.notes
        assert "decisions in which the baseline was shown are left out" in str(report)
        for method in ("IPS", "SNIPS", "DR", "logged"):
            found[method].append(report[method].value)
        with pytest.warns(OverlapWarning, match="propensity 0 in the log"):
            found["counted"].append(offline.evaluate(unmarked(log), target)["IPS"].value)
    logged = (0.9 * 0.4 * POLICY + 0.1 * UNIFORM) / (0.9 * 0.4 + 0.1)
    z = {}
    for method, values in found.items():
        truth = logged if method == "logged" else TARGET
        z[method] = (np.mean(values) - truth) / (np.std(values, ddof=1) / len(values) ** 0.5)
    assert all(abs(z[method]) < 4.0 for method in ("IPS", "SNIPS", "DR", "logged")), z
    assert abs(z["counted"]) > 10.0


@pytest.mark.parametrize(
    ("by", "truth"), [("control", POLICY - UNIFORM), ("share", POLICY - MEANS[0])]
)
def test_lift_holds(by: Any, truth: float) -> None:
    """With an apprentice's time before: 95 % of 200 intervals hold the truth, within 3 standard errors of 1.54 %.

    If the baseline counted as the policy, the mean gain would be off by more than 10 standard errors.
    """
    held, counted = 0, []
    for run in range(200):
        rng = np.random.default_rng([9, run])
        log = simulated(rng, 600, share=0.5, control=0.2, apprentice=100)
        found = offline.lift(log, by=by)
        held += found.low <= truth <= found.high
        others = log.control if by == "control" else log.outside_share
        assert found.n_control == others.sum()
        assert found.n_policy == (~log.control & ~log.baseline).sum()
        counted.append(log.rewards[~others].mean() - log.rewards[others].mean() - truth)
    assert abs(held / 200 - 0.95) < 3 * 0.0154
    assert abs(np.mean(counted)) > 10 * np.std(counted) / 200**0.5


def test_lift_says_what_it_compares() -> None:
    """And rejects what it does not know, or cannot compare."""
    log = simulated(np.random.default_rng(1), 400, share=0.5)
    assert "baseline " in str(offline.lift(log, by="share"))
    assert offline.lift(log, by="share").to_frame()["by"].tolist() == ["share"]
    with pytest.raises(DataError, match="0 decisions of the control group"):
        offline.lift(log)
    with pytest.raises(DataError, match="0 decisions of the people outside the share"):
        offline.lift(log.take(~log.outside_share), by="share")
    for wrong in ("people", None, ["share"]):
        with pytest.raises(ParameterError, match="expected 'control' or 'share'"):
            offline.lift(log, by=wrong)  # type: ignore[arg-type]


def test_a_growing_share_is_noticed() -> None:
    """Also by the comparison with a control group whose own share is constant."""
    parts = [
        simulated(np.random.default_rng(i), 2000, share=share, control=0.2)
        for i, share in enumerate((0.1, 0.9))
    ]
    joined = DecisionLog(
        ["old", "new"],
        np.concatenate([part.contexts for part in parts]),
        np.concatenate([part.chosen for part in parts]),
        np.concatenate([part.rewards for part in parts]),
        np.concatenate([part.propensities or [] for part in parts]),
        control=np.concatenate([part.control for part in parts]),
        outside_share=np.concatenate([part.outside_share for part in parts]),
    )
    assert joined.baseline.tolist() == joined.outside_share.tolist()
    for by in ("control", "share"):
        with pytest.warns(OverlapWarning, match="from a time in which this share was constant"):
            offline.lift(joined, by=by)  # type: ignore[arg-type]


def test_a_log_of_the_baseline_alone() -> None:
    """Estimates the baseline itself, and warns about any other policy."""
    log = simulated(np.random.default_rng(3), 800, share=0.0)
    assert log.baseline.all()
    report = offline.evaluate(log, lambda _x, _arms: [1.0, 0.0])
    assert report["IPS"].value == pytest.approx(log.rewards.mean())
    assert not report.notes
    with pytest.warns(OverlapWarning, match="propensity 0 in the log"):
        report = offline.evaluate(log, target)
    assert report.unsupported == pytest.approx(0.5, abs=0.1)


def test_propensities_are_checked_beside_the_baseline() -> None:
    """Those of the baseline raise no alarm and hide none."""
    log = simulated(np.random.default_rng(4), 4000, share=0.5)
    assert offline.check_propensities(log).p_value > 1e-4
    p = np.array(log.propensities)
    lies = np.where(log.baseline[:, None], p, np.clip(p + np.array([0.1, -0.1]), 0.01, 0.99))
    lie = DecisionLog(log.arms, log.contexts, log.chosen, log.rewards, lies, baseline=log.baseline)
    assert not offline.check_propensities(lie).ok


def test_replay_leaves_the_baseline_out() -> None:
    """The rows are those of the whole log."""
    log = simulated(np.random.default_rng(5), 800, share=0.5, control=0.2)
    policy = rolin.LinTS(n_features=1, seed=1)
    found = offline.replay(log, policy)
    kept = np.flatnonzero(~log.baseline)
    alone = offline.replay(log.take(kept), policy)
    assert not log.baseline[found.rows].any()
    assert found.rows.tolist() == kept[alone.rows].tolist()
    assert found.value == alone.value


def test_probabilities_of_every_decision_may_be_given() -> None:
    """Of those that are left out as well."""
    log = simulated(np.random.default_rng(6), 400, share=0.5)
    given = np.array([target(x, None) for x in log.contexts])
    assert offline.evaluate(log, given)["DR"] == offline.evaluate(log, target)["DR"]


def test_a_policy_that_has_learned_from_the_baseline_is_noticed() -> None:
    """Its evidence is that of the whole log."""
    bandit = Bandit(known_scales(), share=0.5, floor=0.1)
    rng = np.random.default_rng(7)
    for i in range(300):
        made = bandit.decide(rng.normal(size=(3, 2)), id=f"visit-{i}")
        bandit.reward(made.id, float(rng.normal()))
    with pytest.warns(OverlapWarning, match="has learned from these decisions"):
        offline.evaluate(offline.read(bandit), bandit)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_export_and_import_keep_who_decided(ending: str, tmp_path: Path) -> None:
    """In files, in a data frame, and in another journal."""
    bandit = Bandit(known_scales(), share=0.5, control_share=0.2, floor=0.05)
    bandit.start_shadow(known_scales())
    for i in range(90):
        bandit.change_settings(mode="online" if i < 60 else "apprentice" if i < 75 else "stopped")
        bandit.reward(bandit.decide(QUESTION, id=f"visit-{i}").id, float(i % 2))
    log = offline.read(bandit)
    assert log.outside_share.any()
    assert (log.baseline & ~log.outside_share).tolist() == [i >= 60 for i in range(90)]
    bandit.export_log(tmp_path / f"log.{ending}")
    other = Bandit(known_scales())
    assert other.import_log(tmp_path / f"log.{ending}") == 90
    for source in (tmp_path / f"log.{ending}", bandit.to_frame(), other):
        again = offline.read(source)
        for name in ("control", "baseline", "outside_share"):
            assert getattr(again, name).tolist() == getattr(log, name).tolist()
    for a, b in zip(read_journal(bandit.journal), read_journal(other.journal), strict=True):
        for name in ("proposal", "shadow"):
            mine, theirs = getattr(a.decision, name), getattr(b.decision, name)
            assert (mine is None) == (theirs is None)
            if mine is not None:
                assert theirs.chosen == mine.chosen
                np.testing.assert_array_equal(theirs.propensities, mine.propensities)
    frame = bandit.to_frame()
    assert frame["proposal"].notna().sum() > 15 < frame["shadow"].notna().sum()
    frame.at[70, "shadow"] = [9]
    with pytest.raises(DataError, match=r"column 'shadow' is \[9\], expected different indices"):
        offline.read(frame)
    frame = bandit.to_frame()
    assert frame["bandit_mode"].tolist() == other.to_frame()["bandit_mode"].tolist()
    frame["bandit_mode"] = "later"
    with pytest.raises(DataError, match="column 'bandit_mode' is 'later', expected one of online"):
        offline.read(frame)
    later = ["bandit_mode", "outside_share", "proposal", "shadow"]
    older = bandit.to_frame().drop(columns=later)
    assert not offline.read(older).baseline.any()


def test_flags_of_a_log_are_checked() -> None:
    """As all its columns are."""
    rest = (["a"], np.zeros((2, 1, 0)), [0, 0], [1.0, 0.0], [1.0, 1.0])
    for name in ("baseline", "outside_share"):
        for wrong, message in (([True], "has 1 items"), (["no", "no"], "is of type")):
            with pytest.raises(rolin.errors.ShapeError, match=f"{name} {message}"):
                DecisionLog(*rest, **{name: wrong})  # type: ignore[arg-type]


def test_commands_show_share_shadow_and_both_lifts(tmp_path: Path) -> None:
    """Of a journal with all groups."""
    path = tmp_path / "j.db"
    with Bandit(known_scales(), journal=path, share=0.5, control_share=0.3, floor=0.05) as bandit:
        bandit.start_shadow(rolin.Uniform(n_features=2, seed=1))
        for i in range(200):
            made = bandit.decide(QUESTION, id=f"visit-{i}")
            bandit.reward(made.id, float(made.context[0]))
    found = CliRunner().invoke(app, ["evaluate", str(path), "--policy", "uniform"])
    assert found.exit_code == 0, found.output
    for text in ("Lift over the control group: policy", "Lift over the baseline: policy"):
        assert text in found.output
    shown = CliRunner().invoke(app, ["journal", "show", str(path)])
    assert shown.exit_code == 0, shown.output
    assert "share 0.5" in shown.output
    assert "shadow     Uniform(" in shown.output
