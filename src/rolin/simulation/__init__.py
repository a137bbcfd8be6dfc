"""Simulate policies in environments: in each run, all policies face the same problem and the same noise."""

from rolin.simulation.comparison import Comparison, RunEstimate
from rolin.simulation.planning import ExplorationPlan, plan_exploration
from rolin.simulation.result import Result
from rolin.simulation.runner import simulate

__all__ = ["Comparison", "ExplorationPlan", "Result", "RunEstimate", "plan_exploration", "simulate"]
