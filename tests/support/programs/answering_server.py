"""A language server that answers requests with whatever a test wrote down: a real process, stdlib only.

``--answers`` is a JSON file: ``{"capabilities": {...}, "answers": {method: [answer, ...]}}``; the last answer repeats.
An answer is the result, or an object with one of: ``$error`` (a response's error), ``$wait`` (seconds, then null),
``$never``, ``$die``, ``$many`` (``[n, item]``: the item n times), ``$deep`` (symbols nested so deeply), ``$busy``
(a progress that begins, then the result). What it was sent is appended to ``--log``.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any, cast


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--answers")
    parser.add_argument("--log")
    options = parser.parse_args()
    plan: dict[str, Any] = json.loads(Path(options.answers).read_text(encoding="utf-8"))
    while (message := read()) is not None:
        with Path(options.log).open("a", encoding="utf-8") as log:
            log.write(json.dumps(message) + "\n")
        method = message.get("method")
        if method == "exit":
            return
        if "id" not in message or method is None:
            continue
        if method == "initialize":
            time.sleep(plan.get("startup_s", 0))
            respond(message, {"capabilities": {"textDocumentSync": 1, **plan["capabilities"]}})
        elif method == "shutdown":
            respond(message, None)
        else:
            answers = plan["answers"].get(method, [None])
            answer(message, answers.pop(0) if len(answers) > 1 else answers[0])


def answer(message: dict[str, Any], answered: Any) -> None:
    if not isinstance(answered, dict):
        respond(message, answered)
        return
    given = cast("dict[str, Any]", answered)
    if "$error" in given:
        send({"id": message["id"], "error": given["$error"]})
    elif "$wait" in given:
        time.sleep(given["$wait"])
        respond(message, None)
    elif "$die" in given:
        os._exit(3)
    elif "$many" in given:
        count, item = given["$many"]
        respond(message, [item] * count)
    elif "$deep" in given:
        symbol: dict[str, Any] = {"name": "leaf", "kind": 12, "range": RANGE, "selectionRange": RANGE}
        # By hand: json would not nest so deeply.
        text = json.dumps(symbol)
        for _ in range(given["$deep"]):
            text = json.dumps(symbol)[:-1] + ', "children": [' + text + "]}"
        write(f'{{"jsonrpc": "2.0", "id": {json.dumps(message["id"])}, "result": [{text}]}}'.encode())
    elif "$busy" in given:
        send({"id": "token", "method": "window/workDoneProgress/create", "params": {"token": "t"}})
        value = {"kind": "begin", "title": "Indexing"}
        send({"method": "$/progress", "params": {"token": "t", "value": value}})
        respond(message, given["$busy"])
    elif "$never" not in given:
        respond(message, given)


RANGE = {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 1}}


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


if __name__ == "__main__":
    main()
