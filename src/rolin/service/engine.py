"""One bandit of the service: requests become calls of the library, and their results become answers. No HTTP here."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from functools import partial
from time import time
from typing import Any, TypeVar

import msgspec
import numpy as np
from msgspec import UNSET

from rolin.bandit import AsyncBandit, RewardStatus
from rolin.bandit.question import Question
from rolin.bandit.requests import Decide, decide_request
from rolin.bandit.validation import reward_of
from rolin.errors import (
    DecisionConflict,
    InputError,
    JournalError,
    MaybeRecorded,
    NotLearned,
)
from rolin.journal import LoggedDecision
from rolin.policies import Policy
from rolin.service import schema
from rolin.service.bandit_metrics import BanditMetrics
from rolin.service.building import change_settings, check_rewards, policy_of
from rolin.service.catalogue import check_arm
from rolin.service.decoding import decode
from rolin.service.documents import Documents
from rolin.service.erasing import Eraser
from rolin.service.errors import Failure, Refusal, failure_of
from rolin.service.exposition import Sample
from rolin.service.places import REWARD, REWARD_ITEM, refusal_at, refusal_of_question
from rolin.service.questions import (
    answer_of,
    arms_of,
    fallback_of,
    id_of,
    question_of,
    text_of,
    unrecorded,
)
from rolin.service.served_catalogue import ServedCatalogue
from rolin.service.statistics.estimates import LatestBeliefs
from rolin.service.statistics.watch import Watch
from rolin.service.storage import Document, Storage, Version
from rolin.service.tracing import child_span

__all__ = ["Engine", "Limits"]

Result = TypeVar("Result")
Item = TypeVar("Item")
# Items of a batch that are written together: other requests wait for no more than these.
_TOGETHER = 32
_FOUND = 100  # candidates that are found if a request names no arms, and none are registered
_LATEST = 50  # events among which some are left, even if others were erased
_log = logging.getLogger("rolin.service")
_decision_decoder = msgspec.json.Decoder(schema.DecisionRequest)
_reward_decoder = msgspec.json.Decoder(schema.RewardItem)


class Limits(msgspec.Struct, frozen=True):
    """How much one request may hold."""

    max_arms: int = 10_000
    """Arms of a decision."""
    max_depth: int = 32
    """Nesting of the features in a catalogue."""
    max_batch: int = 1000
    """Decisions or rewards of a batch."""
    lock_timeout: float = 2.5
    """Seconds to wait for another process that locks a journal. A request may wait twice: behind those that are being
    written, and to be written."""
    patience: float = 5.0
    """Seconds that a write may take. Then further requests are refused at once, until it has ended."""
    metrics_arms: int = 100
    """Arms with a label of their own in the metrics."""


class Engine:
    """A named bandit.

    Parameters
    ----------
    name
        Its name.
    storage
        Where it is.
    documents
        What it is made of, and arms that requests need not repeat.
    bandit
        The bandit.
    limits
        How much one request may hold.
    fall_back
        Whether a decision that cannot be recorded is answered with the baseline, instead of an error.
    catalogue
        Arms that requests can name.
    read_only
        Whether decisions are answered without recording them.
    """

    def __init__(
        self,
        name: str,
        storage: Storage,
        documents: Documents,
        bandit: AsyncBandit[Any],
        limits: Limits,
        *,
        fall_back: bool,
        catalogue: ServedCatalogue,
        read_only: bool = False,
    ) -> None:
        self._read_only = read_only
        self.name, self._storage, self.bandit = name, storage, bandit
        self.limits, self._fall_back = limits, fall_back
        self._use(documents)
        self.catalogue = catalogue
        """Arms that requests can name."""
        self._n_features = bandit.bandit.policy.n_features
        self._changing = asyncio.Lock()
        self._metrics = BanditMetrics(limits.metrics_arms)
        bandit.bandit.watch(self._metrics)
        self.eraser = Eraser(bandit.bandit)
        """Erases decisions."""
        self._failure: str | None = None  # why the last write failed
        # Ids of decisions that are being written, and of those for which nobody waits any more.
        self._open: set[str] = set()
        self._left: set[str] = set()
        self.written_at: float | None = None
        """When a request was last written, in seconds since 1970."""
        self.watch = Watch(bandit.bandit.journal, name, stores=not read_only)
        """What happened in the bandit, as statistics."""
        self.beliefs = LatestBeliefs(bandit.bandit)
        """What it believes of its arms."""

    def _use(self, documents: Documents) -> None:
        self.config: schema.BanditConfig = documents.config
        """What it is made of."""
        self.arms: list[str | schema.Arm] | None = documents.arms
        """Arms that requests need not repeat."""
        self.stored_version: Version | None = documents.version
        """Version of these documents, by which changes of other processes are noticed."""

    async def reload(self) -> None:
        """Use the documents as another process has changed them."""
        async with self._changing:
            stored = await asyncio.to_thread(self._storage.read, self.name)
            self._use(Documents.of(self.name, stored))

    # -- decisions -----------------------------------------------------------------------------

    async def decide(self, request: schema.DecisionRequest) -> schema.DecisionAnswer:
        """Choose an arm, and answer when the decision is on the disk."""
        registered = self.arms  # another request may change them meanwhile
        try:
            return await self._decide(request)
        except InputError as error:
            raise refusal_of_question(error, request, registered) from error

    async def _decide(self, request: schema.DecisionRequest) -> schema.DecisionAnswer:
        if request.candidates is not None:
            return await self._decide_by_catalogue(request, request.candidates)
        arms = self.arms if request.arms is None else request.arms
        if arms is None:
            if await self.catalogue.exists():
                return await self._decide_by_catalogue(request, min(_FOUND, self.limits.max_arms))
            raise Refusal(
                400,
                f"arms is missing, none are registered, and there is no catalogue: PUT /v1/bandits/{self.name}/arms "
                "registers them",
                field="arms",
            )
        return await self._decide_among(request, arms)

    async def _decide_among(
        self,
        request: schema.DecisionRequest,
        arms: Sequence[str | schema.Arm],
        *,
        some_left_out: bool = False,
    ) -> schema.DecisionAnswer:
        """Decide; `some_left_out` says that excluded arms are not among them, although they were in the request."""
        self._check_number(arms, "arms")
        contexts, names, situation = self._question(arms, request.situation)
        text = None
        if not (isinstance(contexts, np.ndarray) or some_left_out):
            text = text_of(contexts, names, situation)
        question = Question(contexts, names, situation, request.id, request.person, text)
        try:
            asked = decide_request(
                [question], request.top_k, request.exclude, request.active, request.baseline
            )
            if self._read_only:
                (made,) = await asyncio.to_thread(self.bandit.bandit.preview, asked)
                return unrecorded(answer_of(made))
            made = await self._decided(asked, request.id)
        except JournalError as error:
            # The fallback is only for decisions that are certainly not recorded: its arm may be another one.
            is_open = request.id in self._open or request.id in self._left
            if not self._fall_back or is_open or isinstance(error, MaybeRecorded):
                raise
            shown = fallback_of(request, names)
            self._metrics.fallback(shown.arm)
            return shown
        return answer_of(made)

    async def _decided(self, asked: Decide, id: str | None) -> LoggedDecision:
        """Write a decision, and know its id as long as it may be recorded."""
        made: LoggedDecision
        known = set() if id is None else {id} - self._open
        self._open |= known
        try:
            (made,) = await self._written(lambda: self.bandit.submit(asked))
        except asyncio.CancelledError:
            self._left |= known
            raise
        finally:
            self._open -= known
        return made

    async def _decide_by_catalogue(
        self, request: schema.DecisionRequest, candidates: list[str] | int
    ) -> schema.DecisionAnswer:
        """Decide among arms of the catalogue. A repeated id is asked about as it was then."""
        self._check_candidates(request, candidates)
        arms: list[schema.Arm] = []
        try:
            if isinstance(candidates, int):
                # Not the key of the decision: its random numbers must not depend on those that chose the candidates.
                key = f"candidates of {request.id or secrets.token_hex(8)}"
                # Without a map, a situation is refused when the arms are read.
                has_map = self.bandit.bandit.feature_map is not None
                arms = await self.catalogue.find(
                    candidates,
                    request.exclude,
                    request.baseline,
                    key,
                    request.situation if has_map else None,
                )
            else:
                arms = await self.catalogue.arms(candidates)
            return await self._decide_among(request, arms)
        except (DecisionConflict, Refusal):
            # By now, others may be the best, and the catalogue may be another one, here or in another process.
            if request.id is None or self._read_only:
                raise
            known = (await self.find([request.id])).get(request.id)
            if known is None:
                raise
            if isinstance(candidates, int):
                left_out, is_repeat = False, len(known.offered) in (candidates, len(arms))
            else:
                left = [name for name in candidates if name not in request.exclude]
                left_out, is_repeat = len(left) < len(candidates), left == [*known.offered]
            if not is_repeat:
                raise
            return await self._decide_among(request, arms_of(known), some_left_out=left_out)

    def _check_candidates(
        self, request: schema.DecisionRequest, candidates: list[str] | int
    ) -> None:
        if request.arms is not None:
            raise Refusal(
                400, "arms and candidates are given, expected one of them", field="candidates"
            )
        if isinstance(candidates, list):
            self._check_number(candidates, "candidates")
            return
        if candidates > self.limits.max_arms:
            problem = f"candidates={candidates}, expected at most {self.limits.max_arms}"
            raise Refusal(400, problem, field="candidates")

    def _check_number(self, arms: Sequence[Any], field: str) -> None:
        most = self.limits.max_arms
        if len(arms) > most:
            raise Refusal(413, f"there are {len(arms)} arms, expected at most {most}", field=field)

    def _question(
        self, arms: Sequence[str | schema.Arm], situation: schema.Features
    ) -> tuple[Any, list[str], Any]:
        has_map = self.bandit.bandit.feature_map is not None
        return question_of(arms, situation, self._n_features, has_map=has_map)

    async def decide_batch(self, batch: schema.RawDecisions) -> schema.BatchAnswer:
        """Decide each of several requests; one that is refused leaves the others alone."""
        self._check_batch("decisions", batch.decisions)
        # So that registered arms do not make a small request a huge one.
        left = 10 * self.limits.max_arms

        async def one(raw: msgspec.Raw) -> dict[str, Any]:
            nonlocal left
            request = decode(_decision_decoder, raw)
            named = request.candidates or request.arms or self.arms or _FOUND
            left -= named if isinstance(named, int) else len(named)
            if left < 0:
                raise Refusal(
                    413, f"the batch has more than {10 * self.limits.max_arms} arms", field="arms"
                )
            return {"status": 201, **msgspec.to_builtins(await self.decide(request))}

        return await self._each(one, batch.decisions)

    async def find(self, ids: Sequence[str]) -> dict[str, LoggedDecision]:
        """Return the stored decisions among some ids."""
        found = await asyncio.to_thread(self.bandit.bandit.journal.find, ids)
        return {id: each.decision for id, each in found.items() if each.decision is not None}

    async def decision(self, id: str) -> schema.DecisionAnswer:
        """Return a stored decision."""
        found = await asyncio.to_thread(self.bandit.bandit.journal.decision, id)
        if found is None:
            raise Refusal(404, f"there is no decision {id!r}")
        return answer_of(found)

    async def activate(self, id: str) -> None:
        """Say that a decision made in advance is in use."""
        await self._written(lambda: self.bandit.activate(id))

    async def activate_batch(self, batch: schema.ActivationBatch) -> schema.BatchAnswer:
        """Activate several decisions."""
        self._check_batch("decisions", batch.decisions)

        async def one(id: str) -> dict[str, Any]:
            await self.activate(id)
            return {"status": 204}

        return await self._each(one, batch.decisions)

    # -- rewards -------------------------------------------------------------------------------

    async def reward(self, id: str, request: schema.RewardRequest) -> RewardStatus:
        """Record the reward of a decision; return what became of it."""
        adds_up = self.config.rewards.rule == "sum"
        if adds_up and request.id is None:
            raise Refusal(
                400, "the rewards of this bandit add up, expected an id for each", field="id"
            )
        if not adds_up and request.id is not None:
            raise Refusal(
                400,
                'this bandit counts the first reward only, expected no id: it belongs to the rule "sum"',
                field="id",
            )
        try:
            return await self._written(
                lambda: self.bandit.record_reward(
                    id,
                    request.value,
                    arm=request.arm,
                    weight=request.weight,
                    reward_id=request.id,
                    window=self.config.rewards.window,
                    default_reward=self.config.rewards.default,
                )
            )
        except InputError as error:
            fields = REWARD_ITEM if isinstance(request, schema.RewardItem) else REWARD
            raise refusal_at(error, fields) from error

    def check_reward(self, value: float) -> None:
        """Reject a reward that the policy cannot learn from."""
        reward_of("value", value, self.bandit.bandit.policy)

    async def reward_batch(self, batch: schema.RawRewards) -> schema.BatchAnswer:
        """Record several rewards; one that is refused leaves the others alone."""
        self._check_batch("rewards", batch.rewards)

        async def one(raw: msgspec.Raw) -> dict[str, Any]:
            item = decode(_reward_decoder, raw)
            became = await self.reward(item.decision, item)
            return {"status": 202 if became == "early" else 204, "became": became}

        return await self._each(one, batch.rewards)

    async def expire(self) -> int:
        """Close decisions whose window has ended; return how many arms were closed."""
        window = self.config.rewards.window
        if window is None:
            return 0
        default = self.config.rewards.default
        return await asyncio.to_thread(self.bandit.bandit.expire, window, default_reward=default)

    async def retain(self) -> int:
        """Erase decisions that are older than the retention, and return how many."""
        return await self.eraser.retain(self.config.retention, self.expire)

    # -- reading and changing ------------------------------------------------------------------

    def info(self) -> schema.BanditInfo:
        """Return the bandit as it is now."""
        bandit = self.bandit.bandit
        now, policy = bandit.settings, bandit.policy
        settings = schema.Settings(
            now.mode, now.floor, now.control_share, now.share, now.propensities
        )
        if "exploration" in policy.settings:
            settings.exploration = policy.settings["exploration"]
        shadow = None if bandit.shadow is None else type(bandit.shadow).__name__
        return schema.BanditInfo(
            self.name,
            self.config,
            settings,
            bandit.version,
            policy.n_features,
            len(policy.arms),
            shadow,
        )

    @property
    def is_untouched(self) -> bool:
        """Whether nothing was decided, learned or changed since it was created with all defaults."""
        # The first event is the feature map.
        is_new = self.bandit.bandit.version <= 1 and self.arms is None
        return is_new and self.config == schema.BanditConfig()

    async def times(self) -> tuple[float, float]:
        """Return when the first event and the last one happened, in seconds since 1970."""
        bandit = self.bandit.bandit

        def work() -> tuple[float, float]:
            times = [
                event.time
                for after in (0, max(bandit.version - _LATEST, 0))
                for _, event in bandit.journal.read(after=after, upto=after + _LATEST)
            ]
            return (times[0], times[-1]) if times else (bandit.settings.time,) * 2

        return await asyncio.to_thread(work)

    async def change(self, change: schema.BanditChange) -> None:
        """Change settings; those that are not given stay as they are."""
        # A caller that gives up leaves nothing half done.
        await asyncio.shield(self._change(change))

    async def _change(self, change: schema.BanditChange) -> None:
        async with self._changing:
            rewards = change.rewards.applied_to(self.config.rewards)
            retention = self.config.retention if change.retention is UNSET else change.retention
            check_rewards(rewards, retention, self.bandit.bandit.policy)
            if settings := change.settings.given():
                await asyncio.to_thread(change_settings, self.bandit.bandit, settings)
            if change.rewards != schema.RewardChange() or change.retention is not UNSET:
                await self._change_document("config", self._with(change))

    def _with(self, change: schema.BanditChange) -> Callable[[bytes | None], bytes]:
        """Return what changes the rules of the rewards and the retention in a configuration."""

        def changed(stored: bytes | None) -> bytes:
            config = msgspec.json.decode(stored or b"{}", type=schema.BanditConfig)
            rewards = change.rewards.applied_to(config.rewards)
            retention = config.retention if change.retention is UNSET else change.retention
            new = msgspec.structs.replace(config, rewards=rewards, retention=retention)
            return msgspec.json.encode(new)

        return changed

    async def _change_document(
        self, document: Document, change: Callable[[bytes | None], bytes]
    ) -> None:
        await asyncio.to_thread(self._storage.change, self.name, document, change)
        stored = await asyncio.to_thread(self._storage.read, self.name)
        self._use(Documents.of(self.name, stored))

    async def register(self, given: schema.ArmList) -> None:
        """Register the arms that requests need not repeat."""
        self._check_number(given.arms, "arms")
        self._question(given.arms, None)  # which rejects features of the wrong kind
        await asyncio.shield(self._register(given))

    async def _register(self, given: schema.ArmList) -> None:
        async with self._changing:
            await self._store_arms(given)

    async def _store_arms(self, given: schema.ArmList) -> None:
        content = msgspec.json.encode(given)
        await self._change_document("arms", lambda _: content)

    async def store_catalogue(self, parts: AsyncIterator[bytes]) -> schema.CatalogueInfo:
        """Store a catalogue instead of the present one, if all of it is valid."""
        is_map = self.bandit.bandit.feature_map is not None
        check = partial(check_arm, n_features=None if is_map else self._n_features)
        return await self.catalogue.store(parts, check, self.limits.max_depth)

    async def start_shadow(self, request: schema.PolicyChoice) -> None:
        """Let a second policy learn from the same rewards; it never decides."""
        policy = self.new_policy(request)
        try:
            await asyncio.to_thread(self.bandit.bandit.start_shadow, policy)
        except InputError as error:
            raise refusal_at(error, "policy") from error

    async def stop_shadow(self) -> None:
        """End the shadow."""
        await asyncio.to_thread(self.bandit.bandit.stop_shadow)

    def new_policy(self, request: schema.PolicyChoice) -> Policy[Any]:
        """Return a policy that has learned nothing, for the features of this bandit."""
        bandit = self.bandit.bandit
        d = bandit.policy.n_features
        return policy_of(request.policy, request.options, d, bandit.feature_map)

    async def remove_arm(self, arm: str) -> None:
        """Remove an arm, also from the registered ones: until it is restored, offering it is an error."""
        await asyncio.shield(self._remove_arm(arm))

    async def _remove_arm(self, arm: str) -> None:
        async with self._changing:
            await asyncio.to_thread(self.bandit.bandit.remove_arm, arm)
            self.beliefs.renew()
            left = [each for each in self.arms or () if id_of(each) != arm]
            if self.arms is not None and len(left) < len(self.arms):
                await self._store_arms(schema.ArmList(left))

    async def restore_arm(self, arm: str) -> None:
        """Let a removed arm be offered again, with what was learned about it."""
        await asyncio.to_thread(self.bandit.bandit.restore_arm, arm)
        self.beliefs.renew()

    async def snapshot(self) -> int:
        """Store a snapshot; return its version."""
        return await self._written(lambda: asyncio.to_thread(self.bandit.bandit.snapshot))

    @property
    def problem(self) -> str | None:
        """Why nothing can be written; `None` if nothing is known to be wrong."""
        return self._stuck or self._failure

    @property
    def _stuck(self) -> str | None:
        """The problem if a write does not end."""
        seconds = self.bandit.bandit.writing
        if seconds <= self.limits.patience:
            return None
        return (
            f"a write has not ended after {seconds:.0f} s: the disk or the database does not answer"
        )

    async def _written(self, call: Callable[[], Awaitable[Result]]) -> Result:
        """Return the result of a call that writes; note whether the journal can be written.

        During a write that does not end, nothing is called, so that it is not recorded later.
        """
        if (stuck := self._stuck) is not None:
            self._metrics.write_error()
            raise JournalError(stuck)
        try:
            with child_span("write"):  # wait for the writer, decide or learn, and commit
                result = await call()
        except NotLearned:  # it was written
            raise
        except JournalError as error:
            self._metrics.write_error()
            self._failure = self._storage.without_place(str(error))
            raise
        self._failure, self.written_at = None, time()
        self._left.clear()
        return result

    def samples(self) -> Iterator[Sample]:
        """Yield what is counted of the bandit."""
        return self._metrics.samples(self.name, self.bandit.bandit, ready=self.problem is None)

    def close(self) -> None:
        """Close the journal."""
        self.watch.close()
        self.bandit.bandit.close()
        self.bandit.bandit.journal.close()

    async def _each(
        self, call: Callable[[Item], Awaitable[dict[str, Any]]], items: Sequence[Item]
    ) -> schema.BatchAnswer:
        """Call a function with each item; the result of each is its answer or its error."""
        results: list[dict[str, Any]] = []
        while len(results) < len(items):
            # If the journal cannot be written, all of the rest waits for it at once.
            n = _TOGETHER if self.problem is None else len(items)
            part = items[len(results) : len(results) + n]
            for found in await asyncio.gather(*map(call, part), return_exceptions=True):
                if isinstance(found, Exception):
                    failure: Failure = failure_of(found)
                    if failure.status == 500:
                        extra = {"bandit": self.name, "status": 500}
                        _log.error("an item of a batch failed", exc_info=found, extra=extra)
                    results.append({"status": failure.status, **failure.body()})
                elif isinstance(found, BaseException):
                    raise found
                else:
                    results.append(found)
        return schema.BatchAnswer(results)

    def _check_batch(self, name: str, items: Sequence[Any]) -> None:
        if len(items) > self.limits.max_batch:
            raise Refusal(
                413,
                f"there are {len(items)} {name}, expected at most {self.limits.max_batch}",
                field=name,
            )
