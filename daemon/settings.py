"""Settings: the keys of ``config.json``, grouped by subject.

The file is flat: ``max_tokens`` is a key of it, and ``settings.model.max_tokens`` here.
"""

from __future__ import annotations

import math
import os
import re
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, WithJsonSchema, field_validator
from pydantic_core import PydanticKnownError

from daemon.model.goals import PlanFront
from daemon.model.permissions import Mode
from daemon.runtime import state_dir
from tools.localization import DEFAULT, Language
from tools.sandbox.policy import SandboxPolicy, Setting, policy_for

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

Action = Literal["allow", "ask", "deny"]


class _Group(BaseModel):
    """Settings of one subject; each is a key of ``config.json``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @field_validator("*", mode="before")
    @classmethod
    def _exact(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse what pydantic would read as another type: "yes" as true, true as 1, "3" as 3; and NaN."""
        annotation = cls.model_fields[str(info.field_name)].annotation
        wanted = {annotation, *get_args(annotation)}
        if value is None:
            return value
        if bool in wanted and not isinstance(value, bool):
            raise PydanticKnownError("bool_type")
        if wanted & {int, float} and (isinstance(value, bool | str) or not _is_finite(value)):
            raise PydanticKnownError("int_type" if int in wanted else "float_type")
        return value


def _is_finite(value: object) -> bool:
    return not isinstance(value, float) or math.isfinite(value)


HookName = Literal[
    "session.start",
    "session.end",
    "prompt.system",
    "prompt.submit",
    "tool.execute.before",
    "tool.execute.after",
    "permission.asked",
    "compaction.before",
    "goal.completed",
]


_IN_A_SHELL = re.compile(r"[\s;&|()<>\"'=]+")
"""Parts the words of a command line, which a hook may give to a shell."""


def _may_be_path(word: str) -> bool:
    return 0 < len(word) < 1_000 and not word.startswith("-") and "://" not in word and "\0" not in word


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
        description="What happens to the tool call (or prompt) when the hook fails.",
    )


class LanguageServerSetting(_Group):
    """The user's changes to a known language server, or the definition of a new one."""

    enabled: bool = Field(default=True, description="false: never start it.")
    command: tuple[str, ...] = Field(
        default=(), description="Program and arguments that speak LSP on stdio; by default the usual ones."
    )
    languages: dict[str, str] = Field(
        default_factory=dict[str, str],
        description='File suffixes and the LSP languageId of each, e.g. {".zig": "zig"}; needed for a new server.',
    )
    roots: tuple[str, ...] = Field(
        default=(),
        description="Files that mark the root of a project, e.g. build.zig; the nearest one above a file is "
        "used.",
    )
    settings: dict[str, Any] = Field(
        default_factory=dict[str, Any],
        description="Its settings (workspace/configuration); they override the usual ones.",
    )
    initialization_options: dict[str, Any] = Field(
        default_factory=dict[str, Any], description="Its initializationOptions; they override the usual ones."
    )


class McpServerSetting(_Group):
    """An MCP server, in the format of other programs; unknown keys are kept, to tell of them."""

    model_config = ConfigDict(extra="allow", frozen=True)

    type: str = Field(default="", description="stdio or http; by default stdio where there is a command.")
    command: str = Field(default="", description="Program that speaks MCP on stdio; no shell.")
    args: tuple[str, ...] = Field(default=(), description="Its arguments.")
    env: dict[str, str] = Field(
        default_factory=dict[str, str], description="Variables on top of those that commands get."
    )
    cwd: str = Field(
        default="",
        description="The folder it starts in; by default the workspace, or your home if it is not trusted.",
    )
    url: str = Field(default="", description="Address of a server that speaks streamable HTTP.")
    headers: dict[str, str] = Field(
        default_factory=dict[str, str], description="HTTP headers to send to it, e.g. Authorization."
    )
    disabled: bool = Field(default=False, strict=True, description="true: never start it.")


_ONE_OR_MORE = {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}]}


class ModelSettings(_Group):
    """The models, and the length of their answers."""

    model: str | None = Field(
        default=None,
        description="The model as provider/model, e.g. anthropic/claude-sonnet-5-5, openai/gpt-5, "
        "ollama/qwen3. If not set, the API keys in the environment decide.",
    )
    models: dict[str, str] = Field(
        default_factory=dict[str, str],
        description='A model for each agent, as provider/model: {"init": "anthropic/claude-opus-5-5", '
        '"compaction": "anthropic/claude-haiku-5-5"}. Overrides the model in an agent\'s file; '
        "a model chosen for the session overrides both. `title` names the model that writes titles "
        "and summaries of sessions; without it they are taken from the messages.",
    )
    fallback_model: Annotated[tuple[str, ...], WithJsonSchema(_ONE_OR_MORE)] = Field(
        default=(),
        description="Models that take over when the server of the model is overloaded, in this order, e.g. "
        '["openai/gpt-5"]; a single one may be written as text. The rest of the turn uses the first that has a key '
        "and a large enough window; the next turn tries the model itself again.",
    )
    max_tokens: int = Field(
        default=16_000, ge=256, le=1_000_000, description="Maximum tokens of a response of the model."
    )
    thinking_tokens: int = Field(
        default=0,
        ge=0,
        le=200_000,
        description="Tokens the model may use to think before it answers; 0 turns thinking off.",
    )


class ApprovalSettings(_Group):
    """Rules, and the mode that decides which calls need no approval."""

    permission: dict[str, Action | dict[str, Action]] | list[dict[str, str]] | None = Field(
        default=None,
        description='Rules: {"bash": "ask", "edit": {"*.lock": "deny"}}. The last rule that matches decides; '
        "the file of an untrusted workspace can only make rules stricter.",
    )
    mode: Mode = Field(
        default="ask",
        description="What runs without asking. ask: what rules allow; accept-edits: also edits of the "
        "workspace; plan: nothing is changed; auto: nearly everything that no narrower rule of "
        "yours asks about, in trusted folders only.",
    )
    permission_timeout_s: float | None = Field(
        default=None,
        gt=0,
        description="Seconds after which an unanswered request for approval is rejected; by default it waits "
        "indefinitely.",
    )


class CommandSettings(_Group):
    """Commands, hooks and tests."""

    sandbox: Setting = Field(
        default="on",
        description="on: commands that run without asking run in a sandbox (workspace writable, rest of the "
        "disk read-only, secrets hidden, no network); what you approve runs outside. "
        "workspace-write, read-only: the same, and commands ask only where a rule of yours names "
        "them. off: no sandbox; then only read-only commands and commands with an exact rule run "
        "without asking.",
    )
    sandbox_network: bool = Field(default=False, description="Commands in the sandbox may use the network.")
    sandbox_writable: tuple[str, ...] = Field(
        default=(), description="More folders that commands in the sandbox may write, e.g. ~/.cache/pip."
    )
    environment: tuple[str, ...] = Field(
        default=(),
        description="More environment variables to pass to commands, hooks and language servers, as names or "
        'wildcards, e.g. ["DATABASE_URL", "MYAPP_*"]. A wildcard leaves out variables that look '
        "like secrets. Only has an effect in your own file, when the daemon starts. `goalwright "
        "doctor` lists the variables that are not passed on.",
    )
    hooks: dict[HookName, tuple[Hook, ...]] = Field(
        default_factory=dict[HookName, tuple[Hook, ...]],
        description="Programs that run at key moments, by event name: session.start, session.end, "
        "prompt.system, prompt.submit, "
        "tool.execute.before, tool.execute.after, permission.asked, compaction.before, goal.completed.",
    )
    test_command: str | None = Field(
        default=None,
        description="The command that tests a branch, e.g. pytest -q. By default it is found from the "
        'project\'s files; "": none.',
    )
    test_timeout_s: float = Field(
        default=600.0, gt=0, le=7200, description="Seconds that the test command may take."
    )

    def hook_files(self, workspace: Path) -> tuple[Path, ...]:
        """Return the files of the workspace that hooks name, and so run outside of the sandbox, also those that are not
        there. Absolute. Blocking."""
        words = {word for hooks in self.hooks.values() for hook in hooks for word in hook.command}
        parts = {part for word in words for part in _IN_A_SHELL.split(word)}
        named = {word: workspace / os.path.expanduser(word) for word in words | parts if _may_be_path(word)}  # noqa: PTH111
        return tuple(
            path
            for word, path in named.items()
            if path.is_file() or ("/" in word and word in parts and not path.is_dir())
        )

    def sandbox_policy(self) -> SandboxPolicy:
        """Return the sandbox of commands that run without approval."""
        return policy_for(self.sandbox, network=self.sandbox_network)


class PlanSettings(_Group):
    """Planning."""

    planner: Literal["in_loop", "layered", "signposts", "on_demand"] = Field(
        default="in_loop",
        description="in_loop: the model keeps its plan while it works. layered: it plans first, then each step "
        "is a separate run. signposts: it makes a light plan first, then works freely. on_demand: "
        "it plans again when it fails, runs in circles, or you ask for it.",
    )
    plan_front: PlanFront = Field(
        default="goal",
        description="The tool with which the model keeps its plan. goal: a tree; goals can be abandoned and "
        "their file changes undone. step: a plain list (plan, focus, complete).",
    )
    plan_placement: Literal["last_message", "system", "on_demand"] = Field(
        default="last_message",
        description="Where a request contains the current plan; on_demand: nowhere, the model reads it with "
        "read_progress.",
    )
    allow_replan: bool = Field(
        default=True,
        description="When a step of a plan fails, let the model make a new plan for the remaining work. false: "
        "the plan ends with an error that names the step. A plan that you ask for is always made.",
    )


class ContextSettings(_Group):
    """The size of the context."""

    context_window: int | None = Field(
        default=None,
        ge=1_024,
        description="Size of the model's window in tokens. By default the model's server is asked, or a table "
        "of known models is used. The system prompt and the tools alone take about 4,500.",
    )
    compact_at_tokens: int | None = Field(
        default=None,
        ge=1_000,
        description="Compact the context when it has more tokens than this. By default the limit is 75 % of the "
        "model's window, or 70 % of a window above 200,000 tokens, and for some models less, to stay below the size "
        "from which the provider charges the whole request more.",
    )
    keep_steps: int | None = Field(
        default=None, ge=1, le=100, description="How many of the last steps a compaction keeps unchanged."
    )


class BudgetSettings(_Group):
    """Limits on the cost of sessions, goals and unattended runs."""

    budget_usd: float | None = Field(
        default=None,
        gt=0,
        description="Pause a session and ask when it has cost this many US dollars.",
    )
    budget_warning_usd: float = Field(
        default=5.0,
        ge=0,
        description="Warn in the chat each time a session without a budget in US dollars has cost this much "
        "more; the session continues. 0: no warning.",
    )
    budget_tokens: int | None = Field(
        default=None,
        gt=0,
        description="Pause a session and ask after this many tokens, sent and received.",
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
        description="Stop an unattended run (goalwright run with --yes, or without a terminal) after this many "
        "model calls, including those of its branches and sub-agents; 0: no limit.",
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
        default=True,
        description="Start language servers and show the model the problems that its edits cause.",
    )
    diagnostics_severity: Literal["error", "warning"] = Field(
        default="error", description="The least severe problem of an edit that the model sees."
    )
    diagnostics_timeout_s: float = Field(
        default=1.0,
        ge=0.1,
        le=60,
        description="Seconds to wait for all language servers and the editor to answer about an edit.",
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
        description="Who chooses a branch when an exploration has ended. model: the model, but you can at any "
        "time; person: it waits for you.",
    )
    branch_links: tuple[str, ...] = Field(
        default=(".venv", "venv", "node_modules"),
        description="Ignored folders that branches use in place instead of copying them.",
    )
    explore_on: Literal["local", "ray"] = Field(
        default="local",
        description="Where branches work: local, on this machine; ray, on the nodes of a Ray cluster, which must have "
        "goalwright[ray] in the same version. Only has an effect in your own file, because it sends your code there.",
    )
    ray_address: str = Field(
        default="auto",
        description="The Ray cluster: auto, the one that runs on this machine or that RAY_ADDRESS names; local, one "
        "that is started here for each exploration; or HOST:PORT. Only has an effect in your own file.",
    )
    ray_cpus_per_branch: float = Field(
        default=1.0,
        gt=0,
        le=1024,
        description="How many of a node's CPUs a branch takes, which limits how many work there at the same time. Only "
        "has an effect in your own file.",
    )
    ray_fallback: Literal["local", "fail"] = Field(
        default="local",
        description="What happens when a branch cannot work on the cluster: local, it works on this machine; fail, it "
        "fails. You are notified in both cases. Only has an effect in your own file.",
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


class McpSettings(_Group):
    """Servers of the Model Context Protocol."""

    mcp_servers: dict[str, McpServerSetting] = Field(
        default_factory=dict[str, McpServerSetting],
        description='By name, e.g. {"docs": {"command": "docs-mcp", "args": ["--stdio"]}}. The key may also be '
        "spelled mcpServers.",
    )
    mcp_disabled: tuple[str, ...] = Field(
        default=(), description="Servers that are not started, and tools (server/tool) that are not offered."
    )
    mcp_timeout_s: float = Field(
        default=120.0, gt=0, le=3600, description="Seconds that a call of an MCP tool may take."
    )


class TraceSettings(_Group):
    """The time that stored sessions are kept, and dumps beside them."""

    trace_keep_days: float | None = Field(
        default=None,
        gt=0,
        description="Delete the trace of a session that was not used for this many days; by default none is "
        "deleted for its age.",
    )
    trace_max_mb: float | None = Field(
        default=None,
        gt=0,
        description="Delete the traces of the oldest sessions while all traces together are larger than this "
        "many megabytes.",
    )
    trace_keep: int | None = Field(
        default=None,
        ge=1,
        description="Always keep the traces of this many of the newest sessions. Of the others, those beyond "
        "the two limits are deleted, or all if neither is set. The newest session and open "
        "sessions are always kept. Traces that came with the folder or from an archive are counted "
        "separately from your own.",
    )
    store_url: str | None = Field(
        default=None,
        description="A database that gets a copy of all your sessions: sqlite:///PATH or postgresql://HOST/DATABASE. "
        "Without one, or with files:, they are in their folders only. Only has an effect in your own file, after a "
        "restart of the daemon.",
    )
    debug_trace: bool = Field(
        default=False,
        description="Write the step tree of each running session as tree.txt, tree.md and tree.json into its "
        "folder below .trace, and that of the newest session also into .trace itself.",
    )

    @field_validator("store_url")
    @classmethod
    def _database(cls, url: str | None) -> str | None:
        if url in (None, "", "files", "files:"):
            return None
        kind, found, path = url.partition("sqlite:///")
        if found and not kind and path and not path.startswith(("/", "~", ":")) and path[1:2] != ":":
            return f"sqlite:///{state_dir()}/{path}"  # not below each workspace's folder
        return url


class TelemetrySettings(_Group):
    """OpenTelemetry."""

    telemetry: bool = Field(
        default=False,
        description="Send spans and metrics of sessions to an OpenTelemetry collector, without contents. Needs the "
        "extra goalwright[otel]. Only has an effect in your own file, when the daemon starts.",
    )
    telemetry_endpoint: str | None = Field(
        default=None,
        description="Address of the collector (OTLP over HTTP), e.g. http://localhost:4318. By default the variables "
        "OTEL_EXPORTER_OTLP_… of the first client decide. Only has an effect in your own file.",
    )
    telemetry_content: bool = Field(
        default=False,
        description="Send texts too: answers, arguments and results of tools, descriptions of goals. Known secrets "
        "are removed. Only has an effect in your own file.",
    )


class DaemonSettings(_Group):
    """The daemon as a process, and its language."""

    language: Language = Field(
        default=DEFAULT,
        description="The language of everything that you read: en (English) or zh-CN (Simplified Chinese). "
        "Only has an effect in your own file and in the editor's settings. The model always reads "
        "English.",
    )
    idle_timeout_s: float = Field(
        default=1800.0,
        ge=0,
        description="Seconds without a client or a running turn after which the daemon stops; 0: never.",
    )
    preload: bool = Field(
        default=True,
        description="On Linux, keep one process ready from which the daemons of other folders start at once. It ends "
        "after an hour without such a start.",
    )
    api_port: int | None = Field(
        default=None,
        ge=0,
        le=65535,
        description="Serve the trace API (REST, WebSocket, web page) on this port of 127.0.0.1 whenever the "
        "daemon runs; 0: any free one, which is also used if the port is taken. By default the API "
        "is opened when it is first needed.",
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
    mcp: McpSettings = McpSettings()
    traces: TraceSettings = TraceSettings()
    telemetry: TelemetrySettings = TelemetrySettings()
    daemon: DaemonSettings = DaemonSettings()

    def changed(self, values: Mapping[str, Any]) -> Settings:
        """Return these settings with other values; ``values`` has keys of the file and valid values."""
        groups: dict[str, dict[str, Any]] = {}
        for key, value in values.items():
            groups.setdefault(_SUBJECTS[key], {})[key] = value
        return self.model_copy(
            update={name: getattr(self, name).model_copy(update=new) for name, new in groups.items()}
        )

    def value(self, key: str) -> Any:
        """Return the value of a key of the file."""
        return getattr(getattr(self, _SUBJECTS[key]), key)

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
