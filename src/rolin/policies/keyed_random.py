"""Random numbers that depend on a key rather than on a stream.

The random numbers of a decision come from a counter-based generator (Philox 4x64, Salmon et al. 2011) keyed by the
policy's seed and by the decision. They do not depend on anything that happened before: the same key, state and
candidates give the same decision, a rejected call consumes nothing, and decisions can be repeated in any order.
"""

from __future__ import annotations

import hashlib
import secrets
import struct
import threading
from typing import Any

import numpy as np
from numpy import empty  # found faster than np.empty, on the hot path
from numpy.typing import NDArray

from rolin.errors import ParameterError
from rolin.policies import kernels

__all__ = ["Key", "KeyedGenerator", "as_key", "fresh_seed"]

Key = int | str
"""The key of a decision: its number, or any text such as an event id."""


_SIGNED = 2**63
_TWO_WORDS = struct.Struct("<QQ")


def fresh_seed() -> int:
    """Return a seed from the operating system, for policies that were given none."""
    return secrets.randbits(63)


def as_key(key: object) -> Key:
    """Return a key as a plain `int` or `str`, or raise if it is not a key."""
    if isinstance(key, str):
        return str.__str__(key)
    whole = isinstance(key, (int, np.integer)) and not isinstance(key, (bool, np.timedelta64))
    if not whole or not 0 <= int(key) < 2**64:  # type: ignore[call-overload]  # whole says it is one
        raise ParameterError(
            f"key={key!r}, expected a text or an integer from 0 to 2**64 - 1; pass str(…) of anything else"
        )
    return int(key)  # type: ignore[call-overload, no-any-return]  # the same


class KeyedGenerator:
    """A NumPy generator that can be set to the start of any key's random numbers in about 1 µs.

    Parameters
    ----------
    seed
        A non-negative integer of any size.

    Examples
    --------
    >>> draws = KeyedGenerator(7)
    >>> first = draws.at(0).standard_normal()
    >>> _ = draws.at("order-4711").standard_normal(100)
    >>> draws.at(0).standard_normal() == first
    True
    """

    def __init__(self, seed: int) -> None:
        whole = isinstance(seed, (int, np.integer)) and not isinstance(seed, (bool, np.timedelta64))
        if not whole or seed < 0:
            raise ParameterError(f"seed={seed!r}, expected a non-negative integer or None")
        self.seed = int(seed)
        words = np.random.SeedSequence(self.seed).generate_state(2, np.uint64)
        self._words = words.tolist()  # for NumPy's generator
        self._key = words  # for the kernel
        self._own = threading.local()  # otherwise two threads would draw from each other's keys

    def __reduce__(self) -> tuple[type[KeyedGenerator], tuple[int]]:
        """Copy and pickle by the seed, which is the whole state."""
        return KeyedGenerator, (self.seed,)

    def _new(self) -> tuple[np.random.Philox, dict[str, Any], np.random.Generator]:
        """Create the generator of a thread, and the state that it is set to."""
        bits = np.random.Philox(0)
        # Lists rather than arrays, because setting the state from lists is three times as fast.
        state = {
            "bit_generator": "Philox",
            "state": {"key": self._words, "counter": (0, 0, 0, 0)},
            "buffer": [0, 0, 0, 0],
            "buffer_pos": 4,  # the buffer is used up, so the next draw computes a new one
            "has_uint32": 0,
            "uinteger": 0,
        }
        self._own.parts = bits, state, np.random.Generator(bits)
        return self._own.parts  # type: ignore[no-any-return]  # thread locals are untyped

    def at(self, key: Key, stream: int = 0) -> np.random.Generator:
        """Return the generator at the start of one of the independent streams of this key."""
        generator: np.random.Generator
        try:
            bits, state, generator = self._own.parts
        except AttributeError:
            bits, state, generator = self._new()
        state["state"]["counter"] = (0, *_counter(key, stream))
        bits.state = state
        return generator

    def normals(self, key: Key, size: int) -> NDArray[np.float64]:
        """Return the numbers of `at(key).standard_normal(size)`, in half the time."""
        if kernels.fill_normals is None:
            return self.at(key).standard_normal(size)
        out = empty(size)
        if type(key) is int and key < _SIGNED:
            kernels.fill_normals(self._key, key, 0, 0, out)
        else:
            first, second, third = _counter(key, 0)
            kernels.fill_normals(self._key, _signed(first), _signed(second), third, out)
        return out


def _signed(word: int) -> int:
    """Return the signed integer with the same bits, which is what the kernels take."""
    return word - 2 * _SIGNED if word >= _SIGNED else word


def _counter(key: Key, stream: int) -> tuple[int, int, int]:
    """Return the three words of the counter that hold a key and a stream.

    The counter has four words. The first counts the draws and is not returned. A key that is a number below 2⁶⁴ is the
    second word; the digest of a key that is a text is the second and third. The fourth holds the kind of the key, and
    the stream.
    """
    if type(key) is str:
        digest = hashlib.blake2b(key.encode(errors="surrogatepass"), digest_size=16).digest()
        first, second = _TWO_WORDS.unpack(digest)
        return first, second, 2 * stream + 1
    return key, 0, 2 * stream  # type: ignore[return-value]  # not a text, so a number
