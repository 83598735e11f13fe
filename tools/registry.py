"""The built-in tools, and the one way to run a call of the model: it always ends in exactly one result."""

from __future__ import annotations

import asyncio
import difflib
import json
import logging
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from tools.localization import english
from tools.text.truncate import head
from tools.tool import PermissionDeniedError, Tool, ToolContext, ToolError, ToolInput, ToolResult

_log = logging.getLogger(__name__)

# Any: a registry holds tools of all input types; ``run_tool`` pairs each with its own input.
AnyTool = Tool[Any]


def builtin_tools() -> dict[str, AnyTool]:
    """Return all built-in tools by name, in the order in which they are offered to the model.

    Of ``goal`` and ``step`` a session offers one (setting ``plan_front``).
    """
    from tools.bash import BashTool
    from tools.diagnostics import DiagnosticsTool
    from tools.edit import EditTool
    from tools.explore import ExploreTool
    from tools.glob import GlobTool
    from tools.goal import GoalTool, ReadProgressTool
    from tools.grep import GrepTool
    from tools.hand_over import HandOverTool
    from tools.job import JobTool
    from tools.ls import LsTool
    from tools.patch import PatchTool
    from tools.question import QuestionTool
    from tools.read import ReadTool
    from tools.skill import SkillTool
    from tools.step import StepTool
    from tools.symbols import SymbolsTool
    from tools.task import TaskTool
    from tools.webfetch import WebfetchTool
    from tools.write import WriteTool

    tools: list[AnyTool] = [
        GoalTool(), StepTool(), ReadProgressTool(), ReadTool(), LsTool(), GlobTool(), GrepTool(), SymbolsTool(),
        DiagnosticsTool(), EditTool(), PatchTool(), WriteTool(), BashTool(), JobTool(), TaskTool(), ExploreTool(),
        HandOverTool(), QuestionTool(), WebfetchTool(), SkillTool(),
    ]  # fmt: skip
    return {tool.name: tool for tool in tools}


class BuiltinTools(Mapping[str, AnyTool]):
    """``builtin_tools()``, imported at the first lookup, or before by ``load`` in a thread.

    Measured: 55 ms of processor time at the daemon's start, and no client needs them for the handshake.
    """

    def __init__(self) -> None:
        self._tools: dict[str, AnyTool] | None = None
        self._loading = threading.Lock()

    def load(self) -> dict[str, AnyTool]:
        """Import them, if not done yet. From any thread; blocks."""
        with self._loading:
            if self._tools is None:
                self._tools = builtin_tools()
            return self._tools

    def __getitem__(self, name: str) -> AnyTool:
        return self.load()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.load())

    def __len__(self) -> int:
        return len(self.load())


async def run_tool(tool: AnyTool, input_json: str, ctx: ToolContext) -> ToolResult:
    """Validate the arguments and run the tool.

    Bad arguments, ToolError and bugs become results with ``is_error``; bugs are logged with their traceback.
    PermissionDeniedError and asyncio.CancelledError pass through.
    """
    try:
        arguments = parse_input(tool, input_json)
        return await tool.run(arguments, ctx)
    except ToolError as error:
        # The model reads English, whatever language the user reads.
        told = {"told": str(error.told)} if error.told else {}
        return ToolResult(
            english(error), title=head(str(error).split("\n", 1)[0], 160), metadata=told, is_error=True
        )
    except (PermissionDeniedError, asyncio.CancelledError):
        raise
    except Exception as error:
        _log.exception("tool %s failed (call %s)", tool.name, ctx.tool_call_id)
        message = f"Internal error in the {tool.name} tool: {type(error).__name__}: {error}"
        return ToolResult(message, title=f"internal error: {type(error).__name__}", is_error=True)


def parse_input(tool: AnyTool, input_json: str) -> ToolInput:
    """Return the typed arguments of a call. Raises ToolError that lists all problems and the expected arguments."""
    try:
        value: object = json.loads(input_json or "{}")
    except ValueError as error:
        message = f"The arguments of {tool.name} are not valid JSON: {error}. {_expected(tool)}"
        raise ToolError(message) from error
    except RecursionError:
        # Omit the cause, because its traceback repeats one line a thousand times.
        raise ToolError(_too_deep(tool)) from None
    if not isinstance(value, dict):
        raise ToolError(f"The arguments of {tool.name} must be a JSON object. {_expected(tool)}")
    try:
        return tool.Input.model_validate(value)
    except ValidationError as error:
        lines = [f"The arguments of {tool.name} are wrong:"]
        for problem in error.errors(include_url=False, include_context=False):
            where = ".".join(str(part) for part in problem["loc"]) or "arguments"
            lines.append(f"- {where}: {_problem(problem['type'], problem['msg'], problem['loc'], tool)}")
        lines.append(_expected(tool))
        raise ToolError("\n".join(lines)) from error
    except RecursionError:
        raise ToolError(_too_deep(tool)) from None


def _too_deep(tool: AnyTool) -> str:
    return f"The arguments of {tool.name} are nested too deeply. {_expected(tool)}"


def unknown_tool(name: str, names: Iterable[str]) -> str:
    """Return the message for the model about a tool that does not exist."""
    known = sorted(names)
    close = difflib.get_close_matches(name.casefold(), known, n=1, cutoff=0.5)
    hint = f" Did you mean {close[0]}?" if close else ""
    return f"There is no tool named {name!r}.{hint} Available: {', '.join(known)}."


def _problem(kind: str, message: str, where: tuple[int | str, ...], tool: AnyTool) -> str:
    if kind == "missing":
        return "is required"
    if kind == "extra_forbidden":
        fields = _fields(tool.Input, where[:-1])
        close = difflib.get_close_matches(str(where[-1]), fields, n=1, cutoff=0.4)
        # The fields of the call itself are listed below anyway.
        known = f"; there are {', '.join(fields)}" if len(where) > 1 and fields else ""
        return "is not known" + known + (f"; did you mean {close[0]}?" if close else "")
    return message[:1].lower() + message[1:]


def _fields(model: type[BaseModel], path: tuple[int | str, ...]) -> list[str]:
    """Return the fields of the object at a place in the arguments; none when unknown."""
    for step in path:
        if isinstance(step, str):
            if step not in model.model_fields:
                return []
            inner = _model_in(model.model_fields[step].annotation)
            if inner is None:
                return []
            model = inner
    return list(model.model_fields)


def _model_in(annotation: object) -> type[BaseModel] | None:
    """Return the model of a field, directly or in a list."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for one in get_args(annotation) if (found := _model_in(one)) is not None), None)


def _expected(tool: AnyTool) -> str:
    properties: dict[str, dict[str, Any]] = tool.schema().get("properties", {})
    required = tool.schema().get("required", [])
    parts = [f"{name}{'' if name in required else '?'}: {_kind(spec)}" for name, spec in properties.items()]
    return f"Expected: {{{', '.join(parts)}}}"


def _kind(spec: dict[str, Any]) -> str:
    options: list[dict[str, Any]] = spec.get("anyOf", [spec])
    kinds = [str(option.get("type", "any")) for option in options]
    return " | ".join(kind for kind in kinds if kind != "null")
