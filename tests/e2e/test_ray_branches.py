"""Branches on the nodes of a real Ray cluster: real git, real commands, real kills."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from daemon.explore.results import load_result
from daemon.loop.session import Session
from daemon.model import notice_codes
from daemon.model.events import BranchCompleted, BranchMessageAdded, BranchPlaced, MessageAdded, Notice
from daemon.model.messages import Message
from daemon.store.files import FileTraceStore
from tests.support.drivers.core import Bench, daemon, prompted
from tests.support.drivers.ray_cluster import RayNodes, on_ray
from tests.support.drivers.waiting import until
from tests.support.examples import in_full
from tests.support.fakes.models import Call, Step
from tests.support.programs import ray_driver
from tests.support.scenarios.branches import (
    ASKED,
    EDITS,
    BranchModels,
    explore,
    exploring,
    ran,
    repository,
    scripts,
    state_of,
    told,
)

MAIN = [explore("use a list", "use a dict"), "I choose A."]
A = [
    Call("goal", {"add": "try, check", "focus": "1"}),
    Call("write", {"file_path": "list.py", "content": "x = []\n"}),
    Call("bash", {"command": "git log --oneline && git status --short && cat new.txt src/b.py"}),
    "A list it is.",
]
B = [Call("write", {"file_path": "dict.py", "content": "x = {}\n"}), "A dict it is."]
WAITS = [
    Call("write", {"file_path": "list.py", "content": "x = []\n"}),
    Call("bash", {"command": "sleep 600"}),
    "A list it is.",
]


@pytest.fixture(scope="module")
def nodes() -> Iterator[RayNodes]:
    nodes = RayNodes()
    yield nodes
    nodes.end()


@asynccontextmanager
async def on_nodes(
    folder: Path,
    nodes: RayNodes,
    branches: Mapping[str, Iterable[Step]],
    main: Iterable[Step] = MAIN,
    **settings: Any,
) -> AsyncGenerator[Bench]:
    """A daemon whose branches work on the nodes; at the end nothing of them is left there."""
    (folder / "home").mkdir(exist_ok=True, parents=True)
    (folder / "home" / "config.json").write_text(json.dumps(on_ray(nodes, **settings)))
    async with exploring(folder, main, branches) as bench:
        yield bench
        await until(lambda: nodes.workers() == [] and nodes.left() == [], "that nothing is left on the nodes")


def ends(bench: Bench, session_id: str) -> dict[str, BranchCompleted]:
    events = bench.core.store.events(session_id)
    return {event.branch_id: event for event in events if isinstance(event, BranchCompleted)}


def result_texts(messages: Iterable[Message]) -> str:
    return "\n".join(found.content for m in messages if (found := m.tool_result()) is not None)


async def test_branches_work_on_nodes_and_bring_their_work_back(tmp_path: Path, nodes: RayNodes) -> None:
    async with on_nodes(tmp_path, nodes, {"A": A, "B": B}) as bench:
        session = await ran(bench)
        placed = bench.events(BranchPlaced)
        assert {event.branch_id for event in placed} == {"A", "B"}
        assert all(branch.node for branch in session.state.children.branches.values())
        done = ends(bench, session.session_id)
        assert [(done[name].status, done[name].summary) for name in "AB"] == [
            ("completed", "A list it is."),
            ("completed", "A dict it is."),
        ]
        record = bench.core.store.messages(f"{session.session_id}:A")
        assert done["A"].last_message == record[-1]
        said = result_texts(record)
        # The node has the commit, and what is not committed, as here.
        assert "first" in said
        assert " M src/b.py\n?? list.py\n?? new.txt" in said
        assert "untracked\nb = 2  # not committed" in said
        kept = load_result(bench.core.store.folder(f"{session.session_id}:A") / "result")
        assert kept is not None
        assert [(c.name, c.before, c.after) for c in kept.changes] == [("list.py", None, b"x = []\n")]
        assert "### Branch A: use a list\nA list it is." in told(session).content


async def begun(bench: Bench, session: Session, nodes: RayNodes, name: str = "A") -> psutil.Process:
    """Return the worker of a branch whose command runs."""
    record = f"{session.session_id}:{name}"

    def works() -> bool:
        live = bench.core.live(record)
        return live is not None and any("bash" in calls(message) for message in live.state.messages)

    await until(works, "the branch's command", within_s=60)
    await until(lambda: commands(nodes), "its process")
    (worker,) = nodes.workers()
    return worker


def commands(nodes: RayNodes) -> list[psutil.Process]:
    """The commands of branches."""
    found: list[psutil.Process] = []
    for worker in nodes.workers():
        with contextlib.suppress(psutil.Error):
            found += [one for one in worker.children(recursive=True) if one.name() == "sleep"]
    return found


def calls(message: Message) -> list[str]:
    return [call.name for call in message.tool_calls()]


def notices(bench: Bench, code: str) -> list[str]:
    return [event.text for event in bench.events(Notice) if event.code == code]


async def test_a_question_of_a_node_is_answered_here(tmp_path: Path, nodes: RayNodes) -> None:
    main = [explore("use a list"), "Done."]
    asks = [
        Call("write", {"file_path": "one.txt", "content": "1\n"}),
        Call("write", {"file_path": "two.txt", "content": "2\n"}),
        Call("write", {"file_path": "two.txt", "content": "3\n"}),
        "Asked.",
    ]
    async with on_nodes(tmp_path, nodes, {"A": asks}, main) as bench:
        session = bench.session(settings=ASKED)
        turn = prompted(session, "go")
        await until(lambda: bench.core.permissions.pending(), "the question", within_s=60)
        (request,) = bench.core.permissions.pending()
        assert (request.trace_id, request.branch_id, request.targets) == (
            session.session_id,
            "A",
            ("one.txt",),
        )
        assert [file.path for file in request.files] == ["one.txt"]
        await bench.answer("reject", "not that one")
        await until(lambda: bench.core.permissions.pending(), "the second question")
        await bench.answer("always")  # the third needs none then
        assert (await turn).stop == "end_turn"
        record = bench.core.store.messages(f"{session.session_id}:A")
        assert "not that one" in result_texts(record)
        kept = load_result(bench.core.store.folder(f"{session.session_id}:A") / "result")
        assert kept is not None
        assert [(change.name, change.after) for change in kept.changes] == [("two.txt", b"3\n")]
        live = [event.event for event in bench.core.store.events(f"{session.session_id}:A")]
        assert live.count("permission_asked") == live.count("permission_replied") == 2


async def test_canceling_ends_its_commands_and_keeps_its_work(tmp_path: Path, nodes: RayNodes) -> None:
    main = [explore("use a list"), "Done."]
    async with on_nodes(tmp_path, nodes, {"A": WAITS[:2]}, main[:1]) as bench:
        session = bench.session(settings=EDITS)
        turn = prompted(session, "go")
        worker = await begun(bench, session, nodes)
        commands = worker.children(recursive=True)
        assert session.cancel()
        assert (await turn).stop == "canceled"
        await until(lambda: not any(one.is_running() for one in commands), "the end of its commands")
        end = ends(bench, session.session_id)["A"]
        assert end.status == "abandoned"
        kept = load_result(bench.core.store.folder(f"{session.session_id}:A") / "result")
        assert kept is not None
        assert [change.name for change in kept.changes] == ["list.py"]


async def test_a_killed_worker_is_replaced_once(tmp_path: Path, nodes: RayNodes) -> None:
    main = [explore("use a list"), "Done."]
    again = [
        Call("goal", {"add": "first", "focus": "1"}),
        *WAITS[:2],
        Call("goal", {"add": "second", "focus": "1"}),
        Call("write", {"file_path": "second.py", "content": "y = 1\n"}),
        "Second time.",
    ]
    async with on_nodes(tmp_path, nodes, {"A": again}, main) as bench:
        session = bench.session(settings=EDITS)
        turn = prompted(session, "go")
        worker = await begun(bench, session, nodes)
        commands = worker.children(recursive=True)
        worker.kill()
        assert (await turn).stop == "end_turn"
        await until(lambda: not any(one.is_running() for one in commands), "the end of its commands")
        assert len(bench.events(BranchPlaced)) == 2
        assert len(notices(bench, notice_codes.BRANCH_NODE_LOST)) == 1
        end = ends(bench, session.session_id)["A"]
        assert (end.status, end.summary) == ("completed", "Second time.")
        kept = load_result(bench.core.store.folder(f"{session.session_id}:A") / "result")
        assert kept is not None
        goals = bench.core.store.goal_tree(f"{session.session_id}:A").goals
        assert [(goal.description, goal.status) for goal in goals] == [
            ("first", "abandoned"),
            ("second", "in_progress"),
        ]
        # The first attempt wrote list.py in its copy: nothing of it counts.
        assert [change.name for change in kept.changes] == ["second.py"]


def relays() -> list[psutil.Process]:
    """Return this daemon's own process of the cluster."""
    found = psutil.Process().children()
    return [one for one in found if any("ray_relay" in part for part in one.cmdline())]


@pytest.mark.parametrize(
    ("moment", "lost"),
    [
        ("placed", "node"),
        ("placed", "relay"),
        ("inherited", "relay"),
        ("inherited", "node"),
        ("first message", "node"),
        ("first message", "relay"),
    ][:: in_full(1, 2)],
)
async def test_a_node_may_be_lost_at_any_moment(
    tmp_path: Path, nodes: RayNodes, moment: str, lost: str
) -> None:
    main = [explore("use a list"), "Done."]
    killed: list[int] = []

    def at(item: object) -> None:
        kind = {"placed": BranchPlaced, "inherited": MessageAdded}.get(moment, BranchMessageAdded)
        if isinstance(item, kind) and not killed:
            for process in relays() if lost == "relay" else (*nodes.actors(), *nodes.workers()):
                killed.append(process.pid)
                process.kill()

    # What the model answers to a lost worker is lost: the next one goes on with the script.
    writes = [Call("write", {"file_path": "dict.py", "content": f"x = {n}\n"}) for n in range(2)]
    async with on_nodes(tmp_path, nodes, {"A": [*writes, "A dict it is."]}, main) as bench:
        session = bench.session(settings=EDITS)
        branch_id = f"{session.session_id}:A"
        bench.core.bus.subscribe(branch_id if moment == "inherited" else session.session_id, at)
        assert (await session.prompt("go")).stop == "end_turn"
        assert killed
        sequences = [message.sequence for message in bench.core.store.messages(branch_id)]
        assert len(sequences) == len(set(sequences))
        end = ends(bench, session.session_id)["A"]
        assert (end.status, end.summary) == ("completed", "A dict it is.")
        assert end.cumulative_stats.message_count == len(bench.events(BranchMessageAdded))
        kept = load_result(bench.core.store.folder(f"{session.session_id}:A") / "result")
        assert kept is not None
        assert [change.name for change in kept.changes] == ["dict.py"]


async def test_a_branch_that_loses_two_nodes_fails(tmp_path: Path, nodes: RayNodes) -> None:
    main = [explore("use a list"), "Done."]
    async with on_nodes(tmp_path, nodes, {"A": [*WAITS[:2], *WAITS[:2]]}, main) as bench:
        session = bench.session(settings=EDITS)
        turn = prompted(session, "go")
        first = await begun(bench, session, nodes)
        for actor in nodes.actors():
            actor.kill()
        await until(lambda: nodes.workers() not in ([], [first]), "the second worker", within_s=60)
        await until(lambda: commands(nodes), "its command")
        for actor in nodes.actors():
            actor.kill()
        assert (await turn).stop == "end_turn"
        end = ends(bench, session.session_id)["A"]
        assert end.status == "abandoned"
        assert "node was lost" in end.summary
        # Its record goes as far as it came.
        said = [
            name
            for message in bench.core.store.messages(f"{session.session_id}:A")
            for name in calls(message)
        ]
        assert said == ["write", "bash", "write", "bash"]


async def test_a_killed_driver_leaves_nothing_on_the_nodes(tmp_path: Path, nodes: RayNodes) -> None:
    before = state_of(repository(tmp_path))
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "config.json").write_text(json.dumps(on_ray(nodes)))
    driver = await asyncio.create_subprocess_exec(sys.executable, ray_driver.__file__, str(tmp_path))

    try:
        await until(lambda: len(commands(nodes)) == 2, "the commands of both", within_s=90)
        found = [*commands(nodes), *nodes.workers()]
    finally:
        driver.kill()
        await driver.wait()
    await until(lambda: not any(one.is_running() for one in found), "the end of all", within_s=60)
    await until(lambda: nodes.left() == [] and nodes.workers() == [], "that nothing is left there")
    (session_id,) = FileTraceStore(tmp_path / "workspace" / ".trace").trace_ids()
    async with daemon(tmp_path, models=BranchModels(["Here I am again."], {})) as bench:
        session = await bench.opened(session_id)
        assert {branch.status for branch in session.state.children.branches.values()} == {"abandoned"}
        assert (await session.prompt("go on")).stop == "end_turn"
    assert state_of(tmp_path / "workspace") == before


async def test_another_version_is_refused_with_words(
    tmp_path: Path, nodes: RayNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daemon.remote.cluster.product_version", lambda: "9.9.9")
    main = [explore("use a list"), "Done."]
    async with on_nodes(tmp_path, nodes, {"A": B}, main, ray_fallback="local") as bench:
        session = await ran(bench)
        (said,) = notices(bench, notice_codes.BRANCHES_HERE)
        assert "works on this machine" in said
        assert "this machine has 9.9.9" in said
        assert ends(bench, session.session_id)["A"].status == "completed"
        assert bench.events(BranchPlaced) == []


async def test_a_cluster_out_of_reach_is_said(tmp_path: Path, nodes: RayNodes) -> None:
    main = [explore("use a list"), "Done."]
    nowhere = {"ray_address": "127.0.0.1:1"}
    async with on_nodes(tmp_path / "a", nodes, {"A": B}, main, **nowhere, ray_fallback="local") as bench:
        session = await ran(bench)
        assert ["work on this machine" in said for said in notices(bench, notice_codes.BRANCHES_HERE)] == [
            True
        ]
        assert ends(bench, session.session_id)["A"].status == "completed"
    async with on_nodes(tmp_path / "b", nodes, {}, main, **nowhere) as bench:
        session = await ran(bench)
        assert told(session).is_error
        assert "ray_fallback" in told(session).content


async def test_no_key_is_on_a_node_or_in_a_file_of_ray(
    tmp_path: Path, nodes: RayNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    canary = "sk-ant-canary-0123456789abcdef"
    monkeypatch.setenv("ANTHROPIC_API_KEY", canary)
    main = [explore("use a list"), "Done."]
    async with on_nodes(tmp_path, nodes, {"A": WAITS[:2]}, main[:1]) as bench:
        session = bench.session(settings=EDITS)
        session.policy.use(env={"ANTHROPIC_API_KEY": canary})
        turn = prompted(session, "go")
        worker = await begun(bench, session, nodes)
        request = scripts(bench).seen_by("A")[0]
        assert request.env["ANTHROPIC_API_KEY"] == canary  # it is used here, for the branch
        # Also not in what Ray starts of its own: all of it was started with the nodes, or by the relay.
        family = [worker, *worker.children(recursive=True), *nodes.actors(), *psutil.Process().children()]
        assert all(canary not in one.environ().values() for one in family if one.is_running())
        assert session.cancel()
        await turn
    for path in nodes.folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            assert canary.encode() not in path.read_bytes(), path
