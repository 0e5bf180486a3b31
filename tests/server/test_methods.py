"""What the methods answer: the same on both kinds of server, and in the form of each revision."""

from __future__ import annotations

import base64
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from mcp.server.mcpserver import MCPServer

from skillquay.core.entries import LIMITS
from skillquay.core.listings import parse_entries
from skillquay.server.extension import EXTENSION_ID
from tests.server.asking import MODERN, OLDER, asking, low_level, write_skill

if TYPE_CHECKING:
    from pathlib import Path

    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

    from tests.server.conftest import Make, Publish

pytestmark = pytest.mark.anyio

METHODS = ("skills/list", "skills/get", "resources/directory/read")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two skills, one of them below a path and with another nested in it."""
    root = tmp_path / "skills"
    files = {"references/GUIDE.md": b"# Guide\n", "scripts/run.py": b"print()\n", "logo.png": b"\x89PNG\r\n\xff"}
    refunds = write_skill(root, "acme/refunds", files, "license: MIT")
    write_skill(refunds, "partial", {"note.txt": b"half\n"})
    write_skill(root, "plain")
    return root


REFUNDS, PARTIAL, PLAIN = (f"skill://{path}/SKILL.md" for path in ("acme/refunds", "acme/refunds/partial", "plain"))


# C: the declaration


@pytest.mark.rule("C1", "C2", "C3", "I10")
async def test_the_extension_is_declared_as_an_object_with_resources_beside_it(
    root: Path, publish: Publish, make: Make, version: str
) -> None:
    async with asking(make(publish(root)), version) as asker:
        raw = asker.session.discover_result if asker.is_modern else asker.session.initialize_result
        assert raw is not None
        capabilities = raw.model_dump(by_alias=True, mode="json", exclude_none=True)["capabilities"]
        assert capabilities["extensions"][EXTENSION_ID] == {"directoryRead": True}
        assert isinstance(capabilities["resources"], dict)


@pytest.mark.rule("I10")
@pytest.mark.parametrize("watch", [True, False])
async def test_changes_are_promised_exactly_when_there_can_be_any(
    root: Path, publish: Publish, make: Make, watch: bool
) -> None:
    async with asking(make(publish(root, watch=watch)), OLDER[0]) as asker:
        assert asker.capabilities.resources is not None
        assert bool(asker.capabilities.resources.list_changed) is watch
        assert bool(asker.capabilities.resources.subscribe) is watch
    skills = publish(watch=False)
    skills.skill("made")(lambda: "---\nname: made\ndescription: Made.\n---\n")
    async with asking(make(skills), OLDER[0]) as asker:
        assert asker.capabilities.resources is not None
        assert asker.capabilities.resources.list_changed


@pytest.mark.rule("C2")
async def test_the_methods_answer_a_client_that_declared_nothing(
    root: Path, publish: Publish, make: Make, version: str
) -> None:
    async with asking(make(publish(root)), version) as asker:
        assert asker.session._build_capabilities(version).extensions is None
        assert len((await asker.ask("skills/list"))["skills"]) == 3
        assert (await asker.ask("skills/get", {"uri": PLAIN}))["skill"]["uri"] == PLAIN
        assert (await asker.ask("resources/directory/read", {"uri": "skill://plain"}))["resources"]


@pytest.mark.rule("C2", "R4")
@pytest.mark.parametrize("method", METHODS)
async def test_an_extension_without_its_middleware_says_what_is_missing(
    root: Path, publish: Publish, version: str, method: str
) -> None:
    async with asking(MCPServer("acme", extensions=[publish(root)]), version) as asker:
        refusal = await asker.refusal(method, {"uri": PLAIN})
        assert refusal.code == -32603
        assert "middleware=[skills.middleware]" in refusal.message


@pytest.mark.rule("R4")
async def test_a_server_without_the_extension_does_not_know_its_methods(version: str) -> None:
    async with asking(MCPServer("plain"), version) as asker:
        for method in METHODS:
            assert (await asker.refusal(method, {"uri": "skill://plain"})).code == -32601


@pytest.mark.rule("C1")
async def test_a_middleware_further_in_may_answer_with_models(root: Path, publish: Publish, version: str) -> None:
    """What the SDK allows a middleware to give back is not only what it makes of it itself."""
    from mcp_types import InitializeResult, ListResourcesResult

    async def modelling(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        result = await call_next(ctx)
        if ctx.method == "initialize":
            return InitializeResult.model_validate(result)
        if ctx.method == "resources/list":
            return ListResourcesResult.model_validate(result)
        return result

    skills = publish(root)
    server = low_level(skills)
    server.middleware.append(modelling)
    async with asking(server, version) as asker:
        assert asker.capabilities.extensions == {EXTENSION_ID: {"directoryRead": True}}
        resources = await asker.listing("resources/list", "resources")
        assert [each["uri"] for each in resources] == ["skill://index.json", REFUNDS, PARTIAL, PLAIN]


# L, G, E: entries


@pytest.mark.rule("E1", "E2", "E3", "E7", "U1", "U2", "L2")
async def test_a_listing_has_each_skill_flat_and_every_file_of_it_with_digest_and_size(
    root: Path, publish: Publish, make: Make, version: str
) -> None:
    async with asking(make(publish(root)), version) as asker:
        entries = (await asker.ask("skills/list"))["skills"]
    assert [entry["uri"] for entry in entries] == [REFUNDS, PARTIAL, PLAIN]
    for entry in entries:
        assert entry.keys() == {"uri", "frontmatter", "resources"}
        directory = root / entry["uri"].removeprefix("skill://").removesuffix("/SKILL.md")
        assert entry["frontmatter"]["name"] == directory.name
        on_disk = {path.relative_to(root).as_posix(): path.read_bytes() for path in directory.rglob("*.*")}
        assert entry["resources"] == [
            {"uri": f"skill://{path}", "digest": f"sha256:{sha256(data).hexdigest()}", "size": len(data)}
            for path, data in sorted(on_disk.items())
        ]
    assert entries[0]["frontmatter"]["license"] == "MIT"
    accepted, refused = parse_entries(entries)
    assert len(accepted) == 3
    assert not refused


@pytest.mark.rule("E1", "G1", "G2", "L2")
async def test_getting_a_skill_gives_the_same_entry_as_listing_it(
    root: Path, publish: Publish, make: Make, version: str
) -> None:
    async with asking(make(publish(root, ttl=7)), version) as asker:
        listed = await asker.ask("skills/list")
        for entry in listed["skills"]:
            got = await asker.ask("skills/get", {"uri": entry["uri"]})
            assert got["skill"] == entry
            assert "nextCursor" not in got
            assert _hints(got) == _hints(listed)
        if version == MODERN:
            assert _hints(listed) == {"resultType": "complete", "ttlMs": 7000, "cacheScope": "public"}
        else:
            assert _hints(listed) == {}


def _hints(result: dict[str, Any]) -> dict[str, Any]:
    return {key: result[key] for key in ("resultType", "ttlMs", "cacheScope") if key in result}


@pytest.mark.rule("L2", "R4")
async def test_what_only_the_current_revision_defines_is_only_sent_on_it(
    root: Path, publish: Publish, make: Make, version: str
) -> None:
    async with asking(make(publish(root)), version) as asker:
        file = await asker.ask("resources/read", {"uri": PLAIN})
        directory = await asker.ask("resources/directory/read", {"uri": "skill://plain"})
        resources = await asker.ask("resources/list")
        if version == MODERN:
            assert _hints(file) == {"resultType": "complete", "ttlMs": 60000, "cacheScope": "public"}
            assert _hints(directory) == {"resultType": "complete"}
            assert resources["resultType"] == "complete"
            for result in (file, directory, resources):
                assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "acme"
        else:
            for result in (file, directory, resources):
                assert _hints(result) == {}
                assert "_meta" not in result


@pytest.mark.rule("L2")
async def test_private_skills_are_private_in_every_answer_that_may_be_kept(
    root: Path, publish: Publish, make: Make
) -> None:
    async with asking(make(publish(root, private=True)), MODERN) as asker:
        for method, params in {
            "skills/list": {},
            "skills/get": {"uri": PLAIN},
            "resources/read": {"uri": PLAIN},
            "resources/list": {},
        }.items():
            assert (await asker.ask(method, params))["cacheScope"] == "private"


@pytest.mark.rule("L1", "E1")
async def test_a_listing_is_the_same_however_it_is_cut_into_pages(
    tmp_path: Path, publish: Publish, make: Make, version: str
) -> None:
    for number in range(7):
        write_skill(tmp_path, f"s{number}", {"a.md": b"a", "b.md": b"b"})
    async with asking(make(publish(tmp_path)), version) as asker:
        whole = await asker.listing()
        resources = await asker.listing("resources/list", "resources")
    assert len(whole) == len(resources[1:]) == 7
    for size in (1, 2, 3, 6, 7):
        async with asking(make(publish(tmp_path, page_size=size)), version) as asker:
            first = await asker.ask("skills/list")
            assert len(first["skills"]) == size
            assert ("nextCursor" in first) is (size < 7)
            assert await asker.listing() == whole
            assert await asker.listing("resources/list", "resources") == resources


@pytest.mark.rule("L1")
async def test_a_page_of_large_entries_is_kept_small_and_no_entry_is_split(tmp_path: Path, publish: Publish) -> None:
    for number in range(12):
        write_skill(tmp_path, f"s{number:02}", {f"{file:03}{'x' * 150}.md": b"" for file in range(LIMITS.files - 1)})
    async with asking(low_level(publish(tmp_path)), MODERN) as asker:
        first = await asker.ask("skills/list")
        assert 1 <= len(first["skills"]) < 12
        entries = await asker.listing()
    assert [len(entry["resources"]) for entry in entries] == [LIMITS.files] * 12


@pytest.mark.rule("L1", "D1")
async def test_a_cursor_that_this_listing_did_not_give_out_is_refused(
    root: Path, publish: Publish, make: Make, version: str
) -> None:
    async with asking(make(publish(root, page_size=1)), version) as asker:
        skills = (await asker.ask("skills/list"))["nextCursor"]
        children = (await asker.ask("resources/directory/read", {"uri": "skill://acme/refunds"}))["nextCursor"]
        resources = (await asker.ask("resources/list"))["nextCursor"]
        assert len({skills, children, resources}) == 3
        for wrong in (children, resources, "", "1", skills[:-1], skills + "A", "é", "A" * 1_000_000):
            refusal = await asker.refusal("skills/list", {"cursor": wrong})
            assert (refusal.code, refusal.message[:10]) == (-32602, "The cursor")
        for wrong in (skills, resources, "", "1"):
            params = {"uri": "skill://acme/refunds", "cursor": wrong}
            assert (await asker.refusal("resources/directory/read", params)).code == -32602
        params = {"uri": "skill://acme/refunds/partial", "cursor": children}
        assert (await asker.refusal("resources/directory/read", params)).code == -32602
        assert (await asker.ask("skills/list", {"cursor": skills}))["skills"]


@pytest.mark.rule("L1")
async def test_a_cursor_of_a_listing_of_resources_is_looked_at_too(root: Path, publish: Publish, version: str) -> None:
    async with asking(low_level(publish(root, page_size=1)), version) as asker:
        skills = (await asker.ask("skills/list"))["nextCursor"]
        for wrong in (skills, "", "1", "A" * 1_000_000):
            assert (await asker.refusal("resources/list", {"cursor": wrong})).code == -32602


async def test_a_server_of_nothing_but_skills_has_no_templates(root: Path, publish: Publish, version: str) -> None:
    async with asking(low_level(publish(root)), version) as asker:
        assert (await asker.ask("resources/templates/list"))["resourceTemplates"] == []
        assert (await asker.refusal("resources/templates/list", {"cursor": "x"})).code == -32602


NOT_SKILLS = (
    "skill://acme/refunds",
    "skill://acme/refunds/",
    "skill://acme",
    "skill://acme/refunds/references/GUIDE.md",
    "skill://acme/refunds/SKILL.md/",
    "skill://acme/refunds/skill.md",
    "skill://nobody/SKILL.md",
    "skill://SKILL.md",
    "https://acme/refunds/SKILL.md",
    "plain/SKILL.md",
    "",
)


@pytest.mark.rule("G1")
@pytest.mark.parametrize("uri", NOT_SKILLS)
async def test_getting_what_is_no_skill_names_the_uri_in_the_refusal(
    root: Path, publish: Publish, version: str, uri: str
) -> None:
    async with asking(low_level(publish(root)), version) as asker:
        refusal = await asker.refusal("skills/get", {"uri": uri})
        assert refusal.code == -32602
        assert uri in refusal.message


@pytest.mark.rule("G1", "U3")
@pytest.mark.parametrize("spelling", ["skill://plain/SKILL%2Emd", "skill://pl%61in/SKILL.md", "SKILL://plain/SKILL.md"])
async def test_a_skill_is_found_by_every_spelling_of_its_uri(
    root: Path, publish: Publish, version: str, spelling: str
) -> None:
    async with asking(low_level(publish(root)), version) as asker:
        assert (await asker.ask("skills/get", {"uri": spelling}))["skill"]["uri"] == PLAIN
        (contents,) = (await asker.ask("resources/read", {"uri": spelling}))["contents"]
        assert contents["uri"] == spelling
        assert contents["text"] == (root / "plain/SKILL.md").read_text(encoding="utf-8")


# R, U: files

FILES = {
    "SKILL.md": None,
    "bom.md": b"\xef\xbb\xbf# With a mark\n",
    "crlf.txt": b"one\r\ntwo\rthree\n\r",
    "nul.txt": b"a\0b",
    "invalid.txt": b"caf\xe9\n",
    "overlong.txt": b"\xc0\xaf",
    "surrogate.txt": b"\xed\xa0\x80",
    "truncated.txt": b"\xe2\x82",
    "empty.txt": b"",
    "separators.txt": "a\u2028b\u2029c\x85d\x0b\x0c".encode(),
    "astral.txt": "\U0001f600\U0010ffff\ufeff\ufffe".encode(),
    "no-newline": b"text",
    "image.png": b"\x89PNG\r\n\x1a\n",
    "archive.tar.gz": b"\x1f\x8b\x08\0",
    "all-bytes.bin": bytes(range(256)),
    "a b&c=d#e?f%20g.md": b"odd name",
    "\u65e5\u672c.md": b"another alphabet",
}


@pytest.mark.rule("U7", "U1", "R1")
async def test_every_byte_arrives_as_it_was(tmp_path: Path, publish: Publish, make: Make, version: str) -> None:
    directory = write_skill(tmp_path, "exact", {name: data for name, data in FILES.items() if data is not None})
    async with asking(make(publish(tmp_path)), version) as asker:
        (entry,) = await asker.listing()
        assert len(entry["resources"]) == len(FILES)
        seen: dict[str, bytes] = {}
        for record in entry["resources"]:
            (contents,) = (await asker.ask("resources/read", {"uri": record["uri"]}))["contents"]
            assert contents["uri"] == record["uri"]
            assert ("text" in contents) != ("blob" in contents)
            data = contents["text"].encode() if "text" in contents else base64.b64decode(contents["blob"])
            assert sha256(data).hexdigest() == record["digest"].removeprefix("sha256:")
            assert len(data) == record["size"]
            seen[record["uri"]] = data
    assert sorted(seen.values()) == sorted(path.read_bytes() for path in directory.iterdir())


@pytest.mark.rule("U7")
async def test_text_travels_as_text_and_everything_else_as_a_blob(tmp_path: Path, publish: Publish) -> None:
    write_skill(tmp_path, "exact", {name: data for name, data in FILES.items() if data is not None})
    blobs = set()
    async with asking(low_level(publish(tmp_path)), MODERN) as asker:
        (entry,) = await asker.listing()
        for record in entry["resources"]:
            (contents,) = (await asker.ask("resources/read", {"uri": record["uri"]}))["contents"]
            if "blob" in contents:
                blobs.add(record["uri"].rpartition("/")[2])
    binary = "all-bytes.bin archive.tar.gz image.png invalid.txt overlong.txt surrogate.txt truncated.txt"
    assert blobs == set(binary.split())


@pytest.mark.rule("R1", "U7")
async def test_a_file_as_large_as_a_skill_may_be_is_served_whole(tmp_path: Path, publish: Publish, make: Make) -> None:
    directory = write_skill(tmp_path, "large")
    size = LIMITS.size - (directory / "SKILL.md").stat().st_size
    (directory / "data.bin").write_bytes(bytes(range(256)) * (size // 256) + b"\xff" * (size % 256))
    async with asking(make(publish(tmp_path)), MODERN) as asker:
        (contents,) = (await asker.ask("resources/read", {"uri": "skill://large/data.bin"}))["contents"]
        assert base64.b64decode(contents["blob"]) == (directory / "data.bin").read_bytes()


@pytest.mark.rule("E4")
async def test_a_skill_beyond_the_limits_is_not_served_and_the_others_are(
    root: Path, publish: Publish, version: str
) -> None:
    write_skill(root, "many", {f"{number}.md": b"" for number in range(LIMITS.files)})
    write_skill(root, "fat", {"data.bin": b"x" * LIMITS.size})
    skills = publish(root)
    async with asking(low_level(skills), version) as asker:
        assert await asker.skills() == [REFUNDS, PARTIAL, PLAIN]
        for uri in ("skill://many/SKILL.md", "skill://fat/SKILL.md", "skill://fat/data.bin", "skill://many/1.md"):
            assert (await asker.refusal("skills/get", {"uri": uri})).code == -32602
            assert (await asker.refusal("resources/read", {"uri": uri})).code == (-32602 if asker.is_modern else -32002)
    told = [remark.finding.rule for remark in skills.publisher.live.remarks]
    assert told == ["E4", "E4"]


UNKNOWN = (
    "skill://acme/refunds/gone.md",
    "skill://acme/refunds",
    "skill://acme/refunds/references",
    "skill://nobody/SKILL.md",
    "skill://acme/refunds/SKILL.md/",
    "skill://acme/refunds/SKILL.md?x=1",
    "skill://acme/refunds/SKILL.md#x",
    "skill:acme",
    "SKILL://acme/refunds/gone.md",
)


@pytest.mark.rule("R1")
@pytest.mark.parametrize("uri", UNKNOWN)
async def test_an_unknown_file_is_refused_with_the_code_of_the_revision(
    root: Path, publish: Publish, make: Make, version: str, uri: str
) -> None:
    async with asking(make(publish(root)), version) as asker:
        refusal = await asker.refusal("resources/read", {"uri": uri})
        assert refusal.code == (-32602 if version == MODERN else -32002)
        assert refusal.data == {"uri": uri}
        assert uri in refusal.message


@pytest.mark.rule("R1")
async def test_a_server_of_nothing_but_skills_refuses_every_other_uri_alike(
    root: Path, publish: Publish, version: str
) -> None:
    async with asking(low_level(publish(root)), version) as asker:
        for uri in ("https://example.com/", "file:///etc/passwd", "x", "", "skills://acme/refunds/SKILL.md"):
            refusal = await asker.refusal("resources/read", {"uri": uri})
            assert refusal.code == (-32602 if version == MODERN else -32002)


@pytest.mark.rule("U6")
async def test_resources_tell_name_description_type_and_size(
    root: Path, publish: Publish, make: Make, version: str
) -> None:
    async with asking(make(publish(root)), version) as asker:
        resources = await asker.listing("resources/list", "resources")
        assert [each["uri"] for each in resources] == ["skill://index.json", REFUNDS, PARTIAL, PLAIN]
        assert resources[1] == {
            "uri": REFUNDS,
            "name": "refunds",
            "description": "What refunds is for.",
            "mimeType": "text/markdown",
            "size": (root / "acme/refunds/SKILL.md").stat().st_size,
        }
        for uri, mime_type in {
            REFUNDS: "text/markdown",
            "skill://acme/refunds/references/GUIDE.md": "text/markdown",
            "skill://acme/refunds/scripts/run.py": "text/x-python",
            "skill://acme/refunds/logo.png": "image/png",
            "skill://acme/refunds/partial/note.txt": "text/plain",
        }.items():
            (contents,) = (await asker.ask("resources/read", {"uri": uri}))["contents"]
            assert contents["mimeType"] == mime_type


# D: directories


@pytest.mark.rule("D1", "U6", "C3")
async def test_every_directory_of_every_skill_lists_its_direct_children(
    root: Path, publish: Publish, make: Make, version: str
) -> None:
    (root / "acme/refunds/empty/inner").mkdir(parents=True)
    async with asking(make(publish(root)), version) as asker:
        top = await asker.ask("resources/directory/read", {"uri": "skill://acme/refunds"})
        at = "skill://acme/refunds"
        assert [(each["uri"], each["name"], each.get("mimeType")) for each in top["resources"]] == [
            (f"{at}/SKILL.md", "refunds", "text/markdown"),
            (f"{at}/empty", "empty", "inode/directory"),
            (f"{at}/logo.png", "logo.png", "image/png"),
            (f"{at}/partial", "partial", "inode/directory"),
            (f"{at}/references", "references", "inode/directory"),
            (f"{at}/scripts", "scripts", "inode/directory"),
        ]
        assert top["resources"][0]["description"] == "What refunds is for."
        assert top["resources"][2]["size"] == 7
        for directory in [path for path in (root / "acme/refunds").rglob("*") if path.is_dir()]:
            uri = f"skill://{directory.relative_to(root).as_posix()}"
            children = (await asker.ask("resources/directory/read", {"uri": uri}))["resources"]
            assert [each["uri"] for each in children] == sorted(f"{uri}/{path.name}" for path in directory.iterdir())
        assert (await asker.ask("resources/directory/read", {"uri": f"{at}/empty/inner"}))["resources"] == []


@pytest.mark.rule("D1")
async def test_a_directory_is_listed_page_by_page(root: Path, publish: Publish, make: Make, version: str) -> None:
    async with asking(make(publish(root, page_size=2)), version) as asker:
        names: list[str] = []
        params = {"uri": "skill://acme/refunds"}
        while True:
            page = await asker.ask("resources/directory/read", params)
            assert 1 <= len(page["resources"]) <= 2
            names += [each["uri"].rpartition("/")[2] for each in page["resources"]]
            if "nextCursor" not in page:
                break
            params["cursor"] = page["nextCursor"]
    assert names == ["SKILL.md", "logo.png", "partial", "references", "scripts"]


@pytest.mark.rule("D1")
@pytest.mark.parametrize(
    "uri",
    [
        "skill://acme/refunds/",
        "skill://acme/refunds/references/",
        "skill://acme/refunds/SKILL.md",
        "skill://acme/refunds/gone",
        "skill://acme",
        "skill://nobody",
        "skill://acme/refunds/..",
        "https://example.com",
        "",
    ],
)
async def test_what_is_no_directory_of_a_skill_is_not_listed(
    root: Path, publish: Publish, version: str, uri: str
) -> None:
    async with asking(low_level(publish(root)), version) as asker:
        refusal = await asker.refusal("resources/directory/read", {"uri": uri})
        assert refusal.code == -32602
        assert uri in refusal.message


@pytest.mark.rule("B3")
async def test_skills_are_read_once_by_many_first_requests(root: Path, publish: Publish, make: Make) -> None:
    server = make(publish(root))
    async with asking(server, MODERN) as asker:
        counts: list[int] = []

        async def ask() -> None:
            counts.append(len(await asker.skills()))

        async with anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(ask)
        assert counts == [3] * 20
