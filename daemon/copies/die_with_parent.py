"""``python -I -S die_with_parent.py <pid> <bytes> <program> …``: become a program that dies with its parent (Linux).

It also loses the right to change times of files: git renews the time of an object that it finds in a borrowed store
instead of writing it, and those stores are the user's. (It then writes the object to its own.) And it can write no file
of more than ``bytes``, so that a data set that is not ignored cannot fill the disk.

Standard library only, and little of it: it starts before each long call of git.
"""

from __future__ import annotations

import ctypes
import os
import signal
import struct
import sys

_SET_TIMES = {"x86_64": (0xC000003E, (132, 235, 261, 280)), "aarch64": (0xC00000B7, (88,))}
"""For each machine, the kernel's number for it and the system calls utime, utimes, futimesat and utimensat."""
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP = 38, 22
_PR_SET_PDEATHSIG = 1


def die_with(parent: int) -> None:
    """Have this process killed when ``parent`` dies; exits when that has happened already."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def keep_times() -> None:
    """Let every attempt to set a file's times fail, from now on and in all that is started. Elsewhere nothing."""
    machine = _SET_TIMES.get(os.uname().machine)
    if machine is None or not sys.platform.startswith("linux"):
        return
    number, calls = machine
    count = len(calls)
    # Load the machine's number, and allow any other machine. Load the call's number, and let our calls fail with EPERM.
    lines = [(0x20, 0, 0, 4), (0x15, 0, count + 1, number), (0x20, 0, 0, 0)]
    lines += [(0x15, count - at, 0, call) for at, call in enumerate(calls)]
    lines += [(0x06, 0, 0, 0x7FFF0000), (0x06, 0, 0, 0x00050000 | 1)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in lines))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(lines), ctypes.addressof(code)))
    library = ctypes.CDLL(None)
    library.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    library.prctl(_PR_SET_SECCOMP, 2, ctypes.c_void_p(ctypes.addressof(program)), 0, 0)


def limit_files(most: int) -> None:
    """Make writing more to one file fail ("File too large"); Python and the program that it becomes ignore the
    signal."""
    import resource  # not on Windows, where this module is only imported

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    if soft == resource.RLIM_INFINITY or soft > most:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))


if __name__ == "__main__":
    die_with(int(sys.argv[1]))
    keep_times()
    limit_files(int(sys.argv[2]))
    os.execv(sys.argv[3], sys.argv[3:])  # the program is the git that find_program found
