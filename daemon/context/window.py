"""From stored messages to what the model is sent: pure, nothing stored is changed.

Guaranteed for any history, also one that a crash cut off: every tool call is followed by exactly its results,
results without a call are left out, and no message is empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from daemon.model.messages import FinishPart, Message, Part, TextPart, ToolCallPart, ToolResultPart
from daemon.provider.base import PromptMessage

PRUNE_MINIMUM = 20_000
PRUNE_PROTECT = 40_000
"""Tokens (source: seed 000, OpenCode's numbers)."""
PROTECTED_TURNS = 2
CLEARED = "[Old tool result content cleared]"
INTERRUPTED = "The tool was interrupted before it answered."


def estimate_tokens(text: str) -> int:
    """A rough count without any network: four characters a token, one for each wide character."""
    wide = sum(1 for char in text if char >= "\u2e80") if not text.isascii() else 0
    return wide + (len(text) - wide + 3) // 4


@dataclass(frozen=True, slots=True)
class Window:
    """What would be sent, and how many tokens of old tool results were left out of it."""

    messages: tuple[PromptMessage, ...]
    pruned_tokens: int = 0


def build_window(messages: Sequence[Message], *, prune: bool = False) -> Window:
    """The history as the provider needs it. ``prune``: clear old tool results (after an overflow)."""
    cleared, tokens = _prunable(messages) if prune else (frozenset[int](), 0)
    results = _results_by_message(messages, cleared)
    window: list[PromptMessage] = []
    for position, message in enumerate(messages):
        if message.role == "tool":
            continue
        content = tuple(part for part in message.content if _is_sent(part))
        if not content:
            continue
        window.append(PromptMessage(message.role, content))
        calls = [part for part in content if isinstance(part, ToolCallPart)]
        if message.role == "assistant" and calls:
            answers = tuple(results[position].get(call.id) or _interrupted(call) for call in calls)
            window.append(PromptMessage("tool", answers))
    return Window(tuple(window), tokens)


def _results_by_message(
    messages: Sequence[Message], cleared: frozenset[int]
) -> dict[int, dict[str, ToolResultPart]]:
    """Results by call id, for each assistant message by its position.

    A result belongs to the last message before it that made the call: some servers number their calls anew
    in each answer, so an id alone does not say which call is meant.
    """
    found: dict[int, dict[str, ToolResultPart]] = {}
    caller: dict[str, int] = {}
    for position, message in enumerate(messages):
        if message.role == "assistant":
            found[position] = {}
            caller.update((call.id, position) for call in message.tool_calls())
        elif message.role == "tool" and (result := message.tool_result()) is not None:
            if position in cleared:
                result = result.model_copy(update={"content": CLEARED, "images": ()})
            if result.tool_call_id in caller:
                found[caller[result.tool_call_id]].setdefault(result.tool_call_id, result)
    return found


def _interrupted(call: ToolCallPart) -> ToolResultPart:
    return ToolResultPart(tool_call_id=call.id, name=call.name, content=INTERRUPTED, is_error=True)


def _is_sent(part: Part) -> bool:
    if isinstance(part, TextPart):
        return bool(part.text.strip())
    return not isinstance(part, FinishPart)


def _prunable(messages: Sequence[Message]) -> tuple[frozenset[int], int]:
    """Positions of tool results to clear and their tokens, from the end (source: seed 000, "阶段 1: Prune").

    The last turns stay whole, then the newest PRUNE_PROTECT tokens; nothing is done for less than PRUNE_MINIMUM.
    """
    turns = 0
    kept = 0
    freed = 0
    cleared: set[int] = set()
    for position in range(len(messages) - 1, -1, -1):
        message = messages[position]
        if message.role == "user":
            turns += 1
        result = message.tool_result()
        if turns < PROTECTED_TURNS or result is None:
            continue
        tokens = estimate_tokens(result.content)
        kept += tokens
        if kept > PRUNE_PROTECT:
            cleared.add(position)
            freed += tokens
    if freed < PRUNE_MINIMUM:
        return frozenset(), 0
    return frozenset(cleared), freed
