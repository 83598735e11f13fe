"""The layers of the system prompt (mission M6)."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from daemon.context.families.loader import provider_prompt
from daemon.context.prompt import Environment, Layer, prompt_layers, system_blocks
from daemon.provider.model_calls import SystemBlock

MODEL = "anthropic/claude-sonnet-5-5"


def test_prompt_layers_are_ordered_and_name_their_source(tmp_path: Path) -> None:
    workspace, home = tmp_path / "workspace", tmp_path / "home"
    workspace.mkdir()
    home.mkdir()
    (home / "AGENTS.md").write_text("mine")
    (workspace / "AGENTS.md").write_text("its")
    environment = Environment(workspace, is_git=True, today=date(2025, 1, 2))
    layers = prompt_layers("agent", MODEL, environment, home)
    assert [layer.name for layer in layers] == [
        "agent",
        "provider",
        "environment",
        f"instructions {home / 'AGENTS.md'}",
        f"instructions {workspace / 'AGENTS.md'}",
    ]
    assert layers[0].text.startswith("agent\n\n")
    assert layers[1].text == provider_prompt(MODEL)
    assert layers[3].text == f'<instructions file="{home / "AGENTS.md"}">\nmine\n</instructions>'


def test_environment_lists_workspace_shell_and_date() -> None:
    text = Environment(Path("/w"), is_git=False, today=date(2025, 1, 2), shell="sh").text()
    assert text.splitlines()[1:3] == ["Workspace: /w", "Git repository: no"]
    assert "Shell: sh\nDate: 2025-01-02\n" in text


def test_environment_detects_git_and_the_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    repository = tmp_path / "repository"
    (repository / "sub").mkdir(parents=True)
    today = date(2025, 1, 2)
    assert Environment.of(repository, today) == Environment(repository, False, today, "sh")
    (repository / ".git").write_text("gitdir: elsewhere")
    (programs / "bash").touch(mode=0o755)
    assert Environment.of(repository / "sub", today) == Environment(repository / "sub", True, today, "bash")


def test_the_last_layer_ends_the_cached_prefix() -> None:
    blocks = system_blocks([Layer("agent", "a"), Layer("environment", "e")])
    assert blocks == [SystemBlock("a"), SystemBlock("e", cache=True)]
    assert system_blocks([]) == []


def test_every_agent_prompt_explains_summaries_and_instructions(tmp_path: Path) -> None:
    environment = Environment(tmp_path, is_git=False, today=date(2025, 1, 2))
    agent, *_ = prompt_layers("Somebody's own agent.", MODEL, environment, tmp_path / "none")
    for word in (
        "<goal_summary>",
        "<earlier_attempts>",
        "<compact_summary>",
        "Notes",
        "<instructions",
        "read it again",
    ):
        assert word in agent.text


def test_prompt_of_the_same_workspace_is_byte_identical(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("its")
    environment = Environment(tmp_path, is_git=True, today=date(2025, 1, 2))
    first, second = (system_blocks(prompt_layers("a", MODEL, environment, tmp_path)) for _ in range(2))
    assert first == second
