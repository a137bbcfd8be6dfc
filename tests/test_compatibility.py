"""Files written by earlier versions stay readable.

`data/format-1` holds state files, journals, feature maps, exported logs, fits and simulation runs,
and in `expected.json` what the version that wrote them said about each. `data/format-2` holds journals whose
decisions have no digest yet, and whose events have none of the members that were added later.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import rolin
from rolin import features
from rolin.journal import LoggedDecision, SQLiteJournal, load_policy

FILES = Path(__file__).parent / "data" / "format-1"
EXPECTED = json.loads((FILES / "expected.json").read_text(encoding="utf-8"))
FILES_2 = Path(__file__).parent / "data" / "format-2"
EXPECTED_2 = json.loads((FILES_2 / "expected.json").read_text(encoding="utf-8"))
JOURNALS = [(FILES, EXPECTED, name) for name in EXPECTED["journals"]] + [
    (FILES_2, EXPECTED_2, name) for name in EXPECTED_2["journals"]
]
# Sums may be added in another order on another processor.
CLOSE = {"rtol": 1e-9, "atol": 1e-12}


def known_names(policy, names):
    """Replace removed arms, which cannot be asked about, by new ones."""
    return [f"new-{i}" if name in policy.removed_arms else name for i, name in enumerate(names)]


def check_predictions(policy, contexts, names, expected):
    """Compare means and standard deviations with those that were written down.

    Those of a policy that learns arm_std include its uncertainty since. The posterior's are given the scales, as before.
    """
    mean, std = getattr(policy, "posterior", policy).predict(contexts, known_names(policy, names))
    np.testing.assert_allclose(mean, expected["mean"], **CLOSE)
    np.testing.assert_allclose(std, expected["std"], **CLOSE)


@pytest.mark.parametrize("name", EXPECTED["states"])
def test_saved_policies_load_and_continue(name):
    """A loaded policy has the arms, predictions and next decisions of the one that was saved."""
    expected, probe = EXPECTED["states"][name], np.array(EXPECTED["probe"])
    policy = rolin.load(FILES / "states" / f"{name}.rolin")
    assert type(policy).__name__ == expected["class"]
    assert list(policy.arms) == expected["arms"]
    assert list(policy.removed_arms) == expected["removed"]
    assert policy.n_decisions == expected["n_decisions"]
    names = ["red", "blue", 3, "unseen", "other"]
    keys = [f"k{i}" for i in range(len(expected["decides"]))]
    assert [policy.decide(probe, arms=names, key=key).arm for key in keys] == expected["decides"]
    if "mean" in expected:
        check_predictions(policy, probe, EXPECTED["probe_arms"], expected)
    for arm in expected["goes_on"]:
        decision = policy.decide(probe[:3], arms=names[:3])
        assert decision.arm == arm
        policy.update(decision.arm, decision.context, 1.0)
    if "mean" in expected:
        mean, _ = policy.predict(probe, arms=known_names(policy, EXPECTED["probe_arms"]))
        np.testing.assert_allclose(mean, expected["mean_after"], **CLOSE)


@pytest.mark.parametrize("name", EXPECTED["maps"])
def test_saved_feature_maps_make_the_same_vectors(name):
    """A loaded map has the version, feature names and vectors of the one that was saved."""
    expected = EXPECTED["maps"][name]
    loaded = features.load(FILES / "maps" / f"{name}.json")
    assert loaded.version == expected["version"]
    assert list(loaded.names) == expected["names"]
    vectors = loaded.contexts(EXPECTED["arms"], EXPECTED["situation"])
    assert vectors.tolist() == expected["vectors"]


@pytest.mark.parametrize(
    ("files", "all_expected", "name"), JOURNALS, ids=[f"{f.name}-{name}" for f, _, name in JOURNALS]
)
def test_journals_open_and_continue(files, all_expected, name, tmp_path):
    """A bandit on an old journal has its state, settings and decisions, and can go on."""
    expected = all_expected["journals"][name]
    path = tmp_path / f"{name}.db"
    shutil.copy(files / "journals" / f"{name}.db", path)
    with rolin.Bandit(journal=path, clock=lambda: 1.8e9) as bandit:
        policy = bandit.policy
        assert bandit.version == expected["version"]
        assert type(policy).__name__ == expected["class"]
        assert list(policy.arms) == expected["arms"]
        assert list(policy.removed_arms) == expected["removed"]
        assert bandit.waiting() == expected["waiting"]
        raw = name.startswith("raw")
        names = list(all_expected["arms"]) if raw else all_expected["probe_arms"]
        contexts = all_expected["probe"]
        if raw:
            contexts = bandit.feature_map.contexts(all_expected["arms"], all_expected["situation"])
        check_predictions(policy, contexts, names, expected)
        decided = {}
        for seq, event in bandit.journal.read():
            if isinstance(event, LoggedDecision):
                decided[event.id] = seq, event
        assert list(decided) == list(expected["decisions"])
        for id, row in expected["decisions"].items():
            seq, decision = decided[id]
            assert (seq, decision.arm, list(decision.ranking)) == (
                row["seq"],
                row["arm"],
                row["ranking"],
            )
            assert list(decision.offered) == row["offered"]
            assert decision.offered_contexts.tolist() == row["contexts"]
            assert (decision.person, decision.control, decision.imported, decision.time) == (
                row["person"],
                row["control"],
                row["imported"],
                row["time"],
            )
            if row["propensities"] is None:
                assert decision.propensities is None
            else:
                assert decision.propensities.tolist() == row["propensities"]
            outcomes = bandit.journal.outcomes(id)
            assert {
                str(rank): [outcome.value, outcome.weight, outcome.expired]
                for rank, outcome in outcomes.items()
            } == row["outcomes"]
        for id, row in expected["decisions"].items():  # they have no digest: the id is enough
            assert bandit.decide({"other": [0.0]}, id=id, top_k=7).arm == row["arm"]
        waiting = expected["waiting"][0]
        bandit.reward(waiting, 1.0)
        assert bandit.version == expected["version"] + 1


@pytest.mark.parametrize(
    ("files", "all_expected", "name"),
    [
        (FILES, EXPECTED, "vectors"),
        (FILES, EXPECTED, "clicks"),
        (FILES, EXPECTED, "raw_declared"),
        (FILES, EXPECTED, "raw_hashed"),
        (FILES_2, EXPECTED_2, "vectors"),
        (FILES_2, EXPECTED_2, "raw"),
    ],
)
def test_journals_replay_from_the_start(files, all_expected, name, tmp_path):
    """Folding all events of an old journal gives the state that it led to."""
    path = tmp_path / f"{name}.db"
    shutil.copy(files / "journals" / f"{name}.db", path)
    with SQLiteJournal(path, readonly=True) as journal:
        policy, version = load_policy(journal, from_start=True)
        kept, _ = load_policy(journal)
    assert version == all_expected["journals"][name]["version"]
    assert policy.arms == kept.arms
    np.testing.assert_allclose(
        policy.posterior.coefficients.mean, kept.posterior.coefficients.mean, **CLOSE
    )


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_exported_logs_can_be_imported(suffix):
    """A new bandit learns from an exported log what the old one knew."""
    decisions = EXPECTED["journals"]["vectors"]["decisions"]
    bandit = rolin.Bandit(rolin.RoLinTS(n_features=3, seed=1))
    assert bandit.import_log(FILES / f"export.{suffix}") == len(decisions)
    rewarded = [
        outcome
        for row in decisions.values()
        for outcome in row["outcomes"].values()
        if outcome[0] is not None
    ]
    assert bandit.policy.moments.count == len(rewarded)


def test_exported_logs_of_raw_features_can_be_imported():
    """An exported log of raw features is read through the map that recorded it."""
    with SQLiteJournal(FILES / "journals" / "raw_declared.db", readonly=True) as journal:
        feature_map = load_policy(journal)[0].feature_map
    policy = rolin.RoLinTS(n_features=feature_map.n_features, seed=1)
    bandit = rolin.Bandit(policy, feature_map=feature_map)
    decisions = EXPECTED["journals"]["raw_declared"]["decisions"]
    assert bandit.import_log(FILES / "export-raw.csv") == len(decisions)


def test_saved_fits_start_policies():
    """A policy started from an old fit predicts what it predicted then."""
    guesses = {"coef_std": ("learn", 1.0), "arm_std": ("learn", 0.5), "noise_std": ("learn", 1.0)}
    policy = rolin.RoLinTS.from_fit(FILES / "fit.rolin", seed=1, **guesses)
    mean, _ = policy.predict([[1.0, 0.5], [0.2, 0.1]], arms=["u", "new"])
    # Scales are found by a search that stops within 1e-6 of the mode.
    np.testing.assert_allclose(mean, EXPECTED["fit"]["mean"], rtol=1e-5)
    raw = rolin.RoLinTS.from_fit(FILES / "fit-raw.rolin", seed=1)
    assert raw.feature_map.version == EXPECTED["fit_raw"]["version"]
    assert raw.moments.count == EXPECTED["fit_raw"]["count"]


# The defaults when the runs were saved.
FIXED = {
    "coef_std": 1.0, "arm_std": 0.5, "noise_std": 1.0, "intercept_std": None, "exploration": 1.0,
}  # fmt: skip


def test_saved_runs_resume(tmp_path):
    """A simulation finds its old runs and plays only those that are missing."""
    shutil.copy(FILES / "runs.jsonl", tmp_path / "runs.jsonl")
    world = rolin.environments.Synthetic(n_arms=3, n_features=2, arm_std=0.5)
    result = rolin.simulate(
        {"RoLinTS": lambda seed: rolin.RoLinTS(n_features=2, seed=seed, **FIXED)},
        world,
        rounds=20,
        runs=3,
        n_jobs=1,
        checkpoint=tmp_path / "runs.jsonl",
        progress=False,
    )
    assert (tmp_path / "runs.jsonl").read_bytes() == (FILES / "runs.jsonl").read_bytes()
    np.testing.assert_allclose(result.summary()["mean"], EXPECTED["runs"]["regret"], **CLOSE)
