"""Commands never write over what they read, nor over files of another kind."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import numpy as np
import pandas as pd
import pytest

import rolin
from rolin import errors

Run = Callable[..., CompletedProcess[str]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a journal, its exports, its policy, a plain log and a foreign file."""
    rng = np.random.default_rng(0)
    with rolin.Bandit(
        rolin.RoLinTS(n_features=2, seed=1), journal=tmp_path / "journal.db"
    ) as bandit:
        for i in range(60):
            decision = bandit.decide(rng.normal(size=(3, 2)), ["r", "g", "b"], id=f"a{i}")
            bandit.reward(decision.id, float(rng.random()))
        bandit.export_log(tmp_path / "log.csv")
        bandit.policy.save(tmp_path / "policy.rolin")
    table = pd.DataFrame(
        {"arm": ["a", "b"] * 30, "reward": rng.random(60), "x": rng.normal(size=60)}
    )
    table.to_csv(tmp_path / "plain.csv", index=False)
    table.to_parquet(tmp_path / "plain.parquet")
    (tmp_path / "photo.txt").write_text("precious")
    (tmp_path / "photo.png").write_bytes(b"\x89PNG\r\n\x1a\n precious")
    (tmp_path / "data.json").write_text('{"precious": 1}')
    (tmp_path / "link").symlink_to(tmp_path / "journal.db")
    os.link(tmp_path / "journal.db", tmp_path / "hard")
    shutil.copy(tmp_path / "journal.db", tmp_path / "copy.csv")
    return tmp_path


CASES = [
    "evaluate log.csv --policy uniform --json log.csv",
    "evaluate journal.db --policy uniform --json journal.db",
    "evaluate journal.db --policy uniform --json link",
    "evaluate journal.db --policy uniform --json hard",
    "evaluate link --policy uniform --json journal.db",
    "evaluate journal.db --policy uniform --json journal.db-wal",
    "evaluate journal.db --policy policy.rolin --json policy.rolin",
    "evaluate journal.db --policy uniform --json photo.txt",
    "evaluate journal.db --policy uniform --json data.json",
    "evaluate journal.db --policy uniform --figure journal.db",
    "evaluate journal.db --policy uniform --figure photo.png",
    "evaluate journal.db --policy uniform --json new --figure new",
    "evaluate journal.db --policy uniform --json missing/new",
    "diagnose plain.csv --json plain.csv",
    "diagnose journal.db --json journal.db",
    "diagnose policy.rolin --json policy.rolin",
    "diagnose plain.csv --json journal.db",
    "diagnose plain.csv --figure journal.db",
    "diagnose plain.csv --figure photo.png",
    "diagnose plain.csv --json .",
    "fit plain.parquet --out journal.db",
    "fit plain.parquet --out plain.parquet",
    "fit plain.parquet --out photo.txt",
    "fit plain.parquet --out policy.rolin",
    "fit plain.parquet --out link",
    "journal export journal.db journal.db",
    "journal export journal.db copy.csv",
    "journal export copy.csv copy.csv",
    "journal export journal.db plain.csv",
    "journal export journal.db plain.parquet",
]


@pytest.mark.parametrize("command", CASES)
def test_commands_spare_their_input_and_foreign_files(
    command: str, folder: Path, run_rolin: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command is refused with a message, before it computes anything, and no file changes."""
    monkeypatch.chdir(folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    ended = run_rolin(*command.split())
    assert ended.returncode == 2
    assert ended.stderr.startswith("rolin: ")
    assert ended.stdout == ""
    after = {path.name: path.read_bytes() for path in folder.iterdir()}
    beside = ("-wal", "-shm")  # SQLite makes them when it reads a journal
    assert {name for name in after.keys() - before.keys() if not name.endswith(beside)} == set()
    assert all(after[name] == content for name, content in before.items())


@pytest.mark.parametrize(
    "command",
    [
        "evaluate journal.db --policy policy.rolin --json out.json --figure out.png",
        "evaluate journal.db --policy policy.rolin --figure out.svg",
        "diagnose plain.csv --json out.json --figure out.pdf",
        "fit plain.parquet --out out.rolin",
        "journal export journal.db out.csv",
        "journal export journal.db out.csv.gz",
        "journal export journal.db out.parquet",
    ],
)
def test_earlier_results_are_replaced(
    command: str, folder: Path, run_rolin: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same command may run twice, through links and into empty files too."""
    monkeypatch.chdir(folder)
    for _ in range(2):
        ended = run_rolin(*command.split())
        assert ended.returncode == 0, ended.stderr
    outputs = [Path(word) for word in command.split() if word.startswith("out.")]
    for output in outputs:
        assert output.stat().st_size > 100
        output.write_bytes(b"")
    assert run_rolin(*command.split()).returncode == 0
    assert all(output.stat().st_size > 100 for output in outputs)
    assert not list(folder.glob(".*part*"))


def test_a_figure_of_someone_else_is_not_replaced(
    tmp_path: Path, run_rolin: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`simulate` refuses before it simulates."""
    monkeypatch.chdir(tmp_path)
    Path("out").mkdir()
    Path("out/regret.png").write_bytes(b"precious")
    ended = run_rolin("simulate", "LinTS", "--rounds", 5, "--runs", 1, "--out", "out")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert Path("out/regret.png").read_bytes() == b"precious"


def test_a_log_is_not_exported_onto_its_journal(tmp_path: Path) -> None:
    """`Bandit.export_log` has the same rules as the command."""
    journal = tmp_path / "journal.csv"
    with rolin.Bandit(rolin.RoLinTS(n_features=2, seed=1), journal=journal) as bandit:
        bandit.decide(np.eye(2), ["r", "g"], id="a")
        for name in ("journal.csv", "journal.csv-wal"):
            with pytest.raises(errors.DataError):
                bandit.export_log(tmp_path / name)
        assert bandit.export_log(tmp_path / "out.csv") == 1
        assert bandit.export_log(tmp_path / "out.csv") == 1
