"""Write the settings of VS Code and the schema of config.json from ``daemon/settings.py``.

Writes ``schemas/config.schema.json``; ``contributes.configuration`` of ``package.json``, and there the settings that an
untrusted folder cannot make, which are all that reach the daemon; the English descriptions in ``package.nls.json``; and
the table by which the extension hands the settings to the daemon (``src/daemon/settings.gen.ts``).
The settings of ``BY_HAND`` keep the words that ``package.nls.json`` has for them; their values are checked.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, cast

from daemon.settings import settings_schema

if TYPE_CHECKING:
    from pathlib import Path

GROUPS: dict[str, tuple[str, ...]] = {
    "model": ("model", "fallback_model", "models", "thinking_tokens", "max_tokens"),
    "approval": ("mode", "permission", "permission_timeout_s", "openDiffAutomatically", "notifications"),
    "commands": ("sandbox", "sandbox_network", "sandbox_writable", "test_command", "test_timeout_s", "hooks"),
    "plan": ("planner", "plan_front", "plan_placement", "allow_replan"),
    "context": (
        "includeActiveFile",
        "compact_at_tokens",
        "keep_steps",
        "context_window",
        "diagnostics_severity",
    ),
    "limits": ("budget_warning_usd", "budget_usd", "budget_tokens", "goal_budget_usd", "goal_budget_tokens"),
    "agents": (
        "max_parallel",
        "max_depth",
        "explore_choice",
        "branch_links",
        "success_target",
        "max_iterations",
    ),
    "daemon": ("python", "basePython", "language", "debug_trace", "trace.server"),
}
"""The sections, each with keys of config.json and names of settings that only VS Code has, in their order."""
ELSEWHERE = {
    "language": "goalwright.language, which also knows VS Code's own",
    "environment": "counts only in the user's file, when the daemon starts",
    "diagnostics": "counts when the daemon starts, for all windows",
    "diagnostics_timeout_s": "counts when the daemon starts, for all windows",
    "language_servers": "counts when the daemon starts, for all windows",
    "unattended_steps": "about runs without an editor",
    "unattended_usd": "about runs without an editor",
    "unattended_minutes": "about runs without an editor",
    "mcp_servers": "programs of the user, started for all windows of the folder",
    "mcp_disabled": "counts for all windows; the command MCP Servers changes it",
    "mcp_timeout_s": "counts for all windows",
    "trace_keep_days": "about all sessions of the folder, also without an editor",
    "trace_max_mb": "about all sessions of the folder, also without an editor",
    "trace_keep": "about all sessions of the folder, also without an editor",
    "telemetry": "counts only in the user's file, when the daemon starts",
    "telemetry_endpoint": "counts only in the user's file, when the daemon starts",
    "telemetry_content": "counts only in the user's file, when the daemon starts",
    "store_url": "counts only in the user's file, when the daemon starts",
    "explore_on": "counts only in the user's file: it sends code to other machines",
    "ray_address": "counts only in the user's file: it sends code to other machines",
    "ray_cpus_per_branch": "counts only in the user's file: it sends code to other machines",
    "ray_fallback": "counts only in the user's file: it sends code to other machines",
    "idle_timeout_s": "about the daemon, when no window is there",
    "preload": "about the daemon, when no window is there",
    "api_port": "about the daemon, when no window is there",
}
"""Keys that are no settings of VS Code's, and why."""
BY_HAND = frozenset(
    {
        "model", "models", "thinking_tokens", "mode", "sandbox", "sandbox_writable", "hooks", "test_command", "planner",
        "plan_front", "plan_placement", "allow_replan", "goal_budget_usd", "goal_budget_tokens", "explore_choice",
        "permission", "debug_trace",
    }
)  # fmt: skip
"""Described by hand for VS Code, because their values have names, or its Markdown makes them easier to read."""
UNSET = "Not set: as in `config.json`."
PROGRAMS = ("goalwright.python", "goalwright.basePython")
"""Settings of VS Code alone that an untrusted folder must not make, either."""
_RESTRICTED = re.compile(r'(?<="restrictedConfigurations": )\[.*?\]', re.DOTALL)
_BLOCK = re.compile(r'^    "configuration": .*?(?=^    "configurationDefaults")', re.MULTILINE | re.DOTALL)


def setting_name(key: str) -> str:
    """Return VS Code's name for a key of config.json: ``test_timeout_s`` is ``testTimeoutSeconds``."""
    words = re.sub("_s$", "_seconds", key).split("_")
    return words[0] + "".join(word.capitalize() for word in words[1:])


def generated(key: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Return the setting of a key. Its default says: as in config.json."""
    name = setting_name(key)
    shape = next((one for one in schema.get("anyOf", ()) if one.get("type") != "null"), schema)
    kind = shape.get("type", "object")
    words = {"markdownDescription": f"%setting.{name}%"}
    if kind == "boolean" or "enum" in shape:
        values = ["on", "off"] if kind == "boolean" else shape["enum"]
        return {"type": "string", "enum": ["default", *values], "default": "default", **words}
    if kind in ("integer", "number"):
        limits = {
            limit: shape[limit]
            for limit in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
            if limit in shape
        }
        return {"type": [kind, "null"], "default": None, **limits, **words}
    if kind == "array":
        return {"type": "array", "items": {"type": "string"}, "default": [], **words}
    if kind == "string":
        return {"type": "string", "default": "", **words}
    return {"type": "object", "default": {}, **words}


def manifest_block(manifest: dict[str, Any], properties: dict[str, dict[str, Any]]) -> str:
    """Return ``contributes.configuration`` as it stands in the manifest."""
    known: dict[str, dict[str, Any]] = {}
    for section in cast("list[dict[str, Any]]", manifest["contributes"]["configuration"]):
        known |= section["properties"]
    made: list[dict[str, Any]] = []
    for order, (group, keys) in enumerate(GROUPS.items(), 1):
        entries: dict[str, Any] = {}
        for place, key in enumerate(keys, 1):
            name = f"goalwright.{setting_name(key) if key in properties else key}"
            entries[name] = {**entry(name, key, known.get(name), properties.get(key)), "order": place}
        made.append({"title": f"%settings.{group}%", "order": order, "properties": entries})
    text = json.dumps(made, indent=2, ensure_ascii=False).replace("\n", "\n    ")
    return f'    "configuration": {text},\n'


def entry(
    name: str, key: str, setting: dict[str, Any] | None, schema: dict[str, Any] | None
) -> dict[str, Any]:
    """Return one setting: as it is described by hand, else made from its key."""
    if schema is None:
        if setting is None:
            raise SystemExit(f"{name} is neither a key of config.json nor in package.json")
        return setting
    if setting is not None and "enumItemLabels" in setting:
        check_values(name, setting["enum"], schema)
        return setting
    return generated(key, schema)


def check_values(name: str, values: list[str], schema: dict[str, Any]) -> None:
    """Stop when a setting that is described by hand offers other values than config.json."""
    wanted = ["on", "off"] if schema.get("type") == "boolean" else schema["enum"]
    if set(values) != {"default", *wanted}:
        raise SystemExit(f"{name} offers {values}, but config.json knows {wanted}")


def sent(properties: dict[str, Any]) -> list[str]:
    """Return the keys of the settings that reach the daemon, in their order."""
    return [key for group in GROUPS.values() for key in group if key in properties]


def table(properties: dict[str, Any]) -> str:
    """Return the module by which the extension finds the daemon's names."""
    keys = sent(properties)
    switches = [key for key in keys if properties[key].get("type") == "boolean"]
    names = "\n".join(f"  {setting_name(key)}: {json.dumps(key)}," for key in keys)
    return (
        "// Made by scripts/generate_settings.py from daemon/settings.py; do not edit.\n\n"
        "/** Settings of VS Code, and their names in config.json. */\n"
        f"export const SETTINGS: Readonly<Record<string, string>> = {{\n{names}\n}};\n\n"
        "/** Of these, the ones that are on or off. */\n"
        f"export const SWITCHES: ReadonlySet<string> = new Set({json.dumps(switches)});\n"
    )


def files(root: Path) -> dict[Path, str]:
    """Return what each file should hold."""
    extension = root / "vscode-extension"
    schema = settings_schema()
    properties = {key: resolved(value, schema) for key, value in schema["properties"].items()}
    grouped = {key for group in GROUPS.values() for key in group}
    if missing := sorted(properties.keys() - grouped - ELSEWHERE.keys()):
        raise SystemExit(f"in no group of generate_settings.py: {', '.join(missing)}")
    properties = {key: value for key, value in properties.items() if key not in ELSEWHERE}
    schema["properties"]["$schema"] = {"type": "string"}
    manifest = extension / "package.json"
    text = manifest.read_text("utf-8")
    restricted = json.dumps([*PROGRAMS, *(f"goalwright.{setting_name(key)}" for key in sent(properties))])
    text = _RESTRICTED.sub(lambda _: restricted, text)
    block = manifest_block(json.loads(text), properties)
    words = extension / "package.nls.json"
    english = json.loads(words.read_text("utf-8"))
    for key, value in properties.items():
        name = f"setting.{setting_name(key)}"
        if key not in BY_HAND or name not in english:
            english[name] = f"{value['description']} {UNSET}"
    return {
        extension / "schemas" / "config.schema.json": json.dumps(schema, indent=2) + "\n",
        manifest: _BLOCK.sub(lambda _: block, text),
        words: json.dumps(english, indent=2, ensure_ascii=False) + "\n",
        extension / "src" / "daemon" / "settings.gen.ts": table(properties),
    }


def resolved(value: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """Return a property with what it refers to."""
    reference = value.get("$ref", "")
    return {**schema["$defs"][reference.rpartition("/")[2]], **value} if reference else value
