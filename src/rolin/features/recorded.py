"""Raw features as they are recorded with a decision: JSON, from which the contexts can be computed again."""

from __future__ import annotations

import json
from collections.abc import Container, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rolin._support.arms import Name, canonical
from rolin._support.repeated import is_repeated
from rolin.features.base import BaseFeatureMap, Part, read_arm_rows
from rolin.features.field_error import SITUATION
from rolin.features.recorded_json import as_json, can_be_recorded, text_of
from rolin.features.tables import read_row
from rolin.features.uniform_rows import UniformRows, json_of_row

__all__ = ["RecordedFeatures", "record_candidates", "text_of_candidates"]

Floats = NDArray[np.float64]
_SIZE_OF_VALUE = 40  # bytes of a value that is not written as JSON yet, roughly


class RecordedFeatures:
    """The raw features of one decision: those of the arms that were offered, and those of the situation.

    Contexts that are known are held until `release`. After that, and for a record that was read from JSON, they are
    encoded when they are asked for. Arrays are shared, not copied: copy them before you write to them.

    Parameters
    ----------
    feature_map
        The map that encodes the features.
    arms
        Names of the K arms.
    raw
        `{"situation": …, "arms": […]}`, as JSON, or as a dict that nobody changes, which is written as JSON when it is
        needed.
    contexts
        (K, d): the contexts, if they are known.
    """

    __slots__ = ("_contexts", "_raw", "_retained", "arms", "feature_map")

    def __init__(
        self,
        feature_map: BaseFeatureMap,
        arms: Sequence[Name],
        raw: str | dict[str, Any],
        contexts: Floats | None = None,
    ) -> None:
        self.feature_map, self.arms, self._raw, self._contexts = feature_map, arms, raw, contexts
        # Contexts of a few arms, after the others were released.
        self._retained: dict[int, Floats] = {}

    @classmethod
    def record(
        cls,
        feature_map: BaseFeatureMap,
        arms: Sequence[Name],
        rows: Sequence[dict[str, Any]],
        situation: dict[str, Any],
        text: str | None = None,
    ) -> RecordedFeatures:
        """Encode raw features and return their record; later changes of the rows do not change it.

        Parameters
        ----------
        feature_map
            The map that encodes the features.
        arms
            Names of the K arms.
        rows
            The fields of the K arms.
        situation
            The fields of the situation.
        text
            The JSON that rows and situation were parsed from, `{"situation": …, "arms": […]}`, if it is known. It is
            recorded as it is, unless it holds NaN or infinity, or is nested too deep.
        """
        situation = situation.copy()
        if text is not None and can_be_recorded(text, rows, situation):
            return cls(feature_map, tuple(arms), text, feature_map.encode(rows, situation, arms))
        uniform = UniformRows.of(rows)
        if uniform is not None and json_of_row(situation) is not None:
            values = {"situation": situation.copy(), "arms": uniform}  # which nobody can change
            raw = values if uniform.is_json else text_of(values)
            if raw:
                contexts = feature_map.encode(uniform, situation, arms)
                return cls(feature_map, tuple(arms), raw, contexts)
        rows = [row.copy() for row in uniform or rows]
        contexts = feature_map.encode(rows, situation, arms)  # raises if a value is wrong
        text, changed = as_json(feature_map, rows, situation)
        if changed is not None and not feature_map.needs_vectors:
            # Contexts must be those of the record, because it is what will be encoded later.
            contexts = feature_map.encode(changed["arms"], changed["situation"], arms)
        return cls(feature_map, tuple(arms), text, contexts)

    def _parsed(self) -> dict[str, Any]:
        raw = self._raw  # read once, because another thread may call `to_json`
        if isinstance(raw, str):
            found: dict[str, Any] = json.loads(raw)
            return found
        return {**raw, "situation": {**raw["situation"]}}  # a copy: a record is never changed

    @property
    def situation(self) -> dict[str, Any]:
        """The fields of the situation."""
        found: dict[str, Any] = self._parsed()["situation"]
        return found

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The fields of the K arms."""
        return list(self._parsed()["arms"])

    @property
    def stored_vectors(self) -> Floats | None:
        """(K, d): the contexts, if a journal must store them because the map is not saved; otherwise `None`."""
        return self._contexts if self.feature_map.needs_vectors else None

    @property
    def nbytes(self) -> int:
        """Memory of the contexts of all arms; 0 if they would be encoded again."""
        contexts = self._contexts
        if contexts is None:
            return 0
        return contexts[0].nbytes if is_repeated(contexts) else contexts.nbytes

    @property
    def raw_size(self) -> int:
        """Roughly the memory of the raw features, in bytes."""
        raw = self._raw
        return (
            len(raw)
            if isinstance(raw, str)
            else _SIZE_OF_VALUE * len(raw["arms"]) * len(raw["arms"][0])
        )

    def contexts(self) -> Floats:
        """Return the (K, d) contexts of all arms; they are encoded again after `release`."""
        contexts = self._contexts
        if contexts is None:
            raw = self._parsed()
            contexts = self.feature_map.encode(raw["arms"], raw["situation"], self.arms)
        return contexts

    def release(self, indices: Sequence[int]) -> None:
        """Drop the contexts from memory, except those of a few arms that are needed later.

        Parameters
        ----------
        indices
            The arms whose contexts are retained.
        """
        contexts = self._contexts
        if contexts is None or self.feature_map.needs_vectors:
            return
        known = self._retained
        # In this order, so that another thread always finds one of the two.
        self._retained = {k: known[k] if k in known else _own_row(contexts, k) for k in indices}
        self._contexts = None

    def context(self, k: int) -> Floats:
        """Return the (d,) context of the arm with index k; only this one is encoded if it was not retained.

        Parameters
        ----------
        k
            Index of the arm.
        """
        retained = self._retained.get(k)
        if retained is not None:
            return retained
        contexts = self._contexts
        if contexts is not None:
            row = _own_row(contexts, k)
            self._retained = {**self._retained, k: row}
            return row
        raw, arm = self._parsed(), self.arms[k]
        found: Floats = self.feature_map.encode([raw["arms"][k]], raw["situation"], [arm])[0]
        return found

    def contexts_of(self, indices: Sequence[int]) -> Floats:
        """Return the (n, d) contexts of several arms.

        Parameters
        ----------
        indices
            Indices of the arms.
        """
        retained = self._retained
        if self._contexts is None and all(k in retained for k in indices):
            return np.array([retained[k] for k in indices])
        return self.contexts()[list(indices)]

    def parts(self, k: int, context: Floats | None = None) -> list[Part]:
        """Return the named terms of the context of the arm with index k.

        Parameters
        ----------
        k
            Index of the arm.
        context
            Its (d,) context, if it is known; otherwise it is encoded if necessary.
        """
        raw = self._parsed()
        context = self.context(k) if context is None else context
        return self.feature_map.parts(raw["arms"][k], raw["situation"], self.arms[k], context)

    def to_json(self) -> str:
        """Return the raw features as JSON."""
        raw = self._raw
        if not isinstance(raw, str):
            # Only what needs the text, such as a file or a digest, pays for it.
            raw = self._raw = text_of(raw)
        return raw

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, RecordedFeatures)
            and (self.feature_map, tuple(self.arms)) == (other.feature_map, tuple(other.arms))
            and (self.situation, self.rows) == (other.situation, other.rows)
        )

    __hash__ = None  # type: ignore[assignment]  # it holds dicts

    def __repr__(self) -> str:
        """Return the number of arms and the version of the map."""
        return f"<RecordedFeatures of {len(self.arms)} arms, map {self.feature_map.version}>"


def _own_row(contexts: Floats, k: int) -> Floats:
    """Return a copy of a row, because what holds a part of an array, such as a reward, holds the whole array."""
    row: Floats = contexts[k].copy()
    row.flags.writeable = False  # a record is never changed
    return row


def record_candidates(
    feature_map: BaseFeatureMap,
    arms: Any,
    names: Any,
    situation: Any,
    excluded: Container[Name],
    text: str | None = None,
) -> RecordedFeatures:
    """Return the record of the arms of one decision, without those that are excluded.

    Parameters
    ----------
    feature_map
        The map that encodes the features.
    arms
        The raw features of the arms, as for `BaseFeatureMap.contexts`.
    names
        The names of the arms, as for `BaseFeatureMap.contexts`.
    situation
        The fields of the situation.
    excluded
        Names of arms to leave out. If these are all arms, none is left out, and the policy raises the error.
    text
        The JSON of all arms and of the situation, if it is known; see `RecordedFeatures.record`.
    """
    rows, offered, text = _read_candidates(arms, names, excluded, text)
    row = read_row(SITUATION, situation)
    return RecordedFeatures.record(feature_map, offered, rows, row, text)


def text_of_candidates(
    feature_map: BaseFeatureMap,
    arms: Any,
    names: Any,
    situation: Any,
    excluded: Container[Name],
    text: str | None = None,
) -> tuple[list[Name], str]:
    """Return the names and the JSON that `record_candidates` would record, without encoding any value.

    Parameters
    ----------
    feature_map
        As for `record_candidates`.
    arms
        As for `record_candidates`.
    names
        As for `record_candidates`.
    situation
        As for `record_candidates`.
    excluded
        As for `record_candidates`.
    text
        As for `record_candidates`.
    """
    rows, offered, text = _read_candidates(arms, names, excluded, text)
    row = read_row(SITUATION, situation)
    if text is None or not can_be_recorded(text, rows, row):
        text, _ = as_json(feature_map, rows, row)
    return offered, text


def _read_candidates(
    arms: Any, names: Any, excluded: Container[Name], text: str | None
) -> tuple[list[dict[str, Any]], list[Name], str | None]:
    """Return the fields and the names of the arms that are not excluded, and the text if it is theirs."""
    rows, found = read_arm_rows(arms, names)
    offered = list(found)
    if not {str}.issuperset(map(type, offered)):
        offered = [canonical(name) for name in offered]
    if excluded:
        eligible = [k for k, name in enumerate(offered) if name not in excluded]
        if eligible and len(eligible) < len(rows):
            text = None  # it holds all arms
            rows, offered = [rows[k] for k in eligible], [offered[k] for k in eligible]
    return rows, offered, text
