"""Keep verified content of served skills on disk, and give it out again only after hashing it anew (K1-K4).

Nothing here is trusted when it is read: whatever a crash, a full disk, another process or another program leaves in
the directory is content of that skill by its digest, or it is removed and reported.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import shutil
import stat
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import platformdirs

from skillquay.core.digests import Digest
from skillquay.core.entries import Manifest
from skillquay.core.hidden import shorten, visible
from skillquay.core.identity import ServerLabel
from skillquay.core.verification import VerifiedFile, verify_file
from skillquay.errors import ConfigurationError, VerificationError
from skillquay.host.configuration import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from skillquay.core.entries import SkillEntry
    from skillquay.core.identity import SkillId
    from skillquay.core.uris import SkillUri

__all__ = ["CacheUse", "ContentCache", "default_cache_directory"]

LIMIT: Final = 512 * 1024 * 1024
# Names of directories that an agent, or a plugin of one, searches for skills.
SCANNED: Final = frozenset(
    {".agent", ".agents", ".aider", ".amazonq", ".amp", ".antigravity", ".augment", ".claude", ".cline", ".codeium"}
    | {".codex", ".continue", ".copilot", ".cursor", ".factory", ".gemini", ".github", ".goose", ".junie", ".kilocode"}
    | {".kiro", ".opencode", ".openhands", ".qwen", ".roo", ".skills", ".trae", ".vscode", ".windsurf", "skills"}
)
_KEEP: Final = 0.9  # of the limit, once it was passed
_TOUCH: Final = 60  # seconds in which a file counts as just used
_ABANDONED: Final = 3600  # seconds after which nobody is still writing a temporary file
_ATTEMPTS: Final = 8  # against other processes that make and remove the same directories
_TEMPORARY: Final = ".writing-"
_SERVER: Final = re.compile(r"([a-z0-9_=-]+)@[0-9a-f]{32}")
_ESCAPE: Final = re.compile(rb"=([0-9a-f]{2})")
_READ: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY
_WRITE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheUse:
    """What the cache holds of one server; the label is read from the directory's name."""

    server_directory: str
    label: str
    skills: int
    files: int
    size: int


def default_cache_directory() -> str:
    """Where the user's caches are, and no agent looks for skills."""
    return str(platformdirs.user_cache_path("skillquay") / "content")


class ContentCache:
    """Content of served skills, per server, skill and digest. Any thread and any number of processes may use it.

    `report` is told of content that was not what it should be, and of failures. A cache that does not work is never a
    reason for an exception: what was verified can be used without it.
    """

    def __init__(self, directory: str, *, report: Callable[[Problem], None], limit: int = LIMIT) -> None:
        self.directory = _outside_skills(directory)
        self.limit = limit
        self._report = report
        self._lock = threading.Lock()
        self._size: int | None = None  # unknown until something is written
        self._failure: str | None = None  # the last one, told once

    def read(self, skill: SkillId, entry: SkillEntry, uri: SkillUri) -> VerifiedFile | None:
        """The file at this URI of the held entry, verified anew; None when it is not here, or not any more."""
        record = entry.resources.find(uri) if isinstance(entry.resources, Manifest) else None
        if record is None:
            return None
        path = "/".join((self.directory, *skill.cache_path(record.digest)))
        file = None
        try:
            fd = os.open(path, _READ)
            try:
                status = os.fstat(fd)
                is_whole = stat.S_ISREG(status.st_mode) and status.st_size == record.size
                if is_whole and status.st_uid == os.geteuid():
                    file = verify_file(entry, uri, _read_whole(fd, record.size))
                    if abs(time.time() - status.st_mtime) > _TOUCH:
                        with contextlib.suppress(OSError):
                            os.utime(fd)
            finally:
                os.close(fd)
        except FileNotFoundError:
            return None
        except VerificationError:
            pass
        except OSError as error:
            if error.errno != errno.ELOOP:  # which is a link in the file's place
                self._fail(f"Cached content cannot be read: {_reason(error)}. Skills work without it.")
                return None
        if file is None:
            self._drop(path, uri)
        return file

    def size_of(self, skill: SkillId, digest: Digest) -> int | None:
        """How long the content of this digest is, where no entry says so; None when it is not here."""
        with contextlib.suppress(OSError):
            return os.lstat("/".join((self.directory, *skill.cache_path(digest)))).st_size
        return None

    def write(self, skill: SkillId, file: VerifiedFile) -> None:
        """Keep a verified file. Nobody ever sees a part of it: it gets its name when it is complete (K4).

        It is not forced onto the disk: after a power failure, what is read is hashed like anything else.
        """
        if not isinstance(file, VerifiedFile):
            raise TypeError("Only a verified file is cached.")
        if len(file.data) > self.limit:
            return
        server, of_skill, name = skill.cache_path(Digest.of(file.data))
        try:
            os.makedirs(self.directory, 0o700, exist_ok=True)
            _make_private(self.directory)
            self._store(server, of_skill, name, file.data)
        except OSError as error:
            self._fail(
                f"Content cannot be cached: {_reason(error)}. Skills work without it, but are fetched each time."
            )
            return
        self._failure = None
        with self._lock:
            if self._size is None or self._size + len(file.data) > self.limit:
                self._sweep()
            else:
                self._size += len(file.data)

    def forget_server(self, server: ServerLabel) -> None:
        """Remove all that came from this server (K3)."""
        self._remove_servers([server.directory])

    def keep_only(self, scope: str, servers: Iterable[ServerLabel]) -> None:
        """Remove what came from servers that a configuration, the `scope` of their labels, names no more (K3)."""
        kept = {server.directory for server in servers}
        ending = ServerLabel(label="any", scope=scope).directory.rpartition("@")[2]
        gone = [name for name in self._servers() if name.rpartition("@")[2] == ending and name not in kept]
        if gone:
            self._remove_servers(gone)

    def clear(self) -> None:
        """Remove all content. What is in the directory and not the cache's own stays."""
        self._remove_servers(self._servers())

    def usage(self) -> list[CacheUse]:
        """What is held of each server, in the order of their directories' names."""
        found: list[CacheUse] = []
        for server in self._servers():
            files = [file for file in self._files(server) if not file.is_temporary]
            label = visible(_ESCAPE.sub(_unescaped, server.rpartition("@")[0].encode()).decode("utf-8", "replace"))
            skills = len({os.path.dirname(file.path) for file in files})
            size = sum(file.size for file in files)
            found.append(CacheUse(server_directory=server, label=label, skills=skills, files=len(files), size=size))
        return found

    def _store(self, server: str, of_skill: str, name: str, data: bytes) -> None:
        directory = f"{self.directory}/{server}/{of_skill}"
        temporary = f"{directory}/{_TEMPORARY}{secrets.token_hex(8)}"
        for _ in range(_ATTEMPTS):  # another process may remove the directory while it is empty
            with contextlib.suppress(FileNotFoundError):
                fd = os.open(temporary, _WRITE, 0o600)
                break
            with contextlib.suppress(FileNotFoundError):
                _make_private(f"{self.directory}/{server}")
                _make_private(directory)
        else:
            fd = os.open(temporary, _WRITE, 0o600)
        try:
            with open(fd, "wb", buffering=0) as file:
                view = memoryview(data)
                while view:
                    view = view[file.write(view) :]
            os.replace(temporary, f"{directory}/{name}")
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise

    def _servers(self) -> list[str]:
        """The names of directories that hold content of a server."""
        with contextlib.suppress(OSError):
            return sorted(filter(_SERVER.fullmatch, os.listdir(self.directory)))
        return []

    def _files(self, server: str) -> Iterator[_Held]:
        """Every file held of a server. What another process removes meanwhile is passed over."""
        for directory, _, names in os.walk(f"{self.directory}/{server}"):
            for name in names:
                path = f"{directory}/{name}"
                with contextlib.suppress(OSError):
                    status = os.lstat(path)
                    yield _Held(status.st_mtime, status.st_size, path)

    def _sweep(self) -> None:
        """See how much there is. Remove what a writer left behind and, past the limit, what was used longest ago."""
        now = time.time()
        servers = self._servers()
        files = sorted(file for server in servers for file in self._files(server))
        size = sum(file.size for file in files)
        room = self.limit * _KEEP if size > self.limit else self.limit
        for file in files:
            if now - file.used > _ABANDONED if file.is_temporary else size > room:
                with contextlib.suppress(OSError):
                    os.unlink(file.path)
                    size -= file.size
                    os.rmdir(os.path.dirname(file.path))  # when it was the last one
        for server in servers:
            with contextlib.suppress(OSError):
                os.rmdir(f"{self.directory}/{server}")
        self._size = size

    def _remove_servers(self, servers: list[str]) -> None:
        for server in servers:
            try:
                _remove(f"{self.directory}/{server}")
            except OSError as error:
                self._fail(f"Cached content cannot be removed: {_reason(error)}. Remove {server} in it by hand.")
        with self._lock:
            self._size = None

    def _drop(self, path: str, uri: SkillUri) -> None:
        """A mismatch is a miss, and is told (K1)."""
        with contextlib.suppress(OSError):
            _remove(path)
        message = (
            f"The cached copy of {shorten(uri)} is not what was stored. It is not used; the file is fetched again."
        )
        self._report(Problem(subject=visible(path), message=message, rule="K1"))

    def _fail(self, message: str) -> None:
        """Tell of a failure, once for as long as it lasts."""
        if message != self._failure:
            self._failure = message
            self._report(Problem(subject=visible(self.directory), message=message, rule="K4"))


class _Held(NamedTuple):
    """A file in the cache; the one used longest ago comes first."""

    used: float
    size: int
    path: str

    @property
    def is_temporary(self) -> bool:
        return os.path.basename(self.path).startswith(_TEMPORARY)


def _outside_skills(directory: str) -> str:
    """The directory, when no agent can take what is in it for a local skill (K2)."""
    absolute = os.path.abspath(directory)
    for path in (absolute, os.path.realpath(absolute)):
        for segment in path.split(os.sep):
            if segment.casefold() in SCANNED:
                raise ConfigurationError(
                    f'The cache cannot be at {shorten(absolute, 200)}: agents look for skills in "{shorten(segment)}", '
                    "and would take served content for the user's own. Choose another directory.",
                    rule="K2",
                )
    return absolute


def _make_private(directory: str) -> None:
    """A directory that only this user can look into (K2); an `OSError` where that cannot be had."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(directory, 0o700)
    if os.stat(directory).st_mode & 0o077:
        os.chmod(directory, 0o700)


def _read_whole(fd: int, size: int) -> bytes:
    """A file of this size, and one byte more if it grew."""
    data = os.read(fd, size + 1)
    while len(data) < size and (more := os.read(fd, size + 1 - len(data))):
        data += more
    return data


def _remove(path: str) -> None:
    """Remove whatever is there; another process may be doing the same, or putting something in."""
    for attempt in range(_ATTEMPTS):
        try:
            if stat.S_ISDIR(os.lstat(path).st_mode):
                shutil.rmtree(path)
            else:
                os.unlink(path)
        except OSError as error:
            if not os.path.lexists(path):
                return
            if error.errno not in {errno.ENOENT, errno.ENOTEMPTY} or attempt == _ATTEMPTS - 1:
                raise
        else:
            return


def _unescaped(match: re.Match[bytes]) -> bytes:
    return bytes.fromhex(match[1].decode())


def _reason(error: OSError) -> str:
    return (error.strerror or "unknown error").lower()
