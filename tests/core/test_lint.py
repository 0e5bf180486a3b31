"""The linter tells an author everything that matters, at its place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillquay.core.digests import Digest
from skillquay.core.entries import FileRecord
from skillquay.core.findings import Finding, Level
from skillquay.core.folders import SkillFolder
from skillquay.core.lint import MAX_LOCAL_SKILL_MD, lint
from skillquay.core.uris import SkillUri

HEAD = "---\nname: one\ndescription: Does it.\n---\n"


def folder(skill_md: str | bytes, *others: str) -> SkillFolder:
    data = skill_md.encode() if isinstance(skill_md, str) else skill_md
    root = SkillUri("skill://one")
    files = tuple(FileRecord(uri=root.child(path), digest=Digest.of(b""), size=0) for path in ("SKILL.md", *others))
    return SkillFolder(root=root, location="one", skill_md=data, files=files, file_count=len(files), size=len(data))


def found(skill_md: str | bytes, *others: str) -> list[tuple[str, Level, int | None]]:
    return [(each.rule, each.level, each.line) for each in lint(folder(skill_md, *others)).findings]


def test_a_good_skill_has_no_findings_and_an_entry() -> None:
    linted = lint(folder(HEAD + "See [the guide](references/guide.md).\n", "references/guide.md"))
    assert linted.findings == ()
    assert linted.entry is not None
    assert linted.entry.uri == "skill://one/SKILL.md"


@pytest.mark.rule("F3")
def test_fields_out_of_format_are_published_with_a_warning_and_refused_when_strict() -> None:
    skill = folder("---\nname: one\ndescription: d\nlicense: [MIT]\nmetadata:\n  n: 1\n---\n")
    linted = lint(skill)
    assert linted.entry is not None
    assert linted.entry.frontmatter["license"] == ["MIT"]
    assert {each.level for each in linted.findings} == {Level.WARNING, Level.NOTE}
    assert lint(skill, strict=True).entry is None


@pytest.mark.rule("F3")
@pytest.mark.parametrize("field", ["name: One", "description: ''"])
def test_a_name_or_description_out_of_format_keeps_a_skill_out(field: str) -> None:
    other = "description: d" if field.startswith("name") else "name: one"
    linted = lint(folder(f"---\n{other}\n{field}\n---\n"))
    assert linted.entry is None
    assert linted.findings[0].line == 3


@pytest.mark.rule("U5")
@pytest.mark.parametrize(
    ("link", "is_good"),
    [
        ("references/guide.md", True),
        ("./references/guide.md#part", True),
        ("references/", True),
        ("references", True),
        ("my%20file.md", True),
        ("https://example.com/x", True),
        ("#section", True),
        ("mailto:a@b.c", True),
        ("{placeholder}.md", True),
        ("missing.md", False),
        ("guide.md", False),
        ("/etc/passwd", False),
        ("../other/SKILL.md", False),
        ("references/../SKILL.md", False),
        ("C:\\x.md", True),
        ("<my file.md>", True),
        ("<other file.md>", False),
    ],
)
def test_links_that_lead_nowhere_in_the_skill_are_warned_about(link: str, is_good: bool) -> None:
    findings = found(f"{HEAD}\nSee [x]({link}).\n", "references/guide.md", "my file.md")
    assert findings == ([] if is_good else [("U5", Level.WARNING, 6)])


def test_links_in_code_are_examples_and_not_links() -> None:
    body = "`[x](nope.md)`\n```md\n[y](nope.md)\n```\n~~~\n[z](nope.md)\n```\n~~~\n[real](nope.md)\n"
    assert found(HEAD + body) == [("U5", Level.WARNING, 13)]


@pytest.mark.rule("X4")
def test_load_time_commands_are_warned_about_and_command_examples_in_fences_are_not() -> None:
    assert found(HEAD + "Now: !`git status`\n```\n!`git status`\n```\n") == [("X4", Level.WARNING, 5)]


@pytest.mark.rule("B4")
def test_hidden_content_is_pointed_at_once_a_kind() -> None:
    body = "a\u202eb\n\u2066c\n<!-- x -->\n\U000e0041\U000e0042\n"
    assert found(HEAD + body) == [
        ("B4", Level.WARNING, 5),
        ("B4", Level.NOTE, 7),
        ("B4", Level.WARNING, 8),
    ]


def test_an_unreadable_value_says_that_it_can_be_mended_on_its_own_line() -> None:
    (finding,) = lint(folder("---\nname: one\ndescription: Use when: asked\n---\n")).findings
    assert (finding.rule, finding.level, finding.line) == ("F4", Level.ERROR, 3)
    assert finding.fix == "--fix would quote a value that YAML cannot read as it stands."


@pytest.mark.rule("P1")
def test_a_skill_md_larger_than_hosts_read_is_warned_about() -> None:
    assert found(HEAD + "x" * MAX_LOCAL_SKILL_MD) == [("P1", Level.WARNING, None)]


@pytest.mark.rule("F3")
def test_readers_that_would_refuse_a_skill_are_named_when_asked_for() -> None:
    skill = folder("---\nname: one\ndescription: d\nmetadata:\n  n: 1\n---\n")
    assert not [each for each in lint(skill).findings if each.kind == "refused-by-peer"]
    (refusal,) = [each for each in lint(skill, peers=True).findings if each.kind == "refused-by-peer"]
    assert refusal.message.startswith("Refused by FastMCP 4.1, TypeScript SDK 2.4, Go SDK (proposed): metadata.n is")
    assert refusal.line == 4


@given(
    st.binary(max_size=300) | st.text("ab[](){}<!->`~# \n:'/.%", max_size=200).map(lambda text: (HEAD + text).encode())
)
def test_any_bytes_are_linted(data: bytes) -> None:
    for finding in lint(folder(data), peers=True).findings:
        assert isinstance(finding, Finding)
        assert finding.message[0].isupper() or finding.message.startswith(
            ("--fix", "metadata", "license", "compat", "allowed")
        )
        assert "\n" not in finding.message


def test_findings_come_in_the_order_of_their_lines() -> None:
    lines = [each.line or 0 for each in lint(folder(f"{HEAD}[a](x)\n\u202e\n[b](y)\n!`z`\n")).findings]
    assert lines == sorted(lines)


@pytest.mark.rule("I4")
def test_paths_that_keep_a_skill_from_being_packed_are_told() -> None:
    others = ["Guide.md", "guide.md", "Docs/a.md", "docs/b.md", "docs/c.md", "aux.md", "a:b.md", "end./x.md", "ok.md"]
    linted = lint(folder(HEAD, *others, "inner/SKILL.md", "inner/aux", "\u00e9.md", "e\u0301.md"))
    assert linted.entry is not None
    told = [each for each in linted.findings if each.kind == "not-packed"]
    assert {each.level for each in told} == {Level.WARNING}
    assert [each.file for each in told] == ["a:b.md", "aux.md", "docs/b.md", "end./x.md", "guide.md", "\u00e9.md"]
    assert told[4].message == (
        '"guide.md" and "Guide.md" are one path where case or normalisation does not count. '
        "The skill is served, but cannot be packed."
    )
