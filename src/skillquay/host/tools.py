"""The tools a model reads skills with, as data for any framework, and one place that answers their calls (P3)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from skillquay.core.context import Available, render_available, render_error
from skillquay.core.hidden import shorten
from skillquay.errors import SkillquayError, StateError, UnknownSkillError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Container, Iterable

    from skillquay.host.host import SkillHost

__all__ = ["Tool", "ToolResult", "answer_anthropic", "answer_openai", "anthropic_tools", "openai_tools", "skill_tools"]

_NAME: Final = {
    "type": "string",
    "description": "The skill's name as the list of available skills has it.",
}
_SERVER: Final = {"type": "string", "description": "The label of an MCP server."}
_LONGEST_LIMIT: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """What a call gives the model: text with its origin in it, or a sentence that says what is wrong."""

    text: str
    is_error: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool: its name, what it is for, a JSON Schema of its arguments, and what to await."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    run: Callable[[Mapping[str, Any]], Awaitable[str]]

    async def call(self, arguments: object) -> ToolResult:
        """Answer a call. Arguments come from a model: whatever is wrong with them is told, never raised."""
        if isinstance(arguments, str):
            try:
                arguments = json.loads(arguments or "{}")
            except (ValueError, RecursionError):
                return ToolResult(text=f"The arguments of {self.name} are not JSON.", is_error=True)
        if problem := _problem(self, arguments):
            return ToolResult(text=problem, is_error=True)
        assert isinstance(arguments, Mapping), "_problem saw to it"
        try:
            return ToolResult(text=await self.run(arguments))
        except SkillquayError as error:
            text = render_error(error.message, quotes_server=not isinstance(error, StateError))
            return ToolResult(text=text, is_error=True)


def skill_tools(host: SkillHost) -> tuple[Tool, ...]:
    """The tools of this host; none when there are no skills and no server that could have any (P2)."""
    if not host.has_skills:
        return ()

    async def read_skill(arguments: Mapping[str, Any]) -> str:
        if arguments.get("name"):
            return await host.read_skill(arguments["name"])
        if "server" in arguments and "uri" in arguments:
            return await host.read_skill_uri(arguments["server"], arguments["uri"])
        raise UnknownSkillError("Give the name of a skill, or a server and the URI of a skill on it.", rule="P3")

    async def read_skill_file(arguments: Mapping[str, Any]) -> str:
        return await host.read_skill_file(arguments["name"], arguments["path"])

    async def list_skill_files(arguments: Mapping[str, Any]) -> str:
        return await host.list_skill_files(arguments["name"])

    async def search_skills(arguments: Mapping[str, Any]) -> str:
        found = await host.search_skills(
            arguments["query"], limit=min(max(arguments.get("limit", 10), 1), _LONGEST_LIMIT)
        )
        if not found:
            return "No skill fits these words."
        available = (
            Available(
                name=each.name, description=each.description, origin=each.origin, is_served=each.entry is not None
            )
            for each in found
        )
        return render_available(tuple(available), budget=host.budgets.shown_characters // 4)

    async def read_resource(arguments: Mapping[str, Any]) -> str:
        return await host.read_resource(arguments["server"], arguments["uri"])

    tools = [
        Tool(
            name="read_skill",
            description="Load a skill: gives its instructions, where they come from, and the list of its files. Use it "
            "before you begin work the skill is for. Give its name; or, for a skill that is not listed, the server and "
            "the URI of its SKILL.md.",
            parameters=_schema(
                {"name": _NAME, "server": _SERVER, "uri": {"type": "string", "description": "The skill's URI."}}
            ),
            run=read_skill,
        ),
        Tool(
            name="read_skill_file",
            description="Read one file of a skill you have loaded, such as references/GUIDE.md.",
            parameters=_schema(
                {
                    "name": _NAME,
                    "path": {"type": "string", "description": "The file's path from the skill's directory."},
                },
                required=("name", "path"),
            ),
            run=read_skill_file,
        ),
        Tool(
            name="list_skill_files",
            description="List the files of a skill.",
            parameters=_schema({"name": _NAME}, required=("name",)),
            run=list_skill_files,
        ),
        Tool(
            name="search_skills",
            description="Find skills by words. Use it when the list of available skills is cut short, or none fits.",
            parameters=_schema(
                {
                    "query": {"type": "string", "description": "Words that say what the work is about."},
                    "limit": {"type": "integer", "description": "How many skills to show, 10 unless you say."},
                },
                required=("query",),
            ),
            run=search_skills,
        ),
    ]
    if host.servers:
        tools.append(
            Tool(
                name="read_resource",
                description="Read a resource of an MCP server by its URI; a directory is listed. For skills and their "
                "files use read_skill and read_skill_file.",
                parameters=_schema(
                    {"server": _SERVER, "uri": {"type": "string", "description": "The resource's URI."}},
                    required=("server", "uri"),
                ),
                run=read_resource,
            )
        )
    return tuple(tools)


def anthropic_tools(tools: Iterable[Tool]) -> list[dict[str, Any]]:
    """The tools as the `tools` of Anthropic's Messages API."""
    return [
        {"name": tool.name, "description": tool.description, "input_schema": dict(tool.parameters)} for tool in tools
    ]


def openai_tools(tools: Iterable[Tool]) -> list[dict[str, Any]]:
    """The tools as the `tools` of OpenAI's Chat Completions API, which many other services share."""
    return [
        {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)},
        }
        for tool in tools
    ]


async def answer_anthropic(
    tools: Iterable[Tool], content: Iterable[Mapping[str, Any]], *, others: Container[str] = ()
) -> list[dict[str, Any]]:
    """The `tool_result` blocks for the `tool_use` blocks of a reply; `others` are names of tools you answer."""
    by_name = {tool.name: tool for tool in tools}
    answers: list[dict[str, Any]] = []
    for block in content:
        if block.get("type") == "tool_use" and block.get("name") not in others:
            result = await _called(by_name, block.get("name"), block.get("input"))
            answers.append(
                {
                    "type": "tool_result",
                    "tool_use_id": block["id"],
                    "content": result.text,
                    "is_error": result.is_error,
                }
            )
    return answers


async def answer_openai(
    tools: Iterable[Tool], calls: Iterable[Mapping[str, Any]] | None, *, others: Container[str] = ()
) -> list[dict[str, Any]]:
    """The `tool` messages for the `tool_calls` of a reply; `others` are names of tools you answer."""
    by_name = {tool.name: tool for tool in tools}
    answers: list[dict[str, Any]] = []
    for call in calls or ():
        function = call.get("function")
        if isinstance(function, Mapping) and function.get("name") not in others:
            result = await _called(by_name, function.get("name"), function.get("arguments"))
            answers.append({"role": "tool", "tool_call_id": call["id"], "content": result.text})
    return answers


async def _called(tools: Mapping[str, Tool], name: object, arguments: object) -> ToolResult:
    tool = tools.get(name) if isinstance(name, str) else None
    if tool is None:
        return ToolResult(text=f'There is no tool "{shorten(str(name))}".', is_error=True)
    return await tool.call(arguments)


def _schema(properties: dict[str, Any], *, required: tuple[str, ...] = ()) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**schema, "required": list(required)} if required else schema


_PYTHON_TYPES: Final[Mapping[str, type]] = {"string": str, "integer": int}


def _problem(tool: Tool, arguments: object) -> str | None:
    """What is wrong with the arguments of a call; None when nothing is."""
    if not isinstance(arguments, Mapping):
        return f"The arguments of {tool.name} must be an object."
    for name in tool.parameters.get("required", ()):
        if name not in arguments:
            return f'{tool.name} needs the argument "{name}".'
    for name, value in arguments.items():
        declared = tool.parameters["properties"].get(name)
        if declared is None:
            return f'{tool.name} has no argument "{shorten(str(name))}".'
        wanted = declared["type"]
        if not isinstance(value, _PYTHON_TYPES[wanted]) or isinstance(value, bool):
            return f'The argument "{name}" of {tool.name} must be of type {wanted}.'
    return None
