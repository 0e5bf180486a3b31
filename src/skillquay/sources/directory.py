"""Read a directory tree into skill folders: each file once, links never out of a skill, one bad file never the rest.

Which files of a directory belong to a skill, and what happens to links and special files, is recorded in
docs/decisions/0003-what-belongs-to-a-skill.md.
"""

from __future__ import annotations

import os
import stat
import time
from dataclasses import dataclass, field, replace
from itertools import islice
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from skillquay.core.digests import Digest
from skillquay.core.entries import LIMITS, FileRecord
from skillquay.core.findings import Finding, Level
from skillquay.core.folders import Publication, SkillFolder, publish
from skillquay.core.hidden import shorten
from skillquay.core.uris import SKILL_MD, SkillUri
from skillquay.errors import UriError
from skillquay.sources.collector import collector_paused
from skillquay.sources.reading import RECENT, NotPublishedError, read_file, size_of, unreadable
from skillquay.sources.stamps import Stamp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ["IGNORED", "MAX_DEPTH", "Reading", "SkippedPath", "publish_tree", "read_tree"]

IGNORED: Final = frozenset({"node_modules", "__pycache__"})
MAX_DEPTH: Final = 100
_BATCH: Final = 64  # listing, reading and parsing take turns in batches: each is faster while it has the caches


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedPath:
    """Something in the tree, in no skill, that could not be read or is not what it looks like.

    `root` is the URI of a skill's directory whose `SKILL.md` it is that could not be read.
    """

    location: str
    finding: Finding
    root: SkillUri | None = None


@dataclass(slots=True, kw_only=True, eq=False)
class _OpenSkill:
    """A skill's directory whose files are still being collected, until no directory below it is left to read."""

    root: SkillUri
    location: str
    below: int  # where a path in the tree becomes one relative to this skill
    unread: int = 0
    skill_md: bytes | NotPublishedError = b""
    file_count: int = 0
    size: int = 0
    files: list[FileRecord] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)
    executable: list[str] = field(default_factory=list)
    stamp: Stamp = field(default_factory=Stamp)
    findings: list[Finding] = field(default_factory=list)

    def close(self) -> SkillFolder | SkippedPath:
        if isinstance(self.skill_md, NotPublishedError):
            return SkippedPath(location=self.location, finding=self.skill_md.finding(SKILL_MD), root=self.root)
        self.files.sort(key=_uri)
        return SkillFolder(
            root=self.root,
            location=self.location,
            skill_md=self.skill_md,
            files=tuple(self.files),
            file_count=self.file_count,
            size=self.size,
            findings=tuple(sorted(self.findings, key=_file)),
            empty=tuple(sorted(self.empty)),
            executable=tuple(sorted(self.executable)),
            stamp=None if self.findings else self.stamp.digest(),
        )


@dataclass(slots=True)
class _Directory:
    """A directory still to be read; `relative` is its path below the root of the tree, with a slash at its end.

    `uri` is None for a root that is published without a prefix: only what lies in it has a URI. `skills` are those
    around it, the outermost first.
    """

    location: str
    relative: str
    depth: int
    uri: SkillUri | None
    skills: tuple[_OpenSkill, ...]


class Known(Protocol):
    """Says whether the skill in a directory, with these things in it, is known already."""

    def __call__(self, location: str, entries: Sequence[os.DirEntry[str]], /) -> bool:
        """True when it need not be read."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How to read a directory that is served for a long time, or a part of it.

    A root that is a skill itself has its directory's name, or this `name`. A root that `is_part` of a larger tree has
    none: what the prefix leads to is the root; it lies `depth` directories down in that tree. `scheme` is that of all
    URIs. `keep` is given the bytes of each file. A skill's directory that is `known` already is passed over, with all
    that is in it. `unread` is told of each directory whose content cannot be listed.
    """

    name: str | None = None
    is_part: bool = False
    depth: int = 0
    scheme: str = "skill"
    keep: Keep | None = None
    known: Known | None = None
    unread: Unread | None = None


def read_tree(
    root: str, *, prefix: Sequence[str] = (), reading: Reading | None = None
) -> Iterator[SkillFolder | SkippedPath]:
    """Every skill below `root`, an enclosing skill after the skills nested in it.

    `root` may be a directory of skills, one skill's directory, or a `SKILL.md`. Each skill is given as soon as it has
    been read, so that a large tree needs little memory. What `prefix` leads to is the parent of a root that is a skill
    itself.
    """
    if os.path.basename(root) == SKILL_MD and os.path.isfile(root):
        root = os.path.dirname(root) or "."
    tree = reading or Reading()
    tree = replace(tree, name=None if tree.is_part else tree.name or os.path.basename(os.path.abspath(root)))
    uri = SkillUri.build(prefix, scheme=tree.scheme) if prefix else None
    pending = [_Directory(location=os.path.normpath(root), relative="", depth=tree.depth, uri=uri, skills=())]
    while pending:
        batch, pending[-_BATCH:] = pending[: -_BATCH - 1 : -1], []
        begun = time.time_ns()
        for here, listing in [(each, _list(each, tree)) for each in batch]:
            below, problems = _read(here, listing, tree, begun)
            pending.extend(below)
            if problems:
                yield from _reported(here, problems)
            for skill in here.skills:
                skill.unread -= 1
                if skill.unread == 0:
                    yield skill.close()


def publish_tree(
    root: str, *, prefix: Sequence[str] = (), strict: bool = False, reading: Reading | None = None
) -> Iterator[Publication | SkippedPath]:
    """Every skill below `root` as it would be published, or with what keeps it from that; see `read_tree`."""
    items = read_tree(root, prefix=prefix, reading=reading)
    while True:
        with collector_paused():
            batch = list(islice(items, _BATCH))
            published = [item if isinstance(item, SkippedPath) else publish(item, strict=strict) for item in batch]
        if not batch:
            return
        yield from published


Keep: TypeAlias = "Callable[[Digest, bytes], None]"
Unread: TypeAlias = "Callable[[str, OSError], None]"
_Listing: TypeAlias = "tuple[list[os.DirEntry[str]], dict[str, os.DirEntry[str]]] | NotPublishedError"
_Problems: TypeAlias = "list[tuple[str, NotPublishedError]]"


def _list(here: _Directory, tree: Reading) -> _Listing:
    """The sub-directories and the other things in a directory."""
    directories: list[os.DirEntry[str]] = []
    others: dict[str, os.DirEntry[str]] = {}
    try:
        with os.scandir(here.location) as scan:
            for entry in scan:
                if entry.is_dir(follow_symlinks=False):
                    directories.append(entry)
                else:
                    others[entry.name] = entry
    except OSError as error:
        if tree.unread:
            tree.unread(here.location, error)
        return unreadable(error)
    return directories, others


def _read(here: _Directory, listing: _Listing, tree: Reading, begun: int) -> tuple[list[_Directory], _Problems]:
    """Give a directory's files to the skills around it; its sub-directories are next."""
    problems: _Problems = []
    below: list[_Directory] = []
    if isinstance(listing, NotPublishedError):
        return below, [("", listing)]
    directories, files = listing
    holds_files = False
    if skill_md := files.pop(SKILL_MD, None):
        if tree.known and not here.skills and tree.known(here.location, [*directories, skill_md, *files.values()]):
            return below, problems
        try:
            skill = _open(here, tree)
            holds_files = True
            try:  # it is read before the skill can be past its limits
                skill.skill_md = _add(skill_md, here, tree, begun) or b""
            except NotPublishedError as problem:
                skill.skill_md = problem
                raise
        except NotPublishedError as problem:
            problems.append((SKILL_MD, problem))
    elif not here.skills:
        problems.extend(_seen_outside(directories, files))
    if here.skills:
        for name, entry in files.items():
            try:
                holds_files |= _add(entry, here, tree, begun) is not None
            except NotPublishedError as problem:
                problems.append((name, problem))
    for entry in directories:
        try:
            if directory := _below(entry, here, tree):
                below.append(directory)
        except NotPublishedError as problem:
            problems.append((entry.name, problem))
    for skill in here.skills:
        skill.unread += len(below)
        if not below and not holds_files:
            skill.empty.append(here.relative[skill.below : -1])
    if here.skills:
        outermost = here.skills[0]
        for directory in below:
            outermost.stamp.add_directory(directory.relative[outermost.below :])
    return below, problems


def _open(here: _Directory, tree: Reading) -> _OpenSkill:
    """Begin the skill whose `SKILL.md` is in this directory."""
    uri = _child(here.uri, tree.name, tree) if here.relative == "" and tree.name is not None else _known(here.uri)
    skill = _OpenSkill(root=uri, location=here.location, below=len(here.relative), unread=1)
    if here.skills or tree.known is None:
        skill.stamp.spoil()  # the enclosing skill's stamp covers it, or nobody asks for one
    here.uri = uri
    here.skills = (*here.skills, skill)
    return skill


def _below(entry: os.DirEntry[str], here: _Directory, tree: Reading) -> _Directory | None:
    name = entry.name
    relative = f"{here.relative}{name}/"
    if name[0] == "." or name in IGNORED:
        _leave_out(here, relative)
        return None
    if here.depth == MAX_DEPTH:
        raise NotPublishedError(
            "P1", "depth", f"The tree is more than {MAX_DEPTH} directories deep here.", "Move it up."
        )
    return _Directory(entry.path, relative, here.depth + 1, _child(here.uri, name, tree), here.skills)


def _add(entry: os.DirEntry[str], here: _Directory, tree: Reading, begun: int) -> bytes | None:
    """Read a file once for every skill around it. Past the innermost skill's limits, it is only counted (E4).

    An enclosing skill has every file of the nested one, so that it is past its limits, too.
    """
    name, location, skills = entry.name, entry.path, here.skills
    if name[0] == ".":
        _leave_out(here, here.relative + name)
        return None
    if not entry.is_file(follow_symlinks=False):
        location = _behind(entry, here)
    record = None
    innermost = skills[-1]
    if innermost.file_count > LIMITS.files or innermost.size > LIMITS.size:
        data, size = None, size_of(location)
    else:
        data, status = read_file(location, begun)
        size = status.st_size
        if begun - status.st_ctime_ns > RECENT:
            skills[0].stamp.add_file(here.relative[skills[0].below :] + name, status)
        else:
            skills[0].stamp.spoil()
    if data is not None:
        record = FileRecord(_child(here.uri, name, tree), Digest.of(data), size)
        if status.st_mode & stat.S_IXUSR:
            for skill in skills:
                skill.executable.append(here.relative[skill.below :] + name)
        if tree.keep:
            tree.keep(record.digest, data)
    for skill in skills:
        skill.file_count += 1
        skill.size += size
        if record is not None:
            skill.files.append(record)
    return data


def _behind(entry: os.DirEntry[str], here: _Directory) -> str:
    """The file behind a link, when it is one and lies in the same skill (U8)."""
    if not entry.is_symlink():
        raise NotPublishedError("U1", "special-file", "A FIFO, a socket or a device, not a file.", "Remove it.")
    level = Level.ERROR if entry.name == SKILL_MD else Level.WARNING
    root = os.path.realpath(here.skills[-1].location)
    target = os.path.realpath(entry.path)
    if target != root and not target.startswith(root + os.sep):
        raise _linked("A link that leaves the skill's directory; it is not published.", level)
    *above, name = target[len(root) + 1 :].split(os.sep)
    if name.startswith(".") or any(part.startswith(".") or part in IGNORED for part in above):
        raise _linked("A link to something hidden; it is not published.", level)
    if not os.path.isfile(target):
        where = "to a directory" if os.path.isdir(target) else "that leads nowhere"
        raise _linked(f"A link {where}; it is not published.", level)
    _note(here, here.relative + entry.name, "U8", "link", "A link inside the skill; it is published as a file.")
    return target


def _leave_out(here: _Directory, relative: str) -> None:
    _note(here, relative, "P1", "left-out", "Hidden files and build leftovers are not part of the skill.")


def _note(here: _Directory, relative: str, rule: str, kind: str, message: str) -> None:
    for skill in here.skills:
        file = shorten(relative[skill.below :], 200)
        skill.findings.append(Finding(rule=rule, level=Level.NOTE, kind=kind, message=message, file=file))


def _reported(here: _Directory, problems: _Problems) -> Iterator[SkippedPath]:
    """Problems are findings of the skills around them; where there is none, they are given to the caller."""
    for name, problem in sorted(problems, key=itemgetter(0)):
        for skill in here.skills:
            skill.findings.append(problem.finding((here.relative + name)[skill.below :]))
        if not here.skills:
            location = os.path.join(here.location, name) if name else here.location
            yield SkippedPath(location=location, finding=problem.finding("."))


def _child(uri: SkillUri | None, name: str, tree: Reading) -> SkillUri:
    try:
        return SkillUri.build((name,), scheme=tree.scheme) if uri is None else uri.child(name)
    except UriError as error:
        raise NotPublishedError(
            error.rule, "file-name", f"It cannot be given a URI: {error.message}", "Rename it."
        ) from None


def _known(uri: SkillUri | None) -> SkillUri:
    assert uri is not None, "below the root, and in a root that is a skill, everything has a URI"
    return uri


def _linked(message: str, level: Level = Level.WARNING) -> NotPublishedError:
    return NotPublishedError("U8", "link", message, "Copy what is meant into the skill.", level=level)


def _seen_outside(
    directories: list[os.DirEntry[str]], files: dict[str, os.DirEntry[str]]
) -> Iterator[tuple[str, NotPublishedError]]:
    """What looks like a skill and is none, where no skill is."""
    for entry in directories:
        if entry.name == SKILL_MD:
            yield SKILL_MD, NotPublishedError("F1", "skill-md", "SKILL.md is a directory.", "It must be a file.")
    for name, entry in files.items():
        if name.lower() == "skill.md":
            yield (
                name,
                NotPublishedError(
                    "F1",
                    "skill-md",
                    "It is not named SKILL.md in exactly these letters.",
                    "Rename it.",
                    level=Level.WARNING,
                ),
            )
        elif name[0] == "." or name in IGNORED:
            continue  # as a directory with such a name is
        elif entry.is_symlink() and os.path.isdir(entry.path):  # a DirEntry raises where a link loops
            yield name, _linked("A linked directory; links are not followed.")


_uri = attrgetter("uri")
_file = attrgetter("file")
