"""What other readers would refuse is foretold with a reason and a line, whatever the bytes are.

What is foretold of FastMCP, the TypeScript SDK and skills-ref is checked against the packages in tests/peers. The facts
about the Go SDK are these: no package of it can be asked, so the table says what its source and that of yaml.v3 do.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillquay.core.digests import Digest
from skillquay.core.entries import FileRecord
from skillquay.core.findings import Finding, Level
from skillquay.core.folders import SkillFolder
from skillquay.core.hidden import visible
from skillquay.core.peers import Peer, PeerRefusal, peer_refusals
from skillquay.core.uris import SkillUri
from tests.peers.cases import CASES
from tests.peers.generated import skill_md

HEAD = "name: demo\ndescription: Does it.\n"


def folder(
    skill_md: str | bytes, *paths: str, at: str = "skill://demo", findings: tuple[Finding, ...] = ()
) -> SkillFolder:
    data = skill_md.encode() if isinstance(skill_md, str) else skill_md
    root = SkillUri(at)
    files = tuple(FileRecord(uri=root.child(path), digest=Digest.of(b""), size=0) for path in ("SKILL.md", *paths))
    return SkillFolder(
        root=root,
        location="demo",
        skill_md=data,
        files=files,
        file_count=len(files),
        size=len(data),
        findings=findings,
    )


def refusals(skill: SkillFolder) -> dict[Peer, PeerRefusal]:
    return {refusal.peer: refusal for refusal in peer_refusals(skill)}


def refused(fields: str) -> dict[Peer, tuple[int | None, str]]:
    """The line and reason of each peer that refuses a skill with these fields beside the usual ones."""
    found = refusals(folder(f"---\n{HEAD}{fields}\n---\n"))
    return {peer: (refusal.line, refusal.reason) for peer, refusal in found.items()}


def finding(kind: str, file: str) -> Finding:
    return Finding(rule="U8", level=Level.NOTE, kind=kind, message="Something.", file=file)


def test_a_good_skill_is_refused_by_nobody() -> None:
    assert peer_refusals(folder(f"---\n{HEAD}---\nBody.\n", "scripts/run.py")) == ()


def test_the_peers_have_the_names_that_people_know() -> None:
    assert [str(peer) for peer in Peer] == ["FastMCP 4.1", "TypeScript SDK 2.4", "Go SDK (proposed)", "skills-ref 0.1"]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ("license: MIT", None),
        ("license: yes", None),
        ("license: y", None),
        ("license: 1e999", None),
        ("license: 1:30", None),
        ("license: 2026-02-30", None),
        ("license: 2026-13-01", None),
        ("license: 2026-01-02 03:04:05Z", None),
        ("license: !mine 1.0", None),
        ("license: !!str 1.0", None),
        ("license: ! a", None),
        ("license: &a MIT\ncompatibility: *a", None),
        ("license: true", "license is a boolean"),
        ("license: ~", "license is empty"),
        ("license: 0o17", "license is a number"),
        ("license: 0b1", "license is a number"),
        ("license: 0x1F", "license is a number"),
        ("license: 1_000", "license is a number"),
        ("license: -.5", "license is a number"),
        ("license: .5", "license is a number"),
        ("license: 089", "license is a number"),
        ("license: 99999999999999999999", "license is a number"),
        ("license: 2026-01-02", "as a date"),
        ("license: 2026-1-2", "as a date"),
        ("license: 0000-01-02", "as a date"),
        ("license: 2026-01-02 03:04:05.5", "as a date"),
        ("license: 2026-01-02t3:4:5+01:00", "as a date"),
        ("license: !!float 1", "license is a number"),
        ("license: !!int one", "something else than its tag says"),
        ("license: *a", "what this alias stands for"),
        ("x: &a\n  - *a", "what this alias stands for"),
        ("x: .inf", "JSON cannot hold"),
        ("x: [.nan]", "JSON cannot hold"),
        ("x: 2026-01-02", None),
        ("x: {a:}", None),
        ("x: {a: 1, a: 2}", "a second time"),
        ("x: {1: a}", "not a string"),
        ("x: {[a]: b}", "not a string"),
        ("x: &a {b: c}\ny:\n  <<: *a", None),
        ("y:\n  <<: [{a: b}, {c: d}]", None),
        ("y:\n  <<: a", "merges mappings"),
        ("&k key: a\nx: *k", None),
        ("x: &a k\n*a : b", None),
        ("x: &a [k]\n*a : b", "not a string"),
        ("1: a", None),
        ("1.5: a\n2026-01-02: b\n.nan: c", None),
        ("~: a", None),
        ("1: a\n'1': b", "a second time"),
        ("metadata:\n  released: 2026-01-02", "as a date"),
        ("metadata:\n  1: a", "not a string"),
        ("metadata:\n  a: 1", "metadata.a is a number"),
        ("metadata: a", "metadata is a string"),
        ("compatibility: ''", "compatibility has 0 characters"),
        ("...\nnot: [read", None),
    ],
)
def test_the_go_sdk_reads_yaml_in_its_own_way(fields: str, reason: str | None) -> None:
    found = refused(fields).get(Peer.GO)
    assert (found is None) if reason is None else (found is not None and reason in found[1])


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ("x: |+\n  a\n\n", None),
        ("x: >\n  a\n   b\n\n  c", None),
        ("x: a\x07b", None),
        ("x: |x", "cannot begin with"),
        ("x: |2\n    a", "indentation indicator"),
        ("x: {a: b,", "close on their line"),
        ("x: {a: b", "close on their line"),
        ("x: [a,", "close on their line"),
        ("x: a\n \tb", "tabs"),
        ("x:\n  -\ta: b", "tabs"),
        ("x: |\n  a\n \tb", "tabs"),
        ("x: a # b\n  c", "after a comment"),
        ("x: 'a' b", "more text after"),
        ('x: "\\d"', "unknown escape"),
        ('x: "a\n  b"', "close on their line"),
        ("license: 'a'\n  x: b", "indented more"),
        ("x: {'a' b}", "only simple values"),
        ("x:\n  - a\n    - b: c", "colon and a space"),
    ],
)
def test_the_typescript_sdk_reads_a_part_of_yaml(fields: str, reason: str | None) -> None:
    found = refused(fields).get(Peer.TYPESCRIPT)
    assert (found is None) if reason is None else (found is not None and reason in found[1])


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ("x: 0x1F", None),
        ("x: &a b", None),
        ("x: !!binary aGk=", "this YAML tag"),
        ("x: !!map\n  - a", "this YAML tag"),
        ("x: !!bool maybe", "this YAML tag"),
        ("x: 2026-02-30", "a date that does not exist"),
        ("x: 0x_", "a number that it cannot hold"),
        ("x: =", "YAML 1.1"),
        ("x: 1.e+999", "JSON cannot hold"),
        ("x: &a b\ny: &a c", "come twice"),
        ('x: "\\U00110000"', "stands for no character"),
        ("x:\ty", "cannot start any token"),
    ],
)
def test_fastmcp_reads_yaml_as_pyyaml_does(fields: str, reason: str | None) -> None:
    found = refused(fields).get(Peer.FASTMCP)
    assert (found is None) if reason is None else (found is not None and reason in found[1])


@pytest.mark.parametrize(
    ("text", "at", "reason"),
    [
        ("---\nname: überblick\ndescription: d\n---", "skill://überblick", None),
        ("---\nname: demo\ndescription: ' '\n---", "skill://demo", None),
        (f"---\n{HEAD}--- \nBody.\n---\n", "skill://demo", None),
        (f"---\n{HEAD}---\n".encode() + b"\xff", "skill://demo", None),
        (f"---\n{HEAD}license: ".encode() + b"\xff\n---\n", "skill://demo", "not UTF-8"),
        (f"---\n{HEAD}--- \nBody.\n", "skill://demo", "after the closing"),
        (f"--- \n{HEAD}---\n", "skill://demo", "after the opening"),
        (f"\ufeff---\n{HEAD}---\n", "skill://demo", "byte order mark"),
        ("---\n---\n", "skill://demo", "finds no fields"),
        ("---\n~\n---\n", "skill://demo", "not a mapping"),
        ("---\nname: Demo\ndescription: d\n---\n", "skill://Demo", "not in lowercase"),
        ("---\nname: de_mo\ndescription: d\n---\n", "skill://de_mo", "something else in it"),
        ("---\nname: other\ndescription: d\n---\n", "skill://demo", "not the name of the directory"),
        (f"---\nname: demo\ndescription: {'a' * 1025}\n---\n", "skill://demo", "1,025 characters"),
        (f"---\n{HEAD}---\n", "skill://my%20skills/demo", "cannot begin with"),
        (f"---\n{HEAD}---\n", "skill://skills/my%20own/demo", None),
    ],
)
def test_the_go_sdk_has_its_own_rules_for_names_and_delimiters(text: str | bytes, at: str, reason: str | None) -> None:
    found = refusals(folder(text, at=at)).get(Peer.GO)
    assert (found is None) if reason is None else (found is not None and reason in found.reason)


def test_a_reason_says_what_a_peer_makes_of_the_value_and_what_to_do() -> None:
    assert refused("metadata:\n  released: 2026-01-02") == {
        Peer.FASTMCP: (5, 'It reads "2026-01-02" as a date, which JSON does not have. Quote it.'),
        Peer.GO: (4, "It reads the date in metadata as a date, not as text. Quote it."),
    }
    assert refused("license: &a MIT\ncompatibility: *a") == {
        Peer.FASTMCP: (5, "It does not allow YAML aliases. Write the value out."),
        Peer.TYPESCRIPT: (4, "It does not read anchors, aliases and tags. Write the value out, or quote it."),
        Peer.SKILLS_REF: (4, "It does not allow anchors and aliases. Write the value out."),
    }
    assert refused("version: [1,\n  2]") == {
        Peer.TYPESCRIPT: (
            4,
            "It reads [] and {} only when they close on their line. Write each item on a line of its own.",
        ),
        Peer.SKILLS_REF: (4, "It does not allow values in [] or {}. Write each item on a line of its own."),
    }


def test_an_unknown_field_is_refused_by_skills_ref_alone_at_its_line() -> None:
    assert refused("license: MIT\nversion: '1'") == {
        Peer.SKILLS_REF: (5, 'It does not know the field "version". Move it below metadata, or remove it.')
    }


def test_a_dash_too_many_is_the_reason_when_skills_ref_reads_only_a_part() -> None:
    found = refusals(folder("---\nname: demo\nlicense: a---b\ndescription: d\n---\n"))
    assert found == {
        Peer.SKILLS_REF: PeerRefusal(
            peer=Peer.SKILLS_REF,
            reason="It takes this --- for the end of the frontmatter. Use another dash.",
            line=3,
        )
    }


def test_spaces_at_a_delimiter_are_the_reason_and_not_what_comes_of_them() -> None:
    found = refusals(folder(f"---\n{HEAD}--- \nBody: [\n---\n"))
    assert found[Peer.FASTMCP].reason == "There are spaces after the closing ---. Remove them."
    assert found[Peer.FASTMCP].line == 4


@pytest.mark.parametrize("kind", ["link", "special-file"])
def test_links_and_special_files_are_refused_by_every_peer_that_publishes(kind: str) -> None:
    found = refusals(folder(f"---\n{HEAD}---\n", findings=(finding(kind, "sub/odd"),)))
    assert found.keys() == {Peer.FASTMCP, Peer.TYPESCRIPT, Peer.GO}
    assert all('"sub/odd"' in refusal.reason and refusal.line is None for refusal in found.values())


def test_hidden_files_count_for_the_peers_that_publish_them() -> None:
    files = [f"file-{number}" for number in range(511)]
    assert refusals(folder(f"---\n{HEAD}---\n", *files, findings=(finding("left-out", ".git/"),))) == {}
    found = refusals(folder(f"---\n{HEAD}---\n", *files, findings=(finding("left-out", ".hidden"),)))
    assert found.keys() == {Peer.FASTMCP, Peer.GO}


def test_a_file_name_that_fastmcp_cannot_serve_is_refused_by_it_alone() -> None:
    good = f"---\n{HEAD}---\n"
    assert refusals(folder(good, "c:notes.md")).keys() == {Peer.FASTMCP}
    assert refusals(folder(good, "_manifest")).keys() == {Peer.FASTMCP}
    assert refusals(folder(good, "inner/SKILL.md", "inner/_manifest")).keys() == {Peer.FASTMCP}
    assert refusals(folder(good, findings=(finding("file-name", "a\\b"),))).keys() == {Peer.FASTMCP}
    assert refusals(folder(good, "sub/c:notes.md", "sub/_manifest", "_manifest.md")) == {}


@pytest.mark.parametrize(
    "fields",
    [
        "x: " + "[" * 500_000,
        "x:\n  " + "- " * 250_000,
        "x: " + "9" * 500_000,
        "x: 1" + ":59" * 150_000,
        "\n".join(f"k{number}: &a{number} [*a{number - 1}, *a{number - 1}]" for number in range(1, 5_000)),
        "x: '" + "''" * 250_000,
        "x: " + "word\n  " * 70_000,
    ],
)
def test_what_is_made_to_be_slow_is_read_in_passing(fields: str) -> None:
    peer_refusals(folder(f"---\n{HEAD}{fields}\n---\n"))


def test_frontmatter_beyond_what_is_read_is_not_judged_but_its_files_are() -> None:
    long = f"---\n{HEAD}# {'x' * 2**20}\n---\n"
    assert refusals(folder(long)) == {}
    assert refusals(folder(long, findings=(finding("link", "a"),))).keys() == {
        Peer.FASTMCP,
        Peer.TYPESCRIPT,
        Peer.GO,
    }


def test_nesting_beyond_what_is_read_is_taken_to_be_refused_by_all() -> None:
    assert refused(f"x: {'[' * 70}{']' * 70}").keys() == set(Peer)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.is_alone])
def test_a_case_of_skill_md_alone_is_foretold_without_a_disk(name: str) -> None:
    case = CASES[name]
    skill = folder(case.skill_md, at=SkillUri.build(case.skill.split("/")))
    assert refusals(skill).keys() == case.refused_by


@given(st.one_of(st.binary(), skill_md(), st.text().map(lambda text: f"---\n{HEAD}{text}\n---\n".encode())))
def test_no_bytes_make_it_fail_and_every_reason_is_a_sentence_without_hidden_characters(data: bytes) -> None:
    for refusal in peer_refusals(folder(data)):
        assert refusal.reason == visible(refusal.reason)
        assert refusal.reason[0].isupper() or refusal.reason[0] in '"<abcdefghijklmnopqrstuvwxyz'
        assert ". " in refusal.reason
        assert refusal.line is not None
        assert 1 <= refusal.line <= data.count(b"\n") + data.count(b"\r") + 2


@pytest.mark.rule("F3")
@pytest.mark.parametrize("field", ["license: [a]", "allowed-tools: [a]", "compatibility: [a]", "metadata:\n  a: [b]"])
def test_the_readers_named_in_the_warning_about_a_field_are_those_that_refuse_it(field: str) -> None:
    from skillquay.core.fields import field_findings, naming_readers
    from skillquay.core.frontmatter import parse_frontmatter

    skill_md = f"---\nname: demo\ndescription: d\n{field}\n---\n".encode()
    (finding,) = field_findings(parse_frontmatter(skill_md).fields)
    refusing = {refusal.peer for refusal in peer_refusals(folder(skill_md))}
    for peer, name in {Peer.FASTMCP: "FastMCP", Peer.TYPESCRIPT: "TypeScript", Peer.GO: "Go SDK"}.items():
        assert (name in naming_readers(finding).message) == (peer in refusing), peer
