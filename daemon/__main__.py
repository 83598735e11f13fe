"""Composition root and entry: the console script ``goalwright``, and ``python -I -m daemon``.

The only module that may import both ``daemon`` and ``lsp_bridge``. Each command imports what it needs, so that
none waits for the libraries of another.
"""

from __future__ import annotations

import sys

THROUGH_CURRENT_FOLDER = __name__ == "__main__" and not sys.flags.safe_path
if THROUGH_CURRENT_FOLDER:
    # `python -m` put the current folder there, and it may be an untrusted workspace: see daemon/safe_path.py.
    # Before the next import, which would look there first.
    del sys.path[0]

import os  # noqa: E402
from typing import TYPE_CHECKING  # noqa: E402

if TYPE_CHECKING:
    import argparse
    import asyncio
    from collections.abc import Mapping

    from daemon.core import Daemon
    from daemon.runtime import RuntimePaths
    from lsp_bridge.launch import Launcher
    from lsp_bridge.terminal.console import Console
    from tools.language import Navigation

EXIT_ALREADY_RUNNING = 3


def main() -> int:
    """Run the command line and return the exit code."""
    from daemon.safe_path import protect

    try:
        current = os.getcwd()  # noqa: PTH109 - pathlib is not to be imported yet
    except OSError as error:
        return _say(f"The current folder cannot be used: {error.strerror}")
    # For the imports until the workspace is known.
    protect(current, through_current_folder=THROUGH_CURRENT_FOLDER)

    from pathlib import Path

    from daemon.cli import parse

    args = parse(sys.argv[1:])
    if "workspace" in args:
        try:
            args.workspace = (args.workspace or Path(current)).expanduser().absolute()
        except RuntimeError as error:
            return _say(f"The workspace cannot be found: {error}")
        if problem := protect(str(args.workspace), through_current_folder=THROUGH_CURRENT_FOLDER):
            return _say(problem)
    try:
        return _dispatch(args)
    except KeyboardInterrupt:
        return 130


def _say(problem: object, code: int = 1) -> int:
    print(problem, file=sys.stderr)
    return code


def _dispatch(args: argparse.Namespace) -> int:
    if args.command == "serve":
        return _serve_command(args)
    if args.command == "version":
        from daemon.version import product_version

        print(f"goalwright {product_version()}")
        return 0
    if args.command == "connect":
        return _connect_command(args)

    import asyncio

    return asyncio.run(_client_command(args))


async def _client_command(args: argparse.Namespace) -> int:
    from lsp_bridge.terminal.console import Console

    console = Console.of_process(color=not getattr(args, "no_color", False))
    if args.command == "run":
        return await _run(args, console)
    if args.command == "demo":
        from lsp_bridge.terminal import demo

        return await demo.play(console)

    if args.command in ("history", "undo", "redo", "restore"):
        return await _history(args, console)
    if args.command in ("goals", "goal"):
        return await _plan(args, console)
    if args.command in ("explore", "agents", "plan"):
        return await _branches(args, console)
    if args.command == "trace":
        return await _trace(args, console)
    if args.command in ("permissions", "mode", "trust", "jobs"):
        return await _permissions(args, console)
    if args.command in ("context", "compact", "budget"):
        return await _context(args, console)
    if args.command == "doctor":
        from lsp_bridge.terminal.doctor import DoctorOptions, doctor

        return await doctor(DoctorOptions(args.workspace, args.start, args.json), _launcher(args), console)

    from lsp_bridge.terminal import commands

    launcher = _launcher(args)
    if args.command == "start":
        return await commands.start(args.workspace, launcher, console, as_json=args.json)
    if args.command == "status":
        return await commands.status(args.workspace, launcher, console, as_json=args.json)
    if args.command == "sessions":
        return await commands.sessions(args.workspace, launcher, console, as_json=args.json)
    return await commands.stop(args.workspace, launcher, console, force=args.force)


async def _run(args: argparse.Namespace, console: Console) -> int:
    from lsp_bridge.terminal.run import RunOptions, run

    options = RunOptions(
        workspace=args.workspace,
        task=args.task,
        model=args.model,
        agent=args.agent,
        mode=args.mode,
        planner=args.planner,
        session=args.session,
        resume_last=args.resume_last,
        yes=args.yes,
        json=args.json,
        verbose=args.verbose,
    )
    return await run(options, _launcher(args), console)


async def _history(args: argparse.Namespace, console: Console) -> int:
    from lsp_bridge.terminal.history import HistoryOptions, history

    options = HistoryOptions(
        action=args.command,
        workspace=args.workspace,
        session=args.session,
        change=getattr(args, "change", None),
        message=getattr(args, "message", None),
        goal=getattr(args, "goal", None),
        dry_run=getattr(args, "dry_run", False),
        json=args.json,
    )
    return await history(options, _launcher(args), console)


async def _plan(args: argparse.Namespace, console: Console) -> int:
    from lsp_bridge.terminal import plan

    if args.command == "goals":
        return await plan.goals(
            plan.GoalsOptions(args.workspace, args.session, args.json), _launcher(args), console
        )
    options = plan.GoalOptions(
        action=args.action,
        workspace=args.workspace,
        session=args.session,
        goal=getattr(args, "goal", ""),
        text=getattr(args, "text", ""),
        reason=getattr(args, "reason", ""),
        under=getattr(args, "under", None),
        before=getattr(args, "before", None),
        revert_files=getattr(args, "revert_files", False),
        dry_run=getattr(args, "dry_run", False),
        json=args.json,
    )
    return await plan.goal(options, _launcher(args), console)


async def _branches(args: argparse.Namespace, console: Console) -> int:
    if args.command == "agents":
        from lsp_bridge.terminal.agents import AgentsOptions, agents

        return await agents(AgentsOptions(args.workspace, args.json), _launcher(args), console)
    if args.command == "plan":
        from lsp_bridge.terminal.planning import PlanOptions, plan

        planned = PlanOptions(
            action=args.action,
            workspace=args.workspace,
            session=args.session,
            reason=getattr(args, "reason", ""),
            yes=getattr(args, "yes", False),
            json=args.json,
        )
        return await plan(planned, _launcher(args), console)

    from lsp_bridge.terminal.explore import ExploreOptions, explore

    options = ExploreOptions(
        action=args.action or "list",
        workspace=args.workspace,
        session=args.session,
        branch=getattr(args, "branch", ""),
        paths=tuple(getattr(args, "paths", ())),
        none=getattr(args, "none", False),
        yes=getattr(args, "yes", False),
        json=args.json,
    )
    return await explore(options, _launcher(args), console)


async def _trace(args: argparse.Namespace, console: Console) -> int:
    from dataclasses import fields

    from lsp_bridge.terminal.trace_options import TraceOptions
    from lsp_bridge.terminal.traces import trace

    given = {field.name: getattr(args, field.name) for field in fields(TraceOptions) if field.name in args}
    return await trace(TraceOptions(**given), _launcher(args), console)


async def _context(args: argparse.Namespace, console: Console) -> int:
    if args.command == "context":
        from lsp_bridge.terminal import context

        seen = context.ContextOptions(args.workspace, args.session, args.tools, args.brief, args.json)
        return await context.context(seen, _launcher(args), console)

    from lsp_bridge.terminal import limits

    if args.command == "compact":
        kept = limits.CompactOptions(args.workspace, args.session, args.keep, args.json)
        return await limits.compact(kept, _launcher(args), console)
    options = limits.BudgetOptions(args.workspace, args.session, _limits(args), args.json)
    return await limits.budget(options, _launcher(args), console)


async def _permissions(args: argparse.Namespace, console: Console) -> int:
    from lsp_bridge.terminal import permissions as p

    if args.command == "trust":
        return p.trust(args.workspace, console, remove=args.remove, as_json=args.json)
    launcher = _launcher(args)
    if args.command == "mode":
        return await p.mode(
            p.ModeOptions(args.workspace, args.session, args.mode, args.json), launcher, console
        )
    if args.command == "jobs":
        return await p.jobs(
            p.JobOptions(args.workspace, args.session, args.kill, args.json), launcher, console
        )
    options = p.PermissionOptions(
        action=args.action or "list",
        workspace=args.workspace,
        session=args.session,
        ids=tuple(getattr(args, "ids", ())),
        permission=getattr(args, "permission", ""),
        target=getattr(args, "target", ""),
        json=args.json,
    )
    return await p.permissions(options, launcher, console)


def _limits(args: argparse.Namespace) -> tuple[tuple[str, float | None], ...]:
    """The limits that the command line sets, by their names on the wire."""
    from daemon.cli import NO_LIMIT
    from lsp_bridge.terminal.limits import LIMITS

    given = {
        "sessionUsd": args.usd,
        "sessionTokens": args.tokens,
        "goalUsd": args.goal_usd,
        "goalTokens": args.goal_tokens,
    }
    changes: dict[str, float | None] = dict.fromkeys(LIMITS) if args.none else {}
    changes |= {
        name: None if value == NO_LIMIT else value for name, value in given.items() if value is not None
    }
    return tuple(changes.items())


def _launcher(args: argparse.Namespace) -> Launcher:
    from lsp_bridge.launch import Launcher

    idle = getattr(args, "idle_timeout", None)
    return Launcher(serve_args=() if idle is None else ("--idle-timeout", f"{idle:g}"))


def _connect_command(args: argparse.Namespace) -> int:
    import asyncio

    from lsp_bridge.launch import LaunchError, ensure_daemon
    from lsp_bridge.terminal.pipe import pump

    try:
        return pump(asyncio.run(ensure_daemon(args.workspace)))
    except (LaunchError, OSError) as error:
        return _say(error)


def _serve_command(args: argparse.Namespace) -> int:
    """Be the daemon until stopped. Exit code 3 when another one has the lock."""
    import asyncio

    from daemon.api.door import ApiError
    from daemon.logfile import configure_logging
    from daemon.runtime import AlreadyRunning, RuntimeFolderError, RuntimePaths
    from daemon.store.base import StoreError

    if not args.workspace.is_dir():
        return _say(f"The workspace {args.workspace} is not a folder.")
    paths = RuntimePaths.for_workspace(args.workspace)
    # The log takes the place of stderr; who asked for the API is told there why there is none.
    stderr = os.dup(2) if args.http is not None else 2
    try:
        with paths.hold_lock():
            configure_logging(None if args.foreground else paths.log_file)
            os.chdir(paths.folder)  # nothing in the workspace may be found by a relative path
            return asyncio.run(_serve(args, paths))
    except AlreadyRunning as error:
        if args.http is not None:
            return _ask_running(args)
        return _say(error, EXIT_ALREADY_RUNNING)
    except ApiError as error:
        os.write(stderr, f"{error}\n".encode())
        return 1
    except (RuntimeFolderError, StoreError, OSError) as error:
        return _say(error)
    finally:
        if stderr != 2:
            os.close(stderr)


def _ask_running(args: argparse.Namespace) -> int:
    """The daemon that runs opens its API, in place of a second one."""
    import asyncio

    from lsp_bridge.terminal.console import Console
    from lsp_bridge.terminal.trace_page import open_running

    console = Console.of_process(color=False)
    return asyncio.run(open_running(args.workspace, _launcher(args), args.http, console))


async def _open_api(core: Daemon, args: argparse.Namespace, stopping: asyncio.Event) -> str:
    """Open the API where the command line or the setting says so.

    Returns why it cannot be where the command line wants it; the daemon is of no use then.
    """
    import contextlib
    import json
    import logging

    from daemon.api.door import ApiError

    if args.http is None and core.config().settings.api_port is None:
        return ""
    try:
        found = await core.api.open(args.http)
    except ApiError as error:
        if args.http is None:
            logging.getLogger("goalwright").warning("%s", error)
            return ""
        stopping.set()
        return str(error)
    if args.http is not None:
        with contextlib.suppress(OSError):  # nobody reads it any more; the daemon goes on
            print(json.dumps({"url": found.url, "token": found.token}), flush=True)
    return ""


async def _serve(args: argparse.Namespace, paths: RuntimePaths) -> int:
    """Build the daemon, open the door, and stay until stopped, signalled or idle."""
    import asyncio
    import contextlib
    import logging
    import signal
    from datetime import UTC, datetime

    from lsp_bridge.quick_imports import quick_imports

    with quick_imports():
        from daemon.api.door import ApiError
        from daemon.config import load_config
        from daemon.core import Daemon
        from daemon.provider.models import ProviderModels
        from daemon.runtime import Address, new_token, state_dir
        from daemon.trust import TrustedFolders
        from daemon.version import product_version
        from lsp_bridge.branch_eyes import BranchEyes
        from lsp_bridge.diagnostics import ServerDiagnostics
        from lsp_bridge.documents import path_of
        from lsp_bridge.editor.diagnostics import EditorDiagnostics, EditorTiming
        from lsp_bridge.editor.peers import EditorPeers
        from lsp_bridge.eyes import Eyes
        from lsp_bridge.handshake import PROTOCOL_VERSION
        from lsp_bridge.language.choice import SettingsChooser
        from lsp_bridge.language_servers import LanguageServers
        from lsp_bridge.lazy_navigation import LazyNavigation
        from lsp_bridge.listen import Listener
        from lsp_bridge.server import Bridge

    log = logging.getLogger("goalwright")
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        with contextlib.suppress(NotImplementedError):  # Windows
            loop.add_signal_handler(number, stopping.set)

    workspace = paths.workspace
    user_folder = state_dir()
    idle_timeout = args.idle_timeout
    if args.http is not None and idle_timeout is None:
        idle_timeout = 0.0  # who serves others does not end because nobody came for a while
    command_line = {"model": args.model, "idle_timeout_s": idle_timeout}
    models = ProviderModels()

    async def warm(env: Mapping[str, str], configured: str | None) -> None:
        """When a client has been greeted: it will want to begin a turn."""
        await asyncio.to_thread(core.load_tools)
        await models.warm_for(env, configured)

    bridge = Bridge(product_version(), models.choose, warm)
    trusted = TrustedFolders(user_folder).trust(workspace) == "trusted"
    settings = load_config(workspace, user_folder / "config.json", trusted=trusted).settings
    wanted = settings.diagnostics

    def trusts() -> bool:
        return bridge.trusts(core.trust() == "trusted")

    choose = SettingsChooser(
        lambda: core.config(trusts()).settings,
        trusts,
        told=lambda problems: log.warning("settings: %s", "; ".join(problems)),
    )
    language_servers = LanguageServers(workspace, choose=choose)
    servers = ServerDiagnostics(language_servers, text_of=bridge.editors.unsaved)
    seen_by_editors = EditorDiagnostics(
        bridge.peers if wanted else EditorPeers(),
        workspace,
        servers.read,
        timing=EditorTiming(answer_s=settings.diagnostics_timeout_s),
        path_of=path_of,
    )
    diagnostics = Eyes(servers, seen_by_editors)
    branch_eyes = BranchEyes(workspace, choose=choose)

    def navigation() -> Navigation:
        from lsp_bridge.navigation import ServerNavigation

        editors = bridge.editors
        return ServerNavigation(language_servers, editors.unsaved, editors.unsaved_paths)

    core = Daemon(
        workspace,
        diagnostics=diagnostics,
        models=models,
        state_folder=user_folder,
        command_line=command_line,
        editors=bridge.editors,
        navigation=LazyNavigation(navigation),
        own_servers=servers,
        open_eyes=branch_eyes.open,
    )
    token = new_token()
    listener = Listener(core, bridge, token, stopping.set)
    socket = paths.prepare_socket() if hasattr(asyncio, "start_unix_server") else None
    port = await listener.open(socket)
    address = Address(
        pid=os.getpid(),
        token=token,
        version=product_version(),
        protocol_version=PROTOCOL_VERSION,
        workspace=str(workspace),
        started_at=datetime.now(UTC).isoformat(),
        socket=str(socket) if socket is not None else None,
        port=port,
    )
    paths.write_address(address)
    log.info("serving %s (process %d)", workspace, os.getpid())
    idle = asyncio.create_task(core.wait_until_idle())
    stopped = asyncio.create_task(stopping.wait())
    tidying = asyncio.create_task(core.keeping.daily())
    # Beside all else: nobody who wants to begin a turn waits for the API.
    opened = asyncio.create_task(_open_api(core, args, stopping))
    try:
        await asyncio.wait({idle, stopped}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        log.info("stopping")
        for task in (idle, stopped, tidying):
            task.cancel()
        paths.clear()  # whoever comes now starts a new daemon, which waits for this one's lock
        await core.close()  # first, so that those who are here hear how their turns ended
        await listener.close()
        await asyncio.gather(diagnostics.close(), branch_eyes.close())
        await models.aclose()
    if problem := await opened:
        raise ApiError(problem)
    return 0


if __name__ == "__main__":
    sys.exit(main())
