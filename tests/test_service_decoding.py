"""What callers read if a body does not fit: what it is, where, and what was expected."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rolin.errors import DataError
from rolin.service import schema
from rolin.service.bandits import read_bandits
from rolin.service.decoding import decode
from rolin.service.errors import Refusal
from support.server import V1
from support.service import client


@pytest.mark.parametrize(
    ("kind", "body", "field", "message"),
    [
        (
            schema.NewBandit, b'{"name": "x", "settings": {"mode": "x"}}', "settings.mode",
            "it is 'x', expected one of apprentice, online, stopped",
        ),
        (
            schema.NewBandit, b'{"name": "x", "rewards": {"rule": "x"}}', "rewards.rule",
            "it is 'x', expected one of first, sum",
        ),
        (
            schema.BanditChange, b'{"settings": {"exploration": "x"}}', "settings.exploration",
            "it is 'x', expected one of auto, a number",
        ),
        (
            list[dict[str, schema.Settings]], b'[{"a": {"mode": "x"}}]', "[0][...].mode",
            "it is 'x', expected one of apprentice, online, stopped",
        ),
        (
            schema.RewardRequest, b'{"value": 1e400}', "value",
            "it is too large, expected a number between -1.8e308 and 1.8e308",
        ),
        *(
            (
                schema.DecisionRequest, body, place,
                "it is too large, expected a number between -1.8e308 and 1.8e308",
            )
            for body, place in (
                (b'{"arms": ["a", {"id": "b", "features": {"x": 1, "y": 1e400}}]}', "arms[1].features.y"),
                (b'{"situation": {"x": {"y": [1, -1e400]}}}', "situation.x.y[1]"),
                (b'{"situation": {"x": 1e400}} and more', "situation[...]"),
            )
        ),
        (schema.RewardRequest, b'{"value": 1, "reward": 1}', "reward", "there is no member 'reward', expected value, arm, weight, id"),
        (schema.RewardRequest, b"{}", "value", "the member 'value' is missing"),
        (schema.RewardRequest, b'{"value": 1, "": 1}', None, "there is no member '', expected value, arm, weight, id"),
        (schema.RewardRequest, b" ", None, "the body is empty, expected JSON"),
        (schema.RewardRequest, b"{", None, "the body ends too early, expected complete JSON"),
        (
            schema.DecisionRequest, rb'{"id": "\\ud83d', None,
            "the body ends too early, expected complete JSON",
        ),
        *(
            (
                schema.DecisionRequest, body, None,
                r"a text has half of a surrogate pair, such as \ud83d alone, expected both halves",
            )
            for body in (rb'{"id": "\ud83d"}', rb'{"id": "\\\uD83D"}')
        ),
    ],
)  # fmt: skip
def test_messages(kind: Any, body: bytes, field: str | None, message: str) -> None:
    """They name the values that are allowed, and say only what is true."""
    with pytest.raises(Refusal) as raised:
        decode(msgspec.json.Decoder(kind), body)
    assert (raised.value.field, str(raised.value)) == (field, message)


def test_they_are_the_same_everywhere(tmp_path: Path) -> None:
    """In a body, in an item of a batch and in a file."""

    async def ask() -> None:
        async with client(tmp_path) as http:
            found = await http.patch(V1, json={"settings": {"mode": "x"}})
            assert found.status_code == 400
            assert found.json()["error"] == {
                "code": "invalid_request",
                "message": "it is 'x', expected one of apprentice, online, stopped",
                "field": "settings.mode",
            }
            batch = b'{"rewards": [{"decision": "a", "value": 1e400}]}'
            found = await http.post(f"{V1}/rewards", content=batch)
            (item,) = found.json()["results"]
            assert item["status"] == 400
            assert item["error"]["field"] == "value"

    asyncio.run(ask())
    path = tmp_path / "bandits.toml"
    path.write_text('[shop.rewards]\nrule = "last"\n')
    with pytest.raises(DataError) as raised:
        read_bandits(path)
    assert str(raised.value) == (
        f"{path}: shop.rewards.rule: it is 'last', expected one of first, sum"
    )
