"""The command line: `rolin`."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line, or say which extra it needs."""
    from rolin.errors import RolinError
    from rolin.extras import needs

    try:
        with needs("cli"):
            from rolin.cli.app import app
        app()
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        sys.exit(130)
    except RolinError as error:
        print(f"rolin: {error}", file=sys.stderr)
        sys.exit(2)
