"""The servers we compare ourselves with, each a process of its own: `python -m bench.peers NAME TREE URI`.

`starlette` and `sdk` answer `resources/read` of one file with a constant: the ceilings of what any server built on them
can reach, in their fastest configuration. `fastmcp` serves the tree itself, and runs in the interpreter that has it.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from typing import Any

import uvicorn

PATHS = {"starlette", "sdk", "sdk-default", "fastmcp"}


def constant(tree: str, uri: str) -> tuple[str, dict[str, Any]]:
    """The text of a file of the tree, and the item of `contents` that carries it."""
    path = os.path.join(tree, *uri.removeprefix("skill://").split("/"))
    with open(path, encoding="utf-8", newline="") as file:
        text = file.read()
    return text, {"uri": uri, "mimeType": "text/markdown", "text": text}


def starlette(tree: str, uri: str) -> Any:
    from starlette.applications import Starlette
    from starlette.requests import Request  # noqa: TC002 - the framework reads it
    from starlette.responses import Response
    from starlette.routing import Route

    _, item = constant(tree, uri)
    result = {"resultType": "complete", "contents": [item], "ttlMs": 60000, "cacheScope": "public"}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "result": result}).encode()

    async def answer(request: Request) -> Response:
        await request.body()
        return Response(body, media_type="application/json")

    return Starlette(routes=[Route("/mcp", answer, methods=["POST"])])


def sdk(tree: str, uri: str, *, json_response: bool = True) -> Any:
    import mcp_types as types
    from mcp.server.lowlevel import Server

    text, _ = constant(tree, uri)

    async def read(_ctx: Any, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        contents = types.TextResourceContents(uri=params.uri, mime_type="text/markdown", text=text)
        return types.ReadResourceResult(contents=[contents])

    async def list_resources(_ctx: Any, _params: Any) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=[])

    server: Server[Any] = Server("bare", on_read_resource=read, on_list_resources=list_resources)
    return server.streamable_http_app(json_response=json_response)


def fastmcp(tree: str) -> Any:
    from fastmcp import FastMCP
    from fastmcp.server.providers.skills import SkillsDirectoryProvider
    from fastmcp.skills.extension import SkillsExtension

    roots = sorted(entry.path for entry in os.scandir(tree) if entry.is_dir())
    provider = SkillsDirectoryProvider(roots, experimental_skills=True)
    server = FastMCP("peer", providers=[provider])
    server.add_extension(SkillsExtension(providers=[provider]))
    return server.http_app(json_response=True, stateless_http=True)


def main() -> None:
    name, tree, uri = sys.argv[1:]
    app = (
        fastmcp(tree)
        if name == "fastmcp"
        else starlette(tree, uri)
        if name == "starlette"
        else sdk(tree, uri, json_response=name == "sdk")
    )
    listening = socket.create_server(("127.0.0.1", 0), backlog=2048)
    fast = name != "sdk-default"
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        loop="auto" if fast else "asyncio",
        http="auto" if fast else "h11",
    )
    print(listening.getsockname()[1], flush=True)
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main()
