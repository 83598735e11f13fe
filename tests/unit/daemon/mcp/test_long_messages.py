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


def counted(text: bytes, sizes: list[int], *, events: bool = False) -> int:
    count, found, at = transports.ValueCount(events=events), 0, 0
    while at < len(text):
        size = sizes[at % len(sizes)]
        found = count.add(text[at : at + size])
        at += size
    return found


@settings(max_examples=examples(300))
@given(VALUES, st.booleans(), st.lists(st.integers(1, 9), min_size=1, max_size=5))
def test_values_of_a_text_in_pieces_are_counted(value: Any, pretty: bool, sizes: list[int]) -> None:
    text = json.dumps(value, ensure_ascii=False, indent=1 if pretty else None).encode()
    assert counted(text, sizes) == counted(text, [len(text)])


def test_a_string_counts_once_whatever_it_contains() -> None:
    text = json.dumps({"a": '[1,2,"3\\', "b": ["\n,,", 2]}).encode()
    assert counted(text, [1]) == len(b"{:,:[,")


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n", b"\r\r"])
@pytest.mark.parametrize("size", [1, 2, 20])
def test_each_event_of_a_stream_has_its_own_count(end: bytes, size: int) -> None:
    event = b"data: [1,2,3]" + end
    assert counted(event * 50 + event[: -len(end)], [size], events=True) <= 3 * len(b":[,,")


@pytest.mark.parametrize("line", [b': "\n', b': "\r', b': "\r\n', b": ' \"\n"])
def test_a_quote_in_a_comment_of_a_stream_hides_nothing(line: bytes) -> None:
    assert counted(line + b"data: " + b"[" * 100, [7], events=True) > 100


def test_json_in_a_long_string_is_counted_at_once() -> None:
    text = json.dumps({"text": json.dumps([{"a": "b"}] * 100_000)}).encode()
    assert counted(text, [1 << 16]) == len(b"{:")
