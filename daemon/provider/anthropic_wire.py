"""Convert messages to requests of the Anthropic Messages API. Pure.

Sources: the request types of the SDK (``anthropic.types.message_create_params``), and the documentation of
thinking per model and of API version 2026-10-21 (no sampling parameters, alternating roles).
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from functools import partial
from itertools import accumulate, islice
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from daemon.model.messages import OPEN_FILE, FilePart, Part, ReasoningPart, ToolCallPart, ToolResultPart
from daemon.provider.memo import Latest, Memo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from daemon.provider.model_calls import ModelRequest, PromptMessage, SystemBlock, ToolSpec

MAX_BREAKPOINTS = 4
MIN_THINKING = 1024
"""The API takes no smaller budget."""
NO_OUTPUT = "(no output)"
_SHORT_ANSWER = 4_096
"""Tokens."""
_BLOCK_BYTES = 128 * 1024
"""Copying so much for each request is quicker than writing many small pieces."""
_NEXT = b", "

Thinking = Literal["none", "budget", "adaptive", "adaptive_default", "between_tools", "always"]
"""How a model thinks: never; with a budget; adaptive when asked; adaptive unless disabled, or unless set to
``between_tools``; adaptive always."""

_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_MODEL = re.compile(r"claude-(haiku|sonnet|opus|fable|mythos)-(\d{1,2})(?:-(\d{1,2}))?(?=$|[-@:])")
_THINKING = ("thinking", "redacted_thinking")
_EPHEMERAL = {"type": "ephemeral"}
VERSION = "2026-10-21"
_OLD_VERSION = "2023-06-01"

Block = dict[str, Any]
"""A content block as JSON in the API's shape, hence ``Any``."""


def build(request: ModelRequest, *, replay_thinking: bool = True) -> dict[str, Any]:
    """Return the body of the request, all but ``stream``.

    ``replay_thinking=False`` leaves earlier thinking out, for a model that refuses another one's signatures.
    """
    messages = to_messages(request.messages, replay_thinking=replay_thinking)
    free = MAX_BREAKPOINTS
    # Mark the last two, because the cache lookup goes back from a breakpoint: the second to last finds what the
    # previous call wrote.
    users = _last_users(messages)
    for number in users:
        _mark(messages, number, -1)
    free -= len(users) + _mark_what_stays(messages, request, replay_thinking)
    _add_tail(messages, request.tail)
    args: dict[str, Any] = {"model": request.model, "messages": messages}
    system, tools = _framed.get(lambda: _frame(request, free), equal=(request.system, request.tools, free))
    if system:
        args["system"] = system
    if tools:
        args["tools"] = tools
    return args | _sampling(request, messages)


def encode(args: Mapping[str, Any]) -> list[bytes]:
    """Return the body as JSON in UTF-8, in pieces to send one after the other.

    What an earlier request had, too, is not encoded again. Most of a long conversation is not even copied.
    """
    parts: list[bytes] = []
    for name, value in args.items():
        parts += [b", " if parts else b"{", _json(name), b": "]
        parts += [b"[", *value.encoded(), b"]"] if isinstance(value, _Conversation) else [_json(value)]
    pieces: list[bytes] = []
    small: list[bytes] = []
    for part in (*parts, b"}"):
        if len(part) < _BLOCK_BYTES:
            small.append(part)
        else:
            pieces += [b"".join(small), part]
            small = []
    return [*pieces, b"".join(small)]


class _JsonBlock(NamedTuple):
    """The JSON of messages that follow one another, with what separates them."""

    text: bytes
    starts: list[int]
    """Where each message begins in ``text``."""


class _KeptJson:
    """The JSON of a conversation so far, which all requests with the same beginning share."""

    __slots__ = ("_blocks", "_loose", "_loose_bytes", "count")

    def __init__(self) -> None:
        self.count = 0
        """Messages."""
        self._blocks: list[_JsonBlock] = []
        self._loose: list[bytes] = []
        """The messages behind the blocks."""
        self._loose_bytes = 0

    def add(self, messages: Iterable[Block]) -> None:
        for message in messages:
            self._loose.append(_json(message))
            self._loose_bytes += len(self._loose[-1])
            self.count += 1
            if self._loose_bytes >= _BLOCK_BYTES:
                sizes = (len(one) + len(_NEXT) for one in self._loose[:-1])
                self._blocks.append(_JsonBlock(_NEXT.join(self._loose), list(accumulate(sizes, initial=0))))
                self._loose, self._loose_bytes = [], 0

    def items(self, instead: Mapping[int, bytes]) -> list[bytes]:
        """Return the JSON of all messages, some of them replaced. Each item has one or more."""
        found: list[bytes] = []
        first = 0
        for text, starts in self._blocks:
            begin = 0
            for number in sorted(number - first for number in instead if 0 <= number - first < len(starts)):
                if starts[number] > begin:
                    found.append(text[begin : starts[number] - len(_NEXT)])
                found.append(instead[first + number])
                begin = starts[number + 1] if number + 1 < len(starts) else len(text)
            if begin < len(text):
                found.append(text[begin:] if begin else text)
            first += len(starts)
        return found + [instead.get(number, text) for number, text in enumerate(self._loose, first)]


class _Conversation(list[Block]):
    """The messages of a request. Those at its start are ``kept`` for later requests, with their JSON."""

    __slots__ = ("json", "kept", "marked")

    def __init__(self, kept: list[Block], json: _KeptJson, new: Iterable[Block] = ()) -> None:
        """``json``: of the first ones of ``kept``."""
        super().__init__(kept)
        self.extend(new)
        self.kept = kept
        self.json = json
        self.marked: list[int] = []
        """Where copies with a breakpoint are in place of messages."""

    def encoded(self) -> list[bytes]:
        """Return the JSON of all messages with what separates them, and keep that which later requests repeat."""
        kept = len(self.kept)
        if self.json.count <= kept:
            self.json.add(self.kept[self.json.count :])
            found = self.json.items({number: _json(self[number]) for number in self.marked if number < kept})
        else:  # another request has continued this conversation since
            found = [*map(_json, self[:kept])]
        found += map(_json, self[kept:])
        return [part for item in found for part in (_NEXT, item)][1:]


class _KeptList(list[Block]):
    """The system prompt or the tools, which later requests repeat, with their JSON."""

    __slots__ = ("json",)

    def __init__(self, blocks: Iterable[Block]) -> None:
        super().__init__(blocks)
        self.json = json.dumps(self, ensure_ascii=False).encode()


def _json(value: object) -> bytes:
    return value.json if isinstance(value, _KeptList) else json.dumps(value, ensure_ascii=False).encode()


def _last_users(messages: Sequence[Block]) -> list[int]:
    """Return where the last two messages of the user are, the newest first."""
    numbers = range(len(messages) - 1, -1, -1)
    return list(islice((number for number in numbers if messages[number]["role"] == "user"), 2))


_framed: Latest[tuple[_KeptList, _KeptList]] = Latest(8)
"""Frames of the sessions that were at work last: they take turns."""


def _frame(request: ModelRequest, free: int) -> tuple[_KeptList, _KeptList]:
    """Return the system prompt and the tools, with the ``free`` breakpoints."""
    system = _system(request.system, free)
    tools = list(map(_tool, request.tools))
    if tools and not any("cache_control" in block for block in system):
        # Otherwise the breakpoint in the system prompt covers them, because tools come before it.
        tools[-1]["cache_control"] = _EPHEMERAL
    return _KeptList(system), _KeptList(tools)


def _mark(messages: _Conversation, number: int, at: int) -> None:
    # Mark a copy, because blocks are shared with the requests before and after this one.
    content: list[Block] = list(messages[number]["content"])
    content[at] = {**content[at], "cache_control": _EPHEMERAL}
    messages[number] = {**messages[number], "content": content}
    messages.marked.append(number)


def _mark_what_stays(messages: _Conversation, request: ModelRequest, replay_thinking: bool) -> bool:
    """Set a breakpoint behind ``request.stays``, still cached when the goal ends. Returns whether it is new."""
    memo, blocks_of = _KNOWN_BLOCKS[replay_thinking]
    last: Block | None = None
    for message in reversed(request.messages[: request.stays]):
        blocks = memo.get(message, blocks_of)
        last = next((block for block in reversed(blocks) if block["type"] not in _THINKING), None)
        if last is not None:
            break
    if last is None:
        return False
    for number in range(len(messages) - 1, -1, -1):
        content: list[Block] = messages[number]["content"]
        for at in range(len(content) - 1, -1, -1):
            if content[at] is last:
                _mark(messages, number, at)
                return True
    return False  # it is the end of one of the last messages, which is marked already


def _add_tail(messages: list[Block], tail: str) -> None:
    """Behind the last breakpoint: the next call is without it, and must still find the cached prefix."""
    if messages and messages[-1]["role"] == "user":
        messages[-1] = {**messages[-1], "content": [*messages[-1]["content"], *_text(tail)]}
    elif tail.strip():
        messages.append({"role": "user", "content": _text(tail)})


class _KeptPrefix:
    """The encoded messages of a conversation so far: later requests mostly only add to them."""

    __slots__ = ("covers", "json", "out")

    def __init__(self) -> None:
        self.out: list[Block] = []
        self.json = _KeptJson()
        """The JSON of the first ones of ``out``."""
        self.covers: tuple[PromptMessage, ...] = ()
        """The messages they were made from, but for the first one: it must not be kept alive from here."""


def to_messages(messages: Iterable[PromptMessage], *, replay_thinking: bool = True) -> _Conversation:
    """Alternating user and assistant messages; tool results open the user message that follows the call.

    The list is the caller's. What is in it is shared: a message that is sent again is not made again.
    """
    given = tuple(messages)
    if not given:
        return _Conversation([], _KeptJson())
    kept = _PREFIXES[replay_thinking].get(given[0], lambda _: _KeptPrefix())
    known, start = kept.out, len(kept.covers) + 1
    if not known or given[1:start] != kept.covers:
        known, start = [], 0
    out, starts = _alternating(given, start, replay_thinking)
    if known and out and out[0]["role"] == known[-1]["role"]:
        known = []
        out, starts = _alternating(given, 0, replay_thinking)
    users = _last_users(out)
    done = users[-1] if len(users) == 2 else 0
    if not known:
        kept.json = _KeptJson()
    kept.out = [*known, *out[:done]]
    if done or not known:
        kept.covers = given[1 : starts[done]] if done else ()
    return _Conversation(kept.out, kept.json, out[done:])


def _alternating(
    messages: Sequence[PromptMessage], start: int, replay_thinking: bool
) -> tuple[list[Block], list[int]]:
    """Return the messages from ``start`` on, and where each of them begins."""
    memo, blocks_of = _KNOWN_BLOCKS[replay_thinking]
    out: list[Block] = []
    starts: list[int] = []
    mixed: list[Block] = []
    for number in range(start, len(messages)):
        message = messages[number]
        blocks = memo.get(message, blocks_of)
        if not blocks:
            continue
        role = "assistant" if message.role == "assistant" else "user"
        if role == "user":
            _drop_last_thoughts(out, starts)
        if out and out[-1]["role"] == role:
            out[-1]["content"].extend(blocks)
            if not mixed or mixed[-1] is not out[-1]:
                mixed.append(out[-1])
        else:
            out.append({"role": role, "content": list(blocks)})
            starts.append(number)
    _drop_last_thoughts(out, starts)
    for message in mixed:
        if message["role"] == "user":
            # A stable sort: results first, everything else in its order.
            message["content"].sort(key=_after_results)
    return out, starts


def _drop_last_thoughts(out: list[Block], starts: list[int]) -> None:
    """Drop what a canceled call thought before it said anything: the API refuses a message that ends so."""
    content: list[Block] = out[-1]["content"] if out and out[-1]["role"] == "assistant" else []
    while content and content[-1]["type"] in _THINKING:
        content.pop()
        if not content:
            out.pop()
            starts.pop()


def _after_results(block: Block) -> bool:
    return block["type"] != "tool_result"


def _blocks_of(message: PromptMessage, *, replay_thinking: bool) -> tuple[Block, ...]:
    blocks = [block for part in message.content for block in _blocks(part, replay_thinking)]
    return tuple(blocks if message.role == "assistant" else sorted(blocks, key=_after_results))


_Blocks = tuple[Block, ...]
_KNOWN_BLOCKS: Mapping[bool, tuple[Memo[PromptMessage, _Blocks], Callable[[PromptMessage], _Blocks]]] = {
    thinking: (Memo(), partial(_blocks_of, replay_thinking=thinking)) for thinking in (True, False)
}
_PREFIXES: Mapping[bool, Memo[PromptMessage, _KeptPrefix]] = {True: Memo(), False: Memo()}
"""By the first message of a conversation. Both are kept with and without thinking."""


def _blocks(part: Part, replay_thinking: bool) -> list[Block]:
    # Compare the name of the type, because isinstance() asks pydantic, which takes ten times as long.
    if part.type == "tool_result":
        return [_result(part)]
    if part.type == "tool_call":
        return [{"type": "tool_use", "id": _id(part.id), "name": _id(part.name), "input": safe_input(part)}]
    if part.type == "text" or part.type == "note":
        return _text(part.text)
    if part.type == "reasoning":
        return _reasoning(part) if replay_thinking else []
    if part.type == "file":
        return [_file(part)]
    # Our own marks (finish, compaction) mean nothing to a model.
    return []


def _text(text: str) -> list[Block]:
    # The API rejects blocks that contain only whitespace.
    return [{"type": "text", "text": text}] if text.strip() else []


def _reasoning(part: ReasoningPart) -> list[Block]:
    if part.redacted is not None:
        return [{"type": "redacted_thinking", "data": part.redacted}]
    if part.signature:
        return [{"type": "thinking", "thinking": part.text, "signature": part.signature}]
    return []


def _file(part: FilePart) -> Block:
    if part.data is None:
        return {"type": "text", "text": path_text(part)}
    if part.media_type in _IMAGES:
        return {
            "type": "image",
            "source": {"type": "base64", "media_type": part.media_type, "data": part.data},
        }
    if part.media_type == "application/pdf":
        source = {"type": "base64", "media_type": part.media_type, "data": part.data}
        return {"type": "document", "source": source, "title": part.name}
    return {"type": "text", "text": file_text(part)}


def path_text(part: FilePart) -> str:
    """Return an attachment without contents, as the model reads it."""
    if part.media_type == OPEN_FILE:
        return f"[open in the user's editor: {part.name}]"
    return f"[attached by path: {part.name}]"


def file_text(part: FilePart) -> str:
    """Return an attachment as text for the model, or a note that it is none."""
    try:
        text = base64.b64decode(part.data or "", validate=True).decode("utf-8")
    except (binascii.Error, UnicodeDecodeError):
        return f"[attachment {part.name} of type {part.media_type}: not readable as text]"
    return f'<file name="{part.name}">\n{text}\n</file>'


def safe_input(part: ToolCallPart) -> dict[str, Any]:
    """Return the arguments as an object, as the API requires; other values stay visible as text."""
    try:
        return part.arguments()
    except ValueError:
        return {"_invalid_json": part.input}


def _result(part: ToolResultPart) -> Block:
    content: list[Block] = _text(part.content)
    content += [_file(image) for image in part.images]
    block: Block = {
        "type": "tool_result",
        "tool_use_id": _id(part.tool_call_id),
        "content": content or [{"type": "text", "text": NO_OUTPUT}],
    }
    if part.is_error:
        block["is_error"] = True
    return block


def _id(text: str) -> str:
    # Other providers' ids and invented tool names may contain characters that this API rejects.
    if text.isascii() and text.isidentifier() and len(text) <= 128:
        return text
    return re.sub(r"[^a-zA-Z0-9_-]", "_", text)[:128] or "_"


def _tool(tool: ToolSpec) -> Block:
    return {"name": tool.name, "description": tool.description, "input_schema": dict(tool.schema)}


def _system(blocks: Iterable[SystemBlock], free: int) -> list[Block]:
    kept = [block for block in blocks if block.text.strip()]
    out: list[Block] = [{"type": "text", "text": block.text} for block in kept]
    marked = [made for made, block in zip(out, kept, strict=True) if block.cache]
    # The last breakpoints cover the longest prefixes.
    for made in marked[-free:] if free > 0 else ():
        made["cache_control"] = _EPHEMERAL
    return out


def thinking_of(model: str) -> Thinking:
    """Return how ``model`` thinks (source: the models' pages and migration guides, November 2026)."""
    found = _MODEL.match(model)
    if found is None:
        return "none" if model.startswith("claude-3") and not model.startswith("claude-3-7") else "budget"
    family, version = found[1], (int(found[2]), int(found[3] or 0))
    if family in ("fable", "mythos"):
        return "always"
    if version < (4, 6):
        return "budget"
    if version < (5, 0):
        return "adaptive"
    if version >= (5, 5) and family != "haiku":
        return "between_tools" if family == "sonnet" else "always"
    return "adaptive_default"


def _sampling(request: ModelRequest, messages: list[Block]) -> dict[str, Any]:
    """Length, thinking, effort and temperature, as far as the model takes them."""
    how, budget = thinking_of(request.model), request.thinking_tokens
    args: dict[str, Any] = {"max_tokens": request.max_tokens}
    if how == "budget" and budget > 0 and _may_think(messages):
        budget = max(budget, MIN_THINKING)
        if request.max_tokens <= budget:
            args["max_tokens"] = budget + request.max_tokens
        return args | {"thinking": {"type": "enabled", "budget_tokens": budget}}
    if how == "always" or (budget > 0 and how not in ("none", "budget")):
        # "summarized", because newer models otherwise send empty thinking, and the user would see a silent model.
        args["thinking"] = {"type": "adaptive", "display": "summarized"}
        if budget > 0:
            args["output_config"] = {"effort": _effort(budget)}
        elif request.max_tokens <= _SHORT_ANSWER:
            # Thinking counts towards the limit: much of it would leave nothing for a short answer.
            args["output_config"] = {"effort": "low"}
        return args
    if how == "adaptive_default":
        args["thinking"] = {"type": "disabled"}
    elif how == "between_tools":
        args["thinking"] = {"type": "between_tools"}
    if request.temperature is not None and _takes_temperature(request.model):
        # Only the old version of the API accepts this parameter.
        args["temperature"] = request.temperature
    return args


def version_for(args: Mapping[str, Any]) -> str:
    """Return the version of the API that knows all of ``args``."""
    return _OLD_VERSION if "temperature" in args else VERSION


def _effort(budget: int) -> str:
    # These models have no budget, but an effort. "high" is the default of most of them.
    return "low" if budget < 4_000 else "medium" if budget < 10_000 else "high"


def _takes_temperature(model: str) -> bool:
    found = _MODEL.match(model)
    return found is None or (int(found[2]), int(found[3] or 0)) <= (4, 6)


def _may_think(messages: list[Block]) -> bool:
    """Return whether thinking may be enabled: with a budget, the message before tool results must begin with it."""
    last = next((message for message in reversed(messages) if message["role"] == "assistant"), None)
    if last is None or not any(block["type"] == "tool_use" for block in last["content"]):
        return True
    return last["content"][0]["type"] in _THINKING


def has_thinking(messages: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether any earlier thinking is sent along."""
    return any(block["type"] in _THINKING for message in messages for block in message["content"])
