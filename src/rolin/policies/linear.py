"""The base of all policies with a Gaussian posterior."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rolin._support.arms import Name
from rolin._support.checks import first_not_finite
from rolin.errors import ParameterError
from rolin.model.adaptive import Adaptive
from rolin.model.diagnosis import Diagnosis, diagnose
from rolin.model.draws import Scores
from rolin.model.estimation import Method, check_method
from rolin.model.first_guess import placeholders
from rolin.model.moments import Moments
from rolin.model.posterior import Posterior
from rolin.model.scale_schedule import ScaleEvent
from rolin.model.scales import (
    CoefScale,
    InterceptScale,
    Numbers,
    Scale,
    Scales,
    SlopeScale,
    guess_of,
)
from rolin.model.slopes import AdaptiveSlopes, SlopePosterior
from rolin.model.sparse import SparseContexts
from rolin.model.summaries import Prediction
from rolin.policies.base import Policy, first_with
from rolin.policies.candidates import Candidates
from rolin.policies.decision import Probabilities
from rolin.policies.exploration import DrawRule
from rolin.policies.first_choices import first_scores, first_shares
from rolin.policies.keyed_random import Key
from rolin.policies.options import options_of
from rolin.policies.stored import check_posterior
from rolin.policies.warm_start import UnsetScales

__all__ = ["LinearPolicy", "Rule"]

Floats = NDArray[np.float64]
Rule = Literal["mean", "bound", "marginal", "joint", "draws", "own"]
"""How a policy turns the posterior into scores; see `LinearPolicy.rule`."""


class LinearPolicy(Policy[Posterior]):
    """Base of the policies with a Gaussian posterior.

    Parameters
    ----------
    n_features
        Number d of features of a context; 0 for a bandit without context.
    coef_std
        Prior standard deviation of the coefficients: `"learn"`, one number, or one per feature.
    coef_mean
        Prior mean of the coefficients: one number, or one per feature.
    intercept_std
        Prior standard deviation of the intercept; `None` for no intercept.
    intercept_mean
        Prior mean of the intercept, if `intercept_std` is a number. A learned intercept is centered on the mean reward.
    arm_std
        Standard deviation of the arms' own effects, which the features miss: `"learn"`, or a number.
    noise_std
        Standard deviation of a reward around its mean: `"learn"`, or a number.
    slope_std
        Standard deviation of the arms' own slopes, by which they react differently to the same features: 0 for none,
        `"learn"`, one number, or one per feature in `slopes`.
    slopes
        Indices of the features that arms have slopes for; by default all features, if `slope_std` is not 0.
    learn_by
        The method that learns the scales; see [`estimate_scales`][rolin.model.estimate_scales].
    half_life
        Number of rewards after which earlier evidence counts half; `None` to never forget.
    seed
        A non-negative integer; by default one from the operating system.

    Notes
    -----
    Scales are learned by default, `intercept_std` too: they are estimated from all rewards, in the units of the data.
    Multiplying all rewards or a feature by a positive number, or adding a number to all rewards, does not change the
    decisions. Before the first estimate nothing is learned, and if all scales are learned, arms are chosen at random, those
    without rewards more often. The first estimate needs 10 rewards that are not all equal. The next ones follow after 20
    and 30 rewards, and then each time the evidence has grown by half. If `slope_std` is learned, the first estimate needs 4
    rewards, and the next ones follow each time the evidence has grown by half.

    `coef_std`, `arm_std`, `noise_std` and `slope_std` may also be `("learn", 0.5)`, to start from 0.5, or numbers, which stay as
    they are. If every scale has a number, to start from or to keep, the policy learns from the first reward on.

    An update takes O(d²) for any number of arms. Learned scales and a half-life also rebuild the posterior from time
    to time. A reward of weight h has noise variance noise_std²/h. Several threads may call `predict`, and `decide` with
    a `key`, at the same time. All other calls that change a policy need a lock, including `decide` without a key.
    """

    rule: Rule = "draws"
    """How arms are scored. It tells other code, such as a `Catalogue`, how to compute the same scores.

    - `"mean"`: the posterior mean. Nothing is drawn.
    - `"bound"`: mean + width · std, with the same width for all arms. Nothing is drawn.
    - `"marginal"`: mean + z · std, with independent normal draws z = `draws(n_arms, key)`. Their mean and their standard
      deviation are the `optimism` and the `exploration` of `draw_rule()`.
    - `"joint"`: one draw of the coefficients, then one draw of every arm's effect given the coefficients.
      With n = `posterior.size`, the first n of `draws(n + n_arms, key)` draw the coefficients and the others the
      effects.
    - `"draws"`: mean + draw · std, with any numbers from `draws(n_arms, key)`. The default of a new policy.
    - `"own"`: a custom rule, implemented in `score`.

    With slopes, `exploration="auto"` and one context for all arms, `RoLinTS` adds more optimism than `draws` does
    (`draw_rule`). As long as `chooses_by_counts`, all rules but `"draws"` and `"own"` choose otherwise; a class that
    declares another rule and overrides `score` must do so, too.

    A class that overrides `score` has the rule `"own"`. So has one that overrides `draws` of a policy that has
    declared its rule. A class may declare another rule by setting `rule` itself.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        """Set the rule to `"own"` if the class overrides what the inherited rule describes."""
        super().__init_subclass__(**options)
        declared = first_with("rule", cls)
        changed = first_with("score", cls) < declared or (
            first_with("draws", cls) < declared and cls.__mro__[declared] is not LinearPolicy
        )
        if changed:
            cls.rule = "own"
            cls._drop_inherited_shortcuts()

    @classmethod
    def _drop_inherited_shortcuts(cls) -> None:
        """Replace inherited methods that compute with a rule that the class has overridden."""
        draws, score = first_with("draws", cls), first_with("score", cls)
        if draws < score:
            cls.score = LinearPolicy.score  # type: ignore[method-assign]  # which uses `draws`
        if first_with("score_many", cls) > min(draws, score):
            cls.score_many = Policy.score_many  # type: ignore[method-assign]  # one by one
        if first_with("first_probabilities", cls) > min(draws, score):
            cls.first_probabilities = Policy.first_probabilities  # type: ignore[method-assign]  # unknown

    def __init__(
        self,
        *,
        n_features: int,
        coef_std: CoefScale = "learn",
        coef_mean: Numbers = 0.0,
        intercept_std: InterceptScale = "learn",
        intercept_mean: float = 0.0,
        arm_std: Scale = "learn",
        noise_std: Scale = "learn",
        slope_std: SlopeScale = 0.0,
        slopes: Sequence[int] | None = None,
        learn_by: Method = "map",
        half_life: float | None = None,
        seed: int | None = None,
    ) -> None:
        given = {
            "noise_std": noise_std,
            "arm_std": arm_std,
            "coef_std": coef_std,
            "intercept_std": intercept_std,
            "slope_std": slope_std,
        }
        # Without an intercept and without arm effects there is nothing to choose by before there are scales.
        alone = intercept_std is None and isinstance(arm_std, (int, float)) and arm_std == 0.0
        guess = {"noise_std": 1.0, "coef_std": 1.0, "slope_std": 1.0} if alone else self._guess
        found = {n: guess_of(n, value, guess.get(n)) for n, value in given.items()}
        learn: set[Any] = {name for name, (_, learned) in found.items() if learned}
        unknown: set[Any] = {name for name in learn if found[name][0] is None}
        numbers = {name: number for name, (number, _) in found.items()}
        numbers |= placeholders(unknown, has_intercept=intercept_std is not None)
        scales = Scales(
            **numbers,
            coef_mean=coef_mean,  # type: ignore[arg-type]  # Scales makes lists into tuples
            intercept_mean=intercept_mean,
            slopes=slopes,  # type: ignore[arg-type]  # the same
        )
        has_slopes = scales.has_slopes or "slope_std" in learn
        if slopes is not None and not has_slopes:
            raise ParameterError(
                f"slopes={slopes!r} with slope_std=0, expected a scale of the slopes, such as slope_std='learn'"
            )
        if intercept_std == "learn" and intercept_mean != 0.0:
            raise ParameterError(
                f"intercept_mean={intercept_mean!r} with intercept_std='learn', expected a number for both: a learned "
                "intercept is centered on the mean reward"
            )
        check_method("learn_by", learn_by)
        if learn_by != "map" and not learn:
            raise ParameterError(
                f"learn_by={learn_by!r}, but no scale is given as 'learn': pass for example arm_std='learn'"
            )
        if has_slopes and learn_by.startswith("moments"):
            raise ParameterError(
                f"learn_by={learn_by!r} with slopes, expected 'map', 'reml' or 'ml': the methods of moments do not "
                "estimate slope_std"
            )
        options: dict[str, Any] = {}
        if learn or half_life is not None:
            options = {
                "learn": learn, "unknown": unknown, "method": learn_by, "half_life": half_life
            }  # fmt: skip
        super().__init__(self._new_model(scales, n_features, options, has_slopes=has_slopes), seed)

    def _new_model(
        self, scales: Scales, n_features: int, options: dict[str, Any], *, has_slopes: bool
    ) -> Posterior:
        """Return the model; one with options learns its scales, or forgets."""
        if options:
            adaptive = AdaptiveSlopes if has_slopes else Adaptive
            return adaptive(scales, n_features, **options)
        return (SlopePosterior if has_slopes else Posterior)(scales, n_features)

    _check_stored = staticmethod(check_posterior)
    _unset_scales: UnsetScales | None = "learn"
    _guess: ClassVar[dict[str, float]] = {}
    """What scales given as `"learn"` start from; those that are missing are guessed from the first rewards."""

    @abstractmethod
    def draws(self, n_arms: int, key: Key) -> Floats:
        """Return the number of standard deviations to add to each arm's mean. This is the rule of the policy.

        The arm with the highest sum is chosen, unless the policy `chooses_by_counts`. Random numbers come from
        `generator(key)` or `normals(key, n_arms)`.
        """

    def draw_rule(self, candidates: Candidates | None = None) -> DrawRule:
        """Return mean and standard deviation of the draws, if the rule is `"marginal"` or `"joint"`.

        They are 0 and the attribute `exploration`, or 1 without it. Override it for other draws.

        Parameters
        ----------
        candidates
            The arms of one decision, and their contexts.
        """
        return DrawRule(getattr(self, "exploration", 1.0), 0.0)

    def score(self, candidates: Candidates, key: Key) -> Scores:
        """Score the candidates by mean + draw * std; override it for another rule."""
        model, x, rows = self._model, candidates.contexts, candidates.rows
        if not model.tells_arms_apart and self.chooses_by_counts:
            return self._score_by_counts(candidates, key)
        return model.score(x, rows, self.draws(len(rows), key))

    @property
    def chooses_by_counts(self) -> bool:
        """Whether arms are chosen by their numbers of rewards, because nothing else is known of them yet.

        Arms without rewards are then preferred, whatever the rule is. This ends with the first estimate of the scales.
        Policies with the rule `"draws"` or `"own"` never do it.
        """
        return not self._model.tells_arms_apart and self.rule not in ("draws", "own")

    def _score_by_counts(self, candidates: Candidates, key: Key) -> Scores:
        weights = self._checked_weights(candidates)
        exponentials = self.generator(key).standard_exponential(len(weights))
        scores = first_scores(weights, exponentials)
        return Scores(int(scores.argmax()), scores[None])

    def _probabilities_by_counts(self, candidates: Candidates) -> Probabilities:
        shares = first_shares(self._checked_weights(candidates))
        return Probabilities(shares, np.zeros(len(shares)))

    def _checked_weights(self, candidates: Candidates) -> Floats:
        """Return the weights of the candidates' rewards, if the contexts could be used for other choices."""
        contexts = candidates.contexts
        values = contexts.values if isinstance(contexts, SparseContexts) else contexts
        # The sum of squares is not finite if one number is not, or is too large.
        if not np.isfinite(np.vdot(values, values)):
            raise first_not_finite("contexts", values)
        return self._model.weights(candidates.rows)

    def _certain(self, candidates: Candidates) -> Probabilities:
        if self.chooses_by_counts:
            return self._probabilities_by_counts(candidates)
        return super()._certain(candidates)

    def _certain_with_scores(
        self, candidates: Candidates, key: Key
    ) -> tuple[Scores, Probabilities]:
        if self.chooses_by_counts:
            probabilities = self._probabilities_by_counts(candidates)
            return self._score_by_counts(candidates, key), probabilities
        return super()._certain_with_scores(candidates, key)

    def score_many(self, questions: Sequence[Candidates], keys: Sequence[Key]) -> list[Scores]:
        """Score the arms of several questions in one pass."""
        if not questions:
            return []
        if self.chooses_by_counts:
            return self._score_each(questions, keys)
        sizes = [len(question.rows) for question in questions]
        return self._model.score_many(
            # Of rows that are repeated, NumPy makes an array by columns.
            np.ascontiguousarray(np.concatenate([question.contexts for question in questions])),
            np.concatenate([question.rows for question in questions]),
            np.concatenate([self.draws(n, key) for n, key in zip(sizes, keys, strict=True)]),
            sizes,
        )

    def predict(
        self, contexts: Mapping[Any, ArrayLike] | ArrayLike, arms: Iterable[Name] | None = None
    ) -> Prediction:
        """Return mean and standard deviation of each arm's mean reward, as `(mean, std)`.

        If `arm_std` is learned and there are no slopes, the standard deviation includes its uncertainty, which the draws
        and bounds of decisions do not: `policy.posterior.predict` returns it without.

        Parameters
        ----------
        contexts
            The arms and their contexts, as for `decide`.
        arms
            The K names, as for `decide`.
        """
        x, _, rows = self.candidates(contexts, arms)
        _, table = self._model.score(x, rows, np.zeros(len(x)))
        return Prediction(table[0], self._model.std_for_intervals(rows, table[1]))

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
        prior, model = self.scales, self._model
        if isinstance(model, Adaptive) and not model.has_scales:  # then they are placeholders
            prior = Scales(intercept_std=prior.intercept_std)
        return diagnose(
            self.moments,
            prior=prior,
            feature_names=self._names_of(feature_names),
            binary=self.binary,
            contexts=contexts,
            arms=arms,
        )

    @property
    def posterior(self) -> Posterior:
        """The posterior: coefficients, arm effects, draws, log evidence. It is live, not a copy."""
        return self._model

    @property
    def moments(self) -> Moments:
        """All evidence so far, without the prior (a copy)."""
        return self._model.moments

    @property
    def scales(self) -> Scales:
        """The scales of the model and the prior of its coefficients, at present."""
        return self._model.scales

    @property
    def scale_history(self) -> list[ScaleEvent]:
        """When scales were learned, and their values from then on."""
        return list(self._model.history) if isinstance(self._model, Adaptive) else []

    @property
    def learns_scales(self) -> bool:
        """Whether any scale was given as `"learn"`."""
        return isinstance(self._model, Adaptive) and bool(self._model.learn)

    def learn_scales(self) -> None:
        """Estimate the scales that were given as `"learn"` from all evidence, now."""
        if not isinstance(self._model, Adaptive) or not self._model.learn:
            raise ParameterError(
                "all scales were given as numbers, expected some as 'learn', such as arm_std='learn'"
            )
        self._model.learn_scales()

    @property
    def half_life(self) -> float | None:
        """Number of rewards after which earlier evidence counts half; `None` if nothing is forgotten."""
        return self._model.half_life if isinstance(self._model, Adaptive) else None

    def decay(self, factor: float) -> None:
        """Forget old rewards: multiply all evidence by a factor; call it at regular intervals.

        The prior stays, so an arm that is not pulled returns to it. A factor of 1 changes nothing. The posterior is
        rebuilt, in O(K d² + d³).

        Parameters
        ----------
        factor
            Above 0 and at most 1. For a half-life of h days, call it once a day with 2^(-1/h).
        """
        self._model.decay(factor)

    @property
    def settings(self) -> dict[str, Any]:
        """The options that create this policy again, without what it has learned."""
        model = self._model
        settings = {"n_features": self.n_features, **self.scales.to_dict(), "learn_by": "map"}
        settings |= {"half_life": self.half_life, "seed": self.seed}
        if isinstance(model, Adaptive):
            settings |= {**model.guess.to_dict(), "learn_by": model.method}
            settings |= {
                name: "learn" if name in model.unknown else ("learn", getattr(model.guess, name))
                for name in model.learn
            }
        if isinstance(model, SlopePosterior):
            settings.setdefault("slopes", None)
        known = options_of(type(self))
        return {name: value for name, value in settings.items() if known is None or name in known}
