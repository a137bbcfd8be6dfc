"""The page about the service is true: its requests work, and its table lists the settings."""

from __future__ import annotations

import asyncio
import re
import shlex
from pathlib import Path

import httpx

from rolin.service.routes import ENDPOINTS
from rolin.service.settings import settings_table
from support.service import client

PAGE = (Path(__file__).parent.parent / "docs/how-to/service.md").read_text()


def test_the_requests_of_the_page_work(tmp_path: Path) -> None:
    """In their order, against a new service."""
    commands = [
        shlex.split(block)
        for block in re.findall(r"^```sh\n(curl .*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    ]
    assert len(commands) == 4
    log = "article,reward,topic,length,hour\nnews,1,sport,3,9\n"

    async def send() -> list[httpx.Response]:
        async with client(tmp_path) as http:
            found = []
            for command in commands:
                _, url, _, header, _, body = [part for part in command if part.strip()]
                assert header == "Authorization: Bearer $KEY"
                path = url.removeprefix("http://127.0.0.1:8000")
                content = log if body == "@past.csv" else body
                found.append(await http.post(path, content=content))
            return found

    made, rewarded, created, imported = asyncio.run(send())
    assert (made.status_code, rewarded.status_code, created.status_code) == (201, 204, 201)
    assert (imported.status_code, imported.json()) == (200, {"decisions": 1})
    shown = re.search(r'^{"id":"visit-1".*$', PAGE, re.MULTILINE)
    assert shown is not None
    assert re.sub(r'"(football|recipes)"', '"_"', shown[0]) == re.sub(
        r'"(football|recipes)"', '"_"', made.text
    )


def test_the_table_of_settings_is_that_of_the_code() -> None:
    """Flags, variables, defaults and meanings."""
    assert settings_table() in PAGE


def test_the_requests_that_the_page_names_exist() -> None:
    """Every path in the text is one of an endpoint."""
    paths = {re.sub(r"{\w+(:\w+)?}", "{}", endpoint.path) for endpoint in ENDPOINTS}
    named = re.findall(r"`(?:GET|POST|PUT|PATCH|DELETE) ([^`]+)`", PAGE)
    assert len(named) > 10
    for path in named:
        full = path.replace("…", "/v1/bandits/{}")
        assert re.sub(r"{\w+}", "{}", full) in paths, path
