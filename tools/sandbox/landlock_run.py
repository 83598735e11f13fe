"""Start one command under Landlock and a system call filter, and stay as its broker (``landlock_broker``).

``main`` gets the plan that ``landlock`` wrote and the command. It forks: the child restricts itself and
becomes the command; the parent answers for it and ends as it does. Both give up all capabilities, so that root gains
nothing. When the broker ends, however that comes, the kernel kills the command.
"""

# ruff: noqa: PTH108, PTH123
# The rules above are off because pathlib would double the start-up time.

from __future__ import annotations

import ctypes
import marshal
import os
import struct
import sys

from tools.sandbox.landlock_broker import PIDFD_GETFD, PIDFD_OPEN, Broker
from tools.sandbox.landlock_rules import Ruleset, call, checked, libc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

_RESTRICT_SELF = 446
_CAPSET, _SECCOMP = {"x86_64": (126, 317), "aarch64": (91, 277)}.get(os.uname().machine, (-1, -1))
_SET_FLAGS = 0x40082104
_LISTENER, _WAIT_KILLABLE = 1 << 3, 1 << 5
_PARENT_DEATH, _NOT_DUMPABLE, _SUBREAPER, _NO_NEW_PRIVILEGES = 1, 4, 36, 38
_ABSTRACT_SOCKETS = 1
_SIGKILL, _SIGPIPE, _SIGXFSZ = 9, 13, 25


def main() -> NoReturn:
    """Run ``sys.argv[2:]`` by the plan in the file ``sys.argv[1]``."""
    try:
        rules, broker, plan = _prepared(sys.argv[1])
    except OSError as error:
        _say(f"the sandbox could not be prepared ({error})")
        os._exit(126)
    # Orphaned child processes stay ours, so that their memory can still be read.
    checked(libc.prctl(_SUBREAPER, 1, 0, 0, 0))
    their_end, wake_up = os.pipe()
    ours, answer = os.pipe()
    me = os.getpid()
    child = os.fork()
    if child == 0:
        libc.prctl(_PARENT_DEATH, _SIGKILL, 0, 0, 0)
        if os.getppid() != me:
            os._exit(1)
        _become(rules, plan, their_end, answer)
    os.close(their_end)
    os.close(answer)
    os.close(rules.fd)
    try:
        status = _broker_for(child, broker, ours, wake_up)
    finally:
        broker.clear()
    _end_as(status)


def scoped() -> NoReturn:
    """Become ``sys.argv[1:]``, without access to other programs' abstract Unix sockets."""
    checked(libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    call(_RESTRICT_SELF, Ruleset(0, 0, _ABSTRACT_SOCKETS).fd, 0)
    _expect_signals()
    os.execv(sys.argv[1], sys.argv[1:])


def _expect_signals() -> None:
    for number in (_SIGPIPE, _SIGXFSZ):
        libc.signal(number, 0)  # Python ignores these signals, but programs expect the default


def _prepared(place: str) -> tuple[Ruleset, Broker, dict[str, Any]]:
    """Read the plan, give up capabilities, and make the rules. Raises OSError."""
    with open(place, "rb") as file:
        plan: dict[str, Any] = marshal.load(file)
    os.unlink(place)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    call(_CAPSET, struct.pack("=II", 0x20080522, 0), bytes(24))
    checked(libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    rules = Ruleset(*plan["handled"])
    for path, rights in plan["rules"]:
        rules.allow(path, rights)
    return rules, Broker(plan, rules), plan


def _become(rules: Ruleset, plan: dict[str, Any], wait: int, answer: int) -> NoReturn:
    """Restrict this process permanently, and become the command."""
    argv = sys.argv[2:]
    try:
        environment: dict[str, str] = {**os.environ}
        if plan["tmp"]:
            environment |= {name: plan["tmp"] for name in ("TMPDIR", "TMP", "TEMP")}
        call(_RESTRICT_SELF, rules.fd, 0)
        os.write(answer, b"%d" % _filter(plan["filter"]))
        os.read(wait, 1)
        _expect_signals()
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        os.execvpe(argv[0], argv, environment)
    except (FileNotFoundError, NotADirectoryError):
        _say(f"{argv[0]} was not found")
        os._exit(127)
    except OSError as error:
        _say(f"{argv[0]} could not be started in the sandbox ({error.strerror})")
    os._exit(126)


def _filter(code: bytes) -> int:
    """Switch the filter on; the descriptor by which the broker is asked."""
    buffer = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("=HxxxxxxQ", len(code) // 8, ctypes.addressof(buffer))
    try:
        return call(_SECCOMP, 1, _LISTENER | _WAIT_KILLABLE, program)
    except OSError:
        # Before Linux 5.19, a signal may interrupt a call that is being answered.
        return call(_SECCOMP, 1, _LISTENER, program)


def _say(text: str) -> None:
    os.write(2, f"goalwright: {text}\n".encode("utf-8", "surrogateescape"))


def _broker_for(child: int, broker: Broker, ours: int, wake_up: int) -> int:
    """Answer until the command ends; its status."""
    # The command's readers wait for the end of its output, which must not depend on this process.
    os.closerange(0, 3)
    broker.begin()
    number = os.read(ours, 16)
    if not number:
        return os.waitpid(child, 0)[1]  # it could not be restricted, and has reported that
    process = call(PIDFD_OPEN, child, 0)
    listener = call(PIDFD_GETFD, process, int(number), 0)
    # From Linux 6.6, caller and broker take turns on one processor, which halves the time of a request.
    libc.ioctl(listener, ctypes.c_ulong(_SET_FLAGS), ctypes.c_ulong(1))
    os.write(wake_up, b"+")
    os.close(wake_up)
    # Import only now, while the command is already starting.
    import select
    import signal

    def forward(*_: object) -> None:
        os.kill(child, signal.SIGTERM)

    def note(*_: object) -> None:
        """Let the descriptor for wake-ups be written."""

    for name in ("SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    woken, wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, note)
    signal.signal(signal.SIGTERM, forward)
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    poll.register(woken, select.POLLIN)
    # First for children that ended before the handler was installed.
    while (status := _bury(child)) is None:
        for fd, events in poll.poll():
            if fd == woken:
                os.read(woken, 512)
            elif events & select.POLLIN:
                broker.answer(listener)
            else:
                poll.unregister(listener)
    return status


def _bury(child: int) -> int | None:
    """Wait for all that has ended; the command's status if it has."""
    status = None
    while True:
        try:
            pid, how = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return status
        if pid == 0:
            return status
        if pid == child:
            status = how


def _end_as(status: int) -> NoReturn:
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        libc.prctl(_NOT_DUMPABLE, 0, 0, 0, 0)  # its core is enough
        libc.signal(-code, 0)
        os.kill(os.getpid(), -code)
    os._exit(code if code >= 0 else 128 - code)
