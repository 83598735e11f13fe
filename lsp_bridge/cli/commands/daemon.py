"""``goalwright start``, ``status``, ``stop``: the daemon of a folder."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from pathlib import Path

from daemon.runtime import RuntimePaths, state_dir
from lsp_bridge.cli.client import ConnectionLostError, DaemonError, Greeting
from lsp_bridge.cli.commands.session_command import connected, tell_problems
from lsp_bridge.cli.invocation import EXIT_FAILED, EXIT_OK, Invocation, reporting
from lsp_bridge.cli.launch import runtime_paths
from lsp_bridge.cli.preloaded import PRELOADER, preloader_pid
from lsp_bridge.cli.text import clean, one_line, pad, shown_line
from tools.files.regular_files import is_real_folder
from tools.json_access import integer, number, string
from tools.localization import t
from tools.text.amounts import duration

_REQUEST_S = 10.0
_STOP_S = 10.0
"""How long a daemon may take to cancel its turns and close its language servers."""
_KILL_S = 5.0


@reporting()
async def start(cli: Invocation) -> None:
    """Make sure that a daemon runs, and print how to reach it (``goalwright start``).

    A daemon that it starts has loaded what the first prompt needs. With ``--json`` it does so while its client
    connects, and stdout gets the content of ``daemon.json``, or ``{"error": {"code", "message"}}`` and exit code 1; the
    codes are those of LaunchError.
    """
    launcher = cli.launcher
    if not cli.json:
        launcher = launcher._replace(serve_args=(*launcher.serve_args, "--loaded"))
    client, address = await launcher.connect(cli.workspace, Greeting(client="launcher"))
    try:
        await tell_problems(cli, client, _REQUEST_S)
    finally:
        await client.close()
    if cli.wrote_json(address.to_json()):
        return
    cli.console.write(
        t(
            "The daemon for {workspace} runs (process {pid}, {where}).\n",
            workspace=address.workspace,
            pid=address.pid,
            where=address.socket or f"127.0.0.1:{address.port}",
        )
    )


@reporting()
async def status(cli: Invocation) -> None:
    """``goalwright status``. Starts nothing; exit code 1 when no daemon runs."""
    async with connected(cli, start=False) as client:
        found = await client.request("goalwright/daemon/status", {}, _REQUEST_S)
    if cli.wrote_json(found):
        return
    model = string(found.get("model")) + (t(" (demo)") if found.get("demo") is True else "")
    rows = {
        t("workspace"): string(found.get("workspace")),
        t("daemon"): t(
            "version {version}, process {pid}, up {uptime_s}",
            version=string(found.get("version")),
            pid=integer(found.get("pid")),
            uptime_s=duration(1000 * number(found.get("uptimeS"))),
        ),
        t("clients"): t(
            "{clients}, sessions at work: {running}",
            clients=integer(found.get("clients")),
            running=integer(found.get("running")),
        ),
        t("model"): model,
        t("traces"): string(found.get("traceFolder")),
        t("trace API"): string(found.get("apiUrl")) or t("not open; `goalwright trace page` opens it"),
    }
    if found.get("memoryMb") is not None:
        rows[t("memory")] = f"{number(found['memoryMb']):.0f} MB"
    if (pid := preloader_pid(cli.launcher.home)) is not None:
        rows[t("preloader")] = t("process {pid}: the daemons of other folders start at once", pid=pid)
    for name, value in rows.items():
        cli.console.line(f"{pad(f'{name}:', 11)}{one_line(value)}")
    for notice in filter(None, (string(found.get("modelNotice")), string(found.get("notice")))):
        cli.console.line(f"\n{clean(notice)}")


@reporting()
async def stop(cli: Invocation, *, force: bool, all: bool = False) -> int:
    """``goalwright stop``: ask; then SIGTERM; with ``force`` SIGKILL at last. No daemon is fine, too.

    ``all``: the daemons of all folders, and all preloaders.
    """
    if not all:
        return await _stop(cli, runtime_paths(cli.workspace, cli.launcher.home, running=True), force=force)
    codes: dict[Path, int] = {}
    # A daemon that ends may just have started the preloader.
    while running := [paths for paths in _running(cli.launcher.home) if paths.folder not in codes]:
        for paths in running:
            codes[paths.folder] = await _stop(cli, paths, force=force, ask=False)
    if not codes:
        cli.console.write(t("No Goalwright daemon is running.\n"))
    return max(codes.values(), default=EXIT_OK)


def _running(home: Path | None) -> list[RuntimePaths]:
    """Return the paths of the daemons of all folders, and of all preloaders."""
    run = state_dir(home) / "run"
    # pathlib fails for a folder above it that the user may not enter.
    folders = sorted(run.glob("*")) if is_real_folder(run) else []
    found = [RuntimePaths(run, folder, folder.name) for folder in folders if folder.is_dir()]
    return [paths for paths in found if paths.is_locked()]


async def _stop(cli: Invocation, paths: RuntimePaths, *, force: bool, ask: bool = True) -> int:
    console = cli.console
    if not paths.is_locked():
        console.write(t("No Goalwright daemon is running for {workspace}.\n", workspace=paths.workspace))
        return EXIT_OK
    if ask and await _stops(cli) and await _ended(paths, _STOP_S):
        console.write(t("Stopped.\n"))
        return EXIT_OK
    # The lock is held, so these files belong to the process that holds it.
    address = paths.read_address()
    pid = paths.read_pid() if address is None else address.pid
    if pid is None:
        if await _ended(paths, _KILL_S):
            console.write(t("Stopped.\n"))
            return EXIT_OK
        log = paths.log_file
        console.warn(
            t("The daemon is starting or stopping. Try again in a moment. Log: {log_file}", log_file=log)
        )
        return EXIT_FAILED
    if not _may_be_ours(pid):
        words = t(
            "The daemon (process {pid}) runs elsewhere: on another computer or in a container with the same "
            "home folder. Stop it there.",
            pid=pid,
        )
        console.warn(words)
        return EXIT_FAILED
    signals = [signal.SIGTERM] + ([signal.SIGKILL] if force and hasattr(signal, "SIGKILL") else [])
    for number_ in signals:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number_)
        if await _ended(paths, _KILL_S if ask else _STOP_S):
            if ask:
                words = t("Stopped. It did not answer, so its process was ended ({name}).", name=number_.name)
            elif paths.key.startswith(PRELOADER):
                words = t("Stopped the preloader.")
            elif address is None:
                words = t("Stopped.")
            else:
                words = t("Stopped the daemon of {workspace}.", workspace=shown_line(address.workspace))
            console.line(words)
            return EXIT_OK
    console.warn(t("The daemon (process {pid}) does not stop. Try `goalwright stop --force`.", pid=pid))
    return EXIT_FAILED


def _may_be_ours(pid: int) -> bool:
    """Return whether a process can be the one that wrote its id: the lock may be held by one that is not seen here,
    and its id belong to a stranger."""
    import psutil

    try:
        command = psutil.Process(pid).cmdline()
    except psutil.Error:
        return True  # ending, or hidden
    return any(Path(word).stem == "goalwright" or word.endswith("sys.exit(main())") for word in command)


async def _stops(cli: Invocation) -> bool:
    """Ask the daemon to stop. Returns whether it will: it may hang, or be of another version."""
    try:
        async with connected(cli, start=False) as client:
            await client.request("goalwright/daemon/stop", {}, _REQUEST_S)
    except ConnectionLostError:
        return True  # it has just ended
    except DaemonError:
        return False
    return True


async def _ended(paths: RuntimePaths, within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while paths.is_locked():
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.05)
    return True
