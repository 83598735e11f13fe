"""``goalwright trace page``, and ``goalwright serve --http`` beside a daemon that runs already: where the API is."""

from __future__ import annotations

import asyncio
import html
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from daemon.runtime import RuntimeFolderError, RuntimePaths
from lsp_bridge.cli.trace.stored_traces import chosen, store_of, trace_command
from tools.files.regular_files import write_private
from tools.json_access import string
from tools.localization import t

if TYPE_CHECKING:
    from pathlib import Path

    from lsp_bridge.cli.console import Console
    from lsp_bridge.cli.invocation import Invocation

_REQUEST_S = 30.0


@trace_command
async def trace_page(cli: Invocation, *, trace: str | None, browse: bool) -> None:
    """Print the page's address, with the token; ``browse``: open it in the browser, too."""
    place = "" if trace is None else f"#/{quote(chosen(store_of(cli.workspace), trace))}"
    found = await _opened(cli, None)
    page = string(found.get("page")) + place
    if not cli.wrote_json({"url": found.get("url"), "token": found.get("token"), "page": page}):
        cli.console.line(page)
    if browse:
        await _browse(cli.workspace, page, cli.console)


@trace_command
async def open_running(cli: Invocation, port: int) -> None:
    """Have the daemon that runs, or is just starting, open its API; print the line of ``goalwright serve --http``."""
    found = await _opened(cli, port)
    cli.write_json({"url": found.get("url"), "token": found.get("token")})


async def _opened(cli: Invocation, port: int | None) -> dict[str, Any]:
    """Return the answer of ``goalwright/api/open``. Raises LaunchError, and as ``Client.request``."""
    client, _ = await cli.launcher.connect(cli.workspace, cli.greeting())
    try:
        return await client.request("goalwright/api/open", {"port": port}, _REQUEST_S)
    finally:
        await client.close()


async def _browse(workspace: Path, page: str, console: Console) -> None:
    # Not as an argument of the browser: every user of this machine can read those, and the token is in it.
    import webbrowser

    try:
        paths = RuntimePaths.for_workspace(workspace)
        paths.prepare()
        leading = paths.folder / "page.html"
        address = html.escape(page)
        head = f'<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0;url={address}">'
        write_private(leading, f'{head}<a href="{address}">Goalwright</a>\n'.encode())
        opened = await asyncio.to_thread(webbrowser.open, leading.as_uri())
    except (OSError, RuntimeFolderError) as error:
        console.warn(t("Cannot open the browser ({error}). Open the address yourself.", error=error))
        return
    if not opened:
        console.warn(t("No browser was found. Open the address yourself."))
