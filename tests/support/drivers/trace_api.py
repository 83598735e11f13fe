"""The trace API of a real daemon, over a story that has everything: goals, a failed call, branches, a sub-agent."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import httpx

from daemon.api.address import OpenApi
from daemon.loop.session import Session
from tests.support.drivers.core import Bench
from tests.support.fakes.models import Call, Think
from tests.support.scenarios.branches import EDITS, explore, exploring
from tests.support.scenarios.subagents import task

MAIN = [
    [Call("goal", {"add": "分析代码, 实现功能, 测试", "focus": "1"})],
    [Think("Where is it?"), "先看代码。", Call("read", {"file_path": "src/a.py"})],
    [Call("goal", {"done": "代码在 src/a.py", "focus": "2"})],
    [Call("goal", {"add": "方案 A, 实现代码", "focus": "2.1"})],
    [Call("read", {"file_path": "src/missing.py"})],
    [Call("goal", {"abandon": "there is no such file", "add": "方案 B"})],
    [Call("goal", {"focus": "2.1"})],
    explore("use a list", "use a dict"),
    [task("count the lines of src/a.py", "explore", call_id="call_task")],
    "完成了。Nothing else is needed.",
]
BRANCHES = {
    "A": [
        Call("goal", {"add": "JWT设计, JWT实现", "focus": "1"}),
        Call("write", {"file_path": "list.py", "content": "x = []\n"}),
        "A list it is: short.",
    ],
    "B": [Call("write", {"file_path": "dict.py", "content": "x = {}\n"}), "A dict it is: quick."],
    "s1": [Call("read", {"file_path": "src/a.py"}), "One line."],
}


@asynccontextmanager
async def story(folder: Path) -> AsyncGenerator[tuple[Bench, Session]]:
    """A daemon in which the story was played."""
    async with exploring(folder, MAIN, BRANCHES) as bench:
        session = bench.session(settings=EDITS)
        result = await session.prompt("实现用户认证功能")
        assert result.stop == "end_turn", result
        yield bench, session


@asynccontextmanager
async def client_of(address: OpenApi) -> AsyncGenerator[httpx.AsyncClient]:
    """A client that has the token."""
    headers = {"authorization": f"Bearer {address.token}"}
    async with httpx.AsyncClient(base_url=address.url, headers=headers, timeout=60) as client:
        yield client


_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)")
_MESSAGE = re.compile(r"msg_\d{6}_[0-9a-f]+")


def normalised(value: object, workspace: Path, trace_id: str) -> object:
    """``value`` with what differs from run to run replaced: ids, times, durations, paths, hashes."""
    text = json.dumps(value, ensure_ascii=False)
    text = text.replace(trace_id, "TRACE").replace(str(workspace), "/WORKSPACE")
    text = re.sub(r'/[^"\\]*?/home/branches/[^/"\\]+/', "/COPIES/", text)
    text = _TIME.sub("TIME", text)
    text = re.sub(r"\b(\d+\.\d s|\d+ ms)\b", "N.N s", text)
    for number, message_id in enumerate(dict.fromkeys(_MESSAGE.findall(text)), 1):
        text = text.replace(message_id, f"MESSAGE_{number}")
    return _leveled(json.loads(text))


def _leveled(value: object) -> object:
    if isinstance(value, list):
        return [_leveled(one) for one in cast("list[object]", value)]
    if isinstance(value, float):
        return round(value, 9)  # branches end in any order, and sums of floats tell
    if not isinstance(value, dict):
        return value
    fields = cast("dict[str, Any]", value)
    if "message_id" in fields and "sequence" in fields:
        fields["sequence"] = min(fields["sequence"], _SIDE_BY_SIDE)
    return {key: _leveled_field(key, each) for key, each in fields.items()}


def _leveled_field(key: str, value: object) -> object:
    if key == "duration_ms":
        return 1  # none at all for what takes no millisecond
    if key in _AMOUNTS and isinstance(value, int):
        return min(value, 1)
    return _LEVEL[key] if key in _LEVEL and value is not None else _leveled(value)


_LEVEL: dict[str, object] = {
    "last_event_id": 99,
    "sha256": "HASH",
    "version": "VERSION",
    "metadata": {},
}
_AMOUNTS = ("tokens", "total_tokens")
"""Estimated from texts in which durations stand."""
_SIDE_BY_SIDE = 17
"""From this sequence on the branches of the story work at the same time, in any order."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer over a plain socket; status 0: the server hung up without an answer."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def header(self, name: str) -> str:
        """Empty when there is none."""
        return next((value for key, value in self.headers if key == name), "")


async def raw(port: int, request: str | bytes) -> Answer:
    """Send bytes as they are, and read until the server hangs up; ``\\n`` stands for ``\\r\\n`` in a text."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        data = request.replace("\n", "\r\n").encode("latin-1") if isinstance(request, str) else request
        with contextlib.suppress(ConnectionError):
            writer.write(data)
            await writer.drain()
        received = bytearray()
        with contextlib.suppress(ConnectionError):
            while block := await asyncio.wait_for(reader.read(65536), 60):
                received += block
    finally:
        writer.close()
    head, _, body = bytes(received).partition(b"\r\n\r\n")
    if not head:
        return Answer(0, (), b"")
    first, *lines = head.decode("latin-1").split("\r\n")
    pairs = [line.split(": ", 1) for line in lines]
    return Answer(int(first.split()[1]), tuple((name.lower(), value) for name, value in pairs), body)


async def get(port: int, path: str, *lines: str, host: str = "", method: str = "GET") -> Answer:
    """A request with these header lines."""
    head = [f"{method} {path} HTTP/1.1", f"Host: {host or f'127.0.0.1:{port}'}", *lines, "Connection: close"]
    return await raw(port, "\n".join(head) + "\n\n")


UPGRADE = (
    "Upgrade: websocket",
    "Connection: Upgrade",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
)


async def upgrade(port: int, path: str, *lines: str, host: str = "") -> Answer:
    """A WebSocket handshake, of which only the refusal is read."""
    head = [f"GET {path} HTTP/1.1", f"Host: {host or f'127.0.0.1:{port}'}", *UPGRADE, *lines]
    return await raw(port, "\n".join(head) + "\n\n")
