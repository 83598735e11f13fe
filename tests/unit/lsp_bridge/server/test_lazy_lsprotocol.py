from __future__ import annotations

import subprocess
import sys

import attrs
import pytest

from lsp_bridge.server.lazy_lsprotocol import quick_imports


def test_everything_is_as_before_afterwards_also_after_a_failure() -> None:
    define = attrs.define
    with pytest.raises(ImportError), quick_imports():
        assert attrs.define is not define
        raise ImportError
    assert attrs.define is define


def test_quickly_imported_types_serialize_as_usual() -> None:
    # In a process of its own: here the types are imported already.
    code = """
from lsp_bridge.server.lazy_lsprotocol import quick_imports
with quick_imports():
    from lsprotocol import converters, types
assert "__repr__" not in vars(types.Hover)
span = types.Range(types.Position(1, 2), types.Position(1, 3))
hover = types.Hover(types.MarkupContent(types.MarkupKind.Markdown, "x"), span)
converter = converters.get_converter()
wire = converter.unstructure(hover)
assert wire == {"contents": {"kind": "markdown", "value": "x"},
                "range": {"start": {"line": 1, "character": 2}, "end": {"line": 1, "character": 3}}}, wire
assert converter.structure(wire, types.Hover) == hover
assert len(types.Hover.__init__.__globals__) < 20, "a copy of the whole module's"
assert "__eq__" in vars(types.Hover) and types.Hover.__eq__ is types.Command.__eq__
assert types.Hover(hover.contents) != hover and hover != "x" and types.Hover.__hash__ is None
assert types.ClientCapabilities().general is None and types.Hover(contents="x", range=None).range is None
try:
    types.Position("no number", 1)
    raise AssertionError("validators are gone")
except ValueError:
    pass
assert types.Position(1, 2) < types.Position(1, 3) and types.Range.__eq__ is not types.Hover.__eq__
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_quick_import_types_equal_those_of_a_plain_import() -> None:
    describe = """
import attrs, json
shown = {
    name: [[a.name, str(a.type), repr(a.default), a.kw_only, a.eq] for a in attrs.fields(made)]
    for name, made in sorted(types.ALL_TYPES_MAP.items())
    if isinstance(made, type) and attrs.has(made)
}
print(json.dumps(shown))
"""
    quick = (
        "from lsp_bridge.server.lazy_lsprotocol import quick_imports\n"
        "with quick_imports(): from lsprotocol import types\n"
    )
    plain = "from lsprotocol import types, converters\nconverters.get_converter()\n"
    outputs = [
        subprocess.run(
            [sys.executable, "-c", code + describe], capture_output=True, text=True, check=True
        ).stdout
        for code in (quick, plain)
    ]
    assert outputs[0] == outputs[1]
    assert len(outputs[0]) > 10_000


def test_concurrently_requested_class_is_built_once() -> None:
    code = """
import threading
from lsp_bridge.server.lazy_lsprotocol import quick_imports
with quick_imports():
    from lsprotocol import types
made, start = [], threading.Barrier(8)
def make():
    start.wait()
    made.append(types.Hover(contents="x", range=types.Range(types.Position(1, 2), types.Position(1, 3))))
threads = [threading.Thread(target=make) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert len(made) == 8 and all(one == made[0] for one in made)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
