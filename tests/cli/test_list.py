"""`skillquay list`: what would be published, and what would not."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from skillquay.core.listings import parse_entries

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Run


def test_a_list_shows_what_is_published_and_what_is_not_and_why(run: Run, skills: Path) -> None:
    done = run("list", "skills")
    assert done.status == 0
    lines = done.out.splitlines()
    assert lines[0].split() == ["good", "1", "file", "57", "B", "Does", "good", "things."]
    assert "2 skills, 2 files," in done.out
    assert "Not published (1):" in done.out
    assert "skills/broken  F4  The frontmatter is not valid YAML" in done.out


def test_the_json_is_the_listing_a_server_would_give(run: Run, skills: Path) -> None:
    document = json.loads(run("list", "--json", "skills").out)
    accepted, refused = parse_entries(document["skills"])
    assert [entry.name for entry in accepted] == ["good", "warned"]
    assert refused == []
    (record,) = document["skills"][0]["resources"]
    data = (skills / "good" / "SKILL.md").read_bytes()
    assert record == {
        "uri": "skill://good/SKILL.md",
        "digest": f"sha256:{hashlib.sha256(data).hexdigest()}",
        "size": len(data),
    }
    (reason,) = document["refused"]
    assert (reason["rule"], reason["line"]) == ("F4", 3)


def test_a_missing_path_is_status_2(run: Run) -> None:
    done = run("list", "nowhere")
    assert (done.status, done.out) == (2, "")
    assert 'there is nothing at "nowhere"' in done.err


def test_an_empty_tree_is_said_to_be_empty(run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert run("list", "empty").out.startswith('No skills in "empty".')


def test_a_terminal_sees_every_skill_on_one_line(run_in_terminal: Run, skills: Path) -> None:
    (skills / "good" / "SKILL.md").write_text(f"---\nname: good\ndescription: {'Long. ' * 50}\n---\n")
    done = run_in_terminal("list", "skills")
    assert done.out.count("Long.") < 12
    assert "good" in done.out
    assert "Not published" in done.out


def test_strict_leaves_out_what_has_warnings(run: Run, skills: Path) -> None:
    assert "1 skill, 1 file," in run("list", "--strict", "skills").out
