"""A bandit of the service, for both kinds of clients."""

from __future__ import annotations

from rolin.client.cataloguing import CatalogueCalls
from rolin.client.running import AsyncConnection, AsyncRunner, Connection, Runner

__all__ = ["AsyncRemoteBandit", "RemoteBandit"]


class RemoteBandit(CatalogueCalls, Runner):
    """A bandit of the service; `Client.bandit` returns it.

    Parameters
    ----------
    name
        Its name.
    connection
        The connection of its client.
    """

    def __init__(self, name: str, connection: Connection) -> None:
        super().__init__(name, connection.limits)
        self._connection = connection

    def __repr__(self) -> str:
        return f"RemoteBandit({self.name!r} at {self._connection.url!r})"


class AsyncRemoteBandit(CatalogueCalls, AsyncRunner):
    """A bandit of the service, whose calls are awaited; `AsyncClient.bandit` returns it.

    Parameters
    ----------
    name
        Its name.
    connection
        The connection of its client.
    """

    def __init__(self, name: str, connection: AsyncConnection) -> None:
        super().__init__(name, connection.limits)
        self._connection = connection

    def __repr__(self) -> str:
        return f"AsyncRemoteBandit({self.name!r} at {self._connection.url!r})"
