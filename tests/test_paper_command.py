"""The command `rolin reproduce`."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from rolin import cli


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


@pytest.mark.slow
def test_all_runs_everything_that_is_documented(
    tmp_path: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One command writes the folders whose full-size results are in the documentation, with the same claims."""
    pairs = np.argwhere(rng.random((400, 300)) < 0.2) + 1
    rows = [f"{user}::{movie}::{rng.integers(1, 6)}::0" for user, movie in pairs]
    (tmp_path / "ratings.dat").write_text("\n".join(rows) + "\n")
    out = tmp_path / "out"
    arguments = ("--data", tmp_path, "--runs", 2, "--rounds", 8, "--n-jobs", 1, "--out", out)
    assert run(monkeypatch, "reproduce", "all", *arguments) == 0
    stored = Path(__file__).parent.parent / "docs/paper/runs"
    assert {folder.name for folder in out.iterdir()} == {folder.name for folder in stored.iterdir()}
    claim = re.compile(r"^\| ([^|]+ \| [^|]+) \| \*\*[a-z ]+\*\* \|", re.MULTILINE)
    for folder in stored.iterdir():
        made = claim.findall((out / folder.name / "claims.md").read_text())
        assert made
        assert made == claim.findall((folder / "claims.md").read_text()), folder.name


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
    ("how", "n_jobs"),
    [
        pytest.param(signal.SIGINT, "1", marks=pytest.mark.slow),
        pytest.param(signal.SIGINT, "2", marks=pytest.mark.slow),
        pytest.param(signal.SIGKILL, "2", marks=pytest.mark.slow),
    ],
)
def test_an_interrupted_command_resumes(tmp_path: Path, how: signal.Signals, n_jobs: str) -> None:
    """After Ctrl-C or a kill, the same command completes with the same numbers."""
    command = [
        sys.executable, "-c", "from rolin.cli import main; main()", "reproduce", "synthetic",
        "--runs", "12", "--rounds", "150", "--n-jobs", n_jobs, "--out",
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
