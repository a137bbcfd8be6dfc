"""The robust linear model: one set of coefficients for all arms, and one effect per arm."""

from rolin.model.diagnosis import diagnose
from rolin.model.estimation import Interval, ScaleEstimate, estimate_scales
from rolin.model.gain import Gain
from rolin.model.mixture import Beliefs
from rolin.model.moments import Moments
from rolin.model.posterior import Posterior
from rolin.model.report import Diagnosis, Effect
from rolin.model.scale_schedule import ScaleEvent
from rolin.model.scales import Scales
from rolin.model.slopes import SlopePosterior
from rolin.model.summaries import (
    ArmCoefficients,
    ArmEffects,
    Coefficients,
    LogitPrediction,
    OwnCoefficients,
    Prediction,
)
from rolin.model.theory import RegretBound, bayes_regret_bound, linear_bandit_regret_bound
from rolin.model.view import PosteriorView

__all__ = [
    "ArmCoefficients",
    "ArmEffects",
    "Beliefs",
    "Coefficients",
    "Diagnosis",
    "Effect",
    "Gain",
    "Interval",
    "LogitPrediction",
    "Moments",
    "OwnCoefficients",
    "Posterior",
    "PosteriorView",
    "Prediction",
    "RegretBound",
    "ScaleEstimate",
    "ScaleEvent",
    "Scales",
    "SlopePosterior",
    "bayes_regret_bound",
    "diagnose",
    "estimate_scales",
    "linear_bandit_regret_bound",
]
