"""Start a process by a fork of the preloader (``lsp_bridge/cli/preloader.py``), if there is one."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import struct
import sys
from typing import TYPE_CHECKING

from daemon.runtime import RuntimePaths, state_dir
from daemon.safe_path import own_folders
from tools.process.environment import daemon_environment

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

HEADER = struct.Struct("!I")
"""The length of an order, before it. The descriptors for its standard streams come with these bytes."""
FORKED = b"+"
"""The first byte of the answer; the process id and a line end follow. Then comes its exit code, when it ends."""
GONE = 3
"""Exit code of a process of which nothing is known, because the preloader ended: as if another one had the lock."""
PRELOADER = "preloader-"
"""Beginning of the key of a preloader's paths."""
AT_THE_START = (
    "LD_",
    "MALLOC_",
    "GLIBC_",
    "OPENSSL_",
    "PYDANTIC_",
    "AIOHTTP_",
    "YARL_",
    "MULTIDICT_",
    "ATTRS_",
)
"""How variables begin that libraries read when they are loaded, which happened before a fork."""
_FOR_ITSELF = ("PATH", "HOME", "GOALWRIGHT_HOME", "XDG_RUNTIME_DIR", "TMPDIR", "LANG", "LC_ALL", "LC_CTYPE")
ANSWER_S = 3.0
"""Seconds. A preloader that takes longer is not quicker than a start without it."""


def preloader_paths(home: Path | None = None) -> RuntimePaths:
    """Return the paths of the preloader of this installation. ``home``: see ``daemon.runtime.state_dir``."""
    state = state_dir(home)
    named = os.fsencode(f"{state}\0{sys.prefix}\0{own_folders()[0]}")
    key = f"{PRELOADER}{hashlib.sha256(named).hexdigest()[:16]}"
    return RuntimePaths(state, state / "run" / key, key)


def preloader_pid(home: Path | None = None) -> int | None:
    """Return the process of the preloader of this installation, None when there is none that has loaded everything."""
    paths = preloader_paths(home)
    return paths.read_pid() if paths.is_locked() and paths.read_address() is not None else None


def preloader_environment(environment: Mapping[str, str], passed_on: Iterable[str]) -> dict[str, str]:
    """Return the environment of a preloader: only what it needs itself, and no secrets.

    ``passed_on``: as for ``daemon_environment``, because a daemon can be forked only if both have the same variables
    that count when a process starts.
    """
    return {
        name: value
        for name, value in daemon_environment(environment, passed_on).items()
        if name in _FOR_ITSELF or name.startswith(AT_THE_START)
    }


class Forked:
    """A process that the preloader has forked."""

    def __init__(self, connection: socket.socket, pid: int, said: bytes = b"") -> None:
        """``said``: what came of its exit code already."""
        connection.setblocking(False)
        self._connection = connection
        self._said = said
        self._code: int | None = None
        self.pid = pid

    def poll(self) -> int | None:
        """Return the exit code, None while it runs; as ``subprocess.Popen.poll``."""
        while self._code is None:
            if self._said.endswith(b"\n"):
                self._end(int(self._said))
                break
            try:
                more = self._connection.recv(64)
            except BlockingIOError:
                break
            except OSError:
                more = b""
            self._said += more
            if not more:
                self._end(GONE)
        return self._code

    def _end(self, code: int) -> None:
        self._code = code
        self._connection.close()


def fork(
    arguments: Sequence[str],
    env: Mapping[str, str],
    cwd: Path,
    streams: tuple[int, int, int],
    home: Path | None = None,
    *,
    answer_s: float = ANSWER_S,
) -> Forked | None:
    """Have ``goalwright`` run with these arguments and standard streams; None when no preloader does it.

    Then nothing runs: a fork whose client has gone meanwhile ends.
    """
    if sys.platform != "linux":
        return None
    address = preloader_paths(home).read_address()
    if address is None or address.socket is None:
        return None
    order = {"token": address.token, "arguments": list(arguments), "env": dict(env), "cwd": str(cwd)}
    data = json.dumps(order).encode()
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.settimeout(answer_s)
        connection.connect(address.socket)
        socket.send_fds(connection, [HEADER.pack(len(data))], streams)
        connection.sendall(data)
        answer = b""
        while b"\n" not in answer and (more := connection.recv(64)):
            answer += more
        first, _, rest = answer.partition(b"\n")
        if first.startswith(FORKED):
            return Forked(connection, int(first[1:]), rest)
    except (OSError, ValueError):
        pass
    connection.close()
    return None
