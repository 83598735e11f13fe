"""A collector of OpenTelemetry on loopback HTTP: it decodes what comes in, as protobuf, and can refuse or hang."""

from __future__ import annotations

import gzip
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass
class Collector:
    """Use it as a context manager. ``url`` is the address for the setting."""

    how: Literal["good", "refuse", "hang"] = "good"
    spans: list[Any] = field(default_factory=list[Any])
    """Protobuf spans, as they came."""
    metrics: list[Any] = field(default_factory=list[Any])
    headers: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    raw: bytes = b""
    """All bodies, unpacked."""
    resource: dict[str, str] = field(default_factory=dict[str, str])
    url: str = ""

    def __enter__(self) -> Collector:
        self._go = threading.Event()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                collector.headers.append({name.lower(): value for name, value in self.headers.items()})
                if collector.how == "hang":
                    collector._go.wait()
                if collector.how == "good":
                    collector._take(self.path, body)
                self.send_response(200 if collector.how == "good" else 400)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Die: the port is closed."""
        self._go.set()
        self._server.shutdown()
        self._server.server_close()

    def _take(self, path: str, body: bytes) -> None:
        self.raw += body
        if path == "/v1/traces":
            for one in ExportTraceServiceRequest.FromString(body).resource_spans:
                self.resource |= {item.key: item.value.string_value for item in one.resource.attributes}
                self.spans += [span for scope in one.scope_spans for span in scope.spans]
        elif path == "/v1/metrics":
            for one in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                self.metrics += [metric for scope in one.scope_metrics for metric in scope.metrics]


def attributes(span: Any) -> dict[str, Any]:
    """The attributes of a span or a point."""
    found: dict[str, Any] = {}
    for item in span.attributes:
        kind = item.value.WhichOneof("value")
        found[item.key] = getattr(item.value, kind)
    return found
