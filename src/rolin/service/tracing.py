"""Traces of requests by OpenTelemetry. Without the setting `traces`, nothing of it is imported."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any

import rolin
from rolin._support.optional import needs

__all__ = ["Tracing", "child_span", "trace_id"]

_active: ContextVar[tuple[Any, str] | None] = ContextVar("rolin_trace", default=None)
"""The tracer and the id of the trace of the present request."""
_NOTHING: AbstractContextManager[Any] = nullcontext()


def trace_id() -> str | None:
    """Return the id of the trace of the present request; `None` if there is none."""
    found = _active.get()
    return None if found is None else found[1]


def child_span(name: str) -> AbstractContextManager[Any]:
    """Return a block that is a part of the present request in its trace, if there is one.

    Parameters
    ----------
    name
        Name of the span.
    """
    found = _active.get()
    return _NOTHING if found is None else found[0].start_as_current_span(name)


class Tracing:
    """Sends one span per request, with the parts of it as its children.

    The standard environment variables of OpenTelemetry say where to and how many, such as
    `OTEL_EXPORTER_OTLP_ENDPOINT` and `OTEL_TRACES_SAMPLER`. A collector that does not answer delays nobody.
    """

    def __init__(self) -> None:
        with needs("telemetry"):
            from opentelemetry import trace
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
            from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
        found = Resource.create()
        if str(found.attributes.get("service.name", "")).startswith("unknown_service"):
            found = found.merge(Resource({"service.name": "rolin"}))
        version = Resource({"service.version": rolin.__version__})
        self._provider = TracerProvider(resource=found.merge(version))
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("rolin", rolin.__version__)
        self._extract = TraceContextTextMapPropagator().extract
        self._server, self._error = trace.SpanKind.SERVER, trace.Status(trace.StatusCode.ERROR)

    @contextmanager
    def request(self, method: str, route: str, headers: Mapping[str, str]) -> Iterator[Any]:
        """Give the span of a request; it continues the trace of the caller, if the headers name one.

        Parameters
        ----------
        method, route
            What is asked.
        headers
            The headers of the request, of which `traceparent` and `tracestate` are read.
        """
        attributes = {"http.request.method": method, "http.route": route}
        known = {name: headers[name] for name in ("traceparent", "tracestate") if name in headers}
        with self._tracer.start_as_current_span(
            f"{method} {route}",
            context=self._extract(known),
            kind=self._server,
            attributes=attributes,
        ) as span:
            own = f"{span.get_span_context().trace_id:032x}"
            token = _active.set((self._tracer, own))
            try:
                yield span
            finally:
                _active.reset(token)

    def answered(
        self, span: Any, status: int, bandit: str | None, decision: str | None, mode: str | None
    ) -> None:
        """Say in a span what became of its request.

        Parameters
        ----------
        span
            The span of the request.
        status
            The status of the answer; from 500 on it is an error.
        bandit, decision, mode
            What it was about, if known.
        """
        span.set_attribute("http.response.status_code", status)
        for name, value in (("bandit", bandit), ("decision", decision), ("mode", mode)):
            if value is not None:
                span.set_attribute(f"rolin.{name}", value)
        if status >= 500:
            span.set_status(self._error)

    def close(self) -> None:
        """Send what is left."""
        self._provider.shutdown()
