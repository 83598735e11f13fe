"""Show a text to the user of any LSP editor: as a document where the editor can open one, else as a message."""

from __future__ import annotations

import asyncio
import logging
import os
import re
from typing import TYPE_CHECKING

from lsprotocol import types

from lsp_bridge.server.editor_server import EditorLeftError
from tools.localization import t
from tools.redaction.redactor import SECRETS
from tools.text.truncate import head

if TYPE_CHECKING:
    from pathlib import Path

    from lsp_bridge.server.editor_server import EditorServer

log = logging.getLogger(__name__)

_KEPT = 30
"""Files that stay; the oldest go."""
_MESSAGE = 3_000
"""Characters of a message: editors show a few lines."""
_PATIENCE_S = 10.0


class Showing:
    """Shows texts on one connection. ``folder`` is the daemon's own, outside the workspace."""

    def __init__(self, server: EditorServer, folder: Path) -> None:
        self._server = server
        self._folder = folder

    @property
    def has_documents(self) -> bool:
        """Whether the editor can open one."""
        window = self._server.client_capabilities.window
        return window is not None and window.show_document is not None and window.show_document.support

    async def document(self, name: str, text: str) -> None:
        """Open ``text`` beside the user's code, or show it as a message. ``name``: of the file; its suffix selects the
        language.

        Only at the user's request. The editor keeps the focus: with it, several editors replace the code by the
        document, in the only window.
        """
        text = SECRETS.text(text)
        if self.has_documents:
            try:
                path = await asyncio.to_thread(_write, self._folder, name, text)
                params = types.ShowDocumentParams(uri=path.as_uri(), take_focus=False)
                result = await self._server.ask(types.WINDOW_SHOW_DOCUMENT, params, _PATIENCE_S)
                if result.success:
                    return
            except EditorLeftError:
                return
            except Exception as error:  # no space, an error of the client, no answer: show a message instead
                log.info("%s is not shown as a document: %s", name, error)
        self.say(text)

    def say(self, text: str, kind: types.MessageType = types.MessageType.Info) -> None:
        """Say it in a message, cut to what fits."""
        shown = (
            text
            if len(text) <= _MESSAGE
            else t(
                "{text}\n… (truncated; {count} characters in total)",
                text=head(text, _MESSAGE),
                count=len(text),
            )
        )
        self._server.window_show_message(types.ShowMessageParams(kind, shown))


def _write(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / re.sub(r"[^\w.-]+", "-", name)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0), 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace", newline="\n") as file:
        file.write(text)
    by_age = sorted(folder.iterdir(), key=lambda one: one.stat().st_mtime_ns)
    for old in by_age[:-_KEPT]:
        old.unlink(missing_ok=True)
    return path
