"""Where the daemon of a workspace is found: its private folder, address file, socket and lock.

Everything is derived from the user's home and the workspace's path alone, so that a terminal, an editor and
a remote shell with different environments still meet in the same daemon. (``XDG_RUNTIME_DIR`` is not the
meeting place: it is set in a login shell and unset in a container or cron job, which would make two daemons
for one workspace. It only holds the socket when the path under the home would be too long.)

Light on purpose: the terminal client imports this on its way to the first request. So its records and those of the
client are named tuples: importing msgspec takes a tenth of that way.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from daemon import lock
from daemon.workspace_key import real_workspace, workspace_key
from tools.files.regular_files import os_errors, write_private
from tools.json_access import mapping
from tools.localization import noted, t

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

_PR_SET_DUMPABLE = 4
"""Option of ``prctl``, see linux/prctl.h."""
SOCKET_PATH_LIMIT = 100
"""Bytes. The kernel's limit is 104 on macOS and 108 on Linux, the closing zero included."""

LOCK_WAIT_S = 0.5
"""A client that looks whether the lock is free holds it for an instant; a starting daemon waits that out."""
_LOCK_POLL_S = 0.02
_HINT = noted("set GOALWRIGHT_HOME to a folder that you own")


class RuntimeFolderError(Exception):
    """Raised when the private folder cannot be created or is not safe to use. The message says what to do."""


class AlreadyRunningError(Exception):
    """Another daemon has the lock of this workspace. ``address`` is None while it is still starting."""

    def __init__(self, workspace: Path, address: Address | None) -> None:
        who = t("process {pid}", pid=address.pid) if address else t("a process that is starting or stopping")
        super().__init__(
            t(
                "A Goalwright daemon for {workspace} is already running ({who}). Use it, or stop it with "
                "`goalwright stop`.",
                workspace=workspace,
                who=who,
            )
        )
        self.address = address


class Address(NamedTuple):
    """How to reach a running daemon: the content of ``daemon.json``, with either socket or port."""

    pid: int
    token: str
    """Secret of this run of the daemon; the first line of each connection has it."""
    version: str
    protocol_version: int
    workspace: str
    started_at: str
    """ISO 8601, UTC."""
    socket: str | None = None
    """Path of a Unix domain socket."""
    port: int | None = None
    """TCP port on 127.0.0.1, where there are no Unix domain sockets (Windows)."""

    @staticmethod
    def from_json(value: object) -> Address:
        """Return the address that an address file holds. Raises ValueError."""
        given = mapping(value)
        found = Address._make(given.get(name) for name, _ in _ADDRESS)
        kinds = zip(found, _ADDRESS, strict=True)
        if not all(isinstance(part, kind) and not isinstance(part, bool) for part, (_, kind) in kinds):
            raise ValueError("a field of the address is missing or of the wrong kind")
        if (found.socket is None) == (found.port is None):
            raise ValueError("an address has a socket or a port")
        return found

    def to_json(self) -> dict[str, Any]:
        """Return what an address file holds; Any because it is JSON."""
        return {name: part for part, (name, _) in zip(self, _ADDRESS, strict=True) if part is not None}

    def __repr__(self) -> str:
        return f"Address({self.pid}, {self.workspace!r})"  # without the token


_ADDRESS = (
    ("pid", int),
    ("token", str),
    ("version", str),
    ("protocolVersion", int),
    ("workspace", str),
    ("startedAt", str),
    ("socket", str | None),
    ("port", int | None),
)
"""Name and kind of each field of an address in its file."""


def state_dir(home: Path | None = None) -> Path:
    """Folder for what outlives a daemon (the user's ``config.json``, traces of read-only workspaces).

    ``home``, else ``$GOALWRIGHT_HOME``, else ``~/.goalwright``. Absolute; not created here.
    """
    if home is not None:
        return home.absolute()
    named = os.environ.get("GOALWRIGHT_HOME")
    return Path(named).expanduser().absolute() if named else Path.home() / ".goalwright"


def user_home(state: Path) -> Path:
    """Return the folder where the user's files of other programs are, such as ``.claude``. ``state``: ``state_dir``."""
    return Path.home() if os.environ.get("GOALWRIGHT_HOME") else state.parent


def new_token() -> str:
    """Return a fresh secret for one run of a daemon: URL-safe characters, 256 bits."""
    import secrets

    return secrets.token_urlsafe(32)


class RuntimePaths(NamedTuple):
    """The files of one workspace's daemon. ``folder`` and all in it are only for the user."""

    workspace: Path
    """Absolute, symlinks resolved."""
    folder: Path
    key: str
    """Name of ``folder``: 16 hex digits made from the workspace's path."""

    @staticmethod
    def for_workspace(workspace: Path, home: Path | None = None) -> RuntimePaths:
        """Return the paths for ``workspace``. Touches nothing on the disk; call ``prepare`` before writing."""
        resolved = real_workspace(workspace)
        key = workspace_key(resolved)
        return RuntimePaths(resolved, state_dir(home) / "run" / key, key)

    @property
    def address_file(self) -> Path:
        """``daemon.json``: present while the daemon takes connections."""
        return self.folder / "daemon.json"

    @property
    def lock_file(self) -> Path:
        """Locked by the daemon for its whole life; the kernel frees it when the process dies."""
        return self.folder / "daemon.lock"

    @property
    def pid_file(self) -> Path:
        """The process that has the lock: to kill it when the address file is damaged."""
        return self.folder / "daemon.pid"

    @property
    def start_lock_file(self) -> Path:
        """Locked by a client while it starts a daemon, so that two clients start one."""
        return self.folder / "start.lock"

    @property
    def log_file(self) -> Path:
        """Path of the daemon's log, including its stderr."""
        return self.folder / "daemon.log"

    @property
    def socket_path(self) -> Path:
        """Path of the Unix domain socket, short enough for the kernel."""
        for folder in self._socket_folders():
            path = folder / "daemon.sock"
            if len(os.fsencode(path)) < SOCKET_PATH_LIMIT:
                return path
        raise RuntimeFolderError(
            t(
                "No usable folder has a path short enough for a socket; {folder} is too long.",
                folder=self.folder,
            )
        )

    def _socket_folders(self) -> Iterator[Path]:
        yield self.folder
        if (runtime := os.environ.get("XDG_RUNTIME_DIR")) and _is_private(Path(runtime)):
            yield Path(runtime) / f"goalwright-{self.key}"
        import tempfile

        for parent in (tempfile.gettempdir(), "/tmp"):
            yield Path(parent) / f"goalwright-{_uid()}-{self.key}"

    def prepare(self) -> None:
        """Make the folder, readable only by the user. Raises RuntimeFolderError."""
        for folder in (self.folder.parent, self.folder):
            private_folder(folder)

    def prepare_socket(self) -> Path:
        """Make the socket's folder, remove a stale socket, return its path. Needs the lock."""
        path = self.socket_path
        if path.parent != self.folder:
            private_folder(path.parent)
        path.unlink(missing_ok=True)
        return path

    def read_address(self) -> Address | None:
        """Return the address in ``daemon.json``; None when it is missing or unreadable. It may be stale."""
        try:
            return Address.from_json(json.loads(self.address_file.read_bytes()))
        except (OSError, ValueError):
            return None

    def read_pid(self) -> int | None:
        """Return the process that holds the lock, None when it is not known. Only true while ``is_locked``."""
        try:
            pid = int(self.pid_file.read_bytes())
        except (OSError, ValueError):
            return None
        return pid if pid > 1 else None

    def has_damaged_address(self) -> bool:
        """Return whether there is an address file that cannot be read. (It is never half-written.)"""
        return os.path.lexists(self.address_file) and self.read_address() is None

    def write_address(self, address: Address) -> None:
        """Publish ``address``, atomically and only for the user. Needs the lock."""
        write_private(self.address_file, json.dumps(address.to_json(), indent=1).encode() + b"\n")

    def is_locked(self) -> bool:
        """Return whether a daemon is alive: the lock is reliable even after ``kill -9``, when the address file is
        stale."""
        try:
            if not self.lock_file.exists():
                return False
            free = lock.take(self.lock_file, shared=True)
        except OSError:  # The user may not look there, so no daemon of theirs can work there.
            return False
        if free is None:
            return True
        free()
        return False

    @staticmethod
    def take(file: Path) -> Callable[[], None] | None:
        """Lock one of these files, as ``lock.take`` does. Raises RuntimeFolderError."""
        words = noted("Cannot lock {lock_file} ({strerror}): {hint}.")
        with os_errors(RuntimeFolderError, words, lock_file=file, hint=t(_HINT)):
            return lock.take(file)

    @contextlib.contextmanager
    def hold_lock(self, wait_s: float = LOCK_WAIT_S) -> Generator[None]:
        """Be the daemon of this workspace. Clears what a killed one left behind, and cleans up at the end.

        Raises AlreadyRunningError when another process has the lock after ``wait_s`` seconds, RuntimeFolderError.
        """
        self.prepare()
        deadline = time.monotonic() + wait_s
        while (free := self.take(self.lock_file)) is None:
            if time.monotonic() >= deadline:
                raise AlreadyRunningError(self.workspace, self.read_address())
            time.sleep(_LOCK_POLL_S)
        try:
            self.clear()
            write_private(self.pid_file, b"%d\n" % os.getpid())
            yield
        finally:
            # While the lock is held, no successor can have written these.
            self.clear()
            with contextlib.suppress(OSError):
                self.pid_file.unlink(missing_ok=True)
            free()

    def clear(self) -> None:
        """Remove the address file and the socket. Needs the lock."""
        address = self.read_address()
        with contextlib.suppress(OSError):
            self.address_file.unlink(missing_ok=True)
        if address is None or address.socket is None:
            return
        socket = Path(address.socket)
        with contextlib.suppress(OSError):
            socket.unlink(missing_ok=True)
            if socket.parent != self.folder:
                socket.parent.rmdir()


def private_folder(path: Path) -> None:
    """Make ``path`` a folder that only the user can enter; excess permission bits are removed.

    Raises RuntimeFolderError when it cannot be made, is not a folder, or belongs to another user (who could offer a
    socket of their own there, and receive our keys).
    """
    hint = t(_HINT)
    words = noted("Cannot create the folder {path} ({strerror}): {hint}.")
    with os_errors(RuntimeFolderError, words, path=path, hint=hint):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode=0o700)
        # Not stat: a symlink planted in a shared folder must not be followed.
        info = path.lstat()
    if not stat.S_ISDIR(info.st_mode):
        raise RuntimeFolderError(t("{path} is not a folder: remove it, or {hint}.", path=path, hint=hint))
    if sys.platform == "win32":
        return  # Access lists make profiles private; the mode bits are meaningless there.
    if info.st_uid != _uid():
        owner = t("another user (id {st_uid})", st_uid=info.st_uid)
        raise RuntimeFolderError(
            t(
                "The folder {path} belongs to {owner}: remove it, or {hint}.",
                path=path,
                owner=owner,
                hint=hint,
            )
        )
    if info.st_mode & 0o077:
        words = noted("Other users can access {path}, and its permissions cannot be changed: {strerror}")
        with os_errors(RuntimeFolderError, words, path=path):
            path.chmod(0o700)


def _is_private(path: Path) -> bool:
    try:
        info = path.stat()
    except OSError:
        return False
    return stat.S_ISDIR(info.st_mode) and info.st_uid == _uid() and not info.st_mode & 0o077


def _uid() -> int:
    return 0 if sys.platform == "win32" else os.geteuid()


def keep_memory_private() -> None:
    """Keep the memory and environment of this process from other processes of its user, on Linux.

    They can attach to it and read ``/proc/<pid>/environ``, ``mem`` and ``fd`` otherwise, the commands of a model among
    them. Programs that it starts are as usual. It leaves no core dump then. Nothing keeps root out but the sandbox.
    """
    if sys.platform != "linux":
        return
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
