"""Python functions as hooks: the daemon's side of the process in which they run (``daemon.hooks.host``).

It is started when the first function is to be called, serves one call at a time, and is killed, with all that it
started, when a function does not answer. The next call begins a new one.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from daemon.hooks.answer import MAX_OUTPUT, Failure, HookAnswer, HookError, read_value
from daemon.hooks.entry_points import FoundFunctions, HookFunction, discover
from daemon.safe_path import own_folders
from tools.json_access import mapping
from tools.localization import t
from tools.process.background import despite_cancel
from tools.process.environment import scrubbed_environment
from tools.process.server_process import ServerProcess
from tools.text.truncate import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from daemon.settings import HookName

log = logging.getLogger(__name__)

TIMEOUT_S = 10.0
"""Seconds until a function that does not answer is abandoned; the same default as for programs."""
_GRACE_S = 0.3
_LONGEST_PAUSE_S = 60.0


def host_command(workspace: Path) -> tuple[str, ...]:
    """Return how the process is started: isolated, so that neither the workspace nor variables add to its modules."""
    start = (
        f"import sys; sys.path.insert(0, {own_folders()[0]!r}); from daemon.hooks.host import main; main()"
    )
    return (sys.executable, "-I", "-c", start, str(workspace))


class _Pause(Struct):
    """After failures in a row: until when a function is not called, and why."""

    failures: int
    until: float
    kind: Failure


class Hooks:
    """The functions that are hooks, and their process, shared by all sessions of a daemon.

    Costs nothing until a session begins to work, and no process until a function is called.
    """

    def __init__(
        self,
        workspace: Path,
        folder: Path,
        *,
        find: Callable[[], FoundFunctions] = discover,
        command: Sequence[str] | None = None,
        timeout_s: float = TIMEOUT_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``folder``: where the process is at home; not the workspace. ``timeout_s``: for each call of a function.
        ``find``, ``command`` and ``clock`` are other ways to look for functions, to start the process and to measure
        seconds.
        """
        self.found = FoundFunctions()
        self._folder = folder
        self._find = find
        self._command = tuple(command or host_command(workspace))
        self._timeout_s = timeout_s
        self._clock = clock
        self._learning: asyncio.Task[FoundFunctions] | None = None
        self._turn = asyncio.Lock()
        self._process: ServerProcess | None = None
        self._pauses: dict[HookFunction, _Pause] = {}
        self._calls = 0
        self.started = 0
        """How many times a process was started."""

    async def learn(self) -> None:
        """Look for functions, once."""
        if self._learning is None:
            self._learning = asyncio.create_task(asyncio.to_thread(self._find))
        self.found = await asyncio.shield(self._learning)

    async def call(self, entry: HookFunction, payload: Mapping[str, Any]) -> object:
        """Return the function's answer. Raises HookError; a cancellation ends the process."""
        async with self._turn:
            pause = self._pauses.get(entry)
            if pause is not None and (left := pause.until - self._clock()) > 0:
                raise HookError(
                    pause.kind,
                    t(
                        "failed {failures} times in a row and is skipped for another {left:.0f} s",
                        failures=pause.failures,
                        left=left,
                    ),
                )
            try:
                answer = await self._call(entry, payload)
            except HookError as failed:
                if failed.kind in ("timeout", "crash", "start", "output"):
                    self._pause(entry, failed.kind)
                raise
            self._pauses.pop(entry, None)
            return answer

    async def close(self) -> None:
        """End what runs."""
        if self._learning is not None:
            await asyncio.wait({self._learning})
        async with self._turn:
            await self._kill()

    # -- internals --

    async def _call(self, entry: HookFunction, payload: Mapping[str, Any]) -> object:
        process = self._process
        if process is None or process.exited.is_set():
            process = await self._start()
        self._calls += 1
        line = json.dumps({"id": self._calls, "function": entry.value, "payload": payload}, default=str)
        answered = False
        try:
            process.write(line.encode() + b"\n")
            async with asyncio.timeout(self._timeout_s):
                message = await self._reply(process)
            answered = True
        except TimeoutError:
            raise HookError(
                "timeout", t("took longer than {timeout_s:g} s and was stopped", timeout_s=self._timeout_s)
            ) from None
        except ValueError:
            raise HookError(
                "output",
                t("answered with more than {max_output} KB and was stopped", max_output=MAX_OUTPUT // 1024),
            ) from None
        finally:
            if not answered:
                await self._kill()
        if "error" in message:
            log.warning("hook %s failed: %s", entry.value, message.get("traceback", ""))
            raise HookError("error", t("failed: {error}", error=one_line(str(message["error"]), 300)))
        return message.get("answer")

    async def _start(self) -> ServerProcess:
        try:
            self._process = await ServerProcess.start(
                self._command,
                cwd=self._folder,
                environment=scrubbed_environment(os.environ),
                grace_s=_GRACE_S,
            )
        except (OSError, ValueError) as error:
            raise HookError(
                "start", t("could not be called: its process did not start ({error})", error=error)
            ) from error
        self.started += 1
        return self._process

    async def _reply(self, process: ServerProcess) -> dict[str, Any]:
        """Wait for the answer to the current call. Raises HookError when the process ends instead, and ValueError for
        a line that is too long."""
        while line := await process.stdout.readline():
            try:
                message = mapping(json.loads(line))
            except (ValueError, RecursionError):
                continue  # not a valid answer; the call then times out
            if message.get("id") == self._calls:
                return message
        await process.exited.wait()
        code = -signal.SIGTERM if process.exit_code is None else process.exit_code
        how = t("by signal {value}", value=-code) if code < 0 else t("with exit code {code}", code=code)
        raise HookError("crash", t("ended its process {how}", how=how))

    def _pause(self, entry: HookFunction, kind: Failure) -> None:
        known = self._pauses.get(entry)
        failures = 1 if known is None else known.failures + 1
        # A first failure may be an accident, so retry at once.
        pause_s = 0.0 if failures == 1 else min(2.0 ** (failures - 2), _LONGEST_PAUSE_S)
        self._pauses[entry] = _Pause(failures, self._clock() + pause_s, kind)

    async def _kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            # A second cancellation must not leave the process running.
            await despite_cancel(process.end(_GRACE_S))


class PythonHook(Struct, frozen=True):
    """One function."""

    entry: HookFunction
    hooks: Hooks

    @property
    def label(self) -> str:
        """The hook's name for the user."""
        return f"{self.entry.value} ({self.entry.package})" if self.entry.package else self.entry.value

    @property
    def tools(self) -> str:
        """All of them: a function can look at the name itself."""
        return "*"

    @property
    def denies_on_failure(self) -> bool:
        return self.entry.strict

    async def ask(self, name: HookName, payload: Mapping[str, Any]) -> HookAnswer:
        """Call it. Raises HookError."""
        return read_value(name, await self.hooks.call(self.entry, payload))
