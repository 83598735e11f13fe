"""A model that plays a JSON file: for tests, and for the built-in demo.

The file::

    {"name": "shop", "note": "what it shows", "repeat_last_turn": false,
     "turns": [[STEP, STEP, ...], ...],
     "branches": {"A": [[STEP, ...]], "s1": [[STEP, ...]]}, "agents": {"explore": [[STEP, ...]]}}

``branches`` and ``agents`` have the turns of branches and sub-agents: first those of the branch or sub-agent with this
id are played, then those of this agent, then ``turns`` (by ``GOALWRIGHT_BRANCH`` and ``GOALWRIGHT_AGENT`` of
``ModelRequest.env``). A branch that neither names fails in a script that has such sections.

A *turn* belongs to one prompt of the user, a STEP to one model call. A STEP is one of

- an answer: ``{"reasoning"?, "text"?, "tool_calls"?, "stop_reason"?, "usage"?, "chunk"?, "delay_ms"?}``
  with calls ``{"name", "input": {...} or "raw text"}`` and usage ``{"input", "output", "cache_read",
  "cache_write"}``; streamed in pieces of ``chunk`` characters, ``delay_ms`` milliseconds before each;
- a failure: ``{"error": {"kind", "message", "retryable"?, "retry_after_s"?}}``, kinds of ``ProviderError``;
- a choice: ``{"choices": [{"when": {...}, "go": STEP}, ..., {"go": STEP}]}``; the first whose ``when``
  holds is played. ``when`` may hold ``last_result`` and ``prompt`` (regular expressions, searched in the
  last step's tool results and in the last prompt), ``note`` (the same in what Goalwright told the model since its
  last answer, e.g. ``<planning>``), ``is_error`` (whether one of these results is an
  error), ``exists`` and ``not_exists`` (paths in the workspace); all that are given must hold.

``${workspace}`` in any string is the workspace folder (``GOALWRIGHT_WORKSPACE`` of ``ModelRequest.env``).

The player keeps no state: the next step follows from the request (``ModelRequest.position``, else it is counted in its
messages), so it continues after a restart. When the script has no such step it fails; it never makes one up.
"""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from daemon.model.messages import (
    NotePart,
    Part,
    ReasoningPart,
    StopReason,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    Usage,
)
from daemon.provider.model_calls import (
    AGENT,
    BRANCH,
    WORKSPACE,
    Complete,
    ErrorKind,
    ModelRequest,
    PartStop,
    PromptMessage,
    ProviderError,
    ProviderEvent,
    ProviderEvents,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    ToolCallStart,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

_PLACEHOLDER = "${workspace}"


class _Node(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ScriptedCall(_Node):
    """A tool call. ``input`` as text is sent unchanged, to simulate a model that sends broken JSON."""

    name: str
    input: dict[str, Any] | str = Field(default_factory=dict[str, Any])


class ScriptedError(_Node):
    """A failing call."""

    kind: ErrorKind
    message: str
    retryable: bool = False
    retry_after_s: float | None = None


class When(_Node):
    """Conditions; all that are given must hold."""

    last_result: str | None = None
    prompt: str | None = None
    note: str | None = None
    is_error: bool | None = None
    exists: str | None = None
    not_exists: str | None = None

    @field_validator("last_result", "prompt", "note")
    @classmethod
    def _compiles(cls, pattern: str | None) -> str | None:
        try:
            re.compile(pattern or "")
        except re.error as error:
            raise ValueError(f"not a regular expression: {error}") from error
        return pattern

    @field_validator("exists", "not_exists")
    @classmethod
    def _inside(cls, path: str | None) -> str | None:
        if path is not None and (Path(path).is_absolute() or ".." in Path(path).parts):
            raise ValueError("must be a path inside the workspace, relative to it")
        return path

    def holds(self, results: Sequence[ToolResultPart], prompt: str, workspace: str, note: str = "") -> bool:
        """Return whether it holds after these tool results, for this prompt, with the notes since the last answer."""
        text = "\n".join(result.content for result in results)
        root = Path(workspace)
        return (
            (self.last_result is None or re.search(self.last_result, text) is not None)
            and (self.prompt is None or re.search(self.prompt, prompt) is not None)
            and (self.note is None or re.search(self.note, note) is not None)
            and (self.is_error is None or any(result.is_error for result in results) == self.is_error)
            and (self.exists is None or (root / self.exists).exists())
            and (self.not_exists is None or not (root / self.not_exists).exists())
        )


class ScriptedChoice(_Node):
    """One way to continue. Without ``when`` it is taken if no earlier one was."""

    when: When = When()
    go: ScriptedStep


class ScriptedStep(_Node):
    """The model's behaviour in one call; see the module's text."""

    reasoning: str = ""
    text: str = ""
    tool_calls: tuple[ScriptedCall, ...] = ()
    stop_reason: StopReason | None = None
    usage: Usage | None = None
    chunk: int = Field(default=40, ge=1)
    delay_ms: float = Field(default=0, ge=0)
    error: ScriptedError | None = None
    choices: tuple[ScriptedChoice, ...] = ()

    @model_validator(mode="after")
    def _one_kind(self) -> ScriptedStep:
        answers = bool(self.reasoning or self.text or self.tool_calls)
        if answers + bool(self.error) + bool(self.choices) != 1:
            raise ValueError("a step has either an answer (reasoning, text, tool_calls), an error or choices")
        return self


class Script(_Node):
    """A whole script."""

    name: str
    note: str = ""
    turns: tuple[tuple[ScriptedStep, ...], ...] = Field(min_length=1)
    repeat_last_turn: bool = False
    """Further prompts play the last turn again."""
    branches: dict[str, tuple[tuple[ScriptedStep, ...], ...]] = Field(
        default_factory=dict[str, tuple[tuple[ScriptedStep, ...], ...]]
    )
    agents: dict[str, tuple[tuple[ScriptedStep, ...], ...]] = Field(
        default_factory=dict[str, tuple[tuple[ScriptedStep, ...], ...]]
    )

    def turns_for(self, branch: str, agent: str) -> tuple[tuple[ScriptedStep, ...], ...]:
        """Return the turns for this branch or agent. Raises ProviderError for a branch that a script with branches does
        not have."""
        if branch in self.branches:
            return self.branches[branch]
        if agent in self.agents:
            return self.agents[agent]
        if branch and (self.branches or self.agents):
            raise _missing(f"the script {self.name} has nothing for {branch} (agent {agent})")
        return self.turns


ScriptedChoice.model_rebuild()


def load_script(path: Path) -> Script:
    """Read a script. Raises ProviderError with the problem and its place."""
    try:
        return Script.model_validate_json(path.read_bytes())
    except OSError as error:
        reason = error.strerror or str(error)
        raise ProviderError("bad_request", f"The script {path} cannot be read: {reason}") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(step) for step in first["loc"]) or "the file"
        raise ProviderError(
            "bad_request", f"The script {path} is wrong at {where}: {first['msg']}"
        ) from error


def position(messages: Iterable[PromptMessage]) -> tuple[int, int]:
    """Turn and step that the next call plays, both from 0."""
    turn, step = -1, 0
    for message in messages:
        if message.role == "user":
            turn, step = turn + 1, 0
        elif message.role == "assistant":
            step += 1
    return max(turn, 0), step


def next_step(
    script: Script,
    messages: Sequence[PromptMessage],
    workspace: str,
    at: tuple[int, int] | None = None,
    *,
    branch: str = "",
    agent: str = "",
) -> ScriptedStep:
    """Return the step to play, choices made and ``${workspace}`` filled in. Raises ProviderError without one.

    ``at``: turn and step, both from 0; by default according to the messages. ``branch``, ``agent``: of the caller.
    """
    turn, index = at or position(messages)
    turns = script.turns_for(branch, agent)
    known = turns[-1] if script.repeat_last_turn and turns else ()
    steps = turns[turn] if turn < len(turns) else known
    if index >= len(steps):
        raise _missing(f"the script {script.name} has no step {index + 1} for turn {turn + 1}")
    step = steps[index]
    while step.choices:
        chosen = _choose(step, messages, workspace)
        if chosen is None:
            raise _missing(f"no choice fits in the script {script.name}, turn {turn + 1}, step {index + 1}")
        step = chosen
    filled = step.model_dump_json()
    if _PLACEHOLDER in filled:
        if not workspace:
            raise _missing(f"a scripted model needs {WORKSPACE} in the environment of the request")
        # Forward slashes work on every system, and need no escaping in raw JSON text.
        filled = filled.replace(_PLACEHOLDER, json.dumps(workspace.replace("\\", "/"))[1:-1])
    return ScriptedStep.model_validate_json(filled)


def _choose(step: ScriptedStep, messages: Sequence[PromptMessage], workspace: str) -> ScriptedStep | None:
    results: list[ToolResultPart] = []
    notes: list[str] = []
    prompt = ""
    for message in messages:
        if message.role == "assistant":
            results.clear()
            notes.clear()
        elif message.role == "user":
            # A message may contain only notes; then the prompt before it is the last one.
            texts = [part.text for part in message.content if isinstance(part, TextPart)]
            prompt = "\n".join(texts) if texts else prompt
            notes += [part.text for part in message.content if isinstance(part, NotePart)]
        results += [part for part in message.content if isinstance(part, ToolResultPart)]
    note = "\n".join(notes)
    fitting = (choice.go for choice in step.choices if choice.when.holds(results, prompt, workspace, note))
    return next(fitting, None)


def _missing(text: str) -> ProviderError:
    return ProviderError("bad_request", text)


class ScriptedProvider:
    """Implements ``Provider`` by playing a script."""

    def __init__(self, path: Path, *, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep) -> None:
        """The file is read at the first call, and again when it changed. ``sleep`` takes seconds."""
        self._path = path
        self._sleep = sleep
        self._script: Script | None = None
        self._read_at = 0

    async def stream(self, request: ModelRequest) -> ProviderEvents:
        """Play one step; see ``Provider.stream``."""
        script = self._load()
        at = request.position or position(request.messages)
        env = request.env
        step = next_step(
            script,
            request.messages,
            env.get(WORKSPACE, ""),
            at,
            branch=env.get(BRANCH, ""),
            agent=env.get(AGENT, ""),
        )
        if step.error is not None:
            error = step.error
            raise ProviderError(
                error.kind, error.message, retryable=error.retryable, retry_after_s=error.retry_after_s
            )
        parts = _parts(step, at)
        for index, part in enumerate(parts):
            if isinstance(part, ToolCallPart):
                yield ToolCallStart(index, part.id, part.name)
            for piece in _pieces(part, step.chunk):
                if step.delay_ms:
                    await self._sleep(step.delay_ms / 1000)
                yield _delta(index, part, piece)
            yield PartStop(index, part)
        stop = step.stop_reason or ("tool_use" if step.tool_calls else "end_turn")
        yield Complete(parts, stop, step.usage or _estimate(request, parts), script.name)

    def _load(self) -> Script:
        try:
            changed = self._path.stat().st_mtime_ns
        except OSError:
            changed = 0  # load_script describes the error
        if self._script is None or changed != self._read_at:
            self._script, self._read_at = load_script(self._path), changed
        return self._script


def _parts(step: ScriptedStep, at: tuple[int, int]) -> tuple[Part, ...]:
    parts: list[Part] = []
    if step.reasoning:
        parts.append(ReasoningPart(text=step.reasoning))
    if step.text:
        parts.append(TextPart(text=step.text))
    for number, call in enumerate(step.tool_calls, 1):
        raw = call.input if isinstance(call.input, str) else json.dumps(call.input, ensure_ascii=False)
        # Unique in the session, and the same when the same request is repeated.
        parts.append(ToolCallPart(id=f"call_{at[0] + 1}_{at[1] + 1}_{number}", name=call.name, input=raw))
    return tuple(parts)


def _content(part: Part) -> str:
    match part:
        case TextPart() | ReasoningPart():
            return part.text
        case ToolCallPart():
            return part.input
        case ToolResultPart():
            return part.content
        case _:
            return ""


def _pieces(part: Part, size: int) -> list[str]:
    text = _content(part)
    return [text[start : start + size] for start in range(0, len(text), size)]


def _delta(index: int, part: Part, piece: str) -> ProviderEvent:
    if isinstance(part, ToolCallPart):
        return ToolCallDelta(index, part.id, piece)
    return ReasoningDelta(index, piece) if isinstance(part, ReasoningPart) else TextDelta(index, piece)


def _estimate(request: ModelRequest, parts: Iterable[Part]) -> Usage:
    """About four characters a token, so that the displays have something to show."""
    given = sum(len(block.text) for block in request.system) + len(request.tail)
    given += sum(len(tool.description) + len(json.dumps(dict(tool.schema))) for tool in request.tools)
    given += sum(len(_content(part)) for message in request.messages for part in message.content)
    return Usage(input=given // 4, output=max(1, sum(len(_content(part)) for part in parts) // 4))
