"""A server in this process that answers as it is told, a person who answers as they are told, and a host of both."""

from __future__ import annotations

import inspect as inspection
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from mcp import MCPError
from mcp.server.lowlevel import Server
from mcp_types import INVALID_PARAMS, METHOD_NOT_FOUND

from skillquay.core.questions import Question, Reply
from skillquay.host.approver import Approver, Inspect
from skillquay.host.budgets import Budgets
from skillquay.host.host import SkillHost
from skillquay.wire.contents import contents
from skillquay.wire.index_json import INDEX_URI

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

    from tests.core.builders import Published

__all__ = ["EXTENSION", "PATIENT", "Handler", "Person", "Scripted", "failure", "hosting", "local_skill", "of_draft"]

EXTENSION = "io.modelcontextprotocol/skills"
PATIENT = Budgets(discovery=30, call=30)

MODERN = "2026-07-28"
_COMPLETE = {"resultType": "complete"}
_ENVELOPES: dict[str, dict[str, Any]] = {  # without which the SDK takes nothing
    "resources/list": {**_COMPLETE, "ttlMs": 0, "cacheScope": "private"},
    "resources/read": {**_COMPLETE, "ttlMs": 0, "cacheScope": "private"},
    "resources/directory/read": _COMPLETE,
    "skills/list": _COMPLETE,
    "skills/get": _COMPLETE,
}

Handler: TypeAlias = Callable[[Mapping[str, Any]], dict[str, Any] | Awaitable[dict[str, Any]]]


def failure(code: int = INVALID_PARAMS, message: str = "There is no such thing here.") -> MCPError:
    """An error to raise as the answer."""
    return MCPError(code=code, message=message)


class Scripted:
    """Honest about these skills until it is told otherwise. All of it may be changed while it runs.

    `entries` are listed, `unlisted` are given by `skills/get` only, `files` are what is read; `on` has the handlers
    that lie; `asked` is what was asked, in order; `changes` promises notices of changes; `announces` are its
    capabilities, where it has others than v1.
    """

    def __init__(self, *skills: Published, directories: bool = False, declared: object = None) -> None:
        self.entries: list[Any] = []
        self.unlisted: list[Any] = []
        self.files: dict[str, bytes] = {}
        self.on: dict[str, Handler] = {}
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.ttl: Any = 60_000
        self.changes = False
        self.announces: dict[str, Any] | None = None
        self.declared: object = ({"directoryRead": True} if directories else {}) if declared is None else declared
        self.server: Server[Any] = Server("honest-server", version="1")
        self.server.middleware.append(self._answer)
        self.publish(*skills)

    def publish(self, *skills: Published) -> None:
        """List these skills and no others, and serve their files."""
        self.entries = [skill.entry.to_json() for skill in skills]
        self.files = {str(skill.uri(path)): data for skill in skills for path, data in skill.files.items()}

    def count(self, method: str) -> int:
        """How often a method was called."""
        return sum(asked == method for asked, _ in self.asked)

    @property
    def reads(self) -> list[str]:
        """The URIs that were read, in order."""
        return [params["uri"] for method, params in self.asked if method == "resources/read"]

    async def _answer(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        params = {key: value for key, value in (ctx.params or {}).items() if key != "_meta"}
        self.asked.append((ctx.method, params))
        handler = self.on.get(ctx.method) or getattr(self, "_" + ctx.method.replace("/", "_"), None)
        if handler is not None:
            given = handler(params)
            answer: dict[str, Any] = await given if inspection.isawaitable(given) else given
            return {**_ENVELOPES.get(ctx.method, {}), **answer} if ctx.protocol_version == MODERN else answer
        result = await call_next(ctx)
        if ctx.method in {"initialize", "server/discover"}:
            result = dict(result) if isinstance(result, Mapping) else result.model_dump(by_alias=True, mode="json")  # type: ignore[union-attr]
            capabilities: dict[str, Any] = {"resources": {"listChanged": True} if self.changes else {}}
            if self.declared is not False:
                capabilities["extensions"] = {EXTENSION: self.declared}
            result["capabilities"] = capabilities if self.announces is None else self.announces
        return result

    # The honest answers.

    def _skills_list(self, _: Mapping[str, Any]) -> dict[str, Any]:
        return {"skills": self.entries, **({} if self.ttl is None else {"ttlMs": self.ttl})}

    def _skills_get(self, params: Mapping[str, Any]) -> dict[str, Any]:
        for entry in (*self.entries, *self.unlisted):
            if isinstance(entry, dict) and entry.get("uri") == params["uri"]:
                return {"skill": entry, **({} if self.ttl is None else {"ttlMs": self.ttl})}
        raise failure(message=f"No skill is served at {params['uri']}")

    def _resources_read(self, params: Mapping[str, Any]) -> dict[str, Any]:
        if params["uri"] not in self.files:
            raise failure(message=f"Unknown resource: {params['uri']}")
        return {"contents": [contents(params["uri"], self.files[params["uri"]], None)]}

    def _resources_directory_read(self, params: Mapping[str, Any]) -> dict[str, Any]:
        if not isinstance(self.declared, Mapping) or not self.declared.get("directoryRead"):
            raise failure(METHOD_NOT_FOUND, "Method not found")
        inside = f"{params['uri']}/"
        children: dict[str, dict[str, str]] = {}
        for uri in self.files:
            if uri.startswith(inside):
                name, slash, _ = uri.removeprefix(inside).partition("/")
                kind = "inode/directory" if slash else "text/plain"
                children[name] = {"uri": inside + name, "name": name, "mimeType": kind}
        if not children:
            raise failure(message="That is not a directory.")
        return {"resources": list(children.values())}


def of_draft(
    files: Mapping[str, bytes], *, index: object = None, announces: dict[str, Any] | None = None, listed: Any = ()
) -> Scripted:
    """A server that knows no method of v1. It reads these files, and its index where it is given one."""

    def unknown(_: Mapping[str, Any]) -> dict[str, Any]:
        raise failure(METHOD_NOT_FOUND, "Method not found")

    server = Scripted()
    server.announces = {"resources": {}, "extensions": {EXTENSION: {}}} if announces is None else announces
    server.on["skills/list"] = server.on["skills/get"] = unknown
    server.on["resources/list"] = lambda _: {
        "resources": [{"name": "x", **({"uri": each} if isinstance(each, str) else each)} for each in listed]
    }
    server.files = dict(files)
    if index is not None:
        server.files[INDEX_URI] = json.dumps(index).encode()
    return server


class Person(Approver):
    """Says what it is told to, then `otherwise`; looks at `looks_at` before each answer."""

    def __init__(self, *replies: Reply, otherwise: Reply = Reply.KEEP, looks_at: tuple[str, ...] = ()) -> None:
        self.replies = list(replies)
        self.otherwise = otherwise
        self.looks_at = looks_at
        self.asked: list[Question] = []
        self.seen: list[str] = []

    async def ask(self, question: Question, inspect: Inspect) -> Reply:
        self.asked.append(question)
        for path in self.looks_at:
            self.seen.append(await inspect(path))
        return self.replies.pop(0) if self.replies else self.otherwise

    @property
    def shown(self) -> str:
        """All that the last question showed."""
        return "\n".join(self.asked[-1].lines())


@asynccontextmanager
async def hosting(
    place: Path,
    servers: Mapping[str, Any] | None = None,
    person: Approver | None = None,
    *,
    workspace: Path | None = None,
    **options: Any,
) -> AsyncIterator[SkillHost]:
    """A started host whose state and cache are at `place`: a second one there is a restart, or a neighbour."""
    targets = {
        label: target.server if isinstance(target, Scripted) else target for label, target in (servers or {}).items()
    }
    given = {"budgets": PATIENT, "user_skills": (), "state": place / "state.sqlite3", "cache": place / "content"}
    async with SkillHost(workspace, servers=targets, approver=person, **{**given, **options}) as host:
        yield host


def local_skill(place: Path, name: str, *lines: str, body: str = "Do it here.\n", **files: str) -> Path:
    """A skill on disk; the names of more files are given with `_` for `.`."""
    directory = place / name
    directory.mkdir(parents=True)
    more = "".join(f"{line}\n" for line in lines)
    (directory / "SKILL.md").write_text(
        f"---\nname: {name}\ndescription: What {name} is for.\n{more}---\n{body}", encoding="utf-8"
    )
    for file, text in files.items():
        (directory / file.replace("_", ".")).write_text(text, encoding="utf-8")
    return directory
