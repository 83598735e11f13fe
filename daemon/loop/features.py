"""Interfaces of features that the session loop uses but does not import; ``daemon.features`` connects them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

    from daemon.loop.loop_detection import Repeat
    from daemon.loop.step import StepOutcome
    from daemon.model.events import Event
    from daemon.model.messages import FilePart, StopReason, ToolCallPart
    from daemon.model.traces import QueuedPrompt
    from daemon.plan.changes import Change
    from tools.tool import ToolResult


class HookResult(Struct, frozen=True):
    """The combined answer of all hooks for one moment. ``refusal``: the reason, empty when no hook refuses."""

    refusal: str = ""
    by: str = ""
    context: str = ""
    """For the model, in tags; empty for nothing."""
    changes: tuple[dict[str, Any], ...] = ()
    """Changes of the call's arguments: ``by`` which hook, and the values ``set`` and ``removed``."""


class SessionHooks(Protocol):
    """The hooks of one session."""

    begun: bool
    """Whether ``begin`` was called."""
    under_check: tuple[QueuedPrompt, ...]
    """Prompts that hooks are checking."""

    def wants(
        self, name: Literal["prompt.submit", "prompt.system", "tool.execute.before", "tool.execute.after"]
    ) -> bool:
        """Return whether there are hooks for this moment, as far as is known before they are loaded."""
        ...

    def around(self, tool: str) -> bool:
        """Return whether there are hooks around calls of this tool."""
        ...

    async def begin(self) -> None:
        """Called before the first turn of the session in this daemon."""
        ...

    def seen(self, event: Event) -> None:
        """Called with each event of the session."""
        ...

    async def submitted(self, prompt: QueuedPrompt) -> HookResult:
        """Ask the hooks whether the user's prompt may run, and what context to add."""
        ...

    def passing(self, prompts: Sequence[QueuedPrompt]) -> AsyncGenerator[tuple[QueuedPrompt, str]]:
        """Yield the steered prompts that no hook refuses, each with the context to add."""
        ...

    async def prompting(self) -> str:
        """Return what hooks add to the system prompt, in tags; empty for nothing."""
        ...

    async def compacting(self, reason: str, tokens: int, instructions: str) -> str:
        """Return what hooks add to the compaction prompt, in tags; empty for nothing."""
        ...

    async def run_tool(
        self, call: ToolCallPart, run: Callable[[ToolCallPart], Awaitable[ToolResult]]
    ) -> ToolResult:
        """``run`` the call, or as the hooks change it, or not at all. Passes on what ``run`` raises."""
        ...

    async def close(self) -> None:
        """Tell the hooks that the session ends, and stop those that still run after a moment."""
        ...


class TurnRuns(Protocol):
    """A turn, as the session and the driver have it run."""

    error_kind: str
    """The kind of ``ProviderError`` that ended the last step; empty: none."""

    def begin(self, text: str, attachments: Sequence[FilePart], context: str = "") -> None:
        """Store the prompt. ``context``: text of hooks for the model. Raises StoreError."""
        ...

    async def run(self) -> tuple[StopReason, str]:
        """Work on the prompt. Raises CancelledError after everything received so far is stored."""
        ...

    async def resume(self) -> tuple[StopReason, str]:
        """Go on where the daemon stopped while it waited for an answer. Raises as ``run``."""
        ...

    async def steps(self, pause: Callable[[], bool]) -> tuple[StopReason, str]:
        """Run the plain loop, until the model stops, or ``pause`` is true between two steps (then ``tool_use``)."""
        ...

    async def between(self) -> str:
        """Do the work before each step. Returns why the turn must end, or an empty text."""
        ...

    async def ask(self) -> StepOutcome:
        """Call the model once; tool calls in its answer are rejected."""
        ...

    async def start(self, calls: Sequence[ToolCallPart]) -> StepOutcome:
        """Run calls that the model did not make, as a separate message."""
        ...

    def tell(self, text: str) -> None:
        """A note to the model, as a user message."""
        ...


class Driver(Protocol):
    """Runs one turn by the planner's mode."""

    def for_current_agent(self) -> Driver:
        """Return the driver of the same turn for the agent that the session has now."""
        ...

    async def run(self) -> tuple[StopReason, str]:
        """Run the turn from its prompt. Raises what the loop raises."""
        ...

    async def resume(self) -> tuple[StopReason, str]:
        """Continue a turn in which the daemon stopped, with the step that was running."""
        ...

    def circling(self, tool: str, repeat: Repeat) -> bool:
        """Return whether this repeated call must not run because a new plan is made first."""
        ...

    def step_ended(self, goal_id: str, result: ToolResult) -> None:
        """Complete the goal of a step with its sub-agent's answer, or record the failure."""
        ...

    def record(self, change: Change) -> None:
        """Record a change that the model made to the plan."""
        ...
