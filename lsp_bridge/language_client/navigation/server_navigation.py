"""Find definitions and uses through language servers: implements the Navigation port of the tools.

Before a query, a server receives the text as the user sees it (an unsaved buffer before the file). When its answer
leads to other files that it knows in an older state, it receives those and is asked again.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec import Struct

from lsp_bridge.language_client.connection import ServerError, ServerGoneError
from lsp_bridge.language_client.navigation import locations
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
    NO_SERVER,
    CodePlace,
    CodeSymbol,
    DefinitionKind,
    Places,
    Position,
    RenamedText,
    Symbols,
    ToolError,
)
from tools.text.truncate import head

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from lsp_bridge.language_client.navigation.locations import WirePlace
    from lsp_bridge.language_client.pool.server_pool import LanguageServers
    from lsp_bridge.language_client.server.language_server import LanguageServer
    from lsp_bridge.language_client.text.positions import PositionEncoding

T = TypeVar("T")

_NOT_FOUND = -32601
"""JSON-RPC's MethodNotFoundError."""
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


class AskingTiming(Struct, frozen=True):
    """Waits in seconds: for a server that has never answered a query (including its start), and for the others."""

    cold_s: float = 10.0
    warm_s: float = 5.0
    again_s: float = 0.25
    """Before a server is asked again that found nothing, and has just started or is at work."""
    begun_s: float = 2.0
    """For so long, "nothing" is no answer of a server that has never answered before. Measured: basedpyright
    finds nothing to rename in the first 100 ms or so, when it has not looked for the imported file yet."""


Ask = Callable[["LanguageServer", float], Awaitable[T]]
"""Sends a question to one server, with a timeout in seconds."""


class _ServerReply(Struct, Generic[T], frozen=True):
    """The result of asking one server."""

    value: tuple[T] | None = None
    silent: str = ""
    """Name of the server, if its answer is incomplete."""
    unable: str = ""
    refused: str = ""


class ServerNavigation:
    """The Navigation port on the language servers of a workspace.

    Servers that start are waited for, and the first real answer of those that cover a file counts.
    """

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
        self._timing = timing or AskingTiming()
        self._servers = servers
        self._answered: weakref.WeakSet[LanguageServer] = weakref.WeakSet()

    async def definition(self, at: Position, kind: DefinitionKind = "definition") -> Places:
        return await self._places(at, *_DEFINITIONS[kind])

    async def references(self, at: Position) -> Places:
        context = {"includeDeclaration": True}
        return await self._places(at, "references", "finding references", context=context)

    async def outline(self, path: Path) -> Symbols:
        async def ask(server: LanguageServer, timeout_s: float) -> tuple[CodeSymbol, ...]:
            server.sync(path, await self._text(path))
            params = {"textDocument": {"uri": path.as_uri()}}
            raw = await server.request("textDocument/documentSymbol", params, timeout_s)
            return await self._symbols(server, raw, path)

        what = "listing the symbols of a file"
        return Symbols(*await self._first(path, "documentSymbolProvider", what, ask))

    async def find(self, query: str, near: Path) -> Symbols:
        async def ask(server: LanguageServer, timeout_s: float) -> tuple[CodeSymbol, ...]:
            # Some servers have no project until one of its files is open.
            server.sync(near, await self._text(near))
            self._tell_unsaved(server)
            raw = await server.request("workspace/symbol", {"query": query}, timeout_s)
            return await self._symbols(server, raw, None)

        what = "finding symbols by name"
        return Symbols(*await self._first(near, "workspaceSymbolProvider", what, ask))

    async def hover(self, at: Position) -> str:
        async def ask(server: LanguageServer, timeout_s: float) -> str:
            params = await self._at(server, at)
            raw = await server.request("textDocument/hover", params, timeout_s)
            return locations.hover_text(raw)

        what = "telling types and documentation"
        return (await self._first(at.path, "hoverProvider", what, ask))[0]

    async def rename(self, at: Position, new_name: str) -> tuple[RenamedText, ...]:
        async def ask(server: LanguageServer, timeout_s: float) -> tuple[RenamedText, ...]:
            params = await self._at(server, at)
            return await self._rename(server, params, new_name, timeout_s)

        return (await self._first(at.path, "renameProvider", "renaming", ask))[0]

    # ---- internals

    async def _first(
        self, path: Path, provider: str, what: str, ask: Ask[T]
    ) -> tuple[T, tuple[str], tuple[str, ...]]:
        """Ask the servers of ``path``; the first in their order that knows something counts. Returns what it knows
        (empty when none knows anything), its name, and the names of those that were silent.

        ``provider`` is the name of the server capability, e.g. ``definitionProvider``, and ``what`` the feature's in
        "does not support {what}". ``ask`` reads and sends the text, which may become another one while a server starts.
        Raises ToolError when none answers, or when the file cannot be shown.
        """
        await self._text(path)
        lookup = self._servers.for_path(path)
        if not lookup.servers:
            if lookup.resting:
                raise ToolError(
                    f"{', '.join(lookup.resting)} crashed and will restart in a moment. Use grep."
                )
            raise ToolError(NO_SERVER.format(name=path.name))
        begun = asyncio.get_running_loop().time()
        replies = [_ServerReply[T](silent=name) for name in lookup.resting]
        nothing: list[tuple[T, tuple[str]]] = []
        # In parallel, so that a silent server does not use up the time of another one.
        asked = [asyncio.create_task(self._one(server, provider, ask, begun)) for server in lookup.servers]
        try:
            for server, task in zip(lookup.servers, asked, strict=True):
                said = await task
                replies.append(said)
                if said.value is None:
                    continue
                if said.value[0]:
                    return said.value[0], (server.name,), _silent(replies)
                nothing.append((said.value[0], (server.name,)))
        finally:
            for task in asked:
                task.cancel()
            await asyncio.gather(*asked, return_exceptions=True)
        if nothing:
            return *nothing[0], _silent(replies)
        raise ToolError(_explain(what, replies))

    async def _one(self, server: LanguageServer, provider: str, ask: Ask[T], begun: float) -> _ServerReply[T]:
        now = asyncio.get_running_loop().time
        cold = server not in self._answered
        until = begun + (self._timing.cold_s if cold else self._timing.warm_s)
        if not await server.ready(until):
            return _ServerReply(silent=_named(server))
        if server.capabilities.get(provider) in (None, False):  # an empty object is support
            return _ServerReply(unable=server.name)
        try:
            value = await ask(server, max(0.0, until - now()))
            young = now() + self._timing.begun_s if cold else 0.0
            while not value and now() + self._timing.again_s < until:
                if not server.busy and now() >= young:
                    break
                # "Nothing" from a server that is still reading the project is no answer.
                await asyncio.sleep(self._timing.again_s)
                value = await ask(server, max(0.0, until - now()))
        except (TimeoutError, ServerGoneError):
            return _ServerReply(silent=_named(server))
        except ServerError as error:
            if error.code == _NOT_FOUND:
                return _ServerReply(unable=server.name)
            return _ServerReply(refused=f"{server.name}: {_short(error)}")
        self._answered.add(server)
        return _ServerReply((value,), silent=_named(server) if server.busy else "")

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

    async def _at(self, server: LanguageServer, at: Position) -> dict[str, Any]:
        """Show ``server`` the text of a file, and return the params for a position in it."""
        text = await self._text(at.path)
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
                raise ToolError(f"{server.name}: this cannot be renamed: {_short(error)}") from error
        for _ in range(_RENAMES):
            params = {**at, "newName": new_name}
            try:
                raw = await server.request("textDocument/rename", params, max(0.0, until - loop.time()))
            except ServerError as error:
                raise ToolError(f"{server.name} rejected the new name {new_name}: {_short(error)}") from error
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
        async def ask(server: LanguageServer, timeout_s: float) -> tuple[CodePlace, ...]:
            until = asyncio.get_running_loop().time() + timeout_s
            items: Sequence[WirePlace] = ()
            for _ in range(2):
                params = await self._at(server, at) | more
                left = until - asyncio.get_running_loop().time()
                raw = await server.request(f"textDocument/{feature}", params, left)
                items = await asyncio.to_thread(locations.places, raw)
                if not await self._refresh(server, {item.path for item in items}):
                    break
            return await asyncio.to_thread(self._texts(server, items).code_places, items)

        return Places(*await self._first(at.path, f"{feature}Provider", what, ask))

    async def _symbols(
        self, server: LanguageServer, raw: object, asked: Path | None
    ) -> tuple[CodeSymbol, ...]:
        items = await asyncio.to_thread(locations.symbols, raw, asked)
        return await asyncio.to_thread(self._texts(server, items).code_symbols, items)

    def _texts(self, server: LanguageServer, items: Sequence[WirePlace]) -> locations.Texts:
        known = self._known(server, {item.path for item in items})
        return locations.Texts(known, server.position_encoding)


def _silent(replies: Sequence[_ServerReply[Any]]) -> tuple[str, ...]:
    return tuple(one.silent for one in replies if one.silent)


def _explain(what: str, replies: Sequence[_ServerReply[Any]]) -> str:
    if refused := "; ".join(one.refused for one in replies if one.refused):
        return f"The language server returned an error: {refused}"
    if names := ", ".join(_silent(replies)):
        return (
            f"{names} did not answer in time; it may still be indexing the project. The result is "
            "unknown, not empty. Ask again later, or use grep."
        )
    unable = ", ".join(one.unable for one in replies if one.unable)
    return f"{unable} does not support {what}. Use grep and read instead."


def _short(error: Exception) -> str:
    """Return what a server said, on one line."""
    return head(" ".join(str(error).split()), 500)


def _named(server: LanguageServer) -> str:
    """Return the server's name with its current work."""
    return f"{server.name} ({head(server.busy, 100)})" if server.busy else server.name


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
