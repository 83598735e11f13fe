from __future__ import annotations

import io
import json
import socket
import threading
from typing import Any

import pytest

from daemon.runtime import Address
from lsp_bridge.cli.stdio_proxy import pump

ENV = {"ANTHROPIC_API_KEY": "sk-of-the-editor", "OPENAI_API_KEY": "sk-other"}
WITH_ENV = {"initializationOptions": {"env": ENV}}


class Pieces(io.RawIOBase):
    """Input that comes a few bytes at a time."""

    def __init__(self, data: bytes, size: int) -> None:
        self._rest = data
        self._size = size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        size = min(self._size, len(buffer), len(self._rest))
        buffer[:size], self._rest = self._rest[:size], self._rest[size:]
        return size


def frame(message: object) -> bytes:
    body = json.dumps(message).encode()
    return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


def initialize(params: object) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}


def sent(monkeypatch: pytest.MonkeyPatch, data: bytes, size: int = 1 << 16) -> bytes:
    """Return what reaches the daemon when an editor writes ``data``."""
    for name in ("ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "OPENAI_BASE_URL", "OLLAMA_HOST"):
        monkeypatch.delenv(name, raising=False)
    for name, value in ENV.items():
        monkeypatch.setenv(name, value)
    received: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def daemon() -> None:
            connection, _ = server.accept()
            with connection:
                while chunk := connection.recv(65536):
                    received.append(chunk)

        thread = threading.Thread(target=daemon)
        thread.start()
        address = Address(1, "token", "0", 1, "/w", "now", None, server.getsockname()[1])
        assert pump(address, Pieces(data, size), io.BytesIO()) == 0
        thread.join(10)
    first_line, _, rest = b"".join(received).partition(b"\n")
    assert first_line.endswith(b"token")
    return rest


@pytest.mark.parametrize("size", [1, 7, 1 << 16])
def test_editors_keys_reach_the_daemon_in_initialize(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    rest = frame({"jsonrpc": "2.0", "method": "initialized", "params": {}}) + b"half a frame"
    several: list[dict[str, Any]] = [{}, {"initializationOptions": None}, {"initializationOptions": {}}]
    for params in several:
        data = sent(monkeypatch, frame(initialize({"rootUri": None, **params})) + rest, size)
        assert data == frame(initialize({"rootUri": None, **WITH_ENV})) + rest


def test_keys_that_the_editor_names_itself_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"settings": {"model": "openai/x"}, "env": {"OPENAI_API_KEY": "sk-mine"}}
    data = sent(monkeypatch, frame(initialize({"initializationOptions": options})))
    options["env"] = {**ENV, "OPENAI_API_KEY": "sk-mine"}
    assert data == frame(initialize({"initializationOptions": options}))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"Content-Length: 10\r\n\r\n{",
        b"Content-Length: x\r\n\r\n{}",
        b"no header at all\r\n\r\n",
        b"Content-Length: 3\r\n\r\n{]}",
        frame([1]),
        frame({"id": 1}),
        frame({"id": 1, "method": "shutdown"}),
        frame(initialize(None)),
        frame(initialize({"initializationOptions": "odd"})),
        b"x" * 100_000,
    ],
)
def test_anything_else_is_passed_on_as_it_came(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    assert sent(monkeypatch, data) == data
