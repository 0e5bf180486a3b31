"""Every hostile archive of the corpus is refused with a reason, in little memory, and leaves nothing behind."""

from __future__ import annotations

import time
import tracemalloc
from pathlib import Path

import pytest

from skillquay.archives.unpacking import unpack, unpack_into
from skillquay.errors import ArchiveError
from tests.archives.hostile import CASES, MIB, Case, table

DOCUMENT = Path(__file__).parent.parent.parent / "docs" / "archives.md"


def case_id(case: Case) -> str:
    return f"{case.name}-{case.archive_format}"


@pytest.mark.rule("I4")
@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_a_hostile_archive_is_refused_and_nothing_is_left_of_it(case: Case, tmp_path: Path) -> None:
    data = case.build()
    tracemalloc.start()
    started = time.process_time()
    try:
        with pytest.raises(ArchiveError) as refused:
            unpack_into(data, case.archive_format, str(tmp_path / "out"))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert case.words in refused.value.message
    assert refused.value.message.isprintable()
    assert len(refused.value.message) < 400
    assert list(tmp_path.iterdir()) == []
    assert peak < case.memory * MIB
    assert time.process_time() - started < 5


def test_no_case_is_in_the_corpus_twice() -> None:
    names = [case_id(case) for case in CASES]
    assert sorted(set(names)) == sorted(names)


@pytest.mark.rule("I4")
@pytest.mark.parametrize("case", [case for case in CASES if case.name in {"sum", "twice", "many-files"}], ids=case_id)
def test_a_refused_archive_gives_no_file_to_memory_either(case: Case) -> None:
    with pytest.raises(ArchiveError):
        unpack(case.build(), case.archive_format)


def test_the_document_shows_the_corpus() -> None:
    assert table() in DOCUMENT.read_text(encoding="utf-8"), f"Put this into {DOCUMENT.name}:\n{table()}"
