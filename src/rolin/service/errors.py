"""From exceptions to answers: one status and one JSON shape for every error."""

from __future__ import annotations

import re
from typing import NamedTuple

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

__all__ = ["CODES", "Failure", "Refusal", "failure_of", "without_places"]

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
            message = str(error)
            if isinstance(error, UnicodeError):
                message = "the body is not valid UTF-8"
            if isinstance(error, JournalError):
                message = without_places(message)
            retry_after = 1 if status == 503 else None
            return Failure(status, CODES[status], message, None, retry_after)
    if isinstance(error, OSError):
        why = error.strerror or type(error).__name__  # without the path
        return Failure(503, CODES[503], f"the data folder cannot be used: {why}", None, 1)
    # What happened is in the log of the service: the message may hold what a caller must not see.
    return Failure(500, CODES[500], "the service failed; its log says why")


def without_places(message: str) -> str:
    """Return the message of a journal without its path or its database, which callers must not see."""
    found = re.sub(r"journal \S*?([^/\\]+)[/\\]journal\.db", r"the journal of bandit \1", message)
    found = re.sub(r"(journal '\S+' in )?database '.*?' at [^\s:]+(:\d+)?", "the database", found)
    return re.sub(r"cannot connect \(.*\)", "cannot connect", found)
