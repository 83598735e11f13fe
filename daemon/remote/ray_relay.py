"""The process that is the driver of a Ray cluster for one exploration, and passes bytes between nodes and daemon.

Ray is kept out of the daemon: the daemon's environment has keys that a cluster started here would inherit, and Ray
installs signal handlers, threads and log files. This process gets an environment without secrets,
prints nothing, and ends with its socket. Then Ray ends the actors that it owns.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from importlib import import_module
from typing import TYPE_CHECKING, Any

from daemon.remote.peer import Peer, PeerLostError, StreamPipe
from tools.localization import set_language, t

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

_FACTS_S = 60.0
"""Seconds that an actor may take for its first answer once Ray has started it."""
_REACHED_S = 5.0
_LOOK_S = 5.0
"""Seconds between two looks at the nodes while a branch waits for room."""
_QUIET_S = 15.0
"""Seconds without an answer of a node after which it counts as lost; one answer takes at most ``POLL_S``."""


class ClusterError(Exception):
    """Raised when the cluster cannot be used; the message says why."""


class NodeLostError(ClusterError):
    """Raised when a node or a process on it has died; another try may succeed."""


class Relay:
    """The actors of one exploration, by a key of the daemon's."""

    def __init__(self) -> None:
        self._actors: dict[str, Any] = {}
        self._packs: dict[str, Any] = {}

    async def connect(self, address: str, words: str) -> str:
        """Connect to a cluster, or start one on this machine for ``local``; returns Ray's version.

        ``words``: the language of problems. Raises ClusterError.
        """
        set_language(words)
        try:
            return await asyncio.to_thread(_connect, address)
        except OSError as error:
            raise ClusterError(error.strerror or str(error)) from None
        except Exception as error:  # Ray raises many kinds
            first = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
            raise ClusterError(first.strip()) from None

    async def open(self, key: str, cpus: float) -> dict[str, Any]:
        """Have an actor started where ``cpus`` are free; returns its facts. Waits until there is room.

        Raises ClusterError when no node is large enough, or the node is lost. Canceled, the actor is withdrawn.
        """
        ray = _ray()
        _check_size(cpus)
        from daemon.remote import ray_actor

        ray.cloudpickle.register_pickle_by_value(ray_actor)
        options: dict[str, Any] = {
            "num_cpus": cpus, "max_restarts": 0, "max_task_retries": 0, "max_concurrency": 16,
            "scheduling_strategy": "SPREAD",
        }  # fmt: skip
        made = ray.remote(ray_actor.BranchActor).options(**options).remote()
        self._actors[key] = made
        try:
            answer = asyncio.ensure_future(made.facts.remote())
            while not (await asyncio.wait({answer}, timeout=_LOOK_S))[0]:
                _check_size(cpus)  # the last node that was large enough may have gone
            return answer.result()
        except BaseException as error:
            self.close(key)
            if isinstance(error, Exception) and not isinstance(error, ClusterError):
                raise _problem(error) from None
            raise

    async def start(self, key: str) -> None:
        """Start the worker process. Raises ClusterError."""
        try:
            async with asyncio.timeout(_FACTS_S):
                await asyncio.ensure_future(self._actor(key).start.remote())
        except Exception as error:
            raise _problem(error) from None

    async def write(self, key: str, data: bytes) -> None:
        """Send bytes to a worker; an error is that of ``read``, too."""
        with contextlib.suppress(Exception):
            await self._actor(key).send.remote(data)

    async def read(self, key: str) -> AsyncGenerator[bytes]:
        """Yield the bytes of a worker until it ends. Raises PeerLostError when its node is lost."""
        while True:
            try:
                got = asyncio.ensure_future(self._actor(key).receive.remote())
                async with asyncio.timeout(_QUIET_S):
                    data = await got
            except TimeoutError:
                raise PeerLostError("the node does not answer") from None
            except Exception as error:
                raise PeerLostError(_reason(error)) from None
            if data is None:
                return
            if data:
                yield data

    async def give(self, key: str, digest: str, data: bytes | None) -> str:
        """Bring a pack to a node; ``data`` is needed once. It goes through Ray's object store, which keeps one copy
        for each node. Returns its path there. Raises ClusterError."""
        ray = _ray()
        try:
            if data is not None:
                self._packs[digest] = await asyncio.to_thread(ray.put, data)
            return await self._actor(key).give.remote(digest, self._packs[digest])
        except Exception as error:
            raise _problem(error) from None

    def close(self, key: str) -> None:
        """End an actor; its worker ends by itself."""
        actor = self._actors.pop(key, None)
        if actor is not None:
            with contextlib.suppress(Exception):
                _ray().kill(actor, no_restart=True)

    def _actor(self, key: str) -> Any:
        try:
            return self._actors[key]
        except KeyError:
            raise PeerLostError("the branch was closed") from None


def _ray() -> Any:
    """Return the module, which has only some types, and must not be imported before it is needed."""
    return import_module("ray")


def _check_size(cpus: float) -> None:
    """Raise ClusterError when no node could ever have so many CPUs free."""
    alive = [node for node in _ray().nodes() if node.get("Alive")]
    if max((node.get("Resources", {}).get("CPU", 0.0) for node in alive), default=0.0) < cpus:
        raise ClusterError(t("no node of the cluster has {cpus:g} CPUs", cpus=cpus))


def _connect(address: str) -> str:
    ray = _ray()
    if "://" in address:
        raise ClusterError(t("Ray Client is not supported: this machine must be a node of the cluster"))
    host, _, port = address.rpartition(":")
    if host:
        # Ray would try for minutes.
        socket.create_connection((host.strip("[]"), int(port)), _REACHED_S).close()
    local: dict[str, Any] = {"include_dashboard": False} if address == "local" else {}
    ray.init(
        address=address, log_to_driver=False, configure_logging=False, logging_level=logging.CRITICAL, **local
    )
    return str(ray.__version__)


def _problem(error: BaseException) -> ClusterError:
    return (NodeLostError if _is_lost(error) else ClusterError)(_reason(error))


def _is_lost(error: BaseException) -> bool:
    return any(word in type(error).__name__ for word in ("Died", "Unavailable", "Unschedulable"))


def _reason(error: BaseException) -> str:
    """Return the first line of Ray's words: the rest are traces and ids."""
    name = type(error).__name__
    if _is_lost(error):
        return {"ActorDiedError": "the worker's node or process died"}.get(name, "the node cannot be reached")
    cause = getattr(error, "cause", None) or error
    first = next((line for line in str(cause).splitlines() if line.strip()), "")
    return f"{type(cause).__name__}: {first.strip()}"[:500]


async def _run(descriptor: int) -> None:
    reader, writer = await asyncio.open_connection(sock=socket.socket(fileno=descriptor))
    relay = Relay()
    names = ("connect", "open", "start", "write", "read", "give", "close")
    await Peer(StreamPipe(reader, writer), {name: getattr(relay, name) for name in names}).run()


def main(descriptor: int) -> None:
    """Serve the socket until it ends."""
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    asyncio.run(_run(descriptor))
    import sys

    if (ray := sys.modules.get("ray")) is not None:
        with contextlib.suppress(Exception):
            ray.shutdown()
    os._exit(0)
