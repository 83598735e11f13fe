"""One running language server: its process, the documents open there, and its answers about them."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Collection, Coroutine, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lsp_bridge.language.answers import Answers
from lsp_bridge.language.capabilities import initialize_params
from lsp_bridge.language.problems import severe
from lsp_bridge.language.registrations import Registrations, as_list, as_object
from lsp_bridge.language.rpc_errors import ServerError, ServerGone
from lsp_bridge.language.specs import Found, ServerSpec
from lsp_bridge.language.timing import Timing
from lsp_bridge.language.watch_globs import wire_kind
from tools.base import ChangeKind
from tools.language import Severity

if TYPE_CHECKING:
    from lsp_bridge.language.rpc_client import RpcClient

_MAX_OPEN_DOCUMENTS = 40
_MAX_OPEN_CHARACTERS = 8_000_000
_MAX_LOOK_AROUND = 8
"""How many open documents, latest used first, are checked again after another one changed."""
_PULL = "textDocument/diagnostic"
# LSP's ServerCancelled and ContentModified: ask again. The pause keeps a stubborn server from spinning.
_ASK_AGAIN = (-32802, -32801)
_ASK_AGAIN_PAUSE_S = 0.1
_ASK_AGAIN_TIMES = 5


class LanguageServer:
    """A client's view of one server. All methods that are not async return at once.

    It becomes *ready* some time after ``start`` and *gone* when its process ends, by itself or by ``stop``;
    a server that is gone stays so.
    """

    def __init__(
        self,
        spec: ServerSpec,
        found: Found,
        workspace: Path,
        environment: Mapping[str, str],
        *,
        timing: Timing | None = None,
        least_severity: Severity = "error",
        logger: logging.Logger | None = None,
    ) -> None:
        self.spec = spec
        self.name = found.name
        self.timing = timing or Timing()
        self.answers = Answers(self.timing.settling)
        self.unanswered = 0
        """How many changes in a row it left without a fresh answer."""
        self.has_answered = False
        self._found = found
        self._workspace = workspace
        self._environment = environment
        self._least_severity: Severity = least_severity
        self._log = logger or logging.getLogger("goalwright.lsp_client")
        self._client: RpcClient | None = None
        self._ready = False
        self._capabilities: Mapping[str, Any] = {}
        self._gone: str | None = None
        self._stopping = False
        self._starting: asyncio.Task[None] | None = None
        self._stopped: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiting: set[asyncio.Future[None]] = set()
        self._to_pull: set[Path] = set()
        self._pulling: dict[Path, asyncio.Task[None]] = {}
        self._registrations = Registrations(workspace, found.setup.settings, allow_pull=spec.announce_pull)

    # ---- life

    @property
    def gone(self) -> bool:
        """It has ended, crashed or could not be started."""
        return self._gone is not None

    @property
    def pid(self) -> int | None:
        """Process id while the process runs."""
        client = self._client
        return client.pid if client is not None and not client.exited else None

    def start(self) -> None:
        """Start the process in the background."""
        if self._starting is None:
            self._starting = asyncio.create_task(self._start())

    async def ready(self, until: float) -> bool:
        """Wait until it can be told about documents, or until the loop's clock shows ``until``."""
        while not self._ready and not self.gone:
            if not await self._news(until):
                return False
        return self._ready and not self.gone

    async def stop(self) -> None:
        """Shut it down: politely, then by force. Returns when nothing of it runs any more. Never raises."""
        if self._stopped is None:
            self._stopping = True
            self._stopped = asyncio.create_task(self._stop())
        await asyncio.shield(self._stopped)

    def deadline_s(self) -> float:
        """How long to wait for its answer to a change."""
        if self.unanswered >= 2:
            return self.timing.silent_answer_s
        return self.timing.answer_s if self.has_answered else self.timing.cold_answer_s

    async def _start(self) -> None:
        # In a thread: importing pygls and lsprotocol takes some hundred milliseconds the first time.
        module = await asyncio.to_thread(_rpc_client)
        client = self._client = module.RpcClient(self)
        timing, found = self.timing, self._found
        try:
            # Not in the workspace: some programs look for plugins or modules in the current folder.
            folder = Path(found.argv[0]).parent
            await client.start(
                found.argv, cwd=folder, environment=self._environment, grace_s=timing.terminate_s
            )
            params = initialize_params(
                self._workspace,
                self._workspace.as_uri(),
                found.setup.initialization_options,
                announce_pull=self.spec.announce_pull,
            )
            result = await client.request("initialize", params, timing.initialize_s)
        except Exception as error:  # whatever went wrong: whoever waits for it must know that it is not there
            self.on_closed(f"could not be started: {error or type(error).__name__}")
            return
        self._capabilities = as_object(as_object(result).get("capabilities"))
        self._registrations.initialized(self._capabilities)
        client.notify("initialized", {})
        client.notify("workspace/didChangeConfiguration", {"settings": dict(found.setup.settings)})
        self._ready = True
        self._ring()

    async def _stop(self) -> None:
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.wait({self._starting})
        client, timing = self._client, self.timing
        exit_s = 0.0
        if client is not None and self._ready and not self.gone:
            try:
                await client.request("shutdown", None, timing.shutdown_s)
                client.notify("exit", {})
                exit_s = timing.shutdown_s
            except (ServerError, ServerGone, TimeoutError):
                pass  # It is ended by force then.
        self._gone = self._gone or "stopped"
        self._ring()
        if client is not None:
            await client.end(exit_s=exit_s, terminate_s=timing.terminate_s)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def on_closed(self, reason: str) -> None:
        """Handler: the connection is over. Whoever waits for an answer is woken."""
        if self._gone is None:
            self._gone = reason
            if not self._stopping:
                tail = self._client.stderr_tail if self._client is not None else ""
                self._log.warning("language server %s: %s %s", self.name, reason, tail)
                # What is left of it (its children, or itself when only its output ended) must not linger.
                self._spawn(self._end_remains())
        self._ring()

    async def _end_remains(self) -> None:
        if self._client is not None:
            await self._client.end(exit_s=0.0, terminate_s=self.timing.terminate_s)

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """The ``capabilities`` of its answer to ``initialize``; empty until it is ready. Any: JSON of a server."""
        return self._capabilities

    async def request(self, method: str, params: Mapping[str, Any], timeout_s: float) -> Any:
        """Ask it something; the result is JSON, unchecked. Raises ServerError, ServerGone, TimeoutError."""
        client = self._client
        if client is None or not self._ready:
            raise ServerGone(f"{self.name} is not ready")
        return await client.request(method, params, timeout_s)

    # ---- documents

    def sync(self, path: Path, text: str) -> int:
        """Tell it the text of ``path``, opening it when needed. Returns the version an answer must have."""
        now = asyncio.get_running_loop().time()
        kind, version = self.answers.sync(path, text, now=now, pull=self.pulls(path))
        if kind == "open":
            language = self.spec.language_of(path) or "plaintext"
            item = {"uri": path.as_uri(), "languageId": language, "version": version, "text": text}
            self._notify("textDocument/didOpen", {"textDocument": item})
            self._close_surplus()
        elif kind == "change":
            # The whole text is a valid change for servers that sync incrementally, too.
            changes = {
                "textDocument": {"uri": path.as_uri(), "version": version},
                "contentChanges": [{"text": text}],
            }
            self._notify("textDocument/didChange", changes)
        if kind != "same":
            self._pull_soon(path)
        return version

    def saved(self, path: Path) -> None:
        """Tell it that the text it knows of ``path`` is on disk now."""
        document = self.answers.documents.get(path)
        if document is not None:
            params = {"textDocument": {"uri": path.as_uri()}, "text": document.text}
            self._notify("textDocument/didSave", params)

    def close_document(self, path: Path) -> None:
        """Close ``path`` there, if it is open."""
        if self.answers.close(path):
            self._notify("textDocument/didClose", {"textDocument": {"uri": path.as_uri()}})

    def watched(self, path: Path, kind: ChangeKind) -> None:
        """Tell it that a file changed on disk, if it wants to know."""
        wanted = self._registrations.watches(path, kind)
        if wanted is None:
            # Nothing registered: perhaps because it expects its client to have watchers of its own.
            wanted = self.spec.language_of(path) is not None
        if wanted:
            changes = [{"uri": path.as_uri(), "type": wire_kind(kind)}]
            self._notify("workspace/didChangeWatchedFiles", {"changes": changes})

    def _close_surplus(self) -> None:
        documents = self.answers.documents
        size = sum(len(document.text) for document in documents.values())
        while len(documents) > 1 and (len(documents) > _MAX_OPEN_DOCUMENTS or size > _MAX_OPEN_CHARACTERS):
            oldest = next(iter(documents.values()))
            size -= len(oldest.text)
            self.close_document(oldest.path)

    def _notify(self, method: str, params: Mapping[str, Any]) -> None:
        if self._client is not None and not self.gone:
            self._client.notify(method, params)

    # ---- answers

    async def answered(self, versions: Mapping[Path, int], until: float) -> set[Path]:
        """Wait for the final answer about these versions, until the loop's clock shows ``until`` at most.

        Returns the files about which there is one. The others have no fresh answer, whatever is known
        about them from before.
        """
        loop = asyncio.get_running_loop()
        while True:
            now = loop.time()
            settled = {
                path: self.answers.settled_at(path, version, pull=self.pulls(path))
                for path, version in versions.items()
            }
            done = {path for path, at in settled.items() if at is not None and at <= now}
            if len(done) == len(versions) or now >= until or self.gone:
                return done
            coming = [at for at in settled.values() if at is not None and at > now]
            await self._news(min([until, *coming]))

    def ask_again(self, path: Path) -> None:
        """Pull ``path`` once more though its text is the same: files that it depends on may have changed."""
        if path in self.answers.documents:
            self._pull_soon(path)

    async def look_around(self, changed: Collection[Path], until: float) -> None:
        """Pull other open documents after a change, and wait for the answers, but not longer than ``until``.

        A server that pushes tells about them by itself.
        """
        mark = self.answers.count
        paths = [
            path
            for path in reversed(self.answers.documents)
            if path not in changed and self._registrations.looks_across_files(self.spec.language_of(path))
        ][:_MAX_LOOK_AROUND]
        for path in paths:
            self._pull_soon(path)
        while not all(self.answers.heard(path, mark) for path in paths):
            if self.gone or not await self._news(until):
                return

    async def quiet(self, until: float) -> None:
        """Wait until nothing has arrived for a moment, or until the loop's clock shows ``until``."""
        loop = asyncio.get_running_loop()
        while not self.gone and await self._news(min(until, loop.time() + self.timing.quiet_s)):
            if loop.time() >= until:
                return

    def pulls(self, path: Path) -> bool:
        """Whether diagnostics of ``path`` are to be asked for, as this server answers now."""
        return self._registrations.pulls(self.spec.language_of(path))

    def _pull_soon(self, path: Path) -> None:
        if not self._to_pull:
            # After the changes that are sent in the same breath, so that the answer knows them all.
            asyncio.get_running_loop().call_soon(self._pull_now)
        self._to_pull.add(path)

    def _pull_now(self) -> None:
        paths, self._to_pull = self._to_pull, set()
        for path in paths:
            if self.gone or not self.pulls(path) or path not in self.answers.documents:
                continue
            if previous := self._pulling.pop(path, None):
                previous.cancel()
            task = self._spawn(self._pull(path, self.answers.documents[path].version))
            self._pulling[path] = task
            task.add_done_callback(functools.partial(self._pulled, path))

    def _pulled(self, path: Path, task: asyncio.Task[None]) -> None:
        if self._pulling.get(path) is task:
            del self._pulling[path]

    async def _pull(self, path: Path, version: int) -> None:
        client = self._client
        if client is None:
            return
        params = {"textDocument": {"uri": path.as_uri()}}
        for _ in range(_ASK_AGAIN_TIMES):
            try:
                report = as_object(await client.request(_PULL, params, self.timing.pull_s))
            except ServerError as error:
                if error.code not in _ASK_AGAIN:
                    return
                await asyncio.sleep(_ASK_AGAIN_PAUSE_S)
                continue
            except (ServerGone, TimeoutError):
                return
            self._take_report(path, version, report)
            return

    def _take_report(self, path: Path, version: int, report: Mapping[str, Any]) -> None:
        now = asyncio.get_running_loop().time()
        if report.get("kind") == "unchanged":
            items = self.answers.known(path) or ()
        elif isinstance(report.get("items"), list):
            items = severe(report["items"], self._least_severity)
        else:
            return
        if self.answers.pull(path, version, items, now=now):
            self.has_answered = True
        for uri, related in as_object(report.get("relatedDocuments")).items():
            other, content = _path_of(uri), as_object(related).get("items")
            if other is not None:
                self.answers.push(other, None, severe(as_list(content), self._least_severity), now=now)
        self._ring()

    async def _news(self, until: float) -> bool:
        """Wait until something happens; False when ``until`` (loop's clock) came first."""
        loop = asyncio.get_running_loop()
        bell: asyncio.Future[None] = loop.create_future()
        self._waiting.add(bell)
        try:
            # Not wait_for: in Python 3.11 it may swallow a cancellation.
            done, _ = await asyncio.wait({bell}, timeout=max(0.0, until - loop.time()))
        finally:
            self._waiting.discard(bell)
        return bool(done)

    def _ring(self) -> None:
        for bell in self._waiting:
            if not bell.done():
                bell.set_result(None)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # ---- what the server sends

    def on_notification(self, method: str, params: Mapping[str, Any]) -> None:
        """Handler: diagnostics are taken in, everything else is let go."""
        if method != "textDocument/publishDiagnostics":
            return
        path, version = _path_of(params.get("uri")), params.get("version")
        if path is None or not isinstance(params.get("diagnostics"), list):
            return
        number = version if isinstance(version, int) and not isinstance(version, bool) else None
        found = severe(as_list(params.get("diagnostics")), self._least_severity)
        if self.answers.push(path, number, found, now=asyncio.get_running_loop().time()):
            self.has_answered = True
            self._ring()

    def on_request(self, method: str, params: Mapping[str, Any]) -> object:
        """Handler: what a server may ask its client. Raises MethodNotFound."""
        result = self._registrations.answer(method, params)
        if method in ("client/registerCapability", "workspace/diagnostic/refresh"):
            for path in self.answers.documents:
                self._pull_soon(path)
        self._ring()
        return result


def _rpc_client() -> Any:
    from lsp_bridge.language import rpc_client

    return rpc_client


def _path_of(uri: object) -> Path | None:
    from pygls.uris import to_fs_path

    try:
        path = to_fs_path(uri) if isinstance(uri, str) else None
    except ValueError:
        return None
    return Path(path) if path else None
