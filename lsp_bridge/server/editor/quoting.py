"""Quote a file for a code action that the user chose: only what the agent may read without approval anyway.

The user points at a place; that is no permission to send a secret, or a file from elsewhere, to a model.
"""

from __future__ import annotations

import asyncio
import errno
from typing import TYPE_CHECKING

from msgspec.structs import replace

from daemon.permission.rules import rule_words
from lsp_bridge.protocol.handshake import RequestError
from lsp_bridge.server.documents.open_documents import OpenDocuments, path_of
from lsp_bridge.server.editor.prompts import LAST, Excerpt, excerpt, reference, visible_line, withheld
from tools.files.hard_links import other_names
from tools.files.regular_files import read_regular
from tools.localization import t
from tools.paths import rule_target
from tools.redaction.redactor import SECRETS
from tools.text.decoding import decode
from tools.tool import ToolError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from daemon.core import Daemon
    from daemon.permission.rules import RuleSet
    from lsp_bridge.server.editor import given as a

_LARGEST = 20_000_000
"""Bytes of a file that is read for a quotation."""


class Quoting:
    """The quotes of one connection. ``rules``: those in force for its current actions."""

    def __init__(
        self, core: Daemon, documents: Callable[[], OpenDocuments], rules: Callable[[], RuleSet]
    ) -> None:
        self._core = core
        self._documents = documents
        self._rules = rules

    async def excerpt(self, about: a.About) -> tuple[Excerpt, str]:
        """Return the lines that a command is about, and the place as a reference. Raises RequestError."""
        path = await asyncio.to_thread(path_of, about.uri)
        if path is None:
            raise RequestError(t("Goalwright works on files on disk. Save this one first."))
        document = self._documents().document(about.uri)
        spans = [one.range for one in about.diagnostics if one.range is not None] or (
            [about.range] if about.range is not None else []
        )
        start = min((span.start.line for span in spans), default=0)
        end = max((_last(span) for span in spans), default=LAST if about.range is None else 0)
        name = rule_target(path, self._core.workspace)
        reason = await asyncio.to_thread(self._why_not, path, self._rules())
        if not reason and document is not None and not document.known:
            reason = "the editor's content is unknown. Ask the user to save it, then read it."
        if reason:
            return withheld(name, reason), reference(name, start, end)
        text = await asyncio.to_thread(_read, path) if document is None else document.text
        moved = document is not None and about.version is not None and document.version != about.version
        unsaved = document is not None and not await asyncio.to_thread(document.find_out)
        around = bool(about.diagnostics)

        def cut() -> Excerpt:
            made = excerpt(name, text, start, end, around=around, unsaved=unsaved, moved=moved)
            return replace(made, lines=tuple(SECRETS.text(line) for line in made.lines))

        shown = await asyncio.to_thread(cut)
        if end == LAST:
            return shown, reference(name)
        beyond = shown.total - 1  # the text may have become shorter, and the editor is not trusted
        return shown, reference(name, min(start, beyond), min(end, beyond))

    def _why_not(self, path: Path, rules: RuleSet) -> str:
        """Return why the agent could not read ``path`` unasked; nothing if it could. Looks at the disk."""
        workspace = self._core.workspace
        if not path.is_relative_to(workspace):
            return "it is outside the workspace. Read it only if the task needs it; the user is then asked."
        for name in (path, *other_names(path, workspace)):
            rule = rules.decide("read", rule_target(name, workspace))
            if rule.action == "deny":
                return f"reading it is forbidden ({rule_words(rule)})."
            if rule.action == "ask":
                return (
                    f"reading it needs approval ({rule_words(rule)}). Read it only if the task needs it; "
                    "the user is then asked."
                )
        return ""


def _last(span: a.LspRange) -> int:
    """Return the last line of a range. One that ends before the first character of a line does not have that line."""
    ends_above = span.end.character == 0 and span.end.line > span.start.line
    return span.end.line - 1 if ends_above else max(span.start.line, span.end.line)


def _read(path: Path) -> str:
    name = visible_line(path.name, 200)
    try:
        if path.exists() and not path.is_file():
            raise RequestError(t("{name} cannot be read: it is not a file.", name=name))
        return decode(read_regular(path, _LARGEST, follow=True)).text
    except (OSError, ToolError) as error:
        if isinstance(error, OSError) and error.errno == errno.EFBIG:
            raise RequestError(t("{name} is too long to quote.", name=name)) from None
        raise RequestError(t("{name} cannot be read: {error}", name=name, error=error)) from None
