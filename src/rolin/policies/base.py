"""What all policies share: the calls, their checks, and their state.

A policy is something that learns and a rule that turns what was learned into a choice. The rule
is one method, `score`: a number for each arm, drawn from a generator keyed by the decision. So a
new policy is one new file with one short class.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from os import PathLike
from typing import Any, Generic, Self, SupportsFloat, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rolin._support.arms import Name
from rolin._support.checks import count_of
from rolin.errors import ParameterError, RolinError, StateFileError, UnknownOption, Unsupported
from rolin.features import BaseFeatureMap, FeatureMap, from_json
from rolin.model import state_file
from rolin.model.draws import Scores, ranking, tied_for_best
from rolin.model.learner import Learner
from rolin.policies.candidates import Candidates, ask, ask_many, check_top_k
from rolin.policies.decision import Decision, Probabilities
from rolin.policies.keyed_random import Key, KeyedGenerator, as_key, fresh_seed

__all__ = ["Policy", "options_of"]

Model = TypeVar("Model", bound=Learner)
Floats = NDArray[np.float64]

# Stream of a decision's key that breaks ties; the rule draws from stream 0.
_TIES = 1


class Policy(ABC, Generic[Model]):
    """Base of all policies: it decides, learns, and keeps its state.

    Parameters
    ----------
    model
        What learns.
    seed
        A non-negative integer; by default one from the operating system.

    Notes
    -----
    Threads may call `decide` with a `key` at once. Everything else that changes a policy,
    decisions without a key included, needs a lock around it.
    """

    def __new__(cls, *_args: object, **options: object) -> Self:
        """Refuse options that there are not, naming those that there are."""
        known = options_of(cls)
        for name in options:
            if known is not None and name not in known:
                close = get_close_matches(name, known, n=1)
                hint = f"; did you mean {close[0]}?" if close else "."
                raise UnknownOption(
                    f"{cls.__name__} has no option {name!r}{hint} Its options: {', '.join(known)}"
                )
        return super().__new__(cls)

    def __init__(self, model: Model, seed: int | None) -> None:
        self._random = KeyedGenerator(fresh_seed() if seed is None else seed)
        self._model = model
        self._decisions = 0

    @abstractmethod
    def score(self, candidates: Candidates, key: Key) -> Scores:
        """Score the arms of a question: the rule. The highest score is chosen.

        Random numbers come from `generator(key)`.
        """

    _takes_sparse = False
    """Whether `score` is faster for contexts that are mostly zeros."""

    def score_many(self, questions: Sequence[Candidates], keys: Sequence[Key]) -> list[Scores]:
        """Score several questions; a rule that can do so in one pass says it here."""
        return self._score_each(questions, keys)

    def _score_each(self, questions: Sequence[Candidates], keys: Sequence[Key]) -> list[Scores]:
        """Score several questions one by one."""
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
        """Check the arms of a question and find what the model knows of them."""
        return ask(self._model, contexts, arms, exclude)

    def generator(self, key: Key) -> np.random.Generator:
        """Return the random numbers of a decision, from their start."""
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

        All that changes is the number of decisions made, from which the next one gets a key of
        its own; with a `key`, not even that.

        Parameters
        ----------
        contexts
            A mapping from arm to its vector of d features, or a (K, d) array; a sparse matrix of SciPy's
            is one too, and takes less time with joint sampling.
        arms
            With an array, the K names; by default 0 … K - 1.
        top_k
            How many arms to rank; by default only the best one.
        exclude
            Arms that must not be chosen now.
        key
            What to key the draws by; by default the number of this decision. The same key,
            state and question give the same answer.
        """
        candidates = ask(self._model, contexts, arms, exclude, sparse=self._takes_sparse)
        if top_k is not None:
            check_top_k(top_k, candidates)
        if key is not None:
            key = as_key(key)
            return self._decision(candidates, self.score(candidates, key), key, top_k)
        key = self._decisions
        decision = self._decision(candidates, self.score(candidates, key), key, top_k)
        self._decisions += 1
        return decision

    def decide_many(
        self,
        contexts: Iterable[Mapping[Any, ArrayLike] | ArrayLike] | NDArray[np.float64],
        arms: Iterable[Name] | Sequence[Iterable[Name]] | None = None,
        *,
        top_k: int | None = None,
        exclude: Iterable[Name] = (),
    ) -> list[Decision]:
        """Make one decision per question; the same as `decide` for each in turn, but faster.

        Parameters
        ----------
        contexts
            A (B, K, d) array, or a list of what `decide` takes.
        arms
            The K names, the same for all questions, or a list with a list of names for each
            (a tuple is a name).
        top_k
            As for `decide`, the same for all questions.
        exclude
            As for `decide`, the same for all questions.
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

        Thompson sampling is integrated numerically, to 1e-6 or better. Joint sampling is averaged
        over draws of the coefficients, which leaves a Monte Carlo error.

        Parameters
        ----------
        contexts
            A mapping from arm to its vector of d features, or a (K, d) array.
        arms
            With an array, the K names; by default 0 … K - 1.
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
            A mapping from arm to its vector of d features, or a (K, d) array.
        arms
            With an array, the K names; by default 0 … K - 1.
        """
        return self.first_probabilities(self.candidates(contexts, arms))

    def first_probabilities(self, candidates: Candidates) -> Probabilities:
        """Return the probability of every arm, and its standard error; for policies that know it."""
        raise Unsupported(f"{type(self).__name__} does not know its probabilities")

    def _certain(self, candidates: Candidates) -> Probabilities:
        """Return the probabilities of a rule that draws nothing: only ties are broken at random."""
        scores = self.score(candidates, 0).values
        best = tied_for_best(scores)
        return Probabilities(best / best.sum(), np.zeros(len(scores)))

    def _decision(
        self, candidates: Candidates, scores: Scores, key: Key, top_k: int | None
    ) -> Decision:
        contexts, names, _ = candidates
        best, _ = scores
        if best >= 0 and (top_k is None or top_k == 1):
            arm, chosen = names[best], contexts[best].copy()
            # what Decision(…) does, in half the time
            return tuple.__new__(Decision, (arm, chosen, (arm,), chosen[None], key))
        order = self.rank(scores, key, top_k or 1)
        many = contexts[order]
        ranked = tuple(names[i] for i in order)
        return Decision(ranked[0], many[0], ranked, many, key)

    def rank(self, scores: Scores, key: Key, top_k: int) -> list[int]:
        """Return the places of the best arms, the best one first; ties are broken at random."""
        best, table = scores
        if best >= 0 and top_k == 1:
            return [best]
        places: list[int] = ranking(table[-1], top_k, self._random.at(key, _TIES)).tolist()
        return places

    # -- learning ----------------------------------------------------------------------------

    def update(
        self, arm: Name, context: ArrayLike, reward: SupportsFloat, weight: SupportsFloat = 1.0
    ) -> None:
        """Learn from the reward of one arm.

        Parameters
        ----------
        arm
            Its name; an arm appears by being named here.
        context
            The (d,) context it was pulled in.
        reward
            Higher is better.
        weight
            How much the reward counts: as a mean of so many.
        """
        self._model.observe(arm, context, reward, weight)

    def update_many(
        self,
        arms: Iterable[Name],
        contexts: ArrayLike,
        rewards: ArrayLike,
        weights: ArrayLike | None = None,
    ) -> None:
        """Learn from n rewards: the same as `update` one by one, but all of them or none."""
        self._model.observe_many(arms, contexts, rewards, weights)

    def remove_arm(self, arm: Name) -> None:
        """Take an arm out of the game: offering it again is an error until it is restored.

        What it taught about the coefficients stays, and late rewards for it still teach.
        """
        self._model.remove_arm(arm)

    def restore_arm(self, arm: Name, *, with_past: bool = True) -> None:
        """Bring a removed arm back: as what it was, or as a new arm under the old name."""
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
        """Every arm that was ever observed, removed arms and past lives included."""
        return self._model.names

    @property
    def n_features(self) -> int:
        """Number d of features."""
        return self._model.n_features

    feature_map: BaseFeatureMap | None = None
    """What makes vectors of raw features, if it is known; saved with the policy."""

    def change_feature_map(self, feature_map: BaseFeatureMap) -> None:
        """Go on with a feature map: the first one, or one with more fields than before.

        Coefficients of features that are new have their prior, and what is known of the others stays, to
        the bit. In all that was learned from, the new features count as 0.

        Parameters
        ----------
        feature_map
            A map of as many features as the policy has, or one that extends the policy's.
        """
        if not isinstance(feature_map, BaseFeatureMap):
            raise ParameterError(f"feature_map={feature_map!r}, expected a feature map")
        before = self.feature_map
        if before is None or before.version == feature_map.version:
            if feature_map.n_features != self.n_features:
                raise ParameterError(
                    f"the feature map has {feature_map.n_features} features, and the policy "
                    f"n_features={self.n_features}"
                )
        elif isinstance(feature_map, FeatureMap) and feature_map.extends(before):
            try:
                self._model.extend(feature_map.n_features)
            except Unsupported:
                raise Unsupported(
                    f"{type(self).__name__} cannot have more features than it began with"
                ) from None
        else:
            raise ParameterError(
                f"the policy has learned with {before!r}, which {feature_map!r} does not extend: make it with "
                "with_fields, so that every feature stays where it is"
            )
        self.feature_map = feature_map

    def _names_of(self, given: Sequence[str] | None) -> Sequence[str] | None:
        """Return the names of the features: those given, or those of the map."""
        return self.feature_map.names if given is None and self.feature_map is not None else given

    binary = False
    """Whether rewards must be 0 or 1."""
    exact = True
    """Whether what is known is what the model says, or an approximation of it."""

    @property
    def learns_scales(self) -> bool:
        """Whether it learns how noisy rewards are, or how different arms, from the rewards."""
        return False

    @property
    def seed(self) -> int:
        """What the draws are keyed by, beside the decision."""
        return self._random.seed

    @property
    def n_decisions(self) -> int:
        """Number of decisions made so far: the key of the next one."""
        return self._decisions

    @property
    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """The options that make this policy again, without what it has learned."""

    def __repr__(self) -> str:
        """Return the call that makes this policy."""
        options = ", ".join(f"{name}={value!r}" for name, value in self.settings.items())
        return f"{type(self).__name__}({options})"

    # -- state -------------------------------------------------------------------------------

    def state(self) -> state_file.State:
        """Return all there is to this policy; its arrays are views."""
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
        """Write everything to one file, atomically; `rolin.load` continues exactly from it."""
        state_file.write(path, self.state())

    @classmethod
    def from_state(cls, state: state_file.State) -> Self:
        """Make a policy from what `save` wrote."""
        try:
            self = cls(**state.settings)
            self._decisions = count_of("decisions", state.decisions)
            self._model.restore(state.names, state.removed, state.arrays)
            if state.feature_map is not None:
                self.change_feature_map(from_json(state.feature_map, "the map in the state"))
        except (KeyError, TypeError, ValueError, MemoryError) as error:
            raise StateFileError(f"the file's parts do not fit together: {error}") from error
        return self


def options_of(policy: type[Policy[Any]]) -> list[str] | None:
    """Return the names of a policy's options, or `None` if it takes any."""
    parameters = inspect.signature(policy.__init__).parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return None
    return [name for name in parameters if name != "self"]
