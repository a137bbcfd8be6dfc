"""What all policies share: the calls, their checks, and their state.

A policy has a model, which learns from rewards, and a rule, which turns what was learned into a choice. The rule is one
method, `score`: it returns a number for each arm, and takes random numbers from a generator keyed by the decision. A new
policy is one new file with one short class.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from inspect import isabstract
from os import PathLike
from typing import Any, Generic, Self, SupportsFloat, TypeVar

import numpy as np
from numpy import ndarray  # found faster than np.ndarray, on the hot path
from numpy.typing import ArrayLike, NDArray

from rolin._support.arms import Name
from rolin._support.checks import count_of
from rolin.errors import ParameterError, RolinError, StateFileError, UnknownOption, Unsupported
from rolin.features import BaseFeatureMap, FeatureMap, from_json
from rolin.model import state_file
from rolin.model.draws import Scores, ranking, tied_for_best
from rolin.model.learner import Learner
from rolin.model.moments import Moments
from rolin.policies.candidates import Candidates, ask, ask_many, check_top_k
from rolin.policies.decision import Decision, Probabilities
from rolin.policies.keyed_random import Key, KeyedGenerator, as_key, fresh_seed
from rolin.policies.options import options_of, takes_positions
from rolin.policies.stored import Arrays
from rolin.policies.warm_start import FitLike, UnsetScales, evidence_of, options_for

__all__ = ["Policy", "first_with"]

Model = TypeVar("Model", bound=Learner)
Floats = NDArray[np.float64]

# The stream of a decision's key that breaks ties. The rule draws from stream 0.
_TIES = 1


class Policy(ABC, Generic[Model]):
    """Base of all policies: it decides, learns, and saves its state.

    Parameters
    ----------
    model
        The model, which learns from rewards.
    seed
        A non-negative integer; by default one from the operating system.

    Notes
    -----
    Several threads may call `decide` with a `key` at the same time. All other calls that change a policy need a lock,
    including `decide` without a key.
    """

    def __new__(cls, *by_position: object, **options: object) -> Self:
        """Reject unknown options, and options that are not passed by name."""
        known = options_of(cls)
        if by_position and not takes_positions(cls):
            shown, first = ", ".join(map(repr, by_position)), (known or ["n_features"])[0]
            raise UnknownOption(
                f"{cls.__name__}({shown}) passes options by position, expected options by name: "
                f"{cls.__name__}({first}={by_position[0]!r}, …)"
            )
        cls._check_options(options)
        return super().__new__(cls)

    @classmethod
    def _check_options(cls, options: Mapping[str, Any]) -> None:
        """Reject options that the policy does not have, before anything is done with them."""
        known = options_of(cls)
        for name in options:
            if known is not None and name not in known:
                close = [option for option in known if option.startswith(name[:4])]
                # noise_std is not coef_std misspelled: their similarity is 0.71.
                close = close or get_close_matches(name, known, n=1, cutoff=0.72)
                bases = [base for base in cls.__mro__ if issubclass(base, Policy)]
                has_it = [
                    base.__name__
                    for base in bases
                    if not isabstract(base) and name in (options_of(base) or ())
                ]
                hint = f", unlike {has_it[0]}." if has_it else "."
                hint = f"; did you mean {close[0]}?" if close else hint
                raise UnknownOption(
                    f"{cls.__name__} has no option {name!r}{hint} Its options: {', '.join(known)}"
                )

    def __init__(self, model: Model, seed: int | None) -> None:
        self._random = KeyedGenerator(fresh_seed() if seed is None else seed)
        self._model = model
        self._decisions = 0

    @abstractmethod
    def score(self, candidates: Candidates, key: Key) -> Scores:
        """Return a score for each candidate; the highest is chosen. This is the rule of the policy.

        Random numbers come from `generator(key)`.
        """

    _takes_sparse = False
    """Whether `score` is faster for contexts that are mostly zeros."""

    def score_many(self, questions: Sequence[Candidates], keys: Sequence[Key]) -> list[Scores]:
        """Score the arms of several questions. Override it if the rule can do so in one pass."""
        return self._score_each(questions, keys)

    def _score_each(self, questions: Sequence[Candidates], keys: Sequence[Key]) -> list[Scores]:
        """Score the arms of several questions, one after the other."""
        scores = []
        for i, (question, key) in enumerate(zip(questions, keys, strict=True)):
            try:
                scores.append(self.score(question, key))
            except RolinError as error:
                raise type(error)(f"question {i}: {error}") from error
        return scores

    def candidates(
        self,
        contexts: Mapping[Any, ArrayLike] | ArrayLike,
        arms: Iterable[Name] | None = None,
        exclude: Iterable[Name] = (),
    ) -> Candidates:
        """Check the arms of a question and find their rows in the model.

        Parameters
        ----------
        contexts
            A mapping from arm to its vector of d features, a (K, d) array, a data frame with K rows, or one vector for
            all arms.
        arms
            The K names, with an array or a data frame; see `decide`.
        exclude
            Arms that must not be chosen.
        """
        return ask(self._model, contexts, arms, exclude)

    def warn_of_shared_context(self, context: Floats, n_arms: int) -> None:
        """Warn once, unless arms have coefficients of their own, that one context for all arms changes no choice."""
        self._model.warn_of_shared_context(context, n_arms)

    def generator(self, key: Key) -> np.random.Generator:
        """Return the random generator of a decision, at the start of its stream.

        Parameters
        ----------
        key
            Key of the decision, as for `decide`.
        """
        return self._random.at(key)

    def normals(self, key: Key, n: int) -> Floats:
        """Return the first n standard normal numbers of a decision.

        They are those of `generator(key).standard_normal(n)`, computed faster.

        Parameters
        ----------
        key
            The key of the decision.
        n
            How many numbers to return.
        """
        return self._random.normals(key, n)

    def count_decisions(self, n: int) -> None:
        """Count decisions that were made outside of `decide`, such as by a `Catalogue`.

        They had the keys `n_decisions`, `n_decisions + 1`, …; the next call to `decide` takes the key after them.

        Parameters
        ----------
        n
            The number of decisions.
        """
        self._decisions += count_of("n", n)

    # -- deciding ----------------------------------------------------------------------------

    def decide(
        self,
        contexts: Mapping[Any, ArrayLike] | ArrayLike,
        arms: Iterable[Name] | None = None,
        *,
        top_k: int | None = None,
        exclude: Iterable[Name] = (),
        key: Key | None = None,
    ) -> Decision:
        """Choose an arm. Nothing is learned, and new names take no memory.

        Only the number of decisions changes, because it is the key of the next decision. With a `key`, nothing changes.

        Parameters
        ----------
        contexts
            A mapping from arm to its vector of d features, a (K, d) array, or a data frame with K rows and d columns;
            or with `arms`, one vector for all arms. A SciPy sparse matrix also works; it is faster
            with joint sampling and without slopes.
        arms
            The K names, with an array, a vector or a data frame. By default the index of a pandas data frame, unless the index
            only numbers the rows; otherwise 0 … K - 1.
        top_k
            The number of arms to rank; by default only the best one.
        exclude
            Arms that must not be chosen in this decision.
        key
            The key of the random numbers; by default the number of this decision. The same key, state and candidates
            give the same decision.
        """
        if type(contexts) is ndarray and type(exclude) is tuple and not exclude:
            # What `ask` would do; the most frequent case saves a call.
            candidates = self._model.candidates(contexts, arms)
        else:
            candidates = ask(self._model, contexts, arms, exclude, sparse=self._takes_sparse)
        if top_k is not None:
            check_top_k(top_k, candidates)
        if key is not None:
            key = as_key(key)
            return self._decision(candidates, self.score(candidates, key), key, top_k)
        key = self._decisions
        decision = self._decision(candidates, self.score(candidates, key), key, top_k)
        self._decisions = key + 1
        return decision

    def decide_many(
        self,
        contexts: Iterable[Mapping[Any, ArrayLike] | ArrayLike] | NDArray[np.float64],
        arms: Iterable[Name] | Sequence[Iterable[Name]] | None = None,
        *,
        top_k: int | None = None,
        exclude: Iterable[Name] = (),
    ) -> list[Decision]:
        """Make one decision per set of candidates: the same as calls of `decide` in a row, but faster.

        Parameters
        ----------
        contexts
            A (B, K, d) array, or a list whose items are what `decide` takes.
        arms
            The K names, the same for all decisions; or a list with one list of names per decision
            (a tuple is a name). By default as for `decide`.
        top_k
            As for `decide`, the same for all decisions.
        exclude
            As for `decide`, the same for all decisions.
        """
        questions = ask_many(self._model, contexts, arms, exclude)
        if top_k is not None:
            count_of("top_k", top_k, least=1)
            for question in questions:
                check_top_k(top_k, question)
        keys = range(self._decisions, self._decisions + len(questions))
        decisions = [
            self._decision(question, scores, key, top_k)
            for question, scores, key in zip(
                questions, self.score_many(questions, keys), keys, strict=True
            )
        ]
        self._decisions += len(decisions)
        return decisions

    def probabilities(
        self, contexts: Mapping[Any, ArrayLike] | ArrayLike, arms: Iterable[Name] | None = None
    ) -> Floats:
        """Return the probability with which `decide` chooses each arm first.

        For Thompson sampling, it is integrated numerically, to 1e-9 or better, and to 1e-8 if scales are integrated out
        too. For joint sampling, it is an average over 512 draws of the coefficients and has a Monte Carlo error. Before the
        first estimate of learned scales, it is exact for all of them.

        Parameters
        ----------
        contexts
            The arms and their contexts, as for `decide`.
        arms
            The K names, as for `decide`.
        """
        return self.probabilities_with_error(contexts, arms).values

    def probabilities_with_error(
        self, contexts: Mapping[Any, ArrayLike] | ArrayLike, arms: Iterable[Name] | None = None
    ) -> Probabilities:
        """Return the probability of each arm and its standard error, as `(values, std_error)`.

        The standard error is zero except for joint sampling.

        Parameters
        ----------
        contexts
            The arms and their contexts, as for `decide`.
        arms
            The K names, as for `decide`.
        """
        return self.first_probabilities(self.candidates(contexts, arms))

    def first_probabilities(self, candidates: Candidates) -> Probabilities:
        """Return the probability that each candidate is chosen first, if the policy can compute it."""
        raise Unsupported(f"{type(self).__name__} does not know its probabilities")

    def score_with_probabilities(
        self, candidates: Candidates, key: Key
    ) -> tuple[Scores, Probabilities]:
        """Return what `score` and `first_probabilities` do; override it if one prediction is enough for both.

        If the probabilities have a standard error, the arm must be drawn from them: then they are exact.
        """
        probabilities = self.first_probabilities(candidates)
        return self.score(candidates, key), probabilities

    def __init_subclass__(cls, **options: Any) -> None:
        """Ask for scores and probabilities one by one if the class overrides either of them."""
        super().__init_subclass__(**options)
        both = first_with("score_with_probabilities", cls)
        if any(first_with(name, cls) < both for name in ("draws", "score", "first_probabilities")):
            cls.score_with_probabilities = Policy.score_with_probabilities  # type: ignore[method-assign]

    def _certain(self, candidates: Candidates) -> Probabilities:
        """Return the probabilities of a rule that draws nothing from the posterior; only ties are broken at random."""
        return self._certain_with_scores(candidates, 0)[1]

    def _certain_with_scores(
        self, candidates: Candidates, key: Key
    ) -> tuple[Scores, Probabilities]:
        """Return the scores of a rule that draws nothing, and its probabilities."""
        scores = self.score(candidates, key)
        best = tied_for_best(scores.values)
        return scores, Probabilities(best / best.sum(), np.zeros(len(best)))

    def _decision(
        self, candidates: Candidates, scores: Scores, key: Key, top_k: int | None
    ) -> Decision:
        contexts, names, best = candidates.contexts, candidates.names, scores.best
        if best >= 0 and (top_k is None or top_k == 1):
            arm, chosen = names[best], contexts[best].copy()
            # what Decision(…) does, in half the time
            return tuple.__new__(Decision, (arm, chosen, (arm,), chosen[None], key))
        order = self.rank(scores, key, top_k or 1)
        many = contexts[order]
        ranked = tuple(names[i] for i in order)
        return Decision(ranked[0], many[0], ranked, many, key)

    def rank(self, scores: Scores, key: Key, top_k: int) -> list[int]:
        """Return the indices of the `top_k` best arms, the best one first; ties are broken at random."""
        best, table = scores
        if best >= 0 and top_k == 1:
            return [best]
        ranked: list[int] = ranking(table[-1], top_k, self._random.at(key, _TIES)).tolist()
        return ranked

    # -- learning ----------------------------------------------------------------------------

    def update(
        self, arm: Name, context: ArrayLike, reward: SupportsFloat, weight: SupportsFloat = 1.0
    ) -> None:
        """Learn from the reward of one arm.

        Parameters
        ----------
        arm
            The name of the arm; a new name adds an arm. A string or an integer. Other hashables work in memory, but
            `save` rejects them.
        context
            The (d,) context in which it was chosen.
        reward
            The reward; higher is better.
        weight
            The weight of the reward: it counts as the mean of that many rewards.
        """
        self._model.observe(arm, context, reward, weight)

    def update_many(
        self,
        arms: Iterable[Name],
        contexts: ArrayLike,
        rewards: ArrayLike,
        weights: ArrayLike | None = None,
    ) -> None:
        """Learn from n rewards, as by `update` one after the other. If one is invalid, none is learned.

        Parameters
        ----------
        arms
            The n names of the arms.
        contexts
            (n, d): the contexts in which they were chosen.
        rewards
            (n,): their rewards.
        weights
            (n,): the weights of the rewards; by default 1.
        """
        self._model.observe_many(arms, contexts, rewards, weights)

    def remove_arm(self, arm: Name) -> None:
        """Remove an arm: offering it raises `ArmError` until it is restored.

        The coefficients keep what they learned from it, and late rewards for it still count.

        Parameters
        ----------
        arm
            The name of the arm.
        """
        self._model.remove_arm(arm)

    def restore_arm(self, arm: Name, *, with_past: bool = True) -> None:
        """Restore a removed arm, with its past or as a new arm of the same name.

        Parameters
        ----------
        arm
            The name of the arm.
        with_past
            Whether the arm continues with what was learned about it.
        """
        self._model.restore_arm(arm, with_past=with_past)

    # -- reading -----------------------------------------------------------------------------

    @property
    def arms(self) -> list[Name]:
        """Arms that have been observed and not removed."""
        return self._model.arms

    @property
    def removed_arms(self) -> list[Name]:
        """Arms that were removed and have not come back."""
        return self._model.removed_arms

    @property
    def names_with_past(self) -> list[Name]:
        """Every arm that was ever observed, including removed arms and past lives of restored arms."""
        return self._model.names

    @property
    def n_features(self) -> int:
        """Number d of features."""
        return self._model.n_features

    feature_map: BaseFeatureMap | None = None
    """The map from raw features to vectors, if there is one; it is saved with the policy."""

    def change_feature_map(self, feature_map: BaseFeatureMap) -> None:
        """Set the feature map, or extend it by more fields.

        The coefficients of new features start from their prior. What was learned about the others does not change at
        all. In all earlier observations, the new features count as 0.

        Parameters
        ----------
        feature_map
            A map with as many features as the policy has, or one that extends the policy's map.
        """
        if not isinstance(feature_map, BaseFeatureMap):
            raise ParameterError(f"feature_map={feature_map!r}, expected a feature map")
        before = self.feature_map
        if before is None or before.version == feature_map.version:
            if feature_map.n_features != self.n_features:
                raise ParameterError(
                    f"the feature map has {feature_map.n_features} features, and the policy "
                    f"n_features={self.n_features}, expected the same number"
                )
        elif isinstance(feature_map, FeatureMap) and feature_map.extends(before):
            try:
                self._model.extend(feature_map.n_features)
            except Unsupported:
                raise Unsupported(
                    f"{type(self).__name__} cannot add features after it was created"
                ) from None
        else:
            raise ParameterError(
                f"the policy has learned with {before!r}, which {feature_map!r} does not extend: create the new map "
                "by with_fields(…), which keeps the column of every feature"
            )
        self.feature_map = feature_map

    def _names_of(self, given: Sequence[str] | None) -> Sequence[str] | None:
        """Return the names of the features: those that were given, or those of the feature map."""
        return self.feature_map.names if given is None and self.feature_map is not None else given

    binary = False
    """Whether rewards must be 0 or 1."""

    @property
    def new_arms_are_equal(self) -> bool:
        """Whether two new arms with the same context have the same score distribution."""
        return True

    exact = True
    """Whether the posterior is exact under the model, or an approximation."""

    @property
    def learns_scales(self) -> bool:
        """Whether the policy learns scales (`noise_std`, `arm_std`, `coef_std`) from the rewards."""
        return False

    @property
    def seed(self) -> int:
        """The seed. Together with the key of a decision, it determines the random numbers."""
        return self._random.seed

    @property
    def n_decisions(self) -> int:
        """Number of decisions so far, which is the key of the next decision."""
        return self._decisions

    @property
    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """The options that create this policy again, without what it has learned."""

    def __repr__(self) -> str:
        """Return the call that creates this policy."""
        # A factor of 1 is not shown: files of runs, which name their policies, were written before there was one.
        options = ", ".join(
            f"{name}={value!r}"
            for name, value in self.settings.items()
            if (name, value) != ("exploration", 1.0)
        )
        return f"{type(self).__name__}({options})"

    # -- state -------------------------------------------------------------------------------

    def state(self) -> state_file.State:
        """Return the whole state of the policy; its arrays are views, not copies."""
        return state_file.State(
            policy=type(self).__name__,
            settings=self.settings,
            names=self._model.names,
            removed=self._model.removed_arms,
            decisions=self._decisions,
            arrays=self._model.arrays(),
            feature_map=None if self.feature_map is None else self.feature_map.to_json(),
        )

    def save(self, path: str | PathLike[str]) -> None:
        """Write the state to a file, atomically; `rolin.load` restores it exactly.

        Parameters
        ----------
        path
            The file; an existing file is replaced.

        Raises
        ------
        ArmError
            If an arm is not named by a string or an integer.
        """
        state_file.write(path, self.state())

    @classmethod
    def from_state(cls, state: state_file.State) -> Self:
        """Create a policy from a state that `save` wrote.

        Parameters
        ----------
        state
            The state, as `rolin.model.state_file.read` returns it.
        """
        try:
            # States from before there was a factor were made by Thompson sampling.
            takes_factor = "exploration" in (options_of(cls) or ())
            defaults = {"exploration": 1.0} if takes_factor else {}
            if cls._check_stored is not None and "n_features" in state.settings:
                cls._check_stored(state.settings, len(state.names), state.arrays)
            self = cls(**defaults | state.settings)
            self._decisions = count_of("decisions", state.decisions)
            self._model.restore(state.names, state.removed, state.arrays)
            if state.feature_map is not None:
                self.change_feature_map(from_json(state.feature_map, "the map in the state"))
        except (
            KeyError, TypeError, ValueError, AttributeError, OverflowError, MemoryError, RecursionError
        ) as error:  # fmt: skip
            raise StateFileError(f"the file's parts do not fit together: {error}") from error
        return self

    _check_stored: Callable[[Mapping[str, Any], int, Arrays], None] | None = None
    """Raises if the arrays of a state do not fit its settings and its number of names.

    It is called before a policy of that size is built. Without it, shapes are compared afterwards.
    """

    @classmethod
    def from_fit(cls, fit: str | PathLike[str] | FitLike | Moments, **options: Any) -> Self:
        """Create a policy that has learned what a fit found in a log.

        Parameters
        ----------
        fit
            A file that `Fit.save` or `rolin fit` wrote, a [`Fit`][rolin.Fit], or [`Moments`][rolin.Moments].
        options
            Options of the policy, such as `seed=1`. Scales that are not given are learned from the evidence, and keep
            being learned if the policy can. The intercept is that of the fit if the fit has a number for it, and
            otherwise the default of the policy. With `slope_std`, arms have slopes for the features in the `slopes` of
            the fit, or for those in `slopes`. `n_features` is always that of the fit.

        Raises
        ------
        Unsupported
            If the policy cannot start from moments, such as policies for binary rewards.
        StateFileError
            If the file does not hold a fit.

        Examples
        --------
        >>> import rolin
        >>> moments = rolin.Moments.of(["red", "blue"], [[1.0, 0.2], [0.3, 0.9]], [1.0, 0.0])
        >>> policy = rolin.RoLinTS.from_fit(moments, arm_std=0.5, seed=7)
        >>> policy.arms
        ['red', 'blue']
        """
        why = cls._why_no_start()
        if why is not None:
            raise Unsupported(f"{cls.__name__} cannot start from a fit: {why}")
        cls._check_options(options)
        evidence = evidence_of(fit)
        make: Any = cls
        policy: Self = make(**options_for(cls, evidence, cls._unset_scales, options))
        policy._model.fill(evidence.moments)  # type: ignore[attr-defined]  # models with moments have it
        if evidence.feature_map is not None:
            policy.change_feature_map(evidence.feature_map)
        return policy

    _unset_scales: UnsetScales | None = None
    """What `from_fit` does about scales that are not given; `None` if the policy cannot start from a fit."""

    @classmethod
    def _why_no_start(cls) -> str | None:
        """Return why `from_fit` is not possible, or `None` if it is."""
        if isabstract(cls):
            return "it is a base class; use one of its policies, such as RoLinTS.from_fit(…)"
        if cls.binary:
            return "the update for a binary reward depends on the current posterior"
        return "it keeps no moments" if cls._unset_scales is None else None


def first_with(name: str, policy: type) -> int:
    """Return the position of the first class in the method resolution order that defines a name, or their number."""
    mro = policy.__mro__
    return next((i for i, parent in enumerate(mro) if name in vars(parent)), len(mro))
