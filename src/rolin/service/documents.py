"""What is stored of a bandit beside its journal."""

from __future__ import annotations

from typing import NamedTuple, Self, TypeVar

import msgspec

from rolin.service import schema
from rolin.service.errors import Refusal
from rolin.service.storage import Document, Stored, Version

__all__ = ["Documents"]

Read = TypeVar("Read", bound=msgspec.Struct)


class Documents(NamedTuple):
    """The documents of a bandit, decoded."""

    config: schema.BanditConfig
    """What it is made of."""
    arms: list[str | schema.Arm] | None
    """Arms that requests need not repeat."""
    version: Version | None
    """`None` if no other process can change them."""

    @classmethod
    def of(cls, name: str, stored: Stored) -> Self:
        """Decode the documents of a bandit; refuse damaged ones."""
        config = _decoded(name, "config", stored.config, schema.BanditConfig)
        arms = None
        if stored.arms is not None:
            arms = _decoded(name, "arms", stored.arms, schema.ArmList).arms
        return cls(config, arms, stored.version)


def _decoded(name: str, document: Document, content: bytes, kind: type[Read]) -> Read:
    try:
        return msgspec.json.decode(content, type=kind)
    except msgspec.DecodeError as error:
        raise Refusal(503, f"bandit {name!r} cannot be opened: {document}.json: {error}") from error
