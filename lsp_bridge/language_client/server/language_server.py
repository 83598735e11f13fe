"""One running language server: its process, the documents open there, and its answers about them."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from lsp_bridge.language_client.connection import RpcClient, ServerError, ServerGoneError
from lsp_bridge.language_client.server.capabilities import initialize_params
from lsp_bridge.language_client.server.diagnostics_freshness import DiagnosticsTracker, Timing, Wakeup
from lsp_bridge.language_client.server.opened_files import Documents
from lsp_bridge.language_client.server.pull_diagnostics import PULL, Pulls
from lsp_bridge.language_client.server.registrations import Registrations
from lsp_bridge.language_client.server.work_progress import ServerWork
from lsp_bridge.language_client.specs.discovery import boxed
from lsp_bridge.language_client.text.positions import PositionEncoding, chosen, in_utf16, path_of
from lsp_bridge.language_client.text.problems import RawDiagnostic, severe
from tools.json_access import array, mapping
from tools.process.background import Background

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from lsp_bridge.language_client.specs.server_spec import FoundServer, Project, ServerSpec
    from tools.language_ports import Severity

_log = logging.getLogger("goalwright.lsp_client")

_ASK_AGAIN_PAUSES_S = (0.1, 0.1, 0.2, *(0.25,) * 16, 1.6, 3.0)
"""They keep a stubborn server from spinning."""
_MAX_LOOK_AROUND = 8
"""How many open documents, latest used first, are checked again after another one changed."""


class _Program(Struct, frozen=True):
    """The program of a server, and how it is started."""

    found: FoundServer
    environment: Mapping[str, str]
    box: Project | None

    async def command(self) -> tuple[Sequence[str], Mapping[str, str]]:
        """Return its arguments and its environment, in the project's box where it belongs in one."""
        if self.box is None:
            return self.found.argv, self.environment
        return await asyncio.to_thread(boxed, self.found.argv, self.environment, self.box)


class LanguageServer:
    """A client's view of one server. All methods that are not async return at once.

    It becomes *ready* some time after ``start`` and *gone* when its process ends, on its own or by ``stop``; a server
    that is gone stays so.
    """

    def __init__(
        self,
        spec: ServerSpec,
        found: FoundServer,
        root: Path,
        environment: Mapping[str, str],
        *,
        timing: Timing | None = None,
        least_severity: Severity = "error",
        box: Project | None = None,
    ) -> None:
        """``root``: the project's folder, absolute and resolved; ``box``: the project, for a program of its own."""
        self.spec = spec
        self.root = root
        self.timing = timing or Timing()
        self._progress = ServerWork(
            lambda: asyncio.get_running_loop().time(), stalled_s=self.timing.stalled_s
        )
        self.answers = DiagnosticsTracker(
            self.timing.settling, self._progress, pulls_are_final=spec.pulls_are_final
        )
        self._program = _Program(found, environment, box)
        self._least_severity: Severity = least_severity
        self._client = RpcClient(self._on_request, self._on_notification, self._on_closed)
        self.capabilities: Mapping[str, Any] = {}
        """Those of its answer to ``initialize``; empty until it is ready. Any: JSON of a server."""
        self._starting: asyncio.Task[None] | None = None
        self._initialized = False
        """It has answered ``initialize``."""
        self._stopping: asyncio.Task[None] | None = None
        self.gone_because = ""
        """Why it has ended, for people; empty while it runs."""
        self._background = Background("work beside a language server")
        self._wakeup = Wakeup()
        self._awaited: Counter[Path] = Counter()
        self._registrations = Registrations(root, found.setup.settings, allow_pull=spec.announce_pull)
        self.documents = Documents(self.answers, self._registrations, spec, self._notify)
        self._pulls = Pulls(
            spec.pull_through(self.request) if spec.pull_through is not None else self.request,
            self.answers,
            lambda path: self._registrations.identifiers(path, spec.language_of(path)),
            self._take_reports,
            self._background.start,
            waited=lambda path: self._awaited[path] > 0,
            timeout_s=self.timing.pull_s,
        )

    # ---- life cycle

    @property
    def name(self) -> str:
        """Name of the program that was found for it."""
        return self._program.found.name

    @property
    def gone(self) -> bool:
        """It has ended, crashed or could not be started."""
        return bool(self.gone_because)

    @property
    def is_ready(self) -> bool:
        """Whether it can receive documents."""
        return self._initialized and not self.gone

    @property
    def busy(self) -> str | None:
        """The work that it reports, e.g. ``Indexing 40 %``; None: none."""
        return self._progress.busy if not self.gone else None

    @property
    def pid(self) -> int | None:
        """Process id while the process runs."""
        return self._client.pid

    def start(self) -> None:
        """Start the process in the background."""
        if self._starting is None:
            self._starting = asyncio.create_task(self._start())

    async def ready(self, until: float) -> bool:
        """Wait until it can receive documents, or until the loop's clock shows ``until``."""
        while not self._initialized and not self.gone:
            if not await self._wakeup.heard(until):
                return False
        return self.is_ready

    async def stop(self) -> None:
        """Shut it down: politely, then by force. Returns when none of its processes runs any more. Never raises."""
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._stop())
        await asyncio.shield(self._stopping)

    def deadline_s(self) -> float:
        """Return how long to wait for its answer to a change."""
        return self.timing.silent_answer_s if self.answers.unanswered >= 2 else self.timing.answer_s

    async def _start(self) -> None:
        client, timing, found = self._client, self.timing, self._program.found
        try:
            # Not in the workspace: some programs look for plugins or modules in the current folder.
            folder = Path(found.argv[0]).parent
            argv, environment = await self._program.command()
            await client.start(argv, cwd=folder, environment=environment, grace_s=timing.terminate_s)
            params = initialize_params(
                self.root,
                self.root.as_uri(),
                found.setup.initialization_options,
                announce_pull=self.spec.announce_pull,
                announce_push=self.spec.pull_through is None,
                seen=argv is found.argv,
            )
            result = await client.request("initialize", params, timing.initialize_s)
        except Exception as error:  # whatever the error, waiting callers must learn of it
            self._on_closed(f"could not be started: {error or type(error).__name__}")
            return
        self.capabilities = mapping(mapping(result).get("capabilities"))
        own_way = {"diagnosticProvider": {"interFileDependencies": True}} if self.spec.pull_through else {}
        self._registrations.initialized({**self.capabilities, **own_way})
        self.documents.encoding = chosen(self.capabilities.get("positionEncoding"))
        client.notify("initialized", {})
        client.notify("workspace/didChangeConfiguration", {"settings": dict(found.setup.settings)})
        self._initialized = True
        self._wakeup.wake()

    async def _stop(self) -> None:
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.wait({self._starting})
        client, timing = self._client, self.timing
        exit_s = 0.0
        if self._initialized and not self.gone:
            try:
                await client.request("shutdown", None, timing.shutdown_s)
                client.notify("exit", {})
                exit_s = timing.shutdown_s
            except (ServerError, ServerGoneError, TimeoutError):
                pass  # it is ended by force then
        self.gone_because = self.gone_because or "stopped"
        self._wakeup.wake()
        await client.end(exit_s=exit_s, terminate_s=timing.terminate_s)
        await self._background.close()

    def _on_closed(self, reason: str) -> None:
        """Handle the end of the connection: wake callers that wait for an answer."""
        if not self.gone:
            self.gone_because = reason
            if self._stopping is None:
                _log.warning("language server %s: %s %s", self.name, reason, self._client.stderr_tail)
                # Its remains (child processes, or the process itself when only its output ended) must not linger.
                self._background.start(self._client.end(exit_s=0.0, terminate_s=self.timing.terminate_s))
        self._wakeup.wake()

    @property
    def position_encoding(self) -> PositionEncoding:
        """The unit of its columns, in requests and their results. Diagnostics are in UTF-16 units here."""
        return self.documents.encoding

    async def request(self, method: str, params: Mapping[str, Any], timeout_s: float) -> Any:
        """Ask it something, and again while it is busy with something newer; the result is JSON, unchecked.

        Raises ServerError, ServerGoneError, TimeoutError.
        """
        if not self._initialized:
            raise ServerGoneError(f"{self.name} is not ready")
        pauses = iter(_ASK_AGAIN_PAUSES_S)
        async with asyncio.timeout(timeout_s):
            while True:
                try:
                    return await self._client.request(method, params, timeout_s)
                except ServerError as error:
                    if not error.ask_again or (pause_s := next(pauses, None)) is None:
                        raise
                await asyncio.sleep(pause_s)

    # ---- documents

    def sync(self, path: Path, text: str) -> int:
        """Tell it the text of ``path``, opening it when needed. Returns the version an answer must have."""
        kind, version = self.documents.sync(path, text, pull=self.pulls(path))
        if kind != "same":
            self._pulls.soon(path)
            if self._awaited[path]:
                self._wakeup.wake()  # whoever waits for the version before waits in vain
        return version

    def _notify(self, method: str, params: Mapping[str, Any]) -> None:
        if not self.gone:
            self._client.notify(method, params)

    # ---- answers

    async def answered(self, versions: Mapping[Path, int], until: float) -> set[Path]:
        """Wait for the final answer about these versions, until the loop's clock shows ``until`` at most.

        Returns the files with such an answer. The others have no fresh answer, whatever was reported before. Once
        somebody else has sent a newer version of a file, the older one gets no answer, and is not waited for.
        """
        loop = asyncio.get_running_loop()
        self._awaited.update(versions.keys())
        try:
            while True:
                now = loop.time()
                settled = {
                    path: self.answers.settled_at(path, version, pull=self.pulls(path))
                    for path, version in versions.items()
                }
                done = {path for path, at in settled.items() if at is not None and at <= now}
                waiting = [
                    path
                    for path, version in self._versions(versions).items()
                    if version == versions[path] and path not in done
                ]
                if not waiting or now >= until or self.gone:
                    return done
                given_up = [self.answers.passed_over_at(path, pull=self.pulls(path)) for path in waiting]
                if all(at is not None and at <= now for at in given_up):
                    return done
                times = [at for at in (*settled.values(), *given_up) if at is not None and at > now]
                await self._wakeup.heard(min([until, *times]))
        finally:
            self._awaited -= Counter(versions.keys())

    async def answered_last(self, paths: Collection[Path], until: float) -> dict[Path, int]:
        """Wait as ``answered``, for the answers about the texts that are the newest in the end. Returns the files with
        an answer, each with its version."""
        while True:
            versions = self._versions(paths)
            done = await self.answered(versions, until)
            if self._versions(paths) == versions or asyncio.get_running_loop().time() >= until or self.gone:
                return {path: versions[path] for path in done}

    def _versions(self, paths: Collection[Path]) -> dict[Path, int]:
        documents = self.answers.documents
        return {path: documents[path].version for path in paths if path in documents}

    def settled(self, path: Path, version: int) -> bool:
        """Return whether the answer to this version is there, and final. Waits for nothing."""
        at = self.answers.settled_at(path, version, pull=self.pulls(path))
        return at is not None and at <= asyncio.get_running_loop().time()

    def unsettled(self) -> dict[Path, int]:
        """Return the open files whose newest text has had no final answer yet, each with the version of that text."""
        self._note_final()
        documents = self.answers.documents.items()
        return {path: document.version for path, document in documents if not document.final}

    def _note_final(self) -> None:
        """Record which answers are final, before the server's next message makes them uncertain again."""
        for path, document in self.answers.documents.items():
            document.final = document.final or self.settled(path, document.version)

    def ask_again(self, path: Path) -> None:
        """Pull ``path`` once more though its text is the same: files that it depends on may have changed."""
        self._pulls.again(path)

    def ask_around(self, changed: Collection[Path]) -> dict[Path, int]:
        """Pull other open documents after a change. Returns them, each with the number after which to hear about it.

        A server that pushes reports them on its own.
        """
        paths = [
            path
            for path in reversed(self.answers.documents)
            if path not in changed
            and self._registrations.looks_across_files(path, self.spec.language_of(path))
        ][:_MAX_LOOK_AROUND]
        for path in paths:
            self._pulls.soon(path)
        return dict.fromkeys(paths, self.answers.count)

    async def heard(self, asked: Mapping[Path, int], until: float) -> None:
        """Wait for the answers to ``ask_around``, but not longer than ``until``."""
        # Unlike ``answered``, wait for one answer only; a refresh requests the next one.
        while not all(self.answers.heard(path, number) for path, number in asked.items()):
            if self.gone or not await self._wakeup.heard(until):
                return

    async def quiet(self, until: float) -> None:
        """Wait until nothing has arrived for a moment, or until the loop's clock shows ``until``."""
        loop = asyncio.get_running_loop()
        while not self.gone and await self._wakeup.heard(min(until, loop.time() + self.timing.quiet_s)):
            if loop.time() >= until:
                return

    def pulls(self, path: Path) -> bool:
        """Return whether diagnostics of ``path`` are to be asked for, as this server answers now."""
        return self._registrations.pulls(path, self.spec.language_of(path))

    def path_of(self, uri: object) -> Path | None:
        """Return the file that it means, by the name under which it is open here if it is; None: no file."""
        return path_of(uri, self.documents.real)

    def _take_reports(self, path: Path, version: int, reports: list[Mapping[str, Any]]) -> None:
        now = asyncio.get_running_loop().time()
        self._note_final()
        items = [item for report in reports for item in array(report.get("items"))]
        if self.answers.pull(path, version, self._diagnostics(path, items), now=now):
            self.answers.has_answered, self.answers.unanswered = True, 0
        for report in reports:
            for uri, related in mapping(report.get("relatedDocuments")).items():
                other, body = self.path_of(uri), mapping(related)
                if other is not None and isinstance(body.get("items"), list):
                    found = self._diagnostics(other, array(body.get("items")))
                    self.answers.push(other, None, found, now=now)
        self._wakeup.wake()

    def _diagnostics(self, path: Path, items: list[object]) -> tuple[RawDiagnostic, ...]:
        """Return those that count, with columns in UTF-16 units (where the text is known)."""
        kept = severe(items, self._least_severity)
        document = self.answers.documents.get(path)
        return kept if document is None else in_utf16(kept, document.told_text, self.position_encoding)

    # ---- messages from the server

    def _on_notification(self, method: str, params: Mapping[str, Any]) -> None:
        """Take in diagnostics and progress; let everything else go."""
        if method == "textDocument/publishDiagnostics":
            self._take_push(params)
        elif method == "$/progress":
            self._note_final()
            if self._progress.take(params):
                # Pulls during the work may have been too early.
                self._pulls.after_work()
            self._wakeup.wake()

    def _take_push(self, params: Mapping[str, Any]) -> None:
        path, version = self.path_of(params.get("uri")), params.get("version")
        if path is None or not isinstance(params.get("diagnostics"), list):
            return
        number = version if isinstance(version, int) and not isinstance(version, bool) else None
        self._note_final()
        found = self._diagnostics(path, array(params.get("diagnostics")))
        if self.answers.push(path, number, found, now=asyncio.get_running_loop().time()):
            self.answers.has_answered, self.answers.unanswered = True, 0
            self._wakeup.wake()

    def _on_request(self, method: str, params: Mapping[str, Any]) -> object:
        """Answer what a server may ask its client. Raises MethodNotFoundError."""
        result = self._registrations.answer(method, params)
        if method == "client/registerCapability":
            self.documents.open_late()
            if any(mapping(item).get("method") == PULL for item in array(params.get("registrations"))):
                self._pulls.everything()
        if method == "workspace/diagnostic/refresh":
            self._pulls.refresh()
        self._wakeup.wake()
        return result
