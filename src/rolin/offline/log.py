"""A log of decisions in memory, checked and ready to be evaluated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rolin._support.arms import Name, canonical
from rolin._support.checks import as_floats
from rolin.errors import DataError, ParameterError, RolinError, ShapeError
from rolin.logs.frames import RewardLog
from rolin.logs.rules import is_distribution

__all__ = ["DecisionLog", "check_log"]

Floats = NDArray[np.float64]
# Beyond these, sums of squares overflow.
_LARGEST, _SMALLEST = 1e100, 1e-100


class DecisionLog:
    """A log of n decisions: arms offered, arm chosen, propensities and reward of each.

    Parameters
    ----------
    arms
        For each decision, a list of the K arms that were offered; or one such list for all.
    contexts
        For each decision, their (K, d) contexts; or one (n, K, d) array.
    chosen
        (n,): index of the chosen arm among those offered.
    rewards
        (n,): its rewards.
    propensities
        (n,): the probability with which the arm was chosen; or for each decision those of all K arms, as a list
        or an (n, K) array.
    weights
        (n,): weights of the rewards; by default all are 1.
    people
        (n,): the person whom each decision was for, or `None`. Decisions for one person are not independent.
    control
        (n,): whether each decision belongs to the control group; by default none does.
    baseline
        (n,): whether the baseline was shown each time, so that nothing was drawn; by default never.
    outside_share
        (n,): whether the baseline was shown because the person was outside the share of the policy; by default never.
    ids
        (n,): names of the decisions in messages; by default their numbers, from 1.

    Examples
    --------
    >>> log = DecisionLog(["a", "b"], np.zeros((3, 2, 0)), [0, 1, 1], [1.0, 0.0, 1.0], [0.5, 0.5, 0.5])
    >>> len(log), log.n_features, round(float(log.rewards.mean()), 3)
    (3, 0, 0.667)
    """

    def __init__(
        self,
        arms: Sequence[Any],
        contexts: Sequence[Any] | Floats,
        chosen: ArrayLike,
        rewards: ArrayLike,
        propensities: Sequence[Any] | Floats,
        *,
        weights: ArrayLike | None = None,
        people: Sequence[str | None] | None = None,
        control: ArrayLike | None = None,
        baseline: ArrayLike | None = None,
        outside_share: ArrayLike | None = None,
        ids: Sequence[str] | None = None,
    ) -> None:
        flags = {"control": control, "baseline": baseline, "outside_share": outside_share}
        try:
            self._fill(arms, contexts, chosen, rewards, propensities, weights, people, flags, ids)
        except RolinError:
            raise
        except (TypeError, ValueError, AttributeError, OverflowError) as error:
            raise ShapeError(f"DecisionLog got invalid arguments: {error}") from error

    def _fill(
        self,
        arms: Sequence[Any],
        contexts: Sequence[Any] | Floats,
        chosen: ArrayLike,
        rewards: ArrayLike,
        propensities: Sequence[Any] | Floats,
        weights: ArrayLike | None,
        people: Sequence[str | None] | None,
        flags: dict[str, Any],
        ids: Sequence[str] | None,
    ) -> None:
        n = len(as_floats("rewards", rewards))
        self.ids: list[str] = [str(i + 1) for i in range(n)] if ids is None else list(ids)
        self.people = None if people is None else list(people)
        for name, given in (("ids", self.ids), ("people", self.people), *flags.items()):
            if given is not None and len(given) != n:
                raise ShapeError(f"{name} has {len(given)} items, expected {n}")
        masks = {name: _mask(name, given, n) for name, given in flags.items()}
        self.control = masks["control"]
        """(n,)"""
        self.outside_share = masks["outside_share"]
        """(n,)"""
        self.baseline = masks["baseline"] | self.outside_share
        """(n,)"""
        self.rewards = self._numbers("rewards", rewards)
        """(n,)"""
        self.weights = self._numbers("weights", np.ones(n) if weights is None else weights)
        """(n,)"""
        self._reject(~(self.weights > 0.0), "its weight", self.weights, "a positive number")
        self.arms = self._arms(arms)
        """For each decision, the K arms that were offered."""
        self.contexts = self._contexts(contexts)
        """For each decision, the (K, d) contexts of the arms."""
        self.chosen = self._chosen(chosen)
        """(n,)"""
        self.propensities = self._propensities(propensities)
        """For each decision, the propensities of all K arms; `None` if they are not known."""
        self.propensity = self._numbers(
            "propensities",
            propensities
            if self.propensities is None
            else [p[k] for p, k in zip(self.propensities, self.chosen, strict=True)],
        )
        """(n,): the propensity of the chosen arm."""
        wrong = ~((self.propensity >= _SMALLEST) & (self.propensity <= 1.0))
        self._reject(wrong, "its propensity", self.propensity, "above 0 and at most 1")

    def _reject(self, wrong: NDArray[np.bool_], what: str, given: Floats, expected: str) -> None:
        for i in np.flatnonzero(wrong)[:1]:
            raise DataError(f"decision {self.ids[i]}: {what} is {given[i]}, expected {expected}")

    def _numbers(self, name: str, values: ArrayLike) -> Floats:
        array = as_floats(name, values)
        if array.shape != (len(self.ids),):
            raise ShapeError(f"{name} has shape {array.shape}, expected ({len(self.ids)},)")
        wrong = ~(np.abs(array) <= _LARGEST)
        self._reject(wrong, name, array, "a finite number, not too large to compute with")
        return array

    def _arms(self, given: Sequence[Any]) -> list[list[Name]]:
        n = len(self.ids)
        lists = [isinstance(names, (list, range, np.ndarray)) for names in given]
        if not all(lists) or not lists:
            given = [list(given)] * n
        if len(given) != n:
            raise ShapeError(
                f"arms has {len(given)} lists of names, expected {n}, one per decision"
            )
        found: list[list[Name]] = []
        last: tuple[Any, list[Name]] = (None, [])
        for i, names in enumerate(given):
            if names is not last[0]:  # a list that decisions share is checked once
                last = (names, [canonical(name) for name in names])
                if len(set(last[1])) != len(last[1]) or not last[1]:
                    raise DataError(
                        f"decision {self.ids[i]}: arms are {last[1]!r}, expected each once"
                    )
            found.append(last[1])
        return found

    def _contexts(self, given: Sequence[Any] | Floats) -> list[Floats]:
        if len(given) != len(self.ids):
            raise ShapeError(f"contexts has {len(given)} items, expected {len(self.ids)}")
        found: list[Floats] = []
        last: tuple[Any, Floats] = (None, np.empty((0, 0)))
        for i, table in enumerate(given):
            if table is not last[0]:  # an array that decisions share is checked once
                last = (table, self._named(i, as_floats, "contexts", table))
                if last[1].size and not np.abs(last[1]).max() <= _LARGEST:
                    raise DataError(
                        f"decision {self.ids[i]}: its contexts are not finite numbers, or too large"
                    )
            x, k = last[1], len(self.arms[i])
            if x.ndim != 2 or len(x) != k or (found and x.shape[1] != found[0].shape[1]):
                width = found[0].shape[1] if found else "d"
                raise ShapeError(
                    f"decision {self.ids[i]}: contexts has shape {x.shape}, expected ({k}, {width})"
                )
            found.append(x)
        return found

    def _named(self, i: int, check: Any, *arguments: Any) -> Any:
        try:
            return check(*arguments)
        except RolinError as error:
            raise type(error)(f"decision {self.ids[i]}: {error}") from error

    def _chosen(self, given: ArrayLike) -> NDArray[np.int64]:
        chosen, n = np.asarray(given), len(self.ids)
        if chosen.shape != (n,) or (n and chosen.dtype.kind not in "iu"):
            raise ShapeError(f"chosen has shape {chosen.shape}, expected ({n},) whole numbers")
        sizes = np.array([len(names) for names in self.arms], dtype=np.int64)
        for i in np.flatnonzero((chosen < 0) | (chosen >= sizes))[:1]:
            raise DataError(
                f"decision {self.ids[i]}: chosen is {chosen[i]}, expected an index of {sizes[i]} arms"
            )
        return chosen.astype(np.int64)

    def _propensities(self, given: Sequence[Any] | Floats) -> list[Floats] | None:
        if not len(given) or np.ndim(given[0]) != 1:
            return None
        if len(given) != len(self.ids):
            raise ShapeError(f"propensities has {len(given)} rows, expected {len(self.ids)}")
        found = []
        for i, (row, names) in enumerate(zip(given, self.arms, strict=True)):
            p: Floats = self._named(i, as_floats, "propensities", row)
            if not is_distribution(p, len(names)):
                raise DataError(
                    f"decision {self.ids[i]}: propensities are not {len(names)} numbers from 0 to 1 that "
                    "sum to 1"
                )
            found.append(p)
        return found

    def __len__(self) -> int:
        """Return the number n of decisions."""
        return len(self.rewards)

    def __repr__(self) -> str:
        """Return the size of the log."""
        return f"DecisionLog({len(self)} decisions, {self.n_features} features)"

    @property
    def n_features(self) -> int:
        """Number d of features."""
        return int(self.contexts[0].shape[1]) if self.contexts else 0

    @property
    def drawn(self) -> NDArray[np.bool_]:
        """(n,): which decisions say something about arms that were not shown.

        All but those of the baseline, whose other arms had no chance; or if the log has no others, all of them.
        """
        drawn: NDArray[np.bool_] = ~self.baseline
        return drawn if drawn.any() else np.ones(len(self), dtype=bool)

    def take(self, rows: NDArray[Any]) -> DecisionLog:
        """Return a log with some of the decisions.

        Parameters
        ----------
        rows
            Indices of the decisions, or a mask.
        """
        try:
            taken: list[int] = np.arange(len(self))[rows].tolist()
        except IndexError as error:
            raise ShapeError(f"the log has no such decisions: {error}") from error
        whole = self.propensities
        return DecisionLog(
            [self.arms[i] for i in taken],
            [self.contexts[i] for i in taken],
            self.chosen[taken],
            self.rewards[taken],
            self.propensity[taken] if whole is None else [whole[i] for i in taken],
            weights=self.weights[taken],
            people=None if self.people is None else [self.people[i] for i in taken],
            control=self.control[taken],
            baseline=self.baseline[taken],
            outside_share=self.outside_share[taken],
            ids=[self.ids[i] for i in taken],
        )


def _mask(name: str, given: ArrayLike | None, n: int) -> NDArray[np.bool_]:
    """Return n times True or False; by default False."""
    if given is None:
        return np.zeros(n, dtype=bool)
    mask = np.asarray(given)
    if mask.dtype != bool:
        raise ShapeError(f"{name} is of type {mask.dtype}, expected True and False")
    return mask


def check_log(log: object) -> None:
    """Raise a short error for anything but a `DecisionLog`: a log may be far too long to be shown."""
    if isinstance(log, DecisionLog):
        return
    kind, hint = type(log).__name__, "rolin.offline.read(…) returns one"
    if isinstance(log, RewardLog):
        hint = (
            "a RewardLog does not hold propensities and the arms that were not chosen. If its file has them, read it "
            "with rolin.offline.read(…)"
        )
    raise ParameterError(f"log is of type {kind}, expected a DecisionLog: {hint}")
