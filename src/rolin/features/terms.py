"""How a feature map is declared: fields, nested or with dots, and the pairs of fields that are crossed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from rolin.errors import ParameterError
from rolin.features.fields import Field
from rolin.features.tables import MAX_DEPTH

__all__ = [
    "Cross",
    "Fields",
    "Term",
    "cross_pairs",
    "declared_fields",
    "find_term",
    "flatten_fields",
    "vector_terms",
]

Fields = Mapping[str, Any]
"""Declared fields by name; a mapping as value declares a nested object."""
Cross = Literal["all"] | Iterable[tuple[str, str]]
"""Which fields of the situation are multiplied with which fields of the arm."""
Term = tuple[str | None, str | None]
"""A field of the situation and a field of the arm, `None` for the constant of that side."""


def declared_fields(fields: Fields | None) -> dict[str, Field]:
    """Return the declared fields of one side by name; `None` for no fields."""
    return {} if fields is None else flatten_fields(fields)


def flatten_fields(fields: Fields, prefix: str = "", depth: int = 1) -> dict[str, Field]:
    """Return declared fields by name; fields of nested objects get names joined by dots."""
    if not isinstance(fields, Mapping):
        raise ParameterError(f"fields are {fields!r}, expected a mapping from name to kind")
    found: dict[str, Field] = {}
    for name, field in fields.items():
        if isinstance(field, Mapping):
            if depth > MAX_DEPTH:
                raise ParameterError(
                    f"field {prefix}{name} is nested deeper than {MAX_DEPTH} levels: declare it closer to the top"
                )
            found |= flatten_fields(field, f"{prefix}{name}.", depth + 1)
        else:
            found[f"{prefix}{name}" if prefix else name] = field
    return found


def cross_pairs(
    cross: Cross, situation: Mapping[str, Field], arm: Mapping[str, Field]
) -> list[tuple[str, str]]:
    """Return the pairs of fields to cross; reject pairs of unknown fields."""
    if isinstance(cross, str):
        if cross != "all":
            raise ParameterError(f"cross={cross!r}, expected 'all' or a list of pairs")
        return [(s, a) for s in situation for a in arm]
    try:
        pairs = [(s, a) for s, a in cross]
    except (TypeError, ValueError):
        raise ParameterError(f"cross={cross!r}, expected 'all' or a list of pairs") from None
    for s, a in pairs:
        if not isinstance(s, str) or not isinstance(a, str) or s not in situation or a not in arm:
            raise ParameterError(
                f"cross holds {(s, a)!r}, expected a field of the situation ({', '.join(situation)}) and one of "
                f"the arm ({', '.join(arm)})"
            )
    return list(dict.fromkeys(pairs))


def vector_terms(
    situation: Mapping[str, Field],
    arm: Mapping[str, Field],
    pairs: Iterable[tuple[str, str]],
    before: list[Term],
) -> list[Term]:
    """Return the terms of a vector: those of `before`, the fields of both sides, then the crossed pairs."""
    return [*before, *((s, None) for s in situation), *((None, a) for a in arm), *pairs]


def find_term(given: Any, situation: Mapping[str, Field], arm: Mapping[str, Field]) -> Term:
    """Return the term of one field by its name, or of a pair of fields; reject names that are unknown or ambiguous."""
    known = f"a field of the situation ({', '.join(situation)}), one of the arm ({', '.join(arm)}), or a pair of both"
    match given:
        case (str() as s, str() as a) if s in situation and a in arm:
            return s, a
    if not isinstance(given, str):
        raise ParameterError(f"fields holds {given!r}, expected {known}")
    if given in situation and given in arm:
        raise ParameterError(
            f"situation and arm both have a field {given!r}: write 'situation.{given}' or 'arm.{given}'"
        )
    if given in situation:
        return given, None
    if given in arm:
        return None, given
    side, _, name = given.partition(".")
    if side == "situation" and name in situation:
        return name, None
    if side == "arm" and name in arm:
        return None, name
    raise ParameterError(f"fields holds {given!r}, expected {known}")
