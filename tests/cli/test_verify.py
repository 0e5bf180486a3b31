"""`skillquay verify`: everything a server publishes, read and checked against what it lists."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING

import pytest

from skillquay.testing.publisher import Failure, Publisher
from skillquay.testing.skills import make_skill
from tests.cli.conftest import COMMAND, configure, write
from tests.conformance.tampering import tampering
from tests.serving import serve

if TYPE_CHECKING:
    from pathlib import Path

    from skillquay.testing.publisher import Request
    from tests.cli.conftest import Run

GOOD = (
    "Served as skills extension (SEP-2640), 2 skills: a digest covers every file.\n"
    "2 skills, 3 files, 129 B: all as listed.\n"
)
SKILL = "---\nname: {0}\ndescription: About {0}.\n---\n# {0}\n"


def two_skills(directory: Path) -> Path:
    write(directory / "refunds", SKILL.format("refunds"))
    (directory / "refunds" / "notes.md").write_text("Be kind.\n")
    write(directory / "letters", SKILL.format("letters"))
    return directory


def test_a_directory_is_served_and_verified_in_one_go(host: Run, tmp_path: Path) -> None:
    two_skills(tmp_path / "good")
    done = host("verify", "good")
    assert (done.status, done.err) == (0, "")
    assert done.out == GOOD
    write(tmp_path / "good" / "broken", "---\nname: other\ndescription: Not its name.\n---\n")
    refused = host("verify", "good")
    assert refused.status == 1
    assert "F2" in refused.out
    assert refused.out.endswith("2 skills, 3 files, 129 B: 1 failure.\n")


@pytest.mark.rule("V1")
def test_content_rewritten_on_the_way_is_named_with_its_rule(host: Run, tmp_path: Path) -> None:
    with serve(two_skills(tmp_path / "served")) as server:
        good = host("verify", server.url)
        assert good.out == GOOD
        with tampering(server.url, b"Be kind.", b"Be mean.") as middle:
            done = host("verify", middle.url)
            document = json.loads(host("verify", middle.url, "--json").out)
    assert done.status == 1
    assert "skill://refunds/SKILL.md notes.md  V1  skill://refunds/notes.md does not match" in done.out
    assert done.out.endswith(": 1 failure.\n")
    (failure,) = document.pop("failures")
    assert (failure["skill"], failure["file"], failure["rule"]) == ("skill://refunds/SKILL.md", "notes.md", "V1")
    assert document == {
        "target": middle.url,
        "ok": False,
        "skills": 2,
        "files": 3,
        "size": 129,
        "dialect": "current",
        "assurances": {"whole": 2},
        "dynamic": [],
        "unproven": [],
        "unlisted": [],
        "unread": [],
        "unseen": 0,
    }


@pytest.mark.rule("V2")
@pytest.mark.rule("E5")
def test_every_kind_of_lie_is_found_and_none_hides_another(host: Run) -> None:
    honest, gone, other, lying = (make_skill(name, files={"a.md": b"A"}) for name in ("good", "gone", "other", "lying"))
    publisher = Publisher(honest, gone, other, lying, make_skill("generated"))
    del publisher.files[gone.uri_of("a.md")]
    publisher.entries[3]["frontmatter"] = {**lying.frontmatter, "description": "Harmless."}
    publisher.entries[4]["resources"] = "dynamic"
    publisher.entries.append(make_skill("beyond").entry(resources=[]))

    def get(request: Request) -> object:
        return {"skill": make_skill("other").entry()} if "other" in request.uri else publisher.get(request)

    publisher.on["skills/get"] = get  # type: ignore[assignment]
    with publisher.serving() as url:
        done = host("verify", url, "--json")
        shown = host("verify", url).out
    document = json.loads(done.out)
    assert done.status == 1
    assert {(each["skill"].split("/")[2], each["file"], each["rule"]) for each in document["failures"]} == {
        ("beyond", "", "E2"),
        ("gone", "a.md", "R1"),
        ("lying", "SKILL.md", "V2"),
        ("other", "", "E1"),
    }
    assert document["dynamic"] == ["skill://generated/SKILL.md"]
    assert (document["skills"], document["files"], document["unseen"]) == (6, 9, 0)
    assert "Generated: 1 skill, of which only SKILL.md was read" in shown


def test_a_server_that_stops_answering_is_not_asked_for_the_rest(host: Run) -> None:
    publisher = Publisher(make_skill("many", files={f"{number}.md": b"x" for number in range(100)}))
    publisher.on["resources/read"] = lambda _: Failure(code=-32603, message="Out of order\x1b[2J")
    with publisher.serving() as url:
        done = host("verify", url)
    assert done.status == 1
    assert "The server stopped answering" in done.out
    assert "Out of order⟨U+001B⟩[2J" in done.out
    assert len(publisher.reads) < 30


def test_what_cannot_be_looked_at_is_status_2(host: Run, tmp_path: Path) -> None:
    dead = host("verify", "http://127.0.0.1:1/mcp")
    assert (dead.status, dead.out) == (2, "")
    assert "cannot be reached" in dead.err
    with Publisher(declares=False).serving() as url:
        undeclared = host("verify", url)
    assert undeclared.status == 2
    assert "It declares neither the extension nor a draft of it." in undeclared.err
    configure(tmp_path, acme="http://127.0.0.1:1/mcp")
    unknown = host("verify", "nowhere")
    assert unknown.status == 2
    assert "Servers there: acme." in unknown.err
    assert host("verify").status == 2
    assert host("verify", "--").status == 2
    assert host("verify", "nowhere", "--header", "A: b").status == 2


@pytest.mark.rule("L3")
def test_a_server_or_directory_with_nothing_to_verify_is_not_said_to_be_well(host: Run, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with Publisher().serving() as url:
        for target in (url, "empty"):
            done = host("verify", target)
            assert done.status == 1
            assert "It lists no skills: there is nothing to verify." in done.out
            document = json.loads(host("verify", target, "--json").out)
            assert not document["ok"]
            assert document["failures"][0]["reason"] == "It lists no skills: there is nothing to verify."


def test_the_document_names_the_url_without_what_may_be_secret(host: Run) -> None:
    with Publisher(make_skill("refunds")).serving() as url:
        asked = url.replace("http://", "http://me:s3cret@") + "?key=s3cret#s3cret"
        done = host("verify", asked, "--json")
    assert done.status == 0
    assert json.loads(done.out)["target"] == url
    assert "s3cret" not in done.out


@pytest.mark.rule("B2")
def test_a_server_that_hangs_is_given_up_soon(host: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        hung = host("verify", f"http://127.0.0.1:{silent.getsockname()[1]}/mcp")
    assert (hung.status, hung.out) == (2, "")
    assert "did not connect within 5 seconds" in hung.err
    publisher = Publisher(make_skill("refunds"))
    with publisher.serving() as url:
        publisher.on["skills/list"] = lambda request: {"skills": []} if request.closing.wait(60) else Failure()
        hung = host("verify", url)
    assert (hung.status, hung.out) == (2, "")
    assert "did not answer skills/list within 5 seconds" in hung.err


def test_a_directory_that_is_called_like_a_server_is_what_is_verified_and_that_is_told(
    host: Run, tmp_path: Path
) -> None:
    two_skills(tmp_path / "acme")
    configure(tmp_path, acme="http://127.0.0.1:1/mcp")
    done = host("verify", "acme")
    assert (done.status, done.out) == (0, GOOD)
    assert '"acme" is a directory, and a server in .mcp.json; the directory is verified.' in done.err
    assert host("verify", "./acme").err == ""


def test_a_command_after_two_dashes_is_a_server(host: Run, tmp_path: Path) -> None:
    two_skills(tmp_path / "served")
    done = host("verify", "--json", "--", *COMMAND, "serve", "served", "--stdio")
    assert done.status == 0
    assert json.loads(done.out)["ok"]
    assert done.err == ""
    gone = host("verify", "--", "/no/such/command")
    assert gone.status == 2
    assert "Traceback" not in gone.err


def test_headers_are_sent_to_a_url_and_their_variables_replaced(host: Run, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("0123456789abcdef\n")
    with serve(two_skills(tmp_path / "served"), "--token-file", tokens) as server:
        header = ("--header", "Authorization: Bearer ${TOKEN}")
        assert host("verify", server.url).status == 2
        unset = host("verify", server.url, *header)
        assert unset.status == 2
        assert "TOKEN is not set" in unset.err
        assert host("verify", server.url, *header, TOKEN="0123456789abcdef").status == 0
        wrong = host("verify", server.url, "--header", "0123456789abcdef")
    assert wrong.status == 2
    assert "0123456789abcdef" not in wrong.err


@pytest.mark.rule("P6")
def test_a_server_of_a_folder_that_is_not_trusted_is_not_started(host: Run, tmp_path: Path) -> None:
    two_skills(tmp_path / "served")
    marker = tmp_path / "started"
    command = f"touch {marker}; exec {' '.join(COMMAND)} serve {tmp_path / 'served'} --stdio"
    configure(tmp_path, acme=["sh", "-c", command])
    refused = host("verify", "acme")
    assert refused.status == 2
    assert "is not trusted" in refused.err
    assert not marker.exists()
    assert host("verify", "acme", "--yes").status == 0
    marker.unlink()
    assert host("verify", "acme").status == 2
    host("trust", "--yes")
    assert host("verify", "acme").status == 0
    assert marker.exists()
