"""The arms that a policy chooses from, and the checks of what the caller passes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rolin._support.arms import Name, index_names
from rolin._support.checks import as_excluded, as_floats, as_names, count_of
from rolin._support.repeated import is_repeated, repeated
from rolin.errors import ArmError, ParameterError, RolinError, ShapeError
from rolin.model.learner import Candidates, Learner
from rolin.model.sparse import SparseContexts, is_sparse

__all__ = ["Candidates", "ask", "ask_many", "check_top_k"]

Floats = NDArray[np.float64]


def ask(
    learner: Learner,
    contexts: Mapping[Any, ArrayLike] | ArrayLike,
    arms: Iterable[Name] | None,
    exclude: Iterable[Name],
    *,
    sparse: bool = False,
) -> Candidates:
    """Check the arms of a question and find their rows in the model.

    A sparse matrix becomes an array, unless `sparse` is true.
    """
    # The type is checked first because isinstance(array, Mapping) takes 0.3 µs.
    if type(contexts) is np.ndarray:
        candidates = learner.candidates(contexts, arms)
    elif not isinstance(contexts, Mapping):
        candidates = learner.candidates(*_from_table(contexts, arms, sparse=sparse))
    elif arms is None:
        x = _from_mapping(contexts, learner.n_features)
        candidates = learner.candidates(x, list(contexts))
    else:
        raise ParameterError(
            "arms was given beside a mapping from arm to its context, whose keys are the arms: leave arms out; or pass one "
            "vector for all arms"
        )
    if type(exclude) is tuple and not exclude:
        return candidates
    return _without(candidates, as_excluded(exclude))


def ask_many(
    learner: Learner,
    contexts: Iterable[Mapping[Any, ArrayLike] | ArrayLike] | NDArray[np.float64],
    arms: Iterable[Name] | Sequence[Iterable[Name]] | None,
    exclude: Iterable[Name],
) -> list[Candidates]:
    """Check the arms of several questions, before any of them is answered."""
    one = isinstance(contexts, Mapping) or hasattr(contexts, "columns")
    if one or (isinstance(contexts, np.ndarray) and contexts.ndim != 3):
        raise ShapeError(
            "contexts is one question, expected a (B, K, d) array or a list of questions; for one context per decision "
            "that all arms share, pass a list of vectors and arms=…"
        )
    if not isinstance(contexts, np.ndarray):
        try:
            contexts = list(contexts)
        except TypeError:
            raise ShapeError(
                f"contexts={contexts!r}, expected a (B, K, d) array or a list"
            ) from None
    excluded = as_excluded(exclude) or ()
    n = len(contexts)
    names: list[Any] = [] if arms is None else list(as_names(arms))
    # Either one list of names per question, or the names themselves (a tuple may be a name).
    if not (names and isinstance(names[0], (list, range, np.ndarray))):
        if n and isinstance(contexts, np.ndarray) and not excluded:
            return _same_arms(learner, contexts, None if arms is None else names)
        names = [None if arms is None else names] * n
    if len(names) != n:
        raise ShapeError(f"arms has {len(names)} lists of names, expected {n}, one per question")
    questions = []
    for i in range(n):
        try:
            questions.append(ask(learner, contexts[i], names[i], excluded))
        except RolinError as error:
            raise type(error)(f"question {i}: {error}") from error
    return questions


def _same_arms(
    learner: Learner, contexts: NDArray[Any], arms: list[Name] | None
) -> list[Candidates]:
    """Check many questions about the same arms; their rows are looked up once."""
    x = as_floats("contexts", contexts)
    if x.shape[2] != learner.n_features:
        raise ShapeError(
            f"contexts has shape {x.shape}, expected (B, K, {learner.n_features}): one matrix per question, one row per "
            "arm, one column per feature"
        )
    first = learner.candidates(x[0], arms)
    return [first._replace(contexts=x[i]) for i in range(len(x))]


def check_top_k(top_k: object, candidates: Candidates) -> None:
    """Raise if `top_k` is not between 1 and the number of candidates."""
    n = len(candidates.names)
    if count_of("top_k", top_k, least=1) > n:
        raise ParameterError(
            f"top_k={top_k}, expected at most {n}, the number of arms to choose from"
        )


def _from_table(
    contexts: Any, arms: Iterable[Name] | None, *, sparse: bool
) -> tuple[Any, Iterable[Name] | None]:
    """Return contexts of another type than array and mapping, and the names of their arms."""
    if is_sparse(contexts):
        found = SparseContexts(contexts)
        return (found if sparse else found[range(len(found))]), arms
    if isinstance(contexts, (list, tuple)) and contexts and isinstance(contexts[0], str):
        raise ShapeError(
            f"contexts holds the text {contexts[0]!r}, expected numbers: one vector of features per arm. Pass names "
            f"of arms as keys, {{{contexts[0]!r}: […], …}}, or as arms=[{contexts[0]!r}, …]"
        )
    return contexts, index_names(contexts) if arms is None else arms


def _from_mapping(contexts: Mapping[Any, ArrayLike], n_features: int) -> Floats:
    if not contexts:
        return np.empty((0, n_features))
    for arm, vector in contexts.items():
        if isinstance(vector, Mapping):
            raise ParameterError(
                f"arm {arm!r} has raw features, expected a vector of numbers: rolin.Bandit(policy, feature_map=…) and "
                "feature_map.contexts(…) convert them"
            )
        break  # the first arm is enough
    try:
        x = as_floats("contexts", list(contexts.values()))  # type: ignore[arg-type]  # of vectors
    except ShapeError:
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


def _without(candidates: Candidates, excluded: set[Name]) -> Candidates:
    contexts, names, rows = candidates
    keep = [k for k, name in enumerate(names) if name not in excluded]
    if not keep:
        raise ArmError(f"all {len(names)} arms are excluded, expected at least one that is not")
    if len(keep) == len(names):
        return candidates
    # Indexing would copy the row for each arm, in an order that the kernels cannot read.
    offered = repeated(contexts[0], len(keep)) if is_repeated(contexts) else contexts[keep]
    return Candidates(offered, [names[k] for k in keep], rows[keep])
