"""A bandit for programs that run on an event loop: calls wait for the disk without blocking it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, Generic, SupportsFloat, TypeVar

from numpy.typing import ArrayLike

from rolin._support.arms import Name
from rolin.bandit.bandit import Bandit
from rolin.bandit.question import Question
from rolin.bandit.requests import (
    Activate,
    RecordRewards,
    Request,
    RewardStatus,
    decide_request,
    lenient_reward_request,
    reward_from,
)
from rolin.bandit.validation import id_of
from rolin.journal.events import LoggedDecision
from rolin.journal.group_commit import Queued
from rolin.policies import Policy

__all__ = ["AsyncBandit"]

P = TypeVar("P", bound=Policy[Any])


class AsyncBandit(Generic[P]):
    """Decisions and rewards of a bandit as coroutines.

    A thread writes them, many in one transaction, so that the event loop never waits for the disk. The calls have the
    same arguments, promises and errors as those of [`Bandit`][rolin.Bandit]. A call that is cancelled before the thread
    takes it leaves nothing behind; one that is cancelled later may be recorded.

    Parameters
    ----------
    bandit
        The bandit; open it with `background=True`, so that learning the scales delays nobody.

    Examples
    --------
    >>> import asyncio
    >>> import rolin
    >>> bandit = rolin.AsyncBandit(rolin.Bandit(rolin.RoLinTS(n_features=1, seed=7)))
    >>> async def visit():
    ...     decision = await bandit.decide({"red": [1.0], "blue": [0.3]}, id="visit-1")
    ...     await bandit.reward(decision.id, 1.0)
    >>> asyncio.run(visit())
    >>> bandit.bandit.version
    2
    """

    def __init__(self, bandit: Bandit[P]) -> None:
        self.bandit = bandit
        """The bandit, for all other calls."""
        self._results: _Results | None = None

    async def decide(
        self,
        contexts: Mapping[Any, Any] | ArrayLike | None = None,
        arms: Iterable[Name] | None = None,
        *,
        situation: Any = None,
        id: str | None = None,
        person: str | None = None,
        top_k: int | None = None,
        exclude: Iterable[Name] = (),
        active: bool = True,
        baseline: Name | None = None,
    ) -> LoggedDecision:
        """Choose an arm and record the whole question.

        Parameters
        ----------
        contexts
            As for `Bandit.decide`.
        arms
            As for `Bandit.decide`.
        situation
            As for `Bandit.decide`.
        id
            As for `Bandit.decide`.
        person
            As for `Bandit.decide`.
        top_k
            As for `Bandit.decide`.
        exclude
            As for `Bandit.decide`.
        active
            As for `Bandit.decide`.
        baseline
            As for `Bandit.decide`.
        """
        question = Question(contexts, arms, situation, id, person)
        found = await self.submit(decide_request([question], top_k, exclude, active, baseline))
        decision: LoggedDecision = found[0]
        return decision

    async def reward(
        self,
        id: str,
        value: SupportsFloat,
        *,
        arm: Name | None = None,
        weight: SupportsFloat = 1.0,
        reward_id: str | None = None,
    ) -> None:
        """Record the reward of a decision, and learn from it.

        Parameters
        ----------
        id
            As for `Bandit.reward`.
        value
            As for `Bandit.reward`.
        arm
            As for `Bandit.reward`.
        weight
            As for `Bandit.reward`.
        reward_id
            As for `Bandit.reward`.
        """
        checked = reward_from(self.bandit._state.policy, id, value, arm, weight, reward_id)
        await self.submit(RecordRewards([checked], self.bandit.now()))

    async def record_reward(
        self,
        id: str,
        value: SupportsFloat,
        *,
        arm: Name | None = None,
        weight: SupportsFloat = 1.0,
        reward_id: str | None = None,
        window: float | timedelta | None = None,
        default_reward: SupportsFloat | None = None,
    ) -> RewardStatus:
        """Record a reward that may come too early, too late or twice, and return what became of it.

        Parameters
        ----------
        id
            As for `Bandit.record_reward`.
        value
            As for `Bandit.record_reward`.
        arm
            As for `Bandit.record_reward`.
        weight
            As for `Bandit.record_reward`.
        reward_id
            As for `Bandit.record_reward`.
        window
            As for `Bandit.record_reward`.
        default_reward
            As for `Bandit.record_reward`.
        """
        policy, now = self.bandit._state.policy, self.bandit.now()
        checked = reward_from(policy, id, value, arm, weight, reward_id)
        found = await self.submit(
            lenient_reward_request(policy, now, checked, window, default_reward)
        )
        status: RewardStatus = found[0]
        return status

    async def activate(self, id: str) -> None:
        """Say that a decision made with `active=False` is now in use.

        Parameters
        ----------
        id
            Id of the decision.
        """
        await self.submit(Activate(id_of(id), self.bandit.now()))

    def submit(self, request: Request) -> asyncio.Future[Any]:
        """Have a request written, and return its answer as a future of the running event loop.

        Parameters
        ----------
        request
            One of the requests in `rolin.bandit.requests`.
        """
        loop = asyncio.get_running_loop()
        results = self._results
        if results is None or results.loop is not loop:
            self._results = results = _Results(loop)
        return results.of(self.bandit, request)


class _Results:
    """Brings the results of requests from the writing thread to an event loop: once per batch, not once per request."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._settled: deque[tuple[asyncio.Future[Any], Queued[Request]]] = deque()
        self._is_scheduled = False

    def of(self, bandit: Bandit[Any], request: Request) -> asyncio.Future[Any]:
        """Return the future answer to a request."""
        future: asyncio.Future[Any] = self.loop.create_future()
        bandit._writer.enqueue(
            Queued(request, lambda queued: self._note(future, queued), future.cancelled)
        )
        return future

    def _note(self, future: asyncio.Future[Any], queued: Queued[Request]) -> None:
        """Note a result; called by the writing thread."""
        self._settled.append((future, queued))
        if not self._is_scheduled:
            try:
                # Set it first: `_deliver`, which resets it, may run before the next call returns.
                self._is_scheduled = True
                self.loop.call_soon_threadsafe(self._deliver)
            except RuntimeError:  # the loop was closed, so nobody waits
                self._is_scheduled = False
            except BaseException:  # an interrupt: the next result schedules it
                self._is_scheduled = False
                raise

    def _deliver(self) -> None:
        self._is_scheduled = False  # first, so that no later result is left behind
        while self._settled:
            future, queued = self._settled.popleft()
            if future.cancelled():
                continue
            if queued.error is not None:
                future.set_exception(queued.error)
            else:
                future.set_result(queued.answer)
