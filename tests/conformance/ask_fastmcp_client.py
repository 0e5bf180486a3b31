"""Ask a server with FastMCP's client: `python ask_fastmcp_client.py URL MODE URI…` prints the answers as JSON.

MODE is how the client negotiates, `auto` or `legacy`, and each URI is read. FastMCP has skills on the current revision
alone, so that they are not asked for on an older one. Run it with the Python that has `fastmcp`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from fastmcp import Client
from fastmcp.skills import SkillsClientExtension


def plain(model: Any) -> Any:
    return model.model_dump(mode="json", by_alias=True, exclude_unset=True)


async def main(url: str, mode: str, *uris: str) -> None:
    async with Client(url, mode=mode, extensions=[SkillsClientExtension()]) as client:
        skills = await client.list_skills() if mode == "auto" else []
        answers = {
            "version": client.protocol_version,
            "listed": [plain(skill) for skill in skills],
            "got": [plain(await client.get_skill(skill.uri)) for skill in skills],
            "resources": [plain(resource) for resource in await client.list_resources()],
            "contents": {uri: [plain(item) for item in await client.read_resource(uri)] for uri in uris},
        }
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
