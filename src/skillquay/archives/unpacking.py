"""Unpack an archive, all or nothing: into memory, or into a directory that is not there before it is whole (I4)."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from typing import TYPE_CHECKING, Final

from skillquay.archives.budgets import BUDGET
from skillquay.archives.contents import Contents
from skillquay.archives.formats import ArchiveFormat
from skillquay.archives.inflating import GZIP, inflate, read_pieces
from skillquay.archives.tar import read_tar
from skillquay.archives.zip import read_zip

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import BinaryIO

    from skillquay.archives.budgets import Allowance, Budget
    from skillquay.archives.contents import PackedFile

__all__ = ["unpack", "unpack_into"]

_NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


def unpack(
    data: bytes | BinaryIO,
    archive_format: ArchiveFormat,
    *,
    budget: Budget = BUDGET,
    allowance: Allowance | None = None,
) -> dict[str, PackedFile]:
    """The files of an archive by their paths, in the order of these; an `ArchiveError` says what is wrong with it.

    Verify the digest of an archive before it is unpacked, where there is one (I13).
    """
    contents = Contents(budget, allowance)
    pieces = read_pieces(data, limit=budget.packed_bytes)
    if archive_format is ArchiveFormat.TAR_GZ:
        read_tar(inflate(pieces, GZIP), contents)
    else:
        read_zip(b"".join(pieces), contents)
    return dict(sorted(contents.files().items()))


def unpack_into(
    data: bytes | BinaryIO, archive_format: ArchiveFormat, directory: str, *, budget: Budget = BUDGET
) -> list[str]:
    """Unpack into a new directory that only its owner can enter, and give the paths of the files.

    An `OSError` says that the directory is there already, or cannot be made; then nothing is left behind.
    """
    _check_new(directory)
    files = unpack(data, archive_format, budget=budget)
    target = os.path.abspath(directory)
    temporary = tempfile.mkdtemp(prefix=".skillquay-", dir=os.path.dirname(target))
    try:
        _write(files, temporary)
        _check_new(directory)
        os.rename(temporary, target)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    return list(files)


def _check_new(directory: str) -> None:
    if os.path.lexists(directory):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), directory)


def _write(files: Mapping[str, PackedFile], directory: str) -> None:
    made = {""}
    for path, file in files.items():
        _make_directory(directory, path.rpartition("/")[0], made)
        mode = 0o755 if file.is_executable else 0o644
        with open(os.open(f"{directory}/{path}", _NEW_FILE, mode), "wb", buffering=0) as out:
            rest = memoryview(file.data)
            while rest:
                rest = rest[out.write(rest) :]


def _make_directory(root: str, path: str, made: set[str]) -> None:
    if path not in made:
        _make_directory(root, path.rpartition("/")[0], made)
        os.mkdir(f"{root}/{path}", 0o755)
        made.add(path)
