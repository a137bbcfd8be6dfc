"""What a service says about a bandit beyond its decisions: explanations, a diagnosis, evaluations, and its log."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rolin import offline
from rolin.bandit import Bandit
from rolin.errors import DataError, InputError
from rolin.logs.rules import UnnamedColumns
from rolin.policies import Policy
from rolin.service.errors import Refusal
from rolin.service.places import EXPLANATION, refusal_at

__all__ = ["diagnose", "evaluate", "explain", "export", "import_log"]

_PART = 1 << 20  # bytes of a file that are sent at a time


async def explain(
    bandit: Bandit[Any], id: str, arm: str | None, against: str | None, as_of: Any
) -> dict[str, Any]:
    """Explain the score of an arm in a decision."""
    try:
        found = await asyncio.to_thread(bandit.explain, id, arm, against=against, as_of=as_of)
    except InputError as error:
        raise refusal_at(error, EXPLANATION) from error
    return asdict(found)


async def diagnose(bandit: Bandit[Any]) -> dict[str, Any]:
    """Test whether arms differ by something that the features miss."""
    found = await asyncio.to_thread(bandit.diagnose)
    report: dict[str, Any] = json.loads(found.to_json())
    return {"text": str(found), **report}


async def evaluate(bandit: Bandit[Any], policy: Policy[Any], label: str) -> dict[str, Any]:
    """Estimate what another policy would have earned, from the journal."""

    def work() -> dict[str, Any]:
        # Decisions that still wait for a reward say nothing yet.
        log = offline.read(bandit, missing="drop", first_rank=True)
        found: dict[str, Any] = json.loads(offline.evaluate(log, policy, label=label).to_json())
        return found

    return await asyncio.to_thread(work)


async def export(bandit: Bandit[Any], kind: str) -> AsyncIterator[bytes]:
    """Return the log of all decisions, in parts of a file of a kind: csv or parquet."""
    folder = tempfile.TemporaryDirectory()
    path = Path(folder.name) / f"log.{kind}"
    # Before the first part is sent, so that a failure is answered as such.
    await asyncio.to_thread(bandit.export_log, path)

    async def parts() -> AsyncIterator[bytes]:
        with folder, path.open("rb") as file:
            while part := await asyncio.to_thread(file.read, _PART):
                yield part

    return parts()


async def import_log(
    bandit: Bandit[Any], data: bytes, kind: str, columns: Mapping[str, str]
) -> int:
    """Learn from a log of past decisions; return how many were new.

    Parameters
    ----------
    bandit
        The bandit.
    data
        The log.
    kind
        Its format: csv, parquet or dsjson.
    columns
        The names of its columns by their meaning; several names are separated by commas.
    """
    options: dict[str, Any] = {
        name: _listed(text) if name in ("features", "situation") else text
        for name, text in columns.items()
    }

    def work() -> int:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"log.{kind}"
            path.write_bytes(data)
            try:
                return bandit.import_log(path, **options)
            except DataError as error:
                if isinstance(error.__cause__, UnnamedColumns):
                    raise _unnamed(error.__cause__) from error
                # It names a file that the caller does not know.
                raise Refusal(400, str(error).replace(str(path), "the log")) from error
            except InputError as error:  # this kind of log has no such columns
                raise refusal_at(error, {name: name for name in columns}) from error

    return await asyncio.to_thread(work)


def _listed(text: str) -> list[str]:
    """Return names that are separated by commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


def _unnamed(error: UnnamedColumns) -> Refusal:
    """Return the refusal of a log of which it is not known what the features are."""
    return Refusal(
        400,
        f"the log: {error.why}, expected the columns of the features in the address: those of the arm as "
        "?features=a,b, and those of the situation as &situation=c; there are "
        f"{', '.join(map(repr, error.columns))}",
        field="features",
    )
