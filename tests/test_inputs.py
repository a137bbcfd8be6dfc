"""What users see when an argument is wrong: what was given, and what was expected."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import rolin
from rolin import errors
from support.policies import fixed


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_features": -1}, "n_features=-1, expected a whole number of at least 0"),
        ({"n_features": 2.0}, "n_features=2.0, expected a whole number of at least 0"),
        ({"noise_std": 0.0}, "noise_std=0.0, expected a positive number"),
        ({"noise_std": -1}, "noise_std=-1, expected a positive number"),
        ({"noise_std": np.nan}, "noise_std=nan, expected a positive number"),
        ({"noise_std": "1.0"}, "noise_std='1.0', expected a number"),
        ({"arm_std": -0.1}, "arm_std=-0.1, expected zero or a positive number"),
        ({"arm_std": np.inf}, "arm_std=inf, expected zero or a positive number"),
        ({"coef_std": 0}, "coef_std=0, expected a positive number"),
        ({"coef_std": [1.0, -2.0]}, "coef_std[1]=-2.0, expected a positive number"),
        ({"coef_std": [1.0]}, "coef_std has 1 numbers, expected one or n_features=2"),
        ({"coef_std": [[1.0, 2.0]]}, "coef_std has shape (1, 2), expected a number or a list"),
        ({"coef_mean": [0.0] * 3}, "coef_mean has 3 numbers, expected one or n_features=2"),
        ({"coef_std": [1.0, [2.0, 3.0]]}, "coef_std is not an array of numbers"),
        ({"n_features": 10**30}, "n_features is a number over 100000, the maximum"),
        ({"coef_mean": np.inf}, "coef_mean=inf, expected a finite number"),
        ({"intercept_std": 0.0}, "intercept_std=0.0, expected a positive number"),
        ({"intercept_mean": None}, "intercept_mean=None, expected a number"),
        ({"noise_std": True}, "noise_std=True, expected a number"),
        ({"arm_std": False}, "arm_std=False, expected a number"),
        ({"coef_std": np.True_}, "coef_std=np.True_, expected a number"),
        ({"coef_mean": [0.5, True]}, "coef_mean[1]=True, expected a number"),
        ({"intercept_std": True}, "intercept_std=True, expected a number"),
        ({"intercept_mean": False, "intercept_std": 1.0}, "intercept_mean=False, expected a number"),
        ({"slope_std": True}, "slope_std=True, expected a number"),
        ({"slope_std": ("learn", True)}, "slope_std=True, expected a number"),
        ({"intercept_mean": 1.0, "intercept_std": None}, "intercept_mean=1.0 without intercept_std, expected both"),
        ({"intercept_mean": 1.0}, "intercept_mean=1.0 with intercept_std='learn', expected a number for both"),
        ({"sampling": "both"}, "sampling='both', expected one of ('marginal', 'joint')"),
        ({"exploration": "much"}, "exploration='much', expected a number of at least 0 or 'auto'"),
    ],
)  # fmt: skip
def test_bad_options(options: dict[str, Any], message: str) -> None:
    """Every option says what was wrong with it."""
    with pytest.raises(errors.RolinError, match=re.escape(message)):
        rolin.RoLinTS(**{"n_features": 2, **options})


def test_unknown_options_name_the_known_ones() -> None:
    """A misspelt option is refused with a hint; it is also a TypeError, as Python's own is."""
    with pytest.raises(errors.UnknownOption) as caught:
        rolin.RoLinTS(n_features=2, arm_sdt=0.5)
    assert "RoLinTS has no option 'arm_sdt'; did you mean arm_std?" in str(caught.value)
    assert "sampling, exploration, seed" in str(caught.value)
    assert isinstance(caught.value, TypeError)
    with pytest.raises(errors.UnknownOption, match=r"RoLinTS has no option 'alpha'\. Its options"):
        rolin.RoLinTS(n_features=2, alpha=0.5)
    with pytest.raises(errors.UnknownOption, match="LinTS has no option 'arm_std'"):
        rolin.LinTS(n_features=2, arm_std=0.5)


def test_ucb_takes_a_horizon_or_a_width() -> None:
    """Not both, and neither below its range."""
    with pytest.raises(errors.ParameterError, match="horizon=10 and width=2, expected one of"):
        rolin.RoLinUCB(n_features=1, horizon=10, width=2)
    with pytest.raises(errors.ParameterError, match="horizon=0, expected a whole number"):
        rolin.RoLinUCB(n_features=1, horizon=0)
    with pytest.raises(errors.ParameterError, match=r"width=-1.0, expected a number of at least"):
        rolin.RoLinUCB(n_features=1, width=-1)
    with pytest.raises(errors.InputError, match="width='wide', expected a number"):
        rolin.LinUCB(n_features=1, width="wide")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p: p.decide(np.ones((5, 3))), "contexts has shape (5, 3), expected (K, 2)"),
        (lambda p: p.decide([[1.0, 2.0], [1.0]]), "contexts is not an array of numbers"),
        (lambda p: p.decide(["red", "blue"]), "contexts holds the text 'red', expected numbers: one vector of features per arm. Pass names of arms as keys, {'red': […], …}, or as arms=['red', …]"),
        (lambda p: p.decide(np.array(["red", "blue"])), "contexts is not an array of numbers: its type is <U4"),
        (lambda p: p.decide_many(pd.DataFrame(np.ones((2, 2)))), "contexts is one question, expected a (B, K, d)"),
        (lambda p: p.decide({"a": [1.0]}), "the context of arm 'a' has shape (1,), expected (2,)"),
        (lambda p: p.decide({"a": [1.0, "x"]}), "the context of arm 'a' is not an array of numbers"),
        (lambda p: p.decide({"a": [1.0, 2.0]}, ["a"]), "arms was given beside a mapping"),
        (lambda p: p.decide([[1.0, np.nan]]), "contexts[0, 1] is nan, expected finite numbers"),
        (lambda p: p.decide([[1e308, 1e308]] * 2), "contexts has numbers up to 1e+308, which are too large"),
        (lambda p: p.decide(np.ones((2, 2)), ["a"]), "arms has 1 names, expected 2, one per context"),
        (lambda p: p.decide(np.ones((2, 2)), ["a", "a"]), "arm 'a' is given twice"),
        (lambda p: p.decide(np.ones((2, 2)), [1, True]), "arm 1 is given twice"),
        (lambda p: p.decide(np.ones((2, 2)), ["a", []]), "arm [] is a list, expected a string, an"),
        (lambda p: p.decide(np.ones((2, 2)), {"a", "b"}), "arms is a set, which has no order"),
        (lambda p: p.decide(np.empty((0, 2))), "no arms were given, expected at least one"),
        (lambda p: p.decide(np.ones((2, 2)), top_k=3), "top_k=3, expected at most 2, the number of arms to choose from"),
        (lambda p: p.decide(np.ones((2, 2)), exclude=[0, 1]), "all 2 arms are excluded"),
        (lambda p: p.decide_many(np.ones((2, 2))), "contexts is one question, expected a (B, K, d)"),
        (lambda p: p.decide_many(3), "contexts=3, expected a (B, K, d) array or a list"),
        (lambda p: p.decide_many([np.ones((2, 2)), np.ones((2, 3))]), "question 1: contexts has"),
        (
            lambda p: p.decide_many(np.ones((3, 2, 2)), [["a", "b"]]),
            "arms has 1 lists of names, expected 3, one per question",
        ),
        (lambda p: p.update("a", [1.0], 1.0), "context has shape (1,), expected (2,)"),
        (lambda p: p.update("a", [1.0, np.inf], 1.0), "context[1] is inf"),
        (lambda p: p.update("a", [1.0, 1.0], None), "reward=None, expected a number"),
        (lambda p: p.update("a", [1.0, 1.0], 1.0, 0), "weight=0, expected a positive number"),
        (lambda p: p.update("a", [1e160, 1.0], 1.0), "is too large or too small to compute with"),
        (lambda p: p.update_many(["a"], [[1.0, 1.0]], [1.0, 2.0]), "rewards has shape (2,), expected"),
        (lambda p: p.predict(np.ones((1, 2)), "a"), "arms='a' is one text, expected a sequence"),
        (lambda p: p.update("a", [1.0, 1.0], 10**400), "reward is a number too large to compute with"),
        (lambda p: p.update("a", [1.0, 1.0], 1 + 2j), "reward=(1+2j), expected a number"),
        (lambda p: p.update("a", [1.0, 1.0], np.array("1")), "expected a number"),
        (lambda p: p.update("a", b"12", 1.0), "context is not an array of numbers: it is a bytes"),
        (lambda p: p.update("a", np.ma.array([1.0, 9.0], mask=[0, 1]), 1.0), "some of its values are masked"),
        (lambda p: p.update_many(["a"], [], [1.0]), "contexts has shape (0,), expected (1, 2)"),
        (lambda p: p.decide_many([np.ones((2, 2))], "ab"), "arms='ab' is one text"),
        (lambda p: p.decide_many([np.ones((2, 2))], 5), "arms=5, expected a sequence of names"),
        (lambda p: p.decide(np.ones((2, 2)), np.array("ab")), "expected a sequence of names"),
        (lambda p: p.decide(np.ones((1, 2)), [np.datetime64("NaT", "s")]), "which does not equal itself"),
        (lambda p: rolin.merge(p, 1), "RoLinTS cannot be merged with int"),
        (lambda p: rolin.merge(1, p), "1 is not a policy that can be merged"),
        (lambda p: p.remove_arm("z"), "arm 'z' was never observed"),
        (lambda p: p.restore_arm("z"), "arm 'z' is not among the removed arms: []"),
    ],
)  # fmt: skip
def test_messages(call: Any, message: str) -> None:
    """The message of each refusal, word for word where it matters."""
    policy = rolin.RoLinTS(n_features=2, seed=0)
    with pytest.raises(errors.RolinError, match=re.escape(message)):
        call(policy)


def test_errors_are_ordinary_ones_too() -> None:
    """A wrong argument is a ValueError, so that callers need not know our classes."""
    with pytest.raises(ValueError, match="expected"):
        rolin.RoLinTS(n_features=2).decide(np.ones((2, 3)))


def test_inputs_are_not_kept_or_changed(rng: np.random.Generator) -> None:
    """What the caller does with its arrays afterwards changes neither decision nor state."""
    policy = fixed(rolin.RoLinTS, n_features=2, seed=0)
    x = rng.normal(size=(3, 2))
    given = x.copy()
    decision = policy.decide(x)
    policy.update(decision.arm, decision.context, 1.0)
    before = policy.predict(given)
    np.testing.assert_array_equal(x, given)
    context = decision.context.copy()
    x[:] = 7.0
    np.testing.assert_array_equal(decision.context, context)
    np.testing.assert_array_equal(policy.predict(given).mean, before.mean)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, ">f8"])
def test_any_array_of_numbers_will_do(dtype: Any, order: Any) -> None:
    """Other types, byte orders and memory layouts give the same decision."""
    x = np.array([[1, 0], [0, 1], [2, 2]])
    expected = fixed(rolin.RoLinTS, n_features=2, seed=0).decide(x.astype(float)).arm
    given = np.asarray(x, dtype=dtype, order=order)
    given.flags.writeable = False  # as pandas hands out
    policy = fixed(rolin.RoLinTS, n_features=2, seed=0)
    assert policy.decide(given).arm == expected
    policy.update("a", given[0], 1.0)
    policy.update("a", given[:, 0][:2], 1.0)
    policy.update_many(["a"] * 3, given, given[:, 0])


@pytest.mark.parametrize("d", [3, 30])
def test_extremes_are_refused_before_they_do_harm(d: int) -> None:
    """What is accepted leaves a state that can still decide, be saved and be rebuilt."""
    policy = fixed(rolin.RoLinTS, n_features=d, arm_std=1e5, seed=0)
    x = np.ones((2, d))
    with pytest.raises(errors.NotFiniteError):
        policy.update("a", x[0], 1.0, weight=1e300)
    for _ in range(3):
        try:
            policy.update("a", x[0], 1.2e154)
        except errors.NotFiniteError:
            break
    policy.decide(x, ["a", "b"])
    assert np.isfinite(policy.posterior.log_evidence)
    x[1, 0] = np.inf  # refused without a warning from BLAS, too
    with pytest.raises(errors.NotFiniteError, match=r"contexts\[1, 0\] is inf"):
        policy.decide(x, ["a", "b"])


def test_numbers_that_no_scale_fits_are_refused_at_once() -> None:
    """Until the first rewards have given the scales, nothing is accepted that none could be computed from."""
    for x, r in ((1e160, 1.0), (1.0, 1e160)):
        policy = rolin.RoLinTS(n_features=2, seed=0)
        policy.update("a", [1.0, 2.0], 1.0)
        before = {name: array.tobytes() for name, array in policy.posterior.arrays().items()}
        with pytest.raises(errors.NotFiniteError, match="is too large or too small to compute"):
            policy.update("b", [x, 1.0], r)
        with pytest.raises(errors.NotFiniteError, match="is too large or too small to compute"):
            policy.update_many(["b", "b"], [[1.0, 1.0], [x, 1.0]], [1.0, r])
        assert policy.arms == ["a"]
        assert {n: a.tobytes() for n, a in policy.posterior.arrays().items()} == before
        policy.update_many(range(20), np.eye(20)[:, :2], np.arange(20.0))
        assert len(policy.scale_history) > 0


@pytest.mark.parametrize("size", [1e-200, 1e-160, 1e-120, 1e-80, 1e80, 1e99])
def test_no_unit_makes_an_update_fail(size: float, rng: np.random.Generator) -> None:
    """Where scales in the unit of the data cannot be computed, a warning says so, and rewards are still accepted."""
    for unit, scale in ((size, 1.0), (1.0, size), (size, size)):
        policy = rolin.RoLinTS(n_features=2, seed=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", errors.ScaleWarning)
            for t in range(40):
                policy.update(t % 3, unit * rng.uniform(-1, 1, 2), scale * rng.uniform(-1, 1))
        assert policy.moments.count == 40
        assert np.isfinite(policy.predict(unit * np.eye(2)).std).all()


def test_a_bad_number_among_many_questions_is_named() -> None:
    """The question and the number in it, for every policy."""
    x = np.ones((9, 5, 2))
    x[7, 2, 1] = np.nan
    for make in (rolin.RoLinTS, rolin.RoLinUCB, rolin.Uniform):
        with pytest.raises(errors.NotFiniteError, match=r"question 7: contexts\[2, 1\] is nan"):
            make(n_features=2).decide_many(x)


def test_a_policy_may_take_any_option() -> None:
    """A subclass that hands its options on is not refused them."""

    class Mine(rolin.RoLinTS):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)

    assert Mine(n_features=2, seed=1).settings == rolin.RoLinTS(n_features=2, seed=1).settings


def test_options_are_passed_by_name() -> None:
    """An option that is passed by position is refused with the call that was meant."""
    for make in rolin.policies.find().values():
        with pytest.raises(errors.UnknownOption, match=r"passes options by position") as caught:
            make(2)
        assert f"{make.__name__}(n_features=2, …)" in str(caught.value)
        assert isinstance(caught.value, TypeError)

    class Positional(rolin.RoLinTS):
        def __init__(self, n_features: int) -> None:
            super().__init__(n_features=n_features)

    assert Positional(2).n_features == 2


def test_a_frames_index_names_the_arms() -> None:
    """Without `arms`, the index of a pandas frame names the arms; polars numbers its rows."""
    x = np.array([[1.0, 0.0], [0.0, 1.0], [2.0, 2.0]])
    names = ["red", "blue", "gray"]
    frame = pd.DataFrame(x, index=names)
    for make in (rolin.RoLinTS, rolin.BayesRoLinTS):
        policy = make(n_features=2, seed=0)
        for _ in range(5):
            policy.update("gray", x[2], 3.0)
        expected = policy.decide(x, names, key=1)
        assert policy.decide(frame, key=1).ranking == expected.ranking
        assert policy.decide(frame, key=1, exclude=["gray"]).arm in ("red", "blue")
        np.testing.assert_array_equal(policy.predict(frame), policy.predict(x, names))
        np.testing.assert_array_equal(policy.probabilities(frame), policy.probabilities(x, names))
        given = policy.predict(frame, arms=["a", "b", "c"])
        np.testing.assert_array_equal(given, policy.predict(x, ["a", "b", "c"]))
        many = policy.decide_many([frame, frame])
        assert {decision.arm for decision in many} <= set(names)
        numbered: list[Any] = [pd.DataFrame(x), pl.DataFrame(x)]
        for table in numbered:
            np.testing.assert_array_equal(policy.predict(table), policy.predict(x))
            assert policy.decide(table, key=1).arm in (0, 1, 2)
    bandit = rolin.Bandit(rolin.RoLinTS(n_features=2, seed=0))
    assert bandit.decide(frame).offered == tuple(names)


def test_filtered_frames_keep_the_names_of_their_rows() -> None:
    """The index names the arms, also where pandas makes it a range again."""
    frame = pd.DataFrame({"x": [0.0, 1.0, 2.0, 3.0, 4.0]})
    policy = rolin.Uniform(n_features=1, seed=1)
    for rows in ([0, 2, 3], [1, 2], [0, 2, 4], [3, 4]):
        chosen = {policy.decide(frame.loc[rows]).arm for _ in range(60)}
        assert chosen == set(rows)
