"""Parse the command line by the table of commands, and run the command."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from lsp_bridge.cli.command_description import Argument
from lsp_bridge.cli.command_table import COMMANDS
from tools.localization import DEFAULT, language, noted, t

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from lsp_bridge.cli.console import Console
    from lsp_bridge.cli.invocation import Invocation
    from lsp_bridge.cli.launch import Launcher

    _Parsers = argparse._SubParsersAction["_Parser"]  # pyright: ignore[reportPrivateUsage] - has no public name

SHARED = ("command", "action", "function", "workspace", "session", "json", "no_color", "idle_timeout")
"""Fields of an ``Invocation``; the rest are arguments of the function."""

ARGPARSE = (
    noted("usage: "),
    noted("positional arguments"),
    noted("options"),
    noted("show this help message and exit"),
    noted("%(prog)s: error: %(message)s\n"),
    noted("the following arguments are required: %s"),
    noted("one of the arguments %s is required"),
    noted("unrecognized arguments: %s"),
    noted("unknown parser %(parser_name)r (choices: %(choices)s)"),
    noted("not allowed with argument %s"),
    noted("argument %(argument_name)s: %(message)s"),
    noted("expected one argument"),
    noted("expected at most one argument"),
    noted("expected at least one argument"),
    noted("expected %s argument"),
    noted("expected %s arguments"),
    noted("ignored explicit argument %r"),
    noted("ambiguous option: %(option)s could match %(matches)s"),
    noted("invalid %(type)s value: %(value)r"),
    noted("invalid choice: %(value)r (choose from %(choices)s)"),
    noted("invalid choice: %(value)r, maybe you meant %(suggestion)r? (choose from %(choices)s)"),
)
"""Texts of argparse itself."""


class _Version(argparse.Action):
    """Like argparse's ``version``, but looks the version up only when asked."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        import asyncio

        parser.exit(asyncio.run(run_command(argparse.Namespace(function="command_line:version"))))


class _Parser(argparse.ArgumentParser):
    """A parser whose help is written as the output of a command: argparse ignores an output that fails."""

    def print_help(self, file: object = None) -> None:
        from lsp_bridge.cli.console import Console, OutputFailedError

        console = Console.of_process(color=False)
        try:
            console.write(self.format_help())
        except OutputFailedError as error:
            console.warn(str(error))
            self.exit(1)


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Return the parsed command line. Exits with code 2 and a usage message when it is wrong."""
    if language() != DEFAULT:
        # argparse asks gettext under these names, which knows .mo files alone:
        # https://docs.python.org/3/howto/argparse.html#how-to-translate-the-argparse-output
        for name, function in (("_", t), ("ngettext", _ngettext)):
            setattr(argparse, name, function)
    parser = _Parser(
        prog="goalwright",
        description=t("A coding agent that plans in a tree of goals and asks before it writes."),
        formatter_class=partial(argparse.HelpFormatter, width=_width()),
    )
    parser.add_argument(
        "--version", action=_Version, nargs=0, default=argparse.SUPPRESS, help=t("print the version")
    )
    parsers = parser.add_subparsers(dest="command", metavar="command", required=True, prog=parser.prog)
    # A named command needs only its own parser: creating all of them takes a tenth of a second.
    names = [one.name for one in COMMANDS if " " not in one.name]
    for name in [name for name in names if name in argv[:1]] or names:
        _add(parsers, name)
    if "_ARGCOMPLETE" in os.environ:  # a shell asks for completions, and gets them here
        import argcomplete

        argcomplete.autocomplete(parser)
    args = parser.parse_args(argv)
    if args.command == "run":
        run = parsers.choices["run"]
        if args.agent and (args.session or args.resume_last or args.fork):
            run.error(t("--agent is only for a new session; an existing session keeps its agent"))
        args.task = _task(run, args.task)
    return args


def completion(cli: Invocation, *, shell: str) -> int:
    """Print the script with which ``bash``, ``zsh`` or ``fish`` completes what is typed: by ``parse``, of which it
    asks."""
    from argcomplete.shell_integration import shellcode

    cli.console.line(shellcode(["goalwright"], shell=shell).strip())
    return 0


def version(cli: Invocation) -> int:
    """Print the version of Goalwright."""
    from daemon.version import product_version

    cli.console.line(f"goalwright {product_version()}")
    return 0


async def run_command(
    args: argparse.Namespace, console: Console | None = None, launcher: Launcher | None = None
) -> int:
    """Run a command that talks to a daemon, or reads what one wrote. Returns the exit code."""
    from lsp_bridge.cli.console import Console, OutputFailedError
    from lsp_bridge.cli.invocation import EXIT_FAILED, Invocation
    from lsp_bridge.cli.launch import Launcher

    given: dict[str, Any] = vars(args)
    idle = given.get("idle_timeout")
    invocation = Invocation(
        workspace=given.get("workspace") or Path(),
        console=console or Console.of_process(color=not given.get("no_color", False)),
        launcher=launcher or Launcher(serve_args=() if idle is None else ("--idle-timeout", f"{idle:g}")),
        session=given.get("session"),
        json=given.get("json", False),
    )
    function = function_of(given["function"])
    try:
        result = function(invocation, **{name: value for name, value in given.items() if name not in SHARED})
        code = result if isinstance(result, int) else await result
        if invocation.console.failure is not None:
            raise invocation.console.failure
        return code
    except OutputFailedError as error:
        invocation.console.warn(str(error))
        return EXIT_FAILED


def function_of(place: str) -> Callable[..., int | Awaitable[int]]:
    """Return the function that the table names."""
    module, _, name = place.partition(":")
    return getattr(import_module(f"lsp_bridge.cli.{module}"), name)


def _add(parsers: _Parsers, name: str, above: frozenset[str] = frozenset()) -> None:
    """Add the parser of a command. ``above``: arguments of the command of an action."""
    command = next(one for one in COMMANDS if one.name == name)
    parser = parsers.add_parser(
        name.rpartition(" ")[2],
        help=t(command.help),
        epilog=t(command.epilog) if command.epilog else None,
        formatter_class=partial(
            argparse.RawDescriptionHelpFormatter if command.epilog else argparse.HelpFormatter, width=_width()
        ),
    )
    parser.set_defaults(function=command.function)
    own = set[str]()
    for one in command.arguments:
        if isinstance(one, Argument):
            group, arguments = parser, (one,)
        else:
            arguments = one.arguments
            group = (
                parser.add_argument_group(t(one.title), t(one.help))
                if one.title
                else parser.add_mutually_exclusive_group(required=one.required)
            )
        for names, text, options in arguments:
            made = group.add_argument(*names, help=None if text is None else t(text), **options)
            if made.dest in above:
                made.default = argparse.SUPPRESS  # a default here would override an option before the action
            own.add(made.dest)
    if names := [one.name for one in COMMANDS if one.name.startswith(f"{name} ")]:
        actions = parser.add_subparsers(dest="action", metavar="action", required=not command.function)
        for action in names:
            _add(actions, action, frozenset(own))


@cache
def _width() -> int:
    """Return the columns of a help text. argparse creates a formatter for each argument, and would import shutil."""
    with contextlib.suppress(OSError, ValueError):
        return (int(os.environ.get("COLUMNS", "0")) or os.get_terminal_size().columns or 80) - 2
    return 78


def _ngettext(one: str, many: str, count: int) -> str:
    return t(one if count == 1 else many)


def _task(parser: argparse.ArgumentParser, task: str | None) -> str:
    stdin: TextIO | None = sys.stdin  # None in a process without stdin
    if task is None and (stdin is None or stdin.isatty()):
        parser.error(t('what should the agent do? For example: goalwright run "add a test for cart.py"'))
    if task in (None, "-"):
        # Read bytes, because the encoding of sys.stdin is the locale's.
        task = "" if stdin is None else stdin.buffer.read().decode("utf-8", "replace")
    if not task or not task.strip():
        parser.error(t("the task is empty"))
    return task
