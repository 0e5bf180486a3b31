"""The commands of the host over servers of the drafts: what they speak, and what that can prove, in words (I9)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.cli.conftest import configure
from tests.cli.draft_servers import serving
from tests.interop.skills import write_skills
from tests.serving import serve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.cli.conftest import Run

KINDS = ("archive", "bare", "fastmcp", "forged", "june", "may", "none", "primitive")


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
def test_skills_of_four_servers_of_four_dialects_are_listed_with_what_can_be_verified_of_each(
    host: Run, tmp_path: Path, urls: dict[str, str]
) -> None:
    published = write_skills(tmp_path / "published") / "refunds"
    with serve(published) as current, serve(published, "--dialect", "sep-2076") as primitive:
        configure(tmp_path, current=current.url, fastmcp=urls["fastmcp"], june=urls["june"], primitive=primitive.url)
        assert host("trust", "--yes").status == 0
        shown = host("skills").out.splitlines()
        listed = json.loads(host("skills", "--json").out)["skills"]
    about, unsaid = "Refund a customer. Use when one asks.", "(its server does not describe it)"
    assert shown[:5] == [
        f"current:refunds    MCP server current    not approved yet; a digest covers every file     {about}",
        f"fastmcp:refunds    MCP server fastmcp    not approved yet; a digest covers every file     {unsaid}",
        f"june:refunds       MCP server june       asked each time; a digest covers SKILL.md alone  {about}",
        f"primitive:refunds  MCP server primitive  asked each time; no digest covers its files      {about}",
        "4 skills.",
    ]
    assert [(skill["dialect"], skill["state"], skill["assurance"]) for skill in listed] == [
        ("current", "new", "whole"),
        ("fastmcp", "new", "whole"),
        ("june", "unproven", "skill_md"),
        ("primitive", "unproven", "none"),
    ]


@pytest.mark.rule("I9", "I11")
def test_skills_of_the_drafts_are_listed_with_what_can_be_verified_of_each(
    host: Run, drafts: Callable[..., None]
) -> None:
    drafts("archive", "bare", "june", "may", "none")
    shown = host("skills").out
    for line in (
        "archive:refunds  MCP server archive  not approved yet; a digest covers every file",
        "june:refunds     MCP server june     asked each time; a digest covers SKILL.md alone",
        "may:refunds      MCP server may      asked each time; no digest covers its files",
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
        "Each skill comes with the digest of its SKILL.md, or with that of an archive of its files, or both.",
        "How that was found out:",
        "  - It declares the extension.",
        "  - It answers skills/list with -32601: it speaks a draft.",
        "  - It has a skill://index.json of the June draft.",
        "What it can prove:",
        "  - 1 skill: a digest covers every file. An approval is kept until the archive changes.",
        "Templates, for people to browse by:",
        "  - skill://docs/{product}/SKILL.md  By product.",
        '  See what is at an address: "skillquay show archive:ADDRESS".',
    ]
    assert (
        "  - 1 skill: a digest covers SKILL.md alone. Its other files are read as they are, so you are asked each time."
        in host("skills", "--explain", "june").out
    )
    document = json.loads(host("skills", "--explain", "may", "--json").out)
    assert (document["dialect"], document["skills"]) == ("may", {"none": 1})
    assert document["templates"] == [
        {"url": "skill://docs/{product}/SKILL.md", "description": "By product.", "values": {}}
    ]
    bare = host("skills", "--explain", "bare")
    assert bare.status == 1
    assert "It lists 1 SKILL.md file among its resources, and may not be searched for it." in bare.out
    assert '"scanForSkills": true' in bare.out
    assert host("skills", "--explain", "none").status == 1
    unknown = host("skills", "--explain", "nobody")
    assert (unknown.status, unknown.out) == (2, "")
    assert 'There is no server "nobody".' in unknown.err


@pytest.mark.rule("I11")
def test_a_server_is_searched_where_its_configuration_says_so(host: Run, drafts: Callable[..., None]) -> None:
    drafts("bare", scanForSkills=True)
    assert "refunds  MCP server bare  asked each time; no digest covers its files" in host("skills").out
    drafts("bare", scanForSkills="yes")
    assert '"scanForSkills" that is neither true nor false' in host("skills").out


@pytest.mark.rule("I9", "A3")
def test_only_what_is_covered_whole_is_approved_for_good(host: Run, drafts: Callable[..., None]) -> None:
    drafts("archive", "june")
    assert host("approve", "archive:refunds", "--yes").status == 0
    assert "approved; a digest covers every file" in host("skills").out
    refused = host("approve", "june:refunds", "--yes")
    assert refused.status == 1
    assert "was not approved: a digest covers SKILL.md alone, so no answer can be kept." in refused.out
    shown = host("show", "archive:refunds").out
    assert "served as     skill://index.json (June draft): a digest covers every file" in shown
    assert "files         in the archive skill://refunds.tar.gz, which is fetched when the skill is loaded" in shown
    assert "references/letter.md" in host("files", "archive:refunds").out
    assert "Dear customer" in host("read", "archive:refunds", "references/letter.md").out
    assert "run scripts/amount.py" in host("read", "june:refunds").out


@pytest.mark.rule("I13")
def test_verifying_a_server_of_a_draft_checks_what_can_be_checked(host: Run, drafts: Callable[..., None]) -> None:
    drafts("archive", "forged", "june")
    good = host("verify", "archive")
    assert (good.status, good.err) == (0, "")
    assert good.out.splitlines() == [
        "Served as skill://index.json (June draft), 1 skill: a digest covers every file.",
        "1 skill, 4 files, 463 B: all as listed.",
    ]
    weak = host("verify", "june")
    assert (weak.status, weak.err) == (0, "")
    assert weak.out.splitlines() == [
        "Served as skill://index.json (June draft), 1 skill: a digest covers SKILL.md alone.",
        "Of 1 skill only SKILL.md was read: the server does not list other files.",
        "1 skill, 1 file, 159 B: read; what has a digest is as listed.",
    ]
    forged = host("verify", "forged")
    assert forged.status == 1
    assert "does not match its entry" in forged.out


def test_a_server_without_skills_is_nothing_to_verify(host: Run, drafts: Callable[..., None]) -> None:
    drafts("none")
    done = host("verify", "none")
    assert done.status == 2
    assert "The server shows no skills." in done.err


@pytest.mark.rule("I9", "I14")
def test_verifying_a_server_of_the_primitive_reads_its_files_and_tells_apart_what_is_not_read(
    host: Run, urls: dict[str, str], tmp_path: Path
) -> None:
    done = host("verify", urls["primitive"])
    assert done.status == 1
    gone = 'The server "127.0.0.1" answers with error -32602: "Unknown resource: skill://refunds/references/gone.md".'
    elsewhere = "It lies elsewhere, at https://files.example.com/refunds/terms.md. A host asks a person first."
    lookup = 'The skill "lookup" is given only with arguments ("order"), which this host does not have.'
    assert done.out.splitlines() == [
        "Served as skills primitive (SEP-2076), 2 skills: no digest covers its files.",
        f"  skill://refunds/SKILL.md references/gone.md  R1  {gone}",
        "Not read:",
        f"  skill://lookup/SKILL.md            {lookup}",
        f"  skill://refunds/SKILL.md terms.md  {elsewhere}",
        "2 skills, 3 files, 53 B: 1 failure.",
    ]
    document = json.loads(host("verify", urls["primitive"], "--json").out)
    assert (document["dialect"], document["assurances"]) == ("primitive", {"none": 2})
    assert [(each["skill"], each["file"]) for each in document["unread"]] == [
        ("skill://lookup/SKILL.md", ""),
        ("skill://refunds/SKILL.md", "terms.md"),
    ]
    with serve(write_skills(tmp_path / "published"), "--dialect", "sep-2076") as server:
        good = host("verify", server.url)
    assert good.status == 0
    assert good.out.endswith(": read.\n")


@pytest.mark.rule("I11")
def test_verifying_searches_a_server_only_with_leave(
    host: Run, drafts: Callable[..., None], urls: dict[str, str]
) -> None:
    drafts("bare")
    for target in ("bare", urls["bare"]):
        refused = host("verify", target)
        assert (refused.status, refused.out) == (2, "")
        assert "It lists 1 SKILL.md file among its resources, and may not be searched for it." in refused.err
        assert "To search it, add --scan." in refused.err
        searched = host("verify", target, "--scan")
        assert searched.status == 0
        assert "Served as bare SKILL.md resources, 1 skill: no digest covers its files." in searched.out
        assert searched.out.endswith("1 skill, 1 file, 159 B: read.\n")
    drafts("bare", scanForSkills=True)
    assert host("verify", "bare").status == 0


@pytest.mark.rule("I5", "I6", "L7")
def test_a_skill_that_is_not_listed_is_reached_by_its_server_and_uri(host: Run, drafts: Callable[..., None]) -> None:
    drafts("june")
    name = "june:skill://docs/router/SKILL.md"
    shown = host("show", name)
    assert (shown.status, shown.err) == (0, "")
    assert "skill         skill://docs/router/SKILL.md" in shown.out
    assert "Do it." in host("read", name).out
    refused = host("approve", name, "--yes")
    assert refused.status == 1
    assert '"router" was not approved: no digest covers its files' in refused.out
    both = host("approve", "refunds", "june:skill://docs/refunds/SKILL.md", "--yes")
    assert (both.status, both.err) == (1, "")
    assert [line.partition(" was")[0] for line in both.out.splitlines()] == [
        '"june:skill://refunds/SKILL.md"',
        '"june:docs/refunds"',
    ]
    assert "cannot be kept" in host("deny", name).out
    assert host("files", name).out == (
        'Its server does not list its files. Read one that the instructions name with "skillquay read router PATH".\n'
    )
    assert json.loads(host("files", name, "--json").out) == {"name": "router", "files": None}
    assert "router" not in host("skills").out
    for wrong in ("june:skill://docs/none/SKILL.md", "nobody:skill://docs/router/SKILL.md", "june:router", "june:://"):
        gone = host("show", wrong)
        assert (gone.status, gone.out) == (2, "")


@pytest.mark.rule("I5")
def test_what_a_template_leads_to_can_be_looked_at(host: Run, tmp_path: Path) -> None:
    (tmp_path / "skills.py").write_text(
        "from skillquay import Skills\n"
        "skills = Skills()\n"
        "@skills.skill('docs/{product}', complete={'product': ['router', 'switch']})\n"
        "def docs(product: str) -> str:\n"
        '    """How to use a product."""\n'
        "    return f'---\\nname: {product}\\ndescription: About it.\\n---\\nTurn it off and on.\\n'\n"
    )
    with serve(f"{tmp_path / 'skills.py'}:skills") as server:
        configure(tmp_path, acme=server.url)
        assert host("trust", "--yes").status == 0
        assert host("skills", "--explain", "acme").out.splitlines()[-4:] == [
            "Templates, for people to browse by:",
            "  - skill://docs/{product}/SKILL.md  How to use a product.",
            "      product: router, switch",
            '  See what is at an address: "skillquay show acme:ADDRESS".',
        ]
        assert "Turn it off and on." in host("read", "acme:skill://docs/router/SKILL.md").out


@pytest.mark.rule("I7", "I14")
def test_a_skill_of_the_primitive_is_shown_with_what_stands_against_loading_it(
    host: Run, drafts: Callable[..., None]
) -> None:
    drafts("primitive")
    shown = host("show", "lookup")
    assert shown.status == 0
    assert shown.out.endswith(
        'It cannot be loaded here. The skill "lookup" is given only with arguments ("order"), which this host does not '
        "have.\n"
    )
    assert host("files", "refunds").out.splitlines() == [
        "references/gone.md",
        "references/letter.md",
        "terms.md",
        "3 files.",
    ]
    wrong = host("read", "refunds", "nope.md")
    assert wrong.status == 2
    assert 'See its files with "skillquay files refunds".' in wrong.err
