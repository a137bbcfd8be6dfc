"""A progress bar on the error stream, so that the output stream contains only the tables."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

try:
    from rich.console import Console
    from rich.progress import Progress
except ImportError:  # plain lines are printed instead
    Progress = None  # type: ignore[assignment, misc]  # tested for below


@contextmanager
def progress(title: str, steps: int) -> Iterator[Callable[[], None]]:
    """Show the progress of a section; yield the function to call after each step."""
    if Progress is None or not sys.stderr.isatty():
        print(f"… {title}", file=sys.stderr, flush=True)
        yield lambda: None
        return
    # The bar is drawn only between steps: a thread that redraws it would disturb the timing.
    bar = Progress(console=Console(stderr=True), transient=True, auto_refresh=False)
    with bar:
        task = bar.add_task(title, total=steps)

        def step() -> None:
            bar.advance(task)
            bar.refresh()

        bar.refresh()
        yield step
