"""Skills on disk: found by frontmatter, read leniently, bounded, and never read out of their directory."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from skillquay.core.context import LocalSkill
from skillquay.core.registry import Local, LocalScope
from skillquay.errors import AuthorError, UriError
from skillquay.host import local
from skillquay.host.local import Discovered, LocalEntry, discover, list_files, read_body, read_file
from tests.core.builders import skill_md

PROJECT, USER = LocalScope.PROJECT, LocalScope.USER


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A folder with an empty `.agents/skills`."""
    (tmp_path / "work" / ".agents" / "skills").mkdir(parents=True)
    return Path(os.path.realpath(tmp_path / "work"))


def add(directory: Path, data: bytes | None = None) -> Path:
    """Make a skill of this directory."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "SKILL.md").write_bytes(skill_md(directory.name) if data is None else data)
    return directory


def skills_in(workspace: Path) -> Path:
    return workspace / ".agents" / "skills"


def found(workspace: Path, scope: LocalScope = PROJECT) -> Discovered:
    return discover(str(skills_in(workspace)), scope)


def names(discovered: Discovered) -> list[str]:
    return [skill.name for skill in discovered.skills]


def only(workspace: Path, scope: LocalScope = PROJECT) -> LocalEntry:
    (skill,) = found(workspace, scope).skills
    return skill


# P1: discovery


@pytest.mark.rule("P1")
def test_a_skill_in_the_workspace_is_found_with_its_name_description_and_real_directory(workspace: Path) -> None:
    directory = add(skills_in(workspace) / "refunds", skill_md("refunds", "license: MIT"))
    discovered = found(workspace)
    assert discovered.problems == ()
    assert discovered.skills == (
        LocalEntry(
            name="refunds",
            description="What refunds is for.",
            identity=Local(scope=PROJECT, directory=str(directory)),
            location=str(directory),
            frontmatter={"name": "refunds", "description": "What refunds is for.", "license": "MIT"},
            model_may_load=True,
        ),
    )


@pytest.mark.rule("P1")
def test_a_directory_of_skills_that_is_not_there_holds_none(tmp_path: Path) -> None:
    assert discover(str(tmp_path / ".agents" / "skills"), PROJECT) == Discovered()
    (tmp_path / "file").write_bytes(b"")
    assert discover(str(tmp_path / "file"), USER) == Discovered()


@pytest.mark.rule("P1")
def test_skills_lie_up_to_four_directories_down_and_nested_ones_are_skills_too(workspace: Path) -> None:
    top = skills_in(workspace)
    for path in ("a", "b/c", "a/nested", "d/e/f/deep"):
        add(top / path)
    discovered = found(workspace)
    assert names(discovered) == ["a", "nested", "c", "deep"]
    assert discovered.problems == ()


@pytest.mark.rule("P1")
def test_what_lies_deeper_is_not_loaded_and_the_user_is_told(workspace: Path) -> None:
    add(skills_in(workspace) / "a/b/c/d/too-deep")
    discovered = found(workspace)
    assert names(discovered) == []
    (problem,) = discovered.problems
    assert "1 directories lie more than 4 levels down" in problem.message
    assert problem.rule == "P1"


@pytest.mark.rule("P1")
def test_hidden_directories_and_build_leftovers_are_not_searched(workspace: Path) -> None:
    for path in (".git/a", ".hidden", "node_modules/b", "__pycache__", "kept/.git/c", "kept/node_modules/d"):
        add(skills_in(workspace) / path)
    (skills_in(workspace) / ".link").symlink_to(skills_in(workspace) / ".hidden")
    discovered = found(workspace)
    assert (names(discovered), discovered.problems) == ([], ())


@pytest.mark.rule("P1")
def test_no_more_directories_than_the_bound_are_searched_and_the_uppermost_come_first(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "MAX_DIRECTORIES", 6)
    for number in range(20):
        (skills_in(workspace) / "assets" / f"{number:02}").mkdir(parents=True)
    add(skills_in(workspace) / "z")
    discovered = found(workspace)
    assert names(discovered) == ["z"]
    (problem,) = discovered.problems
    assert problem.message.startswith("Only the first 6 directories")
    assert problem.rule == "P1"


@pytest.mark.rule("P1")
def test_no_more_skills_than_the_bound_are_loaded(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "MAX_SKILLS", 3)
    for number in range(5):
        add(skills_in(workspace) / f"skill-{number}")
    discovered = found(workspace)
    assert names(discovered) == ["skill-0", "skill-1", "skill-2"]
    (problem,) = discovered.problems
    assert "3 skills" in problem.message


@pytest.mark.rule("P1")
def test_the_bounds_are_those_of_the_rule() -> None:
    assert (local.MAX_DEPTH, local.MAX_DIRECTORIES, local.MAX_SKILLS) == (4, 2_000, 1_000)
    assert (local.MAX_SKILL_MD, local.MAX_SHOWN, local.MAX_LISTED) == (65_536, 524_288, 512)


@pytest.mark.rule("P1")
def test_a_skill_md_of_64_kb_is_loaded_and_a_larger_one_skipped_with_the_reason(workspace: Path) -> None:
    add(skills_in(workspace) / "full", skill_md("full").ljust(65_536, b"x"))
    add(skills_in(workspace) / "over", skill_md("over").ljust(65_537, b"x"))
    discovered = found(workspace)
    assert names(discovered) == ["full"]
    (problem,) = discovered.problems
    assert problem.subject.endswith("/over/SKILL.md")
    assert "65,536 bytes" in problem.message
    assert problem.message.endswith("The skill is skipped.")
    assert len(read_body(discovered.skills[0]).body) > 65_000


@pytest.mark.rule("P1")
def test_a_skill_md_at_the_top_belongs_into_a_directory_of_its_own(workspace: Path) -> None:
    (skills_in(workspace) / "SKILL.md").write_bytes(skill_md("skills"))
    discovered = found(workspace)
    assert names(discovered) == []
    assert "directory of its own" in discovered.problems[0].message


@pytest.mark.rule("P1")
def test_a_directory_that_the_system_does_not_list_is_told_of_and_loses_no_other(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(skills_in(workspace) / "good")
    add(skills_in(workspace) / "shut")
    scandir = os.scandir

    def refusing(path: str) -> object:  # permissions would not stop root, who may run these tests
        if path.endswith("/shut"):
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    discovered = found(workspace)
    assert names(discovered) == ["good"]
    (problem,) = discovered.problems
    assert problem.message == "It cannot be searched for skills: permission denied."


@pytest.mark.rule("P2")
@pytest.mark.parametrize(
    ("value", "may"),
    [("true", False), ('"true"', False), ("yes", False), ("false", True), ('"no"', True), ("null", True)],
)
def test_a_skill_that_disables_model_invocation_is_not_for_the_model(workspace: Path, value: str, may: bool) -> None:
    add(skills_in(workspace) / "a", skill_md("a", f"disable-model-invocation: {value}"))
    assert only(workspace).model_may_load is may


# F5: leniency


@pytest.mark.rule("F5")
@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (skill_md("other-name"), 'The name "other-name" is not the name of the directory'),
        (skill_md("x" * 65), "at most 64 are allowed"),
        (b"---\nname: a\ndescription: Use when: always\n---\n", "not quoted"),
        (b"---\ndescription: No name here.\n---\n", "the directory's name is used"),
    ],
)
def test_a_skill_with_a_flaw_is_loaded_and_the_user_is_told(workspace: Path, data: bytes, reason: str) -> None:
    add(skills_in(workspace) / "a", data)
    discovered = found(workspace)
    assert len(discovered.skills) == 1
    assert any(reason in problem.message for problem in discovered.problems)
    assert all(problem.message.endswith("The skill is loaded anyway.") for problem in discovered.problems)


@pytest.mark.rule("F5")
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"# No frontmatter\n",
        b"---\nname: a\n---\n",
        b"---\nname: a\ndescription: ''\n---\n",
        b"---\n: [\n---\n",
        b"---\nname: a\ndescription: \xff\n---\n",
        b"---\nname: a\ndescription: never closed\n",
    ],
)
def test_a_skill_that_cannot_be_read_is_skipped_with_a_reason_and_loses_no_other(workspace: Path, data: bytes) -> None:
    add(skills_in(workspace) / "a", data)
    add(skills_in(workspace) / "b")
    discovered = found(workspace)
    assert names(discovered) == ["b"]
    (problem,) = discovered.problems
    assert problem.subject.endswith("/a/SKILL.md")
    assert problem.message.startswith("Line ")
    assert problem.message.endswith("The skill is skipped.")


@pytest.mark.rule("F5")
def test_a_directory_whose_name_is_not_utf_8_is_skipped(workspace: Path) -> None:
    directory = os.fsencode(skills_in(workspace)) + b"/\xff"
    os.mkdir(directory)
    Path(os.fsdecode(directory), "SKILL.md").write_bytes(skill_md("a"))
    discovered = found(workspace)
    assert names(discovered) == []
    (problem,) = discovered.problems
    assert "not UTF-8" in problem.message
    problem.subject.encode()


@pytest.mark.rule("B4")
def test_a_problem_shows_what_a_path_hides(workspace: Path) -> None:
    add(skills_in(workspace) / "a\u202eb", b"")
    (problem,) = found(workspace).problems
    assert "a⟨U+202E⟩b" in problem.subject


# U8: links


@pytest.mark.rule("U8")
def test_a_linked_directory_of_the_user_is_a_skill_wherever_it_lies(workspace: Path, tmp_path: Path) -> None:
    elsewhere = add(tmp_path / "dotfiles" / "tidy")
    (skills_in(workspace) / "tidy").symlink_to(elsewhere)
    skill = only(workspace, USER)
    assert skill.location == os.path.realpath(elsewhere)
    assert read_body(skill).body == "Refund politely.\n"


@pytest.mark.rule("U8")
def test_a_project_links_only_what_lies_in_the_workspace(workspace: Path, tmp_path: Path) -> None:
    (skills_in(workspace) / "inside").symlink_to(add(workspace / "skills" / "inside"))
    (skills_in(workspace) / "outside").symlink_to(add(tmp_path / "elsewhere" / "outside"))
    (skills_in(workspace) / "twin").symlink_to(add(tmp_path / "work-2" / "twin"))
    discovered = found(workspace)
    assert names(discovered) == ["inside"]
    assert [os.path.basename(problem.subject) for problem in discovered.problems] == ["outside", "twin"]
    assert {problem.rule for problem in discovered.problems} == {"U8"}


@pytest.mark.rule("U8")
def test_a_project_whose_directory_of_skills_leaves_the_workspace_has_none(workspace: Path, tmp_path: Path) -> None:
    add(tmp_path / "elsewhere" / "a")
    skills_in(workspace).rmdir()
    skills_in(workspace).symlink_to(tmp_path / "elsewhere")
    discovered = found(workspace)
    assert names(discovered) == []
    (problem,) = discovered.problems
    assert problem.rule == "U8"
    assert names(found(workspace, USER)) == ["a"]


@pytest.mark.rule("U8")
def test_outside_a_hidden_directory_a_project_links_nothing_from_beside_its_skills(tmp_path: Path) -> None:
    add(tmp_path / "beside" / "a")
    (tmp_path / "skills").mkdir()
    (tmp_path / "skills" / "a").symlink_to(tmp_path / "beside" / "a")
    assert names(discover(str(tmp_path / "skills"), PROJECT)) == []


@pytest.mark.rule("U8")
def test_links_below_the_top_level_and_links_to_nowhere_are_not_followed_and_told_of(workspace: Path) -> None:
    target = add(workspace / "target")
    (skills_in(workspace) / "group").mkdir()
    (skills_in(workspace) / "group" / "deeper").symlink_to(target)
    (skills_in(workspace) / "broken").symlink_to(workspace / "gone")
    (skills_in(workspace) / "loop").symlink_to("loop")
    (skills_in(workspace) / "README.md").symlink_to(target / "SKILL.md")
    discovered = found(workspace)
    assert names(discovered) == []
    assert {os.path.basename(problem.subject) for problem in discovered.problems} == {"broken", "loop", "deeper"}


@pytest.mark.rule("U8")
def test_a_link_back_into_the_skills_ends_and_loads_nothing_twice(workspace: Path) -> None:
    add(skills_in(workspace) / "real")
    (skills_in(workspace) / "again").symlink_to("real")
    (skills_in(workspace) / "everything").symlink_to(".")
    discovered = found(workspace)
    assert names(discovered) == ["real"]
    assert [os.path.basename(problem.subject) for problem in discovered.problems] == ["again", "everything"]


@pytest.mark.rule("U8")
def test_a_skill_md_that_is_a_link_out_of_the_skill_is_not_read(workspace: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.md").write_bytes(skill_md("a"))
    (skills_in(workspace) / "a").mkdir()
    (skills_in(workspace) / "a" / "SKILL.md").symlink_to(tmp_path / "secret.md")
    for scope in LocalScope:
        discovered = found(workspace, scope)
        assert names(discovered) == []
        assert discovered.problems[0].rule == "U8"


@pytest.mark.rule("U8")
def test_a_link_inside_a_skill_may_lead_to_another_file_of_it(workspace: Path) -> None:
    directory = add(skills_in(workspace) / "a")
    (directory / "docs").mkdir()
    (directory / "docs" / "guide.md").write_text("Guide.")
    (directory / "guide.md").symlink_to("docs/guide.md")
    skill = only(workspace)
    assert list_files(skill) == ("SKILL.md", "docs/guide.md", "guide.md")
    assert read_file(skill, "guide.md").text == "Guide."


@pytest.mark.rule("U8")
def test_links_that_leave_the_skill_are_neither_listed_nor_read(workspace: Path, tmp_path: Path) -> None:
    directory = add(skills_in(workspace) / "a")
    beside = add(skills_in(workspace) / "a-twin")
    (tmp_path / "secret.txt").write_text("hunter2")
    (directory / "file").symlink_to(tmp_path / "secret.txt")
    (directory / "relative").symlink_to("../../../../secret.txt")
    (directory / "folder").symlink_to(tmp_path)
    (directory / "beside").symlink_to(beside / "SKILL.md")
    (directory / "indirect").symlink_to("file")
    skill = next(skill for skill in found(workspace).skills if skill.name == "a")
    assert list_files(skill) == ("SKILL.md",)
    for path in ("file", "relative", "folder/secret.txt", "beside", "indirect"):
        with pytest.raises(UriError) as failure:
            read_file(skill, path)
        assert failure.value.rule == "U8"
        assert "hunter2" not in str(failure.value)


@pytest.mark.rule("U8")
def test_a_skill_swapped_for_a_link_after_it_was_found_is_not_read(workspace: Path, tmp_path: Path) -> None:
    directory = add(skills_in(workspace) / "a")
    (directory / "notes.md").write_text("Mine.")
    skill = only(workspace)
    elsewhere = add(tmp_path / "elsewhere" / "a", skill_md("a", body="hunter2"))
    (elsewhere / "notes.md").write_text("hunter2")
    directory.rename(workspace / "moved")
    directory.symlink_to(elsewhere)
    with pytest.raises(AuthorError):
        read_body(skill)
    with pytest.raises(AuthorError):
        list_files(skill)
    with pytest.raises(UriError):
        read_file(skill, "notes.md")


@pytest.mark.rule("U8")
def test_a_parent_swapped_for_a_link_after_the_skill_was_found_is_not_followed(workspace: Path, tmp_path: Path) -> None:
    add(skills_in(workspace) / "a")
    skill = only(workspace)
    add(tmp_path / "elsewhere" / "skills" / "a", skill_md("a", body="hunter2"))
    (workspace / ".agents").rename(workspace / "moved")
    (workspace / ".agents").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(AuthorError):
        read_body(skill)


@pytest.mark.rule("U8")
def test_a_file_or_directory_swapped_for_a_link_while_it_is_read_never_leads_out(
    workspace: Path, tmp_path: Path
) -> None:
    directory = add(skills_in(workspace) / "a")
    (tmp_path / "evil").mkdir()
    (tmp_path / "evil" / "x.md").write_text("hunter2")
    real, link, name = directory / "real", directory / "link", directory / "sub"
    real.mkdir()
    (real / "x.md").write_text("Mine.")
    link.symlink_to(tmp_path / "evil")
    skill = only(workspace)
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            for each in (real, link):
                each.rename(name)
                name.rename(each)

    swapper = threading.Thread(target=swap)
    swapper.start()
    seen: set[str] = set()
    try:
        for _ in range(1000):
            try:
                seen.add(read_file(skill, "sub/x.md").text)
            except UriError:
                seen.add("refused")
            seen |= {"listed" for path in list_files(skill) if path == "link/x.md"}
    finally:
        stop.set()
        swapper.join()
    assert seen <= {"Mine.", "refused"}


# Reading


@pytest.mark.rule("P1")
def test_only_the_frontmatter_is_kept_at_discovery_and_the_body_is_read_when_it_is_needed(workspace: Path) -> None:
    directory = add(skills_in(workspace) / "a", skill_md("a", body="First.\n"))
    skill = only(workspace)
    assert "First." not in repr(skill)
    (directory / "SKILL.md").write_bytes(skill_md("a", body="Second. !`date`\n"))
    assert read_body(skill) == LocalSkill(name="a", directory=str(directory), body="Second. !`date`\n")


@pytest.mark.rule("P1")
@pytest.mark.parametrize("data", [None, b"no frontmatter", skill_md("a").ljust(65_537, b"x")])
def test_a_body_that_cannot_be_read_any_more_is_an_error_that_says_so(workspace: Path, data: bytes | None) -> None:
    directory = add(skills_in(workspace) / "a")
    skill = only(workspace)
    if data is None:
        (directory / "SKILL.md").unlink()
    else:
        (directory / "SKILL.md").write_bytes(data)
    with pytest.raises(AuthorError, match=r"SKILL\.md"):
        read_body(skill)


@pytest.mark.rule("P1")
def test_files_are_listed_by_path_and_hidden_ones_left_out(workspace: Path) -> None:
    directory = add(skills_in(workspace) / "a")
    for path in ("z.txt", "b/c.md", ".env", ".git/config", "b/.hidden", "node_modules/x.js", "__pycache__/x.pyc"):
        (directory / path).parent.mkdir(exist_ok=True)
        (directory / path).write_text("x")
    (directory / "back\\slash").write_text("x")
    (directory / "a:b").write_text("x")
    Path(os.fsdecode(os.fsencode(directory) + b"/\xff")).write_text("x")
    os.mkfifo(directory / "pipe")
    skill = only(workspace)
    assert list_files(skill) == ("SKILL.md", "b/c.md", "z.txt")
    for path in list_files(skill):
        assert read_file(skill, path).path == path


@pytest.mark.rule("P1")
def test_no_more_than_512_files_are_listed_and_the_deepest_are_left_out(workspace: Path) -> None:
    directory = add(skills_in(workspace) / "a")
    deep = directory / "/".join(["d"] * 40)
    deep.mkdir(parents=True)
    (deep / "x").write_text("x")
    skill = only(workspace)
    assert list_files(skill) == ("SKILL.md",)
    for number in range(600):
        (directory / f"{number:03}.txt").write_text("")
    assert len(list_files(skill)) == 512


@pytest.mark.rule("P1")
def test_listing_ends_after_so_many_directories(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = add(skills_in(workspace) / "a")
    for number in range(10):
        (directory / f"{number}").mkdir()
        (directory / f"{number}" / "x").write_text("")
    skill = only(workspace)
    monkeypatch.setattr(local, "MAX_DIRECTORIES", 3)
    assert list_files(skill) == ("0/x", "1/x", "2/x", "SKILL.md")


@pytest.mark.rule("U5")
@pytest.mark.parametrize(
    ("reference", "path"),
    [
        ("docs/my guide.md", "docs/my guide.md"),
        ("./docs/my%20guide.md", "docs/my guide.md"),
        ("docs/my%20guide.md#setup", "docs/my guide.md"),
        ("SKILL.md", "SKILL.md"),
    ],
)
def test_a_reference_is_relative_to_the_skills_own_directory(workspace: Path, reference: str, path: str) -> None:
    outer = add(skills_in(workspace) / "outer")
    nested = add(outer / "nested")
    for directory in (outer, nested):
        (directory / "docs").mkdir()
        (directory / "docs" / "my guide.md").write_text(f"The guide of {directory.name}.")
    for skill in found(workspace).skills:
        file = read_file(skill, reference)
        assert file.path == path
        assert skill.name in file.text


@pytest.mark.rule("P1")
@pytest.mark.parametrize("path", [".env", "./.env", "%2eenv", "docs/.secret", ".git/config", "node_modules/x", "alias"])
def test_hidden_files_are_refused_by_whatever_name(workspace: Path, path: str) -> None:
    directory = add(skills_in(workspace) / "a")
    for each in (".env", "docs/.secret", ".git/config", "node_modules/x"):
        (directory / each).parent.mkdir(exist_ok=True)
        (directory / each).write_text("hunter2")
    (directory / "alias").symlink_to(".env")
    skill = only(workspace)
    with pytest.raises(UriError) as failure:
        read_file(skill, path)
    assert failure.value.rule == "P1"


@pytest.mark.rule("P3")
@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "../b/SKILL.md",
        "x/../../b/SKILL.md",
        "%2e%2e/b/SKILL.md",
        "..%2fb%2fSKILL.md",
        "file:///etc/passwd",
        "c:/x",
        "..\\b",
        "a\0b",
        "\ud800",
        "x" * 5000,
    ],
)
def test_absolute_paths_and_paths_that_walk_are_refused(workspace: Path, path: str) -> None:
    add(skills_in(workspace) / "a")
    add(skills_in(workspace) / "b")
    with pytest.raises(UriError):
        read_file(found(workspace).skills[0], path)


@pytest.mark.parametrize("path", ["gone.md", "SKILL.md/x", "docs", "docs/", "", ".", "pipe", "x" * 300])
def test_what_is_no_file_is_an_error_and_a_fifo_never_blocks(workspace: Path, path: str) -> None:
    directory = add(skills_in(workspace) / "a")
    (directory / "docs").mkdir()
    os.mkfifo(directory / "pipe")
    with pytest.raises(UriError):
        read_file(only(workspace), path)


@pytest.mark.rule("P1")
def test_a_fifo_or_a_directory_as_skill_md_never_blocks_discovery(workspace: Path) -> None:
    for name in ("pipe", "folder"):
        (skills_in(workspace) / name).mkdir()
    os.mkfifo(skills_in(workspace) / "pipe" / "SKILL.md")
    (skills_in(workspace) / "folder" / "SKILL.md").mkdir()
    add(skills_in(workspace) / "good")
    discovered = found(workspace)
    assert names(discovered) == ["good"]
    (problem,) = discovered.problems
    assert problem.subject.endswith("/pipe/SKILL.md")


@pytest.mark.rule("P1")
def test_a_file_beyond_512_kb_is_cut_between_characters_and_says_so(workspace: Path) -> None:
    directory = add(skills_in(workspace) / "a")
    (directory / "full.txt").write_bytes(b"x" * 524_288)
    (directory / "over.txt").write_bytes(b"x" * 524_287 + "é".encode() + b"x" * 1000)
    skill = only(workspace)
    full, over = read_file(skill, "full.txt"), read_file(skill, "over.txt")
    assert (len(full.text), full.size, full.shortened) == (524_288, 524_288, False)
    assert (over.text, over.size, over.shortened) == ("x" * 524_287, 525_289, True)


def test_bytes_that_are_not_utf_8_are_shown_as_escapes(workspace: Path) -> None:
    directory = add(skills_in(workspace) / "a")
    (directory / "x.bin").write_bytes(b"a\xff\r\n\xc3")
    assert read_file(only(workspace), "x.bin").text == "a\\xff\r\n\\xc3"
