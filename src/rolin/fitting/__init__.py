"""Logs of any size to moments, on one machine or many."""

from rolin.fitting.fold import Fold
from rolin.fitting.log_fit import Fit, fit

__all__ = ["Fit", "Fold", "fit"]
