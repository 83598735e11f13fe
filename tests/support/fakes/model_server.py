"""A fake model server on the wire, so that the real SDKs are what is tested.

It speaks Anthropic Messages (``POST /v1/messages``), OpenAI chat completions and responses
(``/v1/chat/completions``, ``/v1/responses``, Azure's addresses too), Ollama (``/api/chat``, ``/api/tags``), Amazon
Bedrock (``…/converse-stream``) and Google (``…:streamGenerateContent``). It checks requests as the real servers do,
records them with times, and misbehaves when told to (``Reply.fault``).

In a test::

    async with ModelServer([{"text": "hello"}]) as server:
        ...  # base URL: server.url; what came in: server.requests

As a process: ``python tests/support/fakes/model_server.py --script file.json --port 0 [--workspace DIR]`` prints
``{"url": ...}`` as its first line. The file is a script of ``daemon.provider.scripted`` (with ``turns``) or a
list of replies that are given one after the other. It ends at end of input or SIGTERM.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

if __package__ in (None, ""):  # run as a file: the folder above `tests` is where imports begin
    sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tests.support.fakes import model_messages as messages
from tests.support.fakes import model_wires as wires
from tests.support.fakes.local_servers import LocalServer
from tests.support.fakes.model_replies import Reply, ReplyLike, reply_of, scripted

Json = dict[str, Any]


@dataclass
class Recorded:
    """A request for a model's answer. Times are seconds of ``time.monotonic()``."""

    wire: str
    path: str
    headers: dict[str, str]
    """Names in lower case."""
    json: Json
    received_at: float
    """The whole request was read."""
    ended_at: float | None = None
    """The last byte of the answer was handed to the system; None while it is under way or when cut short."""
    query: str = ""
    status: int = 0
    usage: Json = field(default_factory=dict[str, Any])
    frames: list[tuple[float, bytes]] = field(default_factory=list[tuple[float, bytes]])
    """The streamed pieces, each with the seconds of ``time.time()`` when it was handed to the system."""
    client_left: asyncio.Event = field(default_factory=asyncio.Event)
    """The client closed the connection before the answer was over."""


class ModelServer:
    """A fake model server. ``url`` is the base URL for Anthropic and Ollama; OpenAI's is ``url + "/v1"``."""

    def __init__(
        self,
        replies: Sequence[ReplyLike] | Callable[[Json], ReplyLike] | None = None,
        *,
        script: Callable[[Json, str], ReplyLike] | None = None,
        api_key: str | None = None,
        models: Sequence[str] = ("qwen3:8b",),
        port: int = 0,
        local: LocalServer | None = None,
        listed: Mapping[str, Json] | None = None,
    ) -> None:
        """``replies`` in order, or a function of the request. ``models``: what Ollama says it has. ``local``: whose
        window it has, and how it says so. ``listed``: answers to questions for its models, by path; they want the
        key, too."""
        self.requests: list[Recorded] = []
        self.other: list[str] = []
        """``METHOD /path`` of all that was no model call."""
        self.other_headers: list[dict[str, str]] = []
        """Their headers, names in lower case."""
        self.rejected: list[str] = []
        """Errors in requests that got 400 for their form."""
        self.problems: list[str] = []
        """Requests that the replies did not foresee; leaving the context raises for them."""
        self.connections = 0
        """How many connections were opened."""
        self.url = ""
        # Which reply a request gets, by the request and its wire.
        self.choose = script or self._chooser(replies or ())
        self._api_key = api_key
        self._models = models
        self._local = local
        self._listed = listed or {}
        self._port = port
        self._cache = messages.PromptCache()
        self._numbers = itertools.count(1)
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    def _chooser(
        self, replies: Sequence[ReplyLike] | Callable[[Json], ReplyLike]
    ) -> Callable[[Json, str], ReplyLike]:
        if callable(replies):
            return lambda request, wire: replies(request)
        left = iter(replies)

        def take(request: Json, wire: str) -> ReplyLike:
            for reply in left:
                return reply
            last = str(request.get("messages", request.get("input")))[-300:]
            raise LookupError(
                f"the fake model server has no reply left; {len(replies)} were given. The request ends with {last}"
            )

        return take

    async def __aenter__(self) -> ModelServer:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", self._port)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if kind is None:
            self.check()

    def begin(self, replies: Sequence[ReplyLike]) -> None:
        """Give other replies from now on, and forget what came in."""
        self.choose = self._chooser(replies)
        for heard in (self.requests, self.other, self.other_headers, self.rejected, self.problems):
            heard.clear()

    def check(self) -> None:
        """Raise AssertionError when requests came that the replies did not foresee."""
        if self.problems:
            raise AssertionError("; ".join(self.problems))

    def gaps(self) -> Iterator[float]:
        """Seconds from the end of each answer to the arrival of the next request."""
        for before, after in itertools.pairwise(self.requests):
            if before.ended_at is not None:
                yield after.received_at - before.ended_at

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        try:
            while await self._one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client left, or the test is over: nobody to tell
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Serve one request. False when the connection is over."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, target, _ = head[0].split(" ", 2)
        headers = {
            name.strip().lower(): value.strip() for name, _, value in (h.partition(":") for h in head[1:])
        }
        body = await self._body(reader, headers)
        path = target.partition("?")[0]
        wire = wires.wire_of(path)
        if method == "POST" and wire is not None:
            received_at = time.monotonic()  # before the parsing, which is the server's own time
            record = Recorded(wire, path, headers, json.loads(body), received_at)
            record.query = target.partition("?")[2]
            self.requests.append(record)
            return await self._model_call(record, wire, reader, writer)
        self.other.append(f"{method} {path}")
        self.other_headers.append(headers)
        told = None if self._local is None else self._local.side_door(path)
        await self._send(writer, *(told or self._list(path, headers) or self._side_door(path)))
        return True

    async def _body(self, reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
        if headers.get("transfer-encoding", "") == "chunked":
            body = b""
            while size := int(await reader.readline(), 16):
                body += await reader.readexactly(size)
                await reader.readline()
            await reader.readline()
            return body
        return await reader.readexactly(int(headers.get("content-length", "0")))

    def _list(self, path: str, headers: dict[str, str]) -> tuple[int, Json] | None:
        if path not in self._listed:
            return None
        given = headers.get("x-api-key") or headers.get("x-goog-api-key") or headers.get("authorization", "")
        if self._api_key is not None and given.removeprefix("Bearer ") != self._api_key:
            return 401, {"error": {"message": "invalid key", "type": "authentication_error"}}
        return 200, self._listed[path]

    def _side_door(self, path: str) -> tuple[int, Json]:
        if path == "/api/tags":
            return 200, {"models": [{"name": name, "model": name, "size": 1} for name in self._models]}
        if path == "/api/show":
            return 200, {"capabilities": ["completion", "tools"], "model_info": {}, "details": {}}
        return 404, {"error": {"message": f"no such path: {path}", "type": "not_found_error"}}

    async def _model_call(
        self, record: Recorded, wire: wires.Wire, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        reply = self._answer(record, wire)
        if reply.fault == "silent":
            return await self._wait_for_leave(record, reader)
        if reply.status != 200:
            body = wires.error_body(wire, reply.error_type, reply.error_message, reply.status)
            await self._send(writer, reply.status, body, dict(reply.headers))
            record.status, record.ended_at = reply.status, time.monotonic()
            return True
        record.status = 200
        writer.write(
            f"HTTP/1.1 200 OK\r\ncontent-type: {wires.content_type(wire)}\r\nrequest-id: req_fake\r\n"
            "transfer-encoding: chunked\r\n\r\n".encode()
        )
        try:
            over = await self._stream(record, wire, reply, reader, writer)
        except ConnectionError:
            record.client_left.set()
            return False
        if over:
            writer.write(b"0\r\n\r\n")
            await writer.drain()
            record.ended_at = time.monotonic()
        return over

    def _answer(self, record: Recorded, wire: wires.Wire) -> Reply:
        """The reply to a request, or the error that it deserves."""
        names = ("x-api-key", "api-key", "x-goog-api-key", "authorization")
        given = next((record.headers[name] for name in names if name in record.headers), "")
        given = given.removeprefix("Bearer ")
        if self._api_key is not None and wire != "ollama" and given != self._api_key:
            text = "invalid x-api-key" if wire == "anthropic" else f"Incorrect API key provided: {given}."
            return Reply(status=401, error_type="authentication_error", error_message=text)
        try:
            if wire == "anthropic":
                messages.check_anthropic(record.json, record.headers.get("anthropic-version", ""))
            elif wire == "openai":
                messages.check_openai(record.json)
        except (messages.RejectedError, KeyError, ValueError) as error:
            self.rejected.append(str(error))
            return Reply(status=400, error_type="invalid_request_error", error_message=str(error))
        if self._local is not None and (refused := self._local.refusal(record.json)) is not None:
            return refused
        try:
            reply = reply_of(self.choose(record.json, wire))
        except Exception as error:
            # Whatever went wrong in the choice, the person who runs the test must see it.
            self.problems.append(f"{type(error).__name__}: {error}")
            return Reply(status=500, error_type="api_error", error_message=self.problems[-1])
        counted = self._cache.count(record.json) if wire == "anthropic" else {"input_tokens": 10}
        if self._local is not None:
            counted = {"input_tokens": self._local.tokens(record.json)}
        counted = {"cache_read_input_tokens": 0, "cache_creation_input_tokens": 0} | counted
        output = max(1, len(reply.text + reply.reasoning + "".join(c.json() for c in reply.tool_calls)) // 4)
        record.usage = counted | {"output_tokens": output} | (reply.usage or {})
        return reply

    async def _stream(
        self,
        record: Recorded,
        wire: wires.Wire,
        reply: Reply,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> bool:
        """Send the frames. True when the answer may be closed in the normal way."""
        frames = wires.frames(wire, reply, record.usage, next(self._numbers), record.json)
        if reply.fault == "unknown_events":
            frames = [piece for frame in frames for piece in (wires.unknown_frame(wire), frame)]
        elif reply.fault:
            frames = frames[: reply.fault_after]
        if reply.fault == "error_event":
            frames.append(wires.error_frame(wire, reply))
        elif reply.fault == "malformed":
            frames.append(wires.malformed_frame(wire))
        elif reply.fault == "long_event":
            frames += [b"data: ", *[b"a" * 4_000] * 10_000]
        if reply.split:
            whole = b"".join(frames)
            frames = [whole[at : at + reply.split] for at in range(0, len(whole), reply.split)]
        for frame in frames:
            if reply.delay_s:
                await asyncio.sleep(reply.delay_s)
            if frame:
                record.frames.append((time.time(), frame))
                writer.write(f"{len(frame):x}\r\n".encode() + frame + b"\r\n")
                await writer.drain()
            if reply.split:
                await asyncio.sleep(0)  # so that the pieces leave one by one
        if reply.fault == "reset":
            writer.transport.abort()
            return False
        if reply.fault == "hang":
            return await self._wait_for_leave(record, reader)
        return True

    async def _wait_for_leave(self, record: Recorded, reader: asyncio.StreamReader) -> bool:
        # A client that waits for an answer sends nothing: what ends the read is its leaving.
        while await reader.read(1024):
            pass
        record.client_left.set()
        return False

    async def _send(
        self, writer: asyncio.StreamWriter, status: int, body: Json, headers: dict[str, str] | None = None
    ) -> None:
        data = json.dumps(body).encode()
        lines = [f"HTTP/1.1 {status} x", "content-type: application/json", f"content-length: {len(data)}"]
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + data)
        await writer.drain()


async def _serve(options: argparse.Namespace) -> None:
    given: Any = json.loads(options.script.read_text("utf-8"))
    if isinstance(given, list):
        replies = cast("list[ReplyLike]", given)
        server = ModelServer(replies, api_key=options.api_key, port=options.port)
    else:
        script = scripted(options.script, str(options.workspace))
        server = ModelServer(script=script, api_key=options.api_key, port=options.port)
    async with server:
        print(json.dumps({"url": server.url}), flush=True)
        await asyncio.to_thread(sys.stdin.buffer.read)


def _main() -> None:
    parser = argparse.ArgumentParser(description="A fake model server; see the module's text.")
    parser.add_argument("--script", type=Path, required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--workspace", type=Path, default=Path.cwd())
    parser.add_argument("--api-key")
    asyncio.run(_serve(parser.parse_args()))


if __name__ == "__main__":
    _main()
