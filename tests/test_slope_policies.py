"""Policies whose arms have slopes: beside the dense reference, with binary rewards, and what they reject."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import rolin
from rolin import Scales
from rolin.errors import ParameterError, SharedContextWarning, Unsupported
from rolin.model.logistic_slopes import LogisticSlopePosterior
from rolin.model.posterior import Posterior
from rolin.model.slopes import SlopePosterior
from support.oracles import Dense, History

SCALES: dict[str, Any] = {
    "coef_std": 1.2,
    "arm_std": 0.8,
    "noise_std": 0.6,
    "intercept_std": 2.0,
    "exploration": 1.0,
}


@pytest.mark.parametrize("slopes", [None, [1], [0, 2]])
def test_decisions_are_those_of_the_dense_model(slopes: list[int] | None, seed: int) -> None:
    """NaiveRoLinTS, which inverts the (D + K q) model, makes the same decisions and predictions all along."""
    rng, options = np.random.default_rng(seed), {**SCALES, "slope_std": 0.7, "slopes": slopes}
    fast = rolin.RoLinTS(n_features=3, seed=1, **options)
    naive = rolin.NaiveRoLinTS(n_features=3, seed=1, **options)
    names = list("abcde")
    for t in range(60):
        x = rng.normal(size=(5, 3)) if t % 2 else rng.normal(size=3)
        one, other = fast.decide(x, names), naive.decide(x, names)
        assert one.arm == other.arm
        np.testing.assert_allclose(
            fast.probabilities(x, names), naive.probabilities(x, names), atol=1e-8
        )
        reward, weight = float(rng.normal()), 0.5 + rng.random()
        for policy in (fast, naive):
            policy.update(one.arm, one.context, reward, weight)
    assert naive.posterior.log_evidence == pytest.approx(fast.posterior.log_evidence, rel=1e-9)
    mine, theirs = (policy.posterior.arm_effects(names) for policy in (fast, naive))
    np.testing.assert_allclose(mine.mean, theirs.mean, rtol=1e-7)
    np.testing.assert_allclose(mine.std, theirs.std, rtol=1e-7)
    np.testing.assert_allclose(
        fast.posterior.shrinkage(names), naive.posterior.shrinkage(names), rtol=1e-7
    )
    again = rolin.NaiveRoLinTS(n_features=3, seed=1, **options)
    again.posterior.fill(fast.moments)
    assert again.posterior.log_evidence == pytest.approx(fast.posterior.log_evidence, rel=1e-9)


def test_joint_probabilities_of_the_dense_model() -> None:
    """With joint sampling, the naive policy has the same probabilities: both average over the same coefficients."""
    rng, options = np.random.default_rng(0), {**SCALES, "slope_std": 0.7, "sampling": "joint"}
    fast, naive = (
        kind(n_features=2, seed=1, **options) for kind in (rolin.RoLinTS, rolin.NaiveRoLinTS)
    )
    for t in range(20):
        x, r = rng.normal(size=2), float(rng.normal())
        for policy in (fast, naive):
            policy.update(t % 3, x, r)
    x = rng.normal(size=(4, 2))
    np.testing.assert_allclose(fast.probabilities(x), naive.probabilities(x), atol=1e-9)


def test_no_slopes_is_another_class() -> None:
    """Without slopes, policies have the posterior of the paper's model, with none of the arrays of slopes."""
    assert type(rolin.RoLinTS(n_features=2, **SCALES).posterior) is Posterior
    assert type(rolin.RoLinTS(n_features=2, slope_std=0.0, **SCALES).posterior) is Posterior
    assert type(rolin.RoLinTS(n_features=2, slope_std=0.1, **SCALES).posterior) is SlopePosterior


def test_an_unseen_arm_has_its_prior() -> None:
    """An arm that was never seen reacts like the shared coefficients, and is uncertain by its own slopes."""
    policy = rolin.RoLinTS(n_features=2, slope_std=[0.3, 0.9], seed=1, **SCALES)
    rng = np.random.default_rng(0)
    for t in range(500):
        policy.update(t % 5, rng.normal(size=2), float(rng.normal()))
    x = np.array([2.0, -1.0])
    mean, std = policy.predict({"new": x})
    theta = policy.posterior.coefficients
    at = np.append(x, 1.0)
    assert mean.item() == pytest.approx(at @ theta.mean)
    own = 0.8**2 + (0.3 * 2.0) ** 2 + (0.9 * 1.0) ** 2
    assert std.item() ** 2 == pytest.approx(own + at @ theta.covariance @ at)


@pytest.mark.parametrize("kind", [rolin.RoLinTS, rolin.NaiveRoLinTS])
def test_a_list_of_zeros_can_be_saved(kind: Any, tmp_path: Path) -> None:
    """A policy whose slopes all have a scale of zero has the model without slopes, also in its file."""
    policy = kind(n_features=2, slope_std=[0.0, 0.0], seed=1, **SCALES)
    policy.update("a", [1.0, 2.0], 3.0)
    policy.save(tmp_path / "state")
    assert "slope_std" not in policy.settings
    assert rolin.load(tmp_path / "state").predict({"a": [1.0, 2.0]}).mean == pytest.approx(
        policy.predict({"a": [1.0, 2.0]}).mean
    )


def test_settings_do_not_depend_on_what_was_learned() -> None:
    """A policy that learns its slopes has the same settings before and after the first estimate."""
    policy = rolin.RoLinTS(n_features=1, slope_std="learn", seed=1)
    before = policy.settings
    for t in range(30):
        policy.update(t % 3, [float(t % 5)], float(t % 2))
    assert policy.scale_history
    assert policy.settings == before


def test_a_fit_gives_each_feature_its_scale() -> None:
    """Scales of slopes that are given in another order than the features stay with their features."""
    rng = np.random.default_rng(0)
    moments = rolin.Moments.of(
        range(30), rng.normal(size=(30, 3)), rng.normal(size=30), slopes=(0, 2)
    )
    for slopes in ([2, 0], [0, 2]):
        stds = [1.0, 0.01] if slopes == [2, 0] else [0.01, 1.0]
        policy = rolin.RoLinTS.from_fit(moments, slope_std=stds, slopes=slopes)
        assert policy.scales.own_stds(3)[1:].tolist() == [0.01, 1.0]


def test_the_dense_model_answers_like_the_fast_one() -> None:
    """What separates coefficients and arms is the same for both: own coefficients, joint draws, loadings."""
    rng, options = np.random.default_rng(0), {**SCALES, "slope_std": 0.7}
    fast, naive = (
        kind(n_features=2, seed=1, **options) for kind in (rolin.RoLinTS, rolin.NaiveRoLinTS)
    )
    for t in range(30):
        x, r = rng.normal(size=2), float(rng.normal())
        for policy in (fast, naive):
            policy.update(t % 3, x, r)
    one, other = (policy.posterior.own_coefficients([0, 2]) for policy in (fast, naive))
    assert one.features == other.features == (0, 1)
    np.testing.assert_allclose(one.mean, other.mean, rtol=1e-8)
    np.testing.assert_allclose(one.covariance, other.covariance, rtol=1e-8)
    for name in ("slopes", "arm_coefficients"):
        mine, theirs = (getattr(policy.posterior, name)() for policy in (fast, naive))
        assert (mine.arms, mine.features) == (theirs.arms, theirs.features)
        np.testing.assert_allclose(mine.mean, theirs.mean, rtol=1e-8)
        np.testing.assert_allclose(mine.std, theirs.std, rtol=1e-8)
    vectors = rng.normal(size=(4, 3))
    a, b = (np.square(policy.posterior.loadings(vectors)).sum(axis=1) for policy in (fast, naive))
    np.testing.assert_allclose(a, b, rtol=1e-8)
    # The root of M⁻¹ of a running posterior is another one.
    rebuilt = SlopePosterior.of(naive.scales, fast.moments)
    drawn = [p.draw_model([0, 1], np.random.default_rng(2)) for p in (rebuilt, naive.posterior)]
    for mine, theirs in zip(*drawn, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-7)


def test_sparse_and_dense_questions_have_one_answer() -> None:
    """A sparse matrix of equal rows is one context for all arms, too: the same decisions as with an array."""
    sparse = pytest.importorskip("scipy.sparse")
    policy = rolin.RoLinTS(n_features=3, slope_std="learn", sampling="joint", seed=1)
    rng = np.random.default_rng(0)
    for t in range(60):
        policy.update(t % 4, rng.normal(size=3), float(rng.normal()))
    x = np.tile([1.0, 0.0, -2.0], (4, 1))
    for key in range(30):
        assert policy.decide(sparse.csr_array(x), key=key).arm == policy.decide(x, key=key).arm


@pytest.mark.parametrize("options", [{"n_features": 0}, {"n_features": 2, "slopes": []}])
def test_no_feature_with_slopes_is_explored_as_usual(options: Any, tmp_path: Path) -> None:
    """Where no feature has slopes, "auto" is as without slopes, and files restore the scales."""
    policy = rolin.RoLinTS(slope_std="learn", seed=1, **options)
    x = [0.5] * options["n_features"]
    for t in range(45):
        policy.update(t % 3, x, float(t % 4))
    assert policy.draw_rule(policy.candidates(x, [0, 1, 2])) == policy.draw_rule()
    policy.save(tmp_path / "state")
    loaded = rolin.load(tmp_path / "state")
    assert isinstance(loaded, rolin.RoLinTS)
    assert loaded.scales == policy.scales


def test_a_returned_arm_is_new_or_has_its_past() -> None:
    """Removing an arm and restoring it without its past gives it the prior of a new arm."""
    policy = rolin.RoLinTS(n_features=1, slope_std=0.5, seed=1, **SCALES)
    for _ in range(20):
        policy.update("a", [1.0], 3.0)
        policy.update("b", [1.0], 0.0)
    with_past = policy.predict({"a": [1.0]})
    policy.remove_arm("a")
    policy.restore_arm("a")
    assert policy.predict({"a": [1.0]}).mean == with_past.mean
    policy.remove_arm("a")
    policy.restore_arm("a", with_past=False)
    again, new = policy.predict({"a": [1.0]}), policy.predict({"new": [1.0]})
    assert (again.mean, again.std) == (new.mean, new.std)
    policy.update("a", [1.0], 3.0)
    assert policy.predict({"a": [1.0]}).std < new.std


# -- binary rewards ----------------------------------------------------------------------------


def test_outcomes_are_gaussian_observations_of_the_logit(seed: int) -> None:
    """The logistic posterior is the dense Gaussian of the sites that its outcomes became."""
    rng, scales = (
        np.random.default_rng(seed),
        Scales(arm_std=0.9, slope_std=(0.4, 0.8), intercept_std=2.0),
    )
    posterior = LogisticSlopePosterior(scales, 2)
    arms, x = rng.integers(4, size=50), rng.normal(size=(50, 2))
    sites = []
    for arm, context in zip(arms.tolist(), x, strict=True):
        outcome = float(rng.random() < 0.3)
        sites.append(posterior.site(arm, context, outcome, 1.5))
        posterior.observe(arm, context, outcome, 1.5)
    r, h = np.array(sites).T
    dense = Dense(dataclasses.replace(scales, noise_std=1.0), History(arms, x, r, h), 4)
    at = rng.normal(size=(4, 2))
    mean, covariance = dense.predict(at, np.arange(4))
    got = posterior.predict(at, range(4))
    np.testing.assert_allclose(got.logit_mean, mean, rtol=1e-8)
    np.testing.assert_allclose(got.logit_std**2, np.diag(covariance), rtol=1e-8)
    many = LogisticSlopePosterior(scales, 2)
    rng = np.random.default_rng(seed)
    rng.integers(4, size=50), rng.normal(size=(50, 2))
    many.observe_many(arms.tolist(), x, (rng.random(50) < 0.3).astype(float), np.full(50, 1.5))
    for one, other in zip(many.arrays().values(), posterior.arrays().values(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_one_outcome_is_the_exact_update_of_the_logit() -> None:
    """After one outcome, mean and variance of the logit are those of the exact posterior, by quadrature."""
    posterior = LogisticSlopePosterior(Scales(arm_std=0.5, slope_std=1.0, intercept_std=1.0), 1)
    x = np.array([2.0])
    prior_mean = 0.0
    prior_variance = 2.0**2 + 1.0 + 0.5**2 + 2.0**2  # of θ x, intercept, effect and slope
    posterior.observe("a", x, 1)
    eta = np.linspace(-30, 30, 200_001)
    density = np.exp(-0.5 * (eta - prior_mean) ** 2 / prior_variance) / (1.0 + np.exp(-eta))
    density /= density.sum()
    got = posterior.predict([x], ["a"])
    mean = float(density @ eta)
    assert got.logit_mean.item() == pytest.approx(mean, rel=1e-6)
    assert got.logit_std.item() ** 2 == pytest.approx(float(density @ (eta - mean) ** 2), rel=1e-6)


def test_clicks_reveal_slopes(seed: int) -> None:
    """Two arms that react in opposite ways to the same feature: the logistic policy learns which is which.

    1000 outcomes with logits ±2 leave a standard deviation of the slopes below 0.3; 2 is 6 of them from zero.
    """
    rng = np.random.default_rng(seed)
    policy = rolin.LogisticRoLinTS(n_features=1, slope_std="learn", seed=seed)
    for t in range(1000):
        x, arm = rng.normal(size=1), t % 2
        click = rng.random() < 1.0 / (1.0 + np.exp(-2.0 * x[0] * (1 - 2 * arm)))
        policy.update(arm, x, float(click))
    slopes = policy.posterior.slopes([0, 1])
    assert (np.abs(slopes.mean[:, 0]) > 1.0).all()
    assert policy.decide([1.5], arms=[0, 1]).arm == 0
    assert policy.decide([-1.5], arms=[0, 1]).arm == 1
    assert policy.scales.slope_std > 0.5


# -- what is rejected --------------------------------------------------------------------------


def test_bayes_says_why_it_has_no_slopes() -> None:
    """It cannot integrate over slopes, and names the policy that can learn them."""
    with pytest.raises(Unsupported, match=r"Use RoLinTS\(slope_std='learn'\)"):
        rolin.BayesRoLinTS(n_features=2, slope_std=0.5)
    with pytest.raises(Unsupported, match="BayesRoLinTS has no slopes"):
        rolin.BayesRoLinTS(n_features=2, slopes=[0])
    with pytest.raises(Unsupported, match="BayesRoLinTS has no slopes"):
        rolin.BayesRoLinTS(n_features=2, slope_std=np.array([0.1, 0.2]))  # type: ignore[arg-type]
    for slopes in ((), (0, 1)):
        moments = rolin.Moments.of([0, 1], np.eye(2), [1.0, 2.0], slopes=slopes)
        for given in ({"slope_std": "learn"}, {"slope_std": 0.5}, {"slopes": [0]}):
            with pytest.raises(Unsupported, match=r"Use RoLinTS\(slope_std='learn'\)"):
                rolin.BayesRoLinTS.from_fit(moments, **given)
            with pytest.raises(Unsupported, match=r"Use RoLinTS\(slope_std='learn'\)"):
                rolin.Fit(moments, ["a", "b"]).policy(rolin.BayesRoLinTS, **given)
        assert rolin.BayesRoLinTS.from_fit(moments, slope_std=0.0).moments.count == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"slopes": [0]}, "slopes=\\[0\\] with slope_std=0"),
        ({"slope_std": ("learn", 0.0)}, "slope_std=\\('learn', 0\\)"),
        ({"slope_std": "learned"}, "slope_std"),
        ({"slope_std": "learn", "learn_by": "moments"}, "moments"),
    ],
)
def test_bad_options(options: Any, message: str) -> None:
    """Options that contradict each other are rejected when the policy is created."""
    with pytest.raises(ParameterError, match=message):
        rolin.RoLinTS(n_features=2, **options)


def test_linear_policies_without_effects_have_no_slopes() -> None:
    """LinTS and LinUCB have no arm effects, so they have no slopes either; the message names a policy that has them."""
    moments = rolin.Moments.of([0, 1], np.eye(2), [1.0, 2.0])
    for kind, other in ((rolin.LinTS, "RoLinTS"), (rolin.LinUCB, "RoLinUCB")):
        message = f"{kind.__name__} has no option 'slope_std', unlike {other}. Its options: "
        with pytest.raises(rolin.errors.UnknownOption, match=message):
            kind(n_features=2, slope_std=0.5)
        with pytest.raises(rolin.errors.UnknownOption, match=message):
            kind.from_fit(moments, slope_std="learn")


# -- how much to explore -----------------------------------------------------------------------


@pytest.mark.parametrize("sampling", ["marginal", "joint"])
def test_arms_that_share_one_context_are_explored_more(sampling: Any, seed: int) -> None:
    """With slopes and one context, "auto" adds (0.5 + (b - 0.5) v) (1 - c) standard deviations, in draws and probabilities.

    v is the share of the slopes in the variance arm_std² + slope_std² |x|² of an arm that was never seen, and c = Σ s². b
    is the expected maximum of four standard normal numbers, 1.03. It is the same for equal rows of an array. In joint
    draws, only the standard deviations given the coefficients are added.
    """
    rng, names = np.random.default_rng(seed), list("abcd")
    scales = {**SCALES, "slope_std": 0.7}
    del scales["exploration"]
    policy = rolin.RoLinTS(n_features=3, seed=1, sampling=sampling, **scales)
    for t in range(40):
        policy.update(names[min(t % 6, 3)], rng.normal(size=3), float(rng.normal()))
    shares = policy.moments.weight / policy.moments.weight.sum()
    concentration = float((shares**2).sum())
    x = rng.normal(size=3)
    own = scales["slope_std"] ** 2 * float(x @ x)
    v = own / (scales["arm_std"] ** 2 + own)
    u = np.linspace(-9.0, 9.0, 20_001)
    best = np.trapezoid(4 * u * stats.norm.cdf(u) ** 3 * stats.norm.pdf(u), u)
    rules = [
        (least + (1.0 - least) * concentration, o * (1.0 - concentration))
        for least, o in ((0.1, 0.5), (0.1 + 0.1 * v, 0.5 + (best - 0.5) * v))
    ]
    usual, alone = rules
    assert policy.draw_rule() == pytest.approx(usual)
    same = np.tile(x, (4, 1))
    other = same + 1e-9 * np.arange(4)[:, None]
    rows, model = policy.candidates(x, names).rows, policy.posterior
    n_coef = model.size if sampling == "joint" else 0
    for question, rule in ((x, alone), (same, alone), (other, usual)):
        candidates = policy.candidates(question, names)
        # Blom's formula for b is 1 % off.
        assert policy.draw_rule(candidates) == pytest.approx(rule, rel=0.02)
        exploration, optimism = policy.draw_rule(candidates)
        contexts, n = np.broadcast_to(question, (4, 3)), 3000
        score = model.score_joint if sampling == "joint" else model.score
        chosen = np.zeros(4)
        for key in range(n):
            draws = exploration * policy.normals(key, n_coef + 4)
            draws[n_coef:] += optimism
            best = int(score(contexts, rows, draws).values.argmax())
            assert policy.decide(question, names, key=key).arm == names[best]
            chosen[best] += 1.0 / n
        p, error = policy.probabilities_with_error(question, names)
        assert (np.abs(chosen - p) <= 5 * np.sqrt(p * (1 - p) / n + error**2) + 1e-3).all()
        if sampling == "marginal":  # two arms have a closed form
            two = policy.candidates(question[:2] if question.ndim > 1 else question, names[:2])
            exploration, optimism = policy.draw_rule(two)
            mean, std, _ = model.score(contexts[:2], rows[:2], np.zeros(2)).table
            apart = mean[0] - mean[1] + optimism * (std[0] - std[1])
            exact = stats.norm.cdf(apart / (exploration * np.hypot(*std)))
            found = policy.probabilities(two.contexts, names[:2])[0]
            assert found == pytest.approx(exact, abs=1e-9)
    many = policy.decide_many([x, other], [names, names])
    again = [policy.decide(q, names, key=k).arm for k, q in enumerate([x, other])]
    assert [decision.arm for decision in many] == again


@pytest.mark.parametrize(
    ("size", "rule"),
    [(0.0, (0.1, 0.5)), (1e-200, (0.1, 0.5)), (1e200, (0.2, 1.54)), (1e308, (0.2, 1.54))],
)
def test_contexts_of_any_size_have_a_rule(size: float, rule: tuple[float, float]) -> None:
    """The more an arm's slopes matter in a context, the more is explored, and nothing overflows.

    The expected maximum of ten standard normal numbers is 1.54 (1.539 in tables).
    """
    policy = rolin.RoLinTS(
        n_features=3, slope_std=2.0, slopes=[0, 2], arm_std=0.5, coef_std=1.0, noise_std=1.0
    )
    candidates = policy.candidates([size, 7.0, -size], list("abcdefghij"))
    assert policy.draw_rule(candidates) == pytest.approx(rule, rel=0.01)


def test_without_slopes_one_context_changes_nothing() -> None:
    """Arms that differ by their effects only are explored as before."""
    policy = rolin.RoLinTS(n_features=2, seed=1)
    with pytest.warns(SharedContextWarning, match=r"slope_std=\"learn\""):
        candidates = policy.candidates([1.0, 2.0], ["a", "b"])
    policy.candidates([1.0, 2.0], ["a", "b"])  # warns once
    assert policy.draw_rule(candidates) == policy.draw_rule() == (0.1, 0.5)
