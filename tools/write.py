"""The ``write`` tool: a whole file at once."""

from __future__ import annotations

from tools.change import apply_changes, on_base
from tools.diff.unified_diff import opcodes
from tools.paths import resolve
from tools.text.decoding import Text, decode
from tools.text.lines import split_lines
from tools.tool import FileChange, Tool, ToolContext, ToolInput, ToolResult


class WriteInput(ToolInput):
    """Arguments of ``write``."""

    file_path: str
    content: str


class WriteTool(Tool[WriteInput], name="write", permission="edit"):
    """Creates or replaces a file; an existing one keeps its encoding and line ends."""

    async def run(self, args: WriteInput, ctx: ToolContext) -> ToolResult:
        target = resolve(args.file_path, ctx)
        before, after = await on_base(target, ctx, lambda base: _plan(base, args.content))
        outcome = await apply_changes([FileChange(target.path, before, after)], ctx)
        return outcome.result()


def _plan(before: bytes | None, content: str) -> bytes:
    if before is None:
        return Text("", "utf-8").encode(content)
    decoded = decode(before)
    if decoded.bom:
        content = content.removeprefix("\ufeff")
    return decoded.encode(_keep_line_ends(decoded.text, content))


def _keep_line_ends(old: str, new: str) -> str:
    """Return ``new`` with the line ends of ``old`` when it has only plain ones: a model does not see the others.

    Unchanged lines keep their own; new ones get the commonest.
    """
    if "\r" in new or "\r" not in old:
        return new
    before, after = split_lines(old), split_lines(new)
    kinds = [line.end for line in before if line.end]
    usual = max(sorted(set(kinds)), key=kinds.count) if kinds else "\n"
    ends = [usual] * len(after)
    if len(set(kinds)) > 1:
        for tag, i1, i2, j1, _ in opcodes([line.body for line in before], [line.body for line in after]):
            if tag == "equal":
                for offset in range(i2 - i1):
                    ends[j1 + offset] = before[i1 + offset].end or usual
    return "".join(line.body + (end if line.end else "") for line, end in zip(after, ends, strict=True))
