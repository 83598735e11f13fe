"""git: which files its sub-commands use, and which words make it run programs of the caller's choice."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tools.shell.commands.git_paths import Where, in_revisions, looks_like_revision, pathspecs
from tools.shell.commands.git_places import changed
from tools.shell.commands.words import (
    HERE,
    UNKNOWN,
    Call,
    Meaning,
    Parsed,
    PathUse,
    Spec,
    join,
    parse,
    part,
    spec,
    words,
)
from tools.shell.syntax import Word

# Git takes unambiguous beginnings of long options; here any beginning counts.
_RUN_OPTIONS = words(
    "--exec --extcmd --ext-diff --upload-pack --receive-pack --open-files-in-pager --template --tool"
)
_RUN_LETTERS = re.compile(r"-x.*|-O.+|-c|--textconv=.*|--ext-.*|--extc.*|--exec.*|--tool.*|--open-?f.*")
# Of these, -u is --upload-pack, and clone's -c sets anything.
_RUN_CLUSTERS = {"clone": ("-u", "-c"), "ls-remote": ("-u",), "fetch-pack": ("-u",)}
_BEFORE = spec(
    None,
    value="-c -C --git-dir --work-tree --namespace --config-env --super-prefix --exec-path --attr-source",
)
_BEFORE_RUNS = "-c --config-env --exec-path"
_READING = words(
    "status diff log show blame annotate shortlog describe rev-parse rev-list ls-files ls-tree merge-base cat-file "
    "name-rev whatchanged diff-tree diff-index diff-files show-ref for-each-ref count-objects cherry range-diff "
    "check-ignore var version help grep verify-commit verify-tag show-branch ls-remote"
)
_RUNNING = words(
    "filter-branch send-email instaweb difftool mergetool daemon http-backend shell web--browse fast-import "
    "merge-index merge-one-file hook for-each-repo receive-pack upload-pack upload-archive gui citool gitk svn p4 "
    "cvsimport cvsexportcommit cvsserver credential submodule--helper add--interactive"
)
_NO_PATHS = words(
    "commit push fetch pull tag branch merge rebase cherry-pick revert remote config stash notes gc prune fsck reflog "
    "bisect rev-parse rev-list merge-base describe name-rev var version help symbolic-ref update-ref pack-refs repack "
    "archive shortlog for-each-ref show-ref ls-remote count-objects switch lfs maintenance cat-file fast-export "
    "format-patch checkout-index"
)
# Only what takes a value for certain: any other would hide a file.
_SHOWING = "-n -S -G -L --author --committer --grep --since --until --after --before --skip --max-count"
_VALUES = {
    **dict.fromkeys(words("log show shortlog rev-list whatchanged"), words(_SHOWING)),
    "diff": words("-S -G"),
    "commit": words(
        "-m -C --message --author --date --fixup --squash --cleanup --trailer --reuse-message --reedit-message"
    ),
    "grep": words("-e -A -B -C -m --max-depth"),
    "blame": words("-L"),
    "clone": words("-b --branch -o --origin --depth -j --jobs --filter"),
    "stash": words("-m --message"),
    "tag": words("-m -u --message --sort"),
    "merge": words("-m -s -X"),
    "rebase": words("-s -X -x --exec --onto"),
    "restore": words("-s --source"),
    "checkout": words("-b -B --orphan --conflict"),
    "archive": words("--prefix --format"),
    "worktree": words("-b -B --reason"),
    "branch": words("--sort"),
    "for-each-ref": words("--sort --count"),
}
_READ_FILES = (
    "--pathspec-from-file --exclude-from --ignore-revs-file --contents --reference --separate-git-dir"
)
_WRITE_FILES = "--output --output-directory"


def read(call: Call) -> Meaning:
    """What is known of a git command."""
    before, rest = _before(call.args)
    base = before.values(("-C",)) + before.values(("--work-tree",))
    reason = _runs_before(before)
    if not rest:
        paths = tuple(PathUse(word, "read") for word in before.values(("--git-dir",)))
        return Meaning(opaque=reason, paths=paths, read_only=not reason)
    name, args = rest[0], rest[1:]
    if not name.known:
        return Meaning(opaque="which git command it is shows only at run time")
    row = _row(name.text)
    parsed = parse(args, row)
    reason = reason or _runs(name.text, args)
    paths = [PathUse(word, "read") for word in before.values(("--git-dir",))]
    # Where it works is like ``cd``: what is used there is what counts.
    paths += _paths(name.text, args, parsed, Where(base, call.simple.folder))
    paths += [PathUse(word, "read", base=base) for word in parsed.values(row.reads)]
    if parsed.has(("--pathspec-from-file",)):
        paths.append(PathUse(UNKNOWN, "read"))
    if base:
        # The settings of a repository elsewhere can name programs.
        paths.append(PathUse(HERE, "list", base=base))
    for lines in parsed.values(("-L",)):
        paths.append(PathUse(part(lines, lines.text.rpartition(":")[2]), "read", base=base))
    writes = parsed.values(row.writes)
    paths += [PathUse(word, "write", full=True, base=base) for word in writes]
    shows = not writes and not parsed.unsure and _shows(name.text, args, parsed)
    paths += changed(name.text, call, before, parsed.operands, shows=shows)
    also = (
        (" ".join(["git", name.text, *([join(args)] if args else [])]),) if len(rest) < len(call.args) else ()
    )
    return Meaning(
        paths=tuple(paths),
        inner=_inner(name.text, args),
        opaque=reason,
        read_only=shows and not reason,
        also=also,
    )


def _before(args: Sequence[Word]) -> tuple[Parsed, tuple[Word, ...]]:
    at = 0
    while at < len(args) and args[at].text.startswith("-"):
        text = args[at].text
        at += 2 if text in _BEFORE.value and text != "--exec-path" else 1
    return parse(args[:at], _BEFORE), tuple(args[at:])


def _runs_before(before: Parsed) -> str:
    if before.has(_BEFORE_RUNS.split()):
        return "git -c and --exec-path can name programs that it runs"
    if before.has(("--git-dir",)):
        return "the settings of another repository can name programs that git runs"
    return "an expansion may be an option that names a program" if before.unsure else ""


def _runs(name: str, args: Sequence[Word]) -> str:
    if name in _RUNNING or name.startswith(("remote-", "credential-")):
        return f"git {name} runs programs"
    if name == "ls-files":
        # Here -o and -x choose what is listed.
        return ""
    texts = [word.text for word in args]
    end = texts.index("--") if "--" in texts else len(texts)
    if name in ("submodule", "bisect") and any(text in ("foreach", "run") for text in texts):
        return f"git {name} runs commands"
    if name == "rebase" and any(text in ("-i", "--interactive") for text in texts):
        return "git rebase -i opens an editor"
    if name == "config" and _sets(texts):
        return "git settings can name programs that git runs later"
    letters = _RUN_CLUSTERS.get(name, ())
    if letters and parse(args[:end], spec(None, value=f"-b -o -j {' '.join(letters)}")).has(letters):
        return f"git {name} {letters[0]} names a program that it runs"
    for text in texts[:end]:
        option = text.partition("=")[0]
        if text not in _ORDINARY.get(name, ()) and _names_program(name, text, option):
            return f"git {name} {option} names a program that it runs"
    return ""


def _names_program(name: str, text: str, option: str) -> bool:
    if name in ("rebase", "bisect") and option == "--exec":
        # Judged as a command of its own.
        return False
    if _RUN_LETTERS.fullmatch(text):
        return True
    if not option.startswith("--") or len(option) < 3:
        return False
    return any(full.startswith(option) for full in _RUN_OPTIONS) or (
        name == "clone" and "--config".startswith(option)
    )


_ORDINARY: dict[str, tuple[str, ...]] = {
    "clean": ("-x", "-xf", "-xfd", "-xdf", "-xd"),
    "switch": ("-c",),
    "commit": ("-c",),
    "cherry-pick": ("-x",),
    "show": ("-c",),
    "log": ("-c",),
    "diff": ("-c",),
    "status": (),
}
_CONFIG = spec(None, value="-f --file --blob --type")
_CONFIG_SHOWS = words(
    "-l --list --get --get-all --get-regexp --get-urlmatch --show-origin --show-scope get list"
)


def _sets(texts: Sequence[str]) -> bool:
    operands = [text for text in texts if not text.startswith("-")]
    return not any(text in _CONFIG_SHOWS for text in texts) and len(operands) != 1


def _row(name: str) -> Spec:
    reads, writes = words(_READ_FILES), words(_WRITE_FILES)
    if name in ("commit", "tag", "merge", "notes", "commit-tree"):
        reads |= words("-F --file" + (" -t --template" if name == "commit" else ""))
    if name == "grep":
        reads |= words("-f")
    if name in ("archive", "format-patch", "mailsplit"):
        writes |= words("-o")
    if name == "ls-files":
        writes = words("")
    return Spec(use=None, value=_VALUES.get(name, words("")), reads=reads, writes=writes)


_WALKING = words("grep archive diff diff-tree whatchanged checkout restore read-tree")
"""Here a folder in a revision means all that it holds."""
_NO_REVISION = words("clone fetch pull push remote ls-remote submodule config fetch-pack send-pack")
_COMPARING = words("diff log whatchanged blame annotate diff-index diff-files diff-tree")


def _paths(name: str, args: Sequence[Word], parsed: Parsed, where: Where) -> list[PathUse]:
    texts = [word.text for word in args]
    after = args[texts.index("--") + 1 :] if "--" in texts else ()
    before = parsed.operands[: len(parsed.operands) - len(after)]
    found = list(_of_name(name, args, before, after, where))
    if name not in _NO_REVISION:
        found += in_revisions(before, where, below=name in _WALKING)
    if _takes_everything(name, parsed, texts, bool(after)):
        found.append(PathUse(UNKNOWN, "read"))
    return found


def _takes_everything(name: str, parsed: Parsed, texts: Sequence[str], limited: bool) -> bool:
    """Whole trees, not as the person sees them in ``git show`` but to be kept or passed on."""
    if name == "archive":
        return not limited and len(parsed.operands) < 2 and not any(":" in w.text for w in parsed.operands)
    if name == "bundle":
        return "create" in texts
    if name == "worktree":
        return "add" in texts
    if name == "format-patch":
        return any(_abbreviates(text, "--stdout") for text in texts)
    if name == "checkout-index":
        return any(
            text == "-a" or _abbreviates(text, "--all") or _abbreviates(text, "--stdin") for text in texts
        )
    if name == "cat-file":
        batch = any(_abbreviates(text, "--batch") or text.startswith("--batch-") for text in texts)
        return batch or any(
            re.fullmatch(r"[0-9a-f]{4,64}", word.text) or not word.known for word in parsed.operands
        )
    return name == "fast-export"


def _abbreviates(text: str, full: str) -> bool:
    option = text.partition("=")[0]
    return len(option) > 2 and full.startswith(option)


def _of_name(
    name: str, args: Sequence[Word], before: tuple[Word, ...], after: Sequence[Word], where: Where
) -> Iterator[PathUse]:
    base, texts = where.base, [word.text for word in args]
    operands = (*before, *after)
    if name == "grep":
        yield from _searched(args, before, after, where)
    elif name in _COMPARING:
        outside = any(len(text) > 5 and "--no-index".startswith(text) for text in texts)
        files = tuple(word for word in before if ".." not in word.text or "/" in word.text)
        if outside:
            yield from (PathUse(word, "read", below=True, base=base) for word in (*files, *after))
        else:
            yield from pathspecs(() if after else _not_revisions(files), "read", where, seen=True)
            yield from pathspecs(after, "read", where)
    elif name in ("show", "archive"):
        yield from pathspecs(after or before[1:] if name == "archive" else after, "read", where)
    elif name in ("add", "stage"):
        yield from pathspecs(operands, "read", where, seen=True)
    elif name in ("checkout", "restore"):
        # Before ``--`` it may be a branch.
        files = before if name == "restore" else before[1:] or before
        plain = [
            word for word in files if word.text in (".", "..") or word.text.startswith((":", "./", "../"))
        ]
        yield from pathspecs(() if after else _not_revisions(files), "write", where, seen=True)
        yield from pathspecs((*plain, *after), "write", where)
    elif name in ("rm", "clean", "mv"):
        whole = name != "rm" or any(re.match(r"-[a-z]*r", text) for text in texts)
        yield from pathspecs(operands, "write", where, seen=not whole)
        if name == "mv":
            yield from pathspecs(operands[:-1], "read", where)
    elif name in ("apply", "am"):
        yield from (PathUse(word, "read", base=base) for word in operands)
        yield PathUse(HERE, "write", below=True, made=True, base=base)
    elif name == "clone":
        yield from (PathUse(w, "read", below=True, base=base) for w in operands[:1] if not _is_url(w.text))
        target = operands[1:2] or tuple(part(w, _clone_name(w.text)) for w in operands[:1])
        yield from (PathUse(word, "write", base=base) for word in target)
    elif name == "checkout-index":
        yield from _checked_out(args, operands, base)
    elif name == "init":
        yield from (PathUse(word, "write", base=base) for word in operands)
    elif name in ("worktree", "bundle"):
        yield from (PathUse(word, "write", base=base) for word in operands[1:2])
    elif name in ("hash-object", "check-ignore", "update-index", "ls-files", "ls-tree"):
        use = "list" if name.startswith(("ls-", "check")) else "read"
        yield from (PathUse(word, use, base=base) for word in (after or operands))
    elif name == "merge-file":
        shown = any(text == "-p" or _abbreviates(text, "--stdout") for text in texts)
        yield from (PathUse(word, "read", base=base) for word in operands)
        yield from (PathUse(word, "write", base=base) for word in (() if shown else operands[:1]))
    elif name == "interpret-trailers":
        changes = any(_abbreviates(text, "--in-place") for text in texts)
        yield from (PathUse(word, "read", base=base) for word in operands)
        yield from (PathUse(word, "write", base=base) for word in (operands if changes else ()))
    elif name == "commit":
        yield from (PathUse(word, "read", base=base) for word in operands)
    elif name == "config":
        yield from _configured(args, where)
    elif name not in _NO_PATHS and name not in _READING:
        files = [word for word in operands if not _is_url(word.text)]
        yield from (PathUse(word, use, base=base) for word in files for use in ("read", "write"))


def _not_revisions(words: Sequence[Word]) -> tuple[Word, ...]:
    return tuple(word for word in words if ":" not in word.text or word.text.startswith(":"))


def _searched(
    args: Sequence[Word], before: tuple[Word, ...], after: Sequence[Word], where: Where
) -> Iterator[PathUse]:
    """``git grep``: revisions and files. With only revisions, everything in them is searched."""
    given = parse(args, _row("grep")).has(("-e", "-f"))
    files = before if given else before[1:]
    if not given and not before:
        after = after[1:]
    if after:
        yield from pathspecs(after, "read", where)
        return
    paths = [word for word in files if not looks_like_revision(word) or word.text.startswith(":")]
    yield from pathspecs(paths, "read", where)
    if not paths and not any(":" in word.text for word in files):
        yield PathUse(HERE, "read", below=True, base=where.base)
    for word in paths:
        if word.known and not word.glob:
            # Only the disk tells a branch from a file.
            yield PathUse(HERE, "read", below=True, base=where.base, unless=word)


def _checked_out(args: Sequence[Word], operands: Sequence[Word], base: tuple[Word, ...]) -> Iterator[PathUse]:
    texts = [word.text for word in args]
    prefixes = [
        part(word, word.text.partition("=")[2])
        for word in args
        if _abbreviates(word.text, "--prefix") and "=" in word.text
    ]
    for word in prefixes:
        made = Word(word.text + "*", known=word.known, glob=True, source=word.source + "*")
        yield PathUse(made, "write", made=True, base=base)
    for word in operands:
        yield PathUse(word, "read", base=base)
        if not prefixes:
            yield PathUse(word, "write", base=base)
    if not prefixes and ("-a" in texts or any(_abbreviates(text, "--all") for text in texts)):
        yield PathUse(HERE, "write", below=True, made=True, base=base)


def _configured(args: Sequence[Word], where: Where) -> Iterator[PathUse]:
    texts = [word.text for word in args]
    given = parse(args, _CONFIG)
    files, sets = given.values(("-f", "--file")), _sets(texts)
    yield from (PathUse(word, "write" if sets else "read", base=where.base) for word in files)
    blobs = given.values(("--blob",))
    yield from in_revisions(blobs, where)
    if any(not word.known for word in blobs):
        yield PathUse(UNKNOWN, "read")
    if sets and not files:
        home = any(text in ("--global", "--system") for text in texts)
        own = Word("~/.gitconfig", tilde=True) if home else Word(".git/config")
        yield PathUse(own, "write", base=where.base)


def _is_url(text: str) -> bool:
    return re.match(r"[a-z+]+://|[\w.-]+@[\w.-]+:|[\w.-]+:(?!/)", text) is not None


def _clone_name(text: str) -> str:
    return re.sub(r"\.git$", "", text.rstrip("/")).rpartition("/")[2].rpartition(":")[2] or "."


_LISTS = {
    "branch": words(
        "-a -r -l -v -vv --list --all --remotes --verbose --show-current --contains --merged --no-merged"
    ),
    "tag": words("-l --list -n --contains --points-at"),
    "remote": words("-v --verbose show get-url"),
    "stash": words("list show"),
    "worktree": words("list"),
    "config": _CONFIG_SHOWS,
    "reflog": words("show"),
    "notes": words("list show"),
    "submodule": words("status summary"),
    "bisect": words("log"),
}


def _shows(name: str, args: Sequence[Word], parsed: Parsed) -> bool:
    if name in _READING:
        return True
    if name not in _LISTS:
        return False
    if not args:
        return name in ("branch", "tag", "remote", "reflog", "submodule", "notes")
    first = args[0].text
    if name in ("branch", "tag"):
        shown = all(word.text.partition("=")[0] in _LISTS[name] for word in args if word.text.startswith("-"))
        lists = any(word.text in ("--list", "-l", "--contains", "--points-at") for word in args)
        return shown and (lists or not parsed.operands) and all(word.known for word in args)
    if name == "config":
        return first in _CONFIG_SHOWS
    return first in _LISTS[name]


def _inner(name: str, args: Sequence[Word]) -> tuple[str, ...]:
    if name != "rebase":
        return ()
    found = parse(args, spec(None, value="-x --exec --onto -s -X")).values(("-x", "--exec"))
    return tuple(word.text for word in found if word.known)
