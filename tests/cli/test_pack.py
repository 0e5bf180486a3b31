"""`skillquay pack` and `skillquay unpack`: one skill as one file, and back."""

from __future__ import annotations

import io
import json
import os
import tarfile
import zipfile
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest

from skillquay.archives.formats import ArchiveFormat
from skillquay.archives.unpacking import unpack
from skillquay.cli.pack import run_pack
from tests.archives.raw import Member, tar, tar_member, zip_of
from tests.cli.conftest import write

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Run

GOOD = "---\nname: {0}\ndescription: Does good things.\n---\n# Good\n"


@pytest.fixture
def skill(tmp_path: Path) -> Path:
    """A skill with a script, hidden files, a link and a nested skill."""
    root = write(tmp_path / "refunds", GOOD.format("refunds"))
    (root / "scripts").mkdir()
    (root / "scripts" / "run.sh").write_text("#!/bin/sh\n")
    (root / "scripts" / "run.sh").chmod(0o755)
    (root / "link.md").symlink_to("SKILL.md")
    (root / ".env").write_text("SECRET=1")
    (root / "node_modules").mkdir()
    (root / "node_modules" / "a.js").write_text("")
    return root


@pytest.mark.rule("I3")
def test_a_skill_is_packed_with_the_files_that_would_be_served(host: Run, skill: Path, tmp_path: Path) -> None:
    done = host("pack", "refunds")
    data = (tmp_path / "refunds.tar.gz").read_bytes()
    digest = sha256(data).hexdigest()
    assert (done.status, done.err) == (0, "")
    assert done.out == f"refunds.tar.gz: 3 files, {len(data)} B, sha256:{digest}\n"
    files = unpack(data, ArchiveFormat.TAR_GZ)
    assert {path: file.is_executable for path, file in files.items()} == {
        "SKILL.md": False,
        "link.md": False,
        "scripts/run.sh": True,
    }
    assert files["link.md"].data == (skill / "SKILL.md").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "home") == ["refunds", "refunds.tar.gz"]


@pytest.mark.rule("I3")
def test_the_file_name_says_the_format_and_packing_again_gives_the_same_bytes(
    host: Run, skill: Path, tmp_path: Path
) -> None:
    assert host("pack", "refunds/SKILL.md", "-o", "a.zip").status == 0
    first = (tmp_path / "a.zip").read_bytes()
    os.utime(skill / "SKILL.md", (1, 1))
    assert host("pack", skill, "--output", "a.zip").status == 0
    assert (tmp_path / "a.zip").read_bytes() == first
    assert zipfile.is_zipfile(tmp_path / "a.zip")


@pytest.mark.rule("I12")
def test_a_nested_skill_is_left_out_and_told(host: Run, skill: Path, tmp_path: Path) -> None:
    write(skill / "more" / "nested", GOOD.format("nested"))
    write(skill / "more" / "nested" / "deeper", "not a skill at all")
    (skill / "more" / "own.md").write_text("own")
    done = host("pack", "refunds")
    assert done.status == 0
    assert done.out.splitlines()[1:] == ["Left out: more/nested: A skill of its own. Pack it by itself."]
    with tarfile.open(tmp_path / "refunds.tar.gz") as archive:
        assert archive.getnames() == ["SKILL.md", "link.md", "more/own.md", "scripts/run.sh"]
    document = json.loads(host("pack", "refunds", "--json").out)
    assert document["left_out"] == [{"path": "more/nested", "reason": "A skill of its own. Pack it by itself."}]


@pytest.mark.rule("I3", "U8")
def test_a_link_that_leaves_the_skill_is_left_out_and_told(host: Run, skill: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.md").write_text("secret")
    (skill / "out.md").symlink_to("../secret.md")
    inner = write(skill / "inner", GOOD.format("inner"))
    (inner / "out.md").symlink_to("../../secret.md")
    done = host("pack", "refunds")
    assert done.status == 0
    reason = "A link that leaves the skill's directory; it is not published. Copy what is meant into the skill."
    assert done.out.splitlines()[1:] == [
        "Left out: inner: A skill of its own. Pack it by itself.",
        f"Left out: out.md: {reason}",
    ]
    assert unpack((tmp_path / "refunds.tar.gz").read_bytes(), ArchiveFormat.TAR_GZ).keys() == {
        "SKILL.md",
        "link.md",
        "scripts/run.sh",
    }


def test_the_json_of_packing_says_what_was_written(host: Run, skill: Path, tmp_path: Path) -> None:
    document = json.loads(host("pack", "refunds", "-o", "r.zip", "--json").out)
    data = (tmp_path / "r.zip").read_bytes()
    assert document == {
        "file": "r.zip",
        "format": "zip",
        "size": len(data),
        "digest": f"sha256:{sha256(data).hexdigest()}",
        "files": ["SKILL.md", "link.md", "scripts/run.sh"],
        "left_out": [],
        "errors": [],
    }


def test_a_skill_that_cannot_be_published_is_not_packed_and_the_reasons_are_told(
    host: Run, skills: Path, tmp_path: Path
) -> None:
    done = host("pack", "skills/broken")
    assert (done.status, done.out) == (1, "")
    assert 'skillquay: "skills/broken" cannot be packed:\n  SKILL.md:3  F4  ' in done.err
    assert 'See all findings with "skillquay lint skills/broken".' in done.err
    document = json.loads(host("pack", "skills/broken", "--json").out)
    (error,) = document.pop("errors")
    assert (error["file"], error["line"], error["rule"]) == ("SKILL.md", 3, "F4")
    assert document == {"file": None, "format": None, "size": None, "digest": None, "files": [], "left_out": []}
    assert not (tmp_path / "broken.tar.gz").exists()


def test_a_skill_past_the_limits_is_not_packed(host: Run, skill: Path) -> None:
    for name in "abc":
        (skill / name).write_bytes(name.encode() * (6 * 1024 * 1024))
    done = host("pack", "refunds")
    assert done.status == 1
    assert "E4  The skill has" in done.err


def test_a_skill_md_that_leads_elsewhere_is_a_reason(host: Run, skill: Path, tmp_path: Path) -> None:
    (skill / "SKILL.md").rename(tmp_path / "elsewhere.md")
    (skill / "SKILL.md").symlink_to("../elsewhere.md")
    done = host("pack", "refunds")
    assert done.status == 1
    assert "SKILL.md  U8  A link that leaves the skill's directory" in done.err


def test_names_that_would_fall_together_elsewhere_are_not_packed(host: Run, skill: Path) -> None:
    (skill / "a.md").write_text("")
    (skill / "A.md").write_text("")
    if len(list(skill.glob("[aA].md"))) < 2:
        pytest.skip("this file system folds case")
    done = host("pack", "refunds")
    assert done.status == 1
    assert '.  I4  "a.md" and "A.md" are one path where case or normalisation does not count. Rename it.' in done.err
    assert done.err.endswith('See all findings with "skillquay lint refunds".\n')
    linted = host("lint", "refunds")
    assert linted.status == 0
    assert "cannot be packed" in " ".join(linted.out.split())


def test_a_file_that_somebody_else_writes_beside_the_archive_is_left_alone(
    skill: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    others = tmp_path / f".skillquay-{os.getpid()}-good.zip"
    others.write_bytes(b"not ours")
    assert run_pack(str(skill), str(tmp_path / "good.zip"), as_json=False) == 2
    assert "is in the way. Remove it, unless" in capsys.readouterr().err
    assert others.read_bytes() == b"not ours"
    assert not (tmp_path / "good.zip").exists()


def test_what_is_wrong_with_the_command_is_status_2(host: Run, skills: Path, tmp_path: Path) -> None:
    (tmp_path / "taken.zip").mkdir()
    for arguments, words in [
        (["nowhere"], 'there is nothing at "nowhere"'),
        (["skills"], 'there is no SKILL.md in "skills". Give the directory of one skill.'),
        (["skills/good", "-o", "good.rar"], "Give a name that ends in .tar.gz or .zip."),
        (["skills/good", "-o", "skills/good/good.zip"], "would lie in the skill"),
        (["skills/good", "-o", "no/such/place.zip"], "No such file or directory"),
        (["skills/good", "-o", "taken.zip"], "Is a directory"),
    ]:
        done = host("pack", *arguments)
        assert (done.status, done.out) == (2, "")
        assert words in done.err
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".skillquay")]


@pytest.mark.rule("I4")
def test_an_archive_is_unpacked_into_a_directory_of_its_name(host: Run, skill: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    assert host("pack", "refunds", "-o", "out/copy.tar.gz").status == 0
    digest = f"sha256:{sha256((tmp_path / 'out' / 'copy.tar.gz').read_bytes()).hexdigest()}"
    done = host("unpack", "out/copy.tar.gz", "--digest", digest)
    warning = 'The directory is named "copy", the skill "refunds". Hosts want one name: rename the directory.'
    assert (done.status, done.err) == (0, f"Warning: {warning}\n")
    assert done.out.splitlines() == [
        "      60 B  SKILL.md",
        "      60 B  link.md",
        "      10 B  scripts/run.sh",
        f"copy: 3 files, 130 B, from {digest}",
    ]
    assert (tmp_path / "copy" / "scripts" / "run.sh").stat().st_mode & 0o100
    assert not (tmp_path / "copy" / "link.md").is_symlink()
    (tmp_path / "copy").rename(tmp_path / "out" / "copy")
    done = host("unpack", "out/copy.tar.gz", "-o", "out/refunds/")
    assert (done.status, done.err) == (0, "")
    document = json.loads(host("unpack", "out/copy.tar.gz", "-o", "copy", "--json").out)
    assert document == {
        "directory": "copy",
        "format": "tar.gz",
        "digest": digest,
        "files": [
            {"path": "SKILL.md", "size": 60},
            {"path": "link.md", "size": 60},
            {"path": "scripts/run.sh", "size": 10},
        ],
        "warnings": [warning],
        "errors": [],
    }


@pytest.mark.rule("I4")
def test_a_hostile_archive_is_refused_and_leaves_nothing(host: Run, tmp_path: Path) -> None:
    (tmp_path / "evil.tar.gz").write_bytes(tar(tar_member("../\x1bevil.md", b"evil")))
    (tmp_path / "evil.zip").write_bytes(zip_of(Member("/etc/evil", b"evil")))
    done = host("unpack", "evil.tar.gz")
    assert (done.status, done.out) == (1, "")
    assert done.err == (
        'skillquay: "evil.tar.gz" is refused: "../⟨U+001B⟩evil.md" walks up with "..". Nothing was unpacked.\n'
    )
    document = json.loads(host("unpack", "evil.zip", "--json").out)
    assert document == {
        "directory": None,
        "format": "zip",
        "digest": f"sha256:{sha256((tmp_path / 'evil.zip').read_bytes()).hexdigest()}",
        "files": [],
        "warnings": [],
        "errors": [{"rule": "I4", "reason": '"/etc/evil" is or leads to an absolute path.'}],
    }
    assert sorted(path.name for path in tmp_path.iterdir()) == ["evil.tar.gz", "evil.zip", "home"]


@pytest.mark.rule("I13")
def test_an_archive_with_another_digest_is_not_even_opened(host: Run, tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(b"not a zip at all")
    done = host("unpack", "a.zip", "--digest", f"sha256:{'0' * 64}")
    assert done.status == 1
    assert f"It does not have the digest given: expected sha256:{'0' * 64}, got sha256:" in done.err


def test_an_archive_that_is_too_large_is_refused_for_that(host: Run, tmp_path: Path) -> None:
    with open(tmp_path / "large.zip", "wb") as file:
        file.truncate(1 << 30)
    done = host("unpack", "large.zip", "--digest", f"sha256:{'0' * 64}")
    assert done.status == 1
    assert "The archive itself is larger than 33,554,432 bytes." in done.err


def test_what_is_wrong_with_unpacking_is_status_2(host: Run, tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(zip_of())
    (tmp_path / ".zip").write_bytes(zip_of())
    (tmp_path / "a").mkdir()
    for arguments, words in [
        (["nowhere.zip"], '"nowhere.zip" cannot be read: No such file or directory.'),
        (["a.zip"], '"a" is there already. Give another directory with -o.'),
        (["a"], "does not end in .tar.gz or .zip"),
        ([".zip"], "Give one with -o."),
        (["a.zip", "-o", "no/such/place"], '"no/such/place" cannot be written: No such file or directory.'),
        (["a.zip", "-o", "b", "--digest", "sha256:12"], "64 lowercase hexadecimal digits"),
    ]:
        done = host("unpack", *arguments)
        assert (done.status, done.out) == (2, "")
        assert words in done.err


def test_a_terminal_sees_the_same(host_in_terminal: Run, skill: Path, tmp_path: Path) -> None:
    assert "refunds.tar.gz: 3 files" in host_in_terminal("pack", "refunds").out
    (tmp_path / "refunds" / "SKILL.md").write_text("nothing")
    assert "cannot be packed" in host_in_terminal("pack", "refunds").out
    assert "scripts/run.sh" in host_in_terminal("unpack", "refunds.tar.gz", "-o", "copy").out


def test_the_archive_of_another_tool_is_unpacked(host: Run, tmp_path: Path) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("SKILL.md", GOOD.format("x"))
    (tmp_path / "X.ZIP").write_bytes(out.getvalue())
    done = host("unpack", "X.ZIP")
    assert (done.status, done.err) == (
        0,
        'Warning: The directory is named "X", the skill "x". Hosts want one name: rename the directory.\n',
    )
    assert (tmp_path / "X" / "SKILL.md").is_file()


def test_an_archive_without_a_readable_skill_is_unpacked_with_a_warning(host: Run, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("SKILL.md", "no frontmatter")
    done = host("unpack", "x.zip")
    assert done.status == 0
    assert done.err.startswith("Warning: Its SKILL.md cannot be read as a skill: ")
