"""Requests as values, and what their answers mean. Nothing is sent here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from rolin.errors import (
    AccessDenied,
    Conflict,
    NotFound,
    ParameterError,
    ServiceError,
    ServiceUnavailable,
)

__all__ = ["Answer", "Request", "encoded", "path_of", "refusal", "value_of"]

_KINDS = {401: AccessDenied, 403: AccessDenied, 404: NotFound, 409: Conflict, 429: ServiceUnavailable}  # fmt: skip
_MOST = 300  # characters of an answer that a message shows


@dataclass(frozen=True)
class Request:
    """A request to the service."""

    method: str
    path: str
    """Percent-encoded, below the address of the service."""
    content: bytes | None = None
    """The body."""
    params: Mapping[str, str] = field(default_factory=dict)
    """Parameters behind the path."""
    repeatable: bool = True
    """Whether a repeat has no further effect and gets the same answer, so that it can be sent again if it is not known
    whether it arrived."""
    slow: bool = False
    """Whether it may take longer than other requests, because it works on a whole log."""
    into: Path | None = None
    """The file to write the answer to."""

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


class Answer(NamedTuple):
    """The answer to a request."""

    status: int
    headers: Mapping[str, str]
    content: bytes


def path_of(*parts: str) -> str:
    """Return the path of something below `/v1`, with names and ids encoded.

    >>> path_of("bandits", "offers", "decisions", "visit 1/2")
    '/v1/bandits/offers/decisions/visit%201%2F2'
    """
    return "/".join(["/v1", *map(_quoted, parts)])


def _quoted(part: str) -> str:
    if not isinstance(part, str) or not part:
        raise ParameterError(f"{part!r} is not a name or an id, expected a text")
    if not part.strip("."):  # otherwise it would mean this folder, or the one above
        return part.replace(".", "%2E")
    return quote(part, safe="")


def encoded(body: Any) -> bytes:
    """Return a body as JSON; NumPy arrays and numbers become lists and numbers.

    >>> encoded({"price": 3.5})
    b'{"price":3.5}'
    """
    try:
        return json.dumps(
            body, allow_nan=False, default=_plain, ensure_ascii=False, separators=(",", ":")
        ).encode()
    except (ValueError, RecursionError) as error:  # NaN, infinity, a list that contains itself
        raise ParameterError(
            f"the request cannot be sent as JSON: {error}; expected finite numbers"
        ) from error


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    kind = type(value).__name__
    raise ParameterError(
        f"{value!r} is a {kind}, expected something that JSON can hold: texts, numbers, true or false, lists, objects"
    )


def value_of(request: Request, answer: Answer) -> Any:
    """Return the JSON of an answer."""
    try:
        return json.loads(answer.content)
    except ValueError:
        raise ServiceError(
            f"{request}: the answer is not JSON: {_shown(answer)}; is this the address of the service?",
            status=answer.status,
        ) from None


def refusal(what: object, answer: Answer) -> ServiceError:
    """Return the error that an answer means.

    Parameters
    ----------
    what
        What was asked, for the message.
    answer
        The answer.
    """
    try:
        told = json.loads(answer.content)["error"]
        code, message, where = str(told["code"]), str(told["message"]), told.get("field")
    except (ValueError, KeyError, TypeError):  # not from the service, but from a proxy before it
        code, message, where = "unexpected_answer", _shown(answer), None
    about = f"status {answer.status}, {code}" + (f", field {where}" if where else "")
    kind = _KINDS.get(answer.status, ServiceUnavailable if answer.status >= 500 else ServiceError)
    return kind(f"{what}: {message} ({about})", status=answer.status, code=code, field=where)


def _shown(answer: Answer) -> str:
    text = answer.content.decode(errors="replace")
    return repr(text if len(text) <= _MOST else text[:_MOST] + "…")
