"""The turn of ``goalwright run``, followed to its end."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from typing import TYPE_CHECKING, Any

from daemon.model import notice_codes
from lsp_bridge.cli.client import ConnectionLostError, DaemonError, RpcError
from lsp_bridge.cli.invocation import (
    EXIT_CANCELED,
    EXIT_DENIED,
    EXIT_FAILED,
    EXIT_LIMIT,
    EXIT_NOTHING,
    EXIT_OK,
)
from lsp_bridge.cli.run.approval import (
    ATTACH_CALL,
    SELECT_CALL,
    Answerer,
    Approver,
    RefuseAll,
    Unattended,
    answerer_of,
)
from lsp_bridge.cli.run.branch_lines import asked_title
from lsp_bridge.cli.run.other_turns import OtherTurns
from lsp_bridge.cli.run.totals import RunOutcome
from lsp_bridge.cli.run.view import JsonView, TextView, View
from lsp_bridge.cli.run.waiting_indicator import WaitingSign
from lsp_bridge.cli.text import clean, shown_line
from tools.json_access import integer, mapping, mappings, string, strings
from tools.localization import noted, t
from tools.process.background import Background

if TYPE_CHECKING:
    from lsp_bridge.cli.console import Console
    from lsp_bridge.cli.run.conversation import Conversation, Opened

_EXIT_CODES = {"end_turn": EXIT_OK, "permission_denied": EXIT_DENIED, "canceled": EXIT_CANCELED}
_LIMIT, _WRITTEN = (notice_codes.RUN_LIMIT, "warning"), (notice_codes.WRITTEN_CALL, "error")
"""Codes and levels of the notices about the end of a turn: at a limit; with a tool call that was written as text."""
NOTHING_DONE = noted(
    "nothing was done: no model is set up, so the built-in demo answered. Set "
    "ANTHROPIC_API_KEY or OPENAI_API_KEY, or choose a model with --model, for example "
    "--model openai/NAME for the server at OPENAI_BASE_URL."
)
_LAST_EVENTS_S = 2.0
"""How long the events of a turn may come after the answer to its prompt."""


def _exit_code(outcome: RunOutcome, answerer: Answerer) -> int:
    code = _EXIT_CODES.get(outcome.stop_reason, EXIT_FAILED)
    if code == EXIT_DENIED:
        stopped = isinstance(answerer, Unattended) and answerer.stopped
        return EXIT_LIMIT if stopped or _LIMIT in outcome.notices else code
    if code == EXIT_FAILED and _WRITTEN in outcome.notices:
        return EXIT_NOTHING
    return EXIT_NOTHING if code == EXIT_OK and outcome.only_demo else code


class TerminalTurn:
    """The turn of a run: shows it and answers its requests."""

    def __init__(
        self,
        conversation: Conversation,
        opening: asyncio.Task[Opened],
        console: Console,
    ) -> None:
        """``opening``: the beginning of the conversation."""
        options = self._options = conversation.options
        self._conversation = conversation
        self._opening = opening
        self._console = console
        text = TextView(
            console.write,
            style=console.style,
            live=console.live,
            columns=console.columns,
            reasoning=options.verbose,
            own_prompt=options.task,
            tell=console.warn,
            tell_style=console.err_style,
            asking=self._asking,
        )
        self._view: View = JsonView(console.write) if options.json else text
        self._branches = text.open_branches
        demo = options.show_accepted
        self._answerer = answerer_of(console, text, yes=options.yes, json=options.json, demo=demo)
        if isinstance(self._answerer, RefuseAll):
            text.rejecting(t("there is no terminal to ask on; use --yes or a rule"))
        self._approver: Approver | None = None
        self._queued = self._removed = self._started = False
        self._ended = asyncio.Event()
        self._leave = asyncio.Event()
        self._interrupts = 0
        self._background = Background("work beside a run")
        self._others: OtherTurns | None = None
        live = text.status if console.live and not options.json else None
        self._waiting = WaitingSign(live, console.warn, self._asking)
        self._last_event_id = 0
        self._outcome = RunOutcome()
        console.on_gone = self.interrupt

    async def play(self) -> None:
        """Run everything from connecting to the end. Expected failures are outcomes."""
        work = asyncio.create_task(self._work())
        leave = asyncio.create_task(self._leave.wait())
        conversation = self._conversation
        try:
            await asyncio.wait({work, leave}, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                ended = work.result()
            else:
                words = t("exited while the turn was being canceled") if conversation.sent else ""
                ended = "canceled", words
        except DaemonError as error:
            ended = "error", str(error)
        finally:
            if conversation.client is not None:
                # Close first, because canceling a request would make the daemon cancel the turn.
                await conversation.client.close()
            await _drop(work, leave)
            await self._background.close()
        self._outcome.stop_reason, self._outcome.detail = ended

    def finish(self) -> int:
        """Show how it ended. Returns the exit code."""
        outcome, console = self._outcome, self._console
        code = outcome.exit_code = _exit_code(outcome, self._answerer)
        self._view.finish(outcome)
        if self._options.json:
            return code
        if code in (EXIT_FAILED, EXIT_NOTHING, EXIT_LIMIT):
            words = outcome.detail or t("the turn ended with {stop_reason}", stop_reason=outcome.stop_reason)
            if code == EXIT_NOTHING and outcome.stop_reason == "end_turn":
                words = t(NOTHING_DONE)
            console.warn(console.err_style.red(t("error: {words}", words=clean(words))))
        elif outcome.detail and (code == EXIT_OK or (code == EXIT_CANCELED and not self._interrupts)):
            # The model ended the turn in an unusual way, e.g. it declined to continue, or somebody else stopped it.
            console.warn(console.err_style.yellow(clean(outcome.detail)))
        return code

    def interrupt(self) -> None:
        """Ctrl-C: cancel the turn and wait for its end; a second time, or with no turn yet, leave."""
        self._interrupts += 1
        if self._interrupts > 1 or not self._conversation.sent:
            self._leave.set()
            return
        self._note(t("canceling … (Ctrl-C again to exit at once)"))
        self._background.start(self._cancel())

    def terminate(self) -> None:
        """Handle SIGTERM: cancel in the daemon, and leave without waiting for the end."""
        self._interrupts += 2

        async def cancel_and_leave() -> None:
            if self._conversation.sent:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(1):
                        await self._cancel()
            self._leave.set()

        self._background.start(cancel_and_leave())

    # -- from prompt to answer -----------------------------------------------------------------------------

    async def _work(self) -> tuple[str, str]:
        """Returns stop reason and detail. Raises as ``Conversation.begin``."""
        conversation = self._conversation
        client, prompt = await self._opening
        self._approver = Approver(client, self._answerer, self._note)
        if isinstance(self._answerer, Unattended):
            session_id = string(conversation.session_id)
            self._others = OtherTurns(client, session_id, self._note, self._background)
        self._loaded(conversation.loaded)
        conversation.show(self._notified)
        approving = asyncio.create_task(self._approver.work())
        waiting = asyncio.create_task(self._waiting.work())
        try:
            await asyncio.wait({prompt, approving}, return_when=asyncio.FIRST_COMPLETED)
            if not prompt.done():
                approving.result()  # it only ends by failing
            result = await prompt
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LAST_EVENTS_S if self._started else 0):
                    await self._ended.wait()
        finally:
            await _drop(prompt, approving, waiting)
        reason = "canceled" if result.get("removed") is True else string(result.get("stopReason"))
        return reason or "error", string(result.get("detail"))

    def _loaded(self, loaded: dict[str, Any]) -> None:
        self._outcome.session_id = self._conversation.session_id
        self._last_event_id = integer(loaded.get("lastEventId"))
        session = mapping(loaded.get("session"))
        chosen = self._options.model or mapping(session.get("trace")).get("model")
        self._outcome.only_demo = session.get("demo") is True and not chosen
        self._branches.load(mapping(loaded.get("branches")))
        self._view.opened(session, mapping(loaded.get("goalTree")), mapping(loaded.get("goalNumbers")))
        self._outcome.usage.follow({}, mapping(loaded.get("view")), counts=False)
        for request in mappings(loaded.get("pending")):
            self._asked(request)
        for start_id in strings(loaded.get("awaitsChoice")):
            self._choice_awaited(start_id)

    # -- incoming messages ---------------------------------------------------------------------------------

    def _notified(self, method: str, params: dict[str, Any]) -> None:
        session_id = string(params.get("sessionId"))
        # Whether events still arrive after the end depends on timing, and scripts read the output.
        if session_id != self._conversation.session_id or self._ended.is_set():
            return
        if method == "goalwright/session/delta":
            self._waiting.delta(mapping(params.get("delta")))
            self._view.delta(session_id, mapping(params.get("delta")))
        elif method == "goalwright/session/meter":
            self._outcome.meter = mapping(params.get("meter"))
        elif method == "goalwright/session/update":
            event = mapping(params.get("event"))
            if integer(event.get("eventId")) > self._last_event_id:
                self._last_event_id = integer(event.get("eventId"))
                view = mapping(params.get("view"))
                self._branches.follow(event)
                self._view.event(session_id, event, view)
                self._outcome.usage.follow(event, view, counts=self._started)
                self._follow(event)

    def _follow(self, event: dict[str, Any]) -> None:
        name, own = event.get("event"), event.get("promptId") == self._conversation.prompt_id
        if self._started:
            self._waiting.event(event)
            if name == "notice":
                self._outcome.notices.add((string(event.get("code")), string(event.get("level"))))
        if name == "turn_started" and own:
            self._started = True
            self._waiting.event(event)
            if self._interrupts:
                self._background.start(
                    self._cancel()
                )  # it began just before it could be taken from the queue
        elif name == "turn_ended" and own:
            self._ended.set()
        elif name == "permission_asked":
            self._asked(mapping(event.get("request")))
        elif name == "permission_replied" and self._approver is not None:
            self._approver.settled(event)
            if self._others is not None:
                self._others.settled(string(event.get("requestId")))
        elif name == "notice" and event.get("code") == notice_codes.CHOICE_AWAITED:
            self._choice_awaited(string(event.get("about")))
        elif name == "notice" and event.get("code") == notice_codes.CHOICE_MADE and self._others is not None:
            self._others.settled(string(event.get("about")))
        elif name == "queue_changed" and self._conversation.sent and not self._started:
            waiting = [string(item.get("promptId")) for item in mappings(event.get("queue"))]
            if self._conversation.prompt_id in waiting:
                self._queued = True
                if self._interrupts:
                    self._background.start(self._cancel())  # it may not have been in the queue before
                until = t("reach its next step") if self._options.steer else t("end")
                self._note(t("waiting for the session's running turn to {until} …", until=until))

    def _asked(self, request: dict[str, Any]) -> None:
        # A script answers for its own turn, and for a turn that no other client handles; a user for any turn. During
        # the turn, too, a user elsewhere chooses a branch or attaches files, and a script must not answer for them.
        if self._approver is None:
            return
        call = string(request.get("toolCallId"))
        own = call == f"{ATTACH_CALL}{self._conversation.prompt_id}"
        of_the_turn = self._started and not call.startswith((SELECT_CALL, ATTACH_CALL))
        if self._others is None or of_the_turn or own:
            self._approver.asked(request)
        else:
            about, words = string(request.get("requestId")), shown_line(asked_title(request))
            self._others.wait(about, words, partial(self._approver.asked, request))

    def _choice_awaited(self, start_id: str) -> None:
        if self._others is None:
            return  # the user chooses; the view has shown how
        leave = partial(self._leave_choice, start_id) if self._options.yes else None
        if not self._started:
            words = t("Choose a branch: {choosing}", choosing=self._branches.choosing(start_id))
            self._others.wait(start_id, words, leave)
        elif leave is not None:
            leave()

    # -- helpers -------------------------------------------------------------------------------------------

    def _asking(self) -> bool:
        return self._approver is not None and self._approver.asking

    async def _cancel(self) -> None:
        client = self._conversation.client
        if client is None:
            return
        session = {"sessionId": self._conversation.session_id}
        with contextlib.suppress(ConnectionLostError):
            if not self._started:
                with contextlib.suppress(RpcError):
                    params = {**session, "promptId": self._conversation.prompt_id, "text": None}
                    await client.request("goalwright/queue/edit", params)
                    self._removed = True
                # A turn that is running is another client's, and not ours to cancel, unless it has taken up the prompt.
                # One that does not wait yet, or begins now, is canceled as soon as it waits or begins (``_follow``).
                if self._removed or not (self._queued and self._options.steer):
                    return
            try:
                await client.request("goalwright/session/cancel", session)
            except RpcError as error:
                self._note(t("could not cancel: {error}", error=clean(str(error))))

    def _leave_choice(self, explore_start_id: str) -> None:
        """Leave the choice among branches to the model: with ``--yes`` nobody is there, and the run would wait
        forever."""
        self._background.start(self._let_model_choose(explore_start_id))

    async def _let_model_choose(self, explore_start_id: str) -> None:
        client = self._conversation.client
        if client is None:
            return
        params = {"sessionId": self._conversation.session_id, "exploreStartId": explore_start_id}
        try:
            if (await client.request("goalwright/explore/leave", params)).get("left") is True:
                self._note(t("the model chooses (--yes)"))
        except DaemonError as error:
            self._note(t("could not let the model choose: {error}", error=clean(str(error))))

    def _note(self, text: str) -> None:
        if isinstance(self._view, TextView):
            self._view.line(self._console.style.dim(f"  {text}"))
        else:
            self._console.warn(text)


async def _drop(*tasks: asyncio.Task[Any]) -> None:
    """Cancel ``tasks`` and wait until they have ended, whatever their results."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
