"""From a command line to the question for the permission service: the one way, for the tool and for tests."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tools.access import Access, Suggestion, suggestions
from tools.localization import t
from tools.paths import folder_patterns
from tools.shell.accesses import CommandPlace, Paths, is_network
from tools.shell.bash_words import Word, names
from tools.shell.command_effects import Meaning, meaning
from tools.shell.command_line import Redirection, Simple
from tools.shell.options import HERE, PathUse, join
from tools.shell.syntax import parse
from tools.text.terminal import LONGEST_TITLE, shown_brief
from tools.tool import PermissionAsk

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

MAX_DEPTH = 5
"""Lines within lines: ``bash -c "bash -c '…'"``."""
MAX_ACCESSES = 5000
_SHELL = "sh -c "
MAX_GUESSES = 500
MAX_WARNED = 8
"""Commands that are named in one warning."""
_SEPARATORS = re.compile(r"[\n;&|()`#]|[<>]+")
_UNQUOTED = str.maketrans({"{": " ", "}": " ", "\\": None, "'": None, '"': None, "$": None})
_WILD = re.compile(r"[*?]")
# In dash and similar shells "[[" and "((" are no tests but commands and redirections, ".*" means "..", too, and
# "$'" is no quote.
_NOT_BASH = re.compile(
    r"\[\[(?![:.=])|(?<!\$)\(\(|(?:^|[\s/])['\"\\]*\.['\"\\.]*(?:[*?]|\[(?!(?:!\.|(?:a-z|A-Z|0-9|\w)+)\]))|\$'"
)
_QUOTED = re.compile(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"|\\.", re.DOTALL)
_SPECIAL = str.maketrans("*?[($", "_____")
_NESTS = re.compile(r"`|\$[({]|<<|(?<![^\s;&|()<>])#")
"""Substitutions, here-documents and comments: where quotes begin and end in these is not clear."""
_BASH = names("bash rbash")
_BUILTINS = names(
    ": . [ alias bg bind break builtin caller cd command compgen complete compopt continue declare dirs disown echo "
    "enable eval exec exit export false fc fg getopts hash help history jobs kill let local logout mapfile popd printf "
    "pushd pwd read readarray readonly return set shift shopt source suspend test times trap true type typeset ulimit "
    "umask unalias unset wait"
)
_BY_SHELL = names("eval trap")
"""Commands whose lines the shell reads that reads the command."""
# Patterns have no escape, so a wildcard in the command would be one in the pattern. A variable (``$_`` above all) makes
# the same text another command.
_NOT_EXACT = re.compile(r"[*?\\$`]")


def question(command: str, place: CommandPlace, *, model_says: str = "") -> PermissionAsk:
    """Return the question about a command line. Never raises; a line that cannot be parsed is an opaque access.

    ``targets`` are the texts of all simple commands, including those that other commands run. A command whose words may
    do more than its general beginning says is among the accesses, too, so that a grant of ``git log *`` does not allow
    ``git log --output=x``, while a rule that the user wrote in a file does.
    """
    line = command.strip()
    found = _Question(place)
    if not place.has_bash:
        found.foreign(_SHELL + line, line)
    found.line(line, place.workspace, 0, place.variables | {"HOME": place.home.as_posix()})
    targets = tuple(found.targets) or (_SHELL + line,)
    return PermissionAsk(
        permission="bash",
        targets=targets,
        title=t("Run {line}", line=shown_brief(line, LONGEST_TITLE)),
        suggestions=found.suggestions(targets),
        detail=command,
        model_says=model_says.strip(),
        accesses=found.all_accesses(),
        warnings=found.told_warnings(line),
        read_only=found.read_only and bool(found.targets),
        unread=frozenset(found.unread),
    )


class _Question:
    def __init__(self, place: CommandPlace) -> None:
        self._paths = Paths(place)
        self.targets: dict[str, str] = {}
        """Each with the beginning that may be generalised."""
        self.accesses: dict[Access, None] = {}
        self.warnings: dict[str, dict[str, None]] = {}
        """Each with the commands that it is about."""
        self.read_only = True
        self.unread: set[str] = set()
        self._hidden = False
        self._by_bash = place.has_bash
        """Whether bash reads the line of the moment."""
        self._inside: set[Path] = set()

    def line(self, line: str, folder: Path | None, depth: int, variables: dict[str, str]) -> None:
        """A whole line and all that it runs."""
        if depth > MAX_DEPTH:
            self._opaque(_SHELL + line, t("it nests command lines too deeply"))
            return
        if folder is not None:
            variables = variables | {"PWD": folder.as_posix()}
        parsed = parse(line, variables)
        if parsed.unclear:
            self.targets.setdefault(_SHELL + line, "")
            self._opaque(_SHELL + line, t("too complex to analyze: {unclear}", unclear=parsed.unclear))
            self._guesses(line, folder)
        # A variable that the line assigns may have another value in the lines that it runs.
        kept = {name: value for name, value in variables.items() if not _assigned(name, line)}
        for simple in parsed.commands:
            self._command(simple, folder, depth, kept, builtins=_BUILTINS if self._by_bash else frozenset())

    def foreign(self, text: str, line: str) -> None:
        """Look at a line that another shell than bash may read; ``text``: the command that runs it."""
        seen = line if _NESTS.search(line) else _QUOTED.sub(lambda one: one[0].translate(_SPECIAL), line)
        if _NOT_BASH.search(seen):
            self._opaque(text, t("other shells than bash read it differently"))

    def _guesses(self, line: str, folder: Path | None) -> None:
        """Add accesses that an unclear line may make, split in the simplest way: only rules that deny them count."""
        for piece in _SEPARATORS.split(line)[:MAX_GUESSES]:
            words = [Word(text, source=text) for text in piece.translate(_UNQUOTED).split()]
            while words and re.fullmatch(r"(?:\w+=.*|!|time|coproc|\{|if|then|do|else|-.*)", words[0].text):
                value = words.pop(0).text.partition("=")[2]
                words = [Word(value, source=value)] if value and not words else words
            before = dict(self.accesses)
            if words:
                self._through(Simple(tuple(words), text=join(words)), folder, MAX_DEPTH - 1, "the line")
            for word in words:
                # The quotes in it are no longer known.
                wild = Word(
                    word.text, glob=_WILD.search(word.text) is not None or "[" in word.text, source="'"
                )
                why = t("a word of the command line")
                self.accesses |= dict.fromkeys(self._paths.of_use(PathUse(wild, "read"), folder, why))
            found = [access for access in self.accesses if access not in before]
            self.accesses = before | {
                Access(one.permission, one.target, one.why, implied=True, several=one.several): None
                for one in found
            }

    def _through(self, inside: Simple, base: Path | None, depth: int, text: str) -> None:
        """Add a command that runs through another one: rules that deny it apply, but it asks no question of its own."""
        before = dict(self.targets), self.read_only, set(self.unread)
        known = dict(self.accesses)
        self._command(inside, base, depth, {})
        self.accesses = {each: None for each in self.accesses if each in known or not each.beyond}
        found = [target for target in self.targets if target not in before[0]]
        self.targets, self.read_only, self.unread = before
        for target in found:
            self.accesses.setdefault(Access("bash", target, t("run by {text}", text=text), implied=True))
        self.accesses.setdefault(Access("bash", inside.text, t("run by {text}", text=text), implied=True))

    def _command(
        self,
        command: Simple,
        base: Path | None,
        depth: int,
        variables: dict[str, str],
        *,
        builtins: frozenset[str] = frozenset(),
    ) -> None:
        """A command and all that it runs. ``builtins``: those of the shell that runs it."""
        known = meaning(command)
        folder = self._paths.folder(base, command.folder)
        text = command.text or join(command.words)
        if command.words:
            previous = self.targets.get(text, known.general)
            self.targets[text] = known.general if previous == known.general else ""
        if known.read_only and known.repository is not None:
            runs = self._paths.runs_of_repository(folder, known.repository)
            known = replace(known, read_only=not runs)
        name = command.words[0].text if known.read_only and command.words else ""
        if name and name not in builtins and self._paths.is_own_program(name, folder):
            known = replace(known, read_only=False)
        self.read_only = self.read_only and known.read_only
        if command.words and not known.read_only and not (known.glue and command.words[0].text != "export"):
            self.unread.add(text)
        self._judge(command, text, known)
        if command.words and (known.plain or known.glue) and not known.opaque:
            self.accesses.setdefault(Access("bash", text, plain=known.plain, glue=known.glue))
        self._elsewhere(folder, text)
        for redirection in command.redirections:
            self._redirect(redirection, folder)
        for use in known.paths:
            why = t("argument of {text}", text=command.words[0].text if command.words else text)
            self.accesses |= dict.fromkeys(self._paths.of_use(use, folder, why))
        for inner in known.inner:
            if isinstance(inner, str):
                name, before = command.words[0].text.rpartition("/")[2], self._by_bash
                self._by_bash = name in _BASH or (name in _BY_SHELL and before)
                if not self._by_bash:
                    self.foreign(text, inner)
                self.line(inner.strip(), folder, depth + 1, variables)
                self._by_bash = before
            elif inner and depth < MAX_DEPTH:
                self._command(_of_words(inner, command), base, depth + 1, variables)
            elif inner:
                self._opaque(text, t("it nests commands too deeply"))

        for words in known.through:
            inside = _of_words(words, command)
            if not words or depth >= MAX_DEPTH:
                self._opaque(text, t("it nests commands too deeply"))
                continue
            self._through(inside, base, depth + 1, text)

    def _elsewhere(self, folder: Path | None, text: str) -> None:
        """A command that runs outside of the workspace finds its settings and programs there."""
        if folder is not None and text and folder not in self._inside:
            for access in self._paths.of_use(
                PathUse(HERE, "list"), folder, t("the folder in which {text} runs", text=text)
            ):
                if access.target.startswith("/"):
                    self.accesses.setdefault(access)
                else:
                    self._inside.add(folder)

    def _judge(self, command: Simple, text: str, known: Meaning) -> None:
        for also in known.also:
            self.accesses.setdefault(Access("bash", also, t("the same as {text}", text=text), implied=True))
        if known.opaque:
            self._opaque(text, known.opaque, plain=known.plain)
        if known.more:
            self.accesses.setdefault(Access("bash", text, known.more, beyond=True, plain=known.plain))
        if known.warning:
            self.warnings.setdefault(known.warning, {}).setdefault(text)
        words = (*command.words, *(redirection.target for redirection in command.redirections))
        if any(is_network(word) for word in words):
            self._opaque(text or "sh", t("/dev/tcp opens a network connection"))

    def _redirect(self, redirection: Redirection, folder: Path | None) -> None:
        target = redirection.target
        why = f"{redirection.operator} {target.source or target.text}"
        if redirection.writes:
            written = dict.fromkeys(self._paths.of_redirection(target, folder, "write", why))
            self.read_only = self.read_only and not written
            self.accesses |= written
        if redirection.reads:
            self.accesses |= dict.fromkeys(self._paths.of_redirection(target, folder, "read", why))

    def _opaque(self, text: str, reason: str, *, plain: str = "") -> None:
        self._hidden = True
        self.read_only = False
        self.accesses.setdefault(Access("bash", text, opaque=reason, plain=plain))

    def told_warnings(self, line: str) -> tuple[str, ...]:
        """Return the warnings, each with its commands where these are only a part of ``line``."""
        told: list[str] = []
        for warning, texts in self.warnings.items():
            named = [shown_brief(text, LONGEST_TITLE) for text in tuple(texts)[:MAX_WARNED]]
            more = [t("and {count} more", count=len(texts) - len(named))] if len(texts) > len(named) else []
            told.append(warning if tuple(texts) == (line,) else f"{warning}: {'; '.join(named + more)}")
        return tuple(told)

    def all_accesses(self) -> tuple[Access, ...]:
        """Return all accesses found; if there are too many, the rest is "anything"."""
        found = tuple(self.accesses)
        if len(found) <= MAX_ACCESSES:
            return found
        asked = tuple(access for access in found if not access.implied)
        kinds = dict.fromkeys(
            access.permission for access in found if access.implied and access.permission != "bash"
        )
        named = tuple(access for access in found if access.implied and access.permission == "bash")
        anything = tuple(Access(kind, "*", t("too many files"), implied=True, several=True) for kind in kinds)
        return asked + named + anything

    def suggestions(self, targets: Sequence[str]) -> tuple[Suggestion, ...]:
        """Return the suggestions for "always"; none when a part of the command must not be remembered."""
        if self._hidden:
            return ()
        patterns = [self._pattern(target) for target in targets]
        asked = [access for access in self.accesses if not access.implied]
        if not all(patterns):
            return ()
        files = tuple(access for access in asked if access.permission == "edit")
        folders = folder_patterns([access.target for access in files])
        if any(access.several for access in files) or (files and not folders):
            return ()
        found = (*suggestions("bash", tuple(dict.fromkeys(patterns))), *suggestions("edit", folders))
        return (*found, *suggestions("external_directory", self._outside()))

    def _outside(self) -> tuple[str, ...]:
        """Folders outside of the workspace that arguments name; the judge asks about these as file tools do."""
        found: dict[str, None] = {}
        for access in self.accesses:
            if not access.implied or access.permission == "bash" or not access.target.startswith("/"):
                continue
            plain = _WILD.split(access.target, maxsplit=1)[0] if access.several else access.target
            folder = plain if access.permission == "ls" and not access.several else plain.rpartition("/")[0]
            if folder.strip("/") and not _NOT_EXACT.search(folder):
                found.setdefault(f"{folder}/*")
        return tuple(found)

    def _pattern(self, text: str) -> str:
        # A path outside the workspace may be another program tomorrow.
        name = text.split(" ")[0]
        if name in ("sh", "~") or name.startswith(("/", "~/")) or ".." in name.split("/"):
            return ""
        prefix = self.targets.get(text, "")
        if prefix and f"{text} ".startswith(f"{prefix} "):
            return f"{prefix} *"
        return "" if _NOT_EXACT.search(text) else text


def _of_words(words: Sequence[Word], outer: Simple) -> Simple:
    """Return the command that another one runs."""
    return Simple(tuple(words), text=join(words), folder=outer.folder, stdin=outer.stdin)


def _assigned(name: str, line: str) -> bool:
    return re.search(rf"(?<![$\w])(?<!\$\{{){re.escape(name)}\b", line) is not None
