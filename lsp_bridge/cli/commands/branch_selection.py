"""Parse the selected parts of branches: ``A``, ``A src/cart.py``, ``A:src/cart.py B:docs``, ``A B``. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lsp_bridge.cli.commands.session_command import CommandFailedError
from lsp_bridge.cli.text import shown_line
from tools.localization import t

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class SelectedPart:
    """The selected parts of one branch."""

    branch: str
    paths: tuple[str, ...] = ()
    """Relative to the folder, with ``/``; none: the whole branch."""

    def choice(self) -> list[str]:
        """Return the choice for the request (``ExploreSelectParams``)."""
        return [f"{self.branch}:{path}" for path in self.paths] or [self.branch]


@dataclass(frozen=True, slots=True)
class AmbiguousWord:
    """A word that was taken for a branch, and is a file of the branch before it if that one changed such a file."""

    word: str
    before: str
    taken_for: str

    def words(self) -> str:
        """Return the message about this ambiguity."""
        word = shown_line(self.word)
        instead = t("write {taken_for}:", taken_for=self.taken_for)
        branch = t("put {word} first", word=word) if ":" in word else instead
        return t(
            "{word} is both a file of branch {before} and the name of branch {taken_for}: write "
            "{before}:{word} for the file; for the branch, {branch}.",
            word=word,
            before=self.before,
            taken_for=self.taken_for,
            branch=branch,
        )


def selected_parts(
    words: Sequence[str], branches: Sequence[str], workspace: Path
) -> tuple[tuple[SelectedPart, ...], tuple[AmbiguousWord, ...]]:
    """Return the selected parts, and points to confirm before they are used. Raises CommandFailedError with
    alternatives.

    ``words``: a branch, with its ``:PATH`` or not, then paths in it and further branches. ``branches``: existing ones.
    """
    found: dict[str, list[str]] = {}
    doubts: list[AmbiguousWord] = []
    current = ""
    for number, word in enumerate(words):
        name, colon, path = word.partition(":")
        branch = branch_named(name, branches)
        if number == 0 and branch is None:
            raise CommandFailedError(no_branch(name, branches))
        if branch is None:
            # `Q:src` is probably a mistyped branch rather than a file, so report the missing branch.
            if colon and len(name) == 1 and name.isupper():
                raise CommandFailedError(no_branch(name, branches))
            found[current].append(inside(word, workspace))
            continue
        if number and (path or not colon):
            doubts.append(AmbiguousWord(word, current, branch))
        current = branch
        # A bare letter selects the whole branch, unless paths in it follow.
        found.setdefault(current, [])
        if colon:
            found[current].append(inside(path, workspace))
    parts = (
        SelectedPart(branch, () if "" in paths else tuple(dict.fromkeys(paths)))
        for branch, paths in found.items()
    )
    return tuple(parts), tuple(doubts)


def branch_named(name: str, branches: Sequence[str]) -> str | None:
    """Return the branch of this name, in either case; None when there is none."""
    wanted = name.strip()
    return next((one for one in (wanted, wanted.upper()) if one in branches), None)


def no_branch(name: str, branches: Sequence[str]) -> str:
    """Return the message about a name that is no branch."""
    known = ", ".join(branches)
    return t("There is no branch {name}. ", name=shown_line(name.strip())) + (
        t("Branches: {known}.", known=known) if known else t("This session has no explorations.")
    )


def inside(path: str, workspace: Path) -> str:
    """Return ``path`` relative to the folder, as branches name files; empty for the folder itself."""
    root = workspace.absolute().as_posix().rstrip("/")
    slashed = path.strip()
    if slashed == root or slashed.startswith(f"{root}/"):
        slashed = slashed[len(root) + 1 :]
    if slashed.startswith("/") or ".." in slashed.split("/"):
        return slashed  # the daemon reports that it is not in the workspace
    return "/".join(step for step in slashed.split("/") if step not in ("", "."))


def is_in(name: str, paths: Sequence[str]) -> bool:
    """Return whether a file is one of ``paths``, or in a folder that is."""
    return any(not path or name == path or name.startswith(f"{path}/") for path in paths)
