"""Traces of requests, as a collector receives them; nothing is imported without them."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from rolin.service.logs import JsonFormatter
from support.service import client

V1 = "/v1/bandits/default"
TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@contextmanager
def collector() -> Iterator[tuple[int, list[Any]]]:
    """Receive traces over HTTP: give the port, and the requests that came."""
    found: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            assert self.path == "/v1/traces"
            found.append(ExportTraceServiceRequest.FromString(body))
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port, found
        finally:
            server.shutdown()
            thread.join()


def attributes(thing: Any) -> dict[str, Any]:
    """Return attributes as a mapping."""
    return {
        each.key: getattr(each.value, each.value.WhichOneof("value")) for each in thing.attributes
    }


@pytest.mark.parametrize("name", [None, "shop-service"])
def test_a_request_is_a_span(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str | None
) -> None:
    """It continues the trace of its caller, has the wait for the journal as a child, and says what it was about."""
    import logging

    log, handler = io.StringIO(), logging.StreamHandler()
    handler.setStream(log)
    handler.setFormatter(JsonFormatter())
    access = logging.getLogger("rolin.access")
    access.addHandler(handler)
    monkeypatch.setattr(access, "level", logging.INFO)
    if name is not None:
        monkeypatch.setenv("OTEL_SERVICE_NAME", name)

    async def ask() -> None:
        async with client(tmp_path, traces=True, access_log=True) as http:
            headers = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
            body = {"id": "visit-1", "arms": ["a", "b"]}
            made = await http.post(f"{V1}/decisions", json=body, headers=headers)
            assert made.status_code == 201
            await http.post(f"{V1}/decisions/visit-1/reward", json={"value": 1})
            await http.post(f"{V1}/decisions", json={"id": "x", "arms": []})
            http.service.bandits.opened()[0]._failure = "it is broken"  # type: ignore[attr-defined]
            assert (await http.get("/readyz")).status_code == 503

    with collector() as (port, found):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{port}")
        try:
            asyncio.run(ask())
        finally:
            access.removeHandler(handler)
    (resource, *_) = [each for request in found for each in request.resource_spans]
    assert attributes(resource.resource)["service.name"] == (name or "rolin")
    spans = [s for r in found for rs in r.resource_spans for ss in rs.scope_spans for s in ss.spans]
    by_parent = {span.parent_span_id.hex(): span for span in spans}
    decided = by_parent[PARENT]
    assert decided.name == "POST /v1/bandits/{name}/decisions"
    assert decided.trace_id.hex() == TRACE
    assert attributes(decided) == {
        "http.request.method": "POST",
        "http.route": "/v1/bandits/{name}/decisions",
        "http.response.status_code": 201,
        "rolin.bandit": "default",
        "rolin.decision": "visit-1",
        "rolin.mode": "online",
    }
    child = by_parent[decided.span_id.hex()]
    assert (child.name, child.trace_id) == ("write", decided.trace_id)
    assert decided.start_time_unix_nano <= child.start_time_unix_nano
    assert child.end_time_unix_nano <= decided.end_time_unix_nano
    roots = [span for span in spans if not span.parent_span_id]
    assert {attributes(s)["http.response.status_code"]: s.status.code for s in roots} == {
        204: 0, 400: 0, 503: 2,
    }  # fmt: skip
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    assert lines[0]["trace_id"] == TRACE
    assert len({line["trace_id"] for line in lines}) == 4


def test_a_collector_that_does_not_answer_delays_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests are answered, and the service stops in time."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")

    async def ask() -> None:
        async with client(tmp_path, traces=True) as http:
            async with asyncio.timeout(5):
                made = await http.post(f"{V1}/decisions", json={"arms": ["a", "b"]})
            assert made.status_code == 201

    asyncio.run(asyncio.wait_for(ask(), 30))


def test_nothing_is_imported_without_traces() -> None:
    """The service does not know OpenTelemetry unless it is told to."""
    program = "import sys, rolin.service.app, rolin.cli.serve; print([m for m in sys.modules if 'opentelemetry' in m])"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert found.stdout == "[]\n", found.stderr
