"""The parent of all commands: a small separate program, so that no command outlives the daemon.

``python -I -S reaper.py <socket> <mark>``, one for a daemon. It gets a request for each command and forks a *warden*,
which starts the command, adopts whatever the command's processes leave behind (Linux: ``PR_SET_CHILD_SUBREAPER``, so
two forks, ``setsid`` and an empty environment hide no process), and stops all of them when the command has ended, at
the daemon's request, or when the daemon is gone, also by ``kill -9``. The processes of a killed warden fall to the
reaper, which kills them. Elsewhere (macOS) only the command's process group is reached.

Standard library only, and little of it: this starts before the first command.
"""

# ruff: noqa: PTH123, PTH208
# The rules above are off because pathlib would double the start-up time.

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import socket
import sys
import time
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

LINGER_S = 0.3
"""Seconds that background children of a finished command may keep writing before they are stopped."""
ORPHAN_GRACE_S = 1.0
"""Between TERM and KILL when the daemon has gone."""
_KILL_PAUSE_S = 0.02
_KILL_ROUNDS = 150
_DAEMON_GONE_S = 10.0
_IGNORED = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGPIPE", "SIGXFSZ", "SIGALRM")
_PR_SET_CHILD_SUBREAPER = 36
_LINUX = sys.platform.startswith("linux")


def adopt_orphans() -> bool:
    """Become the parent of all descendants whose own parent ends; False where the system has no such thing."""
    if not _LINUX:
        return False
    try:
        return ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    except (OSError, AttributeError):
        return False


def living() -> Iterator[tuple[int, bytes, list[bytes]]]:
    """Yield each process that lives: its number, its name, and the other fields of its ``stat``. Linux."""
    for number in os.listdir("/proc"):
        if not number.isdigit():
            continue
        try:
            with open(f"/proc/{number}/stat", "rb") as file:
                stat = file.read()
        except OSError:
            continue
        # The name in brackets may contain anything, so count the fields from its end.
        end = stat.rindex(b")")
        fields = stat[end + 2 :].split()
        if fields[0] not in (b"Z", b"X"):
            yield int(number), stat[stat.index(b"(") + 1 : end], fields


def has_mark(pid: int, mark: str) -> bool:
    """Return whether the environment of a process has a mark; not for another user's, or one that has ended. Linux."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return mark.encode() in file.read()
    except OSError:
        return False


def below(root: int, sparing: Iterable[int] = ()) -> list[tuple[int, bytes]]:
    """Return all living descendants of a process with their names, but ``sparing`` and those below them. Linux."""
    children: dict[int, list[tuple[int, bytes]]] = {}
    for pid, name, fields in living():
        children.setdefault(int(fields[1]), []).append((pid, name))
    found: list[tuple[int, bytes]] = []
    spared, waiting = set(sparing), [root]
    while waiting:
        mine = [entry for entry in children.get(waiting.pop(), ()) if entry[0] not in spared]
        found += mine
        waiting += [pid for pid, _ in mine]
    return found


def send_signal(pid: int, kind: int) -> None:
    """Send a signal; ignores processes that are gone, or not ours to stop."""
    try:
        os.kill(pid, kind)
    except (ProcessLookupError, PermissionError):
        pass


# -- the reaper --


class Reaper:
    """The parent of all wardens, which it starts for the daemon."""

    def __init__(self, daemon: socket.socket, mark: str) -> None:
        self._daemon = daemon
        self._mark = mark
        self._wardens: set[int] = set()

    def run(self) -> None:
        """Until the daemon has gone."""
        for name in _IGNORED:
            signal.signal(getattr(signal, name), signal.SIG_IGN)
        adopt_orphans()
        signal.signal(signal.SIGCHLD, self._bury)
        while (received := self._receive()) is not None:
            self._begin(*received)
        deadline = time.monotonic() + _DAEMON_GONE_S
        while self._wardens and time.monotonic() < deadline:
            time.sleep(0.02)
        self._wardens.clear()
        self._sweep()
        if _LINUX:
            self._kill_marked()

    def _receive(self) -> tuple[bytes, list[int]] | None:
        size = socket.CMSG_SPACE(4 * 4)
        flags = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
        try:
            head, ancillary, _, _ = self._daemon.recvmsg(4, size, flags)
            received: list[int] = []
            for level, kind, data in ancillary:
                if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                    received += memoryview(data[: len(data) - len(data) % 4]).cast("i").tolist()
            for descriptor in received:
                os.set_inheritable(descriptor, False)
            head += self._exactly(4 - len(head))
            return self._exactly(int.from_bytes(head, "big")), received
        except (OSError, EOFError):
            return None

    def _exactly(self, size: int) -> bytes:
        parts: list[bytes] = []
        while size:
            part = self._daemon.recv(min(size, 1 << 20))
            if not part:
                raise EOFError
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def _begin(self, request: bytes, descriptors: list[int]) -> None:
        # Block the signal of its end until it is registered as a warden.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        pid = os.fork()
        if pid == 0:
            try:
                self._daemon.close()
                Warden(json.loads(request), *descriptors).run()
            finally:
                os._exit(1)
        self._wardens.add(pid)
        for descriptor in descriptors:
            os.close(descriptor)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})

    def _bury(self, *_: object) -> None:
        killed = False
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            if pid in self._wardens:
                self._wardens.discard(pid)
                killed = killed or os.WIFSIGNALED(status)
        if killed:
            self._sweep()

    def _sweep(self) -> None:
        """Kill what a dead warden has left us."""
        for _ in range(_KILL_ROUNDS if _LINUX else 0):
            left = below(os.getpid(), self._wardens)
            if not left:
                return
            for pid, _ in left:
                send_signal(pid, signal.SIGKILL)
            time.sleep(_KILL_PAUSE_S)

    def _kill_marked(self) -> None:
        """Kill what still carries the daemon's mark: it was no descendant any more."""
        for pid, _, _ in living():
            if pid != os.getpid() and has_mark(pid, self._mark):
                send_signal(pid, signal.SIGKILL)


# -- the warden --


class Warden:
    """The parent of one command. Sends lines to the daemon: ``begun PID``, ``started PID`` or ``failed ERRNO``,
    ``exited CODE``, ``done 0`` (or ``done 1`` when a remaining child process had to be stopped)."""

    def __init__(self, request: dict[str, Any], control: int, *standard: int) -> None:
        """``standard``: stdin, stdout and stderr of the command."""
        self._request = request
        self._control = socket.socket(fileno=control)
        self._standard = standard
        self._listening = True
        self._grace: float = request["grace"]
        self._pid = 0
        self._exited = False
        self._background = False
        self._phase = "running"
        self._until: float | None = None
        self._rounds = 0

    def run(self) -> NoReturn:
        """Never returns."""
        wake, wake_end = os.pipe()
        os.set_blocking(wake, False)
        os.set_blocking(wake_end, False)
        signal.signal(signal.SIGCHLD, _wake)
        signal.set_wakeup_fd(wake_end, warn_on_full_buffer=False)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        adopt_orphans()
        self._pid, error = self._start()
        for descriptor in set(self._standard):
            os.close(descriptor)
        if error:
            self._say(f"failed {error}")
            os._exit(0)
        self._say(f"started {self._pid}")
        while self._reap():
            self._advance()
            self._wait(wake)
        self._say(f"done {int(self._background)}")
        os._exit(0)

    def _start(self) -> tuple[int, int]:
        """Start the command; returns its process and 0, or 0 and the system's error (errno)."""
        failure, failure_end = os.pipe()
        go, go_end = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                os.close(go_end)
                if not os.read(go, 1):
                    os._exit(127)  # the warden is dead already
                os.close(go)
                self._become_command()
            except OSError as error:
                os.write(failure_end, str(error.errno).encode())
            finally:
                os._exit(127)
        os.close(failure_end)
        os.close(go)
        # Report this first, since a command may kill us at once: without this message a caller would start it again.
        self._say(f"begun {pid}")
        os.write(go_end, b"g")
        os.close(go_end)
        said = os.read(failure, 16)
        os.close(failure)
        return (0, int(said)) if said else (pid, 0)

    def _become_command(self) -> NoReturn:
        os.setsid()
        for target, source in enumerate(self._standard):
            os.dup2(source, target)
        signal.set_wakeup_fd(-1)
        for name in (*_IGNORED, "SIGCHLD"):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
        os.chdir(self._request["cwd"])
        argv: list[str] = self._request["argv"]
        os.execvpe(argv[0], argv, self._request["env"])

    def _say(self, line: str) -> None:
        try:
            self._control.sendall(line.encode() + b"\n")
        except OSError:
            pass  # nobody reads any more: the end of the control socket shows it

    def _wait(self, wake: int) -> None:
        timeout = None if self._until is None else max(0.0, self._until - time.monotonic())
        if not _LINUX and self._phase != "running":
            timeout = min(timeout or 0.05, 0.05)  # only our own children signal us when they end
        watched = [wake, self._control.fileno()] if self._listening else [wake]
        ready, _, _ = select.select(watched, [], [], timeout)
        if wake in ready:
            os.read(wake, 4096)
        if self._control.fileno() in ready:
            try:
                said = self._control.recv(64)
            except OSError:
                said = b""
            if not said:
                self._listening = False
                self._grace = min(self._grace, ORPHAN_GRACE_S)
                if self._phase == "term" and self._until is not None:
                    self._until = min(self._until, time.monotonic() + self._grace)
            if self._phase in ("running", "linger"):
                self._terminate()

    def _reap(self) -> bool:
        """Return whether anything is left of the command."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return not _LINUX and group_lives(self._pid)
            if pid == 0:
                return True
            if pid == self._pid:
                self._exited = True
                self._say(f"exited {os.waitstatus_to_exitcode(status)}")

    def _advance(self) -> None:
        now = time.monotonic()
        if self._exited and self._phase == "running":
            self._phase, self._until = "linger", now + LINGER_S
        elif self._until is None or now < self._until:
            return
        elif self._phase == "linger":
            self._background = True
            self._terminate()
        else:
            self._phase, self._until = "kill", now + _KILL_PAUSE_S
            self._rounds += 1
            if self._rounds > _KILL_ROUNDS:
                os._exit(1)  # e.g. another user's: without a "done" the daemon looks itself
            self._signal_all(signal.SIGKILL)

    def _terminate(self) -> None:
        self._phase, self._until = "term", time.monotonic() + self._grace
        self._signal_all(signal.SIGTERM)
        self._signal_all(signal.SIGCONT)  # a stopped process does not react to other signals

    def _signal_all(self, kind: int) -> None:
        if not _LINUX:
            try:
                os.killpg(self._pid, kind)
            except (ProcessLookupError, PermissionError):
                pass
            return
        for pid, name in below(os.getpid()):
            # A signal to bwrap itself would kill everything in the sandbox at once, without a chance to clean up.
            if kind != signal.SIGTERM or name != b"bwrap":
                send_signal(pid, kind)


def _wake(*_: object) -> None:
    """That a signal came is all: select returns."""


def group_lives(group: int) -> bool:
    """Return whether a group has a process that we may signal."""
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


if __name__ == "__main__":
    Reaper(socket.socket(fileno=int(sys.argv[1])), sys.argv[2]).run()
