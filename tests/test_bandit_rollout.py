"""Safe roll-out: the baseline that is shown, and the share of people for whom the policy decides."""

from __future__ import annotations

import asyncio
import hashlib
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rolin
from rolin import AsyncBandit, Bandit
from rolin.bandit.question import Conditions, OfferedNames, digest_of
from rolin.errors import ArmError, DecisionConflict, InputError, ParameterError
from rolin.journal import Journal, check_journal, load_policy
from rolin.journal.events import SettingsChanged
from rolin.journal.folding import state_bytes
from support.bandits import QUESTION, Clock, known_scales
from support.journals import forged
from support.policies import fixed

PEOPLE = [f"person-{i}" for i in range(2000)]
ARMS: dict[Any, list[float]] = {"a": [0.0], "b": [1.0], "c": [0.5]}


@pytest.fixture
def bandit(journal: Journal) -> Bandit:
    """A bandit with scales that are known, and a clock that stands still."""
    return Bandit(known_scales(), journal=journal, clock=Clock())


def greedy(seed: int, **settings: Any) -> Bandit:
    """Return a bandit that has learned that arm b is the best."""
    bandit = Bandit(fixed(rolin.Greedy, n_features=1, seed=seed), **settings)
    past = bandit.decide({"b": [1.0]}, id="past")
    bandit.reward(past.id, 9.0)
    return bandit


# -- the baseline ----------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["apprentice", "stopped"])
@pytest.mark.parametrize(
    ("baseline", "exclude", "top_k", "expected"),
    [
        (None, (), 1, ["red"]),
        ("blue", (), 1, ["blue"]),
        (3, (), 1, [3]),
        (np.int64(3), (), 2, [3, "red"]),
        ("blue", (), 3, ["blue", "red", 3]),
        ("red", (), 2, ["red", "blue"]),
        (3, ["red"], 2, [3, "blue"]),
    ],
)
def test_the_baseline_comes_first(
    bandit: Bandit, mode: Any, baseline: Any, exclude: Any, top_k: int, expected: list[Any]
) -> None:
    """The others follow in the order offered; its propensity is 1, in memory and as stored."""
    bandit.change_settings(mode=mode)
    bandit.decide(QUESTION, id="v", baseline=baseline, exclude=exclude, top_k=top_k)
    many = bandit.decide_many([QUESTION] * 2, baseline=baseline, exclude=exclude, top_k=top_k)
    stored = bandit.journal.decision("v")
    assert stored is not None
    for made in (stored, *many):
        assert list(made.ranking) == expected
        assert made.propensities is not None
        assert made.propensities.tolist() == [float(arm == expected[0]) for arm in made.offered]
        assert made.is_baseline
        assert not made.outside_share
        bandit.reward(made.id, 1.0, arm=expected[-1])


def test_the_baseline_does_not_matter_to_the_policy(bandit: Bandit) -> None:
    """Online it changes nothing but the digest."""
    for i in range(20):
        baseline = [None, "red", "blue"][i % 3]
        made = bandit.decide(QUESTION, id=f"visit-{i}", baseline=baseline)
        other = Bandit(known_scales()).decide(QUESTION, id=f"visit-{i}")
        assert made.chosen == other.chosen
        assert (made.digest == other.digest) == (baseline is None)
        assert not made.is_baseline


@pytest.mark.parametrize("mode", ["online", "apprentice", "stopped"])
def test_a_baseline_that_is_not_offered_is_rejected(bandit: Bandit, mode: Any) -> None:
    """Also while the policy decides, so that nobody learns of it when the bandit is stopped."""
    bandit.change_settings(mode=mode)
    before = bandit.version
    for wrong, exclude in (("green", ()), ("3", ()), ("red", ["red"])):
        with pytest.raises(ArmError, match="expected one of the offered arms that are not exclud"):
            bandit.decide(QUESTION, baseline=wrong, exclude=exclude)
    with pytest.raises(ArmError, match="question 1: baseline='blue', expected"):
        bandit.decide_many([QUESTION, {"red": [1.0, 2.0]}], baseline="blue")
    for strange in (1.5, ("red",), b"red"):
        with pytest.raises(InputError, match=r"baseline=.*, expected the name of an arm"):
            bandit.decide(QUESTION, baseline=strange)
    with pytest.raises(ArmError, match="expected a string, an integer"):
        bandit.decide(QUESTION, baseline=["red"])
    assert bandit.version == before


def test_the_baseline_belongs_to_the_question(bandit: Bandit) -> None:
    """The same id with another baseline is another question; without one, digests are as they were."""
    made = bandit.decide(QUESTION, id="v", baseline="blue")
    assert bandit.decide(QUESTION, id="v", baseline="blue").digest == made.digest
    for other in (None, "red", 3):
        with pytest.raises(DecisionConflict, match="baseline"):
            bandit.decide(QUESTION, id="v", baseline=other)
    names = OfferedNames.of(["red", "blue"])
    found = digest_of(names, np.eye(2), Conditions.of(1, (), True, "blue"), None)
    head = hashlib.blake2b(b"\0red\0blue", digest_size=16).digest()
    whole = head + b'vectors\0[1,[],true,"blue"]\0\0' + np.eye(2).tobytes()
    assert found == hashlib.blake2b(whole, digest_size=16).digest()
    assert Conditions.of(1, (), True, "7").text != Conditions.of(1, (), True, 7).text


def test_the_baseline_of_raw_features(journal: Journal) -> None:
    """Excluded arms do not count there, either."""
    features = rolin.FeatureMap(arm={"price": rolin.features.Number()})
    policy = known_scales(features.n_features)
    bandit = Bandit(policy, feature_map=features, journal=journal, mode="apprentice")
    offers = {"a": {"price": 1.0}, "b": {"price": 2.0}, "c": {"price": 3.0}}
    made = bandit.decide(offers, id="v", exclude=["a"], baseline="c", top_k=2)
    assert made.ranking == ("c", "b")
    assert bandit.decide(offers, id="v", exclude=["a"], baseline="c", top_k=2).ranking == ("c", "b")
    with pytest.raises(ArmError, match="baseline='a'"):
        bandit.decide(offers, exclude=["a"], baseline="a")


def test_an_awaited_decision_has_a_baseline() -> None:
    """As any other one has."""
    bandit = AsyncBandit(Bandit(known_scales(), mode="apprentice"))
    assert asyncio.run(bandit.decide(QUESTION, baseline="blue")).arm == "blue"


# -- the share -------------------------------------------------------------------------------


def test_the_share_is_random_and_grows(seed: int) -> None:
    """A share of 0.3 of 2000 people, within 5 standard errors; a larger share keeps all of them."""
    inside: list[list[bool]] = []
    for share in (0.0, 0.3, 0.7, 1.0):
        bandit = greedy(seed, share=share)
        for _ in range(2):  # the second time it is the same
            made = bandit.decide_many([ARMS] * 2000, people=PEOPLE)
            inside.append([not d.outside_share for d in made])
        assert inside[-1] == inside[-2]
        assert abs(sum(inside[-1]) - 2000 * share) <= 5 * (2000 * share * (1 - share)) ** 0.5
        assert {d.arm for d in made if not d.outside_share} <= {"b"}
        assert {d.arm for d in made if d.outside_share} <= {"a"}
    for less, more in pairwise(inside):
        assert all(b for a, b in zip(less, more, strict=True) if a)
    # Without people, decisions are assigned one by one.
    alone = greedy(seed, share=0.3).decide_many([ARMS] * 1000)
    n = sum(not d.outside_share for d in alone)
    assert abs(n - 300) <= 5 * (1000 * 0.3 * 0.7) ** 0.5


def test_share_and_control_group_are_independent(seed: int) -> None:
    """The control group comes first, and takes the same part of both; all counts within 5 standard errors."""
    made = greedy(seed, share=0.4, control_share=0.25).decide_many([ARMS] * 2000, people=PEOPLE)
    counts = {
        0.25: sum(d.control for d in made),
        0.75 * 0.6: sum(d.outside_share for d in made),
        0.75 * 0.4: sum(not d.control and not d.outside_share for d in made),
    }
    assert sum(counts.values()) == 2000
    for share, n in counts.items():
        assert abs(n - 2000 * share) <= 5 * (2000 * share * (1 - share)) ** 0.5
    alone = greedy(seed, control_share=0.25).decide_many([ARMS] * 2000, people=PEOPLE)
    assert [d.control for d in alone] == [d.control for d in made]
    wider = greedy(seed, share=0.4).decide_many([ARMS] * 2000, people=PEOPLE)
    outside = sum(d.outside_share for d, a in zip(wider, alone, strict=True) if a.control)
    n = counts[0.25]
    assert abs(outside - 0.6 * n) <= 5 * (n * 0.6 * 0.4) ** 0.5
    for d in made:
        assert d.propensity == (pytest.approx(1 / 3) if d.control else 1.0)


def test_outside_the_share_it_is_as_an_apprentice(journal: Journal) -> None:
    """The same choice, proposal and learning; only the record says why."""
    outside = Bandit(known_scales(), journal=journal, share=0.0, floor=0.1)
    apprentice = Bandit(known_scales(), mode="apprentice", floor=0.1)
    rng = np.random.default_rng(1)
    for i in range(20):
        x = rng.normal(size=(3, 2))
        options: dict[str, Any] = {"id": f"visit-{i}", "baseline": i % 3, "top_k": 1 + i % 2}
        made, other = (each.decide(x, **options) for each in (outside, apprentice))
        assert (made.mode, made.outside_share, made.is_baseline) == ("online", True, True)
        assert (made.chosen, made.digest) == (other.chosen, other.digest)
        assert made.proposal is not None
        assert other.proposal is not None
        assert made.proposal.chosen == other.proposal.chosen
        assert made.proposal.propensities is not None
        assert made.proposal.propensities.tolist() == other.proposal.propensities.tolist()  # type: ignore[union-attr]
        value = float(rng.normal())
        for each in (outside, apprentice):
            each.reward(f"visit-{i}", value)
        stored = journal.decision(f"visit-{i}")
        assert stored is not None
        assert (stored.outside_share, stored.mode) == (True, "online")
    assert state_bytes(outside.policy) == state_bytes(apprentice.policy)
    assert state_bytes(load_policy(journal, from_start=True).policy) == state_bytes(outside.policy)


@pytest.mark.parametrize("mode", ["apprentice", "stopped"])
def test_the_mode_comes_before_the_share(bandit: Bandit, mode: Any) -> None:
    """Nobody is outside a share of a policy that does not decide."""
    bandit.change_settings(mode=mode, share=0.0, control_share=1.0)
    made = bandit.decide(QUESTION, person="ann")
    assert (made.outside_share, made.control, made.mode) == (False, False, mode)


def test_a_restart_keeps_the_share(tmp_path: Path) -> None:
    """Journals of before have none, which is a share of 1."""
    path = tmp_path / "j.db"
    with Bandit(known_scales(), journal=path, share=0.0, floor=0.05) as one:
        assert "share=0" in repr(one)
        assert one.decide(QUESTION).outside_share
        one.change_settings(control_share=0.0)
        assert one.decide(QUESTION).outside_share
    with Bandit(journal=path) as two:
        assert two.decide(QUESTION).outside_share
        two.change_settings(share=1.0)
        assert not two.decide(QUESTION).outside_share
        shares = [e.share for _, e in two.journal.read() if isinstance(e, SettingsChanged)]
        assert shares == [0.0, 0.0, 1.0]
    assert check_journal(path).is_whole
    forged(path, """UPDATE events SET body = replace(body, ',"share":0.0', '')""")
    with Bandit(journal=path) as old:
        assert [e.share for _, e in old.journal.read() if isinstance(e, SettingsChanged)] == [
            1.0
        ] * 3


def test_wrong_shares_change_nothing(bandit: Bandit) -> None:
    """The error says what is right."""
    before = bandit.version
    for wrong in (-0.1, 1.1, float("nan"), "half"):
        with pytest.raises(ParameterError, match="share="):
            bandit.change_settings(share=wrong)  # type: ignore[arg-type]
    assert bandit.version == before
