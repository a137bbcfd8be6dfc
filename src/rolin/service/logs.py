"""The log of the service: lines for people, or JSON objects for programs."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from rolin.errors import OverlapWarning
from rolin.service.settings import Settings
from rolin.service.tracing import trace_id

__all__ = ["FIELDS", "JsonFormatter", "TextFormatter", "log_answer", "start_logging"]

FIELDS = ("method", "route", "status", "seconds", "bandit", "decision", "trace_id")
"""What a record may say beside its message. Keys, bodies and features are never among it."""
_access = logging.getLogger("rolin.access")


class JsonFormatter(logging.Formatter):
    """One JSON object per record; it never contains a line break."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as JSON."""
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        found = {
            "time": time.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **dict(_fields(record)),
        }
        if record.exc_info:
            found["traceback"] = self.formatException(record.exc_info)
        return json.dumps(found, default=str)


class TextFormatter(logging.Formatter):
    """One line per record, and the lines of its traceback."""

    def __init__(self) -> None:
        super().__init__("%(levelname)s: %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # the name of the library
        """Return the message, and then what else is known."""
        # Quoted, because an id may contain a line break, and then what looks like another record.
        more = "".join(
            f" {name}={json.dumps(value, default=str)}" for name, value in _fields(record)
        )
        return super().formatMessage(record) + more


def _fields(record: logging.LogRecord) -> Iterator[tuple[str, Any]]:
    known = record.__dict__
    for name in FIELDS:
        if known.get(name) is not None:
            yield name, known[name]
    if "trace_id" not in known and (found := trace_id()) is not None:
        yield "trace_id", found


def start_logging(settings: Settings) -> None:
    """Write everything that this process logs, and its warnings, to the standard error in one format.

    Parameters
    ----------
    settings
        The settings: `log_format` and `log_level`.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if settings.log_format == "json" else TextFormatter())
    logging.basicConfig(level=settings.log_level.upper(), handlers=[handler])
    logging.captureWarnings(True)
    warnings.simplefilter("ignore", OverlapWarning)  # the answers of evaluations hold them as notes


def log_answer(
    method: str,
    route: str,
    status: int,
    seconds: float | None,
    bandit: str | None,
    decision: str | None,
) -> None:
    """Log a request that was answered.

    Parameters
    ----------
    method, route
        What was asked; the route as it is declared, without ids.
    status
        The status of the answer.
    seconds
        How long it took, if known.
    bandit, decision
        What it was about, if known.
    """
    rounded = None if seconds is None else round(seconds, 6)
    known = (method, route, status, rounded, bandit, decision)
    _access.info("answered", extra=dict(zip(FIELDS, known, strict=False)))
