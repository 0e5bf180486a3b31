"""Servers of one skill each, in the drafts, over HTTP."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from hashlib import sha256
from typing import TYPE_CHECKING

import uvicorn
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from starlette.applications import Starlette
from starlette.routing import Route

from skillquay.archives.formats import ArchiveFormat
from skillquay.archives.packing import PackedFile, pack
from skillquay.wire.index_json import INDEX_URI
from tests.interop.plain_server import EXTENSION, PlainServer
from tests.interop.skills import DESCRIPTIONS, SKILLS, files_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

ARCHIVE = "skill://refunds.tar.gz"
URL = "skill://refunds/SKILL.md"
FRONTMATTER = {"name": "refunds", "description": DESCRIPTIONS["refunds"]}


def _digest(data: bytes) -> str:
    return f"sha256:{sha256(data).hexdigest()}"


def make(kind: str) -> PlainServer:
    files = files_of("refunds")
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
        return PlainServer(files, {}, declares={"extensions": {EXTENSION: {}}})
    return PlainServer(files, {URL: "text/markdown"} if kind == "bare" else {})


@contextmanager
def serving(*kinds: str) -> Iterator[dict[str, str]]:
    """The URLs of servers of these kinds, for as long as they are needed."""
    managers = {kind: StreamableHTTPSessionManager(app=make(kind).server, json_response=True) for kind in kinds}

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for manager in managers.values():
                await stack.enter_async_context(manager.run())
            yield

    routes = [Route(f"/{kind}", StreamableHTTPASGIApp(manager)) for kind, manager in managers.items()]
    app = Starlette(routes=routes, lifespan=lifespan)
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=1, ws="none"))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield {kind: f"http://127.0.0.1:{listening.getsockname()[1]}/{kind}" for kind in kinds}
        finally:
            server.should_exit = True
            thread.join()
