"""Find the daemon of a workspace, or start it.

Two clients that come at the same time start one daemon: they take turns by a lock. A daemon exists if it answers; the
address file and the socket may be left over from a killed one.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from daemon.runtime import Address, RuntimeFolderError, RuntimePaths, state_dir
from daemon.safe_path import own_folders
from lsp_bridge.cli.client import (
    Client,
    ConnectionLostError,
    DaemonError,
    Greeting,
    RequestTimeoutError,
    RpcError,
)
from lsp_bridge.cli.preloaded import Forked, fork, preloader_environment, preloader_paths
from lsp_bridge.protocol.handshake import PROTOCOL_VERSION, ErrorCode
from tools.files.regular_files import read_regular
from tools.json_access import mapping, strings
from tools.localization import t
from tools.process.environment import daemon_environment
from tools.text.truncate import tail

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

EXIT_ALREADY_RUNNING = 3
"""Exit code of ``serve`` when another daemon has the lock."""

START_DEADLINE_S = 45.0
"""The very first start on a busy machine compiles all modules, which takes up to 20 s."""
ANSWER_DEADLINE_S = 5.0
MAX_SETTINGS = 1_000_000
"""Bytes of a configuration file."""
LOG_LIMIT = 1_000_000
"""Bytes. A longer log is moved to ``daemon.log.1`` when a daemon is started."""
_TAIL = 2_000
_PAUSE_S = 0.01
"""Seconds between two looks for an address, or for the lock: a look takes a tenth of a millisecond."""


class LaunchError(DaemonError):
    """Raised when no daemon could be reached; the message says why and what to do.

    Codes: ``workspace``, ``runtimeFolder``, ``startFailed``, ``startTimeout``, ``unresponsive``,
    ``unauthorized``, ``incompatible``, ``notRunning``.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Clock:
    """The real time; tests have another one."""

    def now(self) -> float:
        """Seconds of the event loop's clock."""
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        """``asyncio.sleep``."""
        await asyncio.sleep(seconds)


class Launcher(NamedTuple):
    """How to reach and start daemons. The defaults are the product's; tests replace parts."""

    home: Path | None = None
    """The user's home folder for ``daemon.runtime.state_dir``; None: the default."""
    command: Sequence[str] | None = None
    """Program and first arguments in place of ``python -I -m goalwright``."""
    serve_args: Sequence[str] = ()
    """More arguments for ``serve``, e.g. ``("--idle-timeout", "600")``; a running daemon keeps its own."""
    deadline_s: float = START_DEADLINE_S
    answer_s: float = ANSWER_DEADLINE_S
    """How long a running daemon that took the connection may take for ``initialize``."""
    clock: Clock = Clock()

    async def connect(self, workspace: Path, greeting: Greeting) -> tuple[Client, Address]:
        """Return an initialized connection to the daemon of ``workspace``, which is started when there is none.

        Raises LaunchError.
        """
        paths = runtime_paths(workspace, self.home)
        found = await self._try(paths, greeting, self.answer_s)
        if found is not None:
            return found
        deadline = self.clock.now() + self.deadline_s
        try:
            paths.prepare()
            async with self._turn_to_start(paths, deadline):
                return await self._start(paths, greeting, deadline)
        except RuntimeFolderError as error:
            raise LaunchError("runtimeFolder", str(error)) from error

    async def connect_running(self, workspace: Path, greeting: Greeting) -> tuple[Client, Address]:
        """Connect like ``connect``, but start nothing: LaunchError with code ``notRunning`` when there is none."""
        paths = runtime_paths(workspace, self.home, running=True)
        found = await self._try(paths, greeting, self.answer_s)
        if found is None:
            if paths.has_damaged_address() and paths.is_locked():
                raise _damaged(paths)
            words = t("No Goalwright daemon is running for {workspace}.", workspace=paths.workspace)
            raise LaunchError("notRunning", words)
        return found

    async def _try(
        self, paths: RuntimePaths, greeting: Greeting, wait_s: float
    ) -> tuple[Client, Address] | None:
        """Connect and shake hands; None when nothing answers. Raises LaunchError when something else does."""
        address = paths.read_address()
        if address is None:
            return None
        if address.port is not None and not (paths.is_locked() and _lives(address.pid)):
            # Another program may have taken the port, and must not receive our keys. (A socket file in our private
            # folder is safe.) The lock alone does not tell: a new daemon has it before it removes the old address.
            return None
        try:
            client = await Client.connect(address, timeout=wait_s)
        except ConnectionLostError:
            return None
        if address.protocol_version != PROTOCOL_VERSION:
            await client.close()
            theirs = address.protocol_version
            detail = t(
                "it uses protocol {protocol_version}, not {ours}",
                protocol_version=theirs,
                ours=PROTOCOL_VERSION,
            )
            raise _incompatible(address, detail)
        try:
            await client.initialize(paths.workspace, greeting, wait_s)
        except BaseException as error:
            await client.close()
            if isinstance(error, ConnectionLostError):
                return None  # it was just stopping
            if isinstance(error, RequestTimeoutError):
                words = t(
                    "The daemon (process {pid}) accepts connections but does not answer. Stop it with `goalwright "
                    "stop --force` and try again.",
                    pid=address.pid,
                )
                raise LaunchError("unresponsive", words) from error
            if isinstance(error, RpcError):
                if error.code == ErrorCode.UNAUTHORIZED and paths.read_address() != address:
                    return None  # we had read the address of its predecessor
                raise _refused(address, error) from error
            raise
        return client, address

    @contextlib.asynccontextmanager
    async def _turn_to_start(self, paths: RuntimePaths, deadline: float) -> AsyncGenerator[None]:
        while (free := paths.take(paths.start_lock_file)) is None:
            if self.clock.now() > deadline:
                raise LaunchError("startTimeout", _late(paths, self.deadline_s, 0))
            await self.clock.sleep(_PAUSE_S)
        try:
            yield
        finally:
            free()

    async def _start(
        self, paths: RuntimePaths, greeting: Greeting, deadline: float
    ) -> tuple[Client, Address]:
        process: subprocess.Popen[bytes] | Forked | None = None
        log_start = 0
        while True:
            # Try again first, because another client may have started it while this one waited.
            found = await self._try(paths, greeting, max(self.answer_s, deadline - self.clock.now()))
            if found is not None:
                return found
            if self.clock.now() > deadline:
                starting = process is not None and process.poll() is None
                if not starting and paths.read_address() is None and paths.is_locked():
                    raise _damaged(paths)
                raise LaunchError("startTimeout", _late(paths, self.deadline_s, log_start))
            code = process.poll() if process else EXIT_ALREADY_RUNNING
            if code == EXIT_ALREADY_RUNNING:
                # Once at the start, and again after a daemon that was stopping but still held the lock.
                if process is not None and paths.has_damaged_address():
                    raise _damaged(paths)
                process, log_start = self._spawn(paths)
            elif code is not None:
                raise LaunchError("startFailed", _failed(paths, code, log_start))
            await self.clock.sleep(_PAUSE_S)

    def _spawn(self, paths: RuntimePaths) -> tuple[subprocess.Popen[bytes] | Forked, int]:
        """Start ``serve`` so that it outlives us. Returns it with the length of the log before it."""
        arguments = ["serve", "--workspace", str(paths.workspace), *self.serve_args]
        env = daemon_environment(os.environ, passed_on(self.home))
        if self.home is not None or "GOALWRIGHT_HOME" in env:
            env["GOALWRIGHT_HOME"] = str(state_dir(self.home))  # absolute: it starts in another folder
        try:
            descriptor, log_start = open_log(paths.log_file)
        except OSError as error:
            words = t("Cannot write {log_file}: {strerror}", log_file=paths.log_file, strerror=error.strerror)
            raise LaunchError("runtimeFolder", words) from error
        flags = 0
        if sys.platform == "win32":
            flags = subprocess.DETACHED_PROCESS | subprocess.CREATE_NEW_PROCESS_GROUP
        command = [*(self.command or daemon_command()), *arguments]
        try:
            if self.command is None:
                with Path(os.devnull).open("r+b", buffering=0) as nothing:
                    streams = (nothing.fileno(), nothing.fileno(), descriptor)
                    forked = fork(arguments, env, paths.folder, streams, self.home)
                if forked is not None:
                    return forked, log_start
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=descriptor,
                # Not the workspace, so that nothing in it is ever found by a relative path or an import.
                cwd=paths.folder,
                env=env,
                start_new_session=True,
                creationflags=flags,
            )
        except OSError as error:
            words = t("Cannot run {command}: {strerror}", command=command[0], strerror=error.strerror)
            raise LaunchError("startFailed", words) from error
        finally:
            os.close(descriptor)
        return process, log_start


class LastingConnection:
    """A connection to the daemon of a folder, made again when the daemon has ended."""

    def __init__(
        self, launcher: Launcher, workspace: Path, made: Callable[[Client], None] = lambda _: None
    ) -> None:
        """``made``: called with each new connection."""
        self._launcher = launcher
        self._workspace = workspace
        self._made = made
        self._connecting = asyncio.Lock()
        self.client: Client | None = None
        """The last one; None while there has been none."""

    async def get(self, greeting: Callable[[], Greeting]) -> Client:
        """Return the connection. Raises LaunchError."""
        async with self._connecting:
            if self.client is None or self.client.closed:
                self.client, _ = await self._launcher.connect(self._workspace, greeting())
                self._made(self.client)
            return self.client

    async def close(self) -> None:
        """Hang up; the daemon goes on."""
        if self.client is not None:
            await self.client.close()


async def ensure_daemon(workspace: Path, launcher: Launcher | None = None) -> Address:
    """Return the address of the daemon of ``workspace``, which is started when there is none. Raises LaunchError."""
    client, address = await (launcher or Launcher()).connect(workspace, Greeting(client="launcher"))
    await client.close()
    return address


def passed_on(home: Path | None = None) -> list[str]:
    """Return the setting ``environment`` of the user's file. The daemon reports problems of that file."""
    # Importing daemon.config would take longer than everything else here.
    try:
        value: object = json.loads(read_regular(state_dir(home) / "config.json", MAX_SETTINGS, follow=True))
    except (OSError, ValueError, RecursionError):
        return []
    return strings(mapping(value).get("environment"))


def runtime_paths(workspace: Path, home: Path | None = None, *, running: bool = False) -> RuntimePaths:
    """Return the runtime paths of an existing workspace. Raises LaunchError.

    ``running``: also of a folder that was deleted or closed, while its daemon runs.
    """
    try:
        paths = RuntimePaths.for_workspace(workspace, home)
        if running and paths.is_locked():
            return paths
        if not workspace.is_dir():
            problem = t("is not a folder") if workspace.exists() else t("does not exist")
        elif not os.access(workspace, os.X_OK):
            problem = t("cannot be entered by this user")
        else:
            return paths
    except (OSError, RuntimeError) as error:  # RuntimeError: no home folder can be found
        words = t("Cannot use the workspace {workspace}: {error}", workspace=workspace, error=error)
        raise LaunchError("workspace", words) from error
    raise LaunchError(
        "workspace", t("The workspace {workspace} {problem}.", workspace=workspace, problem=problem)
    )


def daemon_command() -> list[str]:
    """Return the program and first arguments of the daemon: this interpreter, this code, and nothing of the workspace.

    ``-I`` removes the current folder, ``PYTHONPATH`` and the user's site-packages from the import path. When this code
    itself is in one of the latter two, that one place is added again, at the end of the path.
    """
    place = own_folders()[-1]
    named = [str(Path(p).resolve()) for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
    site = sys.modules.get("site")
    user_site = getattr(site, "USER_SITE", None) if getattr(site, "ENABLE_USER_SITE", False) else None
    if place in named or (user_site and place == str(Path(user_site).resolve())):
        bootstrap = f"import sys; sys.path.append({place!r}); from goalwright import main; sys.exit(main())"
        return [sys.executable, "-I", "-c", bootstrap]
    return [sys.executable, "-I", "-m", "goalwright"]


def start_preloader() -> None:
    """Have the preloader of this installation run. Blocks for a moment. Raises RuntimeFolderError, OSError."""
    paths = preloader_paths()
    if sys.platform != "linux" or paths.is_locked():
        return
    paths.prepare()
    process = subprocess.Popen(
        [*daemon_command(), "preload"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=paths.folder,
        env=preloader_environment(os.environ, passed_on()),
    )
    with contextlib.suppress(OSError):
        # It imports when the processor has nothing better to do.
        os.sched_setscheduler(process.pid, os.SCHED_IDLE, os.sched_param(0))
    process.wait()  # it goes on in the background


def open_log(path: Path) -> tuple[int, int]:
    """Open a log for appending; a long one is moved away. Returns descriptor and length."""
    with contextlib.suppress(FileNotFoundError):
        if path.stat().st_size > LOG_LIMIT:
            path.replace(path.with_suffix(".log.1"))
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    return descriptor, os.fstat(descriptor).st_size


def _tail(path: Path, start: int) -> str:
    """Return the log after byte ``start``, at most its last 2 000 characters."""
    try:
        text = path.read_bytes()[start:].decode("utf-8", "replace").strip()
    except OSError:
        return ""
    return ("…" if len(text) > _TAIL else "") + tail(text, _TAIL)


def _failed(paths: RuntimePaths, code: int, log_start: int) -> str:
    tail = _tail(paths.log_file, log_start) or t("It wrote no log.")
    return t(
        "The daemon exited at once (exit code {code}):\n{tail}\nLog: {log_file}",
        code=code,
        tail=tail,
        log_file=paths.log_file,
    )


def _late(paths: RuntimePaths, deadline_s: float, log_start: int) -> str:
    tail = _tail(paths.log_file, log_start)
    said = t(" Its log says:\n{tail}\n", tail=tail) if tail else " "
    return t(
        "The daemon did not answer within {deadline_s:g} s.{said}Log: {log_file}",
        deadline_s=deadline_s,
        said=said,
        log_file=paths.log_file,
    )


def _lives(pid: int) -> bool:
    import psutil

    return psutil.pid_exists(pid)


def _damaged(paths: RuntimePaths) -> LaunchError:
    state = t("is damaged") if paths.address_file.exists() else t("is missing")
    return LaunchError(
        "unresponsive",
        t(
            "A daemon is running (process {read_pid}), but the file with its address {state}: "
            "{address_file}. Stop it with `goalwright stop --force` and try again.",
            read_pid=paths.read_pid() or "unknown",
            state=state,
            address_file=paths.address_file,
        ),
    )


def _refused(address: Address, error: RpcError) -> LaunchError:
    if error.code == ErrorCode.INCOMPATIBLE:
        return _incompatible(address, str(error))
    if error.code == ErrorCode.UNAUTHORIZED:
        return LaunchError(
            "unauthorized",
            t(
                "The daemon (process {pid}) does not accept the token in its address file. Stop it with "
                "`goalwright stop --force` and try again.",
                pid=address.pid,
            ),
        )
    return LaunchError(
        "startFailed",
        t("The daemon (process {pid}) refused the connection: {error}", pid=address.pid, error=error),
    )


def _incompatible(address: Address, detail: str) -> LaunchError:
    return LaunchError(
        "incompatible",
        t(
            "The running daemon (version {version}, process {pid}) does not match this client: {detail}. "
            "Stop it with `goalwright stop` and try again.",
            version=address.version,
            pid=address.pid,
            detail=detail,
        ),
    )
