"""Run the code of docs/how-to/features.md on the real data, and keep what it prints.

    python examples/features.py --data DATA --out docs/how-to/runs

`DATA` has the folders `ml-1m` (MovieLens 1M) and `obd` (the Open Bandit Dataset), from your own download. A block's
output goes to the file that the page shows below it; figures are kept beside.
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

matplotlib.use("Agg")  # a file is wanted, not a window

PAGE = Path(__file__).parent.parent / "docs/how-to/features.md"
_BLOCK = re.compile(
    r"^```python\n(.*?)^```(?:\n+<!-- begin: how-to/runs/([\w.-]+) -->)?", re.MULTILINE | re.DOTALL
)


def run(data: Path, out: Path) -> list[str]:
    """Run every block in a folder where the data are; return the names of what was kept."""
    out.mkdir(parents=True, exist_ok=True)
    kept = []
    namespace: dict[str, object] = {"__name__": "__main__"}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for name in ("ml-1m", "obd"):
            os.symlink(data / name, name)
        for code, name in _BLOCK.findall(PAGE.read_text(encoding="utf-8")):
            said = io.StringIO()
            with contextlib.redirect_stdout(said):
                exec(compile(code, str(PAGE), "exec"), namespace)
            if name:
                (out / name).write_text(said.getvalue(), encoding="utf-8")
                kept.append(name)
            print(said.getvalue(), end="")
        for figure in Path(".").glob("*.png"):
            (out / figure.name).write_bytes(figure.read_bytes())
            kept.append(figure.name)
    return kept


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Run docs/how-to/features.md on the real data.")
    parser.add_argument("--data", type=Path, required=True, help="folder with ml-1m and obd")
    parser.add_argument("--out", type=Path, default=Path("out"), help="where to keep outputs")
    options = parser.parse_args()
    kept = run(options.data.resolve(), options.out.resolve())
    print(f"{len(kept)} outputs are in {options.out}")


if __name__ == "__main__":
    main()
