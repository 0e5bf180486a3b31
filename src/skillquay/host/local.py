"""Skills on the user's own disk: found by their frontmatter, read when needed, never read out of (P1, F5, U5, U8).

A skill is known by its real directory. Whatever is read of it is opened from the root of the file system segment by
segment, without following a link at any of them, so that nothing swapped for a link in the meantime leads elsewhere. A
link inside a skill is resolved before; it may lead to another file of that skill.
"""

from __future__ import annotations

import codecs
import os
import stat
from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeVar

from skillquay.core.context import LocalSkill
from skillquay.core.decisions import model_may_load
from skillquay.core.entries import LIMITS
from skillquay.core.frontmatter import cut
from skillquay.core.hidden import shorten, visible
from skillquay.core.lenient import read_leniently
from skillquay.core.registry import Local, LocalScope
from skillquay.core.uris import SKILL_MD, reference_paths
from skillquay.errors import AuthorError, FrontmatterError, UriError
from skillquay.host.configuration import Problem
from skillquay.sources.directory import IGNORED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = ["Discovered", "LocalEntry", "LocalFile", "discover", "list_files", "read_body", "read_bytes", "read_file"]

Taken = TypeVar("Taken")
MAX_DEPTH: Final = 4
MAX_DIRECTORIES: Final = 2_000
MAX_SKILLS: Final = 1_000
MAX_SKILL_MD: Final = 64 * 1024
MAX_SHOWN: Final = 512 * 1024
MAX_LISTED: Final = 512
_DEEPEST_LISTED: Final = 32
_FILE: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY
_DIRECTORY: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_DIRECTORY
# A directory on the way need not be readable, only passable; where there is no O_PATH it must be both.
_ON_THE_WAY: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_DIRECTORY


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalEntry:
    """A skill on disk, of which only the frontmatter was read. `location` is its real directory."""

    name: str
    description: str
    identity: Local
    location: str
    frontmatter: Mapping[str, object]
    model_may_load: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovered:
    """The skills of a directory, and what was skipped, repaired or not searched."""

    skills: tuple[LocalEntry, ...] = ()
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalFile:
    """A file of a local skill as text. `size` is that of the whole file; only its beginning is here if `shortened`."""

    path: str
    text: str
    size: int
    shortened: bool


def discover(directory: str, scope: LocalScope) -> Discovered:
    """The skills in the directories of `directory`, such as `.agents/skills`, and below them.

    At its top level a directory may be linked: from anywhere for the user's own skills, from inside the workspace for
    a project's (U8). The workspace is what holds the hidden directory, such as `.agents`, that `directory` lies in.
    """
    shown, real = os.path.abspath(directory), _real(directory)
    if not os.path.isdir(real):
        return Discovered()
    search = _Search(scope=scope, boundary=_workspace(shown) if scope is LocalScope.PROJECT else None)
    if search.leaves(real):
        search.report(shown, "It is a link that leaves the workspace; no skill is loaded from it.", "U8")
    else:
        search.run(_Place(location=real, shown=shown, depth=0, in_skill=False))
    return Discovered(skills=tuple(search.skills), problems=tuple(search.problems))


def read_body(entry: LocalEntry) -> LocalSkill:
    """The skill's instructions, as they are on disk now. An `AuthorError` says why they cannot be read."""
    data = _skill_md(entry.location)
    body = data[cut(data).body_start :].decode("utf-8")
    return LocalSkill(name=entry.name, directory=entry.location, body=body)


def list_files(entry: LocalEntry) -> tuple[str, ...]:
    """The paths of the files that `read_file` gives, `SKILL.md` included: the first 512, hidden ones left out."""
    found: list[str] = []
    try:
        with _opened(entry.location, _DIRECTORY) as root:
            for number, (place, directories, files, _) in enumerate(os.fwalk(".", dir_fd=root)):
                below = place[2:] + "/" if place != "." else ""
                is_deepest = below.count("/") == _DEEPEST_LISTED
                directories[:] = [] if is_deepest else sorted(name for name in directories if not _is_left_out(name))
                found += [below + name for name in sorted(files) if _is_readable(entry, below + name)]
                if len(found) >= MAX_LISTED or number == MAX_DIRECTORIES:
                    break
    except OSError as error:
        raise _unreadable(error, entry.location) from None
    return tuple(sorted(found[:MAX_LISTED]))


def read_file(entry: LocalEntry, path: str) -> LocalFile:
    r"""A file of the skill, by its path as an author or a model writes it; beyond 512 KB only its beginning.

    Bytes that are not UTF-8 are written as `\xhh`. A `UriError` says why it is not given: it is absolute, walks, is
    hidden, leads out of the skill, or is no file.
    """
    return _taken(entry, path, _shown_file)


def read_bytes(entry: LocalEntry, path: str) -> bytes:
    """A file of the skill as it is, found as `read_file` finds it; one that no skill may hold is refused (E4)."""

    def whole(fd: int, candidate: str) -> bytes:
        size, data = _read(fd, LIMITS.size)
        if size > LIMITS.size:
            raise UriError(f'"{shorten(candidate)}" has more than {LIMITS.size:,} bytes.', rule="E4")
        return data

    return _taken(entry, path, whole)


def _taken(entry: LocalEntry, path: str, take: Callable[[int, str], Taken]) -> Taken:
    for candidate in reference_paths(path):
        resolved = _resolved(entry.location, candidate)
        try:
            with _opened(f"{entry.location}/{resolved}", _FILE) as fd:
                return take(fd, candidate)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise UriError(f'"{shorten(path)}" cannot be read: {_reason(error)}.', rule="P1") from None
    raise UriError(
        f'"{shorten(path)}" is not a file of the skill "{shorten(entry.name)}". Ask for the list of its files.',
        rule="U5",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """A directory still to be searched: where it really is, and by which path the user knows it."""

    location: str
    shown: str
    depth: int
    in_skill: bool


@dataclass(slots=True, kw_only=True)
class _Search:
    """One search for skills, the uppermost directories first, so that a bound leaves out the deepest."""

    scope: LocalScope
    boundary: str | None
    skills: list[LocalEntry] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def report(self, shown: str, message: str, rule: str) -> None:
        self.problems.append(Problem(subject=visible(shown), message=message, rule=rule))

    def leaves(self, real: str) -> bool:
        """True for a place outside the workspace, where that matters."""
        return self.boundary is not None and real != self.boundary and not _is_inside(real, self.boundary)

    def run(self, top: _Place) -> None:
        pending = deque([top])
        searched: set[str] = set()
        too_deep = 0
        while pending:
            here = pending.popleft()
            if here.location in searched:
                self.report(
                    here.shown, "It leads to a directory that was searched already; it is not loaded twice.", "P1"
                )
                continue
            if len(searched) >= MAX_DIRECTORIES or len(self.skills) >= MAX_SKILLS:
                reached = f"{MAX_DIRECTORIES:,} directories or {MAX_SKILLS:,} skills"
                self.report(top.shown, f"Only the first {reached} were searched. Move some elsewhere.", "P1")
                break
            searched.add(here.location)
            below = self._search(here)
            if here.depth == MAX_DEPTH:
                too_deep += len(below)
            else:
                pending.extend(below[: MAX_DIRECTORIES + 1 - len(pending)])
        if too_deep:
            what = f"{too_deep:,} directories lie more than {MAX_DEPTH} levels down and were not searched for skills."
            self.report(top.shown, f"{what} Move the skills in them further up.", "P1")

    def _search(self, here: _Place) -> list[_Place]:
        """Take the skill in this directory, if there is one, and give the directories in it."""
        names: set[str] = set()
        links: list[str] = []
        directories: list[str] = []
        try:
            with os.scandir(here.location) as scan:
                for entry in scan:
                    if entry.is_dir(follow_symlinks=False):
                        directories.append(entry.name)
                    else:
                        names.add(entry.name)
                        if entry.is_symlink():
                            links.append(entry.name)
        except OSError as error:
            self.report(here.shown, f"It cannot be searched for skills: {_reason(error)}.", "P1")
            return []
        in_skill = here.in_skill
        if SKILL_MD in names:
            if here.depth:
                in_skill = True
                self._take(here)
            else:
                self.report(f"{here.shown}/{SKILL_MD}", "A skill needs a directory of its own. Move it into one.", "P1")
        found = [(name, f"{here.location}/{name}") for name in sorted(directories)]
        if not in_skill:
            found += self._linked(here, sorted(links))
        return [
            _Place(location=location, shown=f"{here.shown}/{name}", depth=here.depth + 1, in_skill=in_skill)
            for name, location in found
            if not _is_left_out(name)
        ]

    def _linked(self, here: _Place, links: list[str]) -> Iterator[tuple[str, str]]:
        """The directories behind links, at the top level only, each with the link's name."""
        for name in links:
            shown, real = f"{here.shown}/{name}", _real(f"{here.location}/{name}")
            if _is_left_out(name) or os.path.isfile(real):
                continue
            if not os.path.isdir(real):
                self.report(shown, "It is a link that leads nowhere. Remove it, or correct it.", "U8")
            elif here.depth:
                self.report(shown, "It is a linked directory below the top level; it is not searched for skills.", "U8")
            elif self.leaves(real):
                self.report(
                    shown, "It is a link that leaves the workspace; it is not loaded. Copy the skill here.", "U8"
                )
            else:
                yield name, real

    def _take(self, here: _Place) -> None:
        shown = f"{here.shown}/{SKILL_MD}"
        try:
            read = read_leniently(_skill_md(here.location), _utf8_name(here.shown))
        except AuthorError as error:
            line = f"Line {error.line}: " if isinstance(error, FrontmatterError) else ""
            self.report(shown, f"{line}{error.message} The skill is skipped.", error.rule)
            return
        for finding in read.findings:
            line = f"Line {finding.line}: " if finding.line else ""
            self.report(shown, f"{line}{finding.message} The skill is loaded anyway.", finding.rule)
        fields = read.frontmatter.fields
        self.skills.append(
            LocalEntry(
                name=read.frontmatter.name,
                description=read.frontmatter.description,
                identity=Local(scope=self.scope, directory=here.location),
                location=here.location,
                frontmatter=fields,
                model_may_load=model_may_load(fields),
            )
        )


def _workspace(directory: str) -> str:
    parent = os.path.dirname(directory)
    return _real(os.path.dirname(parent) if os.path.basename(parent).startswith(".") else directory)


def _real(path: str) -> str:
    """Where a path really leads; the path itself when that changes just now, and then no link in it is followed."""
    try:
        return os.path.realpath(path)
    except OSError:
        return os.path.abspath(path)


def _is_inside(path: str, directory: str) -> bool:
    return path.startswith(directory.rstrip("/") + "/")


def _is_left_out(path: str) -> bool:
    """True when any part of the path is hidden or a build leftover: nothing such belongs to a skill."""
    return any(part.startswith(".") or part in IGNORED for part in path.split("/"))


def _utf8_name(directory: str) -> str:
    name = os.path.basename(directory)
    try:
        name.encode()
    except UnicodeEncodeError:
        raise AuthorError("The directory's name is not UTF-8 text. Rename it.", rule="F1") from None
    return name


def _resolved(location: str, path: str) -> str:
    """The path below the skill of what lies at `path`: links may lead elsewhere in the skill, never out of it (U8)."""
    real = _real(f"{location}/{path}")
    if real != location and not _is_inside(real, location):
        raise UriError(f'"{shorten(path)}" is a link that leaves the skill; it is not read.', rule="U8")
    resolved = real[len(location) + 1 :]
    if _is_left_out(path) or _is_left_out(resolved):
        raise UriError(f'"{shorten(path)}" is hidden or a build leftover; it is no part of the skill.', rule="P1")
    return resolved


def _is_readable(entry: LocalEntry, path: str) -> bool:
    """True for a file that this very path reaches through `read_file`. A FIFO is never opened."""
    try:
        real = f"{entry.location}/{_resolved(entry.location, path)}"
        return reference_paths(path)[0] == path and stat.S_ISREG(os.lstat(real).st_mode)
    except (OSError, UriError):
        return False


def _skill_md(location: str) -> bytes:
    """The bytes of a `SKILL.md`, at most 64 KB of them."""
    try:
        with _opened(f"{location}/{_resolved(location, SKILL_MD)}", _FILE) as fd:
            size, data = _read(fd, MAX_SKILL_MD)
    except UriError as error:
        raise AuthorError(error.message, rule=error.rule) from None
    except OSError as error:
        raise _unreadable(error, f"{location}/{SKILL_MD}") from None
    if size > MAX_SKILL_MD:
        message = f"{SKILL_MD} has more than {MAX_SKILL_MD:,} bytes. Move parts of it into other files."
        raise AuthorError(message, rule="P1")
    return data


def _shown_file(fd: int, path: str) -> LocalFile:
    size, data = _read(fd, MAX_SHOWN)
    shortened = size > MAX_SHOWN
    # The last character of a part may be cut in two: the decoder then keeps its beginning to itself.
    text = codecs.getincrementaldecoder("utf-8")("backslashreplace").decode(data[:MAX_SHOWN], final=not shortened)
    return LocalFile(path=path, text=text, size=size, shortened=shortened)


def _read(fd: int, limit: int) -> tuple[int, bytes]:
    """A file's size and its bytes, one more than the limit at the most."""
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        raise UriError("It is not a regular file; it is not read.", rule="P1")
    with open(fd, "rb", closefd=False) as file:
        data = file.read(limit + 1)
    return max(status.st_size, len(data)), data


@contextmanager
def _opened(path: str, flags: int) -> Iterator[int]:
    """Open an absolute path without following a link in any of its segments."""
    *above, name = path.strip("/").split("/")
    here = os.open("/", _ON_THE_WAY)
    try:
        for segment in above:
            below = os.open(segment, _ON_THE_WAY, dir_fd=here)
            os.close(here)
            here = below
        fd = os.open(name, flags, dir_fd=here)
    finally:
        os.close(here)
    try:
        yield fd
    finally:
        os.close(fd)


def _reason(error: OSError) -> str:
    return (error.strerror or "unknown error").lower()


def _unreadable(error: OSError, path: str) -> AuthorError:
    return AuthorError(f"{shorten(path, 200)} cannot be read: {_reason(error)}. Look for the skills again.", rule="P1")
