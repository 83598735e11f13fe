"""Permission requests at a terminal: one at a time, the first answer from any client wins."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from daemon.runtime import state_dir
from lsp_bridge.cli.client import Client, RpcError
from lsp_bridge.cli.run.branch_lines import asked_title
from lsp_bridge.cli.run.hunk_prompt import FileAnswers, can_choose, choose, edited, editor
from lsp_bridge.cli.run.view import TextView
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
from tools.json_access import mapping, mappings, string
from tools.localization import noted, t
from tools.tool_names import MCP_ELICITATION

if TYPE_CHECKING:
    from lsp_bridge.cli.console import Console


Reply = dict[str, Any]
"""An answer, as ``permission/reply`` takes it; the id of the request is added."""
_REJECT: Reply = {"reply": "reject"}
_WITH_PARTS = {"files", "answers", "grants"}
"""Parts of an answer that may be wrong, unlike its word."""

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


class Unattended:
    """Answers without a user. Limits end the run, and so do loops; questions are rejected with advice."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self.stopped = ""
        """Why the run was ended, when a limit or a loop was the reason."""

    def _stop(self, why: str) -> Reply:
        self.stopped = why
        self._tell(why)
        return _REJECT


class AcceptAll(Unattended):
    """``--yes``, and the demo, which also shows what it accepts. The model is notified once for each call of a loop,
    then the run ends."""

    def __init__(self, view: TextView | None, note: str, show: bool = False) -> None:
        super().__init__(lambda text: view.line(f"  {text}") if view is not None else None)
        self._view = view
        self._note = note
        self._show = show
        self._loops: set[str] = set()

    async def answer(self, request: dict[str, Any]) -> Reply:
        """Once, but for limits and loops."""
        title = shown_line(string(request.get("title")))
        if is_budget(request):
            return self._stop(t("{title} Rejected. {raise_limit}", title=title, raise_limit=t(RAISE_LIMIT)))
        if is_loop(request):
            return self._loop(request, title)
        if is_question(request):
            self._tell(
                t("{title}, but nobody can answer (--yes)", title=title)
                if is_of_server(request)
                else t("the model asks a question, but nobody can answer (--yes): {title}", title=title)
            )
            return {**_REJECT, "feedback": NOBODY_ANSWERS}
        if self._show and self._view is not None:
            self._view.request(request)
            self._tell(self._note)
        else:
            self._tell(
                "\n".join((f"{self._note} {shown_line(asked_title(request))}", *logged_lines(request)))
            )
        return {"reply": "once", "unseen": True}

    def _loop(self, request: dict[str, Any], title: str) -> Reply:
        call = json.dumps([request.get("targets"), request.get("detail")])
        if call in self._loops or len(self._loops) == _MOST_LOOPS:
            return self._stop(t("{title} Rejected (--yes): the model repeated itself again.", title=title))
        self._loops.add(call)
        self._tell(t("{title} Rejected (--yes): the model is asked to do something else.", title=title))
        return {**_REJECT, "feedback": DO_SOMETHING_ELSE}


class RefuseAll(Unattended):
    """Rejects requests when nobody can be asked, and explains once how to allow them."""

    def __init__(self, warn: Callable[[str], None]) -> None:
        super().__init__(warn)
        self._told = False

    async def answer(self, request: dict[str, Any]) -> Reply:
        """Reject."""
        title = shown_line(string(request.get("title")))
        if is_budget(request):
            why = t(
                "{title} There is no terminal to ask on. {raise_limit}",
                title=title,
                raise_limit=t(RAISE_LIMIT),
            )
            return self._stop(why)
        if is_loop(request):
            return self._stop(
                t(
                    "{title} Rejected: there is no terminal to ask on, and the model repeats itself.",
                    title=title,
                )
            )
        if is_question(request):
            head = (
                t("{title}, but there is no terminal to answer on:", title=title)
                if is_of_server(request)
                else t("The model asks a question, but there is no terminal to answer on:")
            )
            self._tell("\n".join((head, *(f"  {line}" for line in asked_lines(request)))))
            return {**_REJECT, "feedback": NOBODY_ANSWERS}
        title = shown_line(asked_title(request))
        about = (
            *warning_lines(request),
            *note_lines(request),
            *question_lines(request),
            *model_lines(request),
        )
        self._tell(
            t("Rejected, because there is no terminal to ask on: {request}\n", request=title)
            + "\n".join((*logged_lines(request), *(f"  {line}" for line in about)))
        )
        if not self._told:
            self._told = True
            self._tell(
                t(
                    "  To allow it, run in a terminal and answer there, run with --yes to approve "
                    "everything once"
                )
                + _as_rule(request)
            )
        return _REJECT


def _as_rule(request: dict[str, Any]) -> str:
    """Return the rule to put into the configuration instead, where something can be remembered at all."""
    rules: dict[str, dict[str, str]] = {}
    for permission, pattern in suggested(request):
        rules.setdefault(permission, {})[pattern] = "allow"
    if not rules:
        return "."
    rule, file = shown_line(json.dumps({"permission": rules})), state_dir() / "config.json"
    return t(", or add a rule such as {rule} to {state_dir}.", rule=rule, state_dir=file)


class AskUser:
    """Shows the diff and the rule, and asks."""

    def __init__(self, view: TextView, reader: TtyReader) -> None:
        self._view = view
        self._reader = reader
        self._editor = editor()
        self.client: Client | None = None
        """Set once connected."""

    async def answer(self, request: dict[str, Any]) -> Reply:
        """Return the user's typed answer; the end of input rejects."""
        if is_question(request):
            return await self._answered(request)
        self._view.request(request)
        patterns = suggestion_words(request)
        always = t("[a]lways ({patterns}) / ", patterns=patterns) if patterns else ""
        question = t("Apply? [y]es once")
        if is_budget(request):
            question = t("Continue? [y]es, with the same amount again")
            always = t("[a]lways, without this limit / ")
        hunks = t("[h]unk by hunk / ") if can_choose(request) else ""
        edit = t("[e]dit / ") if self._editor and request.get("files") else ""
        asked = t(
            "{question} / {always}{hunks}{edit}[n]o / [f]eedback: ",
            question=question,
            always=always,
            hunks=hunks,
            edit=edit,
        )
        while True:
            line = await self._reader.ask(asked)
            word, _, rest = (line if line is not None else "n").strip().partition(" ")
            choice = word.lower()
            if choice in ("y", "yes"):
                return {"reply": "once"}
            if choice in ("a", "always") and patterns:
                if is_budget(request):
                    return {"reply": "always"}
                if kept := await remembered(request, rest.strip(), self._reader.ask, self._view.line):
                    return {"reply": "always", **kept}
            if choice in ("n", "no"):
                return _REJECT
            if choice in ("f", "feedback"):
                said = rest.strip() or (await self._reader.ask(t("What should be different? ")) or "").strip()
                if said:
                    return {**_REJECT, "feedback": said}
            files: FileAnswers | None = None
            if choice in ("h", "hunk") and hunks:
                files = await choose(request, self._reader.ask, self._view.diff)
            if choice in ("e", "edit") and edit:
                files = await self._edited(request, rest.strip())
            if files:
                return {"reply": "once", "files": files}

    async def _answered(self, request: dict[str, Any]) -> Reply:
        """Ask one question after the other; an empty line skips one, the end of input all."""
        answers: list[dict[str, Any]] = []
        title = request.get("title") if is_of_server(request) else t("The model asks")
        self._view.line(f"? {shown_line(asked_title({**request, 'title': title}))}")
        for question in mappings(request.get("questions")):
            for line in asked_lines({"questions": [question]}):
                self._view.line(f"  {line}")
            how, count = t("Your answer"), len(option_texts(question))
            several = question.get("multiple") is True
            if count:
                or_several = t(" or several (1,3)") if several else ""
                how = t("Number{several}, or {how}", several=or_several, how=t("your own words"))
            while (typed := await self._reader.ask(t("{how} (Enter: skip): ", how=how))) is not None:
                if (answer := typed_answer(question, typed)) is not None:
                    answers.append(answer)
                    break
                self._view.line(
                    t("  Choose numbers from 1 to {count}.", count=count)
                    if several
                    else t("  Choose one number from 1 to {count}.", count=count)
                )
            else:
                return _REJECT
        if not any(answer["chosen"] or answer["text"] for answer in answers):
            return _REJECT
        return {"reply": "once", "answers": answers}

    async def _edited(self, request: dict[str, Any], name: str) -> FileAnswers | None:
        """Return the answer with the user's own text of one file; None to ask again."""
        names = [string(file.get("path")) for file in mappings(request.get("files"))]
        if len(names) > 1 and name not in names:
            choices = " | ".join(map(shown_line, names))
            self._view.line(t("  Which file? Type: e {shown_line}", shown_line=choices))
            return None
        path = name or names[0]
        if path not in names:
            return None
        text = await self._proposed(string(request.get("requestId")), path)
        if text is None:
            self._view.line(t("  {path} has no text to edit.", path=shown_line(path)))
            return None
        try:
            made = await edited(path, text, self._editor, self._reader.descriptor)
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

    async def _proposed(self, request_id: str, path: str) -> str | None:
        """Return the text a request would give to a file; None when it has none, or the request is gone."""
        if self.client is None:
            return None
        try:
            params = {"requestId": request_id, "path": path}
            content = await self.client.request("goalwright/permission/content", params)
        except RpcError:
            return None
        after = content.get("after")
        return after if isinstance(after, str) else None


Answerer = AcceptAll | RefuseAll | AskUser


def answerer_of(console: Console, view: TextView, *, yes: bool, json: bool, demo: bool = False) -> Answerer:
    """Return who answers requests. ``json``: the output is for programs; ``demo``: show what is accepted."""
    if yes:
        note = t("(demo: accepted)") if demo else t("accepted (--yes):")
        return AcceptAll(None if json else view, console.style.dim(note), show=demo)
    if console.tty is None:
        return RefuseAll(console.warn)
    if json or not console.live:
        # stdout goes to a program or a file, so ask the user on stderr.
        return AskUser(TextView(console.tell, style=console.err_style), TtyReader(console.tty, console.tell))
    return AskUser(view, TtyReader(console.tty, console.write))


class Approver:
    """The inbox of a run. ``asked`` and ``settled`` are fed with events; ``work`` answers in order."""

    def __init__(self, client: Client, answerer: Answerer, note: Callable[[str], None]) -> None:
        if isinstance(answerer, AskUser):
            answerer.client = client
        self._client = client
        self._answerer = answerer
        self._note = note
        self._waiting: dict[str, dict[str, Any]] = {}
        self._news = asyncio.Event()
        self._current: tuple[str, asyncio.Task[Reply]] | None = None
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
            by, words = by or t("another client"), t(_REPLIES.get(reply, reply))
            answered = t("answered by {by}: {reply}", by=by, reply=words)
            self._withdrawn = t("canceled") if reply == "canceled" else answered
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

    async def _reply(self, request_id: str, request: dict[str, Any], answer: Reply) -> None:
        params = {"requestId": request_id, **answer}
        try:
            result = await self._client.request("goalwright/permission/reply", params)
        except RpcError as error:
            if (
                error.code in (ErrorCode.INVALID_PARAMS, ErrorCode.STORE_FAILED)
                and answer.keys() & _WITH_PARTS
            ):
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


class TtyReader:
    """Reads lines from a terminal through the event loop, so that a question can be withdrawn."""

    def __init__(self, descriptor: int, write: Callable[[str], None]) -> None:
        self.descriptor = descriptor
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
                    line.set_result(os.read(self.descriptor, 4096))
                except OSError:
                    line.set_result(b"")  # the terminal is gone

        loop.add_reader(self.descriptor, readable)
        try:
            data = await line
        except asyncio.CancelledError:
            self._forget_typed()
            self._write("\n")
            raise
        finally:
            loop.remove_reader(self.descriptor)
        if not data:
            self._write("\n")
            return None
        return data.decode("utf-8", "replace").rstrip("\r\n")

    def _forget_typed(self) -> None:
        if sys.platform != "win32":
            import termios

            with contextlib.suppress(termios.error):  # the terminal is gone
                termios.tcflush(self.descriptor, termios.TCIFLUSH)


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


async def remembered(
    request: dict[str, Any], said: str, ask: Ask, tell: Callable[[str], None]
) -> Reply | None:
    """Return the grants that the user wants to store, and their scope; None to go back to the question.

    ``said``: the text typed after "always": the letter of a scope takes all suggestions unchanged. Otherwise each can
    be kept (Enter), replaced by another pattern, or left out (``-``).
    """
    if said.lower() in SCOPES:
        kept = [_grant(permission, pattern) for permission, pattern in suggested(request)]
        return {"grants": kept, "scope": SCOPES[said.lower()][0]}
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
            return {"grants": grants, "scope": SCOPES[letter][0]}


def _grant(permission: str, pattern: str) -> dict[str, str]:
    return {"permission": permission, "pattern": pattern}
