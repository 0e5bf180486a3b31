"""What was kept is given back byte for byte, whatever else is kept, let go of, or does not fit on the disk."""

from __future__ import annotations

import gc
import os
import stat
import sys
import tempfile
import threading
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillquay.core.digests import Digest
from skillquay.core.entries import LIMITS
from skillquay.sources.spool import Spool
from tests.sources.builders import largest_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MEBIBYTE = 1 << 20


def kept(spool: Spool, data: bytes) -> Digest:
    digest = Digest.of(data)
    spool.keep(digest, data)
    return digest


def contents(count: int, size: int) -> Iterator[bytes]:
    for number in range(count):
        yield f"{number:08}".encode() * (size // 8)


def is_large(spool: Spool) -> bool:
    return spool.has_slack


def spooled() -> int:
    """The bytes in nameless files."""
    every = [os.fstat(int(each)) for each in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{each}")]
    return sum(status.st_size for status in every if status.st_nlink == 0 and stat.S_ISREG(status.st_mode))


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.rule("U7")
@pytest.mark.parametrize("size", [0, 1, MEBIBYTE - 1, MEBIBYTE, MEBIBYTE + 1, LIMITS.size])
def test_a_content_of_any_size_is_given_back_as_it_was(size: int) -> None:
    spool = Spool()
    data = os.urandom(size)
    before, digest, after = kept(spool, b"before"), kept(spool, data), kept(spool, b"after")
    assert spool.read(digest) == data
    assert (spool.read(before), spool.read(after)) == (b"before", b"after")
    assert spool.has(digest)


def test_what_was_never_kept_is_not_there() -> None:
    spool = Spool()
    unknown = Digest.of(b"unknown")
    assert (spool.read(unknown), spool.has(unknown)) == (None, False)
    spool.shrink([unknown])
    kept(spool, b"known")
    assert (spool.read(unknown), spool.has(unknown)) == (None, False)


def test_the_same_content_is_kept_once() -> None:
    spool = Spool()
    data = b"x" * MEBIBYTE
    before = spooled()
    for _ in range(100):
        digest = kept(spool, data)
    assert spooled() == before + MEBIBYTE
    spool.shrink([digest] * 100)
    assert spooled() == before + MEBIBYTE
    assert not is_large(spool)


def test_a_spool_that_grew_large_is_worth_shrinking_and_one_that_was_just_shrunk_is_not() -> None:
    spool = Spool()
    digests = [kept(spool, data) for data in contents(65, MEBIBYTE)]
    assert is_large(spool)
    spool.shrink(digests[:20])
    assert not is_large(spool)
    for number, data in enumerate(contents(65, MEBIBYTE)):
        assert spool.read(digests[number]) == (data if number < 20 else None)


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("keep"), st.integers(0, 9)),
            st.tuples(st.just("shrink"), st.sets(st.integers(0, 12))),
        ),
        max_size=30,
    )
)
def test_a_spool_holds_what_was_kept_and_not_let_go_of(steps: list[tuple[str, int | set[int]]]) -> None:
    spool, model = Spool(), set[int]()
    # Some wait in memory to be written, some do not.
    data = {number: bytes([number]) * (number * MEBIBYTE // 8 + number) for number in range(13)}
    digests = {number: Digest.of(each) for number, each in data.items()}
    for _, what in steps:
        if isinstance(what, int):
            spool.keep(digests[what], data[what])
            model.add(what)
        else:
            spool.shrink(digests[number] for number in sorted(what) * 2)
            model &= what
        for number, digest in digests.items():
            assert spool.read(digest) == (data[number] if number in model else None)
            assert spool.has(digest) == (number in model)


def test_on_a_full_disk_nothing_is_lost_and_nothing_is_mixed_up() -> None:
    spool = Spool()
    data = list(contents(40, MEBIBYTE // 4))
    digests = [kept(spool, each) for each in data[:10]]
    with largest_file(3 * MEBIBYTE):
        with pytest.raises(OSError, match="File too large"):
            digests += [kept(spool, each) for each in data[10:]]
        assert [spool.read(digest) for digest in digests] == data[: len(digests)]
        for each in data:
            assert spool.read(Digest.of(each)) in (each, None)
    for each in data:  # there is room again
        kept(spool, each)
    assert [spool.read(Digest.of(each)) for each in data] == data


def test_where_there_is_no_room_for_a_copy_everything_stays_and_is_not_copied_again_at_once() -> None:
    spool = Spool()
    data = list(contents(65, MEBIBYTE))
    digests = [kept(spool, each) for each in data]
    assert is_large(spool)
    with largest_file(MEBIBYTE):
        spool.shrink(digests[:60])
    assert not is_large(spool)
    assert [spool.read(digest) for digest in digests] == data
    more = kept(spool, b"more")
    assert spool.read(more) == b"more"
    assert [spool.read(digest) for digest in digests] == data


def test_without_a_temporary_directory_there_is_a_spool_that_holds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    spool = Spool()
    with pytest.raises(OSError, match="No such file"):
        kept(spool, b"data")
    assert spool.read(Digest.of(b"data")) is None
    assert not is_large(spool)
    spool.shrink([Digest.of(b"data")])


def test_a_temporary_directory_that_went_away_does_not_harm_a_spool_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = Spool()
    digest = kept(spool, b"data")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    spool.shrink([])
    assert spool.read(digest) == b"data"


def test_a_spool_has_no_name_and_its_file_is_closed_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    gc.collect()
    before = open_files()
    spool = Spool()
    for data in contents(3, MEBIBYTE):
        kept(spool, data)
    assert open_files() == before + 1
    assert list(tmp_path.iterdir()) == []
    for _ in range(5):
        spool.shrink([Digest.of(b"gone")])
    assert open_files() == before + 1
    del spool
    gc.collect()
    assert open_files() == before


def test_readers_get_the_right_bytes_while_others_add_and_let_go() -> None:
    spool = Spool()
    always = [(kept(spool, data), data) for data in contents(8, MEBIBYTE // 3)]
    is_over = threading.Event()
    wrong: list[bytes | None] = []

    def read_on() -> None:
        while not is_over.is_set():
            for digest, data in always:
                if (read := spool.read(digest)) != data:
                    wrong.append(read)

    readers = [threading.Thread(target=read_on) for _ in range(3)]
    switch_interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    for reader in readers:
        reader.start()
    try:
        for data in contents(80, MEBIBYTE // 5):
            kept(spool, b"passing" + data)
            spool.shrink(digest for digest, _ in always)
    finally:
        is_over.set()
        sys.setswitchinterval(switch_interval)
        for reader in readers:
            reader.join()
    assert wrong == []
