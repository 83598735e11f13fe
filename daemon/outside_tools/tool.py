"""A tool that is not built in: it asks by its own permission, grants count for one definition, and its text is cut."""

from __future__ import annotations

import asyncio
import copy
import json
from typing import TYPE_CHECKING, Any

from pydantic import ConfigDict

from tools.access import suggestions
from tools.localization import t
from tools.process.output import Output
from tools.running import safe_name
from tools.text.terminal import LONGEST_TITLE, shown_brief, shown_line
from tools.tool import PermissionAsk, Tool, ToolInput

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from daemon.outside_tools.approvals import Approvals
    from daemon.outside_tools.definitions import Definition
    from tools.tool import Approval, ToolContext


_CHUNK = 256 * 1024
_MOST_PROGRESS = 500
"""Lines of progress that one call shows."""
_LONGEST_PROGRESS = 200


class OutsideInput(ToolInput):
    """Arguments of any kind: the tool's origin checks them."""

    model_config = ConfigDict(extra="allow", frozen=True)


class OutsideTool(Tool[OutsideInput]):
    """A tool with a definition of strangers or of the user; its permission is its name."""

    Input = OutsideInput
    changed: str
    """The user's text about a definition that is another one than was approved, with ``{description}``."""

    def __init__(self, name: str, definition: Definition, approved: Approvals, *, whose: str) -> None:
        """``name``: as the model calls it. ``whose``: its origin in the question's title, on one line."""
        self.name = name
        self.permission = name
        self.definition = definition
        self._whose = whose
        self._approved = approved

    @property
    def description(self) -> str:
        return self.definition.description

    def schema(self) -> dict[str, Any]:
        return copy.deepcopy(dict(self.definition.schema))

    async def approve(
        self,
        arguments: Mapping[str, Any],
        ctx: ToolContext,
        *,
        digest: str,
        notes: Sequence[str],
        runs: str = "",
    ) -> Approval:
        """Ask for one call. ``digest``: what "always" binds to. ``notes``: where it runs, and from where it comes.
        ``runs``: the program, as text for the user.

        Raises PermissionDeniedError.
        """
        whole = json.dumps(arguments, indent=2, ensure_ascii=False)
        brief = json.dumps(arguments, ensure_ascii=False) if arguments else ""
        target = f"definition {digest}"
        told = list(notes)
        if self._approved.changed(self.name, digest):
            told.append(t(self.changed, description=shown_brief(self.definition.description, 500)))
        ask = PermissionAsk(
            self.permission,
            (target,),
            f"{self._whose}: {shown_brief(f'{self.definition.name} {brief}'.rstrip(), LONGEST_TITLE)}",
            suggestions=suggestions(self.permission, (target,)),
            detail="\n".join(filter(None, (f"{self._whose}: {self.definition.name}", runs, whole))),
            notes=tuple(map(shown_line, told)),
        )
        approval = await ctx.permission.ask(ask)
        if approval.asked and not (approval.unseen or approval.by_rules):
            self._approved.add(self.name, digest)
        return approval


def limited_progress(say: Callable[[str], object]) -> Callable[[str], None]:
    """Return what says lines of progress of a call to the user: the first ones, briefly."""
    left = iter(range(_MOST_PROGRESS))

    def show(text: str) -> None:
        if next(left, None) is not None:
            say(f"{shown_brief(str(text), _LONGEST_PROGRESS)}\n")

    return show


def title_of(text: str) -> str:
    """Return the title of a result: its first line."""
    return shown_brief(text.strip().partition("\n")[0], LONGEST_TITLE)


def output_of(ctx: ToolContext, kind: str, live: bool = False) -> Output:
    """Return where the text of a call goes. ``kind``: the beginning of the file's name. ``live``: shown as it comes."""
    path = ctx.scratch / f"{kind}-{safe_name(ctx.tool_call_id)}.txt"
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
