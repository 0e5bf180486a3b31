"""An agent of Microsoft's agent-framework finds, loads and reads what `skillquay serve` publishes in its index."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from mcp import Client
from mcp_types import TextResourceContents

from tests.conformance.peers import peer, run
from tests.interop.drafts import read_index
from tests.interop.skills import BINARY, DESCRIPTIONS, LETTER, LOGO, REFUNDS, SKILLS, write_skills
from tests.serving import serve

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.interop.drafts import Document
    from tests.serving import Serving

pytestmark = pytest.mark.peers

SCRIPT = Path(__file__).parent / "ask_agent_framework.py"
MODES = {"auto": "2026-07-28", "legacy": "2025-11-25"}
READS = ("references/letter.md", LOGO, "absent.md")
CALLS = [
    ("load_skill", {"skill_name": "refunds"}),
    *(("read_skill_resource", {"skill_name": "refunds", "resource_name": name}) for name in READS),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    published = write_skills(tmp_path_factory.mktemp("published"))
    inner = published / "refunds" / "inner"
    inner.mkdir()
    (inner / "SKILL.md").write_text("---\nname: inner\ndescription: Inside another.\n---\n", encoding="utf-8")
    with serve(published) as serving:
        yield serving


@pytest.fixture(scope="module")
def index(server: Serving) -> Document:
    """What the agent is to understand: it is read first, so that the archives are in it."""

    async def read(uri: str) -> str:
        async with Client(server.url) as client:
            (item,) = (await client.read_resource(uri)).contents
        assert isinstance(item, TextResourceContents)
        return item.text

    return anyio.run(read_index, read)


@pytest.fixture(scope="module", params=MODES)
def seen(
    request: pytest.FixtureRequest, server: Serving, index: Document, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """What an agent saw, on each revision in turn."""
    python, home = peer("agent-framework", "bin", "python"), tmp_path_factory.mktemp("agent")
    done = run(home, python, SCRIPT, server.url, request.param, json.dumps(CALLS))
    assert done.status == 0, done.err
    seen: dict[str, Any] = json.loads(done.out)
    assert seen["version"] == MODES[request.param]
    return seen


def told(text: str, element: str) -> list[str]:
    return re.findall(f"<{element}>(.*?)</{element}>", text)


@pytest.mark.interop(
    peer="Microsoft agent-framework 1.23.0",
    direction="reads us",
    dialect="skill://index.json",
    result="lists every skill once, as SKILL.md and not as archive",
)
@pytest.mark.rule("I2", "I12")
def test_an_agent_is_told_of_every_skill_once_and_discovery_reads_the_index_alone(
    index: Document, seen: dict[str, Any]
) -> None:
    assert [(entry["type"], len(entry["archives"])) for entry in index["skills"]] == [("skill-md", 2)] * len(SKILLS)
    assert seen["found"] == list(SKILLS)
    assert dict(zip(told(seen["told"], "name"), told(seen["told"], "description"), strict=True)) == DESCRIPTIONS
    assert seen["reads"][:2] == ["skill://index.json", "skill://refunds/SKILL.md"], "no archive is fetched"


@pytest.mark.interop(
    peer="Microsoft agent-framework 1.23.0",
    direction="reads us",
    dialect="skill://index.json",
    result="loads a skill, reads its files, text and binary",
)
@pytest.mark.rule("I1", "I2")
def test_an_agent_loads_a_skill_and_reads_its_files(seen: dict[str, Any]) -> None:
    loaded, letter, logo, absent = seen["results"]
    assert loaded.encode() == REFUNDS
    assert letter.encode() == LETTER
    assert json.loads(logo) == repr(BINARY)
    assert absent == "Error: Resource 'absent.md' not found in skill 'refunds'."
    assert seen["reads"][1:] == [f"skill://refunds/{name}" for name in ("SKILL.md", *READS)]
