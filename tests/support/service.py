"""A service in this process, for tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from rolin.service.app import create_app
from rolin.service.keys import open_keys
from rolin.service.settings import Settings

KEY = "a key with 24 characters".replace(" ", "-")
HEADERS = {"Authorization": f"Bearer {KEY}"}


@asynccontextmanager
async def client(
    folder: Path, *, headers: dict[str, str] = HEADERS, **settings: Any
) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a client of a running service; the errors of the service are answers."""
    made = Settings(data=folder, api_key=KEY, **settings)
    app = create_app(made, open_keys(made))
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://service", headers=headers) as found,
    ):
        found.service = app.state.service  # type: ignore[attr-defined]
        yield found
