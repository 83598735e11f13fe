"""Hooks that are Python functions: entry points of packages that are installed beside Goalwright.

``[project.entry-points."goalwright.hooks"]`` with ``"tool.execute.before" = "package.module:function"``. A package in
the daemon's own environment could change the daemon itself, so these need no further trust.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from msgspec import Struct, field

from daemon.hooks.answer import NAMES
from daemon.settings import HookName
from tools.localization import t

if TYPE_CHECKING:
    from collections.abc import Mapping

log = logging.getLogger(__name__)

STRICT = ".strict"
"""Behind the name of the hook: when the function fails, the answer is no."""


class HookFunction(Struct, frozen=True):
    """One function."""

    hook: HookName
    value: str
    """``module:attribute``."""
    package: str = ""
    strict: bool = False


class FoundFunctions(Struct, frozen=True):
    """All functions by hook, and errors as text for the user."""

    entries: Mapping[HookName, tuple[HookFunction, ...]] = field(
        default_factory=dict[HookName, tuple[HookFunction, ...]]
    )
    problems: tuple[str, ...] = ()


def discover() -> FoundFunctions:
    """Search installed packages without importing any. Reads the disk: call it in a thread. Never raises."""
    # The import takes 50 ms, and is only needed when the first session begins.
    from daemon.outside_tools.entry_points import HOOKS, entry_points

    try:
        points = entry_points(HOOKS)
    except Exception as error:  # broken metadata of any package may raise anything
        log.exception("entry points cannot be read")
        return FoundFunctions(problems=(t("Python hooks were not loaded: {error}", error=error),))
    found: dict[HookName, list[HookFunction]] = {}
    problems: list[str] = []
    for point in points:
        package = point.dist.name if point.dist is not None else ""
        name = point.name.removesuffix(STRICT)
        hook: HookName | None = next((known for known in NAMES if known == name), None)
        if hook is None:
            problems.append(unknown(point.name, t("the package {package}", package=package)))
            continue
        function = HookFunction(hook, point.value, package, point.name.endswith(STRICT))
        found.setdefault(hook, []).append(function)
    for entries in found.values():
        entries.sort(key=lambda entry: (entry.package, entry.value))
    return FoundFunctions({hook: tuple(entries) for hook, entries in found.items()}, tuple(problems))


def unknown(name: str, where: str) -> str:
    """Return the message for the user about a hook that does not exist."""
    return t(
        "{upper}{where} has a hook for an unknown event {name!r}. Hook events: {names}.",
        upper=where[:1].upper(),
        where=where[1:],
        name=name,
        names=", ".join(NAMES),
    )
