"""Prompts and resources of MCP servers: listed, checked, and listed again when a server announces a change.

Servers are untrusted: names become parts of what the user types, and descriptions are shown in menus, so both are
bounded and hide nothing. Nothing here reads a file: only the server knows what a URI means.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from daemon.mcp.failures import invalid
from tools.text.terminal import plain, shown_brief
from tools.text.truncate import one_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp.client.session import IncomingMessage

    from daemon.mcp.sdk import ServerSession

MOST_PROMPTS = 200
MOST_RESOURCES = 2_000
MOST_TEMPLATES = 200
LONGEST_URI = 1_000
_LONGEST_NAME = 200
_LONGEST_WORDS = 300
"""Characters of a description in a menu."""
_MOST_ARGUMENTS = 20
REFRESH_PAUSE_S = 0.5
"""Between an announcement and the question: some servers announce each change."""
_PAUSE_RATIO = 10
"""The pause is so many times as long as the last listing took, up to ``_LONGEST_PAUSE_S``."""
_LONGEST_PAUSE_S = 30.0
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s\"\x00-\x1f\x7f]+")


class PromptArgument(Struct, frozen=True):
    """An argument of a prompt. ``name``: as the server calls it; ``description``: one line, maybe empty."""

    name: str
    description: str
    required: bool


class PromptDefinition(Struct, frozen=True):
    """A prompt as its server defines it. ``description``: one line."""

    name: str
    description: str
    arguments: tuple[PromptArgument, ...] = ()

    @property
    def hint(self) -> str:
        """The arguments for a menu: ``<file> [style]``."""
        words = (shown_brief(one.name, 40) for one in self.arguments)
        return " ".join(
            f"<{name}>" if one.required else f"[{name}]"
            for name, one in zip(words, self.arguments, strict=True)
        )


class ResourceDefinition(Struct, frozen=True):
    """A resource, or with ``template`` a family of them whose URI has ``{places}`` to fill in."""

    uri: str
    title: str
    """The server's name for it, on one line."""
    description: str = ""
    media_type: str = ""
    template: bool = False


class ServerContent:
    """Prompts and resources of one server, as it listed them last."""

    def __init__(self, note: Callable[[str], None]) -> None:
        """``note``: takes a line for the server's log."""
        self.prompts: tuple[PromptDefinition, ...] = ()
        self.resources: tuple[ResourceDefinition, ...] = ()
        self.listed = asyncio.Event()
        """Set when they have been asked for, whatever the answer was."""
        self._note = note
        self._stale = asyncio.Event()

    def clear(self) -> None:
        """Forget everything: the server is down."""
        self.prompts, self.resources = (), ()
        self.listed.clear()

    def heard(self, message: IncomingMessage) -> None:
        """Take note of a notification about a change."""
        import mcp_types as types

        if isinstance(message, types.PromptListChangedNotification | types.ResourceListChangedNotification):
            self._stale.set()

    async def follow(self, session: ServerSession) -> None:
        """List now and after each announced change, until canceled."""
        loop = asyncio.get_running_loop()
        while True:
            self._stale.clear()
            began = loop.time()
            await self._list(session)
            self.listed.set()
            took = loop.time() - began
            await self._stale.wait()
            # A server that announces changes all the time must not keep the daemon busy with long lists.
            await asyncio.sleep(min(max(REFRESH_PAUSE_S, _PAUSE_RATIO * took), _LONGEST_PAUSE_S))

    async def _list(self, session: ServerSession) -> None:
        offered = session.server_capabilities
        if offered is not None and offered.prompts is not None:
            prompts = await self._entries(session, "prompts", MOST_PROMPTS)
            self.prompts = await asyncio.to_thread(_prompts, prompts)
        if offered is not None and offered.resources is not None:
            resources = await self._entries(session, "resources", MOST_RESOURCES)
            templates = await self._entries(session, "resourceTemplates", MOST_TEMPLATES)
            self.resources = await asyncio.to_thread(_resources, resources, templates)

    async def _entries(self, session: ServerSession, key: str, most: int) -> list[Any]:
        """Return the entries of a list, as many as are used; its problems are not worth the tools, which work."""
        listing = await session.listed(key, most)
        for name, why in listing.wrong:
            self._note(f"{key}: {shown_brief(name, _LONGEST_NAME)} is not used: {why}")
        if listing.error is not None:
            self._note(f"{key}: {invalid(listing.error)}")
        if len(listing.found) > most:
            self._note(f"{key}: only the first {most} are used")
        return listing.found[:most]


def _prompts(found: list[Any]) -> tuple[PromptDefinition, ...]:
    made: dict[str, PromptDefinition] = {}
    for one in found:
        arguments: list[Any] = one.arguments or []
        if not one.name or len(one.name) > _LONGEST_NAME:
            continue
        made.setdefault(
            one.name,
            PromptDefinition(
                one.name,
                _words(one.description or one.title),
                tuple(
                    PromptArgument(argument.name, _words(argument.description), argument.required is True)
                    for argument in arguments[:_MOST_ARGUMENTS]
                    if argument.name and len(argument.name) <= _LONGEST_NAME
                ),
            ),
        )
    return tuple(made.values())


def _resources(found: list[Any], templates: list[Any]) -> tuple[ResourceDefinition, ...]:
    """Return those whose URI can be typed: a mention ends at a space or quote."""
    made: dict[str, ResourceDefinition] = {}
    for one, uri, template in (
        *((one, one.uri, False) for one in found),
        *((one, one.uri_template, True) for one in templates),
    ):
        if len(uri) <= LONGEST_URI and _URI.fullmatch(uri):
            title, words = _words(one.title or one.name), _words(one.description)
            made.setdefault(
                uri, ResourceDefinition(uri, title, words, _words(one.mime_type)[:100], template=template)
            )
    return tuple(made.values())


def _words(text: str | None) -> str:
    """Return a text of the server for a menu."""
    return shown_brief(one_line(plain(text or ""), _LONGEST_WORDS), _LONGEST_WORDS)
