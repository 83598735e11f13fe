"""The actor of one branch on a node of a Ray cluster: it starts our worker process, and passes bytes on.

Ray sends this class to the nodes as code, so it uses the standard library alone and needs no installation to tell that
one is missing. Nothing here is an argument of its creation, because Ray keeps those; no method prints or logs.

The worker process is no child of Ray's: when Ray kills the actor, the worker sees the end of its socket, ends its
commands and removes its files. The same happens when nobody asks for its bytes any more (``LEASE_S``).
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import socket
import subprocess
import sys
import time
from importlib.util import find_spec
from typing import Any

LEASE_S = 30.0
"""Seconds without a call of ``receive`` after which the driver counts as dead."""
POLL_S = 5.0
"""Seconds for which one ``receive`` waits."""
_MOST_WAITING = 16 << 20
"""Bytes for the driver that may wait here; then the worker waits."""
_PASSED = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "GOALWRIGHT_HOME"),
    *("LANG", "LC_ALL", "LC_CTYPE", "TZ"),
)
_BOOT = """
import os, sys
if os.fork():
    os._exit(0)
sys.path.insert(0, sys.argv[1])
worker = os.fork()
if not worker:
    from daemon.branch_worker import main
    main(int(sys.argv[2]))
os.close(int(sys.argv[2]))
os.waitpid(worker, 0)
from daemon.remote.base_transfer import sweep
sweep()
"""
"""Starts the worker, and the process that removes its files when it is killed."""


class BranchActor:
    """Starts and serves one worker process."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self._data = bytearray()
        self._ended = False
        self._more = asyncio.Event()
        self._room = asyncio.Event()
        self._asked = time.monotonic()
        self._tasks: set[asyncio.Task[Any]] = set()

    async def facts(self) -> dict[str, Any]:
        """Return the node's name and the versions of what is installed there."""
        found: dict[str, Any] = {
            "node": socket.gethostname(),
            "python": ".".join(map(str, sys.version_info[:3])),
            "pid": os.getpid(),
        }
        try:
            found["home"] = _home()
            from importlib.metadata import version

            found["goalwright"] = version("goalwright")
        except Exception as error:
            found["missing"] = f"{type(error).__name__}: {error}"
        return found

    async def start(self) -> None:
        """Start the worker process. Raises OSError."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        env = {name: os.environ[name] for name in _PASSED if name in os.environ}
        env |= {name: value for name, value in os.environ.items() if name.startswith("XDG_")}
        try:
            starting = await asyncio.create_subprocess_exec(
                sys.executable, "-I", "-c", _BOOT, _home(), str(theirs.fileno()),
                env=env, cwd="/", pass_fds=[theirs.fileno()], start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
        finally:
            theirs.close()
        self._socket = ours
        self._asked = time.monotonic()
        for work in (self._read(), self._watch(), starting.wait()):
            task = asyncio.create_task(work)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def receive(self) -> bytes | None:
        """Return what the worker wrote, empty when that is nothing yet; None when it has ended."""
        self._asked = time.monotonic()
        if not self._data and not self._ended:
            self._more.clear()
            with contextlib.suppress(asyncio.TimeoutError):
                async with asyncio.timeout(POLL_S):
                    await self._more.wait()
        self._asked = time.monotonic()
        data = bytes(self._data)
        self._data.clear()
        self._room.set()
        return None if self._ended and not data else data

    async def send(self, data: bytes) -> None:
        """Write to the worker. One call at a time, so that the order stays."""
        if self._socket is not None:
            with contextlib.suppress(OSError):  # ``receive`` tells that it has ended
                await asyncio.get_running_loop().sock_sendall(self._socket, data)

    async def give(self, digest: str, data: bytes) -> str:
        """Keep a pack of objects in the node's private folder, under its SHA-256; returns its path."""
        if hashlib.sha256(data).hexdigest() != digest:
            raise ValueError("the pack was damaged on its way")
        folder = os.path.join(_state(), "cluster", "packs")  # noqa: PTH118 - small
        os.makedirs(folder, mode=0o700, exist_ok=True)  # noqa: PTH103
        path = os.path.join(folder, f"{digest}.{os.getpid()}")  # noqa: PTH118
        await asyncio.to_thread(_write, path, data)
        return path

    async def stop(self) -> None:
        """Close the worker's connection: it ends its work."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    async def _read(self) -> None:
        assert self._socket is not None, "it is started"
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError):
            while data := await loop.sock_recv(self._socket, 1 << 18):
                self._data += data
                self._more.set()
                if len(self._data) > _MOST_WAITING:
                    self._room.clear()
                    await self._room.wait()
        self._ended = True
        self._more.set()

    async def _watch(self) -> None:
        while not self._ended:
            await asyncio.sleep(1)
            if time.monotonic() - self._asked > LEASE_S:
                await self.stop()
                return


def _write(path: str, data: bytes) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(data)


def _home() -> str:
    """Return the folder of our packages on this node, as ``goalwright.HOME`` is. Raises ImportError where Goalwright
    is not installed."""
    # Only looked up: an import would make this module depend on the whole program.
    found = find_spec("goalwright")
    if found is None or found.origin is None:
        raise ModuleNotFoundError("No module named 'goalwright'")
    package = os.path.dirname(found.origin)  # noqa: PTH120
    installed = os.path.isdir(os.path.join(package, "daemon"))  # noqa: PTH112, PTH118
    return package if installed else os.path.dirname(package)  # noqa: PTH120


def _state() -> str:
    sys.path.insert(0, _home())
    try:
        from daemon.runtime import state_dir

        return str(state_dir())
    finally:
        sys.path.remove(_home())
