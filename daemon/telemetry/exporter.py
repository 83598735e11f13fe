"""Send spans and metrics by OTLP over HTTP, with the OpenTelemetry SDK. Imported only when telemetry is on.

The SDK's queues are bounded, and its threads send. Nothing is read from the process's environment or files: where to
send is given.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricExportResult, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from daemon.version import product_version

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from daemon.telemetry.spans import Measurement, SpanRecord
    from daemon.telemetry.target import ExportTarget

_QUEUE, _BATCH = 4096, 256
_TOKENS = tuple(4**power for power in range(14))
_SECONDS = tuple(0.01 * 2**power for power in range(14))
"""Buckets that the semantic conventions recommend."""


class Exporter:
    """Queues spans and measurements, and sends them from threads of the SDK."""

    def __init__(self, target: ExportTarget, failed: Callable[[], None]) -> None:
        """``failed`` is called from any thread each time something could not be sent."""
        # Otherwise the SDK logs each failure, and the user has one notice about all of them.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        options: dict[str, Any] = {
            "certificate_file": target.certificate,
            "headers": dict(target.headers),
            "timeout": target.timeout_s,
        }
        version = product_version()
        attributes = {**target.attributes, "service.name": target.service, "service.version": version}
        self._resource = Resource(attributes)
        self._scope = InstrumentationScope("goalwright", version)
        self._processor = BatchSpanProcessor(
            _telling(OTLPSpanExporter(target.traces, **options), failed),
            max_queue_size=_QUEUE,
            max_export_batch_size=_BATCH,
        )
        reader = PeriodicExportingMetricReader(
            _telling(OTLPMetricExporter(target.metrics, **options), failed)
        )
        self._meters = MeterProvider([reader], self._resource, shutdown_on_exit=False)
        meter = self._meters.get_meter("goalwright", version)
        self._tokens = meter.create_histogram(
            "gen_ai.client.token.usage",
            "{token}",
            "Number of input and output tokens used.",
            explicit_bucket_boundaries_advisory=_TOKENS,
        )
        self._seconds = meter.create_histogram(
            "gen_ai.client.operation.duration",
            "s",
            "GenAI operation duration.",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )

    def export(self, spans: Sequence[SpanRecord]) -> None:
        """Queue spans; when the queue is full, the oldest are dropped."""
        for span in spans:
            self._processor.on_end(self._span(span))

    def measure(self, call: Measurement) -> None:
        """Count a model call."""
        about = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": call.provider,
            "gen_ai.request.model": call.model,
        }
        usage = call.usage
        sent = usage.input + usage.cache_read + usage.cache_write
        self._tokens.record(sent, {**about, "gen_ai.token.type": "input"})
        self._tokens.record(usage.output, {**about, "gen_ai.token.type": "output"})
        self._seconds.record(call.seconds, about)

    def close(self, timeout_s: float) -> None:
        """Send the rest within ``timeout_s`` seconds. Blocks."""
        # The processor's own ``shutdown`` takes no time: it may wait for 30 s, longer than the daemon does.
        # https://github.com/open-telemetry/opentelemetry-python/issues/4623
        self._processor._batch_processor.shutdown(int(timeout_s * 1000))  # pyright: ignore[reportPrivateUsage]
        self._meters.shutdown(int(timeout_s * 1000))

    def _span(self, span: SpanRecord) -> ReadableSpan:
        return ReadableSpan(
            span.name,
            context=_context(span.trace_id, span.span_id),
            parent=None if span.parent_id is None else _context(span.trace_id, span.parent_id),
            resource=self._resource,
            attributes=span.attributes,
            kind=SpanKind.CLIENT if span.kind == "client" else SpanKind.INTERNAL,
            status=Status(StatusCode.ERROR if span.failed else StatusCode.UNSET),
            start_time=span.start_ns,
            end_time=span.end_ns,
            instrumentation_scope=self._scope,
        )


def _context(trace_id: int, span_id: int) -> SpanContext:
    return SpanContext(trace_id, span_id, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))


def _telling(exporter: Any, failed: Callable[[], None]) -> Any:
    """Return an exporter of the SDK that calls ``failed`` each time something could not be sent."""
    export = exporter.export

    def told(*args: Any, **options: Any) -> SpanExportResult | MetricExportResult:
        done = export(*args, **options)
        if done not in (SpanExportResult.SUCCESS, MetricExportResult.SUCCESS):
            failed()
        return done

    exporter.export = told
    return exporter
