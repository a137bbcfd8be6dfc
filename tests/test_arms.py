"""Names of arms and the rows behind them."""

from __future__ import annotations

import enum
import tracemalloc

import numpy as np
import pytest

import rolin
from rolin import errors
from rolin._support.arms import ArmIndex, PastArm, canonical


def test_a_name_has_one_form() -> None:
    """Whole numbers become int, text becomes str, other hashables stay."""
    assert [canonical(n) for n in (1, True, 1.0, np.int64(1), np.float32(1.0))] == [1] * 5
    assert {type(canonical(n)) for n in (True, 1.0, np.int8(1))} == {int}
    assert type(canonical(np.str_("a"))) is str
    assert canonical(1.5) == 1.5
    assert canonical(("a", 1)) == ("a", 1)
    assert canonical("1") == "1"


class Colour(str, enum.Enum):  # noqa: UP042  # whose str() is not its text, unlike StrEnum's
    """Names that are texts of another class."""

    RED = "red"


@pytest.mark.parametrize(
    ("one", "other"),
    [(Colour.RED, "red"), (np.str_("red"), "red"), (np.int8(3), 3), (np.float64(3.0), 3)],
)
def test_equal_names_are_one_arm_in_every_call(one: object, other: object) -> None:
    """Whatever form a name is given in, by whatever call, first or later."""
    policy = rolin.RoLinTS(n_features=1, seed=0)
    for name in (one, other, one):
        policy.update(name, [1.0], 5.0)
        policy.update_many([name], [[1.0]], [5.0])
        assert policy.decide([[1.0]], [name]).arm == other
        assert type(policy.decide([[1.0]], [name]).arm) is type(other)
    assert policy.arms == [other]
    assert policy.moments.weight.tolist() == [6.0]


def test_other_hashables_are_names_too() -> None:
    """Dates, tuples and None keep their own row."""
    policy = rolin.RoLinTS(n_features=1, seed=0)
    names = [np.datetime64("2026-01-01"), ("a", 1), None, frozenset({1})]
    for _ in range(2):
        for name in names:
            policy.update(name, [1.0], 1.0)
    assert policy.moments.weight.tolist() == [2.0] * 4


def test_the_last_question_is_remembered_by_value() -> None:
    """A list that the caller changes is looked at again, and new arms are noticed."""
    index = ArmIndex(["a", "b"])
    names = ["a", "c"]
    assert index.find(names).rows.tolist() == [1, 0]
    names[1] = "b"
    assert index.find(names).rows.tolist() == [1, 2]
    assert index.find(["a", "c"]).rows.tolist() == [1, 0]
    index.add("c")
    assert index.find(["a", "c"]).rows.tolist() == [1, 3]
    assert index.find(("a", "c")).rows.tolist() == [1, 3]
    for _ in range(2):  # canonical names, also when they are remembered
        assert {type(name) for name in index.find((np.str_("a"), np.int64(7))).names} == {str, int}


def test_lives() -> None:
    """An arm can come back as a new one many times; every past life keeps its row."""
    index = ArmIndex(["a"])
    for life in (1, 2):
        index.remove("a")
        index.restore("a", with_past=False)
        assert "a" not in index.row_of
        index.add("a")
        assert index.row_of[PastArm("a", life)] == life
    assert index.names == [PastArm("a", 1), PastArm("a", 2), "a"]
    assert index.active == ["a"]
    assert PastArm("a", 1) != ("a", 1)  # a tuple may be a name too


def test_arms_can_be_added_for_ever() -> None:
    """Growth is amortised: 2^15 new arms, of which each is found again."""
    policy = rolin.RoLinTS(n_features=1, seed=0)
    n = 2**15
    for i in range(n):
        policy.update(i, [1.0], float(i))
    assert len(policy.arms) == n
    moments = policy.moments
    np.testing.assert_array_equal(moments.mean_reward, np.arange(n))
    np.testing.assert_array_equal(moments.weight, 1.0)


def test_deciding_among_new_names_takes_no_memory() -> None:
    """20 000 names that were never seen leave nothing behind."""
    policy = rolin.RoLinTS(n_features=2, seed=0)
    x = np.ones((100, 2))
    policy.decide(x, [f"warm {k}" for k in range(100)])
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for t in range(200):
            policy.decide(x, [f"{t}-{k}" for k in range(100)])
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert policy.arms == []
    assert grown < 50_000  # the last question's names, about 10 kB


@pytest.mark.parametrize("sampling", ["marginal", "joint"])
def test_nothing_grows_with_the_square_of_the_arms(sampling: str) -> None:
    """With K = 20 000 and d = 4, no call allocates more than a few K × d arrays."""
    k, d = 20_000, 4
    policy = rolin.RoLinTS(n_features=d, sampling=sampling, seed=0)
    x = np.random.default_rng(0).normal(size=(k, d))
    policy.update_many(range(k), x, x[:, 0])
    policy.decide(x)
    tracemalloc.start()
    try:
        policy.decide(x)
        policy.predict(x)
        policy.decide(x, top_k=5)
        policy.posterior.arm_effects()
        rolin.Posterior.of(policy.scales, policy.moments)
        policy.update(3, x[0], 1.0)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 30 * k * d * 8  # 19 MB; K × d × d would be 2.6 MB per copy, K × K 3.2 GB


def test_an_unknown_arm_cannot_be_removed_from_an_index() -> None:
    """An index made from names and removals must make sense."""
    with pytest.raises(
        errors.ArmError, match="arm 'b' is listed as removed, but is not among the arms"
    ):
        ArmIndex(["a"], ["b"])
    with pytest.raises(errors.ArmError, match="arm 'a' is given twice"):
        ArmIndex(["a", "a"])


def test_an_interrupted_batch_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C during a batch is seen when the kernel returns: all of it is taken back."""
    policy = rolin.RoLinTS(n_features=1, seed=0)
    policy.update("old", [1.0], 1.0)
    before = {name: array.copy() for name, array in policy.posterior.arrays().items()}
    fold = type(policy.posterior)._fold_many

    def interrupted(*arguments: object) -> int:
        fold(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(type(policy.posterior), "_fold_many", staticmethod(interrupted))
    with pytest.raises(KeyboardInterrupt):
        policy.update_many(["new"] * 10, [[1.0]] * 10, [1.0] * 10)
    monkeypatch.undo()
    assert policy.arms == ["old"]
    for name, array in policy.posterior.arrays().items():
        np.testing.assert_array_equal(array, before[name])
    policy.update("third", [1.0], 0.0)
    assert policy.moments.weight.tolist() == [1.0, 1.0]


def test_names_that_are_objects_survive_a_refused_batch() -> None:
    """The same object is the same arm, also after a batch that was taken back."""
    name = object()
    for policy in (rolin.BayesRoLinTS(n_features=1), rolin.RoLinTS(n_features=1, arm_std="learn")):
        policy.update(name, [1.0], 1.0)
        with pytest.raises(rolin.RolinError):
            policy.update_many([name] * 20, [[1.0]] * 20, [1.0] * 19 + [1e300])
        policy.update(name, [1.0], 1.0)
        assert policy.arms == [name]


def test_names_are_added_all_at_once_or_one_by_one() -> None:
    """Both give the same rows, and the same lives of arms that were restored without their past."""
    names = ["a", 3, PastArm("b", 2), "b", PastArm("a", 1), ("c", 1)]
    one, all_ = ArmIndex(["first"]), ArmIndex(["first"])
    for name in names:
        one.add(name)
    all_.extend(names)
    assert all_.names == one.names
    assert all_.row_of == one.row_of
    for index in (one, all_):
        index.remove("b")
        index.restore("b", with_past=False)
    assert all_.names == one.names
    assert PastArm("b", 3) in all_.names


def test_misspelled_options_are_recognized_and_others_are_not() -> None:
    """A scale that a policy does not have is not taken for another one."""
    for policy, option, hint in (
        (rolin.RoLinTS, "arm_sdt", "did you mean arm_std"),
        (rolin.RoLinTS, "explore", "did you mean exploration"),
        (rolin.LogisticRoLinTS, "noise_std", "Its options"),
        (rolin.LinTS, "slope_std", "unlike RoLinTS"),
    ):
        with pytest.raises(errors.ParameterError, match=hint) as raised:
            policy(n_features=1, **{option: 1.0})
        assert ("did you mean" in str(raised.value)) == hint.startswith("did")
