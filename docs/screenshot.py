"""Take the picture of the dashboard for the documentation: `make screenshot`, or `python docs/screenshot.py FILE`.

It starts `rolin serve --demo` with a new data folder, waits for some simulated visitors, and takes the picture with
Chromium and its driver, which must be installed.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from support.browser import chromium
from support.server import served
from support.service import KEY

VISITORS = 100.0  # seconds of visitors
WIDTH, HEIGHT = 1280, 1000


def main(path: Path) -> None:
    """Take the picture."""
    with (
        tempfile.TemporaryDirectory() as folder,
        served(Path(folder), "--demo", "--log-level", "error") as server,
        chromium(WIDTH, HEIGHT) as page,
    ):
        time.sleep(VISITORS)
        page.get(f"http://127.0.0.1:{server.port}/dashboard")
        page.find_element("id", "key").send_keys(KEY, "\n")
        time.sleep(20.0)  # it reads the journal, and draws
        page.save_screenshot(str(path))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
