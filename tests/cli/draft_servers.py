"""Servers of one skill each, in the drafts, over HTTP."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import uvicorn
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from starlette.applications import Starlette
from starlette.routing import Route

from skillquay.archives.formats import ArchiveFormat
from skillquay.archives.packing import PackedFile, pack
from skillquay.wire.index_json import INDEX_URI
from tests.host.scripted import Scripted, failure, of_draft
from tests.interop.plain_server import EXTENSION, PlainServer
from tests.interop.skills import DESCRIPTIONS, SKILLS, files_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

ARCHIVE = "skill://refunds.tar.gz"
URL = "skill://refunds/SKILL.md"
MANIFEST = "skill://refunds/_manifest"
FRONTMATTER = {"name": "refunds", "description": DESCRIPTIONS["refunds"]}


def _digest(data: bytes) -> str:
    return f"sha256:{sha256(data).hexdigest()}"


def make(kind: str) -> PlainServer:
    files = files_of("refunds")
    if kind == "fastmcp":
        listed = [{"path": path, "size": len(data), "hash": _digest(data)} for path, data in SKILLS["refunds"].items()]
        files[MANIFEST] = json.dumps({"skill": "refunds", "files": listed}).encode()
        return PlainServer(files, {URL: "text/markdown", MANIFEST: "application/json"})
    packed = pack({path: PackedFile(data=data) for path, data in SKILLS["refunds"].items()}, ArchiveFormat.TAR_GZ)
    files[ARCHIVE] = packed[:-9] + b"forged..." if kind == "forged" else packed
    digest = _digest(files[URL])
    archives = [{"url": ARCHIVE, "mimeType": "application/gzip", "digest": _digest(packed)}]
    entries: dict[str, dict[str, object]] = {
        "june": {"frontmatter": FRONTMATTER, "url": URL, "digest": digest},
        "archive": {"frontmatter": FRONTMATTER, "archives": archives},
        "forged": {"frontmatter": FRONTMATTER, "archives": archives},
        "may": {"type": "skill-md", **FRONTMATTER, "url": URL},
    }
    if kind in entries:
        browsing = {
            "type": "mcp-resource-template",
            "description": "By product.",
            "url": "skill://docs/{product}/SKILL.md",
        }
        files[INDEX_URI] = json.dumps({"skills": [entries[kind], browsing]}).encode()
        for name in ("refunds", "router"):
            files[f"skill://docs/{name}/SKILL.md"] = (
                f"---\nname: {name}\ndescription: About it.\n---\nDo it.\n".encode()
            )
        return PlainServer(files, {}, declares={"extensions": {EXTENSION: {}}})
    return PlainServer(files, {URL: "text/markdown"} if kind == "bare" else {})


def primitive() -> Scripted:
    """A server of SEP-2076: one skill has a file elsewhere, and one that is gone; the other skill wants arguments."""
    server = of_draft(files_of("refunds"), announces={"skills": {}, "resources": {}})
    lookup = {"name": "lookup", "description": "Look it up.", "arguments": [{"name": "order", "required": True}]}
    server.on["skills/list"] = lambda _: {"skills": [FRONTMATTER, lookup]}
    places = [
        "skill://refunds/references/letter.md",
        "skill://refunds/references/gone.md",
        "https://files.example.com/refunds/terms.md",
    ]

    def get(params: Mapping[str, Any]) -> dict[str, Any]:
        if params != {"name": "refunds"}:
            raise failure()
        files = [{"name": place.rpartition("/")[2], "uri": place} for place in places]
        return {**FRONTMATTER, "instructions": "Write a letter.", "files": files}

    server.on["skills/get"] = get
    return server


def publish_archive(
    server: PlainServer, files: Mapping[str, bytes], kind: ArchiveFormat = ArchiveFormat.TAR_GZ, **frontmatter: object
) -> str:
    """Have a server publish these files as its one skill, in an archive alone; gives the archive's digest."""
    packed = pack({path: PackedFile(data=data) for path, data in files.items()}, kind)
    archives = [{"url": ARCHIVE, "mimeType": kind.media_type, "digest": _digest(packed)}]
    index = {"skills": [{"frontmatter": FRONTMATTER | frontmatter, "archives": archives}]}
    server.files |= {ARCHIVE: packed, INDEX_URI: json.dumps(index).encode()}
    return _digest(packed)


@contextmanager
def serving(*kinds: str) -> Iterator[dict[str, str]]:
    """The URLs of servers of these kinds, for as long as they are needed."""
    with running({kind: primitive() if kind == "primitive" else make(kind) for kind in kinds}) as urls:
        yield urls


@contextmanager
def running(servers: Mapping[str, PlainServer | Scripted]) -> Iterator[dict[str, str]]:
    """The URLs of these servers, by their names, for as long as they are needed."""
    managers = {
        name: StreamableHTTPSessionManager(app=server.server, json_response=True) for name, server in servers.items()
    }

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for manager in managers.values():
                await stack.enter_async_context(manager.run())
            yield

    routes = [Route(f"/{name}", StreamableHTTPASGIApp(manager)) for name, manager in managers.items()]
    app = Starlette(routes=routes, lifespan=lifespan)
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=1, ws="none"))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield {name: f"http://127.0.0.1:{listening.getsockname()[1]}/{name}" for name in servers}
        finally:
            server.should_exit = True
            thread.join()
