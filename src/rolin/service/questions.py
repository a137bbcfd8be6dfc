"""What requests ask and decisions answer: from our JSON to what the library takes, and back."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from rolin.journal import LoggedDecision
from rolin.service import schema
from rolin.service.errors import Refusal

__all__ = ["answer_of", "arms_of", "fallback_of", "id_of", "question_of", "text_of", "unrecorded"]


def question_of(
    arms: Sequence[str | schema.Arm], situation: schema.Features, n_features: int, *, has_map: bool
) -> tuple[Any, list[str], Any]:
    """Return contexts, names and situation as the library takes them.

    Parameters
    ----------
    arms
        The arms, by name or with features.
    situation
        What they share.
    n_features
        Number of features of the bandit.
    has_map
        Whether the bandit has a feature map; without one, features are vectors.
    """
    names = [id_of(arm) for arm in arms]
    features = [None if isinstance(arm, str) else arm.features for arm in arms]
    if not has_map:
        return _vectors(features, situation, n_features), names, None
    wrong = next((k for k, row in enumerate(features) if isinstance(row, list)), None)
    if wrong is not None or isinstance(situation, list):
        raise Refusal(
            400,
            "it is a vector, but the bandit has a feature map, expected an object of fields",
            field="situation" if wrong is None else f"arms[{wrong}].features",
        )
    rows = [row or {} for row in features] if any(features) else None
    return rows, names, situation


def _vectors(
    features: Sequence[schema.Features], situation: schema.Features, d: int
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the vectors of the arms, or one for all of them."""
    if isinstance(situation, list) and not any(features):
        if len(situation) != d:
            raise Refusal(
                400,
                f"it is a list of {len(situation)} numbers, expected a list of {d} numbers",
                field="situation",
            )
        return np.array(situation, dtype=float)
    if situation is not None:
        raise Refusal(
            400,
            "the bandit takes vectors: give one per arm, or one for all arms as the situation",
            field="situation",
        )
    for k, row in enumerate(features):
        if isinstance(row, dict) or len(row or ()) != d:
            given = "an object" if isinstance(row, dict) else f"a list of {len(row or ())} numbers"
            raise Refusal(
                400,
                f"it is {given}, expected a list of {d} numbers",
                field=f"arms[{k}].features",
            )
    return np.array([row or [] for row in features], dtype=float).reshape(len(features), d)


def id_of(arm: str | schema.Arm) -> str:
    """Return the name of an arm."""
    return arm if isinstance(arm, str) else arm.id


def answer_of(decision: LoggedDecision) -> schema.DecisionAnswer:
    """Return the answer that says what was decided."""
    p = decision.propensities
    return schema.DecisionAnswer(
        decision.id,
        str(decision.arm),
        [str(arm) for arm in decision.ranking],
        None if p is None else dict(zip(map(str, decision.offered), p.tolist(), strict=True)),
        decision.version,
        decision.mode,
        decision.control,
        decision.outside_share,
    )


def arms_of(decision: LoggedDecision) -> list[schema.Arm]:
    """Return the arms that a decision offered, with the features that they had."""
    raw = decision.raw
    rows: list[Any] = decision.offered_contexts.tolist() if raw is None else raw.rows
    return [schema.Arm(str(name), row) for name, row in zip(decision.offered, rows, strict=True)]


def fallback_of(request: schema.DecisionRequest, names: Sequence[str]) -> schema.DecisionAnswer:
    """Return the baseline, which is not recorded."""
    excluded = set(request.exclude)
    offered = [name for name in names if name not in excluded]
    if request.baseline in offered:
        offered.remove(request.baseline)
        offered.insert(0, request.baseline)
    if not offered:
        raise Refusal(400, "all arms are excluded", field="exclude")
    return unrecorded(
        schema.DecisionAnswer(
            "", offered[0], offered[: request.top_k], None, None, "stopped", False
        )
    )


def unrecorded(answer: schema.DecisionAnswer) -> schema.DecisionAnswer:
    """Return an answer that says that it is not recorded."""
    # Never the caller's id: a decision that is made for it later may choose another arm, and would get the reward.
    id = f"unrecorded-{secrets.token_hex(8)}"
    return msgspec.structs.replace(answer, id=id, recorded=False)


def text_of(rows: list[dict[str, Any]] | None, names: Sequence[str], situation: Any) -> str:
    """Return raw features as the journal stores them. The library would write the same text, but takes longer."""
    given = {"situation": situation or {}, "arms": rows or [{}] * len(names)}
    return msgspec.json.encode(given).decode()
