"""Translates the contents of messages between a daemon and an editor: prompts, diffs, questions, the plan.

Pure, but for a look at the files that are linked.
"""

from __future__ import annotations

import base64
import contextlib
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from acp import helpers, schema
from unidiff.errors import UnidiffParseError
from unidiff.patch import PatchSet

from lsp_bridge.cli.run.goal_lines import in_order
from lsp_bridge.protocol.permission_text import (
    action_detail,
    model_lines,
    note_lines,
    question_lines,
    warning_lines,
)
from tools.diff.unified_diff import is_limited
from tools.json_access import mapping, mappings, string
from tools.localization import t
from tools.text.terminal import shown

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    Block = (
        schema.TextContentBlock
        | schema.ImageContentBlock
        | schema.AudioContentBlock
        | schema.ResourceContentBlock
        | schema.EmbeddedResourceContentBlock
    )
    ToolContent = schema.ContentToolCallContent | schema.FileEditToolCallContent

KINDS: dict[str, schema.ToolKind] = {
    "read": "read",
    "ls": "read",
    "diagnostics": "read",
    "glob": "search",
    "grep": "search",
    "symbols": "search",
    "edit": "edit",
    "write": "edit",
    "patch": "edit",
    "bash": "execute",
    "job": "execute",
    "webfetch": "fetch",
}
"""Kinds of the tools, for the editor's icons; ``other`` for those that are missing."""
PLAN_TOOLS = ("goal", "step", "read_progress")
"""Tools whose calls an editor sees as its plan."""
_STATES: dict[str, schema.PlanEntryStatus] = {"in_progress": "in_progress", "completed": "completed"}
_MOST_SERVERS = 20
"""MCP servers of one session; the daemon takes no more."""
_LONGEST_NAME = 100
_SERVER_NAME = re.compile(rf"(?!.*\.\.)[\w@][\w @/:.+()-]{{0,{_LONGEST_NAME - 1}}}")
_MAX_TEXT_BYTES = 256 * 1024
"""A longer text of a file is named only: the daemon attaches none, and the agent reads it in parts."""
_MEDIA = (".gif", ".jpeg", ".jpg", ".pdf", ".png", ".webp")
_WORD = re.compile(r"[A-Za-z0-9-]+")
_LINES = re.compile(r"L\d+(?:[:-]L?\d+)?")
"""The lines that an editor's link is about."""
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:\S")
_OF_SERVER = re.compile(r"/mcp__|[\w.-]+:[A-Za-z][A-Za-z0-9+.-]*:\S")


class UnsupportedContentError(Exception):
    """Raised for a part of a prompt that Goalwright does not take; the message says what to do."""


def prompt_of(blocks: Iterable[Block], workspace: Path) -> tuple[str, list[dict[str, Any]]]:
    """Return the text of a prompt and its attachments (``FilePart`` of the wire).

    Links are named in the text. One to a file also attaches it, and the daemon reads it under the rules; folders, and
    files that cannot be attached, are named only. Raises UnsupportedContentError.
    """
    texts: list[str] = []
    files: list[dict[str, Any]] = []

    def name(mention: str) -> None:
        is_glued = bool(texts) and texts[-1][-1:].strip() != ""
        texts.append(f" {mention}" if is_glued else mention)

    before: Block | None = None
    for block in blocks:
        if isinstance(block, schema.TextContentBlock):
            is_glued = (
                bool(texts) and not isinstance(before, schema.TextContentBlock) and block.text[:1].isalnum()
            )
            texts.append(f" {block.text}" if is_glued else block.text)
        elif isinstance(block, schema.ImageContentBlock):
            named = _name(block.uri, workspace) or "image"
            files.append({"name": named, "mediaType": block.mime_type, "data": block.data})
        elif isinstance(block, schema.ResourceContentBlock):
            path = _path(block.uri)
            name(_mention(_name(block.uri, workspace)) if path else f"[{block.name}]({block.uri})")
            if path is not None and _can_attach(workspace / path):
                files.append({"name": _relative(path, workspace), "mediaType": ""})
        elif isinstance(block, schema.EmbeddedResourceContentBlock):
            named = _name(block.resource.uri, workspace)
            if named:
                name(_mention(named))
            if not named or _is_short(block.resource):
                files.append(_embedded(block, workspace))
        else:
            raise UnsupportedContentError(t("Goalwright does not take audio. Send text, files or images."))
        before = block
    return "".join(texts), files


def replayed(part: dict[str, Any], said: str, workspace: Path) -> Block | None:
    """Return an attachment of an earlier prompt (``FilePart`` of the wire) as what it was, as far as it is stored.

    Only a file that exists is a link. None for what has no contents, and for what an MCP server sent: that is no file
    that the editor could open, whatever its URI looks like. ``said``: the text of the prompt, which names links.
    """
    name, media_type, data = string(part.get("name")), string(part.get("mediaType")), string(part.get("data"))
    if not name or _OF_SERVER.match(name):
        return None
    uri = _uri(name, workspace)
    is_file = _is_file(workspace / name)
    if data and media_type.startswith("image/") and not (is_file and _mention(name) in said):
        known = uri if is_file or _URI.match(name) else None
        return helpers.image_block(data, media_type, uri=known)
    if is_file:
        return helpers.resource_link_block(name, uri)
    if not data:
        return None
    resource = helpers.embedded_blob_resource(uri, data, mime_type=media_type or None)
    if media_type.startswith("text/"):
        with contextlib.suppress(ValueError):  # not base64, or not UTF-8
            text = base64.b64decode(data, validate=True).decode("utf-8")
            text_resource = helpers.embedded_text_resource(uri, text, mime_type=media_type)
            return helpers.resource_block(text_resource)
    return helpers.resource_block(resource)


def _uri(name: str, workspace: Path) -> str:
    """Return the URI that ``_name`` has made a name of."""
    if _URI.match(name) and not _is_file(workspace / name):
        return name
    path, _, lines = name.rpartition("#")
    if path and _LINES.fullmatch(lines) and not _is_file(workspace / name):
        return f"{(workspace / path).as_uri()}#{lines}"
    return (workspace / name).as_uri()


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # ValueError: no path, as one with NUL
        return False


def given_servers(servers: Iterable[object]) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the editor's MCP servers (``McpGivenServer`` of the wire), and those that cannot be used, each with
    the reason."""
    found: dict[str, dict[str, Any]] = {}
    refused: list[str] = []
    for one in servers:
        name = string(getattr(one, "name", "")).strip()
        if why := _unfit(one, name, found):
            refused.append(f"{name or '“”'} ({why})")
        elif isinstance(one, schema.McpServerStdio):
            env = {variable.name: variable.value for variable in one.env}
            found[name] = {"name": name, "command": one.command, "args": one.args, "env": env}
        elif isinstance(one, schema.McpServerHttp):
            headers = {header.name: header.value for header in one.headers}
            found[name] = {"name": name, "url": one.url, "headers": headers}
    return [*found.values()], refused


def odd_server(entry: object) -> dict[str, Any]:
    """Return an entry that stands for one of no form, which the SDK would leave out without a word."""
    name = string(mapping(entry).get("name"))[:_LONGEST_NAME]
    return {"type": "sse", "name": name, "url": "", "headers": []}


def _unfit(server: object, name: str, found: Collection[str]) -> str:
    """Return why a server of the editor cannot be used; empty when it can."""
    if isinstance(server, schema.SseMcpServer) and not server.url:
        return t("its entry is not in the form of the protocol")
    if not isinstance(server, schema.McpServerStdio | schema.McpServerHttp):
        return t("it speaks neither over stdio nor over streamable HTTP")
    if not _SERVER_NAME.fullmatch(name):
        return t("its name is empty, too long or no name")
    if name in found:
        return t("another one has this name")
    if len(found) >= _MOST_SERVERS:
        return t("there are more than {count}", count=_MOST_SERVERS)
    return ""


def _mention(name: str) -> str:
    """Return a name as the text of a prompt has it. A bare word would choose the agent of that name."""
    return f"@./{name}" if _WORD.fullmatch(name) else f"@{name}"


def _is_short(resource: schema.TextResourceContents | schema.BlobResourceContents) -> bool:
    return (
        not isinstance(resource, schema.TextResourceContents)
        or 0 < len(resource.text.encode("utf-8", "replace")) <= _MAX_TEXT_BYTES
    )


def _embedded(block: schema.EmbeddedResourceContentBlock, workspace: Path) -> dict[str, Any]:
    resource = block.resource
    name = _name(resource.uri, workspace) or resource.uri
    if isinstance(resource, schema.TextResourceContents):
        data = base64.b64encode(resource.text.encode("utf-8", "replace")).decode("ascii")
        return {"name": name, "mediaType": resource.mime_type or "text/plain", "data": data}
    return {"name": name, "mediaType": resource.mime_type or "", "data": resource.blob}


def _can_attach(path: Path) -> bool:
    if not _is_file(path):
        return False
    size = path.stat().st_size
    return 0 < size <= _MAX_TEXT_BYTES or (size > 0 and path.suffix.lower() in _MEDIA)


def _path(uri: str | None) -> Path | None:
    try:
        parts = urlsplit(uri or "")
    except ValueError:
        return None
    is_here = parts.netloc.lower() in ("", "localhost")  # a file of another computer is none of this one
    return Path(unquote(parts.path)) if parts.scheme == "file" and parts.path and is_here else None


def _name(uri: str | None, workspace: Path) -> str:
    """Return the path that a URI names, with its lines; empty when it names none."""
    path = _path(uri)
    if path is None:
        return ""
    lines = _LINES.fullmatch(urlsplit(uri or "").fragment)
    return f"{_relative(path, workspace)}#{lines[0]}" if lines else _relative(path, workspace)


def _relative(path: Path, workspace: Path) -> str:
    return path.relative_to(workspace).as_posix() if path.is_relative_to(workspace) else path.as_posix()


# -- tool calls ----------------------------------------------------------------------------------------------------


def locations(names: Iterable[str], workspace: Path) -> list[schema.ToolCallLocation]:
    """Return the places that an editor can follow; paths are absolute."""
    return [schema.ToolCallLocation(path=str(workspace / name)) for name in dict.fromkeys(names) if name]


def files_of_call(arguments: dict[str, Any]) -> list[str]:
    """Return the files that a call names."""
    return [string(arguments.get(name)) for name in ("file_path", "path")]


def diffs(text: str, workspace: Path) -> list[schema.FileEditToolCallContent]:
    """Return the hunks of a unified diff, each as the old and the new text; none of one that was cut off, and lacks
    hunks or lines."""
    if is_limited(text):
        return []
    try:
        files = PatchSet(text)
    except UnidiffParseError:
        return []
    found: list[schema.FileEditToolCallContent] = []
    for file in files:
        for hunk in file:
            # Lines of the diff about the file itself, such as a missing newline at its end, are neither.
            old = "".join(line.value for line in hunk if line.is_removed or line.is_context)
            new = "".join(line.value for line in hunk if line.is_added or line.is_context)
            path = str(workspace / file.path)
            found.append(helpers.tool_diff_content(path, new, None if file.is_added_file else old))
    return found


def result_content(part: dict[str, Any], workspace: Path) -> Sequence[ToolContent]:
    """Return what an editor shows of a tool result: the diff of an edit, else the text and the images."""
    if part.get("isError") is not True and (
        found := diffs(string(mapping(part.get("metadata")).get("diff")), workspace)
    ):
        return found
    content = [_text(text)] if (text := string(part.get("content"))) else []
    for image in mappings(part.get("images")):
        if data := string(image.get("data")):
            content.append(helpers.tool_content(helpers.image_block(data, string(image.get("mediaType")))))
    return content


def result_files(part: dict[str, Any]) -> list[str]:
    """Return the files that a tool result is about."""
    metadata = mapping(part.get("metadata"))
    return [
        string(metadata.get("path")),
        *(string(file.get("path")) for file in mappings(metadata.get("files"))),
    ]


def request_content(request: dict[str, Any], workspace: Path) -> list[ToolContent]:
    """Return the content of a question: diffs, the command, warnings, the rule that asks; the model's words last."""
    lines = [action_detail(request), *warning_lines(request), *note_lines(request), *question_lines(request)]
    text = "\n".join(line for line in (*lines, *model_lines(request)) if line)
    found = [one for file in mappings(request.get("files")) for one in _proposed(file, workspace)]
    return [*found, *([_text(text)] if text else [])]


def _proposed(file: dict[str, Any], workspace: Path) -> Sequence[ToolContent]:
    """Return the change of a file, hunk by hunk, or as text: that of a binary file or of a move has no hunks."""
    text = string(file.get("diff"))
    return diffs(text, workspace) or ([_text(text)] if text else [])


def _text(text: str) -> schema.ContentToolCallContent:
    return helpers.tool_content(helpers.text_block(shown(text)))


# -- the plan ------------------------------------------------------------------------------------------------------


def plan_entries(tree: dict[str, Any], numbers: dict[str, Any]) -> list[schema.PlanEntry]:
    """Return the goals in the order of their numbers, without abandoned ones, which have none."""
    goals = [goal for goal in mappings(tree.get("goals")) if string(numbers.get(string(goal.get("id"))))]
    goals.sort(key=lambda goal: in_order(numbers[goal["id"]]))
    return [
        helpers.plan_entry(
            f"{numbers[goal['id']]} {string(goal.get('description'))}",
            status=_STATES.get(string(goal.get("status")), "pending"),
        )
        for goal in goals
    ]
