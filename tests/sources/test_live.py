"""What is announced can be read, byte for byte, and what changed is told, no more and no less."""

from __future__ import annotations

import json
import logging
import os
import shutil
import sqlite3
import tempfile
import threading
from contextlib import ExitStack, closing
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillquay.core.catalog import Catalog, Listed, find_file
from skillquay.core.digests import Digest
from skillquay.core.entries import FileRecord, Manifest
from skillquay.core.uris import SkillUri
from skillquay.sources.function import check_generated
from skillquay.sources.live import Change, LiveCatalog
from skillquay.sources.tree import DirectorySource
from tests.sources.builders import clock_ahead, largest_file, open_tree, rewrite_unseen, skill, skill_text
from tests.sources.trees import Model, Operation, Tree, below, writing_operations

if TYPE_CHECKING:
    from collections.abc import Iterator

MEBIBYTE = 1 << 20


def live_of(*roots: Path | str, index: Path | None = None, strict: bool = False, prefix: str = "") -> LiveCatalog:
    sources = [DirectorySource(str(root), strict=strict, prefix=prefix.split("/") if prefix else ()) for root in roots]
    live = LiveCatalog(sources, index_directory=None if index is None else str(index))
    live.load()
    live.save()
    return live


def skills(live: LiveCatalog) -> list[str]:
    return [str(listed.uri.root).removeprefix("skill://") for listed in live.catalog.listed]


def records(live: LiveCatalog | Catalog) -> Iterator[FileRecord]:
    for listed in (live.catalog if isinstance(live, LiveCatalog) else live).listed:
        if isinstance(listed.entry.resources, Manifest):
            yield from listed.entry.resources.files


def is_read(live: LiveCatalog, record: FileRecord) -> bool:
    """True when the file can be read; what is read is never anything else."""
    data = live.read(record)
    assert data is None or (Digest.of(data), len(data)) == (record.digest, record.size)
    return data is not None


def check_all_read(live: LiveCatalog) -> None:
    assert [record.uri for record in records(live) if not is_read(live, record)] == []


def record(live: LiveCatalog, uri: str) -> FileRecord:
    found = find_file(live.catalog.around(SkillUri(uri)), SkillUri(uri))
    assert found is not None
    return found


def text(live: LiveCatalog, uri: str) -> str | None:
    data = live.read(record(live, uri))
    return None if data is None else data.decode()


def uris(*texts: str) -> frozenset[SkillUri]:
    return frozenset(SkillUri(f"skill://{each}") for each in texts)


def change(skill_paths: list[str], files: list[str]) -> Change:
    own = [f"{path}/SKILL.md" for path in skill_paths]
    return Change(skills=uris(*own), files=uris(*own, *files))


def kinds(live: LiveCatalog) -> list[str]:
    return [remark.finding.kind for remark in live.remarks]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    skill(tmp_path, "tree/one", a_md="a", b_md="b")
    skill(tmp_path, "tree/two", a_md="a")
    skill(tmp_path, "tree/outer", x_md="x")
    skill(tmp_path, "tree/outer/inner", y_md="y")
    return tmp_path / "tree"


# Entries and bytes


@settings(max_examples=60)
@given(
    st.sets(below, max_size=4),
    st.lists(
        st.tuples(
            st.lists(writing_operations, max_size=3),
            st.sampled_from(["refresh", "refresh", "refresh", "restart", "verify", "wait"]),
        ),
        min_size=1,
        max_size=8,
    ),
)
def test_entry_and_bytes_agree_whatever_happens_to_the_files_before_and_after_a_look(
    start: set[str], steps: list[tuple[list[Operation], str]]
) -> None:
    with ExitStack() as stack:
        base = stack.enter_context(open_tree())
        stack.enter_context(clock_ahead())
        tree = Tree(base / "one")
        tree.root.mkdir()
        for path in sorted(start):
            tree.write_a_good_skill(path, "")
        live, model = live_of(tree.root, index=base / "index"), Model(tree, (), is_part=False)
        tree.changed.clear()
        for operations, then in steps:
            for operation in operations:
                tree.do(*operation)
            had_claims = bool(live.sources[0].claims)
            for each in records(live):
                if not is_read(live, each):  # it was never read, and is gone: its skill is read now
                    assert had_claims
                    live.refresh_file(each.uri)
            if then == "verify":
                while live.verify_some(1)[0]:
                    pass
                check_all_read(live)
            if then == "restart":
                live, had_claims = live_of(tree.root, index=base / "index"), True
            if then in {"refresh", "restart"}:
                model.published = published(live)
                live.refresh(tree.changed)
                tree.changed.clear()
                model.look()
                check_all_read(live)
                # What was never read is not kept when it breaks; all else is.
                assert published(live).items() <= model.published.items()
                assert had_claims or published(live) == model.published


def published(live: LiveCatalog) -> dict[SkillUri, Listed]:
    return {listed.uri: listed for listed in live.catalog.listed}


def test_files_are_read_as_they_were_announced_until_the_change_is_looked_at(tree: Path) -> None:
    live = live_of(tree)
    announced = {each.uri: live.read(each) for each in records(live)}
    (tree / "one/a.md").write_text("changed")
    (tree / "one/b.md").unlink()
    shutil.rmtree(tree / "outer")
    assert {each.uri: live.read(each) for each in records(live)} == announced
    assert None not in announced.values()
    before = live.catalog
    live.refresh([str(tree / "one/a.md"), str(tree / "outer")])
    assert text(live, "skill://one/a.md") == "changed"
    check_all_read(live)
    # Whoever took the catalog before sees one moment throughout.
    assert before.skill(SkillUri("skill://outer/SKILL.md")) is not None


def test_a_broken_skill_is_read_in_its_last_good_version(tree: Path) -> None:
    live = live_of(tree)
    (tree / "one/SKILL.md").write_text("broken")
    (tree / "one/a.md").unlink()
    assert live.refresh([str(tree / "one")]) is None
    assert text(live, "skill://one/SKILL.md") == skill_text("one")
    assert text(live, "skill://one/a.md") == "a"
    assert "last-good" in kinds(live)


def test_a_file_that_is_nowhere_any_more_is_not_read(tree: Path) -> None:
    live = live_of(tree)
    unknown = FileRecord(SkillUri("skill://one/a.md"), Digest.of(b"never was"), 9)
    assert live.read(unknown) is None
    assert not live.is_at_hand(unknown)
    assert live.is_at_hand(record(live, "skill://one/a.md"))


def large_skills(root: Path, count: int, name: str = "large") -> list[Path]:
    """Skills of 12 MiB each, all different."""
    made = [skill(root, f"{name}{number}") for number in range(count)]
    for number, directory in enumerate(made):
        for part in range(3):
            (directory / f"{part}.bin").write_bytes(f"{name} {number} {part} ".encode().ljust(1024, b".") * 4096)
    return made


def test_what_is_published_outlives_the_shrinking_of_the_spool_and_so_does_what_another_source_hides() -> None:
    with open_tree() as base:
        first, second = base / "first", base / "second"
        made = large_skills(first, 6)
        skill(first, "same", a_md="first")
        skill(second, "same", a_md="second")
        live = live_of(first, second)
        gone = record(live, "skill://large0/0.bin")
        shutil.rmtree(made[0])
        live.refresh([str(made[0])])
        assert not live.is_at_hand(gone)  # it was shrunk
        check_all_read(live)
        assert all(map(live.is_at_hand, records(live)))
        # The hidden one comes to light, and its files are gone before anybody looks.
        shutil.rmtree(first / "same")
        (second / "same/a.md").write_text("changed")
        live.refresh([str(first / "same")])
        assert text(live, "skill://same/a.md") == "second"


# A full disk


@pytest.fixture(params=["full", "missing"])
def no_room(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A temporary directory without room, or none at all."""
    if request.param == "missing":
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
        yield
        return
    with largest_file(MEBIBYTE + MEBIBYTE // 2):
        yield


@pytest.mark.usefixtures("no_room")
def test_without_room_for_the_spool_files_are_read_from_their_directories(
    tree: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(5):
        (tree / "one" / f"{number}.bin").write_bytes(bytes([number]) * MEBIBYTE)
    live = live_of(tree)
    assert skills(live) == ["one", "outer", "outer/inner", "two"]
    check_all_read(live)
    (tree / "one/4.bin").write_text("changed")
    (tree / "one/3.bin").write_text("changed, too")
    last = record(live, "skill://one/4.bin")
    assert is_read(live, last) == live.is_at_hand(last)
    assert live.refresh_file(last.uri) == change(["one"], ["one/3.bin", "one/4.bin"])
    check_all_read(live)
    (tree / "one/link.md").symlink_to("a.md")
    live.refresh([str(tree / "one/link.md")])
    check_all_read(live)
    assert caplog.text.count("The temporary directory cannot be written") == 1


@pytest.mark.usefixtures("no_room")
def test_without_room_for_the_spool_a_broken_skill_is_not_announced_that_could_not_be_read(tree: Path) -> None:
    for number in range(5):
        (tree / "outer" / f"{number}.bin").write_bytes(bytes([number]) * MEBIBYTE)
    live = live_of(tree)
    for name in ("one", "outer"):
        (tree / name / "SKILL.md").write_text("broken")
    shutil.rmtree(tree / "two")
    live.refresh([str(tree)])
    check_all_read(live)
    assert "outer/inner" in skills(live)
    assert "two" not in skills(live)


# Starting from the index


@pytest.fixture
def index(tmp_path: Path) -> Path:
    return tmp_path / "cache/served"


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that are opened below the tree."""
    paths: list[str] = []
    open_ = os.open

    def noting(path: str, flags: int, mode: int = 0o777) -> int:
        paths.append(path)
        return open_(path, flags, mode)

    monkeypatch.setattr(os, "open", noting)
    return paths


def indexed(tree: Path, index: Path) -> LiveCatalog:
    """A second start, for which nothing is read."""
    with clock_ahead():
        live_of(tree, index=index)
        live = live_of(tree, index=index)
    assert len(live.sources[0].claims) == 3
    return live


def test_a_second_start_reads_no_file_and_publishes_the_same(tree: Path, index: Path, opened: list[str]) -> None:
    with clock_ahead():
        first = live_of(tree, index=index)
        opened.clear()
        second = live_of(tree, index=index)
        assert [path for path in opened if path.startswith(str(tree))] == []
    assert second.catalog.listed == first.catalog.listed
    assert not any(map(second.is_at_hand, records(second)))
    check_all_read(second)
    assert all(map(second.is_at_hand, records(second)))


def test_a_file_that_changed_after_such_a_start_is_read_with_its_skill_when_it_is_asked_for(
    tree: Path, index: Path
) -> None:
    live = indexed(tree, index)
    (tree / "outer/inner/y.md").write_text("changed")
    asked = record(live, "skill://outer/inner/y.md")
    assert live.read(asked) is None
    assert live.refresh_file(asked.uri) == change(["outer", "outer/inner"], ["outer/inner/y.md"])
    assert text(live, "skill://outer/inner/y.md") == "changed"


@pytest.mark.rule("E3")
def test_a_file_that_changed_between_two_starts_and_looks_the_same_is_read(tree: Path, index: Path) -> None:
    with clock_ahead():
        live_of(tree, index=index)
        rewrite_unseen(tree / "one/a.md", "b")
        live = live_of(tree, index=index)
    assert text(live, "skill://one/a.md") == "b"
    assert str(tree / "one") not in live.sources[0].claims


@pytest.mark.parametrize("setting", ["strict", "prefix", "name"])
def test_what_was_published_in_another_way_is_not_taken_from_the_index(tree: Path, index: Path, setting: str) -> None:
    with clock_ahead():
        live_of(tree / "one", index=index)
        if setting == "name":
            (tree / "link").symlink_to("one")
            live = live_of(tree / "link", index=index)
            assert skills(live) == []
        elif setting == "strict":
            live = live_of(tree / "one", index=index, strict=True)
        else:
            live = live_of(tree / "one", index=index, prefix="acme")
            assert skills(live) == ["acme/one"]
    assert live.sources[0].claims == {}


def test_what_is_refreshed_is_remembered_and_what_is_gone_forgotten(tree: Path, index: Path) -> None:
    with clock_ahead():
        live = live_of(tree, index=index)
        (tree / "one/a.md").write_text("changed")
        shutil.rmtree(tree / "two")
        skill(tree, "three")
        live.refresh([str(tree / name) for name in ("one", "two", "three")])
        again = live_of(tree, index=index)
    assert {os.path.basename(location) for location in again.sources[0].claims} == {"one", "outer", "three"}
    assert again.catalog.listed == live.catalog.listed


def test_what_was_removed_between_two_starts_is_forgotten(tree: Path, index: Path) -> None:
    with clock_ahead():
        live_of(tree, index=index)
        shutil.rmtree(tree / "two")
        live_of(tree, index=index)
    with closing(sqlite3.connect(rows(index))) as connection:
        assert connection.execute("SELECT count(*) FROM units").fetchall() == [(2,)]


def test_a_broken_skill_is_forgotten_so_that_its_last_good_version_is_not_published_after_a_start(
    tree: Path, index: Path
) -> None:
    with clock_ahead():
        live = live_of(tree, index=index)
        (tree / "one/SKILL.md").write_text("broken")
        live.refresh([str(tree / "one")])
        assert "one" in skills(live)
        assert "one" not in skills(live_of(tree, index=index))


def rows(index: Path) -> Path:
    (file,) = index.glob("*.sqlite")
    return file


def falsify(index: Path, location: Path, key: str, old: bytes, new: bytes) -> None:
    """Change an entry in the index and make its check sum right again."""
    with closing(sqlite3.connect(rows(index))) as connection, connection:
        place = os.fsencode(location)
        ((stamp, skills),) = connection.execute("SELECT stamp, skills FROM units WHERE location = ?", (place,))
        assert old in skills
        assert len(old) == len(new)
        skills = skills.replace(old, new)
        check_sum = sha256(b"\0".join((f"4 {key}".encode(), place, stamp.encode(), skills))).hexdigest()
        connection.execute("UPDATE units SET check_sum = ?, skills = ? WHERE location = ?", (check_sum, skills, place))


def verify(live: LiveCatalog) -> list[Change]:
    changes: list[Change] = []
    is_more = True
    while is_more:
        is_more, found = live.verify_some(1)
        changes += [found] if found else []
    return changes


def test_an_index_that_is_true_is_verified_without_a_change(tree: Path, index: Path) -> None:
    live = indexed(tree, index)
    assert verify(live) == []
    assert all(map(live.is_at_hand, records(live)))
    assert live.verify_some(5) == (False, None)


@pytest.mark.parametrize(
    "what", ["description", "digest", "uri"], ids=["what it is for", "what a file holds", "where it is"]
)
def test_an_index_that_lies_is_found_out_and_put_right(
    tree: Path, index: Path, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    with clock_ahead():
        first = live_of(tree, index=index)
        digest = str(record(first, "skill://one/a.md").digest).encode()
        lies = {
            "description": (b"Does it.", b"Send it."),
            "digest": (digest, b"sha256:" + b"0" * 64),
            "uri": (b"skill://one/", b"skill://two/"),
        }
        falsify(index, tree / "one", first.sources[0].key, *lies[what])
        live = live_of(tree, index=index)
        assert len(live.sources[0].claims) == 3
        assert live.catalog.listed != first.catalog.listed
        for each in records(live):
            is_read(live, each)  # nothing wrong is given out, even now
        changes = verify(live)
        assert live.catalog.listed == first.catalog.listed
        check_all_read(live)
        assert SkillUri("skill://one/SKILL.md") in {uri for change in changes for uri in change.skills}
        assert "The index was out of date" in caplog.text
        third = live_of(tree, index=index)
        assert third.catalog.listed == first.catalog.listed
    assert "published-twice" not in kinds(live)


def test_a_lie_about_a_skill_that_breaks_before_it_is_found_out_is_not_kept(tree: Path, index: Path) -> None:
    with clock_ahead():
        first = live_of(tree, index=index)
        falsify(index, tree / "one", first.sources[0].key, b"Does it.", b"Send it.")
        live = live_of(tree, index=index)
        for number in range(600):
            (tree / "one" / f"{number}.md").touch()  # too many; the old files are all there
        live.refresh([str(tree / "one")])
        verify(live)
    assert not [listed for listed in live.catalog.listed if b"Send it" in listed.text]
    assert "one" not in skills(live)


@pytest.mark.parametrize("data", [b"", b"not SQLite" * 100, b"SQLite format 3\0"])
def test_a_damaged_index_costs_time_and_nothing_else(tree: Path, index: Path, data: bytes) -> None:
    with clock_ahead():
        first = live_of(tree, index=index)
        rows(index).write_bytes(data)
        live = live_of(tree, index=index)
        assert live.catalog.listed == first.catalog.listed
        assert live.sources[0].claims == {}
        live.refresh([str(tree)])
        assert len(live_of(tree, index=index).sources[0].claims) == 3


def test_an_index_that_cannot_be_made_costs_time_and_nothing_else(tree: Path) -> None:
    live = live_of(tree, index=Path("/proc/nowhere"))
    (tree / "one/a.md").write_text("changed")
    assert live.refresh([str(tree / "one/a.md")]) is not None
    assert text(live, "skill://one/a.md") == "changed"


def test_a_root_whose_name_is_no_utf8_has_an_index_too(tmp_path: Path, index: Path) -> None:
    root = Path(os.fsdecode(os.path.join(os.fsencode(tmp_path), b"caf\xe9")))
    skill(root, "one")
    with clock_ahead():
        live_of(root, index=index)
        live = live_of(root, index=index)
    assert len(live.sources[0].claims) == 1
    check_all_read(live)


# Several sources


@settings(max_examples=60)
@given(
    st.sets(below, max_size=3),
    st.lists(st.lists(st.tuples(st.integers(0, 1), writing_operations), min_size=1, max_size=4), max_size=6),
)
def test_the_first_source_that_has_a_skill_keeps_it_and_a_change_tells_exactly_what_moved(
    start: set[str], steps: list[list[tuple[int, Operation]]]
) -> None:
    with open_tree() as base:
        trees = [Tree(base / name / "one") for name in ("first", "second")]
        for tree in trees:
            tree.root.mkdir(parents=True)
            for path in sorted(start):
                tree.write_a_good_skill(path, "")
            tree.changed.clear()
        live = live_of(*(tree.root for tree in trees))
        models = [Model(tree, (), is_part=False) for tree in trees]
        for model in models:
            model.look()
        for step in steps:
            for number, operation in step:
                trees[number].do(*operation)
            before = live.catalog
            told = live.refresh(path for tree in trees for path in tree.changed)
            for tree, model in zip(trees, models, strict=True):
                tree.changed.clear()
                model.look()
            expected = models[1].published | models[0].published
            assert published(live) == expected
            both = models[0].published.keys() & models[1].published.keys()
            assert kinds(live).count("published-twice") == len(both)
            assert told == difference(before, live.catalog)
            check_all_read(live)


def difference(before: Catalog, after: Catalog) -> Change | None:
    """What moved, by looking at everything."""
    old, new = served(before), served(after)
    old_skills, new_skills = ({listed.uri: listed for listed in each.listed} for each in (before, after))
    moved = {uri for uri in old.keys() | new.keys() if old.get(uri) != new.get(uri)}
    moved_skills = {uri for uri in old_skills.keys() | new_skills.keys() if old_skills.get(uri) != new_skills.get(uri)}
    if not moved_skills:
        assert not moved
        return None
    return Change(skills=frozenset(moved_skills), files=frozenset(moved | moved_skills))


def served(catalog: Catalog) -> dict[SkillUri, Digest]:
    """The digest of what is read at each URI."""
    found: dict[SkillUri, Digest] = {}
    for each in records(catalog):
        record = find_file(catalog.around(each.uri), each.uri)
        assert record is not None
        found[each.uri] = record.digest
    return found


def test_of_three_directories_with_the_same_skill_the_first_is_published_and_the_others_are_named(
    tmp_path: Path,
) -> None:
    roots = [skill(tmp_path, f"{number}/one", a_md=str(number)).parent for number in range(3)]
    live = live_of(*roots)
    assert text(live, "skill://one/a.md") == "0"
    twice = [remark for remark in live.remarks if remark.finding.kind == "published-twice"]
    assert [remark.location for remark in twice] == [str(root / "one") for root in roots[1:]]
    assert all("skill://one/SKILL.md" in remark.finding.message for remark in twice)
    (roots[1] / "one/a.md").write_text("hidden")
    assert live.refresh([str(roots[1])]) is None  # nobody sees it
    shutil.rmtree(roots[0] / "one")
    assert live.refresh([str(roots[0] / "one")]) == change(["one"], ["one/a.md"])
    assert text(live, "skill://one/a.md") == "hidden"
    assert kinds(live) == ["published-twice"]
    shutil.rmtree(roots[1] / "one")
    live.refresh([str(roots[1] / "one")])
    assert (text(live, "skill://one/a.md"), live.remarks) == ("2", [])
    skill(tmp_path, "0/one", a_md="back")
    live.refresh([str(roots[0] / "one")])
    assert text(live, "skill://one/a.md") == "back"
    check_all_read(live)


def test_a_skill_that_moves_from_one_source_to_the_other_in_one_look_is_not_gone_in_between(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    skill(first, "one", a_md="a")
    second.mkdir()
    live = live_of(first, second)
    (first / "one").rename(second / "one")
    assert live.refresh([str(first), str(second)]) is None
    (second / "one").rename(first / "one")
    (first / "one/a.md").write_text("changed")
    assert live.refresh([str(first), str(second)]) == change(["one"], ["one/a.md"])
    assert live.remarks == []


def test_the_same_directory_given_twice_is_published_once(tree: Path) -> None:
    live = live_of(tree, tree)
    assert skills(live) == ["one", "outer", "outer/inner", "two"]
    (tree / "one/a.md").write_text("changed")
    assert live.refresh([str(tree / "one/a.md")]) == change(["one"], ["one/a.md"])
    assert len(kinds(live)) == 4


# What functions generate


def generated(path: str, body: str = "Body\n") -> Listed:
    root = SkillUri(f"skill://{path}")
    return check_generated(root, skill_text(root.name, body)).listed


@pytest.mark.rule("E6")
def test_a_generated_skill_is_published_before_a_directory_s_and_only_a_new_entry_is_a_change(tree: Path) -> None:
    live = live_of(tree)
    assert live.generate(generated("today")) == change(["today"], [])
    assert live.generate(generated("today", "Another body\n")) is None
    assert live.generate(generated("one")) == change(["one"], ["one/a.md", "one/b.md"])
    assert [remark.location for remark in live.remarks] == [str(tree / "one")]
    listed = live.catalog.skill(SkillUri("skill://one/SKILL.md"))
    assert listed is not None
    assert listed.entry.resources == "dynamic"
    (tree / "one/a.md").write_text("changed")
    assert live.refresh([str(tree / "one")]) is None
    shutil.rmtree(tree / "one")
    assert live.refresh([str(tree / "one")]) is None
    assert live.remarks == []
    check_all_read(live)


def test_a_generated_entry_that_becomes_another_is_a_change_of_that_skill_alone(tree: Path) -> None:
    live = live_of(tree)
    live.generate(generated("today"))
    other = check_generated(SkillUri("skill://today"), skill_text("today", "Body\n", "license: MIT")).listed
    assert live.generate(other) == change(["today"], [])
    assert live.catalog.skill(other.uri) == other


# Changes


def test_a_change_names_the_files_that_were_added_rewritten_and_removed_and_their_skills(tree: Path) -> None:
    live = live_of(tree)
    (tree / "one/a.md").write_text("changed")
    (tree / "one/b.md").unlink()
    (tree / "one/näh.md").write_text("new")
    assert live.refresh([str(tree / "one")]) == change(["one"], ["one/a.md", "one/b.md", "one/n%C3%A4h.md"])
    assert live.refresh([str(tree / "one")]) is None
    os.utime(tree / "one/a.md")
    assert live.refresh([str(tree)]) is None


def test_a_change_in_a_nested_skill_is_one_of_the_enclosing_skill_too(tree: Path) -> None:
    live = live_of(tree)
    (tree / "outer/inner/y.md").write_text("changed")
    told = live.refresh([str(tree / "outer/inner/y.md")])
    assert told == change(["outer", "outer/inner"], ["outer/inner/y.md"])


def test_files_that_a_nested_skill_still_serves_did_not_change_with_the_enclosing_one(tree: Path) -> None:
    live = live_of(tree)
    (tree / "outer/SKILL.md").unlink()
    assert live.refresh([str(tree / "outer/SKILL.md")]) == change(["outer"], ["outer/x.md"])
    (tree / "outer/SKILL.md").write_text(skill_text("outer"))
    assert live.refresh([str(tree / "outer/SKILL.md")]) == change(["outer"], ["outer/x.md"])
    (tree / "outer/inner/SKILL.md").unlink()
    told = live.refresh([str(tree / "outer/inner/SKILL.md")])
    assert told == change(["outer", "outer/inner"], [])


def test_an_empty_directory_is_a_change_of_its_skill_and_of_no_file(tree: Path) -> None:
    live = live_of(tree)
    (tree / "one/empty").mkdir()
    assert live.refresh([str(tree / "one/empty")]) == change(["one"], [])


@pytest.mark.rule("I3")
def test_that_a_file_can_be_run_is_a_change_of_its_skills_and_of_no_file(tree: Path) -> None:
    live = live_of(tree)
    (tree / "outer/inner/y.md").chmod(0o755)
    told = live.refresh([str(tree / "outer/inner/y.md")])
    assert told == change(["outer", "outer/inner"], [])
    assert [each.executable for each in live.catalog.listed if each.executable] == [("inner/y.md",), ("y.md",)]


@pytest.mark.rule("I3")
def test_which_files_can_be_run_is_remembered_and_noticed_when_it_changes_between_runs(tree: Path, index: Path) -> None:
    def executable(live: LiveCatalog) -> dict[str, tuple[str, ...]]:
        return {each.uri.segments[0]: each.executable for each in live.catalog.listed if each.executable}

    (tree / "one/a.md").chmod(0o755)
    with clock_ahead():
        live_of(tree, index=index)
        second = live_of(tree, index=index)
        assert str(tree / "one") in second.sources[0].claims
        assert executable(second) == {"one": ("a.md",)}
        assert verify(second) == []
        (tree / "one/a.md").chmod(0o644)
        third = live_of(tree, index=index)
        assert str(tree / "one") not in third.sources[0].claims
        assert executable(third) == {}


@pytest.mark.rule("I6")
def test_skills_under_a_native_scheme_are_remembered_and_read_again(tree: Path, index: Path) -> None:
    def make() -> LiveCatalog:
        live = LiveCatalog([DirectorySource(str(tree), prefix=("o", "r"), scheme="github")], index_directory=str(index))
        live.load()
        return live

    with clock_ahead():
        first = make()
        first.save()
        second = make()
        assert len(second.sources[0].claims) == 3
        assert second.catalog.listed == first.catalog.listed
        assert {each.uri.scheme for each in second.catalog.listed} == {"github"}
        assert verify(second) == []
        (tree / "one/a.md").write_text("changed")
        told = second.refresh_file(SkillUri("github://o/r/one/a.md"))
        assert told is not None
        assert told.files == {"github://o/r/one/a.md", "github://o/r/one/SKILL.md"}
        assert second.refresh_file(SkillUri("skill://o/r/one/a.md")) is None


def test_a_file_asked_for_that_belongs_to_nobody_makes_no_change(tree: Path) -> None:
    live = live_of(tree)
    for uri in ("skill://nothing/x", "skill://one", "github://one/a.md", "skill://one/a.md/b"):
        assert live.refresh_file(SkillUri(uri)) is None


# Another release


def test_a_new_release_is_a_change_of_what_differs_and_is_remembered_in_the_same_index(
    tmp_path: Path, index: Path
) -> None:
    link = tmp_path / "current"
    for number in (1, 2):
        skill(tmp_path, f"{number}/same", a_md="a")
        skill(tmp_path, f"{number}/changed", a_md="a", b_md=str(number))
    skill(tmp_path, "1/gone", c_md="c")
    skill(tmp_path, "2/new", d_md="d")
    link.symlink_to("1")
    with clock_ahead():
        live = live_of(link, index=index)
        link.unlink()
        assert live.relocate() is None
        link.symlink_to("2")
        told = live.relocate()
        assert told == change(["changed", "gone", "new"], ["changed/b.md", "gone/c.md", "new/d.md"])
        assert live.relocate() is None
        check_all_read(live)
        again = live_of(link, index=index)
        assert len(again.sources[0].claims) == 3
        assert again.catalog.listed == live.catalog.listed
        with closing(sqlite3.connect(rows(index))) as connection:
            locations = [os.fsdecode(place) for (place,) in connection.execute("SELECT location FROM units")]
    assert sorted(locations) == sorted(again.sources[0].units)


def test_a_root_that_is_a_link_to_a_skill_can_lead_to_its_next_version(tmp_path: Path) -> None:
    for number in (1, 2):
        skill(tmp_path, f"one-{number}", a_md=str(number), same_md="same")
        (tmp_path / f"one-{number}/SKILL.md").write_text(skill_text("one"))
    link = tmp_path / "one"
    link.symlink_to("one-1")
    live = live_of(link)
    link.unlink()
    link.symlink_to("one-2")
    assert live.relocate() == change(["one"], ["one/a.md"])
    assert text(live, "skill://one/a.md") == "2"


# Threads


def test_reading_while_another_thread_refreshes_never_fails_and_never_gives_other_bytes(tree: Path) -> None:
    live = live_of(tree, index=tree.parent / "index")
    is_over = threading.Event()
    failures: list[object] = []
    count = [0]

    def read_on() -> None:
        while not is_over.is_set():
            catalog = live.catalog
            try:
                for each in records(catalog):
                    if not is_read(live, each) and live.catalog is catalog:
                        failures.append(each)
                    count[0] += 1
                assert isinstance(live.remarks, list)
                assert json.dumps([listed.to_json() for listed in catalog.listed])
            except Exception as error:
                failures.append(error)
                raise

    readers = [threading.Thread(target=read_on) for _ in range(3)]
    for reader in readers:
        reader.start()
    try:
        for number in range(60):
            (tree / "one/a.md").write_text(f"version {number}")
            (tree / "two/SKILL.md").write_text("broken" if number % 3 == 0 else skill_text("two", f"{number}\n"))
            if number % 5 == 0:
                skill(tree, "outer/inner", y_md=str(number))
            elif number % 5 == 3:
                shutil.rmtree(tree / "outer/inner")
            live.refresh([str(tree)])
            live.generate(generated("today", "Body\n" if number % 2 else "Another\n"))
            live.relocate()
    finally:
        is_over.set()
        for reader in readers:
            reader.join()
    assert failures == []
    assert count[0] > 100
    check_all_read(live)


def test_the_log_says_once_why_an_index_is_not_used(tree: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        live_of(tree, index=Path("/proc/nowhere"))
    assert len([entry for entry in caplog.records if entry.name == "skillquay.sources.index"]) == 2
