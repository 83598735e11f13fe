"""Runs command lines as the product does: its configuration, rules, sandbox, environment and tool, no user.

``opened`` starts the daemon's core over a folder with a home of its own and begins one session; each ``bash`` call goes
through a whole turn of it. Every question is refused, as when nobody is there.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from daemon.core import Daemon
from daemon.loop.session import Session
from daemon.model.permissions import Mode
from daemon.provider.model_calls import ModelRequest, ProviderEvent
from tests.support.fakes.models import Call, FakeModels
from tests.support.fakes.tool_context import FakeDiagnostics

NOBODY = "Nobody is there to answer."
Outcome = Literal["asked", "denied", "done"]


@dataclass(frozen=True, slots=True)
class Answer:
    """The outcome of one command line. ``rule``: the rule that asked, else empty."""

    outcome: Outcome
    ok: bool
    message: str
    """The text that the model receives."""
    rule: str = ""


class _OneCall(FakeModels):
    """A model that makes the call it is given and ends its turn."""

    def __init__(self) -> None:
        super().__init__(price=None)
        self.call: Call | None = None

    async def stream(self, model: str, request: ModelRequest) -> AsyncGenerator[ProviderEvent, None]:
        call, self.call = self.call, None
        self.then(call if call is not None else "Done.")
        async for event in super().stream(model, request):
            yield event


class ProductShell:
    """A session of the product that commands are given to, one after the other."""

    def __init__(self, core: Daemon, session: Session, models: _OneCall) -> None:
        self._core = core
        self._session = session
        self._models = models

    async def bash(self, arguments: Mapping[str, Any]) -> Answer:
        """Play a turn in which the model makes this call."""
        self._models.call = Call("bash", dict(arguments))
        asked: list[str] = []
        permissions = self._core.permissions

        def refuse() -> None:
            for request in permissions.pending():
                asked.append(f"{request.rule.permission}: {request.rule.pattern} ({request.rule.source})")
                permissions.reply(request.request_id, "reject", NOBODY, "test")

        # The watcher is told while the question is being put; it is answered when that is done.
        loop = asyncio.get_running_loop()

        def told() -> None:
            loop.call_soon(refuse)

        permissions.watch(told)
        try:
            await self._session.prompt("go")
        finally:
            permissions.unwatch(told)
        result = next(m for m in reversed(self._session.state.messages) if m.role == "tool").tool_result()
        assert result is not None
        denied = result.metadata.get("denied") is True
        outcome: Outcome = "asked" if asked else "denied" if denied else "done"
        return Answer(outcome, not result.is_error and not asked, result.content, asked[-1] if asked else "")


@asynccontextmanager
async def opened(
    workspace: Path,
    home: Path,
    config: Mapping[str, Any] | None = None,
    mode: Mode | None = None,
    *,
    trusted: bool = False,
) -> AsyncGenerator[ProductShell]:
    """A session over ``workspace`` for a user whose home folder is ``home``.

    ``config`` is written as the user's ``config.json``; without it the one that is there counts. ``trusted``: the user
    trusts the folder; else the list of trusted folders in the home decides. The environment's HOME is another one
    meanwhile, so only one can be open at a time.
    """
    state = home / ".goalwright"
    state.mkdir(parents=True, exist_ok=True)
    if config is not None:
        (state / "config.json").write_text(json.dumps(config), "utf-8")
    with _home(home):
        models = _OneCall()
        core = Daemon(workspace, diagnostics=FakeDiagnostics(), models=models, state_folder=state)
        try:
            if trusted:
                core.configuration.trusted.add(core.workspace)
            session = core.new_session(model="fake/model", mode=mode)
            yield ProductShell(core, session, models)
        finally:
            await core.close()


@contextmanager
def _home(folder: Path) -> Generator[None]:
    kept = {name: os.environ.pop(name, None) for name in ("HOME", "GOALWRIGHT_HOME")}
    os.environ["HOME"] = str(folder)
    try:
        yield
    finally:
        for name, value in kept.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
