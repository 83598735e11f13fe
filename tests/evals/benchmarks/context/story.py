"""The story of the session: goals, the user's prompts, and the 40 planted facts. Data only.

The workspace is a monorepo with the sources of real packages. The user wants running requests of a language
server to be cancellable, and changes to be reviewed hunk by hunk. 12 goals stand in the plan at the end, in three
levels; two more were tried and abandoned.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["decision", "path", "cause", "rule"]
WorkKind = Literal["explore", "build", "finish"]


@dataclass(frozen=True, slots=True)
class Fact:
    """A planted fact. ``in_result``: it is in a tool's result; otherwise the model (or the user) states it."""

    kind: Kind
    text: str
    in_result: bool = False


@dataclass(frozen=True, slots=True)
class Span:
    """The work on one goal without the goals below it: how many tool calls, on which packages, what is found."""

    key: str
    kind: WorkKind
    calls: int
    packages: tuple[str, ...]
    said: str
    """The first sentence of its summary."""
    facts: tuple[Fact, ...]


def _decision(text: str) -> Fact:
    return Fact("decision", text)


def _path(text: str, in_result: bool = False) -> Fact:
    return Fact("path", text, in_result)


def _cause(text: str, in_result: bool = True) -> Fact:
    return Fact("cause", text, in_result)


SPANS: dict[str, Span] = {
    span.key: span
    for span in (
        Span(
            "trace",
            "explore",
            26,
            ("pygls", "lsprotocol"),
            "Followed a request from the socket to its handler and back.",
            (
                _path("the request table lives in src/pygls/protocol/json_rpc.py under _request_futures"),
                _path("cancel notifications arrive in lsp__cancel_request of language_server.py", True),
                _decision("we hook into the protocol class, not into the generated base server"),
            ),
        ),
        Span(
            "types",
            "explore",
            24,
            ("lsprotocol", "cattrs"),
            "Looked how types are structured and converted.",
            (
                _path("the converter is made in src/lsprotocol/converters.py by get_converter()"),
                _cause("StructureHandlerNotFoundError: no hook for the union of int and str ids"),
                _decision("ids are compared as text, because clients send both 7 and '7'"),
            ),
        ),
        Span(
            "token_exceptions",
            "build",
            30,
            ("pygls", "anyio"),
            "Tried to cancel by raising into the handler's task.",
            (
                _cause("RuntimeError: cancel scope exited in a different task than it was entered in"),
                _decision("exceptions that are raised from outside are out: half the handlers hold locks"),
            ),
        ),
        Span(
            "token_object",
            "build",
            30,
            ("pygls", "anyio"),
            "Handlers get a token object and look at it between two pieces of work.",
            (
                _decision("cancellation is a token object that handlers poll, never an exception"),
                _path("the token class is CancelToken in src/pygls/cancellation.py"),
                _cause(
                    "AttributeError: 'Future' object has no attribute 'token' after a reply was sent early"
                ),
                _path("the token reaches a handler through the keyword argument cancel_token=", True),
            ),
        ),
        Span(
            "threads",
            "build",
            28,
            ("pygls", "anyio"),
            "Handlers in the thread pool see the token too.",
            (
                _cause(
                    "a handler in the pool never saw the token: contextvars are not copied by submit()", False
                ),
                _decision("the pool runs handlers within copy_context().run so that the token is visible"),
                _path("the pool's wrapper is run_in_pool in src/pygls/feature_manager.py"),
            ),
        ),
        Span(
            "client",
            "build",
            28,
            ("pygls", "lsprotocol"),
            "The client sends the cancel notification and waits for the last answer.",
            (
                _cause("asyncio.InvalidStateError: the late answer of a cancelled request was set twice"),
                _decision("late answers are dropped silently and counted in stats.late_answers"),
                _path("the client's grace period is CANCEL_GRACE_S in src/pygls/client.py", True),
            ),
        ),
        Span(
            "hunks_text",
            "build",
            26,
            ("unidiff", "pydantic"),
            "Tried to keep hunks as plain text and to cut them with regular expressions.",
            (
                _cause("UnidiffParseError: Hunk diff line expected, got a form feed inside of a string"),
                _decision(
                    "text slicing of hunks is out: it breaks on form feeds and on lone carriage returns"
                ),
            ),
        ),
        Span(
            "hunks_model",
            "build",
            28,
            ("unidiff", "pydantic"),
            "Hunks are frozen models built from unidiff's objects.",
            (
                _decision("a hunk is a frozen pydantic model with the line arrays, not a wrapper"),
                _path("the model is ReviewHunk in src/review/hunks.py with the field source_start"),
                _cause("ValidationError: source_start must be at least 0 for a hunk of a new file"),
                _cause(
                    "the hunk's section header was lost because __str__ writes it only when not empty", False
                ),
            ),
        ),
        Span(
            "hunks_wire",
            "build",
            28,
            ("pydantic", "cattrs"),
            "Hunks travel as JSON with aliases and come back equal.",
            (
                _decision("the wire has camelCase aliases and refuses unknown fields"),
                _path("the schema is written to schema/review.json by scripts/write_schema.py", True),
                _cause("TypeError: Object of type PosixPath is not JSON serializable in model_dump()"),
            ),
        ),
        Span(
            "tests",
            "finish",
            34,
            ("pygls", "unidiff"),
            "",
            (
                _decision(
                    "the end-to-end test talks to the server over a real socket with a deadline of 10 s"
                ),
                _path("the new tests live in tests/end_to_end/test_cancel.py", True),
                _cause(
                    "ConnectionResetError: the server closed the socket before the last answer was written"
                ),
            ),
        ),
    )
}

RULES: tuple[tuple[str, ...], ...] = (
    (
        "Always run the tests of a package after you changed it.",
        "Never change the generated file src/lsprotocol/types.py by hand.",
        "Never add a dependency without asking me.",
    ),
    (
        "Always write docstrings in the imperative mood.",
        "Never use global state for the token.",
    ),
    (
        "Always keep public names backward compatible until version 3.",
        "Never log the content of documents.",
    ),
    (
        "Always give line numbers from 1 in what people see.",
        "Never silence a type checker without a reason in the same line.",
    ),
    ("Always name the issue number GW-417 in the changelog entry.",),
)

PROMPTS: tuple[str, ...] = (
    "Our language server cannot stop a request that is running: when somebody types fast, old completions pile up and "
    "the editor feels slow. Make running requests cancellable, in the server and in the client, and after that let "
    "people review the changes of a code action hunk by hunk. Begin with understanding how a request travels through "
    "pygls and how lsprotocol types are used; then plan the rest and show me. {rules} "
    "Take your time with the first part, I would rather have it right.",
    "Good, that is how I remember it too. Go on with cancellation in the server. Start with the token, then the thread "
    "pool. {rules} If the first way does not work out, try another one and tell me why.",
    "Change of plan: somebody else writes the guide, I took it out of the plan. And the client matters more to us "
    "than I said: it must also wait for late answers, so I renamed that goal. Please do the thread pool and the client "
    "now. {rules}",
    "Nice. Now the review of hunks: first the model of a hunk, then how it is serialised. The editor's side is done "
    "already, it only needs JSON. {rules}",
    "Almost there. Write the tests for all of it and report what you did. {rules}",
)
PAUSES_S = (0.0, 95.0, 420.0, 150.0, 60.0)
"""Seconds between the model's last message and the user's next prompt; one is longer than a cache lasts."""

TURN_ENDS = (
    "I have followed a request from the socket to its handler and back, and the plan for the rest stands. The server "
    "keeps a table of running requests already; what is missing is a way to tell the handler. Shall I go on?",
    "The token works in coroutine handlers now, and all tests of pygls pass. The first way, raising into the task, did "
    "not work: scopes may not be left from outside. The thread pool comes next.",
    "Server and client can cancel now, in coroutines and in the pool, and late answers are waited for. I have kept the "
    "old names as aliases. Next would be the review of hunks.",
    "Hunks have a model and travel as JSON; a change of a code action can be taken hunk by hunk. What is left are the "
    "tests over a real socket.",
)


KINDS: dict[Kind, str] = {"decision": "decisions", "path": "paths", "cause": "causes", "rule": "rules"}

LIVE: tuple[Fact, ...] = SPANS["tests"].facts
"""Those of the goal that is at work when the session ends."""


def planted() -> list[Fact]:
    """Return all planted facts, including the user's rules."""
    rules = [Fact("rule", rule) for prompt in RULES for rule in prompt]
    return [*(fact for span in SPANS.values() for fact in span.facts), *rules]
