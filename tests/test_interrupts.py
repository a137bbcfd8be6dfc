"""Signals such as Ctrl-C, at every point of a call: each change of state is made completely or not at all."""

from __future__ import annotations

import copy
import dis
import sys
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np
import pytest

import rolin
from rolin.catalogue import workers
from rolin.model.posterior import Posterior
from rolin.model.slopes import SlopePosterior
from rolin.policies.base import Policy

SOURCE = Path(rolin.__file__).parent
MODELS = [
    "adaptive", "adaptive_mixture", "learner", "logistic", "logistic_slopes", "mixture", "posterior", "scale_schedule",
    "slopes",
]  # fmt: skip
# What changes the state of a model. All other modules only compute.
FILES = {
    str(path)
    for path in (
        SOURCE / "_support" / "arms.py",
        *(SOURCE / "model" / f"{name}.py" for name in MODELS),
        *(SOURCE / "policies").glob("*.py"),
        *(SOURCE / "catalogue").glob("*.py"),
    )
}


# Python handles signals when one of these instructions ends, and at no other time.
HANDLED_AFTER = ("RESUME", "JUMP_BACKWARD", "CALL", "CALL_FUNCTION_EX", "CALL_KW")


@cache
def interruptible(code: CodeType) -> frozenset[int]:
    """Return where in a function a signal may be handled: the instructions after those that do so."""
    names = [(i.opname, i.offset) for i in dis.get_instructions(code)]
    pairs = pairwise(names)
    return frozenset(offset for (name, _), (_, offset) in pairs if name in HANDLED_AFTER)


class Interrupt(BaseException):
    """What a signal handler raises, like `KeyboardInterrupt`."""


def interrupted(call: Callable[[], object], at: int) -> bool:
    """Run a call, and interrupt it the `at`-th time that it can be; return whether it was interrupted."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        if frame.f_code.co_filename not in FILES:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode" and frame.f_lasti in interruptible(frame.f_code):
            count += 1
            if count == at:
                sys.settrace(None)
                raise Interrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except Interrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def state_of(policy: Policy[Any]) -> tuple[Any, ...]:
    """Return the whole state of a policy's model, in a form that can be compared."""
    model = policy._model
    arrays = {name: array.tobytes() for name, array in model.arrays().items()}
    return tuple(model.names), tuple(model.removed_arms), arrays


def check_consistent(policy: Policy[Any]) -> None:
    """The running posterior is that of its moments, and the policy can go on."""
    model = policy._model
    for part in policy.posteriors if isinstance(policy, rolin.BayesRoLinTS) else ():
        whole = Posterior.of(part.scales, policy.moments)
        np.testing.assert_allclose(
            whole.coefficients.mean, part.coefficients.mean, rtol=1e-7, atol=1e-7
        )
    if isinstance(model, Posterior) and not isinstance(policy, rolin.NaiveRoLinTS):
        kind = SlopePosterior if isinstance(model, SlopePosterior) else Posterior
        rebuilt = kind.of(policy.scales, model._stored())  # with the weights that it has now
        np.testing.assert_allclose(
            rebuilt.coefficients.mean, model.coefficients.mean, rtol=1e-7, atol=1e-7
        )
        np.testing.assert_allclose(
            rebuilt.coefficients.covariance, model.coefficients.covariance, rtol=1e-6, atol=1e-9
        )


X = [0.3, -0.7, 1.1]
LOGITS: dict[str, Any] = {"coef_std": 1.0, "arm_std": 0.5, "exploration": 1.0}
FIXED: dict[str, Any] = {**LOGITS, "noise_std": 1.0, "intercept_std": None}
GUESSED: dict[str, Any] = dict.fromkeys(("noise_std", "arm_std", "coef_std"), ("learn", 1.0))
POLICIES: dict[str, Callable[[], Policy[Any]]] = {
    "RoLinTS": lambda: rolin.RoLinTS(n_features=3, seed=0, **FIXED),
    "intercept": lambda: rolin.RoLinTS(n_features=3, seed=0, **{**FIXED, "intercept_std": 1.0}),
    "forgetting": lambda: rolin.RoLinTS(n_features=3, seed=0, half_life=5.0, **FIXED),
    "learned": lambda: rolin.RoLinTS(n_features=3, seed=0, intercept_std=None, **GUESSED),
    "defaults": lambda: rolin.RoLinTS(n_features=3, seed=0),
    "LogisticRoLinTS": lambda: rolin.LogisticRoLinTS(n_features=3, seed=0, **LOGITS),
    "slopes": lambda: rolin.RoLinTS(n_features=3, seed=0, slope_std=0.5, **FIXED),
    "learned slopes": lambda: rolin.RoLinTS(n_features=3, seed=0, slope_std="learn"),
    "logistic slopes": lambda: rolin.LogisticRoLinTS(n_features=3, seed=0, slope_std="learn"),
    "BayesRoLinTS": lambda: rolin.BayesRoLinTS(n_features=3, seed=0, coef_std=1.0),
    "Bayes, learned": lambda: rolin.BayesRoLinTS(n_features=3, seed=0),
    "NaiveRoLinTS": lambda: rolin.NaiveRoLinTS(n_features=3, seed=0),
    "HLinUCB": lambda: rolin.HLinUCB(n_features=3, seed=0),
    "HybridLinUCB": lambda: rolin.HybridLinUCB(n_features=3, seed=0),
    "DisjointLinUCB": lambda: rolin.DisjointLinUCB(n_features=3, seed=0),
    "SafeFALCON": lambda: rolin.SafeFALCON(n_features=3, seed=0),
}
# They learn a reward and then, as a second step, their scales or the effect of forgetting.
STEPWISE = {
    "forgetting", "learned", "defaults", "LogisticRoLinTS", "learned slopes", "logistic slopes", "Bayes, learned"
}  # fmt: skip


def played(make: Callable[[], Policy[Any]], n: int) -> Policy[Any]:
    """Return a policy that has learned n rewards of n arms."""
    policy = make()
    for i in range(n):
        policy.update(f"arm {i}", X, float(i % 2))
    return policy


CALLS: dict[str, Callable[[Policy[Any]], object]] = {
    "a known arm": lambda policy: policy.update("arm 0", X, 1.0),
    "a new arm": lambda policy: policy.update("new", X, 1.0),
    "a batch": lambda policy: policy.update_many(
        ["new", "arm 0", "newer"], [X, X, X], [1.0, 0.0, 1.0]
    ),
    "removal": lambda policy: policy.remove_arm("arm 1"),
    "decay": lambda policy: policy.decay(0.5),
}


@pytest.mark.compiled
@pytest.mark.parametrize("n", [7, pytest.param(9, marks=pytest.mark.slow)])
# 7: the next new arm needs more rows; 9: scales are due
@pytest.mark.parametrize("what", CALLS)
@pytest.mark.parametrize("kind", POLICIES)
def test_an_interrupted_call_has_changed_everything_or_nothing(
    kind: str, what: str, n: int, rng: np.random.Generator
) -> None:
    """Wherever it is interrupted, a call leaves the state from before it or after it.

    Scales are learned, sites of binary rewards are computed again, and old evidence is scaled back, after a reward.
    These are changes of their own: a signal may come between, and the next reward then makes them.
    """
    start, call = played(POLICIES[kind], n), CALLS[what]
    if what == "decay" and not hasattr(start, "decay"):
        return
    before = state_of(start)
    done = copy.deepcopy(start)
    try:
        call(done)
    except rolin.errors.Unsupported:
        return
    after = state_of(done)
    has_steps = kind in STEPWISE
    # Every point of what is fast; the points of the others take turns.
    stride = {
        "BayesRoLinTS": 5,
        "Bayes, learned": 7,
        "LogisticRoLinTS": 3,
        "learned": 2,
        "defaults": 3,
        "learned slopes": 12,
        "logistic slopes": 4,
    }.get(kind, 1)
    at, was = int(rng.integers(stride)) - stride + 1, True
    while was:
        at += stride
        policy = copy.deepcopy(start)
        was = interrupted(lambda policy=policy: call(policy), at)  # type: ignore[misc]  # called at once
        now = state_of(policy)
        if now == after:
            continue
        if now != before:
            assert has_steps, f"interrupted at point {at}"
            assert policy.moments.count in (
                start.moments.count,
                pytest.approx(done.moments.count, rel=0.2),
            )
            check_consistent(policy)
        call(policy)  # may be repeated, and goes on from a whole state
        check_consistent(policy)
        if now == before:
            assert state_of(policy) == after
    assert at > 3


CATALOGUE_CALLS: dict[str, Callable[[rolin.Catalogue], object]] = {
    "decide": lambda catalogue: catalogue.decide(key=1),
    "add": lambda catalogue: catalogue.add(np.full((2, 3), 0.5), ["new", "newer"]),
    "remove": lambda catalogue: catalogue.remove(["arm 3", "arm 5"]),
    "remove and add": lambda catalogue: (
        catalogue.remove(["added"]),
        catalogue.add(np.full((1, 3), 0.9), ["other"]),
    ),
}


@pytest.mark.compiled
@pytest.mark.parametrize("what", CATALOGUE_CALLS)
@pytest.mark.parametrize("sampling", ["marginal", "joint"])
@pytest.mark.parametrize("slope_std", [0.0, 0.5])
@pytest.mark.parametrize("few", [0, 100])
def test_an_interrupted_catalogue_answers_as_a_new_one(
    what: str, sampling: Any, slope_std: float, few: int, rng: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Wherever it is interrupted, a catalogue has its arms, or those after the call, and true scores."""
    monkeypatch.setattr(workers, "_FEW", few)  # with threads, and without
    x = rng.normal(size=(40, 3))
    names = [f"arm {i}" for i in range(len(x))]
    features = dict(zip(names, x, strict=True)) | {
        "added": np.full(3, 0.7), "new": np.full(3, 0.5), "newer": np.full(3, 0.5), "other": np.full(3, 0.9),
    }  # fmt: skip
    policy = rolin.RoLinTS(n_features=3, seed=0, sampling=sampling, slope_std=slope_std, **FIXED)
    at, was = 0, True
    while was:
        at += 1
        catalogue = rolin.Catalogue(policy, x, names)
        catalogue.add(np.full((1, 3), 0.7), ["added"])
        catalogue.decide(key=0)
        for i in range(2):  # also a new arm, and one that is not in the catalogue
            policy.update(f"arm {at % 40}", x[at % 40], float(i))
            policy.update(f"arm {at}", x[at % 40], float(i))
        was = interrupted(lambda c=catalogue: CATALOGUE_CALLS[what](c), at)  # type: ignore[misc]  # called at once
        policy.update("arm 7", x[7], 1.0)
        present = [name for name in features if name in catalogue]
        assert len(present) == len(catalogue)
        fresh = rolin.Catalogue(policy, np.array([features[name] for name in present]), present)
        mean, std = catalogue.predict(present)
        np.testing.assert_allclose(mean, fresh.predict(present).mean, rtol=1e-12)
        if sampling == "marginal":
            catalogue.decide(key=3)
            slots = catalogue._store.slots_of(present)
            np.testing.assert_allclose(catalogue._cache.mean[slots], mean, rtol=1e-9, atol=1e-12)
            np.testing.assert_allclose(catalogue._cache.std[slots], std, rtol=1e-9)
        if len(present) == 41:  # the same arms in the same order have the same draws
            again = catalogue.decide(key=2), fresh.decide(key=2)
            assert again[0].arm == again[1].arm
        if "new" not in catalogue:
            catalogue.add(np.full((1, 3), 0.5), ["new"])
        catalogue.remove(["new"])
        catalogue.decide(key=4)
    assert at > 20


@pytest.mark.compiled
def test_an_interrupted_addition_leaves_no_name() -> None:
    """The slot of an arm whose addition was interrupted goes to another arm, and is not found by the first name."""
    policy = rolin.RoLinTS(n_features=3, seed=0)
    at, was = 0, True
    while was:
        at += 1
        catalogue = rolin.Catalogue(policy, np.eye(3))
        catalogue.add([X], ["old"])
        catalogue.remove(["old"])  # its slot is free
        was = interrupted(lambda c=catalogue: c.add([X], ["lost"]), at)  # type: ignore[misc]  # called at once
        if "lost" in catalogue:
            continue
        catalogue.add([[1.0, 2.0, 3.0]], ["other"])
        assert "lost" not in catalogue
        assert len(catalogue) == 4
        catalogue.add([X], ["lost"])
        assert catalogue.contexts(["lost", "other"]).tolist() == [X, [1.0, 2.0, 3.0]]
    assert at > 10


@pytest.mark.compiled
def test_a_mixture_shares_its_arrays_after_an_interruption() -> None:
    """After an interruption where more rows were needed, later rewards of known arms count."""
    start = played(POLICIES["BayesRoLinTS"], 7)
    at, was = 0, True
    while was:
        at += 1
        policy = copy.deepcopy(start)
        was = interrupted(lambda p=policy: p.update("new", X, 1.0), at)  # type: ignore[misc]  # called at once
        policy.update("arm 0", X, 1.0)
        assert policy.moments.weight[0] == 2.0


def test_an_interrupted_call_is_not_written_by_a_later_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a signal comes while a request is queued, the request is dropped."""
    from rolin.journal.group_commit import GroupCommit

    bandit = rolin.Bandit(rolin.RoLinTS(n_features=3, seed=0))

    def strike(_: object) -> None:
        raise Interrupt

    with monkeypatch.context() as patched:
        patched.setattr(GroupCommit, "_lead", strike)
        with pytest.raises(Interrupt):
            bandit.decide([X], id="lost", person="somebody")
    bandit.decide([X], id="other")
    assert bandit.journal.decision("lost") is None
