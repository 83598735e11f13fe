"""Bind, connect and listen for a command under Landlock that has no network: on this machine, and only with itself.

The broker (``landlock_broker``) does these calls with the command's own sockets. Only few modules are imported, as this
starts with every command.
"""

# ruff: noqa: PTH123
# The rules above are off because pathlib would double the start-up time.

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
from _thread import allocate_lock

from tools.sandbox.landlock_rules import checked, libc

_SOL_SOCKET, _SO_DOMAIN = 1, 39
_UNSPECIFIED, UNIX, _INET, _INET6 = 0, 1, 2, 10
INTERNET = (_INET, _INET6)
_MAPPED = bytes(10) + b"\xff\xff"
_LOOPBACK = _MAPPED + b"\x7f\0\0\1"
_LOOPBACK6 = bytes(15) + b"\1"
_LISTENS = "0A"


def domain(fd: int) -> int:
    """Return the address family of a socket. Raises OSError."""
    found, size = ctypes.c_int(), ctypes.c_int(4)
    checked(libc.getsockopt(fd, _SOL_SOCKET, _SO_DOMAIN, ctypes.byref(found), ctypes.byref(size)))
    return found.value


def at_address(name: str, fd: int, address: bytes) -> None:
    """Bind or connect a socket. Raises OSError."""
    checked(getattr(libc, name)(fd, address, len(address)))


class Sockets:
    """The sockets at which one command listens, and to which it may connect."""

    def __init__(self) -> None:
        self._ours: set[int] = set()
        """Numbers of sockets that have got an address. The system counts on and on, so none is used again."""
        self._lock = allocate_lock()
        """A socket must not lose its address between a look at it and ``listen``."""

    def loopback(self, name: str, fd: int, address: bytes) -> None:
        """Without a network, programs of one command reach each other by TCP on this machine, and nothing else."""
        family = int.from_bytes(address[:2], sys.byteorder)
        if family == _UNSPECIFIED and name == "connect":
            with self._lock:
                at_address(name, fd, address)
            return
        start, size = (4, 4) if family == _INET else (8, 16)
        host, rest = address[start : start + size], address[start + size :]
        if family not in INTERNET or len(host) < size:
            raise OSError(errno.EINVAL, "")
        if name == "bind" and host.strip(b"\0") in (b"", b"\xff\xff"):
            host = _LOOPBACK[-size:]  # any address: on this machine, and reachable by IPv4 as programs expect
        if not _is_loopback(host):
            raise OSError(errno.EACCES if name == "bind" else errno.ENETUNREACH, "")
        address = address[:start] + host + rest
        if name == "connect" and not self._are_ours(_at_port(int.from_bytes(address[2:4], "big"))):
            raise OSError(errno.ECONNREFUSED, "")
        at_address(name, fd, address)
        if name == "bind":
            self._ours.add(os.fstat(fd).st_ino)

    def listen(self, fd: int, family: int, backlog: int) -> None:
        """Listen, on this machine only: without an address, the kernel would choose any."""
        with self._lock:
            if family in INTERNET:
                self._bind_here(fd, family)
                self._ours.add(os.fstat(fd).st_ino)
            checked(libc.listen(fd, backlog))

    def _bind_here(self, fd: int, family: int) -> None:
        start, size, rest = (4, 4, bytes(8)) if family == _INET else (8, 16, bytes(4))
        try:
            head = struct.pack("=H", family) + bytes(start - 2)
            at_address("bind", fd, head + _LOOPBACK[-size:] + rest)
        except OSError as error:
            if error.errno != errno.EINVAL:  # it already has an address
                raise
        got, length = ctypes.create_string_buffer(128), ctypes.c_int(128)
        checked(libc.getsockname(fd, got, ctypes.byref(length)))
        if not _is_loopback(got.raw[start : start + size]):
            raise OSError(errno.EACCES, "")

    def abstract(self, name: str, fd: int, address: bytes) -> None:
        """Bind or connect a Unix socket at a name without a file: only names that were bound in this sandbox."""
        if name == "connect" and not self._are_ours(_at_name(address[2:])):
            raise OSError(errno.ECONNREFUSED, "")
        at_address(name, fd, address)
        if name == "bind":
            self._ours.add(os.fstat(fd).st_ino)

    def _are_ours(self, sockets: list[int]) -> bool:
        """Return whether the command itself listens there. An address that it has released may be another's now."""
        return bool(sockets) and self._ours.issuperset(sockets)


def _is_loopback(host: bytes) -> bool:
    plain = host[12:] if host.startswith(_MAPPED) else host
    return plain == _LOOPBACK6 or (len(plain) == 4 and plain[0] == 127)


def _at_port(port: int) -> list[int]:
    """Find the numbers of all sockets that listen at a port, at any address."""
    found: list[int] = []
    for table in ("tcp", "tcp6"):
        try:
            with open(f"/proc/net/{table}") as file:
                rows = [row.split() for row in file][1:]
        except FileNotFoundError:
            continue
        found += (
            int(row[9]) for row in rows if row[3] == _LISTENS and int(row[1].rpartition(":")[2], 16) == port
        )
    return found


def _at_name(name: bytes) -> list[int]:
    """Find the numbers of the Unix sockets with a name without a file."""
    end = b" " + name.replace(b"\0", b"@")
    with open("/proc/net/unix", "rb") as file:
        rows = file.read().split(b"\n")
    # A name with a line end in it is never found.
    return [int(row.split()[6]) for row in rows if row.endswith(end) and len(row.split()) > 7]
