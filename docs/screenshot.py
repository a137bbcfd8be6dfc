"""Take the picture of the dashboard for the documentation: `make screenshot`, or `python docs/screenshot.py FILE`.

It starts `rolin serve --demo` with a new data folder, waits for some simulated visitors, and takes the picture with
Chromium and its driver, which must be installed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

KEY = "a-key-for-the-screenshot"
VISITORS = 100.0  # seconds of visitors
WIDTH, HEIGHT = 1280, 1000
FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
]


def main(path: Path) -> None:
    """Take the picture."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "rolin", "serve", "--demo", "--port", "0"]
        environment = {**os.environ, "ROLIN_API_KEY": KEY, "PYTHONUNBUFFERED": "1"}
        with subprocess.Popen(
            [*command, "--data", f"{folder}/data", "--log-level", "error"],
            env=environment, stdout=subprocess.PIPE, text=True,
        ) as server:  # fmt: skip
            try:
                assert server.stdout is not None
                url = server.stdout.readline().split()[-1]
                time.sleep(VISITORS)
                take(f"{url}/dashboard", Path(folder) / "profile", path)
            finally:
                server.terminate()


def take(url: str, profile: Path, path: Path) -> None:
    """Open the dashboard, enter the key, and store the picture."""
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for flag in (*FLAGS, f"--user-data-dir={profile}", f"--window-size={WIDTH},{HEIGHT}"):
        options.add_argument(flag)
    driver = webdriver.Chrome(options, Service("/usr/bin/chromedriver"))
    try:
        size = {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        driver.get(url)
        driver.find_element("id", "key").send_keys(KEY, "\n")
        time.sleep(20.0)  # it reads the journal, and draws
        driver.save_screenshot(str(path))
    finally:
        driver.quit()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
