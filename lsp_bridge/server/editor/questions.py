"""The agent's questions to the user of an editor without our chat: ``window/showMessageRequest``.

They can be answered there, by a code lens, or anywhere else; the first answer wins. A question that was answered
elsewhere is withdrawn here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from lsprotocol import types

from daemon.model.permissions import PermissionRequest
from lsp_bridge.protocol.handshake import RequestError
from lsp_bridge.protocol.permission_text import (
    action_detail,
    asked_lines,
    indented,
    model_lines,
    note_lines,
    question_lines,
    warning_lines,
)
from tools.localization import noted, t
from tools.text.terminal import shown_line
from tools.text.truncate import abridged, cut_text
from tools.tool import Question, QuestionAnswer

if TYPE_CHECKING:
    from lsp_bridge.server.editor.show_text import Showing
    from lsp_bridge.server.editor_server import EditorServer

log = logging.getLogger(__name__)

ACCEPT, REJECT, SHOW, SHOW_ALL = noted("Accept"), noted("Reject"), noted("Show diff"), noted("Show all")
SKIP, LATER = noted("Skip"), noted("Answer in a terminal")
_MOST, _MOST_DETAIL = 2_000, 1_000
"""Characters of a question, and of its action: editors show a few lines."""
_WIDEST = 10
"""Most characters that replace one invisible character: ``<U+10FFFF>``."""

Decide = Callable[[PermissionRequest, bool], Awaitable[None]]
"""Accepts or rejects the undecided parts of a request. Raises RequestError."""
Answers = Callable[[PermissionRequest, tuple[QuestionAnswer, ...]], Awaitable[None]]
"""Answers the questions of a request; with no answers it skips them all. Raises RequestError."""


class Questions:
    """The questions of one connection that are on display."""

    def __init__(self, server: EditorServer, showing: Showing, decide: Decide, answers: Answers) -> None:
        self._server = server
        self._showing = showing
        self._decide = decide
        self._answer = answers
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._shown: set[str] = set()

    def ask(self, request: PermissionRequest) -> None:
        """Put the question; the answer is sent when it comes."""
        if request.request_id not in self._asking:
            self._shown.add(request.request_id)
            task = asyncio.create_task(self._ask(request))
            self._asking[request.request_id] = task
            task.add_done_callback(lambda _: self._asking.pop(request.request_id, None))

    def was_shown(self, request_id: str) -> bool:
        """Return whether the user has seen this question here."""
        return request_id in self._shown

    def answered(self, request_id: str) -> None:
        """Somebody has answered, perhaps here."""
        self._shown.discard(request_id)
        if (task := self._asking.get(request_id)) is not None:
            task.cancel()

    def close(self) -> None:
        """Stop asking: the client has gone, and its questions wait for another one."""
        for task in list(self._asking.values()):
            task.cancel()

    async def choose(self, text: str, titles: tuple[str, ...]) -> str | None:
        """Return the one of ``titles`` that the user chooses; None for none. Raises the client's error, if it answers
        with one."""
        actions = [types.MessageActionItem(title) for title in titles]
        params = types.ShowMessageRequestParams(types.MessageType.Info, text, actions)
        chosen = await self._server.ask(types.WINDOW_SHOW_MESSAGE_REQUEST, params)
        return None if chosen is None else chosen.title

    async def _ask(self, request: PermissionRequest) -> None:
        if request.questions:
            await self._ask_questions(request)
            return
        words, all_of_it = question_text(request), _all(request)
        more = (t(SHOW),) if request.files else (t(SHOW_ALL),) if len(all_of_it) > len(words) else ()
        while True:
            chosen = await self._chosen(words, (t(ACCEPT), t(REJECT), *more))
            if chosen is None or chosen not in more:
                break
            if request.files:
                await self._showing.document("proposed.diff", "\n".join(file.diff for file in request.files))
            else:
                await self._showing.document("question.txt", all_of_it)
        if chosen is None:
            self._showing.say(f"{words}\n\n{t(_STILL_WAITS) if request.files else t(_COMMAND_WAITS)}")
            return
        await self._send(request, self._decide(request, chosen == t(ACCEPT)))

    async def _ask_questions(self, request: PermissionRequest) -> None:
        """Show one question after the other, with its options as buttons."""
        answers: list[QuestionAnswer] = []
        for question in request.questions:
            labels = {shown_line(option.label): option.label for option in question.options}
            chosen = await self._chosen(_question_words(request, question), (*labels, t(SKIP), t(LATER)))
            if chosen is None or chosen == t(LATER):
                self._showing.say(f"{_question_words(request, question)}\n\n{t(_ANSWER_WAITS)}")
                return
            answers.append(QuestionAnswer(chosen=(labels[chosen],) if chosen in labels else ()))
        answered = any(answer.chosen for answer in answers)
        await self._send(request, self._answer(request, tuple(answers) if answered else ()))

    async def _chosen(self, text: str, titles: tuple[str, ...]) -> str | None:
        try:
            return await self.choose(text, titles)
        except Exception as error:  # a client error: it may not know such questions
            log.info("the question is not shown: %s", error)
            return None

    async def _send(self, request: PermissionRequest, answer: Awaitable[None]) -> None:
        # From here on, an answer from another client must not interrupt this one.
        self._asking.pop(request.request_id, None)
        try:
            await answer
        except RequestError as error:
            self._showing.say(str(error), types.MessageType.Error)


_STILL_WAITS = noted(
    "Goalwright is waiting for your answer. Use the code lenses in the file, the editor commands "
    "goalwright.acceptChanges and goalwright.rejectChanges, or run `goalwright run --continue` in a "
    "terminal, where you can also answer “always”, choose parts or suggest changes."
)

_COMMAND_WAITS = noted(
    "Goalwright is waiting for your answer. Run `goalwright run --continue` in a terminal, where you can "
    "also answer “always” or suggest changes."
)


_ANSWER_WAITS = noted(
    "Goalwright is waiting for your answer. To answer in your own words, run `goalwright run --continue` "
    "in a terminal, or call the editor command goalwright.answer."
)


def _question_words(request: PermissionRequest, question: Question) -> str:
    wire = request.model_copy(update={"questions": (question,)}).wire()
    return cut_text("\n".join((t("Goalwright asks:"), *asked_lines(wire))), _MOST)


def question_text(request: PermissionRequest) -> str:
    """Return the question as a message: the action comes first, the model's words about it last."""
    return cut_text(_lines(request, _MOST_DETAIL), _MOST)


def _all(request: PermissionRequest) -> str:
    return _lines(request, len(request.detail) * _WIDEST)


def _lines(request: PermissionRequest, detail: int) -> str:
    wire = request.wire()
    action = abridged(action_detail(wire), detail)
    # Indent the command, so that none of its lines looks like part of the question.
    above = [t("Goalwright asks: {title}", title=shown_line(request.title)), *indented(action)]
    below = [*warning_lines(wire), *note_lines(wire), *question_lines(wire), *model_lines(wire)]
    return "\n".join([*above, *(line.strip() for line in below)])
