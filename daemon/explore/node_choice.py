"""Where the branches of an exploration work: on this machine, or on the nodes of a cluster.

The user's own file decides, never the workspace's or a client's: it sends the workspace to other machines.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tools.localization import t
from tools.tool import ToolError

if TYPE_CHECKING:
    from daemon.copies.working_copy import Base
    from daemon.explore.branch import BranchHost
    from daemon.explore.branch_task import BranchTask
    from daemon.explore.remote_branch import Packs
    from daemon.loop.session import Session
    from daemon.remote.cluster import Cluster

HERE = "branches_here"
"""Code of the notice that a branch works on this machine although the setting names a cluster."""


@dataclass
class Nodes:
    """The cluster of one exploration."""

    session: Session
    cluster: Cluster
    packs: Packs
    cpus: float
    fallback: Literal["local", "fail"]

    async def ran(self, task: BranchTask, host: BranchHost) -> bool:
        """Have a branch worked on to its end on a node. False: nothing of it has happened, and it is to work here."""
        from daemon.explore.branch_task import BranchOutcome
        from daemon.explore.remote_branch import NotThereError, RemoteBranch

        try:
            await RemoteBranch(task, host, self.cluster, self.packs, self.cpus).run()
            return True
        except NotThereError as error:
            why = str(error)
        if self.fallback == "local":
            text = t("Branch {name} works on this machine: {why}.", name=task.branch_id, why=why.rstrip("."))
            self.session.notice("warning", text, HERE, about=task.branch_id)
            return False
        detail = t("It cannot work on the Ray cluster: {why}.", why=why.rstrip("."))
        host.ended(task, BranchOutcome(task.session_id, "abandoned", detail, "error", detail), None)
        return True

    async def close(self) -> None:
        """Let go of the cluster; what still works there is ended. Never raises."""
        await self.cluster.close()


async def connected(session: Session, base: Base, call_id: str) -> Nodes | None:
    """Return the cluster that the settings name; None: branches work here, and the user knows why.

    Raises ToolError when the settings say that they must not.
    """
    settings = session.services.config().settings.agents
    if settings.explore_on == "local":
        return None
    from daemon.explore.remote_branch import Packs
    from daemon.remote.cluster import Cluster, ClusterError

    try:
        if why := base.stays or _needed_here(session):
            raise ClusterError(why)
        cluster = await Cluster.connect(settings.ray_address)
    except ClusterError as error:
        why = str(error).rstrip(".")
        if settings.ray_fallback == "fail":
            raise ToolError(
                f"The branches cannot work on the Ray cluster: {why}. The user's setting ray_fallback says that "
                "they then must not work on this machine. Try one approach after another."
            ) from error
        session.notice(
            "warning", t("The branches work on this machine: {why}.", why=why), HERE, about=call_id
        )
        return None
    packs = Packs(session.services.workspace)
    return Nodes(session, cluster, packs, settings.ray_cpus_per_branch, settings.ray_fallback)


def _needed_here(session: Session) -> str:
    """Return why the session's branches must work on this machine; empty: they need not."""
    if any(
        session.hooks.wants(name) for name in ("tool.execute.before", "tool.execute.after", "prompt.system")
    ):
        return t("hooks run for their calls, and there are none on the nodes")
    return ""
