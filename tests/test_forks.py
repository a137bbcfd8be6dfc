"""After a fork, a bandit of the parent answers with an error in the child; it never hangs."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import rolin
from rolin.errors import JournalError
from rolin.journal.sqlite_file import SQLiteFile

# A thread decides all the time, so that locks are held at the moment of most forks. Each child makes some calls, all of
# which must end; an alarm kills one that hangs.
CODE = """
import os, signal, sys, threading, warnings
import numpy as np
import rolin
from rolin.errors import JournalError

warnings.simplefilter("ignore", DeprecationWarning)  # forking with threads, which is the point
path, forks = sys.argv[1], int(sys.argv[2])
# With known scales, so that no estimate of scales is among the events.
policy = rolin.RoLinTS(n_features=2, coef_std=1.0, arm_std=0.5, noise_std=1.0, intercept_std=None, seed=1)
bandit = rolin.Bandit(policy, journal=None if path == "memory" else path)
known = bandit.decide(np.eye(2)).id
bandit.reward(known, 1.0)
stop = False

def work():
    while not stop:
        bandit.reward(bandit.decide(np.eye(2)).id, 1.0)

thread = threading.Thread(target=work)
thread.start()
calls = [
    lambda: bandit.decide(np.eye(2)), lambda: bandit.reward(known, 1.0), lambda: bandit.explain(known),
    lambda: bandit.expire(1e9), bandit.snapshot, bandit.refresh, lambda: bandit.decay(0.5),
]
hung = silent = 0
for i in range(forks):
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        refused = 0
        for call in calls:
            try:
                call()
            except JournalError as error:
                refused += "before a fork" in str(error)
        bandit.close()
        # Explaining a decision with a journal in memory reads only; all other calls are refused.
        os._exit(0 if refused >= len(calls) - 1 else 1)
    _, status = os.waitpid(child, 0)
    hung += os.WIFSIGNALED(status)
    silent += os.WIFEXITED(status) and os.WEXITSTATUS(status) != 0
stop = True
thread.join()
before = bandit.version
bandit.reward(bandit.decide(np.eye(2)).id, 1.0)
assert bandit.version == before + 2
print(hung, silent)
"""


def forked(where: str, forks: int) -> str:
    """Fork in a process of its own; return how many children hung, and how many were not refused."""
    run = subprocess.run(
        [sys.executable, "-c", CODE, where, str(forks)],
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.parametrize("where", ["memory", "file"])
def test_a_forked_child_does_not_hang(where: str, tmp_path: Path) -> None:
    """Of 20 children forked while a thread decides, none hangs and none writes."""
    assert forked(str(tmp_path / "j.db") if where == "file" else where, 20) == "0 0"


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_many_forked_children_do_not_hang(tmp_path: Path) -> None:
    """The same with 200 children."""
    assert forked(str(tmp_path / "j.db"), 200) == "0 0"


# Two threads write all the time, while children open bandits of their own: on the same file, and on another one.
OWN = """
import os, signal, sys, threading, time, warnings
import numpy as np
import rolin

warnings.simplefilter("ignore", DeprecationWarning)
path, forks = sys.argv[1], int(sys.argv[2])
bandit = rolin.Bandit(rolin.RoLinTS(n_features=2, seed=1), journal=path)
for _ in range(3):  # compile, because a fork during a compilation is not safe
    bandit.reward(bandit.decide(np.eye(2)).id, 1.0)
stop = False

def work():
    while not stop:
        bandit.reward(bandit.decide(np.eye(2)).id, 1.0)

threads = [threading.Thread(target=work) for _ in range(2)]
for thread in threads:
    thread.start()
failed = []
for i in range(forks):
    time.sleep(0.003)
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        with rolin.Bandit(journal=path) as own:
            own.reward(own.decide(np.eye(2), id=f"child-{i}").id, 1.0)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if status:
        failed.append((i, status))
stop = True
for thread in threads:
    thread.join()
bandit.close()
with rolin.Bandit(journal=path) as last:
    missing = [i for i in range(forks) if not last.journal.outcomes(f"child-{i}")]
print(failed, missing, rolin.journal.check_journal(path).problems)
"""


def opened_in_children(path: Path, forks: int) -> str:
    """Open a journal in forked children; return those that failed, and what is missing or damaged."""
    run = subprocess.run(
        [sys.executable, "-c", OWN, str(path), str(forks)],
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return run.stdout.strip() + run.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_child_opens_the_journal_again(tmp_path: Path) -> None:
    """It reads and writes beside its parent: nothing is lost, torn or locked."""
    assert opened_in_children(tmp_path / "j.db", 25) == "[] [] ()"


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_many_children_open_the_journal_again(tmp_path: Path) -> None:
    """The same with 200 children."""
    assert opened_in_children(tmp_path / "j.db", 200) == "[] [] ()"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_in_a_transaction_is_noticed(tmp_path: Path) -> None:
    """A child that was forked by the thread that writes cannot open the file, and says so."""
    path = tmp_path / "j.db"
    with rolin.Bandit(rolin.RoLinTS(n_features=2, seed=1), journal=path) as bandit:
        with bandit.journal.turn():
            child = os.fork()
            if child == 0:
                try:
                    rolin.Bandit(journal=path)
                except JournalError as error:
                    os._exit(
                        0 if "was being written when this process was forked" in str(error) else 2
                    )
                os._exit(1)
            assert os.waitpid(child, 0)[1] == 0
        bandit.decide(np.eye(2), id="after")
    with rolin.Bandit(journal=path) as again:
        assert again.journal.decision("after") is not None


def test_a_fork_waits_for_a_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs on a connection of its own, which a child must not inherit."""
    monkeypatch.setattr("rolin.journal.sqlite_file._WAIT", 0.05)
    file = SQLiteFile(tmp_path / "j.db", readonly=False)
    running, go_on = threading.Event(), threading.Event()
    connect = file._connect

    def slow() -> sqlite3.Connection:
        running.set()
        assert go_on.wait(10.0)
        return connect()

    monkeypatch.setattr(file, "_connect", slow)
    thread = threading.Thread(target=file.checkpoint_in_background)
    thread.start()
    assert running.wait(10.0)
    file.before_fork()
    assert not file._is_quiet
    file.after_fork(in_child=False)
    go_on.set()
    thread.join()
    file.before_fork()
    assert file._is_quiet
    file.after_fork(in_child=False)
    file.close()
