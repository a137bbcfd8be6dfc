"""The scales of the robust linear model, which every Gaussian policy assumes.

    r = x'θ + v_i + x_S'b_i + ε,   θ_j ~ N(coef_mean_j, coef_std_j²),   v_i ~ N(0, arm_std²),
    b_ij ~ N(0, slope_std_j²),   ε ~ N(0, noise_std²)

An intercept is one more coefficient, whose feature is always 1. The slopes b_i say how an arm reacts differently to
some features S. Without them, this is the model of the paper.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from operator import index as index_of
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rolin._support.checks import as_floats, number_of
from rolin.errors import ParameterError, ShapeError

__all__ = [
    "CoefScale",
    "InterceptScale",
    "Learn",
    "Numbers",
    "Scale",
    "Scales",
    "SlopeScale",
    "check_intercept_std",
    "check_slopes",
    "guess_of",
]

# The squares of scales must be normal floating-point numbers too.
_SMALLEST, _LARGEST = 1e-150, 1e150

Numbers = float | Sequence[float] | NDArray[np.float64]
Learn = Literal["learn"]
Scale = float | Learn | tuple[Learn, float]
"""A number; or `"learn"`, or `("learn", 0.5)` to start with 0.5."""
CoefScale = Numbers | Learn | tuple[Learn, Numbers]
"""A `Scale`, with one number for all features or one per feature."""
SlopeScale = CoefScale
"""A `Scale`, with one number for all features that have slopes or one per such feature."""
InterceptScale = float | Learn | None
"""A number; `"learn"`; or `None` for no intercept."""


def guess_of(name: str, value: object, default: float | None) -> tuple[Any, bool]:
    """Return the number to start with (the default for `"learn"`), and whether the scale is learned."""
    if isinstance(value, str):
        if value == "learn":
            return default, True
        raise ParameterError(f"{name}={value!r}, expected a number or 'learn'")
    if isinstance(value, (tuple, list)) and value and isinstance(value[0], str):
        if value[0] == "learn" and len(value) == 2:
            return value[1], True
        raise ParameterError(f"{name}={value!r}, expected ('learn', number to start with)")
    return value, False


def _number(name: str, value: object) -> float:
    """Return a number that is not a boolean: True is a switch, not a scale of 1."""
    if isinstance(value, (bool, np.bool_)):
        raise ParameterError(f"{name}={value!r}, expected a number")
    return number_of(name, value, ParameterError)


def _scale(name: str, value: object, *, zero: bool = False) -> float:
    """Return a checked positive number (or zero, if allowed)."""
    number = _number(name, value)
    if not (_SMALLEST <= number <= _LARGEST or (zero and number == 0.0)):
        expected = "zero or a positive number" if zero else "a positive number"
        raise ParameterError(f"{name}={value!r}, expected {expected} (1e-150 to 1e150)")
    return number


def _are_positive(values: object) -> bool:
    """Return whether this is a tuple of positive numbers, which need no further check: fast, for learned scales."""
    if type(values) is not tuple or set(map(type, values)) != {float}:
        return False
    numbers = np.array(values)
    return bool(((numbers >= _SMALLEST) & (numbers <= _LARGEST)).all())


def check_intercept_std(value: object) -> None:
    """Reject a prior standard deviation of the intercept that is neither `None` nor a positive number."""
    if value is not None:
        _scale("intercept_std", value)


def _spread(name: str, value: object) -> float:
    """Return a checked standard deviation that may be zero."""
    return _scale(name, value, zero=True)


def check_slopes(slopes: object) -> tuple[int, ...]:
    """Return the indices of features that have slopes, in ascending order."""
    given: Any = slopes
    try:
        items = list(given)
        indices = tuple(sorted(index_of(j) for j in items))
    except TypeError:
        items, indices = [], (-1,)
    if (
        isinstance(given, (str, bytes))
        or any(isinstance(j, (bool, np.bool_)) for j in items)
        or min(indices, default=0) < 0
        or len(set(indices)) < len(indices)
    ):
        raise ParameterError(
            f"slopes={slopes!r}, expected a list of different indices of features, such as [0, 2] or "
            "feature_map.indices(['age'])"
        )
    return indices


def _mean(name: str, value: object) -> float:
    """Return a checked prior mean."""
    number = _number(name, value)
    if not abs(number) <= _LARGEST:
        raise ParameterError(f"{name}={value!r}, expected a finite number (up to 1e150)")
    return number


@dataclass(frozen=True, kw_only=True, repr=False)
class Scales:
    """The scales of the model: how much noise, arm effects and coefficients vary.

    These are numbers. A policy learns them by default, and its `scales` are the current ones.

    Parameters
    ----------
    noise_std
        Standard deviation σ of the reward around its mean.
    arm_std
        Standard deviation σ₀ of the arm effects, which the features miss. 0 gives the ordinary linear bandit.
    coef_std
        Prior standard deviation of the coefficients: one number, or one per feature.
    coef_mean
        Prior mean of the coefficients: one number, or one per feature.
    intercept_std
        Prior standard deviation of the intercept; `None` for no intercept.
    intercept_mean
        Prior mean of the intercept.
    slope_std
        Standard deviation of the arms' own slopes: one number, or one per feature in `slopes`. 0 for no slopes.
    slopes
        Indices of the features that have slopes; `None` for all features.

    Examples
    --------
    >>> Scales(noise_std=2.0, arm_std=0.5).shrinkage(16.0)
    0.5
    """

    noise_std: float = 1.0
    arm_std: float = 0.5
    coef_std: float | tuple[float, ...] = 1.0
    coef_mean: float | tuple[float, ...] = 0.0
    intercept_std: float | None = None
    intercept_mean: float = 0.0
    slope_std: float | tuple[float, ...] = 0.0
    slopes: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        """Check every value and convert it to a number or a tuple of numbers."""
        set_ = object.__setattr__  # the dataclass is frozen
        set_(self, "noise_std", _scale("noise_std", self.noise_std))
        set_(self, "arm_std", _scale("arm_std", self.arm_std, zero=True))
        for name, check in (("coef_std", _scale), ("coef_mean", _mean), ("slope_std", _spread)):
            value = getattr(self, name)
            if type(value) is float:
                check(name, value)
                continue
            if _are_positive(value):
                continue
            if isinstance(value, (list, tuple, np.ndarray)):
                if np.ndim(as_floats(name, value)) > 1:
                    shape = np.shape(value)
                    raise ShapeError(f"{name} has shape {shape}, expected a number or a list")
            if np.ndim(value) == 1:
                items = tuple(check(f"{name}[{j}]", item) for j, item in enumerate(value))
                set_(self, name, items)
            else:
                set_(self, name, check(name, value))
        if self.intercept_std is not None:
            set_(self, "intercept_std", _scale("intercept_std", self.intercept_std))
        set_(self, "intercept_mean", _mean("intercept_mean", self.intercept_mean))
        if self.intercept_std is None and self.intercept_mean != 0.0:
            raise ParameterError(
                f"intercept_mean={self.intercept_mean!r} without intercept_std, expected both: "
                "without intercept_std there is no intercept"
            )
        if self.slopes is not None:
            given, stds = self.slopes, self.slope_std
            set_(self, "slopes", check_slopes(given))
            if isinstance(stds, tuple) and len(stds) == len(self.slopes):
                if not isinstance(given, (list, tuple, range, np.ndarray)):
                    raise ParameterError(
                        f"slopes={given!r} with one slope_std per feature, expected a list of indices in the same order"
                    )
                # Each stays with its feature.
                set_(self, "slope_std", tuple(stds[j] for j in np.argsort(given)))
        if isinstance(self.slope_std, tuple) and not any(self.slope_std):
            set_(self, "slope_std", 0.0)  # no slopes, in one form

    def to_dict(self) -> dict[str, Any]:
        """Return all scales by name; those of slopes only if there are any."""
        values = asdict(self)
        if self.slope_std == 0.0 and self.slopes is None:
            del values["slope_std"], values["slopes"]
        return values

    def __repr__(self) -> str:
        """Return the call that creates these scales; those of slopes are shown only if there are any."""
        return f"Scales({', '.join(f'{name}={value!r}' for name, value in self.to_dict().items())})"

    @property
    def has_intercept(self) -> bool:
        """Whether the model has an intercept."""
        return self.intercept_std is not None

    @property
    def has_slopes(self) -> bool:
        """Whether the arms have slopes of their own."""
        return bool(np.any(np.asarray(self.slope_std) > 0.0))

    def slope_indices(self, n_features: int) -> NDArray[np.int64]:
        """Return the indices of the features that have slopes."""
        if self.slopes is None:
            return np.arange(n_features)
        if self.slopes and self.slopes[-1] >= n_features:
            raise ParameterError(
                f"slopes has the index {self.slopes[-1]}, expected indices below n_features={n_features}"
            )
        return np.array(self.slopes, dtype=np.int64)

    def own_stds(self, n_features: int) -> NDArray[np.float64]:
        """Return arm_std, and the standard deviation of each slope."""
        n = len(self.slope_indices(n_features))
        if isinstance(self.slope_std, tuple) and len(self.slope_std) != n:
            raise ShapeError(
                f"slope_std has {len(self.slope_std)} numbers, expected one or {n}, the number of features with slopes"
            )
        stds = np.empty(1 + n)
        stds[0], stds[1:] = self.arm_std, self.slope_std
        return stds

    def shrinkage(self, weight: float) -> float:
        """Return w = σ₀² / (σ₀² + σ²/H), eq. (5) of the paper, for an arm of weight H."""
        evidence = weight * self.arm_std**2
        return evidence / (evidence + self.noise_std**2)

    def prior(self, n_features: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return prior means and standard deviations of all coefficients, the intercept last."""
        size = n_features + self.has_intercept
        mean, std = np.empty(size), np.empty(size)
        for name, column in (("coef_mean", mean), ("coef_std", std)):
            value = getattr(self, name)
            if isinstance(value, tuple) and len(value) != n_features:
                raise ShapeError(
                    f"{name} has {len(value)} numbers, expected one or n_features={n_features}"
                )
            column[:n_features] = value
        mean[n_features:] = self.intercept_mean
        if self.intercept_std is not None:
            std[n_features] = self.intercept_std
        return mean, std
