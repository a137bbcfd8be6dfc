"""The last decisions that this process has written, so that rewards and explanations need not read the journal."""

from __future__ import annotations

from collections import OrderedDict

from rolin._support.repeated import is_repeated
from rolin.journal.base import Found
from rolin.journal.events import Following, LoggedDecision

__all__ = ["RecentDecision", "RecentDecisions"]

_MAX_CONTEXTS = 1 << 24  # bytes of encoded raw features
_MAX_BYTES = 1 << 26  # of everything else
_OVERHEAD = 1000  # bytes of one decision's objects, roughly
_FOLLOWING = 200  # bytes of what happened to it, each time, roughly


class RecentDecision:
    """A decision that this process has written.

    Parameters
    ----------
    seq
        Its number in the journal.
    found
        The decision, and what has happened to it since.
    bytes
        Its memory, without encoded raw features of other arms than those of the ranking.
    """

    __slots__ = ("bytes", "found", "seq")

    def __init__(self, seq: int, found: Found, bytes: int) -> None:
        self.seq, self.found, self.bytes = seq, found, bytes


class RecentDecisions:
    """Decisions by id; the oldest are dropped when they need too much memory.

    Encoded raw features are dropped earlier, except those of the ranking, which rewards need. Only the caller knows
    whether the journal still holds a decision.
    """

    def __init__(self) -> None:
        # The oldest first. A plain dict finds its first item only after looking at all that were removed before it.
        self._by_id: OrderedDict[str, RecentDecision] = OrderedDict()
        self._bytes = 0
        self._with_contexts: OrderedDict[str, LoggedDecision] = OrderedDict()  # the same
        self._context_bytes = 0

    def add(self, seq: int, decision: LoggedDecision) -> None:
        """Remember a decision.

        Parameters
        ----------
        seq
            Its number in the journal.
        decision
            The decision.
        """
        id, raw = decision.id, decision.raw
        self._drop(id)
        size = _size_of(decision)
        self._by_id[id] = RecentDecision(seq, Found(decision, []), size)
        self._bytes += size
        while self._bytes > _MAX_BYTES and len(self._by_id) > 1:
            self._drop(next(iter(self._by_id)))
        if raw is not None and (of_contexts := raw.nbytes):
            self._with_contexts[id] = decision
            self._context_bytes += of_contexts
            while self._context_bytes > _MAX_CONTEXTS and len(self._with_contexts) > 1:
                self._release(next(iter(self._with_contexts)))

    def follow(self, event: Following) -> None:
        """Note what has happened to a decision.

        Parameters
        ----------
        event
            A reward, an activation or an expiry.
        """
        recent = self._by_id.get(event.id)
        if recent is not None:
            recent.found.following.append(event)
            recent.bytes += _FOLLOWING
            self._bytes += _FOLLOWING
            while self._bytes > _MAX_BYTES:  # may drop this one too, if many things happen to it
                self._drop(next(iter(self._by_id)))

    def get(self, id: str) -> RecentDecision | None:
        """Return the decision with this id, if it is remembered."""
        return self._by_id.get(id)

    def clear(self) -> None:
        """Forget all decisions."""
        for id in list(self._by_id):
            self._drop(id)

    def _drop(self, id: str) -> None:
        """Forget a decision."""
        old = self._by_id.pop(id, None)
        if old is not None:
            self._bytes -= old.bytes
            self._release(id)

    def _release(self, id: str) -> None:
        """Drop encoded features; a journal in memory needs those of the ranking, and no others."""
        old = self._with_contexts.pop(id, None)
        if old is not None and old.raw is not None:
            self._context_bytes -= old.raw.nbytes
            old.raw.release(old.chosen)


def _size_of(decision: LoggedDecision) -> int:
    """Return roughly the memory of a decision, without encoded raw features of other arms than those of the ranking."""
    size, p, raw = _OVERHEAD, decision.propensities, decision.raw
    if p is not None:
        size += p.nbytes
    if raw is not None:
        # The contexts of the ranking are retained.
        return size + raw.raw_size + 8 * raw.feature_map.n_features * len(decision.chosen)
    x = decision.offered_contexts
    return size + (x[0].nbytes if is_repeated(x) else x.nbytes)
