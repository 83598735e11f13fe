"""Apply the setting ``language_servers`` to the known servers: leave out, change, or add some."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from lsp_bridge.language_client.specs.python import PYTHON
from lsp_bridge.language_client.specs.server_spec import (
    Command,
    Configure,
    JsonObject,
    ServerSpec,
    Setup,
    SetupContext,
    Unusable,
)
from lsp_bridge.language_client.specs.systems import SYSTEMS
from lsp_bridge.language_client.specs.typescript import TYPESCRIPT
from lsp_bridge.language_client.specs.web import WEB

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from daemon.settings import LanguageServerSetting

SETTING = "language_servers"
DEFAULT_SPECS: tuple[ServerSpec, ...] = (*PYTHON, *TYPESCRIPT, *SYSTEMS, *WEB)
"""All servers that are known without any setting. A spec comes after those it yields to."""


def configured(
    specs: Sequence[ServerSpec], wanted: Mapping[str, LanguageServerSetting]
) -> tuple[tuple[ServerSpec, ...], tuple[str, ...]]:
    """Return ``specs`` with the user's settings, and problems as text; wrong parts are ignored.

    A key names a server as ``goalwright doctor`` does, or one of its programs (``basedpyright``); any other key is a
    new server.
    """
    result: list[ServerSpec] = []
    problems: list[str] = []
    known: set[str] = set()
    for spec in specs:
        known.update((spec.name, *(command.name for command in spec.commands)))
        if (changed := _changed(spec, wanted, problems)) is not None:
            result.append(changed)
    for name in wanted.keys() - known:
        new = _new(name, wanted[name], problems, sorted(spec.name for spec in specs))
        if new is not None:
            result.append(new)
    # A server that a disabled one would have replaced is enabled again.
    left = {spec.name for spec in result}
    result = [replace(s, yields_to=tuple(n for n in s.yields_to if n in left)) for s in result]
    return tuple(result), tuple(sorted(problems))


def merged(base: JsonObject, over: JsonObject) -> dict[str, Any]:
    """Return ``over`` laid over ``base``: objects are merged key by key, everything else is replaced."""
    result = dict(base)
    for key, value in over.items():
        below = result.get(key)
        if isinstance(below, dict) and isinstance(value, dict):
            result[key] = merged(cast("dict[str, Any]", below), cast("dict[str, Any]", value))
        else:
            result[key] = value
    return result


def _changed(
    spec: ServerSpec, wanted: Mapping[str, LanguageServerSetting], problems: list[str]
) -> ServerSpec | None:
    """Return ``spec`` with the settings for it and for its programs; None when it is not wanted."""
    setting = wanted.get(spec.name)
    if setting is not None and not setting.enabled:
        return None
    if setting is not None and spec.joins_when_named:
        spec = replace(spec, yields_to=())
    # An entry with a program's own name applies only to that program.
    single = {command.name: wanted[command.name] for command in spec.commands if command.name in wanted}
    single.pop(spec.name, None)
    commands: list[Command] = []
    for command in spec.commands:
        one = single.get(command.name)
        if one is None:
            commands.append(command)
        elif one.enabled:
            commands.append(_command(command.name, one.command, problems) or command)
    if setting is not None and setting.command:
        own = _command(spec.name, setting.command, problems)
        commands = [own] if own is not None else commands
    if not commands:
        return None
    spec = replace(spec, commands=tuple(commands))
    for name, each in [(spec.name, setting), *single.items()]:
        if each is not None and each.enabled:
            spec = _with(spec, name, each, problems)
    return spec


def _new(
    name: str, setting: LanguageServerSetting, problems: list[str], known: Sequence[str]
) -> ServerSpec | None:
    if not setting.enabled or not setting.command or not setting.languages:
        problems.append(
            f"{SETTING}: {name}: Goalwright knows no such server, so it needs a command and languages. "
            f"It knows {', '.join(known)}."
        )
        return None
    command = _command(name, setting.command, problems)
    if command is None:
        return None
    spec = ServerSpec(name=name, title=name, languages={}, commands=(command,))
    spec = _with(spec, name, setting, problems)
    return spec if spec.languages or spec.files else None


def _with(spec: ServerSpec, name: str, setting: LanguageServerSetting, problems: list[str]) -> ServerSpec:
    suffixes, files = dict(spec.languages), dict(spec.files)
    for pattern, language in setting.languages.items():
        if not pattern or not language or "/" in pattern or "*" in pattern or "\\" in pattern:
            problems.append(
                f"{SETTING}: {name}: languages: {pattern!r} is neither a suffix like .zig nor a file name, "
                'or its languageId is missing; an example: {".zig": "zig"}'
            )
        elif pattern.startswith(".") and pattern.count(".") == 1:
            suffixes[pattern.lower()] = language
            files[pattern] = language  # .bashrc is a name, .zig a suffix: they cannot be distinguished
        else:
            files[pattern] = language
    roots = tuple(root for root in setting.roots if root and "/" not in root and "\\" not in root)
    if len(roots) != len(setting.roots):
        problems.append(f"{SETTING}: {name}: roots must be names of files, like build.zig, not paths")
    configure = spec.configure
    if setting.settings or setting.initialization_options:
        configure = _over(spec.set_up, setting.settings, setting.initialization_options)
    return replace(spec, languages=suffixes, files=files, roots=roots or spec.roots, configure=configure)


def _over(configure: Configure, settings: JsonObject, options: JsonObject) -> Configure:
    def both(place: SetupContext) -> Setup | Unusable | None:
        setup = configure(place)
        if not isinstance(setup, Setup):
            return setup
        return replace(
            setup,
            settings=merged(setup.settings, settings),
            initialization_options=merged(setup.initialization_options, options),
        )

    return both


def _command(name: str, argv: Sequence[str], problems: list[str]) -> Command | None:
    if not argv:
        return None
    program = argv[0]
    try:
        program = str(Path(program).expanduser())
    except RuntimeError:  # a user that does not exist
        program = ""
    if not Path(program).is_absolute() and (Path(program).name != argv[0] or not program):
        problems.append(
            f"{SETTING}: {name}: command: {argv[0]!r} is neither the name of a program nor an absolute path"
        )
        return None
    return Command(name, (program, *argv[1:]))
