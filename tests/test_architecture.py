"""The rules of the folder listing: packages do not reach into each other, names do not hide modules."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
from collections import defaultdict
from pathlib import Path

import rolin

SOURCE = Path(rolin.__file__).parent
# Private by name only: the documented methods of named tuples.
NAMED_TUPLE = {"_replace", "_asdict", "_fields", "_make"}


def packages() -> dict[str, dict[Path, ast.Module]]:
    """Return the syntax trees of every package directly below `rolin`."""
    trees: dict[str, dict[Path, ast.Module]] = defaultdict(dict)
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).parts
        package = parts[0] if len(parts) > 1 else "rolin"
        trees[package][path] = ast.parse(path.read_text(encoding="utf-8"))
    return trees


def is_private(name: str) -> bool:
    """Return whether a name is for its own package alone."""
    return name.startswith("_") and not name.startswith("__") and name not in NAMED_TUPLE


def defined_names(tree: ast.Module) -> set[str]:
    """Return the private names that a module defines: functions, attributes and constants."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"):
                found.add(node.attr)
        elif isinstance(node, ast.alias):
            found.add(node.asname or node.name)
    return {name for name in found if is_private(name)}


def reaches(package: str, trees: dict[Path, ast.Module]) -> list[str]:
    """Return the places where a package uses a private name that it does not define."""
    own = set().union(*(defined_names(tree) for tree in trees.values()))
    found = []
    for path, tree in trees.items():
        for node in ast.walk(tree):
            names: list[str] = []
            if isinstance(node, ast.Attribute) and is_private(node.attr):
                mine = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
                inherited = isinstance(node.value, ast.Call) and (
                    isinstance(node.value.func, ast.Name) and node.value.func.id == "super"
                )
                if not mine and not inherited and node.attr not in own:
                    names = [node.attr]
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("rolin"):
                parts = (node.module or "").split(".")
                if len(parts) > 1 and parts[1] != package:
                    names = [
                        alias.name
                        for alias in node.names
                        if is_private(alias.name) and alias.name != "_support"
                    ]
            found += [f"{path.relative_to(SOURCE)}:{node.lineno}: {name}" for name in names]
    return found


def test_no_package_uses_private_names_of_another() -> None:
    """`other._private` stays inside the package that defines the name."""
    found = [line for name, trees in packages().items() for line in reaches(name, trees)]
    assert not found, "\n".join(found)


def test_reaching_into_another_package_is_found() -> None:
    """The check above sees attributes and imports, and allows a package its own names."""
    tree = ast.parse(
        "from rolin.model.posterior import _rebuilt\n"
        "class A:\n    def __init__(self): self._own = 1\n"
        "def f(a, b): return a._own + b._foreign + b._replace(x=1)\n"
    )
    lines = reaches("policies", {SOURCE / "made.py": tree})
    assert lines == ["made.py:1: _rebuilt", "made.py:4: _foreign"]


def test_no_name_hides_a_module() -> None:
    """What a package exports is never called like one of its own modules."""
    for info in pkgutil.walk_packages(rolin.__path__, "rolin."):
        if not info.ispkg:
            continue
        package = importlib.import_module(info.name)
        modules = {module.name for module in pkgutil.iter_modules(package.__path__)}
        if info.name.endswith(".kernels"):  # compiled functions, called by their own package only
            continue
        hidden = {
            name
            for name in modules & set(vars(package))
            if not inspect.ismodule(vars(package)[name])
        }
        assert not hidden, f"{info.name} hides its modules {sorted(hidden)}"


def test_only_packages_lie_at_the_top() -> None:
    """Every module has a package; only `errors` is shared by all."""
    assert {path.name for path in SOURCE.glob("*.py")} == {"__init__.py", "errors.py"}
