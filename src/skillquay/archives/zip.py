"""Read the members of a zip archive, strictly: what its two directories of members say must agree, to the byte (I4).

A zip says everything twice, beside the data and at its end, and readers differ in what they believe. Here the members
must fill the archive without gap or overlap, in front of the one central directory that is right before the end, and
nothing in that directory may lead a reader who believes in zip64 to another one.
"""

from __future__ import annotations

import stat
import struct
import zlib
from typing import TYPE_CHECKING, Final, NamedTuple

from skillquay.archives.inflating import DEFLATE, inflate, split
from skillquay.core.hidden import shorten
from skillquay.core.uris import MAX_URI_LENGTH
from skillquay.errors import ArchiveError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skillquay.archives.contents import Contents

__all__ = ["CENTRAL", "CENTRAL_MARK", "DEFLATED", "END", "END_MARK", "IS_UTF_8", "LOCAL", "LOCAL_MARK", "read_zip"]

END: Final = struct.Struct("<4s4H2LH")
END_MARK: Final = b"PK\5\6"
_LONGEST_COMMENT: Final = 0xFFFF
CENTRAL: Final = struct.Struct("<4s6H3L5H2L")
CENTRAL_MARK: Final = b"PK\1\2"
LOCAL: Final = struct.Struct("<4s5H3L2H")
LOCAL_MARK: Final = b"PK\3\4"
_SUMS: Final = struct.Struct("<3L")
_SUMS_MARK: Final = b"PK\7\x08"
_ZIP64_MARKS: Final = (b"PK\6\6", b"PK\6\7")
_FIELD: Final = struct.Struct("<2H")
_LONGEST_FIELDS: Final = 4096

_STORED, DEFLATED = 0, 8
_ENCRYPTED, _SUMS_FOLLOW, IS_UTF_8 = 0x1, 0x8, 0x800
_KNOWN_FLAGS: Final = _SUMS_FOLLOW | IS_UTF_8 | 0x6  # the last two say how hard the packer tried
_NEWEST: Final = 63  # the newest version of the format there is, 6.3
_DOS_DIRECTORY: Final = 0x10
_UNIX, _MACOS = 3, 19  # made there, a member has a mode
_ZIP64: Final = 0x0001
_OTHER_NAME: Final = 0x7075


class _Member(NamedTuple):
    """One member, as the central directory describes it."""

    raw_name: bytes
    name: str
    flags: int
    method: int
    sums: tuple[int, int, int]  # CRC, packed size, size
    made_on: int
    attributes: int
    offset: int

    @property
    def size(self) -> int:
        return self.sums[2]


def read_zip(data: bytes, contents: Contents) -> None:
    """Add every member of the archive."""
    start, end, count = _find_directory(data)
    contents.meter.claim_entries(count)
    members: list[_Member] = []
    at = start
    while at < end:
        contents.meter.count_entry()
        member, at = _parse_central(data, at, end)
        members.append(member)
    if at != end or len(members) != count:
        raise ArchiveError("The central directory of the archive is not as long as it says.")
    places = _places(data, members, start)
    for member in members:
        _add(member, memoryview(data)[places[member.offset]][: member.sums[1]], contents)


def _find_directory(data: bytes) -> tuple[int, int, int]:
    """Where the central directory begins and ends, and how many members it has."""
    ends: list[int] = []
    first = max(0, len(data) - END.size - _LONGEST_COMMENT)
    at = last = data.find(END_MARK, first)
    while at >= 0:
        last = at
        if at + END.size <= len(data) and at + END.size + END.unpack_from(data, at)[-1] == len(data):
            ends.append(at)
        at = data.find(END_MARK, at + 1)
    if not ends:
        raise ArchiveError("The archive is not a zip, is truncated, or has something behind its end.")
    if ends != [last]:
        raise ArchiveError("The archive has two ends, so it could be read in two ways.")
    _, disk, directory_disk, here, count, size, start, _ = END.unpack_from(data, last)
    if count == 0xFFFF or 0xFFFFFFFF in {size, start}:
        raise ArchiveError("The archive is a zip64, which no skill needs.")
    if disk or directory_disk or here != count:
        raise ArchiveError("The archive is one part of several.")
    if start + size != last:
        raise ArchiveError("The central directory of the archive is not right before its end.")
    if any(data.find(mark, start, last) >= 0 for mark in _ZIP64_MARKS):
        raise ArchiveError(
            "The central directory of the archive has a zip64 end in it, so it could be read in two ways."
        )
    return start, last, count


def _parse_central(data: bytes, at: int, end: int) -> tuple[_Member, int]:
    if at + CENTRAL.size > end or not data.startswith(CENTRAL_MARK, at):
        raise ArchiveError("The central directory of the archive is damaged.")
    fields = CENTRAL.unpack_from(data, at)
    _, made_by, version, flags, method, _, _, crc, packed, size, name_length, extra_length, comment_length = fields[:13]
    disk, _, attributes, offset = fields[13:]
    name_at = at + CENTRAL.size
    extra_at = name_at + name_length
    after = extra_at + extra_length + comment_length
    if after > end:
        raise ArchiveError("The central directory of the archive is damaged.")
    if name_length > MAX_URI_LENGTH or extra_length > _LONGEST_FIELDS:
        raise ArchiveError("A member of the archive has a name or fields that are too long.")
    raw_name = data[name_at:extra_at]
    name = _decoded(raw_name, flags)
    shown = shorten(name)
    if comment_length:
        raise ArchiveError(f'"{shown}" has a comment, which no skill needs and in which another archive could hide.')
    if disk:
        raise ArchiveError(f'"{shown}" is in another part of the archive.')
    if flags & _ENCRYPTED:
        raise ArchiveError(f'"{shown}" is encrypted.')
    if flags & ~_KNOWN_FLAGS or version > _NEWEST:
        raise ArchiveError(f'"{shown}" needs something of zip that no skill needs (flags {flags:#06x}).')
    if method not in {_STORED, DEFLATED}:
        raise ArchiveError(f'"{shown}" is compressed in a way that is not taken (method {method}); use deflate.')
    _check_fields(data[extra_at : extra_at + extra_length], shown)
    sums = (crc, packed, size)
    return _Member(raw_name, name, flags, method, sums, made_by >> 8, attributes, offset), after


def _places(data: bytes, members: list[_Member], end: int) -> dict[int, slice]:
    """Where the data of each member is, by the member's offset; together they fill all up to the central directory."""
    places: dict[int, slice] = {}
    ordered = sorted(members, key=lambda member: member.offset)
    expected = 0
    for number, member in enumerate(ordered):
        shown = shorten(member.name)
        if member.offset < expected:
            raise ArchiveError(f'"{shown}" overlaps another member of the archive.')
        if member.offset > expected:
            raise ArchiveError(f'In front of "{shown}" there is something that is no member of the archive.')
        following = ordered[number + 1].offset if number + 1 < len(ordered) else end
        start = _check_local(data, member, end)
        expected = start + member.sums[1]
        if member.flags & _SUMS_FOLLOW:
            expected += _check_sums(data[expected:following], member)
        places[member.offset] = slice(start, expected)
    if expected != end:
        raise ArchiveError("The members and the central directory of the archive overlap, or are not all there is.")
    return places


def _check_local(data: bytes, member: _Member, end: int) -> int:
    """Where the data of a member begins, behind a header that says what the central directory says."""
    shown = shorten(member.name)
    at = member.offset
    if at + LOCAL.size > end or not data.startswith(LOCAL_MARK, at):
        raise ArchiveError(f'"{shown}" is not where the central directory says.')
    _, _, flags, method, _, _, crc, packed, size, name_length, extra_length = LOCAL.unpack_from(data, at)
    name_at = at + LOCAL.size
    extra_at = name_at + name_length
    start: int = extra_at + extra_length
    allowed = {member.sums, (0, 0, 0)} if flags & _SUMS_FOLLOW else {member.sums}
    is_same = data[name_at:extra_at] == member.raw_name and (flags, method) == (member.flags, member.method)
    if not is_same or (crc, packed, size) not in allowed:
        raise ArchiveError(f'"{shown}" is described in two ways, beside its data and in the central directory.')
    if start + member.sums[1] > end:
        raise ArchiveError(f'"{shown}" is not all there.')
    _check_fields(data[extra_at:start], shown)
    return start


def _check_sums(behind: bytes, member: _Member) -> int:
    """How long the sums behind a member's data are, which must be the right ones."""
    sums = _SUMS.pack(*member.sums)
    for form in (_SUMS_MARK + sums, sums):
        if behind == form:
            return len(form)
    raise ArchiveError(f'"{shorten(member.name)}" is not followed by the sums the central directory has.')


def _check_fields(extra: bytes, shown: str) -> None:
    """Extra fields may not say anything of sizes and names."""
    at = 0
    while at + _FIELD.size <= len(extra):
        kind, length = _FIELD.unpack_from(extra, at)
        at += _FIELD.size + length
        if kind in {_ZIP64, _OTHER_NAME} or at > len(extra) or at > _LONGEST_FIELDS:
            raise ArchiveError(f'"{shown}" has a field for a second size or name, or a damaged one.')


def _add(member: _Member, packed: memoryview, contents: Contents) -> None:
    mode = member.attributes >> 16
    kind = stat.S_IFMT(mode)
    has_mode = member.made_on in {_UNIX, _MACOS}
    is_directory = member.name.endswith("/")
    shown = shorten(member.name)
    contents.meter.claim_size(member.name, member.size)
    if kind not in {0, stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK}:
        raise ArchiveError(f'"{shown}" is a device, a FIFO or a socket.')
    if kind == stat.S_IFLNK and not has_mode:
        raise ArchiveError(f'"{shown}" is a link to some tools and a file to others: it was not made on Unix.')
    says_directory = kind == stat.S_IFDIR if kind else is_directory
    if not (kind and has_mode):
        says_directory = says_directory or bool(member.attributes & _DOS_DIRECTORY)
    if says_directory != is_directory:
        raise ArchiveError(f'"{shown}" is both a file and a directory.')
    pieces = _unpacked(member, packed)
    if is_directory:
        for _ in pieces:
            raise ArchiveError(f'"{shown}" is a directory, and yet has content.')
        contents.add_directory(member.name)
    elif kind == stat.S_IFLNK:
        if member.size > MAX_URI_LENGTH:
            raise ArchiveError(f'"{shown}" is a link with a target that is too long.')
        contents.add_symbolic_link(member.name, _decoded(b"".join(pieces), IS_UTF_8))
    else:
        contents.add_file(member.name, pieces, is_executable=has_mode and bool(mode & stat.S_IXUSR))


def _unpacked(member: _Member, packed: memoryview) -> Iterator[bytes]:
    """The bytes of a member, which must be as many as it says and have the sum it says."""
    crc, packed_size, size = member.sums
    stored = member.method == _STORED
    if stored and packed_size != size:
        raise ArchiveError(f'"{shorten(member.name)}" has two sizes in the archive.')
    found_crc = found_size = 0
    for piece in map(bytes, split(packed)) if stored else inflate(split(packed), DEFLATE):
        found_size += len(piece)
        if found_size > size:
            break
        found_crc = zlib.crc32(piece, found_crc)
        yield piece
    if (found_crc, found_size) != (crc, size):
        raise ArchiveError(f'"{shorten(member.name)}" is not what the archive says: its size or its sum is another.')


def _decoded(name: bytes, flags: int) -> str:
    try:
        return name.decode("utf-8" if flags & IS_UTF_8 else "ascii")
    except UnicodeDecodeError:
        shown = shorten(name.decode("utf-8", "replace"))
        raise ArchiveError(f'"{shown}" in the archive is not UTF-8, or does not say that it is.') from None
