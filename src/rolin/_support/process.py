"""Objects whose locks must be made anew in a child process after a fork."""

from __future__ import annotations

import os
import weakref
from typing import Protocol

__all__ = ["HasLocks", "forget_locks_after_fork"]


class HasLocks(Protocol):
    """An object with locks."""

    def new_locks(self) -> None:
        """Replace all locks."""


_known: weakref.WeakSet[HasLocks] = weakref.WeakSet()


def forget_locks_after_fork(owner: HasLocks) -> None:
    """Replace the locks of an object in every child process.

    A thread that holds a lock does not exist in the child, so that nobody would ever release it.
    """
    _known.add(owner)


def _in_child() -> None:
    for owner in list(_known):
        owner.new_locks()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_in_child)
