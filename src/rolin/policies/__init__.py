"""The policies, one file each, and the functions that work on all of them."""

from __future__ import annotations

from rolin.policies.base import Policy
from rolin.policies.bayes_rolin_ts import BayesRoLinTS
from rolin.policies.decision import Decision, Probabilities
from rolin.policies.disjoint_lin_ucb import DisjointLinUCB
from rolin.policies.greedy import Greedy
from rolin.policies.hlinucb import HLinUCB
from rolin.policies.hybrid_lin_ucb import HybridLinUCB
from rolin.policies.lin_ts import LinTS
from rolin.policies.lin_ucb import LinUCB
from rolin.policies.linear import LinearPolicy
from rolin.policies.logistic import LogisticRoLinTS, LogisticRoLinUCB
from rolin.policies.merging import merge
from rolin.policies.naive import NaiveRoLinTS
from rolin.policies.registry import find, load
from rolin.policies.rolin_ts import RoLinTS
from rolin.policies.rolin_ucb import RoLinUCB
from rolin.policies.safe_falcon import SafeFALCON
from rolin.policies.uniform import Uniform

__all__ = [
    "BayesRoLinTS",
    "Decision",
    "DisjointLinUCB",
    "Greedy",
    "HLinUCB",
    "HybridLinUCB",
    "LinTS",
    "LinUCB",
    "LinearPolicy",
    "LogisticRoLinTS",
    "LogisticRoLinUCB",
    "NaiveRoLinTS",
    "Policy",
    "Probabilities",
    "RoLinTS",
    "RoLinUCB",
    "SafeFALCON",
    "Uniform",
    "find",
    "load",
    "merge",
]
