"""A repeated id: the same question has the stored answer, and another question is a conflict."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolin import Bandit, FeatureMap
from rolin.bandit.question import Conditions, OfferedNames, digest_of
from rolin.errors import ArmError, DecisionConflict, InputError
from rolin.features import Category, Number
from rolin.journal import Journal, MemoryJournal, SQLiteJournal
from rolin.journal.folding import state_bytes
from rolin.logs.record import read_journal
from support.bandits import QUESTION, known_scales

ARMS = {"red": {"price": 1.5, "brand": "x"}, "blue": {"price": 2.0, "brand": "y"}}
MAP = FeatureMap({"hour": Number()}, {"price": Number(), "brand": Category(["x", "y"])})


@pytest.fixture
def bandit(journal: Journal) -> Bandit:
    """A bandit with scales that are known."""
    return Bandit(known_scales(), journal=journal)


@pytest.fixture
def raw(journal: Journal) -> Bandit:
    """A bandit with raw features."""
    return Bandit(known_scales(MAP.n_features), feature_map=MAP, journal=journal)


def test_other_questions_are_conflicts(bandit: Bandit) -> None:
    """Whatever differs; the call changes nothing, random numbers included."""
    bandit.decide(QUESTION, id="visit", person="ann", top_k=2, exclude=["blue"])
    twin = Bandit(known_scales(), journal=MemoryJournal())
    names, x = list(QUESTION), np.array(list(QUESTION.values()))
    same: dict[str, Any] = {"id": "visit", "person": "ann", "top_k": 2, "exclude": ["blue"]}
    others: list[Callable[[], object]] = [
        lambda: bandit.decide(QUESTION | {"new": [0.0, 0.0]}, **same),
        lambda: bandit.decide({"red": QUESTION["red"], 3: [0.0, -1.0 + 1e-15]}, **same),
        lambda: bandit.decide(x[::-1], names[::-1], **same),  # another order
        lambda: bandit.decide(x, ["red", "blue", "3"], **same),  # "3" is not 3
        lambda: bandit.decide(QUESTION, **same | {"exclude": ()}),
        lambda: bandit.decide(QUESTION, **same | {"exclude": ["blue", "other"]}),
        lambda: bandit.decide(QUESTION, **same | {"top_k": None}),
        lambda: bandit.decide(QUESTION, **same | {"person": "bob"}),
        lambda: bandit.decide(QUESTION, **same | {"person": None}),
        lambda: bandit.decide(QUESTION, **same, active=False),
        lambda: bandit.decide(QUESTION, **same, situation={"hour": 3}),
    ]
    before = state_bytes(bandit.policy), list(bandit.journal.read()), bandit.waiting()
    for ask in others:
        with pytest.raises(DecisionConflict, match="decision 'visit' was asked another question"):
            ask()
    assert repr((state_bytes(bandit.policy), list(bandit.journal.read()), bandit.waiting())) == repr(before)  # fmt: skip
    if not bandit.journal.durable:  # new ids are then reproducible, and with them the draws
        assert repr(bandit.decide(QUESTION)) == repr(twin.decide(QUESTION))
    assert bandit.decide(QUESTION, **same).ranking  # still there


def test_equal_questions_in_other_forms(bandit: Bandit) -> None:
    """Vectors are numbers, whatever they came in; so are the names of arms."""
    x = np.array([[1.0, 0.25], [-0.0, 0.5]])
    first = bandit.decide({"red": [1.0, 0.25], 3: [0.0, 0.5]}, id="visit", exclude=["a", 2, None])
    same: dict[str, Any] = {"id": "visit", "exclude": [2, "a"]}
    for contexts, arms in [
        (x, ["red", 3]),
        (np.asfortranarray(x), np.array(["red", 3], dtype=object)),
        (x.astype(np.float32), ["red", np.int64(3)]),
        (np.repeat(x, 2, axis=0)[::2], ("red", 3.0)),
        (x.tolist(), ["red", 3]),
        (pd.DataFrame(x, index=["red", 3]), None),
        ({"red": (1, 0.25), 3: np.array([0.0, 0.5])}, None),
    ]:
        assert repr(bandit.decide(contexts, arms, **same)) == repr(first)
    extra = {"a": [9.0, 9.0], "red": [1.0, 0.25], 3: [0.0, 0.5]}  # its features do not count
    assert bandit.decide(extra, id="visit", exclude=["a", 2], top_k=1).arm == first.arm
    assert bandit.version == 1


def test_equal_raw_features_in_other_forms(raw: Bandit) -> None:
    """Raw features are the JSON that is recorded."""
    first = raw.decide(ARMS, situation={"hour": 3}, id="visit")
    frame = pd.DataFrame(ARMS.values(), index=list(ARMS))
    for arms, names in [
        (list(ARMS.values()), list(ARMS)),
        (frame, None),
        ('{"red": {"price": 1.5, "brand": "x"}, "blue": {"price": 2.0, "brand": "y"}}', None),
    ]:
        assert repr(raw.decide(arms, names, situation='{"hour": 3}', id="visit")) == repr(first)
    for arms, situation in [
        (ARMS, {"hour": 4}),
        (ARMS | {"red": {"price": 1.0, "brand": "x"}}, {"hour": 3}),
        (ARMS | {"green": {}}, {"hour": 3}),
    ]:
        with pytest.raises(DecisionConflict):
            raw.decide(arms, situation=situation, id="visit")


def test_an_arm_that_was_removed_since(bandit: Bandit) -> None:
    """A retry has its answer, although the same arms could not be offered any more."""
    first = bandit.decide(QUESTION, id="visit")
    bandit.reward("visit", 1.0)
    bandit.remove_arm(first.arm)
    with pytest.raises(ArmError, match="was removed"):
        bandit.decide(QUESTION, id="another")
    assert bandit.decide(QUESTION, id="visit").arm == first.arm


def test_a_map_that_has_grown(raw: Bandit) -> None:
    """The digest is that of the raw features, whatever the map makes of them."""
    first = raw.decide(ARMS, situation={"hour": 3}, id="visit")
    raw.change_feature_map(MAP.with_fields(arm={"size": Number()}))
    assert raw.decide(ARMS, situation={"hour": 3}, id="visit").arm == first.arm
    with pytest.raises(DecisionConflict):
        raw.decide(ARMS, situation={"hour": 3, "size": 2}, id="visit")


def test_questions_that_cannot_be_read(bandit: Bandit) -> None:
    """They are wrong in themselves, whatever is stored."""
    bandit.decide(QUESTION, id="visit")
    for wrong in [{"red": [1.0]}, {"red": {"price": 1.0}}, np.eye(3), None, {}]:
        with pytest.raises(InputError):
            bandit.decide(wrong, id="visit")
    with pytest.raises(InputError, match="top_k"):
        bandit.decide(QUESTION, id="visit", top_k=0)


def test_many_questions_at_once(bandit: Bandit) -> None:
    """All or none: a conflict inside one call is one, too, and names the question."""
    other = {"red": [0.0, 0.0]}
    with pytest.raises(DecisionConflict, match="question 1: decision 'twice'"):
        bandit.decide_many([QUESTION, other], ids=["twice", "twice"])
    assert bandit.version == 0
    bandit.decide(other, id="stored")
    with pytest.raises(DecisionConflict, match="question 1: decision 'stored'"):
        bandit.decide_many([QUESTION, QUESTION], ids=["new", "stored"])
    assert bandit.journal.decision("new") is None


def test_after_a_restart(tmp_path: Path) -> None:
    """The digest is in the journal."""
    with Bandit(known_scales(), journal=tmp_path / "j.db") as bandit:
        first = bandit.decide(QUESTION, id="visit", person="ann")
    with Bandit(journal=tmp_path / "j.db") as bandit:
        assert bandit.decide(QUESTION, id="visit", person="ann").arm == first.arm
        with pytest.raises(DecisionConflict):
            bandit.decide(QUESTION, id="visit")


def test_imported_decisions_have_any_question(bandit: Bandit) -> None:
    """Nobody knows what was asked, so the id alone decides, as from a file."""
    source = Bandit(known_scales())
    first = source.decide(QUESTION, id="visit")
    bandit.import_log(list(read_journal(source.journal)))
    assert bandit.decide({"other": [0.0, 0.0]}, id="visit").arm == first.arm
    stored = bandit.journal.decision("visit")
    assert stored is not None
    assert stored.digest is None


def test_written_meanwhile(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another bandit writes the id between looking it up and writing: conflict, or its answer."""
    one, two = (Bandit(known_scales(), journal=journal) for _ in range(2))
    first = one.decide(QUESTION, id="visit")
    version = two.refresh()
    for question, same in ((QUESTION, True), ({"other": [0.0, 0.0]}, False)):
        find = two._state.decision
        with monkeypatch.context() as patch:

            def missed(id: str, find: Any = find, patch: Any = patch) -> None:
                patch.setattr(two._state, "decision", find)

            patch.setattr(two._state, "decision", missed)
            if same:
                assert two.decide(question, id="visit").arm == first.arm
            else:
                with pytest.raises(DecisionConflict):
                    two.decide(question, id="visit")
    assert two.refresh() == version


@pytest.mark.parametrize("shared", [True, False])
def test_racing_threads(shared: bool, tmp_path: Path) -> None:
    """Of two questions under one id, one wins, whether one bandit is shared or each has its own connection."""
    questions = [QUESTION, {"other": [0.0, 0.0]}]
    path = tmp_path / "j.db"
    with SQLiteJournal(path) as one, SQLiteJournal(path) as two:
        first = Bandit(known_scales(), journal=one)
        bandits = [first, first if shared else Bandit(known_scales(), journal=two)]
        results: list[list[Any]] = [[], []]
        barrier = threading.Barrier(2)

        def ask(i: int) -> None:
            for n in range(20):
                barrier.wait()
                try:
                    results[i].append(bandits[i].decide(questions[i], id=f"visit-{n}"))
                except DecisionConflict:
                    results[i].append(None)

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for n, pair in enumerate(zip(*results, strict=True)):
            winners = [i for i, found in enumerate(pair) if found is not None]
            assert len(winners) == 1
            stored = one.decision(f"visit-{n}")
            assert stored is not None
            assert stored.offered == tuple(questions[winners[0]])


def test_digests_never_change() -> None:
    """They are stored, so another version of rolin must compute the same."""
    names, usual = OfferedNames.of(["red", "blue"]), Conditions.of(1, (), True)
    assert digest_of(names, np.eye(2), usual, None).hex() == "fc1a2758279697b7b88aa136d5bd7219"
    mixed = OfferedNames.of(["red", 3])
    more = Conditions.of(2, {"b", 7, "a"}, False)
    text = '{"situation":{"hour":3},"arms":[{},{}]}'
    assert digest_of(mixed, text, more, "änn").hex() == "920edc003441638e933668b31b3173ed"


def test_large_questions_are_read_in_blocks() -> None:
    """The digest is that of all bytes, as for a small question."""
    x = np.random.default_rng(1).normal(size=(300, 60))
    x[7, 3] = -0.0
    names = [str(k) for k in range(300)]
    found = digest_of(OfferedNames.of(names), x, Conditions.of(1, (), True), "ann")
    joined = "".join(f"\0{name}" for name in names)
    head = hashlib.blake2b(joined.encode(), digest_size=16).digest()
    whole = head + b"vectors\0[1,[],true]\0ann\0" + (x + 0.0).tobytes()
    assert found == hashlib.blake2b(whole, digest_size=16).digest()


NAMES = st.lists(st.one_of(st.text(max_size=3), st.integers(-9, 9)), min_size=1, max_size=3)
ASKED = st.tuples(
    NAMES,
    st.lists(st.sampled_from([0.0, -0.0, 1.0]), min_size=1, max_size=2),
    st.integers(1, 2),
    st.frozensets(st.sampled_from(["a", "b", 1]), max_size=2),
    st.one_of(st.none(), st.sampled_from(["ann", "bob"])),
    st.booleans(),
)


@given(ASKED, ASKED)
def test_digests_are_equal_only_for_equal_questions(one: Any, two: Any) -> None:
    """For small questions, which are often equal or nearly so."""
    digests = []
    for names, row, top_k, excluded, person, active in (one, two):
        try:
            offered = OfferedNames.of(names)
        except ArmError:  # a lone surrogate
            return
        x = np.tile(np.array(row), (len(names), 1))
        digests.append(digest_of(offered, x, Conditions.of(top_k, excluded, active), person))
    assert (digests[0] == digests[1]) == (one == two)
