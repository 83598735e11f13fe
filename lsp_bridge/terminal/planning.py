"""``goalwright plan replan`` and ``goalwright plan build``: a new plan for what is left, and its carrying out."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lsp_bridge.launch import Launcher
from lsp_bridge.loose import string
from lsp_bridge.terminal.asking import Asked, Failed, about_session
from lsp_bridge.terminal.console import Console
from lsp_bridge.terminal.plan import show_plan
from lsp_bridge.terminal.run import EXIT_OK, RunOptions, run
from lsp_bridge.terminal.text import one_line
from tools.localization import t

_REPLAN_S = 3600.0


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """What is asked for. ``session`` None: the newest of this person."""

    action: Literal["replan", "build"]
    workspace: Path
    session: str | None = None
    reason: str = ""
    """What is wrong with the plan."""
    yes: bool = False
    json: bool = False


async def plan(options: PlanOptions, launcher: Launcher, console: Console) -> int:
    """Do it, show it, and return the exit code."""
    prompts: list[tuple[str, str]] = []

    async def work(asked: Asked) -> None:
        if options.action == "build":
            built = await asked.request("goalwright/plan/build", start=False)
            prompts.append((asked.session, string(built.get("prompt"))))
            return
        done = await asked.request("goalwright/plan/replan", _REPLAN_S, reason=options.reason)
        after = await asked.load()
        if options.json:
            plan = {key: after.get(key) for key in ("goalTree", "goalNumbers")}
            console.write(json.dumps({**done, **plan}) + "\n")
            return
        if done.get("stopReason") not in ("end_turn", None):
            raise Failed(
                string(done.get("detail"))
                or t("No plan was made: {stop_reason}.", stop_reason=string(done.get("stopReason")))
            )
        if detail := one_line(string(done.get("detail"))):
            console.write(detail + "\n")
        show_plan(console, after)

    code = await about_session(
        options.workspace, options.session, launcher, console, work, as_json=options.json
    )
    if code != EXIT_OK or not prompts:
        return code
    # The building is followed as every run is: its questions want answers.
    session, prompt = prompts[0]
    building = RunOptions(options.workspace, prompt, session=session, yes=options.yes, json=options.json)
    return await run(building, launcher, console)
