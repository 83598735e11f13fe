"""Requests of other turns, while an unattended run waits for its own: answered only when nobody else is there.

A script must not decide for a user who is being asked. But nobody would ever answer requests of a turn that a killed
daemon or client left behind, and the run would wait forever: for those, its own rule applies. Users may come and go, so
the daemon is asked again as long as something waits.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from lsp_bridge.cli.client import Client, ConnectionLostError, RpcError
from lsp_bridge.cli.text import one_line
from tools.json_access import strings
from tools.localization import t

if TYPE_CHECKING:
    from collections.abc import Callable

    from tools.process.background import Background

_LOOK_S = 1.0
"""Seconds between checks for other clients."""


class OtherTurns:
    """The requests and choices that turns of other clients wait for, in the session of the run."""

    def __init__(
        self, client: Client, session_id: str, note: Callable[[str], None], background: Background
    ) -> None:
        self._client = client
        self._session_id = session_id
        self._note = note
        self._background = background
        self._waiting: dict[str, tuple[str, Callable[[], object] | None]] = {}
        self._told: set[tuple[str, tuple[str, ...]]] = set()
        self._looking: asyncio.Task[None] | None = None

    def wait(self, about: str, words: str, answer: Callable[[], object] | None) -> None:
        """Wait for others to answer, as long as there are others; the same may come twice. ``about``: the id of the
        request or of the exploration.

        ``answer`` does it by the rule of this run; None: it has none.
        """
        self._waiting.setdefault(about, (words, answer))
        if self._looking is None or self._looking.done():
            self._looking = self._background.start(self._look())

    def settled(self, about: str) -> None:
        """It was answered, or is wanted no more."""
        self._waiting.pop(about, None)

    async def _look(self) -> None:
        """Answer requests that no other client can answer, and name those that are waited for, until nothing waits."""
        try:
            while self._waiting:
                await self._once()
                await asyncio.sleep(_LOOK_S)
        except ConnectionLostError:
            pass  # the run itself ends as well
        except RpcError as error:
            self._note(
                t("cannot find out what the running turn waits for: {error}", error=one_line(str(error)))
            )

    async def _once(self) -> None:
        about_it = {"sessionId": self._session_id}
        listed = await self._client.request("goalwright/permission/list", about_it)
        there = tuple(strings(listed.get("attendedBy")))
        for about, (words, answer) in list(self._waiting.items()):
            if not there and answer is not None:
                del self._waiting[about]
                self._note(t("nobody else is here to answer the question of an earlier turn:"))
                answer()
            elif (about, there) not in self._told:
                self._told.add((about, there))
                who = t(" or ").join(map(one_line, there)) or t("you")
                self._note(t("waiting for an answer from {who}: {words}", who=who, words=words))
