"""Where the products of situation and arm go in a vector, and how they are computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rolin.errors import ParameterError
from rolin.features import kernels
from rolin.features.encoder import SideEncoder, SparseRows
from rolin.features.terms import Term

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["Crossing"]

Floats = NDArray[np.float64]
INTERCEPT = "intercept"
_MAX_FEATURES = 100_000
_MAX_PRODUCTS = 50_000_000  # entries of the table of feature indices


class Crossing:
    """The products of the features of a situation with those of an arm that make up a vector.

    Column 0 of each side is the constant 1. Products with it are the features of the other side, and 1 × 1 is the
    intercept.

    Parameters
    ----------
    situation
        Encodes the fields of the situation.
    arm
        Encodes the fields of the arm.
    terms
        The pairs of fields whose products are features, in the order of the vector.
    """

    def __init__(self, situation: SideEncoder, arm: SideEncoder, terms: Sequence[Term]) -> None:
        self._situation, self._arm = situation, arm
        pairs = [
            (situation.indices_of(s) if s else range(1), arm.indices_of(a) if a else range(1))
            for s, a in terms
        ]
        size = sum(len(left) * len(right) for left, right in pairs)
        if size > _MAX_FEATURES or situation.width * arm.width > _MAX_PRODUCTS:
            raise ParameterError(
                f"the map would have {size} features, from {situation.width - 1} of the situation and "
                f"{arm.width - 1} of the arm. That is more than {_MAX_FEATURES} features, or more than a table of "
                "their products can hold: cross fewer fields, or hash categories with size=…"
            )
        table = np.full((situation.width, arm.width), -1, dtype=np.int32)
        start = 0
        self._ranges: dict[Term, range] = {}
        for term, (left, right) in zip(terms, pairs, strict=True):
            self._ranges[term] = range(start, start + len(left) * len(right))
            block = np.arange(start, start + len(left) * len(right), dtype=np.int32)
            table[np.ix_(left, right)] = block.reshape(len(left), len(right))
            start += block.size
        self._indices = table  # the feature index of each product, -1 for none
        self.n_features = start
        """Number d of features of a vector."""

    def indices_of(self, term: Term) -> range | None:
        """Return the indices, in a vector, of the products of two fields; `None` if they are not crossed.

        Parameters
        ----------
        term
            A field of the situation and one of the arm, `None` for the constant of that side.
        """
        return self._ranges.get(term)

    def dense(self, left: SparseRows, right: SparseRows) -> Floats:
        """Return (n, d) vectors.

        Parameters
        ----------
        left
            Encoded situations, one for all n arms or one per arm.
        right
            The n encoded arms.
        """
        out = np.zeros((len(right.indices), self.n_features))
        kernels.cross(*left, *right, self._indices, out)
        return out

    def sparse(self, left: SparseRows, right: SparseRows) -> csr_array:
        """Return the same vectors as a sparse matrix of SciPy."""
        from scipy.sparse import csr_array  # imported only when needed: the import takes 0.1 s

        ends = kernels.count_crossed(*left, *right, self._indices)
        indices, values = np.empty(ends[-1], dtype=np.int32), np.empty(ends[-1])
        kernels.cross_sparse(*left, *right, self._indices, ends, indices, values)
        found = csr_array((values, indices, ends), shape=(len(right.indices), self.n_features))
        found.sort_indices()
        return found

    def arm_coefficients(self, coef: Floats, left: SparseRows) -> Floats:
        """Return the (1 + p,) coefficients of the arm's constant and its p features in one situation.

        Parameters
        ----------
        coef
            (d,): the coefficients of all features.
        left
            The encoded situation.
        """
        indices = self._indices[left.indices[0]]  # (m, 1 + p)
        found: Floats = left.values[0] @ np.where(indices >= 0, coef[indices], 0.0)
        return found

    def arm_variances(self, variances: Floats, left: SparseRows) -> Floats:
        """Return the (1 + p,) weights of the squares of an arm's constant and its p features in one situation.

        Every feature is the product of one feature of the situation and one of the arm, so Σ_j variance_j x_j² is a
        weighted sum of squared features of the arm.

        Parameters
        ----------
        variances
            (d,): a number for each feature.
        left
            The encoded situation.
        """
        return self.arm_coefficients(variances, left._replace(values=left.values**2))

    def from_arm_vectors(self, arm_vectors: Floats, left: SparseRows) -> Floats:
        """Return the (n, d) vectors of arms in one situation.

        Parameters
        ----------
        arm_vectors
            (n, p): the features of the arms alone.
        left
            The encoded situation.
        """
        own = np.column_stack([np.ones(len(arm_vectors)), arm_vectors])
        out = np.zeros((len(own), self.n_features))
        entries = zip(self._indices[left.indices[0]], left.values[0].tolist(), strict=True)
        for indices, value in entries:
            used = indices >= 0
            out[:, indices[used]] += value * own[:, used]
        return out

    def names(self) -> tuple[str, ...]:
        """Return the names of the d features."""
        left, right = self._situation.names, self._arm.names
        both = set(left) & set(right)
        found = [""] * self.n_features
        for s, a in np.argwhere(self._indices >= 0).tolist():
            own = left[s] if left[s] not in both else f"situation.{left[s]}"
            their = right[a] if right[a] not in both else f"arm.{right[a]}"
            parts = [own] * bool(s) + [their] * bool(a)
            found[self._indices[s, a]] = " × ".join(parts) or INTERCEPT
        return tuple(found)
