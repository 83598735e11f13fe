"""What a language server may ask of its client: configuration, and to register what it wants to be told."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from lsp_bridge.language.rpc_errors import MethodNotFound
from lsp_bridge.language.specs import JsonObject
from lsp_bridge.language.watch_globs import Watcher, watchers_of
from tools.base import ChangeKind

_PULL = "textDocument/diagnostic"
_WATCH = "workspace/didChangeWatchedFiles"
_NO_REPLY_NEEDED = {
    "window/workDoneProgress/create",
    "window/showMessageRequest",
    "workspace/diagnostic/refresh",
    "workspace/semanticTokens/refresh",
    "workspace/inlayHint/refresh",
    "workspace/codeLens/refresh",
    "workspace/inlineValue/refresh",
    "workspace/foldingRange/refresh",
}


class Registrations:
    """The capabilities that one server has registered, statically or later, and answers to its requests."""

    def __init__(self, workspace: Path, settings: JsonObject, *, allow_pull: bool) -> None:
        self._workspace = workspace
        self._settings = settings
        self._allow_pull = allow_pull
        self._pull: dict[str, Mapping[str, Any]] = {}
        self._watchers: dict[str, list[Watcher]] = {}

    def initialized(self, capabilities: Mapping[str, Any]) -> None:
        """Take in the capabilities in the result of ``initialize``."""
        provider = capabilities.get("diagnosticProvider")
        if provider and self._allow_pull:
            self._pull["initialize"] = as_object(provider)

    def pulls(self, language: str | None) -> bool:
        """Whether diagnostics of files in ``language`` are to be asked for."""
        return any(_selects(options, language) for options in self._pull.values())

    def looks_across_files(self, language: str | None) -> bool:
        """Whether a change of one file may change what is pulled for another."""
        return any(
            _selects(options, language) and options.get("interFileDependencies") is not False
            for options in self._pull.values()
        )

    def watches(self, path: Path, kind: ChangeKind) -> bool | None:
        """Whether the server asked for this change on disk; None when it registered no watchers at all."""
        if not self._watchers:
            return None
        return any(watcher.wants(path, kind) for group in self._watchers.values() for watcher in group)

    def answer(self, method: str, params: Mapping[str, Any]) -> object:
        """The result of a request by the server. Raises MethodNotFound."""
        if method == "workspace/configuration":
            items = as_list(params.get("items"))
            return [_section(self._settings, as_object(item).get("section")) for item in items]
        if method == "workspace/workspaceFolders":
            return [{"uri": self._workspace.as_uri(), "name": self._workspace.name}]
        if method == "workspace/applyEdit":
            # Only tools/change.py writes, and only what the person has seen.
            return {"applied": False, "failureReason": "edits by language servers are not accepted"}
        if method == "window/showDocument":
            return {"success": False}
        if method == "client/registerCapability":
            for item in as_list(params.get("registrations")):
                self._register(as_object(item))
        elif method == "client/unregisterCapability":
            for item in as_list(params.get("unregisterations")):  # the specification's own spelling
                identity = str(as_object(item).get("id"))
                self._pull.pop(identity, None)
                self._watchers.pop(identity, None)
        elif method not in _NO_REPLY_NEEDED:
            raise MethodNotFound(method)
        return None

    def _register(self, entry: Mapping[str, Any]) -> None:
        identity, options = str(entry.get("id")), as_object(entry.get("registerOptions"))
        if entry.get("method") == _PULL and self._allow_pull:
            self._pull[identity] = options
        elif entry.get("method") == _WATCH:
            self._watchers[identity] = watchers_of(options, self._workspace)


def as_object(value: object) -> Mapping[str, Any]:
    """``value`` if it is a JSON object, else an empty one; Any because nothing in it has been checked."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def as_list(value: object) -> list[object]:
    """``value`` if it is a JSON array, else an empty one."""
    return cast("list[object]", value) if isinstance(value, list) else []


def _section(settings: JsonObject, section: object) -> object:
    value: object = settings
    if isinstance(section, str) and section:
        for name in section.split("."):
            value = as_object(value).get(name)
    return value


def _selects(options: Mapping[str, Any], language: str | None) -> bool:
    """Whether a registration's ``documentSelector`` covers a language; without a selector it covers all."""
    selector = options.get("documentSelector")
    if not isinstance(selector, list):
        return True
    filters = [as_object(item) for item in cast("list[object]", selector)]
    return any(
        item.get("language") in (None, language) and item.get("scheme") in (None, "file") for item in filters
    )
