"""Answers of a session's model beside the conversation, e.g. to what an MCP server asks: paid from its budget.

They see nothing of the conversation and have no tools.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from daemon.model.events import SessionUpdated
from daemon.model.messages import TextPart
from daemon.provider.model_calls import ModelRequest, PromptMessage, ProviderError, SystemBlock, answered
from tools.errors import ToolError
from tools.ports import SideAnswer
from tools.redaction.redactor import SECRETS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from daemon.loop.session import Session
    from tools.ports import SideMessage

_TIMEOUT_S = 120.0


class SessionSideModel:
    """Implements ``tools.ports.SideModel`` for one session."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @property
    def name(self) -> str:
        return self._session.model

    async def answer(self, system: str, messages: Sequence[SideMessage], max_tokens: int) -> SideAnswer:
        session, model = self._session, self._session.model
        budget, services = session.budget, session.services
        if over := budget.run_over() or await budget.keep():
            raise ToolError(over)
        budget.count_step()
        request = ModelRequest(
            model=model.partition("/")[2],
            system=(SystemBlock(SECRETS.text(system)),),
            messages=tuple(
                PromptMessage(role, (TextPart(text=SECRETS.text(text)),)) for role, text in messages
            ),
            max_tokens=max_tokens,
            env={
                **session.env,
                "GOALWRIGHT_WORKSPACE": str(services.workspace),
                "GOALWRIGHT_AGENT": "side_answer",
            },
        )
        started = time.monotonic()
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                complete = await answered(services.models.stream(model, request))
        except TimeoutError as error:
            raise ToolError(f"{model} did not answer within {_TIMEOUT_S:g} s.") from error
        except ProviderError as error:
            raise ToolError(str(error)) from error
        # In the main session's totals at once, whoever asked: those of a child reach them in other ways.
        main = session.record.main
        main.emit(
            SessionUpdated(
                trace_id=main.session_id,
                time=main.now(),
                updates={},
                usage=complete.usage,
                cost=services.models.cost(model, complete.usage),
                model=complete.model or model,
                duration_ms=int((time.monotonic() - started) * 1000),
            )
        )
        budget.warn()
        text = "".join(part.text for part in complete.parts if isinstance(part, TextPart))
        return SideAnswer(text, complete.model or model, cut=complete.stop_reason == "max_tokens")
