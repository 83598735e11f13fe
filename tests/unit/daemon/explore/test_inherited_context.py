"""The messages that a branch begins with, whose paths are those of its copy."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

from daemon.agents.loader import load_agent
from daemon.copies.working_copy import Base, BranchChange
from daemon.explore.branch_task import BranchOutcome, BranchTask
from daemon.explore.inherited_context import conversation, moved, places_moved, rewriter
from daemon.model.events import BranchMessageAdded
from daemon.model.messages import NotePart, TextPart, ToolCallPart, ToolResultPart
from daemon.model.traces import BranchTrace
from daemon.provider.model_calls import PromptMessage
from daemon.settings import Settings
from daemon.store.replay import read_state
from tests.support.fakes.models import Call, Think
from tests.support.scenarios.branches import explore, exploring, ran, scripts

OLD, NEW = Path("/home/me/my shop"), Path("/state/branches/A/my shop")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/home/me/my shop", "/state/branches/A/my shop"),
        ("see /home/me/my shop.", "see /state/branches/A/my shop."),
        ("/home/me/my shop/src/a.py:3", "/state/branches/A/my shop/src/a.py:3"),
        ("(/home/me/my shop)", "(/state/branches/A/my shop)"),
        ('cd "/home/me/my shop" && ls', 'cd "/state/branches/A/my shop" && ls'),
        ("PATH=/home/me/my shop/bin", "PATH=/state/branches/A/my shop/bin"),
        ("gcc -I/home/me/my shop/include", "gcc -I/state/branches/A/my shop/include"),
        ("a:/home/me/my shop:b", "a:/state/branches/A/my shop:b"),
        ("file:///home/me/my%20shop/a.py", "file:///state/branches/A/my%20shop/a.py"),
        (r"a\n/home/me/my shop/b", r"a\n/state/branches/A/my shop/b"),
        ("~/my shop/a.py", "/state/branches/A/my shop/a.py"),
        ("/home/me/my shop-old/a.py", None),
        ("/home/me/my shop.bak", None),
        ("/home/me/my shops", None),
        ("/mnt/home/me/my shop", None),
        ("x/home/me/my shop", None),
        ("/home/me/my", None),
        ("no place at all", None),
    ],
)
def test_paths_are_rewritten_only_as_whole_names(text: str, expected: str | None) -> None:
    assert rewriter(OLD, NEW, Path("/home/me"))(text) == (text if expected is None else expected)


def test_inherited_calls_results_and_metadata_get_new_paths() -> None:
    call = ToolCallPart(id="1", name="bash", input=json.dumps({"command": 'x="é"\ncd "/home/me/my shop"'}))
    plain = ToolCallPart(id="2", name="ls", input='{"path":  "src"}')
    broken = ToolCallPart(id="3", name="ls", input='{"path": "/home/me/my shop/src')
    result = ToolResultPart(
        tool_call_id="1",
        name="bash",
        content="in /home/me/my shop",
        metadata={"files": [{"path": "/home/me/my shop/a"}], "job_id": "j1"},
    )
    said = PromptMessage(
        "user", (TextPart(text="look at /home/me/my shop"), NotePart(text="/home/me/my shop/x"))
    )
    messages = [
        said,
        PromptMessage("assistant", (call, plain, broken)),
        PromptMessage("tool", (result,)),
    ]
    user, assistant, tool = moved(messages, rewriter(OLD, NEW))
    assert [part.text for part in user.content if isinstance(part, TextPart | NotePart)] == [
        f"look at {NEW}",
        f"{NEW}/x",
    ]
    calls = [part for part in assistant.content if isinstance(part, ToolCallPart)]
    assert calls[0].arguments() == {"command": f'x="é"\ncd "{NEW}"'}
    assert calls[1] == plain
    assert calls[2].input == f'{{"path": "{NEW}/src'
    (answer,) = tool.content
    assert isinstance(answer, ToolResultPart)
    assert answer.content == f"in {NEW}"
    assert answer.metadata == {"files": [{"path": f"{NEW}/a"}]}


def test_non_ascii_path_is_rewritten_in_both_json_spellings() -> None:
    rewrite = rewriter(Path("/home/é/proj"), Path("/copy"))
    for text in (
        json.dumps({"a": "/home/é/proj/x"}),
        json.dumps({"a": "/home/é/proj/x"}, ensure_ascii=False),
    ):
        assert json.loads(rewrite(text)) == {"a": "/copy/x"}


def test_read_state_moves_to_the_copy_paths() -> None:
    known = {"/w/a.py": "1", "/w": "2", "/other/a.py": "3", "/w2/a.py": "4"}
    assert places_moved(known, Path("/w"), Path("/c")) == {
        "/c/a.py": "1",
        "/c": "2",
        "/other/a.py": "3",
        "/w2/a.py": "4",
    }


def test_empty_conversation_inherits_nothing() -> None:
    assert conversation([], {"x"}) == ()


def test_branch_task_and_outcome_can_be_pickled() -> None:
    task = BranchTask(
        trace_id="t",
        branch_id="A",
        explore_start_id="2",
        base=Base("c" * 40, "t" * 40, b"\0patch"),
        direction="try",
        others=(("B", "other"),),
        background=None,
        workspace="/w",
        conversation=(PromptMessage("user", (TextPart(text="hello"),)),),
        seen={"/w/a": "1"},
        instructions={},
        untrusted_instructions={},
        mission="m",
        plan="",
        agent=load_agent("build"),
        model="fake/model",
        settings=Settings(),
    )
    outcome = BranchOutcome(
        "t:A", "completed", "done", "end_turn", changes=(BranchChange("a", None, b"1"),), patch=b"p"
    )
    assert pickle.loads(pickle.dumps(task)) == task
    assert pickle.loads(pickle.dumps(outcome)) == outcome
    assert task.session_id == "t:A"


async def test_branch_without_background_inherits_the_conversation(tmp_path: Path) -> None:
    readme = str((tmp_path / "workspace" / "README.md").resolve())
    main = [
        [Think("let me see"), "I look.", Call("read", {"file_path": readme})],
        ["Both ways could do.", Call("read", {"file_path": "src/a.py"}), explore("one", "two")],
        "Done.",
    ]
    steps = {
        "A": [
            Call("edit", {"file_path": "README.md", "old_string": "read me", "new_string": "READ"}),
            "Edited.",
        ],
        "B": ["Nothing."],
    }
    async with exploring(tmp_path, main, steps) as bench:
        session = await ran(bench, f"Improve {readme}, please")
        request = scripts(bench).seen_by("A")[0]
        root = request.env["GOALWRIGHT_WORKSPACE"]
        assert root != str(bench.workspace)
        everything = repr(request.messages)
        told = [part.text for part in request.messages[0].content if isinstance(part, TextPart)]
        assert told == [f"Improve {root}/README.md, please"]
        assert "read me" in everything  # what it had read
        assert "let me see" not in everything
        assert "Both ways could do." in everything
        names = [p.name for m in request.messages for p in m.content if isinstance(p, ToolCallPart)]
        assert names == ["read", "read"]
        task = request.messages[-1].content[0]
        assert isinstance(task, TextPart)
        assert task.text.count(str(bench.workspace)) == 0
        assert "# You are branch A" in task.text
        assert f"Yours is {root}" in task.text
        assert "B (two)" in task.text
        # What the main line had read counts as read: the edit went through.
        assert session.state.children.branches["A"].summary == "Edited."
        own = read_state(bench.core.store, f"{session.session_id}:A")
        assert isinstance(own.trace, BranchTrace)
        inherited = [m for m in own.messages if m.sequence <= own.trace.inherited]
        assert [m.role for m in inherited] == ["user", "assistant", "tool", "assistant", "tool"]
        assert {m.branch_id for m in own.messages} == {"A"}
        mirrored = [e.message for e in bench.events(BranchMessageAdded) if e.branch_id == "A"]
        assert mirrored == own.messages[own.trace.inherited :]
        assert own.trace.usage.total > 0
        assert own.position == (0, 2)


async def test_branch_requests_omit_the_explore_call(tmp_path: Path) -> None:
    async with exploring(tmp_path, [explore("one", "two"), "Done."], {"A": ["1."], "B": ["2."]}) as bench:
        await ran(bench)
        request = scripts(bench).seen_by("B")[0]
        assert [message.role for message in request.messages] == ["user", "user"]


async def test_branch_with_background_inherits_no_conversation(tmp_path: Path) -> None:
    main = [
        Call("read", {"file_path": "README.md"}),
        explore("one", "two", background="Only <said>this</said>."),
        "Done.",
    ]
    edit = Call("edit", {"file_path": "README.md", "old_string": "read me", "new_string": "READ"})
    async with exploring(tmp_path, main, {"A": [edit, "Done."], "B": ["2."]}) as bench:
        session = await ran(bench, "the secret prompt")
        request = scripts(bench).seen_by("A")[0]
        (message,) = request.messages
        text = message.content[0]
        assert isinstance(text, TextPart)
        assert text.text.startswith("# Background\n\nOnly ‹said>this‹/said>.")
        assert "the secret prompt" not in text.text
        child = await bench.opened(f"{session.session_id}:A")
        result = next(m.tool_result() for m in child.state.messages if m.role == "tool")
        assert result is not None
        assert result.is_error  # it has not read the file


async def test_file_changed_since_it_was_read_must_be_reread_in_branch(
    tmp_path: Path,
) -> None:
    main = [
        Call("read", {"file_path": "README.md"}),
        Call("bash", {"command": "echo other > README.md"}),
        explore("one", "two"),
        "Done.",
    ]
    edit = Call("edit", {"file_path": "README.md", "old_string": "other", "new_string": "READ"})
    async with exploring(tmp_path, main, {"A": [edit, "Done."], "B": ["2."]}, changes=True) as bench:
        session = await ran(bench)
        child = await bench.opened(f"{session.session_id}:A")
        result = [r for m in child.state.messages if m.role == "tool" and (r := m.tool_result())][-1]
        assert result.name == "edit"
        assert result.is_error
