"""The parts that the description of a command consists of, and the arguments that most commands take."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

if TYPE_CHECKING:
    from collections.abc import Callable


class Argument(NamedTuple):
    """An argument of a command; ``options`` are argparse's."""

    names: tuple[str, ...]
    help: str | None
    options: dict[str, Any]


class Group(NamedTuple):
    """Arguments of which at most one may be given, or with a heading of their own in the help."""

    arguments: tuple[Argument, ...]
    required: bool = False
    title: str = ""
    help: str = ""


class CliCommand(NamedTuple):
    """A command, or an action of one: ``goal add`` is one of the command ``goal``."""

    name: str
    help: str
    function: str = ""
    """``module:function`` in ``lsp_bridge.cli``; empty: one of the actions must be named, or ``__main__`` does it."""
    arguments: tuple[Argument | Group, ...] = ()
    epilog: str = ""


def command(
    name: str, help: str, function: str = "", *arguments: Argument | Group, epilog: str = ""
) -> CliCommand:
    """Return a command with these arguments."""
    return CliCommand(name, help, function, arguments, epilog)


class Actions(NamedTuple):
    """The actions of a command, which are functions of one module and share their last arguments."""

    command: str
    module: str
    shared: tuple[Argument, ...]

    def __call__(self, name: str, text: str, *own: Argument | Group, function: str = "") -> CliCommand:
        """Return an action. ``function``: its name in the module, when that is not ``name``."""
        place = f"{self.module}:{function or name}"
        return command(f"{self.command} {name}", text, place, *own, *self.shared)


def value(
    name: str, metavar: str, text: str, kind: Callable[[str], object] | None = None, **options: Any
) -> Argument:
    """Return an argument with a value."""
    return Argument((name,), text, {"metavar": metavar, "type": kind, **options})


def flag(name: str, text: str, *names: str, **options: Any) -> Argument:
    """Return an option without a value."""
    return Argument((*names, name), text, {"action": "store_true", **options})


def one_of(name: str, choices: object, text: str | None, **options: Any) -> Argument:
    """Return an argument whose values are those of a Literal."""
    return Argument((name,), text, {"choices": get_args(choices), **options})


WORKSPACE = value("--workspace", "FOLDER", "the folder to work in (default: the current folder)", Path)
JSON = flag("--json", "output for programs")
BASE = (WORKSPACE, JSON)
NO_COLOR = flag("--no-color", "plain text (NO_COLOR does the same)")
