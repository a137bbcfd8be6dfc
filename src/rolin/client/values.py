"""What is asked and answered: questions, decisions and rewards."""

from __future__ import annotations

import html
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from rolin.errors import ParameterError

__all__ = ["Arms", "Candidates", "Decision", "Erased", "Features", "Question", "Reward", "RewardStatus", "id_of", "is_unrecorded", "unrecorded_id"]  # fmt: skip

Features = Mapping[str, Any] | Sequence[float] | None
Arms = Mapping[str, Features] | Sequence[str | Mapping[str, Any]]
"""Features by arm; or names of arms, or objects with `id` and `features`."""
Candidates = Sequence[str] | int
"""Names of arms in the catalogue of the bandit, or how many of them the service shall find."""
RewardStatus = Literal["recorded", "early", "unrecorded"]
"""What became of a reward: it is stored; it is stored and waits for its decision; it was not sent, because its decision
is not recorded."""
_UNRECORDED = "unrecorded-"


@dataclass(frozen=True)
class Decision:
    """A decision of the service, or a fallback.

    Parameters
    ----------
    id
        The id under which to report the reward.
    arm
        The arm to show.
    ranking
        The best arms, the chosen one first.
    probabilities
        The probability with which each arm could be chosen; `None` if they are not recorded.
    version
        The version of the model that decided; `None` for a fallback.
    mode
        Who decided: the policy (`"online"`) or the baseline; `"fallback"` if the service did not answer.
    control
        Whether it belongs to the control group.
    outside_share
        Whether the baseline decided because the person is outside the share of the policy.
    recorded
        Whether the service has it. If not, rewards for this id are not sent.
    active
        Whether it counts: `False` if it is not recorded, was made with `active=False`, or could not be activated. It is
        what this client has done; a decision that it has only read (`bandit.decision`) has `True`.
    activation_lost
        Whether the client tried to activate it, and got no answer: `reward` tries again.
    """

    id: str
    arm: str
    ranking: tuple[str, ...]
    probabilities: Mapping[str, float] | None = None
    version: int | None = None
    mode: str = "online"
    control: bool = False
    outside_share: bool = False
    recorded: bool = True
    active: bool = True
    activation_lost: bool = False

    def _repr_html_(self) -> str:
        rows = [("id", self.id), ("arm", self.arm), ("recorded", str(self.recorded).lower())]
        if len(self.ranking) > 1:
            rows.append(("ranking", ", ".join(self.ranking)))
        rows += [(f"P({arm})", f"{p:.4g}") for arm, p in (self.probabilities or {}).items()]
        return html_table(rows)


@dataclass(frozen=True)
class Question:
    """The question which of some arms should be shown.

    Parameters
    ----------
    arms
        The arms that can be chosen: features by arm, or names of arms. By default those that are registered.
    situation
        Features that all arms share.
    id
        Your own id of the decision; by default a new one.
    person
        Whom it is for: stays in or out of the control group, and can be erased.
    exclude
        Arms that must not be chosen.
    top_k
        Number of arms to rank.
    active
        `False` if it is not known yet whether it will be shown: call `activate` when it is.
    baseline
        The arm to show while the baseline decides; by default the first.
    fallback
        The arm to show if the service does not answer, or a ranking of arms; by default an error is raised.
    candidates
        Instead of `arms`: names of arms in the catalogue of the bandit, or how many of them the service shall find.
    """

    arms: Arms | None = None
    situation: Features = None
    id: str | None = None
    person: str | None = None
    exclude: Collection[str] = ()
    top_k: int = 1
    active: bool = True
    baseline: str | None = None
    fallback: str | Sequence[str] | None = None
    candidates: Candidates | None = None

    def __post_init__(self) -> None:
        self._check_candidates()
        if isinstance(self.arms, str):
            raise ParameterError(f"arms={self.arms!r} is one text, expected a list of arms")
        if self.arms is not None and not isinstance(self.arms, Mapping):
            object.__setattr__(self, "arms", [*self.arms])  # they are read more than once
        if isinstance(self.exclude, str):
            raise ParameterError(f"exclude={self.exclude!r} is one text, expected a list of arms")
        if self.id is not None and is_unrecorded(self.id):
            raise ParameterError(
                f"id={self.id!r} begins with {_UNRECORDED!r}, expected another one: these ids are for fallbacks"
            )
        object.__setattr__(self, "id", self.id or uuid.uuid4().hex)
        self._check_fallback()

    def _check_candidates(self) -> None:
        given = self.candidates
        if given is None:
            return
        if self.arms is not None:
            raise ParameterError("arms and candidates are given, expected one of them")
        if isinstance(given, str):
            raise ParameterError(f"candidates={given!r} is one text, expected names or a number")
        if isinstance(given, bool) or (isinstance(given, int) and given < 1):
            raise ParameterError(f"candidates={given!r}, expected names, or a number above 0")
        if not isinstance(given, int):
            object.__setattr__(self, "candidates", [*given])  # they are read more than once

    def _check_fallback(self) -> None:
        """Reject a fallback that could not be shown, before it is needed."""
        if self.fallback is None:
            return
        if not self.ranking:
            raise ParameterError("fallback is empty, expected an arm or a list of arms")
        for arm in self.ranking:
            if arm in self.exclude or (self.offered is not None and arm not in self.offered):
                why = "excluded" if arm in self.exclude else "none of the arms"
                raise ParameterError(f"fallback={arm!r} is {why}, expected an arm to show")

    @property
    def offered(self) -> set[str] | None:
        """The names of the arms that can be chosen; `None` if only the service knows them."""
        if isinstance(self.candidates, list):
            return {name for name in self.candidates if name not in self.exclude}
        if self.arms is None:
            return None
        names = map(_name, self.arms)
        return {name for name in names if isinstance(name, str) and name not in self.exclude}

    @property
    def ranking(self) -> tuple[str, ...]:
        """The arms of the fallback."""
        given = () if self.fallback is None else self.fallback
        return (given,) if isinstance(given, str) else tuple(given)[: self.top_k]

    @property
    def confirmed(self) -> bool:
        """Whether the decision counts only after the client has said that its answer came in time."""
        return self.active and self.fallback is not None

    def body(self) -> dict[str, Any]:
        """Return the body of the request, without members that have their default."""
        given: dict[str, Any] = {
            "candidates": self.candidates,
            "situation": self.situation,
            "person": self.person,
            "exclude": list(self.exclude) or None,
            "top_k": None if self.top_k == 1 else self.top_k,
            "active": False if self.confirmed or not self.active else None,
            "baseline": self.baseline,
        }
        arms: dict[str, Any] = {} if self.arms is None else {"arms": arm_list(self.arms)}
        return {
            "id": self.id,
            **arms,
            **{name: value for name, value in given.items() if value is not None},
        }

    def fall_back(self) -> Decision:
        """Return the decision for the arm of the fallback, which is not recorded."""
        return Decision(
            f"{_UNRECORDED}{self.id}",
            self.ranking[0],
            self.ranking,
            mode="fallback",
            recorded=False,
            active=False,
        )


@dataclass(frozen=True)
class Reward:
    """The reward of a decision, as an item of a batch.

    Parameters
    ----------
    decision
        The decision, or its id.
    value
        The reward; higher is better.
    arm
        The arm that earned it, if several were ranked; by default the first.
    weight
        How much it counts.
    id
        Your own id of the reward, if the rewards of a decision add up.
    """

    decision: Decision | str
    value: float
    arm: str | None = None
    weight: float = 1.0
    id: str | None = None

    def body(self) -> dict[str, Any]:
        """Return the body of the request, without members that have their default."""
        given = {
            "arm": self.arm,
            "weight": None if self.weight == 1.0 else self.weight,
            "id": self.id,
        }
        return {"value": self.value} | {n: v for n, v in given.items() if v is not None}


class Erased(NamedTuple):
    """What was erased."""

    decisions: int
    """Number of decisions."""
    log_wiped: bool
    """`False` if bytes of them remain for some time, because another process reads the journal, or because the database
    cannot overwrite them."""


def id_of(decision: Decision | str) -> str:
    """Return the id of a decision."""
    return decision.id if isinstance(decision, Decision) else decision


def is_unrecorded(id: str) -> bool:
    """Return whether the id is that of a fallback.

    >>> is_unrecorded("visit-1")
    False
    """
    return isinstance(id, str) and id.startswith(_UNRECORDED)


def unrecorded_id(id: str) -> str:
    """Return the id of a decision that is not recorded.

    >>> unrecorded_id("visit-1")
    'unrecorded-visit-1'
    """
    return id if is_unrecorded(id) else _UNRECORDED + id


def arm_list(arms: Arms) -> list[Any]:
    """Return arms as the service takes them.

    >>> arm_list({"a": {"price": 3}, "b": None})
    [{'id': 'a', 'features': {'price': 3}}, 'b']
    """
    if isinstance(arms, Mapping):
        return [
            name if features is None else {"id": name, "features": features}
            for name, features in arms.items()
        ]
    return list(arms)


def _name(arm: str | Mapping[str, Any]) -> Any:
    return arm.get("id") if isinstance(arm, Mapping) else arm


def html_table(rows: Sequence[tuple[str, str]]) -> str:
    """Return a table of names and values, for notebooks."""
    cells = (
        f"<tr><th>{html.escape(name)}</th><td>{html.escape(value)}</td></tr>"
        for name, value in rows
    )
    return f"<table>{''.join(cells)}</table>"
