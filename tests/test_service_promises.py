"""The state of each promise says what is wrong, and only then."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rolin import Bandit, RoLinTS
from rolin.journal import MemoryJournal, SQLiteJournal
from rolin.journal.base import StorageReport
from rolin.journal.events import IgnoredReward, LoggedDecision, Outcome
from rolin.service.statistics.fold import Statistics
from rolin.service.statistics.promises import promises_of

FULL = StorageReport("synchronous=FULL", True, log_bytes=1 << 20)


def states(statistics: Statistics | None = None, **facts: Any) -> list[tuple[str, str]]:
    """Return state and text of each promise."""
    given = {"problem": None, "durable": True, "storage": FULL, "written": 5.0, "queued": 0}
    found = promises_of(statistics or Statistics(), **{**given, **facts})
    return [(promise.state, promise.text) for promise in found]


@pytest.mark.parametrize(
    ("facts", "state", "text"),
    [
        ({}, "ok", "The last write succeeded, 5 s ago. Commits are flushed"),
        ({"written": None}, "ok", "Nothing was written since the start"),
        ({"written": 600.0}, "ok", "10 min ago"),
        ({"problem": "the disk is full"}, "broken", "cannot be written: the disk is full."),
        ({"durable": False, "storage": StorageReport()}, "broken", "in memory"),
        (
            {"storage": StorageReport("synchronous=NORMAL", False, log_bytes=0)},
            "broken",
            "not flushed: synchronous=NORMAL",
        ),
        (
            {"storage": StorageReport("synchronous=FULL", True, log_bytes=100 << 20)},
            "watch",
            "100.0 MB; another process",
        ),
        ({"storage": StorageReport()}, "ok", "The last write succeeded"),
    ],
)
def test_durability(facts: dict[str, Any], state: str, text: str) -> None:
    """By the last write, the flushes and the size of the log."""
    found = states(**facts)[0]
    assert found[0] == state
    assert text in found[1]


def test_rewards_that_do_not_count_are_reported() -> None:
    """More than 5 % of them are worth a look; a few are not."""
    statistics = Statistics()
    assert states(statistics)[2] == ("unknown", "There are too few rewards to say.")
    for i in range(95):
        made = LoggedDecision(str(i), 0.0, ("a",), np.zeros((1, 0)), (0,), np.ones(1), 0)
        statistics.fold(made)
        statistics.fold(Outcome(str(i), 1.0, 0, "a", np.zeros(0), 1.0))
    statistics.fold(IgnoredReward("0", 2.0, 0, "a", 1.0, 1.0, None, "late"))
    assert states(statistics)[2] == ("ok", "1 of 96 do not count: 1 late.")
    for i in range(9):
        statistics.fold(IgnoredReward("1", 2.0, i, "a", 0.0, 1.0, None, "conflicting"))
    assert states(statistics)[2] == ("watch", "10 of 105 do not count: 1 late, 9 conflicting.")


def test_a_backlog_is_reported() -> None:
    """Of requests that wait to be written."""
    assert states()[3] == ("ok", "0 requests wait to be written, 0 arms wait for a reward.")
    assert states(queued=500)[3][0] == "watch"


def test_probabilities_need_decisions() -> None:
    """Without them nothing is said."""
    assert states()[1] == ("unknown", "There are too few decisions to test it.")


def test_what_the_library_says_of_itself(tmp_path: Path) -> None:
    """How a journal is stored, how much waits, and a copy of the policy that later rewards leave alone."""
    assert MemoryJournal().storage() == StorageReport()
    with SQLiteJournal(tmp_path / "journal.db") as journal:
        bandit = Bandit(RoLinTS(n_features=1, seed=0), journal=journal)
        bandit.decide({"a": [1.0]}, id="1")
        found = journal.storage()
        assert (found.durability, found.flushed) == ("synchronous=FULL", True)
        assert found.log_bytes == (tmp_path / "journal.db-wal").stat().st_size > 0
        assert bandit.stats().queued == 0
        copy = bandit.copy_policy()
        bandit.reward("1", 1.0)
        assert (copy.arms, bandit.policy.arms) == ([], ["a"])
