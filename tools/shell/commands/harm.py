"""What a command destroys for good, in words for the person."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence

from tools.shell.commands.words import Call, words

_Check = Callable[[Sequence[str]], str]


def warning(call: Call) -> str:
    """What cannot be taken back; empty when nothing is known to be."""
    texts = [word.text for word in call.args]
    if call.name == "git":
        return _git(texts)
    if call.name.startswith("mkfs"):
        return "mkfs destroys everything on a device"
    check = _CHECKS.get(call.name)
    return check(texts) if check is not None else ""


def _flag(texts: Sequence[str], letters: str, *longs: str) -> bool:
    """Whether one of the options is given, letters also in a cluster; nothing after ``--`` is an option."""
    for text in texts:
        if text == "--":
            return False
        if text.startswith("--"):
            name = text.partition("=")[0]
            if any(long == name or (len(name) > 4 and long.startswith(name)) for long in longs):
                return True
        elif text.startswith("-") and any(letter in text[1:] for letter in letters):
            return True
    return False


def _git(texts: Sequence[str]) -> str:
    rest = list(texts)
    while rest and rest[0].startswith("-"):
        takes = rest[0] in ("-c", "-C", "--git-dir", "--work-tree", "--namespace", "--config-env")
        rest = rest[2 if takes else 1 :]
    if not rest:
        return ""
    name, args = rest[0], rest[1:]
    check = _GIT.get(name)
    return check(args) if check is not None else ""


def _reset(args: Sequence[str]) -> str:
    if _flag(args, "", "--hard", "--merge", "--keep"):
        return "git reset --hard throws away changes that are not committed"
    return ""


def _checkout(args: Sequence[str]) -> str:
    operands = [text for text in args if not text.startswith("-")]
    if _flag(args, "f", "--force"):
        return "git checkout --force throws away changes that are not committed"
    if "--" in args or "." in operands or _flag(args, "", "--theirs", "--ours", "--pathspec-from-file"):
        return "git checkout of files throws away their changes that are not committed"
    if not _flag(args, "bB", "--orphan", "--track") and len(operands) > 1:
        return "git checkout of files throws away their changes that are not committed"
    # A plain name may be a branch; what looks like a file is one.
    if any(re.search(r"\.\w{1,5}$|^\.{0,2}/", text) for text in operands):
        return "git checkout of files throws away their changes that are not committed"
    if _flag(args, "B"):
        return "git checkout -B moves a branch and may lose commits"
    return ""


def _restore(args: Sequence[str]) -> str:
    if _flag(args, "S", "--staged") and not _flag(args, "W", "--worktree"):
        return ""
    return "git restore throws away changes that are not committed"


def _switch(args: Sequence[str]) -> str:
    if _flag(args, "fC", "--force", "--discard-changes", "--force-create"):
        return "git switch with these options throws away changes"
    return ""


def _clean(args: Sequence[str]) -> str:
    if _flag(args, "n", "--dry-run"):
        return ""
    return "git clean deletes files that git does not know"


def _push(args: Sequence[str]) -> str:
    if _flag(args, "f", "--force", "--force-with-lease", "--force-if-includes", "--mirror"):
        return "git push --force overwrites commits on the other side"
    if _flag(args, "d", "--delete", "--prune") or any(re.match(r":.", text) for text in args):
        return "git push deletes branches or tags on the other side"
    if any(text.startswith("+") for text in args):
        return "git push +ref overwrites commits on the other side"
    if _flag(args, "n", "--dry-run"):
        return ""
    return "git push sends commits to a server: others may have them at once"


def _branch(args: Sequence[str]) -> str:
    if _flag(args, "D") or (_flag(args, "d", "--delete") and _flag(args, "f", "--force")):
        return "git branch -D deletes a branch, also when its commits are nowhere else"
    if _flag(args, "MCf", "--force"):
        return "git branch with force overwrites a branch"
    return ""


def _tag(args: Sequence[str]) -> str:
    if _flag(args, "d", "--delete"):
        return "git tag -d deletes a tag"
    return "git tag -f moves a tag" if _flag(args, "f", "--force") else ""


def _stash(args: Sequence[str]) -> str:
    if args[:1] and args[0] in ("drop", "clear"):
        return f"git stash {args[0]} throws away stashed changes"
    return ""


def _says(text: str, *when: str) -> _Check:
    """A warning always, or when the first word is one of ``when``."""
    return lambda args: text if not when or (bool(args) and args[0] in when) else ""


def _gc(args: Sequence[str]) -> str:
    prunes = any(re.match(r"--prune=(?:now|all)|--aggressive", text) for text in args)
    return "git gc --prune deletes commits that nothing points to" if prunes else ""


def _rebase(args: Sequence[str]) -> str:
    if args[:1] and args[0] in ("--abort", "--quit", "--show-current-patch"):
        return "git rebase --abort throws away what was done in the rebase" if args[0] == "--abort" else ""
    return "git rebase rewrites commits"


def _commit(args: Sequence[str]) -> str:
    return "git commit --amend replaces the last commit" if _flag(args, "", "--amend") else ""


_GIT: dict[str, _Check] = {
    "reset": _reset,
    "checkout": _checkout,
    "restore": _restore,
    "switch": _switch,
    "clean": _clean,
    "push": _push,
    "branch": _branch,
    "tag": _tag,
    "stash": _stash,
    "rebase": _rebase,
    "gc": _gc,
    "commit": _commit,
    "filter-branch": _says("git filter-branch rewrites the whole history"),
    "filter-repo": _says("git filter-repo rewrites the whole history"),
    "replace": _says("git replace changes what commits mean"),
    "prune": _says("git prune deletes commits that nothing points to"),
    "reflog": _says("git reflog expire removes the way back to lost commits", "expire", "delete"),
    "worktree": _says("git worktree remove deletes a folder", "remove", "prune"),
    "remote": _says("git remote remove forgets a remote and its branches", "remove", "rm", "prune"),
    "submodule": _says("git submodule deinit deletes a folder", "deinit"),
    "read-tree": _says("git read-tree overwrites the index"),
    "checkout-index": _says("git checkout-index overwrites files"),
    "update-ref": lambda args: "git update-ref -d deletes a reference" if _flag(args, "d", "--stdin") else "",
    "rm": lambda args: "git rm -f deletes changed files" if _flag(args, "fr", "--force") else "",
}


def _rm(args: Sequence[str]) -> str:
    if _flag(args, "rR", "--recursive"):
        return "rm -r deletes folders with everything in them"
    operands = [text for text in args if not text.startswith("-")]
    if len(operands) > 5 or any(re.search(r"[*?\[{$`]", text) for text in operands):
        return "rm deletes many files"
    return "rm -f deletes files without asking" if _flag(args, "f", "--force") else ""


def _find(args: Sequence[str]) -> str:
    return "find -delete deletes every file that it finds" if "-delete" in args else ""


def _dd(args: Sequence[str]) -> str:
    writes = next((text for text in args if text.startswith("of=") and text != "of=/dev/null"), "")
    return f"dd {writes} overwrites what is there" if writes else ""


def _recursive(text: str) -> _Check:
    return lambda args: text if _flag(args, "R", "--recursive") else ""


def _kill(args: Sequence[str]) -> str:
    if (
        any(text in ("-9", "-KILL", "-SIGKILL", "-s9") for text in args)
        or "KILL" in args
        or "SIGKILL" in args
    ):
        return "kill -9 ends a program without letting it save"
    return "kill ends every program of the user" if "-1" in args[1:] else ""


def _crontab(args: Sequence[str]) -> str:
    return "crontab -r deletes all timed commands" if _flag(args, "r") else ""


def _docker(args: Sequence[str]) -> str:
    operands = [text for text in args if not text.startswith("-")]
    if "prune" in operands[:2]:
        return "docker prune deletes images, containers or volumes"
    if (operands[:1] and operands[0] in ("rm", "rmi")) or operands[:2] == ["volume", "rm"]:
        return "docker rm deletes containers, images or volumes"
    return (
        "docker compose down -v deletes volumes"
        if "down" in operands and _flag(args, "v", "--volumes")
        else ""
    )


def _publishes(name: str, *commands: str) -> _Check:
    return lambda args: (
        f"{name} publishes for everybody" if any(word in args[:2] for word in commands) else ""
    )


def _curl(args: Sequence[str]) -> str:
    """What sends something: data, files, or another method than GET."""
    sends = re.compile(r"-[sSfLkvig]*[dFT].*|--(?:data.*|json.*|form.*|upload-f.*)")
    methods = [b for a, b in itertools.pairwise(args) if re.fullmatch(r"-[sSfLkvig]*X|--request", a)]
    methods += [
        found[1] for a in args if (found := re.fullmatch(r"-[sSfLkvig]*X(.+)|--request=(.+)", a)) and found[1]
    ]
    if any(map(sends.fullmatch, args)) or any(
        method.upper() not in ("GET", "HEAD", "OPTIONS") for method in methods
    ):
        return "curl sends data to a server"
    return ""


def _wget(args: Sequence[str]) -> str:
    sends = any(re.match(r"--(?:post|body|method=(?!GET|HEAD))", text) for text in args)
    return "wget sends data to a server" if sends else ""


_GH_SENDS = words("create comment edit review reopen upload run set rerun")


def _gh(args: Sequence[str]) -> str:
    operands = [text for text in args if not text.startswith("-")]
    if operands[1:2] and operands[1] in (
        "create",
        "comment",
        "edit",
        "review",
        "reopen",
        "upload",
        "run",
        "set",
        "rerun",
    ):
        return f"gh {operands[0]} {operands[1]} sends something to a server: others see it at once"
    if operands[:1] == ["api"] and any(
        re.match(r"-[XfF]|--(?:method|field|raw-field|input)", text) for text in args
    ):
        return "gh api changes something on a server"
    if len(args) > 1 and args[1] in ("delete", "merge", "close", "archive", "transfer"):
        return f"gh {args[0]} {args[1]} changes what others see"
    return "gh release publishes for everybody" if args[:1] == ["release"] and args[1:2] == ["create"] else ""


def _cluster(args: Sequence[str]) -> str:
    return (
        "it deletes things in a cluster"
        if any(word in args[:3] for word in ("delete", "drain", "uninstall"))
        else ""
    )


def _terraform(args: Sequence[str]) -> str:
    if any(text in ("destroy", "apply") for text in args[:2]):
        return f"it changes real infrastructure ({' '.join(args[:1])})"
    return ""


def _rsync(args: Sequence[str]) -> str:
    deletes = any(text.startswith(("--del", "--remove-source")) for text in args)
    return "rsync --delete deletes files that the source does not have" if deletes else ""


def _goalwright(args: Sequence[str]) -> str:
    return "it talks to Goalwright itself, which asks for permissions"


_CHECKS: dict[str, _Check] = {
    "rm": _rm,
    "find": _find,
    "dd": _dd,
    "kill": _kill,
    "crontab": _crontab,
    "rsync": _rsync,
    "gh": _gh,
    "glab": _gh,
    "curl": _curl,
    "wget": _wget,
    "shred": _says("shred destroys the content of files"),
    "truncate": _says("truncate cuts off the content of files"),
    "wipefs": _says("wipefs destroys what is on a device"),
    "fdisk": _says("fdisk changes the partitions of a device"),
    "parted": _says("parted changes the partitions of a device"),
    "chmod": _recursive("chmod -R changes the rights of everything below a folder"),
    "chown": _recursive("chown -R changes the owner of everything below a folder"),
    "chgrp": _recursive("chgrp -R changes the group of everything below a folder"),
    **dict.fromkeys(words("pkill killall"), _says("it ends every program of that name")),
    **dict.fromkeys(words("shutdown reboot halt poweroff"), _says("it stops the computer")),
    **dict.fromkeys(words("docker podman nerdctl docker-compose"), _docker),
    **dict.fromkeys(words("kubectl oc helm"), _cluster),
    **dict.fromkeys(words("terraform tofu pulumi"), _terraform),
    **dict.fromkeys(words("goalwright goalwright-daemon"), _goalwright),
    "npm": _publishes("npm publish", "publish", "unpublish"),
    "pnpm": _publishes("pnpm publish", "publish"),
    "yarn": _publishes("yarn publish", "publish"),
    "twine": _publishes("twine upload", "upload"),
    "cargo": _publishes("cargo publish", "publish", "yank"),
    "gem": _publishes("gem push", "push", "yank"),
    "uv": _publishes("uv publish", "publish"),
    "poetry": _publishes("poetry publish", "publish"),
    "hatch": _publishes("hatch publish", "publish"),
    "vsce": _publishes("vsce publish", "publish"),
    "systemctl": _says(
        "it stops or changes a service", "stop", "disable", "mask", "poweroff", "reboot", "kill"
    ),
    "dropdb": _says("dropdb deletes a database"),
}
