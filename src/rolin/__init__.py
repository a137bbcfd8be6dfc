"""Robust contextual linear bandits: one linear model, plus one learned effect per arm."""

from rolin import (
    bandit,
    catalogue,
    environments,
    errors,
    features,
    fitting,
    journal,
    logs,
    model,
    offline,
    policies,
    simulation,
)
from rolin.bandit import Bandit, Explanation
from rolin.catalogue import Catalogue
from rolin.errors import RolinError
from rolin.features import FeatureMap
from rolin.fitting import Fit, fit
from rolin.journal import LoggedDecision
from rolin.model import ArmEffects, Coefficients, Moments, Posterior, Prediction, Scales
from rolin.policies import (
    BayesRoLinTS,
    Decision,
    DisjointLinUCB,
    Greedy,
    HLinUCB,
    HybridLinUCB,
    LinearPolicy,
    LinTS,
    LinUCB,
    LogisticRoLinTS,
    LogisticRoLinUCB,
    NaiveRoLinTS,
    Policy,
    RoLinTS,
    RoLinUCB,
    SafeFALCON,
    Uniform,
    load,
    merge,
)
from rolin.simulation import Result, simulate

__version__ = "0.1.0"

__all__ = [
    "ArmEffects",
    "Bandit",
    "BayesRoLinTS",
    "Catalogue",
    "Coefficients",
    "Decision",
    "DisjointLinUCB",
    "Explanation",
    "FeatureMap",
    "Fit",
    "Greedy",
    "HLinUCB",
    "HybridLinUCB",
    "LinTS",
    "LinUCB",
    "LinearPolicy",
    "LoggedDecision",
    "LogisticRoLinTS",
    "LogisticRoLinUCB",
    "Moments",
    "NaiveRoLinTS",
    "Policy",
    "Posterior",
    "Prediction",
    "Result",
    "RoLinTS",
    "RoLinUCB",
    "RolinError",
    "SafeFALCON",
    "Scales",
    "Uniform",
    "__version__",
    "bandit",
    "catalogue",
    "environments",
    "errors",
    "features",
    "fit",
    "fitting",
    "journal",
    "load",
    "logs",
    "merge",
    "model",
    "offline",
    "policies",
    "simulate",
    "simulation",
]
