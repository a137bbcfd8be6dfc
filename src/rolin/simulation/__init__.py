"""Policies against simulated worlds: the same problems and the same luck for all of them."""

from rolin.simulation.comparison import Comparison, Estimate
from rolin.simulation.result import Result
from rolin.simulation.runner import simulate

__all__ = ["Comparison", "Estimate", "Result", "simulate"]
