"""The context that the requests of one connection share: the daemon, the client, and access to sessions.

It also knows who is there to answer a session's questions (``PermissionListResult.attended_by``). A script answers for
its own turns only, so that it does not decide what a user is being asked. But questions of a turn whose client has
gone, or whose daemon was killed, would wait forever: any client that is still there may answer those.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

from msgspec import Struct, field

from daemon.loop.policy import ClientSettings
from daemon.model.branches import root_of
from daemon.permission.rules import RuleSet
from daemon.provider.choose import ModelChoice, is_provider_variable
from daemon.provider.editor_models import EDITOR
from daemon.trust import mode_in_force
from lsp_bridge.protocol.handshake import ErrorCode, RequestError
from lsp_bridge.protocol.sessions import InitializationOptions, SessionInfo
from tools.localization import t
from tools.redaction.redactor import SECRETS

if TYPE_CHECKING:
    from daemon.api.lazy_server import LazyApiServer
    from daemon.config import Config
    from daemon.core import Daemon
    from daemon.loop.session import Session
    from daemon.model.permissions import Trust
    from daemon.model.traces import SessionStatus, Trace

ModelChooser = Callable[[dict[str, str], str | None], Awaitable[ModelChoice]]
"""Finds the model for a client's environment and the one that its settings name."""


class ClientState(Struct):
    """The state of one connection's client since ``initialize``."""

    options: InitializationOptions = field(default_factory=InitializationOptions)
    editor: str = ""
    """Its id among the editors with models; empty: it has none."""
    env: dict[str, str] = field(default_factory=dict[str, str])
    """The provider variables of its environment."""
    sees_all: bool = False
    """It is shown the questions of all sessions, as LSP editors are."""
    followed: set[str] = field(default_factory=set[str])
    """Main sessions that it has shown: it receives the questions of these, their branches and sub-agents with the
    events, or reports them when it shows another session."""
    turns: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """The turns that it began or resumed: session, and id of the prompt."""
    attaching: dict[tuple[str, str], asyncio.Task[object]] = field(
        default_factory=dict[tuple[str, str], asyncio.Task[object]]
    )
    """By session and id: the prompts that are in no queue yet, because their attachments are being read."""

    def __repr__(self) -> str:
        return f"ClientState({self.editor!r})"  # ``env`` has keys

    def answers(self, session_id: str, turn: str | None) -> bool:
        """Return whether it can answer the questions of ``turn`` (the id of its prompt) of a session."""
        if turn is not None and (session_id, turn) in self.turns:
            return True
        return not self.options.unattended and (self.sees_all or session_id in self.followed)


class RequestContext(Struct):
    """The context of one connection."""

    core: Daemon
    client: ClientState
    api: LazyApiServer
    choose: ModelChooser
    subscribe: Callable[[Session], None]
    """Send this client what happens in a session."""
    unsubscribe: Callable[[str], None]
    """Send it no more of the session with this id."""
    stop: Callable[[], None]
    """End the daemon."""
    version: str
    clients: Callable[[], Iterable[ClientState]] = lambda: ()
    """Those of all connections."""
    _config: tuple[Config, Config] | None = None
    """The files' configuration, and over it this client's settings."""

    @property
    def client_name(self) -> str:
        """Name of the client, as the author of its actions."""
        return self.client.options.client

    # -- settings of this client --

    def client_config(self) -> Config:
        """Return the files' configuration, and over it this client's settings."""
        files = self.core.config(self.client_trust() == "trusted")
        if self._config is None or self._config[0] is not files:
            # Keep the object, because rules are compiled once per object.
            self._config = files, files.overlaid(self.client.options.settings, "editor", self.client_name)
        return self._config[1]

    def client_trust(self) -> Trust:
        """Return the trust in the folder, as the editor states it; without its statement, as in the user's list."""
        if self.client.options.trusted is None:
            return self.core.trust()
        return "trusted" if self.client.options.trusted else "restricted"

    def client_rules(self) -> RuleSet:
        """Return the rules of a session of this client in which nothing was granted."""
        config, trust = self.client_config(), self.client_trust()
        granted, granted_here = self.core.grants.rules()
        return RuleSet(
            config.base_rules,
            config.workspace_rules,
            trusted=config.trusted,
            granted=granted,
            granted_here=granted_here,
            mode=mode_in_force(config.settings.approval.mode, trust),
            trust=trust,
            root=self.core.workspace.as_posix(),
        )

    def attended_by(self, session_id: str) -> tuple[str, ...]:
        """Return the names of the other clients that can answer a session's questions."""
        root = root_of(session_id)
        main = self.core.live(root)
        turn = None if main is None else main.state.turn
        others = (other for other in self.clients() if other is not self.client)
        return tuple(dict.fromkeys(one.options.client for one in others if one.answers(root, turn)))

    def check_rules(self) -> None:
        """Raises RequestError when nothing may be done because the configuration cannot be read."""
        self.core.configuration.forget()
        if blocking := self.client_config().blocking:
            # Without its rules a configuration would allow what the user forbade.
            raise RequestError(
                t("Nothing is done until this is fixed: ") + "; ".join(blocking), ErrorCode.CONFIG_BROKEN
            )

    def provider_env(self) -> dict[str, str]:
        """Return the daemon's own provider variables, and over them the client's."""
        own = {name: value for name, value in os.environ.items() if is_provider_variable(name)}
        env = {**own, **self.client.env}
        SECRETS.register_env(env)
        return {**env, EDITOR: self.client.editor} if self.client.editor else env

    async def choice(self) -> ModelChoice:
        """Return the model of this client."""
        return await self.choose(self.provider_env(), self.client_config().settings.model.model)

    # -- opening a session --

    async def at_hand(self, session_id: str) -> Session:
        """Return the session; at rest, with this client's settings and keys. Raises UnknownTraceError, StoreError."""
        choice = await self.choice()
        session = await self.core.session(session_id)
        self.adopt(session, choice)
        return session

    def adopt(self, session: Session, choice: ModelChoice) -> ClientSettings:
        """Have a session at rest work with this client's settings, trust and keys from now on. A turn under way keeps
        those that it began with, and is only restricted.

        Returns them, for prompts that wait.
        """
        settings = ClientSettings(
            config=self.client_config(),
            trust=self.client_trust(),
            env=self.provider_env(),
            unattended=self.client.options.unattended,
            default_model=choice.model,
        )
        if session.running:
            self.restrict(session)
        else:
            session.policy.use(settings)
        self.core.outlets.dump(session, settings.config)
        return settings

    def restrict(self, session: Session) -> None:
        """Restrict a session at once where the folder is no longer trusted, whoever started its work."""
        if self.client_trust() == "restricted" and session.trust != "restricted":
            session.restrict(self.client_config())

    # -- a session as this client sees it --

    async def info(self, session: Session) -> SessionInfo:
        """Return the session with the model of this client."""
        return self.session_info(session, await self.choice())

    def session_info(self, session: Session, choice: ModelChoice) -> SessionInfo:
        """Return a session that is open."""
        return self._described(session.state.trace, session.status, choice, session.foreign)

    def trace_info(self, trace: Trace, choice: ModelChoice) -> SessionInfo:
        """Return a session that may be open."""
        session = self.core.live(trace.trace_id)
        if session is not None:
            return self.session_info(session, choice)
        foreign = self.core.is_foreign(trace.trace_id)
        if foreign:
            trace = trace.model_copy(update={"model": None, "mode": None})
        return self._described(trace, "idle", choice, foreign)

    def model_of(self, trace: Trace, choice: ModelChoice) -> str:
        """Return the model of a session under this client's settings, as ``Session.model`` would."""
        return trace.model or self.client_config().settings.model.models.get(trace.agent) or choice.model

    def _described(
        self, trace: Trace, status: SessionStatus, choice: ModelChoice, foreign: bool
    ) -> SessionInfo:
        model = self.model_of(trace, choice)
        trust = self.client_trust()
        return SessionInfo(
            trace=trace,
            status=status,
            model=model,
            demo=model.startswith("demo/"),
            foreign=foreign,
            mode=mode_in_force(trace.mode or self.client_config().settings.approval.mode, trust),
            trust=trust,
        )
