"""A language server that misbehaves on demand: a real process that speaks LSP over stdio, stdlib only.

It finds an error in every line that contains ``BAD``. How it says so is scripted: ``--plan`` is a JSON list,
one entry for each didOpen or didChange it receives (the last entry repeats), each a list of steps:

``fresh`` push the diagnostics of the newest text · ``stale`` push those of the text before it, with its version
· ``unversioned`` / ``unversioned-stale`` the same without a version · ``future`` a version never sent · ``flood``
10 000 diagnostics · ``garbage`` bodies that are not JSON · ``nested`` a nested object with a "jsonrpc" key ·
``half`` half a message · ``die`` exit at once · ``other:NAME`` an error in another file · ``wait:SECONDS``
``hold`` nothing now; what was held is pushed by the step ``release``
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

FLOOD = 10_000


class FakeServer:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.plan: list[list[str]] = json.loads(options.plan)
        self.pull_plan: list[str] = json.loads(options.pull_plan)
        self.texts: dict[str, list[tuple[int, str]]] = {}
        self.held: list[dict[str, Any]] = []

    def serve(self) -> None:
        while (message := read()) is not None:
            if self.options.log:
                with Path(self.options.log).open("a", encoding="utf-8") as log:
                    log.write(json.dumps(message) + "\n")
            self.handle(message)
        if self.options.ignore_shutdown:
            time.sleep(3600)

    def handle(self, message: dict[str, Any]) -> None:
        method, params = message.get("method"), message.get("params") or {}
        if method == "initialize" and not self.options.never_initialize:
            capabilities: dict[str, Any] = {"textDocumentSync": 1}
            if self.options.pull == "static":
                capabilities["diagnosticProvider"] = {"interFileDependencies": True}
            respond(message, {"capabilities": capabilities})
        elif method == "initialized" and self.options.pull == "dynamic":
            registration = {"id": "p", "method": "textDocument/diagnostic", "registerOptions": {}}
            send(
                {"id": 1, "method": "client/registerCapability", "params": {"registrations": [registration]}}
            )
        elif method == "textDocument/didOpen":
            item = params["textDocument"]
            self.texts.setdefault(item["uri"], []).append((item["version"], item["text"]))
            self.follow_plan(item["uri"])
        elif method == "textDocument/didChange":
            uri = params["textDocument"]["uri"]
            text = params["contentChanges"][-1]["text"]
            self.texts[uri].append((params["textDocument"]["version"], text))
            self.follow_plan(uri)
        elif method == "textDocument/diagnostic":
            self.answer_pull(message, params["textDocument"]["uri"])
        elif method == "shutdown" and not self.options.ignore_shutdown:
            respond(message, None)
        elif method == "exit" and not self.options.ignore_shutdown:
            sys.exit(0)

    def follow_plan(self, uri: str) -> None:
        steps = self.plan.pop(0) if len(self.plan) > 1 else self.plan[0]
        versions = self.texts[uri]
        version, text = versions[-1]
        old_version, old_text = versions[-2] if len(versions) > 1 else versions[-1]
        for step in steps:
            name, _, argument = step.partition(":")
            if name == "fresh":
                publish(uri, problems(text), version)
            elif name == "stale":
                publish(uri, problems(old_text), old_version)
            elif name == "unversioned":
                publish(uri, problems(text))
            elif name == "unversioned-stale":
                publish(uri, problems(old_text))
            elif name == "future":
                publish(uri, problems(text), version + 1_000_000)
            elif name == "hold":
                self.held.append({"uri": uri, "diagnostics": problems(text), "version": version})
            elif name == "release":
                while self.held:
                    send({"method": "textDocument/publishDiagnostics", "params": self.held.pop(0)})
            elif name == "flood":
                publish(uri, [diagnostic(line, f"flood {line}") for line in range(FLOOD)], version)
            elif name == "garbage":
                for body in (b"{]", b"[1, 2]", b"\xff\xfe", b'"jsonrpc"', b'{"jsonrpc": "2.0", "method": 5}'):
                    write(body)
            elif name == "nested":
                items = [{**item, "data": {"jsonrpc": "1.0", "id": 7, "a/b": 1}} for item in problems(text)]
                publish(uri, items, version)
            elif name == "other":
                publish(uri.rsplit("/", 1)[0] + "/" + argument, [diagnostic(0, "broken by the other")])
            elif name == "half":
                sys.stdout.buffer.write(b'Content-Length: 5000\r\n\r\n{"jsonrpc": "2.0", "meth')
                sys.stdout.buffer.flush()
            elif name == "die":
                os._exit(3)
            elif name == "wait":
                time.sleep(float(argument))

    def answer_pull(self, message: dict[str, Any], uri: str) -> None:
        step = self.pull_plan.pop(0) if len(self.pull_plan) > 1 else self.pull_plan[0]
        if step == "fresh":
            respond(message, {"kind": "full", "items": problems(self.texts[uri][-1][1])})
        elif step == "cancelled":
            error = {"code": -32802, "message": "later", "data": {"retriggerRequest": True}}
            send({"id": message["id"], "error": error})
        elif step == "error":
            send({"id": message["id"], "error": {"code": -32603, "message": "no"}})
        elif step == "null":
            respond(message, None)
        elif step == "die":
            os._exit(3)


def problems(text: str) -> list[dict[str, Any]]:
    return [
        diagnostic(number, f"bad: {line.strip()}")
        for number, line in enumerate(text.split("\n"))
        if "BAD" in line
    ]


def diagnostic(line: int, message: str) -> dict[str, Any]:
    place = {"start": {"line": line, "character": 0}, "end": {"line": line, "character": 3}}
    return {"range": place, "severity": 1, "source": "fake", "code": "bad", "message": message}


def publish(uri: str, items: list[dict[str, Any]], version: int | None = None) -> None:
    params: dict[str, Any] = {"uri": uri, "diagnostics": items}
    if version is not None:
        params["version"] = version
    send({"method": "textDocument/publishDiagnostics", "params": params})


def respond(message: dict[str, Any], result: object) -> None:
    send({"id": message["id"], "result": result})


def send(message: dict[str, Any]) -> None:
    write(json.dumps({"jsonrpc": "2.0", **message}).encode())


def write(body: bytes) -> None:
    sys.stdout.buffer.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
    sys.stdout.buffer.flush()


def read() -> dict[str, Any] | None:
    length = 0
    while line := sys.stdin.buffer.readline():
        if not line.strip():
            return json.loads(sys.stdin.buffer.read(length))
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    return None


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--plan", default='[["fresh"]]')
    parser.add_argument("--pull", choices=("no", "static", "dynamic"), default="no")
    parser.add_argument("--pull-plan", default='["fresh"]')
    parser.add_argument("--never-initialize", action="store_true")
    parser.add_argument("--exit-at-start", action="store_true")
    parser.add_argument("--ignore-shutdown", action="store_true", help="and the end of stdin, and TERM")
    parser.add_argument("--noise", action="store_true", help="fill stderr")
    parser.add_argument("--child", default="", help="start a child process and write its id to this file")
    parser.add_argument("--log", default="", help="append every message received to this file")
    options = parser.parse_args()
    if options.exit_at_start:
        sys.exit("cannot start")
    if options.ignore_shutdown:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if options.noise:
        sys.stderr.write("noise " * 100_000)
    if options.child:
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
        Path(options.child).write_text(str(child.pid), encoding="utf-8")
    FakeServer(options).serve()


if __name__ == "__main__":
    main()
