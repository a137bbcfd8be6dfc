"""Backups of data folders: complete or not there, and restored as they were."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import shutil
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine
from functools import wraps
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

import rolin
from rolin.cli.app import app
from rolin.errors import DataError, JournalError, RolinError
from rolin.journal import SQLiteJournal, check_journal, load_policy
from rolin.journal.folding import state_bytes
from rolin.service import restore as module
from rolin.service.backup import backup
from rolin.service.backup_manifest import read_manifest
from rolin.service.restore import restore
from support.server import V1, question
from support.service import client

OTHER = "bandits/other"


async def filled(data: Path, n: int = 12) -> dict[str, Any]:
    """Make a data folder with two bandits; return the answers to some questions."""
    answers = {}
    async with client(data) as http:
        made = await http.post("/v1/bandits", json={"name": "other", "rewards": {"window": 60.0}})
        assert made.status_code == 201
        assert (await http.put(f"{V1}/arms", json={"arms": ["a", "b"]})).status_code == 204
        for i in range(n):
            answer = await http.post(f"{V1}/decisions", json=question(f"visit-{i}"))
            answers[f"visit-{i}"] = answer.json()
            told = await http.post(f"{V1}/decisions/visit-{i}/reward", json={"value": i % 2})
            assert told.status_code == 204
    return answers


def in_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test in an event loop."""

    @wraps(test)
    def run(**fixtures: Any) -> None:
        asyncio.run(test(**fixtures))

    return run


def contents(folder: Path) -> dict[str, bytes]:
    """Return all files of a folder, by name."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@in_loop
async def test_a_restored_service_continues(tmp_path: Path) -> None:
    """It has the arms, the configuration, the answers and the state of the one that was backed up."""
    data, kept, again = tmp_path / "data", tmp_path / "backup", tmp_path / "again"
    answers = await filled(data)
    (data / "keys.json").write_text('{"format": 1, "keys": []}')
    (data / "keys.json").chmod(0o600)
    (data / "keys.lock").write_text("")
    (data / "bandits" / ".new-1").mkdir()
    manifest = backup(data, kept)
    assert sorted(manifest.files) == [
        "bandits/default/arms.json",
        "bandits/default/config.json",
        "bandits/default/journal.db",
        "bandits/other/config.json",
        "bandits/other/journal.db",
        "keys.json",
        "version.json",
    ]
    assert set(contents(kept)) == {*manifest.files, "manifest.json"}
    assert manifest == read_manifest(kept)
    assert manifest.bandits["other"].events == 1  # the feature map
    with SQLiteJournal(data / "bandits/default/journal.db", readonly=True) as journal:
        assert manifest.bandits["default"].events == len(list(journal.read()))
        state = state_bytes(load_policy(journal).policy)
    assert stat.S_IMODE((kept / "keys.json").stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.stat().st_mode) == 0o700
    restore(kept, again)
    assert contents(again) == {k: v for k, v in contents(kept).items() if k != "manifest.json"}
    assert stat.S_IMODE((again / "keys.json").stat().st_mode) == 0o600
    with SQLiteJournal(again / "bandits/default/journal.db", readonly=True) as journal:
        assert state_bytes(load_policy(journal).policy) == state
    decided = []
    for folder in (data, again):
        async with client(folder) as http:
            for id, answer in answers.items():
                assert (await http.get(f"{V1}/decisions/{id}")).json() == answer
                assert (await http.post(f"{V1}/decisions", json=question(id))).json() == answer
            assert (await http.get(f"{V1}/arms")).json() == {"arms": ["a", "b"]}
            info = (await http.get("/v1/bandits/other")).json()
            assert info["config"]["rewards"]["window"] == 60.0
            new = [await http.post(f"{V1}/decisions", json=question(f"n-{i}")) for i in range(5)]
            decided.append([answer.json() for answer in new])
    assert decided[0] == decided[1]


def full(*_: Any) -> None:
    """Fail as a full disk does."""
    raise OSError(errno.ENOSPC, "No space left on device")


@in_loop
async def test_a_broken_bandit_does_not_keep_the_others_from_being_copied(tmp_path: Path) -> None:
    """It is named in the manifest and on the terminal, and the exit code tells; other folders are no bandits."""
    data, kept = tmp_path / "data", tmp_path / "kept"
    await filled(data, 1)
    for name in ("half", "lost+found"):
        (data / "bandits" / name).mkdir()
    (data / "bandits" / "other" / "journal.db").write_bytes(b"no journal" * 1000)
    manifest = backup(data, kept)
    assert list(manifest.bandits) == ["default"]
    assert list(manifest.broken) == ["half", "other"]
    assert "there is no journal" in manifest.broken["half"]
    assert "damaged or not a journal" in manifest.broken["other"]
    assert [path.name for path in (kept / "bandits").iterdir()] == ["default"]
    assert restore(kept, tmp_path / "new") == manifest == read_manifest(kept)
    made = run("backup", tmp_path / "again", "--data", data)
    assert made.exit_code == 1
    assert "half  not in the backup: there is no journal" in made.output
    assert made.output.endswith("2 bandits are not in the backup\n")
    back = run("restore", tmp_path / "again", "--data", tmp_path / "back")
    assert back.exit_code == 0
    assert "other  not in the backup: " in back.output


@in_loop
async def test_a_full_disk_ends_a_backup(tmp_path: Path) -> None:
    """No other bandit could be copied, so it is not the fault of one."""
    await filled(tmp_path / "data", 1)
    program = (
        "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, -1)); "
        "from rolin.cli import main; main()"
    )
    command = [sys.executable, "-c", program, "backup", str(tmp_path / "kept")]
    ended = subprocess.run(
        [*command, "--data", str(tmp_path / "data")], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 2
    assert "the journal cannot be copied to " in ended.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


@in_loop
async def test_manifests_that_do_not_fit_are_rejected(tmp_path: Path) -> None:
    """A listed bandit needs its journal, and a journal its bandit; names are those of files."""
    kept = tmp_path / "kept"
    await filled(tmp_path / "data", 1)
    backup(tmp_path / "data", kept)
    good = json.loads((kept / "manifest.json").read_text())
    one = {"size": 0, "sha256": ""}
    less = {name: file for name, file in good["files"].items() if name != f"{OTHER}/journal.db"}
    for change, why in (
        ({"files": {}}, "bandits/default/journal.db of a listed bandit is not among its files"),
        ({"files": less}, "bandits/other/journal.db of a listed bandit is not among"),
        ({"files": {}, "bandits": {}}, "it does not list the bandit 'default'"),
        ({"bandits": {"default": {"events": 1}}}, "it does not list the bandit 'other'"),
        ({"bandits": {"../x": {"events": 1}}}, "'../x' is not the name of a bandit"),
        ({"format": 0}, "format is 0, expected a whole number of at least 1"),
        ({"format": True}, "format is True, expected"),
        ({"format": 1.5}, "format is 1.5, expected"),
        ({"format": 2}, f"with the build of rolin {rolin.__version__} that made it"),
        ({"files": {**good["files"], "a\0b": one}}, "is not the name of a file"),
        ({"files": {**good["files"], "keys.json/x": one, "keys.json": one}}, "'keys.json', which is a file"),
        ({"files": {**good["files"], ".restore-1": one}}, "is not the name of a file"),
    ):  # fmt: skip
        (kept / "manifest.json").write_text(json.dumps({**good, **change}))
        with pytest.raises(DataError) as raised:
            restore(kept, tmp_path / "new")
        assert why in str(raised.value)
        assert not (tmp_path / "new").exists()


@in_loop
async def test_places_that_cannot_be_restored_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message names the file, and nothing is there afterwards."""
    kept, link, file = tmp_path / "kept", tmp_path / "link", tmp_path / "file"
    await filled(tmp_path / "data", 1)
    backup(tmp_path / "data", kept)
    link.symlink_to("nowhere")
    file.write_text("")
    before = contents(tmp_path)
    for place, why in (
        (kept / "sub", f"{kept / 'sub'} is inside the backup {kept}"),
        (link, f"{link} is a link to nowhere, which does not exist"),
        (file / "sub", f"{file / 'sub'} cannot be used: Not a directory; nothing was restored"),
    ):
        with pytest.raises(DataError) as raised:
            restore(kept, place)
        assert why in str(raised.value)
        assert contents(tmp_path) == before
    with pytest.raises(DataError, match="is not a backup: there is no such folder"):
        restore(file / "sub", tmp_path / "new")
    for number in (errno.ENOSPC, errno.EFBIG):

        def fails(_: int, number: int = number) -> None:
            raise OSError(number, os.strerror(number))

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", fails)
            with pytest.raises(DataError) as raised:
                restore(kept, tmp_path / "new")
        first = kept / "bandits/default/arms.json"
        assert str(raised.value).startswith(f"{first} cannot be copied to {tmp_path / 'new'}")
        assert str(raised.value).endswith(f": {os.strerror(number)}; nothing was restored")
        assert not list((tmp_path / "new").iterdir())
    (kept / "bandits/default/arms.json").unlink()
    (kept / "bandits/default/arms.json").mkdir()
    with pytest.raises(DataError, match=r"arms\.json is not a file; nothing was restored"):
        restore(kept, tmp_path / "new")


def run(*arguments: object) -> Any:
    """Run a command."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@in_loop
async def test_damaged_backups_are_rejected(tmp_path: Path) -> None:
    """A changed, shortened or missing file is named, and the folder stays as it was."""
    await filled(tmp_path / "data", 1)
    backup(tmp_path / "data", tmp_path / "good")
    names = [*read_manifest(tmp_path / "good").files, "manifest.json"]
    for i, name in enumerate(names):
        for change in ("flip", "cut", "remove"):
            bad, target = tmp_path / f"bad-{i}-{change}", tmp_path / f"new-{i}-{change}"
            shutil.copytree(tmp_path / "good", bad)
            content = bytearray((bad / name).read_bytes())
            content[len(content) // 2] ^= 1
            (bad / name).write_bytes(content[: -1 if change == "cut" else None])
            if change == "remove":
                (bad / name).unlink()
            with pytest.raises(DataError, match=r"damaged|is not a backup"):
                restore(bad, target)
            assert not target.exists() or not list(target.iterdir())


@in_loop
async def test_places_that_cannot_be_used(tmp_path: Path) -> None:
    """Nothing that exists is overwritten, and errors say what was expected."""
    data, kept = tmp_path / "data", tmp_path / "kept"
    with pytest.raises(DataError, match="has no folder bandits"):
        backup(data, kept)
    await filled(data, 1)
    with pytest.raises(DataError, match="is inside the data folder"):
        backup(data, data / "backup")
    with pytest.raises(DataError, match="there is no folder"):
        backup(data, tmp_path / "no" / "backup")
    backup(data, kept)
    before = contents(tmp_path)
    with pytest.raises(DataError, match="exists already"):
        backup(data, kept)
    with pytest.raises(DataError, match=r"is not empty: it holds bandits, service\.lock, version"):
        restore(kept, data)
    with pytest.raises(DataError, match="is not a backup"):
        restore(data, tmp_path / "new")
    with pytest.raises(DataError, match="is not a folder"):
        restore(kept, kept / "version.json")
    assert contents(tmp_path) == before
    disk = tmp_path / "disk"
    (disk / "lost+found").mkdir(parents=True)  # as a new disk
    restore(kept, disk)
    assert (disk / "bandits" / "default" / "journal.db").exists()
    manifest = json.loads((kept / "manifest.json").read_text())
    (kept / "manifest.json").write_text(json.dumps({**manifest, "format": 7, "rolin": "9.1"}))
    with pytest.raises(DataError, match=r"made by rolin 9\.1 and has format 7.* with rolin 9\.1"):
        restore(kept, tmp_path / "new")
    for name in ("../x", "/x", "a//b", ""):
        files = {name: {"size": 0, "sha256": ""}}
        (kept / "manifest.json").write_text(json.dumps({**manifest, "files": files}))
        with pytest.raises(DataError, match="is not the name of a file"):
            restore(kept, tmp_path / "new")


@in_loop
async def test_a_failed_backup_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the folder nor a part of it; the same for a restore that is interrupted."""
    data, kept = tmp_path / "data", tmp_path / "kept"
    await filled(data, 1)
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "copymode", full)
        with pytest.raises(OSError, match="No space left"):
            backup(data, kept)
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
    backup(data, kept)

    def interrupted(_: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module, "sync_folders", interrupted)
        with pytest.raises(KeyboardInterrupt):
            restore(kept, tmp_path / "new")
    assert not list((tmp_path / "new").iterdir())
    with monkeypatch.context() as patch:  # killed
        patch.setattr(module, "sync_folders", interrupted)
        patch.setattr(shutil, "rmtree", lambda *_, **__: None)
        with pytest.raises(KeyboardInterrupt):
            restore(kept, tmp_path / "new")
    with pytest.raises(DataError, match="a restore was interrupted"):
        async with client(tmp_path / "new"):
            pass


@in_loop
async def test_the_configuration_is_that_of_the_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bandit that is changed while its journal is copied is copied again; one that is deleted is left out."""
    data = tmp_path / "data"
    await filled(data, 2)
    copy_to, changes = SQLiteJournal.copy_to, []

    async with client(data) as http:

        def disturbed(journal: SQLiteJournal, *args: Any, **options: Any) -> int:
            n = copy_to(journal, *args, **options)
            name = journal.path.parent.name
            if name == "other":
                shutil.rmtree(journal.path.parent)
            elif len(changes) < 3:
                changes.append(name)
                path = journal.path.parent / "config.json"
                path.write_bytes(path.read_bytes().replace(b"}", b" }", 1))
            return n

        monkeypatch.setattr(SQLiteJournal, "copy_to", disturbed)
        manifest = backup(data, tmp_path / "kept")
        assert len(changes) == 3
        assert list(manifest.bandits) == ["default"]
        config = data / "bandits" / "default" / "config.json"
        assert (tmp_path / "kept/bandits/default/config.json").read_bytes() == config.read_bytes()
        assert (await http.get("/readyz")).status_code == 200


def test_a_copy_is_one_moment_of_a_busy_journal(tmp_path: Path) -> None:
    """Events that are written meanwhile are not in it, and do not make it start again."""
    path = tmp_path / "j.db"
    with rolin.Bandit(rolin.RoLinTS(n_features=2, seed=1), journal=path) as bandit:
        stop = threading.Event()

        def decide() -> None:
            while not stop.is_set():
                bandit.decide({"a": [1.0, 0.0], "b": [0.0, 1.0]})

        thread = threading.Thread(target=decide)
        thread.start()
        try:
            while bandit.version < 50:
                pass
            steps: list[int] = []
            with SQLiteJournal(path, readonly=True) as journal:
                before = journal.header()
                n = journal.copy_to(tmp_path / "copy.db", progress=steps.append)
                after = journal.header()
                with pytest.raises(JournalError, match="exists already"):
                    journal.copy_to(tmp_path / "copy.db")
        finally:
            stop.set()
            thread.join()
    assert before is not None
    assert after is not None
    assert before.last <= n <= after.last
    assert sum(steps) == (tmp_path / "copy.db").stat().st_size
    report = check_journal(tmp_path / "copy.db")
    assert (report.events, report.problems) == (n, ())


def test_commands(tmp_path: Path) -> None:
    """They say what was copied; an error is one line."""
    data = tmp_path / "data"
    (data / "bandits").mkdir(parents=True)
    made = run("backup", tmp_path / "kept", "--data", data)
    assert made.exit_code == 0, made.output
    assert f"Backup {tmp_path / 'kept'}: 0 files, 0.0 MB" in made.stdout
    back = run("restore", tmp_path / "kept", "--data", tmp_path / "new")
    assert back.exit_code == 0, back.output
    assert "Restored the backup of 20" in back.stdout
    assert os.listdir(tmp_path / "new") == ["bandits"]
    assert isinstance(run("backup", tmp_path / "kept", "--data", data).exception, RolinError)
    assert msgspec.json.decode((tmp_path / "kept" / "manifest.json").read_bytes())["format"] == 1
