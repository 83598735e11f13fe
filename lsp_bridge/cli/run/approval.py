"""Permission requests at a terminal: one at a time, the first answer from any client wins."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from daemon.runtime import state_dir
from lsp_bridge.cli.client import Client, RpcError
from lsp_bridge.cli.run.branch_lines import asked_title
from lsp_bridge.cli.run.hunk_prompt import EditText, FileAnswers, can_choose, choose
from lsp_bridge.cli.text import one_line, shown_line
from lsp_bridge.protocol.handshake import ErrorCode
from lsp_bridge.protocol.permission_text import (
    SCOPES,
    asked_lines,
    logged_lines,
    model_lines,
    note_lines,
    option_texts,
    question_lines,
    suggested,
    suggestion_words,
    typed_answer,
    warning_lines,
)
from tools.access import MCP_ELICITATION
from tools.json_access import mapping, mappings, string
from tools.localization import noted, t

if TYPE_CHECKING:
    from lsp_bridge.cli.run.view import TextView


@dataclass(frozen=True, slots=True)
class ApprovalReply:
    """``reply`` is that of ``permission/reply``."""

    reply: str
    feedback: str | None = None
    files: FileAnswers = field(default_factory=FileAnswers)
    remember: RememberedGrants | None = None
    """With ``always``: the grants to store, unless they are just the suggestions."""
    answers: tuple[dict[str, Any], ...] = ()
    """To the request's questions."""
    unseen: bool = False
    """Nobody looked at the request."""


class Answerer(Protocol):
    """An answerer of permission requests."""

    async def answer(self, request: dict[str, Any]) -> ApprovalReply:
        """Return the answer to a request. Canceled when another client answers first."""
        ...


SELECT_CALL, ATTACH_CALL = "select_", "attach_"
"""Beginnings of the ids of calls that a user makes: a choice of branches, and the files of a prompt."""
_REPLIES = {"once": noted("once"), "always": noted("always"), "reject": noted("reject")}


def is_budget(request: dict[str, Any]) -> bool:
    """Return whether it asks for more money or tokens, instead of for what the agent wants to do."""
    return request.get("permission") == "budget"


RAISE_LIMIT = noted(
    "To continue, raise or remove the limit (`goalwright budget --help`) and run with --continue."
)


def is_loop(request: dict[str, Any]) -> bool:
    """Return whether it asks about calls that come again and again."""
    return request.get("permission") == "doom_loop"


DO_SOMETHING_ELSE = (
    "This call was repeated with the same input and is not run again, because its result would be the "
    "same. Read what it returned before, then do something else. If you are stuck, say what is missing and "
    "end your answer. If you repeat the call once more, the run stops."
)
_MOST_LOOPS = 5


def is_question(request: dict[str, Any]) -> bool:
    """Return whether the model or an MCP server asks the user something, instead of for permission."""
    return bool(mappings(request.get("questions")))


def is_of_server(request: dict[str, Any]) -> bool:
    """Return whether an MCP server asks the user something; the title says which one."""
    return request.get("permission") == MCP_ELICITATION


NOBODY_ANSWERS = (
    "nobody can answer questions in this run. Choose what fits the task best, and say what you assumed."
)


class AcceptAll:
    """``--yes``, and the demo, which also shows what it accepts. Limits still apply, and loops end: the model is
    notified once for each call, then the run ends."""

    def __init__(self, view: TextView | None, note: str, show: bool = False) -> None:
        self._view = view
        self._note = note
        self._show = show
        self._loops: set[str] = set()
        self.stopped = ""
        """Why the run was ended, when a limit or a loop was the reason."""

    async def answer(self, request: dict[str, Any]) -> ApprovalReply:
        """Once, but for limits and loops."""
        title = shown_line(string(request.get("title")))
        if is_budget(request):
            self.stopped = t("{title} Rejected. {raise_limit}", title=title, raise_limit=t(RAISE_LIMIT))
            self._line(f"  {self.stopped}")
            return ApprovalReply("reject")
        if is_loop(request):
            return self._loop(request, title)
        if is_question(request):
            self._line(
                t("  {title}, but nobody can answer (--yes)", title=title)
                if is_of_server(request)
                else t("  the model asks a question, but nobody can answer (--yes): {title}", title=title)
            )
            return ApprovalReply("reject", NOBODY_ANSWERS)
        if self._view is not None:
            if self._show:
                self._view.request(request)
            title = shown_line(asked_title(request))
            if self._show:
                self._view.line(f"  {self._note}")
            else:
                self._view.line("\n".join((f"  {self._note} {title}", *logged_lines(request))))
        return ApprovalReply("once", unseen=True)

    def _loop(self, request: dict[str, Any], title: str) -> ApprovalReply:
        call = json.dumps([request.get("targets"), request.get("detail")])
        if call in self._loops or len(self._loops) == _MOST_LOOPS:
            self.stopped = t("{title} Rejected (--yes): the model repeated itself again.", title=title)
            self._line(f"  {self.stopped}")
            return ApprovalReply("reject")
        self._loops.add(call)
        self._line(t("  {title} Rejected (--yes): the model is asked to do something else.", title=title))
        return ApprovalReply("reject", DO_SOMETHING_ELSE)

    def _line(self, text: str) -> None:
        if self._view is not None:
            self._view.line(text)


class RefuseAll:
    """Rejects requests when nobody can be asked, and explains once how to allow them."""

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn
        self._told = False
        self.stopped = ""
        """Why the run was ended, when a limit or a loop was the reason."""

    async def answer(self, request: dict[str, Any]) -> ApprovalReply:
        """Reject."""
        title = shown_line(string(request.get("title")))
        if is_budget(request):
            self.stopped = t(
                "{title} There is no terminal to ask on. {raise_limit}",
                title=title,
                raise_limit=t(RAISE_LIMIT),
            )
            self._warn(self.stopped)
            return ApprovalReply("reject")
        if is_loop(request):
            self.stopped = t(
                "{title} Rejected: there is no terminal to ask on, and the model repeats itself.", title=title
            )
            self._warn(self.stopped)
            return ApprovalReply("reject")
        if is_question(request):
            self._warn(
                "\n".join(
                    (
                        t("{title}, but there is no terminal to answer on:", title=title)
                        if is_of_server(request)
                        else t("The model asks a question, but there is no terminal to answer on:"),
                        *(f"  {line}" for line in asked_lines(request)),
                    )
                )
            )
            return ApprovalReply("reject", NOBODY_ANSWERS)
        self._warn(
            t(
                "Rejected, because there is no terminal to ask on: {request}\n",
                request=shown_line(asked_title(request)),
            )
            + "\n".join(
                (
                    *logged_lines(request),
                    *(f"  {line}" for line in (*warning_lines(request), *note_lines(request))),
                    *(f"  {line}" for line in (*question_lines(request), *model_lines(request))),
                )
            )
        )
        if not self._told:
            self._told = True
            self._warn(
                t(
                    "  To allow it, run in a terminal and answer there, run with --yes to approve "
                    "everything once"
                )
                + _as_rule(request)
            )
        return ApprovalReply("reject")


def _as_rule(request: dict[str, Any]) -> str:
    """Return the rule to put into the configuration instead, where something can be remembered at all."""
    rules: dict[str, dict[str, str]] = {}
    for permission, pattern in suggested(request):
        rules.setdefault(permission, {})[pattern] = "allow"
    if not rules:
        return "."
    rule = shown_line(json.dumps({"permission": rules}))
    return t(
        ", or add a rule such as {rule} to {state_dir}.", rule=rule, state_dir=state_dir() / "config.json"
    )


class AskUser:
    """Shows the diff and the rule, and asks."""

    def __init__(self, view: TextView, reader: TtyReader, edit: EditText | None = None) -> None:
        self._view = view
        self._reader = reader
        self._edit = edit
        self.proposed: Callable[[str, str], Awaitable[str | None]] | None = None
        """Returns the proposed text of a file, by request and path; None if it is not text. Set once connected."""

    async def answer(self, request: dict[str, Any]) -> ApprovalReply:
        """Return the user's typed answer; the end of input rejects."""
        if is_question(request):
            return await self._answered(request)
        self._view.request(request)
        patterns = suggestion_words(request)
        always = t("[a]lways ({patterns}) / ", patterns=patterns) if patterns else ""
        question = t("Apply? [y]es once")
        if is_budget(request):
            question, always = (
                t("Continue? [y]es, with the same amount again"),
                t("[a]lways, without this limit / "),
            )
        hunks = t("[h]unk by hunk / ") if can_choose(request) else ""
        edit = t("[e]dit / ") if self._edit is not None and request.get("files") else ""
        while True:
            line = await self._reader.ask(
                t(
                    "{question} / {always}{hunks}{edit}[n]o / [f]eedback: ",
                    question=question,
                    always=always,
                    hunks=hunks,
                    edit=edit,
                )
            )
            word, _, rest = (line if line is not None else "n").strip().partition(" ")
            choice = word.lower()
            if choice in ("y", "yes"):
                return ApprovalReply("once")
            if choice in ("a", "always") and patterns:
                if is_budget(request):
                    return ApprovalReply("always")
                if kept := await remembered(request, rest.strip(), self._reader.ask, self._view.line):
                    return ApprovalReply("always", remember=kept)
            if choice in ("n", "no"):
                return ApprovalReply("reject")
            if choice in ("f", "feedback"):
                said = rest.strip() or (await self._reader.ask(t("What should be different? ")) or "").strip()
                if said:
                    return ApprovalReply("reject", said)
            files: FileAnswers | None = None
            if choice in ("h", "hunk") and hunks:
                files = await choose(request, self._reader.ask, self._view.diff)
            if choice in ("e", "edit") and edit:
                files = await self._edited(request, rest.strip())
            if files:
                return ApprovalReply("once", files=files)

    async def _answered(self, request: dict[str, Any]) -> ApprovalReply:
        """Ask one question after the other; an empty line skips one, the end of input all."""
        answers: list[dict[str, Any]] = []
        asker = string(request.get("branchId"))
        title = request.get("title") if is_of_server(request) else t("The model asks")
        self._view.line(f"? {shown_line(asked_title({'title': title, 'branchId': asker}))}")
        for question in mappings(request.get("questions")):
            for line in asked_lines({"questions": [question]}):
                self._view.line(f"  {line}")
            how = t("your own words") if option_texts(question) else t("Your answer")
            if option_texts(question):
                several = t(" or several (1,3)") if question.get("multiple") is True else ""
                how = t("Number{several}, or {how}", several=several, how=how)
            while (typed := await self._reader.ask(t("{how} (Enter: skip): ", how=how))) is not None:
                if (answer := typed_answer(question, typed)) is not None:
                    answers.append(answer)
                    break
                count = len(option_texts(question))
                self._view.line(
                    t("  Choose numbers from 1 to {count}.", count=count)
                    if question.get("multiple") is True
                    else t("  Choose one number from 1 to {count}.", count=count)
                )
            else:
                return ApprovalReply("reject")
        if not any(answer["chosen"] or answer["text"] for answer in answers):
            return ApprovalReply("reject")
        return ApprovalReply("once", answers=tuple(answers))

    async def _edited(self, request: dict[str, Any], name: str) -> FileAnswers | None:
        """Return the answer with the user's own text of one file; None to ask again."""
        names = [string(file.get("path")) for file in mappings(request.get("files"))]
        if len(names) > 1 and name not in names:
            self._view.line(
                t("  Which file? Type: e {shown_line}", shown_line=" | ".join(map(shown_line, names)))
            )
            return None
        path = name or names[0]
        if self._edit is None or self.proposed is None or path not in names:
            return None
        text = await self.proposed(string(request.get("requestId")), path)
        if text is None:
            self._view.line(t("  {path} has no text to edit.", path=shown_line(path)))
            return None
        try:
            made = await self._edit(path, text)
        except (OSError, UnicodeError) as error:
            self._view.line(t("  The editor failed: {error}", error=one_line(str(error))))
            return None
        if made == text:
            self._view.line(t("  Nothing was edited."))
            return None
        line = await self._reader.ask(
            t("Apply {path} as you edited it? [y]es / [n]o: ", path=shown_line(path))
        )
        return [{"path": path, "text": made}] if (line or "").strip().lower() in ("y", "yes") else None


class Approver:
    """The inbox of a run. ``asked`` and ``settled`` are fed with events; ``work`` answers in order."""

    def __init__(self, client: Client, answerer: Answerer, note: Callable[[str], None]) -> None:
        self._client = client
        self._answerer = answerer
        self._note = note
        self._waiting: dict[str, dict[str, Any]] = {}
        self._news = asyncio.Event()
        self._current: tuple[str, asyncio.Task[ApprovalReply]] | None = None
        self._withdrawn = ""

    @property
    def asking(self) -> bool:
        """Whether a question waits for an answer."""
        return bool(self._waiting) or self._current is not None

    def asked(self, request: dict[str, Any]) -> None:
        """A request came in. The same one may come twice (loaded, then as an event)."""
        self._waiting.setdefault(string(request.get("requestId")), request)
        self._news.set()

    def settled(self, event: dict[str, Any]) -> None:
        """Handle the end of a request: it was answered or canceled, maybe in another client."""
        request_id = string(event.get("requestId"))
        self._waiting.pop(request_id, None)
        if self._current is not None and self._current[0] == request_id:
            reply, by = string(event.get("reply")), string(event.get("by"))
            self._withdrawn = (
                t("canceled")
                if reply == "canceled"
                else t(
                    "answered by {by}: {reply}",
                    by=by or t("another client"),
                    reply=t(_REPLIES.get(reply, reply)),
                )
            )
            self._current[1].cancel()

    async def work(self) -> None:
        """Answer requests until cancelled. Raises ConnectionLostError."""
        while True:
            while not self._waiting:
                self._news.clear()
                await self._news.wait()
            request_id, request = next(iter(self._waiting.items()))
            task = asyncio.create_task(self._answerer.answer(request))
            self._current = (request_id, task)
            try:
                await asyncio.wait([task])
            finally:
                self._current = None
                task.cancel()
            self._waiting.pop(request_id, None)
            if task.cancelled():
                self._note(f"({one_line(self._withdrawn)})")
                continue
            await self._reply(request_id, request, task.result())

    async def _reply(self, request_id: str, request: dict[str, Any], answer: ApprovalReply) -> None:
        params: dict[str, Any] = {"requestId": request_id, "reply": answer.reply}
        if answer.feedback is not None:
            params["feedback"] = answer.feedback
        if answer.files:
            params["files"] = answer.files
        if answer.unseen:
            params["unseen"] = True
        if answer.answers:
            params["answers"] = list(answer.answers)
        if answer.remember is not None:
            params |= {"grants": list(answer.remember.grants), "scope": answer.remember.scope}
        try:
            result = await self._client.request("goalwright/permission/reply", params)
        except RpcError as error:
            if error.code in (ErrorCode.INVALID_PARAMS, ErrorCode.STORE_FAILED) and _chosen(answer):
                # The answer cannot be applied (e.g. the file's encoding lacks a character, or a pattern is too long to
                # store): the request still waits, so ask again.
                self._note(one_line(str(error)))
                self._waiting.setdefault(request_id, request)
                return
            if error.code != ErrorCode.UNKNOWN_REQUEST:
                raise
            self._note(t("(the request is no longer open: its turn has ended)"))
            return
        if mapping(result).get("accepted") is False:
            self._note(
                t("(already answered by {by})", by=one_line(string(result.get("by"))) or t("another client"))
            )


def _chosen(answer: ApprovalReply) -> bool:
    """Return whether there is more to the answer than a word, which may be wrong."""
    return bool(answer.files or answer.answers) or answer.remember is not None


class TtyReader:
    """Reads lines from a terminal through the event loop, so that a question can be withdrawn."""

    def __init__(self, descriptor: int, write: Callable[[str], None]) -> None:
        self._descriptor = descriptor
        self._write = write

    async def ask(self, question: str) -> str | None:
        """Return the line typed after ``question``, without its end; None when the input has ended.

        Input from before the question was shown does not count as an answer.
        """
        self._forget_typed()
        self._write(question)
        if sys.platform == "win32":
            return await _line_in_thread()
        loop = asyncio.get_running_loop()
        line: asyncio.Future[bytes] = loop.create_future()

        def readable() -> None:
            if not line.done():
                try:
                    line.set_result(os.read(self._descriptor, 4096))
                except OSError:
                    line.set_result(b"")  # the terminal is gone

        loop.add_reader(self._descriptor, readable)
        try:
            data = await line
        except asyncio.CancelledError:
            self._forget_typed()
            self._write("\n")
            raise
        finally:
            loop.remove_reader(self._descriptor)
        if not data:
            self._write("\n")
            return None
        return data.decode("utf-8", "replace").rstrip("\r\n")

    def _forget_typed(self) -> None:
        with contextlib.suppress(ImportError, OSError):
            import termios

            termios.tcflush(self._descriptor, termios.TCIFLUSH)


async def _line_in_thread() -> str | None:
    # A console offers no other way to wait. A daemon thread never keeps the program alive.
    import threading

    loop = asyncio.get_running_loop()
    line: asyncio.Future[str] = loop.create_future()

    def deliver(text: str) -> None:
        if not line.done():
            line.set_result(text)

    def read() -> None:
        text = sys.stdin.readline()
        with contextlib.suppress(RuntimeError):  # the loop has ended in the meantime
            loop.call_soon_threadsafe(deliver, text)

    threading.Thread(target=read, daemon=True).start()
    text = await line
    return text.rstrip("\r\n") if text else None


Ask = Callable[[str], Awaitable[str | None]]


@dataclass(frozen=True, slots=True)
class RememberedGrants:
    """The grants for ``permission/reply`` with "always"."""

    grants: tuple[dict[str, str], ...]
    scope: str


async def remembered(
    request: dict[str, Any], said: str, ask: Ask, tell: Callable[[str], None]
) -> RememberedGrants | None:
    """Return the grants that the user wants to store; None to go back to the question.

    ``said``: the text typed after "always": the letter of a scope takes all suggestions unchanged. Otherwise each can
    be kept (Enter), replaced by another pattern, or left out (``-``).
    """
    if said.lower() in SCOPES:
        kept = tuple(_grant(permission, pattern) for permission, pattern in suggested(request))
        return RememberedGrants(kept, SCOPES[said.lower()][0])
    tell(t("  Allow without asking from now on (Enter keeps a pattern, or type another; - leaves it out):"))
    grants: list[dict[str, str]] = []
    for permission, pattern in suggested(request):
        line = await ask(f"  {permission}: {shown_line(pattern)} ▸ ")
        if line is None:
            return None
        typed = line.strip()
        if typed != "-":
            grants.append(_grant(permission, typed or pattern))
    if not grants:
        tell(t("  Nothing to remember."))
        return None
    choices = " / ".join(f"[{letter}] {t(words)}" for letter, (_, words) in SCOPES.items())
    while True:
        line = await ask(t("  Where? {choices} (Enter: session): ", choices=choices))
        if line is None:
            return None
        letter = line.strip().lower()[:1] or "s"
        if letter in SCOPES:
            return RememberedGrants(tuple(grants), SCOPES[letter][0])


def _grant(permission: str, pattern: str) -> dict[str, str]:
    return {"permission": permission, "pattern": pattern}
