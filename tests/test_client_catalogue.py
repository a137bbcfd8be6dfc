"""The clients and catalogues: upload from arms, iterators and frames, and decide among candidates."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pandas as pd
import pytest

from rolin.client import AsyncClient, Client, Question
from rolin.errors import NotFound, ParameterError, ServiceError, ServiceUnavailable
from support.service import KEY, client

ROWS = [
    {"arm": "red", "price": 3.5, "kind": "a"},
    {"arm": "blue", "price": np.nan, "kind": "b"},
    {"arm": "grün\n", "price": 9.25, "kind": None},
]
ARMS = {
    "red": {"price": 3.5, "kind": "a"},
    "blue": {"kind": "b"},
    "grün\n": {"price": 9.25},
}
LINES = b"".join(
    json.dumps({"id": id, "features": row}, ensure_ascii=False, separators=(",", ":")).encode()
    + b"\n"
    for id, row in ARMS.items()
)


def use(folder: Path, work: Callable[[AsyncClient], Awaitable[None]]) -> None:
    """Run some work with a client of a new service that has a bandit of vectors beside the default one."""

    async def run() -> None:
        async with client(folder) as http:
            asked = AsyncClient("http://service", key=KEY, http=http)
            features = {"kind": "vectors", "n_features": 2}
            await asked.create_bandit("vectors", features=features, options={"seed": 1})
            await work(asked)

    asyncio.run(run())


def test_upload_and_decide(tmp_path: Path) -> None:
    """Every form of the same arms is the same catalogue, and candidates are names or a number."""
    polars = pytest.importorskip("polars")

    async def work(asked: AsyncClient) -> None:
        bandit, vectors = asked.bandit("default"), asked.bandit("vectors")
        with pytest.raises(NotFound, match="has no catalogue"):
            await bandit.catalogue()
        objects = [{"id": id, "features": row} for id, row in ARMS.items()]
        frame = pd.DataFrame(ROWS)
        forms = (
            ARMS,
            objects,
            iter(objects),
            frame,
            frame.convert_dtypes(),
            polars.from_pandas(frame),
        )
        for form in forms:
            stored = await bandit.store_catalogue(form)
            assert (stored["n_arms"], stored["size"]) == (3, len(LINES)), form
            assert await bandit.catalogue() == stored
            assert (tmp_path / "bandits/default/catalogue.ndjson").read_bytes() == LINES
        made = await bandit.decide(candidates=("red", "grün\n"), id="a", fallback="red")
        assert made.recorded
        assert set(made.probabilities or ()) == {"red", "grün\n"}
        assert await bandit.decide(candidates=["red", "grün\n"], id="a", fallback="red") == made
        numbers = pd.DataFrame(np.arange(20_000.0).reshape(-1, 2) / 1e4, columns=["x", "y"])
        numbers.insert(1, "sku", [f"sku-{i}" for i in range(len(numbers))])
        assert (await vectors.store_catalogue(numbers, arm="sku"))["n_arms"] == 10_000
        found = await vectors.decide(candidates=7, top_k=3)
        assert len(found.probabilities or ()) == 7
        assert len(found.ranking) == 3
        batch = await vectors.decide_batch(
            [Question(candidates=["sku-1", "sku-9999"]), Question(candidates=["nobody"])]
        )
        assert isinstance(batch[1], ServiceError)
        assert not isinstance(batch[0], ServiceError)
        assert batch[0].arm in ("sku-1", "sku-9999")
        await vectors.delete_catalogue()
        with pytest.raises(NotFound):
            await vectors.delete_catalogue()

    use(tmp_path, work)


def test_a_bad_arm_leaves_the_present_catalogue(tmp_path: Path) -> None:
    """Whether the client or the service finds it, at the end of many."""

    async def work(asked: AsyncClient) -> None:
        bandit = asked.bandit("default")
        stored = await bandit.store_catalogue(ARMS)
        many = [{"id": f"arm-{i}", "features": {"x": i}} for i in range(5000)]
        for wrong, message in (
            ({"id": "a", "features": {"x": np.nan}}, "expected finite numbers"),
            (("a", {"x": 1}), "arm 5000 is .*, expected an object with id and features"),
            ({"id": 7}, "line 5001: id: it is a whole number, expected a text"),
            ({"id": "arm-3"}, "arm 'arm-3' is given twice"),
        ):
            with pytest.raises((ParameterError, ServiceError), match=message):
                await bandit.store_catalogue([*many, wrong])
            assert await bandit.catalogue() == stored
        for given, message in (("red", "expected arms with features"), (7, "expected arms")):
            with pytest.raises(ParameterError, match=message):
                await bandit.store_catalogue(given)
        with pytest.raises(ParameterError, match="arm='sku' is no column of the frame"):
            await bandit.store_catalogue(pd.DataFrame(ROWS), arm="sku")

    use(tmp_path, work)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"candidates": "red"}, "is one text, expected names or a number"),
        ({"candidates": 0}, "candidates=0, expected names, or a number above 0"),
        ({"candidates": True}, "candidates=True"),
        ({"candidates": 5, "arms": ["a"]}, "arms and candidates are given"),
        ({"candidates": ["a", "b"], "fallback": "c"}, "fallback='c' is none of the arms"),
    ],
)
def test_bad_candidates_are_rejected_before_they_are_sent(options: Any, message: str) -> None:
    """With the name of the parameter."""
    with pytest.raises(ParameterError, match=message):
        Question(**options)


def test_an_upload_is_sent_in_parts_and_again() -> None:
    """By the client for threads: a list is sent again, an iterator is not, and neither is in memory as a whole."""
    received: list[list[int]] = []

    class Busy(httpx.BaseTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            assert isinstance(request.stream, httpx.SyncByteStream)
            received.append([len(part) for part in request.stream])
            return httpx.Response(503, json={"error": {"code": "unavailable", "message": "busy"}})

    def arms() -> Iterator[dict[str, Any]]:
        for i in range(20_000):
            yield {"id": f"arm-{i}", "features": {"price": i}}

    with httpx.Client(transport=Busy()) as http:
        bandit = Client("http://service", key=KEY, http=http, retries=2).bandit("default")
        for given, attempts in (([*arms()], 3), (arms(), 1)):
            received.clear()
            with pytest.raises(ServiceUnavailable, match="busy"):
                bandit.store_catalogue(given)
            assert len(received) == attempts
            for parts in received:
                assert sum(parts) > 800_000
                assert max(parts) < 70_000
