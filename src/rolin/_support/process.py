"""What must happen around a fork: locks are made anew in the child, and files are closed there."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator
from typing import Protocol

__all__ = ["HasFile", "HasLocks", "close_in_child", "forget_locks_after_fork", "process_id"]


class HasLocks(Protocol):
    """An object with locks."""

    def new_locks(self) -> None:
        """Replace all locks."""


class HasFile(Protocol):
    """An object with an open file that a child process must not inherit."""

    def before_fork(self) -> None:
        """Wait until no thread uses the file, and keep all from using it."""

    def after_fork(self, *, in_child: bool) -> None:
        """Let threads use the file again, or close it in the child."""


_known: weakref.WeakSet[HasLocks] = weakref.WeakSet()
_files: weakref.WeakSet[HasFile] = weakref.WeakSet()
_held: list[HasFile] = []
_process_id = os.getpid()


def process_id() -> int:
    """Return the number of this process. Asking the system takes up to 3 µs, which is much for every decision."""
    return _process_id


def forget_locks_after_fork(owner: HasLocks) -> None:
    """Replace the locks of an object in every child process.

    A thread that holds a lock does not exist in the child, so that nobody would ever release it.
    """
    _known.add(owner)


def close_in_child(owner: HasFile) -> None:
    """Close the file of an object in every child process, after no thread has used it during the fork."""
    _files.add(owner)


def _before() -> None:
    for owner in sorted(_files, key=id):
        _held.append(owner)
        owner.before_fork()


def _in_parent() -> None:
    for owner in _released():
        owner.after_fork(in_child=False)


def _in_child() -> None:
    global _process_id  # a process has only one number
    _process_id = os.getpid()
    for owner in list(_known):
        owner.new_locks()
    for owner_of_file in _released():
        owner_of_file.after_fork(in_child=True)


def _released() -> Iterator[HasFile]:
    while _held:
        yield _held.pop()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
