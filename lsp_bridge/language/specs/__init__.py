"""Which language servers there are for which files, and how each is found and set up.

Imported when the daemon starts: nothing here may cost time.
"""

from __future__ import annotations

from lsp_bridge.language.specs.base import Command, Found, JsonObject, Place, ServerSpec, Setup, Unusable
from lsp_bridge.language.specs.finding import LookUp, find_server, look_up, safe_environment, safe_path
from lsp_bridge.language.specs.python import PYTHON
from lsp_bridge.language.specs.systems import SYSTEMS
from lsp_bridge.language.specs.typescript import TYPESCRIPT
from lsp_bridge.language.specs.web import WEB

DEFAULT_SPECS: tuple[ServerSpec, ...] = (*PYTHON, *TYPESCRIPT, *SYSTEMS, *WEB)
"""The servers that are known without any setting. One stands behind those it yields to."""

__all__ = [
    "DEFAULT_SPECS",
    "Command",
    "Found",
    "JsonObject",
    "LookUp",
    "Place",
    "ServerSpec",
    "Setup",
    "Unusable",
    "find_server",
    "look_up",
    "safe_environment",
    "safe_path",
]
