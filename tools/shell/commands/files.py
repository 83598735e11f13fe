"""The usual commands on files: which of their words are files, and what happens to these."""

from __future__ import annotations

from tools.shell.commands.words import (
    HERE,
    Call,
    Meaning,
    PathUse,
    Reader,
    Spec,
    join,
    parse,
    part,
    spec,
    uses,
    words,
)
from tools.shell.syntax import Word

_GREP = spec(
    value="-A -B -C -m -D -d --color --colour --label --include --exclude --exclude-dir --max-count --context "
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
_COPY_VALUES = "-S --suffix --sparse --reflink --context -m --mode -o --owner -g --group --backup"

TABLE: dict[str, Spec] = {
    "cat tac nl wc rev paste strings xxd hd hexdump od md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum "
    "cksum sum base64 base32 zcat bzcat xzcat zless less more file column fold fmt expand unexpand pr tsort iconv "
    "zgrep look": spec(
        value="-w -s -d -f -v -b -n -i -h -l -t -N -j -A -S -c -g --bytes --width --body-numbering --format --wrap "
        "--magic-file --from-code --to-code --from --to --separator",
        reads="--files0-from --files-from --magic-file",
        writes="--output -o",
        reader=True,
    ),
    "head tail": spec(value="-n -c --lines --bytes --pid --sleep-interval -s --max-unchanged-stats", reader=True),
    "grep egrep fgrep": _GREP,
    "rgrep": spec(value="-e -A -B -C -m", reads="-f", skip=1, instead="-e -f", recursive="*", reader=True),
    "rg": _RG,
    "ag ack": spec(value="-A -B -C -m -G -p --ignore --depth", skip=1, recursive="*", here=True),
    "cut": spec(value="-b -c -d -f --bytes --characters --delimiter --fields --output-delimiter", reader=True),
    "sort": spec(
        value="-k -t -S -T --key --field-separator --buffer-size --parallel --batch-size --compress-program --sort",
        reads="--files0-from --random-source",
        writes="-o --output",
        reader=True,
    ),
    "comm cmp diff sdiff diff3 colordiff": spec(
        value="-U -C -W -I -x -F -i -n --label --unified --context --exclude --ignore-matching-lines --width --color",
        reads="--from-file --to-file --exclude-from -X",
        writes="--output",
        recursive="-r --recursive",
        reader=True,
    ),
    "join": spec(value="-1 -2 -t -o -a -e -v -j", reader=True),
    "jq yq": spec(
        value="--indent --tab",
        reads="-f --from-file -L",
        skip=1,
        instead="-f --from-file",
        reader=True,
        changes="-i --inplace --in-place",
    ),
    "stat realpath readlink basename dirname": spec("list", value="-c -f --format --printf -s", reader=True),
    "ls dir vdir exa eza lsd": spec(
        "list",
        value="-I -w -T --ignore --hide --width --color --format --sort --time --time-style --block-size "
        "--indicator-style",
        recursive="-R --recursive",
        here=True,
        reader=True,
    ),
    "tree": spec("list", value="-L -P -I --charset --sort --timefmt", writes="-o --output", recursive="*", reader=True),
    "du df": spec(
        "list", value="-d -B -t -x --max-depth --exclude", reads="-X --files0-from", recursive="*", reader=True
    ),
    "fd fdfind locate": spec(
        "list", value="-e -t -d -E -S -j --extension --type --exclude --max-depth", skip=1, recursive="*"
    ),
    "touch mkdir rmdir mkfifo mknod unlink": spec(
        "write", value="-m -d -t --mode --date --time --context", reads="-r --reference"
    ),
    "rm shred trash": spec("write", value="-n -s --iterations --size --interactive", recursive="-r -R --recursive"),
    "tee sponge": spec("write", value="--output-error"),
    "truncate": spec("write", value="-s --size", reads="-r --reference"),
    "chmod chown chgrp chattr setfacl": spec(
        "write", value="-m -x --from", reads="--reference", skip=1, instead="--reference -m -x",
        recursive="-R --recursive",
    ),
    "gzip gunzip bzip2 bunzip2 xz unxz zstd unzstd lzma lz4 compress uncompress": spec(
        "write", value="-S -T --suffix", writes="-o --output", recursive="-r --recursive"
    ),
    "patch": spec("write", value="-p -F -V -z -B -D --strip --fuzz", reads="-i --input", writes="-o --output -r"),
    "split csplit": spec(value="-b -l -n -a -C -f --bytes --lines --number --suffix-length --prefix"),
    "mktemp": spec("write", value="--suffix", writes="-p --tmpdir"),
    "openssl gpg gpg2 age": spec(
        value="-r -u -pass -passin -passout -subj -days",
        reads="-in -inkey -CA -CAkey -cert -key -config -kfile -rand -signkey -verify -sign -extfile",
        writes="-out -keyout --output -o -writerand",
        single_dash=True,
    ),
    "ffmpeg convert magick pandoc": spec("write", reads="-i", writes="-o --output", single_dash=True),
    "zip": spec("write", value="-x -i", maybe=True, recursive="-r"),
}  # fmt: skip
"""Rows for several commands at once."""

_BY_NAME = {name: row for names, row in TABLE.items() for name in names.split()}
# They read nothing and change nothing, whatever follows.
_PURE = words(
    "echo true false : pwd whoami id groups hostname uname nproc arch date seq sleep type which whence hash expr "
    "test [ [[ printf cd pushd popd dirs yes tty uptime free ps pgrep cal logname getconf locale tput clear wait "
    "return exit break continue shift let local readonly set unset umask ulimit jobs history"
)
_PURE_BUT = {
    "printf": ("-v",),
    "test": ("-v", "-R"),
    "date": ("-s", "--set"),
    "hostname": ("-F", "-b", "--file"),
    "set": ("-a", "-o"),
    "umask": (),
    "ulimit": (),
    "hash": ("-p",),
    "history": ("-c", "-w", "-d"),
}
_NOT_READ_ONLY = frozenset(
    {"umask", "ulimit", "set", "unset", "history", "hash", "hostname", "iconv", "sort"}
)


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


def _copy(call: Call) -> Meaning:
    """cp, mv, ln, install, rsync, scp: all operands but the last are read, the last is written."""
    row = spec(
        value=_COPY_VALUES + " -e --rsh --exclude --include --bwlimit --chmod --filter -f -P -i -F -l -c -J",
        reads="--exclude-from --include-from --files-from" + (" -i -F" if call.name == "scp" else ""),
        writes="-t --target-directory --log-file --backup-dir --partial-dir",
    )
    if call.name not in ("rsync", "scp"):
        row = spec(value=_COPY_VALUES, writes="-t --target-directory")
    parsed = parse(call.args, row)
    targets = parsed.values(("-t", "--target-directory"))
    sources, last = parsed.operands, targets
    if not targets and len(sources) > 1:
        sources, last = sources[:-1], sources[-1:]
    elif not targets and call.name == "ln":
        last = (HERE,)
    local_sources = tuple(word for word in sources if not _is_remote(call, word))
    found = [PathUse(word, "read") for word in parsed.values(row.reads)]
    found += [PathUse(word, "write") for word in parsed.values(row.writes - {"-t", "--target-directory"})]
    whole = parsed.has(("-r", "-R", "-a", "--recursive", "--archive"))
    # What is moved or linked takes along what lies below it, and nothing in the line says that it is a folder.
    perhaps = call.name in ("mv", "ln")
    moved = call.name == "mv" or parsed.has(("--remove-source-files",))
    for word in local_sources:
        found.append(PathUse(word, "read", below=whole or perhaps, maybe=not whole))
        if moved:
            found.append(PathUse(word, "write", below=True, maybe=True))
    for folder in last:
        if _is_remote(call, folder):
            continue
        found.append(PathUse(folder, "write", below=whole, made=True))
        for word in sources:
            name = word.text.rstrip("/").rpartition("/")[2]
            if name and name not in (".", ".."):
                inside = PathUse(part(word, name), "write", below=whole, made=True, base=(folder,))
                found.append(inside)
    runs = parsed.has(("-e", "--rsh", "--rsync-path")) if call.name == "rsync" else False
    runs = runs or (call.name == "scp" and parsed.has(("-S", "-o", "-J", "-F")))
    return Meaning(
        paths=tuple(found), opaque=f"an option of {call.name} names a program that it runs" if runs else ""
    )


def _is_remote(call: Call, word: Word) -> bool:
    return call.name in ("rsync", "scp") and ":" in word.text.partition("/")[0]


_TAR = spec(
    value="--exclude --strip-components --transform --xform -b --owner --group --mode --mtime -H --format --wildcards "
    "-I --use-compress-program --to-command --checkpoint-action --checkpoint --rsh-command --info-script "
    "--new-volume-script -F --rmt-command",
    reads="-T --files-from -X --exclude-from",
    writes="-f --file -C --directory -g --listed-incremental --index-file",
)
_TAR_RUNS = words(
    "-I --use-compress-program --to-command --checkpoint-action --rsh-command --info-script --new-volume-script -F "
    "--rmt-command"
)


def _tar(call: Call) -> Meaning:
    args = list(call.args)
    if args and args[0].known and not args[0].text.startswith("-"):
        # The old form without a dash takes the values of its letters from the words after it.
        letters = args.pop(0)
        given = [part(letters, "-" + letter) for letter in letters.text]
        ordered: list[Word] = []
        for option in given:
            ordered.append(option)
            if option.text in _TAR.valued and args:
                ordered.append(args.pop(0))
        args = ordered + args
    parsed = parse(args, _TAR)
    folders = parsed.values(("-C", "--directory"))
    archives = parsed.values(("-f", "--file"))
    makes = parsed.has(("-c", "-r", "-u", "-A", "--create", "--append", "--update", "--concatenate"))
    lists = parsed.has(("-t", "--list", "-d", "--diff")) and not makes
    base = folders[-1:]
    found = [PathUse(word, "read") for word in parsed.values(_TAR.reads)]
    found += [PathUse(word, "write" if makes else "read") for word in archives if word.text != "-"]
    if makes:
        found += [PathUse(word, "read", below=True, maybe=True, base=base) for word in parsed.operands]
        if parsed.has(("--remove-files",)):
            found += [PathUse(word, "write", below=True, base=base) for word in parsed.operands]
    elif not lists and not parsed.has(("-O", "--to-stdout")):
        found += [PathUse(folder, "write", below=True, made=True) for folder in folders or (HERE,)]
    return Meaning(
        paths=tuple(found),
        opaque="an option of tar names a program that it runs" if parsed.has(_TAR_RUNS) else "",
        read_only=lists and not parsed.unsure and not parsed.has(_TAR_RUNS),
    )


def _unzip(call: Call) -> Meaning:
    parsed = parse(call.args, spec(value="-P -x", writes="-d"))
    archive = parsed.operands[:1]
    found = [PathUse(word, "read") for word in archive]
    if not parsed.has(("-l", "-p", "-t", "-v", "-Z", "-z")):
        found += [PathUse(w, "write", below=True, made=True) for w in parsed.values(("-d",)) or (HERE,)]
    return Meaning(paths=tuple(found))


def _dd(call: Call) -> Meaning:
    found: list[PathUse] = []
    for word in call.args:
        name, _, value = word.text.partition("=")
        if name in ("if", "of"):
            found.append(PathUse(part(word, value), "read" if name == "if" else "write"))
        elif not word.known:
            found += [PathUse(word, "read"), PathUse(word, "write")]
    return Meaning(paths=tuple(found))


def _uniq(call: Call) -> Meaning:
    parsed = parse(call.args, spec(value="-f -s -w --skip-fields --skip-chars --check-chars"))
    found = [PathUse(word, "read") for word in parsed.operands[:1] if word.text != "-"]
    found += [PathUse(word, "write", full=True) for word in parsed.operands[1:2] if word.text != "-"]
    return Meaning(paths=tuple(found), read_only=len(parsed.operands) < 2 and not parsed.unsure)


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
    found += [PathUse(word, use, below=True) for word in roots]
    unsure = any(not word.known for word in args)
    return Meaning(
        paths=tuple(found),
        inner=tuple(inner),
        read_only=not inner and not deletes and not unsure and all(use.use != "write" for use in found),
        more="find -delete removes the files that it finds" if deletes else "",
    )


def _found_file(word: Word) -> Word:
    return Word(word.text, known=False, source=word.source or word.text) if "{}" in word.text else word


def _split(call: Call) -> Meaning:
    parsed = parse(call.args, _BY_NAME["split"])
    runs = parsed.has(("--filter",))
    prefix = parsed.operands[1:2] if call.name == "split" else parsed.values(("-f", "--prefix"))
    found = [PathUse(word, "read") for word in parsed.operands[:1] if word.text != "-"]
    for word in prefix:
        found.append(
            PathUse(Word(word.text + "*", known=word.known, glob=True, source=word.source + "*"), "write")
        )
    return Meaning(paths=tuple(found), opaque="split --filter runs a command" if runs else "")


def _kill_list(call: Call) -> Meaning:
    return Meaning(read_only=join(call.args).startswith("-l"))


READERS: dict[str, Reader] = {
    **dict.fromkeys(_BY_NAME, _by_spec),
    **dict.fromkeys(_PURE, _pure),
    **dict.fromkeys(("cp", "mv", "ln", "install", "rsync", "scp", "ditto"), _copy),
    **dict.fromkeys(("tar", "bsdtar", "gtar"), _tar),
    **dict.fromkeys(("split", "csplit"), _split),
    "rg": _rg,
    "unzip": _unzip,
    "dd": _dd,
    "uniq": _uniq,
    "find": _find,
    "kill": _kill_list,
}
"""Commands by name."""
