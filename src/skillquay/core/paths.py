"""Paths that every file system takes for the same place: which are none, and which would fall together (I4, I12)."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Final

from skillquay.core.hidden import shorten
from skillquay.core.uris import SKILL_MD, SkillUri
from skillquay.errors import ArchiveError, UriError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["MAX_DEPTH", "Paths", "link_target", "parse_path", "split_nested"]

MAX_DEPTH: Final = 32  # segments of a path

_ROOT: Final = SkillUri.build(["x"])
_DRIVE: Final = re.compile(r"[A-Za-z]:")
_PLAIN: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._ -]*(?<![. ])")
# Names that mean a device on Windows, whatever follows behind a dot.
_DEVICE: Final = re.compile(r"(?:con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³])(?:[ .].*)?", re.IGNORECASE)
_LONGEST_NAME: Final = 255  # bytes, on nearly every file system


def parse_path(name: str, *, depth: int = MAX_DEPTH) -> str:
    """The path of a member, relative to the skill; "" is the skill's directory itself.

    It is one that a `SkillUri` can carry and that every file system takes for the same place. A `./` may lead it.
    """
    _check_place(name, name)
    path = name.removeprefix("./")
    if path in {"", "."} and name:
        return ""
    segments = path.split("/")
    if len(segments) > depth:
        raise ArchiveError(f'"{shorten(name)}" is more than {depth} directories deep.')
    for segment in segments:
        _check_segment(segment, name)
    try:
        _ROOT.child(path)
    except UriError as error:
        raise ArchiveError(f"A path in the archive cannot be given a URI: {error.message}") from None
    return path


def link_target(path: str, target: str, *, is_symbolic: bool) -> str:
    """The path a link leads to. A symbolic one begins in its own directory, and may go up as far as the skill's."""
    _check_place(target, path)
    place = path.split("/")[:-1] if is_symbolic else []
    for segment in target.split("/"):
        if segment == "..":
            if not place:
                raise ArchiveError(f'"{shorten(path)}" is a link that leaves the skill, to "{shorten(target)}".')
            place.pop()
        elif segment != ".":
            place.append(segment)
    return "/".join(place)


def split_nested(paths: Iterable[str]) -> tuple[list[str], list[str]]:
    """The paths of a skill that belong into its archive, and the directories of skills nested in it, which do not."""
    known = sorted(paths)
    nested = [path.removesuffix(SKILL_MD) for path in known if path.endswith(f"/{SKILL_MD}")]
    outermost = [path for path in nested if not any(path.startswith(other) and path != other for other in nested)]
    return [path for path in known if not path.startswith(tuple(outermost))], [path[:-1] for path in outermost]


class Paths:
    """The paths of an archive so far. No two may be one on a file system that folds case or normalises."""

    __slots__ = ("_directories", "_files", "_spelled")

    def __init__(self) -> None:
        self._spelled: dict[str, str] = {}
        self._files: set[str] = set()
        self._directories: set[str] = set()

    def add_file(self, path: str) -> None:
        """A file, and the directories around it."""
        if path in self._files:
            raise ArchiveError(f'"{shorten(path)}" is in the archive twice.')
        if path in self._directories:
            raise _both(path)
        self._files.add(path)
        self.add_directory(path.rpartition("/")[0])
        self._spell(path)

    def add_directory(self, path: str) -> None:
        """A directory, and those around it; there is no harm in a directory that is told of twice."""
        while path and path not in self._directories:
            if path in self._files:
                raise _both(path)
            self._directories.add(path)
            self._spell(path)
            path = path.rpartition("/")[0]

    def _spell(self, path: str) -> None:
        other = self._spelled.setdefault(_folded(path), path)
        if other != path:
            raise ArchiveError(
                f'"{shorten(path)}" and "{shorten(other)}" are one path where case or normalisation does not count.'
            )


def _folded(text: str) -> str:
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())


def _both(path: str) -> ArchiveError:
    return ArchiveError(f'"{shorten(path)}" is both a file and a directory in the archive.')


def _check_place(text: str, name: str) -> None:
    """Neither a path nor a link may begin anywhere but in the skill."""
    shown = shorten(name)
    if "\\" in text:
        raise ArchiveError(f'"{shown}" has a backslash, which walks on some systems.')
    if text.startswith("/"):
        raise ArchiveError(f'"{shown}" is or leads to an absolute path.')
    if _DRIVE.match(text):
        raise ArchiveError(f'"{shown}" is or leads to a path on a drive.')


def _check_segment(segment: str, name: str) -> None:
    if _PLAIN.fullmatch(segment) and len(segment) <= _LONGEST_NAME and not _DEVICE.fullmatch(segment):
        return
    shown = shorten(name)
    if segment == "..":
        raise ArchiveError(f'"{shown}" walks up with "..".')
    if segment in {"", "."}:
        raise ArchiveError(f'"{shown}" has an empty or "." segment.')
    if len(segment.encode("utf-8", "surrogatepass")) > _LONGEST_NAME:
        raise ArchiveError(f'"{shown}" has a name of more than {_LONGEST_NAME} bytes.')
    folded = _folded(segment)
    if folded in {".", ".."} or "/" in folded or "\\" in folded:
        raise ArchiveError(f'"{shown}" would walk once it is normalised.')
    if ":" in folded or folded[-1] in ". " or _DEVICE.fullmatch(folded):
        raise ArchiveError(f'"{shown}" has a name that means something else on Windows.')
