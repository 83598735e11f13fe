"""``goalwright connect --stdio``: lets any LSP editor use the daemon as if it were a server on stdio."""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
from typing import BinaryIO

from daemon.runtime import Address
from lsp_bridge.handshake import preamble

_CHUNK = 64 * 1024


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
    read = getattr(source, "read1", source.read)
    with contextlib.suppress(OSError, ValueError):
        while chunk := read(_CHUNK):
            connection.sendall(chunk)
        connection.shutdown(socket.SHUT_WR)
