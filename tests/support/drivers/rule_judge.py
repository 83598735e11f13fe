"""The adapter's work, see ``tests/rules.py``."""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast, get_args

from msgspec.structs import replace

from daemon.model.permissions import Action, Mode, Reason, Rule, RuleSource, Trust
from daemon.permission.layers import UNMATCHED
from daemon.permission.rules import SHIPPED, RuleSet, rule_words
from daemon.settings import CommandSettings
from tools.access import Access
from tools.sandbox.policy import policy_for
from tools.shell.question import CommandPlace, question
from tools.tool import PermissionAsk

WORKSPACE = "/workspace"
HOME = "/home/user"
_FIVE: tuple[RuleSource, ...] = ("shipped", "user", "workspace", "session", "agent")


class NotUnderstoodError(Exception):
    """The line is not a case; the message says why."""


def serve() -> None:
    """Answer each line of stdin. Never raises for what stands in a line."""
    for raw in sys.stdin.buffer:
        line = raw.decode("utf-8", "replace").strip().removeprefix("\ufeff")
        if line:
            sys.stdout.buffer.write(json.dumps(answer(line), ensure_ascii=True).encode() + b"\n")
            sys.stdout.buffer.flush()


def answer(line: str) -> dict[str, Any]:
    """Return the object that is written for one line."""
    try:
        return judged(json.loads(line))
    except NotUnderstoodError as error:
        return {"error": str(error)}
    except (ValueError, RecursionError) as error:
        return {"error": f"not JSON: {error}"}
    except Exception as error:  # a bug of ours must not end the run of somebody's cases
        return {"error": f"{error.__class__.__name__}: {error}"}


def reason_words(reason: Reason) -> str:
    """Describe one access of a call: "deny read .env (argument of cat): your rule `read: *.env → deny`"."""
    why = f" ({reason.why})" if reason.why else ""
    return f"{reason.action} {reason.permission} {reason.target}{why}: {rule_words(reason.rule)}"


def judged(case: object) -> dict[str, Any]:
    """The decision about one case. Raises NotUnderstoodError."""
    if not isinstance(case, dict):
        raise NotUnderstoodError("a case is a JSON object")
    fields = cast("dict[str, Any]", case)
    layers = _layers(fields.get("layers"))
    workspace, home = _text(fields, "workspace", WORKSPACE), _text(fields, "home", HOME)
    with _home(home):
        rules = _rule_set(layers, fields, workspace)
        ask = _ask(fields, workspace, home)
        contained, lifted = _sandbox(fields)
        verdict = rules.judge(replace(ask, contained=contained, lifted=lifted))
        reasons = [reason_words(reason) for reason in verdict.reasons]
    decisive, where = verdict.rule, None
    for index, layer in enumerate(layers):
        if any(rule is decisive for rule in layer):
            where = index
    found: dict[str, Any] = {
        "action": verdict.action,
        "rule": None if where is None else [decisive.permission, decisive.pattern, decisive.action],
        "layer": where,
        "source": "unmatched" if decisive is UNMATCHED else decisive.source,
        "why": decisive.pattern if decisive.source in ("protected", "mode") else verdict.reasons[0].why,
        "reasons": reasons,
    }
    found |= {"id": fields["id"]} if "id" in fields else {}
    return found | ({"warnings": list(ask.warnings)} if ask.warnings else {})


def _rule_set(layers: Sequence[Sequence[Rule]], fields: Mapping[str, Any], workspace: str) -> RuleSet:
    mode = next((known for known in get_args(Mode) if known == fields.get("mode", "ask")), None)
    if mode is None:
        raise NotUnderstoodError(f"the mode is one of {', '.join(get_args(Mode))}")
    trusted = _flag(fields, "trusted")
    trust: Trust = "restricted" if _flag(fields, "restricted") else "trusted" if trusted else "unknown"
    if len(layers) != len(_FIVE):
        flat = [rule for layer in layers for rule in layer]
        return RuleSet(flat, mode=mode, trust=trust, root=workspace)
    shipped, user, local, session, agent = layers
    return RuleSet(
        (*shipped, *user), local, session, agent, trusted=trusted, mode=mode, trust=trust, root=workspace,
        insists=str(fields.get("insists", "")).split(","),
    )  # fmt: skip


def _layers(value: object) -> list[list[Rule]]:
    if not isinstance(value, list):
        raise NotUnderstoodError("layers is a list of lists of [permission, pattern, action]")
    layers = cast("list[object]", value)
    if len(layers) != len(_FIVE):
        return [_layer(layer, "user") for layer in layers]
    return [_layer(layer, source) for layer, source in zip(layers, _FIVE, strict=True)]


def _layer(value: object, source: RuleSource) -> list[Rule]:
    if value == "shipped":  # short for the table: the rules that are shipped
        return [rule.model_copy() for rule in SHIPPED]
    if not isinstance(value, list):
        raise NotUnderstoodError("a layer is a list of [permission, pattern, action]")
    return [_rule(entry, source) for entry in cast("list[object]", value)]


def _rule(value: object, source: RuleSource) -> Rule:
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        value = [fields.get("permission"), fields.get("pattern", "*"), fields.get("action")]
    entry = cast("list[Any]", value) if isinstance(value, list) else []
    if len(entry) != 3 or not all(isinstance(part, str) for part in entry):
        raise NotUnderstoodError(f"{value!r} is not [permission, pattern, action]")
    permission, pattern, action = entry
    if action not in get_args(Action):
        raise NotUnderstoodError(f"{action!r}: the action must be allow, ask or deny")
    return Rule(permission=permission, pattern=pattern, action=action, source=source)


def _ask(fields: Mapping[str, Any], workspace: str, home: str) -> PermissionAsk:
    if "bash" in fields:
        command = fields["bash"]
        if not isinstance(command, str):
            raise NotUnderstoodError("bash is a command line")
        return _question(command, workspace, home)
    permission, target = fields.get("permission"), fields.get("target")
    if not isinstance(permission, str) or not isinstance(target, str):
        raise NotUnderstoodError("a case has a permission and a target, or bash")
    if permission in ("read", "edit", "ls", "write", "patch") and (target == "~" or target.startswith("~/")):
        target = home + target[1:]
    implied, several = _flag(fields, "implied"), _flag(fields, "several")
    if implied or several:
        access = Access(permission, target, implied=implied, several=several)
        return PermissionAsk(permission, (), target, accesses=(access,))
    return PermissionAsk(permission, (target,), target)


def _sandbox(fields: Mapping[str, Any]) -> tuple[bool, bool]:
    """Whether the command would run in a sandbox, and whether that answers general questions."""
    setting = fields.get("sandbox", "workspace-write" if _flag(fields, "sandboxed") else "off")
    if setting not in (settings := get_args(CommandSettings.model_fields["sandbox"].annotation)):
        raise NotUnderstoodError(f"sandbox is one of {', '.join(settings)}")
    policy = policy_for(setting)
    return policy.kind != "off", policy.lifts


@functools.lru_cache(maxsize=1_000)
def _question(command: str, workspace: str, home: str) -> PermissionAsk:
    # The same line is often asked about under several rule sets, and to parse it takes most of the time.
    place = CommandPlace(Path(workspace), Path(home), variables={"HOME": home, "PWD": workspace})
    return question(command, place)


def _text(fields: Mapping[str, Any], name: str, default: str) -> str:
    value = fields.get(name, default)
    if not isinstance(value, str) or not value.startswith("/"):
        raise NotUnderstoodError(f"{name} is an absolute path")
    return value.rstrip("/") or "/"


def _flag(fields: Mapping[str, Any], name: str) -> bool:
    value = fields.get(name, False)
    if not isinstance(value, bool):
        raise NotUnderstoodError(f"{name} is true or false")
    return value


@contextmanager
def _home(folder: str):
    """The environment's home while one case is judged, and none of the real state folder."""
    kept = {name: os.environ.pop(name, None) for name in ("HOME", "GOALWRIGHT_HOME")}
    os.environ["HOME"] = folder
    try:
        yield
    finally:
        for name, value in kept.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
