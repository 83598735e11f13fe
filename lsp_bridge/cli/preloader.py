"""A process of the user that has imported everything, and forks daemons in milliseconds. Linux only.

A daemon that starts by itself spends its first second on imports. This process has done them, and waits at a socket in
the user's private folder. Who connects gets a fork, and tells the fork, not this process, what it is to be: so
nothing of an environment stays here. The fork first compares itself with the client by ``/proc``. It refuses if a
program that the client starts would have other rights, namespaces or limits that cannot be taken over.

It is never needed. Clients start the daemon themselves when anything is in the way (``lsp_bridge/cli/preloaded.py``).
It ends when unused, and when a file of this installation has changed. Daemons that it forked live on.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import resource
import secrets
import select
import signal
import socket
import struct
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from daemon.runtime import Address, RuntimeFolderError, keep_memory_private, new_token, state_dir
from daemon.safe_path import own_folders
from daemon.version import product_version
from lsp_bridge.cli.launch import daemon_command, open_log, passed_on
from lsp_bridge.cli.preloaded import AT_THE_START, FORKED, HEADER, preloader_environment, preloader_paths
from tools.files.regular_files import write_private
from tools.localization import DEFAULT, set_language, t

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

IDLE_S = 3600.0
"""Seconds without a request after which it ends."""
_DIFFERS = 77
"""Exit code of a fork by which this process learns that it is of no use to the client."""
_LOOK_S = 300.0
"""Seconds after which it looks whether the installation is as it was."""
_MAX_ORDER = 16 * 1024 * 1024
_ORDER_S = 5.0
_BACKLOG = 64
_MODULES = (
    "anthropic.resources.messages",
    "daemon.__main__",
    "daemon.api.lazy_server",
    "daemon.gc_tuning",
    "daemon.core",
    "daemon.logfile",
    "daemon.planner.driver",
    "daemon.provider.anthropic",
    "daemon.provider.models",
    "daemon.provider.scripted",
    "lsp_bridge.cli.command_line",
    "lsp_bridge.cli.launch",
    "lsp_bridge.language_client.diagnostics.server_source",
    "lsp_bridge.language_client.diagnostics.service",
    "lsp_bridge.language_client.language_services",
    "lsp_bridge.language_client.navigation.server_navigation",
    "lsp_bridge.language_client.pool.server_choice",
    "lsp_bridge.language_client.pool.server_pool",
    "lsp_bridge.server.documents.open_documents",
    "lsp_bridge.server.editor.editor_source",
    "lsp_bridge.server.listen",
    "pygls.progress",
    "yaml",
)
_STATUS = frozenset(
    (
        *("Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs"),
        *("Seccomp", "Seccomp_filters", "Cpus_allowed", "Mems_allowed"),
    )
)
"""Lines of ``/proc/<pid>/status`` that a process hands down."""
_NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts")


class _RefusedError(Exception):
    """Raised in a fork that is not to be what it was asked for."""


class _DiffersError(Exception):
    """Raised in a fork that is not as a process would be that the client starts."""


def preload(idle_s: float | None) -> int | None:
    """Have a preloader run until it is unused for ``idle_s`` seconds (0: for ever). Returns the exit code.

    Returns None in a fork: arguments, environment, streams and folder are then those of a process that is to run.
    """
    if sys.platform != "linux":
        print(t("Processes can be forked from a preloaded one on Linux only."), file=sys.stderr)
        return 1
    if (own := preloader_environment(os.environ, passed_on())) != dict(os.environ):
        # Not by removing them: the memory of the process would still have the others.
        os.execve(sys.executable, [*daemon_command(), *sys.argv[1:]], own)
    paths = preloader_paths()
    try:
        paths.prepare()
        free = paths.take(paths.lock_file)
    except RuntimeFolderError as error:
        print(error, file=sys.stderr)
        return 1
    if free is None:
        print(t("A preloader runs already."))
        return 0
    log, _ = open_log(paths.log_file)
    if os.fork():
        os._exit(0)  # without freeing the lock, which the other one has, too
    os.setsid()
    forked = False
    try:
        with Path(os.devnull).open("r+b", buffering=0) as nothing:
            for number, stream in enumerate((nothing.fileno(), log, log)):
                os.dup2(stream, number)
        os.close(log)
        keep_memory_private()
        os.chdir(paths.folder)
        paths.clear()
        write_private(paths.pid_file, b"%d\n" % os.getpid())
        code = _Code()
        import_all()
        if os.sched_getscheduler(0) == os.SCHED_IDLE:  # see launch.start_preloader
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        if sum(1 for _ in Path("/proc/self/task").iterdir()) > 1:
            print("a library has started a thread: nothing can be forked safely", file=sys.stderr)
            return 1
        token = new_token()
        with socket.socket(socket.AF_UNIX) as listener:
            path = paths.prepare_socket()
            listener.bind(str(path))
            path.chmod(0o600)
            listener.listen(_BACKLOG)
            listener.setblocking(False)
            now = datetime.now(UTC).isoformat()
            version, state = product_version(), str(state_dir())
            paths.write_address(Address(os.getpid(), token, version, 1, state, now, str(path)))
            signal.signal(signal.SIGTERM, _leave)
            connection = _wait(listener, code, IDLE_S if idle_s is None else idle_s or None)
            if connection is None:
                return 0
            forked = True
            listener.detach()  # its number is closed below
            try:
                _become(connection, token)
            except BaseException as error:
                os.write(2, f"refused: {error}\n".encode(errors="replace"))
                os._exit(_DIFFERS if isinstance(error, _DiffersError) else 1)
            return None
    finally:
        if not forked:  # the files and the lock are the parent's
            paths.clear()
            paths.pid_file.unlink(missing_ok=True)
            free()


def _leave(*_: object) -> None:
    raise SystemExit(0)


def import_all() -> None:
    """Import what a daemon and its first request need."""
    from lsp_bridge.server.lazy_lsprotocol import quick_imports

    gc.disable()
    with quick_imports():
        for name in _MODULES:
            importlib.import_module(name)
    from daemon.hooks.entry_points import discover
    from lsp_bridge.server.first_use import build_ahead

    discover()
    for _ in build_ahead():
        pass
    gc.collect()
    gc.freeze()  # a collection in a fork would copy the pages of all objects
    gc.enable()


class _Code:
    """The files of this installation, to see that one has changed since they were imported."""

    def __init__(self) -> None:
        self._seen = {path: _stamp(path) for path in self._files()}

    @staticmethod
    def _files() -> Iterator[str]:
        root = Path(own_folders()[0])
        for package in ("daemon", "lsp_bridge", "tools", "goalwright"):
            for folder, folders, files in os.walk(root / package):
                folders[:] = [name for name in folders if name != "__pycache__"]
                yield from (os.path.join(folder, name) for name in files)  # noqa: PTH118 - a thousand of them
        # Installing or updating a package makes or removes an entry there.
        yield from (entry for entry in sys.path if entry.endswith("-packages"))

    def changed(self) -> bool:
        """Return whether a process that starts now would run other code."""
        return any(_stamp(path) != stamp for path, stamp in self._seen.items())


def _stamp(path: str) -> tuple[int, int] | None:
    try:
        info = os.stat(path)  # noqa: PTH116 - a thousand of them
    except OSError:
        return None
    return info.st_mtime_ns, info.st_size


def _wait(listener: socket.socket, code: _Code, idle_s: float | None) -> socket.socket | None:
    """Fork for each client until nobody comes. Returns the connection in a fork, and None in this process."""
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    children: dict[int, tuple[int, socket.socket]] = {}
    last = time.monotonic()
    while True:
        left = _LOOK_S if idle_s is None else last + idle_s - time.monotonic()
        ready = poll.poll(max(0.0, min(left, _LOOK_S)) * 1000)
        if not ready and (
            (idle_s is not None and left <= _LOOK_S)
            or not os.path.lexists(listener.getsockname())  # nobody can connect any more
            or code.changed()
        ):
            return None
        for number, _ in ready:
            if number != listener.fileno():
                poll.unregister(number)
                if _report(number, *children.pop(number)) == _DIFFERS:
                    return None  # the client starts its daemon, and that a preloader that is like itself
                continue
            try:
                connection, _ = listener.accept()
            except OSError:
                continue  # it is gone already
            last = time.monotonic()
            if _peer(connection) is None:
                connection.close()
                continue
            if code.changed():
                connection.close()  # the client starts the daemon itself
                return None
            pid = os.fork()
            if pid == 0:
                for _, other in children.values():
                    other.detach()
                return connection
            child = os.pidfd_open(pid)
            poll.register(child, select.POLLIN)
            children[child] = (pid, connection)


def _report(child: int, pid: int, connection: socket.socket) -> int:
    """Tell the client, if it is still there, how its process ended. Returns the exit code."""
    os.close(child)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with contextlib.suppress(OSError):
        connection.send(b"%d\n" % code, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
    connection.close()
    return code


def _peer(connection: socket.socket) -> int | None:
    """Return the process at the other end; None when it is another user's or cannot be seen from here."""
    size = struct.Struct("3i")
    pid, uid, _ = size.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size.size))
    return pid if uid == os.geteuid() and pid > 0 else None


# -- in the fork -----------------------------------------------------------------------------------------------


def _become(connection: socket.socket, token: str) -> None:
    """Make this process one that the client might have started. Raises _RefusedError, OSError, ValueError."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    connection.settimeout(_ORDER_S)
    order, streams = _receive(connection)
    if not secrets.compare_digest(order["token"].encode(), token.encode()):
        raise _RefusedError("wrong token")
    env, arguments = order["env"], order["arguments"]
    peer = _peer(connection)
    if peer is None:
        raise _RefusedError("the client is of another user")
    if (theirs := _inherited(peer)) != (ours := _inherited(os.getpid())):
        different = sorted(name for name in theirs if theirs[name] != ours.get(name))
        raise _DiffersError(f"the client differs in {', '.join(different)}")
    if _fixed(env) != _fixed(os.environ):
        raise _DiffersError("variables differ that count when a process starts")
    for limit in (getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")):
        try:
            resource.setrlimit(limit, resource.prlimit(peer, limit))
        except ValueError as error:  # more than this process may have
            raise _DiffersError(str(error)) from error
    os.setsid()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    answer = connection.detach()
    os.closerange(3, answer)
    os.closerange(answer + 1, os.sysconf("SC_OPEN_MAX"))
    os.umask(int(_status(peer)["Umask"], 8))
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    tempfile.tempdir = None  # it remembers the folder of the preloader
    set_language(DEFAULT)
    os.chdir(order["cwd"])
    sys.argv = ["goalwright", *arguments]
    _name([sys.executable, "-I", "-m", "goalwright", *arguments])
    os.write(answer, b"%s%d\n" % (FORKED, os.getpid()))
    os.close(answer)


def _receive(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Return what the process is to be (see ``preloaded.fork``), and its standard streams."""
    head, streams, _, _ = socket.recv_fds(connection, HEADER.size, 3)
    if len(head) != HEADER.size or len(streams) != 3:
        raise _RefusedError("not an order")
    (length,) = HEADER.unpack(head)
    data = bytearray()
    while len(data) < length <= _MAX_ORDER and (part := connection.recv(length - len(data))):
        data += part
    return json.loads(data), streams


def _inherited(pid: int) -> dict[str, object]:
    """Return what a process hands down and no process can take over from another one."""
    found: dict[str, object] = {name: value for name, value in _status(pid).items() if name in _STATUS}
    for name in _NAMESPACES:
        with contextlib.suppress(FileNotFoundError):  # an older kernel
            found[name] = os.readlink(f"/proc/{pid}/ns/{name}")  # noqa: PTH115
    found["root"] = os.readlink(f"/proc/{pid}/root")  # noqa: PTH115
    found["priority"] = (os.getpriority(os.PRIO_PROCESS, pid), os.sched_getscheduler(pid))
    for name in ("oom_score_adj", "attr/current"):
        try:
            found[name] = Path(f"/proc/{pid}/{name}").read_bytes()
        except OSError:
            found[name] = None  # there is no such module in this kernel
    return found


def _status(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text("utf-8", "replace").splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _fixed(env: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Return the locale of characters, and the variables that counted when this process started."""
    locale = env.get("LC_ALL") or env.get("LC_CTYPE") or env.get("LANG") or ""
    return locale, {name: value for name, value in env.items() if name.startswith(AT_THE_START)}


def _name(command: Sequence[str]) -> None:
    """Show this command line in ``ps``, as far as there is room for it: in the place of the first one, and of the
    environment behind it, which is out of use by now."""
    import ctypes

    with contextlib.suppress(OSError, ValueError):
        fields = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
        start, end, behind, whole = map(int, fields[45:49])
        room = (whole if behind == end else end) - start
        if start > 0 and room > 0:
            text = b" ".join(map(os.fsencode, command))[: room - 1]
            ctypes.memmove(start, text.ljust(room, b"\0"), room)
