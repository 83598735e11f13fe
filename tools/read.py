"""The ``read`` tool: a file with line numbers, a folder, or an image."""

from __future__ import annotations

import asyncio
import base64
import stat
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace
from pydantic import AliasChoices, Field

from tools.files.regular_files import sha256
from tools.ls import tree
from tools.paths import Target, ask_read, explain_os_error, missing, resolve
from tools.search.unsaved import unknown
from tools.text.decoding import BinaryFileError, Text, decode
from tools.text.lines import each_line
from tools.text.truncate import head
from tools.tool import Image, Tool, ToolContext, ToolError, ToolInput, ToolResult
from tools.writing.disk import MAX_READ, read_resolved

MAX_LINES = 2000
MAX_COLUMNS = 2000
MAX_BYTES = 50 * 1024
_SMALL = 64 * 1024
"""Bytes of a file that is read on the event loop: the way into a thread and back takes longer."""
MAX_IMAGE_BYTES = 3_900_000
"""Providers take 5 MB (Anthropic), counted in base64, and refuse every further request of a session with more."""
SEPARATOR = "→"
"""Between line number and text. Not a tab: it must not be taken for a part of the text."""

_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    *((mark, "image/gif") for mark in (b"GIF87a", b"GIF89a")),
)

_UNKNOWN = (
    "(As on disk. The file is open in an editor whose content is unknown: the user may see something else. "
    "Ask them to save and close it before you change it.)"
)


class ReadInput(ToolInput):
    """Arguments of ``read``."""

    file_path: str = Field(
        # Models often call it "path", so that name is accepted but not offered.
        validation_alias=AliasChoices("file_path", "path"),
        description="File or folder, absolute or relative to the workspace.",
    )
    offset: int = Field(default=1, ge=1, description="First line to show, from 1.")
    limit: int = Field(default=MAX_LINES, ge=1)


class _Page(Struct, frozen=True):
    body: str
    first: int
    last: int
    total: int


class _Shown(Struct, frozen=True):
    decoded: Text
    digest: str
    """Hash of the bytes that the user has: with unsaved changes, as they would be saved."""
    page: _Page


class ReadTool(Tool[ReadInput], name="read"):
    """Shows a file as the user sees it, and records that the model has seen this version."""

    async def run(self, args: ReadInput, ctx: ToolContext) -> ToolResult:
        target = resolve(args.file_path, ctx)
        await ask_read(target, ctx)
        if target.path.is_dir():
            return await asyncio.to_thread(_folder, target)
        await ctx.files.editors.settle(target.path)
        unsaved = ctx.files.editors.unsaved(target.path)
        found = await _load(target, ctx, unsaved, args)
        if isinstance(found, ToolResult):
            return found
        page = found.page
        if page.total and args.offset > page.total:
            raise ToolError(
                f"{target.rule} has only {page.total} lines; offset {args.offset} is beyond its end."
            )
        ctx.files.note_read(target.path, found.digest)
        ctx.diagnostics.warm(target.path)
        shown = _result(target, page, found.digest, found.decoded, unsaved is not None)
        if unsaved is None and unknown(target.path, ctx):
            return replace(shown, content=f"{_UNKNOWN}\n{shown.content}")
        return shown


async def _load(
    target: Target, ctx: ToolContext, unsaved: str | None, args: ReadInput
) -> ToolResult | _Shown:
    """Return the page of a text file, or the whole result for an image. Raises ToolError."""
    try:
        info = target.path.stat()
        if info.st_size <= _SMALL and stat.S_ISREG(info.st_mode):
            found = _read(target, unsaved, args)
        else:
            found = await asyncio.to_thread(_read, target, unsaved, args)
    except FileNotFoundError:
        found = None
        if unsaved is not None:
            # A new file that the user has not saved yet.
            found = await asyncio.to_thread(_show, Text("", "utf-8"), b"", unsaved, args)
    except OSError as error:
        raise ToolError(explain_os_error(error, f"{target.rule} cannot be read")) from error
    if found is not None:
        return found
    raise missing(target, ctx)


def _read(target: Target, unsaved: str | None, args: ReadInput) -> ToolResult | _Shown | None:
    """Read a file. Blocking; None for a file that does not exist. Raises OSError, and ToolError unless it is text."""
    size = target.path.stat().st_size
    if size > MAX_READ:
        raise ToolError(f"{target.rule} has {size} bytes: too large to read. Search it with grep instead.")
    data = read_resolved(target.path)
    if data is None:
        return None
    if (media_type := image_type(data)) is not None:
        return _image(target, data, media_type)
    try:
        decoded = decode(data)
    except BinaryFileError as error:
        message = (
            f"{target.rule} is a binary file of {len(data)} bytes and cannot be shown as text. "
            "Use a command to inspect, move or delete it."
        )
        raise ToolError(message) from error
    return _show(decoded, data, unsaved, args)


def _show(decoded: Text, data: bytes, unsaved: str | None, args: ReadInput) -> _Shown:
    digest = sha256(data if unsaved is None else _as_saved(decoded, unsaved))
    text = decoded.text if unsaved is None else unsaved
    return _Shown(decoded, digest, _page(text, args.offset, args.limit))


def _as_saved(decoded: Text, unsaved: str) -> bytes:
    """Return the bytes that the editor would write: the hash then still matches after the user has saved."""
    try:
        return decoded.encode(unsaved)
    except ToolError:
        return unsaved.encode("utf-8", "replace")


def _folder(target: Target) -> ToolResult:
    listing = tree(target.path, depth=1)
    return ToolResult(
        f"{target.rule} is a folder:\n{listing.text}", title=target.rule, metadata={"path": target.rule}
    )


def image_type(data: bytes) -> str | None:
    """Return the media type of an image that models can be shown, by its first bytes; None for all else."""
    for magic, media_type in _MAGIC:
        if data.startswith(magic):
            return media_type
    return "image/webp" if data[:4] == b"RIFF" and data[8:12] == b"WEBP" else None


def _image(target: Target, data: bytes, media_type: str) -> ToolResult:
    if len(data) > MAX_IMAGE_BYTES:
        raise ToolError(f"{target.rule} is an image of {len(data)} bytes: too large to show.")
    image = Image(media_type, base64.b64encode(data).decode("ascii"))
    return ToolResult(
        f"{target.rule} is an image ({media_type}, {len(data)} bytes).",
        title=target.rule,
        metadata={"path": target.rule, "sha256": sha256(data)},
        images=(image,),
    )


def _page(text: str, offset: int, limit: int) -> _Page:
    shown: list[str] = []
    size = 0
    lines = islice(each_line(text), offset - 1, offset - 1 + min(limit, MAX_LINES))
    for number, line in enumerate(lines, offset):
        body = line.body
        if len(body) > MAX_COLUMNS:
            body = f"{head(body, MAX_COLUMNS)}… [line cut: {len(body)} characters]"
        row = f"{number}{SEPARATOR}{body}"
        size += len(row.encode("utf-8", "replace")) + 1
        if size > MAX_BYTES and shown:
            break
        shown.append(row)
    return _Page("\n".join(shown), offset, offset + len(shown) - 1, sum(1 for _ in each_line(text)))


def _result(target: Target, page: _Page, digest: str, decoded: Text, unsaved: bool) -> ToolResult:
    parts: list[str] = []
    if unsaved:
        parts.append("(As in the editor, with UNSAVED changes: the file on disk differs.)")
    parts.append(page.body if page.total else "(The file is empty.)")
    if page.total > page.last:
        parts.append(
            f"(Lines {page.first}-{page.last} of {page.total}. Continue with offset={page.last + 1}.)"
        )
    elif page.first > 1:
        parts.append(f"(Lines {page.first}-{page.last} of {page.total}: the end of the file.)")
    whole = page.first == 1 and page.last == page.total
    title = target.rule if whole else f"{target.rule} {page.first}-{page.last}"
    metadata = {
        "path": target.rule,
        "sha256": digest,
        "lines": page.total,
        "encoding": decoded.codec,
        "unsaved": unsaved,
    }
    return ToolResult("\n".join(parts), title=title, metadata=metadata)
