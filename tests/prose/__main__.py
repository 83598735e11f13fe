"""Check what readers see: ``python -m tests.prose`` in ``make check``.

Checks sentences, phrases and links in documents, phrases in the texts of the user interface and for the model, the
docstrings and comments of product code, the doc comments of the extension and the web page, and the names of tests.
``allowed.txt`` lists old offences, which must not grow: ``--prune`` removes those that are gone. ``--count`` prints
how many of each kind there are.
"""

from __future__ import annotations

import ast
import io
import json
import re
import subprocess
import sys
import tokenize
from collections import Counter
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
ALLOWED = HERE / "allowed.txt"
MAX_WORDS = 30
"""Words of a sentence in a document."""
MAX_NAME = 60
"""Characters of a test's name."""
GENERATED = ("docs/protocol.md", "docs/trace-api.md", "docs/configuration.md")
"""Their sentences come from docstrings and settings, which the other checks read."""
_HISTORY = ("CHANGELOG.md", "tests/", "daemon/demo/", "vscode-extension/test/")
_PROMPTS = ("tools/", "daemon/")
_PRODUCT = ("goalwright", "daemon", "lsp_bridge", "tools")
_CATALOGUES = (
    "tools/translations/zh-CN.json",
    "vscode-extension/l10n/bundle.l10n.zh-cn.json",
    "daemon/api/page/zh-cn.json",
)
"""Their keys are the English texts that users read."""
_SCRIPTS = (
    "vscode-extension/src/*.ts",
    "vscode-extension/src/*.tsx",
    "daemon/api/page/*.js",
    "daemon/api/page/*.ts",
)
_NOT_OURS = (".gen.ts", "dagre.js", "dagre.d.ts")
"""Generated from docstrings, or a library."""
_DOC_COMMENT = re.compile(r"(?ms)^[ \t]*/\*\*(?=\s)(.*?)\*/")
"""A comment of JSDoc; glob patterns such as ``**/*`` do not begin a line."""
_BEGINNING = re.compile(r"(What|Which|Who|Whose|Of|The same)\b")
_ABSENT = re.compile(r"\bseed 0\d\d|\bmissions? M\d+|\bconventions\.md|\bissue \d+|\barchitecture\.md|§ ?\d")
"""How product code names documents that are not in the repository."""
_DOCUMENT = re.compile(r"\bdocs/[\w-]+\.md\b")
_PATH = re.compile(r"`((?:daemon|docs|lsp_bridge|tests|tools|vscode-extension)/[\w./-]+)`")
"""A file or folder of the repository that a document names."""
_BUILT = ("vscode-extension/bundled", "vscode-extension/goalwright.vsix")
_ABBREVIATION = re.compile(r"\b(e\.g|i\.e|etc|vs|no)\.", re.IGNORECASE)


class Offence(NamedTuple):
    """One thing to change. ``text`` identifies it, wherever its file moves."""

    check: str
    file: str
    line: int
    text: str
    advice: str

    @property
    def key(self) -> str:
        """Return the line of ``allowed.txt`` that allows it."""
        return f"{self.check}: {self.text[:120]}"


def tracked(*patterns: str) -> list[str]:
    """Return the names of the repository's files that match."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *patterns],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return sorted({name for name in listed.split("\0") if name and (ROOT / name).is_file()})


def documents() -> list[str]:
    """Return the documents for people: everything in Markdown but histories, test data and prompts."""
    return [
        name
        for name in tracked("*.md")
        if not name.endswith("CHANGELOG.md") and not name.startswith((*_HISTORY, *_PROMPTS))
    ]


def prose(text: str) -> Iterator[tuple[int, str]]:
    """Yield the paragraphs, list items and table cells of a document with their line numbers, without code."""
    text = re.sub(r"(?s)<!--.*?-->", lambda found: "\n" * found[0].count("\n"), text)
    text = re.sub(r"(?ms)^ *(```|~~~).*?^ *\1", lambda found: "\n" * found[0].count("\n"), text)
    begun, block = 1, ""
    for number, line in enumerate([*text.splitlines(), ""], 1):
        starts = re.match(r"\s*([-*+]|\d+\.|#+|\||!!!|>|===)(\s|$)", line)
        if not line.strip() or starts or re.match(r" {4}\S", line):
            if block:
                yield begun, block
            begun, block = number, ""
        if "|" in line and line.lstrip().startswith("|"):
            yield from ((number, cell.strip()) for cell in line.split("|") if cell.strip(" -:"))
        elif not re.match(r" {4,}\S", line) or starts:
            begun = begun if block else number
            block = f"{block} {line.strip()}".strip()


def plain(text: str) -> str:
    """Return prose without the marks of Markdown; code and links count as a word each."""
    text = re.sub(r"`[^`]+`", "code", text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"^([-*+>]|\d+\.|#+)\s+|[*_]{1,2}(?=\S)|(?<=\S)[*_]{1,2}", "", text)


def sentences(text: str) -> list[str]:
    """Split prose into sentences; a semicolon or colon does not end one."""
    text = _ABBREVIATION.sub(lambda found: found[0].replace(".", ""), plain(text))
    return re.split(r"(?<=[.!?…])[)\"”]?\s+", text)


def long_sentences() -> Iterator[Offence]:
    """Find sentences of more than ``MAX_WORDS`` words in documents."""
    for name in documents():
        if name in GENERATED:
            continue
        for line, block in prose((ROOT / name).read_text("utf-8")):
            for sentence in sentences(block):
                count = len(re.findall(r"\w[\w'’.-]*", sentence))
                if count > MAX_WORDS:
                    yield Offence("long", name, line, sentence, f"{count} words; at most {MAX_WORDS}")


def visible() -> Iterator[tuple[str, int, str]]:
    """Yield every text that a user or the model reads, with its file and line."""
    for name in documents():
        if name == "docs/configuration.md":
            continue  # from the settings, which come below
        for line, block in prose((ROOT / name).read_text("utf-8")):
            yield name, line, re.sub(r"`[^`]+`", "", block)
    for name in tracked("tools/*.md", "daemon/*.md"):
        if not name.startswith(_HISTORY):
            yield from ((name, line, block) for line, block in prose((ROOT / name).read_text("utf-8")))
    for name in _CATALOGUES:
        yield from ((name, 0, text) for text in json.loads((ROOT / name).read_text("utf-8")))
    nls: dict[str, str] = json.loads((ROOT / "vscode-extension/package.nls.json").read_text("utf-8"))
    yield from (("vscode-extension/package.nls.json", 0, text) for text in nls.values())
    schema = (ROOT / "vscode-extension/schemas/config.schema.json").read_text("utf-8")
    found = re.findall(r'"description": ("(?:[^"\\]|\\.)*")', schema)
    yield from (("daemon/settings.py", 0, json.loads(text)) for text in found)


def phrases() -> list[tuple[re.Pattern[str], str]]:
    """Return the banned phrases, and what to write instead."""
    lines = (HERE / "banned.txt").read_text("utf-8").splitlines()
    pairs = [line.split(" -> ") for line in lines if line and not line.startswith("#")]
    return [(re.compile(pattern, re.IGNORECASE), better) for pattern, better in pairs]


def banned_phrases() -> Iterator[Offence]:
    """Find banned phrases in visible text and in doc comments."""
    banned = phrases()
    for name, line, text in chain(visible(), comments()):
        for pattern, better in banned:
            for found in pattern.finditer(text):
                near = " ".join(text[max(0, found.start() - 40) : found.end() + 40].split())
                yield Offence("phrase", name, line, near, f'"{found[0]}": write {better}')


def docstrings(body: list[ast.stmt]) -> Iterator[tuple[int, str]]:
    """Yield the docstrings in the body of a module, class or function, those below its attributes included."""
    for statement in body:
        if isinstance(statement, ast.Expr):
            if isinstance(statement.value, ast.Constant) and isinstance(statement.value.value, str):
                yield statement.lineno, statement.value.value
        elif isinstance(statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from docstrings(statement.body)


def scripts() -> Iterator[tuple[str, str]]:
    """Yield the name and source of each TypeScript and JavaScript file of the product."""
    for name in tracked(*_SCRIPTS):
        if not name.endswith(_NOT_OURS):
            yield name, (ROOT / name).read_text("utf-8")


def doc_comments(source: str) -> Iterator[tuple[int, str]]:
    """Yield the texts of the doc comments (``/** … */``) in TypeScript or JavaScript with their line numbers."""
    for found in _DOC_COMMENT.finditer(source):
        lines = [re.sub(r"^\s*\*? ?", "", line).rstrip() for line in found[1].splitlines()]
        yield source.count("\n", 0, found.start()) + 1, "\n".join(lines).strip()


def comments() -> Iterator[tuple[str, int, str]]:
    """Yield the doc comments of the extension and the web page with file and line, without code in backticks."""
    for name, source in scripts():
        yield from ((name, line, re.sub(r"`[^`]+`", "", text)) for line, text in doc_comments(source))


def code() -> Iterator[Offence]:
    """Find doc texts that begin wrongly, and names of absent documents in docstrings and comments."""
    for name in tracked(*(f"{package}/*.py" for package in _PRODUCT)):
        source = (ROOT / name).read_text("utf-8")
        if name.startswith("daemon/demo/workspace"):
            continue
        for line, text in docstrings(ast.parse(source).body):
            yield from beginning(name, line, text)
            yield from absent(name, line, text)
        if _ABSENT.search(source) or _DOCUMENT.search(source):  # splitting into tokens takes long
            for token in tokenize.generate_tokens(io.StringIO(source).readline):
                if token.type == tokenize.COMMENT:
                    yield from absent(name, token.start[0], token.string)
    for name, source in scripts():
        for number, line in enumerate(source.splitlines(), 1):
            yield from absent(name, number, line)
        for number, text in doc_comments(source):
            yield from beginning(name, number, text)
    for name in documents():
        for number, line in enumerate((ROOT / name).read_text("utf-8").splitlines(), 1):
            yield from absent(name, number, line)
            for path in _PATH.findall(line):
                if not (ROOT / path).exists() and not path.startswith(_BUILT) and "NAME" not in path:
                    yield Offence("reference", name, number, path, "there is no such file")


def beginning(name: str, line: int, text: str) -> Iterator[Offence]:
    """Find a doc text that begins neither with a verb nor with what the thing is."""
    first = text.strip().partition("\n")[0]
    if _BEGINNING.match(first):
        yield Offence("docstring", name, line, first, "begin with a verb or say what it is")


def absent(name: str, line: int, text: str) -> Iterator[Offence]:
    """Find names of documents that the repository does not have."""
    for found in _ABSENT.finditer(text):
        near = " ".join(text[max(0, found.start() - 40) : found.end() + 40].split())
        yield Offence("reference", name, line, near, f'"{found[0]}": state the rule itself')
    for found in _DOCUMENT.finditer(text):
        if not (ROOT / found[0]).is_file():
            yield Offence("reference", name, line, found[0], "there is no such document")


def long_names() -> Iterator[Offence]:
    """Find names of tests that are too long."""
    for file in tracked("tests/*.py"):
        for number, line in enumerate((ROOT / file).read_text("utf-8").splitlines(), 1):
            found = re.match(r" *(?:async )?def (test_\w+)", line)
            if found and len(found[1]) > MAX_NAME:
                advice = f"{len(found[1])} characters; at most {MAX_NAME}"
                yield Offence("name", file, number, found[1], advice)


def anchors(text: str) -> set[str]:
    """Return the anchors of a document's headings."""
    seen: Counter[str] = Counter()
    made: set[str] = set()
    for _, heading in re.findall(r"(?m)^(#+) (.+)$", re.sub(r"(?ms)^```.*?^```", "", text)):
        slug = re.sub(r"[^\w\- ]", "", plain(heading.replace("`", "")).lower()).strip().replace(" ", "-")
        made.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return made


def dead_links() -> Iterator[Offence]:
    """Find links of documents to files and headings that are not there."""
    for name in tracked("*.md"):
        file = ROOT / name
        text = re.sub(r"(?s)```.*?```|`[^`\n]*`", "", file.read_text("utf-8"))
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            if re.match(r"[a-z]+:", target):
                continue
            path, _, anchor = unquote(target).partition("#")
            at = (file.parent / path).resolve() if path else file
            if not at.exists():
                yield Offence("link", name, 0, target, "there is no such file")
            elif anchor and anchor not in anchors(at.read_text("utf-8")):
                yield Offence("link", name, 0, target, "there is no such heading")


def offences() -> Iterable[Offence]:
    """Run all checks."""
    yield from long_sentences()
    yield from banned_phrases()
    yield from code()
    yield from long_names()
    yield from dead_links()


def main() -> int:
    """Report what is not allowed. Returns the exit code."""
    found = list(offences())
    allowed = Counter(ALLOWED.read_text("utf-8").splitlines()) if ALLOWED.exists() else Counter[str]()
    if "--count" in sys.argv:
        for check, count in sorted(Counter(each.check for each in found).items()):
            print(f"{check:10} {count}")
        return 0
    present = Counter(each.key for each in found)
    if "--prune" in sys.argv:
        left = sorted((allowed & present).elements())
        ALLOWED.write_text("".join(f"{line}\n" for line in left), "utf-8", newline="\n")
        print(f"{ALLOWED.relative_to(ROOT)}: {allowed.total()} before, {len(left)} now")
        return 0
    code = 0
    for each in found:
        if allowed[each.key] > 0:
            allowed[each.key] -= 1
            continue
        code = 1
        print(f"{each.file}:{each.line}: {each.check}: {each.text}\n    {each.advice}", file=sys.stderr)
    return code


if __name__ == "__main__":
    raise SystemExit(main())
