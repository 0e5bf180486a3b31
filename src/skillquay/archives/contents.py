"""What an archive holds, whatever its format: each member is checked, and none given out before the end (I4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from skillquay.archives.budgets import Meter
from skillquay.core.hidden import shorten
from skillquay.core.paths import Paths, link_target, parse_path
from skillquay.core.uris import SKILL_MD
from skillquay.errors import ArchiveError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from skillquay.archives.budgets import Allowance, Budget

__all__ = ["Contents", "PackedFile"]


@dataclass(frozen=True, slots=True)
class PackedFile:
    """A file in an archive: its bytes, and the one thing of its mode that is kept."""

    data: bytes
    is_executable: bool = False


class Contents:
    """The members of one archive so far. The first that is not allowed ends it with an `ArchiveError`."""

    def __init__(self, budget: Budget, allowance: Allowance | None = None) -> None:
        self.meter = Meter(budget, allowance)
        self._depth = budget.depth
        self._paths = Paths()
        self._files: dict[str, PackedFile] = {}
        self._links: dict[str, str] = {}

    def add_directory(self, name: str) -> None:
        """A directory. It is not kept: directories are where files are."""
        self._paths.add_directory(parse_path(name.removesuffix("/"), depth=self._depth))

    def add_file(self, name: str, pieces: Iterable[bytes], *, is_executable: bool) -> None:
        """A file that comes in pieces, each counted before the next one is made."""
        path = self._add_path(name)
        parts: list[bytes] = []
        size = 0
        for piece in pieces:
            self.meter.count_bytes(name, size, len(piece))
            size += len(piece)
            parts.append(piece)
        self._files[path] = PackedFile(parts[0] if len(parts) == 1 else b"".join(parts), is_executable)

    def add_hard_link(self, name: str, target: str) -> None:
        """A hard link to a file that came before: a copy of it."""
        path = self._add_path(name)
        self._files[path] = self._copy(path, link_target(path, target, is_symbolic=False))

    def add_symbolic_link(self, name: str, target: str) -> None:
        """A symbolic link; at the end it becomes a copy of the file it leads to, which is not a link itself."""
        path = self._add_path(name)
        self._links[path] = link_target(path, target, is_symbolic=True)

    def files(self) -> dict[str, PackedFile]:
        """All files by their paths, once every member has been read."""
        found = self._files | {path: self._copy(path, target) for path, target in self._links.items()}
        if SKILL_MD not in found:
            raise ArchiveError("The archive has no SKILL.md at its root, so it is not a skill.", rule="I3")
        return found

    def _copy(self, path: str, target: str) -> PackedFile:
        file = self._files.get(target)
        if file is None:
            raise ArchiveError(f'"{shorten(path)}" is a link that leads to no file of the archive.')
        self.meter.count_bytes(path, 0, len(file.data))
        return file

    def _add_path(self, name: str) -> str:
        self.meter.count_file()
        path = parse_path(name, depth=self._depth)
        if not path:
            raise ArchiveError(f'"{shorten(name)}" is the skill\'s directory, but not a directory in the archive.')
        self._paths.add_file(path)
        return path
