"""A client that only sends: ``python null_client.py URL`` posts the requests of its input, a JSON list, one by one."""

from __future__ import annotations

import json
import socket
import sys
from urllib.parse import urlsplit

_END = b"\r\n0\r\n\r\n"


def main(url: str, bodies: list[object]) -> None:
    """Send each when the answer to the one before is complete."""
    where = urlsplit(url)
    with socket.create_connection((where.hostname, where.port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for data in [json.dumps(body).encode() for body in bodies]:  # before any is timed
            head = f"POST /v1/messages HTTP/1.1\r\nhost: bench\r\ncontent-length: {len(data)}\r\n\r\n"
            connection.sendall(head.encode() + data)
            received = b""
            while not received.endswith(_END):
                piece = connection.recv(65536)
                if not piece:
                    raise SystemExit("the server has closed the connection")
                received += piece


if __name__ == "__main__":
    main(sys.argv[1], json.load(sys.stdin))
