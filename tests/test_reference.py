"""The reference under docs/reference/: up to date, complete, and readable without building the site."""

from __future__ import annotations

import importlib
import inspect
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from rolin import policies

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted((DOCS / "reference").glob("*.md"))
ANCHOR = re.compile(r'<a id="([\w.]+)"></a>')
PACKAGES = [
    "rolin",
    "rolin.bandit",
    "rolin.catalogue",
    "rolin.client",
    "rolin.datasets",
    "rolin.environments",
    "rolin.errors",
    "rolin.features",
    "rolin.fitting",
    "rolin.journal",
    "rolin.logs",
    "rolin.model",
    "rolin.offline",
    "rolin.policies",
    "rolin.simulation",
    "rolin.testing",
]


def test_pages_are_those_that_the_script_writes() -> None:
    """A docstring or a stored result that changes without its page fails here."""
    run = subprocess.run(
        [sys.executable, DOCS / "build.py", "--check"], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_every_public_name_has_an_entry() -> None:
    """Every name in `__all__` has an entry, or a reason not to have one in docs/reference_pages.toml."""
    anchors = [anchor for page in PAGES for anchor in ANCHOR.findall(page.read_text("utf-8"))]
    assert len(anchors) == len(set(anchors))
    found = [_resolved(anchor) for anchor in anchors if _is_entry(anchor)]
    internal = tomllib.loads((DOCS / "reference_pages.toml").read_text("utf-8"))["internal"]
    for package in map(importlib.import_module, PACKAGES):
        for name in package.__all__:
            value = getattr(package, name)
            if isinstance(value, ModuleType) or f"{package.__name__}.{name}" in internal:
                continue
            assert any(value is one for one in found), f"{package.__name__}.{name} has no entry"


def _is_entry(anchor: str) -> bool:
    """Return whether an anchor is that of an entry, rather than of a member of a class."""
    return anchor.rpartition(".")[0] in PACKAGES


def _resolved(anchor: str) -> object:
    package, _, name = anchor.rpartition(".")
    return getattr(importlib.import_module(package), name)


@pytest.mark.parametrize("name", policies.find())
def test_every_option_of_a_policy_is_described(name: str) -> None:
    """The entry of a policy lists its options, one by one, in the order of its signature."""
    page = (DOCS / "reference/policies.md").read_text("utf-8")
    entry = page.split(f'<a id="rolin.{name}"></a>')[1].split("\n### ")[1]
    if "**Parameters**" not in entry:
        assert "options are those of" in entry
        return
    listed = entry.split("**Parameters**")[1].split("\n\n")[1]
    described = re.findall(r"^- \*\*`(\w+)`\*\*", listed, re.MULTILINE)
    assert described == list(inspect.signature(getattr(policies, name)).parameters)


def test_links_lead_to_anchors() -> None:
    """Links of the reference lead to pages and anchors that exist."""
    anchors = {page.name: ANCHOR.findall(page.read_text("utf-8")) for page in PAGES}
    for page in PAGES:
        links = re.findall(r"\]\(([\w-]*\.md)?(?:#([\w.]+))?\)", page.read_text("utf-8"))
        for file, anchor in links:
            assert (file or page.name) in anchors, f"{page.name}: {file}"
            assert not anchor or anchor in anchors[file or page.name], f"{page.name}: {anchor}"


def test_pages_can_be_read_without_building_the_site() -> None:
    """No page has an include, a stub or a cross reference that only a site generator understands."""
    for page in DOCS.rglob("*.md"):
        text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
        text = re.sub(r"`[^`\n]+`", "", text)
        assert "--8<--" not in text, page
        assert not re.search(r"^::: ", text, re.MULTILINE), page
        assert not re.search(r"\]\[rolin", text), page
        for figure in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", text):
            assert (page.parent / figure).exists(), f"{page}: {figure}"


@pytest.fixture(scope="module")
def writer() -> Any:
    """What turns docstrings into Markdown, for the page about the model."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(DOCS)
        pages = importlib.import_module("reference_pages")
    return pages.Writer(pages.Reference(), "model")


def test_an_unknown_reference_is_an_error(writer: Any) -> None:
    """A cross reference to a name without an entry stops the script, which names it."""
    with pytest.raises(
        SystemExit, match=r"model.md: reference to rolin.nothing, which has no entry"
    ):
        writer.prose("See [`nothing`][rolin.nothing].")


def test_docstrings_become_markdown(writer: Any) -> None:
    """Sentences get lines of their own; examples and formulas become code blocks; links are relative."""
    text = """
First sentence, which is
long. See [`fit`][rolin.fit].

    a = b

>>> 1 + 1
2

>>> 2 + 2
4
"""
    assert (
        writer.prose(text)
        == """\
First sentence, which is long.
See [`fit`](fitting.md#rolin.fit).

```text
a = b
```

```pycon
>>> 1 + 1
2

>>> 2 + 2
4
```"""
    )
