"""Transformers of scikit-learn in place of a map."""

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
from rolin.features.tables import flatten

__all__ = ["Transformed"]

Floats = NDArray[np.float64]


class Transformed(BaseFeatureMap):
    """What a fitted transformer of scikit-learn makes of rows that have the fields of situation and arm.

    It is called with a pandas data frame if it was fitted on one, and with a list of dicts if not. Since it is
    not ours, it is not saved: the journal has the vectors beside the raw features, and whoever opens it again gives
    the transformer again. That it is the same one is the caller's promise; names and number of features are checked.

    Parameters
    ----------
    transformer
        Anything with `transform`, fitted; it may have `get_feature_names_out`.
    n_features
        Number d of features, of a transformer that does not tell.
    """

    def __init__(self, transformer: Any, *, n_features: int | None = None) -> None:
        if not callable(getattr(transformer, "transform", None)):
            raise ParameterError(f"feature_map={transformer!r}, expected a map or a transformer")
        if n_features is not None:
            n_features = count_of("n_features", n_features, least=1, most=100_000)
        self.transformer = transformer
        given = self._given_names()
        if given is None and n_features is None:
            raise ParameterError(
                "the transformer does not tell its number of features: is it fitted? If so, say "
                "Transformed(transformer, n_features=…)"
            )
        self._names = given or [f"x{i}" for i in range(n_features or 0)]
        self.n_features = len(self._names)
        if n_features is not None and n_features != self.n_features:
            raise ParameterError(
                f"n_features={n_features}, but the transformer says {self.n_features}"
            )

    def _given_names(self) -> list[str] | None:
        try:
            return [str(name) for name in self.transformer.get_feature_names_out()]
        except Exception:  # whatever it raises, it does not tell
            return None

    @property
    def names(self) -> list[str]:
        """What the d features are called."""
        return list(self._names)

    def encode(
        self, rows: Sequence[dict[str, Any]], situation: dict[str, Any], arms: Sequence[Name]
    ) -> Floats:
        """Return the (K, d) vectors of K arms in one situation."""
        return self._encode_each(rows, [situation] * len(rows), arms)

    def _encode_each(
        self,
        rows: Sequence[dict[str, Any]],
        situations: Sequence[dict[str, Any]],
        arms: Sequence[Name],
    ) -> Floats:
        """Return the vectors of arms that are each in a situation of their own, in one call."""
        if not rows:
            return np.empty((0, self.n_features))
        merged = []
        for arm, row, situation in zip(arms, rows, situations, strict=True):
            shared = dict(flatten("the situation", situation))
            own = {**dict(flatten(f"arm {arm!r}", row)), ARM: arm}
            if both := sorted(shared.keys() & own.keys()):
                raise InputError(f"the situation and arm {arm!r} both have a field {both[0]!r}")
            merged.append({**shared, **own})
        try:
            found = self.transformer.transform(self._table(merged))
            if hasattr(found, "toarray"):
                found = found.toarray()
            found = np.asarray(found)
        except Exception as error:  # whatever it raises, it is about what the caller gave
            raise InputError(
                f"the transformer refuses the fields: {type(error).__name__}: {error}"
            ) from error
        x = as_floats("what the transformer returned", found).copy()  # it may be its own
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
        """Return what an arm's vector consists of, by name, without what is zero."""
        return [Part(self._names[i], int(i), float(vector[i])) for i in np.flatnonzero(vector)]

    def __repr__(self) -> str:
        """Say what it calls."""
        return f"Transformed({self.transformer!r})"

    def to_dict(self) -> dict[str, Any]:
        """Return what can be told of it: the names of its features."""
        return {"kind": "transformed", "names": self._names}


class Absent(Transformed):
    """A transformer that was used before and has not been given again."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = list(names)
        self.n_features = len(self._names)
        self.transformer = None

    def encode(
        self, rows: Sequence[dict[str, Any]], situation: dict[str, Any], arms: Sequence[Name]
    ) -> Floats:
        """Say that it has to be given."""
        raise ParameterError(
            "vectors come from a transformer that is not saved: give it again, as feature_map=…"
        )
