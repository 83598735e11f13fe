"""For each known server a small project without an error, and the same file with one that it must see."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Sample:
    """``file`` holds ``right``, then ``wrong``, whose error is in line ``line`` (from 1)."""

    file: str
    right: str
    wrong: str
    line: int
    others: Mapping[str, str] = field(default_factory=dict[str, str])
    """More files, by name."""


_TYPED = "export const answer: number = {};\n"
_PYTHON = "def total(prices: list[int]) -> int:\n    return {}\n"

SAMPLES: Mapping[str, Sample] = {
    "pyright": Sample("a.py", _PYTHON.format("sum(prices)"), _PYTHON.format("str(prices)"), 2),
    "ruff": Sample("a.py", _PYTHON.format("sum(prices)"), _PYTHON.format("sum(undefined)"), 2),
    "ty": Sample("a.py", _PYTHON.format("sum(prices)"), _PYTHON.format("str(prices)"), 2),
    "typescript-7": Sample("a.ts", _TYPED.format("42"), _TYPED.format("'42'"), 1),
    "typescript-language-server": Sample("a.ts", _TYPED.format("42"), _TYPED.format("'42'"), 1),
    "clangd": Sample(
        "a.c",
        "int answer(void) {\n    return 42;\n}\n",
        "int answer(void) {\n    return undefined;\n}\n",
        2,
    ),
    "gopls": Sample(
        "a.go",
        "package a\n\nfunc Answer() int {\n\treturn 42\n}\n",
        'package a\n\nfunc Answer() int {\n\treturn "42"\n}\n',
        4,
        {"go.mod": "module example/a\n\ngo 1.18\n"},
    ),
    "rust-analyzer": Sample(
        "src/lib.rs",
        "pub fn answer() -> u8 {\n    42\n}\n",
        "pub fn answer() -> u8 {\n    undefined()\n",
        2,
        {"Cargo.toml": '[package]\nname = "a"\nversion = "0.1.0"\nedition = "2021"\n'},
    ),
    "bash-language-server": Sample(
        "a.sh",
        "#!/bin/bash\nif true; then\n  echo 42\nfi\n",
        "#!/bin/bash\nif true; then\n  echo 42\n",
        2,
    ),
    "json": Sample("a.json", '{\n  "answer": 42\n}\n', '{\n  "answer": \n}\n', 3),
    "css": Sample("a.css", "a {\n  color: red;\n}\n", "a {\n  color red;\n}\n", 2),
    "html": Sample(
        "a.html",
        "<style>\na { color: red; }\n</style>\n",
        "<style>\na { color red; }\n</style>\n",
        2,
    ),
    "yaml": Sample("a.yaml", "answer: 42\nother: 1\n", "answer: 42\nother: ]\n", 2),
}
