"""Judges cases through the replayer: real tools on real files, compared byte by byte."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tests.evals.corpus.case import Case
from tests.support.drivers.replayer import Replayer

Outcome = Literal["right", "refused", "wrong"]
_BYSTANDER = b"def other():\n    return 1\n"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of a case."""

    case: Case
    outcome: Outcome
    message: str
    after: bytes

    @property
    def good(self) -> bool:
        """Whether it is what the case's group asks for."""
        match self.case.group:
            case "refuse":
                return self.outcome == "refused"
            case "either":
                return self.outcome != "wrong"
            case _:
                return self.outcome == "right"


async def judge_all(cases: Iterable[Case]) -> list[Verdict]:
    """Judge every case in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="goalwright-corpus-") as folder:
        base = Path(os.path.realpath(folder))
        replayer = Replayer(base / "litter")
        return [await _judge(case, base / "root", replayer) for case in cases]


async def _judge(case: Case, root: Path, replayer: Replayer) -> Verdict:
    root.mkdir()
    target, bystander = root / case.name, root / "bystander.py.txt"
    target.write_bytes(case.data)
    bystander.write_bytes(_BYSTANDER)
    (result,) = await replayer.apply(root, [{"tool": "edit", "args": case.args}])
    after = target.read_bytes() if target.is_file() else b"\0gone"
    names = sorted(path.name for path in root.iterdir())
    others = bystander.read_bytes() == _BYSTANDER and names == sorted([case.name, bystander.name])
    shutil.rmtree(root)
    outcome: Outcome = "wrong"
    if others and result["ok"] and after in case.expected:
        outcome = "right"
    elif others and not result["ok"] and after == case.data:
        outcome = "refused"
    return Verdict(case, outcome, result["message"], after)


def judge(cases: Iterable[Case]) -> list[Verdict]:
    """``judge_all`` from where no event loop runs."""
    return asyncio.run(judge_all(cases))


def table(verdicts: Iterable[Verdict]) -> Iterator[str]:
    """The rates a kind, a group and in all, as text lines."""
    verdicts = list(verdicts)
    yield f"{'group':12} {'kind':28} {'cases':>6} {'right':>6} {'refused':>8} {'wrong':>6} {'as asked':>9}"
    for group in ("clean", "recoverable", "refuse", "either"):
        of_group = [v for v in verdicts if v.case.group == group]
        for kind in dict.fromkeys(v.case.kind for v in of_group):
            yield _row(group, kind, [v for v in of_group if v.case.kind == kind])
        yield _row(group, "== all", of_group)
    yield _row("", "in all", verdicts)


def _row(group: str, kind: str, verdicts: list[Verdict]) -> str:
    count = Counter(v.outcome for v in verdicts)
    good = sum(v.good for v in verdicts)
    rate = f"{good / max(len(verdicts), 1):9.1%}"
    return f"{group:12} {kind:28} {len(verdicts):6} {count['right']:6} {count['refused']:8} {count['wrong']:6} {rate}"
