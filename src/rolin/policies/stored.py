"""The arrays in the state of each kind of model, checked against the settings before a policy is built.

A file of a kilobyte may claim a million features. To build such a policy first, and to compare shapes later, would take
minutes and gigabytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rolin._support.checks import count_of
from rolin.model.kernels import layout
from rolin.model.mixture import N_RATIOS
from rolin.model.scales import check_slopes, guess_of
from rolin.model.state_file import check_arrays

__all__ = [
    "Arrays",
    "check_dense",
    "check_epochs",
    "check_hidden",
    "check_hybrid",
    "check_logistic",
    "check_mixture",
    "check_posterior",
]

Arrays = Mapping[str, NDArray[Any]]
Settings = Mapping[str, Any]
_MOST_FEATURES = 100_000
_LAST_EPOCH = 64  # each epoch is as long as all before it


def check_posterior(settings: Settings, n_names: int, arrays: Arrays) -> None:
    """Raise unless these are the arrays of a `Posterior` or of an `Adaptive`."""
    _check_posterior(settings, n_names, arrays, {})


def check_logistic(settings: Settings, n_names: int, arrays: Arrays) -> None:
    """Raise unless these are the arrays of a `LogisticPosterior`. Earlier versions did not store the outcomes."""
    more: dict[str, tuple[int, ...]] = {}
    if arrays.keys() & {"outcomes", "schedule", "reference"}:
        more = {
            "outcomes": (1 + n_names, layout.N_OUTCOME), "schedule": (layout.N_SCHEDULE,),
            "reference": (2, _n_features(settings)),
        }  # fmt: skip
    _check_posterior(settings, n_names, arrays, more)
    if more:
        counts = arrays["outcomes"][:, [layout.YES, layout.NO, layout.CURVE, layout.SPREAD]]
        _check_positive(
            outcomes=counts, schedule=arrays["schedule"], reference=arrays["reference"][1]
        )


def check_mixture(settings: Settings, n_names: int, arrays: Arrays) -> None:
    """Raise unless these are the arrays of a `Mixture`."""
    _, shapes = _of_posterior(settings, n_names, arrays)
    shapes |= {name: (N_RATIOS, *shapes[name]) for name in ("coef", "factor", "numbers")}
    start, learns = guess_of("coef_std", settings["coef_std"], 1.0)
    if learns:
        shapes |= {"age": (2,), "learned": (len(arrays["learned"]), 1 + np.size(start))}
    check_arrays(arrays, shapes, {"tails": np.float32})
    _check_beliefs(arrays)
    if learns and not 0.0 <= arrays["age"][0] <= 2.0**53:
        raise ValueError("age has an impossible number of rewards")


def check_dense(settings: Settings, n_names: int, arrays: Arrays) -> None:
    """Raise unless these are the arrays of a `DensePosterior`."""
    own = n_names * (1 + _n_slopes(settings))
    size = _size(settings, arrays, "pulled", own) + own
    check_arrays(arrays, {"gram": (size, size), "pulled": (size,), "sums": (3,)})
    _check_positive(gram=np.diag(arrays["gram"]), sums=arrays["sums"][[0, 2]])


def check_hidden(settings: Settings, n_names: int, arrays: Arrays) -> None:
    """Raise unless these are the arrays of a `HiddenFeatures`."""
    hidden, rows = count_of("n_hidden", settings["n_hidden"], most=5000), 1 + n_names
    size = _n_features(settings) + hidden
    check_arrays(
        arrays,
        {
            "coef": (size,), "inverse": (size, size), "hidden": (rows, hidden),
            "hidden_inverse": (rows, hidden, hidden), "pulls": (rows,),
        },
    )  # fmt: skip
    _check_positive(pulls=arrays["pulls"])
    _check_inverses(arrays["inverse"], arrays["hidden_inverse"])


def check_hybrid(settings: Settings, n_names: int, arrays: Arrays) -> None:
    """Raise unless these are the arrays of a `HybridRegression`."""
    d, rows = _n_features(settings), 1 + n_names
    shared, own = settings.get("shared", ()), settings.get("own")  # the disjoint policy has neither
    k = d if shared is None else len(shared)
    m = (d if own is None else len(own)) + bool(settings["intercept"])
    check_arrays(
        arrays,
        {
            "coef": (k,), "inverse": (k, k), "own_inverse": (rows, m, m), "cross": (rows, m, k),
            "own_coef": (rows, m),
        },
    )  # fmt: skip
    _check_inverses(arrays["inverse"], arrays["own_inverse"])


def check_epochs(settings: Settings, n_names: int, arrays: Arrays) -> None:
    """Raise unless these are the arrays of an `EpochRegression`."""
    d = _n_features(settings)
    check_arrays(
        arrays,
        {
            "gram": (d, d),
            "cross": (d,),
            "fit": (d,),
            "safe_fit": (d,),
            "counts": (4,),
            "sums": (4,),
        },
        {"counts": np.int64},
    )
    rounds, epoch, safest, is_safe = arrays["counts"].tolist()
    if not (
        rounds >= 0 and 1 <= epoch <= _LAST_EPOCH and 0 <= safest <= epoch and 0 <= is_safe <= 1
    ):
        raise ValueError(f"counts is {arrays['counts'].tolist()}, which are no epochs")
    _check_positive(gram=np.diag(arrays["gram"]))


def _n_features(settings: Settings) -> int:
    return count_of("n_features", settings["n_features"], most=_MOST_FEATURES)


def _size(settings: Settings, arrays: Arrays, name: str, more: int = 0) -> int:
    """Return the number of coefficients, d or with an intercept d + 1, that the array `name` agrees with."""
    d = _n_features(settings)
    if "intercept_std" in settings:
        return d + (settings["intercept_std"] is not None)
    # A class of its own may set an intercept that is not among its options.
    return d + (name in arrays and arrays[name].shape[-1:] == (d + 1 + more,))


def _of_posterior(
    settings: Settings, n_names: int, arrays: Arrays
) -> tuple[int, dict[str, tuple[int, ...]]]:
    """Return the number of features, and the shapes of the arrays of a `Posterior`."""
    d, rows, size = _n_features(settings), 1 + n_names, _size(settings, arrays, "coef")
    shapes: dict[str, tuple[int, ...]] = {
        "arms": (rows, layout.CONTEXT + d), "tails": (rows, 1 + d), "coef": (size,),
        "factor": (size, size), "scatter": (3, 1 + d, 1 + d), "numbers": (layout.N_STORED,),
    }  # fmt: skip
    if settings.get("exploration") == "auto":
        shapes["sums"] = (2,)
    if "slope_std" in settings:
        q = 1 + _n_slopes(settings)
        shapes |= {
            "own": (rows, q, d + 2),
            "own_stds": (q,),
            "arm_scatter": (n_names, q - 1, 1 + d),
        }
    return d, shapes


def _n_slopes(settings: Settings) -> int:
    """Return the number of features with slopes; 0 for a policy without them."""
    if "slope_std" not in settings:
        return 0
    slopes = settings.get("slopes")
    return _n_features(settings) if slopes is None else len(check_slopes(slopes))


def _check_posterior(
    settings: Settings, n_names: int, arrays: Arrays, more: Mapping[str, tuple[int, ...]]
) -> None:
    """Raise unless these are the arrays of a `Posterior` or of an `Adaptive`, and more with these shapes."""
    d, shapes = _of_posterior(settings, n_names, arrays)
    shapes |= more
    if arrays.keys() & {"age", "learned", "coef_std", "slope_std"}:
        learned = arrays.get("learned", np.empty(0)).shape
        # seen, noise_std, arm_std, one coef_std or d of them, and mean and std of a learned intercept
        n_more = 2 * (settings.get("intercept_std") == "learn")
        # one slope_std, or one per slope
        given = settings.get("slope_std", ())
        guess = (
            given[1]
            if isinstance(given, (list, tuple)) and given[:1] in (["learn"], ("learn",))
            else given
        )
        n_more += 1 if isinstance(guess, str) else int(np.size(guess))
        width = (
            learned[1] if len(learned) == 2 and learned[1] in (4 + n_more, 3 + d + n_more) else 4
        )
        shapes |= {"age": (3,), "learned": (learned[0], width)}
        if settings.get("coef_std") == "learn" and "coef_std" in arrays:
            shapes["coef_std"] = (d,)
        if settings.get("slope_std") == "learn" and "slope_std" in arrays:
            shapes["slope_std"] = (_n_slopes(settings),)
    check_arrays(arrays, shapes, {"tails": np.float32})
    _check_beliefs(arrays)
    if "age" in arrays and not (0.0 <= arrays["age"][0] <= 2.0**53 and arrays["age"][2] > 0.0):
        raise ValueError(
            "age has an impossible number of rewards, or a weight that is not positive"
        )


def _check_beliefs(arrays: Arrays) -> None:
    """Raise if weights are negative, variances are not positive, or the coefficients are known exactly."""
    numbers = arrays["numbers"]
    _check_positive(arms=arrays["arms"][:, layout.WEIGHT], numbers=numbers[..., layout.COUNT])
    _check_positive(sums=arrays.get("sums", np.zeros(2)))
    _check_positive(numbers=numbers[..., layout.ARM_VARIANCE])
    if not (numbers[..., layout.NOISE_VARIANCE] > 0.0).all():
        raise ValueError("numbers has a variance of the noise that is not positive")
    if "own" in arrays:
        q = arrays["own"].shape[1]
        # Rows of arms without any weight are not in use.
        used = arrays["own"][
            (arrays["arms"][:, layout.WEIGHT] > 0.0) | (np.arange(len(arrays["own"])) == 0)
        ]
        if not (np.diagonal(used[:, :, :q], axis1=1, axis2=2) > 0.0).all():
            raise ValueError("own has a variance that is not positive")
        if not (arrays["own_stds"] > 0.0).all():
            raise ValueError("own_stds has a standard deviation that is not positive")
    if not np.diagonal(arrays["factor"], axis1=-2, axis2=-1).all():
        raise ValueError("factor has a zero on its diagonal, expected the root of a covariance")


def _check_positive(**values: NDArray[Any]) -> None:
    for name, given in values.items():
        if (given < 0.0).any():
            raise ValueError(f"{name} has a negative weight, count, variance or sum of squares")


def _check_inverses(*matrices: NDArray[Any]) -> None:
    for matrix in matrices:
        if not (np.diagonal(matrix, axis1=-2, axis2=-1) > 0.0).all():
            raise ValueError("a covariance has a variance that is not positive")
