"""Ask FastMCP which skills it refuses: `python ask_fastmcp.py DIRECTORY` prints {skill: null or the reason} as JSON.

Every directory right below DIRECTORY is one tree, served by a server of its own: a real `SkillsDirectoryProvider` with
the skills extension, listed by a real client. Run it with the Python that has `fastmcp`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fastmcp import Client, FastMCP
from fastmcp.server.providers.skills import SkillsDirectoryProvider
from fastmcp.skills import ListSkillsResult, SkillsClientExtension
from fastmcp.skills.extension import SkillsExtension
from fastmcp.skills.models import ListSkillsParams, ListSkillsRequest


class Warnings(logging.Handler):
    """What FastMCP says about the skills it leaves out."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


async def listed(tree: Path) -> set[str]:
    provider = SkillsDirectoryProvider(tree, experimental_skills=True)
    server: Any = FastMCP(tree.name)
    server.add_provider(provider)
    server.add_extension(SkillsExtension(providers=[provider]))
    async with Client(server, extensions=[SkillsClientExtension()]) as client:
        result = await client.session.send_request(ListSkillsRequest(params=ListSkillsParams()), ListSkillsResult)
    return {skill.uri for skill in result.skills}


async def ask(tree: Path, warnings: Warnings) -> dict[str, str | None]:
    warnings.lines.clear()
    crash = None
    try:
        uris = await listed(tree)
    except Exception as error:  # noqa: BLE001 - a server that breaks on a skill does not publish it
        uris, crash = set(), f"{type(error).__name__}: {error}"
    answers: dict[str, str | None] = {}
    for directory, _, files in os.walk(tree):
        if "SKILL.md" in files and directory != str(tree):
            path = Path(directory).relative_to(tree).as_posix()
            if f"skill://{quote(path)}/SKILL.md" in uris:
                answers[f"{tree.name}/{path}"] = None
            else:
                said = [line for line in warnings.lines if f"{directory}:" in line]
                answers[f"{tree.name}/{path}"] = crash or " ".join(said) or "not listed"
    return answers


async def main(trees: list[Path]) -> None:
    warnings = Warnings()
    logger = logging.getLogger("fastmcp")
    logger.handlers = [warnings]
    logger.propagate = False
    answers: dict[str, str | None] = {}
    for tree in trees:
        answers |= await ask(tree, warnings)
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    asyncio.run(main(sorted(Path(sys.argv[1]).resolve().iterdir())))
