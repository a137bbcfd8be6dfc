"""Calls of the clients that a typed user makes; mypy checks this file, nothing runs it."""

from __future__ import annotations

from typing import assert_type

from rolin.client import AsyncClient, Client, Decision, Question, RewardStatus
from rolin.errors import ServiceError


def use_in_a_thread() -> None:
    """All calls."""
    client = Client("http://127.0.0.1:8000", key="key", timeout=0.5, retries=2)
    bandit = client.bandit("offers")
    decision = bandit.decide(
        {"a": {"price": 3}, "b": [1.0, 2.0]}, situation={"hour": 9}, fallback="a"
    )
    assert_type(decision, Decision)
    assert_type(bandit.reward(decision, 1.0), RewardStatus)
    assert_type(bandit.reward(decision.id, 1.0, arm="a", weight=2.0), RewardStatus)
    assert_type(bandit.decide_batch([Question(["a"])]), list[Decision | ServiceError])
    assert_type(bandit.activate(decision), bool)
    assert_type(client.bandits(), list[str])
    bandit.decide(["a"], top=3)  # type: ignore[call-arg]  # no such option
    bandit.reward(1, 1.0)  # type: ignore[arg-type]  # an id is a text


async def use_on_an_event_loop(client: AsyncClient) -> None:
    """The same calls have the same types when they are awaited."""
    bandit = client.bandit("offers")
    decision = await bandit.decide(["a", "b"], top_k=2, exclude={"b"})
    assert_type(decision, Decision)
    assert_type(await bandit.reward(decision, 1.0), RewardStatus)
    assert_type(await bandit.snapshot(), int)
    bandit.decide(["a"]).arm  # type: ignore[attr-defined]  # noqa: B018  # it must be awaited
