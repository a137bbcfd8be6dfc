"""Robust contextual linear bandits: one linear model, plus one learned effect per arm.

Packages and names are imported when they are first used, so that `import rolin.client` needs no NumPy.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:  # the same as below, for type checkers and editors
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

    # Not in `__all__`, because they need extras or are for tests only.
    from rolin import client as client
    from rolin import paper as paper
    from rolin import testing as testing
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
else:
    _MORE = ("client", "paper", "testing")
    _HOMES = {
        "bandit": ("AsyncBandit", "Bandit", "Explanation"),
        "catalogue": ("Catalogue",),
        "errors": ("RolinError",),
        "features": ("FeatureMap",),
        "fitting": ("Fit", "fit"),
        "journal": ("LoggedDecision",),
        "model": ("ArmEffects", "Coefficients", "Moments", "Posterior", "Prediction", "Scales"),
        "policies": (
            "BayesRoLinTS", "Decision", "DisjointLinUCB", "Greedy", "HLinUCB", "HybridLinUCB", "LinTS", "LinUCB",
            "LinearPolicy", "LogisticRoLinTS", "LogisticRoLinUCB", "NaiveRoLinTS", "Policy", "RoLinTS", "RoLinUCB",
            "SafeFALCON", "Uniform", "load", "merge",
        ),
        "simulation": ("Result", "plan_exploration", "simulate"),
    }  # fmt: skip
    _HOME = {name: home for home, names in _HOMES.items() for name in names}

    def __getattr__(name: str) -> Any:
        if name in _HOME:
            found = getattr(import_module(f"rolin.{_HOME[name]}"), name)
        elif name in _MORE or name in __all__:
            found = import_module(f"rolin.{name}")
        else:
            raise AttributeError(f"module 'rolin' has no attribute {name!r}")
        globals()[name] = found  # so that it is looked up once
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__, *_MORE})
