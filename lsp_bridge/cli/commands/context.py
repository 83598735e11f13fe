"""``goalwright context``: the exact next request to the model, for users who want to inspect it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from lsp_bridge.cli.commands.session_command import SessionConnection, session_command
from lsp_bridge.cli.text import fit, one_line, pad, share, shown, shown_line, tokens, width, window_words
from tools.json_access import integer, mapping, mappings, string, strings
from tools.localization import n, noted, t
from tools.text.truncate import short

if TYPE_CHECKING:
    from lsp_bridge.cli.console import Console
    from lsp_bridge.cli.invocation import Invocation

_BRIEF_LINES = 6
_BRIEF_COLUMNS = 160
_KINDS = {
    "goal_summary": noted("replaces the messages of an ended goal"),
    "compaction": noted("compaction"),
    "history": noted("rest of an earlier turn"),
}


@session_command()
async def context(cli: Invocation, asked: SessionConnection, *, tools: bool, brief: bool) -> None:
    """Print it: ``tools``: with their descriptions and schemas, ``brief``: only the beginning of each text."""
    found = await asked.request("goalwright/session/context")
    if not cli.wrote_json(found):
        _Page(cli.console, found, tools=tools, brief=brief).show(asked.session)


_LAYERS = {
    "system": noted("system"),
    "tools": noted("tools"),
    "messages": noted("messages"),
    "plan": noted("plan"),
}
_NAMES = {
    "agent": noted("agent"),
    "provider": noted("provider"),
    "environment": noted("environment"),
    "project": noted("project"),
    "skills": noted("skills"),
    "no goal": noted("no goal"),
    "plan": noted("plan"),
}


def _named(part: dict[str, Any]) -> str:
    """Return the name of a part; those of the daemon's own parts in the user's language."""
    name = string(part.get("name"))
    if part.get("layer") == "tools" and (count := name.partition(" ")[0]).isdecimal():
        return n("{count} tool", "{count} tools", int(count))
    return t(_NAMES.get(name, name))


class _Page:
    """The readable form. Texts are shown unchanged, with invisible characters made visible."""

    def __init__(self, console: Console, found: dict[str, Any], *, tools: bool, brief: bool) -> None:
        self._with_schemas = tools
        self._brief = brief
        self._write = console.write
        self._style = console.style
        self._columns = console.columns if console.live else 0
        self._found = found
        self._goals = {
            string(part.get("goalId")): string(part.get("name"))
            for part in mappings(found.get("parts"))
            if part.get("goalId")
        }

    def show(self, session: str) -> None:
        """All of it."""
        found = self._found
        meter = mapping(found.get("meter"))
        total = integer(found.get("tokens"))
        window = integer(meter.get("contextWindow"))
        model = shown_line(string(found.get("model")))
        self._line(t("session {session} · {model}", session=shown_line(session), model=model))
        of_window = ""
        if window:
            of_window = t(" of {window} ({total})", window=window_words(meter), total=share(total, window))
        compact = integer(meter.get("compactAt"))
        at = t("; compacted above {compact:,}", compact=compact) if compact else ""
        self._line(t("about {total}{of_window}{at}", total=tokens(total), of_window=of_window, at=at))
        self._table(total)
        layers = [part for part in mappings(found.get("parts")) if part.get("layer") == "system"]
        for number, text in enumerate(strings(found.get("system"))):
            # Only the plan can follow the layers.
            name = one_line(_named(layers[number])) if number < len(layers) else t("plan")
            self._heading(t("system · {name}", name=name))
            self._text(text)
        self._tools()
        for number, message in enumerate(mappings(found.get("messages")), 1):
            self._message(number, message)
        if tail := string(found.get("tail")):
            self._heading(t("the plan, at the end of the last message"))
            self._text(tail)

    def _table(self, total: int) -> None:
        rows = [
            (
                t(_LAYERS.get(string(part.get("layer")), string(part.get("layer")))),
                one_line(_named(part), 80),
                f"{integer(part.get('tokens')):,}",
                share(integer(part.get("tokens")), total),
            )
            for part in mappings(self._found.get("parts"))
        ]
        if not rows:
            return
        self._line("")
        widths = [max(width(row[column]) for row in rows) for column in range(4)]
        room = self._columns - widths[0] - widths[2] - widths[3] - 6 if self._columns else widths[1]
        widths[1] = max(10, min(widths[1], room))
        for layer, name, count, part in rows:
            about = f"{pad(layer, widths[0])}  {pad(fit(name, widths[1]), widths[1])}"
            self._line(f"{about}  {count.rjust(widths[2])}  {part.rjust(widths[3])}")

    def _tools(self) -> None:
        tools = mappings(self._found.get("tools"))
        if not tools:
            return
        self._heading(n("{count} tool", "{count} tools", len(tools)))
        for tool in tools:
            schema = json.dumps(tool.get("inputSchema"), ensure_ascii=False)
            name, description = string(tool.get("name")), string(tool.get("description"))
            size = len(name.encode()) + len(description.encode()) + len(schema.encode())
            self._line(t("{name}  {size:,} bytes", name=shown_line(name), size=size))
            if self._with_schemas:
                self._text(f"{description}\n{schema}")
                self._line("")

    def _message(self, number: int, message: dict[str, Any]) -> None:
        goal_id = string(message.get("goalId"))
        words = [
            f"{number} {string(message.get('role'))}",
            t("goal {goals}", goals=one_line(self._goals.get(goal_id, goal_id), 80)) if goal_id else "",
            t(_KINDS.get(string(message.get("kind")), "")),
            tokens(integer(message.get("tokens"))),
        ]
        self._heading(" · ".join(word for word in words if word))
        for part in mappings(message.get("content")):
            self._part(part)

    def _part(self, part: dict[str, Any]) -> None:
        kind, name = part.get("type"), shown_line(string(part.get("name")))
        if kind == "tool_call":
            self._label(t("call {name}", name=name))
            self._text(string(part.get("input")))
        elif kind == "tool_result":
            failed = t(", failed") if part.get("isError") is True else ""
            self._label(t("result of {name}{failed}", name=name, failed=failed))
            self._text(string(part.get("content")))
            for image in mappings(part.get("images")):
                self._file(image)
        elif kind == "file":
            self._file(part)
        else:
            if kind == "note":
                self._label(t("note of Goalwright"))
            if kind == "reasoning":
                hidden = part.get("redacted")
                self._label(t("reasoning, hidden by the provider") if hidden else t("reasoning"))
            self._text(string(part.get("text")) or string(part.get("prompt")))

    def _file(self, part: dict[str, Any]) -> None:
        size = len(string(part.get("data"))) * 3 // 4
        about = (
            t("{media_type}, {size:,} bytes", media_type=string(part.get("mediaType")), size=size)
            if size
            else t("name only")
        )
        self._label(shown_line(t("file {name} ({about})", name=string(part.get("name")), about=about)))

    def _text(self, text: str) -> None:
        text = shown(text).rstrip("\n")
        if not text:
            return
        if not self._brief:
            self._line(text)
            return
        lines = text.split("\n")
        for line in lines[:_BRIEF_LINES]:
            self._line(short(line, _BRIEF_COLUMNS))
        if len(lines) > _BRIEF_LINES:
            more = len(lines) - _BRIEF_LINES
            self._line(self._style.dim(n("… {count} more line", "… {count} more lines", more)))

    def _heading(self, text: str) -> None:
        self._line("\n" + self._style.bold(f"── {text}"))

    def _label(self, text: str) -> None:
        self._line(self._style.cyan(f"[{text}]"))

    def _line(self, text: str) -> None:
        self._write(text + "\n")
