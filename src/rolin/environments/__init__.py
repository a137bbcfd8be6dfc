"""Simulated bandit problems to compare policies on, one file each."""

from __future__ import annotations

from rolin.environments.base import Environment, Rounds
from rolin.environments.clicks import Clicks
from rolin.environments.drifting import Drifting
from rolin.environments.movielens import (
    MovieLens,
    Noise,
    movielens_environments,
    movielens_noise,
)
from rolin.environments.slopes import Slopes
from rolin.environments.synthetic import Synthetic

__all__ = [
    "Clicks",
    "Drifting",
    "Environment",
    "MovieLens",
    "Noise",
    "Rounds",
    "Slopes",
    "Synthetic",
    "movielens_environments",
    "movielens_noise",
]
