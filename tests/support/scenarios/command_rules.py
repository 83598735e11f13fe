"""Rules that allow nearly everything, and what they say to a command line: with a disk to look at, and without."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from daemon.model.permissions import Action, Rule
from daemon.permission.rules import RuleSet
from tools.shell.path_lookup import real_place
from tools.shell.question import CommandPlace, question

_RULES: tuple[tuple[str, str, Action], ...] = (
    ("*", "*", "allow"),
    ("read", "*.env", "deny"),
    ("read", "secrets/*", "deny"),
    ("edit", "*.lock", "deny"),
    ("bash", "curl *", "deny"),
)
_FILES = (".env", "secrets/key.txt", "conf/prod.env", "src/a.py", "poetry.lock", ".git/config", "docs/x.md")


def build(workspace: Path) -> Path:
    """A workspace with something to protect; returns its real path."""
    for name in _FILES:
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_text("x")
    return workspace.resolve()


def verdict(line: str, place: CommandPlace, *, contained: bool = False) -> Action:
    """Return the rules' decision on a line."""
    rules = [
        Rule(permission=permission, pattern=pattern, action=action, source="user")
        for permission, pattern, action in _RULES
    ]
    return (
        RuleSet(rules, root=place.workspace.as_posix())
        .judge(replace(question(line, place), contained=contained))
        .action
    )


def verdicts(line: str, workspace: Path, *, contained: bool = False) -> dict[str, Action]:
    """With a disk (the workspace), and without one. ``contained``: where there is a sandbox."""
    return {
        "looking": verdict(line, real_place(workspace), contained=contained),
        "blind": verdict(line, CommandPlace(Path("/w"), Path("/home/me")), contained=contained),
    }
