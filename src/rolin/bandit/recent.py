"""The last decisions with raw features, so that rewards and explanations do not encode them again."""

from __future__ import annotations

from typing import NamedTuple

from rolin.features import RecordedFeatures
from rolin.journal.events import LoggedDecision

__all__ = ["RecentDecision", "RecentDecisions"]

_MAX_BYTES = 1 << 24  # of contexts in memory


class RecentDecision(NamedTuple):
    """A decision that this process has written."""

    seq: int
    """Its number in the journal."""
    decision: LoggedDecision
    raw: RecordedFeatures
    """Its raw features, with their contexts."""


class RecentDecisions:
    """Decisions with encoded raw features by id; the oldest are dropped when they need too much memory.

    Only the caller knows whether the journal still holds a decision.
    """

    def __init__(self) -> None:
        self._by_id: dict[str, RecentDecision] = {}  # the oldest first
        self._bytes = 0

    def add(self, seq: int, decision: LoggedDecision) -> None:
        """Remember a decision, unless its contexts are not in memory.

        Parameters
        ----------
        seq
            Its number in the journal.
        decision
            The decision.
        """
        raw = decision.raw
        if raw is None or not raw.nbytes:
            return
        self._drop(decision.id)
        self._by_id[decision.id] = RecentDecision(seq, decision, raw)
        self._bytes += raw.nbytes
        while self._bytes > _MAX_BYTES and len(self._by_id) > 1:
            self._drop(next(iter(self._by_id)))

    def get(self, id: str) -> RecentDecision | None:
        """Return the decision with this id, if it is remembered."""
        return self._by_id.get(id)

    def clear(self) -> None:
        """Forget all decisions."""
        for id in list(self._by_id):
            self._drop(id)

    def _drop(self, id: str) -> None:
        """Forget a decision; a journal in memory needs the contexts of its ranking, and no others."""
        old = self._by_id.pop(id, None)
        if old is not None:
            self._bytes -= old.raw.nbytes
            old.raw.release(old.decision.chosen)
