"""Settings: the keys of ``config.json``, grouped by subject.

The file is flat: ``max_tokens`` is a key of it, and ``settings.models.max_tokens`` here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from daemon.model.goals import PlanFront
from daemon.model.permissions import Mode
from tools.localization import DEFAULT, Language
from tools.sandbox.policy import SandboxPolicy, Setting, policy_for

if TYPE_CHECKING:
    from collections.abc import Mapping

Action = Literal["allow", "ask", "deny"]


class _Group(BaseModel):
    """Settings of one subject; each is a key of ``config.json``."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Hook(_Group):
    """A program that runs at a key moment: JSON on its stdin, and its answer on its stdout."""

    command: tuple[str, ...] = Field(min_length=1, description="Program and arguments; no shell.")
    tools: str = Field(
        default="*",
        description="For tool.execute.*: only these tools, as wildcards joined by |, e.g. edit|write.",
    )
    timeout_s: float = Field(default=10.0, gt=0, le=600, description="Seconds until it is killed.")
    on_failure: Literal["continue", "deny"] = Field(
        default="continue",
        description="What its failure means for the tool call (or prompt) it was asked about.",
    )


class LanguageServerSetting(_Group):
    """The user's changes to a known language server, or the definition of a new one."""

    enabled: bool = Field(default=True, description="False: it is never started.")
    command: tuple[str, ...] = Field(
        default=(), description="Program and arguments that speak LSP on stdio; without it, the usual ones."
    )
    languages: dict[str, str] = Field(
        default_factory=dict[str, str],
        description='File suffixes and the LSP languageId of each, e.g. {".zig": "zig"}; needed for a new server.',
    )
    roots: tuple[str, ...] = Field(
        default=(),
        description="Files that mark the root of a project, e.g. build.zig; the nearest above a file counts.",
    )
    settings: dict[str, Any] = Field(
        default_factory=dict[str, Any],
        description="Its settings (workspace/configuration), over the usual ones.",
    )
    initialization_options: dict[str, Any] = Field(
        default_factory=dict[str, Any], description="Its initializationOptions, over the usual ones."
    )


class ModelSettings(_Group):
    """The models, and the length of their answers."""

    model: str | None = Field(
        default=None,
        description="The model as provider/model, e.g. anthropic/claude-sonnet-5-5, openai/gpt-5, ollama/qwen3. "
        "Without it the keys in the environment decide.",
    )
    models: dict[str, str] = Field(
        default_factory=dict[str, str],
        description='A model for each agent, as provider/model: {"init": "anthropic/claude-opus-5-5", "compaction": '
        '"anthropic/claude-haiku-5-5"}. Goes before the model in an agent\'s file; a model chosen for the session goes '
        "before both. `title` names the model that writes titles and summaries of sessions; without it they are cut "
        "from what was said.",
    )
    max_tokens: int = Field(
        default=16_000, ge=256, le=1_000_000, description="Most tokens the model may answer with."
    )
    thinking_tokens: int = Field(
        default=0,
        ge=0,
        le=200_000,
        description="Tokens the model may think with before it answers; 0 switches it off.",
    )


class ApprovalSettings(_Group):
    """Rules, and the mode that decides which calls need no approval."""

    permission: dict[str, Action | dict[str, Action]] | list[dict[str, str]] | None = Field(
        default=None,
        description='Rules: {"bash": "ask", "edit": {"*.lock": "deny"}}. The last rule that matches decides; the '
        "file of a workspace that is not trusted can only make things stricter.",
    )
    mode: Mode = Field(
        default="ask",
        description="What passes unasked. ask: what rules allow; accept-edits: edits of the workspace, too; plan: "
        "nothing is changed; auto: whatever no rule of yours asks about, in a trusted folder only.",
    )
    permission_timeout_s: float | None = Field(
        default=None,
        gt=0,
        description="Seconds after which a question that nobody answers is refused; without it, it waits for ever.",
    )


class CommandSettings(_Group):
    """Commands, hooks and tests."""

    sandbox: Setting = Field(
        default="on",
        description="on: commands that pass without a question run in a sandbox (workspace writable, rest of the disk "
        "read-only, secrets hidden, no network); what you approve runs outside. workspace-write, read-only: the same, "
        "and commands ask only where a rule of yours names them. off: no sandbox; then only commands that can do "
        "nothing but read, and exact rules, pass without a question.",
    )
    sandbox_network: bool = Field(default=False, description="Commands in the sandbox may use the network.")
    sandbox_writable: tuple[str, ...] = Field(
        default=(), description="More folders that commands in the sandbox may write, e.g. ~/.cache/pip."
    )
    environment: tuple[str, ...] = Field(
        default=(),
        description="More environment variables that commands, hooks and language servers get, as names or wildcards, "
        'e.g. ["DATABASE_URL", "MYAPP_*"]. A wildcard leaves out what looks like a secret. Only in your own file; '
        "counts when the daemon starts. `goalwright doctor` lists the variables that are kept back.",
    )
    hooks: dict[str, tuple[Hook, ...]] = Field(
        default_factory=dict[str, tuple[Hook, ...]],
        description="Programs that run at key moments, by event name: session.start, session.end, "
        "prompt.system, prompt.submit, "
        "tool.execute.before, tool.execute.after, permission.asked, compaction.before, goal.completed.",
    )
    test_command: str | None = Field(
        default=None,
        description='What tests a branch, e.g. pytest -q. Without it, it is found by the project\'s files; "": none.',
    )
    test_timeout_s: float = Field(
        default=600.0, gt=0, le=7200, description="Seconds that the test command may take."
    )

    def sandbox_policy(self) -> SandboxPolicy:
        """Return the sandbox of commands that run without approval."""
        return policy_for(self.sandbox, network=self.sandbox_network)


class PlanSettings(_Group):
    """Planning."""

    planner: Literal["in_loop", "layered", "signposts", "on_demand"] = Field(
        default="in_loop",
        description="in_loop: the model keeps its plan while it works. layered: it plans first, then each step is a "
        "run of its own. signposts: a light plan first, then it works freely. on_demand: it plans anew when it fails, "
        "runs in circles, or you ask for it.",
    )
    plan_front: PlanFront = Field(
        default="goal",
        description="The tool by which the model keeps its plan. goal: a tree, goals can be given up and their files "
        "taken back; step: a plain list (plan, focus, complete).",
    )
    plan_placement: Literal["last_message", "system", "on_demand"] = Field(
        default="last_message",
        description="Where the current plan stands in a request; on_demand: nowhere, it is read by read_progress.",
    )
    allow_replan: bool = Field(
        default=True,
        description="When a step of a plan fails, let the model make a new plan for what is left. false: the plan ends "
        "there with an error that says so. A plan that you ask for is always made.",
    )


class ContextSettings(_Group):
    """The size of the context."""

    context_window: int | None = Field(
        default=None,
        ge=1_024,
        description="Tokens the model can take. Without it the model's server is asked, or a table of known models. "
        "The system prompt and the tools alone take about 4,500.",
    )
    compact_at_tokens: int | None = Field(
        default=None,
        ge=1_000,
        description="Compact the context above this many tokens; else at 75 % of the window (70 % of a large one).",
    )
    keep_steps: int | None = Field(
        default=None, ge=1, le=100, description="How many of the last steps a compaction leaves whole."
    )


class BudgetSettings(_Group):
    """Limits on the cost of sessions, goals and unattended runs."""

    budget_usd: float | None = Field(
        default=None,
        gt=0,
        description="Stop a session with a question when it has cost this many US dollars.",
    )
    budget_warning_usd: float = Field(
        default=5.0,
        ge=0,
        description="Say so in the chat each time a session without a budget in US dollars has cost this much more; it "
        "goes on working. 0: no warning.",
    )
    budget_tokens: int | None = Field(
        default=None,
        gt=0,
        description="Stop a session with a question after this many tokens, sent and received.",
    )
    goal_budget_usd: float | None = Field(
        default=None, gt=0, description="The same for each goal, with the goals below it."
    )
    goal_budget_tokens: int | None = Field(
        default=None, gt=0, description="The same for each goal, with the goals below it."
    )
    unattended_steps: int = Field(
        default=200,
        ge=0,
        description="Stop a run that nobody watches (goalwright run with --yes, or without a terminal) after this many "
        "model calls, those of its branches and sub-agents included; 0: no limit.",
    )
    unattended_usd: float = Field(
        default=10.0, ge=0, description="The same after this many US dollars; 0: no limit."
    )
    unattended_minutes: float = Field(
        default=120.0, ge=0, description="The same after this time; 0: no limit."
    )


class LanguageSettings(_Group):
    """Language servers, and the part of their reports that the model receives."""

    diagnostics: bool = Field(
        default=True, description="Start language servers and tell the model what its edits break."
    )
    diagnostics_severity: Literal["error", "warning"] = Field(
        default="error", description="The least that the model is told of what an edit broke."
    )
    diagnostics_timeout_s: float = Field(
        default=2.5,
        ge=0.1,
        le=60,
        description="Seconds that language servers have, all together, for their answer to an edit.",
    )
    language_servers: dict[str, LanguageServerSetting] = Field(
        default_factory=dict[str, LanguageServerSetting],
        description='By name, e.g. {"ruff": {"enabled": false}}. `goalwright doctor` lists them.',
    )


class AgentSettings(_Group):
    """Branches, sub-agents and iterating agents."""

    max_parallel: int = Field(
        default=8, ge=1, le=64, description="How many branches and sub-agents work at the same time."
    )
    max_depth: int = Field(
        default=2, ge=0, le=5, description="How deep sub-agents may start sub-agents; 0: none are started."
    )
    explore_choice: Literal["model", "person"] = Field(
        default="model",
        description="Who chooses a branch when an exploration has ended. model: the model, and you may at any time; "
        "person: it waits for you.",
    )
    branch_links: tuple[str, ...] = Field(
        default=(".venv", "venv", "node_modules"),
        description="Ignored folders that branches use where they are instead of having a copy.",
    )
    success_target: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="Success rate (0 to 1) at which init and execute stop handing over to each other.",
    )
    max_iterations: int = Field(
        default=10, ge=1, le=1000, description="How often init may hand over to execute in a session."
    )


class TraceSettings(_Group):
    """The time that stored sessions are kept, and dumps beside them."""

    trace_keep_days: float | None = Field(
        default=None,
        gt=0,
        description="Delete the record of a session that was not used for this many days; without it, none for its "
        "age.",
    )
    trace_max_mb: float | None = Field(
        default=None,
        gt=0,
        description="Delete the oldest sessions' records while all together take more than this many megabytes.",
    )
    trace_keep: int | None = Field(
        default=None,
        ge=1,
        description="The newest so many sessions' records are kept in any case; of the others go those that the two "
        "limits say, or all when neither is set. The newest one, and what is open, always stays. Records that came "
        "with the folder or by an archive are counted apart: they push none of your own out.",
    )
    debug_trace: bool = Field(
        default=False,
        description="Write the step tree of each session that is at work as tree.txt, tree.md and tree.json into its "
        "folder below .trace, and those of the newest into .trace itself, while it works.",
    )


class DaemonSettings(_Group):
    """The daemon as a process, and its language."""

    language: Language = Field(
        default=DEFAULT,
        description="The language of everything that you read: en (English) or zh-CN (Simplified Chinese). Counts "
        "in your own file and the editor's settings. What the model reads stays English.",
    )
    idle_timeout_s: float = Field(
        default=1800.0,
        ge=0,
        description="Seconds without a client or a running turn after which the daemon stops; 0: never.",
    )
    api_port: int | None = Field(
        default=None,
        ge=0,
        le=65535,
        description="Serve the trace API (REST, WebSocket, web page) on this port of 127.0.0.1 whenever the daemon "
        "runs; 0: any free one, as when the port is taken. Without it, it is opened when somebody wants it.",
    )


class Settings(_Group):
    """All settings, by subject."""

    model: ModelSettings = ModelSettings()
    approval: ApprovalSettings = ApprovalSettings()
    commands: CommandSettings = CommandSettings()
    plan: PlanSettings = PlanSettings()
    context: ContextSettings = ContextSettings()
    budget: BudgetSettings = BudgetSettings()
    languages: LanguageSettings = LanguageSettings()
    agents: AgentSettings = AgentSettings()
    traces: TraceSettings = TraceSettings()
    daemon: DaemonSettings = DaemonSettings()

    def changed(self, values: Mapping[str, Any]) -> Settings:
        """Return these settings with other values; ``values`` has keys of the file and valid values."""
        groups: dict[str, dict[str, Any]] = {}
        for key, value in values.items():
            groups.setdefault(_SUBJECTS[key], {})[key] = value
        return self.model_copy(
            update={name: getattr(self, name).model_copy(update=new) for name, new in groups.items()}
        )

    @staticmethod
    def parsed(key: str, value: object) -> Any:
        """Return the value of a known key as the settings hold it. Raises ValidationError."""
        group: BaseModel = _GROUPS[_SUBJECTS[key]].model_validate({key: value})
        return getattr(group, key)


_GROUPS: dict[str, type[BaseModel]] = {name: type(group) for name, group in Settings()}
_SUBJECTS = {key: name for name, group in _GROUPS.items() for key in group.model_fields}
SETTINGS = frozenset(_SUBJECTS)
"""The keys of ``config.json``."""


def settings_schema() -> dict[str, Any]:
    """Return the JSON schema of ``config.json``."""
    schemas = [group.model_json_schema() for group in _GROUPS.values()]
    return {
        "title": "Goalwright settings",
        "type": "object",
        "additionalProperties": False,
        "properties": {key: value for schema in schemas for key, value in schema["properties"].items()},
        "$defs": {name: shape for schema in schemas for name, shape in schema.get("$defs", {}).items()},
    }
