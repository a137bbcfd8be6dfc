"""Published data sets: download, read and factorize them. `rolin` itself contains no data."""

from __future__ import annotations

from rolin.datasets.download import fetch_movielens
from rolin.datasets.factorization import Factors, factorize
from rolin.datasets.ratings import Ratings, read_ratings

__all__ = ["Factors", "Ratings", "factorize", "fetch_movielens", "read_ratings"]
