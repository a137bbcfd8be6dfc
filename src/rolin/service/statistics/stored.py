"""Statistics as bytes, so that after a restart only the events since are read.

They are used only if they are whole, were made by this version of rolin, and belong to the journal as it is now.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from itertools import chain
from typing import Any, NamedTuple

import msgspec

import rolin
from rolin.errors import DataError
from rolin.journal import Header, Journal
from rolin.journal.codec import row_of
from rolin.journal.schema import event_checksum
from rolin.service.statistics.fold import Statistics

__all__ = ["Position", "read_statistics", "write_statistics"]

_FORMAT = 1  # raise it when statistics count something else than before
_DIGEST = 16  # bytes
_SIZE = 4  # bytes of the length of a part
_JOINED = 1 << 20  # bytes of parts that are passed on together


class Position(NamedTuple):
    """How much of a journal was counted."""

    removed_at: int
    """The header's `first`, which changes if events are removed."""
    first: int
    """Number of the event before the first one that was counted."""
    read: int
    """Number of the last event that was counted."""


def write_statistics(statistics: Statistics, position: Position, journal: Journal) -> list[bytes]:
    """Return statistics as parts of a file.

    Parameters
    ----------
    statistics
        The statistics. Nothing may be counted meanwhile.
    position
        How much was counted.
    journal
        The journal.
    """
    header = journal.header()
    origin = None if header is None else header.origin
    head = [_FORMAT, rolin.__version__, origin, list(position), _last_event(journal, position)]
    encode, digest = msgspec.msgpack.Encoder().encode, hashlib.blake2b(digest_size=_DIGEST)
    made: list[bytes] = []
    joined = bytearray()
    for part in chain([head], statistics.dump()):
        content = encode(part)
        joined += len(content).to_bytes(_SIZE, "little") + content
        if len(joined) >= _JOINED:
            made.append(bytes(joined))
            digest.update(made[-1])
            joined.clear()
        time.sleep(0)  # or requests would wait 5 ms whenever they need the interpreter
    made.append(bytes(joined))
    digest.update(made[-1])
    return [*made, digest.digest()]


def read_statistics(
    content: bytes, header: Header, journal: Journal
) -> tuple[Statistics, Position]:
    """Return stored statistics, and how much of the journal they know.

    Parameters
    ----------
    content
        What `write_statistics` returned.
    header
        The header of the journal.
    journal
        The journal.

    Raises
    ------
    DataError
        If they cannot be used.
    """
    if hashlib.blake2b(content[:-_DIGEST], digest_size=_DIGEST).digest() != content[-_DIGEST:]:
        raise DataError("they are damaged: the checksum does not match")
    try:
        parts = _parts(content)
        format, version, *rest = next(parts, (None, None))
        if (format, version) != (_FORMAT, rolin.__version__):
            raise DataError(f"they were stored by rolin {version}, in format {format}")
        origin, numbers, last_event = rest
        position = Position(*numbers)
        if origin != header.origin:
            raise DataError("they belong to another journal")
        if position.removed_at != header.first:
            raise DataError("events of the journal were removed since")
        if position.read > header.last:
            raise DataError(f"they know {position.read} events, but the journal has {header.last}")
        if last_event != _last_event(journal, position):
            raise DataError(f"event {position.read} of the journal is another one")
        statistics = Statistics()
        statistics.load(parts)
    except (msgspec.MsgspecError, ValueError, TypeError, LookupError, AttributeError) as error:
        raise DataError(f"they are damaged: {type(error).__name__}: {error}") from error
    return statistics, position


def _parts(content: bytes) -> Iterator[Any]:
    view, at, end = memoryview(content), 0, len(content) - _DIGEST
    decode = msgspec.msgpack.Decoder().decode
    while at < end:
        size = int.from_bytes(view[at : at + _SIZE], "little")
        at += _SIZE
        yield decode(view[at : at + size])
        at += size
        time.sleep(0)


def _last_event(journal: Journal, position: Position) -> bytes | None:
    """Return the checksum of the last event that was counted; `None` if it need not exist any more."""
    if position.read <= position.removed_at:
        return None
    for number, event in journal.read(after=position.read - 1, upto=position.read):
        return event_checksum(number, row_of(event))
    return None
