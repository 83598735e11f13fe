"""``goalwright mcp``: the MCP servers, their tools, prompts and logs."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from lsp_bridge.cli.commands.session_command import SessionConnection, called, session_command
from lsp_bridge.cli.text import clean, shown_line
from tools.json_access import integer, mappings, string
from tools.localization import n, noted, t

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lsp_bridge.cli.invocation import Invocation

_STATES = {
    "starting": noted("starting"),
    "ready": noted("ready"),
    "failed": noted("failed"),
    "signed_out": noted("needs sign-in"),
    "stopped": noted("not started"),
    "disabled": noted("disabled"),
}


@session_command(needed=False)
async def servers(cli: Invocation, asked: SessionConnection) -> None:
    """Start the servers that do not run, and list all."""
    _show(cli, await asked.client.request("goalwright/mcp/list", {"start": True}))


@session_command(needed=False)
async def log(cli: Invocation, asked: SessionConnection, *, name: str) -> None:
    """Print the log of a server."""
    found = await asked.client.request("goalwright/mcp/log", {"name": name})
    if not cli.wrote_json(found):
        cli.console.write(clean(string(found.get("text"))))


def _changing(method: str, words: str, **params: Any) -> Callable[..., Awaitable[int]]:
    """Return the command that changes a server or tool by this request, and says these words."""

    @session_command(needed=False)
    async def change(cli: Invocation, asked: SessionConnection, *, name: str) -> None:
        found = await asked.client.request(f"goalwright/mcp/{method}", {"name": name, **params})
        _done(cli, found, name, t(words, name=name))

    return change


restart = _changing("restart", noted("Started {name} again."))
enable = _changing("set", noted("{name} is used again."), enabled=True)
disable = _changing("set", noted("{name} is not used any more, in all folders."), enabled=False)
logout = _changing("logout", noted("The sign-in to {name} is forgotten."))


@session_command(needed=False)
async def login(cli: Invocation, asked: SessionConnection, *, name: str) -> None:
    """Sign in to a server: show the page, open it in a browser, and wait for the user."""
    found = await asked.client.request("goalwright/mcp/login", {"name": name})
    page = string(found.get("url"))
    console = cli.console
    console.warn(
        t("Sign in to {name} on this page:\n\n{page}\n", name=shown_line(name), page=shown_line(page))
    )
    if not await _browse(page):
        port = urlsplit(parse_qs(urlsplit(page).query).get("redirect_uri", [""])[0]).port
        console.warn(
            t(
                "Open it in a browser of this machine. On another one, forward the port first:\n"
                "ssh -L {port}:127.0.0.1:{port} …",
                port=port,
            )
        )
    found = await asked.client.request("goalwright/mcp/loggedIn", {"name": name})
    _done(cli, found, name, t("You are signed in to {name}.", name=name))


async def _browse(page: str) -> bool:
    """Open a page in a browser with a window; returns whether there is one."""
    import webbrowser

    # Without a display it would be a browser for the terminal, in the middle of our output.
    windows = sys.platform in ("win32", "darwin") or any(
        map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
    )
    return windows and await asyncio.to_thread(webbrowser.open, page)


def _done(cli: Invocation, found: dict[str, Any], name: str, words: str) -> None:
    """Say what was done, and show the server alone."""
    if not cli.json:
        cli.console.write(f"{shown_line(words)}\n")
        server = name.partition("/")[0]
        found = {"servers": [one for one in mappings(found.get("servers")) if one.get("name") == server]}
        if not found["servers"]:
            return
    _show(cli, found)


def _show(cli: Invocation, found: dict[str, Any]) -> None:
    if cli.wrote_json(found):
        return
    console = cli.console
    listed = mappings(found.get("servers"))
    for server in listed:
        tools, prompts = mappings(server.get("tools")), mappings(server.get("prompts"))
        resources = integer(server.get("resources"))
        state = string(server.get("state"))
        counts = [
            n("{count} tool", "{count} tools", len(tools)) if tools else "",
            n("{count} prompt", "{count} prompts", len(prompts)) if prompts else "",
            n("{count} resource", "{count} resources", resources) if resources else "",
        ]
        count = "".join(f"  {words}" for words in counts if words)
        name, source = string(server.get("name")), string(server.get("source"))
        console.line(shown_line(f"{name}  {t(_STATES.get(state, state))}{count}  ({source})"))
        if error := string(server.get("error")):
            console.line(console.style.red(f"  {shown_line(error)}"))
        for tool in tools:
            off = t("  (disabled)") if tool.get("disabled") is True else ""
            words = string(tool.get("description")).partition("\n")[0]
            console.row(shown_line(f"  {string(tool.get('name'))}{off}  {words}"))
        for prompt in prompts:
            console.row(shown_line(f"  {called(prompt)}  {string(prompt.get('description'))}"))
    if not listed:
        console.write(
            t("No MCP servers are configured. Name them under mcp_servers in ~/.goalwright/config.json.\n")
        )
    console.problems(found)
