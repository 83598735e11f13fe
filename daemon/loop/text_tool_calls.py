"""Find answers that end a turn although nothing was done: empty ones, and tool calls written as text.

Small models do it often: as JSON in a fence, in tags that their template should have turned into calls, or as a call in
Python. Such an answer ends the turn although nothing was done. An answer may also show a call as an example, so only
unambiguous calls count: a known tool, arguments that it takes, and no text beside it that explains it.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import json
import re
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct

from daemon.loop.step import StepOutcome
from daemon.model import notice_codes
from daemon.model.messages import ReasoningPart
from tools.localization import t

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from daemon.loop.record import SessionRecord
    from daemon.model.messages import Message
    from daemon.provider.model_calls import ToolSpec


_NAMES = ("name", "tool", "tool_name", "function_name", "function", "action", "recipient_name")
_ARGUMENTS = ("arguments", "parameters", "args", "input", "tool_input", "action_input", "kwargs", "params")
_LISTS = ("tool_calls", "calls", "tools", "actions", "tool_uses")
_TAG = re.compile(
    r"<\|?(?:tool_?calls?|function_?calls?|tools?|tool_use|tool_code|tool_calls?_begin|tool_call_begin|python_tag)\|?>"
    r"|\[TOOL_CALLS\]|<\|tool.calls.begin\|>|<｜tool▁calls?▁begin｜>",
    re.IGNORECASE,
)
_FUNCTION = re.compile(
    r"<function=[\"']?([\w.-]{1,64})[\"']?>"
    r"|<(?:invoke|tool|tool_call|tool_use|function|function_call|call) name=[\"']([\w.-]{1,64})[\"'][^<>\n]{0,60}>"
    r"|(?:<\|channel\|>|\bcommentary\b)[\w ]{0,20}\bto=(?:functions\.)?([\w.-]{1,64})"  # Harmony
    r"|<\|tool_call_begin\|>\s*([\w.-]{1,64})(?::\d+)?\s*<\|tool_call_argument_begin\|>"  # Kimi
    r"|<｜tool▁sep｜>\s*([\w.-]{1,64})"  # DeepSeek
    r"|✿FUNCTION✿:\s*([\w.-]{1,64})"  # Qwen
)
_NAMED = re.compile(r"<(?!invoke)\w+ name=")
_ELEMENT = re.compile(
    r"<([\w.-]{1,64})((?:\s+[\w-]{1,64}\s*=\s*(?:\"[^\"<>]*\"|'[^'<>]*'))*)\s*(/?)>", re.DOTALL
)
"""The beginning of ``<read><file_path>a.py</file_path></read>``, or ``<read file_path="a.py"/>``."""
_ATTRIBUTE = re.compile(r"([\w-]{1,64})\s*=\s*[\"']([^\"']*)")
_CHILD = re.compile(r"\s*<([\w-]{1,64})>")
_PARAMETER = re.compile(r"<parameter(?:=|\s+name=)[\"']?([\w-]{1,64})[\"']?>")
_REACT = re.compile(r"^\s*Action:\s*`?([\w.-]{1,64})`?\s*\n\s*Action Input:\s*", re.MULTILINE)
_FENCE = re.compile(
    r"^[ \t]*(`{3,}|~{3,})[^\n]*\n(.*?)(?:^[ \t]*\1[`~]*[ \t]*$|\Z)", re.MULTILINE | re.DOTALL
)
_MARKUP = re.compile(
    r"</?[\w|▁｜=\"' .:/-]{1,60}>|✿\w+✿:?|\[/?TOOL_CALLS\]|\[/?ARGS\]|^\s*(?:Action|Action Input|Thought):.*$",
    re.M,
)
_BROKEN = re.compile(
    r"\A\s*\{\s*\"(?:name|tool|function)\"\s*:\s*\"([\w.-]{1,64})\"\s*,\s*\"(?:arguments|parameters|args|input)\"\s*:\s*[{\"]"
)
_EXAMPLE = re.compile(
    r"\b(?:for example|for instance|e\.g\.|an? (?:example|sample)|(?:would|could|might) (?:look|be)"
    r"|looks like (?:this|so)|you (?:can|could|would))(?!\w)",
    re.IGNORECASE,
)
_LOOSE = re.compile(rf"\{{\s*[\"'](?:{'|'.join((*_NAMES, *_LISTS))})[\"']\s*:")
"""The beginning of a call whose braces are counted when it is not JSON."""
_LOOSE_SIGNS = re.compile(r"\\.|[\"'{}\[\]]", re.DOTALL)
_MOST_MISSING = 3
"""Closing brackets that a call may lack."""
_ELLIPSIS = re.compile(r"[\[{:]\s*(?:\.\.\.|…)")
_ABOUT_CALLS = re.compile(r"\b(?:tool|function)[ _-]?call|[\"'`]arguments[\"'`]", re.IGNORECASE)
_ABOUT_DATA = re.compile(r"\b(?:json|list|array|object|null)|[\[\]{}]", re.IGNORECASE)
"""In a prompt that an empty list may well answer."""
_PLACEHOLDER = re.compile(r"path/to|\A\s*(?:\.\.\.|…|<[^<>\n]{1,40}>|your[ _-][\w -]+)\s*\Z", re.IGNORECASE)
_MOST_PROSE = 600
"""Characters beside the call. An answer with more text explains something."""
_NEAR = 300
"""Characters before a tag in which text may mark it as an example."""
_LOOKED_AT = 60_000
"""Characters of an answer that are looked at."""
_MOST_STARTS = 200
_MOST_LOOSE = 20
_MOST_FENCES = 100


class TextToolCall(Struct, frozen=True):
    """A call written in an answer as text. ``known``: there is a tool of that name."""

    name: str
    known: bool = True


def text_tool_call(text: str, tools: Sequence[ToolSpec]) -> TextToolCall | None:
    """Return the first call of one of ``tools`` that ``text``, an answer without real calls, makes; None when it has
    none."""
    text = text.strip()
    if not text or len(text) > _LOOKED_AT or text.count("```") + text.count("~~~") > _MOST_FENCES:
        return None
    known = {tool.name: tool for tool in tools}
    return (
        _tagged(text, known)
        or _elements(text, known)
        or _fenced(text, known)
        or _bare(text, known)
        or _python(text, known)
    )


def is_empty(text: str, prompt: str) -> bool:
    """Return whether an answer without calls is empty: blanks, or the empty list that a template makes of no calls."""
    text = re.sub(r"\A```\w*\s*|\s*```\Z", "", text.strip()).strip()
    return not text or (text in ("[]", "{}", "null") and _ABOUT_DATA.search(prompt) is None)


def asks_for_one(prompt: str) -> bool:
    """Return whether a prompt is about calls of tools, so that an answer may well show one."""
    return _ABOUT_CALLS.search(prompt) is not None


# -- shapes ----------------------------------------------------------------------------------------------------


def _tagged(text: str, known: Mapping[str, ToolSpec]) -> TextToolCall | None:
    """Return a call in the tags of a model's template: outside of fences and quotes they mean nothing else."""
    open_text = _FENCE.sub("", text)
    starts = [
        found
        for found in (_TAG.search(open_text), _FUNCTION.search(open_text), _REACT.search(open_text))
        if found
    ]
    first = min(starts, key=lambda found: found.start(), default=None)
    if first is None or _quoted(open_text, first.start()):
        return None
    if _EXAMPLE.search(open_text, max(0, first.start() - _NEAR), first.start()):
        return None
    rest = open_text[first.start() :]
    found = _named_by_tag(rest, known) or _first_call(rest, known)
    if found is None and first.re is not _REACT:
        # Tags may contain a fence, Python, or a tool that does not exist.
        inner = _MARKUP.sub("", rest)
        found = (
            _named_by_tag(text, known)
            or _first_call(text, known)
            or _broken(inner, known)
            or _python(inner, known)
            or _unknown(rest)
        )
    return found


def _elements(text: str, known: Mapping[str, ToolSpec]) -> TextToolCall | None:
    """Return a call as an element that is named like the tool, with a few words around it."""
    prose = _FENCE.sub("", text)
    calls: list[TextToolCall] = []
    found = [one for one in _ELEMENT.finditer(prose) if one[1] in known][:_MOST_LOOSE]
    for one in reversed(found):
        name, end = one[1], one.end()
        given: dict[str, Any] = dict(_ATTRIBUTE.findall(one[2]))
        if not one[3]:
            children, end = _children(prose, end)
            given |= children
            closed = re.compile(rf"\s*</{re.escape(name)}>").match(prose, end)
            if closed is None:
                continue
            end = closed.end()
        if given and not _quoted(prose, one.start()) and _plausible(known[name], given):
            calls.append(TextToolCall(name))
            prose = prose[: one.start()] + prose[end:]
    return calls[-1] if calls and not _explains(prose) else None


def _children(text: str, at: int) -> tuple[dict[str, Any], int]:
    """Return the consecutive elements from a position on, and where they end."""
    given: dict[str, Any] = {}
    while child := _CHILD.match(text, at):
        end = text.find(f"</{child[1]}>", child.end())
        if end < 0:
            break
        given[child[1]] = text[child.end() : end]
        at = end + len(child[1]) + 3
    return given, at


def _named_by_tag(text: str, known: Mapping[str, ToolSpec]) -> TextToolCall | None:
    """Find ``<function=edit>``, ``<invoke name="edit">``, ``Action: edit``: the name is outside the arguments."""
    for pattern in (_FUNCTION, _REACT):
        if found := pattern.search(text):
            name = _plain_name(next(filter(None, found.groups())))
            given: dict[str, Any] = dict.fromkeys(_PARAMETER.findall(text), "")
            if not given:
                given = next((value for _, _, value in _objects(text[found.end() :])), given)
            given = given or _children(text, found.end())[0]
            if name in known:
                return TextToolCall(name) if _plausible(known[name], given, shown=False) else None
            # Other elements with a name may be anything.
            return TextToolCall(name, known=False) if given and not _NAMED.match(found[0]) else None
    return None


def _unknown(text: str) -> TextToolCall | None:
    """Return a well-formed call of a tool that does not exist."""
    for _, _, value in _objects(text):
        name = next((value[key] for key in _NAMES if isinstance(value.get(key), str)), "")
        if re.fullmatch(r"[\w.-]{1,64}", name) and any(
            isinstance(value.get(key), dict) for key in _ARGUMENTS
        ):
            return TextToolCall(_plain_name(name), known=False)
    return None


def _fenced(text: str, known: Mapping[str, ToolSpec]) -> TextToolCall | None:
    """Return a call as the only thing in fences, with a few words around them."""
    fences = list(_FENCE.finditer(text))
    if not fences or _explains(_FENCE.sub("", text)):
        return None
    found = [
        _only_call(fence[2], known) or _broken(fence[2], known) or _python(fence[2], known)
        for fence in fences
    ]
    return found[0] if all(found) else None


def _bare(text: str, known: Mapping[str, ToolSpec]) -> TextToolCall | None:
    """Return a JSON object without a fence, with a few words around it."""
    if "```" in text or "~~~" in text:
        return None
    prose = text
    calls: list[TextToolCall] = []
    for start, end, value in reversed(list(_objects(text))):
        if (call := _call_in(value, known)) is None:
            return _broken(text, known)
        calls.append(call)
        prose = prose[:start] + prose[end:]
    if calls:
        return None if _explains(prose) else calls[-1]
    return _broken(text, known)


def _python(text: str, known: Mapping[str, ToolSpec]) -> TextToolCall | None:
    """Return ``edit(file_path="a.py", …)`` as the whole text, or several such lines."""
    code = text.strip()
    if not re.match(r"(?:await\s+)?(?:[\w]+\.)?\w{1,64}\(", code):
        return None
    try:
        lines = ast.parse(code).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    calls = [_python_call(line.value, known) if isinstance(line, ast.Expr) else None for line in lines]
    return calls[0] if calls and all(calls) else None


def _python_call(node: ast.expr, known: Mapping[str, ToolSpec]) -> TextToolCall | None:
    if isinstance(node, ast.Await):
        node = node.value
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
        node = node.args[0] if len(node.args) == 1 and not node.keywords else node
    if not isinstance(node, ast.Call) or node.args or not node.keywords:
        return None
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    arguments = {
        word.arg: word.value.value if isinstance(word.value, ast.Constant) else ""
        for word in node.keywords
        if word.arg
    }
    return TextToolCall(name) if name in known and _plausible(known[name], arguments) else None


# -- their contents --------------------------------------------------------------------------------------------


def _objects(text: str, *, loose: bool = True) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Yield the JSON objects of a text that are in no other one, and those in lists; where they begin and end.

    ``loose``: also what begins like a call and is Python's, or lacks its last brackets.
    """
    decoder = json.JSONDecoder(strict=False)  # small models forget to escape newlines within texts
    at = tries = loosely = 0
    while (start := text.find("{", at)) >= 0 and (tries := tries + 1) < _MOST_STARTS:
        try:
            value, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            at = start + 1
            if not loose or loosely == _MOST_LOOSE or not _LOOSE.match(text, start):
                continue
            loosely += 1
            if (found := _loose_object(text, start)) is None:
                continue
            value, end = found
        if isinstance(value, dict):
            yield start, end, cast("dict[str, Any]", value)
        at = end


def _loose_object(text: str, start: int) -> tuple[object, int] | None:
    """Return an object that is not quite JSON, and where it ends."""
    closing: list[str] = []
    quote = ""
    for sign in _LOOSE_SIGNS.finditer(text, start):
        if quote:
            quote = "" if sign[0] == quote else quote
        elif sign[0] in "\"'":
            quote = sign[0]
        elif sign[0] in "{[":
            closing.append("}" if sign[0] == "{" else "]")
        elif closing and sign[0] == closing[-1]:
            closing.pop()
        if not closing:
            value = _value(text[start : sign.end()])
            return None if value is None else (value, sign.end())
    if quote or len(closing) > _MOST_MISSING:
        return None
    value = _value(_MARKUP.sub("", text[start:]).rstrip("`~ \t\r\n") + "".join(reversed(closing)))
    return None if value is None else (value, len(text))


def _value(text: str) -> object:
    """Return a value that is written as JSON or Python writes it; None for anything else."""
    for read in (functools.partial(json.loads, strict=False), ast.literal_eval):
        with contextlib.suppress(ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
            return cast("object", read(text))
    return None


def _only_call(text: str, known: Mapping[str, ToolSpec]) -> TextToolCall | None:
    """Return a text that is calls and nothing else."""
    rest = text
    calls: list[TextToolCall | None] = []
    for start, end, value in reversed(list(_objects(text))):
        calls.append(_call_in(value, known))
        rest = rest[:start] + rest[end:]
    if not calls or not all(calls) or _MARKUP.sub("", rest).strip(" \t\r\n,;[]"):
        return None
    return calls[-1]


def _first_call(text: str, known: Mapping[str, ToolSpec]) -> TextToolCall | None:
    return next(
        (call for _, _, value in _objects(text) if (call := _call_in(value, known, shown=False))), None
    )


def _call_in(
    value: Mapping[str, Any], known: Mapping[str, ToolSpec], *, shown: bool = True
) -> TextToolCall | None:
    """Return the call that an object is. ``shown``: it may be an example, so placeholders speak against it."""
    for key in _LISTS:
        listed = value.get(key)
        if isinstance(listed, list) and listed and len(value) == 1:
            inner = cast("list[object]", listed)[0]
            return (
                _call_in(cast("dict[str, Any]", inner), known, shown=shown)
                if isinstance(inner, dict)
                else None
            )
    inner = value.get("function") or value.get("function_call")
    if isinstance(inner, dict):
        return _call_in(cast("dict[str, Any]", inner), known, shown=shown)
    name = _plain_name(next((value[key] for key in _NAMES if isinstance(value.get(key), str)), ""))
    if name in known:
        arguments = next((value[key] for key in _ARGUMENTS if key in value), None)
        if arguments is None:
            arguments = {key: item for key, item in value.items() if key not in (*_NAMES, "type", "id")}
        return TextToolCall(name) if _plausible(known[name], _decoded(arguments), shown=shown) else None
    if len(value) == 1:  # {"edit": {…}}
        (name, arguments), *_ = value.items()
        if name in known and isinstance(arguments, dict) and arguments:
            plausible = _plausible(known[name], cast("dict[str, Any]", arguments), shown=shown)
            return TextToolCall(name) if plausible else None
    return None


def _broken(text: str, known: Mapping[str, ToolSpec]) -> TextToolCall | None:
    """Return a call whose JSON is cut off or wrong: nothing else begins like this."""
    found = _BROKEN.match(text)
    if found is None or _ELLIPSIS.search(text):
        return None
    first = next(_objects(text, loose=False), None)
    name = _plain_name(found[1])
    return TextToolCall(name) if name in known and (first is None or text[: first[0]].strip()) else None


def _decoded(arguments: object) -> dict[str, Any]:
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments, strict=False)
        except (ValueError, RecursionError):
            return {}
    return cast("dict[str, Any]", arguments) if isinstance(arguments, dict) else {}


def _plausible(tool: ToolSpec, arguments: Mapping[str, Any], *, shown: bool = True) -> bool:
    """Return whether a tool would take these arguments: all it must have, and none (or few) that it does not know."""
    properties = set(cast("Mapping[str, Any]", tool.schema.get("properties") or {}))
    required = set(cast("Sequence[str]", tool.schema.get("required") or ()))
    given = set(arguments)
    if not required <= given or len(given & properties) * 2 < len(given):
        return False
    if given and not given & properties:
        return False
    return not (
        shown and any(isinstance(item, str) and _PLACEHOLDER.search(item) for item in arguments.values())
    )


def _plain_name(name: str) -> str:
    return name.removeprefix("functions.").removeprefix("tools.").strip("` ")


def _explains(prose: str) -> bool:
    """Return whether the text beside a call shows that it is an example."""
    prose = _MARKUP.sub("", prose).strip()
    return len(prose) > _MOST_PROSE or _EXAMPLE.search(prose) is not None


def _quoted(text: str, at: int) -> bool:
    """Return whether a place is within backticks on its line."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line.count("`") % 2 == 1


# -- messages --------------------------------------------------------------------------------------------------


def nudge(call: TextToolCall, tools: Sequence[ToolSpec]) -> str:
    """Return the message to the model: nothing was run, and how to call tools."""
    if call.known:
        spec = next(tool for tool in tools if tool.name == call.name)
        names = ", ".join(cast("Mapping[str, Any]", spec.schema.get("properties") or {}))
        how = f"Call the tool {call.name} again as a real tool call, with its arguments ({names})."
    else:
        offered = ", ".join(tool.name for tool in tools)
        how = (
            f"There is no tool {call.name}. Available tools: {offered}. Call one of them as a real tool call."
        )
    return (
        f"Your last response contains a call of {call.name} written as text. Nothing was run: a tool runs "
        "only when it is called through the tool interface (function calling). JSON, tags or code in a "
        f"response are only shown to the user. {how} If you did not want to call a tool, answer in plain "
        "words."
    )


NUDGE_EMPTY = (
    "Your last response was empty: nothing was run, and the user sees nothing. Call a tool through the "
    "tool interface (function calling), or answer in plain words."
)
"""The message for the model after an empty answer."""


def gave_up_empty(model: str) -> str:
    """Return why the turn ends, for the user."""
    return t(
        "Nothing was done: the model {model} returned empty responses, even when asked again. Send the "
        "prompt again, or choose another model. If this is a local server, its chat template may not fit "
        "the model.",
        model=model,
    )


def gave_up(call: TextToolCall, model: str, *, worked: bool = False) -> str:
    """Return why the turn ends, for the user. ``worked``: other calls of the turn were run."""
    done = t("The work is not finished") if worked else t("Nothing was done")
    return t(
        "{done}: the model {model} wrote its call of the tool {name} as text, even after being asked to "
        "call the tool. Either the model cannot call tools, or its server does not pass calls on "
        "(llama.cpp: start llama-server with --jinja; vLLM: --enable-auto-tool-choice and "
        "--tool-call-parser; Ollama: use a model for which `ollama show` lists the capability tools). "
        "Choose another model, or fix the server.",
        done=done,
        model=model,
        name=call.name,
    )


def noticed(call: TextToolCall) -> str:
    """Return the message to the user when the model gets its own."""
    return t(
        "The model wrote a call of {name} as text, so nothing was run. It is now asked to call the tool "
        "instead.",
        name=call.name,
    )


# -- the check of a turn --------------------------------------------------------------------------------------

_MOST_NUDGES = 3
"""Most times a turn corrects a model that wrote a tool call as text; never twice in a row."""


class AnswerCheck:
    """Check the answers of one turn, and find words for the model a few times."""

    def __init__(self, record: SessionRecord) -> None:
        self.prompt = ""
        """The user's own words."""
        self._record = record
        self._written = False
        """The last answer was a tool call written as text."""
        self._worked = False
        """Calls of this turn were run."""
        self._nudges = 0

    def nothing(self, why: str) -> StepOutcome:
        """Return the outcome of a step whose answer has no content. ``why``: as the model said, if it did."""
        said = why or t("The model returned an empty response. Try again, or choose another model.")
        return self._ended(said)

    def _ended(self, why: str) -> StepOutcome:
        self._record.notice("warning" if self._worked else "error", why, notice_codes.WRITTEN_CALL)
        return StepOutcome("error", why)

    def check(
        self,
        outcome: StepOutcome,
        messages: Sequence[Message],
        tools_offered: Callable[[], Sequence[ToolSpec]],
        model: str,
    ) -> StepOutcome | str:
        """Return the outcome of a step, or the correction for a model that gave no answer or wrote a call as text."""
        if outcome.stop == "tool_use":
            self._written, self._worked = False, True
        if outcome.stop != "end_turn":
            return outcome
        tools = tools_offered()
        answer, worked = _answer(messages), self._worked
        if answer is None:
            return outcome
        if not worked and is_empty(answer, self.prompt):
            said = t("The model returned an empty response. It is asked once more.")
            ending, correction = gave_up_empty(model), NUDGE_EMPTY
        elif asks_for_one(self.prompt):
            return outcome
        elif call := text_tool_call(answer, tools):
            said = noticed(call)
            ending = gave_up(call, model, worked=worked)
            correction = nudge(call, tools)
        else:
            return outcome
        if self._written or self._nudges == _MOST_NUDGES:
            return self._ended(ending)
        self._written = True
        self._nudges += 1
        self._record.notice("info", said, notice_codes.WRITTEN_CALL)
        return correction


def _answer(messages: Sequence[Message]) -> str | None:
    """Return the model's last text, or its reasoning when it has no text; None when it called tools."""
    last = next((message for message in reversed(messages) if message.role == "assistant"), None)
    if last is None or last.tool_calls():
        return None
    thoughts = [part.text for part in last.content if isinstance(part, ReasoningPart)]
    return last.text().strip() or "\n".join(thoughts)
