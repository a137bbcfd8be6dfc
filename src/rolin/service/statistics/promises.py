"""The state of what the service promises, in words."""

from __future__ import annotations

from collections.abc import Iterator

from rolin.journal.base import StorageReport
from rolin.service.statistics.fold import Statistics
from rolin.service.statistics.schema import Calibration, Promise, State

__all__ = ["promises_of"]

_LARGE_LOG = 64 << 20  # bytes of a log that somebody keeps from being written back
_LONG_QUEUE = 200  # requests; a commit takes milliseconds and writes all of them
_MANY = 0.05  # share of rewards that do not count
_FEW = 20  # rewards
_IGNORED = ("late", "conflicting", "invalid", "unknown", "rejected")


def promises_of(
    statistics: Statistics,
    *,
    problem: str | None,
    durable: bool,
    storage: StorageReport,
    written: float | None,
    queued: int,
) -> Iterator[Promise]:
    """Yield the promises with their state.

    Parameters
    ----------
    statistics
        What was counted.
    problem
        Why the last write failed; `None` if it succeeded.
    durable
        Whether the journal outlives the process.
    storage
        How it is stored.
    written
        Seconds since the last write of this process; `None` if there was none.
    queued
        Requests that wait to be written.
    """
    yield _durability(problem, durable, storage, written)
    yield _calibrated(statistics.calibration.report(statistics.arms))
    yield _rewards(statistics)
    yield _backlog(statistics, queued)


def _durability(
    problem: str | None, durable: bool, storage: StorageReport, written: float | None
) -> Promise:
    name = "Nothing acknowledged is lost"
    if problem is not None:
        return Promise(name, "broken", f"The journal cannot be written: {problem}.")
    if not durable:
        return Promise(name, "broken", "The journal is in memory, and ends with the process.")
    text = (
        "The last write succeeded" if written is not None else "Nothing was written since the start"
    )
    if written is not None:
        text += f", {_ago(written)}"
    state: State = "ok"
    if storage.flushed:
        text += f". Commits are flushed before they are answered ({storage.durability})"
    elif storage.flushed is not None:
        state, text = "broken", f"Commits are not flushed: {storage.durability}"
    if storage.journal_bytes is not None:
        text += f". Journal: {storage.journal_bytes / (1 << 20):.1f} MB"
    if storage.log_bytes is not None:
        text += f". Write-ahead log: {storage.log_bytes / (1 << 20):.1f} MB"
        if storage.log_bytes > _LARGE_LOG and state == "ok":
            state = "watch"
            text += "; another process has been reading for long, so that it cannot be written back"
    return Promise(name, state, f"{text}.")


def _ago(seconds: float) -> str:
    if seconds < 60.0:
        return f"{max(seconds, 0.0):.0f} s ago"
    return f"{seconds / 60.0:.0f} min ago" if seconds < 7200.0 else f"{seconds / 3600.0:.0f} h ago"


def _calibrated(found: Calibration) -> Promise:
    name = "Recorded probabilities are true"
    if found.z is None:
        return Promise(name, "unknown", "There are too few decisions to test it.")
    text = (
        f"The largest of {found.tests} differences between choices and probabilities is {found.z:+.1f} standard "
        f"deviations (p = {found.p_value:.2g}), in {found.decisions} decisions."
    )
    return Promise(name, found.state, text)


def _rewards(statistics: Statistics) -> Promise:
    name = "Rewards count"
    ignored = {why: n for why in _IGNORED if (n := statistics.fates[why])}
    lost, total = sum(ignored.values()), sum(statistics.fates.values())
    if total < _FEW:
        return Promise(name, "unknown", "There are too few rewards to say.")
    reasons = ", ".join(f"{n} {why}" for why, n in ignored.items())
    text = f"{lost} of {total} do not count{f': {reasons}' if reasons else ''}."
    return Promise(name, "watch" if lost > _MANY * total else "ok", text)


def _backlog(statistics: Statistics, queued: int) -> Promise:
    state: State = "watch" if queued > _LONG_QUEUE else "ok"
    text = f"{queued} requests wait to be written, {statistics.waiting} arms wait for a reward."
    return Promise("No backlog", state, text)
