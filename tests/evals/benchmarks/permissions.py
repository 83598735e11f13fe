"""Permission rules: decisions over many rules, and a long command line taken apart to its question."""

from __future__ import annotations

import re
import time
from pathlib import Path

from daemon.model.permissions import Action, Rule
from daemon.permission.rules import SHIPPED, RuleSet
from tests.evals.benchmarks.measures import Baseline, Measure
from tests.evals.benchmarks.stage import Stage
from tools.shell.question import CommandPlace, question
from tools.shell.syntax import parse
from tools.tool import PermissionAsk

RULES = 500
DECISIONS = 10_000
LINE = 2_000
"""Characters of the command line."""


async def measure(stage: Stage) -> list[Measure]:
    """Each target occurs once, and nothing keeps decisions: they are all made."""
    rules = RuleSet((*SHIPPED, *_rules()))
    targets = _targets()
    first = _timed(lambda: [rules.decide("read", target) for target in targets])  # compiles
    whole = [_timed(lambda: [rules.decide("read", target) for target in targets]) for _ in range(stage.runs)]
    asks = [PermissionAsk("read", (target,), "") for target in targets]
    judged = [_timed(lambda: [rules.judge(ask) for ask in asks]) for _ in range(stage.runs)]
    bare = Baseline(
        f"{DECISIONS} matches of one pattern", _timed(lambda: [_ONE.fullmatch(t) for t in targets])
    )
    lines = [_line(number) for number in range(stage.runs + 1)]
    place = CommandPlace(Path("/workspace"), Path("/home/user"))
    question(lines.pop(), place)  # the grammar is loaded by the first
    parsing = tuple(_timed(lambda line=line: parse(line)) for line in lines)
    asking = tuple(_timed(lambda line=line: question(line, place)) for line in lines)
    count = len(parse(lines[0]).commands)
    kinds = f"{RULES} rules about one permission, a third with several wildcards; the first run takes {first:.0f} ms"
    return [
        Measure(f"{DECISIONS} decisions over {RULES} rules", "ms", tuple(whole), 1_000.0, bare, kinds),
        Measure(f"{DECISIONS} questions judged over {RULES} rules", "ms", tuple(judged), baseline=bare),
        Measure(
            "command line of 2 KB parsed",
            "ms",
            parsing,
            5.0,
            note=f"{count} commands, another line in each run",
        ),
        Measure("command line of 2 KB to its question", "ms", asking),
    ]


_ONE = re.compile(r"src/.*/module\.py")


def _rules() -> list[Rule]:
    """As people write them: folders, endings, single files, and what has wildcards in the middle."""
    forms = ("src/part{}/*", "*.kind{}", "lib/file{}.py", "docs/*/page{}.md", "*/made{}/*", "a?c{}*")
    actions: tuple[Action, ...] = ("allow", "ask", "deny")
    return [
        Rule(permission="read", pattern=forms[n % len(forms)].format(n), action=actions[n % 3], source="user")
        for n in range(RULES)
    ]


def _targets() -> list[str]:
    """Some fit a rule, most do not."""
    forms = ("src/part{}/x{}.py", "lib/sub/file{}_{}.py", "docs/en/{}/page{}.md", "Web/{}/made{}/y.ts")
    return [forms[n % len(forms)].format(n % 900, n) for n in range(DECISIONS)]


def _line(number: int) -> str:
    """A line of many short commands, as models write them."""
    parts = (
        "git log --oneline -n {0} -- src/part{0}.py | head -{0}",
        'grep -rn "name_{0}" src tests --include="*.py"',
        "cd sub{0} && npm run test:unit -- --filter={0}",
        'for f in a{0} b{0}; do echo "$f: $(wc -l < src/$f.txt)" >> out{0}.log; done',
        "test -f build/{0}.json || mkdir -p build",
    )
    found: list[str] = []
    while sum(len(part) + 4 for part in found) < LINE:
        found.append(parts[len(found) % len(parts)].format(number * 100 + len(found)))
    return " && ".join(found)[:LINE].rpartition(" && ")[0]


def _timed(do: object) -> float:
    assert callable(do)
    start = time.perf_counter()
    do()
    return (time.perf_counter() - start) * 1000
