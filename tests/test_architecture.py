"""Packages do not reach into each other, names do not hide modules, and test files stay small and separate."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

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


def module_of(node: ast.ImportFrom, path: Path) -> list[str]:
    """Return the parts of the module that a statement imports from, relative imports resolved."""
    named = (node.module or "").split(".") if node.module else []
    if not node.level:
        return named
    package = ["rolin", *path.relative_to(SOURCE).parts[:-1]]
    return package[: len(package) - node.level + 1] + named


def is_own(value: ast.expr) -> bool:
    """Return whether an expression is the object itself: `self`, `cls` or `super()`."""
    if isinstance(value, ast.Call):
        return isinstance(value.func, ast.Name) and value.func.id == "super"
    return isinstance(value, ast.Name) and value.id in ("self", "cls")


def by_text(node: ast.Call) -> str | None:
    """Return the attribute that `getattr(x, "name")` and its relatives use."""
    names = ("getattr", "setattr", "hasattr", "delattr")
    if isinstance(node.func, ast.Name) and node.func.id in names and len(node.args) > 1:
        name = node.args[1]
        return (
            name.value if isinstance(name, ast.Constant) and isinstance(name.value, str) else None
        )
    return None


class Definition(NamedTuple):
    """A class, with the private names that it defines."""

    package: str
    bases: list[str]
    names: set[str]


def definitions(packages: dict[str, dict[Path, ast.Module]]) -> dict[str, Definition]:
    """Return all classes by name."""
    return {
        node.name: Definition(
            package,
            [ast.unparse(base).split("[")[0].split(".")[-1] for base in node.bases],
            defined_names(ast.Module(node.body, [])),
        )
        for package, trees in packages.items()
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }


def inherited(name: str, classes: dict[str, Definition]) -> dict[str, set[str]]:
    """Return the private names that a class and its bases define, by package."""
    found: dict[str, set[str]] = defaultdict(set)
    if name in classes:
        package, bases, names = classes[name]
        found[package] |= names
        for base in bases:
            for where, theirs in inherited(base, classes).items():
                found[where] |= theirs
    return found


def used_names(node: ast.AST, path: Path, package: str, own: set[str]) -> list[str]:
    """Return the private names of other packages that a node uses, except by inheritance."""
    if isinstance(node, ast.Attribute):
        foreign = not is_own(node.value) and node.attr not in own
        return [node.attr] if foreign and is_private(node.attr) else []
    if isinstance(node, ast.Call):
        name = by_text(node)
        return [name] if name is not None and is_private(name) and name not in own else []
    if isinstance(node, ast.ImportFrom):
        source = module_of(node, path)
        if source[:1] == ["rolin"] and len(source) > 1 and source[1] != package:
            names = [alias.name for alias in node.names]
            return [name for name in names if is_private(name) and name != "_support"]
    return []


def reaches(
    package: str, trees: dict[Path, ast.Module], classes: dict[str, Definition]
) -> list[str]:
    """Return the places where a package uses a private name that it does not define."""
    own = set().union(*(defined_names(tree) for tree in trees.values()))
    found = []
    for path, tree in trees.items():
        for node in ast.walk(tree):
            names = [(node, name) for name in used_names(node, path, package, own)]
            if isinstance(node, ast.ClassDef):
                known = inherited(node.name, classes)
                mine = known.pop(package, set())
                foreign = set().union(*known.values()) - mine
                names += [
                    (part, part.attr)
                    for part in ast.walk(node)
                    if isinstance(part, ast.Attribute) and is_own(part.value)
                    if part.attr in foreign
                ]
            found += [f"{path.relative_to(SOURCE)}:{at.lineno}: {name}" for at, name in names]  # type: ignore[attr-defined]  # all of them have a line
    return found


def test_no_package_uses_private_names_of_another() -> None:
    """`other._private` stays inside the package that defines the name."""
    all_packages = packages()
    classes = definitions(all_packages)
    found = [line for name, trees in all_packages.items() for line in reaches(name, trees, classes)]
    assert not found, "\n".join(found)


def test_reaching_into_another_package_is_found() -> None:
    """The check above sees attributes, imports and inheritance, and allows a package its own names."""
    base = ast.parse("class B:\n    def __init__(self): self._own = self._hidden = 1\n")
    tree = ast.parse(
        "from rolin.model.posterior import _rebuilt\n"
        "from ..model.posterior import _other\n"
        "from . import _fine\n"
        "class A(B[int]):\n"
        "    def __init__(self): self._own = self._hidden\n"
        "def f(a, b): return a._own + b._foreign + b._replace(x=1)\n"
        "def g(a): setattr(a, '_text', getattr(a, '_own') + getattr(a, 'name'))\n"
    )
    made = SOURCE / "policies/made.py"
    both = {"model": {SOURCE / "model/base.py": base}, "policies": {made: tree}}
    lines = reaches("policies", both["policies"], definitions(both))
    found = sorted(line.removeprefix("policies/made.py:") for line in lines)
    assert found == ["1: _rebuilt", "2: _other", "5: _hidden", "6: _foreign", "7: _text"]


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
    names = {path.name for path in SOURCE.glob("*.py")}
    assert names == {"__init__.py", "__main__.py", "errors.py"}


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


def test_examples_import_from_packages() -> None:
    """Examples show how to use the library: they import from `rolin` or one of its packages, never deeper."""
    for path in sorted((TESTS.parent / "examples").glob("*.py")):
        imports = re.findall(r"^(?:from|import) (rolin[\w.]*)", path.read_text(), re.MULTILINE)
        assert not [m for m in imports if m.count(".") > 1 or "._" in m], path.name


TORN = re.compile(r"^\s*[)\]}]+[:,]?\s+#(?! fmt: skip)")


def test_comments_are_not_torn() -> None:
    """No comment stands behind a closing bracket, where the formatter moves those of lines that it splits."""
    found = [
        f"{path.relative_to(TESTS.parent)}:{number}: {line.strip()}"
        for folder in (
            "src",
            "tests",
            "tests-engines",
            "tests-clients",
            "examples",
            "benchmarks",
            "docs",
        )
        for path in sorted((TESTS.parent / folder).rglob("*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if TORN.match(line)
    ]
    assert not found, "\n".join(found)
