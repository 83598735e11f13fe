"""The daemon's description of itself for a language server, in ``initialize``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from lsp_bridge.language_client.text.positions import OFFERED

if TYPE_CHECKING:
    from pathlib import Path

    from lsp_bridge.language_client.specs.server_spec import JsonObject


def initialize_params(
    root: Path,
    uri: str,
    options: JsonObject,
    *,
    announce_pull: bool,
    announce_push: bool = True,
    seen: bool = True,
) -> dict[str, Any]:
    """Params of ``initialize`` (LSP 3.17). Only capabilities that this client really has are announced.

    ``root`` (``uri`` as a URI) is the project's folder. The process id lets a server exit when the daemon was killed.
    ``announce_pull``: several servers stop pushing diagnostics once a client announces that it can pull them.
    ``announce_push``: False for a server with its own kind of request. ``seen``: the server can see this process.
    """
    return {
        "processId": os.getpid() if seen else None,
        "clientInfo": {"name": "goalwright"},
        "rootPath": str(root),
        "rootUri": uri,
        "workspaceFolders": [{"uri": uri, "name": root.name or uri}],
        "initializationOptions": dict(options),
        "trace": "off",
        "capabilities": _capabilities(announce_pull, announce_push),
    }


def _capabilities(announce_pull: bool, announce_push: bool) -> dict[str, Any]:
    link = {"linkSupport": True}
    kinds = {"valueSet": list(range(1, 27))}
    document: dict[str, Any] = {
        "synchronization": {"dynamicRegistration": True, "didSave": True},
        "definition": link,
        "declaration": link,
        "typeDefinition": link,
        "implementation": link,
        "references": {},
        "hover": {"contentFormat": ["markdown", "plaintext"]},
        "documentSymbol": {"hierarchicalDocumentSymbolSupport": True, "symbolKind": kinds},
        "rename": {"prepareSupport": True, "prepareSupportDefaultBehavior": 1},
    }
    if announce_push:
        document["publishDiagnostics"] = {
            "versionSupport": True,
            "relatedInformation": False,
            "tagSupport": {"valueSet": [1, 2]},
            "codeDescriptionSupport": False,
            "dataSupport": False,
        }
    if announce_pull:
        document["diagnostic"] = {"dynamicRegistration": True, "relatedDocumentSupport": True}
    return {
        "workspace": {
            "workspaceFolders": True,
            "configuration": True,
            "didChangeConfiguration": {"dynamicRegistration": True},
            "didChangeWatchedFiles": {"dynamicRegistration": True, "relativePatternSupport": True},
            "diagnostics": {"refreshSupport": announce_pull},
            "symbol": {"symbolKind": kinds},
            "workspaceEdit": {
                "documentChanges": True,
                "resourceOperations": ["rename"],
                "failureHandling": "abort",
                # Single edits need no confirmation, because the user sees all of them.
                "changeAnnotationSupport": {"groupsOnLabel": False},
            },
        },
        "textDocument": document,
        "window": {"workDoneProgress": True},
        "general": {"positionEncodings": list(OFFERED)},
    }
