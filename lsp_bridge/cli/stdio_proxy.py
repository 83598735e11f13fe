"""``goalwright connect --stdio``: lets any LSP editor use the daemon as if it were a server on stdio."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import sys
import threading
from typing import TYPE_CHECKING, Any, BinaryIO

from daemon.provider.variables import provider_env
from lsp_bridge.protocol.handshake import preamble

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from daemon.runtime import Address

_CHUNK = 64 * 1024
_FRAME = re.compile(
    rb"\A(?:[^\r\n]+\r\n)*?content-length: *(\d{1,9})\r\n(?:[^\r\n]+\r\n)*\r\n", re.IGNORECASE
)
_LONGEST_HEADER = 16 * 1024


def pump(address: Address, source: BinaryIO | None = None, sink: BinaryIO | None = None) -> int:
    """Copy stdin to the daemon and the daemon to stdout until the daemon hangs up.

    The end of stdin is passed on, and the daemon then hangs up. Returns the exit code: 1 when the connection
    broke off. Threads and plain sockets, because stdin may be a pipe, a file or a console.
    """
    source = sys.stdin.buffer if source is None else source
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


def _send_all(source: BinaryIO, connection: socket.socket) -> None:
    read = _reader(source)
    with contextlib.suppress(OSError, ValueError):
        connection.sendall(_first_message(read, provider_env(os.environ)))
        while chunk := read(_CHUNK):
            connection.sendall(chunk)
        connection.shutdown(socket.SHUT_WR)


def _reader(source: BinaryIO) -> Callable[[int], bytes]:
    """Return a function that reads available input.

    From the descriptor where there is one: a thread that waits inside a buffered reader holds its lock, and Python
    aborts when it ends with that lock held.
    """
    try:
        descriptor = source.fileno()
    except (OSError, ValueError):
        return getattr(source, "read1", source.read)
    return lambda size: os.read(descriptor, size)


def _first_message(read: Callable[[int], bytes], env: Mapping[str, str]) -> bytes:
    """Return the editor's first message, with our provider variables added: the daemon was started without any.

    Anything but a whole ``initialize`` is passed on unchanged.
    """
    data = b""
    frame: re.Match[bytes] | None = None
    while frame is None or len(data) < frame.end() + int(frame[1]):
        chunk = read(_CHUNK)
        if not chunk:
            return data
        data += chunk
        frame = frame or _FRAME.match(data)
        if frame is None and len(data) > _LONGEST_HEADER:
            return data
    end = frame.end() + int(frame[1])
    try:
        body = _with_env(json.loads(data[frame.end() : end]), env)
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
        return data  # invalid: the daemon reports it
    return b"Content-Length: %d\r\n\r\n%s%s" % (len(body), body, data[end:])


def _with_env(message: Any, env: Mapping[str, str]) -> bytes:
    """Return the ``initialize`` with ``env`` under what the editor gives itself."""
    if message["method"] != "initialize":
        raise ValueError("the first message is another one")
    options: dict[str, Any] = message["params"].get("initializationOptions") or {}
    message["params"]["initializationOptions"] = {**options, "env": {**env, **(options.get("env") or {})}}
    return json.dumps(message).encode()
