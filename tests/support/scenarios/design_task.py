"""A small project that init and execute do together, as a script for models.

Init designs rules for postal codes and their file format. Execute generates a checker and samples, and evaluates
them by running it: half of them fail, because the design forgot the spaces that people write. Init fixes the design,
and the next iteration passes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

RULES_1 = "# Rules\n\nA code is four digits.\n"
RULES_2 = "# Rules\n\nA code is four digits; spaces around and within it do not count.\n"
FORMAT = "# Format\n\nsamples.json: a list of [text, is it a code].\n"
SAMPLES = '[["1234", true], ["12 34", true], ["12345", false], [" 1234", true]]\n'
CHECKER_1 = "def is_code(text):\n    return len(text) == 4 and text.isdigit()\n"
CHECKER_2 = (
    'def is_code(text):\n    text = text.replace(" ", "")\n    return len(text) == 4 and text.isdigit()\n'
)
EVALUATE = (
    "import json\n"
    "from checker import is_code\n"
    'samples = json.load(open("samples.json"))\n'
    "good = sum(is_code(text) == wanted for text, wanted in samples)\n"
    'print(f"{good}/{len(samples)}")\n'
)
RUN = "cd out/iteration_{n} && python3 evaluate.py"
REPORT_1 = (
    "2 of 4 samples pass. `12 34` and ` 1234` fail: the rules say nothing of spaces. Results: out/iteration_1"
)
REPORT_2 = "All 4 samples pass. Results: out/iteration_2"
DESIGNED = "The rules are in design/rules.md, the format in design/format.md."
CHANGED = "Spaces do not count any more; see design/rules.md."

Make = Callable[[str, dict[str, Any]], Any]
"""A tool call as a kind of model wants it, from the tool's name and its arguments."""


def init_steps(call: Make, *, refused: bool) -> list[list[Any]]:
    """Return one list per model call; strings are texts. ``refused``: the user sends the first change of the design
    back."""

    def write(path: str, content: str) -> Any:
        return call("write", {"file_path": path, "content": content})

    def mend(text: str) -> Any:
        return call("edit", {"file_path": "design/rules.md", "old_string": RULES_1[9:], "new_string": text})

    again = [[mend(RULES_2[9:])]]
    return [
        [call("goal", {"add": ["Design the rules", "Let them be carried out"], "focus": "1"})],
        [write("design/rules.md", RULES_1), write("design/format.md", FORMAT)],
        [call("goal", {"done": "rules and format are in design/", "focus": "2"})],
        [call("hand_over", {"report": DESIGNED})],
        *([[mend("A code is four digits, or any letters.\n")]] if refused else []),
        *again,
        [call("hand_over", {"report": CHANGED})],
        ["Postal codes are recognised: 4 of 4 samples pass."],
    ]


def execute_steps(call: Make, number: int) -> list[list[Any]]:
    """Return the steps of one iteration."""
    folder = f"out/iteration_{number}"

    def write(name: str, content: str) -> Any:
        return call("write", {"file_path": f"{folder}/{name}", "content": content})

    report, rate = (REPORT_1, 0.5) if number == 1 else (REPORT_2, 1.0)
    return [
        [call("read", {"file_path": "design/rules.md"}), call("read", {"file_path": "design/format.md"})],
        [
            call("goal", {"add": ["Generate", "Evaluate"], "focus": "1"}),
            write("checker.py", CHECKER_1 if number == 1 else CHECKER_2),
            write("samples.json", SAMPLES),
            write("evaluate.py", EVALUATE),
        ],
        [call("goal", {"done": f"checker and samples are in {folder}", "focus": "2"})],
        [call("bash", {"command": RUN.format(n=number)})],
        [call("hand_over", {"report": report, "success_rate": rate})],
    ]


def script(*, refused: bool) -> str:
    """Return the same script as the text of a file for the scripted model: ``scripted/<path>``."""

    def call(name: str, arguments: dict[str, Any]) -> Any:
        return {"name": name, "input": arguments}

    def turn(steps: list[list[Any]]) -> list[Any]:
        return [{"text": step[0]} if isinstance(step[0], str) else {"tool_calls": step} for step in steps]

    return json.dumps(
        {
            "name": "postal codes",
            "turns": [turn(init_steps(call, refused=refused))],
            "branches": {name: [turn(execute_steps(call, int(name[1:])))] for name in ("s1", "s2")},
        }
    )
