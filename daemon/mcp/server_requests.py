"""Requests of an MCP server while it works on a call: for the user's input or the model's, in the session that called.

The protocol does not say to which call such a request belongs. So it is answered only while calls of one session run,
one after the other, a few for each call, and no longer than the call takes.
"""

from __future__ import annotations

import asyncio
import json
import math
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import mcp_types as types

from daemon.mcp import elicitation, sampling
from daemon.mcp.elicitation import BadRequestError
from daemon.outside_tools.approvals import Approvals
from tools.localization import t
from tools.process.background import Background, is_canceled
from tools.redaction.redactor import SECRETS
from tools.text.terminal import shown_line
from tools.tool import PermissionAsk, PermissionDeniedError, ToolError
from tools.tool_names import MCP_ELICITATION

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Coroutine, Generator, Sequence
    from pathlib import Path

    from daemon.mcp.elicitation import Value
    from daemon.mcp.sampling import SamplingRequest
    from tools.tool import Approval, Question, ToolContext

Result = TypeVar("Result")
MOST_REQUESTS = 5
"""Requests of one call that are answered."""
_REJECTED = -1
"""Code of the protocol for what the user rejected."""
_TRIES = 3
"""How often a form is shown until its answers fit."""
_LARGEST = 256 * 1024
"""Bytes of a value of the server, as JSON."""


class CallRequests:
    """The requests that belong to one call of a tool of ``server``."""

    def __init__(
        self, server: str, ctx: ToolContext, digest: str = "", sampling_file: Path | None = None
    ) -> None:
        """``digest``: of the server's configuration. ``sampling_file``: has that of the server which the user let use
        the model always, by name."""
        self.session = ctx.scratch
        """The folder of the session that made the call."""
        self._server = server
        self._ctx = ctx
        self._digest = digest
        self._sampling_file = sampling_file
        self._left = MOST_REQUESTS
        self._one_by_one = asyncio.Lock()
        self._answering = Background("an answer to an MCP server")
        self._clock: asyncio.Timeout | None = None

    @asynccontextmanager
    async def running(self, calls: list[CallRequests], timeout_s: float) -> AsyncGenerator[None]:
        """Run the call inside of this. Raises TimeoutError after ``timeout_s``, without the time that users took.

        ``calls``: those of the server that run.
        """
        calls.append(self)
        try:
            async with asyncio.timeout(timeout_s) as self._clock:
                yield
        finally:
            calls.remove(self)
            self._clock = None
            self._answering.cancel()

    async def elicit(self, params: types.ElicitRequestParams) -> types.ElicitResult | types.ErrorData:
        """Ask the user for what a server wants to know."""
        if isinstance(params, types.ElicitRequestURLParams):
            return await self._answered(self._page(params))
        return await self._answered(self._form(params))

    async def sample(
        self, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult | types.ErrorData:
        """Have the session's model answer, if the user allows it."""
        return await self._answered(self._sampled(params))

    # -- internals --

    async def _answered(
        self, work: Coroutine[None, None, Result | types.ErrorData]
    ) -> Result | types.ErrorData:
        if self._left <= 0:
            work.close()
            return refusal(f"a call may ask {MOST_REQUESTS} times")
        self._left -= 1
        task = self._answering.start(self._in_turn(work))
        try:
            return await task
        except asyncio.CancelledError:
            if self._clock is not None or not task.cancelled() or is_canceled():
                raise
            return refusal("the call has ended")

    async def _in_turn(
        self, work: Coroutine[None, None, Result | types.ErrorData]
    ) -> Result | types.ErrorData:
        try:
            async with self._one_by_one:
                return await work
        finally:
            work.close()

    async def _form(self, params: types.ElicitRequestFormParams) -> types.ElicitResult | types.ErrorData:
        try:
            message = SECRETS.text(params.message[: 2 * elicitation.LONGEST_MESSAGE])
            form = elicitation.form(self._server, message, without_secrets(params.requested_schema))
        except (BadRequestError, ValueError) as error:
            return refusal(str(error), types.INVALID_PARAMS)
        names = [field.name for field in form.fields]
        content: dict[str, Value] = {}
        for _ in range(_TRIES):
            try:
                approval = await self._asked(form.questions())
            except PermissionDeniedError as denied:
                return _unanswered(denied)
            if form.declined(approval.answers):
                return types.ElicitResult(action="decline")
            fitting, again = form.content(approval.answers)
            content |= fitting
            if again is None:
                ordered = {name: content[name] for name in names if name in content}
                return types.ElicitResult(action="accept", content={**ordered})
            form = again
        return types.ElicitResult(action="cancel")

    async def _page(self, params: types.ElicitRequestURLParams) -> types.ElicitResult | types.ErrorData:
        try:
            question = elicitation.page_question(self._server, params.message, params.url)
        except BadRequestError as error:
            return refusal(str(error), types.INVALID_PARAMS)
        try:
            approval = await self._asked([question])
        except PermissionDeniedError as denied:
            return _unanswered(denied)
        opened = elicitation.page_answers()[0] in approval.answers[0].chosen
        return types.ElicitResult(action="accept" if opened else "decline")

    async def _sampled(
        self, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult | types.ErrorData:
        model = self._ctx.session.side_model
        try:
            sample = sampling.sample(params)
        except BadRequestError as error:
            return refusal(str(error), types.INVALID_PARAMS)
        with self._paused():
            try:
                await self._may_sample(sample, model.name())
                found = await model.answer(sample.system, sample.messages, sample.max_tokens)
            except PermissionDeniedError:
                return refusal("the user rejected it", _REJECTED)
            except ToolError as error:
                return refusal(str(error).rstrip("."), types.INTERNAL_ERROR)
        return types.CreateMessageResult(
            role="assistant",
            content=types.TextContent(text=self._ctx.redact(found.text)),
            model=found.model,
            stop_reason="maxTokens" if found.cut else "endTurn",
        )

    async def _may_sample(self, sample: SamplingRequest, model: str) -> None:
        """Ask for the permission, which holds for one configuration. Raises PermissionDeniedError."""
        # Read each time: other daemons write it, too.
        known = Approvals(self._sampling_file) if self._sampling_file is not None else None
        other = known is not None and await asyncio.to_thread(known.changed, self._server, self._digest)
        approval = await self._ctx.permission.ask(sample.question(self._server, model, other=other))
        if known is not None and approval.always:
            await asyncio.to_thread(known.add, self._server, self._digest)

    async def _asked(self, questions: Sequence[Question]) -> Approval:
        """Ask the user. Raises PermissionDeniedError."""
        title = t("The MCP server {server} asks you", server=shown_line(self._server))
        with self._paused():
            return await self._ctx.permission.ask(
                PermissionAsk(MCP_ELICITATION, (self._server,), title, questions=tuple(questions))
            )

    @contextmanager
    def _paused(self) -> Generator[None]:
        """Stop the clock of the call."""
        clock, loop = self._clock, asyncio.get_running_loop()
        left = math.inf if clock is None else (clock.when() or math.inf) - loop.time()
        if clock is not None:
            clock.reschedule(None)
        try:
            yield
        finally:
            if clock is not None and clock is self._clock and math.isfinite(left):
                clock.reschedule(loop.time() + left)


def asking(running: Sequence[CallRequests]) -> CallRequests | types.ErrorData:
    """Return the call that a request of the server belongs to: the newest of those that run."""
    if not running:
        return refusal("nothing may be asked while no tool call runs")
    if any(call.session != running[-1].session for call in running):
        return refusal("several sessions use this server now, so it is not known who should answer")
    return running[-1]


def without_secrets(value: Any) -> Any:
    """Return a value of the server, in which it may repeat a key that it was given, without known secrets.

    Raises ValueError when it is too large to be looked at.
    """
    data = json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
    if len(data) > _LARGEST:
        raise ValueError(t("it is too large"))
    return json.loads(SECRETS.json(data))


def refusal(why: str, code: int = types.INVALID_REQUEST) -> types.ErrorData:
    """Return the answer to a request that is not granted."""
    return types.ErrorData(code=code, message=f"Goalwright does not answer this request: {why}.")


def _unanswered(denied: PermissionDeniedError) -> types.ElicitResult:
    """The user dismissed it, or nobody was there; a rule declines."""
    timed_out = denied.metadata.get("by") == "timeout"
    return types.ElicitResult(action="cancel" if timed_out else "decline")
