"""The code actions for a problem or a selection. Pure, and without any I/O.

An action has a command and no edit: its result needs approval like everything else that the agent does. None is
``isPreferred``, so no "fix all on save" of an editor ever starts the agent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lsp_bridge.server.editor.given import ASK, EXPLAIN, FIX, KINDS, SHOW_ANSWER, SHOW_ANSWER_TITLE
from lsp_bridge.server.editor.prompts import visible_line
from tools.localization import t

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lsp_bridge.server.editor.given import CodeActionRequest

MOST = 10
"""Problems that get an action of their own at one place."""
_SHOWN = 60
"""Characters of a problem's message in a title."""


def code_actions(
    request: CodeActionRequest,
    version: int | None,
    *,
    restricted: bool,
    literals: bool,
    answer: bool = False,
) -> list[dict[str, Any]]:
    """Return the actions at a place, as LSP has them.

    ``version``: of the open document. ``restricted``: the user does not trust the folder, so nothing is changed there.
    ``literals``: the client takes CodeAction objects; an old one takes commands only. ``answer``: there is one to show.
    """
    fixes, asks = _wanted(request.only, KINDS[0]), _wanted(request.only, KINDS[1])
    found: list[dict[str, Any]] = []

    def add(
        title: str, kind: str, command: str, at: dict[str, Any], problems: Sequence[dict[str, Any]]
    ) -> None:
        argument: dict[str, Any] = {"uri": request.uri, "range": at, "diagnostics": list(problems)}
        if version is not None:
            argument["version"] = version
        action: dict[str, Any] = {"title": title, "kind": kind}
        action["command"] = {"title": title, "command": command, "arguments": [argument]}
        if command == FIX and len(problems) == 1:
            # This ties the action to its problem. An action for several problems has them only in its argument.
            action["diagnostics"] = list(problems)
        found.append(action)

    at, problems = request.range, request.problems
    if fixes and problems:
        if not restricted:
            for problem in problems[:MOST]:
                title = t("Fix with Goalwright: {problem}", problem=_short(problem))
                add(title, KINDS[0], FIX, problem["range"], [problem])
            if len(problems) > 1:
                title = t("Fix all {count} problems here with Goalwright", count=len(problems))
                add(title, KINDS[0], FIX, at, problems)
        what = _short(problems[0]) if len(problems) == 1 else t("these {count} problems", count=len(problems))
        add(t("Explain with Goalwright: {what}", what=what), KINDS[0], EXPLAIN, at, problems)
    selected = at["start"] != at["end"]
    # An editor that requests actions at each move of the caret should find none on every line.
    if asks and (selected or not request.automatic):
        what = t("the selection") if selected else t("this line")
        add(t("Explain {what} with Goalwright", what=what), KINDS[1], EXPLAIN, at, ())
        add(t("Ask Goalwright about {what}", what=what), KINDS[1], ASK, at, ())
        if answer:
            title = t(SHOW_ANSWER_TITLE)
            show = {"title": title, "command": SHOW_ANSWER}
            found.append({"title": title, "kind": KINDS[1], "command": show})
    return found if literals else [action["command"] for action in found]


def _wanted(only: Sequence[str], kind: str) -> bool:
    """Return whether a kind is requested. Kinds are a tree: ``refactor`` includes ``refactor.extract``; empty is the
    root."""
    return not only or any(not name or kind == name or kind.startswith(f"{name}.") for name in only)


def _short(problem: dict[str, Any]) -> str:
    return visible_line(problem["message"], _SHOWN)
