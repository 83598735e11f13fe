"""The features of a connection for its editor, by standard LSP. Its parts are loaded, in a thread, when one is first
used: most connections (terminals, scripts) never use them, and a daemon starts without them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from lsprotocol import types

from lsp_bridge.server.editor.command_arguments import COMMANDS, KINDS

if TYPE_CHECKING:
    from pygls.lsp.server import LanguageServer

    from lsp_bridge.server.documents.open_documents import OpenDocuments
    from lsp_bridge.server.editor.features import EditorFeatures
    from lsp_bridge.server.editor.hunk_decisions import Decisions
    from lsp_bridge.server.requests.router import Requests

Guard = Callable[[str, Callable[[Any], Awaitable[Any]]], Callable[[Any], Any]]
"""A function that wraps a handler so that its failures become JSON-RPC errors with a message."""


class LazyEditorFeatures:
    """The editor features of a connection, created before ``initialize`` and used after it."""

    def __init__(
        self,
        server: LanguageServer,
        requests: Requests,
        decisions: Decisions,
        documents: Callable[[], OpenDocuments],
    ) -> None:
        self._server = server
        self._permissions = requests.context.core.permissions
        self._decisions = decisions
        self._given = server, requests, decisions, documents, self.refresh
        self._features: EditorFeatures | None = None
        self._refreshing = False
        self._initialized = False
        self._closed = False

    def register(self, guard: Guard) -> None:
        """Offer it all. ``guard`` wraps handlers."""
        server = self._server
        actions = guard(types.TEXT_DOCUMENT_CODE_ACTION, self._code_actions)
        options = types.CodeActionOptions(code_action_kinds=list(KINDS))
        server.feature(types.TEXT_DOCUMENT_CODE_ACTION, options)(actions)
        lenses = guard(types.TEXT_DOCUMENT_CODE_LENS, self._code_lenses)
        server.feature(types.TEXT_DOCUMENT_CODE_LENS, types.CodeLensOptions(resolve_provider=False))(lenses)
        server.feature(types.WORKSPACE_EXECUTE_COMMAND)(guard(types.WORKSPACE_EXECUTE_COMMAND, self._execute))
        for name in COMMANDS:
            server.command(name)(_announced())
        self._permissions.watch(self.refresh)

    def initialized(self) -> None:
        """The client is ready for requests of ours."""
        self._initialized = True

    def leave(self) -> None:
        """Handle the client's shutdown: the protocol cancels its requests, but the work continues."""
        if self._features is not None:
            self._features.leave()

    def close(self) -> None:
        """The client has gone."""
        self._closed = True
        self._permissions.unwatch(self.refresh)
        if self._features is not None:
            self._features.close()

    def refresh(self) -> None:
        """Request lenses again, once, because the waiting requests or the decisions on them have changed."""
        self._decisions.keep({request.request_id for request in self._permissions.pending()})
        if not self._refreshing:
            self._refreshing = True
            asyncio.get_running_loop().call_soon(self._send_refresh)

    async def _execute(self, params: types.ExecuteCommandParams) -> dict[str, Any] | None:
        return await (await self._loaded()).execute(params)

    async def _code_actions(self, params: types.CodeActionParams) -> list[types.Command | types.CodeAction]:
        return (await self._loaded()).code_actions(params)

    async def _code_lenses(self, params: types.CodeLensParams) -> list[types.CodeLens]:
        if not self._permissions.pending():
            return []
        return await (await self._loaded()).code_lenses(params)

    async def _loaded(self) -> EditorFeatures:
        if self._features is None:
            made = await asyncio.to_thread(_load)
            if self._features is None:  # another request may have been faster
                self._features = made(*self._given)
        return self._features

    def _send_refresh(self) -> None:
        self._refreshing = False
        if not self._initialized or self._closed:
            return
        workspace = self._server.client_capabilities.workspace
        lens = None if workspace is None else workspace.code_lens
        if lens is not None and lens.refresh_support:
            # The client's answer does not matter.
            self._server.protocol.send_request(types.WORKSPACE_CODE_LENS_REFRESH, None)


def _load() -> type[EditorFeatures]:
    from lsp_bridge.server.editor.features import EditorFeatures

    return EditorFeatures


def _announced() -> Callable[..., None]:
    """Commands are registered to be announced; they run in ``EditorFeatures.execute``."""

    def run(*arguments: object) -> None:
        raise AssertionError("commands are run by the protocol's own handler")

    return run
