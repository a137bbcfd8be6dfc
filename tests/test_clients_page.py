"""The Python code of the page about clients runs against a real service, and prints what the page shows."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from rolin.client import Client
from support.server import served
from support.service import KEY

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs/how-to/clients.md"

pytestmark = [pytest.mark.compiled, pytest.mark.service]


def test_the_code_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In its order, in one session."""
    spec = importlib.util.spec_from_file_location("outputs", ROOT / "docs/outputs.py")
    assert spec is not None
    assert spec.loader is not None
    outputs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(outputs)
    namespace: dict[str, object] = {"__name__": "__main__"}
    with served(tmp_path) as server:
        monkeypatch.setenv("ROLIN_URL", f"http://127.0.0.1:{server.port}")
        monkeypatch.setenv("ROLIN_API_KEY", KEY)
        shown = 0
        for block in outputs.blocks_of(PAGE.read_text()):
            said = outputs.printed(block, PAGE, namespace)
            if block.shown is not None:
                assert said == block.shown
                shown += 1
        client = namespace["client"]
        assert isinstance(client, Client)
        client.close()
    assert shown == 8
