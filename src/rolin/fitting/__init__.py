"""Fit the model to logs of any length, on one machine or many."""

from rolin.fitting.fold import Fold
from rolin.fitting.log_fit import Fit, fit

__all__ = ["Fit", "Fold", "fit"]
