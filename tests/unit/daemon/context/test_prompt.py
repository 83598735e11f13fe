"""The layers of the system prompt (mission M6)."""

from __future__ import annotations

from datetime import date
from pathlib import Path

from daemon.context.families.loader import provider_prompt
from daemon.context.prompt import Environment, Layer, prompt_layers, system_blocks
from daemon.provider.base import SystemBlock

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
    assert layers[0].text == "agent"
    assert layers[1].text == provider_prompt(MODEL)
    assert layers[3].text == f'<instructions file="{home / "AGENTS.md"}">\nmine\n</instructions>'


def test_the_environment_names_what_does_not_change_while_the_model_works() -> None:
    text = Environment(Path("/w"), is_git=False, today=date(2025, 1, 2), shell="sh").text()
    assert text.splitlines()[1:3] == ["Workspace: /w", "Git repository: no"]
    assert "Shell: sh\nDate: 2025-01-02\n" in text


def test_the_last_layer_ends_the_cached_prefix() -> None:
    blocks = system_blocks([Layer("agent", "a"), Layer("environment", "e")])
    assert blocks == [SystemBlock("a"), SystemBlock("e", cache=True)]
    assert system_blocks([]) == []


def test_an_agent_without_a_prompt_makes_no_empty_layer(tmp_path: Path) -> None:
    environment = Environment(tmp_path, is_git=False, today=date(2025, 1, 2))
    assert [layer.name for layer in prompt_layers(" ", MODEL, environment, tmp_path / "none")] == [
        "provider",
        "environment",
    ]


def test_the_same_place_makes_the_same_bytes(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("its")
    environment = Environment(tmp_path, is_git=True, today=date(2025, 1, 2))
    first, second = (system_blocks(prompt_layers("a", MODEL, environment, tmp_path)) for _ in range(2))
    assert first == second
