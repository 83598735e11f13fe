"""``goalwright trace page``, and ``goalwright serve --http`` beside a daemon that runs already: where the API is."""

from __future__ import annotations

import asyncio
import html
import json
import os
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from daemon.provider.variables import provider_env
from daemon.runtime import RuntimeFolderError, RuntimePaths, write_private
from daemon.store.base import StoreError
from lsp_bridge.cli.client import ConnectionLostError, RequestTimeoutError, RpcError
from lsp_bridge.cli.launch import Clock, Greeting, Launcher, LaunchError, SystemClock
from lsp_bridge.cli.run.turn import CLIENT_NAME, EXIT_FAILED, EXIT_OK, EXIT_USAGE
from tools.json_access import string
from tools.localization import t

if TYPE_CHECKING:
    from pathlib import Path

    from lsp_bridge.cli.console import Console
    from lsp_bridge.cli.trace.options import TraceOptions

_REQUEST_S = 30.0
_STARTING_S = 20.0
"""For a daemon that has the lock and does not answer yet."""
_PAUSE_S = 0.1


async def trace_page(options: TraceOptions, launcher: Launcher, console: Console) -> int:
    """Print the page's address, with the token; ``open``: open it in the browser, too."""
    place = ""
    if options.trace is not None:
        from lsp_bridge.cli.trace.stored_traces import chosen, store_of

        try:
            place = f"#/{quote(chosen(store_of(options.workspace), options.trace, None))}"
        except StoreError as error:
            console.warn(str(error))
            return EXIT_USAGE
    try:
        found = await _opened(options.workspace, launcher, None, start=True)
    except LaunchError as error:
        return _failed(error, console, as_json=options.json)
    page = string(found.get("page")) + place
    if options.json:
        console.write(json.dumps({"url": found.get("url"), "token": found.get("token"), "page": page}) + "\n")
    else:
        console.write(page + "\n")
    if options.open:
        await _browse(options.workspace, page, console)
    return EXIT_OK


async def open_running(workspace: Path, launcher: Launcher, port: int, console: Console) -> int:
    """Have the daemon that runs open its API, and print the line of ``goalwright serve --http``."""
    try:
        found = await _opened(workspace, launcher, port, start=False)
    except LaunchError as error:
        return _failed(error, console, as_json=False)
    console.write(json.dumps({"url": found.get("url"), "token": found.get("token")}) + "\n")
    return EXIT_OK


async def _opened(
    workspace: Path, launcher: Launcher, port: int | None, *, start: bool, clock: Clock | None = None
) -> dict[str, Any]:
    """The answer of ``goalwright/api/open``. Raises LaunchError for all expected failures."""
    clock = clock or SystemClock()
    greeting = Greeting(client=CLIENT_NAME, env=provider_env(os.environ))
    deadline = clock.now() + _STARTING_S
    while True:
        try:
            connect = launcher.connect if start else launcher.connect_running
            client, _ = await connect(workspace, greeting)
            break
        except LaunchError as error:
            # It has the lock, so it is just starting.
            if start or error.code not in ("notRunning", "unresponsive") or clock.now() >= deadline:
                raise
            await clock.sleep(_PAUSE_S)
    try:
        return await client.request("goalwright/api/open", {"port": port}, _REQUEST_S)
    except (RequestTimeoutError, RpcError) as error:
        raise LaunchError("unresponsive", str(error)) from error
    except ConnectionLostError as error:
        raise LaunchError("notRunning", str(error)) from error
    finally:
        await client.close()


async def _browse(workspace: Path, page: str, console: Console) -> None:
    # Not as an argument of the browser: those can be read by everybody on this machine, and the token is in it.
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
        console.warn(t("The browser cannot be opened ({error}): open the address by hand.", error=error))
        return
    if not opened:
        console.warn(t("No browser was found: open the address by hand."))


def _failed(error: LaunchError, console: Console, *, as_json: bool) -> int:
    if as_json:
        console.write(json.dumps({"error": {"code": error.code, "message": str(error)}}) + "\n")
    else:
        console.warn(str(error))
    return EXIT_FAILED
