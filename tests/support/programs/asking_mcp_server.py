"""An MCP server on the official SDK whose tools ask for things: the user's input, a page, the model."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("asking", version="1")


def wait_for(file: Path) -> None:
    while not file.exists():
        time.sleep(0.02)


@server.tool()
async def form(
    schema: dict[str, Any], ctx: Context[Any, Any], message: str = "Where to?", times: int = 1
) -> str:
    """Ask with a form, several times at once."""
    session: Any = ctx.session

    async def ask() -> str:
        try:
            result = await session.elicit_form(message, schema)
        except Exception as error:
            return f"error: {error}"
        return json.dumps([result.action, result.content])

    return "\n".join(await asyncio.gather(*(ask() for _ in range(times))))


@server.tool()
async def page(url: str, ctx: Context[Any, Any]) -> str:
    """Ask to open a page."""
    session: Any = ctx.session
    try:
        return (await session.elicit_url("Sign the form.", url, "one")).action
    except Exception as error:
        return f"error: {error}"


@server.tool()
async def forgetful(asked: str, ctx: Context[Any, Any]) -> str:
    """Ask, and return before there is an answer, when the file ``asked`` is there."""
    session: Any = ctx.session
    asking = asyncio.create_task(session.elicit_form("Too late?", {"type": "object", "properties": {}}))
    await asyncio.to_thread(wait_for, Path(asked))
    asking.add_done_callback(lambda done: done.cancelled() or done.exception())
    return "done already"


@server.tool()
async def sample(
    ctx: Context[Any, Any],
    text: str = "Say hello.",
    tokens: int = 50,
    size: int = 0,
    system: str | None = None,
) -> str:
    """Use the client's model. ``size``: characters added to the text."""
    session: Any = ctx.session
    content = types.TextContent(text=text + "x" * size)
    try:
        result = await session.create_message(
            [types.SamplingMessage(role="user", content=content)], max_tokens=tokens, system_prompt=system
        )
    except Exception as error:
        return f"error: {error}"
    return json.dumps([result.model, result.content.text, result.stop_reason])


if __name__ == "__main__":
    server.run()
