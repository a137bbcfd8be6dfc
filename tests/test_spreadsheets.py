"""Exported CSV files in spreadsheets: no text is a formula, and all texts come back."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rolin
from rolin import errors
from rolin._support.spreadsheets import with_apostrophe, without_apostrophe

TEXTS = [
    "=1+1",
    "+1",
    "-1",
    "@x",
    "\t=1",
    "\r=1",
    "\n=1",
    "'",
    "''",
    "'=1",
    "'x",
    "a'=1",
    "plain",
    "0",
]


def bandit() -> rolin.Bandit[rolin.RoLinTS]:
    """Return a bandit in memory."""
    return rolin.Bandit(rolin.RoLinTS(n_features=2, seed=1), clock=lambda: 1000.0)


@pytest.mark.parametrize("name", ["log.csv", "log.csv.gz", "log.parquet"])
def test_texts_come_back(name: str, tmp_path: Path) -> None:
    """Ids, persons and arms are the same after an export and an import, in every format."""
    with bandit() as first:
        for text in TEXTS:
            first.decide(np.eye(2), [text, f"{text} too"], id=text, person=text)
        first.export_log(tmp_path / name)
        before = list(first.journal.read())
    with bandit() as second:
        assert second.import_log(tmp_path / name) == len(TEXTS)
        for _, decision in before:
            found = second.journal.decision(decision.id)  # type: ignore[union-attr]  # decisions
            assert found is not None
            assert (found.person, found.arm) == (decision.person, decision.arm)  # type: ignore[union-attr]
    if name != "log.parquet":
        opened = gzip.open if name.endswith(".gz") else open
        with opened(tmp_path / name, "rt", newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        assert len(rows) == len(TEXTS)
        for row in rows:
            for column in ("id", "person", "arm", "offered", "chosen", "contexts"):
                assert not row[column].startswith(("=", "+", "-", "@", "\t", "\r", "\n"))


def test_frames_come_back(tmp_path: Path) -> None:
    """A frame of a CSV file has the apostrophes, and a frame of a journal has none."""
    with bandit() as first:
        for text in TEXTS:
            first.decide(np.eye(2), ["a", "b"], id=text)
        first.export_log(tmp_path / "log.csv")
        frames = [first.to_frame(), pd.read_csv(tmp_path / "log.csv", dtype=str)]
    for frame in frames:
        with bandit() as second:
            second.import_log(frame)
            assert all(second.journal.decision(text) is not None for text in TEXTS)


@given(st.text())
def test_every_text_comes_back(text: str) -> None:
    """The apostrophe is added and removed without loss."""
    assert without_apostrophe(with_apostrophe(text)) == text


def test_the_propensity_is_no_feature(tmp_path: Path) -> None:
    """A column has one meaning: the arm, the reward and the propensity are not features as well."""
    path = tmp_path / "log.csv"
    table = {"arm": ["a", "b"], "reward": [1.0, 0.0], "propensity": [0.5, 0.5], "p": [0.5, 0.5]}
    pd.DataFrame(table | {"x": [1.0, 2.0]}).to_csv(path, index=False)
    with bandit() as made:
        for column in ("arm", "reward", "propensity"):
            with pytest.raises(errors.DataError, match=f"column '{column}' cannot be a feature"):
                made.import_log(path, features=[column, "x"])
        with pytest.raises(errors.DataError, match="column 'p' cannot be a feature"):
            made.import_log(path, features=["p", "x"], propensity="p")
        with pytest.raises(errors.DataError, match="expected different columns"):
            made.import_log(path, features=["x"], propensity="reward")
        assert made.import_log(path, features=["propensity", "x"], propensity="p") == 2
