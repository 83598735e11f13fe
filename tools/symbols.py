"""The ``symbols`` tool: where things are defined and used, as language servers know it, and renaming them."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec.structs import replace
from pydantic import AliasChoices, Field

from tools.glob import newest_first
from tools.language_ports import CodeSymbol, Places, Position, Symbols
from tools.localization import t
from tools.navigation import symbol_lookup
from tools.navigation.rename import apply_rename, name_at, plan_rename, preview, still_named
from tools.navigation.symbol_text import Listed, Readable, list_outline, list_places, list_symbols, notes
from tools.paths import Target, ask_read, explain_os_error, may_read, missing, resolve, rule_target
from tools.search import ripgrep
from tools.text.decoding import decode
from tools.tool import Tool, ToolContext, ToolError, ToolInput, ToolResult
from tools.writing.disk import read_resolved

if TYPE_CHECKING:
    from collections.abc import Sequence

Operation = Literal[
    "definition", "declaration", "type_definition", "implementation", "references", "outline", "find", "hover",
    "rename",
]  # fmt: skip
_MAX_BYTES = 5_000_000
_MAX_NAME = 300
_MAX_SHOWN = 500
_MAX_KINDS = 12
"""Kinds of files, by suffix, whose servers are asked when ``find`` names no file."""
_TRIED = 4
"""Places with the name that are tried: the first may be in a comment; and files, which may not be readable."""


class SymbolsInput(ToolInput):
    """Arguments of ``symbols``. ``query`` is another word for ``symbol``."""

    operation: Operation
    symbol: str = Field(default="", validation_alias=AliasChoices("symbol", "query"))
    path: str = ""
    line: int | None = None
    column: int | None = None
    new_name: str = ""
    preview: bool = False
    limit: int = 100


class SymbolsTool(Tool[SymbolsInput], name="symbols"):
    """Asks the Navigation port; ``rename`` goes through ``tools.change``."""

    async def run(self, args: SymbolsInput, ctx: ToolContext) -> ToolResult:
        _check(args)
        what = f"{args.operation} {args.symbol or args.path}".strip()
        await self.ask(ctx, what, f"Symbols: {what}")
        if args.operation == "find":
            return await _find(args, ctx)
        if not args.path:
            raise ToolError(f"{args.operation} needs a path: the file that contains the symbol.")
        target = resolve(args.path, ctx)
        if target.path.is_dir():
            raise ToolError(f"{target.rule} is a folder: name a file, or use operation find.")
        await ask_read(target, ctx)
        text = await _text(target, ctx)
        if args.operation == "outline":
            return await _outline(target, args, ctx)
        at = await _position(args, target, text, ctx)
        if args.operation == "hover":
            return await _hover(at, args, ctx)
        if args.operation == "rename":
            return await _rename(at, name_at(text, at), args, ctx)
        if args.operation == "references":
            found = await ctx.navigation.references(at)
        else:
            found = await ctx.navigation.definition(at, args.operation)
        return await _places(found, at, args, ctx)


def _check(args: SymbolsInput) -> None:
    if (args.line is not None and args.line < 1) or (args.column is not None and args.column < 1):
        raise ToolError("line and column count from 1.")
    if args.column is not None and args.line is None:
        raise ToolError("column needs a line.")
    if max(len(args.symbol), len(args.new_name)) > _MAX_NAME:
        raise ToolError(f"A name has at most {_MAX_NAME} characters.")


async def _text(target: Target, ctx: ToolContext) -> str:
    """Return the file as the user sees it. Raises ToolError."""
    unsaved = ctx.files.editors.unsaved(target.path)
    if unsaved is not None:
        return unsaved

    def load() -> str | None:
        if target.path.is_file() and target.path.stat().st_size > _MAX_BYTES:
            raise ToolError(f"{target.rule} is too large for language servers. Use grep.")
        data = read_resolved(target.path)
        return None if data is None else decode(data).text

    try:
        text = await asyncio.to_thread(load)
    except OSError as error:
        raise ToolError(explain_os_error(error, f"{target.rule} cannot be read")) from error
    if text is None:
        raise missing(target, ctx)
    return text


async def _position(args: SymbolsInput, target: Target, text: str, ctx: ToolContext) -> Position:
    """Return the intended position. Raises ToolError with the candidates."""
    symbol, name = args.symbol.strip(), target.rule
    if args.line is not None and args.column is not None:
        return Position(target.path, args.line, args.column)
    if not symbol:
        raise ToolError(f"{args.operation} needs the symbol's name (and its line), or line and column.")
    if args.line is not None:
        places = await asyncio.to_thread(symbol_lookup.on_line, text, symbol, args.line, name)
    else:
        try:
            outline: Sequence[CodeSymbol] = (await ctx.navigation.outline(target.path)).items
        except ToolError:
            outline = ()  # the text still shows the name; a server that cannot help reports it when asked
        place = await asyncio.to_thread(symbol_lookup.in_outline, outline, text, symbol, name)
        one = args.operation == "rename"
        places = (
            [place]
            if place
            else await asyncio.to_thread(lambda: symbol_lookup.in_text(text, symbol, name, one=one))
        )
    positions = [Position(target.path, line, column) for line, column in places]
    return positions[0] if len(positions) == 1 else await _meaningful(positions, ctx)


async def _meaningful(positions: Sequence[Position], ctx: ToolContext) -> Position:
    """Return the first place that is meaningful to a server: not one in a comment or a string."""
    for at in positions[:_TRIED]:
        try:
            if (await ctx.navigation.definition(at)).items:
                return at
        except ToolError:
            break
    return positions[0]


async def _places(found: Places, at: Position, args: SymbolsInput, ctx: ToolContext) -> ToolResult:
    listed = await asyncio.to_thread(list_places, found.items, Readable(ctx, at.path), _limit(args))
    words = args.operation.replace("_", " ")
    return _listed(listed, found.silent, f"No {words} found.", "places", _title(args))


async def _outline(target: Target, args: SymbolsInput, ctx: ToolContext) -> ToolResult:
    found = await ctx.navigation.outline(target.path)
    listed = await asyncio.to_thread(list_outline, found.items, _limit(args))
    title = t("outline {path} ({count})", path=target.rule, count=listed.total)
    return _listed(listed, found.silent, "The file defines nothing.", "symbols", title)


async def _find(args: SymbolsInput, ctx: ToolContext) -> ToolResult:
    query = args.symbol.strip()
    if not query:
        raise ToolError("find needs the name, or a part of it, as symbol.")
    owner, name = symbol_lookup.split_name(query)
    if args.path and not (target := resolve(args.path, ctx)).path.is_dir():
        await ask_read(target, ctx)
        await _text(target, ctx)
        found = await ctx.navigation.find(name, target.path)
    else:
        found = await _find_all(name, await _samples(ctx), ctx)
    items = (
        [item for item in found.items if f".{item.container}".endswith(f".{owner}")] if owner else found.items
    )
    # Servers match by similarity, some in no order, so symbols with exactly this name come first.
    ordered = sorted(items or found.items, key=lambda item: item.name.split("(")[0] != name)
    listed = await asyncio.to_thread(list_symbols, ordered, Readable(ctx), _limit(args))
    return _listed(listed, found.silent, f"No symbol {query} found.", "symbols", _title(args))


async def _samples(ctx: ToolContext) -> list[Path]:
    """Return the newest file of each of the commonest kinds in the workspace: they determine the servers to ask."""
    listed = await ripgrep.list_files(ctx.workspace, ripgrep.ripgrep(ctx.workspace))

    def choose() -> list[Path]:
        groups: dict[str, list[str]] = {}
        for name in listed.files:
            groups.setdefault(Path(name).suffix, []).append(name)
        groups.pop("", None)
        found: list[Path] = []
        for names in sorted(groups.values(), key=len, reverse=True)[:_MAX_KINDS]:
            newest = (ctx.workspace / name for name in newest_first(ctx.workspace, names[:1000])[:_TRIED])
            found += [path for path in newest if may_read(path, ctx) == "allow"][:1]
        return found

    return await asyncio.to_thread(choose)


async def _find_all(name: str, samples: Sequence[Path], ctx: ToolContext) -> Symbols:
    answers = await asyncio.gather(
        *(ctx.navigation.find(name, sample) for sample in samples), return_exceptions=True
    )
    found = [answer for answer in answers if isinstance(answer, Symbols)]
    if not found:
        failed = [answer for answer in answers if isinstance(answer, BaseException)]
        # A server that did not answer is more informative than "there is none for .md".
        failed.sort(key=lambda error: "No language server" in str(error))
        raise failed[0] if failed else ToolError("The workspace has no files to check.")
    items = dict.fromkeys(item for answer in found for item in answer.items)
    silent = dict.fromkeys(name for answer in found for name in answer.silent)
    return Symbols(tuple(items), (), tuple(silent))


async def _hover(at: Position, args: SymbolsInput, ctx: ToolContext) -> ToolResult:
    said = await ctx.navigation.hover(at)
    try:
        origins = (await ctx.navigation.definition(at)).items
    except ToolError:
        origins = ()
    # Types, documentation and the values of constants come from the definition.
    readable = Readable(ctx, at.path)
    denied = await asyncio.to_thread(lambda: any(readable.of(place.path) == "deny" for place in origins))
    if denied:
        raise ToolError("It is defined in a file that must not be read.")
    return ToolResult(said or "Nothing is known about it.", title=_title(args), metadata={"path": args.path})


async def _rename(at: Position, old_name: str, args: SymbolsInput, ctx: ToolContext) -> ToolResult:
    new_name = args.new_name.strip()
    if not new_name or re.search(r"[\s\x00-\x1f]", new_name):
        raise ToolError("rename needs new_name: one name, without blanks.")
    files = await ctx.navigation.rename(at, new_name)
    if not files:
        raise ToolError(
            "The language server finds nothing to rename at "
            f"{rule_target(at.path, ctx.workspace)}:{at.line}:{at.column}."
        )
    plan = await plan_rename(files, ctx)
    if not args.preview:
        renamed = await apply_rename(plan, ctx)
        left = await still_named(old_name, ctx) if old_name != new_name else ""
        return replace(renamed, content=f"{renamed.content}\n\n{left}") if left else renamed
    shown = await asyncio.to_thread(preview, plan, ctx)
    text = f"Preview, nothing was changed. {len(files)} file{'' if len(files) == 1 else 's'}:\n{shown}"
    return ToolResult(text, title=f"{_title(args)} → {new_name} (preview)", metadata={"count": len(files)})


def _limit(args: SymbolsInput) -> int:
    return max(1, min(args.limit, _MAX_SHOWN))


def _title(args: SymbolsInput) -> str:
    where = args.path if args.line is None else f"{args.path}:{args.line}"
    return " ".join(filter(None, (args.operation.replace("_", " "), args.symbol, where)))


def _listed(listed: Listed, silent: Sequence[str], nothing: str, what: str, title: str) -> ToolResult:
    lines = [*(listed.lines or [nothing]), *notes(listed, silent, what)]
    metadata = {"count": listed.total, "left_out": listed.hidden, "silent": list(silent)}
    return ToolResult("\n".join(lines), title=title, metadata=metadata)
