"""A proxy before a PostgreSQL server, which cuts connections at the moment of a commit."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

Cut = Literal["before", "after"] | None
"""Whether a commit reaches the server before its connection is cut; `None` to leave it alone."""
_SOCKET = ".s.PGSQL.5432"


@contextmanager
def cutting_proxy(server: Path, folder: Path, decide: Callable[[], Cut]) -> Iterator[None]:
    """Listen on a socket in a folder, and pass everything on to the socket of a server.

    Parameters
    ----------
    server
        Folder of the server's socket.
    folder
        Folder of the proxy's socket.
    decide
        Called for every commit.
    """
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(folder / _SOCKET))
    listener.listen()

    def accept() -> None:
        with suppress(OSError):  # the listener was closed
            while True:
                client, _ = listener.accept()
                behind = socket.socket(socket.AF_UNIX)
                behind.connect(str(server / _SOCKET))
                for source, target in ((client, behind), (behind, client)):
                    is_request = source is client
                    threading.Thread(
                        target=_pass_on,
                        args=(source, target, decide if is_request else None),
                        daemon=True,
                    ).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield
    finally:
        listener.close()


def _pass_on(
    source: socket.socket, target: socket.socket, decide: Callable[[], Cut] | None
) -> None:
    """Pass on what arrives, until a connection ends or is cut."""
    with suppress(OSError):
        while data := source.recv(1 << 16):
            cut = decide() if decide is not None and b"COMMIT\0" in data else None
            if cut == "before":
                break
            if cut == "after":
                # The client first, so that it hears of nothing.
                source.shutdown(socket.SHUT_RDWR)
            target.sendall(data)
            if cut == "after":
                break
    for each in (source, target):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)  # which ends the other direction, too
    source.close()
