"""Checks of decisions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rolin.testing.capabilities import MakePolicy, Predicts
from rolin.testing.problems import (
    N_FEATURES,
    NAMES,
    contexts,
    fingerprint,
    refused,
    trained,
    with_shared_contexts,
)

__all__ = [
    "an_empty_question_is_refused",
    "bad_questions_change_nothing",
    "deciding_changes_nothing",
    "excluded_arms_are_not_chosen",
    "inputs_stay_as_they_are",
    "many_decisions_are_single_ones",
    "mapping_and_array_decide_the_same",
    "names_have_one_form",
    "one_context_for_all_arms_is_that_context_repeated",
    "probabilities_are_those_of_decisions",
    "rankings_are_whole",
    "the_same_key_decides_the_same",
    "the_same_seed_decides_the_same",
    "ties_are_broken_at_random",
]


def deciding_changes_nothing(make: MakePolicy) -> None:
    """`decide` changes nothing, also for arms that were never observed."""
    policy = trained(make)
    before = fingerprint(policy)[:-1]
    for t in range(10):
        policy.decide(contexts(t), [("new", t, k) for k in range(4)])
    assert fingerprint(policy)[:-1] == before


def the_same_seed_decides_the_same(make: MakePolicy) -> None:
    """Two policies with the same seed and history make the same decisions."""
    assert fingerprint(trained(make)) == fingerprint(trained(make))


def the_same_key_decides_the_same(make: MakePolicy) -> None:
    """The key of a decision, a number or a text, reproduces it."""
    policy = trained(make)
    first = policy.decide(contexts(5), NAMES)
    again = policy.decide(contexts(5), NAMES, key=first.key)
    assert first.arm == again.arm
    text = [policy.decide(contexts(5), NAMES, key=f"event-{i}").arm for i in range(20)]
    assert text == [policy.decide(contexts(5), NAMES, key=f"event-{i}").arm for i in range(20)]


def mapping_and_array_decide_the_same(make: MakePolicy) -> None:
    """A mapping, an array with names and an array with default names give the same decision."""
    policy = make(n_features=N_FEATURES, seed=4)
    x = contexts(1)
    for key in range(10):
        array = policy.decide(x, range(4), key=key)
        default = policy.decide(x, key=key)
        mapping = policy.decide({k: x[k].tolist() for k in range(4)}, key=key)
        assert array.arm == default.arm == mapping.arm
        assert (array.context == x[array.arm]).all()
        assert (mapping.context == x[mapping.arm]).all()


@with_shared_contexts
def one_context_for_all_arms_is_that_context_repeated(make: MakePolicy) -> None:
    """A vector with names decides, ranks and predicts as a matrix in which it is repeated for each arm."""
    policy = trained(make)
    names = [*NAMES, "never seen"]
    for key in range(10):
        x = contexts(key, 1)[0]
        rows = np.tile(x, (len(names), 1))
        for options in ({}, {"exclude": ["a", "elsewhere"]}, {"top_k": 3}):
            one = policy.decide(x, names, key=key, **options)
            many = policy.decide(rows, names, key=key, **options)
            assert one.ranking == many.ranking
            assert (one.contexts == many.contexts).all()
        as_list = policy.decide(x.tolist(), names, key=key)
        assert as_list.arm == policy.decide(rows, names, key=key).arm
        if isinstance(policy, Predicts):
            for found, expected in zip(
                policy.predict(x, names), policy.predict(rows, names), strict=True
            ):
                assert np.allclose(found, expected, rtol=1e-12, atol=1e-12)
    if hasattr(policy, "decide_many"):
        vectors = list(contexts(5, 6))
        start = policy.n_decisions
        chosen = [decision.arm for decision in policy.decide_many(vectors, names)]
        assert chosen == [policy.decide(v, names, key=start + i).arm for i, v in enumerate(vectors)]


def names_have_one_form(make: MakePolicy) -> None:
    """1, True, 1.0 and np.int64(1) are one arm, "1" is another."""
    policy = make(n_features=N_FEATURES, seed=4)
    x = contexts(1, 2)
    for name in (1, True, 1.0, np.int64(1)):
        refused(lambda name=name: policy.decide(x, [1, name]), f"arms [1, {name!r}]")  # type: ignore[misc]  # bound now
        decision = policy.decide(x[:1], [name])
        assert decision.arm == 1
        assert type(decision.arm) is int
    assert policy.decide(x, [1, "1"]).arm in (1, "1")


def excluded_arms_are_not_chosen(make: MakePolicy) -> None:
    """An excluded arm is never chosen; excluding arms that are not offered changes nothing."""
    policy = trained(make)
    for key in range(20):
        chosen = policy.decide(contexts(key), NAMES, exclude={"a", 3.0, "elsewhere"}, key=key)
        assert chosen.arm in ("b", "d")
        array = np.array(["a", "d"])
        assert policy.decide(contexts(key), NAMES, exclude=array, key=key).arm in ("b", 3)
        assert (chosen.context == contexts(key)[NAMES.index(chosen.arm)]).all()


def rankings_are_whole(make: MakePolicy) -> None:
    """A ranking has distinct arms with their contexts, and starts with the chosen arm."""
    policy = trained(make)
    for key in range(20):
        x = contexts(key)
        best = policy.decide(x, NAMES, key=key)
        assert best.ranking == (best.arm,)
        for top_k in (1, 2, 4):
            ranked = policy.decide(x, NAMES, top_k=top_k, key=key)
            assert ranked.arm == ranked.ranking[0] == best.arm
            assert len(set(ranked.ranking)) == len(ranked.ranking) == top_k
            indices = [NAMES.index(arm) for arm in ranked.ranking]
            assert (ranked.contexts == x[indices]).all()
        tied = np.repeat(contexts(key, 2), 2, axis=0)  # ties are broken alike for every top_k
        best = policy.decide(tied, NAMES, key=key)
        assert policy.decide(tied, NAMES, top_k=3, key=key).ranking[0] == best.arm


def ties_are_broken_at_random(make: MakePolicy) -> None:
    """Of three new arms with the same context, each is chosen about 100 times in 300, ± 6 standard errors."""
    x, new = np.tile(contexts(1, 1), (3, 1)), ["new", "newer", "newest"]
    for policy in (make(n_features=N_FEATURES, seed=5), trained(make)):
        chosen = [policy.decide(x, new, key=key).arm for key in range(300)]
        for arm in new:
            assert abs(chosen.count(arm) - 100) < 6 * (300 * (1 / 3) * (2 / 3)) ** 0.5


def bad_questions_change_nothing(make: MakePolicy) -> None:
    """An invalid call of `decide` raises an error, and the next decision is as if it had not been made."""
    policy = trained(make)
    before = fingerprint(policy)
    x = contexts(1)
    for value in (np.nan, np.inf, -np.inf):
        bad = x.copy()
        bad[2, 1] = value
        refused(lambda bad=bad: policy.decide(bad, NAMES), f"a context with {value}")  # type: ignore[misc]  # bound now
    questions: dict[str, Callable[[], object]] = {
        "a vector without names": lambda: policy.decide(x[0]),
        "a vector that is too long": lambda: policy.decide(np.ones(N_FEATURES + 1), NAMES),
        "a vector and no names": lambda: policy.decide(x[0], []),
        "one feature too many": lambda: policy.decide(np.ones((4, N_FEATURES + 1)), NAMES),
        "one feature too few": lambda: policy.decide({"a": [0.0] * (N_FEATURES - 1)}),
        "contexts of different lengths": lambda: policy.decide(
            {"a": [0.0] * N_FEATURES, "b": [0.0]}
        ),
        "text": lambda: policy.decide([["1"] * N_FEATURES], ["a"]),
        "text in a mapping": lambda: policy.decide({"a": ["1"] * N_FEATURES}),
        "text in objects": lambda: policy.decide(np.full((1, N_FEATURES), "1", dtype=object)),
        "dates": lambda: policy.decide(np.full((1, N_FEATURES), "2020", dtype="M8[Y]")),
        "an array as name": lambda: policy.decide(x, [np.ones(2), "b", "c", "d"]),
        "no arms": lambda: policy.decide(np.empty((0, N_FEATURES))),
        "an empty mapping": lambda: policy.decide({}),
        "too few names": lambda: policy.decide(x, ["a", "b"]),
        "a name twice": lambda: policy.decide(x, ["a", "b", "a", "c"]),
        "one arm under two forms": lambda: policy.decide(x, [1, 1.0, 2, 3]),
        "an unhashable name": lambda: policy.decide(x, ["a", "b", ["c"], "d"]),
        "a name that is not a number": lambda: policy.decide(x, ["a", "b", float("nan"), "d"]),
        "a set for names": lambda: policy.decide(x, set(NAMES)),
        "a text for names": lambda: policy.decide(x, "abcd"),
        "all arms excluded": lambda: policy.decide(x, NAMES, exclude=NAMES),
        "a number to exclude": lambda: policy.decide(x, NAMES, exclude=3),
        "a text to exclude": lambda: policy.decide(x, NAMES, exclude="a"),
        "top_k over the arms": lambda: policy.decide(x, NAMES, top_k=5),
        "top_k = 0": lambda: policy.decide(x, NAMES, top_k=0),
        "top_k = 1.5": lambda: policy.decide(x, NAMES, top_k=1.5),
        "a negative key": lambda: policy.decide(x, NAMES, key=-1),
    }
    for what, call in questions.items():
        refused(call, what)
    assert fingerprint(policy) == before


def an_empty_question_is_refused(make: MakePolicy) -> None:
    """A decision without arms raises an error, also as the first call."""
    calls: list[Callable[[Any], object]] = [
        lambda policy: policy.decide({}),
        lambda policy: policy.decide(np.empty((0, N_FEATURES))),
        lambda policy: policy.decide(np.empty((0, N_FEATURES)), []),
    ]
    for call in calls:
        refused(lambda call=call: call(make(n_features=N_FEATURES, seed=0)), "no arms")  # type: ignore[misc]  # bound now


def many_decisions_are_single_ones(make: MakePolicy) -> None:
    """`decide_many` makes the decisions of `decide` one after the other, from arrays and from lists."""
    x = np.stack([contexts(t) for t in range(8)])
    single = trained(make)
    expected = [single.decide(x[t], NAMES).arm for t in range(8)]
    names = [list(NAMES)] * 8
    for asked, arms in (
        (x, NAMES),
        (list(x), names),
        ([dict(zip(NAMES, q, strict=True)) for q in x], None),
    ):
        many = trained(make)
        assert [decision.arm for decision in many.decide_many(asked, arms)] == expected
        assert many.n_decisions == single.n_decisions
        left_out = many.decide_many(asked, arms, top_k=2, exclude=["a"])
        assert all(len(d.ranking) == 2 and "a" not in d.ranking for d in left_out)
        refused(
            lambda many=many, asked=asked, arms=arms: many.decide_many(asked, arms, top_k=5),  # type: ignore[misc]  # bound now
            "top_k over the arms",
        )
    policy = trained(make)
    refused(lambda: policy.decide_many([], top_k=0), "top_k = 0")
    before = fingerprint(policy)
    bad = x.copy()
    bad[7, 0, 0] = np.nan
    refused(lambda: policy.decide_many(bad, NAMES), "NaN in the last question")
    refused(lambda: policy.decide_many(x[0], NAMES), "one question instead of many")
    assert policy.decide_many([]) == []
    assert fingerprint(policy) == before


def inputs_stay_as_they_are(make: MakePolicy) -> None:
    """Neither deciding nor learning writes to the caller's arrays."""
    policy = trained(make)
    x = contexts(6)
    mine = x.copy()
    decision = policy.decide(x, NAMES)
    policy.update(decision.arm, x[NAMES.index(decision.arm)], 1.0)
    decision.context[:] = 7.0
    assert (x == mine).all()


@with_shared_contexts
def probabilities_are_those_of_decisions(make: MakePolicy) -> None:
    """Probabilities are not negative and sum to 1; arms are chosen that often, within 5 standard errors."""
    policy = trained(make)
    x = contexts(4)
    p = policy.probabilities(x, NAMES)
    assert p.shape == (4,)
    assert (p >= 0).all()
    assert abs(p.sum() - 1.0) < 1e-9
    one = policy.probabilities(x[0], NAMES)  # one context for all arms
    assert np.allclose(one, policy.probabilities(np.tile(x[0], (4, 1)), NAMES), atol=1e-6)
    chosen = [policy.decide(x, NAMES, key=key).arm for key in range(1000)]
    for name, share in zip(NAMES, p, strict=True):
        error = (1000 * share * (1 - share)) ** 0.5
        assert abs(chosen.count(name) - 1000 * share) <= 5 * error + 1
