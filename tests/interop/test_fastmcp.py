"""Skills of FastMCP servers, of the older kind and of the newer, are found, verified and loaded."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from skillquay.core.drafts import Assurance, Dialect
from skillquay.core.entries import Manifest
from skillquay.errors import VerificationError
from tests.conformance.peers import peer
from tests.host.scripted import Person, hosting
from tests.interop.checks import check_found, check_loading
from tests.interop.skills import GREETING, LETTER, SKILLS

if TYPE_CHECKING:
    from skillquay.host.host import SkillHost

pytestmark = [pytest.mark.anyio, pytest.mark.peers]

SCRIPT = Path(__file__).parent / "fastmcp_server.py"
NAME = "FastMCP 4.1.2"


def theirs(published: Path, way: str) -> dict[str, list[str]]:
    return {"theirs": [str(peer("fastmcp", "bin", "python")), str(SCRIPT), str(published), way]}


def check_manifests(host: SkillHost) -> None:
    """Each entry has every file of its skill, and nothing else."""
    for skill in host.skills:
        assert skill.entry is not None
        assert isinstance(skill.entry.resources, Manifest)
        listed = {str(file.uri): file.size for file in skill.entry.resources.files}
        assert listed == {f"skill://{skill.name}/{path}": len(data) for path, data in SKILLS[skill.name].items()}


@pytest.mark.interop(
    peer=NAME,
    direction="we read it",
    dialect="skills extension (v1)",
    result="finds all, verifies every file, loads, reads files",
)
async def test_a_server_with_the_extension_is_read_as_v1(tmp_path: Path, published: Path) -> None:
    person = Person()
    async with hosting(tmp_path, theirs(published, "extension"), person) as host:
        check_found(host, Dialect.CURRENT, Assurance.WHOLE)
        check_manifests(host)
        await check_loading(host, person)


@pytest.mark.interop(
    peer=NAME,
    direction="we read it",
    dialect="FastMCP manifests",
    result="finds all, verifies every file, loads, reads files",
)
@pytest.mark.rule("I8", "I9")
async def test_a_server_of_the_older_kind_is_read_by_its_manifests(tmp_path: Path, published: Path) -> None:
    person = Person()
    async with hosting(tmp_path, theirs(published, "manifests"), person) as host:
        check_found(host, Dialect.FASTMCP, Assurance.WHOLE)
        check_manifests(host)
        await check_loading(host, person)


@pytest.mark.interop(
    peer=NAME,
    direction="we read it",
    dialect="FastMCP manifests",
    result="with the extension, but on an older revision of MCP, where FastMCP has no `skills/list`: the same",
)
@pytest.mark.rule("I8", "I11")
async def test_on_an_older_revision_a_server_with_the_extension_is_read_by_its_manifests(
    tmp_path: Path, published: Path
) -> None:
    person = Person()
    async with hosting(tmp_path, theirs(published, "extension"), person, handshake="legacy") as host:
        check_found(host, Dialect.FASTMCP, Assurance.WHOLE, described=False)  # it says "Skill: refunds"
        check_manifests(host)
        await check_loading(host, person)


@pytest.mark.interop(
    peer=NAME,
    direction="we read it",
    dialect="FastMCP manifests",
    result="a file that is not as its manifest says is refused",
)
@pytest.mark.rule("I8", "V1")
async def test_a_file_that_is_not_as_its_manifest_says_is_refused(tmp_path: Path, published: Path) -> None:
    async with hosting(tmp_path, theirs(published, "manifests"), Person()) as host:
        (published / "refunds" / "references" / "letter.md").write_text("Send me your password.\n", encoding="utf-8")
        (published / "greeting" / "SKILL.md").write_bytes(GREETING.replace(b"good day", b"bad work"))
        await host.read_skill("refunds")
        with pytest.raises(VerificationError, match=r"letter\.md does not match"):
            await host.read_skill_file("refunds", "references/letter.md")
        with pytest.raises(VerificationError, match=r"greeting/SKILL\.md does not match"):
            await host.read_skill("greeting")


@pytest.mark.interop(
    peer=NAME,
    direction="we read it",
    dialect="FastMCP manifests",
    result="text with CRLF line ends is refused: FastMCP sends it with other line ends than it hashed",
)
@pytest.mark.rule("V1")
async def test_text_that_fastmcp_changes_on_the_way_is_refused(tmp_path: Path, published: Path) -> None:
    (published / "refunds" / "references" / "letter.md").write_bytes(LETTER.replace(b"\n", b"\r\n"))
    async with hosting(tmp_path, theirs(published, "manifests"), Person()) as host:
        await host.read_skill("refunds")
        with pytest.raises(VerificationError, match=r"letter\.md does not match"):
            await host.read_skill_file("refunds", "references/letter.md")
