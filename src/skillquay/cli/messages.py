"""What commands say in a line; importing this costs nothing."""

from __future__ import annotations

import os
import sys

from skillquay.core.hidden import visible
from skillquay.core.uris import SKILL_MD

__all__ = ["fail", "human_size", "path_problem", "plural"]


def fail(message: str) -> int:
    """Say what is wrong with the command, and give the exit status for it."""
    sys.stderr.write(f"skillquay: {visible(message)}\n")
    return 2


def path_problem(path: str) -> str | None:
    """Why a path cannot be looked through for skills; None when it can."""
    if os.path.isdir(path) or (os.path.basename(path) == SKILL_MD and os.path.isfile(path)):
        return None
    what = f'"{path}" is a file' if os.path.exists(path) else f'there is nothing at "{path}"'
    return f"{what}. Give a directory of skills, a skill's directory, or a SKILL.md."


def plural(count: int, noun: str) -> str:
    """`1 skill`, `2 skills`, `10,000 skills`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def human_size(size: int) -> str:
    """`812 B`, `4.1 KB`, `16.0 MB`."""
    if size < 1000:
        return f"{size} B"
    if size < 1_000_000:
        return f"{size / 1000:.1f} KB"
    return f"{size / 1_000_000:.1f} MB"
