"""Long messages: the same values as other decoders return, bounded, while the event loop goes on."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.mcp import transports
from daemon.mcp.transports import decoded
from tests.support.examples import examples

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
)


@settings(max_examples=examples(300))
@given(VALUES, st.booleans())
def test_values_are_those_of_the_c_decoder(value: Any, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only).encode()
    assert decoded(text) == json.loads(text)


@pytest.mark.parametrize(
    "text", [b"{", b"[1,]", b"\xff", b'"\\ud800"', b'{"\\ud800": 1}', b"[" * 100_000, b"[1] [2]", b""]
)
def test_what_is_no_message(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        decoded(text)


@pytest.mark.parametrize("values", ["[[],[],[],[]]", "[1,2,3,4,5]", '{"a":{"b":{"c":[1,2]}}}'])
def test_values_are_counted(monkeypatch: pytest.MonkeyPatch, values: str) -> None:
    decoded(values.encode())
    monkeypatch.setattr(transports, "MOST_VALUES", 3)
    with pytest.raises(ValueError, match="more than 3 values"):
        decoded(values.encode())


async def test_the_event_loop_goes_on_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    tools = [{"name": f"tool_{n}", "inputSchema": {"type": "object"}} for n in range(50_000)]
    text = json.dumps({"tools": tools}).encode()
    turns, seen = 0, list[int]()
    made = transports._object

    def counted(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        seen.append(turns)
        return made(pairs)

    monkeypatch.setattr(transports, "_object", counted)
    work = asyncio.create_task(asyncio.to_thread(decoded, text))
    while not work.done():
        await asyncio.sleep(0)
        turns += 1
    assert len((await work)["tools"]) == 50_000
    assert seen[-1] > seen[0]
