"""Keyed draws: reproducible, independent of order, different for different keys."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import rolin
from rolin import errors
from rolin.policies.keyed_random import KeyedGenerator
from support.policies import fixed


def test_draws_depend_on_the_key_alone() -> None:
    """Neither the order of the keys nor how much was drawn before matters."""
    draws = KeyedGenerator(11)
    first = {key: draws.at(key).standard_normal(7) for key in (0, 1, "a", 2**64 - 1)}
    draws.at(3).integers(0, 10, 5, dtype=np.uint32)  # leaves half a word behind
    for key in reversed(list(first)):
        np.testing.assert_array_equal(draws.at(key).standard_normal(7), first[key])


def test_keys_streams_and_seeds_are_distinct() -> None:
    """Any two of them give different draws, the text "1" and the number 1 included."""
    seen = [
        KeyedGenerator(seed).at(key, stream).random()
        for seed in (0, 1, 2**80)
        for key in (0, 1, 2, "1", "", "1 ")
        for stream in (0, 1)
    ]
    assert len(set(seen)) == len(seen) == 36


def test_it_is_numpys_philox() -> None:
    """The draws are those of NumPy's own generator at that key and counter."""
    draws = KeyedGenerator(5)
    words = np.random.SeedSequence(5).generate_state(2, np.uint64)
    bits = np.random.Philox(counter=[0, 9, 0, 2], key=words)
    expected = np.random.Generator(bits).standard_normal(100)
    np.testing.assert_array_equal(draws.at(9, stream=1).standard_normal(100), expected)


@pytest.mark.parametrize("seed", [-1, 1.5, "7", True])
def test_bad_seeds(seed: object) -> None:
    """A seed is a non-negative integer."""
    with pytest.raises(errors.ParameterError, match="expected a non-negative integer or None"):
        rolin.RoLinTS(n_features=1, seed=seed)


def test_without_a_seed_policies_differ_and_can_be_repeated() -> None:
    """The seed from the operating system is kept, so that a run can be repeated."""
    one, two = rolin.RoLinTS(n_features=1), rolin.RoLinTS(n_features=1)
    assert one.seed != two.seed
    again = rolin.RoLinTS(**one.settings)
    x = np.ones((50, 1))
    assert [one.decide(x).arm for _ in range(20)] == [again.decide(x).arm for _ in range(20)]


def test_threads_do_not_mix_up_keyed_decisions() -> None:
    """Keyed decisions made by four threads at once are those that one thread makes."""
    policy = fixed(rolin.RoLinTS, n_features=5, seed=1)
    x = np.random.default_rng(0).normal(size=(50, 5))
    keys = [f"event {i}" for i in range(2000)]
    expected = [policy.decide(x, key=key).arm for key in keys]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda key: policy.decide(x, key=key).arm, keys))
    assert found == expected


def test_keys_of_any_whole_number() -> None:
    """NumPy's integers are keys; what is neither a number nor a text is refused with a hint."""
    policy = rolin.RoLinTS(n_features=1, seed=1)
    assert (
        policy.decide(np.ones((9, 1)), key=np.int64(5)).arm
        == policy.decide(np.ones((9, 1)), key=5).arm
    )
    for key in (-1, 2**64, 1.5, True, b"x"):
        with pytest.raises(errors.ParameterError, match=r"pass str\(…\) of anything else"):
            policy.decide(np.ones((2, 1)), key=key)


@pytest.mark.compiled
def test_fast_normals_are_those_of_numpy(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A million draws of numbers and texts as keys, of all sizes, are the generator's, bit for bit."""
    draws = KeyedGenerator(seed)
    keys = [*range(500), 2**63 - 1, 2**63, 2**64 - 1, *(f"event-{i}" for i in range(500))]
    assert rolin.policies.kernels.fill_normals is not None
    for key in keys:
        expected = draws.at(key).standard_normal(1000)
        np.testing.assert_array_equal(draws.normals(key, 1000), expected)
    assert draws.normals(3, 0).shape == (0,)
    for size in range(1, 40):  # however many are drawn, they begin alike
        np.testing.assert_array_equal(draws.normals(5, size), draws.normals(5, 40)[:size])
    fast = draws.normals("order-4711", 20)
    monkeypatch.setattr(rolin.policies.kernels, "fill_normals", None)
    np.testing.assert_array_equal(draws.normals("order-4711", 20), fast)
