"""Data folders of earlier versions open; those of later ones are named and left alone.

`data/service-1` holds a data folder that was written before folders named their version, and in `expected.json` what the
service answered then. Only `next`, what it would decide next, is newer: since then, arms without rewards are preferred
before the first estimate of the scales.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

import pytest

import rolin
from rolin.errors import DataError
from rolin.service.backup import backup
from rolin.service.data_folder import mark_folder
from rolin.service.keys import Keys
from support.service import client

FOLDER = Path(__file__).parent / "data" / "service-1"
EXPECTED = json.loads((FOLDER / "expected.json").read_text(encoding="utf-8"))


def test_an_earlier_folder_opens_and_continues(tmp_path: Path) -> None:
    """Bandits, arms, keys, decisions and what would be decided next are as they were."""
    data = tmp_path / "data"
    shutil.copytree(FOLDER / "data", data)
    (key,) = Keys(data).list()
    assert (key.name, key.scopes) == ("shop", {"decide", "reward"})

    async def check() -> None:
        async with client(data) as http:
            for name, info in EXPECTED["infos"].items():
                assert (await http.get(f"/v1/bandits/{name}")).json() == info
            assert (await http.get("/v1/bandits/shop/decisions/visit/4")).status_code == 404
            for id, (question, answer) in {**EXPECTED["decisions"], **EXPECTED["next"]}.items():
                made = await http.post("/v1/bandits/shop/decisions", json=question)
                assert made.status_code == 201
                found = made.json()
                # Sums may be added in another order on another processor.
                assert found.pop("probabilities") == pytest.approx(answer["probabilities"])
                assert found == {k: v for k, v in answer.items() if k != "probabilities"}, id
            told = await http.post(
                "/v1/bandits/plain/decisions/v/reward", json={"value": 1, "id": "r2"}
            )
            assert told.status_code == 204

    asyncio.run(check())


def test_the_version_of_a_folder(tmp_path: Path) -> None:
    """A folder names the version that wrote it; one of a later format is rejected, and left alone."""
    data, path = tmp_path / "data", tmp_path / "data" / "version.json"
    mark_folder(data)
    (data / "bandits").mkdir()
    assert json.loads(path.read_text()) == {"format": 1, "rolin": rolin.__version__}
    path.write_text('{"format": 1, "rolin": "0.0.9"}')
    mark_folder(data)
    assert json.loads(path.read_text())["rolin"] == rolin.__version__
    for text, why in [
        (
            '{"format": 2, "rolin": "3.4"}',
            r"written by rolin 3\.4 and has format 2.*use rolin 3\.4",
        ),
        ('{"format": 2}', "cannot be read: KeyError"),
        ("[]", "cannot be read: TypeError"),
        ("{", "cannot be read"),
    ]:
        path.write_text(text)
        with pytest.raises(DataError, match=why):
            mark_folder(data)
        with pytest.raises(DataError, match=why):
            backup(data, tmp_path / "kept")
        assert path.read_text() == text
