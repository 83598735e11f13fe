"""Requests about permissions (``goalwright/permission/…``) and background commands (``…/job/…``)."""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING

from daemon.model.events import PermissionForgotten
from daemon.model.permissions import Grant, Rule, StoredGrant
from daemon.permission.access_decision import insistence
from daemon.permission.explain import asked_about
from daemon.permission.layers import names_permission
from daemon.permission.modes import LOOKS
from daemon.trust import mode_in_force
from lsp_bridge.protocol import permissions as p
from lsp_bridge.protocol.handshake import ErrorCode, RequestError
from lsp_bridge.protocol.sessions import AnySessionParams, CanceledResult
from lsp_bridge.server.requests.declaration import RequestArea, request
from tools.localization import t
from tools.text.decoding import decode
from tools.tool import ProposedFile, ToolError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from daemon.loop.session import Session
    from tools.ports import Job


class PermissionRequests(RequestArea):
    """The requests of one connection about permission."""

    # -- waiting requests --

    @request("goalwright/permission/list", changes=False)
    async def list(self, params: AnySessionParams) -> p.PermissionListResult:
        """List the requests that wait for an answer, and the other clients that can answer them."""
        session_id = params.session_id
        return p.PermissionListResult(
            requests=tuple(self._core.permissions.pending(session_id)),
            attended_by=() if session_id is None else self._context.attended_by(session_id),
        )

    @request("goalwright/permission/content", changes=False)
    async def content(self, params: p.PermissionContentParams) -> p.PermissionContentResult:
        """Return both sides of a proposed change as text."""
        try:
            file = self._core.permissions.proposed(params.request_id, params.path)
        except KeyError as error:
            raise RequestError(
                t("This request is no longer open: it was answered or canceled."), ErrorCode.UNKNOWN_REQUEST
            ) from error
        if file is None:
            raise RequestError(
                t("The request does not touch {path}.", path=params.path), ErrorCode.UNKNOWN_REQUEST
            )
        return await asyncio.to_thread(_both_sides, file)

    @request("goalwright/permission/preview", changes=False, failed=ErrorCode.INVALID_PARAMS)
    async def preview(self, params: p.PermissionPreviewParams) -> p.PermissionPreviewResult:
        """Return the diffs of the user's version of a proposal."""
        try:
            files = await self._core.permissions.preview(params.request_id, params.files)
        except KeyError as error:
            raise RequestError(
                t("This request is no longer open: it was answered or canceled."), ErrorCode.UNKNOWN_REQUEST
            ) from error
        return p.PermissionPreviewResult(files=files)

    @request("goalwright/permission/reply", changes=False, failed=ErrorCode.INVALID_PARAMS)
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
                self._context.client_name,
                left,
                params.grants,
                params.scope,
                params.answers,
                params.unseen,
            )
        except KeyError as error:
            raise RequestError(
                t("This request is no longer open; it may have been canceled with its turn."),
                ErrorCode.UNKNOWN_REQUEST,
            ) from error
        return p.PermissionReplyResult(accepted=accepted, by=by)

    # -- rules in force --

    @request("goalwright/permission/rules", changes=False)
    async def rules(self, params: AnySessionParams) -> p.PermissionRulesResult:
        """List the grants, and all other rules, as the files are now; also those of the session and its agent."""
        self._core.configuration.forget()
        grants = self._core.grants.all()
        config, trust = self._context.client_config(), self._context.client_trust()
        if params.session_id is None:
            mode, agent = mode_in_force(config.settings.approval.mode, trust), ()
        else:
            session = await self._context.at_hand(params.session_id)
            mode = session.policy.mode_under(config, trust)
            # All of them, including those of the agents above that started this one.
            bounds = (rule for layer in session.policy.bounds for rule in _tightening(layer))
            looks = LOOKS.values() if session.policy.looks else ()
            every = (*session.policy.limits, *bounds, *session.services.folder.rules, *looks)
            agent = (*dict.fromkeys((*every, *map(insistence, sorted(session.policy.insists)))),)
            grants += _session_grants(session)
        local = config.workspace_rules
        return p.PermissionRulesResult(
            grants=tuple(grants),
            rules=(
                *map(_listed, config.base_rules),
                *(_listed(rule, idle=rule.action == "allow" and not config.trusted) for rule in local),
                *map(_listed, agent),
            ),
            mode=mode,
            trust=trust,
            problems=(*self._core.grants.problems(), *config.blocking, *config.problems),
        )

    @request("goalwright/permission/forget", changes=True)
    async def forget(self, params: p.PermissionForgetParams) -> p.PermissionForgetResult:
        """Take grants back; from the next question on they no longer count."""
        ids = frozenset(params.grant_ids)
        session = None if params.session_id is None else await self._core.session(params.session_id)
        # Forget those first that may fail, so that a failure leaves everything in place.
        forgotten = self._core.grants.forget(ids)
        if session is not None:
            own = tuple(grant for grant in _session_grants(session) if grant.grant_id in ids)
            if own:
                session.emit(
                    PermissionForgotten(
                        **session.record.here(),
                        grants=tuple(
                            Grant(permission=grant.permission, pattern=grant.pattern) for grant in own
                        ),
                        by=self._context.client_name,
                    )
                )
            forgotten += own
        return p.PermissionForgetResult(forgotten=forgotten)

    @request("goalwright/permission/explain", changes=False, failed=ErrorCode.INVALID_PARAMS)
    async def explain(self, params: p.PermissionExplainParams) -> p.PermissionExplainResult:
        """Return what the next prompt could do, by which rule of which file. Nobody is asked, nothing is run.

        The files are read again. Fails when the rules in them cannot be read, because then nothing may run.
        """
        self._context.check_rules()
        session = None if params.session_id is None else await self._context.at_hand(params.session_id)
        config, trust = self._context.client_config(), self._context.client_trust()
        rules = self._context.client_rules() if session is None else session.policy.rules_under(config, trust)
        policy = config.settings.commands.sandbox_policy()
        ask = await asyncio.to_thread(
            asked_about, params.permission, params.target, self._core.workspace, policy
        )
        verdict = rules.judge(ask)
        return p.PermissionExplainResult(
            action=verdict.action,
            reasons=verdict.reasons,
            warnings=ask.warnings,
            problems=(*self._core.grants.problems(), *config.problems),
        )

    # -- commands in the background --

    @request("goalwright/job/list", changes=False)
    async def jobs(self, params: AnySessionParams) -> p.JobListResult:
        """List the commands in the background, of one session or of all, oldest first."""
        if params.session_id is None:
            sessions = self._core.open_sessions
        else:
            sessions = [await self._core.session(params.session_id)]
        found = [_job(session, job) for session in sessions for job in session.commands.jobs.all()]
        return p.JobListResult(jobs=tuple(sorted(found, key=lambda job: job.started_at)))

    @request("goalwright/command/stop", changes=True)
    async def stop(self, params: p.CommandStopParams) -> CanceledResult:
        """Stop one command that the turn waits for; the turn continues."""
        session = await self._core.session(params.session_id)
        return CanceledResult(canceled=session.commands.under_way.stop(params.tool_call_id))

    @request("goalwright/job/kill", changes=True, failed=ErrorCode.UNKNOWN_REQUEST)
    async def kill(self, params: p.JobKillParams) -> p.JobResult:
        """Stop a command in the background with all its processes."""
        session = await self._core.session(params.session_id)
        job = await session.commands.stop_job(params.job_id, self._context.client_name)
        return p.JobResult(job=_job(session, job))


def _tightening(layer: Sequence[Rule]) -> Iterator[Rule]:
    """Yield the rules of a layer that only tightens, without those that allow something that it does not restrict."""
    strict: list[Rule] = []
    for rule in layer:
        if rule.action != "allow":
            strict.append(rule)
        if rule.action != "allow" or any(_overlap(rule, one) for one in strict):
            yield rule


def _overlap(one: Rule, other: Rule) -> bool:
    return names_permission(one, other.permission) or names_permission(other, one.permission)


def _listed(rule: Rule, *, idle: bool = False) -> p.ListedRule:
    return p.ListedRule.model_construct(**dict(rule), idle=idle)


def _session_grants(session: Session) -> list[StoredGrant]:
    return [
        StoredGrant(
            grant_id=_session_id(rule), permission=rule.permission, pattern=rule.pattern, scope="session"
        )
        for rule in dict.fromkeys(session.state.granted)
    ]


def _session_id(rule: Rule) -> str:
    """Return an id that is always the same for the same grant, because the log stores grants without ids."""
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
