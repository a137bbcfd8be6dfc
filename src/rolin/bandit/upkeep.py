"""What must be done from time to time: learn scales, store a snapshot, write back the log of the journal.

In the background, a thread does it: scales are estimated on a copy of the evidence, and a snapshot is packed from a copy
of the state, so decisions and rewards do not wait for it. The thread ends when nothing more is due. Otherwise, the
call that made something due does it, so that the same calls always lead to the same state.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from time import monotonic
from typing import Any

from rolin._support.process import forget_locks_after_fork
from rolin.bandit.modes import learns
from rolin.bandit.state import BanditState
from rolin.errors import JournalError
from rolin.journal.base import OutOfDate, reached
from rolin.journal.events import ScalesLearned
from rolin.journal.folding import adaptive_of, pack_states
from rolin.model import state_file
from rolin.model.scale_schedule import LearnsScales
from rolin.policies import Policy

__all__ = ["Upkeep"]

_RETRY = 100  # events after which something that has failed unexpectedly is tried again
_LOOK_EVERY = 1.0  # seconds after which to look whether another process has done something
_log = logging.getLogger("rolin")


class Upkeep:
    """Does what is due, at once or in the background.

    Parameters
    ----------
    state
        The state; it knows its journal.
    writing
        Held while something is written.
    until_up_to_date
        Calls a function that appends to the journal; after events of other processes, reads them and calls it again.
    clock
        Returns the time.
    snapshot_every
        Number of events after which a snapshot is stored in a durable journal; `None` for never.
    in_background
        Whether a thread does it.
    """

    def __init__(
        self,
        state: BanditState[Any],
        writing: Callable[[], AbstractContextManager[object]],
        until_up_to_date: Callable[[Callable[[], Any]], Any],
        clock: Callable[[], float],
        snapshot_every: int | None,
        *,
        in_background: bool,
    ) -> None:
        self._state, self._writing, self._clock = state, writing, clock
        self._until_up_to_date = until_up_to_date
        self._snapshot_every = snapshot_every
        self._in_background = in_background
        self._retry_at = 0  # version before which nothing is tried
        self._look_at = 0.0  # time before which scales are left to another process
        self.new_locks()
        forget_locks_after_fork(self)
        if in_background:
            state.journal.defer_upkeep()

    def new_locks(self) -> None:
        """Make a new lock, and forget the thread, which a child process does not have."""
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None

    def after_write(self) -> None:
        """Do what is due, or have it done; never fail, because the request of the caller has been recorded."""
        try:
            if not self._is_due():
                return
            if not self._in_background:
                self._run_once()
                return
            with self._starting:
                if self._thread is None or not self._thread.is_alive():
                    # Not a daemon: the interpreter waits for it, so it never ends in the middle of a write.
                    self._thread = threading.Thread(target=self._run, name="rolin-upkeep")
                    self._thread.start()
        except Exception:
            self._note_failure()

    def wait(self) -> None:
        """Wait until the thread has ended."""
        thread = self._thread
        if thread is not None and thread.is_alive():
            thread.join()

    def snapshot(self) -> int:
        """Store the state in the journal, and return its version."""
        state = self._state
        with self._writing(), state.lock:
            policy, version = state.current()
            own = _copy_of(policy)
            shadow = None if state.shadow is None else _copy_of(state.shadow)
        state.journal.save_snapshot(version, pack_states(own, shadow))
        state.note_snapshot(version, self._clock())
        return version

    def _run(self) -> None:
        while True:
            done = self._run_once()
            with self._starting:
                if not done or not self._is_due():
                    self._thread = None
                    return

    def _run_once(self) -> bool:
        """Do what is due; return whether nothing failed.

        One that fails does not keep the others from being done.
        """
        tasks = (self._learn_scales_if_due, self._snapshot_if_due, self._write_back_if_due)
        succeeded = [self._succeeds(task) for task in tasks]
        return all(succeeded)

    def _succeeds(self, task: Callable[[], None]) -> bool:
        try:
            task()
        except (JournalError, OutOfDate):  # such as a full disk: try again after the next write
            return False
        except Exception:
            self._note_failure()
            return False
        return True

    def _note_failure(self) -> None:
        """Log an unexpected error, and wait for more events, so that not every write fails again."""
        self._retry_at = self._state.version + _RETRY
        _log.exception(
            "upkeep of a bandit failed, and is tried again after %d events; nothing is lost", _RETRY
        )

    def _is_due(self) -> bool:
        return self._state.version >= self._retry_at and (
            bool(self._models_with_scales_due())
            or self._is_snapshot_due()
            or self._state.journal.is_upkeep_due
        )

    def _learn_scales_if_due(self) -> None:
        if not self._models_with_scales_due():
            return
        with self._state.journal.elected("scales") as is_elected:
            if not is_elected:  # another process estimates them, and writes them to the journal
                self._look_at = monotonic() + _LOOK_EVERY
                return
            for model in self._models_with_scales_due():
                reached("scales due")
                self._learn_scales(model)

    def _snapshot_if_due(self) -> None:
        if self._is_snapshot_due():
            self.snapshot()

    def _write_back_if_due(self) -> None:
        if self._state.journal.is_upkeep_due:
            self._state.journal.do_upkeep()

    def _models_with_scales_due(self) -> list[LearnsScales]:
        """Return the models of the policy and the shadow whose scales are due."""
        state = self._state
        due = []
        for policy in (state.policy, state.shadow):
            model = None if policy is None else adaptive_of(policy)
            if model is not None and model.is_due:
                due.append(model)
        return due if due and learns(state.settings) and monotonic() >= self._look_at else []

    def _is_snapshot_due(self) -> bool:
        state, every = self._state, self._snapshot_every
        return (
            every is not None
            and state.journal.durable
            and state.version - state.snapshot_version >= every
        )

    def _learn_scales(self, model: LearnsScales) -> None:
        """Estimate scales without any lock, and record them unless they no longer fit."""
        state = self._state
        with state.lock:
            task, d = model.estimation_task(roughly=True), model.n_features
        scales = task.run()

        def attempt() -> tuple[ScalesLearned, int] | None:
            # Meanwhile the state may have been loaded again, or got more features, or scales of another process.
            due = any(model is each for each in self._models_with_scales_due())
            if not due or model.n_features != d:
                return None
            event = ScalesLearned(self._clock(), scales, model is not adaptive_of(state.policy))
            return event, state.journal.append([event], after=state.version)

        with self._writing():
            written = self._until_up_to_date(attempt)
            if written is not None:
                event, last = written
                state.fold([event], last)


def _copy_of(policy: Policy[Any]) -> state_file.State:
    """Return the state of a policy; views become copies, because folding goes on while they are packed."""
    found = policy.state()
    arrays = {name: array.copy() for name, array in found.arrays.items()}
    return found._replace(arrays=arrays, names=[*found.names], removed=[*found.removed])
