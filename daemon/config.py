"""Settings: shipped defaults < the user's file < the workspace's file < the editor < the command line.

The workspace's file is untrusted input: until the person trusts the folder, only ``permission`` and ``mode`` are taken
from it, and they can only tighten. A wrong setting is reported in words and left out; it never stops the daemon.
"""

from __future__ import annotations

import errno
import json
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from daemon.model.goals import PlanFront
from daemon.model.permissions import Mode, Rule, RuleSource
from daemon.permission.rules import SHIPPED, rules_from_config
from tools.files.regular_files import read_regular
from tools.localization import DEFAULT, Language, language, noted, t, unknown_language
from tools.sandbox.policy import SandboxPolicy, Setting, policy_for

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

WORKSPACE_FILE = Path(".goalwright") / "config.json"
MAX_FILE = 1_000_000
"""Bytes of a configuration file."""
_MODEL = re.compile(r"[^\s/]+/\S+")

Action = Literal["allow", "ask", "deny"]


class Hook(BaseModel):
    """A program that is told of a key moment: JSON on its stdin, and on its stdout what it has to say."""

    model_config = ConfigDict(extra="forbid", frozen=True)

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


class LanguageServerSetting(BaseModel):
    """What the person wants to be different about a language server, or one that Goalwright does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True)

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


class Settings(BaseModel):
    """The keys of ``config.json``; the JSON schema that editors complete is made from this class."""

    model_config = ConfigDict(extra="forbid", frozen=True, title="Goalwright settings")

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
    permission: dict[str, Action | dict[str, Action]] | list[dict[str, str]] | None = Field(
        default=None,
        description='Rules: {"bash": "ask", "edit": {"*.lock": "deny"}}. The last rule that matches decides; the '
        "file of a workspace that is not trusted can only make things stricter.",
    )
    language: Language = Field(
        default=DEFAULT,
        description="The language of everything that you read: en (English) or zh-CN (Simplified Chinese). Counts "
        "in your own file and the editor's settings. What the model reads stays English.",
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
        description="Programs that are told of key moments, by name: session.start, session.end, "
        "prompt.system, prompt.submit, "
        "tool.execute.before, tool.execute.after, permission.asked, compaction.before, goal.completed.",
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
    plan_placement: Literal["last_message", "system", "on_demand"] = Field(
        default="last_message",
        description="Where the current plan stands in a request; on_demand: nowhere, it is read by read_progress.",
    )
    plan_front: PlanFront = Field(
        default="goal",
        description="The tool by which the model keeps its plan. goal: a tree, goals can be given up and their files "
        "taken back; step: a plain list (plan, focus, complete).",
    )
    compact_at_tokens: int | None = Field(
        default=None,
        ge=1_000,
        description="Compact the context above this many tokens; else at 75 % of the window (70 % of a large one).",
    )
    keep_steps: int | None = Field(
        default=None, ge=1, le=100, description="How many of the last steps a compaction leaves whole."
    )
    context_window: int | None = Field(
        default=None,
        ge=1_024,
        description="Tokens the model can take. Without it the model's server is asked, or a table of known models. "
        "The system prompt and the tools alone take about 4,500.",
    )
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
    test_command: str | None = Field(
        default=None,
        description='What tests a branch, e.g. pytest -q. Without it, it is found by the project\'s files; "": none.',
    )
    test_timeout_s: float = Field(
        default=600.0, gt=0, le=7200, description="Seconds that the test command may take."
    )
    planner: Literal["in_loop", "layered", "signposts", "on_demand"] = Field(
        default="in_loop",
        description="in_loop: the model keeps its plan while it works. layered: it plans first, then each step is a "
        "run of its own. signposts: a light plan first, then it works freely. on_demand: it plans anew when it fails, "
        "runs in circles, or you ask for it.",
    )
    allow_replan: bool = Field(
        default=True,
        description="When a step of a plan fails, let the model make a new plan for what is left. false: the plan ends "
        "there with an error that says so. A plan that you ask for is always made.",
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

    def sandbox_policy(self) -> SandboxPolicy:
        """Where commands run that pass without a question."""
        return policy_for(self.sandbox, network=self.sandbox_network)


@dataclass(frozen=True, slots=True)
class Config:
    """The merged settings, the rules by layer, and what was wrong on the way."""

    settings: Settings = field(default_factory=lambda: Settings())
    base_rules: tuple[Rule, ...] = SHIPPED
    workspace_rules: tuple[Rule, ...] = ()
    trusted: bool = False
    """The workspace's file counts in full; else it can only tighten permissions."""
    problems: tuple[str, ...] = ()
    """What was left out, for the person to know."""
    blocking: tuple[str, ...] = ()
    """What may have held a prohibition and could not be read: nothing is to be done until it can."""

    def overlaid(self, values: Mapping[str, Any], source: RuleSource, name: str, file: str = "") -> Config:
        """This configuration with another layer of trusted settings over it; ``file``: where its rules stand."""
        settings, problems = self._settings_with(values, name)
        rules, blocking = _rules(values, source, name, file)
        return replace(
            self,
            settings=settings,
            base_rules=(*self.base_rules, *rules),
            problems=(*self.problems, *problems),
            blocking=(*self.blocking, *blocking),
        )

    def with_workspace(self, values: Mapping[str, Any], *, trusted: bool) -> Config:
        """This configuration (shipped and the user's) with the workspace's file over it."""
        name = WORKSPACE_FILE.as_posix()
        rules, blocking = _rules(values, "workspace", name, name)
        if trusted:
            settings, problems = self._settings_with(
                {k: v for k, v in values.items() if k not in _USERS_OWN}, name
            )
            problems += [
                t(
                    "{name}: {key}: counts only in your own file, ~/.goalwright/config.json",
                    name=name,
                    key=key,
                )
                for key in _USERS_OWN
                if key in values
            ]
        else:
            settings = self._tightened(values)
            problems = _ignored(values, rules, name, settings.mode)
        return replace(
            self,
            settings=settings,
            workspace_rules=tuple(rules),
            trusted=trusted,
            problems=(*self.problems, *problems),
            blocking=(*self.blocking, *blocking),
        )

    def _settings_with(self, values: Mapping[str, Any], name: str) -> tuple[Settings, list[str]]:
        # Rules go rule by rule, not as one setting: a wrong entry must not take a prohibition with it.
        valid, problems = _valid({k: v for k, v in values.items() if k != "permission"}, name)
        merged = {**self.settings.model_dump(), **valid}
        if hooks := valid.get("hooks"):
            # Those of every layer are told: a hook that guards something is not taken away by another's.
            merged["hooks"] = dict(self.settings.hooks)
            for event, more in hooks.items():
                merged["hooks"][event] = (*self.settings.hooks.get(event, ()), *more)
        if servers := valid.get("language_servers"):
            merged["language_servers"] = {**self.settings.language_servers, **servers}
        if models := valid.get("models"):
            merged["models"] = {**self.settings.models, **models}
        return Settings.model_validate(merged), problems

    def _tightened(self, values: Mapping[str, Any]) -> Settings:
        wanted = next((mode for mode in _MODES if mode == values.get("mode")), None)
        if wanted is None or _MODES.index(wanted) >= _MODES.index(self.settings.mode):
            return self.settings
        return self.settings.model_copy(update={"mode": wanted})


_USERS_OWN = ("environment", "language")
"""Settings that the workspace's file cannot set, trusted or not."""
_MODES: tuple[Mode, ...] = ("plan", "ask", "accept-edits", "auto")
"""The strictest first."""


def load_config(workspace: Path, user_file: Path, *, trusted: bool = False) -> Config:
    """Read the user's and the workspace's file; both may be missing.

    ``trusted``: the person trusts the workspace's folder, so its file counts in full: its settings over the user's,
    its rules may loosen, and its programs (hooks) are run.
    """
    values, unread = _read(user_file)
    config = Config().overlaid(values, "user", str(user_file), str(user_file))
    local, unread_here = _read(workspace / WORKSPACE_FILE)
    config = config.with_workspace(local, trusted=trusted)
    return replace(config, blocking=(*unread, *unread_here, *config.blocking))


def _rules(
    values: Mapping[str, Any], source: RuleSource, name: str, file: str
) -> tuple[list[Rule], list[str]]:
    """The rules of one file, and what may have been one and cannot be read."""
    rules, wrong = rules_from_config(values.get("permission"), source)
    blocking = [*_misnamed(values, name), *(f"{name}: {text}" for text in wrong)]
    return [rule.model_copy(update={"file": file}) for rule in rules] if file else rules, blocking


def _ignored(values: Mapping[str, Any], rules: Sequence[Rule], name: str, mode: Mode) -> list[str]:
    """What of an untrusted workspace's file does not count, and how it would."""
    ignored = sorted(set(values) - {"permission", "mode", "$schema"})
    if values.get("mode") not in (None, mode):
        ignored.append("mode")
    if any(rule.action == "allow" for rule in rules):
        ignored.append(t("rules that allow"))
    if not ignored:
        return []
    return [
        t(
            "{name}: {ignored} ignored: this folder is not trusted, so its file can only tighten "
            "permissions. If it is yours, run `goalwright trust` in it, or trust it in the editor.",
            name=name,
            ignored=", ".join(ignored),
        )
    ]


def _read(path: Path) -> tuple[dict[str, Any], list[str]]:
    try:
        if path.exists() and not path.is_file():
            return {}, [t("{path} is not used: it is not a file.", path=path)]
        data = read_regular(path, MAX_FILE, follow=True)
        value: object = json.loads(data.decode("utf-8-sig"))
    except FileNotFoundError:
        return {}, []
    except OSError as error:
        if error.errno == errno.EFBIG:
            return {}, [
                t("{path} is not used: it has more than {max_file:,} bytes.", path=path, max_file=MAX_FILE)
            ]
        return {}, [t("{path} is not used: {error}", path=path, error=error)]
    except (ValueError, RecursionError) as error:
        return {}, [t("{path} is not used: {error}", path=path, error=error)]
    if not isinstance(value, dict):
        return {}, [t("{path} is not used: it must hold a JSON object.", path=path)]
    return cast("dict[str, Any]", value), []


def _misnamed(values: Mapping[str, Any], name: str) -> list[str]:
    """Keys that were probably meant to be ``permission``."""
    return [
        t("{name}: {key}: is not a setting; did you mean permission?", name=name, key=key)
        for key in values
        if key not in Settings.model_fields and key.lower().startswith(("permission", "rule"))
    ]


def _valid(values: Mapping[str, Any], name: str) -> tuple[dict[str, Any], list[str]]:
    valid: dict[str, Any] = {}
    problems: list[str] = []
    for key, value in values.items():
        if key == "$schema" or value is None:
            continue
        if key == "language_servers" and isinstance(value, dict):
            value, wrong = _valid_servers(cast("dict[str, Any]", value), name)
            problems += wrong
        if key == "models" and isinstance(value, dict):
            value, wrong = _valid_models(cast("dict[str, Any]", value), name)
            problems += wrong
        try:
            parsed = Settings.model_validate({key: value})
        except ValidationError as error:
            what = unknown_language(value) if key == "language" else _wrong(error)
            problems.append(f"{name}: {key}: {what}")
        else:
            valid[key] = getattr(parsed, key)
    return valid, problems


def _wrong(error: ValidationError) -> str:
    """Say what is wrong with a value."""
    first = error.errors()[0]
    known = _WRONG.get(first["type"])
    if known is None:
        # The words of pydantic are English only.
        return first["msg"].lower() if language() == DEFAULT else t("the value is not possible")
    context = {name: value for name, value in first.get("ctx", {}).items() if name != "error"}
    if "expected" in context:
        context["expected"] = str(context["expected"]).replace(" or ", t(" or "))
    return t(known, **context)


_WRONG = {
    "extra_forbidden": noted("is not a setting"),
    "literal_error": noted("input should be {expected}"),
    "bool_parsing": noted("input should be a valid boolean"),
    "bool_type": noted("input should be a valid boolean"),
    "int_parsing": noted("input should be a valid integer"),
    "int_type": noted("input should be a valid integer"),
    "int_from_float": noted("input should be a valid integer"),
    "float_parsing": noted("input should be a valid number"),
    "float_type": noted("input should be a valid number"),
    "string_type": noted("input should be a valid string"),
    "dict_type": noted("input should be a valid dictionary"),
    "tuple_type": noted("input should be a valid list"),
    "greater_than": noted("input should be greater than {gt}"),
    "greater_than_equal": noted("input should be greater than or equal to {ge}"),
    "less_than": noted("input should be less than {lt}"),
    "less_than_equal": noted("input should be less than or equal to {le}"),
}
"""What pydantic calls an error, and how it is said."""


def _valid_servers(servers: Mapping[str, Any], name: str) -> tuple[dict[str, Any], list[str]]:
    """One by one: a wrong server is left out alone."""
    valid: dict[str, Any] = {}
    problems: list[str] = []
    for server, value in servers.items():
        try:
            valid[server] = LanguageServerSetting.model_validate(value)
        except ValidationError as error:
            where = ": ".join(("language_servers", server, *map(str, error.errors()[0]["loc"])))
            problems.append(f"{name}: {where}: {_wrong(error)}")
    return valid, problems


def _valid_models(models: Mapping[str, Any], name: str) -> tuple[dict[str, str], list[str]]:
    """Keep the agents whose model is written as ``provider/model``; report the others one by one."""
    valid: dict[str, str] = {}
    problems: list[str] = []
    for agent, model in models.items():
        if isinstance(model, str) and _MODEL.fullmatch(model.strip()):
            valid[agent] = model.strip()
        elif model not in ("", None):
            problems.append(
                t(
                    "{name}: models: {agent}: {model!r} is not a model. Write provider/model, for example "
                    "anthropic/claude-sonnet-5-5.",
                    name=name,
                    agent=agent,
                    model=model,
                )
            )
    return valid, problems


def settings_schema() -> str:
    """The JSON schema of ``config.json`` as text, for the extension (``make generate``)."""
    schema = Settings.model_json_schema()
    schema["properties"]["$schema"] = {"type": "string"}
    return json.dumps(schema, indent=2) + "\n"
