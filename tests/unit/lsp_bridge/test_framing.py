from __future__ import annotations

import asyncio

import pytest

from lsp_bridge.framing import FramingError, content_length, frame, read_body


def stream(data: bytes, limit: int = 100) -> asyncio.StreamReader:
    reader = asyncio.StreamReader(limit)
    reader.feed_data(data)
    reader.feed_eof()
    return reader


async def test_bodies_are_read_as_they_were_sent_until_the_end() -> None:
    bodies = [b"{}", b"", b"\r\n\r\n", "日本語".encode()]
    reader = stream(b"".join(map(frame, bodies)))
    assert [await read_body(reader, 100) for _ in bodies] == bodies
    assert await read_body(reader, 100) is None


@pytest.mark.parametrize(
    "head",
    [
        b"content-length:2\r\n\r\n",
        b"Content-Length : 2\n\n",
        b"\r\n\r\nContent-Length: 2\r\n\r\n",
        b"Content-Type: x\r\nContent-Length: 2\r\nX: y\r\n\r\n",
        b"Content-Length: 9\r\nContent-Length: 2\r\n\r\n",
    ],
    ids=["spelling", "blanks", "blank lines", "others", "twice"],
)
async def test_headers_are_read_in_other_spellings(head: bytes) -> None:
    assert await read_body(stream(head + b"{}"), 100) == b"{}"


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"Content-Length: -1\r\n\r\n", "between 0 and 100 bytes, not -1"),
        (b"Content-Length: 101\r\n\r\n", "between 0 and 100 bytes, not 101"),
        (b"Content-Length: many\r\n\r\n", "must be a number"),
        (b"Content-Length: \r\n\r\n", "must be a number"),
        (b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n", "must be a number"),
        (b"X: y\r\n\r\n{}", "must have a Content-Length"),
        (b"x" * 20_000, "too long"),
        (b"X: " + b"x" * 20_000 + b"\r\n\r\n", "too long"),
    ],
)
async def test_what_is_no_frame_is_refused_with_the_reason(data: bytes, why: str) -> None:
    with pytest.raises(FramingError, match=why):
        await read_body(stream(data, 10_000), 100)


@pytest.mark.parametrize("cut", range(len(frame(b"{}")) - 2))
async def test_a_stream_may_end_within_a_header(cut: int) -> None:
    assert await read_body(stream(frame(b"{}")[:cut]), 100) is None


async def test_the_end_within_a_body_is_an_error() -> None:
    for cut in (1, 2):
        with pytest.raises(asyncio.IncompleteReadError):
            await read_body(stream(frame(b"{}")[:-cut]), 100)


def test_other_lines_of_a_header_announce_nothing() -> None:
    assert content_length(b"Content-Length: 12\r\n") == 12
    assert content_length(b"Content-Type: 12\r\n") is None
    assert content_length(b"\r\n") is None
