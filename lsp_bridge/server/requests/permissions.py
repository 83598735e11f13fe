"""What a client does about permission (``goalwright/permission/…``) and commands in the background (``…/job/…``)."""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING, Any, Protocol

from daemon.model.events import PermissionForgotten
from daemon.model.permissions import Grant, Rule, StoredGrant, Trust
from daemon.permission.explain import asked_about
from daemon.permission.judging import insistence
from daemon.permission.modes import LOOKS
from daemon.permission.rules import RuleSet
from daemon.trust import mode_in_force
from lsp_bridge.protocol import methods as p
from lsp_bridge.protocol.handshake import RequestError
from tools.base import ProposedFile, ToolError
from tools.localization import t
from tools.text.decoding import decode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from daemon.config import Config
    from daemon.core import Daemon
    from daemon.loop.session import Session
    from daemon.model.base import Model
    from tools.ports import Job


class ThisClient(Protocol):
    """What the requests of a connection know of its client."""

    @property
    def client_name(self) -> str:
        """Who is said to have done it."""
        ...

    async def at_hand(self, session_id: str) -> Session:
        """See Hands."""
        ...

    def attended_by(self, session_id: str) -> tuple[str, ...]:
        """Names of the other clients who are there to answer what a session asks."""
        ...

    def client_config(self) -> Config:
        """The configuration with this client's settings."""
        ...

    def client_trust(self) -> Trust:
        """Of the workspace's folder, as this client sees it."""
        ...


def client_rules(core: Daemon, client: ThisClient) -> RuleSet:
    """The rules of a client's session that nothing was granted in."""
    config, trust = client.client_config(), client.client_trust()
    granted, granted_here = core.grants.rules()
    return RuleSet(
        config.base_rules,
        config.workspace_rules,
        trusted=config.trusted,
        granted=granted,
        granted_here=granted_here,
        mode=mode_in_force(config.settings.mode, trust),
        trust=trust,
        root=core.workspace.as_posix(),
    )


class PermissionRequests:
    """The requests of one connection about permission."""

    def __init__(self, core: Daemon, client: ThisClient) -> None:
        self._core = core
        self._client = client
        self.handlers: Mapping[str, Callable[[Any], Awaitable[Model]]] = {
            "goalwright/permission/list": self.list,
            "goalwright/permission/content": self.content,
            "goalwright/permission/preview": self.preview,
            "goalwright/permission/reply": self.reply,
            "goalwright/permission/rules": self.rules,
            "goalwright/permission/forget": self.forget,
            "goalwright/permission/explain": self.explain,
            "goalwright/job/list": self.jobs,
            "goalwright/job/kill": self.kill,
            "goalwright/command/stop": self.stop,
        }

    # -- what waits --

    async def list(self, params: p.PermissionListParams) -> p.PermissionListResult:
        """What waits for an answer."""
        session_id = params.session_id
        return p.PermissionListResult(
            requests=tuple(self._core.permissions.pending(session_id)),
            attended_by=() if session_id is None else self._client.attended_by(session_id),
        )

    async def content(self, params: p.PermissionContentParams) -> p.PermissionContentResult:
        """Both sides of a proposed change as text."""
        try:
            file = self._core.permissions.proposed(params.request_id, params.path)
        except KeyError as error:
            raise RequestError(
                p.UNKNOWN_REQUEST, t("There is no such request waiting: it was answered or canceled.")
            ) from error
        if file is None:
            raise RequestError(p.UNKNOWN_REQUEST, t("The request does not touch {path}.", path=params.path))
        return await asyncio.to_thread(_both_sides, file)

    async def preview(self, params: p.PermissionPreviewParams) -> p.PermissionPreviewResult:
        """Return the diffs of what the user has made of a proposal."""
        try:
            files = await self._core.permissions.preview(params.request_id, params.files)
        except KeyError as error:
            raise RequestError(
                p.UNKNOWN_REQUEST, t("There is no such request waiting: it was answered or canceled.")
            ) from error
        except ToolError as error:
            raise RequestError(p.INVALID_PARAMS, str(error)) from error
        return p.PermissionPreviewResult(files=files)

    async def reply(self, params: p.PermissionReplyParams) -> p.PermissionReplyResult:
        """Answer a request; the first answer wins."""
        feedback = (params.feedback or "").strip() or None
        permissions = self._core.permissions
        try:
            left = (
                await permissions.left(params.request_id, params.files) if params.reply != "reject" else None
            )
            accepted, by = permissions.reply(
                params.request_id,
                params.reply,
                feedback,
                self._client.client_name,
                left,
                params.grants,
                params.scope,
                params.answers,
            )
        except ToolError as error:
            # The request still waits: what the person chose or wrote can be put right.
            raise RequestError(p.INVALID_PARAMS, str(error)) from error
        except KeyError as error:
            raise RequestError(
                p.UNKNOWN_REQUEST, t("There is no such request; it may have been canceled with its turn.")
            ) from error
        return p.PermissionReplyResult(accepted=accepted, by=by)

    # -- what holds --

    async def rules(self, params: p.PermissionRulesParams) -> p.PermissionRulesResult:
        """What the person granted, and all other rules."""
        grants = self._core.grants.all()
        if params.session_id is None:
            config, trust = self._client.client_config(), self._client.client_trust()
            mode, agent = mode_in_force(config.settings.mode, trust), ()
        else:
            session = await self._client.at_hand(params.session_id)
            config, trust, mode = session.config, session.trust, session.mode
            # All of them, also those of the agents above that sent this one.
            bounds = (rule for layer in session.policy.bounds for rule in layer)
            looks = LOOKS.values() if session.policy.looks else ()
            every = (*session.policy.limits, *bounds, *session.services.rules, *looks)
            agent = (*dict.fromkeys((*every, *map(insistence, sorted(session.policy.insists)))),)
            grants += _session_grants(session)
        return p.PermissionRulesResult(
            grants=tuple(grants),
            rules=(*config.base_rules, *config.workspace_rules, *agent),
            mode=mode,
            trust=trust,
            problems=(*self._core.grants.problems(), *config.blocking, *config.problems),
        )

    async def forget(self, params: p.PermissionForgetParams) -> p.PermissionForgetResult:
        """Take grants back; from the next question on they count no more."""
        ids = frozenset(params.grant_ids)
        session = None if params.session_id is None else await self._core.session(params.session_id)
        # First those that may fail: then nothing at all is forgotten.
        forgotten = self._core.grants.forget(ids)
        if session is not None:
            own = tuple(grant for grant in _session_grants(session) if grant.grant_id in ids)
            if own:
                session.emit(
                    PermissionForgotten(
                        trace_id=session.session_id,
                        time=self._core.now(),
                        grants=tuple(
                            Grant(permission=grant.permission, pattern=grant.pattern) for grant in own
                        ),
                        by=self._client.client_name,
                    )
                )
            forgotten += own
        return p.PermissionForgetResult(forgotten=forgotten)

    async def explain(self, params: p.PermissionExplainParams) -> p.PermissionExplainResult:
        """What would happen, by which rule of which file. Nobody is asked, nothing is run."""
        session = None if params.session_id is None else await self._client.at_hand(params.session_id)
        config = self._client.client_config() if session is None else session.config
        rules = client_rules(self._core, self._client) if session is None else session.rules
        policy = config.settings.sandbox_policy()
        try:
            ask = await asyncio.to_thread(
                asked_about, params.permission, params.target, self._core.workspace, policy
            )
        except ToolError as error:
            raise RequestError(p.INVALID_PARAMS, str(error)) from error
        verdict = rules.judge(ask)
        return p.PermissionExplainResult(
            action=verdict.action, reasons=verdict.reasons, warnings=ask.warnings
        )

    # -- commands in the background --

    async def jobs(self, params: p.PermissionListParams) -> p.JobListResult:
        """Commands in the background, of one session or of all, oldest first."""
        if params.session_id is None:
            sessions = self._core.open_sessions
        else:
            sessions = [await self._core.session(params.session_id)]
        found = [_job(session, job) for session in sessions for job in session.commands.jobs.all()]
        return p.JobListResult(jobs=tuple(sorted(found, key=lambda job: job.started_at)))

    async def stop(self, params: p.CommandStopParams) -> p.CanceledResult:
        """Stop one command; the turn goes on."""
        session = await self._core.session(params.session_id)
        return p.CanceledResult(canceled=session.commands.under_way.stop(params.tool_call_id))

    async def kill(self, params: p.JobKillParams) -> p.JobResult:
        """Stop one with all its processes."""
        session = await self._core.session(params.session_id)
        try:
            return p.JobResult(
                job=_job(session, await session.commands.stop_job(params.job_id, self._client.client_name))
            )
        except ToolError as error:
            raise RequestError(p.UNKNOWN_REQUEST, str(error)) from error


def _session_grants(session: Session) -> list[StoredGrant]:
    return [
        StoredGrant(
            grant_id=_session_id(rule), permission=rule.permission, pattern=rule.pattern, scope="session"
        )
        for rule in dict.fromkeys(session.state.granted)
    ]


def _session_id(rule: Rule) -> str:
    """The log keeps grants without ids: one that is always the same for the same grant."""
    key = f"{rule.permission}\0{rule.pattern}".encode("utf-8", "surrogatepass")
    return f"session_{hashlib.sha256(key).hexdigest()[:12]}"


def _job(session: Session, job: Job) -> p.JobInfo:
    return p.JobInfo(
        job_id=job.job_id,
        session_id=session.session_id,
        command=job.command,
        started_at=job.started_at,
        exit_code=job.exit_code,
        output_file=None if job.output_file is None else str(job.output_file),
    )


def _both_sides(file: ProposedFile) -> p.PermissionContentResult:
    base, after = file.base, file.change.after
    try:
        old = None if base is None else decode(base)
        new = None if after is None else decode(after, None if old is None else old.codec)
    except ToolError:
        return p.PermissionContentResult(before=None, after=None, binary=True)
    return p.PermissionContentResult(
        before=None if old is None else old.text, after=None if new is None else new.text
    )
