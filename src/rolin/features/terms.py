"""What a map is declared by: fields, joined by dots, and which are crossed with which."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from rolin.errors import ParameterError
from rolin.features.fields import Field
from rolin.features.tables import DEEPEST

__all__ = ["Cross", "Fields", "Term", "flat", "pairs_of", "terms_of"]

Fields = Mapping[str, Any]
"""Fields by name; a mapping within is an object within."""
Cross = Literal["all"] | Iterable[tuple[str, str]]
"""Which fields of the situation are multiplied with which of the arm."""
Term = tuple[str | None, str | None]
"""A field of the situation and one of the arm, or `None` for the constant of that side."""


def flat(fields: Fields, prefix: str = "", depth: int = 1) -> dict[str, Field]:
    """Return declared fields by their joined names."""
    if not isinstance(fields, Mapping):
        raise ParameterError(f"fields are {fields!r}, expected a mapping from name to kind")
    found: dict[str, Field] = {}
    for name, field in fields.items():
        if isinstance(field, Mapping):
            if depth > DEEPEST:
                raise ParameterError(f"field {prefix}{name} is nested deeper than {DEEPEST} levels")
            found |= flat(field, f"{prefix}{name}.", depth + 1)
        else:
            found[f"{prefix}{name}" if prefix else name] = field
    return found


def pairs_of(
    cross: Cross, left: Mapping[str, Field], right: Mapping[str, Field]
) -> list[tuple[str, str]]:
    """Return the pairs of fields to be crossed, or say which there are not."""
    if isinstance(cross, str):
        if cross != "all":
            raise ParameterError(f"cross={cross!r}, expected 'all' or a list of pairs")
        return [(s, a) for s in left for a in right]
    try:
        pairs = [(s, a) for s, a in cross]
    except (TypeError, ValueError):
        raise ParameterError(f"cross={cross!r}, expected 'all' or a list of pairs") from None
    for s, a in pairs:
        if not isinstance(s, str) or not isinstance(a, str) or s not in left or a not in right:
            raise ParameterError(
                f"cross holds {(s, a)!r}, expected a field of the situation ({', '.join(left)}) and one of "
                f"the arm ({', '.join(right)})"
            )
    return list(dict.fromkeys(pairs))


def terms_of(
    left: Mapping[str, Field],
    right: Mapping[str, Field],
    pairs: Iterable[tuple[str, str]],
    before: list[Term],
) -> list[Term]:
    """Return the terms of a vector: those that there are, the fields of both sides, and their products."""
    return [*before, *((s, None) for s in left), *((None, a) for a in right), *pairs]
