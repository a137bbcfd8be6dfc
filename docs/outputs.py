"""Run the Python blocks of pages, and write what they print into the text blocks below them.

    python docs/outputs.py docs/tutorial.md docs/how-to/noise.md

A text block is the output of a Python block if nothing but an empty line is between them. The blocks of a
page run in order, in one session, in an empty folder. Pages that need data files are not for this script.
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

_BLOCK = re.compile(r"^```python\n(.*?)^```(?:\n\n```text\n(.*?)^```)?", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A Python block of a page, and the output that the page shows below it."""

    line: int
    """Where the code starts in the page."""
    code: str
    shown: str | None
    """`None` if the page shows no output."""
    start: int
    end: int
    """Where both blocks start and end in the text."""


def blocks_of(text: str) -> list[Block]:
    """Return the Python blocks of a page, in order."""
    return [
        Block(text[: found.start()].count("\n") + 2, found[1], found[2], *found.span())
        for found in _BLOCK.finditer(text)
    ]


def printed(block: Block, page: Path, namespace: dict[str, object]) -> str:
    """Run a block, and return what it printed, without spaces at the ends of lines."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile("\n" * (block.line - 1) + block.code, page, "exec"), namespace)
    return "".join(f"{line.rstrip()}\n" for line in said.getvalue().splitlines())


def main() -> None:
    """Rewrite the pages that are named on the command line."""
    import matplotlib

    matplotlib.use("Agg")  # figures go to files, not to windows
    for page in map(Path, sys.argv[1:]):
        page = page.resolve()
        text = page.read_text(encoding="utf-8")
        namespace: dict[str, object] = {"__name__": "__main__"}
        parts, last = [], 0
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            for block in blocks_of(text):
                said = printed(block, page, namespace)
                if block.shown is not None:
                    both = f"```python\n{block.code}```\n\n```text\n{said}```"
                    parts += [text[last : block.start], both]
                    last = block.end
        page.write_text("".join([*parts, text[last:]]), encoding="utf-8")


if __name__ == "__main__":
    main()
