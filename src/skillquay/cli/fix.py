"""`skillquay lint --fix`: write safe repairs back, atomically, and show what changed; rename nothing without asking."""

from __future__ import annotations

import difflib
import os
import sys
import tempfile
from typing import TYPE_CHECKING

from skillquay.cli.messages import plural
from skillquay.core.frontmatter import parse_frontmatter
from skillquay.core.hidden import visible
from skillquay.core.repair import rename, repair
from skillquay.core.uris import SKILL_MD
from skillquay.errors import FrontmatterError
from skillquay.sources.directory import SkippedPath, read_tree

if TYPE_CHECKING:
    from skillquay.cli.output import Screen
    from skillquay.core.folders import SkillFolder

__all__ = ["fix_trees"]


def fix_trees(paths: list[str], screen: Screen | None) -> None:
    """Mend every `SKILL.md` below the paths; with no screen, say nothing and ask nothing."""
    mended = 0
    for path in paths:
        for item in read_tree(path):
            if not isinstance(item, SkippedPath):
                mended += _fix(item, screen)
    if screen is not None:
        screen.line(f"Mended {plural(mended, 'file')}.", "\n")


def _fix(folder: SkillFolder, screen: Screen | None) -> bool:
    data = _renamed(folder, repair(folder.skill_md).data, screen)
    if data == folder.skill_md:
        return False
    location = os.path.join(folder.location, SKILL_MD)
    try:
        _replace(location, before=folder.skill_md, after=data)
    except OSError as error:
        sys.stderr.write(f"skillquay: {visible(location)} was not mended: {error.strerror}.\n")
        return False
    if screen is not None:
        _show(screen, location, folder.skill_md, data)
    return True


def _renamed(folder: SkillFolder, data: bytes, screen: Screen | None) -> bytes:
    """Offer to give the skill its directory's name. Only a person at a terminal can say yes."""
    directory = folder.name
    try:
        name = parse_frontmatter(data).name
    except FrontmatterError:
        return data
    if screen is None or not screen.is_terminal or not sys.stdin.isatty() or not name or name == directory:
        return data
    renamed = rename(data, directory)
    if renamed == data:
        return data
    question = f'{folder.location}: set the name "{name}" to the directory\'s name "{directory}"? [y/N] '
    sys.stdout.write(visible(question))
    sys.stdout.flush()
    return renamed if sys.stdin.readline().strip().lower() in {"y", "yes"} else data


def _replace(location: str, *, before: bytes, after: bytes) -> None:
    """Put the new bytes in place of the old ones at once, keeping the file's mode; a file changed meanwhile is left."""
    location = os.path.realpath(location)
    with open(location, "rb") as file:
        if file.read() != before:
            raise OSError(0, "it changed in the meantime")
        status = os.fstat(file.fileno())
    descriptor, temporary = tempfile.mkstemp(dir=os.path.dirname(location), prefix=".skillquay-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(after)
            file.flush()
            os.fsync(file.fileno())
        if (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
            os.chown(temporary, status.st_uid, status.st_gid)
        os.chmod(temporary, status.st_mode & 0o7777)
        os.replace(temporary, location)
    except BaseException:
        os.unlink(temporary)
        raise


def _show(screen: Screen, location: str, before: bytes, after: bytes) -> None:
    styles = {"+": "green", "-": "red", "@": "cyan"}
    name = visible(location)
    old, new = (part.decode("utf-8", "replace").split("\n") for part in (before, after))
    for line in difflib.unified_diff(old, new, fromfile=name, tofile=name, lineterm="", n=1):
        screen.line((visible(line), styles.get(line[:1], "")))
    screen.line("")
