"""Answers are kept for one skill of one server and for one content, and end for good; in SQLite and in PostgreSQL."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from skillquay.core.approvals import Answer, Approval, Grant
from skillquay.core.changes import ManifestChange
from skillquay.core.identity import ServerLabel, SkillId
from skillquay.core.uris import SkillUri
from skillquay.errors import StateError, VerificationError
from skillquay.host.database import Database, Transaction, open_database
from skillquay.host.store import Event, Store
from tests.core.builders import ACME, EVIL, Published, publish, skill_md

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from skillquay.core.entries import SkillEntry
    from tests.host.conftest import OpenStore

A = publish({"a.md": b"1"})
B = publish({"a.md": b"2"})
OTHER = publish({"a.md": b"1"}, at="skill://billing")
DYNAMIC = publish(dynamic=True)
ELSEWHERE = ServerLabel(label="acme", scope="another workspace")


def answer(
    skill: Published, grant: Grant = Grant.LOAD, said: Answer = Answer.ALLOW, *, who: SkillId | None = None
) -> Approval:
    return Approval.of(who or skill.id(), skill.entry, grant=grant, answer=said)


def keep(store: Store, skill: Published, grant: Grant = Grant.LOAD, *, server: ServerLabel = ACME) -> Approval:
    approval = answer(skill, grant, who=skill.id(server))
    store.record(approval, skill.entry, at=1.0)
    return approval


def kinds(store: Store, skill: SkillId | None = None) -> list[str]:
    """What happened, in the order it did."""
    return [event.kind for event in reversed(store.audit(limit=10_000, skill=skill))]


# Answers


@pytest.mark.rule("A1")
@pytest.mark.parametrize("said", list(Answer))
@pytest.mark.parametrize("grant", list(Grant))
def test_an_answer_comes_back_whole_after_the_store_was_closed(
    open_store: OpenStore, grant: Grant, said: Answer
) -> None:
    approval = answer(A, grant, said)
    first = open_store()
    first.record(approval, A.entry, at=12.5)
    first.close()
    second = open_store()
    assert second.approval(A.id(), grant) == approval
    kept = second.last_answered(A.id(), grant)
    assert kept is not None
    assert (kept.approval, kept.entry, kept.at, kept.ended) == (approval, A.entry, 12.5, None)
    assert second.approvals() == [kept]


@pytest.mark.rule("A1")
def test_an_answer_says_nothing_about_another_grant(store: Store) -> None:
    keep(store, A, Grant.LOAD)
    assert store.approval(A.id(), Grant.EXECUTE) is None
    assert store.approval(A.id(), Grant.TOOLS) is None


@pytest.mark.rule("N1")
def test_an_answer_says_nothing_about_the_same_uri_on_another_server_or_in_another_workspace(store: Store) -> None:
    keep(store, A)
    for server in (EVIL, ELSEWHERE):
        assert store.approval(A.id(server), Grant.LOAD) is None
        assert store.last_answered(A.id(server), Grant.LOAD) is None
        assert store.approvals(server) == []
        assert store.observe(server, [B.entry], refused=[A.entry.uri], at=2.0) == []
        assert store.revoke(A.id(server), at=2.0) == 0
        assert store.audit(skill=A.id(server)) == []
    assert store.approval(A.id(), Grant.LOAD) is not None
    assert len(store.approvals(ACME)) == 1


@pytest.mark.rule("N1")
def test_scope_label_and_uri_never_run_into_each_other(store: Store) -> None:
    one = ServerLabel(label="b", scope='a", "b')
    two = ServerLabel(label='b", "b', scope="a")
    keep(store, A, server=one)
    assert store.approval(A.id(two), Grant.LOAD) is None


@pytest.mark.rule("N1")
def test_two_spellings_of_a_uri_are_one_skill_and_its_servers_spelling_is_kept(store: Store) -> None:
    asked = publish(at="skill://q%26a/refunds")
    keep(store, asked)
    other = SkillId(server=ACME, uri=SkillUri("skill://q&a/refunds/SKILL.md"))
    found = store.approval(other, Grant.LOAD)
    assert found is not None
    assert str(found.skill.uri) == "skill://q%26a/refunds/SKILL.md"
    assert [event.uri for event in store.audit(skill=other)] == ["skill://q%26a/refunds/SKILL.md"]
    assert store.revoke(other, at=2.0) == 1


def test_a_server_whose_scope_is_a_path_that_is_not_unicode_is_kept(open_store: OpenStore) -> None:
    server = ServerLabel(label="ácme", scope="/home/\udcff\0/é")
    approval = keep(open_store(), A, server=server)
    store = open_store()
    assert store.approval(A.id(server), Grant.LOAD) == approval
    assert [kept.approval.skill.server for kept in store.approvals(server)] == [server]
    assert store.audit()[0].scope == server.scope


def test_a_uri_and_a_manifest_as_long_as_they_may_be_are_kept(open_store: OpenStore) -> None:
    at = "skill://" + "é%C3%A9" * 550 + "/refunds"
    long = publish({f"{number:0100}.md": b"" for number in range(511)}, at=at)
    approval = keep(open_store(), long)
    kept = open_store().last_answered(long.id(), Grant.LOAD)
    assert kept is not None
    assert (kept.approval, kept.entry) == (approval, long.entry)


def test_fields_of_an_entry_that_nobody_knows_are_not_kept(open_store: OpenStore) -> None:
    strange = publish({"a.md": b"1"}, extra={"x": "\ud800", "y": ["deep"]})
    store = open_store()
    keep(store, strange)
    kept = store.last_answered(strange.id(), Grant.LOAD)
    assert kept is not None
    assert kept.entry is not None
    assert kept.entry == A.entry


@pytest.mark.rule("A1")
def test_a_new_answer_takes_the_place_of_the_old_one(store: Store) -> None:
    store.record(answer(A, said=Answer.ALLOW), A.entry, at=1.0)
    store.record(answer(B, said=Answer.DENY), B.entry, at=2.0)
    found = store.approval(A.id(), Grant.LOAD)
    assert found is not None
    assert found.answer is Answer.DENY
    assert found.covers(B.entry)
    assert len(store.approvals()) == 1
    assert kinds(store) == ["allow", "deny"]


@pytest.mark.rule("A1")
def test_an_answer_about_other_content_than_the_entry_is_not_kept(store: Store) -> None:
    with pytest.raises(VerificationError, match="not about this entry"):
        store.record(answer(A), B.entry, at=1.0)
    with pytest.raises(VerificationError, match="is not acme"):
        store.record(answer(A), OTHER.entry, at=1.0)
    assert store.approvals() == []
    assert store.audit() == []


@pytest.mark.rule("A3")
def test_an_answer_about_a_dynamic_skill_is_not_kept(store: Store) -> None:
    forged = Approval(skill=A.id(), grant=Grant.LOAD, answer=Answer.ALLOW, pairs=(), shown=DYNAMIC.entry.shown)
    with pytest.raises(VerificationError, match="cannot be verified whole"):
        store.record(forged, DYNAMIC.entry, at=1.0)
    assert store.approvals() == []


def test_answers_of_one_server_are_listed_in_order_and_ended_ones_too(store: Store) -> None:
    for skill, grant, server in [
        (OTHER, Grant.LOAD, ACME),
        (A, Grant.TOOLS, ACME),
        (A, Grant.LOAD, ACME),
        (A, Grant.LOAD, EVIL),
    ]:
        keep(store, skill, grant, server=server)
    store.revoke(OTHER.id(), at=9.0)
    listed = [(kept.approval.skill.uri.segments[0], kept.approval.grant, kept.ended) for kept in store.approvals(ACME)]
    assert listed == [("billing", Grant.LOAD, 9.0), ("refunds", Grant.LOAD, None), ("refunds", Grant.TOOLS, None)]
    assert len(store.approvals()) == 4


def test_taking_back_ends_all_answers_about_a_skill_and_no_others(store: Store) -> None:
    for grant in Grant:
        keep(store, A, grant)
    keep(store, OTHER)
    assert store.revoke(A.id(), at=5.0) == 3
    assert store.revoke(A.id(), at=6.0) == 0
    assert all(store.approval(A.id(), grant) is None for grant in Grant)
    assert store.approval(OTHER.id(), Grant.LOAD) is not None
    kept = store.last_answered(A.id(), Grant.LOAD)
    assert kept is not None
    assert kept.ended == 5.0
    assert kinds(store, A.id()) == ["allow"] * 3 + ["revoke"] * 3


# Observing


@pytest.mark.rule("A2")
def test_the_same_content_seen_again_ends_nothing_and_writes_nothing(store: Store) -> None:
    approval = keep(store, A)
    before = store.audit()
    assert store.observe(ACME, [A.entry, OTHER.entry], at=2.0) == []
    assert store.approval(A.id(), Grant.LOAD) == approval
    assert store.audit() == before


@pytest.mark.rule("A2")
def test_other_content_ends_the_answer_and_the_first_content_does_not_revive_it(open_store: OpenStore) -> None:
    store = open_store()
    approval = keep(store, A)
    keep(store, A, Grant.TOOLS)
    revocations = store.observe(ACME, [B.entry], at=2.0)
    assert {each.approval.grant for each in revocations} == {Grant.LOAD, Grant.TOOLS}
    assert {each.change for each in revocations} == {ManifestChange(rewritten=("skill://refunds/a.md",))}
    later = open_store()
    assert later.observe(ACME, [A.entry], at=3.0) == []
    assert later.approval(A.id(), Grant.LOAD) is None
    kept = later.last_answered(A.id(), Grant.LOAD)
    assert kept is not None
    assert (kept.approval, kept.entry, kept.ended) == (approval, A.entry, 2.0)
    assert kinds(later) == ["allow", "allow", "changed", "changed"]


@pytest.mark.rule("A2")
@pytest.mark.parametrize(
    ("now", "change"),
    [
        (publish(), ManifestChange(removed=("skill://refunds/a.md",))),
        (publish({"a.md": b"1", "b.md": b"1"}), ManifestChange(added=("skill://refunds/b.md",))),
        (
            DYNAMIC,
            ManifestChange(removed=("skill://refunds/SKILL.md", "skill://refunds/a.md"), became_dynamic=True),
        ),
        (
            publish({"a.md": b"1"}, frontmatter={"name": "refunds", "description": "Something else."}),
            ManifestChange(frontmatter_changed=True),
        ),
    ],
    ids=["removed", "added", "dynamic", "frontmatter"],
)
def test_what_moved_is_told(store: Store, now: Published, change: ManifestChange) -> None:
    keep(store, A)
    assert [each.change for each in store.observe(ACME, [now.entry], at=2.0)] == [change]
    assert store.approval(A.id(), Grant.LOAD) is None


@pytest.mark.rule("A2")
def test_a_denial_ends_like_any_answer(store: Store) -> None:
    store.record(answer(A, said=Answer.DENY), A.entry, at=1.0)
    assert len(store.observe(ACME, [B.entry], at=2.0)) == 1
    assert store.approval(A.id(), Grant.LOAD) is None


@pytest.mark.rule("A2")
def test_an_entry_that_is_not_valid_any_more_ends_the_answer(store: Store) -> None:
    keep(store, A)
    keep(store, OTHER)
    spelled = SkillUri("skill://refund%73/SKILL.md")
    revocations = store.observe(ACME, [A.entry, OTHER.entry], refused=[spelled, spelled], at=2.0)
    assert [each.approval.skill for each in revocations] == [A.id()]
    assert revocations[0].change.removed == ("skill://refunds/SKILL.md", "skill://refunds/a.md")
    assert store.approval(A.id(), Grant.LOAD) is None
    assert store.approval(OTHER.id(), Grant.LOAD) is not None
    assert kinds(store, A.id()) == ["allow", "refused"]


def test_a_skill_that_is_not_listed_keeps_its_answer(store: Store) -> None:
    keep(store, A)
    assert store.observe(ACME, [], at=2.0) == []
    assert store.approval(A.id(), Grant.LOAD) is not None


@cache
def many() -> list[SkillEntry]:
    return [publish(at=f"skill://pack/skill-{number}").entry for number in range(10_000)]


def test_ten_thousand_entries_are_observed_in_no_time(store: Store) -> None:
    keep(store, A)
    began = time.process_time()
    assert [each.approval.skill for each in store.observe(ACME, [*many(), B.entry], at=2.0)] == [A.id()]
    assert time.process_time() - began < 5


class Interrupted:
    """A database in which something happens just before someone writes."""

    def __init__(self, database: Database, happens: Callable[[], None]) -> None:
        self._database = database
        self._happens: Callable[[], None] | None = happens
        self.shown = database.shown

    @contextmanager
    def transaction(self, *, write: bool) -> Iterator[Transaction]:
        if write and self._happens:
            happens, self._happens = self._happens, None
            happens()
        with self._database.transaction(write=write) as transaction:
            yield transaction

    def version(self) -> tuple[int, int] | None:
        return self._database.version()

    def close(self) -> None:
        self._database.close()


@pytest.mark.rule("A2")
def test_an_answer_given_while_its_content_is_being_observed_stands(where: str, store: Store) -> None:
    keep(store, A)
    observer = Store(Interrupted(open_database(where), lambda: store.record(answer(B), B.entry, at=2.0)))
    try:
        assert observer.observe(ACME, [B.entry], at=3.0) == []
    finally:
        observer.close()
    assert store.approval(A.id(), Grant.LOAD) == answer(B)


# Folders and switches


def test_a_trusted_folder_is_trusted_until_it_is_not(open_store: OpenStore) -> None:
    folders = ["/home/é", "/home/\udcff", "/" + "long/" * 800]
    store = open_store()
    for folder in folders:
        store.trust(folder, at=1.0)
        store.trust(folder, at=2.0)
    again = open_store()
    assert again.trusted() == sorted(folders)
    assert all(again.is_trusted(folder) for folder in folders)
    assert not again.is_trusted("/work")
    assert not again.is_trusted("/home/é/inside")
    again.distrust(folders[0], at=3.0)
    again.distrust(folders[0], at=4.0)
    assert not store.is_trusted(folders[0])
    assert store.trusted() == sorted(folders[1:])
    assert kinds(store) == ["trust"] * 3 + ["distrust"]
    assert [event.detail for event in store.audit(limit=1)] == [folders[0]]


def test_what_is_disabled_stays_so_until_it_is_enabled(open_store: OpenStore) -> None:
    store = open_store()
    store.disable("server acme", at=1.0)
    store.disable("server acme", at=2.0)
    store.disable("skill x\0", at=3.0)
    assert open_store().disabled() == {"server acme", "skill x\0"}
    store.enable("server acme", at=4.0)
    store.enable("server acme", at=5.0)
    assert open_store().disabled() == {"skill x\0"}
    assert not store.is_trusted("skill x\0")
    assert kinds(store) == ["disable", "disable", "enable"]


# The audit


def test_the_audit_gives_the_newest_first_and_everything_as_it_was_noted(open_store: OpenStore) -> None:
    events = [
        Event(at=float(number), kind="read", server="acme", scope="/w", uri=f"skill://s-{number}/SKILL.md", detail=text)
        for number, text in enumerate(["plain", "new\nline", "\0 \ud800 \u202e", '"quoted"', "x" * 5000])
    ]
    store = open_store()
    for event in events:
        store.note(event)
    assert open_store().audit() == events[::-1]
    assert store.audit(limit=2) == [events[4], events[3]]
    one = SkillId(server=ServerLabel(label="acme", scope="/w"), uri=SkillUri("skill://s-1/SKILL.md"))
    assert store.audit(skill=one) == [events[1]]
    assert store.audit(skill=one, limit=0) == []


def test_an_event_that_is_about_no_skill_is_noted(store: Store) -> None:
    store.note(Event(at=1.0, kind="start", uri="not a uri"))
    assert store.audit() == [Event(at=1.0, kind="start", uri="not a uri")]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE skillquay_audit SET detail = '\"\"'",
        "UPDATE skillquay_audit SET at = 0 WHERE id = 1",
        "DELETE FROM skillquay_audit",
        "DELETE FROM skillquay_audit WHERE id = 1",
    ],
)
def test_the_audit_only_grows(where: str, store: Store, statement: str) -> None:
    keep(store, A)
    before = store.audit()
    database = open_database(where)
    try:
        with pytest.raises(StateError, match="append-only"), database.transaction(write=True) as transaction:
            transaction.execute(statement)
    finally:
        database.close()
    assert store.audit() == before


def test_an_answer_and_its_line_in_the_audit_are_written_together_or_not_at_all(where: str, store: Store) -> None:
    approval = keep(store, A)
    database = open_database(where)
    if where.startswith("postgresql"):
        spoil = "ALTER TABLE skillquay_audit ADD CHECK (kind <> '\"deny\"')"
    else:
        spoil = """CREATE TRIGGER spoil BEFORE INSERT ON skillquay_audit WHEN NEW.kind = '"deny"'
          BEGIN SELECT RAISE(ABORT, 'spoiled'); END"""
    with database.transaction(write=True) as transaction:
        transaction.execute(spoil)
    database.close()
    with pytest.raises(StateError, match="cannot be read or written"):
        store.record(answer(A, said=Answer.DENY), A.entry, at=2.0)
    assert store.approval(A.id(), Grant.LOAD) == approval
    assert kinds(store) == ["allow"]


# Several threads and processes


def test_threads_share_one_store(store: Store) -> None:
    skills = [publish(at=f"skill://skill-{number}") for number in range(40)]
    failures: list[BaseException] = []

    def work(mine: list[Published]) -> None:
        try:
            for skill in mine:
                approval = keep(store, skill)
                assert store.observe(ACME, [skill.entry], at=2.0) == []
                assert store.approval(skill.id(), Grant.LOAD) == approval
        except BaseException as error:  # noqa: BLE001 - told to the test
            failures.append(error)

    threads = [threading.Thread(target=work, args=(skills[start::4],)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(store.approvals()) == 40
    assert len(store.audit(limit=1000)) == 40


RIVAL = """
import sys
from skillquay.host.store import Store
from tests.core.builders import publish
from tests.host.test_store import A, ACME, B, answer, keep

role, where, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
sys.stdin.readline()
store = Store.open(where)
if role == "answers":
    for _ in range(rounds):
        store.record(answer(A), A.entry, at=1.0)
    store.disable("done", at=1.0)
elif role == "observes":
    done = False
    while not done:
        done = "done" in store.disabled()
        store.observe(ACME, [B.entry], at=2.0)
else:
    for number in range(rounds):
        keep(store, publish(at=f"skill://{role}-{number}"))
store.close()
"""


def start(role: str, where: str, rounds: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", RIVAL, role, where, str(rounds)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE)


def finish(processes: list[subprocess.Popen[bytes]]) -> None:
    """Let them all begin at once, and wait for their end."""
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(b"\n")
        process.stdin.flush()
    errors = [process.communicate(timeout=120)[1].decode() for process in processes]
    assert errors == [""] * len(processes)


@pytest.mark.rule("A2", "K4")
def test_one_process_answers_while_others_observe_and_each_answer_ends_once(where: str, open_store: OpenStore) -> None:
    finish([start("answers", where, 150), start("observes", where, 0), start("observes", where, 0)])
    store = open_store()
    happened = kinds(store, A.id())
    assert happened.count("allow") == 150
    # What stood when other content was seen ended then, and once, whoever of the two saw it first.
    assert all(before == "allow" for before, now in pairwise(happened) if now == "changed")
    assert happened[-1] == "changed"
    assert store.approval(A.id(), Grant.LOAD) is None


@pytest.mark.rule("K4")
def test_processes_that_open_a_new_store_and_write_at_once_lose_nothing(where: str, open_store: OpenStore) -> None:
    roles = ["one", "two", "three", "four", "five", "six"]
    finish([start(role, where, 15) for role in roles])
    store = open_store()
    for role in roles:
        for number in range(15):
            skill = publish(at=f"skill://{role}-{number}")
            assert store.approval(skill.id(), Grant.LOAD) == answer(skill)
    assert len(store.audit(limit=1000)) == 90


# The place


def test_the_file_and_its_directory_are_the_users_alone(tmp_path: Path) -> None:
    path = tmp_path / "state" / "deep" / "answers.db"
    mask = os.umask(0)
    try:
        store = Store.open(path)
        keep(store, A)
        modes = {each.name: each.stat().st_mode & 0o777 for each in (path.parent, *path.parent.iterdir())}
        store.close()
    finally:
        os.umask(mask)
    assert modes == {"deep": 0o700, "answers.db": 0o600, "answers.db-wal": 0o600, "answers.db-shm": 0o600}


def test_a_file_that_others_can_read_is_closed_to_them(tmp_path: Path) -> None:
    path = tmp_path / "answers.db"
    path.touch()
    path.chmod(0o666)
    Store.open(path).close()
    assert path.stat().st_mode & 0o777 == 0o600


def test_every_commit_reaches_the_disk(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "answers.db")
    database: Any = store._database
    connection: sqlite3.Connection = database._connection
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
    store.close()


def test_a_store_in_memory_works_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = Store.open(":memory:")
    keep(store, A)
    assert store.approval(A.id(), Grant.LOAD) == answer(A)
    store.close()
    assert list(tmp_path.iterdir()) == []


def test_a_second_store_of_the_same_process_does_not_unlock_the_first(tmp_path: Path) -> None:
    path = tmp_path / "answers.db"
    first = Store.open(path)
    keep(first, A)
    Store.open(path).close()
    # Another process that comes and goes must not take itself for the last one, and clear away the log in use.
    script = "import sys; from skillquay.host.store import Store; Store.open(sys.argv[1]).close()"
    subprocess.run([sys.executable, "-c", script, path], check=True)
    assert (tmp_path / "answers.db-wal").exists()
    keep(first, OTHER)
    first.close()
    again = Store.open(path)
    assert len(again.approvals()) == 2
    again.close()


def test_a_frontmatter_of_every_kind_of_value_comes_back(store: Store) -> None:
    lines = ("license: é☃", "metadata:", "  a: '1.10'", "x: [1, 2.5, true, null, {y: z}]")
    skill = publish({"SKILL.md": skill_md("refunds", *lines)})
    keep(store, skill)
    kept = store.last_answered(skill.id(), Grant.LOAD)
    assert kept is not None
    assert kept.entry == skill.entry
