"""Sessions as far as the permission service sees them, and its inbox with questions in it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from daemon.model.permissions import Grant, PermissionRequest, Rule, Scope
from daemon.permission.grants import GrantStore
from daemon.permission.rules import SHIPPED, RuleSet
from daemon.permission.service import (
    Answer,
    CallInfo,
    CallPermission,
    PermissionService,
    RequestResult,
)
from daemon.store.trace_store import StoreError
from tests.support.drivers.waiting import until
from tools.access import Access, Suggestion
from tools.tool import Approval, PermissionAsk, PermissionDeniedError

NOW = datetime(2025, 1, 1, tzinfo=UTC)


class FakeAsker:
    """A session as far as the service sees it; grants like the real one."""

    def __init__(self, session_id: str = "s", *rules: Rule) -> None:
        self.session_id = session_id
        self.base = (*SHIPPED, *rules)
        self.granted: list[Rule] = []
        self.asked_for: list[PermissionRequest] = []
        self.replies: list[tuple[str, Answer, str | None, str]] = []
        self.remembered: list[tuple[tuple[Grant, ...] | None, Scope]] = []
        """Grants and scope of each reply."""
        self.everywhere: Callable[[], tuple[Rule, ...]] = tuple
        """Returns the rules granted for more than this session."""
        self.broken = False
        """Its log cannot be written."""

    @property
    def rules(self) -> RuleSet:
        return RuleSet(self.base, session=(*self.granted, *self.everywhere()))

    def asked(self, request: PermissionRequest) -> None:
        self.asked_for.append(request)

    def replied(self, request: PermissionRequest, settled: RequestResult) -> None:
        if self.broken:
            raise StoreError("The disk is full.")
        if settled.answer == "always" and settled.scope == "session":
            self.granted += [
                Rule(permission=grant.permission, pattern=grant.pattern, action="allow", source="session")
                for grant in (request.suggestions if settled.remembered is None else settled.remembered)
            ]
        self.replies.append((request.request_id, settled.answer, settled.feedback, settled.by))
        self.remembered.append((settled.remembered, settled.scope))


class Inbox:
    """The service, and questions under way."""

    def __init__(self, keeper: GrantStore | None = None) -> None:
        """``keeper``: None for one that can store nothing."""
        nowhere = Path(os.devnull, "grants.json")
        self.service = PermissionService(lambda: NOW, keeper or GrantStore(nowhere, nowhere, lambda: NOW))
        self.tasks: list[asyncio.Task[Approval]] = []

    async def ask(
        self,
        asker: FakeAsker,
        target: str,
        *suggestions: str,
        permission: str = "edit",
        accesses: tuple[Access, ...] = (),
        warnings: tuple[str, ...] = (),
        call: CallInfo | None = None,
    ) -> str:
        """Ask in the background; the id of the new request, empty when nobody is asked."""
        before = len(asker.asked_for)
        ask = PermissionAsk(
            permission,
            (target,),
            f"{permission} {target}",
            tuple(Suggestion(permission, pattern) for pattern in suggestions),
            accesses=accesses,
            warnings=warnings,
        )
        port = CallPermission(self.service, asker, call or CallInfo("c", "edit"))
        self.tasks.append(asyncio.create_task(port.ask(ask)))
        await until(lambda: len(asker.asked_for) > before or self.tasks[-1].done())
        return asker.asked_for[-1].request_id if len(asker.asked_for) > before else ""

    async def outcome(self, number: int) -> str:
        try:
            async with asyncio.timeout(20):
                await self.tasks[number]
        except PermissionDeniedError as denied:
            return f"denied: {denied.feedback}"
        return "allowed"
