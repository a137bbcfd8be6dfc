"""From exceptions to answers: one status and one JSON shape for every error."""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

from rolin.errors import (
    DataError,
    DecisionConflict,
    InputError,
    JournalError,
    MergeError,
    MissingExtra,
    NotLearned,
    RewardConflict,
    RolinError,
    StateFileError,
    UnknownDecision,
    Unsupported,
)

__all__ = ["CODES", "Failure", "Refusal", "failure_of", "field_of"]

CODES = {
    400: "invalid_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    408: "request_timeout",
    409: "conflict",
    413: "too_large",
    422: "unsupported",
    429: "too_many_requests",
    500: "internal_error",
    503: "unavailable",
}
"""The code of every status, as the answers name it."""

_STATUS: list[tuple[type[Exception], int]] = [  # the first that fits
    (UnknownDecision, 404),
    (DecisionConflict, 409),
    (RewardConflict, 409),
    (Unsupported, 422),
    (MissingExtra, 422),
    (NotLearned, 422),
    (InputError, 400),
    (MergeError, 400),
    (DataError, 400),
    (StateFileError, 400),
    (JournalError, 503),
    (msgspec.DecodeError, 400),
    (UnicodeError, 400),
    (RecursionError, 400),
]


class Refusal(RolinError):
    """A request that the service refuses before a bandit sees it.

    Parameters
    ----------
    status
        The HTTP status.
    message
        What was given and what was expected.
    field
        The part of the request that is meant, such as `arms[3].features`.
    retry_after
        Seconds after which the request may be repeated.
    """

    def __init__(
        self, status: int, message: str, *, field: str | None = None, retry_after: int | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.field, self.retry_after = status, field, retry_after


class Failure(NamedTuple):
    """An error as it is answered."""

    status: int
    code: str
    message: str
    field: str | None = None
    retry_after: int | None = None

    def body(self) -> dict[str, object]:
        """Return the JSON of the error."""
        error: dict[str, object] = {"code": self.code, "message": self.message}
        if self.field is not None:
            error["field"] = self.field
        return {"error": error}


def failure_of(error: Exception) -> Failure:
    """Return the answer to a request that raised an error."""
    if isinstance(error, Refusal):
        return Failure(
            error.status, CODES[error.status], str(error), error.field, error.retry_after
        )
    for kind, status in _STATUS:
        if isinstance(error, kind):
            message, field = str(error), None
            if isinstance(error, msgspec.DecodeError):
                message, field = field_of(message)
                message = _plain(message)
            elif isinstance(error, UnicodeError):
                message = "the body is not valid UTF-8"
            if isinstance(error, JournalError):
                message = _without_paths(message)
            retry_after = 1 if status == 503 else None
            return Failure(status, CODES[status], message, field, retry_after)
    if isinstance(error, OSError):
        why = error.strerror or type(error).__name__  # without the path
        return Failure(503, CODES[503], f"the data folder cannot be used: {why}", None, 1)
    # What happened is in the log of the service: the message may hold what a caller must not see.
    return Failure(500, CODES[500], "the service failed; its log says why")


_WORDS = {
    "str": "a text", "int": "a whole number", "float": "a number", "bool": "true or false", "array": "a list",
    "object": "an object", "null": "null", "bytes": "Base64", "dict": "an object", "list": "a list", "any": "any value",
}  # fmt: skip
_TYPE_ERROR = re.compile(r"Expected `([^`]+)`, got `([^`]+)`")
_RANGE_ERROR = re.compile(r"Expected `(\w+)` (?:of length )?(>=|<=|>|<) (\S+)")
_BOUNDS = {">=": "at least", "<=": "at most", ">": "more than", "<": "less than"}
_COUNTED = {"str": "characters", "array": "items", "object": "members"}


def _plain(message: str) -> str:
    """Return a message of msgspec in our words.

    >>> _plain("Expected `str | object`, got `int`")
    'it is a whole number, expected a text or an object'
    >>> _plain("Expected `array` of length >= 1")
    'expected at least 1 item'
    """
    if found := re.fullmatch(r"Object contains unknown field `(.*)`", message):
        return f"there is no member {found[1]!r}"
    if found := re.fullmatch(r"Object missing required field `(.*)`", message):
        return f"the member {found[1]!r} is missing"
    if found := re.fullmatch(r"Invalid enum value (.*)", message):
        return f"it is {found[1]}, which is none of the values that are allowed"
    if found := _TYPE_ERROR.fullmatch(message):
        wanted = " or ".join(_WORDS.get(kind, kind) for kind in found[1].split(" | "))
        return f"it is {_WORDS.get(found[2], found[2])}, expected {wanted}"
    if found := _RANGE_ERROR.fullmatch(message):
        counted = _COUNTED.get(found[1], "")
        counted = counted[:-1] if found[3] == "1" else counted
        return f"expected {_BOUNDS[found[2]]} {found[3]} {counted}".rstrip()
    if message.startswith("Input data was truncated"):
        return "the body is empty or ends too early, expected JSON"
    if message.startswith("JSON is malformed"):
        return message.replace("JSON is malformed", "the body is not JSON", 1)
    if "matching regex" in message:
        return "expected 1 to 64 letters, digits, - and _, beginning with a letter or a digit"
    return message


def _without_paths(message: str) -> str:
    """Return the message of a journal without its path, which callers must not see."""
    return re.sub(r"journal \S*?([^/\\]+)[/\\]journal\.db", r"the journal of bandit \1", message)


def field_of(message: str) -> tuple[str, str | None]:
    """Split a message of msgspec into its text and the part of the request that it names.

    >>> field_of("Expected `str`, got `int` - at `$.arms[0].id`")
    ('Expected `str`, got `int`', 'arms[0].id')
    """
    text, found, place = message.partition(" - at `$")
    return text, place.removesuffix("`").lstrip(".") or None if found else None
