"""Agents that may explore, and the limits in branches of restricted sessions."""

from __future__ import annotations

from pathlib import Path

from tests.support.drivers.core import prompted
from tests.support.fakes.models import Call
from tests.support.scenarios.branches import EDITS, explore, exploring, ran, scripts, told


async def test_sub_agent_of_a_branch_is_refused_explore(tmp_path: Path) -> None:
    task = Call("task", {"agent": "general", "prompt": "look"})
    steps = {"A": [[task], "A."], "A.s1": [[explore("deeper")], "Refused."]}
    async with exploring(tmp_path, [explore("a"), "Done."], steps) as bench:
        session = await ran(bench)
        for branch in ("A", "A.s1"):
            for request in scripts(bench).seen_by(branch):
                assert "explore" not in {tool.name for tool in request.tools}
        child = await bench.opened(f"{session.session_id}:A.s1")
        assert told(child).is_error
        assert list(session.state.children.branches) == ["A"]


async def test_branches_of_the_plan_agent_only_look(tmp_path: Path) -> None:
    write = Call("write", {"file_path": "a.txt", "content": "x"})
    async with exploring(tmp_path, [explore("a"), "Done."], {"A": [[write], "A."]}) as bench:
        session = bench.session(agent="plan", settings=EDITS)
        assert (await prompted(session, "go")).stop == "end_turn"
        assert not {"write", "edit"} & {tool.name for tool in scripts(bench).seen_by("A")[0].tools}
        score = session.state.children.branches["A"].score
        assert score is not None and score.files == 0


async def test_background_job_of_main_session_is_hidden_from_branches(tmp_path: Path) -> None:
    job = Call("bash", {"command": "sleep 300", "background": True})
    look = Call("job", {"action": "list"})
    async with exploring(tmp_path, [[job], explore("a"), "Done."], {"A": [[look], "A."]}) as bench:
        session = await ran(bench)
        child = await bench.opened(f"{session.session_id}:A")
        assert "sleep 300" not in told(child, "job").content
        assert session.state.jobs  # still running
