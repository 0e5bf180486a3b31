"""Everything that may happen to a directory of skills, for tests, and what should be published of it then."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from hypothesis import strategies as st

from skillquay.core.catalog import Listed
from skillquay.core.folders import Publication
from skillquay.sources.directory import Reading, publish_tree
from tests.sources.builders import ordinary_user, skill_text

if TYPE_CHECKING:
    from skillquay.core.uris import SkillUri

Operation: TypeAlias = tuple[str, ...]

NOT_A_SKILL = "no frontmatter"
MISNAMED = "---\nname: other\ndescription: d\n---\n"

# The root has the name of a skill, too, so that it can become one.
below = st.lists(st.sampled_from(["one", "a", "b"]), min_size=1, max_size=3).map("/".join)
directories = st.one_of(below, below, below, below, st.just(""))
leaves = st.sampled_from(["SKILL.md", "x.md", "y.md", ".hidden", "node_modules", "skill.md"])
files = st.tuples(directories, leaves).map(lambda path: "/".join(filter(None, path)))
places = below | files
targets = places | st.sampled_from(["..", ".", "nowhere", "x.md", "../x.md", "../../outside", ".hidden"])
good = st.tuples(st.just("write_a_good_skill"), directories, st.sampled_from(["", "", "", "license: 5"]))
writing_operations: st.SearchStrategy[Operation] = st.one_of(
    *[good] * 5,
    st.tuples(st.just("break_a_skill"), directories, st.sampled_from([NOT_A_SKILL, MISNAMED])),
    st.tuples(st.just("write_a_file"), files),
    st.tuples(st.just("make_a_directory"), below),
    st.tuples(st.just("delete"), places),
    st.tuples(st.just("rename"), places, places),
    st.tuples(st.just("link"), places, targets),
    st.tuples(st.just("make_a_fifo"), files),
)
operations = st.one_of(writing_operations, st.tuples(st.just("close_or_open"), directories))


class Tree:
    """A directory to which people and programs do all sorts of things; `changed` is what a watcher would report."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.changed: list[str] = []
        self._written = 0

    def do(self, name: str, *arguments: str) -> None:
        getattr(self, name)(*arguments)

    def write_a_good_skill(self, path: str, line: str) -> None:
        directory = self.root / path
        self._write(directory / "SKILL.md", skill_text(directory.name, "\n", *filter(None, [line])))

    def break_a_skill(self, path: str, text: str) -> None:
        self._write(self.root / path / "SKILL.md", text)

    def write_a_file(self, path: str) -> None:
        self._write(self.root / path, "text")

    def make_a_directory(self, path: str) -> None:
        self._make_room(self.root / path / "nothing")

    def delete(self, path: str) -> None:
        place = self.root / path
        if self._is_behind_a_link(place):
            return
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        elif os.path.lexists(place):
            place.unlink()
        self.changed.append(str(place))

    def rename(self, old: str, new: str) -> None:
        source, target = self.root / old, self.root / new
        if not os.path.lexists(source) or self._is_behind_a_link(source) or target.is_relative_to(source):
            return
        if self._make_room(target) and not os.path.lexists(target):
            source.rename(target)
            self.changed += [str(source), str(target)]

    def link(self, path: str, target: str) -> None:
        place = self.root / path
        if not os.path.lexists(place) and self._make_room(place):
            place.symlink_to(target)
            self.changed.append(str(place))

    def make_a_fifo(self, path: str) -> None:
        place = self.root / path
        if not os.path.lexists(place) and self._make_room(place):
            os.mkfifo(place)
            self.changed.append(str(place))

    def close_or_open(self, path: str) -> None:
        place = self.root / path
        if place.is_dir() and not place.is_symlink() and not self._is_behind_a_link(place):
            place.chmod(0o755 if is_closed(place) else 0)
            self.changed.append(str(place))

    def _write(self, path: Path, text: str) -> None:
        if self._make_room(path) and (not os.path.lexists(path) or (path.is_file() and not path.is_symlink())):
            # Never the same size twice: one file after the other could have the same times and the same inode.
            self._written += 1
            path.write_text(text + "x" * self._written)
            self.changed.append(str(path))

    def _make_room(self, path: Path) -> bool:
        """Make the directories above a path; false where something else is in the way."""
        missing = [each for each in path.parents if not os.path.lexists(each)]
        if self._is_behind_a_link(path) or any(not each.is_dir() for each in path.parents if each not in missing):
            return False
        path.parent.mkdir(parents=True, exist_ok=True)
        self.changed += [str(missing[-1])] if missing else []
        return True

    def _is_behind_a_link(self, path: Path) -> bool:
        return any(each.is_symlink() for each in path.parents if each.is_relative_to(self.root))


def is_closed(directory: Path) -> bool:
    return stat.S_IMODE(directory.stat().st_mode) == 0


class Model:
    """What should be published of a tree."""

    def __init__(self, tree: Tree, prefix: tuple[str, ...], *, is_part: bool) -> None:
        self.root, self.prefix, self.is_part = tree.root, prefix, is_part
        self.published: dict[SkillUri, Listed] = {}

    def look(self) -> None:
        """Fresh, and what is broken or out of sight as it was."""
        fresh: dict[SkillUri, Listed] = {}
        broken: set[SkillUri] = set()
        with ordinary_user():
            reading = Reading(is_part=self.is_part)
            for item in publish_tree(str(self.root), prefix=self.prefix, reading=reading):
                if isinstance(item, Publication) and item.entry is not None:
                    fresh[item.entry.uri] = Listed.of(item.entry, item.folder.empty, item.folder.executable)
                elif root := item.folder.root if isinstance(item, Publication) else item.root:
                    broken.add(root.child("SKILL.md"))
        lost = {uri: old for uri, old in self.published.items() if uri not in fresh}
        kept = {uri: old for uri, old in lost.items() if uri in broken or self._is_out_of_sight(uri)}
        self.published = fresh | kept

    def _is_out_of_sight(self, uri: SkillUri) -> bool:
        """True for what lay in a directory that is still there and cannot be read."""
        if is_closed(self.root):
            return True
        skill_md = self.root / "SKILL.md"
        is_skill = os.path.lexists(skill_md) and (skill_md.is_symlink() or not skill_md.is_dir()) and not self.is_part
        above = (*self.prefix, *(["one"] if is_skill else []))
        directory = self.root
        if uri.segments[: len(above)] != above:
            return False
        for part in uri.segments[len(above) : -1]:
            directory /= part
            if directory.is_symlink() or not directory.is_dir():
                return False
            if is_closed(directory):
                return True
        return False


def open_all(root: Path) -> None:
    """So that it can be removed again, by whoever this is."""
    root.chmod(0o755)
    for directory, names, _ in os.walk(root):
        for name in names:
            if not (place := Path(directory, name)).is_symlink():
                place.chmod(0o755)
