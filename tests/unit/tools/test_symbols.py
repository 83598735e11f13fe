from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.support.fakes.navigation import FakeNavigation, place, symbol
from tests.support.fakes.tool_context import FakeToolContext, fake_context, put
from tools.files.regular_files import sha256
from tools.language_ports import RenamedText
from tools.registry import builtin_tools, run_tool
from tools.tool import PermissionDeniedError, ToolError, ToolResult

CART = b"""class Cart:
    # total is counted in cents
    def total(self) -> int:
        return self.total_of(self.items)


class Bag:
    def total(self) -> int:
        return 0
"""
USER = b"from cart import Cart\nprint('total', Cart().total())\n"


@pytest.fixture
def servers() -> FakeNavigation:
    return FakeNavigation()


@pytest.fixture
def ctx(tmp_path: Path, servers: FakeNavigation) -> FakeToolContext:
    context = replace(fake_context(tmp_path / "workspace"), navigation=servers)
    for name, data in (("cart.py", CART), ("user.py", USER)):
        put(context, name, data)
    context.files.seen.clear()
    return context


async def symbols(ctx: FakeToolContext, operation: str, **arguments: object) -> ToolResult:
    return await run_tool(builtin_tools()["symbols"], json.dumps({"operation": operation, **arguments}), ctx)


async def test_a_symbol_is_found_by_its_name_on_the_line(
    ctx: FakeToolContext, servers: FakeNavigation
) -> None:
    servers.places = [place(ctx.workspace / "cart.py", 3, 9, "def total(self) -> int:")]
    result = await symbols(ctx, "definition", path="cart.py", symbol="total", line=3)
    assert (result.content, result.is_error) == ("cart.py:3:9 def total(self) -> int:", False)
    assert servers.asked == [("definition", 3, 9)]
    assert ctx.permission.asked == ["symbols", "read"]


@pytest.mark.parametrize(
    ("operation", "kind"),
    [("declaration", "declaration"), ("type_definition", "type_definition"), ("references", "references")],
)
async def test_every_operation_asks_its_own_question(
    ctx: FakeToolContext, servers: FakeNavigation, operation: str, kind: str
) -> None:
    result = await symbols(ctx, operation, path="cart.py", line=3, column=10)
    assert result.content == f"No {operation.replace('_', ' ')} found."
    assert servers.asked == [(kind, 3, 10)]


async def test_missing_name_error_shows_what_the_line_has(ctx: FakeToolContext) -> None:
    result = await symbols(ctx, "definition", path="cart.py", symbol="total", line=4)
    assert result.is_error
    assert result.content.startswith("cart.py:4 has no `total`. It says: return self.total_of(self.items)")
    assert "It is on lines 2, 3, 8." in result.content
    result = await symbols(ctx, "definition", path="cart.py", symbol="total", line=40)
    assert result.content == "cart.py has 9 lines; line 40 is beyond its end."
    result = await symbols(ctx, "definition", path="cart.py", symbol="nowhere")
    assert result.content.startswith("cart.py has no `nowhere`. Search for it with grep")


async def test_outline_locates_a_symbol_without_a_line(ctx: FakeToolContext, servers: FakeNavigation) -> None:
    cart = ctx.workspace / "cart.py"
    methods = [symbol(cart, "total", "method", 3, 9, "Cart"), symbol(cart, "total", "method", 8, 9, "Bag")]
    servers.outlined = methods
    result = await symbols(ctx, "references", path="cart.py", symbol="total")
    assert result.is_error
    assert result.content == (
        "cart.py defines `total` more than once: say which line.\n3: method Cart.total\n8: method Bag.total"
    )
    await symbols(ctx, "references", path="cart.py", symbol="Bag.total()")
    assert servers.asked == [("references", 8, 9)]


async def test_the_range_of_a_flat_outline_begins_before_the_name(
    ctx: FakeToolContext, servers: FakeNavigation
) -> None:
    servers.outlined = [symbol(ctx.workspace / "cart.py", "Bag", "class", 7, 1)]
    await symbols(ctx, "hover", path="cart.py", symbol="Bag")
    assert servers.asked[0] == ("hover", 7, 7)


async def test_a_name_in_a_string_is_passed_over(ctx: FakeToolContext, servers: FakeNavigation) -> None:
    servers.defined = lambda at: [place(ctx.workspace / "cart.py", 3, 9)] if at.column > 10 else []
    await symbols(ctx, "references", path="user.py", symbol="total", line=2)
    assert servers.asked[-1] == ("references", 2, 23)


async def test_a_rename_without_a_line_must_not_guess(ctx: FakeToolContext, servers: FakeNavigation) -> None:
    result = await symbols(ctx, "rename", path="cart.py", symbol="total", new_name="sum_up")
    assert (result.content, result.is_error) == (
        "`total` is on lines 2, 3, 8 of cart.py: say which line.",
        True,
    )
    assert servers.asked == []


async def test_unsaved_buffer_is_examined(ctx: FakeToolContext, servers: FakeNavigation) -> None:
    ctx.files.buffers[ctx.workspace / "cart.py"] = "# new\n\nvalue = 1\n"
    await symbols(ctx, "hover", path="cart.py", symbol="value", line=3)
    assert servers.asked[0] == ("hover", 3, 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"operation": "definition", "symbol": "x"}, "needs a path"),
        ({"operation": "definition", "path": "cart.py"}, "needs the symbol's name"),
        (
            {"operation": "definition", "path": "card.py", "symbol": "x"},
            "card.py does not exist. Did you mean: cart.py?",
        ),
        ({"operation": "outline", "path": "."}, "is a folder"),
        ({"operation": "find"}, "find needs the name"),
        ({"operation": "hover", "path": "cart.py", "symbol": "x", "line": 0}, "count from 1"),
        ({"operation": "hover", "path": "cart.py", "column": 2}, "column needs a line"),
        ({"operation": "hover", "path": "cart.py", "symbol": "x" * 301}, "at most 300"),
        ({"operation": "rename", "path": "cart.py", "line": 3, "column": 9}, "needs new_name"),
        (
            {"operation": "rename", "path": "cart.py", "line": 3, "column": 9, "new_name": "a b"},
            "without blanks",
        ),
        (
            {"operation": "rename", "path": "cart.py", "line": 3, "column": 9, "new_name": "b"},
            "The language server finds nothing to rename at",
        ),
        ({"operation": "teleport"}, "input should be 'definition'"),
    ],
    ids=str,
)
async def test_unanswerable_request_is_refused_with_a_reason(
    ctx: FakeToolContext, arguments: dict[str, object], message: str
) -> None:
    result = await run_tool(builtin_tools()["symbols"], json.dumps(arguments), ctx)
    assert result.is_error
    assert message in result.content


async def test_missing_server_is_reported_clearly(ctx: FakeToolContext) -> None:
    bare = replace(fake_context(ctx.workspace), scratch=ctx.scratch)
    result = await symbols(bare, "references", path="cart.py", symbol="total", line=3)
    assert result.is_error
    assert result.content.startswith(
        "No language server is available for cart.py. `goalwright doctor` shows the user which one to "
        "install."
    )
    result = await symbols(bare, "find", query="total")
    assert result.is_error
    assert "`goalwright doctor`" in result.content


async def test_places_are_judged_by_the_rules_for_reading(
    ctx: FakeToolContext, servers: FakeNavigation
) -> None:
    root = ctx.workspace
    ctx.permission.rules = [("read", "secret.py", "deny"), ("read", "*.env.py", "ask"), ("read", "/*", "ask")]
    servers.places = [
        place(Path("/usr/lib/typing.py"), 9, 1, "outside"),
        place(root / "secret.py", 1, 1, "KEY = 'abc'"),
        place(root / "my.env.py", 2, 1, "KEY = 'def'"),
        place(root / "user.py", 2, 1, "print()"),
        place(root / "cart.py", 3, 9, "def total"),
    ]
    result = await symbols(ctx, "references", path="cart.py", symbol="total", line=3)
    assert result.content.split("\n") == [
        "cart.py:3:9 def total",
        "my.env.py:2:1 (reading it needs approval)",
        "user.py:2:1 print()",
        "/usr/lib/typing.py:9:1 (reading it needs approval)",
        "(1 more are in files that must not be read.)",
    ]
    assert result.metadata == {"count": 4, "left_out": 1, "silent": []}


async def test_a_file_that_must_not_be_read_is_not_asked_about(
    ctx: FakeToolContext, servers: FakeNavigation
) -> None:
    ctx.permission.refuse = {"read"}
    with pytest.raises(PermissionDeniedError):
        await symbols(ctx, "outline", path="cart.py")
    assert servers.asked == []


async def test_hover_text_from_an_unreadable_file_is_withheld(
    ctx: FakeToolContext, servers: FakeNavigation
) -> None:
    servers.said = "```python\n(constant) KEY: 'abc'\n```"
    assert (await symbols(ctx, "hover", path="user.py", symbol="Cart", line=1)).content == servers.said
    servers.places = [place(ctx.workspace / "secret.py", 1, 1)]
    ctx.permission.rules = [("read", "secret.py", "deny")]
    result = await symbols(ctx, "hover", path="user.py", symbol="Cart", line=1)
    assert (result.is_error, "abc" in result.content) == (True, False)


async def test_long_results_are_cut_and_silent_servers_named(
    ctx: FakeToolContext, servers: FakeNavigation
) -> None:
    servers.places = [place(ctx.workspace / "cart.py", line, 1) for line in range(1, 400)]
    servers.silent = ("slow",)
    result = await symbols(ctx, "references", path="cart.py", symbol="total", line=3)
    lines = result.content.split("\n")
    assert (len(lines), lines[100]) == (102, "(399 places; the first 100 are shown.)")
    assert lines[101] == "(May be incomplete: slow did not report everything in time.)"
    few = await symbols(ctx, "references", path="cart.py", symbol="total", line=3, limit=2)
    assert few.content.startswith("cart.py:1:1\ncart.py:2:1\n(399 places; the first 2")


async def test_an_outline_leaves_out_what_is_local(ctx: FakeToolContext, servers: FakeNavigation) -> None:
    cart = ctx.workspace / "cart.py"
    servers.outlined = [
        symbol(cart, "Cart", "class", 1, 7),
        symbol(cart, "limit", "variable", 2, 5, "Cart"),
        symbol(cart, "total", "method", 3, 9, "Cart"),
        symbol(cart, "cents", "variable", 4, 9, "Cart.total"),
    ]
    result = await symbols(ctx, "outline", path="cart.py")
    assert result.content == "1:7 class Cart\n2:5 variable Cart.limit\n3:9 method Cart.total"


async def test_find_queries_the_servers_of_the_workspace_languages(
    ctx: FakeToolContext, servers: FakeNavigation
) -> None:
    put(ctx, "src/app.ts", b"let a = 1\n")
    put(ctx, "secret.py", b"")
    ctx.permission.rules = [("read", "secret.py", "deny")]
    servers.symbols = [
        symbol(ctx.workspace / "secret.py", "total", "function", 1, 5),
        symbol(ctx.workspace / "user.py", "total_of", "function", 1, 5),
        symbol(ctx.workspace / "cart.py", "total", "method", 3, 9, "Cart"),
    ]
    result = await symbols(ctx, "find", query="total")
    assert sorted(near.rpartition(".")[2] for _, near in servers.queries) == ["py", "ts"]
    assert result.content.split("\n") == [
        "cart.py:3:9 method Cart.total",
        "user.py:1:5 function total_of",
        "(1 more are in files that must not be read.)",
    ]
    named = await symbols(ctx, "find", symbol="Cart.total", path="cart.py")
    assert servers.queries[-1] == ("total", "cart.py")
    assert named.content == "cart.py:3:9 method Cart.total"


def rename_of(ctx: FakeToolContext, *names: str) -> tuple[RenamedText, ...]:
    found: list[RenamedText] = []
    for name in names:
        text = (ctx.workspace / name).read_bytes().decode()
        found.append(RenamedText(ctx.workspace / name, text, text.replace("total(", "sum_up(")))
    return tuple(found)


async def rename(ctx: FakeToolContext, **more: object) -> ToolResult:
    return await symbols(ctx, "rename", path="cart.py", symbol="total", line=3, new_name="sum_up", **more)


async def test_a_rename_goes_through_the_write_path(ctx: FakeToolContext, servers: FakeNavigation) -> None:
    servers.renamed = rename_of(ctx, "cart.py", "user.py")
    result = await rename(ctx)
    assert not result.is_error, result.content
    assert result.content.startswith("Edit applied: cart.py (+2 -2)\nEdit applied: user.py (+1 -1)")
    assert b"Cart().sum_up()" in (ctx.workspace / "user.py").read_bytes()
    assert ctx.permission.asked == ["symbols", "read", "edit"]
    assert ctx.permission.asks[-1].targets == ("cart.py", "user.py")
    assert (len(ctx.history.kept), ctx.diagnostics.reported) == (2, 1)


async def test_rename_reports_where_the_old_name_remains(
    ctx: FakeToolContext, servers: FakeNavigation
) -> None:
    put(ctx, "tests/test_cart.py", b"\ndef test_total():\n    assert cart.total() == total(1) and subtotal\n")
    put(ctx, "docs/notes.md", b"`total` adds up\n")
    put(ctx, "secret/keys.py", b"total = 1\n")
    put(ctx, "node_modules/x.js", b"total\n")
    put(ctx, "other.py", b"subtotal = totals\n")
    ctx.permission.rules.append(("read", "secret/*", "deny"))
    ctx.files.buffers[ctx.workspace / "typed.py"] = "x = total\n"
    servers.renamed = rename_of(ctx, "cart.py", "user.py")
    result = await rename(ctx)
    assert result.content.splitlines()[-1] == (
        "The name total still occurs in cart.py:2, docs/notes.md:1, tests/test_cart.py:3 (2 places), "
        "typed.py:1, user.py:2. The language server did not recognize these places as the same symbol, or "
        "does not know the files: change those that are meant."
    )


@pytest.mark.parametrize("why", ["nothing left", "search denied"])
async def test_rename_adds_no_hint_if_nothing_is_left_or_grep_denied(
    ctx: FakeToolContext, servers: FakeNavigation, why: str
) -> None:
    if why == "search denied":
        ctx.permission.rules.append(("grep", "*", "deny"))
    else:
        (ctx.workspace / "user.py").unlink()
    text = CART.decode()
    servers.renamed = (RenamedText(ctx.workspace / "cart.py", text, re.sub(r"\btotal\b", "sum_up", text)),)
    assert "still stands" not in (await rename(ctx)).content


async def test_rename_names_some_files_and_counts_the_others(
    ctx: FakeToolContext, servers: FakeNavigation
) -> None:
    (ctx.workspace / "user.py").unlink()
    for number in range(10):
        put(ctx, f"t{number}.py", b"total\n")
    servers.renamed = rename_of(ctx, "cart.py")
    # By its place alone, the name is that in the text.
    result = await symbols(ctx, "rename", path="cart.py", line=3, column=11, new_name="sum_up")
    assert "The name total still occurs in cart.py:2, t0.py:1, t1.py:1" in result.content
    assert "t6.py:1 and in 3 more files. The language server" in result.content


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
async def test_renamed_name_is_found_whatever_ends_the_lines(
    ctx: FakeToolContext, servers: FakeNavigation, end: str
) -> None:
    put(ctx, "cart.py", CART.replace(b"\n", end.encode()))
    servers.renamed = rename_of(ctx, "cart.py")
    result = await symbols(ctx, "rename", path="cart.py", line=3, column=11, new_name="sum_up")
    assert "The name total still occurs in" in result.content


async def test_files_not_read_stay_unread_after_a_rename(
    ctx: FakeToolContext, servers: FakeNavigation
) -> None:
    cart, user = ctx.workspace / "cart.py", ctx.workspace / "user.py"
    ctx.files.seen[cart] = sha256(CART)
    servers.renamed = rename_of(ctx, "cart.py", "user.py")
    result = await rename(ctx)
    assert ctx.files.seen == {cart: sha256(cart.read_bytes())}
    # The record, from which a session is restored, says the same.
    assert [entry["sha256"] for entry in result.metadata["files"]] == [ctx.files.seen[cart], None]
    assert user.read_bytes() != USER


async def test_a_preview_changes_nothing(ctx: FakeToolContext, servers: FakeNavigation) -> None:
    servers.renamed = rename_of(ctx, "cart.py", "user.py")
    ctx.permission.refuse = {"edit"}
    result = await rename(ctx, preview=True)
    assert result.content.startswith("Preview, nothing was changed. 2 files:\ncart.py (+2 -2)\n@@")
    assert "+print('total', Cart().sum_up())" in result.content
    assert (ctx.workspace / "cart.py").read_bytes() == CART
    assert "edit" not in ctx.permission.asked


async def test_a_refused_rename_changes_nothing(ctx: FakeToolContext, servers: FakeNavigation) -> None:
    servers.renamed = rename_of(ctx, "cart.py", "user.py")
    ctx.permission.refuse = {"edit"}
    with pytest.raises(PermissionDeniedError):
        await rename(ctx)
    assert (ctx.workspace / "cart.py").read_bytes() == CART


@pytest.mark.parametrize("kind", ["old text", "outside", "denied", "gone", "encoding"])
async def test_incomplete_rename_is_refused(
    ctx: FakeToolContext, servers: FakeNavigation, tmp_path: Path, kind: str
) -> None:
    cart, *_ = files = rename_of(ctx, "cart.py", "user.py")
    user = ctx.workspace / "user.py"
    message = "user.py, but what the language server knows of it is not its text on disk"
    if kind == "old text":
        user.write_bytes(USER + b"# later\n")
    elif kind == "outside":
        user = tmp_path / "library.py"
        user.write_bytes(USER)
        message = "library.py, which is outside of the workspace"
    elif kind == "denied":
        ctx.permission.rules = [("read", "user.py", "deny")]
        message = "user.py, which must not be read"
    elif kind == "gone":
        user.unlink()
        message = "user.py, which does not exist"
    else:
        user.write_bytes("é = 1\n".encode("latin-1") + USER)
    servers.renamed = (cart, RenamedText(user, files[1].before, files[1].after))
    result = await rename(ctx)
    assert result.is_error
    assert message in result.content
    assert "Nothing was changed." in result.content
    assert (ctx.workspace / "cart.py").read_bytes() == CART
    assert "edit" not in ctx.permission.asked


async def test_a_rename_keeps_byte_order_mark_line_ends_and_encoding(
    ctx: FakeToolContext, servers: FakeNavigation
) -> None:
    data = b"\xef\xbb\xbftotal()\r\n# \xc3\xa9\ntotal()\r\n"
    put(ctx, "cart.py", data)
    ctx.files.seen.clear()
    text = data.decode("utf-8-sig")
    servers.renamed = (RenamedText(ctx.workspace / "cart.py", text, text.replace("total", "sum_up")),)
    result = await symbols(ctx, "rename", path="cart.py", symbol="total", line=1, new_name="sum_up")
    assert not result.is_error, result.content
    assert (ctx.workspace / "cart.py").read_bytes() == data.replace(b"total", b"sum_up")


async def test_a_rename_may_move_a_file(ctx: FakeToolContext, servers: FakeNavigation) -> None:
    cart = ctx.workspace / "cart.py"
    text = CART.decode()
    servers.renamed = (RenamedText(ctx.workspace / "bag.py", text, text.replace("Cart", "Bag"), cart),)
    result = await rename(ctx)
    assert not result.is_error, result.content
    assert not cart.exists()
    assert (ctx.workspace / "bag.py").read_bytes() == CART.replace(b"Cart", b"Bag")


async def test_an_error_of_the_servers_is_the_answer(ctx: FakeToolContext, servers: FakeNavigation) -> None:
    servers.fail = ToolError("slow did not answer in time.")
    for operation in ("definition", "references", "hover", "outline", "rename"):
        result = await symbols(ctx, operation, path="cart.py", symbol="total", line=3, new_name="b")
        assert (result.content, result.is_error) == ("slow did not answer in time.", True)
