"""Environment variables that choose and authorize model providers. Light, because every client imports it.

The daemon is not started with them: other processes of the user, including the model's commands, may read the
environment of a process. Clients pass them in ``initialize`` instead.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

CLAUDE_KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_PROFILE")
OPENAI_KEY = "OPENAI_API_KEY"
"""These choose the model where none is set."""
_KNOWN = frozenset(
    [
        *CLAUDE_KEYS,
        "ANTHROPIC_BASE_URL",
        OPENAI_KEY,
        "OPENAI_BASE_URL",
        "OPENAI_API_BASE",
        "OLLAMA_HOST",
    ]
)
_FAMILY = r"[A-Z][A-Z0-9_]*_API_(?:KEY|BASE)"
# Sign-in variables of the clouds, which litellm and the clouds' SDKs read from the environment of the process.
_CLOUD = (
    r"AWS_(?:ACCESS_KEY_ID|SECRET_ACCESS_KEY|SESSION_TOKEN|PROFILE|DEFAULT_PROFILE|REGION|REGION_NAME|DEFAULT_REGION|"
    r"ROLE_ARN|ROLE_SESSION_NAME|WEB_IDENTITY_TOKEN_FILE|SHARED_CREDENTIALS_FILE|CONFIG_FILE|BEARER_TOKEN_BEDROCK|"
    r"CONTAINER_CREDENTIALS_(?:RELATIVE|FULL)_URI|CONTAINER_AUTHORIZATION_TOKEN(?:_FILE)?|EC2_METADATA_DISABLED)|"
    r"GOOGLE_(?:APPLICATION_CREDENTIALS|CLOUD_PROJECT)|VERTEX(?:AI)?_(?:PROJECT|LOCATION|CREDENTIALS)|CLOUDSDK_CONFIG|"
    r"GCE_METADATA_(?:HOST|IP|ROOT|TIMEOUT|DETECT_RETRIES)|NO_GCE_CHECK|"
    r"AZURE_(?:API_VERSION|AD_TOKEN|TENANT_ID|CLIENT_ID|CLIENT_SECRET)|WATSONX_[A-Z]{1,20}"
)


_TELEMETRY = r"OTEL_EXPORTER_OTLP_[A-Z_]{1,40}|OTEL_SERVICE_NAME|OTEL_RESOURCE_ATTRIBUTES"
PROVIDER_VARIABLE = "|".join([*sorted(_KNOWN), _FAMILY, _CLOUD, _TELEMETRY])
"""Pattern of all names; the VS Code extension gets it with ``make generate``."""


def is_provider_variable(name: str) -> bool:
    """Return whether a client may hand this environment variable to the daemon for its model calls, or for telemetry,
    whose headers are secrets, too."""
    return re.fullmatch(PROVIDER_VARIABLE, name) is not None


def is_cloud_variable(name: str) -> bool:
    """Return whether it signs in to a cloud, and is looked for in the environment of the process alone."""
    return re.fullmatch(_CLOUD, name) is not None


def provider_env(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that choose and open model providers, as users of their SDKs know them."""
    return {name: value for name, value in environ.items() if is_provider_variable(name)}
