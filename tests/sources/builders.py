"""Trees of skills on a real disk, for tests, and what it takes to read them: a clock, a user, a place for bytes."""

from __future__ import annotations

import os
import resource
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from skillquay.core.digests import Digest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skillquay.core.entries import FileRecord

# A tree in memory is made and removed in no time; some disks take a minute for a hundred thousand directories.
IN_MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def skill_text(name: str, body: str = "Body\n", *lines: str) -> str:
    """The text of a good `SKILL.md`."""
    more = "".join(f"{line}\n" for line in lines)
    return f"---\nname: {name}\ndescription: Does it.\n{more}---\n{body}"


def skill(root: Path, path: str, **files: bytes | str) -> Path:
    """A skill's directory; `references__guide_md` is the file `references/guide.md`."""
    directory = root / path
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "SKILL.md").write_text(skill_text(directory.name))
    for name, content in files.items():
        file = directory / name.replace("__", "/").replace("_", ".")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
    return directory


@contextmanager
def open_tree() -> Iterator[Path]:
    """A directory that other users may read, too; pytest's own is private."""
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as name:
        root = Path(os.path.realpath(name))
        root.chmod(0o755)
        yield root


@contextmanager
def ordinary_user() -> Iterator[None]:
    """Root may read everything; be somebody else for a moment."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@contextmanager
def clock_ahead(seconds: float = 1.0) -> Iterator[None]:
    """The machine's clock is ahead of the times in the file system: what was written just now counts as long ago.

    Stamps are only made of files that have not changed for a moment. A test that rewrites a stamped file gives it
    another size, since its time may be the same.
    """
    real = time.time_ns
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "time_ns", lambda: real() + round(seconds * 1e9))
        yield


@contextmanager
def clock_at(nanoseconds: int) -> Iterator[None]:
    """The machine's clock stands still."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "time_ns", lambda: nanoseconds)
        yield


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """No file of this process can grow beyond this size, as if the disk were full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def rewrite_unseen(file: Path, text: str) -> None:
    """Other content of the same size and modification time; only the time of the inode's last change tells."""
    before = file.stat()
    assert len(text.encode()) == before.st_size
    while True:  # until the file system's clock has moved on
        with file.open("r+") as opened:
            opened.write(text)
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
        after = file.stat()
        if after.st_ctime_ns != before.st_ctime_ns:
            break
    assert (after.st_ino, after.st_size, after.st_mtime_ns) == (before.st_ino, before.st_size, before.st_mtime_ns)


class Memory:
    """A place for bytes that never forgets anything."""

    def __init__(self) -> None:
        self.data: dict[Digest, bytes] = {}

    def keep(self, digest: Digest, data: bytes) -> None:
        assert Digest.of(data) == digest
        self.data[digest] = data

    def has(self, record: FileRecord) -> bool:
        return record.digest in self.data
