"""A skill in the Agent Skills format: the front matter of its ``SKILL.md``, and the list for the model. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct

from daemon.agents.front_matter import OwnFileError, read_document
from daemon.context.tokens import estimate_tokens
from daemon.model.tags import one_each, within
from tools.localization import t
from tools.text.truncate import head

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from daemon.agents.front_matter import FrontMatterValue
    from daemon.agents.own_files import Place, Source

SKILL_FILE = "SKILL.md"
MAX_LINE = 100
"""Tokens of one skill in the list for the model."""
MAX_LIST = 4_000
"""Tokens of all their lines with descriptions; further skills are listed by name alone."""
NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,63}", re.ASCII)
_INTRODUCTION = (
    "Each skill has instructions for a kind of task. Before a task that a description fits, load the skill with the "
    "`skill` tool, and follow it."
)
_YES = frozenset({"true", "yes", "on"})
_NO = frozenset({"false", "no", "off"})


class Skill(Struct, frozen=True):
    """A skill, without its body, which is read when it is used."""

    name: str
    description: str
    file: Path
    """Its ``SKILL.md``, as it was found."""
    folder: Path
    """Its folder, resolved."""
    place: Place
    for_model: bool = True
    """It is listed to the model."""
    for_user: bool = True
    """The user can call it as ``/name``."""
    problem: str = ""
    """An oddity of the file that keeps nobody from using it, as text for the user."""

    @property
    def source(self) -> Source:
        """Whether it is the user's own or came with the workspace."""
        return self.place.source

    @property
    def shown_folder(self) -> str:
        """The folder as tools name it: relative to the workspace, or absolute outside of it."""
        root = self.place.root
        return self.folder.as_posix() if root is None else self.folder.relative_to(root).as_posix()


def parse_skill(path: Path, text: str, place: Place) -> Skill:
    """Return the skill in a ``SKILL.md``, named after its folder. Raises OwnFileError.

    ``allowed-tools`` grants nothing here: what a skill does goes through the permission rules.
    """
    name, front = path.parent.name, read_document(text).head
    if NAME.fullmatch(name) is None:
        raise OwnFileError(
            t(
                "a skill is named after its folder: rename the folder so that it has only letters, digits, hyphens, "
                "dots and underscores"
            )
        )
    description = " ".join(_text(front, "description").split())
    if not description:
        raise OwnFileError(
            t(
                "it has no description: put `description: what it does, and when to use it` between two --- lines"
            )
        )
    folder = path.parent.resolve()
    if place.root is not None and not folder.is_relative_to(place.root):
        raise OwnFileError(
            t("its folder is a link that leads out of the workspace: put the folder itself there")
        )
    written = _text(front, "name")
    problem = (
        t(
            "{path}: the skill is called {name} after its folder, not {written}",
            path=path,
            name=name,
            written=written,
        )
        if written not in ("", name)
        else ""
    )
    return Skill(
        name=name,
        description=description,
        file=path,
        folder=folder,
        place=place,
        for_model=_text(front, "disable-model-invocation").lower() not in _YES,
        for_user=_text(front, "user-invocable").lower() not in _NO,
        problem=problem,
    )


def _text(front: Mapping[str, FrontMatterValue], key: str) -> str:
    """Raises OwnFileError."""
    if key not in front:
        return ""
    value, line = front[key].value, front[key].line
    if not isinstance(value, str):
        raise OwnFileError(t("line {line}: {text}", line=line, text=t("{key} must be a string", key=key)))
    return value.strip()


class SkillList(Struct, frozen=True):
    """The part of the system prompt that lists skills, empty without any. ``bare``: how many have no description in
    it."""

    text: str
    bare: int = 0


def skill_list(skills: Iterable[Skill]) -> SkillList:
    """Return the list for the model, in the order of ``skills``."""
    lines: list[str] = []
    bare: list[str] = []
    left = MAX_LIST
    for skill in skills:
        line = _line(skill)
        left -= estimate_tokens(line)
        if left >= 0:
            lines.append(line)
        else:
            bare.append(skill.name)
    if bare:
        lines.append(f"- More skills, without description: {', '.join(bare)}")
    return SkillList(within("skills", f"{_INTRODUCTION}\n{one_each(lines)}") if lines else "", len(bare))


def _line(skill: Skill) -> str:
    line = f"- {skill.name}: {skill.description}"
    most = len(line)
    while estimate_tokens(line) > MAX_LINE:
        # Each round removes a tenth at least: texts differ in characters per token.
        most = min(int(most * 0.9), MAX_LINE * 4)
        line = head(line, most) + "…"
    return line
