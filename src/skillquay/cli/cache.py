"""`skillquay cache`: how much verified content of each server is kept on disk, and its removal (K3)."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from rich.text import Text

from skillquay.cli.hosting import write_json
from skillquay.cli.messages import fail, human_size, plural
from skillquay.cli.output import Screen
from skillquay.core.hidden import shorten, visible
from skillquay.core.identity import ServerLabel
from skillquay.errors import ConfigurationError, LabelError
from skillquay.host.cache import ContentCache, default_cache_directory
from skillquay.host.configuration import read_mcp_json

if TYPE_CHECKING:
    from skillquay.host.cache import CacheUse
    from skillquay.host.configuration import Problem

__all__ = ["run"]


def run(workspace: str, label: str | None, *, clear: bool, as_json: bool) -> int:
    """Show or remove what is cached, of one server of this folder or of all; 2 when something could not be removed."""
    problems: list[Problem] = []
    try:
        cache = ContentCache(default_cache_directory(), report=problems.append)
        scope = os.path.realpath(os.path.join(workspace, ".mcp.json"))
        server = None if label is None else ServerLabel(label=label, scope=scope)
    except (ConfigurationError, LabelError) as error:
        return fail(error.message)
    held = [use for use in cache.usage() if server is None or use.server_directory == server.directory]
    if server is not None and not held and server not in (configured := read_mcp_json(scope).servers):
        known = ", ".join(label.label for label in configured) or "none"
        return fail(f'this folder has no server "{shorten(server.label)}". It has: {known}.')
    if clear and server is None:
        cache.clear()
    elif clear and server is not None:
        cache.forget_server(server)
    for problem in problems:
        sys.stderr.write(f"skillquay: {visible(problem.message)}\n")
    if as_json:
        write_json({"directory": cache.directory, "cleared": clear, "servers": [_use_json(use) for use in held]})
    else:
        _show(Screen(), cache.directory, held, cleared=clear and not problems)
    return 2 if problems else 0


def _show(screen: Screen, directory: str, held: list[CacheUse], *, cleared: bool) -> None:
    if not held:
        screen.line(f"Nothing is cached in {visible(directory)}.")
        return
    screen.rows(
        (
            (
                Text(use.label, "bold"),
                Text(plural(use.skills, "skill").rjust(10)),
                Text(plural(use.files, "file").rjust(10)),
                Text(human_size(use.size).rjust(9)),
                Text(use.server_directory.rpartition("@")[2][:8], "dim"),
            )
            for use in held
        ),
        indent=0,
    )
    size = human_size(sum(use.size for use in held))
    screen.line(f"{size} {'removed from' if cleared else 'in'} {visible(directory)}.")


def _use_json(use: CacheUse) -> dict[str, object]:
    return {
        "server": use.label,
        "directory": use.server_directory,
        "skills": use.skills,
        "files": use.files,
        "size": use.size,
    }
