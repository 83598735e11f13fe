"""The session as it happened: the same prompts, texts, tool calls and results for every variant, by a fixed seed.

What a goal's summary (``done``, ``abandon``) says follows one rule, that of a model that does as the tool tells it:
one sentence on what was done, then what was found out, newest first, until ``SUMMARY_CHARS`` are used up. Planted
facts have no advantage: every goal also has findings that nobody asks for in the end.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from daemon.model.messages import ToolCallPart
from tests.evals.benchmarks.context.sources import SourceFile, Sources
from tests.evals.benchmarks.context.story import (
    PAUSES_S,
    PROMPTS,
    RULES,
    SPANS,
    TURN_ENDS,
    Fact,
    Span,
    WorkKind,
)

CALLS = 300
SUMMARY_CHARS = 1_000
_ON_THE_PLAN = 18
"""Calls that are no work on a goal: those of ``goal``, and what is called beside them."""
OTHER_FINDINGS = 8
"""Findings of a goal besides the planted facts."""
TOKENS_A_SECOND = 60
PACKAGES = ("pygls", "lsprotocol", "unidiff", "pydantic", "cattrs", "anyio")


@dataclass(frozen=True, slots=True)
class Use:
    """A tool call and its answer. The result of ``goal`` is the product's, so it is empty here."""

    name: str
    input: dict[str, object]
    result: str = ""
    seconds: float = 0.5

    def part(self, call_id: str) -> ToolCallPart:
        """The call as a part of the model's message."""
        return ToolCallPart(id=call_id, name=self.name, input=json.dumps(self.input, ensure_ascii=False))


@dataclass(frozen=True, slots=True)
class Step:
    """One answer of the model, and the tools it called; none: the turn ends."""

    text: str
    uses: tuple[Use, ...] = ()

    @property
    def output_chars(self) -> int:
        """Characters that the model wrote."""
        return len(self.text) + sum(len(use.part("").input) + len(use.name) for use in self.uses)

    @property
    def seconds(self) -> float:
        """From the request to the next one."""
        return 3.0 + self.output_chars / 4 / TOKENS_A_SECOND + sum(use.seconds for use in self.uses)


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt of the user; ``changes_plan``: before it they changed the tree (see play.PersonsChange)."""

    text: str
    pause_s: float
    changes_plan: bool = False


@dataclass(frozen=True, slots=True)
class Script:
    """The session, and everything that was found out in it, in the order in which it appeared."""

    actions: tuple[Prompt | Step, ...]
    sayings: tuple[str, ...]
    """Sentences of the user, and findings: planted facts and others. In the order in which they appeared."""

    @property
    def calls(self) -> int:
        """All tool calls."""
        return sum(len(action.uses) for action in self.actions if isinstance(action, Step))

    @property
    def steps(self) -> int:
        """All model calls but the last, which has no answer in the script."""
        return sum(isinstance(action, Step) for action in self.actions)


def build_script(seed: int = 4, calls: int = CALLS) -> Script:
    """The session. With fewer ``calls`` every goal gets less work (for tests of the benchmark itself)."""
    writer = _Writer(random.Random(seed), Sources(PACKAGES), calls)
    actions = tuple(writer.story())
    return Script(actions, tuple(writer.sayings))


@dataclass
class _Writer:
    rng: random.Random
    sources: Sources
    calls: int
    sayings: list[str] = field(default_factory=list[str])
    used: int = 0
    _files: list[SourceFile] = field(default_factory=list[SourceFile])
    _span: Span | None = None
    _found: list[str] = field(default_factory=list[str])
    """Findings in the current span, oldest first."""

    def story(self) -> Iterator[Prompt | Step]:
        """Prompts and steps in order."""
        yield self._prompt(0)
        yield self._goal(
            "I make a plan first.",
            add="Understand how requests travel\nCancel running requests\nReview changes hunk by hunk\n"
            "Test and report\nWrite the guide",
            reason="the user asked for these, in this order",
            focus="1",
        )
        yield self._goal(
            "Two things have to be understood.",
            add="Trace a request through pygls\nSee how lsprotocol types are used",
            focus="1.1",
        )
        yield from self._work("trace")
        yield self._goal("That is how it works.", done=self._summary(), focus="1.2")
        yield from self._work("types")
        yield self._goal("Both are clear now.", done=self._summary())
        yield Step(TURN_ENDS[0])
        yield self._prompt(1)
        yield self._goal("Now the server.", focus="2", add="Cancel in the server\nCancel in the client")
        yield self._goal("The token first.", focus="2.1", add="Give handlers a token\nReach the thread pool")
        yield self._goal("I begin with the token.", focus="2.1.1")
        yield from self._work("token_exceptions")
        yield self._goal(
            "This way is wrong: I give it up and take another one.",
            abandon=self._summary(),
            add="Give handlers a token object that they poll",
            reason="raising from outside cannot work",
        )
        yield from self._work("token_object")
        yield self._goal("The token works.", beside=self._test(None), done=self._summary(), focus="2.1.2")
        yield Step(TURN_ENDS[1])
        yield self._prompt(2, changes_plan=True)
        yield from self._work("threads")
        yield self._goal("Next is the client.", done=self._summary(), focus="2.2")
        yield from self._work("client")
        yield self._goal("All of it can be cancelled now.", beside=self._test(None), done=self._summary())
        yield Step(TURN_ENDS[2])
        yield self._prompt(3)
        yield self._goal("Hunks now.", focus="3", add="Model a hunk\nCarry hunks as JSON")
        yield self._goal("The model comes first.", focus="3.1")
        yield from self._work("hunks_text")
        yield self._goal(
            "Plain text does not carry far enough; I take the objects.",
            abandon=self._summary(),
            add="Model a hunk from unidiff's objects",
            reason="text cannot be cut safely",
        )
        yield from self._work("hunks_model")
        yield self._goal("The model stands.", done=self._summary(), focus="3.2", after=self._read())
        yield from self._work("hunks_wire")
        yield self._goal("Hunks come back equal.", done=self._summary())
        yield Step(TURN_ENDS[3])
        yield self._prompt(4)
        yield self._goal("The tests are last.", focus="4")
        yield from self._work("tests", self.calls - self.used)

    # -- steps --

    def _prompt(self, number: int, changes_plan: bool = False) -> Prompt:
        text = PROMPTS[number].replace("{rules}", " ".join(RULES[number]))
        self.sayings += re.split(r"(?<=[.!?;:]) ", text)
        return Prompt(text, PAUSES_S[number], changes_plan)

    def _goal(self, text: str, *, beside: Use | None = None, after: Use | None = None, **input: str) -> Step:
        uses = [use for use in (beside, Use("goal", dict(input), seconds=0.1), after) if use is not None]
        self.used += len(uses)
        return Step(text, tuple(uses))

    def _summary(self) -> str:
        assert self._span is not None
        text = self._span.said
        for finding in reversed(self._found):
            if len(text) + len(finding) + 2 > SUMMARY_CHARS:
                break
            text += f" {finding};"
        return text.rstrip(";") + "."

    def _work(self, key: str, calls: int | None = None) -> Iterator[Step]:
        """Steps with ``calls`` calls on one goal; what is found out appears evenly spread over them."""
        span = SPANS[key]
        self._span, self._found = span, []
        self._files = self.sources.working_set(self.rng, span.packages)
        share = (self.calls - _ON_THE_PLAN) / (CALLS - _ON_THE_PLAN)
        left = max(3, round(span.calls * share)) if calls is None else calls
        self.used += left
        facts = [*span.facts, *(self._other() for _ in range(OTHER_FINDINGS))]
        self.rng.shuffle(facts)
        due = [round((number + 1) * left / (len(facts) + 1)) for number in range(len(facts))]
        done = 0
        while done < left:
            here = [fact for fact, at in zip(facts, due, strict=True) if done >= at]
            facts, due = facts[len(here) :], due[len(here) :]
            step = self._step(span.kind, left - done, here)
            done += len(step.uses)
            if done >= left and facts:
                # Too few calls for all of them (short scripts): the last step says the rest.
                step = self._with_facts(step, facts)
            yield step

    def _other(self) -> Fact:
        """A finding about the real files that is not asked for afterwards."""
        file = self.rng.choice(self._files)
        name = self.rng.choice(file.symbols())
        line = 1 + next((n for n, text in enumerate(file.lines) if name in text), 0)
        what = self.rng.choice(
            (
                f"{name} at {file.path}:{line} is called from two places and must keep its signature",
                f"{name} in {file.path} returns None when nothing is registered, at line {line}",
                f"line {line} of {file.path} is where {name} keeps its state between calls",
            )
        )
        return Fact("path", what, self.rng.random() < 0.4)

    def _step(self, kind: WorkKind, left: int, facts: Sequence[Fact]) -> Step:
        choices = _WEIGHTS[kind]
        names = self.rng.choices(list(choices), list(choices.values()))[0].split("+")[:left]
        if any(fact.kind == "cause" and fact.in_result for fact in facts):
            names = ["test"]
        elif any(fact.in_result for fact in facts):
            names = ["grep"]
        error = next((fact.text for fact in facts if fact.kind == "cause" and fact.in_result), None)
        uses = tuple(self._use(name, error) for name in names)
        return self._with_facts(Step(self._chatter(names), uses), facts)

    def _with_facts(self, step: Step, facts: Sequence[Fact]) -> Step:
        text, uses = step.text, list(step.uses)
        for fact in facts:
            self._found.append(fact.text)
            self.sayings.append(fact.text)
            if not fact.in_result:
                text += f" Noted: {fact.text}."
            elif fact.text not in uses[0].result:
                lines = uses[0].result.split("\n")
                lines.insert(self.rng.randrange(1, len(lines) + 1), f"# {fact.text}")
                uses[0] = Use(uses[0].name, uses[0].input, "\n".join(lines), uses[0].seconds)
        return Step(text, tuple(uses))

    def _chatter(self, names: Sequence[str]) -> str:
        file = self.rng.choice(self._files)
        symbol = self.rng.choice(file.symbols())
        return self.rng.choice(_CHATTER[names[0]]).format(path=file.path, name=symbol)

    def _use(self, name: str, error: str | None) -> Use:
        rng, files = self.rng, self._files
        assert self._span is not None
        package = rng.choice(self._span.packages)
        if name == "read":
            return self._read()
        if name == "grep":
            arguments, found = self.sources.grep(rng, files, package)
            return Use("grep", arguments, found)
        if name == "glob":
            arguments, found = self.sources.listing(package)
            return Use("glob", arguments, found)
        if name == "edit":
            edit = self.sources.edit(rng, rng.choice(files))
            arguments: dict[str, object] = {
                "file_path": edit.path,
                "old_string": edit.old,
                "new_string": edit.new,
            }
            # The person looks at each change before it is written.
            return Use("edit", arguments, edit.result, rng.uniform(3, 15))
        if name == "diff":
            return Use("bash", {"command": "git diff"}, self.sources.diff(rng, files))
        if error is None and rng.random() < 0.4:
            error = _FAILURE.format(rng.random())
        return self._test(error)

    def _read(self) -> Use:
        arguments, text = self.sources.read(self.rng, self.rng.choice(self._files))
        return Use("read", arguments, text)

    def _test(self, error: str | None) -> Use:
        package = self.rng.choice(self._span.packages if self._span else PACKAGES)
        text = self.sources.tests(self.rng, self._files, error)
        return Use(
            "bash", {"command": f"python -m pytest tests/{package} -q -v"}, text, self.rng.uniform(4, 25)
        )


_FAILURE = "AssertionError: assert {:.3f} == 1.0"
_WEIGHTS: dict[WorkKind, dict[str, int]] = {
    "explore": {"read": 42, "read+read": 9, "read+grep": 8, "grep": 22, "glob": 7, "test": 7, "diff": 5},
    "build": {"read": 25, "read+grep": 7, "grep": 12, "edit": 28, "edit+test": 6, "test": 16, "diff": 6},
    "finish": {"read": 18, "grep": 8, "edit": 34, "edit+test": 10, "test": 22, "diff": 8},
}
"""How often a step does what, by the kind of work; ``+``: calls in one step."""
_CHATTER: dict[str, tuple[str, ...]] = {
    "read": (
        "I look at {path} next, because {name} is used there.",
        "Before I change anything I read how {name} is built.",
        "The caller of {name} must be around here. Let me read it in {path}.",
    ),
    "grep": (
        "Who else uses {name}? I search for it.",
        "I need every place where this is called, before {path} can change.",
    ),
    "glob": ("Let me see which files there are.", "An overview of the package first."),
    "edit": (
        "I change {name} in {path} so that it passes the value on. The signature stays as it is.",
        "Now the same in {path}: {name} checks before the call.",
        "This is the smallest change that does it; {name} keeps its behaviour for old callers.",
    ),
    "test": ("I run the tests of the package.", "Let me see whether {name} still behaves as before."),
    "diff": ("I look at the whole change once more.", "What does the change in {path} read like as a whole?"),
}
