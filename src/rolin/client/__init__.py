"""Clients of the decision service. They need httpx, and neither NumPy nor Numba."""

from __future__ import annotations

from rolin._support.optional import needs

with needs("client"):
    from rolin.client.bandit import AsyncRemoteBandit, RemoteBandit
    from rolin.client.client import AsyncClient, Client
    from rolin.client.values import Decision, Erased, Question, Reward, RewardStatus

__all__ = [
    "AsyncClient",
    "AsyncRemoteBandit",
    "Client",
    "Decision",
    "Erased",
    "Question",
    "RemoteBandit",
    "Reward",
    "RewardStatus",
]
