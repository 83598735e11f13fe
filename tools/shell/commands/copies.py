"""Commands that copy, move, pack and unpack: what they read and what they write."""

from __future__ import annotations

import re

from tools.shell.commands.words import (
    HERE,
    UNKNOWN,
    Call,
    Meaning,
    PathUse,
    Reader,
    Use,
    implied_paths,
    parse,
    part,
    spec,
    uses,
    words,
)
from tools.shell.syntax import Word

_COPY = {
    "cp": spec(
        value="-S --suffix --sparse",
        writes="-t --target-directory",
        recursive="-r -R -a --recursive --archive",
    ),
    "install": spec(
        value="-S --suffix -m --mode -o --owner -g --group",
        writes="-t --target-directory",
        changes="-d --directory",
    ),
    "rsync": spec(
        value="-e --rsh --rsync-path --exclude --include --bwlimit --chmod --filter -f",
        reads="--exclude-from --include-from --files-from --password-file",
        writes="--log-file --backup-dir --partial-dir --temp-dir -T",
        recursive="-r -a --recursive --archive",
        changes="--remove-source-files",
    ),
    "scp": spec(value="-c -J -l -o -P -S", reads="-i -F"),
}


def _copy(call: Call) -> Meaning:
    """cp, mv, ln, install, rsync, scp: all operands but the last are read, the last is written."""
    row = _COPY.get(call.name, _COPY["cp"])
    parsed = parse(call.args, row)
    if call.name == "install" and parsed.has(row.changes):
        return Meaning(paths=tuple(PathUse(word, "write") for word in parsed.operands))
    targets = parsed.values(("-t", "--target-directory"))
    sources, last = parsed.operands, targets
    if not targets and len(sources) > 1:
        sources, last = sources[:-1], sources[-1:]
    elif not targets and call.name == "ln":
        last = (HERE,)
    local_sources = tuple(word for word in sources if not _is_remote(call, word))
    found = [PathUse(word, "read") for word in parsed.values(row.reads)]
    if parsed.has(("--files-from",)):
        found.append(PathUse(UNKNOWN, "read"))
    found += [PathUse(word, "write") for word in parsed.values(row.writes - {"-t", "--target-directory"})]
    whole = parsed.has(("-r", "-R", "-a", "--recursive", "--archive"))
    # What is moved or linked takes along what lies below it, and nothing in the line says that it is a folder.
    perhaps = call.name in ("mv", "ln")
    moved = call.name == "mv" or parsed.has(("--remove-source-files",))
    linked = _links_hard(call)
    for word in local_sources:
        found.append(PathUse(word, "read", below=whole or perhaps, maybe=not whole))
        if linked:
            # By its other name whoever may write here changes the file there.
            found.append(PathUse(word, "write", below=whole, elsewhere=True))
        if moved:
            found.append(PathUse(word, "write", below=True, maybe=True))
    for folder in last:
        if _is_remote(call, folder):
            continue
        found.append(PathUse(folder, "write", below=whole, made=True))
        for word in sources:
            name = word.text.rstrip("/").rpartition("/")[2]
            name = name.rpartition(":")[2] if _is_remote(call, word) else name
            if name and name not in (".", ".."):
                inside = PathUse(part(word, name), "write", below=whole, made=True, base=(folder,))
                found.append(inside)
    runs = parsed.has(("-e", "--rsh", "--rsync-path")) if call.name == "rsync" else False
    runs = runs or (call.name == "scp" and parsed.has(("-S", "-o", "-J", "-F")))
    return Meaning(
        paths=tuple(found), opaque=f"an option of {call.name} names a program that it runs" if runs else ""
    )


def _links_hard(call: Call) -> bool:
    """Whether files get another name, and no copy."""
    texts = [word.text for word in call.args]
    letters = "".join(text for text in texts if re.fullmatch(r"-[A-Za-z]+", text))
    if call.name == "ln":
        return "s" not in letters and not any(
            len(text) > 3 and "--symbolic".startswith(text) for text in texts
        )
    return call.name == "cp" and ("l" in letters or any(len(t) > 3 and "--link".startswith(t) for t in texts))


def _is_remote(call: Call, word: Word) -> bool:
    return call.name in ("rsync", "scp") and ":" in word.text.partition("/")[0]


_TAR = spec(
    value="--exclude --strip-components --transform --xform -b --owner --group --mode --mtime -H --format --wildcards "
    "-I --use-compress-program --to-command --checkpoint-action --checkpoint --rsh-command --info-script "
    "--new-volume-script -F --rmt-command",
    reads="-T --files-from -X --exclude-from --add-file",
    writes="-f --file -C --directory -g --listed-incremental --index-file --one-top-level --volno-file",
    changes="-P --absolute-names --remove-files --to-stdout",
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
    found += [
        PathUse(word, "read", below=True, maybe=True, base=base) for word in parsed.values(("--add-file",))
    ]
    noted = parsed.values(("-g", "--listed-incremental", "--index-file", "--volno-file"))
    found += [PathUse(word, "write", full=lists) for word in noted]
    if makes and parsed.has(("-T", "--files-from")):
        found.append(PathUse(UNKNOWN, "read"))
    found += [PathUse(word, "write" if makes else "read") for word in archives if word.text != "-"]
    if makes:
        found += [PathUse(word, "read", below=True, maybe=True, base=base) for word in parsed.operands]
        if parsed.has(("--remove-files",)):
            found += [PathUse(word, "write", below=True, base=base) for word in parsed.operands]
    elif not lists and not parsed.has(("-O", "--to-stdout")):
        found += [PathUse(folder, "write", below=True, made=True) for folder in folders or (HERE,)]
        tops = parsed.values(("--one-top-level",))
        found += [PathUse(word, "write", below=True, made=True, base=base) for word in tops]
        if parsed.has(("-P", "--absolute-names", "--transform", "--xform", "-s")):
            found.append(PathUse(UNKNOWN, "write"))
    return Meaning(
        paths=tuple(found),
        opaque="an option of tar names a program that it runs" if parsed.has(_TAR_RUNS) else "",
        read_only=lists and not noted and not parsed.unsure and not parsed.has(_TAR_RUNS),
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


_PACKERS = words(
    "gzip gunzip bzip2 bunzip2 xz unxz zstd unzstd lzma lz4 compress uncompress ffmpeg convert magick pandoc"
)


def _packer(call: Call) -> Meaning:
    """Any file may be read, and any replaced by another of its name."""
    parsed = parse(call.args, spec(writes="-o --output", recursive="-r --recursive"))
    below = parsed.has(("-r", "--recursive"))
    files = (*parsed.operands, *parsed.values(("-o", "--output")))
    kinds: tuple[Use, ...] = ("read", "write")
    return Meaning(paths=tuple(PathUse(word, use, below=below) for word in files for use in kinds))


def _zip(call: Call) -> Meaning:
    parsed = parse(call.args, spec(value="-b -t -tt"))
    found = [PathUse(word, "write") for word in parsed.operands[:1]]
    found += [PathUse(word, "read", below=True, maybe=True) for word in parsed.operands[1:]]
    if parsed.has(("-@", "--names-stdin")):
        found.append(PathUse(UNKNOWN, "read"))
    runs = parsed.has(("-T", "--unzip-command")) and any(
        "-TT" in word.text or "unzip" in word.text for word in call.args
    )
    return Meaning(paths=tuple(found), opaque="zip -TT runs a command" if runs else "")


def _names_from_stdin(call: Call) -> Meaning:
    """cpio, pax: which files stands in what they read."""
    return Meaning(
        paths=(
            PathUse(UNKNOWN, "read"),
            PathUse(HERE, "write", below=True, made=True),
            *implied_paths(call.args, "read"),
        )
    )


def _patch(call: Call) -> Meaning:
    """Which files it changes stands in the patch."""
    row = spec(
        None,
        value="-p -F -V -z -B -D -Y -g --strip --fuzz --suffix --prefix --basename-prefix",
        reads="-i --input",
        writes="-o --output -r -d --reject-file --directory",
    )
    parsed = parse(call.args, row)
    found = [*uses(row, parsed), *(PathUse(word, "write") for word in parsed.operands[:1])]
    found += [PathUse(word, "read") for word in parsed.operands[1:]]
    if not parsed.operands:
        found.append(PathUse(HERE, "write", below=True, made=True))
    folder = parsed.values(("-d", "--directory"))[-1:]
    # Copies that are kept.
    for word in parsed.values(("-B", "-Y", "--prefix", "--basename-prefix")):
        kept = Word(word.text + "*", known=word.known, glob=True, source=word.source + "*")
        found.append(PathUse(kept, "write", made=True, base=folder))
    for word in parsed.operands[:1]:
        for suffix in parsed.values(("-z", "--suffix")):
            found.append(PathUse(part(word, word.text + suffix.text), "write", base=folder))
    return Meaning(paths=tuple(found))


READERS: dict[str, Reader] = {
    **dict.fromkeys(("cp", "mv", "ln", "install", "rsync", "scp", "ditto"), _copy),
    **dict.fromkeys(("tar", "bsdtar", "gtar"), _tar),
    **dict.fromkeys(_PACKERS, _packer),
    "zip": _zip,
    "unzip": _unzip,
    "patch": _patch,
    "dd": _dd,
    **dict.fromkeys(("cpio", "pax"), _names_from_stdin),
}
"""Commands by name."""
