"""What VS Code does with a daemon: it starts one from the command line, and speaks over the socket that this names."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from daemon.runtime import Address
from lsp_bridge.cli.client import Client, Greeting
from tests.evals.benchmarks.agents.adapters import Agent
from tests.evals.benchmarks.agents.stand import Stand
from tests.evals.benchmarks.agents.workload import PROMPT

_ANSWER_S = 60.0


async def start(agent: Agent, place: Stand, url: str) -> tuple[float, Address]:
    """Have a daemon. Returns when the command was spawned, and where the daemon is."""
    argv = [*agent.command, "start", "--workspace", str(place.repository), "--json"]
    began, _ = await place.run(argv, agent.env(url))
    return began, Address.from_json(json.loads(place.output.read_text()))


@asynccontextmanager
async def window(agent: Agent, place: Stand, url: str, address: Address) -> AsyncGenerator[Client]:
    """A client that is attached as a window is, in a folder that its user trusts."""
    client = await Client.connect(address, timeout=_ANSWER_S)
    try:
        greeting = Greeting(client="vscode", env=agent.env(url), trusted=True)
        await client.initialize(place.repository, greeting, _ANSWER_S)
        yield client
    finally:
        await client.close()


async def new_session(client: Client, shown: str | None = None) -> str:
    """Begin a session in which edits need no answer, and show it instead of another one. Returns its id."""
    made = await client.request("goalwright/session/new", {"mode": "accept-edits"})
    session_id: str = made["session"]["trace"]["traceId"]
    await client.request("goalwright/session/load", {"sessionId": session_id, "messages": 200})
    if shown is not None:
        await client.request("goalwright/session/unsubscribe", {"sessionId": shown})
    return session_id


async def prompt(client: Client, session_id: str) -> None:
    """Send a prompt, and wait for the end of its turn."""
    await client.request("goalwright/session/prompt", {"sessionId": session_id, "text": PROMPT})


async def first_prompt(agent: Agent, place: Stand, url: str) -> tuple[float, float]:
    """Start the daemon, and send the first prompt at once. A ``Starter``."""
    began, address = await start(agent, place, url)
    async with window(agent, place, url, address) as client:
        await prompt(client, await new_session(client))
        return began, time.monotonic()
