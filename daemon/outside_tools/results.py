"""Texts of tools as results: cut like the output of commands, with a file for the whole."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING

from tools.process.output import Output

if TYPE_CHECKING:
    from tools.tool import ToolContext

_CHUNK = 256 * 1024


def output_of(ctx: ToolContext, kind: str, live: bool = False) -> Output:
    """Return where the text of a call goes. ``kind``: the beginning of the file's name. ``live``: shown as it comes."""
    call = re.sub(r"[^\w-]", "_", ctx.tool_call_id)[:100]
    path = ctx.scratch / f"{kind}-{call}.txt"
    return Output(path, ctx.on_output, ctx.redact) if live else Output(path, redact=ctx.redact)


async def cut(text: str, ctx: ToolContext, kind: str) -> str:
    """Return a text for the model; the whole of a long one is in a file."""
    output = output_of(ctx, kind)
    whole = text.encode("utf-8", "replace")
    for at in range(0, len(whole), _CHUNK):
        output.feed(1, whole[at : at + _CHUNK])
        await asyncio.sleep(0)  # a text of many megabytes must not hold up the daemon
    await output.close()
    return output.text()
