"""Moments with the scatter of each arm add up, can be subtracted, and determine the posterior with slopes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import rolin
from rolin import Moments, Scales, errors
from rolin.model.moments import Total
from rolin.model.slopes import SlopePosterior
from support.oracles import LONG, History, random_history

Array = NDArray[np.float64]


def moments_of(
    history: History, slopes: tuple[int, ...], part: slice | NDArray[np.int64] = slice(None)
) -> Moments:
    """Return the moments of a part of a history."""
    arms = history.arms[part].tolist()
    return Moments.of(arms, history.x[part], history.r[part], history.h[part], slopes=slopes)


def exact_scatter(history: History, arm: int, slopes: tuple[int, ...]) -> NDArray[LONG]:
    """Return the (s, 1 + d) scatter of one arm by its definition, from the raw data in extended precision."""
    own = history.arms == arm
    values = np.column_stack([history.r, history.x])[own].astype(LONG)
    h = history.h[own].astype(LONG)[:, None]
    values = values - (h * values).sum(axis=0) / h.sum()
    return (h * values[:, [1 + j for j in slopes]]).T @ values


def same(a: Moments, b: Moments, tolerance: float = 1e-9) -> None:
    """Assert that two moments are equal up to rounding, relative to the sums of squares, and the order of arms."""
    assert (a.slopes, set(a.arms)) == (b.slopes, set(b.arms))
    if not a.slopes:
        assert a.arm_scatter is None
        assert b.arm_scatter is None
        return
    assert a.arm_scatter is not None
    assert b.arm_scatter is not None
    order = [b.arms.index(arm) for arm in a.arms]
    unit = np.sqrt(np.append(b.reward_scatter, np.diag(b.scatter)) + b.count)
    scale = np.outer(unit[[1 + j for j in b.slopes]], unit)
    assert (np.abs(a.arm_scatter - b.arm_scatter[order]) <= tolerance * scale).all()
    np.testing.assert_allclose(a.scatter, b.scatter, atol=tolerance * unit.max(initial=1.0) ** 2)


@st.composite
def cases(draw: st.DrawFn) -> tuple[History, tuple[int, ...]]:
    """Return a history, and the features that have slopes."""
    n, k, d = draw(st.integers(0, 40)), draw(st.integers(1, 6)), draw(st.integers(0, 4))
    history = random_history(np.random.default_rng(draw(st.integers(0, 2**32))), n, k, d)
    slopes = draw(st.sets(st.integers(0, d - 1))) if d else set()
    return history, tuple(sorted(slopes))


# -- sums ------------------------------------------------------------------------------------------


@given(cases())
def test_the_scatter_of_each_arm_is_its_definition(case: tuple[History, tuple[int, ...]]) -> None:
    """A batch gives every arm the sums of its own rows; everything else is the same as without slopes, to the bit."""
    history, slopes = case
    found, plain = moments_of(history, slopes), moments_of(history, ())
    for name in ("scatter", "cross", "reward_scatter", "weight", "mean_context", "mean_reward"):
        assert np.array_equal(getattr(found, name), getattr(plain, name))
    if not slopes:
        assert found.arm_scatter is None
        return
    assert found.arm_scatter is not None
    assert found.arm_scatter.shape == (len(found.arms), len(slopes), 1 + history.x.shape[1])
    for k, arm in enumerate(found.arms):
        expected = exact_scatter(history, arm, slopes).astype(float)
        np.testing.assert_allclose(found.arm_scatter[k], expected, rtol=1e-9, atol=1e-9)
    assert not found.arm_scatter.flags.writeable


@given(cases(), st.integers(0, 40), st.integers(0, 40))
def test_parts_add_up(case: tuple[History, tuple[int, ...]], i: int, j: int) -> None:
    """Any split adds up to the whole, in any order and grouping; so do single rows."""
    history, slopes = case
    i, j = sorted((i, j))
    a, b, c = (moments_of(history, slopes, p) for p in (slice(i), slice(i, j), slice(j, None)))
    whole, zero = moments_of(history, slopes), Moments.zero(history.x.shape[1], slopes=slopes)
    same((a + b) + c, whole)
    same(a + (b + c), whole)
    same(c + (b + a), whole)
    rows = [moments_of(history, slopes, slice(n, n + 1)) for n in range(len(history.r))]
    same(Moments.sum([zero, *rows]), whole)
    same(whole + zero, whole, 0.0)
    same(zero + whole, whole, 0.0)


@given(cases(), st.integers(0, 40))
def test_a_batch_can_be_subtracted(case: tuple[History, tuple[int, ...]], i: int) -> None:
    """(a + b) - b is a, arm by arm; subtracting everything leaves nothing."""
    history, slopes = case
    a, b = moments_of(history, slopes, slice(i)), moments_of(history, slopes, slice(i, None))
    same((a + b) - b, a, 1e-8)
    nothing = (a + b) - (b + a)
    assert (nothing.arms, nothing.slopes) == ((), slopes)


def test_what_is_left_of_one_row_is_exactly_nothing(seed: int) -> None:
    """After all rows of an arm but one are subtracted, its scatter is zero, not a rounding error.

    The ratio of two rounding errors would count as a slope.
    """
    rng = np.random.default_rng(seed)
    history = random_history(rng, 400, 4, 3)
    history.x += 10.0
    last = np.array([np.flatnonzero(history.arms == k)[-1] for k in range(4)])
    others = np.setdiff1d(np.arange(400), last)
    left = moments_of(history, (0, 2)) - moments_of(history, (0, 2), others)
    assert left.arm_scatter is not None
    assert (left.arm_scatter == 0.0).all()
    np.testing.assert_allclose(
        left.mean_context[[left.arms.index(k) for k in range(4)]], history.x[last]
    )


def test_what_is_left_of_a_constant_feature_is_exactly_nothing(seed: int) -> None:
    """If a feature does not vary in the rows that are left, its products with others are zero; these others vary."""
    rng = np.random.default_rng(seed)
    history = random_history(rng, 400, 4, 3)
    last = np.concatenate([np.flatnonzero(history.arms == k)[-3:] for k in range(4)])
    history.x[last, 0] = 0.3
    others = np.setdiff1d(np.arange(400), last)
    left = moments_of(history, (0, 2)) - moments_of(history, (0, 2), others)
    assert left.arm_scatter is not None
    assert (left.arm_scatter[:, 0] == 0.0).all()
    assert (left.arm_scatter[:, 1, 1] == 0.0).all()
    assert (left.arm_scatter[:, 1, 3] > 0.0).all()
    same(left, moments_of(history, (0, 2), last))


@given(cases(), st.floats(0.01, 1.0))
def test_decay_multiplies_all_sums(case: tuple[History, tuple[int, ...]], factor: float) -> None:
    """Decayed evidence is that of rewards with smaller weights."""
    history, slopes = case
    lighter = History(history.arms, history.x, history.r, factor * history.h)
    same(moments_of(history, slopes).decayed(factor), moments_of(lighter, slopes))


def test_sums_are_accurate_with_offsets(seed: int) -> None:
    """A million rows of features near 10, one arm with nearly all of them: 2e-13 of the sums in extended precision.

    In a batch, in parts, and added one part at a time to a running total.
    """
    rng, n = np.random.default_rng(seed), 1_000_000
    arms = np.where(np.arange(n) % 100 == 0, np.arange(n) // 100 % 5, 7)
    x = 10.0 + rng.normal(size=(n, 3)) * [1.0, 0.1, 0.01]
    history = History(arms, x, 10.0 + rng.normal(size=n), rng.uniform(0.5, 2.0, n))
    slopes, total = (1, 2), Total(3, (1, 2))
    for part in np.array_split(np.arange(n), 300):
        total.add(moments_of(history, slopes, part))
    for found in (moments_of(history, slopes), total.moments()):
        assert found.arm_scatter is not None
        for k, arm in enumerate(found.arms):
            exact = exact_scatter(history, arm, slopes)
            own = history.arms == arm
            unit = np.sqrt(
                [float(history.h[own] @ (c - c.mean()) ** 2) for c in (history.r[own], *x[own].T)]
            )
            error = np.abs(found.arm_scatter[k] - exact) / np.outer(unit[2:], unit)
            assert error.max() < 2e-13


def test_an_outlier_that_comes_first_costs_no_precision(seed: int) -> None:
    """The same rows in the reverse order have the same scatter, also in an arm that is few of all rows."""
    rng, n = np.random.default_rng(seed), 20_000
    arms = np.arange(n) % 50
    x, r = rng.normal(size=(n, 2)), rng.normal(size=n)
    x[arms == 3] *= 1e-3
    x[3] = 1e4
    x[-47] = -1e4  # the same arm; together they do not move its mean
    first = Moments.of(arms, x, r, slopes=[0, 1]).arm_scatter
    last = Moments.of(arms[::-1], x[::-1], r[::-1], slopes=[0, 1])
    assert first is not None
    assert last.arm_scatter is not None
    np.testing.assert_allclose(first[3], last.arm_scatter[last.arms.index(3)], rtol=1e-11)


def test_features_that_never_change_have_no_scatter(seed: int) -> None:
    """Not even a rounding error, whatever the features are."""
    rng = np.random.default_rng(seed)
    arms = rng.integers(0, 9, 5000)
    x = (1e3 + rng.normal(size=(9, 4)))[arms]
    found = Moments.of(
        arms, x, rng.normal(size=5000), rng.uniform(0.1, 3, 5000), slopes=np.arange(4)
    )
    assert found.arm_scatter is not None
    assert (found.arm_scatter == 0.0).all()


# -- errors ----------------------------------------------------------------------------------------


def test_moments_of_different_slopes_cannot_be_combined() -> None:
    """The error says what was given, what was expected, and what to do; fewer slopes can be selected."""
    rows = (["a", "b", "a"], np.eye(3), [1.0, 2.0, 3.0])
    both, one, none = (Moments.of(*rows, slopes=slopes) for slopes in ((0, 2), (2,), ()))
    message = r"slopes=\[2\] cannot be combined with moments with slopes=\[0, 2\]: collect both"
    for combine in (
        lambda: both + one,
        lambda: both - one,
        lambda: Moments.sum([both, one]),
        lambda: Total(3, (0, 2)).add(one),
    ):
        with pytest.raises(errors.MergeError, match=message):
            combine()
    with pytest.raises(
        errors.MergeError, match=r"slopes=\[\] cannot be combined with .*slopes=\[2\]"
    ):
        one + Moments.zero(3)
    same(both.with_slopes([2]), one, 0.0)
    same(both.with_slopes([]) + none, none + none, 0.0)
    assert both.with_slopes([2, 0]) is both
    with pytest.raises(
        errors.MergeError, match=r"slopes=\[2\], without feature 1.*with slopes=\[1, 2\]"
    ):
        one.with_slopes([1, 2])


@pytest.mark.parametrize("slopes", [[3], [0, 0], [-1], "02", 1, [0.5]])
def test_bad_slopes_are_rejected(slopes: object) -> None:
    """Unknown features, features that are named twice, and what is not a list of indices."""
    with pytest.raises(errors.ParameterError, match="slopes"):
        Moments.of(["a"], [[1.0, 2.0, 3.0]], [1.0], slopes=slopes)  # type: ignore[arg-type]
    with pytest.raises(errors.ParameterError, match="slopes"):
        Moments.zero(3, slopes=slopes)  # type: ignore[arg-type]


# -- the posterior from moments --------------------------------------------------------------------


def same_posterior(a: SlopePosterior, b: SlopePosterior, x: Array, arms: list[int]) -> None:
    """Assert that two posteriors predict the same, and find the rewards as likely."""
    (mean, std), (other_mean, other_std) = a.predict(x, arms), b.predict(x, arms)
    np.testing.assert_allclose(mean, other_mean, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(std, other_std, rtol=1e-9)
    assert a.log_evidence == pytest.approx(b.log_evidence, rel=1e-9, abs=1e-7)


@given(cases(), st.integers(0, 40), st.booleans())
def test_merged_moments_give_the_posterior_that_saw_everything(
    case: tuple[History, tuple[int, ...]], i: int, intercept: bool
) -> None:
    """One by one, all at once, and from moments that were added: one posterior; its own moments are the same, too."""
    history, slopes = case
    d = history.x.shape[1]
    scales = Scales(
        arm_std=0.7, noise_std=1.3, slope_std=0.4, slopes=slopes, intercept_std=2.0 if intercept else None
    )  # fmt: skip
    arms = list(range(7))  # one of them was never seen
    x = np.random.default_rng(1).normal(size=(7, d))
    one = SlopePosterior(scales, d)
    for arm, *row in zip(history.arms.tolist(), history.x, history.r, history.h, strict=True):
        one.observe(arm, *row)
    parts = [moments_of(history, slopes, part) for part in (slice(i), slice(i, None))]
    for moments in (parts[0] + parts[1], moments_of(history, tuple(range(d))), one.moments):
        same_posterior(SlopePosterior.of(scales, moments), one, x, arms)
    if slopes:
        same(one.moments, parts[0] + parts[1])


def test_a_posterior_needs_its_slopes() -> None:
    """Moments without the scatter of each arm cannot tell slopes."""
    moments = Moments.of(["a", "b"], [[1.0, 2.0], [2.0, 1.0]], [1.0, 2.0], slopes=[1])
    with pytest.raises(
        errors.MergeError, match=r"slopes=\[1\], without feature 0.*with slopes=\[0, 1\]"
    ):
        SlopePosterior.of(Scales(slope_std=1.0), moments)
    assert rolin.Posterior.of(Scales(), moments).moments.slopes == ()


@pytest.mark.parametrize("learned", [False, True])
def test_an_arm_that_returns_without_its_past_is_new(learned: bool, seed: int) -> None:
    """Its slopes are those of the prior; what it taught about the coefficients stays, and so does its evidence."""
    rng = np.random.default_rng(seed)
    given = (
        {"slope_std": "learn"} if learned else {"slope_std": 0.5, "arm_std": 0.5, "noise_std": 1.0}
    )
    policy = rolin.RoLinUCB(n_features=2, **given)  # type: ignore[arg-type]
    slope = {"a": [2.0, 0.0], "b": [0.0, -1.0], "c": [-1.0, 1.0]}
    x = rng.normal(size=(120, 2))
    arms = ["abc"[i % 3] for i in range(120)]
    policy.update_many(arms, x, [x[i] @ slope[a] + rng.normal() for i, a in enumerate(arms)])
    before, at = policy.moments, rng.normal(size=(2, 2))
    policy.remove_arm("a")
    policy.restore_arm("a", with_past=False)
    mean, std = policy.predict(at, ["a", "b"])
    never = policy.predict(at, ["never seen", "b"])
    assert np.array_equal(mean, never.mean)
    assert np.array_equal(std, never.std)
    assert np.array_equal(policy.moments.arm_scatter, before.arm_scatter)
    rows = rng.normal(size=(5, 2))
    for row in rows:
        policy.update("a", row, float(row @ [9.0, 9.0]))
    now, scales = policy.moments, policy.scales
    assert len(now.arms) == 4
    new = Moments.of(["a"] * 5, rows, rows @ [9.0, 9.0], slopes=[0, 1])
    assert now.arm_scatter is not None
    assert new.arm_scatter is not None
    np.testing.assert_allclose(now.arm_scatter[3], new.arm_scatter[0], rtol=1e-9)
    same_posterior_of = SlopePosterior.of(scales, now)
    np.testing.assert_allclose(
        policy.predict(at, ["a", "b"]).mean, same_posterior_of.predict(at, ["a", "b"]).mean
    )
