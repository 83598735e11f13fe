"""Parse an agent's Markdown file: its settings in the front matter, its prompt in the body."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from daemon.agents import front_matter_keys as words
from daemon.agents.front_matter import OwnFileError, read_document
from daemon.agents.profile import COMPACTION, AgentMode, AgentProfile, AgentSource
from daemon.model.permissions import Rule
from daemon.permission.rules_file import PERMISSIONS, rules_from_config
from tools.localization import t
from tools.text.truncate import head

if TYPE_CHECKING:
    from collections.abc import Mapping

    from daemon.agents.front_matter import FrontMatterValue, Value

NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?")
MAX_DESCRIPTION = 1_000
"""Characters of a description; it goes into requests."""

_MODES: tuple[AgentMode, ...] = ("primary", "subagent", "all")
_LIMITS = ("permission", "deny", "tools", "insist", "read_only")
_MODEL = re.compile(r"[\w.-]+/\S+")
_TRUE, _FALSE = ("true", "yes", "on"), ("false", "no", "off", "")
_ELSEWHERE = ("temperature", "top_p", "color", "hidden", "license", "version", "author", "metadata")
"""Keys of other programs' files, which have no meaning here."""


def parse_agent(name: str, text: str, source: AgentSource = "shipped", file: str = "") -> AgentProfile:
    """Return the agent in a file's text. Pure. Raises OwnFileError.

    An unknown key only adds to its ``problems``; an unreadable key that may be a limit makes the whole file invalid.
    """
    document = read_document(text)
    if not document.body and name != COMPACTION:
        raise OwnFileError(t("it has no text: write the agent's prompt below the front matter"))
    unread = words.head_without_fence(document.body.splitlines())
    if unread is not None:
        line = head(document.body.splitlines()[unread].strip(), 60)
        raise OwnFileError(
            t(
                "line {body_line}: {line!r} looks like front matter but is outside of it: put all front "
                "matter between two --- lines at the top of the file",
                body_line=document.body_line + unread,
                line=line,
            )
        )
    return _Head(document.head, name, file).profile(document.body, source)


class _Head:
    """One front matter on its way to a profile."""

    def __init__(self, head: Mapping[str, FrontMatterValue], name: str, file: str) -> None:
        self._head: dict[str, FrontMatterValue] = {}
        self._name = name
        self._file = file
        self._problems: list[str] = []
        for written, entry in head.items():
            key = words.key_of(written)
            if key in self._head:
                raise OwnFileError(
                    t("line {line}: {key} appears twice; keep one of them", line=entry.line, key=key)
                )
            self._head[key] = entry

    def profile(self, body: str, source: AgentSource) -> AgentProfile:
        self._strangers()
        rules = self._rules()
        context, keep_steps, compact_at = self._context()
        description = " ".join(self._text("description").split()) or body.lstrip("# ").split("\n", 1)[0]
        return AgentProfile(
            name=self._name,
            description=head(description, MAX_DESCRIPTION),
            prompt=body,
            context=context,
            rules=tuple(rules),
            mode=self._mode(),
            model=self._model(),
            tools=self._tools(),
            keep_steps=keep_steps,
            compact_at=compact_at,
            insists=self._insists(),
            read_only=self._read_only(),
            source=source,
            file=self._file,
            problems=tuple(self._problems),
        )

    def _problem(self, key: str, text: str) -> None:
        self._problems.append(t("line {line}: {text}", line=self._head[key].line, text=text))

    def _bad(self, key: str, text: str) -> OwnFileError:
        return OwnFileError(t("line {line}: {text}", line=self._head[key].line, text=text))

    def _strangers(self) -> None:
        for key in self._head:
            if key in _ELSEWHERE:
                self._problem(key, t("{key} is not used here", key=key))
            elif key in (*words.KEYS, words.TAKES_TOOLS):
                continue
            elif words.may_limit(key):
                # Without this error the agent would do what its file may forbid.
                raise self._bad(
                    key,
                    t(
                        "{key} is unknown and looks like a restriction; valid restrictions: {limits}",
                        key=key,
                        limits=", ".join(_LIMITS),
                    ),
                )
            else:
                self._problem(
                    key, t("{key} is unknown; valid keys: {keys}", key=key, keys=", ".join(words.KEYS[:-1]))
                )
        if "name" in self._head and self._text("name") != self._name:
            self._problem(
                "name", t("name is not used: an agent is named after its file, {name}", name=self._name)
            )

    def _text(self, key: str) -> str:
        if key not in self._head:
            return ""
        value = self._head[key].value
        if not isinstance(value, str):
            raise self._bad(key, t("{key} must be a string", key=key))
        return value.strip()

    def _words(self, key: str) -> list[str]:
        """Return a list, or a text with commas."""
        if key not in self._head:
            return []
        value = self._head[key].value
        items: list[Value] = [*value.split(",")] if isinstance(value, str) else []
        if isinstance(value, list):
            items = value
        if isinstance(value, dict) or not all(isinstance(item, str) for item in items):
            raise self._bad(key, t("{key} must be a list, or names separated by commas", key=key))
        return [text for item in items if isinstance(item, str) and (text := item.strip())]

    def _mode(self) -> AgentMode:
        wanted = self._text("mode") or "all"
        for mode in _MODES:
            if mode == wanted:
                return mode
        raise self._bad("mode", t("mode must be one of {modes}", modes=", ".join(_MODES)))

    def _model(self) -> str:
        model = self._text("model")
        if model in ("", "inherit", "null", "~"):
            return ""
        if _MODEL.fullmatch(model) is None:
            self._problem(
                "model",
                t("{model!r} is not of the form provider/model: the session's model is used", model=model),
            )
            return ""
        return model

    def _read_only(self) -> bool | None:
        if "read_only" not in self._head:
            return None
        text = self._text("read_only").lower()
        if text not in (*_TRUE, *_FALSE[:-1]):
            raise self._bad("read_only", t("read_only must be true or false"))
        return text in _TRUE

    def _insists(self) -> tuple[str, ...]:
        """Return permissions by their names: questions are compared with names, not with wildcards."""
        found: dict[str, None] = {}
        for word in self._words("insist"):
            found |= dict.fromkeys(words.permissions_of(self._permission("insist", word)))
        return tuple(found)

    def _permission(self, key: str, word: str) -> str:
        name, known = words.permission_of(word)
        if not known:
            near = words.spelling_hint(word, PERMISSIONS)
            raise self._bad(
                key,
                t(
                    "{key}: there is no permission {word!r}{near}; valid permissions: {permissions}",
                    key=key,
                    word=word,
                    near=near,
                    permissions=", ".join(sorted(PERMISSIONS)),
                ),
            )
        return name

    def _tool(self, key: str, word: str) -> str:
        name, known = words.tool_of(word)
        near = words.spelling_hint(name, words.TOOLS)
        if not known and name.startswith("!") and (near or key == words.TAKES_TOOLS):
            raise self._bad(
                key, t("{key}: there is no tool {value!r}{near}", key=key, value=word.lstrip("!"), near=near)
            )
        if not known:
            self._problem(key, t("there is no tool {value!r}{near}", value=word.lstrip("!"), near=near))
        return name

    def _tools(self) -> tuple[str, ...]:
        taken: list[str] = []
        for word in self._words(words.TAKES_TOOLS):
            if "(" in word:
                raise self._bad(
                    words.TAKES_TOOLS,
                    t("{word!r} is not a tool: to restrict what a tool may do, use permission", word=word),
                )
            taken.append(self._tool(words.TAKES_TOOLS, f"!{word}"))
        # These come last, so that nothing in the same file restores them.
        return (*self._tools_named(), *taken)

    def _tools_named(self) -> tuple[str, ...]:
        if "tools" not in self._head:
            return ()
        value = self._head["tools"].value
        if not isinstance(value, dict):
            listed = self._words("tools")
            if any("(" in word for word in listed):
                self._problem(
                    "tools", t("tools only lists tools: to restrict what they may do, use permission")
                )
            named = [self._tool("tools", word) for word in listed]
            # A list names the allowed tools; a tool with "!" is removed from them, or from all.
            return (
                ("!*", *named)
                if any(not word.startswith("!") for word in named) or not named
                else tuple(named)
            )
        found: list[str] = []
        for word, wanted in value.items():
            on = wanted.lower() if isinstance(wanted, str) else "?"
            if on not in (*_TRUE, *_FALSE):
                raise self._bad("tools", t("tools: {word} must be true or false", word=word))
            found.append(self._tool("tools", word if on in _TRUE else f"!{word}"))
        return tuple(found)

    def _rules(self) -> list[Rule]:
        denied = [
            Rule(
                permission=self._permission("deny", word),
                pattern="*",
                action="deny",
                source="agent",
                file=self._file,
            )
            for word in self._words("deny")
        ]
        rules: list[Rule] = []
        for key in ("permission", "permissions"):
            if key not in self._head:
                continue
            value = self._head[key].value
            if value == "":
                continue
            found, wrong = rules_from_config(
                {"*": value} if isinstance(value, str) else value, "agent", self._file
            )
            if wrong:
                raise self._bad(key, f"{key}: {wrong[0]}")
            rules += [
                rule.model_copy(update={"permission": self._permission(key, rule.permission)})
                for rule in found
            ]
        # These come last, so that nothing in the same file overrides them.
        return [*rules, *denied]

    def _context(self) -> tuple[str, int | None, int | None]:
        if "context" not in self._head:
            return self._name, None, None
        value = self._head["context"].value
        if isinstance(value, str):
            return value.strip() or self._name, None, None
        if not isinstance(value, dict) or not value.keys() <= {"profile", "keep_steps", "compact_at"}:
            raise self._bad(
                "context", t("context must be a name, or a mapping with profile, keep_steps, compact_at")
            )
        profile = value.get("profile", self._name)
        return (
            profile if isinstance(profile, str) else self._name,
            self._number(value, "keep_steps", 1, 100),
            self._number(value, "compact_at", 1_000, 100_000_000),
        )

    def _number(self, values: Mapping[str, Value], key: str, least: int, most: int) -> int | None:
        if key not in values:
            return None
        text = values[key]
        number = (
            int(text.replace("_", "")) if isinstance(text, str) and re.fullmatch(r"[\d_]{1,12}", text) else 0
        )
        if not least <= number <= most:
            raise self._bad(
                "context",
                t(
                    "context: {key} must be a number from {least:,} to {most:,}",
                    key=key,
                    least=least,
                    most=most,
                ),
            )
        return number
