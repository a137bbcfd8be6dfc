"""Normal draws of a key: what NumPy's generator gives for it, bit for bit, in half the time.

Putting a generator at the start of a key's draws takes 0.7 µs, and `standard_normal(50)` another
1.5 µs, most of it in calls. The bits are those of Philox 4x64-10 (Salmon et al. 2011), the normals those
of the ziggurat (Marsaglia & Tsang 2000) with NumPy's tables, which Numba has for the same purpose.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic
from numba.np.random import _constants as tables
from numpy.typing import NDArray

from rolin._support.compile import Floats, compiled

__all__ = ["fill_normals"]

Words = NDArray[np.uint64]

# Multipliers and key increments of Philox 4x64.
_M0, _M1 = np.uint64(0xD2E7470EE14C6C93), np.uint64(0xCA5A826395121157)
_W0, _W1 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBB67AE8584CAA73B)
# The ziggurat's layers: how much of each is inside the curve, their widths and heights.
_INNER, _WIDTH, _HEIGHT = tables.ki_double, tables.wi_double, tables.fi_double
# Where the lowest layer begins, and its inverse.
_TAIL, _INVERSE_TAIL = 3.6541528853610088, 0.27366123732975828
_STEP = 1.0 / 9007199254740992.0  # 2⁻⁵³


def _upper_half(typingctx: Any, a: Any, b: Any) -> Any:
    """Return the upper 64 bits of the product of two words: one instruction."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        wide = ir.IntType(128)
        a, b = (builder.zext(argument, wide) for argument in arguments)
        return builder.trunc(builder.lshr(builder.mul(a, b), wide(64)), ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), codegen


_high: Any = intrinsic(_upper_half)


@compiled(reorder=False)
def _block(key: Words, counter: Words, number: int, out: Words) -> None:
    """Write block `number` of the stream: four words."""
    # NumPy counts before it computes.
    a, b, c, d = np.uint64(number + 1), counter[0], counter[1], counter[2]
    k0, k1 = key[0], key[1]
    for _ in range(10):
        a, b, c, d = _high(_M1, c) ^ b ^ k0, _M1 * c, _high(_M0, a) ^ d ^ k1, _M0 * a
        k0 += _W0
        k1 += _W1
    out[0], out[1], out[2], out[3] = a, b, c, d


@compiled(reorder=False)
def _uniform(key: Words, counter: Words, place: int) -> float:
    """Return the uniform draw that a word of the stream is."""
    words = np.empty(4, np.uint64)
    _block(key, counter, place // 4, words)
    return np.float64(words[place % 4] >> np.uint64(11)) * _STEP


@compiled(reorder=False)
def _outside(
    key: Words, counter: Words, place: int, layer: Any, inside: Any, x: float
) -> tuple[bool, float, int]:
    """Decide on a draw outside a layer's inner part: whether it counts, its value, the next word."""
    if layer > 0:
        step = _HEIGHT[layer - 1] - _HEIGHT[layer]
        height = step * _uniform(key, counter, place) + _HEIGHT[layer]
        return height < math.exp(-0.5 * x * x), x, place + 1
    while True:  # the tail
        far = -_INVERSE_TAIL * math.log1p(-_uniform(key, counter, place))
        above = -math.log1p(-_uniform(key, counter, place + 1))
        place += 2
        if above + above > far * far:
            left = (inside >> np.uint64(8)) & np.uint64(1)
            return True, -(_TAIL + far) if left else _TAIL + far, place


@compiled(reorder=False)
def fill_normals(key: Words, first: int, second: int, third: int, out: Floats) -> None:
    """Fill an array with the normal draws that begin at the counter (0, first, second, third)."""
    counter, words = np.empty(3, np.uint64), np.empty(4, np.uint64)
    counter[0], counter[1], counter[2] = np.uint64(first), np.uint64(second), np.uint64(third)
    place = 0  # of the next word in the stream
    for i in range(len(out)):
        while True:
            if place % 4 == 0:
                _block(key, counter, place // 4, words)
            word = words[place % 4]
            place += 1
            layer = np.int64(word & np.uint64(0xFF))
            inside = (word >> np.uint64(9)) & np.uint64(0x000FFFFFFFFFFFFF)
            x = np.float64(inside) * _WIDTH[layer]
            if (word >> np.uint64(8)) & np.uint64(1):
                x = -x
            if inside < _INNER[layer]:
                break  # 99.3 % of the draws
            counts, x, place = _outside(key, counter, place, layer, inside, x)
            if place % 4:
                _block(key, counter, place // 4, words)
            if counts:
                break
        out[i] = x
