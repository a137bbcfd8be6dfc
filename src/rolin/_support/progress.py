"""A bar with the time left, on the terminal's error stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

__all__ = ["bar"]


@contextmanager
def bar(
    label: str, total: int | None, done: int = 0, *, in_bytes: bool = False
) -> Iterator[Callable[[int], None]]:
    """Show a bar while the block runs; it is given a function that moves the bar on.

    Parameters
    ----------
    label
        What is being done.
    total
        How many steps there are.
    done
        How many are done before the start.
    in_bytes
        Whether steps are bytes.
    """
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn() if in_bytes else MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(escape(label), total=total, completed=done)
        yield lambda steps: progress.advance(task, steps)
