"""Pack files into an archive, the same bytes for the same files wherever zlib is the same (I3)."""

from __future__ import annotations

import stat
import struct
import tarfile
import zlib
from typing import TYPE_CHECKING, Final

from skillquay.archives.budgets import BUDGET
from skillquay.archives.contents import Contents, PackedFile
from skillquay.archives.formats import ArchiveFormat
from skillquay.archives.inflating import DEFLATE
from skillquay.archives.zip import CENTRAL, CENTRAL_MARK, DEFLATED, END, END_MARK, IS_UTF_8, LOCAL, LOCAL_MARK

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["LEVEL", "PackedFile", "pack"]

LEVEL: Final = 6
_GZIP_HEADER: Final = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"  # no name, no time, no system
_GZIP_END: Final = struct.Struct("<2L")
_RECORD: Final = 10 * 1024
_EARLIEST: Final = (0, 1 << 5 | 1)  # 1980-01-01, as DOS writes it: there is no earlier time in a zip
_VERSION: Final = 20  # what a reader must understand: deflate, no more
_UNIX: Final = 3 << 8


def pack(files: Mapping[str, PackedFile], archive_format: ArchiveFormat) -> bytes:
    """The archive of these files, by their paths; what `unpack` would refuse is refused here, too."""
    ordered = sorted(_checked(files).items())
    return _pack_tar(ordered) if archive_format is ArchiveFormat.TAR_GZ else _pack_zip(ordered)


def _checked(files: Mapping[str, PackedFile]) -> dict[str, PackedFile]:
    contents = Contents(BUDGET)
    for path, file in files.items():
        contents.meter.count_entry()
        contents.add_file(path, [file.data], is_executable=file.is_executable)
    return contents.files()


def _pack_tar(files: list[tuple[str, PackedFile]]) -> bytes:
    parts: list[bytes] = []
    size = 0
    for path, file in files:
        header = tarfile.TarInfo(path)
        header.size = len(file.data)
        header.mode = _mode(file)
        block = header.tobuf(tarfile.PAX_FORMAT)
        padding = bytes(-len(file.data) % tarfile.BLOCKSIZE)
        parts += (block, file.data, padding)
        size += len(block) + len(file.data) + len(padding)
    parts.append(bytes(2 * tarfile.BLOCKSIZE + -(size + 2 * tarfile.BLOCKSIZE) % _RECORD))
    packer = zlib.compressobj(LEVEL, zlib.DEFLATED, DEFLATE)
    packed = [_GZIP_HEADER]
    crc = size = 0
    for part in parts:
        packed.append(packer.compress(part))
        crc = zlib.crc32(part, crc)
        size += len(part)
    return b"".join([*packed, packer.flush(), _GZIP_END.pack(crc, size)])


def _pack_zip(files: list[tuple[str, PackedFile]]) -> bytes:
    parts: list[bytes] = []
    directory: list[bytes] = []
    at = 0
    for path, file in files:
        packer = zlib.compressobj(LEVEL, zlib.DEFLATED, DEFLATE)
        data = packer.compress(file.data) + packer.flush()
        name = path.encode()
        flags = 0 if path.isascii() else IS_UTF_8
        sums = (zlib.crc32(file.data), len(data), len(file.data))
        said = (_VERSION, flags, DEFLATED, *_EARLIEST, *sums, len(name), 0)
        mode = (stat.S_IFREG | _mode(file)) << 16
        directory += (CENTRAL.pack(CENTRAL_MARK, _UNIX | _VERSION, *said, 0, 0, 0, mode, at), name)
        local = LOCAL.pack(LOCAL_MARK, *said)
        parts += (local, name, data)
        at += len(local) + len(name) + len(data)
    size = sum(map(len, directory))
    return b"".join([*parts, *directory, END.pack(END_MARK, 0, 0, len(files), len(files), size, at, 0)])


def _mode(file: PackedFile) -> int:
    return 0o755 if file.is_executable else 0o644
