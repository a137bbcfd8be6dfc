"""Serve the files of the dashboard. They hold no data, so they need no key."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

__all__ = ["DASHBOARD_ROUTES"]

_FOLDER = Path(__file__).parent
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_PLOTLY = "plotly.min.js"
_HEADERS = {
    # Only our own files: no script in the page, no `eval`, nothing from elsewhere, and no frame around it.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",  # ask each time whether it has changed
    "Vary": "Accept-Encoding",
}


class _File(NamedTuple):
    """A file that is served."""

    kind: str
    content: bytes
    compressed: bytes
    tag: str


@cache
def _paths() -> dict[str, Path]:
    """Return the files by their name in the address. No other file can be asked for."""
    paths = {path.name: path for path in _FOLDER.iterdir() if path.suffix in _TYPES}
    spec = find_spec("plotly")  # without importing it
    if spec is not None and spec.origin is not None:
        script = Path(spec.origin).parent / "package_data" / _PLOTLY
        if script.exists():
            paths[_PLOTLY] = script
    return paths


@cache
def _file(name: str) -> _File:
    path = _paths()[name]
    content = path.read_bytes()
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    return _File(_TYPES[path.suffix], content, gzip.compress(content, 6), tag)


async def _serve(request: Request) -> Response:
    name = request.path_params.get("file", "index.html")
    if name not in _paths():
        raise HTTPException(404)
    file = await asyncio.to_thread(_file, name)
    headers = {**_HEADERS, "ETag": file.tag}
    if request.headers.get("if-none-match") == file.tag:
        return Response(status_code=304, headers=headers)
    content = file.content
    if "gzip" in request.headers.get("accept-encoding", ""):
        content = file.compressed
        headers["Content-Encoding"] = "gzip"
    return Response(content, headers={**headers, "Content-Type": file.kind})


DASHBOARD_ROUTES = [
    Route("/dashboard", _serve),
    Route("/dashboard/{file}", _serve),
]
"""The page at `/dashboard`, and the files that it loads."""
