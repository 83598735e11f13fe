"""The daemon's side of a Ray cluster: one relay process for an exploration, and a pipe to each worker."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import socket
import subprocess
import sys
import uuid
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from daemon.remote.peer import Peer, PeerLostError, StreamPipe
from daemon.remote.ray_relay import ClusterError, NodeLostError
from daemon.version import product_version
from tools.localization import language, t
from tools.process.environment import PASSED_ON, scrubbed_environment

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

_CONNECT_S = 60.0
"""Seconds for the connection to a cluster, or its start on this machine."""
_END_S = 10.0
_HOME = str(Path(__file__).parents[2])
_BOOT = "import sys; sys.path.insert(0, sys.argv[1]); from daemon.remote.ray_relay import main; main(int(sys.argv[2]))"

__all__ = ["Cluster", "ClusterError", "Node", "NodeLostError"]


class Node(Struct, frozen=True):
    """A worker process on a node. Implements Pipe."""

    name: str
    key: str
    relay: Peer
    items: AsyncGenerator[bytes]

    async def read(self) -> bytes:
        return await anext(self.items, b"")

    async def write(self, data: bytes, /) -> None:
        await self.relay.call("write", self.key, data)


class Cluster:
    """A connection to a cluster. Made by ``connect``; a relay that was lost is replaced by the next ``open``."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._given: set[str] = set()
        self._giving = asyncio.Lock()
        self._joining = asyncio.Lock()

    @staticmethod
    async def connect(address: str) -> Cluster:
        """Connect through a process of its own. Raises ClusterError."""
        if sys.platform == "win32":
            raise ClusterError(t("branches on other machines need Linux or macOS"))
        if await asyncio.to_thread(find_spec, "ray") is None:
            raise ClusterError(t("ray is not installed. Install it with: pip install 'goalwright[ray]'"))
        cluster = Cluster(address)
        await cluster._join()
        return cluster

    async def _join(self) -> None:
        """Start a relay. Raises ClusterError."""
        ours, theirs = socket.socketpair()
        try:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-I", "-c", _BOOT, _HOME, str(theirs.fileno()),
                env=_environment(), cwd="/", pass_fds=[theirs.fileno()], start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
        except OSError as error:
            ours.close()
            raise ClusterError(str(error)) from error
        finally:
            theirs.close()
        self._relay = Peer(StreamPipe(*await asyncio.open_connection(sock=ours)), {})
        self._serving = asyncio.create_task(self._relay.run())
        self._given.clear()
        try:
            async with asyncio.timeout(_CONNECT_S):
                await self._relay.call("connect", self._address, language())
        except BaseException as error:
            await self.close()
            if isinstance(error, TimeoutError):
                raise ClusterError(t("it did not answer within {seconds:g} s", seconds=_CONNECT_S)) from None
            if isinstance(error, PeerLostError):
                raise ClusterError(str(error)) from None
            raise

    async def open(self, cpus: float) -> Node:
        """Start a worker process on a node where ``cpus`` are free; waits for one. Canceled, it leaves nothing.

        Raises ClusterError when there can be none, or what is installed there is not what is installed here, and
        PeerLostError when the relay is lost meanwhile: another try gets a new one.
        """
        async with self._joining:
            if self._relay.lost.is_set():
                await self.close()
                await self._join()
        relay, key = self._relay, uuid.uuid4().hex
        try:
            facts = await relay.call("open", key, cpus)
            if problem := version_problem(facts):
                raise ClusterError(problem)
            await relay.call("start", key)
        except BaseException:
            relay.tell("close", key)
            raise
        return Node(str(facts["node"]), key, relay, relay.stream("read", key))

    async def give(self, node: Node, data: bytes) -> str:
        """Bring a pack to a node; each content is sent from here once. Returns its path there. Raises ClusterError."""
        digest = await asyncio.to_thread(lambda: hashlib.sha256(data).hexdigest())
        async with self._giving:
            new = digest not in self._given
            path = await node.relay.call("give", node.key, digest, data if new else None)
            self._given.add(digest)
        return path

    async def release(self, node: Node) -> None:
        """End a worker, whatever it does. Never raises; twice is as good as once."""
        node.relay.tell("close", node.key)
        with contextlib.suppress(Exception):
            await node.items.aclose()

    async def close(self) -> None:
        """End everything that still runs. Never raises."""
        self._serving.cancel()
        await asyncio.gather(self._serving, return_exceptions=True)
        self._relay.close()
        try:
            async with asyncio.timeout(_END_S):
                await self._process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()


def version_problem(facts: dict[str, Any]) -> str:
    """Return why a node cannot work with us; empty when it can. ``facts``: see ``BranchActor.facts``."""
    node = str(facts.get("node", "?"))
    if missing := facts.get("missing"):
        return t("Goalwright is not installed on {node} ({missing})", node=node, missing=missing)
    here = {"python": ".".join(map(str, sys.version_info[:3])), "goalwright": product_version()}
    for name, version in here.items():
        if (theirs := str(facts.get(name))).split(".")[:3] != version.split(".")[:3]:
            return t(
                "{node} has {name} {theirs}, and this machine has {version}. Install the same version there.",
                node=node,
                name=name,
                theirs=theirs,
                version=version,
            )
    return ""


def _environment() -> dict[str, str]:
    """Return the relay's environment: without secrets, but with Ray's own settings (TLS, its token).

    What the setting ``environment`` names is for commands on this machine, so it is left out, too.
    """
    own = {name: value for name, value in os.environ.items() if name.startswith("RAY_")}
    others = {name: value for name, value in os.environ.items() if name != PASSED_ON}
    return {**scrubbed_environment(others), **own, "RAY_USAGE_STATS_ENABLED": "0"}
