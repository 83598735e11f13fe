"""The setting ``models``: a model for each agent, whose prompt stays as it is."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from daemon.agents.loader import load_agent
from daemon.config import Config
from daemon.context.profiles import profile_for
from tests.support.drivers.core import ALLOW_ALL, Bench, daemon
from tests.support.fakes.models import Call
from tests.support.scenarios.subagents import subagents, task

MODELS = {
    "models": {
        "build": "fake/builder",
        "plan": "fake/planner",
        "general": "fake/helper",
        "execute": "fake/executor",
    }
}


def begin(bench: Bench, agent: str = "build", **settings: Any) -> Any:
    session = bench.core.new_session(agent=agent)
    session.policy.use(default_model="fake/default")
    session.policy.use(config=session.config.overlaid(settings, "editor", "test"))
    return session


async def test_an_agent_answers_with_its_model_and_its_shipped_prompt(tmp_path: Path) -> None:
    async with daemon(tmp_path, "Planned.", "Designed.", command_line=MODELS) as bench:
        await begin(bench, "plan").prompt("go")
        await begin(bench, "init").prompt("go")
        assert bench.models.models == ["fake/planner", "fake/default"]
        assert bench.models.requests[0].model == "planner"
        assert bench.models.requests[0].system[0].text.startswith(load_agent("plan").prompt[:200])


async def test_session_model_beats_the_setting_and_the_agent_file(tmp_path: Path) -> None:
    folder = tmp_path / "home" / "agents"
    folder.mkdir(parents=True)
    (folder / "build.md").write_text("---\nmodel: file/build\n---\nYou build.\n")
    (folder / "critic.md").write_text("---\nmodel: file/critic\n---\nYou judge.\n")
    async with daemon(tmp_path, command_line=MODELS) as bench:
        assert begin(bench).model == "fake/builder"
        assert begin(bench, "critic").model == "file/critic"
        chosen = bench.core.new_session(model="chosen/one")
        assert chosen.model == "chosen/one"


async def test_sub_agent_uses_its_configured_model(tmp_path: Path) -> None:
    steps = ([task("look")], "Looked.", "Done.")
    async with daemon(tmp_path, *steps, command_line={**ALLOW_ALL, **MODELS}) as bench:
        session = bench.session()
        await session.prompt("go")
        assert bench.models.models == ["fake/model", "fake/helper", "fake/model"]
        assert [meta.agent for meta in subagents(session).values()] == ["general"]


async def test_hand_over_continues_the_turn_with_the_model_of_build(tmp_path: Path) -> None:
    steps = (
        [Call("goal", {"add": "make a.txt"})],
        [Call("hand_over", {"report": "As planned."})],
        "Built.",
    )
    settings = {"permission": {"hand_over": "allow"}, **MODELS}
    async with daemon(tmp_path, *steps, command_line=settings) as bench:
        session = begin(bench, "plan")
        await session.prompt("go")
        assert bench.models.models == ["fake/planner", "fake/planner", "fake/builder"]
        assert [request.model for request in bench.models.requests] == ["planner", "planner", "builder"]
        assert session.agent.name == "build"


@pytest.mark.parametrize(
    ("window", "trigger"), [(200_000, 140_000), (1_000_000, 700_000), (2_000_000, 1_400_000)]
)
def test_execute_compacts_at_70_percent_of_the_real_window(window: int, trigger: int) -> None:
    assert profile_for("execute", window, max_tokens=16_000).compact_at == trigger
    assert profile_for("init", window, max_tokens=16_000).compact_at == 150_000


async def test_execute_compacts_by_the_window_of_its_own_model(tmp_path: Path) -> None:
    models = {"init": "anthropic/claude-opus-4-5", "execute": "anthropic/claude-sonnet-5-5"}
    async with daemon(tmp_path) as bench:
        profiles = [
            begin(bench, agent, models=models).request_builder.profile for agent in ("init", "execute")
        ]
        assert [profile.compact_at for profile in profiles] == [150_000, 700_000]


async def test_long_prices_that_litellm_lists_move_no_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = {
        "input_cost_per_token": 1e-6,
        "input_cost_per_token_above_200k_tokens": 2e-6,
        "max_input_tokens": 1_000_000,
    }
    monkeypatch.setitem(sys.modules, "litellm", SimpleNamespace(model_cost={"gemini/pro": entry}))
    async with daemon(tmp_path) as bench:
        models = ("gemini/pro", "openai/gpt-6-sol")
        profiles = [begin(bench, models={"build": model}).request_builder.profile for model in models]
        assert [profile.compact_at for profile in profiles] == [700_000, 258_400]


def test_invalid_model_name_is_dropped_and_layers_are_merged() -> None:
    config = Config().overlaid(
        {"models": {"plan": "opus", "init": "a/b", "build": "c/d"}}, "user", "config.json"
    )
    assert config.settings.model.models == {"init": "a/b", "build": "c/d"}
    assert config.problems == (
        "config.json: models: plan: 'opus' is not a model. Write provider/model, for example "
        "anthropic/claude-sonnet-5-5.",
    )
    config = config.overlaid({"models": {"init": "e/f", "plan": ""}}, "editor", "VS Code")
    assert config.settings.model.models == {"init": "e/f", "build": "c/d"}
    assert len(config.problems) == 1
