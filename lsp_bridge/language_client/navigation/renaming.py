"""A rename by a language server: what it would change, checked against the texts that the server knows."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from lsp_bridge.language_client.connection.framing import ServerError
from lsp_bridge.language_client.navigation import locations
from lsp_bridge.language_client.navigation.workspace_edit import (
    BadEditError,
    FileEdits,
    apply_edits,
    check_moves,
    read_edit,
)
from tools.json_access import mapping
from tools.language import RenamedText, ToolError
from tools.text.truncate import head

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from lsp_bridge.language_client.server.language_server import LanguageServer
    from lsp_bridge.language_client.text.positions import PositionEncoding

_TIMES = 3
"""How often it is asked when its answers are about texts that have changed."""


class RenameQueries(Protocol):
    """What a rename needs of the navigation."""

    async def ask(
        self, server: LanguageServer, method: str, params: Mapping[str, Any], timeout_s: float
    ) -> object: ...
    async def refresh(self, server: LanguageServer, paths: Collection[Path]) -> bool: ...
    def known(self, server: LanguageServer, paths: Collection[Path]) -> dict[Path, str]: ...


async def rename_with(
    asker: RenameQueries, server: LanguageServer, at: Mapping[str, Any], new_name: str, timeout_s: float
) -> tuple[RenamedText, ...]:
    """What renaming the thing at a position (params of the request) changes; empty when the server says: nothing.

    Raises ToolError when the server's edit is not to be carried out, ServerError, ServerGoneError, TimeoutError.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + timeout_s
    if mapping(server.capabilities.get("renameProvider")).get("prepareProvider") is True:
        try:
            if await asker.ask(server, "textDocument/prepareRename", at, timeout_s) is None:
                return ()
        except ServerError as error:
            raise ToolError(f"{server.name}: this cannot be renamed: {_short(error)}") from error
    for _ in range(_TIMES):
        params = {**at, "newName": new_name}
        try:
            raw = await asker.ask(server, "textDocument/rename", params, max(0.0, until - loop.time()))
        except ServerError as error:
            raise ToolError(f"{server.name} refused to rename it to {new_name}: {_short(error)}") from error
        try:
            files, real = await asyncio.to_thread(_read, raw)
            paths = set(real.values())
            if await asker.refresh(server, paths) or _outdated(server, files, real):
                continue
            known, encoding = asker.known(server, paths), server.position_encoding
            return await asyncio.to_thread(_carry_out, files, real, known, encoding)
        except BadEditError as error:
            raise ToolError(
                f"What {server.name} wants to change for this rename is refused as a whole: {error}. "
                "Nothing was changed. Use references and edit instead."
            ) from error
    raise ToolError(
        f"The files change while {server.name} works out the rename. Nothing was changed: try again."
    )


def _short(error: Exception) -> str:
    return head(" ".join(str(error).split()), 500)


def _read(raw: object) -> tuple[dict[str, FileEdits], dict[str, Path]]:
    files = read_edit(raw)
    check_moves(files, lambda file: Path(file).exists())
    real = locations.real_paths(files)
    if len(real) != len(files):
        raise BadEditError("it names a file that cannot be")
    by_path: dict[Path, FileEdits] = {}
    for file, made in list(files.items()):
        same = by_path.setdefault(real[file], made)
        if same is made:
            continue
        # One file by two names (a link): the same edits twice are one.
        if set(same.edits) != set(made.edits) or same.moved_to or made.moved_to:
            raise BadEditError(f"it changes {real[file]} by two names, differently")
        del files[file]
    return files, real


def _outdated(server: LanguageServer, files: Mapping[str, FileEdits], real: Mapping[str, Path]) -> bool:
    for file, made in files.items():
        document = server.answers.documents.get(real[file])
        if made.version is not None and document is not None and made.version != document.version:
            return True
    return False


def _carry_out(
    files: Mapping[str, FileEdits],
    real: Mapping[str, Path],
    known: Mapping[Path, str],
    encoding: PositionEncoding,
) -> tuple[RenamedText, ...]:
    renamed: list[RenamedText] = []
    for file, made in files.items():
        path = real[file]
        before = known.get(path)
        if before is None:
            before = locations.load(path)
        if before is None:
            raise BadEditError(f"it changes {path}, which is no file that can be read")
        after = apply_edits(before, made.edits, encoding)
        if made.moved_to:
            target = locations.real_paths([made.moved_to]).get(made.moved_to)
            if target is None or target.suffix != path.suffix:
                raise BadEditError(f"it moves {path} to {made.moved_to}")
            renamed.append(RenamedText(target, before, after, path))
        elif after != before:
            renamed.append(RenamedText(path, before, after))
    return tuple(renamed)
