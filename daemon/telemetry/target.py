"""Where telemetry is sent: by the user's setting, else by the standard variables of a client.

The packages of OpenTelemetry are only loaded to read headers, so that a wrong address is noticed at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from msgspec import Struct

from tools.localization import t
from tools.redaction.redactor import SECRETS, may_be_secret

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_ENDPOINT = "http://localhost:4318"
_PREFIX = "OTEL_EXPORTER_OTLP_"


class BadTargetError(Exception):
    """The collector's address or protocol cannot be used; the message is for the user."""


class ExportTarget(Struct, frozen=True):
    """Where to send."""

    traces: str
    metrics: str
    headers: Mapping[str, str]
    timeout_s: float
    certificate: str | None
    service: str
    attributes: Mapping[str, str]

    def __repr__(self) -> str:
        return f"ExportTarget({self.traces!r}, {self.metrics!r})"  # ``headers`` have secrets


def check_address(url: str) -> None:
    """Raise BadTargetError for what is no address of a collector."""
    try:
        usable = urlsplit(url).scheme in ("http", "https") and bool(urlsplit(url).hostname)
    except ValueError:
        usable = False
    if not usable:
        raise BadTargetError(t("The address for telemetry must begin with http:// or https://."))


def target_of(endpoint: str | None, env: Mapping[str, str]) -> ExportTarget:
    """Return where to send: the setting, else the standard variables of a client. Raises BadTargetError."""
    protocol = env.get(f"{_PREFIX}PROTOCOL", "http/protobuf")
    if protocol != "http/protobuf" and not endpoint:
        raise BadTargetError(
            t(
                "Telemetry is sent by http/protobuf only, not {protocol}: set telemetry_endpoint.",
                protocol=protocol,
            )
        )
    base = (endpoint or env.get(f"{_PREFIX}ENDPOINT") or DEFAULT_ENDPOINT).rstrip("/")
    traces = (not endpoint and env.get(f"{_PREFIX}TRACES_ENDPOINT")) or f"{base}/v1/traces"
    metrics = (not endpoint and env.get(f"{_PREFIX}METRICS_ENDPOINT")) or f"{base}/v1/metrics"
    check_address(traces)
    check_address(metrics)
    from opentelemetry.util.re import parse_env_headers

    headers = dict(parse_env_headers(env.get(f"{_PREFIX}HEADERS", ""), liberal=True))
    secret = [value for name, value in headers.items() if may_be_secret(name, value)]
    SECRETS.register([part for value in secret for part in (value, value.rpartition(" ")[2])])
    try:
        timeout_s = float(env.get(f"{_PREFIX}TIMEOUT") or 10.0)
    except ValueError:
        timeout_s = 10.0
    named = (one.partition("=") for one in env.get("OTEL_RESOURCE_ATTRIBUTES", "").split(","))
    attributes = {name.strip(): value.strip() for name, equals, value in named if equals and name.strip()}
    service = env.get("OTEL_SERVICE_NAME") or attributes.get("service.name") or "goalwright"
    certificate = env.get(f"{_PREFIX}CERTIFICATE") or None
    return ExportTarget(traces, metrics, headers, timeout_s, certificate, service, attributes)
