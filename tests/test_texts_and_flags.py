"""Texts become ids in one place, by their characters; flags are True or False; damaged text files are named."""

from __future__ import annotations

import enum
import gzip
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rolin
from rolin import errors, features
from rolin._support.arms import ArmIndex
from rolin._support.checks import flag_of, text_of
from rolin.journal import SQLiteJournal
from support.hostile import Liar

QUESTION = np.eye(2)


class Label(str, enum.Enum):  # noqa: UP042  # a StrEnum has another text
    """An enum whose text is its label, unlike that of a `StrEnum`."""

    A = "alpha"


class Broken(str):
    """A text that cannot be shown."""

    __slots__ = ()

    def __str__(self) -> str:
        """Raise."""
        raise RuntimeError("boom")


def bandit(path: Path | None = None) -> rolin.Bandit[rolin.RoLinTS]:
    """Return a bandit with two features."""
    return rolin.Bandit(rolin.RoLinTS(n_features=2, seed=1), journal=path)


@pytest.mark.parametrize("given", [Label.A, Liar("alpha"), Broken("alpha"), np.str_("alpha")])
def test_ids_are_the_characters_of_a_text(given: str, tmp_path: Path) -> None:
    """Whatever a text says about itself, its characters are stored, and they find it again."""
    with bandit(tmp_path / "journal.db") as made:
        decision = made.decide(QUESTION, ["r", "g"], id=given, person=given)
        assert (type(decision.id), type(decision.person)) == (str, str)
        assert (decision.id, decision.person) == ("alpha", "alpha")
        made.reward(given, 1.0)
        assert made.journal.outcomes("alpha")[0].value == 1.0
        assert made.explain(given).arm in ("r", "g")
        assert made.erase(ids=[given]) == 1


def test_texts_that_lie_are_checked_by_their_characters() -> None:
    """Length and characters of an id are those that would be stored."""
    for characters in ("y" * 501, "a\0b", "\ud800", ""):
        for given in (characters, Liar(characters)):
            with pytest.raises(errors.InputError, match="id"):
                text_of("id", given)


@pytest.mark.parametrize("plain", [["r", "g"], [1, 2], ["r", 2], ("r", "g")])
def test_arms_that_equal_everything_are_not_taken_for_others(plain: Any) -> None:
    """The arms that were offered last are found again by their content, not by what the new ones say."""
    index = ArmIndex(plain)
    assert index.find(plain).rows.tolist() == [1, 2]
    found = index.find(type(plain)([Liar("new"), Liar("other")]))
    assert (list(found.names), found.rows.tolist()) == (["new", "other"], [0, 0])
    index.find(plain)
    assert index.find(type(plain)(plain)).rows.tolist() == [1, 2]
    same = [str.__str__(name) if isinstance(name, str) else name for name in plain]
    again = index.find(type(plain)([Liar(n) if isinstance(n, str) else np.int64(n) for n in same]))
    assert (list(again.names), again.rows.tolist()) == (same, [1, 2])


def test_a_list_of_arms_may_change_between_questions() -> None:
    """The same list with another content is another question; so are texts that join to the same text."""
    index = ArmIndex(["a", "b", 2**70])
    arms: list[Any] = ["a", "b"]
    assert index.find(arms).rows.tolist() == [1, 2]
    arms[1] = "c"
    assert index.find(arms).rows.tolist() == [1, 0]
    assert index.find(["a", "b\0c"]).rows.tolist() == [1, 0]
    assert index.find(["a\0b", "c"]).rows.tolist() == [0, 0]
    assert index.find(["a\0b\0c"]).rows.tolist() == [0]
    for names in ([2**70, 1], [2**70, 1], [1, 2], [1.5, 2], [True, 2]):
        rows = index.find(names).rows.tolist()
        assert rows == [3 if name == 2**70 else 0 for name in names]
    assert pickle.loads(pickle.dumps(index)).find(arms).rows.tolist() == [1, 0]


def test_durations_are_no_arms() -> None:
    """NumPy says that a duration is an integer; it is not the name of an arm."""
    for arm in (np.timedelta64(5, "s"), np.timedelta64("NaT")):
        with pytest.raises(errors.ArmError, match="timedelta64"):
            rolin.RoLinTS(n_features=2).update(arm, [1.0, 0.0], 1.0)
        with pytest.raises(errors.ArmError, match="timedelta64"):
            bandit().decide(QUESTION, [arm, "b"])


NO_FLAGS: list[Any] = ["no", np.nan, [], 2, 0, None, np.array([True]), np.array([1, 2])]


@pytest.mark.parametrize("value", NO_FLAGS, ids=repr)
def test_flags_are_true_or_false(value: Any, tmp_path: Path) -> None:
    """Nothing else is taken for a flag."""
    path = tmp_path / "journal.db"
    with bandit(path) as made:
        made.decide(QUESTION, ["r", "g"], id="a")
        calls: list[Any] = [
            lambda: flag_of("flag", value),
            lambda: made.restore_arm("r", with_past=value),
            lambda: made.explain("a", as_of=value),
            lambda: SQLiteJournal(path, readonly=value),
            lambda: rolin.offline.read(made, first_rank=value),
            lambda: features.FeatureMap(intercept=value),
            lambda: features.FeatureMap(strict=value),
            lambda: features.HashedFeatures(cross=value),
            lambda: features.Number(missing=value),
            lambda: rolin.DisjointLinUCB(n_features=1, intercept=value),
            lambda: rolin.SafeFALCON(n_features=1, all_data=value),
        ]
        if value is not None:  # the default: as it was
            calls.append(lambda: made.change_settings(propensities=value))
        for call in calls:
            with pytest.raises(errors.ParameterError, match="expected"):
                call()
    assert flag_of("flag", np.True_) is True


@pytest.mark.parametrize("suffix", ["csv.gz", "dsjson.gz"])
def test_damaged_compressed_files_are_named(suffix: str, tmp_path: Path, seed: int) -> None:
    """Whatever is wrong with the bytes, the error is one of rolin and names the file."""
    path = tmp_path / f"log.{suffix}"
    with bandit() as made:
        for i in range(30):
            made.reward(made.decide(QUESTION, ["r", "g"], id=f"id{i}").id, 1.0)
        if suffix == "csv.gz":
            made.export_log(path)
        else:
            event = {
                "_label_cost": -1.0, "_label_probability": 0.5, "_label_Action": 1, "_labelIndex": 0,
                "Timestamp": "2020-01-01T00:00:00Z", "a": [1, 2], "p": [0.5, 0.5],
                "c": {"_multi": [{"x": 1}, {"x": 2}]},
            }  # fmt: skip
            lines = [json.dumps({**event, "EventId": f"e{i}"}) for i in range(30)]
            path.write_bytes(gzip.compress("\n".join(lines).encode()))
    good, rng = path.read_bytes(), np.random.default_rng(seed)
    rolin.offline.read(path)
    failed = []
    for i in range(120):
        damaged = bytearray(good)
        at = int(rng.integers(len(good)))
        if i % 2:
            damaged[at] ^= 1 << int(rng.integers(8))
        else:
            damaged[10 : max(at, 11)] = rng.bytes(5)
        path.write_bytes(damaged)
        try:
            rolin.offline.read(path)
        except errors.RolinError as error:
            failed.append(str(error))
    assert len(failed) > 60
    assert all("log." in message for message in failed)
