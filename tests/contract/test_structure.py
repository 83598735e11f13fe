"""Limits of the structure, measured in the source of the product. A failure says what to do."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
MOST_LINES = 700
SMALL, MOST_SMALL = 60, 40
MOST_ATTRIBUTES = 20
MOST_LONE_PROTOCOLS = 8
IMPLEMENTED_BY_USERS = {"PythonTool"}
TWO_MEANINGS = {"Problem"}
"""Names of two classes. The list may only shrink."""
SESSION_PARTS = {"session", "child", "parent", "policy", "state"}
"""Names through which a session or a part of it is reached."""


class Class(NamedTuple):
    name: str
    place: str
    bases: frozenset[str]
    attributes: frozenset[str]
    """Fields, and what its methods assign to ``self``."""
    methods: frozenset[str]


@cache
def texts() -> dict[str, str]:
    """The files by their paths, without those that the demo works on."""
    files = [file for package in ("goalwright", "daemon", "lsp_bridge", "tools")
             for file in sorted((ROOT / package).rglob("*.py"))]  # fmt: skip
    found = {file.relative_to(ROOT).as_posix(): file.read_text(encoding="utf-8") for file in files}
    return {path: text for path, text in found.items() if not path.startswith("daemon/demo/workspace/")}


@cache
def trees() -> dict[str, ast.Module]:
    return {path: ast.parse(text) for path, text in texts().items()}


@cache
def classes() -> dict[str, list[Class]]:
    found: dict[str, list[Class]] = defaultdict(list)
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(described(node, f"{path}:{node.lineno} {node.name}"))
    return found


def described(node: ast.ClassDef, place: str) -> Class:
    bases = {ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases}
    fields = {ast.unparse(part.target) for part in node.body if isinstance(part, ast.AnnAssign)}
    methods = [part for part in node.body if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)]
    own = {one.attr for method in methods for one in assigned(method) if ast.unparse(one.value) == "self"}
    attributes = frozenset((fields | own) - {"_"})  # the mark of keyword-only fields is none
    return Class(node.name, place, frozenset(bases), attributes, frozenset(one.name for one in methods))


def assigned(tree: ast.AST) -> Iterator[ast.Attribute]:
    """The attributes below a node that are assigned, or all of whose elements are (``x.y[:] = …``)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
            whole = isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice)
            target = node.value if whole else node
            if isinstance(target, ast.Attribute):
                yield target


@cache
def members(one: Class) -> frozenset[str]:
    """What it has, with what it inherits."""
    bases = [base for name in one.bases for base in classes().get(name, ()) if base is not one]
    return (one.attributes | one.methods).union(*map(members, bases))


def everything() -> list[Class]:
    return [one for found in classes().values() for one in found]


def test_no_file_is_too_long() -> None:
    long = [path for path, text in texts().items() if text.count("\n") > MOST_LINES]
    assert not long, (
        f"These have more than {MOST_LINES} lines. Move one subject of each to a file of its own: {long}"
    )


def test_few_files_are_small() -> None:
    modules = {path: text for path, text in texts().items() if not path.endswith("/__init__.py")}
    small = [path for path, text in modules.items() if text.count("\n") < SMALL]
    assert len(small) <= MOST_SMALL, (
        f"{len(small)} files have fewer than {SMALL} lines, and {MOST_SMALL} may. Join one with what uses it: {small}"
    )


def test_no_class_has_too_many_attributes() -> None:
    large = [one.place for one in everything() if len(one.attributes) > MOST_ATTRIBUTES]
    assert not large, (
        f"These have more than {MOST_ATTRIBUTES} attributes. Find some that belong together, and make them a class "
        f"with the methods that use them: {large}"
    )


def test_few_protocols_have_one_implementation() -> None:
    protocols = [one for one in everything() if "Protocol" in one.bases]
    concrete = [members(one) for one in everything() if "Protocol" not in one.bases]
    lone = [
        one.place
        for one in protocols
        if one.name not in IMPLEMENTED_BY_USERS and sum(members(one) <= other for other in concrete) <= 1
    ]
    assert len(lone) <= MOST_LONE_PROTOCOLS, (
        f"{len(lone)} protocols have one implementation, and {MOST_LONE_PROTOCOLS} may. Use its class where the layers "
        f"allow it, or a callable: {lone}"
    )


def test_no_class_name_has_two_meanings() -> None:
    named = {name: [one.place for one in found] for name, found in classes().items()}
    twice = {name: places for name, places in named.items() if len(places) > 1 and not name.startswith("_")}
    new = {name: places for name, places in twice.items() if name not in TWO_MEANINGS}
    assert not new, f"Classes have the same name. Give one of them another: {new}"
    assert twice.keys() >= TWO_MEANINGS, f"Delete these from TWO_MEANINGS: {TWO_MEANINGS - twice.keys()}"


def test_sessions_alone_assign_to_their_attributes() -> None:
    found = [
        f"{path}:{one.lineno} {ast.unparse(one)}"
        for path, tree in trees().items()
        if path != "daemon/api/app.py"  # ``state`` is another one there
        for one in assigned(tree)
        if SESSION_PARTS & {name.strip("_") for name in ast.unparse(one.value).split(".")}
    ]
    assert not found, f"Give the owner of these a method that says what happens, and call it: {found}"
