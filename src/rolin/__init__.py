"""Robust contextual linear bandits: one linear model, plus one learned effect per arm."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rolin import (
    bandit,
    catalogue,
    datasets,
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
from rolin.bandit import AsyncBandit, Bandit, Explanation
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
from rolin.simulation import Result, plan_exploration, simulate

__version__ = "0.1.0"

__all__ = [
    "ArmEffects",
    "AsyncBandit",
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
    "datasets",
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
    "plan_exploration",
    "policies",
    "simulate",
    "simulation",
]

# Packages that are imported when they are first used; `paper` needs an extra.
if TYPE_CHECKING:
    from rolin import paper as paper
    from rolin import testing as testing
else:
    _LAZY = ("paper", "testing")

    def __getattr__(name: str) -> Any:
        if name in _LAZY:
            return import_module(f"rolin.{name}")
        raise AttributeError(f"module 'rolin' has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *_LAZY})
