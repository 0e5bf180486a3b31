"""`skillquay lint`, as a person and as a machine use it."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING

import pytest

from tests.cli.conftest import write

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Run


def test_a_finding_has_its_rule_file_line_message_and_fix_and_an_error_is_status_1(run: Run, skills: Path) -> None:
    done = run("lint", "skills")
    assert done.status == 1
    assert "skills/broken\n  SKILL.md:3  error  F4  The frontmatter is not valid YAML" in done.out
    assert "--fix would quote a value" in done.out
    assert "3 skills: 1 error, 1 warning, 1 note; 1 clean." in done.out
    assert done.err == ""


def test_clean_skills_are_status_0(run: Run, skills: Path) -> None:
    done = run("lint", "skills/good")
    assert (done.status, done.out) == (0, "1 skill: no findings.\n")


def test_warnings_alone_are_status_0_and_status_1_when_strict(run: Run, skills: Path) -> None:
    assert run("lint", "skills/warned").status == 0
    assert run("lint", "--strict", "skills/warned").status == 1


@pytest.mark.parametrize(
    "arguments", [["lint"], ["lint", "nowhere"], ["lint", "--nope", "."], ["lint", ".", "nowhere"]]
)
def test_a_wrong_command_is_status_2_and_says_what_to_do(run: Run, skills: Path, arguments: list[str]) -> None:
    done = run(*arguments)
    assert done.status == 2
    assert done.out == ""
    assert done.err


def test_an_empty_tree_is_said_to_be_empty(run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    done = run("lint", "empty")
    assert done.status == 0
    assert done.out == 'No skills in "empty". A skill is a directory with a file named SKILL.md.\n'


def test_several_paths_are_linted_together(run: Run, skills: Path) -> None:
    assert "2 skills: 1 warning, 1 note; 1 clean." in run("lint", "skills/good", "skills/warned").out


def test_paths_that_include_each_other_are_linted_once(run: Run, skills: Path) -> None:
    assert "3 skills: " in run("lint", "skills", "skills/good", "skills", "./skills/../skills").out


def test_a_file_that_is_no_skill_md_is_status_2(run: Run, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    for command in ("lint", "list"):
        done = run(command, "notes.txt")
        assert done.status == 2
        assert '"notes.txt" is a file' in done.err


def test_output_that_cannot_be_encoded_or_written_is_no_traceback(run: Run, tmp_path: Path) -> None:
    write(tmp_path / "tree" / "a\nb", "no frontmatter")
    done = run("lint", "tree", PYTHONIOENCODING="ascii")
    assert "Traceback" not in done.err
    assert done.status == 1


def test_json_has_everything_and_nothing_else(run: Run, skills: Path) -> None:
    done = run("lint", "--json", "skills")
    report = json.loads(done.out)
    assert done.status == 1
    assert report["counts"] == {"error": 1, "warning": 1, "note": 1}
    (error,) = [each for each in report["findings"] if each["level"] == "error"]
    assert error["file"] == os.path.join("skills", "broken", "SKILL.md")
    assert (error["rule"], error["line"], error["kind"]) == ("F4", 3, "frontmatter")
    assert error["fix"]


def test_peers_are_named(run: Run, skills: Path) -> None:
    done = run("lint", "--peers", "skills/warned")
    assert "Refused by FastMCP 4.1, TypeScript SDK 2.4, Go SDK (proposed): metadata.version" in done.out


def test_two_skills_of_one_name_are_pointed_out(run: Run, tmp_path: Path) -> None:
    for team in ("a", "b"):
        write(tmp_path / "tree" / team / "refunds", "---\nname: refunds\ndescription: d\n---\n")
    done = run("lint", "tree")
    assert '2 skills are named "refunds"' in done.out
    assert done.status == 0


def test_names_on_disk_cannot_write_to_the_terminal(run: Run, tmp_path: Path) -> None:
    write(tmp_path / "tree" / "\x1b[31mred\u202e", "no frontmatter")
    for arguments in (["lint", "tree"], ["lint", "--json", "tree"], ["list", "tree"]):
        done = run(*arguments)
        assert "\x1b" not in done.out
        assert "\u202e" not in done.out
    with open(os.path.join(os.fsencode(tmp_path), b"tree", b"caf\xe9"), "wb"):
        pass
    os.mkdir(os.path.join(os.fsencode(tmp_path), b"tree", b"dir\xe9"))
    assert run("lint", "tree").status == 1
    json.loads(run("lint", "--json", "tree").out)


def test_many_findings_are_summed_up_and_all_are_shown_when_asked_for(run: Run, tmp_path: Path) -> None:
    for number in range(100):
        write(tmp_path / "tree" / f"s{number}", f"---\nname: s{number}\ndescription: d\nlicense: 1\n---\n")
    done = run("lint", "tree")
    assert len(done.out.splitlines()) < 30
    assert "100 skills: 100 warnings, 100 notes; 0 clean." in done.out
    assert "See every one with --all" in done.out
    assert run("lint", "--all", "tree").out.count("license is a number") == 100


def test_fix_mends_what_is_safe_shows_the_difference_and_leaves_the_mode(run: Run, skills: Path) -> None:
    file = skills / "broken" / "SKILL.md"
    file.chmod(0o640)
    done = run("lint", "--fix", "skills")
    assert done.status == 0
    assert "-description: Use when: asked\n+description: 'Use when: asked'" in done.out
    assert '-  version: 1.10\n+  version: "1.10"' in done.out
    assert "Mended 2 files." in done.out
    assert "3 skills: no findings." in done.out
    assert file.read_text() == "---\nname: broken\ndescription: 'Use when: asked'\n---\n"
    assert file.stat().st_mode & 0o777 == 0o640
    assert sorted(path.name for path in (skills / "broken").iterdir()) == ["SKILL.md"]
    assert "Mended 0 files." in run("lint", "--fix", "skills").out


def test_fix_keeps_the_owner_and_leaves_other_names_of_a_file_alone(run: Run, skills: Path) -> None:
    file = skills / "broken" / "SKILL.md"
    before = file.read_text()
    other = skills.parent / "other-name.md"
    os.link(file, other)
    if os.geteuid() == 0:
        os.chown(file, 65534, 65534)
    owner = (file.stat().st_uid, file.stat().st_gid)
    run("lint", "--fix", "skills")
    assert (file.stat().st_uid, file.stat().st_gid) == owner
    assert file.read_text() != before
    assert other.read_text() == before


def test_fix_renames_nothing_when_nobody_can_be_asked(run: Run, tmp_path: Path) -> None:
    directory = write(tmp_path / "tree" / "one", "---\nname: two\ndescription: d\n---\n")
    assert run("lint", "--fix", "tree").status == 1
    assert "name: two" in (directory / "SKILL.md").read_text()


@pytest.mark.parametrize(("answer", "name"), [("y\n", 'name: "one"'), ("n\n", "name: two"), ("\n", "name: two")])
def test_fix_asks_a_person_before_it_renames(run_in_terminal: Run, tmp_path: Path, answer: str, name: str) -> None:
    directory = write(tmp_path / "tree" / "one", "---\nname: two\ndescription: d\n---\n")
    done = run_in_terminal("lint", "--fix", "tree", answer=answer)
    assert 'set the name "two" to the directory\'s name "one"? [y/N]' in done.out
    assert name in (directory / "SKILL.md").read_text()


def test_fix_writes_through_no_link_out_of_the_skill(run: Run, tmp_path: Path) -> None:
    outside = tmp_path / "outside.md"
    outside.write_text("---\nname: one\ndescription: a: b\n---\n")
    (tmp_path / "tree" / "one").mkdir(parents=True)
    (tmp_path / "tree" / "one" / "SKILL.md").symlink_to(outside)
    run("lint", "--fix", "tree")
    assert outside.read_text() == "---\nname: one\ndescription: a: b\n---\n"


def test_a_terminal_gets_colour_and_lines_of_its_width(run_in_terminal: Run, skills: Path) -> None:
    done = run_in_terminal("lint", "skills", COLUMNS="60")
    assert "\x1b[1;31merror" in done.out
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", done.out)
    assert max(map(len, plain.replace("\r", "").splitlines())) <= 60
    assert done.status == 1


def test_no_color_is_respected(run_in_terminal: Run, skills: Path) -> None:
    done = run_in_terminal("lint", "skills", NO_COLOR="1")
    assert "\x1b[1;31m" not in done.out
    assert "\x1b[33m" not in done.out


def test_a_closed_pipe_ends_the_command_quietly(tmp_path: Path) -> None:
    import subprocess
    import sys

    for number in range(300):
        write(tmp_path / "tree" / f"s{number}", f"---\nname: s{number}\ndescription: {'d' * 900}\n---\n")
    done = subprocess.run(
        f"{sys.executable} -m skillquay list tree | head -n 1",
        shell=True,
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    assert done.stdout.startswith(b"s0 ")
    assert b"Traceback" not in done.stderr
