"""Store, read and delete the catalogue of a bandit. It is sent in parts, so that it need not fit into memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rolin.client.answers import value_of
from rolin.client.managing import ManagingCalls
from rolin.client.requests import Request, encoded
from rolin.client.retrying import Flow, ask
from rolin.client.running import call
from rolin.client.values import arm_list
from rolin.errors import ParameterError

__all__ = ["CatalogueCalls"]

_PART = 1 << 16  # bytes that are sent at a time, at least


class CatalogueCalls(ManagingCalls):
    """The calls of a bandit, those of its catalogue included."""

    @call
    def catalogue(self) -> Flow[dict[str, Any]]:
        """Return the number of arms of the catalogue, its size in bytes, and its SHA-256."""
        return (yield from self._ask("GET", "catalogue"))

    @call
    def store_catalogue(self, arms: Any, *, arm: str = "arm") -> Flow[dict[str, Any]]:
        """Store a catalogue, which replaces the present one when all of it has arrived; return what `catalogue` returns.

        A repeat stores the same catalogue. An iterator can be read only once, so it is never sent again.

        Parameters
        ----------
        arms
            Features by arm; objects with `id` and `features`, also from an iterator; or a data frame of pandas or polars.
            In a frame, one column has the names, and the others are the features: a vector, if the bandit takes vectors,
            or fields, of which missing ones are left out.
        arm
            The column of the names.
        """
        if _is_frame(arms):
            if arm not in (names := list(arms.columns)):
                raise ParameterError(
                    f"arm={arm!r} is no column of the frame, expected one of {names}"
                )
            found = yield from self._ask("GET")
            kind = found.get("config", {}).get("features", {}).get("kind")
            content = _Lines(_Rows(arms, arm, is_vector=kind == "vectors"))
        else:
            content = _Lines(arms)
        request = Request("PUT", self._path("catalogue"), content, once=content.once, slow=True)
        return value_of(request, (yield from ask(request, self._limits)))

    @call
    def delete_catalogue(self) -> Flow[None]:
        """Delete the catalogue. It is not sent again if the connection is lost, as a repeat would find none."""
        yield from self._do("DELETE", "catalogue", repeatable=False)


class _Lines:
    """The lines of a catalogue, in parts. Each call begins again, unless the arms are an iterator."""

    def __init__(self, arms: Any) -> None:
        if isinstance(arms, (str, bytes)) or not isinstance(arms, Iterable):
            raise ParameterError(f"arms={arms!r:.100}, expected arms with features, or a frame")
        self._arms = arms
        self.once = isinstance(arms, Iterator)

    def __call__(self) -> Iterator[bytes]:
        """Yield the parts."""
        parts: list[bytes] = []
        size = 0
        arms = arm_list(self._arms) if isinstance(self._arms, Mapping) else self._arms
        for k, given in enumerate(arms):
            line = encoded({"id": given} if isinstance(given, str) else _checked(k, given))
            parts += (line, b"\n")
            size += len(line) + 1
            if size >= _PART:
                yield b"".join(parts)
                parts, size = [], 0
        yield b"".join(parts)


def _checked(k: int, given: Any) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise ParameterError(f"arm {k} is {given!r:.100}, expected an object with id and features")
    return given


class _Rows:
    """The rows of a frame as arms; each iteration begins again."""

    def __init__(self, frame: Any, arm: str, *, is_vector: bool) -> None:
        self._frame, self._arm, self._is_vector = frame, arm, is_vector

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        columns = list(self._frame.columns)
        at = columns.index(self._arm)
        names = [name for name in columns if name != self._arm]
        for values in _rows(self._frame):
            row = list(values)
            id = row.pop(at)
            if self._is_vector:
                yield {"id": id, "features": row}
            else:
                known = {n: v for n, v in zip(names, row, strict=True) if not _is_missing(v)}
                yield {"id": id, "features": known}


def _is_frame(arms: Any) -> bool:
    return hasattr(arms, "columns") and (hasattr(arms, "itertuples") or hasattr(arms, "iter_rows"))


def _rows(frame: Any) -> Iterable[tuple[Any, ...]]:
    """Yield the rows of a frame of pandas or polars."""
    if hasattr(frame, "itertuples"):
        rows: Iterable[tuple[Any, ...]] = frame.itertuples(index=False, name=None)
    else:
        rows = frame.iter_rows()
    return rows


def _is_missing(value: Any) -> bool:
    """Return whether a cell is empty: None, NaN, or what pandas has for it, which is not equal to itself either."""
    try:
        return value is None or bool(value != value)
    except TypeError:  # pandas.NA has no truth value
        return True
    except ValueError:  # a list of numbers
        return False
