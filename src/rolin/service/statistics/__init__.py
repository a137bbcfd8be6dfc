"""What happened in a bandit, as numbers for people: over time, by arm, and whether the promises of the service hold."""

from __future__ import annotations

__all__: list[str] = []
