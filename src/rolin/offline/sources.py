"""Logs from wherever they are: journals, tables, the Open Bandit Dataset."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rolin._support.arms import canonical
from rolin._support.checks import as_floats, finite_number_of
from rolin.bandit.bandit import Bandit
from rolin.errors import DataError, ParameterError, UnknownOption
from rolin.features import FeatureMap, RawContexts
from rolin.features.base import ARM
from rolin.features.tables import is_table, row_of, rows_of
from rolin.journal import Journal
from rolin.logs.frames import numbers, read_table
from rolin.logs.reader import past_decisions
from rolin.logs.record import PastDecision
from rolin.offline.log import DecisionLog

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["read", "read_obd"]

Floats = NDArray[np.float64]
Missing = Literal["refuse", "drop"] | float


def read(
    source: Bandit | Journal | str | PathLike[str] | Iterable[PastDecision] | pd.DataFrame,
    *,
    missing: Missing = "refuse",
    first_place: bool = False,
    arm_features: Mapping[Any, ArrayLike] | pd.DataFrame | None = None,
    **columns: Any,
) -> DecisionLog:
    """Return a log that can be evaluated.

    Parameters
    ----------
    source
        A bandit or its journal (or the journal's file), a table as `rolin journal export` writes it
        (Parquet, CSV or a data frame), a log of Vowpal Wabbit's (`.dsjson`), or a folder of the Open
        Bandit Dataset.
    missing
        What to do with decisions that have no reward: `"refuse"` the log, `"drop"` them, or a number
        to count as their reward. Dropping is right only if rewards are missing for reasons that have nothing
        to do with them.
    first_place
        Whether rankings may be evaluated by their first place, to which the propensities
        belong. Whole rankings cannot be evaluated.
    arm_features
        Of a table that does not say what was offered: the features of each arm that could have been
        chosen every time, as a mapping or a data frame with the arms as its index. They stand before those
        of the row, which describe the situation and are the same for all arms; with a `feature_map`, they are
        the raw features of each arm. Without it, the arms are those of the table, and nothing but their effects, or
        with a map their names, tells them apart.
    columns
        What the reader of that kind of source takes: of a table `arm`, `reward`, `propensity`, `features`,
        `id`, `time`, `person` and `weight`, which name its columns; of raw features, the `feature_map` that
        makes vectors of them, which may be another than the one that decided; see
        [`read_decisions`][rolin.logs.read_decisions].
    """
    width = 0
    if isinstance(source, Bandit):
        width = source.policy.n_features
        source = source.journal
    if isinstance(source, (str, PathLike)) and Path(source).is_dir():
        if columns:
            raise UnknownOption(
                f"the Open Bandit Dataset takes no {next(iter(columns))}, none at all"
            )
        return read_obd(source)
    number = 0.0
    if not isinstance(missing, str) or missing not in ("refuse", "drop"):
        if isinstance(missing, (bool, str)):
            raise ParameterError(f"missing={missing!r}, expected 'refuse', 'drop' or a number")
        number = finite_number_of("missing", missing)
    pasts = past_decisions(source, **columns)
    kept, without = [], []
    for past in pasts:
        decision = past.decision
        if len(decision.chosen) > 1 and not first_place:
            raise DataError(
                f"decision {decision.id!r} is a ranking of {len(decision.chosen)} arms, and whole "
                "rankings cannot be evaluated: propensities are those of the first place, which "
                "first_place=True evaluates"
            )
        if decision.propensities is None:
            raise DataError(
                f"decision {decision.id!r} has no propensity, without which nothing can be said; of a table, "
                "say which column it is: propensity=… (--propensity)"
            )
        outcome = past.outcomes.get(0)
        if outcome is None or outcome.value is None:
            without.append(decision.id)
            if isinstance(missing, str):
                continue
            kept.append((decision, number, 1.0))
        else:
            kept.append((decision, outcome.value, outcome.weight))
    if without and missing == "refuse":
        raise DataError(
            f"{len(without)} of {len(pasts)} decisions have no reward, such as {without[0]!r}; say "
            "missing=0.0 (--missing 0) if that is what it means, or missing='drop' (--missing drop)"
        )
    if not kept:
        raise DataError("there are no decisions to evaluate")
    decisions = [decision for decision, _, _ in kept]
    people = [decision.person for decision in decisions]
    arms: list[Any] = [list(decision.offered) for decision in decisions]
    contexts: Any = [decision.offered_contexts for decision in decisions]
    raws = [decision.raw for decision in decisions]
    most = max([width, *(x.shape[1] for x, raw in zip(contexts, raws, strict=True) if raw)])
    for i, raw in enumerate(raws):
        more = most - contexts[i].shape[1]
        if raw is not None and more > 0:  # features that the map got later were 0 before
            contexts[i] = np.pad(contexts[i], ((0, 0), (0, more)))
    chosen = np.array([decision.chosen[0] for decision in decisions])
    # Alone, but not certain: what else was offered is not in the table.
    if all(len(names) == 1 for names in arms) and any(
        (d.propensity or 0.0) < 1.0 for d in decisions
    ):
        if any(raws):
            arms, contexts, chosen = _all_arms_raw(arms, raws, arm_features)
        else:
            arms, contexts, chosen = _all_arms(arms, contexts, arm_features)
    return DecisionLog(
        arms,
        contexts,
        chosen,
        np.array([reward for _, reward, _ in kept]),
        _propensities(decisions),
        weights=np.array([weight for _, _, weight in kept]),
        people=people if any(people) else None,
        control=np.array([decision.control for decision in decisions]),
        ids=[decision.id for decision in decisions],
    )


def _all_arms(
    chosen: list[list[Any]],
    situations: list[Floats],
    arm_features: Mapping[Any, ArrayLike] | pd.DataFrame | None,
) -> tuple[list[Any], Floats, NDArray[np.int64]]:
    """Return the questions of a log in which all arms were offered every time."""
    if arm_features is None:
        names = sorted({name for (name,) in chosen}, key=lambda name: (type(name).__name__, name))
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
    places = {name: k for k, name in enumerate(names)}
    if lacking := [name for (name,) in chosen if name not in places]:
        raise DataError(f"arm {lacking[0]!r} of the log is not among arm_features")
    n, d = len(chosen), own.shape[1]
    contexts = np.empty((n, len(names), d + situations[0].shape[1]))
    contexts[:, :, :d] = own
    contexts[:, :, d:] = np.array(situations)
    return names, contexts, np.array([places[name] for (name,) in chosen])


def _all_arms_raw(
    chosen: list[list[Any]],
    raws: Sequence[RawContexts | None],
    arm_features: Mapping[Any, Any] | pd.DataFrame | None,
) -> tuple[list[Any], Floats, NDArray[np.int64]]:
    """Return the same of raw features: every arm has its own, the situation is that of the row."""
    features = next(raw.feature_map for raw in raws if raw is not None)
    if arm_features is None:
        if not isinstance(features, FeatureMap) or set(features.arm) - {ARM}:
            raise DataError(
                "the table has the features of the chosen arm only: say those of all arms, as arm_features"
            )
        names = sorted({name for (name,) in chosen}, key=lambda name: (type(name).__name__, name))
        rows: list[dict[str, Any]] = [{} for _ in names]
    else:
        given: Any = arm_features
        if is_table(given):
            names = [canonical(name) for name in given.index]
            rows = rows_of(given)
        else:
            names = [canonical(name) for name in given]
            rows = [row_of(f"arm_features of {name!r}", given[name]) for name in given]
    places = {name: k for k, name in enumerate(names)}
    if lacking := [name for (name,) in chosen if name not in places]:
        raise DataError(f"arm {lacking[0]!r} of the log is not among arm_features")
    contexts = np.empty((len(raws), len(names), features.n_features))
    for i, raw in enumerate(raws):
        contexts[i] = features.encode(rows, {} if raw is None else raw.situation, names)
    return names, contexts, np.array([places[name] for (name,) in chosen])


def _propensities(decisions: list[Any]) -> Any:
    """Return those of all arms, or only those of the chosen ones where the others are not known."""
    if all(abs(decision.propensities.sum() - 1.0) < 1e-4 for decision in decisions):
        return [decision.propensities for decision in decisions]
    return np.array([decision.propensity for decision in decisions])


def read_obd(folder: str | PathLike[str]) -> DecisionLog:
    """Read a campaign of the Open Bandit Dataset, such as `random/all`.

    An arm's features are the item's number feature, the affinity of the user to the item, and two
    marks for the position (center, right) of three. The reward is the click.

    References
    ----------
    Saito, Aihara, Matsutani & Narita, *Open Bandit Dataset and Pipeline*, 2020.
    """
    folder = Path(folder)
    logs = [path for path in sorted(folder.glob("*.csv")) if path.name != "item_context.csv"]
    items_file = folder / "item_context.csv"
    if len(logs) != 1 or not items_file.is_file():
        raise DataError(
            f"{folder} is not a campaign of the Open Bandit Dataset, expected item_context.csv and one "
            "log beside it"
        )
    items, rows = read_table(items_file, "item_id"), read_table(logs[0], "item_id")
    for path, table, needed in (
        (items_file, items, ["item_id", "item_feature_0"]),
        (logs[0], rows, ["item_id", "position", "click", "propensity_score"]),
    ):
        for column in needed:
            if column not in table.columns:
                raise DataError(f"{path} has no column {column!r}")
    try:
        names = [int(item) for item in items["item_id"]]
    except ValueError as error:
        raise DataError(f"{items_file}: item_id is not a whole number: {error}") from error
    affinity = [f"user-item_affinity_{item}" for item in names]
    if lacking := [column for column in affinity if column not in rows.columns]:
        raise DataError(f"{logs[0]} has no column {lacking[0]!r}")
    n, k = len(rows), len(names)
    contexts = np.zeros((n, k, 4))
    contexts[:, :, 0] = numbers(items_file, items, "item_feature_0")
    for place, column in enumerate(affinity):
        contexts[:, place, 1] = numbers(logs[0], rows, column)
    position = numbers(logs[0], rows, "position")
    for place, which in enumerate((2, 3)):
        contexts[:, :, 2 + place] = (position == which)[:, None]
    places = {item: i for i, item in enumerate(names)}
    try:
        chosen = np.array([places[int(item)] for item in rows["item_id"]])
    except (KeyError, ValueError) as error:
        raise DataError(
            f"{logs[0]} shows an item that {items_file} does not know: {error}"
        ) from error
    return DecisionLog(
        names,
        contexts,
        chosen,
        numbers(logs[0], rows, "click"),
        numbers(logs[0], rows, "propensity_score"),
    )
