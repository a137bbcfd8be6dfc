"""What one endpoint of the service is: its path, who may use it, and what answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Literal, NamedTuple

from starlette.convertors import StringConvertor, register_url_convertor

from rolin.service.engine import Engine
from rolin.service.errors import Failure
from rolin.service.keys import Key, bearer_key
from rolin.service.service import Service

__all__ = ["BANDIT", "Call", "Dialect", "Endpoint", "Reply"]


class _Id(StringConvertor):
    """An id in a path: any text, also with slashes and line breaks."""

    regex = r"[\s\S]*"


register_url_convertor("id", _Id())

BANDIT = "/v1/bandits/{name}"
"""The path of a bandit."""
Scope = Literal["decide", "reward", "read", "admin"]


class Call(NamedTuple):
    """A request whose key was accepted and whose body was read."""

    service: Service
    path: Mapping[str, str]
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """Not sensitive to case."""
    body: Any
    """The decoded body; if the endpoint takes a file, its bytes, or an iterator over parts of them."""
    key: Key | None = None
    """The key of the request; `None` if the endpoint needs none."""

    async def engine(self) -> Engine:
        """Return the bandit that the path names."""
        return await self.service.bandits.get(self.path["name"])


class Reply(NamedTuple):
    """An answer: a value to be sent as JSON, or bytes."""

    status: int
    content: Any = None
    media_type: str = "application/json"


class Dialect(NamedTuple):
    """How callers send keys, and how errors are answered."""

    key_of: Callable[[Mapping[str, str]], str | None]
    """Returns the key in the headers of a request."""
    expected_key: str
    """The header that holds a key, for messages."""
    error_of: Callable[[Failure], dict[str, object]]
    """Returns the JSON of an error."""


_NATIVE = Dialect(bearer_key, "Authorization: Bearer <key>", Failure.body)


class Endpoint(NamedTuple):
    """One method of one path."""

    method: str
    path: str
    scope: Scope | None
    """What a key must allow; `None` if no key is needed."""
    handler: Callable[[Call], Awaitable[Reply]]
    summary: str
    body: Any = None
    """Type of the body; `bytes` for a file; `None` if there is none."""
    answer: Any = None
    """Type of the JSON that answers; `str` or `bytes` for a text or a file; `None` if there is none."""
    status: int = 200
    """The status of success."""
    query: Mapping[str, str] = {}
    """Parameters behind the path, with their meaning."""
    media: Collection[str] = ()
    """Media types of a file that answers."""
    decoded_as: Any = None
    """Type that the body is decoded as, if it is not `body`; `AsyncIterator` for a large file that comes in parts."""
    slow: bool = False
    """Whether it may take longer than other requests."""
    dialect: Dialect = _NATIVE
    unrecorded: bool = False
    """Whether a read-only service answers it, without recording anything. It answers all that need the scope `read`."""
