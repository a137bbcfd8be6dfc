"""A policy that records its decisions: ids, propensities, late rewards.

Everything goes through the journal. A call becomes events, the events are written, and only written
events change the state, in the order of the journal. So the state can always be rebuilt: from the
journal alone, or from a snapshot and the events after it.
"""

from __future__ import annotations

import copy
import math
import secrets
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from os import PathLike
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Literal,
    Self,
    SupportsFloat,
    TypeVar,
    overload,
)

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rolin._support.arms import Name, canonical
from rolin._support.checks import (
    LAST_TIME,
    as_names,
    count_of,
    flag_of,
    number_of,
    text_of,
)
from rolin._support.progress import Progress
from rolin.bandit.deciding import Decider
from rolin.bandit.explaining import explain
from rolin.bandit.explanation import Explanation
from rolin.bandit.new_ids import NewIds
from rolin.bandit.question import Question
from rolin.bandit.requests import (
    Activate,
    ChangeFeatureMap,
    ChangeSettings,
    Decay,
    Decide,
    Expire,
    ImportDecisions,
    LearnScales,
    RecordRewards,
    RemoveArm,
    RestoreArm,
    RewardStatus,
    StartShadow,
    StopShadow,
    decide_request,
    lenient_reward_request,
    reward_from,
    window_from,
)
from rolin.bandit.state import BanditState
from rolin.bandit.validation import (
    check_feature_map,
    check_past,
    erase_before,
    id_of,
    settings_of,
)
from rolin.bandit.watching import BanditStats, Observer
from rolin.bandit.writer import Writer
from rolin.errors import (
    DataError,
    InputError,
    JournalError,
    ParameterError,
    ShapeError,
    UnknownDecision,
    UnknownOption,
    Unsupported,
)
from rolin.features import BaseFeatureMap, FeatureMap, SklearnFeatureMap
from rolin.features.tables import is_table, rows_of
from rolin.journal import Journal, open_journal
from rolin.journal.base import Removal, Waiting
from rolin.journal.events import FeatureMapChanged, LoggedDecision, Mode, SettingsChanged
from rolin.journal.folding import adaptive_of
from rolin.journal.validation import listed, unknown_message
from rolin.logs.export import export, frame_of
from rolin.logs.reader import past_decisions
from rolin.logs.record import PastDecision, read_journal, reread
from rolin.model.moments import check_factor
from rolin.model.summaries import LogitPrediction, Prediction
from rolin.policies import Policy
from rolin.policies.exploration import Exploration, exploration_of

if TYPE_CHECKING:
    import pandas as pd

    from rolin.model.diagnosis import Diagnosis

__all__ = ["Bandit"]

P = TypeVar("P", bound=Policy[Any])
_EXPIRE_AT_ONCE = 1000  # arms that expire in one transaction


class Bandit(Generic[P]):
    """A policy with a journal: every decision has an id, and rewards arrive later by id.

    Parameters
    ----------
    policy
        The policy that decides and learns. The bandit works on a copy, `bandit.policy`. For a journal that has
        begun, the settings must equal those of its policy (except the seed, which the journal knows), and the
        policy may be omitted.
    feature_map
        Turns raw features into vectors: a [`FeatureMap`][rolin.FeatureMap],
        [`HashedFeatures`][rolin.features.HashedFeatures], or a fitted transformer of scikit-learn. It is recorded
        in the journal. By default the journal's map is used, or else the policy's; without a map, contexts are
        vectors.
    journal
        Where events are recorded: the path of an SQLite file, a
        [`Journal`][rolin.journal.Journal], or by default the memory of this process.
    floor
        Least probability of every arm. The bandit draws uniformly as often as this requires, and records the
        propensities of the mixture. With K arms at most 1/K; by default 0. This setting and the next four are
        recorded; by default those of the journal are used.
    control_share
        Share of people for whom arms are drawn uniformly, or share of decisions if no person is given; by
        default 0. The bandit learns from their rewards as from all others.
    propensities
        Whether to compute and record the probability of every arm; by default `True`. Without them, decisions
        among many arms are faster, but the log cannot be evaluated offline.
    mode
        `"online"` (the default): the policy chooses and learns. `"apprentice"`: the baseline is shown, which is the
        first offered arm that is not excluded, unless `decide` names another one; the policy learns, and what it would
        have chosen is recorded beside it (`decision.proposal`). `"stopped"`: the baseline is shown, and nothing is
        learned from rewards or expiry.
    share
        In the mode `"online"`, the share of people for whom the policy decides, or share of decisions if no person is
        given; by default 1. For the others, decisions are made as in the mode `"apprentice"`. A larger share only adds
        people. The order is: the mode, then the control group, then the share. So the control group is drawn from all
        people, and its arms are drawn uniformly inside and outside the share.
    snapshot_every
        Number of events after which a snapshot is stored in a durable journal, so that opening it is fast;
        `None` for never.
    background
        Whether a thread learns the scales, stores snapshots and writes back the log of the journal, so that no decision
        or reward waits for it: for services. Then it depends on timing from which decision on new scales are used. By
        default `False`: the same calls lead to the same decisions.
    clock
        Returns the time in seconds since 1970.

    Notes
    -----
    Several threads may use one bandit: their events are written to the disk together. Several processes may share
    one SQLite file, or one [`PostgresJournal`][rolin.journal.PostgresJournal]; each opens a bandit of its own after
    forking, and learns the events of the others when it writes, or on `refresh`.

    With joint sampling, the probabilities of a decision are an average over 64 draws of the coefficients, or over 128
    before there are 100 rewards. The arm is drawn from exactly these probabilities, so the recorded propensities are exact.

    Examples
    --------
    >>> import rolin
    >>> bandit = Bandit(rolin.RoLinTS(n_features=2, seed=7))
    >>> decision = bandit.decide({"red": [1.0, 0.2], "blue": [0.3, 0.9]}, id="visit-1")
    >>> bandit.reward("visit-1", 1.0)
    >>> bandit.decide({"red": [1.0, 0.2], "blue": [0.3, 0.9]}, id="visit-1").arm == decision.arm  # the stored one
    True
    """

    @overload
    def __init__(
        self,
        policy: P,
        *,
        feature_map: BaseFeatureMap | Any = None,
        journal: Journal | str | PathLike[str] | None = None,
        floor: float | None = None,
        control_share: float | None = None,
        propensities: bool | None = None,
        mode: Mode | None = None,
        share: float | None = None,
        snapshot_every: int | None = 10_000,
        background: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None: ...
    @overload
    def __init__(
        self: Bandit[Any],
        policy: None = None,
        *,
        feature_map: BaseFeatureMap | Any = None,
        journal: Journal | str | PathLike[str] | None = None,
        floor: float | None = None,
        control_share: float | None = None,
        propensities: bool | None = None,
        mode: Mode | None = None,
        share: float | None = None,
        snapshot_every: int | None = 10_000,
        background: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None: ...
    def __init__(
        self,
        policy: P | None = None,
        *,
        feature_map: BaseFeatureMap | Any = None,
        journal: Journal | str | PathLike[str] | None = None,
        floor: float | None = None,
        control_share: float | None = None,
        propensities: bool | None = None,
        mode: Mode | None = None,
        share: float | None = None,
        snapshot_every: int | None = 10_000,
        background: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if policy is not None and not isinstance(policy, Policy):
            raise ParameterError(f"policy={policy!r}, expected a policy of rolin, or None")
        if feature_map is not None and not isinstance(feature_map, BaseFeatureMap):
            feature_map = SklearnFeatureMap(feature_map)
        if feature_map is not None and policy is not None:
            check_feature_map(policy, feature_map)
        settings = settings_of(floor, control_share, propensities, mode, share)
        if snapshot_every is not None:
            count_of("snapshot_every", snapshot_every, least=1)
        background = flag_of("background", background)
        if policy is None and journal is None:
            raise ParameterError("Bandit() needs a policy, or the journal of an earlier bandit")
        if policy is None and isinstance(journal, (str, PathLike)) and not Path(journal).exists():
            raise JournalError(
                f"there is no journal {journal}, expected a policy to begin one with"
            )
        self._clock = clock
        self.journal = open_journal(journal)
        """Where events are recorded."""
        self._owns_journal = self.journal is not journal
        try:
            self._state = BanditState(self.journal, policy, feature_map)
            # Ids are unique across processes, and reproducible in a trial in memory.
            durable, seed = self.journal.durable, self._state.policy.seed
            ids = NewIds(secrets.token_hex(6) if durable else f"{seed:x}", self.journal)
            self._decider = Decider(self._state, ids, self.now)
            self._writer = Writer(
                self._state, self._decider, self.now, snapshot_every, in_background=background
            )
            known = self._state.settings
            if known._replace(**settings) != known:
                self._writer.change(ChangeSettings(settings))
            self._settle_feature_map(feature_map)
        except BaseException:
            self.close()
            raise

    def _settle_feature_map(self, given: BaseFeatureMap | None) -> None:
        """Continue with the journal's feature map, or record the first one."""
        known = self.policy.feature_map
        wanted = given or known
        if known is not None and given is not None and known != given:
            if isinstance(known, FeatureMap) and known.extends(given):
                wanted = known  # another process has added fields
            elif not (isinstance(given, FeatureMap) and given.extends(known)):
                raise JournalError(
                    f"the journal uses {known!r}, but {given!r} was given: omit it to continue, or add "
                    "fields to the journal's map with with_fields"
                )
        recorded = {
            event.feature_map.version
            for _, event in self.journal.permanent_events()
            if isinstance(event, FeatureMapChanged)
        }
        # The map of a policy that brings its own is recorded as well: decisions refer to it.
        if wanted is not None and (wanted != known or wanted.version not in recorded):
            self.change_feature_map(wanted)

    @property
    def feature_map(self) -> BaseFeatureMap | None:
        """Turns raw features into vectors; `None` if contexts are vectors."""
        return self._state.feature_map

    def change_feature_map(self, feature_map: BaseFeatureMap) -> None:
        """Use a map with more fields from now on, made by `bandit.feature_map.with_fields(…)`.

        Coefficients of new features start from the prior; everything learned so far is retained. Rewards of
        earlier decisions count as if the new features had been 0.

        Parameters
        ----------
        feature_map
            The new map.
        """
        if not isinstance(feature_map, BaseFeatureMap):
            raise ParameterError(f"feature_map={feature_map!r}, expected a feature map")
        self._writer.change(ChangeFeatureMap(feature_map))

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
        active: bool = True,
        baseline: Name | None = None,
    ) -> LoggedDecision:
        """Choose an arm and record the whole question; the policy learns nothing.

        A call can be repeated: the same question under the same id returns the stored decision. The questions are the
        same if `person`, `top_k`, `active`, `baseline`, the names in `exclude`, and the names, order and features of the
        arms that are not excluded are the same. Vectors are compared as numbers, whether they came as a mapping, an array or a
        data frame. Raw features are compared as JSON, so the order of the fields counts, and 1 is not 1.0.

        Parameters
        ----------
        contexts
            A mapping from arm to its vector of d features, or a (K, d) array; or with `arms`, one vector for all arms.
            With a feature map, a mapping from arm to its raw features, a list of them, or a table of K rows; or with
            `arms`, `None` for arms without features of their own.
        arms
            Names of the K arms of an array, vector, list or table: strings or integers. By default the index of a
            pandas data frame, otherwise 0 … K - 1.
        situation
            With a feature map, the raw features that all arms share.
        id
            Rewards are joined by this id; by default a new one. If a decision with this id is stored, it is returned.
            One that was imported, or written by an earlier version of `rolin`, is returned whatever the question is.
        person
            The person the decision is for. A person stays in or out of the control group and the share, and `erase`
            can remove everything about a person.
        top_k
            Number of arms to rank; by default 1.
        exclude
            Arms that must not be chosen.
        active
            `False` for a decision that may never be used, such as one that is made in advance. It waits until
            `activate` is called.
        baseline
            The arm that is shown if the policy does not decide: in the modes `"apprentice"` and `"stopped"`, and
            outside the share. The other arms of a ranking follow in the order offered. It must be among the offered arms
            that are not excluded; by default it is the first of them.

        Raises
        ------
        DecisionConflict
            If a decision with this id is stored, but was asked another question.
        """
        question = Question(contexts, arms, situation, id, person)
        answer: list[LoggedDecision] = self._writer.submit(
            decide_request([question], top_k, exclude, active, baseline)
        )
        return answer[0]

    def decide_many(
        self,
        contexts: Iterable[Mapping[Any, Any] | ArrayLike | None] | None = None,
        arms: Iterable[Name] | None = None,
        *,
        situations: Sequence[Any] | None = None,
        ids: Sequence[str] | None = None,
        people: Sequence[str | None] | None = None,
        top_k: int | None = None,
        exclude: Iterable[Name] = (),
        active: bool = True,
        baseline: Name | None = None,
    ) -> list[LoggedDecision]:
        """Make one decision per set of candidates; all of them are recorded, or none.

        Parameters
        ----------
        contexts
            A (B, K, d) array, or a list of what `decide` takes; `None` for arms without features of their own.
        arms
            Names of the K arms, the same for all decisions.
        situations
            As for `decide`, one per decision.
        ids
            As for `decide`, one per decision.
        people
            As for `decide`, one per decision.
        top_k
            As for `decide`, the same for all decisions.
        exclude
            As for `decide`, the same for all decisions.
        active
            As for `decide`, the same for all decisions.
        baseline
            As for `decide`, the same for all decisions.
        """
        if is_table(situations):
            situations = rows_of(situations)
        if contexts is None and situations is not None:
            situations = listed("situations", situations)
            contexts = [None] * len(situations)
        if isinstance(contexts, np.ndarray) and contexts.ndim == 2:
            raise ShapeError(
                "contexts is one question, expected a (B, K, d) array or a list of questions; for one context per "
                "decision that all arms share, pass a list of vectors and arms=…"
            )
        each = listed("contexts", contexts)  # which rejects None
        n = len(each)
        columns = []
        for name, given in (("situations", situations), ("ids", ids), ("people", people)):
            column = [None] * n if given is None else listed(name, given)
            if len(column) != n:
                raise ShapeError(f"{name} has {len(column)} items, expected {n}, one per question")
            columns.append(column)
        names = None if arms is None else as_names(arms)
        questions = [Question(*row) for row in zip(each, [names] * n, *columns, strict=True)]
        answer: list[LoggedDecision] = self._writer.submit(
            decide_request(questions, top_k, exclude, active, baseline)
        )
        return answer

    def activate(self, id: str) -> None:
        """Say that a decision made with `active=False` is now in use, and learn from the rewards that came before.

        Until then it was not shown: no reward of it is learned, and if it expires, nothing is learned from it. Logs
        leave it out. Activating a decision again, or one that was active from the start, changes nothing.

        Parameters
        ----------
        id
            Id of the decision.

        Raises
        ------
        UnknownDecision
            If no decision has this id.
        DecisionConflict
            If the decision has expired before.
        """
        self._writer.submit(Activate(id_of(id), self.now()))

    def now(self) -> float:
        """Return the time of the clock, in seconds since 1970."""
        now = number_of("the clock's time", self._clock(), ParameterError)
        if not 0.0 <= now < LAST_TIME:
            raise ParameterError(f"the clock returned {now}, expected seconds since 1970")
        return now

    # -- rewards -----------------------------------------------------------------------------

    def reward(
        self,
        id: str,
        value: SupportsFloat,
        *,
        arm: Name | None = None,
        weight: SupportsFloat = 1.0,
        reward_id: str | None = None,
    ) -> None:
        """Record the reward of a decision, at any later time, and learn from it.

        With `reward_id`, an arm can have several rewards, which add up. Their sum is final when `expire` closes the arm.
        Only then it is learned, once. Without `reward_id`, an arm has one reward, which is learned at once.

        Parameters
        ----------
        id
            Id of the decision.
        value
            Higher is better. Repeating the same value is harmless.
        arm
            One arm of the ranking; by default the first.
        weight
            How much the reward counts: a weight of n stands for the mean of n rewards. It must be 1 with `reward_id`.
        reward_id
            Your own id of one of several rewards, such as `"click-17"`. Repeating it with the same value is harmless.

        Raises
        ------
        UnknownDecision
            If no decision has this id.
        RewardConflict
            If the decision already has a different reward, or has expired.
        """
        reward = reward_from(self._state.policy, id, value, arm, weight, reward_id)
        self._writer.submit(RecordRewards([reward], self.now()))

    def record_reward(
        self,
        id: str,
        value: SupportsFloat,
        *,
        arm: Name | None = None,
        weight: SupportsFloat = 1.0,
        reward_id: str | None = None,
        window: float | timedelta | None = None,
        default_reward: SupportsFloat | None = None,
    ) -> RewardStatus:
        """Record a reward that may come too early, too late or twice, and return what became of it.

        For callers over a network, who cannot act on an error. A reward that counts for `reward` counts here as well, in
        the same way. Every other one is recorded in the journal, and nothing is learned from it. These are the statuses:

        - `"learned"`: the policy has learned from it.
        - `"recorded"`: it is a part of a sum, its decision is not activated yet, or the bandit is stopped.
        - `"repeated"`: the same reward was recorded before, so this one has no effect.
        - `"early"`: no decision has this id. If a decision with this id is made later, the reward counts as if it had come
          just after it. If none is made, `expire` closes it.
        - `"late"`: the decision has expired, or its sum is final.
        - `"conflicting"`: there is a different reward, which counts because it came first.

        Parameters
        ----------
        id
            As for `reward`.
        value
            As for `reward`.
        arm
            As for `reward`. An early reward of an arm that is not in the ranking is ignored when the decision is made.
        weight
            As for `reward`.
        reward_id
            As for `reward`.
        window
            Age of the decision from which on a reward is late, also if `expire` was not called yet; by default any
            age will do.
        default_reward
            The reward to learn if none has arrived in the window, as for `expire`.
        """
        policy, now = self._state.policy, self.now()
        reward = reward_from(policy, id, value, arm, weight, reward_id)
        statuses: list[RewardStatus] = self._writer.submit(
            lenient_reward_request(policy, now, reward, window, default_reward)
        )
        return statuses[0]

    def reward_many(self, rewards: Mapping[str, SupportsFloat]) -> None:
        """Record the rewards of many decisions, by id: all of them or none.

        Parameters
        ----------
        rewards
            The rewards by id of the decision. They count for the first arm of a ranking, with weight 1.
        """
        if not isinstance(rewards, Mapping):
            raise InputError(f"rewards={rewards!r}, expected a mapping from id to reward")
        checked = [reward_from(self._state.policy, id, value) for id, value in rewards.items()]
        self._writer.submit(RecordRewards(checked, self.now()))

    def expire(
        self, after: float | timedelta, *, default_reward: SupportsFloat | None = None
    ) -> int:
        """Close decisions that are older than an age, and return the number of arms closed.

        If an arm has rewards that add up, the policy learns their sum. If it has none, the policy learns the default
        reward, unless the decision was never activated. Early rewards of this age, whose decision was not made, are
        closed as well; they are not counted.

        Parameters
        ----------
        after
            Age of the decision, in seconds or as a `timedelta`, from which on no reward is expected.
        default_reward
            The reward to record if none has arrived; by default nothing is learned then.
        """
        window = window_from(self._state.policy, "after", after, default_reward, self.now())
        expired: int = 0
        last: Waiting | None = None
        while True:
            last, closed = self._writer.submit(Expire(window, _EXPIRE_AT_ONCE, last))
            expired += closed
            if last is None:
                self._report_unknown(window.before)
                return expired

    def _report_unknown(self, before: float) -> None:
        """Warn if something waits for a reward that is no decision of the journal."""
        for _, id, rank in self.journal.waiting(before, 1):
            if rank >= 0 and self.journal.decision(id) is None:
                warnings.warn(
                    f"the journal says that {id!r} waits for a reward, but has no such decision: `rolin journal check` "
                    "lists the damage",
                    stacklevel=3,
                )

    # -- logs --------------------------------------------------------------------------------

    def export_log(self, path: str | PathLike[str], *, progress: Progress = False) -> int:
        """Write all decisions with their rewards to a file, one row each; return the number of rows.

        Decisions that were never activated are left out, because nobody has seen them.

        Parameters
        ----------
        path
            A file that ends in `.csv`, `.csv.gz` or `.parquet`. `import_log` can read it.
        progress
            `True` shows a bar; a function is called with the number of decisions written since its last call.
        """
        return export(self.journal, Path(path), progress=progress)

    def to_frame(self) -> pd.DataFrame:
        """Return all decisions with their rewards as a data frame, one row each."""
        return frame_of(
            past._replace(decision=self._state.with_contexts(past.decision))
            for past in read_journal(self.journal)
        )

    def import_log(
        self,
        source: str | PathLike[str] | Iterable[PastDecision] | pd.DataFrame,
        **columns: Any,
    ) -> int:
        """Record past decisions and learn from them, all or none; return the number of new ones.

        Decisions whose id is already in the journal are skipped, so an import can be repeated.

        Parameters
        ----------
        source
            An exported file; any CSV, Parquet or data frame with an arm, a reward and the features of the
            arm; a `.dsjson` log of Vowpal Wabbit; or a list of past decisions.
        columns
            The meaning of the columns: see [`read_decisions`][rolin.logs.read_decisions] and
            [`read_dsjson`][rolin.logs.read_dsjson].
        """
        for name in ("feature_map", "now"):
            if name in columns:
                raise UnknownOption(f"import_log has no option {name!r}: the bandit uses its own")
        pasts = past_decisions(source, now=self.now(), feature_map=self.feature_map, **columns)
        if self.feature_map is None:
            pasts = [reread(past, None) for past in pasts]
        for i, past in enumerate(pasts, start=1):
            try:
                check_past(past, self.policy, has_map=self.feature_map is not None)
            except InputError as error:
                raise DataError(f"decision {i}: {error}") from error
        new: int = self._writer.submit(ImportDecisions(pasts))
        return new

    # -- changing the model ------------------------------------------------------------------

    def remove_arm(self, arm: Name) -> None:
        """Remove an arm: offering it is an error until it is restored.

        Parameters
        ----------
        arm
            Name of the arm.
        """
        self._writer.change(RemoveArm(canonical(arm)))

    def restore_arm(self, arm: Name, *, with_past: bool = True) -> None:
        """Restore a removed arm, with what was learned about it or as a new arm with the old name.

        If it starts as a new arm, rewards of earlier decisions still count for the old one.

        Parameters
        ----------
        arm
            Name of the arm.
        with_past
            Whether it continues with what was learned about it.
        """
        with_past = flag_of("with_past", with_past)
        self._writer.change(RestoreArm(canonical(arm), with_past))

    def decay(self, factor: float) -> None:
        """Forget: multiply all evidence by a factor above 0 and at most 1.

        Parameters
        ----------
        factor
            Above 0 and at most 1.
        """
        factor = check_factor(factor)
        if not hasattr(self.policy, "decay"):
            raise Unsupported(f"{type(self.policy).__name__} cannot forget")
        self._writer.change(Decay(factor))

    def learn_scales(self) -> None:
        """Estimate now, from all evidence, the scales that were given as `"learn"`."""
        if not self.policy.learns_scales or adaptive_of(self.policy) is None:
            raise ParameterError("all scales were given as numbers, expected some as 'learn'")
        self._writer.change(LearnScales())

    def change_settings(
        self,
        *,
        floor: float | None = None,
        control_share: float | None = None,
        propensities: bool | None = None,
        exploration: Exploration | None = None,
        mode: Mode | None = None,
        share: float | None = None,
    ) -> None:
        """Use other settings from now on; those that are not given stay as they are.

        Parameters
        ----------
        floor
            Least probability of every arm.
        control_share
            Share of the control group.
        propensities
            Whether to compute and record the probability of every arm.
        exploration
            Factor on the posterior's standard deviations, or `"auto"`, for policies that have it, such as `RoLinTS`.
        mode
            Who chooses, and whether rewards are learned: `"online"`, `"apprentice"` or `"stopped"`. Other processes
            follow when they next write, or on `refresh`.
        share
            Share of people for whom the policy decides, in the mode `"online"`.
        """
        settings = settings_of(floor, control_share, propensities, mode, share)
        if exploration is not None:
            if not hasattr(type(self.policy), "exploration"):
                raise Unsupported(f"{type(self.policy).__name__} has no option `exploration`")
            settings["exploration"] = exploration_of(exploration)
        self._writer.change(ChangeSettings(settings))

    # -- a shadow ----------------------------------------------------------------------------

    def start_shadow(self, policy: Policy[Any]) -> None:
        """Let a second policy learn from the same rewards from now on; it never decides.

        What it would choose is recorded beside every decision (`decision.shadow`), except in the mode `"stopped"`. It
        learns from the rewards that arrive from now on, also those of earlier decisions, and starts with what it has learned
        before. A shadow that is running is replaced.

        Parameters
        ----------
        policy
            A policy of `rolin`; the shadow is a copy. It must have the same number of features.
        """
        self._writer.change(StartShadow(policy))

    def stop_shadow(self) -> None:
        """End the shadow, and forget what it has learned: `bandit.shadow.save(path)` keeps it."""
        self._writer.change(StopShadow())

    @property
    def shadow(self) -> Policy[Any] | None:
        """The shadow in its present state, or `None`; read it, but do not change it."""
        with self._state.lock:
            self._state.repair()
            return self._state.shadow

    # -- maintaining the journal -------------------------------------------------------------

    def refresh(self) -> int:
        """Learn the events that other processes have written, and return the version."""
        self._writer.refresh()
        return self.version

    def snapshot(self) -> int:
        """Store a snapshot, so that opening the journal is fast; return its version."""
        version = self._writer.upkeep.snapshot()
        self._writer.upkeep.after_write()  # the log of the journal has grown
        return version

    def erase(
        self,
        *,
        ids: Iterable[str] | None = None,
        person: str | None = None,
        older_than: timedelta | datetime | float | None = None,
        limit: int | None = None,
        wipe: bool = True,
    ) -> int:
        """Erase decisions and their rewards from the journal, and return the number of decisions.

        Give exactly one of the three options. The state does not change, so what was learned from these decisions
        stays; a snapshot of it is stored. Earlier states cannot be rebuilt, and later rewards for these decisions
        raise `UnknownDecision`. Early rewards without a decision are erased as well, by their id or their age.

        Parameters
        ----------
        ids
            Erase the decisions with these ids.
        person
            Erase the decisions made for this person.
        older_than
            Erase decisions of this age or older: a `timedelta`, a number of seconds, or a `datetime` with a time
            zone.
        limit
            With `older_than`: erase at most so many decisions, so that others do not wait for long; call it again
            until it returns fewer. It erases in the order of recording, and may leave out old decisions that were
            recorded after 1000 younger ones, such as those of an imported log.
        wipe
            Whether to empty SQLite's write-ahead log, which still holds bytes of them. This waits for processes that
            are reading, and raises `JournalError` if they do not end. With `False`, call `journal.wipe_log()` later.
        """
        if sum(given is not None for given in (ids, person, older_than)) != 1:
            raise ParameterError(
                "expected exactly one of ids, person and older_than: which decisions to erase"
            )
        if limit is not None and older_than is None:
            raise ParameterError("limit needs older_than: it says how many old decisions to erase")
        return self._writer.remove(
            Removal(
                [text_of("id", id) for id in listed("ids", () if ids is None else ids)],
                [] if person is None else [text_of("person", person)],
                None if older_than is None else erase_before(older_than, self.now()),
                None if limit is None else count_of("limit", limit, least=1),
                flag_of("wipe", wipe),
            )
        )

    # -- reading -----------------------------------------------------------------------------

    def waiting(self, *, limit: int = 1000) -> list[str]:
        """Return the ids of decisions that have no outcome yet, the oldest first.

        Parameters
        ----------
        limit
            The maximum number of arms to look at, and of early rewards, which are left out.
        """
        arms = self.journal.waiting(math.inf, count_of("limit", limit, least=1))
        return list(dict.fromkeys(arm.id for arm in arms if arm.rank >= 0))

    def predict(
        self,
        contexts: Mapping[Any, Any] | ArrayLike | None = None,
        arms: Iterable[Name] | None = None,
        *,
        situation: Any = None,
    ) -> Prediction | LogitPrediction:
        """Return mean and standard deviation of each arm's mean reward, as `(mean, std)`.

        Parameters
        ----------
        contexts
            As for `decide`.
        arms
            As for `decide`.
        situation
            As for `decide`.
        """
        with self._state.lock:
            policy, _ = self._state.current()
            if not hasattr(policy, "predict"):
                raise Unsupported(f"{type(policy).__name__} does not predict rewards")
            vectors, names, _ = self._decider.vectors(contexts, arms, situation)
            found: Prediction | LogitPrediction = policy.predict(vectors, names)
            return found

    def diagnose(
        self,
        *,
        feature_names: Sequence[str] | None = None,
        contexts: Sequence[ArrayLike] | NDArray[np.float64] | None = None,
        arms: Sequence[Any] | None = None,
    ) -> Diagnosis:
        """Test whether arms differ by something that the features miss, and what that is worth.

        Parameters
        ----------
        feature_names
            Names of the d features for the report; by default those of the feature map.
        contexts
            For each of some decisions, the (K, d) contexts of its candidates, such as those of a log. They say among which
            arms choices are made, for the gain of choosing with arm effects. By default one choice among all arms with
            their average features.
        arms
            For each decision, a list of its K arms; or one list for all. By default 0 … K - 1, or without contexts,
            all arms that were not removed.
        """
        if not hasattr(self.policy, "diagnose"):
            raise Unsupported(f"{type(self.policy).__name__} has no moments to diagnose")
        own: Any = self.copy_policy()  # a diagnosis may take seconds, for which nobody waits
        found: Diagnosis = own.diagnose(feature_names=feature_names, contexts=contexts, arms=arms)
        return found

    def explain(
        self,
        decision: LoggedDecision | str,
        arm: Name | None = None,
        *,
        against: Name | None = None,
        as_of: Literal["decision", "now"] = "decision",
    ) -> Explanation:
        """Explain the score of an arm: the contribution of each feature, by name, with its uncertainty.

        Parameters
        ----------
        decision
            A decision, or its id.
        arm
            One of the offered arms; by default the chosen one.
        against
            Another offered arm, to explain the difference between the two.
        as_of
            `"decision"`: explain with what the model knew when it decided; if it has learned since, the journal
            is read again. `"now"`: explain with what it knows now.
        """
        if not isinstance(decision, LoggedDecision):
            if not isinstance(decision, str):
                raise InputError(f"decision={decision!r}, expected a decision or its id")
            found = self._state.decision(text_of("decision", decision))
            if found is None:
                raise UnknownDecision(unknown_message(str.__str__(decision)))
            decision = found
        return explain(self._state, self._writer.refresh, decision, arm, against, as_of)

    @property
    def policy(self) -> P:
        """The policy in its present state; read it, but do not change it."""
        with self._state.lock:
            return self._state.current().policy

    def copy_policy(self) -> P:
        """Return a copy of the policy in its present state, for work that takes long."""
        with self._state.lock:
            return copy.deepcopy(self._state.current().policy)

    def preview(self, request: Decide) -> list[LoggedDecision]:
        """Return the decisions that a request would make now, without recording them.

        Parameters
        ----------
        request
            The questions. Whether their ids are stored already is not looked up.
        """
        return self._decider.preview(request)

    @contextmanager
    def hold_policy(self) -> Iterator[P]:
        """Give the policy in its present state; until the block ends, nothing is decided or learned."""
        with self._state.lock:
            yield self._state.current().policy

    @property
    def settings(self) -> SettingsChanged:
        """The settings: floor, control_share, propensities, exploration and mode, and when they were last changed."""
        return self._state.settings

    @property
    def version(self) -> int:
        """Number of the last event that the state knows."""
        return self._state.version

    @property
    def writing(self) -> float:
        """Seconds that the present write has taken so far; 0 if there is none. It grows if the disk does not answer."""
        return self._writer.writing

    def stats(self) -> BanditStats:
        """Return how much waits to be written or learned, since when, and how large the journal is."""
        return self._writer.stats()

    def watch(self, observer: Observer) -> None:
        """Tell an observer of every batch of requests that is written from now on, such as for metrics.

        Parameters
        ----------
        observer
            An object with the method `written`.
        """
        self._writer.observers.append(observer)

    def close(self) -> None:
        """Wait for what is done in the background, and close the journal, unless it was passed in open."""
        if hasattr(self, "_writer"):
            self._writer.upkeep.wait()
        if self._owns_journal:
            self.journal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        now = self._state.settings
        return (
            f"Bandit({self.policy!r}, floor={now.floor:g}, control_share={now.control_share:g}, "
            f"propensities={now.propensities}, mode={now.mode!r}, share={now.share:g}, version={self.version})"
        )
