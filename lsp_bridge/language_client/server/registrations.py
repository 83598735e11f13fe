"""Handle requests of a language server to its client: configuration, and registrations for notifications."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, cast

from lsp_bridge.language_client.connection import MethodNotFoundError
from lsp_bridge.language_client.server.text_sync import TextSync, announced_sync, change_mode
from lsp_bridge.language_client.text.watch_globs import Watcher, covers, watchers_of
from tools.json_access import mapping, mappings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from lsp_bridge.language_client.specs.server_spec import JsonObject
    from tools.tool import ChangeKind

_PULL = "textDocument/diagnostic"
_WATCH = "workspace/didChangeWatchedFiles"
_OPEN, _CLOSE = "textDocument/didOpen", "textDocument/didClose"
_CHANGE, _SAVE = "textDocument/didChange", "textDocument/didSave"
_KEPT = {_PULL, _WATCH, _OPEN, _CLOSE, _CHANGE, _SAVE}
_MAX_REGISTRATIONS = 500
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

    def __init__(self, root: Path, settings: JsonObject, *, allow_pull: bool) -> None:
        self._root = root
        self._settings = settings
        self._allow_pull = allow_pull
        self._sync = TextSync()
        self._entries: OrderedDict[str, tuple[str, Mapping[str, Any]]] = OrderedDict()
        """Method and options by id. Those from ``initialize`` have ids that no registration can take."""
        self._watchers: dict[str, list[Watcher]] = {}

    def initialized(self, capabilities: Mapping[str, Any]) -> None:
        """Take in the capabilities in the result of ``initialize``."""
        provider = capabilities.get("diagnosticProvider")
        if provider and self._allow_pull:
            self._entries["\0initialize"] = _PULL, mapping(provider)
        self._sync = announced_sync(capabilities)

    def pulls(self, path: Path, language: str | None) -> bool:
        """Return whether diagnostics of a file are to be asked for."""
        return any(True for _ in self._of(_PULL, path, language))

    def identifiers(self, path: Path, language: str | None) -> list[str | None]:
        """Return the sources of diagnostics that are pulled one by one, each once; None: the one without a name."""
        names = (options.get("identifier") for options in self._of(_PULL, path, language))
        return list(dict.fromkeys(name if isinstance(name, str) else None for name in names))

    def looks_across_files(self, path: Path, language: str | None) -> bool:
        """Return whether a change of one file may change the answers for another."""
        return any(
            options.get("interFileDependencies") is not False for options in self._of(_PULL, path, language)
        )

    def sync(self, path: Path, language: str | None) -> TextSync:
        """Return the notifications that the server wants for a document; registrations override its announcement."""
        announced = self._sync
        change, save = announced.change, announced.save
        for options in self._of(_CHANGE, path, language):
            change = change_mode(options.get("syncKind"))
        for options in self._of(_SAVE, path, language):
            save = options.get("includeText") is True
        open_close = announced.open_close or any(True for _ in self._of(_OPEN, path, language))
        return TextSync(open_close, change, save)

    def watches(self, path: Path, kind: ChangeKind) -> bool | None:
        """Return whether the server asked for this change on disk; None when it registered no watchers at all."""
        if not self._watchers:
            return None
        return any(watcher.wants(path, kind) for group in self._watchers.values() for watcher in group)

    def answer(self, method: str, params: Mapping[str, Any]) -> object:
        """Return the result of a request by the server. Raises MethodNotFoundError."""
        if method == "workspace/configuration":
            # One server is one project, so the scope (``scopeUri``) makes no difference.
            items = mappings(params.get("items"))
            return [_section(self._settings, item.get("section")) for item in items]
        if method == "workspace/workspaceFolders":
            return [{"uri": self._root.as_uri(), "name": self._root.name}]
        if method == "workspace/applyEdit":
            # Only tools/change.py writes, and only changes that the user has seen.
            return {"applied": False, "failureReason": "edits by language servers are not accepted"}
        if method == "window/showDocument":
            return {"success": False}
        if method == "client/registerCapability":
            for item in mappings(params.get("registrations")):
                self._register(item)
        elif method == "client/unregisterCapability":
            # The specification's own spelling, and the corrected one that servers use.
            for name in ("unregisterations", "unregistrations"):
                for item in mappings(params.get(name)):
                    identity = str(item.get("id"))
                    self._entries.pop(identity, None)
                    self._watchers.pop(identity, None)
        elif method not in _NO_REPLY_NEEDED:
            raise MethodNotFoundError(method)
        return None

    def _register(self, entry: Mapping[str, Any]) -> None:
        identity, method = str(entry.get("id")), entry.get("method")
        options = mapping(entry.get("registerOptions"))
        if not isinstance(method, str) or method not in _KEPT or (method == _PULL and not self._allow_pull):
            return
        if len(self._entries) >= _MAX_REGISTRATIONS and identity not in self._entries:
            return
        self._entries[identity] = method, options
        if method == _WATCH:
            self._watchers[identity] = watchers_of(options, self._root)

    def _of(self, method: str, path: Path, language: str | None) -> Iterator[Mapping[str, Any]]:
        for registered, options in self._entries.values():
            if registered == method and _selects(options, path, language):
                yield options


def _section(settings: JsonObject, section: object) -> object:
    value: object = settings
    for name in section.split(".") if isinstance(section, str) and section else ():
        value = mapping(value).get(name)
    return value


def _selects(options: Mapping[str, Any], path: Path, language: str | None) -> bool:
    """Return whether a registration's ``documentSelector`` covers a file; without a selector it covers all."""
    selector: object = options.get("documentSelector")
    if not isinstance(selector, list):
        return True
    return any(_matches(item, path, language) for item in cast("list[object]", selector))


def _matches(given: object, path: Path, language: str | None) -> bool:
    if isinstance(given, str):  # only a language, in old protocols
        return given == language
    item = mapping(given)
    if item.get("language") not in (None, language) or item.get("scheme") not in (None, "file"):
        return False
    pattern = item.get("pattern")
    return not isinstance(pattern, str) or covers(pattern, path.as_posix())
