"""Composition root: the entry point of ``goalwright``, and in the repository of ``python -I -m daemon``.

The only module that may import both ``daemon`` and ``lsp_bridge``. Each command imports only its own needs, so that
none waits for the libraries of another.
"""

from __future__ import annotations

import sys

THROUGH_CURRENT_FOLDER = __name__ == "__main__" and not sys.flags.safe_path
if THROUGH_CURRENT_FOLDER:
    # `python -m` put the current folder there, which may be an untrusted workspace (see daemon/safe_path.py). It must
    # go before the next import, which would look there first.
    del sys.path[0]

import os  # noqa: E402
from typing import TYPE_CHECKING  # noqa: E402

if TYPE_CHECKING:
    import argparse
    import asyncio

    from daemon.api.lazy_server import LazyApiServer
    from daemon.core import Daemon
    from daemon.runtime import RuntimePaths
    from daemon.settings import Settings

EXIT_ALREADY_RUNNING = 3
_PRELOAD_AFTER_S = 5.0
"""A daemon starts the preloader when it has done what it was started for."""


def main(*, through_current_folder: bool = False) -> int:
    """Run the command line and return the exit code, 130 after Ctrl-C. For the argument see ``protect``."""
    try:
        return _main(through_current_folder=through_current_folder)
    except KeyboardInterrupt:
        return 130


def _main(*, through_current_folder: bool) -> int:
    from daemon.safe_path import protect

    _open_streams()
    try:
        current = os.getcwd()  # noqa: PTH109 - pathlib is not to be imported yet
    except OSError as error:
        return _say(f"The current folder cannot be used: {error.strerror}")
    # This protects the imports until the workspace is known.
    protect(current, through_current_folder=through_current_folder)

    from pathlib import Path

    _set_language()
    from lsp_bridge.cli.command_line import parse
    from tools.localization import t

    args = parse(sys.argv[1:])
    if "workspace" in args:
        try:
            args.workspace = (args.workspace or Path(current)).expanduser().absolute()
        except RuntimeError as error:
            return _say(t("Cannot find the workspace: {error}", error=error))
        if problem := protect(str(args.workspace), through_current_folder=through_current_folder):
            return _say(problem)
    return _dispatch(args)


def _open_streams() -> None:
    """Put the null device in the place of each standard stream that is closed, before another file gets its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8", errors="replace"))  # noqa: PTH123, SIM115


def leave(code: int) -> int:
    """End this process with an exit code, or return it if that would leave something undone.

    The interpreter's own way takes every module apart, which takes a command 20 ms; in a fork it copies the memory that
    the fork shares: a tenth of a second.
    """
    import atexit
    import threading

    if all(thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread()):
        # ``os._exit`` calls none of them, and the module has no public way to get at what is registered.
        # https://github.com/python/cpython/issues/76263
        atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage]
        try:
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
        except OSError:
            return code  # nobody reads it any more, which the interpreter reports
        os._exit(code)
    return code


def _set_language() -> None:
    """Speak the language of the user's ``config.json``, which nothing else of the command line reads so early."""
    from daemon.runtime import state_dir
    from tools.files.regular_files import read_regular

    try:
        data = read_regular(state_dir() / "config.json", 1_000_000, follow=True)
        if b'"language"' not in data:
            return
        import json

        wanted = json.loads(data.decode("utf-8-sig"))["language"]
    except (OSError, ValueError, RuntimeError, RecursionError, LookupError, TypeError):
        return  # the settings report it when they are read
    from tools.localization import set_language

    try:
        set_language(wanted)
    except ValueError as error:
        _say(f"config.json: language: {error}")


def _say(problem: object, code: int = 1) -> int:
    print(problem, file=sys.stderr)
    return code


def _dispatch(args: argparse.Namespace) -> int:
    if args.command == "serve":
        return _serve_command(args)
    if args.command == "connect":
        return _connect_command(args)
    if args.command == "preload":
        from lsp_bridge.cli.preloader import preload

        code = preload(args.idle_timeout)
        return main() if code is None else code  # None: a fork, which has its own arguments now

    if "asyncio" not in sys.modules:
        # Commands talk to the daemon alone, without TLS: asyncio may do without ssl, which takes 4.5 MB.
        # None: https://docs.python.org/3/reference/import.html#the-module-cache
        sys.modules["ssl"] = None  # pyright: ignore[reportArgumentType]
        import asyncio

        del sys.modules["ssl"]
    import asyncio

    from lsp_bridge.cli.command_line import run_command

    return asyncio.run(run_command(args))


def _connect_command(args: argparse.Namespace) -> int:
    import asyncio

    from lsp_bridge.cli.launch import LaunchError, ensure_daemon
    from lsp_bridge.cli.stdio_proxy import pump

    try:
        return pump(asyncio.run(ensure_daemon(args.workspace)))
    except (LaunchError, OSError) as error:
        return _say(error)


def _serve_command(args: argparse.Namespace) -> int:
    """Be the daemon until stopped. Exit code 3 when another one has the lock."""
    import asyncio
    import contextlib

    from daemon.api.address import ApiError
    from daemon.logfile import configure_logging
    from daemon.runtime import AlreadyRunningError, RuntimeFolderError, RuntimePaths, keep_memory_private
    from daemon.store.trace_store import StoreError
    from lsp_bridge.cli.launch import passed_on
    from tools.localization import t
    from tools.process.environment import PASSED_ON
    from tools.redaction.redactor import SECRETS

    if not os.path.isdir(args.workspace):  # noqa: PTH112 - pathlib fails for a name that is too long
        return _say(t("The workspace {workspace} is not a folder.", workspace=args.workspace))
    keep_memory_private()
    os.environ[PASSED_ON] = " ".join(passed_on())  # also when the user started it directly
    paths = RuntimePaths.for_workspace(args.workspace)
    # The log replaces stderr; the caller's stderr still shows why the daemon did not start.
    stderr = os.dup(2)

    def say(problem: object) -> None:
        with contextlib.suppress(OSError):  # nobody reads it any more
            os.write(stderr, f"{SECRETS.text(str(problem))}\n".encode(errors="replace"))

    try:
        with paths.hold_lock():
            configure_logging(None if args.foreground else paths.log_file)
            os.chdir(paths.folder)  # a relative path must never find anything in the workspace
            return asyncio.run(_serve(args, paths))
    except AlreadyRunningError as error:
        if args.http is not None:
            return _ask_running(args)
        return _say(error, EXIT_ALREADY_RUNNING)
    except (ApiError, RuntimeFolderError, StoreError, OSError) as error:
        say(error)
        return 1
    except Exception as error:
        if not args.foreground and not os.path.samestat(os.fstat(stderr), os.fstat(2)):
            say(
                t(
                    "The daemon failed ({kind}: {error}). See its log: {log_file}",
                    kind=type(error).__name__,
                    error=error,
                    log_file=paths.log_file,
                )
            )
        raise
    finally:
        os.close(stderr)


def _ask_running(args: argparse.Namespace) -> int:
    """Ask a running daemon to open its API, instead of starting a second one."""
    import asyncio

    from lsp_bridge.cli.console import Console
    from lsp_bridge.cli.invocation import Invocation
    from lsp_bridge.cli.trace.web_page import open_running

    cli = Invocation(args.workspace, Console.of_process(color=False))
    return asyncio.run(open_running(cli, args.http))


async def _open_api(
    core: Daemon, api: LazyApiServer, args: argparse.Namespace, stopping: asyncio.Event
) -> str:
    """Open the API where the command line or the setting says so.

    Returns why the address of the command line is not possible; the daemon is then useless.
    """
    import contextlib
    import json
    import logging

    from daemon.api.address import ApiError

    if args.http is None and core.config().settings.daemon.api_port is None:
        return ""
    try:
        found = await api.open(args.http)
    except ApiError as error:
        if args.http is None:
            logging.getLogger("goalwright").warning("%s", error)
            return ""
        stopping.set()
        return str(error)
    if args.http is not None:
        with contextlib.suppress(OSError):  # nobody reads it any more; the daemon keeps running
            print(json.dumps({"url": found.url, "token": found.token}), flush=True)
    return ""


async def _load_late(core: Daemon) -> None:
    """Load what a first turn needs and clients can connect without."""
    import asyncio
    import gc

    from daemon.provider import http
    from lsp_bridge.server.first_use import build_ahead, import_ahead

    # Loading certificates leaves the interpreter to others.
    await asyncio.gather(asyncio.to_thread(core.load_tools), asyncio.to_thread(http.load))
    if not core.running:
        await asyncio.to_thread(import_ahead)
    for _ in build_ahead():
        if core.running:
            break  # a turn builds what it needs
        await asyncio.sleep(0)
    gc.freeze()  # what is loaded stays, and need not be scanned by every full collection


async def _preload(wanted: bool) -> None:
    """Have a process ready that the next daemon starts from, soon."""
    import asyncio
    import logging

    from daemon.runtime import RuntimeFolderError
    from lsp_bridge.cli.launch import start_preloader

    if wanted:
        await asyncio.sleep(_PRELOAD_AFTER_S)
        try:
            await asyncio.to_thread(start_preloader)
        except (OSError, RuntimeFolderError) as error:
            logging.getLogger("goalwright").warning("cannot start the preloader: %s", error)


async def _serve(args: argparse.Namespace, paths: RuntimePaths) -> int:
    """Build the daemon, open the door, and stay until stopped, signalled or idle."""
    import asyncio
    import contextlib
    import gc
    import logging
    import signal
    from datetime import UTC, datetime

    from lsp_bridge.server.lazy_lsprotocol import quick_imports

    # Imports leave nothing to collect, and a collection takes a twentieth of the start. COLLECTOR takes over later.
    gc.disable()
    with quick_imports():
        from daemon.api.address import ApiError
        from daemon.api.lazy_server import LazyApiServer
        from daemon.config import WorkspaceConfig
        from daemon.core import Daemon
        from daemon.gc_tuning import COLLECTOR, share_memory
        from daemon.provider.models import ProviderModels
        from daemon.runtime import Address, new_token, state_dir
        from daemon.version import product_version
        from lsp_bridge.language_client.diagnostics.server_source import ServerSource
        from lsp_bridge.language_client.diagnostics.service import DiagnosticsService
        from lsp_bridge.language_client.language_services import BranchLanguageServices
        from lsp_bridge.language_client.navigation.server_navigation import ServerNavigation
        from lsp_bridge.language_client.pool.server_choice import SettingsChooser
        from lsp_bridge.language_client.pool.server_pool import LanguageServers
        from lsp_bridge.protocol.handshake import PROTOCOL_VERSION
        from lsp_bridge.server.connection import Bridge
        from lsp_bridge.server.editor.clients import EditorPeers
        from lsp_bridge.server.editor.editor_source import EditorSource, EditorTiming
        from lsp_bridge.server.listen import Listener
        from tools.localization import set_language
        from tools.process.background import Background

    share_memory()
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
        idle_timeout = 0.0  # a shared daemon does not stop when it has had no clients for a while
    command_line = {"model": args.model, "idle_timeout_s": idle_timeout}
    models = ProviderModels()
    bridge = Bridge(product_version(), models.choose)
    settings = WorkspaceConfig(workspace, user_folder, {}).read().settings
    set_language(settings.daemon.language)
    wanted = settings.languages.diagnostics

    def trusts() -> bool:
        return bridge.trusts(core.trust() == "trusted")

    def settings_if(trusted: bool) -> Settings:
        return core.config(trusted).settings

    choose = SettingsChooser(
        settings_if,
        trusts,
        told=lambda problems: log.warning("settings: %s", "; ".join(problems)),
    )
    language_servers = LanguageServers(workspace, choose)
    servers = ServerSource(language_servers, text_of=bridge.editors.unsaved)
    seen_by_editors = EditorSource(
        bridge.peers if wanted else EditorPeers(),
        servers.read,
        timing=EditorTiming.within(settings.languages.diagnostics_timeout_s),
    )
    diagnostics = DiagnosticsService(workspace, [seen_by_editors, servers])
    branch_services = BranchLanguageServices(workspace, choose)

    editors = bridge.editors
    core = Daemon(
        workspace,
        diagnostics=diagnostics,
        models=models,
        state_folder=user_folder,
        command_line=command_line,
        editors=editors,
        navigation=ServerNavigation(language_servers, editors.unsaved, editors.unsaved_paths),
        own_servers=DiagnosticsService(workspace, [servers]),
        open_language_services=branch_services.open,
    )
    token = new_token()
    api = LazyApiServer(core)
    listener = Listener(core, bridge, api, token, stopping.set)
    load = Background("loading for the first turn")
    if args.loaded:
        load.start(_load_late(core))
        await load.wait()
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
    COLLECTOR.install()
    gc.enable()
    if not args.loaded:  # while the first client is on its way
        load.start(_load_late(core))
    tending = asyncio.create_task(COLLECTOR.tend())
    idle = asyncio.create_task(core.wait_until_idle())
    stopped = asyncio.create_task(stopping.wait())
    core.outlets.copy_to_database(core.trace_maintenance.own.all)
    tidying = asyncio.create_task(core.trace_maintenance.daily())
    unloading = asyncio.create_task(core.trace_maintenance.unload_unused())
    preloading = asyncio.create_task(_preload(settings.daemon.preload))
    # In parallel, because turns do not wait for the API.
    opened = asyncio.create_task(_open_api(core, api, args, stopping))
    try:
        await asyncio.wait({idle, stopped}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        log.info("stopping")
        for task in (idle, stopped, tidying, unloading, tending, preloading):
            task.cancel()
        paths.clear()  # the next client starts a new daemon, which waits for this one's lock
        await core.close()  # first, so that connected clients learn how their turns ended
        await listener.close()
        await asyncio.gather(diagnostics.close(), branch_services.close())
        await models.aclose()
    if problem := await opened:
        raise ApiError(problem)
    return 0


if __name__ == "__main__":
    sys.exit(main(through_current_folder=THROUGH_CURRENT_FOLDER))
