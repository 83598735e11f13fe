"""The prompts of a session that wait for its turn, and those who wait for their results."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from daemon.config import Config
    from daemon.loop.policy import ClientSettings
    from daemon.model.messages import StopReason
    from daemon.model.traces import QueuedPrompt


class TurnResult(Struct, frozen=True):
    """How the turn that worked on a prompt ended; ``removed``: it was taken from the queue instead."""

    prompt_id: str
    stop: StopReason
    detail: str = ""
    removed: bool = False


class PendingPrompt(Struct):
    """A prompt and the future that its sender awaits."""

    prompt: QueuedPrompt
    result: asyncio.Future[TurnResult]
    restored: bool = False
    """Restored after a crash: nothing waits for the result."""
    follows: bool = False
    """Left by a crash, and not held by the user before it: it follows the user's next prompt."""
    edited: bool = False
    """The user is editing it, so it is not sent meanwhile."""
    client: ClientSettings | None = None
    """Settings that hold from the beginning of its turn; None: those in force."""

    @property
    def ready(self) -> bool:
        """Whether a turn may take it."""
        return not self.edited and not self.prompt.held and not self.follows

    def hold(self, held: bool) -> None:
        """Let it wait for the user's word, or no longer."""
        self.follows = False
        self.prompt = self.prompt.model_copy(update={"held": held, "steer": self.prompt.steer and not held})

    def settle(self, stop: StopReason, detail: str = "", *, removed: bool = False) -> None:
        """Tell the sender, once."""
        if not self.result.done():
            self.result.set_result(TurnResult(self.prompt.prompt_id, stop, detail, removed))


class PromptQueue:
    """In order. Storing that it changed is its owner's part."""

    def __init__(self) -> None:
        self._waiting: list[PendingPrompt] = []
        self._steered: list[PendingPrompt] = []

    def __bool__(self) -> bool:
        """Return whether there is one to take."""
        return any(waiting.ready for waiting in self._waiting)

    def prompts(self) -> tuple[QueuedPrompt, ...]:
        """Return the waiting prompts, in order."""
        return tuple(waiting.prompt for waiting in self._waiting)

    def add(
        self, prompt: QueuedPrompt, client: ClientSettings | None = None, *, first: bool = False
    ) -> PendingPrompt:
        """Add a prompt at the end, or before all others."""
        waiting = PendingPrompt(prompt, asyncio.get_running_loop().create_future(), client=client)
        self._waiting.insert(0 if first else len(self._waiting), waiting)
        return waiting

    def take(self) -> PendingPrompt:
        """Remove and return the next prompt that is ready. Raises StopIteration when there is none."""
        waiting = next(waiting for waiting in self._waiting if waiting.ready)
        self._waiting.remove(waiting)
        return waiting

    def drop(self, waiting: PendingPrompt) -> None:
        """As if it had never been added."""
        self._waiting.remove(waiting)

    def edit(self, prompt_id: str, text: str | None) -> bool:
        """Change a prompt, or remove it with None. False when it does not wait (any more)."""
        waiting = self._find(prompt_id)
        if waiting is None:
            return False
        if text is None:
            self._waiting.remove(waiting)
            waiting.settle("canceled", removed=True)
        else:
            waiting.prompt = waiting.prompt.model_copy(update={"text": text})
            waiting.edited = False
        return True

    def being_edited(self, prompt_id: str, edited: bool) -> bool:
        """Hold a prompt back while it is edited, or no longer. False when it does not wait (any more)."""
        waiting = self._find(prompt_id)
        if waiting is None:
            return False
        waiting.edited = edited
        return True

    def _find(self, prompt_id: str) -> PendingPrompt | None:
        return next((waiting for waiting in self._waiting if waiting.prompt.prompt_id == prompt_id), None)

    def hold(self, held: bool, client: ClientSettings | None = None) -> bool:
        """Hold all waiting prompts until the user releases them, or release them. False when that changes nothing.

        ``client``: settings of the client that releases them.
        """
        others = [waiting for waiting in self._waiting if waiting.follows or waiting.prompt.held != held]
        for waiting in others:
            waiting.hold(held)
            waiting.client = client or waiting.client
        return bool(others)

    def restrict(self, config: Config) -> None:
        """Have the waiting prompts work as in a folder that is not trusted, with these settings."""
        for waiting in self._waiting:
            if waiting.client is not None:
                waiting.client = replace(waiting.client, trust="restricted", config=config)

    def steer(self) -> list[QueuedPrompt]:
        """Remove and return the prompts to send between two steps; ends with the running turn, see
        ``settle_steered``."""
        steered = [waiting for waiting in self._waiting if waiting.prompt.steer and waiting.ready]
        self._waiting = [waiting for waiting in self._waiting if waiting not in steered]
        self._steered += steered
        return [waiting.prompt for waiting in steered]

    def take_back(self, prompts: Sequence[QueuedPrompt]) -> None:
        """Return those of these prompts to the queue that ``steer`` removed: they will not be sent with this turn."""
        back = [waiting for waiting in self._steered if waiting.prompt in prompts]
        self._steered = [waiting for waiting in self._steered if waiting not in back]
        self._waiting = back + self._waiting

    def refuse_steered(self, prompt_id: str, reason: str) -> None:
        """Report that one of the removed prompts will not be sent."""
        for waiting in self._steered:
            if waiting.prompt.prompt_id == prompt_id:
                waiting.settle("permission_denied", reason)

    def settle_steered(self, stop: StopReason, detail: str) -> None:
        """The turn that took them has ended."""
        for waiting in self._steered:
            waiting.settle(stop, detail)
        self._steered.clear()

    def restore(self, prompts: Sequence[QueuedPrompt]) -> None:
        """After a crash: what waited still waits, for the user's word or next prompt."""
        loop = asyncio.get_running_loop()
        self._waiting = [
            PendingPrompt(
                prompt.model_copy(update={"steer": False}),
                loop.create_future(),
                restored=True,
                follows=not prompt.held,
            )
            for prompt in prompts
        ]

    def follow(self) -> None:
        """Send prompts that a crash left, except those that the user had held, after the user's new prompt."""
        for waiting in self._waiting:
            waiting.follows = False

    def clear(self, detail: str, *, held: bool = True) -> None:
        """Tell all senders that nothing will come; what a crash left stays for the next start.

        ``held``: whether prompts that the user holds are dropped, too.
        """
        for waiting in self._waiting:
            if not waiting.restored:
                waiting.settle("canceled", detail)
        self._waiting = [one for one in self._waiting if one.restored or (one.prompt.held and not held)]


class ReplanRequest(Struct, frozen=True):
    """A user's request for another plan while a turn runs, handled between two steps.

    ``result`` is set when the plan was made, or the turn ended without one.
    """

    instructions: str
    result: asyncio.Future[TurnResult]

    def settle(self, prompt_id: str, stop: StopReason, detail: str = "") -> None:
        """Give the result to those who wait, once."""
        if not self.result.done():
            self.result.set_result(TurnResult(prompt_id, stop, detail))
