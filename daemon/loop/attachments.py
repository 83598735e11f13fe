"""Files and images that the user attaches to a prompt: found, allowed, checked and read before the prompt counts."""

from __future__ import annotations

import asyncio
import base64
import binascii
import os
import re
from typing import TYPE_CHECKING

from msgspec import Struct, field

from daemon.loop.command_use import CalledCommand, NamedFile, called, named_file, named_files
from daemon.loop.mentions import mentioned, with_agent
from daemon.loop.tool_context import call_permission
from daemon.model.messages import OPEN_FILE, FilePart, ToolCallPart
from daemon.permission.service import AskerByRules
from tools.localization import noted, t
from tools.paths import ask_read, did_you_mean, explain_os_error, resolve, rule_target
from tools.read import MAX_IMAGE_BYTES, image_type
from tools.redaction.redactor import SECRETS
from tools.text.decoding import BinaryFileError, decode
from tools.text.lines import split_lines
from tools.text.terminal import shown_line
from tools.text.truncate import short
from tools.tool import Permission, PermissionDeniedError, ToolError
from tools.tool_names import MCP

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from daemon.loop.policy import ClientSettings
    from daemon.loop.session import Session
    from daemon.mcp.requested import FromServer
    from daemon.permission.service import Asker
    from tools.paths import Target

MOST_FILES = 20
MAX_TEXT_BYTES = 256 * 1024
MAX_PDF_BYTES = 8 * 1024 * 1024
MAX_BYTES = 16 * 1024 * 1024
"""Most bytes of all attachments of a prompt together."""
_EMPTY = b"(empty)"
"""For the model, in place of a resource of a server, or of a part of one, that has nothing in it."""
_SERVER_PROMPT = f"/{MCP}"
CALL = "attach_"
"""Prefix of call ids for attaching: a question about one belongs to no turn."""


class _FileLookup(Struct, frozen=True):
    """The paths and permissions needed to find a file, see ``tools.paths.Reader``."""

    workspace: Path
    scratch: Path
    permission: Permission


async def attached(
    session: Session,
    files: Sequence[FilePart],
    prompt_id: str,
    text: str = "",
    client: ClientSettings | None = None,
) -> tuple[FilePart, ...]:
    """Return the attachments of a prompt with their contents.

    A file without ``data`` is read, including unsaved text in an editor, once rules or the user allow it; of a name
    as ``src/a.py:3-9`` only these lines are attached. The file that is open in the editor (``OPEN_FILE``) stays a
    name: the model reads it under the rules when it needs it. Raises ToolError, with advice, when one of them
    cannot be attached: then none is. ``text``: of the prompt; if it names another agent, that agent's model must
    accept them, too; if it calls a command, the files that the command's text names with ``@`` are attached, too.
    So is what the user's own text asks MCP servers for: ``/mcp__server__prompt`` and ``@server:uri``. ``client``: whose
    rules count.
    """
    command = called(session, text)
    # Servers are asked for their prompts again: one that is sent another time may have other arguments.
    files = [file for file in files if file.data is None or not file.name.startswith(_SERVER_PROMPT)]
    meant = text if command is None else with_agent(session, command)
    if command is not None:
        names = await asyncio.to_thread(_named, session, command.text, [file.name for file in files])
        files = [*files, *(FilePart(name=name, media_type="") for name in names)]
    theirs = await _of_servers(session, text, command, files)
    if not files and not theirs:
        return ()
    if (count := len(files) + len(theirs)) > MOST_FILES:
        text = noted(
            "{count} attachments are too many; the limit is {most_files}. Attach fewer, or name a folder."
        )
        raise ToolError(t(text, count=count, most_files=MOST_FILES))
    call = ToolCallPart(id=f"{CALL}{prompt_id}", name="attach", input="")
    services = session.services
    scratch = services.store.folder(session.session_id) / "output"
    asker: Asker = session
    if client is not None and session.running:  # the turn that runs may be another client's
        asker = AskerByRules(
            session.session_id,
            lambda: session.policy.rules_under(client.config, client.trust),
            session.asked,
            session.replied,
        )
    place = _FileLookup(services.workspace, scratch, call_permission(session, call, asker))
    added = _Attachments(await asyncio.to_thread(_models, session, meant))
    for file in files:
        if file.data is None and file.media_type == OPEN_FILE:
            name = shown_line(short(file.name.strip(), 500))
            added.parts.append(file.model_copy(update={"name": name}))
            continue
        if file.data is None:
            name, data = await _read(session, place, file.name)
        else:
            name, data = shown_line(short(file.name.strip() or "pasted", 200)), _contents(file)
        added.add(name, data)
    for one in theirs:
        data = one.data or (b"" if one.name.startswith(_SERVER_PROMPT) else _EMPTY)
        added.add(shown_line(short(one.name, 200)), data, one.framed, hint=_LONG_OF_SERVER)
    return tuple(added.parts)


async def _of_servers(
    session: Session, text: str, command: CalledCommand | None, files: Sequence[FilePart]
) -> Sequence[FromServer]:
    """Return what the user's own words ask MCP servers for; a file for a command hides a prompt of its name."""
    if command is not None and text.lstrip().startswith(_SERVER_PROMPT):
        return ()
    have = [file.name for file in files]
    main = session.record.main.session_id
    return await session.services.extra.requested(
        session.trust, text, have, session_id=main, tell=session.record.notice_once
    )


_LONG_FILE = noted(" Name it in your message instead: the agent reads it in parts.")
_LONG_OF_SERVER = noted(" Attach a smaller one, or ask the agent to use a tool of the server.")


class _Attachments(Struct):
    """The attachments of a prompt so far, and the models that must accept them."""

    models: Sequence[str]
    parts: list[FilePart] = field(default_factory=list[FilePart])
    _size: int = 0

    def add(
        self, name: str, data: bytes, framed: Callable[[str], str] = str, *, hint: str = _LONG_FILE
    ) -> None:
        """Add a file. ``framed``: its text as the model reads it. ``hint``: on a long text. Raises ToolError."""
        self._size += len(data)
        if self._size > MAX_BYTES:
            text = noted(
                "The attachments are larger than {max_bytes} in total. Attach fewer or smaller ones."
            )
            raise ToolError(t(text, max_bytes=_mb(MAX_BYTES)))
        part = _part(name, data, framed, hint)
        for model in self.models:
            if problem := refusal(model, part.media_type):
                raise ToolError(t("{name} cannot be attached. {problem}", name=name, problem=problem))
        self.parts.append(part)


def _named(session: Session, text: str, attached_names: Sequence[str]) -> list[str]:
    """Return the names of files of the workspace in a command's text, but those attached already."""
    workspace = session.services.workspace
    # Path.is_file raises OSError for text that is too long for a name.
    return [
        one.name
        for one in named_files(text)
        if one.name not in attached_names and os.path.isfile(workspace / one.path)  # noqa: PTH113
    ]


def _lines(data: bytes, span: NamedFile) -> bytes:
    """Return these lines of a text file; all of it when it is no text."""
    try:
        lines = split_lines(decode(data).text)[span.first - 1 : span.last]
    except BinaryFileError:
        return data
    return "".join(line.body + line.end for line in lines).encode("utf-8", "replace")


def _models(session: Session, text: str) -> tuple[str, ...]:
    """Return the models that are sent the attachments: the session's, and a sub-agent's. Reads the agent's file."""
    to = mentioned(session, text)
    if to is None:
        return (session.model,)
    models = session.config.settings.model.models
    if to.agent.serves:
        return tuple(dict.fromkeys((session.model, to.agent.model_by(models) or session.model)))
    return (session.state.trace.model or models.get(to.agent.name) or session.policy.client.default_model,)


def _meant(name: str, place: _FileLookup) -> tuple[Target, NamedFile]:
    """Return the file that a name means, and which lines: none where a file has all of this name. Blocking."""
    target, span = resolve(name, place), named_file(name)
    if not span.first or os.path.lexists(target.path):
        return target, NamedFile(name)
    return resolve(span.path, place), span


async def _read(session: Session, place: _FileLookup, path: str) -> tuple[str, bytes]:
    """Return the name and bytes of a file of the user's, or of lines of it. Raises ToolError."""
    target, span = await asyncio.to_thread(_meant, path, place)
    name, data = await _whole(session, place, target)
    if not span.first:
        return name, data
    return NamedFile(name, span.first, span.last).name, await asyncio.to_thread(_lines, data, span)


async def _whole(session: Session, place: _FileLookup, target: Target) -> tuple[str, bytes]:
    """Return the name and bytes of a file, with unsaved text of an editor. Raises ToolError."""
    name = shown_line(target.rule)
    try:
        await ask_read(target, place, verb=t("Attach"))
    except PermissionDeniedError as denied:
        raise ToolError(t("{name} is not attached. {reason}", name=name, reason=denied.reason)) from denied
    editors = session.services.editors
    await editors.settle(target.path)
    unsaved = editors.unsaved(target.path)
    if unsaved is not None:
        return name, unsaved.encode("utf-8", "replace")
    try:
        return name, await asyncio.to_thread(_bytes, target.path, name)
    except FileNotFoundError as error:
        near = [
            shown_line(rule_target(target.path.parent / one, place.workspace))
            for one in did_you_mean(target.path)
        ]
        hint = t(" Did you mean {near}?", near=t(" or ").join(near)) if near else ""
        raise ToolError(
            t("{name} cannot be attached: there is no such file.{hint}", name=name, hint=hint)
        ) from error
    except OSError as error:
        raise ToolError(explain_os_error(error, t("{name} cannot be attached", name=name))) from error


def _bytes(path: Path, name: str) -> bytes:
    """Read a file. Blocking. Raises OSError, and ToolError unless it is a file of acceptable size."""
    if path.is_dir():
        raise ToolError(t("{name} is a folder: attach files from it, or name it in your message.", name=name))
    if path.exists() and not path.is_file():
        raise ToolError(t("{name} is not a regular file and cannot be attached.", name=name))
    if (size := path.stat().st_size) > MAX_PDF_BYTES:
        raise _too_large(name, "file", size, MAX_PDF_BYTES)
    return path.read_bytes()


def _contents(file: FilePart) -> bytes:
    try:
        return base64.b64decode(file.data or "", validate=True)
    except (binascii.Error, ValueError) as error:
        raise ToolError(
            t("{name} is not valid base64: attach it again.", name=shown_line(short(file.name, 200)))
        ) from error


def _part(name: str, data: bytes, framed: Callable[[str], str], hint: str) -> FilePart:
    """Return the part, its type by the bytes themselves. Raises ToolError for what models cannot be sent."""
    if not data:
        raise ToolError(t("{name} is empty: there is nothing to attach.", name=name))
    media_type = image_type(data)
    if media_type is not None:
        if len(data) > MAX_IMAGE_BYTES:
            raise _too_large(name, t("image"), len(data), MAX_IMAGE_BYTES)
        return FilePart(name=name, media_type=media_type, data=_base64(data))
    if data.startswith(b"%PDF-"):
        if len(data) > MAX_PDF_BYTES:
            raise _too_large(name, t("PDF file"), len(data), MAX_PDF_BYTES)
        return FilePart(name=name, media_type="application/pdf", data=_base64(data))
    try:
        text = decode(data).text
    except BinaryFileError as error:
        raise ToolError(
            t(
                "{name} is a binary file and cannot be attached: models accept text, images (PNG, JPEG, "
                "GIF, WebP) and PDF.",
                name=name,
            )
        ) from error
    if len(data) > MAX_TEXT_BYTES:
        raise _too_large(name, t("text file"), len(data), MAX_TEXT_BYTES, hint)
    # Base64 would hide a key from the redaction of stored data, so remove keys before.
    kept = framed(SECRETS.text(text)).encode("utf-8", "replace")
    return FilePart(name=name, media_type="text/plain", data=_base64(kept))


def _too_large(
    name: str, kind: str, size: int, limit: int, hint: str = noted(" Attach a smaller one.")
) -> ToolError:
    return ToolError(
        t(
            "{name} is too large to attach: this {kind} has {size}, and the limit is {limit}.{hint}",
            name=name,
            kind=kind,
            size=_mb(size),
            limit=_mb(limit),
            hint=t(hint),
        )
    )


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _mb(size: int) -> str:
    return f"{size / 1024 / 1024:.1f} MB" if size >= 1024 * 1024 else f"{-(-size // 1024)} KB"


_BLIND = {
    "anthropic": re.compile(r"claude-(?:2|instant)"),
    "openai": re.compile(r"gpt-3\.5|gpt-4(?:-\d{4}|-32k)?$|o1-mini|o1-preview|o3-mini|gpt-oss|codex-mini"),
    "ollama": re.compile(
        r"(?:codellama|codegemma|starcoder|deepseek|devstral:24b$|gpt-oss|qwen3-coder|qwen2\.5-coder|qwen2\.5:|qwen3:|"
        r"llama2|llama3:|llama3\.1|llama3\.3|mistral:|mixtral|phi3:|phi4:|granite-code)"
    ),
    "demo": re.compile(r""),
}
"""Models without eyes, by provider: names that match."""


def refusal(model: str, media_type: str) -> str:
    """Return why a model (``provider/model``) takes no attachment of this type, and what to do; empty: it does."""
    family, _, name = model.partition("/")
    if media_type == "application/pdf":
        if family == "anthropic" and not _BLIND[family].match(name):
            return ""
        return t(
            "The model {model} does not accept PDF files. Attach their text or pictures, or choose a "
            "Claude model.",
            model=model,
        )
    blind = _BLIND.get(family)
    if media_type.startswith("image/") and blind is not None and blind.match(name):
        return t(
            "The model {model} cannot read images. Remove the image, or choose a model that can.",
            model=model,
        )
    return ""
