"""Bandits that take raw features: what is recorded, and how it becomes a vector."""

from __future__ import annotations

import copy
import json
import math
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.feature_extraction import DictVectorizer

import rolin
from rolin import Bandit, FeatureMap, offline
from rolin.errors import ArmError, DecisionConflict, InputError, ParameterError
from rolin.features import Category, HashedFeatures, Number, SklearnFeatureMap, Tags
from rolin.features.uniform_rows import UniformRows
from rolin.journal import Journal
from rolin.journal.events import Outcome
from rolin.journal.folding import state_bytes
from support.raw_features import FEATURES, MORE, D, play, question


def test_raw_features_are_taken_and_recorded(journal: Journal) -> None:
    """The journal has the raw features, unknown ones included, and the vectors can be had from them."""
    bandit = Bandit(rolin.RoLinTS(n_features=D, seed=7), feature_map=FEATURES, journal=journal)
    arms, situation = question(np.random.default_rng(1))
    decision = bandit.decide(arms, situation=situation, id="visit", exclude=["blue"])
    expected = FEATURES.contexts({name: arms[name] for name in ("red", 7)}, situation)
    arms["red"]["price"] = -1e9  # the record does not follow
    situation["device"] = "changed"
    for found in (decision, bandit.journal.decision("visit")):
        assert found is not None
        assert found.offered == ("red", 7)
        assert (found.offered_contexts == expected).all()
        assert (found.context == expected[found.chosen[0]]).all()
        assert (found.contexts == expected[list(found.chosen)]).all()
        assert found.raw is not None
        assert found.raw.rows[1] == arms[7]
        assert found.raw.situation["device"] != "changed"
    bandit.reward("visit", 1.0)
    assert bandit.policy.posterior.count == 1.0


def test_vectors_and_raw_features_decide_the_same(journal: Journal) -> None:
    """A bandit with a map is one that gets the map's vectors: decisions, propensities and state."""
    by_map = Bandit(rolin.RoLinTS(n_features=D, seed=7), feature_map=FEATURES, journal=journal)
    by_hand = Bandit(rolin.RoLinTS(n_features=D, seed=7))
    rng = np.random.default_rng(2)
    for t in range(30):
        arms, situation = question(rng)
        one = by_map.decide(arms, situation=situation, id=str(t))
        two = by_hand.decide(FEATURES.contexts(arms, situation), list(arms), id=str(t))
        assert (one.arm, one.propensity) == (two.arm, two.propensity)
        for bandit in (by_map, by_hand):
            bandit.reward(str(t), float(one.arm == "red"))
    assert by_map.policy.feature_map == FEATURES
    plain = copy.deepcopy(by_map.policy)
    plain.feature_map = None
    assert state_bytes(plain) == state_bytes(by_hand.policy)


def test_raw_features_that_are_wrong_change_nothing(journal: Journal) -> None:
    """Errors name the field and the arm; nothing is recorded, and the next decision is as it would have been."""
    bandit = Bandit(rolin.RoLinTS(n_features=D, seed=7), feature_map=FEATURES, journal=journal)
    arms, situation = question(np.random.default_rng(6))
    version = bandit.version
    for bad, message in (
        ({"price": "3"}, "field 'price' of arm 'red' is '3', expected a number"),
        ({"price": math.nan}, "field 'price' of arm 'red' is nan"),
        ({"tags": "new"}, "field 'tags' of arm 'red' is 'new', expected a list of texts"),
        ([1.0, 2.0], r"arm 'red' is \[1.0, 2.0\], expected its fields"),
    ):
        with pytest.raises(InputError, match=message):
            bandit.decide({**arms, "red": bad}, situation=situation)
    with pytest.raises(InputError, match="field 'hour' of the situation is 'noon'"):
        bandit.decide(arms, situation={"hour": "noon"})
    with pytest.raises(InputError, match="expected a mapping from arm to its fields"):
        bandit.decide(3)
    with pytest.raises(ArmError, match="all 3 arms are excluded"):
        bandit.decide(arms, exclude=["red", "blue", 7])
    with pytest.raises(ArmError):
        bandit.decide([{}, {}], ["a", "a"])
    assert bandit.version == version
    plain = Bandit(rolin.RoLinTS(n_features=2, seed=7))
    with pytest.raises(ParameterError, match="situation was given, but the bandit has no"):
        plain.decide({"a": [1.0, 2.0]}, situation={"hour": 3})


def test_what_json_cannot_hold_breaks_nothing(journal: Journal) -> None:
    """Dates, NaN, sets and cycles in fields that nobody declared; NumPy's numbers in those that are."""
    bandit = Bandit(rolin.RoLinTS(n_features=D, seed=7), feature_map=FEATURES, journal=journal)
    cycle: dict[str, Any] = {}
    cycle["self"] = cycle
    row = {
        "price": np.float32(0.1), "own": np.bool_(True), "tags": {"new"},
        "when": datetime(2026, 1, 1, tzinfo=UTC), "x": math.inf, "y": cycle, 3: object, "z": b"\xff",
    }  # fmt: skip
    decision = bandit.decide({"red": row}, situation={"hour": np.int64(3)}, id="visit")
    stored = journal.decision("visit")
    assert stored is not None
    assert (stored.offered_contexts == decision.offered_contexts).all()
    assert (stored.context == FEATURES.contexts({"red": row}, {"hour": 3})[0]).all()
    assert stored.raw is not None
    assert stored.raw.rows[0]["when"] == {"_text": "2026-01-01 00:00:00+00:00"}
    assert stored.raw.rows[0]["x"] is None


def test_tables_and_lists_of_arms() -> None:
    """Arms as rows of a table, or of a list; JSON; names alone; several decisions at once."""
    arms, situation = question(np.random.default_rng(8))
    rows = [{"price": 1.0, "tags": ["new"]}, {"price": 2.0, "tags": ["sale"]}]
    bandit = Bandit(rolin.RoLinTS(n_features=D, seed=7), feature_map=FEATURES)
    expected = FEATURES.contexts(rows, situation)
    for given in (rows, pd.DataFrame(rows), pl.DataFrame(rows), pl.DataFrame(rows).to_arrow()):
        decision = bandit.decide(given, ["a", "b"], situation=situation)
        assert (decision.offered_contexts == expected).all()
        assert decision.raw is not None
        assert [row["price"] for row in decision.raw.rows] == [1.0, 2.0]
    text = bandit.decide(json.dumps({"a": rows[0]}), situation=json.dumps(situation))
    assert (text.context == expected[0]).all()
    many = bandit.decide_many([arms, arms], situations=[situation, {"hour": 3.0}], ids=["m", "n"])
    assert (many[0].offered_contexts == FEATURES.contexts(arms, situation)).all()
    assert (many[1].offered_contexts == FEATURES.contexts(arms, {"hour": 3.0})).all()
    names = FeatureMap({"hour": Number()}, {"_arm": Category(["a", "b"])})
    bandit = Bandit(rolin.RoLinTS(n_features=names.n_features, seed=7), feature_map=names)
    decision = bandit.decide(arms=["a", "b"], situation={"hour": 3.0})
    assert decision.arm in ("a", "b")
    with pytest.raises(rolin.errors.ShapeError, match="situations has 1 items, expected 2"):
        bandit.decide_many([["a"], ["b"]], situations=[{}])


def test_the_report_has_the_names_of_the_map() -> None:
    """Coefficients of the misspecification report are called what the map calls them."""
    bandit = Bandit(rolin.RoLinTS(n_features=D, seed=7), feature_map=FEATURES)
    play(bandit, 60)
    assert isinstance(bandit.policy, rolin.RoLinTS)
    report = bandit.policy.diagnose()
    assert [c.name for c in report.coefficients] == [*FEATURES.names, "level"]
    # categories add up to the level, yet every coefficient is told as well as a prior can
    assert max(c.high - c.low for c in report.coefficients[:-1]) < 20.0
    assert "… 11 smaller ones" in str(report)


def test_what_is_recorded_is_what_was_used(journal: Journal) -> None:
    """Values that JSON has no word for, and keys that are no texts: the record gives the same vector."""
    features = FeatureMap(
        {"hour": Number(missing=True)},
        {"price": Number(missing=True), "kind": Category(["a"], missing=True), "tags": Tags(["x"]), "7": Number()},
    )  # fmt: skip
    bandit = Bandit(
        rolin.RoLinTS(n_features=features.n_features), feature_map=features, journal=journal
    )
    rows: list[dict[Any, Any]] = [
        {"price": pd.NA, "kind": pd.NaT, "tags": ["x", pd.NA]},
        {"price": Decimal("0.1"), "kind": np.str_("a"), "tags": np.array(["x"])},
        {"price": np.longdouble(3), "x": Decimal("NaN"), "y": np.array(3.0), "z": 10**5000},
        {7: 3.0, "price": 1.0, "o": object(), "w": np.longdouble("nan")},
    ]
    for i, row in enumerate(rows):
        decision = bandit.decide({"r": row}, situation={"hour": pd.NA}, id=str(i))
        stored = journal.decision(str(i))
        assert stored is not None
        assert (stored.offered_contexts == decision.offered_contexts).all()
        assert stored.raw is not None
        again = features.contexts({"r": stored.raw.rows[0]}, stored.raw.situation)
        assert (again == features.contexts({"r": row}, {"hour": None})).all()
        bandit.reward(str(i), 1.0)
    assert bandit.expire(0.0) == 0


def test_erased_decisions_take_their_raw_features_along(tmp_path: Path) -> None:
    """No byte of what was said of a person is left in the files; the map is."""
    path = tmp_path / "j.db"
    with Bandit(rolin.RoLinTS(n_features=D, seed=7), feature_map=FEATURES, journal=path) as bandit:
        bandit.decide({"red": {}}, situation={"diary": "a-secret-word"}, person="ann", id="1")
        bandit.decide({"red": {}}, situation={}, person="bob", id="2")
        assert bandit.erase(person="ann") == 1
        assert bandit.journal.decision("1") is None
        assert bandit.journal.decision("2") is not None
    left = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert b"a-secret-word" not in left
    with Bandit(journal=path, clock=lambda: 2e9) as bandit:
        assert bandit.feature_map == FEATURES
        bandit.decide({"red": {}}, situation={}, id="3")
        bandit.erase(older_than=timedelta(days=1))
        assert bandit.journal.decision("2") is None
    with Bandit(journal=path) as bandit:
        assert bandit.feature_map == FEATURES
        assert bandit.journal.decision("3") is not None


def test_raw_features_given_to_a_policy() -> None:
    """It takes vectors, and says who makes them."""
    policy = rolin.RoLinTS(n_features=2, seed=1)
    with pytest.raises(ParameterError, match="arm 'a' has raw features, expected a vector"):
        policy.decide({"a": {"price": 1.0}})
    with pytest.raises(ParameterError, match="expected a feature map"):
        policy.change_feature_map(DictVectorizer())  # type: ignore[arg-type]  # on purpose


# -- hostile input and odd calls -------------------------------------------------------------


def test_what_is_nested_deep_is_cut_off(journal: Journal) -> None:
    """A field that nobody uses cannot make a decision that can never be rewarded, exported or expired."""
    bandit = Bandit(rolin.RoLinTS(n_features=D, seed=7), feature_map=FEATURES, journal=journal)
    deep: Any = 1
    for _ in range(900):
        deep = [deep]
    cycle: list[Any] = []
    cycle += [cycle] * 8
    for i, odd in enumerate((deep, {"a": deep}, cycle)):
        bandit.decide({"x": {"price": 1.0, "z": odd}}, situation={"y": odd}, id=str(i))
        bandit.reward(str(i), 1.0)
        stored = journal.decision(str(i))
        assert stored is not None
        assert stored.raw is not None
        assert len(json.dumps(stored.raw.rows)) < 1000
    tagged = {f"arm-{k}": {"tags": ["new", "sale"], "seller": {"id": k}} for k in range(50)}
    decision = bandit.decide(tagged, situation={})
    assert decision.raw is not None
    assert decision.raw.rows == list(tagged.values())


def test_rows_that_change_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is recorded is what was scored, though another thread writes to the rows in between."""
    row = {"price": 1.0}
    encode = FeatureMap.encode

    def changed(self: FeatureMap, *given: Any) -> Any:
        vectors = encode(self, *given)
        row["price"] += 1.0
        return vectors

    monkeypatch.setattr(FeatureMap, "encode", changed)
    bandit = Bandit(rolin.RoLinTS(n_features=D, seed=7), feature_map=FEATURES)
    decision = bandit.decide({"x": row}, situation={})
    assert decision.raw is not None
    assert decision.raw.rows == [{"price": 1.0}]
    assert FEATURES.named(decision.context)["price"] == 0.1


def test_transformers_get_what_was_given() -> None:
    """Dates as dates, once; what it returns that is no number names the feature and the arm."""

    class Years:
        """A transformer of somebody's own."""

        calls = 0

        def transform(self, rows: list[dict[str, Any]]) -> Any:
            """Return the years."""
            self.calls += 1
            return [[float(row["when"].year) if row["when"] else math.nan] for row in rows]

    years = Years()
    features = SklearnFeatureMap(years, n_features=1)
    bandit = Bandit(rolin.RoLinTS(n_features=1, seed=7), feature_map=features)
    decision = bandit.decide({"a": {"when": datetime(2020, 1, 1)}}, situation={})
    assert decision.context.tolist() == [2020.0]
    assert years.calls == 1
    with pytest.raises(InputError, match="feature 'x0' of arm 'a' is nan, as the transformer"):
        bandit.decide({"a": {"when": None}}, situation={})


@pytest.mark.parametrize("file", [None, "j.db"], ids=["memory", "file"])
def test_a_decision_is_encoded_once(
    file: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Repeating, rewarding and explaining a decision, and reading its contexts, use those of the decision."""
    calls = 0
    encode = FeatureMap.encode

    def counted(self: FeatureMap, *given: Any) -> Any:
        nonlocal calls
        calls += 1
        return encode(self, *given)

    monkeypatch.setattr(FeatureMap, "encode", counted)
    policy = rolin.RoLinTS(n_features=D, seed=7)
    bandit = Bandit(policy, feature_map=FEATURES, journal=file and tmp_path / file)
    arms, situation = question(np.random.default_rng(1))
    decision = bandit.decide(arms, situation=situation)
    again = bandit.decide(arms, situation=situation, id=decision.id)
    assert (again.context == decision.context).all()
    bandit.reward(decision.id, 1.0)
    for arm in arms:
        bandit.explain(decision.id, arm)
    assert decision.offered_contexts.shape == (3, D)
    assert not decision.offered_contexts.flags.writeable
    assert (decision.contexts == decision.context).all()
    (row,) = bandit.to_frame()["contexts"]
    assert row == decision.offered_contexts.tolist()
    assert calls == 1
    bandit.close()


def test_json_is_written_when_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bandit in memory writes it for a repeated id and for its readers only, with the values of the decision."""
    written = 0
    to_json = UniformRows.to_json

    def counted(self: UniformRows) -> str | None:
        nonlocal written
        written += 1
        return to_json(self)

    monkeypatch.setattr(UniformRows, "to_json", counted)
    bandit = Bandit(rolin.RoLinTS(n_features=D, seed=7), feature_map=FEATURES)
    arms = {name: {"price": price, "own": True} for name, price in (("red", 2.5), ("blue", 3.0))}
    situation = {"device": "phone", "hour": 7}
    expected = json.dumps(
        {"situation": situation, "arms": list(arms.values())}, separators=(",", ":")
    )
    decision = bandit.decide(arms, situation=situation)
    bandit.reward(decision.id, 1.0)
    assert not written
    changed = {name: {**row, "price": 77.0} for name, row in arms.items()}
    with pytest.raises(DecisionConflict):
        bandit.decide(changed, situation=situation, id=decision.id)
    assert written
    for row in arms.values():
        row.clear()
    assert decision.raw is not None
    assert decision.raw.to_json() == expected
    assert decision.raw.rows == json.loads(expected)["arms"]


def test_nobody_can_change_a_record() -> None:
    """Not by what it returns, and not before its JSON is written."""
    bandit = Bandit(rolin.RoLinTS(n_features=D, seed=7), feature_map=FEATURES)
    arms = {"red": {"price": 2.5, "own": True}}
    decision = bandit.decide(arms, situation={"hour": 7}, id="visit")
    assert decision.raw is not None
    decision.raw.situation["hour"] = 8
    decision.raw.rows[0]["price"] = 0.0
    assert bandit.decide(arms, situation={"hour": 7}, id="visit").id == "visit"
    assert decision.raw.situation == {"hour": 7}
    assert decision.raw.rows == [arms["red"]]


def test_large_values_of_fields_that_are_not_used() -> None:
    """They are recorded without a warning."""
    bandit = Bandit(rolin.RoLinTS(n_features=D, seed=7), feature_map=FEATURES)
    decision = bandit.decide({"red": {"price": 1.0, "views": 1e200}}, situation={})
    assert decision.raw is not None
    assert decision.raw.rows == [{"price": 1.0, "views": 1e200}]


def test_a_reward_holds_one_context(tmp_path: Path) -> None:
    """Not the contexts of all arms that were offered, which it would keep in memory after they are released."""
    policy = rolin.RoLinTS(n_features=D, seed=7)
    with Bandit(policy, feature_map=FEATURES, journal=tmp_path / "j.db") as bandit:
        arms, situation = question(np.random.default_rng(1))
        decision = bandit.decide(arms, situation=situation)
        bandit.reward(decision.id, 1.0)
        recent = bandit._state.recent(decision.id)
        assert recent is not None
        (outcome,) = recent.following
        assert isinstance(outcome, Outcome)
        assert outcome.context.base is None
        assert (outcome.context == decision.offered_contexts[decision.chosen[0]]).all()
        assert decision.raw is not None
        decision.raw.release(decision.chosen)
        assert decision.raw.context(decision.chosen[0]) is outcome.context  # and only once


def test_old_decisions_leave_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Contexts of recent decisions have a bound; a decision without them is read from the journal."""
    monkeypatch.setattr("rolin.bandit.recent._MAX_CONTEXTS", 3 * 3 * D * 8)
    rng = np.random.default_rng(1)
    for journal in (None, tmp_path / "j.db"):
        policy = rolin.RoLinTS(n_features=D, seed=7)
        with Bandit(policy, feature_map=FEATURES, journal=journal) as bandit:
            made = []
            for _ in range(5):
                arms, situation = question(rng)
                made.append(bandit.decide(arms, situation=situation))
            assert [d.raw is not None and d.raw.nbytes > 0 for d in made] == [False] * 2 + [
                True
            ] * 3
            for decision in made:
                bandit.reward(decision.id, 1.0)
            known = bandit.journal.outcomes(made[0].id)[0].context
            assert (known == made[0].offered_contexts[made[0].chosen[0]]).all()


def test_hashed_decisions_use_what_contexts_does() -> None:
    """Things that no feature can be are left out by both, and recorded."""
    features = HashedFeatures(32)
    bandit = Bandit(rolin.RoLinTS(n_features=32, seed=7), feature_map=features)
    for odd in (datetime(2020, 1, 1), b"5", object(), range(3), 1j, {"x": b"5"}):
        row = {"c": odd, "price": 0.5}
        decision = bandit.decide({"x": row}, situation={})
        assert (decision.offered_contexts == features.contexts({"x": row})).all()
        assert (decision.offered_contexts == features.contexts({"x": {"price": 0.5}})).all()


def test_several_questions_and_odd_calls() -> None:
    """Which question is wrong; situations as a table; and calls that make no sense."""
    bandit = Bandit(rolin.RoLinTS(n_features=D, seed=7), feature_map=FEATURES)
    with pytest.raises(InputError, match="question 1: field 'price' of arm 'x' is 'bad'"):
        bandit.decide_many([{"x": {}}, {"x": {"price": "bad"}}])
    situations = pd.DataFrame({"hour": [1.0, 2.0]})
    many = bandit.decide_many([{"x": {}, "y": {}}] * 2, situations=situations)  # type: ignore[arg-type]
    assert [d.raw.situation for d in many if d.raw] == [{"hour": 1.0}, {"hour": 2.0}]
    for odd in (5, None, ""):
        with pytest.raises(InputError, match="decision="):
            bandit.explain(odd)  # type: ignore[arg-type]  # on purpose
    with pytest.raises(ParameterError, match="against='x' is the arm itself"):
        bandit.explain(many[0], "x", against="x")
    wide = Bandit(rolin.RoLinTS(n_features=MORE.n_features), feature_map=MORE)
    with pytest.raises(InputError, match="belongs to another policy"):
        bandit.explain(wide.decide({"x": {}}, situation={}), as_of="now")
    with pytest.raises(InputError, match="has no option 'now'"):
        bandit.import_log([], now=5)
    with pytest.raises(ParameterError, match="feature_map='junk', expected a feature map"):
        offline.read(bandit, feature_map="junk")
    frame = pd.DataFrame({"arm": ["a"], "reward": [1.0], "price": [1.0]})
    with pytest.raises(InputError, match="features=5, expected a list"):
        bandit.import_log(frame, features=5)


def test_names_without_features_are_explained() -> None:
    """A list of names is not a list of features, and the error shows what to pass instead."""
    bandit = Bandit(rolin.RoLinTS(n_features=D, seed=7), feature_map=FEATURES)
    with pytest.raises(InputError, match="pass contexts=None and arms="):
        bandit.decide(["red", "blue"], situation={"hour": 3})
    named = bandit.decide(None, ["red", "blue"], situation={"hour": 3})
    assert named.offered == ("red", "blue")
    assert bandit.decide({"red": {}, "blue": {}}, situation={"hour": 3}).arm in ("red", "blue")


def test_predictions_of_raw_features() -> None:
    """`Bandit.predict` reads raw features through the map, as `decide` does."""
    bandit = Bandit(rolin.RoLinTS(n_features=D, seed=7), feature_map=FEATURES)
    arms = {"red": {"price": 1.0}, "blue": {"price": 2.0}}
    bandit.reward(bandit.decide(arms, situation={"hour": 3}).id, 1.0)
    mean, std = bandit.predict(arms, situation={"hour": 3})
    x = FEATURES.contexts(arms, {"hour": 3})
    expected = bandit.policy.predict(x, ["red", "blue"])
    np.testing.assert_array_equal(mean, expected.mean)
    np.testing.assert_array_equal(std, expected.std)
