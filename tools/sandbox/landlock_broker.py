"""Do for a command under Landlock what Landlock cannot grant: new entries of some folders, modes, Unix sockets.

Landlock only allows, and what it allows in a folder applies to everything below. A folder that has something protected
in it (an *edge*, such as the workspace with ``.env``, or ``.git`` with ``hooks``) therefore gets no rights of its own,
only its other entries do. So the kernel rejects new entries there. The system call filter sends calls that make, remove
or rename entries to the broker, which does them itself where the parent folder is an edge and the name is not
protected. A new folder or file is taken from a pool whose members have rules of their own, so that the kernel allows
later operations in it. Calls that the broker does not handle go back to the kernel, where Landlock decides: a mistake
here can reject too much, and a program that changes its arguments meanwhile gains nothing.

The broker uses descriptors of folders that it opened before the command began, and with arguments that it read once.
Only few modules are imported, as this starts with every command.
"""

# ruff: noqa: PTH101, PTH208, PTH115, PTH116, PTH120, PTH123
# The rules above are off because pathlib would double the start-up time.

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import stat
import struct

from tools.sandbox.landlock_rules import (
    HERE,
    Edge,
    Identity,
    Pool,
    Ruleset,
    birth,
    call,
    checked,
    identity,
    libc,
    open_path,
    rename,
)
from tools.sandbox.landlock_sockets import INTERNET, UNIX, Sockets, at_address, domain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PIDFD_OPEN, PIDFD_GETFD = 434, 438
_NO_REPLACE = 1
_PAGE = 4096
_RECEIVE, _SEND, _IS_VALID, _ADD_FD = 0xC0502100, 0xC0182101, 0x40082102, 0x40182103
_CONTINUE, _SEND_WITH_FD = 1, 2
_AT_REMOVEDIR, _AT_SYMLINK_NOFOLLOW, _AT_EMPTY_PATH = 0x200, 0x100, 0x1000
_OF_SOCKETS = ("connect", "bind", "listen")
_OF_METADATA = ("chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown", "fchownat")
_SIGNALS = ("kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_send_signal")
Arguments = tuple[int, ...]


class _NativeError(Exception):
    """The kernel shall do the call itself, under Landlock."""


class WaitingThread:
    """A thread that waits for an answer."""

    def __init__(self, pid: int, token: int, listener: int) -> None:
        self.pid, self.token, self._listener = pid, token, listener

    def answer(self, error: int, flags: int) -> None:
        """Let the thread continue."""
        try:
            fcntl.ioctl(self._listener, _SEND, struct.pack("=QqiI", self.token, 0, -error, flags))
        except OSError:
            pass  # it was killed in the meantime

    def answer_with(self, fd: int, flags: int) -> None:
        """Let the thread continue with a descriptor. Raises OSError."""
        message = struct.pack("=QIIII", self.token, _SEND_WITH_FD, fd, 0, flags & os.O_CLOEXEC)
        fcntl.ioctl(self._listener, _ADD_FD, message)

    def _confirm(self) -> None:
        """Raise OSError if it is gone, so that its number may be another's."""
        fcntl.ioctl(self._listener, _IS_VALID, struct.pack("=Q", self.token))

    def memory(self, address: int, size: int) -> bytes:
        """Read from it, less than ``size`` where no more is there. Raises OSError."""
        # Read in two parts, because the next page may not be mapped.
        first = min(size, _PAGE - address % _PAGE)
        buffer = ctypes.create_string_buffer(size)
        here = struct.pack("=QQ", ctypes.addressof(buffer), size)
        there = struct.pack("=QQQQ", address, first, address + first, size - first)
        got = checked(libc.process_vm_readv(self.pid, here, 1, there, 2, 0))
        self._confirm()
        return buffer.raw[:got]

    def text(self, address: int) -> str:
        """Read a path. Raises OSError."""
        path, end, _ = self.memory(address, _PAGE).partition(b"\0")
        if not end:
            raise OSError(errno.ENAMETOOLONG, "")
        return os.fsdecode(path)

    def reach(self, at: int, path: str) -> str:
        """Return a path by which the broker finds what the caller names."""
        for own, meant in (("/proc/self/", f"/proc/{self.pid}/"), ("/dev/fd/", f"/proc/{self.pid}/fd/")):
            if path.startswith(own):
                return meant + path[len(own) :]
        if path.startswith("/"):
            return path
        return f"/proc/{self.pid}/cwd/{path}" if at == HERE else f"/proc/{self.pid}/fd/{at}/{path}"

    def _status(self, name: bytes) -> bytes:
        with open(f"/proc/{self.pid}/status", "rb") as file:
            return next((line[len(name) :].strip() for line in file if line.startswith(name)), b"")

    def umask(self) -> int:
        """Bits that its new files shall not have. Raises OSError."""
        return int(self._status(b"Umask:") or b"077", 8)

    def process(self, fd: int) -> int:
        """Return the process that one of its descriptors refers to. Raises OSError."""
        with open(f"/proc/{self.pid}/fdinfo/{fd}", "rb") as file:
            return next((int(line.split()[1]) for line in file if line.startswith(b"Pid:")), -1)

    def descriptor(self, fd: int) -> int:
        """Return a copy of one of its descriptors. Raises OSError."""
        process = call(PIDFD_OPEN, int(self._status(b"Tgid:") or b"0"), 0)
        try:
            self._confirm()
            return call(PIDFD_GETFD, process, fd, 0)
        finally:
            os.close(process)


class Broker:
    """Answers what the filter asks about."""

    def __init__(self, plan: dict[str, Any], rules: Ruleset) -> None:
        """Give rules to objects that it will need; the rules apply from the moment when they are put into force."""
        self._calls: dict[int, str] = plan["calls"]
        self._network: bool = plan["network"]
        self._ruled, self._writable = rules.ruled, rules.writable
        self._edges: dict[Identity, Edge] = {}
        self._pools: dict[int, Pool] = {}
        self._kept: set[Identity] = set()
        self._made: dict[Identity, int] = {}
        """Entries that the command has put into edges, each with an unused descriptor: while it is open, no file of
        others gets the same number."""
        self._sockets = Sockets()
        self._parents: list[int] = []
        self._record: str = plan["record"]
        self._earlier: dict[str, Identity] = plan["made"]
        self._recorded: set[Identity] = set()
        for path in plan["kept"]:
            try:
                self._kept.add(identity(os.stat(path, follow_symlinks=False)))
            except OSError:
                continue
        for row in plan["edges"]:
            try:
                edge = Edge(row)
            except OSError:
                continue
            self._edges[identity(os.fstat(edge.fd))] = edge
            if edge.pooled and edge.disk not in self._pools:
                self._add_pool(edge, plan, rules)

    def begin(self) -> None:
        """Get ready in the process that answers. The command does not inherit what this changes."""
        import resource

        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        for path, it in self._earlier.items():
            try:
                fd = open_path(path)
            except OSError:
                continue
            self._hold(fd, it)
        self._recorded = set(self._made)

    def _hold(self, fd: int, it: Identity | None = None) -> None:
        """Remember what ``fd`` is as made by the command, if it is ``it``. The descriptor is ours from now on."""
        found = identity(os.fstat(fd))
        if found in self._made or (it is not None and found != it):
            os.close(fd)
        else:
            self._made[found] = fd

    def _remember(self, edge: Edge, name: str, it: Identity | None = None) -> None:
        try:
            self._hold(os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=edge.fd), it)
        except OSError:
            return  # too many: the command cannot use it any more, nor anything else instead

    def _forget(self, info: os.stat_result) -> None:
        """Forget an object that has left edges. A file with more names may still be in one."""
        if info.st_nlink < 2 or stat.S_ISDIR(info.st_mode):
            fd = self._made.pop(identity(info), -1)
            if fd >= 0:
                os.close(fd)

    def _add_pool(self, edge: Edge, plan: dict[str, Any], rules: Ruleset) -> None:
        try:
            pool = Pool(edge, plan["private"], plan["folders"], plan["files"])
        except OSError:
            return  # the user may not write there, either
        pool.allow(rules, plan["rights"])
        self._pools[edge.disk] = pool

    def clear(self) -> None:
        """Remove the rest of pools in edges, and record for later commands what this one created in shared ones."""
        lines: list[str] = []
        for edge in self._edges.values():
            if edge.fresh:
                lines += self._made_in(edge)
        if lines:
            fd = os.open(self._record, os.O_CREAT | os.O_APPEND | os.O_WRONLY | os.O_CLOEXEC, 0o600)
            os.write(fd, os.fsencode("".join(lines)))
            os.close(fd)
        for pool in self._pools.values():
            pool.clear()

    def _made_in(self, edge: Edge) -> list[str]:
        found: list[str] = []
        for name in os.listdir(edge.path):
            try:
                it = identity(os.stat(name, dir_fd=edge.fd, follow_symlinks=False))
            except OSError:
                continue
            path = f"{edge.path}/{name}"
            if it in self._made and it not in self._recorded and "\n" not in name:
                found.append(f"{it[0]} {it[1]} {birth(path)} {path}\n")
        return found

    def answer(self, listener: int) -> None:
        """Take one question and answer it. A caller that is gone meanwhile needs no answer."""
        raw = bytearray(80)
        try:
            fcntl.ioctl(listener, _RECEIVE, raw)
        except OSError:
            return
        token, pid, _, number, _, _, *arguments = struct.unpack("=QIIiIQ6Q", raw)
        name, caller = self._calls[number], WaitingThread(pid, token, listener)
        if name != "connect":
            self._answer(name, caller, tuple(arguments))
            return
        # This may take long, and other threads must not wait for it.
        import threading

        threading.Thread(target=self._answer, args=(name, caller, tuple(arguments)), daemon=True).start()

    def _answer(self, name: str, caller: WaitingThread, arguments: Arguments) -> None:
        error, flags = 0, 0
        try:
            opened = self._do(name, caller, arguments)
            if opened is not None:
                try:
                    caller.answer_with(*opened)
                    return
                finally:
                    os.close(opened[0])
        except _NativeError:
            flags = _CONTINUE
        except OSError as problem:
            error = problem.errno or errno.EACCES
        except (ArithmeticError, LookupError, ValueError):
            error = errno.EINVAL  # invalid arguments must not stop the answers to other threads
        caller.answer(error, flags)

    def _do(self, name: str, caller: WaitingThread, a: Arguments) -> tuple[int, int] | None:
        """Perform a call. Returns the opened descriptor, if any, with its flags. Raises _NativeError or OSError."""
        if name.startswith("open"):
            at, path, flags, mode = (HERE, *a[:3]) if name == "open" else (_signed(a[0]), *a[1:4])
            return self._open(caller, at, path, _signed(flags), mode)
        if name == "creat":
            return self._open(caller, HERE, a[0], os.O_CREAT | os.O_WRONLY | os.O_TRUNC, a[1])
        if name in _OF_SOCKETS:
            self._socket(name, caller, a)
        elif name in _OF_METADATA:
            self._metadata(name, caller, a)
        elif name in _SIGNALS:
            self._signal(name, caller, a)
        else:
            try:
                self._entry(name, caller, a)
            finally:
                while self._parents:
                    os.close(self._parents.pop())
        return None

    # Entries of folders

    def _entry(self, name: str, caller: WaitingThread, a: Arguments) -> None:
        match name:
            case "mkdir":
                self._make_folder(caller, HERE, a[0], a[1])
            case "mkdirat":
                self._make_folder(caller, _signed(a[0]), a[1], a[2])
            case "rmdir" | "unlink":
                self._remove(caller, HERE, a[0], _AT_REMOVEDIR if name == "rmdir" else 0)
            case "unlinkat":
                self._remove(caller, _signed(a[0]), a[1], a[2])
            case "symlink":
                self._make_symlink(caller, a[0], HERE, a[1])
            case "symlinkat":
                self._make_symlink(caller, a[0], _signed(a[1]), a[2])
            case "rename" | "link":
                self._move(name, caller, (HERE, a[0], HERE, a[1], 0))
            case _:
                self._move(
                    name,
                    caller,
                    (_signed(a[0]), a[1], _signed(a[2]), a[3], 0 if name == "renameat" else a[4]),
                )

    def _place(self, caller: WaitingThread, at: int, address: int) -> tuple[Edge | None, str, str]:
        """Return where a path leads: the edge if it is one, the parent by a path of ours, and the entry's name."""
        parent, _, name = caller.reach(at, caller.text(address)).rstrip("/").rpartition("/")
        if name in ("", ".", ".."):
            raise _NativeError
        parent += "/"
        try:
            return self._edges.get(identity(os.stat(parent))), parent, name
        except OSError:
            raise _NativeError from None

    def _in_edge(self, caller: WaitingThread, at: int, address: int) -> tuple[Edge, str]:
        edge, _, name = self._place(caller, at, address)
        if edge is None or not edge.writable:
            raise _NativeError
        return edge, name

    def _may_make(self, edge: Edge, name: str) -> None:
        if name.casefold() in edge.kept:
            raise OSError(errno.EACCES, "")

    def _may_take(self, edge: Edge, name: str) -> os.stat_result:
        """Return whether an entry may be renamed or removed. Raises OSError."""
        info = os.stat(name, dir_fd=edge.fd, follow_symlinks=False)
        it = identity(info)
        self._may_make(edge, name)
        if it in self._kept or it in self._edges or (edge.fresh and it not in self._made):
            raise OSError(errno.EACCES, "")
        return info

    def _open(self, caller: WaitingThread, at: int, address: int, flags: int, mode: int) -> tuple[int, int]:
        if flags & os.O_PATH or flags & os.O_TMPFILE == os.O_TMPFILE:
            raise _NativeError
        if flags & os.O_DIRECTORY:
            return self._list(caller, at, address), flags
        edge, name = self._in_edge(caller, at, address)
        try:
            info = os.stat(name, dir_fd=edge.fd, follow_symlinks=False)
        except FileNotFoundError:
            if not flags & os.O_CREAT:
                raise
            self._may_make(edge, name)
            return self._make_file(edge, name, flags, mode & 0o777 & ~caller.umask()), flags
        it = identity(info)
        if it in self._ruled or it not in self._made or not stat.S_ISREG(info.st_mode):
            raise _NativeError
        if flags & os.O_CREAT and flags & os.O_EXCL:
            raise OSError(errno.EEXIST, "")
        self._may_make(edge, name)
        return self._open_made(edge, name, flags, it), flags

    def _open_made(self, edge: Edge, name: str, flags: int, it: Identity) -> int:
        """Open a file that the command has put into an edge."""
        left_out = os.O_CREAT | os.O_EXCL | os.O_TRUNC
        fd = os.open(name, flags & ~left_out | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=edge.fd)
        try:
            if identity(os.fstat(fd)) != it:
                raise OSError(errno.EACCES, "")
            if flags & os.O_TRUNC:
                os.ftruncate(fd, 0)
            if not flags & os.O_NONBLOCK:
                fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) & ~os.O_NONBLOCK)
        except BaseException:
            os.close(fd)
            raise
        return fd

    def _make_file(self, edge: Edge, name: str, flags: int, mode: int) -> int:
        pool = self._pools.get(edge.disk) if edge.pooled else None
        made = pool.give_file(edge, name) if pool else -1
        if made < 0:
            made = os.open(name, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600, dir_fd=edge.fd)
        try:
            it = identity(os.fstat(made))
            self._remember(edge, name, it)
            fd = self._open_made(edge, name, flags, it)
            os.fchmod(made, mode)
            return fd
        finally:
            os.close(made)

    def _list(self, caller: WaitingThread, at: int, address: int) -> int:
        """Open a folder whose own entries may be listed, but not those of all folders in it."""
        path = caller.text(address)
        try:
            edge = self._edges.get(identity(os.stat(caller.reach(at, path)))) if path else None
        except OSError:
            raise _NativeError from None
        if edge is None:
            raise _NativeError
        return os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=edge.fd)

    def _make_folder(self, caller: WaitingThread, at: int, address: int, mode: int) -> None:
        edge, name = self._in_edge(caller, at, address)
        pool = self._pools.get(edge.disk) if edge.pooled else None
        if pool is None or _exists(edge, name):
            raise _NativeError
        self._may_make(edge, name)
        self._remember(edge, name, pool.give_folder(edge, name, mode & 0o1777 & ~caller.umask()))

    def _remove(self, caller: WaitingThread, at: int, address: int, flags: int) -> None:
        edge, name = self._in_edge(caller, at, address)
        info = self._may_take(edge, name)
        if flags & _AT_REMOVEDIR:
            os.rmdir(name, dir_fd=edge.fd)
        else:
            os.unlink(name, dir_fd=edge.fd)
        self._forget(info)

    def _make_symlink(self, caller: WaitingThread, target: int, at: int, address: int) -> None:
        edge, name = self._in_edge(caller, at, address)
        self._may_make(edge, name)
        os.symlink(caller.text(target), name, dir_fd=edge.fd)
        self._remember(edge, name)

    def _move(self, name: str, caller: WaitingThread, a: tuple[int, int, int, int, int]) -> None:
        """Rename or link, where at least one end is in an edge."""
        flags = a[4]
        if flags & ~(_NO_REPLACE if name.startswith("rename") else 0):
            raise _NativeError
        source, target = self._place(caller, a[0], a[1]), self._place(caller, a[2], a[3])
        if source[0] is None and target[0] is None:
            raise _NativeError
        from_folder, to_folder = self._parent(source[0], source[1]), self._parent(target[0], target[1])
        if source[0] is not None:
            info = self._may_take(source[0], source[2])
        else:
            info = os.stat(source[2], dir_fd=from_folder, follow_symlinks=False)
        replaced = self._may_put(info, source[0], target[0], target[2]) if target[0] is not None else None
        if name.startswith("rename"):
            rename(from_folder, source[2], to_folder, target[2], flags)
        else:
            os.link(source[2], target[2], src_dir_fd=from_folder, dst_dir_fd=to_folder, follow_symlinks=False)
        if target[0] is None:
            if name.startswith("rename"):
                self._forget(info)  # the rules of its new place apply
            return
        if replaced is not None and identity(replaced) != identity(info):
            self._forget(replaced)
        self._remember(target[0], target[2], identity(info))

    def _may_put(
        self, info: os.stat_result, source: Edge | None, target: Edge, name: str
    ) -> os.stat_result | None:
        """Return whether something may come into an edge; in the place of what, if any. Raises OSError."""
        self._may_make(target, name)
        replaced = self._may_take(target, name) if _exists(target, name) else None
        if identity(info) in self._ruled or stat.S_ISLNK(info.st_mode) or source is target:
            return replaced
        if stat.S_ISDIR(info.st_mode) or not target.readable:
            # The command could not use it there without a rule of its own; after this error, ``mv`` makes a copy.
            raise OSError(errno.EXDEV, "")
        return replaced

    def _parent(self, edge: Edge | None, path: str) -> int:
        """Return a descriptor of a folder whose entries may be changed. Raises OSError."""
        if edge is not None and edge.writable:
            return edge.fd
        fd = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self._parents.append(fd)
        if edge is not None or not self._is_writable(fd):
            raise OSError(errno.EACCES, "")
        return fd

    def _is_writable(self, fd: int) -> bool:
        """Return whether the rules let the command write something: one on it, or on a folder above."""
        path: str = os.readlink(f"/proc/self/fd/{fd}")
        if not path.startswith("/"):
            return True  # a pipe or socket of which the command has a descriptor
        info = os.fstat(fd)
        while identity(info) not in self._writable:
            if path == "/":
                return False
            path = os.path.dirname(path)
            info = os.stat(path, follow_symlinks=False)
        return True

    # Modes and owners, which Landlock does not check

    def _metadata(self, name: str, caller: WaitingThread, a: Arguments) -> None:
        if name in ("fchmod", "fchown"):
            target, values = caller.descriptor(_signed(a[0])), a[1:3]
        elif "at" in name:
            flags = a[4] if name == "fchownat" else a[3] if name == "fchmodat2" else 0
            target, values = self._target(caller, _signed(a[0]), a[1], flags), a[2:4]
        else:
            target, values = (
                self._target(caller, HERE, a[0], _AT_SYMLINK_NOFOLLOW if name == "lchown" else 0),
                a[1:3],
            )
        try:
            self._may_change(target)
            if "chmod" in name:
                os.chmod(f"/proc/self/fd/{target}", values[0] & 0o7777)
            else:
                os.chown(f"/proc/self/fd/{target}", _signed(values[0]), _signed(values[1]))
        finally:
            os.close(target)

    def _may_change(self, fd: int) -> None:
        it = identity(os.fstat(fd))
        if it in self._kept or not (it in self._made or self._is_writable(fd)):
            raise OSError(errno.EPERM, "")

    def _target(self, caller: WaitingThread, at: int, address: int, flags: int) -> int:
        path = caller.text(address)
        if path:
            link = os.O_NOFOLLOW if flags & _AT_SYMLINK_NOFOLLOW else 0
            return os.open(caller.reach(at, path), os.O_PATH | os.O_CLOEXEC | link)
        if flags & _AT_EMPTY_PATH and at != HERE:
            return caller.descriptor(at)
        raise OSError(errno.ENOENT, "")

    # Signals, which Landlock confines only from version 6

    def _signal(self, name: str, caller: WaitingThread, a: Arguments) -> None:
        target = _signed(a[0])
        if name == "pidfd_send_signal":
            target = caller.process(target)
        elif name == "kill" and target <= 0:
            self._signal_group(caller, target, _signed(a[1]))
            return
        if not _is_inside(target):
            raise OSError(errno.EPERM, "")
        if name != "pidfd_send_signal":
            raise _NativeError  # its arguments are not in memory that could change
        os.kill(target, _signed(a[1]))

    def _signal_group(self, caller: WaitingThread, target: int, number: int) -> None:
        """Signal those of a group that belong to the command."""
        group = os.getpgid(caller.pid) if target == 0 else -target
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit() and _is_inside(int(name))]
        found = [pid for pid in pids if (target == -1 and pid != caller.pid) or os.getpgid(pid) == group]
        if not found:
            raise OSError(errno.ESRCH, "")
        # The caller comes last, because the signal may end it.
        for pid in sorted(found, key=lambda pid: pid == caller.pid):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue

    # Sockets: the broker binds and connects the caller's own sockets, so that no address changes after its check

    def _socket(self, name: str, caller: WaitingThread, a: Arguments) -> None:
        address = b"" if name == "listen" else caller.memory(a[1], min(a[2], 128))
        fd = caller.descriptor(_signed(a[0]))
        try:
            family = domain(fd)
            if name == "listen":
                self._sockets.listen(fd, family, _signed(a[1]))
            elif family == UNIX:
                self._unix(name, caller, fd, address)
            elif family not in INTERNET or self._network:
                at_address(name, fd, address)
            else:
                self._sockets.loopback(name, fd, address)
        finally:
            os.close(fd)

    def _unix(self, name: str, caller: WaitingThread, fd: int, address: bytes) -> None:
        if len(address) < 3:
            raise _NativeError if name == "bind" else OSError(errno.EINVAL, "")
        if address[2] == 0:
            self._sockets.abstract(name, fd, address)
            return
        path = caller.reach(HERE, os.fsdecode(address[2:].split(b"\0")[0]))
        if name == "connect":
            target = os.open(path, os.O_PATH | os.O_CLOEXEC)
            try:
                self._may_change(target)
                at_address(name, fd, _unix_address(f"/proc/self/fd/{target}"))
            finally:
                os.close(target)
            return
        parent, _, last = path.rpartition("/")
        edge = self._edges.get(identity(os.stat(f"{parent}/")))
        if edge is None or not edge.writable:
            raise _NativeError
        self._may_make(edge, last)
        at_address(name, fd, _unix_address(f"/proc/self/fd/{edge.fd}/{last}"))
        self._remember(edge, last)


def _is_inside(pid: int) -> bool:
    """Return whether a process or thread belongs to the command: all that comes from it are ours, as we adopt
    orphans."""
    us = os.getpid()
    while pid > 1 and pid != us:
        try:
            with open(f"/proc/{pid}/status", "rb") as file:
                pid = next(int(line.split()[1]) for line in file if line.startswith(b"PPid:"))
        except (OSError, StopIteration):
            return False
        if pid == us:
            return True
    return False


def _exists(edge: Edge, name: str) -> bool:
    try:
        os.stat(name, dir_fd=edge.fd, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _unix_address(path: str) -> bytes:
    return struct.pack("=H", UNIX) + os.fsencode(path) + b"\0"


def _signed(value: int) -> int:
    return ctypes.c_int(value & 0xFFFFFFFF).value
