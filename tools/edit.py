"""The ``edit`` tool: replace a text in a file."""

from __future__ import annotations

from pydantic import Field

from tools.change import apply_changes, on_base
from tools.localization import t
from tools.matching.match import find_edit
from tools.paths import Target, did_you_mean, meant_hint, resolve
from tools.text.decoding import Text, decode, read_as_quoted, splice_bytes
from tools.tool import FileChange, Tool, ToolContext, ToolError, ToolInput, ToolResult

MAX_FILE_BYTES = 10_000_000
"""Above this size, finding a place by anything but its exact text takes minutes, and the diff is too long to read."""


class EditInput(ToolInput):
    """Arguments of ``edit``."""

    file_path: str
    old_string: str = Field(description="Text to replace; empty to create a new file.")
    new_string: str = Field(description="Text to put there; empty to delete old_string.")
    replace_all: bool = False


class EditTool(Tool[EditInput], name="edit"):
    """Finds ``old_string`` by the match strategies of ``tools.matching.match`` and writes through ``tools.change``."""

    async def run(self, args: EditInput, ctx: ToolContext) -> ToolResult:
        target = resolve(args.file_path, ctx)
        before, (after, note) = await on_base(target, ctx, lambda base: _plan(base, args, target))
        outcome = await apply_changes([FileChange(target.path, before, after)], ctx)
        return outcome.result(note)


def _plan(before: bytes | None, args: EditInput, target: Target) -> tuple[bytes, str]:
    """Return the new content, and a note on how ``old_string`` differed."""
    name = target.rule
    if before is None:
        if args.old_string:
            hint = "" if target.outside else meant_hint(did_you_mean(target.path))
            raise ToolError(
                f"{name} does not exist.{hint} To create it, send an empty old_string.",
                told=t("The file does not exist."),
            )
        return Text("", "utf-8").encode(args.new_string), ""
    if len(before) > MAX_FILE_BYTES:
        raise ToolError(
            f"{name} has {len(before) // 1_000_000} MB; edit takes files of at most {MAX_FILE_BYTES // 1_000_000} MB. "
            "Use a command for it."
        )
    decoded = decode(before)
    if not args.old_string:
        if decoded.text:
            raise ToolError(f"{name} exists and is not empty: old_string must contain the text to replace.")
        return decoded.encode(args.new_string), ""
    old, new = args.old_string, args.new_string
    if decoded.bom:
        old, new = old.removeprefix("\ufeff"), new.removeprefix("\ufeff")
    decoded = read_as_quoted(before, decoded, old)
    edit = find_edit(decoded.text, old, new, args.replace_all)
    spans = [(span.start, span.end, span.replacement) for span in edit.spans]
    return splice_bytes(before, decoded, spans), edit.note
