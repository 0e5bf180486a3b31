"""Archives byte by byte, so that they can lie where the standard library's writers would not."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

SKILL = b"---\nname: x\ndescription: Does x.\n---\n"
POSIX = b"ustar\x0000"
GNU = b"ustar  \0"
TAR_END = bytes(1024)
REGULAR, DIRECTORY, SYMLINK = 0o100644, 0o040755, 0o120777
SUMS_FOLLOW, UTF_8 = 0x8, 0x800


def tar_member(
    name: str | bytes,
    data: bytes = b"",
    *,
    kind: bytes = b"0",
    link: str | bytes = b"",
    mode: int = 0o644,
    size: int | bytes | None = None,
    magic: bytes = POSIX,
    prefix: bytes = b"",
    owner: bytes = b"0000000\0",
    checksum: int | None = None,
) -> bytes:
    size = len(data) if size is None else size
    fields = [
        _encoded(name).ljust(100, b"\0"),
        b"%07o\0" % mode,
        owner * 2,
        b"%011o\0" % size if isinstance(size, int) else size,
        b"00000000000\0",
        b" " * 8,
        kind,
        _encoded(link).ljust(100, b"\0"),
        magic,
        bytes(80),
        prefix.ljust(155, b"\0"),
    ]
    block = b"".join(fields).ljust(512, b"\0")
    assert len(block) == 512
    total = sum(block) if checksum is None else checksum
    return block[:148] + b"%06o\0 " % total + block[156:] + data + bytes(-len(data) % 512)


def pax(*records: tuple[str, str | bytes], kind: bytes = b"x") -> bytes:
    return tar_member("pax", b"".join(_record(key, _encoded(value)) for key, value in records), kind=kind)


def _record(key: str, value: bytes) -> bytes:
    rest = b" " + key.encode() + b"=" + value + b"\n"
    length = len(rest)
    while length != len(str(length)) + len(rest):
        length = len(str(length)) + len(rest)
    return str(length).encode() + rest


def long_name(name: str, kind: bytes = b"L") -> bytes:
    return tar_member("././@LongLink", name.encode() + b"\0", kind=kind, magic=GNU)


def gzip(data: bytes) -> bytes:
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    return packer.compress(data) + packer.flush()


def tar(*members: bytes, end: bytes = TAR_END) -> bytes:
    """A gzipped tar with a `SKILL.md` in front of these members."""
    return gzip(tar_member("SKILL.md", SKILL) + b"".join(members) + end)


@dataclass(frozen=True, slots=True, kw_only=True)
class Local:
    """What the header beside a member's data says differently."""

    name: bytes | None = None
    flags: int | None = None
    method: int | None = None
    sums: tuple[int, int, int] | None = None
    extra: bytes = b""


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a zip, and what is said of it."""

    name: str | bytes
    data: bytes = b""
    mode: int = REGULAR
    method: int = 8
    flags: int = UTF_8
    attributes: int = 0
    extra: bytes = b""
    disk: int = 0
    version: int = 20
    crc: int | None = None
    size: int | None = None
    packed: bytes | None = None
    packed_size: int | None = None
    offset: int | None = None
    made_by: int = 0x314
    comment: bytes = b""
    behind: bytes = b""
    local: Local = Local()

    def packed_data(self) -> bytes:
        if self.packed is not None:
            return self.packed
        return deflate(self.data) if self.method == 8 else self.data

    def sums(self) -> tuple[int, int, int]:
        crc = zlib.crc32(self.data) if self.crc is None else self.crc
        packed_size = len(self.packed_data()) if self.packed_size is None else self.packed_size
        return crc, packed_size, len(self.data) if self.size is None else self.size

    def beside(self) -> bytes:
        local, name = self.local, _encoded(self.name) if self.local.name is None else self.local.name
        flags = self.flags if local.flags is None else local.flags
        method = self.method if local.method is None else local.method
        sums = self.sums() if local.sums is None else local.sums
        header = struct.pack("<4s5H3L2H", b"PK\3\4", 20, flags, method, 0, 33, *sums, len(name), len(local.extra))
        return header + name + local.extra + self.packed_data() + self.behind

    def central(self, offset: int) -> bytes:
        name = _encoded(self.name)
        header = struct.pack(
            "<4s6H3L5H2L",
            b"PK\1\2",
            self.made_by,
            self.version,
            self.flags,
            self.method,
            0,
            33,
            *self.sums(),
            len(name),
            len(self.extra),
            len(self.comment),
            self.disk,
            0,
            self.mode << 16 | self.attributes,
            offset if self.offset is None else self.offset,
        )
        return header + name + self.extra + self.comment


def deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush()


def zip_end(count: int, size: int, start: int, *, disk: int = 0, comment: bytes = b"") -> bytes:
    return struct.pack("<4s4H2LH", b"PK\5\6", disk, disk, count, count, size, start, len(comment)) + comment


def zip_parts(*members: Member, shift: int = 0) -> tuple[bytes, bytes]:
    """What is in front of the central directory, and the directory; `SKILL.md` is the first member."""
    data, directory = b"", b""
    for member in (Member("SKILL.md", SKILL), *members):
        directory += member.central(shift + len(data))
        data += member.beside()
    return data, directory


def zip_of(*members: Member, count: int | None = None, comment: bytes = b"", disk: int = 0) -> bytes:
    data, directory = zip_parts(*members)
    number = len(members) + 1 if count is None else count
    return data + directory + zip_end(number, len(directory), len(data), disk=disk, comment=comment)


def _encoded(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text
