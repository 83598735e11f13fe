"""The event that a file was changed, from its version in the history."""

from __future__ import annotations

from daemon.files.versions import Version
from daemon.loop.services import Services
from daemon.model.events import FileChanged
from tools.paths import rule_target


def file_changed(trace_id: str, services: Services, version: Version) -> FileChanged:
    """One event for one written file. ``version`` is empty when the old content is not known."""
    return FileChanged(
        trace_id=trace_id,
        time=services.now(),
        path=rule_target(version.path, services.workspace),
        kind=version.kind,
        version=version.version or "",
        tool_call_id=version.tool_call_id,
        added=version.added,
        removed=version.removed,
    )
