"""A question whose JSON is known: the text is recorded as it came, and means the same as without it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rolin import Bandit, FeatureMap
from rolin.bandit.question import Question
from rolin.bandit.requests import decide_request
from rolin.errors import DecisionConflict, InputError
from rolin.features import BaseFeatureMap, HashedFeatures, RecordedFeatures
from rolin.features.recorded import record_candidates, text_of_candidates
from rolin.journal import Journal
from rolin.journal.events import LoggedDecision
from support.bandits import known_scales
from support.feature_maps import ARM, ARMS, SITUATION, SITUATIONS

MAP = FeatureMap(SITUATION, ARM)
# The same values as other texts: with and without spaces, and with characters that need not be escaped.
FORMS: list[dict[str, Any]] = [
    {},
    {"separators": (",", ":")},
    {"indent": 1},
    {"ensure_ascii": False},
]
DEEP = "[" * 20 + "1" + "]" * 20
NAMES = ["red", "blue", "green"]


def parsed(text: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the rows and the situation of a text."""
    raw = json.loads(text)
    return raw["arms"], raw["situation"]


def ask(bandit: Bandit, text: str, given: str | None, **options: Any) -> LoggedDecision:
    """Ask what a text says; the text itself may be left out."""
    rows, situation = parsed(text)
    question = Question(rows, NAMES[: len(rows)], situation, options.pop("id", None), None, given)
    request = decide_request(
        [question], options.get("top_k"), options.get("exclude", ()), active=True, baseline=None
    )
    return bandit._writer.submit(request)[0]


TEXT = '{"situation": {"hour": 3},\n "arms": [{"price": 1.50, "genre": "dr\\u0061ma"}, {"price": 2e0, "note": "ü"}]}'


@pytest.mark.parametrize("features", [MAP, HashedFeatures(32)], ids=["declared", "hashed"])
@given(
    arms=st.lists(ARMS, min_size=1, max_size=3),
    situation=SITUATIONS,
    form=st.sampled_from(FORMS),
    is_uniform=st.booleans(),
)
@example(arms=[{"genre": "NaN"}], situation={}, form={}, is_uniform=False)
def test_a_text_means_what_it_was_parsed_to(
    features: BaseFeatureMap,
    arms: list[dict[str, Any]],
    situation: dict[str, Any],
    form: dict[str, Any],
    is_uniform: bool,
) -> None:
    """The contexts are those without the text, and those that the recorded text gives later, to the bit."""
    if is_uniform:
        arms = [{"price": 1.5, "genre": "drama", "brand": "x", "live": True} for _ in arms]
    text = json.dumps({"situation": situation, "arms": arms}, **form)
    rows, row = parsed(text)
    try:
        plain = record_candidates(features, rows, NAMES[: len(rows)], row, ())
    except InputError:
        with pytest.raises(InputError):
            record_candidates(features, rows, NAMES[: len(rows)], row, (), text)
        return
    record = record_candidates(features, rows, NAMES[: len(rows)], row, (), text)
    assert record == plain
    assert record.contexts().tobytes() == plain.contexts().tobytes()
    again = RecordedFeatures(features, record.arms, record.to_json())
    assert again.contexts().tobytes() == record.contexts().tobytes()
    asked = text_of_candidates(features, rows, NAMES[: len(rows)], row, (), text)
    assert asked == (list(record.arms), record.to_json())
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a character that was not escaped: no file can hold it
        assert record.to_json() == plain.to_json()
    else:
        # A text that may hold NaN is written again, also if it is only the word; the next test has more of them.
        expected = plain.to_json() if "NaN" in text or "Infinity" in text else text
        assert record.to_json() == expected


@pytest.mark.parametrize(
    "text",
    [
        '{"situation": {}, "arms": [{"other": NaN}, {"other": -Infinity}]}',
        '{"situation": {"other": Infinity}, "arms": [{"price": 1.0}, {"price": 2.0}]}',
        '{"situation": {}, "arms": [{"note": "NaN"}, {}]}',
        '{"situation": {}, "arms": [{"other": DEEP}, {}]}' .replace("DEEP", DEEP),
        '{"situation": {"other": DEEP}, "arms": [{"price": 1.0}]}' .replace("DEEP", DEEP),
    ],
)  # fmt: skip
def test_texts_that_are_not_recorded(text: str) -> None:
    """NaN and infinity are not JSON, and deep values are left out; the record is that without the text."""
    rows, situation = parsed(text)
    names = NAMES[: len(rows)]
    record = record_candidates(MAP, rows, names, situation, (), text)
    plain = record_candidates(MAP, rows, names, situation, ())
    assert record.to_json() == plain.to_json() != text
    json.loads(record.to_json(), parse_constant=pytest.fail)
    assert record.contexts().tobytes() == plain.contexts().tobytes()
    assert text_of_candidates(MAP, rows, names, situation, (), text)[1] == record.to_json()


def test_excluded_arms_are_not_recorded() -> None:
    """The text holds all arms, so that of the others is written; names that are not offered exclude nothing."""
    rows, situation = parsed(TEXT)
    for excluded in (["red"], ["blue", "green"]):
        record = record_candidates(MAP, rows, NAMES[:2], situation, excluded, TEXT)
        plain = record_candidates(MAP, rows, NAMES[:2], situation, excluded)
        assert record.to_json() == plain.to_json()
        assert len(record.rows) == len(record.arms) == 1
    assert record_candidates(MAP, rows, NAMES[:2], situation, ["green"], TEXT).to_json() == TEXT


def test_decisions_with_texts(journal: Journal) -> None:
    """They are those without; a journal that holds them reads back equal, and learns the same."""
    bandit = Bandit(known_scales(MAP.n_features), feature_map=MAP, journal=journal)
    twin = Bandit(known_scales(MAP.n_features), feature_map=MAP)
    for i in range(6):
        exclude = ["red"] if i == 3 else []
        first = ask(bandit, TEXT, TEXT, id=f"visit {i}", exclude=exclude)
        second = ask(twin, TEXT, None, id=f"visit {i}", exclude=exclude)
        assert first.arm == second.arm
        assert (first.propensities == second.propensities).all()
        assert first.raw is not None
        assert (first.raw.to_json() == TEXT) == (i != 3)
        stored = bandit.journal.decision(f"visit {i}")
        assert stored is not None
        assert stored.raw == first.raw == second.raw
        assert stored.raw is not None
        assert (stored.raw.contexts() == first.raw.contexts()).all()
        assert stored.digest == first.digest
        for each in (bandit, twin):
            each.reward(f"visit {i}", float(i))
    reopened = Bandit(journal=journal) if journal.durable else bandit
    assert repr(reopened.policy.posterior.coefficients) == repr(twin.policy.posterior.coefficients)


def test_repeated_ids_compare_texts(journal: Journal) -> None:
    """The same text has the stored answer. Another text of the same values is another question, as without texts."""
    bandit = Bandit(known_scales(MAP.n_features), feature_map=MAP, journal=journal)
    first = ask(bandit, TEXT, TEXT, id="visit")
    assert ask(bandit, TEXT, TEXT, id="visit").arm == first.arm
    assert bandit.version == 2  # the map, and one decision
    for other in (TEXT.replace(": ", ":"), TEXT.replace("1.50", "1.5"), None):
        with pytest.raises(DecisionConflict):
            ask(bandit, TEXT, other, id="visit")
    # Without some of the arms, the text is not used.
    second = ask(bandit, TEXT, TEXT, id="other", exclude=["red"])
    assert ask(bandit, TEXT, None, id="other", exclude=["red"]).arm == second.arm
    # The text that would be written anyway is the same question.
    rows, situation = parsed(TEXT)
    compact = json.dumps({"situation": situation, "arms": rows}, separators=(",", ":"))
    third = ask(bandit, compact, compact, id="compact")
    assert ask(bandit, compact, None, id="compact").arm == third.arm
