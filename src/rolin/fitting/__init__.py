"""Logs of any size to moments, on one machine or many."""

from rolin.fitting.fit import Fit, fit
from rolin.fitting.fold import Fold

__all__ = ["Fit", "Fold", "fit"]
