"""A language server that misbehaves on demand: a real process that speaks LSP over stdio, stdlib only.

It finds an error in every line that contains ``BAD``, and exits when it receives ``DEADLY``. How it says so is
scripted: ``--plan`` is a JSON list, one entry for each didOpen or didChange it receives (the last entry
repeats), each a list of steps:

``fresh`` push the diagnostics of the newest text · ``stale`` push those of the text before it, with its version
· ``unversioned`` / ``unversioned-stale`` the same without a version · ``future`` a version never sent · ``flood``
10 000 diagnostics · ``garbage`` bodies that are not JSON · ``nested`` a nested object with a "jsonrpc" key ·
``half`` half a message · ``die`` exit at once · ``other:NAME`` an error in another file · ``wait:SECONDS``
``hold`` nothing now; what was held is pushed by the step ``release`` · ``empty`` no problems, whatever the text ·
``short`` / ``long`` a message whose Content-Length is wrong · ``no-length`` a body without one · ``giant-header`` ·
``giant-length`` · ``junk-lines`` text between the messages · ``unknown-ids`` answers nobody asked for · ``same-id``
requests with one id twice · ``nonsense`` requests and notifications full of junk · ``deaf`` read no more ·
``stderr`` megabytes there · ``begin:TITLE`` / ``end`` of progress · ``partial`` a result in parts · ``eat:MB`` memory
``close`` stdout · ``own-version`` push with a version that it counts by itself · ``uri:FORM`` of an odd form
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
            while self.options.initialize_when and not Path(self.options.initialize_when).exists():
                time.sleep(0.01)
            capabilities: dict[str, Any] = {"textDocumentSync": json.loads(self.options.sync)}
            if self.options.encoding:
                capabilities["positionEncoding"] = self.options.encoding
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
            text = self.texts[uri][-1][1]
            for change in params["contentChanges"]:
                text = changed(text, change)
            self.texts[uri].append((params["textDocument"]["version"], text))
            self.follow_plan(uri)
        elif method == "textDocument/didSave" and self.options.on_save:
            uri = params["textDocument"]["uri"]
            publish(uri, problems(self.texts[uri][-1][1]))
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
        if "DEADLY" in text:
            os._exit(3)
        old_version, old_text = versions[-2] if len(versions) > 1 else versions[-1]
        for step in steps:
            name, _, argument = step.partition(":")
            published: dict[str, tuple[str, int | None]] = {
                "fresh": (text, version),
                "stale": (old_text, old_version),
                "unversioned": (text, None),
                "unversioned-stale": (old_text, None),
                "future": (text, version + 1_000_000),
                "own-version": (text, len(versions)),
            }
            if name in published:
                about, claimed = published[name]
                publish(uri, problems(about), claimed)
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
            else:
                self.attack(name, argument, uri, text, version)

    def attack(self, name: str, argument: str, uri: str, text: str, version: int) -> None:
        push = {"uri": uri, "diagnostics": problems(text), "version": version}
        body = json.dumps(
            {"jsonrpc": "2.0", "method": "textDocument/publishDiagnostics", "params": push}
        ).encode()
        frames = {
            "short": b"Content-Length: %d\r\n\r\n%s" % (len(body) - 20, body),
            "long": b"Content-Length: %d\r\n\r\n%s" % (len(body) + 30, body),
            "no-length": b"Content-Type: x\r\n\r\n" + body + b"\n",
            "giant-header": b"X: " + b"x" * 3_000_000 + b"\r\n\r\n",
            "giant-length": b"Content-Length: 99999999999\r\n\r\n{",
            "junk-lines": b"Debugger listening\nversion: 5\n\n",
        }
        if name in frames:
            raw(frames[name])
        elif name == "empty":
            publish(uri, [], version)
        elif name == "unknown-ids":
            for identity in ("no such request", 77, -1, 2**70):
                send({"id": identity, "result": push})
        elif name == "same-id":
            for _ in range(3):
                send({"id": "one", "method": "workspace/configuration", "params": {"items": [{}]}})
        elif name == "nonsense":
            self.talk_nonsense()
        elif name == "uri":
            folder, _, file = uri.rpartition("/")
            forms = {
                "dots": f"{folder}/x/../{file}",
                "localhost": uri.replace("file:///", "file://localhost/"),
                "double": uri.replace("file:///", "file:////"),
            }
            publish(forms[argument], problems(text), version)
        elif name in ("begin", "end"):
            value = {"kind": "begin", "title": argument} if name == "begin" else {"kind": "end"}
            send({"method": "$/progress", "params": {"token": "t", "value": value}})
        elif name == "partial":
            send({"method": "$/progress", "params": {"token": "p", "value": {"items": problems("BAD part")}}})
        else:
            self.fail(name, argument)

    def fail(self, name: str, argument: str) -> None:
        if name == "deaf":
            while True:
                time.sleep(3600)
        elif name == "stderr":
            for _ in range(80):
                sys.stderr.write("x" * 100_000)
        elif name == "eat":
            self.eaten = b"x" * (int(argument) << 20)
        elif name == "close":
            os.close(1)

    def talk_nonsense(self) -> None:
        junk: list[Any] = [
            None,
            5,
            "x",
            [],
            [[]],
            {"items": 3},
            {"items": [None, {"section": 5}, {"section": "."}]},
        ]
        junk += [{"registrations": value} for value in (None, 5, [None, 5, {}, {"id": [], "method": {}}])]
        watchers: list[Any] = [5, [5], [{"globPattern": 5}, {"globPattern": "[z-a]{", "kind": "x"}]]
        for value in (*watchers, [{"globPattern": {"baseUri": "::", "pattern": "**/" * 99}}]):
            entry = {
                "id": "w",
                "method": "workspace/didChangeWatchedFiles",
                "registerOptions": {"watchers": value},
            }
            junk.append({"registrations": [entry]})
        selector = {
            "documentSelector": [5, None, {"pattern": "{" * 50}, {"language": ["x"]}],
            "syncKind": "full",
        }
        for method in ("textDocument/didChange", "textDocument/diagnostic"):
            junk.append({"registrations": [{"id": method, "method": method, "registerOptions": selector}]})
        junk += [{"unregisterations": value} for value in (3, [3], [{"id": "textDocument/diagnostic"}])]
        junk.append({"unregisterations": [{"id": "textDocument/didChange"}]})
        names = ("workspace/configuration", "client/registerCapability", "client/unregisterCapability")
        for number, params in enumerate(junk):
            for name in (*names, "workspace/applyEdit", "window/showMessageRequest", "no/such/method"):
                send({"id": f"{name}{number}", "method": name, "params": params})
            for name in ("$/progress", "window/logMessage", "textDocument/publishDiagnostics"):
                send({"method": name, "params": params})
        for uri in ("", "::", "http://x/y", "file:///%00", "file://[", 5):
            send({"method": "textDocument/publishDiagnostics", "params": {"uri": uri, "diagnostics": [{}]}})
        send({"id": None, "error": {"code": "x"}})
        send({"id": 1.5, "method": "workspace/configuration"})

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
        elif step == "unchanged":
            respond(message, {"kind": "unchanged", "resultId": "never given"})
        elif step == "junk":
            respond(message, {"kind": "full", "items": {"a": 1}, "relatedDocuments": [3]})
        elif step == "partial":
            token = message["params"].get("partialResultToken", "made up")
            part = {"items": problems("BAD part")}
            send({"method": "$/progress", "params": {"token": token, "value": part}})
        elif step == "die":
            os._exit(3)


def changed(text: str, change: dict[str, Any]) -> str:
    """One content change, columns in UTF-16 units; only line feeds end a line."""
    if "range" not in change:
        return change["text"]
    lines = text.split("\n")

    def offset(position: dict[str, int]) -> int:
        line = lines[position["line"]].encode("utf-16-le")[: position["character"] * 2].decode("utf-16-le")
        return sum(len(before) + 1 for before in lines[: position["line"]]) + len(line)

    start, end = offset(change["range"]["start"]), offset(change["range"]["end"])
    return text[:start] + change["text"] + text[end:]


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


def raw(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


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
    parser.add_argument("--sync", default="1", help="textDocumentSync, as JSON")
    parser.add_argument("--encoding", default="", help="positionEncoding; it still counts in UTF-16 units")
    parser.add_argument("--never-initialize", action="store_true")
    parser.add_argument("--initialize-when", default="", help="answer initialize when this file exists")
    parser.add_argument("--exit-at-start", action="store_true")
    parser.add_argument("--ignore-shutdown", action="store_true", help="and the end of stdin, and TERM")
    parser.add_argument("--on-save", action="store_true", help="push, without a version, after didSave")
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
