"""Compressed questions of a journal: smaller on disk, and otherwise the same."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rolin
from rolin import Bandit
from rolin.errors import DecisionConflict, JournalError, MissingExtra, ParameterError
from rolin.features import HashedFeatures
from rolin.journal import LoggedDecision, SQLiteJournal, check_journal
from rolin.journal.compression import compressor, text_of

ARMS = {f"arm-{k}": {"price": k, "kind": f"kind-{k % 3}"} for k in range(20)}


def decide(path: Path, ids: list[str], **options: Any) -> list[LoggedDecision]:
    """Make decisions on the journal of a file."""
    features = HashedFeatures(size=16)
    with SQLiteJournal(path, **options) as journal:
        policy = rolin.RoLinTS(n_features=16, seed=1)
        bandit = Bandit(policy, feature_map=features, journal=journal, clock=lambda: 1000.0)
        return [bandit.decide(ARMS, situation={"id": id}, id=id, person=id) for id in ids]


def questions(path: Path) -> dict[str, bytes]:
    """Return what is stored of the questions."""
    with closing(sqlite3.connect(path)) as db:
        rows = db.execute("SELECT decision, question FROM events WHERE question IS NOT NULL")
        return dict(rows.fetchall())


def test_only_the_bytes_differ(tmp_path: Path) -> None:
    """Decisions, digests and events are those of a journal that is not compressed."""
    plain = decide(tmp_path / "plain.db", ["a", "b"])
    small = decide(tmp_path / "small.db", ["a", "b"], compress=True)
    for one, other in zip(plain, small, strict=True):
        assert (one.id, one.arm, one.digest) == (other.id, other.arm, other.digest)
        assert one.propensities.tolist() == other.propensities.tolist()  # type: ignore[union-attr]
    texts, frames = questions(tmp_path / "plain.db"), questions(tmp_path / "small.db")
    assert {id: text_of(frame) for id, frame in frames.items()} == texts
    assert all(len(frames[id]) < 0.5 * len(texts[id]) for id in texts)
    read = []
    for name in ("plain.db", "small.db"):
        with SQLiteJournal(tmp_path / name, readonly=True) as journal:
            events = [e for _, e in journal.read() if isinstance(e, LoggedDecision)]
            read.append([(e.id, e.offered_contexts.tolist(), e.digest) for e in events])
    assert read[0] == read[1]


def test_rows_of_both_kinds_are_read(tmp_path: Path) -> None:
    """With either setting: the same question has the same answer, another one is a conflict, and all can be erased."""
    path = tmp_path / "j.db"
    first = decide(path, ["a", "b"])
    decide(path, ["c"], compress=True)
    for options in ({}, {"compress": True}):
        again = decide(path, ["a", "b", "c"], **options)
        assert [d.arm for d in again[:2]] == [d.arm for d in first]
        with SQLiteJournal(path, **options) as journal, pytest.raises(DecisionConflict):
            Bandit(journal=journal).decide(ARMS, situation={"id": "other"}, id="c")
    kinds = [text[:1] for text in questions(path).values()]
    assert kinds == [b"{", b"{", b"\x28"]
    with Bandit(journal=path) as bandit:
        assert bandit.explain("c").arm == again[2].arm
        assert bandit.erase(person="b") == 1
        assert bandit.erase(person="c") == 1
    assert list(questions(path)) == ["a"]
    assert check_journal(path).is_whole


def test_small_and_random_texts_stay_as_they_are() -> None:
    """What would not get smaller is not compressed."""
    compressed = compressor()
    assert compressed(b"{}") == b"{}"
    text = b'{"a":' + b"1" * 1000 + b"}"
    assert len(compressed(text)) < 50
    assert text_of(compressed(text)) == text
    noise = np.random.default_rng(1).bytes(1000)
    assert compressed(noise) == noise


def test_damaged_frames_are_errors() -> None:
    """Cut, changed or with a size that no question has."""
    frame = compressor()(b'{"a":' + b"12" * 500 + b"}")
    huge = b"\x28\xb5\x2f\xfd\xe0" + (1 << 40).to_bytes(8, "little") + b"\x01\x00\x00"
    for bad in (frame[:-3], frame[:6], huge):
        with pytest.raises(JournalError, match="the question"):
            text_of(bad)


def test_the_package_is_named_if_it_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only where it is needed; a file that was to be made is not."""
    decide(tmp_path / "j.db", ["a"], compress=True)
    monkeypatch.setitem(sys.modules, "zstandard", None)
    decide(tmp_path / "plain.db", ["a"])
    with pytest.raises(MissingExtra, match="zstandard"):
        SQLiteJournal(tmp_path / "new.db", compress=True)
    assert not (tmp_path / "new.db").exists()
    with (
        SQLiteJournal(tmp_path / "j.db") as journal,
        pytest.raises(JournalError, match="zstandard"),
    ):
        journal.decision("a")
    with pytest.raises(ParameterError, match="compress"):
        SQLiteJournal(tmp_path / "new.db", compress=1)  # type: ignore[arg-type]
