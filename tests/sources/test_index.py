"""An index saves time. Whatever is wrong with it costs that time again, and nothing else."""

from __future__ import annotations

import logging
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skillquay.core.catalog import Listed
from skillquay.sources.index import Index, Unit
from tests.core.builders import publish
from tests.sources.builders import largest_file, open_tree, ordinary_user

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def listed(path: str = "skill://refunds", *empty: str, executable: tuple[str, ...] = (), **files: bytes) -> Listed:
    return Listed.of(publish(files, at=path).entry, empty, executable)


ONE = Unit((listed("skill://acme/one", a=b"a"),), "stamp-1")
TWO = Unit(
    (
        listed("skill://two", "docs", "empty/é x", b=b"b"),
        listed("skill://two/näh/three", executable=("a\tb\n", "c"), c=b"c"),
        listed("github://o/r/four", "docs", executable=("d",), d=b"d"),
    ),
    "stamp-2",
)
UNITS = {"/srv/one": ONE, "/srv/two": TWO, "/srv/nothing": Unit((), "stamp-3")}


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "cache" / "index.sqlite")


def filled(path: str, key: str = "key") -> Index:
    index = Index(path, key=key)
    index.save(UNITS)
    return index


def sql(path: str, statement: str, *parameters: object) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as connection, connection:
        return connection.execute(statement, parameters).fetchall()


def count(path: str) -> int:
    ((number,),) = sql(path, "SELECT count(*) FROM units")
    assert isinstance(number, int)
    return number


def test_what_is_saved_is_loaded_by_the_next_process(path: str) -> None:
    filled(path)
    assert Index(path, key="key").load() == UNITS
    script = (
        "import sys; from skillquay.sources.index import Index; print(sorted(Index(sys.argv[1], key='key').load()))"
    )
    found = subprocess.run([sys.executable, "-c", script, path], check=True, capture_output=True, text=True)
    assert found.stdout.strip() == str(sorted(UNITS))


def test_an_index_that_is_not_there_knows_nothing_and_is_made(path: str) -> None:
    assert Index(path, key="key").load() == {}
    filled(path)
    assert os.stat(os.path.dirname(path)).st_mode & 0o777 == 0o700


def test_units_are_replaced_and_forgotten(path: str) -> None:
    index = filled(path)
    newer = Unit(ONE.skills, "stamp-9")
    index.save({"/srv/one": newer}, gone=["/srv/two", "/srv/never-was"])
    assert Index(path, key="key").load() == {"/srv/one": newer, "/srv/nothing": UNITS["/srv/nothing"]}


def test_a_unit_without_a_stamp_is_forgotten_and_not_remembered(path: str) -> None:
    index = filled(path)
    index.save({"/srv/one": Unit(ONE.skills, None)})
    assert Index(path, key="key").load().keys() == {"/srv/two", "/srv/nothing"}


def test_a_directory_whose_name_is_no_utf8_is_remembered_like_any_other(path: str) -> None:
    location = os.fsdecode(b"/srv/caf\xe9/one")
    index = Index(path, key="key")
    index.save({location: ONE, "/srv/two": TWO})
    assert Index(path, key="key").load() == {location: ONE, "/srv/two": TWO}
    index.save({}, gone=[location])
    assert Index(path, key="key").load() == {"/srv/two": TWO}


def test_rows_of_another_key_are_not_used_and_make_room_in_time(path: str) -> None:
    filled(path, key="one way of publishing")
    other = Index(path, key="another")
    assert other.load() == {}
    other.save({"/srv/one": ONE})
    assert Index(path, key="another").load() == {"/srv/one": ONE}
    assert count(path) == 1


@pytest.mark.parametrize("column", ["location", "stamp", "check_sum", "skills"])
@pytest.mark.parametrize(
    "value", ["changed", b"changed", b"\xff\xfe", "", 5, 1.5], ids=["text", "bytes", "no text", "empty", "int", "float"]
)
def test_a_row_that_was_changed_is_not_used_and_the_others_are(path: str, column: str, value: object) -> None:
    filled(path)
    sql(path, f"UPDATE units SET {column} = ? WHERE location = ?", value, b"/srv/one")
    index = Index(path, key="key")
    assert index.load() == {location: unit for location, unit in UNITS.items() if location != "/srv/one"}
    index.save({"/srv/one": ONE})
    assert Index(path, key="key").load() == UNITS
    assert count(path) == 3


def test_rows_that_changed_places_are_not_used(path: str) -> None:
    """Each is a row of ours, and true of another directory."""
    filled(path)
    for old, new in ((b"/srv/one", b"/tmp"), (b"/srv/two", b"/srv/one"), (b"/tmp", b"/srv/two")):
        sql(path, "UPDATE units SET location = ? WHERE location = ?", new, old)
    assert Index(path, key="key").load() == {"/srv/nothing": UNITS["/srv/nothing"]}


def forge(path: str, skills: bytes) -> None:
    """Write a row with a right check sum, as somebody could who may write to the user's own cache."""
    parts = (b"4 key", b"/srv/one", b"stamp-1", skills)
    check_sum = sha256(b"\0".join(parts)).hexdigest()
    sql(path, "INSERT OR REPLACE INTO units VALUES (?, ?, ?, ?)", b"/srv/one", "stamp-1", check_sum, skills)


@pytest.mark.parametrize(
    "skills",
    [
        b"x",
        b"[]",
        b'{"uri":"',
        b'{"uri":"file:///etc/passwd"}',
        b'{"uri":"skill://acme/one/a"}',
        b'{"uri":"skill://\xff/SKILL.md"}',
        b'{"uri":"skill://%ff/SKILL.md"}',
        b'{"uri":"skill://a/%2E%2E/SKILL.md"}',
        b'{"uri":"file://a/SKILL.md"}',
        b'{"uri":"a/SKILL.md"}',
        ONE.skills[0].text + b"\tno JSON",
        ONE.skills[0].text + b'\t["empty"]',
        ONE.skills[0].text + b"\t[[], [], []]",
        ONE.skills[0].text + b"\t[1, 2]",
        ONE.skills[0].text + b"\n",
    ],
)
def test_a_forged_row_that_is_plainly_no_skill_is_not_used(path: str, skills: bytes) -> None:
    filled(path)
    forge(path, skills)
    assert Index(path, key="key").load() == {
        location: unit for location, unit in UNITS.items() if location != "/srv/one"
    }


def test_a_forged_row_that_looks_like_a_skill_is_a_claim_like_any_other(path: str) -> None:
    """What it claims is compared with the files when they are read, right after the start."""
    filled(path)
    forge(path, ONE.skills[0].text.replace(b'"size":', b'"size":9'))
    (listed,) = Index(path, key="key").load()["/srv/one"].skills
    assert listed.uri == "skill://acme/one/SKILL.md"
    assert listed != ONE.skills[0]


def damage(data: bytes) -> Callable[[str], None]:
    def write(path: str) -> None:
        with open(path, "wb") as file:
            file.write(data)

    return write


def truncate(path: str) -> None:
    os.truncate(path, os.path.getsize(path) // 2)


def scramble(path: str) -> None:
    with open(path, "r+b") as file:
        file.seek(100)
        file.write(os.urandom(3000))


def make_foreign(*statements: str) -> Callable[[str], None]:
    def write(path: str) -> None:
        os.unlink(path)
        for statement in statements:
            sql(path, statement)

    return write


DAMAGES: dict[str, Callable[[str], None]] = {
    "empty": damage(b""),
    "not SQLite": damage(b"hello " * 1000),
    "only a header": damage(b"SQLite format 3\0"),
    "cut in half": truncate,
    "scrambled": scramble,
    "other tables": make_foreign("CREATE TABLE books (title)"),
    "a table of another shape": make_foreign("CREATE TABLE units (a, b)", "INSERT INTO units VALUES (1, 2)"),
    "a view": make_foreign("CREATE VIEW units AS SELECT 1 AS location, 2 AS stamp, 3 AS check_sum, 4 AS skills"),
    "a table that takes nothing": make_foreign("CREATE TABLE units (location, stamp, check_sum, skills CHECK (0))"),
}


@pytest.mark.parametrize("what", DAMAGES)
def test_a_damaged_or_foreign_file_is_no_index_and_is_one_again_after_the_next_start(path: str, what: str) -> None:
    filled(path)
    DAMAGES[what](path)
    index = Index(path, key="key")
    assert index.load().items() <= UNITS.items()
    index.save(UNITS)
    assert Index(path, key="key").load() == UNITS


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.floats(0, 0.999), st.binary(min_size=1, max_size=50)), min_size=1, max_size=5))
def test_bytes_changed_anywhere_in_the_file_never_give_another_unit(
    tmp_path: Path, changes: list[tuple[float, bytes]]
) -> None:
    path = str(tmp_path / "index.sqlite")
    for each in tmp_path.iterdir():
        each.unlink()
    filled(path)
    size = os.path.getsize(path)
    with open(path, "r+b") as file:
        for place, data in changes:
            file.seek(int(place * size))
            file.write(data)
    index = Index(path, key="key")
    assert index.load().items() <= UNITS.items()
    index.save(UNITS)
    assert Index(path, key="key").load() == UNITS


def test_a_locked_index_is_waited_for_a_little_and_then_not_used(
    path: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("skillquay.sources.index._PATIENCE", 0.05)
    filled(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        other.execute("DELETE FROM units WHERE location = ?", (b"/srv/one",))
        index = Index(path, key="key")
        with caplog.at_level(logging.INFO):
            assert index.load().items() <= UNITS.items()
            index.save({"/srv/one": ONE})
        other.execute("ROLLBACK")
    assert "locked" in caplog.text
    assert Index(path, key="key").load() == UNITS


def test_an_index_that_another_process_reads_can_be_written(path: str) -> None:
    index = filled(path)
    with closing(sqlite3.connect(path)) as other:
        rows = other.execute("SELECT * FROM units")
        assert rows.fetchone()
        index.save({"/srv/four": ONE})
    assert "/srv/four" in Index(path, key="key").load()


def test_an_index_that_cannot_be_written_is_a_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with open_tree() as root:
        path = str(root / "index.sqlite")
        filled(path)
        os.chmod(path, 0o444)
        root.chmod(0o555)
        with ordinary_user():
            index = Index(path, key="key")
            read = index.load()
            index.save({"/srv/four": ONE})
        root.chmod(0o755)
        os.chmod(path, 0o644)
        assert read.items() <= UNITS.items()
        assert Index(path, key="key").load() == UNITS
    assert caplog.text.count("cannot be written") == 1


@pytest.mark.parametrize("path", ["/proc/nowhere/index.sqlite", "/dev/null/index.sqlite", "/"])
def test_an_impossible_place_is_a_line_in_the_log(path: str, caplog: pytest.LogCaptureFixture) -> None:
    index = Index(path, key="key")
    assert index.load() == {}
    index.save(UNITS)
    assert caplog.text.count("cannot be written") == 1


def test_a_directory_in_its_place_is_left_alone(path: str) -> None:
    os.makedirs(path)
    index = Index(path, key="key")
    assert index.load() == {}
    index.save(UNITS)
    assert os.path.isdir(path)


def test_a_full_disk_leaves_the_index_as_it_was(path: str, caplog: pytest.LogCaptureFixture) -> None:
    index = filled(path)
    with largest_file(os.path.getsize(path) + 1000):
        index.save({f"/srv/{number}": TWO for number in range(2000)})
    assert "cannot be written" in caplog.text
    assert Index(path, key="key").load() == UNITS


def test_many_units_are_saved_and_loaded(path: str) -> None:
    units = {f"/srv/{number}": Unit(TWO.skills, str(number)) for number in range(5000)}
    Index(path, key="key").save(units)
    assert Index(path, key="key").load() == units
