"""A session in a terminal: the events of the wire, written as text or as JSON lines."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from daemon.model import notice_codes
from daemon.model.tags import ASKS_FOR_PLAN
from lsp_bridge.cli.run.branch_lines import (
    BranchLines,
    OpenBranches,
    asked_title,
    result_title,
)
from lsp_bridge.cli.run.goal_lines import GOAL_EVENTS, GoalLines
from lsp_bridge.cli.text import Cleaner, Style, clean, fit, one_line, shown_line
from lsp_bridge.protocol.permission_text import (
    action_detail,
    model_lines,
    note_lines,
    question_lines,
    warning_lines,
)
from tools.json_access import integer, mapping, mappings, number, string, strings
from tools.localization import t
from tools.text.truncate import short

if TYPE_CHECKING:
    from lsp_bridge.cli.run.totals import RunOutcome

Write = Callable[[str], None]
"""Writes and flushes."""

_OUTPUT_TAIL = 8
_SAID_AT_THE_END = (
    (notice_codes.RUN_LIMIT, "warning"),
    (notice_codes.WRITTEN_CALL, "warning"),
    (notice_codes.WRITTEN_CALL, "error"),
    (notice_codes.DEMO, "info"),
)
"""Codes and levels of notices that the end of a run repeats."""
_CLEAR_LINE = "\r\x1b[K"
_DIAGNOSTICS = re.compile(r"<diagnostics(?:\s+file=\"([^\"]*)\")?[^>]*>\n?(.*?)</diagnostics>", re.DOTALL)
_MAIN_ARGUMENTS = (
    "command",
    "file_path",
    "path",
    "pattern",
    "focus",
    "done",
    "abandon",
    "add",
    "prompt",
    "branches",
    "select",
)


class JsonView:
    """One JSON object a line; the last one has ``"type": "result"``."""

    def __init__(self, write: Write) -> None:
        self._write = write

    def _line(self, value: dict[str, Any]) -> None:
        self._write(json.dumps(value, separators=(",", ":")) + "\n")

    def opened(
        self, session: dict[str, Any], goal_tree: dict[str, Any], goal_numbers: dict[str, Any]
    ) -> None:
        """The session, once."""
        session_id = mapping(session.get("trace")).get("traceId")
        self._line({"type": "session", "sessionId": session_id, "session": session, "goalTree": goal_tree})

    def event(self, session_id: str, event: dict[str, Any], view: dict[str, Any]) -> None:
        """The event as it came."""
        self._line({"type": "event", "sessionId": session_id, "event": event})

    def delta(self, session_id: str, delta: dict[str, Any]) -> None:
        """The delta as it came."""
        self._line({"type": "delta", "sessionId": session_id, "delta": delta})

    def finish(self, outcome: RunOutcome) -> None:
        """The result, with the session's meter when there is one."""
        result: dict[str, Any] = {
            "type": "result",
            "sessionId": outcome.session_id,
            "stopReason": outcome.stop_reason,
            "detail": outcome.detail,
            "exitCode": outcome.exit_code,
            "usage": outcome.usage.to_json(),
        }
        self._line({**result, "meter": outcome.meter} if outcome.meter else result)


class TextView:
    """For users. ``live``: a terminal that can rewrite its last line shows the current activity."""

    def __init__(
        self,
        write: Write,
        *,
        style: Style,
        live: bool = False,
        columns: int = 80,
        reasoning: bool = False,
        own_prompt: str = "",
        tell: Write | None = None,
        tell_style: Style | None = None,
        asking: Callable[[], bool] = lambda: False,
    ) -> None:
        """``tell`` receives notices, one line each, when they must not mix with the rest (stderr). ``asking``: the last
        line is a question to the user, which a status line would overwrite."""
        self._write = write
        self._style = style
        self._live = live
        self._columns = columns
        self._reasoning = reasoning
        self._own_prompt = own_prompt
        self._tell = tell
        self._tell_style = tell_style or style
        self._asking = asking
        self._goals = GoalLines(style)
        self._branches = BranchLines(style)
        self.open_branches = OpenBranches()
        """Kept up to date by the run, which also needs them without this view."""
        self._status = False  # a status line is visible and will be rewritten
        self._at_start = True  # of a line
        self._growing: tuple[str, int] | None = None
        self._shown: dict[tuple[str, int], str] = {}
        self._cleaners: dict[tuple[str, int], Cleaner] = {}
        self._calls: dict[str, str] = {}
        self._planning = False
        """The model was asked for a plan, and its answer is coming."""
        self._events: dict[str, Callable[[dict[str, Any]], None]] = {
            "message_added": self._message,
            "message_part_added": self._part_event,
            "message_discarded": self._discarded,
            "tool_started": self._tool_started,
            "model_retry": self._retry,
            "notice": self._notice,
        }

    # -- public methods ------------------------------------------------------------------------------------

    def opened(
        self, session: dict[str, Any], goal_tree: dict[str, Any], goal_numbers: dict[str, Any]
    ) -> None:
        """Says when it is only the demo."""
        self._goals.load(goal_tree, goal_numbers)
        if session.get("demo") is True:
            self.line(self._style.yellow(t("Demo: a scripted model answers, not a real one.")))

    def rejecting(self, why: str) -> None:
        """Show this as the reason of what the run itself rejects: it has no user who answers."""
        self._branches.rejects = why

    def event(self, session_id: str, event: dict[str, Any], view: dict[str, Any]) -> None:
        """A line, or none."""
        name = string(event.get("event"))
        if (handler := self._events.get(name)) is not None:
            handler(event)
            return
        goals = name in GOAL_EVENTS
        numbers = mapping(view.get("goalNumbers"))
        for line in self._goals.apply(event, numbers) if goals else self._branches.apply(event):
            self.line(line)

    def delta(self, session_id: str, delta: dict[str, Any]) -> None:
        """Text as it comes; live output and the rest in the status line."""
        kind, text = delta.get("kind"), string(delta.get("text"))
        if kind == "text" and self._planning:
            self.status(t("planning …"))
        elif kind == "text" or (kind == "reasoning" and self._reasoning):
            self._grow((string(delta.get("messageId")), integer(delta.get("index"))), text, kind != "text")
        elif kind == "reasoning":
            self.status(t("thinking …"))
        elif kind == "tool_input":
            self.status(f"{string(delta.get('name')) or t('tool')} …")
        elif kind == "tool_output":
            call = self._calls.get(string(delta.get("toolCallId")), "")
            last = [line for line in text.splitlines() if line.strip()][-1:]
            if last:
                self.status(f"{call} │ {last[0]}")

    def finish(self, outcome: RunOutcome) -> None:
        """The dim last line: session, tokens, cost, and what the context holds."""
        self.end_line()
        if outcome.session_id:
            session_id, words = clean(outcome.session_id), outcome.words()
            text = t("session {session_id} · {words}", session_id=session_id, words=words)
            self.line(self._style.dim(text))

    def line(self, text: str) -> None:
        """One line (or several); ``text`` must be safe."""
        self.end_line()
        self._write(text + "\n")

    def end_line(self) -> None:
        """Be at the start of an empty line."""
        self._clear_status()
        if not self._at_start:
            self._write("\n")
            self._at_start = True
        self._growing = None

    def _clear_status(self) -> None:
        if self._status:
            self._write(_CLEAR_LINE)
            self._status = False

    def status(self, text: str) -> None:
        """Show the current activity; the next output replaces it."""
        if self._live and self._at_start and not self._asking():
            self._write(_CLEAR_LINE + self._style.dim(fit(one_line(text), self._columns - 1)))
            self._status = True

    def request(self, request: dict[str, Any]) -> None:
        """Show a permission request: the action, and the rule that asks."""
        style = self._style
        self.line(style.yellow(f"? {shown_line(asked_title(request))}"))
        if detail := action_detail(request):
            self.line(detail)
        for file in mappings(request.get("files")):
            if diff := string(file.get("diff")):
                self.line(style.diff(diff))
        said = (*question_lines(request), *model_lines(request))
        for lines, paint in (
            (warning_lines(request), style.red),
            (note_lines(request), str),
            (said, style.dim),
        ):
            for line in lines:
                self.line(paint(f"  {line}"))

    def diff(self, text: str) -> None:
        """A piece of a diff."""
        self.line(self._style.diff(text))

    # -- messages ------------------------------------------------------------------------------------------

    def _message(self, event: dict[str, Any]) -> None:
        message = mapping(event.get("message"))
        message_id, role = string(message.get("messageId")), message.get("role")
        parts = mappings(message.get("content"))
        if any(part.get("type") == "compaction" for part in parts):
            return  # meant for the model; the user gets notices (``goalwright context`` shows it)
        answers, self._planning = self._planning, role == "user" and asks_for_plan(parts)
        if role == "user":
            for text in typed_texts(parts):
                if text != self._own_prompt:
                    self.line(self._style.bold(f"› {clean(text)}"))
            return
        for index, part in enumerate(parts):
            if role == "assistant":
                if answers and part.get("type") == "text" and is_plan(string(part.get("text"))):
                    continue  # the lines of the tree show it
                self._part(message_id, index, part)
            elif part.get("type") == "tool_result":
                self._tool_result(part)

    def _part_event(self, event: dict[str, Any]) -> None:
        if event.get("role") == "assistant" and not self._planning:
            self._part(
                string(event.get("messageId")), integer(event.get("index")), mapping(event.get("part"))
            )

    def _part(self, message_id: str, index: int, part: dict[str, Any]) -> None:
        kind = part.get("type")
        if kind == "tool_call":
            self._calls[string(part.get("id"))] = call_title(part)
        elif kind == "text" or (kind == "reasoning" and self._reasoning):
            key = (message_id, index)
            text, shown = string(part.get("text")), self._shown.get(key, "")
            if not text.startswith(shown):
                # Deltas were dropped on the way, so the stored text counts.
                self.end_line()
                shown = self._shown[key] = ""
                self._cleaners.pop(key, None)
            self._grow(key, text[len(shown) :], kind != "text")
            if text:
                self.end_line()

    def _grow(self, key: tuple[str, int], piece: str, dimmed: bool) -> None:
        if not piece:
            return
        if self._growing != key:
            self.end_line()
        self._shown[key] = self._shown.get(key, "") + piece
        text = self._cleaners.setdefault(key, Cleaner()).feed(piece)
        if not text:
            return
        self._clear_status()
        self._write(self._style.dim(text) if dimmed else text)
        self._growing = key
        self._at_start = text.endswith("\n")

    def _discarded(self, event: dict[str, Any]) -> None:
        message_id = event.get("messageId")
        self._shown = {key: text for key, text in self._shown.items() if key[0] != message_id}
        self._cleaners = {key: cleaner for key, cleaner in self._cleaners.items() if key[0] != message_id}
        reason = one_line(string(event.get("reason")))
        words = t("  ⟲ the response was interrupted and starts again ({reason})", reason=reason)
        self.line(self._style.dim(words))

    # -- tools ---------------------------------------------------------------------------------------------

    def _tool_started(self, event: dict[str, Any]) -> None:
        call = self._calls.get(string(event.get("toolCallId"))) or string(event.get("name"))
        self.status(f"{call} …")

    def _tool_result(self, part: dict[str, Any]) -> None:
        style = self._style
        name, content = string(part.get("name")), string(part.get("content"))
        failed = part.get("isError") is True
        if name in ("goal", "step") and not failed:
            return  # the lines of the tree have shown it
        call = self._calls.get(string(part.get("toolCallId")), name)
        title = result_title(part, content if failed else "", call, self._branches.rejects)
        self.line(style.red(f"✗ {title}") if failed else f"{style.green('✓')} {title}")
        if name == "bash":
            self._output(content)
        for line in diagnostics_lines(content):
            self.line("    " + (style.red(line) if line.startswith("ERROR") else style.yellow(line)))

    def _output(self, content: str) -> None:
        lines = clean(content).rstrip().splitlines()
        if len(lines) > _OUTPUT_TAIL:
            self.line(self._style.dim(t("    … {count} lines", count=len(lines) - _OUTPUT_TAIL)))
        for line in lines[-_OUTPUT_TAIL:]:
            self.line(self._style.dim(f"    {short(line, 200)}"))

    # -- other events --------------------------------------------------------------------------------------

    def _retry(self, event: dict[str, Any]) -> None:
        reason, seconds = one_line(string(event.get("reason"))), number(event.get("delayS"))
        words = t("  ⟲ {reason}: trying again in {seconds:.0f} s", reason=reason, seconds=seconds)
        self.line(self._style.yellow(words))

    def _notice(self, event: dict[str, Any]) -> None:
        text, level = clean(string(event.get("text"))), event.get("level")
        if (event.get("code"), level) in _SAID_AT_THE_END:
            return
        if event.get("code") == notice_codes.CHOICE_AWAITED:
            # A terminal has no button to press, so the commands go into another one.
            how = self.open_branches.choosing(string(event.get("about")))
            text = t("{text}\n  In another terminal: {choosing}", text=text, choosing=how)
            level = "warning"
        style = self._tell_style
        paint = {"error": style.red, "warning": style.yellow}.get(string(level), style.dim)
        if self._tell is None:
            self.line(paint(f"  {text}"))
            return
        if self._live:
            self.end_line()  # probably the same screen
        self._tell(paint(text))


View = JsonView | TextView
"""Where a run is shown."""


def diagnostics_lines(content: str) -> list[str]:
    """Return the problems that a tool result reports to the model: ``ERROR path [line:col] message``."""
    lines: list[str] = []
    for path, body in _DIAGNOSTICS.findall(content):
        for raw in body.strip().splitlines():
            severity, _, rest = one_line(raw, 300).partition(" ")
            lines.append(f"{severity} {one_line(path)} {rest}" if path else f"{severity} {rest}")
    return lines


def call_title(part: dict[str, Any]) -> str:
    """Return the tool call in a few words: the tool's name and its main argument."""
    return one_line(f"{string(part.get('name'))} {_main_argument(part)}".strip())


def _main_argument(part: dict[str, Any]) -> str:
    arguments = arguments_of(part)
    for name in _MAIN_ARGUMENTS:
        if value := arguments.get(name):
            return one_line(value if isinstance(value, str) else ", ".join(strings(value)), 80)
    return ""


def arguments_of(part: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a tool call; empty when they are no JSON object."""
    try:
        return mapping(json.loads(string(part.get("input")) or "{}"))
    except (ValueError, RecursionError):
        return {}


def typed_texts(parts: Sequence[dict[str, Any]]) -> list[str]:
    """Return the texts of a user message as the user typed them: a command without what it stands for."""
    commands = [string(part.get("text")) for part in parts if part.get("type") == "command"]
    return commands or [string(part.get("text")) for part in parts if part.get("type") == "text"]


def asks_for_plan(parts: Iterable[dict[str, Any]]) -> bool:
    """Return whether a message asks the model for a plan as JSON (``daemon.planner.planning_notes``)."""
    notes = [string(part.get("text")) for part in parts if part.get("type") == "note"]
    return any(note.startswith("<planning>\n") and ASKS_FOR_PLAN in note for note in notes)


def is_plan(text: str) -> bool:
    """Return whether an answer is nothing but JSON, in a fence or not: then it is not meant for the user."""
    text = text.strip()
    if text.startswith("```") and text.endswith("```") and "\n" in text:
        text = text.partition("\n")[2][:-3].strip()
    if not text.startswith(("{", "[")):
        return False
    try:
        json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return False
    return True
