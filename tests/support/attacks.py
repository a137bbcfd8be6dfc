"""What attacks share: how many there are, signals at random instants, and a limit for what hangs."""

from __future__ import annotations

import faulthandler
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

import numpy as np

TIMES = int(os.environ.get("ROLIN_ATTACKS", "1"))
"""Factor on the number of attacks."""
HANGS = 900.0 * max(1, TIMES)
"""Seconds after which something hangs; far more than any test takes."""


class Interrupt(BaseException):
    """What the signal handler raises, like `KeyboardInterrupt`."""


@contextmanager
def signals() -> Iterator[None]:
    """Let SIGALRM raise `Interrupt`, and end this process with a traceback if it hangs."""

    def strike(_: int, __: FrameType | None) -> None:
        raise Interrupt

    before = signal.signal(signal.SIGALRM, strike)
    faulthandler.dump_traceback_later(HANGS, exit=True)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
        faulthandler.cancel_dump_traceback_later()


def until_interrupted(steps: Sequence[Callable[[], object]], seconds: float) -> tuple[int, bool]:
    """Make steps until a signal comes after some seconds, or all are made.

    Return how many steps have ended, and whether a signal came. Python may raise the exception after a step has ended
    and before it is counted, so that the step after these may have been made as well.
    """
    ended, was_interrupted = 0, False
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, seconds)
            while ended < len(steps):
                steps[ended]()
                ended += 1
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
    except Interrupt:
        was_interrupted = True
    return ended, was_interrupted


def delay(rng: np.random.Generator, most: float = 300e-6) -> float:
    """Return a random time to the next signal, in seconds, from 1 µs on."""
    return float(rng.uniform(1e-6, most))
