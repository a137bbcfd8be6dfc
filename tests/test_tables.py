"""Decisions in tables and in other people's logs, in and out."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import rolin
from rolin import Bandit
from rolin.errors import (
    ArmError,
    DataError,
    InputError,
    ParameterError,
    RewardConflict,
    UnknownOption,
)
from rolin.journal import MemoryJournal, SQLiteJournal
from rolin.journal.folding import state_bytes
from rolin.logs.dsjson import read_dsjson
from rolin.logs.export import export, to_frame
from rolin.logs.reader import past_decisions
from rolin.logs.record import COLUMNS, read_journal
from rolin.logs.tables import read_decisions
from support.bandits import POLICIES, Clock, play
from support.journals import same
from support.policies import fixed


@pytest.fixture
def bandit() -> Bandit:
    """A bandit with rankings, late and missing rewards, arms named by texts and numbers."""
    bandit = Bandit(rolin.RoLinTS(n_features=2, seed=7), clock=Clock())
    play(bandit, 40)
    bandit.decide(np.eye(2), ["7", 7], id="last", top_k=2)
    bandit.reward("last", 2.0, arm="7", weight=3.0)
    return bandit


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".parquet", "frame"])
def test_what_is_exported_is_imported(ending: str, bandit: Bandit, tmp_path: Path) -> None:
    """The same decisions and outcomes, numbers to the bit, and the same state from them."""
    source: Any = tmp_path / f"log{ending}"
    if ending == "frame":
        source = to_frame(bandit.journal)
        assert list(source.columns) == list(COLUMNS)
    else:
        assert export(bandit.journal, source) == 41
    before, after = list(read_journal(bandit.journal)), past_decisions(source)
    assert len(after) == 41
    kinds = set()
    for old, new in zip(before, after, strict=True):
        assert same(new.decision, old.decision._replace(version=None, digest=None))
        assert sorted(old.outcomes) == sorted(new.outcomes)
        for rank, outcome in new.outcomes.items():
            was = old.outcomes[rank]
            kinds.add(was.expired)
            assert (outcome.value, outcome.weight, outcome.expired) == (
                was.value, was.weight, was.expired,
            )  # fmt: skip
            assert same(outcome.context, was.context)
    assert kinds == {False, True}
    other = Bandit(fixed(rolin.RoLinTS, n_features=2, seed=7), journal=tmp_path / "j.db")
    assert other.import_log(source) == 41
    assert other.import_log(source) == 0
    rewards = [o for past in before for o in past.outcomes.values() if o.value is not None]
    plain = fixed(rolin.RoLinTS, n_features=2, seed=7)
    for outcome in rewards:
        assert outcome.value is not None
        arm = getattr(outcome.arm, "name", outcome.arm)
        plain.update(arm, outcome.context, outcome.value, outcome.weight)
    mean, std = plain.predict(np.eye(2), ["red", 7])
    np.testing.assert_allclose(other.policy.predict(np.eye(2), ["red", 7]), (mean, std), rtol=1e-12)  # type: ignore[attr-defined]
    other.close()


def test_names_of_one_kind_are_columns_of_parquet(tmp_path: Path) -> None:
    """Texts are texts and integers integers, for whoever reads the file."""
    import pyarrow.parquet as pq

    for arms in (["a", "b"], [1, 2]):
        bandit = Bandit(rolin.Uniform(n_features=2, seed=1))
        bandit.decide(np.eye(2), arms)
        export(bandit.journal, tmp_path / "log.parquet")
        table = pq.read_table(tmp_path / "log.parquet")
        assert table["offered"].to_pylist() == [arms]
        assert table["arm"].to_pylist()[0] in arms
        assert table["contexts"].to_pylist() == [[[1.0, 0.0], [0.0, 1.0]]]
        (past,) = past_decisions(tmp_path / "log.parquet")
        assert past.decision.offered == tuple(arms)


def test_a_table_of_past_rewards_warms_up(tmp_path: Path) -> None:
    """An arm, a reward and features are enough; the policy then knows what it would have learned."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.normal(size=(50, 2)), columns=["price", "age"])
    frame["arm"] = rng.integers(0, 4, 50)
    frame["reward"] = rng.normal(size=50)
    frame["note"] = "x"
    frame.to_csv(tmp_path / "past.csv", index=False)
    alone = fixed(rolin.RoLinTS, n_features=2, seed=1)
    alone.update_many(frame["arm"].tolist(), frame[["price", "age"]].to_numpy(), frame["reward"])
    bandit = Bandit(fixed(rolin.RoLinTS, n_features=2, seed=1))
    assert bandit.import_log(frame, features=["price", "age"]) == 50
    assert bandit.import_log(frame, features=["price", "age"]) == 0  # the same table again
    assert bandit.import_log(frame, features=["price", "age"], person="note") == 0  # nor so
    assert bandit.import_log(frame.iloc[::-1], features=["price", "age"]) == 50  # another one
    bandit = Bandit(fixed(rolin.RoLinTS, n_features=2, seed=1))
    renamed = frame.rename(columns={"arm": "item", "reward": "spend"}).assign(
        when=100.0, who="ann", no=range(50)
    )
    bandit.import_log(
        renamed,
        arm="item",
        reward="spend",
        features=["price", "age"],
        time="when",
        person="who",
        id="no",
    )
    stored = bandit.journal.decision("7")
    assert stored is not None
    assert (stored.time, stored.person) == (100.0, "ann")
    with pytest.raises(
        DataError, match=r"expected features=.*Columns of numbers are \['price', 'age'\]"
    ):
        bandit.import_log(frame)
    with pytest.raises(DataError, match="there is no column 'whom'"):
        bandit.import_log(frame, features=["price"], person="whom")
    assert state_bytes(bandit.policy) == state_bytes(alone)
    texts = Bandit(fixed(rolin.RoLinTS, n_features=2, seed=1))
    texts.import_log(tmp_path / "past.csv", features=["price", "age"])
    assert texts.policy.arms == [str(arm) for arm in bandit.policy.arms]
    decision = bandit.decide(np.eye(2))
    assert decision.version == bandit.version - 1 == 100
    with pytest.raises(DataError, match="decision 1: it has 1 features, expected 2"):
        bandit.import_log(frame, features=["price"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"arm": ["a", None]}, r"row 2: column 'arm' is empty"),
        ({"arm": ["a", 1.5]}, r"row 2: column 'arm' is 1.5, expected a text or an integer"),
        ({"reward": [1.0, None]}, r"row 2: column 'reward' is missing, expected a number"),
        ({"reward": ["1", "yes"]}, r"row 2: column 'reward' is 'yes', expected a number"),
        ({"reward": [np.inf, 1.0]}, r"row 1: column 'reward' is inf, expected a finite number"),
        (
            {"propensity": [0.5, 0.0]},
            r"row 2: column 'propensity' is 0.0, expected above 0 and at most 1",
        ),
        ({"propensity": [1.5, 0.5]}, r"row 1: column 'propensity' is 1.5, expected above 0"),
        ({"propensity": [-0.5, 0.5]}, r"row 1: column 'propensity' is"),
        ({"weight": [1.0, 0.0]}, r"row 2: column 'weight' is 0.0, expected above 0"),
        ({"x": [0.0, np.nan]}, r"row 2: column 'x' is missing, expected a number"),
        ({"x": [0.0, "far"]}, r"row 2: column 'x' is 'far', expected a number"),
        ({"id": ["u", "u"]}, r"row 2: id 'u' is also in row 1, expected one row per id"),
        ({"id": ["u", "u" * 600]}, r"row 2: id has 600 characters"),
        ({"time": ["2020-01-01", "yesterday"]}, r"row 2: column 'time' is 'yesterday'"),
        (
            {"time": [1700000000, 1700000000000]},
            r"row 2: column 'time' is 1700000000000, expected a time",
        ),
        ({"control": ["no", "no"]}, r"row 1: column 'control' is 'no', expected true or false"),
    ],
)
def test_malformed_rows_are_named(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    """By row and column, with what was given; nothing is imported."""
    frame = pd.DataFrame({"arm": ["a", "b"], "reward": [1.0, 2.0], "x": [0.1, 0.2]} | changes)
    bandit = Bandit(rolin.RoLinTS(n_features=1, seed=1))
    with pytest.raises(DataError, match=message):
        bandit.import_log(frame, features=["x"])
    frame.to_csv(tmp_path / "log.csv", index=False)
    if changes.get("arm") != ["a", 1.5]:  # in a file of texts, a text
        with pytest.raises(DataError, match=r"log\.csv, row [12]: "):
            bandit.import_log(tmp_path / "log.csv", features=["x"])
    assert bandit.version == 0


WHOLE: dict[str, Any] = {
    "offered": [["a", "b"]], "contexts": [[[1.0], [2.0]]], "propensities": [[0.25, 0.75]],
    "chosen": [[1]], "reward": [1.0],
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"offered": [["a", "a"]]}, r"column 'offered' is \['a', 'a'\]"),
        ({"offered": [[]]}, "at least one arm"),
        ({"offered": ["a, b"]}, "column 'offered' is 'a, b', expected a list"),
        ({"offered": [7]}, "column 'offered' is 7, expected a list"),
        ({"contexts": [[[1.0]]]}, "column 'contexts' is not a table with 2 rows"),
        ({"contexts": [[[1.0], [2.0, 3.0]]]}, "column 'contexts' is not a table with 2 rows"),
        ({"contexts": [[[1.0], ["far"]]]}, "column 'contexts' is 'far', expected a number"),
        ({"propensities": [[0.5, 0.6]]}, "sum to 1"),
        ({"propensities": [[1.5, -0.5]]}, "column 'propensities' is .*, expected 2 probabilities"),
        ({"propensities": [[1.0]]}, "column 'propensities' is .*, expected 2 probabilities"),
        ({"chosen": [[2]]}, r"column 'chosen' is \[2\]"),
        ({"chosen": [[]]}, r"column 'chosen' is \[\]"),
        ({"chosen": [[0, 0]]}, "chosen"),
        ({"chosen": [[True]]}, r"column 'chosen' is \[True\]"),
        ({"chosen": [[0.0]]}, r"column 'chosen' is \[0.0\]"),
        ({"chosen": [[[0]]]}, "chosen"),
        ({"contexts": [[1.0, 2.0]]}, "column 'contexts' is not a table"),
        ({"contexts": [[[None], [1.0]]]}, "column 'contexts' is None, expected a number"),
        ({"contexts": ["[" * 100_000]}, "expected a list"),
        ({"propensities": [[10**400, 0.0]]}, "too large"),
        ({"outcome": ["lost"]}, "column 'outcome' is 'lost'"),
        ({"outcomes": [["reward", "open"]], "rewards": [[1.0]], "weights": [[1.0]]}, "differ in length"),
    ],
)  # fmt: skip
def test_malformed_questions_are_named(changes: dict[str, Any], message: str) -> None:
    """The whole question is checked, too."""
    assert len(read_decisions(pd.DataFrame(WHOLE))) == 1
    with pytest.raises(DataError, match=f"the table, row 1: .*{message}"):
        read_decisions(pd.DataFrame(WHOLE | changes))


def test_open_decisions_stay_open() -> None:
    """In an exported table, a missing reward may still come."""
    bandit = Bandit(rolin.RoLinTS(n_features=1, seed=1))
    frame = pd.DataFrame(WHOLE | {"reward": [None], "outcome": ["open"], "id": ["late"]})
    bandit.import_log(frame)
    assert bandit.policy.arms == []
    bandit.reward("late", 1.0)
    assert bandit.policy.arms == ["b"]
    with pytest.raises(DataError, match="row 1: column 'reward' is missing"):
        bandit.import_log(pd.DataFrame(WHOLE | {"reward": [None]}))
    with pytest.raises(RewardConflict, match="'late' chose 'b' in the journal, but 'a'"):
        bandit.import_log(frame.assign(chosen=[[0]]))


def test_sources_that_are_none(tmp_path: Path) -> None:
    """No file, no table, no decisions, unknown endings, missing columns."""
    with pytest.raises(DataError, match="there is no file"):
        past_decisions(tmp_path / "log.csv")
    with pytest.raises(DataError, match="there is no file"):
        past_decisions(tmp_path / "j.db")
    with pytest.raises(DataError, match="there is no column 'reward', only 'arm'"):
        past_decisions(pd.DataFrame({"arm": []}), features=[])
    with pytest.raises(InputError, match="not a table"):
        read_decisions(7)  # type: ignore[arg-type]
    (tmp_path / "log.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(DataError, match="cannot be read as a table"):
        past_decisions(tmp_path / "log.parquet")
    with pytest.raises(DataError, match="no known ending"):
        export(MemoryJournal(), tmp_path / "log.xlsx")
    with pytest.raises(DataError, match="there is no folder"):
        export(MemoryJournal(), tmp_path / "nowhere" / "log.csv")
    assert [path.name for path in tmp_path.iterdir()] == ["log.parquet"]


# -- Vowpal Wabbit's logs --------------------------------------------------------------------

# Three events in the form that the service logs: actions from 1, probabilities in ranked order.
EVENTS: list[dict[str, Any]] = [
    {
        "_label_cost": -1.0, "_label_probability": 0.8, "_label_Action": 2, "_labelIndex": 1,
        "o": [{"v": 1.0, "EventId": "e1"}], "Timestamp": "2021-02-04T16:31:29.2460000Z", "Version": "1",
        "EventId": "e1", "a": [2, 1, 3], "p": [0.8, 0.1, 0.1],
        "c": {
            "User": {"age": 31, "country": "fi", "_secret": "no feature", "member": True, "new": False},
            "_multi": [
                {"_tag": "tea", "i": {"price": 2.5}},
                {"_tag": "coffee", "i": {"price": 3.0, "kind": "hot"}, "e": [0.5, 0.25]},
                {"_tag": "juice", "j": [{"fresh": 1}]},
            ],
        },
        "VWState": {"m": "x"},
    },
    {
        "_label_cost": 0.0, "_label_probability": 0.10000000149011612, "_label_Action": 1, "_labelIndex": 0,
        "Timestamp": "2021-02-04T16:31:30Z", "Version": "1", "EventId": "e2", "a": [3, 2, 1],
        "p": [0.4000000059604645, 0.5, 0.10000000149011612], "pdrop": 0.5,
        "c": {"_multi": [{"_tag": "tea"}, {"_tag": "coffee"}, {"_tag": "juice"}]},
    },
    {"RewardValue": 1.0, "EventId": "nobody", "EnqueuedTimeUtc": "2021-02-04T16:31:30Z"},
]  # fmt: skip


def write(path: Path, events: list[Any]) -> Path:
    """Write events as lines."""
    text = "".join(json.dumps(event) + "\n" for event in events)
    if path.name.endswith(".gz"):
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path


@pytest.mark.parametrize("name", ["log.dsjson", "log.json.gz"])
def test_dsjson_is_read(name: str, tmp_path: Path) -> None:
    """Costs are rewards with the sign turned, probabilities those of their actions."""
    (one, two), features, skipped = read_dsjson(write(tmp_path / name, EVENTS))
    assert skipped == 1
    assert features == [
        "User.age", "User.country=fi", "User.member", "e.0", "e.1", "i.kind=hot", "i.price", "j.fresh"
    ]  # fmt: skip
    assert one.decision.id == "e1"
    assert one.decision.offered == ("tea", "coffee", "juice")
    assert one.decision.arm == "coffee"
    assert one.decision.propensity == 0.8
    assert one.decision.propensities is not None
    assert one.decision.propensities.tolist() == [0.1, 0.8, 0.1]
    assert one.decision.offered_contexts.tolist() == [
        [31, 1, 1, 0, 0, 0, 2.5, 0], [31, 1, 1, 0.5, 0.25, 1, 3, 0], [31, 1, 1, 0, 0, 0, 0, 1],
    ]  # fmt: skip
    assert one.decision.time == pytest.approx(1612456289.246, abs=1e-6)
    assert one.outcomes[0].value == 1.0
    assert two.decision.arm == "tea"
    assert two.decision.propensities is not None
    np.testing.assert_allclose(two.decision.propensities, [0.1, 0.5, 0.4], rtol=1e-6)
    assert two.decision.propensities.sum() == pytest.approx(1.0, abs=1e-12)
    assert (two.outcomes[0].value, two.outcomes[0].weight) == (0.0, 2.0)
    named = read_dsjson(tmp_path / name, features=["i.price", "User.age"])
    assert named.decisions[0].decision.offered_contexts.tolist() == [[2.5, 31], [3, 31], [0, 31]]


def test_actions_without_tags_are_named_by_a_feature(tmp_path: Path) -> None:
    """Or by all of them."""
    event = json.loads(json.dumps(EVENTS[0]))
    event["c"]["_multi"] = [{"i": {"id": name, "n": 2}} for name in "abc"]
    path = write(tmp_path / "log.dsjson", [event])
    (past,) = read_dsjson(path, arm="i.id").decisions
    assert past.decision.offered == ("a", "b", "c")
    (past,) = read_dsjson(path).decisions
    assert past.decision.offered[0] == "i.id=a,i.n:2"
    with pytest.raises(DataError, match=r"line 1: an action has no text under 'i\.name'"):
        read_dsjson(path, arm="i.name")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"p": [0.8, 0.1]}, "p has 2 items, expected 3"),
        ({"p": [0.8, 0.8, 0.1]}, "sum to 1"),
        ({"a": [1, 1, 2]}, "expected every one of 3 actions once"),
        ({"_labelIndex": 3}, "_labelIndex is 3"),
        ({"_label_probability": 0.1}, "_label_probability is 0.1, but p is 0.8"),
        ({"_label_probability": 0.0}, "_label_probability is 0.0"),
        ({"_label_cost": "free"}, "could not convert"),
        ({"c": {"User": {}}}, "c has no list _multi"),
        ({"c": {"_multi": []}}, "_multi is empty"),
        (
            {"c": {"_multi": [{"_tag": "a"}, {"_tag": "a"}, {"_tag": "b"}]}},
            "two actions have the same name",
        ),
        ({"c": {"_multi": [{}], "_slots": []}}, "several slots"),
        ({"pdrop": 1.0}, "pdrop"),
        ({"Timestamp": "yesterday"}, "isoformat"),
        ({"EventId": ""}, "EventId"),
        ({"_label_cost": 10**400}, "too large"),
        ({"a": [], "p": []}, "a is"),
        ({"a": ["x", "y", "z"]}, "."),
    ],
)
def test_malformed_lines_are_named(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    """By their number, with what is wrong."""
    path = write(tmp_path / "log.dsjson", [EVENTS[1], EVENTS[0] | changes])
    with pytest.raises(DataError, match=f"log.dsjson, line 2: .*{message}"):
        read_dsjson(path)


def test_dsjson_as_it_comes(tmp_path: Path) -> None:
    """A mark at the beginning, times of other zones, ids that are null, tags that are numbers."""
    event = json.loads(json.dumps(EVENTS[0])) | {
        "EventId": None,
        "Timestamp": "2021-02-04T21:31:29.246+05:00",
    }
    event["c"]["_multi"][0]["_tag"] = 0
    path = tmp_path / "log.dsjson"
    path.write_text("\ufeff" + json.dumps(event) + "\n", encoding="utf-8")
    (past,) = read_dsjson(path).decisions
    assert past.decision.id == "log.dsjson-line-1"
    assert past.decision.time == pytest.approx(1612456289.246, abs=1e-6)
    assert past.decision.offered[0] == "0"
    with pytest.raises(DataError, match="line 1: _labelIndex is missing"):
        read_dsjson(write(path, [{k: v for k, v in EVENTS[0].items() if k != "_labelIndex"}]))


def test_frames_of_every_kind(bandit: Bandit, tmp_path: Path) -> None:
    """What pandas reads from an exported file, with its own types for what is missing; polars."""
    import polars as pl

    export(bandit.journal, tmp_path / "log.parquet")
    frames = [pd.read_parquet(tmp_path / "log.parquet"), pl.read_parquet(tmp_path / "log.parquet")]
    for frame in [*frames, frames[0].convert_dtypes()]:
        assert len(past_decisions(frame)) == 41
    plain = pd.DataFrame({"arm": ["a", "b"], "x": [1, None], "reward": [1, 2]}).convert_dtypes()
    with pytest.raises(DataError, match="row 2: column 'x' is missing"):
        past_decisions(plain, features=["x"])


def test_a_frame_of_whatever_has_a_journal(bandit: Bandit, tmp_path: Path) -> None:
    """A journal, its file or a bandit; anything else is named."""
    expected = to_frame(bandit.journal)
    pd.testing.assert_frame_equal(to_frame(bandit), expected)
    with Bandit(POLICIES["learned scales"](), journal=tmp_path / "j.db") as stored:
        play(stored, 5)
        rows = to_frame(stored)
    for path in (tmp_path / "j.db", str(tmp_path / "j.db")):
        pd.testing.assert_frame_equal(to_frame(path), rows)
    for wrong in (7, None, bandit.policy):
        with pytest.raises(ParameterError, match="expected a journal, the path of its file, or a"):
            to_frame(wrong)


def test_an_export_reports_its_progress(bandit: Bandit, tmp_path: Path) -> None:
    """One step per decision."""
    steps: list[int] = []
    assert export(bandit.journal, tmp_path / "log.csv", progress=steps.append) == sum(steps) == 41
    with pytest.raises(ParameterError, match="progress='exporting'"):
        export(bandit.journal, tmp_path / "log.csv", progress="exporting")  # type: ignore[arg-type]


def test_rows_without_a_reward_follow_the_rule() -> None:
    """Refused by default; dropped or filled on request, also in an import."""
    frame = pd.DataFrame({"arm": ["a", "b"], "reward": [1.0, None], "x": [0.1, 0.2]})
    assert len(past_decisions(frame, features=["x"], missing="drop")) == 1
    filled = past_decisions(frame, features=["x"], missing=0.5)
    assert [past.outcomes[0].value for past in filled] == [1.0, 0.5]
    bandit = Bandit(rolin.RoLinTS(n_features=1, seed=1))
    assert bandit.import_log(frame, features=["x"], missing="drop") == 1
    with pytest.raises(ParameterError, match="missing='ignore', expected"):
        past_decisions(frame, features=["x"], missing="ignore")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="column 'reward' cannot be a feature"):
        past_decisions(frame, features=["reward"])


def test_options_that_a_source_does_not_have(bandit: Bandit, tmp_path: Path) -> None:
    """Are refused, rather than passed over."""
    source: Any
    for source in (bandit.journal, write(tmp_path / "log.dsjson", EVENTS), [1, 2]):
        with pytest.raises(UnknownOption, match="this kind of log takes no reward"):
            past_decisions(source, reward="clicks")
    with pytest.raises(InputError, match="holds no decisions"):
        past_decisions(None)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="expected a past decision"):
        bandit.import_log([1, 2])  # type: ignore[list-item]


def test_odd_names_of_arms(tmp_path: Path) -> None:
    """The empty text is a name; a broken letter or a number of 65 bits is none."""
    bandit = Bandit(rolin.Uniform(n_features=0, seed=1))
    bandit.decide({"": [], "0": [], 0: [], -5: []})
    for ending in (".csv", ".parquet"):
        export(bandit.journal, tmp_path / f"log{ending}")
        (past,) = past_decisions(tmp_path / f"log{ending}")
        assert past.decision.offered == ("", "0", 0, -5)
    for name in ("\ud800", 2**63, 10**5000):
        with pytest.raises(ArmError, match="the name of an arm"):
            bandit.decide({name: []})


def test_the_same_decision_twice_in_one_import(bandit: Bandit) -> None:
    """Counts once."""
    pasts = list(read_journal(bandit.journal))
    other = Bandit(rolin.RoLinTS(n_features=2, seed=7))
    assert other.import_log([pasts[0], pasts[0], pasts[1]]) == 2


def test_an_import_that_fails_leaves_no_journal(tmp_path: Path, run_rolin: Any) -> None:
    """Neither the file nor what SQLite puts beside it."""
    pd.DataFrame({"arm": ["a"], "reward": [0.5], "x": [1.0]}).to_csv(tmp_path / "log.csv")
    run = run_rolin(
        "journal", "import", tmp_path / "log.csv", tmp_path / "j.db", "--policy", "LogisticRoLinTS",
        "--features", "x",
    )  # fmt: skip
    assert run.returncode == 2
    assert "decision 1: reward=0.5, expected 0 or 1" in run.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["log.csv"]


def test_lines_that_are_not_json(tmp_path: Path) -> None:
    """Broken lines, repeated ids, files that are not text."""
    path = tmp_path / "log.dsjson"
    path.write_text('{"a": \n')
    with pytest.raises(DataError, match="line 1: not JSON"):
        read_dsjson(path)
    path.write_text("[1]\n")
    with pytest.raises(DataError, match="line 1: expected an object"):
        read_dsjson(path)
    with pytest.raises(DataError, match="line 2: EventId 'e1' is also in line 1"):
        read_dsjson(write(path, [EVENTS[0]] * 2))
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match="cannot be read"):
        read_dsjson(path)
    with pytest.raises(DataError, match="there is no file"):
        read_dsjson(tmp_path / "none.dsjson")


# -- the command line ------------------------------------------------------------------------


def test_the_command_line_moves_journals(
    tmp_path: Path, run_rolin: Any, rolin_command: Any
) -> None:
    """Show, export, import and erase, as a user would; errors are one line."""
    cli = run_rolin
    path = tmp_path / "j.db"
    with Bandit(POLICIES["learned scales"](), journal=path) as bandit:
        play(bandit, 30)
        decisions = len(list(read_journal(bandit.journal)))
    shown = cli("journal", "show", path)
    assert shown.returncode == 0, shown.stderr
    assert f"decision   {decisions}" in shown.stdout
    assert cli("journal", "export", path, tmp_path / "log.parquet").returncode == 0
    again = cli("journal", "import", tmp_path / "log.parquet", tmp_path / "new.db")
    assert f"Imported {decisions} of {decisions} decisions" in again.stdout
    erased = cli("journal", "erase", path, "--person", "person-1")
    assert "Erased 6 decisions" in erased.stdout
    assert "erased     some of the events up to" in cli("journal", "show", path).stdout
    dsjson = write(tmp_path / "log.dsjson", EVENTS)
    names = tmp_path / "names.json"
    for expected in ("2 of 2", "0 of 2"):
        run = cli("journal", "import", dsjson, tmp_path / "vw.db", "--feature-names", names)
        assert expected in run.stdout, run.stderr
    assert "i.price" in json.loads(names.read_text())
    with SQLiteJournal(tmp_path / "vw.db", readonly=True) as journal:
        assert len(list(read_journal(journal))) == 2
    (tmp_path / "bad.json").write_text("5")
    (tmp_path / "cut.csv.gz").write_bytes(gzip.compress(b"arm,reward\na,1\n" * 999)[:-20])
    for wrong in (
        ["import", dsjson, tmp_path / "x.db", "--feature-names", tmp_path / "bad.json"],
        ["import", dsjson, tmp_path / "x.db", "--feature-names", tmp_path / "no" / "names.json"],
        ["import", tmp_path / "cut.csv.gz", tmp_path / "x.db"],
        ["erase", path, "--older-than", "-5"],
        ["erase", path, "--older-than", "nan"],
        ["show", "x" * 300],
        ["show", tmp_path / "none.db"],
        ["export", path, tmp_path / "log.xlsx"],
        ["import", tmp_path / "log.parquet", tmp_path / "x.db", "--policy", "Magic"],
        ["erase", path],
        ["erase", tmp_path / "none.db", "--person", "p"],
    ):
        code, said = rolin_command("journal", *wrong)
        assert code == 2
        assert said.startswith("rolin: ")
        assert said.count("\n") == 1
    assert not (tmp_path / "x.db").exists()
