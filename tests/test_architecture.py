"""Packages do not reach into each other, names do not hide modules, and test files stay small and separate."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from collections import defaultdict
from pathlib import Path

import rolin

SOURCE = Path(rolin.__file__).parent
TESTS = Path(__file__).parent
MAX_LINES = 600  # of a test file; a longer one tests more than one behavior
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


def imported_tests(text: str, modules: set[str]) -> list[str]:
    """Return the test modules that a file imports, also in code that it passes to a process."""
    imports = re.findall(r"^[\s\"']*(?:from|import)\s.*", text, flags=re.MULTILINE)
    return [name for line in imports for name in re.findall(r"\w+", line) if name in modules]


def test_no_test_module_imports_another() -> None:
    """What several test modules share is in `tests/support`."""
    files = sorted(TESTS.rglob("*.py"))
    modules = {path.stem for path in files if path.stem.startswith("test_")}
    found = [
        f"{path.relative_to(TESTS)} imports {name}"
        for path in files
        for name in imported_tests(path.read_text(encoding="utf-8"), modules)
    ]
    assert not found, "\n".join(found)


def test_imports_of_test_modules_are_found() -> None:
    """The check above sees every form of an import, and no other use of the name."""
    text = (
        "from test_a import x\n    import os, test_b as b\n'from tests.test_c import y'\n"
        "import test_another\nfiles = ['test_a.py']\n"
    )
    assert imported_tests(text, {"test_a", "test_b", "test_c"}) == ["test_a", "test_b", "test_c"]


def test_no_test_file_is_too_long() -> None:
    """A file that grows too long is split by behavior."""
    lengths = {
        str(path.relative_to(TESTS)): len(path.read_text(encoding="utf-8").splitlines())
        for path in sorted(TESTS.rglob("*.py"))
    }
    assert not {name: lines for name, lines in lengths.items() if lines > MAX_LINES}
