"""Texts about an exploration: for its branches, and for the main session when they have ended. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from daemon.model.tags import plain
from tools.localization import t
from tools.text.truncate import head, one_line, tail

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from daemon.model.branches import BranchMeta
    from daemon.model.messages import StopReason

MAX_RESULT = 24_000
"""Most characters of all summaries together for the main session."""
_MOST, _LEAST = 6_000, 1_500
"""Characters of one of them."""
_TITLE = 200
_TAIL = 600

NOT_OURS = (
    "Background jobs that were started before are not yours, and unsaved editor changes are not in your copy."
)


def task_text(
    name: str,
    direction: str,
    others: Sequence[tuple[str, str]],
    copy: Path,
    *,
    background: str | None,
    plan: str,
) -> str:
    """Return the prompt of a branch. ``others``: names and directions of the other branches; ``plan``: the main
    session's."""
    lines: list[str] = []
    if background is not None:
        lines += ["# Background", "", background.strip(), ""]
    elif plan:
        lines += [
            "The plan of the main session, for your information; your own plan is separate:",
            "",
            plan,
            "",
        ]
    rivals = "; ".join(f"{other} ({one_line(words, _TITLE)})" for other, words in others)
    lines += [
        f"# You are branch {name}",
        "",
        "Several approaches are explored in parallel, each in its own copy of the workspace. Yours is "
        f"{copy}: work only there. The workspace itself is unchanged until a branch is chosen.",
        "",
        f"**Your direction**: {direction.strip()}",
    ]
    if rivals:
        lines.append(
            f"**Other branches try**: {rivals}. Leave that to them: work only on your own direction, and "
            "finish it."
        )
    lines += [
        "",
        f"{NOT_OURS} You cannot ask the user anything: decide, and say what you decided.",
        "Finish with a summary in a few sentences, so that the branches can be compared: what was done and "
        "where, whether it is complete and tested, advantages, disadvantages.",
    ]
    return "\n".join(lines)


def unfinished_summary(stop: StopReason, detail: str, last_words: str) -> str:
    """Return the summary of a branch that did not come to its end."""
    how = {
        "canceled": t("Canceled before it finished"),
        "permission_denied": t("Stopped because the user rejected a request"),
        "max_tokens": t("Its last answer was truncated"),
        "error": t("Failed"),
        "end_turn": t("It ended without a report"),
    }.get(stop, t("Stopped"))
    detail = detail.strip()
    why = f": {detail}" if detail and detail != t("Canceled.") else ""
    words = last_words.strip()
    said = t(" Its last message: {words}", words=words) if words else ""
    return f"{how}{why}{'' if why.endswith(('.', '!', '?')) else '.'}{said}"


def results_text(
    branches: Sequence[BranchMeta], table: str, unsaved: Sequence[str], decided: str = ""
) -> str:
    """Return the report on an exploration, for the model and the user: a heading a branch, the scores, what to do next.

    ``decided``: the user's statement about the choice; the report then does not explain how to choose.
    """
    lines = [t("## Exploration results"), ""]
    limit = max(_LEAST, min(_MOST, MAX_RESULT // max(1, len(branches))))
    for branch in branches:
        lines += [
            t(
                "### Branch {id}: {description}",
                id=branch.id,
                description=one_line(branch.description, _TITLE),
            )
        ]
        if branch.status == "abandoned":
            lines.append(t("(not finished)"))
        lines += [plain(_cut((branch.summary or "").strip() or t("It did not report anything."), limit)), ""]
    if table.strip():
        lines += [table.strip(), ""]
    if unsaved:
        named = ", ".join(unsaved[:10]) + (
            t(" and {count} more", count=len(unsaved) - 10) if len(unsaved) > 10 else ""
        )
        lines += [
            t("Not in the branches, because they are not saved in the editor: {named}.", named=named),
            "",
        ]
    ids = [branch.id for branch in branches]
    first = ids[0] if ids else "A"
    parts = (
        t(
            ', or parts of several branches with explore(select=["{first}:src/a.py", "{ids}:docs"])',
            first=first,
            ids=ids[-1],
        )
        if len(ids) > 1
        else ""
    )
    if decided:
        lines += ["---", decided]
        return "\n".join(lines)
    lines += [
        "---",
        t(
            "Nothing of this is in the workspace yet. Merge a branch with "
            'explore(select=["{first}"]){parts}, or continue without merging one.',
            first=first,
            parts=parts,
        ),
    ]
    return "\n".join(lines)


def short_summary(branches: Sequence[BranchMeta]) -> str:
    """Return one line a branch, for the plan."""
    return "\n".join(
        f"{branch.id} ({one_line(branch.description, 100)}): "
        + ("" if branch.status == "completed" else t("not finished. "))
        + one_line(branch.summary or "", _TITLE)
        for branch in branches
    )


def _cut(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    # Goalwright's notes on the changes are at the end.
    begun = head(text, limit - _TAIL - 60)
    return t(
        "{begun}… (truncated; the full text is in the branch's transcript) …{text}",
        begun=begun,
        text=tail(text, _TAIL),
    )
