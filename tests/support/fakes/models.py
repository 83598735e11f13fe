"""Models that play what a test tells them to, step by step, and refuse to make anything up."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from daemon.model.messages import Part, ReasoningPart, StopReason, TextPart, ToolCallPart, Usage
from daemon.provider.model_calls import (
    Complete,
    ErrorKind,
    ModelRequest,
    PartStop,
    ProviderError,
    ProviderEvent,
    ReasoningDelta,
    Retry,
    TextDelta,
    ToolCallDelta,
    ToolCallStart,
)
from daemon.provider.pricing import model_info

USAGE = Usage(input=100, output=10, cache_read=1000, cache_write=50)
"""Usage of every step unless it names another."""


class ScriptExhaustedError(AssertionError):
    """The session made more model calls than the test planned."""


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call; ``input`` as text is sent as it is. Ids count up unless one is given."""

    name: str
    input: dict[str, Any] | str = field(default_factory=dict[str, Any])
    id: str = ""


@dataclass(frozen=True, slots=True)
class Think:
    """A reasoning part."""

    text: str
    signature: str = "sig"


@dataclass(frozen=True, slots=True)
class Fail:
    """The call fails here."""

    kind: ErrorKind = "server"
    message: str = "The model failed. Try again."


@dataclass(frozen=True, slots=True)
class End:
    """How the step ends, where "stop" or "tool_use" will not do. ``silent``: the stream just stops."""

    stop: StopReason = "end_turn"
    detail: str = ""
    usage: Usage = USAGE
    silent: bool = False


@dataclass(eq=False, slots=True)
class Hold:
    """The stream waits here until ``go`` is set; ``reached`` tells that it does."""

    reached: asyncio.Event = field(default_factory=asyncio.Event)
    go: asyncio.Event = field(default_factory=asyncio.Event)


Item = str | Call | Think | Fail | End | Hold | ProviderEvent
"""Text and calls become their start, deltas and stop; events of a provider are passed on as they are."""
Step = Item | Iterable[Item]


class FakeModels:
    """Implements ``daemon.loop.services.Models``. One step is one model call."""

    def __init__(self, *steps: Step, price: float | None = 0.01) -> None:
        self._steps = [_items(step) for step in steps]
        self._calls = 0
        self._price = price
        self.requests: list[ModelRequest] = []
        """Every call made, in order."""
        self.models: list[str] = []
        self.open = 0
        """Streams under way: a canceled step must close its own."""
        self.exhausted = False

    def then(self, *steps: Step) -> None:
        """More steps behind those that are left."""
        self._steps += [_items(step) for step in steps]

    @property
    def left(self) -> int:
        """Steps not played yet."""
        return len(self._steps)

    def cost(self, model: str, usage: Usage) -> float | None:
        return self._price

    def window(self, model: str, env: Mapping[str, str], configured: int | None = None) -> int:
        """Return the configured or listed window; this fake learns none from servers."""
        return configured or model_info(model).context_window

    def window_is_assumed(self, model: str, env: Mapping[str, str], configured: int | None = None) -> bool:
        """Return whether the table lacks the model."""
        return configured is None and model_info(model).window_assumed

    def problem(self, model: str, env: Mapping[str, str]) -> str:
        """Return that everything can be called."""
        return ""

    def ask_window(self, model: str, env: Mapping[str, str]) -> None:
        """Do nothing, because there is no server."""

    async def stream(self, model: str, request: ModelRequest) -> AsyncGenerator[ProviderEvent, None]:
        """Play the next step. Raises ScriptExhaustedError when none is left."""
        self.requests.append(request)
        self.models.append(model)
        if not self._steps:
            self.exhausted = True
            raise ScriptExhaustedError("the session called the model once more than the test says")
        self.open += 1
        try:
            async for event in self._play(self._steps.pop(0)):
                yield event
        finally:
            self.open -= 1

    async def _play(self, items: list[Item]) -> AsyncGenerator[ProviderEvent, None]:
        parts: list[Part] = []
        end = End()
        for item in items:
            match item:
                case Hold():
                    item.reached.set()
                    await item.go.wait()
                case Fail():
                    raise ProviderError(item.kind, item.message)
                case End():
                    end = item
                case str() | Call() | Think():
                    part = self._part(item)
                    for event in _growing(len(parts), part):
                        yield event
                    parts.append(part)
                case Complete():
                    yield item
                    return
                case Retry():
                    parts.clear()
                    yield item
                case PartStop():
                    parts.append(item.part)
                    yield item
                case _:
                    yield item
            # Real streams come over a network: whoever listens gets a turn in between.
            await asyncio.sleep(0)
        if end.silent:
            return
        stop = end.stop
        if stop == "end_turn" and any(isinstance(part, ToolCallPart) for part in parts):
            stop = "tool_use"
        yield Complete(tuple(parts), stop, end.usage, "fake", end.detail)

    def _part(self, item: str | Call | Think) -> Part:
        if isinstance(item, str):
            return TextPart(text=item)
        if isinstance(item, Think):
            return ReasoningPart(text=item.text, signature=item.signature)
        self._calls += 1
        raw = item.input if isinstance(item.input, str) else json.dumps(item.input)
        return ToolCallPart(id=item.id or f"call_{self._calls}", name=item.name, input=raw)


def _items(step: Step) -> list[Item]:
    return list(step) if isinstance(step, list | tuple) else [step]  # type: ignore[list-item]  # one item


def _growing(index: int, part: Part) -> Iterable[ProviderEvent]:
    if isinstance(part, ToolCallPart):
        yield ToolCallStart(index, part.id, part.name)
        for piece in _halves(part.input):
            yield ToolCallDelta(index, part.id, piece)
    elif isinstance(part, ReasoningPart | TextPart):
        for piece in _halves(part.text):
            yield ReasoningDelta(index, piece) if isinstance(part, ReasoningPart) else TextDelta(index, piece)
    yield PartStop(index, part)


def _halves(text: str) -> list[str]:
    middle = len(text) // 2
    return [piece for piece in (text[:middle], text[middle:]) if piece]
