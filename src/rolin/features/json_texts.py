"""Compiled loops that write rows as JSON, each float as the shortest decimal that is read back as the same float.

The texts are those of `json.dumps`. It takes 0.4 µs for a float, which is most of its time; the loop takes a tenth of it.
The decimals are found by the algorithm of Giulietti, *The Schubfach way to render doubles* (2020).
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rolin._support.compile import compiled

__all__ = ["AS_BOOLEAN", "AS_FLOAT", "AS_INTEGER", "LONGEST_NUMBER", "powers_of_ten", "write_rows"]

Floats = NDArray[np.float64]
Words = NDArray[np.uint64]
Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]
LONGEST_NUMBER = 24
"""Bytes of the longest text of a number."""
AS_FLOAT, AS_INTEGER, AS_BOOLEAN = 0, 1, 2
"""How a number is written."""
_LOWEST, _HIGHEST = -292, 324  # the powers of 10 that are needed
_DIGITS, _THIRD = 18, 6  # a decimal has at most 17 digits, which are found in three parts
_U = np.uint64
_LOW_HALF, _HALF, _MILLION = _U(0xFFFFFFFF), _U(32), _U(10**_THIRD)
_FRACTION, _HIDDEN, _SIGN = _U((1 << 52) - 1), _U(1 << 52), _U(1 << 63)
_0, _1, _2, _4, _10, _40 = (_U(n) for n in (0, 1, 2, 4, 10, 40))
_MINUS, _ZERO, _POINT, _E, _PLUS = (np.uint8(ord(c)) for c in "-0.e+")
_LINE_BREAK, _SPACE, _QUOTE, _TILDE = (np.uint8(ord(c)) for c in '\n "~')
_TRUE, _FALSE = (np.frombuffer(text, dtype=np.uint8) for text in (b"true", b"false"))
_EXACT = 2.0**53  # floats hold all integers below it
_15_DIGITS = 1e15
_N_FEW = 4  # decimals that most numbers of real data do not exceed
_FEW = 10.0**_N_FEW


@cache
def powers_of_ten() -> Words:
    """Return (n, 2): the highest 128 bits of powers of 10, rounded up, in two words each. It takes 1 ms."""
    found = np.empty((_HIGHEST - _LOWEST + 1, 2), dtype=np.uint64)
    for i, e in enumerate(range(_LOWEST, _HIGHEST + 1)):
        shift = 127 - ((e * 1741647) >> 19)  # as in `_log2_of_power`
        above, below = 10 ** max(e, 0) << max(shift, 0), 10 ** max(-e, 0) << max(-shift, 0)
        bits = -(-above // below)
        found[i] = bits >> 64, bits & ((1 << 64) - 1)
    return found


@compiled(reorder=False)
def write_rows(
    n_rows: int,
    heads: Bytes,  # what stands before the value of each field, one after the other
    head_sizes: Ints,  # (m,)
    numbers: Floats,  # (·, n): columns of numbers
    words: Words,  # the same, as words
    sources: Ints,  # (m,): which of them a field is, -1 for a field of texts
    styles: Ints,  # (m,): how a number is written
    texts: Bytes,  # the texts of all other fields, whole columns, with line breaks between them
    quoted: bool,  # whether these texts are to be put in quotation marks; otherwise they are JSON
    powers: Words,
    out: Bytes,  # written
) -> int:
    """Write all rows; return where they end, or -1 if a value cannot be written here."""
    m, at = len(sources), 0
    digits = np.empty(_DIGITS, dtype=np.uint8)
    begin, start = np.zeros(m, dtype=np.int64), 0  # where the next text of each field begins
    for i in range(m):
        if sources[i] < 0:
            begin[i] = start
            for _ in range(n_rows):
                start += 1 + _size(texts, start)
    for k in range(n_rows):
        head = 0
        for i in range(m):
            at = _copy(heads, head, head_sizes[i], out, at)
            head += head_sizes[i]
            if sources[i] < 0:
                size = _size(texts, begin[i])
                at = _write_text(texts, begin[i], size, quoted, out, at)
                begin[i] += 1 + size
            elif styles[i] == AS_FLOAT:
                at = _write_float(
                    numbers[sources[i], k], words[sources[i], k], powers, digits, out, at
                )
            else:
                at = _write_whole(numbers[sources[i], k], styles[i], out, at)
            if at < 0:
                return -1
    return at


@compiled(reorder=False, inline=True)
def _write_text(texts: Bytes, start: int, size: int, quoted: bool, out: Bytes, at: int) -> int:
    """Write a text, in quotation marks if asked for; return where it ends, or -1 if it has a control character."""
    if not quoted:
        return _copy(texts, start, size, out, at)
    for j in range(start, start + size):
        if texts[j] < _SPACE or texts[j] > _TILDE:
            return -1
    out[at] = _QUOTE
    at = _copy(texts, start, size, out, at + 1)
    out[at] = _QUOTE
    return at + 1


@compiled(reorder=False, inline=True)
def _write_whole(value: float, style: int, out: Bytes, at: int) -> int:
    """Write an integer or a boolean; return where it ends, or -1 if a float does not hold every integer of this size."""
    if style == AS_BOOLEAN:
        return _copy(_TRUE, 0, 4, out, at) if value else _copy(_FALSE, 0, 5, out, at)
    if not abs(value) < _EXACT:
        return -1
    rest = np.int64(abs(value))
    if value < 0.0:
        out[at] = _MINUS
        at += 1
    size, power = 1, np.int64(10)
    while rest >= power:
        size += 1
        power *= 10
    for j in range(at + size - 1, at - 1, -1):
        left = rest // 10
        out[j] = _ZERO + np.uint8(rest - 10 * left)
        rest = left
    return at + size


@compiled(reorder=False, inline=True)
def _size(texts: Bytes, start: int) -> int:
    """Return the size of the text that begins there."""
    end = start
    while end < len(texts) and texts[end] != _LINE_BREAK:
        end += 1
    return end - start


@compiled(reorder=False, inline=True)
def _copy(source: Bytes, start: int, size: int, out: Bytes, at: int) -> int:
    """Copy bytes; return where the copy ends."""
    left, right = out[at : at + size], source[start : start + size]
    for j in range(size):
        left[j] = right[j]
    return at + size


@compiled(reorder=False, inline=True)
def _write_float(
    value: float, word: np.uint64, powers: Words, digits: Bytes, out: Bytes, at: int
) -> int:
    """Write a float as `repr` does; return where its text ends, or -1 if it is not finite."""
    exponent: Any = np.int64((word >> _U(52)) & _U(0x7FF))
    if exponent == 0x7FF:
        return -1
    if word & _SIGN:
        out[at] = _MINUS
        at += 1
    fraction = word & _FRACTION
    if not (fraction or exponent):
        out[at], out[at + 1], out[at + 2] = _ZERO, _POINT, _ZERO
        return at + 3
    scaled = abs(np.rint(value * _FEW))
    # A decimal of at most 15 digits that is read back as this float is the only one, and so the shortest.
    if scaled < _15_DIGITS and scaled / _FEW == abs(value):
        c, k = np.uint64(scaled), -_N_FEW
    else:
        c, k = _shortest(fraction, exponent, powers)
    high = c // _MILLION
    left = high // _MILLION
    middle, right = high - left * _MILLION, c - high * _MILLION
    for i in range(_THIRD - 1, -1, -1):  # three numbers at once: none waits for another
        a, b, d = left // _10, middle // _10, right // _10
        digits[i] = _ZERO + np.uint8(left - a * _10)
        digits[_THIRD + i] = _ZERO + np.uint8(middle - b * _10)
        digits[2 * _THIRD + i] = _ZERO + np.uint8(right - d * _10)
        left, middle, right = a, b, d
    first, last = 0, _DIGITS
    while digits[first] == _ZERO:
        first += 1
    while digits[last - 1] == _ZERO:
        last -= 1
    point = _DIGITS - first + k  # how many digits are before the point
    if not -4 < point <= 16:
        return _write_with_exponent(digits[first:last], point - 1, out, at)
    if point <= 0:
        out[at], out[at + 1] = _ZERO, _POINT
        at += 2
        for _ in range(-point):
            out[at] = _ZERO
            at += 1
        return _copy(digits, first, last - first, out, at)
    at = _copy(digits, first, min(point, last - first), out, at)
    for _ in range(last, first + point):
        out[at] = _ZERO
        at += 1
    out[at] = _POINT
    if first + point >= last:
        out[at + 1] = _ZERO
        return at + 2
    return _copy(digits, first + point, last - first - point, out, at + 1)


@compiled(reorder=False)
def _write_with_exponent(digits: Bytes, power: int, out: Bytes, at: int) -> int:
    """Write digits times a power of 10, such as 1.5e-07; return where the text ends."""
    out[at] = digits[0]
    at += 1
    if len(digits) > 1:
        out[at] = _POINT
        at += 1
        for i in range(1, len(digits)):
            out[at] = digits[i]
            at += 1
    out[at], out[at + 1] = _E, (_MINUS if power < 0 else _PLUS)
    at += 2
    size = abs(power)
    if size >= 100:
        out[at] = _ZERO + np.uint8(size // 100)
        at += 1
    out[at], out[at + 1] = _ZERO + np.uint8(size // 10 % 10), _ZERO + np.uint8(size % 10)
    return at + 2


@compiled(reorder=False, inline=True)
def _shortest(fraction: np.uint64, exponent: int, powers: Words) -> tuple[np.uint64, int]:
    """Return c and k such that c 10^k is the shortest decimal of a float, and the closest of these."""
    if exponent:
        c, q = fraction | _HIDDEN, exponent - 1075
    else:
        c, q = fraction, -1074
    if -53 < q <= 0 and (c >> _U(-q)) << _U(-q) == c:
        return c >> _U(-q), 0  # a whole number
    # The floats nearest to it are twice as close below a power of 2.
    closer = fraction == _0 and exponent > 1
    odd = c & _1
    k = (q * 1262611 - (524031 if closer else 0)) >> 22
    shift = _U(q + _log2_of_power(-k) + 1)
    high, low = powers[-k - _LOWEST, 0], powers[-k - _LOWEST, 1]
    # Everything that is read back as this float lies between these two, in quarters of 10^k.
    least = _rounded_to_odd(high, low, (_4 * c - (_1 if closer else _2)) << shift) + odd
    most = _rounded_to_odd(high, low, (_4 * c + _2) << shift) - odd
    value = _rounded_to_odd(high, low, (_4 * c) << shift)
    s = value // _4
    if s >= _10:  # with one digit less
        tens = s // _10
        below, above = least <= _40 * tens, _40 * tens + _40 <= most
        if below != above:
            return (tens + _1 if above else tens), k + 1
    below, above = least <= _4 * s, _4 * s + _4 <= most
    if below != above:
        return (s + _1 if above else s), k
    middle = _4 * s + _2
    up = value > middle or (value == middle and (s & _1) == _1)
    return (s + _1 if up else s), k


@compiled(reorder=False, inline=True)
def _log2_of_power(e: int) -> int:
    """Return the logarithm of 10^e to the base 2, rounded down; for |e| up to 1233."""
    return (e * 1741647) >> 19


@compiled(reorder=False, inline=True)
def _rounded_to_odd(high: np.uint64, low: np.uint64, factor: np.uint64) -> np.uint64:
    """Return the upper word of a product with two words; its last bit is 1 if the rest is not negligible."""
    carried = _high_word(low, factor)
    total = high * factor + carried
    upper = _high_word(high, factor)
    if total < carried:
        upper += _1
    return upper | _1 if total > _1 else upper


@compiled(reorder=False, inline=True)
def _high_word(a: np.uint64, b: np.uint64) -> np.uint64:
    """Return the upper word of the product of two words."""
    a0, a1, b0, b1 = a & _LOW_HALF, a >> _HALF, b & _LOW_HALF, b >> _HALF
    middle = a1 * b0 + ((a0 * b0) >> _HALF)
    other = a0 * b1 + (middle & _LOW_HALF)
    return a1 * b1 + (middle >> _HALF) + (other >> _HALF)
