"""A journal in PostgreSQL: lost connections, clear errors, and several bandits on one journal."""

from __future__ import annotations

import itertools
import sys
import tempfile
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner

import rolin
from rolin import Bandit
from rolin.cli.app import app
from rolin.errors import JournalError, MissingExtra, ParameterError
from rolin.journal import PostgresJournal, base, check_journal, load_policy
from rolin.journal.base import Header, Removal
from rolin.journal.events import LoggedDecision, Outcome, ScalesLearned
from rolin.journal.folding import state_bytes
from rolin.journal.postgres_database import PostgresDatabase
from support.bandits import Clock
from support.cutting_proxy import Cut, cutting_proxy
from support.journals import decided
from support.policies import fixed
from support.postgres import PostgresServer


@pytest.fixture
def name() -> str:
    """A name that no other journal has."""
    return f"test-{uuid.uuid4().hex}"


@pytest.fixture
def journal(postgres: PostgresServer, name: str) -> Iterator[PostgresJournal]:
    """A journal that has begun."""
    with PostgresJournal(postgres.dsn, name, lock_timeout=5.0) as made:
        made.begin(b"origin", "digest")
        yield made


def end_connections(server: PostgresServer) -> None:
    """End all connections to a server, as a restart would."""
    with psycopg.connect(server.dsn, autocommit=True) as own:
        own.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'rolin'"
        )


def test_commands(postgres: PostgresServer, tmp_path: Path) -> None:
    """`rolin journal` reads and erases journals of a database, and creates none; `rolin backup` names `pg_dump`."""
    dsn, policy = postgres.new_database(), fixed(rolin.RoLinTS, n_features=2)
    with PostgresJournal(dsn, "shop") as made, Bandit(policy, journal=made) as bandit:
        for n in range(6):
            bandit.decide({"a": [1.0, 0.0], "b": [0.0, 1.0]}, id=str(n), person=f"p{n % 2}")
            bandit.reward(str(n), 1.0)

    def run(*words: str) -> str:
        done = CliRunner().invoke(app, [*words])
        return f"{done.exit_code} {done.output}{done.exception or ''}"

    shown = run("journal", "show", dsn, "--name", "shop")
    assert "RoLinTS" in shown
    assert "events     12" in shown
    assert "The journal is whole." in run("journal", "check", dsn, "--name", "shop")
    table = tmp_path / "log.csv"
    assert "Exported 6 decisions" in run("journal", "export", dsn, str(table), "--name", "shop")
    erased = run("journal", "erase", dsn, "--name", "shop", "--person", "p1")
    assert "Erased 3 decisions" in erased
    for command in ("show", "check"):
        problem = run("journal", command, dsn)
        assert "there is no journal 'default' in database" in problem
        assert "the names of its journals are: shop" in problem
    with psycopg.connect(dsn) as own:
        assert own.execute("SELECT to_regnamespace('rolin_default')").fetchone() == (None,)
    assert "expected a file: a service imports" in run("journal", "import", str(table), dsn)
    assert "is no database, expected no name" in run("journal", "show", "j.db", "--name", "shop")
    problem = run("backup", str(tmp_path / "copy"), "--database", dsn)
    assert "pg_dump --format=custom" in problem
    assert not (tmp_path / "copy").exists()


# -- durability ------------------------------------------------------------------------------


def test_commits_wait_for_the_disk(journal: PostgresJournal, postgres: PostgresServer) -> None:
    """Also if the database, or the caller, says otherwise."""
    assert journal._query("SHOW synchronous_commit") == [("on",)]
    weak = f"{postgres.dsn}&options=-c%20synchronous_commit%3Doff"
    with PostgresJournal(weak, journal.name) as other:
        assert other._query("SHOW synchronous_commit") == [("on",)]


def test_what_a_journal_says_of_its_storage(
    journal: PostgresJournal, postgres: PostgresServer
) -> None:
    """The settings of the server, and the bytes of the tables of this journal, indexes and large values included."""
    before = journal.storage()
    with psycopg.connect(postgres.dsn) as own:
        fsync = own.execute("SHOW fsync").fetchone()
        assert fsync is not None
        assert before.durability == f"synchronous_commit=on, fsync={fsync[0]}"
        assert before.flushed == (fsync[0] == "on")
        assert before.log_bytes is None
        journal.append([decided(f"{n}") for n in range(2000)], after=0)
        journal.save_snapshot(2000, bytes(1 << 20))
        found = journal.storage().journal_bytes
        tables = own.execute(
            "SELECT sum(pg_total_relation_size(format('%%I.%%I', schemaname, tablename)::regclass)) FROM pg_tables "
            "WHERE schemaname = %s", (f"rolin_{journal.name}",)
        ).fetchone()  # fmt: skip
    assert (found,) == tables
    assert before.journal_bytes is not None
    assert found is not None
    assert found > before.journal_bytes + (1 << 20)


def test_a_lost_connection_is_opened_again(
    journal: PostgresJournal, postgres: PostgresServer
) -> None:
    """Before anything is written, nobody notices."""
    for n in range(3):
        end_connections(postgres)
        assert journal.append([decided(f"{n}")], after=n) == n + 1
        end_connections(postgres)
        assert journal.header() == Header(n + 1, 0, "digest")


def test_a_connection_that_is_lost_while_writing(
    journal: PostgresJournal, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of it is there, and that is said."""

    def lose(step: str) -> None:
        if step == "inserted":
            end_connections(postgres)
            journal._database.execute("SELECT 1")

    monkeypatch.setattr("rolin.journal.postgres.reached", lose)
    with pytest.raises(JournalError, match=r"terminating connection .*; nothing was written by"):
        journal.append([decided("x")], after=0)
    monkeypatch.undo()
    assert journal.header() == Header(0, 0, "digest")
    assert journal.append([decided("x")], after=0) == 1


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_connection_that_is_lost_during_a_commit(
    journal: PostgresJournal,
    postgres: PostgresServer,
    monkeypatch: pytest.MonkeyPatch,
    is_committed: bool,
) -> None:
    """It is looked up what became of it, also if others have written since."""
    real = PostgresDatabase._commit

    def lost(self: PostgresDatabase, connection: Any) -> None:
        monkeypatch.undo()
        if is_committed:
            connection.execute("COMMIT")
        end_connections(postgres)
        if is_committed:
            with PostgresJournal(postgres.dsn, journal.name) as other:
                other.append([decided("other")], after=2)
        real(self, connection)

    monkeypatch.setattr(PostgresDatabase, "_commit", lost)
    if is_committed:
        assert journal.append([decided("x"), decided("y")], after=0) == 2
    else:
        with pytest.raises(JournalError, match="during a commit; nothing was written by this"):
            journal.append([decided("x"), decided("y")], after=0)
    ids = [event.id for _, event in journal.read() if isinstance(event, LoggedDecision)]
    assert ids == (["x", "y", "other"] if is_committed else [])


def test_a_commit_that_cannot_be_looked_up(
    postgres: PostgresServer, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not acknowledged; the next call sees it, and counts it once."""
    clock = Clock()
    with PostgresJournal(postgres.dsn, name, lock_timeout=0.2) as journal:
        bandit = Bandit(rolin.RoLinTS(n_features=0, seed=1), journal=journal, clock=clock)
        bandit.decide({"a": [], "b": []}, id="x")
        real = PostgresDatabase._connect

        def lost(self: PostgresDatabase, connection: Any) -> None:
            connection.execute("COMMIT")
            monkeypatch.setattr(PostgresDatabase, "_connect", refuse)
            connection.close()
            raise rolin.journal.postgres_database.CommitUnknown

        def refuse(self: PostgresDatabase) -> Any:
            raise psycopg.OperationalError("the server is down")

        monkeypatch.setattr(PostgresDatabase, "_commit", lost)
        with pytest.raises(JournalError, match="repeat the call with the same id to see whether"):
            bandit.reward("x", 1.0)
        with pytest.raises(
            JournalError, match=r"cannot connect \(the server is down\); nothing was written"
        ):
            bandit.reward("x", 1.0)
        monkeypatch.undo()
        assert PostgresDatabase._connect is real
        bandit.reward("x", 1.0)  # a repetition
        assert bandit.version == 2
        assert bandit.policy.posterior.count == 1


def test_commits_that_are_cut(postgres: PostgresServer, name: str) -> None:
    """By a proxy, before or after they reach the server: what was acknowledged is there, once, and nothing else is."""
    numbers = itertools.count()
    cuts: Counter[str | None] = Counter()

    def decide() -> Cut:
        cut: Cut = {3: "before", 7: "after"}.get(next(numbers) % 9)  # type: ignore[assignment]
        cuts[cut] += 1
        return cut

    own = postgres.dsn.rpartition("host=")[2]
    # Not in the folder of the test, whose path is too long for a socket.
    with tempfile.TemporaryDirectory() as folder, cutting_proxy(Path(own), Path(folder), decide):
        journal = PostgresJournal(postgres.dsn.replace(own, folder), name)
        # With known scales, only these calls commit.
        bandit = Bandit(fixed(rolin.RoLinTS, n_features=1, seed=7), journal=journal)
        refused: list[str] = []
        for i in range(60):
            for call in (
                lambda id=f"{i}": bandit.decide({"a": [1.0], "b": [0.5]}, id=id),
                lambda id=f"{i}": bandit.reward(id, 1.0),
            ):
                while True:
                    version = bandit.version
                    try:
                        call()
                        break
                    except JournalError as error:
                        refused.append(str(error))
                    assert bandit.refresh() == version
        journal.close()
    assert all("nothing was written by this call" in message for message in refused)
    assert len(refused) == cuts["before"] > 5
    assert cuts["after"] > 5
    with PostgresJournal(postgres.dsn, name) as journal:
        events = [event for _, event in journal.read()]
        assert check_journal(journal).problems == ()
        policy, _ = load_policy(journal, from_start=True)
        assert state_bytes(policy) == state_bytes(bandit.policy)
    outcomes = [event.id for event in events if isinstance(event, Outcome)]
    assert outcomes == [f"{i}" for i in range(60)]
    assert bandit.policy.posterior.count == 60


def test_a_lock_that_is_not_released(journal: PostgresJournal, postgres: PostgresServer) -> None:
    """Nothing is written; readers do not wait."""
    with PostgresJournal(postgres.dsn, journal.name, lock_timeout=0.1) as other:
        with journal.turn():
            with pytest.raises(JournalError, match=r"locked by another process, also after 0\.1 s"):
                other.append([decided("x")], after=0)
            assert other.header() == Header(0, 0, "digest")
        assert other.append([decided("x")], after=0) == 1


# -- errors ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dsn", "message"),
    [
        ("postgresql://me:top%secret@db/x", "no connection string, expected postgresql://USER"),
        ("nonsense top-secret", "no connection string, expected postgresql://USER"),
        ("", "no text, expected postgresql://USER"),
    ],
)
def test_what_is_no_connection_string(dsn: str, message: str) -> None:
    """Is not quoted, because it may hold a password."""
    with pytest.raises(ParameterError, match=message) as error:
        PostgresJournal(dsn)
    assert "secret" not in str(error.value)


def test_a_database_that_is_not_there(postgres: PostgresServer) -> None:
    """The message says where it was looked for, without the password."""
    with pytest.raises(JournalError, match=r"'x' at 127.0.0.1:1: .*Connection refused") as error:
        PostgresJournal("postgresql://me:top-secret@127.0.0.1:1/x")
    assert "secret" not in str(error.value)
    with pytest.raises(JournalError, match='database "nowhere" does not exist'):
        PostgresJournal(postgres.dsn.replace("/postgres?", "/nowhere?"))


def test_a_database_with_another_encoding(postgres: PostgresServer, name: str) -> None:
    """It could not hold every id."""
    with psycopg.connect(postgres.dsn, autocommit=True) as own:
        own.execute(f"CREATE DATABASE \"{name}\" ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    with pytest.raises(JournalError, match="has the encoding LATIN1, expected UTF8"):
        PostgresJournal(postgres.dsn.replace("/postgres?", f"/{name}?"))


def test_an_address_is_no_file() -> None:
    """A journal in a database has a name, too."""
    with pytest.raises(ParameterError, match=r"expected PostgresJournal\(address, name\)") as error:
        Bandit(rolin.RoLinTS(n_features=0), journal="postgresql://me:secret@db/x")
    assert "secret" not in str(error.value)


def test_names(postgres: PostgresServer) -> None:
    """They become the names of schemas."""
    for wrong in ("", "a b", 'a"b', "x" * 58, "ü", 7):
        with pytest.raises(ParameterError, match="expected 1 to 57 letters"):
            PostgresJournal(postgres.dsn, wrong)  # type: ignore[arg-type]


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names it."""
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.delitem(sys.modules, "rolin.journal.postgres_database")
    with pytest.raises(MissingExtra, match=r"rolin\[postgres\]"):
        PostgresJournal("postgresql://db/x")


def test_a_journal_that_was_deleted(journal: PostgresJournal, postgres: PostgresServer) -> None:
    """It cannot be written any more; nor can another one with its name be taken for it."""
    other = PostgresJournal(postgres.dsn, journal.name)
    assert other.header() == Header(0, 0, "digest")
    journal.delete()
    with pytest.raises(JournalError, match="tables are gone"):
        other.append([decided("x")], after=0)
    with PostgresJournal(postgres.dsn, journal.name) as new:
        with pytest.raises(JournalError, match="was deleted, and another one was created"):
            other.header()  # not `None`, as if it had not begun
        new.begin(b"origin", "digest")
    with pytest.raises(JournalError, match="was deleted, and another one was created"):
        other.append([decided("x")], after=0)
    other.close()


def test_many_open_a_new_journal_at_once(postgres: PostgresServer, name: str) -> None:
    """One of them creates the tables."""
    found: list[object] = []

    def open_it() -> None:
        try:
            with PostgresJournal(postgres.dsn, name) as journal:
                found.append(journal.begin(b"origin", "digest"))
        except BaseException as error:
            found.append(error)

    threads = [threading.Thread(target=open_it) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [Header(0, 0, "digest")] * 6


def test_erased_decisions_are_found_by_no_query(
    journal: PostgresJournal, postgres: PostgresServer
) -> None:
    """Neither by rolin, nor in any table of the journal."""
    journal.append([decided("visit-ann", person="ann"), decided("other")], after=0)
    journal.remove(Removal(people=["ann"]), after=2, state=b"state")
    for table in ("events", "waiting", "states", "journal"):
        rows = journal._query(f"SELECT t::text FROM {table} AS t")
        assert not [row for row in rows if "ann" in str(row)]


def test_damage_is_found(journal: PostgresJournal, postgres: PostgresServer) -> None:
    """Rows that somebody has changed or deleted by hand."""
    bandit = Bandit(
        rolin.RoLinTS(n_features=1, seed=7),
        journal=PostgresJournal(postgres.dsn, f"{journal.name}-2"),
    )
    for i in range(4):
        bandit.decide({"a": [1.0], "b": [0.5]}, id=f"{i}")
    assert isinstance(bandit.journal, PostgresJournal)
    assert check_journal(bandit.journal).problems == ()
    with psycopg.connect(postgres.dsn, autocommit=True) as own:
        schema = f"rolin_{bandit.journal.name}"
        own.execute(f"UPDATE \"{schema}\".events SET body = '{{}}' WHERE seq = 2")
        own.execute(f'DELETE FROM "{schema}".events WHERE seq = 3')
    found = " ".join(check_journal(bandit.journal).problems)
    assert "event 2 is damaged: its checksum does not match" in found
    assert "event 3 is missing" in found
    close([bandit])


@pytest.mark.service  # it runs programs
def test_a_dump_is_a_backup(postgres: PostgresServer, name: str) -> None:
    """Taken while others write, it restores to a journal that is whole."""
    dsn, other = postgres.new_database(), postgres.new_database()
    (bandit,) = opened(dsn, name, 1)
    is_over = threading.Event()

    def visit() -> None:
        for i in itertools.count():
            bandit.reward(bandit.decide({"a": [1.0], "b": [0.5]}, id=f"{i}").id, float(i % 3))
            if is_over.is_set():
                return

    visitor = threading.Thread(target=visit)
    visitor.start()
    while bandit.version < 100:
        time.sleep(0.01)
    file = str(postgres.folder / "data" / f"{name}.dump")
    postgres.program("pg_dump", "--format=custom", f"--file={file}", dsn)
    is_over.set()
    visitor.join()
    postgres.program("pg_restore", f"--dbname={other}", file)
    with PostgresJournal(other, name) as restored:
        assert check_journal(restored).problems == ()
        policy, version = load_policy(restored)
        assert 100 <= version < bandit.version
        earlier, _ = load_policy(bandit.journal, upto=version, from_start=True)
        assert state_bytes(policy) == state_bytes(earlier)
        again = Bandit(journal=restored)
        again.decide({"a": [1.0], "b": [0.5]}, id="new")
        assert again.version == version + 1
    close([bandit])


# -- several bandits on one journal ----------------------------------------------------------


@pytest.fixture
def wasted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Counts the appends that came too late."""
    found: list[int] = []
    monkeypatch.setattr(base.OutOfDate, "__init__", lambda self: found.append(1), raising=False)
    return found


def opened(dsn: str, name: str, n: int, **options: Any) -> list[Bandit[Any]]:
    """Open bandits that share a journal, each as a process of its own would."""
    return [
        Bandit(
            rolin.RoLinTS(n_features=1, seed=7),
            journal=PostgresJournal(dsn, name),
            **options,
        )
        for _ in range(n)
    ]


def close(bandits: list[Bandit[Any]]) -> None:
    """Close bandits and their journals."""
    for bandit in bandits:
        bandit.close()
        bandit.journal.close()


def test_what_one_writes_the_others_know(
    postgres: PostgresServer, name: str, wasted: list[int]
) -> None:
    """Decisions, rewards, settings, arms, expiry and erasure; and nobody plans in vain."""
    clock = Clock()
    one, two = bandits = opened(postgres.dsn, name, 2, clock=clock)
    arms: dict[Any, Any] = {"a": [1.0], "b": [0.5]}
    made = one.decide(arms, id="x")
    again = two.decide(arms, id="x")
    assert (again.arm, again.version, again.time) == (made.arm, made.version, made.time)
    two.reward("x", 1.0)
    one.reward("x", 1.0)  # a repetition
    assert one.policy.posterior.count == two.policy.posterior.count == 1
    one.change_settings(mode="apprentice")
    assert two.decide(arms, id="y", baseline="b").arm == "b"
    one.remove_arm(made.arm)
    with pytest.raises(rolin.errors.ArmError):
        two.decide(arms, id="z")
    two.restore_arm(made.arm)
    clock.now += 100.0
    assert one.expire(50.0, default_reward=0.0) == 1
    assert two.expire(50.0, default_reward=0.0) == 0
    assert one.erase(ids=["x"]) == 1
    with pytest.raises(rolin.errors.UnknownDecision):
        two.reward("x", 1.0)
    assert one.refresh() == two.refresh()
    assert state_bytes(one.policy) == state_bytes(two.policy)
    assert one.settings == two.settings
    assert isinstance(one.journal, PostgresJournal)
    assert check_journal(one.journal).problems == ()
    assert wasted == []
    close(bandits)


@pytest.mark.service  # it takes seconds
def test_many_at_once(postgres: PostgresServer, name: str, wasted: list[int]) -> None:
    """Every id gets one answer, nothing counts twice, and all reach the same state to the bit."""
    bandits = opened(postgres.dsn, name, 3, background=True)
    answers: list[dict[str, Any]] = [{} for _ in bandits]
    errors: list[BaseException] = []

    def visit(k: int) -> None:
        try:
            for i in range(30):
                shared = bandits[k].decide({"a": [1.0], "b": [0.5]}, id=f"{i}")
                answers[k][shared.id] = (shared.arm, shared.time, shared.version)
                own = bandits[k].decide({"a": [1.0], "b": [0.5], "c": [0.1]}, id=f"{k}-{i}")
                bandits[(k + 1) % 3].reward(own.id, float(len(own.id) % 2))
                bandits[k].reward(f"{i}", float(i % 3))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=visit, args=(k,)) for k in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert answers[0] == answers[1] == answers[2]
    for bandit in bandits:
        with bandit._writer._exclusively():
            pass  # callers get their answers a moment before the writer starts what is due
        bandit._writer.upkeep.wait()
    assert len({bandit.refresh() for bandit in bandits}) == 1
    states = {state_bytes(bandit.policy) for bandit in bandits}
    assert len(states) == 1, [bandit.version for bandit in bandits]
    events = [event for _, event in bandits[0].journal.read()]
    assert len([event for event in events if isinstance(event, LoggedDecision)]) == 120
    assert len([event for event in events if isinstance(event, Outcome)]) == 120
    assert wasted == []
    # The first scales are due after 20 rewards, and so on: nobody estimates what another one has.
    alone = Bandit(rolin.RoLinTS(n_features=1, seed=7))
    for i in range(120):
        alone.reward(alone.decide({"a": [1.0], "b": [0.5]}).id, float(i % 3))
    expected = [event for _, event in alone.journal.read() if isinstance(event, ScalesLearned)]
    learned = [event for event in events if isinstance(event, ScalesLearned)]
    assert 0 < len(learned) <= len(expected)
    close(bandits)


def test_one_is_elected(journal: PostgresJournal, postgres: PostgresServer) -> None:
    """Until it has done its task, or its connection has ended."""
    with PostgresJournal(postgres.dsn, journal.name) as other:
        with journal.elected("scales") as first, other.elected("scales") as second:
            assert (first, second) == (True, False)
        with other.elected("scales") as first, journal.elected("other") as second:
            assert (first, second) == (True, True)
        with journal.elected("scales") as first:
            end_connections(postgres)
            with other.elected("scales") as second:
                assert (first, second) == (True, True)


def test_a_database_that_was_set_back(postgres: PostgresServer, name: str) -> None:
    """As by a fail-over that lost commits: what is gone is forgotten, and work goes on."""
    one, two = bandits = opened(postgres.dsn, name, 2)
    one.reward(one.decide({"a": [1.0], "b": [0.5]}, id="x").id, 1.0)
    one.reward(one.decide({"a": [1.0], "b": [0.5]}, id="y").id, 1.0)
    with psycopg.connect(postgres.dsn, autocommit=True) as own:
        own.execute(f'DELETE FROM "rolin_{name}".events WHERE seq > 2')
        own.execute(f'UPDATE "rolin_{name}".journal SET last = 2')
        own.execute(f'DELETE FROM "rolin_{name}".waiting')
    one.decide({"a": [1.0], "b": [0.5]}, id="z")
    assert one.version == two.refresh() == 3
    assert state_bytes(one.policy) == state_bytes(two.policy)
    close(bandits)
