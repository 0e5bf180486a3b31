"""What another process reads is what this one would have read; where it cannot, this one reads."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from skillquay.core.entries import Manifest
from skillquay.sources.headstart import HeadStart
from skillquay.sources.live import LiveCatalog
from skillquay.sources.tree import DirectorySource
from tests.sources.builders import clock_ahead

if TYPE_CHECKING:
    from pathlib import Path

# The test runner has threads, of which nothing here depends; the command line has none yet.
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "skills"
    for name in ("one", "two", "two/nested"):
        (root / name / "empty").mkdir(parents=True)
        text = f"---\nname: {name.rpartition('/')[2]}\ndescription: Does it.\n---\nBody\n"
        (root / name / "SKILL.md").write_text(text)
        (root / name / "data.bin").write_bytes(os.urandom(700_000))
        (root / name / "data.bin").chmod(0o755)
    (root / "broken").mkdir()
    (root / "broken" / "SKILL.md").write_text("no frontmatter\n")
    return root


def live_of(root: Path, index: Path | None = None) -> LiveCatalog:
    return LiveCatalog([DirectorySource(str(root))], index_directory=None if index is None else str(index))


def check_same(ahead: LiveCatalog, root: Path) -> None:
    """The catalog, the remarks and every byte are those of a catalog that was read here."""
    here = live_of(root)
    here.load()
    assert ahead.catalog.listed == here.catalog.listed
    assert ahead.remarks == here.remarks
    assert ahead.sources[0].units == here.sources[0].units
    for listed in ahead.catalog.listed:
        resources = listed.entry.resources
        assert isinstance(resources, Manifest)
        for record in resources.files:
            assert ahead.is_at_hand(record)
            assert ahead.read(record) == here.read(record)


def test_what_another_process_reads_is_what_this_one_would_have_read(tree: Path) -> None:
    with clock_ahead():
        check_same(HeadStart(live_of(tree)).finish(), tree)


def test_it_goes_on_as_if_it_had_been_read_here(tree: Path, tmp_path: Path) -> None:
    with clock_ahead():
        live = HeadStart(live_of(tree, tmp_path / "index")).finish()
        live.save()
        (tree / "one" / "data.bin").write_bytes(os.urandom(600_000))
        change = live.refresh([str(tree / "one" / "data.bin")])
        assert change is not None
        assert sorted(map(str, change.files)) == ["skill://one/SKILL.md", "skill://one/data.bin"]
        check_same(live, tree)


def test_what_the_index_claims_is_still_to_be_verified(tree: Path, tmp_path: Path) -> None:
    with clock_ahead():
        first = live_of(tree, tmp_path / "index")
        first.load()
        first.save()
        again = HeadStart(live_of(tree, tmp_path / "index")).finish()
        assert again.sources[0].claims.keys() == {str(tree / name) for name in ("one", "two")}
        assert all(again.sources[0].units[location] is unit for location, unit in again.sources[0].claims.items())
        while again.verify_some(5)[0]:
            pass
        check_same(again, tree)


def test_what_an_index_holds_about_another_release_makes_room_all_the_same(tree: Path, tmp_path: Path) -> None:
    link, index = tmp_path / "current", tmp_path / "index"
    for release in ("1", "2"):
        shutil.copytree(tree, tmp_path / release)
    link.symlink_to("1")
    with clock_ahead():
        first = live_of(link, index)
        first.load()
        first.save()
        link.unlink()
        link.symlink_to("2")
        again = HeadStart(live_of(link, index)).finish()
        again.save()
    (file,) = index.glob("*.sqlite")
    with closing(sqlite3.connect(file)) as connection:
        locations = [os.fsdecode(place) for (place,) in connection.execute("SELECT location FROM units")]
    assert sorted(locations) == [str(tmp_path / "2" / name) for name in ("one", "two")]


def test_a_process_that_dies_costs_only_time(tree: Path) -> None:
    ahead = HeadStart(live_of(tree))
    assert ahead._process is not None
    os.kill(ahead._process[0], signal.SIGKILL)
    check_same(ahead.finish(), tree)


def test_without_room_for_a_spool_everything_is_read_here(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    live = live_of(tree)
    monkeypatch.setattr("tempfile.tempdir", str(tree / "nowhere"))
    ahead = HeadStart(live)
    assert ahead._process is None
    assert [str(listed.uri) for listed in ahead.finish().catalog.listed] == [
        "skill://one/SKILL.md",
        "skill://two/SKILL.md",
        "skill://two/nested/SKILL.md",
    ]


def test_one_that_is_abandoned_leaves_no_process_behind(tree: Path) -> None:
    ahead = HeadStart(live_of(tree))
    assert ahead._process is not None
    pid, _ = ahead._process
    ahead.abandon()
    ahead.abandon()
    with pytest.raises(ChildProcessError):
        os.waitpid(pid, 0)


def test_children_may_be_ignored_by_whoever_started_us(tree: Path) -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        check_same(HeadStart(live_of(tree)).finish(), tree)
        HeadStart(live_of(tree)).abandon()
    finally:
        signal.signal(signal.SIGCHLD, before)
