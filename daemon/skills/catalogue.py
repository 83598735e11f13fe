"""Find skills: the user's own, and those of a workspace that the user trusts. All functions block.

The nearest skill with a name wins: the workspace's before the user's, and ``.goalwright`` before ``.claude`` before
``.agents``. A file that cannot be used is skipped, and hides no other one. Files are read on demand, so that a new
skill counts from the next prompt on.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from daemon.agents.front_matter import OwnFileError, read_document
from daemon.agents.own_files import (
    MOST_FILES,
    ParsedFiles,
    Place,
    places,
    read_own,
    workspace_folders,
)
from daemon.model.permissions import Rule, Trust
from daemon.permission.matching import home
from daemon.runtime import user_home
from daemon.skills.skill_file import SKILL_FILE, Skill, parse_skill
from tools.localization import t
from tools.paths import folder_patterns
from tools.ports import LoadedSkill
from tools.text.truncate import head

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_BODY = 50_000
"""Characters of a skill's body for the model; ``read`` shows the rest."""
MOST_LISTED = 50
"""Files of a skill that are named when it is loaded."""
_MOST_VISITED = 2_000
_NO_FILES = frozenset({"node_modules", "__pycache__"})


class FoundSkills(Struct, frozen=True):
    """All skills, by name in alphabetical order; and files that are none, as text with their path."""

    skills: tuple[Skill, ...] = ()
    problems: tuple[str, ...] = ()
    unread: str = ""
    """Why the workspace's own skills are not used, as text for the user; empty when there are none, or they are."""
    rules: tuple[Rule, ...] = ()
    """Rules that let the model read the files of the user's own skills, and nothing else, without a question."""

    def named(self, name: str) -> Skill | None:
        """Return the skill with this name."""
        return next((skill for skill in self.skills if skill.name == name), None)


class Skills(Struct):
    """The skills of a workspace. May be used from any thread."""

    workspace: Path
    """Its root, resolved."""
    user_folder: Path
    """The state folder."""
    _files: ParsedFiles[Skill] = field(default_factory=lambda: ParsedFiles(parse_skill))
    _last: dict[Trust, FoundSkills] = field(default_factory=dict[Trust, FoundSkills])
    """The last results: the same object while nothing changes, so that nothing built from it is built again."""

    def all(self, trust: Trust) -> FoundSkills:
        """Return all skills, and the problems of their files."""
        found: dict[str, Skill] = {}
        problems: list[str] = []
        for place in places("skills", self.workspace, self.user_folder, trust):
            for one in self._in(place, problems):
                if one.name not in found:
                    found[one.name] = one
                    problems += filter(None, [one.problem])
        skills = tuple(found[name] for name in sorted(found))
        rules = tuple(rule for skill in skills if skill.source == "user" for rule in _rules(skill))
        new = FoundSkills(skills, tuple(problems), self._unread(trust), rules)
        if self._last.get(trust) != new:
            self._last[trust] = new
        return self._last[trust]

    def _in(self, place: Place, problems: list[str]) -> Iterator[Skill]:
        try:
            names = sorted(entry.name for entry in os.scandir(place.folder) if not entry.name.startswith("."))
        except OSError:
            return
        if len(names) > MOST_FILES:
            problems.append(
                t("{folder}: only the first {most} skills are used", folder=place.folder, most=MOST_FILES)
            )
        for name in names[:MOST_FILES]:
            if (one := self._files.get(place.folder / name / SKILL_FILE, place, problems)) is not None:
                yield one

    def _unread(self, trust: Trust) -> str:
        if trust == "trusted":
            return ""
        home = user_home(self.user_folder)
        theirs = [one for one in workspace_folders("skills", self.workspace) if one.parent.parent != home]
        if not any(file.is_file() for folder in theirs for file in folder.glob(f"*/{SKILL_FILE}")):
            return ""
        return t(
            "The skills of this folder are not used, because the folder is not trusted. If it is yours, run "
            "`goalwright trust` in it, or trust it in the editor."
        )


def load(skill: Skill) -> LoadedSkill:
    """Return a skill with its body and the names of its files. Raises OwnFileError, FileNotFoundError."""
    body = read_document(read_own(skill.file, skill.place)).body
    if len(body) > MAX_BODY:
        body = f"{head(body, MAX_BODY)}\n[… cut: read the rest of {SKILL_FILE} with the read tool]"
    files = sorted(_files_below(skill.folder))
    return LoadedSkill(
        skill.name, skill.shown_folder, body, tuple(files[:MOST_LISTED]), max(0, len(files) - MOST_LISTED)
    )


def _files_below(folder: Path) -> Iterator[str]:
    """Yield the files of a skill, relative to its folder; no links, whose targets are not the skill's."""
    visited = 0
    for path, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _NO_FILES)
        for name in sorted(files):
            visited += 1
            if visited > _MOST_VISITED:
                return
            file = Path(path, name)
            inside = file.relative_to(folder).as_posix()
            if inside != SKILL_FILE and not name.startswith(".") and not file.is_symlink():
                yield inside


def _rules(skill: Skill) -> Iterator[Rule]:
    """Yield rules for reading the skill's folder; none when it holds more than a skill, e.g. the whole home folder."""
    folder = skill.folder.as_posix()
    patterns = folder_patterns([f"{folder}/{SKILL_FILE}"])
    if not patterns or f"{home()}/".startswith(f"{folder.rstrip('/')}/"):
        return
    words = t("files of your skill {name} may be read", name=skill.name)
    yield Rule(permission="read", pattern=patterns[0], action="allow", source="granted", words=words)
    for secret in (f"{folder}/*.env", f"{folder}/*.env.*", f"{folder}/*.envrc"):
        yield Rule(permission="read", pattern=secret, action="ask", source="granted")


def usable(skill: Skill) -> LoadedSkill | str:
    """Return a skill as ``load``, or why it cannot be used, as text for the user."""
    try:
        return load(skill)
    except FileNotFoundError:
        return t("{path} is gone.", path=skill.file)
    except OwnFileError as error:
        return f"{skill.file}: {error}"
