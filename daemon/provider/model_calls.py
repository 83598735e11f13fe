"""The interface to models: ``stream(request) -> events``."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Literal, Protocol

from msgspec import Struct, field

from daemon.model.messages import TextPart
from tools.localization import t

if TYPE_CHECKING:
    from collections.abc import Iterable

    from daemon.model.messages import Part, StopReason, Usage

ErrorKind = Literal[
    "no_key", "auth", "rate_limit", "overloaded", "server", "network", "malformed", "overflow", "bad_request"
]

WORKSPACE = "GOALWRIGHT_WORKSPACE"
AGENT = "GOALWRIGHT_AGENT"
BRANCH = "GOALWRIGHT_BRANCH"
"""Variables in the environment of a request by which scripted models choose their part. The last one: id of the calling
branch or sub-agent, e.g. ``A`` or ``A.s1``; not set in a main session."""


class SystemBlock(Struct, frozen=True):
    """A layer of the system prompt. ``cache``: a cache breakpoint may be set behind it."""

    text: str
    cache: bool = False


class PromptMessage(Struct, frozen=True, weakref=True):
    """A message as the model will see it: only text, reasoning, file, tool_call and tool_result parts.

    Role ``tool`` carries tool results; a provider folds it into what its wire wants.
    """

    role: Literal["user", "assistant", "tool"]
    content: tuple[Part, ...]


class ToolSpec(Struct, frozen=True):
    """A tool as offered to the model; ``schema`` is a JSON schema of an object."""

    name: str
    description: str
    schema: Mapping[str, Any]


class ModelRequest(Struct, frozen=True):
    """One model call. ``model`` is without its provider prefix."""

    model: str
    system: tuple[SystemBlock, ...]
    messages: tuple[PromptMessage, ...]
    tools: tuple[ToolSpec, ...] = ()
    stays: int = 0
    """Messages at the start that stay unchanged when the goal at work ends: a place for a cache breakpoint."""
    tail: str = ""
    """Text that changes from call to call (the current plan): sent at the very end of the last user-side message,
    behind the last cache breakpoint, so that it never spoils the cached prefix."""
    max_tokens: int = 16_000
    window: int = 0
    """Context window of the model in tokens, for servers that load it with this size; 0 when unknown."""
    thinking_tokens: int = 0
    """Budget of extended thinking; 0 switches it off."""
    temperature: float | None = None
    position: tuple[int, int] | None = None
    """Number of earlier prompts, and of answers since the current one: for a scripted model, because the messages no
    longer show them when goals are compacted."""
    replaceable: bool = False
    """Whether another model stands ready: then an overloaded server is given up sooner."""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    """The caller's keys and base URLs (``ANTHROPIC_API_KEY`` …); never logged or stored."""

    def __repr__(self) -> str:
        shown = [f"{name}={getattr(self, name)!r}" for name in self.__struct_fields__ if name != "env"]
        return f"ModelRequest({', '.join(shown)})"


def beside(
    model: str,
    task: str,
    said: Iterable[tuple[Literal["user", "assistant"], str]],
    *,
    max_tokens: int,
    env: Mapping[str, str],
    temperature: float | None = None,
) -> ModelRequest:
    """Return the request for an answer beside any conversation, by a model without tools whose system prompt is
    ``task``."""
    messages = tuple(PromptMessage(role, (TextPart(text=text),)) for role, text in said)
    system = (SystemBlock(task),)
    return ModelRequest(model, system, messages, max_tokens=max_tokens, temperature=temperature, env=env)


class TextDelta(Struct, frozen=True):
    """More text of part ``index``."""

    index: int
    text: str


class ReasoningDelta(Struct, frozen=True):
    """More reasoning of part ``index``."""

    index: int
    text: str


class ToolCallStart(Struct, frozen=True):
    """A tool call begins at part ``index``."""

    index: int
    id: str
    name: str


class ToolCallDelta(Struct, frozen=True):
    """More of a tool call's JSON."""

    index: int
    id: str
    json: str


class PartStop(Struct, frozen=True):
    """Part ``index`` is complete: text, reasoning (with signature) or a tool call."""

    index: int
    part: Part


class Retry(Struct, frozen=True):
    """The call failed in a passing way and is made again after ``delay_s``; all parts so far are void."""

    attempt: int
    """The one that failed, from 1."""
    delay_s: float
    reason: str
    attempts: int = 0
    """How many there are at most; 0: not known."""


class Restart(Struct, frozen=True):
    """Another model makes the answer from the start; all parts so far are void."""

    reason: str


class Complete(Struct, frozen=True):
    """The end: all parts in order, the model's stop reason, and the cost."""

    parts: tuple[Part, ...]
    stop_reason: StopReason
    usage: Usage
    model: str
    detail: str = ""
    """For stops that need words, e.g. a refusal."""

    @property
    def text(self) -> str:
        """All text of the answer."""
        return "".join(part.text for part in self.parts if isinstance(part, TextPart))


ProviderEvent = (
    TextDelta | ReasoningDelta | ToolCallStart | ToolCallDelta | PartStop | Retry | Restart | Complete
)
ProviderEvents = AsyncGenerator[ProviderEvent, None]
"""Those of one call."""


class ProviderError(Exception):
    """The call failed. ``str(error)`` is for the user and says what to do about it.

    ``retryable`` errors may pass, and are tried again by ``daemon.provider.retry``; ``retry_after_s`` is the server's
    requested delay. ``window``: for ``overflow``, the context window in tokens, if the server reported it.
    """

    def __init__(
        self,
        kind: ErrorKind,
        message: str,
        *,
        retryable: bool = False,
        retry_after_s: float | None = None,
        window: int | None = None,
    ) -> None:
        super().__init__(message)
        self.kind: ErrorKind = kind
        self.retryable = retryable
        self.retry_after_s = retry_after_s
        self.window = window

    @property
    def overloaded(self) -> bool:
        """Whether the server has too much to do, or limits the rate: another model may answer now."""
        return self.retryable and self.kind in ("overloaded", "rate_limit")


async def answered(stream: ProviderEvents, retrying: Callable[[Retry], None] = lambda _: None) -> Complete:
    """Play a call of which only the whole answer counts. Raises ProviderError.

    The HTTP request ends with it, also when it is canceled.
    """
    async with aclosing(stream):
        async for event in stream:
            if isinstance(event, Retry):
                retrying(event)
            elif isinstance(event, Complete):
                return event
    raise ProviderError("malformed", t("The model's response ended before it was complete."))


class Provider(Protocol):
    """A family of models reached in one way."""

    def stream(self, request: ModelRequest) -> ProviderEvents:
        """Play one model call. Ends with exactly one Complete, or raises ProviderError.

        Closing the iterator (or cancelling the task that reads it) ends the HTTP request.
        """
        ...
