"""Expansions that are known to be numbers, whatever files and variables hold: arithmetic may evaluate them. Pure."""

from __future__ import annotations

import re

_WORD = r"(?:[\w./@:%+,][\w./@:%+,~^{}-]*|'[^']*'|\"[^\"$`\\]*\")"
_LAST = "|".join(
    (
        rf"wc[ \t]+(?:-[lwcmL]|--lines|--words|--chars|--bytes)(?:[ \t]*<[ \t]*{_WORD})?",
        # Of several files, grep and wc print the names, too.
        rf"grep[ \t]+-(?:[ivwxEFqsn]*c[ivwxEFqsn]*)[ \t]+{_WORD}(?:[ \t]+{_WORD})?",
        r"nproc",
        r"date[ \t]+(?:-u[ \t]+)?['\"]?\+%[sYmdHMSjN]['\"]?",
        rf"git[ \t]+rev-list[ \t]+--count[ \t]+{_WORD}(?:[ \t]+--[ \t]+{_WORD})?",
        r"expr[ \t]+(?:\d+|\"\$\w+\")[ \t]+(?:[-+/%]|\\\*)[ \t]+(?:\d+|\"\$\w+\")",
    )
)
# What comes before in the pipe is not seen by the one that reads the number.
_BEFORE = r"(?:[^()$`;&|\n'\"\\]|'[^'\n]*'|\"[^\"$`\\\n]*\")*\|(?!\|)[ \t]*"
_PRINTED = rf"\$\([ \t]*(?:{_BEFORE})*(?:{_LAST})(?:[ \t]+2>[ \t]*/dev/null)?[ \t]*\)"
_NUMBER = re.compile(rf"(?:\$\(\([^()$]*\)\)|\$[#?]|\$\{{#[A-Za-z_]\w*(?:\[[@*]\])?\}}|{_PRINTED})\Z")


def is_number(source: str) -> bool:
    """Whether a word of the line, as it is written, can only become a number (or nothing)."""
    if source[:1] == '"' and source[-1:] == '"' and len(source) > 2:
        source = source[1:-1]
    return source[:1] == "$" and len(source) < 500 and _NUMBER.match(source) is not None
