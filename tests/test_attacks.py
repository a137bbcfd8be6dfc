"""Attacks at random: signals, kills, flipped bits, forks, hostile arguments and threads without a lock.

`ROLIN_ATTACKS=50 pytest -m slow tests/test_attacks.py -rP` makes fifty times as many, and prints their numbers.
"""

from __future__ import annotations

import copy
import os
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rolin
from rolin import Bandit, Catalogue
from rolin.errors import RolinError
from rolin.journal import check_journal, load_policy
from rolin.journal.folding import state_bytes
from rolin.model.posterior import Posterior
from rolin.policies.base import Policy
from support import hostile
from support.attack_programs import FORKS, KILLS, LOADING, THREADS
from support.attacks import HANGS, TIMES, delay, signals, until_interrupted
from support.hostile import CALLS, HOSTILE, targets
from support.policies import fixed

pytestmark = [
    pytest.mark.slow,
    pytest.mark.compiled,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no such signals, and no fork"),
    # A signal that comes while an object is deleted is reported by Python, and otherwise ignored.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

# -- signals in plain policies ---------------------------------------------------------------------

POLICIES: dict[str, Callable[[], Policy[Any]]] = {
    "RoLinTS": lambda: fixed(rolin.RoLinTS, n_features=3, seed=0),
    "intercept": lambda: fixed(rolin.RoLinTS, n_features=3, seed=0, intercept_std=1.0),
    "half-life": lambda: fixed(rolin.RoLinTS, n_features=3, seed=0, half_life=50.0),
    "learned": lambda: rolin.RoLinTS(
        n_features=3, seed=0, noise_std="learn", arm_std="learn", coef_std="learn"
    ),
    "LogisticRoLinTS": lambda: fixed(rolin.LogisticRoLinTS, n_features=3, seed=0),
    "BayesRoLinTS": lambda: rolin.BayesRoLinTS(n_features=3, seed=0),
    "HLinUCB": lambda: rolin.HLinUCB(n_features=3, seed=0),
    "HybridLinUCB": lambda: rolin.HybridLinUCB(n_features=3, seed=0),
    "DisjointLinUCB": lambda: rolin.DisjointLinUCB(n_features=3, seed=0),
    "SafeFALCON": lambda: rolin.SafeFALCON(n_features=3, seed=0),
}
# After a reward these may change once more: see test_interrupts.
HAS_STEPS = ("half-life", "learned", "LogisticRoLinTS", "BayesRoLinTS")


def program(policy: Policy[Any], rng: np.random.Generator, n: int) -> list[tuple[str, Any]]:
    """Return calls that change a policy, with new and known arms."""
    calls: list[tuple[str, Any]] = []
    for i in range(n):
        new, known = f"arm {rng.integers(10**9)}", f"arm {rng.integers(4)}"
        x, r = rng.normal(size=(3, 3)), rng.integers(2, size=3).astype(float)
        kind = int(rng.integers(10))
        if kind < 6:
            calls.append(("update", (new if i % 2 else known, x[0], r[0])))
        elif kind < 9 or not hasattr(policy, "decay"):
            calls.append(("update_many", ([new, known, f"{new}!"], x, r)))
        else:
            calls.append(("decay", (0.9,)))
    return calls


def state_of(policy: Policy[Any]) -> tuple[Any, ...]:
    """Return the whole state of a policy, in a form that can be compared."""
    state = policy.state()
    arrays = {name: np.array(array).tobytes() for name, array in state.arrays.items()}
    return tuple(state.names), tuple(state.removed), state.decisions, arrays


def check_rows(policy: Policy[Any]) -> None:
    """Names and rows agree, and every row is allocated."""
    index = policy._model.arm_index
    assert {name: row for row, name in enumerate(index.names, start=1)} == index.row_of
    model = policy._model
    for name in ("_arms", "_tails"):
        if isinstance(model, Posterior):
            assert len(getattr(model, name)) > len(index.names)


def check_posterior(policy: Policy[Any]) -> None:
    """The running posterior is that of its moments, unless it is approximate."""
    models = getattr(policy, "posteriors", [policy._model])
    for model in models:
        if isinstance(model, Posterior) and policy.exact:
            rebuilt = Posterior.of(model.scales, model._stored()).coefficients
            own = model.coefficients
            np.testing.assert_allclose(rebuilt.mean, own.mean, rtol=1e-6, atol=1e-7)
            np.testing.assert_allclose(rebuilt.covariance, own.covariance, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("kind", POLICIES)
def test_signals_in_a_plain_policy(kind: str, rng: np.random.Generator) -> None:
    """Each call that a signal interrupts is made completely or not at all, and the policy goes on."""
    counts: Counter[str] = Counter()
    warm = POLICIES[kind]()
    for call, arguments in program(warm, rng, 40):  # compile
        getattr(warm, call)(*arguments)
    policy, limit = POLICIES[kind](), 150 * TIMES
    with signals():
        while counts["interrupts"] < limit:
            if len(policy.arms) > 60:
                policy = POLICIES[kind]()
            calls = program(policy, rng, 30)
            before = copy.deepcopy(policy)
            steps = [partial(getattr(policy, call), *arguments) for call, arguments in calls]
            ended, was = until_interrupted(steps, delay(rng))
            check_rows(policy)
            for call, arguments in calls[:ended]:
                getattr(before, call)(*arguments)
            counts["interrupts"] += was
            counts["calls"] += ended
            now, expected = state_of(policy), state_of(before)
            if was and now != expected and ended < len(calls):
                call, arguments = calls[ended]
                one_more = copy.deepcopy(before)
                getattr(one_more, call)(*arguments)
                if now == state_of(one_more):
                    counts["made completely"] += 1
                else:  # the reward counts, and scales or ages are still due
                    assert kind in HAS_STEPS, f"{call} of {arguments!r} was made in part"
                    assert policy._model._seen in (before._model._seen, one_more._model._seen)
                    assert now[0] in (expected[0], state_of(one_more)[0])
                    counts["before the second step"] += 1
            else:
                assert now == expected
            if counts["interrupts"] % 10 == 0:
                check_posterior(policy)
            policy.update("arm 1", np.ones(3), 1.0)
    check_posterior(policy)
    print(f"{kind}: {dict(counts)}")


def test_signals_while_kernels_are_loaded(seed: int) -> None:
    """After Ctrl-C in the first calls of a process, its later calls work."""
    run_code(LOADING, 10 * TIMES, seed)


# -- signals in a bandit ---------------------------------------------------------------------------


def bandit_step(bandit: Bandit[Any], said: list[tuple[Any, ...]], i: int) -> None:
    """Make one call of a bandit, and note what it has acknowledged."""
    known = f"visit {i - 1}"
    if i % 8 < 4:
        x = np.random.default_rng(i).normal(size=(3, 2))
        decision = bandit.decide(x, ["a", "b", f"new {i}"], id=f"visit {i}", person=f"p{i % 3}")
        said.append(("decision", decision.id, decision.arm, decision.propensity))
        bandit.reward(decision.id, float(i % 3))
        said.append(("reward", decision.id, float(i % 3)))
    elif i % 8 == 4:
        made = bandit.decide_many(np.ones((2, 2, 2)), ids=[f"visit {i}", f"other {i}"])
        said.extend(("decision", d.id, d.arm, d.propensity) for d in made)
    elif i % 8 == 5:
        bandit.expire(0.0, default_reward=1.0)
        said.append(("expired", known))
    elif i % 8 == 6:
        bandit.decay(0.9)
    elif "a" in bandit.policy.arms:
        bandit.remove_arm("a")
        bandit.restore_arm("a", with_past=i % 16 > 8)


def check_bandit(bandit: Bandit[Any], said: list[tuple[Any, ...]]) -> None:
    """The state is that of the journal, and what was acknowledged is there."""
    header = bandit.journal.header()
    assert header is not None
    # Before, it may have the state from before the call that was interrupted.
    state = state_bytes(bandit.policy)
    assert state == state_bytes(load_policy(bandit.journal, upto=bandit.version).policy)
    assert bandit.refresh() == bandit.version == header.last
    state = state_bytes(load_policy(bandit.journal, from_start=True).policy)
    assert state_bytes(bandit.policy) == state
    for kind, id, *what in said:
        if kind == "decision":
            stored = bandit.journal.decision(id)
            assert stored is not None
            assert [stored.arm, stored.propensity] == what
        elif kind == "reward":
            assert bandit.journal.outcomes(id)[0].value == what[0]
    expired = [id for kind, id, *_ in said if kind == "expired"]
    assert not set(expired) & set(bandit.waiting(limit=10**6))


@pytest.mark.parametrize("where", ["memory", "SQLite"])
def test_signals_in_a_bandit(where: str, tmp_path: Path, rng: np.random.Generator) -> None:
    """After signals in all its calls, a bandit has the state of its journal, with all that it has acknowledged."""
    counts: Counter[str] = Counter()
    with Bandit(rolin.RoLinTS(n_features=2, noise_std="learn", arm_std="learn")) as warm:
        for i in range(40):  # compile
            bandit_step(warm, [], i)
    # Longer for a file, so that signals also come while it is written.
    limit, longest = (300, 1e-3) if where == "memory" else (150, 15e-3)
    while counts["interrupts"] < limit * TIMES:
        path = tmp_path / f"{counts['journals']}.db"
        policy = rolin.RoLinTS(n_features=2, noise_std="learn", arm_std="learn", seed=3)
        bandit = Bandit(policy, journal=None if where == "memory" else path, snapshot_every=20)
        said: list[tuple[Any, ...]] = []
        i = 0
        with signals():
            for _ in range(25):
                steps = [partial(bandit_step, bandit, said, i + k) for k in range(8)]
                ended, was = until_interrupted(steps, delay(rng, longest))
                counts["interrupts"] += was
                i += ended + 1
                if was and rng.random() < 0.3:
                    check_bandit(bandit, said)
                bandit.refresh()
                if "a" in bandit.policy.removed_arms:  # it cannot be offered
                    bandit.restore_arm("a")
        check_bandit(bandit, said)
        counts["acknowledged"] += len(said)
        counts["journals"] += 1
        state = state_bytes(bandit.policy)
        bandit.close()
        if where == "SQLite":
            with Bandit(journal=path) as again:
                assert state_bytes(again.policy) == state
            assert check_journal(path).is_whole
            path.unlink()
    print(f"{where}: {dict(counts)}")


# -- signals in a catalogue ------------------------------------------------------------------------


def catalogue_step(catalogue: Catalogue, names: list[str], x: Any, at: int, i: int) -> None:
    """Change the policy of a catalogue, and then decide, or add or remove an arm."""
    policy = catalogue.policy
    policy.update(names[at + i], x[at + i] if i % 3 else x[0], float(i % 2))
    if i % 5 == 3:
        policy.update_many(["later", names[at]], x[:2], [1.0, 0.0])
    extra = len(names) - 1 - (at + i) % 4
    if i % 2:
        catalogue.decide()
    elif names[extra] in catalogue:
        catalogue.remove([names[extra]])
    else:
        catalogue.add(x[extra : extra + 1], [names[extra]])


def check_catalogue(catalogue: Catalogue, names: list[str], x: Any) -> None:
    """The scores of all arms are those of a new catalogue."""
    present = np.flatnonzero(catalogue._store.find(names) >= 0)
    offered = [names[i] for i in present]
    assert len(present) == len(catalogue)
    fresh = Catalogue(catalogue.policy, x[present], offered)
    for one in (catalogue, fresh):
        one.decide(key="check")
    own, other = (one._store.slots_of(offered) for one in (catalogue, fresh))
    np.testing.assert_array_equal(catalogue._cache.rows[own], fresh._cache.rows[other])
    if catalogue._cache._with_predictions:
        for name in ("mean", "std"):
            ours, theirs = getattr(catalogue._cache, name), getattr(fresh._cache, name)
            np.testing.assert_allclose(ours[own], theirs[other], rtol=1e-8, atol=1e-10)
    if np.array_equal(own, other):  # the same arms in the same order have the same draws
        assert catalogue.decide(key="same").arm == fresh.decide(key="same").arm


@pytest.mark.parametrize("size", [40, 70_000])
@pytest.mark.parametrize("rule", ["marginal", "joint", "bound"])
def test_signals_in_a_catalogue(rule: Any, size: int, rng: np.random.Generator) -> None:
    """After signals in its calls and in updates, a catalogue scores as a new one does, and does not hang."""
    counts: Counter[str] = Counter()
    x = rng.normal(size=(size + 4, 4))
    names = [f"arm {i}" for i in range(size + 4)]
    limit, longest = (150, 300e-6) if size < 1000 else (12, 5e-3)
    while counts["interrupts"] < limit * TIMES:
        make: Any = rolin.RoLinUCB if rule == "bound" else rolin.RoLinTS
        sampling = {} if rule == "bound" else {"sampling": rule}
        policy = make(n_features=4, coef_std=1.0, arm_std=0.5, noise_std=1.0, seed=0, **sampling)
        catalogue = Catalogue(policy, x[:size], names[:size])
        catalogue.decide()
        with signals():
            for _ in range(30):
                start = int(rng.integers(size - 10))

                steps = [partial(catalogue_step, catalogue, names, x, start, i) for i in range(10)]
                # The first catalogue has no signals, so that all is compiled.
                seconds = delay(rng, longest) if counts["catalogues"] else 60.0
                _, was = until_interrupted(steps, seconds)
                counts["interrupts"] += was
                if was and rng.random() < (0.3 if size < 1000 else 0.03):
                    check_catalogue(catalogue, names, x)
        check_catalogue(catalogue, names, x)
        counts["catalogues"] += 1
    print(f"{rule}, {size} arms: {dict(counts)}")


# -- kills -----------------------------------------------------------------------------------------


def run_code(code: str, *arguments: object) -> str:
    """Run code in a process of its own, and return what it prints."""
    run = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code, *map(str, arguments)],
        capture_output=True, text=True, check=False, timeout=HANGS,
    )  # fmt: skip
    assert run.returncode == 0, f"exit code {run.returncode}: {run.stderr[-3000:]}"
    print(run.stdout)
    return run.stdout


def test_kills_of_three_writers(tmp_path: Path, seed: int) -> None:
    """Three processes are killed while they write to one journal: nothing that they were told is missing."""
    run_code(KILLS, tmp_path, 8 * TIMES, seed)


# -- flipped bits ----------------------------------------------------------------------------------


def looked_up(path: Path, ids: list[str]) -> tuple[Any, ...]:
    """Return the state of a journal, and all that can be looked up in it."""
    with Bandit(journal=path, snapshot_every=None) as bandit:
        journal = bandit.journal
        return (
            state_bytes(bandit.policy),
            repr(bandit._state.settings),
            bandit.version,
            bandit.waiting(),
            [repr(journal.decision(id)) for id in ids],
            [repr(journal.outcomes(id)) for id in ids],
            [(seq, repr(event)) for seq, event in journal.read()],
        )


def test_flipped_bits_of_a_journal(tmp_path: Path, rng: np.random.Generator) -> None:
    """With one flipped bit, a journal is refused, or it has the same state and answers every look-up the same."""
    path, copied = tmp_path / "j.db", tmp_path / "flipped.db"
    ids = [f"visit-{i}" for i in range(30)]
    policy = rolin.RoLinTS(n_features=2, noise_std="learn", arm_std="learn", seed=3)
    with Bandit(policy, journal=path, snapshot_every=25, floor=0.1) as bandit:
        for i, id in enumerate(ids):
            bandit.decide(rng.normal(size=(3, 2)), ["red", "blue", 7], id=id, person=f"p{i % 3}")
            if i % 4:
                bandit.reward(id, float(rng.normal()))
            if i == 20:
                bandit.expire(0.0, default_reward=0.5)
        bandit.decay(0.9)
        bandit.remove_arm(bandit.policy.arms[0])
    expected, whole = looked_up(path, ids), path.read_bytes()
    counts: Counter[str] = Counter()
    for _ in range(120 * TIMES):
        bit = int(rng.integers(8 * len(whole)))
        data = bytearray(whole)
        data[bit // 8] ^= 1 << bit % 8
        copied.write_bytes(data)
        try:
            with warnings.catch_warnings():
                # A snapshot is damaged, and an earlier one is used.
                warnings.simplefilter("ignore")
                found = looked_up(copied, ids)
        except RolinError:
            counts["refused"] += 1
        else:
            wrong = [i for i, (a, b) in enumerate(zip(found, expected, strict=True)) if a != b]
            assert not wrong, f"bit {bit} of {8 * len(whole)}: parts {wrong} differ"
            counts["same"] += 1
        for file in tmp_path.glob("flipped.db*"):
            file.unlink()
    print(dict(counts))


# -- forks -----------------------------------------------------------------------------------------


def test_forks_while_threads_decide(tmp_path: Path, seed: int) -> None:
    """In a child, catalogues decide, bandits refuse to write, and a new bandit works; nothing hangs."""
    run_code(FORKS, tmp_path, 10 * TIMES, seed)


# -- threads without a lock ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind",
    [
        "RoLinTS",
        "half-life",
        "learned",
        "LogisticRoLinTS",
        "BayesRoLinTS",
        "HLinUCB",
        "HybridLinUCB",
    ],
)
def test_threads_without_a_lock(kind: str) -> None:
    """Threads that change one plain policy at the same time do not crash the process."""
    run_code(THREADS, kind, 25 * TIMES)


# -- hostile arguments -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", CALLS)
def test_hostile_arguments(kind: str, rng: np.random.Generator) -> None:
    """Calls with one or two hostile arguments raise only errors of rolin, and a call that raises changes nothing."""
    counts: Counter[str] = Counter()
    made, calls = targets()[kind], list(CALLS[kind])
    before = hostile.state_of(made)
    for _ in range(400 * TIMES):
        call = calls[int(rng.integers(len(calls)))]
        arguments = dict(CALLS[kind][call])
        given = {}
        for name in rng.permutation(list(arguments))[: int(rng.integers(1, 3))]:
            given[name] = list(HOSTILE)[int(rng.integers(len(HOSTILE)))]
            arguments[name] = HOSTILE[given[name]]()
        if rng.random() < 0.02:
            arguments["unheard_of"] = 1
        try:
            with warnings.catch_warnings():
                # NumPy warns of numbers that overflow before they are checked.
                warnings.simplefilter("ignore")
                getattr(made, call)(**arguments)
        except Exception as raised:
            error = raised
        else:
            counts["accepted"] += 1
            if hostile.state_of(made) != before:
                made = targets()[kind]
                before = hostile.state_of(made)
            continue
        own = isinstance(error, RolinError) or error.args == hostile.EVIL
        unknown = isinstance(error, TypeError) and "unheard_of" in str(error)
        assert own or unknown, f"{kind}.{call} with {given}: {error!r}"
        assert hostile.state_of(made) == before, f"{kind}.{call} with {given}"
        counts["refused"] += 1
    print(f"{kind}: {dict(counts)}")
