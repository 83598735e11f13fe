"""git: which files its sub-commands use, and which words make it run programs of the caller's choice."""

from __future__ import annotations

import re
from collections.abc import Sequence

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

# Git takes unambiguous beginnings of long options.
_RUNS = re.compile(
    r"--ext|--ext-.*|--extc.*|--exec.*|--open-?f?i?l?e?s?.*|--upload-p.*|--receive-p.*|--textconv=.*|-x.*|-O.+|"
    r"--extcmd.*|--tool.*|--smtp-server.*|--sendmail-cmd.*|--to-cmd.*|--cc-cmd.*|--tree-filter.*|--index-filter.*|"
    r"--msg-filter.*|--env-filter.*|--commit-filter.*|--parent-filter.*|--template.*|-c"
)
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
    "filter-branch send-email instaweb difftool mergetool daemon http-backend shell web--browse fast-import"
)
_NO_PATHS = words(
    "commit push fetch pull tag branch merge rebase cherry-pick revert remote config stash notes gc prune fsck reflog "
    "bisect rev-parse rev-list merge-base describe name-rev var version help symbolic-ref update-ref pack-refs repack "
    "archive shortlog for-each-ref show-ref ls-remote count-objects switch lfs maintenance interpret-trailers"
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
    paths += _paths(name.text, args, parsed, base)
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
    also = (
        (" ".join(["git", name.text, *([join(args)] if args else [])]),) if len(rest) < len(call.args) else ()
    )
    return Meaning(
        paths=tuple(paths),
        inner=_inner(name.text, args),
        opaque=reason,
        read_only=not reason and not writes and not parsed.unsure and _shows(name.text, args, parsed),
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
    if name in _RUNNING:
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
    for text in texts[:end]:
        ordinary = text in _ORDINARY.get(name, ())
        if (
            not ordinary
            and _RUNS.fullmatch(text)
            and not (name in ("rebase", "bisect") and text.startswith("--exec"))
        ):
            return f"git {name} {text.partition('=')[0]} names a program that it runs"
    return ""


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
_CONFIG_SHOWS = words(
    "-l --list --get --get-all --get-regexp --get-urlmatch --show-origin --show-scope get list"
)


def _sets(texts: Sequence[str]) -> bool:
    operands = [text for text in texts if not text.startswith("-")]
    return not any(text in _CONFIG_SHOWS for text in texts) and len(operands) != 1


def _row(name: str) -> Spec:
    reads, writes = words(_READ_FILES), words(_WRITE_FILES)
    if name in ("commit", "tag", "merge", "notes"):
        reads |= words("-F --file" + (" -t --template" if name == "commit" else ""))
    if name == "grep":
        reads |= words("-f")
    if name in ("archive", "format-patch"):
        writes |= words("-o")
    if name == "ls-files":
        writes = words("")
    return Spec(use=None, value=_VALUES.get(name, words("")), reads=reads, writes=writes)


_REV_PATH = re.compile(r"([^:]*):(?!/)(.+)", re.DOTALL)


def _paths(name: str, args: Sequence[Word], parsed: Parsed, base: tuple[Word, ...]) -> list[PathUse]:
    found: list[PathUse] = []
    texts = [word.text for word in args]
    after = args[texts.index("--") + 1 :] if "--" in texts else ()
    operands = parsed.operands
    if name in ("show", "cat-file", "log", "diff", "blame", "archive", "rev-parse", "checkout"):
        for word in operands:
            if revision := _REV_PATH.fullmatch(word.text):
                # A path in a revision counts from the root of the repository unless it begins with a dot.
                found.append(PathUse(part(word, revision[2]), "read", base=base))
    if name == "show" and not any(":" in word.text for word in operands):
        found += [PathUse(word, "read", below=True, maybe=True, seen=True, base=base) for word in after]
    elif name in ("diff", "log", "whatchanged", "blame", "annotate", "diff-index", "diff-files", "grep"):
        files = after or tuple(word for word in operands if ".." not in word.text or "/" in word.text)
        if name == "grep" and not parsed.has(("-e",)) and not after:
            files = files[1:]
        outside = parsed.has(("--no-index",))
        found += [
            PathUse(w, "read", below=True, maybe=not outside, seen=not outside, base=base) for w in files
        ]
        found += [PathUse(HERE, "read", below=True, base=base)] if name == "grep" and not files else []
    elif name in ("add", "stage"):
        found += [PathUse(word, "read", below=True, maybe=True, seen=True, base=base) for word in operands]
    elif name in ("checkout", "restore"):
        files = after or (operands if name == "restore" else operands[1:] or operands)
        found += [PathUse(word, "write", below=True, maybe=True, seen=True, base=base) for word in files]
    elif name in ("rm", "clean"):
        found += [PathUse(word, "write", below=True, maybe=True, seen=True, base=base) for word in operands]
    elif name == "mv":
        found += [PathUse(word, "write", below=True, maybe=True, seen=True, base=base) for word in operands]
        found += [PathUse(word, "read", below=True, maybe=True, base=base) for word in operands[:-1]]
    elif name in ("apply", "am"):
        found += [PathUse(word, "read", base=base) for word in operands]
        found += [PathUse(HERE, "write", below=True, made=True, base=base)]
    elif name == "clone":
        found += [PathUse(w, "read", below=True, base=base) for w in operands[:1] if not _is_url(w.text)]
        target = operands[1:2] or tuple(part(w, _clone_name(w.text)) for w in operands[:1])
        found += [PathUse(word, "write", base=base) for word in target]
    elif name == "archive":
        found += [
            PathUse(word, "read", below=True, maybe=True, seen=True, base=base) for word in operands[1:]
        ]
    elif name == "init":
        found += [PathUse(word, "write", base=base) for word in operands]
    elif name in ("worktree", "bundle"):
        found += [PathUse(word, "write", base=base) for word in operands[1:2]]
    elif name in ("hash-object", "check-ignore", "update-index", "merge-file", "ls-files", "ls-tree"):
        use = "write" if name == "merge-file" else "list" if name.startswith(("ls-", "check")) else "read"
        found += [PathUse(word, use, base=base) for word in (after or operands)]
    elif name == "commit":
        found += [PathUse(word, "read", base=base) for word in operands]
    elif name == "config":
        found += [PathUse(w, "read" if not _sets(texts) else "write") for w in _config_files(args)]
        if _sets(texts) and not _config_files(args):
            home = any(text in ("--global", "--system") for text in texts)
            found.append(
                PathUse(Word("~/.gitconfig", tilde=True) if home else Word(".git/config"), "write", base=base)
            )
    elif name not in _NO_PATHS and name not in _READING:
        found += [
            PathUse(w, use, base=base) for w in operands if not _is_url(w.text) for use in ("read", "write")
        ]
    return found


def _config_files(args: Sequence[Word]) -> tuple[Word, ...]:
    return parse(args, spec(None, value="-f --file --blob --type")).values(("-f", "--file"))


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
