"""Hunks that are chosen, and what is written then, to the letter. The extension's tests read the same file."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any

from daemon.model.permissions import FileAnswer, FileDiff
from daemon.permission.service import CallInfo
from lsp_bridge.cli.acp.content import diffs
from lsp_bridge.cli.run.hunk_prompt import pieces
from lsp_bridge.server.editor.lenses import parts
from tests.support.drivers.golden import check_golden_json
from tests.support.drivers.waiting import until
from tests.support.fakes.asker import FakeAsker, Inbox
from tools.tool import FileChange, PermissionAsk
from tools.writing.proposal import propose

if TYPE_CHECKING:
    from collections.abc import Iterator

WORK = Path("/w")
LINES = [f"line {number}" for number in range(1, 25)]


def text(end: str = "\n", last: str = "\n", **changed: str) -> str:
    """Return the lines of a file, with others in place of some: ``n3="x"`` for line 3; ``last`` ends the file."""
    lines = [changed.get(f"n{number}", line) for number, line in enumerate(LINES, 1)]
    return end.join(line for line in lines if line != "-") + last


HEADERS = {
    "n1": "-- a/other.txt",
    "n2": "@@ -1 +1 @@",
    "n11": "\\ No newline at end of file",
    "n12": "… 3 more lines of this diff are not shown.",
    "n23": "rename from other.txt",
}
CASES: dict[str, tuple[str | None, str | None]] = {
    "plain.txt": (text(), text(n1="one", n12="twelve\nand more", n24="-")),
    "last line end stays absent.txt": (text(last=""), text(last="", n2="two", n24="end")),
    "last line end goes.txt": (text(), text(last="", n2="two")),
    "last line end comes.txt": (text(last=""), text(n2="two")),
    "crlf.txt": (text("\r\n", ""), text("\r\n", "\r\n", n3="three", n24="end")),
    "mixed.txt": (text(n2="two\r", n9="a\rb"), text(n2="two", n14="c\rd", n24="end\r")),
    "adjacent.txt": (text(), text(n4="four", n8="eight", n16="sixteen", n24="-")),
    "headers.txt": (
        text(**HEADERS),
        text(**(HEADERS | {"n1": "++ b/other.txt", "n2": "@@", "n12": "diff --git a/x b/x", "n23": "--- x"})),
    ),
    "empty lines.txt": (text(n1="", n2="", n12="-"), text(n1="-", n12="\n", n24="\n\n")),
    "separators.txt": (text(n5="a\x0cb\u2028c", n20="\x85"), text(n5="a\x0cB\u2028c", n20="\x1d\x1e")),
    "created.txt": (None, text()),
    "deleted.txt": (text(), None),
    "empty before.txt": ("", text(last="")),
    "empty after.txt": (text(last=""), ""),
    "moved.txt": (text(), text(n3="three", n20="twenty")),
}


def plan() -> Iterator[FileChange]:
    for name, (before, after) in CASES.items():
        old, new = (None if side is None else side.encode() for side in (before, after))
        if name == "moved.txt":
            yield FileChange(WORK / "old.txt", old, None)
            yield FileChange(WORK / name, None, new, mode=0o755, moved_from=WORK / "old.txt")
        else:
            yield FileChange(WORK / name, old, new)


async def written(inbox: Inbox, request_id: str, file: FileDiff) -> list[dict[str, Any]]:
    """Return what each choice of hunks of a file writes, when all other files are left out."""
    others = [FileAnswer(path=name, hunks=()) for name in CASES if name != file.path]
    found: list[dict[str, Any]] = []
    for count in range(1, file.hunks + 1):
        for hunks in itertools.combinations(range(file.hunks), count):
            left = await inbox.service.left(request_id, [*others, FileAnswer(path=file.path, hunks=hunks)])
            assert left is not None
            assert [change.path.name for change in left if change.after is not None] == [file.path]
            found.append({"hunks": hunks, "text": (left[-1].after or b"").decode()})
    return found


async def test_the_chosen_hunks_and_no_others_are_written() -> None:
    inbox, asker = Inbox(), FakeAsker()
    changes = tuple(plan())
    names = {change.path: change.path.name for change in changes}
    ask = PermissionAsk("edit", tuple(names.values()), "files", proposal=propose(changes, names))
    task = asyncio.create_task(inbox.service.ask(asker, CallInfo("c", "patch"), ask))
    await until(lambda: asker.asked_for)
    (request,) = asker.asked_for
    cases: list[dict[str, Any]] = []
    for file in request.files:
        before, after = CASES[file.path]
        choices = await written(inbox, request.request_id, file)
        assert not choices or choices[-1]["text"] == after
        assert parts(file) == max(file.hunks, 1)
        rows = file.diff.split("\n")
        shown = pieces(file.wire())
        assert len(shown) == len(file.shown_hunks) == file.hunks
        assert not shown or "\n".join(shown) + "\n" == "\n".join(rows[file.shown_hunks[0].row :])
        assert all(piece.startswith("@@ -") for piece in shown)
        assert len(diffs(file.diff, WORK)) == max(file.hunks, 1)
        cases.append({"file": file.wire(), "before": before, "after": after, "written": choices})
    check_golden_json("../hunks.json", cases)
    inbox.service.reply(request.request_id, "reject", None, "x")
    await asyncio.wait({task})
