"""What a client can ask of the planner."""

from __future__ import annotations

import asyncio

from daemon.loop.queue import TurnResult, Wish
from daemon.loop.session import Sealed, Session
from tools.localization import t

REPLAN = "Make a new plan for what is left."


async def replan(session: Session, instructions: str = "") -> TurnResult:
    """Plan again from here at the person's wish; ``instructions`` are what they want of the plan, in any mode.

    At rest a turn of its own asks for the plan and ends. While a turn runs the plan is made between two steps of it,
    and the work goes on by it; a later wish replaces one that still waits. Returns when the plan was made: ``detail``
    says it, or why there is none. Cancelling the caller withdraws a wish that still waits; a turn that was begun for
    it goes on, as turns do. Raises Sealed for the record of a child.
    """
    if session.sealed:
        raise Sealed(session.sealed)
    instructions = instructions.strip()
    if session.wish is not None:
        session.wish.settle(
            session.state.turn or "", "canceled", t("A later wish for a plan took its place.")
        )
    at_rest = not session.running
    wish = session.wish = Wish("" if at_rest else instructions, asyncio.get_running_loop().create_future())
    if at_rest:
        await session.prompt(f"{REPLAN} {instructions}".strip(), planner="replan")
    try:
        return await asyncio.shield(wish.result)
    except asyncio.CancelledError:
        # Whoever wished does not wait any more. A plan that is being made already is made.
        if not at_rest and session.wish is wish:
            session.wish = None
            wish.settle(session.state.turn or "", "canceled", t("The wish for a plan was withdrawn."))
        raise
