"""The public surface, pinned."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys

import rolin
from rolin import policies


def test_public_names() -> None:
    """Adding or removing a name is a decision, not an accident."""
    assert rolin.__all__ == [
        "ArmEffects", "Bandit", "BayesRoLinTS", "Catalogue", "Coefficients", "Decision", "Explanation", "FeatureMap", "Fit", "Greedy", "HLinUCB", "LinTS", "LinUCB",
        "LinearPolicy", "LoggedDecision", "LogisticRoLinTS", "LogisticRoLinUCB", "Moments", "NaiveRoLinTS", "Policy", "Posterior", "Prediction", "Result",
        "RoLinTS", "RoLinUCB", "RolinError", "SafeFALCON", "Scales", "Uniform", "__version__",
        "bandit", "catalogue", "environments", "errors", "features", "fit", "fitting", "journal", "load", "logs", "merge", "model", "offline", "policies",
        "simulate", "simulation",
    ]  # fmt: skip
    for name in rolin.__all__:
        assert hasattr(rolin, name)


def test_every_policy_is_public_and_documented() -> None:
    """Every policy that is found has a public name and says what its options mean."""
    for name, policy in policies.find().items():
        assert getattr(rolin, name) is policy
        assert policy.__doc__


def test_every_module_says_what_it_exports() -> None:
    """`__all__` is in every module, and every name in it is there and documented."""
    for module in pkgutil.walk_packages(rolin.__path__, "rolin."):
        loaded = importlib.import_module(module.name)
        assert loaded.__doc__, module.name
        for name in loaded.__all__:
            assert hasattr(loaded, name), f"{module.name}.{name}"


def test_importing_is_light() -> None:
    """`import rolin` needs none of the extras, nor SciPy's solvers."""
    heavy = [
        "scipy.linalg",
        "pandas",
        "matplotlib",
        "joblib",
        "typer",
        "rich",
        "threadpoolctl",
        "hypothesis",
        "pyarrow",
        "fsspec",
    ]
    code = f"import sys, rolin; print([m for m in {heavy} if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
