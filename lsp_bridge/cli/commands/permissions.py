"""``goalwright permissions``, ``mode`` and ``trust``: what runs without approval."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from daemon.runtime import state_dir
from daemon.workspace_key import real_workspace
from lsp_bridge.cli.commands.session_command import (
    CommandFailedError,
    SessionConnection,
    session_command,
)
from lsp_bridge.cli.invocation import EXIT_FAILED, EXIT_OK, Invocation
from lsp_bridge.cli.text import clean, shown_line
from lsp_bridge.protocol.permission_text import reason_lines, rule_words
from tools.json_access import mapping, mappings, string, strings
from tools.localization import noted, t

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lsp_bridge.cli.console import Console

_SCOPES = {
    "session": noted("this session"),
    "workspace": noted("this workspace"),
    "user": noted("everywhere"),
}
_TRUST = {
    "trusted": noted("trusted: its settings, hooks and instructions are used"),
    "unknown": noted(
        "not trusted: its settings can only tighten yours, and its instructions are ignored (`goalwright "
        "trust`)"
    ),
    "restricted": noted("restricted by the editor: nothing can be changed or run"),
}


@session_command(needed=False)
async def rules(cli: Invocation, asked: SessionConnection) -> None:
    """List the grants, and the rules."""
    found = await asked.request("goalwright/permission/rules")
    if not cli.wrote_json(found):
        _show_rules(found, cli.console)


@session_command(needed=False)
async def forget(cli: Invocation, asked: SessionConnection, *, ids: Sequence[str]) -> None:
    """Take grants back, by their ids or their numbers in the list."""
    known = mappings((await asked.request("goalwright/permission/rules")).get("grants"))
    there = [string(grant.get("grantId")) for grant in known]
    wanted = [_grant_id(text, there) for text in ids]
    found = await asked.request("goalwright/permission/forget", grantIds=wanted)
    if cli.wrote_json(found):
        return
    for grant in mappings(found.get("forgotten")):
        what = shown_line(f"{string(grant.get('permission'))}: {string(grant.get('pattern'))}")
        cli.console.write(t("No longer allowed: {what}\n", what=what))


@session_command(needed=False)
async def explain(cli: Invocation, asked: SessionConnection, *, permission: str, target: str) -> None:
    """Print what would happen, and the rule that decides."""
    found = await asked.request("goalwright/permission/explain", permission=permission, target=target)
    if cli.wrote_json(found):
        return
    console = cli.console
    console.problems(found)
    console.write(f"{string(found.get('action'))}\n")
    for line in reason_lines(found.get("reasons")):
        console.write(f"  {line}\n")
    for warning in strings(found.get("warnings")):
        console.line(console.style.red(f"  ! {shown_line(warning)}"))


def _grant_id(text: str, ids: list[str]) -> str:
    """Return a grant by its id, or by its number in the list."""
    if text in ids:
        return text
    if text.isdecimal() and 0 < int(text) <= len(ids):
        return ids[int(text) - 1]
    raise CommandFailedError(
        t("There is no grant {text}. `goalwright permissions` lists them with their numbers.", text=text)
    )


def _show_rules(found: dict[str, Any], console: Console) -> None:
    style = console.style
    console.problems(found)
    mode, trust = string(found.get("mode")), string(found.get("trust"))
    console.write(t("mode {mode}; this folder is {trust}\n", mode=mode, trust=t(_TRUST.get(trust, trust))))
    grants = mappings(found.get("grants"))
    console.write(t("\nGranted (remove one with: goalwright permissions forget NUMBER):\n"))
    for number, grant in enumerate(grants, 1):
        scope = t(_SCOPES.get(string(grant.get("scope")), string(grant.get("scope"))))
        when = string(grant.get("grantedAt"))[:16].replace("T", " ")
        about = ", ".join(filter(None, [scope, when, string(grant.get("by"))]))
        what = shown_line(f"{string(grant.get('permission'))}: {string(grant.get('pattern'))}")
        console.write(f"{number:>4}  {what}  {style.dim(shown_line(f'({about})'))}\n")
    if not grants:
        console.write(t("      nothing\n"))
    console.write(t("\nRules, lowest priority first; the last matching rule decides:\n"))
    for rule in mappings(found.get("rules")):
        idle = rule.get("idle") is True
        why = t(" (gives no permission, because the folder is not trusted)") if idle else ""
        console.write(f"      {rule_words(rule)}{why}\n")


@session_command()
async def mode(cli: Invocation, asked: SessionConnection, *, mode: str | None) -> None:
    """Show or set the permission mode of a session."""
    if mode is None:
        info = mapping((await asked.load()).get("session"))
    else:
        info = mapping((await asked.request("goalwright/session/set", mode=mode)).get("session"))
    if not cli.wrote_json({"sessionId": asked.session, "mode": info.get("mode"), "trust": info.get("trust")}):
        cli.console.write(f"{clean(string(info.get('mode')))}\n")


def trust(cli: Invocation, *, remove: bool) -> int:
    """Trust a folder, or no longer; returns the exit code. Needs no daemon: one that runs reads the list again."""
    from daemon.trust import TrustedFolders

    console, folders = cli.console, TrustedFolders(state_dir())
    folder = real_workspace(cli.workspace)
    name = shown_line(str(folder))
    if not remove and not os.path.isdir(folder):  # noqa: PTH112 - pathlib fails for a name that is too long
        return cli.failed(CommandFailedError(t("{folder} is not a folder.", folder=name)))
    try:
        changed = folders.remove(folder) if remove else folders.trust(folder) != "trusted"
        if not remove:
            folders.add(folder)
    except OSError as error:
        why = error.strerror or error
        words = t("{state_dir} cannot be written: {strerror}.", state_dir=state_dir(), strerror=why)
        return cli.failed(CommandFailedError(words))
    now = folders.trust(folder)
    stays = remove and now == "trusted"
    if cli.wrote_json({"folder": str(folder), "trust": now}):
        return EXIT_FAILED if stays else EXIT_OK
    if stays:
        above = shown_line(str(next(f for f in folders.folders() if folder.is_relative_to(f))))
        console.warn(t("{folder} is still trusted, because {above} is.", folder=name, above=above))
        return EXIT_FAILED
    told = noted("{folder} is now {trust}.\n") if changed else noted("{folder} was {trust}.\n")
    console.write(t(told, folder=name, trust=t(_TRUST[now])))
    return EXIT_OK
