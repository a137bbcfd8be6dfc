"""Normal random numbers of a key: those of NumPy's generator, bit for bit, in half the time.

In NumPy, setting a generator to the start of a key takes 0.7 µs and `standard_normal(50)` another 1.5 µs, most of it
call overhead. The bits come from Philox 4x64-10 (Salmon et al. 2011) and the normals from the ziggurat method (Marsaglia &
Tsang 2000) with NumPy's tables, which Numba contains for the same purpose.
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
# The layers of the ziggurat: the part of each that is inside the curve, their widths and their heights.
_INNER, _WIDTH, _HEIGHT = tables.ki_double, tables.wi_double, tables.fi_double
# The start of the lowest layer, and its inverse.
_TAIL, _INVERSE_TAIL = 3.6541528853610088, 0.27366123732975828
_STEP = 1.0 / 9007199254740992.0  # 2⁻⁵³


def _upper_half(typingctx: Any, a: Any, b: Any) -> Any:
    """Return the upper 64 bits of the product of two words, by one instruction."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        wide = ir.IntType(128)
        a, b = (builder.zext(argument, wide) for argument in arguments)
        return builder.trunc(builder.lshr(builder.mul(a, b), wide(64)), ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), codegen


_high: Any = intrinsic(_upper_half)


@compiled(reorder=False)
def _block(key: Words, counter: Words, number: int, out: Words) -> None:
    """Write block `number` of the stream: four words."""
    # NumPy increments the counter before it computes a block.
    a, b, c, d = np.uint64(number + 1), counter[0], counter[1], counter[2]
    k0, k1 = key[0], key[1]
    for _ in range(10):
        a, b, c, d = _high(_M1, c) ^ b ^ k0, _M1 * c, _high(_M0, a) ^ d ^ k1, _M0 * a
        k0 += _W0
        k1 += _W1
    out[0], out[1], out[2], out[3] = a, b, c, d


@compiled(reorder=False)
def _uniform(key: Words, counter: Words, index: int) -> float:
    """Return a word of the stream as a uniform number in [0, 1)."""
    words = np.empty(4, np.uint64)
    _block(key, counter, index // 4, words)
    return np.float64(words[index % 4] >> np.uint64(11)) * _STEP


@compiled(reorder=False)
def _outside(
    key: Words, counter: Words, index: int, layer: Any, inside: Any, x: float
) -> tuple[bool, float, int]:
    """Decide on a draw outside of a layer's inner part; return whether it is accepted, its value, and the next word."""
    if layer > 0:
        step = _HEIGHT[layer - 1] - _HEIGHT[layer]
        height = step * _uniform(key, counter, index) + _HEIGHT[layer]
        return height < math.exp(-0.5 * x * x), x, index + 1
    while True:  # the tail
        far = -_INVERSE_TAIL * math.log1p(-_uniform(key, counter, index))
        above = -math.log1p(-_uniform(key, counter, index + 1))
        index += 2
        if above + above > far * far:
            left = (inside >> np.uint64(8)) & np.uint64(1)
            return True, -(_TAIL + far) if left else _TAIL + far, index


@compiled(reorder=False)
def fill_normals(key: Words, first: int, second: int, third: int, out: Floats) -> None:
    """Fill an array with the normal numbers that start at the counter (0, first, second, third)."""
    counter, words = np.empty(3, np.uint64), np.empty(4, np.uint64)
    counter[0], counter[1], counter[2] = np.uint64(first), np.uint64(second), np.uint64(third)
    index = 0  # of the next word in the stream
    for i in range(len(out)):
        while True:
            if index % 4 == 0:
                _block(key, counter, index // 4, words)
            word = words[index % 4]
            index += 1
            layer = np.int64(word & np.uint64(0xFF))
            inside = (word >> np.uint64(9)) & np.uint64(0x000FFFFFFFFFFFFF)
            x = np.float64(inside) * _WIDTH[layer]
            if (word >> np.uint64(8)) & np.uint64(1):
                x = -x
            if inside < _INNER[layer]:
                break  # 99.3 % of the draws
            counts, x, index = _outside(key, counter, index, layer, inside, x)
            if index % 4:
                _block(key, counter, index // 4, words)
            if counts:
                break
        out[i] = x
