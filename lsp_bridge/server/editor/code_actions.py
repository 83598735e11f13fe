"""The code actions for a problem or a selection. Pure, and without any I/O.

An action has a command and no edit: its result needs approval like everything else that the agent does. None is
``isPreferred``, so no "fix all on save" of an editor ever starts the agent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lsprotocol import types

from lsp_bridge.server.editor.command_arguments import (
    ASK,
    EXPLAIN,
    FIX,
    KINDS,
    SHOW_ANSWER,
    SHOW_ANSWER_TITLE,
)
from lsp_bridge.server.editor.prompts import one_line
from tools.localization import t

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST = 10
"""Problems that get an action of their own at one place."""
_SHOWN = 60
"""Characters of a problem's message in a title."""


def code_actions(
    params: types.CodeActionParams,
    version: int | None,
    *,
    restricted: bool,
    literals: bool,
    answer: bool = False,
) -> list[types.Command | types.CodeAction]:
    """Return the actions at ``params.range``; the problems are those that ``sanitize`` has left.

    ``version``: of the open document. ``restricted``: the user does not trust the folder, so nothing is changed there.
    ``literals``: the client takes CodeAction objects; an old one takes commands only. ``answer``: there is one to show.
    """
    uri, context = params.text_document.uri, params.context
    fixes, asks = _wanted(context.only, KINDS[0]), _wanted(context.only, KINDS[1])
    found: list[types.CodeAction] = []

    def add(
        title: str,
        kind: types.CodeActionKind,
        command: str,
        at: types.Range,
        problems: Sequence[types.Diagnostic],
    ) -> None:
        argument = _argument(uri, at, version, problems)
        found.append(
            types.CodeAction(
                title=title,
                kind=kind,
                # This ties the action to its problem. An action for several problems has them only in its argument.
                diagnostics=list(problems) if command == FIX and len(problems) == 1 else None,
                command=types.Command(title=title, command=command, arguments=[argument]),
            )
        )

    problems = context.diagnostics
    if fixes and problems:
        if not restricted:
            for problem in problems[:MOST]:
                add(
                    t("Fix with Goalwright: {problem}", problem=_short(problem)),
                    KINDS[0],
                    FIX,
                    problem.range,
                    [problem],
                )
            if len(problems) > 1:
                add(
                    t("Fix all {count} problems here with Goalwright", count=len(problems)),
                    KINDS[0],
                    FIX,
                    params.range,
                    problems,
                )
        what = _short(problems[0]) if len(problems) == 1 else t("these {count} problems", count=len(problems))
        add(t("Explain with Goalwright: {what}", what=what), KINDS[0], EXPLAIN, params.range, problems)
    selected = params.range.start != params.range.end
    # An editor that requests actions at each move of the caret should find none on every line.
    if asks and (selected or context.trigger_kind != types.CodeActionTriggerKind.Automatic):
        what = t("the selection") if selected else t("this line")
        add(t("Explain {what} with Goalwright", what=what), KINDS[1], EXPLAIN, params.range, ())
        add(t("Ask Goalwright about {what}", what=what), KINDS[1], ASK, params.range, ())
        if answer:
            show = types.Command(t(SHOW_ANSWER_TITLE), SHOW_ANSWER)
            found.append(types.CodeAction(title=t(SHOW_ANSWER_TITLE), kind=KINDS[1], command=show))
    if literals:
        return list(found)
    return [action.command for action in found if action.command is not None]


def _wanted(only: Sequence[types.CodeActionKind | str] | None, kind: types.CodeActionKind) -> bool:
    """Return whether a kind is requested. Kinds are a tree: ``refactor`` includes ``refactor.extract``; empty is the
    root."""
    if not only:
        return True
    names = [str(getattr(one, "value", one)) for one in only]
    return any(not name or kind.value == name or kind.value.startswith(f"{name}.") for name in names)


def _short(problem: types.Diagnostic) -> str:
    return one_line(problem.message, _SHOWN)


def _argument(
    uri: str, at: types.Range, version: int | None, problems: Sequence[types.Diagnostic]
) -> dict[str, Any]:
    argument: dict[str, Any] = {
        "uri": uri,
        "range": _span(at),
        "diagnostics": [_told(one) for one in problems],
    }
    return argument if version is None else argument | {"version": version}


def _told(problem: types.Diagnostic) -> dict[str, Any]:
    told = {
        "message": problem.message,
        "source": problem.source,
        "code": problem.code,
        "severity": None if problem.severity is None else int(problem.severity),
        "range": _span(problem.range),
    }
    return {name: value for name, value in told.items() if value is not None}


def _span(at: types.Range) -> dict[str, Any]:
    return {
        "start": {"line": at.start.line, "character": at.start.character},
        "end": {"line": at.end.line, "character": at.end.character},
    }
