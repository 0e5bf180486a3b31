"""Skills under a scheme of their own are served like all others, and found through the index."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest
from mcp.client.subscriptions import ResourceUpdated

from skillquay.archives.formats import ArchiveFormat
from skillquay.archives.unpacking import unpack
from skillquay.errors import UriError
from tests.server.asking import MODERN, OLDER, asking, low_level, rewrite, until, write_skill
from tests.server.test_changes import heard, watching
from tests.server.test_express import both

if TYPE_CHECKING:
    from pathlib import Path

    from tests.server.conftest import Make, Publish

pytestmark = pytest.mark.anyio

INDEX = "skill://index.json"
ROOT = "github://owner/repo/skills"
URI, FILE = f"{ROOT}/refunds/SKILL.md", f"{ROOT}/refunds/docs/a.md"
OPTIONS = {"prefix": "owner/repo/skills", "scheme": "github"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_skill(tmp_path / "skills", "refunds", {"docs/a.md": b"one"})
    return tmp_path / "skills"


@pytest.mark.rule("I6", "U1", "G1", "D1")
async def test_everything_works_under_a_native_scheme(root: Path, publish: Publish, make: Make, version: str) -> None:
    async with asking(make(publish(root, **OPTIONS)), version) as asker:
        (entry,) = await asker.listing()
        assert entry["uri"] == URI
        assert [record["uri"] for record in entry["resources"]] == [URI, FILE]
        assert (await asker.ask("skills/get", {"uri": URI}))["skill"] == entry
        assert await asker.text(FILE) == "one"
        children = await asker.ask("resources/directory/read", {"uri": f"{ROOT}/refunds"})
        assert [each["uri"] for each in children["resources"]] == [URI, f"{ROOT}/refunds/docs"]
        assert [each["uri"] for each in await asker.listing("resources/list", "resources")] == [INDEX, URI]
        (indexed,) = json.loads(await asker.text(INDEX))["skills"]
        assert indexed["url"] == URI
        assert [each["url"] for each in indexed["archives"]] == [f"{ROOT}/refunds.tar.gz", f"{ROOT}/refunds.zip"]
        (contents,) = (await asker.ask("resources/read", {"uri": f"{ROOT}/refunds.zip"}))["contents"]
        assert unpack(base64.b64decode(contents["blob"]), ArchiveFormat.ZIP).keys() == {"SKILL.md", "docs/a.md"}
        for unknown in (f"{ROOT}/refunds/b.md", f"{ROOT}/other.zip", "skill://owner/repo/skills/refunds/SKILL.md"):
            refusal = await asker.refusal("resources/read", {"uri": unknown})
            assert refusal.message == f"No resource is served at {unknown}."
            assert refusal.code == (-32602 if version == MODERN else -32002)


@pytest.mark.rule("I6")
async def test_a_scheme_needs_no_prefix_and_schemes_do_not_clash(root: Path, publish: Publish, version: str) -> None:
    skills = publish(root)
    skills.add(root, scheme="github")
    skills.add(root / "refunds", scheme="git.example+x")
    async with asking(low_level(skills), version) as asker:
        expected = [f"{scheme}://refunds/SKILL.md" for scheme in ("git.example+x", "github", "skill")]
        assert sorted(await asker.skills()) == expected
        for uri in expected:
            assert (await asker.text(uri)).endswith("Do refunds.\n")


@pytest.mark.rule("I6", "E6")
async def test_a_function_may_make_a_skill_under_a_native_scheme(root: Path, publish: Publish, version: str) -> None:
    included = publish()
    included.skill("owner/made", scheme="github")(lambda: "---\nname: made\ndescription: Made.\n---\nNow.\n")
    included.skill("owner/refunds", scheme="github")(lambda: root / "refunds")
    skills = publish()
    skills.include(included)
    async with asking(low_level(skills), version) as asker:
        assert await asker.skills() == ["github://owner/made/SKILL.md", "github://owner/refunds/SKILL.md"]
        assert (await asker.text("github://owner/made/SKILL.md")).endswith("Now.\n")
        assert await asker.text("github://owner/refunds/docs/a.md") == "one"
        refusal = await asker.refusal("resources/read", {"uri": "github://owner/made/gone.md"})
        assert refusal.message == "No resource is served at github://owner/made/gone.md."


@pytest.mark.rule("I6", "I10")
async def test_changes_under_a_native_scheme_are_told(root: Path, publish: Publish) -> None:
    skills = publish(root, watch=True, **OPTIONS)
    server = low_level(skills)
    async with asking(server, MODERN) as asker, asking(server, OLDER[0]) as older:
        assert asker.client is not None
        await watching(skills)
        assert await older.ask("resources/subscribe", {"uri": FILE}) == {}
        async with asker.client.listen(resource_subscriptions=[FILE]) as listening:
            rewrite(root / "refunds/docs/a.md", "two")
            assert await heard(listening) == ResourceUpdated(uri=FILE)
        await until(lambda: older.updated == [FILE], "the subscriber is told")
        assert await asker.text(FILE) == "two"


@pytest.mark.rule("I6", "I10")
async def test_nobody_listens_to_hidden_skills_under_a_native_scheme(root: Path, publish: Publish) -> None:
    write_skill(root, "open", {"a.md": b"one"})
    skills = publish(root, watch=True, visible=lambda _: lambda entry: entry.name == "open", **OPTIONS)
    async with asking(low_level(skills), MODERN) as asker:
        assert asker.client is not None
        await watching(skills)
        async with asker.client.listen(resource_subscriptions=[FILE, f"{ROOT}/open/a.md"]) as listening:
            rewrite(root / "refunds/docs/a.md", "two")
            await until(lambda: len(skills.publisher.live.catalog) == 2, "there are both")
            rewrite(root / "open/a.md", "two")
            assert await heard(listening) == ResourceUpdated(uri=f"{ROOT}/open/a.md")


@pytest.mark.rule("I6")
async def test_a_native_scheme_goes_by_express_too(root: Path) -> None:
    async with both(root, **OPTIONS) as server:
        for method, uri in (("skills/get", URI), ("resources/read", FILE), ("resources/read", INDEX)):
            answer, by_express = await server.ask(method, {"uri": uri})
            assert isinstance(answer, dict)
            assert "code" not in answer
            assert by_express


@pytest.mark.rule("I6", "X3")
@pytest.mark.parametrize(
    ("scheme", "reason"),
    [
        ("file", "reader's own machine"),
        ("git+file", "reader's own machine"),
        ("data", "reader's own machine"),
        ("http", "Clients would open"),
        ("https", "Clients would open"),
        ("git+ssh", "Clients would open"),
        ("wss", "Clients would open"),
        ("", "is not a scheme"),
        ("GitHub", "in lowercase"),
        ("git hub", "is not a scheme"),
        ("github:", "is not a scheme"),
        ("skill://", "is not a scheme"),
        ("1x", "is not a scheme"),
        ("x" * 65, "is not a scheme"),
        ("x\n", "is not a scheme"),
        ("ä", "is not a scheme"),
    ],
)
def test_a_scheme_that_would_mislead_clients_is_refused(root: Path, publish: Publish, scheme: str, reason: str) -> None:
    calls: list[Any] = [
        lambda: publish(root, scheme=scheme),
        lambda: publish().add(root, scheme=scheme),
        lambda: publish().skill("made", scheme=scheme),
    ]
    for call in calls:
        with pytest.raises(UriError, match=reason) as refused:
            call()
        assert len(refused.value.message) < 300
