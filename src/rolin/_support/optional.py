"""Optional dependencies: an error that names the extra to install."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rolin.errors import MissingExtra

__all__ = ["needs"]


@contextmanager
def needs(extra: str) -> Iterator[None]:
    """Turn a failed import in the block into a `MissingExtra` error that names the extra.

    >>> with needs("sim"):
    ...     import pandas
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"this needs {error.name}, which is not installed; install the extra {extra!r} with "
            f"python -m pip install 'rolin[{extra}]', or '.[{extra}]' in a checkout"
        ) from error
