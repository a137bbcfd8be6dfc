"""Moments are a commutative monoid of evidence, and a batch can be taken back."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolin import Moments, errors
from support.oracles import History, random_history


def moments_of(history: History, part: slice = slice(None)) -> Moments:
    """The moments of a part of a history."""
    return Moments.of(
        history.arms[part].tolist(), history.x[part], history.r[part], history.h[part]
    )


def same(a: Moments, b: Moments, rtol: float = 1e-9) -> None:
    """Assert that two moments are equal up to rounding and the order of the arms."""
    assert a.count == b.count
    assert a.sum_log_weight == pytest.approx(b.sum_log_weight, rel=rtol, abs=rtol)
    scale = np.abs(b.scatter).max(initial=1.0)
    np.testing.assert_allclose(a.scatter, b.scatter, rtol=rtol, atol=rtol * scale)
    np.testing.assert_allclose(a.cross, b.cross, rtol=rtol, atol=rtol * scale)
    assert a.reward_scatter == pytest.approx(b.reward_scatter, rel=rtol, abs=rtol * scale)
    assert set(a.arms) == set(b.arms)
    order = [b.arms.index(arm) for arm in a.arms]
    np.testing.assert_allclose(a.weight, b.weight[order], rtol=rtol)
    np.testing.assert_allclose(a.mean_context, b.mean_context[order], rtol=rtol, atol=rtol * 10)
    np.testing.assert_allclose(a.mean_reward, b.mean_reward[order], rtol=rtol, atol=rtol * 10)


histories = st.builds(
    lambda seed, n, k, d: random_history(np.random.default_rng(seed), n, k, d),
    st.integers(0, 2**32), st.integers(0, 40), st.integers(1, 6), st.integers(0, 4),
)  # fmt: skip


@given(histories)
def test_of_is_the_definition(history: History) -> None:
    """Every sum is what its definition says, computed arm by arm."""
    moments = moments_of(history)
    d = history.x.shape[1]
    scatter, cross, rewards = np.zeros((d, d)), np.zeros(d), 0.0
    for k, arm in enumerate(moments.arms):
        own = history.arms == arm
        x, r, h = history.x[own], history.r[own], history.h[own]
        xbar, rbar = np.average(x, axis=0, weights=h), np.average(r, weights=h)
        np.testing.assert_allclose(moments.weight[k], h.sum())
        np.testing.assert_allclose(moments.mean_context[k], xbar, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(moments.mean_reward[k], rbar, rtol=1e-9, atol=1e-12)
        for i in range(len(r)):
            scatter += h[i] * np.outer(x[i] - xbar, x[i] - xbar)
            cross += h[i] * (x[i] - xbar) * (r[i] - rbar)
            rewards += h[i] * (r[i] - rbar) ** 2
    np.testing.assert_allclose(moments.scatter, scatter, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(moments.cross, cross, rtol=1e-9, atol=1e-9)
    assert moments.reward_scatter == pytest.approx(rewards, abs=1e-9)
    assert moments.sum_log_weight == pytest.approx(np.log(history.h).sum())


@pytest.mark.parametrize("k", [3, 500])
@pytest.mark.parametrize("far", [0.0, 1e4])
@pytest.mark.parametrize("order", ["C", "F"])
def test_many_rows_and_arms(
    k: int, far: float, order: Literal["C", "F"], rng: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """In many chunks, by rows or by columns, also if the first observation of every arm is far from its mean."""
    monkeypatch.setattr("rolin.model.moments._CHUNK", 1)  # as few rows at a time as there can be
    n, d = 1501, 3
    arms = np.concatenate([np.arange(k), rng.integers(k, size=n - k)])
    x, r, h = rng.normal(size=(n, d)) + 7.0, rng.normal(size=n), rng.uniform(0.5, 2.0, size=n)
    x[:k] += far
    names = tuple(f"arm {i}" for i in range(k))
    moments = Moments.of_codes(names, arms, np.asarray(x, order=order), r, h)
    both = np.column_stack([r, x])
    weight = np.bincount(arms, h)
    means = np.column_stack([np.bincount(arms, h * column) / weight for column in both.T])
    around = np.sqrt(h)[:, None] * (both - means[arms])
    total = around.T @ around
    scale = np.sqrt(np.outer(np.diag(total), np.diag(total)))
    np.testing.assert_allclose(moments.weight, weight, rtol=1e-13)
    np.testing.assert_allclose(moments.mean_reward, means[:, 0], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(moments.mean_context, means[:, 1:], rtol=1e-12)
    assert (abs(moments.scatter - total[1:, 1:]) <= 1e-12 * scale[1:, 1:]).all()
    assert (abs(moments.cross - total[0, 1:]) <= 1e-12 * scale[0, 1:]).all()
    assert moments.reward_scatter == pytest.approx(total[0, 0], rel=1e-12)
    named = np.array(names, dtype=object)[arms]
    # The last part has arms that the others do not have, and the other way round.
    cuts = [slice(900, None), slice(200, 900), slice(200)]
    parts = [Moments.of(named[cut].tolist(), x[cut], r[cut], h[cut]) for cut in cuts]
    same(Moments.sum(parts), moments)


def test_the_sum_of_one_part_is_that_part() -> None:
    """Nothing is computed for it, and nothing is lost."""
    part = Moments.of(["a", "a"], [[1.0], [3.0]], [1.0, 2.0])
    assert Moments.sum([part]) is part
    assert Moments.sum(iter([part])) is part
    with pytest.raises(errors.ParameterError, match="no moments to add up"):
        Moments.sum([])


@given(histories, st.integers(0, 40), st.integers(0, 40))
def test_parts_add_up(history: History, i: int, j: int) -> None:
    """Any split adds up to the whole, in any order and any grouping."""
    i, j = sorted((i, j))
    a, b, c = (moments_of(history, part) for part in (slice(i), slice(i, j), slice(j, None)))
    whole = moments_of(history)
    same((a + b) + c, whole)
    same(a + (b + c), whole)
    same(c + (b + a), whole)
    zero = Moments.zero(whole.n_features)
    same(whole + zero, whole, rtol=1e-15)
    same(zero + whole, whole, rtol=1e-15)


@given(histories, st.integers(0, 40))
def test_a_batch_can_be_taken_back(history: History, i: int) -> None:
    """(a + b) - b is a; taking everything back leaves nothing at all."""
    a, b = moments_of(history, slice(i)), moments_of(history, slice(i, None))
    same((a + b) - b, a, rtol=1e-8)
    nothing = (a + b) - (b + a)
    assert (nothing.count, nothing.arms, nothing.reward_scatter) == (0.0, (), 0.0)
    assert not nothing.scatter.any()


def test_what_was_never_there_cannot_be_taken() -> None:
    """Subtracting what was not added is an error that says why."""
    a = Moments.of(["a", "a"], [[1.0], [2.0]], [0.0, 1.0])
    with pytest.raises(errors.MergeError, match="arm 'b' is in the subtracted moments, but not in"):
        a - Moments.of(["b"], [[1.0]], [0.0])
    with pytest.raises(errors.MergeError, match="weight 2, from which 3 cannot"):
        a - Moments.of(["a"] * 3, [[1.0]] * 3, [0.0] * 3)
    with pytest.raises(errors.MergeError, match="were never part"):
        a - Moments.of(["a"], [[9.0]], [0.0])
    with pytest.raises(errors.MergeError, match="1 features cannot be combined with moments of 2"):
        a + Moments.zero(2)


def test_large_batches_can_be_taken_back(rng: np.random.Generator) -> None:
    """All of 200 000 weights, added up in another order, leaves nothing; the wrong ones are refused."""
    n = 200_000
    x, r, h = rng.normal(size=(n, 1)), rng.normal(size=n), rng.uniform(0.2, 3, n)
    whole = Moments.of(["a"] * n, x, r, h)
    parts = Moments.zero(1)
    for part in np.array_split(rng.permutation(n), 7):
        parts = parts + Moments.of(["a"] * len(part), x[part], r[part], h[part])
    assert (whole - parts).arms == ()
    with pytest.raises(errors.MergeError, match="were never part"):
        Moments.of(["a"], [[1.0]], [1.0]) - Moments.of(["a"], [[5.0]], [9.0])
    with pytest.raises(errors.NotFiniteError, match="too large to add up"):
        Moments.of(["a", "a"], [[1e200], [-1e200]], [0.0, 0.0])


def test_moments_cannot_be_changed() -> None:
    """The arrays are read-only, and so are the fields."""
    moments = Moments.of(["a"], [[1.0]], [0.0])
    with pytest.raises(ValueError, match="read-only"):
        moments.scatter[0, 0] = 1.0
    with pytest.raises(AttributeError):
        moments.count = 2.0


def test_bad_batches_are_refused() -> None:
    """Shapes, NaN and weights are checked and errors name their location."""
    with pytest.raises(errors.ShapeError, match=r"contexts has shape \(1, 1\), expected \(2, d\)"):
        Moments.of(["a", "b"], [[1.0]], [0.0, 0.0])
    with pytest.raises(errors.NotFiniteError, match=r"contexts\[1, 0\] is nan"):
        Moments.of(["a", "b"], [[1.0], [np.nan]], [0.0, 0.0])
    with pytest.raises(errors.InputError, match=r"weights\[1\] is 0.0, expected a positive"):
        Moments.of(["a", "b"], [[1.0], [2.0]], [0.0, 0.0], [1.0, 0.0])
