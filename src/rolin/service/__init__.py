"""The decision service: named bandits over HTTP."""

from __future__ import annotations

__all__: list[str] = []
