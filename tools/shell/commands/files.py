"""The usual commands on files: which of their words are files, and what happens to these."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from tools.shell.commands.words import (
    HERE,
    UNKNOWN,
    Call,
    Meaning,
    PathUse,
    Reader,
    Spec,
    join,
    parse,
    spec,
    uses,
    words,
)
from tools.shell.syntax import Word

_GREP = spec(
    value="-A -B -C -m -D -d --label --include --exclude --exclude-dir --max-count --context "
    "--before-context --after-context --binary-files --devices --directories -e --regexp",
    reads="-f --file --exclude-from",
    skip=1,
    instead="-e -f --regexp --file",
    recursive="-r -R --recursive --dereference-recursive",
    reader=True,
)
_RG = spec(
    value="-A -B -C -M -d -E -e -g -j -m -r -t -T --after-context --before-context --context --color --colors "
    "--context-separator --encoding --engine --glob --iglob --max-columns --max-count --max-depth --max-filesize "
    "--regexp --replace --sort --sortr --threads --type --type-add --type-clear --type-not --pre --pre-glob "
    "--hostname-bin --hyperlink-format --path-separator --field-match-separator --field-context-separator",
    reads="-f --file --ignore-file",
    skip=1,
    instead="-e -f --regexp --file --files --type-list",
    recursive="*",
    reader=True,
)

# Only options that take a value in each of a row's commands: any other would hide a file. A value that is not known
# here counts as a file, which does no harm.
TABLE: dict[str, Spec] = {
    "cat tac rev wc md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum cksum sum zcat bzcat xzcat zless less "
    "more look tsort zgrep hd": spec(reads="--files0-from", reader=True),
    "date": spec(
        None, value="-d -s --date --set", reads="-f --file -r --reference", reader=True, changes="-s --set"
    ),
    "nl": spec(value="-b -d -f -h -i -l -n -s -v -w", reader=True),
    "paste": spec(value="-d --delimiters", reader=True),
    "strings": spec(value="-n -t -e --bytes --radix --encoding", reader=True),
    "hexdump": spec(value="-e -n -s", reads="-f", reader=True),
    "od": spec(value="-A -j -N -S -t", reader=True),
    "base64 base32 basenc": spec(value="-w --wrap", reads="-i", writes="-o --output", reader=True),
    "file": spec(value="-e -F -P", reads="-f -m --files-from --magic-file", reader=True),
    "column": spec(value="-s -o -c -N -R -H -W -T", reader=True),
    "fold fmt": spec(value="-w --width", reader=True),
    "expand unexpand": spec(value="-t --tabs", reader=True),
    "pr": spec(value="-l -w -h", reader=True),
    "iconv": spec(value="-f -t --from-code --to-code", writes="-o --output", reader=True),
    "head tail": spec(value="-n -c --lines --bytes --pid --sleep-interval", reader=True),
    "grep egrep fgrep": _GREP,
    "rgrep": spec(value="-e -A -B -C -m", reads="-f", skip=1, instead="-e -f", recursive="*", reader=True),
    "rg": _RG,
    "ag ack": spec(value="-A -B -C -m", skip=1, recursive="*", here=True),
    "cut": spec(
        value="-b -c -d -f --bytes --characters --delimiter --fields --output-delimiter", reader=True
    ),
    "sort": spec(
        value="-k -t -S -T --key --field-separator --buffer-size --parallel --batch-size --compress-program",
        reads="--files0-from --random-source",
        writes="-o --output",
        reader=True,
    ),
    "comm": spec(value="--output-delimiter", reader=True),
    "cmp": spec(value="-n -i --bytes --ignore-initial", reader=True),
    "shuf": spec(
        value="-n -i --head-count --input-range", reads="--random-source", writes="-o --output", reader=True
    ),
    "diff colordiff": spec(
        value="-U -C -W -I -x -F --label --exclude --ignore-matching-lines --width",
        reads="--from-file --to-file --exclude-from -X",
        recursive="-r --recursive",
        # Two folders are compared file by file also without -r.
        maybe=True,
        reader=True,
    ),
    "sdiff diff3": spec(value="-w", writes="-o --output", reader=True),
    "join": spec(value="-1 -2 -t -o -a -e -v -j", reader=True),
    "jq yq": spec(
        value="--indent --tab",
        reads="-f --from-file -L",
        skip=1,
        instead="-f --from-file",
        reader=True,
        changes="-i --inplace --in-place",
    ),
    "stat realpath readlink basename dirname": spec("list", value="-c --format --printf", reader=True),
    "ls dir vdir exa eza lsd": spec(
        "list",
        value="-I -w --ignore --hide --width --format --sort --time --time-style --block-size --indicator-style",
        recursive="-R --recursive",
        here=True,
        reader=True,
    ),
    "tree": spec(
        "list", value="-L -P -I --charset --sort --timefmt", writes="-o --output", recursive="*", reader=True
    ),
    "du df": spec(
        "list", value="-B --max-depth --exclude", reads="-X --files0-from", recursive="*", reader=True
    ),
    "fd fdfind locate": spec("list", value="-e -t -d -E -S -j", skip=1, recursive="*"),
    "touch": spec("write", value="-d -t --date --time", reads="-r --reference"),
    "mkdir mkfifo mknod": spec("write", value="-m --mode"),
    "rmdir unlink trash": spec("write"),
    "rm": spec("write", recursive="-r -R --recursive"),
    "shred": spec("write", value="-n -s --iterations --size", reads="--random-source"),
    "tee sponge": spec("write"),
    "truncate": spec("write", value="-s --size", reads="-r --reference"),
    # A mode may look like an option (``-x``), so the first operand may already be a file.
    "chmod chown chgrp chattr": spec("write", reads="--reference", recursive="-R --recursive"),
    "setfacl": spec("write", value="-m -x", reads="--restore -M -X", recursive="-R --recursive"),
    "mktemp": spec("write", value="--suffix", writes="-p --tmpdir"),
    "openssl gpg gpg2 age": spec(
        value="-r -u -pass -passin -passout -subj -days",
        reads="-in -inkey -CA -CAkey -cert -key -config -kfile -rand -signkey -verify -sign -extfile",
        writes="-out -keyout --output -o -writerand",
        single_dash=True,
    ),
}
"""Rows for several commands at once."""

_BY_NAME = {name: row for names, row in TABLE.items() for name in names.split()}
# They read nothing and change nothing, whatever follows.
_PURE = words(
    "echo true false : pwd whoami id groups hostname uname nproc arch seq sleep type which whence hash expr "
    "test [ [[ printf cd pushd popd dirs yes tty uptime free pgrep cal logname getconf locale tput clear wait "
    "return exit break continue shift let set unset getopts umask ulimit jobs"
)
_PURE_BUT = {
    "printf": ("-v",),
    "test": ("-v", "-R"),
    "hostname": ("-F", "-b", "--file"),
    "set": ("-a", "-o"),
    "umask": (),
    "ulimit": (),
    "hash": ("-p",),
}
_NOT_READ_ONLY = frozenset({"umask", "ulimit", "set", "unset", "hash", "hostname", "iconv", "sort"})


def _by_spec(call: Call) -> Meaning:
    row = _BY_NAME[call.name]
    parsed = parse(call.args, row)
    writes = parsed.has(row.writes | row.changes)
    sure = not parsed.unsure or not (row.writes or row.changes or row.recursive)
    return Meaning(paths=uses(row, parsed), read_only=row.reader and sure and not writes)


def _pure(call: Call) -> Meaning:
    texts = [word.text for word in call.args]
    changes = any(text.startswith(flag) for flag in _PURE_BUT.get(call.name, ()) for text in texts)
    return Meaning(read_only=not changes and call.name not in _NOT_READ_ONLY)


def _rg(call: Call) -> Meaning:
    parsed = parse(call.args, _RG)
    hidden = parsed.has(("--hidden", "-.", "-u", "--unrestricted", "--no-ignore-dot")) or parsed.unsure
    found: list[PathUse] = []
    for use in uses(_RG, parsed):
        shown = use.word.text.rpartition("/")[2].startswith(".") and use.word.text not in (".", "..")
        found.append(PathUse(use.word, use.use, below=use.below, hidden=hidden or shown))
    runs = parsed.has(("--pre", "--hostname-bin"))
    names_only = parsed.has(("--files", "--type-list"))
    if names_only and not runs:
        found = [PathUse(use.word, "list", below=True, hidden=use.hidden) for use in found]
    return Meaning(
        paths=tuple(found),
        opaque="rg --pre runs a program on every file" if runs else "",
        read_only=not runs and not parsed.unsure,
    )


def _grep(call: Call) -> Meaning:
    """``-d recurse`` is ``-r``."""
    walks = any(
        not word.known or "recurse".startswith(word.text)
        for word in parse(call.args, _GREP).values(("-d", "--directories"))
    )
    if not walks:
        return _by_spec(call)
    return _by_spec(replace(call, args=(Word("-r", source="-r"), *call.args)))


_HISTORY = spec(None, value="-d -s -p")


def _history(call: Call) -> Meaning:
    parsed = parse(call.args, _HISTORY)
    files = parsed.operands[:1] or (UNKNOWN,)
    found: list[PathUse] = []
    if parsed.has(("-r", "-n")):
        found += [PathUse(word, "read") for word in files]
    if parsed.has(("-w", "-a")):
        found += [PathUse(word, "write", full=True) for word in files]
    return Meaning(paths=tuple(found))


_ENVIRONMENTS = Word("/proc/*/environ", glob=True, source="/proc/*/environ")


def _ps(call: Call) -> Meaning:
    """``e`` without a dash shows the environment of every process."""
    shown = False
    valued = False
    for word in call.args:
        if word.text.startswith("-"):
            valued = re.fullmatch(r"-\w*[oOpuUgGtCsqkN]|--[a-z-]+", word.text) is not None
            continue
        shown = shown or (not valued and (not word.known or word.glob or "e" in word.text))
        valued = False
    if shown:
        return Meaning(paths=(PathUse(_ENVIRONMENTS, "read", made=True),))
    return Meaning(read_only=True)


_IN_OUT = {
    "uniq": spec(value="-f -s -w --skip-fields --skip-chars --check-chars"),
    "xxd": spec(value="-c -g -l -s -o -n -R"),
}


def _in_out(call: Call) -> Meaning:
    """The first operand is read, the second is written."""
    parsed = parse(call.args, _IN_OUT[call.name])
    found = [PathUse(word, "read") for word in parsed.operands[:1] if word.text != "-"]
    found += [PathUse(word, "write", full=True) for word in parsed.operands[1:2] if word.text != "-"]
    return Meaning(paths=tuple(found), read_only=len(parsed.operands) < 2 and not parsed.unsure)


_FIND_NAMES = frozenset({"-name", "-iname"})
_FIND_OTHERWISE = words("-o -or , ! -not ( ) -exec -execdir -ok -okdir")
_FIND_TESTS = re.compile(
    r"(?:[\w./][\w./-]* )*(?:-(?:type [a-z,]+|(?:min|max)depth \d+|[mac](?:time|min) [+-]?\d+|size [+-]?\w+|depth|"
    r"xdev|mount|empty) )*"
)
_FIND_RUNS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_FIND_FILES = frozenset({"-fprint", "-fprint0", "-fprintf", "-fls"})
_FIND_READS = frozenset({"-newer", "-anewer", "-cnewer", "-samefile", "-files0-from"})


def _find(call: Call) -> Meaning:
    roots: list[Word] = []
    found: list[PathUse] = []
    inner: list[tuple[Word, ...]] = []
    args = list(call.args)
    while args and (
        not args[0].text.startswith(("-", "(", "!", ")")) or args[0].text[:2] in ("-H", "-L", "-P", "-O")
    ):
        word = args.pop(0)
        if not word.text.startswith("-"):
            roots.append(word)
    roots = roots or [HERE]
    deletes = False
    at = 0
    while at < len(args):
        name = args[at].text
        at += 1
        if name in _FIND_RUNS:
            end = at
            while (
                end < len(args)
                and args[end].text not in (";", "\\;")
                and not (args[end].text == "+" and args[end - 1].text == "{}")
            ):
                end += 1
            inner.append(tuple(_found_file(word) for word in args[at:end]))
            at = end + 1
        elif name in _FIND_FILES and at < len(args):
            found.append(PathUse(args[at], "write", full=True))
            at += 1
        elif name in _FIND_READS and at < len(args):
            found.append(PathUse(args[at], "read"))
            at += 1
        deletes = deletes or name == "-delete"
    use = "write" if deletes else "list"
    like = _find_name(call.args) if deletes else ""
    found += [PathUse(word, use, below=True, like=like) for word in roots]
    unsure = any(not word.known for word in args)
    return Meaning(
        paths=tuple(found),
        inner=tuple(inner),
        read_only=not inner and not deletes and not unsure and all(use.use != "write" for use in found),
        more="find -delete removes the files that it finds" if deletes else "",
    )


def _find_name(args: Sequence[Word]) -> str:
    """What the names of all files end with that are deleted: ``find . -name '*.pyc' -delete``. Empty: not certain."""
    texts = [word.text for word in args]
    named = [at for at, text in enumerate(texts) if text in _FIND_NAMES]
    if not named or any(text in _FIND_OTHERWISE or text.startswith("\\") for text in texts):
        return ""
    first = named[0]
    # What stands before -name is deleted whatever its name, and a name may be the value of another test.
    if (
        "-delete" in texts[:first]
        or first + 1 >= len(texts)
        or any(not word.known or word.glob for word in args)
    ):
        return ""
    plain = _FIND_TESTS.fullmatch("".join(f"{text} " for text in texts[:first]))
    return texts[first + 1] if plain and re.fullmatch(r"[\w.*?\[\]-]+", texts[first + 1]) else ""


def _found_file(word: Word) -> Word:
    return Word(word.text, known=False, source=word.source or word.text) if "{}" in word.text else word


def _split(call: Call) -> Meaning:
    parsed = parse(
        call.args, spec(value="-b -l -n -a -C -f --bytes --lines --number --suffix-length --prefix --filter")
    )
    runs = parsed.has(("--filter",))
    prefix = parsed.operands[1:2] if call.name == "split" else parsed.values(("-f", "--prefix"))
    found = [PathUse(word, "read") for word in parsed.operands[:1] if word.text != "-"]
    for word in prefix:
        pieces = Word(word.text + "*", known=word.known, glob=True, source=word.source + "*")
        found.append(PathUse(pieces, "write", made=True))
    return Meaning(paths=tuple(found), opaque="split --filter runs a command" if runs else "")


def _kill_list(call: Call) -> Meaning:
    return Meaning(read_only=join(call.args).startswith("-l"))


READERS: dict[str, Reader] = {
    **dict.fromkeys(_BY_NAME, _by_spec),
    **dict.fromkeys(_PURE, _pure),
    **dict.fromkeys(("split", "csplit"), _split),
    "rg": _rg,
    **dict.fromkeys(("grep", "egrep", "fgrep"), _grep),
    "history": _history,
    "ps": _ps,
    **dict.fromkeys(_IN_OUT, _in_out),
    "find": _find,
    "kill": _kill_list,
}
"""Commands by name."""
