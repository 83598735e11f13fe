"""Files that an option of a tool names, whatever else the tool does; compilers; sqlite3."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tools.shell.commands.words import UNKNOWN, Call, Meaning, PathUse, Reader, Spec, parse, part, spec, words
from tools.shell.syntax import Word

_PYTEST = spec(
    None,
    writes="--junitxml --junit-xml --log-file --debug --basetemp --report-log --html --json-report-file --csv",
    value="-o --override-ini",
)
_NODE = spec(
    None,
    writes="--cpu-prof-name --cpu-prof-dir --heap-prof-name --heap-prof-dir --redirect-warnings --diagnostic-dir "
    "--trace-event-file-pattern --report-directory --report-dir --report-filename --tls-keylog --build-snapshot "
    "--test-reporter-destination",
)
_NPM = spec(None, writes="--pack-destination --cache --logs-dir")
_OPTIONS: dict[str, Spec] = {
    "pytest": _PYTEST,
    "py.test": _PYTEST,
    "node": _NODE,
    "nodejs": _NODE,
    "npm": _NPM,
    "pnpm": _NPM,
    "yarn": _NPM,
    "script": spec(
        None,
        value="-c --command -E --echo -m -o",
        writes="-O --log-out -I --log-in -B --log-io -T --log-timing",
    ),
}


def paths(call: Call) -> tuple[PathUse, ...]:
    """What options name, besides what is known of the command as a whole."""
    name, args = call.name, call.args
    if re.fullmatch(r"python[\d.]*|uv|poetry|hatch|coverage|tox|pipenv", name):
        at = next((n for n, word in enumerate(args) if word.text in ("pytest", "-mpytest", "py.test")), None)
        if at is None:
            return ()
        name, args = "pytest", args[at + 1 :]
    if name in ("sed", "gsed"):
        return tuple(_kept(args))
    if name in ("node", "nodejs"):
        # An option of its own, not the beginning of another one.
        args = tuple(word for word in args if word.text != "--test")
    row = _OPTIONS.get(name)
    if row is None:
        return ()
    parsed = parse(args, row)
    found = [PathUse(word, "write", below=True, maybe=True) for word in parsed.values(row.writes)]
    settings = [word.text.partition("=") for word in parsed.values(("-o", "--override-ini"))]
    found += [
        PathUse(Word(value, source=value), "write", below=True)
        for setting, _, value in settings
        if setting in ("cache_dir", "log_file")
    ]
    return tuple(found)


_IN_PLACE = re.compile(r"-[nErsuz]*i(.*)|--i[a-z-]*=(.*)", re.DOTALL)
_SED = spec(value="-e -l --expression --line-length", reads="-f --file", instead="-e -f --expression --file")


def _kept(args: Sequence[Word]) -> Iterator[PathUse]:
    """The copies that ``sed -iSUFFIX`` keeps: a ``*`` in the suffix is the name of the file, a slash its folder."""
    suffix = ""
    for word in args:
        if match := _IN_PLACE.match(word.text):
            suffix = next(filter(None, match.groups()), suffix)
    if not suffix:
        return
    given = parse([Word("-i") if _IN_PLACE.match(word.text) else word for word in args], _SED)
    operands = given.operands if given.has(_SED.instead) else given.operands[1:]
    for word in operands:
        if not word.known:
            yield PathUse(UNKNOWN, "write")
            continue
        folder, slash, name = word.text.rpartition("/")
        kept = suffix.replace("*", name) if "*" in suffix else name + suffix
        whole = kept if "/" in kept else folder + slash + kept
        yield PathUse(Word(whole, glob=word.glob, source=whole), "write", made=True)


_COMPILER = re.compile(
    r"(?:[\w.]+-)*(?:gcc|gfortran|g\+\+|cc|c\+\+|cpp|clang|clang\+\+|c[89]9|tcc)(?:-[\d.]+)?"
)
_WRITTEN = ("-MF", "-o", "-aux-info", "-MJ", "-dumpdir", "-dumpbase", "--output", "-serialize-diagnostics")
_INCLUDED = ("-include", "-imacros")
_FOLDERS = ("-isystem", "-iquote", "-idirafter", "-I", "-L", "-F")
_OTHER = ("-x", "-D", "-U", "-MT", "-MQ", "-l", "-arch", "-target", "-A", "-G", "-u", "-z", "-T", "-Xlinker")
_COMPILER_RUNS = re.compile(
    r"-wrapper|-B.*|--?specs\b.*|-f(?:pass-)?plugin.*|-fuse-ld=.*/.*|-Xclang|@.*|-no-canonical.*"
)
_PASSED = re.compile(r"-W[lpa],")
_INCLUDES = re.compile(r"include|import|incbin|embed|%:|\?\?=")


def _compiler(call: Call) -> Meaning:
    """gcc and its like: what is included is read, wherever it lies; the linker writes too."""
    reads: list[PathUse] = []
    writes: list[Word] = []
    included: list[Word] = []
    folders: list[Word] = []
    operands: list[Word] = []
    reason = ""
    at = 0
    args = call.args
    while at < len(args):
        word = args[at]
        text = word.text
        at += 1
        if _COMPILER_RUNS.fullmatch(text):
            reason = f"{call.name} {text.partition('=')[0]} names a program that it runs, or more options"
            reads += [PathUse(part(word, text[1:]), "read")] if text.startswith("@") else []
        if not text.startswith("-") or text == "-":
            operands.append(word)
            continue
        if _PASSED.match(text) or text == "-Xlinker":
            passed = text[4:].split(",") if text != "-Xlinker" else [args[at].text] if at < len(args) else []
            at += text == "-Xlinker"
            for piece in (each.rpartition("=")[2] for each in passed):
                # What belongs to which option only the linker knows; an archive that is linked is not named so.
                glued = piece[2:] if re.match(r"-o.", piece) else "" if piece.startswith("-") else piece
                writes += [part(word, glued)] if glued else []
            continue
        name = next(
            (each for each in (*_WRITTEN, *_INCLUDED, *_FOLDERS, *_OTHER) if text.startswith(each)), None
        )
        if name is None:
            value = text.partition("=")[2]
            writes += [part(word, value)] if "/" in value or re.search(r"\.\w+$", value) else []
            continue
        value_word = part(word, text[len(name) :].removeprefix("=")) if text != name else None
        if value_word is None and at < len(args):
            value_word = args[at]
            at += 1
        if value_word is None:
            continue
        if name in _WRITTEN:
            writes.append(value_word)
        elif name in _INCLUDED:
            included.append(value_word)
        elif name in _FOLDERS:
            folders.append(value_word)
        elif name == "-T":
            reads.append(PathUse(value_word, "read"))
    if call.name.endswith("cpp"):
        writes += operands[1:2]
    reads += [PathUse(word, "read") for word in (*operands, *included) if word.text != "-"]
    reads += [PathUse(word, "read", base=(folder,)) for word in included for folder in folders]
    if any(word.text in ("-", "/dev/stdin") for word in operands):
        reason = reason or _from_stdin(call)
    paths = (
        *reads,
        *(PathUse(word, "list") for word in folders),
        *(PathUse(word, "write") for word in writes),
    )
    return Meaning(paths=paths, opaque=reason)


def _from_stdin(call: Call) -> str:
    stdin = call.simple.stdin
    if stdin is None:
        return f"{call.name} reads what it compiles from another command" if call.simple.piped else ""
    if not stdin.known or _INCLUDES.search(stdin.text):
        return f"what {call.name} reads can include any file"
    return ""


_SQLITE = spec(
    None, value="-cmd -separator -nullvalue -newline -colsep -rowsep", reads="-init", single_dash=True
)
_SQLITE_SHOWS = words(
    "-cmd -separator -nullvalue -newline -init -header -noheader -csv -json -line -column -box -table -markdown -html "
    "-list -ascii -tabs -quote -readonly -batch -bail -safe -echo -version -help -stats -interactive"
)
_SQL_FILES = re.compile(
    r"/\*|--|\bedit\b|readfile|writefile|load_extension|attach|vacuum\s+\w*\s*into|virtual|fsdir|lsdir|zipfile|\bcsv\b|sqlar|"
    r"temp_store_directory|data_store_directory|^\s*\.|\n\s*\.",
    re.IGNORECASE,
)
_SQL_SHOWS = re.compile(
    r"\.(?:tables|schema|indexes|indices|databases|dump|headers?|mode|width|fullschema|dbinfo|stats)(?: [\w%*.-]+)*"
)
_SQL_CALL = re.compile(r"([\w\"\]`.]+)\s*\(")
_SQL_NAMED = re.compile(
    r"\b(?:into|table|exists|on|references|with|as|join|from|view)\s+[\w\".]+\s*\($", re.IGNORECASE
)
_SQL_KNOWN = words(
    "count sum min max avg total group_concat length substr substring upper lower trim ltrim rtrim replace round abs "
    "coalesce ifnull nullif iif instr printf format date time datetime strftime julianday unixepoch typeof hex quote "
    "random changes last_insert_rowid cast exists in values and or not over as using on key unique check where select "
    "from by when then else like between is set limit distinct union all row_number rank dense_rank lag lead ntile "
    "first_value last_value json json_extract json_each json_tree json_array json_object json_type json_valid "
    "json_group_array json_group_object json_array_length json_set json_insert json_remove varchar char decimal "
    "numeric integer int float char unicode zeroblob sqlite_version table_info table_list index_list index_info "
    "foreign_key_list having case partition filter default"
)


def _sqlite(call: Call) -> Meaning:
    parsed = parse(call.args, _SQLITE)
    statements = list(parsed.operands[1:]) + list(parsed.values(("-cmd",)))
    if not parsed.operands[1:] and call.simple.stdin is not None:
        statements.append(call.simple.stdin)
    shows = all(name.replace("--", "-") in _SQLITE_SHOWS for name, _ in parsed.options)
    known = shows and statements and all(word.known and _harmless_sql(word.text) for word in statements)
    hidden = not known or parsed.unsure or parsed.has(("-init",))
    paths = [PathUse(word, use) for word in parsed.operands[:1] for use in ("read", "write")]
    paths += [PathUse(word, "read") for word in parsed.values(("-init",))]
    paths += [PathUse(word, use) for word in parsed.operands[1:] if not shows for use in ("read", "write")]
    return Meaning(
        paths=tuple(paths), opaque=f"{call.name} may run commands or use other files" if hidden else ""
    )


def _harmless_sql(text: str) -> bool:
    if _SQL_SHOWS.fullmatch(text.strip()):
        return True
    if _SQL_FILES.search(text):
        return False
    for found in _SQL_CALL.finditer(text):
        # A table that is created or filled is followed by a parenthesis too.
        if found[1].lower() not in _SQL_KNOWN and not _SQL_NAMED.search(text[: found.end()]):
            return False
    return True


def reader(name: str) -> Reader | None:
    """The reader of a compiler, whatever its version and target; of sqlite3."""
    if name in ("sqlite3", "sqlite"):
        return _sqlite
    return _compiler if _COMPILER.fullmatch(name) else None
