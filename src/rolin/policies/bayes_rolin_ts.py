"""Thompson sampling that also samples the scales: BayesRoLinTS."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rolin._support.arms import Name
from rolin.errors import Unsupported
from rolin.model.adaptive_mixture import AdaptiveMixture
from rolin.model.diagnosis import Diagnosis, diagnose
from rolin.model.draws import Scores
from rolin.model.mixture import Beliefs, Mixture
from rolin.model.moments import Moments
from rolin.model.posterior import Posterior
from rolin.model.scale_schedule import ScaleEvent
from rolin.model.scales import CoefScale, Scales, guess_of
from rolin.model.summaries import Prediction
from rolin.policies.base import Policy
from rolin.policies.candidates import Candidates
from rolin.policies.decision import Probabilities
from rolin.policies.exploration import Exploration, WithExploration
from rolin.policies.kernels import average_over_models
from rolin.policies.keyed_random import Key
from rolin.policies.linear import LinearPolicy
from rolin.policies.options import PriorOptions, with_options_of
from rolin.policies.propensity import noise_nodes
from rolin.policies.stored import check_mixture

__all__ = ["BayesRoLinTS"]

Floats = NDArray[np.float64]
# Models and noises less likely than this are left out of an integral. There are at most a few hundred.
_NEGLIGIBLE = 3e-12

# Rows of the table that `Mixture.weigh` returns.
_WEIGHT, _CUMULATIVE, _NOISE = range(3)


def _reject_slopes(slope_std: object, slopes: object) -> None:
    """Raise if any slopes are asked for."""
    if slopes is not None or np.any(np.asarray(slope_std) != 0.0):
        raise Unsupported(
            "BayesRoLinTS has no slopes: it integrates over arm_std and noise_std, and a third scale would need a "
            "grid of many more models. Use RoLinTS(slope_std='learn')"
        )


@with_options_of(LinearPolicy)
class BayesRoLinTS(WithExploration, Policy[Mixture]):
    """RoLinTS that treats `noise_std` and `arm_std` as unknown and samples them too.

    `noise_std` is integrated out exactly, which gives Student's t distribution. `arm_std/noise_std` is one of eight
    numbers around its guess. Each has its own posterior, weighted by how well it has predicted the rewards. A decision
    draws one of the eight, then the noise, then every arm.

    `coef_std` is estimated, first after ten rewards, as other policies do it. Unlike other policies, it does not learn the
    units of the data: its guesses are numbers. By default they are 0.5 for `arm_std` and 1 for `noise_std` and
    `coef_std`, without an intercept and with an `exploration` of 1.

    Parameters
    ----------
    coef_std
        Prior standard deviation of the coefficients if noise_std is as guessed: only the ratio
        coef_std/noise_std matters. One number, or one per feature; or `"learn"` to estimate it, starting from 1, or
        `("learn", 2.0)`, starting from 2. Of one number per feature, only a common factor is learned.
    intercept_std
        Prior standard deviation of an intercept, also relative to the noise; `None` for no intercept.
    arm_std
        Guess of the standard deviation of the arms' own effects.
    noise_std
        Guess of the standard deviation of a reward around its mean; the guess counts as three rewards.
    exploration
        Factor on the standard deviations of the arms in all draws: 1 is Thompson sampling, 0 draws only the scales and
        chooses the highest mean. Or `"auto"`, as of [`RoLinTS`][rolin.RoLinTS].
    slope_std
        Not supported: values other than 0 raise `Unsupported`.
    slopes
        Not supported: values other than `None` raise `Unsupported`.
    **options
        Further options of [`LinearPolicy`][rolin.LinearPolicy].

    Examples
    --------
    >>> policy = BayesRoLinTS(n_features=2, seed=7)
    >>> decision = policy.decide({"red": [1.0, 0.2], "blue": [0.3, 0.9]})
    >>> policy.update(decision.arm, decision.context, reward=1.0)
    >>> policy.beliefs.weight.sum().round(6).item()
    1.0
    """

    _check_stored = staticmethod(check_mixture)
    _unset_scales = "estimate"

    def __init__(
        self,
        *,
        n_features: int,
        coef_std: CoefScale = "learn",
        arm_std: float = 0.5,
        noise_std: float = 1.0,
        intercept_std: float | None = None,
        slope_std: float = 0.0,
        slopes: Sequence[int] | None = None,
        exploration: Exploration = 1.0,
        seed: int | None = None,
        **options: Unpack[PriorOptions],
    ) -> None:
        _reject_slopes(slope_std, slopes)
        number, learns = guess_of("coef_std", coef_std, 1.0)
        scales = Scales(
            noise_std=noise_std,
            arm_std=arm_std,
            coef_std=number,
            intercept_std=intercept_std,
            **options,  # type: ignore[arg-type]  # Scales makes lists into tuples
        )
        super().__init__((AdaptiveMixture if learns else Mixture)(scales, n_features), seed)
        self.exploration = exploration

    @classmethod
    def _check_options(cls, options: Mapping[str, Any]) -> None:
        super()._check_options(options)
        _reject_slopes(options.get("slope_std", 0.0), options.get("slopes"))

    def score(self, candidates: Candidates, key: Key) -> Scores:
        """Draw the scales by their weights, then every arm given these scales."""
        x, _, rows = candidates
        freedom, table = self._model.weigh()
        generator = self.generator(key)
        g = int(table[_CUMULATIVE].searchsorted(generator.random()))
        g = min(g, len(self._model.parts) - 1)  # rounding may leave the sum below 1
        noise = table[_NOISE, g] * (freedom / generator.chisquare(freedom)) ** 0.5
        exploration, optimism = self.draw_rule()
        draws = noise * exploration * generator.standard_normal(len(rows)) + noise * optimism
        return self._model.parts[g].score(x, rows, draws)

    def predict(
        self, contexts: Mapping[Any, ArrayLike] | ArrayLike, arms: Iterable[Name] | None = None
    ) -> Prediction:
        """Return mean and standard deviation of each arm's mean reward, averaged over all scales.

        Parameters
        ----------
        contexts
            The arms and their contexts, as for `decide`.
        arms
            The K names, as for `decide`.
        """
        x, names, _ = self.candidates(contexts, arms)
        return self._model.predict(x, names)

    def first_probabilities(self, candidates: Candidates) -> Probabilities:
        """Average the probabilities over the scales, by their weights."""
        x, _, rows = candidates
        freedom, table = self._model.weigh()
        means, stds = self._model.predict_each(x, rows)
        # Before the first reward all means are equal, and the noise is only a unit.
        if np.all(means == means[:, :1]):
            scale, share = np.ones(1), np.ones(1)
        else:
            scale, share = noise_nodes(freedom)
        weights = np.outer(table[_WEIGHT], share)
        models, nodes = np.nonzero(weights > _NEGLIGIBLE)
        noises, total = table[_NOISE, models] * scale[nodes], np.empty(len(x))
        rule = self.draw_rule()
        average_over_models(means, stds, models, noises, weights[models, nodes], *rule, total)
        return Probabilities(total / total.sum(), np.zeros(len(x)))

    @property
    def beliefs(self) -> Beliefs:
        """The posterior of the scales."""
        return self._model.beliefs

    @property
    def posteriors(self) -> Sequence[Posterior]:
        """One posterior per ratio of `beliefs`, in units of the noise. Live, not copies."""
        return self._model.parts

    @property
    def mixture(self) -> Mixture:
        """The mixture of all posteriors. It is live, not a copy."""
        return self._model

    @property
    def scale_history(self) -> list[ScaleEvent]:
        """When `coef_std` was learned, and its values from then on, for a noise as guessed."""
        return list(self._model.history) if isinstance(self._model, AdaptiveMixture) else []

    @property
    def learns_scales(self) -> bool:
        """True: `noise_std` and `arm_std` are always integrated out."""
        return True

    def learn_scales(self) -> None:
        """Estimate `coef_std` from all evidence, now, unless it was given as a number."""
        if isinstance(self._model, AdaptiveMixture):
            self._model.learn_scales()

    @property
    def moments(self) -> Moments:
        """All evidence so far, without the prior (a copy)."""
        return self._model.moments

    def diagnose(
        self,
        *,
        feature_names: Sequence[str] | None = None,
        contexts: Sequence[ArrayLike] | NDArray[np.float64] | None = None,
        arms: Sequence[Any] | None = None,
    ) -> Diagnosis:
        """Test whether the arms differ by something that the features miss, and what that is worth.

        Parameters
        ----------
        feature_names
            Names of the d features, for the report; by default those of the feature map.
        contexts
            For each of some decisions, the (K, d) contexts of its candidates, such as those of a log. They say among which
            arms choices are made, for the gain of choosing with arm effects. By default one choice among all arms with
            their average features.
        arms
            For each decision, a list of its K arms; or one list for all. By default 0 … K - 1, or without contexts,
            all arms that were not removed.
        """
        if contexts is None and arms is None:
            arms = self.arms or None
        names = self._names_of(feature_names)
        return diagnose(
            self.moments,
            prior=self._model.guess,
            feature_names=names,
            contexts=contexts,
            arms=arms,
        )

    def decay(self, factor: float) -> None:
        """Forget old rewards: multiply all evidence by a factor; call it at regular intervals.

        Parameters
        ----------
        factor
            Above 0 and at most 1.
        """
        self._model.decay(factor)

    @property
    def settings(self) -> dict[str, Any]:
        """The options that create this policy again, without what it has learned."""
        settings = self._model.guess.to_dict()
        if isinstance(self._model, AdaptiveMixture):
            settings["coef_std"] = ("learn", self._model.guess.coef_std)
        return {
            "n_features": self.n_features,
            **settings,
            "exploration": self._exploration,
            "seed": self.seed,
        }
