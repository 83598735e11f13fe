"""Answers of a session's model beside the conversation, e.g. to what an MCP server asks: paid from its budget.

They see nothing of the conversation and have no tools.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from daemon.provider.model_calls import AGENT, WORKSPACE, ProviderError, answered, beside
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
        request = beside(
            model.partition("/")[2],
            SECRETS.text(system),
            [(role, SECRETS.text(text)) for role, text in messages],
            max_tokens=max_tokens,
            env={**session.env, WORKSPACE: str(services.workspace), AGENT: "side_answer"},
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
        session.record.main.answered_beside(model, complete, started)
        budget.warn()
        return SideAnswer(complete.text, complete.model or model, cut=complete.stop_reason == "max_tokens")
