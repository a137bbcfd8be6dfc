"""Feature maps of a bandit that are replaced, extended, saved, or lost."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.feature_extraction import DictVectorizer

import rolin
from rolin import Bandit, FeatureMap, offline
from rolin.errors import JournalError, MergeError, ParameterError, Unsupported
from rolin.features import HashedFeatures, Number, SklearnFeatureMap
from rolin.journal import Journal
from rolin.journal.folding import load_policy, state_bytes
from rolin.testing.problems import reward_for
from support.journals import forged
from support.policies import fixed
from support.raw_features import FEATURES, MORE, POLICIES, D, play, question


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
        # Scales are searched for, on a way that depends on the number of features: to about 1e-6, and with slopes to
        # 0.01 of the logarithm of their square. In the end both have the same features, and search in the same way.
        close = 1e-5 if short.learns_scales else 1e-11
        if key == "learned" and name == "some slopes":
            close = 5e-3
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
    # As large, and different.
    other = FeatureMap(FEATURES.situation, {**FEATURES.arm, "price": Number(scale=9.0)})
    with pytest.raises(JournalError, match="with with_fields"):
        Bandit(policy, feature_map=other, journal=path)
    with Bandit(policy, journal=path) as bandit:
        assert bandit.feature_map == FEATURES
    for kind in (
        rolin.HLinUCB,
        rolin.HybridLinUCB,
        rolin.DisjointLinUCB,
        rolin.SafeFALCON,
        rolin.NaiveRoLinTS,
    ):
        bandit = Bandit(kind(n_features=D, seed=7), feature_map=FEATURES)
        with pytest.raises(Unsupported, match="cannot add features after it was created"):
            bandit.change_feature_map(MORE)
        assert bandit.feature_map == FEATURES
    each = rolin.RoLinTS(n_features=D, coef_std=[1.0] * D, seed=7)
    with pytest.raises(ParameterError, match="one number per feature"):
        Bandit(each, feature_map=FEATURES).change_feature_map(MORE)


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


def test_transformers_are_given_again(tmp_path: Path) -> None:
    """Vectors are recorded beside the raw features; whoever opens the journal brings the transformer."""
    path = tmp_path / "j.db"
    vectorizer = DictVectorizer().fit([{"price": 1.0, "kind": "a", "hour": 1.0}, {"kind": "b"}])
    policy = fixed(rolin.RoLinTS, n_features=4, seed=7)
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
        forged(path, statement)
        return path

    gone = damaged("gone", "DELETE FROM events WHERE kind = 'features' AND seq = 2")
    with pytest.raises(JournalError, match="1 of the events 1 to 4 are missing"):
        Bandit(journal=gone)
    other = HashedFeatures(D).to_json()
    swapped = damaged("swapped", f"UPDATE events SET body = '{other}' WHERE seq = 2")
    with pytest.raises(JournalError, match="event 2 does not fit the events before it"):
        Bandit(journal=swapped)
    for i, part in enumerate(
        (
            "question = CAST('5' AS BLOB)",
            "question = CAST(json_set(question, '$.situation', 5) AS BLOB)",
            "question = CAST(json_set(question, '$.arms', json('[]')) AS BLOB)",
            "question = NULL",
            "body = json_set(body, '$.chosen', json('[99]'))",
        )
    ):
        change = f"UPDATE events SET {part} WHERE kind = 'decision'"
        with (
            Bandit(journal=damaged(str(i), change)) as bandit,
            pytest.raises(JournalError, match="a row of kind 'decision' is damaged"),
        ):
            bandit.explain("v")
    with pytest.raises(JournalError, match="is damaged"):
        Bandit(journal=damaged("deep", f"UPDATE events SET body = '{'[' * 100_000}' WHERE seq = 2"))
