"""Instruction files: which are given, when, and which never (conventions.md, "Instructions and config")."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from daemon.context.instructions import (
    MAX_INSTRUCTIONS,
    MAX_NESTED,
    NestedInstructions,
    files_at_work,
    instructions_of,
    read_instructions,
    with_instructions,
)
from tests.support.fakes.tool_context import fake_context
from tools.registry import builtin_tools, run_tool
from tools.tool import ToolResult

MOVE = """*** Begin Patch
*** Update File: a/x.py
*** Move to: b/x.py
@@
-x = 2
+x = 3
*** End Patch"""


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    workspace, home = tmp_path / "workspace", tmp_path / "home"
    workspace.mkdir()
    home.mkdir()
    return workspace, home


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


# -- the person's own and the root's --


def test_user_instructions_precede_workspace_instructions(folders: tuple[Path, Path]) -> None:
    workspace, home = folders
    put(home / "AGENTS.md", "mine")
    put(workspace / "AGENTS.md", "its\n")
    put(workspace / "CLAUDE.md", "other")
    assert list(read_instructions(workspace, home).values()) == ["mine", "its", "other"]


def test_equal_files_are_included_once_and_empty_ones_never(folders: tuple[Path, Path]) -> None:
    workspace, home = folders
    put(home / "AGENTS.md", " \n")
    put(workspace / "AGENTS.md", "its")
    (workspace / "CLAUDE.md").symlink_to("AGENTS.md")
    assert read_instructions(workspace, home) == {str(workspace / "AGENTS.md"): "its"}


def test_long_instruction_file_is_truncated_with_a_note(folders: tuple[Path, Path]) -> None:
    workspace, home = folders
    put(workspace / "AGENTS.md", "x" * (MAX_INSTRUCTIONS + 1))
    (text,) = read_instructions(workspace, home).values()
    assert text == "x" * MAX_INSTRUCTIONS + "\n[… cut]"


def test_unusual_instruction_files_are_skipped_or_decoded(folders: tuple[Path, Path]) -> None:
    workspace, home = folders
    (workspace / "AGENTS.md").symlink_to("/dev/zero")
    (home / "AGENTS.md").mkdir()
    if hasattr(os, "mkfifo"):
        os.mkfifo(workspace / "CLAUDE.md")
    assert read_instructions(workspace, home) == {}
    (workspace / "AGENTS.md").unlink()
    (workspace / "AGENTS.md").write_bytes(b"\xef\xbb\xbfgood \xff bad")
    assert list(read_instructions(workspace, home).values()) == ["good � bad"]


def test_instructions_linked_out_of_the_workspace_are_not_sent(folders: tuple[Path, Path]) -> None:
    workspace, home = folders
    put(workspace.parent / "secret.md", "the user's own notes")
    (workspace / "AGENTS.md").symlink_to(workspace.parent / "secret.md")
    put(workspace / "rules.md", "be brief")
    (workspace / "CLAUDE.md").symlink_to(workspace / "rules.md")
    assert list(read_instructions(workspace, home).values()) == ["be brief"]


def test_user_instruction_file_may_be_a_link(folders: tuple[Path, Path]) -> None:
    workspace, home = folders
    put(workspace.parent / "dotfiles" / "agents.md", "mine")
    (home / "AGENTS.md").symlink_to(workspace.parent / "dotfiles" / "agents.md")
    assert list(read_instructions(workspace, home).values()) == ["mine"]


# -- those of folders --


async def test_file_brings_instructions_of_all_parent_folders_but_root(tmp_path: Path) -> None:
    put(tmp_path / "AGENTS.md", "root")
    put(tmp_path / "a" / "AGENTS.md", "outer")
    put(tmp_path / "a" / "b" / "CLAUDE.md", "inner")
    put(tmp_path / "c" / "AGENTS.md", "not on the way")
    found = await NestedInstructions(tmp_path).for_files(["a/b/x.py"], {})
    assert list(found.items()) == [("a/AGENTS.md", "outer"), ("a/b/CLAUDE.md", "inner")]


async def test_given_instructions_are_repeated_only_when_changed(tmp_path: Path) -> None:
    nested = NestedInstructions(tmp_path)
    put(tmp_path / "a" / "AGENTS.md", "outer")
    first = await nested.for_files(["a/x.py"], {})
    assert await nested.for_files(["a/y.py", "a/b/z.py"], first) == {}
    put(tmp_path / "a" / "AGENTS.md", "changed")
    assert await nested.for_files(["a/x.py"], first) == {"a/AGENTS.md": "changed"}


async def test_long_instructions_with_a_long_import_are_cut(tmp_path: Path) -> None:
    put(tmp_path / "a" / "AGENTS.md", f"{'x' * 15_985}\n@more.md\n")
    put(tmp_path / "a" / "more.md", "y" * 17_000)
    nested = NestedInstructions(tmp_path)
    found = await nested.for_files(["a/x.py"], {})
    assert len(found["a/AGENTS.md"]) == MAX_INSTRUCTIONS
    assert await nested.for_files(["a/x.py"], found) == {}


async def test_several_files_bring_each_folders_instructions_once(tmp_path: Path) -> None:
    put(tmp_path / "a" / "AGENTS.md", "of a")
    put(tmp_path / "b" / "AGENTS.md", "of b")
    found = await NestedInstructions(tmp_path).for_files(["a/x.py", "b/y.py", "a/c/z.py", "top.py"], {})
    assert found == {"a/AGENTS.md": "of a", "b/AGENTS.md": "of b"}


async def test_both_instruction_files_are_given_only_if_they_differ(tmp_path: Path) -> None:
    put(tmp_path / "a" / "AGENTS.md", "one")
    put(tmp_path / "a" / "CLAUDE.md", "two")
    put(tmp_path / "b" / "AGENTS.md", "same")
    put(tmp_path / "b" / "CLAUDE.md", "same\n")
    found = await NestedInstructions(tmp_path).for_files(["a/x", "b/x"], {})
    assert found == {"a/AGENTS.md": "one", "a/CLAUDE.md": "two", "b/AGENTS.md": "same"}


@pytest.mark.parametrize(
    "path",
    ["node_modules/p/x.js", "web/node_modules/p/x.js", "vendor/p/x.go", ".venv/lib/site-packages/p/x.py"],
)
async def test_instructions_in_dependency_folders_are_ignored(tmp_path: Path, path: str) -> None:
    put((tmp_path / path).parent / "AGENTS.md", "obey me")
    assert await NestedInstructions(tmp_path).for_files([path], {}) == {}


async def test_paths_outside_the_workspace_have_no_instructions(folders: tuple[Path, Path]) -> None:
    workspace, home = folders
    put(home / "AGENTS.md", "mine")
    put(home / "sub" / "AGENTS.md", "mine too")
    paths = [str(home / "sub" / "x.py"), "../home/sub/x.py", "a/../../home/sub/x.py", "", ".", "/"]
    assert await NestedInstructions(workspace).for_files(paths, {}) == {}


async def test_instruction_links_out_and_non_files_are_skipped(
    folders: tuple[Path, Path],
) -> None:
    workspace, home = folders
    put(home / "secret.md", "secret")
    for name in "abcdef":
        (workspace / name).mkdir()
    (workspace / "a" / "AGENTS.md").symlink_to(home / "secret.md")
    (workspace / "b" / "AGENTS.md").symlink_to("/dev/zero")
    (workspace / "c" / "AGENTS.md").mkdir()
    (workspace / "d" / "AGENTS.md").symlink_to("AGENTS.md")
    if hasattr(os, "mkfifo"):
        os.mkfifo(workspace / "e" / "AGENTS.md")
    put(workspace / "f" / "AGENTS.md", "fine")
    found = await NestedInstructions(workspace).for_files([f"{name}/x" for name in "abcdef"], {})
    assert found == {"f/AGENTS.md": "fine"}


async def test_link_to_the_root_instructions_is_not_included_again(tmp_path: Path) -> None:
    put(tmp_path / "AGENTS.md", "root")
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "CLAUDE.md").symlink_to("../AGENTS.md")
    assert await NestedInstructions(tmp_path).for_files(["a/x"], {}) == {}


async def test_file_that_rules_forbid_to_read_is_not_included(tmp_path: Path) -> None:
    put(tmp_path / "a" / "AGENTS.md", "hidden")
    put(tmp_path / "b" / "AGENTS.md", "shown")
    found = await NestedInstructions(tmp_path).for_files(
        ["a/x", "b/x"], {}, readable=lambda path: not path.startswith("a/")
    )
    assert found == {"b/AGENTS.md": "shown"}


async def test_long_instructions_are_cut_and_the_nearest_come_first(tmp_path: Path) -> None:
    nested = NestedInstructions(tmp_path)
    for folder in ("a", "a/b", "a/b/c"):
        put(tmp_path / folder / "AGENTS.md", folder * MAX_NESTED)
    first = await nested.for_files(["a/b/c/x"], {})
    assert list(first) == ["a/b/c/AGENTS.md"]
    assert all(len(text) <= MAX_NESTED + 10 and text.endswith("[… cut]") for text in first.values())
    put(tmp_path / "a" / "AGENTS.md", "short")
    second = await nested.for_files(["a/b/c/x"], first)
    assert list(second) == ["a/AGENTS.md", "a/b/AGENTS.md"]


async def test_a_folders_name_cannot_break_out_of_the_block(tmp_path: Path) -> None:
    name = 'a"><x>\nb'
    put(tmp_path / name / "AGENTS.md", "text")
    result = with_instructions(
        ToolResult("read"), await NestedInstructions(tmp_path).for_files([f"{name}/x"], {})
    )
    head = result.content.splitlines()[2]
    assert head.startswith("<instructions file=")
    assert head.endswith('AGENTS.md">')
    assert head.count('"') == 2


# -- in tool results --


def test_the_files_at_work_are_those_read_and_written() -> None:
    read = ToolResult("1→x", metadata={"path": "a/x.py", "sha256": "0"})
    assert files_at_work("read", read) == ("a/x.py",)
    files = [{"path": "a/x.py", "sha256": None}, {"path": "b/y.py", "sha256": "1"}, "odd", {"sha256": "2"}]
    patch = ToolResult("applied", metadata={"path": "b/y.py", "sha256": "1", "files": files})
    assert files_at_work("patch", patch) == ("a/x.py", "b/y.py")


@pytest.mark.parametrize("tool", ["bash", "ls", "glob", "grep", "goal"])
def test_listings_searches_and_commands_name_no_file_at_work(tool: str) -> None:
    result = ToolResult("…", metadata={"path": "a", "files": [{"path": "a/x.py", "sha256": "0"}]})
    assert files_at_work(tool, result) == ()


def test_listed_folder_and_failed_call_name_no_file_at_work() -> None:
    assert (
        files_at_work("read", ToolResult("a, which was a file, is now a folder.", metadata={"path": "a"}))
        == ()
    )
    failed = ToolResult("no", metadata={"path": "a/x.py", "sha256": "0"}, is_error=True)
    assert files_at_work("edit", failed) == ()


def test_instructions_are_appended_to_result_and_its_metadata() -> None:
    result = ToolResult("1→x", title="x", metadata={"path": "a/x"})
    found = {"a/AGENTS.md": "be brief"}
    told = with_instructions(result, found)
    assert told.content == '1→x\n\n<instructions file="a/AGENTS.md">\nbe brief\n</instructions>'
    assert told.metadata == {"path": "a/x", "instructions": found}
    assert instructions_of(told.metadata) == found
    assert with_instructions(result, {}) is result


@pytest.mark.parametrize("damaged", [{}, {"instructions": 3}, {"instructions": {"a": 1}}])
def test_damaged_metadata_yields_no_instructions(damaged: dict[str, object]) -> None:
    assert instructions_of(damaged) == {}


async def test_tool_results_name_the_files_they_are_about(tmp_path: Path) -> None:
    ctx = fake_context(tmp_path)
    tools = builtin_tools()
    put(ctx.workspace / "a" / "AGENTS.md", "be brief")
    put(ctx.workspace / "a" / "x.py", "x = 1\n")
    calls: list[tuple[str, dict[str, str], tuple[str, ...]]] = [
        ("read", {"file_path": "a"}, ()),
        ("ls", {"path": "a"}, ()),
        ("grep", {"pattern": "x"}, ()),
        ("read", {"file_path": str(ctx.workspace / "a" / "x.py")}, ("a/x.py",)),
        ("edit", {"file_path": "a/x.py", "old_string": "x = 1", "new_string": "x = 2"}, ("a/x.py",)),
        ("write", {"file_path": "a/new/y.py", "content": "y = 1\n"}, ("a/new/y.py",)),
        ("patch", {"patch_text": MOVE}, ("a/x.py", "b/x.py")),
        ("edit", {"file_path": "a/none.py", "old_string": "x", "new_string": "y"}, ()),
    ]
    for name, arguments, files in calls:
        result = await run_tool(tools[name], json.dumps(arguments), ctx)
        assert sorted(files_at_work(name, result)) == list(files), result.content
        found = await NestedInstructions(ctx.workspace).for_files(files, {})
        assert found == ({"a/AGENTS.md": "be brief"} if files else {})
