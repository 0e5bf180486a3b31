"""The commands of the host over servers of the drafts: what they speak, and what that can prove, in words (I9)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.cli.draft_servers import serving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.cli.conftest import Run

KINDS = ("archive", "bare", "forged", "june", "may", "none")


@pytest.fixture(scope="module")
def urls() -> Iterator[dict[str, str]]:
    with serving(*KINDS) as urls:
        yield urls


@pytest.fixture
def drafts(host: Run, tmp_path: Path, urls: dict[str, str]) -> Callable[..., None]:
    """Have servers of these kinds in the folder, each under the name of its kind, and trust it."""

    def configure(*kinds: str, **options: object) -> None:
        servers = {kind: {"url": urls[kind], **options} for kind in kinds}
        (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))
        assert host("trust", "--yes").status == 0

    return configure


@pytest.mark.rule("I9", "I11")
def test_skills_of_four_dialects_are_listed_with_what_can_be_verified_of_each(
    host: Run, drafts: Callable[..., None]
) -> None:
    drafts("archive", "bare", "june", "may", "none")
    shown = host("skills").out
    for line in (
        "archive:refunds  MCP server archive  not approved yet; every file can be verified",
        "june:refunds     MCP server june     only SKILL.md can be verified, asked each time",
        "may:refunds      MCP server may      nothing can be verified, asked each time",
    ):
        assert line in shown
    assert "MCP server bare" not in shown, "nobody allowed to search it"
    listed = json.loads(host("skills", "--json").out)["skills"]
    assert {(skill["server"], skill["dialect"], skill["assurance"]) for skill in listed} == {
        ("archive", "june", "whole"),
        ("june", "june", "skill_md"),
        ("may", "may", "none"),
    }


@pytest.mark.rule("I5", "I9", "I11")
def test_a_server_is_explained(host: Run, drafts: Callable[..., None]) -> None:
    drafts("archive", "bare", "june", "may", "none")
    done = host("skills", "--explain", "archive")
    assert (done.status, done.err) == (0, "")
    assert done.out.splitlines() == [
        'The server "archive" speaks: skill://index.json (June draft).',
        "Each skill comes with the digest of its SKILL.md, and some with an archive that has one.",
        "How that was found out:",
        "  - It declares the extension.",
        "  - It answers skills/list with -32601: it speaks a draft.",
        "  - It has a skill://index.json of the June draft.",
        "What it can prove:",
        "  - 1 skill: every file can be verified. An approval is kept until a file changes.",
        "Templates, for people to browse by:",
        "  - skill://docs/{product}/SKILL.md  By product.",
    ]
    document = json.loads(host("skills", "--explain", "may", "--json").out)
    assert (document["dialect"], document["skills"]) == ("may", {"none": 1})
    assert document["templates"] == [
        {"url": "skill://docs/{product}/SKILL.md", "description": "By product.", "values": {}}
    ]
    bare = host("skills", "--explain", "bare")
    assert bare.status == 1
    assert "It lists 1 SKILL.md file among its resources, and may not be searched for them." in bare.out
    assert '"scanForSkills": true' in bare.out
    assert host("skills", "--explain", "none").status == 1
    unknown = host("skills", "--explain", "nobody")
    assert (unknown.status, unknown.out) == (2, "")
    assert 'There is no server "nobody".' in unknown.err


@pytest.mark.rule("I11")
def test_a_server_is_searched_where_its_configuration_says_so(host: Run, drafts: Callable[..., None]) -> None:
    drafts("bare", scanForSkills=True)
    assert "refunds  MCP server bare  nothing can be verified, asked each time" in host("skills").out
    drafts("bare", scanForSkills="yes")
    assert '"scanForSkills" that is neither true nor false' in host("skills").out


@pytest.mark.rule("I9", "A3")
def test_only_what_is_covered_whole_is_approved_for_good(host: Run, drafts: Callable[..., None]) -> None:
    drafts("archive", "june")
    assert host("approve", "archive:refunds", "--yes").status == 0
    assert "approved; every file can be verified" in host("skills").out
    refused = host("approve", "june:refunds", "--yes")
    assert refused.status == 1
    assert "was not approved: of it only SKILL.md can be verified, so no answer can be kept." in refused.out
    shown = host("show", "archive:refunds").out
    assert "served as     skill://index.json (June draft): every file can be verified" in shown
    assert "files         in the archive skill://refunds.tar.gz, which is fetched when the skill is loaded" in shown
    assert "references/letter.md" in host("files", "archive:refunds").out
    assert "Dear customer" in host("read", "archive:refunds", "references/letter.md").out
    assert "run scripts/amount.py" in host("read", "june:refunds").out


@pytest.mark.rule("I13")
def test_verifying_a_server_of_a_draft_checks_what_can_be_checked(host: Run, drafts: Callable[..., None]) -> None:
    drafts("archive", "forged", "june")
    good = host("verify", "archive")
    assert (good.status, good.err) == (0, "")
    assert "1 skill, 4 files" in good.out
    weak = host("verify", "june")
    assert weak.status == 0
    assert "Served as skill://index.json (June draft): of 1 skill not every file has a digest." in weak.out
    forged = host("verify", "forged")
    assert forged.status == 1
    assert "does not match the approved entry" in forged.out


def test_a_server_without_skills_is_nothing_to_verify(host: Run, drafts: Callable[..., None]) -> None:
    drafts("none")
    done = host("verify", "none")
    assert done.status == 2
    assert "The server shows no skills." in done.err
