"""The fixed part of every request: system prompt and tools in 16 KB.

What a project adds is bounded apart: its map (at most 300 tokens) and its instruction files.
"""

from __future__ import annotations

import itertools
import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from daemon.agents.loader import BUILTIN, load_agent
from daemon.context.families.loader import FAMILIES
from daemon.context.project_map import project_map
from daemon.context.prompt import Environment, Layer, prompt_layers, system_blocks
from daemon.model.goals import PlanFront
from daemon.model.messages import TextPart
from daemon.provider import anthropic_wire, openai_wire
from daemon.provider.anthropic import AnthropicProvider
from daemon.provider.model_calls import ModelRequest, PromptMessage, ToolSpec
from tests.support.fakes.model_server import ModelServer
from tests.support.scenarios.model_requests import anthropic_env, complete
from tools.registry import builtin_tools

LIMIT = 16 * 1024
MODELS = [name for family in FAMILIES for name in (f"router/{family}", f"ollama/{family}:8b")]
WORKSPACE = Path("/home/somebody/with a rather long name/projects/company/team/the-service-we-work-on")


FRONTS: tuple[PlanFront, ...] = ("goal", "step")


def layers(agent: str, model: str, front: PlanFront = "goal") -> list[Layer]:
    environment = Environment(WORKSPACE, is_git=True, today=date(2026, 11, 30))
    return prompt_layers(load_agent(agent).prompt_for(front), model, environment, WORKSPACE / "nobody")


def request(agent: str, model: str, front: PlanFront = "goal") -> ModelRequest:
    """As the loop makes it, for an agent that may use all tools, where there are no skills."""
    left_out = {"skill", *FRONTS} - {front}
    offered = [tool for name, tool in builtin_tools().items() if name not in left_out]
    tools = tuple(ToolSpec(t.name, t.description, t.schema()) for t in offered)
    return ModelRequest(
        model=model.partition("/")[2],
        system=tuple(system_blocks(layers(agent, model, front))),
        messages=(PromptMessage("user", (TextPart(text="Hello"),)),),
        tools=tools,
    )


def size(*values: Any) -> int:
    """Bytes as JSON, with the spaces and escapes of the most wasteful client."""
    return sum(len(json.dumps(value).encode()) for value in values)


@pytest.mark.parametrize("agent", BUILTIN)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("front", FRONTS)
def test_system_prompt_and_tools_fit_into_sixteen_kilobytes(agent: str, model: str, front: PlanFront) -> None:
    made = request(agent, model, front)
    sent = anthropic_wire.build(made)
    messages = openai_wire.to_messages(made)
    system = [message for message in messages if message["role"] != "user"]
    took = {layer.name: size(layer.text) for layer in layers(agent, model, front)}
    took |= {tool["name"]: size(tool) for tool in sent["tools"]}
    assert size(sent["system"], sent["tools"]) <= LIMIT, took
    assert size(system, openai_wire.tools(made.tools)) <= LIMIT, took


def test_no_tool_and_no_layer_takes_more_than_its_share() -> None:
    for front in FRONTS:
        for tool in anthropic_wire.build(request("build", MODELS[0], front))["tools"]:
            assert size(tool) <= 2_500, tool["name"]
    for agent, front in itertools.product(BUILTIN, FRONTS):
        agent_layer, provider, environment = layers(agent, MODELS[0], front)
        assert size(agent_layer.text) <= 5_000, agent
        assert size(environment.text) <= 512
        assert size(provider.text) <= 1_100


def test_project_map_stays_within_its_share(tmp_path: Path) -> None:
    for top, below in itertools.product(range(30), range(10)):
        (tmp_path / f"a-rather-long-folder-{top}" / f"another-long-one-{below}").mkdir(parents=True)
        (tmp_path / f"a-rather-long-folder-{top}" / f"another-long-one-{below}" / "a.py").touch()
    text = project_map(tmp_path, lambda path, folder: True, "npm run test:everything -- --all")
    assert 500 <= size(text) <= 1_100


async def test_first_request_on_the_wire_is_within_the_size_limit() -> None:
    async with ModelServer([{"text": "hello"}]) as server:
        made = replace(request("build", "anthropic/claude-sonnet-5-5"), env=anthropic_env(server))
        provider = AnthropicProvider()
        try:
            await complete(provider, made)
        finally:
            await provider.aclose()
    assert int(server.requests[0].headers["content-length"]) <= LIMIT
