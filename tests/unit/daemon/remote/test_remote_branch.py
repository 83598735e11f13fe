"""Branches whose worker is in this process: the real worker and the real connection, without Ray."""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path
from typing import Any

import pytest

from daemon.branch_worker import BranchWorker
from daemon.explore import remote_branch
from daemon.loop.children import close_child
from daemon.loop.session import Session
from daemon.loop.user_plan import UserPlan
from daemon.model import notice_codes
from daemon.model.events import Delta, Event, Notice
from daemon.model.meters import Metered
from daemon.remote.cluster import Cluster
from daemon.remote.peer import Peer, StreamPipe
from tests.support.fakes.models import Call, Hold
from tests.support.scenarios.branches import explore, exploring

MAIN = [explore("one"), "Done."]
SETTINGS = {
    "explore_on": "ray",
    "sandbox": "off",
    "test_command": "",
    "permission": {"edit": "allow", "bash": "allow"},
}


class LocalNode:
    """A worker in this process."""

    name = "node"

    def __init__(self, ours: StreamPipe, theirs: StreamPipe) -> None:
        self.read, self.write = ours.read, ours.write
        self._ends = ours, theirs
        worker = BranchWorker()
        worker.driver = Peer(theirs, {"run": worker.run, "cancel": worker.cancel})
        self._serving = asyncio.create_task(worker.driver.run())

    def lose(self) -> None:
        for end in self._ends:
            end.close()

    async def ended(self) -> None:
        self.lose()
        await self._serving


class LocalCluster:
    """Implements what a branch uses of Cluster."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.nodes: list[LocalNode] = []

    async def open(self, cpus: float) -> LocalNode:
        pipes = [StreamPipe(*await asyncio.open_connection(sock=end)) for end in socket.socketpair()]
        self.nodes.append(LocalNode(pipes[0], pipes[1]))
        return self.nodes[-1]

    async def release(self, node: LocalNode) -> None:
        await node.ended()

    async def give(self, node: LocalNode, data: bytes) -> str:
        path = self._folder / f"pack{len(self.nodes)}"
        path.write_bytes(data)
        return str(path)

    async def close(self) -> None:
        pass


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalCluster:
    found = LocalCluster(tmp_path)

    async def connect(address: str) -> Any:
        return found

    monkeypatch.setattr(Cluster, "connect", staticmethod(connect))
    monkeypatch.setenv("GOALWRIGHT_HOME", str(tmp_path / "node"))
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "config.json").write_text(json.dumps(SETTINGS))
    return found


def task(prompt: str) -> Call:
    return Call("task", {"agent": "general", "prompt": prompt})


async def test_sub_agents_of_a_second_attempt_have_own_records(tmp_path: Path, cluster: LocalCluster) -> None:
    held = Hold()
    steps = {
        "A": [task("first"), [held, "lost"], task("second"), "A is done."],
        "A.s1": [Call("goal", {"add": "try it", "focus": "1"}), "one"],
        "A.s2": [Call("goal", {"add": "do it", "focus": "1"}), "two"],
    }
    async with exploring(tmp_path, MAIN, steps) as bench:
        session = bench.session()
        turn = asyncio.create_task(session.prompt("go"))
        await held.reached.wait()
        cluster.nodes[0].lose()
        await turn
        assert session.state.children.branches["A"].summary == "A is done."
        assert [event.code for event in bench.events(Notice)].count(notice_codes.BRANCH_NODE_LOST) == 1
        said = {
            name: [m.text() for m in bench.core.store.messages(f"{session.session_id}:A.{name}")][-1]
            for name in ("s1", "s2")
        }
        assert said == {"s1": "one", "s2": "two"}


async def test_numbers_of_a_remote_branch_reach_its_listeners(tmp_path: Path, cluster: LocalCluster) -> None:
    async with exploring(tmp_path, MAIN, {"A": ["A is done."]}) as bench:
        session = bench.session()
        heard: list[Event | Delta | Metered] = []
        bench.core.bus.subscribe(f"{session.session_id}:A", heard.append)
        await session.prompt("go")
        assert any(isinstance(item, Metered) for item in heard)
        assert any(isinstance(item, Delta) for item in heard)


async def test_abandoned_remote_branch_closes_its_session(
    tmp_path: Path, cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def closed(child: Session) -> None:
        await asyncio.sleep(0)  # a snapshot is being written, for example
        await close_child(child)

    monkeypatch.setattr(remote_branch, "close_child", closed)
    held = Hold()
    async with exploring(tmp_path, MAIN, {"A": [[held, "A works."]]}) as bench:
        session = bench.session()
        turn = asyncio.create_task(session.prompt("go"))
        await held.reached.wait()
        await UserPlan(session, "me").abandon("1", "no")
        await turn
        assert list(session.features.sessions) == [session.session_id]


async def test_branch_that_is_canceled_while_its_node_goes_is_done(
    tmp_path: Path, cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    releasing, go, released = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def release(node: LocalNode) -> None:
        releasing.set()
        await go.wait()
        await node.ended()
        released.set()

    monkeypatch.setattr(cluster, "release", release)
    async with exploring(tmp_path, MAIN, {"A": ["A is done."]}) as bench:
        session = bench.session()
        turn = asyncio.create_task(session.prompt("go"))
        await releasing.wait()
        assert bench.core.cancel(f"{session.session_id}:A")
        go.set()
        await turn
        branch = session.state.children.branches["A"]
        assert (branch.status, branch.summary) == ("completed", "A is done.")
        assert released.is_set()
