"""Decisions over up to millions of arms whose features are registered once."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rolin._support.arms import Name, canonical, index_names
from rolin._support.checks import as_excluded, as_floats, as_names, count_of, flag_of
from rolin._support.compile import NOT_FINITE, TIE
from rolin._support.process import forget_locks_after_fork
from rolin.catalogue import kernels
from rolin.catalogue.names import Names
from rolin.catalogue.posterior_cache import PosteriorCache
from rolin.catalogue.reading import read_arms, read_fields
from rolin.catalogue.scoring import (
    FirstScoring,
    JointScoring,
    MarginalScoring,
    Scoring,
    reject_situation,
)
from rolin.catalogue.slope_scoring import SlopeScoring
from rolin.catalogue.storage import ArmStore, Slots
from rolin.errors import (
    ArmError,
    InputError,
    NotFiniteError,
    ParameterError,
    ShapeError,
    Unsupported,
)
from rolin.features import BaseFeatureMap, FeatureMap
from rolin.features.tables import is_table
from rolin.model.draws import Scores, tied_for_best
from rolin.model.summaries import Prediction
from rolin.policies import Decision, LinearPolicy
from rolin.policies.decision import Probabilities
from rolin.policies.keyed_random import Key, as_key
from rolin.policies.propensity import error_of_average

__all__ = ["Catalogue"]

Floats = NDArray[np.float64]
_MOST_DECISIONS = 10_000_000  # in one call, which would take a very long time


class _Turn:
    """A lock that is free in a forked child. What a thread has left half done there begins again."""

    def __init__(self) -> None:
        self.new_locks()
        forget_locks_after_fork(self)

    def new_locks(self) -> None:
        """Make a new lock."""
        self.lock = threading.Lock()


class Catalogue:
    """Arms whose features rarely change, for one policy to choose from.

    The features are registered once. A decision over all arms is one pass over them, O(K d) for every rule. It
    applies what the policy has learned since the last decision. Up to rounding, it is the decision that
    `policy.decide` makes for the contexts of all arms in the catalogue: the first ones in their order, then those
    that were added.

    Parameters
    ----------
    policy
        The policy that chooses: one with a Gaussian posterior. It still learns through `policy.update`.
    contexts
        A (K, d) array in single or double precision. It may be memory-mapped and is not copied. With a feature
        map: a table of the arms' fields (pandas, polars, Arrow) or a list of mappings.
    arms
        The K names; by default 0 … K - 1.
    feature_map
        The feature map; by default that of the policy.
    arm_vectors
        Whether `contexts` are the arms' own features as `FeatureMap.arm_vectors` returns them, in single or double
        precision. So they need not be encoded again for another catalogue of the same arms.

    Notes
    -----
    If the feature map uses fields of the situation, only the arms' own features are stored. A decision contracts the
    coefficients with the situation and multiplies the result with the stored features. This works with
    `RoLinTS(sampling="joint")` and with `Greedy`.

    If the policy has slopes per arm (`slope_std`), arms with rewards are scored one by one, after the pass over all arms.

    Do not change the array while the catalogue is in use. The catalogue itself takes up to 64 bytes per arm.

    Examples
    --------
    >>> import rolin
    >>> policy = rolin.RoLinTS(n_features=2, seed=7)
    >>> catalogue = Catalogue(policy, [[1.0, 0.2], [0.3, 0.9], [0.1, 0.1]], ["red", "blue", "grey"])
    >>> decision = catalogue.decide(top_k=2)
    >>> policy.update(decision.arm, decision.context, reward=1.0)
    >>> catalogue.remove(["grey"])
    >>> len(catalogue), "grey" in catalogue
    (2, False)
    """

    def __init__(
        self,
        policy: LinearPolicy,
        contexts: Any,
        arms: Iterable[Name] | None = None,
        *,
        feature_map: BaseFeatureMap | None = None,
        arm_vectors: bool = False,
    ) -> None:
        if not isinstance(policy, LinearPolicy) or policy.rule == "own":
            raise Unsupported(
                f"{type(policy).__name__} cannot choose from a catalogue, expected a policy that scores arms by their "
                "posterior, such as RoLinTS or RoLinUCB"
            )
        self.policy = policy
        """The policy that chooses."""
        self.feature_map = _checked_map(policy, feature_map)
        """The feature map that turns fields of arms into vectors, if there is one."""
        self._n_features = policy.n_features
        # The map that makes contexts from a situation and the stored features; None if these are the contexts.
        depends = arm_vectors or _has_fields(contexts)
        self._situated = _situated(self.feature_map) if depends else None
        self._arm_vectors = flag_of("arm_vectors", arm_vectors)
        if arm_vectors and self._situated is None:
            raise ParameterError(
                f"arm_vectors=True with feature_map={self.feature_map!r}, expected a FeatureMap with fields of the situation"
            )
        if self._situated is not None and policy.rule not in ("joint", "mean"):
            raise Unsupported(
                f"{policy!r} cannot choose from a catalogue whose contexts depend on the situation, expected joint "
                "sampling, RoLinTS(…, sampling='joint'), or Greedy"
            )
        arms = index_names(contexts) if arms is None else arms
        x = self._vectors(contexts, arms)
        names = Names(range(len(x)) if arms is None else _listed(arms))
        if len(names) != len(x):
            raise ShapeError(f"arms has {len(names)} names, expected {len(x)}, one per context")
        if not len(x):
            raise ArmError("no arms were given, expected at least one")
        self._store = ArmStore(x, names)
        marginal = policy.rule != "joint" and self._situated is None
        self._cache = PosteriorCache(
            policy.posterior,
            self._store,
            with_predictions=marginal,
            has_contexts=self._situated is None,
        )
        joint = SlopeScoring if self._cache.has_slopes else JointScoring
        self._scoring: Scoring = (
            MarginalScoring(policy, self._store, self._cache)
            if marginal
            else joint(policy, self._store, self._cache, self._situated)
        )
        self._first_scoring = FirstScoring(policy, self._store, self._cache)
        self._turn = _Turn()
        self._check_features()

    @property
    def _lock(self) -> threading.Lock:
        """Held by every call that reads or changes the arms or the cache."""
        return self._turn.lock

    def _check_features(self) -> None:
        """Reject features that are not finite, block by block."""
        for block in self._store.blocks():
            if not np.isfinite(block.features).all():
                row, j = (int(i) for i in np.argwhere(~np.isfinite(block.features))[0])
                raise NotFiniteError(
                    f"arm {self._store.name(block.start + row)!r}: feature {j} is {block.features[row, j]}, "
                    "expected finite numbers"
                )

    @classmethod
    def read(
        cls,
        policy: LinearPolicy,
        source: str | PathLike[str] | Sequence[str | PathLike[str]],
        *,
        arm: str = "arm",
        features: str | Sequence[str] | None = None,
        dtype: str = "float64",
        storage_options: Mapping[str, Any] | None = None,
    ) -> Self:
        """Read a catalogue from Parquet or Arrow files: a file, a folder or a URL.

        Parameters
        ----------
        policy
            The policy that chooses.
        source
            The path or URL of a file or folder, or a list of them.
        arm
            Column of the arms' names.
        features
            Columns of the features, with numbers or lists of numbers, in the order of the policy's features. By
            default the fields of the policy's feature map, or, if it has none, all other columns of numbers.
        dtype
            `"float64"`, or `"float32"`, which takes half the memory and about half the time per decision.
        storage_options
            Options for the file system of a URL, such as credentials.
        """
        options = dict(storage_options or {})
        if features is None and isinstance(policy.feature_map, FeatureMap):
            names, table = read_fields(source, arm, policy.feature_map, options)
            return cls(policy, table, names)
        names, x = read_arms(source, arm, features, dtype, options)
        return cls(policy, x, names)

    # -- content -----------------------------------------------------------------------------

    def __len__(self) -> int:
        """Return the number of arms in the catalogue."""
        return self._store.n_offered

    def __contains__(self, arm: object) -> bool:
        """Return whether an arm is in the catalogue."""
        try:
            return bool(self._store.find([canonical(arm)])[0] >= 0)
        except ArmError:  # not a valid name
            return False

    def __reduce__(self) -> Any:
        """Reject copying and pickling: a catalogue belongs to one policy and shares its array."""
        raise TypeError(
            "a Catalogue cannot be copied or pickled: make a new one for the copy of the policy"
        )

    @property
    def nbytes(self) -> int:
        """Memory in bytes, the features included."""
        return self._store.nbytes + self._cache.nbytes + self._scoring.nbytes

    def contexts(self, arms: Iterable[Name], situation: Any = None) -> Floats:
        """Return the (n, d) contexts of n arms of the catalogue.

        Parameters
        ----------
        arms
            Their names.
        situation
            The fields of the situation, if the feature map uses any.
        """
        with self._lock:
            self._check_policy()
            return self._contexts(self._store.slots_of(_names(arms)), situation)

    def _check_policy(self) -> None:
        """Reject a policy whose features have changed since the catalogue was made."""
        now, then = self.policy.feature_map, self.feature_map
        other = now is not None and then is not None and now.version != then.version
        if other or self.policy.n_features != self._n_features:
            raise ParameterError(
                f"the policy's features have changed: it has {self.policy.n_features} now, and this catalogue was "
                f"made for {self._n_features} of another feature map. Make a new catalogue"
            )

    def _contexts(self, slots: Slots, situation: Any) -> Floats:
        x = self._store.features(slots)
        if self._situated is None:
            reject_situation(situation)
            return x
        return self._situated.contexts_of(x, situation)

    def add(self, contexts: Any, arms: Iterable[Name]) -> None:
        """Add arms. The arms that are already in the catalogue do not change.

        Parameters
        ----------
        contexts
            In the same form as for the catalogue itself.
        arms
            Their names.
        """
        names = _names(arms)
        self._check_policy()
        x = as_floats("contexts", self._vectors(contexts, names))
        if len(x) != len(names):
            raise ShapeError(f"arms has {len(names)} names, expected {len(x)}, one per context")
        with np.errstate(over="ignore"):
            stored = x.astype(self._store.dtype)
        if not np.isfinite(stored).all():
            row, j = (int(i) for i in np.argwhere(~np.isfinite(stored))[0])
            raise NotFiniteError(
                f"arm {names[row]!r}: feature {j} is {x[row, j]}, expected finite numbers"
            )
        with self._lock, self._cache.changing():
            self._cache.arms_added(names, self._store.add(stored, names))

    def remove(self, arms: Iterable[Name]) -> None:
        """Remove arms, so that they are no longer chosen. What the policy has learned from them stays.

        Parameters
        ----------
        arms
            Their names.
        """
        names = _names(arms)
        with self._lock, self._cache.changing():
            self._cache.arms_removed(self._store.remove(names))

    def _vectors(self, contexts: Any, arms: Iterable[Name] | None) -> NDArray[Any]:
        """Return the features of arms as an array, without a copy if possible."""
        if isinstance(contexts, Mapping):
            raise ShapeError(
                f"contexts is a {type(contexts).__name__}, expected one row per arm: pass list(contexts.values()), and "
                "list(contexts) as arms"
            )
        if _has_fields(contexts):
            if self.feature_map is None:
                raise InputError(
                    "contexts are fields of arms, expected an array of numbers: the policy has no feature map, "
                    "and none was given as feature_map=…"
                )
            names = None if arms is None else _listed(arms)
            if self._situated is not None:
                return self._situated.arm_vectors(contexts, names=names)
            return np.asarray(self.feature_map.transform(contexts, names=names))
        d = self.policy.n_features
        if self._situated is not None:
            if not self._arm_vectors:
                raise InputError(
                    "contexts are numbers, expected fields of the arms, as when the catalogue was made"
                )
            d = self._situated.n_arm_features
        x = contexts
        plain = isinstance(x, np.ndarray) and not isinstance(x, np.ma.MaskedArray)
        if not (plain and x.dtype in (np.float32, np.float64)):
            x = as_floats("contexts", contexts)
        if x.ndim != 2 or x.shape[1] != d:
            raise ShapeError(f"contexts has shape {x.shape}, expected (K, {d})")
        return x if x.flags.c_contiguous else np.ascontiguousarray(x)

    # -- deciding ----------------------------------------------------------------------------

    def decide(
        self,
        arms: Iterable[Name] | None = None,
        *,
        situation: Any = None,
        top_k: int | None = None,
        exclude: Iterable[Name] = (),
        key: Key | None = None,
    ) -> Decision:
        """Choose an arm among all arms or among some candidates. Nothing is learned.

        Parameters
        ----------
        arms
            Names of the candidates; by default all arms.
        situation
            The fields of the situation, if the feature map uses any.
        top_k
            How many arms to rank; by default only the best one.
        exclude
            Arms that must not be chosen in this decision.
        key
            The key of the random numbers; by default the number of this decision.
        """
        excluded = [canonical(name) for name in as_excluded(exclude)]
        if key is not None:
            key = as_key(key)
        with self._lock:
            if arms is None:
                return self._decide([situation], top_k, excluded, key)[0]
            self._check_policy()
            names = _names(arms)
            contexts = self._contexts(self._store.slots_of(names), situation)
            return self.policy.decide(contexts, names, top_k=top_k, exclude=excluded, key=key)

    def decide_many(
        self,
        number: int | None = None,
        *,
        situations: Sequence[Any] | None = None,
        top_k: int | None = None,
        exclude: Iterable[Name] = (),
    ) -> list[Decision]:
        """Make several decisions over all arms. They share passes over the features.

        The decisions are those that `decide` would make one after the other.

        Parameters
        ----------
        number
            The number of decisions. Give either this or `situations`.
        situations
            The fields of the situation of each decision, if the feature map uses any.
        top_k
            How many arms to rank in each decision; by default only the best one.
        exclude
            Arms that must not be chosen in these decisions.
        """
        if (number is None) == (situations is None):
            raise ParameterError(
                "expected either number, the number of decisions, or situations, one per decision"
            )
        if situations is not None and not isinstance(situations, Sequence):
            raise ParameterError(f"situations={situations!r}, expected a list of situations")
        number = None if number is None else count_of("number", number, most=_MOST_DECISIONS)
        given = [None] * (number or 0) if situations is None else list(situations)
        excluded = [canonical(name) for name in as_excluded(exclude)]
        with self._lock:
            return self._decide(given, top_k, excluded, None)

    def predict(self, arms: Iterable[Name], situation: Any = None) -> Prediction:
        """Return mean and standard deviation of the mean reward of some arms, as `(mean, std)`.

        Parameters
        ----------
        arms
            Their names.
        situation
            The fields of the situation, if the feature map uses any.
        """
        names = _names(arms)
        return self.policy.predict(self.contexts(names, situation), names)

    def probabilities(self, *, situation: Any = None, draws: int | None = None) -> Floats:
        """Return the probability of each arm to be chosen.

        The probabilities are in the order of the arms; arms that were added come last. Policies that draw random
        numbers need `draws`: the probability of an arm is then averaged over draws of all other arms, which
        estimates small probabilities well. Before the first estimate of learned scales, all probabilities are exact.

        Parameters
        ----------
        situation
            The fields of the situation, if the feature map uses any.
        draws
            How many draws of all arms to average over. Each takes as long as a decision. Policies that draw nothing,
            such as `Greedy` and `RoLinUCB`, ignore it.
        """
        return self.probabilities_with_error(situation=situation, draws=draws).values

    def probabilities_with_error(
        self, *, situation: Any = None, draws: int | None = None
    ) -> Probabilities:
        """Return the probability of each arm to be chosen, and its standard error.

        Parameters
        ----------
        situation
            The fields of the situation, if the feature map uses any.
        draws
            How many draws of all arms to average over; see `probabilities`.
        """
        with self._lock:
            self._check_policy()
            rule = self.policy.rule
            offered = self._store.offered[: self._store.n]
            available = self._available([])
            if rule not in ("mean", "bound", "marginal", "joint"):
                raise Unsupported(
                    f"{type(self.policy).__name__} cannot compute the probabilities of its decisions"
                )
            n_draws = 0 if rule in ("mean", "bound") else self._checked_number(draws)
            if self.policy.chooses_by_counts:
                self._contexts(np.arange(1), situation)  # which checks the situation
                shares = self._first_scoring.shares(available)
                return Probabilities(shares[offered], np.zeros(len(self)))
            if n_draws == 0:
                scores = next(iter(self._scoring.scores([situation], [0], available)))
                _leave_out(scores, available)
                best = tied_for_best(scores)
                return Probabilities((best / best.sum())[offered], np.zeros(len(self)))
            sums = np.zeros((2, self._store.n))
            for i in range(n_draws):
                mean, std, scores = self._scoring.draw(situation, f"probabilities {i}", available)
                _leave_out(mean, available)
                _leave_out(scores, available)
                kernels.add_probabilities(mean, std, scores, sums)
            p = sums[0] / n_draws
            variance = np.maximum(sums[1] / n_draws - p * p, 0.0) * n_draws / (n_draws - 1)
            return Probabilities(p[offered], error_of_average(variance, n_draws)[offered])

    def _checked_number(self, draws: int | None) -> int:
        if draws is None:
            raise Unsupported(
                f"the probabilities of {len(self)} arms can only be estimated: give the number of draws, such as "
                "draws=200"
            )
        return count_of("draws", draws, least=2, most=_MOST_DECISIONS)

    def _scores(
        self, situations: Sequence[Any], keys: Sequence[Key], available: NDArray[np.bool_] | None
    ) -> Iterator[Floats]:
        """Return the scores of all slots for each decision, in turn."""
        if self.policy.chooses_by_counts:
            return self._first_scoring.scores(keys, available)
        return self._scoring.scores(situations, keys, available)

    def _available(self, excluded: Sequence[Name]) -> NDArray[np.bool_] | None:
        """Return which arms can be chosen now; `None` if nothing is left out."""
        n, left_out = self._store.n, [*excluded, *self.policy.removed_arms]
        if not left_out and len(self) == n:
            return None
        slots = self._store.find(left_out)
        available = self._store.offered[:n].copy()
        available[slots[slots >= 0]] = False
        return available

    def _decide(
        self,
        situations: Sequence[Any],
        top_k: int | None,
        excluded: Sequence[Name],
        key: Key | None,
    ) -> list[Decision]:
        self._check_policy()
        policy, first = self.policy, self.policy.n_decisions
        keys: list[Key] = [first + i for i in range(len(situations))] if key is None else [key]
        available = self._available(excluded)
        n_available = len(self) if available is None else int(np.count_nonzero(available))
        if n_available < 1:
            raise ArmError("all arms are excluded, expected at least one that is not")
        n_ranked = 1 if top_k is None else count_of("top_k", top_k, least=1)
        if n_ranked > n_available:
            raise ParameterError(
                f"top_k={top_k}, expected at most {n_available}, the number of arms to choose from"
            )
        decisions = []
        for scores, k, situation in zip(
            self._scores(situations, keys, available), keys, situations, strict=True
        ):
            _leave_out(scores, available)
            decisions.append(self._decision(scores, k, n_ranked, situation))
        if key is None:
            policy.count_decisions(len(decisions))
        return decisions

    def _decision(self, scores: Floats, key: Key, top_k: int, situation: Any) -> Decision:
        best = kernels.best_offered(scores)
        if best == NOT_FINITE:
            raise NotFiniteError(
                "a score is not finite: the features or the learned coefficients are too large"
            )
        slots = np.array([best] if best >= 0 and top_k == 1 else self._ranking(scores, key, top_k))
        contexts = self._contexts(slots, situation)
        ranked = tuple(self._store.name(slot) for slot in slots.tolist())
        return Decision(ranked[0], contexts[0], ranked, contexts, key)

    def _ranking(self, scores: Floats, key: Key, top_k: int) -> list[int]:
        """Return the slots of the best arms, best first, in one pass unless some are tied."""
        near = kernels.highest(scores, min(top_k + 1, len(scores)))
        near = near[np.argsort(-scores[near])]
        ordered = scores[near]
        with np.errstate(invalid="ignore"):  # arms with -∞ may be among them
            if (ordered[:-1] - ordered[1:] <= TIE * np.abs(ordered[:-1])).any():
                return self.policy.rank(Scores(-1, scores[None]), key, top_k)
        slots: list[int] = near[:top_k].tolist()
        return slots


def _leave_out(scores: Floats, available: NDArray[np.bool_] | None) -> None:
    """Set the scores of arms that cannot be chosen now to -∞."""
    if available is not None:
        scores[~available] = -np.inf


def _checked_map(policy: LinearPolicy, feature_map: BaseFeatureMap | None) -> BaseFeatureMap | None:
    """Return the feature map of the catalogue; reject one that differs from the policy's."""
    own = policy.feature_map
    if feature_map is None:
        return own
    if not isinstance(feature_map, BaseFeatureMap):
        raise ParameterError(f"feature_map={feature_map!r}, expected a feature map")
    if own is not None and own.version != feature_map.version:
        raise ParameterError(f"feature_map={feature_map!r}, expected that of the policy: {own!r}")
    if feature_map.n_features != policy.n_features:
        raise ParameterError(
            f"feature_map has {feature_map.n_features} features, expected {policy.n_features}, as the policy has"
        )
    return feature_map


def _situated(feature_map: BaseFeatureMap | None) -> FeatureMap | None:
    """Return the map if its contexts depend on the situation."""
    return feature_map if isinstance(feature_map, FeatureMap) and feature_map.situation else None


def _has_fields(contexts: Any) -> bool:
    """Return whether contexts are given as fields of arms, not as numbers."""
    if is_table(contexts):
        return True
    return (
        isinstance(contexts, (list, tuple)) and bool(contexts) and isinstance(contexts[0], Mapping)
    )


def _names(arms: Iterable[Name]) -> list[Name]:
    """Return names as a list, each in its plain form."""
    return [n if type(n) in (str, int) else canonical(n) for n in as_names(arms)]


def _listed(arms: Iterable[Name]) -> Any:
    """Return names as a list; a range or an array of integers is returned unchanged."""
    if isinstance(arms, range) or (isinstance(arms, np.ndarray) and arms.dtype.kind in "iu"):
        return arms
    return _names(arms)
