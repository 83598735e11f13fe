"""The common part of a request of all variants: system prompt, tools, model, and the wire form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from daemon.agents.loader import load_agent
from daemon.context.prompt import Environment, prompt_layers, system_blocks
from daemon.model.messages import FinishPart, Message, ToolResultPart
from daemon.provider import anthropic_wire
from daemon.provider.model_calls import ModelRequest, PromptMessage, SystemBlock, ToolSpec
from tools.registry import builtin_tools

MODEL = "anthropic/claude-sonnet-5"
"""Its list price has the ratios that the issue names: cache write 1.25 ×, read 0.1 ×, output 5 × the input."""
MAX_TOKENS = 16_000
SUMMARY_TOKENS = 4_000
_WORKSPACE = Path("/work/workbench")
_DATE = date(2026, 11, 2)


@dataclass(frozen=True, slots=True)
class Frame:
    """The parts of a request that stay the same."""

    system: tuple[SystemBlock, ...]
    tools: tuple[ToolSpec, ...]

    def request(
        self,
        messages: Sequence[PromptMessage],
        *,
        stays: int = 0,
        tail: str = "",
        system_plan: str = "",
        max_tokens: int = MAX_TOKENS,
    ) -> ModelRequest:
        """A request with these messages; the plan stands in ``tail`` or at the end of the system prompt."""
        plan = (SystemBlock(system_plan),) if system_plan else ()
        return ModelRequest(
            model=MODEL.partition("/")[2],
            system=(*self.system, *plan),
            messages=tuple(messages),
            stays=stays,
            tools=self.tools,
            tail=tail,
            max_tokens=max_tokens,
        )


def frame() -> Frame:
    """The product's own prompt for the agent ``build``, and all tools that it has at once."""
    environment = Environment(_WORKSPACE, True, _DATE)
    layers = prompt_layers(load_agent("build").prompt, MODEL, environment, _WORKSPACE / "nobody")
    tools = tuple(
        ToolSpec(t.name, t.description, t.schema()) for t in builtin_tools().values() if t.name != "step"
    )
    return Frame(tuple(system_blocks(layers)), tools)


def wire(request: ModelRequest) -> dict[str, Any]:
    """The body as it is sent. Any: its shape is the API's."""
    return anthropic_wire.build(request)


def plain(
    messages: Sequence[Message], cleared: frozenset[int] = frozenset(), text: str = ""
) -> list[PromptMessage]:
    """All messages as they are; results of the tool messages with a sequence in ``cleared`` read ``text``."""
    found: list[PromptMessage] = []
    for message in messages:
        content = tuple(part for part in message.content if not isinstance(part, FinishPart))
        if message.sequence in cleared:
            content = tuple(
                part.model_copy(update={"content": text}) if isinstance(part, ToolResultPart) else part
                for part in content
            )
        if message.role == "tool" and found and found[-1].role == "tool":
            found[-1] = PromptMessage("tool", (*found[-1].content, *content))
        else:
            found.append(PromptMessage(message.role, content))
    return found
