"""A policy that remembers what it decided: ids, propensities, late rewards.

Everything goes through the journal. A call becomes an event, the event is written, and only what
has been written changes the state, in the order of the journal. So the state can always be had
again: from the journal alone, or from a state that was kept and what came after it.
"""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, SupportsFloat

import numpy as np
from numpy.typing import ArrayLike

from rolin._support.arms import Name, canonical
from rolin._support.checks import (
    LAST_TIME,
    as_excluded,
    as_names,
    count_of,
    finite_number_of,
    first_not_finite,
    number_of,
    share_of,
    text_of,
)
from rolin.bandit.explanation import Explanation, explain
from rolin.bandit.randomization import Explorer
from rolin.bandit.state import LiveState, Pending, Plan
from rolin.errors import (
    ArmError,
    DataError,
    InputError,
    JournalError,
    ParameterError,
    RewardConflict,
    RolinError,
    ShapeError,
    UnknownDecision,
    UnknownOption,
    Unsupported,
)
from rolin.features import BaseFeatureMap, FeatureMap, SklearnFeatureMap
from rolin.features.recorded import record_candidates
from rolin.features.tables import is_table, rows_of
from rolin.journal import Journal, open_journal
from rolin.journal.base import Removal
from rolin.journal.events import (
    ArmRemoved,
    ArmRestored,
    Decayed,
    Event,
    FeatureMapChanged,
    LoggedDecision,
    Outcome,
)
from rolin.journal.folding import adaptive_of
from rolin.journal.validation import (
    LARGEST,
    check_names,
    contradiction,
    listed,
    place_of,
    weight_of,
)
from rolin.logs.export import export
from rolin.logs.reader import past_decisions
from rolin.logs.record import PastDecision, reread
from rolin.model.moments import check_factor
from rolin.policies import Policy
from rolin.policies.candidates import check_top_k

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Bandit"]

_AT_ONCE = 1000  # decisions that expire in one transaction


class Bandit:
    """A policy with a journal: every decision has an id, and rewards come later, by id.

    Parameters
    ----------
    policy
        What decides and learns. The bandit works on a copy, `bandit.policy`. With a journal that
        has begun, the settings must be those of its policy (the seed is the journal's), and it may be left out.
    feature_map
        What makes vectors of raw features: a [`FeatureMap`][rolin.FeatureMap],
        [`HashedFeatures`][rolin.features.HashedFeatures], or a fitted transformer of scikit-learn. It is
        recorded, and by default that of the journal, or else of the policy; without one, contexts are vectors.
    journal
        Where everything is recorded: the path of an SQLite file, a
        [`Journal`][rolin.journal.Journal], or by default the memory of this process.
    floor
        The least probability of every arm: arms are drawn uniformly just as often as that takes, and
        logged propensities are those of the mixture. With K arms, at most 1/K; by default 0. This setting and
        the next two are recorded, and by default are those of the journal.
    control_share
        Share of people, or of decisions that are made for nobody, for whom arms are drawn uniformly; by default
        none. Their rewards are learned from like all others.
    propensities
        Whether to compute and record the probability of every arm, by default yes. Without, decisions
        among many arms are faster, but the log cannot be evaluated.
    snapshot_every
        Number of events after which the state is kept in a durable journal, so that starting again
        need not fold all events; `None` for never.
    clock
        Returns the time in seconds since 1970.

    Notes
    -----
    Safe to call from several threads: what they write at the same time goes to the disk together. Several
    processes may share one SQLite file, each with a bandit of its own, opened after forking; each learns what the
    others wrote when it next writes, or on `refresh`.

    With joint sampling the probabilities of a policy are an average over draws, and arms are drawn from
    just these probabilities, so that what is logged is exact.

    Examples
    --------
    >>> import rolin
    >>> bandit = Bandit(rolin.RoLinTS(n_features=2, seed=7))
    >>> decision = bandit.decide({"red": [1.0, 0.2], "blue": [0.3, 0.9]}, id="visit-1")
    >>> bandit.reward("visit-1", 1.0)
    >>> bandit.decide({"red": [1.0, 0.2]}, id="visit-1").arm == decision.arm  # as stored
    True
    """

    def __init__(
        self,
        policy: Policy[Any] | None = None,
        *,
        feature_map: BaseFeatureMap | Any = None,
        journal: Journal | str | PathLike[str] | None = None,
        floor: float | None = None,
        control_share: float | None = None,
        propensities: bool | None = None,
        snapshot_every: int | None = 10_000,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if policy is not None and not isinstance(policy, Policy):
            raise ParameterError(f"policy={policy!r}, expected a policy of rolin, or None")
        if feature_map is not None and not isinstance(feature_map, BaseFeatureMap):
            feature_map = SklearnFeatureMap(feature_map)
        if feature_map is not None and policy is not None:
            _check_size(policy, feature_map)
        given: dict[str, Any] = {}
        if floor is not None:
            given["floor"] = share_of("floor", floor)
        if control_share is not None:
            given["control_share"] = share_of("control_share", control_share)
        if propensities is not None:
            given["propensities"] = bool(propensities)
        if snapshot_every is not None:
            count_of("snapshot_every", snapshot_every, least=1)
        if policy is None and isinstance(journal, (str, PathLike)) and not Path(journal).exists():
            raise JournalError(
                f"there is no journal {journal}, expected a policy to begin one with"
            )
        self._clock = clock
        self.journal = open_journal(journal)
        """Where everything is recorded."""
        self._owns_journal = self.journal is not journal
        try:
            self._live = LiveState(
                self.journal,
                policy,
                self._now,
                snapshot_every,
                may_have_grown=feature_map is not None,
            )
            self._settle(given)
            self._settle_features(feature_map)
        except BaseException:
            self.close()
            raise
        # Ids of our own: never the same in two processes, always the same in a trial in memory.
        self._token = secrets.token_hex(6) if self.journal.durable else f"{self.policy.seed:x}"
        self._numbers = count(1)
        self._names: tuple[Sequence[Name], tuple[Name, ...]] = ((), ())  # of the last question

    def _settle(self, given: dict[str, Any]) -> None:
        """Go on with the journal's settings, or record others."""
        self._settings = self._live.settings
        self._explorer = Explorer(self.policy.seed, *self._settings[1:])

        def changed() -> Event:
            new = self._live.settings._replace(**given, time=self._now())
            Explorer(self.policy.seed, *new[1:])  # refuses settings that do not go together
            return new

        if self._settings._replace(**given) != self._settings:
            self._live.change(changed)

    def _settle_features(self, feature_map: BaseFeatureMap | None) -> None:
        """Go on with the journal's features, or record the first."""
        self._given = feature_map
        known = self.policy.feature_map
        wanted = feature_map or known
        if known is not None and feature_map is not None and known != feature_map:
            if isinstance(known, FeatureMap) and known.extends(feature_map):
                wanted = known  # somebody else has gone on to more fields
            elif not (isinstance(feature_map, FeatureMap) and feature_map.extends(known)):
                raise JournalError(
                    f"the journal goes on with {known!r}, and was given {feature_map!r}: leave it out to go on, or "
                    "add fields to it, with with_fields"
                )
        recorded = {
            event.feature_map.version
            for _, event in self.journal.lasting()
            if isinstance(event, FeatureMapChanged)
        }
        # also that of a policy which brings its own: decisions refer to it
        if wanted is not None and (wanted != known or wanted.version not in recorded):
            self.change_feature_map(wanted)

    @property
    def feature_map(self) -> BaseFeatureMap | None:
        """What makes vectors of raw features; `None` if contexts are vectors."""
        known = self.policy.feature_map
        return self._given if self._given == known else known  # which may be a transformer

    def change_feature_map(self, feature_map: BaseFeatureMap) -> None:
        """Go on with a map that has more fields, as `bandit.features.with_fields(…)` makes it.

        Coefficients of the new features have their prior, and what is known of the others stays. Rewards of
        earlier decisions count as if the new features had been 0.

        Parameters
        ----------
        feature_map
            The new map.
        """
        if not isinstance(feature_map, BaseFeatureMap):
            raise ParameterError(f"feature_map={feature_map!r}, expected a feature map")
        self._live.change(lambda: FeatureMapChanged(self._now(), feature_map))
        self._given = feature_map

    # -- deciding ----------------------------------------------------------------------------

    def decide(
        self,
        contexts: Mapping[Any, Any] | ArrayLike | None = None,
        arms: Iterable[Name] | None = None,
        *,
        situation: Any = None,
        id: str | None = None,
        person: str | None = None,
        top_k: int | None = None,
        exclude: Iterable[Name] = (),
    ) -> LoggedDecision:
        """Choose an arm and record the whole question; nothing is learned.

        Parameters
        ----------
        contexts
            A mapping from arm to its vector of d features, or a (K, d) array. With a feature map, a mapping
            from arm to its raw features, a list of them, or a table of K rows.
        arms
            With an array, list or table, the K names; by default 0 … K - 1. Strings or integers.
        situation
            With a feature map, the raw features that all arms share.
        id
            What the reward will be joined by; by default a new one. The same id asked again
            returns the stored answer, whatever else is asked.
        person
            Whom the decision is for: keeps a person in or out of the control group, and lets `erase` find all
            that belongs to one.
        top_k
            How many arms to rank; by default only the best one.
        exclude
            Arms that must not be chosen now.
        """
        return self._decide([(contexts, arms, situation, id, person)], top_k, exclude)[0]

    def decide_many(
        self,
        contexts: Iterable[Mapping[Any, Any] | ArrayLike],
        arms: Iterable[Name] | None = None,
        *,
        situations: Sequence[Any] | None = None,
        ids: Sequence[str] | None = None,
        people: Sequence[str | None] | None = None,
        top_k: int | None = None,
        exclude: Iterable[Name] = (),
    ) -> list[LoggedDecision]:
        """Make one decision per question, written together: all of them or none.

        Parameters
        ----------
        contexts
            A (B, K, d) array, or a list of what `decide` takes.
        arms
            With arrays, the K names, the same for all questions.
        situations
            As for `decide`, one per question.
        ids
            As for `decide`, one per question.
        people
            As for `decide`, one per question.
        top_k
            As for `decide`, the same for all questions.
        exclude
            As for `decide`, the same for all questions.
        """
        questions = listed("contexts", contexts)
        n = len(questions)
        whose = []
        if is_table(situations):
            situations = rows_of(situations)
        for name, given in (("situations", situations), ("ids", ids), ("people", people)):
            whose.append([None] * n if given is None else listed(name, given))
            if len(whose[-1]) != n:
                raise ShapeError(
                    f"{name} has {len(whose[-1])} items, expected {n}, one per question"
                )
        names = None if arms is None else as_names(arms)
        return self._decide(list(zip(questions, [names] * n, *whose, strict=True)), top_k, exclude)

    def _decide(
        self, questions: Sequence[tuple[Any, ...]], top_k: int | None, exclude: Iterable[Name]
    ) -> list[LoggedDecision]:
        excluded = as_excluded(exclude) or ()
        answers: list[LoggedDecision] = []
        given_ids = set()  # which somebody else may store meanwhile
        known = (
            set()
        )  # places of answers from the journal: whatever becomes of them, they are not written
        for contexts, arms, situation, given, person in questions:
            whom = None if person is None else text_of("person", person)
            id = self._new_id() if given is None else text_of("id", given)
            stored = None if given is None else self.journal.decision(id)
            if stored is not None:
                known.add(len(answers))
            if stored is None:
                try:
                    stored = self._answer(contexts, arms, situation, id, whom, top_k, excluded)
                except RolinError as error:
                    if len(questions) == 1:
                        raise
                    raise type(error)(f"question {len(answers)}: {error}") from error
            answers.append(stored)
            if given is not None:
                given_ids.add(id)

        def plan(pending: Pending) -> tuple[list[Event], list[LoggedDecision]]:
            events: list[Event] = []
            final = []
            for i, answer in enumerate(answers):
                stored = answer if i in known else None
                if stored is None and answer.id in given_ids:
                    stored = pending.decision(answer.id)
                if stored is None:
                    events.append(answer)
                    pending.add(answer)
                final.append(stored or answer)
            return events, final

        decided: list[LoggedDecision] = self._live.submit(plan)
        return decided

    def _new_id(self) -> str:
        """Return an id that nobody has."""
        while True:
            id = f"{self._token}-{next(self._numbers)}"
            if self.journal.durable or self.journal.decision(id) is None:
                return id

    def _answer(
        self,
        contexts: Any,
        arms: Any,
        situation: Any,
        id: str,
        person: str | None,
        top_k: int | None,
        excluded: Collection[Name],
    ) -> LoggedDecision:
        """Decide, from what is known now."""
        with self._live.lock:
            policy, version = self._live.current()
            if self._live.settings is not self._settings:  # changed, here or by another process
                self._settings = self._live.settings
                self._explorer = Explorer(policy.seed, *self._settings[1:])
            control = self._explorer.in_control(person or id)
            feature_map, raw = self.feature_map, None
            if feature_map is not None:
                raw = record_candidates(feature_map, contexts, arms, situation, excluded)
                contexts, arms = raw.contexts(), raw.arms
            elif situation is not None:
                raise ParameterError("situation is given, but the bandit has no feature map")
            candidates = policy.candidates(contexts, arms, excluded)
            x, names, _ = candidates
            if names is not self._names[0]:  # callers mostly ask about the same arms again
                check_names(names)
                self._names = (names, tuple(names))
            offered = self._names[1]
            if x.size and not np.abs(x).max() <= LARGEST:  # so that its reward can be learned from
                raise first_not_finite("contexts", x)
            if top_k is not None:
                check_top_k(top_k, candidates)
            chosen, p = self._explorer.choose(policy, candidates, id, top_k or 1, control=control)
        given: Any = x.copy() if raw is None else x
        for array in (given, p):
            if array is not None:
                array.flags.writeable = False  # a record: neither the caller nor we change it
        if raw is not None:
            given = raw
        return LoggedDecision(id, self._now(), offered, given, chosen, p, version, person, control)

    def _now(self) -> float:
        now = number_of("the clock's time", self._clock(), ParameterError)
        if not 0.0 <= now < LAST_TIME:
            raise ParameterError(f"the clock says {now}, expected seconds since 1970")
        return now

    # -- rewards -----------------------------------------------------------------------------

    def reward(
        self,
        id: str,
        value: SupportsFloat,
        *,
        arm: Name | None = None,
        weight: SupportsFloat = 1.0,
    ) -> None:
        """Say what a decision was worth, at any later time, and learn from it.

        Parameters
        ----------
        id
            That of the decision.
        value
            Higher is better. The same value again is harmless.
        arm
            Of a ranking, which arm; by default the first.
        weight
            How much the reward counts: as a mean of so many.

        Raises
        ------
        UnknownDecision
            If no decision has this id.
        RewardConflict
            If the decision has another reward, or has expired.
        """
        self._live.submit(self._reward_plan([(id, value, arm, weight)]))

    def reward_many(self, rewards: Mapping[str, SupportsFloat]) -> None:
        """Say what many decisions were worth, by id: all of them or none."""
        if not isinstance(rewards, Mapping):
            raise InputError(f"rewards={rewards!r}, expected a mapping from id to reward")
        each = [(id, value, None, 1.0) for id, value in rewards.items()]
        self._live.submit(self._reward_plan(each))

    def _reward_plan(self, rewards: Sequence[tuple[str, Any, Any, Any]]) -> Plan:
        checked = []
        for id, value, arm, weight in rewards:
            r = self._reward_of("reward", value)
            checked.append((text_of("id", id), r, arm, weight_of(weight)))
        now = self._now()

        def plan(pending: Pending) -> tuple[list[Event], None]:
            events: list[Event] = []
            for id, value, arm, weight in checked:
                decision = pending.decision(id)
                if decision is None:
                    raise UnknownDecision(f"no decision has the id {id!r}")
                place = place_of(decision, arm)
                known = pending.outcomes(id).get(place)
                if known is None:
                    events.append(self._outcome(decision, place, now, value, weight))
                    pending.add(events[-1])
                elif (known.value, known.weight) != (value, weight):
                    raise RewardConflict(contradiction(known, value, weight))
            return events, None

        return plan

    def _reward_of(self, name: str, value: object) -> float:
        """Return a reward that can be learned from."""
        r = finite_number_of(name, value)
        if not abs(r) <= LARGEST:
            raise InputError(
                f"{name} is {r:g}, too large to learn from: expected at most {LARGEST:g}"
            )
        if self.policy.binary and r not in (0.0, 1.0):
            raise InputError(f"{name}={value!r}, expected 0 or 1: no or yes")
        return r

    def _outcome(
        self, decision: LoggedDecision, place: int, now: float, value: float | None,
        weight: float = 1.0, *, expired: bool = False,
    ) -> Outcome:  # fmt: skip
        chosen = decision.chosen[place]
        arm = self._live.life_of(decision, decision.offered[chosen])
        x = decision.context_of(chosen)
        return Outcome(decision.id, now, place, arm, x, value, weight, expired)

    def expire(
        self, after: float | timedelta, *, default_reward: SupportsFloat | None = None
    ) -> int:
        """Close the decisions whose rewards never came, and return how many arms that were.

        Parameters
        ----------
        after
            Age of a decision, in seconds or as a `timedelta`, from which on no reward is expected.
        default_reward
            What counts as their reward; by default nothing is learned from them.
        """
        age = finite_number_of(
            "after", after.total_seconds() if isinstance(after, timedelta) else after
        )
        if age < 0.0:
            raise InputError(f"after={after!r}, expected at least 0")
        value = (
            None if default_reward is None else self._reward_of("default_reward", default_reward)
        )
        now = self._now()
        before = math.nextafter(now - age, math.inf)
        expired: int = 0

        def plan(pending: Pending) -> tuple[list[Event], tuple[int, int]]:
            events: list[Event] = []
            places = self.journal.waiting(before, _AT_ONCE)
            for id, place in places:
                decision = pending.decision(id)
                if decision is not None and place not in pending.outcomes(id):
                    events.append(self._outcome(decision, place, now, value, expired=True))
            return events, (len(places), len(events))

        while True:
            seen, closed = self._live.submit(plan)
            expired += closed
            if not seen:
                return expired

    def export_log(self, path: str | PathLike[str]) -> int:
        """Write all decisions with their rewards to a table, one row each; return how many.

        Parameters
        ----------
        path
            Where to: a file that ends in `.csv`, `.csv.gz` or `.parquet`. `import_log` reads it again.
        """
        return export(self.journal, Path(path))

    def import_log(
        self,
        source: str | PathLike[str] | Iterable[PastDecision] | pd.DataFrame,
        **columns: Any,
    ) -> int:
        """Learn from past decisions and record them: all of them or none; return how many were new.

        Those whose id is in the journal already are left as they are, so that an import can be repeated.

        Parameters
        ----------
        source
            A file that was exported, or any CSV, Parquet or data frame with an arm, a reward and the
            features of the arm; a log of Vowpal Wabbit's (`.dsjson`); or a list of past decisions.
        columns
            Which columns mean what: see [`read_decisions`][rolin.logs.read_decisions] and
            [`read_dsjson`][rolin.logs.read_dsjson].
        """
        for name in ("feature_map", "now"):
            if name in columns:
                raise UnknownOption(f"import_log takes no {name}: the bandit has its own")
        pasts = past_decisions(source, now=self._now(), feature_map=self.feature_map, **columns)
        if self.feature_map is None:
            pasts = [reread(past, None) for past in pasts]
        for i, past in enumerate(pasts, start=1):
            try:
                self._check_past(past)
            except InputError as error:
                raise DataError(f"decision {i}: {error}") from error

        def plan(pending: Pending) -> tuple[list[Event], int]:
            events: list[Event] = []
            new = 0
            for decision, outcomes in pasts:
                stored = pending.decision(decision.id)
                if stored is not None and stored.ranking != decision.ranking:
                    raise RewardConflict(
                        f"decision {decision.id!r} chose {stored.arm!r} in the journal, and "
                        f"{decision.arm!r} in what is imported"
                    )
                if stored is None:
                    here = decision._replace(version=self.version, imported=True)
                    pending.add(here)
                    events.append(here)
                    events += [
                        # of another journal it may be an earlier life of the arm
                        outcome._replace(id=here.id, place=place, arm=here.ranking[place])
                        for place, outcome in outcomes.items()
                    ]
                    new += 1
            return events, new

        added: int = self._live.submit(plan)
        return added

    def _check_past(self, past: PastDecision) -> None:
        """Refuse a past decision that the policy could not learn from."""
        if not isinstance(past, PastDecision):
            raise InputError(f"{past!r} is not a past decision")
        x, d = past.decision.offered_contexts, self.policy.n_features
        check_names(past.decision.offered)
        grown = self.feature_map is not None and x.shape[1] < d  # features that came later were 0
        if x.shape[1] != d and not grown:
            raise ShapeError(f"it has {x.shape[1]} features, expected {d}, as the policy")
        if x.size and not np.abs(x).max() <= LARGEST:
            raise first_not_finite("contexts", x)
        for place, outcome in past.outcomes.items():
            if place not in range(len(past.decision.chosen)):
                raise InputError(f"it has an outcome for place {place} of its ranking")
            if outcome.value is not None:
                self._reward_of("reward", outcome.value)
            weight_of(outcome.weight)

    # -- arms and age ------------------------------------------------------------------------

    def remove_arm(self, arm: Name) -> None:
        """Take an arm out of the game: offering it again is an error until it is restored."""
        arm = canonical(arm)

        def check() -> Event:
            if arm in self.policy.removed_arms:
                raise ArmError(f"arm {arm!r} was removed already")
            if arm not in self.policy.arms:
                raise ArmError(f"arm {arm!r} was never rewarded, so there is nothing to remove")
            return ArmRemoved(self._now(), arm)

        self._live.change(check)

    def restore_arm(self, arm: Name, *, with_past: bool = True) -> None:
        """Bring a removed arm back: as what it was, or as a new arm under the old name.

        Of a new arm, rewards of decisions from before still count as the old one's.
        """
        arm = canonical(arm)
        if not isinstance(with_past, bool):
            raise ParameterError(f"with_past={with_past!r}, expected True or False")

        def check() -> Event:
            if arm not in (removed := self.policy.removed_arms):
                raise ArmError(f"arm {arm!r} is not among the removed arms: {removed!r}")
            return ArmRestored(self._now(), arm, with_past)

        self._live.change(check)

    def decay(self, factor: float) -> None:
        """Forget: multiply all evidence by a factor above 0 and at most 1."""
        factor = check_factor(factor)
        if not hasattr(self.policy, "decay"):
            raise Unsupported(f"{type(self.policy).__name__} cannot forget")
        self._live.change(lambda: Decayed(self._now(), factor))

    def learn_scales(self) -> None:
        """Estimate now, from all evidence, the scales that were given as `"learn"`."""
        if not self.policy.learns_scales or adaptive_of(self.policy) is None:
            raise ParameterError("all scales were given as numbers, expected some as 'learn'")
        self._live.change(self._live.estimated_scales)

    # -- keeping and removing ----------------------------------------------------------------

    def refresh(self) -> int:
        """Learn what other processes have written, and return the version."""
        self._live.refresh()
        return self.version

    def snapshot(self) -> int:
        """Keep the state in the journal, so that starting again is fast; return its version."""
        return self._live.snapshot()

    def erase(
        self,
        *,
        ids: Iterable[str] | None = None,
        person: str | None = None,
        older_than: timedelta | datetime | float | None = None,
    ) -> int:
        """Remove decisions with their rewards from the journal, and return how many there were.

        One of the three is given. The state stays as it is, what was learned from them included: it is kept
        in the journal, and goes on from there. States from before can no longer be had again, and rewards that
        are still to come for these decisions are of unknown ones.

        Parameters
        ----------
        ids
            Those of these ids.
        person
            Those made for this person.
        older_than
            Those of this age or older: a `timedelta`, a number of seconds, or a `datetime` with its time zone.
        """
        if sum(given is not None for given in (ids, person, older_than)) != 1:
            raise ParameterError(
                "expected one of ids, person and older_than, to erase what it means"
            )
        return self._live.remove(
            Removal(
                [text_of("id", id) for id in listed("ids", () if ids is None else ids)],
                [] if person is None else [text_of("person", person)],
                None if older_than is None else self._time_of(older_than),
            )
        )

    def _time_of(self, older_than: timedelta | datetime | float) -> float:
        """Return the time before which decisions are that old."""
        if isinstance(older_than, datetime):
            if older_than.tzinfo is None:
                raise ParameterError(
                    f"older_than={older_than!r}, expected a time with its time zone"
                )
            return (older_than - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()
        seconds = older_than.total_seconds() if isinstance(older_than, timedelta) else older_than
        age = finite_number_of("older_than", seconds)
        if age < 0.0:
            raise ParameterError(f"older_than={older_than!r}, expected an age of at least 0")
        return math.nextafter(self._now() - age, math.inf)

    # -- reading -----------------------------------------------------------------------------

    def waiting(self, *, limit: int = 1000) -> list[str]:
        """Return the ids of decisions that have no reward yet, the oldest first.

        Parameters
        ----------
        limit
            How many at most.
        """
        places = self.journal.waiting(math.inf, count_of("limit", limit, least=1))
        return list(dict.fromkeys(id for id, _ in places))

    def explain(
        self,
        decision: LoggedDecision | str,
        arm: Name | None = None,
        *,
        against: Name | None = None,
        as_of: Literal["decision", "now"] = "decision",
    ) -> Explanation:
        """Say why an arm was scored as it was: what each feature adds, by name, and how sure that is.

        Parameters
        ----------
        decision
            A decision, or its id.
        arm
            One of the arms that were offered; by default the one that was chosen.
        against
            Another arm that was offered, to say how the two differ.
        as_of
            What the model knows: what it knew when it decided, for which the journal is read again
            if it has learned since, or what it knows `"now"`.
        """
        if not isinstance(decision, LoggedDecision):
            found = self.journal.decision(text_of("decision", decision))
            if found is None:
                raise UnknownDecision(f"no decision has the id {decision!r}")
            decision = found
        return explain(self._live, decision, arm, against, as_of)

    @property
    def policy(self) -> Policy[Any]:
        """What decides, in its present state: to be read, not to be changed."""
        return self._live.policy

    @property
    def version(self) -> int:
        """Number of the last event that the state knows."""
        return self._live.version

    def close(self) -> None:
        """Close the journal, if it was opened here."""
        if self._owns_journal:
            self.journal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        _, floor, control_share, propensities = self._live.settings
        return (
            f"Bandit({self.policy!r}, floor={floor:g}, control_share={control_share:g}, "
            f"propensities={propensities}, version={self.version})"
        )


def _check_size(policy: Policy[Any], feature_map: BaseFeatureMap) -> None:
    """Refuse a policy whose vectors have another size."""
    if policy.n_features != feature_map.n_features:
        raise ParameterError(
            f"the policy has n_features={policy.n_features}, and {feature_map!r} makes vectors of "
            f"{feature_map.n_features}: expected n_features=feature_map.n_features"
        )
