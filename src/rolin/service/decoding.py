"""Decode what callers send, and say in plain words what is wrong with it."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from rolin.service.errors import Refusal
from rolin.service.places import with_names

__all__ = ["decode", "refusal_of"]


def decode(decoder: msgspec.json.Decoder[Any], body: bytes | msgspec.Raw) -> Any:
    """Return the value of a JSON text; refuse what does not have the type of the decoder."""
    try:
        return decoder.decode(body)
    except msgspec.DecodeError as error:
        if str(error).startswith("Input data was truncated"):
            raise Refusal(400, _why_truncated(bytes(body))) from error
        refusal = refusal_of(error, decoder.type)
        if refusal.field is not None and "[...]" in refusal.field:
            refusal.field = with_names(refusal.field, bytes(body))
        raise refusal from error


def refusal_of(error: msgspec.DecodeError, kind: Any) -> Refusal:
    """Return the refusal of a value that does not have a type.

    Parameters
    ----------
    error
        What is wrong.
    kind
        The type.
    """
    text, place = _split(str(error))
    if found := re.fullmatch(r"Invalid enum value (.*)", text):
        text = f"it is {found[1]}, expected one of {', '.join(_allowed(kind, place or ''))}"
    plain = _plain(text)
    if text.startswith("Object contains unknown field"):
        plain += f", expected {', '.join(_members(kind, place or ''))}"
    if found := _MEMBER.fullmatch(text):
        place = found[1] if place is None else f"{place}.{found[1]}"
    return Refusal(400, plain, field=place or None)


def _why_truncated(body: bytes) -> str:
    """Return why msgspec has found the end of a text too early.

    >>> _why_truncated(b" "), _why_truncated(b"{")
    ('the body is empty, expected JSON', 'the body ends too early, expected complete JSON')
    """
    if not body.strip():
        return "the body is empty, expected JSON"
    if _HALF.search(body.replace(rb"\\", b"")):
        return r"a text has half of a surrogate pair, such as \ud83d alone, expected both halves"
    return "the body ends too early, expected complete JSON"


_HALF = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u)")
_OTHERS: dict[type[Any], str] = {
    msgspec.inspect.FloatType: "a number",
    msgspec.inspect.NoneType: "null",
}
_STEP = re.compile(r"(\w+)|\[[^\]]*\]")


def _types_at(kind: Any, place: str) -> list[Any]:
    """Return the types that are allowed at a place inside a type."""
    found: list[Any] = [msgspec.inspect.type_info(kind)]
    for step in [*_STEP.findall(place), None]:
        found = [each for known in found for each in getattr(known, "types", [known])]
        if step:
            fields = [field for known in found for field in getattr(known, "fields", ())]
            found = [field.type for field in fields if field.encode_name == step]
        elif step is not None:  # an item of a list, or a member of an object
            names = ("item_type", "value_type")
            found = [getattr(known, n) for known in found for n in names if hasattr(known, n)]
    return found


def _members(kind: Any, place: str) -> list[str]:
    """Return the members of the objects at a place inside a type."""
    found = _types_at(kind, place)
    return [field.encode_name for known in found for field in getattr(known, "fields", ())]


def _allowed(kind: Any, place: str) -> list[str]:
    """Return the values that are allowed at a place inside a type."""
    found = _types_at(kind, place)
    others = [_OTHERS[type(known)] for known in found if type(known) in _OTHERS]
    return [f"{value}" for known in found for value in getattr(known, "values", ())] + others


_MEMBER = re.compile(r"Object (?:contains unknown|missing required) field `(.*)`", re.DOTALL)
_WORDS = {
    "str": "a text", "int": "a whole number", "float": "a number", "bool": "true or false", "array": "a list",
    "object": "an object", "null": "null", "bytes": "Base64", "dict": "an object", "list": "a list", "any": "any value",
}  # fmt: skip
_TYPE_ERROR = re.compile(r"Expected `([^`]+)`, got `([^`]+)`")
_RANGE_ERROR = re.compile(r"Expected `(\w+)` (?:of length )?(>=|<=|>|<) (\S+)")
_BOUNDS = {">=": "at least", "<=": "at most", ">": "more than", "<": "less than"}
_OUT_OF_RANGE = {
    "Number out of range": "it is too large, expected a number between -1.8e308 and 1.8e308",
    "Integer value out of range": "it is too large, expected a whole number of at most 64 bits",
}
_COUNTED = {"str": "characters", "array": "items", "object": "members"}


def _plain(message: str) -> str:
    """Return a message of msgspec in our words.

    >>> _plain("Expected `str | object`, got `int`")
    'it is a whole number, expected a text or an object'
    >>> _plain("Expected `array` of length >= 1")
    'expected at least 1 item'
    """
    if message in _OUT_OF_RANGE:
        return _OUT_OF_RANGE[message]
    if found := re.fullmatch(r"Object contains unknown field `(.*)`", message):
        return f"there is no member {found[1]!r}"
    if found := re.fullmatch(r"Object missing required field `(.*)`", message):
        return f"the member {found[1]!r} is missing"
    if found := _TYPE_ERROR.fullmatch(message):
        wanted = " or ".join(_WORDS.get(kind, kind) for kind in found[1].split(" | "))
        return f"it is {_WORDS.get(found[2], found[2])}, expected {wanted}"
    if found := _RANGE_ERROR.fullmatch(message):
        counted = _COUNTED.get(found[1], "")
        counted = counted[:-1] if found[3] == "1" else counted
        return f"expected {_BOUNDS[found[2]]} {found[3]} {counted}".rstrip()
    if message.startswith("JSON is malformed"):
        return message.replace("JSON is malformed", "the body is not JSON", 1)
    if "matching regex" in message:
        return "expected 1 to 64 letters, digits, - and _, beginning with a letter or a digit"
    return message


def _split(message: str) -> tuple[str, str | None]:
    """Split a message of msgspec into its text and the part of the request that it names.

    >>> _split("Expected `str`, got `int` - at `$.arms[0].id`")
    ('Expected `str`, got `int`', 'arms[0].id')
    """
    text, found, place = message.partition(" - at `$")
    return text, place.removesuffix("`").lstrip(".") or None if found else None
