from __future__ import annotations

import base64
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import httpx2
import pytest

from daemon.mcp.configuration import McpServerSpec, secrets_of
from tools.redaction.redactor import Redactor

PASSWORD = "hunter2pass"
BASIC = base64.b64encode(f"user:{PASSWORD}".encode()).decode()


def secrets(**spec: Any) -> list[str]:
    return secrets_of(McpServerSpec("s", "config.json", **spec))


@pytest.mark.parametrize(
    "spec",
    [
        {"command": ("p", "--api-key", "very-secret-1")},
        {"command": ("p", "--token=very-secret-1")},
        {"command": ("p", "postgres://me:very-secret-1@db/x")},
        {"env": (("DSN", "https://me:very-secret-1@host/2"),)},
        {"env": (("GITHUB_AUTH", "very-secret-1"),)},
        {"headers": (("X-Whatever", "very-secret-1"),)},
        {"headers": (("Authorization", "Bearer very-secret-1"),)},
        {"headers": (("Authorization", "Basic " + base64.b64encode(b"me:very-secret-1").decode()),)},
        {"url": "https://host/mcp?k=very-secret-1"},
        {"url": "https://very-secret-1@host/mcp"},
    ],
)
def test_secrets_of_a_configuration(spec: dict[str, Any]) -> None:
    found = secrets(**spec)
    assert "very-secret-1" in found
    assert base64.b64encode(b"very-secret-1").decode().rstrip("=") in found


def test_forms_of_a_secret() -> None:
    found = secrets(url="https://user:p%C3%A9%2F%3F%3E%3E%3Eword@host/")
    assert {"pé/?>>>word", "p%C3%A9%2F%3F%3E%3E%3Eword", "user:pé/?>>>word"} <= set(found)
    pair = "user:pé/?>>>word".encode()
    assert {
        base64.b64encode(pair).decode().rstrip("="),
        base64.urlsafe_b64encode(pair).decode().rstrip("="),
    } <= {*found}
    assert not secrets(url="https://host/mcp", headers=(), env=(("MODE", "quick-and-plain"),))
    assert secrets(headers=(("Authorization", "Basic no base64!"),))


def test_ordinary_words_and_dates_are_no_secrets() -> None:
    headers = ("Accept", "application/json, text/event-stream"), ("X-Version", "2025-11-25")
    found = secrets(url="https://host/mcp?features=database,functions&env=production", headers=headers)
    text = "The application/json of the database in production, text/event-stream since 2025-11-25."
    assert Redactor(found).text(text) == text
    assert "ordinary" in secrets(headers=(("X-Api-Key", "ordinary"),))
    assert "ordinary" in secrets(url="https://host/mcp?token=ordinary")


def test_an_echo_of_the_header_from_a_url() -> None:
    class Echo(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            data = self.headers["Authorization"].encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Echo) as http:
        Thread(target=http.serve_forever, args=(0.01,), daemon=True).start()
        url = f"http://user:{PASSWORD}@127.0.0.1:{http.server_port}/ok"
        said = httpx2.get(url).text
        http.shutdown()
    assert said == f"Basic {BASIC}"
    clean = Redactor(secrets(url=url)).text(f"{said} {PASSWORD}")
    assert BASIC not in clean and PASSWORD not in clean and "redacted" in clean
