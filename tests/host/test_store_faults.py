"""Whatever happens to the database, nothing counts as approved that was not, and the user is told what to do."""

from __future__ import annotations

import json
import os
import random
import socket
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from skillquay.core.approvals import Answer, Approval, Grant
from skillquay.errors import StateError
from skillquay.host import database as database_module
from skillquay.host.database import open_database
from skillquay.host.rows import read_answer, seal, write_answer
from skillquay.host.store import Store
from tests.core.builders import ACME, EVIL, publish

if TYPE_CHECKING:
    from pathlib import Path

    from tests.host.conftest import OpenStore

A = publish({"a.md": b"1"})
B = publish({"a.md": b"2"})
OTHER = publish(at="skill://billing")
GONE = publish(at="skill://gone")
ALLOWED = Approval.of(A.id(), A.entry, grant=Grant.LOAD, answer=Answer.ALLOW)
DENIED = Approval.of(OTHER.id(), OTHER.entry, grant=Grant.LOAD, answer=Answer.DENY)
ENDED = Approval.of(GONE.id(), GONE.entry, grant=Grant.LOAD, answer=Answer.ALLOW)


def run(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Another process, which has this module's names."""
    code = f"from tests.host.test_store_faults import *\n{script}"
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)


def change(where: str, statement: str, **parameters: object) -> None:
    database = open_database(where)
    with database.transaction(write=True) as transaction:
        transaction.execute(statement, parameters)
    database.close()


# Edited rows


@pytest.mark.rule("A1")
@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("answer", "ALLOW"),
        ("answer", "allowed"),
        ("answer", ""),
        ("pairs", "not JSON"),
        ("pairs", "[]"),
        ("pairs", "{}"),
        ("pairs", "null"),
        ("pairs", '"ab"'),
        ("pairs", "[1, 2]"),
        ("pairs", "[[1, 2]]"),
        ("pairs", '[["skill://refunds/SKILL.md"]]'),
        ("pairs", "[" * 100_000),
        ("scope", "workspace"),
        ("scope", '"another workspace"'),
        ("scope", "5"),
        ("label", '"evil"'),
        ("label", '" "'),
        ("label", "7"),
        ("uri", '"skill://billing/SKILL.md"'),
        ("uri", '"file:///etc/passwd"'),
        ("uri", "[]"),
        ("server", EVIL.directory),
        ("at", -1.0),
    ],
)
def test_a_row_that_was_spoiled_is_no_answer(
    where: str, store: Store, column: str, value: object, caplog: pytest.LogCaptureFixture
) -> None:
    store.record(ALLOWED, A.entry, at=1.0)
    change(where, f"UPDATE skillquay_answers SET {column} = :value", value=value)
    assert store.approval(A.id(), Grant.LOAD) is None
    assert store.last_answered(A.id(), Grant.LOAD) is None
    assert store.approvals() == []
    assert "cannot be read and do not count" in caplog.text
    # It can be answered anew.
    store.record(ALLOWED, A.entry, at=2.0)
    assert store.approval(A.id(), Grant.LOAD) == ALLOWED


@pytest.mark.rule("A1")
@pytest.mark.parametrize("pairs", [B.manifest.pairs, A.manifest.pairs[::-1], A.manifest.pairs[:1], (("a", "b"),)])
def test_a_row_that_was_bent_to_other_files_is_no_answer(where: str, store: Store, pairs: object) -> None:
    store.record(ALLOWED, A.entry, at=1.0)
    change(where, "UPDATE skillquay_answers SET pairs = :pairs", pairs=json.dumps(pairs))
    assert store.approval(A.id(), Grant.LOAD) is None


@pytest.mark.rule("A1", "A2")
def test_an_edit_by_hand_turns_no_denial_around_and_revives_nothing(where: str, store: Store) -> None:
    store.record(DENIED, OTHER.entry, at=1.0)
    store.record(ALLOWED, A.entry, at=1.0)
    store.observe(ACME, [B.entry], at=2.0)
    change(where, "UPDATE skillquay_answers SET answer = 'allow', ended = NULL")
    assert store.approval(OTHER.id(), Grant.LOAD) is None
    assert store.approval(A.id(), Grant.LOAD) is None


@pytest.mark.parametrize(
    "edit",
    [
        {"pairs": "[]"},
        {"pairs": "[[1, 2]]"},
        {"pairs": "5"},
        {"answer": "ALLOW"},
        {"uri": '"skill://billing/SKILL.md"'},
        {"label": '"evil"'},
        {"scope": "5"},
        {"server": EVIL.directory},
        {"shown": 5},
        {"at": "soon"},
        {"at": float("nan")},
        {"ended": "never"},
    ],
    ids=str,
)
def test_a_row_that_makes_no_sense_is_no_answer_whatever_its_seal_says(edit: dict[str, object]) -> None:
    columns = write_answer(ALLOWED, A.entry, 1.0)
    del columns["seal"], columns["entry"]
    assert read_answer([*columns.values(), seal(columns.values())]) == ALLOWED
    columns |= edit
    assert read_answer([*columns.values(), seal(columns.values())]) is None


@pytest.mark.rule("A2")
def test_a_spoiled_row_ends_when_its_server_is_seen_and_the_audit_says_so(where: str, store: Store) -> None:
    store.record(ALLOWED, A.entry, at=1.0)
    store.record(DENIED, OTHER.entry, at=1.0)
    change(where, "UPDATE skillquay_answers SET answer = 'yes' WHERE answer = 'allow'")
    assert store.observe(ACME, [A.entry, OTHER.entry], at=2.0) == []
    assert [event.kind for event in store.audit(limit=1)] == ["unreadable"]
    change(where, "UPDATE skillquay_answers SET answer = 'allow' WHERE answer = 'yes'")
    assert store.approval(A.id(), Grant.LOAD) is None
    assert store.approval(OTHER.id(), Grant.LOAD) == DENIED


@pytest.mark.parametrize(
    "value",
    [
        "",
        "null",
        "not JSON",
        "[" * 100_000,
        '"dynamic"',
        json.dumps(B.entry.to_json()),
        json.dumps(OTHER.entry.to_json()),
    ],
    ids=["empty", "null", "garbage", "deep", "text", "other content", "other skill"],
)
def test_an_entry_that_was_spoiled_is_not_shown_and_the_answer_stands(where: str, store: Store, value: str) -> None:
    store.record(ALLOWED, A.entry, at=1.0)
    change(where, "UPDATE skillquay_answers SET entry = :value", value=value)
    kept = store.last_answered(A.id(), Grant.LOAD)
    assert kept is not None
    assert (kept.approval, kept.entry) == (ALLOWED, None)


@pytest.mark.parametrize("value", ["server acme", "[]", '"server evil"', "["])
def test_nothing_counts_as_enabled_when_what_is_disabled_cannot_be_read(where: str, store: Store, value: str) -> None:
    store.disable("server acme", at=1.0)
    store.trust("/work", at=1.0)
    change(where, "UPDATE skillquay_marks SET about = :value", value=value)
    with pytest.raises(StateError, match="disabled cannot be read any more"):
        store.disabled()
    assert not store.is_trusted("/work")
    store.disable("server acme", at=2.0)
    assert store.disabled() == {"server acme"}
    store.distrust("/work", at=3.0)
    assert store.trusted() == []


def test_a_spoiled_line_of_the_audit_is_shown_as_it_is(where: str, store: Store) -> None:
    change(
        where,
        "INSERT INTO skillquay_audit (subject, at, kind, server, scope, uri, detail) "
        "VALUES ('', -5.0, 'allow', '5', '', '[', '\"fine\"')",
    )
    event = store.audit()[0]
    assert (event.at, event.kind, event.server, event.uri, event.detail) == (0.0, "allow", "5", "[", "fine")


def test_text_that_is_not_utf8_spoils_its_row_alone(tmp_path: Path) -> None:
    path = str(tmp_path / "answers.db")
    with closing(Store.open(path)) as store:
        store.record(ALLOWED, A.entry, at=1.0)
        store.record(DENIED, OTHER.entry, at=1.0)
        change(path, "UPDATE skillquay_answers SET answer = CAST(x'616cff' AS TEXT) WHERE answer = 'allow'")
        assert [kept.approval for kept in store.approvals()] == [DENIED]


@pytest.mark.parametrize("value", [b"allow", 1, None])
def test_a_column_of_another_type_is_no_answer(tmp_path: Path, value: object) -> None:
    path = str(tmp_path / "answers.db")
    with closing(Store.open(path)) as store:
        store.record(ALLOWED, A.entry, at=1.0)
        for column in ("answer", "shown", "pairs", "label", "scope", "uri", "at"):
            try:
                change(path, f"UPDATE skillquay_answers SET {column} = :value", value=value)
            except StateError:
                assert value is None  # the table takes no NULL
                continue
            found = store.approval(A.id(), Grant.LOAD)
            assert found == (ALLOWED if (column, value) == ("at", 1) else None)
            store.record(ALLOWED, A.entry, at=1.0)


# The schema


def test_a_newer_schema_is_refused_and_left_alone(where: str, open_store: OpenStore) -> None:
    open_store().record(ALLOWED, A.entry, at=1.0)
    change(where, "UPDATE skillquay_schema SET version = 2")
    with pytest.raises(StateError, match=r"newer skillquay \(schema 2; this one knows 1\)\. Upgrade"):
        open_store()


@pytest.mark.parametrize("statement", ["DELETE FROM skillquay_schema", "UPDATE skillquay_schema SET version = 0"])
def test_a_schema_that_does_not_say_its_version_is_refused(where: str, open_store: OpenStore, statement: str) -> None:
    open_store()
    change(where, statement)
    with pytest.raises(StateError, match="which schema it has"):
        open_store()


def test_a_table_that_is_gone_is_told_and_not_made_anew(where: str, store: Store, open_store: OpenStore) -> None:
    change(where, "DROP TABLE skillquay_answers")
    for each in (store, open_store()):
        with pytest.raises(StateError, match=r"skillquay_answers.* It is damaged"):
            each.approval(A.id(), Grant.LOAD)


# Files


@pytest.mark.rule("K4")
def test_garbage_in_place_of_the_file_is_told_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "answers.db"
    garbage = random.Random(1).randbytes(20_000)
    path.write_bytes(garbage)
    with pytest.raises(StateError, match=r"answers\.db .*not a database\. It is damaged, and is left as it is"):
        Store.open(path)
    assert path.read_bytes() == garbage


def filled(path: Path) -> bytes:
    """A file with many answers: those about `skill-…` allow, the one about `billing` denies."""
    with closing(Store.open(path)) as store:
        for number in range(60):
            skill = publish({"a.md": b"1"}, at=f"skill://skill-{number}")
            store.record(
                Approval.of(skill.id(), skill.entry, grant=Grant.LOAD, answer=Answer.ALLOW), skill.entry, at=1.0
            )
        store.record(ALLOWED, A.entry, at=1.0)
        store.record(DENIED, OTHER.entry, at=1.0)
        store.record(ENDED, GONE.entry, at=1.0)
        store.revoke(GONE.id(), at=2.0)
    assert not path.with_name(f"{path.name}-wal").exists()
    return path.read_bytes()


def ask(path: Path, failures: list[str]) -> None:
    """Ask a store that was damaged: it may fail, or know nothing, but it never says what was not answered."""
    try:
        with closing(Store.open(path)) as store:
            assert store.approval(A.id(), Grant.LOAD) in {None, ALLOWED}
            assert store.approval(OTHER.id(), Grant.LOAD) in {None, DENIED}
            assert store.approval(A.id(), Grant.EXECUTE) is None
            assert store.approval(A.id(EVIL), Grant.LOAD) is None
            assert ENDED.skill not in {kept.approval.skill for kept in store.approvals() if kept.ended is None}
            for kept in store.approvals():
                assert (kept.approval.answer is Answer.DENY) == (kept.approval.skill == OTHER.id())
    except StateError as error:
        failures.append(error.message)


@pytest.mark.rule("K4")
def test_a_file_that_was_cut_short_is_told_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "answers.db"
    whole = filled(path)
    for length in (2, 50, 100, 4096, 5000, len(whole) // 2, len(whole) - 4096):
        path.write_bytes(whole[:length])
        failures: list[str] = []
        ask(path, failures)
        assert len(failures) == 1, length
        assert "It is damaged, and is left as it is" in failures[0]
        assert path.read_bytes() == whole[:length]


@pytest.mark.rule("A1", "K4")
def test_bytes_that_changed_in_the_file_never_make_an_answer(tmp_path: Path) -> None:
    path = tmp_path / "answers.db"
    whole = filled(path)
    chance = random.Random(2640)
    failures: list[str] = []
    for _ in range(150):
        damaged = bytearray(whole)
        for _ in range(chance.choice((1, 1, 8, 200))):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        if chance.random() < 0.3:
            page = chance.randrange(len(whole) // 4096) * 4096
            damaged[page : page + 4096] = bytes(4096)
        path.write_bytes(damaged)
        for beside in ("-wal", "-shm"):
            path.with_name(path.name + beside).unlink(missing_ok=True)
        ask(path, failures)
    assert failures


@pytest.mark.parametrize("name", ["file/answers.db", "file/deep/answers.db", "directory", "pipe", "nul\0", ""])
def test_a_path_that_cannot_be_a_file_is_told(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "directory").mkdir()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(StateError, match="choose another place"):
        Store.open(f"{tmp_path}/{name}" if name else "")


READ_ONLY = """
directory = sys.argv[1]
if os.geteuid() == 0:  # nothing is read-only for root
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
for path in (f"{directory}/answers.db", f"{directory}/deep/answers.db"):
    try:
        Store.open(path)
    except StateError as error:
        print(error.message)
"""


def test_a_directory_that_cannot_be_written_is_told(tmp_path_factory: pytest.TempPathFactory) -> None:
    directory = tmp_path_factory.mktemp("read-only")
    directory.chmod(0o555)
    told = run(READ_ONLY, directory).stdout.splitlines()
    assert len(told) == 2
    for message in told:
        assert message.startswith(str(directory)), message
        assert "ermission denied" in message
        assert message.endswith("Give this user the right to write there, or choose another place.")


def test_a_disk_that_is_full_loses_no_answer_and_keeps_no_half_of_one(tmp_path: Path) -> None:
    path = tmp_path / "answers.db"
    with closing(Store.open(path)) as store:
        database: Any = store._database
        connection: sqlite3.Connection = database._connection
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages + 20}")
        kept = record_until_it_fails(store, print_each=False)
        assert kept
        for skill in kept:
            assert store.approval(skill.id(), Grant.LOAD) is not None
        assert len(store.approvals()) == len(store.audit(limit=10_000)) == len(kept)
        connection.execute("PRAGMA max_page_count = 100000")
        store.record(ALLOWED, A.entry, at=1.0)
        assert store.approval(A.id(), Grant.LOAD) == ALLOWED


def record_until_it_fails(store: Store, *, print_each: bool) -> list[Any]:
    kept: list[Any] = []
    for number in range(10_000):
        skill = publish({"a.md": b"1"}, at=f"skill://skill-{number}")
        approval = Approval.of(skill.id(), skill.entry, grant=Grant.LOAD, answer=Answer.ALLOW)
        try:
            store.record(approval, skill.entry, at=1.0)
        except StateError as error:
            if print_each:
                print(error.message)
            else:
                assert error.message.endswith("Free some space and try again.")
            return kept
        kept.append(skill)
        if print_each:
            print(number, flush=True)
    raise AssertionError("the disk was never full")


FULL = """
import resource
store = Store.open(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
record_until_it_fails(store, print_each=True)
store.approval(A.id(), Grant.LOAD)
print("still reads")
os._exit(0)
"""


@pytest.mark.rule("K4")
@pytest.mark.parametrize("limit", [200_000, 300_001, 423_456])
def test_a_write_that_the_system_refuses_loses_no_answer(tmp_path: Path, limit: int) -> None:
    path = tmp_path / "answers.db"
    *numbers, message, last = run(FULL, path, limit).stdout.splitlines()
    assert last == "still reads"
    assert "answers.db cannot be read or written" in message
    assert "full" in message
    with closing(Store.open(path)) as store:
        for number in numbers:
            skill = publish({"a.md": b"1"}, at=f"skill://skill-{number}")
            found = store.approval(skill.id(), Grant.LOAD)
            assert found is not None
            assert found.covers(skill.entry)
        assert len(store.approvals()) == len(store.audit(limit=10_000)) == len(numbers)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


# Others who hold on to it


def test_a_database_that_is_locked_too_long_is_told(
    where: str, open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_module, "PATIENCE", 0.3)
    store = open_store()
    store.record(ALLOWED, A.entry, at=1.0)
    other = open_database(where)
    with other.transaction(write=True):
        with pytest.raises(StateError, match=r"Try again, or end the program that holds it\."):
            store.record(ALLOWED, A.entry, at=2.0)
        # Reading, and seeing what has not changed, wait for nobody.
        assert store.approval(A.id(), Grant.LOAD) == ALLOWED
        assert store.observe(ACME, [A.entry], at=3.0) == []
    other.close()
    store.record(ALLOWED, A.entry, at=4.0)


def test_a_new_file_that_another_process_is_just_setting_up_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "answers.db"
    opened: list[Store] = []
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        thread = threading.Thread(target=lambda: opened.append(Store.open(path)))
        thread.start()
        thread.join(0.3)
        assert not opened
        other.execute("COMMIT")
        thread.join(30)
    with closing(opened[0]) as store:
        store.record(ALLOWED, A.entry, at=1.0)


def test_a_store_that_was_closed_says_so(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "answers.db")
    store.close()
    with pytest.raises(StateError, match="closed"):
        store.approval(A.id(), Grant.LOAD)


# PostgreSQL


def closed_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def test_a_server_that_does_not_answer_is_told_without_the_password() -> None:
    port = closed_port()
    url = f"postgresql://me:sesame@127.0.0.1:{port}/answers?sslpassword=tahini"
    with pytest.raises(StateError, match="See whether the server runs and the URL is right") as caught:
        Store.open(url)
    assert f"postgresql://127.0.0.1:{port}/answers" in caught.value.message
    for text in (caught.value.message, str(caught.value.__cause__)):
        assert "sesame" not in text
        assert "tahini" not in text


def test_a_password_is_not_shown_even_where_the_server_is_named_by_it() -> None:
    with pytest.raises(StateError) as caught:
        Store.open("postgresql://me:sesame.invalid@sesame.invalid/answers?connect_timeout=2")
    assert "to ***" in caught.value.message or "host '***'" in caught.value.message


@pytest.mark.parametrize("url", ["postgresql://me:ses@me@host/x", "postgresql://me:secret@host:port/x"])
def test_a_url_that_cannot_be_read_is_not_repeated(url: str) -> None:
    with pytest.raises(StateError, match="as %40") as caught:
        Store.open(url)
    assert "ses" not in caught.value.message
    assert "secret" not in caught.value.message


@pytest.mark.parametrize("url", ["mysql://root:sesame@host/x", "sqlite:///x.db", "https://host"])
def test_another_kind_of_url_is_not_taken_for_a_path(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StateError, match="Give a path or a postgresql:// URL") as caught:
        Store.open(url)
    assert "sesame" not in caught.value.message
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("package", ["psycopg", "sqlalchemy"])
def test_a_missing_package_is_told_with_how_to_install_it(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(StateError, match=r'pip install "skillquay\[postgres\]"'):
        Store.open("postgresql://host/x")


def test_a_store_in_a_file_imports_nothing_of_postgresql() -> None:
    script = "Store.open(':memory:').close(); print(*sorted({'psycopg', 'sqlalchemy'} & set(sys.modules)))"
    assert run(script).stdout.strip() == ""


def let_in(url: str, role: str, rights: str) -> str:
    """The URL for another role, one that may not create tables."""
    schema = url.rpartition("%3D")[2]
    change(
        url,
        f"DO 'BEGIN IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = ''{role}'') "
        f"THEN CREATE ROLE {role} LOGIN; END IF; END'",
    )
    change(url, f"GRANT USAGE ON SCHEMA {schema} TO {role}")
    change(url, f"GRANT {rights} ON ALL TABLES IN SCHEMA {schema} TO {role}")
    return url.replace("postgres@", f"{role}@")


def test_a_database_that_is_missing_is_told(postgres_url: str) -> None:
    with pytest.raises(StateError, match=r'database "nowhere" does not exist\. See whether'):
        Store.open(postgres_url.replace("/postgres?", "/nowhere?"))


def test_a_right_that_is_missing_is_told(postgres_url: str) -> None:
    Store.open(postgres_url).close()
    with closing(Store.open(let_in(postgres_url, "guest", "SELECT"))) as store:
        assert store.approval(A.id(), Grant.LOAD) is None
        with pytest.raises(StateError, match=r"permission denied.*Give this user the right"):
            store.record(ALLOWED, A.entry, at=1.0)


def test_a_user_who_may_not_create_tables_can_use_them(postgres_url: str) -> None:
    Store.open(postgres_url).close()
    with closing(Store.open(let_in(postgres_url, "clerk", "SELECT, INSERT, UPDATE, DELETE"))) as store:
        store.record(ALLOWED, A.entry, at=1.0)
        assert store.approval(A.id(), Grant.LOAD) == ALLOWED


def test_a_connection_that_was_cut_is_made_anew(postgres_url: str) -> None:
    with closing(Store.open(postgres_url)) as store:
        store.record(ALLOWED, A.entry, at=1.0)
        cut = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE pid <> pg_backend_pid() AND datname = current_database()"""
        change(postgres_url, cut)
        assert store.approval(A.id(), Grant.LOAD) == ALLOWED


@pytest.mark.rule("K4")
def test_an_answer_is_durable_even_where_the_server_is_set_to_be_hasty(postgres_url: str) -> None:
    hasty = postgres_url + "%20-csynchronous_commit%3Doff"
    database = open_database(hasty)
    with database.transaction(write=False) as transaction:
        assert transaction.execute("SHOW synchronous_commit") == [("off",)]
    with database.transaction(write=True) as transaction:
        assert transaction.execute("SHOW synchronous_commit") == [("on",)]
    database.close()


@pytest.mark.rule("K4")
def test_a_file_of_another_kind_or_another_program_is_left_as_it_is(tmp_path: Path) -> None:
    text, foreign = tmp_path / "passwd", tmp_path / "cookies.sqlite"
    text.write_bytes(b"someone:x:0:0\n" * 100)
    with sqlite3.connect(foreign) as database:
        database.execute("CREATE TABLE cookies (name TEXT)")
    database.close()
    for path in (text, foreign):
        path.chmod(0o644)
        before = path.read_bytes()
        with pytest.raises(StateError):
            Store.open(path)
        assert path.read_bytes() == before
        assert path.stat().st_mode & 0o777 == 0o644
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cookies.sqlite", "passwd"]
