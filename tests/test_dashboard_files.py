"""The files of the dashboard hold no data, load nothing from elsewhere, and cannot run what others wrote."""

from __future__ import annotations

import asyncio
import gzip
import re
from pathlib import Path

import httpx
import pytest

from rolin.service.dashboard import files
from support.service import client

FOLDER = Path(files.__file__).parent
SCRIPTS = sorted(FOLDER.glob("*.js"))


def get(folder: Path, *paths: str, **headers: str) -> list[httpx.Response]:
    """Return the answers of a service, without a key."""

    async def ask() -> list[httpx.Response]:
        async with client(folder, headers=headers) as http:
            return [await http.get(path) for path in paths]

    return asyncio.run(ask())


def test_pages_are_served_with_strict_headers(tmp_path: Path) -> None:
    """Without a key; only own scripts and styles are allowed, and no frame around the page."""
    names = [path.name for path in FOLDER.iterdir() if path.suffix in (".js", ".css", ".svg")]
    answers = get(tmp_path, "/dashboard", *(f"/dashboard/{name}" for name in names))
    assert len(answers) > 10
    for answer in answers:
        assert answer.status_code == 200
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert "style-src 'self';" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
    assert answers[0].headers["content-type"] == "text/html; charset=utf-8"


def test_plotly_comes_from_its_package(tmp_path: Path) -> None:
    """Compressed, and only once: an unchanged file is not sent again."""
    (script,) = get(tmp_path, "/dashboard/plotly.min.js")
    assert script.status_code == 200
    assert script.headers["content-encoding"] == "gzip"
    assert b"plotly.js v" in script.content[:200]
    tag = {"If-None-Match": script.headers["etag"]}
    (again,) = get(tmp_path, "/dashboard/plotly.min.js", **tag)
    assert (again.status_code, again.content) == (304, b"")
    (plain,) = get(tmp_path, "/dashboard/style.css", **{"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert plain.content == (FOLDER / "style.css").read_bytes()
    assert gzip.decompress(gzip.compress(plain.content)) == plain.content


def test_no_other_file_can_be_read(tmp_path: Path) -> None:
    """Neither the sources beside them, nor anything above."""
    paths = ("files.py", "__init__.py", "..%2Fapp.py", "%2e%2e%2fkeys.json", "x.js", "index.html/")
    answers = get(tmp_path, *(f"/dashboard/{path}" for path in paths))
    assert {answer.status_code for answer in answers} == {404}


def test_the_start_page_is_the_dashboard(tmp_path: Path) -> None:
    """Who opens the address of the service finds it."""
    (answer,) = get(tmp_path, "/")
    assert (answer.status_code, answer.headers["location"]) == (307, "/dashboard")


def test_the_page_loads_only_its_own_files() -> None:
    """No script or style in the page, and no address of somebody else."""
    page = (FOLDER / "index.html").read_text()
    assert not re.search(r"<script(?![^>]*src=)|<style|\sstyle=|\son\w+=", page)
    for path in FOLDER.iterdir():
        if path.suffix in (".html", ".js", ".css"):
            assert "//cdn" not in path.read_text()
            found = re.findall(r"""["'(]https?://[^"')]*""", path.read_text())
            assert not found, (path.name, found)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_scripts_make_no_html_of_texts(path: Path) -> None:
    """Elements are made by `el`, whose children are texts or elements."""
    text = path.read_text()
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "localStorage"):  # fmt: skip
        assert word not in text, word
    assert len(text.splitlines()) <= 300
