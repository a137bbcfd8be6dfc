"""Catalogues: the same decisions as over the plain arrays, in one pass."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rolin
from rolin.catalogue import kernels, workers
from rolin.catalogue.names import Names
from rolin.catalogue.products import products
from rolin.errors import ArmError, NotFiniteError, ShapeError, Unsupported
from support.catalogues import SCALES, D, array

Make = Callable[[], Any]
POLICIES: dict[str, Make] = {
    "RoLinTS": lambda: rolin.RoLinTS(n_features=D, seed=1),
    "RoLinTS, joint": lambda: rolin.RoLinTS(n_features=D, sampling="joint", seed=1),
    "with an intercept": lambda: rolin.RoLinTS(n_features=D, intercept_std=2.0, seed=1),
    "joint, intercept": lambda: rolin.RoLinTS(
        n_features=D, sampling="joint", intercept_std=2.0, seed=1
    ),
    "learned scales": lambda: rolin.RoLinTS(
        n_features=D, noise_std="learn", arm_std="learn", coef_std="learn", seed=1
    ),
    "forgetting": lambda: rolin.RoLinTS(n_features=D, half_life=20.0, seed=1),
    "RoLinUCB": lambda: rolin.RoLinUCB(n_features=D, seed=1),
    "LinTS": lambda: rolin.LinTS(n_features=D, seed=1),
    "LinTS, joint": lambda: rolin.LinTS(n_features=D, sampling="joint", seed=1),
    "LinUCB": lambda: rolin.LinUCB(n_features=D, seed=1),
    "Greedy": lambda: rolin.Greedy(n_features=D, seed=1),
    "LogisticRoLinTS": lambda: rolin.LogisticRoLinTS(n_features=D, seed=1),
    "LogisticRoLinUCB": lambda: rolin.LogisticRoLinUCB(n_features=D, seed=1),
}
MARGINAL = [name for name in POLICIES if "joint" not in name]

# -- the same decisions ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_decisions_are_those_over_the_array(
    name: str, dtype: type, rng: np.random.Generator
) -> None:
    """Policy and catalogue side by side, learning, some arms in other contexts than theirs."""
    ours, theirs = POLICIES[name](), POLICIES[name]()
    x = array(rng).astype(dtype)
    catalogue = rolin.Catalogue(ours, x)
    wide = x.astype(np.float64)
    for t in range(120):
        top_k = 1 + t % 4
        exclude = [t % 7] if t % 3 else []
        a = catalogue.decide(top_k=top_k, exclude=exclude)
        b = theirs.decide(wide, top_k=top_k, exclude=exclude)
        assert a.ranking == b.ranking
        np.testing.assert_array_equal(a.contexts, b.contexts)
        reward = float(rng.random() < 0.5)
        for policy in (ours, theirs):
            policy.update(a.arm, a.context, reward)
        for _ in range(t % 3):  # several rewards between two decisions
            arm = int(rng.integers(300))
            for policy in (ours, theirs):
                policy.update(arm, wide[arm], 1.0)
        if t % 10 == 0:
            other = rng.normal(size=D)
            for policy in (ours, theirs):
                policy.update(t % 5, other, 0.0)


@pytest.mark.parametrize("name", MARGINAL)
def test_means_and_widths_follow_the_posterior(name: str, rng: np.random.Generator) -> None:
    """After many steps, what is kept of the arms is what one dense prediction says, to 1e-10."""
    policy = POLICIES[name]()
    x = array(rng, 100)
    catalogue = rolin.Catalogue(policy, x)
    for t in range(300):
        arm = int(rng.integers(100))
        policy.update(arm, x[arm], float(rng.random() < 0.5))
        if t % 3 == 0:
            catalogue.decide()
    catalogue.decide()
    cache = catalogue._cache
    _, table = policy.posterior.score(x, policy._model._index.find(range(100)).rows, np.zeros(100))
    np.testing.assert_allclose(cache.mean, table[0], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(cache.std, table[1], rtol=1e-10)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("p", [1, 2, 3, 4, 5, 6, 7, 8, 15, 64])
def test_products_of_all_sizes(p: int, dtype: type, rng: np.random.Generator) -> None:
    """Exact for small integers, whatever the number of arms, features and vectors; nothing else is written."""
    for size in [1, 2, 3, 4, 5, 6, 7, 8, 33]:
        x = rng.integers(-9, 10, (size, p)).astype(dtype)
        for m in [1, 2, 3, 4, 5]:
            vectors = rng.integers(-9, 10, (m, 1 + p)).astype(np.float64)
            out = np.full((m, size + 8), np.pi)
            products(x, vectors, out[:, 4:-4])
            expected = vectors[:, :1] + vectors[:, 1:] @ x.T.astype(np.float64)
            np.testing.assert_array_equal(out[:, 4:-4], expected)
            assert (out[:, :4] == np.pi).all()
            assert (out[:, -4:] == np.pi).all()


def test_products_are_in_double_precision(rng: np.random.Generator) -> None:
    """Features in single precision are multiplied like the same features in double precision."""
    x = rng.standard_normal((21, 13)).astype(np.float32)
    vectors = rng.standard_normal((3, 14))
    out = np.empty((3, 21))
    products(x, vectors, out)
    expected = vectors[:, :1] + vectors[:, 1:] @ x.T.astype(np.float64)
    np.testing.assert_allclose(out, expected, rtol=0, atol=1e-14)


@given(data=st.data())
def test_steps_take_one_covariance_to_another(data: st.DataObject) -> None:
    """`decompose_difference` against the matrices themselves: ee' add up to their difference."""
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    size, m = data.draw(st.integers(1, 12)), data.draw(st.integers(0, 5))
    scale = data.draw(st.sampled_from([1e-8, 1.0, 1e8]))
    unit = scale * 10.0 ** rng.integers(-6, 7, size=size)  # coefficients of very different scales
    root = unit[:, None] * rng.normal(size=(size, size))
    now = root @ root.T
    e = rng.normal(size=(m, size)) * unit
    before = now + e.T @ e
    steps, kept = np.empty((max(m, 1), size)), before.copy()
    found = kernels.decompose_difference(kept, now, 1e-13, steps)
    assert 0 <= found <= min(m, size)
    root = np.sqrt(np.diag(before))
    units = root[:, None] * root
    np.testing.assert_allclose(kept / units, now / units, atol=1e-12)
    taken = before - steps[:found].T @ steps[:found]
    np.testing.assert_allclose(taken / units, kept / units, atol=1e-12)
    if m:  # the other way, something has become less certain
        assert kernels.decompose_difference(now.copy(), before, 1e-13, steps) == -1


def test_rounding_does_not_gather(rng: np.random.Generator) -> None:
    """Ten thousand steps that take the covariance to a millionth: widths are right to 1e-9."""
    policy = rolin.LinTS(n_features=3, coef_std=10.0, noise_std=0.1, seed=0)
    x = rng.normal(size=(50, 3))
    catalogue = rolin.Catalogue(policy, x)
    for t in range(10_000):
        arm = int(rng.integers(50))
        policy.update(arm, x[arm], float(rng.normal()))
        if t % 5 == 0:
            catalogue.decide()
    catalogue.decide()
    expected = policy.predict(x).std
    assert expected.max() < 1e-2
    np.testing.assert_allclose(catalogue._cache.std, expected, rtol=1e-9)


@pytest.mark.parametrize("name", POLICIES)
def test_a_batch_is_one_after_the_other(name: str, rng: np.random.Generator) -> None:
    """`decide_many` shares passes, and changes no decision."""
    policy = POLICIES[name]()
    catalogue = rolin.Catalogue(policy, array(rng))
    for arm in range(15):  # enough for learned scales
        policy.update(arm, catalogue.contexts([arm])[0], float(arm % 3 == 0))
    other = copy.deepcopy(policy)
    single = rolin.Catalogue(other, catalogue.contexts(range(300)))
    many = catalogue.decide_many(19, top_k=2, exclude=[7])
    for decision in many:
        assert decision.ranking == single.decide(top_k=2, exclude=[7]).ranking
    assert policy.n_decisions == other.n_decisions == 19
    assert catalogue.decide(key="order-1").arm == single.decide(key="order-1").arm
    assert policy.n_decisions == 19


@pytest.mark.parametrize("name", ["RoLinTS", "RoLinTS, joint", "RoLinUCB"])
def test_candidates_are_a_question_of_their_own(name: str, rng: np.random.Generator) -> None:
    """Some arms of the catalogue, as the policy would decide over their contexts."""
    policy, x = POLICIES[name](), array(rng)
    catalogue = rolin.Catalogue(policy, x, [f"item-{i}" for i in range(300)])
    other = copy.deepcopy(policy)
    arms = [f"item-{i}" for i in (5, 200, 17, 3)]
    decision = catalogue.decide(arms, top_k=2)
    assert decision.ranking == other.decide(x[[5, 200, 17, 3]], arms, top_k=2).ranking
    with pytest.raises(ArmError, match="'item-999' is not in the catalogue"):
        catalogue.decide(["item-999"])
    with pytest.raises(ArmError, match="'item-1' is given twice"):
        catalogue.decide(["item-1", "item-1"])
    with pytest.raises(ArmError, match="no arms were given"):
        catalogue.decide([])


def test_ties_are_broken_at_random(rng: np.random.Generator) -> None:
    """Equal arms are equally often first, and a ranking holds each once."""
    policy = rolin.Greedy(n_features=1, seed=3, **SCALES)
    catalogue = rolin.Catalogue(policy, np.ones((50, 1)))
    firsts = [catalogue.decide(top_k=3).ranking for _ in range(600)]
    counts = np.bincount([ranking[0] for ranking in firsts], minlength=50)
    assert all(len(set(ranking)) == 3 for ranking in firsts)
    # 600/50 = 12 each, sd 3.4: chi² with 49 degrees of freedom, sd 9.9; k = 4
    assert ((counts - 12.0) ** 2 / 12.0).sum() < 49 + 4 * 9.9


@given(
    scores=st.lists(st.floats(-5, 5, width=16), min_size=1, max_size=60),
    n=st.integers(1, 10),
)
def test_the_highest_are_found_by_a_heap(scores: list[float], n: int) -> None:
    """Against sorting."""
    n = min(n, len(scores))
    found = kernels.highest(np.array(scores), n)
    assert len(set(found.tolist())) == n
    assert sorted(np.array(scores)[found]) == sorted(scores)[len(scores) - n :]


def test_features_of_any_scale_are_followed(rng: np.random.Generator) -> None:
    """A raw price in millions beside a share, each with a prior that suits it."""
    policy = rolin.RoLinUCB(n_features=2, coef_std=(1.0, 1e-6), noise_std=0.3, seed=0)
    x = rng.normal(size=(40, 2)) * [1.0, 1e6]
    catalogue = rolin.Catalogue(policy, x)
    for _ in range(1500):
        arm = int(rng.integers(40))
        policy.update(arm, x[arm], float(rng.normal()))
        catalogue.decide()
    np.testing.assert_allclose(catalogue._cache.std, policy.posterior.predict(x).std, rtol=1e-9)


def test_collinear_features_are_followed(rng: np.random.Generator) -> None:
    """A direction that is learned to a millionth, between two features that are not."""
    policy = rolin.LinTS(n_features=2, coef_std=10.0, noise_std=0.01, seed=0)
    x = np.column_stack([v := rng.normal(size=30), v + 1e-9 * rng.normal(size=30)])
    catalogue = rolin.Catalogue(policy, x)
    for _ in range(2000):
        arm = int(rng.integers(30))
        policy.update(arm, x[arm], float(rng.normal()))
        catalogue.decide()
    np.testing.assert_allclose(catalogue._cache.std, policy.predict(x).std, rtol=1e-6)


def test_weights_that_come_back_are_noticed(rng: np.random.Generator) -> None:
    """Forgetting and learning may leave an arm's weight as it was, in another context."""
    policy = rolin.RoLinTS(n_features=2, seed=0, **SCALES)
    x = rng.normal(size=(3, 2))
    catalogue = rolin.Catalogue(policy, x)
    policy.update(0, x[0], 1.0, weight=2.0)
    catalogue.decide()
    policy.decay(0.5)
    policy.update(0, rng.normal(size=2), 1.0)
    assert policy.moments.weight.tolist() == [2.0]
    catalogue.decide()
    np.testing.assert_allclose(catalogue._cache.mean, policy.predict(x).mean, rtol=1e-12)


# -- arms that come and go -------------------------------------------------------------------------


@pytest.mark.parametrize("name", POLICIES)
def test_arms_come_and_go(name: str, rng: np.random.Generator) -> None:
    """As a catalogue that was made of the arms that are there now."""
    policy = POLICIES[name]()
    x = array(rng, 40)
    catalogue = rolin.Catalogue(policy, x, [f"a{i}" for i in range(40)])
    here = {f"a{i}": x[i] for i in range(40)}
    for t in range(60):
        if t % 4 == 0:
            new = rng.normal(size=(3, D))
            names = [f"b{t}", f"c{t}", "again"] if t == 8 else [f"b{t}", f"c{t}", f"d{t}"]
            catalogue.add(new, names)
            here |= dict(zip(names, new, strict=True))
        if t % 5 == 1:
            gone = list(here)[t % 7 :: 9]
            catalogue.remove(gone)
            for arm in gone:
                del here[arm]
        if t == 30:  # an arm that was there comes back, with other features
            catalogue.remove([gone := next(iter(here))])
            here[gone] = rng.normal(size=D)
            catalogue.add([here[gone]], [gone])
        decision = catalogue.decide(top_k=2)
        assert set(decision.ranking) <= here.keys()
        policy.update(decision.arm, decision.context, float(rng.random() < 0.5))
        assert len(catalogue) == len(here)
    arms = list(here)
    mean, std = catalogue.predict(arms)
    expected = policy.predict(here)
    np.testing.assert_allclose(mean, expected.mean, rtol=1e-12)
    np.testing.assert_allclose(std, expected.std, rtol=1e-12)
    if name in MARGINAL and not policy.binary:
        catalogue.decide()
        slots = catalogue._store.slots_of(arms)
        np.testing.assert_allclose(catalogue._cache.mean[slots], expected.mean, rtol=1e-9)
        given_scales = policy.posterior.predict(np.array(list(here.values())), arms).std
        np.testing.assert_allclose(catalogue._cache.std[slots], given_scales, rtol=1e-9)
    with pytest.raises(ArmError, match="is in the catalogue already"):
        catalogue.add([here[arms[0]]], [arms[0]])
    with pytest.raises(ArmError, match="'nobody' is not in the catalogue"):
        catalogue.remove(["nobody"])
    with pytest.raises(ArmError, match="given twice"):
        catalogue.add(rng.normal(size=(2, D)), ["new", "new"])
    before = catalogue.nbytes
    for _ in range(30):  # slots of arms that were added are used again
        catalogue.add(rng.normal(size=(20, D)), list(range(20)))
        catalogue.remove(list(range(20)))
    assert catalogue.nbytes < before + 30_000
    with pytest.raises(NotFiniteError, match="arm 'new': feature 0 is inf"):
        catalogue.add([[np.inf] * D], ["new"])
    with pytest.raises(ShapeError, match=r"expected \(K, 5\)"):
        catalogue.add([[1.0]], ["new"])
    with pytest.raises(ShapeError, match=r"contexts is a dict, expected .*list\(contexts.values"):
        catalogue.add({"new": [1.0] * D}, ["new"])
    with pytest.raises(ShapeError, match="contexts is a dict") as raised:
        rolin.Catalogue(rolin.RoLinTS(n_features=D), {i: [1.0] * D for i in range(500)})
    assert len(str(raised.value)) < 200
    assert len(catalogue) == len(here)


def test_arms_that_the_policy_removed_are_not_chosen(rng: np.random.Generator) -> None:
    """Removed, restored with or without the past: as `policy.decide` has it."""
    policy = rolin.RoLinTS(n_features=D, seed=0)
    x = array(rng, 10)
    catalogue = rolin.Catalogue(policy, x)
    for arm in range(10):
        policy.update(arm, x[arm], 10.0 * (arm == 4))
    assert catalogue.decide().arm == 4
    policy.remove_arm(4)
    assert 4 not in {d.arm for d in catalogue.decide_many(50)}
    policy.restore_arm(4)
    assert catalogue.decide().arm == 4
    policy.remove_arm(4)
    policy.restore_arm(4, with_past=False)
    catalogue.decide()
    np.testing.assert_allclose(catalogue._cache.mean, policy.predict(x).mean, rtol=1e-12)
    for arm in range(10):
        policy.remove_arm(arm) if arm != 4 else None
    policy.update(4, x[4], 1.0)
    policy.remove_arm(4)
    with pytest.raises(ArmError, match="all arms are excluded"):
        catalogue.decide()


# -- probabilities ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["RoLinTS", "RoLinTS, joint", "LinTS, joint", "LogisticRoLinTS"])
def test_probabilities_are_estimated_with_their_error(name: str, rng: np.random.Generator) -> None:
    """Against the policy's own probabilities, within 5 standard errors of both."""
    policy = POLICIES[name]()
    x = array(rng, 12)
    for _ in range(60):
        arm = int(rng.integers(12))
        policy.update(arm, x[arm], float(rng.random() < 0.5))
    catalogue = rolin.Catalogue(policy, x)
    catalogue.remove([3])
    p, error = catalogue.probabilities_with_error(draws=3000)
    left = [i for i in range(12) if i != 3]
    exact, exact_error = policy.probabilities_with_error(x[left], left)
    assert p.shape == (11,)
    assert p.sum() == pytest.approx(1.0, abs=0.05)
    # LinTS's arms are all drawn by their coefficients: given them, one is certain
    assert (np.abs(p - exact) < 5 * np.hypot(error, exact_error) + 1e-3).all()
    with pytest.raises(Unsupported, match=r"11 arms can only be estimated.* draws=200"):
        catalogue.probabilities()
    again = catalogue.probabilities(draws=3000)
    assert isinstance(again, np.ndarray)
    np.testing.assert_array_equal(again, p)


def test_rules_that_draw_nothing_have_exact_probabilities(rng: np.random.Generator) -> None:
    """One, or one over the number of ties."""
    policy = rolin.RoLinUCB(
        n_features=1,
        width=1.0,
        coef_std=1.0,
        arm_std=0.5,
        noise_std=1.0,
        intercept_std=None,
        seed=0,
    )
    catalogue = rolin.Catalogue(policy, [[1.0], [2.0], [2.0], [0.5]])
    p, error = catalogue.probabilities_with_error()
    assert p.tolist() == [0.0, 0.5, 0.5, 0.0]
    assert error.tolist() == [0.0] * 4
    assert catalogue.probabilities().tolist() == p.tolist()


def test_a_policy_with_draws_of_its_own_decides_but_has_no_probabilities(
    rng: np.random.Generator,
) -> None:
    """A rule that only declares its draws is scored like `policy.decide`; a rule of its own is rejected."""

    class Optimist(rolin.LinearPolicy):
        def draws(self, n_arms: int, key: Any) -> Any:
            return np.full(n_arms, 2.0)

    class Contrarian(rolin.RoLinTS):
        def score(self, candidates: Any, key: Any) -> Any:
            raise AssertionError

    x = array(rng, 20)
    policy = Optimist(n_features=D, seed=3)
    catalogue = rolin.Catalogue(policy, x)
    assert catalogue.decide().arm == Optimist(n_features=D, seed=3).decide(x).arm
    with pytest.raises(Unsupported, match="Optimist cannot compute the probabilities"):
        catalogue.probabilities(draws=10)
    with pytest.raises(Unsupported, match="Contrarian cannot choose from a catalogue"):
        rolin.Catalogue(Contrarian(n_features=D), x)


# -- memory, threads, names ------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("named", ["range", "numbers", "texts"])
def test_memory_is_what_is_promised(dtype: type, named: str, rng: np.random.Generator) -> None:
    """At most half the features' own memory more, and 64 bytes an arm."""
    import tracemalloc

    n, d = 50_000, 64
    x = rng.normal(size=(n, d)).astype(dtype)
    arms: Any = {
        "range": range(n),
        "numbers": rng.permutation(10 * n)[:n],
        "texts": [f"sku-{i:08d}" for i in range(n)],
    }[named]
    for policy in (
        rolin.RoLinTS(n_features=d, seed=0, **SCALES),
        rolin.RoLinTS(n_features=d, seed=0, sampling="joint", **SCALES),
    ):
        # what is compiled, at the first of these calls, is not the catalogue's
        warm = rolin.Catalogue(policy, x)
        warm.decide()
        warm.decide_many(10, top_k=3)
        tracemalloc.start()
        catalogue = rolin.Catalogue(policy, x, arms)
        catalogue.decide()
        catalogue.decide_many(10, top_k=3)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        beyond = peak - (n * 200 if named == "texts" else 0)  # the names while they are read
        assert beyond <= 0.5 * x.nbytes + 64 * n
        assert catalogue.nbytes <= 1.5 * x.nbytes + 64 * n


@pytest.fixture(params=["one thread", "many threads"])
def threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let one thread do all the work, as for few arms; or many, as for many arms."""
    monkeypatch.setattr(workers, "_FEW", 10**9 if request.param == "one thread" else 0)


@pytest.mark.parametrize(
    "name", ["RoLinTS", "RoLinTS, joint", "RoLinUCB", "with slopes", "joint, slopes"]
)
def test_threads_change_no_decision(
    name: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same arms, bit for bit the same scores, in one block or several, alone or in a batch."""
    sampling: Any = "joint" if "joint" in name else "marginal"
    make = POLICIES.get(
        name, lambda: rolin.RoLinTS(n_features=D, slope_std=0.5, sampling=sampling, seed=1)
    )
    x = rng.normal(size=(70_001, D))
    found = []
    for few in (0, 10**9):
        monkeypatch.setattr(workers, "_FEW", few)
        policy = make()
        policy.update_many(range(12), x[:12], np.arange(12.0))  # enough for learned scales
        catalogue = rolin.Catalogue(policy, x)
        catalogue.add(x[:5] + 1.0, [f"new {i}" for i in range(5)])
        catalogue.remove([3, 40_000])
        ranked = []
        for t in range(4):
            decision = catalogue.decide(top_k=3, exclude=[t])
            ranked.append(decision.ranking)
            policy.update(decision.arm, decision.context, float(t))
        ranked += [d.ranking for d in catalogue.decide_many(3)]
        situation, available = [None], catalogue._available([])
        scores = next(iter(catalogue._scoring.scores(situation, [9], available)))
        found.append((ranked, scores.tobytes()))
    assert found[0] == found[1]


def test_blocks_cover_all_arms_evenly(rng: np.random.Generator) -> None:
    """Every slot is in one block, and no block is more than one arm longer than another."""
    policy = rolin.RoLinTS(n_features=1, seed=0)
    for n, size in ((1, 7), (7, 7), (8, 7), (100, 33), (65, 32)):
        store = rolin.Catalogue(policy, rng.normal(size=(n, 1)))._store
        blocks = list(store.blocks(size))
        assert [slot for b in blocks for slot in range(b.start, b.stop)] == list(range(n))
        lengths = [b.stop - b.start for b in blocks]
        assert max(lengths) <= size
        assert max(lengths) - min(lengths) <= 1
        assert all(len(b.features) == b.stop - b.start for b in blocks)


@pytest.mark.usefixtures("threads")
def test_a_child_process_can_decide(rng: np.random.Generator) -> None:
    """Forked after the first decision, as servers do."""
    import multiprocessing

    catalogue = rolin.Catalogue(rolin.RoLinTS(n_features=D, seed=2, **SCALES), array(rng))
    expected = catalogue.decide(key="k").arm
    KEPT[:] = [catalogue]
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply_async(_decide_in_child).get(60) == expected


KEPT: list[rolin.Catalogue] = []


def _decide_in_child() -> Any:
    return KEPT[0].decide(key="k").arm


@pytest.mark.usefixtures("threads")
def test_threads_may_decide_at_once(rng: np.random.Generator) -> None:
    """With keys, from several threads: the same as one after the other."""
    policy = rolin.RoLinTS(n_features=D, seed=2, **SCALES)
    catalogue = rolin.Catalogue(policy, array(rng, 500))
    expected = {f"k{i}": catalogue.decide(key=f"k{i}").arm for i in range(40)}
    found: dict[str, Any] = {}

    def work(keys: list[str]) -> None:
        for key in keys:
            found[key] = catalogue.decide(key=key).arm

    keys = list(expected)
    others = [threading.Thread(target=work, args=(keys[i::4],)) for i in range(4)]
    for other in others:
        other.start()
    for other in others:
        other.join()
    assert found == expected


NAME = st.one_of(st.integers(), st.text(max_size=8), st.sampled_from(["\0i5", "\0", "\ud800"]))


@given(names=st.lists(NAME, max_size=30, unique=True), others=st.lists(NAME, max_size=5))
def test_names_are_found_again(names: list[Any], others: list[Any]) -> None:
    """Integers, texts of any letters, both together: each in its slot, all others in none."""
    kept = Names(names)
    assert [kept[i] for i in range(len(names))] == names
    assert kept.find(names).tolist() == list(range(len(names)))
    expected = [names.index(name) if name in names else -1 for name in others]
    assert kept.find(others).tolist() == expected
    if names:
        with pytest.raises(ArmError, match="is given twice"):
            Names([*names, names[-1]])


def test_names_of_other_kinds() -> None:
    """Ranges and arrays as they are; True is 1; what is neither text nor integer is refused."""
    large = np.array([2**63 + 5, 7], dtype=np.uint64)
    assert Names(large).find([2**63 + 5, 7, -1]).tolist() == [0, 1, -1]
    assert Names(np.array([-(2**63), 3])).find([-(2**63)]).tolist() == [0]
    assert Names(range(5, 9)).find([5, 8, 9, "5", True]).tolist() == [0, 3, -1, -1, -1]
    assert Names(np.array([30, 10, 20])).find([10, 10.0, "10", 2**70]).tolist() == [1, 1, -1, -1]
    assert Names([True, "1"]).find([1, "1", 1.0]).tolist() == [0, 1, 0]
    with pytest.raises(ArmError, match="expected a string or an integer as the name of an arm"):
        Names([("a", 1)])
