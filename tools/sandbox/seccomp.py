"""The system call filter of commands under Landlock: calls that are rejected, and calls that the broker decides. Pure.

Landlock decides which files may be opened. It does not cover datagram and other sockets, connections to Unix sockets by
path, changes of modes and owners, io_uring, keys or terminal input; the filter rejects those or hands them to the
broker (``landlock_run``). It is classic BPF, assembled here, for x86-64 and AArch64.
"""

from __future__ import annotations

import errno
import os
import platform
import struct
from typing import TYPE_CHECKING

from msgspec import Struct

from tools.process.environment import words

if TYPE_CHECKING:
    from collections.abc import Sequence

_KILL = 0x80000000
_NOTIFY = 0x7FC00000
_ERRNO = 0x00050000
_ALLOW = 0x7FFF0000
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_AT_NUMBER, _AT_ARCHITECTURE, _AT_ARGUMENTS = 0, 4, 16
_NEW_NAMESPACES = 0x7E020080
"""CLONE_NEWTIME, NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET."""
_CONTROLS = (0x5412, 0x541C, 0x40086602, 0x401C5820, 0x40806685)
"""TIOCSTI and TIOCLINUX type into a terminal; the others change attributes of files that are only open for reading
(FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR, FS_IOC_ENABLE_VERITY)."""
_SIGNAL_OWNERS = (8, 15)
"""F_SETOWN and F_SETOWN_EX name a process to be signalled."""
_FAST_OPEN = 0x20000000
_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_STREAM, _DATAGRAM, _SEQPACKET = 1, 2, 5

_COMMON = (
    "io_uring_setup 425 425, io_uring_enter 426 426, io_uring_register 427 427, open_tree 428 428, "
    "move_mount 429 429, fsopen 430 430, fsconfig 431 431, fsmount 432 432, fspick 433 433, clone3 435 435, "
    "openat2 437 437, mount_setattr 442 442, fchmodat2 452 452, setxattrat 463 463, removexattrat 466 466, "
    "open_tree_attr 467 467, file_setattr 469 469, "
)
_TABLE = _COMMON + (
    "open 2 -, ioctl 16 29, socket 41 198, connect 42 203, sendto 44 206, sendmsg 46 211, bind 49 200, listen 50 201, "
    "socketpair 53 199, clone 56 220, truncate 76 45, rename 82 -, mkdir 83 -, rmdir 84 -, creat 85 -, link 86 -, "
    "unlink 87 -, symlink 88 -, chmod 90 -, fchmod 91 52, chown 92 -, fchown 93 55, lchown 94 -, syslog 103 116, "
    "uselib 134 -, pivot_root 155 41, chroot 161 51, acct 163 89, settimeofday 164 170, mount 165 40, umount2 166 39, "
    "swapon 167 224, swapoff 168 225, reboot 169 142, sethostname 170 161, setdomainname 171 162, iopl 172 -, "
    "ioperm 173 -, init_module 175 105, delete_module 176 106, quotactl 179 60, setxattr 188 5, lsetxattr 189 6, "
    "fsetxattr 190 7, removexattr 197 14, lremovexattr 198 15, fremovexattr 199 16, clock_settime 227 112, "
    "kexec_load 246 104, add_key 248 217, request_key 249 218, keyctl 250 219, openat 257 56, mkdirat 258 34, "
    "fchownat 260 54, unlinkat 263 35, renameat 264 38, linkat 265 37, symlinkat 266 36, fchmodat 268 53, "
    "unshare 272 97, perf_event_open 298 241, open_by_handle_at 304 265, clock_adjtime 305 266, sendmmsg 307 269, "
    "setns 308 268, finit_module 313 273, renameat2 316 276, kexec_file_load 320 294, bpf 321 280, "
    "userfaultfd 323 282, kill 62 129, fcntl 72 25, rt_sigqueueinfo 129 138, tkill 200 130, tgkill 234 131, "
    "rt_tgsigqueueinfo 297 240, pidfd_send_signal 424 424, shmget 29 194, shmat 30 196, shmctl 31 195, semget 64 190, "
    "semop 65 193, semctl 66 191, msgget 68 186, msgsnd 69 189, msgrcv 70 188, msgctl 71 187, semtimedop 220 192, "
    "mq_open 240 180, mq_unlink 241 181, prlimit64 302 261"
)
"""Name and number on x86-64 and AArch64; ``-`` where there is no such call."""
_NEXT = 470
"""The first number of which nothing is known, on both: what a later kernel does there could be anything."""
_MACHINES = {"x86_64": (0xC000003E, 1), "aarch64": (0xC00000B7, 2)}


_REFUSED = words(
    "io_uring_setup io_uring_enter io_uring_register open_tree move_mount fsopen fsconfig fsmount fspick "
    "mount_setattr open_tree_attr syslog uselib pivot_root chroot acct settimeofday mount umount2 swapon swapoff "
    "reboot sethostname setdomainname iopl ioperm init_module delete_module quotactl clock_settime kexec_load add_key "
    "request_key keyctl unshare perf_event_open open_by_handle_at clock_adjtime setns finit_module kexec_file_load "
    "bpf userfaultfd"
)
_UNSUPPORTED = words(
    "setxattr lsetxattr fsetxattr removexattr lremovexattr fremovexattr setxattrat removexattrat file_setattr"
)
"""Programs that copy files continue without extended attributes."""
_MISSING = words(
    "clone3 shmget shmat shmctl semget semop semctl semtimedop msgget msgsnd msgrcv msgctl mq_open mq_unlink"
)
"""The flags of clone3 are in memory, where no filter can look; the C library then uses clone. Without a namespace of
their own, the others would reach memory and queues of programs outside."""
_BROKERED = words(
    "connect bind rename renameat renameat2 mkdir mkdirat rmdir unlink unlinkat creat link linkat symlink symlinkat "
    "chmod fchmod fchmodat fchmodat2 chown fchown lchown fchownat"
)
_SIGNALS = words("kill tkill tgkill rt_sigqueueinfo rt_tgsigqueueinfo pidfd_send_signal")
"""Kept inside by Landlock from version 6."""


class Filter(Struct, frozen=True):
    """``code`` is the program; ``calls`` names what the broker is asked about, by number."""

    code: bytes
    calls: dict[int, str]


class UnsupportedError(Exception):
    """No filter is known for this machine."""


def build(*, network: bool, listing: bool, abi: int, machine: str | None = None) -> Filter:
    """Put the filter together. ``listing``: the broker also opens folders. Raises UnsupportedError."""
    machine = machine or platform.machine()
    if machine not in _MACHINES:
        raise UnsupportedError(f"no system call filter is known for {machine}")
    architecture, column = _MACHINES[machine]
    rows = (row.split() for row in _TABLE.split(", "))
    numbers = {row[0]: int(row[column]) for row in rows if row[column] != "-"}
    bodies = dict.fromkeys(_REFUSED, _refuse(errno.EPERM))
    bodies |= dict.fromkeys(_UNSUPPORTED, _refuse(errno.EOPNOTSUPP))
    bodies |= dict.fromkeys(_MISSING, _refuse(errno.ENOSYS))
    # A listening socket without an address would get a random one.
    brokered = (*_BROKERED, *(_SIGNALS if abi < 6 else ()), *(() if network else ("listen",)))
    bodies |= {name: [(_RETURN, 0, 0, _NOTIFY)] for name in brokered}
    flags = os.O_ACCMODE | os.O_CREAT | os.O_TRUNC | (os.O_DIRECTORY if listing else 0)
    bodies["open"], bodies["openat"] = _opening(1, flags, abi), _opening(2, flags, abi)
    if abi < 3:
        # A Landlock of this version does not notice that a file is truncated.
        bodies |= {"truncate": _refuse(errno.EACCES), "openat2": _refuse(errno.ENOSYS)}
    if abi < 6:
        bodies["fcntl"] = _refuse_values(1, _SIGNAL_OWNERS)
    bodies["clone"] = _refuse_bits(0, _NEW_NAMESPACES)
    bodies["ioctl"] = _refuse_values(1, _CONTROLS)
    # Deny changing the limits of other processes, such as the daemon; a process names itself as number 0.
    bodies["prlimit64"] = [_load(0), (_EQUAL, 1, 0, 0), *_refuse(errno.EPERM), _allow()]
    bodies["socket"] = _socket(network=network)
    # A pair of datagram sockets could still send to other sockets by name.
    bodies["socketpair"] = [_load(1), (_AND, 0, 0, 0xF), *_refuse_value(_DATAGRAM), _allow()]
    if not network:
        bodies |= {"sendto": _refuse_bits(3, _FAST_OPEN), "sendmsg": _refuse_bits(2, _FAST_OPEN)}
        bodies["sendmmsg"] = _refuse_bits(3, _FAST_OPEN)
    program = [(_LOAD, 0, 0, _AT_ARCHITECTURE), (_EQUAL, 1, 0, architecture), (_RETURN, 0, 0, _KILL)]
    program.append((_LOAD, 0, 0, _AT_NUMBER))
    # This also excludes the x32 calls of x86-64.
    program += [(_AT_LEAST, 0, 1, _NEXT), *_refuse(errno.ENOSYS)]
    for name in sorted(bodies.keys() & numbers.keys(), key=numbers.__getitem__):
        program += [(_EQUAL, 0, len(bodies[name]), numbers[name]), *bodies[name]]
    program.append(_allow())
    asked = {numbers[name]: name for name in (*brokered, "open", "openat") if name in numbers}
    return Filter(b"".join(struct.pack("=HBBI", *line) for line in program), asked)


_Line = tuple[int, int, int, int]


def _load(argument: int) -> _Line:
    # Both machines are little-endian: the lower half comes first, and the kernel reads only that of these arguments.
    return (_LOAD, 0, 0, _AT_ARGUMENTS + 8 * argument)


def _allow() -> _Line:
    return (_RETURN, 0, 0, _ALLOW)


def _refuse(error: int) -> list[_Line]:
    return [(_RETURN, 0, 0, _ERRNO | error)]


def _refuse_value(value: int) -> list[_Line]:
    return [(_EQUAL, 0, 1, value), *_refuse(errno.EPERM)]


def _refuse_values(argument: int, values: Sequence[int]) -> list[_Line]:
    return [_load(argument), *(line for value in values for line in _refuse_value(value)), _allow()]


def _refuse_bits(argument: int, bits: int) -> list[_Line]:
    return [_load(argument), (_ANY_BIT, 0, 1, bits), *_refuse(errno.EPERM), _allow()]


def _opening(argument: int, flags: int, abi: int) -> list[_Line]:
    lines = [_load(argument)]
    if abi < 3:
        only = os.O_ACCMODE | os.O_TRUNC
        lines += [(_AND, 0, 0, only), (_EQUAL, 0, 1, os.O_TRUNC), *_refuse(errno.EACCES), _load(argument)]
    return [*lines, (_ANY_BIT, 0, 1, flags), (_RETURN, 0, 0, _NOTIFY), _allow()]


def _socket(*, network: bool) -> list[_Line]:
    """Stream sockets, whose connections the broker makes; with the network also datagrams to the internet."""
    internet = [_INET, _INET6]
    lines = [_load(0)]
    lines += _when(_UNIX, [_load(1), (_AND, 0, 0, 0xF), *_allow_values(_STREAM, _SEQPACKET)])
    lines += _when(_NETLINK, [_load(2), *_allow_values(0)])
    for domain in internet:
        streams = [
            _load(1),
            (_AND, 0, 0, 0xF),
            (_EQUAL, 1, 0, _STREAM),
            *_refuse(errno.EACCES),
            _load(2),
            *_allow_values(0, 6),
        ]
        lines += _when(domain, [_allow()] if network else streams)
    return [*lines, *_refuse(errno.EACCES)]


def _when(value: int, lines: Sequence[_Line]) -> list[_Line]:
    return [(_EQUAL, 0, len(lines), value), *lines]


def _allow_values(*values: int) -> list[_Line]:
    lines = [line for value in values for line in ((_EQUAL, 0, 1, value), _allow())]
    return [*lines, *_refuse(errno.EACCES)]
