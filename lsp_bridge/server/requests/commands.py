"""The requests about slash commands, skills, prompts of MCP servers, and the user's own tools."""

from __future__ import annotations

import asyncio

from daemon.loop.command_use import callable_skill, command_problems
from daemon.mcp.configuration import SETTINGS
from daemon.mcp.service import LISTING_WAIT_S
from lsp_bridge.protocol import commands as p
from lsp_bridge.protocol.sessions import Empty
from lsp_bridge.server.requests.declaration import RequestArea, request


class CommandRequests(RequestArea):
    """The requests of one connection about slash commands, skills and own tools."""

    @request("goalwright/tools/list", changes=False)
    async def tools(self, params: Empty) -> p.OwnToolListResult:
        """List the user's own tools, and definitions that cannot be used."""
        tools, trust = self._core.own_tools, self._context.client_trust()
        await tools.begin(trust, LISTING_WAIT_S)
        found, problems = tools.status(trust)
        config = self._context.client_config()
        return p.OwnToolListResult(tools=found, problems=(*config.blocking, *config.problems, *problems))

    @request("goalwright/prompt/list", changes=False)
    async def list(self, params: p.CommandListParams) -> p.CommandListResult:
        """List slash commands, skills and prompts of MCP servers, and files that should be some and are not."""
        trust, rules = self._context.client_trust(), self._context.client_rules()
        servers, session_id = self._core.mcp, params.session_id or ""
        if params.start:
            self._core.configuration.forget()
            await servers.begin(trust, LISTING_WAIT_S, session_id=session_id)
            await servers.listed(trust, session_id)
        commands, skills = await asyncio.to_thread(self._core.found_prompts, trust)
        called = [
            p.CommandInfo(
                name=one.name,
                description=one.description,
                hint=one.hint,
                arguments=one.takes_arguments,
                source=one.place.source,
                file=str(one.file),
            )
            for one in commands.commands.values()
        ]
        called += [
            p.CommandInfo(
                name=one.name,
                description=one.description,
                kind="skill",
                arguments=True,
                source=one.source,
                file=str(one.file),
            )
            for one in skills.skills
            if one.name.lower() not in commands.commands and callable_skill(rules, one)
        ]
        called += [
            p.CommandInfo(
                name=prompt.name,
                description=prompt.description,
                kind="mcp",
                hint=prompt.hint,
                arguments=bool(prompt.hint),
                source="user" if server.spec.source == SETTINGS else "workspace",
            )
            for server in servers.servers(trust, session_id)[0]
            for prompt in server.shown.prompts
            if prompt.name.lower() not in commands.commands
        ]
        return p.CommandListResult(
            commands=tuple(sorted(called, key=lambda one: one.name)),
            skills=tuple(
                p.SkillInfo(
                    name=one.name,
                    description=one.description,
                    source=one.source,
                    file=str(one.file),
                    listed=one.for_model and rules.decide("skill", one.name).action != "deny",
                )
                for one in skills.skills
            ),
            problems=command_problems(commands, skills),
        )
