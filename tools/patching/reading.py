"""From ``patch_text`` to the changes of files, in either format. Pure."""

from __future__ import annotations

import re

from tools.patching.envelope import is_envelope, parse_envelope
from tools.patching.model import MAX_FILES, MAX_HUNKS, MAX_PATCH_CHARS, FilePatch, PatchError
from tools.patching.unified import parse_unified

_NOTHING = (
    "patch_text has no patch in it. Send a unified diff (--- a/FILE, +++ b/FILE, @@ -1,3 +1,4 @@, lines with "
    "' ', '-' or '+') or an envelope (*** Begin Patch, *** Update File: FILE, @@, lines, *** End Patch). "
    "Nothing was changed."
)


def parse_patch(text: str) -> list[FilePatch]:
    """All sections, in the order in which they are to be applied. Raises PatchError."""
    if len(text) > MAX_PATCH_CHARS:
        raise PatchError(
            f"patch_text has {len(text):,} characters, and one call takes {MAX_PATCH_CHARS:,}. "
            "Nothing was changed: split the patch."
        )
    lines = text.removeprefix("\ufeff").split("\n")
    if lines[-1] == "":
        lines.pop()
    lines = _without_margin(lines)
    files = parse_envelope(lines) if is_envelope(lines) else parse_unified(lines)
    if not files:
        raise PatchError(_NOTHING)
    hunks = sum(len(file.hunks) for file in files)
    if len(files) > MAX_FILES or hunks > MAX_HUNKS:
        raise PatchError(
            f"The patch has {len(files):,} files and {hunks:,} hunks; one call takes {MAX_FILES:,} and "
            f"{MAX_HUNKS:,}. Nothing was changed: split the patch."
        )
    for file in files:
        if file.action == "update" and not file.moves and file.executable is None and not file.hunks:
            raise PatchError(
                f"{file.source}: no hunk follows. Begin one with @@ and give every line its prefix ' ', '-' or '+'. "
                "Nothing was changed."
            )
    return files


_BEGIN = re.compile(r"([ \t]+)\*\*\* Begin Patch\s*$", re.IGNORECASE)


def _without_margin(lines: list[str]) -> list[str]:
    """An envelope that was indented as a whole, as text within other text is."""
    first = next((line for line in lines if line.strip()), "")
    found = _BEGIN.match(first)
    if found is None or any(line.strip() and not line.startswith(found.group(1)) for line in lines):
        return lines
    return [line[len(found.group(1)) :] for line in lines]
