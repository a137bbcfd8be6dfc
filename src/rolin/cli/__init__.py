"""The command line: `rolin`."""

from __future__ import annotations

import io
import os
import signal
import sys
from types import FrameType

__all__ = ["main"]


def main() -> None:
    """Run the command line; an expected error is printed on one line, with exit code 2."""
    from rolin._support.optional import needs
    from rolin.errors import RolinError

    signal.signal(signal.SIGTERM, _interrupt)  # like Ctrl-C, so that workers end too
    for stream in (sys.stdout, sys.stderr):
        # A terminal without Greek letters shows a question mark instead of a traceback.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        with needs("cli"):
            from rolin.cli.app import app
        app()
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output, such as `head`, has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except MemoryError as error:
        print(f"rolin: not enough memory: {error}", file=sys.stderr)
        sys.exit(2)
    except (RolinError, OSError) as error:  # OSError: for example, the disk is full
        print(f"rolin: {error}", file=sys.stderr)
        sys.exit(2)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
