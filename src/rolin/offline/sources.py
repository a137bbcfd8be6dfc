"""Make a `DecisionLog` of a journal, a table, or the Open Bandit Dataset."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rolin._support.arms import canonical
from rolin._support.checks import as_floats, flag_of
from rolin.bandit.bandit import Bandit
from rolin.errors import DataError, UnknownOption
from rolin.features import FeatureMap, RecordedFeatures
from rolin.features.base import ARM
from rolin.features.tables import is_table, read_row, rows_of
from rolin.journal import Journal, LoggedDecision
from rolin.logs.obd import read_campaign
from rolin.logs.reader import past_decisions
from rolin.logs.record import PastDecision
from rolin.logs.rules import BadCell, Missing, check_missing, is_distribution, rows_with_reward
from rolin.offline.log import DecisionLog

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["read", "read_obd"]

Floats = NDArray[np.float64]


def read(
    source: Bandit[Any] | Journal | str | PathLike[str] | Iterable[PastDecision] | pd.DataFrame,
    *,
    missing: Missing = "refuse",
    first_rank: bool = False,
    arm_features: Mapping[Any, ArrayLike] | pd.DataFrame | None = None,
    **columns: Any,
) -> DecisionLog:
    """Return a log that can be evaluated.

    Parameters
    ----------
    source
        A bandit, its journal or the journal's file; a table (Parquet, CSV or a data frame), such as
        `rolin journal export` writes; a Vowpal Wabbit log (`.dsjson`); or a folder of the Open Bandit Dataset.
    missing
        What to do with decisions that have no reward: `"refuse"` the log, `"drop"` them, or a number to count as
        their reward. Dropping them is right only if rewards are missing for reasons unrelated to their values.
    first_rank
        Whether to evaluate rankings by the arm of the first rank, which the propensities belong to. Whole rankings
        cannot be evaluated.
    arm_features
        For a table that does not say which arms were offered: the features of every arm that could have been chosen
        each time, as a mapping or a data frame with the arms as its index. They precede the features of the row,
        which describe the situation and are the same for all arms. With a `feature_map`, they are the raw features
        of each arm. By default the arms are those of the table, and only their effects, or with a feature map their
        names, tell them apart.
    columns
        Options of the reader for that kind of source. For a table, `arm`, `reward`, `propensity`, `features`, `id`,
        `time`, `person` and `weight` name its columns. For raw features, `feature_map` makes vectors of them; it
        may differ from the map that decided. See [`read_decisions`][rolin.logs.read_decisions].
    """
    n_features, first_rank = 0, flag_of("first_rank", first_rank)
    if isinstance(source, Bandit):
        n_features = source.policy.n_features
        source = source.journal
    if isinstance(source, (str, PathLike)) and Path(source).is_dir():
        if columns:
            raise UnknownOption(f"the Open Bandit Dataset takes no option {next(iter(columns))}")
        return read_obd(source)
    missing = check_missing(missing)
    pasts = past_decisions(source, missing=missing, **columns)
    for past in pasts:
        _check_decision(past.decision, first_rank)
    pasts = _with_reward(pasts, missing)
    if not pasts:
        raise DataError("there are no decisions to evaluate")
    decisions = [past.decision for past in pasts]
    rewards, weights = np.array([_reward(past, missing) for past in pasts]).T
    people = [decision.person for decision in decisions]
    return DecisionLog(
        *_candidates(decisions, n_features, arm_features),
        rewards,
        _propensities(decisions),
        weights=weights,
        people=people if any(people) else None,
        control=np.array([decision.control for decision in decisions]),
        baseline=np.array([decision.is_baseline for decision in decisions]),
        outside_share=np.array([decision.outside_share for decision in decisions]),
        ids=[decision.id for decision in decisions],
    )


def _check_decision(decision: LoggedDecision, first_rank: bool) -> None:
    """Reject a decision that cannot be evaluated."""
    if len(decision.chosen) > 1 and not first_rank:
        raise DataError(
            f"decision {decision.id!r} is a ranking of {len(decision.chosen)} arms, and whole rankings cannot be "
            "evaluated: first_rank=True (--first-rank) evaluates the first rank, which the propensities belong to"
        )
    if decision.propensities is None:
        raise DataError(
            f"decision {decision.id!r} has no propensity, without which it cannot be evaluated; for a table, name "
            "its column: propensity=… (--propensity)"
        )


def _with_reward(pasts: Sequence[PastDecision], missing: Missing) -> list[PastDecision]:
    """Return the decisions that count, by the rule for missing rewards."""
    absent = np.array([_is_open(past) for past in pasts], dtype=bool)
    try:
        rows = rows_with_reward("reward", absent, missing)
    except BadCell as bad:
        raise DataError(
            f"{absent.sum()} of {len(pasts)} decisions have no reward, such as "
            f"{pasts[bad.row or 0].decision.id!r}: reward {bad.text}"
        ) from None
    return list(pasts) if rows is None else [pasts[i] for i in rows]


def _is_open(past: PastDecision) -> bool:
    outcome = past.outcomes.get(0)
    return outcome is None or outcome.value is None


def _reward(past: PastDecision, missing: Missing) -> tuple[float, float]:
    """Return the reward of the first rank, and its weight."""
    outcome = past.outcomes.get(0)
    if outcome is None or outcome.value is None:
        return float(missing), 1.0
    return outcome.value, outcome.weight


def _candidates(
    decisions: Sequence[LoggedDecision],
    n_features: int,
    arm_features: Mapping[Any, Any] | pd.DataFrame | None,
) -> tuple[list[Any], Any, NDArray[np.int64]]:
    """Return for each decision the arms that were offered, their contexts, and the index of the chosen one."""
    arms: list[Any] = [list(decision.offered) for decision in decisions]
    contexts: Any = [decision.offered_contexts for decision in decisions]
    raws = [decision.raw for decision in decisions]
    most = max([n_features, *(x.shape[1] for x, raw in zip(contexts, raws, strict=True) if raw)])
    for i, raw in enumerate(raws):
        more = most - contexts[i].shape[1]
        if raw is not None and more > 0:  # features that the map got later were 0 before
            contexts[i] = np.pad(contexts[i], ((0, 0), (0, more)))
    # If the chosen arm stands alone with a propensity below 1, the table does not say what else was offered.
    if all(len(names) == 1 for names in arms) and any(
        (decision.propensity or 0.0) < 1.0 for decision in decisions
    ):
        names = [name for (name,) in arms]
        if any(raws):
            return _all_arms_raw(names, raws, arm_features)
        return _all_arms(names, contexts, arm_features)
    return arms, contexts, np.array([decision.chosen[0] for decision in decisions])


def _all_arms(
    chosen: list[Any],
    situations: list[Floats],
    arm_features: Mapping[Any, ArrayLike] | pd.DataFrame | None,
) -> tuple[list[Any], Floats, NDArray[np.int64]]:
    """Return arms, contexts and choices if all arms were offered every time."""
    if arm_features is None:
        names = _sorted(chosen)
        own = np.empty((len(names), 0))
    else:
        given: Any = arm_features
        if hasattr(given, "to_numpy"):  # a data frame
            given = dict(zip(given.index, given.to_numpy(), strict=True))
        names = [canonical(name) for name in given]
        rows = [as_floats(f"arm_features of {name!r}", given[name]) for name in given]
        if len({row.shape for row in rows}) != 1 or rows[0].ndim != 1:
            raise DataError("arm_features are not vectors of one length, one for each arm")
        own = np.array(rows)
    indices = _indices(chosen, names)
    d = own.shape[1]
    contexts = np.empty((len(chosen), len(names), d + situations[0].shape[1]))
    contexts[:, :, :d] = own
    contexts[:, :, d:] = np.array(situations)
    return names, contexts, indices


def _all_arms_raw(
    chosen: list[Any],
    raws: Sequence[RecordedFeatures | None],
    arm_features: Mapping[Any, Any] | pd.DataFrame | None,
) -> tuple[list[Any], Floats, NDArray[np.int64]]:
    """Return the same for raw features: each arm has its own, and the row has those of the situation."""
    features = next(raw.feature_map for raw in raws if raw is not None)
    if arm_features is None:
        if not isinstance(features, FeatureMap) or set(features.arm) - {ARM}:
            raise DataError(
                "the table has the features of the chosen arm only: give those of all arms as arm_features"
            )
        names = _sorted(chosen)
        rows: list[dict[str, Any]] = [{} for _ in names]
    else:
        given: Any = arm_features
        if is_table(given):
            names = [canonical(name) for name in given.index]
            rows = rows_of(given)
        else:
            names = [canonical(name) for name in given]
            rows = [read_row(f"arm_features of {name!r}", given[name]) for name in given]
    indices = _indices(chosen, names)
    contexts = np.empty((len(raws), len(names), features.n_features))
    for i, raw in enumerate(raws):
        contexts[i] = features.encode(rows, {} if raw is None else raw.situation, names)
    return names, contexts, indices


def _sorted(chosen: list[Any]) -> list[Any]:
    """Return the distinct arms in order: integers, then texts."""
    return sorted(set(chosen), key=lambda name: (type(name).__name__, name))


def _indices(chosen: list[Any], names: list[Any]) -> NDArray[np.int64]:
    """Return the index of each chosen arm among all arms."""
    index = {name: k for k, name in enumerate(names)}
    if lacking := [name for name in chosen if name not in index]:
        raise DataError(f"arm {lacking[0]!r} of the log is not among arm_features")
    return np.array([index[name] for name in chosen])


def _propensities(decisions: Sequence[Any]) -> Any:
    """Return the propensities of all arms, or those of the chosen ones if the others are not known."""
    if all(is_distribution(d.propensities, len(d.propensities)) for d in decisions):
        return [decision.propensities for decision in decisions]
    return np.array([decision.propensity for decision in decisions])


def read_obd(folder: str | PathLike[str]) -> DecisionLog:
    """Read a campaign of the Open Bandit Dataset, such as `random/all`.

    An arm's features are the item's number feature, the affinity of the user to the item, and two marks for the
    position (center, right) of three. The reward is the click.

    Parameters
    ----------
    folder
        Folder of the campaign.

    References
    ----------
    Saito, Aihara, Matsutani & Narita, *Open Bandit Dataset and Pipeline*, 2020.
    """
    return DecisionLog(*read_campaign(folder))
