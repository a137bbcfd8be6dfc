"""Run the code of docs/how-to/features.md on real data, and store its output.

    python examples/features.py --data DATA --out docs/how-to/runs

`DATA` contains the folders `ml-1m` (MovieLens 1M) and `obd` (the Open Bandit Dataset), which you download yourself.
The output of a block of code is written to the file that the page includes below it. Figures are written to the same
folder.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import tempfile
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # write files, do not open windows

PAGE = Path(__file__).parent.parent / "docs/how-to/features.md"
_BLOCK = re.compile(
    r"^```python\n(.*?)^```(?:\n+<!-- begin: how-to/runs/([\w.-]+) -->)?", re.MULTILINE | re.DOTALL
)


def run(data: Path, out: Path) -> list[str]:
    """Run every block in a folder with the data; return the names of the files that were written."""
    out.mkdir(parents=True, exist_ok=True)
    written = []
    namespace: dict[str, object] = {"__name__": "__main__"}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for name in ("ml-1m", "obd"):
            os.symlink(data / name, name)
        for code, name in _BLOCK.findall(PAGE.read_text(encoding="utf-8")):
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                exec(compile(code, str(PAGE), "exec"), namespace)
            if name:
                (out / name).write_text(output.getvalue(), encoding="utf-8")
                written.append(name)
            print(output.getvalue(), end="")
        for figure in Path(".").glob("*.png"):
            (out / figure.name).write_bytes(figure.read_bytes())
            written.append(figure.name)
    return written


def main() -> None:
    """Read the options and run."""
    parser = argparse.ArgumentParser(description="Run docs/how-to/features.md on real data.")
    parser.add_argument("--data", type=Path, required=True, help="folder with ml-1m and obd")
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the outputs")
    options = parser.parse_args()
    written = run(options.data.resolve(), options.out.resolve())
    print(f"{len(written)} files are in {options.out}")


if __name__ == "__main__":
    main()
