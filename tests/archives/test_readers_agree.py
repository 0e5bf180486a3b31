"""Whatever damaged archive is still accepted, the standard library reads the same files out of it."""

from __future__ import annotations

import io
import random
import stat
import struct
import tarfile
import zipfile
from dataclasses import replace

import pytest

from skillquay.archives.formats import ArchiveFormat
from skillquay.archives.unpacking import unpack
from skillquay.errors import ArchiveError
from tests.archives.hostile import zip64_inside
from tests.archives.raw import (
    DIRECTORY,
    GNU,
    SKILL,
    SUMS_FOLLOW,
    SYMLINK,
    TAR_END,
    UTF_8,
    Local,
    Member,
    gzip,
    long_name,
    pax,
    tar_member,
    zip_end,
    zip_parts,
)

TAR_GZ, ZIP = ArchiveFormat
ROUNDS = 2000
TAR = [
    tar_member("SKILL.md", SKILL),
    tar_member("docs/", kind=b"5"),
    long_name("d" * 120 + "/a.md"),
    tar_member("x", b"hi", magic=GNU),
    tar_member("gnu.md", b"gnu", magic=GNU),
    pax(("path", "docs/ü.md"), ("mtime", "1.5")),
    tar_member("u", b"text" * 200, mode=0o755),
    tar_member("l", kind=b"2", link="SKILL.md"),
    tar_member("h", kind=b"1", link="SKILL.md"),
    pax(("comment", "c"), kind=b"g"),
    tar_member("p", b"q", prefix=b"pre/fix"),
]
STREAMED = Member("f.md", b"yy", flags=SUMS_FOLLOW | UTF_8, local=Local(sums=(0, 0, 0)))
MEMBERS = [
    Member("a.md", b"x" * 500),
    Member("docs/", b"", DIRECTORY),
    Member("s", b"a.md", SYMLINK),
    Member("stored.md", b"stored", method=0),
    replace(STREAMED, behind=b"PK\7\x08" + struct.pack("<3L", *STREAMED.sums())),
]
TELLING = b"\0/.0123456789\\xgLK"
# Where the bytes of a header matter most: its name, its type, its size, its magic, its prefix, and what follows it.
PLACES = [(0, 100), (124, 136), (156, 157), (257, 265), (345, 346), (345, 500), (512, 552)]


@pytest.mark.rule("I4")
def test_a_damaged_tar_is_refused_or_read_as_others_read_it() -> None:
    choose = random.Random(2640)
    accepted = 0
    for _ in range(ROUNDS):
        members = [bytearray(member) for member in TAR]
        if choose.random() < 0.3:
            choose.shuffle(members)
        for _ in range(choose.randint(1, 3)):
            member = choose.choice(members)
            start, end = choose.choice([*PLACES, (0, len(member))])
            member[min(choose.randrange(start, end), len(member) - 1)] = choose.choice(TELLING)
            member[148:156] = b"%06o\0 " % (sum(member[:148]) + sum(member[156:512]) + 256)
        data = gzip(b"".join(members) + TAR_END)
        try:
            files = unpack(data, TAR_GZ)
        except ArchiveError:
            continue
        accepted += 1
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            others = {member.name: archive.extractfile(member) for member in archive if not member.isdir()}
            read = {name.removeprefix("./"): file.read() for name, file in others.items() if file is not None}
        assert read == {path: file.data for path, file in files.items()}
    assert 0 < accepted < ROUNDS


@pytest.mark.rule("I4")
def test_a_damaged_zip_is_refused_or_read_as_others_read_it() -> None:
    choose = random.Random(2640)
    accepted = 0
    before, directory = zip_parts(*MEMBERS)
    whole = before + directory + zip_end(len(MEMBERS) + 1, len(directory), len(before))
    for _ in range(ROUNDS):
        damaged = bytearray(whole)
        for _ in range(choose.randint(1, 3)):
            start = choose.choice([0, len(before), len(whole) - 22])
            damaged[choose.randrange(start, len(whole))] = choose.choice([*TELLING, choose.randrange(256)])
        data = bytes(damaged)
        try:
            files = unpack(data, ZIP)
        except ArchiveError:
            continue
        accepted += 1
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            read = {
                info.filename.removeprefix("./"): archive.read(info) for info in archive.infolist() if is_file(info)
            }
        assert read == {path: files[path].data for path in read}
        assert len(read) >= len(files) - 1  # the link is not a file to the standard library
    assert 0 < accepted < ROUNDS


def is_file(info: zipfile.ZipInfo) -> bool:
    is_link = info.create_system in {3, 19} and stat.S_ISLNK(info.external_attr >> 16)
    return not info.is_dir() and not is_link


ENDS = [b"PK\5\6", b"PK\6\6", b"PK\6\7", b"PK\1\2"]


@pytest.mark.rule("I4")
@pytest.mark.parametrize("place", ["comment", "field"])
def test_a_zip_in_which_the_standard_library_sees_another_skill_is_refused(place: str) -> None:
    data = zip64_inside(place)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.namelist() == ["SKILL.md"]
        assert archive.read("SKILL.md") != SKILL
    with pytest.raises(ArchiveError, match="read in two ways"):
        unpack(data, ZIP)


@pytest.mark.rule("I4")
def test_a_zip_with_marks_of_zip_in_its_directory_is_refused_or_read_as_others_read_it() -> None:
    """Each mark at each place of the last member's record, in front of which all else that a reader wants may stand."""
    accepted = 0
    long = replace(MEMBERS[0], name="n" * 30, extra=struct.pack("<2H", 0x9999, 40) + bytes(40))
    before, directory = zip_parts(long)
    for mark in ENDS:
        for at in range(4, 46 + 30 + 44):
            place = len(directory) - len(long.central(0)) + at
            changed = directory[:place] + mark + directory[place + 4 :]
            data = before + changed[: len(directory)] + zip_end(2, len(directory), len(before))
            try:
                files = unpack(data, ZIP)
            except ArchiveError:
                continue
            accepted += 1
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                assert {name: archive.read(name) for name in archive.namelist()} == {
                    path: file.data for path, file in files.items()
                }
    assert accepted
