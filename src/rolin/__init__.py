"""Robust contextual linear bandits: one linear model, plus one learned effect per arm."""

from rolin import errors, theory
from rolin.errors import RolinError
from rolin.estimates import ArmEffects, Coefficients, Prediction
from rolin.model import Scales
from rolin.moments import Moments
from rolin.policies import Decision, LinearPolicy, load, merge
from rolin.policies.greedy import Greedy
from rolin.policies.lin_ts import LinTS
from rolin.policies.lin_ucb import LinUCB
from rolin.policies.naive import NaiveRoLinTS
from rolin.policies.rolin_ts import RoLinTS
from rolin.policies.rolin_ucb import RoLinUCB
from rolin.policies.uniform import Uniform
from rolin.posterior import Posterior

__version__ = "0.1.0"

__all__ = [
    "ArmEffects",
    "Coefficients",
    "Decision",
    "Greedy",
    "LinTS",
    "LinUCB",
    "LinearPolicy",
    "Moments",
    "NaiveRoLinTS",
    "Posterior",
    "Prediction",
    "RoLinTS",
    "RoLinUCB",
    "RolinError",
    "Scales",
    "Uniform",
    "__version__",
    "errors",
    "load",
    "merge",
    "theory",
]
