"""The public surface, pinned."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cached_property
from types import ModuleType
from typing import Any, NamedTuple, get_args, get_type_hints

import pytest

import rolin
from rolin import policies
from rolin.policies.options import options_of, parameter_docs


def test_public_names() -> None:
    """Adding or removing a name is a decision, not an accident."""
    assert rolin.__all__ == [
        "ArmEffects", "AsyncBandit", "Bandit", "BayesRoLinTS", "Catalogue", "Coefficients", "Decision", "DisjointLinUCB", "Explanation", "FeatureMap", "Fit", "Greedy", "HLinUCB", "HybridLinUCB", "LinTS", "LinUCB",
        "LinearPolicy", "LoggedDecision", "LogisticRoLinTS", "LogisticRoLinUCB", "Moments", "NaiveRoLinTS", "Policy", "Posterior", "Prediction", "Result",
        "RoLinTS", "RoLinUCB", "RolinError", "SafeFALCON", "Scales", "Uniform", "__version__",
        "bandit", "catalogue", "datasets", "environments", "errors", "features", "fit", "fitting", "journal", "load", "logs", "merge", "model", "offline", "plan_exploration", "policies",
        "simulate", "simulation",
    ]  # fmt: skip
    for name in rolin.__all__:
        assert hasattr(rolin, name)


def test_every_policy_is_public_and_documents_its_options() -> None:
    """Every policy has a public name, and its docstring describes each of its options."""
    for name, policy in policies.find().items():
        assert getattr(rolin, name) is policy
        described = parameter_docs(policy)
        assert list(described) == options_of(policy), name
        for option, entry in described.items():
            assert len(entry.split()) > 3, f"{name} says nothing about {option}"


def test_types_and_signatures_of_shared_options_agree() -> None:
    """What type checkers accept is what the policy takes, with the types that LinearPolicy declares."""
    shared = get_type_hints(rolin.LinearPolicy.__init__)
    for policy in policies.find().values():
        hints = get_type_hints(policy.__init__)
        typed = get_args(hints.get("options")) if "options" in hints else ()
        for option, kind in {
            n: k for each in typed for n, k in get_type_hints(each).items()
        }.items():
            assert kind == shared[option], f"{policy.__name__}: {option}"
        names = {n for each in typed for n in get_type_hints(each)} | set(hints)
        assert names - {"options", "return"} == set(options_of(policy) or ()), policy.__name__


def test_every_module_says_what_it_exports() -> None:
    """`__all__` is in every module, and every name in it is there."""
    for module in modules():
        assert module.__doc__, module.__name__
        for name in module.__all__:
            assert hasattr(module, name), f"{module.__name__}.{name}"


def test_every_public_name_is_documented() -> None:
    """Functions and classes in `__all__` have docstrings, and so have public methods and properties."""
    missing = set()
    for module in modules():
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isclass(value) or inspect.isroutine(value):
                missing |= set(undocumented(f"{module.__name__}.{name}", value))
    assert not missing, "\n".join(sorted(missing))


def test_missing_documentation_is_found() -> None:
    """The check above sees functions, classes, methods, class methods and properties."""

    class Half:
        """Documented."""

        def method(self) -> None: ...

        @classmethod
        def make(cls) -> None: ...

        @property
        def number(self) -> int:
            return 1

        def _private(self) -> None: ...

    class Generated(NamedTuple):
        number: int

    def function() -> None: ...

    assert list(undocumented("Generated", Generated)) == ["Generated"]
    assert list(undocumented("Half", Half)) == ["Half.method", "Half.make", "Half.number"]
    assert list(undocumented("function", function)) == ["function"]


def modules() -> Iterator[ModuleType]:
    """Yield every module of the package."""
    yield rolin
    for module in pkgutil.walk_packages(rolin.__path__, "rolin."):
        yield importlib.import_module(module.name)


def undocumented(path: str, value: Any) -> Iterator[str]:
    """Yield the name, and those of the public members of a class, that have no docstring of their own or inherited."""
    doc = value.__doc__ if inspect.isclass(value) else inspect.getdoc(value)
    generated = inspect.isclass(value) and (doc or "").startswith(f"{value.__name__}(")
    if not doc or generated:  # dataclasses and named tuples get one by themselves
        yield path
    if inspect.isclass(value) and value.__module__.startswith(("rolin", __name__)):
        for name, member in vars(value).items():
            public = not name.startswith("_")
            code = inspect.isroutine(member) or isinstance(member, (property, cached_property))
            if public and code and not inspect.getdoc(getattr(value, name)):
                yield f"{path}.{name}"


@pytest.mark.parametrize(
    ("module", "own", "more"),
    [
        ("rolin", set(), set()),
        # Where rich is installed, httpx loads it.
        ("rolin.client", {"_support", "client", "errors"}, {"httpx", "anyio", "rich"}),
    ],
)
def test_importing_is_light(module: str, own: set[str], more: set[str]) -> None:
    """`import rolin` loads no other package, and `import rolin.client` only httpx and what that needs."""
    heavy = {
        "numpy", "numba", "scipy", "safetensors", "pandas", "matplotlib", "joblib", "typer", "rich", "threadpoolctl",
        "hypothesis", "pyarrow", "fsspec", "msgspec", "starlette", "httpx", "anyio",
    }  # fmt: skip
    code = f"import sys, {module}; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = run.stdout.split()
    assert heavy & set(loaded) <= more
    assert {name.split(".")[1] for name in loaded if name.startswith("rolin.")} == own


def test_every_package_is_an_attribute() -> None:
    """After `import rolin`, every public package can be used; it is imported only then."""
    code = (
        "import sys, rolin\n"
        "before = [name for name in sys.modules if name.startswith('rolin.')]\n"
        "print(before, rolin.testing.check_policy.__name__, rolin.paper.Experiment.__name__)\n"
        "assert {'client', 'paper', 'testing', *rolin.__all__} <= set(dir(rolin))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["[]", "check_policy", "Experiment"]
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        rolin.nothing  # type: ignore[attr-defined]  # noqa: B018  # on purpose


def test_type_checkers_see_what_is_imported() -> None:
    """The imports for type checkers give every public name, from the same place."""
    tree = ast.parse(inspect.getsource(rolin))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {}
    for statement in block.body:
        assert isinstance(statement, ast.ImportFrom)
        for alias in statement.names:
            home = statement.module or ""
            seen[alias.name] = importlib.import_module(
                f"rolin.{alias.name}" if home == "rolin" else home
            )
    assert seen.keys() == {*rolin.__all__, "client", "paper", "testing"} - {"__version__"}
    for name, home in seen.items():
        found = getattr(rolin, name)
        assert found is home or found is getattr(home, name)


def test_names_are_the_same_however_they_are_imported() -> None:
    """Also by `from rolin import`, by a star, and in a pickle."""
    code = (
        "import pickle\n"
        "from rolin import *\n"
        "from rolin import RoLinTS as other\n"
        "import rolin.policies\n"
        "assert RoLinTS is other is rolin.RoLinTS is rolin.policies.RoLinTS\n"
        "assert pickle.loads(pickle.dumps(RoLinTS)) is RoLinTS\n"
        "assert pickle.loads(pickle.dumps(RoLinTS(n_features=2, seed=1))).n_features == 2\n"
        "print(bandit.Bandit is Bandit, rolin.fit is fitting.fit)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["True", "True"]
