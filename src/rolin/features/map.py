"""The declared feature map: fields of the situation and of the arm, and which of them are crossed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rolin._support.arms import Name
from rolin._support.checks import as_names, count_of, flag_of
from rolin._support.repeated import read_only_rows
from rolin.errors import InputError, ParameterError, ShapeError
from rolin.features.base import (
    ARM,
    BaseFeatureMap,
    Part,
    arm_labels,
    read_arm_rows,
    situation_label,
)
from rolin.features.columns import PythonColumn
from rolin.features.crossing import Crossing
from rolin.features.encoder import SideEncoder, SparseRows
from rolin.features.field_error import SITUATION
from rolin.features.fields import Field, field_from_dict
from rolin.features.inference import infer_fields
from rolin.features.tables import Table, as_list, as_table, is_table, read_row
from rolin.features.terms import (
    Cross,
    Fields,
    Term,
    cross_pairs,
    declared_fields,
    find_term,
    vector_terms,
)

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["FeatureMap"]

Floats = NDArray[np.float64]
# The texts that JSON makes of keys that are not texts.
_JSON_KEYS = re.compile(r"-?\d.*|-?Infinity|NaN|true|false|null")


class FeatureMap(BaseFeatureMap):
    """Encodes declared fields as vectors of a fixed size, and names the features of a vector.

    A vector holds the constant 1, the features of the situation, the features of the arm, and the products of
    both. Without these products the situation could not change the order of the arms.

    Parameters
    ----------
    situation
        Fields that all arms of a decision share, by name.
    arm
        Fields of an arm, by name. The field `_arm` is the name of the arm: with it, every listed arm has
        coefficients of its own.
    cross
        Which fields of the situation are multiplied with which fields of the arm: `"all"`, or a list of pairs
        `(field of the situation, field of the arm)`.
    intercept
        Whether vectors hold the constant 1. A policy has an intercept of its own by default, so it may be left out.
    strict
        Whether a field that was not declared is an error. By default it is recorded but not used.

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

    is_bounded = True  # products of two numbers of at most MAX_NUMBER

    def __init__(
        self,
        situation: Fields | None = None,
        arm: Fields | None = None,
        *,
        cross: Cross = "all",
        intercept: bool = True,
        strict: bool = False,
    ) -> None:
        left, right = declared_fields(situation), declared_fields(arm)
        constant: list[Term] = [(None, None)] if flag_of("intercept", intercept) else []
        terms = vector_terms(left, right, cross_pairs(cross, left, right), constant)
        self._build(left, right, terms, flag_of("strict", strict))

    def _build(
        self, left: dict[str, Field], right: dict[str, Field], terms: list[Term], strict: bool
    ) -> None:
        self.strict = strict
        """Whether a field that was not declared is an error."""
        self._terms = tuple(terms)
        self._situation, self._arm = SideEncoder("situation", left), SideEncoder("arm", right)
        self._crossing = Crossing(self._situation, self._arm, terms)
        self._situation.check_names()
        self._arm.check_names()
        self.n_features = self._crossing.n_features
        self.has_one_context = bool(left) and not right
        self.must_clean_keys = any(
            _JSON_KEYS.fullmatch(part) for name in (*left, *right) for part in name.split(".")
        )

    # -- making a map ------------------------------------------------------------------------

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
        """Return a map for the fields of a sample: numbers are standardized, texts become categories.

        The map is fixed afterwards: later data do not change it.

        Parameters
        ----------
        arms
            A sample of arms: rows, or a table of pandas, polars or Arrow.
        situations
            A sample of situations.
        situation
            Fields of the situation that you declare yourself, such as a category whose values are numbers. Options
            that you leave open (`Category()`, `Number(standardize=True)`) are learned from the sample.
        arm
            The same for fields of the arm.
        cross
            As for `FeatureMap`.
        intercept
            As for `FeatureMap`.
        strict
            As for `FeatureMap`.
        others
            Whether to infer the fields of the sample that you do not declare. Otherwise they are left out.
        max_values
            Maximum number of values of a category that get a feature of their own: the most frequent ones.
        max_features
            Maximum number of features; more are an error, because the time of an update grows with their square.
        """
        max_values = count_of("max_values", max_values, least=1)
        max_features = count_of("max_features", max_features, least=1)
        left, right = (
            infer_fields(
                side, sample, declared_fields(declared), flag_of("others", others), max_values
            )
            for side, sample, declared in (("situation", situations, situation), ("arm", arms, arm))
        )
        found = cls(left, right, cross=cross, intercept=intercept, strict=strict)
        if found.n_features > max_features:
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
        """Return a map with further fields, whose features are appended to those of this map.

        [`Bandit.change_feature_map`][rolin.Bandit.change_feature_map] makes a bandit use it.

        Parameters
        ----------
        situation
            Further fields of the situation.
        arm
            Further fields of the arm.
        cross
            What the new fields are crossed with: `"all"` fields of the other side, or a list of pairs.
        """
        added = {"situation": declared_fields(situation), "arm": declared_fields(arm)}
        sides = {"situation": self._situation.fields, "arm": self._arm.fields}
        for side, new in added.items():
            if twice := sorted(new.keys() & sides[side].keys()):
                raise ParameterError(
                    f"the {side} already has a field {twice[0]!r}, expected new fields only"
                )
        left, right = ({**sides[side], **added[side]} for side in sides)
        new_pairs = [
            (s, a) for s, a in cross_pairs(cross, left, right) if (s, a) not in self._terms
            and (s in added["situation"] or a in added["arm"] or not isinstance(cross, str))
        ]  # fmt: skip
        extended = FeatureMap.__new__(FeatureMap)
        terms = vector_terms(added["situation"], added["arm"], new_pairs, list(self._terms))
        extended._build(left, right, terms, self.strict)
        return extended

    def extends(self, other: BaseFeatureMap) -> bool:
        """Return whether this map has every feature of another map, at the same index.

        Parameters
        ----------
        other
            The other map.
        """
        if not isinstance(other, FeatureMap):
            return False
        pairs = ((self._situation, other._situation), (self._arm, other._arm))
        same = all(ours.fields.get(n) == f for ours, its in pairs for n, f in its.fields.items())
        return same and self._terms[: len(other._terms)] == other._terms

    # -- vectors -----------------------------------------------------------------------------

    def encode(
        self, rows: Sequence[dict[str, Any]], situation: dict[str, Any], arms: Sequence[Name]
    ) -> Floats:
        """Return the (K, d) contexts of K arms in one situation.

        If no arm has fields, all arms have the same context. It is encoded once and held once: the array is read-only,
        and its first stride is 0.
        """
        if len(rows) > 1 and not rows[0] and ARM not in self._arm.fields and not any(rows):
            return read_only_rows(self.encode(rows[:1], situation, arms[:1])[0], len(rows))
        return self._crossing.dense(*self._encode_sides(rows, situation, arms))

    def sparse_contexts(
        self,
        arms: Mapping[Any, Any] | Iterable[Any] | None,
        situation: Any = None,
        *,
        names: Iterable[Name] | None = None,
    ) -> csr_array:
        """Return the same as `contexts`, as a sparse matrix of SciPy: for many arms and joint sampling.

        Parameters
        ----------
        arms
            As for `contexts`.
        situation
            As for `contexts`.
        names
            As for `contexts`.
        """
        rows, found = read_arm_rows(arms, names)
        row = read_row(SITUATION, situation)
        return self._crossing.sparse(*self._encode_sides(rows, row, found))

    def _encode_sides(
        self, rows: Sequence[dict[str, Any]], situation: dict[str, Any], arms: Sequence[Name]
    ) -> tuple[SparseRows, SparseRows]:
        label = arm_labels(arms)
        if self.strict:
            self._situation.check_known([situation], situation_label)
            self._arm.check_known(rows, label)
        elif ARM in self._arm.fields:
            self._arm.check_reserved(rows, label)
        return (
            self._situation.encode([situation], situation_label),
            self._arm.encode(rows, label, arms),
        )

    def transform(
        self,
        arms: Any,
        situations: Any = None,
        *,
        names: Iterable[Name] | None = None,
        sparse: bool = False,
    ) -> Floats | csr_array:
        """Return the (n, d) contexts of n rows of a log, each with its own situation.

        Parameters
        ----------
        arms
            The fields of n arms: a table of pandas, polars or Arrow, or a list of rows.
        situations
            The fields of their n situations; by default, they are in the same table.
        names
            The names of the n arms, if the map has the field `_arm`.
        sparse
            Whether to return a sparse matrix of SciPy (CSR) instead of an array.
        """
        if situations is None:
            if both := sorted(self._situation.fields.keys() & self._arm.fields.keys()):
                raise InputError(
                    f"situation and arm both have a field {both[0]!r}, which one table cannot hold twice: give two "
                    "tables, arms and situations"
                )
            if not is_table(arms):
                arms = as_list("arms", arms)  # an iterator can be read only once
        right_table = self._read_arm_table(arms, names)
        left_table = as_table(
            arms if situations is None else situations,
            list(self._situation.fields),
            strict=self.strict,
        )
        if left_table.n_rows != right_table.n_rows:
            raise ShapeError(
                f"there are {left_table.n_rows} situations and {right_table.n_rows} arms, expected the same number "
                "of both"
            )
        if self.strict:
            known = {} if situations is not None else {**self._situation.fields, **self._arm.fields}
            self._check_columns([*left_table.unknown, *right_table.unknown], known)
        left = self._situation.encode_table(left_table, _row_label)
        right = self._arm.encode_table(right_table, _row_label)
        return (
            self._crossing.sparse(left, right)
            if flag_of("sparse", sparse)
            else self._crossing.dense(left, right)
        )

    def _read_arm_table(self, arms: Any, names: Iterable[Name] | None) -> Table:
        """Return the columns of the arms' fields, their names included."""
        fields = [name for name in self._arm.fields if name != ARM]
        table = as_table(arms, fields, strict=self.strict)
        if names is not None:
            found = list(as_names(names))
            if len(found) != table.n_rows:
                raise ShapeError(
                    f"there are {len(found)} names for {table.n_rows} arms, expected one per arm"
                )
            table.columns[ARM] = PythonColumn(found)
        elif ARM in self._arm.fields:
            raise InputError(
                f"the map has the field {ARM!r}, expected names, those of the arms: give them as names=…"
            )
        return table

    @staticmethod
    def _check_columns(unknown: Iterable[str], known: Mapping[str, Field]) -> None:
        for name in unknown:
            if name not in known and not name.startswith("_"):
                raise InputError(
                    f"there is a column {name!r} that the map does not know: declare it, as Ignored() if it is not "
                    "to be used, or make the map with strict=False"
                )

    # -- arms apart from situations, for catalogues of many arms -------------------------------

    @property
    def n_arm_features(self) -> int:
        """Number p of features of an arm alone; `arm_vectors` returns them."""
        return self._arm.width - 1

    def arm_vectors(self, arms: Any, *, names: Iterable[Name] | None = None) -> Floats:
        """Return the (n, p) features of n arms alone; `contexts_of` combines them with a situation.

        Parameters
        ----------
        arms
            The fields of n arms: a table of pandas, polars or Arrow, or a list of rows.
        names
            The names of the n arms, if the map has the field `_arm`.
        """
        if not is_table(arms):
            arms = as_list("arms", arms)
        table = self._read_arm_table(arms, names)
        if self.strict:
            self._check_columns(table.unknown, {})
        right = self._arm.encode_table(table, _row_label)
        out = np.zeros((table.n_rows, self._arm.width))
        np.add.at(out, (np.arange(len(out))[:, None], right.indices), right.values)
        return np.ascontiguousarray(out[:, 1:])

    def arm_coefficients(self, coef: Floats, situation: Any = None) -> Floats:
        """Return the (1 + p,) coefficients of an arm's constant and its p features in a situation.

        Parameters
        ----------
        coef
            (d,): the coefficients of all features.
        situation
            The fields of the situation.
        """
        return self._crossing.arm_coefficients(coef, self._encode_situation(situation))

    def arm_variances(self, variances: Floats, situation: Any = None) -> Floats:
        """Return (1 + p,) weights w with Σ_j variance_j x_j² = w_0 + Σ_a w_a a², where a are the p features of an arm.

        Parameters
        ----------
        variances
            (d,): a number for each feature of a vector x.
        situation
            The fields of the situation.
        """
        return self._crossing.arm_variances(variances, self._encode_situation(situation))

    def contexts_of(self, arm_vectors: Floats, situation: Any = None) -> Floats:
        """Return the (n, d) contexts of arms in one situation, from the features of the arms alone.

        Parameters
        ----------
        arm_vectors
            (n, p): rows of what `arm_vectors` returned.
        situation
            The fields of the situation.
        """
        return self._crossing.from_arm_vectors(arm_vectors, self._encode_situation(situation))

    def _encode_situation(self, situation: Any) -> SparseRows:
        row = read_row(SITUATION, situation)
        if self.strict:
            self._situation.check_known([row], situation_label)
        return self._situation.encode([row], situation_label)

    def indices(self, fields: Iterable[str | tuple[str, str]]) -> list[int]:
        """Return the indices, in a vector, of the features of some fields, such as for `slopes` of a policy.

        Parameters
        ----------
        fields
            Names of fields; a pair `(field of the situation, field of the arm)` for their products. If both sides
            have a field of that name, write `"situation.name"` or `"arm.name"`.

        Examples
        --------
        >>> from rolin.features import Category, Number
        >>> features = FeatureMap(
        ...     {"age": Number(scale=10.0), "device": Category(["phone", "desktop"])}, {"price": Number()}
        ... )
        >>> features.indices(["device", ("age", "price")])
        [2, 3, 4, 6]
        """
        if isinstance(fields, str):
            raise ParameterError(f"fields={fields!r} is one text, expected a list: [{fields!r}]")
        left, right = self._situation.fields, self._arm.fields
        found: set[int] = set()
        for given in fields:
            term = find_term(given, left, right)
            indices = self._crossing.indices_of(term)
            if indices is None:
                raise ParameterError(
                    f"fields holds {given!r}, but the map does not cross these fields: add the pair to cross"
                )
            found.update(indices)
        return sorted(found)

    # -- names and description -----------------------------------------------------------------

    @property
    def names(self) -> list[str]:
        """Names of the d features."""
        return list(self._names)

    @cached_property
    def _names(self) -> tuple[str, ...]:
        return self._crossing.names()

    def parts(
        self, row: dict[str, Any], situation: dict[str, Any], arm: Name, vector: Floats
    ) -> list[Part]:
        """Return the features of an arm's vector that are not zero."""
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
        """Return version, number of features, and the names of the fields."""
        return (
            f"<FeatureMap {self.version}: {self.n_features} features of "
            f"{', '.join(self._situation.fields) or 'no situation'} × {', '.join(self._arm.fields) or 'no arm'}>"
        )

    def __str__(self) -> str:
        """Return a table of the fields: the kind, the number of features and the options of each."""
        lines = [f"{'':<10} {'field':<24} {'kind':<9} {'features':>8}"]
        for side in (self._situation, self._arm):
            lines += [
                f"{side.side:<10} {name:<24} {field.kind:<9} {field.width:>8}  {field.summary()}".rstrip()
                for name, field in side.fields.items()
            ]
        crossed = sum(bool(s and a) for s, a in self._terms)
        return "\n".join(
            [*lines, f"{self.n_features} features; crossed pairs of fields: {crossed}"]
        )

    def to_dict(self) -> dict[str, Any]:
        """Return everything that defines the map, as values that JSON can hold."""
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
            {name: field_from_dict(field) for name, field in given[side].items()}
            for side in ("situation", "arm")
        )
        self = cls.__new__(cls)
        self._build(left, right, [(s, a) for s, a in given["terms"]], given.get("strict", False))
        return self


def _row_label(i: int) -> str:
    return f"row {i}"
