"""A tree is read whole, whatever lies in it: each file once, no link out of a skill, one bad file never the rest."""

from __future__ import annotations

import os
import socket
import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from skillquay.core.digests import Digest
from skillquay.core.entries import LIMITS
from skillquay.core.findings import Finding, Level
from skillquay.core.folders import SkillFolder, publish
from skillquay.sources.directory import MAX_DEPTH, Reading, SkippedPath, read_tree
from tests.sources.builders import IN_MEMORY, ordinary_user, skill

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def folders(root: Path, *, prefix: tuple[str, ...] = ()) -> dict[str, SkillFolder]:
    items = read_tree(str(root), prefix=prefix)
    return {"/".join(item.root.segments): item for item in items if isinstance(item, SkillFolder)}


def skipped(root: Path) -> list[SkippedPath]:
    return [item for item in read_tree(str(root)) if isinstance(item, SkippedPath)]


def findings(folder: SkillFolder, level: Level) -> list[Finding]:
    return [finding for finding in publish(folder).findings if finding.level is level]


@pytest.mark.rule("F1", "U1")
def test_skills_are_found_at_any_depth_with_every_file_and_its_digest(tmp_path: Path) -> None:
    skill(tmp_path, "one", notes_md="n")
    skill(tmp_path, "acme/billing/refunds", references__guide_md=b"g\r\n", logo_png=b"\x89PNG\x00")
    (tmp_path / "README.md").write_text("not a skill")
    found = folders(tmp_path)
    assert sorted(found) == ["acme/billing/refunds", "one"]
    refunds = found["acme/billing/refunds"]
    assert refunds.paths == ("SKILL.md", "logo.png", "references/guide.md")
    assert refunds.files[1].digest == Digest.of(b"\x89PNG\x00")
    assert refunds.files[1].uri == "skill://acme/billing/refunds/logo.png"
    assert refunds.files[2].size == 3


@pytest.mark.rule("E2", "E7")
def test_a_nested_skill_has_its_own_entry_and_its_files_are_the_enclosing_skills_too(tmp_path: Path) -> None:
    skill(tmp_path, "outer", a_md="a")
    skill(tmp_path, "outer/parts/inner", b_md="b")
    found = folders(tmp_path)
    assert found["outer"].paths == ("SKILL.md", "a.md", "parts/inner/SKILL.md", "parts/inner/b.md")
    assert found["outer/parts/inner"].paths == ("SKILL.md", "b.md")
    assert found["outer"].files[3] is found["outer/parts/inner"].files[1]  # read once, recorded once
    assert found["outer/parts/inner"].skill_md.startswith(b"---\nname: inner")


def test_a_single_skill_directory_and_a_skill_md_are_trees_too(tmp_path: Path) -> None:
    directory = skill(tmp_path, "one")
    assert list(folders(directory)) == ["one"]
    assert list(folders(directory / "SKILL.md")) == ["one"]


@pytest.mark.rule("U1")
def test_a_prefix_comes_before_every_path(tmp_path: Path) -> None:
    directory = skill(tmp_path, "refunds")
    assert list(folders(tmp_path, prefix=("acme", "billing"))) == ["acme/billing/refunds"]
    assert list(folders(directory, prefix=("acme",))) == ["acme/refunds"]


def test_an_empty_tree_has_no_skills(tmp_path: Path) -> None:
    assert list(read_tree(str(tmp_path))) == []


def test_a_missing_path_is_reported_and_is_no_crash(tmp_path: Path) -> None:
    (only,) = skipped(tmp_path / "nothing")
    assert (only.finding.kind, only.finding.level) == ("unreadable", Level.ERROR)
    assert "no such file" in only.finding.message


@pytest.mark.rule("U8")
def test_links_out_of_a_skill_are_neither_read_nor_published_and_are_reported(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    directory = skill(tmp_path, "tree/one")
    (directory / "out.txt").symlink_to(secret)
    (directory / "passwd").symlink_to("/etc/passwd")
    (directory / "up").symlink_to("../..")
    (directory / "broken").symlink_to("nowhere")
    (directory / "loop").symlink_to("loop")
    folder = folders(tmp_path / "tree")["one"]
    assert folder.paths == ("SKILL.md",)
    warned = {finding.file for finding in findings(folder, Level.WARNING) if finding.rule == "U8"}
    assert warned == {"out.txt", "passwd", "up", "broken", "loop"}
    assert publish(folder).entry is not None


@pytest.mark.rule("U8")
def test_a_link_from_a_nested_skill_to_its_enclosing_one_leaves_the_nested_skill(tmp_path: Path) -> None:
    skill(tmp_path, "outer", shared_md="s")
    inner = skill(tmp_path, "outer/inner")
    (inner / "shared.md").symlink_to("../shared.md")
    assert folders(tmp_path)["outer/inner"].paths == ("SKILL.md",)


def test_a_link_inside_a_skill_is_published_as_the_file_it_leads_to(tmp_path: Path) -> None:
    directory = skill(tmp_path, "one", references__guide_md="guide")
    (directory / "guide.md").symlink_to("references/guide.md")
    folder = folders(tmp_path)["one"]
    assert folder.paths == ("SKILL.md", "guide.md", "references/guide.md")
    assert folder.files[1].digest == Digest.of(b"guide")
    assert [finding.kind for finding in findings(folder, Level.NOTE)] == ["link"]


def test_a_link_to_a_hidden_file_does_not_publish_it(tmp_path: Path) -> None:
    directory = skill(tmp_path, "one")
    (directory / ".env").write_text("TOKEN=1")
    (directory / "env.txt").symlink_to(".env")
    folder = folders(tmp_path)["one"]
    assert folder.paths == ("SKILL.md",)
    assert [finding.file for finding in findings(folder, Level.WARNING)] == ["env.txt"]


@pytest.mark.rule("U8")
def test_a_skill_md_that_leads_elsewhere_makes_no_skill(tmp_path: Path) -> None:
    other = tmp_path / "other.md"
    other.write_text("---\nname: one\ndescription: d\n---\n")
    (tmp_path / "tree" / "one").mkdir(parents=True)
    (tmp_path / "tree" / "one" / "SKILL.md").symlink_to(other)
    (only,) = skipped(tmp_path / "tree")
    assert (only.finding.rule, only.finding.level) == ("U8", Level.ERROR)
    assert not folders(tmp_path / "tree")


@pytest.mark.rule("U8")
def test_linked_directories_are_not_followed_even_when_they_loop(tmp_path: Path) -> None:
    skill(tmp_path, "one")
    (tmp_path / "again").symlink_to(".")
    (tmp_path / "two").symlink_to("one")
    assert list(folders(tmp_path)) == ["one"]
    assert [os.path.basename(item.location) for item in skipped(tmp_path)] == ["again", "two"]


@pytest.mark.rule("P1")
def test_hidden_files_and_leftovers_are_left_out_with_a_note(tmp_path: Path) -> None:
    directory = skill(tmp_path, "one", node_modules__x_js="x")
    (directory / ".git").mkdir()
    (directory / ".git" / "config").write_text("c")
    (directory / ".DS_Store").write_text("d")
    (directory / "node_modules").mkdir()
    (directory / "__pycache__").mkdir()
    (directory / "__pycache__" / "x.pyc").write_text("p")
    skill(tmp_path, ".claude/skills/hidden")
    found = folders(tmp_path)
    assert list(found) == ["one"]
    noted = {finding.file for finding in findings(found["one"], Level.NOTE)}
    assert {".git/", ".DS_Store", "node_modules/", "__pycache__/"} <= noted
    assert list(folders(tmp_path / ".claude" / "skills")) == ["hidden"]


def test_fifos_and_sockets_keep_a_skill_out_and_are_never_opened(tmp_path: Path) -> None:
    directory = skill(tmp_path, "one")
    skill(tmp_path, "two")
    os.mkfifo(directory / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        here = os.open(directory, os.O_RDONLY)
        try:
            server.bind(f"/proc/self/fd/{here}/sock")
        finally:
            os.close(here)
    found = folders(tmp_path)
    errors = findings(found["one"], Level.ERROR)
    assert sorted(finding.file for finding in errors) == ["pipe", "sock"]
    assert publish(found["one"]).entry is None
    assert publish(found["two"]).entry is not None


def test_a_skill_md_that_is_a_fifo_makes_no_skill_and_does_not_hang(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    os.mkfifo(tmp_path / "one" / "SKILL.md")
    (only,) = skipped(tmp_path)
    assert only.finding.kind == "special-file"


@pytest.mark.rule("F1")
def test_a_directory_named_skill_md_makes_no_skill_and_is_reported(tmp_path: Path) -> None:
    (tmp_path / "one" / "SKILL.md").mkdir(parents=True)
    (only,) = skipped(tmp_path)
    assert (only.finding.rule, only.finding.message) == ("F1", "SKILL.md is a directory.")


@pytest.mark.rule("F1")
def test_a_skill_md_in_other_letters_is_no_skill_but_a_hint(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "skill.md").write_text("---\nname: one\ndescription: d\n---\n")
    (only,) = skipped(tmp_path)
    assert (only.finding.rule, only.finding.level) == ("F1", Level.WARNING)


@pytest.mark.rule("U3")
def test_names_with_line_breaks_or_bytes_that_are_not_utf8_keep_only_their_own_skill_out(tmp_path: Path) -> None:
    broken = skill(tmp_path, "broken-line")
    (broken / "a\nb.md").write_text("x")
    bytes_ = skill(tmp_path, "broken-bytes")
    with open(os.path.join(os.fsencode(bytes_), b"caf\xe9.md"), "wb") as file:
        file.write(b"x")
    back = skill(tmp_path, "broken-slash")
    (back / "a\\b.md").write_text("x")
    skill(tmp_path, "good")
    found = folders(tmp_path)
    for name in ("broken-line", "broken-bytes", "broken-slash"):
        (error,) = findings(found[name], Level.ERROR)
        assert (error.rule, error.kind) == ("U3", "file-name")
        assert error.file.isprintable()
        assert error.message.isprintable()
        assert publish(found[name]).entry is None
    assert publish(found["good"]).entry is not None


def test_directories_with_impossible_names_are_not_entered(tmp_path: Path) -> None:
    skill(tmp_path, "bad\nname/one")
    (only,) = skipped(tmp_path)
    assert only.finding.kind == "file-name"


@pytest.mark.rule("U1")
def test_names_that_need_encoding_are_encoded_once(tmp_path: Path) -> None:
    skill(tmp_path, "one", **{"näh spaß 100%.md": "x"})
    (file,) = [file for file in folders(tmp_path)["one"].files if "%" in file.uri]
    assert file.uri == "skill://one/n%C3%A4h%20spa%C3%9F%20100%25.md"


def test_a_skill_md_that_cannot_be_read_is_an_error_whatever_else_is_found_beside_it(tmp_path: Path) -> None:
    for name, link in (("pipe", None), ("broken", "nowhere"), ("loop", "SKILL.md"), ("directory", ".")):
        (tmp_path / name).mkdir()
        (tmp_path / name / ".env").touch()
        if link is None:
            os.mkfifo(tmp_path / name / "SKILL.md")
        else:
            (tmp_path / name / "SKILL.md").symlink_to(link)
    items = skipped(tmp_path)
    assert [item.finding.level for item in items] == [Level.ERROR] * 4
    assert {(os.path.basename(item.location), item.finding.file) for item in items} == {
        (name, "SKILL.md") for name in ("pipe", "broken", "loop", "directory")
    }


def test_what_cannot_be_read_keeps_only_its_own_skill_out() -> None:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        root.chmod(0o755)
        (skill(root, "file") / "secret.md").write_text("x")
        (root / "file" / "secret.md").chmod(0)
        (skill(root, "directory") / "closed").mkdir(mode=0)
        (skill(root, "skill-md") / "SKILL.md").chmod(0)
        (root / "closed-tree").mkdir(mode=0)
        skill(root, "good")
        with ordinary_user():
            items = list(read_tree(name))
        (root / "directory" / "closed").chmod(0o700)
        (root / "closed-tree").chmod(0o700)
    found = {item.name: item for item in items if isinstance(item, SkillFolder)}
    assert [error.file for error in findings(found["file"], Level.ERROR)] == ["secret.md"]
    assert [error.file for error in findings(found["directory"], Level.ERROR)] == ["closed/"]
    assert publish(found["good"]).entry is not None
    outside = [os.path.relpath(item.location, name) for item in items if isinstance(item, SkippedPath)]
    assert outside == ["closed-tree", "skill-md"]


@pytest.mark.rule("E4")
def test_files_past_the_limits_that_cannot_even_be_looked_at_keep_only_their_own_skill_out() -> None:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        root.chmod(0o755)
        over = skill(root, "over")
        for number in range(LIMITS.files + 1):
            (over / f"{number}.md").touch()
        (over / "closed").mkdir()
        (over / "closed" / "x.md").touch()
        (over / "closed").chmod(0o444)
        skill(root, "good")
        with ordinary_user():
            found = folders(root)
        (over / "closed").chmod(0o755)
    assert publish(found["good"]).entry is not None
    assert {error.kind for error in findings(found["over"], Level.ERROR)} == {"limits", "unreadable"}


@pytest.mark.rule("E4")
def test_a_skill_at_the_limits_is_published_and_one_beyond_is_refused_with_both_numbers(tmp_path: Path) -> None:
    full = skill(tmp_path, "full")
    for number in range(LIMITS.files - 1):
        (full / f"{number}.md").touch()
    over = skill(tmp_path, "over")
    for number in range(LIMITS.files):
        (over / f"{number}.md").touch()
    found = folders(tmp_path)
    assert publish(found["full"]).entry is not None
    (error,) = findings(found["over"], Level.ERROR)
    assert (error.rule, "513" in error.message, "512" in error.message) == ("E4", True, True)


@pytest.mark.rule("E4")
def test_a_skill_of_more_than_16_mib_is_refused_without_reading_what_is_too_large(tmp_path: Path) -> None:
    exact = skill(tmp_path, "exact")
    rest = LIMITS.size - (exact / "SKILL.md").stat().st_size
    with open(exact / "data.bin", "wb") as file:
        file.truncate(rest)
    huge = skill(tmp_path, "huge")
    with open(huge / "data.bin", "wb") as file:
        file.truncate(1 << 40)  # a terabyte on paper: reading it would never end
    (huge / "small.md").write_text("x")
    found = folders(tmp_path)
    assert publish(found["exact"]).entry is not None
    assert [error.rule for error in findings(found["huge"], Level.ERROR)] == ["E4"]
    assert found["huge"].size > 1 << 40


def test_a_file_that_grows_while_it_is_read_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = skill(tmp_path, "one", log_txt="begin") / "log.txt"
    read = os.read
    grown: list[int] = []

    def read_and_grow(fd: int, size: int) -> bytes:
        data = read(fd, size)
        if data == b"begin" and not grown:
            grown.append(file.write_text("begin and end"))
        return data

    monkeypatch.setattr(os, "read", read_and_grow)
    folder = folders(tmp_path)["one"]
    assert folder.files[1].digest == Digest.of(b"begin and end")


def test_a_file_that_never_stops_changing_keeps_its_skill_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = skill(tmp_path, "one", log_txt="0") / "log.txt"
    read = os.read

    def read_and_grow(fd: int, size: int) -> bytes:
        data = read(fd, size)
        if data.startswith(b"0"):
            with file.open("a") as log:
                log.write("0")
        return data

    monkeypatch.setattr(os, "read", read_and_grow)
    (error,) = findings(folders(tmp_path)["one"], Level.ERROR)
    assert (error.kind, error.file) == ("changing", "log.txt")


def test_a_file_replaced_by_a_fifo_before_it_is_opened_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = skill(tmp_path, "one", a_md="x") / "a.md"
    open_ = os.open

    def open_late(path: str, flags: int) -> int:
        if path.endswith("a.md"):
            file.unlink()
            os.mkfifo(file)
        return open_(path, flags)

    monkeypatch.setattr(os, "open", open_late)
    (error,) = findings(folders(tmp_path)["one"], Level.ERROR)
    assert error.kind == "special-file"


def test_a_tree_of_a_hundred_thousand_directories_is_walked() -> None:
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as name:
        for outer in range(100):
            os.mkdir(f"{name}/{outer}")
            for inner in range(1000):
                os.mkdir(f"{name}/{outer}/{inner}")
        skill(Path(name), "99/999/last")
        assert list(folders(Path(name))) == ["99/999/last"]


@pytest.mark.rule("P1")
def test_a_tree_that_goes_too_deep_is_left_at_that(tmp_path: Path) -> None:
    skill(tmp_path, "/".join(["d"] * (MAX_DEPTH - 1)) + "/reached")
    skill(tmp_path, "/".join(["e"] * MAX_DEPTH) + "/beyond")
    assert [folder.name for folder in folders(tmp_path).values()] == ["reached"]
    assert [item.finding.kind for item in skipped(tmp_path)] == ["depth"]


# Parts of a tree that is served


def parts(root: Path, prefix: tuple[str, ...], reading: Reading) -> dict[str, SkillFolder]:
    items = read_tree(str(root), prefix=prefix, reading=reading)
    return {"/".join(item.root.segments): item for item in items if isinstance(item, SkillFolder)}


@pytest.mark.rule("U1")
def test_a_root_that_is_part_of_a_larger_tree_is_what_the_prefix_leads_to(tmp_path: Path) -> None:
    skill(tmp_path, "one")
    skill(tmp_path, "one/inner")
    assert sorted(parts(tmp_path / "one", ("acme", "uno"), Reading(is_part=True))) == ["acme/uno", "acme/uno/inner"]
    assert sorted(parts(tmp_path / "one", ("acme",), Reading(name="uno"))) == ["acme/uno", "acme/uno/inner"]
    assert sorted(parts(tmp_path, ("acme",), Reading(name="uno"))) == ["acme/one", "acme/one/inner"]


@pytest.mark.rule("P1")
def test_a_part_that_lies_deep_in_its_tree_is_left_where_the_whole_tree_would_be(tmp_path: Path) -> None:
    skill(tmp_path, "a/one")
    skill(tmp_path, "two")
    assert list(parts(tmp_path, ("x",), Reading(is_part=True, depth=MAX_DEPTH - 1))) == ["x/two"]
    assert list(parts(tmp_path, ("x",), Reading(is_part=True, depth=MAX_DEPTH))) == []


@pytest.mark.rule("E3")
def test_the_bytes_of_every_published_file_are_given_once_with_their_digest(tmp_path: Path) -> None:
    directory = skill(tmp_path, "one", a_md="a", docs__b_md="b")
    skill(tmp_path, "one/inner", c_md="c")
    (directory / "link.md").symlink_to("a.md")
    (directory / ".env").write_text("secret")
    kept: list[tuple[Digest, bytes]] = []
    found = parts(tmp_path, (), Reading(keep=lambda digest, data: kept.append((digest, data))))
    assert all(Digest.of(data) == digest for digest, data in kept)
    assert sorted(digest for digest, _ in kept) == sorted(file.digest for file in found["one"].files)
    assert b"secret" not in [data for _, data in kept]


def test_an_outermost_skill_that_is_known_is_passed_over_with_all_that_is_in_it(tmp_path: Path) -> None:
    for name in ("known", "known/inner", "new", "new/inner"):
        skill(tmp_path, name, a_md="a")
    (tmp_path / "known" / ".hidden").touch()
    asked: dict[str, set[str]] = {}

    def is_known(location: str, entries: Sequence[os.DirEntry[str]]) -> bool:
        asked[os.path.relpath(location, tmp_path)] = {entry.name for entry in entries}
        return location.endswith("known")

    assert sorted(parts(tmp_path, (), Reading(known=is_known))) == ["new", "new/inner"]
    assert asked == {"known": {"SKILL.md", "a.md", "inner", ".hidden"}, "new": {"SKILL.md", "a.md", "inner"}}


def test_whoever_asks_is_told_of_directories_that_cannot_be_listed_inside_skills_and_outside(tmp_path: Path) -> None:
    skill(tmp_path, "one", closed__a_md="a")
    (tmp_path / "closed").mkdir()
    told: dict[str, str] = {}
    scandir = os.scandir

    def refuse(path: str) -> Iterator[os.DirEntry[str]]:
        if path.endswith("closed"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "scandir", refuse)
        reading = Reading(unread=lambda location, error: told.update({location: type(error).__name__}))
        assert list(parts(tmp_path, (), reading)) == ["one"]
    assert told == {str(tmp_path / name): "PermissionError" for name in ("closed", "one/closed")}


@pytest.mark.rule("D1")
def test_directories_with_nothing_in_them_are_named_in_one_order(tmp_path: Path) -> None:
    directory = skill(tmp_path, "one", docs__a_md="a", **{"a-b__x": "x", "näh er__x": "x"})
    for name in ("zero", "empty/within", "a", "näh", "docs/sub", "only-hidden", "äh/x y"):
        (directory / name).mkdir(parents=True)
    (directory / "only-hidden/.env").touch()
    (directory / ".git/objects").mkdir(parents=True)
    (directory / "node_modules/x").mkdir(parents=True)
    expected = ("a", "docs/sub", "empty/within", "näh", "only-hidden", "zero", "äh/x y")
    assert folders(tmp_path)["one"].empty == expected
    scandir = os.scandir
    with pytest.MonkeyPatch.context() as patch:  # a directory is listed in any order
        patch.setattr(os, "scandir", lambda path: nullcontext(list(scandir(path))[::-1]))
        assert folders(tmp_path)["one"].empty == expected


@pytest.mark.rule("D1")
def test_an_empty_directory_of_a_nested_skill_is_one_of_the_enclosing_skill_too(tmp_path: Path) -> None:
    skill(tmp_path, "one")
    (skill(tmp_path, "one/inner") / "empty").mkdir()
    found = folders(tmp_path)
    assert found["one/inner"].empty == ("empty",)
    assert found["one"].empty == ("inner/empty",)


@pytest.mark.rule("I3")
def test_files_that_can_be_run_are_named_for_every_skill_they_belong_to(tmp_path: Path) -> None:
    one = skill(tmp_path, "one", z_sh="z", a_sh="a", docs__b_sh="b", plain="p", group="g")
    inner = skill(tmp_path, "one/inner", run_sh="r")
    for path in (one / "z.sh", one / "a.sh", one / "docs/b.sh", inner / "run.sh", inner / "SKILL.md"):
        path.chmod(0o755)
    (one / "group").chmod(0o674)  # its owner may not run it
    (one / "link").symlink_to("a.sh")
    found = folders(tmp_path)
    assert found["one/inner"].executable == ("SKILL.md", "run.sh")
    assert found["one"].executable == ("a.sh", "docs/b.sh", "inner/SKILL.md", "inner/run.sh", "link", "z.sh")


@pytest.mark.rule("I6")
def test_every_uri_of_a_tree_has_the_scheme_that_was_asked_for(tmp_path: Path) -> None:
    skill(tmp_path, "one/inner", **{"a b": "x"})
    skill(tmp_path, "one")
    for prefix, above in (((), "github://one"), (("o", "r"), "github://o/r/one")):
        items = list(read_tree(str(tmp_path), prefix=prefix, reading=Reading(scheme="github")))
        roots = {item.root: item for item in items if isinstance(item, SkillFolder)}
        assert roots.keys() == {above, f"{above}/inner"}
        assert [file.uri for folder in roots.values() for file in folder.files if "%20" in file.uri] == [
            f"{above}/inner/a%20b"
        ] * 2


@pytest.mark.rule("U8")
def test_links_that_loop_outside_every_skill_are_no_crash(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "nowhere").symlink_to("nothing")
    skill(tmp_path, "one")
    assert list(folders(tmp_path)) == ["one"]
    assert skipped(tmp_path) == []


@pytest.mark.rule("U8", "P1")
def test_a_link_to_a_build_leftover_does_not_publish_it(tmp_path: Path) -> None:
    directory = skill(tmp_path, "one", node_modules__lib_js="x")
    (directory / "node_modules").mkdir()
    (directory / "node_modules/lib.js").write_text("lib")
    (directory / "lib.js").symlink_to("node_modules/lib.js")
    (directory / "leftover").symlink_to("__pycache__")
    (directory / "__pycache__").write_text("a file is no leftover")
    folder = folders(tmp_path)["one"]
    assert [path for path in folder.paths if path != "node.modules/lib.js"] == ["SKILL.md", "__pycache__", "leftover"]


@pytest.mark.rule("P1")
def test_a_hidden_link_to_a_directory_is_as_little_worth_a_word_as_a_hidden_directory(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    for name in (".hidden", "node_modules"):
        (tmp_path / name).symlink_to("real")
    assert skipped(tmp_path) == []


def test_a_skill_whose_file_cannot_be_read_is_told_with_the_uri_it_would_have(tmp_path: Path) -> None:
    skill(tmp_path, "one/inner")
    os.mkfifo(tmp_path / "one/SKILL.md")
    (only,) = skipped(tmp_path)
    assert (only.location, only.root) == (str(tmp_path / "one"), "skill://one")
    assert [folder.root for folder in folders(tmp_path).values()] == ["skill://one/inner"]
