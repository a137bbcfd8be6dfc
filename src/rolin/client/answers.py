"""What answers mean. What is not the answer to the request is an error, and nothing of it is used."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from types import NoneType, UnionType
from typing import Any

from rolin.client.requests import Answer, Request
from rolin.client.values import Decision, unrecorded_id
from rolin.errors import (
    AccessDenied,
    Conflict,
    NotFound,
    ServiceError,
    ServiceUnavailable,
    UnexpectedAnswer,
)

__all__ = ["check_done", "decision_of", "member", "refusal", "results_of", "value_of"]

_KINDS = {401: AccessDenied, 403: AccessDenied, 404: NotFound, 409: Conflict, 429: ServiceUnavailable}  # fmt: skip
_MOST = 300  # characters of an answer that a message shows
_DECISION: Mapping[str, type | UnionType] = {
    "id": str,
    "arm": str,
    "ranking": list,
    "probabilities": dict | NoneType,
    "version": int | NoneType,
    "mode": str,
    "control": bool,
    "outside_share": bool,
    "recorded": bool,
}
"""The members of a decision, and what they are; only the first three are needed."""
_NEEDED = ("id", "arm", "ranking")
_MISSING = object()


def value_of(request: Request, answer: Answer) -> dict[str, Any]:
    """Return the JSON object of an answer."""
    try:
        value = json.loads(answer.content)
    except (ValueError, RecursionError):
        raise UnexpectedAnswer(
            f"{request}: the answer is not JSON: {_shown(answer)}; is this the address of the service?",
            status=answer.status,
            code="unexpected_answer",
        ) from None
    if not isinstance(value, dict):
        raise _unexpected(request, f"{_shown(answer)}, expected a JSON object")
    return value


def check_done(request: Request, answer: Answer) -> None:
    """Reject what is not the empty answer of the service to something that it has done."""
    if answer.status not in (202, 204):
        raise _unexpected(
            request, f"status {answer.status} with {_shown(answer)}, expected status 204"
        )


def member(what: object, value: Mapping[str, Any], name: str, kind: type | UnionType) -> Any:
    """Return a member of a JSON object.

    Parameters
    ----------
    what
        What was asked, for the message.
    value
        The object.
    name
        Name of the member.
    kind
        What it must be.
    """
    found = value.get(name, _MISSING)
    if not isinstance(found, kind) or (isinstance(found, bool) and kind is not bool):
        missing = found is _MISSING
        raise _unexpected(what, f"no {name}" if missing else f"{name} is {found!r:.{_MOST}}")
    return found


def results_of(request: Request, answer: Answer, n: int) -> list[Any]:
    """Return the results of a batch of `n` items: the answer to each, or its error."""
    items = member(request, value_of(request, answer), "results", list)
    if len(items) != n:
        raise _unexpected(request, f"{len(items)} results, expected {n}")
    return [_result(f"{request}: item {k}", item) for k, item in enumerate(items)]


def _result(what: str, item: Any) -> Any:
    if not isinstance(item, dict):
        return _unexpected(what, f"{item!r:.{_MOST}}, expected a JSON object")
    try:
        status = member(what, item, "status", int)
    except UnexpectedAnswer as error:
        return error
    return refusal(what, Answer(status, {}, json.dumps(item).encode())) if "error" in item else item


def decision_of(
    what: object,
    value: Mapping[str, Any],
    id: str,
    *,
    offered: Collection[str] | None = None,
    active: bool = True,
) -> Decision:
    """Return the decision of an answer, if it is the one that was asked for.

    Parameters
    ----------
    what
        What was asked, for the message.
    value
        The decoded JSON; members that this version does not know are ignored.
    id
        The id that was asked for.
    offered
        The arms that can be chosen; `None` if only the service knows them.
    active
        Whether it was asked for as active.
    """
    known = {
        name: member(what, value, name, kind)
        for name, kind in _DECISION.items()
        if name in value or name in _NEEDED
    }
    own = unrecorded_id(known["id"]) if not known.get("recorded", True) else None
    if known["id"] != id and known["id"] != own:
        raise _unexpected(what, f"the decision {known['id']!r}, expected {id!r}")
    for arm in (known["arm"], *known["ranking"]):
        if not isinstance(arm, str) or (offered is not None and arm not in offered):
            raise _unexpected(what, f"the arm {arm!r:.{_MOST}}, which was not offered")
    known["ranking"] = tuple(known["ranking"])
    if own is not None:
        return Decision(**{**known, "id": own, "active": False})
    return Decision(**known, active=active)


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
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        # It is not from the service, but from a proxy before it.
        code, message, where = "unexpected_answer", _shown(answer), None
    if answer.status < 400 and "location" in answer.headers:
        message = f"redirected to {answer.headers['location']!r:.{_MOST}}, expected the address of the service itself"
    about = f"status {answer.status}, {code}" + (f", field {where}" if where else "")
    kind = _KINDS.get(answer.status, ServiceUnavailable if answer.status >= 500 else ServiceError)
    return kind(f"{what}: {message} ({about})", status=answer.status, code=code, field=where)


def _unexpected(what: object, given: str) -> UnexpectedAnswer:
    return UnexpectedAnswer(f"{what}: unexpected answer: {given}", code="unexpected_answer")


def _shown(answer: Answer) -> str:
    text = answer.content[: 4 * _MOST].decode(errors="replace")
    return repr(text if len(text) <= _MOST else text[:_MOST] + "…")
