"""Unpacking: archives of other tools, what is tamed rather than refused, budgets, and directories on disk."""

from __future__ import annotations

import io
import os
import resource
import stat
import subprocess
import tarfile
import zipfile
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillquay.archives.budgets import BUDGET, Allowance, Budget
from skillquay.archives.formats import ArchiveFormat
from skillquay.archives.packing import PackedFile, pack
from skillquay.archives.unpacking import unpack, unpack_into
from skillquay.errors import ArchiveError, ServerError
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
    tar,
    tar_member,
    zip_of,
)

if TYPE_CHECKING:
    from pathlib import Path

TAR_GZ, ZIP = ArchiveFormat
FORMATS = pytest.mark.parametrize("archive_format", list(ArchiveFormat))
FILES = {"SKILL.md": PackedFile(SKILL), "docs/a.md": PackedFile(b"a" * 3000), "run.sh": PackedFile(b"#!", True)}


# Archives that others make.


@pytest.mark.parametrize("written_as", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_archives_of_the_standard_librarys_tar_are_read(written_as: int, tmp_path: Path) -> None:
    names = ["SKILL.md", "é.md", "/".join(["d" * 30] * 4) + "/a.md", "dir/" + "n" * 90]
    if written_as != tarfile.USTAR_FORMAT:
        names.append("/".join(["long" * 20] * 5) + "/b.md")
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(SKILL)
    (tmp_path / "SKILL.md").chmod(0o755)
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz", format=written_as) as archive:
        archive.add(tmp_path, arcname=".")
    found = unpack(out.getvalue(), TAR_GZ)
    assert sorted(found) == sorted(names)
    assert found["SKILL.md"] == PackedFile(SKILL, True)
    assert not found["é.md"].is_executable


def test_archives_of_the_systems_tar_are_read(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "SKILL.md").write_bytes(SKILL)
    (tmp_path / "docs" / "a.md").symlink_to("../SKILL.md")
    os.link(tmp_path / "SKILL.md", tmp_path / "b.md")
    done = subprocess.run(["tar", "-cz", "."], cwd=tmp_path, capture_output=True, check=True)
    assert unpack(done.stdout, TAR_GZ) == {path: PackedFile(SKILL) for path in ("SKILL.md", "docs/a.md", "b.md")}


class Pipe(io.RawIOBase):
    """Somewhere to write that cannot go back: sums then follow the data."""

    def __init__(self) -> None:
        self.data = b""

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.data += bytes(data)
        return len(data)


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_archives_of_the_standard_librarys_zip_are_read_also_when_streamed(method: int) -> None:
    pipe = Pipe()
    with zipfile.ZipFile(pipe, "w", method) as archive:
        archive.mkdir("docs")
        archive.writestr("SKILL.md", SKILL)
        archive.writestr("docs/é.md", b"x" * 200_000)
        archive.comment = b"a comment"
    found = unpack(pipe.data, ZIP)
    assert found == {"SKILL.md": PackedFile(SKILL), "docs/é.md": PackedFile(b"x" * 200_000)}


def test_sums_behind_the_data_need_no_mark() -> None:
    member = Member("a.md", b"text", flags=SUMS_FOLLOW | UTF_8, local=Local(sums=(0, 0, 0)))
    sums = b"".join(number.to_bytes(4, "little") for number in member.sums())
    found = unpack(zip_of(Member("a.md", b"text", flags=SUMS_FOLLOW | UTF_8, local=member.local, behind=sums)), ZIP)
    assert found["a.md"] == PackedFile(b"text")


def test_fields_of_times_and_owners_in_a_zip_are_passed_over() -> None:
    times, owners = b"UT\5\0\1\0\0\0\0", b"ux\3\0\1\0\0"
    member = Member("a.md", b"text", extra=times + owners + b"\0", local=Local(extra=owners + times))
    assert unpack(zip_of(member), ZIP)["a.md"] == PackedFile(b"text")


def test_what_a_pax_or_global_header_says_of_owners_and_times_is_dropped() -> None:
    said: list[tuple[str, str | bytes]] = [
        ("mtime", "1.5"),
        ("comment", "a = b\nc"),
        ("SCHILY.xattr.user.x", b"\xff"),
        ("uname", ""),
    ]
    said += [("size", "4"), ("hdrcharset", "ISO-IR 10646 2000 UTF-8")]
    data = tar(pax(("comment", "commit"), kind=b"g"), pax(*said, ("path", "docs/ü.md")), tar_member("u", b"text"))
    assert unpack(data, TAR_GZ)["docs/ü.md"] == PackedFile(b"text")


def test_long_names_of_gnu_tar_are_read() -> None:
    name = "d" * 120 + "/a.md"
    files = unpack(tar(long_name(name), tar_member("x", b"text", magic=GNU)), TAR_GZ)
    assert files[name] == PackedFile(b"text")
    linked = unpack(tar(long_name("./SKILL.md", b"K"), tar_member("l", kind=b"1", magic=GNU)), TAR_GZ)
    assert linked["l"] == PackedFile(SKILL)


def test_a_tar_without_a_magic_is_read() -> None:
    data = gzip(tar_member("SKILL.md", SKILL, kind=b"\0", magic=bytes(8)) + TAR_END + bytes(9216))
    assert unpack(data, TAR_GZ) == {"SKILL.md": PackedFile(SKILL)}


def test_directories_may_be_told_of_twice_and_are_not_kept() -> None:
    directory = tar_member("./docs/", kind=b"5")
    assert list(unpack(tar(tar_member("./", kind=b"5"), directory, directory), TAR_GZ)) == ["SKILL.md"]


# What is tamed.


@pytest.mark.rule("I4")
def test_set_id_bits_are_cleared_and_only_the_executable_bit_is_kept(tmp_path: Path) -> None:
    in_tar = tar(tar_member("a", mode=0o7755), tar_member("b", mode=0o6644), tar_member("c", mode=0o7777))
    in_zip = zip_of(Member("a", b"", 0o107755), Member("b", b"", 0o106644), Member("c", b"", 0o107777))
    before = os.umask(0o022)
    try:
        for archive_format, data in ((TAR_GZ, in_tar), (ZIP, in_zip)):
            unpack_into(data, archive_format, str(tmp_path / archive_format))
            modes = [stat.S_IMODE((tmp_path / archive_format / name).stat().st_mode) for name in "abc"]
            assert modes == [0o755, 0o644, 0o755]
    finally:
        os.umask(before)


@pytest.mark.rule("I4")
@pytest.mark.parametrize(("made_on", "is_executable"), [(0, False), (3, True), (10, False), (19, True)])
def test_a_mode_in_a_zip_counts_only_where_it_was_made_on_unix_or_macos(made_on: int, is_executable: bool) -> None:
    members = [Member("run.sh", b"#!", 0o100755), Member("docs/", b"", DIRECTORY, attributes=16)]
    files = unpack(zip_of(*(replace(member, made_by=made_on << 8 | 20) for member in members)), ZIP)
    assert files["run.sh"] == PackedFile(b"#!", is_executable)


@pytest.mark.rule("I4")
def test_a_link_inside_the_skill_becomes_a_copy_of_the_file() -> None:
    script = PackedFile(b"#!", True)
    in_tar = tar(
        tar_member("bin/run", kind=b"2", link="../scripts/./run.sh"),
        tar_member("scripts/run.sh", b"#!", mode=0o755),
        tar_member("hard", kind=b"1", link="./scripts/run.sh"),
        tar_member("soft", kind=b"2", link="hard"),
    )
    assert unpack(in_tar, TAR_GZ) == {
        "SKILL.md": PackedFile(SKILL),
        "bin/run": script,
        "hard": script,
        "scripts/run.sh": script,
        "soft": script,
    }
    in_zip = zip_of(Member("bin/run", b"../scripts/run.sh", SYMLINK), Member("scripts/run.sh", b"#!", 0o100755))
    assert unpack(in_zip, ZIP)["bin/run"] == script


@FORMATS
def test_an_archive_in_an_archive_is_a_file(archive_format: ArchiveFormat) -> None:
    files = FILES | {"inner.zip": PackedFile(zip_of()), "inner.tar.gz": PackedFile(tar())}
    assert unpack(pack(files, archive_format), archive_format) == files


def test_a_stored_zip_in_a_zip_is_no_second_end() -> None:
    inner = zip_of()
    assert unpack(zip_of(Member("inner.zip", inner, method=0)), ZIP)["inner.zip"].data == inner


# Budgets.


@FORMATS
@pytest.mark.rule("I4")
@pytest.mark.parametrize(
    ("budget", "words"),
    [
        (Budget(entries=2), "more than 2 members"),
        (Budget(files=2), "more than 2 files"),
        (Budget(depth=1), "more than 1 directories deep"),
        (Budget(file_bytes=2999), "larger than 2,999 bytes"),
        (Budget(total_bytes=3000), "holds more than 3,000 bytes"),
        (Budget(packed_bytes=100), "itself is larger than 100 bytes"),
    ],
)
def test_each_budget_is_kept(archive_format: ArchiveFormat, budget: Budget, words: str) -> None:
    data = pack(FILES, archive_format)
    for given_as in (data, io.BytesIO(data)):
        with pytest.raises(ArchiveError, match=words):
            unpack(given_as, archive_format, budget=budget)


@FORMATS
@pytest.mark.rule("I4")
def test_the_archives_of_one_server_share_an_allowance(archive_format: ArchiveFormat) -> None:
    data = pack(FILES, archive_format)
    size = sum(len(file.data) for file in FILES.values())
    allowance = Allowance(2 * size + 10)
    unpack(data, archive_format, allowance=allowance)
    unpack(data, archive_format, allowance=allowance)
    assert allowance.left == 10
    with pytest.raises(ArchiveError, match="of one server"):
        unpack(data, archive_format, allowance=allowance)
    assert allowance.left == 0
    allowance.renew()
    unpack(data, archive_format, allowance=allowance)
    assert allowance.left == size + 10


def test_extended_headers_count_against_the_allowance() -> None:
    data = tar(pax(("comment", "c" * 1000)), tar_member("a"))
    with pytest.raises(ArchiveError, match="of one server"):
        unpack(data, TAR_GZ, allowance=Allowance(500))


def test_a_stream_is_read_no_further_than_the_first_member_that_is_refused() -> None:
    data = tar(tar_member("../evil"), tar_member("big", os.urandom(4_000_000)))
    stream = io.BytesIO(data)
    with pytest.raises(ArchiveError, match="walks up"):
        unpack(stream, TAR_GZ)
    assert stream.tell() < len(data) / 4


def test_an_archive_error_names_the_member_without_hidden_characters() -> None:
    with pytest.raises(ServerError) as refused:
        unpack(tar(tar_member("\u202e" + "e" * 80 + "/..")), TAR_GZ)
    assert refused.value.rule == "I4"
    assert refused.value.message.startswith('"⟨U+202E⟩eee')
    assert refused.value.message.endswith('…" walks up with "..".')


# Members of any kind, in any order: nothing but an `ArchiveError`, and never a path that walks.

texts = st.sampled_from(["a", "b/c", "./a", "../a", "/a", "A", "a/", "SKILL.md", "é", "", ".", "b", "link"])
members = st.one_of(
    st.builds(
        tar_member,
        texts,
        st.binary(max_size=600),
        kind=st.sampled_from([b"0", b"\0", b"1", b"2", b"5", b"6", b"x", b"g", b"L", b"K", b"S"]),
        link=texts,
        mode=st.integers(0, 0o7777),
        size=st.none() | st.integers(0, 2000),
    ),
    st.builds(lambda key, value: pax((key, value)), st.sampled_from(["path", "linkpath", "size", "x"]), texts),
    st.builds(long_name, texts, st.sampled_from([b"L", b"K"])),
)
zip_members = st.builds(
    Member,
    texts,
    st.binary(max_size=100),
    st.sampled_from([0, 0o100644, 0o104755, 0o040755, 0o120777, 0o010644]),
    st.sampled_from([0, 8]),
    st.sampled_from([0, UTF_8, UTF_8, 1]),
    crc=st.none() | st.just(0),
    size=st.none() | st.integers(0, 200),
    offset=st.none() | st.integers(0, 300),
    behind=st.sampled_from([b"", b"", b"x"]),
)


@settings(max_examples=200)
@given(parts=st.lists(members, max_size=5), end=st.sampled_from([TAR_END, TAR_END, b"", bytes(512)]))
def test_no_tar_is_a_surprise(parts: list[bytes], end: bytes) -> None:
    check_unpacked(tar(*parts, end=end), TAR_GZ)


@settings(max_examples=200)
@given(parts=st.lists(zip_members, max_size=4))
def test_no_zip_is_a_surprise(parts: list[Member]) -> None:
    check_unpacked(zip_of(*parts), ZIP)


def check_unpacked(data: bytes, archive_format: ArchiveFormat) -> None:
    try:
        files = unpack(data, archive_format)
    except ArchiveError as error:
        assert error.message.isprintable()
        return
    for path in files:
        assert {"", ".", ".."}.isdisjoint(path.split("/"))
    assert len({path.lower() for path in files}) == len(files)
    assert pack(files, archive_format)


# On disk.


@FORMATS
@pytest.mark.rule("I4")
def test_a_skill_is_unpacked_into_a_new_private_directory(archive_format: ArchiveFormat, tmp_path: Path) -> None:
    target = tmp_path / "refunds"
    paths = unpack_into(io.BytesIO(pack(FILES, archive_format)), archive_format, str(target))
    assert paths == sorted(FILES)
    assert stat.S_IMODE(target.stat().st_mode) == 0o700
    assert {path: (target / path).read_bytes() for path in paths} == {path: FILES[path].data for path in FILES}
    assert (target / "run.sh").stat().st_mode & 0o111
    assert not (target / "SKILL.md").stat().st_mode & 0o111
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.rule("I4")
def test_what_is_there_already_is_never_unpacked_into(tmp_path: Path) -> None:
    data = pack(FILES, ZIP)
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to("nowhere")
    before = sorted(tmp_path.iterdir())
    for path in before:
        with pytest.raises(FileExistsError):
            unpack_into(data, ZIP, str(path))
    assert sorted(tmp_path.iterdir()) == before
    assert list((tmp_path / "empty").iterdir()) == []


def test_a_relative_directory_is_made_where_one_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    unpack_into(pack(FILES, ZIP), ZIP, "out")
    assert (tmp_path / "out" / "SKILL.md").is_file()


@pytest.mark.rule("I4")
def test_a_full_disk_leaves_nothing_behind(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, hard))  # a file of 3,000 bytes cannot be written then
    try:
        with pytest.raises(OSError, match="File too large"):
            unpack_into(pack(FILES, TAR_GZ), TAR_GZ, str(tmp_path / "out"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        unpack_into(pack(FILES, ZIP), ZIP, str(tmp_path / "nowhere" / "out"))


def test_the_budget_is_that_of_one_skill() -> None:
    assert (BUDGET.files, BUDGET.total_bytes, BUDGET.file_bytes) == (512, 16 * 1024 * 1024, 16 * 1024 * 1024)
