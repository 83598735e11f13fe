"""A command line as tree-sitter-bash parses it: the simple commands it would run, in which folders. Pure.

Any uncertainty makes the whole line ``unclear``, never a guess; the commands that were found are listed all the same,
so that a rule that denies one still applies. The grammar and bash differ in places (comments, here-documents, ``time``,
blanks after a backslash), so each byte of the line must be accounted for: between the nodes that are understood there
may be only blanks, and each word is read once more (see ``words``).
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from tools.localization import t
from tools.shell.bash_words import UnclearError, Word, is_number, names
from tools.shell.command_line import Folders, ParsedLine, Redirection, Simple, Ways, join, moved, shown_word
from tools.shell.environment import (
    DECLARES,
    SETS_NAMES,
    assigned_by_shell,
    changes_later,
    changes_shell,
    decides,
    may_hold_code,
)
from tools.shell.nodes import LINES, PLACES, STATEMENTS, NodeReader, parsed
from tools.shell.redirections import Redirections

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tree_sitter import Node

MAX_LENGTH = 64 * 1024
"""Bytes. A longer line is too long to read before approving it."""
MAX_COMMANDS = 5000
MAX_LIST = 2000

# bash treats these as letters of a word; other programs treat them as blanks or nothing, or reorder displayed text.
_CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200c\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]"
)
# Possessive, and words only from their start, so that a long word is scanned once instead of once per letter.
_DEEP = re.compile(r"(?:(?:[({`!]|\[\[|\$\(|\$\{|<<\w*+|if|while|\{|\"|1\+|(?<!\w)\w++:-)[ \t]*+){300}")


def parse(line: str, variables: Mapping[str, str] | None = None) -> ParsedLine:
    """Take a command line apart, as ``bash -c`` reads it. ``variables``: values that are known, e.g. HOME and PWD.

    Never raises.
    """
    if _CONTROL.search(line):
        return ParsedLine((), t("it contains control characters"))
    if "\\\n" in line and not re.search(r"['#]|<<|\\\\\n|[;&|<>()$]\\\n|\\\n[;&|<>()]", line):
        # Outside quotes and comments, bash removes these before it parses anything.
        line = line.replace("\\\n", "")
    try:
        raw = line.encode()
    except UnicodeEncodeError:
        return ParsedLine((), t("it is not valid text"))
    if len(raw) > MAX_LENGTH:
        return ParsedLine((), t("it is too long"))
    operators = line.count("&&") + line.count("|") - line.count("||")
    if operators > MAX_LIST or _DEEP.search(line):
        return ParsedLine((), t("it is nested too deeply"))
    tree = parsed(raw)
    if tree is None:
        return ParsedLine((), t("it takes too long to parse"))
    walk = _Walk(raw.decode("latin-1"))
    walk.variables = {name: (0, value) for name, value in (variables or {}).items()}
    try:
        walk.line(tree.root_node)
    except UnclearError as error:
        walk.doubts.insert(0, str(error))
    commands = tuple(simple for _, simple in sorted(walk.commands, key=lambda found: found[0]))
    if walk.arrays & walk.declared:
        walk.doubts.append(t("a string is evaluated as an array"))
    if not walk.doubts and (any(map(may_hold_code, walk.numbers)) or walk.texts_in_arithmetic()):
        walk.doubts.append(t("arithmetic evaluates a string"))
    return ParsedLine(commands, walk.doubts[0] if walk.doubts else "")


_PARTS = names("do_group elif_clause else_clause case_item")
_BRANCHES = _PARTS | names("if_statement case_statement while_statement for_statement")
"""Nodes of which not every part runs."""
_RESERVED = names(
    "! case coproc do done elif else esac fi for function if in select then until while { } [[ ]]"
)
_TEST_SIGNS = (names("[ ] ! = == !="), names("[[ ]] && || ( ) < > ! = == != =~"))
_MOVES = names("cd pushd popd eval")
_MENTIONED = re.compile(r"(?<![$\w])(?<!\$\{)[A-Za-z_]\w*", re.ASCII)
_LITERAL = re.compile(r"(?<![$\w])([A-Za-z_]\w*)=([\w./:@%+,-]+)(?=\s|\Z)", re.ASCII)
# They may change a variable without naming it in the line.
_HIDES = re.compile(r"\bfunction\b|\(\)|\$\{!")


class _Walk(NodeReader):
    """One line. ``commands`` grow while it is read, each with its offset; found commands are never lost."""

    commands: dict[tuple[int, Simple], None] = field(default_factory=dict[tuple[int, Simple], None])
    folders: Folders = (".",)
    arrays: set[str] = field(default_factory=set[str])
    declared: set[str] = field(default_factory=set[str])
    tails: dict[int, _LastCommand] = field(default_factory=dict[int, "_LastCommand"])
    """By the node that they belong to."""
    _hides: bool | None = None
    _mentions: Counter[str] = field(default_factory=Counter[str])

    def line(self, root: Node) -> None:
        if root.has_error:
            self.doubt(t("the parser does not understand it"))
        self._collect(root)
        start, end = root.start_byte, root.end_byte
        if LINES.fullmatch(self.text, 0, start) is None or LINES.fullmatch(self.text, end) is None:
            self.doubt(t("the parser skips a part of it"))
        if root.type == "program":
            self.parts(root)
        else:
            self.anything(root)

    def _collect(self, root: Node) -> None:
        """Where substitutions begin; variables that are certain."""
        waiting, certain = [root], [root]
        while certain:
            for child in certain.pop().children:
                if child.next_sibling is not None and child.next_sibling.type == "&":
                    pass  # it runs in a shell of its own
                elif child.type == "list":
                    certain.append(child)
                elif child.type in ("variable_assignment", "variable_assignments"):
                    self._remember(child)
                if child.parent is not None and child.parent.type == "list":
                    break
        while waiting:
            for child in waiting.pop().children:
                if child.child_count or child.type in PLACES:
                    if child.type in PLACES:
                        # Within double quotes, the grammar's ``$(`` includes the blanks before it.
                        match = LINES.match(self.text, child.start_byte)
                        self.places[match.end() if match else child.start_byte] = child
                    waiting.append(child)

    def _remember(self, node: Node) -> None:
        """A variable whose one value in the line is certain: ``A=x; cmd $A``."""
        if self._hides is None:
            self._mentions = Counter(_MENTIONED.findall(self.text))
            self._hides = _HIDES.search(self.text) is not None
        for name, value in _LITERAL.findall(self.source(node)):
            once = self._mentions[name] == 1 and not self._hides and not assigned_by_shell(name)
            if once:
                self.variables[name] = (node.end_byte, value)

    # Lists and compound commands

    def parts(self, node: Node) -> Ways:
        """Return the commands in a node, one after the other, and the words between them."""
        branches = node.type in _BRANCHES
        ways: Ways = (self.folders, None if self.folders is None else ())
        last: Node | None = None
        values = {child.id for child in node.children_by_field_name("value")} if branches else ()
        for child in self.inside(node):
            before = self.folders
            if child.type in _PARTS:
                self.parts(child)
            elif child.id in values:
                self.value(child)
            elif child.type == "select":
                self.doubt(t("{value} in it", value=child.type))
            elif child.type == "variable_name":
                if changes_later(self.source(child)):
                    self.doubt(t("it changes {node}", node=self.source(child)))
            elif child.is_named or child.is_error:
                if last is not None and last.type in STATEMENTS and "\n" not in self.between(last, child):
                    self.doubt(t("the parser and bash may read it differently"))
                ways = self.statement(child)
                if child.next_sibling is not None and child.next_sibling.type == "&":
                    ways = (before, ())
                self.folders = join(*ways) or (None if None in ways else ())
            if branches:
                self.folders = join(before, self.folders)
            last = child
        return (self.folders, self.folders) if branches else ways

    def understood(self, node: Node) -> bool:
        return node.type in _KINDS

    def statement(self, node: Node) -> Ways:
        with self.deeper():
            read = _KINDS.get(node.type)
            if read is not None and not node.is_missing:
                tail = self.tails.pop(node.id, None)
                return read(self, node) if tail is None else self._tailed(node, read, tail)
            self.doubt(
                t("the parser does not understand it")
                if node.is_error
                else t("{value} in it", value=node.type.replace("_", " "))
            )
            self.anything(node)
            return None, None

    def nested(self, node: Node) -> None:
        """The commands of a substitution: a shell of their own."""
        if "<<" in self.source(node) and node.named_child_count > 1:
            # Bash rewrites the commands of ``$(…)`` before it runs them, and loses separators after here-documents.
            self.doubt(t("a here-document next to other commands in a substitution"))
        with self.deeper():
            self.isolated(node)

    def isolated(self, node: Node) -> Ways:
        """Handle ``( … )`` and ``$(…)``."""
        if self.text.startswith("((", node.start_byte):
            # After "!" the grammar takes arithmetic for two shells.
            self.doubt(t("the parser and bash may read it differently"))
        before = self.folders
        self.parts(node)
        self.folders = before
        return before, before

    def pipeline(self, node: Node) -> Ways:
        """Handle ``a | b``. In ``cd x && a 2>&1 | b`` the grammar takes all before ``|`` for the first part; bash does
        not."""
        children = [child for child in self.inside(node) if child.is_named]
        if children and children[0].type == "redirected_statement" and _first(children[0]).type == "list":
            return self.redirected(children[0], children[1:])
        return self._piped(self.folders, children)

    def _piped(self, start: Folders, parts: Sequence[Node]) -> Ways:
        if any(_first(part).type == "list" for part in parts):
            self.doubt(t("the parser and bash may read it differently"))
        for part in parts:
            self.folders = start
            self.statement(part)
        self.folders = start
        return start, start

    def list(self, node: Node) -> Ways:
        """Handle ``a && b``, ``a || b``."""
        children = [*self.inside(node)]
        if len(children) != 3 or children[1].type not in ("&&", "||"):
            self.doubt(t("an unsupported list"))
            self.anything(node)
            return None, None
        return self._then(self.statement(children[0]), children[1].type, children[2])

    def _then(self, ways: Ways, operator: str, node: Node) -> Ways:
        """Read the command after ``&&`` or ``||``."""
        yes, no = ways
        self.folders = yes if operator == "&&" else no
        other = self.statement(node)
        return (other[0], join(no, other[1])) if operator == "&&" else (join(yes, other[0]), other[1])

    def _chained(self, ways: Ways, operator: str, node: Node) -> Ways:
        """Handle ``|| b && c`` after a command: bash takes ``b`` first, the grammar its whole list."""
        children = [*self.inside(node)] if node.type == "list" else []
        if len(children) == 3:
            ways = self._chained(ways, operator, children[0])
            return self._then(ways, children[1].type, children[2])
        if _joins(_first(node)) - {operator}:
            self.doubt(t("the parser and bash may read it differently"))
        return self._then(ways, operator, node)

    def negated(self, node: Node) -> Ways:
        children = [*self.inside(node)]
        if len(children) != 2 or node.start_byte + 1 == children[1].start_byte:
            self.doubt(t("an unsupported negation"))
        yes, no = self.statement(children[-1])
        return no, yes

    def group(self, node: Node) -> Ways:
        if node.children and node.children[0].type == "((":
            try:
                self.arithmetic(node.start_byte, node.end_byte)
            except UnclearError as error:
                self.doubt(str(error))
                self.anything(node)
            return self.folders, self.folders
        if self.source(node)[:1] == "{" and self.source(node)[1:2] not in " \t\n":
            self.doubt(t("an unsupported group"))
        return self.parts(node)

    def loop(self, node: Node) -> Ways:
        """Handle ``for``, ``while``: a loop that changes its folder or a variable runs again with unknown ones."""
        before, known = self.folders, len(self.variables)
        moves = self.parts(node)[0] != before
        if moves or len(self.variables) != known:
            self.folders = None if moves else before
            self.parts(node)
        return self.folders, self.folders

    # Words, assignments, redirections

    def assignment(self, node: Node) -> tuple[str, Word]:
        """Handle ``NAME=value``, also of an array."""
        first, *_, last = node.children
        name, sign = self.source(first), node.children[1]
        value = Word("")
        if re.fullmatch(r"[A-Za-z_]\w*(?:\[[0-9]+\])?", name, re.ASCII) is None:
            self.doubt(t("an unsupported assignment or array index"))
        if last.type == "array" or "[" in name:
            self.arrays.add(name.partition("[")[0])
        if last.type == "array":
            words = [self.value(child) for child in self.inside(last) if child.is_named]
            if any(word.source.startswith("[") for word in words):
                self.doubt(t("an unsupported array index"))
            value = Word(self.source(last), known=False, source=self.real(last.start_byte, last.end_byte))
        elif last is not sign:
            value = self.value(last)
        elif self.text[node.end_byte : node.end_byte + 1] not in ("", *" \t\n;&|)`"):
            self.doubt(t("an unsupported assignment"))
        if any(a.end_byte != b.start_byte for a, b in zip(node.children, node.children[1:], strict=False)):
            self.doubt(t("an unsupported assignment"))
        if sign.type != "=" or (value.tilde and value.known) or "~" in value.source:
            value = replace(value, known=False, text=value.source)
        return re.split(r"\[", name)[0], value

    def assignments(self, node: Node) -> Ways:
        """Handle assignments without a command: they apply to later commands."""
        nodes = [*self.inside(node)] if node.type == "variable_assignments" else [node]
        pairs = [self.assignment(each) for each in nodes]
        for name, _ in pairs:
            if changes_shell(name):
                self.doubt(t("it changes {name}", name=name))
        self.emit(
            node.start_byte, [], pairs, [self.real(each.start_byte, each.end_byte) for each in nodes], []
        )
        failed = any(mark in self.source(node) for mark in ("$(", "`"))
        return self.folders, self.folders if failed else ()

    def redirected(self, node: Node, pipe: Sequence[Node] = ()) -> Ways:
        """Handle a command with redirections after it: those of the last command of a list hang below the whole list.
        ``pipe``: the target of that command's output."""
        body = node.child_by_field_name("body")
        tail = _LastCommand([child for child in self.inside(node) if child != body], pipe)
        if body is None:
            return self._tailed(node, None, tail)
        last = body
        while last.type in ("list", "pipeline", "negated_command"):
            last = last.children[-1]
        self.tails[last.id] = tail
        ways = self.statement(body)
        if self.tails.pop(last.id, None) is not None:
            self.doubt(t("an unsupported redirection"))
            ways = self._tailed(node, None, tail)
        return self._following(tail.follow, ways)

    def _tailed(self, node: Node, read: Callable[[_Walk, Node], Ways] | None, tail: _LastCommand) -> Ways:
        start, found = self.folders, Redirections(self)
        if read is _Walk.command:
            ways = self.command(node, tail.redirections, found)
        else:
            for child in tail.redirections:
                found.add(child)
            if found.words:
                self.doubt(t("words after a redirection"))
            if found.files:
                # The shell opens these files before it runs the commands in the braces.
                self.emit(tail.redirections[0].start_byte, [], [], [], found.files)
            ways = (start, start) if read is None else read(self, node)
            if found.files:
                ways = ways[0], join(ways[1], start)
        follow = found.follow
        if follow and follow[0].type == "pipeline":
            ways = self._piped(start, [child for child in self.inside(follow[0]) if child.is_named])
            follow = follow[1:]
        if tail.pipe:
            ways = self._piped(start, tail.pipe)
        tail.follow = follow
        return ways

    def _following(self, follow: Sequence[Node], ways: Ways) -> Ways:
        """Handle ``cat <<E && ls``: the grammar hangs the rest of the line below the here-document."""
        operator = ""
        for child in follow:
            if child.type in ("&&", "||"):
                operator = child.type
            elif operator and child.type in STATEMENTS:
                ways = self._chained(ways, operator, child)
            else:
                self.doubt(t("an unsupported here-document"))
                self.anything(child)
        return ways

    # Simple commands

    def command(self, node: Node, rest: Sequence[Node] = (), found: Redirections | None = None) -> Ways:
        """Handle a simple command; ``rest``: redirections after it, which are put into ``found``."""
        found = found or Redirections(self)
        words: list[Word] = []
        given: list[Node] = []
        last: Node | None = None
        flat = node.type == "test_command"
        for child in node.children if not flat else ():
            if last is not None and not self.apart(last, child):
                self.doubt(t("the parser and bash may read it differently"))
            last = child
            if child.type == "variable_assignment" and node.type == "command":
                given.append(child)
            elif child.type.endswith("_redirect"):
                found.add(child)
            elif child.start_byte < child.end_byte:
                words.append(self.value(child))
        if flat:
            words = self.test(node)
        for child in rest:
            found.add(child)
        words += found.words
        pairs = [self.assignment(each) for each in given]
        if words and words[0].text == words[0].source == "time":
            words = self._timed(words)
        self._check_name(words, node)
        if words and words[0].text == "test":
            self._test_words(words, double=False)
        shown = [self.real(each.start_byte, each.end_byte) for each in given]
        shown += [shown_word(word, first=n == 0) for n, word in enumerate(words)]
        self.emit(node.start_byte, words, pairs, shown, found.files, found.stdin)
        ways = self.effect(words, pairs, found) if words else (self.folders, self.folders)
        if found.follow and not rest:
            self.doubt(t("an unsupported here-document"))
        self.folders = ways[0]
        return ways

    def _timed(self, words: list[Word]) -> list[Word]:
        rest = words[2 if len(words) > 1 and words[1].source == "-p" else 1 :]
        if not rest or rest[0].source.startswith(("-", "!")):
            self.doubt(t("an unsupported use of time"))
        return rest

    def _check_name(self, words: Sequence[Word], node: Node) -> None:
        if not words:
            return
        name = words[0]
        if name.source in _RESERVED and node.type == "command":
            self.doubt(t("{source!r} is in a place where bash does not expect it", source=name.source))
        if not name.known or name.glob or name.tilde or not name.text:
            self.doubt(t("the command's name is not known"))
        if re.match(r"\w+(?:\[.*\])?\+?=|-", name.source):
            self.doubt(t("an unsupported assignment"))

    def test(self, node: Node) -> list[Word]:
        """Handle ``[ … ]`` and ``[[ … ]]``: returns the words between the blanks."""
        double = self.text.startswith("[[", node.start_byte)
        spans: list[tuple[Node, int, int]] = []
        waiting = [node]
        while waiting:
            leaf = waiting.pop()
            if leaf == node or leaf.type.endswith("_expression"):
                waiting += reversed(leaf.children)
                continue
            at = spans[-1][2] if spans else leaf.start_byte
            if LINES.fullmatch(self.text, at, leaf.start_byte) is None:
                self.doubt(t("an unsupported test"))
            glued = spans and at == leaf.start_byte
            first, start, _ = spans.pop() if glued else (leaf, leaf.start_byte, 0)
            spans.append((first, start, leaf.end_byte))
        found = [self._test_word(leaf, start, end, double=double) for leaf, start, end in spans]
        # Glued to another character, ``[[`` is no test for bash, which runs what would stand in it.
        ends = ("[[", "]]") if double else ("[", "]")
        if len(found) < 3 or (found[0].source, found[-1].source) != ends:
            self.doubt(t("an unsupported test"))
        self._test_words(found, double=double)
        return found

    def _test_word(self, leaf: Node, start: int, end: int, *, double: bool) -> Word:
        source = self.text[start:end]
        pattern = double and leaf.type == "regex" and re.fullmatch(r"\^[^\s$`'\"\\<>]*\$?", source)
        if source in _TEST_SIGNS[double] or pattern:
            return Word(source, source=source)
        return self.read(leaf, start, end)

    def _test_words(self, words: Sequence[Word], *, double: bool) -> None:
        """Mark words that bash evaluates in a test: ``-v x[…]``, and arithmetic in ``[[``."""
        texts = [word.source for word in words]
        if {"-v", "-R"} & {word.text for word in words}:
            self.doubt(t("a test of a variable by its name"))
        for at, word in enumerate(words):
            compares = double and {"-eq", "-ne", "-lt", "-le", "-gt", "-ge"} & set(
                texts[max(0, at - 1) : at + 2]
            )
            splits = not double and (word.glob or (not word.known and not word.source.startswith('"')))
            if (
                compares
                and texts[at] not in ("[[", "]]")
                and not re.fullmatch(r"-\w\w|\d+|&&|\|\||[()!]", texts[at])
            ) or splits:
                self._number(word)

    def _number(self, word: Word) -> None:
        name = re.fullmatch(r'"?\$\{?([A-Za-z_]\w*)\}?"?', word.source)
        if name is not None:
            self.numbers.add(name[1])
        elif not is_number(word.source):
            self.doubt(t("an unsupported test"))

    def emit(
        self, start: int, words: list[Word], pairs: list[tuple[str, Word]], shown: list[str],
        files: list[Redirection], stdin: Word | None = None,
    ) -> None:  # fmt: skip
        if len(self.commands) >= MAX_COMMANDS:
            raise UnclearError(t("it has too many commands"))
        for folder in self.folders or (None,):
            simple = Simple(tuple(words), tuple(pairs), tuple(files), " ".join(shown), folder, stdin)
            self.commands.setdefault((start, simple))

    def effect(self, words: list[Word], pairs: list[tuple[str, Word]], found: Redirections) -> Ways:
        """Return the effect of a command on the shell: its folder afterwards, and whether words keep their meaning."""
        here = self.folders
        name, args = words[0].text, words[1:]
        while name in ("command", "builtin") and args and not re.match("-.*[vV]", args[0].text):
            name, args = name if args[0].text[:1] == "-" else args[0].text, args[1:]
        if reason := decides(name, args):
            self.doubt(reason)
        if name in DECLARES:
            # For an array, bash would evaluate the value.
            self.declared.update(
                re.split(r"\+?=", word.text)[0] for word in args if "=" in word.text and not word.known
            )
        self._forget(name, args)
        if name in ("cd", "pushd") and not pairs:
            return moved(here, args if name == "cd" else args or [Word("", known=False)]), here
        if name in _MOVES:
            return None, None
        if name == "exec" and not args and found.files:
            self.doubt(t("it changes the shell's input"))
        if pairs or found.files:
            # When one of these fails, the command fails too, and not even ``exit`` ends the shell.
            return here, here
        # After an error in arithmetic, bash continues with the next line.
        ends = len(args) < 2 and all(re.fullmatch("[0-9]+", word.text) for word in args)
        if name == "exit" and ends and not ("((" in self.text and "\n" in self.text):
            return (), ()
        return ((), here) if name == "false" else (here, () if name in ("true", ":") else here)

    def _forget(self, name: str, args: Sequence[Word]) -> None:
        """Drop the variables that a builtin may change, however its words are written in the line."""
        if name in ("eval", "source", "."):
            self.variables.clear()
            return
        changed = [re.split(r"\+?=", word.text)[0] for word in args] if name in SETS_NAMES else []
        for variable in ("PWD", "OLDPWD") if name in _MOVES else changed:
            self.variables.pop(variable, None)


class _LastCommand(Struct):
    """Parts that the grammar puts below a list, but that belong to its last command."""

    redirections: Sequence[Node]
    pipe: Sequence[Node] = ()
    follow: Sequence[Node] = ()
    """Parts after a here-document in its line: ``&& ls``."""


def _first(node: Node) -> Node:
    """Return the first part of a pipe as the grammar has it, without its redirections."""
    inner = node.child_by_field_name("body") if node.type == "redirected_statement" else None
    if node.type == "pipeline":
        inner = node.named_children[0] if node.named_children else None
    return _first(inner) if inner is not None else node


def _joins(node: Node) -> set[str]:
    """Return the operators of a list."""
    if node.type != "list":
        return set()
    return {child.type for child in node.children if not child.is_named} | _joins(node.children[0])


_KINDS: dict[str, Callable[[_Walk, Node], Ways]] = {
    "list": _Walk.list,
    "pipeline": _Walk.pipeline,
    "command": _Walk.command,
    "redirected_statement": _Walk.redirected,
    "negated_command": _Walk.negated,
    "subshell": _Walk.isolated,
    "compound_statement": _Walk.group,
    "if_statement": _Walk.parts,
    "case_statement": _Walk.parts,
    "while_statement": _Walk.loop,
    "for_statement": _Walk.loop,
    "test_command": _Walk.command,
    "declaration_command": _Walk.command,
    "unset_command": _Walk.command,
    "variable_assignment": _Walk.assignments,
    "variable_assignments": _Walk.assignments,
}
