"""Programs whose words have an order of their own: copying, packing, fetching, building, searching.

Each reader takes a call of a row that bears its mark; see ``command_effects``.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from tools.localization import t
from tools.shell.bash_words import Word, names
from tools.shell.options import (
    HERE,
    UNKNOWN,
    Meaning,
    Parsed,
    PathUse,
    ProgramRow,
    Use,
    implied_paths,
    may_be_option,
    part,
    read,
    uses,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tools.shell.command_line import Simple

STDIN = re.compile(r"-|(?:.*/)?dev/(?:stdin|fd(?:/.*)?)|(?:.*/)?proc/.*")


class ProgramCall(Struct, frozen=True):
    """A command whose row was found. ``args`` are those after the name, or after the sub-command."""

    name: str
    """Base name of the program."""
    row: ProgramRow
    args: tuple[Word, ...]
    parsed: Parsed
    simple: Simple


def runs(call: ProgramCall) -> str:
    """Return why rules cannot see what it runs; empty when no option names a program."""
    given = call.parsed.has(call.row.runs)
    return t("an option of {name} names a program to run", name=call.name) if given else ""


_TO = ("-t", "--target-directory")


def copy(call: ProgramCall) -> Meaning:
    """cp, mv, ln, install, rsync, scp: all operands but the last are read, the last is written."""
    row, parsed = call.row, call.parsed
    sources, last = parsed.operands, parsed.values(_TO)
    if call.name == "install" and parsed.has(("-d", "--directory")):
        return Meaning(paths=tuple(PathUse(word, "write") for word in sources))
    if not last and len(sources) > 1:
        sources, last = sources[:-1], sources[-1:]
    elif not last and call.name == "ln":
        last = (HERE,)
    found = [use for use in uses(row, parsed) if use.word not in parsed.values(_TO)]
    whole = parsed.has(row.walk)
    # Moving or linking a folder affects its entries, and the line does not show whether it is a folder.
    perhaps = call.name in ("mv", "ln")
    moved = call.name == "mv" or any(name.startswith("--remove-s") for name, _ in parsed.options)
    # Through a hard link, any process with write access here can change the file there.
    linked = parsed.has(("-l", "--link")) if call.name != "ln" else not parsed.has(("-s", "--symbolic"))
    near = [word for word in sources if not _is_remote(call, word)]
    for word in near:
        found.append(PathUse(word, "read", below=whole or perhaps, maybe=not whole))
        found += [PathUse(word, "write", below=whole, elsewhere=True)] if linked else []
        found += [PathUse(word, "write", below=True, maybe=True)] if moved else []
    # With these, folders of the source are made in the target, too.
    kept = parsed.has(("--parents", "--relative", "--files-from")) or (
        call.name == "rsync" and parsed.has(("-R",))
    )
    for folder in last:
        if _is_remote(call, folder):
            continue
        found.append(PathUse(folder, "write", below=whole or parsed.has(("--files-from",)), made=True))
        for word in sources:
            name = re.split("/" if word in near else "[/:]", word.text.rstrip("/"))[-1]
            for text in (name, word.text.lstrip("/")) if kept else (name,):
                if text and text not in (".", ".."):
                    found.append(PathUse(part(word, text), "write", below=whole, made=True, base=(folder,)))
    return Meaning(paths=tuple(found), opaque=runs(call))


def _is_remote(call: ProgramCall, word: Word) -> bool:
    return call.name in ("rsync", "scp") and ":" in word.text.partition("/")[0]


def tar(call: ProgramCall) -> Meaning:
    args = list(call.args)
    if args and args[0].known and not args[0].text.startswith("-"):
        # The old form without a dash takes the values of its letters from the following words.
        letters = args.pop(0)
        ordered: list[Word] = []
        for letter in letters.text:
            ordered.append(part(letters, "-" + letter))
            if "-" + letter in call.row.valued and args:
                ordered.append(args.pop(0))
        args = ordered + args
    parsed = read(args, call.row)
    makes = parsed.has(("-c", "-r", "-u", "-A", "--create", "--append", "--update", "--concatenate"))
    lists = parsed.has(("-t", "--list", "-d", "--diff")) and not makes
    folders = parsed.values(("-C", "--directory"))
    base = folders[-1:]
    found = [use for use in uses(call.row, parsed) if use.use == "read"]
    found += [
        PathUse(word, "read", below=True, maybe=True, base=base) for word in parsed.values(("--add-file",))
    ]
    for name, word in parsed.options:
        if name in ("-f", "--file") and word is not None and word.text != "-":
            found.append(PathUse(word, "write" if makes else "read"))
        elif (
            name in call.row.writes | {"--one-top-level"}
            and name not in ("-C", "--directory", "-f", "--file")
            and word is not None
        ):
            tops = name == "--one-top-level"
            found.append(PathUse(word, "write", full=lists, below=tops, made=tops, base=base if tops else ()))
    if makes:
        found += [PathUse(word, "read", below=True, maybe=True, base=base) for word in parsed.operands]
        if parsed.has(("--remove-files",)):
            found += [PathUse(word, "write", below=True, base=base) for word in parsed.operands]
    elif not lists and not parsed.has(("-O", "--to-stdout")):
        found += [PathUse(folder, "write", below=True, made=True) for folder in folders or (HERE,)]
        if parsed.has(("-P", "--absolute-names", "--transform", "--xform", "-s")):
            found.append(PathUse(UNKNOWN, "write"))
    return Meaning(paths=tuple(found), opaque=runs(call))


def _begins(word: Word) -> PathUse:
    """Return the meaning of a program that writes files whose names begin like a word."""
    begins = replace(word, text=word.text + "*", glob=True, source=word.source + "*", tilde=False)
    return PathUse(begins, "write", made=True)


_PATCHED = ("-o", "--output", "-r", "--reject-file")


def patch(call: ProgramCall) -> Meaning:
    """Return the meaning of ``patch FILE PATCH``; unless a file is named, the patch itself names the written files."""
    parsed = call.parsed
    target, more = parsed.operands[:1], parsed.operands[1:]
    found = [*uses(call.row, parsed), *(PathUse(word, "read") for word in more)]
    # The command changes to that folder before it does anything else.
    for folder in parsed.values(("-d", "--directory")):
        given = [*more, *parsed.values(call.row.reads)]
        found += [PathUse(word, "read", base=(folder,)) for word in given]
        found += [PathUse(word, "write", base=(folder,)) for word in (*target, *parsed.values(_PATCHED))]
    for word in target:
        suffixes = ("", *(suffix.text for suffix in parsed.values(("-z", "--suffix"))))
        found += [PathUse(part(word, word.text + suffix) if suffix else word, "write") for suffix in suffixes]
    if not target:
        folders = parsed.values(("-d", "--directory")) or (HERE,)
        found += [PathUse(word, "write", below=True, made=True) for word in folders]
    found += map(_begins, parsed.values(("-B", "-Y", "--prefix", "--basename-prefix")))
    return Meaning(paths=tuple(found))


def split_pieces(call: ProgramCall) -> Meaning:
    """Return the meaning of ``split FILE PREFIX``."""
    found = [PathUse(word, "read") for word in call.parsed.operands[:1] if word.text != "-"]
    given = call.parsed.operands[1:2] if call.name == "split" else call.parsed.values(("-f", "--prefix"))
    prefixes = given or (Word("x" if call.name == "split" else "xx"),)
    return Meaning(paths=(*found, *map(_begins, prefixes)), opaque=runs(call))


def zip_(call: ProgramCall) -> Meaning:
    found = [PathUse(word, "write") for word in call.parsed.operands[:1]]
    found += [PathUse(word, "read", below=True, maybe=True) for word in call.parsed.operands[1:]]
    if call.parsed.has(("-@", "--names-stdin")):
        found.append(PathUse(UNKNOWN, "read"))
    return Meaning(paths=tuple(found), opaque=runs(call))


def dd(call: ProgramCall) -> Meaning:
    found: list[PathUse] = []
    for word in call.args:
        name, _, value = word.text.partition("=")
        if name in ("if", "of"):
            found.append(PathUse(part(word, value), "read" if name == "if" else "write"))
        elif not word.known:
            found += [PathUse(word, "read"), PathUse(word, "write")]
    return Meaning(paths=tuple(found))


def web(call: ProgramCall) -> Meaning:
    """Return the meaning of curl and wget: ``@file`` anywhere in a value, addresses of files, and saved files."""
    parsed = call.parsed
    found = [*uses(call.row, parsed)]
    for name, word in parsed.options:
        if word is None or name in call.row.writes:
            continue
        hidden = not word.known and name in (
            "-d",
            "-F",
            "--data",
            "--data-binary",
            "--form",
            "--json",
            "--data-urlencode",
        )
        found += [PathUse(UNKNOWN, "read")] if hidden else []
        if name in ("-w", "--write-out"):
            files = re.finditer(r"%output\{(?:>>)?([^}]*)\}", word.text)
            found += [PathUse(part(word, file[1]), "write") for file in files]
        if name in ("-T", "--upload-file") and re.search(r"[{\[]", word.text):
            found.append(PathUse(UNKNOWN, "read"))
        for piece in re.finditer(r"[@<]\"?([^;\"]+)", word.text):
            found.append(PathUse(part(word, piece[1]), "read"))
        if name in ("-b", "--cookie") and "=" not in word.text:
            found.append(PathUse(word, "read"))
    if parsed.has(("-n", "--netrc", "--netrc-optional")):
        found.append(PathUse(Word("~/.netrc", tilde=True), "read"))
    saves = call.name == "wget" and not parsed.has(("-O", "--output-document", "--spider"))
    saves = saves or (call.name == "curl" and parsed.has(("-O", "--remote-name", "--remote-name-all", "-J")))
    folder = parsed.values(("--output-dir", "-P", "--directory-prefix"))[-1:]
    for word in (*parsed.operands, *parsed.values(("--url",))):
        if re.match("file:", word.text, re.IGNORECASE):
            found.append(PathUse(part(word, "/" + word.text[5:].lstrip("/")), "read"))
        elif "file:" in word.text.lower() or re.search(r"[{\[]", word.text):
            found.append(PathUse(UNKNOWN, "read"))
        elif saves:
            name = word.text.partition("?")[0].rstrip("/").rpartition("/")[2] or "index.html"
            found.append(PathUse(part(word, name), "write", base=folder))
    if call.name == "wget" and parsed.has(("-r", "--recursive", "-m", "--mirror", "-p", "-x")):
        found.append(PathUse((folder or (HERE,))[0], "write", below=True, made=True))
    return Meaning(paths=tuple(found), opaque=runs(call))


_BSD_ENVIRONMENT = re.compile(r"-(?!-)\S*e")
_BSD = re.compile(r"-(?!-)\S*x")
_ENVIRONMENTS = Word("/proc/*/environ", glob=True, source="/proc/*/environ")


def ps(call: ProgramCall) -> Meaning:
    """Return the meaning of ps: ``e`` without a dash, a column and, on macOS, -E show the environment of processes."""
    columns = call.parsed.values(("-o", "-O", "--format"))
    orders = call.parsed.values(("-k", "--sort"))
    texts = [word.text for word in call.args if not any(word is order for order in orders)]
    # With -x in it, ps reads all of its options once more, in the style of BSD: ``ps -axe`` is ``ps axe``.
    again = any(map(_BSD.match, texts)) and any(map(_BSD_ENVIRONMENT.match, texts))
    if (
        again
        or any(not word.known or word.glob or "e" in word.text for word in call.parsed.operands)
        or any(not word.known or word.glob or "environ" in word.text for word in columns)
        or any(not word.known or word.glob for word in orders)
        or call.parsed.has(("-E",))
    ):
        return Meaning(paths=(PathUse(_ENVIRONMENTS, "read", made=True),))
    return Meaning(read_only=True)


_JQ_VALUES = names("--arg --argjson")
_JQ_FILES = names("--slurpfile --rawfile --argfile")
_JQ_READS = re.compile(r"(?<![.\w\"$])(?:import|include|modulemeta)\b(?!\s*:)")
_JQ_TOKEN = re.compile(
    r"\\.|[\"\[\](){}]|(?<![.\w\"$])env\b(?P<key>\s*:)?|(?<![.\w\"])(?P<all>ENV)\b", re.DOTALL
)


def _jq_environment(program: str) -> bool:
    """Return whether a jq program shows the environment: ``{env: 1}`` names a key, but ``path(.[env:])`` does not."""
    around: list[str] = []
    for token in _JQ_TOKEN.finditer(program):
        text, innermost = token[0], around[-1] if around else ""
        if token["all"] or text[0] == "e":
            # What a comment is, depends on the version of jq, so it is not clear which brackets are in one.
            if token["key"] is None or innermost not in ("{", '"') or "#" in program:
                return True
        elif innermost == '"':
            if text == '"':
                around.pop()
            elif text == "\\(":
                around.append(text)
        elif text in '"[({':
            around.append(text)
        elif around:
            around.pop()
    return False


def jq(call: ProgramCall) -> Meaning:
    """Return the meaning of jq: options of two words, and programs that read modules or the environment."""
    row = call.row
    args: list[Word] = []
    found: list[PathUse] = []
    words = iter(call.args)
    for word in words:
        if word.text == "--":
            args += [word, *words]
        elif word.text in _JQ_VALUES | _JQ_FILES:
            _name, value = next(words, UNKNOWN), next(words, UNKNOWN)
            if word.text in _JQ_FILES:
                found.append(PathUse(value, "read"))
        else:
            args.append(word)
    parsed = read(args, row)
    programs = () if parsed.has(row.instead) else parsed.operands[:1]
    if parsed.has(row.instead) or any(not one.known or _JQ_READS.search(one.text) for one in programs):
        found.append(PathUse(UNKNOWN, "read"))
    if any(_jq_environment(one.text) for one in programs):
        found.append(PathUse(_ENVIRONMENTS, "read", made=True))
    acts = parsed.has(row.changes | row.runs) or parsed.unknown(row) or parsed.unsure
    return Meaning(paths=(*uses(row, parsed), *found), opaque=runs(call), read_only=not acts)


_MAKE_SETS = re.compile(r"(?:\.?SHELL\w*|MAKE\w*|CC|CXX|LD|AR|AS|\.\w+)\s*[:+?!]*=")


def make(call: ProgramCall) -> Meaning:
    parsed = call.parsed
    given = (*parsed.operands, *(value for _, value in call.simple.assignments))
    code = any(_MAKE_SETS.match(word.text) or _is_code(word) for word in given)
    files = parsed.values(("-f", "--file", "--makefile"))
    evals = parsed.has(call.row.runs) or any(
        not w.known or w.glob or STDIN.fullmatch(w.text) or ".." in w.text for w in files
    )
    paths = [PathUse(word, "read") for word in files]
    paths += [PathUse(word, "list") for word in parsed.values(("-C", "--directory"))]
    opaque = t("the command line gives make its own rules") if evals or code else ""
    return Meaning(paths=tuple(paths), opaque=opaque)


def _is_code(word: Word) -> bool:
    """Return whether make would expand the word in a variable or target; only fixed parts of shell expansions are
    known."""
    if word.known:
        return re.search(r"\$|!\s*=", word.text) is not None
    return re.search(r"\\\$|'[^']*\$|!=", word.source) is not None


_COMPILES = re.compile(
    r"-(?:[OgmDUlLSI].*|f(?!(?:pass-)?plugin|use-ld).*|[cEvswPHC]|W(?![lpa],).*|std=.*|pedantic.*|pthread|shared|static.*|pipe|rdynamic|M[MDPG]*|dM|dD|[ox]|"
    r"i(?:system|quote)?|ansi|nostd\w*|print-.*|-version)|--version|-Wl,--?(?:as-needed|rpath[,=].*|gc-sections|O\d|s|z,\w+)"
)


_FOLDERS = ("-I", "-isystem", "-iquote")


def compile(call: ProgramCall) -> Meaning:
    """gcc and its like: code that includes files may read any; only what everyday lines hold is not opaque."""
    texts = [word.text for word in call.args]
    odd = any(text[:1] in ("-", "@") and not _COMPILES.fullmatch(text) for text in texts)
    paths = [*uses(call.row, call.parsed), *(PathUse(word, "read") for word in call.parsed.operands)]
    paths += implied_paths([word for word in call.args if word.text[:1] in ("-", "@")], "read", "write")
    folders = [part(word, word.text[2:]) for word in call.args if re.match("-I.", word.text)]
    folders += [after for word, after in itertools.pairwise(call.args) if word.text in _FOLDERS]
    included = list(call.parsed.values(("-include", "-imacros")))
    for word, text in zip(call.args, texts, strict=True):
        if found := re.match(r"-(?:include|imacros)(.+)|-(o|MF)(.+)", text):
            paths.append(PathUse(part(word, found[1] or found[3]), "read" if found[1] else "write"))
            included += [part(word, found[1])] if found[1] else []
        for piece in re.split("[,=]", text)[1:] if text.startswith("-W") else ():
            paths += [PathUse(part(word, piece.removeprefix("-o")), "write")]
    paths += [PathUse(word, "read", base=(folder,)) for word in included for folder in folders]
    if call.name.endswith("cpp"):
        paths += [PathUse(word, "write") for word in call.parsed.operands[1:2]]
    hidden = odd or any(word.text == "-" or not word.known for word in call.args)
    opaque = t("what these options read and run is not known") if hidden else ""
    return Meaning(paths=tuple(paths), opaque=opaque)


# The text between the delimiters, except where sed and this pattern might disagree about its end.
_SED_BODY = r"(?:\\[^\n]|(?!{0})[^\\\[\n]|\[\^?(?:(?!{0})[^\]\[\\\n]|\[:\w+:\])+\])*"
_SED_ADDRESS = rf"(?:\d+(?:~\d+)?|\$|/{_SED_BODY.format('/')}/I?)"
# Possessive, because blanks that could be split in several ways would be tried in all of them.
_SED_RANGE = rf"(?:{_SED_ADDRESS}(?:[ ]*+,[ ]*+(?:[+~]?\d+|{_SED_ADDRESS}))?[ ]*+!?[ ]*+)?"
_SED_SUBSTITUTE = "|".join(
    f"s{d}{_SED_BODY.format(d)}{d}(?:\\\\[^\\n]|(?!{d})[^\\\\\\n])*{d}[gpiI\\d]*"
    for d in ("/", r"\|", "#", ",", ":", "@", "!")
)
_SED_STEP = rf"[ ]*+{_SED_RANGE}(?:{_SED_SUBSTITUTE}|[pdqQDPgGhHxnN=]|q[ ]*+\d+|)[ ]*+"
_SED_HARMLESS = re.compile(rf"{_SED_STEP}(?:[;\n{{}}]{_SED_STEP})*")
_SED_IN_PLACE = re.compile(r"-[nErsuz]*i(.*)|--i[a-z-]*(?:=(.*))?", re.DOTALL)


def sed(call: ProgramCall) -> Meaning:
    """Return the meaning of sed: only scripts that just print, delete and replace are parsed; any other may write and
    run."""
    suffix = ""
    args: list[Word] = []
    for word in call.args:
        # ``-i`` takes a suffix only when it is attached, and then no letter after it is an option.
        if word.known and (found := _SED_IN_PLACE.fullmatch(word.text)):
            suffix = found[1] or found[2] or suffix
            args += [Word("-i"), *([Word("-n")] if re.match(r"-[ErsUz]*n", word.text) else [])]
        else:
            args.append(word)
    parsed = read(args, call.row)
    scripts, operands = parsed.values(("-e", "--expression")), parsed.operands
    if not parsed.has(call.row.instead):
        scripts, operands = operands[:1], operands[1:]
    changes = parsed.has(call.row.changes)
    paths = [
        PathUse(word, "read") for word in (*parsed.values(call.row.reads), *operands) if word.text != "-"
    ]
    for word in operands if changes else ():
        paths.append(PathUse(word, "write"))
        folder, slash, name = word.text.rpartition("/")
        kept = suffix.replace("*", name) if "*" in suffix else name + suffix
        if suffix:
            whole = part(word, kept if "/" in kept else folder + slash + kept)
            paths.append(PathUse(whole if word.known else UNKNOWN, "write", made=True))
    scripted = parsed.has(("-f", "--file")) or not scripts
    hidden = any(
        not word.known or word.glob or len(word.text) > 4000 or not _SED_HARMLESS.fullmatch(word.text)
        for word in scripts
    )
    unsure = any(
        may_be_option(word) and not re.fullmatch(r'"?\$\{?\w+\}?"?', word.source) and not word.known
        for word in args
    )
    opaque = (
        t("the sed script may run commands or access other files") if hidden or unsure or scripted else ""
    )
    return Meaning(
        paths=tuple(paths),
        opaque=opaque,
        read_only=not (opaque or changes or parsed.unknown(call.row) or parsed.unsure),
        more=t("sed -i changes the files it reads") if changes else "",
    )


_FIND_OTHERWISE = names("-o -or , ! -not ( ) -exec -execdir -ok -okdir")
_FIND_TESTS = re.compile(
    r"(?:[\w./][\w./-]* )*(?:-(?:type [a-z,]+|(?:min|max)depth \d+|[mac](?:time|min) [+-]?\d+|size [+-]?\w+|depth|"
    r"xdev|mount|empty) )*"
)


def find(call: ProgramCall) -> Meaning:
    args = call.args
    texts = [word.text for word in args]
    start = 0
    roots: list[Word] = []
    while start < len(args) and not texts[start].startswith(("(", "!", ")")):
        if texts[start] == "-D":
            start += 1
        elif not texts[start].startswith("-"):
            roots.append(args[start])
        elif texts[start] != "--" and texts[start][:2] not in ("-H", "-L", "-P", "-O"):
            break
        start += 1
    roots = [UNKNOWN] if "-files0-from" in texts else roots or [HERE]
    found: list[PathUse] = []
    inner: list[tuple[Word, ...]] = []
    opaque = ""
    for at, name in enumerate(texts[start:], start):
        if name in call.row.words:
            end = at + 1
            while end < len(args) and texts[end] != ";" and texts[end - 1 : end + 1] != ["{}", "+"]:
                end += 1
            words = args[at + 1 : end]
            inner.append(tuple(replace(word, known=word.known and "{}" not in word.text) for word in words))
            named = any(t != "{}" and not re.fullmatch(r"-\w+|--|\d+|\+", t) for t in texts[at + 2 : end])
            if name in ("-execdir", "-okdir") and (named or "/" in "".join(texts[at + 1 : at + 2])):
                opaque = t("find {name} runs it in a folder that is only known at run time", name=name)
        elif name in call.row.writes | call.row.reads:
            use: Use = "write" if name in call.row.writes else "read"
            found += [PathUse(word, use, full=use == "write") for word in args[at + 1 : at + 2]]
    deletes = "-delete" in texts
    like = _find_name(args) if deletes else ""
    found += [PathUse(word, "write" if deletes else "list", below=True, like=like) for word in roots]
    known = all(t in call.row.flags for t in texts[start:] if re.match(r"-[a-zA-Z]", t)) and all(
        w.known and not may_be_option(w) for w in args
    )
    more = t("find -delete deletes the files that it finds") if deletes else ""
    more = t("its options write files") if call.row.writes & set(texts) else more
    return Meaning(paths=tuple(found), inner=tuple(inner), read_only=known, more=more, opaque=opaque)


def _find_name(args: Sequence[Word]) -> str:
    """Return the common end of the names that ``find . -name '*.pyc' -delete`` deletes. Empty: not certain."""
    texts = [word.text for word in args]
    first = next((at for at, text in enumerate(texts) if text in ("-name", "-iname")), len(texts))
    # A path before -name is deleted whatever its name, and a name may be the value of another test.
    if (
        any(text in _FIND_OTHERWISE or text.startswith("\\") for text in texts)
        or "-delete" in texts[:first]
        or first + 1 >= len(texts)
        or any(not word.known or word.glob for word in args)
    ):
        return ""
    plain = _FIND_TESTS.fullmatch("".join(f"{text} " for text in texts[:first]))
    return texts[first + 1] if plain and re.fullmatch(r"[\w.*?\[\]-]+", texts[first + 1]) else ""
