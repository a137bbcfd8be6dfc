"""Explanations: contributions add up, uncertainty is right, and they are those of the time of the decision."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

import rolin
from rolin import Bandit, Policy, offline
from rolin.bandit import SlopeContribution
from rolin.errors import ArmError, JournalError, ParameterError, UnknownDecision, Unsupported
from rolin.features import HashedFeatures
from rolin.journal import Journal
from rolin.logs.record import read_journal
from support.oracles import Dense, History
from support.policies import fixed
from support.raw_features import FEATURES, MORE, POLICIES, D, play, question


@pytest.mark.parametrize("name", POLICIES)
def test_contributions_add_up_to_what_is_predicted(name: str) -> None:
    """The sum of all parts is the mean, and its uncertainty that of the posterior, for every arm."""
    bandit = Bandit(POLICIES[name](D), feature_map=FEATURES)
    play(bandit, 40)
    arms, situation = question(np.random.default_rng(9))
    decision = bandit.decide(arms, situation=situation)
    x = decision.offered_contexts
    policy: Any = bandit.policy
    predicted = getattr(policy, "posterior", policy).predict(x, list(decision.offered))
    mean, std = predicted
    if policy.binary:
        mean, std = predicted.logit_mean, predicted.logit_std
    for k, arm in enumerate(decision.offered):
        told = bandit.explain(decision, arm)
        total = math.fsum(c.contribution for c in told.contributions) + told.effect
        assert told.mean == pytest.approx(mean[k], rel=1e-9, abs=1e-12)
        assert total == pytest.approx(told.mean, rel=1e-9, abs=1e-12)
        assert told.std == pytest.approx(std[k], rel=1e-9)
        assert told.scale == ("logit" if policy.binary else "reward")
        assert told.propensity == decision.propensities[k]  # type: ignore[index]  # it is known
        values = {c.name: c.value for c in told.contributions}
        values.pop("intercept of the policy", None)
        assert values == FEATURES.named(x[k])
        sizes = [abs(c.contribution) for c in told.contributions]
        assert sizes == sorted(sizes, reverse=True)
        for c in told.contributions:
            assert isinstance(c, SlopeContribution) == ("slopes" in name)
            own = c.own if isinstance(c, SlopeContribution) else 0.0
            assert c.contribution == pytest.approx(c.value * c.coefficient + own)
    one, two = (bandit.explain(decision, arm) for arm in ("red", "blue"))
    apart = bandit.explain(decision, "red", against="blue")
    assert apart.mean == pytest.approx(one.mean - two.mean, rel=1e-9, abs=1e-12)
    assert apart.effect == pytest.approx(one.effect - two.effect, rel=1e-9, abs=1e-12)
    shared = {"intercept", "device=phone", "device is unseen", "hour", "intercept of the policy"}
    found = {c.name: c for c in apart.contributions}
    for c in (found[name] for name in shared & found.keys()):  # all arms have them
        assert isinstance(c, SlopeContribution)  # but react to them by their own slopes
        assert (c.value, c.shared, c.own) == (0.0, 0.0, c.contribution)


@pytest.mark.parametrize(
    ("policy", "options"),
    [
        (rolin.RoLinTS, {}),
        (rolin.RoLinTS, {"slope_std": "learn"}),
        (rolin.RoLinTS, {"intercept_std": None}),
        (rolin.RoLinUCB, {}),
        (rolin.LinTS, {}),
        (rolin.BayesRoLinTS, {}),
    ],
)
def test_before_scales_are_known(policy: Any, options: Any) -> None:
    """Features are not used yet, so they add nothing, and nothing uncertain either."""
    bandit = Bandit(policy(n_features=D, seed=3, **options), feature_map=FEATURES)
    arms, situation = question(np.random.default_rng(9))
    decision = bandit.decide(arms, situation=situation)
    one, two = list(arms)[:2]
    for told in (bandit.explain(decision), bandit.explain(decision, one, against=two)):
        stds = {c.std for c in told.contributions if c.name != "intercept of the policy"}
        numbers = [*stds, told.std, told.effect_std]
        assert all(std == 0.0 or std > 1e-9 for std in numbers), numbers
    for i in range(20):
        bandit.decide(arms, situation=situation, id=str(i))
        bandit.reward(str(i), float(i % 3))
    later = bandit.explain(bandit.decide(arms, situation=situation))
    assert all(c.std > 1e-9 for c in later.contributions)


def test_uncertainty_against_a_dense_oracle() -> None:
    """Of a mean, an effect, a coefficient and a difference: what one big Gaussian says."""
    policy = fixed(
        rolin.RoLinTS, n_features=D, arm_std=0.7, noise_std=0.9, intercept_std=1.3, seed=7
    )
    bandit = Bandit(policy, feature_map=FEATURES)
    play(bandit, 40)
    arms, situation = question(np.random.default_rng(10))
    decision = bandit.decide(arms, situation=situation)
    events = [e for past in read_journal(bandit.journal) for e in past.outcomes.values()]
    names = list(arms)
    history = History(
        np.array([names.index(e.arm) for e in events]),
        np.array([e.context for e in events]),
        np.array([e.value for e in events], dtype=float),
        np.ones(len(events)),
    )
    scales = policy.scales
    dense = Dense(scales, history, 3)
    z = dense.z(decision.offered_contexts, np.arange(3), 3)
    for k, arm in enumerate(names):
        told = bandit.explain(decision, arm)
        assert told.mean == pytest.approx(z[k] @ dense.mean)
        assert told.std == pytest.approx(math.sqrt(z[k] @ dense.covariance @ z[k]))
        effect = dense.size + k
        assert told.effect == pytest.approx(dense.mean[effect])
        assert told.effect_std == pytest.approx(math.sqrt(dense.covariance[effect, effect]))
        for c in told.contributions:
            i = (FEATURES.names.index(c.name) if c.name in FEATURES.names else dense.size - 1)  # fmt: skip
            assert c.coefficient == pytest.approx(dense.mean[i])
            assert c.std == pytest.approx(abs(c.value) * math.sqrt(dense.covariance[i, i]))
    apart = bandit.explain(decision, "red", against=7)
    difference = z[0] - z[2]
    assert apart.mean == pytest.approx(difference @ dense.mean)
    assert apart.std == pytest.approx(math.sqrt(difference @ dense.covariance @ difference))
    effects = np.zeros(len(dense.mean))
    effects[dense.size], effects[dense.size + 2] = 1.0, -1.0
    assert apart.effect_std == pytest.approx(math.sqrt(effects @ dense.covariance @ effects))


def test_reasons_are_those_of_the_time(journal: Journal) -> None:
    """What was learned since does not change why something was decided, unless one asks for now."""
    bandit = Bandit(rolin.RoLinTS(n_features=D, seed=7), feature_map=FEATURES, journal=journal)
    play(bandit, 10)
    arms, situation = question(np.random.default_rng(11))
    decision = bandit.decide(arms, situation=situation, id="why")
    then = bandit.explain(decision)
    play(bandit, 20, start=10)
    bandit.change_feature_map(MORE)
    assert bandit.explain("why") == then
    now = bandit.explain("why", as_of="now")
    assert now.mean != then.mean
    assert (then.version, now.version) == (decision.version, bandit.version)
    assert now.score is None
    mean, _ = bandit.policy.predict(np.pad(decision.context, (0, MORE.n_features - D))[None], [decision.arm])  # fmt: skip
    assert now.mean == pytest.approx(mean[0])


def test_scores_are_what_was_drawn() -> None:
    """The score is the one that decided; what was drawn to explore is said to be."""
    features, rng = FEATURES, np.random.default_rng(12)
    bandit = Bandit(rolin.RoLinTS(n_features=D, seed=7), feature_map=features, floor=0.2)
    explored = []
    play(bandit, 14, start=100)  # until there is a score
    for t in range(60):
        arms, situation = question(rng)
        decision = bandit.decide(arms, situation=situation, id=str(t))
        told = {arm: bandit.explain(decision, arm) for arm in decision.offered}
        best = max(told, key=lambda arm: told[arm].score or -math.inf)
        mine = told[decision.arm]
        assert mine.explored == (best != decision.arm)
        assert told[best].explored in (None, False)
        explored.append(mine.explored)
        bandit.reward(decision.id, float(rng.normal()))
    # 60 % are drawn uniformly, of which a third would have been chosen anyway: 0.4 ± 5 s.e.
    assert abs(np.mean(explored) - 0.4) < 5 * math.sqrt(0.24 / 60)
    control = Bandit(rolin.RoLinTS(n_features=D), feature_map=features, control_share=1.0)
    told_control = control.explain(control.decide(arms, situation=situation))
    assert told_control.explored
    assert told_control.score is None
    assert "drawn uniformly" in str(told_control)
    ucb = Bandit(rolin.RoLinUCB(n_features=D, seed=7), feature_map=features)
    play(ucb, 14)
    top = ucb.explain(ucb.decide(arms, situation=situation))
    assert top.score is not None
    assert top.score > top.mean
    joint = Bandit(rolin.RoLinTS(n_features=D, sampling="joint", seed=7), feature_map=features)
    drawn = joint.explain(joint.decide(arms, situation=situation))
    assert (drawn.score, drawn.explored) == (None, None)


def test_explanations_of_other_arms() -> None:
    """An arm that was not chosen is not said to be; a score says what was added to the mean."""
    bandit = Bandit(rolin.RoLinTS(n_features=D, seed=7), feature_map=FEATURES)
    play(bandit, 14)
    arms, situation = question(np.random.default_rng(13))
    decision = bandit.decide(arms, situation=situation, id="v")
    other = next(arm for arm in arms if arm != decision.arm)
    mine, its = bandit.explain(decision), bandit.explain(decision, other)
    assert (mine.chosen, its.chosen) == (True, False)
    assert f"\nchosen with probability {mine.propensity:.3g}" in str(mine)
    assert f"not chosen; it had probability {its.propensity:.3g}" in str(its)
    assert f"ranked by {mine.score:.4g}: the mean and {mine.score - mine.mean:+.3g}" in str(mine)  # type: ignore[str-bytes-safe]
    bandit.reward("v", 1.0)
    assert bandit.explain(decision, as_of="now").propensity is None


def test_now_knows_fields_that_were_recorded_before() -> None:
    """What the bandit would say now: by all the fields that it uses now."""
    bandit = Bandit(rolin.RoLinTS(n_features=D, seed=7), feature_map=FEATURES)
    bandit.decide({"x": {"price": 1.0, "brand": "x"}}, situation={"hour": 3.0}, id="v")
    bandit.change_feature_map(MORE)
    assert "brand=x" not in {c.name for c in bandit.explain("v").contributions}
    assert "brand=x" in {c.name for c in bandit.explain("v", as_of="now").contributions}
    log = offline.read(bandit, missing=0.0)  # before anything was decided by the new map
    assert log.contexts[0].shape == (1, MORE.n_features)


def test_explanations_as_text_and_frame() -> None:
    """For colleagues and for notebooks."""
    bandit = Bandit(rolin.RoLinTS(n_features=D, seed=7), feature_map=FEATURES)
    play(bandit, 30)
    arms, situation = question(np.random.default_rng(13))
    told = bandit.explain(bandit.decide(arms, situation=situation), "red")
    text = str(told)
    assert "arm 'red': mean" in text
    assert "arm effect" in text
    assert "tags=new" in text
    frame = told.to_frame()
    assert frame["contribution"].sum() == pytest.approx(told.mean)
    assert frame["name"].tolist()[-1] == "arm effect"
    assert json.loads(json.dumps(told.to_dict()))["mean"] == told.mean
    for policy, expected in (
        (fixed(rolin.RoLinTS, n_features=2, seed=7), ["x0"]),
        (rolin.RoLinTS(n_features=2, seed=7), ["intercept of the policy", "x0"]),
    ):
        vectors = Bandit(policy)
        plain = vectors.explain(vectors.decide({"a": [1.0, 0.0], "b": [0.0, 1.0]}), "a")
        assert [c.name for c in plain.contributions] == expected


def test_reasons_of_hashed_features() -> None:
    """Names are those of the fields, though many may share a coefficient."""
    features = HashedFeatures(16)
    bandit = Bandit(rolin.RoLinTS(n_features=16, seed=7), feature_map=features)
    play(bandit, 30)
    arms, situation = question(np.random.default_rng(14))
    decision = bandit.decide(arms, situation=situation)
    told = bandit.explain(decision, "blue")
    total = math.fsum(c.contribution for c in told.contributions) + told.effect
    mean, _ = bandit.policy.predict(decision.offered_contexts, decision.offered)  # type: ignore[attr-defined]
    assert told.mean == pytest.approx(total)
    assert told.mean == pytest.approx(mean[decision.offered.index("blue")])
    assert "tags=sale" in {c.name for c in told.contributions}


def test_reasons_that_cannot_be_had(journal: Journal) -> None:
    """Unknown decisions and arms, policies without coefficients, states that were removed."""
    bandit = Bandit(rolin.RoLinTS(n_features=D, seed=7), feature_map=FEATURES, journal=journal)
    play(bandit, 8)
    with pytest.raises(UnknownDecision, match="no decision has the id 'never'"):
        bandit.explain("never")
    with pytest.raises(ArmError, match="was not offered arm 'green', only"):
        bandit.explain("visit-1", "green")
    with pytest.raises(ArmError, match="was not offered arm '7', only"):
        bandit.explain("visit-1", against="7")
    with pytest.raises(ParameterError, match="as_of='then', expected 'decision' or 'now'"):
        bandit.explain("visit-1", as_of="then")  # type: ignore[arg-type]  # on purpose
    bandit.erase(ids=["visit-0"])
    with pytest.raises(JournalError, match="have been removed"):
        bandit.explain("visit-1")
    assert bandit.explain("visit-1", as_of="now").mean != 0.0
    for kind in (
        rolin.HLinUCB,
        rolin.HybridLinUCB,
        rolin.DisjointLinUCB,
        rolin.SafeFALCON,
        rolin.NaiveRoLinTS,
    ):
        other: Policy[Any] = kind(n_features=D, seed=7)
        blind = Bandit(other, feature_map=FEATURES)
        with pytest.raises(Unsupported, match="has no coefficients that could explain it"):
            blind.explain(blind.decide({"red": {}}, situation={}))
