"""Find definitions and uses through language servers: implements the Navigation port of the tools.

Before a query, a server receives the text as the user sees it (an unsaved buffer before the file). When its answer
leads to other files that it knows in an older state, it receives those and is asked again.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lsp_bridge.language_client.connection import ServerError
from lsp_bridge.language_client.navigation import locations
from lsp_bridge.language_client.navigation.server_requests import Asking, AskingTiming, short_error
from lsp_bridge.language_client.navigation.workspace_edit import (
    BadEditError,
    FileEdits,
    apply_edits,
    check_moves,
    read_edit,
)
from lsp_bridge.language_client.text.positions import (
    TextIndex,
    TextOf,
    load,
    no_buffers,
    read_source,
    real_path,
)
from tools.json_access import mapping
from tools.language_ports import (
    CodePlace,
    CodeSymbol,
    DefinitionKind,
    Places,
    Position,
    RenamedText,
    Symbols,
    ToolError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from lsp_bridge.language_client.navigation.locations import WirePlace
    from lsp_bridge.language_client.pool.server_pool import LanguageServers
    from lsp_bridge.language_client.server.language_server import LanguageServer
    from lsp_bridge.language_client.text.positions import PositionEncoding

_RENAMES = 3
"""How often a rename is asked for when the answers are about texts that have changed."""
_MAX_UNSAVED = 20
"""Most files with unsaved changes that a server receives before a query."""
_MAX_REFRESHED = 60
"""Files of an answer that are looked at for a newer text."""
_DEFINITIONS: Mapping[DefinitionKind, tuple[str, str]] = {
    "definition": ("definition", "going to definitions"),
    "declaration": ("declaration", "going to declarations"),
    "type_definition": ("typeDefinition", "going to type definitions"),
    "implementation": ("implementation", "finding implementations"),
}
"""The feature as LSP calls it, and as messages do."""


class ServerNavigation:
    """The Navigation port on the language servers of a workspace."""

    def __init__(
        self,
        servers: LanguageServers,
        unsaved_text: TextOf = no_buffers,
        unsaved_paths: Callable[[], Sequence[Path]] = tuple,
        *,
        timing: AskingTiming | None = None,
    ) -> None:
        """``unsaved_text``: of a file that has unsaved changes in an editor; ``unsaved_paths``: those files."""
        self._unsaved_text = unsaved_text
        self._unsaved_paths = unsaved_paths
        self._asking = Asking(servers, timing)

    async def definition(self, at: Position, kind: DefinitionKind = "definition") -> Places:
        return await self._places(at, *_DEFINITIONS[kind])

    async def references(self, at: Position) -> Places:
        context = {"includeDeclaration": True}
        return await self._places(at, "references", "finding references", context=context)

    async def outline(self, path: Path) -> Symbols:
        text = await self._text(path)

        async def ask(server: LanguageServer, timeout_s: float) -> tuple[CodeSymbol, ...]:
            server.sync(path, text)
            params = {"textDocument": {"uri": path.as_uri()}}
            raw = await server.request("textDocument/documentSymbol", params, timeout_s)
            return await self._symbols(server, raw, path)

        what = "listing the symbols of a file"
        return Symbols(*await self._asking.first(path, "documentSymbolProvider", what, ask))

    async def find(self, query: str, near: Path) -> Symbols:
        text = await self._text(near)

        async def ask(server: LanguageServer, timeout_s: float) -> tuple[CodeSymbol, ...]:
            # Some servers have no project until one of its files is open.
            server.sync(near, text)
            self._tell_unsaved(server)
            raw = await server.request("workspace/symbol", {"query": query}, timeout_s)
            return await self._symbols(server, raw, None)

        what = "finding symbols by name"
        return Symbols(*await self._asking.first(near, "workspaceSymbolProvider", what, ask))

    async def hover(self, at: Position) -> str:
        async def ask(server: LanguageServer, timeout_s: float) -> str:
            params = self._at(server, at, text)
            raw = await server.request("textDocument/hover", params, timeout_s)
            return locations.hover_text(raw)

        text = await self._text(at.path)
        what = "telling types and documentation"
        return (await self._asking.first(at.path, "hoverProvider", what, ask))[0]

    async def rename(self, at: Position, new_name: str) -> tuple[RenamedText, ...]:
        text = await self._text(at.path)

        async def ask(server: LanguageServer, timeout_s: float) -> tuple[RenamedText, ...]:
            params = self._at(server, at, text)
            return await self._rename(server, params, new_name, timeout_s)

        return (await self._asking.first(at.path, "renameProvider", "renaming", ask))[0]

    # ---- internals

    async def _refresh(self, server: LanguageServer, paths: Collection[Path]) -> bool:
        """Tell ``server`` the texts that it knows in an older state. Returns whether there were any."""
        old = False
        for path in list(paths)[:_MAX_REFRESHED]:
            document, text = server.answers.documents.get(path), self._unsaved(path)
            if document is not None and text is None:
                text = await read_source(path)
            if text is None or (document is not None and document.text == text):
                continue
            if _looks_after(server, path):
                server.sync(path, text)
                old = True
        return old

    def _known(self, server: LanguageServer, paths: Collection[Path]) -> dict[Path, str]:
        # Texts that differ from the disk: those of editors, and those that the server has received.
        texts: dict[Path, str] = {}
        for path in paths:
            document = server.answers.documents.get(path)
            text = self._unsaved(path) if document is None else document.text
            if text is not None:
                texts[path] = text
        return texts

    def _unsaved(self, path: Path) -> str | None:
        text = self._unsaved_text(path)
        return None if text is None else text.removeprefix("\ufeff")

    def _tell_unsaved(self, server: LanguageServer) -> None:
        """Send unsaved texts of editors to the server: the answer may be in them."""
        for path in list(self._unsaved_paths())[:_MAX_UNSAVED]:
            text = self._unsaved(path)
            if text is not None and _looks_after(server, path):
                server.sync(path, text)

    async def _text(self, path: Path) -> str:
        text = await read_source(path, self._unsaved_text)
        if text is None:
            raise ToolError(f"{path.name} cannot be shown to a language server: no such file, or too large.")
        return text

    def _at(self, server: LanguageServer, at: Position, text: str) -> dict[str, Any]:
        self._tell_unsaved(server)
        server.sync(at.path, text)
        index, encoding = TextIndex(text), server.position_encoding
        position = {"line": at.line - 1, "character": index.units(at.line - 1, at.column - 1, encoding)}
        return {"textDocument": {"uri": at.path.as_uri()}, "position": position}

    async def _rename(
        self, server: LanguageServer, at: Mapping[str, Any], new_name: str, timeout_s: float
    ) -> tuple[RenamedText, ...]:
        """Return the changes of a rename at a position (params of the request); empty when the server has none.

        Raises ToolError when the server's edit must not be carried out, ServerError, ServerGoneError, TimeoutError.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout_s
        if mapping(server.capabilities.get("renameProvider")).get("prepareProvider") is True:
            try:
                if await server.request("textDocument/prepareRename", at, timeout_s) is None:
                    return ()
            except ServerError as error:
                raise ToolError(f"{server.name}: this cannot be renamed: {short_error(error)}") from error
        for _ in range(_RENAMES):
            params = {**at, "newName": new_name}
            try:
                raw = await server.request("textDocument/rename", params, max(0.0, until - loop.time()))
            except ServerError as error:
                raise ToolError(
                    f"{server.name} rejected the new name {new_name}: {short_error(error)}"
                ) from error
            try:
                files = await asyncio.to_thread(_read_renamed, raw)
                if await self._refresh(server, files) or _outdated(server, files):
                    continue
                known, encoding = self._known(server, files), server.position_encoding
                return await asyncio.to_thread(_carry_out, files, known, encoding)
            except BadEditError as error:
                raise ToolError(
                    f"The edits that {server.name} proposes for this rename are rejected: {error}. Nothing "
                    "was changed. Use references and edit instead."
                ) from error
        raise ToolError(
            f"The files changed while {server.name} computed the rename. Nothing was changed: try again."
        )

    async def _places(self, at: Position, feature: str, what: str, **more: object) -> Places:
        text = await self._text(at.path)

        async def ask(server: LanguageServer, timeout_s: float) -> tuple[CodePlace, ...]:
            until = asyncio.get_running_loop().time() + timeout_s
            items: Sequence[WirePlace] = ()
            for _ in range(2):
                left = until - asyncio.get_running_loop().time()
                params = self._at(server, at, text) | more
                raw = await server.request(f"textDocument/{feature}", params, left)
                items = await asyncio.to_thread(locations.places, raw)
                if not await self._refresh(server, {item.path for item in items}):
                    break
            return await asyncio.to_thread(self._texts(server, items).code_places, items)

        return Places(*await self._asking.first(at.path, f"{feature}Provider", what, ask))

    async def _symbols(
        self, server: LanguageServer, raw: object, asked: Path | None
    ) -> tuple[CodeSymbol, ...]:
        items = await asyncio.to_thread(locations.symbols, raw, asked)
        return await asyncio.to_thread(self._texts(server, items).code_symbols, items)

    def _texts(self, server: LanguageServer, items: Sequence[WirePlace]) -> locations.Texts:
        known = self._known(server, {item.path for item in items})
        return locations.Texts(known, server.position_encoding)


def _looks_after(server: LanguageServer, path: Path) -> bool:
    return server.spec.language_of(path) is not None and server.root in path.parents


def _read_renamed(raw: object) -> dict[Path, FileEdits]:
    """Return the edits by the real path of the file."""
    made = read_edit(raw)
    check_moves(made, lambda file: Path(file).exists())
    files: dict[Path, FileEdits] = {}
    for file, edits in made.items():
        path = real_path(file)
        if path is None:
            raise BadEditError("it names a file that cannot be")
        same = files.setdefault(path, edits)
        # Two names may be one file (a link): the same edits twice count once.
        if same is not edits and (set(same.edits) != set(edits.edits) or same.moved_to or edits.moved_to):
            raise BadEditError(f"it changes {path} by two names, differently")
    return files


def _outdated(server: LanguageServer, files: Mapping[Path, FileEdits]) -> bool:
    for path, made in files.items():
        document = server.answers.documents.get(path)
        if made.version is not None and document is not None and made.version != document.version:
            return True
    return False


def _carry_out(
    files: Mapping[Path, FileEdits], known: Mapping[Path, str], encoding: PositionEncoding
) -> tuple[RenamedText, ...]:
    renamed: list[RenamedText] = []
    for path, made in files.items():
        before = known.get(path)
        if before is None:
            before = load(path)
        if before is None:
            raise BadEditError(f"it changes {path}, which is no file that can be read")
        after = apply_edits(before, made.edits, encoding)
        if made.moved_to:
            target = real_path(made.moved_to)
            if target is None or target.suffix != path.suffix:
                raise BadEditError(f"it moves {path} to {made.moved_to}")
            renamed.append(RenamedText(target, before, after, path))
        elif after != before:
            renamed.append(RenamedText(path, before, after))
    return tuple(renamed)
