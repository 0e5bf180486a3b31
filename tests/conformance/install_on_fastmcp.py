"""Publish skills from a FastMCP server: `python install_on_fastmcp.py DIRECTORY` prints what clients see as JSON.

Run it with the Python that has `fastmcp`, and with our sources on its path.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from fastmcp import Client, FastMCP
from fastmcp.skills import SkillsClientExtension

from skillquay import Skills


def add(a: int, b: int) -> int:
    return a + b


def own() -> str:
    return "own"


async def main(directory: str) -> None:
    mcp = FastMCP("theirs")

    mcp.tool(add)
    mcp.resource("data://own")(own)
    skills = Skills(directory)
    skills.install(mcp._mcp_server)
    seen: dict[str, Any] = {}
    for mode in ("auto", "legacy"):
        async with Client(mcp, mode=mode, extensions=[SkillsClientExtension()]) as client:
            listed = await client.list_skills() if mode == "auto" else []
            seen[mode] = {
                "version": client.protocol_version,
                "skills": [skill.uri for skill in listed],
                "resources": [str(resource.uri) for resource in await client.list_resources()],
                "own": (await client.read_resource("data://own"))[0].text,
                "read": (await client.read_resource("skill://refunds/SKILL.md"))[0].text,
                "sum": (await client.call_tool("add", {"a": 2, "b": 3})).data,
            }
    skills.close()
    json.dump(seen, sys.stdout)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
