"""``goalwright run``: one prompt from a terminal or script, followed to its end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from daemon.provider.variables import provider_env
from lsp_bridge.cli.client import Client, ConnectionLostError, DaemonError, RpcError
from lsp_bridge.cli.invocation import (
    CLIENT_NAME,
    EXIT_CANCELED,
    EXIT_DENIED,
    EXIT_FAILED,
    EXIT_LIMIT,
    EXIT_NOTHING,
    EXIT_OK,
    Invocation,
)
from lsp_bridge.cli.launch import Greeting, Launcher
from lsp_bridge.cli.run.approval import (
    ATTACH_CALL,
    SELECT_CALL,
    Answerer,
    Approver,
    RefuseAll,
    Unattended,
    answerer_of,
)
from lsp_bridge.cli.run.branch_lines import CHOICE_AWAITED, CHOICE_MADE, OpenBranches
from lsp_bridge.cli.run.newest_session import newest, trace_id
from lsp_bridge.cli.run.other_turns import OtherTurns
from lsp_bridge.cli.run.totals import RunOutcome
from lsp_bridge.cli.run.view import JsonView, TextView, View
from lsp_bridge.cli.run.waiting_indicator import WaitingSign
from lsp_bridge.cli.text import clean
from tools.json_access import integer, mapping, mappings, string, strings
from tools.localization import noted, t
from tools.process.background import Background

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping, Sequence

    from lsp_bridge.cli.console import Console

_EXIT_CODES = {"end_turn": EXIT_OK, "permission_denied": EXIT_DENIED, "canceled": EXIT_CANCELED}
_LIMIT, _WRITTEN = ("run_limit", "warning"), ("written_call", "error")
"""Codes and levels of the notices about the end of a turn: at a limit; with a tool call that was written as text."""
NOTHING_DONE = noted(
    "nothing was done: no model is set up, so the built-in demo answered. Set "
    "ANTHROPIC_API_KEY or OPENAI_API_KEY, or choose a model with --model, for example "
    "--model openai/NAME for the server at OPENAI_BASE_URL."
)
_LAST_EVENTS_S = 2.0
"""How long the events of a turn may come after the answer to its prompt."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options of ``goalwright run``."""

    workspace: Path
    task: str
    model: str | None = None
    agent: str | None = None
    """Agent of a new session; None: the default one."""
    mode: str | None = None
    """Permission mode; None: that of the session."""
    planner: str | None = None
    """How this task is planned; None: by the setting."""
    steer: bool = False
    """Give the task to a running turn at its next step, instead of waiting for the end of the turn."""
    session: str | None = None
    """Go on with this session."""
    resume_last: bool = False
    """Go on with the newest session."""
    fork: str | None = None
    """Start with the conversation of this session: its id, or ``ID:MESSAGE`` for the part before a message."""
    yes: bool = False
    json: bool = False
    verbose: bool = False
    """Show the model's reasoning."""
    limits: Mapping[str, float] = field(default_factory=dict[str, float])
    """Limits of an unattended run, over those of the settings: ``unattended_steps``, ``_usd``, ``_minutes``."""
    files: tuple[str, ...] = ()
    """Paths to attach, beside those that the task names with ``@``."""
    show_accepted: bool = False
    """With ``yes``: show each diff that is accepted (the demo)."""


_NAMED = re.compile(r"""(?:^|(?<=[\s(\[{'"]))@(?:"([^"\n]+)"|((?:\\[^\n]|[^\s"\\])+))""")
_ENDS = ".,;:!?)]}'"
_RESOURCE = re.compile(r"[\w.-]+:[A-Za-z][A-Za-z0-9+.-]*:\S")
"""``server:uri``: a resource of an MCP server."""
_SHORT_SUFFIX = 5
"""Characters of an ending like ``.yaml``: what ends longer is more likely a name in code."""


def named_files(task: str, workspace: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the files that a task names as ``@path``, ``@a\\ path`` or ``@"a path"``, absolute, and notes.

    A note reports a name that looks like a file but does not exist. Everything else is plain text.
    """
    found: list[str] = []
    notes: list[str] = []
    for quoted, plain in _NAMED.findall(task):
        if _RESOURCE.match(plain):
            continue  # the daemon asks the MCP server; no file of this name is meant
        unescaped = re.sub(r"\\(.)", r"\1", plain)
        names = [
            name for one in (quoted, plain, unescaped) if one for name in (one, one.rstrip(_ENDS)) if name
        ]
        path = next((workspace / name for name in names if (workspace / name).is_file()), None)
        if path is not None:
            found.append(str(path.absolute()))
        elif names and (suffix := Path(names[-1]).suffix) and not (workspace / names[-1]).exists():
            from tools.paths import did_you_mean  # pydantic comes with it

            near = did_you_mean(workspace / names[-1])
            if near or len(suffix) <= _SHORT_SUFFIX:
                choices = t(" or ").join(f"@{name}" for name in near)
                hint = t(" Did you mean {near}?", near=choices) if near else ""
                notes.append(
                    t("There is no file {name}: the text is sent as it is.{hint}", name=names[-1], hint=hint)
                )
    return tuple(dict.fromkeys(found)), tuple(dict.fromkeys(notes))


async def run_command(cli: Invocation, *, files: Sequence[str], **given: Any) -> int:
    """Run ``goalwright run``: ``given`` are fields of RunOptions, and the limits of an unattended run."""
    limits = {f"unattended_{name}": given.pop(f"max_{name}") for name in ("steps", "usd", "minutes")}
    options = RunOptions(
        workspace=cli.workspace,
        session=cli.session,
        json=cli.json,
        limits={name: value for name, value in limits.items() if value is not None},
        files=tuple(str(Path(file).expanduser().absolute()) for file in files),
        **given,
    )
    return await run(options, cli.launcher, cli.console)


async def run(options: RunOptions, launcher: Launcher, console: Console) -> int:
    """Run the task, show it, and return the exit code.

    0 the turn ended normally, 1 error or cut off, 3 a rejected question ended it (a call that a rule denies ends
    nothing), 4 nothing was done, 5 a limit was reached, 130 canceled. The first Ctrl-C cancels the turn and waits for
    its end, the second leaves at once.
    """
    text = TextView(
        console.write,
        style=console.style,
        live=console.live,
        columns=console.columns,
        reasoning=options.verbose,
        own_prompt=options.task,
        tell=console.warn,
        tell_style=console.err_style,
    )
    view: View = JsonView(console.write) if options.json else text
    demo = options.show_accepted
    answerer = answerer_of(console, text, yes=options.yes, json=options.json, demo=demo)
    if isinstance(answerer, RefuseAll):
        text.rejecting(t("there is no terminal to ask on; use --yes or a rule"))
    turn = _Run(options, view, answerer, console, text.open_branches)
    console.on_gone = turn.interrupt
    async with _signals(turn.interrupt, turn.terminate):
        outcome = await turn.play(launcher)
    code = outcome.exit_code = _exit_code(outcome, answerer)
    view.finish(outcome)
    if options.json:
        return code
    if code in (EXIT_FAILED, EXIT_NOTHING, EXIT_LIMIT):
        words = outcome.detail or t("the turn ended with {stop_reason}", stop_reason=outcome.stop_reason)
        if code == EXIT_NOTHING and outcome.stop_reason == "end_turn":
            words = t(NOTHING_DONE)
        console.warn(console.err_style.red(t("error: {words}", words=clean(words))))
    elif outcome.detail and (code == EXIT_OK or turn.ended_elsewhere(code)):
        # The model ended the turn in an unusual way, e.g. it declined to continue, or somebody else stopped it.
        console.warn(console.err_style.yellow(clean(outcome.detail)))
    return code


def _exit_code(outcome: RunOutcome, answerer: Answerer) -> int:
    code = _EXIT_CODES.get(outcome.stop_reason, EXIT_FAILED)
    if code == EXIT_DENIED:
        stopped = isinstance(answerer, Unattended) and answerer.stopped
        return EXIT_LIMIT if stopped or _LIMIT in outcome.notices else code
    if code == EXIT_FAILED and _WRITTEN in outcome.notices:
        return EXIT_NOTHING
    return EXIT_NOTHING if code == EXIT_OK and outcome.only_demo else code


class _Run:
    def __init__(
        self,
        options: RunOptions,
        view: View,
        answerer: Answerer,
        console: Console,
        branches: OpenBranches,
    ) -> None:
        self._options = options
        self._view = view
        self._answerer = answerer
        self._console = console
        self._branches = branches
        self._prompt_id = f"terminal-{os.urandom(6).hex()}"
        self._session_id: str | None = None
        self._client: Client | None = None
        self._approver: Approver | None = None
        self._early: list[tuple[str, dict[str, Any]]] | None = []
        self._sent = False  # the prompt is being sent or processed
        self._started = False
        self._ended = asyncio.Event()
        self._leave = asyncio.Event()
        self._interrupts = 0
        self._background = Background("work beside a run")
        self._others: OtherTurns | None = None
        live = view.status if isinstance(view, TextView) and console.live else None
        self._waiting = WaitingSign(
            live, console.warn, lambda: self._approver is not None and self._approver.asking
        )
        self._last_event_id = 0
        self._outcome = RunOutcome()

    async def play(self, launcher: Launcher) -> RunOutcome:
        """Run everything from connecting to the end. Expected failures are outcomes."""
        work = asyncio.create_task(self._work(launcher))
        leave = asyncio.create_task(self._leave.wait())
        try:
            await asyncio.wait({work, leave}, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                ended = work.result()
            else:
                ended = "canceled", t("exited while the turn was being canceled") if self._sent else ""
        except DaemonError as error:
            ended = "error", str(error)
        finally:
            if self._client is not None:
                # Close first, because canceling a request would make the daemon cancel the turn.
                await self._client.close()
            await _drop(work, leave)
            await self._background.close()
        self._outcome.stop_reason, self._outcome.detail = ended
        return self._outcome

    def interrupt(self) -> None:
        """Ctrl-C: cancel the turn and wait for its end; a second time, or with no turn yet, leave."""
        self._interrupts += 1
        if self._interrupts > 1 or not self._sent:
            self._leave.set()
            return
        self._note(t("canceling … (Ctrl-C again to exit at once)"))
        self._background.start(self._cancel())

    def ended_elsewhere(self, code: int) -> bool:
        """Return whether the turn was canceled, but not here."""
        return code == EXIT_CANCELED and not self._interrupts

    def terminate(self) -> None:
        """Handle SIGTERM: cancel in the daemon, and leave without waiting for the end."""
        self._interrupts += 2

        async def cancel_and_leave() -> None:
            if self._sent:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(1):
                        await self._cancel()
            self._leave.set()

        self._background.start(cancel_and_leave())

    # -- from prompt to answer -----------------------------------------------------------------------------

    async def _work(self, launcher: Launcher) -> tuple[str, str]:
        """Returns stop reason and detail. Raises LaunchError and what ``Client.request`` raises."""
        options = self._options
        greeting = Greeting(
            client=CLIENT_NAME,
            settings={**({"model": options.model} if options.model else {}), **options.limits},
            env=provider_env(os.environ),
            unattended=isinstance(self._answerer, Unattended),
        )
        self._client, _ = await launcher.connect(options.workspace, greeting)
        client = self._client
        self._approver = Approver(client, self._answerer, self._note)
        if isinstance(self._answerer, Unattended):
            self._others = OtherTurns(client, self._approver, self._leave_choice, self._note)
        client.on_notification(self._notified)
        session_id = self._session_id = await self._open_session(client)
        loaded = await client.request("goalwright/session/load", {"sessionId": session_id, "messages": 0})
        self._loaded(loaded)
        params: dict[str, Any] = {"sessionId": session_id, "text": options.task, "promptId": self._prompt_id}
        if options.planner:
            params["planner"] = options.planner
        if options.steer:
            params["whenBusy"] = "steer"
        named, notes = named_files(options.task, options.workspace)
        for note in notes:
            self._console.warn(note)
        if files := (*options.files, *named):
            params["attachments"] = [{"name": name, "mediaType": ""} for name in dict.fromkeys(files)]
        self._sent = True
        prompt = asyncio.create_task(client.request("goalwright/session/prompt", params))
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

    async def _open_session(self, client: Client) -> str:
        options = self._options
        session_id = await self._newest(client) if options.resume_last else options.session
        if options.fork is not None:
            source, _, message = options.fork.partition(":")
            forked = {"sessionId": source, "messageId": message or None}
            session_id = trace_id(await client.request("goalwright/session/fork", forked))
        chosen = {"model": options.model, "mode": options.mode, "agent": options.agent}
        params = {name: value for name, value in chosen.items() if value}
        if session_id is None:
            return trace_id(await client.request("goalwright/session/new", params))
        if params:
            await client.request("goalwright/session/set", {"sessionId": session_id, **params})
        return session_id

    async def _newest(self, client: Client) -> str:
        found = await newest(client)
        if found.session_id:
            return found.session_id
        words = t("There is no session in {workspace} to continue.", workspace=self._options.workspace)
        if found.foreign:
            words += t(
                " ({others} came with the folder: `goalwright sessions` lists them, --session takes one.)",
                others=found.foreign,
            )
        raise RpcError(0, words)

    def _loaded(self, loaded: dict[str, Any]) -> None:
        self._outcome.session_id = self._session_id
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
        early, self._early = self._early or [], None
        for method, params in early:
            self._notified(method, params)

    # -- incoming messages ---------------------------------------------------------------------------------

    def _notified(self, method: str, params: dict[str, Any]) -> None:
        if self._early is not None:
            self._early.append((method, params))  # wait until the state that it changes has been loaded
            return
        session_id = string(params.get("sessionId"))
        # Whether events still arrive after the end depends on timing, and scripts read the output.
        if session_id != self._session_id or self._ended.is_set():
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
        name, own = event.get("event"), event.get("promptId") == self._prompt_id
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
        elif name == "notice" and event.get("code") == CHOICE_AWAITED:
            self._choice_awaited(string(event.get("about")))
        elif name == "notice" and event.get("code") == CHOICE_MADE and self._others is not None:
            self._others.settled(string(event.get("about")))
        elif name == "queue_changed" and self._sent and not self._started:
            waiting = [string(item.get("promptId")) for item in mappings(event.get("queue"))]
            if self._prompt_id in waiting:
                until = t("reach its next step") if self._options.steer else t("end")
                self._note(t("waiting for the session's running turn to {until} …", until=until))

    def _asked(self, request: dict[str, Any]) -> None:
        # A script answers for its own turn, and for a turn that no other client handles; a user for any turn. During
        # the turn, too, a user elsewhere chooses a branch or attaches files, and a script must not answer for them.
        if self._approver is None:
            return
        call = string(request.get("toolCallId"))
        own = call == f"{ATTACH_CALL}{self._prompt_id}"
        of_the_turn = self._started and not call.startswith((SELECT_CALL, ATTACH_CALL))
        if self._others is None or of_the_turn or own:
            self._approver.asked(request)
        elif self._session_id is not None:
            self._others.asked(self._session_id, request)
            self._look()

    def _choice_awaited(self, start_id: str) -> None:
        if self._others is None:
            return  # the user chooses; the view has shown how
        if self._started:
            if self._options.yes:
                self._background.start(self._leave_choice(start_id))
        elif self._session_id is not None:
            how = self._branches.choosing(start_id)
            self._others.choice(self._session_id, start_id, how, leave=self._options.yes)
            self._look()

    def _look(self) -> None:
        if self._others is not None and not self._others.looking:
            self._others.looking = True
            self._background.start(self._others.look())

    # -- helpers -------------------------------------------------------------------------------------------

    async def _cancel(self) -> None:
        if self._client is None:
            return
        session = {"sessionId": self._session_id}
        with contextlib.suppress(ConnectionLostError):
            if not self._started:
                # Another client's turn is running: it is not ours to cancel.
                with contextlib.suppress(RpcError):
                    params = {**session, "promptId": self._prompt_id, "text": None}
                    await self._client.request("goalwright/queue/edit", params)
                    return
            try:
                await self._client.request("goalwright/session/cancel", session)
            except RpcError as error:
                self._note(t("could not cancel: {error}", error=clean(str(error))))

    async def _leave_choice(self, explore_start_id: str) -> None:
        """Leave the choice among branches to the model: with ``--yes`` nobody is there, and the run would wait
        forever."""
        if self._client is None:
            return
        params = {"sessionId": self._session_id, "exploreStartId": explore_start_id}
        try:
            if (await self._client.request("goalwright/explore/leave", params)).get("left") is True:
                self._note(t("the model chooses (--yes)"))
        except DaemonError as error:
            self._note(t("could not let the model choose: {error}", error=clean(str(error))))

    def _note(self, text: str) -> None:
        if isinstance(self._view, TextView):
            self._view.line(self._console.style.dim(f"  {text}"))
        else:
            self._console.warn(text)


@contextlib.asynccontextmanager
async def _signals(interrupt: Callable[[], None], terminate: Callable[[], None]) -> AsyncGenerator[None]:
    loop = asyncio.get_running_loop()
    handlers = {signal.SIGINT: interrupt, signal.SIGTERM: terminate}
    previous = {number: signal.getsignal(number) for number in handlers}
    for number, handler in handlers.items():
        try:
            loop.add_signal_handler(number, handler)
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


async def _drop(*tasks: asyncio.Task[Any]) -> None:
    """Cancel ``tasks`` and wait until they have ended, whatever their results."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
