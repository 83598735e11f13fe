"""Describe a permission request: the action, the rule that asks, irreversible effects, and the grants of "always"."""

from __future__ import annotations

from typing import Any

from tools.json_access import mapping, mappings, string, strings
from tools.localization import noted, t
from tools.text.terminal import LONGEST_TITLE, shown, shown_brief, shown_line
from tools.tool_names import OUTSIDE

_WHOSE = {
    "shipped": noted("the built-in rule"),
    "user": noted("your rule"),
    "editor": noted("your editor's setting"),
    "workspace": noted("this folder's rule"),
    "granted": noted("what you granted"),
    "session": noted("what you granted in this session"),
    "mode": noted("the mode"),
    "agent": noted("the agent's rule"),
    "branch": noted("the branch's limits"),
    "protected": noted("the protection of"),
}
_MAX_REASONS = 12
SCOPES = {
    "s": ("session", noted("this session")),
    "w": ("workspace", noted("this workspace")),
    "e": ("user", noted("everywhere")),
}
"""Where "always" may hold: the letter to type, the word on the wire, the word for people."""


_COMMANDS = ("bash", "doom_loop")
"""Permissions whose detail is a command line (or the arguments of a call), and not a text to read."""


def action_detail(request: dict[str, Any]) -> str:
    """Return the whole action, sanitized; empty where the title is complete."""
    detail = shown(string(request.get("detail")).strip(" \t\n"))
    return "" if shown_line(string(request.get("title"))).endswith(shown_line(detail)) else detail


def logged_lines(request: dict[str, Any]) -> list[str]:
    """Return the lines below the title in the log of an unattended run: the whole command."""
    return indented(action_detail(request)) if request.get("permission") in _COMMANDS else []


def indented(detail: str) -> list[str]:
    """Return the lines of a detail, none for an empty one."""
    return [f"    {line}" for line in detail.split("\n")] if detail else []


def note_lines(request: dict[str, Any]) -> list[str]:
    """Return Goalwright's notes on the request."""
    return [shown_line(text) for text in strings(request.get("notes"))]


def model_lines(request: dict[str, Any]) -> list[str]:
    """Return the model's words about it, and that they are the model's. They come last: they may be wrong."""
    words = shown_line(string(request.get("modelSays")).strip())
    return [t('the model says: "{words}"', words=words)] if words else []


def rule_words(rule: dict[str, Any]) -> str:
    """Return a rule with its place, e.g. ``your rule bash: git push * → ask (~/.goalwright/config.json)``."""
    source = string(rule.get("source")) or "shipped"
    permission, pattern = string(rule.get("permission")) or "*", string(rule.get("pattern")) or "*"
    whose = t(_WHOSE[source]) if source in _WHOSE else t("the {source} rule", source=source)
    file = string(rule.get("file"))
    place = f" ({file})" if file else ""
    return shown_line(f"{whose} {permission}: {pattern} → {string(rule.get('action')) or 'ask'}{place}")


def reason_lines(reasons: object, command: str = "") -> list[str]:
    """Return each access, with the rule that decides about it. ``command``: shown above already."""
    entries = mappings(reasons)
    lines = [_reason(entry, command) for entry in entries[:_MAX_REASONS]]
    if len(entries) > _MAX_REASONS:
        lines.append(t("… and {count} more", count=len(entries) - _MAX_REASONS))
    return lines


def _reason(entry: dict[str, Any], command: str) -> str:
    permission, target = string(entry.get("permission")), string(entry.get("target"))
    if command and target == f"sh -c {command}":
        target = t("the whole line")
    what = shown_brief(f"{permission} {target}", LONGEST_TITLE)
    why = shown_line(string(entry.get("why")))
    return f"{what}{f' ({why})' if why else ''}: {rule_words(mapping(entry.get('rule')))}"


def rejection_words(part: dict[str, Any], own_client: str, unattended: str = "") -> str:
    """Return why the call of a tool result was rejected, and by whom, for after the word "rejected".

    ``own_client``: the name of the client that shows it; ``unattended``: why that one rejects without its user.
    """
    metadata = mapping(part.get("metadata"))
    by, feedback = string(metadata.get("by")), string(metadata.get("feedback")).strip()
    said = string(part.get("content")).removeprefix("Permission denied.").strip()
    if metadata.get("after_rejection") is True:
        return t("the call before it was rejected")
    if by == "timeout":
        return t("nobody answered in time")
    if feedback:
        return t("“{words}”", words=shown_line(feedback))
    if not by or metadata.get("rule") is True:
        return shown_line(said)
    if by == own_client:
        return unattended or t("by you")
    return t("by you in {client}", client=shown_line(by))


def asked_lines(request: dict[str, Any]) -> list[str]:
    """Return the model's questions to the user with their options, numbered; empty for all other requests."""
    lines: list[str] = []
    for question in mappings(request.get("questions")):
        lines += shown(string(question.get("text")).strip()).split("\n")
        lines += [f"  {number}. {text}" for number, text in enumerate(option_texts(question), 1)]
    return lines


def option_texts(question: dict[str, Any]) -> list[str]:
    """Return the options of a question, each on one line."""
    texts: list[str] = []
    for option in mappings(question.get("options")):
        about = shown_line(string(option.get("description")).strip())
        texts.append(shown_line(string(option.get("label"))) + (f" — {about}" if about else ""))
    return texts


def typed_answer(question: dict[str, Any], line: str) -> dict[str, Any] | None:
    """Return the answer for ``permission/reply`` that a typed line means; None for numbers that choose nothing.

    Numbers of options, separated by commas or blanks, choose these; everything else is the user's own words. Of a
    question with options, numbers alone are no words, also where there is no such option or only one may be chosen.
    """
    labels = [string(option.get("label")) for option in mappings(question.get("options"))]
    words = line.replace(",", " ").split()
    numbers = [int(word) for word in words if word.isdecimal() and len(word) < 4]
    if labels and numbers and len(numbers) == len(words):
        known = [labels[number - 1] for number in numbers if 1 <= number <= len(labels)]
        chosen = list(dict.fromkeys(known))
        several = len(chosen) > 1 and question.get("multiple") is not True
        return None if several or len(known) < len(numbers) else {"chosen": chosen, "text": ""}
    return {"chosen": [], "text": line.strip()}


def question_lines(request: dict[str, Any]) -> list[str]:
    """Return why it is asked: one line, or one for each thing in it when there are several. A question needs no
    reason."""
    if mappings(request.get("questions")):
        return []
    if len(mappings(request.get("reasons"))) > 1:
        lines = reason_lines(request.get("reasons"), string(request.get("detail")).strip())
        return [t("asked because of"), *(f"  {line}" for line in lines)]
    why = [shown_line(string(reason.get("why"))) for reason in mappings(request.get("reasons"))]
    asked = t("asked because of {rule}", rule=rule_words(mapping(request.get("rule"))))
    return [asked + "".join(f" ({text})" for text in why if text)]


def warning_lines(request: dict[str, Any]) -> list[str]:
    """Return the warnings about effects that cannot be undone."""
    return [f"! {shown_line(text)}" for text in strings(request.get("warnings"))]


def suggested(request: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the permissions and patterns that "always" would store."""
    grants = mappings(request.get("suggestions"))
    return [(string(grant.get("permission")), string(grant.get("pattern"))) for grant in grants]


def suggestion_words(request: dict[str, Any]) -> str:
    """Return the patterns that "always" would allow; those of another permission than the request's with its name.

    Tools that are not built in are allowed by their definition.
    """
    own = string(request.get("permission"))
    return ", ".join(
        t("this definition of {tool}", tool=shown_line(permission))
        if pattern.startswith("definition ") and permission.startswith(OUTSIDE)
        else shown_line(pattern if permission == own else f"{permission} {pattern}")
        for permission, pattern in suggested(request)
    )
