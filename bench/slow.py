"""Servers that take their time: `python -m bench.slow SERVERS SKILLS SECONDS` answers at `/0/mcp`, `/1/mcp` and so on.

Each publishes so many skills, and gives each answer after so many seconds. The answers are prepared: they cost little.
"""

from __future__ import annotations

import asyncio
import json
import random
import socket
import sys
from hashlib import sha256
from itertools import accumulate
from typing import Any

import uvicorn

from bench.generate import WORDS

PAGE = 250
FILES = ("SKILL.md", "notes.md", "references/examples.md", "references/guide.md", "run.py")


def vocabulary() -> list[str]:
    """4,000 words, the common ones first."""
    choose = random.Random(2640)
    syllables = [first + vowel + last for first in "bdfgklmnprstv" for vowel in "aeiou" for last in ("", "n", "r", "s")]
    made = ("".join(choose.choices(syllables, k=choose.randint(2, 4))) for _ in range(6_000))
    return list(dict.fromkeys((*WORDS, *made)))[:4_000]


def skills(server: int, count: int) -> list[dict[str, Any]]:
    """The entries of one server. Words are as frequent as in a language: the second half as often as the first."""
    choose = random.Random(server)
    words = vocabulary()
    weights = list(accumulate(1 / (rank + 1) for rank in range(len(words))))

    def text(length: int) -> str:
        return " ".join(choose.choices(words, cum_weights=weights, k=length)).capitalize() + "."

    found = []
    for number in range(count):
        name = f"{choose.choice(words)}-{choose.choice(words)}-{number}"
        root = f"skill://team-{number % 8}/{name}"
        resources = [
            {"uri": f"{root}/{file}", "digest": f"sha256:{sha256(f'{root}/{file}'.encode()).hexdigest()}", "size": 2000}
            for file in FILES
        ]
        frontmatter = {"name": name, "description": f"{text(22)} Use when {text(12)}", "license": "Apache-2.0"}
        found.append({"uri": f"{root}/SKILL.md", "frontmatter": frontmatter, "resources": resources})
    return found


def app(servers: int, count: int, seconds: float) -> Any:
    from starlette.applications import Starlette
    from starlette.requests import Request  # noqa: TC002 - the framework reads it
    from starlette.responses import Response
    from starlette.routing import Route

    common = {"resultType": "complete", "ttlMs": 60_000, "cacheScope": "public"}
    capabilities: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/skills": {}}, "resources": {}}
    server_info = {"io.modelcontextprotocol/serverInfo": {"name": "slow", "version": "1"}}
    discovered = {**common, "capabilities": capabilities, "supportedVersions": ["2026-07-28"], "_meta": server_info}
    answers: dict[tuple[str, str, str | None], str] = {}
    for server in range(servers):
        answers["server/discover", str(server), None] = json.dumps(discovered)
        entries = skills(server, count)
        for start in range(0, count, PAGE):
            following = {"nextCursor": str(start + PAGE)} if start + PAGE < count else {}
            page = {**common, "skills": entries[start : start + PAGE], **following}
            answers["skills/list", str(server), str(start) if start else None] = json.dumps(page)

    async def answer(request: Request) -> Response:
        asked = await request.json()
        key = (asked["method"], request.path_params["server"], asked["params"].get("cursor"))
        await asyncio.sleep(seconds)
        body = f'{{"jsonrpc": "2.0", "id": {json.dumps(asked["id"])}, "result": {answers[key]}}}'
        return Response(body, media_type="application/json")

    return Starlette(routes=[Route("/{server}/mcp", answer, methods=["POST"])])


def main() -> None:
    servers, count, seconds = sys.argv[1:]
    listening = socket.create_server(("127.0.0.1", 0), backlog=2048)
    config = uvicorn.Config(app(int(servers), int(count), float(seconds)), log_level="warning", access_log=False)
    print(listening.getsockname()[1], flush=True)
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main()
