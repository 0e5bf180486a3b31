"""The commands of the host, run as people run them: look, trust, approve, deny, take back, switch off."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest

from skillquay.testing.publisher import Publisher
from skillquay.testing.skills import make_skill
from tests.cli.conftest import COMMAND, configure, write
from tests.serving import serve

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cli.conftest import Run

TOOLS = make_skill("refunds", files={"notes.md": b"Be kind.\n"}, fields={"allowed-tools": "Bash Read"})
PLAIN = make_skill("acme/billing/letters")


@pytest.fixture
def publisher() -> Publisher:
    """Two skills, `refunds` and `letters`."""
    return Publisher(TOOLS, PLAIN)


@pytest.fixture
def served(publisher: Publisher, tmp_path: Path) -> Iterator[Publisher]:
    """The publisher as the server `acme` of the folder, which is not trusted yet."""
    with publisher.serving() as url:
        configure(tmp_path, acme=url)
        yield publisher


@pytest.fixture
def trusted(served: Publisher, host: Run) -> Publisher:
    """The same in a folder that is trusted."""
    assert host("trust", "--yes").status == 0
    return served


def states(host: Run) -> dict[str, str]:
    return {skill["name"]: skill["state"] for skill in json.loads(host("skills", "--json").out)["skills"]}


# Trust


@pytest.mark.rule("P6")
def test_of_a_folder_that_is_not_trusted_nothing_is_asked_and_the_person_is_told(host: Run, served: Publisher) -> None:
    done = host("skills")
    assert done.status == 0
    assert 'run "skillquay trust" here' in done.out
    found = host("show", "refunds")
    assert (found.status, found.out) == (2, "")
    assert 'This folder is not trusted: see "skillquay trust".' in found.err
    for command in ("login", "logout"):
        refused = host(command, "acme")
        assert (refused.status, refused.out) == (2, "")
        assert "You have not trusted this folder" in refused.err
    assert served.received == []


@pytest.mark.rule("P6")
def test_trusting_shows_what_it_means_without_secrets_and_needs_a_yes(host: Run, tmp_path: Path) -> None:
    write(tmp_path / ".agents" / "skills" / "tidy", "---\nname: tidy\ndescription: Tidies up.\n---\n")
    servers = {
        "far": {
            "url": "https://me:s3cret@skills.example.com/s3cret?key=s3cret",
            "headers": {"Authorization": "s3cret", "X": "${FAR}"},
        },
        "near": {
            "command": "npx",
            "args": ["-y", "some server\x1b[2J", "--key", "${KEY:-none}"],
            "env": {"KEY": "s3cret", "OTHER": "${MINE}"},
            "cwd": "sub",
        },
    }
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))
    alone = host("trust", KEY="s3cret", FAR="s3cret")
    assert (alone.status, alone.out) == (2, "")
    assert "add --yes" in alone.err
    done = host("trust", "--yes", KEY="s3cret", FAR="s3cret")
    assert (done.status, done.err) == (0, "")
    shown = [
        "far   is asked at skills.example.com, and is given FAR of your environment\n",
        "near  runs npx -y 'some server⟨U+001B⟩[2J' --key '${KEY:-none}', in sub, with KEY, OTHER set, and is",
        "is given KEY, MINE of your environment\n",
        "tidy  Tidies up.",
    ]
    for line in shown:
        assert line in done.out
        assert line in alone.err, "also where nobody can be asked"
    assert "s3cret" not in done.out + alone.err
    assert "Not all of this" not in done.out
    again = json.loads(host("trust", "--json").out)
    assert again["trusted"]
    assert again["servers"] == [
        {"label": "far", "host": "skills.example.com", "variables": ["FAR"]},
        {
            "label": "near",
            "command": "npx",
            "args": servers["near"]["args"],
            "env": ["KEY", "OTHER"],
            "cwd": "sub",
            "variables": ["KEY", "MINE"],
        },
    ]
    assert [skill["name"] for skill in again["skills"]] == ["tidy"]


@pytest.mark.rule("P6")
@pytest.mark.parametrize(
    ("server", "shown"),
    [
        ({"command": "sh", "args": ["-c", "x" * 500 + "; rm -r ."]}, f"runs sh -c '{'x' * 59}…'"),
        ({"command": "npx", "args": [str(number) for number in range(12)]}, "7 8 9 … and 2 more arguments"),
        ({"command": "npx", "env": {f"V{number}": "" for number in range(12)}}, "with V0, V1, V2, V3, V4, V5, V6,"),
        ({"url": "https://skills.example.com${NONE:-.example.net}/mcp"}, "is asked at a host that variables decide"),
        ({"url": "${WHERE}"}, "is asked at a host that variables decide, and is given WHERE of your environment"),
    ],
)
def test_what_is_too_long_to_show_before_trusting_is_said_to_be(
    host: Run, tmp_path: Path, server: dict[str, object], shown: str
) -> None:
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": {"near": server}}))
    alone = host("trust")
    assert shown in alone.err
    assert "Not all of this could be shown. Read .mcp.json before you agree." in alone.err


@pytest.mark.rule("P6")
def test_trust_is_taken_back_without_asking_a_server_first(host: Run, trusted: Publisher) -> None:
    assert states(host) == {"refunds": "new", "letters": "new"}
    asked = len(trusted.received)
    assert host("trust", "--no").status == 0
    assert states(host) == {}
    assert len(trusted.received) == asked


def test_a_person_at_a_terminal_is_asked_before_a_folder_is_trusted(host_in_terminal: Run, served: Publisher) -> None:
    refused = host_in_terminal("trust", answer="\n")
    assert refused.status == 1
    assert "is not trusted." in refused.out
    agreed = host_in_terminal("trust", answer="y\n")
    assert agreed.status == 0
    assert "Trust this folder? [y/N]" in agreed.out
    assert served.received == []


def test_skills_offers_to_trust_the_folder_and_goes_on(host_in_terminal: Run, served: Publisher) -> None:
    done = host_in_terminal("skills", answer="y\n")
    assert done.status == 0
    assert "is asked at 127.0.0.1" in done.out
    assert "2 skills." in done.out


# Looking


@pytest.mark.rule("N2")
def test_skills_shows_all_origins_collisions_refusals_and_servers_that_fail(
    host: Run, publisher: Publisher, tmp_path: Path
) -> None:
    publisher.entries.append(PLAIN.entry(uri="skill://broken/SKILL.md"))
    write(tmp_path / ".agents" / "skills" / "letters", "---\nname: letters\ndescription: My own.\n---\n")
    write(tmp_path / "home" / ".claude" / "skills" / "mine", "---\nname: mine\ndescription: My own.\n---\n")
    with publisher.serving() as url:
        configure(tmp_path, acme=url, dead="http://127.0.0.1:1/mcp", gone=["/no/such/command"])
        host("trust", "--yes")
        done = host("skills")
        document = json.loads(host("skills", "--json").out)
    assert done.status == 0
    lines = [line.split(maxsplit=1) for line in done.out.splitlines()]
    assert ["./letters", "project          local                                         My own."] in lines
    assert [
        "acme:letters",
        "MCP server acme  not approved yet; a digest covers every file  What letters is for.",
    ] in lines
    assert "5 skills" not in done.out
    assert "4 skills." in done.out
    assert 'server "dead"' in done.out
    assert "cannot be reached" in done.out
    assert 'server "gone"' in done.out
    assert "skill://broken/SKILL.md is refused" in done.out
    assert 'name "letters"' in done.out
    assert document["trusted"]
    assert document["workspace"] == str(tmp_path)
    assert {skill["name"]: skill["origin"] for skill in document["skills"]} == {
        "./letters": "project",
        "acme:letters": "MCP server acme",
        "mine": "user",
        "refunds": "MCP server acme",
    }
    assert document["skills"][1]["uri"] == "skill://acme/billing/letters/SKILL.md"
    assert {problem["rule"] for problem in document["problems"]} == {"B2", "N2", "U2"}


def test_a_folder_with_nothing_in_it_is_said_to_have_none(host: Run, tmp_path: Path) -> None:
    assert host("skills").out.startswith("No skills.")
    elsewhere = host("skills", "--workspace", tmp_path / "nowhere")
    assert (elsewhere.status, elsewhere.out) == (2, "")
    assert "--workspace" in elsewhere.err


@pytest.mark.rule("A5")
def test_show_tells_all_of_a_served_skill_and_fetches_nothing(host: Run, trusted: Publisher) -> None:
    done = host("show", "refunds")
    assert done.status == 0
    assert "MCP server acme" in done.out
    assert "  asks for      the tools Bash Read\n" in done.out
    assert "notes.md" in done.out
    assert 'approve it with "skillquay approve refunds"' in done.out
    document = json.loads(host("show", "refunds", "--json").out)
    assert document["frontmatter"] == dict(TOOLS.frontmatter)
    assert [file["path"] for file in document["files"]] == ["SKILL.md", "notes.md"]
    assert document["files"][1]["digest"] == TOOLS.records()[1]["digest"]
    assert document["change"] is None
    assert json.loads(host("files", "refunds", "--json").out)["files"][1] == {"path": "notes.md", "size": 9}
    assert trusted.reads == []


def test_show_files_and_read_know_local_skills(host: Run, tmp_path: Path) -> None:
    directory = write(
        tmp_path / "home" / ".agents" / "skills" / "mine", "---\nname: mine\ndescription: Own.\n---\nHi\n"
    )
    done = host("show", "mine")
    assert str(directory) in done.out
    assert "description   Own." in done.out
    assert json.loads(host("show", "mine", "--json").out)["files"] == [
        {"path": "SKILL.md", "size": None, "digest": None}
    ]
    assert host("files", "mine").out == "SKILL.md\n1 file.\n"
    assert host("read", "mine").out.endswith("---\nHi\n")
    raw = host("read", "mine", "--raw")
    assert raw.status == 2
    assert str(directory) in raw.err
    (directory / "long.txt").write_text("x" * 600_000)
    long = host("read", "mine", "long.txt")
    assert "Only the beginning of 600,000 bytes is shown." in long.err


@pytest.mark.rule("B4")
@pytest.mark.rule("R3")
def test_what_is_read_is_made_visible_and_raw_bytes_never_reach_a_terminal(
    host: Run, host_in_terminal: Run, trusted: Publisher
) -> None:
    hidden = "One\x1b[2J\n\u202etwo\n".encode()
    trusted.publish(TOOLS.with_files({"hidden.md": hidden, "picture.png": b"\x89PNG\xff"}))
    assert host("read", "refunds", "hidden.md").out == "One⟨U+001B⟩[2J\n⟨U+202E⟩two\n"
    assert "! line 2: bidirectional controls" in host("read", "refunds", "hidden.md", "--visible").out
    assert host("read", "refunds", "hidden.md", "--raw").out.encode() == hidden
    document = json.loads(host("read", "refunds", "hidden.md", "--json").out)
    assert document["text"].encode() == hidden
    assert {"line": 2, "kind": "bidirectional controls"} in document["hidden"]
    assert json.loads(host("read", "refunds", "picture.png", "--json").out)["base64"] == "iVBOR/8="
    seen = host_in_terminal("read", "refunds", "hidden.md").out
    assert "  | One⟨U+001B⟩[2J" in seen
    assert "\x1b[2J" not in seen
    assert host_in_terminal("read", "refunds", "hidden.md", "--raw").status == 2
    assert states(host)["refunds"] == "new"


@pytest.mark.rule("V1")
def test_a_file_that_is_not_what_was_listed_is_not_shown(host: Run, trusted: Publisher) -> None:
    trusted.files[TOOLS.uri_of("notes.md")] = b"Be mean.\n"
    done = host("read", "refunds", "notes.md")
    assert (done.status, done.out) == (1, "")
    assert "does not match" in done.err


def test_a_file_that_no_skill_has_is_a_wrong_command_whatever_the_skill(
    host: Run, trusted: Publisher, tmp_path: Path
) -> None:
    write(tmp_path / "home" / ".agents" / "skills" / "mine", "---\nname: mine\ndescription: Own.\n---\n")
    for name in ("refunds", "mine"):
        missing = host("read", name, "other.md")
        assert (missing.status, missing.out) == (2, "")
        assert missing.err == (
            f'skillquay: "other.md" is not a file of the skill "{name}". See its files with "skillquay files {name}".\n'
        )
        outside = host("read", name, "../other.md")
        assert outside.status == 2
        assert "skillquay files" not in outside.err
    local = host("diff", "mine")
    assert (local.status, local.out) == (2, "")
    assert "nothing to compare it with" in local.err


@pytest.mark.rule("B4")
def test_no_text_of_a_server_passes_for_a_line_of_ours_by_being_long(host_in_terminal: Run, trusted: Publisher) -> None:
    forged = "  files         0"
    trusted.publish(make_skill("refunds", body="x" * 76 + forged, fields={"description": "x" * 55 + forged}))
    for command in (["show", "refunds"], ["approve", "refunds"], ["read", "refunds"]):
        lines = host_in_terminal(*command, COLUMNS="80", answer="\n").out.splitlines()
        assert not [line for line in lines if line.startswith(forged)], command
        assert any("xxx" in line for line in lines)


def test_search_finds_by_words_and_says_when_nothing_fits(host: Run, trusted: Publisher) -> None:
    assert host("search", "refund").out.startswith("refunds  MCP server acme")
    assert len(json.loads(host("search", "what", "is", "--limit", "1", "--json").out)["skills"]) == 1
    assert host("search", "zebra").status == 1


# Deciding


@pytest.mark.rule("A5")
def test_a_person_sees_a_skill_before_they_approve_it(host: Run, host_in_terminal: Run, trusted: Publisher) -> None:
    done = host_in_terminal("approve", "refunds", answer="n\n")
    assert done.status == 1
    assert "says it is    refunds: What refunds is for." in done.out
    assert 'Not approved for "refunds": loading it.' in done.out
    assert states(host)["refunds"] == "new"
    both = host_in_terminal("approve", "refunds", "--execute", "--tools", answer="y\ny\nn\n")
    assert both.status == 1
    assert 'Approve for "refunds": the tools it asks for? [y/N]' in both.out
    answers = json.loads(host("approvals", "--json").out)["answers"]
    assert [(each["grant"], each["answer"], each["ended"]) for each in answers] == [
        ("execute", "allow", None),
        ("load", "allow", None),
    ]
    assert trusted.reads == []


@pytest.mark.rule("A1")
def test_without_a_terminal_only_yes_approves_and_each_grant_is_kept_for_itself(host: Run, trusted: Publisher) -> None:
    alone = host("approve", "refunds")
    assert (alone.status, alone.out) == (2, "")
    assert "add --yes" in alone.err
    done = host("approve", "refunds", "letters", "--yes", "--json")
    assert done.status == 0
    assert [(each["name"], each["grant"], each["answer"]) for each in json.loads(done.out)["answers"]] == [
        ("refunds", "load", "allow"),
        ("letters", "load", "allow"),
    ]
    more = host("approve", "refunds", "--execute", "--tools", "--yes")
    assert 'Approved before for "refunds": loading it.' in more.out
    assert 'Approved for "refunds", until its content changes: the tools it asks for.' in more.out
    none = host("approve", "letters", "--tools", "--yes")
    assert none.status == 1
    assert '"letters" asks for no tools' in none.out
    assert len(json.loads(host("approvals", "--json").out)["answers"]) == 4


@pytest.mark.rule("N2")
def test_a_name_that_means_none_or_several_approves_nothing(host: Run, trusted: Publisher, tmp_path: Path) -> None:
    unknown = host("approve", "letters", "letter", "--yes")
    assert (unknown.status, unknown.out) == (2, "")
    assert 'There is no skill "letter".' in unknown.err
    other = Publisher(make_skill("refunds", body="Others.\n"))
    with trusted.serving() as url, other.serving() as other_url:
        configure(tmp_path, acme=url, rival=other_url)
        several = host("approve", "refunds", "--yes")
        assert several.status == 2
        assert "Say which: acme:refunds, rival:refunds." in several.err
        assert host("approve", "rival:refunds", "--yes").status == 0
        assert states(host) == {"acme:refunds": "new", "rival:refunds": "approved", "letters": "new"}
    assert host("approve", "--yes").status == 2
    assert host("approve", "refunds", "--server", "acme", "--yes").status == 2
    assert host("approve", "--server", "acme", "--tools", "--yes").status == 2


@pytest.mark.rule("A3")
def test_of_a_generated_skill_no_answer_is_kept_and_that_is_said(host: Run, trusted: Publisher) -> None:
    trusted.entries[0] = TOOLS.entry(resources="dynamic")
    for command in (["approve", "refunds", "--yes"], ["deny", "refunds"]):
        done = host(*command)
        assert done.status == 1
        assert "generated anew each time" in done.out
    assert json.loads(host("approvals", "--json").out) == {"answers": []}
    assert json.loads(host("show", "refunds", "--json").out)["files"] == "dynamic"


def test_a_whole_server_is_approved_at_once_but_for_what_was_denied_or_is_generated(
    host: Run, host_in_terminal: Run, trusted: Publisher
) -> None:
    trusted.publish(TOOLS, PLAIN, make_skill("third"), make_skill("fourth"))
    trusted.entries[2]["resources"] = "dynamic"
    assert host("deny", "refunds").status == 0
    seen = host_in_terminal("approve", "--server", "acme", answer="\n")
    assert seen.status == 1
    assert "2 skills of acme: [a]ll, [e]ach, [n]one" in seen.out
    done = host("approve", "--server", "acme", "--yes")
    assert done.status == 1
    assert '"refunds" was not approved: it is denied.' in done.out
    assert '"third" was not approved: its content is generated' in done.out
    assert states(host) == {"fourth": "approved", "letters": "approved", "refunds": "denied", "third": "dynamic"}
    assert '"letters" was approved before.' in host("approve", "--server", "acme", "--yes").out
    nobody = host("approve", "--server", "rival", "--yes")
    assert nobody.status == 2
    assert "There are: acme." in nobody.err


@pytest.mark.rule("A5")
def test_skills_and_whole_servers_are_switched_off_and_on(host: Run, trusted: Publisher) -> None:
    assert host("disable", "letters").out == 'The skill "letters" is disabled.\n'
    assert states(host) == {"refunds": "new", "letters": "disabled"}
    assert "stays disabled" in host("approve", "letters", "--yes").out
    assert json.loads(host("disable", "acme", "--json").out) == {"disabled": ['server "acme"']}
    assert states(host) == {}, "it is not even asked"
    assert 'It is disabled. Enable it with "skillquay enable acme".' in host("skills").out
    assert host("enable", "acme", "letters").status == 0
    assert states(host) == {"refunds": "new", "letters": "approved"}
    nothing = host("disable", "nothing")
    assert nothing.status == 2
    assert "No server that is configured here has this label either." in nothing.err
    assert host("disable").status == 2


@pytest.mark.rule("A5")
def test_one_wrong_name_and_nothing_is_switched(host: Run, trusted: Publisher) -> None:
    wrong = host("disable", "letters", "letter")
    assert (wrong.status, wrong.out) == (2, "")
    assert 'There is no skill "letter".' in wrong.err
    assert states(host) == {"refunds": "new", "letters": "new"}
    assert host("disable", "acme", "letters").status == 0
    wrong = host("enable", "letters", "acme", "letter")
    assert (wrong.status, wrong.out) == (2, "")
    assert states(host) == {}
    assert host("enable", "letters", "acme").out == 'The skill "letters" is enabled.\nThe server "acme" is enabled.\n'
    assert states(host) == {"refunds": "new", "letters": "new"}
    kinds = [event["kind"] for event in json.loads(host("audit", "--json").out)["events"]]
    assert kinds == ["enable", "enable", "disable", "disable", "trust"]


@pytest.mark.rule("N2")
def test_a_name_of_a_skill_and_of_a_server_is_switched_as_neither(
    host: Run, publisher: Publisher, tmp_path: Path
) -> None:
    with publisher.serving() as url:
        configure(tmp_path, refunds=url)
        host("trust", "--yes")
        unclear = host("disable", "refunds")
        assert (unclear.status, unclear.out) == (2, "")
        assert 'For the skill say "refunds:refunds", for the server "--server refunds".' in unclear.err
        write(tmp_path / ".agents" / "skills" / "refunds", "---\nname: refunds\ndescription: Own.\n---\n")
        assert 'For the skill say "./refunds", "refunds:refunds", for the server' in host("disable", "refunds").err
        assert host("disable", "refunds:refunds").out == 'The skill "refunds:refunds" is disabled.\n'
        assert states(host) == {"./refunds": "local", "refunds:refunds": "disabled", "letters": "new"}
        assert host("disable", "--server", "refunds").out == 'The server "refunds" is disabled.\n'
        assert states(host) == {"refunds": "local"}
        assert host("enable", "letters", "--server", "refunds").status == 0
        assert states(host) == {"./refunds": "local", "refunds:refunds": "disabled", "letters": "new"}


@pytest.mark.rule("A5")
def test_the_audit_says_what_was_switched_and_finds_it_by_name(host: Run, trusted: Publisher, tmp_path: Path) -> None:
    mine = write(tmp_path / "home" / ".agents" / "skills" / "mine", "---\nname: mine\ndescription: Own.\n---\n")
    assert host("disable", "refunds", "acme", "mine").status == 0
    local, server, skill, _ = json.loads(host("audit", "--json").out)["events"]
    assert (local["server"], local["uri"], local["detail"]) == ("", "", str(mine))
    assert (server["server"], server["uri"], server["detail"]) == ("acme", "", "the whole server")
    assert (skill["server"], skill["uri"], skill["detail"]) == ("acme", TOOLS.uri, "")
    assert skill["configured_in"] == server["configured_in"] == str(tmp_path / ".mcp.json")
    assert json.loads(host("audit", "refunds", "--json").out)["events"] == [skill]
    assert "disable  acme: skill://refunds/SKILL.md" in host("audit").out


@pytest.mark.rule("A2")
def test_an_answer_is_taken_back_although_the_server_is_gone(host: Run, publisher: Publisher, tmp_path: Path) -> None:
    with publisher.serving() as url:
        configure(tmp_path, acme=url)
        host("trust", "--yes")
        assert host("approve", "refunds", "--yes", "--execute").status == 0
    (tmp_path / ".mcp.json").unlink()
    done = host("revoke", "refunds")
    assert done.status == 0
    assert done.out.startswith("2 answers about acme: skill://refunds/SKILL.md ended.")
    assert host("revoke", "refunds").status == 1
    assert host("revoke", "letters").status == 2
    kept = host("approvals").out
    assert kept.count("ended") == 2
    assert "MCP server acme" in kept
    events = json.loads(host("audit", "refunds", "--json").out)["events"]
    assert [event["kind"] for event in events] == ["revoke", "revoke", "allow", "allow"]
    assert len(host("audit", "--limit", "1").out.splitlines()) == 1
    assert "trust" in host("audit").out


def test_one_name_in_two_folders_means_the_one_of_this_folder(host: Run, publisher: Publisher, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    with publisher.serving() as url:
        for folder in (tmp_path, other):
            configure(folder, acme=url)
            assert host("trust", "--yes", "--workspace", folder).status == 0
            assert host("approve", "refunds", "--yes", "--workspace", folder).status == 0
    answers = json.loads(host("approvals", "--json").out)["answers"]
    assert len({each["name"] for each in answers}) == 2
    (own,) = (each["name"] for each in answers if each["configured_in"] == str(tmp_path / ".mcp.json"))
    assert own == "refunds", "as it is shown in this folder"
    assert json.loads(host("revoke", "refunds", "--workspace", other, "--json").out)["revoked"][0]["ended"] == 1
    left = [each for each in json.loads(host("approvals", "--json").out)["answers"] if each["ended"] is None]
    assert [each["configured_in"] for each in left] == [str(tmp_path / ".mcp.json")]
    nowhere = tmp_path / "home"
    ambiguous = host("revoke", "refunds", "--workspace", nowhere)
    assert ambiguous.status == 2
    assert "means several skills" in ambiguous.err
    names = json.loads(host("approvals", "--workspace", nowhere, "--json").out)["answers"]
    (name,) = (each["name"] for each in names if each["ended"] is None)
    assert host("revoke", name, "--workspace", nowhere).status == 0


def test_approvals_names_skills_as_skills_does(host: Run, trusted: Publisher, tmp_path: Path) -> None:
    write(tmp_path / ".agents" / "skills" / "letters", "---\nname: letters\ndescription: My own.\n---\n")
    assert host("approve", "acme:letters", "refunds", "--yes").status == 0
    assert states(host) == {"./letters": "local", "acme:letters": "approved", "refunds": "approved"}
    answers = json.loads(host("approvals", "--json").out)["answers"]
    assert [each["name"] for each in answers] == ["acme:letters", "refunds"]
    assert host("revoke", "acme:letters").status == 0


# Changes


@pytest.mark.rule("A2")
def test_a_skill_that_changed_is_shown_to_have_and_what_changed(host: Run, trusted: Publisher) -> None:
    never = host("diff", "refunds")
    assert never.status == 2
    assert "nothing to compare it with" in never.err
    host("approve", "refunds", "--yes")
    same = host("diff", "refunds")
    assert same.status == 0
    assert "Nothing changed since." in same.out
    host("read", "refunds", "notes.md")
    trusted.publish(
        make_skill(
            "refunds",
            files={"notes.md": b"Be kind.\n\tBe \x1b[2Jquick.", "new.py": b"print()\n", "new.bin": b"\xff"},
            fields={"description": "Something else.", "allowed-tools": "Bash Read", "hooks": True},
        )
    )
    assert "changed since it was approved" in host("skills").out
    done = host("diff", "refunds", "--content")
    assert done.status == 1
    assert "  added      new.py" in done.out
    assert "  rewritten  notes.md  9 B → " in done.out
    assert '      - "What refunds is for."\n      + "Something else."' in done.out
    assert "    hooks\n      - (not there)\n      + true" in done.out
    assert "+→   Be ⟨U+001B⟩[2Jquick.\n+(no line break at the end)" in done.out
    assert "! line 2 of the new file: control characters" in done.out
    assert "+print()" in done.out
    assert "It is not text." in done.out
    assert "What it was is not in the cache" not in done.out.split("notes.md")[-1]
    document = json.loads(host("diff", "refunds", "--json").out)
    assert document["changed"]
    assert document["change"]["rewritten"] == [TOOLS.uri, TOOLS.uri_of("notes.md")]
    assert document["frontmatter"]["hooks"] == {"new": True}
    host("cache", "--clear")
    assert "What it was is not in the cache" in host("diff", "refunds", "--content").out
    assert host("approve", "refunds", "--yes").status == 0
    assert host("diff", "refunds").status == 0


def test_the_whole_way_with_a_real_server(host: Run, tmp_path: Path) -> None:
    skill = write(tmp_path / "served" / "refunds", "---\nname: refunds\ndescription: Pays back.\n---\nOne.\n")
    with serve(tmp_path / "served", "--ttl", "0") as server:
        configure(tmp_path, acme=server.url)
        host("trust", "--yes")
        assert host("approve", "refunds", "--yes").status == 0
        assert states(host) == {"refunds": "approved"}
        (skill / "SKILL.md").write_text("---\nname: refunds\ndescription: Pays back.\n---\nTwo.\n")
        while states(host) == {"refunds": "approved"}:  # the server sees it within a second
            assert server.process.poll() is None
        assert states(host) == {"refunds": "changed"}
        assert "rewritten  SKILL.md" in host("diff", "refunds").out


# What is kept


def test_the_cache_is_shown_and_cleared_by_server(host: Run, trusted: Publisher, tmp_path: Path) -> None:
    assert host("cache").out.startswith("Nothing is cached in")
    host("read", "refunds", "notes.md")
    (use,) = json.loads(host("cache", "--json").out)["servers"]
    assert (use["server"], use["skills"], use["files"]) == ("acme", 1, 2)
    unknown = host("cache", "--server", "rival", "--clear")
    assert (unknown.status, unknown.out) == (2, "")
    assert 'no server "rival". It has: acme.' in unknown.err
    assert "acme" in host("cache").out
    assert "removed from" in host("cache", "--server", "acme", "--clear").out
    assert host("cache").out.startswith("Nothing is cached in")
    assert host("cache", "--server", "acme").status == 0
    assert host("cache", "--server", "a" * 65).status == 2


@pytest.mark.rule("K4")
def test_state_that_is_damaged_is_said_to_be_and_nothing_is_approved(
    host: Run, trusted: Publisher, tmp_path: Path
) -> None:
    (state,) = (tmp_path / "state").rglob("*.sqlite3")
    state.write_bytes(b"This is no database." * 1000)
    done = host("skills")
    assert done.status == 2
    assert "approvals" in done.out
    assert "damaged" in done.out
    for command in (
        ["approve", "refunds", "--yes"],
        ["approve", "--server", "acme", "--yes"],
        ["approvals"],
        ["trust", "--yes"],
        ["read", "refunds"],
        ["search", "refunds"],
        ["disable", "acme"],
    ):
        failed = host(*command)
        assert (failed.status, failed.out) == (2, ""), command
        assert "damaged" in failed.err
        assert "trusted" not in failed.err
        assert failed.err.startswith("skillquay: ")
        assert "Traceback" not in failed.err
    assert state.read_bytes().startswith(b"This is no database.")


def test_state_that_cannot_be_written_is_said_to_be(host: Run, served: Publisher, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for where in (tmp_path / "file" / "state.db", "/proc/nowhere/state.db", "mysql://nowhere"):
        for command in (["trust", "--yes"], ["read", "refunds"]):
            failed = host(*command, "--state", where)
            assert failed.status == 2
            assert "Traceback" not in failed.err
            assert "not trusted" not in failed.err
            assert failed.err.startswith("skillquay: ")


def test_state_is_kept_where_an_option_or_the_environment_says(host: Run, served: Publisher, tmp_path: Path) -> None:
    assert host("trust", "--yes", "--state", "kept.db").status == 0
    assert (tmp_path / "kept.db").exists()
    assert not (tmp_path / "state").exists()
    assert "2 skills." in host("skills", SKILLQUAY_STATE="kept.db").out


def test_a_server_that_is_a_command_is_started_and_ended(host: Run, tmp_path: Path) -> None:
    write(tmp_path / "served" / "refunds", "---\nname: refunds\ndescription: Pays back.\n---\nOne.\n")
    configure(tmp_path, acme=[*COMMAND, "serve", str(tmp_path / "served"), "--stdio"], odd=[sys.executable, "-c", ""])
    host("trust", "--yes")
    done = host("skills")
    assert "refunds  MCP server acme" in done.out
    assert 'server "odd"' in done.out
    assert done.err == ""
