"""Commands that do nothing by themselves: they only join others in a line.

No program is among them, and nothing that shows the environment: every command of a line must be allowed (source:
conventions.md), and only what is no command in a person's eyes is left out.
"""

from __future__ import annotations

import re

from tools.shell.commands import environment
from tools.shell.commands.words import Call, part, words

_ALWAYS = words("[ [[ test true false : exit return break continue shift wait cd pushd popd read")
_SET = re.compile(r"[-+][eux]+o?|[-+]o|pipefail|errexit|nounset|xtrace")


def is_glue(call: Call) -> bool:
    """Whether it changes and shows nothing outside of the line. What its words run (``$(…)``) and where its output
    goes is judged by itself."""
    texts = [word.text for word in call.args]
    if call.simple.assignments and not environment.changes_nothing(call.simple.assignments):
        # ``IFS= read`` holds for this one command.
        return call.name == "read" and all(name == "IFS" for name, _ in call.simple.assignments)
    if call.name in _ALWAYS:
        return True
    if call.name == "set":
        return bool(texts) and all(word.known for word in call.args) and all(map(_SET.fullmatch, texts))
    if call.name == "cat":
        return not texts and not any(each.reads for each in call.simple.redirections)
    if call.name == "export":
        pairs = [(word.text.partition("=")[0], part(word, word.text.partition("=")[2])) for word in call.args]
        named = all(re.fullmatch(r"[A-Za-z_]\w*", name) for name, _ in pairs)
        return bool(pairs) and named and environment.changes_nothing(pairs)
    return False
