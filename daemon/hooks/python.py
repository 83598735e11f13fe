"""The daemon's side of the process in which Python hooks run (``daemon.hooks.host``).

It is started when the first function is to be called, serves one call at a time, and is killed, with all that it
started, when a function does not answer. The next call begins a new one.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from daemon.hooks.answer import MAX_OUTPUT, Failure, HookAnswer, HookError, HookName, read_value
from daemon.safe_path import own_folders
from tools.localization import t
from tools.process.background import finish
from tools.process.programs import Ended, run, scrubbed_environment
from tools.text.truncate import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from daemon.hooks.entry_points import HookFunction

log = logging.getLogger(__name__)

TIMEOUT_S = 10.0
"""Seconds until a function that does not answer is abandoned; the same default as for programs."""
_GRACE_S = 0.3
_MAX_LINE = 2 * MAX_OUTPUT
"""Bytes: an answer, or an error with its traceback."""
_LONGEST_PAUSE_S = 60.0


def host_command(workspace: Path) -> tuple[str, ...]:
    """Return how the process is started: isolated, so that neither the workspace nor variables add to its modules."""
    start = (
        f"import sys; sys.path.insert(0, {own_folders()[0]!r}); from daemon.hooks.host import main; main()"
    )
    return (sys.executable, "-I", "-c", start, str(workspace))


@dataclass(slots=True)
class _Process:
    """One life of the process."""

    running: asyncio.Task[Ended]
    pipe: asyncio.Future[asyncio.WriteTransport]
    heard: bytearray = field(default_factory=bytearray)
    reply: asyncio.Future[dict[str, Any]] | None = None
    number: int = 0
    too_much: bool = False


@dataclass(slots=True)
class _Pause:
    """After failures in a row: until when a function is not called, and why."""

    failures: int
    until: float
    kind: Failure


class PythonHost:
    """Starts, feeds and ends the process. Holds none until it is needed."""

    def __init__(self, command: Sequence[str], cwd: Path, clock: Callable[[], float]) -> None:
        self._command = tuple(command)
        self._cwd = cwd
        self._clock = clock
        self._turn = asyncio.Lock()
        self._process: _Process | None = None
        self._pauses: dict[HookFunction, _Pause] = {}
        self._calls = 0
        self.started = 0
        """How many times a process was started."""

    async def call(self, entry: HookFunction, payload: Mapping[str, Any], timeout_s: float) -> object:
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
                answer = await self._call(entry, payload, timeout_s)
            except HookError as failed:
                if failed.kind in ("timeout", "crash", "start", "output"):
                    self._pause(entry, failed.kind)
                raise
            self._pauses.pop(entry, None)
            return answer

    async def close(self) -> None:
        """End the process."""
        async with self._turn:
            await self._kill()

    # -- internals --

    async def _call(self, entry: HookFunction, payload: Mapping[str, Any], timeout_s: float) -> object:
        process = self._process
        if process is None or process.running.done():
            process = await self._start()
        self._calls += 1
        process.number = self._calls
        process.reply = reply = asyncio.get_running_loop().create_future()
        line = json.dumps({"id": self._calls, "function": entry.value, "payload": payload}, default=str)
        try:
            process.pipe.result().write(line.encode() + b"\n")
            await asyncio.wait(
                {reply, process.running}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED
            )
            if not reply.done():
                raise self._failure(process, timeout_s)
        finally:
            process.reply = None
            if not reply.done():
                await self._kill()
        message = reply.result()
        if "error" in message:
            log.warning("hook %s failed: %s", entry.value, message.get("traceback", ""))
            raise HookError("error", t("failed: {error}", error=one_line(str(message["error"]), 300)))
        return message.get("answer")

    async def _start(self) -> _Process:
        pipe: asyncio.Future[asyncio.WriteTransport] = asyncio.get_running_loop().create_future()
        running = asyncio.create_task(
            run(
                self._command,
                cwd=self._cwd,
                env=scrubbed_environment(os.environ),
                on_output=lambda fd, data: self._hear(process, fd, data),
                timeout_s=None,
                grace_s=_GRACE_S,
                feed=pipe.set_result,
            ),
            name="Python hooks",
        )
        process = self._process = _Process(running, pipe)
        self.started += 1
        try:
            await asyncio.wait({pipe, running}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await self._kill()
            raise
        if not pipe.done():
            self._process = None
            error = running.exception()
            if not isinstance(error, OSError | ValueError | None):
                raise error
            raise HookError(
                "start", t("could not be called: its process did not start ({error})", error=error)
            )
        return process

    def _hear(self, process: _Process, fd: int, data: bytes) -> bool:
        if fd != 1:
            return True
        process.heard.extend(data)
        while (end := process.heard.find(b"\n")) >= 0:
            line = bytes(process.heard[:end])
            del process.heard[: end + 1]
            self._take(process, line)
        process.too_much = len(process.heard) > _MAX_LINE
        return not process.too_much

    def _take(self, process: _Process, line: bytes) -> None:
        try:
            value: object = json.loads(line)
        except (ValueError, RecursionError):
            return  # not a valid answer; the call then times out
        if not isinstance(value, dict):
            return
        message = cast("dict[str, Any]", value)
        reply = process.reply
        if reply is not None and not reply.done() and message.get("id") == process.number:
            reply.set_result(message)

    def _failure(self, process: _Process, timeout_s: float) -> HookError:
        if not process.running.done():
            return HookError(
                "timeout", t("took longer than {timeout_s:g} s and was stopped", timeout_s=timeout_s)
            )
        if process.too_much:
            return HookError(
                "output",
                t("answered with more than {max_output} KB and was stopped", max_output=MAX_OUTPUT // 1024),
            )
        if (error := process.running.exception()) is not None:
            return HookError("crash", t("ended its process: {error}", error=error))
        code = process.running.result().exit_code
        how = t("by signal {value}", value=-code) if code < 0 else t("with exit code {code}", code=code)
        return HookError("crash", t("ended its process {how}", how=how))

    def _pause(self, entry: HookFunction, kind: Failure) -> None:
        known = self._pauses.get(entry)
        failures = 1 if known is None else known.failures + 1
        # A first failure may be an accident, so retry at once.
        pause_s = 0.0 if failures == 1 else min(2.0 ** (failures - 2), _LONGEST_PAUSE_S)
        self._pauses[entry] = _Pause(failures, self._clock() + pause_s, kind)

    async def _kill(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.running.cancel()
        # A second cancellation must not leave the process running.
        if await finish(process.running):
            raise asyncio.CancelledError
        if not process.running.cancelled() and (error := process.running.exception()) is not None:
            log.warning("the process of the Python hooks: %s", error)


@dataclass(frozen=True, slots=True)
class PythonHook:
    """One function."""

    entry: HookFunction
    host: PythonHost
    timeout_s: float = TIMEOUT_S

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
        return read_value(name, await self.host.call(self.entry, payload, self.timeout_s))
