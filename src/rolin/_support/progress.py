"""Report progress: a bar with the time left on the terminal's error stream, or calls of a function."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from rolin._support.optional import needs
from rolin.errors import ParameterError

__all__ = ["Progress", "bar", "check_progress", "reporter"]

Progress = bool | Callable[[int], None]
"""`True` shows a bar, `False` shows nothing, a function receives the number of steps since its last call."""


def check_progress(progress: object) -> None:
    """Reject a `progress` option that is neither a bool nor a function."""
    if not isinstance(progress, bool) and not callable(progress):
        raise ParameterError(
            f"progress={progress!r}, expected True, False or a function of the number of steps done"
        )


def reporter(
    progress: Progress, label: str, total: int, done: int = 0, *, in_bytes: bool = False
) -> AbstractContextManager[Callable[[int], None]]:
    """Return a context manager that gives the function to call after each step.

    Parameters
    ----------
    progress
        `True` for a bar, `False` for nothing, or a function of the number of steps done since its last call.
    label
        Text beside the bar.
    total
        Number of steps.
    done
        Number of steps that were done before the start. They are not reported to a function.
    in_bytes
        Whether a step is a byte.
    """
    check_progress(progress)
    if progress is True:
        return bar(label, total, done, in_bytes=in_bytes)
    return nullcontext(progress if callable(progress) else _ignore)


@contextmanager
def bar(
    label: str, total: int | None, done: int = 0, *, in_bytes: bool = False
) -> Iterator[Callable[[int], None]]:
    """Show a bar while the block runs; it is given a function that advances the bar.

    Parameters
    ----------
    label
        Text beside the bar.
    total
        Number of steps.
    done
        Number of steps that were done before the start.
    in_bytes
        Whether a step is a byte.
    """
    with needs("sim"):
        from rich import progress as rich
        from rich.console import Console
        from rich.markup import escape
    columns = (
        rich.TextColumn("{task.description}"),
        rich.BarColumn(),
        rich.DownloadColumn() if in_bytes else rich.MofNCompleteColumn(),
        rich.TimeElapsedColumn(),
        rich.TextColumn("left:"),
        rich.TimeRemainingColumn(),
    )
    with rich.Progress(*columns, console=Console(stderr=True)) as shown:
        task = shown.add_task(escape(label), total=total, completed=done)
        yield lambda steps: shown.advance(task, steps)


def _ignore(_steps: int) -> None:
    """Report nothing."""
