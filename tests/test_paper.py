"""The experiments of the paper have its settings, check its claims, and can be resumed."""

from __future__ import annotations

import functools
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import rolin
from rolin import cli
from rolin.environments import Synthetic
from rolin.errors import ParameterError
from rolin.paper import claims
from rolin.paper.claims import Check, Claim, verdict
from rolin.paper.experiment import Experiment
from rolin.paper.movielens import CLAIMS
from rolin.paper.perturbed import Perturbed, perturbed
from rolin.paper.readings import readings
from rolin.paper.reproduce import reproduce
from rolin.paper.runtime import PAPER, runtime
from rolin.paper.runtime import _claims as run_time_claims
from rolin.paper.synthetic import synthetic
from rolin.paper.ucb import ucb

# -- the experiments have the settings of the paper -------------------------------------------


@pytest.mark.parametrize("make", [synthetic, perturbed, ucb, readings])
def test_synthetic_experiments_have_the_papers_numbers(make: Any) -> None:
    """K = 50, d = 10, σ = λ = 1, n = 3000, and σ₀ = 0, 0.25, 0.5."""
    experiment = make()
    assert experiment.rounds == 3000
    assert experiment.runs == (30 if make is readings else 100)
    assert list(experiment.environments.values()) == [
        Synthetic(n_arms=50, n_features=10, arm_std=s, coef_std=1.0, noise_std=1.0)
        for s in (0.0, 0.25, 0.5)
    ]
    fixed = make(contexts="fixed", rounds=77)
    assert all(world.contexts == "fixed" for world in fixed.environments.values())
    assert fixed.rounds == 77


def test_policies_have_the_papers_settings() -> None:
    """RoLinTS with three s₀, LinTS, hLinUCB with K hidden features, Safe-FALCON with d log(1/ζ)/n."""
    made = {name: make(seed=1).settings for name, make in synthetic().policies.items()}
    assert list(made) == [
        "RoLinTS, s₀ = 0.25", "RoLinTS, s₀ = 0.5", "RoLinTS, s₀ = 1", "LinTS", "hLinUCB",
        "Safe-FALCON",
    ]  # fmt: skip
    assert [made[f"RoLinTS, s₀ = {s}"]["arm_std"] for s in ("0.25", "0.5", "1")] == [0.25, 0.5, 1.0]
    assert made["hLinUCB"]["n_hidden"] == 50
    assert made["Safe-FALCON"]["complexity"] == 1.0
    for name in list(made)[:4]:
        assert made[name]["coef_std"] == made[name]["noise_std"] == 1.0
        assert made[name]["sampling"] == "marginal"
    joint = synthetic(sampling="joint").policies["LinTS"](seed=1)
    assert joint.settings["sampling"] == "joint"
    bounds = {name: make(seed=1) for name, make in ucb(rounds=500).policies.items()}
    assert bounds["RoLinUCB, s₀ = 1"].width == pytest.approx((2 * np.log(500)) ** 0.5)
    assert bounds["LinUCB"].settings["horizon"] == 500


def test_perturbed_scales_are_up_to_three_fold_wrong(seed: int) -> None:
    """λ and σ are each multiplied or divided, equally often, by u ~ U[1, 3].

    Over 2000 seeds, means of the folded factor (2 ± 5 s.e. of 0.577/√2000) and shares of each side
    (1/2 ± 5 s.e.); the two are independent; every s₀ gets the same pair.
    """
    found = []
    for i in range(2000):
        policies = [Perturbed(s, "marginal")(seed=1000 * seed + i) for s in (0.25, 1.0)]
        pairs = [(p.scales.coef_std**-2, p.scales.noise_std) for p in policies]
        assert pairs[0] == pytest.approx(pairs[1])
        assert policies[1].scales.arm_std == 1.0
        found.append(pairs[0])
    factors = np.array(found)
    folded = np.maximum(factors, 1 / factors)
    assert (folded <= 3 + 1e-9).all()
    assert np.abs(folded.mean(axis=0) - 2).max() < 5 * 0.577 / 2000**0.5
    up = factors > 1
    assert np.abs(up.mean(axis=0) - 0.5).max() < 5 * 0.5 / 2000**0.5
    assert abs(np.mean(up[:, 0] == up[:, 1]) - 0.5) < 5 * 0.5 / 2000**0.5


# -- claims ----------------------------------------------------------------------------------


def result(regrets: dict[str, tuple[float, float]], growth: float = 1.0) -> rolin.Result:
    """Twenty paired runs of given mean and spread; regret up to 3/4 of the rounds sets the growth."""
    settings = {
        "policies": dict.fromkeys(regrets, "P()"), "environment": "E()", "rounds": 100, "seed": 0,
        "checkpoints": [50, 75, 100], "bound": None,
    }  # fmt: skip
    wobble = np.linspace(-1, 1, 20)
    found = {}
    for name, (mean, spread) in regrets.items():
        final = mean + spread * wobble
        # third quarter q, last quarter g q, first half 2 q
        q = final / (3 + growth)
        found[name] = np.column_stack([2 * q, 3 * q, final])
    return rolin.Result(settings, tuple(range(20)), found)


def test_checks_can_hold_fail_and_be_inconclusive() -> None:
    """Every kind of check has numbers that confirm it, refute it and leave it open."""
    clear = result({"a": (10, 1), "b": (20, 1)})
    assert claims.lower(clear, "", "a", "b").outcome is True
    assert claims.lower(clear, "", "b", "a").outcome is False
    assert claims.not_lower(clear, "", "b", "a").outcome is True
    assert claims.not_lower(clear, "", "a", "b").outcome is False
    even = result({"a": (10, 1), "b": (10, -5)})
    assert claims.lower(even, "", "a", "b").outcome is None
    assert claims.not_lower(even, "", "a", "b").outcome is None
    assert claims.at_least(clear, "", "b", "a", 1.5).outcome is True
    assert claims.at_least(clear, "", "b", "a", 3.0).outcome is False
    assert claims.at_least(clear, "", "b", "a", 2.0).outcome is None
    assert claims.at_most(clear, "", "b", "a", 3.0).outcome is True
    assert claims.at_most(clear, "", "b", "a", 1.5).outcome is False
    assert claims.similar(clear, "", "a", "b").outcome is False
    assert claims.similar(result({"a": (10, 1), "b": (10.5, 1)}), "", "a", "b").outcome is True
    assert claims.similar(result({"a": (10, 1), "b": (12, -6)}), "", "a", "b").outcome is None
    for growth, straight in ((1.0, True), (0.84, False)):
        grown = result({"a": (10, 1)}, growth)
        assert claims.linear(grown, "", "a").outcome is straight
        assert claims.sublinear(grown, "", "a").outcome is not straight


def test_checks_show_their_numbers() -> None:
    """The evidence has both means, their difference and its interval."""
    check = claims.lower(result({"a": (10, 1), "b": (20, 1)}), "here", "a", "b")
    assert check.where == "here: a against b"
    assert "regrets 10 ± 0.14 and 20 ± 0.14, difference -10" in check.evidence
    assert "100% of the runs" in check.evidence


def test_verdicts_summarize_checks() -> None:
    """A verdict distinguishes refuted checks from inconclusive ones."""

    def of(*outcomes: bool | None) -> str:
        return verdict([Check("", outcome, "") for outcome in outcomes])

    assert of(True, True) == "holds"
    assert of(True, False) == of(True, False, None) == "holds in part"
    assert of(True, None) == "holds where conclusive"
    assert of(False, False) == "fails"
    assert of(False, None) == "fails where conclusive"
    assert of(None, None) == of() == "inconclusive"


def world(
    numbers: dict[str, Any],
    growths: dict[str, float],
    *,
    ours: str = "RoLinTS",
    linear: str = "LinTS",
) -> rolin.Result:
    """One panel: regrets of the three robust policies, the linear one and the baselines, with their growths."""
    regrets = {
        f"{ours}, s₀ = {s}": r for s, r in zip(("0.25", "0.5", "1"), numbers["ours"], strict=True)
    }
    regrets |= {
        linear: numbers["linear"],
        "hLinUCB": numbers["hidden"],
        "Safe-FALCON": numbers["falcon"],
    }
    parts = [
        result({name: (mean, 0.05 * mean)}, growths["linear" if name == linear else "ours"])
        for name, mean in regrets.items()
    ]
    settings = {**parts[0].settings, "policies": dict.fromkeys(regrets, "P()")}
    found = {name: part.regret[name] for name, part in zip(regrets, parts, strict=True)}
    return rolin.Result(settings, parts[0].runs, found)


def panels(
    *numbers: tuple[Any, ...], growths: list[tuple[float, float]], titles: list[str], **names: str
) -> Any:
    """Several panels of (ours, linear, hidden, falcon)."""
    keys = ("ours", "linear", "hidden", "falcon")
    return {
        title: world(dict(zip(keys, row, strict=True)), {"ours": g[0], "linear": g[1]}, **names)
        for title, row, g in zip(titles, numbers, growths, strict=True)
    }


TITLES = ["σ₀ = 0", "σ₀ = 0.25", "σ₀ = 0.5"]
AS_PRINTED = (
    ((110, 130, 160), 100, 80, 2500),
    ((150, 170, 200), 400, 405, 2900),
    ((200, 210, 240), 900, 880, 3600),
)
CONTRARY = (
    ((200, 190, 180), 400, 500, 100),
    ((150, 170, 200), 100, 50, 40),
    ((200, 210, 240), 50, 25, 20),
)


@pytest.mark.parametrize("names", [("RoLinTS", "LinTS"), ("RoLinUCB", "LinUCB")])
def test_figure_1_has_claims_that_hold_and_fail(names: tuple[str, str]) -> None:
    """With numbers as in the paper every claim holds; with contrary numbers every claim fails."""
    ours, linear = names
    found = synthetic().claims if ours == "RoLinTS" else ucb().claims[:-1]
    as_printed = panels(
        *AS_PRINTED,
        growths=[(0.7, 0.7), (0.7, 1.0), (0.7, 1.0)],
        titles=TITLES,
        ours=ours,
        linear=linear,
    )
    assert {claim.name: verdict(claim.check(as_printed)) for claim in found} == {
        claim.name: "holds" for claim in found
    }
    contrary = panels(
        *CONTRARY,
        growths=[(1.0, 1.0), (1.0, 0.7), (1.0, 0.7)],
        titles=TITLES,
        ours=ours,
        linear=linear,
    )
    assert {claim.name: verdict(claim.check(contrary)) for claim in found} == {
        claim.name: "fails" for claim in found
    }


def test_figure_2_has_claims_that_hold_and_fail() -> None:
    """The same for the claims about MovieLens."""
    titles = ["1 % of training set", "2 % of training set", "5 % of training set"]
    as_printed = panels(
        ((600, 550, 400), 900, 700, 9000), ((500, 450, 300), 700, 600, 8000),
        ((300, 250, 200), 500, 400, 7000), growths=[(0.9, 1.0)] * 3, titles=titles,
    )  # fmt: skip
    assert {c.name: verdict(c.check(as_printed)) for c in CLAIMS} == {
        c.name: "holds" for c in CLAIMS
    }
    contrary = panels(
        ((400, 450, 500), 300, 350, 200), ((500, 550, 600), 400, 450, 300),
        ((600, 650, 700), 500, 550, 400), growths=[(0.7, 0.7)] * 3, titles=titles,
    )  # fmt: skip
    assert {c.name: verdict(c.check(contrary)) for c in CLAIMS} == {c.name: "fails" for c in CLAIMS}


@pytest.mark.parametrize(
    ("factor", "expected"), [(1.1, "holds"), (0.7, "holds in part"), (1.5, "holds in part")]
)
def test_wrong_scales_must_cost_a_little(factor: float, expected: str) -> None:
    """Regret with wrong scales must be higher, by at most a fifth."""
    experiment = perturbed()
    regrets = {
        name: (100.0 * (1.0 if "true" in name else factor), 5.0) for name in experiment.policies
    }
    results = {title: result(regrets) for title in experiment.environments}
    assert verdict(experiment.claims[0].check(results)) == expected


def test_readings_and_run_times_have_claims_that_hold_and_fail() -> None:
    """Both outcomes are possible for other settings and for run times."""
    experiment = readings()
    name = "hLinUCB, zero, library's exploration"
    (claim,) = [claim for claim in experiment.claims if claim.name == name]
    for rows, growths, expected in (
        (AS_PRINTED, [(0.7, 0.7), (0.7, 1.0), (0.7, 1.0)], "holds"),
        (CONTRARY, [(0.7, 0.7)] * 3, "fails"),
    ):
        results = panels(*rows, growths=growths, titles=TITLES)
        for found in results.values():
            found.regret[name] = found.regret["hLinUCB"]
        assert verdict(claim.check(results)) == expected
    steady = np.array([1.0, 1.01, 0.99])
    fast = {128: steady, 512: 1.0 * steady, 1024: 2.0 * steady}
    for naive, expected in (
        ({128: 14 * steady, 512: 300 * steady, 1024: 2400 * steady}, "holds"),
        ({128: 2 * steady, 512: 2 * steady, 1024: 4 * steady}, "fails"),
    ):
        verdicts = {c.name: verdict(c.check({})) for c in run_time_claims(fast, naive)}
        assert verdicts.pop("linear in K") == "holds"
        assert set(verdicts.values()) == {expected}
    flat = {128: steady, 512: steady, 1024: steady}
    assert verdict(run_time_claims(flat, flat)[0].check({})) == "fails"


# -- running and resuming --------------------------------------------------------------------


def small(**settings: Any) -> Experiment:
    """Make an experiment that takes one second."""
    return Experiment(
        name="small",
        title="A small experiment",
        source="nowhere",
        environments={
            f"σ₀ = {s:g}": Synthetic(n_arms=3, n_features=2, arm_std=s) for s in (0.0, 0.5)
        },
        policies={
            "LinTS": functools.partial(rolin.LinTS, n_features=2),
            "Uniform": functools.partial(rolin.Uniform, n_features=2),
        },
        rounds=200,
        runs=8,
        claims=(
            Claim(
                "learning helps", "nowhere", "LinTS is better than chance.",
                lambda results: [
                    claims.lower(found, title, "LinTS", "Uniform")
                    for title, found in results.items()
                ],
            ),
        ),
        settings=settings,
        notes=("A note.",),
    )  # fmt: skip


def test_a_folder_contains_all_results(tmp_path: Path) -> None:
    """There are figure, regrets, summary, claims, settings and versions, with the documented columns."""
    folder = tmp_path / "a" / "b"
    report = reproduce(small(), folder, n_jobs=1, progress=False)
    assert {path.name for path in folder.iterdir()} == {
        "claims.md", "figure.png", "figure.svg", "regret.csv", "runs-1.jsonl", "runs-2.jsonl",
        "settings.json", "summary.json",
    }  # fmt: skip
    regret = pd.read_csv(folder / "regret.csv")
    assert list(regret.columns) == [
        "experiment", "environment", "policy", "run", "round", "regret",
    ]  # fmt: skip
    assert len(regret) == 2 * 2 * 8 * 100
    assert regret["round"].max() == 200
    summary = json.loads((folder / "summary.json").read_text())
    assert len(summary) == 4
    for record in summary:
        assert record.keys() == {
            "experiment", "environment", "policy", "mean", "std_error", "median", "runs", "rounds",
            "last_quarter_over_third", "last_quarter_over_third_std_error",
        }  # fmt: skip
        rows = regret.query(
            f"environment == '{record['environment']}' and policy == '{record['policy']}'"
            " and round == 200"
        )
        assert record["mean"] == pytest.approx(rows.regret.mean())
        assert record["median"] == pytest.approx(rows.regret.median())
        assert record["std_error"] == pytest.approx(rows.regret.sem())
    page = (folder / "claims.md").read_text()
    assert "| learning helps | LinTS is better than chance. (nowhere) | **holds** |  |" in page
    assert "A note." in page
    settings = json.loads((folder / "settings.json").read_text())
    assert settings["asked"]["rounds"] == 200
    assert settings["versions"][0]["rolin"] == rolin.__version__
    assert (folder / "figure.png").stat().st_size > 10_000
    svg = (folder / "figure.svg").read_text()
    assert "LinTS" in svg  # text stays text
    assert report.folder == folder


def test_the_same_figure_is_the_same_file(tmp_path: Path) -> None:
    """Two runs of an experiment write the same bytes."""
    for name in ("one", "two"):
        reproduce(small(), tmp_path / name, n_jobs=1, progress=False)
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes(), path.name


def test_other_settings_are_rejected(tmp_path: Path) -> None:
    """A folder of another experiment, seed or option is named and left unchanged; more runs are added."""
    reproduce(small(kind="a"), tmp_path, runs=2, n_jobs=1, progress=False)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(ParameterError, match='kind was "a" and is now "b"'):
        reproduce(small(kind="b"), tmp_path, runs=2, n_jobs=1, progress=False)
    with pytest.raises(ParameterError, match="seed was 0 and is now 1"):
        reproduce(small(kind="a"), tmp_path, runs=2, seed=1, n_jobs=1, progress=False)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
    more = reproduce(small(kind="a"), tmp_path, runs=4, n_jobs=1, progress=False)
    assert set(more.summary.runs) == {4}


def test_rejected_experiments_write_nothing(tmp_path: Path) -> None:
    """A bad option is rejected before the folder is created."""
    for options in (
        {"seed": -1},
        {"n_points": 0},
        {"runs": 0},
        {"n_jobs": 0},
        {"progress": "label"},
    ):
        with pytest.raises(ParameterError):
            reproduce(small(), tmp_path / "out", **{"n_jobs": 1, "progress": False, **options})
    assert not (tmp_path / "out").exists()


def test_files_of_others_are_not_overwritten(tmp_path: Path) -> None:
    """A folder with results but without settings is rejected."""
    (tmp_path / "regret.csv").write_text("mine")
    with pytest.raises(ParameterError, match=r"regret\.csv exists"):
        reproduce(small(), tmp_path, n_jobs=1, progress=False)
    assert [path.name for path in tmp_path.iterdir()] == ["regret.csv"]
    assert (tmp_path / "regret.csv").read_text() == "mine"


def test_errors_of_writing_are_readable(tmp_path: Path) -> None:
    """A folder with the name of a result is a clear error, and the completed runs stay."""
    reproduce(small(), tmp_path, runs=2, n_jobs=1, progress=False)
    (tmp_path / "regret.csv").unlink()
    (tmp_path / "regret.csv").mkdir()
    with pytest.raises(ParameterError, match=r"regret\.csv cannot be written"):
        reproduce(small(), tmp_path, runs=3, n_jobs=1, progress=False)
    assert len(rolin.Result.load(tmp_path / "runs-1.jsonl").runs) == 3


def test_folders_that_cannot_be_written_are_rejected(tmp_path: Path) -> None:
    """A file with the name of the folder, or of its parent, is a clear error."""
    (tmp_path / "file").write_text("mine")
    for folder in (tmp_path / "file", tmp_path / "file" / "under"):
        with pytest.raises(ParameterError, match="cannot be written to"):
            reproduce(small(), folder, n_jobs=1, progress=False)
    assert (tmp_path / "file").read_text() == "mine"


def test_run_times_are_measured(tmp_path: Path) -> None:
    """A short Table 1 has every K, both times, and the ratios of the paper beside ours."""
    steps: list[int] = []
    report = runtime(tmp_path, rounds=2, runs=1, progress=steps.append)
    assert steps == [1] * len(PAPER)
    table = report.summary
    assert table.arms.tolist() == list(PAPER) == [16, 32, 64, 128, 256, 512, 1024]
    assert table.paper_ratio.iloc[-1] == pytest.approx(4275.4 / 5.2)
    assert (
        table.ratio.iloc[-1] > 5 * table.ratio.iloc[0] > 0
    )  # 100 times or more, on a quiet machine
    assert table.naive_rounds.min() == 2
    summary = json.loads((tmp_path / "summary.json").read_text(), parse_constant=pytest.fail)
    assert summary[0]["ratio_std_error"] is None  # of one run; JSON has no NaN
    assert "| 1024 |" in (tmp_path / "claims.md").read_text()


# -- the command line ------------------------------------------------------------------------


def run(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    """Run the command line in this process; return its exit code."""
    monkeypatch.setattr(sys, "argv", ["rolin", *map(str, arguments)])
    with pytest.raises(SystemExit) as exit_:
        cli.main()
    return int(exit_.value.code or 0)


def test_the_command_runs_an_experiment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A short Figure 1 prints its table and verdicts and writes its folder; a second call changes nothing."""
    arguments = (
        "reproduce",
        "synthetic",
        "--runs",
        2,
        "--rounds",
        40,
        "--n-jobs",
        1,
        "--out",
        tmp_path,
    )
    assert run(monkeypatch, *arguments) == 0
    out = capsys.readouterr().out
    assert "RoLinTS, s₀ = 0.25" in out
    assert "more doubt costs more" in out
    assert (tmp_path / "figure.png").exists()
    before = (tmp_path / "regret.csv").read_bytes()
    assert run(monkeypatch, *arguments) == 0
    assert (tmp_path / "regret.csv").read_bytes() == before


def ratings_file(folder: Path, rng: np.random.Generator) -> Path:
    """Ratings of 60 users for 90 movies, in the format of MovieLens 1M."""
    folder.mkdir()
    lines = [
        f"{user}::{movie}::{rng.integers(1, 6)}::978300760"
        for user in range(1, 61)
        for movie in range(1, 91)
        if rng.random() < 0.6
    ]
    (folder / "ratings.dat").write_text("\n".join(lines) + "\n")
    return folder


def test_the_command_runs_movielens(
    tmp_path: Path,
    rng: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It goes from ratings to claims, and prints the noise estimated from the data beside that of the paper."""
    data = ratings_file(tmp_path / "data", rng)
    arguments = (
        "reproduce", "movielens", "--data", data, "--runs", 2, "--rounds", 30, "--n-jobs", 1,
        "--rank", 3, "--out", tmp_path / "out",
    )  # fmt: skip
    assert run(monkeypatch, *arguments) == 0
    out = re.sub(r"\s+", " ", capsys.readouterr().out)
    assert "Noise of a rating, estimated: " in out
    assert "is 0.759." in out
    assert "5 % of training set" in out
    assert len(json.loads((tmp_path / "out/summary.json").read_text())) == 3 * 6
    # other options are another experiment
    assert run(monkeypatch, *arguments[:-4], "--rank", 4, "--out", tmp_path / "out") == 2
    assert "rank was 3 and is now 4" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("reproduce", "figure9"), "No such command 'figure9'"),
        (("reproduce", "synthetic", "--walks", "3"), "No such option"),
        (("reproduce", "synthetic", "--runs", "0"), "--runs"),
        (("reproduce", "synthetic", "--rounds", "many"), "--rounds"),
        (("reproduce", "synthetic", "--contexts", "stale"), "--contexts"),
        (("reproduce", "synthetic", "--n-jobs", "0"), "n_jobs=0"),
        (("reproduce", "synthetic", "--out", "{tmp}/file"), "cannot be written to"),
        (("reproduce", "synthetic", "--out", "{tmp}/" + 300 * "x"), "cannot be written to"),
        (("reproduce", "synthetic", "--rounds", "100000000000"), "rounds"),
        (("reproduce", "synthetic", "--out", "{tmp}/odd"), "does not contain the settings"),
        (("reproduce", "movielens"), "--data DIR"),
        (("reproduce", "all"), "--data DIR"),
        (("reproduce", "movielens", "--data", "{tmp}/nowhere"), "nowhere"),
        (("reproduce", "all", "--data", "{tmp}/nowhere"), "nowhere"),
        (("reproduce", "readings", "--rounds", "1"), "failure_probability=1.0"),
        (("reproduce", "movielens", "--data", "{tmp}"), "ratings.dat"),
        (("reproduce", "movielens", "--data", "{tmp}/broken"), "line 2"),
        (("reproduce", "movielens", "--data", "{tmp}/few"), "there are no ratings to factorize"),
        (("data", "movielens", "--name", "ml-9"), "--name"),
    ],
)
def test_bad_input_is_named_and_changes_nothing(
    arguments: tuple[str, ...],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The exit code is 2, the message names what is wrong, and no file is written."""
    (tmp_path / "file").write_text("mine")
    for name, line in (("broken", "1::2::three::4"), ("few", "1::2::3::4")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "ratings.dat").write_text(f"1::1::5::978300760\n{line}\n")
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd/settings.json").write_text('{"asked": [1], "versions": []}')
    before = sorted(tmp_path.rglob("*"))
    monkeypatch.chdir(tmp_path)
    assert run(monkeypatch, *(argument.format(tmp=tmp_path) for argument in arguments)) == 2
    err = re.sub(r"[\s│]+", " ", capsys.readouterr().err)
    assert message in err
    assert "Traceback" not in err
    assert sorted(tmp_path.rglob("*")) == before


def test_a_terminal_without_greek_letters_works(tmp_path: Path) -> None:
    """Characters that cannot be printed are replaced; a folder may have any name."""
    folder = tmp_path / "br[/b]"
    run = subprocess.run(
        [sys.executable, "-c", "from rolin.cli import main; main()", "reproduce", "ucb", "--runs", "2",
         "--rounds", "8", "--n-jobs", "1", "--out", folder],
        env={**os.environ, "PYTHONIOENCODING": "ascii"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert f"numbers: {folder}" in run.stdout


def test_the_command_names_a_missing_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error is one line, not a traceback."""
    for name in [n for n in sys.modules if n.startswith("rolin.cli.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "typer", None)
    assert run(monkeypatch, "--version") == 2
    assert "rolin[cli]" in capsys.readouterr().err


@pytest.mark.parametrize(
    "how", [signal.SIGINT, pytest.param(signal.SIGKILL, marks=pytest.mark.slow)]
)
def test_an_interrupted_command_resumes(tmp_path: Path, how: signal.Signals) -> None:
    """After Ctrl-C or a kill, the same command completes with the same numbers."""
    command = [
        sys.executable, "-c", "from rolin.cli import main; main()", "reproduce", "synthetic",
        "--runs", "12", "--rounds", "150", "--n-jobs", "2", "--out",
    ]  # fmt: skip
    stopped = subprocess.Popen(
        [*command, tmp_path / "stopped"], start_new_session=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    first = tmp_path / "stopped/runs-1.jsonl"
    patience = time.monotonic() + 60
    while not (first.exists() and first.read_bytes().count(b"\n") > 2):
        assert stopped.poll() is None, "it ended before it was interrupted"
        assert time.monotonic() < patience
        time.sleep(0.01)
    os.killpg(stopped.pid, how)
    out, _ = stopped.communicate(timeout=60)
    if how is signal.SIGINT:
        assert stopped.returncode == 130
        assert "Run the same command again to resume" in out
    assert not (tmp_path / "stopped/summary.json").exists()
    for folder in ("stopped", "whole"):
        subprocess.run([*command, tmp_path / folder], check=True, capture_output=True)
    for name in ("regret.csv", "summary.json", "claims.md", "figure.svg"):
        assert (tmp_path / "stopped" / name).read_bytes() == (
            tmp_path / "whole" / name
        ).read_bytes()
