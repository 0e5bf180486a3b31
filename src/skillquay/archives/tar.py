"""Read the members of a tar archive, strictly: ustar, GNU long names and pax headers, and no more of it (I4).

The standard library's reader takes extended headers whole into memory, by the size they claim, and lets them override
nearly anything. Here two readers could not disagree: what would be read one way by some and another way by others is
refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final

from skillquay.core.hidden import shorten
from skillquay.errors import ArchiveError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skillquay.archives.contents import Contents

__all__ = ["read_tar"]

_BLOCK: Final = 512
_END: Final = bytes(_BLOCK)
_LONGEST_HEADER: Final = 64 * 1024
_LONGEST_PADDING: Final = 64 * 1024  # archives are filled up to whole records, of 10 KiB unless told
_OCTAL: Final = re.compile(rb" *([0-7]+)[ \0]*")
# A number that is not used must still be one, or nothing, or a large one as GNU writes it: other readers stop there.
_UNUSED: Final = re.compile(rb"[\x80\xff].*|[ \0]*[0-7]*[ \0]*", re.DOTALL)
_UNUSED_FIELDS: Final = (slice(108, 116), slice(116, 124), slice(136, 148), slice(329, 337), slice(337, 345))
_RECORD: Final = re.compile(rb"([1-9][0-9]{0,5}) ([^=]+)=")
_POSIX: Final = b"ustar\x0000"
_GNU: Final = b"ustar  \0"
_UTF_8: Final = "ISO-IR 10646 2000 UTF-8"
_KINDS: Final = {b"3": "a device", b"4": "a device", b"6": "a FIFO", b"S": "a sparse file"}


class _Stream:
    """The inflated archive, taken from its beginning to its end."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._source = pieces
        self._piece = b""
        self._at = 0

    def pieces(self, size: int) -> Iterator[bytes]:
        """The next `size` bytes, as they come."""
        while size:
            if self._at == len(self._piece):
                self._piece, self._at = next(self._source, b""), 0
                if not self._piece:
                    raise ArchiveError("The archive ends early: it is truncated, or has no end mark.")
            part = self._piece[self._at : self._at + size]
            self._at += len(part)
            size -= len(part)
            yield part

    def take(self, size: int) -> bytes:
        """The next `size` bytes; they are in memory only once they are there."""
        return b"".join(self.pieces(size))

    def block(self) -> bytes:
        end = self._at + _BLOCK
        if end > len(self._piece):
            return self.take(_BLOCK)
        block = self._piece[self._at : end]
        self._at = end
        return block

    def skip_padding(self, size: int) -> None:
        """What fills the last block of a member of this size."""
        self.take(-size % _BLOCK)

    def finish(self) -> None:
        """Behind the end mark there is nothing but zeros, and few of them; this also checks the compressed sum."""
        size = 0
        for rest in chain([self._piece[self._at :]], self._source):
            size += len(rest)
            if rest.count(0) != len(rest) or size > _LONGEST_PADDING:
                raise ArchiveError("There is something behind the end mark of the archive.")


@dataclass(slots=True, kw_only=True)
class _Header:
    """One header block: what it says itself."""

    kind: bytes
    name: bytes
    link: bytes
    size: int
    mode: int


@dataclass(slots=True, kw_only=True)
class _Extra:
    """What extended headers say of the member that follows them, each thing at most once."""

    name: bytes | None = None
    link: bytes | None = None
    size: int | None = None
    kinds: set[bytes]


def read_tar(pieces: Iterator[bytes], contents: Contents) -> None:
    """Add every member of the archive."""
    stream = _Stream(pieces)
    extra = _Extra(kinds=set())
    while (block := stream.block()) != _END:
        contents.meter.count_entry()
        header = _parse_header(block)
        if header.kind in {b"x", b"g", b"L", b"K"}:
            _extend(extra, header.kind, _extended(header, stream, contents))
            continue
        _add(header, extra, stream, contents)
        extra = _Extra(kinds=set())
    if extra.kinds:
        raise ArchiveError("The archive ends with an extended header that belongs to nothing.")
    if stream.block() != _END:
        raise ArchiveError("The end mark of the archive is not whole.")
    stream.finish()


def _add(header: _Header, extra: _Extra, stream: _Stream, contents: Contents) -> None:
    name = _text(header.name if extra.name is None else extra.name)
    if extra.size not in {None, header.size}:
        raise ArchiveError(f'"{shorten(name)}" has two sizes in the archive.')
    if extra.link is not None and header.kind not in {b"1", b"2"}:
        raise ArchiveError(f'"{shorten(name)}" has a target in the archive, but is not a link.')
    if header.name.endswith(b"/") and header.kind != b"5":
        raise ArchiveError(f'"{shorten(name)}" is both a file and a directory.')
    if header.kind in {b"0", b"\0"}:
        contents.meter.claim_size(name, header.size)
        contents.add_file(name, stream.pieces(header.size), is_executable=bool(header.mode & 0o100))
        stream.skip_padding(header.size)
        return
    if header.kind not in {b"1", b"2", b"5"}:
        kind = _KINDS.get(header.kind, "neither a file nor a directory nor a link")
        raise ArchiveError(f'"{shorten(name)}" is {kind}.')
    if header.size:
        raise ArchiveError(f'"{shorten(name)}" is a directory or a link, and yet has content.')
    target = _text(header.link if extra.link is None else extra.link)
    if header.kind == b"5":
        contents.add_directory(name)
    elif header.kind == b"1":
        contents.add_hard_link(name, target)
    else:
        contents.add_symbolic_link(name, target)


def _parse_header(block: bytes) -> _Header:
    if sum(block) - sum(block[148:156]) + 8 * 0x20 != _octal(block[148:156]):
        raise ArchiveError("A header of the archive does not have the sum it says: it is damaged, or not a tar.")
    if not all(_UNUSED.fullmatch(block[field]) for field in _UNUSED_FIELDS):
        raise _not_a_number()
    name = _until_nul(block[:100])
    if block[257:265] == _POSIX:
        prefix = _until_nul(block[345:500])
        name = prefix + b"/" + name if prefix else name
    elif block[257:265] != _GNU and any(block[257:265]):
        raise ArchiveError("A header of the archive is of no known kind of tar.")
    elif any(block[345:]):  # times of GNU's own to some readers, and the beginning of the name to others
        raise ArchiveError("A header of the archive has something where only ustar has the beginning of a name.")
    return _Header(
        kind=block[156:157],
        name=name,
        link=_until_nul(block[157:257]),
        size=_octal(block[124:136]),
        mode=_octal(block[100:108]),
    )


def _extended(header: _Header, stream: _Stream, contents: Contents) -> bytes:
    """The content of an extended header, which is small."""
    if header.size > _LONGEST_HEADER:
        raise ArchiveError(f"An extended header of the archive is larger than {_LONGEST_HEADER:,} bytes.")
    contents.meter.count_header(header.size)
    data = stream.take(header.size)
    stream.skip_padding(header.size)
    return data


def _extend(extra: _Extra, kind: bytes, data: bytes) -> None:
    if kind in extra.kinds or (kind == b"g" and extra.kinds):
        raise ArchiveError("A member of the archive has two extended headers of one kind, or a global one in between.")
    extra.kinds.add(kind)
    if kind == b"g":
        if _parse_pax(data) != (None, None, None):
            raise ArchiveError("A global header of the archive would rename or resize all of its members.")
        return
    if kind == b"x":
        name, link, extra.size = _parse_pax(data)
    else:
        if not data.endswith(b"\0"):
            raise ArchiveError("A long name in the archive has no end.")
        text = data[:-1]
        name, link = (text, None) if kind == b"L" else (None, text)
    if (name is not None and extra.name is not None) or (link is not None and extra.link is not None):
        raise ArchiveError("A member of the archive has two long names.")
    extra.name = name if extra.name is None else extra.name
    extra.link = link if extra.link is None else extra.link


def _parse_pax(data: bytes) -> tuple[bytes | None, bytes | None, int | None]:
    """The path, the link's target and the size that a pax header gives; what it says of owners and times is dropped."""
    found: dict[str, bytes] = {}
    at = 0
    while at < len(data):
        start = _RECORD.match(data, at, at + 1024)
        end = at + int(start[1]) if start else 0
        if start is None or not start.end() < end <= len(data) or data[end - 1] != 0x0A:
            raise ArchiveError("A pax header of the archive is malformed.")
        key, value = _text(start[2]), data[start.end() : end - 1]
        if key.startswith(("GNU.", "SCHILY.realsize", "SCHILY.filetype")):
            raise ArchiveError(f'A pax header of the archive has "{shorten(key)}", which no skill needs.')
        if key == "hdrcharset" and value != _UTF_8.encode():
            raise ArchiveError("A pax header of the archive is not in UTF-8.")
        if key in {"path", "linkpath", "size"}:
            if key in found:
                raise ArchiveError(f"A pax header of the archive has {key} twice.")
            found[key] = value
        at = end
    size = found.get("size")
    if size is not None and not re.fullmatch(rb"[0-9]{1,12}", size):
        raise ArchiveError("A pax header of the archive has a size that is not a number.")
    return found.get("path"), found.get("linkpath"), None if size is None else int(size)


def _octal(field: bytes) -> int:
    digits = _OCTAL.fullmatch(field)
    if digits is None:
        raise _not_a_number()
    return int(digits[1], 8)


def _not_a_number() -> ArchiveError:
    return ArchiveError("A header of the archive has a number that is not one, or is huge.")


def _until_nul(field: bytes) -> bytes:
    return field.partition(b"\0")[0]


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        shown = shorten(data.decode("utf-8", "replace"))
        raise ArchiveError(f'"{shown}" in the archive is not UTF-8.') from None
