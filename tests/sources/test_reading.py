"""The bytes of a file are those of one moment, whoever writes to it in the meantime."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from skillquay.core.entries import LIMITS
from skillquay.sources.reading import NotPublishedError, read_file, size_of
from tests.sources.builders import rewrite_unseen

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

OLD, NEW = "old " * 1000, "new " * 1000


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_text(OLD)
    return path


def around_reads(
    monkeypatch: pytest.MonkeyPatch,
    *,
    most: int = 1 << 30,
    before: Callable[[int], None] = lambda number: None,
    after: Callable[[int], None] = lambda number: None,
) -> None:
    """Do something before and after each call that reads, and let none read more than so many bytes."""
    read = os.read
    calls: list[int] = []

    def reading(fd: int, size: int) -> bytes:
        calls.append(size)
        before(len(calls))
        data = read(fd, min(size, most))
        after(len(calls))
        return data

    monkeypatch.setattr(os, "read", reading)


@pytest.mark.parametrize("size", [0, 1, (1 << 14) - 1, 1 << 14, (1 << 14) + 1, 100_000, LIMITS.size])
@pytest.mark.parametrize("age", [0, 3600], ids=["just written", "long ago"])
def test_a_file_of_any_size_and_age_is_read_whole(tmp_path: Path, size: int, age: int) -> None:
    data = os.urandom(size)
    (tmp_path / "file").write_bytes(data)
    read = read_file(str(tmp_path / "file"), time.time_ns() + age * 10**9)
    assert read.data == data
    assert read.status.st_size == size


def test_a_file_that_gives_few_bytes_at_a_time_is_read_whole(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    around_reads(monkeypatch, most=100)
    for begun in (0, time.time_ns() + 10**12):
        assert read_file(str(file), begun).data == OLD.encode()


@pytest.mark.rule("E4")
def test_a_file_that_no_skill_may_hold_is_not_read(tmp_path: Path) -> None:
    with open(tmp_path / "file", "wb") as file:
        file.truncate(LIMITS.size + 1)
    read = read_file(str(tmp_path / "file"), 0)
    assert read.data is None
    assert read.status.st_size == size_of(str(tmp_path / "file")) == LIMITS.size + 1


@pytest.mark.rule("E3")
def test_a_file_that_is_rewritten_right_after_it_was_read_is_read_again(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = time.time_ns()
    around_reads(monkeypatch, after=lambda number: rewrite_unseen(file, NEW) if number == 1 else None)
    read = read_file(str(file), begun)
    assert read.data == NEW.encode()
    assert read.status.st_ctime_ns == file.stat().st_ctime_ns


@pytest.mark.rule("E3")
def test_the_status_of_a_file_is_that_of_its_bytes(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = time.time_ns()
    around_reads(monkeypatch, before=lambda number: rewrite_unseen(file, NEW) if number == 2 else None)
    read = read_file(str(file), begun)
    assert read.data == NEW.encode()
    assert read.status.st_ctime_ns == file.stat().st_ctime_ns


@pytest.mark.rule("E3")
@pytest.mark.parametrize("moment", range(1, 60))
def test_a_file_is_never_half_old_and_half_new_even_where_the_clock_of_the_file_system_stands_still(
    file: Path, monkeypatch: pytest.MonkeyPatch, moment: int
) -> None:
    begun = time.time_ns()
    status = file.stat()
    monkeypatch.setattr(os, "fstat", lambda fd: status)
    around_reads(monkeypatch, most=300, after=lambda number: write_over(file, NEW) if number == moment else None)
    assert read_file(str(file), begun).data in {OLD.encode(), NEW.encode()}


def write_over(file: Path, text: str) -> None:
    with file.open("r+") as opened:
        opened.write(text)


@pytest.mark.parametrize("text", ["", "shorter", "longer " * 4000])
def test_a_file_that_shrinks_or_grows_while_it_is_read_is_read_again(
    file: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    def change(number: int) -> None:
        if number == 2:
            file.write_text(text)

    around_reads(monkeypatch, before=change)
    assert read_file(str(file), time.time_ns()).data == text.encode()


def test_a_file_that_never_rests_is_given_up(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    around_reads(monkeypatch, after=lambda number: rewrite_unseen(file, NEW if number % 2 else OLD))
    with pytest.raises(NotPublishedError, match="changed while it was being read") as failure:
        read_file(str(file), time.time_ns())
    assert (failure.value.rule, failure.value.kind) == ("E3", "changing")


@pytest.mark.parametrize("what", ["missing", "directory", "link", "fifo", "changing size"])
def test_what_is_no_file_is_not_read_and_not_waited_for(tmp_path: Path, what: str) -> None:
    path = tmp_path / "thing"
    match what:
        case "directory":
            path.mkdir()
        case "link":
            path.symlink_to(__file__)
        case "fifo":
            os.mkfifo(path)
        case "changing size":
            path = type(path)("/proc/self/status")  # it says that it holds nothing, and holds something
        case _:
            pass
    with pytest.raises(NotPublishedError) as failure:
        read_file(str(path), time.time_ns())
    assert failure.value.finding("x").file == "x"


def test_nothing_stays_open_whatever_goes_wrong(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path, tmp_path / "fifo", tmp_path / "nothing", "/proc/self/status"):
        with pytest.raises(NotPublishedError):
            read_file(str(path), 0)
    assert len(os.listdir("/proc/self/fd")) == before


def test_what_is_not_there_has_no_size(tmp_path: Path) -> None:
    with pytest.raises(NotPublishedError, match="no such file"):
        size_of(str(tmp_path / "nothing"))
