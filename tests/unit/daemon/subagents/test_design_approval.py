"""The user must approve each change of a design, whoever makes it and whatever is allowed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from daemon.agents.loader import load_agent
from daemon.loop.children import close_child, open_child
from daemon.loop.undo import Restorer
from daemon.model.events import Notice
from daemon.model.permissions import Grant
from tests.support.drivers.core import Bench, daemon, finish, prompted
from tests.support.drivers.rule_judge import reason_words
from tests.support.fakes.models import Call, Step
from tests.support.scenarios.iterations import designing, over
from tools.tool import PermissionAsk


@pytest.mark.parametrize("answer", ["always", "once"])
@pytest.mark.parametrize("scope", ["session", "workspace", "user"])
async def test_every_design_change_needs_its_own_approval(tmp_path: Path, answer: Any, scope: Any) -> None:
    writes = [Call("write", {"file_path": f"design/{n}.md", "content": "x\n"}) for n in (1, 2)]
    async with daemon(tmp_path, writes[0], writes[1], "Designed.") as bench:
        session = designing(bench)
        turn = prompted(session, "design it")
        (request,) = await bench.asked()
        if answer == "always":
            grants = [Grant(permission="edit", pattern="*")]
            bench.core.permissions.reply(request.request_id, "always", None, "t", None, grants, scope)
        else:
            await bench.answer("once")
        (second,) = await bench.asked()
        assert second.targets == ("design/2.md",)
        await bench.answer("once")
        await finish(turn)
        assert session.state.granted == []
        assert bench.core.grants.all() == []


async def test_agents_sent_by_init_need_approval_for_the_design(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = designing(bench)
        helper = open_child(session, "s1", load_agent("build"))
        assert helper.rules.decide("edit", "design/rules.md").action == "ask"
        helper.policy.take_over(())
        assert helper.rules.decide("edit", "out/a.py").action == "allow"
        await close_child(helper)


async def test_a_file_of_the_workspace_does_not_take_the_approval_away(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        folder = bench.workspace / ".goalwright" / "agents"
        folder.mkdir(parents=True)
        (folder / "init.md").write_text("---\ndescription: Designs unasked.\n---\nDesign.\n")
        session = designing(bench)
        assert session.agent.source == "workspace"
        assert session.rules.decide("edit", "design/rules.md").action == "ask"


async def test_design_approval_gives_its_reason(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        (reason, *_) = designing(bench).rules.judge(PermissionAsk("edit", ("design/rules.md",), "")).reasons
        words = "ask edit design/rules.md: this agent asks before each change, regardless of modes, rules and earlier"
        assert reason_words(reason).startswith(words)


async def test_an_undo_of_the_session_covers_what_an_iteration_wrote(tmp_path: Path) -> None:
    write = Call("write", {"file_path": "out/tool.py", "content": "x = 1\n"})
    async with daemon(tmp_path, over(), write, over("Done.", success_rate=1), "Good.") as bench:
        session = designing(bench)
        await session.prompt("design it")
        assert (bench.workspace / "out/tool.py").exists()
        await Restorer(session).undo()
        assert not (bench.workspace / "out/tool.py").exists()


async def test_executing_agent_needs_approval_to_change_the_design(tmp_path: Path) -> None:
    def write(path: str, content: str) -> Call:
        return Call("write", {"file_path": path, "content": content})

    steps: tuple[Step, ...] = (
        write("design/rules.md", "one\n"),
        over(),
        Call("read", {"file_path": "design/rules.md"}),
        write("out/a.py", "x = 1\n"),
        write("design/rules.md", "two\n"),
        over("The rules are wrong.", success_rate=0.1),
        "I see.",
    )
    async with daemon(tmp_path, *steps) as bench:
        session = designing(bench, mode="accept-edits")
        turn = prompted(session, "design it")
        await bench.answer("once")
        (request,) = await bench.asked()
        assert (request.branch_id, request.targets) == ("s1", ("design/rules.md",))
        assert "belongs to the design" in request.rule.words
        await bench.answer("reject", "report it instead")
        assert (await finish(turn)).stop == "end_turn"
        assert (bench.workspace / "design/rules.md").read_text() == "one\n"
        assert (bench.workspace / "out/a.py").exists()


WRITES_DESIGN = Call("bash", {"command": "python3 gen.py", "description": "generate"})


def told_of_design(bench: Bench) -> list[str]:
    """Return the events about the design, once for each record that has them: the worker's own, and the main
    session's."""
    return [event.text for event in bench.events(Notice) if event.code == "design"]


async def designed_and_carried_out(folder: Path, *steps: Step, answers: int = 0) -> tuple[list[str], str]:
    """Return the main session's events about the design, and the result of init's hand-over."""
    rules = Call("write", {"file_path": "design/rules.md", "content": "one\n"})
    async with daemon(folder, rules, over(), *steps, "I see.") as bench:
        (bench.workspace / "gen.py").write_text("open('design/rules.md', 'a').write('more\\n')\n")
        session = designing(bench, mode="auto")
        turn = prompted(session, "design it")
        for _ in range(1 + answers):
            await bench.answer("once")
        assert (await finish(turn)).stop == "end_turn"
        result = next(
            found
            for message in session.state.messages
            if (found := message.tool_result()) is not None and found.name == "hand_over"
        )
        return told_of_design(bench), result.content


async def test_unnoticed_design_change_is_reported_to_user_and_init(
    tmp_path: Path,
) -> None:
    told, result = await designed_and_carried_out(tmp_path, WRITES_DESIGN, over("Done."))
    assert len(told) == 1
    assert told[0].startswith(
        "design/rules.md belongs to the design, and a command of the execute agent changed it without your "
        "approval:"
    )
    assert "without the user's approval: design/rules.md." in result


async def test_unnoticed_design_change_by_a_sub_agent_is_reported(tmp_path: Path) -> None:
    sent = Call("task", {"agent": "general", "prompt": "generate"})
    told, result = await designed_and_carried_out(tmp_path, sent, WRITES_DESIGN, "Generated.", over("Done."))
    assert [text.partition(" changed it")[0].rpartition(" command of ")[2] for text in told] == [
        "the general agent"
    ]
    assert "without the user's approval: design/rules.md." in result


async def test_approved_or_unrelated_changes_are_not_reported(tmp_path: Path) -> None:
    shown = Call("bash", {"command": "echo two >> design/rules.md", "description": "x"})
    other = Call("bash", {"command": "python3 -m compileall -q gen.py; echo 1 > out.txt", "description": "x"})
    told, result = await designed_and_carried_out(tmp_path, shown, other, over("Done."), answers=1)
    assert told == []
    assert "without the user's approval" not in result
