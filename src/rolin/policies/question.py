"""What a policy is asked: arms with their contexts, checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rolin.arms import Name, Named
from rolin.checks import as_excluded, as_floats, count_of
from rolin.errors import ArmError, ParameterError, RolinError, ShapeError
from rolin.posterior import Posterior

__all__ = ["Question", "ask", "ask_many", "check_top_k"]

Floats = NDArray[np.float64]


Question = tuple[Floats, Named]
"""K arms to choose from: their (K, d) contexts, and their names with rows."""


def ask(
    posterior: Posterior,
    contexts: Mapping[Name, ArrayLike] | ArrayLike,
    arms: Iterable[Name] | None,
    exclude: Iterable[Name],
) -> Question:
    """Check a question and find its arms."""
    # The type is looked at first because asking an array whether it is a Mapping takes 0.3 µs.
    if type(contexts) is not np.ndarray and isinstance(contexts, Mapping):
        if arms is not None:
            raise ParameterError("arms was given beside a mapping, whose keys are the arms")
        x, arms = _from_mapping(contexts, posterior.n_features), list(contexts)
    else:
        x = posterior.as_contexts(contexts)
    named = posterior.find(range(len(x)) if arms is None else arms, len(x))
    if type(exclude) is tuple and not exclude:
        return x, named
    return _without((x, named), as_excluded(exclude))


def ask_many(
    posterior: Posterior,
    contexts: Sequence[Mapping[Name, ArrayLike] | ArrayLike] | NDArray[np.float64],
    arms: Iterable[Name] | Sequence[Iterable[Name]] | None,
    exclude: Iterable[Name],
) -> list[Question]:
    """Check several questions, before any of them is answered."""
    if isinstance(contexts, Mapping) or (isinstance(contexts, np.ndarray) and contexts.ndim != 3):
        raise ShapeError("contexts is one question, expected a (B, K, d) array or a list of them")
    excluded = as_excluded(exclude) or ()
    names: Sequence[Iterable[Name] | None]
    if arms is None:
        names = [None] * len(contexts)
    else:
        listed: list[Any] = list(arms)
        # Lists of names, one per question, or the names themselves (a tuple may be a name).
        if listed and isinstance(listed[0], (list, range, np.ndarray)):
            if len(listed) != len(contexts):
                raise ShapeError(
                    f"arms has {len(listed)} lists of names, expected {len(contexts)}, "
                    "one per question"
                )
            names = listed
        else:
            names = [listed] * len(contexts)
    questions = []
    for i in range(len(contexts)):
        try:
            questions.append(ask(posterior, contexts[i], names[i], excluded))
        except RolinError as error:
            raise type(error)(f"question {i}: {error}") from error
    return questions


def check_top_k(top_k: object, question: Question) -> None:
    """Refuse to rank more arms than there are."""
    n = len(question[0])
    if count_of("top_k", top_k, least=1) > n:
        raise ParameterError(f"top_k={top_k}, expected at most {n}, the number of arms")


def _from_mapping(contexts: Mapping[Name, ArrayLike], n_features: int) -> Floats:
    if not contexts:
        return np.empty((0, n_features))
    try:
        x = np.array(list(contexts.values()), dtype=np.float64)
    except (TypeError, ValueError):
        x = np.empty(0)
    if x.shape == (len(contexts), n_features):
        return x
    for arm, vector in contexts.items():
        row = as_floats(f"the context of arm {arm!r}", vector)
        if row.shape != (n_features,):
            raise ShapeError(
                f"the context of arm {arm!r} has shape {row.shape}, expected ({n_features},)"
            )
    raise ShapeError(f"the contexts do not make a ({len(contexts)}, {n_features}) array")


def _without(question: Question, excluded: set[Name]) -> Question:
    contexts, (names, rows) = question
    keep = [k for k, name in enumerate(names) if name not in excluded]
    if not keep:
        raise ArmError(f"all {len(names)} arms are excluded, expected at least one that is not")
    if len(keep) == len(names):
        return question
    return contexts[keep], Named([names[k] for k in keep], rows[keep])
