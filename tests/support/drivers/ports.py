"""Ports for programs that are told which to take.

They are none of those that the system gives out by itself: such a one may belong to another test, which asked for any,
before the program gets there.
"""

from __future__ import annotations

import contextlib
import random
import socket

_PORTS = range(20_000, 32_000)
"""Below the ephemeral ports of Linux (from 32768) and of macOS and Windows (from 49152)."""


def bound_port() -> socket.socket:
    """Return a socket that has one on the loopback and does not listen."""
    for port in random.sample(_PORTS, 1_000):
        bound = socket.socket()
        with contextlib.suppress(OSError):
            bound.bind(("127.0.0.1", port))
            return bound
        bound.close()
    raise AssertionError("no free port")


def free_port() -> int:
    """Return one on the loopback that nobody has at the moment."""
    with bound_port() as probe:
        return int(probe.getsockname()[1])
