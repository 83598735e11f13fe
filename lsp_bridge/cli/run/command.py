"""``goalwright run``: one prompt from a terminal or script.

The prompt goes to the daemon as soon as can be; what shows the turn is imported meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lsp_bridge.cli.run.conversation import Conversation, RunOptions

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from lsp_bridge.cli.console import Console
    from lsp_bridge.cli.invocation import Invocation
    from lsp_bridge.cli.launch import Launcher

_SHOWS = (
    "lsp_bridge.protocol.permission_text",
    "lsp_bridge.cli.run.branch_lines",
    "lsp_bridge.cli.run.goal_lines",
    "lsp_bridge.cli.run.view",
    "lsp_bridge.cli.run.hunk_prompt",
    "lsp_bridge.cli.run.approval",
    "lsp_bridge.cli.run.other_turns",
    "lsp_bridge.cli.run.totals",
    "lsp_bridge.cli.run.waiting_indicator",
    "lsp_bridge.cli.run.turn",
)
"""Shows the turn, and takes as long to import as the daemon takes to open a session: each part a few milliseconds."""
_ROUNDS = 6
"""Rounds of the event loop from an answer that has come to the next request on its way."""


async def run_command(cli: Invocation, *, files: Sequence[str], **given: Any) -> int:
    """Run ``goalwright run``: ``given`` are fields of RunOptions, and the limits of an unattended run."""
    limits = {f"unattended_{name}": given.pop(f"max_{name}") for name in ("steps", "usd", "minutes")}
    options = RunOptions(
        workspace=cli.workspace,
        session=cli.session,
        json=cli.json,
        limits={name: value for name, value in limits.items() if value is not None},
        files=tuple(str(Path(os.path.expanduser(file)).absolute()) for file in files),  # noqa: PTH111 - ~x may be a file
        **given,
    )
    return await run(options, cli.launcher, cli.console)


async def run(options: RunOptions, launcher: Launcher, console: Console) -> int:
    """Run the task, show it, and return the exit code.

    0 the turn ended normally, 1 error or cut off, 3 a rejected question ended it (a call that a rule denies ends
    nothing), 4 nothing was done, 5 a limit was reached, 130 canceled. The first Ctrl-C cancels the turn and waits for
    its end, the second leaves at once.
    """
    conversation = Conversation(options, console.warn, unattended=options.yes or console.tty is None)
    opening = asyncio.create_task(conversation.begin(launcher))
    early: list[str] = []
    turn: TerminalTurn | None = None

    def signalled(method: str) -> None:
        if turn is None:
            early.append(method)
        else:
            getattr(turn, method)()

    async with _signals(console, partial(signalled, "interrupt"), partial(signalled, "terminate")):
        for module in _SHOWS:
            for _ in range(_ROUNDS):
                await asyncio.sleep(0)
            import_module(module)
        from lsp_bridge.cli.run.turn import TerminalTurn

        turn = TerminalTurn(conversation, opening, console)
        for method in early:
            signalled(method)
        await turn.play()
    return turn.finish()


@contextlib.asynccontextmanager
async def _signals(
    console: Console, interrupt: Callable[[], None], terminate: Callable[[], None]
) -> AsyncGenerator[None]:
    loop = asyncio.get_running_loop()
    handlers = {signal.SIGINT: interrupt, signal.SIGTERM: terminate}
    previous = {number: signal.getsignal(number) for number in handlers}
    for number, handler in handlers.items():
        try:
            loop.add_signal_handler(number, handler)
            signal.signal(number, console.let_go)  # at once; the loop's handler waits until a write has ended
        except NotImplementedError:  # Windows
            signal.signal(number, partial(_in_loop, loop, handler))
    try:
        yield
    finally:
        for number, handler in previous.items():
            with contextlib.suppress(NotImplementedError):
                loop.remove_signal_handler(number)
            signal.signal(number, handler)


def _in_loop(loop: asyncio.AbstractEventLoop, handler: Callable[[], None], *_: object) -> None:
    loop.call_soon_threadsafe(handler)
