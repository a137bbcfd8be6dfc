"""Transformers of scikit-learn as feature maps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rolin._support.arms import Name
from rolin._support.checks import as_floats, count_of
from rolin._support.optional import needs
from rolin.errors import InputError, NotFiniteError, ParameterError, ShapeError
from rolin.features.base import ARM, BaseFeatureMap, Part
from rolin.features.field_error import SITUATION
from rolin.features.tables import flatten

__all__ = ["MissingFeatureMap", "SklearnFeatureMap"]

Floats = NDArray[np.float64]


class SklearnFeatureMap(BaseFeatureMap):
    """Encodes raw features with a fitted transformer of scikit-learn.

    The transformer gets one row per arm, with the fields of the situation and of the arm: as a pandas data frame if
    it was fitted on one, and as a list of dicts otherwise.

    `rolin` does not save the transformer. A journal therefore stores the vectors beside the raw features, and you
    give the transformer again when you open the journal. You must give the same transformer: only the names and the
    number of its features are checked.

    Parameters
    ----------
    transformer
        A fitted object with a method `transform`; `get_feature_names_out` is optional.
    n_features
        Number d of features, for a transformer without `get_feature_names_out`.
    """

    needs_vectors = True

    def __init__(self, transformer: Any, *, n_features: int | None = None) -> None:
        if not callable(getattr(transformer, "transform", None)):
            raise ParameterError(
                f"feature_map={transformer!r}, expected a map or a transformer, which has a method transform"
            )
        if n_features is not None:
            n_features = count_of("n_features", n_features, least=1, most=100_000)
        self.transformer = transformer
        given = self._given_names()
        if given is None and n_features is None:
            raise ParameterError(
                "the transformer does not tell its number of features: fit it first, or give the number with "
                "SklearnFeatureMap(transformer, n_features=…)"
            )
        self._names = given or [f"x{i}" for i in range(n_features or 0)]
        self.n_features = len(self._names)
        if n_features is not None and n_features != self.n_features:
            raise ParameterError(
                f"n_features={n_features}, but the transformer has {self.n_features} features: leave n_features out"
            )

    def _given_names(self) -> list[str] | None:
        try:
            return [str(name) for name in self.transformer.get_feature_names_out()]
        except Exception:  # a transformer may raise anything if it is not fitted
            return None

    @property
    def names(self) -> list[str]:
        """Names of the d features."""
        return list(self._names)

    def encode(
        self, rows: Sequence[dict[str, Any]], situation: dict[str, Any], arms: Sequence[Name]
    ) -> Floats:
        """Return the (K, d) contexts of K arms in one situation."""
        return self._encode_each(rows, [situation] * len(rows), arms)

    def _encode_each(
        self,
        rows: Sequence[dict[str, Any]],
        situations: Sequence[dict[str, Any]],
        arms: Sequence[Name],
    ) -> Floats:
        """Return the contexts of arms that each have their own situation, by one call of the transformer."""
        if not rows:
            return np.empty((0, self.n_features))
        merged = []
        for arm, row, situation in zip(arms, rows, situations, strict=True):
            shared = dict(flatten(SITUATION, situation))
            own = {**dict(flatten(f"arm {arm!r}", row)), ARM: arm}
            if both := sorted(shared.keys() & own.keys()):
                raise InputError(
                    f"the situation and arm {arm!r} both have a field {both[0]!r}, expected different names: rename "
                    "one of them"
                )
            merged.append({**shared, **own})
        try:
            found = self.transformer.transform(self._table(merged))
            if hasattr(found, "toarray"):
                found = found.toarray()
            found = np.asarray(found)
        except Exception as error:  # a transformer may raise anything if a value is wrong
            raise InputError(
                f"the transformer rejects the fields: {type(error).__name__}: {error}"
            ) from error
        # A copy, because the transformer may use its array again.
        x = as_floats("the result of the transformer", found).copy()
        if x.shape != (len(rows), self.n_features):
            raise ShapeError(
                f"the transformer returned shape {x.shape}, expected ({len(rows)}, {self.n_features})"
            )
        if not np.isfinite(x).all():
            k, j = (int(i) for i in np.argwhere(~np.isfinite(x))[0])
            raise NotFiniteError(
                f"feature {self._names[j]!r} of arm {arms[k]!r} is {x[k, j]}, as the transformer returned it, "
                "expected a finite number"
            )
        return x

    def _table(self, rows: list[dict[str, Any]]) -> Any:
        columns = getattr(self.transformer, "feature_names_in_", None)
        if columns is None:
            return [{name: v for name, v in row.items() if name != ARM} for row in rows]
        with needs("sim"):
            import pandas as pd
        return pd.DataFrame({name: [row.get(name) for row in rows] for name in columns})

    def parts(
        self, row: dict[str, Any], situation: dict[str, Any], arm: Name, vector: Floats
    ) -> list[Part]:
        """Return the features of an arm's vector that are not zero."""
        return [Part(self._names[i], int(i), float(vector[i])) for i in np.flatnonzero(vector)]

    def __repr__(self) -> str:
        """Return the call that makes the map."""
        return f"SklearnFeatureMap({self.transformer!r})"

    def to_dict(self) -> dict[str, Any]:
        """Return what can be saved of the map: the names of its features."""
        return {"kind": "transformed", "names": self._names}


class MissingFeatureMap(SklearnFeatureMap):
    """Stands for a map that encoded recorded features and was not given again.

    Parameters
    ----------
    names
        Names of the d features.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = list(names)
        self.n_features = len(self._names)
        self.transformer = None

    def encode(
        self, rows: Sequence[dict[str, Any]], situation: dict[str, Any], arms: Sequence[Name]
    ) -> Floats:
        """Raise an error that asks for the transformer."""
        raise ParameterError(
            "the contexts come from a transformer, which is not saved: give it again, as feature_map=…"
        )
