"""Many callers, one transaction: threads, event loops, and requests that fail."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rolin
from rolin import AsyncBandit, Bandit
from rolin.bandit.async_bandit import _Results
from rolin.bandit.requests import Activate, Request
from rolin.errors import DecisionConflict, InputError, JournalError, RewardConflict, UnknownDecision
from rolin.journal import Journal
from rolin.journal.group_commit import GroupCommit, Queued

QUESTION = {"a": [1.0, 0.0], "b": [0.0, 1.0]}


def policy(**options: Any) -> rolin.RoLinTS:
    """A policy with known scales."""
    return rolin.RoLinTS(n_features=2, coef_std=1.0, arm_std=1.0, noise_std=1.0, seed=1, **options)


def test_coroutines_decide_as_calls_do(journal: Journal) -> None:
    """The same ids get the same arms and propensities, whoever writes them; errors reach who made them."""
    plain = Bandit(policy())
    bandit = AsyncBandit(Bandit(policy(), journal=journal))

    async def one(i: int) -> Any:
        decision = await bandit.decide(QUESTION, id=f"visit-{i}")
        with pytest.raises(DecisionConflict):
            await bandit.decide({"a": [2.0, 0.0]}, id=f"visit-{i}")
        with pytest.raises(InputError, match="expected \\(2,\\)"):
            await bandit.decide({"a": [2.0]})
        with pytest.raises(UnknownDecision):
            await bandit.reward("nobody", 1.0)
        return decision

    async def all_of_them() -> list[Any]:
        return await asyncio.gather(*(one(i) for i in range(50)))

    made = asyncio.run(all_of_them())
    for i, decision in enumerate(made):
        expected = plain.decide(QUESTION, id=f"visit-{i}")
        assert (decision.arm, decision.propensity) == (expected.arm, expected.propensity)

    async def rewards() -> None:  # in another event loop
        await asyncio.gather(*(bandit.reward(f"visit-{i}", 1.0) for i in range(50)))
        await asyncio.gather(*(bandit.reward(f"visit-{i}", 1.0) for i in range(50)))
        with pytest.raises(RewardConflict):
            await bandit.reward("visit-1", 2.0)
        waiting = await bandit.decide(QUESTION, id="later", active=False)
        await bandit.activate(waiting.id)

    asyncio.run(rewards())
    assert bandit.bandit.policy.posterior.count == 50
    assert [d.id for _, d in journal.read() if isinstance(d, rolin.journal.LoggedDecision)] == [
        *(f"visit-{i}" for i in range(50)),
        "later",
    ]


def test_a_cancelled_coroutine_leaves_the_others_alone(journal: Journal) -> None:
    """It may have been written; nobody else notices."""
    bandit = AsyncBandit(Bandit(policy(), journal=journal))

    async def some() -> list[Any]:
        tasks = [asyncio.ensure_future(bandit.decide(QUESTION, id=str(i))) for i in range(20)]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        return await asyncio.gather(*tasks, return_exceptions=True)

    found = asyncio.run(some())
    assert all(isinstance(one, asyncio.CancelledError) for one in found[::2])
    assert [one.id for one in found[1::2]] == [str(i) for i in range(1, 20, 2)]


def test_one_bad_request_does_not_fail_its_batch(tmp_path: Path) -> None:
    """Not even if code that is not ours raises something of its own."""

    class Broken:
        def transform(self, rows: list[dict[str, Any]]) -> Any:
            """Return one number, or fail."""
            if any(row["x"] > 1.0 for row in rows):
                raise KeyError("not ours")
            return [[row["x"], 1.0] for row in rows]

    features = rolin.features.SklearnFeatureMap(Broken(), n_features=2)
    bandit = AsyncBandit(Bandit(policy(), feature_map=features, journal=tmp_path / "j.db"))

    async def batch() -> list[Any]:
        with bandit.bandit.journal.turn():  # so that all of them wait for one commit
            calls = [
                asyncio.ensure_future(bandit.decide({"a": {"x": float(i)}}, id=str(i)))
                for i in range(3)
            ]
            await asyncio.sleep(0.05)
        return await asyncio.gather(*calls, return_exceptions=True)

    good, edge, bad = asyncio.run(batch())
    assert (good.id, edge.id) == ("0", "1")
    assert not isinstance(bad, rolin.journal.LoggedDecision)
    assert bandit.bandit.journal.decision("2") is None
    bandit.bandit.close()


def test_threads_share_commits(tmp_path: Path) -> None:
    """Sixteen threads: every decision and reward is there once."""
    with Bandit(policy(), journal=tmp_path / "j.db") as bandit:

        def work(who: int) -> None:
            for i in range(20):
                decision = bandit.decide(QUESTION, id=f"{who}-{i}")
                bandit.reward(decision.id, 1.0)

        threads = [threading.Thread(target=work, args=(who,)) for who in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert bandit.policy.posterior.count == 320
        assert len(bandit.journal.find(f"{w}-{i}" for w in range(16) for i in range(20))) == 320


def test_a_request_that_an_interruption_lost_is_noticed() -> None:
    """Whoever took it from the queue has gone: the caller gets an error, and does not wait for ever."""
    commits: GroupCommit[int] = GroupCommit(lambda batch: None)  # it settles nothing
    with pytest.raises(JournalError, match="interrupted; repeat the call"):
        commits.submit(1)
    called: list[Queued[int]] = []
    commits.enqueue(Queued(2, called.append))  # from now on a thread writes
    with pytest.raises(JournalError, match="interrupted; repeat the call"):
        commits.submit(3)
    assert called == []


def test_the_thread_ends_when_nobody_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """And starts again."""
    monkeypatch.setattr("rolin.journal.group_commit._IDLE", 0.01)
    commits: GroupCommit[int] = GroupCommit(
        lambda batch: [q.settle(q.work) for q in batch] and None
    )
    for _ in range(3):
        done = threading.Event()
        commits.enqueue(Queued(1, lambda _, done=done: done.set()))  # type: ignore[misc]
        assert done.wait(10.0)
        while any(thread.name == "rolin-writer" for thread in threading.enumerate()):
            done.wait(0.01)
    assert commits.submit(5) == 5


def test_many_decisions_are_found_at_once(journal: Journal) -> None:
    """With what has happened to each, and without those that are unknown."""
    bandit = Bandit(policy(), journal=journal)
    for i in range(150):
        bandit.decide(QUESTION, id=str(i), active=i % 3 > 0)
        if i % 2:
            bandit.reward(str(i), float(i))
    found = journal.find([str(i) for i in range(0, 200, 3)] + ["7", "7"])
    assert set(found) == {str(i) for i in range(0, 150, 3)} | {"7"}
    for id, (decision, following) in found.items():
        assert decision.id == id
        assert np.array_equal(decision.offered_contexts, np.eye(2))
        assert [event.value for event in following] == [float(id)] * (int(id) % 2)  # type: ignore[union-attr]
        assert [type(event) for event in following] == [type(e) for e in journal.following(id)]
    assert journal.find([]) == {}


def test_calls_cancelled_before_they_are_taken_are_not_written(journal: Journal) -> None:
    """Nobody waits for them; the others of their batch are written."""
    bandit = AsyncBandit(Bandit(policy(), journal=journal))

    async def some() -> list[Any]:
        with bandit.bandit._writer._exclusively():  # so that nothing is taken
            calls = [asyncio.ensure_future(bandit.decide(QUESTION, id=str(i))) for i in range(20)]
            await asyncio.sleep(0.01)
            for call in calls[::2]:
                call.cancel()
            await asyncio.sleep(0.01)
        return await asyncio.gather(*calls, return_exceptions=True)

    asyncio.run(some())
    assert set(journal.find(map(str, range(20)))) == {str(i) for i in range(1, 20, 2)}

    async def all_of_them() -> None:
        with bandit.bandit._writer._exclusively():
            call = asyncio.ensure_future(bandit.decide(QUESTION, id="none"))
            await asyncio.sleep(0.01)
            call.cancel()
            await asyncio.sleep(0.01)
        await bandit.decide(QUESTION, id="last")

    version = bandit.bandit.version
    asyncio.run(all_of_them())
    assert bandit.bandit.version == version + 1


def test_a_request_without_a_thread_to_write_it_is_withdrawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its caller gets the error, so nobody may write it later; others still write by themselves."""
    written: list[int] = []

    def write(batch: list[Queued[int]]) -> None:
        for queued in batch:
            written.append(queued.work)
            queued.settle(queued.work)

    def start(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    commits: GroupCommit[int] = GroupCommit(write)
    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(RuntimeError, match="can't start"):
        commits.enqueue(Queued(1))
    assert commits.submit(2) == 2
    assert written == [2]


def test_an_interrupt_while_a_batch_is_taken_loses_no_request() -> None:
    """All of them are told, once, and none is written later."""

    class Interrupted(deque[Any]):
        """Its second removal is interrupted."""

        calls = 0

        def remove(self, value: Any) -> None:
            self.calls += 1
            if self.calls == 2:
                raise KeyboardInterrupt
            super().remove(value)

    commits: GroupCommit[int] = GroupCommit(lambda batch: pytest.fail("it was written"))
    told: list[int] = []
    commits._queue = queue = Interrupted(
        Queued(i, lambda queued: told.append(queued.work)) for i in range(3)
    )
    with pytest.raises(KeyboardInterrupt), commits.lock:
        commits._lead()
    assert told == [0, 1, 2]
    assert not queue


def test_an_interrupt_while_results_are_brought_to_the_loop_delays_no_later_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The next result brings the others along."""

    async def both() -> list[Any]:
        loop = asyncio.get_running_loop()
        results = _Results(loop)
        futures = [loop.create_future() for _ in range(2)]
        done: list[Queued[Request]] = [Queued(Activate("x", 0.0)) for _ in futures]
        for i, queued in enumerate(done):
            queued.settle(i)

        def interrupted(*args: Any) -> Any:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(loop, "call_soon_threadsafe", interrupted)
            with pytest.raises(KeyboardInterrupt):
                results._note(futures[0], done[0])
        results._note(futures[1], done[1])
        return await asyncio.wait_for(asyncio.gather(*futures), 10.0)

    assert asyncio.run(both()) == [0, 1]


def test_rewards_do_not_block_the_event_loop() -> None:
    """Even while a thread computes with the state."""
    bandit = AsyncBandit(Bandit(policy()))
    bandit.bandit.decide(QUESTION, id="visit-1")
    held, go_on = threading.Event(), threading.Event()
    went_on: list[bool] = []

    def hold() -> None:
        with bandit.bandit._state.lock:
            held.set()
            went_on.append(go_on.wait(2.0))

    async def two() -> None:
        calls = asyncio.gather(bandit.reward("visit-1", 1.0), bandit.record_reward("visit-1", 1.0))
        await asyncio.sleep(0.01)
        go_on.set()
        await calls

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(10.0)
    asyncio.run(two())
    thread.join()
    assert went_on == [True]
