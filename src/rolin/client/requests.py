"""Requests and answers as values. Nothing is sent here."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from rolin.errors import ParameterError

__all__ = ["Answer", "Request", "encoded", "path_of"]


@dataclass(frozen=True)
class Request:
    """A request to the service."""

    method: str
    path: str
    """Percent-encoded, below the address of the service."""
    content: bytes | Callable[[], Iterator[bytes]] | None = None
    """The body; or a function that returns its parts, once for each attempt."""
    params: Mapping[str, str] = field(default_factory=dict)
    """Parameters behind the path."""
    repeatable: bool = True
    """Whether a repeat has no further effect and gets the same answer, so that it can be sent again if it is not known
    whether it arrived."""
    once: bool = False
    """Whether the body can be read only once, so that it is never sent again."""
    slow: bool = False
    """Whether it may take longer than other requests, because it works on a whole log or a catalogue."""
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
    try:
        return quote(part, safe="")
    except UnicodeEncodeError as error:
        raise _no_text(error) from None


def encoded(body: Any) -> bytes:
    """Return a body as JSON; NumPy arrays and numbers become lists and numbers.

    >>> encoded({"price": 3.5})
    b'{"price":3.5}'
    """
    try:
        return json.dumps(
            body, allow_nan=False, default=_plain, ensure_ascii=False, separators=(",", ":")
        ).encode()
    except UnicodeEncodeError as error:
        raise _no_text(error) from None
    except (ValueError, RecursionError) as error:  # NaN, infinity, a list that contains itself
        raise ParameterError(
            f"the request cannot be sent as JSON: {error}; expected finite numbers"
        ) from error


def _no_text(error: UnicodeEncodeError) -> ParameterError:
    wrong = ascii(error.object[error.start : error.end])
    return ParameterError(f"a text has {wrong}, half of a surrogate pair; expected valid Unicode")


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
