"""Compiled inner loops of the policies: keyed normal draws, their scale, propensities, and the update of hLinUCB."""

from collections.abc import Callable
from contextlib import suppress

import numba

from rolin.policies.kernels.draws import scale_draws
from rolin.policies.kernels.hidden_features import observe_hidden
from rolin.policies.kernels.noise import fill_noise_nodes, n_noise_nodes
from rolin.policies.kernels.propensity import (
    COARSE,
    FINE,
    average_over_models,
    average_over_pairs,
    probabilities_of_highest,
)

# `None` if NumPy has to draw, which gives the same numbers but takes longer: when kernels are interpreted (one of its
# instructions exists only in compiled code), or when Numba has moved its tables.
fill_normals: Callable[..., None] | None = None
if not numba.config.DISABLE_JIT:  # type: ignore[attr-defined]  # set when numba is imported
    with suppress(ImportError):
        from rolin.policies.kernels.normals import fill_normals

__all__ = [
    "COARSE",
    "FINE",
    "average_over_models",
    "average_over_pairs",
    "fill_noise_nodes",
    "fill_normals",
    "n_noise_nodes",
    "observe_hidden",
    "probabilities_of_highest",
    "scale_draws",
]
