"""What the policies with a Gaussian posterior share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rolin.arms import Name
from rolin.estimates import Prediction
from rolin.model import Numbers, Scales
from rolin.moments import Moments
from rolin.policies.base import Policy, options_of
from rolin.policies.question import Question, ask
from rolin.posterior import Posterior
from rolin.randomness import Key
from rolin.sampling import Scores

__all__ = ["LinearPolicy"]

Floats = NDArray[np.float64]


class LinearPolicy(Policy[Posterior]):
    """Base of the policies with a Gaussian posterior.

    Parameters
    ----------
    n_features
        Number d of features of a context; 0 for a bandit without context.
    coef_std
        Prior standard deviation of the coefficients: one number, or one per feature.
    coef_mean
        Prior mean of the coefficients: one number, or one per feature.
    intercept_std
        Prior standard deviation of an intercept; `None` for no intercept.
    intercept_mean
        Prior mean of the intercept.
    arm_std
        Standard deviation of the arms' own effects, which the features miss.
    noise_std
        Standard deviation of a reward around its mean.
    seed
        A non-negative integer; by default one from the operating system.

    Notes
    -----
    An update takes O(d²) however many arms there are; a reward of weight h has noise variance
    noise_std²/h. Threads may call `decide` with a `key` and `predict` at once. Everything else that
    changes a policy, decisions without a key included, needs a lock around it.
    """

    def __init__(
        self,
        *,
        n_features: int,
        coef_std: Numbers = 1.0,
        coef_mean: Numbers = 0.0,
        intercept_std: float | None = None,
        intercept_mean: float = 0.0,
        arm_std: float = 0.5,
        noise_std: float = 1.0,
        seed: int | None = None,
    ) -> None:
        scales = Scales(
            noise_std=noise_std,
            arm_std=arm_std,
            coef_std=coef_std,  # type: ignore[arg-type]  # Scales makes lists into tuples
            coef_mean=coef_mean,  # type: ignore[arg-type]  # the same
            intercept_std=intercept_std,
            intercept_mean=intercept_mean,
        )
        super().__init__(self._new_posterior(scales, n_features), seed)

    def _new_posterior(self, scales: Scales, n_features: int) -> Posterior:
        return Posterior(scales, n_features)

    @abstractmethod
    def _draws(self, n_arms: int, key: Key) -> Floats:
        """Say how many standard deviations above its mean each arm is scored: the rule.

        The highest score is chosen. Random numbers come from `generator(key)`.
        """

    def _score(self, question: Question, key: Key) -> Scores:
        """Score the arms of a question; a rule that is not mean + draw * std says so here."""
        x, (_, rows) = question
        return self._model.score(x, rows, self._draws(len(rows), key))

    def _score_many(self, questions: Sequence[Question], keys: Sequence[Key]) -> list[Scores]:
        """Score several questions, in one pass."""
        if not questions:
            return []
        sizes = [len(x) for x, _ in questions]
        return self._model.score_many(
            np.concatenate([x for x, _ in questions]),
            np.concatenate([named.rows for _, named in questions]),
            np.concatenate([self._draws(n, key) for n, key in zip(sizes, keys, strict=True)]),
            sizes,
        )

    def predict(
        self, contexts: Mapping[Any, ArrayLike] | ArrayLike, arms: Iterable[Name] | None = None
    ) -> Prediction:
        """Return mean and standard deviation of each arm's mean reward, as `(mean, std)`."""
        x, named = ask(self._model, contexts, arms, ())
        _, table = self._model.score(x, named.rows, np.zeros(len(x)))
        return Prediction(table[0], table[1])

    @property
    def posterior(self) -> Posterior:
        """What is known: coefficients, arm effects, draws, log evidence. Live, not a copy."""
        return self._model

    @property
    def moments(self) -> Moments:
        """All evidence so far, without the prior (a copy)."""
        return self._model.moments

    @property
    def scales(self) -> Scales:
        """The numbers of the model."""
        return self._model.scales

    @property
    def settings(self) -> dict[str, Any]:
        """The options that make this policy again, without what it has learned."""
        settings = {"n_features": self.n_features, **asdict(self.scales), "seed": self.seed}
        known = options_of(type(self))
        return {name: value for name, value in settings.items() if known is None or name in known}

    # -- state -------------------------------------------------------------------------------

    def with_moments(self, moments: Moments, removed: Iterable[Name], decisions: int) -> Self:
        """Return a policy of the same settings that has learned from these moments instead."""
        other = type(self)(**self.settings)
        other._model = type(self._model).of(self.scales, moments, removed=removed)
        other._decisions = decisions
        return other
