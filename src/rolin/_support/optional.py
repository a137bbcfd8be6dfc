"""Parts that need more than the core's packages say which extra brings them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rolin.errors import MissingExtra

__all__ = ["needs"]


@contextmanager
def needs(extra: str) -> Iterator[None]:
    """Turn a failed import in the block into an error that names the extra.

    >>> with needs("sim"):
    ...     import pandas
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"this needs {error.name}, which is not installed; python -m pip install 'rolin[{extra}]' "
            "installs it"
        ) from error
