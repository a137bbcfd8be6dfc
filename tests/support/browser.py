"""A real Chromium without a window, for tests and pictures of the dashboard."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

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


@contextmanager
def chromium(width: int = 1440, height: int = 1000, *, dark: bool = False) -> Iterator[Any]:
    """Yield a browser with a new profile."""
    with tempfile.TemporaryDirectory() as profile:
        options = webdriver.ChromeOptions()
        options.binary_location = "/usr/bin/chromium"
        for flag in (*FLAGS, f"--user-data-dir={profile}", f"--window-size={width},{height}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        driver = webdriver.Chrome(options, Service("/usr/bin/chromedriver"))
        try:
            resize(driver, width, height)
            color = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
            driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [color]})
            yield driver
        finally:
            driver.quit()


def resize(driver: Any, width: int, height: int) -> None:
    """Give the page a size, as a phone has it, which windows cannot have."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
