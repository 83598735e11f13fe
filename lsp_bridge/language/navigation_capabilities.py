"""What the daemon can do with answers to questions about code (LSP 3.17, ClientCapabilities). Pure."""

from __future__ import annotations

from typing import Any


def navigation_capabilities() -> tuple[dict[str, Any], dict[str, Any]]:
    """Additions to the capabilities ``textDocument`` and ``workspace``. Only what is really done is announced."""
    link = {"linkSupport": True}
    kinds = {"valueSet": list(range(1, 27))}
    document: dict[str, Any] = {
        "definition": link,
        "declaration": link,
        "typeDefinition": link,
        "implementation": link,
        "references": {},
        "hover": {"contentFormat": ["markdown", "plaintext"]},
        "documentSymbol": {"hierarchicalDocumentSymbolSupport": True, "symbolKind": kinds},
        "rename": {"prepareSupport": True, "prepareSupportDefaultBehavior": 1},
    }
    workspace: dict[str, Any] = {
        "symbol": {"symbolKind": kinds},
        "workspaceEdit": {
            "documentChanges": True,
            "resourceOperations": ["rename"],
            "failureHandling": "abort",
            # Which edits to confirm is told to nobody: the person is shown all of them.
            "changeAnnotationSupport": {"groupsOnLabel": False},
        },
    }
    return document, workspace
