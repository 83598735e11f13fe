"""The policy of a session: its agent, the settings and trust of the client that prompted last, and the resulting
rules."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from daemon.agents.loader import HANDS_OVER, NO_HAND_OVER, AgentProfile, FoundAgents, UnknownAgentError
from daemon.loop.design_files import DesignFiles, changed_words
from daemon.model import notice_codes
from daemon.permission.matching import fold
from daemon.permission.rules import RuleSet
from daemon.provider.memo import Latest
from daemon.skills.catalogue import FoundSkills
from daemon.trust import mode_in_force

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from daemon.config import Config
    from daemon.loop.record import SessionRecord
    from daemon.model.permissions import Mode, Rule, Trust
    from daemon.permission.grants import Grants
    from tools.tool import Tool


def _hook_files(config: Config, workspace: Path) -> frozenset[str]:
    """Return the files of the workspace that hooks run, as rules compare names."""
    files = [Path(os.path.realpath(path)) for path in config.settings.commands.hook_files(workspace)]
    return frozenset(
        fold(path.relative_to(workspace).as_posix()) for path in files if path.is_relative_to(workspace)
    )


class ClientSettings(Struct, frozen=True):
    """Settings of the client that prompted last; a child has those of its parent."""

    config: Config
    """The settings in force: the files', and over them the client's."""
    trust: Trust
    """Trust in the folder."""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    """Provider variables; in memory only."""
    default_model: str = ""
    """The model for a session without one of its own."""
    unattended: bool = False
    """Whether it is a program without a user."""

    def __repr__(self) -> str:
        return f"ClientSettings({self.trust!r}, {self.default_model!r})"  # ``env`` has keys


class StandIn(Struct, frozen=True):
    """The model that answers for an overloaded one for the rest of a turn; both empty: none does."""

    overloaded: str = ""
    model: str = ""


class Policy:
    """The policy of one session; the policies of the sessions above it restrict it further."""

    def __init__(self, record: SessionRecord, agent: AgentProfile, parent: Policy | None = None) -> None:
        services = record.services
        self._agent_is_chosen = parent is not None or not record.foreign
        self.agent = self._as_chosen(agent)
        self.agents: FoundAgents | None = None
        """The agents there are, as the last turn began with them."""
        self.skills = FoundSkills()
        """The skills there are, as the last turn began with them."""
        self.client = ClientSettings(services.config(), services.trust())
        self.turn_model = ""
        """The model that the command of this turn names; empty: the session's."""
        self.stand_in = StandIn()
        self.handed_over = False
        """For a child: its parent handed its work over to it, and keeps none of its own duties in it."""
        self.design = DesignFiles()
        self.parent = parent
        self.record = record
        self._services = services
        self._rules: Latest[RuleSet] = Latest()
        self._tools: Latest[Mapping[str, Tool[Any]]] = Latest()

    def use(
        self,
        client: ClientSettings | None = None,
        *,
        config: Config | None = None,
        trust: Trust | None = None,
        env: Mapping[str, str] | None = None,
        default_model: str | None = None,
        unattended: bool | None = None,
    ) -> None:
        """Work with these settings of a client from now on, and with those given one by one; None: as before."""
        given = dict(config=config, trust=trust, env=env, default_model=default_model, unattended=unattended)
        self.client = replace(client or self.client, **{k: v for k, v in given.items() if v is not None})

    def begin_turn(self, model: str) -> None:
        """Have this model answer in the turn that begins; empty: the session's."""
        self.turn_model = model

    def let_stand_in(self, model: str) -> None:
        """Have another model answer for the chosen one until the turn ends."""
        self.stand_in = StandIn(self.chosen_model, model)

    def end_turn(self) -> None:
        """Return to the session's own model."""
        self.turn_model, self.stand_in = "", StandIn()

    def take_over(self, design: Iterable[str]) -> None:
        """The parent has handed its work over to this session, with the files of its design."""
        self.handed_over = True
        self.design.guard(design)

    def choose(self, agent: AgentProfile) -> None:
        """Work as this agent, as the user wants."""
        self.agent, self._agent_is_chosen = agent, True

    def _as_chosen(self, agent: AgentProfile) -> AgentProfile:
        """Return an agent as far as it counts. An imported session must not lift rules by naming an agent of the user,
        except the one that new sessions begin with."""
        free = self._agent_is_chosen or agent.source != "user" or agent.name == "build"
        return agent if free else replace(agent, imported=True)

    def read_agents(self) -> None:
        """Read the files of agents and skills again: they may have changed, and the client that prompts decides whether
        the folder's count.

        Blocking.
        """
        self.agents = self._services.agents.all(self.client.trust)
        self.skills = self._services.skills.all(self.client.trust)
        if self.parent is None:  # a child keeps the agent that it was started with
            agents, wanted, trust = self._services.agents, self.record.state.trace.agent, self.client.trust
            try:
                self.agent = self._as_chosen(agents.find(wanted, trust))
            except UnknownAgentError:
                # One that cannot be read any more keeps its limits, but a folder's agent ends with the trust in it.
                if self.agent.source == "workspace" and trust != "trusted":
                    self.agent = agents.find_or_stand_in(wanted, trust)

    # -- the policy in force --

    @property
    def model(self) -> str:
        """The model that answers: that of the turn's command or the session's own, else the one that the settings give
        its agent, or the default."""
        chosen = self.chosen_model
        return self.stand_in.model if chosen and chosen == self.stand_in.overloaded else chosen

    @property
    def chosen_model(self) -> str:
        """The model that answers unless another one stands in for it."""
        client = self.client
        own = self.turn_model or self.record.state.trace.model
        return own or client.config.settings.model.models.get(self.agent.name) or client.default_model

    @property
    def tools(self) -> Mapping[str, Tool[Any]]:
        """All tools there are for sessions in this folder."""
        extra = self._services.extra.tools(self.client.trust, self.record.main.session_id)
        return self._tools.get(lambda: {**self._services.tools, **extra}, same=(extra,))

    @property
    def mode(self) -> Mode:
        """The mode in force: which actions run without approval."""
        return self.mode_under(self.client.config, self.client.trust)

    def mode_under(self, config: Config, trust: Trust) -> Mode:
        """Return the mode that would be in force with other settings and trust."""
        return mode_in_force(self.record.main.state.trace.mode or config.settings.approval.mode, trust)

    @property
    def limits(self) -> tuple[Rule, ...]:
        """The agent's rules, which no other rules can loosen."""
        own = self.agent.own_rules
        return own if self.agent.name in HANDS_OVER else (*own, NO_HAND_OVER)

    @property
    def bounds(self) -> tuple[tuple[Rule, ...], ...]:
        """Rules that only tighten, a layer each: of an agent that came with the workspace, and of the agents that sent
        this one. A sub-agent of one that changes nothing changes nothing, either.
        """
        own, *above = self._bound_by()
        layers = [own.design.rules, *own.agent.limits]
        for policy in above:
            layers += [policy.design.rules, *policy.agent.limits, policy.agent.own_rules]
        return tuple(rules for rules in layers if rules)

    @property
    def insists(self) -> frozenset[str]:
        """Permissions that are asked about each time; what an agent insists on holds for whom it sends, too."""
        return frozenset[str]().union(*(policy.agent.all_insists for policy in self._bound_by()))

    @property
    def looks(self) -> bool:
        """Whether nothing is changed here: the agent only looks, or one that sent it."""
        return any(policy.agent.only_looks for policy in self._bound_by())

    def _bound_by(self) -> list[Policy]:
        """Return the policies whose agents' limits apply here: its own, and those above. After a handover, the parent's
        limits no longer apply, but those further up do."""
        above: list[Policy] = [] if self.parent is None else self.parent._bound_by()
        return [self, *(above[1:] if self.handed_over else above)]

    @property
    def rules(self) -> RuleSet:
        """The rules that hold now."""
        return self._rules_with(self._services.permissions.keeper.rules())

    @property
    def known_rules(self) -> RuleSet:
        """The rules without a look at the files of grants, for what allows nothing: it is asked several times a
        step."""
        return self._rules_with(self._services.permissions.keeper.rules(look=False))

    def _rules_with(self, granted: Grants) -> RuleSet:
        skills = self.skills.rules
        config, trust = self.client.config, self.client.trust
        # The set is kept while nothing in it changes, with all that it has compiled and decided.
        agents = tuple([(policy.agent, policy.design.rules) for policy in self._bound_by()])
        made_of = (config, tuple(self.record.main.state.granted), granted, skills, self.mode, trust, agents)
        return self._rules.get(lambda: self._rules_of(config, trust, granted), equal=made_of)

    def rules_under(self, config: Config, trust: Trust) -> RuleSet:
        """Return the rules that would hold with other settings and trust: those of the next prompt."""
        return self._rules_of(config, trust, self._services.permissions.keeper.rules())

    def _rules_of(self, config: Config, trust: Trust, grants: Grants) -> RuleSet:
        services = self._services
        granted, granted_here = grants
        granted = (*self.skills.rules, *granted) if self.skills.rules else granted
        return RuleSet(
            config.base_rules,
            config.workspace_rules,
            # Grants for the session apply to the main session and all its branches.
            tuple(self.record.main.state.granted),
            self.limits,
            insists=self.insists,
            looks=self.looks,
            bounds=self.bounds,
            branch=services.folder.rules,
            trusted=config.trusted,
            granted=granted,
            granted_here=granted_here,
            mode=self.mode_under(config, trust),
            trust=trust,
            root=services.workspace.as_posix(),
            runs=_hook_files(config, services.workspace),
            stands_for=""
            if services.folder.branch.copy_of is None
            else services.folder.branch.copy_of.as_posix(),
        )

    def note_changes(self, changes: Iterable[tuple[str, str]]) -> None:
        """Report written files that belong to a design and were not asked about; each change has the file's name in
        rules and the id of the call. Raises StoreError."""
        holder = next((policy for policy in self._bound_by() if policy.design.rules), None)
        if holder is None:
            return
        record = self.record
        for path, call_id in changes:
            if not holder.design.holds(path) or self.design.was_asked(path, call_id, record.state.messages):
                continue
            holder.design.note_unasked(path)
            for one in dict.fromkeys((record, record.main)):
                one.notice(
                    "warning", changed_words(path, self.agent.name), notice_codes.DESIGN, about=call_id
                )
