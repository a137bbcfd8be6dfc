"""Logs of any size to moments, on one machine or many."""

from rolin.fitting.fold import Fold
from rolin.fitting.logs import Fit, fit

__all__ = ["Fit", "Fold", "fit"]
