"""Arms by the million: features that are registered once, and decisions over all of them."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rolin._support.arms import Name, canonical
from rolin._support.checks import as_excluded, as_floats, as_names, count_of
from rolin._support.compile import NOT_FINITE, TIE
from rolin.catalogue import kernels as passes
from rolin.catalogue.names import Names
from rolin.catalogue.posterior_cache import Following
from rolin.catalogue.reading import read_arms, read_fields
from rolin.catalogue.scoring import Joint, Marginal, Scoring
from rolin.catalogue.storage import Shelf
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
from rolin.policies.greedy import Greedy
from rolin.policies.keyed_random import Key, as_key
from rolin.policies.naive import NaiveRoLinTS
from rolin.policies.rolin_ts import RoLinTS
from rolin.policies.rolin_ucb import RoLinUCB

__all__ = ["Catalogue"]

Floats = NDArray[np.float64]


class Catalogue:
    """Arms whose features rarely change, for one policy to choose from.

    The features are registered once. A decision over all of them is one pass over the memory, O(K d) for
    every rule: what the policy has learned since the last one is applied on the way. It is the decision
    that `policy.decide` makes of the same contexts, up to rounding: those of the arms that can be chosen, the
    first ones in their order, then those that were added.

    Parameters
    ----------
    policy
        What chooses: a policy with a Gaussian posterior. It learns as ever, through `policy.update`.
    contexts
        A (K, d) array in single or double precision, which may be memory-mapped and is not copied. With a
        feature map, a table of the arms' fields (pandas, polars, Arrow) or a list of rows.
    arms
        The K names; by default 0 … K - 1.
    feature_map
        The feature map; by default the policy's, if `contexts` are fields.

    Notes
    -----
    With a map that has fields of the situation, only the arms' own features are kept. A decision contracts the
    coefficients with the situation, and multiplies the result with the catalogue: with joint sampling,
    and with `Greedy`.

    The array must not be changed as long as the catalogue is used. Beside it there are up to 64 bytes for every arm.

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
    ) -> None:
        rule = getattr(type(policy), "score", None)
        if (
            not isinstance(policy, LinearPolicy)
            or rule not in (LinearPolicy.score, RoLinTS.score)
            or isinstance(policy, NaiveRoLinTS)
        ):
            raise Unsupported(
                f"{type(policy).__name__} cannot choose from a catalogue, expected a policy that scores arms by their "
                "posterior, such as RoLinTS or RoLinUCB"
            )
        self.policy = policy
        """What chooses."""
        self.feature_map = _checked_map(policy, feature_map)
        """What makes vectors of the arms' fields, if it is known."""
        self._n_features = policy.n_features
        self._crossed = _crossed(self.feature_map) if _has_fields(contexts) else None
        joint = isinstance(policy, RoLinTS) and policy.sampling == "joint"
        if self._crossed is not None and not joint and not isinstance(policy, Greedy):
            raise Unsupported(
                f"{policy!r} cannot choose from a catalogue whose contexts depend on the situation: that takes "
                "joint sampling, RoLinTS(…, sampling='joint')"
            )
        x = self._vectors(contexts, arms)
        names = Names(range(len(x)) if arms is None else _listed(arms))
        if len(names) != len(x):
            raise ShapeError(f"arms has {len(names)} names, expected {len(x)}, one per context")
        if not len(x):
            raise ArmError("no arms were given, expected at least one")
        self._shelf = Shelf(x, names)
        means = not joint and self._crossed is None
        self._following = Following(
            policy.posterior, self._shelf, means=means, own=self._crossed is None
        )
        self._scoring: Scoring = (
            Marginal(policy, self._shelf, self._following)
            if means
            else Joint(policy, self._shelf, self._following, self._crossed)
        )
        self._lock = threading.Lock()
        self._check()

    def _check(self) -> None:
        """Refuse features that are not finite, a block at a time."""
        for start, _, block in self._shelf.blocks():
            if not np.isfinite(block).all():
                row, j = (int(i) for i in np.argwhere(~np.isfinite(block))[0])
                raise NotFiniteError(
                    f"arm {self._shelf.name(start + row)!r}: feature {j} is {block[row, j]}, expected finite "
                    "numbers"
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
            What chooses.
        source
            The files.
        arm
            Column of the arms' names.
        features
            Columns of the features, numbers or lists of numbers, in the order that the policy learned them in; by
            default all other such columns. If the policy has a feature map, its fields.
        dtype
            `"float32"` takes half the memory, and half the time of a decision.
        storage_options
            What the file system of a URL takes.
        """
        options = dict(storage_options or {})
        if features is None and isinstance(policy.feature_map, FeatureMap):
            names, table = read_fields(source, arm, policy.feature_map, options)
            return cls(policy, table, names)
        names, x = read_arms(source, arm, features, dtype, options)
        return cls(policy, x, names)

    # -- what is in it -----------------------------------------------------------------------

    def __len__(self) -> int:
        """Return the number of arms that can be chosen."""
        return self._shelf.n_offered

    def __contains__(self, arm: object) -> bool:
        """Return whether an arm can be chosen."""
        try:
            return bool(self._shelf.find([canonical(arm)])[0] >= 0)
        except ArmError:  # not even a name
            return False

    def __reduce__(self) -> Any:
        """Refuse to be copied: it belongs to its policy, and shares its array."""
        raise TypeError("a catalogue is not copied or pickled: make one for the other policy")

    @property
    def nbytes(self) -> int:
        """Bytes that it takes, the features included."""
        return self._shelf.nbytes + self._following.nbytes

    def contexts(self, arms: Iterable[Name], situation: Any = None) -> Floats:
        """Return the contexts of some arms.

        Parameters
        ----------
        arms
            Their names.
        situation
            The fields of the situation, if the map has any.
        """
        with self._lock:
            self._check_policy()
            return self._contexts(self._shelf.at(_names(arms)), situation)

    def _check_policy(self) -> None:
        """Refuse to go on if the policy has got other features since."""
        now, then = self.policy.feature_map, self.feature_map
        other = now is not None and then is not None and now.version != then.version
        if other or self.policy.n_features != self._n_features:
            raise ParameterError(
                f"the policy has {self.policy.n_features} features now, of another map than this catalogue: make the "
                "catalogue anew"
            )

    def _contexts(self, places: NDArray[np.int64], situation: Any) -> Floats:
        x = self._shelf.features(places)
        if self._crossed is None:
            if situation is not None:
                raise InputError(
                    "a situation was given, but the contexts of this catalogue have none"
                )
            return x
        return self._crossed.contexts_of(x, situation)

    def add(self, contexts: Any, arms: Iterable[Name]) -> None:
        """Add arms; those that there are stay as they are.

        Parameters
        ----------
        contexts
            As for the catalogue itself.
        arms
            Their names.
        """
        names = _names(arms)
        self._check_policy()
        x = as_floats("contexts", self._vectors(contexts, names))
        if len(x) != len(names):
            raise ShapeError(f"arms has {len(names)} names, expected {len(x)}, one per context")
        with np.errstate(over="ignore"):
            kept = x.astype(self._shelf.dtype)
        if not np.isfinite(kept).all():
            row, j = (int(i) for i in np.argwhere(~np.isfinite(kept))[0])
            raise NotFiniteError(
                f"arm {names[row]!r}: feature {j} is {x[row, j]}, expected finite numbers"
            )
        with self._lock:
            self._following.arms_added(names, self._shelf.add(kept, names))

    def remove(self, arms: Iterable[Name]) -> None:
        """Take arms out: they are not chosen any more. What they taught the policy stays.

        Parameters
        ----------
        arms
            Their names.
        """
        names = _names(arms)
        with self._lock:
            self._following.arms_removed(self._shelf.remove(names))

    def _vectors(self, contexts: Any, arms: Iterable[Name] | None) -> NDArray[Any]:
        """Return the features of arms as an array, without a copy where there is no need."""
        if _has_fields(contexts):
            if self.feature_map is None:
                raise InputError(
                    "contexts are fields of arms, expected an array: the policy has no feature map, and "
                    "none is given as feature_map=…"
                )
            names = None if arms is None else _listed(arms)
            if self._crossed is not None:
                return self._crossed.arm_vectors(contexts, names=names)
            return np.asarray(self.feature_map.transform(contexts, names=names))
        if self._crossed is not None:
            raise InputError("contexts are numbers, expected the fields of the arms, as at first")
        x = contexts
        plain = isinstance(x, np.ndarray) and not isinstance(x, np.ma.MaskedArray)
        if not (plain and x.dtype in (np.float32, np.float64)):
            x = as_floats("contexts", contexts)
        d = self.policy.n_features
        if x.ndim != 2 or x.shape[1] != d:
            raise ShapeError(f"contexts has shape {x.shape}, expected (K, {d}), as the policy has")
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
        """Choose an arm, of all or of some candidates. Nothing is learned.

        Parameters
        ----------
        arms
            Names of candidates; by default all arms.
        situation
            The fields of the situation, if the map has any.
        top_k
            How many arms to rank; by default only the best one.
        exclude
            Arms that must not be chosen now.
        key
            What to key the draws by; by default the number of this decision.
        """
        excluded = [canonical(name) for name in as_excluded(exclude)]
        if key is not None:
            key = as_key(key)
        with self._lock:
            if arms is None:
                return self._decide([situation], top_k, excluded, key)[0]
            self._check_policy()
            names = _names(arms)
            contexts = self._contexts(self._shelf.at(names), situation)
            return self.policy.decide(contexts, names, top_k=top_k, exclude=excluded, key=key)

    def decide_many(
        self,
        number: int | None = None,
        *,
        situations: Sequence[Any] | None = None,
        top_k: int | None = None,
        exclude: Iterable[Name] = (),
    ) -> list[Decision]:
        """Make several decisions over all arms, which share passes over the memory.

        They are those that `decide` would make one after the other.

        Parameters
        ----------
        number
            How many; with situations, as many as there are.
        situations
            The fields of each situation, if the map has any.
        top_k
            How many arms to rank in each; by default only the best one.
        exclude
            Arms that must not be chosen now.
        """
        if (number is None) == (situations is None):
            raise ParameterError("expected a number of decisions, or their situations")
        if situations is not None and not isinstance(situations, Sequence):
            raise ParameterError(f"situations={situations!r}, expected a list of them")
        asked = [None] * count_of("number", number) if situations is None else list(situations)
        excluded = [canonical(name) for name in as_excluded(exclude)]
        with self._lock:
            return self._decide(asked, top_k, excluded, None)

    def predict(self, arms: Iterable[Name], situation: Any = None) -> Prediction:
        """Return mean and standard deviation of some arms' mean reward, as `(mean, std)`.

        Parameters
        ----------
        arms
            Their names.
        situation
            The fields of the situation, if the map has any.
        """
        names = _names(arms)
        return self.policy.predict(self.contexts(names, situation), names)

    def probabilities(
        self, *, situation: Any = None, draws: int | None = None
    ) -> tuple[Floats, Floats]:
        """Return the probability with which each arm is chosen, and its standard error.

        They stand in the order of the arms, those that were added last. The probability of an arm is
        averaged over draws of all others, so that rare ones are not lost.

        Parameters
        ----------
        situation
            The fields of the situation, if the map has any.
        draws
            How many draws of all arms to average over; each takes as long as a decision. Rules that draw
            nothing need none.
        """
        with self._lock:
            self._check_policy()
            offered = self._shelf.offered[: self._shelf.n]
            left = self._left([])
            if isinstance(self.policy, (Greedy, RoLinUCB)):
                scores = next(iter(self._scoring.scores([situation], [0], left)))
                _leave_out(scores, left)
                best = tied_for_best(scores)
                return (best / best.sum())[offered], np.zeros(len(self))
            if not isinstance(self.policy, RoLinTS):
                raise Unsupported(f"{type(self.policy).__name__} does not know its probabilities")
            if draws is None:
                raise Unsupported(
                    f"the probabilities of {len(self)} arms are not computed, but estimated: say from how many "
                    "draws, such as draws=200"
                )
            draws = count_of("draws", draws, least=2)
            sums = np.zeros((2, self._shelf.n))
            for i in range(draws):
                mean, std, scores = self._scoring.given(situation, f"probabilities {i}", left)
                _leave_out(mean, left)
                _leave_out(scores, left)
                passes.chances(mean, std, scores, sums)
            p = sums[0] / draws
            variance = np.maximum(sums[1] / draws - p * p, 0.0) / (draws - 1)
            return p[offered], np.sqrt(variance)[offered]

    def _left(self, excluded: Sequence[Name]) -> NDArray[np.bool_] | None:
        """Return which arms can be chosen now, or `None` if that are all places."""
        n = self._shelf.n
        places = self._shelf.find([*excluded, *self.policy.removed_arms])
        places = places[places >= 0]
        if not len(places) and len(self) == n:
            return None
        left = self._shelf.offered[:n].copy()
        left[places] = False
        return left

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
        left = self._left(excluded)
        offered = len(self) if left is None else int(np.count_nonzero(left))
        if offered < 1:
            raise ArmError("all arms are excluded, expected at least one that is not")
        wanted = 1 if top_k is None else count_of("top_k", top_k, least=1)
        if wanted > offered:
            raise ParameterError(
                f"top_k={top_k}, expected at most {offered}, the number of arms to choose from"
            )
        decisions = []
        for scores, k, situation in zip(
            self._scoring.scores(situations, keys, left), keys, situations, strict=True
        ):
            _leave_out(scores, left)
            decisions.append(self._decision(scores, k, wanted, situation))
        if key is None:
            policy._decisions += len(decisions)
        return decisions

    def _decision(self, scores: Floats, key: Key, top_k: int, situation: Any) -> Decision:
        best = passes.best_offered(scores)
        if best == NOT_FINITE:
            raise NotFiniteError(
                "a score is not finite: features or what was learned are too large"
            )
        places = np.array([best] if best >= 0 and top_k == 1 else self._ranking(scores, key, top_k))
        contexts = self._contexts(places, situation)
        ranked = tuple(self._shelf.name(place) for place in places.tolist())
        return Decision(ranked[0], contexts[0], ranked, contexts, key)

    def _ranking(self, scores: Floats, key: Key, top_k: int) -> list[int]:
        """Return the places of the best arms, the best first; one pass, unless some are tied."""
        near = passes.highest(scores, min(top_k + 1, len(scores)))
        near = near[np.argsort(-scores[near])]
        ordered = scores[near]
        with np.errstate(invalid="ignore"):  # arms that are not offered may be among them
            if (ordered[:-1] - ordered[1:] <= TIE * np.abs(ordered[:-1])).any():
                return self.policy.rank(Scores(-1, scores[None]), key, top_k)
        places: list[int] = near[:top_k].tolist()
        return places


def _leave_out(scores: Floats, left: NDArray[np.bool_] | None) -> None:
    """Let arms that cannot be chosen now be the last."""
    if left is not None:
        scores[~left] = -np.inf


def _checked_map(policy: LinearPolicy, feature_map: BaseFeatureMap | None) -> BaseFeatureMap | None:
    """Return the feature map, which has to be the policy's."""
    own = policy.feature_map
    if feature_map is None:
        return own
    if not isinstance(feature_map, BaseFeatureMap):
        raise ParameterError(f"feature_map={feature_map!r}, expected a feature map")
    if own is not None and own.version != feature_map.version:
        raise ParameterError(
            f"the policy has learned with {own!r}, and the catalogue is to be made with {feature_map!r}"
        )
    if feature_map.n_features != policy.n_features:
        raise ParameterError(
            f"the feature map has {feature_map.n_features} features, and the policy n_features={policy.n_features}"
        )
    return feature_map


def _crossed(feature_map: BaseFeatureMap | None) -> FeatureMap | None:
    """Return the map, if contexts depend on the situation."""
    return feature_map if isinstance(feature_map, FeatureMap) and feature_map.situation else None


def _has_fields(contexts: Any) -> bool:
    """Return whether something are fields of arms, rather than numbers."""
    if is_table(contexts):
        return True
    return (
        isinstance(contexts, (list, tuple)) and bool(contexts) and isinstance(contexts[0], Mapping)
    )


def _names(arms: Iterable[Name]) -> list[Name]:
    """Return names as a list, in their plain form."""
    return [n if type(n) in (str, int) else canonical(n) for n in as_names(arms)]


def _listed(arms: Iterable[Name]) -> Any:
    """Return names as a list; a range or an array of integers stays."""
    if isinstance(arms, range) or (isinstance(arms, np.ndarray) and arms.dtype.kind in "iu"):
        return arms
    return _names(arms)
