"""LinUCB that learns hidden features of the arms: hLinUCB, a baseline of the paper."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Literal, NamedTuple, SupportsFloat, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rolin._support.arms import Name
from rolin._support.checks import count_of, first_not_finite, number_of
from rolin.errors import NotFiniteError, ParameterError
from rolin.model.draws import Scores, best_of
from rolin.model.learner import Learner
from rolin.policies import kernels
from rolin.policies.arm_rows import with_row
from rolin.policies.base import Policy
from rolin.policies.candidates import Candidates
from rolin.policies.decision import Probabilities
from rolin.policies.keyed_random import Key, KeyedGenerator, fresh_seed
from rolin.policies.linear import LinearPolicy
from rolin.policies.options import with_options_of
from rolin.policies.stored import check_hidden

__all__ = ["HLinUCB", "HiddenFeatures", "HiddenPrediction"]

Floats = NDArray[np.float64]
Initial = Literal["zero", "uniform", "normal", "one-hot"]
Width = float | Literal["adaptive"]

# Standard deviation of hidden features that start as normal numbers.
_SMALL = 0.1


@with_options_of(LinearPolicy)
class HLinUCB(Policy["HiddenFeatures"]):
    """LinUCB with hidden features of the arms, which it learns: hLinUCB.

    The mean reward of arm i is (x_i, v_i)'θ, where x_i is its context and v_i are its hidden features. An observation
    first updates θ, by ridge regression on all (x, v) so far. Then it updates v_i of the pulled arm, by ridge
    regression of the residuals of its rewards on θ_h, the hidden part of θ as it was at each pull. The score of an
    arm is its mean plus two widths: width · √(z'A⁻¹z) for θ and hidden_width · √(θ_h'C_i⁻¹θ_h) for v_i.

    Parameters
    ----------
    n_hidden
        Number L of hidden features of every arm.
    initial
        Hidden features of an arm before its first reward: `"uniform"` on [0, 1], `"normal"` with standard deviation
        0.1, `"one-hot"` (the i-th arm to be pulled starts as the i-th unit vector, and again from the first when they
        run out), or `"zero"`, with which no hidden features are learned.
    width
        Exploration of the shared coefficients: a number, or `"adaptive"` for 0.1 √log(t + 1) + 0.1 (1 - 0.8^t)
        after t rewards.
    hidden_width
        Exploration of the hidden features: a number, or `"adaptive"` for the same formula with t the number of the
        arm's own rewards.
    ridge
        Penalty of the coefficients.
    hidden_ridge
        Penalty of the hidden features.

    Notes
    -----
    Hidden features that start at zero stay at zero: with θ_h = 0 nothing is learned about v, and with v = 0 nothing
    about θ_h. So `initial="zero"`, the default of the authors' code, gives the decisions of `LinUCB(width=…)` for any
    `n_hidden`. The default here is the authors' other choice, "random".

    The other defaults are those of the authors' code. As in that code, each reward makes one pass of coordinate
    descent: old terms are never recomputed with newer v or θ, and nothing is projected to a ball. The first reward
    of an arm replaces its initial features (the ridge regression shrinks to zero). A weight multiplies a reward's
    terms in both regressions.

    References
    ----------
    Wang, Wu & Wang, *Learning Hidden Features for Contextual Bandits*, CIKM 2016.

    Examples
    --------
    >>> policy = HLinUCB(n_features=2, n_hidden=3, seed=7)
    >>> decision = policy.decide({"red": [1.0, 0.2], "blue": [0.3, 0.9]})
    >>> policy.update(decision.arm, decision.context, reward=1.0)
    """

    def __init__(
        self,
        *,
        n_features: int,
        n_hidden: int = 5,
        initial: Initial = "uniform",
        width: Width = 0.3,
        hidden_width: Width = 0.1,
        ridge: float = 0.1,
        hidden_ridge: float = 0.1,
        seed: int | None = None,
    ) -> None:
        if not isinstance(initial, str) or initial not in get_args(Initial):
            raise ParameterError(f"initial={initial!r}, expected one of {get_args(Initial)}")
        self._width = _width_of("width", width)
        self._hidden_width = _width_of("hidden_width", hidden_width)
        seed = fresh_seed() if seed is None else seed
        model = HiddenFeatures(
            n_features, n_hidden, initial, ridge, hidden_ridge, KeyedGenerator(seed)
        )
        super().__init__(model, seed)

    _check_stored = staticmethod(check_hidden)

    @property
    def settings(self) -> dict[str, Any]:
        """The options that create this policy again, without what it has learned."""
        model = self._model
        return {
            "n_features": self.n_features,
            "n_hidden": model.n_hidden,
            "initial": model.initial,
            "width": self._width,
            "hidden_width": self._hidden_width,
            "ridge": model.ridge,
            "hidden_ridge": model.hidden_ridge,
            "seed": self.seed,
        }

    def score(self, candidates: Candidates, key: Key) -> Scores:
        """Return the sums of mean and both widths."""
        x, names, rows = candidates
        model = self._model
        mean, std, hidden_std = model.read(x, names, rows)
        width = _adaptive(model.count) if self._width == "adaptive" else self._width
        if self._hidden_width == "adaptive":
            hidden_width: Any = _adaptive(model.pulls(rows))
        else:
            hidden_width = self._hidden_width
        with np.errstate(over="ignore", invalid="ignore"):
            scores = mean + width * std + hidden_width * hidden_std
        if not np.isfinite(scores).all():
            raise first_not_finite("contexts", x)
        return best_of(scores)

    def first_probabilities(self, candidates: Candidates) -> Probabilities:
        """Return 1 for the best arm; tied arms share it equally."""
        return self._certain(candidates)

    def score_with_probabilities(
        self, candidates: Candidates, key: Key
    ) -> tuple[Scores, Probabilities]:
        """Return the scores, and the probabilities that follow from them."""
        return self._certain_with_scores(candidates, key)

    @property
    def new_arms_are_equal(self) -> bool:
        """Whether arms without rewards score the same in the same context; random hidden features differ."""
        return self._model.initial in ("zero", "one-hot")


class HiddenPrediction(NamedTuple):
    """The mean rewards of K arms, and their two kinds of uncertainty."""

    mean: Floats
    """(K,): z'θ."""
    std: Floats
    """(K,): √(z'A⁻¹z), from the coefficients."""
    hidden_std: Floats
    """(K,): √(θ_h'C⁻¹θ_h), from the hidden features."""


class HiddenFeatures(Learner):
    """Two ridge regressions that alternate; their inverses are updated by rank-one steps."""

    def __init__(
        self,
        n_features: int,
        n_hidden: int,
        initial: Initial,
        ridge: float,
        hidden_ridge: float,
        starts: KeyedGenerator,
    ) -> None:
        super().__init__(n_features)
        self.n_hidden = count_of("n_hidden", n_hidden, most=5000)
        self.initial = initial
        self.ridge, self.hidden_ridge = ridge, hidden_ridge
        for name in ("ridge", "hidden_ridge"):
            value = number_of(name, getattr(self, name), ParameterError)
            if not 0.0 < value < math.inf:
                raise ParameterError(f"{name}={value!r}, expected a positive number")
            setattr(self, name, value)
        self._starts = starts  # draws the hidden features of arms that were never pulled
        size = self.n_features + self.n_hidden
        self._coef = np.zeros(size)  # θ
        self._inverse = np.eye(size) / self.ridge  # A⁻¹
        # Row 0 belongs to no arm: it is the state of an arm that was never pulled.
        self._hidden = np.zeros((1, self.n_hidden))  # v_i
        self._hidden_inverse = np.eye(self.n_hidden)[None] / self.hidden_ridge  # C_i⁻¹
        self._pulls = np.zeros(1)

    @property
    def count(self) -> float:
        """Number of rewards seen."""
        return float(self._pulls.sum())

    def pulls(self, rows: NDArray[np.int64]) -> Floats:
        """Return the number of rewards of each arm."""
        return self._pulls[rows]

    def observe(
        self, arm: Name, context: ArrayLike, reward: SupportsFloat, weight: SupportsFloat = 1.0
    ) -> None:
        """Learn from one reward: first θ, then the hidden features of the arm."""
        name, x, r, h = self.checked_observation(arm, context, reward, weight)
        row = self.arm_index.row_of.get(name, 0)
        # The row of a new arm equals the prior row until the arm has learned something.
        target = row or self._reserve(len(self.arm_index) + 1)
        z = np.concatenate([x, self._hidden[row] if row else self._start(name)])

        def learn() -> None:
            if not kernels.observe_hidden(
                z,
                r,
                h,
                self._coef,
                self._inverse,
                self._hidden[target],
                self._hidden_inverse[target],
            ):
                raise NotFiniteError("context, reward or weight is too large to compute with")
            if not row:
                self.arm_index.add(name)
            self._pulls[target] += 1.0

        everything, own = slice(None), target
        self.change(
            learn,
            {
                "_coef": everything,
                "_inverse": everything,
                "_hidden": own,
                "_hidden_inverse": own,
                "_pulls": slice(own, own + 1),
            },
        )

    def read(
        self, contexts: Floats, names: Iterable[Name], rows: NDArray[np.int64]
    ) -> HiddenPrediction:
        """Return the predictions of arms, given their contexts, names and rows."""
        v = self._hidden[rows]
        if self.initial != "zero" and not rows.all():
            for k, name in enumerate(names):
                if not rows[k]:
                    v[k] = self._start(name)
        z = np.concatenate([contexts, v], axis=1)  # (K, d + L)
        theta = self._coef[self.n_features :]
        with np.errstate(over="ignore", invalid="ignore"):
            variance = ((z @ self._inverse) * z).sum(axis=1)
            mean = z @ self._coef
            std = np.sqrt(np.maximum(variance, 0.0))
        if not theta.any():
            return HiddenPrediction(mean, std, np.zeros(len(rows)))
        # One product for all arms is faster than selecting the asked ones.
        n = len(self.arm_index) + 1
        product = (self._hidden_inverse[:n].reshape(-1, self.n_hidden) @ theta).reshape(n, -1)
        hidden_std: Floats = np.sqrt(np.maximum(product @ theta, 0.0))
        return HiddenPrediction(mean, std, hidden_std[rows])

    def _start(self, name: Name) -> Floats:
        """Return the initial hidden features of an arm; they depend on its name, so that reading changes nothing."""
        if self.initial == "one-hot":
            # All arms that were not yet pulled share the next unit vector. Nothing has been learned in its
            # direction, so they score as they would with one unit vector each.
            next_one = len(self.arm_index) % max(self.n_hidden, 1)
            unit: Floats = np.eye(1, self.n_hidden, next_one)[0]
            return unit
        if self.initial == "zero":
            return np.zeros(self.n_hidden)
        generator = self._starts.at(f"hidden features of {name!r}")
        if self.initial == "uniform":
            return generator.random(self.n_hidden)
        return _SMALL * generator.standard_normal(self.n_hidden)

    def _reserve(self, last_row: int) -> int:
        names = ("_hidden", "_hidden_inverse", "_pulls")
        self.commit(**{name: with_row(getattr(self, name), last_row) for name in names})
        return last_row

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the running state as named arrays (views, not copies)."""
        rows = 1 + len(self.arm_index)
        return {
            "coef": self._coef,
            "inverse": self._inverse,
            "hidden": self._hidden[:rows],
            "hidden_inverse": self._hidden_inverse[:rows],
            "pulls": self._pulls[:rows],
        }


def _adaptive(pulls: Any) -> Any:
    """Return the width by the schedule of the authors' code."""
    return 0.1 * np.sqrt(np.log(pulls + 1.0)) + 0.1 * (1.0 - 0.8**pulls)


def _width_of(name: str, value: object) -> Width:
    if value == "adaptive":
        return "adaptive"
    number = number_of(name, value, ParameterError)
    if not 0.0 <= number < math.inf:
        raise ParameterError(f'{name}={value!r}, expected a number of at least 0 or "adaptive"')
    return number
