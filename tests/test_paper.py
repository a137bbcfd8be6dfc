"""The experiments of the paper have its settings, and can be resumed."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import rolin
from rolin.environments import Synthetic
from rolin.errors import ParameterError
from rolin.paper import claims
from rolin.paper.alternatives import alternatives
from rolin.paper.claims import Claim
from rolin.paper.experiment import Experiment
from rolin.paper.fixed import fixed
from rolin.paper.perturbed import Perturbed, perturbed
from rolin.paper.readings import readings
from rolin.paper.reproduce import reproduce
from rolin.paper.runtime import PAPER, runtime
from rolin.paper.scales import scales
from rolin.paper.setting import THOMPSON
from rolin.paper.synthetic import synthetic
from rolin.paper.ucb import ucb

# -- the experiments have the settings of the paper -------------------------------------------


@pytest.mark.parametrize("make", [synthetic, perturbed, ucb, readings, scales, alternatives])
def test_synthetic_experiments_have_the_papers_numbers(make: Any) -> None:
    """K = 50, d = 10, σ = λ = 1, n = 3000, and σ₀ = 0, 0.25, 0.5."""
    experiment = make()
    assert experiment.rounds == 3000
    assert experiment.runs == {readings: 30, synthetic: 300}.get(make, 100)
    assert list(experiment.environments.values()) == [
        Synthetic(n_arms=50, n_features=10, arm_std=s, coef_std=1.0, noise_std=1.0)
        for s in (0.0, 0.25, 0.5)
    ]
    fixed = make(contexts="fixed", rounds=77)
    assert all(world.contexts == "fixed" for world in fixed.environments.values())
    assert fixed.rounds == 77


def test_fixed_contexts_are_the_only_difference() -> None:
    """The experiment with fixed contexts has the policies and claims of Figure 1."""
    one, other = synthetic(), fixed()
    assert (one.name, other.name) == ("synthetic", "fixed")
    assert {world.contexts for world in other.environments.values()} == {"fixed"}
    assert other.rounds == 3000
    assert list(one.policies) == list(other.policies)
    assert [claim.name for claim in one.claims] == [claim.name for claim in other.claims]


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
            "LinTS": functools.partial(rolin.LinTS, n_features=2, **THOMPSON),
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
        table.ratio > 0
    ).all()  # how large it is depends on the machine: `rolin reproduce runtime`
    assert table.naive_rounds.min() == 2
    summary = json.loads((tmp_path / "summary.json").read_text(), parse_constant=pytest.fail)
    assert summary[0]["ratio_std_error"] is None  # of one run; JSON has no NaN
    assert "| 1024 |" in (tmp_path / "claims.md").read_text()
