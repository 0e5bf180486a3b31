"""Read a directory tree into skill folders: each file once, links never out of a skill, one bad file never the rest.

Which files of a directory belong to a skill, and what happens to links and special files, is recorded in
docs/decisions/0003-what-belongs-to-a-skill.md.
"""

from __future__ import annotations

import os
import stat
import time
from dataclasses import dataclass, field
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Final

from skillquay.core.digests import Digest
from skillquay.core.entries import LIMITS, FileRecord
from skillquay.core.findings import Finding, Level
from skillquay.core.folders import SkillFolder
from skillquay.core.hidden import shorten
from skillquay.core.uris import SKILL_MD, SkillUri
from skillquay.errors import UriError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["IGNORED", "MAX_DEPTH", "SkippedPath", "read_tree"]

IGNORED: Final = frozenset({"node_modules", "__pycache__"})
MAX_DEPTH: Final = 100
_RECENT: Final = 100_000_000  # nanoseconds in which a file may be written again without its time changing
_FIRST_READ: Final = 1 << 14  # enough for nearly every file of a skill
_OPEN_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedPath:
    """Something in the tree, in no skill, that could not be read or is not what it looks like."""

    location: str
    finding: Finding


@dataclass(slots=True, kw_only=True)
class _OpenSkill:
    """A skill's directory whose files are still being collected. `below` is where paths relative to it begin."""

    root: SkillUri
    location: str
    below: int
    skill_md: bytes | None = None
    file_count: int = 0
    size: int = 0
    files: list[FileRecord] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def close(self) -> SkillFolder | SkippedPath:
        if self.skill_md is None:
            return SkippedPath(location=os.path.join(self.location, SKILL_MD), finding=self.findings[0])
        self.files.sort(key=_uri)
        return SkillFolder(
            root=self.root,
            location=self.location,
            skill_md=self.skill_md,
            files=tuple(self.files),
            file_count=self.file_count,
            size=self.size,
            findings=tuple(self.findings),
        )


@dataclass(frozen=True, slots=True)
class _Directory:
    """A directory still to be read; `relative` is its path below the root of the tree, with a slash at its end.

    `uri` is None for a root that is published without a prefix: only what lies in it has a URI.
    """

    location: str
    relative: str
    depth: int
    uri: SkillUri | None


class _NotPublishedError(Exception):
    """A file or directory that does not become part of a skill, and why."""

    def __init__(self, rule: str, kind: str, message: str, fix: str, *, level: Level = Level.ERROR) -> None:
        super().__init__(message)
        self.rule, self.kind, self.message, self.fix, self.level = rule, kind, message, fix, level

    def finding(self, file: str) -> Finding:
        shown = shorten(file, 200)
        return Finding(rule=self.rule, level=self.level, kind=self.kind, message=self.message, file=shown, fix=self.fix)


def read_tree(root: str, *, prefix: Sequence[str] = ()) -> Iterator[SkillFolder | SkippedPath]:
    """Every skill below `root`, in the order of their paths, an enclosing skill after the skills nested in it.

    `root` may be a directory of skills, one skill's directory, or a `SKILL.md`. Each skill is given as soon as it has
    been read, so that a large tree needs little memory.
    """
    if os.path.basename(root) == SKILL_MD and os.path.isfile(root):
        root = os.path.dirname(root) or "."
    uri = SkillUri.build(prefix) if prefix else None
    first = _Directory(location=os.path.normpath(root), relative="", depth=0, uri=uri)
    return _Walk(os.path.basename(os.path.abspath(root))).run(first)


class _Walk:
    """One walk over a tree. `_inside` holds the skills around the current directory, the outermost first."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._inside: list[_OpenSkill] = []

    def run(self, first: _Directory) -> Iterator[SkillFolder | SkippedPath]:
        pending: list[_Directory | _OpenSkill] = [first]
        while pending:
            here = pending.pop()
            if isinstance(here, _OpenSkill):
                yield self._inside.pop().close()
                continue
            problems: list[tuple[str, _NotPublishedError]] = []
            try:
                below = self._read(here, pending, problems)
            except _NotPublishedError as problem:
                problems.append(("", problem))
                below = []
            for name, reason in sorted(problems, key=itemgetter(0)):
                if skipped := self._report(reason, here.relative + name, os.path.join(here.location, name)):
                    yield skipped
            pending.extend(sorted(below, key=_location, reverse=True))

    def _read(
        self,
        here: _Directory,
        pending: list[_Directory | _OpenSkill],
        problems: list[tuple[str, _NotPublishedError]],
    ) -> list[_Directory]:
        """One directory: its files go to the skills around it, its sub-directories are given back."""
        since = time.time_ns()
        directories: list[os.DirEntry[str]] = []
        files: dict[str, os.DirEntry[str]] = {}
        try:
            with os.scandir(here.location) as scan:
                for entry in scan:
                    if entry.is_dir(follow_symlinks=False):
                        directories.append(entry)
                    else:
                        files[entry.name] = entry
        except OSError as error:
            raise _unreadable(error) from None
        uri = here.uri
        if skill_md := files.pop(SKILL_MD, None):
            uri = _child(uri, self._name) if here.depth == 0 else _known(uri)
            skill = _OpenSkill(root=uri, location=here.location, below=len(here.relative))
            self._inside.append(skill)
            pending.append(skill)
            try:  # it is read before the skill can be past its limits
                skill.skill_md = self._add(skill_md, uri, here, since) or b""
            except _NotPublishedError as problem:
                problems.append((SKILL_MD, problem))
        elif not self._inside:
            problems.extend(_seen_outside(directories, files))
            files.clear()
        for entry in files.values():
            try:
                self._add(entry, _known(uri), here, since)
            except _NotPublishedError as problem:
                problems.append((entry.name, problem))
        below: list[_Directory] = []
        for entry in directories:
            try:
                if directory := self._directory(entry, uri, here):
                    below.append(directory)
            except _NotPublishedError as problem:
                problems.append((entry.name, problem))
        return below

    def _directory(self, entry: os.DirEntry[str], uri: SkillUri | None, here: _Directory) -> _Directory | None:
        name = entry.name
        relative = f"{here.relative}{name}/"
        if name[0] == "." or name in IGNORED:
            self._leave_out(relative)
            return None
        if here.depth == MAX_DEPTH:
            raise _NotPublishedError(
                "P1", "depth", f"The tree is more than {MAX_DEPTH} directories deep here.", "Move it up."
            )
        return _Directory(entry.path, relative, here.depth + 1, _child(uri, name))

    def _add(self, entry: os.DirEntry[str], uri: SkillUri, here: _Directory, since: int) -> bytes | None:
        """Read a file once for every skill around it. Past the innermost skill's limits, it is only counted (E4).

        An enclosing skill has every file of the nested one, so that it is past its limits, too.
        """
        name, location = entry.name, entry.path
        if name[0] == ".":
            self._leave_out(here.relative + name)
            return None
        if not entry.is_file(follow_symlinks=False):
            location = self._behind(entry, here.relative + name)
        record = None
        innermost = self._inside[-1]
        if innermost.file_count > LIMITS.files or innermost.size > LIMITS.size:
            data, size = None, os.lstat(location).st_size
        else:
            data, size = _read_file(location, since)
        if data is not None:
            record = FileRecord(uri=_child(uri, name), digest=Digest.of(data), size=size)
        for skill in self._inside:
            skill.file_count += 1
            skill.size += size
            if record is not None:
                skill.files.append(record)
        return data

    def _behind(self, entry: os.DirEntry[str], relative: str) -> str:
        if not entry.is_symlink():
            raise _NotPublishedError("U1", "special-file", "A FIFO, a socket or a device, not a file.", "Remove it.")
        target = self._behind_link(entry.path)
        self._note(relative, "U8", "link", "A link inside the skill; it is published as a file.")
        return target

    def _behind_link(self, link: str) -> str:
        """The file behind a link, when it is one and lies in the same skill (U8)."""
        root = os.path.realpath(self._inside[-1].location)
        target = os.path.realpath(link)
        inside = target.startswith(root + os.sep)
        if not inside or any(part.startswith(".") for part in target[len(root) + 1 :].split(os.sep)):
            level = Level.ERROR if os.path.basename(link) == SKILL_MD else Level.WARNING
            raise _linked("A link that leaves the skill's directory; it is not published.", level)
        if not os.path.isfile(target):
            what = "directory" if os.path.isdir(target) else "missing file"
            raise _linked(f"A link to a {what}; it is not published.")
        return target

    def _leave_out(self, relative: str) -> None:
        self._note(relative, "P1", "left-out", "Hidden files and build leftovers are not part of the skill.")

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


def _read_file(location: str, since: int) -> tuple[bytes | None, int]:
    """A file's bytes and size, all of one moment. Bytes no skill may hold are not read: None, and the size (E4).

    A file whose inode last changed well before `since`, when its directory was begun, did not change while it was
    read. Of a file that has just changed, two readings must be the same.
    """
    try:
        fd = os.open(location, _OPEN_FLAGS)
        try:
            data = os.read(fd, _FIRST_READ)
            status = os.fstat(fd)
            size = status.st_size
            if not stat.S_ISREG(status.st_mode):
                raise _NotPublishedError("U1", "special-file", "Not a regular file any more.", "Try again.")
            if size > LIMITS.size:
                return None, size
            if len(data) == size and since - status.st_ctime_ns > _RECENT:
                return data, size
            data = _read_whole(fd, size)
            changed = os.fstat(fd).st_ctime_ns
            is_still = since - changed > _RECENT or _read_whole(fd, size) == data
            if len(data) == size and changed == status.st_ctime_ns and is_still:
                return data, size
        finally:
            os.close(fd)
    except OSError as error:
        raise _unreadable(error) from None
    raise _NotPublishedError("E3", "changing", "The file changed while it was being read.", "Try again later.")


def _read_whole(fd: int, size: int) -> bytes:
    """A file from its beginning, up to one byte more than `size`, so that growth shows."""
    data = b""
    os.lseek(fd, 0, os.SEEK_SET)
    while len(data) <= size and (more := os.read(fd, size + 1 - len(data))):
        data += more
    return data


def _child(uri: SkillUri | None, name: str) -> SkillUri:
    try:
        return SkillUri.build((name,)) if uri is None else uri.child(name)
    except UriError as error:
        raise _NotPublishedError(
            error.rule, "file-name", f"It cannot be given a URI: {error.message}", "Rename it."
        ) from None


def _known(uri: SkillUri | None) -> SkillUri:
    assert uri is not None, "below the root, and in a root that is a skill, everything has a URI"
    return uri


def _unreadable(error: OSError) -> _NotPublishedError:
    reason = (error.strerror or "unknown error").lower()
    return _NotPublishedError("U1", "unreadable", f"It cannot be read: {reason}.", "Check its permissions.")


def _linked(message: str, level: Level = Level.WARNING) -> _NotPublishedError:
    return _NotPublishedError("U8", "link", message, "Copy what is meant into the skill.", level=level)


def _seen_outside(
    directories: list[os.DirEntry[str]], files: dict[str, os.DirEntry[str]]
) -> Iterator[tuple[str, _NotPublishedError]]:
    """What looks like a skill and is none, where no skill is."""
    for entry in directories:
        if entry.name == SKILL_MD:
            yield SKILL_MD, _NotPublishedError("F1", "skill-md", "SKILL.md is a directory.", "It must be a file.")
    for name, entry in files.items():
        if name.lower() == "skill.md":
            yield (
                name,
                _NotPublishedError(
                    "F1",
                    "skill-md",
                    "It is not named SKILL.md in exactly these letters.",
                    "Rename it.",
                    level=Level.WARNING,
                ),
            )
        elif entry.is_symlink() and entry.is_dir():
            yield name, _linked("A linked directory; links are not followed.")


_uri = attrgetter("uri")
_location = attrgetter("location")
