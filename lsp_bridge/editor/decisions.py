"""What the person decided hunk by hunk, by code lenses, before a request's answer is complete. Pure.

Shared by the editors of a daemon, except by those that show questions themselves (VS Code keeps its own choice, with
what the person edited by hand).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from daemon.model.permissions import FileAnswer, FileDiff, PermissionRequest
from lsp_bridge.editor.hunks import parts


@dataclass(slots=True)
class Decisions:
    """By request, file and part: accepted or not. What is not there is not decided."""

    _by_request: dict[str, dict[tuple[str, int], bool]] = field(
        default_factory=dict[str, dict[tuple[str, int], bool]]
    )

    def of(self, request_id: str, path: str, part: int) -> bool | None:
        """What was decided of one part; None: nothing yet."""
        return self._by_request.get(request_id, {}).get((path, part))

    def decide(self, request: PermissionRequest, path: str, part: int, accepted: bool) -> None:
        """Decide one part of a file, or anew."""
        self._by_request.setdefault(request.request_id, {})[path, part] = accepted

    def decide_rest(self, request: PermissionRequest, files: Sequence[FileDiff], accepted: bool) -> None:
        """Decide what is not decided yet of these files."""
        made = self._by_request.setdefault(request.request_id, {})
        for file in files:
            for part in range(parts(file)):
                made.setdefault((file.path, part), accepted)

    def undecided(self, request: PermissionRequest, files: Sequence[FileDiff] | None = None) -> int:
        """How many parts are still to be decided."""
        made = self._by_request.get(request.request_id, {})
        shown = request.files if files is None else files
        return sum((file.path, part) not in made for file in shown for part in range(parts(file)))

    def answers(self, request: PermissionRequest) -> tuple[FileAnswer, ...] | None:
        """What to send once all is decided: the files that are not accepted as they are. None: nothing is accepted."""
        made = self._by_request.get(request.request_id, {})
        found: list[FileAnswer] = []
        anything = False
        for file in request.files:
            count = parts(file)
            taken = tuple(part for part in range(count) if made.get((file.path, part)))
            anything = anything or bool(taken)
            if len(taken) < count:
                found.append(FileAnswer(path=file.path, hunks=taken))
        return tuple(found) if anything else None

    def keep(self, waiting: Collection[str]) -> None:
        """Forget all requests but these, which still wait."""
        for request_id in self._by_request.keys() - set(waiting):
            del self._by_request[request_id]
