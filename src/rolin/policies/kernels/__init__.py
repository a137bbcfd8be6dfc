"""Compiled inner loops of the policies: keyed normal draws, propensities, and the update of hLinUCB."""

from collections.abc import Callable
from contextlib import suppress

import numba

from rolin.policies.kernels.hidden_features import observe_hidden
from rolin.policies.kernels.propensity import highest

# `None` where NumPy has to draw, which gives the same but takes longer: where kernels are interpreted
# (one of its instructions only the compiler knows), or Numba's tables are not where they were.
fill_normals: Callable[..., None] | None = None
if not numba.config.DISABLE_JIT:  # type: ignore[attr-defined]  # set when numba is imported
    with suppress(ImportError):
        from rolin.policies.kernels.normals import fill_normals

__all__ = ["fill_normals", "highest", "observe_hidden"]
