"""The layers of the system prompt (mission M6)."""

from __future__ import annotations

import os
from datetime import date
from pathlib import Path

import pytest

from daemon.context.prompt import MAX_INSTRUCTIONS, Environment, read_instructions, system_blocks


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    workspace, home = tmp_path / "workspace", tmp_path / "home"
    workspace.mkdir()
    home.mkdir()
    return workspace, home


def test_the_layers_stand_in_order_and_the_last_one_ends_the_cached_prefix() -> None:
    environment = Environment(Path("/w"), is_git=True, today=date(2025, 1, 2))
    blocks = system_blocks("agent", environment, {"/home/AGENTS.md": "mine", "/w/AGENTS.md": "its"})
    assert blocks[0].text == "agent"
    assert "Workspace: /w" in blocks[1].text
    assert "Date: 2025-01-02" in blocks[1].text
    assert [block.text.splitlines()[1] for block in blocks[2:]] == ["mine", "its"]
    assert [block.cache for block in blocks] == [False, False, False, True]


def test_instructions_are_the_persons_own_then_the_workspaces(folders: tuple[Path, Path]) -> None:
    workspace, home = folders
    (home / "AGENTS.md").write_text("mine")
    (workspace / "AGENTS.md").write_text("its\n")
    (workspace / "CLAUDE.md").write_text("other")
    assert list(read_instructions(workspace, home).values()) == ["mine", "its", "other"]


def test_the_same_text_is_given_once_and_empty_files_not_at_all(folders: tuple[Path, Path]) -> None:
    workspace, home = folders
    (home / "AGENTS.md").write_text(" \n")
    (workspace / "AGENTS.md").write_text("its")
    (workspace / "CLAUDE.md").symlink_to("AGENTS.md")
    assert read_instructions(workspace, home) == {str(workspace / "AGENTS.md"): "its"}


def test_a_long_file_is_cut_and_says_so(folders: tuple[Path, Path]) -> None:
    workspace, home = folders
    (workspace / "AGENTS.md").write_text("x" * (MAX_INSTRUCTIONS + 1))
    (text,) = read_instructions(workspace, home).values()
    assert text == "x" * MAX_INSTRUCTIONS + "\n[… cut]"


def test_odd_bytes_folders_devices_and_pipes_do_no_harm(folders: tuple[Path, Path]) -> None:
    workspace, home = folders
    (workspace / "AGENTS.md").symlink_to("/dev/zero")
    (home / "AGENTS.md").mkdir()
    if hasattr(os, "mkfifo"):
        os.mkfifo(workspace / "CLAUDE.md")
    assert read_instructions(workspace, home) == {}
    (workspace / "AGENTS.md").unlink()
    (workspace / "AGENTS.md").write_bytes(b"\xef\xbb\xbfgood \xff bad")
    assert list(read_instructions(workspace, home).values()) == ["good � bad"]


def test_instructions_that_a_repository_links_to_elsewhere_are_not_sent(tmp_path: Path) -> None:
    workspace, home = tmp_path / "workspace", tmp_path / "home"
    workspace.mkdir()
    home.mkdir()
    (tmp_path / "secret.md").write_text("the person's own notes")
    (workspace / "AGENTS.md").symlink_to(tmp_path / "secret.md")
    (workspace / "rules.md").write_text("be brief")
    (workspace / "CLAUDE.md").symlink_to(workspace / "rules.md")
    assert list(read_instructions(workspace, home).values()) == ["be brief"]
