"""Problems to try policies on, one file each."""

from __future__ import annotations

from rolin.environments.base import Block, Environment
from rolin.environments.clicks import Clicks
from rolin.environments.drifting import Drifting
from rolin.environments.movielens import MovieLens
from rolin.environments.synthetic import Synthetic

__all__ = ["Block", "Clicks", "Drifting", "Environment", "MovieLens", "Synthetic"]
