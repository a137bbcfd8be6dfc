"""The feature map: declared fields of the situation and of the arm, and which of them are crossed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rolin._support.arms import Name
from rolin._support.checks import as_names, count_of
from rolin.errors import InputError, ParameterError, ShapeError
from rolin.features import kernels
from rolin.features.base import ARM, BaseFeatureMap, Part, arms_of, whose
from rolin.features.columns import Values
from rolin.features.encoder import Side, Slots
from rolin.features.fields import Field, field_of
from rolin.features.inference import inferred
from rolin.features.tables import Table, is_table, listed, row_of, table_of
from rolin.features.terms import Cross, Fields, Term, flat, pairs_of, terms_of

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["FeatureMap"]

Floats = NDArray[np.float64]
_MOST = 100_000  # features
_TABLE = 50_000_000  # entries of the table that says where products go
INTERCEPT = "intercept"
_ODD = re.compile(
    r"-?\d.*|-?Infinity|NaN|true|false|null"
)  # what JSON makes of keys that are no texts


class FeatureMap(BaseFeatureMap):
    """From fields to vectors of a fixed size, and back to names.

    A vector has the constant 1, the features of the situation, those of the arm, and the products of the
    two: without these the situation could not change the order of the arms.

    Parameters
    ----------
    situation
        Fields that all arms of a decision share, by name.
    arm
        Fields of an arm. The field `_arm` is its name: with it, every arm that is listed has coefficients of
        its own.
    cross
        Which fields of the situation are multiplied with which of the arm: `"all"`, or a list of pairs
        `(field of the situation, field of the arm)`.
    intercept
        Whether there is the constant 1.
    strict
        Whether a field that was not declared is an error; by default it is recorded and not used.

    Examples
    --------
    >>> from rolin.features import Category, Number
    >>> features = FeatureMap(
    ...     situation={"device": Category(["phone", "desktop"])}, arm={"price": Number(scale=10.0)}
    ... )
    >>> features.contexts({"red": {"price": 5.0}}, {"device": "phone"}).tolist()
    [[1.0, 1.0, 0.0, 0.0, 0.5, 0.5, 0.0, 0.0]]
    >>> features.names[-3:]
    ['device=phone × price', 'device=desktop × price', 'device is unseen × price']
    """

    def __init__(
        self,
        situation: Fields | None = None,
        arm: Fields | None = None,
        *,
        cross: Cross = "all",
        intercept: bool = True,
        strict: bool = False,
    ) -> None:
        left, right = flat(situation or {}), flat(arm or {})
        terms = terms_of(
            left, right, pairs_of(cross, left, right), [(None, None)] if intercept else []
        )
        self._build(left, right, terms, bool(strict))

    def _build(
        self, left: dict[str, Field], right: dict[str, Field], terms: list[Term], strict: bool
    ) -> None:
        self._situation, self._arm = Side("situation", left), Side("arm", right)
        self.careful = any(_ODD.fullmatch(part) for n in (*left, *right) for part in n.split("."))
        self.strict = strict
        """Whether a field that was not declared is an error."""
        self._terms = tuple(terms)
        widths = [{None: 1, **{n: f.width for n, f in fields.items()}} for fields in (left, right)]
        size = sum(widths[0][s] * widths[1][a] for s, a in terms)
        table = self._situation.width * self._arm.width
        if size > _MOST or table > _TABLE:
            raise ParameterError(
                f"the map would have {size} features, from {self._situation.width - 1} of the situation and "
                f"{self._arm.width - 1} of the arm, more than {_MOST}, or than a table of their products can hold: "
                "cross fewer fields, or hash categories"
            )
        _ = self._situation.names, self._arm.names  # which refuse two of one name
        place = np.full((self._situation.width, self._arm.width), -1, dtype=np.int32)
        at = 0
        for s, a in terms:
            rows = self._situation.place_range(s) if s else range(1)
            columns = self._arm.place_range(a) if a else range(1)
            block = np.arange(at, at + len(rows) * len(columns), dtype=np.int32)
            place[np.ix_(rows, columns)] = block.reshape(len(rows), len(columns))
            at += block.size
        self._place = place
        self.n_features = at

    # -- how it is made ----------------------------------------------------------------------

    @classmethod
    def infer(
        cls,
        arms: Any,
        situations: Any = None,
        *,
        situation: Fields | None = None,
        arm: Fields | None = None,
        cross: Cross = "all",
        intercept: bool = True,
        strict: bool = False,
        others: bool = True,
        max_values: int = 20,
        max_features: int = 1000,
    ) -> FeatureMap:
        """Return the map that suits a sample: numbers are standardised, texts become categories.

        What is found out from the sample is frozen: the map does not change with what it sees later.

        Parameters
        ----------
        arms
            A sample of arms: rows, or a table of pandas, polars or Arrow.
        situations
            A sample of situations.
        situation
            Fields that are declared all the same, such as a category whose values are numbers; what is
            left open in them (`Category()`, `Number(standardise=True)`) is found in the sample.
        arm
            The same, of the arm.
        cross
            As for `FeatureMap`.
        intercept
            As for `FeatureMap`.
        strict
            As for `FeatureMap`.
        others
            Whether fields of the sample that are not declared are inferred, rather than left out.
        max_values
            Number of values of a category that get a place of their own: the most frequent.
        max_features
            Number of features that is an error to exceed, since an update takes its square.
        """
        most = count_of("max_values", max_values, least=1)
        left = inferred("situation", situations, flat(situation or {}), others, most)
        right = inferred("arm", arms, flat(arm or {}), others, most)
        found = cls(left, right, cross=cross, intercept=intercept, strict=strict)
        if found.n_features > count_of("max_features", max_features, least=1):
            raise ParameterError(
                f"the map would have {found.n_features} features, from {found._situation.width - 1} of the "
                f"situation and {found._arm.width - 1} of the arm: choose what to cross, take fewer values "
                f"(max_values={max_values}), or allow more (max_features={max_features})"
            )
        return found

    def with_fields(
        self,
        situation: Fields | None = None,
        arm: Fields | None = None,
        *,
        cross: Cross = "all",
    ) -> FeatureMap:
        """Return this map with more fields, whose features come behind those that there are.

        [`Bandit.change_feature_map`][rolin.Bandit.change_feature_map] goes on with it.

        Parameters
        ----------
        situation
            Further fields of the situation.
        arm
            Further fields of the arm.
        cross
            What the new fields are crossed with: `"all"` of the other side, or a list of pairs.
        """
        added = {"situation": flat(situation or {}), "arm": flat(arm or {})}
        sides = {"situation": self._situation.fields, "arm": self._arm.fields}
        for what, new in added.items():
            if twice := sorted(new.keys() & sides[what].keys()):
                raise ParameterError(f"the {what} has a field {twice[0]!r} already")
        left, right = ({**sides[what], **added[what]} for what in sides)
        new_pairs = [
            (s, a) for s, a in pairs_of(cross, left, right) if (s, a) not in self._terms
            and (s in added["situation"] or a in added["arm"] or not isinstance(cross, str))
        ]  # fmt: skip
        extended = FeatureMap.__new__(FeatureMap)
        terms = terms_of(added["situation"], added["arm"], new_pairs, list(self._terms))
        extended._build(left, right, terms, self.strict)
        return extended

    def extends(self, other: BaseFeatureMap) -> bool:
        """Return whether every feature of another map is here, at the same place."""
        if not isinstance(other, FeatureMap):
            return False
        pairs = ((self._situation, other._situation), (self._arm, other._arm))
        same = all(ours.fields.get(n) == f for ours, its in pairs for n, f in its.fields.items())
        return same and self._terms[: len(other._terms)] == other._terms

    # -- vectors -----------------------------------------------------------------------------

    def encode(
        self, rows: Sequence[dict[str, Any]], situation: dict[str, Any], arms: Sequence[Name]
    ) -> Floats:
        """Return the (K, d) vectors of K arms in one situation."""
        return self._crossed(*self._slots(rows, situation, arms))

    def sparse_contexts(
        self,
        arms: Mapping[Any, Any] | Iterable[Any],
        situation: Any = None,
        *,
        names: Iterable[Name] | None = None,
    ) -> csr_array:
        """Return what `contexts` does as a sparse matrix of SciPy's: for many arms and joint sampling.

        Parameters
        ----------
        arms
            As for `contexts`.
        situation
            As for `contexts`.
        names
            As for `contexts`.
        """
        rows, found = arms_of(arms, names)
        return self._crossed_sparse(*self._slots(rows, row_of("the situation", situation), found))

    def _crossed(self, left: Slots, right: Slots) -> Floats:
        out = np.zeros((len(right.places), self.n_features))
        kernels.cross(*left, *right, self._place, out)
        return out

    def _crossed_sparse(self, left: Slots, right: Slots) -> csr_array:
        from scipy.sparse import csr_array  # only when it is asked for: it takes 0.1 s

        ends = kernels.count_crossed(*left, *right, self._place)
        columns, values = np.empty(ends[-1], dtype=np.int32), np.empty(ends[-1])
        kernels.cross_sparse(*left, *right, self._place, ends, columns, values)
        found = csr_array((values, columns, ends), shape=(len(right.places), self.n_features))
        found.sort_indices()
        return found

    def _slots(
        self, rows: Sequence[dict[str, Any]], situation: dict[str, Any], arms: Sequence[Name]
    ) -> tuple[Slots, Slots]:
        of_arm = whose(arms)
        if self.strict:
            self._situation.check_known([situation], _of_situation)
            self._arm.check_known(rows, of_arm)
        elif ARM in self._arm.fields:
            self._arm.check_reserved(rows, of_arm)
        return (
            self._situation.encode([situation], _of_situation),
            self._arm.encode(rows, of_arm, arms),
        )

    def transform(
        self,
        arms: Any,
        situations: Any = None,
        *,
        names: Iterable[Name] | None = None,
        sparse: bool = False,
    ) -> Floats | csr_array:
        """Return the (n, d) contexts of n rows, each with a situation of its own: of a log.

        Parameters
        ----------
        arms
            The fields of n arms: a table of pandas, polars or Arrow, or a list of rows.
        situations
            The fields of their n situations; by default they are in the same table.
        names
            The names of the n arms, if the map has the field `_arm`.
        sparse
            Whether to return a sparse matrix of SciPy's (CSR) rather than an array.
        """
        if situations is None:
            if both := sorted(self._situation.fields.keys() & self._arm.fields.keys()):
                raise InputError(
                    f"situation and arm both have a field {both[0]!r}: give them apart, as situations and arms"
                )
            if not is_table(arms):
                arms = listed("arms", arms)  # which may be read once only
        table, n_right, unknown = self._arm_table(arms, names)
        source = arms if situations is None else situations
        left_table, n_left, unknown_left = table_of(
            source, list(self._situation.fields), strict=self.strict
        )
        if n_left != n_right:
            raise ShapeError(f"there are {n_left} situations and {n_right} arms, expected as many")
        if self.strict:
            known = {} if situations is not None else {**self._situation.fields, **self._arm.fields}
            for name in [*unknown_left, *unknown]:
                if name not in known and not name.startswith("_"):
                    raise InputError(f"there is a column {name!r} that the map does not know")
        left = self._situation.encode_table(left_table, n_left, _of_row)
        right = self._arm.encode_table(table, n_right, _of_row)
        return self._crossed_sparse(left, right) if sparse else self._crossed(left, right)

    def _arm_table(self, arms: Any, names: Iterable[Name] | None) -> tuple[Table, int, list[str]]:
        """Return the columns of the arms' fields, how many arms there are, and other fields."""
        table, n, unknown = table_of(
            arms, [name for name in self._arm.fields if name != ARM], strict=self.strict
        )
        if names is not None:
            found = list(as_names(names))
            if len(found) != n:
                raise ShapeError(f"there are {len(found)} names for {n} arms")
            table[ARM] = Values(found)
        elif ARM in self._arm.fields:
            raise InputError(f"the map has the field {ARM!r}, expected names, those of the arms")
        return table, n, unknown

    # -- the two sides apart, for arms by the million ------------------------------------------

    def arm_vectors(self, arms: Any, *, names: Iterable[Name] | None = None) -> Floats:
        """Return the features of n arms alone, (n, p), from which any situation makes contexts.

        Parameters
        ----------
        arms
            The fields of n arms: a table of pandas, polars or Arrow, or a list of rows.
        names
            The names of the n arms, if the map has the field `_arm`.
        """
        if not is_table(arms):
            arms = listed("arms", arms)
        table, n, unknown = self._arm_table(arms, names)
        if self.strict and unknown:
            raise InputError(f"there is a column {unknown[0]!r} that the map does not know")
        right = self._arm.encode_table(table, n, _of_row)
        out = np.zeros((len(right.places), self._arm.width))
        np.add.at(out, (np.arange(len(out))[:, None], right.places), right.values)
        return np.ascontiguousarray(out[:, 1:])

    def contracted(self, coef: Floats, situation: Any = None) -> Floats:
        """Return (1 + p,) numbers: what the constant and each feature of an arm are worth in a situation.

        Parameters
        ----------
        coef
            (d,): the coefficients of all features.
        situation
            The fields of the situation.
        """
        places, values = self._situation_slots(situation)
        at = self._place[places]  # (slots, 1 + p)
        parts: Floats = values @ np.where(at >= 0, coef[at], 0.0)
        return parts

    def contexts_of(self, arm_vectors: Floats, situation: Any = None) -> Floats:
        """Return the (n, d) contexts of arms in one situation, from the arms' own features.

        Parameters
        ----------
        arm_vectors
            (n, p): rows of what `arm_vectors` returned.
        situation
            The fields of the situation.
        """
        places, values = self._situation_slots(situation)
        own = np.column_stack([np.ones(len(arm_vectors)), arm_vectors])
        out = np.zeros((len(own), self.n_features))
        for place, value in zip(self._place[places], values.tolist(), strict=True):
            used = place >= 0
            out[:, place[used]] += value * own[:, used]
        return out

    def _situation_slots(self, situation: Any) -> tuple[NDArray[np.int32], Floats]:
        row = row_of("the situation", situation)
        if self.strict:
            self._situation.check_known([row], _of_situation)
        left = self._situation.encode([row], _of_situation)
        return left.places[0], left.values[0]

    # -- names -------------------------------------------------------------------------------

    @property
    def names(self) -> list[str]:
        """What the d features are called."""
        return list(self._names)

    @cached_property
    def _names(self) -> tuple[str, ...]:
        left, right = self._situation.names, self._arm.names
        both = set(left) & set(right)
        found = [""] * self.n_features
        for s, a in np.argwhere(self._place >= 0).tolist():
            own = left[s] if left[s] not in both else f"situation.{left[s]}"
            their = right[a] if right[a] not in both else f"arm.{right[a]}"
            parts = [own] * bool(s) + [their] * bool(a)
            found[self._place[s, a]] = " × ".join(parts) or INTERCEPT
        return tuple(found)

    def parts(
        self, row: dict[str, Any], situation: dict[str, Any], arm: Name, vector: Floats
    ) -> list[Part]:
        """Return what an arm's vector consists of, by name, without what is zero."""
        return [Part(self._names[i], int(i), float(vector[i])) for i in np.flatnonzero(vector)]

    @property
    def situation(self) -> dict[str, Field]:
        """The fields of the situation."""
        return dict(self._situation.fields)

    @property
    def arm(self) -> dict[str, Field]:
        """The fields of the arm."""
        return dict(self._arm.fields)

    def __repr__(self) -> str:
        """Say which fields there are."""
        return (
            f"<FeatureMap {self.version}: {self.n_features} features of "
            f"{', '.join(self._situation.fields) or 'no situation'} × {', '.join(self._arm.fields) or 'no arm'}>"
        )

    def __str__(self) -> str:
        """Return a table of the fields: what each is, and how many places it has."""
        lines = [f"{'':<10} {'field':<24} {'kind':<9} {'places':>6}"]
        for what, side in (("situation", self._situation), ("arm", self._arm)):
            lines += [
                f"{what:<10} {name:<24} {field.kind:<9} {field.width:>6}  {field.told()}".rstrip()
                for name, field in side.fields.items()
            ]
        crossed = sum(bool(s and a) for s, a in self._terms)
        return "\n".join(
            [*lines, f"{self.n_features} features; pairs of fields that are crossed: {crossed}"]
        )

    def to_dict(self) -> dict[str, Any]:
        """Return everything there is to it, as JSON has it."""
        return {
            "kind": "map",
            "situation": {name: field.to_dict() for name, field in self._situation.fields.items()},
            "arm": {name: field.to_dict() for name, field in self._arm.fields.items()},
            "terms": [list(term) for term in self._terms],
            **({"strict": True} if self.strict else {}),
        }

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> FeatureMap:
        """Return the map that `to_dict` described."""
        left, right = (
            {name: field_of(field) for name, field in given[what].items()}
            for what in ("situation", "arm")
        )
        self = cls.__new__(cls)
        self._build(left, right, [(s, a) for s, a in given["terms"]], given.get("strict", False))
        return self


def _of_situation(_: int) -> str:
    return "the situation"


def _of_row(i: int) -> str:
    return f"row {i}"
