"""Infer fields from a sample: the kind of each field, and the options that are learned for it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np

from rolin.errors import InputError
from rolin.features.columns import LIST_TYPES, PythonColumn
from rolin.features.fields import Boolean, Category, Field, Ignored, Number, Tags
from rolin.features.tables import as_list, flatten, is_table, read_row, rows_of
from rolin.features.values import BadValue, describe, is_missing, read_text

__all__ = ["infer_fields"]

# A text field with more distinct values per row than this is an identifier, not a category.
_MAX_DISTINCT_SHARE = 0.5
# Samples with fewer values are too small for that rule.
_MIN_VALUES = 20


def infer_fields(
    side: str, sample: Any, declared: Mapping[str, Field], others: bool, max_values: int
) -> dict[str, Field]:
    """Return the declared fields, completed from a sample, and the fields inferred from it.

    Parameters
    ----------
    side
        `"situation"` or `"arm"`.
    sample
        Rows or a table; `None` if there is no sample.
    declared
        Declared fields by name.
    others
        Whether to infer the fields of the sample that are not declared.
    max_values
        Maximum number of values of a category, and of tags.
    """
    columns = _columns(side, sample)
    fields: dict[str, Field] = {}
    for name, field in declared.items():
        fields[name] = (
            field
            if field.is_fitted
            else _fit_field(side, name, field, columns.get(name, []), max_values)
        )
    if others:
        for name, values in columns.items():
            # A nested object that is missing in some rows looks like a field that is always missing.
            is_object = any(other.startswith(f"{name}.") for other in (*columns, *declared))
            if name not in fields and not (is_object and all(map(is_missing, values))):
                fields[name] = _infer_field(side, name, values, max_values)
    return fields


def _columns(side: str, sample: Any) -> dict[str, list[Any]]:
    """Return the values of every field, `None` where a row does not have it."""
    if sample is None:
        return {}
    if is_table(sample):
        rows = rows_of(sample)
    else:
        each = as_list(f"the sample of the {side}", sample)
        rows = [read_row(f"row {i} of the sample", row) for i, row in enumerate(each)]
    if not rows:
        raise InputError(f"the sample of the {side} is empty, expected at least one row")
    columns: dict[str, list[Any]] = {}
    for i, row in enumerate(rows):
        for path, value in flatten(f"row {i} of the sample", row):
            columns.setdefault(path, [None] * len(rows))[i] = value
    return columns


def _infer_field(side: str, name: str, values: list[Any], max_values: int) -> Field:
    """Return a field of the kind that suits the values; `Ignored` if no kind does."""
    present = [value for value in values if not is_missing(value)]
    missing = len(present) < len(values)
    if not present:
        return Ignored()
    if all(isinstance(value, (bool, np.bool_)) for value in present):
        return Boolean(missing=missing)
    if all(isinstance(value, LIST_TYPES) for value in present):
        try:
            distinct, _, _ = PythonColumn(present).lists(read_text)
        except BadValue:
            return Ignored()  # lists of objects or of lists
        if not distinct:
            return Ignored()
        return _fit_field(side, name, Tags(missing=missing), values, max_values)
    if all(isinstance(value, (int, float, np.number, Decimal)) for value in present):
        number = Number(standardize=True, missing=missing)
        return _fit_field(side, name, number, values, max_values)
    try:
        distinct = list({read_text(i, value) for i, value in enumerate(present)})
    except BadValue:
        return Ignored()  # dates, bytes and other types
    if len(present) >= _MIN_VALUES and len(distinct) > _MAX_DISTINCT_SHARE * len(present):
        return Ignored()
    return _fit_field(side, name, Category(missing=missing), values, max_values)


def _fit_field(side: str, name: str, field: Field, values: list[Any], max_values: int) -> Field:
    """Return a field whose open options are learned from the values of a sample."""
    try:
        if isinstance(field, Number):
            return _fit_number(side, name, field, values)
        if isinstance(field, (Category, Tags)):
            return _fit_texts(side, name, field, values, max_values)
    except BadValue as bad:
        raise InputError(
            f"field {name!r} of the {side}, row {bad.row} of the sample, is {describe(bad.value)}, expected "
            f"{bad.expected}"
        ) from None
    return field


def _fit_number(side: str, name: str, field: Number, values: list[Any]) -> Field:
    numbers, missing = PythonColumn(values).numbers()
    known = numbers[~missing]
    if not known.size:
        raise _no_values(side, name)
    with np.errstate(over="ignore", invalid="ignore"):
        center, scale = float(known.mean()), float(known.std())
    if not math.isfinite(scale):
        raise InputError(
            f"field {name!r} of the {side} has numbers too large to compute a standard deviation: scale them down, "
            "or declare the field"
        )
    # A constant is encoded as 0; its standard deviation may be a rounding error.
    constant = scale <= max(1e-12 * abs(center), 1e-150)
    return replace(field, center=center, scale=1.0 if constant else scale)


def _fit_texts(
    side: str, name: str, field: Category | Tags, values: list[Any], max_values: int
) -> Field:
    column = PythonColumn(values)
    if isinstance(field, Category):
        distinct, codes = column.codes(read_text)
    else:
        distinct, codes, _ = column.lists(read_text)
    if not distinct:
        raise _no_values(side, name)
    counts = Counter(distinct[code] for code in codes.tolist() if code >= 0)
    frequent = sorted(counts, key=lambda value: (-counts[value], value))[:max_values]
    return replace(field, values=tuple(sorted(frequent)))


def _no_values(side: str, name: str) -> InputError:
    return InputError(
        f"field {name!r} of the {side} has no values in the sample: give a larger sample, or declare the field with "
        "its options"
    )
