"""Compilation of kernels, and the constants and array types that they share."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from types import FrameType
from typing import Any, TypeVar

import numba
import numpy as np
import numpy.ma  # Numba imports it at the first call; a child forked meanwhile would wait for the import
from numba.core.caching import FunctionCache
from numpy.typing import NDArray

__all__ = ["NOT_FINITE", "TIE", "TIED", "Floats", "Rows", "compiled"]

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

# Returned by a kernel instead of the index of the best arm.
TIED, NOT_FINITE = -1, -2
# Scores this close to the highest, relative to it, count as equal. This is about 1000 rounding errors: far more than
# a sum over d features loses, and far less than any difference that matters.
TIE = 1e-13

# `contract` allows fused multiply-add; the others allow sums in another order, in vector registers. Never add
# `nnan` or `ninf`: with them, the compiler may delete the checks that reject NaN and infinity.
_CONTRACT = {"contract"}
_REORDER = {"contract", "reassoc", "nsz", "arcp"}

_F = TypeVar("_F", bound=Callable[..., Any])


def _can_cache() -> bool:
    """Return whether compiled code can be cached: beside this file, or in the user's cache folder."""
    try:
        numba.njit(cache=True)(_can_cache)
    except RuntimeError:
        return False
    return True


_CAN_CACHE = _can_cache()


# Where Numba's kernels have their cache. There is no option for another one. If a later version has no such attribute,
# its own cache is used, as if this module did nothing.
_ATTRIBUTE = "_cache"
_Untyped: Any = FunctionCache  # its methods have no types


class _Cache(_Untyped):  # type: ignore[misc]  # the same
    """A cache on disk that compiles a kernel again if its files are damaged, such as by a full disk."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the compiled kernel, or `None` if it is not in the cache or cannot be read."""
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # unpickling damaged bytes may raise anything
            with suppress(Exception):
                self.flush()  # forget the files; they are written again
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Write the compiled kernel to the cache, if possible."""
        with suppress(Exception):  # it is compiled, and only the next process has to do so again
            super().save_overload(sig, data)


# What Numba calls for arguments of new types. It has no other way to do something around a compilation.
_COMPILE = "_compile_for_args"


@contextmanager
def _signals_wait() -> Iterator[None]:
    """Let signals wait: after an exception in the middle of compiling, Numba may fail for as long as the process lives.

    Ctrl-C takes effect when one kernel is compiled. Exceptions of signals are raised in the main thread only.
    """
    waiting: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        waiting.append(number)

    handlers: dict[signal.Signals, Any] = {}
    try:
        if threading.current_thread() is threading.main_thread():
            for number in signal.valid_signals():
                handler = signal.getsignal(number)
                if callable(handler):  # a function, rather than what the system does
                    handlers[number] = handler
                    signal.signal(number, note)
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for came in dict.fromkeys(waiting):
            signal.raise_signal(came)


def _uninterrupted(compile_: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that compiles while signals wait."""

    @wraps(compile_)
    def compiles(*args: Any, **options: Any) -> Any:
        with _signals_wait():
            return compile_(*args, **options)

    return compiles


def compiled(*, reorder: bool, inline: bool = False, keep_lock: bool = False) -> Callable[[_F], _F]:
    """Return a decorator that compiles on first use, and caches the result on disk if possible.

    A compiled function that calls another passes on its options, unless the other states its own. So every kernel
    states its options.

    Parameters
    ----------
    reorder
        Whether sums may be computed in another order than written.
    inline
        Whether to copy the code into its callers. For parts of hot loops: a call with ten arrays takes longer than
        such a part itself.
    keep_lock
        Whether to keep Python's global lock. For a kernel of a few microseconds: to release the lock hands it to another
        thread, and to get it back takes longer than the kernel.
    """
    compile_: Any = numba.njit(
        cache=_CAN_CACHE,
        fastmath=_REORDER if reorder else _CONTRACT,
        nogil=not keep_lock,
        error_model="numpy",
        inline="always" if inline else "never",
    )

    def decorate(function: _F) -> _F:
        kernel: Any = compile_(function)
        if _CAN_CACHE and type(getattr(kernel, _ATTRIBUTE, None)) is FunctionCache:
            setattr(kernel, _ATTRIBUTE, _Cache(function))
        if hasattr(kernel, _COMPILE):
            setattr(kernel, _COMPILE, _uninterrupted(getattr(kernel, _COMPILE)))
        return kernel  # type: ignore[no-any-return]  # it keeps the signature

    return decorate
