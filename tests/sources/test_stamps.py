"""A stamp fits for as long as nothing changed, and not a moment longer."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

from skillquay.core.folders import SkillFolder
from skillquay.sources.directory import Reading, read_tree
from skillquay.sources.reading import RECENT
from skillquay.sources.stamps import Stamp, stamp_directory
from tests.sources.builders import clock_ahead, clock_at, open_tree, ordinary_user, rewrite_unseen, skill

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def stamps_when_read(root: Path) -> dict[str, str | None]:
    """The stamp of each skill, as made while its files are read."""
    reading = Reading(known=lambda _location, _entries: False)  # stamps are made for whoever asks what is known
    items = read_tree(str(root), reading=reading)
    return {item.name: item.stamp for item in items if isinstance(item, SkillFolder)}


def stamp_now(directory: Path) -> str | None:
    with os.scandir(directory) as scan:
        return stamp_directory(list(scan))


@pytest.fixture
def one(tmp_path: Path) -> Path:
    directory = skill(tmp_path, "one", a_md="aaa", references__deep__b_md="bbb")
    (directory / "empty" / "within").mkdir(parents=True)
    return directory


def test_a_skill_that_did_not_change_has_at_a_look_the_stamp_it_had_when_it_was_read(one: Path) -> None:
    with clock_ahead():
        stamps = stamps_when_read(one.parent)
    assert stamps["one"] is not None
    assert stamps["one"] == stamp_now(one) == stamp_now(one)


CHANGES: dict[str, Callable[[Path], object]] = {
    "a file is longer": lambda one: (one / "a.md").write_text("aaaa"),
    "a file has other bytes, and its old size and time": lambda one: rewrite_unseen(one / "a.md", "xyz"),
    "a deep file has other bytes": lambda one: rewrite_unseen(one / "references/deep/b.md", "xyz"),
    "SKILL.md has other bytes": lambda one: (one / "SKILL.md").write_text("x"),
    "a file can be run": lambda one: (one / "a.md").chmod(0o755),
    "a file is gone": lambda one: (one / "a.md").unlink(),
    "a file is new": lambda one: (one / "b.md").touch(),
    "a file has another name": lambda one: (one / "a.md").rename(one / "c.md"),
    "a file moved down": lambda one: (one / "a.md").rename(one / "empty/a.md"),
    "a file is another one of the same size": lambda one: _replace(one / "a.md", "xyz"),
    "an empty directory is new": lambda one: (one / "new").mkdir(),
    "an empty directory is gone": lambda one: (one / "empty/within").rmdir(),
    "a directory has another name": lambda one: (one / "references").rename(one / "reference"),
    "a directory became a file": lambda one: _become_file(one / "empty/within"),
    "a hidden file is there": lambda one: (one / ".env").touch(),
    "a hidden directory is there": lambda one: (one / ".git").mkdir(),
    "a build leftover is there": lambda one: (one / "references/node_modules").mkdir(),
    "a link is there": lambda one: (one / "link").symlink_to("a.md"),
    "a file became a link": lambda one: (one / "a.md").rename(one / "b.md").with_name("a.md").symlink_to("b.md"),
    "a FIFO is there": lambda one: os.mkfifo(one / "references/pipe"),
    "a name is no UTF-8": lambda one: open(os.path.join(os.fsencode(one), b"caf\xe9"), "wb").close(),
}


def _become_file(directory: Path) -> None:
    directory.rmdir()
    directory.touch()


def _replace(file: Path, text: str) -> None:
    other = file.with_name("other")
    other.write_text(text)
    shutil.copystat(file, other)
    other.replace(file)


@pytest.mark.parametrize("what", CHANGES)
def test_a_stamp_does_not_fit_any_more_when(one: Path, what: str) -> None:
    with clock_ahead():
        before = stamps_when_read(one.parent)["one"]
        CHANGES[what](one)
        assert before is not None
        assert stamp_now(one) != before


def test_a_stamp_is_made_of_files_that_have_not_changed_for_a_moment_and_of_no_others(one: Path) -> None:
    files = [file for file in one.rglob("*") if file.is_file()]
    changed = max(file.stat().st_ctime_ns for file in files)
    with clock_at(changed + RECENT):
        assert stamps_when_read(one.parent) == {"one": None}
    with clock_at(changed + RECENT + 1):
        assert stamps_when_read(one.parent) == {"one": stamp_now(one)}


def test_files_from_the_future_are_not_stamped(one: Path) -> None:
    with clock_ahead(-3600):
        assert stamps_when_read(one.parent) == {"one": None}


def test_the_outermost_skill_s_stamp_covers_what_is_nested_in_it_which_has_none(one: Path) -> None:
    skill(one, "references/inner", c_md="c")
    with clock_ahead():
        stamps = stamps_when_read(one.parent)
    assert stamps["inner"] is None
    assert stamps["one"] == stamp_now(one)
    (one / "references/inner/c.md").write_text("cc")
    assert stamps["one"] != stamp_now(one)


@pytest.mark.parametrize("name", [".env", ".git/", "node_modules/", "__pycache__/"])
def test_a_skill_with_something_left_out_of_it_has_no_stamp(one: Path, name: str) -> None:
    if name.endswith("/"):
        (one / "references" / name).mkdir()
    else:
        (one / "references" / name).touch()
    with clock_ahead():
        assert stamps_when_read(one.parent) == {"one": None}


def test_a_skill_with_a_link_has_no_stamp_since_what_is_behind_it_may_change(one: Path) -> None:
    (one / "link.md").symlink_to("a.md")
    with clock_ahead():
        assert stamps_when_read(one.parent) == {"one": None}
    assert stamp_now(one) is None


def test_a_directory_that_cannot_be_listed_has_no_stamp() -> None:
    with open_tree() as root:
        directory = skill(root, "one", closed__a_md="a")
        with clock_ahead():
            assert stamps_when_read(root)["one"] == stamp_now(directory)
        (directory / "closed").chmod(0)
        try:
            with ordinary_user():
                assert stamp_now(directory) is None
        finally:
            (directory / "closed").chmod(0o755)


@pytest.mark.rule("E4")
def test_a_huge_file_with_a_name_that_is_no_utf8_is_no_crash(tmp_path: Path) -> None:
    """It is past the limits before it is given a URI, so that nothing else says what its name is."""
    directory = skill(tmp_path, "one")
    with open(os.path.join(os.fsencode(directory), b"caf\xe9"), "wb") as file:
        file.truncate(1 << 30)
    with clock_ahead():
        assert stamps_when_read(tmp_path)["one"] == stamp_now(directory)


def test_a_stamp_depends_on_names_and_marks_and_not_on_the_order_of_a_listing() -> None:
    def stamp(*marks: tuple[str, int]) -> str | None:
        gathered = Stamp()
        for path, inode in marks:
            if path.endswith("/"):
                gathered.add_directory(path)
            else:
                gathered.add_file(path, os.stat_result((0, inode, 0, 0, 0, 0, 0, 0, 0, 0)))
        return gathered.digest()

    assert stamp(("a", 1), ("b", 2)) == stamp(("b", 2), ("a", 1))
    different = {stamp(), stamp(("a", 1)), stamp(("a", 2)), stamp(("a1", 1)), stamp(("a", 1), ("b/", 0))}
    assert len(different) == 5


def test_a_spoiled_stamp_stays_spoiled() -> None:
    stamp = Stamp()
    stamp.add_directory("a/")
    stamp.spoil()
    stamp.add_directory("b/")
    stamp.add_file("c", os.stat("."))
    assert stamp.digest() is None
