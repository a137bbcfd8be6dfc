"""Data from outside: read, or fetched from where it is published. None of it comes with `rolin`."""

from __future__ import annotations

from rolin.datasets.download import fetch_movielens
from rolin.datasets.ratings import Ratings, read_ratings

__all__ = ["Ratings", "fetch_movielens", "read_ratings"]
