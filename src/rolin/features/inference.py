"""Fields from a sample: which kind each is, and what is frozen of it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np

from rolin.errors import InputError
from rolin.features.columns import LISTS, Values
from rolin.features.fields import Boolean, Category, Field, Ignored, Number, Tags
from rolin.features.tables import flatten, is_table, listed, row_of, rows_of
from rolin.features.values import BadValue, is_missing, text, told

__all__ = ["inferred"]

# A text that is different in more than this share of the rows is an identifier, not a category.
_IDENTIFIER = 0.5
_ENOUGH = 20  # rows from which on that can be told


def inferred(
    what: str, sample: Any, declared: Mapping[str, Field], others: bool, most: int
) -> dict[str, Field]:
    """Return the fields of a side: those declared, completed from a sample, and all others in it."""
    columns = _columns(what, sample)
    fields: dict[str, Field] = {}
    for name, field in declared.items():
        fields[name] = (
            field if field.is_fitted else _fitted(what, name, field, columns.get(name, []), most)
        )
    if others:
        for name, values in columns.items():
            inner = any(other.startswith(f"{name}.") for other in (*columns, *declared))
            if name not in fields and not (inner and all(map(is_missing, values))):
                fields[name] = _kind_of(what, name, values, most)
    return fields


def _columns(what: str, sample: Any) -> dict[str, list[Any]]:
    """Return the values of every field, `None` where a row has none."""
    if sample is None:
        return {}
    if is_table(sample):
        rows = rows_of(sample)
    else:
        each = listed(f"the sample of the {what}", sample)
        rows = [row_of(f"row {i} of the sample", row) for i, row in enumerate(each)]
    if not rows:
        raise InputError(f"the sample of the {what} is empty, expected rows to learn from")
    columns: dict[str, list[Any]] = {}
    for i, row in enumerate(rows):
        for path, value in flatten(f"row {i} of the sample", row):
            columns.setdefault(path, [None] * len(rows))[i] = value
    return columns


def _kind_of(what: str, name: str, values: list[Any], most: int) -> Field:
    present = [value for value in values if not is_missing(value)]
    missing = len(present) < len(values)
    if not present:
        return Ignored()
    if all(isinstance(value, (bool, np.bool_)) for value in present):
        return Boolean(missing=missing)
    if all(isinstance(value, LISTS) for value in present):
        try:
            different, _, _ = Values(present).lists(text)
        except BadValue:
            return Ignored()  # lists of objects, or of lists
        return _fitted(what, name, Tags(missing=missing), values, most) if different else Ignored()
    if all(isinstance(value, (int, float, np.number, Decimal)) for value in present):
        field: Field = Number(standardise=True, missing=missing)
        return _fitted(what, name, field, values, most)
    try:
        different = list({text(i, value) for i, value in enumerate(present)})
    except BadValue:
        return Ignored()  # dates, bytes and the like
    if len(present) >= _ENOUGH and len(different) > _IDENTIFIER * len(present):
        return Ignored()
    return _fitted(what, name, Category(missing=missing), values, most)


def _fitted(what: str, name: str, field: Field, values: list[Any], most: int) -> Field:
    """Return a field that knows what the sample tells."""
    column = Values(values)
    try:
        if isinstance(field, Number):
            numbers, missing = column.numbers()
            known = numbers[~missing]
            if not known.size:
                raise InputError(f"field {name!r} of the {what} has no values in the sample")
            with np.errstate(over="ignore", invalid="ignore"):
                center, scale = float(known.mean()), float(known.std())
            if not math.isfinite(scale):
                raise InputError(
                    f"field {name!r} of the {what} has numbers too large to compute with"
                )
            # a constant is 0 then, whatever its rounding
            constant = scale <= max(1e-12 * abs(center), 1e-150)
            return replace(field, center=center, scale=1.0 if constant else scale)
        if isinstance(field, (Category, Tags)):
            if isinstance(field, Category):
                different, codes = column.codes(text)
            else:
                different, codes, _ = column.lists(text)
            if not different:
                raise InputError(f"field {name!r} of the {what} has no values in the sample")
            counts = Counter(different[code] for code in codes.tolist() if code >= 0)
            frequent = sorted(counts, key=lambda value: (-counts[value], value))[:most]
            return replace(field, values=tuple(sorted(frequent)))
    except BadValue as bad:
        raise InputError(
            f"field {name!r} of the {what}, row {bad.place} of the sample, is {told(bad.value)}, expected "
            f"{bad.expected}"
        ) from None
    return field
