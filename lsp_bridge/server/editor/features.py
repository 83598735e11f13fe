"""Code actions, code lenses and commands of one connection, by standard LSP: any editor that speaks it has them.

An editor that shows sessions itself (``chat`` in its ``initializationOptions``: VS Code) is handed the prompt of a
command and shows it in its chat; for any other one the daemon begins the turn and shows it by LSP's own means.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, cast

from lsprotocol import types
from pydantic import ValidationError

from daemon.workspace_key import workspace_key
from lsp_bridge.protocol import permissions as p
from lsp_bridge.protocol.handshake import ErrorCode, RequestError
from lsp_bridge.server.editor import given as a
from lsp_bridge.server.editor.code_actions import code_actions
from lsp_bridge.server.editor.lenses import Decisions, code_lenses, hunk_positions, parts
from lsp_bridge.server.editor.prompts import prompt, visible_line
from lsp_bridge.server.editor.questions import Questions
from lsp_bridge.server.editor.quoting import Quoting
from lsp_bridge.server.editor.show_text import Showing
from lsp_bridge.server.editor.turns import Turns
from tools.localization import noted, t
from tools.text.terminal import shown_line
from tools.text.validation import wrong_values

if TYPE_CHECKING:
    from daemon.model.permissions import PermissionRequest
    from daemon.permission.rules import RuleSet
    from lsp_bridge.server.documents.open_documents import OpenDocuments
    from lsp_bridge.server.editor_server import EditorServer
    from lsp_bridge.server.requests.router import Requests
    from tools.tool import QuestionAnswer

_QUESTIONS = (
    noted("Explain it"),
    noted("Look for mistakes"),
    noted("Suggest how to improve it"),
    noted("Write tests for it"),
)
"""Questions to choose from where the user has no field to type one."""
Guard = Callable[[str, Callable[[Any], Awaitable[Any]]], Callable[[Any], Any]]
"""A function that wraps a handler so that its failures become JSON-RPC errors with a message."""


class EditorFeatures:
    """Code actions, code lenses and commands of one connection, created before ``initialize`` and used after it."""

    def __init__(
        self,
        server: EditorServer,
        requests: Requests,
        decisions: Decisions,
        documents: Callable[[], OpenDocuments],
    ) -> None:
        self._server = server
        self._core = core = requests.context.core
        self._client = requests.context.client
        self._requests = requests
        self._decisions = decisions
        self._documents = documents
        key = workspace_key(core.workspace)
        self._showing = Showing(server, core.state_folder / "shown" / key)
        self._questions = Questions(server, self._showing, self._decide_rest, self._answer)
        self._turns = Turns(server, requests, self._questions, self._showing)
        self._quoting = Quoting(core, documents, self._rules)
        self._refreshing = False
        self._initialized = False
        self._closed = False

    def register(self, guard: Guard) -> None:
        """Offer it all. ``guard`` wraps handlers."""
        server = self._server
        actions = guard(types.TEXT_DOCUMENT_CODE_ACTION, self._code_actions)
        options = types.CodeActionOptions(code_action_kinds=list(a.KINDS))
        server.feature(types.TEXT_DOCUMENT_CODE_ACTION, options)(actions)
        lenses = guard(types.TEXT_DOCUMENT_CODE_LENS, self._code_lenses)
        server.feature(types.TEXT_DOCUMENT_CODE_LENS, types.CodeLensOptions(resolve_provider=False))(lenses)
        server.feature(types.WORKSPACE_EXECUTE_COMMAND)(guard(types.WORKSPACE_EXECUTE_COMMAND, self._execute))
        # So they are announced; ``_execute`` runs them.
        cast("dict[str, Any]", server.protocol.fm.commands).update(dict.fromkeys(a.COMMANDS))  # pyright: ignore[reportUnknownMemberType]  # pygls'
        self._core.permissions.watch(self.refresh)

    def initialized(self) -> None:
        """From now on the client takes requests from the server."""
        self._initialized = True

    def leave(self) -> None:
        """Handle the client's shutdown: the protocol cancels its requests, but the work continues."""
        self._questions.close()
        self._turns.leave()

    def close(self) -> None:
        """The client has gone."""
        self._closed = True
        self._core.permissions.unwatch(self.refresh)
        self._questions.close()
        self._turns.close()

    def refresh(self) -> None:
        """Request lenses again, once, because the waiting requests or the decisions on them have changed."""
        self._decisions.keep({request.request_id for request in self._core.permissions.pending()})
        if not self._refreshing:
            self._refreshing = True
            asyncio.get_running_loop().call_soon(self._send_refresh)

    def _send_refresh(self) -> None:
        self._refreshing = False
        if not self._initialized or self._closed:
            return
        workspace = self._server.client_capabilities.workspace
        lens = None if workspace is None else workspace.code_lens
        if lens is not None and lens.refresh_support:
            # The client's answer does not matter.
            self._server.protocol.send_request(types.WORKSPACE_CODE_LENS_REFRESH, None)

    # -- code actions and lenses --

    async def _code_actions(self, params: object) -> list[dict[str, Any]]:
        request = a.code_action_request(params)
        document = self._documents().document(request.uri)
        capabilities = self._server.client_capabilities.text_document
        action = None if capabilities is None else capabilities.code_action
        return code_actions(
            request,
            None if document is None else document.version,
            restricted=self._requests.context.client_trust() == "restricted",
            literals=action is not None and action.code_action_literal_support is not None,
            answer=self._turns.has_answer,
        )

    async def _code_lenses(self, params: types.CodeLensParams) -> list[types.CodeLens]:
        document = self._documents().document(params.text_document.uri)
        if document is None or not document.known:
            return []
        return await code_lenses(self._core.permissions, document.path, document.text, self._decisions)

    # -- commands --

    async def _execute(self, params: types.ExecuteCommandParams) -> dict[str, Any] | None:
        """Run ``workspace/executeCommand``. Raises RequestError with a message."""
        name, given = params.command, list(params.arguments or ())
        if name not in a.COMMANDS:
            raise RequestError(
                t(
                    "There is no command {name}. There are: {commands}.",
                    name=visible_line(name, 80),
                    commands=", ".join(a.COMMANDS),
                )
            )
        if name == a.SHOW_ANSWER:
            await self._turns.show_answer()
            return None
        try:
            if name in a.PROMPTS:
                about = a.About.model_validate(given[0] if given else {})
                return await self._prompt(name, about, params.work_done_token)
            if name == a.ANSWER:
                given_answers = a.GivenAnswers.model_validate(given[0] if given else {})
                await self._answer(self._asked(given_answers.request_id), given_answers.answers)
                return None
            decision = a.HunkDecision.model_validate(given[0] if given else {})
        except ValidationError as error:
            raise RequestError(f"{name}: {wrong_values(error)}") from None
        await self._decide(name, decision)
        return None

    async def _prompt(
        self, command: str, about: a.About, token: types.ProgressToken | None
    ) -> dict[str, Any] | None:
        if command == a.FIX and self._requests.context.client_trust() == "restricted":
            raise RequestError(t("This folder is not trusted, so nothing is changed in it. Trust it first."))
        if command == a.FIX and not about.diagnostics:
            raise RequestError(t("There is no problem to fix: put the cursor on one."))
        shown, place = await self._quoting.excerpt(about)
        question = about.question
        if command == a.ASK and not question.strip():
            if self._client.options.chat:
                return {"kind": "reference", "text": f"{place} "}
            question = await self._question(place)
            if not question:
                return None
        # Formatting many problems, e.g. all of a long file, must not block the event loop.
        text = await asyncio.to_thread(prompt, command, place, shown, about.diagnostics, question)
        if self._client.options.chat:
            return {"kind": "prompt", "text": text}
        title = {a.FIX: t("Fix"), a.EXPLAIN: t("Explain"), a.ASK: t("Ask about")}[command]
        return await self._turns.begin(
            t("Goalwright: {title} {place}", title=title, place=place[1:]),
            text,
            token,
            wants_answer=command != a.FIX,
        )

    async def _question(self, place: str) -> str:
        """Ask for a question: LSP cannot prompt for a text, but can let the user choose."""
        try:
            chosen = await self._questions.choose(
                t("Ask Goalwright about {place}", place=place[1:]), tuple(map(t, _QUESTIONS))
            )
        except Exception:  # a client that cannot even do that
            chosen = t(_QUESTIONS[0])
        if chosen is None:
            return ""
        # The model always gets the question in English, whatever the button's language.
        asked = next((question for question in _QUESTIONS if t(question) == chosen), chosen)
        return f"{asked}." if asked == _QUESTIONS[3] else f"{asked}. Change nothing."

    def _rules(self) -> RuleSet:
        """Return the rules of this connection's session, with its grants, if it has one; else those of the client."""
        session_id = self._turns.session_id
        session = None if session_id is None else self._core.live(session_id)
        return self._requests.context.client_rules() if session is None else session.rules

    # -- decisions --

    async def _decide(self, command: str, decision: a.HunkDecision) -> None:
        named = decision.request_id
        request = self._visible(decision.path) if named is None else self._waiting(named)
        files = [file for file in request.files if decision.path in (None, file.path)]
        if decision.path is not None and not files:
            raise RequestError(t("The request does not touch {path}.", path=visible_line(decision.path, 200)))
        if command == a.SHOW_CHANGES:
            await self._showing.document("proposed.diff", "\n".join(file.diff for file in files))
            return
        accepted = command in (a.ACCEPT_HUNK, a.ACCEPT_CHANGES)
        if accepted:
            for file in files:
                await self._check_current(request, file.path)
            request = self._waiting(request.request_id)  # the state may have changed during the request
        if command in (a.ACCEPT_HUNK, a.REJECT_HUNK):
            if decision.hunk is None or decision.path is None or decision.hunk >= parts(files[0]):
                raise RequestError(t("{command}: this file has no such hunk.", command=command))
            self._decisions.decide(request, decision.path, decision.hunk, accepted)
            await self._send_when_complete(request)
        elif decision.path is not None and len(request.files) > 1:
            self._decisions.decide_rest(request, files, accepted)
            await self._send_when_complete(request)
        else:
            await self._decide_rest(request, accepted)

    def _asked(self, request_id: str | None) -> PermissionRequest:
        """Return the request whose questions are answered. Raises RequestError where there is none or more than one."""
        if request_id is not None:
            return self._waiting(request_id)
        found = [one for one in self._core.permissions.pending() if one.questions]
        if len(found) == 1:
            return found[0]
        ids = ", ".join(one.request_id for one in found[:5])
        words = (
            t("Several questions are waiting. Give a requestId ({ids}).", ids=ids)
            if found
            else t("No question is waiting.")
        )
        raise RequestError(words, ErrorCode.UNKNOWN_REQUEST)

    async def _answer(self, request: PermissionRequest, answers: tuple[QuestionAnswer, ...]) -> None:
        """Answer the questions of a request; without answers they are skipped."""
        reply = "once" if answers else "reject"
        params = p.PermissionReplyParams(request_id=request.request_id, reply=reply, answers=answers)
        await self._reply(params)

    async def _decide_rest(self, request: PermissionRequest, accepted: bool) -> None:
        """Accept or reject the undecided parts of a request, and answer it."""
        if not request.files:
            await self._reply(p.PermissionReplyParams(request_id=request.request_id, reply=_word(accepted)))
            return
        self._decisions.decide_rest(request, request.files, accepted)
        await self._send_when_complete(request)

    async def _send_when_complete(self, request: PermissionRequest) -> None:
        if self._decisions.undecided(request):
            self.refresh()
            return
        answers = self._decisions.answers(request)
        await self._reply(
            p.PermissionReplyParams(
                request_id=request.request_id, reply=_word(answers is not None), files=answers or ()
            )
        )

    async def _reply(self, params: p.PermissionReplyParams) -> None:
        self._waiting(params.request_id)
        result = await self._requests.permissions.reply(params)
        if not result.accepted:
            raise RequestError(
                t("Already answered by {by}.", by=result.by or "somebody"), ErrorCode.UNKNOWN_REQUEST
            )

    def _waiting(self, request_id: str) -> PermissionRequest:
        """Return a request that waits."""
        for request in self._core.permissions.pending():
            if request.request_id == request_id:
                return request
        raise RequestError(
            t("This request is no longer open: it was answered or canceled. Nothing was done."),
            ErrorCode.UNKNOWN_REQUEST,
        )

    def _visible(self, path: str | None) -> PermissionRequest:
        """Return the one proposed change that the user of this editor can refer to without naming it.

        Its question was shown here, or its lenses are in ``path``, open here. Never a command: the user must have seen
        it to accept it, and among several it is unknown which one was looked at.
        """
        pending = self._core.permissions.pending()
        if not pending:
            raise RequestError(t("No request is waiting for an answer."), ErrorCode.UNKNOWN_REQUEST)
        found = [one for one in pending if one.files and self._is_visible(one, path)]
        if len(found) == 1:
            return found[0]
        waiting = "; ".join(
            t("{title} (requestId {request_id})", title=shown_line(one.title), request_id=one.request_id)
            for one in pending[:5]
        )
        more = t("; and {count} more", count=len(pending) - 5) if len(pending) > 5 else ""
        why = (
            t("More than one proposed change could be meant")
            if found
            else t("No proposed change shown in this editor is waiting for an answer")
        )
        raise RequestError(
            t(
                "{why}, so nothing was done. Waiting: {waiting}{more}. Use the code lenses, give the "
                "requestId, or answer where the question is shown (`goalwright run --continue` in a "
                "terminal).",
                why=why,
                waiting=waiting,
                more=more,
            ),
            ErrorCode.UNKNOWN_REQUEST,
        )

    def _is_visible(self, request: PermissionRequest, path: str | None) -> bool:
        if path is None:
            return self._questions.was_shown(request.request_id)
        change = self._core.permissions.proposed(request.request_id, path)
        if change is None:
            return False
        documents = self._documents()
        return any(documents.at(one.path) for one in change.changes) or self._questions.was_shown(
            request.request_id
        )

    async def _check_current(self, request: PermissionRequest, name: str) -> None:
        """Raise when a change could no longer be written, because the user has kept typing."""
        self._waiting(request.request_id)
        file = self._core.permissions.proposed(request.request_id, name)
        if file is None or file.base is None:
            return
        documents = [document for one in file.changes for document in self._documents().at(one.path)]
        if not documents:
            return
        document = documents[0]
        place = await asyncio.to_thread(hunk_positions, file, document.text)
        if not place.current:
            raise RequestError(
                t(
                    "{name} was changed in the editor since this was proposed, so it cannot be accepted. "
                    "Nothing was done. Undo your edit, or reject the proposal so that Goalwright tries "
                    "again.",
                    name=visible_line(name, 200),
                ),
                ErrorCode.UNKNOWN_REQUEST,
            )


def _word(accepted: bool) -> Any:
    return "once" if accepted else "reject"
