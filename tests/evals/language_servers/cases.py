"""Real servers, each with a change that breaks something: what it must say about that, and where."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from msgspec import structs

from lsp_bridge.cli.doctor.trial import SAMPLES, Sample
from lsp_bridge.language_client.specs.server_spec import ServerSpec
from lsp_bridge.language_client.specs.settings import DEFAULT_SPECS
from tests.evals.language_servers import install


@dataclass(frozen=True, slots=True)
class Across:
    """A change of one file that breaks another one, which is not changed."""

    files: Mapping[str, str]
    changed: str
    text: str
    """The new text of ``changed``."""
    broken: tuple[str, int]
    """File and line."""


@dataclass(frozen=True, slots=True)
class Case:
    """One server."""

    id: str
    spec: ServerSpec
    sample: Sample
    column: int
    """Column of the sample's error."""
    code: str
    first: tuple[Path, ...] = ()
    """Folders of programs before all others."""
    across: Across | None = None

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment in which it is found and started; the servers must be installed
        (``install.ensure``)."""
        return {**os.environ, "PATH": install.search_path(*self.first)}


def _spec(name: str) -> ServerSpec:
    return next(spec for spec in DEFAULT_SPECS if spec.name == name)


def _case(name: str, column: int, code: str, **more: object) -> Case:
    case = Case(name, _spec(name), SAMPLES[name], column, code)
    return replace(case, **more)


_PYTHON = Across(
    {"cart.py": "def total(prices: list[int]) -> int:\n    return sum(prices)\n",
     "user.py": "from cart import total\n\nprint(total([1, 2]))\n"},
    "cart.py",
    "def total(prices: str) -> int:\n    return len(prices)\n",
    ("user.py", 3),
)  # fmt: skip
_TYPESCRIPT = Across(
    {
        "tsconfig.json": '{"compilerOptions": {"strict": true, "module": "nodenext"}}\n',
        "cart.ts": "export function total(prices: number[]): number {\n  return prices.length;\n}\n",
        "user.ts": 'import { total } from "./cart.js";\n\nconsole.log(total([1, 2]));\n',
    },
    "cart.ts",
    "export function total(prices: string): number {\n  return prices.length;\n}\n",
    ("user.ts", 3),
)
_C = Across(
    {
        "cart.h": "int total(int first, int second);\n",
        "user.c": '#include "cart.h"\n\nint main(void) { return total(1, 2); }\n',
    },
    "cart.h",
    "int total(int first);\n",
    ("user.c", 3),
)

CASES: tuple[Case, ...] = (
    _case("pyright", 12, "reportReturnType", id="basedpyright", across=_PYTHON),
    _case(
        "pyright",
        12,
        "reportReturnType",
        id="basedpyright-pushing",
        spec=structs.replace(_spec("pyright"), announce_pull=False),
        across=_PYTHON,
    ),
    _case("ruff", 16, "F821"),
    _case("ruff", 16, "F821", id="ruff-pushing", spec=structs.replace(_spec("ruff"), announce_pull=False)),
    _case("ty", 12, "invalid-explicit-return", across=_PYTHON),
    _case("typescript-language-server", 14, "2322", across=_TYPESCRIPT),
    _case("typescript-7", 14, "2322", first=(install.NATIVE,), across=_TYPESCRIPT),
    _case("clangd", 12, "undeclared_var_use", across=_C),
    _case("bash-language-server", 1, "SC1046"),
    _case("json", 1, "516"),
    _case("css", 9, "css-colonexpected"),
    _case("html", 11, "css-colonexpected"),
    _case("yaml", 8, "0"),
)
"""Each server that is installed everywhere where the tests run."""
