"""HTTP as uvicorn reads it with httptools, without two weaknesses of this combination.

httptools drops the body of a request that offers to upgrade to another protocol. Java's HTTP client offers HTTP/2 with
every request. And nothing limits the size of a head, which is kept in memory until it is complete.
"""

from __future__ import annotations

from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

__all__ = ["HttpProtocol"]

_MAX_HEAD = 64 << 10  # bytes, after which an unfinished head is refused; h11 has the same limit


class HttpProtocol(HttpToolsProtocol):
    """A connection; uvicorn makes one for each client."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.parser = _Parser(self)
        # As uvicorn sets it: bytes behind the last request of a connection are ignored.
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._head = 0  # bytes received since a head or a part of a body was complete

    def data_received(self, data: bytes) -> None:
        """Parse what has arrived."""
        self._head += len(data)
        super().data_received(data)
        if self._head > _MAX_HEAD and not self.transport.is_closing():
            self.send_400_response(f"The head of the request is larger than {_MAX_HEAD} bytes.")

    def on_headers_complete(self) -> None:
        """Begin to answer a request, unless its head is parsed again."""
        self._head = 0
        if not self.offers_upgrade:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a part of a body."""
        self._head = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request, unless its head is parsed again."""
        self._head = 0
        if not self.offers_upgrade:
            super().on_message_complete()

    @property
    def offers_upgrade(self) -> bool:
        """Whether the present request offers another protocol."""
        return bool(self.parser.should_upgrade()) and any(
            name == b"upgrade" for name, _ in self.headers
        )

    def head_without_upgrade(self) -> bytes:
        """Return the head of the present request without this offer, which a server may ignore."""
        method, version = self.parser.get_method(), self.parser.get_http_version().encode()
        lines = [b"%b %b HTTP/%b" % (method, self.url, version)]
        lines += [b"%b: %b" % header for header in self.headers if header[0] != b"upgrade"]
        return b"\r\n".join((*lines, b"", b""))


class _Parser(httptools.HttpRequestParser):
    """A parser that goes on after an offer to upgrade."""

    def __init__(self, protocol: HttpProtocol) -> None:
        super().__init__(protocol)
        self._protocol = protocol

    def feed_data(self, data: Any) -> None:
        """Parse bytes, and call the methods of the protocol."""
        while True:
            try:
                super().feed_data(data)
            except httptools.HttpParserUpgrade as stopped:
                if not self._protocol.offers_upgrade:  # the method CONNECT
                    raise
                data = self._protocol.head_without_upgrade() + data[stopped.args[0] :]
            else:
                return
