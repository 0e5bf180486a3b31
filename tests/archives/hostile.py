"""The hostile archives: how each is made, and what is said when it is refused.

`CASES` is the corpus; docs/archives.md shows it as `table()` gives it.
"""

from __future__ import annotations

import io
import struct
import unicodedata
import zlib
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, cast

from skillquay.archives.formats import ArchiveFormat
from tests.archives.raw import (
    DIRECTORY,
    GNU,
    SKILL,
    SUMS_FOLLOW,
    SYMLINK,
    TAR_END,
    Local,
    Member,
    deflate,
    gzip,
    long_name,
    pax,
    tar,
    tar_member,
    zip_end,
    zip_of,
    zip_parts,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import BinaryIO

TAR_GZ, ZIP = ArchiveFormat
MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Case:
    """One archive: `words` are in the reason for which it is refused; `memory` is what that may cost, in MiB."""

    name: str
    archive_format: ArchiveFormat
    title: str
    build: Callable[[], bytes | BinaryIO]
    words: str
    memory: int = 4


def _both(name: str, title: str, in_tar: Callable[[], bytes], in_zip: Callable[[], bytes], words: str) -> list[Case]:
    return [Case(name, TAR_GZ, title, in_tar, words), Case(name, ZIP, title, in_zip, words)]


def _named(name: str, title: str, path: str | bytes, words: str) -> list[Case]:
    def in_tar() -> bytes:
        return tar(tar_member(path, b"evil") if len(path) <= 100 else pax(("path", path)) + tar_member("x", b"evil"))

    return _both(name, title, in_tar, lambda: zip_of(Member(path, b"evil")), words)


def _pair(name: str, title: str, one: str, other: str, words: str) -> list[Case]:
    return _both(
        name,
        title,
        lambda: tar(tar_member(one, b"1"), tar_member(other, b"2")),
        lambda: zip_of(Member(one, b"1"), Member(other, b"2")),
        words,
    )


def _link(name: str, title: str, target: str, words: str, *others: str) -> list[Case]:
    """A link, and others that lead to `SKILL.md`."""
    links = [("docs/link", target), *((other, "../SKILL.md") for other in others)]
    return _both(
        name,
        title,
        lambda: tar(*(tar_member(path, kind=b"2", link=there) for path, there in links)),
        lambda: zip_of(*(Member(path, there.encode(), SYMLINK) for path, there in links)),
        words,
    )


def _tar(name: str, title: str, build: Callable[[], bytes | BinaryIO], words: str, memory: int = 4) -> list[Case]:
    return [Case(name, TAR_GZ, title, build, words, memory)]


def _zip(name: str, title: str, build: Callable[[], bytes | BinaryIO], words: str, memory: int = 4) -> list[Case]:
    return [Case(name, ZIP, title, build, words, memory)]


# Archives that need more than a line.


def repeated(first: bytes, block: bytes, times: int, last: bytes = b"") -> bytes:
    """A gzip of `block` many times over, made without making it: the packed block is repeated, not the bytes."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    head = packer.compress(first) + packer.flush(zlib.Z_FULL_FLUSH)
    packed = packer.compress(block) + packer.flush(zlib.Z_FULL_FLUSH)
    return head + packed * times + packer.compress(last) + packer.flush()


def million_in_tar() -> bytes:
    members = b"".join(tar_member(f"{number}/", kind=b"5") for number in range(1000))
    return repeated(tar_member("SKILL.md", SKILL), members, 1000)


class _Stream(io.RawIOBase):
    """Bytes that are made as they are read."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        piece = next(self._pieces, b"")
        buffer[: len(piece)] = piece
        return len(piece)


def million_in_zip() -> BinaryIO:
    members = b"".join(Member(f"{number}.md", b"").beside() for number in range(1000))
    return io.BufferedReader(_Stream(members for _ in range(1000)), len(members))


def wrapped_count() -> bytes:
    """65,537 members, of which the end counts one: it has two bytes for the number."""
    data, directory = zip_parts()
    directory += Member("a", b"").central(0) * 65_536
    return data + directory + zip_end(1, len(directory), len(data))


def overlapping() -> bytes:
    """A thousand members that are all the same megabyte of data: the bomb without nesting."""
    inner = Member("0.md", size=MIB, crc=zlib.crc32(bytes(MIB)), packed=deflate(bytes(MIB)))
    data, directory = zip_parts(inner)
    at = len(data) - len(inner.beside())
    directory += b"".join(replace(inner, name=f"{number}.md").central(at) for number in range(1, 1000))
    return data + directory + zip_end(1001, len(directory), len(data))


def nested_headers() -> bytes:
    """Members inside of each other: the data of one is the header and the data of the next."""
    kernel = Member("9.md", b"x" * 1000, method=0)
    chain, at = kernel.beside(), []
    for number in range(8, 0, -1):
        outer = Member(f"{number}.md", chain, method=0)
        at.append((outer, len(outer.beside()) - len(chain)))
        chain = outer.beside()
    skill, directory = zip_parts()
    place = len(skill)
    for outer, step in reversed(at):
        directory += outer.central(place)
        place += step
    directory += kernel.central(place)
    return skill + chain + directory + zip_end(10, len(directory), len(skill) + len(chain))


def two_directories() -> bytes:
    data, directory = zip_parts(Member("good.md", b"good"))
    first = data + directory + zip_end(2, len(directory), len(data))
    more, other = zip_parts(Member("evil.md", b"evil"), shift=len(first))
    return first + more + other + zip_end(2, len(other), len(first) + len(more))


def two_ends() -> bytes:
    """The first end has the second one for its comment."""
    data, directory = zip_parts()
    second = zip_end(1, len(directory), len(data))
    return data + directory + zip_end(1, len(directory), len(data), comment=second)


def prepended(shift: int) -> bytes:
    junk = b"#!/bin/sh\necho evil\n"
    data, directory = zip_parts(shift=shift and len(junk))
    return junk + data + directory + zip_end(1, len(directory), len(data) + (shift and len(junk)))


def zip64_end() -> bytes:
    data, directory = zip_parts()
    record = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, 1, 1, len(directory), len(data))
    locator = struct.pack("<4sLQL", b"PK\6\7", 0, len(data) + len(directory), 1)
    return data + directory + record + locator + zip_end(0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF)


def zip64_hidden() -> bytes:
    """An end that needs no zip64, and a zip64 record in front of it that says something else."""
    data, directory = zip_parts()
    record = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, 9, 9, len(directory), 0)
    locator = struct.pack("<4sLQL", b"PK\6\7", 0, len(data) + len(directory), 1)
    return data + directory + record + locator + zip_end(1, len(directory), len(data))


def zip64_inside(place: str) -> bytes:
    """A second directory and the zip64 end that leads to it, in the comment or a field of the last member.

    The standard library then reads another `SKILL.md`, whose data is the content of `blob.bin`.
    """
    other = Member("SKILL.md", SKILL + b"Evil.", method=0)
    last = Member("blob.bin", other.beside(), method=0)
    data, directory = zip_parts(last)
    inner = other.central(len(data) - len(last.data))
    at = len(data) + len(directory) + (4 if place == "field" else 0)
    record = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, 1, 1, len(inner), at)
    locator = struct.pack("<4sLQL", b"PK\6\7", 0, at + len(inner), 1)
    hidden = inner + record + locator
    if place == "field":
        return zip_of(replace(last, extra=struct.pack("<2H", 0x9999, len(hidden)) + hidden))
    return zip_of(replace(last, comment=hidden))


def zip64_field() -> bytes:
    return struct.pack("<2HQ", 1, 8, 1 << 40)


def other_name() -> bytes:
    return struct.pack("<2HBL", 0x7075, 5 + 7, 1, zlib.crc32(b"good.md")) + b"evil.md"


def damaged(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]


def many_files(count: int) -> tuple[bytes, bytes]:
    names = [f"{number}.md" for number in range(count)]
    return tar(*(tar_member(name) for name in names)), zip_of(*(Member(name) for name in names))


def two_halves() -> bytes:
    """10 MiB, and the header of 10 MiB more: neither is too large alone."""
    return tar(tar_member("a.bin", bytes(10 * MIB)), tar_member("b.bin", size=10 * MIB))


@cache
def zeros(size: int) -> bytes:
    return deflate(bytes(size))


def ten_mib() -> Member:
    size = 10 * MIB
    return Member("", crc=zlib.crc32(bytes(size)), size=size, packed=zeros(size))


def linked_again(count: int) -> bytes:
    data = bytes(MIB)
    links = (tar_member(f"{number}.bin", kind=b"1", link="0.bin") for number in range(1, count))
    return tar(tar_member("0.bin", data), *links)


def _hard(target: str, data: bytes = b"") -> bytes:
    return tar_member("link", data, kind=b"1", link=target)


def _pax(data: bytes) -> bytes:
    return tar_member("pax", data, kind=b"x") + tar_member("a")


def _local(**said: Any) -> bytes:
    return zip_of(Member("good.md", b"good", local=Local(**said)))


def _unended() -> bytes:
    return tar_member("././@LongLink", b"evil.md", kind=b"L", magic=GNU)


def _late() -> BinaryIO:
    return cast("BinaryIO", _Stream(iter([tar(), b"evil"])))


def _raw(packed: bytes, size: int) -> Member:
    return Member("a", crc=0, size=size, packed=packed)


def _alone(member: Member) -> bytes:
    data, directory = member.beside(), member.central(0)
    return data + directory + zip_end(1, len(directory), len(data))


def _damaged_directory() -> bytes:
    data, directory = zip_parts()
    return data + b"EVIL" + directory[4:] + zip_end(1, len(directory), len(data))


def _overrun() -> bytes:
    data, directory = zip_parts()
    return data + directory[:28] + b"\xff\x00" + directory[30:] + zip_end(1, len(directory), len(data))


GOOD = Member("good.md", b"good")
NFC, NFD = unicodedata.normalize("NFC", "é.md"), unicodedata.normalize("NFD", "é.md")
DEVICES = {"character device": b"3", "block device": b"4", "FIFO": b"6"}
ZIP_DEVICES = {"character device": 0o020644, "block device": 0o060644, "FIFO": 0o010644, "socket": 0o140644}

CASES: list[Case] = [
    # Paths.
    *_named("traversal", "`../evil.md`", "../evil.md", "walks up"),
    *_named("traversal-inside", "`docs/../../evil.md`", "docs/../../evil.md", "walks up"),
    *_named("traversal-behind-dot", "`./../evil.md`", "./../evil.md", "walks up"),
    *_named(
        "traversal-normalised", "`．．/evil.md`, dots that NFKC makes plain", "．．/evil.md", "once it is normalised"
    ),
    *_named("slash-normalised", "a letter that NFKC makes a slash", "docs／evil.md", "once it is normalised"),
    *_named("absolute", "`/etc/evil`", "/etc/evil", "absolute path"),
    *_named("absolute-twice", "`//server/share/evil`", "//server/share/evil", "absolute path"),
    *_named("backslash", r"`..\evil.md`", "..\\evil.md", "backslash"),
    *_named("unc", r"`\\server\share\evil`", "\\\\server\\share\\evil", "backslash"),
    *_named("drive", "`C:/evil.md`", "C:/evil.md", "on a drive"),
    *_named("drive-relative", "`c:evil.md`", "c:evil.md", "on a drive"),
    *_named("stream", "`SKILL.md:evil`, an NTFS stream", "SKILL.md:evil", "on Windows"),
    *_named("device-name", "`docs/NUL.md`, a device on Windows", "docs/NUL.md", "on Windows"),
    *_named("trailing-dot", "`SKILL.md.`, which Windows reads as `SKILL.md`", "SKILL.md.", "on Windows"),
    *_named("trailing-space", "`docs /evil.md`", "docs /evil.md", "on Windows"),
    *_named("empty-segment", "`docs//evil.md`", "docs//evil.md", "empty"),
    *_named("dot-segment", "`docs/./evil.md`", "docs/./evil.md", "segment"),
    *_tar("file-with-slash", "`evil.md/` that is a file", lambda: tar(tar_member("evil.md/")), "both a file and a"),
    *_tar(
        "pax-of-a-directory",
        "a pax path for a file that looks like a directory",
        lambda: tar(pax(("path", "evil.md")), tar_member("d/", b"evil", kind=b"\0")),
        "both a file and a directory",
    ),
    *_zip("file-with-slash", "`evil.md/` that is a file", lambda: zip_of(Member("evil.md/")), "both a file and a"),
    *_named("no-name", "a member without a name", "", "empty"),
    *_tar(
        "root-is-a-file",
        "`./` that is a file",
        lambda: tar(pax(("path", "./")), tar_member("a")),
        "but not a directory",
    ),
    *_zip("root-is-a-file", "`.` that is a file", lambda: zip_of(Member(".")), "but not a directory"),
    *_named("control", "a line break in a name", "evil\n.md", "cannot be given a URI"),
    *_named("escape", "a terminal's escape sequence in a name", "\x1b[2Jevil.md", "cannot be given a URI"),
    *_named("not-utf-8", "a name that is not UTF-8", b"evil\xff.md", "not UTF-8"),
    *_named("surrogate", "half a character, encoded as if it were one", b"evil\xed\xa0\x80.md", "not UTF-8"),
    *_named("long-name", "a name of 300 characters", "e" * 300, "255 bytes"),
    *_named("long-path", "a path that no URI can carry", "/".join(["e" * 250] * 16) + "/" + "ü" * 39, "given a URI"),
    *_zip("huge-name", "a name of 60,000 bytes", lambda: zip_of(Member("e" * 60_000)), "too long"),
    *_tar("huge-name", "a name of 60,000 bytes", lambda: tar(long_name("e" * 60_000), tar_member("x")), "255 bytes"),
    *_named("deep", "33 directories", "d/" * 33 + "evil.md", "directories deep"),
    *_tar("nul", "a NUL in a pax path", lambda: tar(pax(("path", "a\0b")), tar_member("x")), "cannot be given a URI"),
    *_zip("nul", "a NUL in a name", lambda: zip_of(Member("good.md\0.sh")), "cannot be given a URI"),
    *_zip(
        "unflagged",
        "a name in CP437 or UTF-8 that does not say which",
        lambda: zip_of(Member("\xe9.md".encode(), flags=0)),
        "does not say that it is",
    ),
    # Names that fall together.
    *_pair("case", "`docs/a.md` and `docs/A.md`", "docs/a.md", "docs/A.md", "are one path"),
    *_pair("case-skill-md", "a `skill.md` beside `SKILL.md`", "skill.md", "b.md", "are one path"),
    *_pair("case-directory", "`docs/a.md` and `Docs/b.md`", "docs/a.md", "Docs/b.md", "are one path"),
    *_pair("case-folded", "`straße.md` and `STRASSE.md`", "straße.md", "STRASSE.md", "are one path"),
    *_pair("nfc-nfd", "one accented name, composed and decomposed", NFC, NFD, "are one path"),
    *_pair("nfkc", "`file.md` and `ﬁle.md` with a ligature", "file.md", "ﬁle.md", "are one path"),
    *_pair("twice", "`SKILL.md` twice", "SKILL.md", "b.md", "twice"),
    *_pair("twice-dot", "`a.md` and `./a.md`", "a.md", "./a.md", "twice"),
    *_pair("file-is-directory", "`a` and `a/b.md`", "a", "a/b.md", "both a file and a directory"),
    *_pair("directory-is-file", "`a/b.md` and `a`", "a/b.md", "a", "both a file and a directory"),
    # Links and other things that are not files.
    *_link("symlink-escape", "a symbolic link to `../../etc/passwd`", "../../etc/passwd", "leaves the skill"),
    *_link("symlink-absolute", "a symbolic link to `/etc/passwd`", "/etc/passwd", "absolute path"),
    *_link("symlink-backslash", r"a symbolic link to `..\..\evil`", "..\\..\\evil", "backslash"),
    *_link("symlink-drive", "a symbolic link to `C:/Windows`", "C:/Windows", "on a drive"),
    *_link("symlink-directory", "a symbolic link to the skill's directory", "..", "leads to no file"),
    *_link("symlink-loop", "a symbolic link to itself", "link", "leads to no file"),
    *_link("symlink-nowhere", "a symbolic link to nothing", "nothing.md", "leads to no file"),
    *_zip(
        "symlink-of-dos",
        "a symbolic link that says it was made where there are none",
        lambda: zip_of(Member("a", b"SKILL.md", SYMLINK, made_by=20)),
        "a link to some tools and a file to others",
    ),
    *_zip(
        "symlink-long",
        "a symbolic link with a target of 5,000 bytes",
        lambda: zip_of(Member("a", b"b" * 5000, SYMLINK)),
        "target that is too long",
    ),
    *_both(
        "symlink-nul",
        "a symbolic link with a NUL in its target",
        lambda: tar(pax(("linkpath", "SKILL.md\0x")), tar_member("a", kind=b"2")),
        lambda: zip_of(Member("a", b"SKILL.md\0x", SYMLINK)),
        "leads to no file",
    ),
    *_both(
        "through-symlink",
        "a link to a directory elsewhere, then a file below it",
        lambda: tar(tar_member("d", kind=b"2", link="/tmp"), tar_member("d/evil.md", b"evil")),
        lambda: zip_of(Member("d", b"/tmp", SYMLINK), Member("d/evil.md", b"evil")),
        "absolute path",
    ),
    *_both(
        "through-inner-symlink",
        "a link to a directory of the skill, then a file below it",
        lambda: tar(tar_member("d", kind=b"2", link="docs"), tar_member("d/evil.md", b"evil")),
        lambda: zip_of(Member("d", b"docs", SYMLINK), Member("d/evil.md", b"evil")),
        "both a file and a directory",
    ),
    *_tar("hardlink-escape", "a hard link to `../evil.md`", lambda: tar(_hard("../evil.md")), "leaves the skill"),
    *_tar("hardlink-absolute", "a hard link to `/etc/passwd`", lambda: tar(_hard("/etc/passwd")), "absolute path"),
    *_tar("hardlink-nowhere", "a hard link to nothing", lambda: tar(_hard("nothing.md")), "leads to no file"),
    *_tar(
        "hardlink-to-link",
        "a hard link to a link",
        lambda: tar(tar_member("a", kind=b"2", link="SKILL.md"), _hard("a")),
        "leads to no file",
    ),
    *_tar(
        "hardlink-forward",
        "a hard link to a file that comes later",
        lambda: tar(_hard("later.md"), tar_member("later.md")),
        "leads to no file",
    ),
    *_link("symlink-to-link", "a symbolic link to a symbolic link", "link2", "leads to no file", "docs/link2"),
    *_tar("link-with-content", "a link with content", lambda: tar(_hard("SKILL.md", b"evil")), "and yet has content"),
    *(
        case
        for what, kind in DEVICES.items()
        for case in _tar(
            what.replace(" ", "-"), f"a {what}", partial(lambda k: tar(tar_member("d", kind=k)), kind), "is a"
        )
    ),
    *(
        case
        for what, mode in ZIP_DEVICES.items()
        for case in _zip(
            what.replace(" ", "-"),
            f"a {what}",
            partial(lambda m: zip_of(Member("d", b"", m)), mode),
            "a device, a FIFO",
        )
    ),
    *_tar("unknown-type", "a member of a type nobody knows", lambda: tar(tar_member("d", kind=b"Z")), "neither a file"),
    *_tar("multi-volume", "the rest of a file of another volume", lambda: tar(tar_member("d", kind=b"M")), "neither"),
    *_zip("directory-mode", "a file that says it is a directory", lambda: zip_of(Member("d", b"x", DIRECTORY)), "both"),
    *_zip("directory-dos", "the same in the way of DOS", lambda: zip_of(Member("d", b"", 0, attributes=16)), "both"),
    *_zip(
        "directory-of-dos",
        "the same of a file with a mode that is none on DOS",
        lambda: zip_of(Member("d", b"", attributes=16, made_by=20)),
        "both",
    ),
    *_zip(
        "directory-content", "a directory with content", lambda: zip_of(Member("d/", b"x", DIRECTORY)), "has content"
    ),
    *_tar(
        "directory-content",
        "a directory with content",
        lambda: tar(tar_member("d/", b"x", kind=b"5")),
        "has content",
    ),
    # Bombs, and what would be one.
    *_tar(
        "bomb",
        "a file of 1 GiB in 1 MB, whose header says so",
        lambda: repeated(tar_member("SKILL.md", SKILL) + tar_member("b", size=1 << 30), bytes(MIB), 1024),
        "larger than 16,777,216 bytes",
    ),
    *_tar(
        "bomb-of-halves",
        "two files of 10 MiB, each within the limit",
        two_halves,
        "holds more than 16,777,216 bytes",
        memory=40,
    ),
    *_zip(
        "bomb",
        "a file of 64 MiB in 64 KB, whose header says so",
        lambda: zip_of(Member("b", crc=0, size=64 * MIB, packed=zeros(64 * MIB))),
        "larger than 16,777,216 bytes",
    ),
    *_zip(
        "bomb-that-lies",
        "a file of 64 MiB whose headers say 1,000 bytes",
        lambda: zip_of(Member("b", crc=0, size=1000, packed=zeros(64 * MIB))),
        "its size or its sum",
    ),
    *_zip(
        "bomb-of-halves",
        "two files of 10 MiB, each within the limit",
        lambda: zip_of(*(replace(ten_mib(), name=name) for name in "ab")),
        "holds more than 16,777,216 bytes",
        memory=40,
    ),
    *_tar("bomb-of-links", "17 links to one file of 1 MiB", lambda: linked_again(17), "holds more than", memory=40),
    *_tar(
        "bomb-behind-the-end",
        "1 GiB of zeros behind the end mark",
        lambda: repeated(tar_member("SKILL.md", SKILL) + TAR_END, bytes(MIB), 1024),
        "behind the end mark",
    ),
    *_tar("million", "1,000,000 directories", million_in_tar, "more than 2,048 members"),
    *_zip("million", "1,000,000 empty files", million_in_zip, "larger than 33,554,432 bytes", memory=100),
    *_zip("count-wrapped", "65,537 members, of which the end counts one", wrapped_count, "more than 2,048 members"),
    *_zip("count-huge", "an end that counts 60,000 members", lambda: zip_of(count=60_000), "more than 2,048 members"),
    *_zip("count-lies", "an end that counts one member too many", lambda: zip_of(count=2), "not as long as it says"),
    *_both(
        "many-files", "513 files more", lambda: many_files(513)[0], lambda: many_files(513)[1], "more than 512 files"
    ),
    *_zip("overlapping", "1,000 members that share one megabyte of data", overlapping, "overlaps"),
    *_zip("overlapping-nested", "members whose data are the next members", nested_headers, "overlaps"),
    # Two ways to read one archive.
    *_zip("two-directories", "a zip behind a zip", two_directories, "is no member"),
    *_zip("two-ends", "an end whose comment is another end", two_ends, "two ends"),
    *_zip("prepended", "a program in front of the first member", lambda: prepended(1), "is no member"),
    *_zip("prepended-unshifted", "the same, and no offset knows of it", lambda: prepended(0), "not right before"),
    *_zip("appended", "something behind the end", lambda: zip_of() + b"evil", "behind its end"),
    *_zip("gap", "something between two members", lambda: zip_of(Member("a", behind=b"evil"), GOOD), "is no member"),
    *_zip("gap-at-end", "something in front of the directory", lambda: zip_of(Member("a", behind=b"evil")), "not all"),
    *_zip("local-name", "another name beside the data", lambda: _local(name=b"evil.md"), "in two ways"),
    *_zip("local-size", "another size beside the data", lambda: _local(sums=(0, 6, 99)), "in two ways"),
    *_zip("local-method", "another method beside the data", lambda: _local(method=0), "in two ways"),
    *_zip("local-flags", "other flags beside the data", lambda: _local(flags=0), "in two ways"),
    *_zip("local-missing", "no header beside the data", lambda: zip_of(Member("a", offset=1)), "overlaps"),
    *_zip(
        "local-elsewhere", "an offset behind the archive", lambda: zip_of(Member("a", offset=1 << 30)), "is no member"
    ),
    *_zip(
        "sums-behind",
        "wrong sums behind the data",
        lambda: zip_of(Member("a", b"x", flags=SUMS_FOLLOW, behind=bytes(12), local=Local(sums=(0, 0, 0)))),
        "not followed by the sums",
    ),
    *_zip("second-name", "a field with a second name", lambda: zip_of(Member("good.md", extra=other_name())), "second"),
    *_zip("second-name-local", "the same beside the data", lambda: _local(extra=other_name()), "second"),
    *_zip("zip64", "a zip64 archive", zip64_end, "zip64"),
    *_zip("zip64-hidden", "a zip64 end in front of an end that needs none", zip64_hidden, "not right before"),
    *_zip("zip64-in-comment", "a second directory in a member's comment", lambda: zip64_inside("comment"), "zip64 end"),
    *_zip("zip64-in-field", "a second directory in a member's field", lambda: zip64_inside("field"), "zip64 end"),
    *_zip("member-comment", "a comment on one member", lambda: zip_of(Member("a", comment=b"evil")), "has a comment"),
    *_zip("zip64-size", "a zip64 size of 1 TiB", lambda: zip_of(Member("a", extra=zip64_field())), "second size"),
    *_zip("zip64-size-local", "the same beside the data", lambda: _local(extra=zip64_field()), "second size"),
    *_zip("long-fields", "64 KB of fields", lambda: zip_of(Member("a", extra=bytes(65_000))), "too long"),
    *_zip("long-fields-local", "the same beside the data", lambda: _local(extra=bytes(65_000)), "or a damaged one"),
    *_zip("field-overrun", "a field longer than all fields", lambda: _local(extra=b"\x99\x99\xff\xff"), "damaged"),
    *_zip("encrypted", "an encrypted member", lambda: zip_of(Member("a", b"x", flags=1)), "encrypted"),
    *_zip("masked", "a masked central directory", lambda: zip_of(Member("a", flags=0x2000)), "no skill needs"),
    *_zip("version", "a zip of the far future", lambda: zip_of(Member("a", version=99)), "no skill needs"),
    *_zip("method", "a member packed with LZMA", lambda: zip_of(Member("a", method=14)), "method 14"),
    *_zip("multi-disk", "one part of several", lambda: zip_of(disk=1), "one part of several"),
    *_zip("other-disk", "a member in another part", lambda: zip_of(Member("a", disk=3)), "another part"),
    *_tar("pax-path", "a pax path that walks", lambda: tar(pax(("path", "../e")), tar_member("good.md")), "walks up"),
    *_tar(
        "pax-link",
        "a pax target that leaves the skill",
        lambda: tar(pax(("linkpath", "../e")), tar_member("a", kind=b"2", link="SKILL.md")),
        "leaves the skill",
    ),
    *_tar(
        "pax-link-of-a-file",
        "a pax target for a file",
        lambda: tar(pax(("linkpath", "SKILL.md")), tar_member("a")),
        "is not a link",
    ),
    *_tar(
        "pax-size", "a pax size that is another", lambda: tar(pax(("size", "5")), tar_member("a", b"x")), "two sizes"
    ),
    *_tar("pax-size-form", "a pax size of `-1`", lambda: tar(pax(("size", "-1")), tar_member("a")), "not a number"),
    *_tar("pax-path-twice", "two pax paths", lambda: tar(pax(("path", "a"), ("path", "b")), tar_member("c")), "twice"),
    *_tar(
        "pax-huge",
        "a pax header of 1 GiB",
        lambda: repeated(tar_member("SKILL.md", SKILL) + tar_member("p", kind=b"x", size=1 << 30), bytes(MIB), 1024),
        "larger than 65,536 bytes",
    ),
    *_tar(
        "pax-many",
        "100 pax headers of 60 KB",
        lambda: tar(*(pax(("comment", "c" * 60_000)) + tar_member(f"{number}") for number in range(100))),
        "extended headers of the archive exceed",
        memory=20,
    ),
    *_tar("pax-malformed", "a pax record longer than its header", lambda: tar(_pax(b"99 path=a\n")), "malformed"),
    *_tar("pax-unended", "a pax record without its end", lambda: tar(_pax(b"9 path=ab")), "malformed"),
    *_tar("pax-no-length", "a pax record without a length", lambda: tar(_pax(b"path=a\n")), "malformed"),
    *_tar(
        "pax-charset", "pax in another encoding", lambda: tar(pax(("hdrcharset", "BINARY")), tar_member("a")), "UTF-8"
    ),
    *_tar(
        "pax-sparse",
        "a sparse file in the way of pax",
        lambda: tar(pax(("GNU.sparse.major", "1"), ("GNU.sparse.name", "evil.md")), tar_member("a")),
        "GNU.sparse.major",
    ),
    *_tar(
        "pax-filetype",
        "a type in a pax header",
        lambda: tar(pax(("SCHILY.filetype", "socket")), tar_member("a")),
        "SCHILY.filetype",
    ),
    *_tar("pax-global", "a path for all", lambda: tar(pax(("path", "e"), kind=b"g"), tar_member("a")), "global header"),
    *_tar("pax-chain", "two pax headers", lambda: tar(pax(("path", "a")) * 2, tar_member("b")), "of one kind"),
    *_tar("pax-global-last", "a global header at the end", lambda: tar(pax(("comment", "c"), kind=b"g")), "to nothing"),
    *_tar(
        "pax-global-between",
        "a global header between a pax header and its member",
        lambda: tar(pax(("path", "e")), pax(("comment", "c"), kind=b"g"), tar_member("a")),
        "a global one in between",
    ),
    *_tar("pax-last", "a pax header at the end", lambda: tar(pax(("path", "a"))), "belongs to nothing"),
    *_tar("gnu-path", "a GNU long name that walks", lambda: tar(long_name("../e"), tar_member("good.md")), "walks up"),
    *_tar(
        "gnu-link",
        "a GNU long target that leaves the skill",
        lambda: tar(long_name("../../e", b"K"), tar_member("a", kind=b"2", link="SKILL.md")),
        "leaves the skill",
    ),
    *_tar("gnu-chain", "a thousand long names", lambda: tar(long_name("a") * 1000, tar_member("b")), "of one kind"),
    *_tar(
        "gnu-and-pax",
        "a GNU and a pax name",
        lambda: tar(long_name("a"), pax(("path", "b")), tar_member("c")),
        "two long names",
    ),
    *_tar("gnu-nul", "a long name with a NUL in it", lambda: tar(long_name("a\0b"), tar_member("c")), "given a URI"),
    *_tar(
        "gnu-sparse", "a sparse file in the way of GNU", lambda: tar(tar_member("a", kind=b"S", magic=GNU)), "sparse"
    ),
    *_tar(
        "gnu-prefix",
        "the prefix of ustar in a header of GNU",
        lambda: tar(tar_member("a", magic=GNU, prefix=b"..")),
        "where only ustar has",
    ),
    *_tar(
        "no-magic-prefix",
        "the same in one of neither",
        lambda: tar(tar_member("a", magic=bytes(8), prefix=b"..")),
        "ustar",
    ),
    *_tar("size-binary", "a size in 96 bits", lambda: tar(tar_member("a", size=b"\x80" + b"\xff" * 11)), "not one"),
    *_tar("size-negative", "a size of -1", lambda: tar(tar_member("a", size=b"-0000000001\0")), "not one"),
    *_tar("gnu-unended", "a long name without its end", lambda: tar(_unended(), tar_member("c")), "has no end"),
    *_tar("owner", "an owner who is no number", lambda: tar(tar_member("a", owner=b"evil\0\0\0\0")), "not one"),
    *_tar("checksum", "a header with another sum", lambda: tar(tar_member("a", checksum=1)), "damaged"),
    *_tar("magic", "a header of no known kind", lambda: tar(tar_member("a", magic=b"evilevil")), "no known kind"),
    *_tar("prefix", "a prefix that walks", lambda: tar(tar_member("a", prefix=b"..")), "walks up"),
    *_tar("gzip-twice", "a second gzip behind the first", lambda: tar() + tar(), "behind the end of the archive's"),
    *_tar("gzip-trailing", "something behind the gzip", lambda: tar() + b"evil", "behind the end of the archive's"),
    *_tar("gzip-trailing-late", "the same, in a stream that pauses", _late, "behind the end of the archive's"),
    *_tar(
        "tar-trailing", "a tar behind the end mark", lambda: tar(end=TAR_END + tar_member("e")), "behind the end mark"
    ),
    *_tar("tar-half-end", "half an end mark", lambda: tar(end=bytes(512) + tar_member("e")), "is not whole"),
    # What is not whole, or not a skill.
    *_tar("truncated", "the gzip cut in the middle", lambda: tar()[:-12], "ends early"),
    *_tar("truncated-sum", "the gzip without its last byte", lambda: tar()[:-1], "ends early"),
    *_tar("truncated-tar", "a file shorter than its header says", lambda: tar(tar_member("a", size=9)), "ends early"),
    *_tar("no-end", "a tar without its end mark", lambda: tar(end=b""), "no end mark"),
    *_tar("sum", "a byte of the gzip's sum changed", lambda: damaged(tar(), -6), "damaged"),
    *_tar("not-gzip", "a zip that says it is a tar", zip_of, "of another format"),
    *_tar(
        "plain-tar", "a tar that is not compressed", lambda: tar_member("SKILL.md", SKILL) + TAR_END, "another format"
    ),
    *_zip("truncated", "the zip cut in the middle", lambda: zip_of(GOOD)[:-40], "truncated"),
    *_zip("truncated-end", "the zip without its last byte", lambda: zip_of()[:-1], "truncated"),
    *_zip("truncated-data", "data that ends early", lambda: zip_of(_raw(deflate(b"x" * 999)[:-2], 999)), "ends early"),
    *_zip("data-behind", "data that goes on", lambda: zip_of(_raw(deflate(b"x") + b"evil", 1)), "behind the end"),
    *_zip("data-damaged", "data that is not deflate", lambda: zip_of(_raw(b"\xff\xff\xff", 1)), "damaged"),
    *_zip(
        "stored-size", "stored data with two sizes", lambda: zip_of(Member("a", b"x", method=0, size=5)), "two sizes"
    ),
    *_zip("size-packed", "data beyond the archive", lambda: zip_of(Member("a", packed_size=999)), "not all there"),
    *_zip("sum", "another sum than that of the data", lambda: zip_of(Member("a", b"x", crc=7)), "its size or its sum"),
    *_zip("size-short", "less data than it says", lambda: zip_of(Member("a", b"x", size=2)), "its size or its sum"),
    *_zip("directory-damaged", "a damaged directory", _damaged_directory, "is damaged"),
    *_zip("directory-overrun", "a name longer than the directory", _overrun, "is damaged"),
    *_zip("not-zip", "a tar that says it is a zip", tar, "not a zip"),
    *_tar("empty", "no bytes at all", lambda: b"", "ends early"),
    *_zip("empty", "no bytes at all", lambda: b"", "not a zip"),
    *_both(
        "no-members",
        "an archive of nothing",
        lambda: gzip(TAR_END),
        lambda: zip_end(0, 0, 0),
        "no SKILL.md at its root",
    ),
    *_both(
        "not-at-root",
        "`x/SKILL.md` and none at the root",
        lambda: gzip(tar_member("x/SKILL.md", SKILL) + TAR_END),
        lambda: _alone(Member("x/SKILL.md", SKILL)),
        "no SKILL.md at its root",
    ),
    *_both(
        "skill-md-directory",
        "a `SKILL.md` that is a directory",
        lambda: gzip(tar_member("SKILL.md/", kind=b"5") + TAR_END),
        lambda: _alone(Member("SKILL.md/", b"", DIRECTORY)),
        "no SKILL.md at its root",
    ),
]


def table() -> str:
    """Every case, in Markdown: what is in the archive, and what the refusal says."""
    rows = [f"| `{case.name}` | {case.archive_format} | {case.title} | {case.words} |" for case in CASES]
    return "\n".join(["| case | format | what is in it | refused with |", "|---|---|---|---|", *rows]) + "\n"
