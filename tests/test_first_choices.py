"""Before the first estimate of the scales, arms without rewards are preferred, with exact probabilities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rolin
from rolin import Bandit
from rolin.errors import NotFiniteError, Unsupported
from rolin.policies.first_choices import first_scores, first_shares

D = 3
POLICIES: dict[str, Callable[[int], Any]] = {
    "RoLinTS": lambda seed: rolin.RoLinTS(n_features=D, seed=seed),
    "RoLinTS, joint": lambda seed: rolin.RoLinTS(n_features=D, sampling="joint", seed=seed),
    "RoLinTS, slopes": lambda seed: rolin.RoLinTS(n_features=D, slope_std="learn", seed=seed),
    "RoLinTS, forgets": lambda seed: rolin.RoLinTS(n_features=D, half_life=1e15, seed=seed),
    "LinTS": lambda seed: rolin.LinTS(n_features=D, seed=seed),
    "RoLinUCB": lambda seed: rolin.RoLinUCB(n_features=D, seed=seed),
    "LinUCB": lambda seed: rolin.LinUCB(n_features=D, seed=seed),
    "Greedy": lambda seed: rolin.Greedy(n_features=D, seed=seed),
}
# Rewards of four arms, three in all: with slopes, the fourth is followed by the first estimate.
REWARDED = {"a": 2, "b": 1, "c": 0, "d": 0}
SHARES = np.array([1 / 8, 1 / 8, 1.0, 1.0])
SHARES /= SHARES.sum()


def started(name: str, seed: int = 7) -> Any:
    """Return a policy that has seen three rewards."""
    policy, rng = POLICIES[name](seed), np.random.default_rng(seed)
    for arm, n in REWARDED.items():
        for _ in range(n):
            policy.update(arm, rng.normal(size=D), 1e6 * rng.normal())
    return policy


def test_shares_by_hand() -> None:
    """1, and 1/8 with rewards; a weight of 1/7 is 1 + 7/7 = 2 times as rare. Two of weight ½ count as one of weight 1."""
    shares = first_shares(np.array([0.0, 1.0, 7.0, 1 / 7]))
    assert shares == pytest.approx(np.array([1.0, 1 / 8, 1 / 8, 1 / 2]) / (1 + 2 / 8 + 1 / 2))
    policy = rolin.RoLinTS(n_features=1, seed=0)
    for _ in range(2):
        policy.update("a", [1.0], 1.0, weight=0.5)
    assert policy.probabilities({"a": [1.0], "b": [1.0]}) == pytest.approx([1 / 9, 8 / 9])


@pytest.mark.parametrize("weights", [[0.0, 0.0], [0.0, 1.0, 5.0], [0.3, 2.0, 0.0, 0.0, 1.0]])
def test_the_highest_score_has_the_probability_of_its_arm(weights: list[float], seed: int) -> None:
    """By 20 000 draws, k = 5 standard errors."""
    n, w = 20_000, np.array(weights)
    exponentials = np.random.default_rng(seed).standard_exponential((n, len(w)))
    found = np.bincount(first_scores(w, exponentials).argmax(axis=1), minlength=len(w)) / n
    p = first_shares(w)
    assert (np.abs(found - p) < 5 * np.sqrt(p * (1 - p) / n)).all()


@pytest.mark.parametrize("name", POLICIES)
def test_arms_are_chosen_as_often_as_their_probabilities_say(name: str) -> None:
    """Whatever the contexts are; by all ways to decide. k = 5 standard errors."""
    policy, n = started(name), 2000
    x = 1e3 * np.random.default_rng(1).normal(size=(4, D))
    p, error = policy.probabilities_with_error(x, list(REWARDED))
    np.testing.assert_allclose(p, SHARES, rtol=1e-12)
    assert not error.any()
    many = policy.decide_many([x] * n, list(REWARDED), top_k=2)
    again = started(name)
    for decision in many[:50]:
        assert again.decide(x, list(REWARDED), top_k=2).ranking == decision.ranking
    firsts = [decision.arm for decision in many]
    found = np.array([firsts.count(arm) for arm in REWARDED]) / n
    assert (np.abs(found - SHARES) < 5 * np.sqrt(SHARES * (1 - SHARES) / n)).all()
    assert all(len(set(decision.ranking)) == 2 for decision in many)
    assert policy.decide(x, list(REWARDED), exclude=["c", "d", "a"]).arm == "b"


@pytest.mark.parametrize("name", POLICIES)
def test_contexts_are_checked(name: str) -> None:
    """As they are later, although the first choices do not depend on them."""
    policy = started(name)
    for bad in (np.nan, np.inf):
        x = np.ones((4, D))
        x[2, 1] = bad
        with pytest.raises(NotFiniteError, match="contexts"):
            policy.decide(x)
        with pytest.raises(NotFiniteError, match="question 1: contexts"):
            policy.decide_many([np.ones((4, D)), x])
    assert policy.n_decisions == 0


@pytest.mark.parametrize("name", POLICIES)
def test_few_arms_are_all_tried(name: str) -> None:
    """The first ten choices among ten arms include 8.7 of them on average; uniform ones would include 6.5.

    With learned slopes, the first four choices count, 3.9 different ones instead of 3.4. k = 5 standard errors.
    """
    n, runs = (4, 100) if "slopes" in name else (10, 100)
    found = []
    for seed in range(runs):
        policy, rng = POLICIES[name](seed), np.random.default_rng(seed)
        chosen = []
        for _ in range(n):
            decision = policy.decide(rng.normal(size=(10, D)))
            chosen.append(decision.arm)
            policy.update(decision.arm, decision.context, float(rng.normal()))
        assert len(policy.scale_history) == 1
        found.append(len(set(chosen)))
    expected = expected_number(10, n)
    assert expected == pytest.approx({4: 3.91, 10: 8.74}[n], abs=0.01)
    assert abs(np.mean(found) - expected) < 5 * np.std(found, ddof=1) / runs**0.5


def expected_number(n_arms: int, n: int) -> float:
    """Return the expected number of different arms in n choices, by the probability of every state."""
    states = {(0,) * n_arms: 1.0}
    for _ in range(n):
        after: dict[tuple[int, ...], float] = {}
        for rewards, p in states.items():
            for i, share in enumerate(first_shares(np.array(rewards, dtype=float))):
                new = list(rewards)
                new[i] = 1
                state = tuple(sorted(new))
                after[state] = after.get(state, 0.0) + p * float(share)
        states = after
    return sum(p * np.count_nonzero(rewards) for rewards, p in states.items())


@pytest.mark.parametrize("name", POLICIES)
def test_a_catalogue_chooses_like_its_policy(name: str) -> None:
    """The same decisions and probabilities, with arms left out, and the posterior's from the first estimate on."""
    ours, theirs = started(name), started(name)
    rng = np.random.default_rng(2)
    x, names = rng.normal(size=(30, D)), [*REWARDED, *(f"arm-{i}" for i in range(26))]
    catalogue = rolin.Catalogue(ours, x, names)
    found = catalogue.probabilities_with_error(draws=2)
    np.testing.assert_allclose(found.values, theirs.probabilities(x, names), rtol=1e-12)
    assert not found.std_error.any()
    for t in range(30):
        exclude = names[t % 3 : t % 3 + 2]
        decision = catalogue.decide(top_k=3, exclude=exclude)
        assert decision.ranking == theirs.decide(x, names, top_k=3, exclude=exclude).ranking
        reward = float(rng.normal())
        for policy in (ours, theirs):
            policy.update(decision.arm, decision.context, reward)
    assert ours.scale_history


def test_a_bandit_logs_the_probabilities() -> None:
    """Mixed with its floor, and the explanation shows no score, because nothing was scored by the model."""
    bandit = Bandit(started("RoLinTS"), floor=0.04)
    decision = bandit.decide(np.eye(4, D), arms=list(REWARDED))
    assert decision.propensities == pytest.approx((1 - 0.16) * SHARES + 0.04)
    told = bandit.explain(decision)
    assert told.mean == pytest.approx(0.0, abs=1e-100)
    assert (told.score, told.explored) == (None, None)
    assert told.propensity == pytest.approx(decision.propensity)


@pytest.mark.parametrize(
    ("scales", "informed"),
    [
        ({}, False),
        ({"noise_std": 1.0}, False),
        ({"arm_std": 0.5}, False),
        ({"coef_std": 1.0, "arm_std": 0.5}, False),
        ({"noise_std": 1.0, "arm_std": 0.5}, True),
        ({"noise_std": 1.0, "coef_std": ("learn", 1.0)}, True),
        ({"noise_std": 1.0, "coef_std": 1.0, "arm_std": 0.5}, True),
        ({"noise_std": 1.0, "coef_std": 1.0, "arm_std": ("learn", 0.5), "intercept_std": None}, True),
        ({"coef_mean": [1.0]}, True),
    ],
)  # fmt: skip
def test_scales_that_are_known_are_used_at_once(scales: dict[str, Any], informed: bool) -> None:
    """If arms can be told apart from the first reward on, the posterior chooses."""
    policy = rolin.RoLinTS(n_features=1, seed=0, **scales)
    policy.update("a", [1.0], 5.0)
    by_count = first_shares(np.array([1.0, 0.0]))
    p = policy.probabilities({"a": [1.0], "b": [-1.0]})
    assert (p == pytest.approx(by_count)) == (not informed)
    assert policy.chooses_by_counts == (not informed)


class OwnScore(rolin.RoLinTS):
    """Prefers the first arm."""

    def score(self, candidates: Any, key: Any) -> Any:
        """Score by position."""
        n = len(candidates.rows)
        return self._model.score(candidates.contexts, candidates.rows, -np.arange(n, dtype=float))


class OwnDraws(rolin.LinearPolicy):
    """Prefers the first arm."""

    def draws(self, n_arms: int, key: Any) -> Any:
        """Draw by position."""
        return -np.arange(n_arms, dtype=float)

    def first_probabilities(self, candidates: Any) -> Any:
        """Return 1 for the first arm."""
        return self._certain(candidates)


class OtherDraws(rolin.Greedy):
    """Prefers the first arm, although its parent prefers none."""

    def draws(self, n_arms: int, key: Any) -> Any:
        """Draw by position."""
        return -np.arange(n_arms, dtype=float)


@pytest.mark.parametrize("kind", [OwnScore, OwnDraws, OtherDraws])
def test_a_rule_of_ones_own_is_used_from_the_beginning(kind: Any) -> None:
    """A class that scores or draws by itself sees arms that are all alike, and its probabilities are its own."""
    policy = kind(n_features=D, seed=0)
    policy.update(0, np.ones(D), 1.0)
    assert not policy.chooses_by_counts
    assert [policy.decide(np.eye(4, D)).arm for _ in range(5)] == [0] * 5
    if kind is OwnDraws:
        assert policy.probabilities(np.eye(4, D)).tolist() == [1.0, 0.0, 0.0, 0.0]
    else:
        with pytest.raises(Unsupported, match="does not know its probabilities"):
            policy.probabilities(np.eye(4, D))


def test_the_reference_counts_rewards_too(rng: np.random.Generator) -> None:
    """The dense posterior weighs rewards as the fast one does."""
    fast, dense = (
        kind(n_features=1, coef_std=1.0, arm_std=0.5, noise_std=1.0, intercept_std=1.0, seed=0)
        for kind in (rolin.RoLinTS, rolin.NaiveRoLinTS)
    )
    for arm, weight in zip([3, 1, 3], [1.0, 0.5, 2.0], strict=True):
        for policy in (fast, dense):
            policy.update(arm, [1.0], 1.0, weight=weight)
    rows = fast.candidates(np.ones((3, 1)), [1, 2, 3]).rows
    assert fast.posterior.weights(rows).tolist() == [0.5, 0.0, 3.0]
    assert dense.posterior.weights(rows).tolist() == [0.5, 0.0, 3.0]
    shares = np.array([0.5, 3.0]) / 3.5
    for policy in (fast, dense):
        assert policy.posterior.concentration == pytest.approx(float(shares @ shares), rel=1e-12)
