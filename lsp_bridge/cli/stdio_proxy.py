"""``goalwright connect --stdio``: lets any LSP editor use the daemon as if it were a server on stdio."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import threading
from io import FileIO
from typing import TYPE_CHECKING, Any, BinaryIO

from daemon.provider.variables import provider_env
from lsp_bridge.framing import content_length, frame
from lsp_bridge.protocol.handshake import preamble

if TYPE_CHECKING:
    from collections.abc import Mapping
    from io import RawIOBase

    from daemon.runtime import Address

_CHUNK = 64 * 1024
_LONGEST_HEADER = 16 * 1024


def pump(address: Address, source: RawIOBase | None = None, sink: BinaryIO | None = None) -> int:
    """Copy stdin to the daemon and the daemon to stdout until the daemon hangs up.

    The end of stdin is passed on, and the daemon then hangs up. Returns the exit code: 1 when the connection
    broke off. Threads and plain sockets, because stdin may be a pipe, a file or a console.
    """
    # Without a buffer: a thread that waits inside one holds its lock, and Python aborts if it ends meanwhile.
    source = FileIO(sys.stdin.fileno(), closefd=False) if source is None else source
    target = sys.stdout.buffer if sink is None else sink
    with _connect(address) as connection:
        connection.sendall(preamble(address.token))
        # A daemon thread: a blocked read of stdin must not keep the program alive.
        threading.Thread(target=_send_all, args=(source, connection), daemon=True).start()
        try:
            while chunk := connection.recv(_CHUNK):
                target.write(chunk)
                target.flush()
        except OSError:
            return 1
    return 0


def _connect(address: Address) -> socket.socket:
    if address.socket is not None:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.connect(address.socket)
        return connection
    return socket.create_connection(("127.0.0.1", address.port or 0))


def _send_all(source: RawIOBase, connection: socket.socket) -> None:
    with contextlib.suppress(OSError, ValueError):
        connection.sendall(_first_message(source, provider_env(os.environ)))
        while chunk := source.read(_CHUNK):
            connection.sendall(chunk)
        connection.shutdown(socket.SHUT_WR)


def _first_message(source: RawIOBase, env: Mapping[str, str]) -> bytes:
    """Return the editor's first message, with our provider variables added: the daemon was started without any.

    Anything but a whole ``initialize`` is passed on unchanged.
    """
    head, body, length = b"", bytearray(), 0
    try:
        while len(head) < _LONGEST_HEADER and (line := source.readline(_LONGEST_HEADER)):
            head += line
            if line == b"\r\n":
                break
            length = content_length(line) or length
        while len(body) < length and (chunk := source.read(min(_CHUNK, length - len(body)))):
            body += chunk
        message = _with_env(json.loads(body), env)
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
        return head + body  # invalid: the daemon reports it
    return frame(message)


def _with_env(message: Any, env: Mapping[str, str]) -> bytes:
    """Return the ``initialize`` with ``env`` under what the editor gives itself."""
    if message["method"] != "initialize":
        raise ValueError("the first message is another one")
    options: dict[str, Any] = message["params"].get("initializationOptions") or {}
    message["params"]["initializationOptions"] = {**options, "env": {**env, **(options.get("env") or {})}}
    return json.dumps(message).encode()
