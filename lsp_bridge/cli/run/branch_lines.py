"""Branches and sub-agents as lines of text: lists, scores, and what they do while a run is followed. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from daemon.explore.score_text import NOT_RUN, ended_words
from lsp_bridge.cli.invocation import CLIENT_NAME
from lsp_bridge.cli.text import Style, one_line, sign, state, table, tokens
from lsp_bridge.protocol.permission_text import rejection_words
from tools.json_access import integer, mapping, mappings, number, string
from tools.localization import t
from tools.text.amounts import UNKNOWN, duration, money

if TYPE_CHECKING:
    from collections.abc import Sequence

_SUBAGENT = re.compile(r"s[0-9]+")


def choosing(branches: Sequence[str]) -> str:
    """Explain how to choose among these branches at a terminal; none: among branches that are not known."""
    names = [one_line(name) for name in branches[:2]] or ["BRANCH"]
    return t(
        "`goalwright explore pick {branch}` (or parts: `pick {parts}`), or `goalwright explore leave`: the model "
        "chooses.",
        branch=names[0],
        parts=" ".join(f"{name}:PATH" for name in names),
    )


class OpenBranches:
    """The branches of a session that can be chosen, by exploration (id of the goal that started it)."""

    def __init__(self) -> None:
        self._explorations: dict[str, str] = {}
        """Exploration by branch."""

    def load(self, branches: dict[str, Any]) -> None:
        """Take over the ``branches`` of a loaded session."""
        for branch in map(mapping, branches.values()):
            if branch.get("removed") is not True:
                self._explorations[string(branch.get("id"))] = string(branch.get("exploreStartId"))

    def follow(self, event: dict[str, Any]) -> None:
        """Apply an event; most change nothing."""
        if event.get("event") == "branch_started":
            name = string(mapping(event.get("branch")).get("id"))
            self._explorations[name] = string(event.get("exploreStartId"))
        elif event.get("event") == "branch_removed":
            self._explorations.pop(string(event.get("branchId")), None)

    def choosing(self, exploration: str) -> str:
        """Explain how to choose among the branches of an exploration at a terminal."""
        return choosing([name for name, start_id in self._explorations.items() if start_id == exploration])


def asker(branch_id: str) -> str:
    """Return the asker of a question: ``Branch A``, ``Branch A, sub-agent s1``."""
    names = [
        t("sub-agent {name}", name=name) if _SUBAGENT.fullmatch(name) else t("branch {name}", name=name)
        for name in branch_id.split(".")
    ]
    words = one_line(", ".join(names))
    return words[:1].upper() + words[1:]


def asked_title(request: dict[str, Any]) -> str:
    """Return the title of a permission request, with the branch or sub-agent that asks; not sanitized."""
    title = string(request.get("title")).strip() or t("Approval needed")
    branch = string(request.get("branchId"))
    return f"{asker(branch)} · {title}" if branch else title


def exploration_lines(exploration: dict[str, Any]) -> list[str]:
    """Return its branches, one a line: id, direction, state, and whether it was used."""
    selected = string(exploration.get("selectedBranch"))
    lines: list[str] = []
    for branch in mappings(exploration.get("branches")):
        name = string(branch.get("id"))
        status = state("removed" if branch.get("removed") is True else string(branch.get("status")))
        used = t(", used") if name in re.split(r"[\s,]+", re.sub(r":\S*", "", selected)) else ""
        place = on_node(branch)
        lines.append(f"{name}  {one_line(string(branch.get('description')))}  ({status}{place}{used})")
    return lines


def on_node(branch: dict[str, Any]) -> str:
    """Return the node that a branch works on, to follow its state; empty for this machine."""
    node = one_line(string(branch.get("node")))
    return t(" on {node}", node=node) if node else ""


def score_lines(branches: list[dict[str, Any]]) -> list[str]:
    """Return the scoreboard: one row a branch, nothing while none has a score."""
    rows = [("", t("problems"), t("tests"), t("files"), t("tokens"), t("cost"), t("time"))]
    for branch in branches:
        if not branch.get("score"):
            continue
        score = mapping(branch.get("score"))
        rows.append(
            (
                string(branch.get("id")),
                _problems(score),
                _tests(score),
                _size(score),
                tokens(integer(score.get("tokens"))),
                money(number(score.get("cost")), integer(score.get("unpricedTokens"))),
                duration(integer(score.get("durationMs"))),
            )
        )
    if len(rows) == 1:
        return []
    return table(rows)


def _size(score: dict[str, Any]) -> str:
    files, added, removed = (score.get(key) for key in ("files", "added", "removed"))
    if files is None or added is None or removed is None:
        return UNKNOWN
    return f"{integer(files)} (+{integer(added)} -{integer(removed)})"


def _problems(score: dict[str, Any]) -> str:
    new, fixed = score.get("newProblems"), score.get("fixedProblems")
    return UNKNOWN if new is None or fixed is None else f"+{integer(new)} -{integer(fixed)}"


def _tests(score: dict[str, Any]) -> str:
    test = mapping(score.get("test"))
    if not test:
        return t(NOT_RUN)
    code, passed, failed = (_count(test.get(key)) for key in ("exitCode", "passed", "failed"))
    words = ended_words(code, passed, failed, integer(test.get("durationMs")), string(test.get("detail")))
    return one_line(words)


def _count(value: object) -> int | None:
    return value if isinstance(value, int) else None


def result_title(part: dict[str, Any], content: str, call: str, rejects: str) -> str:
    """Return a tool result in one line: the tool's name, and its title, else ``content``, else the ``call``; also why
    it was rejected. ``rejects``: why the run itself rejects what is asked."""
    name = one_line(string(part.get("name")))
    title = one_line(string(part.get("title"))) or one_line(content) or call
    title = title if title.startswith(name) else f"{name} {title}"
    if part.get("isError") is True and mapping(part.get("metadata")).get("denied") is True:
        why = rejection_words(part, CLIENT_NAME, rejects)
        return f"{title}: {why}" if why else title
    return title


class BranchLines:
    """The activity of a session's branches and sub-agents, as labelled lines (``A │ …``)."""

    def __init__(self, style: Style) -> None:
        self._style = style
        self.rejects = ""
        """Why the run itself rejects what is asked; empty: its user answers."""

    def apply(self, event: dict[str, Any]) -> list[str]:
        """Return the lines for an event; none for most."""
        style, name = self._style, event.get("branchId")
        branch, agent = mapping(event.get("branch")), mapping(event.get("subagent"))
        match event.get("event"):
            case "branch_started":
                words = style.bold(one_line(string(branch.get("description"))))
                return [self._line(branch.get("id"), words)]
            case "branch_placed":
                return [self._line(name, style.dim(t("works{place}", place=on_node(event))))]
            case "branch_goal_added":
                return [
                    self._line(name, f"○ {one_line(string(mapping(event.get('goal')).get('description')))}")
                ]
            case "branch_message_added":
                return self._message(event)
            case "branch_completed":
                done = event.get("status") == "completed"
                return [self._ended(name, event, done, "abandoned")]
            case "subagent_started":
                words = f"{one_line(string(agent.get('agent')))}: {one_line(string(agent.get('prompt')))}"
                return [self._line(agent.get("id"), words)]
            case "subagent_completed":
                done = agent.get("status") != "failed"
                return [self._ended(agent.get("id"), agent, done, "failed")]
            case _:
                return []

    def _line(self, name: object, text: str) -> str:
        return f"{self._style.cyan(one_line(string(name)))} {self._style.dim('│')} {text}"

    def _ended(self, name: object, about: dict[str, Any], done: bool, otherwise: str) -> str:
        mark = (
            self._style.green(t("✓ done"))
            if done
            else self._style.red(f"{sign(otherwise)} {state(otherwise)}")
        )
        return self._line(name, f"{mark}  {one_line(string(about.get('summary')))}".rstrip())

    def _message(self, event: dict[str, Any]) -> list[str]:
        message = mapping(event.get("message"))
        lines: list[str] = []
        for part in mappings(message.get("content")):
            if part.get("type") == "text" and message.get("role") == "assistant":
                text = one_line(string(part.get("text")))
                lines += [self._line(event.get("branchId"), text)] if text else []
            elif part.get("type") == "tool_result" and part.get("name") not in ("goal", "step"):
                mark = self._style.red("✗") if part.get("isError") is True else self._style.green("✓")
                words = result_title(part, string(part.get("content")), "", self.rejects)
                lines.append(self._line(event.get("branchId"), f"{mark} {words}"))
        return lines
