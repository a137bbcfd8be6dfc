"""Bandits that take raw features: what is recorded, what is learned later, and why an arm was chosen."""

from __future__ import annotations

import copy
import json
import math
import sqlite3
import warnings
from collections.abc import Callable
from contextlib import closing
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
from rolin import Bandit, FeatureMap, Policy, offline, policies
from rolin.errors import (
    ArmError,
    DataError,
    InputError,
    JournalError,
    MergeError,
    ParameterError,
    ShapeError,
    UnknownDecision,
    Unsupported,
)
from rolin.features import Boolean, Category, HashedFeatures, Number, SklearnFeatureMap, Tags
from rolin.journal import Journal
from rolin.journal.folding import load_policy, state_bytes
from rolin.logs.dsjson import read_dsjson
from rolin.logs.export import to_frame
from rolin.logs.record import read_journal
from rolin.testing.problems import reward_for
from support.bandits import Clock
from support.oracles import Dense, History

FEATURES = FeatureMap(
    {"device": Category(["phone", "desktop"]), "hour": Number(center=12.0, scale=6.0)},
    {"price": Number(scale=10.0), "tags": Tags(["new", "sale"]), "own": Boolean()},
)
MORE = FEATURES.with_fields(arm={"brand": Category(["x", "y"])})
D = FEATURES.n_features

POLICIES = {
    **{
        name: lambda d, kind=kind: kind(n_features=d, seed=7)
        for name, kind in policies.find().items()
        if name not in ("HLinUCB", "SafeFALCON", "NaiveRoLinTS")
    },
    "intercept": lambda d: rolin.RoLinTS(n_features=d, intercept_std=2.0, seed=7),
    "learned": lambda d: rolin.RoLinTS(n_features=d, arm_std="learn", noise_std="learn", seed=7),
    "half-life": lambda d: rolin.RoLinTS(n_features=d, half_life=9.0, seed=7),
    "joint": lambda d: rolin.RoLinTS(n_features=d, sampling="joint", seed=7),
    "logistic that learns": lambda d: rolin.LogisticRoLinTS(n_features=d, arm_std="learn", seed=7),
}


def question(rng: np.random.Generator) -> tuple[dict[Any, dict[str, Any]], dict[str, Any]]:
    """A situation and the raw features of three arms, with gaps and things nobody declared."""
    arms: dict[Any, dict[str, Any]] = {
        "red": {"price": rng.uniform(0, 20), "tags": ["new"], "own": bool(rng.random() < 0.5)},
        "blue": {"price": None, "tags": ["sale", "odd"], "seller": {"id": 3}},
        7: {"price": int(rng.integers(20)), "own": True, "brand": "x"},
    }
    situation = {"device": str(rng.choice(["phone", "tv"])), "hour": float(rng.integers(24))}
    return arms, situation


def play(bandit: Bandit, rounds: int, start: int = 0) -> None:
    """Decide by raw features and reward, sometimes late."""
    rng = np.random.default_rng([3, start])
    for t in range(start, start + rounds):
        arms, situation = question(rng)
        decision = bandit.decide(arms, situation=situation, id=f"visit-{t}", person=f"p{t % 3}")
        if t % 4:
            mean = float(decision.arm == "red") + 0.1 * situation["hour"]
            bandit.reward(decision.id, reward_for(bandit.policy, mean + float(rng.normal())))


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


@pytest.mark.parametrize("name", POLICIES)
def test_replay_with_maps_gives_the_same_state(name: str, journal: Journal) -> None:
    """From the start, from a state that was kept, and with a map that gets more fields on the way."""
    bandit = Bandit(POLICIES[name](D), feature_map=FEATURES, journal=journal)
    play(bandit, 20)
    middle = bandit.version
    kept = state_bytes(bandit.policy)
    bandit.change_feature_map(MORE)
    assert bandit.policy.n_features == MORE.n_features
    bandit.snapshot()
    play(bandit, 20, start=20)
    for from_start in (True, False):
        again, version = load_policy(journal, from_start=from_start)
        assert version == bandit.version
        assert state_bytes(again) == state_bytes(bandit.policy)
        assert again.feature_map == MORE
    assert state_bytes(load_policy(journal, upto=middle)[0]) == kept
    opened = Bandit(journal=journal)
    assert opened.feature_map == MORE
    play(opened, 5, start=40)


@pytest.mark.parametrize("name", POLICIES)
def test_more_features_begin_with_the_prior(name: str) -> None:
    """The state is that of a policy which had them from the start, and saw zeros."""
    short, long = POLICIES[name](4), POLICIES[name](6)
    rng = np.random.default_rng(4)

    def learn(rounds: int, extended: bool) -> None:
        for _ in range(rounds):
            x = rng.normal(size=6)
            if not extended:
                x[4:] = 0.0
            arm, reward = int(rng.integers(3)), reward_for(short, float(x.sum() + rng.normal()))
            short.update(arm, x if extended else x[:4], reward)
            long.update(arm, x, reward)

    learn(25, extended=False)
    short._model.extend(6)
    learn(25, extended=True)
    assert short.n_features == 6
    for key, value in short.state().arrays.items():
        expected = long.state().arrays[key]
        assert value.shape == expected.shape, key
        # scales are searched for, to about 1e-6, on a way that depends on the number of features
        close = 1e-5 if short.learns_scales else 1e-11
        assert value == pytest.approx(expected, rel=close, abs=1e-12), key
    questions = rng.normal(size=(3, 6))
    assert short.decide(questions, key=3).arm == long.decide(questions, key=3).arm


def test_late_rewards_of_earlier_maps(journal: Journal) -> None:
    """A reward for a decision from before counts as if the new features had been 0."""
    bandit = Bandit(rolin.RoLinTS(n_features=D, seed=7), feature_map=FEATURES, journal=journal)
    arms, situation = question(np.random.default_rng(5))
    early = bandit.decide(arms, situation=situation, id="early")
    bandit.change_feature_map(MORE)
    bandit.decide(arms, situation=situation, id="late")
    bandit.reward("early", 1.0)
    (outcome,) = bandit.journal.outcomes("early").values()
    assert (outcome.context == early.context).all()
    x = np.pad(early.context, (0, MORE.n_features - D))
    assert (bandit.policy.moments.mean_context == x).all()  # type: ignore[attr-defined]
    again, _ = load_policy(journal, from_start=True)
    assert state_bytes(again) == state_bytes(bandit.policy)
    log = offline.read(bandit, missing=0.0)
    assert [x.shape[1] for x in log.contexts] == [MORE.n_features] * 2
    stored = journal.decision("early")
    assert stored is not None
    assert stored.context.shape == (D,)


def test_maps_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    """Another size, another map, one that is no extension, a policy that cannot grow."""
    path = tmp_path / "j.db"
    policy = rolin.RoLinTS(n_features=D, seed=7)
    with pytest.raises(ParameterError, match=f"n_features={D}, but .* makes vectors of 40"):
        Bandit(policy, feature_map=HashedFeatures(40))
    with Bandit(policy, feature_map=FEATURES, journal=path) as bandit:
        with pytest.raises(
            ParameterError, match="does not extend: create the new map by with_fields"
        ):
            bandit.change_feature_map(HashedFeatures(D))
        with pytest.raises(ParameterError, match="expected a feature map"):
            bandit.change_feature_map(DictVectorizer())  # type: ignore[arg-type]  # on purpose
        assert bandit.version == 1
    with pytest.raises(JournalError, match=r"the journal uses .*, but .* was given"):
        Bandit(journal=path, feature_map=HashedFeatures(D))
    other = FeatureMap(
        FEATURES.situation, {**FEATURES.arm, "price": Number(scale=9.0)}
    )  # as large, and different
    with pytest.raises(JournalError, match="with with_fields"):
        Bandit(policy, feature_map=other, journal=path)
    with Bandit(policy, journal=path) as bandit:
        assert bandit.feature_map == FEATURES
    for kind in (rolin.HLinUCB, rolin.SafeFALCON, rolin.NaiveRoLinTS):
        fixed = Bandit(kind(n_features=D, seed=7), feature_map=FEATURES)
        with pytest.raises(Unsupported, match="cannot add features after it was created"):
            fixed.change_feature_map(MORE)
        assert fixed.feature_map == FEATURES
    each = rolin.RoLinTS(n_features=D, coef_std=[1.0] * D, seed=7)
    with pytest.raises(ParameterError, match="one number per feature"):
        Bandit(each, feature_map=FEATURES).change_feature_map(MORE)


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


def test_maps_are_saved_with_the_policy(tmp_path: Path) -> None:
    """A state file has the map; a bandit from it has it too; policies of two maps are not merged."""
    policy = rolin.RoLinTS(n_features=D, seed=7)
    policy.change_feature_map(FEATURES)
    policy.save(tmp_path / "state")
    loaded = rolin.load(tmp_path / "state")
    assert loaded.feature_map == FEATURES
    assert Bandit(loaded).feature_map == FEATURES
    assert rolin.merge(policy, loaded).feature_map == FEATURES
    with pytest.raises(MergeError, match="feature maps differ"):
        rolin.merge(policy, rolin.RoLinTS(n_features=D, seed=7))
    with pytest.raises(ParameterError, match="feature map has 40 features, and the policy n_"):
        rolin.RoLinTS(n_features=D).change_feature_map(HashedFeatures(40))


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


def test_transformers_are_given_again(tmp_path: Path) -> None:
    """Vectors are recorded beside the raw features; whoever opens the journal brings the transformer."""
    path = tmp_path / "j.db"
    vectorizer = DictVectorizer().fit([{"price": 1.0, "kind": "a", "hour": 1.0}, {"kind": "b"}])
    policy = rolin.RoLinTS(n_features=4, seed=7)
    with Bandit(policy, feature_map=vectorizer, journal=path) as bandit:
        assert isinstance(bandit.feature_map, SklearnFeatureMap)
        decision = bandit.decide(
            {"x": {"price": 2.0, "kind": "a"}, "y": {"kind": "b"}}, situation={"hour": 3.0}, id="v"
        )
        bandit.reward("v", 1.0)
        assert bandit.explain("v", "x").contributions[0].name in ("price", "kind=a", "hour")
    with Bandit(journal=path) as opened:
        stored = opened.journal.decision("v")
        assert stored is not None
        assert (stored.offered_contexts == decision.offered_contexts).all()
        assert stored.raw is not None
        assert stored.raw.situation == {"hour": 3.0}
        with pytest.raises(
            ParameterError, match="a transformer, which is not saved: give it again"
        ):
            opened.decide({"x": {"price": 2.0}}, situation={})
    with Bandit(journal=path, feature_map=vectorizer) as opened:
        opened.decide({"x": {"price": 2.0}}, situation={})
    other = DictVectorizer().fit([{"a": 1.0, "b": 1.0, "c": 1.0, "d": 1.0}])
    with pytest.raises(JournalError, match="was given"):
        Bandit(journal=path, feature_map=other)


def test_a_policy_brings_its_map_into_a_file(tmp_path: Path) -> None:
    """With the map's entry, without which decisions could not be read again."""
    policy = rolin.RoLinTS(n_features=D, seed=7)
    policy.change_feature_map(FEATURES)
    for i, features in enumerate((None, FEATURES)):
        path = tmp_path / f"{i}.db"
        with Bandit(policy, feature_map=features, journal=path) as bandit:
            bandit.decide({"red": {"price": 2.0}}, situation={"hour": 3.0}, id="v")
            bandit.reward("v", 1.0)
            assert bandit.export_log(tmp_path / f"{i}.csv") == 1
        with Bandit(journal=path) as bandit:
            assert bandit.feature_map == FEATURES
            again, _ = load_policy(bandit.journal, from_start=True)
            assert state_bytes(again) == state_bytes(bandit.policy)


def test_old_and_new_maps_may_start_in_any_order(tmp_path: Path) -> None:
    """A deployment: who comes with more fields adds them, who comes with fewer goes on with all."""
    path = tmp_path / "j.db"

    def opened(features: FeatureMap) -> Bandit:
        policy = rolin.RoLinTS(n_features=features.n_features, seed=7)
        return Bandit(policy, feature_map=features, journal=path)

    arms, situation = question(np.random.default_rng(5))
    with opened(FEATURES) as old, opened(MORE) as new:
        assert new.policy.n_features == MORE.n_features
        new.decide(arms, situation=situation, id="by new")
        old.reward("by new", 1.0)  # of a map that it has not heard of
        assert old.explain("by new") == new.explain("by new")
        old.decide(arms, situation=situation, id="by old")
        new.reward("by old", 0.0)
        assert old.expire(0.0) == 0
        assert old.refresh() == new.refresh()
        assert state_bytes(old.policy) == state_bytes(new.policy)
    with opened(FEATURES) as back:  # a deployment that is taken back
        assert back.feature_map == MORE
        back.decide(arms, situation=situation)
    again, _ = load_policy(path, from_start=True)
    assert again.feature_map == MORE


def test_a_stale_process_imports(tmp_path: Path) -> None:
    """Past decisions that were read by the map of before are learned from all the same."""
    path = tmp_path / "j.db"
    source = Bandit(rolin.RoLinTS(n_features=D, seed=7), feature_map=FEATURES)
    play(source, 8)
    policy = rolin.RoLinTS(n_features=D, seed=7)
    with Bandit(policy, feature_map=FEATURES, journal=path) as stale, Bandit(journal=path) as new:
        new.change_feature_map(MORE)
        assert stale.import_log(source.journal) == 8
        assert stale.policy.posterior.count == source.policy.posterior.count
        new.refresh()
        assert state_bytes(new.policy) == state_bytes(stale.policy)
        told = stale.explain("visit-1", as_of="now")
        assert (told.score, told.explored) == (None, None)
        with pytest.raises(Unsupported, match="was imported, so the model that made it is unknown"):
            stale.explain("visit-1")


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


# -- tables and other people's logs -------------------------------------------------------------------


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".parquet", "frame", "journal"])
def test_raw_features_are_exported_and_imported(ending: str, tmp_path: Path) -> None:
    """By the same map: the same state. By another map: what it would have learned. Without: the vectors."""
    bandit = Bandit(rolin.RoLinTS(n_features=D, seed=7), feature_map=FEATURES, clock=Clock())
    play(bandit, 12)
    source: Any = bandit.journal
    if ending == "frame":
        source = to_frame(bandit.journal)
    elif ending != "journal":
        source = tmp_path / f"log{ending}"
        bandit.export_log(source)
    again = Bandit(rolin.RoLinTS(n_features=D, seed=7), feature_map=FEATURES, clock=Clock())
    assert again.import_log(source) == 12
    assert state_bytes(again.policy) == state_bytes(bandit.policy)
    for old, new in zip(read_journal(bandit.journal), read_journal(again.journal), strict=True):
        assert old.decision.raw == new.decision.raw
    hashed = HashedFeatures(32)
    other = Bandit(rolin.RoLinTS(n_features=32, seed=7), feature_map=hashed)
    assert other.import_log(source) == 12
    stored = other.journal.decision("visit-3")
    first = bandit.journal.decision("visit-3")
    assert stored is not None
    assert first is not None
    assert first.raw is not None
    expected = hashed.contexts(first.raw.rows, first.raw.situation, names=first.offered)
    assert (stored.offered_contexts == expected).all()
    vectors = Bandit(rolin.RoLinTS(n_features=D, seed=7))
    assert vectors.import_log(source) == 12
    assert vectors.policy.posterior.coefficients.mean == pytest.approx(
        bandit.policy.posterior.coefficients.mean, rel=1e-9
    )
    log = offline.read(source, missing=0.0, feature_map=hashed)
    assert log.contexts[3].shape == (3, 32)


def test_the_commands_take_maps(
    tmp_path: Path, rolin_command: Callable[..., tuple[int, str]]
) -> None:
    """A table of raw features becomes a journal with a map, and a policy is evaluated by its own."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({
        "arm": rng.choice(["a", "b"], 60), "reward": rng.integers(0, 2, 60), "propensity": 0.5,
        "device": rng.choice(["phone", "tv"], 60), "price": rng.uniform(0, 9, 60),
    })  # fmt: skip
    frame.to_csv(tmp_path / "log.csv", index=False)
    FEATURES.save(tmp_path / "map.json")
    journal = tmp_path / "j.db"
    given = (
        "journal",
        "import",
        tmp_path / "log.csv",
        journal,
        "--feature-map",
        tmp_path / "map.json",
    )
    assert rolin_command(*given) == (0, "")
    assert rolin_command(*given[:4]) == (0, "")  # again, with the map of the journal
    rolin_command("journal", "show", journal)
    with Bandit(journal=journal) as bandit:
        assert bandit.feature_map == FEATURES
        assert bandit.policy.posterior.count == 60.0
        bandit.decide({"a": {"price": 1.0}, "b": {}}, situation={"device": "tv"}, id="last")
        bandit.reward("last", 1.0)
        bandit.policy.save(tmp_path / "state")
    evaluate = ("evaluate", tmp_path / "log.csv", "--policy", tmp_path / "state")
    code, said = rolin_command(*evaluate)
    assert code != 0
    assert "the features of the chosen arm only" in said
    (tmp_path / "arms.csv").write_text("arm,price,own\na,2.5,true\nb,,false\n")
    code, said = rolin_command(*evaluate, "--arm-features", tmp_path / "arms.csv")
    assert code == 0, said
    assert rolin_command(*given[:4], "--feature-map", tmp_path / "none.json")[0] != 0
    rolin.RoLinTS(n_features=40, seed=1).save(tmp_path / "other")
    hashed = rolin.load(tmp_path / "other")
    hashed.change_feature_map(HashedFeatures(40))
    hashed.save(tmp_path / "other")
    both = ("--policy", tmp_path / "state", "--policy", tmp_path / "other")
    assert rolin_command("diagnose", journal)[0] == 0
    rolin_command("journal", "export", journal, tmp_path / "out.csv")
    code, said = rolin_command("diagnose", tmp_path / "out.csv")
    assert "is a table that was exported from a journal: diagnose the journal" in said
    code, said = rolin_command("evaluate", tmp_path / "log.csv", *both)
    assert code != 0
    assert "different feature maps" in said


def test_a_table_of_ones_own(tmp_path: Path) -> None:
    """Columns that the map has as fields are its fields; texts of a CSV become what the field is."""
    path = tmp_path / "log.csv"
    path.write_text(
        "arm,reward,device,hour,price,tags,own\n"
        'red,1,phone,3,2.5,"[""new""]",true\n'
        "blue,0,tv,,,,false\n",
        encoding="utf-8",
    )
    bandit = Bandit(rolin.RoLinTS(n_features=D, seed=7), feature_map=FEATURES)
    assert bandit.import_log(path) == 2
    rows = [{"price": 2.5, "tags": ["new"], "own": True}, {"own": False}]
    shared = [{"device": "phone", "hour": 3.0}, {"device": "tv"}]
    for past, row, situation in zip(read_journal(bandit.journal), rows, shared, strict=True):
        assert (past.decision.context == FEATURES.contexts([row], situation)[0]).all()
    wrong = path.read_text(encoding="utf-8").replace("2.5", "cheap")
    path.write_text(wrong, encoding="utf-8")
    with pytest.raises(DataError, match=r"row 1: column 'price' is 'cheap', expected a number"):
        bandit.import_log(path)
    with pytest.raises(DataError, match="there is no column 'colour'"):
        bandit.import_log(path, features=["colour"])
    with pytest.raises(InputError, match="has no option 'feature_map'"):
        bandit.import_log(path, feature_map=FEATURES)
    hashed = Bandit(rolin.RoLinTS(n_features=32, seed=7), feature_map=HashedFeatures(32))
    frame = pd.DataFrame({"arm": ["a"], "reward": [1.0], "hour": [3.0], "price": [2.0]})
    assert hashed.import_log(frame, features=["price"], situation=["hour"]) == 1
    (past,) = read_journal(hashed.journal)
    expected = HashedFeatures(32).contexts([{"price": 2.0}], {"hour": 3.0})
    assert (past.decision.offered_contexts == expected).all()
    with pytest.raises(DataError, match="no column is a field of HashedFeatures"):
        hashed.import_log(frame)
    frame.to_csv(tmp_path / "typed.csv", index=False)
    from_file = Bandit(rolin.RoLinTS(n_features=32, seed=7), feature_map=HashedFeatures(32))
    from_file.import_log(tmp_path / "typed.csv", features=["price"], situation=["hour"])
    (same,) = read_journal(from_file.journal)
    assert (same.decision.offered_contexts == expected).all()
    with pytest.raises(DataError, match="situation names raw features, expected a feature_map"):
        Bandit(rolin.RoLinTS(n_features=1)).import_log(
            frame, features=["price"], situation=["hour"]
        )


def test_tables_that_could_mean_two_things() -> None:
    """A column that both sides have, one that is something else already, objects in a column, 18.0 for 18."""
    features = FeatureMap(
        {"country": Category(["de"])}, {"country": Category(["de"]), "weight": Number()}
    )
    bandit = Bandit(rolin.RoLinTS(n_features=features.n_features), feature_map=features)
    both = pd.DataFrame({"arm": ["a"], "reward": [1.0], "country": ["de"]})
    with pytest.raises(
        DataError, match="column 'country' is a field of both the situation and the arm"
    ):
        bandit.import_log(both)
    assert bandit.import_log(both, features=["country"], situation=[]) == 1
    weighed = pd.DataFrame({"arm": ["a"], "reward": [1.0], "weight": [2.0]})
    with pytest.raises(
        DataError, match="column 'weight' has a meaning of its own, so it is not a feature unless"
    ):
        bandit.import_log(weighed)
    nested = FeatureMap({"user": {"age": Number()}}, {"kind": Category([18])})
    inner = Bandit(rolin.RoLinTS(n_features=nested.n_features), feature_map=nested)
    frame = pd.DataFrame(
        {"arm": ["a", "b"], "reward": [1.0, 0.0], "user": [{"age": 3.0}, '{"age": 3.0}'], "kind": [18.0, "18.0"]}
    )  # fmt: skip
    assert inner.import_log(frame) == 2
    expected = nested.contexts([{"kind": 18}], {"user": {"age": 3.0}})
    for past in read_journal(inner.journal):
        assert (past.decision.offered_contexts == expected).all()


def test_logs_of_chosen_arms_with_a_map() -> None:
    """Every arm gets its own features, and the situation of the row; without them the log is refused."""
    features = FeatureMap({"h": Number()}, {"price": Number(), "_arm": Category(["r", "b"])})
    frame = pd.DataFrame(
        {"arm": ["r", "b"], "reward": [1.0, 0.0], "propensity": 0.5, "h": [2.0, 3.0], "price": [10.0, 20.0]}
    )  # fmt: skip
    with pytest.raises(DataError, match="the features of the chosen arm only"):
        offline.read(frame, feature_map=features)
    arms = {"r": {"price": 10.0}, "b": {"price": 20.0}}
    for given in (arms, pd.DataFrame(arms).T):
        log = offline.read(frame, feature_map=features, arm_features=given)
        for i, hour in enumerate((2.0, 3.0)):
            assert (log.contexts[i] == features.contexts(arms, {"h": hour})).all()
    names = FeatureMap({"h": Number()}, {"_arm": Category(["r", "b"])})
    log = offline.read(frame, feature_map=names)
    assert (log.contexts[0] == names.contexts(None, {"h": 2.0}, names=["b", "r"])).all()
    with pytest.raises(DataError, match="arm 'r' of the log is not among arm_features"):
        offline.read(frame, feature_map=features, arm_features={"b": {}})


def test_vowpal_wabbits_logs_through_a_map(tmp_path: Path) -> None:
    """Situation and actions are told apart, and crossed."""
    path = tmp_path / "log.dsjson"
    event = {
        "EventId": "e1", "_label_cost": -1.0, "_label_probability": 0.6, "_labelIndex": 0, "a": [1, 2],
        "p": [0.6, 0.4],
        "c": {
            "User": {"device": "phone", "_secret": 3},
            "_multi": [{"_tag": "red", "Item": [{"price": 2.0}, {"kind": "b"}]}, {"_tag": "blue"}],
        },
    }  # fmt: skip
    path.write_text(json.dumps(event) + "\n", encoding="utf-8")
    features = FeatureMap(
        {"User.device": Category(["phone"])}, {"Item": {"price": Number(), "kind": Category(["b"])}}
    )
    read = read_dsjson(path, feature_map=features)
    assert read.features == features.names
    decision = read.decisions[0].decision
    expected = features.contexts(
        [{"Item": {"price": 2.0, "kind": "b"}}, {}], {"User": {"device": "phone"}}
    )
    assert (decision.offered_contexts == expected).all()
    bandit = Bandit(rolin.RoLinTS(n_features=features.n_features, seed=7), feature_map=features)
    assert bandit.import_log(path) == 1
    with pytest.raises(ParameterError, match="both features and feature_map are given"):
        read_dsjson(path, feature_map=features, features=["a"])


# -- reasons ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", POLICIES)
def test_contributions_add_up_to_what_is_predicted(name: str) -> None:
    """The sum of all parts is the mean, and its uncertainty that of the prediction, for every arm."""
    bandit = Bandit(POLICIES[name](D), feature_map=FEATURES)
    play(bandit, 40)
    arms, situation = question(np.random.default_rng(9))
    decision = bandit.decide(arms, situation=situation)
    x = decision.offered_contexts
    policy: Any = bandit.policy
    predicted = policy.predict(x, list(decision.offered))
    mean, std = predicted
    if policy.binary:
        mean, std = predicted.logit_mean, predicted.logit_std
    for k, arm in enumerate(decision.offered):
        told = bandit.explain(decision, arm)
        total = math.fsum(c.contribution for c in told.contributions) + told.effect
        assert told.mean == pytest.approx(mean[k], rel=1e-9, abs=1e-12)
        assert total == pytest.approx(told.mean, rel=1e-9, abs=1e-12)
        assert told.std == pytest.approx(std[k], rel=1e-9)
        assert told.scale == ("logit" if policy.binary else "reward")
        assert told.propensity == decision.propensities[k]  # type: ignore[index]  # it is known
        values = {c.name: c.value for c in told.contributions}
        values.pop("intercept of the policy", None)
        assert values == FEATURES.named(x[k])
        sizes = [abs(c.contribution) for c in told.contributions]
        assert sizes == sorted(sizes, reverse=True)
        for c in told.contributions:
            assert c.contribution == pytest.approx(c.value * c.coefficient)
    one, two = (bandit.explain(decision, arm) for arm in ("red", "blue"))
    apart = bandit.explain(decision, "red", against="blue")
    assert apart.mean == pytest.approx(one.mean - two.mean, rel=1e-9, abs=1e-12)
    assert apart.effect == pytest.approx(one.effect - two.effect, rel=1e-9, abs=1e-12)
    shared = {"intercept", "device=phone", "device is unseen", "hour", "intercept of the policy"}
    assert not shared & {c.name for c in apart.contributions}  # all arms have them


def test_uncertainty_against_a_dense_oracle() -> None:
    """Of a mean, an effect, a coefficient and a difference: what one big Gaussian says."""
    policy = rolin.RoLinTS(n_features=D, arm_std=0.7, noise_std=0.9, intercept_std=1.3, seed=7)
    bandit = Bandit(policy, feature_map=FEATURES)
    play(bandit, 40)
    arms, situation = question(np.random.default_rng(10))
    decision = bandit.decide(arms, situation=situation)
    events = [e for past in read_journal(bandit.journal) for e in past.outcomes.values()]
    names = list(arms)
    history = History(
        np.array([names.index(e.arm) for e in events]),
        np.array([e.context for e in events]),
        np.array([e.value for e in events], dtype=float),
        np.ones(len(events)),
    )
    scales = policy.scales
    dense = Dense(scales, history, 3)
    z = dense.z(decision.offered_contexts, np.arange(3), 3)
    for k, arm in enumerate(names):
        told = bandit.explain(decision, arm)
        assert told.mean == pytest.approx(z[k] @ dense.mean)
        assert told.std == pytest.approx(math.sqrt(z[k] @ dense.covariance @ z[k]))
        effect = dense.size + k
        assert told.effect == pytest.approx(dense.mean[effect])
        assert told.effect_std == pytest.approx(math.sqrt(dense.covariance[effect, effect]))
        for c in told.contributions:
            i = (FEATURES.names.index(c.name) if c.name in FEATURES.names else dense.size - 1)  # fmt: skip
            assert c.coefficient == pytest.approx(dense.mean[i])
            assert c.std == pytest.approx(abs(c.value) * math.sqrt(dense.covariance[i, i]))
    apart = bandit.explain(decision, "red", against=7)
    difference = z[0] - z[2]
    assert apart.mean == pytest.approx(difference @ dense.mean)
    assert apart.std == pytest.approx(math.sqrt(difference @ dense.covariance @ difference))
    effects = np.zeros(len(dense.mean))
    effects[dense.size], effects[dense.size + 2] = 1.0, -1.0
    assert apart.effect_std == pytest.approx(math.sqrt(effects @ dense.covariance @ effects))


def test_reasons_are_those_of_the_time(journal: Journal) -> None:
    """What was learned since does not change why something was decided, unless one asks for now."""
    bandit = Bandit(rolin.RoLinTS(n_features=D, seed=7), feature_map=FEATURES, journal=journal)
    play(bandit, 10)
    arms, situation = question(np.random.default_rng(11))
    decision = bandit.decide(arms, situation=situation, id="why")
    then = bandit.explain(decision)
    play(bandit, 20, start=10)
    bandit.change_feature_map(MORE)
    assert bandit.explain("why") == then
    now = bandit.explain("why", as_of="now")
    assert now.mean != then.mean
    assert (then.version, now.version) == (decision.version, bandit.version)
    assert now.score is None
    mean, _ = bandit.policy.predict(np.pad(decision.context, (0, MORE.n_features - D))[None], [decision.arm])  # fmt: skip
    assert now.mean == pytest.approx(mean[0])


def test_scores_are_what_was_drawn() -> None:
    """The score is the one that decided; what was drawn to explore is said to be."""
    features, rng = FEATURES, np.random.default_rng(12)
    bandit = Bandit(rolin.RoLinTS(n_features=D, seed=7), feature_map=features, floor=0.2)
    explored = []
    for t in range(60):
        arms, situation = question(rng)
        decision = bandit.decide(arms, situation=situation, id=str(t))
        told = {arm: bandit.explain(decision, arm) for arm in decision.offered}
        best = max(told, key=lambda arm: told[arm].score or -math.inf)
        mine = told[decision.arm]
        assert mine.explored == (best != decision.arm)
        assert told[best].explored in (None, False)
        explored.append(mine.explored)
        bandit.reward(decision.id, float(rng.normal()))
    # 60 % are drawn uniformly, of which a third would have been chosen anyway: 0.4 ± 5 s.e.
    assert abs(np.mean(explored) - 0.4) < 5 * math.sqrt(0.24 / 60)
    control = Bandit(rolin.RoLinTS(n_features=D), feature_map=features, control_share=1.0)
    told_control = control.explain(control.decide(arms, situation=situation))
    assert told_control.explored
    assert told_control.score is None
    assert "drawn uniformly" in str(told_control)
    ucb = Bandit(rolin.RoLinUCB(n_features=D, seed=7), feature_map=features)
    top = ucb.explain(ucb.decide(arms, situation=situation))
    assert top.score is not None
    assert top.score > top.mean
    joint = Bandit(rolin.RoLinTS(n_features=D, sampling="joint", seed=7), feature_map=features)
    drawn = joint.explain(joint.decide(arms, situation=situation))
    assert (drawn.score, drawn.explored) == (None, None)


def test_explanations_of_other_arms() -> None:
    """An arm that was not chosen is not said to be; a score says what was added to the mean."""
    bandit = Bandit(rolin.RoLinTS(n_features=D, seed=7), feature_map=FEATURES)
    arms, situation = question(np.random.default_rng(13))
    decision = bandit.decide(arms, situation=situation, id="v")
    other = next(arm for arm in arms if arm != decision.arm)
    mine, its = bandit.explain(decision), bandit.explain(decision, other)
    assert (mine.chosen, its.chosen) == (True, False)
    assert f"\nchosen with probability {mine.propensity:.3g}" in str(mine)
    assert f"not chosen; it had probability {its.propensity:.3g}" in str(its)
    assert f"ranked by {mine.score:.4g}: the mean and {mine.score:+.3g}" in str(mine)  # type: ignore[str-bytes-safe]
    bandit.reward("v", 1.0)
    assert bandit.explain(decision, as_of="now").propensity is None


def test_now_knows_fields_that_were_recorded_before() -> None:
    """What the bandit would say now: by all the fields that it uses now."""
    bandit = Bandit(rolin.RoLinTS(n_features=D, seed=7), feature_map=FEATURES)
    bandit.decide({"x": {"price": 1.0, "brand": "x"}}, situation={"hour": 3.0}, id="v")
    bandit.change_feature_map(MORE)
    assert "brand=x" not in {c.name for c in bandit.explain("v").contributions}
    assert "brand=x" in {c.name for c in bandit.explain("v", as_of="now").contributions}
    log = offline.read(bandit, missing=0.0)  # before anything was decided by the new map
    assert log.contexts[0].shape == (1, MORE.n_features)


def test_raw_features_given_to_a_policy() -> None:
    """It takes vectors, and says who makes them."""
    policy = rolin.RoLinTS(n_features=2, seed=1)
    with pytest.raises(ParameterError, match="arm 'a' has raw features, expected a vector"):
        policy.decide({"a": {"price": 1.0}})
    with pytest.raises(ParameterError, match="expected a feature map"):
        policy.change_feature_map(DictVectorizer())  # type: ignore[arg-type]  # on purpose


def test_exports_of_several_maps(tmp_path: Path) -> None:
    """A table of decisions before and after a new field is read without any map, too."""
    bandit = Bandit(rolin.RoLinTS(n_features=D, seed=7), feature_map=FEATURES)
    play(bandit, 6)
    bandit.change_feature_map(MORE)
    play(bandit, 6, start=6)
    for ending in (".csv", ".parquet"):
        bandit.export_log(tmp_path / f"log{ending}")
        log = offline.read(tmp_path / f"log{ending}", missing=0.0)
        assert {x.shape for x in log.contexts} == {(3, MORE.n_features)}
        own = offline.read(bandit, missing=0.0)
        for one, two in zip(log.contexts, own.contexts, strict=True):
            assert (one == two).all()


def test_learning_from_the_same_clicks_is_noticed() -> None:
    """Evaluated on what it has learned from, a policy of yes/no rewards is flattered, and that is said."""
    bandit = Bandit(rolin.LogisticRoLinTS(n_features=D, seed=7), feature_map=FEATURES)
    for t in range(60):
        arms, situation = question(np.random.default_rng(t))
        decision = bandit.decide(arms, situation=situation, id=str(t))
        bandit.reward(decision.id, t % 2)
    log = offline.read(bandit)
    bandit.decide(arms, situation=situation, id="more")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rolin.errors.OverlapWarning)  # they are in the notes
        noted = offline.evaluate(log, bandit).notes
        bandit.reward("more", 0)
        learned_more = offline.evaluate(log, bandit).notes
    assert any("has learned from these decisions" in note for note in noted)
    assert not any("has learned from these decisions" in note for note in learned_more)


def test_explanations_as_text_and_frame() -> None:
    """For colleagues and for notebooks."""
    bandit = Bandit(rolin.RoLinTS(n_features=D, seed=7), feature_map=FEATURES)
    play(bandit, 30)
    arms, situation = question(np.random.default_rng(13))
    told = bandit.explain(bandit.decide(arms, situation=situation), "red")
    text = str(told)
    assert "arm 'red': mean" in text
    assert "arm effect" in text
    assert "tags=new" in text
    frame = told.to_frame()
    assert frame["contribution"].sum() == pytest.approx(told.mean)
    assert frame["name"].tolist()[-1] == "arm effect"
    assert json.loads(json.dumps(told.to_dict()))["mean"] == told.mean
    vectors = Bandit(rolin.RoLinTS(n_features=2, seed=7))
    plain = vectors.explain(vectors.decide({"a": [1.0, 0.0], "b": [0.0, 1.0]}), "a")
    assert [c.name for c in plain.contributions] == ["x0"]


def test_reasons_of_hashed_features() -> None:
    """Names are those of the fields, though many may share a coefficient."""
    features = HashedFeatures(16)
    bandit = Bandit(rolin.RoLinTS(n_features=16, seed=7), feature_map=features)
    play(bandit, 30)
    arms, situation = question(np.random.default_rng(14))
    decision = bandit.decide(arms, situation=situation)
    told = bandit.explain(decision, "blue")
    total = math.fsum(c.contribution for c in told.contributions) + told.effect
    mean, _ = bandit.policy.predict(decision.offered_contexts, decision.offered)  # type: ignore[attr-defined]
    assert told.mean == pytest.approx(total)
    assert told.mean == pytest.approx(mean[decision.offered.index("blue")])
    assert "tags=sale" in {c.name for c in told.contributions}


def test_reasons_that_cannot_be_had(journal: Journal) -> None:
    """Unknown decisions and arms, policies without coefficients, states that were removed."""
    bandit = Bandit(rolin.RoLinTS(n_features=D, seed=7), feature_map=FEATURES, journal=journal)
    play(bandit, 8)
    with pytest.raises(UnknownDecision, match="no decision has the id 'never'"):
        bandit.explain("never")
    with pytest.raises(ArmError, match="was not offered arm 'green', only"):
        bandit.explain("visit-1", "green")
    with pytest.raises(ArmError, match="was not offered arm '7', only"):
        bandit.explain("visit-1", against="7")
    with pytest.raises(ParameterError, match="as_of='then', expected 'decision' or 'now'"):
        bandit.explain("visit-1", as_of="then")  # type: ignore[arg-type]  # on purpose
    bandit.erase(ids=["visit-0"])
    with pytest.raises(JournalError, match="have been removed"):
        bandit.explain("visit-1")
    assert bandit.explain("visit-1", as_of="now").mean != 0.0
    for kind in (rolin.HLinUCB, rolin.SafeFALCON, rolin.NaiveRoLinTS):
        other: Policy[Any] = kind(n_features=D, seed=7)
        blind = Bandit(other, feature_map=FEATURES)
        with pytest.raises(Unsupported, match="has no coefficients that could explain it"):
            blind.explain(blind.decide({"red": {}}, situation={}))


# -- what attackers tried -------------------------------------------------------------------------------


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


def test_damaged_files_say_so(tmp_path: Path) -> None:
    """A map that is gone, or another; decisions whose raw features are not what they were."""

    def damaged(name: str, statement: str) -> Path:
        path = tmp_path / f"{name}.db"
        with Bandit(
            rolin.RoLinTS(n_features=D, seed=7), feature_map=FEATURES, journal=path
        ) as bandit:
            bandit.change_feature_map(MORE)
            arms, situation = question(np.random.default_rng(1))
            bandit.decide(arms, situation=situation, id="v")
            bandit.reward("v", 1.0)
        with closing(sqlite3.connect(path)) as db, db:
            db.execute(statement)
        return path

    gone = damaged("gone", "DELETE FROM events WHERE kind = 'features' AND seq = 2")
    with pytest.raises(JournalError, match="event 4 does not fit the events before it"):
        Bandit(journal=gone)
    other = HashedFeatures(D).to_json()
    swapped = damaged("swapped", f"UPDATE events SET body = '{other}' WHERE seq = 2")
    with pytest.raises(JournalError, match="event 2 does not fit the events before it"):
        Bandit(journal=swapped)
    for i, part in enumerate(
        (
            "'$.raw', 5",
            "'$.raw.situation', 5",
            "'$.raw.arms', json('[]')",
            "'$.chosen', json('[99]')",
        )
    ):
        change = f"UPDATE events SET body = json_set(body, {part}) WHERE kind = 'decision'"
        with (
            Bandit(journal=damaged(str(i), change)) as bandit,
            pytest.raises(JournalError, match="a row of kind 'decision' is damaged"),
        ):
            bandit.explain("v")
    with pytest.raises(JournalError, match="is damaged"):
        Bandit(journal=damaged("deep", f"UPDATE events SET body = '{'[' * 100_000}' WHERE seq = 2"))


def test_import_after_more_fields(tmp_path: Path) -> None:
    """Vectors from before there was a map, and values that do not suit a field that came later."""
    path = tmp_path / "j.db"
    with Bandit(rolin.RoLinTS(n_features=D, seed=7), journal=path) as bandit:
        bandit.decide({"a": np.ones(D)}, id="vectors")
        bandit.reward("vectors", 1.0)
    with Bandit(journal=path, feature_map=FEATURES) as bandit:
        bandit.decide({"a": {"price": 1.0, "rank": "n/a"}}, situation={}, id="odd")
        bandit.reward("odd", 0.0)
        later = FEATURES.with_fields(arm={"rank": Number()})
        bandit.change_feature_map(later)
        policy = rolin.RoLinTS(n_features=later.n_features, seed=7)
        again = Bandit(policy, feature_map=later)
        assert again.import_log(bandit.journal) == 2
        assert again.policy.posterior.coefficients.mean == pytest.approx(
            bandit.policy.posterior.coefficients.mean
        )
        with pytest.raises(DataError, match=r"decision 'odd': field 'rank' of arm 'a' is 'n/a'"):
            offline.read(bandit, feature_map=FeatureMap(arm={"rank": Number()}))


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


def test_a_decision_in_memory_is_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rewarding and explaining a decision, and reading its contexts, use those of the decision."""
    calls = 0
    encode = FeatureMap.encode

    def counted(self: FeatureMap, *given: Any) -> Any:
        nonlocal calls
        calls += 1
        return encode(self, *given)

    monkeypatch.setattr(FeatureMap, "encode", counted)
    bandit = Bandit(rolin.RoLinTS(n_features=D, seed=7), feature_map=FEATURES)
    arms, situation = question(np.random.default_rng(1))
    decision = bandit.decide(arms, situation=situation)
    bandit.reward(decision.id, 1.0)
    for arm in arms:
        bandit.explain(decision.id, arm)
    assert decision.offered_contexts.shape == (3, D)
    assert not decision.offered_contexts.flags.writeable
    assert (decision.contexts == decision.context).all()
    assert calls == 1


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
    """A list of names is not a list of features, and the error shows what is."""
    bandit = Bandit(rolin.RoLinTS(n_features=D, seed=7), feature_map=FEATURES)
    with pytest.raises(
        ShapeError, match=r"is a list of names, expected a mapping .* \{'red': \{\}"
    ):
        bandit.decide(["red", "blue"], situation={"hour": 3})
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
