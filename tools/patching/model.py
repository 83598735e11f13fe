"""The model of a patch, in either format. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from tools.localization import t
from tools.text.truncate import short
from tools.tool import ToolError

if TYPE_CHECKING:
    from collections.abc import Sequence

Kind = Literal[" ", "-", "+"]
Style = Literal["exact", "pair", "weak"]
Action = Literal["add", "update", "delete", "copy"]

MAX_PATCH_CHARS = 8_000_000
MAX_HUNKS = 10_000
MAX_FILES = 2_000


class PatchError(ToolError):
    """A patch that cannot be parsed or has no certain place, with a message that helps the model."""

    def __init__(self, message: str, *, told: str = "") -> None:
        super().__init__(message, told=told or t("The patch does not fit the files."))


class HunkLine(Struct, frozen=True):
    """One line of a hunk, without its prefix and line end."""

    kind: Kind
    text: str
    cr: bool = False
    """Whether there was a ``\\r`` before the line end, which only counts with ``Hunk.ends_stated``."""
    no_end: bool = False
    """Marked with ``\\ No newline at end of file``."""
    soft: bool = False
    """A blank line without prefix: context, or only layout of the patch."""


class Numbers(Struct, frozen=True):
    """The line numbers and counts that a hunk states; they are often wrong, so they never decide alone."""

    old_start: int
    old_count: int | None
    new_start: int
    new_count: int | None
    heading: str = ""
    """The text that git puts after them: the last line before the hunk that begins with a letter in its first
    column."""


class Hunk(Struct, frozen=True):
    """One change: consecutive lines of the old file, and their replacement."""

    number: int
    """From 1, within the section of its file."""
    header: str
    lines: tuple[HunkLine, ...]
    numbers: Numbers | None = None
    anchors: tuple[str, ...] = ()
    """Heading lines before the place, the outermost first."""
    at_end: bool = False
    """The old lines end where the file ends (``*** End of File``)."""
    ends_stated: bool = False
    """Line ends are part of the patch: ``\\r`` on some lines, although not on all."""

    @property
    def old(self) -> list[HunkLine]:
        """Context and removed lines."""
        return [line for line in self.lines if line.kind != "+"]

    @property
    def new(self) -> list[HunkLine]:
        """Context and added lines."""
        return [line for line in self.lines if line.kind != "-"]

    @property
    def changes(self) -> bool:
        """Whether anything is added or removed."""
        return any(line.kind != " " for line in self.lines)

    @property
    def name(self) -> str:
        """How errors call it."""
        header = short(self.header, 80)
        return f"hunk {self.number} ({header})" if header else f"hunk {self.number}"


class HunkDraft(Struct):
    """A hunk while its lines are read."""

    header: str = ""
    numbers: Numbers | None = None
    anchors: tuple[str, ...] = ()
    lines: list[HunkLine] = field(default_factory=list[HunkLine])
    at_end: bool = False


def without_final_end(lines: list[HunkLine]) -> None:
    """Mark the last line: a ``\\ No newline at end of file`` follows it."""
    lines[-1] = replace(lines[-1], no_end=True)


def finished(drafts: Sequence[HunkDraft], ends_stated: bool) -> tuple[Hunk, ...]:
    """Return the hunks of one file."""
    return tuple(
        Hunk(
            number, draft.header, tuple(draft.lines), draft.numbers, draft.anchors, draft.at_end, ends_stated
        )
        for number, draft in enumerate(drafts, 1)
    )


class Names(Struct, frozen=True):
    """The names of a file in its header, and how certain they are.

    ``exact``: they are literal. ``pair``: prefixes like ``a/`` and ``b/`` that are not part of the name. ``weak``: the
    first folder may or may not be a prefix; the files that exist decide.
    """

    old: str | None
    """None: there is no old file (``/dev/null``)."""
    new: str | None
    """None: there is no new file."""
    style: Style = "exact"


class FilePatch(Struct, frozen=True):
    """The changes of one file. A file may have several of them in a patch, one applied on the other's result."""

    action: Action
    names: Names
    hunks: tuple[Hunk, ...] = ()
    moves: bool = False
    """``names.new`` is another file than ``names.old``, and the old one goes."""
    executable: bool | None = None
    """The executable bit to set, if the patch names a mode."""
    old_blob: str = ""
    new_blob: str = ""
    """The (shortened) hashes of git's ``index`` line."""
    source: str = ""
    """The header line, for errors."""


def at_line(number: int, message: str) -> PatchError:
    """Return an error at a line (from 1) of ``patch_text``."""
    return PatchError(f"Line {number} of patch_text: {message} Nothing was changed.")


def added_text(hunks: Sequence[Hunk]) -> str:
    """Return the content of a new file. Line ends as stated, else ``\\n``."""
    out: list[str] = []
    for hunk in hunks:
        for line in hunk.new:
            end = "" if line.no_end else "\r\n" if line.cr and hunk.ends_stated else "\n"
            out.append(line.text + end)
    return "".join(out)


def shown(text: str, limit: int = 100) -> str:
    """Return a line of the patch for an error."""
    return repr(short(text, limit))
