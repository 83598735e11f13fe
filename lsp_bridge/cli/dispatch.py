"""Which command of the terminal is which function. Each imports what it needs, so that none waits for another's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lsp_bridge.cli.console import Console

if TYPE_CHECKING:
    import argparse

    from lsp_bridge.cli.launch import Launcher


async def client_command(args: argparse.Namespace) -> int:
    """Run a command that talks to a daemon, or reads what one wrote. Returns the exit code."""
    console = Console.of_process(color=not getattr(args, "no_color", False))
    if args.command == "run":
        return await _run(args, console)
    if args.command == "demo":
        from lsp_bridge.cli.commands import demo

        return await demo.play(console)

    if args.command in ("history", "undo", "redo", "restore"):
        return await _history(args, console)
    if args.command in ("goals", "goal"):
        return await _plan(args, console)
    if args.command in ("explore", "agents", "plan"):
        return await _branches(args, console)
    if args.command == "trace":
        return await _trace(args, console)
    if args.command in ("permissions", "mode", "trust", "jobs"):
        return await _permissions(args, console)
    if args.command in ("context", "compact", "budget", "handover"):
        return await _context(args, console)
    if args.command == "doctor":
        from lsp_bridge.cli.doctor.printing import DoctorOptions, doctor

        return await doctor(DoctorOptions(args.workspace, args.start, args.json), launcher_for(args), console)

    from lsp_bridge.cli.commands import daemon

    launcher = launcher_for(args)
    if args.command == "start":
        return await daemon.start(args.workspace, launcher, console, as_json=args.json)
    if args.command == "status":
        return await daemon.status(args.workspace, launcher, console, as_json=args.json)
    if args.command == "sessions":
        return await daemon.sessions(args.workspace, launcher, console, as_json=args.json)
    return await daemon.stop(args.workspace, launcher, console, force=args.force)


async def _run(args: argparse.Namespace, console: Console) -> int:
    from lsp_bridge.cli.run.turn import RunOptions, run

    given = {
        "unattended_steps": args.max_steps,
        "unattended_usd": args.max_usd,
        "unattended_minutes": args.max_minutes,
    }
    options = RunOptions(
        workspace=args.workspace,
        task=args.task,
        limits={name: value for name, value in given.items() if value is not None},
        model=args.model,
        agent=args.agent,
        mode=args.mode,
        planner=args.planner,
        steer=args.steer,
        session=args.session,
        resume_last=args.resume_last,
        fork=args.fork,
        yes=args.yes,
        json=args.json,
        verbose=args.verbose,
        files=tuple(str(Path(file).expanduser().absolute()) for file in args.files),
    )
    return await run(options, launcher_for(args), console)


async def _history(args: argparse.Namespace, console: Console) -> int:
    from lsp_bridge.cli.commands.history import HistoryOptions, history

    options = HistoryOptions(
        action=args.command,
        workspace=args.workspace,
        session=args.session,
        change=getattr(args, "change", None),
        message=getattr(args, "message", None),
        goal=getattr(args, "goal", None),
        dry_run=getattr(args, "dry_run", False),
        json=args.json,
    )
    return await history(options, launcher_for(args), console)


async def _plan(args: argparse.Namespace, console: Console) -> int:
    from lsp_bridge.cli.commands import plan

    if args.command == "goals":
        return await plan.goals(
            plan.GoalsOptions(args.workspace, args.session, args.json), launcher_for(args), console
        )
    options = plan.GoalOptions(
        action=args.action,
        workspace=args.workspace,
        session=args.session,
        goal=getattr(args, "goal", ""),
        text=getattr(args, "text", ""),
        reason=getattr(args, "reason", ""),
        under=getattr(args, "under", None),
        before=getattr(args, "before", None),
        revert_files=getattr(args, "revert_files", False),
        dry_run=getattr(args, "dry_run", False),
        json=args.json,
    )
    return await plan.goal(options, launcher_for(args), console)


async def _branches(args: argparse.Namespace, console: Console) -> int:
    if args.command == "agents":
        from lsp_bridge.cli.commands.agents import AgentsOptions, agents

        return await agents(AgentsOptions(args.workspace, args.json), launcher_for(args), console)
    if args.command == "plan":
        from lsp_bridge.cli.commands.plan import PlanOptions, plan

        planned = PlanOptions(
            action=args.action,
            workspace=args.workspace,
            session=args.session,
            reason=getattr(args, "reason", ""),
            yes=getattr(args, "yes", False),
            json=args.json,
        )
        return await plan(planned, launcher_for(args), console)

    from lsp_bridge.cli.commands.explore import ExploreOptions, explore

    options = ExploreOptions(
        action=args.action or "list",
        workspace=args.workspace,
        session=args.session,
        branch=getattr(args, "branch", ""),
        paths=tuple(getattr(args, "paths", ())),
        none=getattr(args, "none", False),
        yes=getattr(args, "yes", False),
        json=args.json,
    )
    return await explore(options, launcher_for(args), console)


async def _trace(args: argparse.Namespace, console: Console) -> int:
    from dataclasses import fields

    from lsp_bridge.cli.trace.actions import trace
    from lsp_bridge.cli.trace.options import TraceOptions

    given = {field.name: getattr(args, field.name) for field in fields(TraceOptions) if field.name in args}
    return await trace(TraceOptions(**given), launcher_for(args), console)


async def _context(args: argparse.Namespace, console: Console) -> int:
    if args.command == "context":
        from lsp_bridge.cli.commands import context

        seen = context.ContextOptions(args.workspace, args.session, args.tools, args.brief, args.json)
        return await context.context(seen, launcher_for(args), console)

    from lsp_bridge.cli.commands import limits

    if args.command == "handover":
        taken = limits.HandOverOptions(args.workspace, args.agent, args.session, args.json)
        return await limits.hand_over(taken, launcher_for(args), console)
    if args.command == "compact":
        kept = limits.CompactOptions(args.workspace, args.session, args.keep, args.json)
        return await limits.compact(kept, launcher_for(args), console)
    options = limits.BudgetOptions(args.workspace, args.session, limits_of(args), args.json)
    return await limits.budget(options, launcher_for(args), console)


async def _permissions(args: argparse.Namespace, console: Console) -> int:
    from lsp_bridge.cli.commands import permissions as p

    if args.command == "trust":
        return p.trust(args.workspace, console, remove=args.remove, as_json=args.json)
    launcher = launcher_for(args)
    if args.command == "mode":
        return await p.mode(
            p.ModeOptions(args.workspace, args.session, args.mode, args.json), launcher, console
        )
    if args.command == "jobs":
        return await p.jobs(
            p.JobOptions(args.workspace, args.session, args.kill, args.json), launcher, console
        )
    options = p.PermissionOptions(
        action=args.action or "list",
        workspace=args.workspace,
        session=args.session,
        ids=tuple(getattr(args, "ids", ())),
        permission=getattr(args, "permission", ""),
        target=getattr(args, "target", ""),
        json=args.json,
    )
    return await p.permissions(options, launcher, console)


def limits_of(args: argparse.Namespace) -> tuple[tuple[str, float | None], ...]:
    """The limits that the command line sets, by their names on the wire."""
    from daemon.cli import NO_LIMIT
    from lsp_bridge.cli.commands.limits import LIMITS

    given = {
        "sessionUsd": args.usd,
        "sessionTokens": args.tokens,
        "goalUsd": args.goal_usd,
        "goalTokens": args.goal_tokens,
    }
    changes: dict[str, float | None] = dict.fromkeys(LIMITS) if args.none else {}
    changes |= {
        name: None if value == NO_LIMIT else value for name, value in given.items() if value is not None
    }
    return tuple(changes.items())


def launcher_for(args: argparse.Namespace) -> Launcher:
    """How a command reaches the daemon, or starts it."""
    from lsp_bridge.cli.launch import Launcher

    idle = getattr(args, "idle_timeout", None)
    return Launcher(serve_args=() if idle is None else ("--idle-timeout", f"{idle:g}"))
