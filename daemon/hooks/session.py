"""The hooks of one session: when they run, their inputs, and the effects of their answers.

Hooks can only make things stricter. Arguments that a hook changes are validated and checked by the rules like any
others, and no answer of a hook answers a question to the user.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import deque
from typing import TYPE_CHECKING, Any

from daemon.hooks.answer import HookAnswer, HookError, concerns, may_deny, only_watches
from daemon.hooks.executable import HookExecutable
from daemon.hooks.python import Hooks, PythonHook
from daemon.loop.features import HookResult
from daemon.loop.record import TurnSuspended
from daemon.model import notice_codes
from daemon.model.events import Event, GoalUpdated, PermissionAsked
from daemon.model.tags import within
from daemon.store.trace_store import StoreError
from tools.localization import t
from tools.text.truncate import one_line
from tools.tool import PermissionDeniedError, ToolResult

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence

    from daemon.loop.session import Session
    from daemon.model.messages import ToolCallPart
    from daemon.model.permissions import PermissionRequest
    from daemon.model.traces import QueuedPrompt
    from daemon.settings import HookName

log = logging.getLogger(__name__)

MAX_WAITING = 256
"""Most pending calls of hooks; more are dropped."""
DRAIN_S = 2.0
"""How long the end of a session waits for that."""
TAG = "hook_context"
"""Tag around text of hooks for the model, see daemon.model.tags."""
_IN_CHILDREN = frozenset({"prompt.system", "tool.execute.before", "tool.execute.after", "compaction.before"})
"""Hooks that also run for branches and sub-agents: those about the model's requests and calls of tools. The others
concern the user's own session, which has the prompts and shows its children's questions, too."""
_MAX_SHOWN = 2_000
"""Characters of changed arguments that the model is shown."""


class HookRunner:
    """Implements ``daemon.loop.features.SessionHooks``. Made with the session, whether there are hooks or not."""

    def __init__(self, session: Session, service: Hooks) -> None:
        self._session = session
        self._service = service
        self._waiting: deque[tuple[HookName, dict[str, Any]]] = deque()
        self._watching: asyncio.Task[None] | None = None
        self._told: set[tuple[str, ...]] = set()
        self._ready = False
        self._closed = False
        self._dropped = 0
        self._added: tuple[dict[str, str], str] | None = None
        """Text that hooks add to the system prompt, and the request it was made for."""
        self.begun = False
        self.under_check: tuple[QueuedPrompt, ...] = ()

    # -- available hooks --

    async def learn(self) -> None:
        """Look for functions, and report problems with names, before any hook runs."""
        await self._service.learn()
        self._ready = True
        for problem in self._service.found.problems:
            self._notice_once(problem, (problem,))

    def wants(self, name: HookName) -> bool:
        return bool(self._hooks(name))

    def _has(self, name: HookName) -> bool:
        """Return whether this session has such moments at all."""
        return self._session.parent is None or name in _IN_CHILDREN

    def around(self, tool: str) -> bool:
        return bool(self._hooks("tool.execute.before", tool) or self._hooks("tool.execute.after", tool))

    def _hooks(self, name: HookName, tool: str | None = None) -> list[HookExecutable | PythonHook]:
        """Return all for one moment, in order: functions, then programs."""
        if not self._has(name):
            return []
        session, services = self._session, self._session.services
        functions = self._service.found.entries.get(name, ())
        hooks: list[HookExecutable | PythonHook] = [PythonHook(entry, self._service) for entry in functions]
        trusted, copy_of = session.trust == "trusted", services.folder.branch.copy_of
        programs = session.config.settings.commands.hooks.get(name, ())
        hooks += [HookExecutable(hook, services.workspace, trusted, copy_of) for hook in programs]
        return [hook for hook in hooks if tool is None or concerns(hook.tools, tool)]

    # -- hooks that are awaited --

    async def submitted(self, prompt: QueuedPrompt) -> HookResult:
        names = [file.name for file in prompt.attachments]
        payload = {"prompt_id": prompt.prompt_id, "prompt": prompt.text, "attachments": names}
        if not self.under_check:
            self.under_check = (prompt,)
        try:
            said = await self._ask("prompt.submit", payload)
        finally:
            self.under_check = ()
        if said.refusal:
            # The user sees the reason, wherever the prompt came from.
            self._session.notice("warning", said.refusal, notice_codes.HOOK)
        return said

    async def passing(self, prompts: Sequence[QueuedPrompt]) -> AsyncGenerator[tuple[QueuedPrompt, str]]:
        for at, prompt in enumerate(prompts):
            self.under_check = tuple(prompts[at:])
            said = await self.submitted(prompt)
            if said.refusal:
                self._session.refused(prompt.prompt_id, said.refusal)
            else:
                yield prompt, said.context
            self.under_check = tuple(prompts[at + 1 :])
            self._session.queue_stored()  # it is part of the conversation now: a crash must not send it again

    async def prompting(self) -> str:
        """Return what hooks add to the system prompt, in tags; empty for nothing.

        They are asked once for an agent and a model, because another answer would void the provider's cache.
        """
        await self.learn()
        if not self.wants("prompt.system"):
            return ""
        asked_for = {"agent": self._session.agent.name, "model": self._session.model}
        if self._added is None or self._added[0] != asked_for:
            said = await self._ask("prompt.system", dict(asked_for))
            self._added = (asked_for, said.context)
        return self._added[1]

    async def compacting(self, reason: str, tokens: int, instructions: str) -> str:
        await self.learn()
        payload = {"reason": reason, "tokens": tokens, "instructions": instructions}
        return (await self._ask("compaction.before", payload)).context

    async def run_tool(
        self, call: ToolCallPart, run: Callable[[ToolCallPart], Awaitable[ToolResult]]
    ) -> ToolResult:
        try:
            arguments = call.arguments()
        except ValueError:
            return await run(call)  # the tool reports invalid arguments
        told = {"tool": call.name, "tool_call_id": call.id, "arguments": arguments}
        said = await self._ask("tool.execute.before", told, call.name)
        if said.refusal:
            return ToolResult(
                f"Permission denied. {said.refusal}",
                title=t("rejected"),
                metadata={"denied": True, "hook": {"denied_by": said.by}},
                is_error=True,
            )
        if said.changes:
            arguments = _changed(arguments, said.changes)
            call = call.model_copy(update={"input": json.dumps(arguments)})
        result = await self._run_changed(call, said, run)
        outcome = {
            "content": result.content,
            "title": result.title,
            "is_error": result.is_error,
            "metadata": dict(result.metadata),
        }
        self.watch("tool.execute.after", {**told, "arguments": arguments, "result": outcome})
        return _with(result, said)

    async def _run_changed(
        self, call: ToolCallPart, said: HookResult, run: Callable[[ToolCallPart], Awaitable[ToolResult]]
    ) -> ToolResult:
        try:
            return await run(call)
        except (PermissionDeniedError, asyncio.CancelledError) as error:
            if said.changes:
                # No result could report the changes.
                words = _in_words(said.changes)
                self._session.notice("info", f"{call.name}: {words}", notice_codes.HOOK)
                if isinstance(error, PermissionDeniedError) and error.by_rule:
                    raise PermissionDeniedError(
                        f"{error.reason} {words}", error.feedback, by_rule=True, metadata=error.metadata
                    ) from error
            raise

    async def _ask(self, name: HookName, payload: dict[str, Any], tool: str | None = None) -> HookResult:
        """Ask the hooks in order; each gets the arguments as the previous ones left them."""
        contexts: list[str] = []
        changes: list[dict[str, Any]] = []
        full = self._payload(name, payload)
        for hook in self._hooks(name, tool):
            label = hook.label
            answer = await self._answer(hook, name, full)
            if answer is None:
                if hook.denies_on_failure and may_deny(name):
                    text = t("The hook {label} failed, and its approval is required.", label=label)
                    return HookResult(text, label)
                continue
            if answer.denied:
                text = t("The hook {label} denied this: {reason}", label=label, reason=answer.reason)
                return HookResult(text, label)
            if answer.context:
                contexts.append(f"The hook {label} says:\n{answer.context}")
            if answer.arguments is not None and (change := _change(full["arguments"], answer.arguments)):
                changes.append({"by": label, **change})
                full = {**full, "arguments": answer.arguments}
        context = within(TAG, "\n\n".join(contexts)) if contexts else ""
        return HookResult(context=context, changes=tuple(changes))

    async def _answer(
        self, hook: HookExecutable | PythonHook, name: HookName, payload: Mapping[str, Any]
    ) -> HookAnswer | None:
        """Return a hook's answer; None: it failed, and the user was notified."""
        try:
            return await hook.ask(name, payload)
        except HookError as failed:
            log.warning("hook %s (%s) %s", hook.label, name, failed)
            then = "" if only_watches(name) else t(" Goalwright continued without it.")
            if hook.denies_on_failure and may_deny(name):
                then = t(" Its approval is required, so the action was denied.")
            text = t(
                "The hook {label} ({name}) {failed}.{then}",
                label=hook.label,
                name=name,
                failed=failed,
                then=then,
            )
            self._notice_once(text, (hook.label, name, failed.kind))
            return None

    # -- hooks that only observe --

    async def begin(self) -> None:
        self.begun = True
        await self.learn()
        trace = self._session.state.trace
        source = "resumed" if self._session.state.messages else "new"
        self.watch("session.start", {"source": source, "agent": trace.agent, "model": self._session.model})

    def seen(self, event: Event) -> None:
        if isinstance(event, PermissionAsked):
            self.watch("permission.asked", _asked(event.request))
        elif isinstance(event, GoalUpdated):
            done = [event.goal_id] if event.updates.get("status") == "completed" else []
            done += [other.goal_id for other in event.affected_goals if other.status == "completed"]
            for goal_id in done:
                goal = self._session.state.plan.goals[goal_id]
                said = {"id": goal.id, "description": goal.description, "summary": goal.summary or ""}
                self.watch("goal.completed", {"goal_id": goal.id, "goal": said, "by": event.by})

    def watch(self, name: HookName, payload: dict[str, Any]) -> None:
        """Notify hooks as soon as they are ready; nothing waits for them."""
        if self._closed or not self._has(name) or (self._ready and not self.wants(name)):
            return
        if len(self._waiting) >= MAX_WAITING:
            self._dropped += 1
            text = t("The hooks are too slow: {name} and others miss some events.", name=name)
            self._notice_once(text, ("dropped",))
            return
        self._waiting.append((name, self._payload(name, payload)))
        if self._watching is None or self._watching.done():
            name_of_task = f"hooks of {self._session.session_id}"
            self._watching = asyncio.create_task(self._tell_watchers(), name=name_of_task)

    async def _tell_watchers(self) -> None:
        await self.learn()
        while self._waiting:
            name, payload = self._waiting.popleft()
            tool = payload["tool"] if name == "tool.execute.after" else None
            for hook in self._hooks(name, tool):
                try:
                    await self._answer(hook, name, payload)
                except Exception:
                    # A failure must not keep the next hook from running.
                    log.exception("hook %s (%s)", hook.label, name)

    async def close(self) -> None:
        """Tell of the session's end, and end what still runs after a moment."""
        if self.begun:
            self.watch("session.end", {})
        self._closed = True
        if self._watching is None:
            return
        await asyncio.wait({self._watching}, timeout=DRAIN_S)
        if not self._watching.done():
            log.warning("hooks were not told of %d moments", self._dropped + len(self._waiting))
            self._watching.cancel()
            await asyncio.wait({self._watching})

    # -- internals --

    def _payload(self, name: HookName, payload: dict[str, Any]) -> dict[str, Any]:
        session = self._session
        general = {
            "hook": name,
            "session_id": session.session_id,
            "workspace": str(session.services.workspace),
            "goal_id": session.state.plan.current_id,
        }
        return general | payload

    def _notice_once(self, text: str, about: tuple[str, ...]) -> None:
        if about in self._told:
            return
        self._told.add(about)
        try:
            self._session.notice("warning", text, notice_codes.HOOK)
        except (StoreError, TurnSuspended) as error:  # TurnSuspended: the session waits, and is being closed
            log.warning("the notice %r is not in the log: %s", text, error)


def _asked(request: PermissionRequest) -> dict[str, Any]:
    return {
        "request_id": request.request_id,
        "permission": request.permission,
        "targets": list(request.targets),
        "title": request.title,
        "tool": request.tool,
        "tool_call_id": request.tool_call_id,
        **({"branch_id": request.branch_id} if request.branch_id else {}),
    }


def _change(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changes of arguments; empty when there are none."""
    given = {key: value for key, value in after.items() if key not in before or before[key] != value}
    removed = [key for key in before if key not in after]
    return {"set": given, "removed": removed} if given or removed else {}


def _changed(arguments: Mapping[str, Any], changes: tuple[dict[str, Any], ...]) -> dict[str, Any]:
    result = dict(arguments)
    for change in changes:
        result = {key: value for key, value in result.items() if key not in change["removed"]} | change["set"]
    return result


def _in_words(changes: tuple[dict[str, Any], ...]) -> str:
    words: list[str] = []
    for change in changes:
        parts = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in change["set"].items()]
        parts += [t("without {key}", key=key) for key in change["removed"]]
        shown = one_line(", ".join(parts), _MAX_SHOWN)
        words.append(
            t("The hook {by} changed the arguments of the call: {shown}.", by=change["by"], shown=shown)
        )
    return " ".join(words)


def _with(result: ToolResult, said: HookResult) -> ToolResult:
    """Return the result, with a note on the effects of hooks."""
    content, metadata = result.content, dict(result.metadata)
    if said.changes:
        metadata["hook"] = {"changed": list(said.changes)}
        content += f"\n\n{within(TAG, _in_words(said.changes))}"
    if said.context:
        content += f"\n\n{said.context}"
    return ToolResult(content, result.title, metadata, result.is_error, result.images)
