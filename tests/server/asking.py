"""Ask a server in this process, in any revision of the protocol, and see answers as they travel."""

from __future__ import annotations

import contextlib
import json
import os
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import pytest
from mcp import Client, ClientSession, MCPError
from mcp.client._memory import InMemoryTransport
from mcp.server.mcpserver import MCPServer
from mcp_types import (
    ClientCapabilities,
    Implementation,
    InitializedNotification,
    InitializeRequest,
    InitializeRequestParams,
    InitializeResult,
    ResourceListChangedNotification,
    ResourceUpdatedNotification,
    ServerCapabilities,
)

from skillquay.server.app import make_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
    from pathlib import Path

    from mcp.client.session import IncomingMessage
    from mcp.server.lowlevel import Server
    from mcp.shared.dispatcher import CallOptions

    from skillquay.server.extension import Skills

__all__ = [
    "MODERN",
    "OLDER",
    "PATIENCE",
    "VERSIONS",
    "Asker",
    "asking",
    "low_level",
    "mcp_server",
    "rewrite",
    "until",
    "until_equal",
    "write_skill",
]

T = TypeVar("T")

MODERN = "2026-07-28"
OLDER = ("2025-11-25", "2025-06-18")
VERSIONS = (MODERN, *OLDER)
PATIENCE = 20.0  # seconds for what takes milliseconds, on a machine with much else to do


class Asker:
    """A connected client. What it is told by the server on its own is in `updated` and `lists_changed`."""

    def __init__(self, version: str) -> None:
        self.version = version
        self.updated: list[str] = []
        self.lists_changed = 0
        self.session: ClientSession
        self.client: Client | None = None

    @property
    def is_modern(self) -> bool:
        return self.version == MODERN

    @property
    def capabilities(self) -> ServerCapabilities:
        assert self.session.server_capabilities is not None
        return self.session.server_capabilities

    async def ask(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The result, as JSON brings it."""
        envelope: dict[str, Any] = {"method": method, "params": {}}
        options: CallOptions = {}
        self.session._stamp(envelope, options)  # of the parameters, only HTTP headers would be made
        with anyio.fail_after(PATIENCE):
            result = await self.session._dispatcher.send_raw_request(
                method, {**(params or {}), **envelope["params"]}, options
            )
        travelled: dict[str, Any] = json.loads(json.dumps(result))
        return travelled

    async def refusal(self, method: str, params: Mapping[str, Any] | None = None) -> MCPError:
        """The error that is the answer; it is never long."""
        with pytest.raises(MCPError) as failure:
            print(await self.ask(method, params))
        assert len(failure.value.message) < 1000
        assert len(json.dumps(failure.value.data, ensure_ascii=False)) < 1000
        return failure.value

    async def listing(self, method: str = "skills/list", member: str = "skills") -> list[dict[str, Any]]:
        """All pages."""
        items: list[dict[str, Any]] = []
        cursor = None
        while True:
            page = await self.ask(method, {} if cursor is None else {"cursor": cursor})
            items += page[member]
            if (cursor := page.get("nextCursor")) is None:
                return items

    async def skills(self) -> list[str]:
        """The URIs of the skills it sees."""
        return [entry["uri"] for entry in await self.listing()]

    async def text(self, uri: str) -> str:
        """The text of one file."""
        (contents,) = (await self.ask("resources/read", {"uri": uri}))["contents"]
        text: str = contents["text"]
        return text

    async def note(self, message: IncomingMessage) -> None:
        if isinstance(message, ResourceListChangedNotification):
            self.lists_changed += 1
        elif isinstance(message, ResourceUpdatedNotification):
            self.updated.append(str(message.params.uri))


@contextlib.asynccontextmanager
async def asking(server: Server[Any] | MCPServer, version: str, *, name: str = "tests") -> AsyncIterator[Asker]:
    """Connect by the SDK's own client, or where it cannot speak so old a revision, by its session."""
    asker = Asker(version)
    info = Implementation(name=name, version="1")
    if version == "2025-06-18":
        async with (
            InMemoryTransport(server) as (read, write),
            ClientSession(read, write, client_info=info, message_handler=asker.note) as session,
        ):
            asker.session = session
            yield await _initialized(asker, info)
        return
    mode = "auto" if version == MODERN else "legacy"
    async with Client(server, mode=mode, client_info=info, message_handler=asker.note) as client:
        assert client.protocol_version == version
        asker.client, asker.session = client, client.session
        yield asker


async def _initialized(asker: Asker, info: Implementation) -> Asker:
    params = InitializeRequestParams(
        protocol_version=asker.version, capabilities=ClientCapabilities(), client_info=info
    )
    result = await asker.session.send_request(InitializeRequest(params=params), InitializeResult)
    assert result.protocol_version == asker.version
    asker.session.adopt(result)
    await asker.session.send_notification(InitializedNotification())
    return asker


def low_level(skills: Skills) -> Server[Any]:
    return make_server("acme", skills)


def mcp_server(skills: Skills) -> MCPServer:
    return MCPServer("acme", extensions=[skills], middleware=[skills.middleware], subscriptions=skills.subscriptions)


async def until(holds: Callable[[], bool], what: str, *, seconds: float = PATIENCE) -> None:
    """Wait for something that happens in its own time."""

    async def answer() -> bool:
        return holds()

    await until_equal(answer, True, what, seconds=seconds)


async def until_equal(ask: Callable[[], Awaitable[T]], expected: T, what: str, *, seconds: float = PATIENCE) -> None:
    """Ask again and again until the answer is the expected one."""
    answer = None
    with anyio.move_on_after(seconds):
        while (answer := await ask()) != expected:  # noqa: ASYNC110 - it happens in a thread, on a disk or elsewhere
            await anyio.sleep(0.01)
        return
    pytest.fail(f"It did not happen within {seconds:g} seconds: {what}. It is still {answer!r}.")


def rewrite(path: Path, text: str) -> None:
    """Put a file in place of another in one step, so that nobody finds it half written."""
    beside = path.with_name(f".{path.name}.new")
    beside.write_text(text, encoding="utf-8")
    os.replace(beside, path)


def write_skill(root: Path, path: str, files: Mapping[str, bytes] | None = None, *lines: str) -> Path:
    """A skill's directory with a valid `SKILL.md`, more files, and more lines of frontmatter where wanted."""
    directory = root / path
    directory.mkdir(parents=True, exist_ok=True)
    name = directory.name
    more = "".join(f"{line}\n" for line in lines)
    skill_md = f"---\nname: {name}\ndescription: What {name} is for.\n{more}---\nDo {name}.\n".encode()
    for file, data in {"SKILL.md": skill_md, **(files or {})}.items():
        (directory / file).parent.mkdir(parents=True, exist_ok=True)
        (directory / file).write_bytes(data)
    return directory
