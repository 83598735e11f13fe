"""Code actions, code lenses and commands of one connection, by standard LSP: any editor that speaks it has them.

An editor that shows sessions itself (``chat`` in its ``initializationOptions``: VS Code) is handed the prompt of a
command and shows it in its chat; for any other one the daemon begins the turn and shows it by LSP's own means.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lsprotocol import types
from pydantic import ValidationError

from daemon.core import Daemon
from daemon.model.permissions import PermissionRequest
from lsp_bridge import protocol as p
from lsp_bridge.documents import OpenDocuments, path_of
from lsp_bridge.editor import arguments as a
from lsp_bridge.editor import names as n
from lsp_bridge.editor.actions import code_actions
from lsp_bridge.editor.decisions import Decisions
from lsp_bridge.editor.hunks import landing, parts
from lsp_bridge.editor.lenses import code_lenses
from lsp_bridge.editor.prompts import Excerpt, excerpt, one_line, prompt, reference
from lsp_bridge.editor.questions import Questions
from lsp_bridge.editor.showing import Showing
from lsp_bridge.editor.turns import Turns
from lsp_bridge.request_error import RequestError
from lsp_bridge.requests import ClientState, Requests
from tools.base import ToolError
from tools.text import decode

if TYPE_CHECKING:
    from pygls.lsp.server import LanguageServer

_LARGEST = 20_000_000
"""Bytes of a file that is read for a quotation."""
_QUESTIONS = ("Explain it", "Look for mistakes", "Suggest how to improve it", "Write tests for it")
"""What can be asked where the person has no place to type a question."""


class EditorFeatures:
    """See the module. ``changed`` is called when something is decided."""

    def __init__(
        self,
        server: LanguageServer,
        core: Daemon,
        client: ClientState,
        requests: Requests,
        decisions: Decisions,
        documents: Callable[[], OpenDocuments],
        changed: Callable[[], None],
    ) -> None:
        self._server = server
        self._core = core
        self._client = client
        self._requests = requests
        self._decisions = decisions
        self._documents = documents
        key = hashlib.sha256(os.fsencode(core.workspace)).hexdigest()[:16]
        self._showing = Showing(server, core.state_folder / "shown" / key)
        self._questions = Questions(server, self._showing, self._decide_rest)
        self._turns = Turns(server, core, requests, self._questions, self._showing)
        self._changed = changed

    def leave(self) -> None:
        """The client is about to go."""
        self._turns.leave()

    def close(self) -> None:
        """The client has gone."""
        self._questions.close()
        self._turns.close()

    # -- code actions and lenses --

    def code_actions(self, params: types.CodeActionParams) -> list[types.Command | types.CodeAction]:
        document = self._documents().document(params.text_document.uri)
        capabilities = self._server.client_capabilities.text_document
        action = None if capabilities is None else capabilities.code_action
        return code_actions(
            params,
            None if document is None else document.version,
            restricted=self._requests.client_trust() == "restricted",
            literals=action is not None and action.code_action_literal_support is not None,
        )

    async def code_lenses(self, params: types.CodeLensParams) -> list[types.CodeLens]:
        document = self._documents().document(params.text_document.uri)
        if document is None or not document.known:
            return []
        return await code_lenses(self._core.permissions, document.path, document.text, self._decisions)

    # -- commands --

    async def execute(self, params: types.ExecuteCommandParams) -> dict[str, Any] | None:
        """``workspace/executeCommand``. Raises RequestError in words."""
        name, given = params.command, list(params.arguments or ())
        if name not in n.COMMANDS:
            raise RequestError(
                p.INVALID_PARAMS,
                f"There is no command {one_line(name, 80)}. There are: {', '.join(n.COMMANDS)}.",
            )
        try:
            if name in n.PROMPTS:
                about = a.About.model_validate(given[0] if given else {})
                return await self._prompt(name, about, params.work_done_token)
            decision = a.Decision.model_validate(given[0] if given else {})
        except ValidationError as error:
            wrong = "; ".join(
                f"{'.'.join(map(str, e['loc'])) or 'argument'}: {e['msg']}" for e in error.errors()[:5]
            )
            raise RequestError(p.INVALID_PARAMS, f"{name}: {wrong}") from None
        await self._decide(name, decision)
        return None

    async def _prompt(
        self, command: str, about: a.About, token: types.ProgressToken | None
    ) -> dict[str, Any] | None:
        if command == n.FIX and self._requests.client_trust() == "restricted":
            raise RequestError(
                p.INVALID_PARAMS, "You do not trust this folder, so nothing is changed in it: trust it first."
            )
        if command == n.FIX and not about.diagnostics:
            raise RequestError(p.INVALID_PARAMS, "There is no problem to fix: put the caret on one.")
        shown, place = await self._excerpt(about)
        question = about.question
        if command == n.ASK and not question.strip():
            if self._client.chat:
                return {"kind": "reference", "text": f"{place} "}
            question = await self._question(place)
            if not question:
                return None
        # Many at once, e.g. all of a long file, are made into text elsewhere.
        text = await asyncio.to_thread(prompt, command, place, shown, about.diagnostics, question)
        if self._client.chat:
            return {"kind": "prompt", "text": text}
        title = {n.FIX: "Fix", n.EXPLAIN: "Explain", n.ASK: "Ask about"}[command]
        return await self._turns.begin(f"Goalwright: {title} {place[1:]}", text, token)

    async def _question(self, place: str) -> str:
        """LSP has no way to ask for a text, but can let the person choose."""
        try:
            chosen = await self._questions.choose(f"Ask Goalwright about {place[1:]}", _QUESTIONS)
        except Exception:  # a client that cannot even do that
            chosen = _QUESTIONS[0]
        if chosen is None:
            return ""
        return f"{chosen}." if chosen == _QUESTIONS[3] else f"{chosen}. Change nothing."

    async def _excerpt(self, about: a.About) -> tuple[Excerpt, str]:
        path = await asyncio.to_thread(path_of, about.uri)
        if path is None:
            raise RequestError(p.INVALID_PARAMS, "Goalwright works on files on disk: save this one first.")
        document = self._documents().document(about.uri)
        text = await asyncio.to_thread(_read, path) if document is None else document.text
        moved = document is not None and about.version is not None and document.version != about.version
        spans = [one.range for one in about.diagnostics if one.range is not None] or (
            [about.range] if about.range is not None else []
        )
        start = min((span.start.line for span in spans), default=0)
        end = max((_last(span) for span in spans), default=_MANY if about.range is None else 0)
        name = self._name(path)
        unsaved = document is not None and not await asyncio.to_thread(document.is_saved)
        around = bool(about.diagnostics)

        def cut() -> Excerpt:
            return excerpt(name, text, start, end, around=around, unsaved=unsaved, moved=moved)

        shown = await asyncio.to_thread(cut)
        place = f"@{one_line(name, 400)}" if end == _MANY else reference(name, start, end)
        return shown, place

    # -- decisions --

    async def _decide(self, command: str, decision: a.Decision) -> None:
        request = self._waiting(decision.request_id)
        files = [file for file in request.files if decision.path in (None, file.path)]
        if decision.path is not None and not files:
            raise RequestError(
                p.INVALID_PARAMS, f"The request does not touch {one_line(decision.path, 200)}."
            )
        if command == n.SHOW_CHANGES:
            await self._showing.document("proposed.diff", "\n".join(file.diff for file in files))
            return
        accepted = command in (n.ACCEPT_HUNK, n.ACCEPT_CHANGES)
        if accepted:
            for file in files:
                await self._check_current(request, file.path)
            request = self._waiting(request.request_id)  # it took a moment
        if command in (n.ACCEPT_HUNK, n.REJECT_HUNK):
            if decision.hunk is None or decision.path is None or decision.hunk >= parts(files[0]):
                raise RequestError(p.INVALID_PARAMS, f"{command}: the hunk is not one of this file's.")
            self._decisions.decide(request, decision.path, decision.hunk, accepted)
            await self._send_when_complete(request)
        elif decision.path is not None and len(request.files) > 1:
            self._decisions.decide_rest(request, files, accepted)
            await self._send_when_complete(request)
        else:
            await self._decide_rest(request, accepted)

    async def _decide_rest(self, request: PermissionRequest, accepted: bool) -> None:
        """Accept or reject what is left to decide of a request, and answer it."""
        if not request.files:
            await self._reply(p.PermissionReplyParams(request_id=request.request_id, reply=_word(accepted)))
            return
        self._decisions.decide_rest(request, request.files, accepted)
        await self._send_when_complete(request)

    async def _send_when_complete(self, request: PermissionRequest) -> None:
        if self._decisions.undecided(request):
            self._changed()
            return
        answers = self._decisions.answers(request)
        await self._reply(
            p.PermissionReplyParams(
                request_id=request.request_id, reply=_word(answers is not None), files=answers or ()
            )
        )

    async def _reply(self, params: p.PermissionReplyParams) -> None:
        self._waiting(params.request_id)
        result = await self._requests.handlers["goalwright/permission/reply"](params)
        if isinstance(result, p.PermissionReplyResult) and not result.accepted:
            raise RequestError(p.UNKNOWN_REQUEST, f"Already answered by {result.by or 'somebody'}.")

    def _waiting(self, request_id: str | None) -> PermissionRequest:
        """A request that waits: this one, or without an id the oldest, of this connection's own session if any."""
        pending = self._core.permissions.pending()
        if request_id is None:
            own = [one for one in pending if one.trace_id == self._turns.session_id]
            found = next(iter(own or pending), None)
        else:
            found = next((one for one in pending if one.request_id == request_id), None)
        if found is None:
            raise RequestError(
                p.UNKNOWN_REQUEST,
                "Nothing waits for an answer."
                if request_id is None
                else "This change does not wait for an answer any more: it was answered or canceled. Nothing was done.",
            )
        return found

    async def _check_current(self, request: PermissionRequest, name: str) -> None:
        """Refuse to accept what could not be written, because the person has gone on typing."""
        self._waiting(request.request_id)
        file = self._core.permissions.proposed(request.request_id, name)
        if file is None or file.base is None:
            return
        documents = [document for one in file.changes for document in self._documents().at(one.path)]
        if not documents:
            return
        document = documents[0]
        place = await asyncio.to_thread(landing, file, document.text)
        if not place.current:
            raise RequestError(
                p.UNKNOWN_REQUEST,
                f"{one_line(name, 200)} has changed in the editor since this was proposed, so it cannot be accepted. "
                "Nothing was done: take your change back, or reject the proposal, and Goalwright looks again.",
            )

    # -- helpers --

    def _name(self, path: Path) -> str:
        inside = path.is_relative_to(self._core.workspace)
        return (path.relative_to(self._core.workspace) if inside else path).as_posix()


_MANY = 10**9
"""The last line of a file, whatever it is."""


def _word(accepted: bool) -> Any:
    return "once" if accepted else "reject"


def _last(span: a.Span) -> int:
    """The last line of a range. One that ends before the first character of a line does not have that line."""
    ends_above = span.end.character == 0 and span.end.line > span.start.line
    return span.end.line - 1 if ends_above else max(span.start.line, span.end.line)


def _read(path: Path) -> str:
    try:
        if path.stat().st_size > _LARGEST:
            raise RequestError(p.INVALID_PARAMS, f"{path.name} is too long to be quoted.")
        return decode(path.read_bytes()).text
    except (OSError, ToolError) as error:
        raise RequestError(p.INVALID_PARAMS, f"{path.name} cannot be read: {error}") from None
