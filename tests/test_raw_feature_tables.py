"""Raw features in tables, logs of others and commands."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import rolin
from rolin import Bandit, FeatureMap, offline
from rolin.errors import DataError, InputError, ParameterError
from rolin.features import Category, HashedFeatures, Number
from rolin.journal.folding import state_bytes
from rolin.logs.dsjson import read_dsjson
from rolin.logs.export import to_frame
from rolin.logs.record import read_journal
from support.bandits import Clock
from support.raw_features import FEATURES, MORE, D, play, question


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
    assert code != 0
    assert "the table was exported from a journal: diagnose the journal instead" in said
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
