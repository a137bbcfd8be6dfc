"""Read, change and maintain a bandit of the service."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from types import EllipsisType
from typing import TYPE_CHECKING, Any

from rolin._support.optional import needs
from rolin.client.answers import check_done, member, value_of
from rolin.client.deciding import DecidingCalls
from rolin.client.requests import Request, encoded
from rolin.client.retrying import Flow, ask
from rolin.client.running import call
from rolin.client.tables import read_csv
from rolin.client.values import Arms, Decision, Erased, arm_list, id_of
from rolin.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ManagingCalls"]

_KINDS = {".csv": "csv", ".parquet": "parquet", ".pq": "parquet"}
_LOGS = {**_KINDS, ".dsjson": "dsjson", ".json": "dsjson"}


class ManagingCalls(DecidingCalls):
    """The calls of a bandit, for both kinds of clients."""

    def _request(self, method: str, *parts: str, body: Any = None, **options: Any) -> Request:
        content = None if body is None else encoded(body)
        return Request(method, self._path(*parts), content, **options)

    def _ask(self, method: str, *parts: str, **options: Any) -> Flow[dict[str, Any]]:
        """Send a request; return the JSON of its answer."""
        request = self._request(method, *parts, **options)
        return value_of(request, (yield from ask(request, self._limits)))

    def _ask_for(
        self, name: str, kind: type, method: str, *parts: str, **options: Any
    ) -> Flow[Any]:
        """Send a request; return a member of its answer."""
        request = self._request(method, *parts, **options)
        answer = yield from ask(request, self._limits)
        return member(request, value_of(request, answer), name, kind)

    def _do(self, method: str, *parts: str, **options: Any) -> Flow[None]:
        """Send a request whose answer is empty."""
        request = self._request(method, *parts, **options)
        check_done(request, (yield from ask(request, self._limits)))

    @call
    def info(self) -> Flow[dict[str, Any]]:
        """Return the bandit as it is now: its configuration, settings, version, and numbers of features and arms."""
        return (yield from self._ask("GET"))

    @call
    def change(
        self,
        settings: Mapping[str, Any] | None = None,
        rewards: Mapping[str, Any] | None = None,
        *,
        retention: float | EllipsisType | None = ...,
    ) -> Flow[dict[str, Any]]:
        """Change settings; return the bandit as it is then. A repeat sets the same values again.

        Parameters
        ----------
        settings
            Settings to change, such as `{"mode": "stopped"}`; the others stay as they are.
        rewards
            Rules of rewards to change, such as `{"window": 3600}`.
        retention
            Age in seconds at which decisions are erased; `None` to keep them. By default it stays as it is.
        """
        body: dict[str, Any] = {"settings": settings or {}, "rewards": rewards or {}}
        if retention is not ...:
            body["retention"] = retention
        return (yield from self._ask("PATCH", body=body))

    @call
    def arms(self) -> Flow[list[Any]]:
        """Return the registered arms."""
        arms: list[Any] = yield from self._ask_for("arms", list, "GET", "arms")
        return arms

    @call
    def register_arms(self, arms: Arms) -> Flow[None]:
        """Register the arms that `decide` need not repeat; they replace those that are registered.

        Parameters
        ----------
        arms
            The arms: features by arm, or names of arms.
        """
        yield from self._do("PUT", "arms", body={"arms": arm_list(arms)})

    @call
    def start_shadow(self, policy: str, options: Mapping[str, Any] | None = None) -> Flow[None]:
        """Let a second policy learn from the same rewards. It is not sent again, as that would start another one.

        Parameters
        ----------
        policy
            Name of the policy.
        options
            Its options.
        """
        body = {"policy": policy, "options": options or {}}
        yield from self._do("PUT", "shadow", body=body, repeatable=False, slow=True)

    @call
    def stop_shadow(self) -> Flow[None]:
        """End the shadow. It is not sent again, as that could end another one."""
        yield from self._do("DELETE", "shadow", repeatable=False)

    @call
    def explain(
        self, decision: Decision | str, arm: str | None = None, *, against: str | None = None
    ) -> Flow[dict[str, Any]]:
        """Return what each feature contributed to the score of an arm.

        Parameters
        ----------
        decision
            The decision, or its id.
        arm
            The arm; by default the chosen one.
        against
            Another arm to compare it with.
        """
        given = {"arm": arm, "against": against}
        params = {name: value for name, value in given.items() if value is not None}
        parts = ("decisions", id_of(decision), "explanation")
        return (yield from self._ask("GET", *parts, params=params, slow=True))

    @call
    def diagnose(self) -> Flow[dict[str, Any]]:
        """Test whether arms differ by something that the features miss; `text` is a report for people."""
        return (yield from self._ask("GET", "diagnosis", slow=True))

    @call
    def evaluate(
        self, policy: str, options: Mapping[str, Any] | None = None
    ) -> Flow[dict[str, Any]]:
        """Estimate what another policy would have earned. It changes nothing, so it can be repeated.

        Parameters
        ----------
        policy
            Name of the policy.
        options
            Its options.
        """
        body = {"policy": policy, "options": options or {}}
        return (yield from self._ask("POST", "evaluations", body=body, slow=True))

    @call
    def erase(
        self,
        *,
        ids: list[str] | None = None,
        person: str | None = None,
        older_than: float | None = None,
    ) -> Flow[Erased]:
        """Erase decisions by exactly one of the conditions; return their number, and whether bytes of them remain.

        If the connection is lost, it is not sent again, because a repeat would count nothing.

        Parameters
        ----------
        ids
            Ids of decisions.
        person
            Whom the decisions were for.
        older_than
            Age in seconds.
        """
        given = {"ids": ids, "person": person, "older_than": older_than}
        body = {name: value for name, value in given.items() if value is not None}
        request = self._request("POST", "erasures", body=body, repeatable=False, slow=True)
        found = value_of(request, (yield from ask(request, self._limits)))
        return Erased(
            member(request, found, "decisions", int), member(request, found, "log_wiped", bool)
        )

    @call
    def snapshot(self) -> Flow[int]:
        """Store a snapshot; return its version. A repeat stores the same state again."""
        version: int = yield from self._ask_for("version", int, "POST", "snapshots")
        return version

    @call
    def export(self, path: str | PathLike[str]) -> Flow[None]:
        """Write all decisions with their rewards to a file, which appears when it is complete.

        Parameters
        ----------
        path
            A file that ends in `.csv` or `.parquet`. Parquet needs the extra `frames` on the side of the service.
        """
        yield from self._export(Path(path))

    def _export(self, path: Path) -> Flow[None]:
        params = {"format": _kind(path, _KINDS)}
        request = Request("GET", self._path("log"), params=params, slow=True, into=path)
        yield from ask(request, self._limits)

    @call
    def import_log(
        self,
        path: str | PathLike[str],
        *,
        arm: str | None = None,
        reward: str | None = None,
        propensity: str | None = None,
        features: Sequence[str] | None = None,
        situation: Sequence[str] | None = None,
        id: str | None = None,
        time: str | None = None,
        person: str | None = None,
        weight: str | None = None,
    ) -> Flow[int]:
        """Learn from a log of past decisions; return how many were new.

        If the connection is lost, it is not sent again, because a repeat would count nothing. Decisions that the bandit
        knows already are skipped, so you can call it again.

        Parameters
        ----------
        path
            A file that ends in `.csv`, `.parquet`, `.dsjson` or `.json`.
        arm
            Column of the arm that was chosen, by default `arm`; for a `.dsjson` log, the feature that names it.
        reward
            Column of its reward; by default `reward`.
        propensity
            Column of the probability with which it was chosen; by default `propensity`, if there is one.
        features
            Columns of the arm's features, for a table that was not exported.
        situation
            Columns of the situation's features.
        id
            Column of the id of the decision; by default `id`, if there is one.
        time
            Column of the time; by default `time`, if there is one.
        person
            Column of the person; by default `person`, if there is one.
        weight
            Column of the weight of the reward; by default `weight`, if there is one.
        """
        file = Path(path)
        params = {"format": _kind(file, _LOGS)}
        columns = {
            "arm": arm, "reward": reward, "propensity": propensity, "id": id, "time": time, "person": person,
            "weight": weight,
        }  # fmt: skip
        params |= {name: column for name, column in columns.items() if column is not None}
        for name, several in (("features", features), ("situation", situation)):
            if several is not None:
                params[name] = ",".join(several)
        try:
            content = file.read_bytes()
        except OSError as error:
            raise DataError(f"{path} cannot be read: {error}") from error
        request = Request("POST", self._path("log"), content, params, repeatable=False, slow=True)
        answer = yield from ask(request, self._limits)
        new: int = member(request, value_of(request, answer), "decisions", int)
        return new

    @call
    def to_frame(self) -> Flow[pd.DataFrame]:
        """Return all decisions with their rewards as a pandas data frame, one row each. It needs the extra `sim`."""
        with needs("sim"):
            import pandas as pd
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "log.csv"
            yield from self._export(path)
            return pd.DataFrame(**read_csv(path))


def _kind(path: Path, known: dict[str, str]) -> str:
    """Return the format of a file by the ending of its name."""
    try:
        return known[path.suffix]
    except KeyError:
        raise DataError(f"{path} has no known ending, expected one of {', '.join(known)}") from None
