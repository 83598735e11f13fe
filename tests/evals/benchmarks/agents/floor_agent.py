"""The floor of the benchmark: about the least that a coding agent in Python can be.

It streams answers of the Anthropic Messages API over httpx, and has two tools. It asks for no permission, and stores
nothing. ``python floor_agent.py PROMPT`` works in the current folder.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import httpx

Json = dict[str, Any]


def _tool(name: str, about: str, *texts: str) -> Json:
    properties = {text: {"type": "string"} for text in texts}
    schema = {"type": "object", "properties": properties, "required": list(texts)}
    return {"name": name, "description": about, "input_schema": schema}


_TOOLS = [
    _tool("read", "Show a file.", "path"),
    _tool("edit", "Replace the only occurrence of a text in a file.", "path", "old", "new"),
]
_FIXED: Json = {
    "model": "claude-sonnet-4-5",
    "max_tokens": 8192,
    "stream": True,
    "system": [
        {"type": "text", "text": "You are a coding agent. Work in the current folder with your tools."}
    ],
    "tools": _TOOLS,
}


def main(prompt: str) -> None:
    """Ask the model and do what it says until it calls no tool."""
    messages: list[Json] = [{"role": "user", "content": prompt}]
    headers = {"x-api-key": os.environ["ANTHROPIC_API_KEY"], "anthropic-version": "2023-06-01"}
    with httpx.Client(base_url=os.environ["ANTHROPIC_BASE_URL"], headers=headers, timeout=60) as client:
        while True:
            content = _answer(client, messages)
            messages.append({"role": "assistant", "content": content})
            results = [_result(block) for block in content if block["type"] == "tool_use"]
            if not results:
                return
            messages.append({"role": "user", "content": results})


def _answer(client: httpx.Client, messages: list[Json]) -> list[Json]:
    """The blocks of the model's answer."""
    content: list[Json] = []
    arguments = ""
    with client.stream("POST", "/v1/messages", json=_FIXED | {"messages": messages}) as response:
        if response.status_code != 200:
            raise SystemExit(response.read().decode())
        for line in response.iter_lines():
            if not line.startswith("data: "):
                continue
            event = json.loads(line[6:])
            match event["type"]:
                case "content_block_start":
                    content.append(event["content_block"])
                    arguments = ""
                case "content_block_delta" if event["delta"]["type"] == "text_delta":
                    content[-1]["text"] += event["delta"]["text"]
                    sys.stdout.write(event["delta"]["text"])
                case "content_block_delta":
                    arguments += event["delta"]["partial_json"]
                case "content_block_stop" if content[-1]["type"] == "tool_use":
                    content[-1]["input"] = json.loads(arguments or "{}")
                case _:
                    pass
    sys.stdout.write("\n")
    sys.stdout.flush()
    return content


def _result(call: Json) -> Json:
    try:
        text = _read(**call["input"]) if call["name"] == "read" else _edit(**call["input"])
        failed = False
    except (OSError, TypeError, ValueError) as error:
        text, failed = f"{type(error).__name__}: {error}", True
    return {"type": "tool_result", "tool_use_id": call["id"], "content": text, "is_error": failed}


def _read(path: str) -> str:
    lines = Path(path).read_text().splitlines()
    return "\n".join(f"{number:6}\t{line}" for number, line in enumerate(lines, 1))


def _edit(path: str, old: str, new: str) -> str:
    text = Path(path).read_text()
    if text.count(old) != 1:
        raise ValueError(f"the text occurs {text.count(old)} times in {path}")
    Path(path).write_text(text.replace(old, new))
    return f"{path} is changed."


if __name__ == "__main__":
    main(sys.argv[1])
