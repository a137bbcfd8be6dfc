"""Logs for offline evaluation: every source, what is rejected, and the command."""

from __future__ import annotations

import json
import subprocess
import warnings
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import rolin
from rolin import Bandit, offline
from rolin.errors import DataError, InputError, OverlapWarning, RolinError
from rolin.logs.export import export, to_frame
from rolin.offline import DecisionLog
from support.bandits import Clock, play
from support.files import open_bandit_files
from support.policies import fixed

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
    assert report.verdict == "No verdict, because of the warnings marked with !."
    other = rolin.RoLinTS(n_features=2, seed=1)
    for i in range(30):  # alike, but not the same
        other.update(log.arms[i][log.chosen[i]], log.contexts[i][log.chosen[i]], log.rewards[i])
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        offline.evaluate(log, other)
    assert not any("has learned" in str(w.message) for w in said)


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
        ({"arms": None}, "DecisionLog got invalid arguments"),
        ({"control": [True]}, "control has 1 items"),
        ({"control": ["no", "no"]}, "control is of type"),
        ({"rewards": 1.0}, "DecisionLog got invalid arguments"),
        ({"rewards": [1e200, 1.0]}, "too large"),
        ({"contexts": x + 1e200}, "too large"),
        ({"propensities": [1e-300, 0.5]}, "its propensity is 1e-300"),
        ({"ids": ["x", "y"], "rewards": [np.inf, 1.0]}, "decision x: rewards is inf"),
    ]
    for changes, message in cases:
        with pytest.raises(RolinError, match=message):
            DecisionLog(**(good | changes))


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
    assert "Value of uniform, estimated from 119 logged decisions" in run.stdout
    assert "LinUCB, learning from the log: replay used" in run.stdout
    with Bandit(
        fixed(rolin.Greedy, n_features=1, seed=1), journal=tmp_path / "greedy.db"
    ) as greedy:
        for _ in range(60):
            greedy.reward(greedy.decide([[0.0], [1.0]]).id, 1.0)
    run = cli(
        tmp_path / "greedy.db", "--policy", "uniform", "--policy", "LinUCB", "--figure",
        tmp_path / "two.png",
    )  # fmt: skip
    assert run.returncode == 2  # the second cannot be replayed, but the first is there
    assert "Value of uniform, estimated from 60 logged decisions" in run.stdout
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
