"""Products of the features of all arms with some vectors.

A compiler adds up the numbers of a vector register for every arm and vector, which takes as long as the product itself.
The code that is generated here adds up the registers of four arms together.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from rolin._support.compile import Floats, compiled

__all__ = ["products"]

Features = NDArray[Any]  # (K, p), float32 or float64
# Numbers in a register, and arms that are multiplied together.
_LANES = 4
# Bytes of a cache line, and how far ahead of the products features are moved into the cache. The processor does not
# foresee that four arms are followed by the next four.
_LINE, _AHEAD = 64, 16_384
_code: Any = cgutils  # its functions have no types
_INT32, _INT64 = ir.IntType(32), ir.IntType(64)
_DOUBLES = ir.VectorType(ir.DoubleType(), _LANES)
# Whether kernels are run by Python, which cannot run generated code.
_INTERPRETED = bool(numba.config.DISABLE_JIT)  # type: ignore[attr-defined]  # set when numba is imported


class _Array:
    """Access to an array of two dimensions, within generated code.

    Parameters
    ----------
    context
        What Numba compiles with.
    builder
        What the instructions are added to.
    kind
        The type of the array. Its rows are contiguous.
    value
        The array.
    """

    def __init__(self, context: Any, builder: Any, kind: Any, value: Any) -> None:
        self._context, self._builder, self._kind = context, builder, kind
        self._struct = context.make_array(kind)(context, builder, value)
        self._vector = ir.VectorType(context.get_data_type(kind.dtype), _LANES)
        self._align = kind.dtype.bitwidth // 8
        self.width = builder.extract_value(self._struct.shape, 1)
        """Length of a row."""

    def _pointer(self, row: Any, column: Any) -> Any:
        return _code.get_item_pointer(
            self._context, self._builder, self._kind, self._struct, [row, column]
        )

    def load_one(self, row: Any, column: Any) -> Any:
        """Return a number."""
        return self._builder.load(self._pointer(row, column))

    def load(self, row: Any, column: Any) -> Any:
        """Return four numbers from a column on, in double precision."""
        builder = self._builder
        at = builder.bitcast(self._pointer(row, column), self._vector.as_pointer())
        found = builder.load(at, align=self._align)
        return found if self._vector == _DOUBLES else builder.fpext(found, _DOUBLES)

    def prefetch(self, row: Any, step: Any) -> None:
        """Move later rows into the cache: in each step of a loop over four rows, from `row` on, as much as it reads."""
        builder, byte = self._builder, ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [byte, _INT32, _INT32, _INT32])
        prefetch = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        to_read, level_2, data = _INT32(0), _INT32(2), _INT32(1)
        start = builder.bitcast(self._pointer(row, _INT64(0)), byte)
        n_bytes = _LANES * _LANES * self._align
        done = builder.mul(step, _INT64(n_bytes))
        for offset in range(_AHEAD, _AHEAD + n_bytes, _LINE):
            at = builder.gep(start, [builder.add(done, _INT64(offset))])
            builder.call(prefetch, [at, to_read, level_2, data])

    def store(self, row: Any, column: Any, values: Any) -> None:
        """Write four numbers from a column on."""
        at = self._builder.bitcast(self._pointer(row, column), self._vector.as_pointer())
        self._builder.store(values, at, align=self._align)


def _repeat(builder: Any, value: Any) -> Any:
    """Return a register that holds a number four times."""
    empty = ir.Constant(ir.VectorType(value.type, _LANES), ir.Undefined)
    return _shuffle(builder, builder.insert_element(empty, value, _INT32(0)), empty, [0] * _LANES)


def _shuffle(builder: Any, a: Any, b: Any, lanes: list[int]) -> Any:
    """Return a register of some numbers of two registers, which have the lanes 0 to 3 and 4 to 7."""
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(_INT32, _LANES), lanes))


def _multiply(
    builder: Any, x: _Array, vectors: _Array, out: _Array, arm: Any, first: Any, n_vectors: int
) -> None:
    """Generate the code that multiplies four arms, from `arm` on, with some vectors, from `first` on."""
    arms = [builder.add(arm, _INT64(r)) for r in range(_LANES)]
    rows = [builder.add(first, _INT64(v)) for v in range(n_vectors)]
    zeros = ir.Constant(_DOUBLES, None)
    sums = [[_code.alloca_once_value(builder, zeros) for _ in arms] for _ in rows]

    def add_products(j: Any, uncounted: Any = None) -> None:
        after = builder.add(j, _INT64(1))  # the first number of a vector belongs to the constant
        weights = [vectors.load(row, after) for row in rows]
        if uncounted is not None:
            weights = [builder.select(uncounted, weight, zeros) for weight in weights]
        for r, own in enumerate(arms):
            values = x.load(own, j)
            for weight, totals in zip(weights, sums, strict=True):
                product = builder.fmul(values, weight, flags=("contract",))
                total = builder.fadd(builder.load(totals[r]), product, flags=("contract",))
                builder.store(total, totals[r])

    with _code.for_range(builder, builder.udiv(x.width, _INT64(_LANES))) as loop:
        x.prefetch(arm, loop.index)
        add_products(builder.mul(loop.index, _INT64(_LANES)))
    n_left = builder.urem(x.width, _INT64(_LANES))
    with builder.if_then(builder.icmp_unsigned(">", n_left, _INT64(0))):
        # The last four features: those that have been counted already are multiplied with 0.
        n_counted = builder.sub(_INT64(_LANES), n_left)
        lanes = ir.Constant(ir.VectorType(_INT64, _LANES), list(range(_LANES)))
        uncounted = builder.icmp_unsigned(">=", lanes, _repeat(builder, n_counted))
        add_products(builder.sub(x.width, _INT64(_LANES)), uncounted)

    def add_pairs(a: Any, b: Any, some: list[int], others: list[int]) -> Any:
        return builder.fadd(_shuffle(builder, a, b, some), _shuffle(builder, a, b, others))

    for row, totals in zip(rows, sums, strict=True):
        a, b, c, d = (builder.load(total) for total in totals)
        ab = add_pairs(a, b, [0, 4, 2, 6], [1, 5, 3, 7])  # a₀ + a₁, b₀ + b₁, a₂ + a₃, b₂ + b₃
        cd = add_pairs(c, d, [0, 4, 2, 6], [1, 5, 3, 7])
        total = add_pairs(ab, cd, [0, 1, 4, 5], [2, 3, 6, 7])
        constant = _repeat(builder, vectors.load_one(row, _INT64(0)))
        out.store(row, arm, builder.fadd(total, constant))


def _four_arms(n_vectors: int) -> Any:
    """Return a function for compiled code, which multiplies four arms with some vectors."""

    def typed(typingctx: Any, x: Any, arm: Any, vectors: Any, first: Any, out: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> None:
            some, own, others, start, sums = arguments
            features = _Array(context, builder, x, some)
            weights = _Array(context, builder, vectors, others)
            results = _Array(context, builder, out, sums)
            _multiply(builder, features, weights, results, own, start, n_vectors)

        return types.void(x, types.intp, vectors, types.intp, out), codegen

    return intrinsic(typed)


_by_one, _by_two = _four_arms(1), _four_arms(2)


@compiled(reorder=True)
def products(
    x: Features,  # (K, p)
    vectors: Floats,  # (m, 1 + p): v; the first number belongs to a constant feature 1
    out: Floats,  # (m, K), written: x'v
) -> None:
    """Multiply the features of all arms with some vectors, in double precision."""
    n, (size, p) = vectors.shape[0], x.shape
    if _INTERPRETED or size < _LANES or p < _LANES:
        for v in range(n):
            for k in range(size):
                total = vectors[v, 0]
                for j in range(p):
                    total += np.float64(x[k, j]) * vectors[v, 1 + j]
                out[v, k] = total
        return
    for start in range(0, size, _LANES):
        k = min(start, size - _LANES)  # some of the last four arms may be computed again
        for v in range(0, n - 1, 2):
            _by_two(x, k, vectors, v, out)
        if n % 2:
            _by_one(x, k, vectors, n - 1, out)
