from __future__ import annotations

import subprocess
import sys

import attrs
import pytest

from lsp_bridge.quick_imports import quick_imports


def test_everything_is_as_before_afterwards_also_after_a_failure() -> None:
    define = attrs.define
    with pytest.raises(ImportError), quick_imports():
        assert attrs.define is not define
        raise ImportError
    assert attrs.define is define


def test_types_that_were_imported_quickly_go_over_the_wire_as_ever() -> None:
    # In a process of its own: here the types are imported already.
    code = """
from lsp_bridge.quick_imports import quick_imports
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
assert "__eq__" in vars(types.Hover) and types.Hover.__eq__ is types.Command.__eq__
assert types.Hover(hover.contents) != hover and hover != "x" and types.Hover.__hash__ is None
assert types.Position(1, 2) < types.Position(1, 3) and types.Range.__eq__ is not types.Hover.__eq__
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
