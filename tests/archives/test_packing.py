"""Packing: the same bytes for the same files, readable by everyone, and nothing that would be refused."""

from __future__ import annotations

import io
import tarfile
import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillquay.archives.formats import ArchiveFormat
from skillquay.archives.packing import PackedFile, pack
from skillquay.archives.unpacking import unpack
from skillquay.core.entries import LIMITS
from skillquay.errors import ArchiveError

TAR_GZ, ZIP = ArchiveFormat
SKILL_MD = PackedFile(b"---\nname: x\ndescription: Does x.\n---\n")
FORMATS = pytest.mark.parametrize("archive_format", list(ArchiveFormat))

names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12) | st.sampled_from(
    ["a.md", "A.md", "docs", "é.md", "e\u0301.md", "x" * 150, "..", "a b", "run.sh", ".env", "ß", "ss"]
)
paths = st.lists(names, min_size=1, max_size=4).map("/".join)
contents = st.builds(PackedFile, st.binary(max_size=2000), st.booleans())
trees = st.dictionaries(paths, contents, max_size=8).map(lambda files: {"SKILL.md": SKILL_MD} | files)


@FORMATS
@given(files=trees)
@pytest.mark.rule("I3")
def test_what_is_packed_comes_out_the_same_or_is_refused_at_once(
    archive_format: ArchiveFormat, files: dict[str, PackedFile]
) -> None:
    try:
        data = pack(files, archive_format)
    except ArchiveError:
        return
    plain = {path.removeprefix("./"): file for path, file in files.items()}
    assert unpack(data, archive_format) == plain
    assert unpack(io.BytesIO(data), archive_format) == plain
    assert pack(dict(reversed(files.items())), archive_format) == data
    assert read_by_the_standard_library(data, archive_format) == {
        path: (file.data, file.is_executable) for path, file in plain.items()
    }


def read_by_the_standard_library(data: bytes, archive_format: ArchiveFormat) -> dict[str, tuple[bytes, bool]]:
    found: dict[str, tuple[bytes, bool]] = {}
    if archive_format is TAR_GZ:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as tar:
            for member in tar:
                file = tar.extractfile(member)
                assert file is not None
                found[member.name] = (file.read(), member.mode == 0o755)
    else:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            assert archive.testzip() is None
            for info in archive.infolist():
                found[info.filename] = (archive.read(info), info.external_attr >> 16 == 0o100755)
    return found


@pytest.mark.rule("I3")
def test_a_tar_holds_nothing_of_the_machine_it_was_made_on() -> None:
    data = pack({"b.md": SKILL_MD, "SKILL.md": SKILL_MD, "a/run.sh": PackedFile(b"", True)}, TAR_GZ)
    assert data[:10] == b"\x1f\x8b\x08\0\0\0\0\0\0\xff"
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as tar:
        members = tar.getmembers()
    assert [(member.name, member.mode) for member in members] == [
        ("SKILL.md", 0o644),
        ("a/run.sh", 0o755),
        ("b.md", 0o644),
    ]
    assert {(member.mtime, member.uid, member.gid, member.uname, member.gname) for member in members} == {
        (0, 0, 0, "", "")
    }


@pytest.mark.rule("I3")
def test_a_zip_holds_nothing_of_the_machine_it_was_made_on() -> None:
    data = pack({"b.md": SKILL_MD, "SKILL.md": SKILL_MD, "a/run.sh": PackedFile(b"", True)}, ZIP)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = archive.infolist()
    assert [(member.filename, member.external_attr >> 16) for member in members] == [
        ("SKILL.md", 0o100644),
        ("a/run.sh", 0o100755),
        ("b.md", 0o100644),
    ]
    assert {(member.date_time, member.create_system, member.extra) for member in members} == {
        ((1980, 1, 1, 0, 0, 0), 3, b"")
    }


@FORMATS
@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({}, "no SKILL.md"),
        ({"a.md": SKILL_MD}, "no SKILL.md"),
        ({"SKILL.md": SKILL_MD, "skill.md": SKILL_MD}, "one path"),
        ({"SKILL.md": SKILL_MD, "../a.md": SKILL_MD}, "walks up"),
        ({"SKILL.md": SKILL_MD, "a\udcff.md": SKILL_MD}, "not UTF-8"),
        ({"SKILL.md": SKILL_MD, "a.md/": SKILL_MD}, "empty"),
        ({"SKILL.md": SKILL_MD} | {f"{number}.md": SKILL_MD for number in range(LIMITS.files)}, "512 files"),
        ({"SKILL.md": SKILL_MD, "a.bin": PackedFile(bytes(LIMITS.size + 1))}, "larger than"),
        ({"SKILL.md": SKILL_MD, "a.bin": PackedFile(bytes(LIMITS.size))}, "holds more than"),
    ],
)
def test_what_could_not_be_unpacked_is_not_packed(
    archive_format: ArchiveFormat, files: dict[str, PackedFile], words: str
) -> None:
    with pytest.raises(ArchiveError, match=words):
        pack(files, archive_format)


@FORMATS
def test_the_largest_skill_can_be_packed_and_unpacked(archive_format: ArchiveFormat) -> None:
    long = "/".join(["d" * 200] * 19)
    files = {f"{long}/{number}.md": PackedFile(b"x") for number in range(LIMITS.files - 2)}
    rest = LIMITS.size - len(files) - len(SKILL_MD.data)
    files |= {"SKILL.md": SKILL_MD, "z.bin": PackedFile(bytes(rest))}
    assert unpack(pack(files, archive_format), archive_format) == files


@FORMATS
@settings(max_examples=200)
@given(data=st.data())
def test_a_damaged_archive_is_refused_and_never_a_surprise(archive_format: ArchiveFormat, data: st.DataObject) -> None:
    files = {"SKILL.md": SKILL_MD, "docs/é.md": PackedFile(b"text " * 50), "run.sh": PackedFile(b"", True)}
    whole = pack(files, archive_format)
    damaged = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(whole) - 1))] ^= data.draw(st.integers(1, 255))
    cut = bytes(damaged[: data.draw(st.just(len(whole)) | st.integers(0, len(whole) - 1))])
    try:
        found = unpack(cut, archive_format)
    except ArchiveError:
        return
    assert found["SKILL.md"].data == SKILL_MD.data
