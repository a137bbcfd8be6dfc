"""API keys: stored as hashes, with scopes, and with two at a time per name, so that one can replace the other.

A key is `rk_` and 256 random bits. The file holds its SHA-256. A slow hash, such as those for passwords, protects
secrets that can be guessed; nobody can guess 256 random bits, at any speed. So a request is verified in microseconds.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import os
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Any

from rolin._support.files import read_limited, replace_file
from rolin.errors import DataError, JournalError, ParameterError
from rolin.service.settings import Settings

__all__ = ["SCOPES", "Key", "Keys", "bearer_key", "open_keys"]

SCOPES = ("decide", "reward", "read", "admin")
"""What a key can allow; `admin` includes the others."""

_FORMAT = 1
_MAX_FILE = 16 << 20  # bytes
_MAX_PER_NAME = 2
_LOOK_EVERY = 1.0  # seconds between looks at the file, so that a request does not wait for the disk
_START = 8  # bytes of a hash that find its key; two random keys share them once in 2⁶⁴
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Key:
    """What is known of an API key; the key itself is not stored anywhere."""

    name: str
    """Whose key it is; two keys may share a name while one replaces the other."""
    scopes: frozenset[str]
    """What it allows: some of `SCOPES`."""
    created: str
    """When it was created: date and time in UTC, ISO 8601."""
    digest: bytes = field(repr=False)
    """Its SHA-256."""

    @property
    def id(self) -> str:
        """Name of this one key, by which it is revoked: the start of its hash, which is not secret."""
        return self.digest[:_START].hex()

    def allows(self, scope: str) -> bool:
        """Return whether the key may do what needs this scope."""
        return scope in self.scopes or "admin" in self.scopes


def bearer_key(headers: Mapping[str, str]) -> str | None:
    """Return the key in the header `Authorization: Bearer KEY`; `None` if there is none.

    Parameters
    ----------
    headers
        The headers, with lower-case names.
    """
    header = headers.get("authorization", "")
    return header[7:].strip() if header[:7].lower() == "bearer " else None


class Keys:
    """The API keys of a service.

    Keys that another process creates or revokes count within a second.

    Parameters
    ----------
    folder
        Folder of the service's data, which holds `keys.json`. It is created with the first key.
    api_key
        Another key, with all scopes, which is not stored.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     keys = Keys(folder)
    ...     text, key = keys.create("shop", ["decide", "reward"])
    ...     found = keys.find(text)
    ...     found == key, found.allows("decide"), found.allows("admin"), keys.find("rk_other")
    (True, True, False, None)
    """

    looks_by_itself = True
    """Whether verifying a key looks for changes; otherwise the owner calls `look`."""

    def __init__(self, folder: str | PathLike[str], *, api_key: str | None = None) -> None:
        self.path = Path(folder) / "keys.json"
        self.where = str(self.path)
        """Where the keys are stored."""
        self._start(api_key)

    def _start(self, api_key: str | None) -> None:
        """Read the keys for the first time."""
        self._given: tuple[Key, ...] = ()
        if api_key is not None:
            self._given = (Key("api_key", frozenset({"admin"}), _now(), _digest(api_key)),)
        self._lock = Lock()  # of threads that change the keys
        self._by_start: dict[bytes, Key]
        self._stored: tuple[Key, ...]
        self._seen: tuple[int, ...] | None  # the file that `_stored` was read from
        self._use((), None)
        self._reload()
        self._look_at = monotonic() + _LOOK_EVERY

    def find(self, text: str) -> Key | None:
        """Return what is known of a key; `None` if there is no such key."""
        if self.looks_by_itself and monotonic() >= self._look_at:
            self.look()
        digest = _digest(text)
        # Neither step tells a caller, by the time it takes, more than a part of the hash of what it sent itself.
        key = self._by_start.get(digest[:_START])
        return key if key is not None and hmac.compare_digest(key.digest, digest) else None

    def list(self) -> tuple[Key, ...]:
        """Return all keys in the order of their creation; first the one that is not stored."""
        self._reload()
        return self._given + self._stored

    def create(self, name: str, scopes: Iterable[str]) -> tuple[str, Key]:
        """Create and store a key; return its text, which cannot be shown again, and what is known of it.

        A name has at most two keys: create the new one, let all callers use it, and revoke the old one.
        """
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ParameterError(
                f"name={name!r}, expected 1 to 64 letters, digits, dots, hyphens and underscores, of which the first "
                "is a letter or a digit"
            )
        chosen = frozenset(scopes)
        if not chosen or not chosen <= set(SCOPES):
            raise ParameterError(
                f"scopes={sorted(map(str, chosen))}, expected some of {', '.join(SCOPES)}"
            )
        with self._changing():
            return self._create(name, chosen)

    def create_first(self) -> str | None:
        """Create a key with all scopes, unless there is one; return its text."""
        with self._changing():
            if any(key.allows("admin") for key in self._given + self._stored):
                return None
            return self._create("admin", frozenset({"admin"}))[0]

    def _create(self, name: str, scopes: frozenset[str]) -> tuple[str, Key]:
        text = f"rk_{secrets.token_urlsafe(32)}"
        key = Key(name, scopes, _now(), _digest(text))
        same = [known.id for known in self._stored if known.name == name]
        if len(same) >= _MAX_PER_NAME:
            raise ParameterError(
                f"{name} has the keys {' and '.join(same)} already, expected at most {_MAX_PER_NAME} per name: "
                "revoke one first"
            )
        self._write((*self._stored, key))
        return text, key

    def revoke(self, id: str) -> Key:
        """Remove a stored key by its id; return what was known of it."""
        with self._changing():
            for key in self._stored:
                if key.id == id:
                    self._write(tuple(other for other in self._stored if other is not key))
                    return key
        known = ", ".join(key.id for key in self._stored) or "none"
        raise ParameterError(f"no key has the id {id!r}; the ids are: {known}")

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Keep other threads and processes from changing the keys, and see what they have changed before."""
        with self._lock, self._locked():
            self._reload()
            yield

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep other processes from changing the keys."""
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self.path.with_suffix(".lock").open("ab") as file:
            with suppress(ImportError):  # Windows
                import fcntl

                fcntl.flock(file, fcntl.LOCK_EX)  # until the file is closed
            yield

    def look(self) -> None:
        """Read the keys again if they have changed; if they cannot be read, those known before are still in use."""
        self._look_at = monotonic() + _LOOK_EVERY
        try:
            self._reload()
        except (DataError, JournalError, OSError) as error:
            _LOG.error("%s; the keys that were read before are still in use", error)

    def _reload(self) -> None:
        seen = self._identity()
        if seen != self._seen:
            self._use(_parsed(self._content(), self.where), seen)

    def _use(self, keys: tuple[Key, ...], seen: tuple[int, ...] | None) -> None:
        by_start = {key.digest[:_START]: key for key in (*keys, *self._given)}
        # Requests read only `_by_start`, which is replaced as a whole.
        self._stored, self._by_start, self._seen = keys, by_start, seen

    def _write(self, keys: tuple[Key, ...]) -> None:
        content = {
            "format": _FORMAT,
            "keys": [
                {
                    "name": key.name,
                    "scopes": [scope for scope in SCOPES if scope in key.scopes],
                    "created": key.created,
                    "sha256": key.digest.hex(),
                }
                for key in keys
            ],
        }
        self._replace(json.dumps(content, indent=1).encode() + b"\n")
        self._use(keys, self._identity())

    # -- the file ----------------------------------------------------------------------------

    def _identity(self) -> tuple[int, ...] | None:
        """Return numbers that change when the keys are replaced; `None` if there are none."""
        try:
            known = self.path.stat()
        except FileNotFoundError:
            return None
        return known.st_ino, known.st_mtime_ns, known.st_size

    def _content(self) -> bytes | None:
        """Return the stored keys; `None` if there are none."""
        try:
            return read_limited(self.path, _MAX_FILE, DataError)
        except FileNotFoundError:
            return None

    def _replace(self, content: bytes) -> None:
        """Store the keys."""
        if self.path.exists():
            self.path.chmod(0o600)  # the new file gets the mode of the old one
        with replace_file(self.path) as temporary:
            file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(file, "wb") as opened:
                opened.write(content)

    def close(self) -> None:
        """Release connections; a file has none."""


def open_keys(settings: Settings) -> Keys:
    """Return the keys of a service: those of its database, or of its folder."""
    if settings.database is None:
        return Keys(settings.data, api_key=settings.api_key)
    from rolin.service.database import database_of
    from rolin.service.database_keys import DatabaseKeys

    return DatabaseKeys(database_of(settings), api_key=settings.api_key)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _digest(text: str) -> bytes:
    # surrogatepass: whatever a header held, it has a hash, and no key has the same.
    return hashlib.sha256(text.encode(errors="surrogatepass")).digest()


def _parsed(content: bytes | None, where: str) -> tuple[Key, ...]:
    """Return the keys that were stored somewhere."""
    if content is None:
        return ()
    try:
        found: Any = json.loads(content)
        if found["format"] != _FORMAT:
            raise ValueError(f"its format is {found['format']!r}, expected {_FORMAT}")
        return tuple(_key(entry) for entry in found["keys"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(
            f"{where} cannot be read as API keys: {type(error).__name__}: {error}; restore it, or remove it to start "
            "with a new key"
        ) from error


def _key(entry: dict[str, Any]) -> Key:
    name, scopes, created = entry["name"], frozenset(entry["scopes"]), entry["created"]
    digest = bytes.fromhex(entry["sha256"])
    if not _NAME.fullmatch(name) or not isinstance(created, str) or len(digest) != 32:
        raise ValueError(f"the entry of {name!r} is damaged")
    if not scopes or not scopes <= set(SCOPES):
        raise ValueError(f"{name!r} has unknown scopes")
    return Key(name, scopes, created, digest)
