"""Compress the questions of a journal.

A question is stored as its JSON text or as one frame of Zstandard, which begins with other bytes than any JSON text. So
rows of both kinds are read, whatever the setting is.

There is no dictionary that questions share. It would take a question of 5.4 KB from 1.1 KB to 0.8 KB, but it would hold
pieces of questions that could not be erased.
"""

from __future__ import annotations

from collections.abc import Callable

from rolin._support.optional import needs
from rolin.errors import JournalError

__all__ = ["compressor", "text_of"]

_FRAME = b"\x28\xb5\x2f\xfd"  # the first bytes of a frame, RFC 8878
_LEVEL = 1  # higher levels take longer, and questions get smaller by at most 8 %
_SMALL = 256  # bytes of a text that is not worth it
_MOST = 1 << 30  # bytes of a text; a frame that claims more is damaged


def compressor() -> Callable[[bytes], bytes]:
    """Return a function that compresses a text, unless that would not make it smaller; for one thread at a time."""
    with needs("service"):
        import zstandard
    compress = zstandard.ZstdCompressor(level=_LEVEL).compress

    def compressed(text: bytes) -> bytes:
        if len(text) < _SMALL:
            return text
        frame = compress(text)
        return frame if len(frame) < len(text) else text

    return compressed


def text_of(stored: bytes) -> bytes:
    """Return a text that may be compressed."""
    if not stored.startswith(_FRAME):
        return stored
    with needs("service"):
        import zstandard
    try:
        size = zstandard.frame_content_size(stored)
        if not 0 <= size <= _MOST:
            raise JournalError(f"the question claims to have {size} bytes")
        return zstandard.ZstdDecompressor().decompress(stored)
    except zstandard.ZstdError as error:
        raise JournalError(f"the question cannot be decompressed: {error}") from error
