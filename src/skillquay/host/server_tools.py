"""The servers' own tools for the model: named by server, bounded, and answered with their origin (P4, O1, O5).

Calling a tool says nothing about the skills of its server: no approval is read, given or kept here.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

import anyio
from anyio import to_thread
from mcp_types import CallToolResult, EmbeddedResource, ResourceLink, TextContent, TextResourceContents

from skillquay.core.context import render_claim, render_error, render_tool_result
from skillquay.core.hidden import shorten
from skillquay.errors import RefusedError, SkillquayError, StateError, UnavailableError
from skillquay.host.asking import ask
from skillquay.host.configuration import Problem
from skillquay.host.consent import key_of
from skillquay.host.tools import Tool, ToolResult

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from mcp import Client
    from mcp_types import Tool as ListedTool

    from skillquay.host.host import SkillHost
    from skillquay.host.servers import SkillServer

__all__ = ["ServerTool", "server_tools"]

_MOST_TOOLS: Final = 500
_MOST_PAGES: Final = 50
_LONGEST_DESCRIPTION: Final = 4 * 1024
_LONGEST_SCHEMA: Final = 64 * 1024
_DEEPEST_SCHEMA: Final = 64
_LONGEST_NAME: Final = 64
_NOT_IN_A_NAME: Final = re.compile(r"[^A-Za-z0-9_-]")
_RULE: Final = "P4"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTool(Tool):
    """A tool of a server. Its arguments are checked by that server, whose schema may say anything."""

    answer: Callable[[Mapping[str, Any]], Awaitable[ToolResult]]

    async def call(self, arguments: object) -> ToolResult:
        """Answer a call. Whatever is wrong is told, never raised."""
        if isinstance(arguments, str):
            try:
                arguments = json.loads(arguments or "{}")
            except (ValueError, RecursionError):
                return ToolResult(text=f"The arguments of {self.name} are not JSON.", is_error=True)
        if not isinstance(arguments, Mapping):
            return ToolResult(text=f"The arguments of {self.name} must be an object.", is_error=True)
        try:
            return await self.answer(arguments)
        except SkillquayError as error:
            return ToolResult(text=render_error(error.message, quotes_server=True), is_error=True)


async def server_tools(host: SkillHost) -> tuple[Tool, ...]:
    """The tools of all servers that answer within the deadline of discovery, as `server__tool`.

    What cannot be offered is among the problems of the host: servers that fail, tools out of bounds, and tools that
    come out with one name, of which none is offered. A server that is switched off offers nothing (A5).
    """
    try:
        disabled = await to_thread.run_sync(host.consent.store.disabled)
    except StateError:  # among the problems already; nothing counts as switched on
        return ()
    servers = [host.server_of(label) for label in host.servers if key_of(label) not in disabled]
    offers = [_Offer(server, host) for server in servers]
    async with anyio.create_task_group() as asking:
        for offer in offers:
            asking.start_soon(offer.fill)
    counts = Counter(tool.name for offer in offers for tool in offer.tools)
    tools: list[Tool] = []
    for offer in offers:
        for tool in offer.tools:
            if counts[tool.name] == 1:
                tools.append(tool)
            else:
                offer.remark(f"Several tools would be called {tool.name}. None of them is offered.")
        offer.report()
    return tuple(tools)


class _Offer:
    """What one server offers."""

    def __init__(self, server: SkillServer, host: SkillHost) -> None:
        self.tools: list[ServerTool] = []
        self._server = server
        self._host = host
        self._budgets = host.budgets
        self._remarks: dict[str, None] = {}

    def remark(self, message: str) -> None:
        self._remarks[message] = None

    def report(self) -> None:
        """Put the remarks in the place of those of the last time."""
        subject = f'tools of server "{self._server.label}"'
        others = (problem for problem in self._server.problems if problem.subject != subject)
        own = (Problem(subject=subject, message=message, rule=_RULE) for message in self._remarks)
        self._server.problems = (*others, *own)

    async def fill(self) -> None:
        """List the tools, page by page. What came before a failure is used."""
        with anyio.move_on_after(self._budgets.discovery) as deadline:
            try:
                await self._server.connection.call(self._list)
            except SkillquayError as error:
                self.remark(error.message)
        if deadline.cancelled_caught:
            self.remark(f"They were not listed within {self._budgets.discovery:g} seconds.")

    async def _list(self, client: Client) -> None:
        if client.server_capabilities.tools is None:
            return
        cursor: str | None = None
        seen = 0
        for _ in range(_MOST_PAGES):
            page = await client.list_tools(cursor=cursor)
            for listed in page.tools[: _MOST_TOOLS - seen]:
                self._add(listed)
            seen += len(page.tools)
            if seen > _MOST_TOOLS:
                self.remark(f"There are more than {_MOST_TOOLS:,}; the first ones are offered.")
                return
            cursor = page.next_cursor
            if cursor is None:
                return
        self.remark(f"Their listing has more than {_MOST_PAGES} pages; the first ones are offered.")

    def _add(self, listed: ListedTool) -> None:
        if not listed.name:
            self.remark("A tool has no name, and is not offered.")
            return
        try:
            schema = _schema(listed.input_schema)
        except _UnusableSchemaError as error:
            self.remark(f'The tool "{shorten(listed.name)}" is not offered: the schema of its arguments {error}.')
            return
        answer = partial(self._call, listed.name)
        self.tools.append(
            ServerTool(
                name=_name(self._server.label.label, listed.name),
                description=_description(self._server.label.label, listed.description or ""),
                parameters=schema,
                run=partial(_text, answer),
                answer=answer,
            )
        )

    async def _check(self) -> None:
        """A tool that a program still holds does not outlive its server: removed, distrusted, switched off (A5, P6)."""
        label = self._server.label
        if self._host.server_of(label) is not self._server:
            raise UnavailableError(f'The server "{label}" was configured anew. List its tools again.', rule=_RULE)
        if key_of(label) in await to_thread.run_sync(self._host.consent.store.disabled):
            what = f'The server "{label}" is disabled. Enable it with "skillquay enable {label}".'
            raise RefusedError(what, rule="A5")

    async def _call(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        async def use(client: Client) -> CallToolResult:
            # Not the SDK's call_tool: it matches the patterns of the server's output schema against the server's own
            # answer, and a server can make that take for ever.
            raw = await ask(client.session, "tools/call", {"name": name, "arguments": dict(arguments)})
            if raw.get("resultType", "complete") != "complete":
                what = f'The tool "{shorten(name)}" asks for more than its arguments, which is not given.'
                raise UnavailableError(what, rule=_RULE)
            return CallToolResult.model_validate(raw, by_name=False)

        await self._check()
        result = await self._server.connection.call(use)
        text = "\n".join(_shown(result))
        rendered = render_tool_result(self._server.label, name, text, limit=self._budgets.shown_characters)
        return ToolResult(text=rendered, is_error=result.is_error)


async def _text(answer: Callable[[Mapping[str, Any]], Awaitable[ToolResult]], arguments: Mapping[str, Any]) -> str:
    return (await answer(arguments)).text


def _name(label: str, tool: str) -> str:
    """`server__tool` in the letters that models' services take. A name that is too long ends in a hash of the whole."""
    name = _NOT_IN_A_NAME.sub("_", f"{label}__{tool}")
    if len(name) <= _LONGEST_NAME:
        return name
    hashed = sha256(json.dumps([label, tool]).encode()).hexdigest()[:8]
    return f"{name[: _LONGEST_NAME - 9]}_{hashed}"


def _description(label: str, text: str) -> str:
    """What the server says of its tool, and that it says so. It is not told in tags, and forges none (O1, O3)."""
    if not text:
        return render_claim(f"A tool of MCP server {label}.")
    return _cut(render_claim(f"From MCP server {label}: {_cut(text, _LONGEST_DESCRIPTION)}"), _LONGEST_DESCRIPTION)


class _UnusableSchemaError(Exception):
    """The rest of a sentence about the schema of a tool's arguments."""


def _schema(given: Mapping[str, Any]) -> dict[str, Any]:
    """The schema with every text in it made harmless. Names cannot be changed: a tool with others is not offered."""
    schema = {"type": "object", "properties": {}, **_harmless(given, 0)}  # some services want both said
    if len(json.dumps(schema)) > _LONGEST_SCHEMA:
        raise _UnusableSchemaError(f"has more than {_LONGEST_SCHEMA:,} bytes")
    return schema


def _harmless(value: Any, depth: int) -> Any:
    if depth > _DEEPEST_SCHEMA:
        raise _UnusableSchemaError(f"is more than {_DEEPEST_SCHEMA} levels deep")
    if isinstance(value, str):
        return render_claim(value)
    if isinstance(value, list):
        return [_harmless(each, depth + 1) for each in value]
    if isinstance(value, Mapping):
        for name in value:
            if "\n" in name or render_claim(name) != name:
                raise _UnusableSchemaError(f'has "{shorten(name)}" in it, which hides something')
        return {name: _harmless(each, depth + 1) for name, each in value.items()}
    return value


def _cut(text: str, limit: int) -> str:
    """At most so many bytes of UTF-8."""
    data = text.encode("utf-8", "replace")
    return text if len(data) <= limit else data[: limit - 3].decode("utf-8", "ignore") + "…"


def _shown(result: CallToolResult) -> Iterator[str]:
    """The content of a result as text. What is no text is told of, and not given."""
    for block in result.content:
        match block:
            case TextContent():
                yield block.text
            case EmbeddedResource(resource=TextResourceContents() as resource):
                yield resource.text
            case EmbeddedResource():
                yield f"[the bytes of {shorten(block.resource.uri, 200)}]"
            case ResourceLink():
                yield f"[a link to {shorten(block.uri, 200)}]"
            case _:
                yield f"[{block.type}: {shorten(block.mime_type)}]"
    if result.structured_content is not None and not result.content:
        yield json.dumps(result.structured_content, ensure_ascii=False)
