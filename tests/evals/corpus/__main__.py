"""``python -m tests.evals.corpus``: the table of rates on edits between released versions of real packages."""

from __future__ import annotations

import argparse
import random
import tempfile
from pathlib import Path

from tests.evals.corpus.build import build
from tests.evals.corpus.judge import Verdict, judge, table
from tests.evals.corpus.sources import installed, released


def main() -> None:
    """Print the table; exit with 1 when anything wrong was written."""
    parser = argparse.ArgumentParser(prog="python -m tests.evals.corpus", description=__doc__)
    parser.add_argument("--size", type=int, default=2600, help="number of cases, about")
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument(
        "--offline", action="store_true", help="edits of what is installed here; no downloads"
    )
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "goalwright-sdists")
    parser.add_argument("--show", default="", help="print the cases of this kind that did not go as asked")
    args = parser.parse_args()
    rng = random.Random(args.seed)
    changes = installed(rng, args.size * 3) if args.offline else released(args.cache, rng)
    verdicts = judge(build(changes, rng, args.size))
    for verdict in verdicts:
        if not verdict.good and args.show in (verdict.case.kind, verdict.case.group, verdict.outcome, "all"):
            print(_shown(verdict))
    print(*table(verdicts), sep="\n")
    raise SystemExit(any(v.outcome == "wrong" for v in verdicts))


def _shown(verdict: Verdict) -> str:
    case = verdict.case
    parts = [
        f"=== {case.group} / {case.kind} / {case.form}: {verdict.outcome}: {case.name}",
        f"--- old_string\n{case.args['old_string']!r}",
        f"--- new_string\n{case.args['new_string']!r}",
        f"--- answer\n{verdict.message}",
    ]
    if verdict.outcome == "wrong":
        parts.append(_difference(case.expected[0] if case.expected else case.data, verdict.after))
    return "\n".join(parts)


def _difference(wanted: bytes, got: bytes) -> str:
    at = next(
        (i for i, (a, b) in enumerate(zip(wanted, got, strict=False)) if a != b), min(len(wanted), len(got))
    )
    low = max(0, at - 80)
    return f"--- wanted {wanted[low : at + 200]!r}\n--- got    {got[low : at + 200]!r}"


main()
