"""All servers that are known without any setting."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsp_bridge.language_client.specs.python import PYTHON
from lsp_bridge.language_client.specs.systems import SYSTEMS
from lsp_bridge.language_client.specs.typescript import TYPESCRIPT
from lsp_bridge.language_client.specs.web import WEB

if TYPE_CHECKING:
    from lsp_bridge.language_client.specs.server_spec import ServerSpec

DEFAULT_SPECS: tuple[ServerSpec, ...] = (*PYTHON, *TYPESCRIPT, *SYSTEMS, *WEB)
"""A spec comes after those it yields to."""
