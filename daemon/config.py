"""Settings: shipped defaults < the user's file < the workspace's file < the editor < the command line.

The workspace's file is untrusted input: until the user trusts the folder, only ``permission`` and ``mode`` are taken
from it, and they can only tighten. A wrong setting is reported and ignored; it never stops the daemon.
"""

from __future__ import annotations

import difflib
import errno
import json
import os
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from msgspec import Struct, field
from msgspec.structs import replace
from pydantic import ValidationError

from daemon.permission.rules import SHIPPED
from daemon.permission.rules_file import rules_from_config, unknown_permissions
from daemon.settings import SETTINGS, Settings
from daemon.trust import TrustedFolders
from tools.files.regular_files import read_regular
from tools.json_access import mapping
from tools.localization import t, unknown_language
from tools.text.truncate import head
from tools.text.validation import place, refused, unreadable, wrong_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from daemon.model.permissions import Mode, Rule, RuleSource, Trust

WORKSPACE_FILE = Path(".goalwright") / "config.json"
MAX_FILE = 1_000_000
"""Bytes of a configuration file."""
_MOST_TOLD = 20
"""Problems of one file."""
_LONGEST_NAME = 60
_LONGEST_ENTRY = 400
"""Characters."""
_MODEL = re.compile(r"[^\s/]+/\S+")


class Config(Struct, frozen=True):
    """The merged settings, the rules by layer, and the problems found."""

    settings: Settings = field(default_factory=Settings)
    base_rules: tuple[Rule, ...] = SHIPPED
    workspace_rules: tuple[Rule, ...] = ()
    trusted: bool = False
    """The workspace's file counts in full; else it can only tighten permissions."""
    problems: tuple[str, ...] = ()
    """Parts of the settings that are ignored and why, as text for the user."""
    blocking: tuple[str, ...] = ()
    """Unreadable parts that may hold a prohibition. Nothing may run until they can be read."""
    unread: Mapping[str, str] = field(default_factory=dict[str, str])
    """Names of settings whose values do not count as the file has them, each with the reason for the user."""

    def overlaid(self, values: Mapping[str, Any], source: RuleSource, name: str, file: str = "") -> Config:
        """Return this configuration with another layer of trusted settings over it; ``file``: the file of its rules."""
        settings, problems, unread = self._settings_with(values, name)
        rules, blocking = _rules(values, source, name, file)
        problems += _unknown_permissions(rules, name)
        base_rules = (*self.base_rules, *rules)
        return self.with_problems(problems, blocking, unread, settings=settings, base_rules=base_rules)

    def with_workspace(self, values: Mapping[str, Any], *, trusted: bool) -> Config:
        """This configuration (shipped and the user's) with the workspace's file over it."""
        name = WORKSPACE_FILE.as_posix()
        rules, blocking = _rules(values, "workspace", name, name)
        unread: dict[str, str] = {}
        if trusted:
            settings, problems, unread = self._settings_with(
                {k: v for k, v in values.items() if k not in _USERS_OWN}, name
            )
            problems += [
                t(
                    "{name}: {key}: only has an effect in your own file, ~/.goalwright/config.json",
                    name=name,
                    key=key,
                )
                for key in _USERS_OWN
                if key in values
            ]
        else:
            settings = self._tightened(values)
            problems = _ignored(values, rules, name, settings.approval.mode)
        problems += _unknown_permissions(rules, name)
        return self.with_problems(
            problems, blocking, unread, settings=settings, workspace_rules=tuple(rules), trusted=trusted
        )

    def with_problems(
        self, problems: Iterable[str], blocking: Iterable[str], unread: Mapping[str, str], **values: Any
    ) -> Config:
        """Return this configuration with further problems, and other ``values``."""
        return replace(
            self,
            problems=(*self.problems, *problems),
            blocking=(*self.blocking, *blocking),
            unread={**self.unread, **unread},
            **values,
        )

    def _settings_with(
        self, values: Mapping[str, Any], name: str
    ) -> tuple[Settings, list[str], dict[str, str]]:
        # Rules are merged one by one, not as one setting, because an invalid entry must not remove a prohibition.
        valid, problems, unread = _valid({k: v for k, v in values.items() if k != "permission"}, name)
        if hooks := valid.get("hooks"):
            # Hooks of all layers run, because no layer may remove a hook that guards something.
            told = self.settings.commands.hooks
            valid["hooks"] = told | {event: (*told.get(event, ()), *more) for event, more in hooks.items()}
        for key in _BY_NAME & valid.keys():
            valid[key] = {**self.settings.value(key), **valid[key]}
        return self.settings.changed(valid), problems, unread

    def _tightened(self, values: Mapping[str, Any]) -> Settings:
        wanted = next((mode for mode in _MODES if mode == values.get("mode")), None)
        if wanted is None or _MODES.index(wanted) >= _MODES.index(self.settings.approval.mode):
            return self.settings
        return self.settings.changed({"mode": wanted})


class WorkspaceConfig:
    """The configuration of one workspace, read once from the files, with the command line over them."""

    def __init__(self, workspace: Path, state_folder: Path, command_line: Mapping[str, Any]) -> None:
        self.trusted = TrustedFolders(state_folder)
        self._workspace = workspace
        self._user_file = state_folder / "config.json"
        self._command_line = dict(command_line)
        self._read: dict[bool, Config] = {}
        """With the workspace's own file trusted or not."""

    def trust(self) -> Trust:
        """Return the trust in the workspace's folder, for when no client states it."""
        return self.trusted.trust(self._workspace)

    def read(self, trusted: bool | None = None) -> Config:
        """Return the configuration.

        ``trusted``: whether the workspace's own file counts in full; None: by the user's list of trusted folders.
        """
        if trusted is None:
            trusted = self.trust() == "trusted"
        if trusted not in self._read:
            files = load_config(self._workspace, self._user_file, trusted=trusted)
            self._read[trusted] = files.overlaid(self._command_line, "user", t("command line"))
        return self._read[trusted]

    def forget(self) -> None:
        """Have the files read again: they may have changed."""
        self._read.clear()


_BY_NAME = frozenset(("language_servers", "mcp_servers", "models"))
"""Settings with entries by name, which a layer adds to and replaces one by one."""
_SPELLINGS = {"mcpServers": "mcp_servers"}
"""Keys as other programs spell them."""
_USERS_OWN = (
    *("environment", "language", "telemetry", "telemetry_endpoint", "telemetry_content", "store_url"),
    *("explore_on", "ray_address", "ray_cpus_per_branch", "ray_fallback"),
)
"""Settings that the workspace's file cannot set, trusted or not."""
_MODES: tuple[Mode, ...] = ("plan", "ask", "accept-edits", "auto")
"""The strictest first."""


def load_config(workspace: Path, user_file: Path, *, trusted: bool = False) -> Config:
    """Read the user's and the workspace's file; both may be missing.

    ``trusted``: the user trusts the workspace's folder, so its file counts in full: its settings over the user's, its
    rules may loosen restrictions, and its programs (hooks) run.
    """
    users = _read(user_file, str(user_file))
    local_file = workspace / WORKSPACE_FILE
    # In the home folder it is the user's own file, which counts once.
    same = os.path.realpath(local_file) == os.path.realpath(user_file)
    local = _FileRead() if same else _read(local_file, WORKSPACE_FILE.as_posix())
    config = Config(problems=(*users.problems, *local.problems), blocking=(*users.blocking, *local.blocking))
    config = config.overlaid(users.values, "user", str(user_file), str(user_file))
    config = config.with_workspace(local.values, trusted=trusted)
    return config.with_problems((), (), {**users.unread, **local.unread})


def _rules(
    values: Mapping[str, Any], source: RuleSource, name: str, file: str
) -> tuple[list[Rule], list[str]]:
    """Return the rules of one file, and unreadable parts that may be rules."""
    rules, wrong = rules_from_config(values.get("permission"), source)
    blocking = [*_misnamed(values, name), *(f"{name}: permission: {text}" for text in wrong)]
    return [rule.model_copy(update={"file": file}) for rule in rules] if file else rules, blocking


def _unknown_permissions(rules: Sequence[Rule], name: str) -> list[str]:
    return [
        t("{name}: permission: there is no permission {word}, so its rules do nothing.", name=name, word=word)
        for word in unknown_permissions(rules)[:_MOST_TOLD]
    ]


def _ignored(values: Mapping[str, Any], rules: Sequence[Rule], name: str, mode: Mode) -> list[str]:
    """Return messages for the user about ignored parts of an untrusted workspace's file, and how to enable them."""
    ignored = sorted(set(values) - {"permission", "mode", "$schema"})
    if values.get("mode") not in (None, mode):
        ignored.append("mode")
    if any(rule.action == "allow" for rule in rules):
        ignored.append(t("allow rules"))
    if not ignored:
        return []
    return [
        t(
            "{name}: {ignored} ignored: this folder is not trusted, so its file can only tighten "
            "permissions. If it is yours, run `goalwright trust` in it, or trust it in the editor.",
            name=name,
            ignored=", ".join(ignored),
        )
    ]


class _FileRead(Struct, frozen=True):
    """The content of a file, and its problems; see ``Config``."""

    values: Mapping[str, Any] = field(default_factory=dict[str, Any])
    problems: Sequence[str] = ()
    blocking: Sequence[str] = ()
    unread: Mapping[str, str] = field(default_factory=dict[str, str])


def _read(path: Path, name: str) -> _FileRead:
    """Read a file. ``name``: for the problems of single keys."""
    twice: list[tuple[object, str]] = []
    try:
        if path.exists() and not path.is_file():
            return _FileRead(blocking=[t("{path} is not used: it is not a file.", path=path)])
        data = read_regular(path, MAX_FILE, follow=True)
        value: object = json.loads(
            data.decode("utf-8-sig"), object_pairs_hook=lambda pairs: _object(pairs, twice)
        )
    except FileNotFoundError:
        return _FileRead()
    except OSError as error:
        if error.errno == errno.EFBIG:
            words = t(
                "{path} is not used: it is larger than {max_file:,} bytes.", path=path, max_file=MAX_FILE
            )
            return _FileRead(blocking=[words])
        return _FileRead(blocking=[not_used(path, unreadable(error))])
    except (ValueError, RecursionError) as error:
        return _FileRead(blocking=[not_used(path, unreadable(error))])
    if not isinstance(value, dict):
        return _FileRead(blocking=[t("{path} is not used: it must hold a JSON object.", path=path)])
    values = cast("dict[str, Any]", value)
    rules = values.get("permission")
    entries = cast("dict[str, Any]", rules).values() if isinstance(rules, dict) else rules
    where: list[object] = [
        rules,
        *(cast("Iterable[object]", entries) if isinstance(rules, dict | list) else ()),
    ]
    told: dict[bool, list[str]] = {True: [], False: []}
    unread: dict[str, str] = {}
    for holder, key in twice:
        # The value that does not count may hold a prohibition.
        is_rule = key == "permission" if holder is value else any(holder is one for one in where)
        key = head(key, _LONGEST_NAME)
        text = t(
            "{name}: {key}: is there twice, and only the last one counts. Keep one of them.",
            name=name,
            key=key,
        )
        told[is_rule].append(text)
        if holder is value:
            unread[key] = text
    return _FileRead(values, told[False][:_MOST_TOLD], told[True][:_MOST_TOLD], unread)


def _object(pairs: list[tuple[str, Any]], twice: list[tuple[object, str]]) -> dict[str, Any]:
    """Return the object of these keys and values; add it to ``twice`` with each key that it has again."""
    made = dict(pairs)
    if len(made) < len(pairs):
        twice += [(made, key) for key, count in Counter(key for key, _ in pairs).items() if count > 1]
    return made


def _misnamed(values: Mapping[str, Any], name: str) -> list[str]:
    """Return keys that are probably misspellings of ``permission``."""
    return [
        t("{name}: {key}: is not a setting; did you mean {near}?", name=name, key=key, near="permission")
        for key in values
        if key not in SETTINGS and key.lower().startswith(("permission", "rule"))
    ]


def _valid(values: Mapping[str, Any], name: str) -> tuple[dict[str, Any], list[str], dict[str, str]]:
    """Return settings that can be used, problems for the user, and for each setting with one its first problem."""
    valid: dict[str, Any] = {}
    problems: list[str] = []
    unread: dict[str, str] = {}
    for key, value in values.items():
        if key == "$schema" or value is None:
            continue
        key = _SPELLINGS.get(key, key)
        if key in SETTINGS:
            found, wrong = _setting(key, value, name)
            valid |= found
        else:
            wrong = [_unknown(key, name, compared=len(problems) < _MOST_TOLD)]
        problems += wrong
        if wrong:
            unread[head(key, _LONGEST_NAME)] = wrong[0]
    if more := len(problems[_MOST_TOLD:]):
        problems[_MOST_TOLD:] = [t("{name}: there are {count:,} more problems.", name=name, count=more)]
    return valid, problems, unread


def _unknown(key: str, name: str, *, compared: bool) -> str:
    """Return the problem of a key that is no setting. ``compared``: with those that are, which takes a millisecond."""
    near = difflib.get_close_matches(key[:_LONGEST_NAME], SETTINGS, n=1) if compared else []
    key = head(key, _LONGEST_NAME)
    if near:
        return t("{name}: {key}: is not a setting; did you mean {near}?", name=name, key=key, near=near[0])
    return t("{name}: {key}: is not a setting: remove it", name=name, key=key)


def _setting(key: str, value: Any, name: str) -> tuple[dict[str, Any], list[str]]:
    """Return what of a setting can be used, by its key, and what is wrong."""
    where, problems = f"{name}: {key}", list[str]()
    if key == "models" and isinstance(value, dict):
        value, problems = _valid_models(cast("dict[str, Any]", value), where)
    elif key == "fallback_model" and isinstance(value, str | list):
        given = cast("list[Any]", [value] if isinstance(value, str) else value)
        models, problems = _valid_models(dict(enumerate(given, 1)), where)
        value = list(models.values())
    elif key == "fallback_model":
        words = t("it must be text in double quotes, or a list of such texts")
        return {}, [not_used(where, words)]
    found, wrong = usable(key, value, where)
    if key == "language" and wrong:
        wrong = [f"{where}: {unknown_language(value)}"]
    return found, [*problems, *wrong]


def usable(key: str, value: Any, where: str) -> tuple[dict[str, Any], list[str]]:
    """Return a known setting by its key, without wrong entries of a list or object, and the problems found.

    The setting is missing when not even a part of it can be used. ``where`` names file and key, for the problems.
    """
    try:
        return {key: Settings.parsed(key, value)}, []
    except ValidationError as error:
        first: dict[tuple[int | str, ...], Any] = {}
        for one in error.errors(include_url=False, include_input=False):
            depth = 3 if _is_entry(one["loc"][1:], value) else 2
            first.setdefault(one["loc"][1:depth], {**one, "loc": one["loc"][depth:]})
        if () in first:
            return {}, [not_used(where, wrong_value(error, 1))]
        found, more = usable(key, _without(value, first), where)
        return found, [*(not_used(f"{where}: {place(at)}", refused(one)) for at, one in first.items()), *more]


def _is_entry(steps: Sequence[int | str], value: object) -> bool:
    """Return whether a place is in an entry of a list of an object."""
    return (
        len(steps) > 1 and isinstance(steps[1], int) and isinstance(mapping(value).get(str(steps[0])), list)
    )


def _without(value: Any, wrong: Iterable[tuple[int | str, ...]]) -> Any:
    """Return a list or object without the entries at some places."""
    below: dict[int | str, list[tuple[int | str, ...]]] = {}
    for at in wrong:
        below.setdefault(at[0], []).append(at[1:])
    steps = (
        enumerate(cast("list[Any]", value))
        if isinstance(value, list)
        else cast("dict[str, Any]", value).items()
    )
    kept = {
        step: _without(one, below[step]) if step in below else one
        for step, one in steps
        if () not in below.get(step, ())
    }
    return [*kept.values()] if isinstance(value, list) else kept


def not_used(entry: object, why: str) -> str:
    """Return the text about a file, or an entry of one (``FILE: KEY``)."""
    return t(
        "{entry} is not used: {why}.", entry=head(str(entry), _LONGEST_ENTRY), why=head(why, _LONGEST_ENTRY)
    )


_Key = TypeVar("_Key", str, int)


def _valid_models(models: Mapping[_Key, Any], name: str) -> tuple[dict[_Key, str], list[str]]:
    """Keep what is written as ``provider/model``; report the others one by one, with their keys."""
    valid: dict[_Key, str] = {}
    problems: list[str] = []
    for key, model in models.items():
        if isinstance(model, str) and _MODEL.fullmatch(model.strip()):
            valid[key] = model.strip()
        elif model not in ("", None):
            problems.append(
                t(
                    "{name}: {key}: {model!r} is not a model. Write provider/model, for example "
                    "anthropic/claude-sonnet-5-5.",
                    name=name,
                    key=key,
                    model=model,
                )
            )
    return valid, problems
