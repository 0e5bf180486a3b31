"""A folder becomes an entry, or the errors that keep it out; warnings are told either way."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillquay.core.digests import Digest
from skillquay.core.entries import FileRecord, Manifest, parse_entry
from skillquay.core.findings import Finding, Level
from skillquay.core.folders import Publication, SkillFolder, publish
from skillquay.core.frontmatter import differences
from skillquay.core.uris import SkillUri

ROOT = "skill://acme/billing/refunds"
SKILL_MD = b"---\nname: refunds\ndescription: Process refunds.\n---\n# Refunds\n"


def folder(
    skill_md: bytes = SKILL_MD,
    *,
    at: str = ROOT,
    files: dict[str, bytes] | None = None,
    findings: tuple[Finding, ...] = (),
    **changed: Any,
) -> SkillFolder:
    root = SkillUri(at)
    contents = {"SKILL.md": skill_md} | (files or {})
    records = [
        FileRecord(uri=root.child(path), digest=Digest.of(data), size=len(data)) for path, data in contents.items()
    ]
    return SkillFolder(
        root=root,
        location="somewhere",
        skill_md=skill_md,
        files=tuple(sorted(records, key=lambda record: record.uri)),
        file_count=changed.get("file_count", len(contents)),
        size=changed.get("size", sum(map(len, contents.values()))),
        findings=findings,
    )


def errors(publication: Publication) -> list[str]:
    return [finding.rule for finding in publication.findings if finding.level is Level.ERROR]


def refused(publication: Publication) -> Finding:
    assert publication.entry is None
    (finding,) = publication.findings
    assert finding.level is Level.ERROR
    assert finding.message
    return finding


@pytest.mark.rule("U1")
@pytest.mark.rule("E2")
@pytest.mark.rule("E3")
def test_a_good_folder_is_published_with_every_file_once_by_uri_digest_and_size() -> None:
    given_folder = folder(files={"examples/email.md": b"Dear", "a b/100%.md": b"", "nested/inner/SKILL.md": b"---\n"})
    publication = publish(given_folder)
    assert publication.folder is given_folder
    assert publication.findings == ()
    assert publication.entry is not None
    assert publication.entry.uri == f"{ROOT}/SKILL.md"
    assert publication.entry.to_json()["resources"] == [
        {"uri": f"{ROOT}/SKILL.md", "digest": Digest.of(SKILL_MD), "size": len(SKILL_MD)},
        {"uri": f"{ROOT}/a%20b/100%25.md", "digest": Digest.of(b""), "size": 0},
        {"uri": f"{ROOT}/examples/email.md", "digest": Digest.of(b"Dear"), "size": 4},
        {"uri": f"{ROOT}/nested/inner/SKILL.md", "digest": Digest.of(b"---\n"), "size": 4},
    ]


@pytest.mark.rule("U1")
@pytest.mark.parametrize(
    "at", ["skill://refunds", "skill://acme/refunds", "skill://a/b/c/d/e/refunds", "skill://a%20b/ä/refunds"]
)
def test_a_skill_path_of_any_depth_becomes_the_uri(at: str) -> None:
    publication = publish(folder(at=at))
    assert publication.entry is not None
    assert publication.entry.uri == f"{at}/SKILL.md"
    assert publication.entry.root == at


def test_a_folder_has_the_name_of_its_directory_and_the_paths_of_its_files() -> None:
    given_folder = folder(at="skill://acme/ref%75nds", files={"a b/c.md": b""})
    assert given_folder.name == "refunds"
    assert given_folder.paths == ("SKILL.md", "a b/c.md")
    assert publish(given_folder).entry is not None


names = st.text(
    st.characters(blacklist_categories=["Cc", "Cs", "Zl", "Zp"], blacklist_characters="/\\"), min_size=1, max_size=9
)
file_paths = st.lists(names.filter(lambda name: name not in {".", ".."}), min_size=1, max_size=3).map("/".join)


@pytest.mark.rule("E1")
@pytest.mark.rule("E2")
@pytest.mark.rule("F4")
@given(st.dictionaries(file_paths.map("files/{}.md".format), st.binary(max_size=20), max_size=8), st.text(max_size=50))
def test_what_is_published_is_what_a_host_accepts_and_verifies(files: dict[str, bytes], note: str) -> None:
    files = {name: data for name, data in files.items() if not any(other.startswith(f"{name}/") for other in files)}
    skill_md = f"---\nname: refunds\ndescription: d\nnote: {json.dumps(note)}\n---\n".encode()
    publication = publish(folder(skill_md, files=files))
    if publication.entry is None:
        assert publication.findings
        return
    travelled = parse_entry(json.loads(json.dumps(publication.entry.to_json())))
    assert travelled == publication.entry
    assert isinstance(travelled.resources, Manifest)
    assert len(travelled.resources) == len(files) + 1
    for name, data in (files | {"SKILL.md": skill_md}).items():
        found = travelled.resources.find(travelled.root.child(name))
        assert found is not None
        assert (found.digest, found.size) == (Digest.of(data), len(data))
    assert differences(travelled.frontmatter, skill_md) == ()
    assert travelled.frontmatter["note"] == note


@pytest.mark.rule("F3")
@pytest.mark.rule("F4")
def test_every_field_is_published_verbatim_even_what_is_unknown_or_out_of_format() -> None:
    skill_md = (
        b"---\nname: refunds\ndescription: |\n  Process refunds.\nlicense: 5\nallowed-tools: [Bash, Read]\n"
        b"metadata:\n  version: 1.10\nhooks: {pre: [x]}\nreleased: 2026-07-28\n---\n"
    )
    publication = publish(folder(skill_md))
    assert publication.entry is not None
    assert dict(publication.entry.frontmatter) == {
        "name": "refunds",
        "description": "Process refunds.\n",
        "license": 5,
        "allowed-tools": ["Bash", "Read"],
        "metadata": {"version": 1.1},
        "hooks": {"pre": ["x"]},
        "released": "2026-07-28",
    }
    assert [(finding.level, finding.kind, finding.line) for finding in publication.findings] == [
        (Level.WARNING, "license", 5),
        (Level.WARNING, "allowed-tools", 6),
        (Level.WARNING, "metadata", 7),
    ]


@pytest.mark.rule("F3")
@pytest.mark.parametrize(
    "line", ["license: 5", "allowed-tools: [a]", "metadata: {a: 1}", "metadata: a", "compatibility: ''"]
)
def test_strict_publishing_refuses_fields_out_of_format_too(line: str) -> None:
    skill_md = f"---\nname: refunds\ndescription: d\n{line}\n---\n".encode()
    assert publish(folder(skill_md)).entry is not None
    assert errors(publish(folder(skill_md))) == []
    strict = publish(folder(skill_md), strict=True)
    assert strict.entry is None
    assert errors(strict) == ["F3"]


@pytest.mark.rule("F6")
def test_a_reserved_metadata_key_is_published_with_a_warning_and_refused_when_strict() -> None:
    skill_md = b"---\nname: refunds\ndescription: d\nmetadata:\n  io.modelcontextprotocol/x: y\n---\n"
    publication = publish(folder(skill_md))
    assert publication.entry is not None
    assert [(finding.rule, finding.level) for finding in publication.findings] == [("F6", Level.WARNING)]
    assert publish(folder(skill_md), strict=True).entry is None


def test_a_good_folder_is_published_when_strict_too() -> None:
    assert publish(folder(), strict=True).entry == publish(folder()).entry


@pytest.mark.rule("F1")
@pytest.mark.rule("F3")
@pytest.mark.parametrize(
    ("frontmatter", "rule", "line"),
    [
        ("description: d", "F1", 1),
        ("name: refunds", "F1", 1),
        ("name: refunds\ndescription: ''", "F3", 3),
        ("name: refunds\n\ndescription: 5", "F3", 4),
        (f"name: refunds\ndescription: {'x' * 1025}", "F3", 3),
        ("name: 5\ndescription: d", "F2", 2),
    ],
)
def test_a_skill_whose_name_or_description_break_the_format_is_refused(frontmatter: str, rule: str, line: int) -> None:
    finding = refused(publish(folder(f"---\n{frontmatter}\n---\n".encode())))
    assert (finding.rule, finding.line, finding.file) == (rule, line, "SKILL.md")


@pytest.mark.rule("F2")
@pytest.mark.rule("U2")
@pytest.mark.parametrize("directory", ["refund", "refunds/other", "Refunds"])
def test_a_name_that_is_not_the_name_of_the_directory_is_refused(directory: str) -> None:
    finding = refused(publish(folder(at=f"skill://acme/{directory}")))
    assert (finding.rule, finding.kind, finding.line) == ("F2", "directory-name", 2)
    assert '"refunds"' in finding.message
    assert f'"{directory.removeprefix("refunds/")}"' in finding.message


@pytest.mark.rule("F2")
def test_a_name_out_of_format_is_refused_even_when_the_directory_has_it_too() -> None:
    finding = refused(publish(folder(b"---\nname: Re Funds\ndescription: d\n---\n", at="skill://Re%20Funds")))
    assert finding.rule == "F2"
    assert finding.fix == 'Call it "re-funds", and its directory too.'


@pytest.mark.rule("F1")
@pytest.mark.parametrize(
    ("skill_md", "rule", "line"),
    [
        (b"", "F1", 1),
        (b"# Refunds\n", "F1", 1),
        (b"---\nname: refunds\n", "F1", 1),
        (b"---\nname: refunds\n\xff\n---\n", "F1", 3),
        (b"---\nname: refunds\nname: refunds\n---\n", "F4", 3),
        (b"---\nname: a: b\n---\n", "F4", 2),
    ],
)
def test_a_skill_md_that_cannot_be_read_is_refused_where_it_breaks(skill_md: bytes, rule: str, line: int) -> None:
    finding = refused(publish(folder(skill_md)))
    assert (finding.rule, finding.kind, finding.line) == (rule, "frontmatter", line)


@pytest.mark.rule("E4")
def test_a_skill_within_both_limits_is_published_and_one_beyond_either_is_refused_with_the_reason() -> None:
    assert publish(folder(file_count=512, size=16_777_216)).entry is not None
    files = refused(publish(folder(file_count=513)))
    assert (files.rule, files.message) == ("E4", "The skill has 513 files; at most 512 are allowed.")
    size = refused(publish(folder(size=16_777_217)))
    assert (size.rule, size.message) == ("E4", "The skill has 16,777,217 bytes; at most 16,777,216 are allowed.")
    assert files.fix
    assert files.file == "."


def test_what_the_reading_came_upon_is_told_with_the_rest_and_only_errors_keep_a_skill_out() -> None:
    note = Finding(rule="P1", level=Level.NOTE, kind="left-out", message="A note.")
    error = Finding(rule="U8", level=Level.ERROR, kind="link", message="An error.")
    assert publish(folder(findings=(note,))).findings == (note,)
    assert publish(folder(findings=(note,))).entry is not None
    assert publish(folder(findings=(note, error))).entry is None
    assert publish(folder(findings=(note,)), strict=True).entry is not None


def test_every_reason_is_told_at_once() -> None:
    skill_md = b"---\nname: X\nlicense: 5\n---\n"
    publication = publish(folder(skill_md, at="skill://y", file_count=600))
    assert publication.entry is None
    assert [(finding.rule, finding.kind) for finding in publication.findings] == [
        ("E4", "limits"),
        ("F2", "name"),
        ("F1", "description"),
        ("F3", "license"),
    ]
