"""The known language servers by file type, and how each is found and set up.

The known servers themselves are in ``defaults``, which is not imported here: the daemon starts without them.
"""

from __future__ import annotations

from lsp_bridge.language_client.specs.discovery import (
    DiscoveryResult,
    find_server,
    look_up,
    safe_environment,
    safe_path,
)
from lsp_bridge.language_client.specs.server_spec import (
    Command,
    FoundServer,
    JsonObject,
    ServerSpec,
    Setup,
    SetupContext,
    Unusable,
)

__all__ = [
    "Command",
    "DiscoveryResult",
    "FoundServer",
    "JsonObject",
    "ServerSpec",
    "Setup",
    "SetupContext",
    "Unusable",
    "find_server",
    "look_up",
    "safe_environment",
    "safe_path",
]
