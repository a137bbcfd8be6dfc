"""A progress bar on the error stream, so that the tables on the output stream stay clean."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

try:
    from rich.console import Console
    from rich.progress import Progress
except ImportError:  # plain lines do as well
    Progress = None  # type: ignore[assignment, misc]  # tested for below


@contextmanager
def progress(title: str, steps: int) -> Iterator[Callable[[], None]]:
    """Show how far a section of so many steps is; yields what to call after each of them."""
    if Progress is None or not sys.stderr.isatty():
        print(f"… {title}", file=sys.stderr, flush=True)
        yield lambda: None
        return
    # Drawn only between steps: by itself it would be redrawn by a thread, inside the clock.
    bar = Progress(console=Console(stderr=True), transient=True, auto_refresh=False)
    with bar:
        task = bar.add_task(title, total=steps)

        def step() -> None:
            bar.advance(task)
            bar.refresh()

        bar.refresh()
        yield step
