"""Requests of other turns, while an unattended run waits for its own: answered only when nobody else is there.

A script must not decide for a user who is being asked. But nobody would ever answer requests of a turn that a killed
daemon or client left behind, and the run would wait forever: for those, its own rule applies. Users may come and go, so
the daemon is asked again as long as something waits.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lsp_bridge.cli.client import Client, ConnectionLostError, RpcError
from lsp_bridge.cli.run.branch_lines import asked_title
from lsp_bridge.cli.text import one_line, shown_line
from tools.json_access import string, strings
from tools.localization import t

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lsp_bridge.cli.run.approval import Approver

_LOOK_S = 1.0
"""Seconds between checks for other clients."""


@dataclass(frozen=True, slots=True)
class _Waits:
    """Something that another client's turn waits for."""

    session_id: str
    words: str
    answer: Callable[[], Awaitable[None]] | None
    """By the rule of this run; None when it has none."""


class OtherTurns:
    """``leave_choice``: lets the model choose among the branches of an exploration."""

    def __init__(
        self,
        client: Client,
        approver: Approver,
        leave_choice: Callable[[str], Awaitable[None]],
        note: Callable[[str], None],
    ) -> None:
        self._client = client
        self._approver = approver
        self._leave_choice = leave_choice
        self._note = note
        self._waiting: dict[str, _Waits] = {}
        self._told: set[tuple[str, tuple[str, ...]]] = set()
        self.looking = False
        """``look`` is under way."""

    def asked(self, session_id: str, request: dict[str, Any]) -> None:
        """A question. The same one may come twice."""

        async def answer() -> None:
            self._approver.asked(request)

        words = shown_line(asked_title(request))
        self._waiting.setdefault(string(request.get("requestId")), _Waits(session_id, words, answer))

    def choice(self, session_id: str, start_id: str, choosing: str, *, leave: bool) -> None:
        """Handle an exploration that waits for the user's choice.

        ``choosing`` says how to choose; ``leave``: it may be left to the model.
        """

        async def answer() -> None:
            await self._leave_choice(start_id)

        words = t("Choose a branch: {choosing}", choosing=choosing)
        self._waiting.setdefault(start_id, _Waits(session_id, words, answer if leave else None))

    def settled(self, about: str) -> None:
        """It was answered, or is wanted no more. ``about``: the id of the request or of the exploration."""
        self._waiting.pop(about, None)

    async def look(self) -> None:
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
        finally:
            self.looking = False

    async def _once(self) -> None:
        session_id = next(iter(self._waiting.values())).session_id
        listed = await self._client.request("goalwright/permission/list", {"sessionId": session_id})
        there = tuple(strings(listed.get("attendedBy")))
        for about, waits in list(self._waiting.items()):
            if not there and waits.answer is not None:
                del self._waiting[about]
                self._note(t("nobody else is here to answer the question of an earlier turn:"))
                await waits.answer()
            elif (about, there) not in self._told:
                self._told.add((about, there))
                who = t(" or ").join(map(one_line, there)) or t("you")
                self._note(t("waiting for an answer from {who}: {words}", who=who, words=waits.words))
