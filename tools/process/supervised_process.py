"""Programs beneath a warden (``tools.process.supervisor``), seen from the event loop. POSIX only.

The reaper is started with the first program and lives as long as this process; each program has a socket of its own to
its warden, whose end, for any reason, stops the program.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

from tools.process import supervisor
from tools.process.background import finish
from tools.process.supervisor import has_mark, living

_log = logging.getLogger(__name__)

MARK = "GOALWRIGHT_CALL"
"""Environment variable of every started process: the marks of its calls, joined by ``:``."""
_READ = 1 << 18
_LOST_S = 15.0
"""How long a warden may take beyond the grace it was given."""
_ROUNDS = 100
_PAUSE_S = 0.02
OnOutput = Callable[[int, bytes], bool | None]
OnClosed = Callable[[int], None]
"""One of the program's outputs (1, 2) is at its end: all that could write to it closed it, or it is over."""


class _SupervisorClient:
    """The one of this process. Its methods block: call them in a thread."""

    def __init__(self) -> None:
        self.mark = uuid.uuid4().hex
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._owner = 0

    def begin(self, request: Mapping[str, object], descriptors: Sequence[int]) -> None:
        """Start a warden. Raises OSError."""
        body = json.dumps(request).encode("ascii")
        with self._lock:
            for again in (True, False):
                to = self._connected()
                try:
                    message = len(body).to_bytes(4, "big")
                    socket.send_fds(to, [message], list(descriptors))
                    to.sendall(body)
                    return
                except OSError:
                    # The reaper was killed.
                    self._forget()
                    if not again:
                        raise

    def _connected(self) -> socket.socket:
        if self._owner != os.getpid():
            self._forget()  # we are a fork, and it belongs to our parent
        if self._socket is None or self._process is None or self._process.poll() is not None:
            self._forget()
            ours, theirs = socket.socketpair()
            command = [
                sys.executable,
                "-I",
                "-S",
                str(Path(supervisor.__file__)),
                str(theirs.fileno()),
                self.mark,
            ]
            try:
                # Pass no keys, because any command may read the environment of its parents.
                self._process = subprocess.Popen(
                    command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL, cwd="/", env={"LC_ALL": "C"}, start_new_session=True,
                )  # fmt: skip
            except BaseException:
                ours.close()
                raise
            finally:
                theirs.close()
            self._socket, self._owner = ours, os.getpid()
        return self._socket

    def _forget(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket = None
        if self._process is not None and self._owner == os.getpid():
            self._process.poll()
        self._process = None


_reaper = _SupervisorClient()


class ProcessTree(Struct):
    """The processes of one program as the daemon sees them: by session, by a mark in their environment, by descent.

    It repeats the work of wardens for processes that escaped them (a command may kill its warden), and for tests. Out
    of reach is a process that cleared its environment *and* lost its parent *and* its warden.
    """

    mark: str
    session: int = 0
    known: dict[int, int] = field(default_factory=dict[int, int])
    """Those found before, with their time of birth: a number may be given to another process, and one that lost its
    parent is not found a second time."""

    async def kill(self, grace_s: float) -> None:
        """TERM, and KILL after ``grace_s``."""
        loop = asyncio.get_running_loop()
        deadline, found = loop.time() + grace_s, await self._found()
        self._signal(found, signal.SIGTERM)
        while found and loop.time() < deadline:
            await asyncio.sleep(_PAUSE_S)
            found = await self._found()
        for _ in range(_ROUNDS):
            if not (found := await self._found()):
                break
            # Repeatedly: processes may fork between the check and the kill.
            self._signal(found, signal.SIGKILL)
            await asyncio.sleep(_PAUSE_S)

    async def _found(self) -> list[int]:
        # Reading /proc takes milliseconds on a busy machine, so it is done in a thread.
        return await asyncio.to_thread(self.members)

    def _signal(self, found: Sequence[int], kind: signal.Signals) -> None:
        if found and self.session > 1:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.session, kind)
        # Job control (``set -m``) gives children groups of their own in the same session.
        for pid in found:
            supervisor.send_signal(pid, kind)

    def members(self) -> list[int]:
        """Living processes of the session, with the mark, or below one of these (on Linux); else of its first group.

        Zombies are dead.
        """
        if not Path("/proc/self/stat").exists():
            return [self.session] if self.session > 1 and supervisor.group_lives(self.session) else []
        found: set[int] = set()
        parents: dict[int, int] = {}
        births: dict[int, int] = {}
        for pid, _, fields in living():
            parents[pid], births[pid] = int(fields[1]), int(fields[19])
            if (
                (self.session > 1 and self.session in (int(fields[2]), int(fields[3])))
                or self.known.get(pid) == births[pid]
                or has_mark(pid, self.mark)
            ):
                found.add(pid)
        while below := {pid for pid, parent in parents.items() if parent in found} - found:
            found |= below
        self.known = {pid: births[pid] for pid in found}
        return sorted(found)


class SupervisedProcess:
    """A program that runs. Made by ``start``."""

    def __init__(self, on_output: OnOutput, mark: str, on_closed: OnClosed | None = None) -> None:
        self.exited = asyncio.Event()
        """The program itself has ended."""
        self.ended = asyncio.Event()
        """It, and everything that it started."""
        self.enough = asyncio.Event()
        """``on_output`` wants no more."""
        self.exit_code: int | None = None
        self.background = False
        """It left processes behind, which were stopped."""
        self.error: int | None = None
        """Why it could not be started (errno)."""
        self.stdin: asyncio.WriteTransport | None = None
        self.family = ProcessTree(mark)
        self._on_output = on_output
        self._on_closed = on_closed
        self._control: socket.socket | None = None
        self._pipes: dict[int, int] = {}
        self._said = b""
        self._done = False
        self._started = asyncio.Event()

    @property
    def pid(self) -> int:
        """Process id, which is also that of its group and session; 0 if it never started."""
        return self.family.session

    async def stop(self, grace_s: float) -> None:
        """Stop all of it. Not to be broken off half-way: shield it."""
        if self._control is not None and not self.ended.is_set():
            with contextlib.suppress(OSError):
                self._control.send(b"stop\n")
        try:
            async with asyncio.timeout(grace_s + _LOST_S):
                await self.ended.wait()
        except TimeoutError:
            _log.error("the warden of session %s does not answer", self.family.session)
        self._close()
        if not self._done and self.error is None:
            await self.family.kill(grace_s)

    def pause(self, fd: int) -> None:
        """Take no more of this output for now: when its pipe is full, the program waits."""
        if fd in self._pipes:
            asyncio.get_running_loop().remove_reader(self._pipes[fd])

    def resume(self, fd: int) -> None:
        """Go on after ``pause``."""
        if fd in self._pipes:
            asyncio.get_running_loop().add_reader(self._pipes[fd], self._read, fd, self._pipes[fd])

    # -- internals --

    async def attach(self, control: socket.socket, pipes: Mapping[int, int]) -> None:
        """The warden has been asked for: wait for its first word."""
        loop = asyncio.get_running_loop()
        control.setblocking(False)
        self._control = control
        self._pipes = dict(pipes)
        for fd, pipe in pipes.items():
            os.set_blocking(pipe, False)
            loop.add_reader(pipe, self._read, fd, pipe)
        loop.add_reader(control.fileno(), self._listen)
        await self._started.wait()

    def _read(self, fd: int, pipe: int) -> bool:
        """Return whether there may be more."""
        try:
            data = os.read(pipe, _READ)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self._close_pipe(fd)
            return False
        if not self.enough.is_set() and self._on_output(fd, data) is False:
            self.enough.set()
        return True

    def _listen(self) -> None:
        assert self._control is not None
        try:
            data = self._control.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        *lines, self._said = (self._said + data).split(b"\n")
        for line in lines:
            word, _, value = line.partition(b" ")
            self._hear(word, int(value))
        if not data:
            # The connection ended after the last message, or because the warden was killed: then the reaper or ``stop``
            # ends the rest.
            self._end()

    def _hear(self, word: bytes, value: int) -> None:
        if word == b"begun":
            self.family.session = value
        elif word == b"started":
            self._started.set()
        elif word == b"failed":
            self.error = value
        elif word == b"exited":
            self.exit_code = value
            self.exited.set()
        elif word == b"done":
            self._done, self.background = True, bool(value)

    def _end(self) -> None:
        # All writers have ended, so their whole output is in the pipes.
        for fd, pipe in list(self._pipes.items()):
            while not self.enough.is_set() and self._read(fd, pipe):
                pass
        self._close()
        self.exited.set()
        self.ended.set()
        self._started.set()

    def _close(self) -> None:
        loop = asyncio.get_running_loop()
        if self._control is not None:
            loop.remove_reader(self._control.fileno())
            self._control.close()
            self._control = None
        for fd in list(self._pipes):
            self._close_pipe(fd)
        stdin, self.stdin = self.stdin, None
        if stdin is not None and not stdin.is_closing():
            stdin.abort()

    def _close_pipe(self, fd: int) -> None:
        pipe = self._pipes.pop(fd, None)
        if pipe is not None:
            asyncio.get_running_loop().remove_reader(pipe)
            os.close(pipe)
            if self._on_closed is not None:
                self._on_closed(fd)


async def start(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    on_output: OnOutput,
    merge_stderr: bool,
    grace_s: float,
    with_stdin: bool = False,
    on_closed: OnClosed | None = None,
) -> SupervisedProcess:
    """Start a program; a cancellation stops it again. Raises OSError when that is not possible."""
    for again in (True, False):
        mark = uuid.uuid4().hex
        # A Goalwright started by Goalwright keeps the outer marks, because its processes belong to both.
        marks = ":".join(filter(None, [os.environ.get(MARK), _reaper.mark, mark]))
        program = SupervisedProcess(on_output, mark, on_closed)
        request = {"argv": [*argv], "cwd": str(cwd), "env": {**env, MARK: marks}, "grace": grace_s}
        starting = asyncio.ensure_future(_start(program, request, merge_stderr, with_stdin))
        # Do not cancel half-way: the program may already run, with children, without being registered.
        canceled = await finish(starting)
        starting.result()
        if program.error is not None:
            raise OSError(program.error, os.strerror(program.error), argv[0])
        if canceled or not program.pid:
            await finish(asyncio.ensure_future(program.stop(grace_s)))
        if canceled:
            raise asyncio.CancelledError
        if program.pid:
            return program
        if not again:
            break  # the reaper was killed twice in a row during a request
    raise OSError(errno.ESRCH, "the process that starts commands was killed", argv[0])


async def _start(
    program: SupervisedProcess, request: Mapping[str, object], merge_stderr: bool, with_stdin: bool
) -> None:
    with contextlib.ExitStack() as given:

        def pipe() -> tuple[int, int]:
            read, write = os.pipe()
            given.callback(os.close, write)
            return read, write

        ours, theirs = socket.socketpair()
        given.callback(theirs.close)
        pipes: dict[int, int] = {}
        stdin: int | None = None
        try:
            pipes[1], out = pipe()
            err = out
            if not merge_stderr:
                pipes[2], err = pipe()
            if with_stdin:
                source, stdin = os.pipe()
            else:
                source = os.open(os.devnull, os.O_RDONLY)
            given.callback(os.close, source)
            descriptors = [theirs.fileno(), source, out, err]
            await asyncio.to_thread(_reaper.begin, request, descriptors)
        except BaseException:
            ours.close()
            for descriptor in (*pipes.values(), *([] if stdin is None else [stdin])):
                os.close(descriptor)
            raise
    if stdin is not None:
        loop = asyncio.get_running_loop()
        file = os.fdopen(stdin, "wb", 0)
        program.stdin, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, file)
    await program.attach(ours, pipes)
