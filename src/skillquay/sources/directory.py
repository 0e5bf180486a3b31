"""Read a directory tree into skill folders: each file once, links never out of a skill, one bad file never the rest.

Which files of a directory belong to a skill, and what happens to links and special files, is recorded in
docs/decisions/0003-what-belongs-to-a-skill.md.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from skillquay.core.digests import Digest
from skillquay.core.entries import LIMITS
from skillquay.core.findings import Finding, Level
from skillquay.core.folders import FolderFile, SkillFolder
from skillquay.core.hidden import shorten
from skillquay.core.uris import SKILL_MD

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["IGNORED", "MAX_DEPTH", "SkippedPath", "read_tree"]

IGNORED: Final = frozenset({"node_modules", "__pycache__"})
MAX_DEPTH: Final = 100
_LEFT_OUT: Final = ("P1", "left-out", "Hidden files and build leftovers are not part of the skill.")
_OPEN_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedPath:
    """Something in the tree, in no skill, that could not be read or is not what it looks like."""

    location: str
    finding: Finding


@dataclass(slots=True)
class _OpenSkill:
    """A skill's directory whose files are still being collected. `below` is where paths relative to it begin."""

    path: tuple[str, ...]
    location: str
    below: int
    skill_md: bytes | None = None
    file_count: int = 0
    size: int = 0
    files: list[FolderFile] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    @property
    def is_over(self) -> bool:
        return LIMITS.problem(self.file_count, self.size) is not None

    def close(self) -> SkillFolder | SkippedPath:
        if self.skill_md is None:
            return SkippedPath(location=os.path.join(self.location, SKILL_MD), finding=self.findings[0])
        return SkillFolder(
            path=self.path,
            location=self.location,
            skill_md=self.skill_md,
            files=tuple(self.files),
            file_count=self.file_count,
            size=self.size,
            findings=tuple(self.findings),
        )


@dataclass(frozen=True, slots=True)
class _Directory:
    """A directory still to be read; `relative` is its path below the root of the tree, with a slash at its end."""

    location: str
    relative: str
    depth: int


class _NotPublishedError(Exception):
    """A file or directory that does not become part of a skill, and why."""

    def __init__(self, rule: str, kind: str, message: str, fix: str, *, level: Level = Level.ERROR) -> None:
        super().__init__(message)
        self.rule, self.kind, self.message, self.fix, self.level = rule, kind, message, fix, level

    def finding(self, file: str) -> Finding:
        return Finding(
            rule=self.rule,
            level=self.level,
            kind=self.kind,
            message=self.message,
            file=shorten(file, 200),
            fix=self.fix,
        )


def read_tree(root: str, *, prefix: tuple[str, ...] = ()) -> Iterator[SkillFolder | SkippedPath]:
    """Every skill below `root`, in the order of their paths, an enclosing skill after the skills nested in it.

    `root` may be a directory of skills, one skill's directory, or a `SKILL.md`. Each skill is given as soon as it has
    been read, so that a large tree needs little memory.
    """
    if os.path.basename(root) == SKILL_MD and os.path.isfile(root):
        root = os.path.dirname(root) or "."
    name = os.path.basename(os.path.abspath(root))
    return _Walk(name, prefix).run(_Directory(location=os.path.normpath(root), relative="", depth=0))


class _Walk:
    """One walk over a tree. `_inside` holds the skills around the current directory, the outermost first."""

    def __init__(self, name: str, prefix: tuple[str, ...]) -> None:
        self._name = name
        self._prefix = prefix
        self._inside: list[_OpenSkill] = []

    def run(self, first: _Directory) -> Iterator[SkillFolder | SkippedPath]:
        pending: list[_Directory | _OpenSkill] = [first]
        while pending:
            item = pending.pop()
            if isinstance(item, _OpenSkill):
                yield self._inside.pop().close()
                continue
            try:
                with os.scandir(item.location) as scan:
                    entries = {entry.name: entry for entry in scan}
            except OSError as error:
                if skipped := self._report(_unreadable(error), item.relative, item.location):
                    yield skipped
                continue
            if (skill_md := entries.get(SKILL_MD)) and not skill_md.is_dir(follow_symlinks=False):
                pending.append(self._open(item))
            elif lookalike := next((name for name in sorted(entries) if name.lower() == "skill.md"), None):
                yield _lookalike(entries[lookalike])
            subdirectories: list[_Directory] = []
            for name in sorted(entries, key=_skill_md_first):
                entry = entries[name]
                try:
                    self._visit(item, entry, subdirectories)
                except _NotPublishedError as problem:
                    if skipped := self._report(problem, item.relative + name, entry.path):
                        yield skipped
            pending.extend(reversed(subdirectories))

    def _open(self, here: _Directory) -> _OpenSkill:
        segments = here.relative[:-1].split("/") if here.relative else [self._name]
        skill = _OpenSkill(path=(*self._prefix, *segments), location=here.location, below=len(here.relative))
        self._inside.append(skill)
        return skill

    def _visit(self, here: _Directory, entry: os.DirEntry[str], subdirectories: list[_Directory]) -> None:
        name = entry.name
        if entry.is_dir(follow_symlinks=False):
            if name.startswith(".") or name in IGNORED:
                self._note(f"{here.relative}{name}/", *_LEFT_OUT)
            elif here.depth == MAX_DEPTH:
                raise _NotPublishedError(
                    "P1", "depth", f"The tree is more than {MAX_DEPTH} directories deep here.", "Move it up."
                )
            elif name != SKILL_MD:
                subdirectories.append(_Directory(entry.path, f"{here.relative}{name}/", here.depth + 1))
        elif not self._inside:
            if entry.is_symlink() and entry.is_dir():
                raise _NotPublishedError(
                    "U8", "link", "A linked directory; links are not followed.", "Copy it here.", level=Level.WARNING
                )
        elif name.startswith("."):
            self._note(here.relative + name, *_LEFT_OUT)
        elif entry.is_symlink():
            self._add(here.relative + name, self._behind_link(entry.path))
            self._note(here.relative + name, "U8", "link", "A link inside the skill; it is published as a file.")
        elif entry.is_file(follow_symlinks=False):
            self._add(here.relative + name, entry.path)
        else:
            raise _NotPublishedError("U1", "special-file", "A FIFO, a socket or a device, not a file.", "Remove it.")

    def _add(self, relative: str, location: str) -> None:
        """Read a file once for every skill it belongs to; when all are past their limits, only count it."""
        if all(skill.is_over for skill in self._inside):
            data, size = None, os.lstat(location).st_size
        else:
            data, size = _read_file(location)
        digest = None if data is None else Digest.of(data)
        for skill in self._inside:
            path = relative[skill.below :]
            skill.file_count += 1
            skill.size += size
            if digest is not None:
                skill.files.append(FolderFile(path=path, digest=digest, size=size))
            if path == SKILL_MD:
                skill.skill_md = data or b""

    def _behind_link(self, link: str) -> str:
        """The file behind a link, when it is one and lies in the same skill (U8)."""
        skill = self._inside[-1]
        root = os.path.realpath(skill.location)
        target = os.path.realpath(link)
        inside = target.startswith(root + os.sep)
        if not inside or any(part.startswith(".") for part in target[len(root) + 1 :].split(os.sep)):
            level = Level.ERROR if os.path.basename(link) == SKILL_MD else Level.WARNING
            raise _NotPublishedError(
                "U8",
                "link",
                "A link that leaves the skill's directory; it is not published.",
                "Copy the file.",
                level=level,
            )
        if not os.path.isfile(target):
            what = "directory" if os.path.isdir(target) else "missing file"
            raise _NotPublishedError(
                "U8", "link", f"A link to a {what}; it is not published.", "Copy what is meant.", level=Level.WARNING
            )
        return target

    def _note(self, relative: str, rule: str, kind: str, message: str) -> None:
        for skill in self._inside:
            file = shorten(relative[skill.below :], 200)
            skill.findings.append(Finding(rule=rule, level=Level.NOTE, kind=kind, message=message, file=file))

    def _report(self, problem: _NotPublishedError, relative: str, location: str) -> SkippedPath | None:
        if not self._inside:
            return SkippedPath(location=location, finding=problem.finding("."))
        for skill in self._inside:
            skill.findings.append(problem.finding(relative[skill.below :]))
        return None


def _read_file(location: str) -> tuple[bytes | None, int]:
    """A file's bytes and size, all of one moment. Bytes no skill may hold are not read: None, and the size (E4)."""
    try:
        fd = os.open(location, _OPEN_FLAGS)
        try:
            for _ in range(2):
                before = os.fstat(fd)
                if not stat.S_ISREG(before.st_mode):
                    raise _NotPublishedError("U1", "special-file", "Not a regular file any more.", "Try again.")
                if before.st_size > LIMITS.size:
                    return None, before.st_size
                data = _read_whole(fd, before.st_size)
                after = os.fstat(fd)
                if len(data) == before.st_size == after.st_size and before.st_mtime_ns == after.st_mtime_ns:
                    return data, len(data)
                os.lseek(fd, 0, os.SEEK_SET)
        finally:
            os.close(fd)
    except OSError as error:
        raise _unreadable(error) from None
    raise _NotPublishedError(
        "E3", "changing", "The file changed while it was being read.", "Try again when it is still."
    )


def _read_whole(fd: int, size: int) -> bytes:
    """Up to one byte more than `size`, so that growth shows; a short read is completed."""
    data = os.read(fd, size + 1)
    while len(data) < size and (more := os.read(fd, size + 1 - len(data))):
        data += more
    return data


def _unreadable(error: OSError) -> _NotPublishedError:
    reason = (error.strerror or "unknown error").lower()
    return _NotPublishedError(
        "U1", "unreadable", f"It cannot be read: {reason}.", "Check its permissions and its disk."
    )


def _lookalike(entry: os.DirEntry[str]) -> SkippedPath:
    is_directory = entry.is_dir(follow_symlinks=False)
    problem = _NotPublishedError(
        "F1",
        "skill-md",
        "SKILL.md is a directory." if is_directory else "The file must be named SKILL.md, in exactly these letters.",
        "SKILL.md must be a file." if is_directory else "Rename it to SKILL.md.",
        level=Level.ERROR if is_directory else Level.WARNING,
    )
    return SkippedPath(location=entry.path, finding=problem.finding("."))


def _skill_md_first(name: str) -> tuple[bool, str]:
    """SKILL.md is read before a skill can be past its limits."""
    return (name != SKILL_MD, name)
