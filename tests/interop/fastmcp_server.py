"""A FastMCP server of skills on standard input and output: `python fastmcp_server.py DIRECTORY WAY`.

WAY is `manifests`, as it published skills before it knew the extension, or `extension`. Run it with the Python that has
`fastmcp`.
"""

from __future__ import annotations

import sys

from fastmcp import FastMCP
from fastmcp.server.providers.skills import SkillsDirectoryProvider
from fastmcp.skills.extension import SkillsExtension


def main(directory: str, way: str) -> None:
    mcp = FastMCP("theirs")
    provider = SkillsDirectoryProvider(directory, experimental_skills=way == "extension")
    mcp.add_provider(provider)
    if way == "extension":
        mcp.add_extension(SkillsExtension(providers=[provider]))
    mcp.run("stdio", show_banner=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
