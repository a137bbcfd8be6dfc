"""The OpenAPI 3.1 document of the service, made from the endpoints that answer."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cache
from typing import Any

import msgspec

import rolin
from rolin.service.routes import ENDPOINTS, Endpoint

__all__ = ["Error", "document", "human_page"]


class ErrorDetail(msgspec.Struct):
    """What went wrong."""

    code: str
    """What kind of error it is."""
    message: str
    """What was given, and what was expected."""
    field: str | None = None
    """The part of the request that is meant."""


class Error(msgspec.Struct):
    """The answer to a request that failed."""

    error: ErrorDetail


_REF = "#/components/schemas/{name}"
_REASONS = {
    400: "The request is invalid; nothing was changed.",
    401: "There is no valid key.",
    403: "The key does not allow it.",
    404: "There is no such bandit or decision.",
    408: "The body took too long to arrive.",
    409: "The id or name is in use with other content.",
    413: "The request is too large.",
    422: "The policy of the bandit cannot do this.",
    429: "The key sends too many requests; `Retry-After` says when to go on.",
    503: "The journal cannot be written at present, or the service is starting or stopping.",
}


@cache
def document() -> dict[str, Any]:
    """Return the document."""
    types = [t for e in ENDPOINTS for t in (e.body, e.answer) if _is_struct(t)]
    _, components = msgspec.json.schema_components([*types, Error], ref_template=_REF)
    paths: dict[str, Any] = {}
    for endpoint in ENDPOINTS:
        path = re.sub(r"{(\w+):\w+}", r"{\1}", endpoint.path)
        paths.setdefault(path, {})[endpoint.method.lower()] = _operation(endpoint, path)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "rolin",
            "version": rolin.__version__,
            "description": "Decisions of robust contextual bandits: ask which arm to show, and report the reward later.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _operation(endpoint: Endpoint, path: str) -> dict[str, Any]:
    in_path = re.findall(r"{(\w+)}", path)
    operation: dict[str, Any] = {
        "summary": endpoint.summary,
        "operationId": endpoint.handler.__name__.lstrip("_"),
        "parameters": [
            *(
                {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
                for name in in_path
            ),
            *(
                {"name": name, "in": "query", "description": text, "schema": {"type": "string"}}
                for name, text in endpoint.query.items()
            ),
        ],
        "responses": {str(endpoint.status): _success(endpoint)},
    }
    if endpoint.path.endswith("/reward"):
        operation["responses"]["202"] = {
            "description": "There is no such decision yet: the reward is stored and waits for it."
        }
    if endpoint.scope is not None:
        operation["security"] = [{"key": []}]
        operation["description"] = f"The key needs the scope `{endpoint.scope}`."
    if endpoint.body is not None:
        operation["requestBody"] = {
            "required": True,
            "content": _content(endpoint.body, ["application/octet-stream"]),
        }
    for status, reason in _REASONS.items():
        if status in _possible(endpoint, in_path):
            operation["responses"][str(status)] = {
                "description": reason,
                "content": {"application/json": {"schema": _schema(Error)}},
            }
    return operation


def _success(endpoint: Endpoint) -> dict[str, Any]:
    found: dict[str, Any] = {"description": "It is done."}
    if endpoint.answer is not None:
        found["content"] = _content(endpoint.answer, endpoint.media)
    return found


def _content(kind: Any, files: Collection[str]) -> dict[str, Any]:
    media = files if kind is bytes else ["text/plain" if kind is str else "application/json"]
    return {each: {"schema": _schema(kind)} for each in media}


def _schema(kind: Any) -> dict[str, Any]:
    if kind is bytes:
        return {"type": "string", "format": "binary"}
    (schema,), _ = msgspec.json.schema_components([kind], ref_template=_REF)
    return dict(schema)


def _possible(endpoint: Endpoint, in_path: list[str]) -> set[int]:
    """Return the statuses of errors that an endpoint can answer with."""
    possible = {503}
    if endpoint.scope is not None:
        possible |= {401, 403, 429}
    if endpoint.body is not None or endpoint.query:
        possible |= {400, 408, 413}
    if in_path:
        possible |= {400, 404, 422}
    if endpoint.method in ("POST", "PUT", "PATCH"):
        possible |= {409}
    return possible


def human_page() -> str:
    """Return the document as a page for people."""
    rows = []
    for path, operations in document()["paths"].items():
        for method, operation in operations.items():
            body = operation.get("requestBody", {}).get("content", {})
            names = [_name(each["schema"]) for each in body.values()]
            answers = ", ".join(
                f"{status}{' ' + _name(content['schema']) if (content := next(iter(found.get('content', {}).values()), None)) else ''}"
                for status, found in operation["responses"].items()
                if int(status) < 300
            )
            rows.append(
                f"<tr><td><code>{method.upper()} {path}</code><td>{operation['summary']}<br><small>{operation.get('description', '')}</small><td>{', '.join(names)}<td>{answers}"
            )
    schemas = []
    for name, found in document()["components"]["schemas"].items():
        members = "".join(
            f"<tr><td><code>{member}</code><td><code>{_type(kind)}</code><td>{kind.get('description', '')}"
            for member, kind in found.get("properties", {}).items()
        )
        schemas.append(
            f"<h3 id={name}>{name}</h3><p>{found.get('description', '')}<table>{members}</table>"
        )
    return _PAGE.format(version=rolin.__version__, rows="".join(rows), schemas="".join(schemas))


def _name(schema: dict[str, Any]) -> str:
    name = str(schema.get("$ref", "")).rpartition("/")[2]
    return f"<a href='#{name}'>{name}</a>" if name else str(schema.get("type", ""))


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return _name(schema)
    if "anyOf" in schema:
        return " | ".join(_type(each) for each in schema["anyOf"])
    if "enum" in schema:
        return " | ".join(map(repr, schema["enum"]))
    if schema.get("type") == "array":
        return f"[{_type(schema.get('items', {}))}]"
    return str(schema.get("type", "any"))


_PAGE = """<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content="width=device-width">
<title>rolin: the API</title>
<style>body{{font:15px/1.5 system-ui;max-width:70rem;margin:2rem auto;padding:0 1rem}}
table{{border-collapse:collapse;width:100%}}td,th{{border-bottom:1px solid #ddd;padding:.3rem .6rem;text-align:left}}
code{{font-size:.9em}}</style>
<h1>rolin {version}: the API</h1>
<p>Every request but the health checks needs the header <code>Authorization: Bearer &lt;key&gt;</code>.
Errors have one shape: <code>{{"error": {{"code", "message", "field"}}}}</code>.
The same as <a href=/openapi.json>OpenAPI 3.1</a>.
<table><tr><th>Request<th>What it does<th>Body<th>Answer{rows}</table>
<h2>Bodies</h2>{schemas}</html>
"""
