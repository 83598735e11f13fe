"""Build the next request to the model.

The turn sends it, a compaction measures it and sends it with a question of its own, and ``goalwright context`` shows
it: all three use the same request.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from daemon.context.check_command import find_test_command
from daemon.context.profiles import CACHE_LASTS_S, PRUNE_MINIMUM, ContextProfile, answer_tokens, profile_for
from daemon.context.project_map import project_map
from daemon.context.prompt import Environment, Layer, mode_text, prompt_layers, system_blocks
from daemon.context.tokens import estimate_tokens, tool_tokens
from daemon.context.window import Window, WindowCache, WindowMessage, build_window
from daemon.loop.skill_use import listed, may_be_shown
from daemon.loop.tool_selection import sent_tools
from daemon.model.events import ContextMarked, Marks
from daemon.model.messages import Usage, subtracted
from daemon.model.meters import GoalMeter, Meter, Metered
from daemon.permission.matching import fold, is_outside
from daemon.permission.protected import OWN_STATE, protected
from daemon.plan.text import plan_to_prompt
from daemon.provider.memo import Latest, Tally
from daemon.provider.model_calls import (
    AGENT,
    BRANCH,
    WORKSPACE,
    ModelRequest,
    PromptMessage,
    SystemBlock,
    ToolSpec,
)
from daemon.provider.pricing import UNKNOWN, model_info
from tools.tool_names import MCP_SEARCH

if TYPE_CHECKING:
    from collections.abc import Sequence

    from daemon.loop.budget import SessionBudget
    from daemon.loop.features import SessionHooks
    from daemon.loop.policy import Policy
    from daemon.loop.record import SessionRecord
    from daemon.permission.rules import RuleSet
    from daemon.plan.tree import PlanTree

_ESTIMATE_MARGIN = 1.05
"""Margin for estimated tokens when computing the room that is left for an answer."""
_LEAST_ANSWER = 256
"""Tokens of an answer that are asked for even when they may not fit: less is no answer."""
_CENTS = 9
"""Digits of US dollars: what sums of floats are off by is no money."""


class RequestBuilder:
    """Assembles the requests of one session, and keeps what stays the same between them."""

    def __init__(self, policy: Policy, budget: SessionBudget, hooks: SessionHooks) -> None:
        self.layers: Sequence[Layer] = ()
        """The layers of the system prompt at the start of the last turn, without the plan (if it is part of it); see
        ``prepare``."""
        self.window_cache = WindowCache()
        self.policy = policy
        self.hooks = hooks
        self._record = policy.record
        self._state = policy.record.state
        self._budget = budget
        self._services = policy.record.services
        self._project: Latest[str] = Latest()
        self._frame: Latest[int] = Latest()
        self._tools: Latest[tuple[ToolSpec, ...]] = Latest()
        self._window: Latest[Window] = Latest()
        self._plan: Latest[str] = Latest()
        self._shown: Tally[WindowMessage, dict[str | None, int]] = Tally(dict, _add_tokens)
        """The estimated tokens that each goal has in the window."""
        self._metered_goal: str | None = None
        """The focus when the numbers were published last."""

    async def prepare(self) -> None:
        """Read the instruction files; at the start of each turn, and before an idle session is inspected.

        The map of the project and the texts of hooks are fetched once, to preserve the provider's cache.
        """
        await asyncio.to_thread(self.policy.read_agents)
        trust, main = self.policy.client.trust, self._record.main.session_id
        for notice in await self._services.extra.begin(trust, session_id=main):
            if self._state.turn is not None:  # else the next turn says it: nobody may listen yet
                self._record.notice_once(notice)
        rules = self.policy.rules
        hooks = await self.hooks.prompting()
        self.layers = await asyncio.to_thread(self._read_layers, rules, hooks)

    def _read_layers(self, rules: RuleSet, hooks: str) -> list[Layer]:
        services, policy = self._services, self.policy
        environment = Environment.of(services.workspace, services.now().date())
        return prompt_layers(
            policy.agent.prompt_for(policy.client.config.settings.plan.plan_front),
            policy.model,
            environment,
            services.user_folder,
            trusted=policy.client.trust == "trusted",
            project=self._map(rules),
            skills=listed(policy).text,
            hooks=hooks,
            readable=lambda name: _instruction_readable(rules, name),
        )

    def _map(self, rules: RuleSet) -> str:
        """Return the map of the project, drawn once for an agent with the same rules of configuration files."""
        config, root = self.policy.client.config, self._services.workspace
        command = config.settings.commands.test_command

        def draw() -> str:
            tests = find_test_command(root) if command is None else command
            return project_map(root, lambda path, folder: _visible(rules, path, folder), tests)

        drawn_for = (self.policy.agent.name, config.base_rules, config.workspace_rules, command)
        return self._project.get(draw, equal=drawn_for)

    @property
    def profile(self) -> ContextProfile:
        """How much context the agent keeps with its model and the settings in force."""
        policy = self.policy
        settings, agent = policy.client.config.settings, policy.agent
        info = model_info(policy.model)
        return profile_for(
            agent.context,
            self._window_size(),
            max_tokens=settings.model.max_tokens,
            compact_at=settings.context.compact_at_tokens or agent.compact_at,
            keep_steps=settings.context.keep_steps or agent.keep_steps,
            long_from=info.long_from if info.keep_short else None,
        )

    def _window_size(self) -> int:
        """Return the context window of the model in tokens."""
        policy = self.policy
        configured = policy.client.config.settings.context.context_window
        return self._services.models.window(policy.model, policy.client.env, configured)

    def window(self, marks: Marks | None = None) -> Window:
        """Return the messages the model would be sent now, or with other marks."""
        state, profile = self._state, self.profile
        messages, plan = state.messages, state.plan
        if marks is not None:
            return build_window(messages, plan, marks, profile, cache=self.window_cache)
        newest = messages[-1] if messages else None
        return self._window.get(
            lambda: build_window(messages, plan, state.marks, profile, cache=self.window_cache),
            same=(messages, newest, plan),
            equal=(len(messages), plan.revision, state.marks, profile),
        )

    def tool_specs(self) -> tuple[ToolSpec, ...]:
        """Return the tools on offer, see ``daemon.loop.tool_selection``."""
        policy = self.policy
        chosen_by = (
            policy.known_rules,  # a call is judged by ``rules``
            policy.agent,
            policy.agents,
            policy.skills,
            policy.client,
            policy.handed_over,
        )
        tools = policy.tools
        # Neither matters without MCP servers, which are rare.
        given = (tuple(self._state.given.tools), self._window_size()) if MCP_SEARCH in tools else ((), 0)
        return self._tools.get(lambda: sent_tools(policy, *given), same=chosen_by, equal=(tools, given))

    def plan(self) -> str:
        """Return the plan for the model; empty when there is none, or when the model reads it on demand."""
        plan = self._state.plan
        if self.policy.client.config.settings.plan.plan_placement == "on_demand" or not plan.goals:
            return ""
        edits = self.policy.client.config.settings.plan.plan_front == "goal"
        return self._plan.get(
            lambda: plan_to_prompt(plan, ids=edits), equal=(plan.revision, plan.mission, edits)
        )

    def request(
        self, window: Window | None = None, *, extra: tuple[PromptMessage, ...] = (), tail: bool = True
    ) -> ModelRequest:
        """Return the next request. ``extra`` messages follow the window's; ``tail`` False leaves the plan at the end
        away."""
        settings = self.policy.client.config.settings
        system = system_blocks(self.layers)
        plan = self.plan()
        if plan and settings.plan.plan_placement == "system":
            system.append(SystemBlock(plan))
            plan = ""
        window = window or self.window()
        return ModelRequest(
            model=self.policy.model.partition("/")[2],
            system=tuple(system),
            messages=(*window.messages, *extra),
            stays=window.before(self._state.plan.current_id),
            tools=self.tool_specs(),
            tail=self._tail(plan) if tail else "",
            max_tokens=self._answer(window),
            window=self.profile.window,
            thinking_tokens=settings.model.thinking_tokens,
            position=self._state.position,
            env={**self.policy.client.env, **self._who()},
        )

    def _answer(self, window: Window) -> int:
        """Return the tokens to request: limited by the settings, the model, and the room that the request leaves."""
        info, wanted = model_info(self.policy.model), self.policy.client.config.settings.model.max_tokens
        if info is not UNKNOWN:
            wanted = min(wanted, info.max_output)
        takes = self.profile.window
        answer = answer_tokens(takes, wanted)
        left = takes - int(self.tokens(window) * _ESTIMATE_MARGIN)
        return max(min(answer, left), min(answer, _LEAST_ANSWER))

    def _who(self) -> dict[str, str]:
        who = {WORKSPACE: str(self._services.workspace), AGENT: self.policy.agent.name}
        branch_id = self._record.branch_id
        return {**who, BRANCH: branch_id} if branch_id else who

    def _tail(self, plan: str) -> str:
        """Return the text after the cached prefix: the plan, and what the mode forbids."""
        mode = mode_text(self.policy.mode, self.policy.client.trust)
        return f"{plan}\n\n{mode}" if plan and mode else plan or mode

    def estimate(self, window: Window) -> int:
        """Tokens of the request with these messages by our own count, uncalibrated. Asked several times a step."""
        return window.tokens + self.frame() + estimate_tokens(self._tail(self.plan()))

    def tokens(self, window: Window | None = None) -> int:
        """Tokens of the next request, calibrated by what the provider counted for those before."""
        return round(self.estimate(window or self.window()) * self._state.calibration)

    def frame(self) -> int:
        """Tokens of the system prompt and the tools; counted once a turn, or when other tools are on offer."""
        tools = self.tool_specs()

        def count() -> int:
            layers = sum(estimate_tokens(layer.text) for layer in self.layers)
            return layers + sum(map(tool_tokens, tools))

        return self._frame.get(count, same=(self.layers, tools))

    def publish(self, window: Window | None = None) -> None:
        """Tell the listeners the session's numbers, if there are any: those of the goals at work, which are what
        changed."""
        plan, before = self._state.plan, self._metered_goal
        self._metered_goal = plan.current_id
        if self._record.session_id not in self._services.bus.heard():
            return
        goals = [*_chain(plan, plan.current_id), *_chain(plan, before)]
        meter = self.meter(window, list(dict.fromkeys(goals)))
        self._services.bus.publish(Metered(trace_id=self._record.session_id, meter=meter))

    def meter(self, window: Window | None = None, goals: Sequence[str] | None = None) -> Meter:
        """Return the session's numbers now; ``goals``: which of them, None for all."""
        window = window or self.window()
        ratio = self._state.calibration
        profile = self.profile
        trace = self._state.trace
        wanted = self._state.plan.goals if goals is None else dict.fromkeys(goals)
        shown = self._shown.of(window.entries) if wanted else {}
        policy, configured = self.policy, self.policy.client.config.settings.context.context_window
        budget = self._budget.in_force()
        for_goals, cost_for_goals = self._state.spending.of_all_goals(self._state.plan)
        return Meter(
            context_tokens=self.tokens(window),
            context_window=profile.window,
            window_assumed=self._services.models.window_is_assumed(
                policy.model, policy.client.env, configured
            ),
            compact_at=profile.compact_at,
            usage=trace.usage,
            cost=trace.total_cost,
            cost_known=not trace.usage.unpriced
            and self._services.models.cost(policy.model, Usage()) is not None,
            budget=budget,
            warning_usd=policy.client.config.settings.budget.budget_warning_usd
            if budget.session_usd is None
            else 0.0,
            without_goal=subtracted(trace.usage, for_goals),
            without_goal_cost=max(0.0, round(trace.total_cost - cost_for_goals, _CENTS)),
            goals=tuple(
                GoalMeter(
                    goal_id=goal_id,
                    usage=self._state.spending.usage(goal_id),
                    cost=self._state.spending.cost(goal_id),
                    context_tokens=round(shown.get(goal_id, 0) * ratio),
                )
                for goal_id in wanted
                if goal_id in self._state.plan.goals
            ),
        )


def _add_tokens(shown: dict[str | None, int], entry: WindowMessage) -> None:
    shown[entry.goal_id] = shown.get(entry.goal_id, 0) + entry.tokens


def _visible(rules: RuleSet, path: str, folder: bool) -> bool:
    """Return whether the model may learn the name of a file or folder without a question."""
    permissions = ("read", "ls") if folder else ("read",)
    return all(rules.decide(permission, path).action == "allow" for permission in permissions)


def _instruction_readable(rules: RuleSet, name: str) -> bool:
    """Return whether an instruction file may become part of the prompt.

    Outside the workspace those are files that the user's own AGENTS.md imports: no rule may deny them, and no secret is
    sent.
    """
    if not is_outside(name):
        return may_be_shown(rules, name)
    kinds = {kind.what for kind in protected("read", name, fold(name))}
    denied = rules.decide("read", name).action == "deny"
    return not denied and not kinds - ({OWN_STATE} if name.endswith(".md") else set())


def _chain(plan: PlanTree, goal_id: str | None) -> list[str]:
    if goal_id is None or goal_id not in plan.goals:
        return []
    return [goal_id, *(goal.id for goal in plan.ancestors(goal_id))]


def mark_history(record: SessionRecord, builder: RequestBuilder, sequence: int) -> None:
    """Mark all messages before the prompt with this sequence as history, of which less is sent from then on.

    Only if the agent's profile asks for it, or if it costs nothing. A provider forgets a prefix after some minutes.
    Then the request is paid in full anyway, and shortening saves; while the prefix is cached, changing it would cost
    more than it saves.
    """
    profile = builder.profile
    if profile.history == "cold" and not _is_cold(record):
        return
    before = builder.window().tokens
    marks = Marks(record.state.marks.pruned, sequence)
    freed = before - builder.window(marks).tokens
    if freed < (1 if profile.history == "always" else PRUNE_MINIMUM):
        return
    record.emit(ContextMarked(**record.here(), history_before=sequence, freed_tokens=freed))


def _is_cold(record: SessionRecord) -> bool:
    last = next((m for m in reversed(record.state.messages) if m.role == "assistant"), None)
    return last is not None and (record.now() - last.created_at).total_seconds() > CACHE_LASTS_S
