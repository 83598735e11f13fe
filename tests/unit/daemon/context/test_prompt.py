"""The layers of the system prompt (mission M6)."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from daemon.context.families.loader import provider_prompt
from daemon.context.prompt import Environment, Layer, prompt_layers, system_blocks
from daemon.provider.model_calls import SystemBlock

MODEL = "anthropic/claude-sonnet-5-5"


def test_the_layers_stand_in_order_and_say_where_they_come_from(tmp_path: Path) -> None:
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


def test_the_environment_names_what_does_not_change_while_the_model_works() -> None:
    text = Environment(Path("/w"), is_git=False, today=date(2025, 1, 2), shell="sh").text()
    assert text.splitlines()[1:3] == ["Workspace: /w", "Git repository: no"]
    assert "Shell: sh\nDate: 2025-01-02\n" in text


def test_the_environment_is_looked_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_every_agent_is_told_what_replaces_messages_and_what_instructions_are(tmp_path: Path) -> None:
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


def test_the_same_place_makes_the_same_bytes(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("its")
    environment = Environment(tmp_path, is_git=True, today=date(2025, 1, 2))
    first, second = (system_blocks(prompt_layers("a", MODEL, environment, tmp_path)) for _ in range(2))
    assert first == second
