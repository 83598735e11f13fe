"""Requests about the model's context: inspection, compaction, handover."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from daemon.context.handover import handover_text
from daemon.context.instructions import instruction_block
from daemon.context.tokens import estimate_tokens, request_tokens
from daemon.loop.compactor import CompactResult
from daemon.subagents.iteration import handover_source
from lsp_bridge.protocol import context as p
from lsp_bridge.protocol.handshake import ErrorCode, RequestError
from lsp_bridge.protocol.sessions import SessionParams, SessionResult
from lsp_bridge.server.requests.declaration import RequestArea, request
from tools.localization import t
from tools.process.background import is_canceled
from tools.text.truncate import head

if TYPE_CHECKING:
    from collections.abc import Iterable

    from daemon.loop.request_builder import RequestBuilder
    from daemon.loop.session import Session
    from daemon.model.messages import Part

NO_GOAL = "no goal"
COMPACTION = "compaction"
"""Names of what belongs to no goal, among the messages."""


class ContextRequests(RequestArea):
    """The requests of one connection about contexts."""

    @request("goalwright/session/context", changes=False)
    async def context(self, params: SessionParams) -> p.ContextResult:
        """Return the exact next input of the model, and the tokens of its parts."""
        session = await self._context.at_hand(params.session_id)
        return context_of(session, await prepared(session))

    @request("goalwright/session/compact", changes=True)
    async def compact(self, params: p.SessionCompactParams) -> CompactResult:
        """Compact the context now; takes as long as the model needs for a summary."""
        self._context.check_rules()
        session = await self._context.at_hand(params.session_id)
        try:
            return await session.compact(params.instructions)
        except asyncio.CancelledError:
            if is_canceled():
                raise  # nothing waits for the answer any more
            held = (await prepared(session)).tokens()
            return CompactResult(before=held, after=held, detail=t("Canceled; the context is unchanged."))

    @request("goalwright/session/handover", changes=False)
    async def handover(self, params: p.SessionHandoverParams) -> SessionResult:
        """Start a session of another agent, whose first message is the handover."""
        giving = await self._context.at_hand(params.session_id)
        if giving.foreign:
            # Its content would become the user's own words in a new session.
            raise RequestError(
                t(
                    "This session came with the folder, so its text may have been written by anyone, and "
                    "nothing is handed over from it. Start a new session and describe the task."
                )
            )
        if giving.running:
            raise RequestError(
                t("The session is running. Cancel the turn or wait until it ends, then hand it over."),
                ErrorCode.BUSY,
            )
        state = giving.state
        if not state.messages:
            raise RequestError(t("There is nothing to hand over: the session is empty."))
        text = handover_text(handover_source(state), params.agent)
        config = self._context.client_config()
        session = self._core.new_session(model=state.trace.model, agent=params.agent, config=config)
        # Otherwise both would be named after the beginning of the handover.
        self._core.update_session(
            session,
            {
                "title": head(f"{params.agent}: {state.trace.title}", 200),
                "titled_by": "prompt",
                "mission": state.plan.mission,
            },
        )
        session.begin_with(text)
        # Use this client's settings and keys, as a new session does.
        session = await self._context.at_hand(session.session_id)
        return SessionResult(session=await self._context.info(session))


async def prepared(session: Session) -> RequestBuilder:
    """Return the session's next request, with the current instruction files; a running turn keeps its own."""
    if not session.running or not session.request_builder.layers:
        await session.request_builder.prepare()
    return session.request_builder


def _instructions(session: Session) -> dict[str, str]:
    """Return the instructions that came with results of the session, as the model sees them, by their path."""
    state = session.state
    found = {
        path: instruction_block(path, text, trusted=False)
        for path, text in state.given.untrusted_instructions.items()
    }
    return found | {path: instruction_block(path, text) for path, text in state.given.instructions.items()}


def _has(content: Iterable[Part], block: str) -> bool:
    texts = (part.content if part.type == "tool_result" else getattr(part, "text", "") for part in content)
    return any(block in text for text in texts)


def context_of(session: Session, builder: RequestBuilder) -> p.ContextResult:
    """Return the whole next request, for users."""
    window = builder.window()
    request = builder.request(window)
    ratio = session.state.calibration
    estimated = request_tokens(request)
    plan = session.state.plan
    numbers = plan.numbers()

    def name(goal_id: str) -> str:
        goal = plan.goals.get(goal_id)
        return goal_id if goal is None else f"{numbers.get(goal_id, '')} {goal.description}".strip()

    def part(layer: Any, named: str, tokens: float, goal_id: str | None = None) -> p.ContextPart:
        return p.ContextPart(layer=layer, name=named, goal_id=goal_id, tokens=round(tokens * ratio))

    parts = [part("system", layer.name, estimate_tokens(layer.text)) for layer in builder.layers]
    in_system = request.system[len(builder.layers) :]
    if request.tools:
        parts.append(part("tools", f"{len(request.tools)} tools", estimated.tools))
    shares: dict[tuple[str | None, str], int] = {}
    brought: dict[str, int] = {}
    blocks = _instructions(session)
    for entry in window.entries:
        other = COMPACTION if entry.kind == "compaction" else NO_GOAL
        key = (entry.goal_id, other if entry.goal_id is None else name(entry.goal_id))
        told = {
            path: estimate_tokens(block)
            for path, block in blocks.items()
            if _has(entry.prompt.content, block)
        }
        for path, tokens in told.items():
            brought[path] = brought.get(path, 0) + tokens
        shares[key] = shares.get(key, 0) + max(0, entry.tokens - sum(told.values()))
    parts += [part("messages", named, tokens, goal_id) for (goal_id, named), tokens in shares.items()]
    parts += [part("messages", f"instructions {path}", tokens) for path, tokens in brought.items()]
    for text in (*(block.text for block in in_system), request.tail):
        if text:
            parts.append(part("plan", "plan", estimate_tokens(text)))
    return p.ContextResult(
        model=session.model,
        system=tuple(block.text for block in request.system),
        tools=tuple(
            p.ContextTool(name=tool.name, description=tool.description, input_schema=dict(tool.schema))
            for tool in request.tools
        ),
        messages=tuple(
            p.ContextMessage(
                role=entry.prompt.role,
                goal_id=entry.goal_id,
                kind=entry.kind,
                tokens=round(entry.tokens * ratio),
                content=entry.prompt.content,
            )
            for entry in window.entries
        ),
        tail=request.tail,
        parts=tuple(parts),
        tokens=round(estimated.total * ratio),
        meter=builder.meter(window),
    )
