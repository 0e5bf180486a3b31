"""One publication answers every question alike, and a listing taken page by page loses and repeats nothing."""

from __future__ import annotations

import base64
from hashlib import sha256
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from skillquay.core.catalog import (
    Catalog,
    Listed,
    Node,
    Page,
    find_children,
    find_file,
    name_findings,
    nesting_note,
    page_of_children,
)
from skillquay.core.findings import Level
from skillquay.core.uris import SkillUri
from skillquay.errors import CursorError, EntryError
from tests.core.builders import Published, publish, skill_md

if TYPE_CHECKING:
    from random import Random

    from skillquay.core.entries import FileRecord, SkillEntry

# L1: pages

NAMES = ["a", "ab", "a-b", "b", "b/a", "b/b", "c/a/b", "d%20d/x", "é/x", "z"]
SKILLS = {name: publish(at=f"skill://{name}").entry for name in NAMES}
some_names = st.sets(st.sampled_from(NAMES))


def catalog(*entries: SkillEntry) -> Catalog:
    return Catalog(map(Listed.of, entries))


def catalog_of(names: set[str]) -> Catalog:
    return catalog(*(SKILLS[name] for name in names))


def file(catalog: Catalog, uri: SkillUri) -> FileRecord | None:
    return find_file(catalog.around(uri), uri)


def children(catalog: Catalog, uri: SkillUri) -> tuple[Node, ...] | None:
    return find_children(catalog.around(uri), uri)


def children_page(catalog: Catalog, uri: SkillUri, cursor: str | None, *, size: int) -> Page[Node] | None:
    nodes = children(catalog, uri)
    return None if nodes is None else page_of_children(nodes, uri, cursor, size=size)


def walk(catalogs: list[Catalog], sizes: list[int]) -> list[SkillEntry]:
    """Take a listing page by page, while the catalog is swapped and the page size changes after every page."""
    taken: list[SkillEntry] = []
    cursor: str | None = None
    for step in range(len(NAMES) * len(catalogs) + 2):
        page = catalogs[min(step, len(catalogs) - 1)].page(cursor, size=sizes[step % len(sizes)])
        assert len(page.items) <= sizes[step % len(sizes)]
        taken += [listed.entry for listed in page.items]
        cursor = page.next_cursor
        if cursor is None:
            return taken
    raise AssertionError("the listing never ends")


@pytest.mark.rule("L1")
@given(some_names, st.lists(some_names, min_size=1, max_size=8), st.lists(st.integers(1, 4), min_size=1, max_size=8))
def test_a_skill_that_is_there_throughout_is_listed_exactly_once_whatever_comes_and_goes(
    throughout: set[str], passing: list[set[str]], sizes: list[int]
) -> None:
    taken = walk([catalog_of(throughout | others) for others in passing], sizes)
    assert all(taken.count(SKILLS[name]) == 1 for name in throughout)
    assert len({entry.uri for entry in taken}) == len(taken)


@pytest.mark.rule("L1")
@given(some_names, st.integers(1, 20))
def test_a_listing_of_one_moment_is_complete_in_whole_entries_and_in_one_order(names: set[str], size: int) -> None:
    whole = catalog_of(names)
    taken = walk([whole], [size])
    assert taken == [listed.entry for listed in whole.listed]
    assert set(map(str, (entry.uri for entry in taken))) == {f"skill://{name}/SKILL.md" for name in names}
    assert whole.listed == Catalog(reversed(whole.listed)).listed
    assert len(whole) == len(names)


@pytest.mark.rule("L1")
def test_the_last_page_has_no_cursor_even_when_it_is_full() -> None:
    two = catalog_of({"a", "b"})
    first = two.page(None, size=1)
    assert first.next_cursor is not None
    assert two.page(first.next_cursor, size=1).next_cursor is None
    assert two.page(None, size=2).next_cursor is None
    assert not catalog_of(set()).page(None, size=5).items


@pytest.mark.rule("L1")
def test_a_cursor_outlives_the_skill_it_was_made_at_and_an_emptied_catalog() -> None:
    cursor = catalog_of({"a", "b", "z"}).page(None, size=2).next_cursor
    assert [listed.entry.name for listed in catalog_of({"a", "z"}).page(cursor, size=5).items] == ["z"]
    assert not catalog_of(set()).page(cursor, size=5).items


CATALOG = catalog(
    *SKILLS.values(), publish({"docs/a.md": b"", "docs/b.md": b"", "more/a.md": b""}, at="skill://files").entry
)
FILES, DOCS, MORE = (SkillUri(f"skill://files{path}") for path in ("", "/docs", "/more"))
GENUINE = CATALOG.page(None, size=1).next_cursor or ""
FOREIGN = (children_page(CATALOG, DOCS, None, size=1) or CATALOG.page(None, size=1)).next_cursor or ""


def is_genuine(cursor: str) -> bool:
    """True for a cursor that a walk over the listing is really given; the walk is of this catalog alone."""
    given_out: set[str | None] = set()
    for size in range(1, len(CATALOG)):
        given_out.add(CATALOG.page(None, size=size).next_cursor)
    return cursor in given_out


tampered = st.builds(
    lambda place, text, cut: GENUINE[:place] + text + GENUINE[place + cut :],
    st.integers(0, len(GENUINE)),
    st.text(max_size=2) | st.text("AQgw-_=+/ \n", max_size=3),
    st.integers(0, 3),
)


@pytest.mark.rule("L1")
@example("")
@example("=")
@example(FOREIGN)
@example(GENUINE + "=")
@example(GENUINE + "\n")
@example(GENUINE[:-1])
@example("\ud800")
@example("é")
@example("A" * 100_000)
@given(st.one_of(tampered, st.text(), st.binary().map(lambda data: base64.urlsafe_b64encode(data).decode())))
def test_any_cursor_that_was_not_given_out_is_a_cursor_error_and_nothing_else(cursor: str) -> None:
    if is_genuine(cursor):
        assert CATALOG.page(cursor, size=1).items
        return
    with pytest.raises(CursorError) as failure:
        CATALOG.page(cursor, size=1)
    assert failure.value.rule == "L1"
    assert len(str(failure.value)) < 200


@pytest.mark.rule("L1")
@given(st.integers(0, len(GENUINE)))
def test_a_cursor_cut_short_is_refused(length: int) -> None:
    if length < len(GENUINE):
        with pytest.raises(CursorError):
            CATALOG.page(GENUINE[:length], size=1)
        with pytest.raises(CursorError):
            CATALOG.page(GENUINE[length + 1 :], size=1)


@pytest.mark.rule("L1")
def test_each_place_has_one_cursor_and_no_other_spelling_of_it() -> None:
    """Base64 has spare bits, padding and two alphabets: all of them would decode to the same place."""
    cursors = [CATALOG.page(None, size=size).next_cursor for size in range(1, len(CATALOG))]
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_+/"
    refused = 0
    for cursor in filter(None, cursors):
        padded = cursor + "=" * (-len(cursor) % 4)
        others = {*(cursor[:-1] + last for last in alphabet), padded, cursor.replace("-", "+").replace("_", "/")}
        for other in others - {cursor}:
            with pytest.raises(CursorError):
                CATALOG.page(other, size=1)
            refused += 1
    assert refused > 500


@pytest.mark.rule("L1")
def test_a_cursor_with_bytes_that_are_no_text_is_refused_even_if_its_check_is_right() -> None:
    check = sha256(b"skills/list\0\xff").digest()[:6]
    with pytest.raises(CursorError):
        CATALOG.page(base64.urlsafe_b64encode(check + b"\xff").decode().rstrip("="), size=1)


@pytest.mark.rule("L1")
@given(some_names, st.integers(1, 4), st.integers(0, 3000), some_names)
def test_pages_are_as_full_as_they_may_be_by_number_and_bytes_and_the_listing_ends(
    names: set[str], size: int, max_bytes: int, hidden: set[str]
) -> None:
    whole = catalog_of(names)
    shown = {f"skill://{name}/SKILL.md" for name in names - hidden}
    expected = [listed for listed in whole.listed if listed.uri in shown]
    pages: list[list[Listed]] = []
    cursor: str | None = None
    for _ in range(len(NAMES) + 1):
        page = whole.page(cursor, size=size, max_bytes=max_bytes, where=lambda entry: entry.uri in shown)
        pages.append(list(page.items))
        cursor = page.next_cursor
        if cursor is None:
            break
    assert cursor is None
    assert [listed for page in pages for listed in page] == expected
    assert pages == [[]] if not expected else all(pages)
    for here, after in pairwise(pages):
        room = max_bytes - sum(len(listed.text) for listed in here)
        assert len(here) == size or len(after[0].text) > room
    assert all(len(page) == 1 or sum(len(listed.text) for listed in page) <= max_bytes for page in pages if page)
    assert all(len(page) <= size for page in pages)


@pytest.mark.rule("L1")
def test_a_skill_that_is_larger_than_a_page_is_a_page_of_its_own() -> None:
    large = publish({f"{number}.md": b"" for number in range(100)}, at="skill://b").entry
    whole = catalog(SKILLS["a"], large, SKILLS["z"])
    first = whole.page(None, size=10, max_bytes=1000)
    second = whole.page(first.next_cursor, size=10, max_bytes=1000)
    third = whole.page(second.next_cursor, size=10, max_bytes=1000)
    assert [[listed.entry for listed in page.items] for page in (first, second, third)] == [
        [SKILLS["a"]],
        [large],
        [SKILLS["z"]],
    ]
    assert third.next_cursor is None


@pytest.mark.rule("L1")
def test_what_just_fits_on_a_page_is_on_it() -> None:
    whole = catalog_of({"a", "b", "z"})
    room = sum(len(listed.text) for listed in whole.listed[:2])
    assert len(whole.page(None, size=10, max_bytes=room).items) == 2
    assert len(whole.page(None, size=10, max_bytes=room - 1).items) == 1


@pytest.mark.rule("L1")
def test_a_cursor_of_one_listing_is_none_of_another_listing_of_the_same_skills() -> None:
    cursor = CATALOG.page(None, size=1, listing="resources/list").next_cursor
    assert CATALOG.page(cursor, size=1, listing="resources/list").items
    for listing, other in (("skills/list", cursor), ("resources/list", GENUINE)):
        with pytest.raises(CursorError):
            CATALOG.page(other, size=1, listing=listing)


# G1, L1: one catalog after the other

versions = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 2), max_size=len(NAMES))
VERSIONS = {
    (name, version): Listed.of(publish({"v.md": str(version).encode()}, at=f"skill://{name}").entry)
    for name in NAMES
    for version in range(3)
}


@pytest.mark.rule("G1", "L1")
@given(st.lists(versions, min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_a_catalog_made_from_another_is_the_one_that_is_made_from_scratch(
    moments: list[dict[str, int]], random: Random
) -> None:
    changing, old = Catalog(), dict[str, int]()
    for moment in moments:
        removed = [VERSIONS[item].uri for item in old.items() if item not in moment.items()]
        added = [VERSIONS[item] for item in moment.items() if item not in old.items()]
        random.shuffle(removed)
        random.shuffle(added)
        before = changing.listed
        following = changing.changed(removed=removed, added=added)
        assert changing.listed == before  # nobody who took the catalog before sees anything of it
        scratch = Catalog(VERSIONS[item] for item in moment.items())
        assert following.listed == scratch.listed
        for listed in VERSIONS.values():
            assert following.skill(listed.uri) == scratch.skill(listed.uri)
            assert list(following.around(listed.uri)) == list(scratch.around(listed.uri))
            assert changing.skill(listed.uri) in (*before, None)
        changing, old = following, moment


@pytest.mark.rule("G1")
def test_a_change_that_publishes_a_place_twice_or_removes_what_is_not_there_leaves_everything_as_it_was() -> None:
    whole = catalog_of({"a", "b"})
    before = whole.listed
    with pytest.raises(EntryError, match="published twice"):
        whole.changed(removed=[], added=[Listed.of(publish({"x": b""}, at="skill://%61").entry)])
    with pytest.raises(KeyError):
        whole.changed(removed=[SkillUri("skill://a/SKILL.md"), SkillUri("skill://z/SKILL.md")], added=[])
    assert whole.listed == before
    assert all(whole.skill(listed.uri) is listed for listed in before)
    assert whole.changed(removed=[SkillUri("skill://%61/SKILL.md")], added=[]).listed == catalog_of({"b"}).listed


# D1: directories, page by page

FILE_NAMES = ["a.md", "b", "b b.md", "c", "é", "z.txt"]


def directory(names: set[str]) -> Catalog:
    return catalog(publish({f"docs/{name}": b"" for name in {*names, "always"}}, at="skill://files").entry)


@pytest.mark.rule("D1")
@given(st.lists(st.sets(st.sampled_from(FILE_NAMES)), min_size=1, max_size=6), st.integers(1, 4))
def test_a_directory_listed_page_by_page_loses_and_repeats_no_child_either(moments: list[set[str]], size: int) -> None:
    taken: list[str] = []
    cursor: str | None = None
    for step in range(100):
        page = children_page(directory(moments[min(step, len(moments) - 1)]), DOCS, cursor, size=size)
        assert page is not None
        assert len(page.items) <= size
        taken += [node.name for node in page.items]
        cursor = page.next_cursor
        if cursor is None:
            break
    throughout = {"always"}.union(set.intersection(*moments))
    assert all(taken.count(name) == 1 for name in throughout)
    assert len(set(taken)) == len(taken)


@pytest.mark.rule("D1")
def test_a_cursor_belongs_to_one_directory() -> None:
    for uri, cursor in ((DOCS, GENUINE), (MORE, FOREIGN), (FILES, FOREIGN), (DOCS, "x"), (DOCS, "")):
        with pytest.raises(CursorError):
            children_page(CATALOG, uri, cursor, size=1)
    page = children_page(CATALOG, SkillUri("skill://files/d%6Fcs"), FOREIGN, size=1)
    assert page is not None
    assert [node.name for node in page.items] == ["b.md"]


@pytest.mark.rule("D1")
def test_what_is_no_directory_has_no_pages() -> None:
    assert children_page(CATALOG, SkillUri("skill://files/docs/a.md"), None, size=1) is None


# G1, D1: one publication, one answer

segments = st.sampled_from(["a", "b-c", "d"])
leaves = st.sampled_from(["SKILL.md", "x y.md", "é.md", "100%.md", "a#b", "skill.md", "n"])
paths = st.tuples(st.lists(segments, min_size=1, max_size=4), leaves).map(lambda path: (*path[0], path[1]))
trees = st.dictionaries(paths, st.binary(max_size=2), max_size=10)


def published(tree: dict[tuple[str, ...], bytes]) -> dict[tuple[str, ...], Published]:
    """Every directory with a `SKILL.md` is a skill of all files below it, as a server reads a tree."""
    files = {path: skill_md(path[-2]) if path[-1] == "SKILL.md" else data for path, data in tree.items()}
    roots = [path[:-1] for path in files if path[-1] == "SKILL.md"]
    return {
        root: publish(
            {"/".join(path[len(root) :]): data for path, data in files.items() if path[: len(root)] == root},
            at=str(SkillUri.build(root)),
        )
        for root in roots
    }


@st.composite
def respelled(draw: st.DrawFn, uri: str) -> SkillUri:
    """Another spelling of the same place: some characters percent-encoded that need not be."""
    scheme, _, path = uri.partition("://")
    encode = draw(st.sets(st.integers(0, len(path))))
    changed = "".join(
        f"%{ord(each):02x}" if index in encode and each.isascii() and each.isalnum() and "%" not in path else each
        for index, each in enumerate(path)
    )
    return SkillUri(f"{draw(st.sampled_from([scheme, scheme.upper()]))}://{changed}")


@pytest.mark.rule("G1")
@pytest.mark.rule("D1")
@given(trees, paths | st.lists(segments, min_size=1, max_size=5).map(tuple), st.data())
def test_entries_files_and_directories_agree_with_a_tree_under_any_spelling(
    tree: dict[tuple[str, ...], bytes], other: tuple[str, ...], data: st.DataObject
) -> None:
    skills = published(tree)
    whole = catalog(*(skill.entry for skill in skills.values()))
    files = {root + tuple(path.split("/")): skill.files[path] for root, skill in skills.items() for path in skill.files}
    places = [other, *files, *(path[:depth] for path in files for depth in range(1, len(path)))]
    for place in dict.fromkeys(places):
        uri = data.draw(respelled(SkillUri.build(place)))
        is_skill = place[-1] == "SKILL.md" and place[:-1] in skills
        found = whole.skill(uri)
        assert (found and found.entry) == (skills[place[:-1]].entry if is_skill else None)
        record = file(whole, uri)
        assert (record is not None) == (place in files)
        if record is not None:
            assert record.uri.segments == place
            assert record.digest == f"sha256:{sha256(files[place]).hexdigest()}"
        check_children(children(whole, uri), place, files, in_skill=any(place[: len(root)] == root for root in skills))


def check_children(
    nodes: tuple[Node, ...] | None, place: tuple[str, ...], files: dict[tuple[str, ...], bytes], *, in_skill: bool
) -> None:
    depth = len(place)
    below = {path[depth]: path for path in sorted(files) if in_skill and path[:depth] == place and len(path) > depth}
    assert (nodes is None) == (not below)
    for node, name in zip(nodes or (), sorted(below), strict=True):
        assert node.name == name
        assert node.uri.segments == (*place, name)
        assert not node.uri.endswith("/")
        assert (node.record is not None) == ((*place, name) in files)
        assert node.record is None or node.record.uri == node.uri


NESTED = catalog(
    publish({"a.md": b"", "in/side/SKILL.md": skill_md("side")}, at="skill://x/out").entry,
    publish(at="skill://x/out/in/side").entry,
    publish(at="skill://today", dynamic=True).entry,
    publish(at="github://owner/repo/refunds").entry,
)


@pytest.mark.rule("G1")
@pytest.mark.parametrize(
    "uri",
    [
        "skill://x/out/SKILL.md",
        "skill://x/out/in/side/SKILL.md",
        "skill://today/SKILL.md",
        "skill://x/o%75t/SKILL.md",
        "skill://x/out/SKILL%2Emd",
        "github://owner/repo/refunds/SKILL.md",
    ],
)
def test_every_skill_is_got_by_the_uri_of_its_skill_md(uri: str) -> None:
    listed = NESTED.skill(SkillUri(uri))
    assert listed is not None
    assert listed.entry.uri.key == listed.uri.key == SkillUri(uri).key


@pytest.mark.rule("G1")
@pytest.mark.parametrize(
    "uri",
    [
        "skill://x/out",
        "skill://x",
        "skill://x/out/a.md",
        "skill://x/SKILL.md",
        "skill://x/out/skill.md",
        "skill://X/out/SKILL.md",
        "skill://SKILL.md",
        "github://x/out/SKILL.md",
        "skill://x/out/SKILL.md/SKILL.md",
    ],
)
def test_nothing_else_is_got_as_a_skill(uri: str) -> None:
    assert NESTED.skill(SkillUri(uri)) is None


@pytest.mark.rule("D1")
def test_the_children_of_a_directory_are_files_with_their_records_and_directories_without() -> None:
    nodes = children(NESTED, SkillUri("skill://x/out"))
    assert nodes is not None
    assert [(node.name, str(node.uri), node.record is None) for node in nodes] == [
        ("SKILL.md", "skill://x/out/SKILL.md", False),
        ("a.md", "skill://x/out/a.md", False),
        ("in", "skill://x/out/in", True),
    ]


@pytest.mark.rule("D1")
@pytest.mark.parametrize(
    "uri",
    ["skill://x", "skill://nothing", "skill://x/out/a.md", "skill://x/out/none", "skill://today", "github://owner"],
)
def test_what_is_no_directory_of_a_skill_served_as_files_has_no_children(uri: str) -> None:
    assert children(NESTED, SkillUri(uri)) is None


EMPTY = Catalog(
    [
        Listed.of(
            publish(
                {"docs/a.md": b"", "in/side/b.md": b"", "in/side/SKILL.md": skill_md("side")}, at="skill://x"
            ).entry,
            ("docs/sub", "in/side/none", "none", "none/at all"),
        ),
        Listed.of(publish({"b.md": b""}, at="skill://x/in/side").entry, ("none",)),
    ]
)


@pytest.mark.rule("D1")
@pytest.mark.parametrize(
    ("uri", "names"),
    [
        ("skill://x", ["SKILL.md", "docs", "in", "none"]),
        ("skill://x/docs", ["a.md", "sub"]),
        ("skill://x/docs/sub", []),
        ("skill://x/none", ["at all"]),
        ("skill://x/none/at%20all", []),
        ("skill://x/n%6Fne/at%20all", []),
        ("skill://x/in", ["side"]),
        ("skill://x/in/side", ["SKILL.md", "b.md", "none"]),
        ("skill://x/in/side/none", []),
    ],
)
def test_an_empty_directory_is_one_without_children(uri: str, names: list[str]) -> None:
    nodes = children(EMPTY, SkillUri(uri))
    assert nodes is not None
    assert [node.name for node in nodes] == names
    for node in nodes:
        assert node.uri.key == (*SkillUri(uri).key, node.name)
        assert (node.record is None) == (node.name in {"docs", "sub", "in", "side", "none", "at all"})
    page = children_page(EMPTY, SkillUri(uri), None, size=10)
    assert page is not None
    assert (list(page.items), page.next_cursor) == (list(nodes), None)


@pytest.mark.rule("D1")
@pytest.mark.parametrize("uri", ["skill://x/no", "skill://x/none/at", "skill://x/none/at%20all/x", "skill://x/docs/su"])
def test_what_only_begins_like_an_empty_directory_is_none(uri: str) -> None:
    assert children(EMPTY, SkillUri(uri)) is None


@pytest.mark.rule("D1", "G1")
def test_a_file_and_its_directory_say_the_same_when_the_enclosing_skill_is_still_an_older_version() -> None:
    """The enclosing skill is broken, say, and is served as it was; the nested one went on."""
    older = publish({"in/SKILL.md": skill_md("in"), "in/a.md": b"old", "in/gone.md": b""}, at="skill://out").entry
    newer = publish({"a.md": b"newer"}, at="skill://out/in").entry
    both = catalog(older, newer)
    nodes = children(both, SkillUri("skill://out/in"))
    assert nodes is not None
    assert [node.name for node in nodes] == ["SKILL.md", "a.md", "gone.md"]
    assert [node.record for node in nodes] == [file(both, node.uri) for node in nodes]
    assert nodes[1].record is not None
    assert nodes[1].record.size == 5


@pytest.mark.rule("E1")
def test_an_entry_that_was_written_down_is_read_as_it_was() -> None:
    for entry in (*SKILLS.values(), publish({"é.md": b""}, at="skill://é/x", extra={"_meta": {"a": [1]}}).entry):
        listed = Listed.of(entry)
        assert listed.entry == entry
        assert listed.to_json() == entry.to_json()
        assert listed.uri == entry.uri


@pytest.mark.rule("E6")
def test_a_dynamic_skill_has_an_entry_and_no_records() -> None:
    uri = SkillUri("skill://today/SKILL.md")
    assert file(NESTED, uri) is None
    listed = NESTED.skill(uri)
    assert listed is not None
    assert listed.entry.resources == "dynamic"


@pytest.mark.rule("E7")
def test_a_nested_skill_is_listed_like_any_other() -> None:
    assert [listed.uri for listed in NESTED.page(None, size=10).items] == [
        "github://owner/repo/refunds/SKILL.md",
        "skill://today/SKILL.md",
        "skill://x/out/SKILL.md",
        "skill://x/out/in/side/SKILL.md",
    ]


@pytest.mark.rule("G1")
def test_two_skills_at_one_place_are_refused_and_none_is_lost_silently() -> None:
    for at in ("skill://x/out", "skill://%78/out"):
        with pytest.raises(EntryError, match="published twice") as failure:
            catalog(publish(at="skill://x/out").entry, publish({"b.md": b""}, at=at).entry)
        assert failure.value.rule == "G1"


# N3: names


@pytest.mark.rule("N3")
def test_the_operator_is_told_of_names_that_several_skills_have() -> None:
    entries = [publish(at=f"skill://{path}").entry for path in ("a/x", "b/x", "c/y")]
    (finding,) = name_findings(entry.uri for entry in entries)
    assert (finding.rule, finding.level, finding.kind) == ("N3", Level.WARNING, "same-name")
    assert finding.message == '2 skills are named "x": skill://a/x/SKILL.md, skill://b/x/SKILL.md.'


@pytest.mark.rule("N3")
def test_of_many_skills_with_one_name_some_are_named_and_all_counted() -> None:
    entries = [publish(at=f"skill://{index}/x").entry for index in range(9)]
    (finding,) = name_findings(entry.uri for entry in entries)
    assert finding.message.startswith('9 skills are named "x"')
    assert finding.message.count("skill://") == 5


@pytest.mark.rule("N3")
@pytest.mark.parametrize("first", ["é", "a%20b", "%61", "東", "x\u202ey"])
def test_the_operator_is_told_of_a_first_segment_that_is_no_plain_name(first: str) -> None:
    (finding,) = name_findings([publish(at=f"skill://{first}/x").entry.uri])
    assert (finding.rule, finding.level, finding.kind) == ("N3", Level.WARNING, "first-segment")
    assert "\u202e" not in finding.message


@pytest.mark.rule("N3")
def test_plain_names_that_nothing_shares_are_not_remarked_on() -> None:
    entries = [publish(at=f"skill://{path}").entry for path in ("a", "b.c_d~e/f", "g-1/é/h")]
    assert list(name_findings(entry.uri for entry in entries)) == []


# I12: skills in skills


@pytest.mark.rule("I12")
def test_a_skill_that_lies_in_another_is_told_from_those_that_do_not() -> None:
    assert [each.uri for each in catalog_of({"a", "ab", "a-b"}).outermost()] == [
        f"skill://{name}/SKILL.md" for name in ("a-b", "a", "ab")
    ]
    nested = catalog_of(set(NAMES))
    assert {each.uri for each in nested.outermost()} == {
        SKILLS[name].uri for name in ("a", "ab", "a-b", "b", "c/a/b", "d%20d/x", "é/x", "z")
    }
    deep = catalog(*(publish(at=f"skill://{path}").entry for path in ("x/y", "x/y/p/q/r", "x%20/y/z")))
    assert [each.uri for each in deep.outermost()] == ["skill://x%20/y/z/SKILL.md", "skill://x/y/SKILL.md"]
    other = catalog(publish(at="github://x").entry, publish(at="skill://x/y").entry)
    assert len(list(other.outermost())) == 2
    spelled = catalog(publish(at="skill://%78").entry, publish(at="skill://x/y").entry)
    assert [each.uri for each in spelled.outermost()] == ["skill://%78/SKILL.md"]


@given(some_names)
def test_the_outermost_skills_are_those_with_none_around_them(names: set[str]) -> None:
    found = catalog_of(names)
    assert list(found.outermost()) == [each for each in found.listed if len(list(found.around(each.uri))) == 1]


@pytest.mark.rule("I12")
def test_an_operator_learns_how_many_skills_lie_in_others() -> None:
    assert nesting_note(catalog_of({"a", "z"})) is None
    assert (nesting_note(catalog_of({"b", "b/a"})) or "").startswith("1 skill that lies in another one is not in ")
    assert (nesting_note(catalog_of({"b", "b/a", "b/b"})) or "").startswith("2 skills that lie in others are not in ")
