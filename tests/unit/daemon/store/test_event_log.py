"""Finding events in a log without reading it all, whatever is in it."""

from __future__ import annotations

import io
import json
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.store import event_log
from daemon.store.event_log import LogReader
from tests.support.examples import examples

BAD = (
    b"",
    b"not json",
    b"[]",
    b'{"event_id": "x"}',
    b'{"event_id":true}',
    b"\xff\xfe",
    b"{" * 3000,
    b'{"event_id":-4}',
)


def ours(number: int, size: int = 0) -> bytes:
    return b'{"event_id":%d,"trace_id":"t","x":"%s"}' % (number, b"x" * size)


def theirs(number: int, size: int = 0) -> bytes:
    return json.dumps({"x": "x" * size, "event_id": number}).encode()


def ids_after(content: bytes, after: int) -> list[int]:
    reader = LogReader(io.BytesIO(content))
    found = [line.event_id() for line in reader.forwards(reader.position_after(after))]
    return [number for number in found if number is not None and number > after]


lines = st.lists(
    st.one_of(
        st.tuples(st.just("ours"), st.integers(0, 60)),
        st.tuples(st.just("ours"), st.integers(0, 60)),
        st.tuples(st.just("theirs"), st.integers(0, 60)),
        st.tuples(st.just("bad"), st.integers(0, len(BAD) - 1)),
    ),
    max_size=60,
)


@given(lines, st.integers(-1, 80), st.integers(1, 200), st.sampled_from([b"", b'{"event_id":99,', b"torn"]))
@settings(max_examples=examples(300), deadline=None)
def test_events_after_an_id_are_found_in_any_log(
    made: list[tuple[str, int]], after: int, block: int, torn: bytes
) -> None:
    number, content, wanted = 0, b"", list[int]()
    for kind, size in made:
        if kind == "bad":
            content += BAD[size] + b"\n"
            continue
        number += 1 + size % 2  # ids may have gaps
        content += (ours if kind == "ours" else theirs)(number, size) + b"\n"
        wanted.append(number)
    with mock.patch.object(event_log, "_BLOCK", block):
        assert ids_after(content + torn, after) == [number for number in wanted if number > after]
        reader = LogReader(io.BytesIO(content + torn))
        assert (reader.end, reader.torn) == (len(content), len(torn))
        assert [line.event_id() for line in reader.backwards()][::-1] == [
            line.event_id() for line in reader.forwards()
        ]


class Counted(io.BytesIO):
    bytes_read = 0

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        self.bytes_read += len(data)
        return data


def test_event_lookup_in_a_long_log_reads_a_fraction_of_it() -> None:
    content = b"".join(ours(number, 4000) + b"\n" for number in range(1, 5001))
    for after in (10, 2500, 4990):
        file = Counted(content)
        reader = LogReader(file)
        line = next(
            line for line in reader.forwards(reader.position_after(after)) if (line.event_id() or 0) > after
        )
        assert line.event_id() == after + 1
        assert file.bytes_read < len(content) // 8


def test_log_of_unreadable_lines_is_read_about_once() -> None:
    file = Counted(b"nonsense\n" * 200_000)
    reader = LogReader(file)
    assert [line for line in reader.forwards(reader.position_after(5)) if line.event_id()] == []
    assert file.bytes_read < 3 * len(file.getvalue())


def test_overlong_line_is_skipped_and_its_neighbours_are_read() -> None:
    content = ours(1) + b"\n" + ours(2, 5000) + b"\n" + ours(3) + b"\n"
    with mock.patch.object(event_log, "MAX_LINE", 1000), mock.patch.object(event_log, "_BLOCK", 64):
        reader = LogReader(io.BytesIO(content))
        assert [(line.size > 1000, line.data == b"") for line in reader.forwards()] == [
            (False, False),
            (True, True),
            (False, False),
        ]
        assert [line.event_id() for line in reader.backwards()] == [3, None, 1]
        blocks = b"".join(block[:whole] for _, block, whole in reader.blocks())
        assert blocks == ours(1) + b"\n" + ours(3) + b"\n"


@given(
    st.lists(st.binary(max_size=90).map(lambda b: b.replace(b"\n", b" ")), max_size=12), st.integers(1, 40)
)
@settings(max_examples=examples(100), deadline=None)
def test_blocks_consist_of_whole_lines(made: list[bytes], size: int) -> None:
    content = b"".join(line + b"\n" for line in made)
    with mock.patch.object(event_log, "_BLOCK", size):
        reader = LogReader(io.BytesIO(content + b"torn"))
        assert [line.data for line in reader.forwards()] == made
        blocks = [(at, block[:whole]) for at, block, whole in reader.blocks()]
    assert b"".join(block for _, block in blocks) == content
    assert all(content[at:].startswith(block) and block.endswith(b"\n") for at, block in blocks)


def test_a_log_that_is_made_shorter_while_it_is_read_ends_there() -> None:
    file = io.BytesIO(b"".join(ours(number, 300) + b"\n" for number in range(1, 3000)))
    reader = LogReader(file)
    found = reader.forwards()
    assert next(found).event_id() == 1
    file.truncate(0)
    assert len(list(found)) < 3000
    assert list(reader.forwards()) == []
    assert list(reader.blocks()) == []
