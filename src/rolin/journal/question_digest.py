"""The digest of a question, by which a repeated id is compared with the stored decision."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["QuestionDigest"]


class QuestionDigest:
    """A digest that is computed when it is first needed: a journal in memory needs it only if an id is repeated.

    Parameters
    ----------
    value
        The digest, or a function that computes it.
    """

    __slots__ = ("_value",)

    def __init__(self, value: bytes | Callable[[], bytes]) -> None:
        self._value = value

    def __bytes__(self) -> bytes:
        value = self._value
        if not isinstance(value, bytes):
            value = self._value = value()
        return value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, QuestionDigest) and bytes(self) == bytes(other)

    def __hash__(self) -> int:
        return hash(bytes(self))

    def __repr__(self) -> str:
        """Return the digest as hexadecimal digits."""
        return f"<QuestionDigest {bytes(self).hex()}>"
