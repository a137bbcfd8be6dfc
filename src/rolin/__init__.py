"""Robust contextual linear bandits: one linear model, plus one learned effect per arm."""

from rolin import (
    diagnose,
    environments,
    errors,
    features,
    fitting,
    journal,
    offline,
    scales,
    theory,
)
from rolin.bandit import Bandit
from rolin.catalogue import Catalogue
from rolin.errors import RolinError
from rolin.estimates import ArmEffects, Coefficients, Prediction
from rolin.explanation import Explanation
from rolin.features import FeatureMap
from rolin.fitting import Fit, fit
from rolin.journal import LoggedDecision
from rolin.model import Scales
from rolin.moments import Moments
from rolin.policies import Decision, LinearPolicy, Policy, load, merge
from rolin.policies.bayes_rolin_ts import BayesRoLinTS
from rolin.policies.greedy import Greedy
from rolin.policies.hlinucb import HLinUCB
from rolin.policies.lin_ts import LinTS
from rolin.policies.lin_ucb import LinUCB
from rolin.policies.logistic import LogisticRoLinTS, LogisticRoLinUCB
from rolin.policies.naive import NaiveRoLinTS
from rolin.policies.rolin_ts import RoLinTS
from rolin.policies.rolin_ucb import RoLinUCB
from rolin.policies.safe_falcon import SafeFALCON
from rolin.policies.uniform import Uniform
from rolin.posterior import Posterior
from rolin.result import Result
from rolin.simulate import simulate

__version__ = "0.1.0"

__all__ = [
    "ArmEffects",
    "Bandit",
    "BayesRoLinTS",
    "Catalogue",
    "Coefficients",
    "Decision",
    "Explanation",
    "FeatureMap",
    "Fit",
    "Greedy",
    "HLinUCB",
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
    "diagnose",
    "environments",
    "errors",
    "features",
    "fit",
    "fitting",
    "journal",
    "load",
    "merge",
    "offline",
    "scales",
    "simulate",
    "theory",
]
