"""A directory that is served: where its skills are named from, what is read again, and what is kept."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from skillquay.core.entries import FileRecord, Manifest
from skillquay.core.folders import Publication
from skillquay.core.uris import MAX_URI_LENGTH, SkillUri
from skillquay.sources.directory import MAX_DEPTH, publish_tree
from skillquay.sources.index import Unit
from skillquay.sources.tree import Difference, DirectorySource
from tests.sources.builders import Memory, clock_ahead, open_tree, ordinary_user, rewrite_unseen, skill, skill_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from skillquay.core.catalog import Listed


class Served:
    """A source and its store, with answers as short as the questions."""

    def __init__(self, root: Path | str, prefix: str = "", *, is_part: bool = False, strict: bool = False) -> None:
        self.store = Memory()
        self.source = DirectorySource(
            str(root), prefix=prefix.split("/") if prefix else (), is_part=is_part, strict=strict
        )
        self.source.read({}, self.store)

    @property
    def skills(self) -> list[str]:
        """The paths of the skills' directories in URIs."""
        return sorted(str(each.uri.root).removeprefix("skill://") for each in self.listed)

    @property
    def listed(self) -> list[Listed]:
        return [listed for unit in self.source.units.values() for listed in unit.skills]

    @property
    def remarks(self) -> list[tuple[str, str]]:
        return sorted(
            (os.path.relpath(each.location, self.source.root), each.finding.kind) for each in self.source.remarks
        )

    def record(self, uri: str) -> FileRecord:
        for listed in self.listed:
            assert isinstance(listed.entry.resources, Manifest)
            if record := listed.entry.resources.find(SkillUri(uri)):
                return record
        raise AssertionError(f"{uri} is not published")

    def refresh(self, *paths: Path | str) -> Difference:
        return self.source.refresh(map(str, paths), self.store)


def paths(skills: tuple[Listed, ...]) -> list[str]:
    return sorted(str(each.uri.root).removeprefix("skill://") for each in skills)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    skill(tmp_path, "tree/one", a_md="a")
    skill(tmp_path, "tree/two")
    skill(tmp_path, "tree/outer", x_md="x")
    skill(tmp_path, "tree/outer/parts/inner", y_md="y")
    return tmp_path / "tree"


ALL = ["one", "outer", "outer/parts/inner", "two"]

# Roots, however they are given


@pytest.mark.rule("U1")
@pytest.mark.parametrize("spelling", ["{}", "{}/", "{}/.", "{}/one/..", "{}//"])
def test_a_root_may_be_spelled_in_many_ways(tree: Path, spelling: str) -> None:
    served = Served(spelling.format(tree), "acme")
    assert served.skills == [f"acme/{name}" for name in ALL]
    assert served.source.root == str(tree)


def test_a_root_may_be_relative_to_where_the_program_is(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tree)
    assert Served(".").skills == ALL
    assert Served("one").skills == ["one"]
    assert Served("one/SKILL.md").skills == ["one"]
    monkeypatch.chdir(tree / "one")
    served = Served("SKILL.md", "acme")
    monkeypatch.chdir("/")
    (tree / "one/b.md").write_text("b")
    served.refresh(tree / "one/b.md")
    assert served.record("skill://acme/one/b.md").size == 1


@pytest.mark.rule("F2")
@pytest.mark.parametrize("given", ["{}", "{}/", "{}/SKILL.md"])
def test_a_root_that_is_a_skill_has_the_name_of_its_directory_after_the_prefix(tree: Path, given: str) -> None:
    served = Served(given.format(tree / "outer"), "acme/x y")
    assert served.skills == ["acme/x%20y/outer", "acme/x%20y/outer/parts/inner"]
    assert served.source.place(SkillUri("skill://acme/x%20y/outer/x.md")) == str(tree / "outer/x.md")


@pytest.mark.rule("F2")
def test_a_root_that_is_a_link_to_a_skill_has_the_link_s_name_as_for_whoever_checked_it(tree: Path) -> None:
    (tree / "one").rename(tree / "one-2024-11")
    link = tree.parent / "one"
    link.symlink_to(tree / "one-2024-11")
    served = Served(link)
    checked = [item.entry.uri for item in publish_tree(str(link)) if isinstance(item, Publication) and item.entry]
    assert [listed.uri for listed in served.listed] == checked == ["skill://one/SKILL.md"]
    (tree / "one-2024-11/b.md").write_text("b")
    served.refresh(tree / "one-2024-11/b.md")
    assert served.source.read_file(served.record("skill://one/b.md")) == b"b"


def test_a_root_that_is_part_of_a_larger_tree_is_what_the_prefix_leads_to(tree: Path) -> None:
    served = Served(tree / "outer", "acme/outer", is_part=True)
    assert served.skills == ["acme/outer", "acme/outer/parts/inner"]
    assert served.source.place(SkillUri("skill://acme/outer/x.md")) == str(tree / "outer/x.md")
    (tree / "outer/new.md").write_text("new")
    served.refresh(tree / "outer/new.md")
    assert served.record("skill://acme/outer/new.md").size == 3


def test_a_directory_may_be_named_like_a_skill_s_file(tmp_path: Path) -> None:
    skill(tmp_path, "SKILL.md/one")
    skill(tmp_path, "beside")
    assert Served(tmp_path / "SKILL.md").skills == ["one"]


def test_a_root_that_is_not_there_yet_is_remarked_on_and_published_when_it_comes(tree: Path) -> None:
    later = tree / "later"
    served = Served(later)
    assert (served.skills, served.remarks) == ([], [(".", "unreadable")])
    skill(later, "three")
    assert paths(served.refresh(later).added) == ["three"]
    assert served.remarks == []


def test_the_root_of_all_directories_has_places_too() -> None:
    source = DirectorySource("/", prefix=("acme",))
    assert source.place(SkillUri("skill://acme/etc/x")) == "/etc/x"
    assert source.place(SkillUri("skill://other/etc/x")) is None
    assert source.root == "/"


def test_what_decides_the_publication_is_in_the_key_and_what_was_asked_for_in_the_settings(tree: Path) -> None:
    sources = [
        DirectorySource(str(tree)),
        DirectorySource(str(tree / "one")),
        DirectorySource(str(tree), prefix=("a",)),
        DirectorySource(str(tree), prefix=("a",), is_part=True),
        DirectorySource(str(tree), strict=True),
        DirectorySource(str(tree), prefix=("a", "b")),
        DirectorySource(str(tree), prefix=("a/b",)),
    ]
    assert len({source.key for source in sources}) == len({source.settings for source in sources}) == len(sources)
    (tree.parent / "link").symlink_to(tree)
    linked = DirectorySource(str(tree.parent / "link"))
    settings, key = linked.settings, linked.key
    (tree.parent / "link").unlink()
    (tree.parent / "link").symlink_to(tree / "one")
    linked.relocate(Memory())
    assert linked.settings == settings
    assert linked.key != key
    assert DirectorySource(os.fsdecode(b"/caf\xe9")).key.encode()


# Reading again only what changed


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the skills' directories in which a file is opened."""
    names: list[str] = []
    open_ = os.open

    def noting(path: str, flags: int) -> int:
        names.append(os.path.basename(os.path.dirname(path)))
        return open_(path, flags)

    monkeypatch.setattr(os, "open", noting)
    return names


def test_only_the_skill_around_a_changed_file_is_read_again(tree: Path, opened: list[str]) -> None:
    served = Served(tree)
    opened.clear()
    (tree / "one/a.md").write_text("changed")
    difference = served.refresh(tree / "one/a.md")
    assert set(opened) == {"one"}
    assert (paths(difference.removed), paths(difference.added)) == (["one"], ["one"])


def test_a_look_at_the_whole_directory_reads_nothing_whose_stamp_fits(tree: Path, opened: list[str]) -> None:
    with clock_ahead():
        served = Served(tree)
        opened.clear()
        assert served.refresh(tree) == Difference((), ())
        assert opened == []
        (tree / "outer/parts/inner/y.md").write_text("changed")
        difference = served.refresh(tree)
    assert set(opened) == {"outer", "inner"}
    assert paths(difference.added) == ["outer", "outer/parts/inner"]


@pytest.mark.rule("E3")
def test_a_file_that_changed_and_looks_the_same_is_read_again(tree: Path) -> None:
    with clock_ahead():
        served = Served(tree)
        rewrite_unseen(tree / "one/a.md", "b")
        assert paths(served.refresh(tree).added) == ["one"]
    assert served.record("skill://one/a.md").digest in served.store.data
    assert served.store.data[served.record("skill://one/a.md").digest] == b"b"


def test_a_unit_that_is_known_from_before_is_taken_as_it_is_while_its_stamp_fits(tree: Path, opened: list[str]) -> None:
    with clock_ahead():
        known = dict(Served(tree).source.units)
        (tree / "two/new.md").write_text("new")
        opened.clear()
        source = DirectorySource(str(tree))
        source.read(known, Memory())
    assert set(opened) == {"two"}
    assert source.claims == {location: unit for location, unit in known.items() if not location.endswith("two")}
    assert all(source.units[location] is unit for location, unit in source.claims.items())


def test_a_known_unit_without_a_stamp_is_read(tree: Path) -> None:
    known = {location: Unit(unit.skills, None) for location, unit in Served(tree).source.units.items()}
    source = DirectorySource(str(tree))
    source.read(known, Memory())
    assert source.claims == {}


def test_a_refresh_of_three_thousand_skills_reads_each_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with open_tree() as root:
        for number in range(3000):
            os.makedirs(root / f"{number % 10}/s{number}")
            (root / f"{number % 10}/s{number}/SKILL.md").write_text(f"---\nname: s{number}\ndescription: d\n---\n")
        served = Served(root)
        changed = []
        for number in range(3000):
            (root / f"{number % 10}/s{number}/new.md").touch()
            changed += [root / f"{number % 10}/s{number}/new.md", root / f"{number % 10}/s{number}"]
        listed: list[str] = []
        scandir = os.scandir
        monkeypatch.setattr(os, "scandir", lambda path: scandir(listed.append(path) or path))  # type: ignore[func-returns-value]
        difference = served.refresh(*changed)
        monkeypatch.undo()
    assert len(difference.removed) == len(difference.added) == len(served.listed) == 3000
    assert len(listed) == len(set(listed)) == 3000


def test_directories_that_lie_in_each_other_are_looked_at_once(tmp_path: Path) -> None:
    for path in ("a/one", "a-b/two"):
        (skill(tmp_path, path) / "SKILL.md").write_text("broken")
    served = Served(tmp_path)
    served.refresh(tmp_path / "a", tmp_path / "a-b", tmp_path / "a/one/SKILL.md")
    assert served.remarks == [("a-b/two", "frontmatter"), ("a/one", "frontmatter")]


def test_a_remark_on_a_nested_skill_is_gone_when_that_is_put_right(tree: Path) -> None:
    nested = tree / "outer/parts/inner/SKILL.md"
    nested.write_text("broken")
    served = Served(tree)
    assert served.remarks == [("outer/parts/inner", "frontmatter")]
    nested.write_text(skill_text("inner"))
    served.refresh(nested)
    assert served.remarks == []


# Paths of all sorts

ODD: dict[str, Callable[[Path], object]] = {
    "never there": lambda tree: tree / "never/there/at/all.md",
    "outside": lambda tree: tree.parent / "other/SKILL.md",
    "the parent": lambda tree: tree.parent,
    "a name that begins the same": lambda tree: f"{tree}-more/SKILL.md",
    "hidden": lambda tree: tree / ".git/objects/SKILL.md",
    "a build leftover": lambda tree: tree / "one/node_modules/x/SKILL.md",
    "below a file": lambda tree: tree / "one/a.md/b/c",
    "below SKILL.md": lambda tree: tree / "one/SKILL.md/b/c",
    "an empty path": lambda tree: "",
    "relative": lambda tree: "one/a.md",
    "doubled slashes": lambda tree: f"{tree}//one///a.md",
    "a slash at the end": lambda tree: f"{tree}/one/",
    "walking": lambda tree: f"{tree}/one/../two",
    "a NUL": lambda tree: f"{tree}/one\0two/a",
    "not UTF-8": lambda tree: os.path.join(tree, os.fsdecode(b"caf\xe9/x")),
    "too long": lambda tree: tree / ("x" * 300) / ("y/" * 3000),
}


@pytest.mark.parametrize("what", ODD)
def test_a_path_without_a_change_changes_nothing(tree: Path, what: str) -> None:
    served = Served(tree)
    assert served.refresh(str(ODD[what](tree))) == Difference((), ())
    assert served.skills == ALL


@pytest.mark.rule("U3")
@pytest.mark.parametrize("name", [b"caf\xe9", b"a\nb", b"a\\b"], ids=["not UTF-8", "a line break", "a backslash"])
def test_skills_below_a_name_that_is_no_uri_are_not_published_by_a_refresh_either(tree: Path, name: bytes) -> None:
    served = Served(tree)
    bad = Path(os.fsdecode(os.path.join(os.fsencode(tree), name)))
    skill(bad, "deep/three")
    assert served.refresh(bad / "deep/three/SKILL.md", bad) == Difference((), ())
    assert [kind for _, kind in served.remarks] == ["file-name"]


@pytest.mark.rule("U3")
def test_skills_below_a_path_that_is_too_long_for_a_uri_are_not_published_by_a_refresh_either(tmp_path: Path) -> None:
    served = Served(tmp_path)
    place = tmp_path
    for _ in range(MAX_URI_LENGTH // 3 // 60 + 1):
        place /= "é" * 30  # three times as long in a URI
    with pytest.MonkeyPatch.context() as patch:  # a path may be longer than the system takes at once
        patch.chdir(tmp_path)
        skill(place, "one")
    assert served.refresh(place / "one/SKILL.md") == Difference((), ())
    assert Served(tmp_path).remarks == served.remarks != []


@pytest.mark.rule("P1")
def test_a_refresh_goes_no_deeper_than_a_first_reading(tmp_path: Path) -> None:
    served = Served(tmp_path)
    middle = tmp_path.joinpath(*["d"] * 60)
    skill(middle, "/".join(["d"] * (MAX_DEPTH - 61)) + "/reached")
    skill(middle, "/".join(["d"] * (MAX_DEPTH - 60)) + "/beyond")
    for changed in (middle, middle.joinpath(*["d"] * (MAX_DEPTH - 60), "beyond/SKILL.md")):
        served.refresh(changed)
        assert [each.rpartition("/")[2] for each in served.skills] == ["reached"]
        assert Served(tmp_path).remarks == served.remarks
        assert [kind for _, kind in served.remarks] == ["depth"]


@pytest.mark.rule("U8")
def test_a_refresh_does_not_follow_links_that_a_first_reading_does_not_follow(tree: Path, tmp_path: Path) -> None:
    secret = skill(tmp_path, "elsewhere/two", secret_md="secret")
    served = Served(tree)
    shutil.rmtree(tree / "two")
    (tree / "two").symlink_to(secret)
    (tree / "more").symlink_to(tmp_path / "elsewhere")
    served.refresh(tree / "two/SKILL.md", tree / "two", tree / "more/two/secret.md", tree / "more")
    assert served.skills == ["one", "outer", "outer/parts/inner"]
    assert served.remarks == [("more", "link"), ("two", "link")]
    assert b"secret" not in served.store.data.values()


@pytest.mark.rule("P1")
@pytest.mark.parametrize("name", [".claude", "node_modules", "__pycache__"])
def test_skills_in_hidden_directories_and_build_leftovers_are_not_published_by_a_refresh_either(
    tree: Path, name: str
) -> None:
    served = Served(tree)
    skill(tree / name, "deep/three")
    assert served.refresh(tree / name, tree / name / "deep", tree / name / "deep/three/SKILL.md") == Difference((), ())
    assert Served(tree).skills == served.skills == ALL


def test_what_a_build_leaves_behind_is_not_worth_reading_a_skill_again(tree: Path, opened: list[str]) -> None:
    (tree / "one/node_modules/lib").mkdir(parents=True)
    served = Served(tree)
    opened.clear()
    (tree / "one/node_modules/lib/index.js").write_text("x")
    served.refresh(tree / "one/node_modules/lib/index.js", tree / "one/.git/index.lock")
    assert opened == []


@pytest.mark.rule("F1")
def test_a_directory_that_is_named_like_a_skill_s_file_is_remarked_on_when_it_comes(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    served = Served(tmp_path)
    (tmp_path / "one/SKILL.md/deep").mkdir(parents=True)
    served.refresh(tmp_path / "one/SKILL.md/deep")
    assert served.remarks == [("one/SKILL.md", "skill-md")]


@pytest.mark.parametrize("text", ["broken", skill_text("one", "Body\n", "license: 5")], ids=["refused", "warned of"])
def test_what_is_worth_a_remark_is_remarked_on_at_every_look(tree: Path, text: str) -> None:
    (tree / "one/SKILL.md").write_text(text)
    with clock_ahead():
        served = Served(tree)
        assert len(served.remarks) == 1
        served.refresh(tree)
        assert len(served.remarks) == 1
        again = DirectorySource(str(tree))
        again.read(served.source.units, served.store)
        assert again.remarks == served.source.remarks


def test_a_file_may_be_named_like_a_build_leftover(tree: Path) -> None:
    served = Served(tree)
    (tree / "one/node_modules").write_text("a file")
    served.refresh(tree / "one/node_modules")
    assert served.record("skill://one/node_modules").size == 6


# Shapes


@pytest.mark.rule("E7")
def test_a_skill_s_file_above_others_makes_them_nested_and_its_removal_makes_them_free_again(tree: Path) -> None:
    served = Served(tree)
    skill(tree.parent, "tree")
    difference = served.refresh(tree / "SKILL.md")
    assert served.skills == ["tree", *(f"tree/{name}" for name in ALL)]
    assert paths(difference.removed) == ALL
    assert list(served.source.units) == [str(tree)]
    assert served.source.place(SkillUri("skill://tree/one/a.md")) == str(tree / "one/a.md")
    (tree / "SKILL.md").unlink()
    served.refresh(tree / "SKILL.md")
    assert served.skills == ALL
    assert served.source.place(SkillUri("skill://one/a.md")) == str(tree / "one/a.md")


def test_a_good_skill_in_a_broken_one_follows_its_files_and_the_broken_one_keeps_its_last_good_version(
    tree: Path,
) -> None:
    served = Served(tree)
    outer, inner = (each for each in served.listed if "outer" in each.uri)
    (tree / "outer/SKILL.md").write_text("broken")
    (tree / "outer/x.md").write_text("newer")
    (tree / "outer/parts/inner/y.md").write_text("newer, too")
    difference = served.refresh(tree / "outer/SKILL.md")
    assert difference.removed == (inner,)
    assert paths(difference.added) == ["outer/parts/inner"]
    assert served.skills == ALL
    assert outer in served.listed
    assert ("outer", "last-good") in served.remarks


@pytest.mark.parametrize("how", ["fifo", "link", "directory"])
def test_a_skill_s_file_that_is_something_else_now_keeps_the_last_good_version_but_a_directory_is_no_file(
    tree: Path, how: str
) -> None:
    served = Served(tree)
    (tree / "outer/SKILL.md").unlink()
    if how == "fifo":
        os.mkfifo(tree / "outer/SKILL.md")
    elif how == "link":
        (tree / "outer/SKILL.md").symlink_to("/etc/passwd")
    else:
        (tree / "outer/SKILL.md").mkdir()
    served.refresh(tree / "outer/SKILL.md")
    assert served.skills == (ALL if how != "directory" else [name for name in ALL if name != "outer"])
    assert len(served.source.units) == 3  # what is nested stays with what encloses it


def test_a_first_reading_keeps_nothing(tree: Path) -> None:
    (tree / "one/SKILL.md").write_text("broken")
    assert Served(tree).skills == ["outer", "outer/parts/inner", "two"]


def test_a_broken_skill_is_served_in_its_last_good_version_until_it_is_good_or_gone(tree: Path) -> None:
    served = Served(tree)
    good = (tree / "one/SKILL.md").read_text()
    for _ in range(3):
        (tree / "one/SKILL.md").write_text("broken")
        assert served.refresh(tree / "one/SKILL.md") == Difference((), ())
        assert ("one", "last-good") in served.remarks
    (tree / "one/SKILL.md").write_text(good + "More.\n")
    assert paths(served.refresh(tree / "one").added) == ["one"]
    assert served.remarks == []
    (tree / "one/SKILL.md").write_text("broken")
    served.refresh(tree / "one/SKILL.md")
    (tree / "one/SKILL.md").unlink()
    assert paths(served.refresh(tree / "one/SKILL.md").removed) == ["one"]
    assert served.remarks == []


def test_no_broken_skill_is_kept_whose_bytes_are_not_there_any_more(tree: Path) -> None:
    served = Served(tree)
    (tree / "one/SKILL.md").write_text("broken")
    served.store.data.clear()
    assert paths(served.refresh(tree / "one/SKILL.md").removed) == ["one"]
    assert served.skills == ["outer", "outer/parts/inner", "two"]


def test_a_claim_that_was_never_checked_is_not_kept(tree: Path) -> None:
    with clock_ahead():
        served = Served(tree)
        again = DirectorySource(str(tree))
        again.read(served.source.units, served.store)
        (tree / "one/SKILL.md").write_text("broken")
        assert paths(again.refresh([str(tree / "one/SKILL.md")], served.store).removed) == ["one"]
    assert str(tree / "one") not in again.claims


# Out of sight


def test_a_lost_mount_does_not_even_unpublish_what_was_not_read_yet(tree: Path) -> None:
    source, store = claimed(tree)
    tree.rename(tree.parent / "away")
    assert source.refresh([str(tree)], store) == Difference((), ())
    assert source.read_claims(10, store) == Difference((), ())
    assert source.claims == {}
    (tree.parent / "away").rename(tree)
    assert source.refresh([str(tree)], store) == Difference((), ())
    assert store.has(Served(tree).record("skill://one/a.md"))


def test_everything_is_kept_while_the_root_is_away_and_comes_back_without_a_difference(tree: Path) -> None:
    served = Served(tree)
    tree.rename(tree.parent / "away")
    for changed in (tree, tree / "one", tree / "one/SKILL.md"):
        assert served.refresh(changed) == Difference((), ())
    assert served.skills == ALL
    assert (".", "unreadable") in served.remarks
    (tree.parent / "away").rename(tree)
    assert served.refresh(tree) == Difference((), ())
    assert served.remarks == []


def test_a_root_that_is_a_skill_is_kept_while_it_is_away_too(tree: Path) -> None:
    served = Served(tree / "outer", "acme")
    (tree / "outer").rename(tree / "away")
    assert served.refresh(tree / "outer") == Difference((), ())
    assert served.skills == ["acme/outer", "acme/outer/parts/inner"]
    skill(tree, "outer")
    served.refresh(tree / "outer")
    assert served.skills == ["acme/outer"]


def test_a_directory_below_the_root_that_is_gone_takes_its_skills_with_it(tree: Path) -> None:
    served = Served(tree)
    shutil.rmtree(tree / "outer")
    assert paths(served.refresh(tree / "outer").removed) == ["outer", "outer/parts/inner"]
    shutil.rmtree(tree / "one")
    assert paths(served.refresh(tree / "one/a.md", tree / "one/SKILL.md").removed) == ["one"]
    (tree / "two").rename(tree / "three")
    (tree / "three/SKILL.md").write_text((tree / "three/SKILL.md").read_text().replace("two", "three"))
    difference = served.refresh(tree / "two", tree / "three")
    assert (paths(difference.removed), paths(difference.added)) == (["two"], ["three"])
    assert served.remarks == []


def test_what_is_below_a_directory_that_cannot_be_read_is_kept_and_the_rest_goes_on() -> None:
    with open_tree() as root:
        skill(root, "closed/one")
        skill(root, "closed/deep/two", a_md="a")
        skill(root, "outer", x_md="x")
        skill(root, "outer/closed/inner")
        served = Served(root)
        everything = served.skills
        skill(root, "open/three")
        for name in ("closed", "outer/closed"):
            (root / name).chmod(0)
        try:
            with ordinary_user():
                difference = served.refresh(root)
            assert served.skills == sorted([*everything, "open/three"])
            assert (paths(difference.removed), paths(difference.added)) == ([], ["open/three"])
            assert {place for place, kind in served.remarks if kind == "last-good"} == {
                "closed/one",
                "closed/deep/two",
                "outer",
                "outer/closed/inner",
            }
            with ordinary_user():
                assert served.refresh(root / "closed/one/SKILL.md", root / "outer/x.md") == Difference((), ())
        finally:
            for name in ("closed", "outer/closed"):
                (root / name).chmod(0o755)
        assert served.refresh(root) == Difference((), ())
        assert served.remarks == []


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EIO, errno.EACCES, errno.ESTALE])
def test_a_failure_to_list_a_directory_keeps_what_was_in_it(
    tree: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server with too many connections open must not lose its skills."""
    served = Served(tree)
    skill(tree, "three")
    fail_to_list(monkeypatch, {str(tree / "one"), str(tree / "outer/parts")}, number)
    assert paths(served.refresh(tree).added) == ["three"]
    assert served.skills == sorted([*ALL, "three"])
    monkeypatch.undo()
    assert served.refresh(tree) == Difference((), ())
    assert served.remarks == []


def test_a_directory_that_goes_away_while_its_parent_is_read_is_gone(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = Served(tree)
    fail_to_list(monkeypatch, {str(tree / "one")}, errno.ENOENT)
    assert paths(served.refresh(tree).removed) == ["one"]


def test_a_failure_to_open_files_keeps_the_skill_s_last_good_version(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = Served(tree)

    def refuse(path: str, flags: int) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)

    monkeypatch.setattr(os, "open", refuse)
    assert served.refresh(tree) == Difference((), ())
    assert served.skills == ALL


def fail_to_list(monkeypatch: pytest.MonkeyPatch, directories: set[str], number: int) -> None:
    scandir = os.scandir

    def failing(path: str) -> Iterator[os.DirEntry[str]]:
        if path in directories:
            raise OSError(number, os.strerror(number), path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", failing)


# Another release


def release(root: Path, number: int, **texts: str) -> Path:
    directory = root / "releases" / str(number)
    for name, text in texts.items():
        skill(directory, name, text_md=text)
    return directory


def point(link: Path, target: Path) -> None:
    new = link.with_name("new")
    new.symlink_to(target)
    new.replace(link)


def test_a_link_that_leads_to_another_release_publishes_it_and_only_the_difference_is_told(tmp_path: Path) -> None:
    link = tmp_path / "current"
    point(link, release(tmp_path, 1, same="s", changed="1", gone="g"))
    served = Served(link, "acme")
    point(link, release(tmp_path, 2, same="s", changed="2", new="n"))
    difference = served.source.relocate(served.store)
    assert paths(difference.removed) == ["acme/changed", "acme/gone"]
    assert paths(difference.added) == ["acme/changed", "acme/new"]
    assert served.source.root == str(tmp_path / "releases/2")
    assert served.source.read_file(served.record("skill://acme/changed/text.md")) == b"2"
    assert all(str(tmp_path / "releases/2") in location for location in served.source.units)
    (tmp_path / "releases/2/new/text.md").write_text("newer")
    assert paths(served.refresh(tmp_path / "releases/2/new/text.md").added) == ["acme/new"]
    assert served.refresh(tmp_path / "releases/1/same/SKILL.md") == Difference((), ())


def test_a_new_release_keeps_what_is_broken_in_it_and_forgets_the_remarks_of_the_old_one(tmp_path: Path) -> None:
    link = tmp_path / "current"
    first = release(tmp_path, 1, one="1", bad="x")
    (first / "bad/SKILL.md").write_text("bad")
    point(link, first)
    served = Served(link)
    assert served.remarks == [("bad", "frontmatter")]
    second = release(tmp_path, 2, one="2", two="2")
    (second / "one/SKILL.md").write_text("broken")
    point(link, second)
    difference = served.source.relocate(served.store)
    assert (paths(difference.removed), paths(difference.added)) == ([], ["two"])
    assert served.remarks == [("one", "frontmatter"), ("one", "last-good")]
    assert served.record("skill://one/text.md").size == 1


def test_a_link_that_leads_nowhere_or_where_it_led_before_is_no_new_release(tmp_path: Path) -> None:
    link = tmp_path / "current"
    point(link, release(tmp_path, 1, one="1"))
    served = Served(link)
    point(link, tmp_path / "releases/1")
    assert served.source.relocate(served.store) == Difference((), ())
    point(link, tmp_path / "nowhere")
    assert served.source.relocate(served.store) == Difference((), ())
    assert served.skills == ["one"]


def test_claims_about_one_release_are_not_kept_in_the_next(tmp_path: Path) -> None:
    link = tmp_path / "current"
    point(link, release(tmp_path, 1, one="1"))
    with clock_ahead():
        served = Served(link)
        again = DirectorySource(str(link))
        again.read(served.source.units, served.store)
        second = release(tmp_path, 2, one="2")
        (second / "one/SKILL.md").write_text("broken")
        point(link, second)
        assert paths(again.relocate(served.store).removed) == ["one"]
    assert again.claims == {}


# Claims


def claimed(tree: Path) -> tuple[DirectorySource, Memory]:
    """A source that was not read but taken from what another one knew."""
    with clock_ahead():
        known = Served(tree).source.units
        source, store = DirectorySource(str(tree)), Memory()
        source.read(known, store)
    assert source.claims.keys() == known.keys()
    assert store.data == {}
    return source, store


def test_claims_are_read_a_few_at_a_time_until_there_are_none(tree: Path) -> None:
    source, store = claimed(tree)
    left = []
    while source.claims:
        assert source.read_claims(2, store) == Difference((), ())
        left.append(len(source.claims))
    assert left == [1, 0]
    assert store.has(Served(tree).record("skill://outer/parts/inner/y.md"))
    assert source.read_claims(2, store) == Difference((), ())


def test_a_false_claim_is_replaced_by_what_the_files_say(tree: Path) -> None:
    with clock_ahead():
        honest = Served(tree).source.units
        one, two = honest[str(tree / "one")], honest[str(tree / "two")]
        false: Mapping[str, Unit] = {**honest, str(tree / "one"): Unit(two.skills, one.stamp)}
        source, store = DirectorySource(str(tree)), Memory()
        source.read(false, store)
        while source.claims:
            source.read_claims(1, store)
    assert {location: unit.skills for location, unit in source.units.items()} == {
        location: unit.skills for location, unit in honest.items()
    }


def test_claims_about_directories_that_are_gone_by_now_are_dropped(tree: Path) -> None:
    source, store = claimed(tree)
    shutil.rmtree(tree / "one")
    removed = []
    while source.claims:
        removed += paths(source.read_claims(1, store).removed)
    assert removed == ["one"]
    assert str(tree / "one") not in source.units
    assert len(source.units) == 2


def test_a_claim_is_not_taken_as_read_because_another_one_is_gone(tree: Path) -> None:
    with clock_ahead():
        honest = Served(tree).source.units
        one, two = str(tree / "one"), str(tree / "two")
        false = {**honest, one: Unit(honest[two].skills, honest[one].stamp)}
        source, store = DirectorySource(str(tree)), Memory()
        source.read(false, store)
        shutil.rmtree(tree / "two")
        source.read_claims(10, store)
    assert source.claims == {}
    assert source.units[one].skills == honest[one].skills


# Reading a file from the directory itself


@pytest.mark.rule("E3")
def test_a_file_is_read_from_the_directory_only_as_it_was_published(tree: Path) -> None:
    (tree / "one/link.md").symlink_to("a.md")
    served = Served(tree)
    a, link = served.record("skill://one/a.md"), served.record("skill://one/link.md")
    assert served.source.read_file(a) == served.source.read_file(link) == b"a"
    (tree / "one/a.md").write_text("b")
    assert served.source.read_file(a) is served.source.read_file(link) is None
    (tree / "one/a.md").unlink()
    assert served.source.read_file(a) is None
    (tree / "one/a.md").mkdir()
    assert served.source.read_file(a) is None
    elsewhere = FileRecord(SkillUri("skill://other/one/a.md"), a.digest, a.size)
    assert served.source.read_file(elsewhere) is None
    assert Served(tree, "acme").source.read_file(elsewhere) is None


@pytest.mark.parametrize("uri", ["skill://other/x", "skill://acme", "github://acme/outer/x.md", "skill://acme/oute/x"])
def test_a_uri_of_something_else_has_no_place_here(tree: Path, uri: str) -> None:
    assert Served(tree / "outer", "acme").source.place(SkillUri(uri)) is None
