"""Put together what a tool gets of its session for one call: the implementations of the ports in ``tools.tool``."""

from __future__ import annotations

import asyncio
import os
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from daemon.loop.skill_use import load_skill, readable_folders
from daemon.loop.tool_selection import offers
from daemon.model.messages import ToolCallPart
from daemon.permission.service import CallInfo, CallPermission
from daemon.plan.port import SessionPlan
from daemon.provider.call_ids import goal_of_step
from daemon.provider.model_calls import AGENT, WORKSPACE, ProviderError, answered, beside
from tools.errors import ToolError
from tools.ports import SessionPorts, SideAnswer, SideModel
from tools.redaction.redactor import SECRETS
from tools.tool import Plan, ToolContext

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from daemon.loop.session import Session
    from daemon.permission.service import Asker
    from tools.ports import Editors, SideMessage
    from tools.sandbox.policy import SandboxPolicy


class SessionFiles(Struct, frozen=True):
    """The port ``Files`` of tools: which version the model saw, and the editor's unsaved text.

    ``seen`` is the session's own record (see daemon.state.session_state.Given.files), shared and updated in place.
    """

    seen: dict[str, str]
    editors: Editors
    on_read: Callable[[Path], None] = lambda path: None

    def note_read(self, path: Path, sha256: str) -> None:
        self.seen[str(path)] = sha256
        self.on_read(path)

    def last_read(self, path: Path) -> str | None:
        return self.seen.get(str(path))


def call_permission(session: Session, call: ToolCallPart, asker: Asker | None = None) -> CallPermission:
    """Return the permission service for one call. ``asker``: by whose rules, if not the session's."""
    info = CallInfo(
        call.id,
        call.name,
        goal_id=goal_of_step(call.id) or session.state.plan.current_id,
        timeout_s=session.config.settings.approval.permission_timeout_s,
    )
    return CallPermission(session.services.permissions, asker or session, info)


def tool_context(session: Session, call: ToolCallPart, permission: CallPermission, plan: Plan) -> ToolContext:
    """Everything that ``call`` may use."""
    services, features, session_id = session.services, session.features, session.session_id
    return ToolContext(
        workspace=services.workspace,
        tool_call_id=call.id,
        permission=permission,
        files=SessionFiles(session.state.given.files, services.editors, services.watching.files.add),
        history=session.files.history,
        watch_command=session.files.history.watch_command,
        diagnostics=session.diagnostics,
        navigation=services.languages.navigation,
        plan=plan,
        scratch=services.store.folder(session_id) / "output",
        journal=services.folder.journal,
        on_output=lambda text: session.commands.wrote(call.id, call.name, text),
        redact=SECRETS.text,
        sandbox=sandbox_policy(session),
        branch=services.folder.branch,
        notify_user=session.record.notice_once,
        session=SessionPorts(
            jobs=session.commands.jobs,
            explore=partial(features.explore, session, call.id, permission),
            select=partial(features.select, session, call.id, permission),
            run_task=partial(features.run_task, session, call.id),
            hand_over=partial(features.hand_over, session, permission),
            load_skill=partial(load_skill, session.policy),
            side_model=SideModel(lambda: session.model, partial(_side_answer, session)),
            offers=partial(offers, session.policy),
        ),
    )


def explore_context(session: Session, call_id: str) -> ToolContext:
    """Return what a call of ``explore`` may use, for work that is done for it beside the tool."""
    call = ToolCallPart(id=call_id, name="explore", input="")
    plan = SessionPlan(session.state.plan, session.record.goal)
    return tool_context(session, call, call_permission(session, call), plan)


def sandbox_policy(session: Session) -> SandboxPolicy:
    """Return where commands of the session run."""
    settings = session.config.settings
    policy = settings.commands.sandbox_policy()
    if policy.kind == "off":
        return policy
    looks = session.mode == "plan" or session.policy.looks
    return replace(
        policy,
        kind="read-only" if looks else policy.kind,
        writable=tuple(
            Path(os.path.realpath(Path(folder).expanduser())) for folder in settings.commands.sandbox_writable
        ),
        hidden=(session.services.user_folder, Path.home() / ".goalwright"),
        readable=(*session.services.folder.readable, *readable_folders(session.policy)),
        kept=settings.commands.hook_files(session.services.workspace),
        copy_of=session.services.folder.branch.copy_of,
        always=looks,
    )


_SIDE_ANSWER_S = 120.0


async def _side_answer(
    session: Session, system: str, messages: Sequence[SideMessage], max_tokens: int
) -> SideAnswer:
    """Return an answer of the session's model, paid from its budget.

    The model sees nothing of the conversation and has no tools.
    """
    model, budget, services = session.model, session.budget, session.services
    if over := budget.run_over() or await budget.keep():
        raise ToolError(over)
    budget.count_step()
    request = beside(
        model.partition("/")[2],
        SECRETS.text(system),
        [(role, SECRETS.text(text)) for role, text in messages],
        max_tokens=max_tokens,
        env={**session.env, WORKSPACE: str(services.workspace), AGENT: "side_answer"},
    )
    started = time.monotonic()
    try:
        async with asyncio.timeout(_SIDE_ANSWER_S):
            complete = await answered(services.models.stream(model, request))
    except TimeoutError as error:
        raise ToolError(f"{model} did not answer within {_SIDE_ANSWER_S:g} s.") from error
    except ProviderError as error:
        raise ToolError(str(error)) from error
    # In the main session's totals at once, whoever asked: those of a child reach them in other ways.
    session.record.main.answered_beside(model, complete, started)
    budget.warn()
    return SideAnswer(complete.text, complete.model or model, cut=complete.stop_reason == "max_tokens")
