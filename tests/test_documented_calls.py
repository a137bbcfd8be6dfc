"""The public calls and the words about them agree: parameters, messages, options."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import pkgutil
import re
import tomllib
from collections.abc import Iterator
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rolin
from rolin import offline
from rolin.errors import OverlapWarning

ROOT = Path(__file__).parent.parent
# The change log names parameters that no longer exist.
PAGES = [
    *sorted(page for page in ROOT.glob("*.md") if page.name != "CHANGELOG.md"),
    *sorted((ROOT / "docs").rglob("*.md")),
]
FOREIGN = {"mmap_mode", "sign"}  # of numpy.load, and a label of a metric


def public_things() -> Iterator[tuple[str, Any]]:
    """Every public class, function and method, found from the `__all__` of `rolin` and its packages."""
    packages = [found.name for found in pkgutil.iter_modules(rolin.__path__)]
    modules = [rolin]
    modules += [importlib.import_module(f"rolin.{p}") for p in packages if not p.startswith("_")]
    seen = set()
    for module in modules:
        for name in module.__all__:
            thing = getattr(module, name)
            if not (inspect.isclass(thing) or inspect.isfunction(thing)) or thing in seen:
                continue
            seen.add(thing)
            yield f"{module.__name__}.{name}", thing
            if inspect.isclass(thing):
                for attribute, value in vars(thing).items():
                    function = getattr(value, "__func__", value)
                    if not attribute.startswith("_") and inspect.isfunction(function):
                        yield f"{module.__name__}.{name}.{attribute}", function


def parameters_of(thing: Any) -> set[str]:
    """The parameters of a call."""
    if inspect.isclass(thing) and thing.__init__ is not object.__init__:
        thing = thing.__init__
    return set(inspect.signature(thing).parameters) - {"self", "cls"}


HOOKS: dict[str, list[str]] = tomllib.loads(
    (ROOT / "docs/reference_pages.toml").read_text(encoding="utf-8")
)["hidden"]


def why_no_parameters(name: str, thing: Any) -> str | None:
    """The reason for which a call needs no section "Parameters"; `None` if it needs one."""
    module, own = thing.__module__, name.split(".")[-1]
    if module.startswith("rolin.model."):
        return "the docstrings of the model are being rewritten"
    if module.startswith(("rolin.journal.events", "rolin.paper.")):
        return "the same"
    if module == "rolin.testing.capabilities":
        return "a protocol of calls that `Policy` describes"
    if inspect.isclass(thing):
        generated = is_dataclass(thing) or hasattr(thing, "_fields")
        error = issubclass(thing, (Exception, Warning))
        protocol = getattr(thing, "_is_protocol", False)
        return "its fields are described one by one" if generated or error or protocol else None
    hooks = {
        hook
        for where, hooks in HOOKS.items()
        if f"{module}.".startswith(f"{where}.")
        for hook in hooks
    }
    if own in hooks or "*" in hooks:
        return "not part of the reference"
    package, _, path = name.removeprefix("rolin.").rpartition(".")[0].rpartition(".")
    found = getattr(importlib.import_module(f"rolin.{package}".rstrip(".")), path, None)
    for base in inspect.getmro(found)[1:] if inspect.isclass(found) else ():
        if "Parameters\n---" in inspect.cleandoc(vars(base).get(own, thing).__doc__ or ""):
            return "the base class describes them"
    if package == "environments" and own == "play":
        return "the protocol `Environment` describes them"
    return None


def test_documented_parameters_exist() -> None:
    """A docstring describes the parameters of the signature, one by one; calls without them are exempt by reason."""
    described_calls = 0
    for name, thing in public_things():
        doc = inspect.cleandoc(thing.__doc__ or "")
        assert doc, f"{name} has no docstring"
        if "Parameters\n---" not in doc:
            assert not parameters_of(thing) or why_no_parameters(name, thing), name
            continue
        section = doc.split("Parameters\n----------\n")[1].split("\n\n")[0]
        lines = re.findall(r"^(\S.*)$", section, re.MULTILINE)
        described = {word.strip().lstrip("*") for line in lines for word in line.split(",")}
        assert described == parameters_of(thing), name
        described_calls += 1
    assert described_calls > 110


def named_parameters(text: str) -> set[str]:
    """The names before `=` in the inline code of a page, such as `floor=0.02`."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    return {
        name
        for code in re.findall(r"`([^`\n]+)`", text)
        for name in re.findall(r"(?<![\w.\-])([a-z_]\w*)=(?!=)", code)
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_named_parameters_exist(page: Path) -> None:
    """Every `name=` in inline code is a parameter of some public call."""
    known = FOREIGN.union(*(parameters_of(thing) for _, thing in public_things()))
    assert named_parameters(page.read_text()) <= known


def test_names_of_parameters_are_found() -> None:
    """The check above sees calls and single options, but no comparison, option of a command or block."""
    text = "`f(a=1, b_2=…)` and `c=` or `d == 1`, `--e=2`\n```python\ng(h=1)\n```\n"
    assert named_parameters(text) == {"a", "b_2", "c"}


def test_the_quoted_verdict_is_that_of_a_report() -> None:
    """The page on offline evaluation quotes the line with which an inconclusive report ends."""
    page = (ROOT / "docs/explanation/offline.md").read_text()
    (quoted,) = re.findall(r'The report ends with "([^"]+)"', page)
    bandit = rolin.Bandit(rolin.Uniform(n_features=2, seed=3))
    for contexts in np.random.default_rng(5).normal(size=(20, 3, 2)):
        bandit.reward(bandit.decide(contexts).id, 1.0)
    with pytest.warns(OverlapWarning):
        report = offline.evaluate(offline.read(bandit), "uniform")
    assert str(report).endswith(f"{quoted}.")


def test_moved_modules_are_where_the_change_log_says() -> None:
    """Every old module of the table is gone, and every new one exists."""
    table = (ROOT / "CHANGELOG.md").read_text().split("#### Modules that moved")[1].split("####")[0]
    rows = re.findall(r"^\| `(rolin[\w.]+)` \| (.+) \|$", table, re.MULTILINE)
    assert len(rows) > 70
    packages = {"rolin.bandit", "rolin.model"}  # modules then, packages now
    for old, new in rows:
        assert old in packages or not module_exists(old), old
        for module in re.findall(r"`([\w.]+)`", new):
            assert module_exists(module), module


def module_exists(name: str) -> bool:
    """Whether a module can be imported."""
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # not even its package
        return False
