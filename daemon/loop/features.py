"""What a session is given by packages that it does not know: ``daemon.features`` puts it together."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from daemon.loop.doom import Repeat
from daemon.model.events import Event
from daemon.model.messages import FilePart, StopReason, ToolCallPart
from daemon.model.traces import PromptPlanner, QueuedPrompt
from daemon.permission.service import CallPermission
from daemon.plan.changes import Change
from tools.base import Permission, ToolResult
from tools.exploring import Explorer, HandOver, Subagents

if TYPE_CHECKING:
    from daemon.loop.live import LiveSession
    from daemon.loop.session import Session
    from daemon.loop.turn import Turn


@dataclass(frozen=True, slots=True)
class Said:
    """What all hooks for one moment came to. ``refusal``: why not, in words; empty when nobody objects."""

    refusal: str = ""
    by: str = ""
    context: str = ""
    """For the model, in tags; empty for nothing."""
    changes: tuple[dict[str, Any], ...] = ()
    """Of arguments: ``by`` whom, what was ``set`` and what was ``removed``."""


class SessionHooks(Protocol):
    """Who is told of what happens in one session, and asked at some moments."""

    begun: bool
    """The session is at work; see ``begin``."""
    under_check: tuple[QueuedPrompt, ...]
    """Prompts that wait for what hooks say of them."""

    def wants(self, name: Literal["prompt.submit"]) -> bool:
        """Whether there are hooks for this moment, as far as is known."""
        ...

    def around(self, tool: str) -> bool:
        """Whether there are hooks around calls of this tool."""
        ...

    async def begin(self) -> None:
        """The session begins to work, for the first time in this daemon."""
        ...

    def seen(self, event: Event) -> None:
        """Something happened in the session."""
        ...

    async def submitted(self, prompt: QueuedPrompt, attachments: tuple[FilePart, ...] = ()) -> Said:
        """The person has sent a prompt: may it be worked on, and what is there to add?"""
        ...

    def passing(
        self, prompts: Sequence[tuple[QueuedPrompt, tuple[FilePart, ...]]]
    ) -> AsyncGenerator[tuple[QueuedPrompt, tuple[FilePart, ...], str]]:
        """Of prompts for the running turn those that no hook refuses, with what there is to add."""
        ...

    async def prompting(self) -> str:
        """Return what hooks add to the system prompt, in tags; empty for nothing."""
        ...

    async def compacting(self, reason: str, tokens: int, instructions: str) -> str:
        """What is to be said to the model that sums up, in tags; empty for nothing."""
        ...

    async def run_tool(
        self, call: ToolCallPart, run: Callable[[ToolCallPart], Awaitable[ToolResult]]
    ) -> ToolResult:
        """``run`` the call, or as the hooks change it, or not at all. Passes on what ``run`` raises."""
        ...

    async def close(self) -> None:
        """Tell of the session's end, and end what still runs after a moment."""
        ...


class Driver(Protocol):
    """Takes one turn through a plan, or only waits for the person's wish for one."""

    def anew(self) -> Driver:
        """Return the driver of the same turn for the agent that the session has now."""
        ...

    async def run(self) -> tuple[StopReason, str]:
        """The turn, from its prompt. Raises as the loop does."""
        ...

    async def resume(self) -> tuple[StopReason, str]:
        """The turn goes on after the daemon was stopped in it, with the step that was under way."""
        ...

    def circling(self, tool: str, repeat: Repeat) -> bool:
        """Whether this call, which goes round in a circle, is not to run, because a new plan comes first."""
        ...

    def step_ended(self, goal_id: str, result: ToolResult) -> None:
        """Complete the goal of a step with what its sub-agent answered, or note how that failed."""
        ...

    def record(self, change: Change) -> None:
        """Record what the model does to the plan."""
        ...


@dataclass(frozen=True, slots=True)
class Features:
    """What other packages do for a session, put together in ``daemon.features``: the loop knows none of them."""

    hooks: Callable[[Session], SessionHooks]
    driver: Callable[[Turn, Session, PromptPlanner | None], Driver]
    """For a turn. ``None``: as the settings plan it."""
    explorer: Callable[[Session, str, Permission], Explorer]
    """For a call, by its id."""
    subagents: Callable[[Session, str], Subagents]
    """For a call, by its id."""
    hand_over: Callable[[Session, CallPermission], HandOver]
    awaits_choice: Callable[[LiveSession], bool]
    """Whether the person is to choose a branch now."""
    files_restored: Callable[[LiveSession], None]
    """Called when changes of files were taken back, or made again. Raises StoreError."""
