"""What is counted of one bandit: its decisions, its rewards, and how it writes them."""

from __future__ import annotations

import math
import threading
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rolin.bandit import Bandit, Finished, Written
from rolin.bandit.requests import RecordRewards
from rolin.errors import NotLearned, RolinError
from rolin.journal.events import IgnoredReward, LoggedDecision, Outcome
from rolin.service.exposition import Histogram, Metric, Sample

__all__ = ["BANDIT_METRICS", "BanditMetrics"]

_BANDIT = ("bandit",)
DECISIONS = Metric(
    "rolin_decisions_total", "counter", ("bandit", "arm", "by"),
    "Decisions by arm and by who decided: policy, control, baseline, or fallback (not recorded). A repeated id is not "
    'counted again. arm="other" stands for arms beyond the setting metrics_arms and for names of more than 100 characters.',
)  # fmt: skip
REWARDS = Metric(
    "rolin_rewards_total", "counter", ("bandit", "status"),
    "Rewards by what became of them when they came: learned, recorded, repeated, early, late or conflicting. An early one "
    "whose decision never came is counted again as unknown, and one that did not fit its decision as invalid.",
)  # fmt: skip
OUTCOMES = Metric(
    "rolin_outcomes_total", "counter", ("bandit", "by", "kind"),
    "Arms that were closed, by who had decided: with a reward or the sum of several, with the default reward because none "
    "came in time, or with none.",
)  # fmt: skip
VALUES = Metric(
    "rolin_reward_value_total", "counter", ("bandit", "by", "sign"),
    "Sum of the rewards and default rewards of closed arms; negative ones are summed apart, without their sign.",
)  # fmt: skip
DELAY = Metric(
    "rolin_reward_delay_seconds", "histogram", _BANDIT,
    "Time from a decision to its reward, of rewards that were learned, recorded or late.",
)  # fmt: skip
COMMIT = Metric(
    "rolin_commit_seconds", "histogram", _BANDIT,
    "Time until a batch of events was on the disk, with waiting for locks.",
)  # fmt: skip
BATCH = Metric(
    "rolin_commit_requests", "histogram", _BANDIT, "Requests that were written together.",
)  # fmt: skip
WAIT = Metric(
    "rolin_queue_seconds", "histogram", _BANDIT,
    "Time that the oldest request of each batch had waited before the batch was begun.",
)  # fmt: skip
WRITE_ERRORS = Metric(
    "rolin_write_errors_total", "counter", _BANDIT,
    "Requests that failed because the journal could not be written.",
)  # fmt: skip
TOP_CHOSEN = Metric(
    "rolin_top_arm_chosen_total", "counter", _BANDIT,
    "Decisions of the policy and the control group in which the most likely arm was chosen.",
)  # fmt: skip
TOP_PROBABILITY = Metric(
    "rolin_top_arm_probability_total", "counter", _BANDIT,
    "Sum of the recorded probabilities of the most likely arms, of the same decisions.",
)  # fmt: skip
TOP_VARIANCE = Metric(
    "rolin_top_arm_variance_total", "counter", _BANDIT,
    "Sum of p (1 - p) of the same probabilities p.",
)  # fmt: skip
CALIBRATION = Metric(
    "rolin_calibration_z", "gauge", _BANDIT,
    "How many standard deviations more often the most likely arm was chosen than its probabilities say, since the start: "
    "(chosen - probability) / sqrt(variance). Absent until the variance is 25.",
)  # fmt: skip
EFFECTIVE = Metric(
    "rolin_effective_sample_size", "gauge", _BANDIT,
    "How many decisions at uniform probabilities the last decisions are worth for estimating the value of uniform choice: "
    "n / mean of sum over arms of 1 / (K K p).",
)  # fmt: skip
WINDOW = Metric(
    "rolin_effective_sample_window", "gauge", _BANDIT,
    "Number n of these decisions: the last 1000 of the policy and the control group that have probabilities.",
)  # fmt: skip
READY = Metric(
    "rolin_bandit_ready", "gauge", _BANDIT,
    "1 if the bandit is open and its last write succeeded, otherwise 0.",
)  # fmt: skip
EVENTS = Metric(
    "rolin_events", "gauge", _BANDIT, "Number of the last event that the bandit knows.",
)  # fmt: skip
BEHIND = Metric(
    "rolin_unfolded_events", "gauge", _BANDIT,
    "Events in the journal that the bandit has not learned yet, such as those of another process.",
)  # fmt: skip
QUEUE = Metric("rolin_queue_requests", "gauge", _BANDIT, "Requests that wait to be written.")
OLDEST = Metric(
    "rolin_queue_oldest_seconds", "gauge", _BANDIT, "How long the first of them has waited."
)
REWARD_TIME = Metric(
    "rolin_last_reward_timestamp_seconds", "gauge", _BANDIT,
    "When the last reward that was learned came, in seconds since 1970. Absent until there is one since the start.",
)  # fmt: skip
SCALES_TIME = Metric(
    "rolin_last_scales_timestamp_seconds", "gauge", _BANDIT,
    "When the scales were last estimated. Absent until they are since the start.",
)  # fmt: skip
SNAPSHOT_TIME = Metric(
    "rolin_last_snapshot_timestamp_seconds", "gauge", _BANDIT,
    "When the last snapshot was stored. Absent until one is since the start.",
)  # fmt: skip
SINCE_SNAPSHOT = Metric(
    "rolin_events_since_snapshot", "gauge", _BANDIT,
    "Events after the last snapshot, which are read again when the bandit is opened.",
)  # fmt: skip
JOURNAL_BYTES = Metric(
    "rolin_journal_bytes", "gauge", _BANDIT,
    "Size of the file journal.db, or in a database of the tables of the journal with their indexes.",
)  # fmt: skip
LOG_BYTES = Metric(
    "rolin_journal_log_bytes", "gauge", _BANDIT,
    "Size of its write-ahead log, journal.db-wal. Absent in a database, where all journals share the log of the server.",
)  # fmt: skip
FLUSHED = Metric(
    "rolin_commits_flushed", "gauge", _BANDIT,
    "1 if commits are on the disk before they are answered, by the settings of SQLite or of the database, otherwise 0.",
)  # fmt: skip
BANDIT_METRICS = (
    DECISIONS, REWARDS, OUTCOMES, VALUES, DELAY, COMMIT, BATCH, WAIT, WRITE_ERRORS, TOP_CHOSEN, TOP_PROBABILITY,
    TOP_VARIANCE, CALIBRATION, EFFECTIVE, WINDOW, READY, EVENTS, BEHIND, QUEUE, OLDEST, REWARD_TIME, SCALES_TIME,
    SNAPSHOT_TIME, SINCE_SNAPSHOT, JOURNAL_BYTES, LOG_BYTES, FLUSHED,
)  # fmt: skip
"""The metrics of every bandit."""

OTHER = "other"
"""Stands for all arms without a label of their own."""
_LONGEST = 100  # characters of an arm that gets a label
_WINDOW = 1000  # decisions for the effective sample size
_LARGEST = 1e300  # of a mean square, so that a thousand of them have a finite sum
_LEAST_VARIANCE = 25.0  # from which on z is about normal
_DELAYS = (1.0, 10.0, 60.0, 300.0, 900.0, 3600.0, 4 * 3600.0, 86400.0, 7 * 86400.0)
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
_DELAYED = ("learned", "recorded", "late")


class BanditMetrics:
    """Counts what a bandit writes: its observer.

    The thread that writes counts, and any thread may read.

    Parameters
    ----------
    max_arms
        Number of arms that get a label of their own: those that are chosen first.
    """

    def __init__(self, max_arms: int) -> None:
        self._max_arms = max_arms
        self._lock = threading.Lock()
        self._arms: set[str] = set()
        self._decisions: Counter[tuple[str, str]] = Counter()
        self._rewards: Counter[str] = Counter()
        self._outcomes: Counter[tuple[str, str]] = Counter()
        self._values: dict[tuple[str, str], float] = {}
        self._delays, self._commits = Histogram(_DELAYS), Histogram(_SECONDS)
        self._sizes, self._waits = Histogram(_SIZES), Histogram(_SECONDS)
        self._write_errors = 0
        self._top_chosen = 0
        self._top_probability = self._top_variance = 0.0
        self._inverse: deque[float] = deque(maxlen=_WINDOW)

    def written(self, batch: Written) -> None:
        """Count what was written.

        Parameters
        ----------
        batch
            What was written.
        """
        with self._lock:
            self._sizes.add(len(batch.finished))
            self._waits.add(batch.waited)
            if batch.commit is not None:
                self._commits.add(batch.commit)
            for event in batch.events:
                if isinstance(event, LoggedDecision):
                    if not event.imported:
                        self._decided(event)
                elif isinstance(event, Outcome):
                    self._closed(event, batch.decision(event.id))
                elif isinstance(event, IgnoredReward) and event.reason in ("unknown", "invalid"):
                    self._rewards[event.reason] += 1
            for finished in batch.finished:
                if isinstance(finished.request, RecordRewards):
                    self._rewarded(finished.request, finished, batch)

    def fallback(self, arm: str) -> None:
        """Count a decision that was not recorded."""
        with self._lock:
            self._decisions[self._label(arm), "fallback"] += 1

    def write_error(self) -> None:
        """Count a request that could not be written."""
        with self._lock:
            self._write_errors += 1

    def _label(self, arm: str) -> str:
        if arm in self._arms:
            return arm
        if len(self._arms) >= self._max_arms or len(arm) > _LONGEST:
            return OTHER
        self._arms.add(arm)
        return arm

    def _decided(self, decision: LoggedDecision) -> None:
        self._decisions[self._label(str(decision.arm)), _by(decision)] += 1
        p = decision.propensities
        if p is None or decision.is_baseline:
            return
        # An arm that is fixed before the draw: over all arms, both sides would sum to 1.
        top = int(p.argmax())
        likely = float(p[top])
        self._top_chosen += decision.chosen[0] == top
        self._top_probability += likely
        self._top_variance += likely * (1.0 - min(likely, 1.0))
        self._inverse.append(_mean_square_weight(p))

    def _closed(self, outcome: Outcome, decision: LoggedDecision | None) -> None:
        if decision is None or decision.imported:
            return
        by = _by(decision)
        value = outcome.value
        if value is None:
            self._outcomes[by, "none"] += 1
            return
        self._outcomes[by, "default" if outcome.expired else "reward"] += 1
        key = by, "negative" if value < 0.0 else "positive"
        self._values[key] = self._values.get(key, 0.0) + abs(value)

    def _rewarded(self, request: RecordRewards, finished: Finished, batch: Written) -> None:
        rejected = isinstance(finished.error, NotLearned)
        if finished.error is not None and not rejected:
            return
        for reward, status in zip(request.rewards, finished.answer, strict=True):
            self._rewards["recorded" if rejected and status == "learned" else status] += 1
            if status in _DELAYED:
                decision = batch.decision(reward.id)
                if decision is not None:
                    self._delays.add(max(request.time - decision.time, 0.0))

    # -- reading -------------------------------------------------------------------------------

    def samples(self, name: str, bandit: Bandit[Any], *, ready: bool) -> Iterator[Sample]:
        """Yield everything that is known of the bandit.

        Parameters
        ----------
        name
            Its name.
        bandit
            The bandit, for how it is at present.
        ready
            Whether its last write succeeded.
        """
        own = (name,)
        yield Sample(READY, own, int(ready))
        yield from self._counted(own)
        with suppress(RolinError):  # the file may be unreadable, or was just deleted
            now = bandit.stats()
            for metric, value in (
                (EVENTS, now.version),
                (BEHIND, now.behind),
                (QUEUE, now.queued),
                (OLDEST, now.oldest),
                (REWARD_TIME, now.reward_time),
                (SCALES_TIME, now.scales_time),
                (SNAPSHOT_TIME, now.snapshot_time),
                (SINCE_SNAPSHOT, now.since_snapshot),
                (JOURNAL_BYTES, now.storage.journal_bytes),
                (LOG_BYTES, now.storage.log_bytes),
                (FLUSHED, None if now.storage.flushed is None else int(now.storage.flushed)),
            ):
                if value is not None:
                    yield Sample(metric, own, value)

    def _counted(self, own: tuple[str]) -> list[Sample]:
        with self._lock:
            variance, excess = self._top_variance, self._top_chosen - self._top_probability
            found = [
                *(Sample(DECISIONS, (*own, *key), n) for key, n in self._decisions.items()),
                *(Sample(REWARDS, (*own, status), n) for status, n in self._rewards.items()),
                *(Sample(OUTCOMES, (*own, *key), n) for key, n in self._outcomes.items()),
                *(Sample(VALUES, (*own, *key), total) for key, total in self._values.items()),
                Sample(DELAY, own, self._delays.copy()),
                Sample(COMMIT, own, self._commits.copy()),
                Sample(BATCH, own, self._sizes.copy()),
                Sample(WAIT, own, self._waits.copy()),
                Sample(WRITE_ERRORS, own, self._write_errors),
                Sample(TOP_CHOSEN, own, self._top_chosen),
                Sample(TOP_PROBABILITY, own, self._top_probability),
                Sample(TOP_VARIANCE, own, variance),
                Sample(WINDOW, own, len(self._inverse)),
            ]
            if variance >= _LEAST_VARIANCE:
                found.append(Sample(CALIBRATION, own, excess / math.sqrt(variance)))
            if n := len(self._inverse):
                found.append(Sample(EFFECTIVE, own, n * n / math.fsum(self._inverse)))
        return found


def _by(decision: LoggedDecision) -> str:
    """Return who decided."""
    if decision.control:
        return "control"
    return "baseline" if decision.is_baseline else "policy"


def _mean_square_weight(p: NDArray[np.float64]) -> float:
    """Return the mean square of the importance weight of uniform choice: the sum over K arms of p (1 / (K p))²."""
    n = len(p)
    if np.count_nonzero(p) < n:  # faster than p.all()
        return math.inf
    with np.errstate(over="ignore"):  # 1 / p is infinite for the smallest numbers
        found = float(np.add.reduce(1.0 / p)) / (n * n)
    return found if found < _LARGEST else math.inf
