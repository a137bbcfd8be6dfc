"""The start of a server: an error that can be expected is kept, and not logged with a traceback."""

from __future__ import annotations

import sys
from typing import Any

from uvicorn.lifespan.on import LifespanOn

from rolin.errors import RolinError

__all__ = ["Lifespan"]


class Lifespan(LifespanOn):
    """Starts and stops an application."""

    error: RolinError | None = None
    """Why it did not start, such as a mistake in `bandits.toml`; `None` if it started, or if the log says why."""

    async def send(self, message: Any) -> None:
        """Receive what the application says of its start and its end."""
        error = sys.exc_info()[1]  # the application is handling it
        if message["type"] == "lifespan.startup.failed" and isinstance(error, RolinError):
            self.error = error
            message = {**message, "message": ""}
        await super().send(message)
