"""What arm effects are worth: the gain in reward of choosing with them over choosing by the features alone.

Both rules choose the highest expected reward. One uses coefficients and what the arms have of their own, x'θ̂ + z'û_i:
the arm effect (z = 1), and slopes if there are any (z = (1, x_S)). The other one uses the coefficients of a model
without both. Over given sets of candidates, the gain is the mean difference of the true mean rewards of the arms that
they choose. The choices are known, so the gain is linear in what is unknown,

    gain = c'θ + Σ w_i'u_i,   c = mean x of the first rule's choices - that of the second,
                              w_i = the same difference of the mean z, where arm i is chosen,

and its posterior is exact: normal for given scales, and a mixture over the likely values of arm_std. As the first rule
chooses by the same posterior, the expected gain is never negative.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rolin._support.arms import Name, PastArm, canonical
from rolin._support.checks import as_names, first_not_finite
from rolin.errors import ArmError, RolinError, ShapeError
from rolin.model.draws import tied_for_best
from rolin.model.moments import Moments
from rolin.model.posterior import Posterior

__all__ = ["CandidateSets", "Gain", "LikelyPosterior", "estimate_gain"]

Floats = NDArray[np.float64]
_REACH = 1.959963984540054  # half-width of a 95 % interval, in standard deviations
_DRAWS = 1000  # for binary rewards
_SEED = 0


class Gain(NamedTuple):
    """The gain in mean reward per decision of choosing with arm effects, and slopes if there are any, over choosing by the features alone."""

    value: float
    """Expected gain."""
    low: float
    high: float
    """Ends of a 95 % interval."""
    decisions: int
    """Number of decisions whose candidates were used; 0 for one choice among all arms with their average features."""
    arms: int
    """Number of arms among these candidates."""
    differ: float
    """Share of the decisions in which the choices differ."""
    with_slopes: bool = False
    """Whether the first rule also uses the slopes of the arms."""

    def __str__(self) -> str:
        """Return the gain as a sentence."""
        used = "arm effects and slopes" if self.with_slopes else "arm effects"
        among = (
            f"in these {self.decisions} decisions"
            if self.decisions
            else f"among these {self.arms} arms with their average features"
        )
        if self.differ == 0.0:
            return f"With {used}, the choice would be the same as by the features alone, {among}."
        differ = (
            f" The choice would differ in {100.0 * self.differ:.0f} % of them."
            if self.decisions
            else ""
        )
        return (
            f"Choosing with {used} instead of the features alone would earn about {self.value:.3g} "
            f"({self.low:.3g} to {self.high:.3g}) more per decision, {among}.{differ}"
        )


class LikelyPosterior(NamedTuple):
    """The posterior for likely scales."""

    posterior: Posterior
    weight: float
    """Probability of the scales."""


class CandidateSets:
    """The candidates of some decisions, or all arms with their average features.

    Parameters
    ----------
    moments
        The evidence.
    contexts
        For each decision, the (K, d) contexts of its candidates; `None` for one choice among `arms` with their
        average features.
    arms
        For each decision the K names; or one list for all. By default 0 … K - 1, or without contexts, all arms.
    """

    def __init__(
        self,
        moments: Moments,
        contexts: Sequence[ArrayLike] | Floats | None,
        arms: Sequence[Any] | None,
    ) -> None:
        named = None if arms is None else as_names(arms)
        self.decisions = 0
        self._given: list[tuple[Any, Any]]
        if contexts is None:
            self._given = [_averages(moments, named)]
            return
        try:
            given = list(contexts)
        except TypeError:
            raise ShapeError(f"contexts={contexts!r}, expected a list of (K, d) arrays") from None
        if not given:
            raise ShapeError("contexts has no decisions, expected at least one, or None")
        self.decisions = n = len(given)
        # One list for all, or one for each decision; a tuple is a name.
        if named is None or not all(isinstance(a, (list, range, np.ndarray)) for a in named):
            self._given = [(x, named) for x in given]
        elif len(named) == n:
            self._given = list(zip(given, named, strict=True))
        else:
            raise ShapeError(
                f"arms has {len(named)} lists of names, expected {n}, one per decision"
            )

    def read(self, posterior: Posterior) -> Iterator[tuple[Floats, Sequence[Name]]]:
        """Yield contexts and arms of each decision, checked by the posterior of the same moments."""
        for i, (contexts, arms) in enumerate(self._given):
            try:
                x, names, _ = posterior.candidates(contexts, arms)
                if not np.isfinite(x).all():
                    raise first_not_finite("contexts", x)
            except RolinError as error:
                raise type(error)(f"decision {i}: {error}") from error
            yield x, names


def _averages(moments: Moments, arms: Sequence[Name] | None) -> tuple[Floats, Sequence[Name]]:
    """Return arms with their average features; by default all, without past lives of restored ones."""
    index = {name: row for row, name in enumerate(moments.arms)}
    if arms is None:
        names = [name for name in index if not isinstance(name, PastArm)]
    else:
        names = [canonical(name) for name in arms]
    for name in names:
        if name not in index:
            raise ArmError(f"arm {name!r} has no rewards, so no average features: pass contexts")
    return moments.mean_context[[index[name] for name in names]], names


class _Difference:
    """How the choices of two rules differ: the rows that they choose, with their shares."""

    def __init__(self, n_features: int) -> None:
        self.contexts: list[Floats] = []
        self.codes: list[int] = []
        self.shares: list[float] = []
        self.code_of: dict[Name, int] = {}
        self.n = self.n_different = 0
        self._d = n_features

    def add(self, x: Floats, names: Sequence[Name], first: Floats, second: Floats) -> None:
        """Add one decision, with the scores of its candidates by both rules."""
        share = _shares(first) - _shares(second)
        for name in names:
            self.code_of.setdefault(name, len(self.code_of))
        rows = np.flatnonzero(share)
        self.n += 1
        self.n_different += bool(len(rows))
        self.contexts.append(x[rows])
        self.codes += [self.code_of[names[k]] for k in rows.tolist()]
        self.shares += share[rows].tolist()

    def arrays(self) -> tuple[Floats, NDArray[np.int64], Floats]:
        """Return contexts, codes of arms, and shares divided by the number of decisions."""
        x = np.concatenate([np.empty((0, self._d)), *self.contexts])
        return x, np.array(self.codes, dtype=np.int64), np.array(self.shares) / max(self.n, 1)


def _shares(scores: Floats) -> Floats:
    """Return the probability of each choice: ties are broken at random."""
    best = tied_for_best(scores)
    shares: Floats = best / best.sum()
    return shares


def estimate_gain(
    likely: Sequence[LikelyPosterior],
    without: Posterior,
    candidates: CandidateSets,
    *,
    binary: bool,
) -> Gain:
    """Return the gain of choosing with arm effects over choosing by the features alone.

    Parameters
    ----------
    likely
        The posterior of the model with arm effects, and perhaps slopes, for each likely arm_std.
    without
        The posterior of the model without both.
    candidates
        The decisions.
    binary
        Whether the posteriors are on the logit scale. The gain is then one of probabilities, from draws of the
        posterior.
    """
    found = _Difference(without.n_features)
    theta = sum(each.weight * each.posterior.coefficients.mean for each in likely)
    alone = without.coefficients.mean
    own_of: dict[Name, Floats] = {}
    no_arms = likely[0].posterior.own_coefficients([])
    for x, names in candidates.read(without):
        if new := [name for name in dict.fromkeys(names) if name not in own_of]:
            parts = [each.weight * each.posterior.own_coefficients(new).mean for each in likely]
            own_of.update(zip(new, np.sum(parts, axis=0), strict=True))
        own = np.array([own_of[name] for name in names])
        with_own = _scores(x, theta) + (no_arms.entries(x) * own).sum(axis=1)
        found.add(x, names, with_own, _scores(x, alone))
    names, (x, codes, shares) = list(found.code_of), found.arrays()
    differ = found.n_different / max(found.n, 1)
    ends = (_drawn if binary else _exact)(likely, names, x, codes, shares)
    return Gain(*ends, candidates.decisions, len(names), differ, bool(no_arms.features))


def _scores(x: Floats, coefficients: Any) -> Floats:
    """Return x'θ; an intercept is the last coefficient."""
    d = x.shape[1]
    scores: Floats = x @ coefficients[:d] + coefficients[d:].sum()
    return scores


def _exact(
    likely: Sequence[LikelyPosterior],
    names: list[Name],
    x: Floats,
    codes: NDArray[np.int64],
    shares: Floats,
) -> tuple[float, float, float]:
    """Return mean and 95 % interval of Σ share (x'θ + z'u), by mean and variance of the mixture."""
    z = likely[0].posterior.own_coefficients([]).entries(x)
    w = np.zeros((len(names), z.shape[1]))
    np.add.at(w, codes, shares[:, None] * z)
    c = shares @ x
    first = second = 0.0
    for posterior, weight in likely:
        theta, own = posterior.coefficients.mean, posterior.own_coefficients(names)
        # Both rules choose one arm, so an intercept cancels.
        vector = np.append(c, np.zeros(len(theta) - len(c)))
        mean = float(vector @ theta + (w * own.mean).sum())
        # u_i follows an error of the coefficients with the negative of its loadings.
        loading = posterior.loadings(vector) - np.einsum("kq,kqd->d", w, own.loadings)
        own_variance = np.einsum("kp,kpq,kq", w, own.covariance, w)
        first += weight * mean
        second += weight * (float(loading @ loading + own_variance) + mean**2)
    reach = _REACH * math.sqrt(max(second - first**2, 0.0))
    return first, first - reach, first + reach


def _drawn(
    likely: Sequence[LikelyPosterior],
    names: list[Name],
    x: Floats,
    codes: NDArray[np.int64],
    shares: Floats,
) -> tuple[float, float, float]:
    """Return mean and 95 % interval of Σ share / (1 + exp(-x'θ - z'u)), by draws from the joint posterior."""
    if not len(x):
        return 0.0, 0.0, 0.0
    generator = np.random.default_rng(_SEED)
    parts = generator.multinomial(_DRAWS, [each.weight for each in likely]).tolist()
    gains = []
    for (posterior, _), n in zip(likely, parts, strict=True):
        theta, own = posterior.coefficients.mean, posterior.own_coefficients(names)
        vectors = np.column_stack([x, np.ones((len(x), len(theta) - x.shape[1]))])
        z = own.entries(x)
        roots = own.roots
        spread = posterior.loadings(np.eye(len(theta)))  # T' of θ = θ̂ + T'ζ
        for _ in range(n):
            zeta = generator.standard_normal(len(theta))
            noise = (roots @ generator.standard_normal((*own.mean.shape, 1)))[:, :, 0]
            drawn = own.mean - own.loadings @ zeta + noise
            logits = vectors @ (theta + spread @ zeta) + (z * drawn[codes]).sum(axis=1)
            gains.append(float(shares @ _probability(logits)))
    low, high = np.quantile(gains, [0.025, 0.975]).tolist()
    return float(np.mean(gains)), low, high


def _probability(logits: Floats) -> Floats:
    with np.errstate(over="ignore"):  # 1/∞ = 0 is correct
        probability: Floats = 1.0 / (1.0 + np.exp(-logits))
    return probability
